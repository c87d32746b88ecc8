//! The audit log keeps its word: through crashes, full disks, floods, and against those who change it.

use std::{fs, io::Write as _, process::Stdio};

use pml_testkit::Fixture;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    cli::{stderr, stdout},
    peer::{Era, Home, eventually},
};

const ECHO: [&str; 3] = ["run", "-e", "return await mcp.fix.echo({ text: 'x' })"];

fn log(home: &Home) -> std::path::PathBuf {
    home.path().join(".local/share/pml/audit.jsonl")
}

fn rows(home: &Home, args: &[&str]) -> Vec<Value> {
    let output = home.pml(&[&["audit", "--json"], args].concat());
    assert!(output.status.success(), "{output:?}");
    stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn is_whole(home: &Home) -> bool {
    let output = home.pml(&["audit", "verify"]);
    assert_eq!(stderr(&output), "", "{output:?}");
    match output.status.code() {
        Some(0) => true,
        Some(1) => {
            assert!(stdout(&output).contains("FAILED"), "{output:?}");
            false
        }
        _ => panic!("{output:?}"),
    }
}

fn of<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

#[tokio::test]
async fn what_a_server_has_heard_of_is_in_the_log_after_kill_9() {
    let server = Fixture::start(&["--era", "modern", "--transport", "http"]);
    let home = Home::new(&format!("[servers.fix]\nurl = {:?}\n", server.url));
    let mut peer = home.connected(Era::Legacy).await;
    peer.value("return await mcp.fix.echo({ text: 'connected' })").await;
    let code = "for (;;) await Promise.all(Array.from({ length: 5 }, () => mcp.fix.echo({ text: 'x' })))";
    for _ in 0..8 {
        peer.ask("tools/call", json!({"name": "execute_code", "arguments": {"code": code}})).await;
    }
    let hangs = "await mcp.fix.hang({})";
    peer.ask("tools/call", json!({"name": "execute_code", "arguments": {"code": hangs}})).await;
    let has_many = || fs::read_to_string(log(&home)).unwrap_or_default().lines().count() > 300;
    eventually(has_many).await;
    peer.signal(Signal::KILL);
    peer.wait().await;
    let lines = home.audit_lines();
    let (started, ended) = (of(&lines, "call.started"), of(&lines, "call.ended"));
    // The server lives on, and says how many calls it has seen, the one that asks among them.
    let counted = home.pml(&["run", "-e", "return (await mcp.fix.counters({})).calls"]);
    let seen = stdout(&counted).trim().parse::<usize>().unwrap_or_else(|_| panic!("{counted:?}")) - 1;
    assert!(seen > 100 && seen <= started.len(), "the server saw {seen} calls, the log {}", started.len());
    assert!(ended.len() < started.len());
    let ids = |lines: &[&Value]| -> Vec<_> {
        lines.iter().map(|line| (line["execution_id"].to_string(), line["call"].as_u64())).collect()
    };
    let started = ids(&started);
    assert!(ids(&ended).iter().all(|id| started.contains(id)), "an end has a start");
    let unfinished = rows(&home, &["--unfinished"]);
    assert_eq!(unfinished.len(), started.len() - ended.len());
    assert!(unfinished.iter().any(|row| row["tool"] == "fix:hang" && row["outcome"] == "no end"), "{unfinished:?}");
    assert!(is_whole(&home));
}

#[test]
fn a_torn_line_is_marked_and_swallows_nothing() {
    let home = Home::with_fixture("");
    home.pml(&ECHO);
    let mut file = fs::OpenOptions::new().append(true).open(log(&home)).unwrap();
    file.write_all(br#"{"ts":1,"event":"call.st"#).unwrap();
    home.pml(&ECHO);
    let text = fs::read_to_string(log(&home)).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    let events: Vec<_> = lines
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).map_or(Value::Null, |it| it["event"].clone()))
        .collect();
    let expected = ["call.started", "call.ended", "", "log.repaired", "call.started", "call.ended"];
    let expected = expected.map(|event| if event.is_empty() { Value::Null } else { json!(event) });
    assert_eq!(events, expected);
    assert!(is_whole(&home), "{text}");
    assert!(stdout(&home.pml(&["audit", "verify"])).contains("1 lines were cut off"));
}

