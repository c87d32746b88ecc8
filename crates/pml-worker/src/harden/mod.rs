//! The walls of the jail. Each is built, then tried, then reported.
//!
//! Two steps, because workers are forked from one prepared process: [`prepare`] does what children
//! inherit, once; [`lock`] does the rest in the worker, last of all, just before it says `Ready`.
//!
//! **Invariant:** no program is read before [`lock`] has returned.

mod limits;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
mod report;
#[cfg(target_os = "linux")]
mod seccomp;

pub use limits::WorkerLimits;
#[cfg(target_os = "linux")]
pub(crate) use linux::die_with_parent;
#[cfg(target_os = "linux")]
pub use linux::{lock, prepare};
#[cfg(target_os = "macos")]
pub(crate) use macos::die_with_parent;
#[cfg(target_os = "macos")]
pub use macos::{lock, prepare};
