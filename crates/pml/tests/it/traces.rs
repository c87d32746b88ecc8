//! Each execution leaves one trace and knows on whose behalf it goes on, however it entered and however it ended.

use std::{sync::Arc, time::Duration};

use pml::{
    broker::{Passthrough, Policy},
    events::Body,
    sandbox::Mode,
    trace::Context,
};
use pml_testkit::helper_path;
use pml_wire::{ErrorCode, trace::Entry};
use rustix::process::Signal;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::{
    cli::stdout,
    gateway::{Gateway, Way, fixture},
    peer::{ERAS, Era, Home, LEGACY, initialize},
    support::options,
};

/// The only trace that there is.
fn only(gateway: &Gateway) -> Value {
    let mut traces = gateway.traces();
    assert_eq!(traces.len(), 1, "{traces:?}");
    traces.remove(0)
}

fn tasks(trace: &Value) -> &Vec<Value> {
    trace["taskResults"].as_array().unwrap()
}

fn layers(trace: &Value) -> Vec<u64> {
    tasks(trace).iter().map(|task| task["layerIndex"].as_u64().unwrap()).collect()
}

/// The lines of the program that made each task; 0 if it is not known.
fn lines(trace: &Value) -> Vec<u64> {
    tasks(trace).iter().map(|task| task["line"].as_u64().unwrap_or(0)).collect()
}

#[tokio::test]
async fn a_trace_has_everything_that_a_program_did() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    let program = r#"import { callTool, getPrompt, listResources, readResource, searchTools } from "pml";
        console.log("hello"); console.error("careful");
        const sum = await mcp.fix.getSum({ a: 1, b: 2 });
        await searchTools("echo", 1);
        await Promise.all([readResource("fixture://item/1"), getPrompt("fix", "greet", { name: "Ada" }), listResources("fix")]);
        await callTool("fix:fail", { message: "no" });
        await callTool("fix:nothing", {});
        return { sum }"#;
    gateway.value(program).await;
    let trace = only(&gateway);
    let short: Vec<_> = tasks(&trace)
        .iter()
        .map(|task| {
            let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            let (kind, tool, code) = (text(&task["kind"]), text(&task["tool"]), text(&task["error"]["code"]));
            format!("{} {kind} {tool} {} {code}", text(&task["taskId"]), task["success"])
        })
        .collect();
    let expected = [
        "t1 tool fix:get-sum true -",
        "t2 search pml:search true -",
        "t3 resource fix:resource:fixture://item/1 true -",
        "t4 prompt fix:prompt:greet true -",
        "t5 resource fix:resource:* true -",
        "t6 tool fix:fail false TOOL_ERROR",
        "t7 tool fix:nothing false TOOL_NOT_FOUND",
    ];
    assert_eq!(short, expected);
    assert_eq!(layers(&trace), [1, 2, 3, 3, 3, 4, 5]);
    assert_eq!(lines(&trace), [3, 4, 5, 5, 5, 6, 7]);
    let first = &tasks(&trace)[0];
    assert_eq!((&first["args"], first["result"].as_f64()), (&json!({"a": 1, "b": 2}), Some(3.0)));
    assert!(first["acceptedAt"].is_string() && first["durationMs"].as_f64().unwrap() > 0.0, "{first}");
    let calls: Vec<_> = tasks(&trace).iter().map(|task| task["callId"].as_u64().unwrap()).collect();
    assert!(calls.is_sorted() && calls[0] == 1, "{calls:?}");
    assert_eq!(trace["result"]["sum"].as_f64(), Some(3.0));
    assert_eq!(trace["logs"], json!([{"level": "log", "text": "hello"}, {"level": "error", "text": "careful"}]));
    assert_eq!((&trace["caller"], &trace["entry"], &trace["success"]), (&json!("test"), &json!("run"), &json!(true)));
    assert_eq!(trace["code"], program);
    assert_eq!(trace["codeHash"].as_str().unwrap().len(), 64);
    assert_eq!((&trace["args"], &trace["metadata"]["schemaVersion"]), (&Value::Null, &json!(1)));
    assert_eq!(trace["metadata"]["pmlVersion"], env!("CARGO_PKG_VERSION"));
    gateway.stop().await;
}

