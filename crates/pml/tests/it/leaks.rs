//! A server that repeats its secrets: nobody is shown them.

use std::{fs, path::Path};

use pml_testkit::fixture_path;
use serde_json::{Value, json};

use super::{
    cli::{json_of, stderr, stdout},
    peer::{ERAS, Era, Home, LEGACY, Peer},
};

/// With characters that JSON writes with escapes.
const SECRET: &str = "hunter2\"x\\y/é";
const PASS: [&str; 2] = ["--expose", "passthrough"];

/// A home whose server repeats its token wherever it says something in words.
fn home(era: Era) -> Home {
    let era = if era == Era::Legacy { "legacy" } else { "modern" };
    let config = format!(
        "[sandbox]\nmode = \"subprocess\"\n[servers.fix]\ncommand = {:?}\nargs = [\"--era\", \"{era}\"]\n\
        env = {{ LEAK_TOKEN = {SECRET:?} }}\n",
        fixture_path()
    );
    Home::new(&config)
}

#[track_caller]
fn check(shown: &str, context: &str) {
    assert!(!shown.contains("hunter2"), "{context}: {shown}");
    assert!(shown.contains("***"), "{context}, where there should be something to mask: {shown}");
}

/// Everything that was said until now.
#[track_caller]
fn check_heard(peer: &mut Peer, method: &str, context: &str) {
    let heard: Vec<_> = peer.heard.drain(..).collect();
    assert!(heard.iter().any(|message| message["method"] == method), "{context}: {heard:?}");
    check(&json!(heard).to_string(), context);
}

async fn begin(home: &Home, era: Era, args: &[&str]) -> (Peer, Value) {
    let mut peer = home.stdio_with(era, args);
    let hello = match era {
        Era::Legacy => {
            let capabilities = json!({"elicitation": {}, "sampling": {}});
            let client = json!({"name": "peer", "version": "1"});
            let hello = json!({"protocolVersion": LEGACY[0], "capabilities": capabilities, "clientInfo": client});
            let hello = peer.request("initialize", hello).await;
            peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
            hello
        }
        Era::Modern => peer.request("server/discover", json!({})).await,
    };
    (peer, hello)
}

#[tokio::test]
async fn an_agent_is_shown_no_secret() {
    for era in ERAS {
        let home = home(era);
        let (mut peer, hello) = begin(&home, era, &[]).await;
        let found = peer.call("search_tools", json!({"query": "echo a text", "detail": "full"})).await;
        check(&found.to_string(), "search_tools");
        assert!(!hello.to_string().contains("hunter2"));
        if era == Era::Legacy {
            peer.request("logging/setLevel", json!({"level": "debug"})).await;
        }
        for failing in ["fail({ message: 'no' })", "rpc_error({ code: -32000, message: 'no' })"] {
            let code = format!("await mcp.fix.{failing}");
            let failed = peer.call("execute_code", json!({"code": code})).await;
            assert_eq!(failed["isError"], true, "{failed}");
            check(&failed.to_string(), failing);
            // Nor is the program, whose log it would be.
            let code = format!("try {{ await mcp.fix.{failing} }} catch (e) {{ return [e.message, e.data] }}");
            check(&peer.value(&code).await.to_string(), failing);
        }
        let search = "const { searchTools } = pml; return await searchTools('echo a text', 3)";
        check(&peer.value(search).await.to_string(), "searchTools");
        // What a tool returns is data, and exact.
        assert_eq!(peer.value("return await mcp.fix.env({ name: 'LEAK_TOKEN' })").await, SECRET);
        peer.end().await;
        check_files(home.path());
    }
}

/// Nothing that is kept holds the secret, but the configuration itself.
fn check_files(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_files(&path);
        } else if !path.ends_with("pml.toml") {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            assert!(!text.contains("hunter2"), "{}", path.display());
        }
    }
}

