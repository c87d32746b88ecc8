//! `POST /api/traces`: decompressed, read, checked, cleaned and stored, each trace for itself.
//!
//! What is wrong with one trace is told of that trace, and the others are stored. The answer is given when what it acknowledges
//! is committed.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{http::StatusCode, response::Response};
use pml_wire::{
    CapabilityId, ExecutionId,
    hub::{Code, IngestError, IngestReply, IngestRequest, MAX_TRACES},
    trace::Trace,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout};

use super::{
    super::{service::Hub, store::Key},
    call::{Call, blocking},
    encoding::Encoding,
    problem,
    problem::Problem,
};
use crate::{
    clock::now_millis,
    trace::{
        SanitizedTrace,
        store::{Answer, Commit, Fqdn, Ingested, Scope, Store},
    },
};

/// How long a request waits for its commit. What is committed later is a duplicate when it is sent again.
const COMMIT: Duration = Duration::from_secs(20);
/// How long it waits for a store that cannot write, and how often that is looked at.
const STUCK: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(250);
/// Longest duration of an execution or a call: a year.
const MAX_DURATION_MS: f64 = 366.0 * 24.0 * 60.0 * 60.0 * 1000.0;
/// How far ahead of this clock a trace may claim to be from.
const MAX_AHEAD_MS: u64 = 24 * 60 * 60 * 1000;

