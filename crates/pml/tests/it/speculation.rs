//! Calls that are made ahead: by the real binary, against a real server that counts the calls it sees.

use std::{collections::BTreeMap, time::SystemTime};

use pml_testkit::fixture_path;
use pml_wire::ExecutionId;
use serde_json::{Value, json};

use super::{
    cli::stdout,
    peer::{Era, Home, PATIENCE, Peer},
    trace_cli::put,
};

/// A home with the fixture as the trusted server `fix`, and the same not trusted as `wild`, whose reads take 20 ms.
fn home(more: &str) -> Home {
    let fixture = fixture_path();
    let command = fixture.to_str().unwrap();
    let server = |name: &str, trusted: bool| {
        format!("[servers.{name}]\ncommand = {command:?}\nargs = [\"--fault\", \"reads=20\"]\ntrusted = {trusted}\n")
    };
    let servers = format!("{}{}", server("fix", true), server("wild", false));
    Home::new(&format!("[sandbox]\nmode = \"subprocess\"\n{more}\n{servers}"))
}

const ON: &str = "[learning]\nspeculate = true";

/// A stored execution with these forecasts.
fn trace(forecasts: &[Value]) -> Value {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    json!({
        "traceId": ExecutionId::mint(), "entry": "execute_code", "caller": "agent", "success": true, "durationMs": 5.0,
        "timestamp": now - 60_000, "forecasts": forecasts,
        "taskResults": [{
            "taskId": "t1", "callId": 1, "tool": "fix:read", "success": true, "timestamp": now - 60_000, "durationMs": 1.0,
        }],
        "metadata": { "pmlVersion": "0.1.0", "schemaVersion": 1 },
    })
}

fn forecast(certain: bool, follows: f64, outcome: &str) -> Value {
    json!({ "tool": "fix:read", "certain": certain, "follows": follows, "probability": 0.5, "outcome": outcome })
}

/// Thirty executions in which every kind of forecast came true: enough that a few wrong ones in a test change no decision.
fn lessons() -> Vec<Value> {
    let kinds =
        [true, false].into_iter().flat_map(|certain| [0.0, 0.2, 0.4, 0.6, 0.9].map(|follows| (certain, follows)));
    let forecasts: Vec<_> = kinds.map(|(certain, follows)| forecast(certain, follows, "right")).collect();
    (0..30).map(|_| trace(&forecasts)).collect()
}

/// Stores traces from a thread that may block.
fn store(home: &Home, traces: &[Value]) {
    std::thread::scope(|scope| scope.spawn(|| put(home, traces)).join().unwrap());
}

/// A gateway that has learned that programs do what they are expected to.
async fn taught(more: &str, lessons: &[Value]) -> (Home, Peer) {
    let home = home(more);
    store(&home, lessons);
    assert!(home.pml(&["learn", "status"]).status.success());
    let mut peer = home.connected(Era::Legacy).await;
    // From here on the tools are known from the servers themselves.
    peer.value("return [await mcp.fix.counters({}), await mcp.wild.counters({})].length").await;
    (home, peer)
}

/// The same, once it makes calls ahead.
async fn speculating(more: &str) -> (Home, Peer) {
    let (home, mut peer) = taught(&format!("{ON}\n{more}"), &lessons()).await;
    let started = SystemTime::now();
    for number in 0.. {
        let code =
            format!("await mcp.fix.read({{ key: 'first{number}' }}); await mcp.fix.read({{ key: 'next{number}' }})");
        peer.call("execute_code", json!({ "code": code })).await;
        if !ahead(&home, "fix:read").is_empty() {
            break;
        }
        assert!(started.elapsed().unwrap() < PATIENCE, "nothing is made ahead");
    }
    (home, peer)
}

/// The lines of the audit log about calls of a tool that were made ahead.
fn ahead(home: &Home, tool: &str) -> Vec<Value> {
    let is_one = |line: &Value| line["speculation"] == "made" && line["tool"] == tool;
    home.audit_lines().into_iter().filter(is_one).collect()
}

/// How often the server has seen each tool called with a key.
async fn seen(peer: &mut Peer, server: &str) -> BTreeMap<String, Value> {
    let counters = peer.value(&format!("return await mcp.{server}.counters({{}})")).await;
    counters.as_object().unwrap().clone().into_iter().collect()
}

