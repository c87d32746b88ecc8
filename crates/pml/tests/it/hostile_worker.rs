//! A worker that has been taken over sends whatever it likes. The host must not care.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use pml::sandbox::Mode;
use pml_testkit::helper_path;
use pml_wire::ErrorCode;

use crate::support::{Sandbox, code, options};

#[tokio::test]
async fn what_ours_never_sends_ends_the_run() {
    let mut sandbox = Sandbox::with(options(helper_path("hostile-worker"), Mode::Subprocess));
    sandbox.budget.timeout = Duration::from_millis(300);
    let table = [
        ("unknown-kind", ErrorCode::SandboxViolation),
        ("huge-length", ErrorCode::SandboxViolation),
        ("garbage", ErrorCode::SandboxViolation),
        ("host-kind", ErrorCode::SandboxViolation),
        ("second-ready", ErrorCode::SandboxViolation),
        ("bad-json", ErrorCode::SandboxViolation),
        ("bad-value", ErrorCode::SandboxViolation),
        ("deep-value", ErrorCode::SandboxViolation),
        ("deep-arguments", ErrorCode::SandboxViolation),
        ("id-zero", ErrorCode::SandboxViolation),
        ("id-twice", ErrorCode::SandboxViolation),
        ("id-ahead", ErrorCode::SandboxViolation),
        ("bad-search", ErrorCode::SandboxViolation),
        ("large-search", ErrorCode::SandboxViolation),
        ("search-out-of-turn", ErrorCode::SandboxViolation),
        ("names-twice", ErrorCode::SandboxViolation),
        ("large-value", ErrorCode::SandboxViolation),
        ("complete-without-value", ErrorCode::SandboxViolation),
        ("close", ErrorCode::WorkerCrashed),
        ("half-frame", ErrorCode::WorkerCrashed),
        ("exit-with-words", ErrorCode::WorkerCrashed),
        ("silence", ErrorCode::Timeout),
        ("slow-bytes", ErrorCode::Timeout),
        ("close-but-stay", ErrorCode::WorkerCrashed),
    ];
    for (behaviour, expected) in table {
        let outcome = sandbox.run(behaviour).await;
        assert_eq!(code(&outcome), Some(expected), "{behaviour}: {outcome:?}");
        assert!(outcome.duration < Duration::from_secs(5), "{behaviour}: {:?}", outcome.duration);
    }
    let error = sandbox.run("exit-with-words").await.result.unwrap_err();
    assert!(error.message.contains("exit code 3: these are last words"), "{error:?}");
    sandbox.stop().await;
}

#[tokio::test]
async fn floods_are_bounded() {
    let mut sandbox = Sandbox::with(options(helper_path("hostile-worker"), Mode::Subprocess));
    sandbox.budget.timeout = Duration::from_millis(500);
    sandbox.budget.log_bytes = 10_000;
    // While it floods, others on the same thread get their turns.
    let turns = AtomicUsize::new(0);
    let others = async {
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            turns.fetch_add(1, Ordering::SeqCst);
        }
    };
    let outcome = tokio::select! {
        outcome = sandbox.run("flood-logs") => outcome,
        () = others => unreachable!("never ends"),
    };
    assert_eq!(code(&outcome), Some(ErrorCode::Timeout), "{outcome:?}");
    assert!(turns.load(Ordering::SeqCst) >= 10, "{turns:?} turns in {:?}", outcome.duration);
    assert!(outcome.logs.iter().map(|log| log.text.len()).sum::<usize>() <= 10_000);
    let outcome = sandbox.run("flood-calls").await;
    assert_eq!(code(&outcome), Some(ErrorCode::CallBudgetSpent), "{outcome:?}");
    let outcome = sandbox.run("flood-searches").await;
    assert_eq!(code(&outcome), Some(ErrorCode::CallBudgetSpent), "{outcome:?}");
    let outcome = sandbox.run("many-decisions").await;
    assert_eq!(outcome.decisions.len(), 200);
    sandbox.stop().await;
}

#[tokio::test]
async fn what_a_worker_said_before_it_died_is_heard() {
    let sandbox = Sandbox::with(options(helper_path("hostile-worker"), Mode::Subprocess));
    for _ in 0..5 {
        assert_eq!(code(&sandbox.run("last-words").await), Some(ErrorCode::MemoryLimit));
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn a_worker_that_dies_while_it_is_not_read_is_noticed() {
    let mut sandbox = Sandbox::with(options(helper_path("hostile-worker"), Mode::Subprocess));
    sandbox.budget.total = Duration::from_secs(1);
    let outcome = sandbox.run("die-unread").await;
    assert!(matches!(code(&outcome), Some(ErrorCode::WorkerCrashed | ErrorCode::Timeout)), "{:?}", code(&outcome));
    assert!(outcome.duration < Duration::from_secs(10), "{:?}", outcome.duration);
    sandbox.stop().await;
}

#[tokio::test]
async fn a_worker_that_lies_about_its_jail_or_version_is_refused() {
    for (name, message) in [
        ("weak-worker", "missing `seccomp` (switched off)"),
        ("old-worker", "speaks version 0"),
        ("mute-worker", "exit code 7"),
    ] {
        let sandbox = Sandbox::with(options(helper_path(name), Mode::Subprocess));
        let error = sandbox.run("close").await.result.unwrap_err();
        assert_eq!(error.code, ErrorCode::SandboxUnavailable, "{name}");
        assert!(error.message.contains(message), "{name}: {error:?}");
        sandbox.stop().await;
    }
    let mut weak = options(helper_path("weak-worker"), Mode::Subprocess);
    weak.allow_weak = true;
    let sandbox = Sandbox::with(weak);
    assert_eq!(code(&sandbox.run("close").await), Some(ErrorCode::WorkerCrashed));
    sandbox.stop().await;
}
