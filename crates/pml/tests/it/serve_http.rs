//! `pml serve --http`, byte by byte: who gets in, what is refused and how, what becomes of a run when its
//! client goes, and many clients at once.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

use super::peer::{
    Client, ERAS, Era, Home, Http, LEGACY, MODERN, PATIENCE, Response, Server, all_gone, answers, batch, descendants,
    eventually, initialize, resident_bytes, workers,
};

const LONG: &str = "await mcp.fix.sleep({ ms: 60000 })";

#[tokio::test]
async fn every_version_has_its_handshake() {
    let home = Home::with_fixture("");
    let server = home.http(&[]).await;
    for version in LEGACY {
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize(version)});
        let response = server.post(&message).send().await;
        assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")), "{version}");
        let session = response.header("mcp-session-id").unwrap().to_owned();
        let answer = response.json().await;
        assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(0), &json!(version)), "{answer}");
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let list = server.post(&list).header("Mcp-Session-Id", &session).header("MCP-Protocol-Version", version);
        let list = list.send().await.json().await;
        assert!(list["result"]["tools"].as_array().is_some_and(|tools| tools.len() <= 6), "{list}");
    }
    let client = server.client(Era::Modern).await;
    let response = client.ask(json!("d"), "server/discover", json!({})).send().await;
    assert_eq!((response.status, response.header("mcp-session-id")), (200, None));
    assert_eq!(response.json().await["result"]["supportedVersions"], json!([MODERN]));
    assert!(client.is_up().await);
    server.end().await;
}

#[tokio::test]
async fn a_run_is_followed_on_a_stream_or_answered_at_once() {
    let home = Home::with_fixture("");
    let server = home.http(&[]).await;
    for era in ERAS {
        let client = server.client(era).await;
        assert_eq!(client.value("return await mcp.fix.add({ a: 20, b: 22 })").await, 42);
        let code = "await mcp.fix.echo({ text: 'a' }); return await mcp.fix.echo({ text: 'b' })";
        let response = client.run(json!("r"), code).send().await;
        assert!(response.is_stream());
        assert_eq!(response.header("x-accel-buffering"), Some("no"), "or a proxy would gather it");
        let (told, answer) = response.told().await;
        assert_eq!(answer.unwrap()["result"]["structuredContent"]["result"], "b");
        let steps: Vec<_> = told.iter().map(|message| message["params"]["progress"].as_f64().unwrap()).collect();
        assert!(steps.len() >= 4 && steps.is_sorted_by(|a, b| a < b), "{told:?}");
        // Nothing to tell, so the answer is plain.
        let params = json!({"name": "execute_code", "arguments": {"code": "return 1"}});
        assert!(!client.ask(json!("q"), "tools/call", params).send().await.is_stream());
        // Who takes no stream gets none, and is answered all the same.
        let plain = client.run(json!("p"), code).instead("Accept", Some("application/json")).send().await;
        assert!(!plain.is_stream() && plain.status == 200);
        assert_eq!(plain.json().await["result"]["structuredContent"]["result"], "b");
    }
    server.end().await;
}

/// A way to spoil a request.
type Spoil = fn(Http) -> Http;

#[tokio::test]
async fn only_those_who_should_get_in() {
    let home = Home::new("");
    let server = home.http(&[]).await;
    let client = server.client(Era::Legacy).await;
    let table: [(&str, Spoil, u16); 19] = [
        ("as it should be", |http| http, 200),
        ("no token", |http| http.instead("Authorization", None), 401),
        ("a wrong token", |http| http.instead("Authorization", Some("Bearer wrong")), 401),
        ("an empty token", |http| http.instead("Authorization", Some("Bearer ")), 401),
        ("another scheme", |http| http.instead("Authorization", Some("Basic d3Jvbmc6")), 401),
        ("a foreign host", |http| http.instead("Host", Some("evil.example")), 403),
        ("a host with another port", |http| http.instead("Host", Some("localhost:1")), 403),
        ("no host", |http| http.instead("Host", None), 400),
        ("two hosts", |http| http.header("Host", "localhost"), 400),
        ("a foreign host beside its own", |http| http.header("Host", "evil.example"), 400),
        ("a foreign page", |http| http.header("Origin", "https://evil.example"), 403),
        ("a page without an origin", |http| http.header("Origin", "null"), 403),
        ("a text", |http| http.instead("Content-Type", Some("text/plain")), 415),
        ("a form", |http| http.instead("Content-Type", Some("application/x-www-form-urlencoded")), 415),
        ("no type", |http| http.instead("Content-Type", None), 415),
        ("only html is wanted", |http| http.instead("Accept", Some("text/html")), 406),
        ("only a stream is wanted", |http| http.instead("Accept", Some("text/event-stream")), 406),
        ("anything is wanted", |http| http.instead("Accept", Some("*/*")), 200),
        ("a foreign session", |http| http.instead("Mcp-Session-Id", Some("00000000000000000000000000000000")), 404),
    ];
    for (name, spoil, status) in table {
        let response = spoil(client.ask(json!(1), "tools/list", json!({}))).send().await;
        assert_eq!(response.status, status, "{name}");
        assert_eq!(response.header("www-authenticate").is_some(), status == 401, "{name}");
        assert!(response.header("access-control-allow-origin").is_none(), "{name}");
        assert!(client.is_up().await, "{name}");
    }
    for path in ["/events", "/metrics", "/nothing"] {
        assert_eq!(server.http("GET", path).instead("Authorization", None).send().await.status, 401, "{path}");
    }
    assert_eq!(server.http("GET", "/nothing").send().await.status, 404);
    server.end().await;

    let open = home.http(&["--no-token"]).await;
    assert!(open.token.is_none() && open.client(Era::Modern).await.is_up().await);
    assert_eq!(open.http("GET", "/metrics").instead("Host", Some("evil.example")).send().await.status, 403);
    open.end().await;
}

