//! The intents of past traces, and what was used for them.
//!
//! Traces with a similar intent vote for their tools: attention over past executions, each of which is a hyperedge of the tools
//! that it used. How similar is similar follows from the data: similarities count from one standard deviation above their
//! running mean.
//!
//! What every ranking reads of all traces is kept in arrays, one after the other.

use std::collections::VecDeque;

use crate::{
    evidence::CallerId,
    math::{ln, power_f32},
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
/// Marks a tool that its trace has used before.
const AGAIN: u32 = 1 << 31;
/// In the place of a tool whose trace is gone.
const GONE: NameId = NameId::MAX;
/// Parts of a cosine of 1, where cosines are summed up as whole numbers, whose sum does not depend on their order. Twice the sum
/// over 16 000 traces fits 32 bits.
const COSINE_PARTS: f32 = 65_536.0;

/// A past trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Remembered {
    /// How much it says, in units of the epoch.
    pub(crate) weight: f64,
    pub(crate) success: bool,
    pub(crate) has_intent: bool,
    pub(crate) caller: CallerId,
    /// Counts up with each trace.
    pub(crate) number: u64,
}

/// Lists of tools, in one array. Lists that were replaced leave gaps until half of it is gaps.
#[derive(Clone, Debug, Default, PartialEq)]
struct ToolLists {
    tools: Vec<NameId>,
    /// The list that each tool is in.
    owners: Vec<u32>,
    /// Where each list begins and ends.
    spans: Vec<(u32, u32)>,
    used: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Memory {
    pub(crate) capacity: usize,
    pub(crate) rows: Rows,
    pub(crate) traces: Vec<Remembered>,
    tools: ToolLists,
    /// Of each tool, the traces that have used it and have an intent; and of all of them.
    with_intent: Vec<u32>,
    all_with_intent: u32,
    /// The places of each caller's traces, oldest first.
    of_callers: Vec<VecDeque<u32>>,
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
    pub(crate) voters: Vec<u32>,
    pub(crate) total: f32,
    /// From which similarity on traces vote.
    pub(crate) floor: f32,
}

impl ToolLists {
    /// Sets a list, or appends it if `place` is the number of lists.
    fn set(&mut self, place: usize, tools: &[NameId]) {
        let start = self.tools.len() as u32;
        for (at, tool) in tools.iter().enumerate() {
            self.tools.push(if tools[..at].contains(tool) { tool | AGAIN } else { *tool });
            self.owners.push(place as u32);
        }
        let span = (start, self.tools.len() as u32);
        self.used += tools.len();
        match self.spans.get_mut(place) {
            Some(old) => {
                self.used -= (old.1 - old.0) as usize;
                self.tools[old.0 as usize..old.1 as usize].fill(GONE);
                *old = span;
            }
            None => self.spans.push(span),
        }
        if self.tools.len() > 2 * self.used + 1024 {
            self.pack(Some);
        }
    }

    /// Closes the gaps, with tools as `renumbered`; those that are not go.
    fn pack(&mut self, renumbered: impl Fn(NameId) -> Option<NameId>) {
        let old = std::mem::take(&mut self.tools);
        self.owners.clear();
        for (place, span) in self.spans.iter_mut().enumerate() {
            let start = self.tools.len();
            for tool in &old[span.0 as usize..span.1 as usize] {
                if let Some(number) = renumbered(tool & !AGAIN) {
                    self.tools.push(number | (tool & AGAIN));
                    self.owners.push(place as u32);
                }
            }
            *span = (start as u32, self.tools.len() as u32);
        }
        self.used = self.tools.len();
    }

