//! Which saved program fits an intent, and with what probability.
//!
//! A capability is a program with a name and the tools that it calls. Its memory is the intents that it was saved for, and those
//! of every successful trace that used it or used exactly its tools. An intent is compared with all remembered intents. They form
//! groups by what was used for them: one group for each capability, one for each other set of tools. The probability that a
//! group is what an intent needs begins with `σ(w · [1, similarity, margin, agreement, size, record])`:
//!
//! - similarity: the cosine with the nearest intent of the group,
//! - margin: the same less the cosine with the nearest intent of any other group, or [`NOISE`] if that is higher,
//! - agreement: the share of the group among the [`AGREEING`] nearest intents that are nearer than [`NOISE`]; less while there are
//!   few groups that could disagree,
//! - size: one divided by the number of its tools, because of many tools one is easily another,
//! - record: how often answers like this group were right before, less 1/2. Groups are counted by a hash of the names of their tools, in
//!   [`RECORDS`] cells.
//!
//! A group that is no nearer than [`NOISE`], where unrelated intents are, is never probable. The only capability
//! that was saved for the very same words is.
//!
//! That estimate is compared with what came of earlier estimates like it: [`BINS`] counts of how many were made and how many were
//! right, to which the prior adds [`PRIOR_QUESTIONS`] questions of which a little less than estimated were right.
//!
//! The weights start at a prior and follow what callers then did: every successful trace says whether the group that was most
//! probable before it was the right one. Every [`ABSENT_EVERY`]th is asked as if nobody had ever done the same, so that the
//! weights also know intents whose capability does not exist. While few traces are remembered, some of them are asked again with
//! each new one, because what was nearest to them then says little about a memory that has grown since. An intent in the very
//! same words teaches nothing: it would be found without any of this. Nor does a question with one possible answer: the fewer
//! groups there are, the less each answer counts, and with one group the weights stay at the prior.
//!
//! The probability of a capability is then multiplied by how often it succeeds: `(s + 2r) / (n + 2)` after `s` successes in `n`
//! runs, where `r` is the success rate of all remembered traces, and 1/2 without any. The run that it was saved from is one.

use std::collections::{BTreeSet, HashMap};

use crate::{
    learned::Learned,
    math::exp,
    memory::Memory,
    names::{NameId, Names},
    random::Random,
    vector::{Direction, Rows},
};

/// Intents that are looked at, the nearest.
const NEAREST: usize = 128;
/// From which cosine on two intents have the same words: directions are rounded.
const SAME_WORDS: f32 = 0.998;
/// From which cosine on two intents are the same in other words.
const OTHER_WORDS: f32 = 0.7;
/// Past traces that are asked again with each new one, while no more than [`FEW_TRACES`] are remembered.
const ASKED_AGAIN: usize = 2;
const FEW_TRACES: usize = 1000;
/// The cosine that unrelated intents rarely exceed: of intents of different domains, 95 in 100 are further from the nearest of ten.
const NOISE: f32 = 0.4;
/// No group at or below [`NOISE`] is more probable.
const NOISY: f64 = 0.45;
/// How probable a capability at least is that was saved for the very same words, as the only one.
const SAVED_FOR: f64 = 0.95;
/// Ranges of estimates that are compared with what came of them.
pub(crate) const BINS: usize = 10;
/// Questions that each range is thought to have had, and the share of the estimate that was right of them.
const PRIOR_QUESTIONS: f64 = 8.0;
const PRIOR_RIGHT: f64 = 0.8;
/// Of how many of the nearest intents the agreement is the share. Fewer intents than that cannot agree fully.
const AGREEING: usize = 10;
/// Which traces are learned from as if nobody had done the same before.
const ABSENT_EVERY: u64 = 5;
/// Intents that are kept of one capability.
const INTENTS: usize = 32;
const LEARNING_RATE: f64 = 0.5;
/// How strongly weights are drawn toward the prior.
const PULL: f64 = 0.001;
/// No weight gets beyond.
pub(crate) const LARGEST_WEIGHT: f64 = 50.0;
/// Of the constant, the similarity, the margin, the agreement, the size and the record.
const PRIOR: [f64; TERMS] = [-3.3, 3.3, 1.8, 3.3, 0.6, 1.5];
pub(crate) const TERMS: usize = 6;
/// Cells that the records of groups share.
const RECORDS: usize = 1024;
/// Of the hash FNV-1a.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;
/// Answers that each record is thought to have begun with, half of them right.
const PRIOR_ANSWERS: f64 = 2.0;

