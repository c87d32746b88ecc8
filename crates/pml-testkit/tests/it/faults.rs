//! The faults of `fixture-server` that do not need HTTP.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
};

use serde_json::{Value, json};

use super::peer::{Pipes, command};

fn names(list: &Value) -> Vec<String> {
    let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap_or("?").to_owned()).collect()
}

/// The code with which it ends, and what it says on stderr.
fn last_words(args: &[&str]) -> (Option<i32>, String) {
    let output = command(args).stdin(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn it_ends_as_told() {
    assert_eq!(last_words(&["--fault", "nonsense"]).0, Some(2));
    let (code, words) = last_words(&["--fault", "exit=9"]);
    assert!(code == Some(9) && words.lines().count() == 1, "{words}");
    let (code, words) = last_words(&["--fault", "stderr=30"]);
    assert!(code == Some(0) && words.lines().count() == 30, "{words}");

    let mut server = Pipes::legacy(&[]);
    server.send("tools/call", json!({"name": "crash", "arguments": {"code": 7}}));
    assert!(server.has_ended());
    assert_eq!(server.end().code(), Some(7));

    let mut server = Pipes::modern(&["--fault", "exit-after-init"]);
    assert!(server.ask("server/discover", json!({}))["result"].is_object());
    assert!(server.has_ended());

    let mut server = Pipes::modern(&["--fault", "crash-loop"]);
    assert!(server.ask("tools/list", json!({}))["result"].is_object());
    assert!(server.has_ended());

    let mut server = Pipes::modern(&["--fault", "die-after=2"]);
    server.call("then", json!({}));
    server.call("then", json!({}));
    assert!(server.has_ended());
}

#[test]
fn the_first_starts_can_fail() {
    let directory = std::env::temp_dir().join(format!("fixture-server-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let args = ["--fault", "fail-first=2", "--state", directory.to_str().unwrap()];
    let codes: Vec<_> = (0..3).map(|_| last_words(&args).0).collect();
    assert_eq!(codes, [Some(1), Some(1), Some(0)]);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn it_can_close_stdout_and_live() {
    let mut server = Pipes::legacy(&["--fault", "half-close"]);
    assert!(server.has_ended());
    assert!(server.child.try_wait().unwrap().is_none());
    assert!(server.end().success());
}

#[test]
fn it_can_ignore_the_end_of_stdin_and_a_signal() {
    let mut server = Pipes::legacy(&["--fault", "ignore-term"]);
    let pid = server.child.id().to_string();
    let killed = std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(killed.success());
    assert!(server.ask("ping", json!({}))["result"].is_object());
    drop(server.child.stdin.take());
    assert!(!server.ends_soon());
    assert!(server.child.try_wait().unwrap().is_none());
}

#[test]
fn it_ends_quietly_when_nobody_reads() {
    let mut child = command(&[]).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    // Not only once: a process that another test is starting may hold the pipe for a moment.
    while stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").is_ok() {
        std::thread::yield_now();
    }
    assert!(child.wait().unwrap().success());
    let mut words = String::new();
    child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    assert_eq!(words, "");
}

#[test]
fn it_can_flood_stderr() {
    let mut child = command(&["--fault", "stderr-flood"]).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    assert_eq!(stderr.lines().take(10_000).filter(Result::is_ok).count(), 10_000);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn it_can_be_silent() {
    let mut server = Pipes::start(&["--fault", "silent"]);
    server.send("initialize", json!({}));
    assert!(server.end().success());

    let mut server = Pipes::modern(&["--fault", "silent-discover"]);
    server.send("server/discover", json!({}));
    let answer = server.ask("tools/list", json!({}));
    assert_eq!(answer["id"], 2);

    let mut server = Pipes::modern(&["--fault", "lock-era"]);
    assert!(server.ask("server/discover", json!({}))["result"].is_object());
    server.write(
        &json!({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}),
    );
    assert_eq!(server.read()["error"]["code"], -32022);

    let mut server = Pipes::start(&["--fault", "garbage"]);
    server.send("initialize", json!({}));
    assert!(std::str::from_utf8(&server.read_line()).is_err());
}

#[test]
fn it_can_be_noisy() {
    let mut server = Pipes::modern(&["--fault", "noise"]);
    server.send("server/discover", json!({}));
    server.send("tools/list", json!({}));
    let mut messages = 0;
    let mut others = 0;
    while messages < 2 {
        let line = server.read_line();
        match serde_json::from_slice::<Value>(&line) {
            Ok(message) if message["result"].is_object() => messages += 1,
            _ => others += 1,
        }
    }
    assert_eq!(others, 10);
}

#[test]
fn lines_can_be_huge_or_without_end() {
    let mut server = Pipes::modern(&["--fault", "huge-line=1000000"]);
    server.send("tools/call", json!({"name": "then", "arguments": {}}));
    assert!(server.read_line().len() > 1_000_000);
    assert!(server.read()["result"].is_object());

    let mut child = command(&["--fault", "endless-line", "--era", "legacy"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})).unwrap();
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "then"}}))
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_until(b'\n', &mut Vec::new()).unwrap();
    let mut line = vec![0; 4 << 20];
    stdout.read_exact(&mut line).unwrap();
    assert!(!line.contains(&b'\n'));
    drop(stdout);
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_list_has_pages() {
    let mut server = Pipes::modern(&["--fault", "pages"]);
    let mut all = vec![];
    let mut params = json!({});
    loop {
        let list = server.ask("tools/list", params.take());
        assert!(names(&list).len() <= 2);
        all.extend(names(&list));
        match list["result"].get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    assert_eq!(all, names(&Pipes::modern(&[]).ask("tools/list", json!({}))));
    assert_eq!(server.ask("tools/list", json!({"cursor": "nonsense"}))["error"]["code"], -32602);

    let mut server = Pipes::modern(&["--fault", "endless-pages"]);
    let list = server.ask("tools/list", json!({"cursor": "from-1000"}));
    assert_eq!(names(&list), ["endless_001000", "endless_001001"]);
    assert_eq!(list["result"]["nextCursor"], "from-1002");

    let mut server = Pipes::modern(&["--fault", "same-cursor"]);
    assert_eq!(server.ask("tools/list", json!({"cursor": "again"}))["result"]["nextCursor"], "again");
}

#[test]
fn the_list_can_be_bad() {
    let good = names(&Pipes::modern(&[]).ask("tools/list", json!({})));
    let bad = names(&Pipes::modern(&["--fault", "bad-tools"]).ask("tools/list", json!({})));
    assert!(bad.len() > good.len() + 15);
    assert!(good.iter().all(|name| bad.contains(name)));
    let twins = names(&Pipes::modern(&["--fault", "duplicate-tools"]).ask("tools/list", json!({})));
    assert_eq!(twins.iter().filter(|name| *name == "echo").count(), 2);
    for (fault, code) in [("no-tools", -32601), ("list-error", -32603)] {
        assert_eq!(Pipes::modern(&["--fault", fault]).ask("tools/list", json!({}))["error"]["code"], code);
    }
    let bare = Pipes::modern(&["--fault", "no-ttl"]).ask("tools/list", json!({}));
    assert!(bare["result"]["ttlMs"].is_null() && bare["result"]["resultType"].is_null());
    assert_eq!(Pipes::modern(&["--fault", "ttl=5000"]).ask("tools/list", json!({}))["result"]["ttlMs"], 5000);
    let refused = Pipes::modern(&["--fault", "no-listen"]).ask("subscriptions/listen", json!({}));
    assert_eq!(refused["error"]["code"], -32601);
}
