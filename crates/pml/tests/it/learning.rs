//! What agents did makes the next search better: by the real binary, on real stores and real servers.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Output};

use pml_wire::ExecutionId;
use serde_json::{Value, json};

use super::{
    cli::{stderr, stdout},
    hub::{Hub, key},
    peer::{Era, Home, PATIENCE},
    trace_cli::put,
};

pub(crate) const BUDGET: &str = "prepare the quarterly budget for the board";

fn now() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64
}

/// An execution for an intent that called these tools; a tool with a code behind a `!` has failed with that.
pub(crate) fn trace(intent: &str, tools: &[&str]) -> Value {
    let began = now() - 60_000;
    let task = |(place, tool): (usize, &&str)| {
        let (tool, code) = tool.split_once('!').unwrap_or((tool, ""));
        let mut task = json!({
            "taskId": format!("t{}", place + 1), "callId": place + 1, "tool": tool, "success": code.is_empty(),
            "timestamp": began, "durationMs": 1.0, "layerIndex": place + 1,
        });
        if !code.is_empty() {
            task["error"] = json!({ "code": code, "message": "no" });
        }
        task
    };
    json!({
        "traceId": ExecutionId::mint(), "entry": "execute_code", "intent": intent, "caller": "agent", "success": true,
        "durationMs": 5.0, "timestamp": began, "taskResults": tools.iter().enumerate().map(task).collect::<Vec<_>>(),
        "metadata": { "pmlVersion": "0.1.0", "schemaVersion": 1 },
    })
}

/// Forty executions for the budget, and as many for something else.
fn taught(home: &Home) {
    put(home, &lessons());
}

/// Two requests, each with its tools, forty times.
fn lessons() -> Vec<Value> {
    (0..40)
        .flat_map(|_| [trace(BUDGET, &["fix:big", "fix:object"]), trace("greet a visitor at the door", &["fix:echo"])])
        .collect()
}

pub(crate) fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    stdout(output)
}

pub(crate) fn parsed(output: &Output) -> Value {
    serde_json::from_str(&succeeded(output)).unwrap()
}

