//! Servers on the command line: configured, listed, checked, called.

use std::fs;

use pml_testkit::fixture_path;
use serde_json::json;

use super::{
    cli::{json_of, stderr, stdout},
    peer::{Era, Home, descendants, eventually},
};

#[test]
fn a_program_calls_a_configured_server_and_the_call_is_written_down() {
    let home = Home::with_fixture("");
    let output = home.pml(&["run", "--json", "-e", "return await mcp.fix.add({ a: 20, b: 22 })"]);
    let outcome = json_of(&output);
    assert_eq!((&outcome["result"], &outcome["calls"][0]["tool"]), (&json!(42), &json!("fix:add")), "{outcome}");
    let lines = home.audit_lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in &lines {
        assert_eq!((&line["execution_id"], &line["who"]), (&outcome["execution_id"], &json!("cli")));
    }
}

#[test]
fn one_call_is_made_from_the_shell_checked_and_recorded() {
    let home = Home::with_fixture("[policy]\ndeny = [\"fix:env\"]\n");
    for arguments in [&["a:=20", "b:=22"][..], &[r#"{"a": 20, "b": 22}"#]] {
        let output = home.pml(&[&["call", "fix:add"][..], arguments].concat());
        assert_eq!(stdout(&output), "42\n", "{output:?}");
    }
    let outcome = json_of(&home.pml(&["call", "fix:add", "a:=1", "b:=2", "--json", "--intent", "add up"]));
    assert_eq!((&outcome["result"], &outcome["calls"][0]["tool"]), (&json!(3), &json!("fix:add")), "{outcome}");
    let lines = home.audit_lines();
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert_eq!(lines[5]["execution_id"], outcome["execution_id"]);
    let traces = stdout(&home.pml(&["trace", "list", "--intent", "add up"]));
    assert!(traces.contains("add up (fix:add)"), "{traces}");

    let table: [(&[&str], i32, &[&str]); 7] = [
        (&["fix:add", "a=20", "b:=22"], 1, &["error[INVALID_ARGUMENTS]", "args.a: expected number, got \"20\""]),
        (&["fix:ad", "a:=1"], 1, &["error[TOOL_NOT_FOUND]", "`fix:add`"]),
        (&["fxi:add", "a:=1"], 1, &["error[TOOL_NOT_FOUND]", "fix"]),
        (&["fix:env", "name=PATH"], 1, &["error[POLICY_DENIED]"]),
        (&["add", "a:=1"], 2, &["error[CONFIG_INVALID]: `add` is no name of a tool", "hint: write server:tool"]),
        (&["fix:add", "a"], 2, &["error[CONFIG_INVALID]: `a` is no argument", "hint: write name=text, name:=JSON"]),
        (&["fix:add", "a:=x"], 2, &["`a` is not JSON"]),
    ];
    for (arguments, code, expected) in table {
        let output = home.pml(&[&["call"][..], arguments].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        for part in expected {
            assert!(text.contains(part), "{arguments:?} lacks {part}: {text}");
        }
        // The program that makes the call is pml's own, and nothing to look at.
        assert!(!text.contains("call.ts"), "{arguments:?}: {text}");
    }
}

#[test]
fn servers_of_a_clients_file_are_used_as_they_are() {
    let home = Home::new("");
    let text = format!(
        "{{\n  // my servers\n  \"mcpServers\": {{\n    \"fix\": {{\"command\": {:?}, \"args\": [], \"env\": {{\"T\": \"${{SECRET_TOKEN}}\"}},}},\n  }},\n}}",
        fixture_path().to_str().unwrap()
    );
    fs::write(home.path().join(".mcp.json"), text).unwrap();
    let program = "return await mcp.fix.env({ name: 'T' })";
    let output = home.pml(&["--mcp-config", ".mcp.json", "run", "-e", program]);
    assert_eq!(stdout(&output).trim(), "hunter2hunter2", "{output:?}");
}

#[test]
fn tools_and_types_are_listed() {
    let home = Home::with_fixture("");
    let text = stdout(&home.pml(&["tools"]));
    assert!(text.starts_with("fix (") && text.contains("  add "), "{text}");
    let text = stdout(&home.pml(&["tools", "fix"]));
    assert!(text.contains("mcp.fix.add(args: { a: number; b: number }): Promise<number>"), "{text}");
    let tools = json_of(&home.pml(&["tools", "fix", "--json"]));
    let add = tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "add").unwrap();
    assert_eq!(add["id"], "fix:add");
    assert_eq!(add["signature"], "mcp.fix.add(args: { a: number; b: number }): Promise<number>");
    let output = home.pml(&["types", "-o", "pml.d.ts"]);
    assert!(output.status.success(), "{output:?}");
    let types = fs::read_to_string(home.path().join("pml.d.ts")).unwrap();
    assert!(types.contains("declare const mcp") && types.contains("add("), "{types}");
    // A file that is good is not replaced by what is known without a server.
    home.configure("[servers.fix]\ncommand = \"no-such-thing\"\n");
    let output = home.pml(&["types", "-o", "pml.d.ts"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("is left as it is"), "{output:?}");
    assert_eq!(fs::read_to_string(home.path().join("pml.d.ts")).unwrap(), types);
    let output = home.pml(&["tools", "fxi"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("did you mean `fix`?"), "{output:?}");
    let output = Home::new("").pml(&["tools"]);
    assert!(stderr(&output).contains("no MCP server is configured"), "{output:?}");
}

#[test]
fn servers_are_added_listed_and_removed() {
    let home = Home::new("# mine\n[limits]\ncalls = 7 # few\n");
    let fixture = fixture_path();
    let fixture = fixture.to_str().unwrap();
    let added = home.pml(&["server", "add", "fix", "--env", "TOKEN=${SECRET_TOKEN}", "--", fixture, "--tools", "3"]);
    assert!(added.status.success(), "{added:?}");
    let header = "Authorization: Bearer ${SECRET_TOKEN}";
    let added = home.pml(&["server", "add", "far", "https://example.org/mcp?key=abc", "--header", header]);
    assert!(added.status.success(), "{added:?}");
    let text = fs::read_to_string(home.config()).unwrap();
    assert!(text.starts_with("# mine\n[limits]\ncalls = 7 # few\n"), "{text}");
    assert!(text.contains("args = [\"--tools\", \"3\"]") && text.contains("TOKEN = \"${SECRET_TOKEN}\""), "{text}");
    let list = home.pml(&["server", "list"]);
    assert!(stdout(&list).contains("fix") && stdout(&list).contains("https://example.org"), "{list:?}");
    assert!(!stdout(&list).contains("key=abc") && !stdout(&list).contains("hunter2"), "{list:?}");
    assert_eq!(json_of(&home.pml(&["server", "list", "--json"]))["servers"][0]["name"], "far");
    assert!(home.pml(&["server", "remove", "far"]).status.success());
    let output = home.pml(&["run", "-e", "return await mcp.fix.env({ name: 'TOKEN' })"]);
    assert_eq!(stdout(&output).trim(), "hunter2hunter2");

    #[rustfmt::skip]
    let mistakes: [(&[&str], &str); 9] = [
        (&["server", "add", "new", "example.org/mcp"], "hint: write https://example.org/mcp"),
        (&["server", "add", "new", "localhost:8080"], "looks like an address"),
        (&["server", "add", "fix", "--", "x"], "`fix` is there already"),
        (&["server", "add", "a:b", "--", "x"], "cannot be the name of a server"),
        (&["server", "add", "pml", "--", "x"], "pml itself uses it"),
        (&["server", "add", "new", "--env", "X", "--", "x"], "must be written as NAME=VALUE"),
        (&["server", "add", "new", "--type", "smoke", "https://x"], "is not changed"),
        (&["server", "remove", "fixx"], "did you mean `fix`?"),
        (&["server", "add", "new"], "required"),
    ];
    let before = fs::read_to_string(home.config()).unwrap();
    for (args, expected) in mistakes {
        let output = home.pml(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
    }
    assert_eq!(fs::read_to_string(home.config()).unwrap(), before);
}

#[test]
fn status_and_doctor_show_who_is_well_and_why_others_are_not() {
    let home = Home::with_fixture(
        "[servers.gone]\ncommand = \"no-such-thing\"\n[servers.loud]\ncommand = \"sh\"\nargs = [\"-c\", \"echo $T >&2; exit 3\"]\nenv = { T = \"${SECRET_TOKEN}\" }\n",
    );
    let output = home.pml(&["server", "status"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    let row =
        |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{text}")).to_owned();
    assert!(row("fix").contains("healthy") && row("fix").contains("2026-07-28"), "{text}");
    assert!(row("gone").contains("unavailable"), "{text}");
    let status = json_of(&home.pml(&["server", "status", "--json"]));
    assert_eq!(status["servers"][1]["code"], "PROVIDER_INIT_FAILED", "{status}");

    let output = home.pml(&["doctor"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.contains("programs run in a safe sandbox"), "{text}");
    assert!(text.contains("ok       fix:"), "{text}");
    assert!(text.contains("FAILED   gone") && text.contains("hint: install it"), "{text}");
    assert!(text.contains("exited with code 3") && text.contains("***") && !text.contains("hunter2"), "{text}");
    let report = json_of(&home.pml(&["doctor", "--json"]));
    assert_eq!((&report["servers"][0]["ok"], &report["sandbox"]["safe"]), (&json!(true), &json!(true)), "{report}");
}

#[test]
fn a_configuration_that_is_wrong_is_refused_with_its_line() {
    #[rustfmt::skip]
    let table = [
        ("[servers.a]\ncomand = \"x\"", &["line 2", "did you mean `command`?"][..]),
        ("[servers.a]\ncommand = \"x\"\n[servers.a]\ncommand = \"y\"", &["line 3", "duplicate"]),
        ("[servers]\na = 1", &["line 2"]),
        ("[servers.a]\nheaders = { Authorization = \"Bearer sk-12345\" }\nurl = 5", &["line 3"]),
    ];
    for (config, parts) in table {
        let output = Home::new(config).pml(&["run", "-e", "return 1"]);
        assert_eq!(output.status.code(), Some(2), "{config}");
        assert!(!stderr(&output).contains("sk-12345"), "{output:?}");
        for part in parts {
            assert!(stderr(&output).contains(part), "{config}: {}", stderr(&output));
        }
    }
    let home = Home::with_fixture("");
    fs::write(home.path().join("bad.json"), "{\n \"mcpServers\": {\n").unwrap();
    let output = home.pml(&["--mcp-config", "bad.json", "run", "-e", "return 1"]);
    assert!(stderr(&output).contains("bad.json") && stderr(&output).contains("line"), "{output:?}");
    let twice = format!("{{\"mcpServers\": {{\"fix\": {{\"command\": {:?}}}}}}}", fixture_path().to_str().unwrap());
    fs::write(home.path().join("twice.json"), twice).unwrap();
    let output = home.pml(&["--mcp-config", "twice.json", "run", "-e", "return 1"]);
    assert!(stderr(&output).contains("server `fix` is configured already"), "{output:?}");
}

#[test]
fn a_variable_that_is_missing_is_that_servers_trouble() {
    let home = Home::with_fixture("[servers.other]\nurl = \"https://example.org/${NOT_SET_AT_ALL}\"");
    let program =
        "try { await mcp.other.x({}) } catch (e) { return [e.code, e.message, await mcp.fix.echo({ text: 'fine' })] }";
    let value = json_of(&home.pml(&["run", "--json", "-e", program]));
    assert_eq!(value["result"][0], "PROVIDER_INIT_FAILED", "{value}");
    assert!(value["result"][1].as_str().unwrap().contains("`NOT_SET_AT_ALL` is not set"), "{value}");
    assert_eq!(value["result"][2], "fine");
}

#[test]
fn a_folder_that_cannot_be_written_stops_nothing() {
    let home = Home::with_fixture("");
    fs::write(home.path().join("file"), "").unwrap();
    let output = home.pml(&["--data-dir", "file/below", "run", "-e", "return await mcp.fix.echo({ text: 'x' })"]);
    assert_eq!(stdout(&output).trim(), "x", "{output:?}");
    assert!(stderr(&output).contains("there is no audit log"), "{output:?}");
}

#[test]
fn a_server_that_hangs_costs_nothing_where_it_is_not_used() {
    let home = Home::with_fixture("[servers.hung]\ncommand = \"sleep\"\nargs = [\"1000\"]\n");
    let begun = std::time::SystemTime::now();
    let output = home.pml(&["run", "-e", "return await mcp.fix.echo({ text: 'x' })"]);
    assert_eq!(stdout(&output).trim(), "x", "{output:?}");
    assert!(begun.elapsed().unwrap() < std::time::Duration::from_secs(30));
}

#[test]
fn files_with_tokens_are_for_their_owner_only() {
    let home = Home::empty();
    assert!(home.pml(&["server", "add", "a", "--env", "TOKEN=sk-12345", "--", "x"]).status.success());
    let file = home.config();
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn arguments_and_variables_of_a_server_are_those_of_no_other_process() {
    let fixture = fixture_path();
    let script = format!("{}; true", fixture.to_str().unwrap());
    for isolation in ["shared", "per_call"] {
        let home = Home::new(&format!(
            "[servers.fix]\ncommand = \"sh\"\nisolation = \"{isolation}\"\n\
            args = [\"-c\", {script:?}, \"sh\", \"--token=hunter2hunter2\"]\nenv = {{ API_KEY = \"hunter3hunter3\" }}\n"
        ));
        let mut peer = home.connected(Era::Legacy).await;
        let code = "await mcp.fix.sleep({ ms: 1500 })";
        let run = peer.ask("tools/call", json!({"name": "execute_code", "arguments": {"code": code}})).await;
        let read = |pid: u32, file: &str| {
            String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default()).into_owned()
        };
        let (mut servers, mut keepers) = (0, 0);
        eventually(|| {
            for pid in descendants(peer.pid()).into_iter().chain([peer.pid()]) {
                let (command, variables) = (read(pid, "cmdline"), read(pid, "environ"));
                if command.starts_with("pml") {
                    assert!(!command.contains("hunter") && !variables.contains("hunter"), "{isolation}: {command}");
                }
                servers += u32::from(command.contains("hunter2hunter2") && variables.contains("hunter3hunter3"));
                keepers += u32::from(command.starts_with("pml-server"));
            }
            servers > 0 && keepers > 0
        })
        .await;
        assert_eq!(peer.answer(&run).await["result"]["isError"], false, "{isolation}");
        peer.end().await;
    }
}

#[test]
fn long_arguments_reach_a_server_and_a_zero_byte_is_refused() {
    let fixture = fixture_path();
    // Longer than a pipe holds.
    let home = Home::new(&format!(
        "[servers.fix]\ncommand = {fixture:?}\nenv = {{ LONG = {:?}, PLAIN = \"a b\\nc\" }}\n[servers.zero]\ncommand = {fixture:?}\nenv = {{ A = \"a\\u0000b\" }}\n",
        "x".repeat(100_000)
    ));
    let code = "let zero; try { await mcp.zero.echo({ text: 'x' }) } catch (e) { zero = e.message }
        return [(await mcp.fix.env({ name: 'LONG' })).length, await mcp.fix.env({ name: 'PLAIN' }), zero]";
    let outcome = json_of(&home.pml(&["run", "--json", "-e", code]));
    assert_eq!((&outcome["result"][0], &outcome["result"][1]), (&json!(100_000), &json!("a b\nc")), "{outcome}");
    assert!(outcome["result"][2].as_str().unwrap().contains("a zero byte"), "{outcome}");
}

#[tokio::test]
async fn rules_that_match_nothing_are_said_when_pml_starts_when_they_change_and_by_doctor() {
    let fixture = fixture_path();
    let config = |policy: &str| {
        let server = |name: &str| format!("[servers.{name}]\ncommand = {fixture:?}\n");
        let broken = "[servers.gone]\ncommand = \"no-such-thing\"\n";
        let off = "[servers.off]\ncommand = \"x\"\nenabled = false\ndisabled_tools = [\"y\"]\n";
        format!("{}disabled_tools = [\"slep\"]\n{broken}{off}[policy]\n{policy}\n", server("fix"))
    };
    let home = Home::new(&config("deny = [\"fix:ecko\", \"fxi:*\", \"fix:crash\", \"gone:anything\"]"));
    let log = home.path().join("log");
    let peer = home.stdio_logged(Era::Modern, &[], fs::File::create(&log).unwrap());
    let said = || fs::read_to_string(&log).unwrap();
    let rule = |pattern: &str, near: &str| format!("the rule `{pattern}` in deny of [policy] matches no tool{near}");
    let expected = [
        rule("fix:ecko", "; did you mean `fix:echo`?"),
        rule("fxi:*", "; did you mean `fix:*`?"),
        rule("fix:slep", "; did you mean `fix:sleep`?"),
    ];
    eventually(|| expected.iter().all(|line| said().contains(line))).await;
    home.configure(&config("deny = [\"fix:ecko\", \"fix:hangg\"]"));
    eventually(|| said().contains(&rule("fix:hangg", "; did you mean `fix:hang`?"))).await;
    assert_eq!(said().matches("fix:ecko").count(), 1, "once is enough: {}", said());
    assert!(!said().contains("`gone:") && !said().contains("`off:") && !said().contains("`fix:crash`"), "{}", said());
    peer.end().await;

    let text = stdout(&home.pml(&["doctor", "servers"]));
    assert!(text.contains(&format!("warning: {}", rule("fix:hangg", "; did you mean `fix:hang`?"))), "{text}");
    let report = json_of(&home.pml(&["doctor", "servers", "--json"]));
    assert_eq!(report["idle_rules"][0]["nearest"], "fix:echo", "{report}");
    home.configure(&format!("[servers.fix]\ncommand = {fixture:?}\n[policy]\nallow = [\"fix:ech\"]\n"));
    let doctor = home.pml(&["doctor", "servers"]);
    assert!(doctor.status.success() && stdout(&doctor).contains("in allow of [policy]"), "{doctor:?}");
}
