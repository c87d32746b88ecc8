//! What a sandbox costs. Budgets are in SPECIFICATION.md; each is a ratio to something measured
//! in the same run, since machines are shared and noisy.
//!
//! Run: `scripts/bench sandbox [--json] [--check] [--only PART]`, which also installs Deno to compare with. The parts are
//! `warm`, `probes`, `calls`, `payload`, `cold`, `memory` and `deno`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench talks to a terminal")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a bench measures real time and real processes"
)]

use std::{
    collections::BTreeMap,
    env,
    io::{Read, Write},
    num::NonZeroUsize,
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Command, ExitCode},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use pml::{
    broker::{Answer, CallHandler, HandlerFuture, ToolCall},
    execution::{self, Budget, Outcome, Request},
    sandbox::{Mode, Options, Pool, TimeZone, WorkerLimits},
    trace::Context,
};
use pml_wire::{
    CallId,
    message::{Ask, CallError},
};
use serde_json::{Value, json, value::RawValue};
use tokio_util::sync::CancellationToken;

const MIB: usize = 1024 * 1024;
/// In the pool; half of them are taken in one burst.
const WARM_WORKERS: usize = 32;
const PAYLOAD_BYTES: usize = 10 * MIB;
/// Loops of little but a condition, and the names of their times with and without probes. The first only computes.
const TIGHT: [([&str; 2], &str); 2] = [
    (
        ["tight_loop_probed_ms", "tight_loop_plain_ms"],
        "let n = 0; for (let i = 0; i < 1e6; i++) { if (i % 3 === 0) n++; } return n",
    ),
    (
        ["calling_loop_probed_ms", "calling_loop_plain_ms"],
        "const out = []; for (let i = 0; i < 1e6; i++) { if (i % 3 === 0) out.push(i); } return out.length",
    ),
];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "--pong") {
        return pong();
    }
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    // As the host's own commands have it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the runtime starts");
    let only = args.iter().position(|arg| arg == "--only").and_then(|at| args.get(at + 1));
    let results = runtime.block_on(measure(only.map(String::as_str)));
    match has("--json") {
        true => println!("{}", results.json()),
        false => results.print(),
    }
    if has("--check") && !results.check() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Everything that was measured, by key.
