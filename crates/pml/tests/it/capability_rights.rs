//! What a capability may use, who may save one, and what becomes of it when what it calls changes.

use std::{fs, process::Output};

use pml_testkit::fixture_path;
use serde_json::{Value, json};

use super::{
    cli::{stderr, stdout},
    peer::{Era, Home, Peer},
};

fn servers(names: &[&str]) -> String {
    let command = fixture_path().to_str().unwrap().to_owned();
    let server = |name: &&str| format!("[servers.{name}]\ncommand = {command:?}\ntrusted = true\n");
    names.iter().map(server).collect()
}

fn home_with(more: &str) -> Home {
    Home::new(&format!("{more}\n[sandbox]\nmode = \"subprocess\"\n{}", servers(&["fix", "two"])))
}

fn parsed(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_str(&stdout(output)).unwrap()
}

fn shown(home: &Home, name: &str) -> Value {
    parsed(&home.pml(&["capability", "show", name, "--json"]))
}

/// The tools that a capability may use.
fn tools(home: &Home, name: &str) -> Vec<String> {
    let shown = shown(home, name);
    shown["tools"].as_array().unwrap().iter().map(|tool| tool["tool"].as_str().unwrap().to_owned()).collect()
}

async fn execute(peer: &mut Peer, code: &str, args: Value, name: &str) -> Value {
    peer.call("execute_code", json!({ "code": code, "args": args, "intent": "try it", "save_as": name })).await
}

fn refused(output: &Output, part: &str) {
    assert!(!output.status.success() && stderr(output).contains(part), "{part}: {output:?}");
}

/// Asks for what is denied, for what fails, for what is not there, and for what is never sent.
const GREEDY: &str = "const tried = async (call) => { try { return await call() } catch (err) { return err.code } };\n\
    await tried(() => mcp.fix.echo({ text: 'x' }));\n\
    await tried(() => mcp[args.server].echo({ text: 'x' }));\n\
    await tried(() => mcp.fix.fail({ message: 'no' }));\n\
    await tried(() => mcp[args.server].sleep({ ms: 'no number' }));\n\
    await tried(() => mcp.fix[args.missing]({}));\n\
    return 1";

#[tokio::test]
async fn only_calls_that_were_permitted_and_answered_are_what_a_capability_may_use() {
    let home = home_with("[policy]\ndeny = [\"two:*\"]");
    let mut peer = home.connected(Era::Legacy).await;
    let args = json!({ "server": "two", "missing": "nothing" });
    let result = execute(&mut peer, GREEDY, args.clone(), "demo.greedy").await;
    assert_eq!(result["structuredContent"]["saved"]["version"], 1, "{result}");
    assert_eq!(tools(&home, "demo.greedy"), ["fix:echo", "fix:fail"], "a failure that a server answered with counts");
    peer.end().await;
    // The same from a stored trace.
    let ran = home.pml(&["run", "--args", &args.to_string(), "-e", GREEDY]);
    assert!(ran.status.success(), "{ran:?}");
    let saved = home.pml(&["capability", "save", "--name", "demo.stored"]);
    assert!(saved.status.success() && stderr(&saved).contains("the program of execution"), "{saved:?}");
    assert_eq!(tools(&home, "demo.stored"), ["fix:echo", "fix:fail"]);
    // What is allowed later is not what was reviewed.
    home.configure(&fs::read_to_string(home.config()).unwrap().replace("two:*", "two:add"));
    let call = "return await mcp.capabilities.demo_call({ server: 'two' })";
    let mut peer = home.connected(Era::Legacy).await;
    let result = execute(
        &mut peer,
        "return await mcp[args.server].echo({ text: 'x' })",
        json!({ "server": "fix" }),
        "demo.call",
    )
    .await;
    assert_eq!(result["structuredContent"]["saved"]["version"], 1, "{result}");
    let result = peer.call("execute_code", json!({ "code": call })).await;
    assert!(result.to_string().contains("not among the tools of the capability"), "{result}");
    peer.end().await;
}

