//! Tools that must be called as tasks.

use std::time::Duration;

use pml_wire::ErrorCode;
use serde_json::{Value, json};

use super::{
    gateway::{Gateway, Way, fixture},
    support::code,
};

async fn counters(gateway: &Gateway) -> Value {
    gateway.value("return await mcp.fix.counters({})").await
}

#[tokio::test]
async fn a_tool_that_requires_a_task_is_called_like_any_other() {
    for (era, way) in [("legacy", Way::Stdio), ("legacy", Way::Http), ("modern", Way::Stdio), ("modern", Way::Http)] {
        for isolated in [false, true] {
            if isolated && way == Way::Http {
                continue;
            }
            let server = fixture(way, era, &["--fault", "tasks"]).with(|settings| {
                if isolated {
                    settings.isolation = pml::upstream::Isolation::PerCall;
                }
            });
            let gateway = Gateway::start(vec![server]);
            for polls in [0, 3] {
                let value = gateway.value(&format!("return await mcp.fix.research({{ polls: {polls} }})")).await;
                assert!(value.as_str().unwrap().starts_with("the result of task "), "{era} {way:?}: {value}");
            }
            if !isolated {
                let counted = counters(&gateway).await;
                assert_eq!(
                    (&counted["task_results"], &counted["task_cancels"]),
                    (&json!(2), &json!(null)),
                    "{counted}"
                );
            }
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn a_task_that_ends_otherwise_says_so() {
    for era in ["legacy", "modern"] {
        let gateway = Gateway::start(vec![fixture(Way::Stdio, era, &["--fault", "tasks"])]);
        for (end, expected, part) in [
            ("cancelled", ErrorCode::ToolError, "the server cancelled the task: cancelled on it"),
            ("input_required", ErrorCode::InputRequired, "asks the user"),
        ] {
            let call = format!("return await mcp.fix.research({{ polls: 1, end: '{end}' }})");
            let (code, message) = gateway.error(&call).await;
            assert_eq!(code, expected, "{era}: {message}");
            assert!(message.contains(part), "{era}: {message}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn the_error_of_a_task_is_that_of_the_call() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "modern", &["--fault", "tasks"])]);
    let program = "try { await mcp.fix.research({ polls: 2, end: 'failed' }) } catch (e) { return [e.message, e.data, e.rpcCode] }";
    assert_eq!(gateway.value(program).await, json!(["it broke", {"at": "1"}, -32000]));
    gateway.stop().await;
}

#[tokio::test]
async fn a_task_that_nobody_waits_for_is_cancelled() {
    for era in ["legacy", "modern"] {
        cancels(era).await;
    }
}

async fn cancels(era: &str) {
    let server = fixture(Way::Stdio, era, &["--fault", "tasks"]);
    let mut gateway = Gateway::start(vec![server.with(|settings| settings.max_call = Duration::from_secs(60))]);
    gateway.budget.total = Duration::from_secs(2);
    let outcome = gateway.run("return await mcp.fix.research({ polls: 1_000_000 })").await;
    assert_eq!(code(&outcome), Some(ErrorCode::Timeout), "{outcome:?}");
    gateway.budget.total = Duration::from_secs(60);
    let cancelled = async {
        while counters(&gateway).await["task_cancels"] != 1 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), cancelled).await.expect("the server hears of it");
    gateway.stop().await;
}
