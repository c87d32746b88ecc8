//! Waiting awake, where that takes less time than sleeping.
//!
//! A processor that sleeps takes longer to wake than a small program or a quick server takes to answer. So both are watched for,
//! for a moment, by a host that lets everybody else through between looks.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::calls::{Calls, Ended};

/// How long the answer of a server is watched for before it is slept for.
const SERVER_WATCH: Duration = Duration::from_micros(400);
/// Most looks for one answer, however the clock goes.
const MAX_LOOKS: u32 = 400;
/// Processor pauses between two looks: a microsecond or two.
const PAUSES: usize = 20;

/// Whether the answer of a server is watched for: by a run that is alone in this process and has one call in flight, if the last
/// call was answered soon, and on a machine where the server can have another processor.
#[derive(Debug)]
pub(super) struct ServerWatch {
    /// Did the last call end soon enough? The first is given the chance.
    is_worthwhile: bool,
    /// Looks for the answer of the call that is in flight.
    looks: u32,
    _running: Running,
}

impl ServerWatch {
    pub(super) fn new() -> ServerWatch {
        ServerWatch { is_worthwhile: has_processors(), looks: 0, _running: Running::begin() }
    }

    /// Is another look worthwhile, instead of going to sleep?
    pub(super) fn look(&mut self, calls: &Calls<'_>) -> bool {
        let is_on = self.is_worthwhile
            && self.looks < MAX_LOOKS
            && calls.lone_call().is_some_and(|started| started.elapsed() < SERVER_WATCH)
            && RUNNING.load(Ordering::Relaxed) == 1;
        self.looks += u32::from(is_on);
        is_on
    }

    pub(super) fn ended(&mut self, ended: &Ended) {
        self.looks = 0;
        if let Some(record) = &ended.record {
            self.is_worthwhile = record.duration < SERVER_WATCH && has_processors();
        }
    }
}

/// Runs that are going on in this process.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
struct Running;

impl Running {
    fn begin() -> Running {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Can a server run while the host is awake?
fn has_processors() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| std::thread::available_parallelism().is_ok_and(|count| count.get() > 1))
}

/// Lets whoever shares this processor go on, then whoever shares its core, then other tasks.
pub(super) async fn look_around() {
    std::thread::yield_now();
    (0..PAUSES).for_each(|_| std::hint::spin_loop());
    tokio::task::yield_now().await;
}