async fn execute(peer: &mut Peer, code: &str) -> Value {
    let result = peer.call("execute_code", json!({ "code": code })).await;
    assert_eq!(result["isError"], false, "{result}");
    result["structuredContent"].clone()
}

/// The stored trace of what `execute` returned.
fn stored(home: &Home, executed: &Value) -> Value {
    let id = executed["execution_id"].as_str().unwrap_or_else(|| panic!("{executed}"));
    serde_json::from_str(&stdout(&home.pml(&["trace", "show", "--json", id]))).unwrap()
}

fn outcomes(trace: &Value) -> Vec<(&str, &str, bool)> {
    let text = |value: &'_ Value, name: &str| value[name].as_str().unwrap().to_owned().leak() as &str;
    let forecasts = trace["forecasts"].as_array().map(Vec::as_slice).unwrap_or_default();
    forecasts.iter().map(|it| (text(it, "tool"), text(it, "outcome"), it["callId"].is_u64())).collect()
}

#[tokio::test]
async fn a_right_guess_is_used_and_the_server_sees_one_call() {
    let (home, mut peer) = speculating("").await;
    let executed = execute(
        &mut peer,
        "const a = await mcp.fix.read({ key: 'a' });\nconst b = await mcp.fix.read({ key: 'b' });\nreturn [a, b]",
    )
    .await;
    let expected = json!([{"key": "a", "version": 0}, {"key": "b", "version": 0}]);
    assert_eq!(executed["result"], expected, "{executed}");
    let counts = seen(&mut peer, "fix").await;
    assert_eq!((&counts["read:a"], &counts["read:b"]), (&json!(1), &json!(1)));

    let trace = stored(&home, &executed);
    assert_eq!(outcomes(&trace), [("fix:read", "used", true)], "{trace}");
    let marks: Vec<_> =
        trace["taskResults"].as_array().unwrap().iter().map(|task| task["speculative"] == true).collect();
    assert_eq!(marks, [false, true], "{trace}");
    assert!(trace["forecasts"][0]["probability"].as_f64() >= Some(0.85), "{trace}");

    let call = &trace["forecasts"][0]["callId"];
    let of_run: Vec<_> =
        home.audit_lines().into_iter().filter(|line| line["execution_id"] == trace["traceId"]).collect();
    let made: Vec<_> = of_run.iter().filter(|line| line["call"] == *call).collect();
    let events: Vec<_> = made.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["call.started", "call.ended"], "{of_run:?}");
    assert!(made.iter().all(|line| line["speculation"] == "made" && line["decision"] == "allow"), "{made:?}");
    let used = of_run.iter().find(|line| line["speculation"] == "used").unwrap();
    assert_eq!((&used["args_sha256"], &used["call"]), (&made[0]["args_sha256"], &json!(2)));
    peer.end().await;

    assert!(home.pml(&["audit", "verify"]).status.success());
    let id = trace["traceId"].as_str().unwrap();
    let audit = stdout(&home.pml(&["audit", "--execution", id]));
    assert!(audit.contains("made ahead") && audit.contains("answered ahead"), "{audit}");
    let shown = stdout(&home.pml(&["trace", "show", id]));
    assert!(shown.contains("1 calls made ahead, 1 used") && shown.contains("answered ahead"), "{shown}");
    let status: Value = serde_json::from_str(&stdout(&home.pml(&["learn", "status", "--json"]))).unwrap();
    assert_eq!(status["speculation"]["state"], "on", "{status}");
    assert!(status["speculation"]["used"].as_u64() >= Some(2), "{status}");
}

#[tokio::test]
async fn it_is_off_by_default() {
    let (home, mut peer) = taught("", &lessons()).await;
    for number in 0..3 {
        let code = format!("await mcp.fix.read({{ key: 'a{number}' }}); await mcp.fix.read({{ key: 'b{number}' }})");
        let trace = stored(&home, &execute(&mut peer, &code).await);
        assert_eq!(outcomes(&trace), [], "{trace}");
    }
    let counts = seen(&mut peer, "fix").await;
    assert!((0..3).all(|number| counts[&format!("read:b{number}")] == 1), "{counts:?}");
    peer.end().await;
    assert!(!home.audit_lines().iter().any(|line| !line["speculation"].is_null()));
    let status: Value = serde_json::from_str(&stdout(&home.pml(&["learn", "status", "--json"]))).unwrap();
    assert!(status["speculation"]["state"].as_str().unwrap().starts_with("off"), "{status}");
}