type Terms = [f64; TERMS];

/// A program that can be used again.
#[derive(Clone, Debug, PartialEq)]
pub struct Capability {
    /// The id of the tool that runs it.
    pub name: String,
    /// The tools that it calls.
    pub tools: Vec<String>,
    /// The directions of intents that it is known to be for. The first 32 count.
    pub intents: Vec<Vec<f32>>,
}

/// The programs that can be used again, ready to be matched.
#[derive(Clone, Debug)]
pub struct Capabilities {
    dimensions: usize,
    names: Vec<String>,
    tools: Vec<Vec<String>>,
    rows: Rows,
    /// The capability of each row.
    owners: Vec<u32>,
}

/// A capability that fits an intent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// Its place among the capabilities.
    pub place: usize,
    /// That it is what the intent needs, and succeeds.
    pub probability: f64,
    /// The cosine with the nearest intent that it was used for.
    pub similarity: f32,
}

/// What is known of how probable a match is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Calibration {
    pub(crate) weights: Terms,
    pub(crate) squares: Terms,
    /// How many answers were right, and how many there were: [`BINS`] by the range of the estimate, and behind them
    /// [`RECORDS`] by the group that was the answer.
    pub(crate) bins: Vec<(f64, f64)>,
    /// Questions that were asked to learn from the answers.
    pub(crate) asked: u64,
}

/// What was used for an intent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Group {
    Capability(usize),
    /// The set of tools, in order of their numbers.
    Tools(Box<[NameId]>),
}

/// A group among the nearest intents.
#[derive(Clone, Debug)]
struct Near {
    group: Group,
    /// The cell of its record.
    record: usize,
    nearest: f32,
    /// Was it saved for an intent in the same words?
    is_saved_for: bool,
    /// Of the [`AGREEING`] nearest intents, how many.
    agreeing: usize,
    terms: Terms,
}

/// Which group the tools of a trace belong to.
struct Groups<'n> {
    names: &'n Names,
    /// By a set of tools; `None` if several capabilities have it, so that nobody knows which one was meant.
    of_tools: HashMap<Box<[NameId]>, Option<usize>>,
}

impl Capabilities {
    /// `dimensions` as in the settings of the model.
    pub fn new(dimensions: usize, capabilities: impl IntoIterator<Item = Capability>) -> Capabilities {
        let mut all = Capabilities {
            dimensions,
            names: Vec::new(),
            tools: Vec::new(),
            rows: Rows::new(dimensions),
            owners: Vec::new(),
        };
        for Capability { name, tools, intents } in capabilities {
            let directions = intents.iter().filter_map(|intent| Direction::new(intent, dimensions));
            for direction in directions.take(INTENTS) {
                all.rows.set(all.owners.len(), Some(&direction));
                all.owners.push(all.names.len() as u32);
            }
            all.names.push(name);
            all.tools.push(tools);
        }
        all
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The name of the capability at a place.
    pub fn name(&self, place: usize) -> &str {
        &self.names[place]
    }

    fn groups<'n>(&self, names: &'n Names) -> Groups<'n> {
        let mut of_tools: HashMap<Box<[NameId]>, Option<usize>> = HashMap::new();
        for (place, tools) in self.tools.iter().enumerate() {
            let ids: Option<Vec<NameId>> = tools.iter().map(|tool| names.id(tool)).collect();
            // A tool that was never called is in no trace.
            let Some(ids) = ids.filter(|ids| !ids.is_empty()) else { continue };
            of_tools.entry(signature(ids)).and_modify(|known| *known = None).or_insert(Some(place));
        }
        for (place, name) in self.names.iter().enumerate() {
            if let Some(id) = names.id(name) {
                of_tools.insert(Box::new([id]), Some(place));
            }
        }
        Groups { names, of_tools }
    }
}

