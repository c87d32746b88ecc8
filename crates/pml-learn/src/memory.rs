//! The intents of past traces, and what was used for them.
//!
//! Traces with a similar intent vote for their tools: attention over past executions, each of which is a hyperedge of the tools
//! that it used. How similar is similar follows from the data: similarities count from one standard deviation above their
//! running mean.

use crate::{
    evidence::CallerId,
    names::NameId,
    vector::{Direction, Rows},
};

/// From which similarity on traces vote at the latest. Where all intents are alike, or are of few kinds, the deviation would ask
/// for more than similar intents have.
const HIGHEST_FLOOR: f64 = 0.7;
/// How fast the mean of similarities follows: as if it were over so many traces.
const WINDOW: f64 = 200.0;
/// A trace that says less than this for all its tools is not remembered: the caller has said it often enough.
pub(crate) const LEAST_SHARE: f64 = 0.05;

/// A past trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Remembered {
    /// Tools that succeeded, in the order of their calls.
    pub(crate) tools: Box<[NameId]>,
    /// How much it says, in units of the epoch.
    pub(crate) weight: f64,
    pub(crate) success: bool,
    pub(crate) has_intent: bool,
    pub(crate) caller: CallerId,
    /// Counts up with each trace.
    pub(crate) number: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Memory {
    pub(crate) capacity: usize,
    pub(crate) rows: Rows,
    pub(crate) traces: Vec<Remembered>,
    pub(crate) next_number: u64,
    /// Running mean of similarities and of their squares, and how many traces they are from.
    pub(crate) mean: f64,
    pub(crate) square: f64,
    pub(crate) observed: u64,
}

/// How near each remembered trace is to an intent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nearness {
    /// The cosine with each trace. Empty if there is no intent.
    pub(crate) cosines: Vec<f32>,
    /// What each trace votes with; none below 0.
    pub(crate) votes: Vec<f32>,
    /// The places of those that vote.
    pub(crate) voters: Vec<usize>,
    pub(crate) total: f32,
    /// From which similarity on traces vote.
    pub(crate) floor: f32,
}

impl Memory {
    pub(crate) fn new(dimensions: usize, capacity: usize) -> Memory {
        Memory {
            capacity: capacity.max(1),
            rows: Rows::new(dimensions),
            traces: Vec::new(),
            next_number: 0,
            mean: 0.0,
            square: 0.0,
            observed: 0,
        }
    }

    fn floor(&self) -> f64 {
        let deviation = (self.square - self.mean * self.mean).max(0.0).sqrt();
        (self.mean + deviation).clamp(0.0, HIGHEST_FLOOR)
    }

    /// The power of a similarity that a trace votes with. The more traces there are, the nearer the nearest ones are, and the less
    /// the others have to say.
    fn sharpness(&self) -> f32 {
        2.0 + (self.traces.len() as f32 / 30.0).max(1.0).log10()
    }

    /// `factor` gives weights their value now.
    pub(crate) fn nearness(&self, intent: Option<&Direction>, factor: f64) -> Nearness {
        let Some(intent) = intent else { return Nearness::default() };
        let mut nearness = Nearness { floor: self.floor() as f32, ..Nearness::default() };
        self.rows.cosines(intent, &mut nearness.cosines);
        let span = 1.0 - nearness.floor;
        let sharpness = self.sharpness();
        nearness.votes = nearness
            .cosines
            .iter()
            .zip(&self.traces)
            .map(|(cosine, trace)| {
                let above = ((cosine - nearness.floor) / span).clamp(0.0, 1.0);
                if above > 0.0 && trace.has_intent {
                    above.powf(sharpness) * (trace.weight * factor) as f32
                } else {
                    0.0
                }
            })
            .collect();
        nearness.voters = (0..nearness.votes.len()).filter(|place| nearness.votes[*place] > 0.0).collect();
        nearness.total = nearness.voters.iter().map(|place| nearness.votes[*place]).sum();
        nearness
    }

