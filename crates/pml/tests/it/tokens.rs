//! What a model is shown by `pml serve`, counted with a real tokenizer: o200k_base.

#![expect(clippy::disallowed_methods, reason = "these tests start pml as a client would")]

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};
use tiktoken_rs::o200k_base_singleton;

/// Most tokens that a client's model is shown before anything is asked.
const MOST_SHOWN: usize = 2500;
/// Of one answer, in the tests of the estimate.
const BUDGET: usize = 2000;

fn tokens(text: &str) -> usize {
    o200k_base_singleton().encode_ordinary(text).len()
}

/// `pml serve` over its pipes, gone when it is dropped.
struct Serve {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    id: u64,
    /// What `initialize` was answered.
    begun: Value,
    _folder: tempfile::TempDir,
}

impl Serve {
    fn start(config: &str) -> Serve {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pml.toml");
        fs::write(&file, config).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_pml"))
            .args(["serve", "--log", "error", "--config"])
            .arg(&file)
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut serve = Serve { child, stdin, stdout, id: 0, begun: Value::Null, _folder: folder };
        let client = json!({ "name": "test", "version": "1" });
        serve.begun = serve.request(
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client }),
        );
        serve
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        writeln!(self.stdin, "{message}").unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "pml is gone");
            let mut answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == self.id {
                assert!(answer["error"].is_null(), "{answer}");
                return answer["result"].take();
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_is_shown_at_first_is_bounded_however_many_servers_there_are() {
    for (count, name) in [(1, "server"), (50, "server"), (500, "a-server-with-quite-a-long-name")] {
        let mut config = String::new();
        for number in 0..count {
            writeln!(config, "[servers.{name}-{number:03}]\ncommand = \"/no/such/server\"").unwrap();
        }
        let mut serve = Serve::start(&config);
        let instructions = serve.begun["instructions"].as_str().unwrap().to_owned();
        let tools = serve.request("tools/list", json!({}))["tools"].to_string();
        let shown = tokens(&instructions) + tokens(&tools);
        assert!(shown <= MOST_SHOWN, "{count} servers: {shown} tokens\n{instructions}\n{tools}");
        assert!(shown > 300, "{count} servers: only {shown} tokens\n{instructions}\n{tools}");
    }
}

/// Texts as tools return them, each far longer than the budget: name, text, is it ordinary?
fn texts() -> Vec<(&'static str, String, bool)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let noise = noise(40_000);
    let rows: Vec<_> = (0..2000)
        .map(|n| {
            let (a, b) = (noise[n], noise[n + 2000]);
            json!({ "id": n, "name": format!("item {a}"), "ok": a > 99, "ratio": f64::from(b) / 7.0, "tags": ["new", null] })
        })
        .collect();
    let hex: String = noise.iter().map(|byte| format!("{byte:02x}")).collect();
    let table: String =
        noise.chunks(4).map(|row| format!("{}\t{}\t{}\n", row[0], row[1], u32::from(row[2]) * 7919)).collect();
    let ids: String = hex
        .as_bytes()
        .chunks_exact(32)
        .map(|id| String::from_utf8_lossy(id).into_owned())
        .map(|id| format!("{}-{}-{}-{}-{}\n", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]))
        .collect();
    let chinese = "网关把许多服务器连接在一起，代理只看到三个工具。程序在沙箱里运行，每次调用都会被记录下来，\
                   结果太长的时候可以分页阅读。如果服务器没有响应，错误信息会说明原因以及应该怎么做。";
    let german = "Das Gateway verbindet viele Server miteinander, und der Agent sieht nur drei Werkzeuge. Größere \
                  Ergebnisse werden aufbewahrt und können später seitenweise gelesen werden. ";
    vec![
        ("prose", [read("ARCHITECTURE.md"), read("docs/servers.md"), read("docs/threat-model.md")].concat(), true),
        ("code", [read("crates/pml/src/frontend/answer.rs"), read("crates/pml/src/upstream/actor.rs")].concat(), true),
        ("JSON", json!(rows).to_string(), true),
        ("indented JSON", serde_json::to_string_pretty(&rows).unwrap(), true),
        ("German", german.repeat(100), true),
        ("Chinese", chinese.repeat(200), true),
        ("base64", base64(&noise), true),
        ("hexadecimal", hex, true),
        ("UUIDs", ids, true),
        ("a table", table, true),
        ("emoji", "🚀🎉👩‍💻🇩🇪".repeat(3000), false),
        ("spaces", format!("a{}", " ".repeat(60_000)), false),
        ("one letter", "a".repeat(60_000), false),
        ("brackets", "[[[]]]{}".repeat(5000), false),
    ]
}

/// Bytes that are the same each time, and have no pattern that a tokenizer knows.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..count).map(|_| next()).collect()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes.iter().map(|byte| char::from(DIGITS[usize::from(byte % 64)])).collect()
}

#[test]
fn an_answer_has_about_as_many_tokens_as_it_may() {
    let mut serve = Serve::start(&format!("[gateway]\noutput_tokens = {BUDGET}\n"));
    let mut wrong = String::new();
    for (name, text, is_ordinary) in texts() {
        let ran = serve.call("execute_code", json!({ "code": "return args", "args": text }));
        let id = ran["structuredContent"]["result_handle"]["id"].as_str().unwrap_or_else(|| panic!("{name}: {ran}"));
        // A page is the longest text that is taken to fit.
        let page = serve.call("read_result", json!({ "id": id }));
        let forms = |answer: &Value| {
            let text = tokens(answer["content"][0]["text"].as_str().unwrap());
            // Some clients show this one instead.
            let structured = tokens(&answer["structuredContent"].to_string());
            [text, structured].map(|tokens| tokens as f64 / BUDGET as f64)
        };
        let (start, [text, structured]) = (forms(&ran), forms(&page));
        let least = if is_ordinary { 0.4 } else { 0.0 };
        let is_right = (least..=1.3).contains(&text) && structured <= 1.3 && start.iter().all(|start| *start <= 0.6);
        let told = format!("{name}: {text:.2} and {structured:.2} of the budget, the start {start:.2?}\n");
        if !is_right {
            wrong += &told;
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
