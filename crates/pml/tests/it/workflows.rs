//! Workflows against a real server: over MCP, in programs, and from the shell.

use std::fs;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::peer::{ERAS, Era, Home, PATIENCE, Peer};

/// What is behind a workflow that ran.
fn ran(result: &Value) -> &Value {
    &result["structuredContent"]
}

async fn run(peer: &mut Peer, tasks: Value) -> Value {
    peer.call("execute_workflow", json!({ "workflow": { "tasks": tasks } })).await
}

/// The code and the message of each task, by its id.
fn task<'a>(result: &'a Value, id: &str) -> &'a Value {
    let tasks = ran(result)["tasks"].as_array().unwrap_or_else(|| panic!("{result}"));
    tasks.iter().find(|task| task["id"] == id).unwrap_or_else(|| panic!("{id}: {result}"))
}

/// How many calls the server has seen before this one.
async fn calls_seen(peer: &mut Peer) -> u64 {
    peer.value("return (await mcp.fix.counters({})).calls").await.as_u64().unwrap() - 1
}

/// What the server has counted, once that is so much.
async fn counted(peer: &mut Peer, what: &str, least: u64) -> u64 {
    let code = format!("const c = await mcp.fix.counters({{}}); return {what}");
    let until = Instant::now() + PATIENCE;
    loop {
        let count = peer.value(&code).await.as_u64().unwrap();
        if count >= least {
            return count;
        }
        assert!(Instant::now() < until, "{what} stays at {count}");
    }
}

fn add(id: &str, a: Value, b: Value) -> Value {
    json!({ "id": id, "tool": "fix:add", "args": { "a": a, "b": b } })
}

