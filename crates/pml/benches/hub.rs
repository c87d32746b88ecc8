//! What delivering traces to a hub costs, and what executions notice of it.
//!
//! A real hub in a process of its own takes batches of 100 made-up traces over several connections: with its key checked,
//! decompressed, read, cleaned and committed to the disk before it answers. The bare store, with commits that survive a power cut,
//! is measured in the same run. Budgets are in SPECIFICATION.md; `--check` fails if one is broken.
//! Run: `scripts/bench hub [--json] [--check] [--only delivery|lookup|executions] [--traces N] [--keep FOLDER [--fill]]`.

#![expect(clippy::disallowed_types, reason = "measures real time")]
#![expect(clippy::disallowed_methods, reason = "starts pml")]

#[path = "support/mod.rs"]
#[expect(dead_code, reason = "shared with the other benches, which use all of it")]
mod support;

#[path = "support/filled.rs"]
mod filled;
#[path = "support/hub.rs"]
mod hub;
#[path = "support/made_up.rs"]
mod made_up;

use std::{
    env,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use filled::Filled;
use hub::{BATCH, DELIVERED, Hub, us_per_trace};
use made_up::trace;
use pml::trace::store::{Commit, Options, RawStore};
use pml_testkit::promises::{Promise, Results, report};
use pml_wire::ExecutionId;
use serde_json::json;
use support::median;

/// Of several tries the best counts, since machines are shared.
const TRIES: usize = 3;
/// Traces that are there when others are looked up, unless `--traces` says otherwise.
const STORED: usize = 100_000;
/// Executions of each gateway.
const EXECUTIONS: usize = 60;
/// Executions before them, so that the gateway is warm.
const WARM_UP: usize = 20;
/// How often each gateway is started anew.
const STARTS: usize = 101;

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
    let only = args.iter().position(|arg| arg == "--only").and_then(|at| args.get(at + 1).cloned());
    let has_part = |name: &str| only.as_ref().is_none_or(|only| only == name);
    let folder = tempfile::tempdir().expect("a folder");
    let filled = Filled::of(&args, STORED, folder.path());
    let mut results = Results::new();
    let mut promises = Vec::new();
    if has_part("delivery") && !filled.fills_only {
        delivery(folder.path(), &mut results);
        promises.push(PROMISES[0]);
    }
    if has_part("lookup") || filled.fills_only {
        let hub = Hub::start(&filled.folder, None);
        let ids = hub.fill(&filled);
        if filled.fills_only {
            return filled.end();
        }
        look_up(&hub, &ids, &mut results);
        promises.push(PROMISES[1]);
    }
    if has_part("executions") {
        executions(folder.path(), &mut results);
        promises.push(PROMISES[2]);
    }
    report(&results, &promises, &args)
}

/// Traces through the hub and into the bare store by turns, so that what else the machine does hits both. The best of each.
fn delivery(folder: &Path, results: &mut Results) {
    let (mut bare, mut delivered) = (f64::MAX, f64::MAX);
    for number in 0..TRIES {
        bare = bare.min(bare_store(&folder.join(format!("bare{number}"))));
        delivered = delivered.min(us_per_trace(&folder.join(format!("try{number}")), None));
    }
    results.insert("us_per_trace_bare_store", bare);
    results.insert("us_per_trace", delivered);
    results.insert("traces_per_second", 1e6 / delivered);
    results.insert("ratio_to_bare_store", delivered / bare);
}

/// Microseconds for each trace in the bare store, in batches that are waited for.
fn bare_store(folder: &Path) -> f64 {
    let options = Options { survives_power_cuts: true, ..Options::default() };
    let store = RawStore::open(folder, options);
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
}

/// Looks traces up while others are delivered.
fn look_up(hub: &Hub, ids: &[ExecutionId], results: &mut Results) {
    let lookups = hub.look_up(ids);
    results.insert("get_among", ids.len() as f64);
    results.insert("get_p50_ms", lookups.percentile(0.5));
    results.insert("get_p99_ms", lookups.percentile(0.99));
    results.insert("get_worst_ms", lookups.percentile(1.0));
    results.insert("get_beside_per_second", lookups.written_per_second);
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

/// Executions of three gateways in turn: two without a hub, and one whose hub never answers. Where the kernel puts a process and its
/// memory makes two gateways alike differ by a few per cent, so each gateway is started [`STARTS`] times, the median of the ratios
/// counts, and the ratio of the two without a hub tells how much is chance.
fn executions(folder: &Path, results: &mut Results) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    // Takes requests, and answers none.
    thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    let hanging =
        format!("[hub]\nurl = \"http://{address}\"\nkey = \"pmlhub_x\"\ninterval_ms = 100\nmax_pause_ms = 100\n");
    let configs = ["", hanging.as_str(), ""];
    let medians: Vec<_> = (0..STARTS).map(|start| in_turn(&folder.join(format!("start{start}")), configs)).collect();
    for (name, at) in [("execution_p50_ms", 0), ("execution_hanging_p50_ms", 1)] {
        results.insert(name, median(&medians.iter().map(|of| of[at]).collect::<Vec<_>>()));
    }
    let hanging: Vec<_> = medians.iter().map(|of| 2.0 * of[1] / (of[0] + of[2])).collect();
    let control: Vec<_> = medians.iter().map(|of| of[2] / of[0]).collect();
    results.insert("ratio_hanging", median(&hanging));
    results.insert("ratio_hanging_worst", hanging.iter().copied().fold(0.0, f64::max));
    results.insert("ratio_alike", median(&control));
    results.insert("ratio_alike_worst", control.iter().copied().fold(0.0, f64::max));
}

/// The median execution of each of three gateways, in milliseconds.
fn in_turn(folder: &Path, configs: [&str; 3]) -> [f64; 3] {
    let mut number = 0;
    let mut gateways = configs.map(|config| {
        number += 1;
        let mut gateway = Gateway::start(&folder.join(number.to_string()), config);
        let output = BufReader::new(gateway.child.stdout.take().expect("piped"));
        (gateway, output, Vec::new())
    });
    for round in 0..EXECUTIONS + WARM_UP {
        // Each is first, second and last equally often.
        for turn in 0..gateways.len() {
            let (gateway, output, samples) = &mut gateways[(round + turn) % configs.len()];
            let took = gateway.execute(output);
            if round >= WARM_UP {
                samples.push(took);
            }
            // As clients do, and so that a worker is ready.
            thread::sleep(Duration::from_millis(5));
        }
    }
    gateways.map(|(_, _, samples)| median(&samples))
}
