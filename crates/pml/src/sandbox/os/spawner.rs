//! Starts workers, in the way of the platform and the mode.

use std::{io, path::PathBuf};

use pml_worker::{TimeZone, WorkerLimits};
use tokio::net::{UnixStream, unix::pipe};

#[cfg(target_os = "linux")]
use super::forked;
use super::{super::Mode, process::Process, single};

/// Starts workers.
#[derive(Debug)]
pub(in crate::sandbox) enum Spawner {
    Single(PathBuf, TimeZone),
    #[cfg(target_os = "linux")]
    Forked(Box<forked::Nursery>),
}

/// A worker process that has just been started.
#[derive(Debug)]
pub(in crate::sandbox) struct Spawned {
    pub(in crate::sandbox) socket: UnixStream,
    pub(in crate::sandbox) stderr: pipe::Receiver,
    pub(in crate::sandbox) process: Process,
}

impl Spawner {
    pub(in crate::sandbox) fn new(program: PathBuf, mode: Mode, time_zone: TimeZone) -> Spawner {
        match mode {
            #[cfg(target_os = "linux")]
            Mode::Worker => Spawner::Forked(Box::new(forked::Nursery::new(program, time_zone))),
            _ => Spawner::Single(program, time_zone),
        }
    }

    pub(in crate::sandbox) async fn spawn(&self, limits: WorkerLimits) -> io::Result<Spawned> {
        match self {
            Spawner::Single(program, time_zone) => single::spawn(program, time_zone, limits),
            #[cfg(target_os = "linux")]
            Spawner::Forked(nursery) => nursery.spawn(limits).await,
        }
    }

    /// Ends the process that workers are forked from, if there is one, and reaps it.
    pub(in crate::sandbox) async fn close(&self) {
        #[cfg(target_os = "linux")]
        if let Spawner::Forked(nursery) = self {
            nursery.close().await;
        }
    }
}
