//! The process between pml and a stdio server.
//!
//! Servers are often started through others (`npx`, `uvx`, a shell), and some neither end when
//! their input closes nor take their children with them. So each runs under a keeper: pml itself,
//! in another role. The keeper adopts whatever the server leaves behind, ends with the server, and
//! ends everything when pml is gone, however pml went. SIGTERM ends the server politely, SIGINT at
//! once. It never touches what flows between the two:
//! the server has pml's pipes. It does not know what it starts either: the command line comes over those pipes, see
//! [`launch`].
//!
//! **Invariant:** when the keeper has ended, none of the server's descendants lives.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep_until, timeout},
};

use super::{
    cgroup,
    launch::{self, Launch},
    process_tree::Processes,
    settings::ProcessLimits,
};

/// First argument of a keeper.
pub const KEEPER: &str = "keep-server";
/// First argument of what becomes the server.
pub const EXEC: &str = "exec-server";

/// Between the polite signal and the other one.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// How long descendants may take to die of SIGKILL.
const KILL_GRACE: Duration = Duration::from_secs(1);
/// Exit code if the server could not be executed, as shells have it.
const NOT_EXECUTED: u8 = 126;

/// The arguments of a keeper, without the program itself.
pub(super) fn arguments(limits: ProcessLimits, group: Option<&Path>) -> [OsString; 5] {
    let ProcessLimits { open_files, cpu_seconds, .. } = limits;
    [
        KEEPER.into(),
        std::process::id().to_string().into(),
        group.map(Path::as_os_str).unwrap_or_default().to_owned(),
        open_files.to_string().into(),
        cpu_seconds.unwrap_or(0).to_string().into(),
    ]
}

/// The keeper. `args`: pml's pid, a control group or nothing, and the limits.
pub fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    match keep(&mut args) {
        Ok(code) => code,
        Err(err) => {
            let _ = writeln!(io::stderr(), "pml: the server cannot be started: {err}");
            ExitCode::from(NOT_EXECUTED)
        }
    }
}

/// Becomes the server. `args`: the limits. Command, arguments and variables come on standard input.
pub fn exec(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let err = match become_server(&mut args) {
        Ok(never) => match never {},
        Err(err) => err,
    };
    let _ = writeln!(io::stderr(), "pml: the server cannot be executed: {err}");
    ExitCode::from(NOT_EXECUTED)
}

fn keep(args: &mut dyn Iterator<Item = OsString>) -> io::Result<ExitCode> {
    let host: i32 = number(args)?;
    die_with_parent(Signal::TERM)?;
    if rustix::process::getppid().map(Pid::as_raw_pid) != Some(host) {
        return Ok(ExitCode::SUCCESS); // pml was gone before it could be watched
    }
    let group = args.next().unwrap_or_default();
    if !group.is_empty() {
        // Without it, the watchdog is still there.
        if let Err(err) = cgroup::enter(Path::new(&group)) {
            let _ = writeln!(io::stderr(), "pml: the control group cannot be entered: {err}");
        }
    }
    adopt_orphans()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before the server starts: none of its ends may be missed.
        let (mut child, mut term) = (signal(SignalKind::child())?, signal(SignalKind::terminate())?);
        let mut kill = signal(SignalKind::interrupt())?;
        let server = spawn(args)?;
        let mut stop_at = None;
        let status = loop {
            if let Some(status) = reap(server)? {
                break status;
            }
            let is_stopping = stop_at.is_some();
            tokio::select! {
                _ = child.recv() => {}
                _ = term.recv(), if !is_stopping => {
                    let _ = rustix::process::kill_process_group(server, Signal::TERM);
                    stop_at = Some(Instant::now() + TERM_GRACE);
                }
                _ = kill.recv() => drop(rustix::process::kill_process_group(server, Signal::KILL)),
                () = sleep_until(stop_at.unwrap_or_else(Instant::now)), if is_stopping => {
                    let _ = rustix::process::kill_process_group(server, Signal::KILL);
                    stop_at = Some(Instant::now() + TERM_GRACE);
                }
            }
        };
        // The rest of the group gets a moment; what left the group gets none.
        let _ = rustix::process::kill_process_group(server, Signal::KILL);
        let _ = timeout(KILL_GRACE, async {
            while end_orphans() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        let code = status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
        Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
    })
}

/// Starts the server in a group of its own, with our pipes, and lets go of them.
fn spawn(args: &mut dyn Iterator<Item = OsString>) -> io::Result<Pid> {
    #[expect(clippy::disallowed_methods, reason = "the environment was cleared when the keeper was started")]
    let mut command = std::process::Command::new(own_program()?);
    let child = command.arg0("pml-exec").arg(EXEC).args(args).process_group(0).spawn()?;
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    let pid = Pid::from_child(&child);
    Ok(pid)
}

/// Takes the status of every child that has ended; the server's, if it is among them.
fn reap(server: Pid) -> io::Result<Option<WaitStatus>> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == server => return Ok(Some(status)),
            Ok(Some(_)) => {}
            Ok(None) => return Ok(None),
            Err(err) if err == rustix::io::Errno::INTR => {}
            Err(err) => return Err(err.into()),
        }
    }
}

/// Kills and reaps what the server left behind. Is anything left?
fn end_orphans() -> bool {
    for pid in Processes::read().descendants(std::process::id()) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Err(err) if err == rustix::io::Errno::INTR => {}
            Ok(None) => return true,
            Err(_) => return false, // no child is left
        }
    }
}

fn become_server(args: &mut dyn Iterator<Item = OsString>) -> io::Result<std::convert::Infallible> {
    let (files, cpu): (u64, u64) = (number(args)?, number(args)?);
    die_with_parent(Signal::KILL)?;
    limit(Resource::Nofile, files)?;
    limit(Resource::Core, 0)?;
    if cpu > 0 {
        limit(Resource::Cpu, cpu)?;
    }
    // Not through `io::stdin`, which would read on into what is the server's.
    let Launch { program, args, env } = launch::read(File::from(io::stdin().as_fd().try_clone_to_owned()?))?;
    #[expect(clippy::disallowed_methods, reason = "the environment is cleared")]
    let mut command = std::process::Command::new(program);
    Err(command.args(args).env_clear().envs(env).exec())
}

/// Sets both limits, or keeps the hard one where it is lower already.
fn limit(resource: Resource, value: u64) -> io::Result<()> {
    let hard = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX).min(value);
    Ok(rustix::process::setrlimit(resource, Rlimit { current: Some(hard), maximum: Some(hard) })?)
}

/// This program, also if the file has been replaced since it was started.
fn own_program() -> io::Result<PathBuf> {
    match cfg!(target_os = "linux") {
        true => Ok(PathBuf::from("/proc/self/exe")),
        false => std::env::current_exe(),
    }
}

#[cfg(target_os = "linux")]
fn die_with_parent(signal: Signal) -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(signal))?)
}

#[cfg(target_os = "linux")]
fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// There is no such signal here; servers end when their input closes, or not at all.
#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: Signal) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

fn number<T: std::str::FromStr>(args: &mut dyn Iterator<Item = OsString>) -> io::Result<T> {
    let text = args.next().and_then(|text| text.into_string().ok());
    text.and_then(|text| text.parse().ok()).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}
