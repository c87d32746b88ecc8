//! The pool with many runs at once, and with none.

use std::time::Duration;

use pml::sandbox::Mode;
use pml_testkit::fixture_path;
use pml_wire::ErrorCode;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::json;

use crate::{
    peer::{Era, Home, Peer, all_gone, descendants, workers},
    serve::begin,
    support::{Sandbox, code, options},
};

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

fn home(sandbox: &str) -> Home {
    let fixture = fixture_path();
    Home::new(&format!(
        "[sandbox]\n{sandbox}\n[servers.fix]\ncommand = {:?}\n[gateway]\nstop_grace_ms = 20000",
        fixture.to_str().unwrap()
    ))
}

/// Ctrl-C in a terminal is for pml alone to act upon.
#[tokio::test]
async fn a_signal_to_the_whole_group_lets_runs_finish() {
    for sandbox in ["mode = \"subprocess\"", "warm_workers = 1"] {
        for signal in [Signal::INT, Signal::TERM] {
            let mut peer = home(sandbox).connected(Era::Legacy).await;
            let run = begin(&mut peer, "const slept = await mcp.fix.sleep({ ms: 700 }); return slept").await;
            let all = descendants(peer.pid());
            peer.signal_group(signal);
            let answer = peer.answer(&run).await;
            assert_eq!(answer["result"]["structuredContent"]["result"], "slept 700 ms", "{sandbox}: {answer}");
            let (status, _) = peer.wait().await;
            assert_eq!(status.code(), Some(0), "{sandbox}");
            all_gone(&all).await;
        }
    }
}

/// The process that workers are forked from: the one with a child, which is the first process of their namespace.
fn zygote(peer: &Peer) -> Pid {
    let zygote = workers(peer.pid()).into_iter().find(|pid| !descendants(*pid).is_empty()).expect("a zygote");
    Pid::from_raw(zygote.cast_signed()).unwrap()
}

#[tokio::test]
async fn a_worker_that_cannot_be_forked_ends_no_other() {
    let mut peer = home("warm_workers = 1").connected(Era::Legacy).await;
    let run = begin(&mut peer, "return await mcp.fix.sleep({ ms: 2000 })").await;
    let zygote = zygote(&peer);
    // No more descriptors, so that it cannot take those of another worker.
    let limit = |current| Rlimit { current: Some(current), maximum: Some(256) };
    prlimit(Some(zygote), Resource::Nofile, limit(1)).unwrap();
    // Two workers were perhaps forked before: one that waits, and one on its way into the pool. Only the second can come
    // after a call was refused.
    let (mut refused, mut late) = (0, 0);
    for _ in 0..4 {
        let answer = peer.call("execute_code", json!({"code": "return 1"})).await;
        match answer["structuredContent"]["error"]["code"].as_str() {
            Some("SANDBOX_UNAVAILABLE") => refused += 1,
            code => {
                assert!(code.is_none(), "{answer}");
                late += usize::from(refused > 0);
            }
        }
    }
    assert!(late <= 1, "{late} calls found a worker after one was refused");
    assert!(refused >= 2, "{refused} of 4 were refused");
    let answer = peer.answer(&run).await;
    assert_eq!(answer["result"]["structuredContent"]["result"], "slept 2000 ms", "{answer}");
    // With descriptors, it forks again.
    prlimit(Some(zygote), Resource::Nofile, limit(256)).unwrap();
    assert_eq!(peer.value("return 1").await, 1);
    peer.end().await;
}

#[tokio::test]
async fn workers_outlive_the_replacement_of_what_they_were_forked_from() {
    let mut peer = home("warm_workers = 1").connected(Era::Legacy).await;
    let run = begin(&mut peer, "return await mcp.fix.sleep({ ms: 8000 })").await;
    let stopped = zygote(&peer);
    // It does not answer, and is replaced after a while.
    kill_process(stopped, Signal::STOP).unwrap();
    for _ in 0..3 {
        assert_eq!(peer.value("return 1").await, 1);
    }
    let replaced = workers(peer.pid()).iter().filter(|pid| !descendants(**pid).is_empty()).count();
    assert_eq!(replaced, 2, "the old one is there as long as its worker is");
    let answer = peer.answer(&run).await;
    assert_eq!(answer["result"]["structuredContent"]["result"], "slept 8000 ms", "{answer}");
    // Now nobody needs it.
    all_gone(&[stopped.as_raw_nonzero().get().cast_unsigned()]).await;
    peer.end().await;
}
