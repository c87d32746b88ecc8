//! `fixture-server` over stdio.

use serde_json::{Value, json};

use super::peer::{Pipes, with_meta};

#[test]
fn a_legacy_server_speaks_the_legacy_protocol() {
    let mut server = Pipes::legacy(&["--era", "legacy"]);
    let mut params = json!({});
    with_meta(&mut params);
    assert_eq!(server.ask("server/discover", params)["error"]["code"], -32601);
    assert_eq!(server.ask("ping", json!({}))["result"], json!({}));
    let list = server.ask("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().unwrap();
    assert!(tools.len() > 20 && list["result"]["nextCursor"].is_null() && list["result"]["ttlMs"].is_null());
    for tool in tools {
        assert!(tool["name"].is_string() && tool["description"].is_string(), "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
    }
    let echo = server.call("echo", json!({"text": "hello\n"}));
    assert_eq!(
        echo,
        json!({"jsonrpc": "2.0", "id": 5, "result": {"content": [{"type": "text", "text": "hello\n"}], "isError": false}})
    );
    assert_eq!(server.call("add", json!({"a": 1, "b": 2}))["result"]["structuredContent"], json!({"result": 3.0}));
    assert_eq!(server.call("echo", json!({}))["result"]["isError"], true);
    assert_eq!(server.call("nonsense", json!({}))["result"]["isError"], true);
    assert!(server.end().success());
}

#[test]
fn a_modern_server_speaks_the_modern_protocol() {
    let mut server = Pipes::modern(&["--era", "modern", "--fault", "tools-only"]);
    let info = json!({"io.modelcontextprotocol/serverInfo": {"name": "fixture", "version": "1.0.0"}});
    assert_eq!(
        server.ask("server/discover", json!({}))["result"],
        json!({
            "capabilities": {"tools": {"listChanged": true}},
            "supportedVersions": ["2026-07-28"],
            "instructions": "A server for tests.",
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": info,
        })
    );
    let list = server.ask("tools/list", json!({}));
    assert_eq!(list["result"]["cacheScope"], "private");
    assert_eq!(
        server.call("echo", json!({"text": "hello"}))["result"],
        json!({"content": [{"type": "text", "text": "hello"}], "isError": false, "resultType": "complete", "_meta": info})
    );
    assert_eq!(server.call("nonsense", json!({}))["error"]["code"], -32602);
    assert_eq!(server.ask("ping", json!({}))["error"]["code"], -32601);
    let refused = server.ask("initialize", json!({"protocolVersion": "2025-11-25"}));
    assert_eq!(refused["error"]["code"], -32022);
    assert_eq!(refused["error"]["data"], json!({"supported": ["2026-07-28"], "requested": "2025-11-25"}));
    server.write(&json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {}}));
    assert_eq!(server.read()["error"]["code"], -32602);
    assert!(server.end().success());
}

#[test]
fn a_server_of_one_version_names_it() {
    let mut legacy = Pipes::start(&["--version", "1999-01-01"]);
    let result = legacy.ask("initialize", json!({"protocolVersion": "2025-11-25"}));
    assert_eq!(result["result"]["protocolVersion"], "1999-01-01");
    let mut modern = Pipes::modern(&["--version", "1999-01-01"]);
    let refused = modern.ask("server/discover", json!({}));
    assert_eq!(refused["error"]["data"], json!({"supported": ["1999-01-01"], "requested": "2026-07-28"}));
    // One that was greeted with a version it knows keeps to it.
    let mut server = Pipes::start(&[]);
    let result = server.ask("initialize", json!({"protocolVersion": "2024-11-05"}));
    assert_eq!(result["result"]["protocolVersion"], "2024-11-05");
}

