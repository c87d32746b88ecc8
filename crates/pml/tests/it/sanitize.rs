//! `pml sanitize`, the real binary, and traces.

#![expect(clippy::disallowed_methods, reason = "these tests start pml as a shell would")]

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
};

use pml::trace::SanitizedTrace;
use pml::trace::sanitize::{MAX_STRING_BYTES, MAX_TRACE_BYTES, RuleFile, Rules, SanitizeFile, Sanitizer};
use pml_wire::{
    ExecutionId,
    trace::{LogLine, Trace},
};
use serde_json::{Value, json, value::to_raw_value};

fn start(home: &Path, args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_pml"))
        .args(args)
        .current_dir(home)
        .env_clear()
        .env("HOME", home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn json_of(trace: &SanitizedTrace) -> String {
    serde_json::to_string(trace.trace()).unwrap()
}

#[test]
fn a_line_is_answered_before_the_next_one_is_sent() {
    let home = tempfile::tempdir().unwrap();
    let mut child = start(home.path(), &["sanitize"]);
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    for number in 0..3 {
        writeln!(input, r#"{{"n":{number}.0,"password":"hunter{number}"}}"#).unwrap();
        let line = output.next().unwrap().unwrap();
        assert_eq!(line, format!(r#"{{"n":{number}.0,"password":"[REDACTED:password]"}}"#));
    }
    drop(input);
    assert!(output.next().is_none());
    assert!(child.wait().unwrap().success());
}

#[test]
fn rules_of_the_configuration_count_and_the_report_says_what_was_done() {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("pml.toml");
    let text = "[[trace.sanitize.rules]]\nname = \"employee\"\npattern = \"EMP-[0-9]{6}\"\n[trace.sanitize]\nallow = [\".*@example\\\\.org\"]\n";
    fs::write(&config, text).unwrap();
    let mut child = start(home.path(), &["--config", config.to_str().unwrap(), "sanitize", "--report"]);
    let long = "words and ".repeat(2000);
    let lines =
        [json!({"a": "EMP-123456 jane@example.org joe@example.com"}), json!({"b": [long]}), json!("nothing here")];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<Value> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["a"], "[REDACTED:employee] jane@example.org [EMAIL]");
    assert!(lines[1]["b"][0].as_str().unwrap().ends_with("[TRUNCATED]"));
    assert_eq!(lines[2], "nothing here");
    let reports: Vec<Value> =
        String::from_utf8(output.stderr).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(reports[0], json!({"line": 1, "redacted": {"employee": 1, "email": 1}, "truncated": []}));
    assert_eq!(
        reports[1],
        json!({"line": 2, "redacted": {}, "truncated": [{"path": "/b/0", "originalBytes": long.len()}]})
    );
    assert_eq!(reports.len(), 2);
}

#[test]
fn a_rule_that_is_wrong_is_a_mistake_in_the_configuration() {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("pml.toml");
    fs::write(&config, "[[trace.sanitize.rules]]\nname = \"a\"\npattern = \"(\"\n").unwrap();
    let child = start(home.path(), &["--config", config.to_str().unwrap(), "sanitize"]);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("the pattern of `a` in `trace.sanitize.rules`"),
        "{output:?}"
    );
}

fn trace() -> Trace {
    let least = json!({ "traceId": ExecutionId::mint(), "success": true, "durationMs": 1.5, "timestamp": 1 });
    serde_json::from_value(least).unwrap()
}

#[test]
fn every_text_of_a_trace_is_sanitized() {
    let secret = "hunter2hunter2";
    let text = || format!("password={secret}");
    let raw = || to_raw_value(&json!({ "n": 1, "password": secret })).unwrap();
    let task = json!({
        "taskId": "t1", "tool": format!("web:resource:https://u:{secret}@h/"), "args": raw(), "result": raw(), "success": false, "timestamp": 2, "durationMs": 1,
        "error": { "code": "X", "message": text() },
    });
    let mut trace = trace();
    trace.intent = Some(text());
    trace.caller = text();
    trace.error_message = Some(text());
    trace.error_code = Some(text());
    trace.capability_id = Some(text());
    trace.code = Some(format!("const apiKey = \"{secret}\";"));
    trace.args = Some(raw());
    trace.result = Some(raw());
    trace.logs = [
        text(),
        "-----BEGIN PRIVATE KEY-----".to_owned(),
        secret.to_owned(),
        "-----END PRIVATE KEY-----".to_owned(),
        "after".to_owned(),
    ]
    .map(|text| LogLine { level: "info".to_owned(), text })
    .to_vec();
    trace.warnings = vec![text()];
    trace.decisions =
        serde_json::from_value(json!([{ "nodeId": "d1", "outcome": text(), "condition": text() }])).unwrap();
    trace.task_results = vec![serde_json::from_value(task).unwrap()];
    let sanitized = Sanitizer::default().trace(trace);
    assert!(!json_of(&sanitized).contains(secret), "{}", json_of(&sanitized));
    assert!(sanitized.trace().metadata.code_redacted);
    assert_eq!(sanitized.trace().logs[4].text, "after");
    let again: Trace = serde_json::from_str(&json_of(&sanitized)).unwrap();
    assert_eq!(json_of(&Sanitizer::default().trace(again)), json_of(&sanitized));
}

#[test]
fn a_trace_is_cut_to_its_size_and_says_where() {
    let rows: Vec<_> = (0..40_000).map(|row| json!({ "row": row, "name": "a name" })).collect();
    let mut trace = trace();
    trace.intent = Some("x".repeat(MAX_STRING_BYTES + 1));
    trace.result = Some(to_raw_value(&rows).unwrap());
    trace.args = Some(to_raw_value(&json!({ "small": true })).unwrap());
    let original_bytes = trace.result.as_ref().unwrap().get().len() as u64;
    let sanitized = Sanitizer::default().trace(trace);
    assert!(json_of(&sanitized).len() <= MAX_TRACE_BYTES);
    assert!(!sanitized.trace().metadata.code_redacted);
    assert_eq!(sanitized.trace().result.as_ref().unwrap().get(), "\"[TRUNCATED]\"");
    assert_eq!(sanitized.trace().args.as_ref().unwrap().get(), r#"{"small":true}"#);
    let truncated: Vec<_> =
        sanitized.trace().metadata.truncated.iter().map(|entry| (entry.path.as_str(), entry.original_bytes)).collect();
    assert_eq!(truncated, [("/intent", MAX_STRING_BYTES as u64 + 1), ("/result", original_bytes)]);
}

#[test]
fn a_program_is_kept_whole_and_goes_last() {
    let code = "// ünïcode and \"quotes\"\n".repeat(10_000);
    let mut trace = trace();
    trace.code = Some(code.clone());
    trace.args = Some(to_raw_value(&vec!["value"; 30_000]).unwrap());
    trace.result = Some(to_raw_value(&vec!["value"; 80_000]).unwrap());
    let sanitized = Sanitizer::default().trace(trace.clone());
    assert!(json_of(&sanitized).len() <= MAX_TRACE_BYTES);
    assert_eq!(sanitized.trace().code.as_deref(), Some(code.as_str()), "the program is whole");
    let cut: Vec<_> = sanitized.trace().metadata.truncated.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(cut, ["/result"]);
    // Unless it alone is too much.
    trace.code = Some("\u{1}".repeat(256 * 1024));
    let sanitized = Sanitizer::default().trace(trace);
    assert!(json_of(&sanitized).len() <= MAX_TRACE_BYTES);
    assert_eq!(sanitized.trace().code.as_deref(), Some("[TRUNCATED]"));
}

#[test]
fn a_trace_of_very_many_tasks_loses_its_last_ones() {
    let mut trace = trace();
    let task = json!({ "taskId": "t", "tool": "a:b", "success": true, "timestamp": 2, "durationMs": 1, "args": { "n": "small" } });
    trace.task_results = (0..20_000).map(|_| serde_json::from_value(task.clone()).unwrap()).collect();
    let sanitized = Sanitizer::default().trace(trace);
    let kept = sanitized.trace().task_results.len();
    assert!(json_of(&sanitized).len() <= MAX_TRACE_BYTES && kept > 1000 && kept < 20_000, "{kept}");
    assert_eq!(sanitized.trace().metadata.truncated[0].path, "/taskResults");
}

#[test]
fn nothing_is_given_up_for_being_strange() {
    let rule = RuleFile { name: "all".to_owned(), pattern: ".".to_owned() };
    let greedy = Sanitizer::new(Rules::new(SanitizeFile { rules: vec![rule], allow: vec![] }).unwrap());
    assert_eq!(greedy.text("anything at all"), "[REDACTED:all]");
    assert_eq!(greedy.text(&greedy.text("anything at all")), "[REDACTED:all]");
    let sanitizer = Sanitizer::default();
    let table = [
        (r#"{"a":"\ud800 password=hunter2"}"#, "{\"a\":\"\u{fffd} password=[REDACTED:password]\"}"),
        (r#"{"a":"\ud800"}"#, "{\"a\":\"\u{fffd}\"}"),
        (r#"{"jane@example.com":1,"joe@example.com":2}"#, r#"{"[EMAIL]":1,"[EMAIL] 2":2}"#),
        (r#"{"a":12345678901234567890.10,"b":-0.0,"c":1E5}"#, r#"{"a":12345678901234567890.10,"b":-0.0,"c":1E5}"#),
    ];
    for (text, expected) in table {
        assert_eq!(sanitizer.json(text).unwrap().0, expected);
    }
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let clean = sanitizer.json(&deep).unwrap().0.into_owned();
    assert!(serde_json::from_str::<Value>(&clean).is_ok() && clean.contains("[TRUNCATED]"));
    assert_eq!(sanitizer.json(&clean).unwrap().0, clean);
}
