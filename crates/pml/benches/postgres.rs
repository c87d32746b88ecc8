//! What storing and finding traces costs in PostgreSQL: the bare store, and a real hub over HTTP in front of it.
//!
//! The server is started for this, with every commit synced to the disk. Budgets are in SPECIFICATION.md; `--check` fails if
//! one is broken. Run: `scripts/bench postgres [--json] [--check] [--traces N]`.

#![expect(clippy::disallowed_types, reason = "measures real time")]
#![expect(clippy::disallowed_methods, reason = "starts a hub")]

#[path = "support/made_up.rs"]
mod made_up;
#[path = "support/mod.rs"]
#[expect(dead_code, reason = "shared with the other benches, which use all of it")]
mod support;

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, ExitCode, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

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
use serde_json::json;
use support::percentile;
use tokio::runtime::Runtime;

const BATCH: usize = 100;
/// Of several tries the best counts, since machines are shared.
const TRIES: usize = 3;
const BATCHED: usize = 20_000;
const SINGLE: usize = 500;
const LOOKUPS: usize = 5_000;
/// Batches that are under way at the same time.
const AT_ONCE: usize = 4;
/// Traces that are stored in each second while others are looked up.
const RATE: usize = 2_000;
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
    let count = args.iter().position(|arg| arg == "--traces").and_then(|at| args.get(at + 1)?.parse().ok());
    let server = Postgres::start(Durability::Synced);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let sanitizer = Sanitizer::new(Arc::<Rules>::default());
    let mut results = Results::new();
    // By turns, so that what else the machine does hits both.
    let (mut store, mut http) = (0.0, 0.0);
    for _ in 0..TRIES {
        store = f64::max(store, by_store(&runtime, &server.database(), &sanitizer));
        http = f64::max(http, by_http(&server.database(), None).0);
    }
    results.insert("store_traces_per_second", store);
    results.insert("http_traces_per_second", http);
    results.insert("http_to_store", http / store);
    let (rate, lookups) = by_http(&server.database(), Some(RATE));
    results.insert("http_written_per_second", rate);
    results.insert("http_by_id_p50_ms", percentile(&lookups, 0.5));
    results.insert("http_by_id_p99_ms", percentile(&lookups, 0.99));
    commits(&runtime, &server.database(), &sanitizer, &mut results);
    by_id(&runtime, &server.database(), &sanitizer, count.unwrap_or(STORED), &mut results);
    report(&results, &PROMISES, &args)
}

fn open(database: &Database<'_>) -> PostgresStores {
    let options = Options { max_bytes: 1 << 40, ..Options::default() };
    PostgresStores::open(Address::parse(&database.url()).expect("an address"), options)
}

fn scope() -> Scope {
    "acme.web".parse().expect("a scope")
}

fn traces(sanitizer: &Sanitizer, from: usize, count: usize) -> Vec<SanitizedTrace> {
    (from..from + count).map(|number| sanitizer.trace(made_up::trace(number))).collect()
}

/// Stores a batch as a hub does.
async fn ingest(store: &dyn Store, batch: Vec<SanitizedTrace>) {
    let outcomes = store.ingest(batch).await.expect("a store");
    assert!(outcomes.iter().all(|outcome| *outcome == Ingested::Committed(Commit::Stored)));
}

/// Traces in a second, in batches that are waited for.
fn by_store(runtime: &Runtime, database: &Database<'_>, sanitizer: &Sanitizer) -> f64 {
    let stores = open(database);
    runtime.block_on(stores.opened());
    let batches: Vec<_> = (0..BATCHED / BATCH).map(|at| traces(sanitizer, at * BATCH, BATCH)).collect();
    let batches = Arc::new(Mutex::new(batches));
    let started = Instant::now();
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
    BATCHED as f64 / started.elapsed().as_secs_f64()
}

/// `pml hub`. Killed when dropped.
struct Hub {
    child: Child,
    address: String,
    key: String,
}

impl Hub {
    fn start(url: &str, home: &tempfile::TempDir) -> Hub {
        let pml = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_pml"));
            command.env_clear().env("HOME", home.path()).current_dir(home.path());
            command
        };
        // So that the rates of keys are not what is measured.
        let config = home.path().join("pml.toml");
        std::fs::write(&config, "[hub]\nrequests_per_minute = 10000000\n").expect("a file");
        let config = config.to_str().expect("a path");
        let add = ["hub", "key", "add", "bench", "--org", "acme", "--project", "web", "--database", url];
        let output = pml().args(["--config", config]).args(add).output().expect("a key");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let key = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let mut command = pml();
        command.args(["--config", config, "hub", "--http", "127.0.0.1:0", "--database", url]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("a hub");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let address = lines.find_map(|line| line.ok()?.split("http://").nth(1).map(str::to_owned)).expect("an address");
        thread::spawn(move || lines.for_each(drop));
        Hub { child, address, key }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the hub listens");
        stream.set_nodelay(true).expect("a socket");
        stream
    }

