//! `fixture-server` over streamable HTTP, and over the older HTTP+SSE.

use pml_testkit::Fixture;
use serde_json::{Value, json};

use super::peer::Http;

fn start(args: &[&str]) -> (Fixture, Http) {
    let fixture = Fixture::start(&[&["--transport", "http"], args].concat());
    let http = Http::connect(&fixture.url);
    (fixture, http)
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(tool: &str) -> Value {
    request(
        7,
        "tools/call",
        json!({"name": tool, "arguments": {"text": "hello", "ms": 10, "progress": 1}, "_meta": {"progressToken": 1}}),
    )
}

/// Greets the server and returns the session.
fn initialize(http: &mut Http) -> String {
    let response = http.post(&[], &request(1, "initialize", json!({"protocolVersion": "2025-11-25"})));
    assert_eq!(response.status, 200);
    let session = response.header("mcp-session-id").unwrap().to_owned();
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let response = http.post(&[("Mcp-Session-Id", &session)], &initialized);
    assert!(response.status == 202 && response.body.is_empty());
    session
}

#[test]
fn a_legacy_server_has_sessions() {
    let (fixture, mut http) = start(&["--era", "legacy"]);
    assert_eq!(http.post(&[], &request(1, "tools/list", json!({}))).status, 400);
    assert_eq!(http.post(&[("Mcp-Session-Id", "none")], &request(1, "tools/list", json!({}))).status, 404);
    let session = initialize(&mut http);
    // All on one connection.
    let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    assert_eq!(http.post(&headers, &call("echo")).json()["result"]["content"][0]["text"], "hello");
    let wrong = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2024-11-05")];
    assert_eq!(http.post(&wrong, &call("echo")).status, 400);
    assert_eq!(http.post(&headers, &request(8, "server/discover", json!({}))).json()["error"]["code"], -32601);

    let mut stream = Http::connect(&fixture.url);
    stream.write("GET", "/mcp", &headers, "");
    assert_eq!(stream.read_head().header("content-type"), Some("text/event-stream"));
    stream.read_chunk();
    http.post(&headers, &call("change_list"));
    assert_eq!(stream.read_message()["method"], "notifications/tools/list_changed");

    http.write("DELETE", "/mcp", &headers, "");
    assert_eq!(http.read().status, 200);
    assert!(stream.is_closed());
    assert_eq!(http.post(&headers, &call("echo")).status, 404);
    assert!(fixture.end().success());
}

#[test]
fn a_modern_server_wants_its_headers() {
    let (fixture, mut http) = start(&["--era", "modern"]);
    let response = http.modern(1, "server/discover", json!({}));
    assert!(response.status == 200 && response.header("mcp-session-id").is_none());
    assert_eq!(response.json()["result"]["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(http.call_modern("then", json!({})).json()["result"]["resultType"], "complete");
    let meta = http.call_modern("meta", json!({})).json()["result"]["structuredContent"].clone();
    assert_eq!(meta["headers"]["mcp-name"], "meta");

    let body = request(
        2,
        "tools/list",
        json!({"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        }}),
    );
    let version = ("MCP-Protocol-Version", "2026-07-28");
    for headers in [&[version][..], &[version, ("Mcp-Method", "tools/call")], &[("Mcp-Method", "tools/list")]] {
        let response = http.post(headers, &body);
        assert_eq!((response.status, &response.json()["error"]["code"]), (400, &json!(-32020)), "{headers:?}");
    }
    let refused = http.modern(3, "tools/call", json!({"name": "region", "arguments": {"region": "here"}}));
    assert_eq!(refused.json()["error"]["code"], -32020);
    assert_eq!(http.modern(4, "nonsense", json!({})).status, 404);
    let refused = http.post(&[], &request(5, "initialize", json!({"protocolVersion": "2025-11-25"})));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!(-32022)));
    for method in ["GET", "DELETE"] {
        http.write(method, "/mcp", &[], "");
        assert_eq!(http.read().status, 405);
    }
    assert!(fixture.end().success());
}

#[test]
fn a_server_of_both_eras_decides_by_the_header() {
    let (_fixture, mut http) = start(&[]);
    assert_eq!(http.modern(1, "server/discover", json!({})).status, 200);
    initialize(&mut http);
}

#[test]
fn changes_arrive_on_the_stream_of_a_subscription() {
    let (fixture, mut http) = start(&["--era", "modern"]);
    let mut stream = Http::connect(&fixture.url);
    stream.write_modern(9, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    assert_eq!(stream.read_head().header("content-type"), Some("text/event-stream"));
    assert_eq!(stream.read_message()["method"], "notifications/subscriptions/acknowledged");
    http.call_modern("change_list", json!({}));
    assert_eq!(stream.read_message()["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 9);
    drop(stream);
    loop {
        let counters = http.call_modern("counters", json!({})).json();
        if counters["result"]["structuredContent"]["unlistens"] == 1 {
            break;
        }
    }
}

#[test]
fn closing_the_stream_cancels_a_modern_call() {
    let (fixture, mut http) = start(&["--era", "modern"]);
    for (tool, cancelled) in [("sleep", 1), ("hang", 2)] {
        let mut other = Http::connect(&fixture.url);
        other.write_modern(1, "tools/call", json!({"name": tool, "arguments": {"ms": 60_000}}));
        drop(other);
        loop {
            let counters = http.call_modern("counters", json!({})).json();
            if counters["result"]["structuredContent"]["cancelled"] == cancelled {
                break;
            }
        }
    }
}

#[test]
fn progress_comes_as_events() {
    let (_fixture, mut http) = start(&[]);
    let session = initialize(&mut http);
    http.write("POST", "/mcp", &[("Mcp-Session-Id", &session)], &call("sleep").to_string());
    assert_eq!(http.read_head().header("content-type"), Some("text/event-stream"));
    assert_eq!(http.read_message()["params"]["progress"], 1);
    assert_eq!(http.read_message()["id"], 7);
    assert_eq!(http.read_chunk(), None);
    // The connection can still be used.
    assert_eq!(http.modern(1, "server/discover", json!({})).status, 200);

    let (_fixture, mut http) = start(&["--fault", "sse-response"]);
    http.write_modern(1, "server/discover", json!({}));
    assert_eq!(http.read_head().header("content-type"), Some("text/event-stream"));
    assert!(http.read_message()["result"].is_object());
}

#[test]
fn the_client_is_asked_on_the_stream_of_the_call() {
    let (fixture, mut http) = start(&["--era", "legacy"]);
    let session = initialize(&mut http);
    let headers = [("Mcp-Session-Id", session.as_str())];
    let mut other = Http::connect(&fixture.url);
    other.write("POST", "/mcp", &headers, &call("ask").to_string());
    other.read_head();
    assert_eq!(other.read_message()["method"], "notifications/message");
    for _ in 0..4 {
        let answer = json!({"jsonrpc": "2.0", "id": other.read_message()["id"], "result": {"fine": true}});
        assert_eq!(http.post(&headers, &answer).status, 202);
    }
    let answers = other.read_message()["result"]["structuredContent"].clone();
    assert_eq!(answers["roots/list"], json!({"result": {"fine": true}}));
}

#[test]
fn statuses_can_be_wrong() {
    let (_fixture, mut http) = start(&["--fault", "status=429"]);
    assert_eq!(http.modern(1, "tools/list", json!({})).status, 200);
    let response = http.call_modern("then", json!({}));
    assert_eq!((response.status, response.header("retry-after")), (429, Some("2")));

    let (_fixture, mut http) = start(&["--fault", "status-once=401"]);
    let response = http.call_modern("then", json!({}));
    assert!(response.status == 401 && response.header("www-authenticate").is_some());
    assert_eq!(http.call_modern("then", json!({})).status, 200);

    let (_fixture, mut http) = start(&["--fault", "status-init=500"]);
    assert_eq!(http.modern(1, "server/discover", json!({})).status, 500);

    let (_fixture, mut http) = start(&["--fault", "expire-session=1"]);
    let session = initialize(&mut http);
    assert_eq!(http.post(&[("Mcp-Session-Id", &session)], &call("echo")).status, 200);
    assert_eq!(http.post(&[("Mcp-Session-Id", &session)], &call("echo")).status, 404);
    assert_ne!(initialize(&mut http), session);
}

#[test]
fn bodies_can_be_wrong() {
    let then = || json!({"name": "then", "arguments": {}});
    let (_fixture, mut http) = start(&["--fault", "slow-body"]);
    http.write_modern(1, "tools/call", then());
    assert_eq!(http.read_head().status, 200);
    assert!(http.stalls());

    let (_fixture, mut http) = start(&["--fault", "drop-stream"]);
    http.write_modern(1, "tools/call", then());
    assert_eq!(http.read_head().header("content-type"), Some("text/event-stream"));
    assert!(http.is_closed());

    let (_fixture, mut http) = start(&["--fault", "redirect"]);
    let response = http.modern(1, "server/discover", json!({}));
    assert_eq!((response.status, response.header("location")), (307, Some("/moved")));
    http.write("POST", "/moved", &[], &request(1, "initialize", json!({})).to_string());
    assert_eq!(http.read().status, 200);

    let (_fixture, mut http) = start(&["--fault", "redirect-away=1"]);
    let response = http.modern(1, "server/discover", json!({}));
    assert_eq!(response.header("location"), Some("http://127.0.0.1:1/mcp"));

    let (_fixture, mut http) = start(&["--fault", "endless-line"]);
    http.write_modern(1, "tools/call", then());
    http.read_head();
    for _ in 0..100 {
        assert!(!http.read_chunk().unwrap().contains(&b'\n'));
    }

    let (_fixture, mut http) = start(&["--fault", "huge-headers", "--fault", "wrong-content-type"]);
    let response = http.modern(1, "server/discover", json!({}));
    assert_eq!(response.header("content-type"), Some("text/html"));
    assert!(response.headers.iter().map(|(_, value)| value.len()).sum::<usize>() >= 1 << 20);
}

#[test]
fn the_older_transport_answers_on_the_stream() {
    let fixture = Fixture::start(&["--transport", "sse", "--era", "legacy"]);
    assert!(fixture.url.ends_with("/sse") && fixture.pid() > 1);
    let mut stream = Http::connect(&fixture.url);
    stream.write("GET", "/sse", &[], "");
    assert_eq!(stream.read_head().header("content-type"), Some("text/event-stream"));
    let endpoint = stream.read_event();
    let mut http = Http::connect(&fixture.url);
    let mut post = |message: &Value| {
        http.write("POST", &endpoint, &[], &message.to_string());
        http.read().status
    };
    assert_eq!(post(&request(1, "initialize", json!({"protocolVersion": "2024-11-05"}))), 202);
    assert_eq!(stream.read_message()["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})), 202);
    assert_eq!(post(&call("sleep")), 202);
    assert_eq!(stream.read_message()["method"], "notifications/progress");
    assert_eq!(stream.read_message()["id"], 7);
    assert_eq!(post(&call("change_list")), 202);
    assert_eq!(stream.read_message()["method"], "notifications/tools/list_changed");
    http.write("POST", "/sse", &[], "{}");
    assert_eq!(http.read().status, 405);
    http.write("POST", "/messages?session=none", &[], "{}");
    assert_eq!(http.read().status, 404);
    assert!(fixture.end().success());
}

#[test]
fn the_older_transport_can_point_elsewhere() {
    let fixture = Fixture::start(&["--transport", "sse", "--fault", "foreign-endpoint"]);
    let mut stream = Http::connect(&fixture.url);
    stream.write("GET", "/sse", &[], "");
    stream.read_head();
    assert_eq!(stream.read_event(), "http://127.0.0.1:1/messages?session=session-1");
}
