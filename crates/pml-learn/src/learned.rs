//! What was learned, as rankings read it.
//!
//! A [`Learned`] is the part of a [`Model`](crate::Model) that answers questions. It never changes while it is asked, so a host
//! that clones it can let many threads rank while the model goes on learning.

use std::{collections::BinaryHeap, sync::Arc};

use crate::{
    clock::Clock,
    features::{DOUBT, FEATURES, Feature, Features, Known, OF_PREFIX, PREFIX, Scene},
    foresight::Foresight,
    gate::Gate,
    graph::{Edge, Graph, Related, ToolStatistics},
    matching::Calibration,
    memory::Memory,
    model::Settings,
    names::NameId,
    observation::{Purpose, Query, Task},
    ranker::Ranker,
    shared::{LARGEST_SHARE, Shared},
    tools::{Lineup, Tools},
    vector::Direction,
    words::Words,
};

/// Reasons that are given for a tool.
const REASONS: usize = 2;
/// Scores of a search whose best tool is below the first fit nothing; from the second on it is as good as any.
const FITS: (f32, f32) = (0.12, 0.3);
/// Evidence with which a model knows a request as well as any: one in twenty similar traces.
const KNOWN: f32 = 0.3;

/// A tool at its place in a ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// Its place among the tools of the query.
    pub place: usize,
    /// Comparable within one ranking only.
    pub score: f32,
    /// How much of what was learned speaks for it by itself, from 0 to 1: 0.3 is one in twenty similar traces.
    pub evidence: f32,
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

/// What was learned. See the module.
#[derive(Clone, Debug)]
pub struct Learned {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) traces: u64,
    pub(crate) graph: Graph,
    pub(crate) memory: Memory,
    pub(crate) words: Words,
    pub(crate) ranker: Ranker,
    pub(crate) gates: [Gate; 2],
    pub(crate) calibration: Calibration,
    pub(crate) foresight: Foresight,
    /// Of the tools of the last trace: rankings of the same tools need not look them up.
    pub(crate) lineup: Arc<Lineup>,
}

impl Learned {
    /// Nothing.
    pub fn new(settings: Settings) -> Learned {
        Learned {
            clock: Clock::new(settings.half_life_ms),
            traces: 0,
            graph: Graph::new(),
            memory: Memory::new(settings.dimensions, settings.remembered),
            words: Words::default(),
            ranker: Ranker::new(),
            gates: [Gate::default(), Gate::default()],
            calibration: Calibration::new(),
            foresight: Foresight::default(),
            lineup: Arc::default(),
            settings,
        }
    }

    /// Traces that were learned.
    pub fn traces(&self) -> u64 {
        self.traces
    }

    /// Does what was learned change rankings of this kind? If not, a ranking is the order of the search.
    pub fn is_used(&self, task: Task) -> bool {
        self.graph.traces > 0.0 && self.gates[task.index()].is_open()
    }

    /// The best `limit` of the tools that are wanted, with reasons; tools are asked about from the best one on, with the
    /// [evidence](Ranked::evidence) for them. In the order of the search if nothing was learned, or if what was learned is worse
    /// than the search.
    pub fn rank(&self, query: &Query<'_>, limit: usize, is_wanted: impl Fn(usize, f32) -> bool) -> Vec<Ranked> {
        self.rank_with(None, query, limit, is_wanted)
    }