    #[inline]
    fn marked(&self, place: usize) -> &[NameId] {
        let (start, end) = self.spans[place];
        &self.tools[start as usize..end as usize]
    }
}

impl Memory {
    pub(crate) fn new(dimensions: usize, capacity: usize) -> Memory {
        Memory {
            capacity: capacity.max(1),
            rows: Rows::new(dimensions),
            traces: Vec::new(),
            tools: ToolLists::default(),
            with_intent: Vec::new(),
            all_with_intent: 0,
            of_callers: Vec::new(),
            next_number: 0,
            mean: 0.0,
            square: 0.0,
            observed: 0,
        }
    }

    /// Tools of a trace that succeeded, in the order of their calls.
    pub(crate) fn tools(&self, place: usize) -> impl ExactSizeIterator<Item = NameId> + Clone {
        self.tools.marked(place).iter().map(|tool| tool & !AGAIN)
    }

    /// The same, each tool once.
    #[inline]
    pub(crate) fn distinct_tools(&self, place: usize) -> impl Iterator<Item = NameId> {
        self.tools.marked(place).iter().copied().filter(|tool| tool & AGAIN == 0)
    }

    /// Is a trace an example of what to do for its intent?
    pub(crate) fn is_example(&self, place: usize) -> bool {
        self.traces[place].has_intent && self.traces[place].success
    }

    /// Are these, which are in order and each once, the tools of a trace?
    pub(crate) fn has_tools(&self, place: usize, tools: &[NameId]) -> bool {
        let mut count = 0;
        self.distinct_tools(place).inspect(|_| count += 1).all(|tool| tools.binary_search(&tool).is_ok())
            && count == tools.len()
    }

    fn floor(&self) -> f64 {
        let deviation = (self.square - self.mean * self.mean).max(0.0).sqrt();
        (self.mean + deviation).clamp(0.0, HIGHEST_FLOOR)
    }

    /// The power of a similarity that a trace votes with. The more traces there are, the nearer the nearest ones are, and the less
    /// the others have to say.
    fn sharpness(&self) -> f32 {
        2.0 + (ln((self.traces.len() as f64 / 30.0).max(1.0)) / std::f64::consts::LN_10) as f32
    }

    /// `factor` gives weights their value now.
    pub(crate) fn nearness(&self, intent: Option<&Direction>, factor: f64) -> Nearness {
        let Some(intent) = intent else { return Nearness::default() };
        let mut nearness = Nearness { floor: self.floor() as f32, ..Nearness::default() };
        self.rows.cosines(intent, &mut nearness.cosines);
        let scale = 1.0 / (1.0 - nearness.floor);
        let sharpness = self.sharpness();
        let floor = nearness.floor;
        // Few traces vote: first who they are, then what with. A trace without an intent has a cosine of 0, which is never above
        // the floor.
        for (place, cosine) in nearness.cosines.iter().enumerate() {
            if *cosine > floor {
                nearness.voters.push(place as u32);
            }
        }
        nearness.votes = vec![0.0; nearness.cosines.len()];
        let Nearness { cosines, votes, voters, total, .. } = &mut nearness;
        voters.retain(|place| {
            let place = *place as usize;
            let similarity = ((cosines[place] - floor) * scale).clamp(0.0, 1.0);
            let vote = power_f32(similarity, sharpness) * (self.traces[place].weight * factor) as f32;
            votes[place] = vote;
            *total += vote;
            vote > 0.0
        });
        nearness
    }

    /// Notes how similar the intents of traces are to each other.
    pub(crate) fn observe(&mut self, cosines: &[f32]) {
        const LANES: usize = 4; // sums that need not wait for each other
        let (mut sums, mut squares) = ([0.0_f64; LANES], [0.0_f64; LANES]);
        if cosines.is_empty() || self.all_with_intent == 0 {
            return;
        }
        // A trace without an intent has a zero row, so its cosine is 0.
        let mut add = |lane: usize, cosine: f32| {
            let cosine = f64::from(cosine);
            sums[lane] += cosine;
            squares[lane] += cosine * cosine;
        };
        let (groups, rest) = cosines.as_chunks::<LANES>();
        for group in groups {
            (0..LANES).for_each(|lane| add(lane, group[lane]));
        }
        rest.iter().enumerate().for_each(|(lane, cosine)| add(lane, *cosine));
        let count = f64::from(self.all_with_intent);
        self.observed += 1;
        let rate = 1.0 / (self.observed as f64).min(WINDOW);
        self.mean += rate * (sums.iter().sum::<f64>() / count - self.mean);
        self.square += rate * (squares.iter().sum::<f64>() / count - self.square);
    }