#[test]
fn a_full_disk_leaves_whole_lines_and_says_what_was_lost() {
    let home = Home::with_fixture("");
    home.pml(&ECHO);
    let before = fs::metadata(log(&home)).unwrap().len();
    // No file may grow beyond so many blocks of 512 bytes: a write is cut off there, as by a disk that is full.
    let program = "for (let i = 0; i < 20; i++) await mcp.fix.echo({ text: 'x' }); return 'done'";
    let blocks = (before + 3000) / 512;
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut shell = home.command("bash").into_std();
    let output = shell.args(["-c", &script, env!("CARGO_BIN_EXE_pml"), "run", "-e", program]).output().unwrap();
    assert_eq!(stdout(&output).trim(), "done", "{output:?}");
    assert!(stderr(&output).contains("the audit log cannot be written"), "{output:?}");
    assert!(stderr(&output).contains("lines of the audit log were lost"), "{output:?}");
    let lines = home.audit_lines();
    assert!(lines.len() > 4 && lines.len() < 42, "{}", lines.len());
    home.pml(&ECHO);
    assert_eq!(home.audit_lines().len(), lines.len() + 2);
    assert!(is_whole(&home));
}

#[test]
fn a_flood_of_refused_calls_and_searches_is_counted_and_drives_nothing_out() {
    let home = Home::with_fixture("[policy]\ndeny = [\"fix:add\"]\n[limits]\ncalls = 2000\n");
    home.pml(&ECHO);
    let program = r#"import { callTool, searchTools } from "pml";
        const all = (length, make) => Promise.all(Array.from({ length }, make));
        await all(600, () => callTool("fix:add", { a: 1, b: 2 }));
        await all(600, () => callTool("fix:nothing", {}));
        await all(600, () => searchTools("echo", 1));
        return 'done'"#;
    for _ in 0..2 {
        let output = home.pml(&["run", "-e", program]);
        assert_eq!(stdout(&output).trim(), "done", "{output:?}");
    }
    let lines = home.audit_lines();
    assert!(lines.len() < 2 + 2 * 3 * 65, "{} lines", lines.len());
    let counted = |of_event: &str, code: Value| -> u64 {
        let full = lines.iter().filter(|line| line["event"] == of_event && line["code"] == code).count() as u64;
        let collapsed = of(&lines, "calls.collapsed").into_iter();
        let collapsed = collapsed.filter(|line| line["of"] == of_event && line["code"] == code);
        full + collapsed.map(|line| line["count"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(counted("call.refused", json!("POLICY_DENIED")), 1200);
    assert_eq!(counted("call.refused", json!("TOOL_NOT_FOUND")), 1200);
    assert_eq!(counted("search", Value::Null), 1200);
    assert_eq!(of(&lines, "call.ended").len(), 1, "what was there before");
    let denied = rows(&home, &["--denied"]);
    let total: u64 = denied.iter().map(|row| row["count"].as_u64().unwrap_or(1)).sum();
    assert_eq!(total, 1200);
    assert!(is_whole(&home));
}

#[tokio::test]
async fn searches_of_programs_and_clients_leave_lines() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Modern).await;
    peer.value("import { searchTools } from 'pml'; return (await searchTools('echo', 1)).length").await;
    peer.call("search_tools", json!({"query": "echo"})).await;
    peer.end().await;
    let lines = home.audit_lines();
    let searches = of(&lines, "search");
    assert_eq!(searches.len(), 2, "{lines:?}");
    for line in searches {
        assert_eq!((&line["tool"], &line["success"]), (&json!("pml:search"), &json!(true)), "{line}");
        assert!(line["duration_ms"].is_number() && !line.to_string().contains("echo"), "{line}");
    }
}

#[test]
fn two_processes_write_one_chain() {
    let home = Home::with_fixture("");
    let program = "for (let i = 0; i < 150; i++) await mcp.fix.echo({ text: 'x' }); return 'done'";
    let spawn = || {
        let mut command = home.command(env!("CARGO_BIN_EXE_pml")).into_std();
        command.args(["run", "-e", program]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children = [spawn(), spawn(), spawn()];
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(stdout(&output).trim(), "done", "{output:?}");
    }
    let lines = home.audit_lines();
    assert_eq!(lines.len(), 900);
    let seqs: Vec<_> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=900).collect::<Vec<_>>());
    assert!(is_whole(&home));
}