struct Results(BTreeMap<&'static str, f64>);

/// Measures everything, or the part that is named.
async fn measure(only: Option<&str>) -> Results {
    let is_wanted = |part: &str| only.is_none_or(|only| only == part);
    let mut all = BTreeMap::new();
    let mut step = |key, value| {
        eprintln!("  {key} = {value:.3}");
        all.insert(key, value);
    };
    step("pingpong_us", pingpong() * 1e6);

    let pool = Bench::start(Mode::Worker, WARM_WORKERS);
    if is_wanted("warm") {
        step("warm_exec_us", pool.warm("return 1+1", 500, 200).await * 1e6);
    }
    if is_wanted("probes") {
        let branches = "let n = 0; for (let i = 0; i < 50; i++) { if (i % 2) n = Math.max(n, i); } return n";
        step("hooks_on_us", pool.warm(branches, 200, 200).await * 1e6);
        step("hooks_off_us", pool.warm(branches, 200, 0).await * 1e6);
        for (kind, code) in TIGHT {
            let (mut on, mut off) = (f64::MAX, f64::MAX);
            // In turns, and the best of each: the machine is shared, and both are long.
            for _ in 0..5 {
                on = on.min(pool.warm(code, 3, 200).await);
                off = off.min(pool.warm(code, 3, 0).await);
            }
            step(kind[0], on * 1e3);
            step(kind[1], off * 1e3);
        }
    }
    if is_wanted("calls") {
        let (rpc, sequential) = pool.sequential().await;
        step("rpc_us", rpc * 1e6);
        step("seq_1000_ms", sequential * 1e3);
        step("par_1000_ms", pool.parallel().await * 1e3);
        step("kill_over_ms", pool.kill_over().await * 1e3);
    }
    if is_wanted("payload") {
        step("payload_in_10mb_ms", pool.payload_in(&payload()).await * 1e3);
        step("payload_in_10mb_distinct_ms", pool.payload_in(&distinct_payload()).await * 1e3);
        step("payload_out_10mb_ms", pool.payload_out().await * 1e3);
    }
    pool.stop().await;

    if is_wanted("cold") {
        let cold = Bench::start(Mode::Subprocess, 1);
        step("cold_ms", cold.cold().await * 1e3);
        cold.stop().await;
    }
    if is_wanted("memory") {
        let many = Bench::start(Mode::Worker, 100);
        many.pool.full().await;
        step("pss_100_mb", pss_of_children() / MIB as f64);
        many.stop().await;
    }
    match is_wanted("deno").then(deno).flatten() {
        Some((worker, rpc)) => {
            step("deno_worker_ms", worker);
            step("deno_rpc_us", rpc);
        }
        None => eprintln!("  Deno is not there: run scripts/bench"),
    }
    // A second look at the yardstick: the machine may have got slower meanwhile.
    let again = pingpong() * 1e6;
    eprintln!("  (ping-pong again: {again:.3} us)");
    Results(all)
}

impl Results {
    fn get(&self, key: &str) -> Option<f64> {
        self.0.get(key).copied()
    }

    fn ratio(&self, over: &str, under: &str, scale: f64) -> Option<f64> {
        Some(self.get(over)? * scale / self.get(under)?)
    }

    fn json(&self) -> Value {
        let keys = [
            "pingpong_us",
            "warm_exec_us",
            "rpc_us",
            "seq_1000_ms",
            "par_1000_ms",
            "cold_ms",
            "pss_100_mb",
            "kill_over_ms",
            "payload_in_10mb_ms",
            "payload_in_10mb_distinct_ms",
            "payload_out_10mb_ms",
            "deno_worker_ms",
            "deno_rpc_us",
        ];
        let mut object: serde_json::Map<String, Value> =
            keys.into_iter().map(|key| (key.to_owned(), json!(self.get(key)))).collect();
        for (key, value) in self.ratios() {
            object.insert(key.to_owned(), json!(value));
        }
        object.into()
    }

    fn ratios(&self) -> [(&'static str, Option<f64>); 6] {
        [
            ("ratio_warm_to_pingpong", self.ratio("warm_exec_us", "pingpong_us", 1.0)),
            ("ratio_rpc_to_pingpong", self.ratio("rpc_us", "pingpong_us", 1.0)),
            ("ratio_deno_to_warm", self.ratio("deno_worker_ms", "warm_exec_us", 1e3)),
            ("ratio_deno_to_cold", self.ratio("deno_worker_ms", "cold_ms", 1.0)),
            ("ratio_probes_in_a_tight_loop", self.ratio("tight_loop_probed_ms", "tight_loop_plain_ms", 1.0)),
            ("ratio_probes_beside_calls", self.ratio("calling_loop_probed_ms", "calling_loop_plain_ms", 1.0)),
        ]
    }

    /// Each promise: what, the measured value, and its bound.
    fn promises(&self) -> Vec<(&'static str, Option<f64>, Bound)> {
        let [warm, rpc, deno, deno_cold, tight, calling] = self.ratios().map(|(_, value)| value);
        vec![
            ("fresh process, warm, in ping-pongs", warm, Bound::AtMost(12.0)),
            ("one call, in ping-pongs", rpc, Bound::AtMost(3.0)),
            // Deno has no pool: its worker is started when it is asked for. So both: what a program waits for here with
            // the pool that pml keeps, and without it.
            ("a new Deno worker, in runs with a warm pool", deno, Bound::AtLeast(100.0)),
            ("a new Deno worker, in cold starts", deno_cold, Bound::AtLeast(2.0)),
            ("tight loop with probes, in loops without", tight, Bound::AtMost(1.2)),
            ("a loop that calls something, likewise", calling, Bound::AtMost(1.2)),
            ("cold start, ms", self.get("cold_ms"), Bound::AtMost(5.0)),
            ("100 warm workers, MB PSS", self.get("pss_100_mb"), Bound::AtMost(50.0)),
            ("endless loop, ms after its deadline", self.get("kill_over_ms"), Bound::AtMost(60.0)),
            ("10 MB of JSON into a program, ms", self.get("payload_in_10mb_ms"), Bound::AtMost(150.0)),
            ("10 MB of JSON out of a program, ms", self.get("payload_out_10mb_ms"), Bound::AtMost(150.0)),
        ]
    }

    fn print(&self) {
        println!("\n{:<42} {:>10}", "p50", "");
        for (key, value) in &self.0 {
            println!("{key:<42} {value:>10.3}");
        }
        println!("\n{:<42} {:>10} {:>10}", "promise", "measured", "bound");
        for (what, value, bound) in self.promises() {
            let value = value.map_or("-".to_owned(), |value| format!("{value:.1}"));
            println!("{what:<42} {value:>10} {:>10}", bound.to_string());
        }
        if let Some(ratio) = self.ratio("deno_rpc_us", "rpc_us", 1.0) {
            println!("{:<42} {ratio:>10.1}", "one call in Deno, in calls here");
        }
        if let Some(ratio) = self.ratio("hooks_on_us", "hooks_off_us", 1.0) {
            println!("{:<42} {ratio:>10.2}", "branch probes on, in runs without");
        }
    }

    fn check(&self) -> bool {
        let mut kept = true;
        for (what, value, bound) in self.promises() {
            if !value.is_some_and(|value| bound.holds(value)) {
                eprintln!("BROKEN: {what}: {value:?}, promised {bound}");
                kept = false;
            }
        }
        kept
    }
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    fn holds(&self, value: f64) -> bool {
        match *self {
            Bound::AtMost(bound) => value <= bound,
            Bound::AtLeast(bound) => value >= bound,
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::AtMost(bound) => write!(f, "<= {bound}"),
            Bound::AtLeast(bound) => write!(f, ">= {bound}"),
        }
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// One byte to another process and back over a socket pair, blocking: the floor of it all.
fn pingpong() -> f64 {
    let (mut ours, theirs) = UnixStream::pair().expect("a socket pair");
    let program = env::current_exe().expect("this program");
    let mut child = Command::new(program).arg("--pong").stdin(OwnedFd::from(theirs)).spawn().expect("starts");
    let mut byte = [0];
    let samples = (0..20_000)
        .map(|_| {
            let started = Instant::now();
            ours.write_all(&byte).expect("the other end lives");
            ours.read_exact(&mut byte).expect("the other end answers");
            started.elapsed().as_secs_f64()
        })
        .collect();
    drop(ours);
    child.wait().expect("ends");
    median(samples)
}

fn pong() -> ExitCode {
    let mut socket = UnixStream::from(std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned().expect("stdin"));
    let mut byte = [0];
    while socket.read_exact(&mut byte).is_ok() && socket.write_all(&byte).is_ok() {}
    ExitCode::SUCCESS
}

/// A pool and what keeps it.
struct Bench {
    pool: Pool,
    shutdown: CancellationToken,
    keeper: tokio::task::JoinHandle<()>,
}

impl Bench {
    fn start(mode: Mode, warm_workers: usize) -> Bench {
        let options = Options {
            program: env!("CARGO_BIN_EXE_pml").into(),
            mode,
            warm_workers: NonZeroUsize::new(warm_workers).expect("not zero"),
            allow_weak: false,
            time_zone: TimeZone::default(),
            limits: WorkerLimits { memory_bytes: 256 * MIB as u64, cpu_seconds: 60 },
            max_frame_bytes: u32::MAX,
        };
        let shutdown = CancellationToken::new();
        let (pool, keeper) = Pool::start(options, shutdown.clone());
        Bench { pool, shutdown, keeper: tokio::spawn(keeper) }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.keeper.await.expect("the pool drains");
    }

    async fn run(&self, code: &str, decisions: usize, handler: &Tools) -> Outcome {
        let request = Request::new(code);
        let budget = Budget {
            timeout: Duration::from_secs(30),
            max_timeout: Duration::from_secs(30),
            total: Duration::from_secs(30),
            memory_bytes: 256 * MIB,
            code_bytes: 256 * 1024,
            result_bytes: 2 * PAYLOAD_BYTES,
            log_bytes: MIB,
            calls: 10_000,
            calls_in_flight: 32,
            calls_per_minute: None,
            decisions,
        };
        let budget = Budget { timeout: handler.timeout.unwrap_or(budget.timeout), ..budget };
        execution::run(&self.pool, request, budget, handler, &|_| {}, &CancellationToken::new()).await
    }

    /// A fresh process each time, in bursts from a pool that is full again. One after the other, as
    /// the ping-pongs and the Deno workers are: a processor that was asleep answers later, to all.
    async fn warm(&self, code: &str, samples: usize, decisions: usize) -> f64 {
        let mut times = Vec::new();
        while times.len() < samples {
            self.pool.full().await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            for _ in 0..WARM_WORKERS / 2 - 1 {
                let started = Instant::now();
                let outcome = self.run(code, decisions, &Tools::default()).await;
                times.push(started.elapsed().as_secs_f64());
                outcome.result.expect("the program succeeds");
            }
        }
        median(times)
    }

    /// A process started for the occasion.
    async fn cold(&self) -> f64 {
        let mut times = Vec::new();
        for _ in 0..50 {
            let started = Instant::now();
            self.run("return 1+1", 200, &Tools::default()).await.result.expect("the program succeeds");
            times.push(started.elapsed().as_secs_f64());
        }
        median(times)
    }

    /// The time from one call to the next, and of a thousand of them.
    async fn sequential(&self) -> (f64, f64) {
        let code = "for (let i = 0; i < 1000; i++) await mcp.bench.echo({ i })";
        let (mut gaps, mut totals) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            self.pool.full().await;
            let tools = Tools::default();
            let started = Instant::now();
            self.run(code, 200, &tools).await.result.expect("the program succeeds");
            totals.push(started.elapsed().as_secs_f64());
            let seen = tools.seen.lock().expect("no panic");
            gaps.extend(seen.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()));
        }
        (median(gaps), median(totals))
    }

    async fn parallel(&self) -> f64 {
        let code = "await Promise.all(Array.from({ length: 1000 }, (_, i) => mcp.bench.echo({ i })))";
        let mut totals = Vec::new();
        for _ in 0..5 {
            self.pool.full().await;
            let started = Instant::now();
            self.run(code, 200, &Tools::default()).await.result.expect("the program succeeds");
            totals.push(started.elapsed().as_secs_f64());
        }
        median(totals)
    }

    async fn kill_over(&self) -> f64 {
        let timeout = Duration::from_millis(100);
        let mut times = Vec::new();
        for _ in 0..10 {
            self.pool.full().await;
            let started = Instant::now();
            let tools = Tools { timeout: Some(timeout), ..Tools::default() };
            self.run("while (true) {}", 200, &tools).await.result.expect_err("the program is stopped");
            times.push((started.elapsed() - timeout).as_secs_f64());
        }
        median(times)
    }

    async fn payload_in(&self, answer: &RawValue) -> f64 {
        let tools = Tools { answer: answer.to_owned(), ..Tools::default() };
        self.timed("return (await mcp.bench.big({})).length", &tools).await
    }

    async fn payload_out(&self) -> f64 {
        let code = format!(
            "const row = {{ id: 12345, name: 'some name', tags: ['a', 'b'], ok: true, ratio: 0.25 }};
             const rows = []; for (let size = 0; size < {PAYLOAD_BYTES}; size += 76) rows.push(row);
             await mcp.bench.echo({{}}); return rows"
        );
        // From the call on: building the rows is the program's own time.
        let mut times = Vec::new();
        for _ in 0..5 {
            self.pool.full().await;
            let tools = Tools::default();
            self.run(&code, 200, &tools).await.result.expect("the program succeeds");
            times.push(tools.seen.lock().expect("no panic")[0].elapsed().as_secs_f64());
        }
        median(times)
    }

    async fn timed(&self, code: &str, tools: &Tools) -> f64 {
        let mut times = Vec::new();
        for _ in 0..5 {
            self.pool.full().await;
            let started = Instant::now();
            self.run(code, 200, tools).await.result.expect("the program succeeds");
            times.push(started.elapsed().as_secs_f64());
        }
        median(times)
    }
}

/// 10 MB of rows that have every number and every text but two to themselves.
fn distinct_payload() -> Box<RawValue> {
    let row = |number: usize| {
        format!(
            r#"{{"id":{number},"name":"name {number}","tags":["tag {}","b"],"ok":true,"ratio":0.{number}5}}"#,
            number * 7
        )
    };
    let rows: Vec<_> = (100_000..).map(row).take(PAYLOAD_BYTES / (row(100_000).len() + 1)).collect();
    RawValue::from_string(format!("[{}]", rows.join(","))).expect("JSON")
}

/// 10 MB of rows.
fn payload() -> Box<RawValue> {
    let row = r#"{"id":12345,"name":"some name","tags":["a","b"],"ok":true,"ratio":0.25}"#;
    let rows = vec![row; PAYLOAD_BYTES / (row.len() + 1)];
    RawValue::from_string(format!("[{}]", rows.join(","))).expect("JSON")
}

/// Answers every call at once, and notes when it came.
struct Tools {
    answer: Box<RawValue>,
    seen: Mutex<Vec<Instant>>,
    timeout: Option<Duration>,
}

impl Default for Tools {
    fn default() -> Tools {
        Tools { answer: RawValue::TRUE.to_owned(), seen: Mutex::default(), timeout: None }
    }
}

impl CallHandler for Tools {
    fn call(&self, _: ToolCall) -> HandlerFuture<'_, Result<Answer, CallError>> {
        self.seen.lock().expect("no panic").push(Instant::now());
        Box::pin(std::future::ready(Ok(self.answer.clone().into())))
    }

    fn ask(&self, _: Arc<Context>, _: CallId, _: Ask) -> HandlerFuture<'_, Result<Answer, CallError>> {
        let answer = RawValue::from_string("[]".to_owned()).expect("JSON");
        Box::pin(std::future::ready(Ok(answer.into())))
    }

    fn names(&self) -> HandlerFuture<'_, Arc<str>> {
        Box::pin(std::future::ready("{}".into()))
    }
}

