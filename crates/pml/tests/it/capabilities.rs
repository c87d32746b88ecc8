//! Programs that worked once, kept as tools with names: by the real binary, with real servers.

use std::{fs, process::Output};

use pml_testkit::fixture_path;
use serde_json::{Value, json};

use super::{
    cli::{stderr, stdout},
    peer::{ERAS, Era, Home, LEGACY, Peer, initialize},
};

/// Two servers.
fn home() -> Home {
    home_with("")
}

fn home_with(more: &str) -> Home {
    let fixture = fixture_path();
    let command = fixture.to_str().unwrap();
    Home::new(&format!(
        "{more}\n[sandbox]\nmode = \"subprocess\"\n[servers.fix]\ncommand = {command:?}\ntrusted = true\n[servers.two]\ncommand = {command:?}\n"
    ))
}

/// Says hello with a sum, by two servers.
const GREETING: &str = "const sum = await mcp.fix.add({ a: 2, b: 40 });\n\
    const said = await mcp.two.echo({ text: 'Hello' });\n\
    return { said, sum }";

async fn saved(peer: &mut Peer, code: &str, name: &str) -> Value {
    let arguments = json!({ "code": code, "intent": "greet with a sum", "save_as": name });
    let result = peer.call("execute_code", arguments).await;
    assert_eq!(result["isError"], false, "{result}");
    result["structuredContent"]["saved"].clone()
}

