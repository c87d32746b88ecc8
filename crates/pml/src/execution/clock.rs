//! How long a run may go on.
//!
//! A program may compute for so long, and the run may take so long in all. While the host works or waits on behalf of the
//! program, the first stands still. The worker says when it waits; one that lies gains nothing beyond the second.

use std::time::Duration;

use tokio::time::Instant;

/// Which limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Computing,
    Total,
}

/// The time that is left to a run.
#[derive(Debug)]
pub(super) struct Clock {
    /// What the program may still compute, since `computes_since`.
    left: Duration,
    /// `None` while it waits for the host.
    computes_since: Option<Instant>,
    end: Instant,
}

impl Clock {
    /// A run that begins now.
    pub(super) fn start(computing: Duration, total: Duration) -> Clock {
        let now = Instant::now();
        Clock { left: computing, computes_since: Some(now), end: now + total }
    }

    /// The program waits for the host, or does not.
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

    /// So much of what was counted was waiting.
    pub(super) fn credit(&mut self, time: Duration) {
        self.left += time;
    }

    /// When the run is over, if nothing changes until then, and by which limit.
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
        // Said twice, it changes nothing.
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
