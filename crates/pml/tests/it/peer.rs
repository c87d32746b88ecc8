//! A client made of bytes: `pml serve` is spoken to without any SDK, so that what is on the wire is what
//! is tested.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Output, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use pml_testkit::fixture_path;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// Only separates "it comes" from "it never does".
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// One of each era.
pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// A folder of a user: a home, a configuration, data.
pub(crate) struct Home(tempfile::TempDir);

impl Home {
    /// Without a configuration.
    pub(crate) fn empty() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    pub(crate) fn new(config: &str) -> Home {
        let home = Home::empty();
        home.configure(config);
        home
    }

    /// The user's own configuration.
    pub(crate) fn config(&self) -> PathBuf {
        self.path().join(".config/pml/pml.toml")
    }

    pub(crate) fn configure(&self, text: &str) {
        write_config(&self.config(), text);
    }

    /// With the fixture as its server `fix`, and each run in a process of its own, so that one that is left
    /// would be seen. `more` follows in the table of the server.
    pub(crate) fn with_fixture(more: &str) -> Home {
        let fixture = fixture_path();
        let command = fixture.to_str().unwrap();
        Home::new(&format!("[sandbox]\nmode = \"subprocess\"\n[servers.fix]\ncommand = {command:?}\n{more}"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// `program` in this home, with nothing of the environment of the test but where programs are.
    #[expect(clippy::disallowed_methods, reason = "these tests start programs as a client would")]
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let search = std::env::vars_os().find(|(name, _)| name == "PATH").map(|(_, path)| path).unwrap_or_default();
        command.current_dir(self.path()).env_clear().env("PATH", search).env("HOME", self.path()).kill_on_drop(true);
        command
    }

    /// Runs pml to its end, as a shell would.
    pub(crate) fn pml(&self, args: &[&str]) -> Output {
        let mut command = self.command(env!("CARGO_BIN_EXE_pml")).into_std();
        command.args(args).env("SECRET_TOKEN", "hunter2hunter2").output().unwrap()
    }

    fn serve(&self, args: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_pml"));
        command.arg("serve").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // As a shell would start it, so that its whole group can be sent a signal.
        command.process_group(0);
        command
    }

    /// Starts `pml serve` on its standard input and output. Nothing has been said yet.
    pub(crate) fn stdio(&self, era: Era) -> Peer {
        self.stdio_with(era, &[])
    }

    /// The same with more arguments.
    pub(crate) fn stdio_with(&self, era: Era, args: &[&str]) -> Peer {
        self.stdio_logged(era, args, Stdio::null())
    }

    /// The same with its stderr somewhere.
    pub(crate) fn stdio_logged(&self, era: Era, args: &[&str], stderr: impl Into<Stdio>) -> Peer {
        let mut child = self.serve(args).stderr(stderr).spawn().unwrap();
        let input = child.stdin.take();
        let output = child.stdout.take().map(BufReader::new);
        Peer { child, input, output, era, heard: Vec::new(), number: 0 }
    }

    /// The same after the handshake of that era.
    pub(crate) async fn connected(&self, era: Era) -> Peer {
        let mut peer = self.stdio(era);
        if era == Era::Legacy {
            let answer = peer.request("initialize", initialize(LEGACY[0])).await;
            assert_eq!(answer["result"]["protocolVersion"], LEGACY[0], "{answer}");
            peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        }
        peer
    }

    /// Starts `pml serve --http`, and waits until it listens. With a token, unless `args` say otherwise.
    pub(crate) async fn http(&self, args: &[&str]) -> Server {
        let mut all = vec!["--http", "127.0.0.1:0"];
        all.extend(args);
        let serve = self.serve(&all);
        // With as few open files as some systems allow at first. The shell becomes pml, so its process is pml's.
        let mut shell = self.command("sh");
        shell.args(["-c", r#"ulimit -Sn 256 && exec "$0" "$@""#]).arg(serve.as_std().get_program());
        shell.args(serve.as_std().get_args());
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        timeout(PATIENCE, stderr.read_line(&mut line)).await.unwrap().unwrap();
        let address = line.trim().strip_prefix("listening on http://").and_then(|rest| rest.strip_suffix("/mcp"));
        let address = address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("{line}"));
        // Somebody has to read it, or pml would wait.
        tokio::spawn(async move { tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await });
        let token = fs::read_to_string(self.path().join(".local/share/pml/token")).ok();
        let token = token.map(|token| token.trim().to_owned()).filter(|_| !args.contains(&"--no-token"));
        Server { child, address, token }
    }

    /// The lines of the audit log.
    pub(crate) fn audit_lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path().join(".local/share/pml/audit.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Those about what is over.
    pub(crate) fn audit(&self) -> Vec<Value> {
        self.audit_lines().into_iter().filter(|line| line["event"] != "call.started").collect()
    }
}

/// Writes a configuration file as pml accepts it, whatever the umask of the test.
pub(crate) fn write_config(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
}

pub(crate) fn initialize(version: &str) -> Value {
    json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "peer", "version": "1"}})
}

/// What each request of the new era carries.
fn with_meta(era: Era, mut params: Value) -> Value {
    if era == Era::Modern {
        if params["_meta"].is_null() {
            params["_meta"] = json!({});
        }
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
        // Unless the test says what its client can do.
        if params["_meta"]["io.modelcontextprotocol/clientCapabilities"].is_null() {
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "peer", "version": "1"});
    }
    params
}

