//! What pml adds between a program and a server.
//!
//! Everything is measured against a plain client in the same run: a thread that writes a request
//! to a server's pipe and waits for the line that answers it, which is the least that can be done; and
//! for whole programs the client of the official TypeScript SDK. Budgets are in SPECIFICATION.md;
//! `--check` fails if one is broken. Run: `scripts/bench upstream [--json] [--check]`.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "measures real time and starts servers")]
#![expect(clippy::print_stderr, reason = "this is a program for people")]

mod support;

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader, Write},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use pml::{
    audit::{Audit, CallEvent, CallLine, Decision, Retention},
    broker::{Afterwards, Allowance, AnswerBody, Arguments, CallHandler, Notices, Policy, ToolCall},
    execution::{self, Budget, Request},
    sandbox::{Mode, Options, Pool, TimeZone, WorkerLimits},
    serve::{self, Services},
    trace::Context,
    upstream::{Secret, Settings, Target},
};
use pml_testkit::promises::{Promise, Results, report};
use pml_wire::{CallId, trace::Entry};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{json, value::RawValue};
use support::{Sdk, everything, median, percentile, server_path};
use tokio_util::sync::CancellationToken;

const MIB: usize = 1024 * 1024;
/// Tools that the server has.
const TOOLS: &str = "1500";
const ROUNDS: usize = 2000;
const PAYLOAD_BYTES: usize = 10 * MIB;

fn budget() -> Budget {
    Budget {
        timeout: Duration::from_secs(30),
        max_timeout: Duration::from_secs(30),
        total: Duration::from_secs(30),
        memory_bytes: 64 * MIB,
        code_bytes: MIB,
        result_bytes: 8 * MIB,
        log_bytes: MIB,
        calls: 1000,
        calls_in_flight: 32,
        calls_per_minute: None,
        decisions: 200,
    }
}

const PROMISES: [Promise; 4] = [
    Promise::at_most("overhead_p50_us", 50.0, "broker and transport, median, small call"),
    Promise::at_most("overhead_p95_us", 500.0, "broker and transport, 95th percentile, 1 500 tools"),
    Promise::at_most(
        "ratio_sequential",
        1.5,
        "10 sequential calls from code, against the official client, real server",
    ),
    Promise::at_most("ratio_payload", 1.5, "a 10 MB result, against a plain client that reads it and looks at it once"),
];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let results = runtime.expect("the runtime starts").block_on(measure());
    report(&results, &PROMISES, &args)
}

async fn measure() -> Results {
    let mut results = Results::new();
    let fixture = server_path("fixture-server");
    let target = |args: &[&str]| (fixture.clone(), args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());

    // On one processor: else it is the kernel's choice of processors for the two servers that is measured.
    let all = one_processor();
    let (command, args) = target(&["--era", "legacy", "--tools", TOOLS]);
    let mut plain = Plain::start(&command, &args);
    let gateway = Gateway::start("server", &command, &args).await;
    let (direct, brokered) = gateway.alternate(&mut plain, "echo", &json!({ "text": "hello" }), ROUNDS).await;
    let base = median(&direct);
    results.insert("plain_p50_us", base * 1e6);
    results.insert("broker_p50_us", median(&brokered) * 1e6);
    results.insert("overhead_p50_us", (median(&brokered) - base) * 1e6);
    results.insert("overhead_p95_us", (percentile(&brokered, 0.95) - base) * 1e6);
    gateway.stop().await;
    let _ = sched_setaffinity(None, &all);

    results.insert("audit_call_us", audit_call().await * 1e6);

    let mut plain = Plain::start(&command, &args);
    let gateway = Gateway::start("server", &command, &args).await;

    let (direct, brokered) = gateway.alternate(&mut plain, "big", &json!({ "bytes": PAYLOAD_BYTES }), 15).await;
    results.insert("plain_10mb_ms", median(&direct) * 1e3);
    results.insert("broker_10mb_ms", median(&brokered) * 1e3);
    results.insert("ratio_payload", median(&brokered) / median(&direct));
    gateway.stop().await;

    if let Some(everything) = everything() {
        let args = vec![everything.to_string_lossy().into_owned()];
        let mut plain = Plain::start(Path::new("node"), &args);
        let gateway = Gateway::start("everything", Path::new("node"), &args).await;
        let mut sdk = Sdk::start(&everything);
        let (bare, direct, programs) = gateway.sequential(&mut plain, &mut sdk).await;
        results.insert("bare_pipe_10_calls_ms", median(&bare) * 1e3);
        results.insert("plain_10_calls_ms", median(&direct) * 1e3);
        results.insert("code_10_calls_ms", median(&programs) * 1e3);
        results.insert("ratio_sequential", median(&programs) / median(&direct));
        gateway.stop().await;
    } else {
        eprintln!("  the published servers are not there: run scripts/bench");
    }
    results
}

