//! The same contract on PostgreSQL, and what only a server can do: be shared, go away, come back.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use pml_testkit::postgres::{Database, Durability, Postgres};
use pml_wire::{
    ExecutionId,
    trace::{Timestamp, Trace},
};

use super::{
    super::{
        Options,
        postgres::{Address, PostgresStore, PostgresStores, Session},
        *,
    },
    support::{BEGAN, PATIENCE, commit, head, ids, ingest, put, trace, until, value},
};
use crate::trace::SanitizedTrace;

/// Runs a test of the contract on a new database.
async fn with_postgres(test: impl AsyncFnOnce(Arc<dyn Stores>)) {
    let database = Postgres::shared().database();
    test(Arc::new(stores(&database))).await;
}

super::contract::contract_tests! { with_postgres }

fn address(database: &Database<'_>) -> Address {
    Address::parse(&database.url()).unwrap()
}

fn stores(database: &Database<'_>) -> PostgresStores {
    PostgresStores::open(address(database), Options::default())
}

fn open(database: &Database<'_>) -> PostgresStore {
    PostgresStore::open(address(database), Options::default())
}

fn number(database: &Database<'_>, sql: &str) -> u64 {
    database.execute(sql)[0][0].as_ref().unwrap().parse().unwrap()
}

#[tokio::test]
async fn two_processes_do_not_close_a_cycle_together() {
    let database = Postgres::shared().database();
    let (one, two) = (stores(&database), stores(&database));
    let scope = Scope::new("acme", "web").unwrap();
    let (one, two) = (one.of(&scope), two.of(&scope));
    for number in 0..50 {
        let (mut left, mut right) = (trace(number), trace(number));
        left.parent_trace_id = Some(right.trace_id);
        right.parent_trace_id = Some(left.trace_id);
        let (left, right) = ([left], [right]);
        let (left, right) = tokio::join!(ingest(&*one, &left), ingest(&*two, &right));
        let (stored, endless) = (Ingested::Committed(Commit::Stored), Ingested::Committed(Commit::Endless));
        let answers = [left, right].concat();
        assert!(answers.contains(&stored) && answers.contains(&endless), "{number}: {answers:?}");
    }
}

