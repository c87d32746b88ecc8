//! What servers report about calls that a program makes, on its way to the client of `execute_code`.

use pml_testkit::fixture_path;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::peer::{ERAS, Home};

/// A server of each era, whose tool `research` must be called as a task.
fn home() -> Home {
    let command = fixture_path().to_string_lossy().into_owned();
    let server = |name: &str, era: &str| {
        format!("[servers.{name}]\ncommand = {command:?}\nargs = [\"--era\", \"{era}\", \"--fault\", \"tasks\"]\n")
    };
    Home::new(&format!("{}{}", server("old", "legacy"), server("new", "modern")))
}

/// The messages of the progress notifications among what a client was told.
fn messages(told: &[Value]) -> Vec<String> {
    let progress = told.iter().filter(|message| message["method"] == "notifications/progress");
    let mut last = 0.0;
    progress
        .map(|message| {
            let number = message["params"]["progress"].as_f64().unwrap();
            assert!(number > last, "progress grows: {told:?}");
            last = number;
            message["params"]["message"].as_str().unwrap().to_owned()
        })
        .collect()
}

/// Checks that there are messages that begin and end so.
fn check(told: &[Value], expected: &[[&str; 2]]) {
    let messages = messages(told);
    for [start, end] in expected {
        let is_it = |message: &String| message.starts_with(start) && message.ends_with(end);
        assert!(messages.iter().any(is_it), "{start} … {end}: {messages:?}");
    }
}

const PROGRAM: &str = "await Promise.all([
        mcp.old.sleep({ ms: 2400, progress: 2 }), mcp.new.sleep({ ms: 2400, progress: 2 }),
        mcp.old.research({ polls: 8 }), mcp.new.research({ polls: 8 }),
    ]); return 1";

/// What is told of each call. Which of its steps depends on how many there are to tell.
const REPORTS: [[&str; 2]; 6] = [
    ["calling old:sleep", ""],
    ["calling new:research", ""],
    ["old:sleep (call 1): ", ""],
    ["new:sleep (call 2): ", ""],
    ["old:research (call 3): ", ""],
    ["new:research (call 4): ", ""],
];

fn call(code: &str) -> Value {
    json!({"name": "execute_code", "arguments": {"code": code}, "_meta": {"progressToken": "p"}})
}

#[tokio::test]
async fn what_servers_report_reaches_the_client_over_stdio() {
    let home = home();
    for era in ERAS {
        let mut peer = home.connected(era).await;
        let answer = peer.request("tools/call", call(PROGRAM)).await;
        assert_eq!(answer["result"]["structuredContent"]["result"], 1, "{answer}");
        check(&peer.heard, &REPORTS);
        // The first report of a run is told at once, word for word.
        peer.heard.clear();
        peer.request("tools/call", call("return await mcp.new.sleep({ ms: 400, progress: 1 })")).await;
        check(&peer.heard, &[["new:sleep (call 1): 1/1 step 1", ""]]);
        peer.heard.clear();
        peer.request("tools/call", call("return await mcp.old.research({ polls: 3 })")).await;
        check(&peer.heard, &[["old:research (call 1): working on it", ""]]);
        // Who gives no token hears nothing.
        peer.heard.clear();
        peer.value("return await mcp.old.sleep({ ms: 50, progress: 5 })").await;
        assert_eq!(messages(&peer.heard), [""; 0]);
        peer.end().await;
    }
}

#[tokio::test]
async fn what_servers_report_reaches_the_client_over_http_and_the_events() {
    let home = home();
    let server = home.http(&[]).await;
    for era in ERAS {
        let client = server.client(era).await;
        let mut events = server.http("GET", "/events?topic=execution.call.progress").send().await;
        let (told, answer) = client.run(json!("p"), PROGRAM).send().await.told().await;
        assert_eq!(answer.unwrap()["result"]["structuredContent"]["result"], 1);
        check(&told, &REPORTS);
        let (_, event) = events.event().await.expect("an event");
        let body = &event["body"];
        assert!(body["tool"].is_string() && body["call"].is_u64() && body["message"].is_string(), "{event}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_task_reports_with_the_token_of_its_call_after_that_was_answered() {
    let home = home();
    for era in ERAS {
        let mut peer = home.connected(era).await;
        for server in ["old", "new"] {
            let code = format!("return await mcp.{server}.research({{ polls: 5 }})");
            let answer = peer.request("tools/call", call(&code)).await;
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            let messages = messages(&peer.heard);
            let report = format!("{server}:research (call 1): ");
            let counted =
                messages.iter().filter(|message| message.starts_with(&report) && message.contains("/5 poll "));
            assert!(counted.count() > 0, "{messages:?}");
            peer.heard.clear();
        }
        peer.end().await;
    }
}

#[tokio::test]
async fn a_flood_of_reports_is_thinned_out() {
    let home = home();
    let mut peer = home.connected(ERAS[0]).await;
    peer.value("return await mcp.old.echo({ text: 'up' })").await;
    let begun = Instant::now();
    let answer = peer.request("tools/call", call("return await mcp.old.sleep({ ms: 1000, progress: 5000 })")).await;
    let most = begun.elapsed().as_millis() / 100 + 2;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let messages = messages(&peer.heard);
    let reports: Vec<_> = messages.iter().filter(|message| message.starts_with("old:sleep (call 1): ")).collect();
    assert!(!reports.is_empty() && reports.len() as u128 <= most, "{most}: {reports:?}");
    peer.end().await;
}