#[test]
fn tools_return_what_they_promise() {
    let mut server = Pipes::legacy(&["--tools", "3"]);
    assert_eq!(server.call_text("tool_0003", json!({})), "tool_0003");
    assert_eq!(server.call("tool_0004", json!({}))["result"]["isError"], true);
    assert_eq!(server.call_text("big", json!({"bytes": 100_000})).len(), 100_000);
    let items = server.call("big_json", json!({"items": 50}));
    assert_eq!(items["result"]["structuredContent"]["items"].as_array().unwrap().len(), 50);
    assert_eq!(server.call("image", json!({}))["result"]["content"].as_array().unwrap().len(), 5);
    assert_eq!(
        server.call("rpc_error", json!({"code": -7, "message": "no"}))["error"],
        json!({"code": -7, "message": "no"})
    );
    assert_eq!(server.call("fail", json!({"message": "no"}))["result"]["isError"], true);
    assert_eq!(server.call_text("env", json!({"name": "CERTAINLY_NOT_SET"})), "unset");
    let pid = server.call("pid", json!({}))["result"]["structuredContent"].clone();
    assert_eq!(pid["pid"], server.child.id());
    assert_eq!(pid["parent"], std::process::id());
    for count in 1..=2 {
        assert_eq!(server.call("count", json!({"key": "a"}))["result"]["structuredContent"]["count"], count);
    }
    assert_eq!(server.call_text("allocate", json!({"mb": 1})), "ok");
    assert_eq!(server.call_text("then", json!({})), "then");
    assert_eq!(server.call("get-sum", json!({"a": 1, "b": 1}))["result"]["structuredContent"]["result"], 2.0);
    let meta = server.ask("tools/call", json!({"name": "meta", "arguments": {}, "_meta": {"traceparent": "00-1"}}));
    assert_eq!(meta["result"]["structuredContent"]["meta"], json!({"traceparent": "00-1"}));
}

#[test]
fn a_grandchild_can_outlive_its_parent() {
    let mut server = Pipes::legacy(&[]);
    let mut groups = vec![];
    for arguments in [json!({"new_session": false}), json!({})] {
        let pid = server.call("spawn", arguments)["result"]["structuredContent"]["pid"].to_string();
        let output = run("ps", &["-o", "pgid=", "-p", &pid]);
        groups.push(output.trim().to_owned());
        run("kill", &["-KILL", &pid]);
    }
    let pid = server.call("pid", json!({}))["result"]["structuredContent"].clone();
    assert_eq!(groups[0], pid["group"].to_string());
}

fn run(program: &str, args: &[&str]) -> String {
    let output = std::process::Command::new(program).args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_is_cancelled_is_not_answered() {
    for mut server in [Pipes::legacy(&[]), Pipes::modern(&[])] {
        for tool in ["sleep", "hang"] {
            let id = server.send("tools/call", json!({"name": tool, "arguments": {"ms": 60_000}}));
            server.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
            assert!(server.is_silent(), "{tool}");
        }
        assert_eq!(server.call("counters", json!({}))["result"]["structuredContent"]["cancelled"], 2);
    }
}

#[test]
fn progress_is_reported_with_the_token() {
    let mut server = Pipes::modern(&[]);
    let params = json!({"name": "sleep", "arguments": {"ms": 30, "progress": 2}, "_meta": {"progressToken": "token"}});
    server.send("tools/call", params);
    for step in 1..=2 {
        let notification = server.read();
        assert_eq!(notification["method"], "notifications/progress");
        assert_eq!(notification["params"]["progressToken"], "token");
        assert_eq!(notification["params"]["progress"], step);
    }
    assert_eq!(server.read()["result"]["isError"], false);
}

#[test]
fn changes_reach_whoever_listens() {
    let mut legacy = Pipes::legacy(&[]);
    legacy.send("tools/call", json!({"name": "change_list", "arguments": {}}));
    assert_eq!(legacy.read()["method"], "notifications/tools/list_changed");
    assert_eq!(legacy.read()["result"]["content"][0]["text"], "added_1");
    assert_eq!(legacy.call_text("added_1", json!({})), "added_1");

    let mut modern = Pipes::modern(&["--fault", "tools-only"]);
    modern.call("change_description", json!({}));
    let id = modern
        .send("subscriptions/listen", json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}}));
    let subscription = json!({"io.modelcontextprotocol/subscriptionId": id});
    let acknowledged = json!({
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": subscription, "notifications": {"toolsListChanged": true}},
    });
    assert_eq!(modern.read(), acknowledged);
    modern.send("tools/call", json!({"name": "change_description", "arguments": {}}));
    let changed =
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": subscription}});
    assert_eq!(modern.read(), changed);
    modern.read();
    let list = modern.ask("tools/list", json!({}));
    assert!(list["result"]["tools"][0]["description"].as_str().unwrap().ends_with("description 2."));
    modern.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    modern.send("tools/call", json!({"name": "change_list", "arguments": {}}));
    assert!(modern.read()["result"].is_object());
}

