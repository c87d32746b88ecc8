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

use std::ffi::OsString;

pub use harden::WorkerLimits;
pub use heap::Heap;
pub use time_zone::TimeZone;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("pml has no sandbox for this system; it runs on Linux, and untested on macOS");

/// Whose data the worker holds, and under which terms.
pub const NOTICE: &str = intl::NOTICE;
/// The hidden subcommand of pml that ends up here.
pub const COMMAND: &str = "worker";
/// The option that makes the process one worker, with the limits behind it.
pub const SINGLE: &str = "--single";

/// Runs as a worker, or as the process that workers are forked from.
///
/// Must be called before the process has a second thread, and before it has read anything of the
/// user's: `args` are what follows [`COMMAND`].
pub fn main(mut args: impl Iterator<Item = OsString>) -> ! {
    if !channel::is_connected() {
        last_words::fail("error: `pml worker` is for pml itself; try `pml run --help`");
    }
    // Now rather than at the first `new Date()`, when there are no files.
    time_zone::settle();
    match (args.next(), args.next(), args.next()) {
        (Some(single), Some(memory), Some(cpu)) if single == SINGLE => {
            let number = |text: OsString| text.to_str().and_then(|text| text.parse().ok());
            match (number(memory), number(cpu)) {
                (Some(memory_bytes), Some(cpu_seconds)) => run_single(WorkerLimits { memory_bytes, cpu_seconds }),
                _ => last_words::fail("the limits of the worker are not numbers"),
            }
        }
        #[cfg(target_os = "linux")]
        (None, ..) => zygote::run(),
        _ => last_words::fail("the worker was started with arguments it does not know"),
    }
}

fn run_single(limits: WorkerLimits) -> ! {
    last_words::install();
    harden::die_with_parent();
    let prepared = harden::prepare(false);
    match engine::with_session(|session| worker::serve(&session, &prepared, limits)) {
        Ok(never) => never,
        Err(err) => last_words::fail(&format!("the engine does not start: {err}")),
    }
}
