//! What speaks for a tool, as eleven numbers: ten from 0 to 1, and a lift from 0 to 3.
//!
//! Shares are shrunk toward zero where there is little evidence, and put on a logarithmic scale, on which 3 % and 30 % are as far
//! apart as they are for a ranking.

use std::sync::Arc;

use crate::{
    graph::Graph,
    math::ln_f32,
    memory::{Memory, Nearness},
    names::NameId,
    tools::Lineup,
    words::{LARGEST_LIFT, WordId, Words, lift, ratio},
};

/// Traces after which what depends on their number counts half.
const ENOUGH_TRACES: f64 = 20.0;
/// Observations that a share is doubted by.
pub(crate) const DOUBT: f64 = 2.0;
/// The same for votes of similar traces.
const VOTES_DOUBT: f32 = 0.3;
/// Where the logarithmic scale of shares begins to be linear.
const SMALL_SHARE: f32 = 0.03;
/// Similar traces that vote on what comes after a tool.
const NEAREST: usize = 20;
/// Tools of a prefix that are looked at, the last ones.
pub(crate) const PREFIX: usize = 32;

pub const FEATURES: usize = 11;

/// The values of all features, in the order of [`Feature`].
pub type Features = [f32; FEATURES];

/// One thing that speaks for a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// How well the search finds that it fits, among the tools of the query.
    Search,
    /// Votes of traces with a similar intent.
    Similar,
    /// Votes of such traces that have the last tool, for what came after it.
    SimilarSequence,
    /// How often it follows the last tool.
    Follows,
    /// How often it follows the last two tools.
    FollowsTwo,
    /// How often it occurs together with the tools so far.
    Together,
    /// How many traces use it.
    Popularity,
    /// It was used already.
    Used,
    /// How similar intents are, on average, that it was used for.
    Prototype,
    /// How often it was used where the intent has a word of this one.
    Words,
    /// How much more often that was than it is used at all.
    Lift,
}

impl Feature {
    pub fn index(self) -> usize {
        self as usize
    }

    /// The most that a feature with this index can be.
    pub(crate) fn largest(index: usize) -> f32 {
        if index == Feature::Lift.index() { LARGEST_LIFT } else { 1.0 }
    }
}

/// What depends on the tools so far, but for whether a tool is one of them.
pub(crate) const OF_PREFIX: [Feature; 4] =
    [Feature::SimilarSequence, Feature::Follows, Feature::FollowsTwo, Feature::Together];

/// Tools with their features, for one intent.
#[derive(Debug)]
pub(crate) struct Scene {
    lineup: Arc<Lineup>,
    /// Tools that the search does not know, after those that it knows.
    others: Vec<NameId>,
    /// All values of the first feature, then of the second, and so on: weighted sums of all tools are made column by column.
    columns: Vec<f32>,
    /// Similar traces that have used each tool.
    pub(crate) similar: Vec<u32>,
    pub(crate) nearness: Nearness,
    /// How far evidence is trusted, from 0 to 1.
    trust: f32,
    prefix: Prefix,
    /// Tools, and of each the traces that vote and have used it.
    voters_of: Vec<(NameId, Vec<u32>)>,
}

/// The tools so far, and what is known of them.
#[derive(Debug, Default)]
struct Prefix {
    tools: Vec<Option<NameId>>,
    /// Those that are known, each once, in the order of their first calls.
    distinct: Vec<NameId>,
    /// Of each tool of the scene, the sum of its co-occurrences with these.
    together: Vec<f32>,
    /// Where that is above 0.
    places: Vec<u32>,
}

/// What is known, and how much a count is worth now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'m> {
    pub(crate) graph: &'m Graph,
    pub(crate) memory: &'m Memory,
    pub(crate) words: &'m Words,
    pub(crate) factor: f64,
}