#[tokio::test]
async fn two_processes_share_a_database_and_follow_each_other() {
    let database = Postgres::shared().database();
    // Both make the tables.
    let (one, two) = (open(&database), open(&database));
    tokio::join!(one.opened(), two.opened());
    let traces: Vec<_> = (0..300).map(trace).collect();
    let (left, right) = traces.split_at(150);
    let write = async |store: &PostgresStore, traces: &[Trace]| {
        for trace in traces {
            let _ = store.begin(head(trace));
            assert_eq!(commit(store, trace).await, Some(Commit::Stored));
        }
    };
    // Whoever follows sees each once, though the two take numbers at the same time.
    let follow = async {
        let (mut found, mut end) = (Vec::new(), Cursor::default());
        while found.len() < 300 {
            let page = one.list(Filter::default(), Reading::StoredAfter(end), 20).await.unwrap();
            end = page.end;
            found.extend(page.traces.iter().map(|trace| trace.id));
            if page.next.is_none() {
                two.news().await;
            }
        }
        found
    };
    let (mut found, (), ()) = tokio::join!(follow, write(&one, left), write(&two, right));
    found.sort_unstable();
    assert_eq!(found, traces.iter().map(|trace| trace.trace_id).collect::<Vec<_>>());
    assert_eq!(ids(&one, Filter::default()).await.len(), 300);
    assert!(one.running().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_same_traces_at_the_same_moment_are_stored_once() {
    let database = Postgres::shared().database();
    let all: Vec<_> = (0..4).map(|_| stores(&database)).collect();
    let scope = Scope::new("acme", "web").unwrap();
    let traces: Vec<_> = (0..500).map(trace).collect();
    let send = async |stores: &PostgresStores, backwards: bool| {
        let store = stores.of(&scope);
        let mut batches: Vec<_> = traces.chunks(50).collect();
        if backwards {
            batches.reverse();
        }
        let mut stored = 0;
        for batch in batches {
            let mut batch = batch.to_vec();
            if backwards {
                batch.reverse();
            }
            for outcome in ingest(&*store, &batch).await {
                match outcome {
                    Ingested::Committed(Commit::Stored) => stored += 1,
                    Ingested::Committed(Commit::Duplicate) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        stored
    };
    let (a, b, c, d) =
        tokio::join!(send(&all[0], false), send(&all[1], true), send(&all[2], false), send(&all[3], true));
    assert_eq!((a + b + c + d, number(&database, "SELECT count(*) FROM pml.trace")), (500, 500));
}

#[tokio::test]
async fn an_execution_that_has_not_ended_is_running_or_interrupted() {
    let database = Postgres::shared().database();
    let (one, two) = (open(&database), open(&database));
    let (ended, lost) = (trace(0), trace(1));
    for trace in [&ended, &lost] {
        assert_eq!(one.begin(head(trace)).outcome().await, Some(Commit::Stored));
    }
    put(&one, std::slice::from_ref(&ended)).await;
    two.opened().await;
    let running: Vec<_> = two.running().await.unwrap().iter().map(|head| head.trace_id).collect();
    assert_eq!(running, [lost.trace_id], "a living process runs it");
    drop(one);
    let found = two.by_id(lost.trace_id).await.unwrap().unwrap().into_inner();
    assert!(found.metadata.interrupted && !found.success);
    assert!(two.running().await.unwrap().is_empty());
    // If its end becomes known after all, that counts.
    put(&two, std::slice::from_ref(&lost)).await;
    assert_eq!(value(two.by_id(lost.trace_id).await.unwrap().unwrap().trace()), value(&lost));
    assert_eq!(ids(&two, Filter::default()).await.len(), 2);
    assert_eq!(number(&database, "SELECT count(*) FROM pml.owner"), 0);
}

const CHILD: &str = "PML_TEST_POSTGRES";

/// Writes until it is killed, if it is started by the test below; nothing otherwise.
#[test]
fn child_that_is_killed() {
    let Some((_, url)) = std::env::vars_os().find(|(name, _)| name == CHILD) else { return };
    let store = PostgresStore::open(Address::parse(url.to_str().unwrap()).unwrap(), Options::default());
    let mut stdout = std::io::stdout();
    for number in 0.. {
        let trace = trace(number);
        let mut say = |what: &str| writeln!(stdout, "{what} {}", trace.trace_id).unwrap();
        assert_eq!(store.begin(head(&trace)).blocking_outcome(), Some(Commit::Stored));
        say("begun");
        if number % 3 > 0 {
            assert_eq!(store.submit(SanitizedTrace::new(trace.clone())).blocking_outcome(), Some(Commit::Stored));
            say("ended");
        }
    }
}

#[tokio::test]
async fn what_is_committed_survives_kill_9_and_the_rest_is_found_by_another_process() {
    let database = Postgres::shared().database();
    let (mut begun, mut ended) = (Vec::<ExecutionId>::new(), Vec::new());
    for round in 0..3 {
        #[expect(clippy::disallowed_methods, reason = "starts this test program again, as another process")]
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "trace::store::tests::postgres::child_that_is_killed", "--nocapture"])
            .env(CHILD, database.url())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        for (heard, line) in BufReader::new(child.stdout.take().unwrap()).lines().enumerate() {
            let Ok(line) = line else { break };
            let mut words = line.split(' ');
            match (words.next(), words.next().and_then(|id| id.parse().ok())) {
                (Some("begun"), Some(id)) => begun.push(id),
                (Some("ended"), Some(id)) => ended.push(id),
                _ => {}
            }
            if heard == 30 + round * 17 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
    }
    let store = open(&database);
    // The server learns by and by that the process is gone.
    for _ in 0..200 {
        store.opened().await;
        store.retain().await.unwrap();
        if store.running().await.unwrap().is_empty() {
            break;
        }
        drop(open(&database));
        let again = open(&database);
        again.opened().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(store.running().await.unwrap().is_empty());
    for id in &begun {
        let found = store.by_id(*id).await.unwrap().unwrap_or_else(|| panic!("{id} is missing"));
        if ended.contains(id) {
            assert!(!found.trace().metadata.interrupted, "{id} had ended");
        }
    }
    assert!(begun.len() > 40 && store.stats(Filter::default()).await.unwrap().interrupted > 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_again_and_again_loses_nothing_and_stores_nothing_twice() {
    let server = Postgres::start(Durability::Unsynced);
    let database = server.database();
    let store = Arc::new(open(&database));
    let traces: Vec<_> = (0..1500).map(trace).collect();
    let writing = {
        let (store, traces) = (Arc::clone(&store), traces.clone());
        tokio::spawn(async move {
            for batch in traces.chunks(10) {
                let receipts: Vec<_> =
                    batch.iter().map(|trace| store.submit(SanitizedTrace::new(trace.clone()))).collect();
                for receipt in receipts {
                    let outcome = tokio::time::timeout(PATIENCE, receipt.outcome()).await.expect("an outcome");
                    assert_eq!(outcome, Some(Commit::Stored), "told as stored, also if that was known late");
                }
            }
        })
    };
    let reading = {
        let (store, first) = (Arc::clone(&store), traces[0].trace_id);
        tokio::spawn(async move {
            let (mut answers, mut failures) = (0, 0);
            while answers < 300 {
                match store.by_id(first).await {
                    Ok(_) => answers += 1,
                    Err(StoreError::Unavailable(State::Failing(_))) => failures += 1,
                    Err(err) => panic!("{err:?}"),
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            failures
        })
    };
    let mut restarts = 0;
    while !writing.is_finished() && restarts < 5 {
        tokio::time::sleep(Duration::from_millis(60)).await;
        tokio::task::block_in_place(|| server.restart());
        restarts += 1;
    }
    writing.await.unwrap();
    reading.await.unwrap();
    assert!(restarts > 0);
    let mut found = ids_of_all(&store).await;
    found.sort_unstable();
    assert_eq!(found, traces.iter().map(|trace| trace.trace_id).collect::<Vec<_>>());
    let Counts { stored, duplicates, refused, .. } = store.health().counts;
    assert_eq!((stored, duplicates, refused, store.health().state), (1500, 0, 0, State::Ready));
}

async fn ids_of_all(store: &PostgresStore) -> Vec<ExecutionId> {
    let (mut found, mut reading) = (Vec::new(), Reading::Newest);
    loop {
        let page = store.list(Filter::default(), reading, 500).await.unwrap();
        found.extend(page.traces.iter().map(|trace| trace.id));
        let Some(next) = page.next else { return found };
        reading = Reading::Before(next);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_makes_nobody_wait_and_is_told() {
    let server = Postgres::start(Durability::Unsynced);
    let database = server.database();
    let store = open(&database);
    let (before, during) = (trace(0), trace(1));
    put(&store, std::slice::from_ref(&before)).await;
    assert_eq!(store.begin(head(&during)).outcome().await, Some(Commit::Stored));
    tokio::task::block_in_place(|| server.stop());
    // Waited for from now on: only then is the thread woken.
    let outcome = tokio::spawn(store.submit(SanitizedTrace::new(during.clone())).outcome());
    let health = until(&store, |health| matches!(health.state, State::Failing(_))).await;
    assert!(!health.place.contains("password") && health.place.starts_with("postgres://pml_admin@"), "{health:?}");
    assert_eq!(store.submit(SanitizedTrace::new(trace(2))).kept().await, Waited::Late);
    assert!(matches!(store.by_id(before.trace_id).await, Err(StoreError::Unavailable(State::Failing(_)))));
    tokio::task::block_in_place(|| server.start_again());
    assert_eq!(tokio::time::timeout(PATIENCE, outcome).await.unwrap().unwrap(), Some(Commit::Stored));
    until(&store, |health| health.state == State::Ready && health.queued == 0).await;
    // Another process that looks now does not take the living for dead.
    let other = trace(3);
    assert_eq!(store.begin(head(&other)).outcome().await, Some(Commit::Stored));
    let second = open(&database);
    second.opened().await;
    assert_eq!(second.running().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn lookups_do_not_wait_for_scans_and_scans_end_with_whoever_waits() {
    let database = Postgres::shared().database();
    let stores = stores(&database);
    let store = stores.of(&Scope::local());
    let stored = trace(0);
    put(&*store, std::slice::from_ref(&stored)).await;
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep%'
                    AND datname = current_database()";
    let scans: Vec<_> = (0..16)
        .map(|_| {
            let stores = stores.clone();
            tokio::spawn(async move {
                stores.read(|session: &Session| Box::pin(session.execute("SELECT pg_sleep(1000)", &[]))).await
            })
        })
        .collect();
    let count = || tokio::task::block_in_place(|| number(&database, sleeping));
    while count() == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let found = tokio::time::timeout(Duration::from_secs(20), store.by_id(stored.trace_id)).await;
    assert!(found.expect("a lookup waits for no scan").unwrap().is_some());
    assert!(count() <= 4, "no more scans run than may");
    for scan in scans {
        scan.abort();
    }
    // Long before the server ends a statement by itself.
    let ended = async {
        while count() > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("what nobody waits for ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_that_begins_while_the_server_is_away_is_there_when_the_server_is_back() {
    let server = Postgres::start(Durability::Unsynced);
    let (database, elsewhere) = (server.database(), server.database());
    let folder = tempfile::tempdir().unwrap();
    let with_journal = |database: &Database<'_>| {
        let options = Options { journal: Some(folder.path().to_owned()), ..Options::default() };
        PostgresStore::open(address(database), options)
    };
    let store = with_journal(&database);
    put(&store, &[trace(0)]).await;
    tokio::task::block_in_place(|| server.stop());
    let (ended, lost) = (trace(1), trace(2));
    for trace in [&ended, &lost] {
        assert_eq!(store.begin(head(trace)).kept().await, Waited::Kept);
    }
    // The process ends before the server is back.
    assert_eq!(store.submit(SanitizedTrace::new(ended.clone())).kept().await, Waited::Kept);
    tokio::task::spawn_blocking(move || drop(store)).await.unwrap();
    tokio::task::block_in_place(|| server.start_again());

    let other = with_journal(&elsewhere);
    other.opened().await;
    assert!(ids(&other, Filter::default()).await.is_empty(), "another database is not told");
    let store = with_journal(&database);
    store.opened().await;
    for (trace, is_interrupted) in [(&ended, false), (&lost, true)] {
        let found = store.by_id(trace.trace_id).await.unwrap().expect("the execution is there");
        assert_eq!(found.trace().metadata.interrupted, is_interrupted);
        assert_eq!(found.trace().intent, trace.intent);
    }
    assert_eq!(ids(&store, Filter::default()).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_does_not_wait_for_a_server_that_is_away() {
    let server = Postgres::start(Durability::Unsynced);
    let database = server.database();
    let store = open(&database);
    put(&store, &[trace(0)]).await;
    tokio::task::block_in_place(|| server.stop());
    let receipt = store.submit(SanitizedTrace::new(trace(1)));
    tokio::task::spawn_blocking(move || drop(store)).await.unwrap();
    assert_eq!(receipt.outcome().await, None, "given up, and known to be");
    tokio::task::block_in_place(|| server.start_again());
}

#[tokio::test]
async fn a_database_of_a_newer_pml_is_left_alone() {
    let database = Postgres::shared().database();
    let store = open(&database);
    put(&store, &[trace(0)]).await;
    database.execute("UPDATE pml.meta SET version = 99");
    // While pml runs, and when it starts.
    assert_eq!(commit(&store, &trace(1)).await, None);
    assert_eq!(store.health().state, State::Newer(99));
    drop(store);
    let store = open(&database);
    store.opened().await;
    assert_eq!(store.health().state, State::Newer(99));
    assert_eq!(commit(&store, &trace(2)).await, None);
    assert!(matches!(store.stats(Filter::default()).await, Err(StoreError::Unavailable(State::Newer(99)))));
    assert!(matches!(store.delete(Deletion::All).await, Err(StoreError::Unavailable(_))));
    assert_eq!(number(&database, "SELECT count(*) FROM pml.trace"), 1);
}

#[tokio::test]
async fn a_program_is_kept_once_and_goes_with_its_last_trace() {
    let database = Postgres::shared().database();
    let store = open(&database);
    let traces = [trace(0), trace(1)];
    put(&store, &traces).await;
    let programs = || number(&database, "SELECT count(*) FROM pml.code");
    assert_eq!(programs(), 1);
    assert_eq!(store.delete(Deletion::One(traces[0].trace_id)).await.unwrap(), 1);
    assert_eq!(programs(), 1);
    assert_eq!(value(store.by_id(traces[1].trace_id).await.unwrap().unwrap().trace()), value(&traces[1]));
    assert_eq!(store.delete(Deletion::All).await.unwrap(), 1);
    assert_eq!(programs(), 0);
}

#[tokio::test]
async fn what_is_too_old_or_too_much_goes_first_stored_first() {
    let database = Postgres::shared().database();
    let traces: Vec<_> = (0..600).map(trace).collect();
    let all = stores(&database);
    let (store, other) = (all.scoped(Scope::local()), all.scoped(Scope::new("acme", "web").unwrap()));
    for (at, trace) in traces.iter().enumerate() {
        let receipt = if at % 2 == 0 { &store } else { &other }.submit(SanitizedTrace::new(trace.clone()));
        assert_eq!(receipt.outcome().await, Some(Commit::Stored));
    }
    let before = store.stats(Filter::default()).await.unwrap().stored_bytes;
    database.execute("UPDATE pml.trace SET stored_at = 5 WHERE seq <= 121");
    assert_eq!(store.retain().await.unwrap(), 120);
    assert_eq!(ids(&store, Filter::default()).await.last(), Some(&traces[120].trace_id));
    assert_eq!(ids(&other, Filter::default()).await.last(), Some(&traces[121].trace_id));
    drop((store, other, all));
    let max_bytes = before / 2;
    let store = PostgresStore::open(address(&database), Options { max_bytes, ..Options::default() });
    let gone = store.retain().await.unwrap();
    let left = number(&database, "SELECT count(*) FROM pml.trace");
    assert!(gone > 0 && left == 480 - gone && left > 100, "{gone} {left}");
    assert_eq!(ids(&store, Filter::default()).await.first(), Some(&traces[598].trace_id));
    assert!(store.stats(Filter::default()).await.unwrap().stored_bytes <= max_bytes);
}

#[tokio::test]
async fn a_trace_that_the_server_refuses_harms_no_other() {
    let database = Postgres::shared().database();
    let store = open(&database);
    put(&store, &[trace(0)]).await;
    database.execute("ALTER TABLE pml.trace ADD CHECK (caller <> 'mallory')");
    let mut traces: Vec<_> = (1..8).map(trace).collect();
    traces[3].caller = "mallory".to_owned();
    let receipts: Vec<_> = traces.iter().map(|trace| store.submit(SanitizedTrace::new(trace.clone()))).collect();
    for (trace, receipt) in traces.iter().zip(receipts) {
        let expected = (trace.caller != "mallory").then_some(Commit::Stored);
        assert_eq!(receipt.outcome().await, expected);
    }
    assert_eq!((ids(&store, Filter::default()).await.len(), store.health().counts.refused), (7, 1));
}

#[tokio::test]
async fn passwords_and_certificates_are_checked_and_never_told() {
    let database = Postgres::shared().database();
    let secret = "s3cret-p%ss/word";
    database.execute(&format!(
        "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'ann') THEN CREATE ROLE ann LOGIN; END IF; END $$;
         ALTER ROLE ann PASSWORD '{secret}'; GRANT CREATE ON DATABASE {} TO ann",
        database.name
    ));
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/postgres/ca.crt");
    let url =
        |host: &str, password: &str, rest: &str| format!("{}{rest}", database.url_with_password(host, "ann", password));
    #[rustfmt::skip]
    let table = [
        (url("localhost", secret, "?sslmode=disable"), true),
        (url("localhost", secret, "?sslmode=require"), true),
        (url("127.0.0.1", secret, "?sslmode=require"), true),
        (url("localhost", secret, &format!("?sslmode=verify-full&sslrootcert={root}")), true),
        (url("127.0.0.1", secret, &format!("?sslmode=verify-ca&sslrootcert={root}")), true),
        // The certificate is for another name, or of an authority that is not trusted.
        (url("127.0.0.1", secret, &format!("?sslmode=verify-full&sslrootcert={root}")), false),
        (url("localhost", secret, "?sslmode=verify-full"), false),
        (url("localhost", secret, "?sslmode=verify-full&sslrootcert=/nowhere.crt"), false),
        (url("localhost", "wrong-s3cret", ""), false),
    ];
    for (url, is_well) in table {
        let store = PostgresStore::open(Address::parse(&url).unwrap(), Options::default());
        store.opened().await;
        let health = store.health();
        assert_eq!(health.state.is_well(), is_well, "{url}: {health:?}");
        let said =
            format!("{health:?} {:?} {store:?} {:?}", store.by_id(ExecutionId::mint()).await, health.state.hint());
        assert!(!said.contains("s3cret"), "{said}");
    }
    let mut trace = trace(0);
    trace.timestamp = Timestamp(BEGAN);
    let store = PostgresStore::open(Address::parse(&url("localhost", secret, "")).unwrap(), Options::default());
    put(&store, &[trace]).await;
}

#[tokio::test]
async fn tables_of_others_do_not_stand_in_for_those_of_pml() {
    let database = Postgres::shared().database();
    database.execute("CREATE TABLE public.trace (id int); CREATE TABLE public.meta (version int8); INSERT INTO public.meta VALUES (7)");
    let store = open(&database);
    put(&store, &[trace(0)]).await;
    assert_eq!(number(&database, "SELECT count(*) FROM pml.trace"), 1);
    assert_eq!(number(&database, "SELECT count(*) FROM public.trace"), 0);
}
