//! What sanitizing costs: when the sanitizer is ready, and how much ordinary and hostile JSON it takes in a second.
//!
//! Promises are in SPECIFICATION.md; `--check` fails if one is broken. Run: `scripts/bench sanitize [--json] [--check]`.

#![expect(clippy::disallowed_types, reason = "measures real time")]
#![expect(clippy::disallowed_methods, reason = "the benches share their support, which starts node")]
#![expect(clippy::print_stderr, reason = "this is a program for people")]
#![allow(dead_code, reason = "the benches share their support")]

use std::{env, hint::black_box, process::ExitCode, time::Instant};

use pml::trace::sanitize::Sanitizer;
use pml_testkit::promises::{Promise, Results, report};
use serde_json::json;
use support::median;

mod support;

/// Seconds for 50 MB are promised, since promises are upper bounds.
const PROMISES: [Promise; 3] = [
    Promise::at_most("ready_ms", 20.0, "the sanitizer is ready after its first use, in milliseconds"),
    Promise::at_most("ordinary_ms_per_50_mb", 1000.0, "50 MB of ordinary JSON, in milliseconds"),
    Promise::at_most("hostile_ratio", 20.0, "the worst hostile input to ordinary JSON of the same size"),
];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let mut results = Results::new();
    let sanitizer = Sanitizer::default();
    let started = Instant::now();
    black_box(sanitizer.text("password=hunter2"));
    results.insert("ready_ms", started.elapsed().as_secs_f64() * 1e3);

    let lines = ordinary();
    let bytes: usize = lines.iter().map(String::len).sum();
    let per_byte = seconds(|| lines.iter().for_each(|line| drop(black_box(sanitizer.json(line))))) / bytes as f64;
    results.insert("ordinary_mb_per_s", 1e-6 / per_byte);
    results.insert("ordinary_ms_per_50_mb", per_byte * 50e6 * 1e3);

    let mut worst = 0.0_f64;
    for (name, line) in hostile() {
        let ratio = seconds(|| drop(black_box(sanitizer.json(&line)))) / line.len() as f64 / per_byte;
        eprintln!("hostile, {name}: {ratio:.2} x ordinary");
        worst = worst.max(ratio);
    }
    results.insert("hostile_ratio", worst);
    report(&results, &PROMISES, &args)
}

fn seconds(work: impl Fn()) -> f64 {
    let sample = |_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    };
    median(&(0..5).map(sample).collect::<Vec<_>>())
}

/// Results of tools as they come: issues, files, rows, search results, about 4 KB a line.
fn ordinary() -> Vec<String> {
    let prose = "The request fails when the list of items is empty, because the page token is never reset. Steps to reproduce are below; \
        version 2.4.1 is fine, 2.5.0 is not. See the commit for details and the discussion that follows it.";
    let code = "export async function load(id: string) {\n  const token = await getToken();\n  return fetch(`/api/items/${id}`, { headers: { authorization: token } });\n}\n";
    (0..2000_u64)
        .map(|number| {
            let issues: Vec<_> = (0..6_u64)
                .map(|issue| {
                    json!({
                        "id": 1_800_000_000 + number * 10 + issue,
                        "node_id": format!("I_kwDOABCD{number:06}"),
                        "number": number,
                        "title": "List stays empty after reload",
                        "state": "open",
                        "author_association": "MEMBER",
                        "user": { "login": "octocat", "id": 583_231, "type": "User", "site_admin": false },
                        "labels": ["bug", "needs triage"],
                        "created_at": "2026-01-15T10:30:00Z",
                        "url": format!("https://api.example.com/repos/acme/widgets/issues/{number}"),
                        "sha": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
                        "body": prose,
                        "max_tokens": 4096,
                    })
                })
                .collect();
            let file = json!({ "path": "src/items/load.ts", "size": code.len(), "content": code.repeat(4) });
            json!({ "items": issues, "file": file, "next_page_token": null }).to_string()
        })
        .collect()
}

/// Texts that make careless searches slow.
fn hostile() -> Vec<(&'static str, String)> {
    const BYTES: usize = 1_000_000;
    let repeated = |text: &str| json!({ "text": text.repeat(BYTES / text.len()) }).to_string();
    let mut nested = "{\"a\":\"b\"}".to_owned();
    while nested.len() < BYTES / 2 {
        nested = json!({ "json": nested, "more": "x" }).to_string();
    }
    let mut all: Vec<(&'static str, String)> =
        vec![("nested", nested), ("deep", format!("{}{}", "[".repeat(BYTES / 2), "]".repeat(BYTES / 2)))];
    let texts = [
        ("dots", "a.a."),
        ("jwt", "eyJ"),
        ("jwt parts", "eyJ."),
        ("names", "password="),
        ("headers", "authorization: "),
        ("prefixes", "xoxb-"),
        ("addresses", "://"),
        ("commands", "curl "),
        ("at signs", "a@"),
        ("digits", "1 "),
        ("percent", "%22"),
        ("quotes", "\\\""),
        ("hashes", "$1$"),
        ("markers", "[EMAIL]"),
        ("base64", "YTph"),
        ("elements", "<password>"),
        ("keys", "-----BEGIN PRIVATE KEY-----"),
        ("cookies", "cookie: "),
        ("keys of services", "sk_live_"),
        ("phones", "+1 "),
    ];
    all.extend(texts.map(|(name, text)| (name, repeated(text))));
    all
}
