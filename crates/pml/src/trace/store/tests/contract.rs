//! What every store must do, whatever keeps the traces.
//!
//! Each test is a function over [`Stores`], and [`contract_tests`] makes tests of all of them on stores of one kind.

use std::sync::Arc;

use pml_wire::{
    CapabilityId, ExecutionId,
    trace::{Client, Timestamp, Truncated},
};
use serde_json::{json, value::RawValue};

use super::{super::*, support::*};

/// Tests of every function of the contract. `$with` is a function that opens empty stores and hands them to a test.
macro_rules! contract_tests {
    ($with:path: $($test:ident,)*) => {
        $(
            #[tokio::test]
            async fn $test() {
                $with($crate::trace::store::tests::contract::$test).await;
            }
        )*
    };
    ($with:path) => {
        $crate::trace::store::tests::contract::contract_tests! { $with:
            the_same_trace_twice_is_one_and_another_of_its_id_is_told,
            traces_are_found_by_what_they_are,
            pages_have_each_trace_once_and_followers_miss_none,
            an_id_is_found_by_its_beginning,
            numbers_are_right,
            the_outbox_knows_what_a_hub_has,
            traces_are_drawn_by_their_priority,
            hostile_traces_are_stored_or_counted_and_break_nothing,
            nothing_of_one_scope_is_seen_or_changed_from_another,
            traces_from_elsewhere_are_answered_one_by_one,
            no_trace_from_elsewhere_becomes_its_own_ancestor,
            the_oldest_successes_leave_a_full_outbox_first,
            the_outbox_says_why,
            only_one_has_the_turn_to_send,
            a_record_has_what_is_known_besides,
        }
    };
}
pub(crate) use contract_tests;

pub(crate) async fn the_same_trace_twice_is_one_and_another_of_its_id_is_told(stores: Arc<dyn Stores>) {
    let store = &*stores.of(&Scope::local());
    let first = trace(0);
    let mut other = first.clone();
    other.code = Some("return 2".to_owned());
    put(store, std::slice::from_ref(&first)).await;
    assert_eq!(commit(store, &first).await, Some(Commit::Duplicate));
    assert_eq!(commit(store, &other).await, Some(Commit::Conflict));
    assert_eq!(value(store.by_id(first.trace_id).await.unwrap().unwrap().trace()), value(&first));
    let Counts { stored, duplicates, conflicts, .. } = store.health().counts;
    assert_eq!((stored, duplicates, conflicts), (1, 1, 1));
}

pub(crate) async fn traces_are_found_by_what_they_are(stores: Arc<dyn Stores>) {
    let store = &*stores.of(&Scope::local());
    let mut traces: Vec<_> = (0..4).map(trace).collect();
    traces[0].success = false;
    traces[1].intent = Some("Überweise 5 €".to_owned());
    traces[2].client = None;
    traces[2].caller = "team-b".to_owned();
    traces[3].task_results[0].tool = "odd:[x]*".to_owned();
    put(store, &traces).await;
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
        (Filter { intent: some("\0"), ..all() },                                        vec![]),
        (Filter { client: some("claude"), ..all() },                                    vec![3, 1, 0]),
        (Filter { client: some("TEAM-B"), ..all() },                                    vec![2]),
        (Filter { since: Some(Timestamp(BEGAN + 2)), ..all() },                         vec![3, 2]),
        (Filter { before: Some(Timestamp(BEGAN + 1)), ..all() },                        vec![0]),
        (Filter { since: Some(Timestamp(u64::MAX)), ..all() },                          vec![]),
        (Filter { failed: true, tool: some("fs:*"), intent: some("number"), ..all() },  vec![0]),
    ];
    for (filter, expected) in table {
        let expected: Vec<_> = expected.into_iter().map(|at: usize| traces[at].trace_id).collect();
        assert_eq!(ids(store, filter.clone()).await, expected, "{filter:?}");
    }
    let summary = &store.list(all(), Reading::Newest, 1).await.unwrap().traces[0];
    assert_eq!(summary.tools, [("odd:[x]*".to_owned(), 1), ("mail:send".to_owned(), 1)]);
    assert_eq!((summary.tasks, summary.client.as_deref()), (2, Some("Claude Code")));
}

