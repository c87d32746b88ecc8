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

/// 97.5 % quantiles of Student's t, from one degree of freedom on; beyond, the normal distribution's is near enough.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

impl Interval {
    pub(super) fn of(values: &[f64]) -> Interval {
        let answers: Vec<(f64, u32)> = values.iter().map(|value| (*value, 1)).collect();
        Interval::of_questions(&answers)
    }

    /// The mean over all answers, where questions are drawn: each is the sum of its answers and how many it has.
    pub(super) fn of_questions(questions: &[(f64, u32)]) -> Interval {
        if questions.is_empty() {
            return Interval::default();
        }
        let count = questions.len();
        let mean = |questions: &mut dyn Iterator<Item = (f64, u32)>| {
            let (sum, answers) =
                questions.fold((0.0, 0.0), |(sum, all), (value, answers)| (sum + value, all + f64::from(answers)));
            sum / f64::max(answers, 1.0)
        };
        let mut state = 0x9e37_79b9_7f4a_7c15_u64; // the same draws each time
        let mut draw = || {
            // xorshift64*: good enough to pick questions.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            ((state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as usize * count) >> 32
        };
        let mut means: Vec<f64> = (0..RESAMPLES).map(|_| mean(&mut (0..count).map(|_| questions[draw()]))).collect();
        means.sort_by(f64::total_cmp);
        let mean = mean(&mut questions.iter().copied());
        Interval { mean, low: percentile(&means, 0.025), high: percentile(&means, 0.975) }
    }

    /// The mean of independent repetitions, with Student's interval. `None` with fewer than two.
    pub(super) fn of_repetitions(values: &[f64]) -> Option<Interval> {
        let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / freedom as f64;
        let quantile = STUDENT.get(freedom - 1).copied().unwrap_or(1.96);
        let half = quantile * (variance / values.len() as f64).sqrt();
        Some(Interval { mean, low: mean - half, high: mean + half })
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

    #[test]
    fn a_question_that_was_asked_twice_counts_twice_and_is_drawn_once() {
        let interval = Interval::of_questions(&[(2.0, 2), (0.0, 1), (0.0, 1)]);
        assert_eq!((interval.mean, interval.low, interval.high), (0.5, 0.0, 1.0));
        assert_eq!(Interval::of_questions(&[]), Interval::default());
    }

    #[test]
    fn repetitions_have_students_interval() {
        // Mean 2, standard deviation 1, three repetitions: 4.303 / √3.
        let Interval { mean, low, high } = Interval::of_repetitions(&[1.0, 2.0, 3.0]).unwrap();
        assert!((mean - 2.0).abs() < 1e-12 && (high - mean - 2.484).abs() < 1e-3 && (mean - low - 2.484).abs() < 1e-3);
        assert_eq!(Interval::of_repetitions(&[1.0]), None);
        let many = Interval::of_repetitions(&[0.0, 1.0].repeat(50)).unwrap();
        assert!((many.high - many.mean - 1.96 * 0.0503).abs() < 1e-3, "{many:?}");
    }
}
