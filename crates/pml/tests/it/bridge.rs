//! The way from a program to a tool and back.

use std::{
    sync::{Mutex, atomic::Ordering},
    time::Duration,
};

use pml::execution::Event;
use pml_wire::ErrorCode;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{Sandbox, code};

#[tokio::test]
async fn a_call_reaches_the_tool_and_its_value_comes_back() {
    let sandbox = Sandbox::start();
    let value = sandbox.value("await mcp.test.echo({ a: [1, 'é', null, { b: 2n }] })").await;
    assert_eq!(value, json!({"a": [1, "é", null, {"b": "2"}]}));
    let seen = sandbox.tools.seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].tool.server(), seen[0].tool.tool(), seen[0].id.0), ("test", "echo", 1));
    assert_eq!(seen[0].args.written().get(), r#"{"a":[1,"é",null,{"b":"2"}]}"#);
    sandbox.stop().await;
}

#[tokio::test]
async fn calls_are_recorded_in_order_with_their_outcomes() {
    let sandbox = Sandbox::start();
    let outcome = sandbox
        .run("await mcp.test.wait({ ms: 20 }); try { await mcp.test.fail() } catch {} await pml.callTool('no:tool')")
        .await;
    let calls: Vec<_> =
        outcome.calls.iter().map(|call| (call.id.0, call.tool.as_str(), call.error.as_ref().map(|e| e.code))).collect();
    let expected = [
        (1, "test:wait", None),
        (2, "test:fail", Some(ErrorCode::ToolError)),
        (3, "no:tool", Some(ErrorCode::ToolNotFound)),
    ];
    assert_eq!(calls, expected);
    assert!(outcome.calls[0].duration >= Duration::from_millis(20));
    sandbox.stop().await;
}

#[tokio::test]
async fn errors_are_tool_errors_with_all_that_is_known() {
    let sandbox = Sandbox::start();
    let program = "import { ToolError } from 'pml';
        try { await mcp.test.fail({ why: 1 }) } catch (e) {
          return [e instanceof ToolError, e instanceof Error, e.name, e.code, e.message, e.tool, e.retryable, e.data]
        }";
    let expected = json!([true, true, "ToolError", "TOOL_ERROR", "it did not work", "test:fail", false, {"why": 1}]);
    assert_eq!(sandbox.value(program).await, expected);
    let error = sandbox.run("await mcp.test.fail()").await.result.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolError);
    assert_eq!(error.tool.unwrap().as_str(), "test:fail");
    sandbox.stop().await;
}

#[tokio::test]
async fn call_tool_and_batches_answer_with_envelopes() {
    let sandbox = Sandbox::start();
    let program = "import { callTool, callToolsBatch } from 'pml';
        const one = await callTool('test:echo', { a: 1 });
        const many = await callToolsBatch([{ name: 'test:wait', args: { ms: 20 } }, { name: 'test:fail', args: {} }, { name: 'bad' }]);
        return [one, many.map((m) => m.success), many[1].error.code, many[2].error.code]";
    let expected = json!([{"success": true, "result": {"a": 1}}, [true, false, false], "TOOL_ERROR", "TOOL_NOT_FOUND"]);
    assert_eq!(sandbox.value(program).await, expected);
    sandbox.stop().await;
}

#[tokio::test]
async fn arguments_are_checked_before_any_tool_hears_of_them() {
    let sandbox = Sandbox::start();
    let program = "const codes = []; const cyclic: any = {}; cyclic.c = cyclic;
        let deep: any = {}; for (let i = 0; i < 200; i++) deep = { deep };
        for (const args of [5, 'x', null, [1], cyclic, deep, { big: 'x'.repeat(9e6) }]) {
          try { await mcp.test.echo(args as any); codes.push('ok') } catch (e) { codes.push(e.code) }
        }
        return codes";
    assert_eq!(sandbox.value(program).await, json!(["INVALID_ARGUMENTS"; 7].to_vec()));
    assert!(sandbox.tools.seen.lock().unwrap().is_empty());
    sandbox.stop().await;
}

