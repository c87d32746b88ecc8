//! Ten calls through a relay that does nothing: what a gateway costs before it has checked, recorded or run anything.
//!
//! Three threads take turns as pml's processes do: a client, a relay, and a program that makes the calls. They only pass lines on.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::Instant,
};

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;

const OVER: &str = "over\n";
/// What answers have, and nothing else that the server says.
const ANSWER: &[u8] = b"\"result\"";

/// A published server behind a relay.
pub(crate) struct Relay {
    client: UnixStream,
    server: Child,
}

impl Relay {
    pub(crate) fn start(server: &Path) -> Relay {
        let mut server = Command::new("node")
            .arg(server)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("node starts");
        let (mut input, output) = (server.stdin.take().expect("piped"), server.stdout.take().expect("piped"));
        let mut output = BufReader::new(output);
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "relay", "version": "1" } });
        let begin = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        writeln!(input, "{begin}").expect("a pipe");
        output.read_line(&mut String::new()).expect("a pipe");
        writeln!(input, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#).expect("a pipe");
        // What the server says about its lists comes now.
        thread::sleep(std::time::Duration::from_secs(1));
        let (client, from_client) = UnixStream::pair().expect("a pair");
        let (program, from_program) = UnixStream::pair().expect("a pair");
        thread::spawn(move || make_calls(program));
        thread::spawn(move || pass_on(from_client, from_program, input, output.into_inner()));
        Relay { client, server }
    }

    /// Milliseconds.
    pub(crate) fn ten_calls(&mut self) -> f64 {
        let started = Instant::now();
        self.client.write_all(b"begin\n").expect("the relay runs");
        assert_eq!(line(&mut self.client), OVER.as_bytes());
        started.elapsed().as_secs_f64() * 1e3
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// One line, of which nobody sends a second before it is answered. Empty at the end.
fn line(from: &mut impl Read) -> Vec<u8> {
    let mut text = vec![0; 64 * 1024];
    let mut length = 0;
    while text[..length].last() != Some(&b'\n') {
        match from.read(&mut text[length..]) {
            Ok(0) | Err(_) => return Vec::new(),
            Ok(read) => length += read,
        }
    }
    text.truncate(length);
    text
}

fn make_calls(mut relay: UnixStream) {
    let params = json!({ "name": "echo", "arguments": { "message": "hello" } });
    let call = format!("{}\n", json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }));
    while !line(&mut relay).is_empty() {
        for _ in 0..10 {
            relay.write_all(call.as_bytes()).expect("the relay runs");
            line(&mut relay);
        }
        relay.write_all(OVER.as_bytes()).expect("the relay runs");
    }
}

fn pass_on(mut client: UnixStream, mut program: UnixStream, mut input: ChildStdin, mut output: ChildStdout) {
    loop {
        let ready = {
            let mut ends = [client.as_fd(), program.as_fd(), output.as_fd()]
                .map(|end| PollFd::from_borrowed_fd(end, PollFlags::IN));
            poll(&mut ends, None).expect("a poll");
            ends.map(|end| !end.revents().is_empty())
        };
        if ready[0] {
            let text = line(&mut client);
            if text.is_empty() {
                return;
            }
            program.write_all(&text).expect("a program");
        }
        if ready[1] {
            let text = line(&mut program);
            let sent = if text == OVER.as_bytes() { client.write_all(&text) } else { input.write_all(&text) };
            if sent.is_err() {
                return;
            }
        }
        if ready[2] {
            let text = line(&mut output);
            if text.is_empty() {
                return;
            }
            // The server also says something of its lists when it likes.
            if text.windows(ANSWER.len()).any(|part| part == ANSWER) {
                program.write_all(&text).expect("a program");
            }
        }
    }
}