#[tokio::test]
async fn it_needs_evidence_which_it_gets_by_forecasts_alone() {
    let home = home(ON);
    let mut peer = home.connected(Era::Legacy).await;
    peer.value("return (await mcp.fix.counters({})).calls").await;
    let started = SystemTime::now();
    let mut forecasts = 0;
    for number in 0.. {
        let code = format!("await mcp.fix.read({{ key: 'a{number}' }}); await mcp.fix.read({{ key: 'b{number}' }})");
        let trace = stored(&home, &execute(&mut peer, &code).await);
        match outcomes(&trace)[..] {
            [(_, "right", false)] => forecasts += 1,
            [(_, "used", true)] => break,
            // Before what was learned is read, nothing is forecast.
            ref others => assert!(others.is_empty(), "{trace}"),
        }
        assert!(started.elapsed().unwrap() < PATIENCE, "nothing is made ahead after {forecasts} forecasts");
    }
    assert!(forecasts >= 5, "{forecasts} forecasts are too few to be sure");
    peer.end().await;
}

#[tokio::test]
async fn a_wrong_guess_is_cancelled_and_nobody_notices() {
    let (home, mut peer) = speculating("").await;
    let code = "const a = await mcp.fix.read({ key: 'a' }); if (a.version > 0) await mcp.fix.slow({ key: 'w', ms: 60000 }); return a.version";
    let executed = execute(&mut peer, code).await;
    assert_eq!(executed["result"], 0, "{executed}");
    let trace = stored(&home, &executed);
    assert_eq!(outcomes(&trace), [("fix:slow", "wrong", true)], "{trace}");
    assert_eq!(trace["taskResults"].as_array().unwrap().len(), 1, "what was made ahead is no task: {trace}");
    let counts = seen(&mut peer, "fix").await;
    assert_eq!((&counts["slow:w"], &counts["cancelled"]), (&json!(1), &json!(1)), "{counts:?}");
    let line = ahead(&home, "fix:slow").into_iter().find(|line| line["event"] == "call.ended").unwrap();
    assert_eq!((&line["success"], &line["code"]), (&json!(false), &json!("CANCELLED")), "{line}");

    // A program that goes past a call does not make it.
    let code = "const a = await mcp.fix.read({ key: 'c' }); if (a.version > 0) await mcp.fix.slow({ key: 'p', ms: 60000 });\n\
                await mcp.fix.read({ key: 'd' }); return await mcp.fix.read({ key: 'e' })";
    let trace = stored(&home, &execute(&mut peer, code).await);
    assert_eq!(outcomes(&trace)[0], ("fix:slow", "wrong", true), "{trace}");
    peer.end().await;
}

#[tokio::test]
async fn only_what_a_trusted_server_calls_read_only_is_called_ahead() {
    let (home, mut peer) = speculating("[policy]\ndeny = [\"fix:slow\"]").await;
    let table = [
        "fix.write({ key: 'x' })",
        "fix.touch({ key: 'x' })",
        "fix.browse({ key: 'x' })",
        "fix.both({ key: 'x' })",
        "wild.read({ key: 'x' })",
        "fix.slow({ key: 'x', ms: 1 })", // which the policy denies
        "fix.slow({ key: 'x' })",        // wrong arguments
        "fix.read({ key: args?.key ?? 'x' })",
        "fix.read({ ...args, key: 'x' })",
    ];
    for (number, call) in table.into_iter().enumerate() {
        let code = format!(
            "const a = await mcp.fix.read({{ key: 'a{number}' }}); if (a.version > 0) await mcp.{call}; return a.version"
        );
        assert_eq!(execute(&mut peer, &code).await["result"], 0, "{call}");
    }
    for server in ["fix", "wild"] {
        let counts = seen(&mut peer, server).await;
        let of_x: Vec<_> = counts.keys().filter(|name| name.ends_with(":x")).collect();
        assert!(of_x.is_empty(), "{server}: {of_x:?}");
    }
    for line in home.audit_lines().iter().filter(|line| line["speculation"] == "made") {
        let tool = line["tool"].as_str().unwrap();
        assert!(tool == "fix:read" || line["event"] == "call.refused", "{line}");
        assert!(tool == "fix:read" || line["decision"] == "deny", "{line}");
    }
    peer.end().await;
}