#[tokio::test]
async fn names_that_are_no_tools_are_refused_not_misread() {
    let sandbox = Sandbox::start();
    let program = "const codes = [];
        for (const name of ['', ':', 'x', ':x', 'x:', 'a\\nb:c', 'x'.repeat(1000) + ':y']) {
          codes.push((await pml.callTool(name)).error.code);
        }
        return codes";
    assert_eq!(sandbox.value(program).await, json!(["TOOL_NOT_FOUND"; 7].to_vec()));
    let table = [
        ("typeof mcp.then", json!("undefined")),
        ("typeof mcp.test.toJSON", json!("undefined")),
        ("typeof mcp.__proto__", json!("undefined")),
        ("await mcp; await mcp.test; 'not a thenable'", json!("not a thenable")),
        ("Object.keys(mcp)", json!(["test", "other"])),
        ("Object.keys(mcp.other)", json!(["tool"])),
        ("['echo' in mcp.test, 'nope' in mcp.test, 'test' in mcp]", json!([true, false, true])),
        ("mcp.test.echo === mcp.test.echo", json!(true)),
        (
            "try { mcp.x = 1 } catch (e) { e.message }; try { delete mcp.test } catch (e) { return e.message }",
            json!("mcp is read-only"),
        ),
        ("const { echo } = mcp.test; await echo({ a: 1 })", json!({"a": 1})),
    ];
    for (program, expected) in table {
        assert_eq!(sandbox.value(program).await, expected, "{program}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn tampering_changes_nothing_for_the_host() {
    let sandbox = Sandbox::start();
    let program = r#"
        for (const name of ["stringify", "parse"]) JSON[name] = () => { throw 1 };
        for (const o of [Object.prototype, Array.prototype, Function.prototype, Promise.prototype, Map.prototype, WeakMap.prototype, Error.prototype, String.prototype]) {
          for (const key of Object.getOwnPropertyNames(o)) {
            if (key === "constructor" || key === "__proto__") continue;
            try { Object.defineProperty(o, key, { value: () => "evil", configurable: true, writable: true }) } catch {}
          }
        }
        Object.defineProperty(Object.prototype, "toJSON", { value: () => "planted" });
        Object.defineProperty(Object.prototype, "target", { set() { throw 1 }, get: () => "evil:tool" });
        Object.defineProperty(Object.prototype, "success", { set() { throw 1 } });
        globalThis.Promise = globalThis.Error = globalThis.Reflect = globalThis.Proxy = undefined;
        Symbol.iterator; 
        let calls = 0;
        const counted = { get a() { calls++; return calls } };
        const echoed = await mcp.test.echo(counted);
        const { result } = await pml.callTool("test:echo", { b: 2 });
        return { echoed, result, calls };
    "#;
    let value = sandbox.value(program).await;
    assert_eq!(value, json!({"echoed": {"a": 1}, "result": {"b": 2}, "calls": 1}));
    let seen: Vec<_> = sandbox
        .tools
        .seen
        .lock()
        .unwrap()
        .iter()
        .map(|call| format!("{} {}", call.tool, call.args.written()))
        .collect();
    assert_eq!(seen, [r#"test:echo {"a":1}"#, r#"test:echo {"b":2}"#]);
    sandbox.stop().await;
}

#[tokio::test]
async fn a_forged_tool_error_does_not_pass_for_a_real_one() {
    let sandbox = Sandbox::start();
    let table = [
        "import { ToolError } from 'pml'; throw new ToolError('m', { code: 'SANDBOX_VIOLATION', tool: 'a:b' })",
        "throw Object.assign(new Error('m'), { code: 'TIMEOUT', tool: 'a:b' })",
        "const e = new Error('interrupted'); e.name = 'InternalError'; throw e",
        "const e = new Error('out of memory'); e.name = 'InternalError'; throw e",
    ];
    for program in table {
        let error = sandbox.run(program).await.result.unwrap_err();
        assert_eq!((error.code, error.tool), (ErrorCode::Exception, None), "{program}");
    }
    let error =
        sandbox.run("try { await mcp.test.fail() } catch (e) { e.code = 'TIMEOUT'; e.tool = 'x:y'; throw e }").await;
    assert_eq!(code(&error), Some(ErrorCode::ToolError));
    sandbox.stop().await;
}

#[tokio::test]
async fn calls_run_at_the_same_time_but_not_too_many() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.calls_in_flight = 5;
    let program = "await Promise.all(Array.from({ length: 20 }, () => mcp.test.wait({ ms: 10 }))); 1";
    sandbox.value(program).await;
    assert_eq!(sandbox.tools.most_at_once.load(Ordering::SeqCst), 5);
    sandbox.stop().await;
}

#[tokio::test]
async fn a_thousand_calls_at_once_are_all_answered() {
    let sandbox = Sandbox::start();
    let program = "const all = await Promise.all(Array.from({ length: 1000 }, (_, i) => mcp.test.echo({ i })));
        return all.every((answer, i) => answer.i === i)";
    assert_eq!(sandbox.value(program).await, json!(true));
    sandbox.stop().await;
}

#[tokio::test]
async fn the_call_budget_ends_calls_then_the_run() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.calls = 3;
    let program = "const codes = []; for (let i = 0; i < 5; i++) {
        const r = await pml.callTool('test:echo', {}); codes.push(r.success || r.error.code) } return codes";
    let expected = json!([true, true, true, "CALL_BUDGET_SPENT", "CALL_BUDGET_SPENT"]);
    assert_eq!(sandbox.value(program).await, expected);
    assert_eq!(sandbox.tools.seen.lock().unwrap().len(), 3);
    let outcome = sandbox.run("for (;;) mcp.test.echo({})").await;
    assert_eq!(code(&outcome), Some(ErrorCode::CallBudgetSpent));
    sandbox.stop().await;
}

#[tokio::test]
async fn calls_that_are_not_awaited_are_cancelled_and_reported() {
    let sandbox = Sandbox::start();
    let outcome = sandbox.run("mcp.test.hang({}); mcp.test.hang({}); await mcp.test.echo({}); return 1").await;
    assert!(outcome.result.is_ok());
    assert_eq!(
        outcome.warnings,
        [
            "2 tool calls were not awaited: `test:hang`, `test:hang`; their results are lost: write `await` in front, or `await Promise.all([…])` around several"
        ]
    );
    assert_eq!(sandbox.tools.cancelled.load(Ordering::SeqCst), 2);
    let codes: Vec<_> = outcome.calls.iter().map(|call| call.error.as_ref().map(|error| error.code)).collect();
    assert_eq!(codes, [Some(ErrorCode::Cancelled), Some(ErrorCode::Cancelled), None]);
    sandbox.stop().await;
}

#[tokio::test]
async fn a_timeout_while_waiting_names_the_limit_and_the_tool_and_cancels_it() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.total = Duration::from_millis(200);
    let outcome = sandbox.run("await mcp.test.hang({})").await;
    let error = outcome.result.unwrap_err();
    assert_eq!(error.code, ErrorCode::Timeout);
    assert_eq!(error.message, "the run took longer than 200ms in all, waiting for `test:hang`");
    assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("limits.total_ms")), "{error:?}");
    assert_eq!(sandbox.tools.cancelled.load(Ordering::SeqCst), 1);
    sandbox.stop().await;
}

