//! Which tools were used where an intent has a word.
//!
//! Vectors of intents say what an intent is about, and blur what tells it apart: the name of a service, a file format. So words are
//! counted beside them. A word is known by a hash; its text is never here.

use std::collections::BTreeMap;

use crate::{math::ln, names::NameId};

/// Pairs of word and tool that are kept; of more, the weakest quarter is forgotten.
pub(crate) const PAIRS: usize = 131_072;
/// Words that are kept. Those of the weakest go.
pub(crate) const WORDS: usize = 16_384;
/// Words of an intent that are counted, the first ones.
pub(crate) const OF_INTENT: usize = 32;
/// Traces that a share is doubted by.
const DOUBT: f64 = 1.0;
/// Traces, with tools as usual, that each word's traces are mixed with before shares are compared.
const LIFT_DOUBT: f64 = 3.0;
/// The most that one word says: what [`RAREST`] of them say is multiplied, and stays finite.
const LARGEST_RATIO: f64 = 1e9;
/// The lift of a tool that each word makes some four hundred times as probable.
pub(crate) const LARGEST_LIFT: f32 = 3.0;
/// Words of an intent that speak, the rarest ones.
const RAREST: usize = 24;

pub(crate) type WordId = u32;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Words {
    pub(crate) rows: BTreeMap<WordId, Row>,
    /// Pairs in all rows.
    pairs: usize,
    /// Traces with any word.
    pub(crate) all: f64,
}

/// What is known of one word.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    /// Traces that have it.
    pub(crate) traces: f64,
    /// Of those, the ones that used a tool, by the number of the tool.
    pub(crate) tools: Vec<(NameId, f64)>,
}

impl Words {
    /// Counts a trace: the words of its intent, and its tools, each with the weight of the trace for it.
    pub(crate) fn add(&mut self, words: &[WordId], tools: &[(NameId, f64)]) {
        let weight = tools.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
        let words = distinct(words);
        if words.is_empty() || weight <= 0.0 {
            return;
        }
        self.all += weight;
        for word in &words {
            let row = self.rows.entry(*word).or_default();
            row.traces += weight;
            for (place, (tool, weight)) in tools.iter().enumerate() {
                if tools[..place].iter().any(|(other, _)| other == tool) {
                    continue;
                }
                match row.tools.binary_search_by_key(tool, |(known, _)| *known) {
                    Ok(at) => row.tools[at].1 += weight,
                    Err(at) => {
                        row.tools.insert(at, (*tool, *weight));
                        self.pairs += 1;
                    }
                }
            }
        }
        if self.pairs > PAIRS {
            let pairs =
                self.rows.iter().flat_map(|(word, row)| row.tools.iter().map(|(tool, count)| (*count, (*word, *tool))));
            let mut gone = weakest(pairs.collect(), PAIRS * 3 / 4);
            // Row by row: looking for each pair by itself takes tens of milliseconds.
            gone.sort_unstable();
            for gone in gone.chunk_by(|a, b| a.0 == b.0) {
                if let Some(row) = self.rows.get_mut(&gone[0].0) {
                    row.tools.retain(|(tool, _)| gone.binary_search_by_key(tool, |(_, gone)| *gone).is_err());
                }
            }
            self.count();
        }
        if self.rows.len() > WORDS {
            for word in weakest(self.rows.iter().map(|(word, row)| (row.traces, *word)).collect(), WORDS * 3 / 4) {
                self.rows.remove(&word);
            }
            self.count();
        }
    }

    /// Puts a row in place.
    pub(crate) fn restore(&mut self, word: WordId, row: Row) {
        self.pairs += row.tools.len();
        self.rows.insert(word, row);
    }

    fn count(&mut self) {
        self.pairs = self.rows.values().map(|row| row.tools.len()).sum();
    }

    /// For each tool that was used with one of the words, a share from 0 to 1: how often it was, the rarer the word the more; and
    /// how many traces with the word have used it. The answer is how many of the words speak.
    pub(crate) fn shares(&self, words: &[WordId], factor: f64, mut add: impl FnMut(NameId, f32, f64)) -> usize {
        let rarity = |row: &Row| ln(1.0 + self.all * factor / (row.traces * factor + DOUBT));
        let mut known: Vec<(f64, &Row)> =
            distinct(words).iter().filter_map(|word| self.rows.get(word)).map(|row| (rarity(row), row)).collect();
        // The order of equally rare ones is that of the words.
        known.sort_by(|a, b| b.0.total_cmp(&a.0));
        known.truncate(RAREST);
        let total: f64 = known.iter().map(|(rarity, _)| rarity).sum();
        if total <= 0.0 {
            return 0;
        }
        let speaking = known.len();
        for (rarity, row) in known {
            let scale = rarity / total * factor / (row.traces * factor + DOUBT);
            row.tools.iter().for_each(|(tool, count)| add(*tool, (count * scale) as f32, count * factor));
        }
        speaking
    }

