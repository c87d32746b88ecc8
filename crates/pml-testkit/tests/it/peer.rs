//! The clients of these tests, by hand: lines over pipes, requests over a TCP stream.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use pml_testkit::fixture_path;
use serde_json::{Value, json};

/// Only separates "an answer" from "none".
const LONG: Duration = Duration::from_secs(20);

/// A server at the other end of two pipes.
pub(crate) struct Pipes {
    pub(crate) child: Child,
    lines: Receiver<Vec<u8>>,
    next_id: u64,
    modern: bool,
}

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(fixture_path());
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

impl Pipes {
    pub(crate) fn start(args: &[&str]) -> Pipes {
        let mut child = command(args).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        Pipes { child, lines, next_id: 0, modern: false }
    }

    /// A server that was greeted in the legacy way.
    pub(crate) fn legacy(args: &[&str]) -> Pipes {
        let mut server = Pipes::start(args);
        let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let result = server.ask("initialize", greeting);
        assert_eq!(result["result"]["serverInfo"]["name"], "fixture", "{result}");
        server.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    /// A server to which every request says that it is modern.
    pub(crate) fn modern(args: &[&str]) -> Pipes {
        let mut server = Pipes::start(args);
        server.modern = true;
        server
    }

    pub(crate) fn write(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.child.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    /// Sends a request and returns its id.
    pub(crate) fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.next_id += 1;
        if self.modern {
            with_meta(&mut params);
        }
        self.write(&json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}));
        self.next_id
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(method, params);
        self.read()
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    pub(crate) fn call_text(&mut self, tool: &str, arguments: Value) -> String {
        let answer = self.call(tool, arguments);
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    pub(crate) fn read_line(&mut self) -> Vec<u8> {
        self.lines.recv_timeout(LONG).expect("a line in time")
    }

    pub(crate) fn read(&mut self) -> Value {
        let line = self.read_line();
        serde_json::from_slice(&line).unwrap_or_else(|err| panic!("{err}: {}", line.escape_ascii()))
    }

    /// Whether it is silent now: what was asked after it is answered first.
    pub(crate) fn is_silent(&mut self) -> bool {
        let id = self.send("tools/call", json!({"name": "then", "arguments": {}}));
        self.read()["id"] == id
    }

    /// Waits for the end of stdout. False if something else comes first.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.lines.recv_timeout(LONG) == Err(RecvTimeoutError::Disconnected)
    }

    /// Whether stdout ends within a moment.
    pub(crate) fn ends_soon(&mut self) -> bool {
        self.lines.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Disconnected)
    }

    /// Closes stdin and waits for the end.
    pub(crate) fn end(mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().unwrap()
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What every modern request carries.
pub(crate) fn with_meta(params: &mut Value) {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
}

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|err| panic!("{err}: {self:?}"))
    }
}

/// A connection to a server.
pub(crate) struct Http {
    reader: BufReader<TcpStream>,
}

impl Http {
    pub(crate) fn connect(url: &str) -> Http {
        let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Http { reader: BufReader::new(stream) }
    }

    pub(crate) fn write(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
        request += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        self.reader.get_mut().write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
    }

    pub(crate) fn read_head(&mut self) -> Response {
        let status = self.read_line();
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{status}"));
        let mut headers = vec![];
        while let Some((name, value)) = self.read_line().split_once(": ") {
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        Response { status, headers, body: vec![] }
    }

    pub(crate) fn read(&mut self) -> Response {
        let mut response = self.read_head();
        match response.header("content-length") {
            Some(length) => {
                response.body = vec![0; length.parse().unwrap()];
                self.reader.read_exact(&mut response.body).unwrap();
            }
            None => {
                while let Some(chunk) = self.read_chunk() {
                    response.body.extend(chunk);
                }
            }
        }
        response
    }

    /// A chunk of a body, or nothing at its end.
    pub(crate) fn read_chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.read_line();
        let size = usize::from_str_radix(&size, 16).unwrap_or_else(|_| panic!("`{size}` is no size"));
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk).unwrap();
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }

    /// The data of the next event, whatever its name; comments are passed over.
    pub(crate) fn read_event(&mut self) -> String {
        loop {
            let chunk = String::from_utf8(self.read_chunk().expect("the stream goes on")).unwrap();
            if let Some(data) = chunk.lines().find_map(|line| line.strip_prefix("data: ")) {
                return data.to_owned();
            }
        }
    }

    pub(crate) fn read_message(&mut self) -> Value {
        serde_json::from_str(&self.read_event()).unwrap()
    }

    /// Whether the server closes the connection, whatever it sends before.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.reader.read_to_end(&mut Vec::new()).is_ok()
    }

    pub(crate) fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Whether nothing comes for a moment.
    pub(crate) fn stalls(&mut self) -> bool {
        self.reader.get_mut().set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        while let Ok(read) = self.reader.read(&mut [0; 4096]) {
            if read == 0 {
                return false;
            }
        }
        true
    }

    pub(crate) fn post(&mut self, headers: &[(&str, &str)], message: &Value) -> Response {
        self.write("POST", "/mcp", headers, &message.to_string());
        self.read()
    }

    /// A modern request with the headers that belong to it.
    pub(crate) fn write_modern(&mut self, id: u64, method: &str, mut params: Value) {
        with_meta(&mut params);
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let mut headers = vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
        if method == "tools/call" {
            headers.push(("Mcp-Name", &name));
        }
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write("POST", "/mcp", &headers, &message.to_string());
    }

    pub(crate) fn modern(&mut self, id: u64, method: &str, params: Value) -> Response {
        self.write_modern(id, method, params);
        self.read()
    }

    pub(crate) fn call_modern(&mut self, tool: &str, arguments: Value) -> Response {
        self.modern(1, "tools/call", json!({"name": tool, "arguments": arguments}))
    }
}