/// What the two audit lines of a call cost: a part of what the broker adds to it.
async fn audit_call() -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let audit = Audit::open(folder.path(), Retention::default()).expect("a log");
    let line = CallLine {
        ts: 0,
        event: CallEvent::Started,
        who: "bench",
        execution_id: "01a1d5f0-0000-7000-8000-000000000001",
        trace_id: "01a1d5f0000070008000000000000001",
        call: 1,
        method: None,
        tool: "server:echo",
        args_sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        decision: Decision::Allow,
        rule: "default",
        success: None,
        code: None,
        duration_ms: None,
        speculation: None,
    };
    let ended = CallLine { event: CallEvent::Ended, success: Some(true), duration_ms: Some(1.5), ..line.clone() };
    let mut samples = Vec::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        audit.record_start(Vec::new(), &line).await;
        audit.record(&ended);
        samples.push(started.elapsed().as_secs_f64());
    }
    median(&samples)
}

/// Keeps this process, and those that it starts from now on, on one processor. Where they could be before.
fn one_processor() -> CpuSet {
    let all = sched_getaffinity(None).expect("a process has processors");
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).expect("one at least"));
    sched_setaffinity(None, &one).expect("one of those it had");
    all
}

/// The simplest client there is.
struct Plain {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    id: u64,
}