    pub(crate) fn rescale(&mut self, factor: f64) {
        self.all *= factor;
        for row in self.rows.values_mut() {
            row.traces *= factor;
            row.tools.iter_mut().for_each(|(_, count)| *count *= factor);
        }
    }

    /// Gives tools their new numbers, which are in the order of the old ones.
    pub(crate) fn renumber(&mut self, numbers: &[Option<NameId>]) {
        for row in self.rows.values_mut() {
            let old = std::mem::take(&mut row.tools);
            row.tools.extend(old.into_iter().filter_map(|(tool, count)| Some((numbers[tool as usize]?, count))));
        }
        self.count();
    }
}

/// How much more often a tool is used where an intent has a word: `count` times, where `usual` is its share of all traces. The
/// odds of naive Bayes, less what is the same for all tools.
pub(crate) fn ratio(count: f64, usual: f64) -> f64 {
    1.0 + (count / (LIFT_DOUBT * usual)).min(LARGEST_RATIO)
}

/// Half the mean of the logarithms of what so many words say, of whose ratios this is the product: one logarithm for each tool, and
/// none for each pair of tool and word.
pub(crate) fn lift(product: f64, words: usize) -> f32 {
    ((0.5 * ln(product) / words.max(1) as f64) as f32).min(LARGEST_LIFT)
}

fn distinct(words: &[WordId]) -> Vec<WordId> {
    let mut words = words[..words.len().min(OF_INTENT)].to_vec();
    words.sort_unstable();
    words.dedup();
    words
}

/// The keys of all but the `kept` largest counts, in any order.
fn weakest<K: Copy + Ord>(mut counts: Vec<(f64, K)>, kept: usize) -> Vec<K> {
    let gone = counts.len().saturating_sub(kept);
    if gone > 0 {
        counts.select_nth_unstable_by(gone - 1, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    }
    counts.truncate(gone);
    counts.into_iter().map(|(_, key)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rare_word_says_more_than_a_common_one() {
        let mut words = Words::default();
        for round in 0..40 {
            words.add(&[1, 100 + round], &[(7, 1.0)]);
        }
        words.add(&[1, 2], &[(8, 1.0), (8, 1.0)]);
        words.add(&[1, 2], &[(8, 1.0)]);
        let mut shares = BTreeMap::new();
        let speaking = words.shares(&[1, 2, 2, 999], 1.0, |tool, share, _| *shares.entry(tool).or_insert(0.0) += share);
        assert_eq!(speaking, 2, "a word counts once, and one that is not known does not");
        assert!(shares[&8] > shares[&7] && shares[&8] < 1.0, "{shares:?}");
        assert_eq!(words.rows[&2].tools, [(8, 2.0)], "a tool counts once per trace");
    }

    #[test]
    fn what_all_words_say_stays_finite() {
        let most = (0..RAREST).fold(1.0, |product, _| product * ratio(1e60, f64::MIN_POSITIVE));
        assert!(most.is_finite() && lift(most, RAREST) == LARGEST_LIFT, "{most}");
        assert_eq!(lift(1.0, 0), 0.0);
        // All of three traces with the word use a tool that one in four uses; three more as usual make that 1 + 3 / 0.75.
        assert!((lift(ratio(3.0, 0.25), 1) - 0.5 * 5.0_f32.ln()).abs() < 1e-6);
    }

    #[test]
    fn words_and_pairs_are_bounded() {
        let mut words = Words::default();
        for round in 0..WORDS as u32 + 100 {
            let tools: Vec<(NameId, f64)> = (0..12).map(|tool| (tool + round % 50, 1.0)).collect();
            words.add(&[round, 5], &tools);
        }
        let pairs: usize = words.rows.values().map(|row| row.tools.len()).sum();
        assert!(words.rows.len() <= WORDS && pairs <= PAIRS && pairs == words.pairs, "{pairs} {}", words.pairs);
        assert!(words.rows.contains_key(&5), "what is used stays");
    }
}