#[tokio::test]
async fn whoever_asks_too_often_is_told_when_to_come_back() {
    let home = Home::new("[gateway]\nrequests_per_minute = 10");
    let server = home.http(&[]).await;
    let statuses = futures_util::future::join_all((0..20).map(|_| server.http("GET", "/metrics").send())).await;
    let refused: Vec<_> = statuses.iter().filter(|response| response.status == 429).collect();
    assert!(refused.len() >= 5 && statuses.iter().any(|response| response.status == 200), "{}", refused.len());
    assert!(refused.iter().all(|response| response.header("retry-after").is_some()));
    drop(statuses);
    server.end().await;
}

#[tokio::test]
async fn headers_must_say_what_the_body_says() {
    let home = Home::new("");
    let server = home.http(&[]).await;
    let modern = server.client(Era::Modern).await;
    let legacy = server.client(Era::Legacy).await;
    let table: [(&str, &Client<'_>, Spoil, u16, i64); 16] = [
        ("two methods", &modern, |http| http.header("Mcp-Method", "tools/list"), 400, -32020),
        ("two names", &modern, |http| http.header("Mcp-Name", "search_tools"), 400, -32020),
        ("two versions", &modern, |http| http.header("MCP-Protocol-Version", LEGACY[0]), 400, -32020),
        ("two sessions", &legacy, |http| http.header("Mcp-Session-Id", "another"), 404, -32600),
        ("no method", &modern, |http| http.instead("Mcp-Method", None), 400, -32020),
        ("another method", &modern, |http| http.instead("Mcp-Method", Some("tools/list")), 400, -32020),
        ("a method in capitals", &modern, |http| http.instead("Mcp-Method", Some("TOOLS/CALL")), 400, -32020),
        ("no name", &modern, |http| http.instead("Mcp-Name", None), 400, -32020),
        ("another name", &modern, |http| http.instead("Mcp-Name", Some("search_tools")), 400, -32020),
        ("a broken name", &modern, |http| http.instead("Mcp-Name", Some("=?base64?!?=")), 400, -32020),
        ("no version", &modern, |http| http.instead("MCP-Protocol-Version", None), 400, -32020),
        ("another version", &modern, |http| http.instead("MCP-Protocol-Version", Some(LEGACY[0])), 400, -32020),
        ("an unknown version", &legacy, |http| http.instead("MCP-Protocol-Version", Some("1999-01-01")), 400, -32022),
        ("the modern version", &legacy, |http| http.instead("MCP-Protocol-Version", Some(MODERN)), 400, -32602),
        ("no session", &legacy, |http| http.instead("Mcp-Session-Id", None), 400, -32600),
        ("another method", &legacy, |http| http.instead("Mcp-Method", Some("tools/list")), 400, -32020),
    ];
    for (name, client, spoil, status, code) in table {
        let params = json!({"name": "execute_code", "arguments": {"code": "return 1"}});
        let response = spoil(client.ask(json!("x"), "tools/call", params)).send().await;
        assert_eq!(response.status, status, "{name}");
        let answer = response.json().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("x"), &json!(code)), "{name}: {answer}");
        assert!(client.is_up().await, "{name}");
    }
    // As it may be written, too.
    let params = json!({"name": "execute_code", "arguments": {"code": "return 1"}});
    let http = modern.ask(json!("x"), "tools/call", params).instead("Mcp-Name", Some("=?base64?ZXhlY3V0ZV9jb2Rl?="));
    assert_eq!(http.send().await.status, 200);
    for method in ["no/such", "initialize", "ping"] {
        let unknown = modern.ask(json!("x"), method, json!({})).send().await;
        assert_eq!((unknown.status, unknown.json().await["error"]["code"].clone()), (404, json!(-32601)), "{method}");
    }
    let unknown = legacy.ask(json!("x"), "no/such", json!({})).send().await;
    assert_eq!((unknown.status, unknown.json().await["error"]["code"].clone()), (200, json!(-32601)));
    server.end().await;
}