/// One `pml serve` on standard input and output.
pub(crate) struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
    pub(crate) era: Era,
    /// What came while something else was waited for.
    pub(crate) heard: Vec<Value>,
    number: u64,
}

impl Peer {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes()).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("input is open");
        timeout(PATIENCE, input.write_all(bytes)).await.expect("pml reads").unwrap();
    }

    /// The next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let output = self.output.as_mut()?;
        let mut line = String::new();
        let size = timeout(PATIENCE, output.read_line(&mut line)).await.expect("pml says something").unwrap();
        (size > 0).then(|| serde_json::from_str(&line).unwrap_or_else(|err| panic!("{err}: {line}")))
    }

    /// Sends a request. Its id.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let id = json!(self.number);
        let params = with_meta(self.era, params);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// The answer with this id; what comes before it is kept.
    pub(crate) async fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.next().await.unwrap_or_else(|| panic!("the answer to {id} never came"));
            if message["id"] == *id && message.get("method").is_none() {
                return message;
            }
            self.heard.push(message);
        }
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(&id).await
    }

    /// Calls a tool of pml's own. Its result.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments})).await;
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// The value of a program that succeeds.
    pub(crate) async fn value(&mut self, code: &str) -> Value {
        let result = self.call("execute_code", json!({"code": code})).await;
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"]["result"].clone()
    }

    /// Is anybody there?
    pub(crate) async fn is_up(&mut self) -> bool {
        let answer = self.request("tools/list", json!({})).await;
        answer["result"]["tools"].is_array()
    }

    pub(crate) async fn cancel(&mut self, id: &Value) {
        let params = json!({"requestId": id, "reason": "enough"});
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send_signal(self.pid(), signal);
    }

    /// As the terminal does on Ctrl-C: to pml and to whatever it has started in its own group.
    pub(crate) fn signal_group(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().cast_signed()).expect("a process");
        rustix::process::kill_process_group(pid, signal).expect("the group takes the signal");
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    pub(crate) fn close_output(&mut self) {
        self.output = None;
    }

    /// Waits for the end, with what is still said until then.
    pub(crate) async fn wait(mut self) -> (ExitStatus, Vec<Value>) {
        while let Some(message) = self.next().await {
            self.heard.push(message);
        }
        let status = timeout(PATIENCE, self.child.wait()).await.expect("pml ends").unwrap();
        (status, self.heard)
    }

    /// Ends it without reading any more.
    pub(crate) async fn wait_unread(mut self) -> ExitStatus {
        timeout(PATIENCE, self.child.wait()).await.expect("pml ends").unwrap()
    }

    /// Ends it, which takes no force.
    pub(crate) async fn end(mut self) {
        let all = descendants(self.pid());
        self.close_input();
        let (status, _) = self.wait().await;
        assert!(status.success(), "{status}");
        all_gone(&all).await;
    }
}

