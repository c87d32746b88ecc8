//! What calls made ahead bring: a program that reads three things one after another, from a server that takes 50 ms for each.
//!
//! The real program serves twice, with `learning.speculate` and without. Both run the program until the first makes calls ahead,
//! then it is timed in both. Every run reads other things, so nothing is answered twice. `--check` fails if the promise of
//! SPECIFICATION.md is broken.
//!
//! Run: `scripts/bench speculation [--json] [--check]`.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "measures real time and starts programs")]

#[path = "gateway/client.rs"]
#[expect(dead_code, reason = "the other bench needs more of it")]
mod client;
#[expect(dead_code, reason = "other benches need more of it")]
mod support;

use std::{
    env, fs,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use client::Pipe;
use pml_testkit::promises::{Promise, Results, report};
use serde_json::{Value, json};
use support::{median, server_path};

const READ_MS: u64 = 50;
/// Runs before anything is timed, with time to learn from each.
const TRAINING: u32 = 15;
const LEARN: Duration = Duration::from_millis(150);
/// Runs that are timed.
const ROUNDS: u32 = 60;

const PROMISES: [Promise; 1] = [Promise::at_most(
    "ahead_ratio",
    0.6,
    "three reads of 50 ms one after another, made ahead, as a part of the same not",
)];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let (mut ahead, mut plain) = (Gateway::start(true), Gateway::start(false));
    for round in 0..TRAINING {
        ahead.run(round);
        plain.run(round);
        thread::sleep(LEARN);
    }
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in TRAINING..TRAINING + ROUNDS {
        with.push(ahead.run(round));
        without.push(plain.run(round));
    }
    let mut results = Results::new();
    let (with, without) = (median(&with), median(&without));
    results.insert("three_reads_ahead_ms", with);
    results.insert("three_reads_ms", without);
    results.insert("ahead_ratio", with / without);
    report(&results, &PROMISES, &args)
}

struct Gateway {
    pipe: Pipe,
    /// Removed at the end.
    _folder: tempfile::TempDir,
}

impl Gateway {
    fn start(speculates: bool) -> Gateway {
        let folder = tempfile::tempdir().expect("a folder");
        let fixture = server_path("fixture-server");
        let config = format!(
            "[learning]\nspeculate = {speculates}\n[servers.fix]\ncommand = {}\nargs = [\"--fault\", \"reads={READ_MS}\"]\ntrusted = true\n",
            json!(fixture)
        );
        fs::write(folder.path().join("pml.toml"), config).expect("a file");
        let pipe = Pipe::begin(folder.path());
        Gateway { pipe, _folder: folder }
    }

    /// Milliseconds that the program takes.
    fn run(&mut self, round: u32) -> f64 {
        let code = format!(
            "const one = await mcp.fix.read({{ key: 'one{round}' }});\nconst two = await mcp.fix.read({{ key: 'two{round}' }});\n\
             const three = await mcp.fix.read({{ key: 'three{round}' }});\nreturn [one.key, two.key, three.key]"
        );
        let started = Instant::now();
        let answer: Value = self.pipe.call("execute_code", &json!({ "code": code }));
        let took = started.elapsed().as_secs_f64() * 1e3;
        let expected = json!([format!("one{round}"), format!("two{round}"), format!("three{round}")]);
        assert_eq!(answer["structuredContent"]["result"], expected, "{answer}");
        took
    }
}