impl Groups<'_> {
    /// The cell of a group's record, and how many tools the group has. A set of tools keeps its record when a capability is
    /// made of it.
    fn record(&self, group: &Group, capabilities: &Capabilities) -> (usize, usize) {
        let names: BTreeSet<&str> = match group {
            Group::Capability(place) => capabilities.tools[*place].iter().map(String::as_str).collect(),
            Group::Tools(tools) => tools.iter().map(|tool| &**self.names.name(*tool)).collect(),
        };
        let hash = names
            .iter()
            .flat_map(|name| name.bytes().chain([0]))
            .fold(FNV_START, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
        ((hash % RECORDS as u64) as usize, names.len())
    }

    /// `None` if it cannot be known.
    fn of(&self, tools: Box<[NameId]>) -> Option<Group> {
        match self.of_tools.get(&tools) {
            Some(Some(place)) => Some(Group::Capability(*place)),
            Some(None) => None,
            None => Some(Group::Tools(tools)),
        }
    }
}

/// A set of tools, the same however often and in which order they are named.
fn signature(tools: impl IntoIterator<Item = NameId>) -> Box<[NameId]> {
    let mut tools: Vec<NameId> = tools.into_iter().collect();
    tools.sort_unstable();
    tools.dedup();
    tools.into()
}

impl Calibration {
    pub(crate) fn new() -> Calibration {
        Calibration { weights: PRIOR, squares: [1.0; TERMS], bins: vec![(0.0, 0.0); BINS + RECORDS], asked: 0 }
    }

    /// The probability of a group, corrected by what came of such estimates.
    fn probability(&self, terms: &Terms) -> f64 {
        let right = |(bin, (right, all)): (usize, &(f64, f64))| {
            let middle = (bin as f64 + 0.5) / BINS as f64;
            (right + PRIOR_QUESTIONS * PRIOR_RIGHT * middle) / (all + PRIOR_QUESTIONS)
        };
        let rights: Vec<f64> = self.bins[..BINS].iter().enumerate().map(right).collect();
        let [(low, share), (high, rest)] = neighbours(self.estimate(terms));
        let probability = share * rights[low] + rest * rights[high];
        let noise = f64::from(NOISE);
        match terms[1] < noise {
            true => probability.min(NOISY * terms[1].max(0.0) / noise),
            false => probability,
        }
    }

    fn estimate(&self, terms: &Terms) -> f64 {
        let sum: f64 = self.weights.iter().zip(terms).map(|(weight, term)| weight * term).sum();
        1.0 / (1.0 + exp(-sum))
    }

    /// One step of AdaGrad on the cross-entropy. All but the constant stay at 0 or above: nearness cannot speak against a match.
    fn learn(&mut self, terms: &Terms, is_right: bool, share: f64) {
        let estimate = self.estimate(terms);
        for (bin, part) in neighbours(estimate) {
            self.bins[bin].0 += share * part * f64::from(u8::from(is_right));
            self.bins[bin].1 += share * part;
        }
        let error = estimate - f64::from(u8::from(is_right));
        for term in 0..TERMS {
            let slope = share * (error * terms[term] + PULL * (self.weights[term] - PRIOR[term]));
            self.squares[term] += slope * slope;
            let least = if term == 0 { -LARGEST_WEIGHT } else { 0.0 };
            let weight = self.weights[term] - LEARNING_RATE * slope / self.squares[term].sqrt();
            self.weights[term] = weight.clamp(least, LARGEST_WEIGHT);
        }
    }

    /// How often a group with this record was the right answer, less 1/2.
    fn record(&self, record: usize) -> f64 {
        let (right, all) = self.bins[BINS + record];
        (right + PRIOR_ANSWERS / 2.0) / (all + PRIOR_ANSWERS) - 0.5
    }

    /// Counts an answer for the record of its group.
    fn note(&mut self, record: usize, is_right: bool, share: f64) {
        let (right, all) = &mut self.bins[BINS + record];
        *right += share * f64::from(u8::from(is_right));
        *all += share;
    }

