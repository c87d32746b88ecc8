//! The real binary, as a person or a script uses it.

#![expect(clippy::disallowed_methods, reason = "these tests start pml as a shell would")]

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use pml_testkit::helper_path;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::peer::write_config;

fn pml(args: &[&str]) -> Output {
    pml_in(Path::new("/"), args, b"")
}

pub(crate) fn pml_in(directory: &Path, args: &[&str], stdin: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pml"))
        .args(args)
        .current_dir(directory)
        .env_remove("PML_CONFIG")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("PML_LOG")
        .env_remove("RUST_LOG")
        .env("HOME", directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that does not read its input closes the pipe early.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|err| panic!("{err}: {output:?}"))
}

#[test]
fn exit_codes_tell_success_failure_and_mistakes_apart() {
    let table: [(&[&str], i32); 15] = [
        (&["--log", "debgu", "run", "-e", "1"], 2),
        (&["run", "-e", "return 1"], 0),
        (&["--version"], 0),
        (&["--help"], 0),
        (&["run", "--help"], 0),
        (&["run", "-e", "throw 1"], 1),
        (&["run", "-e", "let let"], 1),
        (&["run", "-e", ""], 1),
        (&[], 2),
        (&["rum"], 2),
        (&["run", "--timeout", "5", "-e", "1"], 2),
        (&["run", "--memory", "0", "-e", "1"], 2),
        (&["run", "--args", "{", "-e", "1"], 2),
        (&["run", "/nonexistent.ts"], 2),
        (&["--config", "/nonexistent.toml", "run", "-e", "1"], 2),
    ];
    for (args, expected) in table {
        let output = pml(args);
        assert_eq!(output.status.code(), Some(expected), "{args:?}: {output:?}");
        if expected == 2 {
            assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{args:?}: {output:?}");
        }
    }
}

#[test]
fn the_result_goes_to_stdout_and_the_rest_to_stderr() {
    let output = pml(&["run", "-e", "console.log('hello'); return { b: 1, a: [2] }"]);
    assert_eq!(stdout(&output), "{\n  \"b\": 1,\n  \"a\": [\n    2\n  ]\n}\n");
    assert!(stderr(&output).starts_with("hello\ndone in "), "{output:?}");
    assert_eq!(stdout(&pml(&["run", "-e", "return ['\\u009b']"])), "[\n  \"\\u009b\"\n]\n");
    assert_eq!(stdout(&pml(&["run", "-e", "return 'line\\n\\u001b[31mred'"])), "line\n\\u{1b}[31mred\n");
}