#[tokio::test]
async fn bodies_that_no_client_should_send_are_refused_and_survived() {
    let home = Home::new("");
    let server = home.http(&[]).await;
    let client = server.client(Era::Legacy).await;
    let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}"#, "[".repeat(100_000));
    let huge = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"x":"{}"}}}}"#, "x".repeat(20 << 20));
    let table: Vec<(&[u8], u16, i64)> = vec![
        (b"", 400, -32700),
        (b"{", 400, -32700),
        (b"\xff\xff", 400, -32700),
        (b"[]", 400, -32600),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600),
        (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, 400, -32600),
        (br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\ud800"}}"#, 400, -32700),
        (br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1e400}}"#, 400, -32700),
        (br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, 400, -32602),
        (br#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":[]}}"#, 400, -32602),
        (br#"{"jsonrpc":"2.0","id":"unasked","result":{}}"#, 202, 0),
        (br#"{"jsonrpc":"2.0","method":"notifications/nonsense"}"#, 202, 0),
        (deep.as_bytes(), 400, -32600),
        (huge.as_bytes(), 413, 0),
    ];
    for (body, status, code) in table {
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        let response = client.ask(json!(1), "ping", json!({})).with_body(body).send().await;
        assert_eq!(response.status, status, "{shown}");
        if code != 0 {
            let answer = response.json().await;
            assert_eq!(answer["error"]["code"], code, "{shown}");
            let id = if body.starts_with(br#"{"jsonrpc":"2.0","id":1,"#) { json!(1) } else { json!(null) };
            assert_eq!(answer["id"], id, "{shown}");
        }
        assert!(client.is_up().await, "{shown}");
    }
    // The same without its length said in advance.
    let http = client.ask(json!(1), "ping", json!({})).with_body("");
    let head = http.head().replace("Content-Length: 0", "Transfer-Encoding: chunked");
    let (mut reading, mut writing) = TcpStream::connect(server.address).await.unwrap().into_split();
    writing.write_all(head.as_bytes()).await.unwrap();
    let flood = async {
        let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
        for _ in 0..20 {
            if writing.write_all(chunk.as_bytes()).await.is_err() {
                break;
            }
        }
    };
    let mut status = [0; 12];
    let read = timeout(PATIENCE, reading.read_exact(&mut status));
    let ((), read) = tokio::join!(flood, read);
    read.unwrap().unwrap();
    assert_eq!(&status, b"HTTP/1.1 413");
    // What is no HTTP at all, and more headers than anybody needs.
    let many: String = (0..200).map(|n| format!("X-{n}: y\r\n")).collect();
    let large = format!("X: {}\r\n", "y".repeat(200_000));
    for bytes in [
        "\u{16}\u{3}\u{1}",
        "GET\r\n\r\n",
        &format!("GET / HTTP/1.1\r\n{many}\r\n"),
        &format!("GET / HTTP/1.1\r\n{large}\r\n"),
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let _ = stream.write_all(bytes.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the connection is closed");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
        assert!(client.is_up().await);
    }
    server.end().await;
}

#[tokio::test]
async fn batches_are_taken_in_the_one_version_that_has_them() {
    let home = Home::new("");
    let server = home.http(&[]).await;
    let (sent, expected) = batch();
    for version in LEGACY {
        let hello = json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": initialize(version)});
        let response = server.post(&hello).send().await;
        let session = response.header("mcp-session-id").unwrap().to_owned();
        let post = |body: &str| server.post(&json!(null)).header("Mcp-Session-Id", &session).with_body(body);
        let response = post(&sent).send().await;
        if version != "2025-03-26" {
            assert_eq!(
                (response.status, response.json().await["error"]["code"].clone()),
                (400, json!(-32600)),
                "{version}"
            );
            continue;
        }
        assert_eq!(response.status, 200);
        assert_eq!(answers(&response.answer().await.unwrap()), expected);
        // Also as a stream, with what is said before the answers.
        let run = r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","_meta":{"progressToken":"p"},
            "arguments":{"code":"pml.progress(1, 2, 'half'); return 1"}}},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#;
        let (told, answer) = post(run).send().await.told().await;
        assert!(told.iter().any(|message| message["method"] == "notifications/progress"), "{told:?}");
        assert_eq!(answer.unwrap().as_array().unwrap().len(), 2);
        let nothing =
            post(r#"[{"jsonrpc":"2.0","method":"notifications/nonsense"},{"jsonrpc":"2.0","id":"q","result":{}}]"#);
        assert_eq!(nothing.send().await.status, 202);
        assert_eq!(post(&sent).header("MCP-Protocol-Version", "2025-06-18").send().await.status, 400);
        assert_eq!(post(&sent).instead("Mcp-Session-Id", Some("unknown")).send().await.status, 404);
    }
    assert_eq!(server.post(&json!(null)).with_body(sent).send().await.status, 400, "without a session");
    server.end().await;
}

#[tokio::test]
async fn a_head_of_more_than_64_kib_is_refused_however_it_is_filled() {
    let home = Home::new("");
    let server = home.http(&[]).await;
    let client = server.client(Era::Modern).await;
    let status = async |head: String| {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // pml may answer and close before it has read everything.
        let _ = stream.write_all(head.as_bytes()).await;
        let mut status = [0; 12];
        let read = timeout(PATIENCE, stream.read_exact(&mut status)).await.expect("an answer");
        read.map(|_| String::from_utf8_lossy(&status[9..]).into_owned()).unwrap_or_else(|err| err.to_string())
    };
    const LIMIT: usize = 64 * 1024;
    /// A head of exactly so many bytes.
    fn filled(head: &str, size: usize, fill: impl Fn(usize) -> String) -> String {
        let rest = size - head.len();
        head.trim_end_matches("\r\n").to_owned() + "\r\n" + &fill(rest) + "\r\n"
    }
    let plain = server.http("GET", "/metrics").head();
    let one = |bytes: usize| format!("X: {}\r\n", "y".repeat(bytes - 5));
    let many = |bytes: usize| {
        let part = bytes / 50;
        (0..50).map(|index| one(if index == 0 { bytes - 49 * part } else { part })).collect::<String>()
    };
    for (fill, name) in [(&one as &dyn Fn(usize) -> String, "one header"), (&many, "many headers")] {
        assert_eq!(filled(&plain, LIMIT, fill).len(), LIMIT, "{name}");
        assert_eq!(status(filled(&plain, LIMIT, fill)).await, "200", "{name}");
        for size in [LIMIT + 1, 70_000, 100_000, 120_000] {
            assert_eq!(status(filled(&plain, size, fill)).await, "431", "{name} {size}");
        }
    }
    // Where nobody needs a token, and with a long address; what is too long for any is told so.
    let open = server.http("GET", "/healthz").head();
    assert_eq!(status(filled(&open, 100_000, one)).await, "431");
    let path = format!("/metrics?{}", "x".repeat(60_000));
    assert_eq!(status(filled(&server.http("GET", &path).head(), 90_000, one)).await, "431");
    let path = format!("/metrics?{}", "x".repeat(100_000));
    assert_eq!(status(server.http("GET", &path).head()).await, "414");
    assert!(client.is_up().await);
    server.end().await;
}

#[tokio::test]
async fn a_session_is_followed_ended_and_then_unknown() {
    let home = Home::new("");
    let server = home.http(&[]).await;
    let client = server.client(Era::Legacy).await;
    let session = client.session.clone().unwrap();
    let with = |method: &str, session: Option<&str>| {
        let http = server.http(method, "/mcp").header("Accept", "text/event-stream");
        match session {
            Some(session) => http.header("Mcp-Session-Id", session),
            None => http,
        }
    };
    let table = [
        ("GET", None, 405),
        ("GET", Some("unknown"), 404),
        ("DELETE", None, 405),
        ("DELETE", Some("unknown"), 404),
        ("PUT", Some(session.as_str()), 405),
        ("PATCH", None, 405),
        ("OPTIONS", None, 405),
    ];
    for (method, session, status) in table {
        assert_eq!(with(method, session).send().await.status, status, "{method} {session:?}");
    }
    assert_eq!(with("GET", Some(&session)).instead("Accept", Some("application/json")).send().await.status, 406);
    let mut stream = with("GET", Some(&session)).send().await;
    assert_eq!((stream.status, stream.is_stream()), (200, true));
    assert!(client.is_up().await);
    assert_eq!(with("DELETE", Some(&session)).send().await.status, 200);
    assert!(timeout(Duration::from_secs(5), stream.event()).await.expect("the stream ends").is_none());
    assert_eq!(with("DELETE", Some(&session)).send().await.status, 404);
    assert_eq!(client.ask(json!(1), "tools/list", json!({})).send().await.status, 404);
    assert_eq!(client.notify("notifications/cancelled", json!({"requestId": 1})).await, 404);
    assert!(server.client(Era::Legacy).await.is_up().await);
    // What fails to begin one leaves none.
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 5}});
    let refused = server.post(&message).send().await;
    assert_eq!((refused.status, refused.header("mcp-session-id")), (400, None));
    assert_eq!(refused.json().await["error"]["code"], -32602);
    server.end().await;
}

