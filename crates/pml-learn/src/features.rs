//! What speaks for a tool, as nine numbers from 0 to 1.
//!
//! Shares are shrunk toward zero where there is little evidence, and put on a logarithmic scale, on which 3 % and 30 % are as far
//! apart as they are for a ranking.

use crate::{
    graph::Graph,
    memory::{Memory, Nearness},
    names::NameId,
    observation::Candidate,
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

pub const FEATURES: usize = 9;

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
}

impl Feature {
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Candidates with their features, for one intent.
#[derive(Debug)]
pub(crate) struct Scene {
    /// The number of each candidate, if anything is known about it.
    pub(crate) ids: Vec<Option<NameId>>,
    /// The candidate of each number; [`NONE`] if it is none.
    places: Vec<u32>,
    pub(crate) table: Vec<Features>,
    /// Similar traces that have used each candidate.
    pub(crate) similar: Vec<u32>,
    pub(crate) nearness: Nearness,
    /// How far evidence is trusted, from 0 to 1.
    trust: f32,
}

const NONE: u32 = u32::MAX;

/// What is known, and how much a count is worth now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'m> {
    pub(crate) graph: &'m Graph,
    pub(crate) memory: &'m Memory,
    pub(crate) factor: f64,
}

impl Scene {
    /// `others` are candidates too, after those that the search has found.
    pub(crate) fn new(known: Known<'_>, nearness: Nearness, candidates: &[Candidate<'_>], others: &[NameId]) -> Scene {
        let Known { graph, memory, factor } = known;
        let mut ids: Vec<Option<NameId>> = candidates.iter().map(|candidate| graph.names.id(candidate.tool)).collect();
        let mut places = vec![NONE; graph.names.len()];
        for (place, id) in ids.iter().enumerate().rev() {
            if let Some(id) = id {
                places[*id as usize] = place as u32; // of a tool that is there twice, the first
            }
        }
        for other in others {
            if places[*other as usize] == NONE {
                places[*other as usize] = ids.len() as u32;
                ids.push(Some(*other));
            }
        }
        let traces = graph.traces * factor;
        let trust = (traces / (traces + ENOUGH_TRACES)) as f32;
        let mut scene = Scene {
            table: vec![[0.0; FEATURES]; ids.len()],
            similar: vec![0; ids.len()],
            ids,
            places,
            nearness,
            trust,
        };
        scene.set_search(candidates);
        scene.set_popularity(graph, traces, factor);
        scene.set_similar(memory);
        scene
    }

    pub(crate) fn place(&self, id: NameId) -> Option<usize> {
        match self.places.get(id as usize) {
            Some(place) if *place != NONE => Some(*place as usize),
            _ => None,
        }
    }

    fn set_search(&mut self, candidates: &[Candidate<'_>]) {
        let score = |candidate: &Candidate<'_>| if candidate.score.is_finite() { candidate.score } else { 0.0 };
        let mean = candidates.iter().map(score).sum::<f32>() / candidates.len().max(1) as f32;
        let best = candidates.iter().map(score).fold(mean, f32::max);
        if best > mean {
            for (features, candidate) in self.table.iter_mut().zip(candidates) {
                let share = ((score(candidate) - mean) / (best - mean)).clamp(0.0, 1.0);
                // Squared: tools that fit half as well as the best are many, and few of them are right.
                features[Feature::Search.index()] = share * share;
            }
        }
    }

    fn set_popularity(&mut self, graph: &Graph, traces: f64, factor: f64) {
        for (features, id) in self.table.iter_mut().zip(&self.ids) {
            let Some(id) = id else { continue };
            let uses = graph.nodes[*id as usize].traces * factor;
            if uses > 0.0 {
                features[Feature::Popularity.index()] = scaled((uses / (traces + DOUBT)) as f32) * self.trust;
            }
        }
    }

    /// One pass over all remembered traces: what they vote for, and how near they are to what they used.
    fn set_similar(&mut self, memory: &Memory) {
        if self.nearness.cosines.is_empty() {
            return;
        }
        /// Of one candidate.
        #[derive(Clone, Copy, Default)]
        struct Sum {
            votes: f32,
            cosines: f32,
            traces: u32,
            voters: u32,
            /// The trace that was counted last, from 1: a tool counts once per trace.
            counted: u32,
        }
        let mut sums = vec![Sum::default(); self.table.len()];
        for (number, trace) in memory.traces.iter().enumerate() {
            if !trace.has_intent {
                continue;
            }
            let (cosine, vote) = (self.nearness.cosines[number], self.nearness.votes[number]);
            for tool in &trace.tools {
                let Some(sum) = self.places.get(*tool as usize).and_then(|place| sums.get_mut(*place as usize)) else {
                    continue;
                };
                if sum.counted == number as u32 + 1 {
                    continue;
                }
                sum.counted = number as u32 + 1;
                sum.cosines += cosine;
                sum.traces += 1;
                if vote > 0.0 {
                    sum.votes += vote;
                    sum.voters += 1;
                }
            }
        }
        let total = self.nearness.total + VOTES_DOUBT;
        for ((features, similar), sum) in self.table.iter_mut().zip(&mut self.similar).zip(&sums) {
            if sum.traces == 0 {
                continue;
            }
            *similar = sum.voters;
            if sum.votes > 0.0 {
                features[Feature::Similar.index()] = scaled(sum.votes / total) * self.trust;
            }
            let traces = sum.traces as f32;
            let above = (sum.cosines / traces - self.nearness.floor).max(0.0);
            features[Feature::Prototype.index()] = above * traces / (traces + DOUBT as f32) * self.trust;
        }
    }

    /// Sets what depends on the tools so far. `None` is a tool about which nothing is known.
    pub(crate) fn set_prefix(&mut self, known: Known<'_>, prefix: &[Option<NameId>]) {
        const OF_PREFIX: [Feature; 5] =
            [Feature::SimilarSequence, Feature::Follows, Feature::FollowsTwo, Feature::Together, Feature::Used];
        for features in &mut self.table {
            OF_PREFIX.iter().for_each(|feature| features[feature.index()] = 0.0);
        }
        let prefix = &prefix[prefix.len().saturating_sub(PREFIX)..];
        for tool in prefix.iter().flatten() {
            if let Some(place) = self.place(*tool) {
                self.table[place][Feature::Used.index()] = self.trust;
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
            self.table[place][Feature::Follows.index()] = scaled(share as f32);
            self.table[place][Feature::FollowsTwo.index()] = scaled((share * left) as f32);
        }
        for (tool, weight) in row_of_two() {
            let Some(place) = self.place(tool) else { continue };
            let share = graph.sequences.get([last, tool]).map_or(0.0, |count| count.weight * factor / (total + DOUBT));
            let share_of_two = weight / (total_of_two + DOUBT) + share * left;
            self.table[place][Feature::FollowsTwo.index()] = scaled(share_of_two as f32);
        }
    }

    fn set_similar_sequence(&mut self, memory: &Memory, last: NameId) {
        if self.nearness.cosines.is_empty() {
            return;
        }
        let voters = self.nearness.voters.iter().filter(|number| memory.traces[**number].tools.contains(&last));
        let mut nearest: Vec<(f32, usize)> = voters.map(|number| (self.nearness.votes[*number], *number)).collect();
        let by_vote = |a: &(f32, usize), b: &(f32, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if nearest.len() > NEAREST {
            nearest.select_nth_unstable_by(NEAREST, by_vote);
            nearest.truncate(NEAREST);
        }
        nearest.sort_unstable_by(by_vote); // sums of floats depend on their order
        let total = nearest.iter().map(|(vote, _)| vote).sum::<f32>() + VOTES_DOUBT;
        let mut sums: Vec<(usize, f32)> = Vec::new();
        for (vote, number) in nearest {
            let tools = &memory.traces[number].tools;
            let start = sums.len();
            let mut distance = None;
            for tool in tools {
                if let Some(distance) = &mut distance {
                    *distance += 1;
                    if let Some(place) = self.place(*tool) {
                        let share = vote / *distance as f32;
                        match sums[start..].iter_mut().find(|(known, _)| *known == place) {
                            Some((_, best)) => *best = best.max(share),
                            None => sums.push((place, share)),
                        }
                    }
                }
                if *tool == last {
                    distance = Some(0_u32);
                }
            }
        }
        sums.sort_by_key(|(place, _)| *place);
        for same in sums.chunk_by(|a, b| a.0 == b.0) {
            let votes: f32 = same.iter().map(|(_, share)| share).sum();
            self.table[same[0].0][Feature::SimilarSequence.index()] = scaled(votes / total);
        }
    }

    fn set_together(&mut self, known: Known<'_>, prefix: &[Option<NameId>]) {
        let Known { graph, factor, .. } = known;
        let mut distinct: Vec<NameId> = prefix.iter().flatten().copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        let feature = Feature::Together.index();
        for tool in &distinct {
            for (other, count) in graph.co_occurrences.row(&[*tool]) {
                let Some(place) = self.place(other) else { continue };
                let mean = graph.geometric_mean(*tool, other) * factor;
                self.table[place][feature] += (count.weight * factor / (mean + DOUBT)) as f32;
            }
        }
        if distinct.is_empty() {
            return;
        }
        for features in &mut self.table {
            if features[feature] > 0.0 {
                features[feature] = scaled(features[feature] / distinct.len() as f32);
            }
        }
    }
}

/// A share on the logarithmic scale; 0 stays 0 and 1 stays 1.
fn scaled(share: f32) -> f32 {
    const WHOLE: f32 = 3.536_117; // ln(1 + 1 / SMALL_SHARE)
    (share.clamp(0.0, 1.0) / SMALL_SHARE).ln_1p() / WHOLE
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