#[tokio::test]
async fn who_may_not_call_a_capability_may_not_save_or_replace_it() {
    let home = home_with("");
    let mut peer = home.connected(Era::Legacy).await;
    let code = "return await mcp.two.echo({ text: 'x' })";
    assert_eq!(execute(&mut peer, code, json!({}), "team.report").await["structuredContent"]["saved"]["version"], 1);
    assert_eq!(shown(&home, "team.report")["versions"][0]["author"], "peer");
    peer.end().await;
    let text = fs::read_to_string(home.config()).unwrap();
    #[rustfmt::skip]
    let table = [
        // deny                     saved as        what is said
        ("capabilities:team_*",     "team.report",  "does not allow `capabilities:team_report`"),
        ("capabilities:team_*",     "team.other",   "does not allow `capabilities:team_other`"),
        ("two:echo",                "team.report",  "exists and uses `two:echo`"),
    ];
    for (deny, name, said) in table {
        home.configure(&format!("[policy]\ndeny = [{deny:?}]\n{text}"));
        let mut peer = home.connected(Era::Modern).await;
        let result = execute(&mut peer, "return await mcp.fix.echo({ text: 'mine' })", json!({}), name).await;
        assert!(
            result["isError"] == true
                && result.to_string().contains("POLICY_DENIED")
                && result.to_string().contains(said),
            "{deny} {name}: {result}"
        );
        peer.end().await;
    }
    home.configure(&text);
    assert_eq!(shown(&home, "team.report")["version"], 1);
    refused(&home.pml(&["capability", "show", "team.other"]), "there is no capability");
}

/// A program that runs a workflow, in which another program runs.
const WITH_WORKFLOW: &str = "import { executeWorkflow } from 'pml';\n\
    const done = await executeWorkflow({ tasks: [\n\
      { id: 'said', tool: 'two:echo', args: { text: 'x' } },\n\
      { id: 'sum', code: 'return await mcp.fix.add({ a: 1, b: 2 })' },\n\
    ] });\n\
    return done.results";

#[tokio::test]
async fn what_the_workflows_of_a_program_use_the_capability_may_use() {
    let home = home_with("");
    let expected = json!({ "said": "x", "sum": 3 });
    let mut peer = home.connected(Era::Legacy).await;
    let result = execute(&mut peer, WITH_WORKFLOW, json!({}), "demo.graph").await;
    assert_eq!(result["structuredContent"]["result"], expected, "{result}");
    assert_eq!(peer.value("return await mcp.capabilities.demo_graph({})").await, expected);
    peer.end().await;
    assert!(home.pml(&["run", "-e", WITH_WORKFLOW]).status.success());
    assert!(home.pml(&["capability", "save", "--name", "demo.stored"]).status.success());
    for name in ["demo.graph", "demo.stored"] {
        assert_eq!(tools(&home, name), ["fix:add", "pml:execute_workflow", "two:echo"], "{name}");
        assert_eq!(parsed(&home.pml(&["capability", "run", name, "--json"]))["result"], expected, "{name}");
    }
    // A workflow is no program.
    let file = home.path().join("graph.json");
    fs::write(&file, json!({ "tasks": [{ "id": "a", "tool": "fix:add", "args": { "a": 1, "b": 2 } }] }).to_string())
        .unwrap();
    let ran = parsed(&home.pml(&["workflow", "run", file.to_str().unwrap(), "--json"]));
    let id = ran["execution_id"].as_str().unwrap();
    refused(&home.pml(&["capability", "save", id, "--name", "demo.flow"]), "is a workflow");
}

#[tokio::test]
async fn a_resource_that_a_program_read_is_read_again_by_the_capability() {
    let home = Home::new(&format!("[sandbox]\nmode = \"subprocess\"\n{}", servers(&["fix"])));
    let code = "import { readResource } from 'pml';\nreturn await readResource('fixture://item/1')";
    let mut peer = home.connected(Era::Legacy).await;
    let result = execute(&mut peer, code, json!({}), "demo.item").await;
    assert_eq!(result["structuredContent"]["saved"]["version"], 1, "{result}");
    let value = result["structuredContent"]["result"].clone();
    assert_eq!(tools(&home, "demo.item"), ["fix:resource:fixture://item/1"]);
    assert_eq!(peer.value("return await mcp.capabilities.demo_item({})").await, value);
    peer.end().await;
    assert!(home.pml(&["run", "-e", code]).status.success());
    assert!(home.pml(&["capability", "save", "--name", "demo.stored"]).status.success());
    assert_eq!(tools(&home, "demo.stored"), ["fix:resource:fixture://item/1"]);
    assert_eq!(parsed(&home.pml(&["capability", "run", "demo.stored", "--json"]))["result"], value);
}

