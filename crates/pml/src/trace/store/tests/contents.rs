//! What is stored is found, counted, drawn, sent and deleted.

use std::{fs, path::PathBuf};

use pml_wire::{
    ExecutionId,
    trace::{Timestamp, Truncated},
};
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
async fn the_same_trace_twice_is_one_and_another_of_its_id_is_told() {
    let folder = folder();
    let store = open(&folder);
    let first = trace(0);
    let mut other = first.clone();
    other.code = Some("return 2".to_owned());
    put(&store, std::slice::from_ref(&first)).await;
    assert_eq!(commit(&store, &first).await, Some(Commit::Duplicate));
    assert_eq!(commit(&store, &other).await, Some(Commit::Conflict));
    assert_eq!(value(store.by_id(first.trace_id).await.unwrap().unwrap().trace()), value(&first));
    let Counts { stored, duplicates, conflicts, .. } = store.health().counts;
    assert_eq!((stored, duplicates, conflicts), (1, 1, 1));
}

#[tokio::test]
async fn traces_are_found_by_what_they_are() {
    let folder = folder();
    let store = open(&folder);
    let mut traces: Vec<_> = (0..4).map(trace).collect();
    traces[0].success = false;
    traces[1].intent = Some("Überweise 5 €".to_owned());
    traces[2].client = None;
    traces[2].caller = "team-b".to_owned();
    traces[3].task_results[0].tool = "odd:[x]*".to_owned();
    put(&store, &traces).await;
    let some = |text: &str| Some(text.to_owned());
    let all = Filter::default;
    #[rustfmt::skip]
    let table = [
        (all(),                                                                         vec![3, 2, 1, 0]),
        (Filter { failed: true, ..all() },                                              vec![0]),
        (Filter { tool: some("fs:*"), ..all() },                                        vec![2, 1, 0]),
        (Filter { tool: some("*:sen?"), ..all() },                                      vec![3, 2, 1, 0]),
        (Filter { tool: some("odd:[x]?"), ..all() },                                    vec![3]),
        (Filter { tool: some("fs:reads"), ..all() },                                    vec![]),
        (Filter { intent: some("überWEISE"), ..all() },                                 vec![1]),
        (Filter { intent: some("%"), ..all() },                                         vec![]),
        (Filter { client: some("claude"), ..all() },                                    vec![3, 1, 0]),
        (Filter { client: some("TEAM-B"), ..all() },                                    vec![2]),
        (Filter { since: Some(Timestamp(BEGAN + 2)), ..all() },                         vec![3, 2]),
        (Filter { before: Some(Timestamp(BEGAN + 1)), ..all() },                        vec![0]),
        (Filter { since: Some(Timestamp(u64::MAX)), ..all() },                          vec![]),
        (Filter { failed: true, tool: some("fs:*"), intent: some("number"), ..all() },  vec![0]),
    ];
    for (filter, expected) in table {
        let expected: Vec<_> = expected.into_iter().map(|at: usize| traces[at].trace_id).collect();
        assert_eq!(ids(&store, filter.clone()).await, expected, "{filter:?}");
    }
    let summary = &store.list(all(), Reading::Newest, 1).await.unwrap().traces[0];
    assert_eq!(summary.tools, [("odd:[x]*".to_owned(), 1), ("mail:send".to_owned(), 1)]);
    assert_eq!((summary.tasks, summary.client.as_deref()), (2, Some("Claude Code")));
}

