//! How good a ranking is, and how far a mean can be believed.

/// Ranks that an agent looks at.
pub(super) const SHOWN: usize = 10;
/// How often questions are drawn anew to see how far the means depend on which they are.
const RESAMPLES: usize = 1000;

/// How well one question was answered, by each measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quality {
    pub(super) hit_1: f64,
    pub(super) recall_1: f64,
    pub(super) recall_5: f64,
    pub(super) recall_10: f64,
    pub(super) complete_10: f64,
    pub(super) ndcg_10: f64,
    pub(super) mrr: f64,
}

/// Judges a ranking by whether each rank, best first, is one of the `relevant` answers that there are.
pub(super) fn quality(is_good: &[bool], relevant: usize) -> Quality {
    let good_among = |count: usize| is_good.iter().take(count).filter(|good| **good).count();
    let recall = |count: usize| good_among(count) as f64 / relevant as f64;
    let discount = |rank: usize| 1.0 / (rank as f64 + 2.0).log2();
    let good_ranks = is_good.iter().take(SHOWN).enumerate().filter(|(_, good)| **good);
    let gain = good_ranks.map(|(rank, _)| discount(rank)).fold(0.0, |sum, gain| sum + gain);
    let ideal: f64 = (0..relevant.min(SHOWN)).map(discount).sum();
    let first = is_good.iter().position(|good| *good);
    Quality {
        hit_1: f64::from(first == Some(0)),
        recall_1: recall(1),
        recall_5: recall(5),
        recall_10: recall(10),
        complete_10: f64::from(good_among(10) == relevant),
        ndcg_10: gain / ideal,
        mrr: first.map_or(0.0, |rank| 1.0 / (rank as f64 + 1.0)),
    }
}

/// A mean, and where it lies in 95 of 100 draws of as many questions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Interval {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Interval {
    pub(super) fn of(values: &[f64]) -> Interval {
        if values.is_empty() {
            return Interval::default();
        }
        let count = values.len();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64; // the same draws each time
        let mut draw = || {
            // xorshift64*: good enough to pick questions.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            ((state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as usize * count) >> 32
        };
        let mut means: Vec<f64> =
            (0..RESAMPLES).map(|_| (0..count).map(|_| values[draw()]).sum::<f64>() / count as f64).collect();
        means.sort_by(f64::total_cmp);
        let mean = values.iter().sum::<f64>() / count as f64;
        Interval { mean, low: percentile(&means, 0.025), high: percentile(&means, 0.975) }
    }
}

pub(super) fn percentile(sorted: &[f64], part: f64) -> f64 {
    let place = (sorted.len().saturating_sub(1) as f64 * part).round() as usize;
    sorted.get(place).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_around_its_mean_and_always_the_same() {
        let values: Vec<f64> = (0..200).map(|i| f64::from(i % 4 == 0)).collect();
        let interval = Interval::of(&values);
        assert_eq!(interval, Interval::of(&values));
        assert!((interval.mean - 0.25).abs() < 1e-12);
        assert!(interval.low > 0.15 && interval.low < 0.25 && interval.high > 0.25 && interval.high < 0.35);
        assert_eq!(Interval::of(&[1.0, 1.0]), Interval { mean: 1.0, low: 1.0, high: 1.0 });
    }
}