#[tokio::test]
async fn each_call_has_the_line_that_made_it() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    let table: [(&str, &[u64]); 8] = [
        ("// one\n\n\n\nawait mcp.fix.echo({ text: 'é😀' }); await mcp.fix.echo({\n text: 'b' })", &[5, 5]),
        // Types, enums and what is compiled away take no lines.
        (
            "interface A {\n a: 1\n}\nenum E { A,\n B }\nconst x: A = { a: 1 };\nawait mcp.fix.echo({ text: `${E.B}` })",
            &[7],
        ),
        // After an await, in a function, in a loop, in a callback.
        (
            "async function f(text: string) {\n  await 0;\n  return mcp.fix.echo({ text })\n}\nfor (let i = 0; i < 3; i++)\n  await f('x');\nawait Promise.all([1, 2].map((n) =>\n  mcp.fix.echo({ text: `${n}` })))",
            &[3, 3, 3, 8, 8],
        ),
        // As models send programs.
        ("Here it is:\n```ts\nawait mcp.fix.echo({ text: 'a' });\n```\n", &[3]),
        ("export default async () => {\n  return await mcp.fix.echo({ text: 'a' })\n}", &[2]),
        ("const { callToolsBatch } = pml;\n\nawait callToolsBatch([{ name: 'fix:echo', args: { text: 'a' } }])", &[3]),
        // A program may reach tools without their name in its text, and may hide where it is.
        ("const it = globalThis['m' + 'cp'];\nawait it.fix.echo({ text: 'a' })", &[2]),
        ("Error.stackTraceLimit = 0;\nawait mcp.fix.echo({ text: 'a' })", &[0]),
    ];
    for (code, expected) in table {
        gateway.value(code).await;
        assert_eq!(lines(&only(&gateway)), expected, "{code}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_line_that_the_program_does_not_have_is_not_kept() {
    let workers = options(helper_path("hostile-worker"), Mode::Subprocess);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let server = fixture(Way::Stdio, "both", &[]);
    let gateway = Gateway::with_workers(vec![server], Policy::default(), folder, &path, workers);
    gateway.value("odd-lines").await;
    assert_eq!(lines(&only(&gateway)), [0, 1, 0, 0]);
    gateway.stop().await;
}

#[tokio::test]
async fn calls_that_wait_for_their_turn_are_of_the_layer_they_were_made_in() {
    let mut gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    gateway.budget.calls_in_flight = 4;
    gateway.value("await Promise.all(Array.from({ length: 40 }, () => mcp.fix.echo({ text: 'x' }))); await mcp.fix.echo({ text: 'y' })").await;
    let trace = only(&gateway);
    assert_eq!(layers(&trace)[..40], [1; 40]);
    assert_eq!(layers(&trace)[40..], [2]);
    // Calls that the host has not read when the first of them are over.
    gateway.budget.result_bytes = 16 << 20;
    let code = "const text = 'x'.repeat(400_000); await Promise.all(Array.from({ length: 100 }, () => mcp.fix.echo({ text }).then(() => 1))); return 1";
    gateway.value(code).await;
    assert_eq!(layers(&only(&gateway)), [1; 100]);
    gateway.stop().await;
}

#[tokio::test]
async fn a_run_that_is_dropped_leaves_its_trace_too() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    let run = gateway.run("await mcp.fix.echo({ text: 'x' }); await mcp.fix.hang({})");
    let is_hanging = |body: &Body| matches!(body, Body::ToolStarted { tool, .. } if tool.as_str() == "fix:hang");
    tokio::select! {
        outcome = run => panic!("{outcome:?}"),
        _ = gateway.event(is_hanging) => {}
    }
    let trace = only(&gateway);
    assert_eq!((&trace["success"], &trace["errorCode"]), (&json!(false), &json!("CANCELLED")));
    let codes: Vec<_> = tasks(&trace).iter().map(|task| task["error"]["code"].clone()).collect();
    assert_eq!(codes, [Value::Null, json!("CANCELLED")]);
    gateway.stop().await;
}

#[tokio::test]
async fn decisions_are_known_also_of_a_run_that_is_killed() {
    let mut gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    let outcomes = |trace: &Value| -> Vec<String> {
        let decisions = trace["decisions"].as_array().unwrap();
        decisions
            .iter()
            .map(|it| format!("{} {}", it["condition"].as_str().unwrap(), it["outcome"].as_str().unwrap()))
            .collect()
    };
    // The first decisions, and those before a call, are known at once.
    let run = gateway.run("const n = 3; if (n > 2) { n < 1 ? 1 : 2; n > 1 ? 1 : 2 } await mcp.fix.hang({})");
    let is_hanging = |body: &Body| matches!(body, Body::ToolStarted { tool, .. } if tool.as_str() == "fix:hang");
    tokio::select! {
        outcome = run => panic!("{outcome:?}"),
        _ = gateway.event(is_hanging) => {}
    }
    assert_eq!(outcomes(&only(&gateway)), ["n > 2 true", "n < 1 false", "n > 1 true"]);
    // A run that ends by a limit.
    gateway.budget.set_timeout(Duration::from_millis(300));
    let (code, _) = gateway.error("const n = 3; if (n > 2) { for (;;); }").await;
    assert_eq!(code, ErrorCode::Timeout);
    assert_eq!(outcomes(&only(&gateway)), ["n > 2 true"]);
    // What is beyond the limit is counted.
    gateway.budget.set_timeout(Duration::from_secs(10));
    gateway.value("let n = 0; for (let i = 0; i < 700; i++) { if (i % 2) n = Math.max(n, i) } return n").await;
    let trace = only(&gateway);
    assert_eq!((outcomes(&trace).len(), &trace["decisionsCut"]), (200, &json!(500)));
    gateway.value("let n = 0; for (let i = 0; i < 70000; i++) { if (i % 2) n = Math.max(n, i) } return n").await;
    assert_eq!(only(&gateway)["decisionsCut"], 10_000, "so many or more");
    gateway.stop().await;
}

