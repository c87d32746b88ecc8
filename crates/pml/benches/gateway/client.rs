//! `pml serve`, and the barest clients of it: a pipe, and a connection that is kept.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

const VERSION: &str = "2026-07-28";

fn command(folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pml"));
    command.args(["serve", "--log", "error", "--config"]).arg(folder.join("pml.toml"));
    command.arg("--data-dir").arg(folder.join("data")).args(more);
    command
}

/// pml with a client at its standard input, which writes a line and blocks until it is answered.
pub(crate) struct Pipe {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    id: u64,
}

impl Pipe {
    /// Starts pml with the configuration in a folder. Nothing has been said yet.
    pub(crate) fn start(folder: &Path) -> Pipe {
        let mut child = command(folder, &[]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("pml starts");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("piped"));
        Pipe { child, stdin, stdout: BufReader::with_capacity(64 * 1024, stdout), id: 0 }
    }

    /// The same, and the session has begun.
    pub(crate) fn begin(folder: &Path) -> Pipe {
        let mut pipe = Pipe::start(folder);
        pipe.initialize();
        pipe
    }

    pub(crate) fn initialize(&mut self) -> Value {
        let client = json!({ "name": "pipe", "version": "1" });
        let answer = self.request(
            "initialize",
            &json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client }),
        );
        self.notify("notifications/initialized", &json!({}));
        answer
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn write(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("not stopped");
        stdin.write_all(format!("{message}\n").as_bytes()).expect("a pipe");
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        self.write(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Asks without waiting. The id of the request.
    pub(crate) fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.id += 1;
        self.write(&json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params }));
        self.id
    }

    /// The next message.
    pub(crate) fn read(&mut self) -> Value {
        let mut line = Vec::new();
        self.stdout.read_until(b'\n', &mut line).expect("a pipe");
        assert!(!line.is_empty(), "pml is gone");
        serde_json::from_slice(&line).expect("JSON")
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        loop {
            let mut answer = self.read();
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{answer}");
                return answer["result"].take();
            }
        }
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.request("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert_eq!(answer["isError"], false, "{answer}");
        answer
    }

    /// Ends it as a client does, and waits.
    pub(crate) fn stop(mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// pml that listens.
pub(crate) struct Web {
    child: Child,
    address: String,
    /// Open, so that pml can go on writing to it.
    _stderr: BufReader<ChildStderr>,
}

impl Web {
    pub(crate) fn start(folder: &Path) -> Web {
        let mut child = command(folder, &["--http", "127.0.0.1:0", "--no-token"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("pml starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("a pipe");
        let address = line.trim().strip_prefix("listening on http://").and_then(|rest| rest.strip_suffix("/mcp"));
        let address = address.unwrap_or_else(|| panic!("pml says {line:?}")).to_owned();
        Web { child, address, _stderr: stderr }
    }

    pub(crate) fn connect(&self) -> Connection {
        let stream = TcpStream::connect(&self.address).expect("pml listens");
        stream.set_nodelay(true).expect("a socket");
        Connection { stream: BufReader::new(stream), host: self.address.clone(), id: 0 }
    }

    /// Resident memory of pml's own process, in MB.
    pub(crate) fn rss_mb(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("pml runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.split_whitespace().next().and_then(|number| number.parse::<f64>().ok()).expect("a number") / 1024.0
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client in the new era, on one connection.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
    id: u64,
}

impl Connection {
    /// Calls a tool. The result, or what came instead.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, String> {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }))?;
        match answer["isError"] == false {
            true => Ok(answer),
            false => Err(answer.to_string()),
        }
    }

    /// Makes a request. Its result, or what came instead.
    pub(crate) fn request(&mut self, method: &str, mut params: Value) -> Result<Value, String> {
        self.id += 1;
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": { "name": "connection", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        params["_meta"] = meta;
        let name = params["name"].as_str().map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let body = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params }).to_string();
        let head = format!(
            "MCP-Protocol-Version: {VERSION}\r\nMcp-Method: {method}\r\n{name}Content-Length: {}\r\n",
            body.len()
        );
        self.send("POST /mcp", &head, &body).map_err(|err| err.to_string())?;
        let mut answer: Value = self.read().map_err(|err| err.to_string())?;
        match answer["error"].is_null() {
            true => Ok(answer["result"].take()),
            false => Err(answer.to_string()),
        }
    }

    /// Sends a request, or the beginning of one.
    pub(crate) fn send(&mut self, what: &str, head: &str, body: &str) -> std::io::Result<()> {
        let message = format!(
            "{what} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{head}\r\n{body}",
            self.host
        );
        self.stream.get_mut().write_all(message.as_bytes())
    }

    fn read(&mut self) -> std::io::Result<Value> {
        let (mut head, mut size, mut is_chunked) = (String::new(), 0, false);
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                size = value.trim().parse().unwrap_or(0);
            }
            is_chunked |= lower.starts_with("transfer-encoding:");
            head.push_str(&line);
        }
        if !head.starts_with("HTTP/1.1 200") {
            return Err(std::io::Error::other(format!("no answer: {head}")));
        }
        if is_chunked {
            return self.read_stream();
        }
        let mut body = vec![0; size];
        self.stream.read_exact(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// Reads an answer that took so long that it is a stream of events, in chunks; the answer is the last event.
    fn read_stream(&mut self) -> std::io::Result<Value> {
        let mut events = Vec::new();
        loop {
            let mut size = String::new();
            self.stream.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).map_err(std::io::Error::other)?;
            let mut chunk = vec![0; size + 2];
            self.stream.read_exact(&mut chunk)?;
            events.extend_from_slice(&chunk[..size]);
            if size == 0 {
                break;
            }
        }
        let text = String::from_utf8_lossy(&events);
        let last = text.lines().rev().find_map(|line| line.strip_prefix("data: "));
        Ok(serde_json::from_str(last.ok_or_else(|| std::io::Error::other("no event"))?)?)
    }
}

/// The processes that descend from one, itself left out: pid and command line.
pub(crate) fn descendants(pid: u32) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for task in tasks {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
            let command = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            found.push((child, String::from_utf8_lossy(&command).replace('\0', " ")));
            found.extend(descendants(child));
        }
    }
    found
}
