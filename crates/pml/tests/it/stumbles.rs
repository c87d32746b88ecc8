//! Servers that restart, crash now and then or close connections: programs get their answers a moment later, and an error
//! says whether the call may have happened.

use std::time::Duration;

use pml::{
    events::Body,
    upstream::{HttpWire, Settings},
};
use pml_testkit::Fixture;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::gateway::{Gateway, Way, fixture, remote};

const ECHO: &str = "return await mcp.fix.echo({ text: 'x' })";

/// What a program learns of a call that fails.
const TRY: &str = "const tried = async (call) => { try { return await call() } catch (e) { \
                   return { code: e.code, outcome: e.outcome, retryable: e.retryable, message: e.message } } };";

/// The program's value of one call that fails.
async fn failure(gateway: &Gateway, call: &str) -> Value {
    gateway.value(&format!("{TRY} return await tried(() => {call})")).await
}

/// A fixture over HTTP that can be started again at the same address.
fn restartable(arguments: &[&str]) -> (Fixture, impl Fn(&[&str]) -> Fixture + use<>) {
    let first = Fixture::start(&[&["--transport", "http"], arguments].concat());
    let (port, arguments) = (first.port(), arguments.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
    let again = move |more: &[&str]| {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        Fixture::start(&[&["--transport", "http", "--port", &port], &arguments[..], more].concat())
    };
    (first, again)
}

#[tokio::test]
async fn a_remote_server_that_was_restarted_answers_the_next_call() {
    for (era, status) in [("legacy", "404"), ("legacy", "400"), ("modern", "404")] {
        let fault = format!("unknown-session={status}");
        let (first, again) = restartable(&["--era", era, "--fault", &fault]);
        let gateway = Gateway::start(vec![remote("fix", &first.url, HttpWire::Auto)]);
        assert_eq!(gateway.value(ECHO).await, "x");
        drop(first);
        let second = again(&["--tools", "1"]);
        let all = "return (await Promise.all([1, 2, 3, 4].map((n) => mcp.fix.echo({ text: `${n}` })))).join()";
        assert_eq!(gateway.value(all).await, "1,2,3,4", "{era} {status}");
        // Only one session was begun, whoever noticed that the one before is gone.
        let counters = gateway.value("return await mcp.fix.counters({})").await;
        assert_eq!(counters["sessions"], u64::from(era == "legacy"), "{era} {status}: {counters}");
        if era == "legacy" {
            // It may have other tools by now.
            let event = gateway.event(|body| matches!(body, Body::ToolsRefreshed { .. })).await;
            let Body::ToolsRefreshed { added, .. } = &event.body else { panic!("{event:?}") };
            assert_eq!(added, &["tool_0001"], "{status}");
        }
        gateway.stop().await;
        drop(second);
    }
}

#[tokio::test]
async fn calls_wait_for_a_remote_server_that_is_away_for_a_moment() {
    let (first, again) = restartable(&["--era", "legacy"]);
    let server = remote("fix", &first.url, HttpWire::Auto).with(|settings| {
        settings.backoff.initial = Duration::from_secs(2);
        settings.backoff.max = Duration::from_secs(10);
    });
    let gateway = Gateway::start(vec![server]);
    assert_eq!(gateway.value(ECHO).await, "x");
    drop(first);
    let back = async {
        gateway.event(|body| matches!(body, Body::Disconnected { .. })).await;
        again(&[])
    };
    let (value, _second) = tokio::join!(gateway.value(ECHO), back);
    assert_eq!(value, "x");
    gateway.stop().await;
}

#[tokio::test]
async fn calls_to_a_server_that_is_down_fail_and_say_that_they_were_not_sent() {
    let first = Fixture::start(&["--transport", "http", "--era", "legacy"]);
    let gateway = Gateway::start(vec![remote("fix", &first.url, HttpWire::Auto)]);
    assert_eq!(gateway.value(ECHO).await, "x");
    drop(first);
    let error = failure(&gateway, "mcp.fix.echo({ text: 'x' })").await;
    let told = (&error["code"], &error["outcome"], &error["retryable"]);
    assert_eq!(told, (&json!("PROVIDER_UNAVAILABLE"), &json!("not_sent"), &json!(true)), "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("is being reconnected, attempt 4 of 5") && message.contains("was not sent"), "{message}");
    gateway.stop().await;
}

#[tokio::test]
async fn each_new_session_closes_the_stream_of_the_one_before() {
    for status in ["404", "400"] {
        let fault = format!("unknown-session={status}");
        let faults = ["--fault", "expire-session=2", "--fault", &fault];
        let gateway = Gateway::start(vec![fixture(Way::Http, "legacy", &faults)]);
        let calls = "for (let i = 0; i < 11; i++) await mcp.fix.echo({ text: 'x' })";
        gateway.value(calls).await;
        let mut counters = Value::Null;
        for _ in 0..200 {
            counters = gateway.value("return await mcp.fix.counters({})").await;
            if counters["streams"] == 1 {
                break;
            }
        }
        assert_eq!(counters["streams"], 1, "{status}: {counters}");
        assert!(counters["sessions"].as_u64() >= Some(6), "{status}: {counters}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_cancelled_call_leaves_no_session_half_made() {
    let faults = ["--fault", "expire-session=1", "--fault", "slow-renewal=1500"];
    let gateway = Gateway::start(vec![fixture(Way::Http, "legacy", &faults)]);
    assert_eq!(gateway.value(ECHO).await, "x");
    let cancel = CancellationToken::new();
    let given_up = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(gateway.run_until(ECHO, &cancel), given_up);
    assert!(outcome.result.is_err());
    // The replacement that the cancelled call began is the one that the next call uses.
    let counters = gateway.value("return await mcp.fix.counters({})").await;
    assert_eq!((&counters["sessions"], &counters["initialized"]), (&json!(2), &json!(2)), "{counters}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_sign_of_life_is_not_an_error() {
    let soon = |settings: &mut Settings| settings.keepalive = Duration::from_millis(100);
    // The session is found to be lost without any call.
    let (first, again) = restartable(&["--era", "legacy", "--fault", "unknown-session=400"]);
    let gateway = Gateway::start(vec![remote("fix", &first.url, HttpWire::Auto).with(soon)]);
    assert_eq!(gateway.value(ECHO).await, "x");
    drop(first);
    let second = again(&["--tools", "3"]);
    loop {
        let event = gateway.event(|body| matches!(body, Body::ToolsRefreshed { .. })).await;
        let Body::ToolsRefreshed { added, .. } = &event.body else { panic!("{event:?}") };
        if added.len() == 3 {
            break;
        }
    }
    // What answers there now is no server.
    drop(second);
    let _page = again(&["--fault", "status-init=400"]);
    gateway.event(|body| matches!(body, Body::Disconnected { .. })).await;
    gateway.event(|body| matches!(body, Body::ReconnectExhausted { .. })).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_server_that_dies_now_and_then_loses_only_the_calls_it_dies_at() {
    for era in ["legacy", "modern"] {
        let gateway = Gateway::start(vec![fixture(Way::Stdio, era, &["--fault", "die-on=10"])]);
        let program = format!(
            "{TRY} const lost = []; \
             for (let i = 1; i <= 60; i++) {{ \
               const got = await tried(() => mcp.fix.count({{ key: 'k' }})); \
               if (got.code) lost.push([i, got.code, got.outcome, got.retryable]); \
             }} return lost"
        );
        let lost = gateway.value(&program).await;
        let expected: Vec<_> = (1..=6).map(|n| json!([10 * n, "PROVIDER_CRASHED", "unknown", false])).collect();
        assert_eq!(lost, json!(expected), "{era}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_closes_its_output_gets_no_call_that_it_could_not_answer() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "legacy", &["--fault", "mute-after=1"])]);
    for n in 0..3 {
        assert_eq!(gateway.value(ECHO).await, "x", "call {n}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_error_says_whether_the_call_may_have_happened() {
    #[rustfmt::skip]
    let table = [
        // way          era       fault            call                                   code                    outcome
        (Way::Http,  "legacy", "swallow",       "mcp.fix.count({ key: 'k' })",         "PROVIDER_UNAVAILABLE", "unknown"),
        (Way::Http,  "modern", "swallow",       "mcp.fix.count({ key: 'k' })",         "PROVIDER_UNAVAILABLE", "unknown"),
        (Way::Http,  "legacy", "status=503",    "mcp.fix.count({ key: 'k' })",         "PROVIDER_UNAVAILABLE", "unknown"),
        (Way::Http,  "modern", "drop-stream",   "mcp.fix.count({ key: 'k' })",         "PROVIDER_UNAVAILABLE", "unknown"),
        (Way::Http,  "legacy", "slow-body",     "mcp.fix.count({ key: 'k' })",         "PROVIDER_TIMEOUT",     "unknown"),
        (Way::Http,  "legacy", "status=429",    "mcp.fix.count({ key: 'k' })",         "RATE_LIMITED",         "not_sent"),
        (Way::Sse,   "legacy", "drop-stream",   "mcp.fix.count({ key: 'k' })",         "PROVIDER_UNAVAILABLE", "unknown"),
        (Way::Stdio, "legacy", "noise",         "mcp.fix.crash({})",                   "PROVIDER_CRASHED",     "unknown"),
        (Way::Stdio, "modern", "noise",         "mcp.fix.hang({})",                    "PROVIDER_TIMEOUT",     "unknown"),
        (Way::Stdio, "legacy", "noise",         "mcp.fix.odd({ kind: 'list-result' })", "PROVIDER_PROTOCOL",   "unknown"),
        (Way::Stdio, "legacy", "noise",         "mcp.fix.fail({ message: 'no' })",     "TOOL_ERROR",           "answered"),
        (Way::Stdio, "legacy", "noise",         "mcp.fix.count({})",                   "INVALID_ARGUMENTS",    "not_sent"),
        (Way::Stdio, "legacy", "exit=3",        "mcp.fix.count({ key: 'k' })",         "PROVIDER_INIT_FAILED", "not_sent"),
    ];
    for (way, era, fault, call, code, outcome) in table {
        let server = fixture(way, era, &["--fault", fault]).with(|settings| {
            settings.call_timeout = Duration::from_secs(2);
            // Its hints would be believed, but these tools have none.
            settings.is_trusted = true;
        });
        let gateway = Gateway::start(vec![server]);
        let error = failure(&gateway, call).await;
        assert_eq!((&error["code"], &error["outcome"]), (&json!(code), &json!(outcome)), "{way:?} {fault}: {error}");
        let retryable = code == "RATE_LIMITED";
        assert_eq!(error["retryable"], retryable, "{way:?} {fault}: {error}");
        if outcome == "unknown" {
            assert!(error["message"].as_str().unwrap().contains("may have happened: check before"), "{error}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_call_without_answer_is_retryable_if_a_trusted_server_says_that_it_only_reads() {
    for is_trusted in [true, false] {
        let server = fixture(Way::Http, "legacy", &["--fault", "swallow"]).with(|settings| {
            settings.is_trusted = is_trusted;
        });
        let gateway = Gateway::start(vec![server]);
        let error = failure(&gateway, "mcp.fix.echo({ text: 'x' })").await;
        assert_eq!((&error["outcome"], &error["retryable"]), (&json!("unknown"), &json!(is_trusted)), "{error}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_message_that_never_left_is_said_to_be_unsent_and_does_not_leave_later() {
    let server = fixture(Way::Stdio, "legacy", &[]).with(|settings| {
        settings.call_timeout = Duration::from_secs(2);
        settings.keepalive = Duration::from_secs(600);
    });
    let gateway = Gateway::start(vec![server]);
    let pid = gateway.value("return (await mcp.fix.pid({})).pid").await;
    let pid = Pid::from_raw(i32::try_from(pid.as_i64().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    // The first fills the pipe and stands in it; the second waits behind it.
    let program = format!(
        "{TRY} const text = 'x'.repeat(100000); \
         const first = tried(() => mcp.fix.echo({{ text }})); \
         await new Promise((resolve) => setTimeout(resolve, 300)); \
         const second = tried(() => mcp.fix.count({{ key: 'k' }})); \
         return [(await first).outcome, (await second).outcome, (await second).retryable]"
    );
    assert_eq!(gateway.value(&program).await, json!(["unknown", "not_sent", true]));
    gateway.stop().await;
}

#[tokio::test]
async fn the_record_of_a_run_has_the_outcome_of_each_call() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "legacy", &[])]);
    let outcome = gateway.run("await mcp.fix.crash({})").await;
    let told = serde_json::to_value(&outcome).unwrap();
    let error = &told["calls"][0]["error"];
    assert_eq!((&error["outcome"], &error["retryable"]), (&json!("unknown"), &json!(false)), "{told}");
    gateway.stop().await;
}

#[tokio::test]
async fn no_two_requests_of_a_connection_have_the_same_id() {
    for era in ["legacy", "modern", "both"] {
        let gateway = Gateway::start(vec![fixture(Way::Stdio, era, &[])]);
        assert_eq!(gateway.value(ECHO).await, "x");
        let counters = gateway.value("return await mcp.fix.counters({})").await;
        assert_eq!(counters["repeated_ids"], Value::Null, "{era}: {counters}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_list_that_changes_all_the_time_is_not_read_all_the_time() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "legacy", &[])]);
    let program = "for (let i = 0; i < 30; i++) { \
                     await mcp.fix.change_list({}); \
                     await new Promise((resolve) => setTimeout(resolve, 80)); \
                   } return (await mcp.fix.counters({})).lists";
    let lists = gateway.value(program).await;
    assert!(lists.as_u64() <= Some(12), "{lists} times for 30 changes");
    // What changed last is read too.
    gateway
        .event(|body| matches!(body, Body::ToolsRefreshed { added, .. } if added.contains(&"added_30".to_owned())))
        .await;
    gateway.stop().await;
}