pub(super) async fn post(call: Call) -> Result<Response, Problem> {
    let encoding = Encoding::of(&call.headers)?;
    let (call, received) = call.read().await?;
    let (hub, Key { scope, name, .. }) = (call.hub, call.caller.key);
    if !hub.store.state().is_well() {
        // Fails now, rather than after a wait for what may take long.
        hub.soon(hub.store.ready()).await?;
    }
    let store = hub.store.of(&scope);
    let turn = Arc::clone(&hub.turns).acquire_owned().await;
    let (worker, taker, of) = (Arc::clone(&hub), Arc::clone(&store), scope.clone());
    let (batch, committing) = blocking(move || {
        let batch = worker.prepare(encoding, received.bytes, &of)?;
        let Prepared { batch, traces } = batch;
        let committing = taker.ingest(traces, Some(&name));
        drop(turn);
        Ok::<(Batch, Answer<'static, Vec<Ingested>>), Problem>((batch, committing))
    })
    .await??;
    let outcomes = tokio::select! {
        committed = timeout(COMMIT, committing) => committed.map_err(|_| hub.late())??,
        () = stuck(&hub) => return Err(hub.late()),
    };
    let reply = hub.conclude(batch, outcomes, store, scope.org()).await?;
    // Held until here, so that whoever sends much waits for the disk.
    drop(received.room);
    Ok(problem::json(StatusCode::OK, &reply))
}

/// Comes back when the store has been unable to write for some time.
async fn stuck(hub: &Hub) {
    let mut since = Instant::now();
    loop {
        sleep(LOOK).await;
        match hub.store.state().is_well() {
            true => since = Instant::now(),
            false if since.elapsed() >= STUCK => return,
            false => {}
        }
    }
}

/// Traces that can be stored, and the batch that they are of.
struct Prepared {
    batch: Batch,
    traces: Vec<SanitizedTrace>,
}

/// What is known of a request while its traces are stored.
struct Batch {
    plain: Vec<u8>,
    received: usize,
    /// Those that are stored: which of the request, and their ids.
    sent: Vec<(usize, ExecutionId)>,
    errors: Vec<IngestError>,
}

impl Hub {
    fn prepare(&self, encoding: Encoding, bytes: Vec<u8>, scope: &Scope) -> Result<Prepared, Problem> {
        let plain = encoding.decode(bytes)?;
        let mut batch = Batch { received: 0, sent: Vec::new(), errors: Vec::new(), plain: Vec::new() };
        let mut traces = Vec::new();
        {
            let request = read(&plain)?;
            batch.received = request.len();
            let mut parsed: Vec<_> = request.iter().map(|text| check(text, scope)).collect();
            for index in cyclic(&parsed) {
                parsed[index] = Err((Code::InvalidTrace, "it is its own ancestor".to_owned()));
            }
            for (index, (trace, text)) in parsed.into_iter().zip(&request).enumerate() {
                match trace {
                    Ok(trace) => {
                        batch.sent.push((index, trace.trace_id));
                        traces.push(self.sanitizer.trace(trace));
                    }
                    Err((code, message)) => batch.errors.push(error(index, id_of(text), code, message)),
                }
            }
        }
        batch.plain = plain;
        Ok(Prepared { batch, traces })
    }

    /// The answer to a batch.
    async fn conclude(
        self: &Arc<Self>,
        mut batch: Batch,
        outcomes: Vec<Ingested>,
        store: Arc<dyn Store>,
        org: &str,
    ) -> Result<IngestReply, Problem> {
        let mut reply = IngestReply { received: batch.received as u64, ..IngestReply::default() };
        let mut conflicts = Vec::new();
        for ((index, id), outcome) in batch.sent.iter().zip(outcomes) {
            match outcome {
                Ingested::Committed(Commit::Stored) => reply.stored += 1,
                Ingested::Committed(Commit::Duplicate) => reply.duplicates += 1,
                Ingested::Committed(Commit::Conflict) => {
                    if let Some(stored) = self.soon(store.by_id(*id)).await? {
                        conflicts.push((*index, *id, stored));
                    }
                    continue;
                }
                Ingested::Committed(Commit::Endless) => {
                    let why = "it is its own ancestor, or has more than 128".to_owned();
                    batch.errors.push(error(*index, Some(id.to_string()), Code::InvalidTrace, why));
                    continue;
                }
                Ingested::Refused(why) => {
                    batch.errors.push(error(*index, Some(id.to_string()), Code::InvalidTrace, why));
                    continue;
                }
            }
            reply.acknowledged.push(id.to_string());
        }
        if !conflicts.is_empty() {
            let (hub, plain) = (Arc::clone(self), std::mem::take(&mut batch.plain));
            for (index, id, is_same) in blocking(move || hub.compare(&plain, conflicts)).await? {
                match is_same {
                    true => {
                        reply.duplicates += 1;
                        reply.acknowledged.push(id.to_string());
                    }
                    false => {
                        let message = "another trace of this id is stored".to_owned();
                        batch.errors.push(error(index, Some(id.to_string()), Code::Conflict, message));
                    }
                }
            }
        }
        batch.errors.sort_by_key(|error| error.index);
        reply.errors = batch.errors;
        let counts = self.counts(org);
        counts.received.fetch_add(reply.received, Ordering::Relaxed);
        counts.stored.fetch_add(reply.stored, Ordering::Relaxed);
        counts.duplicates.fetch_add(reply.duplicates, Ordering::Relaxed);
        counts.rejected.fetch_add(reply.errors.len() as u64, Ordering::Relaxed);
        Ok(reply)
    }

    /// Which of these are the same as what is stored, if that is cleaned by the rules of now? They may have been others when it
    /// was stored.
    fn compare(
        &self,
        plain: &[u8],
        conflicts: Vec<(usize, ExecutionId, SanitizedTrace)>,
    ) -> Vec<(usize, ExecutionId, bool)> {
        let request = read(plain).unwrap_or_default();
        let text = |trace: Trace| serde_json::to_string(self.sanitizer.trace(trace).trace()).ok();
        let is_same = |index: usize, stored: SanitizedTrace| {
            let sent = request.get(index).and_then(|text| serde_json::from_str(text.get()).ok()).and_then(text);
            sent.is_some() && sent == text(stored.into_inner())
        };
        conflicts.into_iter().map(|(index, id, stored)| (index, id, is_same(index, stored))).collect()
    }
}

fn read(plain: &[u8]) -> Result<Vec<&RawValue>, Problem> {
    let request: IngestRequest<'_> = serde_json::from_slice(plain)
        .map_err(|err| Problem::invalid(format!("the body is not `{{\"traces\": […]}}`: {err}")))?;
    match request.traces.len() > MAX_TRACES {
        true => Err(Problem::new(Code::TooManyTraces, format!("a request may have {MAX_TRACES} traces"))),
        false => Ok(request.traces),
    }
}

type Checked = Result<Trace, (Code, String)>;

/// Reads a trace, and checks what can be wrong with one that can be read.
fn check(text: &RawValue, scope: &Scope) -> Checked {
    let trace: Trace = serde_json::from_str(text.get()).map_err(|err| (Code::InvalidTrace, err.to_string()))?;
    if trace.timestamp.0 > now_millis().saturating_add(MAX_AHEAD_MS) {
        return Err((Code::InvalidTrace, format!("its time, {}, has not come yet", trace.timestamp)));
    }
    let tasks = trace.task_results.iter().map(|task| task.duration_ms);
    if let Some(duration) = tasks.chain([trace.duration_ms]).find(|ms| !(0.0..=MAX_DURATION_MS).contains(ms)) {
        return Err((Code::InvalidTrace, format!("a duration of {duration:e} ms is none")));
    }
    if let Some(name) = trace.capability_id.as_deref().filter(|name| name.parse::<CapabilityId>().is_err()) {
        let name: Fqdn = name.parse().map_err(|err| (Code::InvalidCapability, format!("`capabilityId`: {err}")))?;
        if name.scope.org() != scope.org() && name.scope != Scope::local() {
            let message = format!("`{name}` is a capability of another organisation than `{}`", scope.org());
            return Err((Code::ForeignCapability, message));
        }
    }
    Ok(trace)
}

/// Those of a request that are their own ancestors, within it.
fn cyclic(traces: &[Checked]) -> Vec<usize> {
    let good = || traces.iter().flatten();
    let parents: HashMap<_, _> = good().filter_map(|trace| Some((trace.trace_id, trace.parent_trace_id?))).collect();
    let is_cyclic = |trace: &Trace| {
        let mut ancestor = parents.get(&trace.trace_id);
        for _ in 0..=traces.len() {
            match ancestor {
                Some(id) if *id == trace.trace_id => return true,
                Some(id) => ancestor = parents.get(id),
                None => return false,
            }
        }
        false
    };
    let indices = traces.iter().enumerate();
    indices.filter(|(_, trace)| trace.as_ref().is_ok_and(is_cyclic)).map(|(index, _)| index).collect()
}

/// So much of what is said to be an id is said again.
const MAX_ID_CHARS: usize = 64;

/// What the sender calls a trace that cannot be read as a whole.
fn id_of(text: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Named {
        trace_id: String,
    }
    let id = serde_json::from_str::<Named>(text.get()).ok()?.trace_id;
    Some(id.chars().take(MAX_ID_CHARS).collect())
}

fn error(index: usize, trace_id: Option<String>, code: Code, message: String) -> IngestError {
    IngestError { trace_id, index: index as u64, code: code.as_str().to_owned(), message }
}