#[tokio::test]
async fn pages_have_each_trace_once_and_followers_miss_none() {
    let folder = folder();
    let store = open(&folder);
    // Three began in each millisecond.
    let traces: Vec<_> = (0..25).map(|number| trace(number / 3)).collect();
    put(&store, &traces[..20]).await;
    let end = store.list(Filter::default(), Reading::Newest, 1).await.unwrap().end;
    let (mut found, mut reading) = (Vec::new(), Reading::Newest);
    loop {
        let page = store.list(Filter::default(), reading, 6).await.unwrap();
        assert!(page.traces.len() <= 6);
        found.extend(page.traces.iter().map(|trace| trace.id));
        let Some(next) = page.next else { break };
        reading = Reading::Before(next.to_string().parse().unwrap());
    }
    let newest_first: Vec<_> = traces[..20].iter().rev().map(|trace| trace.trace_id).collect();
    assert_eq!(found, newest_first);

    put(&store, &traces[20..]).await;
    // One that began long before the others is new all the same.
    let mut late = trace(0);
    late.timestamp = Timestamp(5);
    put(&store, std::slice::from_ref(&late)).await;
    let (mut found, mut end) = (Vec::new(), end);
    loop {
        let page = store.list(Filter::default(), Reading::StoredAfter(end), 2).await.unwrap();
        end = page.end;
        if page.traces.is_empty() {
            break;
        }
        found.extend(page.traces.iter().map(|trace| trace.id));
    }
    let expected: Vec<_> = traces[20..].iter().chain([&late]).map(|trace| trace.trace_id).collect();
    assert_eq!(found, expected);
    // Numbers are not used again.
    store.delete(Deletion::All).await.unwrap();
    put(&store, &traces[..1]).await;
    assert_eq!(store.list(Filter::default(), Reading::StoredAfter(end), 9).await.unwrap().traces.len(), 1);
}

#[tokio::test]
async fn an_id_is_found_by_its_beginning() {
    let folder = folder();
    let store = open(&folder);
    let traces = [trace(0), trace(1)];
    put(&store, &traces).await;
    let id = traces[0].trace_id.to_string();
    let one = |found: Found| matches!(found, Found::One(id) if id == traces[0].trace_id);
    assert!(one(store.find(&id).await.unwrap()));
    assert!(one(store.find(&id.to_uppercase().replace('-', "")).await.unwrap()));
    assert!(one(store.find(&id[..35]).await.unwrap()));
    // Ids of the same millisecond begin alike.
    assert!(matches!(store.find(&id[..6]).await.unwrap(), Found::Several(ids) if ids.len() == 2));
    for nothing in ["", "-", "xyz", "ffffffff", &format!("{id}0"), &"0".repeat(100)] {
        assert!(matches!(store.find(nothing).await.unwrap(), Found::Nothing), "{nothing}");
    }
}

