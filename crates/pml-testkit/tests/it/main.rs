//! The helpers do what the other tests believe of them. (Also makes cargo build them.)

#![expect(clippy::disallowed_methods, reason = "a test starts the helper directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod conformance;
mod faults;
mod http;
mod peer;
mod stdio;

use std::process::Command;

#[test]
fn without_syscall_takes_away_what_it_says() {
    let helper = env!("CARGO_BIN_EXE_without-syscall");
    // `unshare` the command needs `unshare` the call; `true` does not.
    let status = |program: &str| Command::new(helper).args(["unshare", program]).output().unwrap().status;
    assert!(status("true").success());
    let refused = Command::new(helper).args(["unshare", "unshare", "--user", "true"]).output().unwrap();
    assert!(!refused.status.success());
    assert_eq!(Command::new(helper).args(["nonsense", "true"]).output().unwrap().status.code(), Some(2));
    assert_eq!(Command::new(helper).output().unwrap().status.code(), Some(2));
}

#[test]
fn the_hostile_worker_hangs_up_without_a_host() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_hostile-worker")).stdin(std::process::Stdio::null()).output().unwrap();
    assert!(output.status.success());
}
