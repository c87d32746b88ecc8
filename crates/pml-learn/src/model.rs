//! The model: takes traces in, gives rankings out.

use std::sync::Arc;

use crate::{
    clock::DAY_MS,
    evidence::Evidence,
    features::{Features, Scene},
    graph::NAMES,
    learned::{Learned, Standing, score_at},
    matching::Capabilities,
    memory::{LEAST_SHARE, Nearness},
    names::NameId,
    observation::{Observation, StepOutcome, Task, TraceId},
    random::Random,
    ranker::{Example, RIVALS},
    replay::{Buffer, LEAST_PRIORITY, Replay},
    seen::Seen,
    tools::{Lineup, Tools},
    vector::Direction,
};

/// Steps of a trace that are read, the first ones.
pub(crate) const STEPS: usize = 64;
/// Steps of a trace whose next tool is learned from, spread over the trace.
const LEARNED_STEPS: usize = 8;
/// Traces whose weights are all learned from. Later on weights hardly change, so one in [`SAMPLED`] is enough, and the others need
/// no search.
const ALL_SAMPLED: u64 = 2000;
const SAMPLED: u64 = 4;
/// A trace with a smaller share of new evidence has no say at the gate, nor on which intents are similar.
const WHOLE_SHARE: f64 = 0.5;

/// How a model learns. A snapshot is read with the settings that it was written with.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Numbers in the vector of an intent.
    pub dimensions: usize,
    /// Traces whose intents are remembered.
    pub remembered: usize,
    /// After which time a trace counts half.
    pub half_life_ms: i64,
    pub replay: Replay,
    /// Of the draws of replay.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { dimensions: 256, remembered: 10_000, half_life_ms: 90 * DAY_MS, replay: Replay::None, seed: 0 }
    }
}

/// What a trace has taught.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// The probability of success that was predicted.
    pub predicted: f64,
    /// The outcome, 1 or 0, less what was predicted.
    pub td_error: f64,
    /// How much there is to learn from the trace: the size of the error, from 0.01 to 1.
    pub priority: f64,
}

/// Does a model that has learned so many traces, or more, learn weights from this one? If not, it does not look at the scores of
/// the search. Depends on the trace and on no order, so a host can ask long before it is the trace's turn.
pub fn needs_scores(traces: u64, trace: TraceId) -> bool {
    traces < ALL_SAMPLED || Random((trace.0 ^ (trace.0 >> 64)) as u64).next().is_multiple_of(SAMPLED)
}

/// Learns, and ranks by what it has [`Learned`]. See the crate.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) learned: Learned,
    pub(crate) seen: Seen,
    pub(crate) evidence: Evidence,
    pub(crate) buffer: Buffer,
    /// What could be used again when a trace was made. Not a part of what is learned: the host says it anew.
    capabilities: Arc<Capabilities>,
}

