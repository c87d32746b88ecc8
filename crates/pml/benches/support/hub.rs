//! A real hub in a process of its own, and connections that deliver to it and ask it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use pml_wire::ExecutionId;
use serde_json::{Value, json};

use super::{
    filled::{Filled, draws},
    made_up::trace,
    support::percentile,
};

pub(crate) const BATCH: usize = 100;
/// Connections that deliver at the same time.
const SENDERS: usize = 4;
/// Traces that are delivered in one try.
pub(crate) const DELIVERED: usize = 20_000;
const LOOKUPS: usize = 5_000;
/// Batches that are delivered in each second while traces are looked up.
const BATCHES_PER_SECOND: usize = 20;
/// Batches that are made up before lookups are timed, so that making them up takes no time from the hub: enough for 30 s.
const PREPARED: usize = 30 * BATCHES_PER_SECOND;

/// A hub in a process of its own. Killed when dropped.
pub(crate) struct Hub {
    child: Child,
    address: String,
    key: String,
}

impl Hub {
    /// On a database, or without one on its data folder.
    pub(crate) fn start(folder: &Path, database: Option<&str>) -> Hub {
        std::fs::create_dir_all(folder).expect("a folder");
        let config = folder.join("pml.toml");
        // So that neither the rates of keys nor what is deleted is measured.
        std::fs::write(&config, "[hub]\nrequests_per_minute = 10000000\n[trace]\nmax_mb = 100000\n").expect("a file");
        let database = database.map(|url| ["--database", url]);
        let pml = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_pml"));
            command.arg("--config").arg(&config).arg("--data-dir").arg(folder).args(args);
            command.args(database.into_iter().flatten());
            command
        };
        // The folder may be one of an earlier run, in which the name is taken.
        let name = format!("bench{}", std::process::id());
        let made = pml(&["hub", "key", "add", &name, "--org", "acme", "--project", "web", "--json"]).output();
        let made: Value = serde_json::from_slice(&made.expect("pml runs").stdout).expect("a key");
        let key = made["key"].as_str().expect("a key").to_owned();
        let mut child = pml(&["hub", "--http", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn().expect("pml runs");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = lines.find_map(|line| line.ok()?.split("http://").nth(1).map(str::to_owned)).expect("an address");
        thread::spawn(move || lines.for_each(drop));
        Hub { child, address, key }
    }

    pub(crate) fn connect(&self) -> Connection {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        Connection {
            stream: BufReader::new(stream),
            head: format!("Host: {}\r\nAuthorization: Bearer {}\r\n", self.address, self.key),
        }
    }

    /// Delivers batches over several connections. Seconds.
    pub(crate) fn deliver_all(&self, batches: &[Vec<u8>]) -> f64 {
        let next = AtomicUsize::new(0);
        let started = Instant::now();
        thread::scope(|scope| {
            for _ in 0..SENDERS {
                scope.spawn(|| {
                    let mut connection = self.connect();
                    while let Some(body) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                        connection.deliver(body);
                    }
                });
            }
        });
        started.elapsed().as_secs_f64()
    }

    /// Delivers traces until there are as many as there are to be.
    #[allow(dead_code, reason = "the bench of PostgreSQL fills its store directly")]
    pub(crate) fn fill(&self, filled: &Filled) -> Vec<ExecutionId> {
        filled.ids(|from, missing| {
            let count = DELIVERED.min(missing.next_multiple_of(BATCH)) / BATCH;
            let (bodies, ids): (Vec<_>, Vec<_>) = (0..count).map(|at| batch(from / BATCH + at)).unzip();
            self.deliver_all(&bodies);
            ids.into_iter().flatten().collect()
        })
    }

    /// Looks traces up while others are delivered. Milliseconds of each, and how many were delivered in a second.
    pub(crate) fn look_up(&self, ids: &[ExecutionId]) -> Lookups {
        let is_over = AtomicBool::new(false);
        let prepared: Vec<_> = (0..PREPARED).map(|at| batch(1_000_000 + at).0).collect();
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let (mut connection, mut at) = (self.connect(), 0);
                let started = Instant::now();
                while !is_over.load(Ordering::Relaxed) {
                    let due = started + Duration::from_secs(1) / BATCHES_PER_SECOND as u32 * at as u32;
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    match prepared.get(at) {
                        Some(body) => connection.deliver(body),
                        None => connection.deliver(&batch(1_000_000 + at).0),
                    }
                    at += 1;
                }
                (at * BATCH) as f64 / started.elapsed().as_secs_f64()
            });
            let mut connection = self.connect();
            let look_up = |at: usize| {
                let started = Instant::now();
                let answer = connection.ask(&format!("GET /api/traces/{}", ids[at]), None);
                let took = started.elapsed().as_secs_f64() * 1e3;
                assert!(answer.len() > 100);
                thread::sleep(Duration::from_millis(1));
                took
            };
            let samples = draws(ids.len()).take(LOOKUPS).map(look_up).collect();
            is_over.store(true, Ordering::Relaxed);
            Lookups { samples, written_per_second: writer.join().expect("the writing thread") }
        })
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How long lookups took, in milliseconds.
pub(crate) struct Lookups {
    pub(crate) samples: Vec<f64>,
    pub(crate) written_per_second: f64,
}

impl Lookups {
    pub(crate) fn percentile(&self, part: f64) -> f64 {
        percentile(&self.samples, part)
    }
}

/// A connection that is kept.
pub(crate) struct Connection {
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

    pub(crate) fn deliver(&mut self, body: &[u8]) {
        let answer: Value = serde_json::from_slice(&self.ask("POST /api/traces", Some(body))).expect("JSON");
        assert_eq!(answer["stored"], BATCH, "{answer}");
    }
}

/// A batch as a gateway sends it, and the ids in it.
pub(crate) fn batch(at: usize) -> (Vec<u8>, Vec<ExecutionId>) {
    let traces: Vec<_> = (0..BATCH).map(|n| trace(at * BATCH + n)).collect();
    let ids = traces.iter().map(|trace| trace.trace_id).collect();
    (zstd::bulk::compress(json!({"traces": traces}).to_string().as_bytes(), 3).expect("zstd"), ids)
}

/// Microseconds for each trace, with a hub on a new store.
pub(crate) fn us_per_trace(folder: &Path, database: Option<&str>) -> f64 {
    let hub = Hub::start(folder, database);
    let batches: Vec<_> = (0..DELIVERED / BATCH).map(|at| batch(at).0).collect();
    // What is made with the first trace is not measured.
    hub.connect().deliver(&batch(DELIVERED / BATCH).0);
    hub.deliver_all(&batches) * 1e6 / DELIVERED as f64
}
