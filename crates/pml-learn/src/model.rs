//! The model: takes traces in, gives rankings out.

use std::sync::Arc;

use crate::{
    clock::{Clock, DAY_MS},
    evidence::Evidence,
    features::{DOUBT, Feature, Features, Known, PREFIX, Scene},
    gate::Gate,
    graph::{Edge, Graph, NAMES, Related, ToolStatistics},
    memory::{LEAST_SHARE, Memory, Nearness},
    names::NameId,
    observation::{Observation, Query, StepOutcome, Task},
    ranker::{Example, RIVALS, Ranker, score},
    replay::{Buffer, LEAST_PRIORITY, Replay},
    seen::Seen,
    vector::Direction,
};

/// Steps of a trace that are read, the first ones.
pub(crate) const STEPS: usize = 64;
/// Steps of a trace whose next tool is learned from, spread over the trace.
const LEARNED_STEPS: usize = 8;
/// A trace with a smaller share of new evidence has no say at the gate, nor on which intents are similar.
const WHOLE_SHARE: f64 = 0.5;
/// Reasons that are given for a tool.
const REASONS: usize = 2;

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

/// A tool at its place in a ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// Its place among the candidates of the query.
    pub candidate: usize,
    /// Comparable within one ranking only.
    pub score: f32,
    /// What speaks for it beside the search, the strongest first.
    pub reasons: Vec<Reason>,
}

/// What speaks for a tool beside the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was called so often right after the last tool.
    FollowsOften { after: Arc<str>, count: u32 },
    /// So many executions with a similar intent have used it.
    UsedForSimilar { times: u32 },
    /// It was used so often in one execution with a tool that was used already.
    UsedTogether { with: Arc<str>, count: u32 },
}

/// What a model has learned so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Traces that were learned.
    pub traces: u64,
    /// The same with old ones fading and with a bound on what one caller can say.
    pub evidence: f64,
    pub remembered: usize,
    /// Tools and capabilities.
    pub names: usize,
    pub edges: usize,
    /// Of all tools of a task, and of the next tool.
    pub weights: [Features; 2],
    /// Whether what was learned is used, of both.
    pub is_open: [bool; 2],
    /// Mean gain in reciprocal rank over the search, of both.
    pub gain: [f64; 2],
}

/// What was learned. See the crate.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) seen: Seen,
    pub(crate) traces: u64,
    pub(crate) evidence: Evidence,
    pub(crate) graph: Graph,
    pub(crate) memory: Memory,
    pub(crate) ranker: Ranker,
    pub(crate) gates: [Gate; 2],
    pub(crate) buffer: Buffer,
}