/// Starts a run that goes on for long, and waits until the server works on its call.
async fn begin(client: &Client<'_>, id: &Value) -> Response {
    let mut response = client.run(id.clone(), LONG).send().await;
    assert!(response.is_stream());
    calling(&mut response).await;
    in_call(client).await;
    response
}

/// Waits until a run makes its call.
async fn calling(response: &mut Response) {
    loop {
        let (_, message) = response.event().await.expect("the run begins");
        if message["params"]["message"] == "calling fix:sleep" {
            return;
        }
    }
}

/// Waits until the server works on another call than on the question whether it does.
async fn in_call(client: &Client<'_>) {
    loop {
        let counters = client.value("return await mcp.fix.counters({})").await;
        let count = |name: &str| counters[name].as_u64().unwrap_or(0);
        if count("calls") > count("calls_done") + 1 {
            return;
        }
    }
}

/// Waits until nothing runs any more, and the server has been told so often to stop.
async fn is_cancelled(server: &Server, client: &Client<'_>, times: u64) {
    let pid = server.pid();
    eventually(|| workers(pid).is_empty()).await;
    for _ in 0..200 {
        if client.value("return await mcp.fix.counters({})").await["cancelled"] == times {
            assert_eq!(server.metric("pml_runs_in_flight").await, Some(0.0));
            return;
        }
    }
    panic!("the server was not told");
}

