//! The weighted sum of features, learned online.
//!
//! The weights minimise the cross-entropy of what was used among what could have been used, by AdaGrad, drawn toward a prior. All
//! but the weight of [`Feature::Used`] stay at 0 or above: what speaks for a tool can be worth nothing, but cannot speak against it.

use crate::{
    features::{FEATURES, Feature, Features},
    math::{exp, ln},
    observation::Task,
};

const LEARNING_RATE: f64 = 0.3;
/// How strongly weights are drawn toward the prior.
const PULL: f64 = 0.01;
/// Tools beside those that were used, the ones with the best scores.
pub(crate) const RIVALS: usize = 95;
/// No weight gets beyond.
pub(crate) const LARGEST_WEIGHT: f64 = 100.0;

#[rustfmt::skip]
pub(crate) const PRIOR: [[f64; FEATURES]; 2] = [
    // search  similar  ~sequence  follows  ~two  together  popularity  used  prototype  words  lift
    [  4.0,    3.2,     0.0,       0.0,     0.0,  0.0,      1.2,        0.0,  0.8,       1.6,   1.0 ],
    [  3.0,    1.4,     1.4,       1.4,     1.6,  0.7,      0.5,       -0.5,  0.4,       0.5,   0.2 ],
];

/// What was used, and what could have been used instead.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Example {
    pub(crate) task: Task,
    /// Of the tools that were used, then of their rivals.
    pub(crate) features: Vec<Features>,
    pub(crate) used: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranker {
    pub(crate) weights: [[f64; FEATURES]; 2],
    pub(crate) squares: [[f64; FEATURES]; 2],
    /// Next tools that had been used before, and next tools in all: what a used tool is worth to begin with.
    pub(crate) repeats: f64,
    pub(crate) nexts: f64,
}

impl Ranker {
    pub(crate) fn new() -> Ranker {
        Ranker { weights: PRIOR, squares: [[1.0; FEATURES]; 2], repeats: 0.0, nexts: 0.0 }
    }

    pub(crate) fn weights(&self, task: Task) -> Features {
        self.weights[task.index()].map(|weight| weight as f32)
    }

    /// The weights that learning starts from. That of a used tool follows how often tools are used again, which differs
    /// between users more than anything else; it starts at one in four.
    fn prior(&self, task: Task) -> [f64; FEATURES] {
        let mut prior = PRIOR[task.index()];
        if task == Task::Next {
            let rate = (self.repeats + 1.0) / (self.nexts + 4.0);
            prior[Feature::Used.index()] = 0.5 * ln(rate / (1.0 - rate));
        }
        prior
    }

    /// Notes whether the next tool was one that had been used.
    pub(crate) fn observe_next(&mut self, is_repeat: bool, share: f64) {
        let before = self.prior(Task::Next)[Feature::Used.index()];
        self.nexts += share;
        if is_repeat {
            self.repeats += share;
        }
        let after = self.prior(Task::Next)[Feature::Used.index()];
        self.weights[Task::Next.index()][Feature::Used.index()] += after - before;
    }

    /// One step of learning, which counts `scale`. The answer is the probability that was given to what was used.
    pub(crate) fn learn(&mut self, example: &Example, scale: f64) -> f64 {
        let Example { task, features, used } = example;
        let weights = self.weights(*task);
        let probabilities = softmax(features.iter().map(|features| score(&weights, features)));
        let mut gradient = [0.0; FEATURES];
        for (place, (features, probability)) in features.iter().zip(&probabilities).enumerate() {
            let target = if place < *used { 1.0 / *used as f64 } else { 0.0 };
            for (sum, feature) in gradient.iter_mut().zip(features) {
                *sum += (probability - target) * f64::from(*feature);
            }
        }
        let prior = self.prior(*task);
        let (weights, squares) = (&mut self.weights[task.index()], &mut self.squares[task.index()]);
        for feature in 0..FEATURES {
            let slope = scale * (gradient[feature] + PULL * (weights[feature] - prior[feature]));
            squares[feature] += slope * slope;
            weights[feature] -= LEARNING_RATE * slope / squares[feature].sqrt();
            let least = if feature == Feature::Used.index() { -LARGEST_WEIGHT } else { 0.0 };
            weights[feature] = weights[feature].clamp(least, LARGEST_WEIGHT);
        }
        probabilities[..*used].iter().sum()
    }
}

pub(crate) fn score(weights: &Features, features: &Features) -> f32 {
    weights.iter().zip(features).map(|(weight, feature)| weight * feature).sum()
}

fn softmax(scores: impl Iterator<Item = f32>) -> Vec<f64> {
    let mut values: Vec<f64> = scores.map(f64::from).collect();
    let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    values.iter_mut().for_each(|value| *value = exp(*value - best));
    let sum: f64 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= sum);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(task: Task, right: usize, wrong: usize) -> Example {
        let mut features = vec![[0.0; FEATURES]; 4];
        features[0][right] = 1.0;
        features[1..].iter_mut().for_each(|features| features[wrong] = 1.0);
        Example { task, features, used: 1 }
    }

    #[test]
    fn what_tells_right_from_wrong_gains_weight() {
        let (similar, popularity) = (Feature::Similar.index(), Feature::Popularity.index());
        let mut ranker = Ranker::new();
        let mut last = 0.0;
        for _ in 0..200 {
            last = ranker.learn(&example(Task::Set, popularity, similar), 1.0);
        }
        let weights = ranker.weights(Task::Set);
        assert!(weights[popularity] > 2.0 && weights[similar] < 1.0 && last > 0.8, "{weights:?} {last}");
    }

    #[test]
    fn no_feature_speaks_against_a_tool() {
        let mut ranker = Ranker::new();
        for round in 0..2000 {
            ranker.learn(&example(Task::Next, round % FEATURES, (round + 1) % FEATURES), 1.0);
            ranker.learn(&example(Task::Set, 0, 1), 1.0);
        }
        for (feature, weight) in ranker.weights.iter().flat_map(|weights| weights.iter().enumerate()) {
            assert!(feature == Feature::Used.index() || *weight >= 0.0, "{feature}: {weight}");
        }
    }

    #[test]
    fn the_weight_of_used_tools_follows_how_often_tools_are_used_again() {
        let used = |is_repeat: bool| {
            let mut ranker = Ranker::new();
            (0..100).for_each(|_| ranker.observe_next(is_repeat, 1.0));
            ranker.weights(Task::Next)[Feature::Used.index()]
        };
        assert!(used(true) > 0.5 && used(false) < -1.0);
        let fresh = Ranker::new();
        assert!((fresh.prior(Task::Next)[Feature::Used.index()] - -0.549).abs() < 1e-3);
    }
}