impl Model {
    pub fn new(settings: Settings) -> Model {
        Model {
            clock: Clock::new(settings.half_life_ms),
            seen: Seen::default(),
            traces: 0,
            evidence: Evidence::default(),
            graph: Graph::new(),
            memory: Memory::new(settings.dimensions, settings.remembered),
            ranker: Ranker::new(),
            gates: [Gate::default(), Gate::default()],
            buffer: Buffer::new(settings.replay, settings.seed),
            settings,
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Learns a trace. `None` if it was learned before.
    pub fn update(&mut self, observation: &Observation<'_>) -> Option<Update> {
        if !self.seen.insert(observation.trace) {
            return None;
        }
        self.traces += 1;
        let moment = self.clock.observe(observation.time_ms);
        if let Some(factor) = moment.rescale {
            self.graph.rescale(factor);
            self.evidence.rescale(factor);
            self.memory.rescale(factor);
        }
        let time_ms = observation.time_ms.min(self.clock.now_ms);
        let factor = self.clock.factor();
        let steps: Vec<(NameId, StepOutcome)> =
            observation.steps.iter().take(STEPS).map(|step| (self.graph.intern(step.tool), step.outcome)).collect();
        let succeeded: Vec<NameId> =
            steps.iter().filter(|(_, outcome)| *outcome == StepOutcome::Succeeded).map(|(tool, _)| *tool).collect();

        let intent = Direction::new(observation.intent, self.settings.dimensions);
        let nearness = self.memory.nearness(intent.as_ref(), factor);
        let predicted = self.predict(&steps, &nearness, factor);
        let outcome = f64::from(u8::from(observation.success));
        let td_error = outcome - predicted;

        let caller = self.evidence.caller(observation.caller);
        let shares = self.admit(caller, &succeeded, moment.weight, factor);
        let share = shares.iter().copied().fold(0.0, f64::max);
        if share >= WHOLE_SHARE {
            self.memory.observe(&nearness.cosines);
        }
        let is_searched = observation.candidates.iter().any(|candidate| candidate.score > 0.0);
        if share > 0.0 && is_searched {
            let known = Known { graph: &self.graph, memory: &self.memory, factor };
            let scene = Scene::new(known, nearness, observation.candidates, &succeeded);
            self.learn(scene, &succeeded, share, factor);
        }

        for (tool, outcome) in &steps {
            if *outcome != StepOutcome::Skipped {
                self.graph.add_outcome(*tool, *outcome == StepOutcome::Succeeded, moment.weight, time_ms);
            }
        }
        if share > 0.0 {
            let weighted: Vec<(NameId, f64)> =
                succeeded.iter().zip(&shares).map(|(tool, share)| (*tool, share * moment.weight)).collect();
            let capability = observation.capability.map(|name| self.graph.intern(name));
            self.graph.add_trace(&weighted, capability, time_ms);
        }
        if share >= LEAST_SHARE {
            self.memory.push(intent.as_ref(), succeeded.into(), share * moment.weight, observation.success, caller);
        }
        if let Some(numbers) = self.graph.make_room(NAMES) {
            self.memory.renumber(&numbers);
            self.evidence.renumber(&numbers);
        }
        Some(Update { predicted, td_error, priority: td_error.abs().clamp(LEAST_PRIORITY, 1.0) })
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
            let node = &self.graph.nodes[*tool as usize];
            (node.succeeded * factor + 1.0) / ((node.succeeded + node.failed) * factor + 2.0)
        };
        let of_tools = if tools.is_empty() { 0.5 } else { tools.iter().map(rate).sum::<f64>() / tools.len() as f64 };
        let successful = nearness.voters.iter().filter(|place| self.memory.traces[**place].success);
        let successes: f64 = successful.map(|place| f64::from(nearness.votes[*place])).sum();
        let total: f64 = nearness.voters.iter().map(|place| f64::from(nearness.votes[*place])).sum();
        (successes + of_tools) / (total + 1.0)
    }

    /// Compares with the search, then learns, from a trace that is not counted yet.
    fn learn(&mut self, mut scene: Scene, tools: &[NameId], share: f64, factor: f64) {
        let places = |scene: &Scene, tools: &[NameId]| {
            let mut places: Vec<usize> = tools.iter().filter_map(|tool| scene.place(*tool)).collect();
            places.sort_unstable();
            places.dedup();
            places
        };
        let used = places(&scene, tools);
        self.learn_one(Task::Set, &scene, &used, share);
        let positions = tools.len().saturating_sub(1);
        let learned = positions.min(LEARNED_STEPS);
        for number in 0..learned {
            let position = 1 + number * positions / learned;
            let prefix: Vec<Option<NameId>> = tools[..position].iter().map(|tool| Some(*tool)).collect();
            scene.set_prefix(Known { graph: &self.graph, memory: &self.memory, factor }, &prefix);
            let used = places(&scene, &tools[position..=position]);
            self.learn_one(Task::Next, &scene, &used, share);
            self.ranker.observe_next(tools[..position].contains(&tools[position]), share);
        }
    }

    fn learn_one(&mut self, task: Task, scene: &Scene, used: &[usize], share: f64) {
        let weights = self.ranker.weights(task);
        let scores: Vec<f32> = scene.table.iter().map(|features| score(&weights, features)).collect();
        let rank = |place: &usize| {
            let own = scores[*place];
            scores
                .iter()
                .enumerate()
                .filter(|(other, score)| **score > own || (**score == own && other < place))
                .count()
        };
        let (Some(learned), Some(searched)) = (used.iter().map(rank).min(), used.iter().min()) else { return };
        if share >= WHOLE_SHARE {
            self.gates[task.index()].record(1.0 / (learned as f32 + 1.0) - 1.0 / (*searched as f32 + 1.0));
        }

        let mut features: Vec<Features> = used.iter().map(|place| scene.table[*place]).collect();
        let rivals = best(&scores, RIVALS + used.len());
        features
            .extend(rivals.iter().filter(|place| !used.contains(place)).take(RIVALS).map(|place| scene.table[*place]));
        let example = Example { task, features, used: used.len() };
        let probability = self.ranker.learn(&example, share);
        if let Some((place, importance)) = self.buffer.draw() {
            let probability = self.ranker.learn(&self.buffer.examples[place], importance);
            self.buffer.set_priority(place, 1.0 - probability);
        }
        self.buffer.push(example, 1.0 - probability);
    }

    /// The best `limit` candidates, with reasons. In the order of the search if nothing was learned, or if what was learned is
    /// worse than the search.
    pub fn rank(&self, query: &Query<'_>, limit: usize) -> Vec<Ranked> {
        let task = if query.prefix.is_empty() { Task::Set } else { Task::Next };
        if self.graph.traces <= 0.0 || !self.gates[task.index()].is_open() {
            let first = query.candidates.iter().take(limit).enumerate();
            return first
                .map(|(candidate, found)| Ranked { candidate, score: found.score, reasons: Vec::new() })
                .collect();
        }
        let weights = self.ranker.weights(task);
        let (scene, prefix) = self.scene(query);
        let scores: Vec<f32> = scene.table.iter().map(|features| score(&weights, features)).collect();
        let ranked = best(&scores, limit).into_iter();
        ranked
            .map(|candidate| Ranked {
                candidate,
                score: scores[candidate],
                reasons: self.reasons(&scene, candidate, &prefix, &weights),
            })
            .collect()
    }

    /// What speaks for each candidate, whether or not it is used.
    pub fn features(&self, query: &Query<'_>) -> Vec<Features> {
        self.scene(query).0.table
    }

    fn scene(&self, query: &Query<'_>) -> (Scene, Vec<Option<NameId>>) {
        let known = Known { graph: &self.graph, memory: &self.memory, factor: self.clock.factor() };
        let intent = Direction::new(query.intent, self.settings.dimensions);
        let nearness = self.memory.nearness(intent.as_ref(), known.factor);
        let mut scene = Scene::new(known, nearness, query.candidates, &[]);
        let last = &query.prefix[query.prefix.len().saturating_sub(PREFIX)..];
        let prefix: Vec<Option<NameId>> = last.iter().map(|tool| self.graph.names.id(tool)).collect();
        if !prefix.is_empty() {
            scene.set_prefix(known, &prefix);
        }
        (scene, prefix)
    }

    fn reasons(&self, scene: &Scene, candidate: usize, prefix: &[Option<NameId>], weights: &Features) -> Vec<Reason> {
        let Some(tool) = scene.ids[candidate] else { return Vec::new() };
        let share = |features: &[Feature]| -> f32 {
            features.iter().map(|feature| weights[feature.index()] * scene.table[candidate][feature.index()]).sum()
        };
        let mut reasons: Vec<(f32, Reason)> = Vec::new();
        if let Some(Some(last)) = prefix.last()
            && let Some(count) = self.graph.sequences.get([*last, tool])
        {
            let after = Arc::clone(self.graph.names.name(*last));
            let share = share(&[Feature::Follows, Feature::FollowsTwo, Feature::SimilarSequence]);
            reasons.push((share, Reason::FollowsOften { after, count: count.count }));
        }
        let similar = share(&[Feature::Similar, Feature::Prototype]);
        if similar > 0.0 {
            let times = scene.similar[candidate];
            if times > 0 {
                reasons.push((similar, Reason::UsedForSimilar { times }));
            }
        }
        let pairs = prefix.iter().flatten().filter(|other| **other != tool);
        let pairs = pairs.filter_map(|other| Some((self.graph.co_occurrences.get([*other, tool])?.count, *other)));
        if let Some((count, other)) = pairs.max_by_key(|(count, other)| (*count, std::cmp::Reverse(*other))) {
            let with = Arc::clone(self.graph.names.name(other));
            reasons.push((share(&[Feature::Together]), Reason::UsedTogether { with, count }));
        }
        reasons.retain(|(share, _)| *share > 0.0);
        reasons.sort_by(|a, b| b.0.total_cmp(&a.0));
        reasons.into_iter().take(REASONS).map(|(_, reason)| reason).collect()
    }

    /// The tools that are most used with one, strongest first.
    pub fn related(&self, tool: &str, limit: usize) -> Vec<Related> {
        self.graph.related(tool, limit, self.clock.factor(), DOUBT)
    }

    /// How a tool has done. `None` if it was never called.
    pub fn statistics(&self, tool: &str) -> Option<ToolStatistics> {
        self.graph.statistics(tool, self.clock.factor())
    }

    /// All edges of the graph, by kind.
    pub fn edges(&self) -> impl Iterator<Item = Edge> {
        self.graph.edges(self.clock.factor())
    }

    /// Names of all tools and capabilities that are known.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.graph.names.iter().map(|name| &**name)
    }

    pub fn status(&self) -> Status {
        Status {
            traces: self.traces,
            evidence: self.graph.traces * self.clock.factor(),
            remembered: self.memory.traces.len(),
            names: self.graph.names.len(),
            edges: self.edges().count(),
            weights: Task::ALL.map(|task| self.ranker.weights(task)),
            is_open: Task::ALL.map(|task| self.gates[task.index()].is_open()),
            gain: Task::ALL.map(|task| self.gates[task.index()].gain().0),
        }
    }
}

/// The places of the highest scores, best first; of equal ones the first comes first.
fn best(scores: &[f32], limit: usize) -> Vec<usize> {
    let by_score = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
    let mut places: Vec<usize> = (0..scores.len()).collect();
    if limit < places.len() {
        places.select_nth_unstable_by(limit, by_score);
        places.truncate(limit);
    }
    places.sort_unstable_by(by_score);
    places
}
