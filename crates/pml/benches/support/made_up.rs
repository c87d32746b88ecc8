//! Traces that are made up, with 3 KB of JSON on average, as executions of a few calls have.

use pml_wire::{ExecutionId, trace::Trace};
use serde_json::json;

/// An execution of one to eight calls.
pub(crate) fn trace(number: usize) -> Trace {
    let began = 1_790_000_000_000 + number as u64;
    let word = |n: usize| format!("{:x}", (number * 31 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let tasks: Vec<_> = (0..1 + number % 8)
        .map(|n| {
            let rows: Vec<_> = (0..6).map(|row| json!({"id": number + row, "title": word(n + row), "state": "open"})).collect();
            json!({
                "taskId": format!("t{}", n + 1), "callId": n + 1, "tool": format!("server{}:tool{}", n % 3, number % 40),
                "args": {"query": word(n), "limit": 50}, "result": rows, "success": !number.is_multiple_of(9), "acceptedAt": began,
                "timestamp": began, "durationMs": 1.5 * n as f64, "layerIndex": 1, "line": n + 1,
            })
        })
        .collect();
    let trace = json!({
        "traceId": ExecutionId::mint(), "entry": "execute_code", "intent": format!("look for {} in the tracker", word(0)),
        "caller": "agent", "client": {"name": "claude-code", "version": "2.1"}, "success": !number.is_multiple_of(9),
        "durationMs": 12.5, "timestamp": began, "args": {"n": number}, "result": {"found": word(1)},
        "code": format!("const rows = await mcp.tracker.search({{ query: 'q{}' }})\nreturn rows.length", number % 50),
        "codeHash": word(2), "taskResults": tasks, "metadata": {"pmlVersion": "0.1.0", "schemaVersion": 1},
    });
    serde_json::from_value(trace).expect("a trace")
}