#[tokio::test]
async fn a_run_ends_when_its_client_does_not_want_it_any_more() {
    let home = Home::with_fixture("");
    let server = home.http(&[]).await;
    let watcher = server.client(Era::Modern).await;
    watcher.value("return await mcp.fix.echo({ text: 'up' })").await;
    let mut events = server.http("GET", "/events?topic=execution.ended").send().await;
    let mut times = 0;

    let legacy = server.client(Era::Legacy).await;
    let response = begin(&legacy, &json!("n")).await;
    assert_eq!(legacy.notify("notifications/cancelled", json!({"requestId": "another"})).await, 202);
    assert_eq!(watcher.notify("notifications/cancelled", json!({"requestId": "n"})).await, 202);
    let pid = server.pid();
    eventually(|| workers(pid).len() == 1).await; // that was no business of theirs
    assert!(legacy.is_up().await && workers(pid).len() == 1);
    assert_eq!(legacy.notify("notifications/cancelled", json!({"requestId": "n"})).await, 202);
    assert_eq!(response.answer().await, None, "who cancels wants no answer");
    times += 1;
    is_cancelled(&server, &watcher, times).await;

    for era in ERAS {
        let client = server.client(era).await;
        drop(begin(&client, &json!("s")).await);
        times += 1;
        is_cancelled(&server, &watcher, times).await;

        // Before anything has been answered at all.
        let waiting = client.run(json!("j"), LONG).instead("Accept", Some("application/json"));
        let waiting = tokio::spawn(waiting.try_send());
        in_call(&watcher).await;
        waiting.abort();
        times += 1;
        is_cancelled(&server, &watcher, times).await;
    }

    let client = server.client(Era::Legacy).await;
    let response = begin(&client, &json!("d")).await;
    let end = server.http("DELETE", "/mcp").header("Mcp-Session-Id", client.session.as_deref().unwrap());
    assert_eq!(end.send().await.status, 200);
    assert_eq!(response.answer().await, None);
    times += 1;
    is_cancelled(&server, &watcher, times).await;

    let mut cancelled = 0;
    while cancelled < times {
        let (_, event) = events.event().await.expect("events go on");
        cancelled += u64::from(event["body"]["code"] == "CANCELLED");
    }
    drop(events);
    assert_eq!(server.metric("pml_runs_total{status=\"cancelled\"}").await, Some(times as f64));
    server.end().await;
    let audit = home.audit();
    assert_eq!(audit.iter().filter(|line| line["code"] == "CANCELLED").count() as u64, times, "{audit:?}");
}