    /// Learns what was used for an intent, before the trace is remembered. `share` is how much the caller still has to say.
    pub(crate) fn observe(
        &mut self,
        (memory, names): (&Memory, &Names),
        capabilities: &Capabilities,
        (intent, cosines): (&Direction, &[f32]),
        used: &[NameId],
        share: f64,
    ) {
        let groups = capabilities.groups(names);
        let right = groups.of(signature(used.iter().copied()));
        self.ask((memory, capabilities, &groups), (intent, cosines), right, share);
        if (1..=FEW_TRACES).contains(&memory.traces.len()) {
            for _ in 0..ASKED_AGAIN {
                let at = (Random(self.asked).next() % memory.traces.len() as u64) as usize;
                let Some(intent) = memory.rows.direction(at).filter(|_| memory.is_example(at)) else { continue };
                let mut cosines = Vec::new();
                memory.rows.cosines(&intent, &mut cosines);
                let right = groups.of(signature(memory.distinct_tools(at)));
                self.ask((memory, capabilities, &groups), (&intent, &cosines), right, share);
            }
        }
    }

    /// Learns whether the most probable group was the right one.
    fn ask(
        &mut self,
        (memory, capabilities, groups): (&Memory, &Capabilities, &Groups<'_>),
        (intent, cosines): (&Direction, &[f32]),
        right: Option<Group>,
        share: f64,
    ) {
        self.asked += 1;
        let Some(right) = right else { return };
        let is_absent = self.asked.is_multiple_of(ABSENT_EVERY);
        let counts = |group: &Group, cosine: f32| cosine < SAME_WORDS && !(is_absent && *group == right);
        let near = nearest_groups((self, memory), capabilities, groups, (intent, cosines), counts);
        let best = near.iter().max_by(|a, b| self.estimate(&a.terms).total_cmp(&self.estimate(&b.terms)));
        if let Some(best) = best {
            // With one possible answer, being right says nothing.
            let choices = near.len() + usize::from(is_absent);
            let (is_right, share) = (best.group == right, share * (1.0 - 1.0 / choices as f64));
            self.learn(&best.terms, is_right, share);
            self.note(best.record, is_right, share);
        }
    }
}

impl Learned {
    /// Capabilities that may be what an intent needs, the most probable first. Those for which `is_there` is false have no say,
    /// as if they had never existed.
    pub fn matches(&self, intent: &[f32], capabilities: &Capabilities, is_there: impl Fn(usize) -> bool) -> Vec<Match> {
        let dimensions = self.settings.dimensions;
        let Some(intent) = Direction::new(intent, dimensions).filter(|_| capabilities.dimensions == dimensions) else {
            return Vec::new();
        };
        let mut cosines = Vec::new();
        self.memory.rows.cosines(&intent, &mut cosines);
        let groups = capabilities.groups(&self.graph.names);
        let known = (&self.calibration, &self.memory);
        let near = nearest_groups(known, capabilities, &groups, (&intent, &cosines), |group, _| match group {
            Group::Capability(place) => is_there(*place),
            Group::Tools(_) => true,
        });
        let is_one = near.iter().filter(|near| near.is_saved_for).count() == 1;
        let probability = |near: &Near| {
            let probability = self.calibration.probability(&near.terms);
            if is_one && near.is_saved_for { probability.max(SAVED_FOR) } else { probability }
        };
        let matched = |near: &Near| match near.group {
            Group::Capability(place) => Some(Match {
                place,
                probability: probability(near) * self.success(capabilities, place),
                similarity: near.nearest,
            }),
            Group::Tools(_) => None,
        };
        let mut matches: Vec<Match> = near.iter().filter_map(matched).collect();
        matches.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(a.place.cmp(&b.place)));
        matches
    }

    /// How many remembered traces succeeded with exactly these tools for an intent that is the same in other words.
    pub fn repetitions(&self, intent: &[f32], tools: &[&str]) -> usize {
        let ids: Option<Vec<NameId>> = tools.iter().map(|tool| self.graph.names.id(tool)).collect();
        let (Some(ids), Some(intent)) = (ids, Direction::new(intent, self.settings.dimensions)) else { return 0 };
        let (tools, mut cosines) = (signature(ids), Vec::new());
        self.memory.rows.cosines(&intent, &mut cosines);
        let is_one = |at: &usize| {
            cosines[*at] >= OTHER_WORDS && self.memory.is_example(*at) && self.memory.has_tools(*at, &tools)
        };
        (0..cosines.len()).filter(is_one).count()
    }

