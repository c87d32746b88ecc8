//! A worker that was taken over. The "code" it is sent names what it does.
//!
//! Frames are written by hand: the host must not be tested against its own codec.

use std::{
    env,
    io::{self, Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    process::ExitCode,
    thread,
    time::Duration,
};

const RPC_CALL: u8 = 17;
const LOG: u8 = 18;
const VALUE: u8 = 21;
const COMPLETE: u8 = 22;
const ASK: u8 = 25;
const WAITING: u8 = 26;
const AWAKE: u8 = 27;
const LINE: u8 = 31;

fn frame(kind: u8, id: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("short");
    [&length.to_le_bytes()[..], &[kind], &id.to_le_bytes(), body].concat()
}

/// The body of the next frame from the host.
fn answer(socket: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut header = [0; 9];
    socket.read_exact(&mut header)?;
    let mut body = vec![0; u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize];
    socket.read_exact(&mut body)?;
    Ok(body)
}

fn main() -> ExitCode {
    let name = env::current_exe().unwrap_or_default().to_string_lossy().into_owned();
    match play(&name) {
        Ok(code) => ExitCode::from(code),
        Err(_) => ExitCode::SUCCESS, // the host has hung up, as it should
    }
}

fn play(name: &str) -> io::Result<u8> {
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(false)?;
    if name.contains("mute-worker") {
        return Ok(7);
    }
    let version = if name.contains("old-worker") { 0 } else { 1 };
    let seccomp = if name.contains("weak-worker") {
        r#""enforced":false,"detail":"switched off""#
    } else {
        r#""enforced":true,"detail":"""#
    };
    let ready = format!(r#"{{"version":{version},"hardening":[{{"layer":"seccomp",{seccomp}}}]}}"#);
    socket.write_all(&frame(16, 0, ready.as_bytes()))?;

    let body = answer(&mut socket)?;
    let body = String::from_utf8_lossy(&body).into_owned();
    let does = |behaviour: &str| body.contains(&format!(r#""code":"{behaviour}""#));

    let call = |id| frame(RPC_CALL, id, br#"{"target":"test:echo","args":{}}"#);
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let table: [(&str, Vec<u8>); 19] = [
        ("unknown-kind", frame(99, 0, b"{}")),
        ("huge-length", [&u32::MAX.to_le_bytes()[..], &[LOG, 0, 0, 0, 0]].concat()),
        ("garbage", (0..5000_u32).flat_map(u32::to_be_bytes).collect()),
        ("host-kind", frame(2, 1, b"1")),
        ("second-ready", frame(16, 0, ready.as_bytes())),
        ("bad-json", frame(LOG, 0, b"{\"level\":")),
        ("bad-value", frame(VALUE, 0, b"[1,")),
        ("deep-value", frame(VALUE, 0, deep.as_bytes())),
        ("deep-arguments", frame(RPC_CALL, 1, format!(r#"{{"target":"test:echo","args":{deep}}}"#).as_bytes())),
        ("id-zero", call(0)),
        ("id-twice", [call(1), call(1)].concat()),
        ("id-ahead", call(u32::MAX)),
        ("bad-search", frame(ASK, 1, b"{\"search\":{\"query\":[\"x\"]}}")),
        ("large-search", frame(ASK, 1, format!(r#"{{"search":{{"query":"{}"}}}}"#, "x".repeat(1 << 20)).as_bytes())),
        ("search-out-of-turn", frame(ASK, 2, b"{\"search\":{\"query\":\"x\"}}")),
        ("names-twice", [frame(20, 0, b""), frame(20, 0, b"")].concat()),
        ("large-value", frame(VALUE, 0, format!("\"{}\"", "x".repeat(8 << 20)).as_bytes())),
        ("complete-without-value", frame(COMPLETE, 0, b"{}")),
        ("half-frame", frame(LOG, 0, b"{}")[..10].to_vec()),
    ];
    for (behaviour, bytes) in table {
        if does(behaviour) {
            socket.write_all(&bytes)?;
            if behaviour != "half-frame" {
                thread::sleep(Duration::from_secs(60));
            }
            return Ok(0);
        }
    }
    if does("exit-with-words") {
        writeln!(io::stderr(), "these are last words")?;
        return Ok(3);
    }
    if does("silence") {
        thread::sleep(Duration::from_secs(60));
    }
    if does("close-but-stay") {
        socket.shutdown(std::net::Shutdown::Both)?;
        thread::sleep(Duration::from_secs(60));
    }
    if does("slow-bytes") {
        for byte in frame(LOG, 0, &[b' '; 10_000]) {
            socket.write_all(&[byte])?;
            thread::sleep(Duration::from_millis(5));
        }
    }
    if does("flood-logs") {
        // In large pieces, so that the host never finds the socket empty.
        let log = frame(LOG, 0, br#"{"level":"log","text":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#);
        let flood = log.repeat(20_000);
        loop {
            socket.write_all(&flood)?;
        }
    }
    if does("last-words") {
        // More than the host reads at once, then an answer, then gone, with a call unanswered.
        let log = frame(LOG, 0, br#"{"level":"log","text":"x"}"#).repeat(5000);
        let words = frame(COMPLETE, 0, br#"{"error":{"code":"MEMORY_LIMIT","message":"words"}}"#);
        socket.write_all(&[call(1), log, words].concat())?;
    }
    if does("die-unread") {
        // So many arguments wait that the host stops reading; then gone, with an answer unread.
        socket.write_all(&call(1))?;
        for id in 2..=33 {
            socket.write_all(&frame(RPC_CALL, id, br#"{"target":"test:hang","args":{}}"#))?;
        }
        let args = format!(r#"{{"target":"test:echo","args":{{"a":"{}"}}}}"#, "x".repeat(8 << 20));
        for id in 34..=40 {
            socket.set_write_timeout(Some(Duration::from_millis(100)))?;
            if socket.write_all(&frame(RPC_CALL, id, args.as_bytes())).is_err() {
                break;
            }
        }
    }
    if does("pretend-to-wait") || does("wait-for-nothing") {
        if does("pretend-to-wait") {
            socket.write_all(&frame(RPC_CALL, 1, br#"{"target":"test:hang","args":{}}"#))?;
        }
        // Again and again, and it never stops by itself.
        loop {
            socket.write_all(&[frame(WAITING, 0, b""), frame(AWAKE, 0, b""), frame(WAITING, 0, b"")].concat())?;
            thread::sleep(Duration::from_millis(10));
        }
    }
    if does("flood-calls") {
        for id in 1.. {
            socket.write_all(&call(id))?;
        }
    }
    if does("flood-searches") {
        for id in 1.. {
            socket.write_all(&frame(ASK, id, b"{\"search\":{\"query\":\"x\"}}"))?;
        }
    }
    if does("smuggle-call") {
        let params = r#"{"name":"count","arguments":{"key":"smuggled"}}"#;
        let message = format!(r#"{{"jsonrpc":"2.0","id":999999,"method":"tools/call","params":{params}}}"#);
        let args = format!("{{\"target\":\"fix:any\",\"args\":{{\"value\":[\r\n{message}\r\n]}}}}");
        socket.write_all(&frame(RPC_CALL, 1, args.as_bytes()))?;
        answer(&mut socket)?;
        socket.write_all(&frame(RPC_CALL, 2, br#"{"target":"fix:count","args":{"key":"smuggled"}}"#))?;
        let counted = answer(&mut socket)?;
        socket.write_all(&[frame(VALUE, 0, &counted), frame(COMPLETE, 0, b"{}")].concat())?;
        thread::sleep(Duration::from_secs(60));
    }
    if does("odd-lines") {
        for (id, line) in (1..).zip([u32::MAX, 1, 2, 0]) {
            let call = frame(RPC_CALL, id, br#"{"target":"fix:echo","args":{"text":"x"}}"#);
            socket.write_all(&[frame(LINE, line, b""), call].concat())?;
            answer(&mut socket)?;
        }
        socket.write_all(&[frame(VALUE, 0, b"1"), frame(COMPLETE, 0, b"{}")].concat())?;
        thread::sleep(Duration::from_secs(60));
    }
    if does("many-decisions") {
        let decision = r#"{"nodeId":"d1","outcome":"true","condition":"x"}"#;
        let complete = format!(r#"{{"decisions":[{}]}}"#, vec![decision; 5000].join(","));
        socket.write_all(&[frame(VALUE, 0, b"1"), frame(COMPLETE, 0, complete.as_bytes())].concat())?;
        thread::sleep(Duration::from_secs(60));
    }
    Ok(0)
}