#[tokio::test]
async fn told_to_end_pml_answers_what_ends_within_the_grace() {
    let home = Home::with_fixture("[gateway]\nstop_grace_ms = 2500");
    for era in ERAS {
        let server = home.http(&[]).await;
        let client = server.client(era).await;
        client.value("return await mcp.fix.echo({ text: 'up' })").await;
        // Those who only listen do not keep it from ending.
        let mut events = server.http("GET", "/events").send().await;
        let session = server.client(Era::Legacy).await;
        let stream = server.http("GET", "/mcp").header("Accept", "text/event-stream");
        let mut stream = stream.header("Mcp-Session-Id", session.session.as_deref().unwrap()).send().await;
        let short = client.run(json!("short"), "return await mcp.fix.sleep({ ms: 800 })").send().await;
        let long = begin(&client, &json!("long")).await;
        let all = descendants(server.pid());
        server.signal(Signal::TERM);
        let answer = short.answer().await.expect("what ends in time is answered");
        assert_eq!(answer["result"]["structuredContent"]["result"], "slept 800 ms", "{answer}");
        let answer = long.answer().await.expect("so is what is stopped");
        assert_eq!(answer["result"]["structuredContent"]["error"]["code"], "CANCELLED", "{answer}");
        let ended = Instant::now();
        while events.event().await.is_some() {}
        assert!(stream.event().await.is_none());
        assert_eq!(server.wait().await.code(), Some(0));
        assert!(ended.elapsed() < Duration::from_secs(4), "{:?}", ended.elapsed());
        all_gone(&all).await;
    }
}

/// The answer of the last run is on its way when everything ends; it must arrive all the same.
#[tokio::test]
async fn a_message_takes_room_only_while_it_is_read() {
    let home = Home::with_fixture("");
    let server = home.http(&[]).await;
    let client = server.client(Era::Modern).await;
    assert!(client.is_up().await);
    // Of unknown length, so each takes as much as the longest; eight of those is all the room there is.
    let mut clients = Vec::new();
    for number in 0..10 {
        let request = client.run(json!(number), LONG).instead("accept", Some("application/json"));
        let size = format!("Content-Length: {}\r\n", request.body.len());
        let head = request.head().replace(&size, "Transfer-Encoding: chunked\r\n");
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(format!("{head}{:x}\r\n", request.body.len()).as_bytes()).await.unwrap();
        stream.write_all(&[&*request.body, b"\r\n0\r\n\r\n"].concat()).await.unwrap();
        clients.push(stream);
    }
    let all_run = async {
        while server.metric("pml_runs_in_flight").await != Some(10.0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(25), all_run).await.expect("all run at the same time");
    drop(clients);
    server.end().await;
}

#[tokio::test]
async fn the_last_answer_is_not_lost() {
    let home = Home::with_fixture("");
    for round in 0..10 {
        let server = home.http(&["--no-token"]).await;
        let client = server.client(ERAS[round % 2]).await;
        client.value("return await mcp.fix.echo({ text: 'up' })").await;
        let code = "await mcp.fix.sleep({ ms: 300 }); return 'x'.repeat(20000)";
        let is_start = |line: &Value| line["event"] == "call.started" && line["tool"] == "fix:sleep";
        let sleeps = || home.audit_lines().iter().filter(|line| is_start(line)).count();
        let before = sleeps();
        let response = if round < 5 {
            // An answer that is a stream from the beginning.
            let mut response = client.run(json!("last"), code).send().await;
            calling(&mut response).await;
            server.signal(Signal::TERM);
            response
        } else {
            let params = json!({"name": "execute_code", "arguments": {"code": code}});
            let run = tokio::spawn(client.ask(json!("last"), "tools/call", params).try_send());
            // A run that waits for its turn is refused. On a slow machine it may be over before it is seen.
            eventually(|| run.is_finished() || sleeps() > before).await;
            server.signal(Signal::TERM);
            run.await.unwrap().expect("an answer")
        };
        assert_eq!(response.status, 200, "round {round}");
        let answer = response.answer().await.expect("an answer");
        assert_eq!(answer["result"]["isError"], false, "round {round}: {answer}");
        assert_eq!(server.wait().await.code(), Some(0));
    }
}

#[tokio::test]
async fn told_to_end_twice_pml_ends_at_once() {
    let home = Home::with_fixture("[gateway]\nstop_grace_ms = 600000");
    let server = home.http(&[]).await;
    let client = server.client(Era::Modern).await;
    let _run = begin(&client, &json!("long")).await;
    let all = descendants(server.pid());
    server.signal(Signal::TERM);
    while client.call("execute_code", json!({"code": "return 1"})).await["isError"] == false {}
    server.signal(Signal::TERM);
    assert_eq!(server.wait().await.code(), Some(130));
    all_gone(&all).await;
}

#[tokio::test]
async fn what_cannot_be_served_is_said_at_the_start() {
    let home = Home::new("");
    let server = home.http(&[]).await;
    let taken = server.address.to_string();
    let table = [
        (vec!["--http", taken.as_str()], "choose another port"),
        (vec!["--http", "0.0.0.0:0", "--no-token"], "leave out --no-token"),
        (vec!["--http", "nowhere"], "invalid"),
        (vec!["--no-token"], "--http"),
    ];
    for (args, part) in table {
        let output = home.command(env!("CARGO_BIN_EXE_pml")).arg("serve").args(&args).output();
        let output = timeout(PATIENCE, output).await.expect("it ends").unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(part) && output.stdout.is_empty(), "{args:?}: {said}");
    }
    assert!(server.client(Era::Modern).await.is_up().await);
    server.end().await;
}

