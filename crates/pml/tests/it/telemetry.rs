//! Spans and metrics, as a collector in another process gets them.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Stdio},
    time::Duration,
};

use pml_testkit::fixture_path;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    peer::{Era, Home},
    real_servers::installed,
};

/// A collector that checks what it gets against the protocol's own definitions.
struct Collector {
    child: Child,
    address: String,
    file: PathBuf,
}

impl Collector {
    fn start(home: &Home, args: &[&str]) -> Collector {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/servers/otlp_receiver.py");
        let file = home.path().join("collected.jsonl");
        let mut command = home.command(installed("python/bin/python")).into_std();
        let mut child = command.arg(script).arg(&file).args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Collector { child, address: address.trim().to_owned(), file }
    }

    /// What it has got so far.
    fn requests(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for line in &lines {
            assert_eq!(line["error"], Value::Null, "{line}");
        }
        lines
    }

    /// The spans that it has taken.
    fn spans(&self) -> Vec<Value> {
        let taken = self.requests().into_iter().filter(|line| line["path"] == "/v1/traces" && line["status"] == 200);
        let resources = taken.flat_map(|mut line| line["request"]["resourceSpans"].take().as_array().unwrap().clone());
        resources.flat_map(|resource| resource["scopeSpans"][0]["spans"].as_array().unwrap().clone()).collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn home(collector: &Collector, home: Home, more: &str) -> Home {
    let (fixture, address) = (fixture_path(), &collector.address);
    home.configure(&format!(
        "[sandbox]\nmode = \"subprocess\"\n[telemetry]\notlp = {address:?}\n{more}\n[servers.fix]\ncommand = {:?}\n",
        fixture.to_str().unwrap()
    ));
    home
}

#[tokio::test]
async fn a_collector_gets_the_spans_of_clients_programs_and_calls_in_one_trace() {
    let folder = Home::empty();
    let collector = Collector::start(&folder, &["--fail-first", "1"]);
    let home = home(&collector, folder, "headers = { x-key = \"k\" }");
    let mut peer = home.connected(Era::Legacy).await;
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let code =
        "await mcp.fix.echo({ text: 'sk-ant-api03-secret' }); await callTool('fix:fail', { message: 'no' }); return 1";
    let params = json!({
        "name": "execute_code",
        "arguments": {"code": format!("import {{ callTool }} from 'pml'; {code}"), "intent": "echo something"},
        "_meta": {"traceparent": format!("00-{trace}-{span}-01")},
    });
    let answer = peer.request("tools/call", params).await;
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    peer.end().await;

    let requests = collector.requests();
    assert!(requests.iter().all(|line| line["headers"]["x-key"] == "k"));
    assert!(requests.iter().any(|line| line["status"] == 503), "the first was not taken, and sent again");
    let spans = collector.spans();
    let names: Vec<_> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["tools/call execute_code", "tools/call fix:echo", "tools/call fix:fail"]);
    assert!(spans.iter().all(|span| span["traceId"] == trace));
    assert_eq!(spans[0]["parentSpanId"], span);
    assert!(spans[1..].iter().all(|call| call["parentSpanId"] == spans[0]["spanId"]));
    assert_eq!(spans[2]["status"]["code"], 2);
    let metrics = requests.iter().rfind(|line| line["path"] == "/v1/metrics").unwrap();
    let metrics = metrics["request"]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let names: Vec<_> = metrics.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mcp.client.operation.duration", "mcp.server.operation.duration"]);
    let text = fs::read_to_string(&collector.file).unwrap();
    assert!(!text.contains("gen_ai.tool.call.arguments") && !text.contains("sk-ant-api03"), "only on request");
}

#[tokio::test]
async fn arguments_are_sent_on_request_and_without_secrets() {
    let folder = Home::empty();
    let collector = Collector::start(&folder, &[]);
    let home = home(&collector, folder, "payloads = true");
    let mut peer = home.connected(Era::Modern).await;
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let code = format!("return await mcp.fix.echo({{ text: 'the token is {secret}, the colour is blue' }})");
    peer.value(&code).await;
    peer.end().await;
    let text = fs::read_to_string(&collector.file).unwrap();
    assert!(text.contains("gen_ai.tool.call.arguments") && text.contains("the colour is blue"), "{text}");
    assert!(!text.contains(&secret[4..]), "{text}");
    assert!(!collector.spans().is_empty());
}

#[tokio::test]
async fn a_collector_that_hangs_costs_nobody_anything() {
    let folder = Home::empty();
    let collector = Collector::start(&folder, &["--hang"]);
    let home = home(&collector, folder, "");
    let mut peer = home.connected(Era::Legacy).await;
    for round in 0..20 {
        assert_eq!(
            peer.value(&format!("return await mcp.fix.echo({{ text: 'n{round}' }})")).await,
            format!("n{round}")
        );
    }
    // It ends all the same, and keeps every trace. Of a request that hangs it waits for the grace of the last ones, 2 s, and not
    // for the 10 s that a request may take otherwise: how long a pml without a collector takes to end is subtracted, so that a
    // busy machine does not count.
    let begun = Instant::now();
    peer.end().await;
    let with_collector = begun.elapsed();
    let plain = Home::with_fixture("");
    let mut peer = plain.connected(Era::Legacy).await;
    peer.value("return await mcp.fix.echo({ text: 'x' })").await;
    let begun = Instant::now();
    peer.end().await;
    let more = with_collector.saturating_sub(begun.elapsed());
    assert!(more < Duration::from_secs(6), "{more:?} more than without a collector");
    let listed = home.pml(&["trace", "list", "--limit", "100", "--json"]);
    let text = String::from_utf8(listed.stdout).unwrap();
    assert_eq!(text.matches("\"execute_code\"").count().max(text.matches("fix:echo").count()), 20, "{text}");
}