/// One `pml serve --http`.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) token: Option<String>,
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send_signal(self.pid(), signal);
    }

    pub(crate) async fn wait(mut self) -> ExitStatus {
        timeout(PATIENCE, self.child.wait()).await.expect("pml ends").unwrap()
    }

    /// Ends it, and everything it has started.
    pub(crate) async fn end(self) {
        let all = descendants(self.pid());
        self.signal(Signal::TERM);
        let status = self.wait().await;
        assert!(status.success(), "{status}");
        all_gone(&all).await;
    }

    /// A request as a well-behaved client sends it, to be spoilt.
    pub(crate) fn http(&self, method: &str, path: &str) -> Http {
        let mut headers = vec![("Host".to_owned(), self.address.to_string())];
        if let Some(token) = &self.token {
            headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
        }
        Http { address: self.address, method: method.to_owned(), path: path.to_owned(), headers, body: Vec::new() }
    }

    /// A message, as a well-behaved client sends it.
    pub(crate) fn post(&self, message: &Value) -> Http {
        let mut http = self.http("POST", "/mcp");
        http = http.header("Content-Type", "application/json");
        http = http.header("Accept", "application/json, text/event-stream");
        http.body = message.to_string().into_bytes();
        http
    }

    /// A client of that era, after its handshake.
    pub(crate) async fn client(&self, era: Era) -> Client<'_> {
        let mut client = Client { server: self, era, session: None };
        if era == Era::Legacy {
            let message =
                json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": initialize(LEGACY[0])});
            let response = self.post(&message).send().await;
            assert_eq!(response.status, 200);
            client.session = Some(response.header("mcp-session-id").expect("a session").to_owned());
            let answer = response.json().await;
            assert_eq!(answer["result"]["protocolVersion"], LEGACY[0], "{answer}");
            let accepted = client.notify("notifications/initialized", json!({})).await;
            assert_eq!(accepted, 202);
        }
        client
    }

    /// The value of a metric, labels and all.
    pub(crate) async fn metric(&self, name: &str) -> Option<f64> {
        let text = String::from_utf8(self.http("GET", "/metrics").send().await.bytes().await).unwrap();
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }
}

/// One client over HTTP.
pub(crate) struct Client<'a> {
    pub(crate) server: &'a Server,
    pub(crate) era: Era,
    pub(crate) session: Option<String>,
}

impl Client<'_> {
    /// A request of this client, to be sent or spoilt.
    pub(crate) fn ask(&self, id: Value, method: &str, params: Value) -> Http {
        let params = with_meta(self.era, params);
        let name = params["name"].as_str().map(str::to_owned);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let mut http = self.server.post(&message);
        match self.era {
            Era::Legacy => {
                http = http.header("MCP-Protocol-Version", LEGACY[0]);
                if let Some(session) = &self.session {
                    http = http.header("Mcp-Session-Id", session);
                }
            }
            Era::Modern => {
                http = http.header("MCP-Protocol-Version", MODERN).header("Mcp-Method", method);
                if let Some(name) = name {
                    http = http.header("Mcp-Name", &name);
                }
            }
        }
        http
    }

    /// The call of a tool, whose answer is waited for.
    pub(crate) fn run(&self, id: Value, code: &str) -> Http {
        let meta = json!({"progressToken": id});
        let params = json!({"name": "execute_code", "arguments": {"code": code}, "_meta": meta});
        self.ask(id, "tools/call", params)
    }

    /// Sends a request, and gives its answer.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Value {
        static NUMBER: AtomicU64 = AtomicU64::new(1000);
        let id = json!(NUMBER.fetch_add(1, Ordering::Relaxed));
        let answer = self.ask(id.clone(), method, params).send().await.answer().await.expect("an answer");
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments})).await;
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    pub(crate) async fn value(&self, code: &str) -> Value {
        let result = self.call("execute_code", json!({"code": code})).await;
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"]["result"].clone()
    }

    /// Sends a notification. The status of the answer.
    pub(crate) async fn notify(&self, method: &str, params: Value) -> u16 {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let mut http = self.server.post(&message);
        if let Some(session) = &self.session {
            http = http.header("Mcp-Session-Id", session);
        }
        http.send().await.status
    }

    pub(crate) async fn is_up(&self) -> bool {
        self.request("tools/list", json!({})).await["result"]["tools"].is_array()
    }
}

