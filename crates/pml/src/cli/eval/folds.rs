//! Which traces are learned and which are asked about, for each seed.

use std::collections::HashSet;

use super::lines::{Trace, shuffle};

/// One in so many traces is held out, and never more than [`MOST_TESTED`].
const TESTED: usize = 5;
const MOST_TESTED: usize = 400;

/// The traces of an evaluation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Data<'t> {
    /// Two files: each seed learns the training traces in another order, the first seed in the given one.
    Given { train: &'t [Trace], test: &'t [Trace] },
    /// One file: each seed splits it anew.
    Split(&'t [Trace]),
}

/// What one seed learns and is asked about.
#[derive(Debug)]
pub(super) struct Fold<'t> {
    /// In the order in which they are learned.
    pub(super) train: Vec<&'t Trace>,
    /// Each with its number in the file.
    pub(super) test: Vec<(usize, &'t Trace)>,
}

impl<'t> Data<'t> {
    pub(super) fn fold(self, seed: u64) -> Fold<'t> {
        match self {
            Data::Given { train, test } => {
                let mut order: Vec<usize> = (0..train.len()).collect();
                if seed > 0 {
                    shuffle(&mut order, seed);
                }
                Fold { train: order.into_iter().map(|number| &train[number]).collect(), test: numbered(test) }
            }
            Data::Split(traces) => split(traces, seed),
        }
    }

    /// Every trace that a seed may ask about.
    pub(super) fn asked(self) -> &'t [Trace] {
        match self {
            Data::Given { test, .. } => test,
            Data::Split(traces) => traces,
        }
    }
}

/// Holds out the last fifth of a shuffle. A training trace that shares its conversation or its intent with a held-out trace would
/// give the answer away, so it is left out.
fn split(traces: &[Trace], seed: u64) -> Fold<'_> {
    let mut order: Vec<usize> = (0..traces.len()).collect();
    shuffle(&mut order, seed.wrapping_add(1));
    let tested = (traces.len() / TESTED).min(MOST_TESTED);
    let (train, test) = order.split_at(traces.len() - tested);
    let test: Vec<(usize, &Trace)> = test.iter().map(|number| (*number, &traces[*number])).collect();
    let intents: HashSet<&str> = test.iter().map(|(_, trace)| trace.intent.trim()).collect();
    let groups: HashSet<&str> = test.iter().filter_map(|(_, trace)| trace.group.as_deref()).collect();
    let is_apart = |trace: &&Trace| {
        !intents.contains(trace.intent.trim()) && trace.group.as_deref().is_none_or(|group| !groups.contains(group))
    };
    Fold { train: train.iter().map(|number| &traces[*number]).filter(is_apart).collect(), test }
}

fn numbered(traces: &[Trace]) -> Vec<(usize, &Trace)> {
    traces.iter().enumerate().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traces() -> Vec<Trace> {
        let trace = |number: usize| Trace {
            intent: format!("intent {}", number % 90), // ten intents occur twice
            steps: vec![("t".to_owned(), true)],
            success: true,
            caller: String::new(),
            group: (number < 60).then(|| format!("conversation {}", number / 3)),
            time_ms: 0,
        };
        (0..100).map(trace).collect()
    }

    #[test]
    fn no_training_trace_shares_an_intent_or_a_conversation_with_a_held_out_one() {
        let traces = traces();
        let mut held_out = HashSet::new();
        for seed in 0..20 {
            let Fold { train, test } = Data::Split(&traces).fold(seed);
            assert_eq!(test.len(), 20);
            assert!(train.len() > 20 && train.len() < 80, "{}", train.len());
            for (_, tested) in &test {
                assert!(train.iter().all(|trace| trace.intent != tested.intent));
                assert!(train.iter().all(|trace| trace.group.is_none() || trace.group != tested.group));
            }
            held_out.extend(test.iter().map(|(number, _)| *number));
            let again: Vec<usize> = Data::Split(&traces).fold(seed).test.iter().map(|(number, _)| *number).collect();
            assert_eq!(again, test.iter().map(|(number, _)| *number).collect::<Vec<_>>(), "a seed is a split");
        }
        assert!(held_out.len() > 90, "seeds differ: {}", held_out.len());
    }

    #[test]
    fn the_first_seed_of_two_files_keeps_their_order() {
        let traces = traces();
        let (train, test) = traces.split_at(70);
        let data = Data::Given { train, test };
        let intents = |seed: u64| data.fold(seed).train.iter().map(|trace| trace.intent.clone()).collect::<Vec<_>>();
        assert_eq!(intents(0), train.iter().map(|trace| trace.intent.clone()).collect::<Vec<_>>());
        assert_ne!(intents(0), intents(1));
        assert_eq!(data.fold(1).test.len(), 30);
    }
}