#[tokio::test]
async fn a_client_of_passed_on_tools_is_shown_no_secret() {
    for era in ERAS {
        let home = home(era);
        let (mut peer, _) = begin(&home, era, &PASS).await;
        for (method, key) in [("tools/list", "tools"), ("prompts/list", "prompts"), ("resources/list", "resources")] {
            let mut answer = peer.request(method, json!({})).await;
            while answer["result"][key].as_array().is_none_or(Vec::is_empty) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                answer = peer.request(method, json!({})).await;
            }
            check(&answer.to_string(), method);
        }
        let call = |tool: &str, arguments: Value| json!({"name": format!("fix__{tool}"), "arguments": arguments});
        let failed = peer.request("tools/call", call("fail", json!({"message": "no"}))).await;
        assert_eq!(failed["result"]["isError"], true, "{failed}");
        check(&failed.to_string(), "fail");
        let failed = peer.request("tools/call", call("rpc_error", json!({"code": -32000, "message": "no"}))).await;
        check(&failed["error"].to_string(), "rpc_error");
        let missing = peer.request("resources/read", json!({"uri": "fixture://none"})).await;
        check(&missing["error"].to_string(), "resources/read");

        let mut slow = call("sleep", json!({"ms": 300, "progress": 2}));
        slow["_meta"] = json!({"progressToken": "p"});
        let slept = peer.request("tools/call", slow).await;
        assert_eq!(slept["result"]["content"][0]["text"], "slept 300 ms");
        check_heard(&mut peer, "notifications/progress", "progress");
        let mut log = call("log", json!({"count": 2}));
        log["_meta"] = json!({"io.modelcontextprotocol/logLevel": "debug"});
        if era == Era::Legacy {
            peer.request("logging/setLevel", json!({"level": "debug"})).await;
        }
        peer.request("tools/call", log).await;
        check_heard(&mut peer, "notifications/message", "log");

        let mut ask = call("ask_one", json!({"method": "elicitation/create"}));
        match era {
            Era::Modern => {
                let key = "io.modelcontextprotocol/clientCapabilities";
                ask["_meta"] = json!({key: {"elicitation": {"form": {}}}});
                let asked = peer.request("tools/call", ask).await;
                assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
                check(&asked.to_string(), "ask_one");
            }
            Era::Legacy => {
                let id = peer.ask("tools/call", ask).await;
                let asked = loop {
                    let message = peer.next().await.unwrap();
                    if message["method"] == "elicitation/create" {
                        break message;
                    }
                };
                check(&asked.to_string(), "ask_one");
                let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}});
                peer.send(&answer).await;
                peer.answer(&id).await;
            }
        }
        let read = peer.request("tools/call", call("env", json!({"name": "LEAK_TOKEN"}))).await;
        assert_eq!(read["result"]["content"][0]["text"], SECRET, "what a tool returns is passed on as it is");
        peer.end().await;
        check_files(home.path());
    }
}

#[tokio::test]
async fn events_hold_no_secret() {
    let home = home(Era::Legacy);
    let server = home.http(&[]).await;
    let mut events = server.http("GET", "/events").send().await;
    let client = server.client(Era::Modern).await;
    client
        .call("execute_code", json!({"code": "await mcp.fix.log({ count: 1 }); await mcp.fix.fail({ message: 'no' })"}))
        .await;
    let mut all = String::new();
    while let Some((topic, event)) = events.event().await {
        all.push_str(&event.to_string());
        if topic == "execution.ended" {
            break;
        }
    }
    assert!(all.contains("provider.mcp.tool.failed") || all.contains("TOOL_ERROR"), "{all}");
    check(&all, "events");
    drop(events);
    server.end().await;
}

#[test]
fn a_person_at_a_terminal_is_shown_no_secret() {
    let home = home(Era::Legacy);
    for args in [
        &["tools", "fix"][..],
        &["tools", "fix", "--json"],
        &["types"],
        &["search", "echo a text", "--explain"],
        &["--log", "debug", "run", "-e", "await mcp.fix.fail({ message: 'no' })"],
    ] {
        let output = home.pml(args);
        check(&format!("{}{}", stdout(&output), stderr(&output)), &format!("{args:?}"));
    }
    for args in [&["server", "status"][..], &["doctor", "servers"], &["server", "list"]] {
        let output = home.pml(args);
        let said = format!("{}{}", stdout(&output), stderr(&output));
        assert!(!said.contains("hunter2"), "{args:?}: {said}");
    }
}

#[test]
fn a_result_that_is_not_what_it_should_be_is_described_without_secrets() {
    // The tool `lie` returns "one" where it says a number.
    let home = Home::new(&format!(
        "[servers.fix]\ncommand = {:?}\ncheck_results = true\nenv = {{ API_KEY = \"one\\\" is not\" }}\n",
        fixture_path()
    ));
    let outcome = json_of(&home.pml(&["run", "--json", "-e", "await mcp.fix.lie({})"]));
    assert_eq!(outcome["error"]["code"], "INVALID_RESULT", "{outcome}");
    check(&outcome.to_string().replace("one\\\" is not", "hunter2"), "lie");
}
