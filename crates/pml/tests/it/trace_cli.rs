//! What `pml trace` shows, by the real binary on a real store.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Output, Stdio},
};

use pml::trace::store::{Commit, Options, RawStore};
use pml_wire::{ExecutionId, trace::Trace};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    cli::{stderr, stdout},
    peer::{Home, send_signal},
};

fn folder(home: &Home) -> PathBuf {
    home.path().join(".local/share/pml/traces")
}

/// Puts traces where the gateway would. Only the sanitizer can make what the store takes, but a raw store has the same
/// tables.
pub(crate) fn put(home: &Home, traces: &[Value]) {
    let elsewhere = tempfile::tempdir().unwrap();
    let store = RawStore::open(elsewhere.path(), Options::default());
    for trace in traces {
        let trace: Trace = serde_json::from_value(trace.clone()).unwrap();
        assert_eq!(store.submit(trace).blocking_outcome(), Some(Commit::Stored));
    }
    drop(store);
    fs::create_dir_all(folder(home)).unwrap();
    // The log first, so that nobody sees a database without it.
    for end in ["-wal", ""] {
        let from = elsewhere.path().join(format!("traces/raw.db{end}"));
        if from.exists() {
            let partial = folder(home).join("partial");
            fs::copy(from, &partial).unwrap();
            fs::rename(partial, folder(home).join(format!("traces.db{end}"))).unwrap();
        }
    }
}

fn now() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64
}

/// An execution that began so many milliseconds ago: two calls at once, then one that failed.
fn trace(ago: u64, intent: &str) -> Value {
    let began = now() - ago;
    json!({
        "traceId": ExecutionId::mint(), "entry": "execute_code", "intent": intent, "caller": "stdio",
        "client": {"name": "claude-code", "version": "2.1"}, "success": false, "errorCode": "EXCEPTION",
        "errorMessage": "Error: no such address", "durationMs": 400.0, "timestamp": began,
        "code": "const [a, b] = await Promise.all([\n  mcp.github.list_issues({}), mcp.github.list_pulls({})])\nreturn 1",
        "codeHash": "00".repeat(32), "args": {"repo": "x"},
        "logs": [{"level": "log", "text": "found\u{1b}[31m 3"}],
        "taskResults": [
            {"taskId": "t1", "callId": 1, "tool": "github:list_issues", "success": true, "timestamp": began, "durationMs": 100.0,
             "result": "r".repeat(8000), "layerIndex": 1, "line": 2},
            {"taskId": "t2", "callId": 2, "tool": "github:list_pulls", "success": true, "acceptedAt": began,
             "timestamp": began + 50, "durationMs": 100.0, "layerIndex": 1, "line": 2},
            {"taskId": "t3", "callId": 3, "tool": "mail:send", "success": false, "timestamp": began + 300, "durationMs": 100.0,
             "layerIndex": 2, "line": 3, "error": {"code": "TOOL_ERROR", "message": "no such address"}},
        ],
        "metadata": {"pmlVersion": "0.1.0", "schemaVersion": 1},
    })
}

fn id(trace: &Value) -> String {
    trace["traceId"].as_str().unwrap().to_owned()
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    stdout(output)
}

fn parsed(output: &Output) -> Value {
    serde_json::from_str(&succeeded(output)).unwrap()
}

#[test]
fn what_an_agent_did_today_is_one_command() {
    let home = Home::empty();
    let (old, new) = (trace(90_000_000, "older work"), trace(5000, "mail the open\u{202e} issues"));
    put(&home, &[old.clone(), new.clone()]);
    let text = succeeded(&home.pml(&["trace", "list", "--since", "1h"]));
    assert_eq!(text.lines().count(), 2, "{text}");
    let line = text.lines().nth(1).unwrap();
    assert!(line.starts_with(&id(&new)[..18]), "{line}");
    assert!(line.contains("  failed       claude-code         3  [EXCEPTION] mail the open\\u{202e} issues"), "{line}");
    assert!(line.ends_with("(github:list_issues, github:list_pulls, mail:send)"), "{line}");
    let ids = |args: &[&str]| {
        let listed = parsed(&home.pml(&[&["trace", "list", "--json"], args].concat()));
        listed["traces"].as_array().unwrap().iter().map(id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), [id(&new), id(&old)]);
    assert_eq!(ids(&["--intent", "OLDER"]), [id(&old)]);
    assert_eq!(ids(&["--tool", "mail:*", "--failed", "--client", "Claude", "--limit", "1"]), [id(&new)]);
    assert!(ids(&["--tool", "slack:*"]).is_empty());
    let output = home.pml(&["trace", "list", "--limit", "1"]);
    assert!(stderr(&output).contains("there are more"), "{output:?}");
}

