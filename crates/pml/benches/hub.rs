//! What delivering traces to a hub costs, and what executions notice of it.
//!
//! A real hub in a process of its own takes batches of 100 made-up traces over several connections: with its key checked,
//! decompressed, read, cleaned and committed to the disk before it answers. The bare store, with commits that survive a power cut,
//! is measured in the same run. Budgets are in SPECIFICATION.md; `--check` fails if one is broken.
//! Run: `scripts/bench hub [--json] [--check] [--traces N]`.

#![expect(clippy::disallowed_types, reason = "measures real time")]
#![expect(clippy::disallowed_methods, reason = "starts pml")]

#[path = "support/mod.rs"]
#[expect(dead_code, reason = "shared with the other benches, which use all of it")]
mod support;

#[path = "support/made_up.rs"]
mod made_up;

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use made_up::trace;
use pml::trace::store::{Commit, Options, RawStore};
use pml_testkit::promises::{Promise, Results, report};
use serde_json::{Value, json};
use support::{median, percentile};

const BATCH: usize = 100;
/// Connections that deliver at the same time.
const SENDERS: usize = 4;
/// Traces that are delivered in one try.
const DELIVERED: usize = 20_000;
/// Of several tries the best counts, since machines are shared.
const TRIES: usize = 3;
/// Traces that are there when others are looked up, unless `--traces` says otherwise.
const STORED: usize = 100_000;
const LOOKUPS: usize = 2_000;
/// Batches that are delivered in each second while traces are looked up.
const BATCHES_PER_SECOND: usize = 20;
/// Executions beside each kind of hub.
const EXECUTIONS: usize = 400;

const PROMISES: [Promise; 3] = [
    Promise::at_most("us_per_trace", 125.0, "a trace, delivered in batches of 100: at least 8 000 in a second"),
    Promise::at_most(
        "get_p99_ms",
        5.0,
        "a trace by its id over HTTP, while 2 000 are delivered in a second, 99th percentile",
    ),
    Promise::at_most("ratio_hanging", 1.02, "an execution beside a hub that hangs, against one without a hub, p50"),
];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let count = args.iter().position(|arg| arg == "--traces").and_then(|at| args.get(at + 1)?.parse().ok());
    let folder = tempfile::tempdir().expect("a folder");
    let mut results = Results::new();
    let bare = bare(folder.path());
    let delivered =
        (0..TRIES).map(|number| deliver(&folder.path().join(format!("try{number}")))).fold(f64::MAX, f64::min);
    results.insert("us_per_trace_bare_store", bare);
    results.insert("us_per_trace", delivered);
    results.insert("traces_per_second", 1e6 / delivered);
    results.insert("ratio_to_bare_store", delivered / bare);
    look_up(&folder.path().join("look"), count.unwrap_or(STORED), &mut results);
    executions(folder.path(), &mut results);
    report(&results, &PROMISES, &args)
}

/// Microseconds for each trace in the bare store, in batches that are waited for.
fn bare(folder: &Path) -> f64 {
    let tries = (0..TRIES).map(|number| {
        let options = Options { survives_power_cuts: true, ..Options::default() };
        let store = RawStore::open(&folder.join(format!("bare{number}")), options);
        let batches: Vec<Vec<_>> =
            (0..DELIVERED / BATCH).map(|at| (0..BATCH).map(|n| trace(at * BATCH + n)).collect()).collect();
        let started = Instant::now();
        for batch in batches {
            let receipts: Vec<_> = batch.into_iter().map(|trace| store.submit(trace)).collect();
            for receipt in receipts {
                assert_eq!(receipt.blocking_outcome(), Some(Commit::Stored));
            }
        }
        started.elapsed().as_secs_f64() * 1e6 / DELIVERED as f64
    });
    tries.fold(f64::MAX, f64::min)
}

/// A hub in a process of its own.
struct Hub {
    child: Child,
    address: String,
    key: String,
}