    /// The status and the body of the response to a request.
    fn ask(&self, stream: &mut TcpStream, head: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let head = format!(
            "{head} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Encoding: zstd\r\nContent-Length: {}\r\n\r\n",
            self.address,
            self.key,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).expect("the hub reads");
        let (mut response, mut buffer) = (Vec::new(), [0; 65_536]);
        loop {
            let read = stream.read(&mut buffer).expect("the hub answers");
            assert!(read > 0, "the hub closes");
            response.extend_from_slice(&buffer[..read]);
            let Some(at) = response.windows(4).position(|part| part == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&response[..at]).to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            if response.len() >= at + 4 + length.unwrap_or(0) {
                let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
                return (status, response[at + 4..].to_vec());
            }
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Traces in a second through a hub, as fast as it goes or at a pace; at a pace also how long lookups take meanwhile, in
/// milliseconds.
fn by_http(database: &Database<'_>, pace: Option<usize>) -> (f64, Vec<f64>) {
    let home = tempfile::tempdir().expect("a folder");
    let hub = Hub::start(&database.url(), &home);
    let mut ids: Vec<ExecutionId> = Vec::new();
    let mut bodies: Vec<Vec<u8>> = (0..BATCHED / BATCH)
        .map(|at| {
            let batch: Vec<_> = (0..BATCH).map(|number| made_up::trace(at * BATCH + number)).collect();
            ids.extend(batch.iter().take(2).map(|trace| trace.trace_id));
            zstd::bulk::compress(json!({"traces": batch}).to_string().as_bytes(), 3).expect("compressed")
        })
        .collect();
    // What is looked up is there before.
    let first = bodies.swap_remove(0);
    assert_eq!(hub.ask(&mut hub.connect(), "POST /api/traces", &first).0, 200);
    let (count, bodies) = (bodies.len(), Mutex::new(bodies));
    let (is_over, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let started = Instant::now();
    let (seconds, samples) = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                scope.spawn(|| {
                    let mut stream = hub.connect();
                    loop {
                        let body = bodies.lock().expect("no panic").pop();
                        let Some(body) = body else { break };
                        if let Some(pace) = pace {
                            let due = Duration::from_secs_f64(
                                (done.fetch_add(BATCH, Ordering::Relaxed)) as f64 / pace as f64,
                            );
                            thread::sleep(due.saturating_sub(started.elapsed()));
                        }
                        let (status, reply) = hub.ask(&mut stream, "POST /api/traces", &body);
                        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&reply));
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let (mut stream, mut samples) = (hub.connect(), Vec::new());
            while pace.is_some() && !is_over.load(Ordering::Relaxed) {
                let id = ids[samples.len() % 2];
                let started = Instant::now();
                let (status, _) = hub.ask(&mut stream, &format!("GET /api/traces/{id}"), b"");
                assert_eq!(status, 200);
                samples.push(started.elapsed().as_secs_f64() * 1e3);
                thread::sleep(Duration::from_millis(2));
            }
            samples
        });
        for worker in workers {
            worker.join().expect("a worker");
        }
        let seconds = started.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        (seconds, reader.join().expect("a reader"))
    });
    ((count * BATCH) as f64 / seconds, samples)
}

/// From submitting one trace to its commit, with nothing else to do.
fn commits(runtime: &Runtime, database: &Database<'_>, sanitizer: &Sanitizer, results: &mut Results) {
    let stores = open(database);
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

/// Looks traces up while others are stored, then deletes some.
fn by_id(runtime: &Runtime, database: &Database<'_>, sanitizer: &Sanitizer, count: usize, results: &mut Results) {
    let stores = open(database);
    runtime.block_on(stores.opened());
    let store = stores.of(&scope());
    let mut ids: Vec<ExecutionId> = Vec::with_capacity(count);
    while ids.len() < count {
        let batch = traces(sanitizer, ids.len(), BATCH.min(count - ids.len()));
        ids.extend(batch.iter().map(|trace| trace.trace().trace_id));
        runtime.block_on(ingest(&*store, batch));
    }
    let bytes = database.execute("SELECT pg_total_relation_size('pml.trace') + pg_total_relation_size('pml.code')");
    let bytes: f64 = bytes[0][0].as_ref().and_then(|bytes| bytes.parse().ok()).expect("a size");
    results.insert("kb_per_trace", bytes / 1000.0 / count as f64);
    let estimate = runtime.block_on(store.stats(pml::trace::store::Filter::default())).expect("a store").stored_bytes;
    results.insert("kb_per_trace_estimated", estimate as f64 / 1000.0 / count as f64);
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = {
        let (store, is_over) = (stores.of(&scope()), Arc::clone(&is_over));
        let sanitizer = Sanitizer::new(Arc::<Rules>::default());
        thread::spawn(move || {
            let started = Instant::now();
            let mut written = 0;
            while !is_over.load(Ordering::Relaxed) {
                let due = (started.elapsed().as_secs_f64() * RATE as f64) as usize;
                for trace in traces(&sanitizer, written, due.saturating_sub(written)) {
                    drop(store.submit(trace));
                }
                written = due.max(written);
                thread::sleep(Duration::from_millis(5));
            }
            written as f64 / started.elapsed().as_secs_f64()
        })
    };
    let mut random = 1u64;
    let samples: Vec<_> = (0..LOOKUPS)
        .map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = ids[(random >> 33) as usize % ids.len()];
            let started = Instant::now();
            assert!(runtime.block_on(store.by_id(id)).expect("a store").is_some());
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    is_over.store(true, Ordering::Relaxed);
    results.insert("by_id_among", count as f64);
    results.insert("by_id_p50_ms", percentile(&samples, 0.5));
    results.insert("by_id_p99_ms", percentile(&samples, 0.99));
    results.insert("by_id_worst_ms", percentile(&samples, 1.0));
    results.insert("written_per_second", writer.join().expect("the writing thread"));
    let until = pml_wire::trace::Timestamp(1_790_000_000_000 + DELETED.min(count) as u64);
    let started = Instant::now();
    let deleted = runtime.block_on(store.delete(Deletion::Before(until))).expect("a store");
    results.insert("us_per_trace_deleted", started.elapsed().as_secs_f64() * 1e6 / deleted.max(1) as f64);
}
