//! What one client can do to another, measured on the real program.
//!
//! While a program, a server or a client does its worst, a neighbour asks for something trivial again and again, over
//! stdio and over HTTP. What counts is the longest that the neighbour waits. Budgets are in SPECIFICATION.md; `--check`
//! fails if one is broken. On a machine that does other things as well, an answer is late now and then; what pml does to a
//! neighbour it does each time, so of several tries the best counts.
//!
//! Run: `scripts/bench neighbours [--json] [--check]`.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "measures real time and starts programs")]
#![expect(clippy::print_stderr, reason = "this is a program for people")]

#[path = "gateway/client.rs"]
#[expect(dead_code, reason = "the other bench needs more of it")]
mod client;
#[expect(dead_code, reason = "other benches need more of it")]
mod support;

use std::{
    env, fs,
    path::Path,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use client::{Pipe, Web};
use pml_testkit::promises::{Promise, Results, report};
use serde_json::{Value, json};
use support::server_path;

/// Tries of each attack, while the neighbour has to wait too long.
const TRIES: usize = 4;
/// Longest that a neighbour should wait.
const WAIT_MS: f64 = 50.0;
/// Between two requests of the neighbour.
const PAUSE: Duration = Duration::from_millis(3);
/// How long an attack goes on that does not end by itself.
const SIEGE: Duration = Duration::from_secs(2);

const PROMISES: [Promise; 3] = [
    Promise::at_most(
        "stdio_worst_ms",
        WAIT_MS,
        "an answer over stdio, while programs and servers do their worst, worst",
    ),
    Promise::at_most("http_worst_ms", WAIT_MS, "the same over HTTP, and while clients do, worst"),
    Promise::at_most("paths_ms", 1000.0, "300 parts of a JSON result of 26 MB"),
];

/// What programs do, with the help of servers.
const PROGRAMS: [(&str, &str); 18] = [
    ("a pattern of 60 KB", "return await mcp.odd.pattern_huge({ text: 'a'.repeat(40_000) })"),
    ("a slow pattern", "return await mcp.odd.pattern_slow({ text: 'a'.repeat(2_000_000) })"),
    ("a pattern that goes back", "return await mcp.odd.pattern_back({ text: 'a'.repeat(2_000_000) })"),
    ("a long enumeration", "return await mcp.odd.enumerated({ text: Array(20_000).fill(19_999) })"),
    ("parts of a large result", PATHS),
    (
        "the same at once",
        "const big = await mcp.fix.big_json({ items: 150_000 }); \
         return (await Promise.all(Array.from({ length: 300 }, (_, i) => big.json(`items[${i * 400}]`)))).length",
    ),
    (
        "large parts",
        "const big = await mcp.fix.big_json({ items: 150_000 }); let n = 0; \
         for (let i = 0; i < 6; i++) n += (await big.json('items')).size; return n",
    ),
    ("94 MB of arguments", "const big = await mcp.fix.big({ bytes: 94_000_000 }); await mcp.fix.any({ value: big })"),
    (
        "94 MB for a tool that is denied",
        "import { callTool } from 'pml'; const big = await mcp.fix.big({ bytes: 94_000_000 }); \
         for (let i = 0; i < 100; i++) await callTool('fix:then', { value: big })",
    ),
    ("results of 100 MB", "for (let i = 0; i < 3; i++) await mcp.fix.big({ bytes: 100_000_000 })"),
    (
        "tools that are not there",
        "import { callTool } from 'pml'; for (let i = 0; i < 990; i++) await callTool(`fix:none_${i}`, {})",
    ),
    (
        "the same at once",
        "import { callTool } from 'pml'; \
         await Promise.all(Array.from({ length: 990 }, (_, i) => callTool(`fix:none_${i}`, {})))",
    ),
    (
        "arguments of 7 MB",
        "const text = 'x'.repeat(7_000_000); for (let i = 0; i < 20; i++) await mcp.fix.echo({ text })",
    ),
    (
        "400 calls of 200 KB at once",
        "const text = 'x'.repeat(200_000); \
         await Promise.all(Array.from({ length: 400 }, () => mcp.fix.echo({ text })))",
    ),
    (
        "slices of 48 MB at once",
        "const big = await mcp.fix.big({ bytes: 48_000_000 }); \
         await Promise.all(Array.from({ length: 8000 }, (_, i) => big.slice(i * 5000, i * 5000 + 12_000)))",
    ),
    ("a result of 8 MB", "return 'x'.repeat(7_900_000)"),
    ("60 000 lines", "for (let i = 0; i < 60_000; i++) console.log('x')"),
    ("3 000 000 numbers", "await mcp.fix.any({ value: Array.from({ length: 3_000_000 }, () => 1) })"),
];

/// Says how long the parts took, without the result itself.
const PATHS: &str = "const big = await mcp.fix.big_json({ items: 150_000 }); const started = Date.now(); let n = 0; \
    for (let i = 0; i < 300; i++) n += (await big.json(`items[${i * 400}].name`)).length; \
    return { ms: Date.now() - started, bytes: big.size, n }";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = server_path("fixture-server");
    let config = format!(
        "[limits]\ntimeout_ms = 60000\n[policy]\ndeny = [\"fix:then\"]\n[servers.fix]\ncommand = {0}\n\
         [servers.odd]\ncommand = {0}\nargs = [\"--fault\", \"hostile-schemas\"]\n",
        json!(fixture)
    );
    fs::write(folder.path().join("pml.toml"), config).expect("a file");
    let mut results = Results::new();
    over_stdio(folder.path(), &mut results);
    over_http(folder.path(), &mut results);
    report(&results, &PROMISES, &args)
}