#[tokio::test]
async fn a_run_can_be_cancelled_at_any_time() {
    let sandbox = Sandbox::start();
    for program in ["await mcp.test.hang({})", "while (true) {}", "await new Promise((r) => setTimeout(r, 1e6))"] {
        let cancel = CancellationToken::new();
        let (outcome, ()) = tokio::join!(sandbox.run_with(program, &cancel, &|_| {}), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            cancel.cancel();
        });
        assert_eq!(code(&outcome), Some(ErrorCode::Cancelled), "{program}");
        assert!(outcome.duration < Duration::from_secs(5), "{program}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn console_and_progress_are_heard_while_the_program_runs() {
    let sandbox = Sandbox::start();
    let heard = Mutex::new(Vec::new());
    let listener = |event: Event<'_>| {
        heard.lock().unwrap().push(match event {
            Event::Log(log) => format!("log {}", log.text),
            Event::Progress(progress) => {
                format!("progress {} {:?} {:?}", progress.progress, progress.total, progress.message)
            }
            Event::CallStarted(call) => format!("start {}", call.tool),
            Event::CallEnded(record) => format!("end {}", record.tool),
            Event::CallProgress { .. } | Event::Waiting | Event::Awake => return, // depends on how fast the tool is
        });
    };
    let program =
        "console.log('one'); pml.progress(1, 2, 'half'); await mcp.test.echo({}); pml.progress(2); console.log('two')";
    sandbox.run_with(program, &CancellationToken::new(), &listener).await.result.unwrap();
    let expected = [
        "log one",
        "progress 1 Some(2.0) Some(\"half\")",
        "start test:echo",
        "end test:echo",
        "progress 2 None None",
        "log two",
    ];
    assert_eq!(*heard.lock().unwrap(), expected);
    sandbox.stop().await;
}

#[tokio::test]
async fn large_values_pass_both_ways() {
    let sandbox = Sandbox::start();
    let program = "const rows = Array.from({ length: 50000 }, (_, i) => ({ i, name: 'row ' + i }));
        const back = await mcp.test.echo({ rows }); return [back.rows.length, back.rows[49999].name]";
    assert_eq!(sandbox.value(program).await, json!([50000, "row 49999"]));
    sandbox.stop().await;
}

#[tokio::test]
async fn odd_json_from_a_tool_is_taken_as_it_is() {
    let sandbox = Sandbox::start();
    let table = [
        (r#"{"__proto__": {"polluted": 1}, "constructor": 2}"#, json!([false, 2])),
        (r#"{"constructor": 1e400}"#, json!([false, null])),
    ];
    for (text, expected) in table {
        let program = format!(
            "const v = await mcp.test.text({{ text: {text:?} }}); return [({{}} as any).polluted === 1, v.constructor]"
        );
        assert_eq!(sandbox.value(&program).await, expected, "{text}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let program = format!("const r = await pml.callTool('test:text', {{ text: '{deep}' }}); return r.success");
    assert!(sandbox.run(&program).await.result.is_ok());
    sandbox.stop().await;
}