/// How long it takes until the other side closes the connection.
async fn closed_after(mut stream: TcpStream) -> Duration {
    let started = Instant::now();
    let mut rest = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("the connection is closed");
    started.elapsed()
}

#[tokio::test]
async fn slow_clients_are_cut_off_and_idle_ones_do_no_harm() {
    let home = Home::new("");
    let server = home.http(&[]).await;
    let client = server.client(Era::Legacy).await;
    // As many as there may be, some of which say a little.
    let mut idle = Vec::new();
    for number in 0..1000 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: loc").await.unwrap();
        }
        idle.push(stream);
    }
    assert!(client.is_up().await && client.value("return 7").await == 7);
    // Each may send one more byte now and then, which does not help.
    let mut dripping = TcpStream::connect(server.address).await.unwrap();
    let drip = async {
        let started = Instant::now();
        for byte in "GET /healthz HTTP/1.1\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".bytes() {
            if dripping.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        started.elapsed()
    };
    // And one says that more will come, which does not.
    let http = client.ask(json!(1), "ping", json!({})).with_body("x".repeat(100));
    let mut stalled = TcpStream::connect(server.address).await.unwrap();
    stalled.write_all(http.head().as_bytes()).await.unwrap();
    stalled.write_all(b"{").await.unwrap();
    let mut answer = Vec::new();
    let stall = timeout(PATIENCE, stalled.read_to_end(&mut answer));
    let idle = futures_util::future::join_all(idle.into_iter().map(closed_after));
    let (dripped, stalled, idle) = tokio::join!(drip, stall, idle);
    assert!(dripped < Duration::from_secs(20), "{dripped:?}");
    stalled.expect("the connection is closed").unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&answer));
    assert!(idle.iter().all(|after| *after < Duration::from_secs(30)), "{:?}", idle.iter().max());
    assert!(client.is_up().await && client.value("return 8").await == 8);
    server.end().await;
}

#[tokio::test]
async fn fifty_clients_at_once_get_each_their_own_answers() {
    let home = Home::with_fixture("");
    let server = home.http(&[]).await;
    let round = async |tag: &str| {
        let clients = (0..50).map(|number| {
            let server = &server;
            async move {
                let client = server.client(ERAS[number % 2]).await;
                for turn in 0..20 {
                    let mine = format!("{tag}-{number}-{turn}");
                    // Every client uses the same ids.
                    let code = format!("const x = await mcp.fix.echo({{ text: '{mine}' }}); console.log(x); return x");
                    let answer = client.run(json!(turn), &code).send().await.answer().await.expect("an answer");
                    assert_eq!(answer["id"], turn);
                    let told = &answer["result"]["structuredContent"];
                    assert_eq!((&told["result"], &told["logs"][0]["text"]), (&json!(mine), &json!(mine)), "{answer}");
                }
                if let Some(session) = &client.session {
                    let end = server.http("DELETE", "/mcp").header("Mcp-Session-Id", session);
                    assert_eq!(end.send().await.status, 200);
                }
            }
        });
        futures_util::future::join_all(clients).await;
    };
    round("warm").await;
    let before = resident_bytes(server.pid());
    round("first").await;
    round("second").await;
    let after = resident_bytes(server.pid());
    // What is kept for each run or client would be many times as much; an allocator may be generous.
    assert!(after < 2 * before + 32 * 1024 * 1024, "{before} bytes were used, and then {after}");
    assert_eq!(server.metric("pml_runs_in_flight").await, Some(0.0));
    assert_eq!(server.metric("pml_runs_total{status=\"success\"}").await, Some(3000.0));
    assert_eq!(server.metric("pml_runs_total{status=\"error\"}").await, Some(0.0));
    let pid = server.pid();
    eventually(|| workers(pid).is_empty()).await;
    server.end().await;
}

/// Clients that go at any moment leave neither a process nor a descriptor.
#[tokio::test]
async fn clients_that_come_and_go_leave_nothing() {
    let home = Home::with_fixture("");
    let server = home.http(&["--no-token"]).await;
    let (legacy, modern) = (server.client(Era::Legacy).await, server.client(Era::Modern).await);
    modern.value("return await mcp.fix.echo({ text: 'up' })").await;
    let pid = server.pid();
    let descriptors = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let before = descriptors();
    for round in 0..8 {
        let runs = (0..25_u64).map(|number| {
            let client = if number % 2 == 0 { &legacy } else { &modern };
            let http = client.run(json!(format!("{round}-{number}")), LONG);
            // From before the request has been read to when the server works on it.
            timeout(Duration::from_millis(number * 4), async { http.send().await.answer().await })
        });
        let ended = futures_util::future::join_all(runs).await;
        assert!(ended.iter().all(Result::is_err));
    }
    eventually(|| workers(pid).is_empty()).await;
    while server.metric("pml_runs_in_flight").await != Some(0.0) {}
    assert_eq!(modern.value("return 5").await, 5);
    eventually(|| descriptors() <= before + 1).await;
    // The server was told of each call that had reached it.
    loop {
        let counters = modern.value("return await mcp.fix.counters({})").await;
        if counters["calls"].as_u64().unwrap() == counters["calls_done"].as_u64().unwrap() + 1 {
            break;
        }
    }
    server.end().await;
}

