//! Text as the encoder reads it: words, or the longest pieces of them that it knows.

use std::collections::HashMap;

use crate::{
    fold::folded,
    query::is_stop_word,
    tokenize::{Run, runs},
};

/// Longer words are noise: keys, encodings.
const WORD_CHARS: usize = 32;

#[derive(Debug)]
pub(super) struct Pieces {
    places: HashMap<&'static str, u32>,
    start: u32,
    end: u32,
}

impl Pieces {
    /// From a vocabulary of a piece per line. `None` if it has no beginning and end of a text.
    pub(super) fn new(vocabulary: &'static str) -> Option<Pieces> {
        let places: HashMap<_, _> = vocabulary.lines().zip(0..).collect();
        let (start, end) = (*places.get("[CLS]")?, *places.get("[SEP]")?);
        Some(Pieces { places, start, end })
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The pieces of a text between its beginning and its end, at most `limit` in all. Of a text that has more, words that any
    /// has are left out. Empty if it has no word that is known.
    pub(super) fn of(&self, text: &str, limit: usize) -> Vec<u32> {
        let runs = runs(text);
        let mut pieces = self.of_runs(&runs, limit, |_| true);
        if pieces.len() > limit {
            pieces = self.of_runs(&runs, limit, |word| !is_stop_word(word));
        }
        if pieces.len() < 2 {
            return Vec::new();
        }
        pieces.truncate(limit - 1);
        pieces.push(self.end);
        pieces
    }

    /// Those of words that are wanted, after the beginning; no more words than it takes to be too many.
    fn of_runs(&self, runs: &[Run], limit: usize, is_wanted: impl Fn(&str) -> bool) -> Vec<u32> {
        let mut pieces = vec![self.start];
        for run in runs {
            let Run::Word { joined, parts } = run else { continue };
            if pieces.len() > limit || !is_wanted(joined) {
                continue;
            }
            match self.places.get(folded(joined).as_str()) {
                Some(piece) => pieces.push(*piece),
                None => parts.iter().for_each(|part| self.cut(&folded(part), &mut pieces)),
            }
        }
        pieces
    }

    /// Nothing of a word that cannot be cut into pieces that are known.
    fn cut(&self, word: &str, pieces: &mut Vec<u32>) {
        if word.len() > WORD_CHARS || !word.is_ascii() {
            return;
        }
        let before = pieces.len();
        let mut key = String::with_capacity(word.len() + 2);
        let mut rest = word;
        while !rest.is_empty() {
            let longest = (1..=rest.len()).rev().find_map(|end| {
                key.clear();
                if rest.len() < word.len() {
                    key.push_str("##");
                }
                key.push_str(&rest[..end]);
                Some((*self.places.get(key.as_str())?, end))
            });
            let Some((piece, end)) = longest else {
                pieces.truncate(before);
                return;
            };
            pieces.push(piece);
            rest = &rest[end..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOCABULARY: &str = "[CLS]\n[SEP]\nlist\nbucket\n##s\ncafe\nthe\nof\na\nb";

    #[test]
    fn text_is_cut_into_pieces_that_are_known() {
        let pieces = Pieces::new(VOCABULARY).unwrap();
        let names: Vec<&str> = VOCABULARY.lines().collect();
        #[rustfmt::skip]
        let table = [
            ("list Buckets",            10, "[CLS] list bucket ##s [SEP]"),
            ("listBuckets",             10, "[CLS] list bucket ##s [SEP]"),
            ("Café, the bucket",        10, "[CLS] cafe the bucket [SEP]"),
            ("qqq list",                10, "[CLS] list [SEP]"),
            ("搜索 qqq ?!",              10, ""),
            ("",                        10, ""),
            ("a b a b a b",             10, "[CLS] a b a b a b [SEP]"),
            // too long: first without words that any query has
            ("the list of the buckets", 5,  "[CLS] list bucket ##s [SEP]"),
            ("list list list list b",   4,  "[CLS] list list [SEP]"),
        ];
        for (text, limit, expected) in table {
            let found: Vec<&str> = pieces.of(text, limit).into_iter().map(|piece| names[piece as usize]).collect();
            assert_eq!(found.join(" "), expected, "{text}");
        }
        assert!(Pieces::new("list\nbucket").is_none());
    }
}
