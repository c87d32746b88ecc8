//! Processes that die, and none that are left behind.
//!
//! A program of its own, and one test at a time: they count and kill the children of the whole
//! process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(target_os = "linux")]

#[path = "it/support.rs"]
#[expect(dead_code, reason = "shared with the other tests, which use all of it")]
mod support;

use std::{fs, os::unix::process::CommandExt, time::Duration};

use pml::sandbox::Mode;
use pml_wire::ErrorCode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use support::{Sandbox, options};
use tokio::sync::Mutex;

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

fn pool() -> Sandbox {
    Sandbox::with(options(env!("CARGO_BIN_EXE_pml"), Mode::Worker))
}

fn children() -> Vec<String> {
    let own = format!("PPid:\t{}", std::process::id());
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok())
        .filter(|status| status.contains(&own))
        .map(|status| status.lines().take(3).collect::<Vec<_>>().join(" "))
        .collect()
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test]
async fn a_thousand_in_a_row_and_two_hundred_at_once_leave_nothing() {
    let _alone = ONE_AT_A_TIME.lock().await;
    // The runtime opens its own descriptors on first use.
    let warm_up = Sandbox::with(options(env!("CARGO_BIN_EXE_pml"), Mode::Worker));
    warm_up.value("return 1+1").await;
    warm_up.stop().await;
    assert_eq!(children(), [""; 0]);
    let before = descriptors();

    let sandbox = Sandbox::with(options(env!("CARGO_BIN_EXE_pml"), Mode::Worker));
    for i in 0..1000 {
        assert_eq!(sandbox.value(&format!("return {i} + 1")).await, json!(i + 1));
    }
    let runs = (0..200).map(|i| {
        let sandbox = &sandbox;
        async move { (i, sandbox.value(&format!("const r = await mcp.test.echo({{ i: {i} }}); return r.i")).await) }
    });
    for (i, value) in futures_util::future::join_all(runs).await {
        assert_eq!(value, json!(i));
    }
    sandbox.pool.full().await;
    assert_eq!(sandbox.pool.idle(), 2);
    sandbox.stop().await;

    assert_eq!(children(), [""; 0]);
    assert_eq!(descriptors(), before);
}

fn send(signal: Signal, pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// The process ids of this process's children with this name in their command line.
fn children_named(name: &str) -> Vec<u32> {
    let own = std::process::id().to_string();
    let pids =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let parent = read("status").lines().find_map(|line| line.strip_prefix("PPid:\t").map(str::to_owned));
        parent.as_deref() == Some(own.as_str()) && read("cmdline").contains(name)
    })
    .collect()
}

#[tokio::test]
async fn signals_that_kill_a_worker_are_told_apart() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let sandbox = pool();
    for (signal, expected, message) in [
        (Signal::SYS, ErrorCode::SandboxViolation, "forbidden system call"),
        (Signal::KILL, ErrorCode::WorkerCrashed, "SIGKILL"),
        (Signal::ABORT, ErrorCode::WorkerCrashed, "SIGABRT"),
    ] {
        sandbox.pool.full().await;
        let before: Vec<_> = children_named("pml-worker");
        let run = sandbox.run("await mcp.test.hang({})");
        let strike = async {
            while sandbox.tools.seen.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            sandbox.tools.seen.lock().unwrap().clear();
            // Of the forked workers, the one that runs is the one that is not idle: strike them all.
            for pid in &before {
                let is_worker =
                    std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default().contains("Seccomp:\t2");
                if is_worker {
                    send(signal, *pid);
                }
            }
        };
        let (outcome, ()) = tokio::join!(run, strike);
        let error = outcome.result.unwrap_err();
        assert_eq!(error.code, expected, "{signal:?}: {error:?}");
        assert!(error.message.contains(message), "{signal:?}: {error:?}");
        assert_eq!(sandbox.value("return 1+1").await, json!(2), "after {signal:?}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn a_dead_zygote_is_replaced() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let sandbox = pool();
    sandbox.pool.full().await;
    let zygotes: Vec<_> = children_named("pml-worker")
        .into_iter()
        .filter(|pid| {
            !std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default().contains("Seccomp:\t2")
        })
        .collect();
    for zygote in zygotes {
        send(Signal::KILL, zygote);
    }
    for _ in 0..5 {
        assert_eq!(sandbox.value("return 1+1").await, json!(2));
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn a_zygote_that_ends_at_once_leaves_nothing() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let name = format!("early-{}", std::process::id());
    for _ in 0..20 {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        drop(ours);
        #[expect(clippy::disallowed_methods, reason = "starts what only pml starts otherwise")]
        let mut zygote = std::process::Command::new(env!("CARGO_BIN_EXE_pml"));
        zygote.arg0(&name).arg("worker").stdin(std::os::fd::OwnedFd::from(theirs));
        zygote.spawn().unwrap().wait().unwrap();
    }
    let is_left = || {
        fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .any(|entry| fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default().contains(&name))
    };
    // The kernel kills the first process of the namespace a moment after the zygote is gone.
    let mut left = true;
    for _ in 0..100 {
        left = is_left();
        if !left {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!left);
}
