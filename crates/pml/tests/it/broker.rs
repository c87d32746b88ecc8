//! The door: what it lets through, what it writes down.

use std::{num::NonZeroU32, time::Duration};

use pml::{broker::Policy, events::Body};
use pml_wire::ErrorCode;
use serde_json::{Value, json};

use super::gateway::{Gateway, Way, fixture};

fn policy(allow: &[&str], deny: &[&str]) -> Policy {
    let list = |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    Policy { allow: list(allow), deny: list(deny), ..Policy::default() }
}

/// The codes of calls, each made so that nothing is checked before the run.
fn codes(calls: &[&str]) -> String {
    let calls: Vec<_> = calls.iter().map(|call| format!("() => {call}")).collect();
    format!(
        r#"const codes = [];
           for (const call of [{}]) {{
             try {{ await call(); codes.push("ok") }} catch (e) {{ codes.push(e.code) }}
           }}
           return codes"#,
        calls.join(", ")
    )
}

#[tokio::test]
async fn the_policy_is_asked_about_the_tool_that_is_meant() {
    let data_dir = tempfile::tempdir().unwrap();
    let servers = vec![fixture(Way::Stdio, "both", &[])];
    let gateway = Gateway::with(servers, policy(&["fix:*"], &["fix:add", "*:get-sum"]), data_dir);
    // By its name, by an alias, and by the way around `mcp`.
    let program = codes(&[
        "mcp.fix.echo({ text: 'x' })",
        "mcp.fix.add({ a: 1, b: 2 })",
        "mcp.fix['get-sum']({ a: 1, b: 2 })",
        "mcp.fix.getSum({ a: 1, b: 2 })",
        "pml.callTool('fix:add', { a: 1, b: 2 }).then((r) => { throw r.error })",
    ]);
    let expected = json!(["ok", "POLICY_DENIED", "POLICY_DENIED", "POLICY_DENIED", "POLICY_DENIED"]);
    assert_eq!(gateway.value(&program).await, expected);
    // What may not be called is not shown.
    assert_eq!(gateway.value("return ['add', 'echo'].map((name) => name in mcp.fix)").await, json!([false, true]));
    // A program that is not started because of it is written down too.
    let (code, _) = gateway.error("await mcp.fix.add({ a: 1, b: 2 })").await;
    assert_eq!(code, ErrorCode::PreflightFailed);
    let denied = gateway.event(|body| matches!(body, Body::PolicyDenied { .. })).await;
    assert!(format!("{denied:?}").contains("deny fix:add"), "{denied:?}");
    let audit = gateway.audit().await;
    let denials: Vec<_> = audit.iter().filter(|line| line["decision"] == "deny").collect();
    assert_eq!(denials.len(), 5);
    assert_eq!((&denials[4]["call"], &denials[4]["rule"]), (&json!(0), &json!("deny fix:add")));
    assert_eq!((&denials[2]["tool"], &denials[2]["rule"]), (&json!("fix:get-sum"), &json!("deny *:get-sum")));
}

#[tokio::test]
async fn every_call_leaves_one_line_and_one_event_whatever_happened() {
    let server = fixture(Way::Stdio, "both", &[]).with(|settings| settings.call_timeout = Duration::from_millis(1500));
    let mut gateway = Gateway::start(vec![server]);
    gateway.budget.calls = 6;
    let program = codes(&[
        "mcp.fix.echo({ text: 'secret words' })",
        // Refused without any waiting, right after a success: here, and once the budget is spent.
        "mcp.fix.nothing({})",
        "mcp.fix.fail({ message: 'no' })",
        "mcp.fix.echo({ txt: 1 })",
        "mcp.fix.hang({})",
        "mcp.fix.getSum({ a: 1, b: 2 })",
        "mcp.fix.echo({ text: 'over the budget' })",
    ]) + ";";
    let outcome = gateway.run(&program).await;
    let expected =
        ["ok", "TOOL_NOT_FOUND", "TOOL_ERROR", "INVALID_ARGUMENTS", "PROVIDER_TIMEOUT", "ok", "CALL_BUDGET_SPENT"];
    assert_eq!(outcome.result.unwrap().get(), json!(expected).to_string());
    // Records, events and lines agree about tool, outcome and trace.
    assert_eq!(outcome.calls[5].tool, "fix:get-sum");
    let execution = outcome.execution_id.to_string();
    let mut events = Vec::new();
    while events.len() < 7 {
        let event = gateway.event(|body| matches!(body, Body::ToolCompleted { .. } | Body::ToolFailed { .. })).await;
        assert_eq!(event.correlation_id, execution);
        events.push(serde_json::to_value(&event.body).unwrap());
    }
    let audit = gateway.audit().await;
    assert_eq!(audit.len(), 7);
    for (index, (line, event)) in audit.iter().zip(&events).enumerate() {
        let call = &outcome.calls[index];
        assert_eq!(line["call"], index + 1);
        assert_eq!(line["tool"], call.tool);
        assert_eq!(event["tool"], call.tool);
        assert_eq!(line["success"], call.error.is_none());
        assert_eq!(line["code"], call.error.as_ref().map_or(Value::Null, |error| error.code.as_str().into()));
        assert_eq!(line["execution_id"], execution);
        assert_eq!(line["trace_id"], execution.replace('-', ""));
        assert_eq!(line["who"], "test");
        assert!(line["ts"].as_u64().unwrap() > 1_700_000_000_000 && line["duration_ms"].is_number());
    }
    assert!(!format!("{audit:?}").contains("secret words"), "arguments are in the log");
}

