//! `pml serve` on standard input and output, byte by byte: what clients see of pml's own tools, what
//! becomes of a run when its client changes its mind, and lines that no client should send.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::peer::{
    ERAS, Era, Home, LEGACY, MODERN, Peer, all_gone, answers, batch, descendants, eventually, initialize, workers,
};

/// A program that goes on until it is stopped, in a call that its server would answer much later.
const LONG: &str = "await mcp.fix.sleep({ ms: 60000 })";

fn text(result: &Value, index: usize) -> &str {
    result["content"][index]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

#[tokio::test]
async fn every_version_has_its_handshake() {
    let home = Home::with_fixture("");
    let table = [
        (LEGACY[0], LEGACY[0]),
        (LEGACY[1], LEGACY[1]),
        (LEGACY[2], LEGACY[2]),
        (LEGACY[3], LEGACY[3]),
        ("1999-01-01", LEGACY[0]),
        (MODERN, LEGACY[0]),
    ];
    for (asked, agreed) in table {
        let mut peer = home.stdio(Era::Legacy);
        let answer = peer.request("initialize", initialize(asked)).await;
        let result = &answer["result"];
        assert_eq!(result["protocolVersion"], agreed, "{asked}: {answer}");
        assert_eq!(result["serverInfo"]["name"], "pml");
        assert!(result["capabilities"]["tools"].is_object() && result.get("resultType").is_none(), "{answer}");
        let instructions = result["instructions"].as_str().unwrap();
        assert!(instructions.len() < 2048 && instructions.contains("- fix"), "{instructions}");
        peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        assert_eq!(peer.request("ping", json!({})).await["result"], json!({}));
        assert!(peer.is_up().await, "{asked}");
        peer.end().await;
    }
    let mut peer = home.stdio(Era::Modern);
    let answer = peer.request("server/discover", json!({})).await;
    let result = &answer["result"];
    assert_eq!((&result["supportedVersions"], &result["resultType"]), (&json!([MODERN]), &json!("complete")));
    assert!(result["instructions"].as_str().unwrap().len() < 2048 && result["ttlMs"].is_number(), "{answer}");
    assert!(peer.is_up().await);
    let mut params = json!({"_meta": {"io.modelcontextprotocol/clientCapabilities": {}}});
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01".into();
    peer.send(&json!({"jsonrpc": "2.0", "id": "future", "method": "tools/list", "params": params})).await;
    let answer = peer.answer(&json!("future")).await;
    assert_eq!(answer["error"]["code"], -32022, "{answer}");
    assert_eq!(answer["error"]["data"], json!({"supported": [MODERN], "requested": "2099-01-01"}));
    peer.end().await;
}

#[tokio::test]
async fn instructions_stay_short_however_many_servers_there_are() {
    let servers: String = (0..80)
        .map(|n| format!("[servers.a-server-with-a-rather-long-name-{n}]\nurl = \"http://127.0.0.1:9/mcp\"\n"))
        .collect();
    let home = Home::new(&servers);
    let mut peer = home.stdio(Era::Legacy);
    let answer = peer.request("initialize", initialize(LEGACY[0])).await;
    let instructions = answer["result"]["instructions"].as_str().unwrap();
    assert!(instructions.len() < 2048, "{}", instructions.len());
    assert!(instructions.contains(" more: "), "{instructions}");
    peer.end().await;
}

#[tokio::test]
async fn there_are_few_tools_with_plain_schemas() {
    let home = Home::with_fixture("");
    for era in ERAS {
        let mut peer = home.connected(era).await;
        let answer = peer.request("tools/list", json!({})).await;
        let tools = answer["result"]["tools"].as_array().unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert!(names.len() <= 6 && names.is_sorted(), "{names:?}");
        for tool in tools {
            let schema = tool["inputSchema"].as_object().unwrap();
            assert_eq!(schema["type"], "object");
            for odd in ["$schema", "$ref", "$defs", "oneOf", "anyOf", "allOf"] {
                assert!(!tool.to_string().contains(&format!("\"{odd}\"")), "{tool}");
            }
            let properties = schema["properties"].as_object().unwrap();
            assert!(properties.values().all(|property| property["type"].is_string()), "{tool}");
            assert!(tool["description"].as_str().unwrap().len() < 1500);
        }
        assert_eq!(answer["result"].get("ttlMs").is_some(), era == Era::Modern, "{answer}");
        let page = peer.request("tools/list", json!({"cursor": "2"})).await;
        assert_eq!(page["error"]["code"], -32602, "{page}");
        let unknown = peer.request("tools/call", json!({"name": "rm", "arguments": {}})).await;
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
        peer.end().await;
    }
}

#[tokio::test]
async fn a_run_is_told_to_readers_and_to_programs() {
    let home = Home::with_fixture("");
    for era in ERAS {
        let mut peer = home.connected(era).await;
        let code = "console.log('hello', args.who); console.warn('careful');
            const sum = await mcp.fix.add({ a: 20, b: 22 });
            try { await mcp.fix.fail({ message: 'not today' }) } catch {}
            return { sum, lost: new Map([[1, 2]]) }";
        let result = peer.call("execute_code", json!({"code": code, "args": {"who": "you"}, "intent": "adds"})).await;
        assert_eq!((&result["isError"], text(&result, 0)), (&json!(false), r#"{"sum":42,"lost":{}}"#), "{result}");
        let notes = text(&result, 1);
        for part in [
            "console:\nhello you\n[warn] careful\n",
            "calls: 1 succeeded, 1 failed\n",
            "  ok fix:add ",
            "  failed fix:fail ",
            "TOOL_ERROR: not today",
            "warning: ",
        ] {
            assert!(notes.contains(part), "{part}: {notes}");
        }
        let told = &result["structuredContent"];
        assert_eq!((&told["status"], &told["result"]["sum"]), (&json!("success"), &json!(42)));
        assert_eq!(told["logs"][1], json!({"level": "warn", "text": "careful"}));
        assert_eq!((&told["calls"][0]["tool"], &told["calls"][0]["success"]), (&json!("fix:add"), &json!(true)));
        assert_eq!(told["calls"][1]["error"], json!({"code": "TOOL_ERROR", "message": "not today"}));
        assert_eq!(told["warnings"].as_array().unwrap().len(), 1, "{told}");
        assert!(told["duration_ms"].is_number() && told["execution_id"].is_string(), "{told}");
        assert_eq!(result.get("resultType").is_some(), era == Era::Modern);
        peer.end().await;
    }
}

#[tokio::test]
async fn a_failure_says_where_why_and_what_was_done() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    let code = "await mcp.fix.add({ a: 1, b: 2 });\nawait mcp.fix.fail({ message: 'not today' });\nreturn 1";
    let result = peer.call("execute_code", json!({"code": code})).await;
    assert_eq!(result["isError"], true);
    let first = text(&result, 0);
    assert!(first.starts_with("error[TOOL_ERROR]: ") && first.contains("> 2 | await mcp.fix.fail"), "{first}");
    assert!(text(&result, 1).contains("those that succeeded have had their effect"), "{result}");
    let told = &result["structuredContent"];
    assert_eq!((&told["status"], &told["error"]["code"]), (&json!("error"), &json!("TOOL_ERROR")), "{told}");
    assert_eq!((&told["error"]["tool"], &told["error"]["retryable"]), (&json!("fix:fail"), &json!(false)));
    assert!(told["error"]["frame"].as_str().unwrap().contains("agent.ts:2:"), "{told}");

    let table = [
        (json!({"code": "return await mcp.fix.ad({ a: 1, b: 2 })"}), "PREFLIGHT_FAILED", "add"),
        (json!({"code": "return ("}), "SYNTAX_ERROR", "agent.ts:1:"),
        (json!({"code": "for (;;) {}", "timeout_ms": 100}), "TIMEOUT", "100"),
        (json!({"code": "return fetch('x')"}), "EXCEPTION", "fetch"),
        (json!({}), "INVALID_ARGUMENTS", "missing field `code`"),
        (json!({"code": "1", "timeout_ms": -1}), "INVALID_ARGUMENTS", "timeout_ms"),
        (json!({"code": "1", "cod": "1"}), "INVALID_ARGUMENTS", "unknown field `cod`"),
        (json!({"code": 1}), "INVALID_ARGUMENTS", "expected a string"),
    ];
    for (arguments, code, part) in table {
        let result = peer.call("execute_code", arguments.clone()).await;
        assert_eq!(result["isError"], true, "{arguments}");
        assert_eq!(result["structuredContent"]["error"]["code"], code, "{arguments}: {result}");
        assert!(text(&result, 0).contains(part), "{arguments}: {result}");
    }
    let wrong = peer.request("tools/call", json!({"name": "execute_code", "arguments": [1]})).await;
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    peer.end().await;
}

#[tokio::test]
async fn a_request_has_the_time_it_asks_for_within_the_limit() {
    let home = Home::with_fixture("[limits]\ntimeout_ms = 150\nmax_timeout_ms = 2000\ntotal_ms = 3000\n");
    let mut peer = home.connected(Era::Legacy).await;
    let spin = "const until = Date.now() + 400; while (Date.now() < until); return 1";
    let told = |result: &Value| result["structuredContent"].clone();
    let result = peer.call("execute_code", json!({"code": spin})).await;
    assert_eq!(told(&result)["error"]["code"], "TIMEOUT", "{result}");
    let result = peer.call("execute_code", json!({"code": spin, "timeout_ms": 2000})).await;
    assert_eq!((&told(&result)["status"], &told(&result)["warnings"]), (&json!("success"), &json!([])), "{result}");
    // More than the limit is cut, and it is said.
    let result = peer.call("execute_code", json!({"code": spin, "timeout_ms": 60_000})).await;
    let expected = json!(["`timeout_ms` is 60000, and was cut to 2000, limits.max_timeout_ms"]);
    assert_eq!((&told(&result)["status"], &told(&result)["warnings"]), (&json!("success"), &expected), "{result}");
    // Waiting is not computing, but all of it ends.
    let result = peer.call("execute_code", json!({"code": "return await mcp.fix.sleep({ ms: 600 })"})).await;
    assert_eq!(told(&result)["status"], "success", "{result}");
    let result = peer.call("execute_code", json!({"code": "return await mcp.fix.hang({})"})).await;
    assert_eq!(told(&result)["error"]["code"], "TIMEOUT", "{result}");
    assert!(text(&result, 0).contains("the run took longer than 3s in all, waiting for `fix:hang`"), "{result}");
    peer.end().await;
}

/// Everything that `read_result` gives from an offset on, page by page.
async fn read_on(peer: &mut Peer, id: &str, mut offset: u64) -> String {
    let mut all = String::new();
    loop {
        let page = peer.call("read_result", json!({"id": id, "offset": offset})).await;
        assert_eq!(page["isError"], false, "{page}");
        let told = &page["structuredContent"];
        assert_eq!(told["offset"], offset, "{told}");
        all.push_str(told["text"].as_str().unwrap());
        match told["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => return all,
        }
    }
}

#[tokio::test]
async fn what_is_too_long_is_read_in_parts_and_nothing_is_lost() {
    let home = Home::new("[gateway]\noutput_tokens = 2000");
    let mut peer = home.connected(Era::Legacy).await;
    let item = "({ id: i, name: `Größe ${i} – 😀`, quote: '\"\\\\\\n' })";
    let code = format!("return {{ items: Array.from({{ length: 1500 }}, (_, i) => {item}) }}");
    let result = peer.call("execute_code", json!({"code": code})).await;
    let told = &result["structuredContent"];
    assert!(result.to_string().len() < 20_000 && told.get("result").is_none(), "{}", result.to_string().len());
    let handle = &told["result_handle"];
    let (id, next) = (handle["id"].as_str().unwrap(), handle["next_offset"].as_u64().unwrap());
    assert!(text(&result, 0).contains("an object with the keys items"), "{result}");
    let whole = format!("{}{}", told["preview"].as_str().unwrap(), read_on(&mut peer, id, next).await);
    assert_eq!(whole.len() as u64, handle["bytes"].as_u64().unwrap());
    let expected: Vec<_> =
        (0..1500).map(|i| json!({"id": i, "name": format!("Größe {i} – 😀"), "quote": "\"\\\n"})).collect();
    assert_eq!(whole, json!({"items": expected}).to_string());
    assert_eq!(read_on(&mut peer, id, 0).await, whole);

    let table = [("items[7].name", "Größe 7 – 😀"), ("items[7].quote", "\"\\\n"), ("items[1499].id", "1499")];
    for (path, expected) in table {
        let page = peer.call("read_result", json!({"id": id, "path": path})).await;
        assert_eq!(page["structuredContent"]["text"], expected, "{path}");
    }
    // A text is kept as itself, and so is the console.
    let result = peer.call("execute_code", json!({"code": "return 'äöü\\n'.repeat(20000)"})).await;
    let (told, id) =
        (&result["structuredContent"], result["structuredContent"]["result_handle"]["id"].as_str().unwrap());
    assert!(told["result_handle"]["shape"].as_str().unwrap().contains("20000 lines"), "{told}");
    assert_eq!(read_on(&mut peer, id, 0).await, "äöü\n".repeat(20000));
    let code = "for (let i = 0; i < 5000; i++) console.log('line ' + i); return 5";
    let result = peer.call("execute_code", json!({"code": code})).await;
    let told = &result["structuredContent"];
    assert_eq!(told["result"], 5);
    let lines: String = (0..5000).map(|i| format!("line {i}\n")).collect();
    assert_eq!(read_on(&mut peer, told["logs_handle"]["id"].as_str().unwrap(), 0).await, lines);

    let kept = handle["id"].as_str().unwrap();
    let table = [
        (json!({"id": "r_000000000000000000000000"}), "there is no result"),
        (json!({"id": ""}), "there is no result"),
        (json!({"id": kept, "offset": 1_000_000_000}), "but there are"),
        (json!({"id": kept, "offset": -1}), "between 0 and"),
        (json!({"id": kept, "offset": 0.5}), "whole number"),
        (json!({"id": kept, "path": "items[99999]"}), "items"),
        (json!({"id": kept, "path": "nothing.here"}), "nothing"),
        (json!({"id": kept, "path": "items["}), ""),
        (json!({"id": id, "path": "a"}), "is a text, not JSON"),
        (json!({}), "missing field `id`"),
    ];
    for (arguments, part) in table {
        let result = peer.call("read_result", arguments.clone()).await;
        assert_eq!(result["isError"], true, "{arguments}: {result}");
        assert_eq!(result["structuredContent"]["error"]["code"], "INVALID_ARGUMENTS");
        assert!(text(&result, 0).contains(part), "{arguments}: {result}");
    }
    // What one client has kept, another does not find.
    let mut other = home.connected(Era::Legacy).await;
    let result = other.call("read_result", json!({"id": kept})).await;
    assert!(text(&result, 0).contains("there is no result"), "{result}");
    other.end().await;
    peer.end().await;
}

/// Neither form of an answer may be much longer than the budget says, whatever the program does.
#[tokio::test]
async fn no_program_makes_an_answer_too_long_in_either_form() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    let table = [
        ("many short lines", "for (let i = 0; i < 9000; i++) console.log('')"),
        ("many lines", "for (let i = 0; i < 50000; i++) console.log(i)"),
        ("control characters", "return '\\u0001'.repeat(20000)"),
        ("quotes", "return '\"'.repeat(20000)"),
        ("a long message", "throw new Error('\\u0001x'.repeat(100000))"),
        ("lost values", "return Array.from({ length: 5000 }, () => new Map())"),
        (
            "many calls",
            "for (let i = 0; i < 300; i++) await mcp.fix.fail({ message: 'x'.repeat(5000) }).catch(() => {})",
        ),
        ("many names", "return Object.fromEntries(Array.from({ length: 9000 }, (_, i) => ['k' + i, i]))"),
    ];
    for (name, code) in table {
        let result = peer.call("execute_code", json!({"code": code})).await;
        for form in ["content", "structuredContent"] {
            // Ten thousand tokens; no token of these has more than four bytes.
            let size = result[form].to_string().len();
            assert!(size < 60_000, "{name}: {form} has {size} bytes");
        }
    }
    peer.end().await;
}

#[tokio::test]
async fn images_come_as_blocks_of_their_own() {
    let home = Home::with_fixture("");
    for era in ERAS {
        let mut peer = home.connected(era).await;
        let code =
            "const blocks = await mcp.fix.image({}); return { of: blocks.length, image: blocks[1], sound: blocks[2] }";
        let result = peer.call("execute_code", json!({"code": code})).await;
        assert_eq!(result["isError"], false, "{result}");
        let kinds: Vec<_> =
            result["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["text", "text", "image", "audio"], "{result}");
        assert_eq!(result["content"][2]["mimeType"], "image/png");
        let data = result["content"][2]["data"].as_str().unwrap();
        assert!(data.starts_with("iVBOR") && !result["structuredContent"].to_string().contains("iVBOR"), "{result}");
        peer.end().await;
    }
}

#[tokio::test]
async fn tools_are_found_described_and_kept_from_those_who_may_not_call_them() {
    let home = Home::with_fixture("args = [\"--tools\", \"9000\"]\n[policy]\ndeny = [\"fix:crash\"]");
    let mut peer = home.connected(Era::Legacy).await;
    let names = |result: &Value| -> Vec<String> {
        let tools = result["structuredContent"]["tools"].as_array().unwrap_or_else(|| panic!("{result}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let found = peer.call("search_tools", json!({"query": "add two numbers"})).await;
    assert_eq!(names(&found)[0], "fix:add", "{found}");
    let first = &found["structuredContent"]["tools"][0];
    assert!(first["signature"].as_str().unwrap().contains("mcp.fix.add("), "{first}");
    assert!(first.get("inputSchema").is_none() && text(&found, 0).contains("mcp.fix.add("), "{found}");
    let full = peer.call("search_tools", json!({"query": "add two numbers", "detail": "full", "limit": 1})).await;
    assert_eq!(full["structuredContent"]["tools"][0]["inputSchema"]["required"], json!(["a", "b"]), "{full}");
    let short = peer.call("search_tools", json!({"query": "add two numbers", "detail": "names", "limit": 2})).await;
    assert!(text(&short, 0).starts_with("fix:add\n") && names(&short).len() <= 2, "{short}");
    let many = peer.call("search_tools", json!({"query": "plain tool", "limit": 50})).await;
    assert_eq!(names(&many).len(), 50);

    let denied = peer.call("search_tools", json!({"query": "crash ends the server at once", "limit": 50})).await;
    assert!(!names(&denied).contains(&"fix:crash".to_owned()) && !names(&denied).is_empty(), "{denied}");
    let all = peer.call("search_tools", json!({"query": "", "server": "fix"})).await;
    let listed = all["structuredContent"]["servers"][0].clone();
    assert_eq!(listed["server"], "fix", "{all}");
    assert!(!all.to_string().contains("crash"), "the overview names what may not be called: {listed}");
    assert!(all["structuredContent"].to_string().len() < 60_000, "{}", all.to_string().len());

    let table = [
        (json!({}), "missing field `query`"),
        (json!({"query": "x", "limit": 0}), "between 1 and 50"),
        (json!({"query": "x", "limit": 51}), "between 1 and 50"),
        (json!({"query": "x", "threshold": 2}), "between 0 and 1"),
        (json!({"query": "x", "detail": "all"}), "expected one of"),
        (json!({"query": "x", "server": "fox"}), "did you mean `fix`?"),
        (json!({"query": ["x"]}), "expected a string"),
    ];
    for (arguments, part) in table {
        let result = peer.call("search_tools", arguments.clone()).await;
        assert_eq!(result["isError"], true, "{arguments}");
        assert!(text(&result, 0).contains(part), "{arguments}: {result}");
    }
    let strict = peer.call("search_tools", json!({"query": "add two numbers", "threshold": 0.6})).await;
    assert_eq!(names(&strict), ["fix:add"], "{strict}");
    let nothing = peer.call("search_tools", json!({"query": "?! 🦓"})).await;
    assert!(names(&nothing).is_empty() && text(&nothing, 0).contains("nothing found among"), "{nothing}");
    peer.end().await;
}

/// The numbers of the progress notifications among these messages, which must be for that token.
fn progress(messages: &[Value], token: &Value) -> Vec<f64> {
    let progress = messages.iter().filter(|message| message["method"] == "notifications/progress");
    progress
        .map(|message| {
            assert_eq!(message["params"]["progressToken"], *token, "{message}");
            assert!(message["params"]["message"].is_string(), "{message}");
            message["params"]["progress"].as_f64().unwrap()
        })
        .collect()
}

#[tokio::test]
async fn progress_grows_and_goes_on_in_silence() {
    let home = Home::with_fixture("");
    for era in ERAS {
        let mut peer = home.connected(era).await;
        peer.value("return await mcp.fix.echo({ text: 'up' })").await;
        assert_eq!(peer.heard, [Value::Null; 0], "nobody asked to be told");
        let code =
            "import { progress } from 'pml'; progress(1, 3, 'one'); await mcp.fix.echo({ text: 'x' }); progress(2, 3)";
        let call = |code: &str| json!({"name": "execute_code", "arguments": {"code": code}, "_meta": {"progressToken": "p-1"}});
        let answer = peer.request("tools/call", call(code)).await;
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        let numbers = progress(&peer.heard, &json!("p-1"));
        assert!(numbers.len() >= 4 && numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        let said: Vec<_> = peer.heard.iter().map(|message| message["params"]["message"].as_str().unwrap()).collect();
        assert!(said[0].contains("one") && said[1] == "calling fix:echo", "{said:?}");
        if era == Era::Modern {
            peer.end().await;
            continue;
        }
        // A program that says nothing for longer than clients like to wait.
        peer.heard.clear();
        let answer = peer.request("tools/call", call("await new Promise((done) => setTimeout(done, 5500))")).await;
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        assert!(!progress(&peer.heard, &json!("p-1")).is_empty(), "{:?}", peer.heard);
        peer.end().await;
    }
}

#[tokio::test]
async fn log_lines_are_told_to_those_who_ask_for_them() {
    let home = Home::new("");
    let code = "console.debug('d'); console.log('l'); console.warn('w'); console.error('e')";
    let run = |meta: Value| json!({"name": "execute_code", "arguments": {"code": code}, "_meta": meta});
    let levels = |heard: &[Value]| -> Vec<String> {
        let messages = heard.iter().filter(|message| message["method"] == "notifications/message");
        messages.map(|message| message["params"]["level"].as_str().unwrap().to_owned()).collect()
    };
    let table: [(&str, &[&str]); 4] = [
        ("debug", &["debug", "info", "warning", "error"]),
        ("info", &["info", "warning", "error"]),
        ("error", &["error"]),
        ("emergency", &[]),
    ];
    let mut legacy = home.connected(Era::Legacy).await;
    let mut modern = home.connected(Era::Modern).await;
    legacy.request("tools/call", run(json!({}))).await;
    modern.request("tools/call", run(json!({}))).await;
    assert!(legacy.heard.is_empty() && modern.heard.is_empty(), "nobody asked to be told");
    for (level, expected) in table {
        assert_eq!(legacy.request("logging/setLevel", json!({"level": level})).await["result"], json!({}));
        legacy.request("tools/call", run(json!({}))).await;
        assert_eq!(levels(&std::mem::take(&mut legacy.heard)), expected, "{level}");
        modern.request("tools/call", run(json!({"io.modelcontextprotocol/logLevel": level}))).await;
        assert_eq!(levels(&std::mem::take(&mut modern.heard)), expected, "{level}");
    }
    let wrong = legacy.request("logging/setLevel", json!({"level": "loud"})).await;
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    let unknown = modern.request("logging/setLevel", json!({"level": "info"})).await;
    assert_eq!(unknown["error"]["code"], -32601, "that era has no such method: {unknown}");
    legacy.end().await;
    modern.end().await;
}

/// Starts a run, and waits until its call has been begun.
pub(crate) async fn begin(peer: &mut Peer, code: &str) -> Value {
    let meta = json!({"progressToken": "begun"});
    let id = peer.ask("tools/call", json!({"name": "execute_code", "arguments": {"code": code}, "_meta": meta})).await;
    loop {
        let message = peer.next().await.expect("the run begins");
        if message["params"]["message"].as_str().is_some_and(|said| said.starts_with("calling ")) {
            return id;
        }
    }
}

#[tokio::test]
async fn a_cancelled_run_ends_and_so_does_its_call() {
    let home = Home::with_fixture("");
    for era in ERAS {
        let mut peer = home.connected(era).await;
        let id = begin(&mut peer, LONG).await;
        // The server has it when it works on more than on this very question.
        loop {
            let counters = peer.value("return await mcp.fix.counters({})").await;
            if counters["calls"].as_u64().unwrap() > counters["calls_done"].as_u64().unwrap_or(0) + 1 {
                break;
            }
        }
        let pid = peer.pid();
        eventually(|| workers(pid).len() == 1).await;
        peer.cancel(&json!("another")).await;
        peer.cancel(&json!(id.to_string())).await; // the text of a number is another id
        assert!(peer.is_up().await && workers(pid).len() == 1);
        peer.cancel(&id).await;
        eventually(|| workers(pid).is_empty()).await;
        let mut counters = Value::Null;
        for _ in 0..200 {
            counters = peer.value("return await mcp.fix.counters({})").await;
            if counters["cancelled"] == 1 {
                break;
            }
        }
        assert_eq!(counters["cancelled"], 1, "{counters}");
        peer.cancel(&id).await; // of what is over
        assert!(peer.is_up().await);
        assert!(peer.heard.iter().all(|message| message["id"] != id), "who cancels wants no answer: {:?}", peer.heard);
        peer.end().await;
    }
    let audit = home.audit();
    let cancelled = audit.iter().filter(|line| line["tool"] == "fix:sleep" && line["code"] == "CANCELLED");
    assert_eq!(cancelled.count(), 2, "{audit:?}");
}

#[tokio::test]
async fn a_client_that_goes_takes_its_runs_with_it() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    begin(&mut peer, LONG).await;
    let all = descendants(peer.pid());
    assert!(all.len() >= 2, "{all:?}");
    let started = Instant::now();
    peer.close_input();
    let (status, said) = peer.wait().await;
    assert!(status.success(), "{status}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(said.iter().all(|message| message.get("result").is_none()), "{said:?}");
    all_gone(&all).await;
    // Whoever closes its end and still reads gets what is nearly done. A busy machine may take too long for that.
    let mut is_answered = false;
    for _ in 0..5 {
        let mut peer = home.connected(Era::Legacy).await;
        peer.value("return await mcp.fix.echo({ text: 'up' })").await;
        let id = begin(&mut peer, "return await mcp.fix.sleep({ ms: 200 })").await;
        peer.close_input();
        let (status, said) = peer.wait().await;
        assert!(status.success(), "{status}");
        is_answered |= said.iter().any(|message| message["id"] == id);
        if is_answered {
            break;
        }
    }
    assert!(is_answered, "five times too late");
    assert!(home.audit().iter().any(|line| line["code"] == "CANCELLED"), "{:?}", home.audit());
}

#[tokio::test]
async fn a_client_that_reads_no_more_ends_its_runs_with_the_next_word() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    begin(&mut peer, LONG).await;
    let all = descendants(peer.pid());
    peer.close_output();
    peer.ask("ping", json!({})).await;
    assert!(peer.wait_unread().await.success());
    all_gone(&all).await;
}

#[tokio::test]
async fn a_run_that_waits_for_its_turn_can_be_cancelled_too() {
    let home = Home::with_fixture("[gateway]\nconcurrent_runs = 1");
    let mut peer = home.connected(Era::Legacy).await;
    // A program that only waits would leave its turn to others.
    let busy = "void mcp.fix.sleep({ ms: 60000 }); await new Promise((go) => setTimeout(go, 1)); while (true) {}";
    let first = begin(&mut peer, busy).await;
    let code = |code: &str| json!({"name": "execute_code", "arguments": {"code": code}});
    let second = peer.ask("tools/call", code("return 2")).await;
    let third = peer.ask("tools/call", code("return 3")).await;
    assert!(peer.is_up().await, "other requests do not wait");
    assert_eq!(workers(peer.pid()).len(), 1);
    peer.cancel(&second).await;
    peer.cancel(&first).await;
    let answer = peer.answer(&third).await;
    assert_eq!(answer["result"]["structuredContent"]["result"], 3, "{answer}");
    assert!(peer.is_up().await);
    let ids: Vec<_> = peer.heard.iter().map(|message| &message["id"]).collect();
    assert!(!ids.contains(&&first) && !ids.contains(&&second), "{ids:?}");
    peer.end().await;
}

#[tokio::test]
async fn told_to_end_pml_lets_runs_finish_within_the_grace() {
    let home = Home::with_fixture("[gateway]\nstop_grace_ms = 3000");
    for era in ERAS {
        let mut peer = home.connected(era).await;
        let short = begin(&mut peer, "return await mcp.fix.sleep({ ms: 700 })").await;
        let long = begin(&mut peer, LONG).await;
        let all = descendants(peer.pid());
        peer.signal(Signal::TERM);
        let answer = peer.answer(&short).await;
        assert_eq!(answer["result"]["structuredContent"]["result"], "slept 700 ms", "{answer}");
        let refused = peer.call("execute_code", json!({"code": "return 1"})).await;
        assert_eq!(refused["structuredContent"]["error"]["code"], "SHUTTING_DOWN", "{refused}");
        let answer = peer.answer(&long).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert_eq!(answer["result"]["structuredContent"]["error"]["code"], "CANCELLED", "{answer}");
        let (status, _) = peer.wait().await;
        assert_eq!(status.code(), Some(0));
        all_gone(&all).await;
    }
}

#[tokio::test]
async fn told_to_end_twice_pml_ends_at_once() {
    let home = Home::with_fixture("[gateway]\nstop_grace_ms = 600000");
    let mut peer = home.connected(Era::Legacy).await;
    begin(&mut peer, LONG).await;
    let all = descendants(peer.pid());
    peer.signal(Signal::TERM);
    // The first one is seen when no more runs are taken.
    loop {
        let refused = peer.call("execute_code", json!({"code": "return 1"})).await;
        if refused["isError"] == true {
            break;
        }
    }
    peer.signal(Signal::INT);
    let (status, _) = peer.wait().await;
    assert_eq!(status.code(), Some(130));
    all_gone(&all).await;
}

#[tokio::test]
async fn an_idle_pml_ends_at_once_when_told_to() {
    let home = Home::with_fixture("");
    for signal in [Signal::TERM, Signal::INT] {
        let mut peer = home.connected(Era::Legacy).await;
        peer.value("return await mcp.fix.echo({ text: 'up' })").await;
        let all = descendants(peer.pid());
        let started = Instant::now();
        peer.signal(signal);
        let (status, _) = peer.wait().await;
        assert!(status.success() && started.elapsed() < Duration::from_secs(4), "{status} {:?}", started.elapsed());
        all_gone(&all).await;
    }
}

/// A client that asks and asks and never reads must not keep pml from ending.
#[tokio::test]
async fn a_client_that_does_not_read_cannot_keep_pml_alive() {
    let home = Home::with_fixture("[gateway]\nstop_grace_ms = 200");
    // Once with requests that are served, once with lines that are refused.
    for line in [r#"{"jsonrpc":"2.0","id":ID,"method":"tools/list"}"#, r#"{"jsonrpc":"2.0","id":ID,"method":5}"#] {
        let mut peer = home.connected(Era::Legacy).await;
        let flood: String = (0..3000).map(|id| line.replace("ID", &format!("\"f{id}\"")) + "\n").collect();
        // As much as the pipes hold: at some point pml stops reading, as it should.
        let _ = tokio::time::timeout(Duration::from_millis(500), peer.send_bytes(flood.as_bytes())).await;
        let all = descendants(peer.pid());
        peer.signal(Signal::TERM);
        let status = peer.wait_unread().await;
        assert!(status.success(), "{status}");
        all_gone(&all).await;
    }
}

#[tokio::test]
async fn lines_that_no_client_should_send_are_answered_and_survived() {
    let home = Home::new("");
    let mut peer = home.connected(Era::Legacy).await;
    let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}1{}}}"#, "[".repeat(9000), "]".repeat(9000));
    let wide = format!(r#"{{"jsonrpc":"2.0","id":"w","method":"{}"}}"#, "m".repeat(100_000));
    let table: Vec<(&[u8], Value, i64)> = vec![
        (b"{", json!(null), -32700),
        (b"hello", json!(null), -32700),
        (b"\xff\xfe\x00", json!(null), -32700),
        (b"[]", json!(null), -32600),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, json!(null), -32600),
        (b"null", json!(null), -32600),
        (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, json!(null), -32600),
        (br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, json!(null), -32600),
        (br#"{"jsonrpc":"2.0","id":1e400,"method":"ping"}"#, json!(null), -32700),
        (br#"{"jsonrpc":"2.0","id":"s","method":"ping","params":{"x":"\ud800"}}"#, json!("s"), -32700),
        (br#"{"jsonrpc":"2.0","method":"ping","params":{"x":1e400},"id":7}"#, json!(7), -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\",\"params\":{\"x\":\"\xff\"}}", json!(8), -32700),
        (br#"{"jsonrpc":"2.0","id":9,"method":"ping","params":{"x":"#, json!(9), -32700),
        (br#"{"jsonrpc":"2.0","id":99999999999999999999999,"method":"ping"}"#, json!(null), -32600),
        (br#"{"jsonrpc":"1.0","id":"v","method":"ping"}"#, json!("v"), -32600),
        (br#"{"id":"v","method":"ping"}"#, json!("v"), -32600),
        (br#"{"jsonrpc":"2.0","id":"m","method":["ping"]}"#, json!("m"), -32600),
        (br#"{"jsonrpc":"2.0","id":"p","method":"ping","params":[1]}"#, json!("p"), -32602),
        (br#"{"jsonrpc":"2.0","id":"p","method":"tools/list","params":"x"}"#, json!("p"), -32602),
        (br#"{"jsonrpc":"2.0","id":"p","method":"tools/list","params":{"_meta":3}}"#, json!("p"), -32602),
        (br#"{"jsonrpc":"2.0","id":"u","method":"no/such/thing"}"#, json!("u"), -32601),
        (br#"{"jsonrpc":"2.0","id":"u","method":""}"#, json!("u"), -32601),
        (br#"{"jsonrpc":"2.0","id":"u","method":"resources/list"}"#, json!("u"), -32601),
        (br#"{"jsonrpc":"2.0","id":"d","method":"server/discover"}"#, json!("d"), -32602),
        (br#"{"jsonrpc":"2.0","id":"i","method":"initialize"}"#, json!("i"), -32602),
        (br#"{"jsonrpc":"2.0","id":"c","method":"tools/call"}"#, json!("c"), -32602),
        (deep.as_bytes(), json!(1), -32600),
        (wide.as_bytes(), json!("w"), -32601),
    ];
    for (line, id, code) in table {
        let shown = String::from_utf8_lossy(&line[..line.len().min(100)]).into_owned();
        peer.send_bytes(&[line, b"\n"].concat()).await;
        let answer = peer.next().await.unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{shown}: {answer}");
        assert!(answer.to_string().len() < 1000, "{shown}");
        assert!(peer.is_up().await, "{shown}");
    }
    // What is answered with nothing: empty lines, unknown notifications, answers to nothing.
    peer.send_bytes(b"\n  \r\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/nonsense\"}\r\n").await;
    peer.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"result\":{}}\n").await;
    peer.send_bytes(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{}}\n").await;
    assert!(peer.is_up().await && peer.heard.is_empty(), "{:?}", peer.heard);
    // An id as long as anybody likes is given back as it came.
    let id = json!("i".repeat(1_000_000));
    peer.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).await;
    assert_eq!(peer.answer(&id).await["result"], json!({}));
    // A line that is too long is passed over, not kept.
    let long = format!(r#"{{"jsonrpc":"2.0","id":"l","method":"ping","params":{{"x":"{}"}}}}"#, "x".repeat(20 << 20));
    peer.send_bytes(long.as_bytes()).await;
    peer.send_bytes(b"\n").await;
    let answer = peer.next().await.unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("l"), &json!(-32600)), "{answer}");
    assert!(peer.is_up().await);
    peer.end().await;
}

#[tokio::test]
async fn batches_are_taken_in_the_one_version_that_has_them() {
    let home = Home::new("");
    let (sent, expected) = batch();
    for version in LEGACY {
        let mut peer = home.stdio(Era::Legacy);
        let ask = async |peer: &mut Peer| {
            peer.send_bytes(format!("{sent}\n").as_bytes()).await;
            peer.next().await.unwrap()
        };
        let early = ask(&mut peer).await;
        assert_eq!((&early["id"], &early["error"]["code"]), (&json!(null), &json!(-32600)), "{version}: {early}");
        let answer = peer.request("initialize", initialize(version)).await;
        assert_eq!(answer["result"]["protocolVersion"], version);
        let answer = ask(&mut peer).await;
        match version {
            "2025-03-26" => assert_eq!(answers(&answer), expected, "{answer}"),
            _ => assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(null), &json!(-32600)), "{version}"),
        }
        // What is not answered is not answered in a batch either.
        if version == "2025-03-26" {
            peer.send_bytes(b"[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}]\n").await;
            peer.send_bytes(b"[]\n").await;
            let answer = peer.next().await.unwrap();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(null), &json!(-32600)), "{answer}");
        }
        assert!(peer.is_up().await && peer.heard.is_empty(), "{version}: {:?}", peer.heard);
        peer.end().await;
    }
}

#[tokio::test]
async fn more_requests_than_can_be_served_are_refused_and_the_others_are_served() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    peer.value("return await mcp.fix.echo({ text: 'up' })").await;
    let code = "await mcp.fix.sleep({ ms: 60000 })";
    let mut ids = Vec::new();
    for _ in 0..300 {
        ids.push(peer.ask("tools/call", json!({"name": "execute_code", "arguments": {"code": code}})).await);
    }
    let mut refused = 0;
    while refused < 300 - 256 {
        let message = peer.next().await.unwrap();
        assert_eq!(message["error"]["code"], -32603, "{message}");
        refused += 1;
    }
    for id in &ids {
        peer.cancel(id).await;
    }
    let pid = peer.pid();
    eventually(|| workers(pid).is_empty()).await;
    // Those that are cancelled make room.
    loop {
        let answer =
            peer.request("tools/call", json!({"name": "execute_code", "arguments": {"code": "return 1"}})).await;
        if answer["result"]["structuredContent"]["result"] == 1 {
            break;
        }
    }
    peer.end().await;
}

#[tokio::test]
async fn an_id_is_used_once_at_a_time() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    let id = begin(&mut peer, "return await mcp.fix.sleep({ ms: 500 })").await;
    peer.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).await;
    let refused = peer.answer(&id).await;
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    let answer = peer.answer(&id).await;
    assert_eq!(answer["result"]["structuredContent"]["result"], "slept 500 ms", "the first goes on: {answer}");
    // And again as soon as it has been answered.
    for _ in 0..300 {
        peer.send(&json!({"jsonrpc": "2.0", "id": "same", "method": "tools/list"})).await;
        let answer = peer.answer(&json!("same")).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    peer.end().await;
}