impl Plain {
    fn start(command: &Path, args: &[String]) -> Plain {
        let mut child = Command::new(command)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut plain = Plain { child, stdin, stdout: BufReader::with_capacity(64 * 1024, stdout), id: 0 };
        let info = json!({ "name": "plain", "version": "1" });
        plain
            .request("initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info }));
        writeln!(plain.stdin, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#).expect("a pipe");
        plain
    }

    fn request(&mut self, method: &str, params: &serde_json::Value) -> Vec<u8> {
        self.id += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        self.stdin.write_all(format!("{message}\n").as_bytes()).expect("a pipe");
        let own = format!("\"id\":{}", self.id);
        loop {
            let mut line = Vec::new();
            self.stdout.read_until(b'\n', &mut line).expect("a pipe");
            assert!(!line.is_empty(), "the server is gone");
            // Servers notify as well; an answer names our id near one of its ends.
            let ends = [&line[..line.len().min(100)], &line[line.len().saturating_sub(100)..]];
            if ends.iter().any(|end| String::from_utf8_lossy(end).contains(&own)) {
                // Looked at once, as any client must.
                serde_json::from_slice::<serde::de::IgnoredAny>(&line).expect("JSON");
                return line;
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: &serde_json::Value) -> f64 {
        let started = Instant::now();
        self.request("tools/call", &json!({ "name": tool, "arguments": arguments }));
        started.elapsed().as_secs_f64()
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// pml, without its command line.
struct Gateway {
    services: Services,
    pool: Pool,
    shutdown: CancellationToken,
    keeper: tokio::task::JoinHandle<()>,
    name: String,
    _data_dir: tempfile::TempDir,
}

impl Gateway {
    async fn start(name: &str, command: &Path, args: &[String]) -> Gateway {
        let path = env::var("PATH").unwrap_or_default();
        let target = Target::Stdio {
            command: command.to_string_lossy().into_owned(),
            args: args.iter().map(Secret::new).collect(),
            env: BTreeMap::from([("PATH".to_owned(), Secret::new(path))]),
            cwd: None,
        };
        let program = PathBuf::from(env!("CARGO_BIN_EXE_pml"));
        let data_dir = tempfile::tempdir().expect("a folder");
        let services = Services::start(serve::Options {
            program: program.clone(),
            servers: vec![Settings::new(name, Ok(target))],
            policy: Policy { allow: vec!["*".to_owned()], deny: vec!["other:*".to_owned()], ..Policy::default() },
            data_dir: Some(data_dir.path().to_owned()),
            model_dir: None,
            encoder: true,
            results_bytes: 512 * MIB,
            retention: Retention::default(),
            max_starting: 4,
            network: serve::Network::default(),
            traces: serve::Traces::default(),
            learns: false,
            speculates: false,
        })
        .expect("services start");
        services.servers.all()[0].init().await.expect("the server starts");
        let shutdown = CancellationToken::new();
        let (pool, keeper) = Pool::start(
            Options {
                program,
                mode: Mode::Worker,
                warm_workers: NonZeroUsize::new(8).expect("eight"),
                allow_weak: false,
                time_zone: TimeZone::default(),
                limits: WorkerLimits { memory_bytes: 64 * MIB as u64, cpu_seconds: 60 },
                max_frame_bytes: 16 * MIB as u32,
            },
            shutdown.clone(),
        );
        let keeper = tokio::spawn(keeper);
        pool.full().await;
        Gateway { services, pool, shutdown, keeper, name: name.to_owned(), _data_dir: data_dir }
    }

    /// The same call by a plain client and through the broker, in turns.
    async fn alternate(
        &self,
        plain: &mut Plain,
        tool: &str,
        arguments: &serde_json::Value,
        rounds: usize,
    ) -> (Vec<f64>, Vec<f64>) {
        let args = RawValue::from_string(arguments.to_string()).expect("JSON");
        let (mut direct, mut brokered) = (Vec::new(), Vec::new());
        for round in 0..rounds + rounds / 10 {
            let plain = plain.call(tool, arguments);
            let call = ToolCall {
                context: Arc::new(Context::new(Entry::Run, "bench")),
                id: CallId(1),
                tool: format!("{}:{tool}", self.name).parse().expect("a tool"),
                args: Arguments::new(args.clone(), None),
                is_raw: false,
                suggests: true,
                allowance: Allowance::new(budget()),
                notices: Notices::default(),
                afterwards: Afterwards::default(),
                progress: None,
                early: None,
            };
            let started = Instant::now();
            let answer = self.services.broker.call(call).await.expect("an answer");
            let took = started.elapsed().as_secs_f64();
            assert!(matches!(answer.body, AnswerBody::Value(_)));
            // The first ones warm caches.
            if round >= rounds / 10 {
                direct.push(plain);
                brokered.push(took);
            }
        }
        (direct, brokered)
    }

    /// Ten calls, one after the other: over a bare pipe, by the official client, and by a program; in
    /// turns.
    async fn sequential(&self, plain: &mut Plain, sdk: &mut Sdk) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let code = "for (let i = 0; i < 10; i++) await mcp.everything.echo({ message: 'hello' }); return 1";
        let budget = budget();
        let (mut bare, mut direct, mut programs) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..120 {
            let by_sdk = sdk.ten_calls();
            let plain: f64 = (0..10).map(|_| plain.call("echo", &json!({ "message": "hello" }))).sum();
            self.pool.full().await;
            let request = Request::new(code);
            let started = Instant::now();
            let never = CancellationToken::new();
            let outcome = execution::run(&self.pool, request, budget, &*self.services.broker, &|_| {}, &never).await;
            let took = started.elapsed().as_secs_f64();
            assert!(outcome.result.is_ok(), "{outcome:?}");
            if round >= 20 {
                bare.push(plain);
                direct.push(by_sdk);
                programs.push(took);
            }
        }
        (bare, direct, programs)
    }

    async fn stop(self) {
        self.services.stop().await;
        self.shutdown.cancel();
        let _ = self.keeper.await;
    }
}