pub(crate) async fn pages_have_each_trace_once_and_followers_miss_none(stores: Arc<dyn Stores>) {
    let store = &*stores.of(&Scope::local());
    // Three began in each millisecond.
    let traces: Vec<_> = (0..25).map(|number| trace(number / 3)).collect();
    put(store, &traces[..20]).await;
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

    put(store, &traces[20..]).await;
    // One that began long before the others is new all the same.
    let mut late = trace(0);
    late.timestamp = Timestamp(5);
    put(store, std::slice::from_ref(&late)).await;
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
    put(store, &traces[..1]).await;
    assert_eq!(store.list(Filter::default(), Reading::StoredAfter(end), 9).await.unwrap().traces.len(), 1);
}

pub(crate) async fn an_id_is_found_by_its_beginning(stores: Arc<dyn Stores>) {
    let store = &*stores.of(&Scope::local());
    let traces = [trace(0), trace(1)];
    put(store, &traces).await;
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

pub(crate) async fn numbers_are_right(stores: Arc<dyn Stores>) {
    let store = &*stores.of(&Scope::local());
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
    put(store, &traces).await;
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

pub(crate) async fn the_outbox_knows_what_a_hub_has(stores: Arc<dyn Stores>) {
    let store = &*stores.of(&Scope::local());
    let traces: Vec<_> = (0..5).rev().map(trace).collect();
    put(store, &traces).await;
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
    // A hub may have lost what it had: of 0 and 2, that is 2.
    assert_eq!(store.resend(Timestamp(BEGAN + 1)).await.unwrap(), 1);
    assert_eq!(unsent().await, [(1, 0), (2, 0), (3, 0)]);
    assert_eq!(store.resend(Timestamp(BEGAN + 1)).await.unwrap(), 0);
    assert_eq!(store.resend(Timestamp(0)).await.unwrap(), 1);
    // More of them than are changed in one transaction.
    let more: Vec<_> = (10..1110).map(trace).collect();
    put(store, &more).await;
    let ids = more.iter().map(|trace| trace.trace_id).collect();
    assert_eq!(store.acknowledge(ids).await.unwrap(), 1100);
    assert_eq!(store.resend(Timestamp(BEGAN + 20)).await.unwrap(), 1090);
}

pub(crate) async fn traces_are_drawn_by_their_priority(stores: Arc<dyn Stores>) {
    let store = &*stores.of(&Scope::local());
    let traces: Vec<_> = (0..3).map(trace).collect();
    put(store, &traces).await;
    let priorities = [0.1, 0.9, f64::NAN];
    let set = traces.iter().zip(priorities).map(|(trace, priority)| (trace.trace_id, priority)).collect();
    assert_eq!(store.set_priorities(set).await.unwrap(), 3);
    let mut drawn = [0; 3];
    for seed in 0..600 {
        let sample = store.sample(1, 1.0, seed, usize::MAX).await.unwrap().traces;
        let at = traces.iter().position(|trace| trace.trace_id == sample[0].trace.trace().trace_id).unwrap();
        drawn[at] += 1;
        let expected = [0.1, 0.9, 0.5][at];
        assert!((sample[0].priority - expected).abs() < 1e-9 && (sample[0].probability - expected / 1.5).abs() < 1e-9);
    }
    // 40, 360 and 200 are expected.
    assert!((15..80).contains(&drawn[0]) && (300..420).contains(&drawn[1]), "{drawn:?}");
    let ids = async |seed| {
        let sample = store.sample(2, 0.6, seed, usize::MAX).await.unwrap().traces;
        sample.iter().map(|sampled| sampled.trace.trace().trace_id).collect::<Vec<_>>()
    };
    let two = ids(7).await;
    assert_eq!(two, ids(7).await);
    assert!(two.len() == 2 && two[0] != two[1]);
    let all = store.sample(10, 1.0, 1, usize::MAX).await.unwrap();
    assert_eq!((all.traces.len(), all.left), (3, 0));
    let cut = store.sample(10, 1.0, 1, 1).await.unwrap();
    assert_eq!((cut.traces.len(), cut.left), (1, 2), "one is returned whatever its size");
}

pub(crate) async fn hostile_traces_are_stored_or_counted_and_break_nothing(stores: Arc<dyn Stores>) {
    let store = &*stores.of(&Scope::local());
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
    traces[4].client = Some(Client { name: "nul\0client".to_owned(), version: None });
    traces[4].task_results[0].tool = "nul\0:tool".to_owned();
    traces[5].task_results = (0..3000).map(|_| trace(0).task_results.remove(0)).collect();
    put(store, &traces).await;
    for trace in &traces {
        let found = store.by_id(trace.trace_id).await.unwrap().unwrap();
        assert_eq!(serde_json::to_string(found.trace()).unwrap(), serde_json::to_string(trace).unwrap());
    }
    let mut huge = trace(9);
    huge.result = raw(json!("z".repeat(20_000_000)).to_string());
    assert_eq!(commit(store, &huge).await, None);
    assert_eq!(store.health().counts.too_large, 1);
    let stats = store.stats(Filter::default()).await.unwrap();
    assert_eq!((stats.traces, stats.last), (6, Some(Timestamp(i64::MAX as u64))));
    assert_eq!(ids(store, Filter::default()).await.first(), Some(&traces[3].trace_id));
    // What has NUL is listed and found alike on every database.
    let named = |tool: &str| Filter { tool: Some(tool.to_owned()), ..Filter::default() };
    let page = store.list(named("nul\0:*"), Reading::Newest, 10).await.unwrap();
    let [found] = &page.traces[..] else { panic!("{page:?}") };
    assert_eq!(found.client.as_deref(), Some("nul\u{fffd}client"));
    assert_eq!(found.tools[0].0, "nul\u{fffd}:tool");
    assert_eq!(ids(store, named("nul\0")).await, []);
    let client = Filter { client: Some("NUL\0cli".to_owned()), ..Filter::default() };
    assert_eq!(ids(store, client).await, [traces[4].trace_id]);
}

pub(crate) async fn nothing_of_one_scope_is_seen_or_changed_from_another(stores: Arc<dyn Stores>) {
    let (acme, other) = (Scope::new("acme", "web").unwrap(), Scope::new("acme", "app").unwrap());
    let mine = &*stores.of(&acme);
    let strangers = [stores.of(&other), stores.of(&Scope::new("evil", "web").unwrap()), stores.of(&Scope::local())];
    let traces: Vec<_> = (0..3).map(trace).collect();
    put(mine, &traces[..2]).await;
    assert_eq!(ingest(mine, &traces[2..]).await, [Ingested::Committed(Commit::Stored)]);
    let all: Vec<_> = traces.iter().map(|trace| trace.trace_id).collect();
    for stranger in &strangers {
        let stranger = &**stranger;
        for id in &all {
            assert!(stranger.record(*id).await.unwrap().is_none());
            assert!(matches!(stranger.find(&id.to_string()).await.unwrap(), Found::Nothing));
        }
        for reading in [Reading::Newest, Reading::StoredAfter(Cursor::default())] {
            let page = stranger.list(Filter::default(), reading, 100).await.unwrap();
            assert!(page.traces.is_empty() && page.next.is_none());
        }
        let stats = stranger.stats(Filter::default()).await.unwrap();
        assert_eq!((stats.traces, stats.tools.len(), stats.unsent, stats.first), (0, 0, 0, None));
        assert!(stranger.unsent(10).await.unwrap().is_empty());
        assert!(stranger.sample(10, 1.0, 1, usize::MAX).await.unwrap().traces.is_empty());
        assert_eq!(stranger.outbox().await.unwrap(), Outbox::default());
        assert_eq!(stranger.acknowledge(all.clone()).await.unwrap(), 0);
        assert_eq!(stranger.note_failure(all.clone(), "no").await.unwrap(), 0);
        assert_eq!(stranger.bury(all.clone(), "no").await.unwrap(), 0);
        assert_eq!(stranger.requeue().await.unwrap(), 0);
        assert_eq!(stranger.resend(Timestamp(0)).await.unwrap(), 0);
        assert_eq!(stranger.trim_outbox(0).await.unwrap(), 0);
        assert_eq!(stranger.set_priorities(all.iter().map(|id| (*id, 1.0)).collect()).await.unwrap(), 0);
        for what in [Deletion::One(all[0]), Deletion::Before(Timestamp(u64::MAX)), Deletion::All] {
            assert_eq!(stranger.delete(what).await.unwrap(), 0);
        }
    }
    assert_eq!(mine.unsent(10).await.unwrap().len(), 2);
    assert_eq!(ids(mine, Filter::default()).await.len(), 3);
    // The same id in another scope is another trace.
    let mut theirs = traces[0].clone();
    theirs.intent = Some("something else".to_owned());
    put(&*strangers[0], std::slice::from_ref(&theirs)).await;
    let intent = async |store: &dyn Store| store.by_id(all[0]).await.unwrap().unwrap().into_inner().intent;
    assert_eq!(intent(mine).await.as_deref(), Some("intent number 0"));
    assert_eq!(intent(&*strangers[0]).await.as_deref(), Some("something else"));
    assert_eq!(strangers[0].delete(Deletion::All).await.unwrap(), 1);
    assert_eq!(mine.delete(Deletion::All).await.unwrap(), 3);
}

pub(crate) async fn traces_from_elsewhere_are_answered_one_by_one(stores: Arc<dyn Stores>) {
    let store = &*stores.of(&Scope::new("acme", "web").unwrap());
    let traces: Vec<_> = (0..50).map(trace).collect();
    let stored = Ingested::Committed(Commit::Stored);
    assert_eq!(ingest(store, &traces).await, vec![stored.clone(); 50]);
    let mut other = traces[1].clone();
    other.result = None;
    let mut interrupted = traces[2].clone();
    interrupted.metadata.interrupted = true;
    let mut huge = trace(99);
    huge.result = Some(RawValue::from_string(json!("z".repeat(20_000_000)).to_string()).unwrap());
    let fresh = trace(60);
    let mixed = [traces[0].clone(), other, interrupted, huge, fresh.clone(), fresh];
    let answers = ingest(store, &mixed).await;
    let expected = [
        Ingested::Committed(Commit::Duplicate),
        Ingested::Committed(Commit::Conflict),
        Ingested::Committed(Commit::Duplicate),
        answers[3].clone(),
        stored,
        Ingested::Committed(Commit::Duplicate),
    ];
    assert!(matches!(&answers[3], Ingested::Refused(_)), "{:?}", answers[3]);
    assert_eq!(answers, expected);
    assert_eq!(ids(store, Filter::default()).await.len(), 51);
    assert!(store.unsent(10).await.unwrap().is_empty(), "they have been sent");
    assert_eq!(ingest(store, &[]).await, []);
    // Many at once, with the same traces in several of them.
    let more: Vec<_> = (100..200).map(trace).collect();
    let answers = futures_util::future::join_all((0..8).map(|_| ingest(store, &more))).await;
    let count = |what: &Ingested| answers.iter().flatten().filter(|answer| *answer == what).count();
    assert_eq!(count(&Ingested::Committed(Commit::Stored)), 100);
    assert_eq!(count(&Ingested::Committed(Commit::Duplicate)), 700);
    assert_eq!(ids(store, Filter::default()).await.len(), 151);
}

pub(crate) async fn no_trace_from_elsewhere_becomes_its_own_ancestor(stores: Arc<dyn Stores>) {
    let store = &*stores.of(&Scope::new("acme", "web").unwrap());
    let (stored, endless) = (Ingested::Committed(Commit::Stored), Ingested::Committed(Commit::Endless));
    // Each is the child of the next, and the last has no parent yet.
    let chain = |count: u64| {
        let mut traces: Vec<_> = (0..count).map(trace).collect();
        for at in 1..traces.len() {
            traces[at - 1].parent_trace_id = Some(traces[at].trace_id);
        }
        traces
    };
    // The first ones come alone, in both directions; the last one closes the circle and comes with others.
    let mut three = chain(3);
    three[2].parent_trace_id = Some(three[0].trace_id);
    let other = trace(9);
    assert_eq!(ingest(store, &three[1..2]).await, vec![stored.clone()]);
    assert_eq!(ingest(store, &three[..1]).await, vec![stored.clone()]);
    let mixed = [other.clone(), three[2].clone(), trace(10)];
    assert_eq!(ingest(store, &mixed).await, [stored.clone(), endless.clone(), stored.clone()]);
    assert!(store.by_id(three[2].trace_id).await.unwrap().is_none());
    assert_eq!(store.health().counts.refused, 1);
    // Those that are stored are duplicates and no culprits, and the refused one is taken without its parent.
    assert_eq!(ingest(store, &three[..2]).await, vec![Ingested::Committed(Commit::Duplicate); 2]);
    three[2].parent_trace_id = Some(ExecutionId::mint());
    assert_eq!(ingest(store, &three[2..]).await, vec![stored.clone()]);
    // All in one batch.
    let mut three = chain(3);
    three[2].parent_trace_id = Some(three[0].trace_id);
    assert_eq!(ingest(store, &three).await, [stored.clone(), stored.clone(), endless.clone()]);
    let mut own = trace(20);
    own.parent_trace_id = Some(own.trace_id);
    assert_eq!(ingest(store, &[own]).await, vec![endless.clone()]);
    // One that was taken for dead is replaced by one that has another parent.
    let mut pair = chain(2);
    let mut dead = pair[1].clone();
    dead.metadata.interrupted = true;
    assert_eq!(ingest(store, &[dead, pair[0].clone()]).await, vec![stored.clone(); 2]);
    pair[1].parent_trace_id = Some(pair[0].trace_id);
    assert_eq!(ingest(store, &pair[1..]).await, vec![endless.clone()]);
    // Many ancestors are well, too many are not, whether they are stored or come along.
    let deep = chain(129);
    let answers = ingest(store, &deep).await;
    assert_eq!(answers, vec![stored.clone(); 129]);
    let mut deeper = chain(2);
    deeper[1].parent_trace_id = Some(deep[0].trace_id);
    assert_eq!(ingest(store, &deeper).await, [stored.clone(), endless]);
    // The same ids of another scope have nothing to do with it.
    let stranger = &*stores.of(&Scope::new("evil", "web").unwrap());
    let mut theirs = trace(30);
    theirs.trace_id = deep[128].trace_id;
    theirs.parent_trace_id = Some(deep[0].trace_id);
    assert_eq!(ingest(stranger, &[theirs]).await, [stored]);
}

pub(crate) async fn the_oldest_successes_leave_a_full_outbox_first(stores: Arc<dyn Stores>) {
    let store = &*stores.of(&Scope::local());
    let mut traces: Vec<_> = (0..20).map(trace).collect();
    traces[0].success = false;
    traces[5].success = false;
    put(store, &traces).await;
    let before = store.outbox().await.unwrap();
    assert_eq!((before.unsent, before.oldest), (20, Some(Timestamp(BEGAN))));
    assert_eq!(store.trim_outbox(before.unsent_bytes).await.unwrap(), 0);
    let gone = store.trim_outbox(before.unsent_bytes / 2).await.unwrap();
    let outbox = store.outbox().await.unwrap();
    assert!(outbox.unsent_bytes <= before.unsent_bytes / 2 && outbox.unsent == 20 - gone, "{outbox:?}");
    assert_eq!((outbox.dropped, outbox.dead), (gone, 0));
    let left: Vec<_> =
        store.unsent(100).await.unwrap().iter().map(|out| out.trace.trace().timestamp.0 - BEGAN).collect();
    let first_left = 20 - (left.len() as u64 - 2);
    let expected: Vec<_> = [0, 5].into_iter().chain(first_left..20).collect();
    assert_eq!(left, expected, "failures stay");
    assert!(store.trim_outbox(0).await.unwrap() > 0);
    assert_eq!(store.outbox().await.unwrap().unsent, 0);
    assert_eq!(ids(store, Filter::default()).await.len(), 20, "all of them are still here");
}

pub(crate) async fn the_outbox_says_why(stores: Arc<dyn Stores>) {
    let store = &*stores.of(&Scope::local());
    let traces: Vec<_> = (0..5).map(trace).collect();
    put(store, &traces).await;
    let id = |at: usize| traces[at].trace_id;
    store.note_failure(vec![id(0), id(1)], "503").await.unwrap();
    store.note_failure(vec![id(2)], "no answer").await.unwrap();
    store.bury(vec![id(3)], "INVALID_TRACE").await.unwrap();
    let outbox = store.outbox().await.unwrap();
    assert_eq!(outbox.failures, [("503".to_owned(), 2), ("no answer".to_owned(), 1)]);
    assert_eq!(outbox.graves, [("INVALID_TRACE".to_owned(), 1)]);
    assert_eq!((outbox.unsent, outbox.dead), (4, 1));
}

pub(crate) async fn only_one_has_the_turn_to_send(stores: Arc<dyn Stores>) {
    let (one, two) = (stores.of(&Scope::local()), stores.of(&Scope::local()));
    let turn = one.take_turn().await.unwrap();
    assert!(turn.is_some());
    assert!(two.take_turn().await.unwrap().is_none());
    drop(turn);
    assert!(two.take_turn().await.unwrap().is_some());
}

pub(crate) async fn a_record_has_what_is_known_besides(stores: Arc<dyn Stores>) {
    let store = &*stores.of(&Scope::local());
    let mut named = trace(0);
    named.capability_id = Some("local.default.fs.read.a7f3".to_owned());
    put(store, std::slice::from_ref(&named)).await;
    store.set_priorities(vec![(named.trace_id, 0.25)]).await.unwrap();
    let record = store.record(named.trace_id).await.unwrap().unwrap();
    assert_eq!(value(record.trace.trace()), value(&named));
    assert_eq!((record.capability, record.priority), (None, 0.25));
    assert!(record.stored_at.0 > BEGAN / 2);
    let of_one = Filter { capability: Some(CapabilityId::mint()), ..Filter::default() };
    assert_eq!(ids(store, of_one).await, []);
}