#[tokio::test]
async fn a_call_that_a_client_makes_itself_is_a_trace_of_one_task() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    let forward = |name: &str, arguments: Value| Passthrough {
        context: Arc::new(Context::new(Entry::Passthrough, "ann")),
        tool: name.parse().unwrap(),
        params: Map::from_iter([("name".to_owned(), name.into()), ("arguments".to_owned(), arguments)]),
        meta: Map::new(),
        relay: None,
        owner: None,
    };
    let broker = &gateway.services.broker;
    broker.forward(forward("fix:getSum", json!({"a": 1, "b": 2}))).await.unwrap().unwrap();
    broker.forward(forward("fix:fail", json!({"message": "no"}))).await.unwrap().unwrap();
    broker.forward(forward("fix:nothing", json!({}))).await.unwrap_err();
    let hanging = broker.forward(forward("fix:hang", json!({})));
    assert!(timeout(Duration::from_millis(300), hanging).await.is_err());
    let traces = gateway.traces();
    let short: Vec<_> = traces
        .iter()
        .map(|trace| {
            let [task] = &tasks(trace)[..] else { panic!("{trace}") };
            assert_eq!((&trace["entry"], &trace["caller"]), (&json!("passthrough"), &json!("ann")), "{trace}");
            format!(
                "{} {} {}",
                task["tool"].as_str().unwrap(),
                task["success"],
                trace["errorCode"].as_str().unwrap_or("-")
            )
        })
        .collect();
    let expected = [
        "fix:get-sum true -",
        "fix:fail false TOOL_ERROR",
        "fix:nothing false TOOL_NOT_FOUND",
        "fix:hang false CANCELLED",
    ];
    assert_eq!(short, expected);
    assert_eq!(tasks(&traces[0])[0]["args"], json!({"a": 1, "b": 2}));
    assert!(tasks(&traces[0])[0]["result"]["structuredContent"].is_object(), "{}", traces[0]);
    gateway.stop().await;
}

#[tokio::test]
async fn a_search_and_a_subscription_of_a_client_are_traces_of_one_task() {
    let home = Home::with_fixture("");
    let mut peer = home.stdio_with(Era::Legacy, &["--expose", "both"]);
    peer.request("initialize", initialize(LEGACY[0])).await;
    peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    peer.call("search_tools", json!({"query": "echo a text", "limit": 2})).await;
    for uri in ["fixture://item/1", "pml:nobody:x"] {
        peer.request("resources/subscribe", json!({ "uri": uri })).await;
    }
    peer.end().await;
    let listed: Value = serde_json::from_str(&stdout(&home.pml(&["trace", "list", "--json"]))).unwrap();
    let traces = listed["traces"].as_array().unwrap();
    let shown: Vec<Value> = traces
        .iter()
        .rev()
        .map(|trace| {
            let shown = home.pml(&["trace", "show", trace["traceId"].as_str().unwrap(), "--json"]);
            serde_json::from_str(&stdout(&shown)).unwrap()
        })
        .collect();
    assert_eq!(shown.len(), 2, "a refusal before entry is no trace: {shown:?}");
    let (search, subscription) = (&tasks(&shown[0])[0], &tasks(&shown[1])[0]);
    assert_eq!((&search["kind"], &search["tool"]), (&json!("search"), &json!("pml:search")));
    assert_eq!((&search["args"]["query"], &search["args"]["limit"]), (&json!("echo a text"), &json!(2)));
    assert_eq!(search["result"][0]["name"], "fix:echo", "{search}");
    assert_eq!(subscription["kind"], "resource");
    assert_eq!(
        (&subscription["tool"], &subscription["success"]),
        (&json!("fix:resource:fixture://item/1"), &json!(true))
    );
    assert!(shown.iter().all(|trace| trace["entry"] == "passthrough" && trace["caller"] == "peer"), "{shown:?}");
}