    /// How probable it is that a capability succeeds.
    fn success(&self, capabilities: &Capabilities, place: usize) -> f64 {
        let factor = self.clock.factor();
        let node = self.graph.names.id(&capabilities.names[place]).map(|id| self.graph.nodes[id as usize]);
        let (mut succeeded, mut failed) =
            node.map_or((1.0, 0.0), |node| (1.0 + node.succeeded * factor, node.failed * factor));
        let tools: Option<Vec<NameId>> =
            capabilities.tools[place].iter().map(|tool| self.graph.names.id(tool)).collect();
        let tools = tools.map(signature).unwrap_or_default();
        let (mut good, all) = (0_usize, self.memory.traces.len());
        for (at, trace) in self.memory.traces.iter().enumerate() {
            good += usize::from(trace.success);
            if !tools.is_empty() && self.memory.has_tools(at, &tools) {
                *(if trace.success { &mut succeeded } else { &mut failed }) += trace.weight * factor;
            }
        }
        let usual = (good as f64 + 1.0) / (all as f64 + 2.0);
        (succeeded + 2.0 * usual) / (succeeded + failed + 2.0)
    }
}

/// The two ranges that an estimate is between, by their middles, and how much it belongs to each.
fn neighbours(estimate: f64) -> [(usize, f64); 2] {
    let place = (estimate * BINS as f64 - 0.5).clamp(0.0, (BINS - 1) as f64);
    let low = place.floor();
    let (share, low) = (place - low, low as usize);
    [(low, 1.0 - share), ((low + 1).min(BINS - 1), share)]
}

/// The groups of the nearest intents that count, the nearest group first.
fn nearest_groups(
    (calibration, memory): (&Calibration, &Memory),
    capabilities: &Capabilities,
    groups: &Groups<'_>,
    (intent, cosines): (&Direction, &[f32]),
    counts: impl Fn(&Group, f32) -> bool,
) -> Vec<Near> {
    let mut own = Vec::new();
    capabilities.rows.cosines(intent, &mut own);
    let is_example = |at: usize| at >= cosines.len() || memory.is_example(at);
    let mut near: Vec<Near> = Vec::new();
    let mut taken = 0;
    for (cosine, at) in nearest(cosines.iter().chain(&own), is_example) {
        let group = match at.checked_sub(cosines.len()) {
            Some(row) => Some(Group::Capability(capabilities.owners[row] as usize)),
            None => groups.of(signature(memory.distinct_tools(at))),
        };
        let Some(group) = group.filter(|group| counts(group, cosine)) else { continue };
        let is_agreeing = usize::from(taken < AGREEING && cosine >= NOISE);
        let is_saved_for = at >= cosines.len() && cosine >= SAME_WORDS;
        let mut known = near.iter_mut().find(|near| near.group == group);
        if let Some(known) = &mut known {
            known.is_saved_for |= is_saved_for;
        }
        match known {
            // An intent that a capability was saved for is that of the trace which it was saved from.
            Some(known) if at >= cosines.len() && known.nearest == cosine => continue,
            Some(known) => known.agreeing += is_agreeing,
            None => {
                let (record, size) = groups.record(&group, capabilities);
                let mut terms = [0.0; TERMS];
                (terms[4], terms[5]) = (1.0 / size.max(1) as f64, calibration.record(record));
                near.push(Near { group, record, nearest: cosine, is_saved_for, agreeing: is_agreeing, terms });
            }
        }
        taken += 1;
    }
    let best = near.first().map_or(0.0, |near| near.nearest);
    let second = near.get(1).map_or(0.0, |near| near.nearest);
    // Where there are few groups, agreement is no wonder.
    let weight = 1.0 - 1.0 / (near.len() as f64 + 1.0);
    for (rank, near) in near.iter_mut().enumerate() {
        let other = if rank == 0 { second } else { best };
        let [similarity, margin] = [near.nearest, near.nearest - other.max(NOISE)].map(f64::from);
        near.terms[..4].copy_from_slice(&[1.0, similarity, margin, weight * near.agreeing as f64 / AGREEING as f64]);
    }
    near
}