/// Proportional set size of every child of this process and of their children, in bytes.
fn pss_of_children() -> f64 {
    let own = std::process::id();
    let field = |pid: u32, file: &str, name: &str| -> Option<f64> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
    };
    let pids =
        std::fs::read_dir("/proc").expect("/proc").filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let parents: BTreeMap<u32, u32> =
        pids.filter_map(|pid| Some((pid, field(pid, "status", "PPid:")? as u32))).collect();
    let is_ours = |pid: &u32| {
        let parent = parents.get(pid).copied().unwrap_or(0);
        parent == own || parents.get(&parent) == Some(&own)
    };
    parents.keys().filter(|pid| is_ours(pid)).filter_map(|pid| field(*pid, "smaps_rollup", "Pss:")).sum::<f64>()
        * 1024.0
}

/// A new Deno worker without permissions doing `1+1`, in ms, and one call from it, in µs.
fn deno() -> Option<(f64, f64)> {
    let deno = env::var_os("PML_BENCH_DENO")?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/deno/bench.js");
    let output = Command::new(deno)
        .args(["run", "--quiet", "--allow-read", "--unstable-worker-options", script])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let Ok(value) = serde_json::from_str::<Value>(&text) else {
        eprintln!("  Deno: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    };
    Some((value["worker_ms"].as_f64()?, value["rpc_us"].as_f64()?))
}
