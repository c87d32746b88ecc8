//! Work whose cost a server or a program controls: it is bounded, and ends with its run.
//!
//! That it holds up nobody meanwhile is measured by `scripts/bench neighbours`.

use std::time::Duration;

use pml_wire::ErrorCode;
use serde_json::json;

use super::{
    gateway::{Gateway, Way, fixture},
    support::code,
};

/// Far more than any of this takes, and far less than it took when it was not bounded.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_schema_costs_no_more_than_it_may() {
    let mut gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &["--fault", "hostile-schemas"])]);
    gateway.budget.set_timeout(Duration::from_secs(120));
    let deep = "let deep = {}; for (let i = 0; i < 60; i++) deep = { a: deep };";
    let long = "'a'.repeat(2_000_000)";
    let table = [
        ("mcp.fix.pattern_huge({ text: 'a'.repeat(40_000) })".to_owned(), "pattern_huge"),
        (format!("mcp.fix.pattern_slow({{ text: {long} }})"), "pattern_slow"),
        (format!("mcp.fix.pattern_back({{ text: {long} }})"), "pattern_back"),
        ("mcp.fix.enumerated({ text: Array(20_000).fill(19_999) })".to_owned(), "enumerated"),
        ("mcp.fix.branches(deep)".to_owned(), "branches"),
    ];
    for (call, expected) in table {
        let outcome = gateway.run(&format!("{deep} return await {call}")).await;
        // What is too much to check is the server's business.
        assert_eq!(outcome.result.unwrap().get(), json!(expected).to_string());
        assert!(outcome.duration < SOON, "{call}: {:?}", outcome.duration);
    }
    // What is not, is checked.
    let (code, message) = gateway.error("const text = 'x'; await mcp.fix.pattern_slow({ text })").await;
    assert_eq!(code, ErrorCode::InvalidArguments, "{message}");
    gateway.stop().await;
}

#[tokio::test]
async fn parts_of_a_large_result_are_found_once() {
    let mut gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    gateway.budget.set_timeout(Duration::from_secs(120));
    let program = r#"const big = await mcp.fix.big_json({ items: 60_000 });
        const started = Date.now();
        let sum = 0;
        for (let i = 0; i < 300; i++) sum += (await big.json(`items[${i * 199}].id`));
        return { sum, type: big.type, ms: Date.now() - started }"#;
    let value = gateway.value(program).await;
    assert_eq!((&value["sum"], &value["type"]), (&json!(299 * 300 / 2 * 199), &json!("json")));
    assert!(value["ms"].as_u64().unwrap() < 20_000, "{value}");
    gateway.stop().await;
}

#[tokio::test]
async fn reads_are_counted() {
    let mut gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    gateway.budget.result_bytes = 1000;
    gateway.budget.calls = 2;
    let program = r#"const big = await mcp.fix.big({ bytes: 5000 });
        let reads = 0;
        try { for (;;) { await big.slice(0, 10); reads++ } } catch (e) { return [reads, e.code] }"#;
    assert_eq!(gateway.value(program).await, json!([100, "CALL_BUDGET_SPENT"]));
    let endless = "const big = await mcp.fix.big({ bytes: 5000 }); for (;;) await big.slice(0, 10).catch(() => 0)";
    assert_eq!(code(&gateway.run(endless).await), Some(ErrorCode::CallBudgetSpent));
    gateway.stop().await;
}

/// Names that do not exist are told from those that do, and the tools of a server that may change are waited for once.
#[tokio::test]
async fn unknown_tools_without_number_are_answered() {
    let mut gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &["--tools", "500"])]);
    gateway.budget.set_timeout(Duration::from_secs(120));
    let program = r#"import { callTool } from "pml";
        const messages = [];
        for (let i = 0; i < 900; i++) messages.push((await callTool(`fix:tool_${i}x`, {})).error.message);
        return { suggested: messages.filter((m) => m.includes("did you mean")).length, last: messages.at(-1) }"#;
    let outcome = gateway.run(program).await;
    assert!(outcome.duration < SOON, "{:?}", outcome.duration);
    let value: serde_json::Value = serde_json::from_str(outcome.result.unwrap().get()).unwrap();
    assert_eq!(value, json!({ "suggested": 10, "last": "there is no tool `fix:tool_899x`" }));
    gateway.stop().await;
}

#[tokio::test]
async fn a_refused_call_costs_nothing_however_large_its_handles_are() {
    let data_dir = tempfile::tempdir().unwrap();
    let policy = pml::broker::Policy { deny: vec!["fix:any".to_owned()], ..pml::broker::Policy::default() };
    let mut gateway = Gateway::with(vec![fixture(Way::Stdio, "both", &[])], policy, data_dir);
    gateway.budget.set_timeout(Duration::from_secs(120));
    let program = r#"import { callTool } from "pml";
        const big = await mcp.fix.big({ bytes: 40_000_000 });
        const codes = new Set();
        for (let i = 0; i < 200; i++) codes.add((await callTool("fix:any", { value: big })).error.code);
        return [...codes]"#;
    let outcome = gateway.run(program).await;
    assert_eq!(outcome.result.unwrap().get(), json!(["POLICY_DENIED"]).to_string());
    assert!(outcome.duration < SOON, "{:?}", outcome.duration);
    gateway.stop().await;
}
