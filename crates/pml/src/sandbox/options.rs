//! The options of the pool.

use std::{num::NonZeroUsize, path::PathBuf};

use pml_worker::{TimeZone, WorkerLimits};

/// How workers are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Forked from a prepared process into a warm pool.
    Worker,
    /// Executed for each program: slower, with an address space layout of its own.
    Subprocess,
}

/// The options of the pool.
#[derive(Clone, Debug)]
pub struct Options {
    /// The pml binary.
    pub program: PathBuf,
    pub mode: Mode,
    /// Workers kept started and idle, in [`Mode::Worker`].
    pub warm_workers: NonZeroUsize,
    /// Accept workers that lack a required layer of the sandbox.
    pub allow_weak: bool,
    /// The time zone of `Date` in programs.
    pub time_zone: TimeZone,
    pub limits: WorkerLimits,
    /// Largest frame that a worker may send.
    pub max_frame_bytes: u32,
}

/// The path of the running binary, valid even if the file was replaced on disk.
pub fn this_program() -> PathBuf {
    match cfg!(target_os = "linux") {
        true => "/proc/self/exe".into(),
        false => std::env::current_exe().unwrap_or_else(|_| "pml".into()),
    }
}
