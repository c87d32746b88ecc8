//! Processes that die, and none that are left behind.
//!
//! A program of its own, and one test at a time: they count and kill the children of the whole
//! process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(target_os = "linux")]

#[path = "it/gateway.rs"]
#[expect(dead_code, reason = "shared with the other tests, which use all of it")]
mod gateway;
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

// ── Servers ────────────────────────────────────────────────────────────────────────────────────

fn crashing_server() -> gateway::Server {
    gateway::fixture(gateway::Way::Stdio, "both", &[]).with(|settings| {
        let short = Duration::from_millis(1);
        settings.backoff = pml::upstream::Backoff { initial: short, max: short, tries: 1000 };
    })
}

#[tokio::test]
async fn two_hundred_crashes_of_a_server_leave_nothing() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let gateway = gateway::Gateway::start(vec![crashing_server()]);
    gateway.value("return await mcp.fix.echo({ text: 'up' })").await;
    let before = descriptors();
    for round in 0..200 {
        let (code, message) = gateway.error("return await mcp.fix.crash({ code: 3 })").await;
        assert_eq!(code, ErrorCode::ProviderCrashed, "{round}: {message}");
        gateway.event(|body| matches!(body, pml::events::Body::Reconnected { .. })).await;
    }
    assert_eq!(gateway.value("return await mcp.fix.echo({ text: 'still' })").await, json!("still"));
    // The last one that ended may be on its way out.
    let nothing_more = || descriptors() <= before && children_named("pml-server").len() == 1;
    for _ in 0..100 {
        if nothing_more() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(nothing_more(), "{} of {before}, {:?}", descriptors(), children());
    gateway.stop().await;
    assert_eq!(children(), [""; 0]);
}

/// The processes with this text in their command line.
fn all_named(text: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().contains(text)).collect()
}

/// A process that is not there, or only its entry is.
fn is_gone(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])),
        Err(_) => true,
    }
}

#[tokio::test]
async fn stopping_ends_servers_that_do_not_want_to_and_their_children() {
    let _alone = ONE_AT_A_TIME.lock().await;
    for fault in ["ignore-eof", "ignore-term", "slow-exit=100"] {
        let gateway = gateway::Gateway::start(vec![gateway::fixture(gateway::Way::Stdio, "both", &["--fault", fault])]);
        let program = "const a = await mcp.fix.spawn({}); const b = await mcp.fix.spawn({ new_session: false });
            return [a, b, await mcp.fix.pid({})].map((x) => x.pid ?? x)";
        let pids: Vec<u32> = serde_json::from_value(gateway.value(program).await).unwrap();
        assert!(pids.iter().all(|pid| !is_gone(*pid)), "{fault}");
        gateway.stop().await;
        assert!(pids.iter().all(|pid| is_gone(*pid)), "{fault}: {pids:?}");
        assert_eq!(children(), [""; 0], "{fault}");
    }
}

#[tokio::test]
async fn killing_pml_leaves_no_orphan() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("pml.toml");
    let fixture = pml_testkit::fixture_path();
    fs::write(
        &config,
        format!("[servers.fix]\ncommand = {:?}\nargs = [\"--fault\", \"ignore-term\"]", fixture.to_str().unwrap()),
    )
    .unwrap();
    let program = "const a = await mcp.fix.spawn({}); const b = await mcp.fix.pid({});
        console.log(JSON.stringify([a.pid ?? a, b.pid])); await mcp.fix.hang({})";
    #[expect(clippy::disallowed_methods, reason = "starts pml as a shell would")]
    let mut pml = std::process::Command::new(env!("CARGO_BIN_EXE_pml"))
        .args([
            "--config",
            config.to_str().unwrap(),
            "--data-dir",
            folder.path().to_str().unwrap(),
            "run",
            "-e",
            program,
        ])
        .stderr(std::process::Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stderr = std::io::BufReader::new(pml.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut stderr, &mut line).unwrap();
    let pids: Vec<u32> = serde_json::from_str(&line).unwrap_or_else(|err| panic!("{err}: {line}"));
    assert!(pids.iter().all(|pid| !is_gone(*pid)));
    send(Signal::KILL, pml.id());
    pml.wait().unwrap();
    for _ in 0..500 {
        if pids.iter().all(|pid| is_gone(*pid)) && all_named("ignore-term").is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{pids:?} {:?}", all_named("ignore-term"));
}
