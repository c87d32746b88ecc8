//! Learning again from past examples: not at all, evenly, or by priority.
//!
//! Prioritized replay draws an example with probability `p^α / Σ p^α`, where `p` is how surprising the example was, and corrects for
//! the uneven draw with the importance weight `(1 / (N · P))^β`. With β = 1 the weighted mean over draws is the mean over all
//! examples; β starts lower and gets there.

use crate::{math::power, random::Random, ranker::Example};

/// Examples that are kept for replay.
pub(crate) const CAPACITY: usize = 512;
const ALPHA: f64 = 0.6;
const FIRST_BETA: f64 = 0.4;
/// Draws until β is 1.
const ANNEALED_AFTER: f64 = 2000.0;
pub(crate) const LEAST_PRIORITY: f64 = 0.01;

/// Which past examples are learned again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replay {
    /// None. What was measured gives no reason for another choice.
    #[default]
    None,
    /// All alike.
    Uniform,
    /// Surprising ones more often.
    Prioritized,
}

/// An example that was drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    pub index: usize,
    /// With which it was drawn.
    pub probability: f64,
    /// `(1 / (N · probability))^β`.
    pub importance: f64,
}

/// Draws numbers by priority, from a tree of sums.
#[derive(Clone, Debug, PartialEq)]
pub struct PrioritySampler {
    /// The root at 1, the children of `n` at `2n` and `2n + 1`, leaves in the second half.
    sums: Vec<f64>,
    len: usize,
}