    /// The same with what others have learned, which counts less the more was learned here.
    pub fn rank_with(
        &self,
        others: Option<&Shared>,
        query: &Query<'_>,
        limit: usize,
        is_wanted: impl Fn(usize, f32) -> bool,
    ) -> Vec<Ranked> {
        let others = others.map(|others| (others, self.share_of(others))).filter(|(_, share)| *share > 0.0);
        if !self.is_used(query.task()) && others.is_none() {
            let found: Vec<f32> = (0..query.tools.len()).map(|place| score_at(query.scores, place)).collect();
            let best = best_first(&found, &found).filter(|place| is_wanted(*place, 0.0)).take(limit);
            let ranked = |place| Ranked { place, score: found[place], evidence: 0.0, reasons: Vec::new() };
            return best.map(ranked).collect();
        }
        let mut weights = self.ranker.weights(query.task());
        if !self.is_used(query.task()) {
            // What was learned here has no say; the search has, beside others.
            weights = [0.0; FEATURES];
            weights[Feature::Search.index()] = 1.0;
        }
        let (scene, prefix) = self.scene(query);
        let mut scores = scene.scores(&weights);
        let mut after = [0.0; FEATURES];
        if query.purpose == Purpose::Search && !prefix.is_empty() && self.is_used(Task::Next) {
            // What is looked for is said; what follows what was done counts as far as it fits that.
            let next = self.ranker.weights(Task::Next);
            OF_PREFIX.iter().for_each(|feature| after[feature.index()] = next[feature.index()]);
            let shares = scene.column(Feature::Search).iter().zip(scene.scores(&after));
            scores.iter_mut().zip(shares).for_each(|(score, (fit, follows))| *score += fit * follows);
        }
        let theirs = others.map(|(others, share)| {
            let their_scene = others.0.scene(query).0;
            let mut their_weights = others.0.ranker.weights(query.task());
            their_weights[Feature::Search.index()] = 0.0; // the search is the same, and counts once
            let their_scores = their_scene.scores(&their_weights);
            // A search has a best tool even for a request that fits none.
            let own = (1.0 - share) * fit(query.scores).max(known(&scene, query.task()));
            blend((&mut scores, own), (&their_scores, share * known(&their_scene, query.task())));
            (their_scene, share / LARGEST_SHARE)
        });
        let speaks = |scene: &Scene, place: usize| {
            let fit = if query.task() == Task::Next { 1.0 } else { scene.column(Feature::Search)[place] };
            let features = [Feature::Similar, Feature::Words].map(|feature| scene.column(feature)[place]);
            features[0].max(features[1]).max(scene.column(Feature::Follows)[place] * fit)
        };
        let evidence = |place: usize| {
            let of_others = theirs.as_ref().map_or(0.0, |(scene, share)| speaks(scene, place) * share);
            speaks(&scene, place).max(of_others)
        };
        let reason_weights: Features = std::array::from_fn(|feature| weights[feature].max(after[feature]));
        let best = best_first(&scores, query.scores).filter(|place| is_wanted(*place, evidence(*place))).take(limit);
        best.map(|place| Ranked {
            place,
            score: scores[place],
            evidence: evidence(place),
            reasons: self.reasons(&scene, place, &prefix, &reason_weights),
        })
        .collect()
    }

    /// What speaks for each tool, whether or not it is used.
    pub fn features(&self, query: &Query<'_>) -> Vec<Features> {
        let scene = self.scene(query).0;
        (0..scene.len()).map(|place| scene.features(place)).collect()
    }

    fn scene(&self, query: &Query<'_>) -> (Scene, Vec<Option<NameId>>) {
        let known = self.known(self.clock.factor());
        let intent = Direction::new(query.intent, self.settings.dimensions);
        let nearness = self.memory.nearness(intent.as_ref(), known.factor);
        let mut scene = Scene::new(known, nearness, query.words, self.lineup(query.tools), query.scores, &[]);
        let last = &query.prefix[query.prefix.len().saturating_sub(PREFIX)..];
        let prefix: Vec<Option<NameId>> = last.iter().map(|tool| self.graph.names.id(tool)).collect();
        if !prefix.is_empty() {
            scene.set_prefix(known, &prefix);
        }
        (scene, prefix)
    }

