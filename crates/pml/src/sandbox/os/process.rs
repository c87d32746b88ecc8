//! A worker process: kill, wait, and the exit status.

use std::{fmt, io};

#[cfg(target_os = "linux")]
use super::forked;

/// A worker process. The host is its parent and must reap it.
#[derive(Debug)]
pub(in crate::sandbox) enum Process {
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

impl Process {
    pub(in crate::sandbox) fn id(&self) -> Option<u32> {
        match self {
            Process::Single(child) => child.id(),
            #[cfg(target_os = "linux")]
            Process::Forked(child) => Some(child.id()),
        }
    }

    /// Kills the process. A process that has already exited is no error.
    pub(in crate::sandbox) fn kill(&mut self) {
        match self {
            Process::Single(child) => drop(child.start_kill()),
            #[cfg(target_os = "linux")]
            Process::Forked(child) => child.kill(),
        }
    }

    /// Waits until the process exits, and reaps it.
    pub(in crate::sandbox) async fn wait(&mut self) -> io::Result<Exit> {
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