fn names(found: &Value) -> Vec<String> {
    found["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn model_file(home: &Home) -> PathBuf {
    home.path().join(".local/share/pml/learning/model.bin")
}

#[test]
fn searches_are_ranked_by_what_was_used_and_say_why() {
    let home = Home::with_fixture("");
    let search = || parsed(&home.pml(&["search", "--json", BUDGET]));
    assert!(!names(&search())[..].iter().take(2).any(|name| name == "fix:object"), "{}", search());
    taught(&home);
    let found = search();
    let first: Vec<String> = names(&found).into_iter().take(2).collect();
    assert!(first.contains(&"fix:big".to_owned()) && first.contains(&"fix:object".to_owned()), "{found}");
    assert!(found["tools"][0]["why"].as_str().unwrap().contains("used 40 times for requests like this"), "{found}");
    let text = succeeded(&home.pml(&["search", BUDGET]));
    assert!(text.contains("used 40 times for requests like this"), "{text}");
    // A query that has nothing to do with it is answered as before.
    let other = parsed(&home.pml(&["search", "--json", "add two numbers"]));
    assert_eq!(names(&other)[0], "fix:add", "{other}");

    let next = parsed(&home.pml(&["suggest", "--json", "--after", "fix:big", BUDGET]));
    assert_eq!(names(&next)[0], "fix:object", "{next}");
    assert!(next["tools"][0]["why"].to_string().contains("often follows fix:big"), "{next}");

    let edges = parsed(&home.pml(&["graph", "--format", "json"]));
    let edge = edges["edges"].as_array().unwrap().iter().find(|edge| edge["kind"] == "sequence").unwrap();
    assert_eq!((&edge["from"], &edge["to"], &edge["count"]), (&json!("fix:big"), &json!("fix:object"), &json!(40)));
    assert!(succeeded(&home.pml(&["graph"])).contains("\"fix:big\" -> \"fix:object\" [label=\"40\", style=solid]"));
    assert!(succeeded(&home.pml(&["graph", "--format", "svg"])).starts_with("<svg "));
    let status = parsed(&home.pml(&["learn", "status", "--json"]));
    assert_eq!((&status["state"], &status["traces"], &status["behind"]), (&json!("on"), &json!(80), &json!(false)));
    assert_eq!(fs::metadata(model_file(&home)).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn without_traces_or_switched_off_it_is_the_plain_search() {
    let home = Home::with_fixture("");
    let config = fs::read_to_string(home.config()).unwrap();
    let queries = [BUDGET, "add two numbers", "text", "greet a visitor"];
    let plain = |home: &Home| queries.map(|query| stdout(&home.pml(&["search", "--json", query])));
    home.configure(&format!("[learning]\nenabled = false\n{config}"));
    let expected = plain(&home);
    home.configure(&config);
    assert_eq!(plain(&home), expected, "without traces");
    taught(&home);
    assert_ne!(plain(&home), expected);
    assert!(home.pml(&["learn", "off"]).status.success());
    assert_eq!(plain(&home), expected, "switched off");
    assert!(succeeded(&home.pml(&["learn", "status"])).contains("pml learn on"));
    assert!(home.pml(&["learn", "on"]).status.success());
    assert_ne!(plain(&home), expected);
    home.configure(&format!("[learning]\nenabled = false\n{config}"));
    assert_eq!(plain(&home), expected, "not enabled");
    // An explicit threshold is kept by what was learned, too.
    home.configure(&config);
    let strict = parsed(&home.pml(&["search", "--json", "--threshold", "0.9", BUDGET]));
    assert_eq!(names(&strict), Vec::<String>::new(), "{strict}");
}

#[test]
fn tools_that_may_not_be_called_are_not_named() {
    let home = Home::with_fixture("[policy]\ndeny = [\"fix:object\"]\n");
    taught(&home);
    for args in [
        &["search", BUDGET][..],
        &["search", "--json", BUDGET],
        &["suggest", "--after", "fix:big", BUDGET],
        &["suggest", "--after", "fix:object", BUDGET],
        &["graph", "--format", "json"],
        &["graph", "--format", "svg"],
    ] {
        let output = home.pml(args);
        assert!(
            !stdout(&output).contains("fix:object") && !stderr(&output).contains("fix:object"),
            "{args:?} {output:?}"
        );
        assert!(stdout(&output).contains("fix:") || args[0] == "graph", "{args:?} {output:?}");
    }
}

#[test]
fn what_was_learned_is_forgotten_rebuilt_and_survives_damage() {
    let home = Home::with_fixture("");
    taught(&home);
    let traces = || parsed(&home.pml(&["learn", "status", "--json"]))["traces"].clone();
    assert_eq!(traces(), 80);
    let bytes = fs::read(model_file(&home)).unwrap();
    assert_eq!(traces(), 80, "a trace counts once");
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    fs::write(model_file(&home), &damaged).unwrap();
    assert_eq!(traces(), 80, "learned again");
    assert_eq!(fs::read(model_file(&home)).unwrap(), bytes, "and the same");
    assert!(home.pml(&["learn", "reset"]).status.success());
    assert_eq!(traces(), 0);
    let output = home.pml(&["learn", "rebuild"]);
    assert!(output.status.success() && stderr(&output).contains("learned 80 traces"), "{output:?}");
    assert_eq!(traces(), 80);
}

/// What nobody should store, in one store.
#[test]
fn bad_traces_do_not_take_the_ranking_over() {
    let home = Home::with_fixture("");
    let mut traces: Vec<Value> = Vec::new();
    for round in 0..20 {
        traces.push(trace(BUDGET, &["fix:big", "fix:object"]));
        // Failed, cancelled and refused calls are no evidence; tools that are gone and renamed are known and not shown.
        traces.push(trace(BUDGET, &["fix:fail!TOOL_ERROR", "fix:hang!CANCELLED", "fix:env!POLICY_DENIED"]));
        traces.push(trace(BUDGET, &["gone:tool", "fix:renamed"]));
        // Contradictions, and clocks of other times.
        for (tool, time) in [("fix:echo", 0), ("fix:add", now() * 3)] {
            let mut odd = trace("something else entirely, such as poetry", &[tool]);
            odd["timestamp"] = json!(time);
            odd["success"] = json!(round % 2 == 0);
            traces.push(odd);
        }
    }
    // One caller that does one thing over and over, for every intent.
    for round in 0..600 {
        let mut flood = trace(if round % 2 == 0 { BUDGET } else { "greet" }, &["fix:sleep"]);
        flood["caller"] = json!("bot");
        traces.push(flood);
    }
    put(&home, &traces);
    let found = parsed(&home.pml(&["search", "--json", BUDGET]));
    let names = names(&found);
    let first = &names[..3];
    assert!(first.iter().any(|name| name == "fix:big") && first.iter().any(|name| name == "fix:object"), "{found}");
    for absent in ["fix:fail", "fix:hang", "fix:env"] {
        let why =
            found["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == absent).map(|tool| &tool["why"]);
        assert!(why.is_none_or(Value::is_null), "{absent}: {why:?}");
    }
    assert!(!found.to_string().contains("gone:tool") && !found.to_string().contains("fix:renamed"));
    let other = parsed(&home.pml(&["search", "--json", "add two numbers"]));
    assert_eq!(self::names(&other)[0], "fix:add", "{other}");
    // A hundred thousand traces would take the place of this test; what they cost is measured by `scripts/bench learn`.
    assert_eq!(parsed(&home.pml(&["learn", "status", "--json"]))["traces"], traces.len());
}

#[tokio::test]
async fn a_gateway_learns_while_it_serves() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    let code = r#"const found = await mcp.fix.echo({ text: '{"id": 7, "title": "x", "labels": ["a"]}' }); await mcp.fix.object({}); return found.id"#;
    for _ in 0..20 {
        let result = peer.call("execute_code", json!({ "code": code, "intent": BUDGET })).await;
        assert_eq!(result["structuredContent"]["result"], 7, "{result}");
    }
    let started = std::time::SystemTime::now();
    let found = loop {
        let found = peer.call("search_tools", json!({ "query": BUDGET })).await["structuredContent"].clone();
        let signature = |name: &str| {
            let tools = found["tools"].as_array().unwrap();
            tools.iter().find(|tool| tool["name"] == name).map(|tool| tool["signature"].to_string()).unwrap_or_default()
        };
        if found.to_string().contains("for requests like this") && signature("fix:echo").contains("learned from") {
            break found;
        }
        assert!(started.elapsed().unwrap() < PATIENCE, "{found}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    let echo = found["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "fix:echo").unwrap();
    let signature = echo["signature"].as_str().unwrap();
    assert!(signature.contains("Promise<{ id: number; labels: string[]; title: string }>"), "{signature}");
    assert!(signature.contains("/* result type learned from ") && signature.ends_with(" results */"), "{signature}");
    // What programs and editors see of it.
    let program = format!("return (await pml.searchTools({BUDGET:?})).map(it => it.name + ' ' + (it.why ?? ''))");
    let seen = peer.value(&program).await.to_string();
    assert!(seen.contains("fix:object") && seen.contains("for requests like this"), "{seen}");
    // A result that lacks what others have: the hint comes from those.
    let code = r#"const found = await mcp.fix.echo({ text: '{"id": 7}' }); return found.titel.length"#;
    let failed = peer.call("execute_code", json!({ "code": code })).await.to_string();
    assert!(failed.contains("did you mean `found.title`?"), "{failed}");
    peer.end().await;
    let types = succeeded(&home.pml(&["types"]));
    assert!(types.contains("The result type was learned from "), "{types}");
    // The priority of each trace is written back by the one process that writes.
    let output = home.pml(&["learn", "status", "--json"]);
    assert!(parsed(&output)["traces"].as_u64() >= Some(20), "{output:?}");
}

#[test]
fn what_others_have_learned_helps_and_does_not_take_over() {
    let (teacher, pupil) = (Home::with_fixture(""), Home::with_fixture(""));
    taught(&teacher);
    let file = teacher.path().join("learned.bin");
    let file = file.to_str().unwrap();
    assert!(teacher.pml(&["learn", "export", file]).status.success());
    let bytes = fs::read(file).unwrap();
    for absent in [&b"agent"[..], b"budget", b"visitor"] {
        assert!(!bytes.windows(absent.len()).any(|window| window == absent), "{absent:?}");
    }
    let search = || names(&parsed(&pupil.pml(&["search", "--json", BUDGET])));
    assert!(!search().contains(&"fix:object".to_owned()), "{:?}", search());
    let output = pupil.pml(&["learn", "import", file]);
    assert!(output.status.success(), "{output:?}");
    // Tools that the search finds stay where they were; a search for one of them is led by what it says.
    assert_eq!(names(&parsed(&pupil.pml(&["search", "--json", "add two numbers"])))[0], "fix:add");
    let suggested = names(&parsed(&pupil.pml(&["suggest", "--json", BUDGET])));
    assert!(suggested.iter().take(4).any(|name| name == "fix:object"), "{suggested:?}");
    assert!(parsed(&pupil.pml(&["learn", "status", "--json"]))["others"].as_f64() > Some(50.0));
    // What is no such document is refused, and what became of it later is not used.
    fs::write(file, "no document").unwrap();
    let output = pupil.pml(&["learn", "import", file]);
    assert!(!output.status.success() && stderr(&output).contains("pml learn export"), "{output:?}");
    let kept = pupil.path().join(".local/share/pml/learning/others.bin");
    fs::write(kept, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(parsed(&pupil.pml(&["learn", "status", "--json"]))["others"], 0.0);
}

/// A hub learns from the traces of a project, and its gateways use that.
#[tokio::test]
async fn a_gateway_uses_what_its_hub_has_learned() {
    let team = Home::new("");
    let hub = Hub::start(&team).await;
    let all = key(&team, "all", "acme.web", "ingest,read");
    let others = key(&team, "others", "other.web", "ingest,read");
    assert_eq!(hub.http(&all, "GET", "/api/model").send().await.status, 404, "nothing was learned yet");
    for some in lessons().chunks(20) {
        hub.ingest(&all, some).await;
    }
    let response = loop {
        // What was found to be nothing is asked for again after a while.
        let response = hub.http(&all, "GET", "/api/model").send().await;
        if response.status == 200 {
            break response;
        }
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    };
    let tag = response.header("etag").unwrap().to_owned();
    let same = hub.http(&all, "GET", "/api/model").header("If-None-Match", &tag).send().await;
    assert_eq!(same.status, 304);
    assert_eq!(hub.http(&others, "GET", "/api/model").send().await.status, 404, "not of another organisation");

    let home = Home::with_fixture(&format!("[hub]\nurl = \"http://{}\"\nkey = \"{all}\"\n", hub.address));
    let mut peer = home.connected(Era::Legacy).await;
    // Which waits for the tools of the server.
    peer.call("search_tools", serde_json::json!({ "query": "echo" })).await;
    let pulled = home.path().join(".local/share/pml/learning/others.bin");
    for _ in 0..PATIENCE.as_millis() / 50 {
        if pulled.exists() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    peer.end().await;
    assert!(parsed(&home.pml(&["learn", "status", "--json"]))["others"].as_f64() > Some(40.0));
    let suggested = names(&parsed(&home.pml(&["suggest", "--json", BUDGET])));
    assert!(suggested.iter().take(4).any(|name| name == "fix:object"), "{suggested:?}");
    hub.end().await;
}