    /// Notes how similar the intents of traces are to each other.
    pub(crate) fn observe(&mut self, cosines: &[f32]) {
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for (cosine, trace) in cosines.iter().zip(&self.traces) {
            if trace.has_intent {
                let cosine = f64::from(*cosine);
                count += 1.0;
                sum += cosine;
                squares += cosine * cosine;
            }
        }
        if count == 0.0 {
            return;
        }
        self.observed += 1;
        let rate = 1.0 / (self.observed as f64).min(WINDOW);
        self.mean += rate * (sum / count - self.mean);
        self.square += rate * (squares / count - self.square);
    }

    /// Remembers a trace. If there is no room, the oldest trace of the caller that has most goes.
    pub(crate) fn push(
        &mut self,
        intent: Option<&Direction>,
        tools: Box<[NameId]>,
        weight: f64,
        success: bool,
        caller: CallerId,
    ) {
        let number = self.next_number;
        self.next_number += 1;
        let trace = Remembered { tools, weight, success, has_intent: intent.is_some(), caller, number };
        let place = if self.traces.len() < self.capacity { self.traces.len() } else { self.victim() };
        self.rows.set(place, intent);
        match self.traces.get_mut(place) {
            Some(old) => *old = trace,
            None => self.traces.push(trace),
        }
    }

    fn victim(&self) -> usize {
        /// Of one caller: traces, and the number and place of the oldest.
        #[derive(Clone, Copy)]
        struct Share {
            traces: u32,
            oldest: u64,
            place: usize,
        }
        let mut shares: Vec<Share> = Vec::new();
        for (place, trace) in self.traces.iter().enumerate() {
            let caller = trace.caller as usize;
            if shares.len() <= caller {
                shares.resize(caller + 1, Share { traces: 0, oldest: u64::MAX, place: 0 });
            }
            let share = &mut shares[caller];
            share.traces += 1;
            if trace.number < share.oldest {
                *share = Share { oldest: trace.number, place, ..*share };
            }
        }
        let most = shares.iter().max_by_key(|share| (share.traces, std::cmp::Reverse(share.oldest)));
        most.map_or(0, |share| share.place)
    }

    pub(crate) fn rescale(&mut self, factor: f64) {
        self.traces.iter_mut().for_each(|trace| trace.weight *= factor);
    }

    /// Gives tools their new numbers. A trace keeps its place even if none of its tools is left.
    pub(crate) fn renumber(&mut self, numbers: &[Option<NameId>]) {
        for trace in &mut self.traces {
            trace.tools = trace.tools.iter().filter_map(|tool| numbers[*tool as usize]).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loud_caller_forgets_its_own_traces_first() {
        let mut memory = Memory::new(2, 10);
        for tool in 0..4 {
            memory.push(None, [tool].into(), 1.0, true, 0);
        }
        for tool in 100..1000 {
            memory.push(None, [tool].into(), 1.0, true, 1);
        }
        let of_quiet = memory.traces.iter().filter(|trace| trace.caller == 0).count();
        assert_eq!((of_quiet, memory.traces.len()), (4, 10));
        assert_eq!(memory.traces.iter().map(|trace| trace.tools[0]).max(), Some(999));
    }

    #[test]
    fn one_caller_forgets_its_oldest() {
        let mut memory = Memory::new(2, 3);
        for tool in 0..5 {
            memory.push(None, [tool].into(), 1.0, true, 0);
        }
        let mut left: Vec<_> = memory.traces.iter().map(|trace| trace.tools[0]).collect();
        left.sort_unstable();
        assert_eq!(left, [2, 3, 4]);
    }

    #[test]
    fn only_similar_intents_vote() {
        let mut memory = Memory::new(2, 10);
        let direction = |values: [f32; 2]| Direction::new(&values, 2);
        memory.push(direction([1.0, 0.0]).as_ref(), [1].into(), 1.0, true, 0);
        memory.push(direction([0.0, 1.0]).as_ref(), [2].into(), 1.0, true, 0);
        memory.push(None, [3].into(), 1.0, true, 0);
        let nearness = memory.nearness(direction([1.0, 0.1]).as_ref(), 1.0);
        assert!(nearness.votes[0] > 0.9 && nearness.votes[1] < 0.05 && nearness.votes[2] == 0.0);
        assert_eq!(memory.nearness(None, 1.0).total, 0.0);
    }
}