/// The [`NEAREST`] cosines of those that count, the highest first; of equal ones that with the lower place.
fn nearest<'c>(cosines: impl Iterator<Item = &'c f32>, counts: impl Fn(usize) -> bool) -> Vec<(f32, usize)> {
    let before = |a: &(f32, usize), b: &(f32, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    let mut kept: Vec<(f32, usize)> = Vec::with_capacity(2 * NEAREST);
    let mut least = f32::NEG_INFINITY;
    for (at, cosine) in cosines.enumerate() {
        // Most are ruled out by their cosine, without a look at their traces.
        if *cosine > least && counts(at) {
            kept.push((*cosine, at));
            if kept.len() == 2 * NEAREST {
                kept.select_nth_unstable_by(NEAREST - 1, before);
                kept.truncate(NEAREST);
                least = kept.iter().map(|(cosine, _)| *cosine).fold(f32::INFINITY, f32::min);
            }
        }
    }
    kept.sort_unstable_by(before);
    kept.truncate(NEAREST);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prior_probability_follows_nearness() {
        let calibration = Calibration::new();
        let probability = |similarity: f64, margin: f64, agreement: f64| {
            // Of two tools, about which nothing is known.
            calibration.probability(&[1.0, similarity, margin, agreement, 0.5, 0.0])
        };
        assert!(probability(0.0, 0.0, 0.0) < 0.05);
        assert!(probability(1.0, 0.5, 1.0) > 0.7);
        assert!(probability(0.85, 0.45, 0.1) > 0.5, "one intent, said in other words");
        assert!(probability(0.35, 0.35, 1.0) < 0.5, "no nearer than what has nothing to do with it");
    }

    #[test]
    fn weights_follow_what_was_right() {
        let mut calibration = Calibration::new();
        let terms = [1.0, 0.9, 0.4, 0.9, 0.5, 0.0];
        for _ in 0..200 {
            calibration.learn(&terms, false, 1.0);
        }
        assert!(calibration.probability(&terms) < 0.2);
        assert!(calibration.weights[1..].iter().all(|weight| *weight >= 0.0));
        for _ in 0..2000 {
            calibration.learn(&terms, true, 1.0);
        }
        assert!(calibration.probability(&terms) > 0.8);
    }

    #[test]
    fn what_was_often_right_is_more_probable_and_many_tools_less() {
        let calibration = Calibration::new();
        let probability = |size: f64, record: f64| calibration.probability(&[1.0, 0.7, 0.1, 0.4, 1.0 / size, record]);
        assert!(probability(1.0, 0.4) > probability(1.0, 0.0) + 0.05);
        assert!(probability(1.0, 0.0) > probability(1.0, -0.4) + 0.05);
        assert!(probability(1.0, 0.0) > probability(4.0, 0.0) + 0.05);
    }

    #[test]
    fn a_set_of_tools_keeps_its_record_when_it_gets_a_name() {
        let mut names = Names::default();
        let ids = ["s:one", "s:two"].map(|name| names.intern(name));
        let capability = |tools: &[&str]| Capability {
            name: "capabilities:x".to_owned(),
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            intents: Vec::new(),
        };
        let all = Capabilities::new(4, [capability(&["s:two", "s:one", "s:two"]), capability(&["s:one"])]);
        let groups = all.groups(&names);
        let record = |group: Group| groups.record(&group, &all);
        assert_eq!(record(Group::Tools(signature(ids))), record(Group::Capability(0)));
        assert_eq!(record(Group::Capability(0)).1, 2);
        assert_ne!(record(Group::Capability(0)).0, record(Group::Capability(1)).0);
        let mut calibration = Calibration::new();
        let (cell, _) = record(Group::Capability(0));
        assert_eq!(calibration.record(cell), 0.0, "nothing is known");
        calibration.note(cell, true, 1.0);
        assert!(calibration.record(cell) > 0.1);
        (0..5).for_each(|_| calibration.note(cell, false, 1.0));
        assert!(calibration.record(cell) < -0.1);
    }

    #[test]
    fn who_has_said_all_changes_nothing() {
        let mut calibration = Calibration::new();
        calibration.learn(&[1.0, 0.9, 0.4, 0.9, 0.5, 0.0], false, 0.0);
        assert_eq!(calibration, Calibration::new());
    }
}