impl PrioritySampler {
    pub fn new(capacity: usize) -> PrioritySampler {
        PrioritySampler { sums: vec![0.0; 2 * capacity.next_power_of_two().max(1)], len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn leaves(&self) -> usize {
        self.sums.len() / 2
    }

    /// Sets the priority of an entry; a priority that is no number, or below the least, is the least one.
    ///
    /// # Panics
    ///
    /// If `index` is not below the capacity.
    pub fn set(&mut self, index: usize, priority: f64) {
        assert!(index < self.leaves(), "{index} of {}", self.leaves());
        self.len = self.len.max(index + 1);
        let mut node = self.leaves() + index;
        self.sums[node] = power(bounded(priority), ALPHA);
        while node > 1 {
            node /= 2;
            self.sums[node] = self.sums[2 * node] + self.sums[2 * node + 1];
        }
    }

    /// The entry at a point from 0 to 1. `None` if there is none.
    pub fn draw(&self, point: f64, beta: f64) -> Option<Draw> {
        let total = self.sums[1];
        if self.is_empty() || total <= 0.0 {
            return None;
        }
        let mut left = point.clamp(0.0, 1.0) * total;
        let mut node = 1;
        while node < self.leaves() {
            node *= 2;
            // Rounding must not lead where nothing is.
            if left >= self.sums[node] && self.sums[node + 1] > 0.0 {
                left -= self.sums[node];
                node += 1;
            }
        }
        let probability = self.sums[node] / total;
        let importance = power(1.0 / (self.len as f64 * probability), beta);
        Some(Draw { index: node - self.leaves(), probability, importance })
    }
}

/// A priority from [`LEAST_PRIORITY`] to 1.
pub(crate) fn bounded(priority: f64) -> f64 {
    if priority.is_nan() { LEAST_PRIORITY } else { priority.clamp(LEAST_PRIORITY, 1.0) }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Buffer {
    pub(crate) replay: Replay,
    pub(crate) examples: Vec<Example>,
    pub(crate) priorities: Vec<f64>,
    sampler: PrioritySampler,
    /// Where the next example goes.
    pub(crate) next: usize,
    pub(crate) draws: u64,
    pub(crate) random: Random,
}

impl Buffer {
    pub(crate) fn new(replay: Replay, seed: u64) -> Buffer {
        Buffer {
            replay,
            examples: Vec::new(),
            priorities: Vec::new(),
            sampler: PrioritySampler::new(CAPACITY),
            next: 0,
            draws: 0,
            random: Random(seed),
        }
    }

    pub(crate) fn push(&mut self, example: Example, surprise: f64) {
        if self.replay == Replay::None {
            return;
        }
        let place = self.next;
        self.next = (self.next + 1) % CAPACITY;
        match self.examples.get_mut(place) {
            Some(old) => *old = example,
            None => {
                self.examples.push(example);
                self.priorities.push(0.0);
            }
        }
        self.set_priority(place, surprise);
    }

    pub(crate) fn set_priority(&mut self, place: usize, surprise: f64) {
        self.priorities[place] = bounded(surprise);
        self.sampler.set(place, surprise);
    }

    /// An example to learn again, and how much it counts.
    pub(crate) fn draw(&mut self) -> Option<(usize, f64)> {
        if self.examples.is_empty() {
            return None;
        }
        let point = self.random.unit();
        match self.replay {
            Replay::None => None,
            Replay::Uniform => Some(((point * self.examples.len() as f64) as usize, 1.0)),
            Replay::Prioritized => {
                let beta = FIRST_BETA + (1.0 - FIRST_BETA) * (self.draws as f64 / ANNEALED_AFTER).min(1.0);
                self.draws += 1;
                let draw = self.sampler.draw(point, beta)?;
                // The largest possible weight is 1, so that no step is larger than an ordinary one.
                let least = power(self.priorities.iter().copied().fold(f64::INFINITY, f64::min), ALPHA);
                let total: f64 = self.sampler.sums[1];
                let largest = power(total / (self.examples.len() as f64 * least), beta);
                Some((draw.index, draw.importance / largest))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weighted_mean_over_draws_is_the_mean() {
        let values: Vec<f64> = (0..37).map(|i| f64::from(i * i % 11) - 3.0).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let mut sampler = PrioritySampler::new(64);
        for index in 0..values.len() {
            sampler.set(index, 0.01 + (index % 7) as f64 / 7.0);
        }
        // Exactly, over the distribution.
        let draws = 1_000_000;
        let mut expectation = vec![None; values.len()];
        for point in 0..draws {
            let draw = sampler.draw((f64::from(point) + 0.5) / f64::from(draws), 1.0).unwrap();
            expectation[draw.index] = Some(draw);
        }
        let exact: f64 = expectation
            .iter()
            .zip(&values)
            .map(|(draw, value)| {
                let draw = draw.expect("every example is drawn");
                draw.probability * draw.importance * value
            })
            .sum();
        assert!((exact - mean).abs() < 1e-9, "{exact} {mean}");
        assert!((expectation.iter().flatten().map(|draw| draw.probability).sum::<f64>() - 1.0).abs() < 1e-9);
        // And over draws, within five standard errors; without weights it is not.
        let mut random = Random(5);
        let (mut weighted, mut squares, mut plain) = (0.0, 0.0, 0.0);
        let count = 200_000.0;
        for _ in 0..200_000 {
            let draw = sampler.draw(random.unit(), 1.0).unwrap();
            let value = draw.importance * values[draw.index];
            weighted += value;
            squares += value * value;
            plain += values[draw.index];
        }
        let error = ((squares / count - (weighted / count).powi(2)) / count).sqrt();
        assert!((weighted / count - mean).abs() < 5.0 * error, "{} {mean} ± {error}", weighted / count);
        assert!((plain / count - mean).abs() > 5.0 * error, "the draw is uneven");
    }

    #[test]
    fn higher_priority_is_drawn_more_often() {
        let mut sampler = PrioritySampler::new(2);
        sampler.set(0, 1.0);
        sampler.set(1, 0.01);
        let draw = sampler.draw(0.5, 0.4).unwrap();
        assert_eq!(draw.index, 0);
        assert!((draw.probability - 1.0 / (1.0 + 0.01_f64.powf(ALPHA))).abs() < 1e-12);
        sampler.set(0, f64::NAN);
        assert_eq!(sampler.draw(0.75, 1.0).map(|draw| draw.probability), Some(0.5));
        assert_eq!(PrioritySampler::new(4).draw(0.5, 1.0), None);
    }

    #[test]
    fn the_ends_of_the_draw_are_entries() {
        let mut sampler = PrioritySampler::new(512);
        for index in 0..300 {
            sampler.set(index, 0.1 + index as f64 / 1e6);
        }
        for point in [0.0, 1.0 - f64::EPSILON, 1.0, 2.0, f64::NEG_INFINITY] {
            assert!(sampler.draw(point, 1.0).unwrap().index < 300, "{point}");
        }
    }
}
