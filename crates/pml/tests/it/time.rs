//! Time is fair: what a program computes is its own, what it waits for is not, and all of it ends.

use std::time::Duration;

use pml::sandbox::Mode;
use pml_testkit::helper_path;
use pml_wire::ErrorCode;
use serde_json::json;

use super::{
    gateway::{Gateway, Way, fixture},
    support::{Sandbox, code, options},
};

#[tokio::test]
async fn waiting_for_tools_is_not_the_programs_time() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.timeout = Duration::from_millis(500);
    #[rustfmt::skip]
    let table = [
        // One long call, many short ones, several at once, and a timer beside a call.
        ("await mcp.test.wait({ ms: 900 }); return 1",                                          1),
        ("for (let i = 0; i < 200; i++) await mcp.test.wait({ ms: 4 }); return 2",              2),
        ("for (let i = 0; i < 40; i++) await mcp.test.wait({ ms: 20 }); return 3",              3),
        ("await Promise.all([500, 700, 900].map((ms) => mcp.test.wait({ ms }))); return 4",     4),
        ("const call = mcp.test.wait({ ms: 900 }); await new Promise((go) => setTimeout(go, 700)); await call; return 5", 5),
    ];
    for (program, expected) in table {
        let outcome = sandbox.run(program).await;
        let value = outcome.result.as_ref().map(|value| value.get().to_owned());
        assert_eq!(value.ok(), Some(expected.to_string()), "{program}: {:?}", outcome.result);
        assert!(outcome.duration > Duration::from_millis(700), "{program}: {:?}", outcome.duration);
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn computing_and_sleeping_are() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.timeout = Duration::from_millis(400);
    let spin = "const until = Date.now() + 250; while (Date.now() < until);";
    #[rustfmt::skip]
    let table = [
        ("for (;;);".to_owned(),                                                        "the program ran for longer than 400ms (waiting for tools is not counted)"),
        // Before and after a call, together.
        (format!("{{ {spin} }} await mcp.test.wait({{ ms: 600 }}); {{ {spin} }}"),      "the program ran for longer than 400ms (waiting for tools is not counted)"),
        // While a call goes on.
        ("mcp.test.hang({}); for (;;);".to_owned(),                                     "the program ran for longer than 400ms (waiting for tools is not counted)"),
        ("const spin = () => { Promise.resolve().then(spin) }; spin(); await new Promise(() => {})".to_owned(), "the program ran for longer than 400ms (waiting for tools is not counted)"),
        ("await new Promise((go) => setTimeout(go, 5000))".to_owned(),                  "the program ran for longer than 400ms (waiting for tools is not counted); it was waiting for its own timers"),
    ];
    for (program, expected) in table {
        let outcome = sandbox.run(&program).await;
        let error = outcome.result.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::Timeout, expected), "{program}");
        assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("limits.timeout_ms")), "{error:?}");
        assert!(outcome.duration < Duration::from_secs(5), "{program}: {:?}", outcome.duration);
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn the_whole_ends_whatever_it_waits_for() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.total = Duration::from_millis(500);
    for program in [
        "for (;;) await mcp.test.wait({ ms: 20 })",
        "mcp.test.hang({}); for (;;) await new Promise((go) => setTimeout(go, 10))",
        "for (;;) await Promise.all([mcp.test.wait({ ms: 50 }), mcp.test.echo({})])",
    ] {
        let outcome = sandbox.run(program).await;
        let error = outcome.result.unwrap_err();
        assert_eq!(error.code, ErrorCode::Timeout, "{program}: {error:?}");
        assert!(error.message.starts_with("the run took longer than 500ms in all"), "{program}: {error:?}");
        assert!(outcome.duration < Duration::from_secs(5), "{program}: {:?}", outcome.duration);
    }
    sandbox.stop().await;
}

/// A worker that has been taken over says that it waits, and computes.
#[tokio::test]
async fn a_worker_that_lies_about_waiting_gains_no_more_than_the_whole() {
    let mut sandbox = Sandbox::with(options(helper_path("hostile-worker"), Mode::Subprocess));
    sandbox.budget.timeout = Duration::from_millis(200);
    sandbox.budget.total = Duration::from_millis(700);
    // With a call that never ends, it is believed, up to the whole.
    let outcome = sandbox.run("pretend-to-wait").await;
    let error = outcome.result.unwrap_err();
    assert_eq!(error.code, ErrorCode::Timeout);
    assert_eq!(error.message, "the run took longer than 700ms in all, waiting for `test:hang`");
    // Without one there is nothing to wait for.
    let outcome = sandbox.run("wait-for-nothing").await;
    assert_eq!(code(&outcome), Some(ErrorCode::Timeout));
    assert!(outcome.duration < Duration::from_millis(600), "{:?}", outcome.duration);
    sandbox.stop().await;
}

#[tokio::test]
async fn a_server_that_is_slow_to_start_takes_none_of_the_programs_time() {
    let mut gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &["--fault", "slow-start=1500"])]);
    gateway.budget.timeout = Duration::from_millis(300);
    assert_eq!(gateway.value("return await mcp.fix.echo({ text: 'x' })").await, json!("x"));
    // Nor if the name is computed, or all names are asked for.
    let mut gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &["--fault", "slow-start=1500"])]);
    gateway.budget.timeout = Duration::from_millis(300);
    assert_eq!(gateway.value("return Object.keys(mcp.fix).includes('echo')").await, json!(true));
    gateway.stop().await;
}

#[tokio::test]
async fn a_long_call_goes_on_while_it_reports_progress() {
    let server = fixture(Way::Stdio, "both", &[]).with(|settings| settings.call_timeout = Duration::from_millis(500));
    let mut gateway = Gateway::start(vec![server]);
    gateway.budget.timeout = Duration::from_millis(300);
    let outcome = gateway.run("return await mcp.fix.sleep({ ms: 1500, progress: 15 })").await;
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    // One that is silent ends by the limit of the call, which the program can handle.
    let (code, message) = gateway.error("await mcp.fix.sleep({ ms: 5000 })").await;
    assert_eq!(code, ErrorCode::ProviderTimeout, "{message}");
    gateway.stop().await;
}
