//! The hidden command `pml worker`: one worker, or the zygote that workers are forked from.

use std::ffi::OsString;

#[cfg(target_os = "linux")]
use crate::zygote;
use crate::{WorkerLimits, channel, engine, harden, last_words, time_zone, worker};

/// The name of the hidden subcommand.
pub const COMMAND: &str = "worker";
/// The option for a single worker, followed by its limits.
pub const SINGLE: &str = "--single";

/// Runs as a worker or as the zygote.
///
/// Must be called before the process starts a second thread or reads any
/// user data. `args` are the arguments after [`COMMAND`].
pub fn main(mut args: impl Iterator<Item = OsString>) -> ! {
    if !channel::is_connected() {
        last_words::fail("error: `pml worker` is for pml itself; try `pml run --help`");
    }
    // The C library reads the time zone now; at the first `new Date()` no file can be opened.
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