/// A request that has not been sent.
pub(crate) struct Http {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Http {
    /// A request with nothing but a host.
    pub(crate) fn to(address: SocketAddr, method: &str, path: &str) -> Http {
        let headers = vec![("Host".to_owned(), address.to_string())];
        Http { address, method: method.to_owned(), path: path.to_owned(), headers, body: Vec::new() }
    }

    /// Adds a header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Http {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Says something else in a header, or nothing.
    pub(crate) fn instead(mut self, name: &str, value: Option<&str>) -> Http {
        self.headers.retain(|(own, _)| !own.eq_ignore_ascii_case(name));
        match value {
            Some(value) => self.header(name, value),
            None => self,
        }
    }

    pub(crate) fn with_body(mut self, body: impl Into<Vec<u8>>) -> Http {
        self.body = body.into();
        self
    }

    /// Everything before the body.
    pub(crate) fn head(&self) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.method != "GET" {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head + "\r\n"
    }

    pub(crate) async fn send(self) -> Response {
        self.try_send().await.expect("an answer")
    }

    /// `None` if the connection was closed instead of an answer.
    pub(crate) async fn try_send(self) -> Option<Response> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (reading, mut writing) = stream.into_split();
        let bytes = [self.head().into_bytes(), self.body].concat();
        // A server may answer before it has read everything. The writing half lives as long as the answer.
        let sent = tokio::spawn(async move {
            let _ = writing.write_all(&bytes).await;
            writing
        });
        Response::read(BufReader::new(reading), Sending(sent)).await
    }
}

/// What is still being sent.
struct Sending(tokio::task::JoinHandle<tokio::net::tcp::OwnedWriteHalf>);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An answer whose body has not been read. Dropped, its connection is closed.
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: BufReader<tokio::net::tcp::OwnedReadHalf>,
    /// Bytes of the body that were read and not used.
    rest: String,
    _sending: Sending,
}

impl Response {
    async fn read(mut body: BufReader<tokio::net::tcp::OwnedReadHalf>, sending: Sending) -> Option<Response> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match timeout(PATIENCE, body.read_line(&mut line)).await.expect("pml answers") {
                Ok(0) | Err(_) => return None,
                Ok(_) if line.trim().is_empty() => break,
                Ok(_) => lines.push(line),
            }
        }
        let status = lines[0].split(' ').nth(1)?.parse().ok()?;
        let headers = lines[1..].iter().filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        Some(Response { status, headers, body, rest: String::new(), _sending: sending })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// The next piece of a body in chunks; `None` at its end, or if it is cut off.
    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut line = String::new();
        timeout(PATIENCE, self.body.read_line(&mut line)).await.expect("pml goes on").ok()?;
        let size = usize::from_str_radix(line.trim(), 16).ok()?;
        let mut bytes = vec![0; size + 2];
        self.body.read_exact(&mut bytes).await.ok()?;
        bytes.truncate(size);
        (size > 0).then_some(bytes)
    }

    pub(crate) async fn bytes(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.header("content-length").and_then(|size| size.parse().ok()) {
            Some(size) => {
                bytes.resize(size, 0);
                timeout(PATIENCE, self.body.read_exact(&mut bytes)).await.expect("the body comes").unwrap();
            }
            None => {
                while let Some(chunk) = self.chunk().await {
                    bytes.extend(chunk);
                }
            }
        }
        bytes
    }

    pub(crate) async fn json(self) -> Value {
        let bytes = self.bytes().await;
        serde_json::from_slice(&bytes).unwrap_or_else(|err| panic!("{err}: {}", String::from_utf8_lossy(&bytes)))
    }

    /// The next event of a stream: its name and its data.
    pub(crate) async fn event(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some((event, rest)) = self.rest.split_once("\n\n") {
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                let (name, data) = (field("event:").unwrap_or("message").to_owned(), field("data:").map(str::to_owned));
                self.rest = rest.to_owned();
                if let Some(data) = data {
                    return Some((name, serde_json::from_str(&data).unwrap_or_else(|err| panic!("{err}: {data}"))));
                }
            }
            let chunk = self.chunk().await?;
            self.rest.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The answer, whether it is a stream or not; `None` if it ends without one. The rest is passed over.
    pub(crate) async fn answer(self) -> Option<Value> {
        self.told().await.1
    }

    /// What was said before the answer, and the answer.
    pub(crate) async fn told(mut self) -> (Vec<Value>, Option<Value>) {
        if !self.is_stream() {
            return (Vec::new(), serde_json::from_slice(&self.bytes().await).ok());
        }
        let mut told = Vec::new();
        while let Some((_, message)) = self.event().await {
            if message.get("method").is_none() {
                return (told, Some(message));
            }
            told.push(message);
        }
        (told, None)
    }
}

