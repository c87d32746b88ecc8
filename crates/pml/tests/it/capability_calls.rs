//! What callers of capabilities get, and by which names they call them: by the real binary, with a real server.

use std::fs;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{
    cli::stderr,
    peer::{Era, Home, Peer, eventually},
};

fn parsed(output: &std::process::Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn save(peer: &mut Peer, name: &str, code: &str, args: Value) -> Value {
    let asked = json!({ "code": code, "args": args, "intent": format!("do {name}"), "save_as": name });
    let result = peer.call("execute_code", asked).await;
    assert_eq!(result["structuredContent"]["saved"]["name"], name, "{result}");
    result["structuredContent"]["saved"].clone()
}

/// The blocks of a result that are no text.
fn media(result: &Value) -> Vec<&Value> {
    result["content"].as_array().unwrap().iter().filter(|block| block["type"] != "text").collect()
}

async fn execute(peer: &mut Peer, code: &str) -> Value {
    let result = peer.call("execute_code", json!({ "code": code })).await;
    assert_eq!(result["isError"], false, "{result}");
    result
}

/// Takes a picture and a large text, some of it deep in the result.
const SHOW: &str = "const blocks = await mcp.fix.image({});\n\
    return { title: args.title, shots: [{ image: blocks[1] }], sound: blocks[2], all: blocks.length }";

#[tokio::test]
async fn images_come_through_capabilities_and_workflows_as_they_came() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    let direct = execute(&mut peer, "const blocks = await mcp.fix.image({}); return [blocks[1], blocks[2]]").await;
    let expected: Vec<Value> = media(&direct).into_iter().cloned().collect();
    assert_eq!(expected.len(), 2, "{direct}");
    save(&mut peer, "demo.show", SHOW, json!({ "title": "x" })).await;
    save(&mut peer, "demo.outer", "return await mcp.capabilities.demo_show({ title: 'outer' })", json!({})).await;
    save(&mut peer, "demo.shot", "return (await mcp.fix.image({}))[1]", json!({})).await;
    // What the program sees is a handle, at the place where the capability put it.
    let seen = execute(
        &mut peer,
        "const { shots, all } = await mcp.capabilities.demo_show({ title: 'a' });\n\
         const { image } = shots[0];\n\
         return [image.type, image.mimeType, image.size, (await image.slice()).length, all]",
    )
    .await;
    let seen = &seen["structuredContent"]["result"];
    assert_eq!((&seen[0], &seen[1], &seen[4]), (&json!("image"), &json!("image/png"), &json!(5)), "{seen}");
    assert_eq!(seen[2], seen[3], "{seen}");
    assert_eq!(seen[2], expected[0]["data"].as_str().unwrap().len(), "{seen}");
    // Returned, it is the content block, through any number of levels.
    for code in [
        "return await mcp.capabilities.demo_show({ title: 'a' })",
        "return await mcp.capabilities.demo_outer({})",
        "const { shots, sound } = await mcp.capabilities.demo_outer({}); return [shots, sound]",
        "const { results } = await pml.executeWorkflow({ tasks: [{ id: 'a', capability: 'demo.show', args: { title: 'w' } }] });\n\
         return results.a",
        "const { results } = await pml.executeWorkflow({ tasks: [{ id: 'a', code: 'return (await mcp.fix.image({})).slice(1, 3)' }] });\n\
         return results",
    ] {
        let result = execute(&mut peer, code).await;
        assert_eq!(media(&result), expected.iter().collect::<Vec<_>>(), "{code}: {result}");
        assert!(!result["structuredContent"].to_string().contains("iVBOR"), "{code}: {result}");
    }
    let result = execute(&mut peer, "return await mcp.capabilities.demo_shot({})").await;
    assert_eq!(media(&result), [&expected[0]], "{result}");
    // As an argument it is its block, as it is without a capability between.
    let echoed = execute(
        &mut peer,
        "const { shots } = await mcp.capabilities.demo_show({ title: 'a' });\n\
         return (await mcp.fix.any({ value: shots[0].image })).value.data.length",
    )
    .await;
    assert_eq!(echoed["structuredContent"]["result"], seen[2], "{echoed}");
    // Tasks pass it on, and return it.
    let tasks = json!([
        { "id": "show", "capability": "demo.show", "args": { "title": "t" } },
        { "id": "size", "code": "return args.image.data.length", "args": { "image": "$OUTPUT[show].shots[0].image" } },
    ]);
    let result = peer.call("execute_workflow", json!({ "workflow": { "tasks": tasks } })).await;
    assert_eq!(media(&result), expected.iter().collect::<Vec<_>>(), "{result}");
    assert_eq!(result["structuredContent"]["results"]["size"], seen[2], "{result}");
    peer.end().await;
    // As a tool of its own, and from a shell.
    let mut peer = home.stdio_with(Era::Modern, &["--expose", "demo.show"]);
    let result = peer.call("demo_show", json!({ "title": "exposed" })).await;
    assert_eq!(media(&result), expected.iter().collect::<Vec<_>>(), "{result}");
    peer.end().await;
    let told = parsed(&home.pml(&["capability", "run", "demo.show", "--json", "--args", r#"{"title": "shell"}"#]));
    assert_eq!(told["result"]["shots"][0]["image"], expected[0], "{told}");
    // Nobody says what shape a picture has, and the traces have none of it.
    let shown = parsed(&home.pml(&["capability", "show", "demo.show", "--json"]));
    assert_eq!(shown["result"], Value::Null, "{shown}");
    let tested = home.pml(&["capability", "test", "demo.show", "--yes"]);
    assert!(tested.status.success(), "{tested:?}");
}

#[tokio::test]
async fn a_large_result_of_a_capability_stays_with_the_host() {
    let home = Home::with_fixture("");
    let text = home.config();
    let config = fs::read_to_string(&text).unwrap();
    home.configure(&format!("[limits]\nresult_bytes = 20000\n{config}"));
    let mut peer = home.connected(Era::Legacy).await;
    let code = "const large = await mcp.fix.big_json({ items: args.count });\n\
        return { large, small: 1 }";
    save(&mut peer, "demo.large", code, json!({ "count": 2 })).await;
    let read = "const { large, small } = await mcp.capabilities.demo_large({ count: 500 });\n\
        return [large.type, large.size > 20000, await large.json('items[499].id'), small]";
    let result = execute(&mut peer, read).await;
    assert_eq!(result["structuredContent"]["result"], json!(["json", true, 499, 1]), "{result}");
    peer.end().await;
}

#[tokio::test]
async fn a_former_name_leads_to_the_capability_wherever_it_is_written() {
    let home = Home::with_fixture("trusted = true\n");
    let mut peer = home.connected(Era::Legacy).await;
    save(&mut peer, "demo.old", "return await mcp.fix.echo({ text: 'x' })", json!({})).await;
    save(&mut peer, "demo.caller", "return await mcp.capabilities.demo_old({ text: 'called' })", json!({})).await;
    save(&mut peer, "demo.merged", "return await mcp.fix.echo({ text: 'merged' })", json!({})).await;
    assert!(home.pml(&["capability", "rename", "demo.old", "demo.now"]).status.success());
    // What other processes have changed is read at once where something is unknown.
    let unknown = peer.call("execute_code", json!({ "code": "return await mcp.capabilities.nobody({})" })).await;
    assert_eq!(unknown["isError"], true, "{unknown}");
    let tasks = json!([{ "id": "a", "capability": "demo.old", "args": { "text": "task" } }]);
    let result = peer.call("execute_workflow", json!({ "workflow": { "tasks": tasks } })).await;
    assert_eq!(result["structuredContent"]["results"]["a"], "task", "{result}");
    assert!(result.to_string().contains("`capabilities:demo_old` is now called `capabilities:demo_now`"), "{result}");
    let result = execute(&mut peer, "return await mcp.capabilities.demo_old({ text: 'program' })").await;
    assert_eq!(result["structuredContent"]["result"], "program", "{result}");
    assert_eq!(
        result["structuredContent"]["calls"][0]["tool"], "capabilities:demo_now",
        "one name in all records: {result}"
    );
    let result = execute(&mut peer, "return await mcp.capabilities.demo_caller({})").await;
    assert_eq!(result["structuredContent"]["result"], "called", "{result}");
    // Its arguments are checked before anything runs, as by its own name.
    let wrong =
        peer.call("execute_code", json!({ "code": "return await mcp.capabilities.demo_old({ texd: 1 })" })).await;
    assert!(
        wrong.to_string().contains("PREFLIGHT_FAILED") && wrong.to_string().contains("did you mean `text`"),
        "{wrong}"
    );
    let tasks = json!([{ "id": "a", "capability": "demo.old", "args": { "text": 5 } }]);
    let wrong = peer.call("execute_workflow", json!({ "workflow": { "tasks": tasks } })).await;
    assert_eq!(wrong["structuredContent"]["problems"][0]["code"], "INVALID_ARGUMENTS", "{wrong}");
    // A merged one leads to the other, too.
    assert!(home.pml(&["capability", "merge", "demo.merged", "demo.now", "--yes"]).status.success());
    let result = execute(&mut peer, "return await mcp.capabilities.demo_merged({})").await;
    assert_eq!(result["structuredContent"]["result"], "merged", "{result}");
    peer.end().await;
    let mut peer = home.stdio_with(Era::Modern, &["--expose", "demo.old"]);
    let list = peer.request("tools/list", json!({})).await;
    assert!(list["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "demo_old"), "{list}");
    let result = peer.call("demo_old", json!({ "text": "exposed" })).await;
    assert_eq!(result["structuredContent"]["result"], "exposed", "{result}");
    peer.end().await;
    // A capability may be written to use one by a name that it had.
    let file = home.path().join("new.ts");
    fs::write(&file, "return await mcp.capabilities.demo_old({ text: 'edited' })").unwrap();
    let edit = ["capability", "edit", "demo.caller", "--code", file.to_str().unwrap()];
    assert!(home.pml(&edit).status.success());
    assert_eq!(parsed(&home.pml(&["capability", "run", "demo.caller", "--json"]))["result"], "edited");
    // No part of a file is taken for all of it.
    fs::write(&file, format!("return 'cut' // {}", "x".repeat(5 << 20))).unwrap();
    let large = home.pml(&edit);
    assert!(large.status.code() == Some(2) && stderr(&large).contains("has more than 4 MB"), "{large:?}");
    // The policy judges what it is called now, whatever a program wrote.
    let config = fs::read_to_string(home.config()).unwrap();
    home.configure(&format!("[policy]\ndeny = [\"capabilities:demo_now\"]\n{config}"));
    for code in ["return await mcp.capabilities.demo_old({})", "return await mcp.capabilities.demo_merged({})"] {
        let denied = home.pml(&["run", "-e", code]);
        assert!(!denied.status.success() && stderr(&denied).contains("does not allow"), "{code}: {denied:?}");
    }
}

#[tokio::test]
async fn a_run_that_was_cancelled_is_no_failure_of_the_capability() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    let code = "await mcp.fix.echo({ text: 'begun' }); await mcp.fix.sleep({ ms: args.ms }); return 1";
    save(&mut peer, "slow.nap", code, json!({ "ms": 1 })).await;
    assert_eq!(peer.value("return await mcp.capabilities.slow_nap({ ms: 1 })").await, 1);
    let call = json!({ "name": "execute_code", "arguments": { "code": "return await mcp.capabilities.slow_nap({ ms: 60000 })" } });
    let id = peer.ask("tools/call", call).await;
    let started = |line: &&Value| line["event"] == "call.started" && line["tool"] == "fix:sleep";
    eventually(|| home.audit_lines().iter().filter(started).count() == 3).await;
    peer.cancel(&id).await;
    let list = || parsed(&home.pml(&["trace", "list", "--json"]))["traces"].to_string();
    eventually(|| list().matches("CANCELLED").count() == 2).await;
    // One that another part of the program left behind is no failure either.
    let code = "await Promise.all([mcp.capabilities.slow_nap({ ms: 60000 }), mcp.fix.fail({ message: 'no' })])";
    let failed = peer.call("execute_code", json!({ "code": code })).await;
    assert_eq!(failed["isError"], true, "{failed}");
    eventually(|| list().matches("CANCELLED").count() == 3).await;
    peer.end().await;
    let shown = parsed(&home.pml(&["capability", "show", "slow.nap", "--json"]));
    assert_eq!((&shown["stats"]["runs"], &shown["stats"]["failed"]), (&json!(1), &json!(0)), "{shown}");
}

#[tokio::test]
async fn a_plan_of_what_has_changed_is_refused_and_nothing_runs() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    let code = "return await mcp.fix.echo({ text: 'greetings' })";
    let asked = json!({ "code": code, "intent": "greet the whole office politely", "save_as": "demo.greet" });
    assert_eq!(peer.call("execute_code", asked).await["isError"], false);
    let plan = async |peer: &mut Peer| {
        let plan = peer.call("execute_workflow", json!({ "intent": "greet the whole office politely" })).await;
        assert_eq!(plan["structuredContent"]["tasks"][0]["tool"], "capabilities:demo_greet", "{plan}");
        plan["structuredContent"]["plan_id"].as_str().unwrap().to_owned()
    };
    let (kept, outdated) = (plan(&mut peer).await, plan(&mut peer).await);
    let done = peer.call("execute_workflow", json!({ "accept": kept })).await;
    assert_eq!(done["structuredContent"]["results"]["t1"], "greetings", "{done}");
    let file = home.path().join("new.ts");
    fs::write(&file, "return await mcp.fix.echo({ text: 'something else' })").unwrap();
    assert!(home.pml(&["capability", "edit", "demo.greet", "--code", file.to_str().unwrap()]).status.success());
    let calls = || home.audit_lines().iter().filter(|line| line["tool"] == "fix:echo").count();
    let before = calls();
    let refused = peer.call("execute_workflow", json!({ "accept": outdated })).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "PLAN_OUTDATED", "{refused}");
    assert!(refused.to_string().contains("the capability `demo_greet` has changed"), "{refused}");
    assert_eq!(calls(), before);
    let now = plan(&mut peer).await;
    let done = peer.call("execute_workflow", json!({ "accept": now })).await;
    assert_eq!(done["structuredContent"]["results"]["t1"], "something else", "{done}");
    // The same where it is gone.
    let gone = plan(&mut peer).await;
    assert!(home.pml(&["capability", "remove", "demo.greet", "--yes"]).status.success());
    let refused = peer.call("execute_workflow", json!({ "accept": gone })).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "PLAN_OUTDATED", "{refused}");
    peer.end().await;
}

#[test]
fn of_processes_that_save_under_one_name_at_once_one_makes_the_capability() {
    let home = Home::with_fixture("");
    let programs: Vec<String> =
        (0..4).map(|number| format!("return await mcp.fix.echo({{ text: 'x' }}) + {number}")).collect();
    let ids: Vec<Value> =
        programs.iter().map(|code| parsed(&home.pml(&["run", "--json", "-e", code]))["execution_id"].clone()).collect();
    let save = |id: &Value| home.pml(&["capability", "save", id.as_str().unwrap(), "--name", "race.one", "--json"]);
    let told: Vec<Value> = std::thread::scope(|scope| {
        let saving: Vec<_> = ids.iter().map(|id| scope.spawn(|| parsed(&save(id)))).collect();
        saving.into_iter().map(|saving| saving.join().unwrap()).collect()
    });
    let mut versions: Vec<_> = told.iter().map(|told| told["version"].as_u64().unwrap()).collect();
    versions.sort_unstable();
    assert_eq!(versions, [1, 2, 3, 4], "{told:?}");
    let makers: Vec<_> = told.iter().filter(|told| told["new"] == true).map(|told| &told["version"]).collect();
    assert_eq!(makers, [&json!(1)], "{told:?}");
    let shown = parsed(&home.pml(&["capability", "show", "race.one", "--json"]));
    assert_eq!((&shown["version"], shown["versions"].as_array().unwrap().len()), (&json!(4), 4), "{shown}");
}

#[tokio::test]
async fn while_the_database_is_locked_a_result_comes_all_the_same_and_nothing_is_saved() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    save(&mut peer, "demo.before", "return 1", json!({})).await;
    let other = Connection::open(home.path().join(".local/share/pml/traces/traces.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let asked = json!({ "code": "return 2", "save_as": "demo.during" });
    let result = peer.call("execute_code", asked.clone()).await;
    assert_eq!(result["structuredContent"]["result"], 2, "{result}");
    assert_eq!(result["structuredContent"]["saved"]["error"]["code"], "TRACE_STORE_FAILED", "{result}");
    other.execute_batch("ROLLBACK").unwrap();
    // What was not done in time is not done later.
    let names = || parsed(&home.pml(&["capability", "list", "--json"]))["capabilities"].as_array().unwrap().len();
    assert_eq!(names(), 1);
    assert_eq!(peer.call("execute_code", asked).await["structuredContent"]["saved"]["version"], 1);
    assert_eq!(names(), 2);
    peer.end().await;
}
