//! The time limits of a run.
//!
//! A run has two limits: the compute time of the program, and the total time. While the host works or waits for the
//! program, compute time is paused. The worker reports when it waits; a worker that lies is still bound by the total time.

use std::time::Duration;

use tokio::time::Instant;

/// The limit that ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Computing,
    Total,
}

/// The remaining time of a run.
#[derive(Debug)]
pub(super) struct Clock {
    /// The remaining compute time, as of `computes_since`.
    left: Duration,
    /// `None` while the program waits for the host.
    computes_since: Option<Instant>,
    end: Instant,
}

impl Clock {
    /// The clock of a run that starts now.
    pub(super) fn start(computing: Duration, total: Duration) -> Clock {
        let now = Instant::now();
        Clock { left: computing, computes_since: Some(now), end: now + total }
    }

    /// Pauses or resumes the compute time.
    pub(super) fn set_waiting(&mut self, waits: bool) {
        match (self.computes_since, waits) {
            (Some(since), true) => {
                self.left = self.left.saturating_sub(since.elapsed());
                self.computes_since = None;
            }
            (None, false) => self.computes_since = Some(Instant::now()),
            _ => {}
        }
    }

    /// Gives back time that was counted although the program waited.
    pub(super) fn credit(&mut self, time: Duration) {
        self.left += time;
    }

    /// When the run times out, if nothing changes until then, and by which limit.
    pub(super) fn deadline(&self) -> (Instant, Limit) {
        match self.computes_since.map(|since| since + self.left) {
            Some(computing) if computing < self.end => (computing, Limit::Computing),
            _ => (self.end, Limit::Total),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_is_not_computing_but_all_of_it_is_bounded() {
        let start = Instant::now();
        let mut clock = Clock::start(seconds(30), seconds(600));
        assert_eq!(clock.deadline(), (start + seconds(30), Limit::Computing));
        advance(seconds(10)).await;
        clock.set_waiting(true);
        assert_eq!(clock.deadline(), (start + seconds(600), Limit::Total));
        advance(seconds(300)).await;
        // Reporting it twice changes nothing.
        clock.set_waiting(true);
        clock.set_waiting(false);
        clock.set_waiting(false);
        assert_eq!(clock.deadline(), (start + seconds(330), Limit::Computing));
        clock.credit(seconds(5));
        assert_eq!(clock.deadline(), (start + seconds(335), Limit::Computing));
        advance(seconds(10)).await;
        clock.set_waiting(true);
        advance(seconds(270)).await;
        clock.set_waiting(false);
        assert_eq!(clock.deadline(), (start + seconds(600), Limit::Total));
    }
}