/// A batch of all sorts, and what its answers are, in the order of their ids: each with a result or the code of an error.
pub(crate) fn batch() -> (String, Vec<(Value, Value)>) {
    let batch = r#"[
        {"jsonrpc":"2.0","id":1,"method":"ping"},
        {"jsonrpc":"2.0","method":"notifications/nonsense"},
        {"jsonrpc":"2.0","id":"two","method":"no/such/thing"},
        {"jsonrpc":"2.0","id":3,"method":"ping","params":{"x":"\ud800"}},
        {"jsonrpc":"2.0","id":"unasked","result":{}},
        {"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"2025-03-26"}},
        {"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"return 6 * 7"}}},
        []
    ]"#;
    let code = |code: i64| json!(code);
    let expected = vec![
        (json!("two"), code(-32601)),
        (json!(1), json!("result")),
        (json!(3), code(-32700)),
        (json!(4), code(-32600)),
        (json!(5), json!("result")),
        (json!(null), code(-32600)),
    ];
    (batch.replace('\n', " "), expected)
}

/// The answers of a batch, as [`batch`] has them.
pub(crate) fn answers(batch: &Value) -> Vec<(Value, Value)> {
    let answers = batch.as_array().unwrap_or_else(|| panic!("{batch}")).iter();
    let mut answers: Vec<_> = answers
        .map(|answer| {
            let result = answer.get("result").map(|_| json!("result"));
            (answer["id"].clone(), result.unwrap_or_else(|| answer["error"]["code"].clone()))
        })
        .collect();
    answers.sort_by_key(|(id, _)| id.to_string());
    answers
}

// ── Processes ──────────────────────────────────────────────────────────────────────────────────

pub(crate) fn send_signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

fn status_field(pid: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned())
}

/// All processes that a process has started, and those that they have started.
pub(crate) fn descendants(root: u32) -> Vec<u32> {
    let all: Vec<(u32, u32)> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| Some((pid, status_field(pid, "PPid:")?.parse().ok()?)))
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(all.iter().filter(|(_, its)| *its == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

/// Those of them that run programs.
pub(crate) fn workers(root: u32) -> Vec<u32> {
    let is_worker = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with("pml-worker"))
            && !is_gone(*pid)
    };
    descendants(root).into_iter().filter(is_worker).collect()
}

/// A process that is not there, or only its entry is.
fn is_gone(pid: u32) -> bool {
    status_field(pid, "State:").is_none_or(|state| state.starts_with(['Z', 'X']))
}

pub(crate) async fn all_gone(pids: &[u32]) {
    eventually(|| pids.iter().all(|pid| is_gone(*pid))).await;
}

/// Waits until something is so.
pub(crate) async fn eventually(mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("it comes to that");
}

/// Resident memory in bytes.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    let text = status_field(pid, "VmRSS:").expect("a process");
    text.split(' ').next().and_then(|number| number.parse::<u64>().ok()).expect("a number") * 1024
}