#[tokio::test]
async fn a_guess_costs_the_program_no_call() {
    let (home, mut peer) = speculating("[limits]\ncalls = 3").await;
    let code = "const a = await mcp.fix.read({ key: 'a' }); if (a.version > 0) await mcp.fix.slow({ key: 'w', ms: 1 });\n\
                const b = await mcp.fix.read({ key: 'b' }); const c = await mcp.fix.read({ key: 'c' }); return [a, b, c].length";
    let executed = execute(&mut peer, code).await;
    assert_eq!(executed["result"], 3, "{executed}");
    let trace = stored(&home, &executed);
    assert_eq!(trace["taskResults"].as_array().unwrap().len(), 3);
    assert!(outcomes(&trace).contains(&("fix:slow", "wrong", true)), "{trace}");
    assert!(outcomes(&trace).contains(&("fix:read", "used", true)), "{trace}");
    peer.end().await;
}

#[tokio::test]
async fn what_was_read_before_a_write_is_not_used_after_it() {
    let (home, mut peer) = speculating("").await;
    // A write that could not be read off the program, after the guess was made.
    let code = "const name = ['wr', 'ite'].join('');\n\
                const a = await mcp.fix.read({ key: 'a' }); await mcp.fix[name]({ key: 'b' });\n\
                return (await mcp.fix.read({ key: 'b' })).version";
    let executed = execute(&mut peer, code).await;
    assert_eq!(executed["result"], 1, "the write is seen: {executed}");
    let trace = stored(&home, &executed);
    assert_eq!(outcomes(&trace), [("fix:read", "overtaken", true)], "{trace}");
    assert_eq!(seen(&mut peer, "fix").await["read:b"], 2, "once ahead, and once after the write");

    // The same at once, so that the write is in flight while the program's own read is made.
    let code = "const name = ['wr', 'ite'].join(''); await mcp.fix.read({ key: 'c' });\n\
                const [w, d] = await Promise.all([mcp.fix[name]({ key: 'd' }), mcp.fix.read({ key: 'd' })]);\n\
                return w.version";
    let trace = stored(&home, &execute(&mut peer, code).await);
    assert_eq!(outcomes(&trace), [("fix:read", "overtaken", true)], "{trace}");

    // A write that is written out: what is behind it is not even thought of before it.
    let code = "await mcp.fix.read({ key: 'e' }); await mcp.fix.write({ key: 'f' });\n\
                return (await mcp.fix.read({ key: 'f' })).version";
    let executed = execute(&mut peer, code).await;
    assert_eq!(executed["result"], 1);
    assert_eq!(outcomes(&stored(&home, &executed)), []);

    // What is read twice is read twice.
    let code = "const read = []; read.push(await mcp.fix.read({ key: 'g' })); read.push(await mcp.fix.read({ key: 'g' })); return read.length";
    let trace = stored(&home, &execute(&mut peer, code).await);
    assert_eq!((outcomes(&trace), &seen(&mut peer, "fix").await["read:g"]), (vec![], &json!(2)), "{trace}");
    peer.end().await;
}

#[tokio::test]
async fn a_guess_that_fails_is_not_seen() {
    let (home, mut peer) = speculating("").await;
    let code = "await mcp.fix.read({ key: 'a' }); return await mcp.fix.flaky({ key: 'f' })";
    let executed = execute(&mut peer, code).await;
    assert_eq!(executed["result"], json!({"key": "f", "version": 0}), "{executed}");
    let trace = stored(&home, &executed);
    assert_eq!(outcomes(&trace), [("fix:flaky", "failed", true)], "{trace}");
    let task = &trace["taskResults"][1];
    assert_eq!((&task["success"], &task["speculative"]), (&json!(true), &Value::Null), "{trace}");
    assert_eq!(seen(&mut peer, "fix").await["flaky:f"], 2);
    peer.end().await;
}

