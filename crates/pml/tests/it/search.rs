//! Tools that are searched for: by agents, by programs, by people, and in place of one that is not there.

use std::time::Duration;

use pml::broker::Policy;
use pml_wire::ErrorCode;
use serde_json::json;

use super::{
    cli::{json_of, stderr, stdout},
    gateway::{Gateway, Way, fixture, stdio},
    peer::Home,
    support::{Sandbox, code},
};

fn denying(patterns: &[&str]) -> Policy {
    Policy { deny: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(), ..Policy::default() }
}

#[tokio::test]
async fn a_program_finds_a_tool_and_calls_it() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    let program = r#"import { searchTools, callTool } from "pml";
        const found = await searchTools("add two numbers", 3);
        const { result } = await callTool(found[0].name, { a: 20, b: 22 });
        return { found, result }"#;
    let value = gateway.value(program).await;
    let first = &value["found"][0];
    assert_eq!((&first["name"], &value["result"]), (&json!("fix:add"), &json!(42)), "{value}");
    assert_eq!(first["inputSchema"]["required"], json!(["a", "b"]), "{first}");
    assert!(first["signature"].as_str().unwrap().starts_with("mcp.fix.add(args: { a: number; b: number })"), "{first}");
    assert!(first["description"].is_string() && first["score"].as_f64() > Some(0.3), "{first}");
    assert_eq!(value["found"].as_array().unwrap().len(), 3);
    // Searches are no calls of tools: they are not among them.
    assert_eq!(gateway.run(program).await.calls.len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn questions_of_programs_are_checked() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    #[rustfmt::skip]
    let table = [
        // question                              kind         said
        ("'x', 0",                               "ToolError", "`limit` is 0, but must be a whole number between 1 and 50"),
        ("'x', 51",                              "ToolError", "between 1 and 50"),
        ("'x', 1.5",                             "ToolError", "a whole number"),
        ("'x', NaN",                             "ToolError", "`limit` is NaN"),
        ("'x', 5, Infinity",                     "ToolError", "`threshold` is infinite"),
        ("'x', 5, -0.1",                         "ToolError", "between 0 and 1"),
        ("",                                     "TypeError", "searchTools takes a text"),
        ("{ toString: () => 'x' }",              "TypeError", "searchTools takes a text"),
        ("'x', { limit: 5 }",                    "TypeError", "optionally a limit and a threshold"),
    ];
    for (question, kind, said) in table {
        let program =
            format!("try {{ await pml.searchTools({question}) }} catch (e) {{ return [e.name, e.code, e.message] }}");
        let error = gateway.value(&program).await;
        assert_eq!(error[0], kind, "{question}: {error}");
        assert!(error[2].as_str().unwrap().contains(said), "{question}: {error}");
        assert!(kind == "TypeError" || error[1] == "INVALID_ARGUMENTS", "{question}: {error}");
    }
    // What says nothing finds nothing, and what is not given is as if it were not there.
    let program = "const counts = [];
        for (const q of ['', '?!', '🦓', '\\u0000']) counts.push((await pml.searchTools(q)).length);
        counts.push((await pml.searchTools('é'.repeat(500))).length <= 10);
        counts.push((await pml.searchTools('add two numbers. ' + 'x'.repeat(1e6)))[0].name === 'fix:add');
        counts.push((await pml.searchTools('text', null, undefined)).length > 0);
        return counts";
    assert_eq!(gateway.value(program).await, json!([0, 0, 0, 0, true, true, true]));
    gateway.stop().await;
}