    /// Remembers a trace. If there is no room, the oldest trace of the caller that has most goes.
    pub(crate) fn push(
        &mut self,
        intent: Option<&Direction>,
        tools: &[NameId],
        weight: f64,
        success: bool,
        caller: CallerId,
    ) {
        let number = self.next_number;
        self.next_number += 1;
        let trace = Remembered { weight, success, has_intent: intent.is_some(), caller, number };
        let place = if self.traces.len() < self.capacity { self.traces.len() } else { self.victim() };
        self.rows.set(place, intent);
        self.put(place, trace, tools);
    }

    /// Appends a trace whose row is there.
    pub(crate) fn restore(&mut self, trace: Remembered, tools: &[NameId]) {
        self.put(self.traces.len(), trace, tools);
    }

    /// The sum of the cosines of the traces that have used each of `names` tools.
    pub(crate) fn cosine_sums(&self, cosines: &[f32], names: usize) -> impl Iterator<Item = f32> + use<> {
        let parts: Vec<i32> = cosines.iter().map(|cosine| (cosine * COSINE_PARTS) as i32).collect();
        let mut sums = vec![0_i32; names + 1];
        for (tool, owner) in self.tools.tools.iter().zip(&self.tools.owners) {
            // What is no tool, or not for the first time, goes into a sum of its own: a branch costs more.
            let sum = &mut sums[(*tool as usize).min(names)];
            *sum = sum.wrapping_add(parts[*owner as usize]);
        }
        sums.pop();
        sums.into_iter().map(|sum| sum as f32 / COSINE_PARTS)
    }

    /// Traces that have used a tool and have an intent.
    pub(crate) fn with_intent(&self, tool: NameId) -> u32 {
        self.with_intent.get(tool as usize).copied().unwrap_or_default()
    }

    fn put(&mut self, place: usize, trace: Remembered, tools: &[NameId]) {
        if self.traces.get(place).is_some_and(|old| old.has_intent) {
            self.all_with_intent -= 1;
            for tool in self.tools.marked(place).iter().filter(|tool| *tool & AGAIN == 0) {
                self.with_intent[*tool as usize] -= 1;
            }
        }
        if let Some(old) = self.traces.get(place) {
            let queue = &mut self.of_callers[old.caller as usize];
            match queue.front() {
                Some(oldest) if *oldest as usize == place => drop(queue.pop_front()),
                _ => queue.retain(|other| *other as usize != place),
            }
        }
        let caller = trace.caller as usize;
        if self.of_callers.len() <= caller {
            self.of_callers.resize(caller + 1, VecDeque::new());
        }
        // Traces come in the order of their numbers, but for those that are restored.
        let queue = &mut self.of_callers[caller];
        let at = queue.partition_point(|other| self.traces[*other as usize].number < trace.number);
        queue.insert(at, place as u32);
        self.tools.set(place, tools);
        if trace.has_intent {
            self.all_with_intent += 1;
            for tool in self.tools.marked(place).iter().filter(|tool| *tool & AGAIN == 0) {
                if self.with_intent.len() <= *tool as usize {
                    self.with_intent.resize(*tool as usize + 1, 0);
                }
                self.with_intent[*tool as usize] += 1;
            }
        }
        match self.traces.get_mut(place) {
            Some(old) => *old = trace,
            None => self.traces.push(trace),
        }
    }

