//! The identifier or the words that name a value, and what they tell about it.

use std::ops::Range;

use super::{
    joint::foreign_joint,
    keys::{self, Telling},
    shape::{Class, DOTTED},
};

pub(super) const MAX_NAME: usize = 64;

const NAME: Class = DOTTED;

/// Words in front of a name that say nothing about it.
const STOP_WORDS: [&str; 30] = [
    "is", "my", "the", "a", "an", "your", "our", "this", "here", "new", "that", "his", "her", "their", "its", "and",
    "or", "with", "use", "using", "das", "der", "die", "le", "la", "el", "mein", "mon", "mi", "old",
];

/// The whole identifier around a stem.
pub(super) fn name_around(bytes: &[u8], stem: &Range<usize>) -> Range<usize> {
    let head = &bytes[stem.start.saturating_sub(MAX_NAME)..stem.start];
    let is_part = |byte: &u8| NAME.has(*byte) || *byte >= 0x80;
    let left = head.iter().rev().take_while(|byte| is_part(byte)).count();
    let mut start = stem.start - left;
    let tail = &bytes[stem.end..bytes.len().min(stem.end + MAX_NAME)];
    let right = tail.iter().take_while(|byte| is_part(byte)).count();
    // So do a colon of full width, an arrow, and the words for "is" that are written without a space.
    let right = (0..right).find(|at| tail[*at] >= 0x80 && foreign_joint(&tail[*at..]).is_some()).unwrap_or(right);
    let end = stem.end + right;
    // An escape in front of it: `\npassword`.
    if start > 0 && bytes[start - 1] == b'\\' && matches!(bytes[start], b'n' | b't' | b'r') {
        start += 1;
    }
    let trimmed = bytes[start..end].iter().rev().take_while(|byte| matches!(byte, b'.' | b'-')).count();
    start.min(stem.start)..(end - trimmed).max(stem.end)
}

pub(super) fn classified(text: &str, name: &Range<usize>) -> Option<Telling> {
    let own = text.get(name.clone())?;
    let mut words = keys::words(own);
    // `API key`, `personal access token`: words in front that belong to it.
    let before = text.get(text.floor_char_boundary(name.start.saturating_sub(32))..name.start)?;
    if words.len() == 1
        && before.ends_with(' ')
        && !before.trim_end().ends_with([':', '=', ',', '.', ';', '"', '\'', ')', '>'])
    {
        let line = before.rsplit(['\n', ',', '.', ';', ':', '(']).next().unwrap_or_default();
        let mut all: Vec<String> = line
            .split_whitespace()
            .rev()
            .take(2)
            .take_while(|word| !STOP_WORDS.iter().any(|stop| word.eq_ignore_ascii_case(stop)))
            .flat_map(keys::words)
            .collect();
        all.reverse();
        all.append(&mut words);
        words = all;
    }
    keys::classify_words(&words)
}

pub(super) fn is_upper_name(name: &[u8]) -> bool {
    name.iter().any(u8::is_ascii_uppercase) && !name.iter().any(u8::is_ascii_lowercase)
}
