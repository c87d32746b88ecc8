//! What storing and finding traces costs.
//!
//! Traces are made up, with 3 KB of JSON on average, as executions of a few calls have. The raw store is measured, which is
//! the same database without the type that only the sanitizer can make. Budgets are in SPECIFICATION.md; `--check` fails if
//! one is broken. Run: `scripts/bench traces [--json] [--check] [--traces N]`.

#![expect(clippy::disallowed_types, reason = "measures real time")]
#![expect(clippy::disallowed_methods, reason = "what benches share starts programs")]

#[path = "support/mod.rs"]
#[expect(dead_code, reason = "shared with the other benches, which use all of it")]
mod support;

#[path = "support/made_up.rs"]
mod made_up;

use std::{
    env, fs,
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use made_up::trace;
use pml::trace::store::{Commit, Options, RawStore};
use pml_testkit::promises::{Promise, Results, report};
use pml_wire::{ExecutionId, trace::Trace};
use support::percentile;

const BATCH: usize = 100;
/// Of several tries the best counts, since machines are shared.
const TRIES: usize = 3;
const BATCHED: usize = 20_000;
const SINGLE: usize = 2_000;
const LOOKUPS: usize = 20_000;
/// Traces that are stored in each second while others are looked up.
const RATE: usize = 2_000;
/// Traces among which one is looked up, unless `--traces` says otherwise.
const STORED: usize = 100_000;

const PROMISES: [Promise; 4] = [
    Promise::at_most("us_per_trace_batched", 100.0, "a trace, written in batches of 100: at least 10 000 in a second"),
    Promise::at_most("commit_p50_us", 500.0, "from submitting one trace to its commit"),
    Promise::at_most("by_id_p99_ms", 2.0, "a trace by its id, while 2 000 are written in a second, 99th percentile"),
    Promise::at_most("kb_per_trace", 3.0, "a trace on the disk"),
];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let count = args.iter().position(|arg| arg == "--traces").and_then(|at| args.get(at + 1)?.parse().ok());
    let folder = tempfile::tempdir().expect("a folder");
    let mut results = Results::new();
    let sizes: Vec<_> = (0..1000).map(|n| serde_json::to_string(&trace(n)).expect("JSON").len() as f64).collect();
    results.insert("json_mean_bytes", sizes.iter().sum::<f64>() / sizes.len() as f64);
    results.insert("us_per_trace_batched", batched(folder.path()));
    commits(folder.path(), &mut results);
    by_id(folder.path(), count.unwrap_or(STORED), &mut results);
    report(&results, &PROMISES, &args)
}

/// Microseconds for each trace, in batches that are waited for.
fn batched(folder: &Path) -> f64 {
    let tries = (0..TRIES).map(|number| {
        let store = RawStore::open(&folder.join(format!("batched{number}")), Options::default());
        let batches: Vec<Vec<Trace>> =
            (0..BATCHED / BATCH).map(|at| (0..BATCH).map(|n| trace(at * BATCH + n)).collect()).collect();
        let started = Instant::now();
        for batch in batches {
            let receipts: Vec<_> = batch.into_iter().map(|trace| store.submit(trace)).collect();
            for receipt in receipts {
                assert_eq!(receipt.blocking_outcome(), Some(Commit::Stored));
            }
        }
        started.elapsed().as_secs_f64() * 1e6 / BATCHED as f64
    });
    tries.fold(f64::MAX, f64::min)
}

/// From submitting one trace to its commit, with nothing else to do.
fn commits(folder: &Path, results: &mut Results) {
    let store = RawStore::open(&folder.join("commits"), Options::default());
    let samples: Vec<_> = (0..SINGLE)
        .map(|number| {
            let trace = trace(number);
            let started = Instant::now();
            assert_eq!(store.submit(trace).blocking_outcome(), Some(Commit::Stored));
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    results.insert("commit_p50_us", percentile(&samples, 0.5));
    results.insert("commit_p99_us", percentile(&samples, 0.99));
}

/// Looks traces up while others are stored.
fn by_id(folder: &Path, count: usize, results: &mut Results) {
    let folder = folder.join("by_id");
    let store = Arc::new(RawStore::open(&folder, Options { max_bytes: 1 << 40, ..Options::default() }));
    let mut ids: Vec<ExecutionId> = Vec::with_capacity(count);
    while ids.len() < count {
        let batch: Vec<_> = (0..BATCH.min(count - ids.len())).map(|n| trace(ids.len() + n)).collect();
        ids.extend(batch.iter().map(|trace| trace.trace_id));
        let receipts: Vec<_> = batch.into_iter().map(|trace| store.submit(trace)).collect();
        for receipt in receipts {
            assert_eq!(receipt.blocking_outcome(), Some(Commit::Stored));
        }
    }
    let bytes = fs::metadata(folder.join("traces/raw.db")).map_or(0, |data| data.len());
    results.insert("kb_per_trace", bytes as f64 / 1000.0 / count as f64);
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = {
        let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
        thread::spawn(move || {
            let started = Instant::now();
            let mut written = 0;
            while !is_over.load(Ordering::Relaxed) {
                let due = (started.elapsed().as_secs_f64() * RATE as f64) as usize;
                for number in written..due {
                    drop(store.submit(trace(number)));
                }
                written = due.max(written);
                thread::sleep(Duration::from_millis(5));
            }
            written as f64 / started.elapsed().as_secs_f64()
        })
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut random = 1u64;
    let samples: Vec<_> = (0..LOOKUPS)
        .map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = ids[(random >> 33) as usize % ids.len()];
            let started = Instant::now();
            let found = runtime.block_on(store.by_id(id)).expect("a store");
            assert!(found.is_some());
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    is_over.store(true, Ordering::Relaxed);
    results.insert("by_id_among", count as f64);
    results.insert("by_id_p50_ms", percentile(&samples, 0.5));
    results.insert("by_id_p99_ms", percentile(&samples, 0.99));
    results.insert("by_id_worst_ms", percentile(&samples, 1.0));
    results.insert("written_per_second", writer.join().expect("the writing thread"));
    let counts = store.health().counts;
    results.insert("dropped", counts.dropped() as f64);
}