    fn victim(&self) -> usize {
        let oldest =
            |queue: &VecDeque<u32>| queue.front().map_or(u64::MAX, |place| self.traces[*place as usize].number);
        let most = self.of_callers.iter().max_by_key(|queue| (queue.len(), std::cmp::Reverse(oldest(queue))));
        most.and_then(|queue| queue.front()).map_or(0, |place| *place as usize)
    }

    /// Takes over what is similar to another memory's traces.
    pub(crate) fn copy_scale(&mut self, other: &Memory) {
        (self.mean, self.square, self.observed) = (other.mean, other.square, other.observed);
    }

    /// No trace says more than this.
    pub(crate) fn cap_weights(&mut self, most: f64) {
        self.traces.iter_mut().for_each(|trace| trace.weight = trace.weight.min(most));
    }

    pub(crate) fn rescale(&mut self, factor: f64) {
        self.traces.iter_mut().for_each(|trace| trace.weight *= factor);
    }

    /// Gives tools their new numbers. A trace keeps its place even if none of its tools is left.
    pub(crate) fn renumber(&mut self, numbers: &[Option<NameId>]) {
        self.tools.pack(|tool| numbers[tool as usize]);
        let old = std::mem::take(&mut self.with_intent);
        for (count, number) in old.into_iter().zip(numbers) {
            if number.is_some() {
                self.with_intent.push(count); // kept names stay in their order
            }
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
            memory.push(None, &[tool], 1.0, true, 0);
        }
        for tool in 100..1000 {
            memory.push(None, &[tool], 1.0, true, 1);
        }
        let of_quiet = memory.traces.iter().filter(|trace| trace.caller == 0).count();
        assert_eq!((of_quiet, memory.traces.len()), (4, 10));
        assert_eq!((0..10).flat_map(|place| memory.tools(place)).max(), Some(999));
    }

    #[test]
    fn one_caller_forgets_its_oldest() {
        let mut memory = Memory::new(2, 3);
        for tool in 0..5 {
            memory.push(None, &[tool], 1.0, true, 0);
        }
        let mut left: Vec<_> = (0..3).flat_map(|place| memory.tools(place)).collect();
        left.sort_unstable();
        assert_eq!(left, [2, 3, 4]);
    }

    #[test]
    fn only_similar_intents_vote() {
        let mut memory = Memory::new(2, 10);
        let direction = |values: [f32; 2]| Direction::new(&values, 2);
        memory.push(direction([1.0, 0.0]).as_ref(), &[1], 1.0, true, 0);
        memory.push(direction([0.0, 1.0]).as_ref(), &[2], 1.0, true, 0);
        memory.push(None, &[3], 1.0, true, 0);
        let nearness = memory.nearness(direction([1.0, 0.1]).as_ref(), 1.0);
        assert!(nearness.votes[0] > 0.9 && nearness.votes[1] < 0.05 && nearness.votes[2] == 0.0);
        assert_eq!(memory.nearness(None, 1.0).total, 0.0);
    }

    #[test]
    fn lists_of_tools_survive_replacement_and_new_numbers() {
        let mut memory = Memory::new(2, 50);
        for round in 0..5000_u32 {
            memory.push(None, &[round, round + 1, round, round % 7], 1.0, true, round % 3);
        }
        assert!(memory.tools.tools.len() < 2 * 4 * 50 + 1024 + 4, "gaps are closed");
        let newest = memory.traces.iter().position(|trace| trace.number == 4999).unwrap();
        assert_eq!(memory.tools(newest).collect::<Vec<_>>(), [4999, 5000, 4999, 1]);
        assert_eq!(memory.distinct_tools(newest).collect::<Vec<_>>(), [4999, 5000, 1]);
        let numbers: Vec<Option<NameId>> = (0..6000).map(|old| (old != 5000).then_some(old / 2)).collect();
        memory.renumber(&numbers);
        assert_eq!(memory.tools(newest).collect::<Vec<_>>(), [2499, 2499, 0]);
    }
}
