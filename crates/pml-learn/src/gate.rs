//! Whether what was learned may speak.
//!
//! Before a trace is learned, the rank that its tools would have got is compared with the rank that the search gives them. While
//! the search is better beyond chance, the search answers.

use std::collections::VecDeque;

/// Comparisons that are kept.
pub(crate) const WINDOW: usize = 300;
/// Comparisons before a verdict.
const ENOUGH: usize = 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Gate {
    /// Reciprocal rank of what was learned less that of the search, oldest first.
    pub(crate) gains: VecDeque<f32>,
}

impl Gate {
    pub(crate) fn record(&mut self, gain: f32) {
        if self.gains.len() == WINDOW {
            self.gains.pop_front();
        }
        self.gains.push_back(gain);
    }

    pub(crate) fn is_open(&self) -> bool {
        let (mean, error) = self.gain();
        self.gains.len() < ENOUGH || mean + error >= 0.0
    }

    /// The mean gain and its standard error.
    pub(crate) fn gain(&self) -> (f64, f64) {
        let count = self.gains.len().max(1) as f64;
        let mean = self.gains.iter().map(|gain| f64::from(*gain)).sum::<f64>() / count;
        let variance = self.gains.iter().map(|gain| (f64::from(*gain) - mean).powi(2)).sum::<f64>() / count;
        (mean, (variance / count).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_closes_when_the_search_is_better_and_opens_again() {
        let mut gate = Gate::default();
        for _ in 0..ENOUGH - 1 {
            gate.record(-0.5);
            assert!(gate.is_open(), "too few to say");
        }
        gate.record(-0.5);
        assert!(!gate.is_open());
        for _ in 0..WINDOW {
            gate.record(0.1);
        }
        assert!(gate.is_open());
        assert_eq!(gate.gains.len(), WINDOW);
    }
}