/// Every stored trace.
fn traces(home: &Home) -> Vec<Value> {
    let output = home.pml(&["trace", "export"]);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn tasks_run_by_dependency_and_values_keep_their_types() {
    for era in ERAS {
        let home = Home::with_fixture("");
        let mut peer = home.connected(era).await;
        let result = run(&mut peer, json!([
            {"id": "said", "tool": "fix:echo", "args": {"text": "${$OUTPUT[double]} is ${$OUTPUT[shape].name}, $$ITEM"}},
            add("double", json!("$OUTPUT[sum]"), json!("$OUTPUT[sum]")),
            add("sum", json!(1), json!(2)),
            {"id": "shape", "tool": "fix:object"},
            {"id": "tags", "tool": "fix:echo", "forEach": "$OUTPUT[shape].tags", "args": {"text": "${$INDEX}:${$ITEM}"}},
            {"id": "program", "code": "return args.tags.length + (await mcp.fix.add({ a: args.n, b: 1 }))",
             "args": {"tags": "$OUTPUT[tags]", "n": "$OUTPUT[double]"}},
        ]))
        .await;
        let expected = json!({
            "said": "6.0 is fixture, $ITEM", "double": 6.0, "sum": 3.0,
            "shape": {"name": "fixture", "size": 3, "tags": ["a", "b", "c"]},
            "tags": ["0:a", "1:b", "2:c"], "program": 10,
        });
        assert_eq!((&ran(&result)["status"], &ran(&result)["results"]), (&json!("success"), &expected), "{result}");
        assert_eq!(result["isError"], false);
        peer.end().await;

        let all = traces(&home);
        let whole =
            all.iter().find(|trace| trace["taskResults"][0]["taskId"] == "sum").unwrap_or_else(|| panic!("{all:?}"));
        let layers: Vec<_> = whole["taskResults"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| (task["taskId"].as_str().unwrap().to_owned(), task["layerIndex"].as_u64().unwrap()))
            .collect();
        for expected in [("double", 2), ("said", 3), ("tags[0]", 2), ("tags[2]", 2), ("program", 3)] {
            assert!(layers.contains(&(expected.0.to_owned(), expected.1)), "{expected:?}: {layers:?}");
        }
        assert_eq!((&whole["entry"], &whole["success"]), (&json!("workflow"), &json!(true)));
        let program = all.iter().find(|trace| trace["parentTraceId"] == whole["traceId"]);
        let program = program.unwrap_or_else(|| panic!("{all:?}"));
        assert_eq!(program["taskResults"][0]["tool"], "fix:add", "a program of a task is a trace below the workflow's");
    }
}

#[tokio::test]
async fn a_workflow_that_cannot_run_says_all_of_why_and_nothing_runs() {
    let home = Home::with_fixture("[policy]\ndeny = [\"fix:count\"]\n");
    let mut peer = home.connected(Era::Legacy).await;
    let seen = calls_seen(&mut peer).await;
    let good = add("good", json!(1), json!(2));
    let echo = |id: &str, text: &str| json!({"id": id, "tool": "fix:echo", "args": {"text": text}});
    #[rustfmt::skip]
    let table = [
        (json!([good, echo("b", "$OUTPUT[c]"), echo("c", "$OUTPUT[b]")]),   "WORKFLOW_INVALID",  "in a circle: b → c → b"),
        (json!([good, echo("b", "$OUTPUT[god]")]),                          "WORKFLOW_INVALID",  "there is no task `god`; did you mean `good`?"),
        (json!([good, echo("b", "see $OUTPUT[good]")]),                     "WORKFLOW_INVALID",  "write `${$OUTPUT[good]}` to insert it"),
        (json!([good, {"id": "b", "tool": "fix:ecko", "args": {}}]),        "TOOL_NOT_FOUND",    "did you mean `fix:echo`?"),
        (json!([good, {"id": "b", "tool": "fix.echo", "args": {}}]),        "TOOL_NOT_FOUND",    "did you mean `fix:echo`?"),
        (json!([good, {"id": "b", "capability": "no.such"}]),               "TOOL_NOT_FOUND",    "capabilities"),
        (json!([good, {"id": "b", "tool": "fix:add", "args": {"a": "$OUTPUT[good]", "b": "x"}}]), "INVALID_ARGUMENTS", "args.b: expected number, got \"x\""),
        (json!([good, {"id": "b", "tool": "fix:add", "args": {"a": "$OUTPUT[good]"}}]), "INVALID_ARGUMENTS", "args.b: expected number, got nothing"),
        (json!([good, {"id": "b", "tool": "fix:count", "args": {"key": "k"}}]), "POLICY_DENIED", "deny fix:count"),
        (json!([good, good]),                                               "WORKFLOW_INVALID",  "is that of tasks[0] already"),
        (json!(vec![good.clone(); 10_000]),                                 "WORKFLOW_INVALID",  "there are 10000 tasks"),
        (json!([good, {"id": "b", "code": "x".repeat(300_000)}]),           "CODE_TOO_LARGE",    "more than the limit of"),
        (json!([good, {"id": "b", "code": "return (1 +"}]),                 "SYNTAX_ERROR",      "b.ts"),
        (json!([good, {"id": "b", "code": "[".repeat(100_000)}]),           "WORKER_CRASHED",    "may be nested too deeply"),
        (json!([good, echo("b", "$OUTPUT[good].x.y"), echo("c", "$OUTPUT.x")]), "WORKFLOW_INVALID", "$OUTPUT.x"),
        (json!([good, echo("b", "$ARGS.x")]),                               "WORKFLOW_INVALID",  "`$ARGS.x` is not in the arguments"),
        (json!([good, {"id": "b", "tool": "fix:add", "argz": {}}]),         "WORKFLOW_INVALID",  "did you mean `args`?"),
    ];
    for (tasks, code, part) in table {
        let result = run(&mut peer, tasks).await;
        assert_eq!(
            (&result["isError"], &ran(&result)["error"]["code"]),
            (&json!(true), &json!("WORKFLOW_INVALID")),
            "{part}: {result}"
        );
        let problems = ran(&result)["problems"].as_array().unwrap();
        let is_said = |problem: &Value| problem["code"] == code && problem["message"].as_str().unwrap().contains(part);
        assert!(problems.iter().any(is_said), "{part}: {result}");
        assert!(result["content"][0]["text"].as_str().unwrap().contains("hint: nothing has run"), "{result}");
    }
    let many = run(&mut peer, json!([echo("a", "$OUTPUT[x]"), {"id": "b", "tool": "fix:nope"}])).await;
    assert_eq!(ran(&many)["problems"].as_array().unwrap().len(), 2, "{many}");
    let both = run(&mut peer, json!([{"id": "a", "tool": "fix:nope"}, add("b", json!("1"), json!(2))])).await;
    let paths: Vec<_> =
        ran(&both)["problems"].as_array().unwrap().iter().map(|problem| problem["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["tasks[0].tool", "tasks[1].args"]);
    assert_eq!(calls_seen(&mut peer).await, seen + 1, "only the question itself");
    peer.end().await;
}

#[tokio::test]
async fn what_is_wrong_in_different_ways_is_told_at_once_and_programs_are_checked_too() {
    let home = Home::with_fixture("[policy]\ndeny = [\"fix:sleep\"]");
    let mut peer = home.connected(Era::Modern).await;
    let before = calls_seen(&mut peer).await;
    let tasks = json!([
        add("fine", json!(1), json!(2)),
        { "id": "key", "tool": "fix:add", "args": { "a": 1, "b": 2 }, "colour": "red" },
        { "id": "both", "tool": "fix:nothing", "colour": "red" },
        { "id": "reference", "tool": "fix:echo", "args": { "text": "$OUTPUT[nobody]" } },
        { "id": "after", "tool": "fix:echo", "args": { "text": "${$OUTPUT[key]}" } },
        { "id": "wrong", "tool": "fix:add", "args": { "a": "x", "b": 2 } },
        { "id": "unknown", "code": "return await mcp.fix.nothing({})" },
        { "id": "values", "code": "const n = 1;\nreturn await mcp.fix.add({ a: 'x', b: n })" },
        { "id": "denied", "code": "return await mcp.fix.sleep({ ms: 1 })" },
        { "id": "perhaps", "code": "if (args.n) { await mcp.fix.sleep({ ms: 1 }) } return 1", "args": { "n": 0 } },
        7,
    ]);
    let result = run(&mut peer, tasks.clone()).await;
    assert_eq!(result["isError"], true, "{result}");
    let problems = ran(&result)["problems"].as_array().unwrap();
    let told = |path: &str, code: &str, part: &str| {
        let is_told = |problem: &&Value| {
            problem["path"] == path && problem["code"] == code && problem["message"].as_str().unwrap().contains(part)
        };
        assert_eq!(problems.iter().filter(is_told).count(), 1, "{path} {code} {part}: {result:#}");
    };
    told("tasks[1]", "WORKFLOW_INVALID", "colour");
    told("tasks[2]", "WORKFLOW_INVALID", "colour");
    told("tasks[2].tool", "TOOL_NOT_FOUND", "has no tool `nothing`");
    told("tasks[3].args.text", "WORKFLOW_INVALID", "nobody");
    told("tasks[5].args", "INVALID_ARGUMENTS", "expected number");
    told("tasks[6].code", "PREFLIGHT_FAILED", "has no tool `nothing`");
    told("tasks[7].code", "PREFLIGHT_FAILED", "line 2");
    told("tasks[8].code", "PREFLIGHT_FAILED", "does not allow");
    told("tasks[10]", "WORKFLOW_INVALID", "an object with an `id`");
    assert_eq!(problems.len(), 9, "{result:#}");
    assert_eq!(calls_seen(&mut peer).await, before + 1, "nothing has run");
    let file = home.path().join("graph.json");
    fs::write(&file, json!({ "tasks": tasks }).to_string()).unwrap();
    let output = home.pml(&["workflow", "validate", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(2) && said.contains("9 problems"), "{said}");
    peer.end().await;
}

#[tokio::test]
async fn a_failing_task_fails_its_dependants_and_nothing_else() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    let result = run(&mut peer, json!([
        {"id": "bad", "tool": "fix:fail", "args": {"message": "as told"}},
        {"id": "lost", "tool": "fix:echo", "args": {"text": "$OUTPUT[bad].text"}},
        {"id": "too", "tool": "fix:echo", "args": {"text": "x"}, "dependsOn": ["lost"]},
        add("fine", json!(1), json!(1)),
        {"id": "skipped", "tool": "fix:crash", "args": {}, "when": {"ref": "$OUTPUT[fine]", "gt": 2}},
        {"id": "after", "tool": "fix:echo", "args": {"text": "after"}, "dependsOn": ["skipped"]},
        {"id": "refers", "tool": "fix:echo", "args": {"text": "$OUTPUT[skipped]"}},
        {"id": "asks", "tool": "fix:echo", "args": {"text": "gone"}, "when": {"ref": "$OUTPUT[skipped]", "exists": false}},
        {"id": "typo", "tool": "fix:echo", "args": {"text": "$OUTPUT[fine].x"}},
        {"id": "each", "tool": "fix:fail", "forEach": ["a", "b"], "args": {"message": "$ITEM"}},
    ]))
    .await;
    assert_eq!(
        (&result["isError"], &ran(&result)["error"]["code"]),
        (&json!(true), &json!("WORKFLOW_FAILED")),
        "{result}"
    );
    assert_eq!(ran(&result)["results"], json!({"fine": 2.0, "after": "after", "asks": "gone"}), "{result}");
    for (id, status, code, part) in [
        ("bad", "error", "TOOL_ERROR", "as told"),
        ("lost", "not_run", "DEPENDENCY_FAILED", "`bad`"),
        ("too", "not_run", "DEPENDENCY_FAILED", "`lost`"),
        ("refers", "error", "DEPENDENCY_FAILED", "task `skipped` was skipped"),
        ("typo", "error", "INVALID_ARGUMENTS", "there is nothing at `x`"),
        ("each", "error", "TOOL_ERROR", "element "),
    ] {
        let task = task(&result, id);
        assert_eq!((&task["status"], &task["error"]["code"]), (&json!(status), &json!(code)), "{task}");
        assert!(task["error"]["message"].as_str().unwrap().contains(part), "{task}");
    }
    assert_eq!(task(&result, "skipped")["status"], "skipped");
    peer.end().await;
}

#[tokio::test]
async fn what_some_elements_returned_is_told_when_another_failed() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    let each = |id: &str, list: Value, concurrency: u64| {
        let code = "if (args.n === 3) throw new Error('three'); return { n: args.n, twice: args.n * 2 }";
        json!({ "id": id, "code": code, "args": { "n": "$ITEM" }, "forEach": { "in": list, "concurrency": concurrency } })
    };
    let tasks = json!([
        each("each", json!([1, 2, 3, 4, 5]), 1),
        each("fine", json!([7]), 1),
        each("none", json!([3]), 1),
        {"id": "lost", "tool": "fix:echo", "args": {"text": "${$OUTPUT[each]}"}},
    ]);
    let result = run(&mut peer, tasks.clone()).await;
    assert_eq!(
        (&result["isError"], &ran(&result)["error"]["code"]),
        (&json!(true), &json!("WORKFLOW_FAILED")),
        "{result}"
    );
    assert_eq!(ran(&result)["results"], json!({"fine": [{"n": 7, "twice": 14}]}), "{result}");
    let partial = json!({"each": {"0": {"n": 1, "twice": 2}, "1": {"n": 2, "twice": 4}}});
    assert_eq!(ran(&result)["partial_results"], partial, "{result}");
    let failed = task(&result, "each");
    assert_eq!(failed["elements"], json!({"succeeded": [0, 1], "failed": [2], "not_run": [3, 4]}), "{failed}");
    let said = failed["error"]["message"].as_str().unwrap();
    assert!(said.starts_with("2 of 5 elements succeeded; element 2: ") && said.contains("three"), "{said}");
    assert_eq!(task(&result, "none")["elements"], json!({"succeeded": [], "failed": [0], "not_run": []}), "{result}");
    assert_eq!(task(&result, "lost")["status"], "not_run", "{result}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains(r#"{"each":{"0":{"n":1,"twice":2}"#), "{result}");
    // The same for a program that runs it, and for a shell.
    let code = format!("return await pml.executeWorkflow({})", json!({ "tasks": tasks }));
    let told = peer.value(&code).await;
    assert_eq!(
        (&told["partial_results"], &told["tasks"][0]["elements"]["not_run"]),
        (&partial, &json!([3, 4])),
        "{told}"
    );
    peer.end().await;
    let file = home.path().join("graph.json");
    fs::write(&file, json!({ "tasks": tasks }).to_string()).unwrap();
    let output = home.pml(&["workflow", "run", file.to_str().unwrap(), "--json"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &told["partial_results"]), (Some(1), &partial), "{told}");
}

#[tokio::test]
async fn a_thousand_tasks_run_and_large_values_stay_with_the_host() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    let tasks: Vec<_> = (0..1000).map(|number| add(&format!("t{number}"), json!(number), json!(1))).collect();
    let result = run(&mut peer, json!(tasks)).await;
    assert_eq!((&ran(&result)["status"], &ran(&result)["tasks_total"]), (&json!("success"), &json!(1000)), "{result}");
    let chain: Vec<_> = (0..200)
        .map(|number| match number {
            0 => add("t0", json!(1), json!(0)),
            _ => add(&format!("t{number}"), json!(format!("$OUTPUT[t{}]", number - 1)), json!(1)),
        })
        .collect();
    let result = run(&mut peer, json!(chain)).await;
    assert_eq!(ran(&result)["results"]["t199"], 200.0, "{result}");

    let result = run(&mut peer, json!([
        {"id": "json", "tool": "fix:big_json", "args": {"items": 80_000}},
        {"id": "part", "tool": "fix:echo", "args": {"text": "$OUTPUT[json].items[79999].name"}},
        {"id": "list", "tool": "fix:echo", "args": {"text": "${$ITEM}"}, "forEach": "$OUTPUT[json].items[7].tags"},
        {"id": "text", "tool": "fix:big", "args": {"bytes": 9_000_000}},
        {"id": "length", "code": "return (await args.text.slice?.(0, 5)) ?? args.text.length", "args": {"text": "$OUTPUT[text]"}},
        {"id": "missing", "tool": "fix:echo", "args": {"text": "$OUTPUT[json].items[80000]"}},
    ]))
    .await;
    assert_eq!(ran(&result)["results"]["part"], "item 79999", "{result}");
    assert_eq!(ran(&result)["results"]["list"], json!(["red", "green"]));
    assert_eq!(task(&result, "missing")["error"]["code"], "INVALID_ARGUMENTS", "{result}");
    assert!(ran(&result)["warnings"].to_string().contains("left out"), "{result}");
    peer.end().await;
}

#[tokio::test]
async fn time_is_bounded_for_a_task_and_for_the_whole_and_cancelling_reaches_the_server() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    let sleep = |id: &str, more: Value| {
        let mut task = json!({"id": id, "tool": "fix:sleep", "args": {"ms": 60_000}});
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        task
    };
    let seen = calls_seen(&mut peer).await;
    let result =
        run(&mut peer, json!([sleep("slow", json!({"timeout_ms": 50, "retry": 2})), add("fine", json!(1), json!(1))]))
            .await;
    assert_eq!(task(&result, "slow")["error"]["code"], "TIMEOUT", "{result}");
    assert_eq!(ran(&result)["results"], json!({"fine": 2.0}));
    assert_eq!(calls_seen(&mut peer).await, seen + 3, "a call that may have had an effect is not made again");

    let workflow = json!({"tasks": [sleep("a", json!({})), {"id": "b", "tool": "fix:echo", "args": {"text": "x"}, "dependsOn": ["a"]}]});
    let result = peer.call("execute_workflow", json!({"workflow": workflow, "timeout_ms": 100})).await;
    assert_eq!(ran(&result)["error"]["code"], "TIMEOUT", "{result}");
    assert_eq!((&task(&result, "a")["status"], &task(&result, "b")["status"]), (&json!("error"), &json!("not_run")));

    let open = "c.calls - (c.calls_done ?? 0)";
    let slept = counted(&mut peer, open, 0).await;
    let cancelled = counted(&mut peer, "c.cancel_notifications", 0).await;
    let id = peer.ask("tools/call", json!({"name": "execute_workflow", "arguments": {"workflow": workflow}})).await;
    counted(&mut peer, open, slept + 1).await;
    peer.cancel(&id).await;
    counted(&mut peer, "c.cancel_notifications", cancelled + 1).await;
    peer.end().await;
}

#[tokio::test]
async fn calls_are_made_again_only_where_that_is_harmless() {
    // The server dies at its second call, without an answer.
    for (trusted, succeeds) in [("true", true), ("false", false)] {
        let home = Home::with_fixture(&format!("args = [\"--fault\", \"die-on=2\"]\ntrusted = {trusted}\n"));
        let mut peer = home.connected(Era::Legacy).await;
        let retry = json!({"times": 3, "backoff_ms": 10});
        let echo = |id: &str, after: Value| json!({"id": id, "tool": "fix:echo", "args": {"text": id}, "retry": retry, "dependsOn": after});
        let result = run(&mut peer, json!([echo("one", json!([])), echo("two", json!(["one"]))])).await;
        assert_eq!(ran(&result)["status"] == "success", succeeds, "trusted {trusted}: {result}");
        let is_warned = ran(&result)["warnings"].to_string().contains("is not retried");
        assert_eq!(is_warned, !succeeds, "{result}");
        peer.end().await;
    }
}

#[tokio::test]
async fn programs_run_workflows_too() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    let value = peer
        .value(
            "import { executeWorkflow } from 'pml';
             const tasks = [
               { id: 'a', tool: 'fix:add', args: { a: '$ARGS.n', b: 1 } },
               { id: 'b', tool: 'fix:fail', args: { message: 'no' } },
             ];
             const ran = await executeWorkflow({ tasks }, { n: 41 });
             const wrong = await executeWorkflow({ tasks: [{ id: 'x', tool: 'fix:nope' }] }).catch((error) => error.code);
             return [ran.status, ran.results, ran.tasks.map((task) => task.status), wrong];",
        )
        .await;
    assert_eq!(value, json!(["error", {"a": 42.0}, ["success", "error"], "WORKFLOW_INVALID"]));
    let nested = peer
        .call("execute_code", json!({ "code": "import { executeWorkflow } from 'pml';
            const code = `const { executeWorkflow } = pml; return await executeWorkflow({ tasks: [{ id: 't', code: args.code, args }] })`;
            return JSON.stringify(await executeWorkflow({ tasks: [{ id: 't', code, args: { code } }] }))" }))
        .await;
    assert!(nested.to_string().contains("NESTING_TOO_DEEP"), "what nests without end is stopped: {nested}");
    peer.end().await;
    let all = traces(&home);
    let outer = all.iter().find(|trace| trace["code"].as_str().is_some_and(|code| code.contains("n: 41"))).unwrap();
    let inner = all.iter().find(|trace| trace["parentTraceId"] == outer["traceId"]).unwrap();
    assert_eq!((&inner["entry"], &inner["taskResults"][0]["taskId"]), (&json!("workflow"), &json!("a")));
}

#[tokio::test]
async fn an_intent_gives_a_plan_and_runs_only_when_it_is_accepted() {
    let home = Home::with_fixture("");
    let mut peer = home.connected(Era::Legacy).await;
    let seen = calls_seen(&mut peer).await;
    let plan = peer.call("execute_workflow", json!({"intent": "add two numbers"})).await;
    assert_eq!((&plan["isError"], &ran(&plan)["status"]), (&json!(false), &json!("plan")), "{plan}");
    let first = &ran(&plan)["tasks"][0];
    assert_eq!((&first["id"], &first["tool"]), (&json!("t1"), &json!("fix:add")), "{plan}");
    assert_eq!(first["args_needed"], json!({"a": "number", "b": "number"}));
    assert_eq!(calls_seen(&mut peer).await, seen + 1, "nothing was run");
    let id = ran(&plan)["plan_id"].as_str().unwrap();
    let empty = peer.call("execute_workflow", json!({"accept": id})).await;
    assert_eq!(ran(&empty)["problems"][0]["code"], "INVALID_ARGUMENTS", "{empty}");
    let done = peer.call("execute_workflow", json!({"accept": id, "args": {"t1": {"a": 1, "b": 2}}})).await;
    assert_eq!(ran(&done)["results"], json!({"t1": 3.0}), "{done}");
    let unknown = peer.call("execute_workflow", json!({"accept": "p_0"})).await;
    assert_eq!(ran(&unknown)["error"]["code"], "PLAN_NOT_FOUND", "{unknown}");
    for wrong in [json!({}), json!({"accept": id, "workflow": {}}), json!({"intent": " "}), json!({"intnt": "x"})] {
        let result = peer.call("execute_workflow", wrong.clone()).await;
        assert_eq!(ran(&result)["error"]["code"], "INVALID_ARGUMENTS", "{wrong}: {result}");
    }
    peer.end().await;
    assert!(home.pml(&["run", "-e", "return 1"]).status.success());
}

#[test]
fn the_command_line_runs_checks_and_draws() {
    let home = Home::with_fixture("");
    let toml = home.path().join("sum.toml");
    fs::write(
        &toml,
        "name = \"sum\"\n[[tasks]]\nid = \"a\"\ntool = \"fix:add\"\nargs = { a = \"$ARGS.n\", b = 1 }\n\
         [[tasks]]\nid = \"b\"\ncode = \"return args.x * 2\"\nargs = { x = \"$OUTPUT[a]\" }\n",
    )
    .unwrap();
    let bad = home.path().join("bad.json");
    fs::write(&bad, json!({"tasks": [{"id": "a", "tool": "fix:nope"}, {"id": "b", "tool": "fix:add"}]}).to_string())
        .unwrap();
    let fails = home.path().join("fails.json");
    fs::write(&fails, json!({"tasks": [{"id": "a", "tool": "fix:fail", "args": {"message": "no"}}]}).to_string())
        .unwrap();
    let pml = |args: &[&str]| {
        let output = home.pml(args);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (toml, bad, fails) = (toml.to_str().unwrap(), bad.to_str().unwrap(), fails.to_str().unwrap());

    let (code, stdout, stderr) = pml(&["workflow", "run", toml, "--args", "{\"n\": 20}", "--json"]);
    assert_eq!(code, Some(0), "{stderr}");
    let outcome: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&outcome["status"], &outcome["results"]), (&json!("success"), &json!({"a": 21.0, "b": 42})));
    let (code, stdout, _) = pml(&["workflow", "run", toml, "--args", "{\"n\": 1}"]);
    assert_eq!((code, serde_json::from_str::<Value>(&stdout).unwrap()), (Some(0), json!({"a": 2.0, "b": 4})));
    let (code, _, stderr) = pml(&["workflow", "run", toml]);
    assert!(
        code == Some(2) && stderr.contains("error[WORKFLOW_INVALID]") && stderr.contains("$ARGS.n"),
        "{code:?} {stderr}"
    );
    let (code, stdout, stderr) = pml(&["workflow", "run", fails]);
    assert!(code == Some(1) && stdout == "{}\n" && stderr.contains("TOOL_ERROR: no"), "{code:?} {stdout} {stderr}");

    let (code, stdout, _) = pml(&["workflow", "validate", toml, "--args", "{\"n\": 1}"]);
    assert_eq!((code, stdout.as_str()), (Some(0), "valid: 2 tasks in 2 layers\n"));
    let (code, stdout, _) = pml(&["workflow", "validate", bad, "--json"]);
    let outcome: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, outcome["problems"].as_array().unwrap().len()), (Some(2), 2), "{outcome}");
    let (code, _, stderr) = pml(&["workflow", "validate", "no-such-file"]);
    assert!(code == Some(2) && stderr.contains("cannot be read"), "{stderr}");

    let deep = home.path().join("deep.json");
    fs::write(&deep, format!("{{\"tasks\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000))).unwrap();
    let (code, _, stderr) = pml(&["workflow", "run", deep.to_str().unwrap()]);
    assert!(code == Some(2) && stderr.contains("nested more than 100 levels deep"), "{code:?} {stderr}");

    let (code, stdout, _) = pml(&["workflow", "show", toml]);
    assert!(code == Some(0) && stdout.contains("layer 2\n  b  code  after a\n"), "{stdout}");
    for (format, part) in [("svg", "<svg "), ("dot", "\"a\" -> \"b\";"), ("json", "\"needs\": [")] {
        let (code, stdout, _) = pml(&["workflow", "show", toml, "--format", format]);
        assert!(code == Some(0) && stdout.contains(part), "{format}: {stdout}");
    }
}