impl Scene {
    /// `others` are ranked too, if the search does not know them.
    pub(crate) fn new(
        known: Known<'_>,
        nearness: Nearness,
        words: &[WordId],
        lineup: Arc<Lineup>,
        scores: &[f32],
        others: &[NameId],
    ) -> Scene {
        let Known { graph, memory, factor, .. } = known;
        let mut unknown: Vec<NameId> = Vec::new();
        for other in others {
            if lineup.place(*other).is_none() && !unknown.contains(other) {
                unknown.push(*other);
            }
        }
        let len = lineup.len() + unknown.len();
        let traces = graph.traces * factor;
        let trust = (traces / (traces + ENOUGH_TRACES)) as f32;
        let mut scene = Scene {
            columns: vec![0.0; len * FEATURES],
            similar: vec![0; len],
            lineup,
            others: unknown,
            nearness,
            trust,
            prefix: Prefix::default(),
            voters_of: Vec::new(),
        };
        scene.set_search(scores);
        scene.set_popularity(graph, traces, factor);
        scene.set_similar(memory, graph.names.len());
        scene.set_words(known, words);
        scene
    }

    pub(crate) fn len(&self) -> usize {
        self.similar.len()
    }

    pub(crate) fn column(&self, feature: Feature) -> &[f32] {
        let len = self.len();
        &self.columns[feature.index() * len..][..len]
    }

    fn column_mut(&mut self, feature: Feature) -> &mut [f32] {
        let len = self.len();
        &mut self.columns[feature.index() * len..][..len]
    }

    fn set(&mut self, feature: Feature, place: usize, value: f32) {
        let len = self.len();
        self.columns[feature.index() * len + place] = value;
    }

    /// The features of one tool.
    pub(crate) fn features(&self, place: usize) -> Features {
        std::array::from_fn(|feature| self.columns[feature * self.len() + place])
    }

    /// The weighted sum of the features of each tool.
    pub(crate) fn scores(&self, weights: &Features) -> Vec<f32> {
        let len = self.len();
        let mut scores = vec![0.0; len];
        for (weight, column) in weights.iter().zip(self.columns.chunks_exact(len.max(1))) {
            for (score, value) in scores.iter_mut().zip(column) {
                *score += weight * value;
            }
        }
        scores
    }

    pub(crate) fn place(&self, id: NameId) -> Option<usize> {
        self.lineup.place(id).or_else(|| {
            let place = self.others.iter().position(|other| *other == id)?;
            Some(self.lineup.len() + place)
        })
    }

    /// The number of a tool, if anything is known about it.
    pub(crate) fn id(&self, place: usize) -> Option<NameId> {
        self.lineup.id(place).or_else(|| self.others.get(place.checked_sub(self.lineup.len())?).copied())
    }

    fn set_search(&mut self, scores: &[f32]) {
        let tools = self.lineup.len();
        let score = |score: &f32| if score.is_finite() { *score } else { 0.0 };
        let mean = scores.iter().take(tools).map(score).sum::<f32>() / tools.max(1) as f32;
        let best = scores.iter().take(tools).map(score).fold(mean, f32::max);
        if best > mean {
            let scale = 1.0 / (best - mean);
            for (value, found) in self.column_mut(Feature::Search).iter_mut().zip(scores).take(tools) {
                let share = ((score(found) - mean) * scale).clamp(0.0, 1.0);
                // Squared: tools that fit half as well as the best are many, and few of them are right.
                *value = share * share;
            }
        }
    }

    fn set_popularity(&mut self, graph: &Graph, traces: f64, factor: f64) {
        let scale = factor / (traces + DOUBT);
        for place in 0..self.len() {
            let Some(id) = self.id(place) else { continue };
            self.set(Feature::Popularity, place, (graph.nodes[id as usize].traces * scale) as f32);
        }
        let trust = self.trust;
        self.column_mut(Feature::Popularity).iter_mut().for_each(|share| *share = scaled(*share) * trust);
    }

    /// One pass over all remembered traces: what they vote for, and how near they are to what they used.
    fn set_similar(&mut self, memory: &Memory, names: usize) {
        if self.nearness.cosines.is_empty() {
            return;
        }
        // Of each name. All traces have a cosine, and few a vote.
        let cosines = memory.cosine_sums(&self.nearness.cosines, names);
        let mut votes = vec![(0.0_f32, 0_u32); names];
        for number in &self.nearness.voters {
            let vote = self.nearness.votes[*number as usize];
            for tool in memory.distinct_tools(*number as usize) {
                let (sum, voters) = &mut votes[tool as usize];
                *sum += vote;
                *voters += 1;
            }
        }
        let total = self.nearness.total + VOTES_DOUBT;
        for (id, (cosine, (vote, voters))) in cosines.zip(&votes).enumerate() {
            let traces = memory.with_intent(id as NameId);
            if traces == 0 {
                continue;
            }
            let Some(place) = self.place(id as NameId) else { continue };
            self.similar[place] = *voters;
            if *vote > 0.0 {
                self.set(Feature::Similar, place, scaled(vote / total) * self.trust);
            }
            let traces = traces as f32;
            let above = (cosine / traces - self.nearness.floor).max(0.0);
            self.set(Feature::Prototype, place, above * traces / (traces + DOUBT as f32) * self.trust);
        }
    }