#[test]
fn a_long_program_is_kept_whole_and_can_be_run_again() {
    let home = Home::new("");
    let token = format!("ghp_{}", "A1b2C3d4E5f6".repeat(3));
    let long: String = (0..4000).map(|n| format!("const v{n} = {n}; // größer\n")).collect();
    for (name, code) in [("plain", format!("{long}return v3999")), ("secret", format!("{long}return '{token}'"))] {
        let file = home.path().join(format!("{name}.ts"));
        std::fs::write(&file, &code).unwrap();
        home.pml(&["run", "--intent", name, file.to_str().unwrap()]);
        let trace: Value = serde_json::from_str(&stdout(&home.pml(&["trace", "show", "last", "--json"]))).unwrap();
        let kept = trace["code"].as_str().unwrap();
        assert_eq!(trace["metadata"]["truncated"], json!([]), "{name}");
        assert_eq!(trace["metadata"]["codeRedacted"], json!(name == "secret"));
        assert!(code.len() > 100_000 && !kept.contains(&token));
        if name == "plain" {
            assert_eq!(kept, code);
            std::fs::write(&file, kept).unwrap();
            assert_eq!(stdout(&home.pml(&["run", file.to_str().unwrap()])).trim(), "3999");
        }
    }
}

#[tokio::test]
async fn the_caller_is_the_client_and_its_trace_goes_on() {
    let home = Home::with_fixture("");
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for era in ERAS {
        let mut peer = home.connected(era).await;
        let params = json!({
            "name": "execute_code",
            "arguments": {"code": "return await mcp.fix.echo({ text: 'x' })"},
            "_meta": {"traceparent": traceparent},
        });
        peer.request("tools/call", params).await;
        peer.call("search_tools", json!({"query": "echo"})).await;
        peer.end().await;
    }
    let lines = home.audit_lines();
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert!(lines.iter().all(|line| line["who"] == "peer"), "{lines:?}");
    let calls = lines.iter().filter(|line| line["event"] != "search");
    assert!(calls.into_iter().all(|line| line["trace_id"] == traceparent[3..35]), "{lines:?}");

    let home = Home::with_fixture("");
    let server = home.http(&[]).await;
    let client = server.client(Era::Legacy).await;
    client.value("return await mcp.fix.echo({ text: 'x' })").await;
    server.end().await;
    let lines = home.audit_lines();
    assert!(lines.iter().all(|line| line["who"].as_str().unwrap().starts_with("http")), "{lines:?}");
}

#[test]
fn pml_run_has_an_intent_and_a_trace() {
    let home = Home::with_fixture("");
    let code = "await mcp.fix.echo({ text: 'secret words' }); return 1";
    let output = home.pml(&["--log", "debug", "run", "--intent", "to see it", "-e", code]);
    assert_eq!(stdout(&output).trim(), "1");
    let log = String::from_utf8(output.stderr).unwrap();
    let line = log.lines().find(|line| line.contains("tasks=1 layers=1")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("entry=Run caller=\"cli\" success=true"), "{line}");
    assert!(!log.contains("secret words"), "no payload is logged");
}

#[tokio::test]
async fn an_answered_execution_has_its_trace_after_kill_9() {
    const ROUNDS: usize = 12;
    let home = Home::with_fixture("");
    let mut expected = Vec::new();
    for round in 0..ROUNDS {
        let log = home.path().join("log");
        let stderr = std::fs::File::create(&log).unwrap();
        let mut peer = home.stdio_logged(Era::Legacy, &["--log", "debug"], stderr);
        peer.request("initialize", initialize(LEGACY[0])).await;
        // Also of the first execution of a process, which begins when the sanitizer is made.
        if round % 2 == 0 {
            peer.value("return await mcp.fix.echo({ text: 'ready' })").await;
        }
        let code = format!("return await mcp.fix.echo({{ text: 'n{round}' }})");
        let answer = peer.call("execute_code", json!({ "code": code, "intent": format!("round {round}") })).await;
        peer.signal(Signal::KILL);
        assert_eq!(answer["isError"], json!(false), "{answer}");
        peer.wait_unread().await;
        // On a machine that is busy a trace may take longer than an answer waits. That is counted, and said.
        if !std::fs::read_to_string(&log).unwrap().contains("before its trace was stored") {
            expected.push(format!("round {round}"));
        }
    }
    assert!(!expected.is_empty(), "an answer waits for its trace");
    let listed = home.pml(&["trace", "list", "--limit", "100", "--json"]);
    let listed: Value = serde_json::from_str(&stdout(&listed)).unwrap();
    let traces = listed["traces"].as_array().unwrap();
    for intent in expected {
        let mut found = traces.iter().filter(|trace| trace["intent"] == intent);
        assert_eq!(found.next().map(|trace| &trace["success"]), Some(&json!(true)), "{intent}: {listed}");
        assert_eq!(found.next(), None, "{intent}: {listed}");
    }
}