impl Model {
    pub fn new(settings: Settings) -> Model {
        Model {
            seen: Seen::default(),
            evidence: Evidence::default(),
            buffer: Buffer::new(settings.replay, settings.seed),
            capabilities: Arc::new(Capabilities::new(settings.dimensions, [])),
            learned: Learned::new(settings),
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.learned.settings
    }

    /// What rankings need. A clone of it stays as it is while the model goes on.
    pub fn learned(&self) -> &Learned {
        &self.learned
    }

    /// The programs that can be used again, from the next trace on.
    pub fn set_capabilities(&mut self, capabilities: Arc<Capabilities>) {
        self.capabilities = capabilities;
    }

    /// Was this trace learned, as far as that is remembered?
    pub fn has_seen(&self, trace: TraceId) -> bool {
        self.seen.contains(trace)
    }

    /// Learns a trace. `None` if it was learned before.
    pub fn update(&mut self, observation: &Observation<'_>) -> Option<Update> {
        if !self.seen.insert(observation.trace) {
            return None;
        }
        let is_sampled = needs_scores(self.learned.traces, observation.trace);
        self.learned.traces += 1;
        self.learned.foresight.learn(observation.forecasts);
        let moment = self.learned.clock.observe(observation.time_ms);
        if let Some(factor) = moment.rescale {
            self.learned.graph.rescale(factor);
            self.evidence.rescale(factor);
            self.learned.memory.rescale(factor);
            self.learned.words.rescale(factor);
        }
        let time_ms = observation.time_ms.min(self.learned.clock.now_ms);
        let factor = self.learned.clock.factor();
        let steps: Vec<(NameId, StepOutcome)> = observation
            .steps
            .iter()
            .take(STEPS)
            .map(|step| (self.learned.graph.intern(step.tool), step.outcome))
            .collect();
        let succeeded: Vec<NameId> =
            steps.iter().filter(|(_, outcome)| *outcome == StepOutcome::Succeeded).map(|(tool, _)| *tool).collect();

        let intent = Direction::new(observation.intent, self.learned.settings.dimensions);
        let nearness = self.learned.memory.nearness(intent.as_ref(), factor);
        let predicted = self.predict(&steps, &nearness, factor);
        let outcome = f64::from(u8::from(observation.success));
        let td_error = outcome - predicted;

        let caller = self.evidence.caller(observation.caller);
        let shares = self.admit(caller, &succeeded, moment.weight, factor);
        let share = shares.iter().copied().fold(0.0, f64::max);
        if share >= WHOLE_SHARE {
            self.learned.memory.observe(&nearness.cosines);
        }
        if let Some(intent) = &intent
            && observation.success
            && share > 0.0
        {
            let Learned { calibration, memory, graph, .. } = &mut self.learned;
            let known = (&*memory, &graph.names);
            calibration.observe(known, &self.capabilities, (intent, &nearness.cosines), &succeeded, share);
        }
        self.line_up(observation.tools);
        let is_searched = observation.scores.iter().any(|score| *score > 0.0);
        if share > 0.0 && is_searched && is_sampled {
            let known = self.learned.known(factor);
            let lineup = Arc::clone(&self.learned.lineup);
            let scene = Scene::new(known, nearness, observation.words, lineup, observation.scores, &succeeded);
            self.learn(scene, observation.scores, &succeeded, (share, factor));
        }

        for (tool, outcome) in &steps {
            if *outcome != StepOutcome::Skipped {
                self.learned.graph.add_outcome(*tool, *outcome == StepOutcome::Succeeded, moment.weight, time_ms);
            }
        }
        if share > 0.0 {
            let weighted: Vec<(NameId, f64)> =
                succeeded.iter().zip(&shares).map(|(tool, share)| (*tool, share * moment.weight)).collect();
            let capability = observation.capability.map(|name| self.learned.graph.intern(name));
            self.learned.graph.add_trace(&weighted, capability, time_ms);
            self.learned.words.add(observation.words, &weighted);
        }
        if share >= LEAST_SHARE {
            self.learned.memory.push(intent.as_ref(), &succeeded, share * moment.weight, observation.success, caller);
        }
        if let Some(numbers) = self.learned.graph.make_room(NAMES) {
            self.learned.memory.renumber(&numbers);
            self.learned.words.renumber(&numbers);
            self.evidence.renumber(&numbers);
            self.learned.lineup = Arc::default();
        }
        Some(Update { predicted, td_error, priority: td_error.abs().clamp(LEAST_PRIORITY, 1.0) })
    }

    /// Matches tools with the names that are known.
    fn line_up(&mut self, tools: &Tools) {
        let Learned { lineup, graph, .. } = &mut self.learned;
        if !lineup.is_of(tools) {
            *lineup = Arc::new(Lineup::new(tools, &graph.names));
        } else if !lineup.is_current(&graph.names) {
            Arc::make_mut(lineup).extend(&graph.names);
        }
    }

    /// What each call of a trace says, from 0 to 1. A tool that is called twice says what it says once.
    fn admit(&mut self, caller: u32, tools: &[NameId], weight: f64, factor: f64) -> Vec<f64> {
        let mut shares: Vec<f64> = Vec::with_capacity(tools.len());
        for (place, tool) in tools.iter().enumerate() {
            let share = match tools[..place].iter().position(|known| known == tool) {
                Some(first) => shares[first],
                None => self.evidence.admit(caller, *tool, weight, factor),
            };
            shares.push(share);
        }
        shares
    }

    /// The probability that a trace with these steps succeeds: how its tools did so far, and how traces with a similar intent did.
    fn predict(&self, steps: &[(NameId, StepOutcome)], nearness: &Nearness, factor: f64) -> f64 {
        let mut tools: Vec<NameId> =
            steps.iter().filter(|(_, outcome)| *outcome != StepOutcome::Skipped).map(|(tool, _)| *tool).collect();
        tools.sort_unstable();
        tools.dedup();
        let rate = |tool: &NameId| {
            let node = &self.learned.graph.nodes[*tool as usize];
            (node.succeeded * factor + 1.0) / ((node.succeeded + node.failed) * factor + 2.0)
        };
        let of_tools = if tools.is_empty() { 0.5 } else { tools.iter().map(rate).sum::<f64>() / tools.len() as f64 };
        let successful = nearness.voters.iter().filter(|place| self.learned.memory.traces[**place as usize].success);
        let vote = |place: &u32| f64::from(nearness.votes[*place as usize]);
        let successes: f64 = successful.map(vote).sum();
        let total: f64 = nearness.voters.iter().map(vote).sum();
        (successes + of_tools) / (total + 1.0)
    }

    /// Compares with the search, then learns, from a trace that is not counted yet.
    fn learn(&mut self, mut scene: Scene, found: &[f32], tools: &[NameId], (share, factor): (f64, f64)) {
        let places = |scene: &Scene, tools: &[NameId]| {
            let mut places: Vec<usize> = tools.iter().filter_map(|tool| scene.place(*tool)).collect();
            places.sort_unstable();
            places.dedup();
            places
        };
        let used = places(&scene, tools);
        let found: Vec<f32> = (0..scene.len()).map(|place| score_at(found, place)).collect();
        let searched: Vec<usize> = used.iter().map(|place| rank(&found, &found, *place)).collect();
        let searched = |places: &[usize]| {
            let of = |place: &usize| used.binary_search(place).map_or(usize::MAX, |at| searched[at]);
            places.iter().map(of).min()
        };
        self.learn_one(Task::Set, (&scene, &found), &used, (searched(&used), share));
        let positions = tools.len().saturating_sub(1);
        let learned = positions.min(LEARNED_STEPS);
        let prefix: Vec<Option<NameId>> = tools.iter().map(|tool| Some(*tool)).collect();
        if learned > 0 {
            scene.find_voters(&self.learned.memory, &tools[..positions]);
        }
        for number in 0..learned {
            let position = 1 + number * positions / learned;
            let known = self.learned.known(factor);
            scene.set_prefix(known, &prefix[..position]);
            let next = places(&scene, &tools[position..=position]);
            self.learn_one(Task::Next, (&scene, &found), &next, (searched(&next), share));
            self.learned.ranker.observe_next(tools[..position].contains(&tools[position]), share);
        }
    }

    /// `searched` is the best rank that the search gives to what was used.
    fn learn_one(
        &mut self,
        task: Task,
        (scene, found): (&Scene, &[f32]),
        used: &[usize],
        (searched, share): (Option<usize>, f64),
    ) {
        let weights = self.learned.ranker.weights(task);
        let scores = scene.scores(&weights);
        let learned = used.iter().map(|place| rank(&scores, found, *place)).min();
        let (Some(learned), Some(searched)) = (learned, searched) else { return };
        if share >= WHOLE_SHARE {
            self.learned.gates[task.index()].record(1.0 / (learned as f32 + 1.0) - 1.0 / (searched as f32 + 1.0));
        }

        let mut features: Vec<Features> = used.iter().map(|place| scene.features(*place)).collect();
        let rivals = best(&scores, found, RIVALS + used.len()).into_iter().map(Standing::place);
        let rivals = rivals.filter(|place| !used.contains(place)).take(RIVALS);
        features.extend(rivals.map(|place| scene.features(place)));
        let example = Example { task, features, used: used.len() };
        let probability = self.learned.ranker.learn(&example, share);
        if let Some((place, importance)) = self.buffer.draw() {
            let probability = self.learned.ranker.learn(&self.buffer.examples[place], importance);
            self.buffer.set_priority(place, 1.0 - probability);
        }
        self.buffer.push(example, 1.0 - probability);
    }
}

/// How many tools are before one: by score, then by the search's score, then by place.
fn rank(scores: &[f32], found: &[f32], place: usize) -> usize {
    let own = scores[place];
    let is_before = |other: usize| found[other] > found[place] || (found[other] == found[place] && other < place);
    let better = scores.iter().filter(|score| **score > own).count();
    let equal = scores.iter().enumerate().filter(|(other, score)| **score == own && is_before(*other)).count();
    better + equal
}

/// The standings of the `limit` best tools, best first. Most tools are ruled out by their score alone.
fn best(scores: &[f32], found: &[f32], limit: usize) -> Vec<Standing> {
    let least = least_of_best(scores, limit);
    let fitting = scores.iter().enumerate().filter(|(_, score)| **score >= least);
    let mut best: Vec<Standing> =
        fitting.map(|(place, score)| Standing::new(*score, score_at(found, place), place)).collect();
    best.sort_unstable_by(|a, b| b.cmp(a));
    best.truncate(limit);
    best
}

/// A score that the `limit` best have, and few others: scores are sorted into bins, which takes one pass where a selection takes
/// several.
fn least_of_best(scores: &[f32], limit: usize) -> f32 {
    const BINS: usize = 512;
    if limit >= scores.len() {
        return f32::NEG_INFINITY;
    }
    let (low, high) = scores
        .iter()
        .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), score| (low.min(*score), high.max(*score)));
    let scale = (BINS - 1) as f32 / (high - low);
    if !scale.is_finite() {
        return low;
    }
    let bin = |score: f32| (((score - low) * scale) as usize).min(BINS - 1);
    let mut counts = [0_u32; BINS];
    scores.iter().for_each(|score| counts[bin(*score)] += 1);
    let mut left = limit;
    let last = (0..BINS).rev().find(|bin| {
        left = left.saturating_sub(counts[*bin] as usize);
        left == 0
    });
    // The least score of a bin, not its edge: rounding must not rule out what is in it.
    let last = last.unwrap_or_default();
    scores.iter().copied().filter(|score| bin(*score) >= last).fold(high, f32::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_best_are_those_of_a_full_sort() {
        let mut random = Random(7);
        for (count, kinds) in [(1, 1.0), (50, 3.0), (500, 1e9), (3000, 40.0), (3000, 1e9)] {
            let mut number = |kinds: f64| ((random.unit() * kinds).floor() / kinds * 9.0 - 2.0) as f32;
            let scores: Vec<f32> = (0..count).map(|_| number(kinds)).collect();
            let found: Vec<f32> = (0..count).map(|_| number(10.0)).collect();
            let standing = |place: usize| Standing::new(scores[place], found[place], place);
            let mut sorted: Vec<Standing> = (0..count).map(standing).collect();
            sorted.sort_by(|a, b| b.cmp(a));
            for limit in [1, 2, 95, count] {
                assert_eq!(best(&scores, &found, limit), sorted[..limit.min(count)], "{limit} of {count}");
            }
            for (expected, standing) in sorted.iter().enumerate() {
                assert_eq!(rank(&scores, &found, standing.place()), expected);
            }
        }
    }
}
