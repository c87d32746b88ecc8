//! Time as traces tell it, and how evidence fades.
//!
//! A trace counts `2^(age / half-life)` less the older it is. Counts are kept in units of an epoch ("forward decay"): a trace at
//! time `t` adds `2^((t - epoch) / half-life)`, and the value of a count now is its sum times one factor that all counts share. So
//! nothing has to be touched as time passes, the order of counts never changes, and a trace that arrives late adds what it would
//! have added in time.
//!
//! The clock never goes backwards. It goes forward by at most [`LARGEST_STEP_MS`] per trace, so that one wrong timestamp cannot
//! make everything else old; and no trace counts as older than [`LARGEST_AGE`], so that a clock that was wrong from the start slows
//! learning down and does not end it.

use crate::math::exp2;

pub(crate) const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// How far one trace can move the clock.
const LARGEST_STEP_MS: i64 = 7 * DAY_MS;
/// How old a trace can be when it arrives, in half-lives.
const LARGEST_AGE: i64 = 4;
/// Half-lives after which counts are scaled down, well before a float overflows.
const RESCALE_AFTER: i32 = 64;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Clock {
    pub(crate) half_life_ms: i64,
    pub(crate) epoch_ms: i64,
    pub(crate) now_ms: i64,
    pub(crate) is_started: bool,
}

/// A moment of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moment {
    /// What the trace adds to a count.
    pub(crate) weight: f64,
    /// What all counts have to be multiplied with before.
    pub(crate) rescale: Option<f64>,
}

impl Clock {
    pub(crate) fn new(half_life_ms: i64) -> Clock {
        Clock { half_life_ms: half_life_ms.max(DAY_MS), epoch_ms: 0, now_ms: 0, is_started: false }
    }

    /// Moves the clock to a trace.
    pub(crate) fn observe(&mut self, time_ms: i64) -> Moment {
        if !self.is_started {
            *self = Clock { epoch_ms: time_ms, now_ms: time_ms, is_started: true, ..*self };
        }
        let time_ms = time_ms.min(self.now_ms.saturating_add(LARGEST_STEP_MS));
        self.now_ms = self.now_ms.max(time_ms);
        let time_ms = time_ms.max(self.now_ms.saturating_sub(self.half_life_ms.saturating_mul(LARGEST_AGE)));
        let mut rescale = None;
        let span_ms = self.span_ms();
        if self.now_ms.saturating_sub(self.epoch_ms) > span_ms {
            self.epoch_ms = self.epoch_ms.saturating_add(span_ms);
            rescale = Some(2_f64.powi(-RESCALE_AFTER)); // exact
        }
        let age = time_ms.saturating_sub(self.epoch_ms) as f64 / self.half_life_ms as f64;
        Moment { weight: exp2(age), rescale }
    }

    /// The time between now and the epoch, at most.
    pub(crate) fn span_ms(&self) -> i64 {
        self.half_life_ms.saturating_mul(i64::from(RESCALE_AFTER))
    }

    /// What counts are multiplied with to get their value now.
    pub(crate) fn factor(&self) -> f64 {
        exp2(-(self.now_ms.saturating_sub(self.epoch_ms) as f64) / self.half_life_ms as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_halves_in_a_half_life_and_late_traces_count_as_old() {
        let mut clock = Clock::new(DAY_MS);
        let first = clock.observe(0).weight;
        let second = clock.observe(DAY_MS).weight;
        assert_eq!((first * clock.factor(), second * clock.factor()), (0.5, 1.0));
        let late = clock.observe(0).weight;
        assert_eq!((late, clock.now_ms), (first, DAY_MS));
    }

    #[test]
    fn a_wrong_timestamp_moves_the_clock_by_a_week_at_most() {
        let mut clock = Clock::new(DAY_MS);
        clock.observe(1_000);
        clock.observe(i64::MAX);
        assert_eq!(clock.now_ms, 1_000 + LARGEST_STEP_MS);
        let ancient = clock.observe(i64::MIN);
        assert_eq!((ancient.weight * clock.factor(), clock.now_ms), (1.0 / 16.0, 1_000 + LARGEST_STEP_MS));
    }

    #[test]
    fn counts_stay_finite_over_centuries() {
        let mut clock = Clock::new(DAY_MS);
        let mut count = 0.0;
        for week in 0..20_000 {
            let moment = clock.observe(week * LARGEST_STEP_MS);
            count = count * moment.rescale.unwrap_or(1.0) + moment.weight;
            let value = count * clock.factor();
            assert!((1.0..1.01).contains(&value), "{week}: {value}");
        }
    }
}
