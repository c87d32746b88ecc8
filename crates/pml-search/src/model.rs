//! The embedding table: what words mean, compiled in.
//!
//! The file is made by `tools/embedding/train.py` and laid out so that it is used where it lies: a header of four numbers
//! (entries, dimensions, bytes of vocabulary, bytes of notice), the vocabulary (an entry per line), the notice, a scale
//! per entry (`f32`), and the rows (`i8`), all little-endian. Only the map from words to rows is built when it is first
//! needed.

use std::{collections::HashMap, sync::LazyLock};

use crate::tokenize::{Run, runs};

/// Names the table that vectors were made with. Vectors of another version must not be compared with ours.
pub const MODEL_VERSION: &str = "pml-static-2";

pub(crate) const DIMENSIONS: usize = 256;
const MAGIC: &[u8; 8] = b"PMLTABLE";
static BYTES: &[u8] = include_bytes!("../model/table.bin");
static MODEL: LazyLock<Model> = LazyLock::new(|| Model::parse(BYTES).unwrap_or_default());

/// Longer words are noise: keys, encodings.
const WORD_CHARS: usize = 32;

/// Where the table comes from and under which licences.
pub fn notice() -> &'static str {
    MODEL.notice
}

/// What the table adds to a program.
pub fn table_bytes() -> usize {
    BYTES.len()
}

#[cfg(test)]
pub(crate) fn bytes() -> &'static [u8] {
    BYTES
}

/// Gets the table ready, which the first search would do otherwise.
pub fn load() {
    LazyLock::force(&MODEL);
}

/// Is it a word of the table as a whole, and not only by its pieces?
pub(crate) fn knows(word: &str) -> bool {
    MODEL.entries.contains_key(word)
}

/// The words of a text or several, each with how much it counts.
#[derive(Debug, Default)]
pub(crate) struct Bag(Vec<(u32, f32)>);

impl Bag {
    pub(crate) fn add(&mut self, text: &str, weight: f32) {
        for run in runs(text) {
            self.add_run(&run, weight);
        }
    }

    pub(crate) fn add_run(&mut self, run: &Run, weight: f32) {
        let Run::Word { joined, parts } = run else { return }; // the table knows no script without spaces
        // `GitHub` is one word if the table knows it as one.
        if parts.len() > 1
            && let Some(&entry) = MODEL.entries.get(joined.as_str())
        {
            self.0.push((entry, weight));
            return;
        }
        for part in parts {
            MODEL.cut(part, |entry| self.0.push((entry, weight)));
        }
    }

    /// The sum of all words' rows, of length 1, or zero. A word counts with the root of how often it is there: the tenth
    /// time says little.
    pub(crate) fn unit(mut self) -> [f32; DIMENSIONS] {
        // One order, whatever the order of words was: sums of floats depend on it.
        self.0.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut sum = [0.0_f32; DIMENSIONS];
        for same in self.0.chunk_by(|a, b| a.0 == b.0) {
            let weight: f32 = same.iter().map(|(_, weight)| weight).sum();
            MODEL.add_row(same[0].0, weight.sqrt(), &mut sum);
        }
        let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
        match length > 0.0 {
            true => sum.map(|value| value / length),
            false => sum,
        }
    }
}

/// What each word of a query does for its cosine with `vector`. Their sum is the cosine, but for rounding.
pub(crate) fn shares(runs: &[Run], scale: f32, values: &[i8]) -> Vec<(String, f32)> {
    let bags: Vec<(String, Bag)> = runs
        .iter()
        .filter_map(|run| {
            let Run::Word { joined, .. } = run else { return None };
            let mut bag = Bag::default();
            bag.add_run(run, 1.0);
            Some((joined.clone(), bag))
        })
        .collect();
    let mut counts: HashMap<u32, f32> = HashMap::new();
    for (entry, weight) in bags.iter().flat_map(|(_, bag)| &bag.0) {
        *counts.entry(*entry).or_default() += weight;
    }
    let mut whole = [0.0; DIMENSIONS];
    let sums: Vec<_> = bags
        .into_iter()
        .map(|(word, bag)| {
            let mut sum = [0.0; DIMENSIONS];
            for (entry, weight) in bag.0 {
                // The root of all occurrences, in equal parts.
                MODEL.add_row(entry, weight / counts[&entry].sqrt(), &mut sum);
            }
            whole.iter_mut().zip(sum).for_each(|(whole, value)| *whole += value);
            (word, sum)
        })
        .collect();
    let length = whole.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    let share =
        |sum: [f32; DIMENSIONS]| sum.iter().zip(values).map(|(a, b)| a * f32::from(*b)).sum::<f32>() * scale / length;
    sums.into_iter().map(|(word, sum)| (word, share(sum))).collect()
}

