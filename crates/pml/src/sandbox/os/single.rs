//! Workers that are executed one by one.
//!
//! Slower to start than forked ones, but each has an address space layout of its own.

use std::{io, path::Path, process::Stdio};

use pml_worker::{COMMAND, SINGLE, TimeZone, WorkerLimits};
use tokio::process::Command;

use super::{
    Process, Spawned,
    pipes::{stderr_pipe, worker_socket_pair},
};

pub(super) fn spawn(program: &Path, time_zone: &TimeZone, limits: WorkerLimits) -> io::Result<Spawned> {
    let (socket, worker_socket) = worker_socket_pair()?;
    let (stderr, worker_stderr) = stderr_pipe()?;
    let child = command(program, time_zone)
        .arg(SINGLE)
        .arg(limits.memory_bytes.to_string())
        .arg(limits.cpu_seconds.to_string())
        .stdin(worker_socket)
        .stderr(worker_stderr)
        .spawn()?;
    Ok(Spawned { socket, stderr, process: Process::Single(child) })
}

/// The pml binary in its other role: no environment but the time zone, killed when dropped.
pub(super) fn command(program: &Path, time_zone: &TimeZone) -> Command {
    #[expect(clippy::disallowed_methods, reason = "this is sandbox::command")]
    let mut command = Command::new(program);
    let (variable, zone) = time_zone.variable();
    command.arg0("pml-worker").arg(COMMAND).env_clear().env(variable, zone).stdout(Stdio::null()).kill_on_drop(true);
    command
}
