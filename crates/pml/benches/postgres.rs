//! What storing and finding traces costs in PostgreSQL: the bare store, and a real hub over HTTP in front of it.
//!
//! The server is started for this, with every commit synced to the disk. Budgets are in SPECIFICATION.md; `--check` fails if
//! one is broken. Run: `scripts/bench postgres [--json] [--check] [--only delivery|lookup] [--traces N]`. With `--database URL` the
//! traces are in a database that is there and stays, and `--keep FOLDER [--fill]` remembers which.

#![expect(clippy::disallowed_types, reason = "measures real time")]
#![expect(clippy::disallowed_methods, reason = "starts a hub")]

#[path = "support/filled.rs"]
mod filled;
#[path = "support/hub.rs"]
mod hub;
#[path = "support/made_up.rs"]
mod made_up;
#[path = "support/mod.rs"]
#[expect(dead_code, reason = "shared with the other benches, which use all of it")]
mod support;

use std::{
    env,
    path::Path,
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use filled::{Filled, draws};
use hub::{BATCH, DELIVERED, Hub, us_per_trace};
use pml::trace::{
    SanitizedTrace,
    sanitize::{Rules, Sanitizer},
    store::{
        Commit, Deletion, Ingested, Options, Scope, Store, Stores,
        postgres::{Address, PostgresStores},
    },
};
use pml_testkit::{
    postgres::{Database, Durability, Postgres},
    promises::{Promise, Results, report},
};
use pml_wire::ExecutionId;
use support::percentile;
use tokio::runtime::Runtime;

/// Of several tries the best counts, since machines are shared.
const TRIES: usize = 3;
const SINGLE: usize = 500;
const LOOKUPS: usize = 5_000;
/// Batches that are under way at the same time.
const AT_ONCE: usize = 4;
/// Traces that are stored in each second while others are looked up.
const RATE: usize = 2_000;
/// Traces that are made up before lookups are timed, so that making them up takes no time from the store: enough for 20 s.
const PREPARED: usize = 20 * RATE;
/// Traces among which one is looked up, unless `--traces` says otherwise.
const STORED: usize = 100_000;
const DELETED: usize = 10_000;

const PROMISES: [Promise; 4] = [
    Promise::at_least("http_traces_per_second", 4_000.0, "traces in a second, over HTTP in batches of 100"),
    Promise::at_least("store_traces_per_second", 4_000.0, "traces in a second, by the store itself"),
    Promise::at_most("by_id_p99_ms", 5.0, "a trace by its id, while 2 000 are written in a second, 99th percentile"),
    Promise::at_most("http_by_id_p99_ms", 5.0, "the same over HTTP, 99th percentile"),
];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let value = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let has_part = |name: &str| value("--only").is_none_or(|only| only == name);
    let folder = tempfile::tempdir().expect("a folder");
    let filled = Filled::of(&args, STORED, folder.path());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let sanitizer = Sanitizer::new(Arc::<Rules>::default());
    let mut results = Results::new();
    let mut promises = Vec::new();
    let own = value("--database").is_none().then(|| Postgres::start(Durability::Synced));
    if let Some(server) = own.as_ref().filter(|_| has_part("delivery") && !filled.fills_only) {
        delivery(&runtime, server, folder.path(), &sanitizer, &mut results);
        commits(&runtime, &server.database(), &sanitizer, &mut results);
        promises.extend_from_slice(&PROMISES[..2]);
    }
    if has_part("lookup") || filled.fills_only {
        let database = own.as_ref().map(Postgres::database);
        let url = value("--database").cloned().or_else(|| Some(database.as_ref()?.url())).expect("a server");
        let stores = open(&url);
        runtime.block_on(stores.opened());
        let ids = fill(&runtime, &stores, &sanitizer, &filled);
        if filled.fills_only {
            return filled.end();
        }
        if let Some(database) = &database {
            size(&runtime, database, &*stores.of(&scope()), ids.len(), &mut results);
        }
        let hub = Hub::start(&folder.path().join("hub"), Some(&url));
        let lookups = hub.look_up(&ids);
        drop(hub);
        results.insert("http_beside_per_second", lookups.written_per_second);
        results.insert("http_by_id_p50_ms", lookups.percentile(0.5));
        results.insert("http_by_id_p99_ms", lookups.percentile(0.99));
        results.insert("http_by_id_worst_ms", lookups.percentile(1.0));
        by_id(&runtime, &stores, &sanitizer, &ids, &mut results);
        if own.is_some() {
            delete(&runtime, &*stores.of(&scope()), ids.len(), &mut results);
        }
        promises.extend_from_slice(&PROMISES[2..]);
    }
    report(&results, &promises, &args)
}

/// Traces by the store itself and through a hub by turns, so that what else the machine does hits both. The best of each.
fn delivery(runtime: &Runtime, server: &Postgres, folder: &Path, sanitizer: &Sanitizer, results: &mut Results) {
    let (mut store, mut http) = (0.0, 0.0);
    for number in 0..TRIES {
        store = f64::max(store, by_store(runtime, &server.database(), sanitizer));
        let us = us_per_trace(&folder.join(format!("try{number}")), Some(&server.database().url()));
        http = f64::max(http, 1e6 / us);
    }
    results.insert("store_traces_per_second", store);
    results.insert("http_traces_per_second", http);
    results.insert("http_to_store", http / store);
}

fn open(url: &str) -> PostgresStores {
    let options = Options { max_bytes: 1 << 40, ..Options::default() };
    PostgresStores::open(Address::parse(url).expect("an address"), options)
}

fn scope() -> Scope {
    "acme.web".parse().expect("a scope")
}