#[test]
fn what_is_written_by_hand_is_checked_before_it_is_kept() {
    let home = home_with("");
    let save = |name: &str, intent: &str, code: &str| {
        assert!(home.pml(&["run", "--intent", intent, "-e", code]).status.success());
        home.pml(&["capability", "save", "--name", name])
    };
    assert!(save("demo.one", "say it", "return await mcp.fix.echo({ text: 'x' })").status.success());
    assert!(save("demo.two", "add it", "return await mcp.capabilities.demo_one({})").status.success());
    let file = home.path().join("new.ts");
    let edit = |name: &str, code: &str, more: &[&str]| {
        fs::write(&file, code).unwrap();
        home.pml(&[&["capability", "edit", name, "--code", file.to_str().unwrap()], more].concat())
    };
    // Tools outside of its list, and circles.
    refused(&edit("demo.one", "return await mcp.two.echo({ text: 'x' })", &[]), "--tool two:echo");
    let calls_itself = "return await mcp.capabilities.demo_one({})";
    refused(&edit("demo.one", calls_itself, &["--tool", "capabilities:demo_one"]), "CAPABILITY_CYCLE");
    let calls_other = "return await mcp.capabilities.demo_two({})";
    refused(
        &edit("demo.one", calls_other, &["--tool", "capabilities:demo_two"]),
        "demo_one calls demo_two calls demo_one",
    );
    refused(&home.pml(&["capability", "edit", "demo.one", "--tool", "capabilities:demo_two"]), "CAPABILITY_CYCLE");
    refused(&home.pml(&["capability", "merge", "demo.two", "demo.one", "--yes"]), "CAPABILITY_CYCLE");
    // Secrets in what is said about it.
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let described = ["capability", "edit", "demo.one", "--description", &format!("posts with {token}")];
    refused(&home.pml(&described), "the description holds");
    assert_eq!(shown(&home, "demo.one")["version"], 1);
    // A program that does something else is not described as the one before.
    let saved = save("demo.one", "count the characters", "return (await mcp.two.echo({ text: 'abc' })).length");
    assert!(saved.status.success() && stderr(&saved).contains("are not kept: say it"), "{saved:?}");
    let now = shown(&home, "demo.one");
    assert_eq!(
        (&now["description"], &now["intents"]),
        (&json!("count the characters"), &json!(["count the characters"]))
    );
    assert_eq!(
        shown(&home, "demo.two")["tools_changed"],
        json!(["capabilities:demo_one"]),
        "what it calls has changed"
    );
    // What cannot be checked is not kept.
    assert!(home.pml(&["run", "-e", "return await mcp.fix.crash({})"]).status.code().is_some());
    assert!(
        home.pml(&["run", "-e", "await mcp.fix.sleep({ ms: 1 }); return await mcp.fix.echo({ text: 'x' })"])
            .status
            .success()
    );
    refused(&home.pml(&["capability", "save", "--name", "demo.three", "--check"]), "is not known to only read");
    refused(&home.pml(&["capability", "show", "demo.three"]), "there is no capability");
    // A value that the program has another one for need not be given.
    let ran = home.pml(&[
        "run",
        "--args",
        r#"{"text":"a","times":2}"#,
        "-e",
        "return (await mcp.fix.echo({ text: args.text })).repeat(args.times ?? 3)",
    ]);
    assert!(ran.status.success(), "{ran:?}");
    assert!(home.pml(&["capability", "save", "--name", "demo.optional"]).status.success());
    assert_eq!(shown(&home, "demo.optional")["parameters"]["required"], json!(["text"]));
    let ran = home.pml(&["capability", "run", "demo.optional", "--json", "--args", r#"{"text":"b"}"#]);
    assert_eq!(parsed(&ran)["result"], "bbb");
}

#[test]
fn a_name_that_another_program_has_now_does_not_stand_for_the_one_that_was_reviewed() {
    let home = home_with("");
    let save = |name: &str, code: &str| {
        assert!(home.pml(&["run", "-e", code]).status.success());
        assert!(home.pml(&["capability", "save", "--name", name]).status.success());
    };
    save("demo.callee", "return await mcp.fix.echo({ text: 'reviewed' })");
    save("demo.caller", "return await mcp.capabilities.demo_callee({})");
    let run = || home.pml(&["capability", "run", "demo.caller", "--json"]);
    // It may have another name, and a new version.
    assert!(home.pml(&["capability", "rename", "demo.callee", "demo.renamed"]).status.success());
    assert_eq!(parsed(&run())["result"], "reviewed");
    assert_eq!(shown(&home, "demo.caller")["tools_gone"], json!([]));
    // But nothing else has its place.
    save("demo.callee", "return await mcp.two.echo({ text: 'another' })");
    let output = run();
    assert!(!output.status.success() && stdout(&output).contains("is another program now"), "{output:?}");
    assert_eq!(shown(&home, "demo.caller")["tools_changed"], json!(["capabilities:demo_callee"]));
}