/// What a text is cut into, in its order.
#[cfg(test)]
pub(crate) fn entries_of(text: &str) -> Vec<&'static str> {
    let names: HashMap<u32, &str> = MODEL.entries.iter().map(|(name, entry)| (*entry, *name)).collect();
    let mut bag = Bag::default();
    bag.add(text, 1.0);
    bag.0.iter().map(|(entry, _)| names[entry]).collect()
}

#[derive(Debug, Default)]
struct Model {
    entries: HashMap<&'static str, u32>,
    notice: &'static str,
    scales: &'static [u8],
    rows: &'static [u8],
}

impl Model {
    /// `None` if the bytes are no table of ours.
    fn parse(bytes: &'static [u8]) -> Option<Model> {
        let (magic, rest) = bytes.split_at_checked(8)?;
        let (header, rest) = rest.split_at_checked(16)?;
        let number = |i: usize| {
            header
                .get(i * 4..i * 4 + 4)
                .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
        };
        let (count, dimensions) = (number(0)?, number(1)?);
        let (vocabulary, rest) = rest.split_at_checked(number(2)?)?;
        let (notice, rest) = rest.split_at_checked(number(3)?)?;
        let (scales, rows) = rest.split_at_checked(count.checked_mul(4)?)?;
        let vocabulary = str::from_utf8(vocabulary).ok()?;
        let entries: HashMap<_, _> = vocabulary.lines().zip(0..).collect();
        let fits = magic == MAGIC
            && dimensions == DIMENSIONS
            && entries.len() == count
            && rows.len() == count.checked_mul(DIMENSIONS)?;
        fits.then_some(Model { entries, notice: str::from_utf8(notice).ok()?, scales, rows })
    }

    /// The entries of a word: itself, or the longest pieces from the left. None if a piece is missing.
    fn cut(&self, word: &str, mut found: impl FnMut(u32)) {
        if let Some(&entry) = self.entries.get(word) {
            return found(entry);
        }
        if word.chars().count() > WORD_CHARS {
            return;
        }
        let mut pieces = Vec::new();
        let mut rest = word;
        let mut key = String::with_capacity(word.len() + 2);
        while !rest.is_empty() {
            let mut ends = rest.char_indices().map(|(start, c)| start + c.len_utf8()).rev();
            let piece = ends.find_map(|end| {
                key.clear();
                if !pieces.is_empty() {
                    key.push_str("##");
                }
                key.push_str(&rest[..end]);
                Some((*self.entries.get(key.as_str())?, end))
            });
            let Some((entry, end)) = piece else { return };
            pieces.push(entry);
            rest = &rest[end..];
        }
        pieces.into_iter().for_each(found);
    }

    fn add_row(&self, entry: u32, weight: f32, sum: &mut [f32; DIMENSIONS]) {
        let entry = entry as usize;
        let (Some(scale), Some(row)) =
            (self.scales.get(entry * 4..entry * 4 + 4), self.rows.get(entry * DIMENSIONS..(entry + 1) * DIMENSIONS))
        else {
            return;
        };
        let factor = f32::from_le_bytes([scale[0], scale[1], scale[2], scale[3]]) * weight;
        for (sum, value) in sum.iter_mut().zip(row) {
            *sum += f32::from(*value as i8) * factor;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bag(text: &str) -> Bag {
        let mut bag = Bag::default();
        bag.add(text, 1.0);
        bag
    }

    fn similarity(a: &str, b: &str) -> f32 {
        bag(a).unit().iter().zip(bag(b).unit()).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn the_table_is_there_and_of_the_promised_size() {
        assert!(MODEL.entries.len() > 20_000);
        assert!(BYTES.len() <= 8_000_000, "{}", BYTES.len());
        assert!(notice().contains("all-MiniLM-L6-v2") && notice().contains("Apache-2.0"));
    }

    #[test]
    fn a_broken_table_is_none() {
        for bytes in [&b""[..], b"PMLTABLE", &BYTES[..100], &BYTES[..BYTES.len() - 1]] {
            assert!(Model::parse(bytes).is_none());
        }
    }

    #[test]
    fn meaning_is_nearer_than_chance() {
        for (query, near, far) in [
            ("remove a file", "delete document", "weather forecast"),
            ("temperature tomorrow", "weather forecast", "delete document"),
            ("buy a plane ticket", "book a flight", "list databases"),
        ] {
            assert!(similarity(query, near) > similarity(query, far) + 0.1, "{query}");
        }
    }

    #[test]
    fn the_order_of_words_does_not_matter_and_unknown_ones_are_nothing() {
        let same = ["list all my files", "files my all list"].map(|text| bag(text).unit());
        assert_eq!(same[0], same[1]);
        assert_eq!(bag("").unit(), [0.0; DIMENSIONS]);
        assert_eq!(bag("🦓 ?! 搜索").unit(), [0.0; DIMENSIONS]);
        assert_ne!(bag("xqzzk").unit(), [0.0; DIMENSIONS], "pieces of a word");
        assert!((similarity("list all my files", "files my all list") - 1.0).abs() < 0.01);
    }
}