fn traces(sanitizer: &Sanitizer, from: usize, count: usize) -> Vec<SanitizedTrace> {
    (from..from + count).map(|number| sanitizer.trace(made_up::trace(number))).collect()
}

/// Stores a batch as a hub does.
async fn ingest(store: &dyn Store, batch: Vec<SanitizedTrace>) {
    let outcomes = store.ingest(batch, None).await.expect("a store");
    assert!(outcomes.iter().all(|outcome| *outcome == Ingested::Committed(Commit::Stored)));
}

/// Stores batches that others hand over, several at the same time.
fn ingest_all(runtime: &Runtime, stores: &PostgresStores, batches: Vec<Vec<SanitizedTrace>>) {
    let batches = Arc::new(Mutex::new(batches));
    runtime.block_on(async {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let (store, batches) = (stores.of(&scope()), Arc::clone(&batches));
                tokio::spawn(async move {
                    loop {
                        let batch = batches.lock().expect("no panic").pop();
                        let Some(batch) = batch else { break };
                        ingest(&*store, batch).await;
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.await.expect("a worker");
        }
    });
}

/// Traces in a second, in batches that are waited for.
fn by_store(runtime: &Runtime, database: &Database<'_>, sanitizer: &Sanitizer) -> f64 {
    let stores = open(&database.url());
    runtime.block_on(stores.opened());
    let batches: Vec<_> = (0..DELIVERED / BATCH).map(|at| traces(sanitizer, at * BATCH, BATCH)).collect();
    let started = Instant::now();
    ingest_all(runtime, &stores, batches);
    DELIVERED as f64 / started.elapsed().as_secs_f64()
}

/// Stores traces until there are as many as there are to be.
fn fill(runtime: &Runtime, stores: &PostgresStores, sanitizer: &Sanitizer, filled: &Filled) -> Vec<ExecutionId> {
    filled.ids(|from, missing| {
        let count = missing.min(DELIVERED);
        let batches: Vec<_> =
            (0..count).step_by(BATCH).map(|at| traces(sanitizer, from + at, BATCH.min(count - at))).collect();
        let ids = batches.iter().flatten().map(|trace| trace.trace().trace_id).collect();
        ingest_all(runtime, stores, batches);
        ids
    })
}

/// From submitting one trace to its commit, with nothing else to do.
fn commits(runtime: &Runtime, database: &Database<'_>, sanitizer: &Sanitizer, results: &mut Results) {
    let stores = open(&database.url());
    runtime.block_on(stores.opened());
    let store = stores.of(&Scope::local());
    let samples: Vec<_> = traces(sanitizer, 0, SINGLE)
        .into_iter()
        .map(|trace| {
            let started = Instant::now();
            assert_eq!(store.submit(trace).blocking_outcome(), Some(Commit::Stored));
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    results.insert("commit_p50_us", percentile(&samples, 0.5));
    results.insert("commit_p99_us", percentile(&samples, 0.99));
}

/// How large a trace is on the disk.
fn size(runtime: &Runtime, database: &Database<'_>, store: &dyn Store, count: usize, results: &mut Results) {
    let bytes = database.execute("SELECT pg_total_relation_size('pml.trace') + pg_total_relation_size('pml.code')");
    let bytes: f64 = bytes[0][0].as_ref().and_then(|bytes| bytes.parse().ok()).expect("a size");
    results.insert("kb_per_trace", bytes / 1000.0 / count as f64);
    let estimate = runtime.block_on(store.stats(pml::trace::store::Filter::default())).expect("a store").stored_bytes;
    results.insert("kb_per_trace_estimated", estimate as f64 / 1000.0 / count as f64);
}

/// Looks traces up while others are stored.
fn by_id(
    runtime: &Runtime,
    stores: &PostgresStores,
    sanitizer: &Sanitizer,
    ids: &[ExecutionId],
    results: &mut Results,
) {
    let store = stores.of(&scope());
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = {
        let (store, is_over) = (stores.of(&scope()), Arc::clone(&is_over));
        let mut prepared = traces(sanitizer, 0, PREPARED).into_iter();
        thread::spawn(move || {
            let started = Instant::now();
            let mut written = 0;
            while !is_over.load(Ordering::Relaxed) {
                let due = (started.elapsed().as_secs_f64() * RATE as f64) as usize;
                for _ in written..due {
                    drop(store.submit(prepared.next().expect("lookups take less than 20 s")));
                }
                written = due.max(written);
                thread::sleep(Duration::from_millis(5));
            }
            written as f64 / started.elapsed().as_secs_f64()
        })
    };
    let samples: Vec<_> = draws(ids.len())
        .take(LOOKUPS)
        .map(|at| {
            let started = Instant::now();
            assert!(runtime.block_on(store.by_id(ids[at])).expect("a store").is_some());
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    is_over.store(true, Ordering::Relaxed);
    results.insert("by_id_among", ids.len() as f64);
    results.insert("by_id_p50_ms", percentile(&samples, 0.5));
    results.insert("by_id_p99_ms", percentile(&samples, 0.99));
    results.insert("by_id_worst_ms", percentile(&samples, 1.0));
    results.insert("written_per_second", writer.join().expect("the writing thread"));
}

/// Deletes the first of the traces.
fn delete(runtime: &Runtime, store: &dyn Store, count: usize, results: &mut Results) {
    let until = pml_wire::trace::Timestamp(1_790_000_000_000 + DELETED.min(count) as u64);
    let started = Instant::now();
    let deleted = runtime.block_on(store.delete(Deletion::Before(until))).expect("a store");
    results.insert("us_per_trace_deleted", started.elapsed().as_secs_f64() * 1e6 / deleted.max(1) as f64);
}
