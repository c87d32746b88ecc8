//! Traces to store, and ways to ask for them.

use std::{path::PathBuf, sync::Arc, time::Duration};

use pml_wire::{
    ExecutionId,
    trace::{Timestamp, Trace},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::{Options, *};
use crate::trace::{SanitizedHead, SanitizedTrace, TraceHead};

/// Only separates "it comes" from "it never does".
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
pub(super) const BEGAN: u64 = 1_790_000_000_000;

pub(super) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub(super) fn open(folder: &TempDir) -> SqliteStore {
    SqliteStore::open(folder.path(), Options::default())
}

/// Runs a test of the contract on a new folder.
async fn with_sqlite(test: impl AsyncFnOnce(Arc<dyn Stores>)) {
    let folder = folder();
    test(Arc::new(SqliteStores::open(folder.path(), Options::default()))).await;
}

super::contract::contract_tests! { with_sqlite }

pub(super) fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("traces/traces.db")
}

/// A trace with two tasks that began so many milliseconds after the first.
pub(super) fn trace(after: u64) -> Trace {
    let moment = Timestamp(BEGAN + after);
    let trace = json!({
        "traceId": ExecutionId::mint(),
        "entry": "execute_code",
        "intent": format!("intent number {after}"),
        "caller": "agent",
        "client": {"name": "Claude Code", "version": "2.1"},
        "success": true,
        "durationMs": 12.5,
        "timestamp": moment,
        "code": "return await mcp.fs.read({ path: 'a' })",
        "codeHash": "ab".repeat(32),
        "args": {"n": after},
        "result": {"lines": [1, 2, 3]},
        "logs": [{"level": "log", "text": "hello"}],
        "decisions": [{"nodeId": "d1", "outcome": "true", "condition": "a > b"}],
        "taskResults": [
            {"taskId": "t1", "callId": 1, "tool": "fs:read", "args": {"path": "a"}, "result": {"text": "x".repeat(400)},
             "success": true, "timestamp": moment, "durationMs": 3.0, "layerIndex": 1, "line": 1},
            {"taskId": "t2", "callId": 2, "tool": "mail:send", "success": false, "timestamp": moment, "durationMs": 5.0,
             "layerIndex": 2, "error": {"code": "TOOL_ERROR", "message": "no"}},
        ],
        "metadata": {"pmlVersion": "0.1.0", "schemaVersion": 1},
    });
    serde_json::from_value(trace).unwrap()
}

pub(super) fn head(trace: &Trace) -> SanitizedHead {
    SanitizedHead::new(TraceHead {
        trace_id: trace.trace_id,
        capability_id: None,
        parent_trace_id: None,
        entry: trace.entry,
        timestamp: trace.timestamp,
        intent: trace.intent.clone(),
        caller: trace.caller.clone(),
        client: trace.client.clone(),
        code_hash: trace.code_hash.clone(),
    })
}

pub(super) async fn commit(store: &dyn Store, trace: &Trace) -> Option<Commit> {
    let receipt = store.submit(SanitizedTrace::new(trace.clone()));
    tokio::time::timeout(PATIENCE, receipt.outcome()).await.expect("an outcome")
}

pub(super) async fn put(store: &dyn Store, traces: &[Trace]) {
    for trace in traces {
        assert_eq!(commit(store, trace).await, Some(Commit::Stored));
    }
}

pub(super) async fn ingest(store: &dyn Store, traces: &[Trace]) -> Vec<Ingested> {
    let traces = traces.iter().cloned().map(SanitizedTrace::new).collect();
    tokio::time::timeout(PATIENCE, store.ingest(traces, Some("ci"))).await.expect("an answer").unwrap()
}

pub(super) async fn ids(store: &dyn Store, filter: Filter) -> Vec<ExecutionId> {
    store.list(filter, Reading::Newest, 1000).await.unwrap().traces.iter().map(|trace| trace.id).collect()
}

pub(super) fn value(trace: &Trace) -> Value {
    serde_json::to_value(trace).unwrap()
}

pub(super) async fn until(store: &dyn Store, is_so: impl Fn(&Health) -> bool) -> Health {
    for _ in 0..PATIENCE.as_millis() / 5 {
        if is_so(&store.health()) {
            return store.health();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{:?}", store.health());
}