async fn failure(peer: &mut Peer, code: &str) -> String {
    let result = peer.call("execute_code", json!({ "code": code })).await;
    assert_eq!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

fn parsed(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_str(&stdout(output)).unwrap()
}

/// The traces, newest first.
fn traces(home: &Home) -> Vec<Value> {
    parsed(&home.pml(&["trace", "list", "--json"]))["traces"].as_array().unwrap().clone()
}

#[tokio::test]
async fn what_one_session_solved_is_a_tool_in_the_next() {
    let home = home();
    let mut first = home.connected(Era::Legacy).await;
    let told = saved(&mut first, GREETING, "demo.greet").await;
    assert_eq!((&told["name"], &told["version"]), (&json!("demo.greet"), &json!(1)), "{told}");
    let properties = &told["parameters"]["properties"];
    assert_eq!(properties["a"], json!({ "type": "number", "default": 2 }), "{told}");
    assert_eq!(properties["text"], json!({ "type": "string", "default": "Hello" }), "{told}");
    first.end().await;

    let mut second = home.connected(Era::Modern).await;
    let found = second.call("search_tools", json!({ "query": "greet with a sum" })).await;
    assert!(found["content"][0]["text"].as_str().unwrap().contains("demo_greet"), "{found}");
    let value = second.value("return await mcp.capabilities.demo_greet({ a: 1, text: 'Bye' })").await;
    assert_eq!(value, json!({ "said": "Bye", "sum": 41 }), "what is left out is as it was");
    let value =
        second.value("const { result } = await pml.callTool('capabilities:demo_greet', { b: 1 }); return result").await;
    assert_eq!(value, json!({ "said": "Hello", "sum": 3 }));
    let wrong = failure(&mut second, "return await mcp.capabilities.demo_greet({ a: 'x' })").await;
    assert!(wrong.contains("PREFLIGHT_FAILED") || wrong.contains("INVALID_ARGUMENTS"), "{wrong}");
    second.end().await;

    // The traces are linked.
    let list = parsed(&home.pml(&["trace", "list", "--json", "--limit", "50"]));
    let all = list["traces"].as_array().unwrap();
    let ids: Vec<_> = all.iter().map(|trace| trace["traceId"].as_str().or(trace["id"].as_str()).unwrap()).collect();
    let whole: Vec<_> = ids.iter().map(|id| parsed(&home.pml(&["trace", "show", id, "--json"]))).collect();
    let children: Vec<_> = whole.iter().filter(|trace| trace["entry"] == "capability").collect();
    assert_eq!(children.len(), 2, "{list}");
    for child in children {
        let name = child["capabilityId"].as_str().unwrap();
        assert!(name.starts_with("local.default.demo.greet."), "{child}");
        let parent = whole.iter().find(|trace| trace["traceId"] == child["parentTraceId"]).expect("a parent");
        assert_eq!(parent["taskResults"][0]["tool"], "capabilities:demo_greet", "{parent}");
        assert_eq!(child["taskResults"].as_array().unwrap().len(), 2, "{child}");
    }
    let shown = parsed(&home.pml(&["capability", "show", "demo.greet", "--json"]));
    assert_eq!((&shown["stats"]["runs"], &shown["stats"]["failed"]), (&json!(2), &json!(0)), "{shown}");
    let tools: Vec<_> = shown["tools"].as_array().unwrap().iter().map(|tool| tool["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["fix:add", "two:echo"]);
}

#[tokio::test]
async fn a_capability_reaches_no_more_than_it_was_saved_with() {
    let home = home();
    let mut peer = home.connected(Era::Legacy).await;
    // Which tool is called depends on the arguments.
    let code = "return await mcp.fix[args.tool]({ text: 'x' })";
    let arguments = json!({ "code": code, "args": { "tool": "echo" }, "save_as": "demo.any" });
    let result = peer.call("execute_code", arguments).await;
    assert_eq!(result["structuredContent"]["saved"]["name"], "demo.any", "{result}");
    assert_eq!(peer.value("return await mcp.capabilities.demo_any({ tool: 'echo' })").await, "x");
    let refused = failure(&mut peer, "return await mcp.capabilities.demo_any({ tool: 'fail' })").await;
    assert!(
        refused.contains("CAPABILITY_FAILED") && refused.contains("not among the tools of the capability"),
        "{refused}"
    );
    peer.end().await;
    // Nor more than whoever calls it may.
    let home = home_with("[policy]\ndeny = [\"two:*\"]");
    let mut peer = home.connected(Era::Legacy).await;
    let told = saved(&mut peer, "return await mcp.fix.echo({ text: 'x' })", "demo.one").await;
    assert_eq!(told["version"], 1, "{told}");
    peer.end().await;
    home.configure(&fs::read_to_string(home.config()).unwrap().replace("two:*", "fix:*"));
    let mut peer = home.connected(Era::Legacy).await;
    let refused = failure(&mut peer, "return await mcp.capabilities.demo_one({})").await;
    assert!(refused.contains("POLICY_DENIED") || refused.contains("does not allow"), "{refused}");
    peer.end().await;
}

#[tokio::test]
async fn cycles_depth_and_budgets_hold_through_all_levels() {
    let home = home_with("[limits]\ncalls = 40");
    let mut peer = home.connected(Era::Legacy).await;
    saved(&mut peer, "return await mcp.fix.echo({ text: 'x' })", "deep.n0").await;
    // Each calls the one before.
    for level in 1..=9 {
        let code = format!("return await mcp.capabilities.deep_n{}({{}})", level - 1);
        let result = peer.call("execute_code", json!({ "code": code, "save_as": format!("deep.n{level}") })).await;
        let is_too_deep = result.to_string().contains("NESTING_TOO_DEEP");
        // The program itself is the outermost run, and level n nests n more.
        assert_eq!(is_too_deep, level > 8, "level {level}: {result}");
    }
    // A capability that would call itself, directly or through another, is not kept.
    let file = home.path().join("self.ts");
    for callee in ["deep_n0", "deep_n1"] {
        fs::write(&file, format!("return await mcp.capabilities.{callee}({{}})")).unwrap();
        let tool = format!("capabilities:{callee}");
        let output = home.pml(&["capability", "edit", "deep.n0", "--code", file.to_str().unwrap(), "--tool", &tool]);
        assert!(!output.status.success() && stderr(&output).contains("CAPABILITY_CYCLE"), "{output:?}");
    }
    let code = "return await mcp.capabilities.deep_n1({})";
    let result = peer.call("execute_code", json!({ "code": code, "save_as": "deep.n0" })).await;
    assert!(result.to_string().contains("would call itself: deep_n0 calls deep_n1 calls deep_n0"), "{result}");

    // Calls are counted together: each of these is one call of the program and thirty of the capability.
    let many = "for (let n = 0; n < 30; n++) await mcp.fix.echo({ text: 'x' }); return 'done'";
    saved(&mut peer, many, "deep.many").await;
    assert_eq!(peer.value("return await mcp.capabilities.deep_many({})").await, "done");
    let spent =
        failure(&mut peer, "await mcp.capabilities.deep_many({}); return await mcp.capabilities.deep_many({})").await;
    assert!(spent.contains("CALL_BUDGET_SPENT"), "{spent}");
    peer.end().await;
}

#[tokio::test]
async fn many_parents_at_once_do_not_wait_for_each_other() {
    // One program may compute, and one call may be in flight.
    let home = home_with("[gateway]\nconcurrent_runs = 1\n[limits]\ncalls_in_flight = 1");
    let server = home.http(&["--no-token"]).await;
    let client = server.client(Era::Legacy).await;
    let code = "await mcp.fix.sleep({ ms: 5 }); return await mcp.two.echo({ text: 'x' })";
    let result = client.call("execute_code", json!({ "code": code, "save_as": "many.one" })).await;
    assert_eq!(result["structuredContent"]["saved"]["version"], 1, "{result}");
    let program = "return await Promise.all([1, 2, 3].map(() => mcp.capabilities.many_one({})))";
    let runs = (0..32).map(|_| client.value(program));
    for value in futures_util::future::join_all(runs).await {
        assert_eq!(value, json!(["x", "x", "x"]));
    }
    server.end().await;
}

#[tokio::test]
async fn a_run_that_is_cancelled_takes_its_capabilities_with_it() {
    let home = home();
    let mut peer = home.connected(Era::Legacy).await;
    let code = "await mcp.fix.sleep({ ms: args.ms }); return 1";
    let result = peer.call("execute_code", json!({ "code": code, "args": { "ms": 1 }, "save_as": "slow.nap" })).await;
    assert_eq!(result["structuredContent"]["saved"]["version"], 1, "{result}");
    let call = json!({ "name": "execute_code", "arguments": { "code": "return await mcp.capabilities.slow_nap({ ms: 60000 })" } });
    let id = peer.ask("tools/call", call).await;
    // The run that was saved has called it too.
    let is_started = |line: &&Value| line["event"] == "call.started" && line["tool"] == "fix:sleep";
    super::peer::eventually(|| home.audit_lines().iter().filter(is_started).count() == 2).await;
    peer.cancel(&id).await;
    super::peer::eventually(|| {
        traces(&home).iter().filter(|trace| trace.to_string().contains("CANCELLED")).count() == 2
    })
    .await;
    assert!(peer.is_up().await);
    peer.end().await;
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused_with_the_place() {
    let home = home();
    let mut peer = home.connected(Era::Legacy).await;
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let table = [
        (format!("const x = 1;\nreturn '{token}'.length"), "ok.name", "line 2"),
        ("return await pml.callTool('fix:echo', {}).then(() => 1)\n".to_owned(), "noname", "namespace.action"),
        ("return 1".to_owned(), "pml.x", "pml itself uses"),
        ("return 1".to_owned(), "capabilities.x", "pml itself uses"),
        ("return await mcp.fix.echo({ text: 'x' })".to_owned(), "fix.echo", "would be taken for the tool `fix:echo`"),
    ];
    for (code, name, part) in table {
        let result = peer.call("execute_code", json!({ "code": code, "save_as": name })).await;
        assert!(result.to_string().contains(part), "{name}: {result}");
    }
    // A kept result is not there in later runs; a run that fails is not kept; nor is what is too long.
    let long = peer.call("execute_code", json!({ "code": "return 'x'.repeat(200000)" })).await;
    let id = long["structuredContent"]["result_handle"]["id"].as_str().unwrap().to_owned();
    let code = format!("const before = 1;\nreturn (await pml.result('{id}')).length + before");
    let result = peer.call("execute_code", json!({ "code": code, "save_as": "ok.name" })).await;
    assert!(result.to_string().contains("line 2: the program reads a kept result"), "{result}");
    let result = peer.call("execute_code", json!({ "code": "throw new Error('no')", "save_as": "ok.name" })).await;
    assert!(result.to_string().contains("not saved as ok.name: the run failed"), "{result}");
    let result = peer
        .call(
            "execute_code",
            json!({ "code": format!("return 1 /* {} */", "x".repeat(10 << 20)), "save_as": "ok.name" }),
        )
        .await;
    assert!(result.to_string().contains("CODE_TOO_LARGE"), "{}", &result.to_string()[..500]);
    assert_eq!(parsed(&home.pml(&["capability", "list", "--json"]))["capabilities"], json!([]));
    peer.end().await;
}

#[test]
fn a_stored_program_is_kept_edited_renamed_and_removed() {
    let home = home();
    let ran = home.pml(&["run", "--intent", "greet with a sum", "-e", GREETING]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    let told = parsed(&home.pml(&["capability", "save", "--name", "demo.greet", "--json"]));
    assert_eq!((&told["version"], &told["new"]), (&json!(1), &json!(true)), "{told}");
    // With the values of the first run as defaults, it does what the program did.
    let run = |args: &[&str]| home.pml(&[&["capability", "run", "demo.greet", "--json"], args].concat());
    let direct = parsed(&home.pml(&["run", "--json", "-e", GREETING]));
    assert_eq!(parsed(&run(&[]))["result"], direct["result"]);
    assert_eq!(parsed(&run(&["--args", r#"{"a": 0}"#]))["result"]["sum"], 40);
    let wrong = run(&["--args", r#"{"a": "x"}"#]);
    assert!(
        wrong.status.code() == Some(2) && stderr(&wrong).contains("arguments of `demo.greet` are wrong"),
        "{wrong:?}"
    );
    assert_eq!(run(&["--args", "nonsense"]).status.code(), Some(2));
    let nobody = home.pml(&["capability", "run", "demo.gret"]);
    assert!(nobody.status.code() == Some(2) && stderr(&nobody).contains("did you mean `demo.greet`?"), "{nobody:?}");

    let file = home.path().join("new.ts");
    fs::write(&file, "throw new Error('broken')").unwrap();
    assert!(home.pml(&["capability", "edit", "demo.greet", "--code", file.to_str().unwrap()]).status.success());
    assert_eq!(run(&[]).status.code(), Some(1));
    let shown = parsed(&home.pml(&["capability", "show", "demo.greet", "--json"]));
    assert_eq!((&shown["version"], shown["versions"].as_array().unwrap().len()), (&json!(2), 2), "{shown}");
    assert_eq!((&shown["stats"]["runs"], &shown["stats"]["failed"]), (&json!(3), &json!(1)), "{shown}");

    assert!(home.pml(&["capability", "rename", "demo.greet", "demo.hello"]).status.success());
    let renamed = home.pml(&["capability", "show", "demo.greet", "--json"]);
    assert!(stderr(&renamed).contains("`demo.greet` is now called `demo.hello`"), "{renamed:?}");
    assert_eq!(parsed(&renamed)["former_names"], json!(["demo.greet"]));
    // The old name leads to it, also in programs.
    fs::write(&file, "return 'again'").unwrap();
    assert!(home.pml(&["capability", "edit", "demo.hello", "--code", file.to_str().unwrap()]).status.success());
    let by_old = parsed(&home.pml(&["run", "--json", "-e", "return await mcp.capabilities.demo_greet({})"]));
    assert_eq!(by_old["result"], "again", "{by_old}");
    assert!(home.pml(&["capability", "deprecate", "demo.hello", "--reason", "use demo.other"]).status.success());
    let used = parsed(&home.pml(&["run", "--json", "-e", "return await mcp.capabilities.demo_hello({})"]));
    assert!(used["warnings"].to_string().contains("deprecated: use demo.other"), "{used}");

    let asked = home.pml(&["capability", "remove", "demo.hello"]);
    assert!(!asked.status.success(), "nobody was there to ask");
    assert!(home.pml(&["capability", "remove", "demo.hello", "--yes"]).status.success());
    assert_eq!(parsed(&home.pml(&["capability", "list", "--json"]))["capabilities"], json!([]));
    let gone = home.pml(&["run", "-e", "return await mcp.capabilities.demo_hello({})"]);
    assert!(!gone.status.success());
}

#[test]
fn the_shell_finds_lists_and_types_capabilities_and_a_workflow_runs_them() {
    let home = home();
    assert!(home.pml(&["run", "--intent", "greet with a sum", "-e", GREETING]).status.success());
    assert!(home.pml(&["capability", "save", "--name", "demo.greet"]).status.success());
    for command in [&["search", "greet somebody with a sum"][..], &["tools"], &["types"]] {
        let output = home.pml(command);
        assert!(output.status.success() && stdout(&output).contains("demo_greet"), "{command:?}: {output:?}");
    }
    let file = home.path().join("graph.json");
    let graph = json!({ "tasks": [
        { "id": "greeting", "capability": "demo.greet", "args": { "a": 1 } },
        { "id": "again", "tool": "two:echo", "args": { "text": "$OUTPUT[greeting].said" } },
    ] });
    fs::write(&file, graph.to_string()).unwrap();
    let told = parsed(&home.pml(&["workflow", "run", file.to_str().unwrap(), "--json"]));
    assert_eq!(told["results"]["greeting"]["sum"], 41, "{told}");
    assert_eq!(told["results"]["again"], told["results"]["greeting"]["said"], "{told}");
}

#[test]
fn capabilities_travel_as_files_that_can_be_reviewed() {
    let (home, other) = (home(), home());
    assert!(home.pml(&["run", "--intent", "greet with a sum", "-e", GREETING]).status.success());
    assert!(home.pml(&["capability", "save", "--name", "demo.greet"]).status.success());
    let file = other.path().join("shared.toml");
    assert!(home.pml(&["capability", "export", "--output", file.to_str().unwrap()]).status.success());
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("const sum = await mcp.fix.add({ a: args.a, b: args.b });\n"), "{text}");
    let asked = other.pml(&["capability", "import", file.to_str().unwrap()]);
    assert!(!asked.status.success() && stderr(&asked).contains("| return { said, sum }"), "{asked:?}");
    assert_eq!(parsed(&other.pml(&["capability", "list", "--json"]))["capabilities"], json!([]), "nobody said yes");
    let told = parsed(&other.pml(&["capability", "import", file.to_str().unwrap(), "--yes", "--json"]));
    assert_eq!(told["added"], 1, "{told}");
    let ran = parsed(&other.pml(&["capability", "run", "demo.greet", "--json", "--args", r#"{"text": "Bye"}"#]));
    assert_eq!(ran["result"]["said"], "Bye", "{ran}");
    // Code that somebody has changed is not what the hash says.
    fs::write(&file, text.replace("return { said, sum }", "return { sum }")).unwrap();
    let tampered = other.pml(&["capability", "import", file.to_str().unwrap(), "--yes"]);
    assert!(stderr(&tampered).contains("sha256"), "{tampered:?}");
}

#[tokio::test]
async fn an_exposed_capability_is_a_tool_of_its_own() {
    let home = home();
    assert!(home.pml(&["run", "--intent", "greet with a sum", "-e", GREETING]).status.success());
    assert!(home.pml(&["capability", "save", "--name", "demo.greet"]).status.success());
    for era in ERAS {
        let mut peer = home.stdio_with(era, &["--expose", "demo.greet"]);
        if era == Era::Legacy {
            peer.request("initialize", initialize(LEGACY[0])).await;
            peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        }
        let list = peer.request("tools/list", json!({})).await;
        let tools = list["result"]["tools"].as_array().unwrap();
        let own = tools.iter().find(|tool| tool["name"] == "demo_greet").unwrap_or_else(|| panic!("{list}"));
        assert_eq!(own["inputSchema"]["properties"]["text"]["default"], "Hello", "{own}");
        let result = peer.call("demo_greet", json!({ "text": "Bye" })).await;
        assert_eq!(result["structuredContent"]["result"], json!({ "said": "Bye", "sum": 42 }), "{result}");
        peer.end().await;
    }
    let wrong = home.pml(&["serve", "--expose", "nonsense"]);
    assert!(wrong.status.code() == Some(2) && stderr(&wrong).contains("code, passthrough or both"), "{wrong:?}");
}

#[tokio::test]
async fn a_capability_edited_while_it_runs_finishes_as_it_began() {
    let home = home();
    let mut peer = home.connected(Era::Legacy).await;
    let code = "await mcp.fix.sleep({ ms: args.ms }); return 'old'";
    let result = peer.call("execute_code", json!({ "code": code, "args": { "ms": 1 }, "save_as": "slow.nap" })).await;
    assert_eq!(result["structuredContent"]["saved"]["version"], 1, "{result}");
    let call = json!({ "name": "execute_code", "arguments": { "code": "return await mcp.capabilities.slow_nap({ ms: 4000 })" } });
    let id = peer.ask("tools/call", call).await;
    let started = || home.audit_lines().iter().filter(|line| line["tool"] == "fix:sleep").count() >= 3;
    super::peer::eventually(started).await;
    let file = home.path().join("new.ts");
    fs::write(&file, "return 'new ' + args.ms").unwrap();
    let edited = home.pml(&["capability", "edit", "slow.nap", "--code", file.to_str().unwrap()]);
    assert!(edited.status.success(), "{edited:?}");
    let answer = peer.answer(&id).await;
    assert_eq!(answer["result"]["structuredContent"]["result"], "old", "{answer}");
    // The other process has seen the edit by the time that it is asked for.
    let mut value = json!("old");
    for _ in 0..100 {
        let result =
            peer.call("execute_code", json!({ "code": "return await mcp.capabilities.slow_nap({ ms: 1 })" })).await;
        value = result["structuredContent"]["result"].clone();
        if value == "new 1" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(value, "new 1");
    peer.end().await;
}

/// Every capability that cannot do what it is called for says why, and no server hears of it.
#[tokio::test]
async fn bad_input_is_refused_with_a_clear_error_and_nothing_runs() {
    let home = home();
    let mut peer = home.connected(Era::Legacy).await;
    let adds = "return await mcp.fix.add({ a: 1, b: 1 })";
    for name in ["bad.itself", "bad.one", "bad.two", "bad.typed"] {
        saved(&mut peer, adds, name).await;
    }
    let file = home.path().join("new.ts");
    let edit = |name: &str, calls: &str| {
        let code = format!(
            "const first = await mcp.capabilities.{calls}({{}});\nreturn await mcp.fix.add({{ a: first, b: 1 }})"
        );
        fs::write(&file, code).unwrap();
        let tool = format!("capabilities:{calls}");
        home.pml(&["capability", "edit", name, "--code", file.to_str().unwrap(), "--tool", &tool])
    };
    for (name, calls, is_fine) in
        [("bad.itself", "bad_itself", false), ("bad.one", "bad_two", true), ("bad.two", "bad_one", false)]
    {
        let output = edit(name, calls);
        let is_cycle = stderr(&output).contains("CAPABILITY_CYCLE");
        assert!(output.status.success() == is_fine && is_cycle != is_fine, "{name}: {output:?}");
    }
    let calls = || home.audit_lines().iter().filter(|line| line["tool"] == "fix:add").count();
    let before = calls();
    let too_long = format!("{adds} /* {} */", "x".repeat(10 << 20));
    #[rustfmt::skip]
    let table = [
        // what is asked of execute_code                                                             code, and what is said
        (json!({ "code": too_long, "save_as": "bad.long" }),                                         "CODE_TOO_LARGE", "bytes"),
        (json!({ "code": "return await mcp.capabilities.bad_typed(args)", "args": { "a": "x" } }),   "INVALID_ARGUMENTS", "a: expected number, got \"x\""),
        (json!({ "code": "return await mcp.capabilities.bad_typed({ c: 1 })" }),                     "PREFLIGHT_FAILED", "c"),
        (json!({ "code": "return await mcp.capabilities.bad_typd({})" }),                            "PREFLIGHT_FAILED", "did you mean `capabilities:bad_typed`"),
    ];
    for (asked, code, said) in table {
        let result = peer.call("execute_code", asked).await;
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(result["isError"] == true && text.contains(code) && text.contains(said), "{code}: {text}");
        assert_eq!(calls(), before, "{code}: a server has heard of it");
    }
    // Names that would shadow a tool, a server of pml's own, or another capability in programs.
    for (name, said) in [
        ("fix.add", "would be taken for the tool `fix:add`"),
        ("capabilities.x", "pml itself uses `capabilities`"),
        ("pml.x", "pml itself uses `pml`"),
        ("bad_typed.x", ""),
        ("bad.typed_x", "would both be called `bad_typed_x` in programs"),
    ] {
        let result = peer.call("execute_code", json!({ "code": "return 1", "save_as": name })).await;
        let is_saved = result["structuredContent"]["saved"]["name"] == name;
        assert_eq!(is_saved, said.is_empty(), "{name}: {result}");
        assert!(result.to_string().contains(said), "{name}: {result}");
    }
    // A workflow with a capability is checked like one with tools: nothing of it runs.
    let tasks = json!([
        { "id": "good", "tool": "fix:add", "args": { "a": 1, "b": 1 } },
        { "id": "bad", "capability": "bad.typed", "args": { "a": "x" } },
    ]);
    let result = peer.call("execute_workflow", json!({ "workflow": { "tasks": tasks } })).await;
    assert!(result["isError"] == true && result.to_string().contains("expected number"), "{result}");
    assert_eq!(calls(), before);
    peer.end().await;
}