#[test]
fn whoever_changes_the_log_is_found_out() {
    let home = Home::with_fixture("");
    for _ in 0..3 {
        home.pml(&ECHO);
    }
    let text = fs::read_to_string(log(&home)).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let end = stdout(&home.pml(&["audit", "verify"]));
    let end = end.lines().find_map(|line| line.strip_prefix("end")).unwrap().trim();
    assert!(is_whole(&home));
    let with = |lines: &[&str]| fs::write(log(&home), lines.join("\n") + "\n").unwrap();
    let edited = lines[2].replace("fix:echo", "fix:fail");
    let all = &lines[..];
    for (what, changed) in [
        ("removed", [&all[..2], &all[3..]].concat()),
        ("edited", [&all[..2], &[&*edited], &all[3..]].concat()),
        ("moved", [&all[..2], &[all[3], all[2]], &all[4..]].concat()),
        ("cut off", all[..4].to_vec()),
        ("added", [all, &["{\"ts\":1}"]].concat()),
    ] {
        with(&changed);
        assert!(!is_whole(&home), "{what}");
    }
    with(all);
    assert!(is_whole(&home));
    // What pml remembers of the end can be changed as well, but not what was kept elsewhere.
    with(&lines[..4]);
    let head = home.path().join(".local/share/pml/audit.head");
    fs::write(&head, "").unwrap();
    assert!(!is_whole(&home), "without the head, nobody knows where the log ends");
    let hash = all[3].rsplit('"').nth(1).unwrap();
    fs::write(&head, format!("4:{hash}")).unwrap();
    assert!(is_whole(&home));
    let output = home.pml(&["audit", "verify", "--expect", end]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stdout(&output).contains("ends with line 4, but line 6 was written"), "{output:?}");
    let output = home.pml(&["audit", "verify", "--expect", "7"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn calls_are_listed_by_what_they_were() {
    let home = Home::with_fixture("[policy]\ndeny = [\"fix:add\"]\n");
    let program = "import { callTool } from 'pml'; await mcp.fix.echo({ text: 'x' }); await callTool('fix:add', {}); \
        await callTool('fix:fail', { message: 'no' }); return 1";
    let outcome: Value = serde_json::from_str(&stdout(&home.pml(&["run", "--json", "-e", program]))).unwrap();
    home.pml(&ECHO);
    let short = |rows: Vec<Value>| -> Vec<String> {
        rows.iter()
            .map(|row| format!("{} {}", row["outcome"].as_str().unwrap(), row["tool"].as_str().unwrap()))
            .collect()
    };
    let execution = outcome["execution_id"].as_str().unwrap();
    assert_eq!(short(rows(&home, &["--execution", execution])), ["ok fix:echo", "denied fix:add", "failed fix:fail"]);
    assert_eq!(short(rows(&home, &["--tool", "*:f*"])), ["failed fix:fail"]);
    assert_eq!(short(rows(&home, &["--denied"])), ["denied fix:add"]);
    assert_eq!(short(rows(&home, &["--since", "1h", "--limit", "1"])), ["ok fix:echo"]);
    assert_eq!(rows(&home, &["--since", "2099-01-01"]).len(), 0);
    let text = stdout(&home.pml(&["audit"]));
    assert_eq!(text.lines().count(), 4, "{text}");
    let denied = text.lines().nth(1).unwrap();
    assert!(denied.contains("denied") && denied.contains("POLICY_DENIED  (deny fix:add)  cli  "), "{text}");
    let output = home.pml(&["audit", "--since", "whenever"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(rows(&Home::empty(), &[]).len(), 0, "no log is an empty one");
}

#[test]
fn a_limit_of_the_size_of_files_is_a_full_disk() {
    let home = Home::with_fixture("");
    let program = "ulimit -f 0; exec \"$0\" run -e \"return await mcp.fix.echo({ text: 'x' })\"";
    let mut command = home.command("sh").into_std();
    let output = command.args(["-c", program, env!("CARGO_BIN_EXE_pml")]).output().unwrap();
    assert_eq!((output.status.code(), &*stdout(&output)), (Some(0), "x\n"), "{output:?}");
}