#[test]
fn a_resource_that_is_watched_is_told_of() {
    let uri = "fixture://item/1";
    let mut legacy = Pipes::legacy(&[]);
    assert!(legacy.ask("resources/subscribe", json!({"uri": "no:such"}))["error"].is_object());
    for (method, is_told) in [("resources/subscribe", true), ("resources/unsubscribe", false)] {
        assert_eq!(legacy.ask(method, json!({"uri": uri}))["result"], json!({}));
        legacy.send("tools/call", json!({"name": "touch", "arguments": {"uri": uri}}));
        if is_told {
            assert_eq!(legacy.read()["params"]["uri"], uri);
        }
        assert!(legacy.read()["result"].is_object());
    }
    let mut modern = Pipes::modern(&[]);
    modern.send("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [uri, "no:such"]}}));
    assert_eq!(modern.read()["params"]["notifications"], json!({"resourceSubscriptions": [uri]}));
    modern.send("tools/call", json!({"name": "touch", "arguments": {"uri": uri}}));
    assert_eq!(modern.read()["params"]["uri"], uri);
}

#[test]
fn the_client_is_asked_and_its_answers_are_returned() {
    let mut server = Pipes::legacy(&[]);
    let id = server.send("tools/call", json!({"name": "ask", "arguments": {}}));
    assert_eq!(server.read()["method"], "notifications/message");
    for method in ["elicitation/create", "roots/list", "sampling/createMessage", "log"] {
        let request = server.read();
        assert_eq!(request["method"], method);
        server.write(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": method}}));
    }
    let answer = server.read();
    assert_eq!(answer["id"], id);
    let answers = &answer["result"]["structuredContent"];
    assert_eq!(answers["log"], json!({"error": {"code": -32601, "message": "log"}}));
    assert_eq!(answers.as_object().unwrap().len(), 4);
}

#[test]
fn odd_answers_are_odd_in_the_way_they_say() {
    let mut server = Pipes::legacy(&[]);
    let fine = json!({"content": [{"type": "text", "text": "odd"}], "isError": false});
    let mut odd = |kind: &str| {
        let id = server.send("tools/call", json!({"name": "odd", "arguments": {"kind": kind}}));
        (id, String::from_utf8_lossy(&server.read_line()).trim_end().to_owned())
    };
    let whole = |id: Value, result: &Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    for (kind, result) in [
        ("content-string", json!({"content": "odd", "isError": false})),
        ("content-null", json!({"content": null, "isError": false})),
        ("content-missing", json!({"isError": false})),
        ("null-result", json!(null)),
        ("structured-only", json!({"structuredContent": {"odd": true}})),
        ("empty", json!({})),
    ] {
        let (id, line) = odd(kind);
        assert_eq!(line, whole(json!(id), &result), "{kind}");
    }
    let (id, line) = odd("error-null");
    assert_eq!(line, json!({"jsonrpc": "2.0", "id": id, "result": fine, "error": null}).to_string());
    let (id, line) = odd("string-id");
    assert_eq!(line, whole(json!(id.to_string()), &fine));
    assert_eq!(odd("wrong-id").1, whole(json!("nobody-asked"), &fine));
    let (id, line) = odd("no-result");
    assert_eq!(line, json!({"jsonrpc": "2.0", "id": id}).to_string());
    assert!(odd("null-id-error").1.contains("\"id\":null"));
    let (id, line) = odd("batch");
    assert_eq!(line, format!("[{}]", whole(json!(id), &fine)));
    assert!(odd("nested").1.contains(&"{\"nested\":".repeat(200)));
    assert!(odd("bad-utf8").1.contains('\u{fffd}'));
    assert!(odd("nul-bytes").1.contains('\0'));
    assert!(odd("nul-escapes").1.contains("a\\u0000b"));
    assert!(odd("unknown-block").1.contains("hologram"));
    assert!(odd("extra-tools-key").1.contains("\"tools\":[]"));
    assert!(odd("input-required").1.contains("\"resultType\":\"input_required\""));
    let (id, line) = odd("two-answers");
    assert_eq!(line, whole(json!(id), &fine));
    assert!(String::from_utf8(server.read_line()).unwrap().contains("second"));
}

#[test]
fn input_can_be_given() {
    let mut server = Pipes::modern(&[]);
    let first = server.call("odd", json!({"kind": "input-required"}))["result"].clone();
    assert_eq!(first["resultType"], "input_required");
    let params = json!({
        "name": "odd",
        "arguments": {"kind": "input-required"},
        "inputResponses": {"name": {"action": "decline"}},
        "requestState": first["requestState"],
    });
    let second = server.ask("tools/call", params)["result"].clone();
    assert_eq!(second["resultType"], "complete");
    assert_eq!(second["structuredContent"]["requestState"], "state-1");
}