#[tokio::test]
async fn what_may_not_be_called_is_not_found_or_suggested() {
    let data_dir = tempfile::tempdir().unwrap();
    let servers = vec![fixture(Way::Stdio, "both", &[])];
    let gateway = Gateway::with(servers, denying(&["fix:add", "fix:echo"]), data_dir);
    let found =
        gateway.value("return (await pml.searchTools('add two numbers', 50, 0)).map((tool) => tool.name)").await;
    let found: Vec<_> = found.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(!found.is_empty() && !found.contains(&"fix:add") && !found.contains(&"fix:echo"), "{found:?}");
    for program in ["await mcp.fix.ecko({})", "await mcp.fox.echo({})", "await mcp.fix.add_numbers({})"] {
        let (_, message) = gateway.error(program).await;
        assert!(!message.contains("fix:add`") && !message.contains("fix:echo`"), "{program}: {message}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_told_by_what_does_the_same() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    #[rustfmt::skip]
    let table = [
        ("await mcp.fix.sum_of_two_numbers({})",   "nearest in meaning: `fix:get-sum`, `fix:add`"),
        ("await mcp.calc.sum_of_two_numbers({})",  "there are `fix`; nearest in meaning: `fix:get-sum`, `fix:add`"),
        ("await mcp.fix.ecko({})",                 "did you mean `fix:echo`?"),
    ];
    for (program, expected) in table {
        let (code, message) = gateway.error(program).await;
        assert_eq!(code, ErrorCode::PreflightFailed);
        assert!(message.contains(expected), "{program}: {message}");
        // The same where the program could not be read beforehand.
        let program = program.replace("mcp.", "((m) => m)(mcp).");
        let (code, message) = gateway.error(&program).await;
        assert_eq!(code, ErrorCode::ToolNotFound, "{message}");
        assert!(message.contains(expected), "{program}: {message}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn searches_are_counted_with_the_calls() {
    let mut gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    gateway.budget.calls = 5;
    let program = "const codes = [];
        for (let i = 0; i < 7; i++) await pml.searchTools('x').then(() => codes.push('ok'), (e) => codes.push(e.code));
        return codes";
    let expected = json!(["ok", "ok", "ok", "ok", "ok", "CALL_BUDGET_SPENT", "CALL_BUDGET_SPENT"]);
    assert_eq!(gateway.value(program).await, expected);
    let outcome = gateway.run("for (;;) try { await pml.searchTools('x') } catch {}").await;
    assert_eq!(code(&outcome), Some(ErrorCode::CallBudgetSpent), "{outcome:?}");
    // One that nobody waits for holds nothing up.
    assert_eq!(gateway.value("pml.searchTools('x'); return 1").await, 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_search_follows_what_servers_list() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    let program = r#"const names = async () => (await pml.searchTools("added 1", 50, 0)).map((tool) => tool.name);
        const before = (await names()).includes("fix:added_1");
        await mcp.fix.change_list({});
        for (let i = 0; i < 200 && !(await names()).includes("fix:added_1"); i++) await new Promise((go) => setTimeout(go, 20));
        return [before, (await names())[0]]"#;
    assert_eq!(gateway.value(program).await, json!([false, "fix:added_1"]));
    gateway.stop().await;
}

#[tokio::test]
async fn a_server_that_does_not_come_holds_no_search_up_for_long() {
    let servers = vec![
        fixture(Way::Stdio, "both", &[]),
        stdio("gone", "/no/such/program", &[]),
        stdio("slow", "sleep", &["100"]),
    ];
    let mut gateway = Gateway::start(servers);
    gateway.budget.timeout = Duration::from_secs(25);
    // Less than the slow one is given to start.
    let program = "return (await pml.searchTools('add two numbers'))[0].name";
    let found = tokio::time::timeout(Duration::from_secs(15), gateway.value(program)).await;
    assert_eq!(found.unwrap(), "fix:add");
    gateway.stop().await;
}

#[tokio::test]
async fn a_program_cannot_get_at_the_way_to_the_search() {
    let sandbox = Sandbox::start();
    // The handler of this sandbox answers what it was asked.
    let program = "String.prototype.toString = Array.prototype.map = () => { throw 1 };
        Object.defineProperty(Object.prototype, 'limit', { get() { throw 2 }, configurable: true });
        return [await pml.searchTools('a b', 5, 0.5), await pml.searchTools('c'), Object.isFrozen(pml)]";
    let expected = json!([{"query": "a b", "limit": 5.0, "threshold": 0.5}, {"query": "c"}, true]);
    assert_eq!(sandbox.value(program).await, expected);
    sandbox.stop().await;
}

#[test]
fn people_search_on_the_command_line() {
    let home = Home::with_fixture("[policy]\ndeny = [\"fix:echo\"]");
    let output = home.pml(&["search", "add", "two", "numbers"]);
    let text = stdout(&output);
    let first = text.lines().next().unwrap_or_default();
    assert!(first.contains("fix:add") && first.starts_with("0."), "{text}");
    assert!(text.lines().count() <= 10 && output.status.success(), "{text}");
    let explained = stdout(&home.pml(&["search", "--explain", "--limit", "1", "add two numbers"]));
    assert!(
        explained.contains("words 0.") && explained.contains("meaning 0.") && explained.contains("numbers"),
        "{explained}"
    );

    let report =
        json_of(&home.pml(&["search", "--json", "--explain", "--limit", "2", "--threshold", "0", "add two numbers"]));
    let tool = &report["tools"][0];
    assert_eq!(
        (&tool["name"], &tool["server"], &report["query"]),
        (&json!("fix:add"), &json!("fix"), &json!("add two numbers"))
    );
    assert!(tool["signature"].is_string() && tool["inputSchema"].is_object() && report["searched"].as_u64() > Some(10));
    let shares = tool["explanation"]["shares"].as_array().unwrap();
    let part = |half: &str| shares.iter().map(|share| share[half].as_f64().unwrap()).sum::<f64>();
    let total = |half: &str| tool["explanation"][half].as_f64().unwrap();
    assert!(
        (part("words") - total("words")).abs() < 0.02 && (part("meaning") - total("meaning")).abs() < 0.02,
        "{tool}"
    );
    let all = home.pml(&["search", "--json", "--limit", "50", "--threshold", "0", "echo the text it is given"]);
    assert!(!stdout(&all).contains("fix:echo"), "what may not be called is shown");

    #[rustfmt::skip]
    let table: [(&[&str], i32, &str); 8] = [
        (&["search"],                                  2, "QUERY"),
        (&["search", " "],                             2, "the query is empty"),
        (&["search", "x", "--limit", "-1"],            2, "`limit` is -1, but must be"),
        (&["search", "x", "--threshold", "7"],         2, "between 0 and 1"),
        (&["search", "x", "--limit", "many"],          2, "invalid value 'many'"),
        (&["search", "x", "--server", "fox"],          2, "did you mean `fix`?"),
        (&["search", "?!"],                            0, "nothing found among"),
        (&["search", &"x ".repeat(501)],               0, "characters of the query were read"),
    ];
    for (args, code, said) in table {
        let output = home.pml(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_search_on_the_command_line_tells_of_servers_that_do_not_start() {
    let home = Home::with_fixture("[servers.gone]\ncommand = \"/no/such/program\"");
    let output = home.pml(&["search", "add two numbers", "--json"]);
    let report = json_of(&output);
    assert_eq!((&report["tools"][0]["name"], &report["not_ready"]), (&json!("fix:add"), &json!(["gone"])), "{report}");
    assert!(output.status.success() && stderr(&output).contains("gone"), "{output:?}");
    let none = home.pml(&["search", "add two numbers", "--server", "gone"]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    let empty = Home::new("");
    assert_eq!(empty.pml(&["search", "x"]).status.code(), Some(2));
}

#[test]
fn a_model_that_cannot_be_used_is_told_and_the_table_answers() {
    let home = Home::with_fixture("[search]\nmodel_dir = \"no/such/model\"");
    let output = home.pml(&["search", "add two numbers"]);
    assert!(output.status.success() && stdout(&output).contains("fix:add"), "{output:?}");
    let told = stderr(&output);
    assert!(told.contains("no/such/model` cannot be used") && told.contains("built-in table"), "{told}");
    let doctor = home.pml(&["doctor", "search"]);
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    assert!(stdout(&doctor).contains("cannot be used") && stdout(&doctor).contains("hint: "), "{doctor:?}");
    let home = Home::with_fixture("[search]\nencoder = false");
    assert!(stdout(&home.pml(&["search", "add two numbers"])).contains("fix:add"));
    let explained = stdout(&home.pml(&["search", "--explain", "--limit", "1", "add two numbers"]));
    assert!(!explained.contains("(the whole)"), "what the encoder has read: {explained}");
    let doctor = home.pml(&["doctor", "search"]);
    assert!(doctor.status.success() && stdout(&doctor).contains("the encoder is switched off"), "{doctor:?}");
    let doctor = json_of(&Home::new("").pml(&["doctor", "search", "--json"]));
    assert_eq!((&doctor["search"]["with"], &doctor["search"]["error"]), (&json!("encoder"), &json!(null)), "{doctor}");
}
