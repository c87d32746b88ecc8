//! The pool with many runs at once, and with none.

use std::time::Duration;

use pml::sandbox::Mode;
use pml_wire::ErrorCode;
use serde_json::json;

use crate::support::{Sandbox, code, options};

fn pool() -> Sandbox {
    Sandbox::with(options(env!("CARGO_BIN_EXE_pml"), Mode::Worker))
}

#[tokio::test]
async fn many_runs_at_once_get_their_own_answers() {
    let sandbox = pool();
    let runs =
        (0..50).map(|i| {
            let sandbox = &sandbox;
            async move {
                (i, sandbox.value(&format!("const r = await mcp.test.wait({{ ms: 5, i: {i} }}); return r.i")).await)
            }
        });
    for (i, value) in futures_util::future::join_all(runs).await {
        assert_eq!(value, json!(i));
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn a_bad_run_does_not_disturb_the_one_beside_it() {
    let mut sandbox = pool();
    sandbox.budget.timeout = Duration::from_secs(2);
    let bad = [
        "while (true) {}",
        "const a = []; for (;;) a.push(new Array(1000))",
        "function f() { f() } f()",
        "for (;;) console.log('x')",
    ];
    for program in bad {
        let good = "for (let i = 0; i < 20; i++) await mcp.test.wait({ ms: 1 }); return 'good'";
        let (bad, good) = tokio::join!(sandbox.run(program), sandbox.value(good));
        assert!(bad.result.is_err(), "{program}");
        assert_eq!(good, json!("good"), "beside {program}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_a_clear_error() {
    for mode in [Mode::Worker, Mode::Subprocess] {
        let sandbox = Sandbox::with(options("/nonexistent/pml", mode));
        let outcome = sandbox.run("return 1").await;
        assert_eq!(code(&outcome), Some(ErrorCode::SandboxUnavailable));
        sandbox.stop().await;
    }
}