#[tokio::test]
async fn a_cancelled_call_leaves_its_line() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    let outcome = gateway.run("mcp.fix.hang({}).catch(() => {}); await mcp.fix.echo({ text: 'x' }); return 1").await;
    assert!(outcome.warnings[0].contains("not awaited"), "{:?}", outcome.warnings);
    let audit = gateway.audit().await;
    let codes: Vec<_> = audit.iter().map(|line| line["code"].clone()).collect();
    assert_eq!(codes.len(), 2);
    assert!(codes.contains(&json!("CANCELLED")) && codes.contains(&json!(null)), "{codes:?}");
}

/// How many of these calls succeeded; the others must have been too many.
async fn calls_made(gateway: &Gateway, program: &str) -> usize {
    let codes = gateway.value(program).await;
    let codes = codes.as_array().unwrap();
    let made = codes.iter().filter(|code| **code == "ok").count();
    assert!(codes[made..].iter().all(|code| code == "RATE_LIMITED"), "{codes:?}");
    made
}

#[tokio::test]
async fn rates_are_kept_per_server_and_per_run() {
    let few = NonZeroU32::new(3);
    let program = codes(&["mcp.fix.echo({ text: 'x' })"; 4]);
    let limited = |name: &str| {
        fixture(Way::Stdio, "both", &[]).with(|settings| {
            settings.name = name.to_owned();
            settings.calls_per_minute = few;
        })
    };
    let gateway = Gateway::start(vec![limited("fix"), limited("other")]);
    assert_eq!(calls_made(&gateway, &program).await, 3);
    // Another run of the same server has only what has dripped since, which is one call in 20 seconds; another server
    // has its own.
    assert!(calls_made(&gateway, &program).await < 3, "the rate is the server's, not the run's");
    assert_eq!(calls_made(&gateway, &codes(&["mcp.other.echo({ text: 'x' })"; 4])).await, 3);
    gateway.stop().await;
    let mut gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    gateway.budget.calls_per_minute = few;
    for _ in 0..2 {
        assert_eq!(calls_made(&gateway, &program).await, 3, "the rate is the run's, not the server's");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn no_more_calls_run_at_once_than_the_server_may_have() {
    for concurrency in [1, 2, 5] {
        let server = fixture(Way::Stdio, "both", &[]).with(|settings| settings.concurrency = concurrency);
        let gateway = Gateway::start(vec![server]);
        let program = r#"await Promise.all(Array.from({ length: 12 }, () => mcp.fix.sleep({ ms: 100 })));
            return (await mcp.fix.counters({})).most_calls_at_once"#;
        assert_eq!(gateway.value(program).await, concurrency, "as many as may, and no more");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn identical_reads_of_a_trusted_server_are_made_once() {
    let program = r#"await Promise.all(Array.from({ length: 10 }, () => mcp.fix.echo({ text: "same" })));
        await mcp.fix.echo({ text: "same" });
        await Promise.all([1, 2].map((i) => mcp.fix.count({ key: "k" })));
        return (await mcp.fix.counters({})).calls"#;
    #[rustfmt::skip]
    let table = [
        // trusted, kept, calls that the server saw
        (false, None, 14),
        (true, None, 5),
        (true, Some(Duration::from_secs(60)), 4),
    ];
    for (is_trusted, cache_ttl, expected) in table {
        let server = fixture(Way::Stdio, "both", &[]).with(|settings| {
            settings.is_trusted = is_trusted;
            settings.cache_ttl = cache_ttl;
        });
        let gateway = Gateway::start(vec![server]);
        assert_eq!(gateway.value(program).await, expected, "{is_trusted} {cache_ttl:?}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn results_are_checked_where_that_is_wanted() {
    for (checks_results, expected) in [(false, "ok"), (true, "INVALID_RESULT")] {
        let server = fixture(Way::Stdio, "both", &[]).with(|settings| settings.checks_results = checks_results);
        let gateway = Gateway::start(vec![server]);
        assert_eq!(gateway.value(&codes(&["mcp.fix.add({ a: 1, b: 2 })"])).await, json!(["ok"]));
        assert_eq!(gateway.value(&codes(&["mcp.fix.lie({})"])).await, json!([expected]));
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_server_whose_tools_are_all_denied_is_not_there() {
    let named = |name: &str| {
        let name = name.to_owned();
        fixture(Way::Stdio, "both", &[]).with(move |settings| settings.name = name)
    };
    let data_dir = tempfile::tempdir().unwrap();
    let servers = vec![named("all"), named("some"), named("none")];
    let gateway = Gateway::with(servers, policy(&["*"], &["none:*", "some:add"]), data_dir);
    let program = "return [Object.keys(mcp), 'none' in mcp, Object.keys(mcp.some).includes('add')]";
    assert_eq!(gateway.value(program).await, json!([["all", "some"], false, false]));
    gateway.stop().await;
}

#[tokio::test]
async fn names_that_javascript_needs_are_reached_by_call_tool() {
    let servers = vec![
        fixture(Way::Stdio, "both", &[]),
        fixture(Way::Stdio, "both", &[]).with(|settings| settings.name = "__proto__".to_owned()),
        fixture(Way::Stdio, "both", &[]).with(|settings| settings.name = "my-server".to_owned()),
    ];
    let gateway = Gateway::start(servers);
    let program = r#"import { callTool } from "pml";
        const then = await callTool("fix:then", {});
        const proto = await callTool("__proto__:echo", { text: "p" });
        return {
          awaited: typeof (await mcp.fix), then: then.success, listed: "then" in mcp.fix, proto: proto.result,
          servers: Object.keys(mcp), alias: await mcp.myServer.getSum({ a: 1, b: 2 }),
        }"#;
    let value = gateway.value(program).await;
    assert_eq!((&value["then"], &value["listed"], &value["proto"]), (&json!(true), &json!(false), &json!("p")));
    assert_eq!(value["servers"], json!(["fix", "my-server"]));
    assert!(value["alias"].to_string().contains('3'), "{value}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_program_that_is_bound_to_fail_does_nothing() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    #[rustfmt::skip]
    let table = [
        ("await mcp.fix.ecko({ text: 'x' })", "server `fix` has no tool `ecko`; did you mean `fix:echo`?"),
        ("await mcp.fiks.echo({ text: 'x' })", "there is no server `fiks`; did you mean"),
        ("await mcp.fix.add({ a: 1 })", "`fix:add` needs the argument `b`"),
        ("await mcp.fix.add({ a: 1, b: 2, c: 3 })", "`fix:add` has no argument `c`"),
    ];
    for (call, expected) in table {
        let outcome = gateway.run(&format!("const n = 1;\n{call}; await mcp.fix.count({{ key: 'k' }});")).await;
        let error = outcome.result.unwrap_err();
        assert_eq!(error.code, ErrorCode::PreflightFailed, "{call}: {}", error.message);
        assert!(error.message.contains(expected) && error.message.contains("line 2"), "{call}: {}", error.message);
        assert!(error.frame.is_some());
        assert!(outcome.calls.is_empty());
        // Where the program may cope with it, it is only a warning.
        let outcome = gateway.run(&format!("try {{ {call} }} catch (e) {{ return e.code }}")).await;
        assert!(outcome.result.is_ok(), "{call}: {:?}", outcome.result);
        assert!(outcome.warnings[0].contains(expected), "{:?}", outcome.warnings);
    }
    assert_eq!(gateway.value("return (await mcp.fix.counters({})).calls").await, 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_program_that_may_be_right_is_not_refused() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    // A tool that appears meanwhile, and an argument that is not sent after all.
    let program = "await mcp.fix.change_list({}); return await mcp.fix.added_1({})";
    let outcome = gateway.run(program).await;
    assert_eq!(outcome.result.as_ref().ok().map(|it| it.get()), Some("\"added_1\""), "{:?}", outcome.result);
    assert!(outcome.warnings[0].contains("has no tool `added_1`"), "{:?}", outcome.warnings);
    let program = "const extra = args?.extra; return await mcp.fix.add({ a: 1, b: 2, extra })";
    assert_eq!(gateway.value(program).await, 3);
    gateway.stop().await;
}

#[tokio::test]
async fn calls_that_never_started_leave_their_lines_too() {
    let mut gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    gateway.budget.calls_in_flight = 4;
    gateway.value("for (let i = 0; i < 50; i++) mcp.fix.hang({}).catch(() => {}); return 1").await;
    assert_eq!(gateway.audit().await.len(), 50);
}
