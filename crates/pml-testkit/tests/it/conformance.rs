//! `conformance-server`, where the conformance suite does not look: each kind of tool in the other era.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use super::peer::Http;

struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(args: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conformance-server"));
        let mut child = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Server { child, url: url.trim_end().to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn capabilities() -> Value {
    json!({"sampling": {}, "elicitation": {}, "roots": {}})
}

fn sampled() -> Value {
    json!({"role": "assistant", "model": "test", "content": {"type": "text", "text": "Paris"}})
}

/// The next message of a stream. rmcp begins one with an event that has no data.
fn next_message(http: &mut Http) -> Value {
    loop {
        let data = http.read_event();
        if !data.is_empty() {
            return serde_json::from_str(&data).unwrap_or_else(|err| panic!("{err}: {data}"));
        }
    }
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_modern_client_is_asked_by_tools_of_either_era() {
    let server = Server::start(&["--era", "modern"]);
    for (tool, name) in [("test_sampling", "answer"), ("test_input_required_result_sampling", "capital_question")] {
        let call = |told: Value| {
            let mut params = json!({"name": tool, "arguments": {"prompt": "Which city?"}, "inputResponses": told});
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": capabilities(),
            });
            let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            let mut http = Http::connect(&server.url);
            http.write("POST", "/mcp", &headers, &message.to_string());
            assert_eq!(http.read_head().status, 200, "{tool}");
            next_message(&mut http)
        };
        let asked = call(json!({}));
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        assert_eq!(asked["result"]["inputRequests"][name]["method"], "sampling/createMessage", "{asked}");
        assert_eq!(text(&call(json!({name: sampled()}))), "LLM response: Paris", "{tool}");
    }
}

#[test]
fn a_legacy_client_is_asked_by_tools_of_either_era() {
    let server = Server::start(&["--era", "legacy"]);
    let greeting = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities(),
        "clientInfo": {"name": "test", "version": "1"},
    });
    let mut http = Http::connect(&server.url);
    let response = http.post(&[], &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting}));
    let session = response.header("mcp-session-id").unwrap();
    let headers = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")];
    http.post(&headers, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));

    for (id, tool) in [(1, "test_sampling"), (2, "test_input_required_result_sampling")] {
        let params = json!({"name": tool, "arguments": {"prompt": "Which city?"}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let mut stream = Http::connect(&server.url);
        stream.write("POST", "/mcp", &headers, &call.to_string());
        assert_eq!(stream.read_head().status, 200, "{tool}");
        let question = next_message(&mut stream);
        assert_eq!(question["method"], "sampling/createMessage", "{question}");
        http.post(&headers, &json!({"jsonrpc": "2.0", "id": question["id"], "result": sampled()}));
        assert_eq!(text(&next_message(&mut stream)), "LLM response: Paris", "{tool}");
    }
}

#[test]
fn the_conformance_server_ends_with_its_stdin() {
    let mut server = Server::start(&[]);
    drop(server.child.stdin.take());
    assert!(server.child.wait().unwrap().success());
}
