//! Jailed processes, each for one program.
//!
//! [`Pool`] keeps some started, verified and waiting, so that a program never waits for a process.
//! [`Worker`] is one of them, leased: it is killed and reaped when dropped, whatever happened.
//!
//! **Invariant:** a worker serves one execution. There is no way to give one back.

mod frame_log;
mod os;
mod pool;
mod worker;

use std::{num::NonZeroUsize, path::PathBuf};

pub use self::{
    pool::Pool,
    worker::{Ended, Worker},
};
pub use pml_worker::{TimeZone, WorkerLimits};

/// Where workers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// From a pool of prepared processes.
    Worker,
    /// Executed anew for each program: slower, with an address space layout of its own.
    Subprocess,
}

/// What the pool is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The pml binary.
    pub program: PathBuf,
    pub mode: Mode,
    /// Workers kept started and idle, in [`Mode::Worker`].
    pub warm_workers: NonZeroUsize,
    /// Take workers whose jail lacks a required layer.
    pub allow_weak: bool,
    /// The zone that programs' `Date` is in.
    pub time_zone: TimeZone,
    pub limits: WorkerLimits,
    /// Largest frame that a worker may send.
    pub max_frame_bytes: u32,
}

/// The running binary, also after it was replaced on disk.
pub fn this_program() -> PathBuf {
    match cfg!(target_os = "linux") {
        true => "/proc/self/exe".into(),
        false => std::env::current_exe().unwrap_or_else(|_| "pml".into()),
    }
}