    fn set_words(&mut self, known: Known<'_>, words: &[WordId]) {
        let Known { graph, factor, .. } = known;
        let mut sums = vec![0.0; self.len()];
        // The logarithm of a product, in place of one for each pair of word and tool.
        let mut ratios = vec![1.0_f64; self.len()];
        let all = graph.traces * factor + 1.0;
        let speaking = known.words.shares(words, factor, |tool, share, count| {
            if let Some(place) = self.place(tool) {
                sums[place] += share;
                let usual = graph.nodes[tool as usize].traces * factor + 0.5;
                ratios[place] *= ratio(count, usual / all);
            }
        });
        let trust = self.trust;
        for (value, ratio) in self.column_mut(Feature::Lift).iter_mut().zip(&ratios).filter(|(_, ratio)| **ratio > 1.0)
        {
            *value = lift(*ratio, speaking) * trust;
        }
        for (value, sum) in self.column_mut(Feature::Words).iter_mut().zip(&sums) {
            *value = scaled(*sum) * trust;
        }
    }

    /// Sets what depends on the tools so far. `None` is a tool about which nothing is known.
    pub(crate) fn set_prefix(&mut self, known: Known<'_>, prefix: &[Option<NameId>]) {
        for feature in [Feature::SimilarSequence, Feature::Follows, Feature::FollowsTwo, Feature::Used] {
            self.column_mut(feature).fill(0.0);
        }
        let prefix = &prefix[prefix.len().saturating_sub(PREFIX)..];
        for tool in prefix.iter().flatten() {
            if let Some(place) = self.place(*tool) {
                self.set(Feature::Used, place, self.trust);
            }
        }
        if let Some(Some(last)) = prefix.last() {
            let before = prefix.len().checked_sub(2).and_then(|place| prefix[place]);
            self.set_follows(known, before, *last);
            self.set_similar_sequence(known.memory, *last);
        }
        self.set_together(known, prefix);
    }

    fn set_follows(&mut self, known: Known<'_>, before: Option<NameId>, last: NameId) {
        let Known { graph, factor, .. } = known;
        let row = || graph.sequences.row(&[last]).map(|(tool, count)| (tool, count.weight * factor));
        let total: f64 = row().map(|(_, weight)| weight).sum();
        let row_of_two = || {
            before
                .into_iter()
                .flat_map(|before| graph.pair_sequences.row(&[before, last]))
                .map(|(tool, count)| (tool, count.weight * factor))
        };
        let total_of_two: f64 = row_of_two().map(|(_, weight)| weight).sum();
        let left = DOUBT / (total_of_two + DOUBT);
        for (tool, weight) in row() {
            let Some(place) = self.place(tool) else { continue };
            let share = weight / (total + DOUBT);
            self.set(Feature::Follows, place, scaled(share as f32));
            self.set(Feature::FollowsTwo, place, scaled((share * left) as f32));
        }
        for (tool, weight) in row_of_two() {
            let Some(place) = self.place(tool) else { continue };
            let share = graph.sequences.get([last, tool]).map_or(0.0, |count| count.weight * factor / (total + DOUBT));
            let share_of_two = weight / (total_of_two + DOUBT) + share * left;
            self.set(Feature::FollowsTwo, place, scaled(share_of_two as f32));
        }
    }

    /// Finds which of the traces that vote have used each of these tools, in one pass for all of them.
    pub(crate) fn find_voters(&mut self, memory: &Memory, tools: &[NameId]) {
        let mut wanted: Vec<NameId> = tools.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let first = self.voters_of.len();
        // Of each name the place of its list, less one.
        let mut lists = vec![0_u32; wanted.last().map_or(0, |last| *last as usize + 1)];
        for (place, tool) in wanted.into_iter().enumerate() {
            lists[tool as usize] = place as u32 + 1;
            self.voters_of.push((tool, Vec::new()));
        }
        for number in &self.nearness.voters {
            for tool in memory.distinct_tools(*number as usize) {
                if let Some(list) = lists.get(tool as usize).filter(|list| **list > 0) {
                    self.voters_of[first + *list as usize - 1].1.push(*number);
                }
            }
        }
    }

