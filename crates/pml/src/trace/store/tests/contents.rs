//! What is stored is found, counted, drawn, sent and deleted.

use std::{fs, path::PathBuf};

use pml_wire::{ExecutionId, trace::Timestamp};
use rusqlite::Connection;
use serde_json::{json, value::RawValue};

use super::{
    super::{Options, *},
    support::*,
};

#[tokio::test]
async fn a_trace_comes_back_as_it_was_and_its_code_is_kept_once() {
    let folder = folder();
    let traces = [trace(0), trace(1)];
    let store = open(&folder);
    put(&store, &traces).await;
    drop(store);
    let store = open(&folder);
    for trace in &traces {
        let found = store.by_id(trace.trace_id).await.unwrap().unwrap();
        assert_eq!(value(found.trace()), value(trace));
    }
    assert!(store.by_id(ExecutionId::mint()).await.unwrap().is_none());
    let programs = || {
        let db = Connection::open(file(&folder)).unwrap();
        db.query_row("SELECT count(*), coalesce(sum(uses), 0) FROM code", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        })
        .unwrap()
    };
    assert_eq!(programs(), (1, 2));
    assert_eq!(store.delete(Deletion::One(traces[0].trace_id)).await.unwrap(), 1);
    assert_eq!(programs(), (1, 1));
    assert_eq!(store.delete(Deletion::All).await.unwrap(), 1);
    assert_eq!(programs(), (0, 0));
}

#[tokio::test]
async fn what_is_deleted_is_gone_from_the_files() {
    let folder = folder();
    let store = open(&folder);
    let mut traces: Vec<_> = (0..250).map(trace).collect();
    traces[0].intent = Some("a-secret-that-slipped-through".to_owned());
    put(&store, &traces).await;
    let holds = |text: &str| {
        let files = fs::read_dir(folder.path().join("traces")).unwrap();
        let has = |path: PathBuf| fs::read(path).unwrap().windows(text.len()).any(|part| part == text.as_bytes());
        files.into_iter().any(|entry| has(entry.unwrap().path()))
    };
    assert!(holds("a-secret-that-slipped-through") && holds("intent number 200"));
    assert_eq!(store.delete(Deletion::One(traces[0].trace_id)).await.unwrap(), 1);
    assert!(!holds("a-secret-that-slipped-through"));
    assert_eq!(store.delete(Deletion::Before(Timestamp(BEGAN + 150))).await.unwrap(), 149);
    assert_eq!(ids(&store, Filter::default()).await.len(), 100);
    assert_eq!(store.delete(Deletion::One(traces[0].trace_id)).await.unwrap(), 0);
    assert_eq!(store.delete(Deletion::All).await.unwrap(), 100);
    assert!(!holds("intent number"));
    assert_eq!(store.stats(Filter::default()).await.unwrap().tools, []);
}

#[tokio::test]
async fn what_is_too_old_or_too_much_goes_first_stored_first() {
    let folder = folder();
    let noise = |number: u64| {
        let mut trace = trace(number);
        // So that compressing it saves little.
        let text: String =
            (0..400).map(|at| format!("{:x}", (number * 7919 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        trace.args = Some(RawValue::from_string(json!(text).to_string()).unwrap());
        trace
    };
    let traces: Vec<_> = (0..600).map(noise).collect();
    let store = open(&folder);
    put(&store, &traces).await;
    let before = store.stats(Filter::default()).await.unwrap().stored_bytes;
    let db = Connection::open(file(&folder)).unwrap();
    db.busy_timeout(PATIENCE).unwrap();
    db.execute("UPDATE trace SET stored_at = 5 WHERE seq <= 120", []).unwrap();
    assert_eq!(store.retain().await.unwrap(), 120);
    assert_eq!(ids(&store, Filter::default()).await.last(), Some(&traces[120].trace_id));
    drop(store);
    let max_bytes = before / 2;
    let store = SqliteStore::open(folder.path(), Options { max_bytes, ..Options::default() });
    let gone = store.retain().await.unwrap();
    let left = ids(&store, Filter::default()).await;
    assert!(gone > 0 && left.len() as u64 == 480 - gone, "{gone}");
    assert_eq!((left.first(), left.is_empty()), (Some(&traces[599].trace_id), false));
    assert!(store.stats(Filter::default()).await.unwrap().stored_bytes <= max_bytes);
    // What was freed is the system's again.
    drop(store);
    assert!(fs::metadata(file(&folder)).unwrap().len() < before, "of {before}");
}

#[tokio::test]
async fn raw_traces_are_in_a_file_of_their_own() {
    let folder = folder();
    let raw = RawStore::open(folder.path(), Options::default());
    let trace = trace(0);
    assert_eq!(raw.submit(trace.clone()).outcome().await, Some(Commit::Stored));
    assert_eq!(value(&raw.by_id(trace.trace_id).await.unwrap().unwrap()), value(&trace));
    let store = open(&folder);
    store.opened().await;
    assert!(store.by_id(trace.trace_id).await.unwrap().is_none());
    assert!(store.unsent(10).await.unwrap().is_empty());
}