#[test]
fn the_program_comes_from_a_file_standard_input_or_the_command_line() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("my program.ts"), "const x: number = 1;\nthrow new Error('in file')").unwrap();
    let output = pml_in(directory.path(), &["run", "my program.ts"], b"");
    assert!(stderr(&output).contains("--> my program.ts:2:"), "{output:?}");
    assert_eq!(stdout(&pml_in(directory.path(), &["run", "-"], b"return args.n + 1")), "");
    let output = pml_in(directory.path(), &["run", "--args", r#"{"n":41}"#, "-"], b"return args.n + 1");
    assert_eq!(stdout(&output), "42\n");
    assert_eq!(stdout(&pml_in(directory.path(), &["run"], b"return 'piped'")), "piped\n");
}

#[test]
fn json_output_has_the_promised_shape() {
    let output = pml(&["run", "--json", "-e", "console.warn('w'); await pml.callTool('a:b'); return { x: 1n }"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{output:?}");
    let value = json_of(&output);
    let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = ["execution_id", "status", "result", "error", "logs", "calls", "warnings", "duration_ms"];
    assert_eq!(keys, expected);
    assert_eq!(value["status"], "success");
    assert_eq!(value["result"], json!({"x": "1"}));
    assert_eq!(value["error"], Value::Null);
    assert_eq!(value["logs"], json!([{"level": "warn", "text": "w"}]));
    let call = &value["calls"][0];
    assert_eq!((&call["id"], &call["tool"], &call["success"]), (&json!(1), &json!("a:b"), &json!(false)));
    assert_eq!(call["error"]["code"], "TOOL_NOT_FOUND");

    let output = pml(&["run", "--json", "-e", "const name = 'read'; await mcp.files[name]({})"]);
    assert_eq!(output.status.code(), Some(1));
    let error = &json_of(&output)["error"];
    let keys: Vec<_> = error.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["code", "message", "stack", "frame", "tool"]);
    assert_eq!((&error["code"], &error["tool"]), (&json!("TOOL_NOT_FOUND"), &json!("files:read")));
    assert!(error["frame"].as_str().unwrap().starts_with("agent.ts:1:"));

    let error = &json_of(&pml(&["run", "--json", "-e", "fetch('x')"]))["error"];
    assert!(
        error["message"].as_str().unwrap().ends_with("\nhint: fetch is not available here; call an MCP tool instead")
    );
}

#[test]
fn bad_bytes_get_a_defined_answer() {
    let code = |stdin: &[u8]| json_of(&pml_in(Path::new("/"), &["run", "--json", "-"], stdin))["error"]["code"].clone();
    assert_eq!(code(b"return '\xff'"), "CODE_NOT_UTF8");
    assert_eq!(code(b""), "CODE_EMPTY");
    assert_eq!(code(&vec![b' '; 10 << 20]), "CODE_TOO_LARGE");
    assert_eq!(code(b"return 1\0"), "SYNTAX_ERROR");
    assert_eq!(code("[".repeat(100_000).as_bytes()), "CODE_TOO_DEEP");
    assert_eq!(code(b"return 'a\0b'"), Value::Null);
}

#[test]
fn limits_can_be_set_on_the_command_line_and_in_the_file() {
    let bomb = "const a = []; for (let i = 0; i < 20; i++) a.push('x'.repeat(1e6) + i); return a.length";
    assert_eq!(stdout(&pml(&["run", "-e", bomb])), "20\n");
    assert_eq!(json_of(&pml(&["run", "--json", "--memory", "8", "-e", bomb]))["error"]["code"], "MEMORY_LIMIT");
    assert_eq!(json_of(&pml(&["run", "--json", "--timeout", "50ms", "-e", "for (;;) {}"]))["error"]["code"], "TIMEOUT");

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(".config/pml/pml.toml");
    write_config(&file, "[limits]\nmemory_mb = 8\n");
    let output = pml_in(directory.path(), &["run", "--json", "-e", bomb], b"");
    assert_eq!(json_of(&output)["error"]["code"], "MEMORY_LIMIT");
    write_config(&file, "[limits]\nmemory = 8\n");
    let output = pml_in(directory.path(), &["run", "-e", "1"], b"");
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    for part in ["error[CONFIG_INVALID]", "pml.toml", "line 2", "memory_mb"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn frames_can_be_read_at_level_trace_without_secrets() {
    let program = "await pml.callTool('a:b', { password: 'hunter2', path: '/tmp/x' }); return 'done'";
    let log = stderr(&pml(&["--log", "trace", "run", "-e", program]));
    for part in [
        "to worker",
        "from worker",
        "kind=Init",
        "kind=RpcCall",
        "kind=RpcError",
        "kind=ExecutionComplete",
        "/tmp/x",
        "[masked]",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    let calls: Vec<_> = log.lines().filter(|line| line.contains("kind=RpcCall")).collect();
    assert!(calls.iter().all(|line| !line.contains("hunter2")), "{calls:?}");
}

#[test]
fn the_demo_runs_and_doctor_finds_a_safe_sandbox() {
    let output = pml(&["demo"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stdout(&output).contains("\"garden.md: water the tomatoes\""), "{output:?}");
    assert!(stderr(&output).contains("files: 3 tools, ready in"), "{output:?}");
    assert!(
        stderr(&output).contains("→ notes:add_note ok in") && stderr(&output).contains("9 tool calls"),
        "{output:?}"
    );

    let output = pml(&["doctor", "sandbox"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stdout(&output).contains("on       seccomp") && stdout(&output).contains("safe sandbox"), "{output:?}");
    let report = json_of(&pml(&["doctor", "sandbox", "--json"]));
    assert_eq!((&report["safe"], report["layers"].as_array().unwrap().len()), (&json!(true), 6));
}

/// pml on a kernel that lacks some system calls.
#[cfg(target_os = "linux")]
fn pml_without(calls: &str, args: &[&str], config: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    write_config(&directory.path().join(".config/pml/pml.toml"), config);
    Command::new(helper_path("without-syscall"))
        .arg(calls)
        .arg(env!("CARGO_BIN_EXE_pml"))
        .args(args)
        .current_dir(directory.path())
        .env("HOME", directory.path())
        .env_remove("PML_CONFIG")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("PML_LOG")
        .output()
        .unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_missing_layer_is_refused_by_name_unless_weakness_is_allowed() {
    for layer in ["landlock", "seccomp"] {
        let output = pml_without(layer, &["run", "-e", "return 1"], "");
        assert_eq!(output.status.code(), Some(1), "{layer}: {output:?}");
        let message = stderr(&output);
        assert!(message.contains("error[SANDBOX_UNAVAILABLE]"), "{layer}: {message}");
        assert!(message.contains(&format!("`{layer}`")) && message.contains("allow_weak = true"), "{layer}: {message}");

        let output = pml_without(layer, &["run", "-e", "return 1"], "[sandbox]\nallow_weak = true\n");
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "1\n"), "{layer}: {output:?}");
        assert!(stderr(&output).contains("the sandbox is weak"), "{layer}: {output:?}");

        let output = pml_without(layer, &["doctor", "sandbox"], "");
        assert_eq!(output.status.code(), Some(1), "{layer}: {output:?}");
        assert!(stdout(&output).contains(&format!("MISSING  {layer}")), "{layer}: {output:?}");
    }
    // Namespaces are used where they are there; see Layer::is_required.
    let output = pml_without("unshare", &["run", "-e", "return 1"], "");
    assert_eq!(stdout(&output), "1\n", "{output:?}");
    let output = pml_without("unshare", &["doctor", "sandbox"], "");
    assert!(stdout(&output).contains("off      namespaces"), "{output:?}");
}

/// A pml that is busy, and the process ids of its workers.
#[cfg(target_os = "linux")]
fn busy_pml(program: &str) -> (std::process::Child, Vec<u32>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pml"))
        .args(["run", "--json", "-e", program])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let parent = format!("PPid:\t{}\n", child.id());
    for _ in 0..200 {
        let pids =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let status = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let workers: Vec<u32> =
            pids.filter(|pid| status(pid).contains(&parent) && status(pid).contains("Seccomp:\t2")).collect();
        if !workers.is_empty() {
            std::thread::sleep(Duration::from_millis(100));
            return (child, workers);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    panic!("no worker appeared: {:?}", child.wait());
}

#[cfg(target_os = "linux")]
fn gone(pid: u32) -> bool {
    (0..300).any(|_| {
        let gone = !Path::new(&format!("/proc/{pid}")).exists();
        if !gone {
            std::thread::sleep(Duration::from_millis(10));
        }
        gone
    })
}

#[cfg(target_os = "linux")]
#[test]
fn signals_end_the_run_and_leave_nothing_behind() {
    for program in ["while (true) {}", "await new Promise((r) => setTimeout(r, 1e6))"] {
        for signal in [Signal::INT, Signal::TERM] {
            let (child, workers) = busy_pml(program);
            kill_process(Pid::from_child(&child), signal).unwrap();
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{program} {signal:?}: {output:?}");
            assert_eq!(json_of(&output)["error"]["code"], "CANCELLED", "{program} {signal:?}");
            assert!(workers.into_iter().all(gone), "{program} {signal:?}");
        }
        let (mut child, workers) = busy_pml(program);
        child.kill().unwrap(); // SIGKILL: nothing of pml runs any more
        child.wait().unwrap();
        assert!(workers.into_iter().all(gone), "{program}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_second_signal_ends_pml_even_if_nobody_reads_its_output() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pml"))
        .args(["run", "-e", "for (;;) console.log('x'.repeat(1000))"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped()) // and never read
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..2 {
        // The first may already have been enough.
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!((0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        child.try_wait().unwrap().is_some()
    }));
}

/// The commands that `pml --help` lists.
fn commands() -> Vec<String> {
    let help = stdout(&pml(&["--help"]));
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let list = list.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    list.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn a_shell_completes_the_commands_of_pml() {
    let script = stdout(&pml(&["completions", "bash"]));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ask.sh");
    let ask = "COMP_WORDS=(pml ''); COMP_CWORD=1; _pml pml '' pml; printf '%s\\n' \"${COMPREPLY[@]}\"";
    fs::write(&file, format!("{script}\n{ask}\n")).unwrap();
    let output = Command::new("bash").arg(&file).output().unwrap();
    let (offered, commands) = (stdout(&output), commands());
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        assert!(offered.lines().any(|line| line == command), "{command}: {output:?}");
    }
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&pml(&["completions", shell]));
        assert!(script.contains("workflow") && script.contains("mcp-config"), "{shell}: {script}");
    }
    assert_eq!(pml(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn every_command_has_a_manual_page() {
    let page = stdout(&pml(&["man"]));
    assert!(page.contains(".TH pml 1") && page.contains("gateway"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("man1");
    let output = pml(&["man", "-o", path.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    for command in commands() {
        assert!(page.contains(&format!("pml\\-{command}(1)")), "{command}: {page}");
        assert!(path.join(format!("pml-{command}.1")).exists(), "{command}");
    }
    fs::write(folder.path().join("file"), "").unwrap();
    let output = pml(&["man", "-o", folder.path().join("file").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pml"))
        .args(["run", "-e", "console.log('x'.repeat(50000)); return 'y'.repeat(500000)"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(!stderr(&output).contains("panicked"), "{output:?}");
}

#[test]
fn the_worker_command_is_not_for_people() {
    let output = pml(&["worker", "nonsense"]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("for pml itself"), "{output:?}");
}

#[test]
fn a_tool_that_is_called_before_its_server_has_started_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("pml.toml");
    let server = pml_testkit::fixture_path();
    write_config(&config, &format!("[servers.fix]\ncommand = {server:?}\nargs = ['--fault', 'slow-start=700']\n"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_pml"))
        .args(["serve", "--expose", "passthrough", "--plain-names"])
        .args([Path::new("--config"), &config, Path::new("--data-dir"), &folder.path().join("data")])
        .env("HOME", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut say = |message: Value| writeln!(stdin, "{message}").unwrap();
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test"}});
    say(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
    say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    for (id, name) in [(1, "echo"), (2, "no_such_tool")] {
        let params = json!({"name": name, "arguments": {"text": "x"}});
        say(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let messages = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut answers: Vec<_> = messages.filter(|message| message["id"].as_u64() > Some(0)).take(2).collect();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers[0]["result"]["content"][0]["text"], "x", "{answers:?}");
    assert_eq!(answers[1]["error"]["message"], "there is no tool `no_such_tool`", "{answers:?}");
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn learning_is_measured_on_any_data() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, lines: &[Value]| {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(folder.path().join(name), text).unwrap();
    };
    let tools = ["read_file", "send_mail", "list_issues", "close_issue", "make_chart", "get_weather"];
    let tool = |name: &&str| json!({ "id": name, "name": name, "description": "", "group": "x", "unknown": 1 });
    write("tools.jsonl", &tools.iter().map(tool).collect::<Vec<_>>());
    // The words of an intent say nothing that the search could find.
    let trace = |number: usize| {
        let [first, second] = [["make_chart", "send_mail"], ["list_issues", "close_issue"]][number % 2];
        let intent = [format!("quarterly numbers {number}"), format!("sprint cleanup {number}")][number % 2].clone();
        json!({ "id": format!("t{number}"), "intent": intent, "success": true, "group": "g", "gold": true,
            "steps": [{ "tool": "get_weather", "success": false }, { "tool": first }, { "tool": second, "success": true }] })
    };
    write("train.jsonl", &(0..60).map(trace).collect::<Vec<_>>());
    write("test.jsonl", &(100..110).map(trace).collect::<Vec<_>>());
    let args = ["eval", "learn", "--tools", "tools.jsonl", "--train", "train.jsonl", "--test", "test.jsonl"];
    for more in
        [&[][..], &["--replay", "per", "--seeds", "2"], &["--replay", "uniform"], &["--checkpoints", "5,1000,0"]]
    {
        let report = json_of(&pml_in(folder.path(), &[&args[..], &["--json"], more].concat(), b""));
        let checkpoints = report["checkpoints"].as_array().unwrap();
        let numbers: Vec<_> = checkpoints.iter().map(|checkpoint| checkpoint["n"].as_u64().unwrap()).collect();
        let expected = if more.contains(&"--checkpoints") { &[0, 5, 60][..] } else { &[0, 10, 30, 60] };
        assert_eq!(numbers, expected, "{more:?}");
        for (task, metrics) in
            [("set", &["r@1", "r@5", "r@10", "ndcg@10", "mrr"][..]), ("next", &["hit@1", "hit@5", "mrr"])]
        {
            assert_eq!(checkpoints[0][task]["ranker"], checkpoints[0][task]["search"], "{more:?}");
            for (checkpoint, method) in
                checkpoints.iter().flat_map(|c| ["search", "markov", "knn", "ranker"].map(|m| (c, m)))
            {
                for metric in metrics {
                    let cell = &checkpoint[task][method][metric];
                    let [low, mean, high] = ["low", "mean", "high"].map(|key| cell[key].as_f64().unwrap());
                    assert!(
                        0.0 <= low && low <= mean && mean <= high && high <= 1.0,
                        "{task} {method} {metric}: {cell}"
                    );
                }
            }
        }
        let last = checkpoints.last().unwrap();
        assert_eq!(last["set"]["ranker"]["r@5"]["mean"], 1.0, "{more:?}: {last}");
        assert_eq!(last["next"]["ranker"]["hit@1"]["mean"], 1.0, "{more:?}: {last}");
        assert!(last["gain"]["next"]["hit@1"]["low"].as_f64() > Some(0.0), "{more:?}: {last}");
    }
    let text = stdout(&pml_in(folder.path(), &[&args[..], &["--shuffle-intents"]].concat(), b""));
    assert!(text.contains("after 60 traces") && text.contains("gain over search"), "{text}");
    assert!(text.contains("from intents") && text.contains("must not be above 0"), "{text}");

    // One file, which each seed splits anew. What intents give is gone when they are shuffled.
    let alone = |number: usize| {
        let mut trace = trace(number);
        trace["group"] = json!(format!("g{}", number / 2));
        trace
    };
    write("all.jsonl", &(0..100).map(alone).collect::<Vec<_>>());
    let args = ["eval", "learn", "--tools", "tools.jsonl", "--traces", "all.jsonl", "--seeds", "4", "--json"];
    let right = json_of(&pml_in(folder.path(), &args, b""));
    let shuffled = json_of(&pml_in(folder.path(), &[&args[..], &["--shuffle-intents"]].concat(), b""));
    for (report, least, most) in [(&right, 0.06, 0.5), (&shuffled, -0.5, 0.05)] {
        assert_eq!(report["test"], 20, "{report}");
        let checkpoints = report["checkpoints"].as_array().unwrap();
        let last = checkpoints.last().unwrap();
        // Of the pairs that are a conversation, the other half is left out.
        assert!((50..80).contains(&last["n"].as_u64().unwrap()) && last["seeds"] == 4, "{last}");
        assert_eq!(checkpoints[0]["set"]["ranker"], checkpoints[0]["set"]["search"], "{report}");
        for of_intents in [&last["intents"]["set"]["ndcg@10"], &last["over_seeds"]["intents"]["set"]["ndcg@10"]] {
            let mean = of_intents["mean"].as_f64().unwrap();
            assert!(least < mean && mean < most, "{mean}: {last}");
        }
        let [blind, ranker] =
            [&last["blind"]["set"], &last["set"]["ranker"]].map(|it| it["r@1"]["mean"].as_f64().unwrap());
        assert!((ranker - blind - last["intents"]["set"]["r@1"]["mean"].as_f64().unwrap()).abs() < 1e-9, "{last}");
    }
    let one = json_of(&pml_in(folder.path(), &[&args[..6], &["--json"]].concat(), b""));
    assert!(one["checkpoints"][0]["over_seeds"]["gain"]["set"]["r@1"].is_null(), "one seed has no interval: {one}");
    for wrong in [&args[..4], &[&args[..6], &["--test", "test.jsonl"]].concat()] {
        assert_eq!(pml_in(folder.path(), wrong, b"").status.code(), Some(2), "{wrong:?}");
    }

    write("broken.jsonl", &[trace(1), json!({ "intent": "x" })]);
    write("nameless.jsonl", &[json!({ "intent": "x", "steps": [{ "tool": "" }] })]);
    write("failed.jsonl", &[json!({ "intent": "x", "steps": [{ "tool": "a", "success": false }] })]);
    write("unknown.jsonl", &[json!({ "intent": "x", "steps": [{ "tool": "no_such" }] })]);
    write("same.jsonl", &[trace(0)]);
    write("empty.jsonl", &[]);
    #[rustfmt::skip]
    let table = [
        // test            exit  said
        ("broken.jsonl",   2,    "line 2 of `broken.jsonl`"),
        ("nameless.jsonl", 2,    "line 1 of `nameless.jsonl`"),
        ("failed.jsonl",   2,    "nothing to measure"),
        ("empty.jsonl",    2,    "nothing to measure"),
        ("missing.jsonl",  2,    "cannot be read"),
        ("unknown.jsonl",  0,    "1 steps to be found are of no tool"),
        ("same.jsonl",     0,    "1 test traces have an intent that is also learned from"),
    ];
    for (test, code, said) in table {
        let args = ["eval", "learn", "--tools", "tools.jsonl", "--train", "train.jsonl", "--test", test];
        let output = pml_in(folder.path(), &args, b"");
        assert_eq!(output.status.code(), Some(code), "{test}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{test}: {}", stderr(&output));
    }
}

#[test]
fn the_search_is_measured_on_any_data() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, lines: &[Value]| {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(folder.path().join(name), text).unwrap();
    };
    write(
        "tools.jsonl",
        &[
            json!({ "id": "disk/read", "server": "disk", "name": "read_file", "description": "Reads a file", "inputSchema": {} }),
            json!({ "id": "mail/send", "server": "mail", "name": "send", "description": "Sends a mail", "inputSchema": {} }),
            json!({ "id": "bare", "name": "bare", "description": null, "server": null }),
        ],
    );
    write(
        "queries.jsonl",
        &[
            json!({ "query": "read the file notes.txt", "relevant": ["disk/read"], "category": "x" }),
            json!({ "query": "send mail and read a file", "relevant": ["mail/send", "disk/read"] }),
        ],
    );
    let args = ["eval", "search", "--tools", "tools.jsonl", "--queries", "queries.jsonl"];
    for mode in ["bm25", "embedding", "hybrid"] {
        let output =
            pml_in(folder.path(), &[&args[..], &["--json", "--run", "run.jsonl", "--mode", mode]].concat(), b"");
        let report = json_of(&output);
        assert_eq!((&report["queries"], &report["tools"]), (&json!(2), &json!(3)), "{mode}");
        for metric in ["hit@1", "recall@5", "recall@10", "complete@10", "ndcg@10", "mrr"] {
            assert_eq!(report[metric], json!({ "mean": 1.0, "low": 1.0, "high": 1.0 }), "{mode} {metric}");
        }
        assert_eq!(report["recall@1"]["mean"], 0.75, "{mode}");
        assert!(report["latency_us"]["p95"].as_f64() > Some(0.0), "{mode}");
        let run = fs::read_to_string(folder.path().join("run.jsonl")).unwrap();
        let first: Value = serde_json::from_str(run.lines().next().unwrap()).unwrap();
        assert_eq!((&first["query"], &first["ranked"][0]), (&json!("read the file notes.txt"), &json!("disk/read")));
    }
    let text = stdout(&pml_in(folder.path(), &args, b""));
    assert!(text.contains("ndcg@10") && text.contains("100.0 %"), "{text}");

    write("broken.jsonl", &[json!({ "query": "x" })]);
    write("none.jsonl", &[json!({ "query": "x", "relevant": [] })]);
    write(
        "some.jsonl",
        &[json!({ "query": "x", "relevant": [] }), json!({ "query": "mail", "relevant": ["mail/send"] })],
    );
    write("unknown.jsonl", &[json!({ "query": "x", "relevant": ["no/such"] })]);
    #[rustfmt::skip]
    let table = [
        // queries          exit  said
        ("broken.jsonl",    2,    "line 1 of `broken.jsonl`"),
        ("none.jsonl",      2,    "nothing to measure"),
        ("some.jsonl",      0,    "1 queries have no relevant tool"),
        ("missing.jsonl",   2,    "cannot be read"),
        ("unknown.jsonl",   0,    "1 relevant ids are of no tool"),
    ];
    for (queries, code, said) in table {
        let output = pml_in(folder.path(), &["eval", "search", "--tools", "tools.jsonl", "--queries", queries], b"");
        assert_eq!(output.status.code(), Some(code), "{queries}");
        assert!(stderr(&output).contains(said), "{queries}: {}", stderr(&output));
    }

    let output = pml_in(folder.path(), &[&args[..], &["--model-dir", "no-such"]].concat(), b"");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let why = if cfg!(feature = "minilm") { "`config.json` cannot be read" } else { "was built without `minilm`" };
    for part in ["the model in `no-such` cannot be used", why, "hint: "] {
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
}

/// Threads and processes that cannot be started are a clear error, not a panic.
#[test]
fn at_the_limit_of_processes_pml_says_so() {
    const LIMITED: &str = "import os, resource, sys\n\
        if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n\
        limit = int(sys.argv[1])\n\
        resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))\n\
        os.execv(sys.argv[2], sys.argv[2:])";
    // Where another user can reach it.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = folder.path().join("pml");
    fs::copy(env!("CARGO_BIN_EXE_pml"), &program).unwrap();
    for limit in ["0", "1", "2"] {
        for args in [&["run", "-e", "return 1"][..], &["doctor", "sandbox"], &["serve", "--http", "127.0.0.1:0"]] {
            let output = Command::new("python3")
                .args(["-c", LIMITED, limit])
                .arg(&program)
                .args(args)
                .env("HOME", "/nonexistent")
                .stdin(Stdio::null())
                .output();
            let output = output.unwrap();
            assert!(!stderr(&output).contains("panicked"), "{limit} {args:?}: {output:?}");
            assert!(output.status.code().is_some_and(|code| (1..=2).contains(&code)), "{limit} {args:?}: {output:?}");
            if args[0] == "run" {
                assert!(stderr(&output).contains("SANDBOX_UNAVAILABLE"), "{limit}: {output:?}");
                assert!(stderr(&output).contains("ulimit -u"), "{limit}: {output:?}");
            }
        }
    }
}