/// Programs, and one that takes far more memory to compile than it has.
fn programs() -> impl Iterator<Item = (&'static str, String)> {
    let deep = format!("return {}1", "a<".repeat(8000));
    PROGRAMS.into_iter().map(|(name, code)| (name, code.to_owned())).chain([("a program that nests deeply", deep)])
}

/// The least of what the neighbour waited at most, in several tries.
fn least(name: &str, way: &str, mut attack: impl FnMut() -> f64) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..TRIES {
        least = least.min(attack());
        if least <= WAIT_MS {
            break;
        }
    }
    eprintln!("  {way:<6} {least:>8.1} ms  {name}");
    least
}

fn execute(code: &str) -> Value {
    json!({ "name": "execute_code", "arguments": { "code": code } })
}

/// One client, which attacks and is its own neighbour.
fn over_stdio(folder: &Path, results: &mut Results) {
    let mut pipe = Pipe::begin(folder);
    for server in ["fix", "odd"] {
        pipe.call("search_tools", &json!({ "query": "", "server": server }));
    }
    let mut worst: f64 = 0.0;
    for (name, code) in programs() {
        let waited = least(name, "stdio", || {
            let run = pipe.send("tools/call", &execute(&code));
            let mut longest: f64 = 0.0;
            let mut ended = None;
            while ended.is_none() {
                let asked = Instant::now();
                let ping = pipe.send("ping", &json!({}));
                loop {
                    let answer = pipe.read();
                    if answer["id"] == ping {
                        break;
                    }
                    if answer["id"] == run {
                        ended = Some(answer);
                    }
                }
                longest = longest.max(asked.elapsed().as_secs_f64() * 1e3);
                thread::sleep(PAUSE);
            }
            if code == PATHS {
                let told = ended.map(|answer| answer["result"]["structuredContent"]["result"].clone());
                let ms = told.as_ref().and_then(|told| told["ms"].as_f64()).expect("it runs");
                let entry = results.entry("paths_ms").or_insert(ms);
                *entry = entry.min(ms);
            }
            longest
        });
        worst = worst.max(waited);
    }
    results.insert("stdio_worst_ms", worst);
    pipe.stop();
}

/// One client attacks, another is the neighbour.
fn over_http(folder: &Path, results: &mut Results) {
    let web = Web::start(folder);
    for server in ["fix", "odd"] {
        web.connect().call("search_tools", &json!({ "query": "", "server": server })).expect("an answer");
    }
    let mut worst: f64 = 0.0;
    for (name, code) in programs() {
        // What comes of it is its own business.
        let attack = || drop(web.connect().request("tools/call", execute(&code)));
        worst = worst.max(least(name, "http", || during(&web, attack)));
    }
    let spin = execute("const end = Date.now() + 3_000; while (Date.now() < end) {}");
    let computing = || {
        thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| web.connect().request("tools/call", spin.clone()));
            }
        });
    };
    worst = worst.max(least("12 programs that compute", "http", || during(&web, computing)));
    for (name, count, what, (head, body)) in [
        ("200 messages that do not end", 200, "POST /mcp", ("Content-Length: 16000000\r\n", "{")),
        ("1100 followers", 1100, "GET /events", ("", "")),
    ] {
        let besiege = || {
            let mut held: Vec<_> = (0..count).map(|_| web.connect()).collect();
            // Whoever is asked to make room may have gone.
            held.iter_mut().for_each(|connection| drop(connection.send(what, head, body)));
            thread::sleep(SIEGE);
        };
        worst = worst.max(least(name, "http", || during(&web, besiege)));
    }
    results.insert("http_worst_ms", worst);
}

/// The longest that a neighbour waits while the attack goes on, in milliseconds.
fn during(web: &Web, attack: impl FnOnce() + Send) -> f64 {
    let is_over = AtomicBool::new(false);
    let mut neighbour = web.connect();
    let mut longest: f64 = 0.0;
    thread::scope(|scope| {
        scope.spawn(|| {
            attack();
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            let asked = Instant::now();
            neighbour.request("tools/list", json!({})).expect("the neighbour is served");
            longest = longest.max(asked.elapsed().as_secs_f64() * 1e3);
            thread::sleep(PAUSE);
        }
    });
    longest
}