    fn set_similar_sequence(&mut self, memory: &Memory, last: NameId) {
        if self.nearness.cosines.is_empty() {
            return;
        }
        if !self.voters_of.iter().any(|(tool, _)| *tool == last) {
            self.find_voters(memory, &[last]);
        }
        let having = self.voters_of.iter().filter(|(tool, _)| *tool == last).flat_map(|(_, numbers)| numbers);
        let having = having.map(|number| *number as usize);
        let mut nearest: Vec<(f32, usize)> = having.map(|number| (self.nearness.votes[number], number)).collect();
        let by_vote = |a: &(f32, usize), b: &(f32, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if nearest.len() > NEAREST {
            nearest.select_nth_unstable_by(NEAREST, by_vote);
            nearest.truncate(NEAREST);
        }
        nearest.sort_unstable_by(by_vote); // sums of floats depend on their order
        let total = nearest.iter().map(|(vote, _)| vote).sum::<f32>() + VOTES_DOUBT;
        let mut sums: Vec<(usize, f32)> = Vec::new();
        for (vote, number) in nearest {
            let start = sums.len();
            let mut distance = None;
            for tool in memory.tools(number) {
                if let Some(distance) = &mut distance {
                    *distance += 1;
                    if let Some(place) = self.place(tool) {
                        let share = vote / *distance as f32;
                        match sums[start..].iter_mut().find(|(known, _)| *known == place) {
                            Some((_, best)) => *best = best.max(share),
                            None => sums.push((place, share)),
                        }
                    }
                }
                if tool == last {
                    distance = Some(0_u32);
                }
            }
        }
        sums.sort_by_key(|(place, _)| *place);
        for same in sums.chunk_by(|a, b| a.0 == b.0) {
            let votes: f32 = same.iter().map(|(_, share)| share).sum();
            self.set(Feature::SimilarSequence, same[0].0, scaled(votes / total));
        }
    }

    /// A prefix that goes on where the last one ended costs what was added to it.
    fn set_together(&mut self, known: Known<'_>, prefix: &[Option<NameId>]) {
        let Known { graph, factor, .. } = known;
        if !prefix.starts_with(&self.prefix.tools) {
            self.prefix = Prefix::default();
            self.column_mut(Feature::Together).fill(0.0);
        }
        let added = &prefix[self.prefix.tools.len()..];
        self.prefix.together.resize(self.len(), 0.0);
        for tool in added.iter().flatten() {
            if self.prefix.distinct.contains(tool) {
                continue;
            }
            self.prefix.distinct.push(*tool);
            let root = graph.nodes[*tool as usize].traces.sqrt();
            for (other, count) in graph.co_occurrences.row(&[*tool]) {
                let Some(place) = self.place(other) else { continue };
                // Two roots: the product of two counts that grow with the epoch may overflow.
                let mean = root * graph.nodes[other as usize].traces.sqrt() * factor;
                let sum = &mut self.prefix.together[place];
                if *sum == 0.0 {
                    self.prefix.places.push(place as u32);
                }
                *sum += (count.weight * factor / (mean + DOUBT)) as f32;
            }
        }
        self.prefix.tools.extend_from_slice(added);
        let scale = 1.0 / self.prefix.distinct.len().max(1) as f32;
        let start = Feature::Together.index() * self.len();
        for place in &self.prefix.places {
            let place = *place as usize;
            self.columns[start + place] = scaled(self.prefix.together[place] * scale);
        }
    }
}

/// A share on the logarithmic scale; 0 stays 0 and 1 stays 1.
fn scaled(share: f32) -> f32 {
    const WHOLE: f32 = 3.536_117; // ln(1 + 1 / SMALL_SHARE)
    ln_f32(1.0 + share.clamp(0.0, 1.0) / SMALL_SHARE) / WHOLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_keeps_its_ends() {
        assert_eq!(scaled(0.0), 0.0);
        assert!((scaled(1.0) - 1.0).abs() < 1e-6 && (scaled(9.0) - 1.0).abs() < 1e-6);
        assert!(scaled(0.03) > 0.19 && scaled(0.3) > 0.6);
    }
}
