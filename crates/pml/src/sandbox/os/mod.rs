//! How worker processes are started, killed and reaped: the platform's part.
//!
//! Linux forks workers from a prepared process and reaps them through pidfds. macOS starts each
//! worker by itself, as Linux does in `subprocess` mode. On other systems pml does not build:
//! there is no jail to put a program into.

#[cfg(target_os = "linux")]
mod forked;
mod single;

use std::{fmt, io, os::fd::OwnedFd, path::PathBuf};

use pml_worker::{TimeZone, WorkerLimits};
use tokio::net::{UnixStream, unix::pipe};

use super::Mode;

/// Starts workers.
#[derive(Debug)]
pub(super) enum Spawner {
    Single(PathBuf, TimeZone),
    #[cfg(target_os = "linux")]
    Forked(Box<forked::Nursery>),
}

/// A worker process that has just been started.
#[derive(Debug)]
pub(super) struct Spawned {
    pub(super) socket: UnixStream,
    pub(super) stderr: pipe::Receiver,
    pub(super) process: Process,
}

/// A worker process. The host is its parent and must reap it.
#[derive(Debug)]
pub(super) enum Process {
    Single(tokio::process::Child),
    #[cfg(target_os = "linux")]
    Forked(forked::Child),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
}

impl Spawner {
    pub(super) fn new(program: PathBuf, mode: Mode, time_zone: TimeZone) -> Spawner {
        match mode {
            #[cfg(target_os = "linux")]
            Mode::Worker => Spawner::Forked(Box::new(forked::Nursery::new(program, time_zone))),
            _ => Spawner::Single(program, time_zone),
        }
    }

    pub(super) async fn spawn(&self, limits: WorkerLimits) -> io::Result<Spawned> {
        match self {
            Spawner::Single(program, time_zone) => single::spawn(program, time_zone, limits),
            #[cfg(target_os = "linux")]
            Spawner::Forked(nursery) => nursery.spawn(limits).await,
        }
    }

    /// Ends the process that workers are forked from, if there is one, and reaps it.
    pub(super) async fn close(&self) {
        #[cfg(target_os = "linux")]
        if let Spawner::Forked(nursery) = self {
            nursery.close().await;
        }
    }
}

impl Process {
    pub(super) fn id(&self) -> Option<u32> {
        match self {
            Process::Single(child) => child.id(),
            #[cfg(target_os = "linux")]
            Process::Forked(child) => Some(child.id()),
        }
    }

    /// Kills. A process that is gone already is as good.
    pub(super) fn kill(&mut self) {
        match self {
            Process::Single(child) => drop(child.start_kill()),
            #[cfg(target_os = "linux")]
            Process::Forked(child) => child.kill(),
        }
    }

    /// Waits for the end, and reaps.
    pub(super) async fn wait(&mut self) -> io::Result<Exit> {
        match self {
            Process::Single(child) => child.wait().await.map(Exit::from),
            #[cfg(target_os = "linux")]
            Process::Forked(child) => child.wait().await,
        }
    }
}

impl Exit {
    /// Killed by the kernel for a forbidden system call?
    pub(crate) fn is_violation(self) -> bool {
        cfg!(target_os = "linux") && self == Exit::Signal(31) // SIGSYS
    }
}

impl From<std::process::ExitStatus> for Exit {
    fn from(status: std::process::ExitStatus) -> Exit {
        use std::os::unix::process::ExitStatusExt;
        match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or_default()),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signal = match *self {
            Exit::Code(code) => return write!(f, "exit code {code}"),
            Exit::Signal(signal) => signal,
        };
        match signal {
            6 => f.write_str("SIGABRT"),
            9 => f.write_str("SIGKILL"),
            11 => f.write_str("SIGSEGV"),
            15 => f.write_str("SIGTERM"),
            31 if cfg!(target_os = "linux") => f.write_str("SIGSYS"),
            _ => write!(f, "signal {signal}"),
        }
    }
}

/// The pipe that a worker's standard error goes to. The worker's end never blocks it.
fn stderr_pipe() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (sender, receiver) = pipe::pipe()?;
    Ok((receiver, sender.into_nonblocking_fd()?))
}

/// A socket for the host and its other end, blocking, for another process.
fn socket_pair() -> io::Result<(UnixStream, std::os::unix::net::UnixStream)> {
    let (host, other) = std::os::unix::net::UnixStream::pair()?;
    host.set_nonblocking(true)?;
    Ok((UnixStream::from_std(host)?, other))
}

/// The same for a worker. Its end does not block either: a worker that waits to write must still read.
fn worker_socket_pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (host, worker) = socket_pair()?;
    worker.set_nonblocking(true)?;
    Ok((host, worker.into()))
}
