//! What storing and finding traces costs, and what tracing adds to an execution.
//!
//! Two `pml serve`, one of which keeps traces, run a trivial program in turns: what the one takes longer is what tracing adds.
//!
//! Traces in the store are made up, with 3 KB of JSON on average, as executions of a few calls have. The raw store is measured, which is
//! the same database without the type that only the sanitizer can make. Budgets are in SPECIFICATION.md; `--check` fails if
//! one is broken. Run: `scripts/bench traces [--json] [--check] [--only lookup] [--traces N] [--keep FOLDER [--fill]]`.

#![expect(clippy::disallowed_types, reason = "measures real time")]
#![expect(clippy::disallowed_methods, reason = "what benches share starts programs")]

#[path = "gateway/client.rs"]
#[expect(dead_code, reason = "shared with the bench of the gateway, which uses all of it")]
mod client;
#[path = "support/filled.rs"]
mod filled;
#[path = "support/made_up.rs"]
mod made_up;
#[path = "support/mod.rs"]
#[expect(dead_code, reason = "shared with the other benches, which use all of it")]
mod support;

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

use client::Pipe;
use filled::{Filled, draws};
use made_up::trace;
use pml::trace::store::{Commit, Options, RawStore};
use pml_testkit::promises::{Promise, Results, report};
use pml_wire::{ExecutionId, trace::Trace};
use serde_json::json;
use support::percentile;

const BATCH: usize = 100;
/// Of several tries the best counts, since machines are shared.
const TRIES: usize = 3;
const BATCHED: usize = 20_000;
const SINGLE: usize = 2_000;
const LOOKUPS: usize = 20_000;
/// Traces that are stored in each second while others are looked up.
const RATE: usize = 2_000;
/// Traces that are made up before lookups are timed, so that making them up takes no time from the store: enough for 20 s.
const PREPARED: usize = 20 * RATE;
/// Traces among which one is looked up, unless `--traces` says otherwise.
const STORED: usize = 100_000;

/// Executions with and without traces, and the pause before each: an agent takes time to think.
const EXECUTIONS: usize = 600;
const PAUSE: Duration = Duration::from_millis(5);

const PROMISES: [Promise; 6] = [
    Promise::at_most(
        "tracing_adds_p50_over_bound",
        1.0,
        "what tracing adds to a trivial execution at the median, in the bound for it: 100 µs or 5 %",
    ),
    Promise::at_most("tracing_adds_p99_us", 1000.0, "what tracing adds to a trivial execution, 99th percentile, µs"),
    Promise::at_most("us_per_trace_batched", 100.0, "a trace, written in batches of 100: at least 10 000 in a second"),
    Promise::at_most("commit_p50_us", 500.0, "from submitting one trace to its commit"),
    Promise::at_most("by_id_p99_ms", 2.0, "a trace by its id, while 2 000 are written in a second, 99th percentile"),
    Promise::at_most("kb_per_trace", 3.0, "a trace on the disk"),
];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let only_lookups = args.windows(2).any(|pair| pair[0] == "--only" && pair[1] == "lookup");
    let folder = tempfile::tempdir().expect("a folder");
    let filled = Filled::of(&args, STORED, folder.path());
    let mut results = Results::new();
    let mut promises = &PROMISES[4..];
    if !only_lookups && !filled.fills_only {
        promises = &PROMISES;
        let sizes: Vec<_> = (0..1000).map(|n| serde_json::to_string(&trace(n)).expect("JSON").len() as f64).collect();
        results.insert("json_mean_bytes", sizes.iter().sum::<f64>() / sizes.len() as f64);
        results.insert("us_per_trace_batched", batched(folder.path()));
        commits(folder.path(), &mut results);
        executions(folder.path(), &mut results);
    }
    let store = Arc::new(RawStore::open(&filled.folder, Options { max_bytes: 1 << 40, ..Options::default() }));
    let ids = fill(&store, &filled);
    if filled.fills_only {
        return filled.end();
    }
    let bytes = fs::metadata(filled.folder.join("traces/raw.db")).map_or(0, |data| data.len());
    results.insert("kb_per_trace", bytes as f64 / 1000.0 / ids.len() as f64);
    by_id(&store, &ids, &mut results);
    report(&results, promises, &args)
}

