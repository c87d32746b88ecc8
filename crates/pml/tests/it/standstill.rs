//! Arguments and answers that pile up on both sides of the socket: the run goes on, or ends with a reason, at once.

use std::time::Duration;

use pml::sandbox::Mode;
use pml_wire::ErrorCode;
use serde_json::json;

use crate::{
    gateway::{Gateway, Way, fixture},
    support::{MIB, Sandbox, code, options},
};

/// What the host lets wait before it stops reading, and before it starts no more calls.
const BOUND: usize = 32 * MIB;

/// Makes `count` calls with arguments of `size` bytes at once, each echoed, and adds up the answers.
fn flood(count: usize, size: usize) -> String {
    format!(
        r#"const text = "x".repeat({size});
           const calls = Array.from({{ length: {count} }}, () => mcp.test.echo({{ text }}).then((r) => r.text.length));
           return (await Promise.all(calls)).reduce((sum, length) => sum + length, 0)"#
    )
}

#[tokio::test]
async fn calls_of_any_number_and_size_make_progress() {
    let mut sandbox = Sandbox::with(options(env!("CARGO_BIN_EXE_pml"), Mode::Worker));
    sandbox.budget.timeout = Duration::from_secs(60);
    let size = 200_000;
    // Around what the host lets wait in one direction, in both, and with what the worker holds; and far beyond.
    for count in [BOUND / size, BOUND / size + 1, 2 * BOUND / size + 1, 400, 4 * BOUND / size + 1] {
        let value = sandbox.value(&flood(count, size)).await;
        assert_eq!(value, count * size, "{count} calls");
    }
    for (count, size) in [(5, 7 * MIB), (10, 7 * MIB), (1000, 34_000)] {
        let value = sandbox.value(&flood(count, size)).await;
        assert_eq!(value, count * size, "{count} calls of {size} bytes");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn a_batch_of_large_calls_makes_progress() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.timeout = Duration::from_secs(60);
    sandbox.budget.memory_bytes = 512 * MIB;
    for count in [150, 200, 400] {
        let program = format!(
            r#"import {{ callToolsBatch }} from "pml";
               const args = {{ text: "x".repeat(200_000) }};
               const results = await callToolsBatch(Array.from({{ length: {count} }}, () => ({{ name: "test:echo", args }})));
               return results.every((r) => r.success && r.result.text.length === 200_000)"#
        );
        assert_eq!(sandbox.value(&program).await, json!(true), "{count}");
    }
    sandbox.stop().await;
}

/// Answers that cannot be held while the program still sends are a lack of memory, said at once.
#[tokio::test]
async fn answers_that_nothing_can_hold_are_a_lack_of_memory() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.timeout = Duration::from_secs(60);
    sandbox.budget.memory_bytes = 24 * MIB;
    let program = r#"const text = JSON.stringify("y".repeat(4_000_000)), pad = "x".repeat(400_000);
        const calls = Array.from({ length: 900 }, () => mcp.test.text({ text, pad }).then((r) => r.length));
        return (await Promise.all(calls)).length"#;
    let outcome = sandbox.run(program).await;
    assert_eq!(code(&outcome), Some(ErrorCode::MemoryLimit), "{:?}", outcome.result);
    assert!(outcome.duration < Duration::from_secs(30), "{:?}", outcome.duration);
    sandbox.stop().await;
}

#[tokio::test]
async fn parallel_slices_of_a_large_result_make_progress() {
    let mut gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    gateway.budget.timeout = Duration::from_secs(60);
    let program = r#"const big = await mcp.fix.big({ bytes: 48_000_000 });
        const starts = Array.from({ length: 8000 }, (_, i) => i * 5_000);
        const sizes = await Promise.all(starts.map((from) => big.slice(from, from + 12_000).then((part) => part.length)));
        return sizes.reduce((sum, size) => sum + size, 0)"#;
    assert_eq!(gateway.value(program).await, 96_000_000);
    gateway.stop().await;
}