#[test]
fn an_execution_is_shown_as_a_waterfall() {
    let home = Home::empty();
    let (first, last) = (trace(5000, "first"), trace(4000, "second"));
    put(&home, &[first.clone(), last.clone()]);
    let text = succeeded(&home.pml(&["trace", "show", "last", "--code"]));
    let lines: Vec<_> = text.lines().collect();
    for expected in [
        "state    failed after 400.0 ms",
        "what     a program, by execute_code",
        "client   claude-code 2.1, as stdio",
        "intent   second",
        "error    [EXCEPTION] Error: no such address",
        "t1  |###########                             |  100.0 ms  L2    github:list_issues",
        "t2  |.....###########                        |  100.0 ms  L2    github:list_pulls  waited 50.0 ms",
        "t3  |                              #########!|  100.0 ms  L3    mail:send  TOOL_ERROR: no such address",
        "  log    found\\u{1b}[31m 3",
        "    3  return 1",
    ] {
        assert!(lines.contains(&expected), "{expected:?} is missing in\n{text}");
    }
    assert_eq!(parsed(&home.pml(&["trace", "show", &id(&first), "--json"]))["intent"], "first");
    // Minted in a row, ids differ late: all but the last digit is enough.
    let start = &id(&first)[..35];
    let output = home.pml(&["trace", "show", start]);
    assert!(succeeded(&output).contains("intent   first"), "{output:?}");
    let output = home.pml(&["trace", "show", "ffff"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("error[TRACE_NOT_FOUND]"), "{output:?}");
    let output = home.pml(&["trace", "show", &id(&first)[..6]]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stderr(&output).contains(&id(&last)), "{output:?}");
}

#[test]
fn traces_are_counted_exported_and_deleted() {
    let home = Home::empty();
    let traces: Vec<_> = (0..3).map(|number| trace(100_000 * (number + 1), "work")).collect();
    put(&home, &traces);
    let text = succeeded(&home.pml(&["trace", "stats"]));
    assert!(text.starts_with("3 traces, 3 failed (0 interrupted), from "), "{text}");
    assert!(text.contains("about 6001 tokens"), "{text}");
    let row = text.lines().find(|line| line.starts_with("mail:send")).unwrap();
    assert_eq!(
        row.split_whitespace().collect::<Vec<_>>(),
        ["mail:send", "3", "3", "100.0", "ms", "100.0", "ms", "0", "B"]
    );
    let stats = parsed(&home.pml(&["trace", "stats", "--json", "--tool", "github:*"]));
    assert_eq!((&stats["tools"][0]["calls"], &stats["store"]["state"]), (&json!(3), &json!("ready")));

    let lines = |args: &[&str]| {
        let text = succeeded(&home.pml(&[&["trace", "export"], args].concat()));
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    let exported = lines(&[]);
    let whole = |trace: &Value| serde_json::to_value(serde_json::from_value::<Trace>(trace.clone()).unwrap()).unwrap();
    assert_eq!(exported, traces.iter().map(whole).collect::<Vec<_>>());
    let spans = &lines(&["--format", "otlp-json"])[0]["resourceSpans"][0]["scopeSpans"][0]["spans"];
    assert_eq!((spans.as_array().unwrap().len(), &spans[3]["name"]), (4, &json!("tools/call mail:send")));

    assert_eq!(succeeded(&home.pml(&["trace", "delete", &id(&traces[0])])), "1 trace deleted\n");
    assert_eq!(succeeded(&home.pml(&["trace", "delete", "--before", "250s"])), "1 trace deleted\n");
    assert_eq!(succeeded(&home.pml(&["trace", "delete", "--all"])), "1 trace deleted\n");
    assert_eq!(parsed(&home.pml(&["trace", "list", "--json"]))["traces"], json!([]));
    let output = home.pml(&["trace", "delete"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn followers_see_what_is_stored() {
    let home = Home::empty();
    let mut command = home.command(env!("CARGO_BIN_EXE_pml")).into_std();
    let mut child = command.args(["trace", "list", "--follow", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let new = trace(0, "new");
    put(&home, std::slice::from_ref(&new));
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(id(&serde_json::from_str(&line).unwrap()), id(&new));
    send_signal(child.id(), Signal::TERM);
    child.wait().unwrap();
}

#[test]
fn mistakes_and_emptiness_are_told() {
    let home = Home::empty();
    let output = home.pml(&["trace", "list"]);
    assert!(output.status.success() && stderr(&output).starts_with("no traces yet"), "{output:?}");
    assert!(!folder(&home).exists(), "looking makes no files");
    assert_eq!(parsed(&home.pml(&["trace", "stats", "--json"]))["traces"], 0);
    let output = home.pml(&["trace", "show", "last"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let output = home.pml(&["trace", "list", "--since", "tomorrowish"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("`tomorrowish` is no moment for --since\nhint: write 30m"), "{output:?}");
    // A project has no say in what is kept.
    let own = "[trace]\nkeep_days = 0\n";
    home.configure(own);
    let output = home.pml(&["trace", "list"]);
    assert!(stderr(&output).contains("`trace.keep_days` is 0, but must be between 1 and 3650"), "{output:?}");
}

#[test]
fn a_damaged_store_is_told_and_replaced() {
    let home = Home::empty();
    put(&home, &[trace(0, "work")]);
    let _ = fs::remove_file(folder(&home).join("traces.db-wal"));
    fs::write(folder(&home).join("traces.db"), [0xab; 9000]).unwrap();
    let output = home.pml(&["trace", "list"]);
    assert!(output.status.success(), "{output:?}");
    assert!(stderr(&output).contains("the trace store is damaged; it is kept as"), "{output:?}");
    let output = home.pml(&["doctor", "traces"]);
    let text = stdout(&output);
    assert!(output.status.success() && text.contains("a damaged store is kept as"), "{output:?}");
    fs::remove_file(folder(&home).join("traces.db")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", folder(&home).join("traces.db")).unwrap();
    let output = home.pml(&["doctor", "traces"]);
    assert!(!output.status.success() && stdout(&output).contains("is a symbolic link"), "{output:?}");
}

#[test]
fn a_disk_that_takes_no_more_is_told() {
    let home = Home::empty();
    put(&home, &[trace(0, "work")]);
    // No file may grow beyond 200 KB, as on a disk that is full. The database is smaller.
    let mut shell = home.command("bash").into_std();
    let script = "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\"";
    let output = shell.args(["-c", script, env!("CARGO_BIN_EXE_pml"), "doctor", "traces"]).output().unwrap();
    assert!(!output.status.success() && stdout(&output).contains("FAILED"), "{output:?}");
    assert!(stdout(&output).contains("File too large"), "{output:?}");
    assert!(home.pml(&["doctor", "traces"]).status.success());
}

#[test]
fn ids_in_a_list_lead_to_one_trace_each_also_of_one_millisecond() {
    let home = Home::empty();
    let mut traces: Vec<_> = (0..6).map(|number| trace(1000, &format!("number {number}"))).collect();
    traces[5]["caller"] = json!("nightly");
    put(&home, &traces);
    let text = succeeded(&home.pml(&["trace", "list"]));
    let shown: Vec<_> = text.lines().skip(1).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(shown.len(), 6);
    for short in shown {
        let found = parsed(&home.pml(&["trace", "show", short, "--json"]));
        assert!(id(&found).starts_with(short), "{short}");
    }
    assert!(text.lines().any(|line| line.contains("nightly") && line.contains("number 5")), "{text}");
    assert_eq!(text.matches("claude-code").count(), 5, "the name of a token counts before that of the client: {text}");
    let several = home.pml(&["trace", "show", &id(&traces[0])[..8]]);
    assert!(stderr(&several).contains("several traces"), "{}", stderr(&several));
}

#[test]
fn what_an_interrupted_execution_had_called_is_shown_from_the_audit_log() {
    let home = Home::empty();
    let mut interrupted = trace(1000, "was killed");
    interrupted["taskResults"] = json!([]);
    interrupted["metadata"]["interrupted"] = json!(true);
    put(&home, std::slice::from_ref(&interrupted));
    let line = |call: u32, event: &str, tool: &str, id: &str| {
        json!({"ts": now(), "event": event, "execution_id": id, "call": call, "tool": tool, "success": event == "call.ended"})
            .to_string()
    };
    let (own, other) = (id(&interrupted), ExecutionId::mint().to_string());
    let lines = [
        line(1, "call.started", "mail:send", &own),
        line(1, "call.ended", "mail:send", &own),
        line(2, "call.started", "bank:pay", &own),
        line(1, "call.started", "other:tool", &other),
    ];
    let log = home.path().join(".local/share/pml/audit.jsonl");
    fs::write(&log, lines.join("\n") + "\n").unwrap();
    fs::set_permissions(&log, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let text = succeeded(&home.pml(&["trace", "show", &own]));
    assert!(text.contains("from the audit log"), "{text}");
    let at = |part: &str| text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(at("mail:send").contains(" ok ") && at("bank:pay").contains("no end"), "{text}");
    assert!(!text.contains("other:tool"), "{text}");
}

#[test]
fn messages_say_what_is_so() {
    let home = Home::empty();
    let nothing = home.pml(&["trace", "show", "last"]);
    assert!(stderr(&nothing).contains("there are no traces yet"), "{}", stderr(&nothing));
    put(&home, &[trace(1000, "one")]);
    let mut command = home.command(env!("CARGO_BIN_EXE_pml")).into_std();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let done = command.args(["trace", "export"]).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let done = done.wait_with_output().unwrap();
    assert!(!done.status.success() && stderr(&done).contains("cannot be written"), "{done:?}");
    // A database of a newer pml is not damaged, and nobody is told to remove it.
    let db = rusqlite::Connection::open(folder(&home).join("traces.db")).unwrap();
    db.execute_batch("PRAGMA user_version = 1000").unwrap();
    drop(db);
    let doctor = home.pml(&["doctor", "traces"]);
    let text = stdout(&doctor);
    assert!(text.contains("newer pml") && !text.contains("remove") && !text.contains("damaged"), "{text}");
}
