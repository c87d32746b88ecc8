//! Where characters, words and sentences end, by ICU4X.

use icu_segmenter::{
    GraphemeClusterSegmenter, SentenceSegmenter, WordSegmenter,
    options::{SentenceBreakInvariantOptions, WordBreakInvariantOptions},
};
use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Granularity {
    Grapheme,
    Word,
    Sentence,
}

/// The ends of the segments of a text, in UTF-16 units, and for words whether each is one rather than space or punctuation.
pub(crate) fn ends(granularity: Granularity, text: &str) -> Vec<(usize, bool)> {
    let units: Vec<u16> = text.encode_utf16().collect();
    match granularity {
        Granularity::Grapheme => {
            GraphemeClusterSegmenter::new().segment_utf16(&units).skip(1).map(|end| (end, false)).collect()
        }
        Granularity::Sentence => {
            let segmenter = SentenceSegmenter::new(SentenceBreakInvariantOptions::default());
            segmenter.segment_utf16(&units).skip(1).map(|end| (end, false)).collect()
        }
        Granularity::Word => {
            let segmenter = WordSegmenter::new_dictionary(WordBreakInvariantOptions::default());
            let segments = segmenter.segment_utf16(&units).iter_with_word_type();
            let mut start = 0;
            let mut ends = Vec::new();
            for (end, kind) in segments.skip(1) {
                // The kind is that of the last letter, which may be an accent.
                let letters = char::decode_utf16(units[start..end].iter().copied()).flatten();
                ends.push((end, kind.is_word_like() || letters.into_iter().any(char::is_alphanumeric)));
                start = end;
            }
            ends
        }
    }
}
