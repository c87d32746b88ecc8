//! Clients: each runs one program after the other, and checks what it gets.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use super::pml::{PATIENCE, Pipe};

/// Between two programs of a client.
const PAUSE: Duration = Duration::from_millis(25);
/// Failures that are kept to be shown.
const MAX_SHOWN: usize = 12;

/// What clients have seen, together.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) programs: AtomicU64,
    /// Programs that got all answers.
    pub(super) complete: AtomicU64,
    /// Programs that ended well with a value that is not what their arguments determine.
    pub(super) wrong: AtomicU64,
    /// Programs that were never answered.
    pub(super) unanswered: AtomicU64,
    pub(super) failures: Mutex<Vec<String>>,
    number: AtomicU64,
}

/// What is told to all clients.
#[derive(Debug, Default)]
pub(super) struct Orders {
    pub(super) is_over: AtomicBool,
    pub(super) is_paused: AtomicBool,
    /// Clients that are in a program.
    pub(super) busy: AtomicU64,
}

/// A way to have a program run.
pub(super) trait Connection {
    /// The answer to `tools/call`; `None` if there is none.
    fn call(&mut self, params: &Value) -> Option<Value>;
}

impl Connection for Pipe {
    fn call(&mut self, params: &Value) -> Option<Value> {
        self.request("tools/call", params)
    }
}

/// Runs programs until it is told to stop.
pub(super) fn work(connection: &mut impl Connection, orders: &Orders, tally: &Tally) {
    while !orders.is_over.load(Ordering::SeqCst) {
        orders.busy.fetch_add(1, Ordering::SeqCst);
        if !orders.is_paused.load(Ordering::SeqCst) {
            one(connection, tally);
        }
        orders.busy.fetch_sub(1, Ordering::SeqCst);
        thread::sleep(PAUSE);
    }
}

/// Runs one program that calls three servers, at once or in turn.
fn one(connection: &mut impl Connection, tally: &Tally) {
    let number = tally.number.fetch_add(1, Ordering::Relaxed);
    let calls = format!(
        "[() => mcp.one.echo({{ text: 'one {number}' }}), () => mcp.two.add({{ a: {number}, b: 0.5 }}), () => mcp.three.echo({{ text: 'three {number}' }})]"
    );
    let code = match number % 2 {
        0 => format!("return await Promise.all({calls}.map((call) => call()))"),
        _ => format!("const all = []; for (const call of {calls}) all.push(await call()); return all"),
    };
    let expected = json!([format!("one {number}"), number as f64 + 0.5, format!("three {number}")]);
    tally.programs.fetch_add(1, Ordering::Relaxed);
    let answer = connection.call(&json!({"name": "execute_code", "arguments": {"code": code}}));
    let Some(answer) = answer else {
        tally.unanswered.fetch_add(1, Ordering::Relaxed);
        return note(tally, format!("program {number}: no answer within {PATIENCE:?}"));
    };
    let result = &answer["result"];
    match result["isError"].as_bool() {
        Some(false) if result["structuredContent"]["result"] == expected => {
            tally.complete.fetch_add(1, Ordering::Relaxed);
        }
        Some(false) => {
            tally.wrong.fetch_add(1, Ordering::Relaxed);
            note(tally, format!("program {number}: WRONG: {}", result["structuredContent"]["result"]));
        }
        _ => {
            let why = match &result["structuredContent"]["error"] {
                Value::Null => answer.to_string(),
                error => format!("{} {}", error["code"], error["message"]),
            };
            note(tally, format!("program {number}: {}", why.chars().take(200).collect::<String>()));
        }
    }
}

fn note(tally: &Tally, failure: String) {
    let mut failures = tally.failures.lock().unwrap_or_else(PoisonError::into_inner);
    if failures.len() < MAX_SHOWN {
        failures.push(failure);
    }
}

/// A client over HTTP, of either era.
#[derive(Debug)]
pub(super) struct HttpClient {
    address: String,
    /// Of the earlier era.
    session: Option<String>,
    number: u64,
}

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";

impl HttpClient {
    pub(super) fn modern(address: &str) -> HttpClient {
        HttpClient { address: address.to_owned(), session: None, number: 0 }
    }

    pub(super) fn legacy(address: &str) -> HttpClient {
        let mut client = HttpClient::modern(address);
        let hello =
            json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}});
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
        let (head, _) = client.post(&message, "").expect("pml answers");
        let session = head.lines().find_map(|line| {
            line.to_ascii_lowercase().starts_with("mcp-session-id:").then(|| line[15..].trim().to_owned())
        });
        client.session = Some(session.expect("a session begins"));
        client
    }

    /// Posts a message. The head and the body of what comes back.
    fn post(&self, message: &Value, headers: &str) -> Option<(String, String)> {
        let body = message.to_string();
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{headers}\r\n",
            self.address,
            body.len(),
        );
        stream.write_all((head + &body).as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8(answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        Some((head.to_owned(), if is_chunked { unchunk(body)? } else { body.to_owned() }))
    }
}

impl Connection for HttpClient {
    fn call(&mut self, params: &Value) -> Option<Value> {
        self.number += 1;
        let (mut params, headers) = (
            params.clone(),
            match &self.session {
                Some(session) => format!("MCP-Protocol-Version: {LEGACY}\r\nMcp-Session-Id: {session}\r\n"),
                None => {
                    format!("MCP-Protocol-Version: {MODERN}\r\nMcp-Method: tools/call\r\nMcp-Name: execute_code\r\n")
                }
            },
        );
        // With progress, so that the answer is a stream.
        params["_meta"] = json!({"progressToken": self.number});
        if self.session.is_none() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let message = json!({"jsonrpc": "2.0", "id": self.number, "method": "tools/call", "params": params});
        let (_, body) = self.post(&message, &headers)?;
        // Plain, or the last event of a stream.
        let text = body.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&body);
        let answer: Value = serde_json::from_str(text).ok()?;
        (answer["id"] == self.number).then_some(answer)
    }
}

/// A body without the sizes between its chunks.
fn unchunk(body: &str) -> Option<String> {
    let (mut rest, mut whole) = (body, String::new());
    loop {
        let (size, more) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        whole.push_str(more.get(..size)?);
        rest = more.get(size + 2..)?;
    }
}