#[tokio::test]
async fn numbers_are_right() {
    let folder = folder();
    let store = open(&folder);
    let mut traces: Vec<_> = (0..100).map(trace).collect();
    for (number, trace) in traces.iter_mut().enumerate() {
        trace.task_results[0].duration_ms = (number + 1) as f64;
        trace.success = !number.is_multiple_of(10);
    }
    // One whose result was cut before it was stored.
    traces[0]
        .metadata
        .truncated
        .push(Truncated { path: "/taskResults/0/result/text".to_owned(), original_bytes: 40_000 });
    // A sum of hostile sizes does not fail the query.
    traces[1].metadata.truncated.push(Truncated { path: "/taskResults/0/args".to_owned(), original_bytes: u64::MAX });
    put(&store, &traces).await;
    let stats = store.stats(Filter::default()).await.unwrap();
    assert_eq!((stats.traces, stats.failed, stats.interrupted), (100, 10, 0));
    assert_eq!((stats.first, stats.last), (Some(Timestamp(BEGAN)), Some(Timestamp(BEGAN + 99))));
    let read = stats.tools.iter().find(|tool| tool.tool == "fs:read").unwrap();
    assert_eq!((read.calls, read.failed, read.p50_ms, read.p95_ms), (100, 0, 50.0, 95.0));
    let send = stats.tools.iter().find(|tool| tool.tool == "mail:send").unwrap();
    assert_eq!((send.calls, send.failed), (100, 100));
    let (result, answer) = (r#"{"text":""}"#.len() as u64 + 400, r#"{"lines":[1,2,3]}"#.len() as u64);
    assert_eq!(stats.tokens_kept_out(), (100 * (result - answer) + 40_000) / 4);
    let filter = Filter { tool: Some("fs:*".to_owned()), failed: true, ..Filter::default() };
    let stats = store.stats(filter).await.unwrap();
    assert_eq!((stats.traces, stats.tools.len(), stats.tools[0].calls), (10, 1, 10));
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
async fn the_outbox_knows_what_a_hub_has() {
    let folder = folder();
    let store = open(&folder);
    let traces: Vec<_> = (0..5).rev().map(trace).collect();
    put(&store, &traces).await;
    let unsent = async || {
        let outgoing = store.unsent(3).await.unwrap();
        outgoing.iter().map(|out| (out.trace.trace().timestamp.0 - BEGAN, out.attempts)).collect::<Vec<_>>()
    };
    let id = |began: usize| traces[4 - began].trace_id;
    assert_eq!(unsent().await, [(0, 0), (1, 0), (2, 0)]);
    assert_eq!(store.acknowledge(vec![id(0), id(2)]).await.unwrap(), 2);
    assert_eq!(store.acknowledge(vec![id(0)]).await.unwrap(), 0);
    assert_eq!(store.note_failure(vec![id(1), id(0)], "503").await.unwrap(), 1);
    assert_eq!(unsent().await, [(1, 1), (3, 0), (4, 0)]);
    assert_eq!(store.bury(vec![id(1), id(3)], "400: too old").await.unwrap(), 2);
    assert_eq!(unsent().await, [(4, 0)]);
    let stats = store.stats(Filter::default()).await.unwrap();
    assert_eq!((stats.unsent, stats.dead), (1, 2));
    assert_eq!(store.requeue().await.unwrap(), 2);
    assert_eq!(unsent().await, [(1, 0), (3, 0), (4, 0)]);
}

#[tokio::test]
async fn traces_are_drawn_by_their_priority() {
    let folder = folder();
    let store = open(&folder);
    let traces: Vec<_> = (0..3).map(trace).collect();
    put(&store, &traces).await;
    let priorities = [0.1, 0.9, f64::NAN];
    let set = traces.iter().zip(priorities).map(|(trace, priority)| (trace.trace_id, priority)).collect();
    assert_eq!(store.set_priorities(set).await.unwrap(), 3);
    let mut drawn = [0; 3];
    for seed in 0..600 {
        let sample = store.sample(1, 1.0, seed).await.unwrap();
        let at = traces.iter().position(|trace| trace.trace_id == sample[0].trace.trace().trace_id).unwrap();
        drawn[at] += 1;
        let expected = [0.1, 0.9, 0.5][at];
        assert!((sample[0].priority - expected).abs() < 1e-9 && (sample[0].probability - expected / 1.5).abs() < 1e-9);
    }
    // 40, 360 and 200 are expected.
    assert!((15..80).contains(&drawn[0]) && (300..420).contains(&drawn[1]), "{drawn:?}");
    let ids = async |seed| {
        let sample = store.sample(2, 0.6, seed).await.unwrap();
        sample.iter().map(|sampled| sampled.trace.trace().trace_id).collect::<Vec<_>>()
    };
    let two = ids(7).await;
    assert_eq!(two, ids(7).await);
    assert!(two.len() == 2 && two[0] != two[1]);
    assert_eq!(store.sample(10, 1.0, 1).await.unwrap().len(), 3);
}

#[tokio::test]
async fn hostile_traces_are_stored_or_counted_and_break_nothing() {
    let folder = folder();
    let store = open(&folder);
    let raw = |text: String| Some(RawValue::from_string(text).unwrap());
    let mut traces: Vec<_> = (0..6).map(trace).collect();
    traces[0].args = raw(format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)));
    traces[1].result = raw(json!("y".repeat(4_000_000)).to_string());
    traces[2].intent = Some("\u{202e}\u{200b}\0\x1b[31m\u{e0041} \u{10ffff}".repeat(200));
    traces[2].task_results[0].tool = "a\nb:".to_owned() + &"🦀".repeat(5000);
    traces[3].timestamp = Timestamp(u64::MAX);
    traces[3].duration_ms = 1e308;
    traces[4].timestamp = Timestamp(0);
    traces[4].duration_ms = -5.0;
    traces[5].task_results = (0..3000).map(|_| trace(0).task_results.remove(0)).collect();
    put(&store, &traces).await;
    for trace in &traces {
        let found = store.by_id(trace.trace_id).await.unwrap().unwrap();
        assert_eq!(serde_json::to_string(found.trace()).unwrap(), serde_json::to_string(trace).unwrap());
    }
    let mut huge = trace(9);
    huge.result = raw(json!("z".repeat(20_000_000)).to_string());
    assert_eq!(commit(&store, &huge).await, None);
    assert_eq!(store.health().counts.too_large, 1);
    let stats = store.stats(Filter::default()).await.unwrap();
    assert_eq!((stats.traces, stats.last), (6, Some(Timestamp(i64::MAX as u64))));
    assert_eq!(ids(&store, Filter::default()).await.first(), Some(&traces[3].trace_id));
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