    pub(crate) fn known(&self, factor: f64) -> Known<'_> {
        Known { graph: &self.graph, memory: &self.memory, words: &self.words, factor }
    }

    pub(crate) fn lineup(&self, tools: &Tools) -> Arc<Lineup> {
        match self.lineup.is_of(tools) && self.lineup.is_current(&self.graph.names) {
            true => Arc::clone(&self.lineup),
            false => Arc::new(Lineup::new(tools, &self.graph.names)),
        }
    }

    fn reasons(&self, scene: &Scene, place: usize, prefix: &[Option<NameId>], weights: &Features) -> Vec<Reason> {
        let Some(tool) = scene.id(place) else { return Vec::new() };
        let share = |features: &[Feature]| -> f32 {
            features.iter().map(|feature| weights[feature.index()] * scene.column(*feature)[place]).sum()
        };
        let mut reasons: Vec<(f32, Reason)> = Vec::new();
        if let Some(Some(last)) = prefix.last()
            && let Some(count) = self.graph.sequences.get([*last, tool])
        {
            let after = Arc::clone(self.graph.names.name(*last));
            let share = share(&[Feature::Follows, Feature::FollowsTwo, Feature::SimilarSequence]);
            reasons.push((share, Reason::FollowsOften { after, count: count.count }));
        }
        let similar = share(&[Feature::Similar, Feature::Prototype, Feature::Words]);
        if similar > 0.0 && scene.similar[place] > 0 {
            reasons.push((similar, Reason::UsedForSimilar { times: scene.similar[place] }));
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

/// How well a search fits at all, from 0 to 1.
fn fit(scores: &[f32]) -> f32 {
    let best = (0..scores.len()).map(|place| score_at(scores, place)).fold(0.0, f32::max);
    ((best - FITS.0) / (FITS.1 - FITS.0)).clamp(0.0, 1.0)
}

/// How well a request is known from similar ones, from 0 to 1; for the next tool also from what usually follows.
fn known(scene: &Scene, task: Task) -> f32 {
    let of = |feature: Feature| scene.column(feature).iter().copied().fold(0.0, f32::max);
    let similar = of(Feature::Similar).max(of(Feature::Words));
    let evidence = if task == Task::Next { similar.max(of(Feature::Follows)) } else { similar };
    (evidence / KNOWN).clamp(0.0, 1.0)
}

/// Mixes scores, each with a share and taken as a part of its best: so nobody gains by large numbers.
fn blend((scores, share): (&mut [f32], f32), (theirs, their_share): (&[f32], f32)) {
    let best = |scores: &[f32]| scores.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let (own, other) = (share / best(scores), their_share / best(theirs));
    scores.iter_mut().zip(theirs).for_each(|(score, theirs)| *score = *score * own + theirs.max(0.0) * other);
}

/// The score that the search gave to a tool; 0 if it gave none.
pub(crate) fn score_at(scores: &[f32], place: usize) -> f32 {
    scores.get(place).copied().filter(|score| score.is_finite()).unwrap_or_default()
}

/// How good a tool is: by its score, then by the search's, then by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Standing {
    scores: u64,
    place: std::cmp::Reverse<u32>,
}

impl Standing {
    pub(crate) fn new(score: f32, found: f32, place: usize) -> Standing {
        /// Bits that are ordered like the number.
        fn ordered(number: f32) -> u64 {
            let bits = (number + 0.0).to_bits(); // there are two zeros, and + 0.0 makes them one
            u64::from(if bits >> 31 == 0 { bits | 1 << 31 } else { !bits })
        }
        Standing { scores: ordered(score) << 32 | ordered(found), place: std::cmp::Reverse(place as u32) }
    }

    pub(crate) fn place(self) -> usize {
        self.place.0 as usize
    }
}

/// The standing of each tool.
fn standings(scores: &[f32], found: &[f32]) -> Vec<Standing> {
    let standing = |(place, score): (usize, &f32)| Standing::new(*score, score_at(found, place), place);
    scores.iter().enumerate().map(standing).collect()
}

/// All places, best first. Costs what is taken.
fn best_first(scores: &[f32], found: &[f32]) -> impl Iterator<Item = usize> {
    let mut heap = BinaryHeap::from(standings(scores, found));
    std::iter::from_fn(move || heap.pop()).map(Standing::place)
}