#[tokio::test]
async fn it_switches_itself_off_when_its_answers_are_not_used() {
    let mut lessons = lessons();
    // Calls in branches after a tool that nearly always follows, none of them made.
    let wrong = json!({
        "tool": "fix:read", "callId": 2_147_483_648_u32, "certain": false, "follows": 0.9, "probability": 0.9, "outcome": "wrong",
    });
    lessons.extend((0..25).map(|_| trace(std::slice::from_ref(&wrong))));
    let (home, mut peer) = taught(ON, &lessons).await;
    let status: Value = serde_json::from_str(&stdout(&home.pml(&["learn", "status", "--json"]))).unwrap();
    assert_eq!(status["speculation"]["made"], 25, "{status}");
    assert!(status["speculation"]["state"].as_str().unwrap().starts_with("off by itself"), "{status}");
    assert!(stdout(&home.pml(&["learn", "status"])).contains("off by itself"));
    let started = SystemTime::now();
    for number in 0.. {
        let code = format!("await mcp.fix.read({{ key: 'a{number}' }}); await mcp.fix.read({{ key: 'b{number}' }})");
        let trace = stored(&home, &execute(&mut peer, &code).await);
        match outcomes(&trace)[..] {
            [] => assert!(started.elapsed().unwrap() < PATIENCE, "there are no forecasts"),
            [(_, "right", false)] => {
                assert!(trace["forecasts"][0]["probability"].as_f64() >= Some(0.85), "{trace}");
                break;
            }
            ref other => panic!("{other:?}"),
        }
    }
    assert!(ahead(&home, "fix:read").is_empty());
    peer.end().await;
}

#[tokio::test]
async fn a_workflow_has_calls_made_ahead_too() {
    let (home, mut peer) = speculating("").await;
    let read = |id: &str, key: &str, after: &[&str]| json!({"id": id, "tool": "fix:read", "args": {"key": key}, "dependsOn": after});
    let tasks = json!([read("one", "w1", &[]), read("two", "$ARGS.second", &["one"]), read("three", "w3", &["two"])]);
    let workflow = json!({ "workflow": { "tasks": tasks }, "args": { "second": "w2" } });
    let result = peer.call("execute_workflow", workflow).await;
    let executed = &result["structuredContent"];
    assert_eq!(executed["results"]["three"], json!({"key": "w3", "version": 0}), "{result}");
    let trace = stored(&home, executed);
    assert_eq!(outcomes(&trace), [("fix:read", "used", true), ("fix:read", "used", true)], "{trace}");
    let counts = seen(&mut peer, "fix").await;
    assert!(["read:w1", "read:w2", "read:w3"].iter().all(|name| counts[*name] == 1), "{counts:?}");

    // What follows a task that writes is not read before it.
    let tasks = json!([
        read("one", "v1", &[]),
        {"id": "two", "tool": "fix:write", "args": {"key": "v3"}, "dependsOn": ["one"]},
        read("three", "v3", &["two"]),
    ]);
    let result = peer.call("execute_workflow", json!({ "workflow": { "tasks": tasks } })).await;
    let executed = &result["structuredContent"];
    assert_eq!(executed["results"]["three"]["version"], 1, "{result}");
    assert_eq!(outcomes(&stored(&home, executed)), [], "{result}");
    peer.end().await;
}

#[tokio::test]
async fn a_program_run_by_another_has_nothing_made_ahead() {
    let (home, mut peer) = speculating("").await;
    let tasks =
        json!([{"id": "one", "code": "await mcp.fix.read({ key: 'n1' }); return await mcp.fix.read({ key: 'n2' })"}]);
    let result = peer.call("execute_workflow", json!({ "workflow": { "tasks": tasks } })).await;
    assert_eq!(result["structuredContent"]["results"]["one"]["key"], "n2", "{result}");
    peer.end().await;
    let all = stdout(&home.pml(&["trace", "export"]));
    let inner = all.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let inner = inner.filter(|trace| trace["parentTraceId"].is_string()).collect::<Vec<_>>();
    assert_eq!(inner.iter().map(outcomes).collect::<Vec<_>>(), [vec![]], "{inner:?}");
}

#[tokio::test]
async fn metrics_tell_how_guesses_do() {
    let home = home(ON);
    store(&home, &lessons());
    assert!(home.pml(&["learn", "status"]).status.success());
    let server = home.http(&[]).await;
    let client = server.client(Era::Legacy).await;
    let execute = async |code: &str| {
        client.request("tools/call", json!({ "name": "execute_code", "arguments": { "code": code } })).await
    };
    execute("return (await mcp.fix.counters({})).calls").await;
    let started = SystemTime::now();
    for number in 0.. {
        let code = format!("await mcp.fix.read({{ key: 'a{number}' }}); await mcp.fix.read({{ key: 'b{number}' }})");
        execute(&code).await;
        if server.metric("pml_speculative_calls_total{fate=\"used\"}").await >= Some(1.0) {
            break;
        }
        assert!(started.elapsed().unwrap() < PATIENCE, "nothing is counted");
    }
    assert_eq!(server.metric("pml_speculation_on").await, Some(1.0));
    server.end().await;
}
