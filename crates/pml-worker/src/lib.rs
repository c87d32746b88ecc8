//! What runs inside the jail.
//!
//! [`main`] is the whole of the hidden `pml worker` command. A worker hardens itself
//! ([`harden`]), compiles one TypeScript program ([`transpile`]), runs it ([`engine`]) and speaks
//! frames with the host ([`channel`]). On Linux workers are forked from a prepared process
//! ([`zygote`]); `--single` makes the process itself a worker.
//!
//! **Invariant:** depends on `pml-wire` alone of our crates, so nothing in here can name an MCP
//! client, a secret or a database. All of pml's `unsafe` is in this crate.

mod channel;
mod clock;
mod engine;
mod entry;
pub mod harden;
mod heap;
mod intl;
mod last_words;
mod memory;
mod temporal;
mod time_zone;
mod transpile;
mod worker;
#[cfg(target_os = "linux")]
mod zygote;

pub use entry::{COMMAND, SINGLE, main};
pub use harden::WorkerLimits;
pub use heap::Heap;
pub use intl::NOTICE;
pub use time_zone::TimeZone;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("pml has no sandbox for this system; it runs on Linux, and untested on macOS");