/// Stores traces until there are as many as there are to be.
fn fill(store: &RawStore, filled: &Filled) -> Vec<ExecutionId> {
    filled.ids(|from, missing| {
        let mut ids = Vec::new();
        for at in (0..missing.min(20_000)).step_by(BATCH) {
            let batch: Vec<_> = (at..(at + BATCH).min(missing)).map(|n| trace(from + n)).collect();
            ids.extend(batch.iter().map(|trace| trace.trace_id));
            let receipts: Vec<_> = batch.into_iter().map(|trace| store.submit(trace)).collect();
            for receipt in receipts {
                assert_eq!(receipt.blocking_outcome(), Some(Commit::Stored));
            }
        }
        ids
    })
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

/// A trivial program over stdio, with and without traces, in turns.
fn executions(folder: &Path, results: &mut Results) {
    let mut pipes = [true, false].map(|is_traced| {
        let folder = folder.join(format!("traced-{is_traced}"));
        fs::create_dir(&folder).expect("a folder");
        let config = format!("[sandbox]\nwarm_workers = 4\n[trace]\nenabled = {is_traced}\n");
        fs::write(folder.join("pml.toml"), config).expect("a file");
        Pipe::begin(&folder)
    });
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..EXECUTIONS + EXECUTIONS / 10 {
        for (pipe, times) in pipes.iter_mut().zip(&mut times) {
            thread::sleep(PAUSE);
            let started = Instant::now();
            let answer = pipe.call("execute_code", &json!({ "code": "return 1+1" }));
            assert_eq!(answer["content"][0]["text"], "2");
            // The first ones warm caches.
            if round >= EXECUTIONS / 10 {
                times.push(started.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    let [(traced_p50, traced_p99), (plain_p50, plain_p99)] =
        [0, 1].map(|at| (percentile(&times[at], 0.5), percentile(&times[at], 0.99)));
    results.insert("traced_p50_us", traced_p50);
    results.insert("untraced_p50_us", plain_p50);
    results.insert("tracing_adds_p50_us", traced_p50 - plain_p50);
    results.insert("tracing_adds_p50_over_bound", (traced_p50 - plain_p50) / (0.05 * plain_p50).max(100.0));
    results.insert("tracing_adds_p99_us", traced_p99 - plain_p99);
    for pipe in pipes {
        pipe.stop();
    }
}

/// Looks traces up while others are stored.
fn by_id(store: &Arc<RawStore>, ids: &[ExecutionId], results: &mut Results) {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut prepared = (0..PREPARED).map(trace).collect::<Vec<_>>().into_iter();
    let writer = {
        let (store, is_over) = (Arc::clone(store), Arc::clone(&is_over));
        thread::spawn(move || {
            let started = Instant::now();
            let mut written = 0;
            while !is_over.load(Ordering::Relaxed) {
                let due = (started.elapsed().as_secs_f64() * RATE as f64) as usize;
                for number in written..due {
                    drop(store.submit(prepared.next().unwrap_or_else(|| trace(number))));
                }
                written = due.max(written);
                thread::sleep(Duration::from_millis(5));
            }
            written as f64 / started.elapsed().as_secs_f64()
        })
    };
    // As `pml serve` and `pml hub` have it.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let samples: Vec<_> = draws(ids.len())
        .take(LOOKUPS)
        .map(|at| {
            let id = ids[at];
            let started = Instant::now();
            let found = runtime.block_on(store.by_id(id)).expect("a store");
            assert!(found.is_some());
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    is_over.store(true, Ordering::Relaxed);
    results.insert("by_id_among", ids.len() as f64);
    results.insert("by_id_p50_ms", percentile(&samples, 0.5));
    results.insert("by_id_p99_ms", percentile(&samples, 0.99));
    results.insert("by_id_worst_ms", percentile(&samples, 1.0));
    results.insert("written_per_second", writer.join().expect("the writing thread"));
    let counts = store.health().counts;
    results.insert("dropped", counts.dropped() as f64);
}