#[tokio::test]
async fn what_happens_can_be_followed_and_counted() {
    let home = Home::with_fixture("");
    let server = home.http(&[]).await;
    let health = server.http("GET", "/healthz").instead("Authorization", None).send().await;
    assert_eq!((health.status, &health.json().await["status"]), (200, &json!("ok")));
    let client = server.client(Era::Modern).await;
    client.value("return await mcp.fix.echo({ text: 'up' })").await;

    let mut all = server.http("GET", "/events").send().await;
    let mut ended = server.http("GET", "/events?topic=execution.ended").send().await;
    assert_eq!((all.status, all.is_stream()), (200, true));
    assert_eq!(all.header("x-accel-buffering"), Some("no"));
    let code = "console.log('hi'); return await mcp.fix.echo({ text: 'x' })";
    let first = client.call("execute_code", json!({"code": code, "intent": "says hi"})).await;
    let id = first["structuredContent"]["execution_id"].as_str().unwrap();
    let mut topics = Vec::new();
    while topics.last().is_none_or(|topic| topic != "execution.ended") {
        let (name, event) = all.event().await.expect("events go on");
        assert_eq!(event["body"]["topic"], *name);
        if event["correlation_id"] == id {
            topics.push(name);
        }
    }
    for topic in ["execution.started", "execution.log", "execution.call.started", "provider.mcp.tool.completed"] {
        assert!(topics.iter().any(|own| own == topic), "{topic}: {topics:?}");
    }
    let (name, event) = ended.event().await.unwrap();
    assert_eq!(
        (name.as_str(), &event["correlation_id"], &event["body"]["success"]),
        ("execution.ended", &json!(id), &json!(true))
    );
    // An id that will never come: nothing is told but what is.
    let mut none = server.http("GET", "/events?execution=another").send().await;
    client.value("return 1").await;
    assert!(timeout(Duration::from_millis(300), none.event()).await.is_err());
    assert_eq!(server.http("GET", "/events?topics=x").send().await.status, 400);
    assert_eq!(server.http("POST", "/events").send().await.status, 405);

    client.call("execute_code", json!({"code": "throw 1"})).await;
    let response = server.http("GET", "/metrics").send().await;
    assert_eq!(response.header("content-type"), Some("text/plain; version=0.0.4"));
    let text = String::from_utf8(response.bytes().await).unwrap();
    let mut typed = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            typed.push(rest.split(' ').next().unwrap().to_owned());
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let family = name.split('{').next().unwrap();
            assert!(typed.last().is_some_and(|own| family.starts_with(own.as_str())), "{line}");
            assert!(name.matches('"').count().is_multiple_of(2) && !name.contains(' '), "{line}");
        }
    }
    for (name, value) in [
        ("pml_runs_total{status=\"success\"}", 3.0),
        ("pml_runs_total{status=\"error\"}", 1.0),
        ("pml_tool_calls_total{status=\"success\"}", 2.0),
        ("pml_server_up{server=\"fix\"}", 1.0),
        ("pml_run_duration_seconds_count", 4.0),
        ("pml_run_duration_seconds_bucket{le=\"+Inf\"}", 4.0),
    ] {
        assert_eq!(server.metric(name).await, Some(value), "{name}: {text}");
    }
    drop((all, ended, none));
    server.end().await;
}

#[tokio::test]
async fn one_connection_serves_one_request_after_another() {
    let home = Home::new("");
    let server = home.http(&["--no-token"]).await;
    let client = server.client(Era::Modern).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for number in 0..50 {
        let http = client.ask(json!(number), "tools/list", json!({}));
        let bytes = [http.head().as_bytes(), &http.body].concat();
        stream.write_all(&bytes).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            let mut buffer = [0; 16384];
            let size = timeout(PATIENCE, stream.read(&mut buffer)).await.unwrap().unwrap();
            assert!(size > 0, "the connection was closed");
            answer.extend(&buffer[..size]);
        }
        let text = String::from_utf8(answer).unwrap();
        assert!(text.starts_with("HTTP/1.1 200") && text.contains(&format!("\"id\":{number},")), "{text}");
    }
    server.end().await;
}
