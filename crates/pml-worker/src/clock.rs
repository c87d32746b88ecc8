//! The worker's clock.
//!
//! There is no tokio in here, and no test that would want to pause time: deadlines are tested
//! from the host, against the real thing.

#![expect(clippy::disallowed_types, reason = "the worker has no tokio")]

use std::time::{Duration, Instant};

/// A moment, from a clock that never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Instant);

impl Moment {
    pub(crate) fn now() -> Moment {
        Moment(Instant::now())
    }

    /// How long ago `earlier` was.
    pub(crate) fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// This moment, `delay` later, or a century later if the clock cannot count so far.
    pub(crate) fn after(self, delay: Duration) -> Moment {
        const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        Moment(self.0 + delay.min(CENTURY))
    }
}