impl Hub {
    fn start(folder: &Path) -> Hub {
        std::fs::create_dir_all(folder).expect("a folder");
        let config = folder.join("pml.toml");
        std::fs::write(&config, "[hub]\nrequests_per_minute = 10000000\n[trace]\nmax_mb = 100000\n").expect("a file");
        let pml = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_pml"));
            command.arg("--config").arg(&config).arg("--data-dir").arg(folder);
            command
        };
        let add = ["hub", "key", "add", "bench", "--org", "acme", "--project", "web", "--json"];
        let made = pml().args(add).output().expect("pml runs");
        let made: Value = serde_json::from_slice(&made.stdout).expect("a key");
        let key = made["key"].as_str().expect("a key").to_owned();
        let mut child = pml().args(["hub", "--http", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn().expect("pml runs");
        let mut line = String::new();
        BufReader::new(child.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on http://").expect("an address").to_owned();
        Hub { child, address, key }
    }

    fn connect(&self) -> Connection {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        Connection {
            stream: BufReader::new(stream),
            head: format!("Host: {}\r\nAuthorization: Bearer {}\r\n", self.address, self.key),
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that is kept.
struct Connection {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Connection {
    fn ask(&mut self, line: &str, body: Option<&[u8]>) -> Vec<u8> {
        let size = body.map(|body| format!("Content-Encoding: zstd\r\nContent-Length: {}\r\n", body.len()));
        let head = format!("{line} HTTP/1.1\r\n{}{}\r\n", self.head, size.unwrap_or_default());
        let request = [head.as_bytes(), body.unwrap_or_default()].concat();
        self.stream.get_mut().write_all(&request).expect("a connection");
        let (mut length, mut status) = (0, String::new());
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("an answer");
            if status.is_empty() {
                status.clone_from(&line);
            }
            if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().expect("a number");
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).expect("an answer");
        assert!(status.contains(" 200 "), "{status}{}", String::from_utf8_lossy(&answer));
        answer
    }

    fn deliver(&mut self, body: &[u8]) {
        let answer: Value = serde_json::from_slice(&self.ask("POST /api/traces", Some(body))).expect("JSON");
        assert_eq!(answer["stored"], BATCH, "{answer}");
    }
}

/// A batch as a gateway sends it, and the ids in it.
fn batch(at: usize) -> (Vec<u8>, Vec<String>) {
    let traces: Vec<_> = (0..BATCH).map(|n| trace(at * BATCH + n)).collect();
    let ids = traces.iter().map(|trace| trace.trace_id.to_string()).collect();
    (zstd::bulk::compress(json!({"traces": traces}).to_string().as_bytes(), 3).expect("zstd"), ids)
}

/// Delivers batches over several connections. Seconds.
fn deliver_all(hub: &Hub, batches: &[Vec<u8>]) -> f64 {
    let next = AtomicUsize::new(0);
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..SENDERS {
            scope.spawn(|| {
                let mut connection = hub.connect();
                while let Some(body) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                    connection.deliver(body);
                }
            });
        }
    });
    started.elapsed().as_secs_f64()
}

/// Microseconds for each trace.
fn deliver(folder: &Path) -> f64 {
    let hub = Hub::start(folder);
    let batches: Vec<_> = (0..DELIVERED / BATCH).map(|at| batch(at).0).collect();
    // What is made with the first trace is not measured.
    hub.connect().deliver(&batch(DELIVERED / BATCH).0);
    deliver_all(&hub, &batches) * 1e6 / DELIVERED as f64
}

/// Looks traces up while others are delivered.
fn look_up(folder: &Path, count: usize, results: &mut Results) {
    let hub = Hub::start(folder);
    let mut ids = Vec::new();
    for part in 0..count.div_ceil(DELIVERED) {
        let batches: Vec<_> = (0..DELIVERED / BATCH).map(|at| batch(part * DELIVERED / BATCH + at)).collect();
        let (bodies, some): (Vec<_>, Vec<_>) = batches.into_iter().unzip();
        deliver_all(&hub, &bodies);
        ids.extend(some.into_iter().flatten());
    }
    let is_over = AtomicBool::new(false);
    let samples: Vec<f64> = thread::scope(|scope| {
        scope.spawn(|| {
            let (mut connection, mut at) = (hub.connect(), 1_000_000);
            while !is_over.load(Ordering::Relaxed) {
                let due = Instant::now() + Duration::from_secs(1) / BATCHES_PER_SECOND as u32;
                connection.deliver(&batch(at).0);
                at += 1;
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        });
        let (mut connection, mut random) = (hub.connect(), 1u64);
        let samples = (0..LOOKUPS).map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = &ids[(random >> 33) as usize % ids.len()];
            let started = Instant::now();
            let answer = connection.ask(&format!("GET /api/traces/{id}"), None);
            let took = started.elapsed().as_secs_f64() * 1e3;
            assert!(answer.len() > 100);
            thread::sleep(Duration::from_millis(1));
            took
        });
        let samples = samples.collect();
        is_over.store(true, Ordering::Relaxed);
        samples
    });
    results.insert("get_among", ids.len() as f64);
    results.insert("get_p50_ms", median(&samples));
    results.insert("get_p99_ms", percentile(&samples, 0.99));
}

/// A gateway on its standard input and output.
struct Gateway {
    child: Child,
    number: u64,
}

impl Gateway {
    fn start(folder: &Path, config: &str) -> Gateway {
        std::fs::create_dir_all(folder).expect("a folder");
        let file = folder.join("pml.toml");
        std::fs::write(&file, config).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_pml"));
        command.arg("--config").arg(&file).arg("--data-dir").arg(folder).arg("serve");
        let child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("pml runs");
        Gateway { child, number: 0 }
    }

    /// Milliseconds of one execution.
    fn execute(&mut self, output: &mut impl BufRead) -> f64 {
        self.number += 1;
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        });
        let params = json!({"name": "execute_code", "arguments": {"code": "return 1"}, "_meta": meta});
        let message = json!({"jsonrpc": "2.0", "id": self.number, "method": "tools/call", "params": params});
        let started = Instant::now();
        let input = self.child.stdin.as_mut().expect("piped");
        input.write_all(format!("{message}\n").as_bytes()).expect("a pipe");
        let mut line = String::new();
        output.read_line(&mut line).expect("an answer");
        assert!(line.contains("\"isError\":false"), "{line}");
        started.elapsed().as_secs_f64() * 1e3
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Executions of two gateways in turn: one without a hub, one whose hub never answers.
fn executions(folder: &Path, results: &mut Results) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    // Takes requests, and answers none.
    thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    let hanging =
        format!("[hub]\nurl = \"http://{address}\"\nkey = \"pmlhub_x\"\ninterval_ms = 100\nmax_pause_ms = 100\n");
    let mut gateways = [("none", ""), ("hanging", hanging.as_str())].map(|(name, config)| {
        let mut gateway = Gateway::start(&folder.join(name), config);
        let output = BufReader::new(gateway.child.stdout.take().expect("piped"));
        (gateway, output, Vec::new())
    });
    for number in 0..EXECUTIONS + 50 {
        for (gateway, output, samples) in &mut gateways {
            let took = gateway.execute(output);
            if number >= 50 {
                samples.push(took);
            }
            // As clients do, and so that a worker is ready.
            thread::sleep(Duration::from_millis(5));
        }
    }
    let [(_, _, without), (_, _, with)] = gateways;
    results.insert("execution_p50_ms", median(&without));
    results.insert("execution_hanging_p50_ms", median(&with));
    results.insert("ratio_hanging", median(&with) / median(&without));
}
