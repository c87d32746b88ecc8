//! How many tokens a text is for a model, roughly.
//!
//! Without a tokenizer: what counts is that an answer does not overflow a client's limit, and the
//! tokenizers of different models differ by more than this estimate does. Checked against a real one
//! in `tests/it/tokens.rs`.
//!
//! What a text really has, as a part of the estimate, in o200k_base: prose 1.0, JSON 0.9, Rust 0.9, indented JSON
//! 1.0, tables of numbers and base64 1.1, hexadecimal 1.0, UUIDs 1.2, Chinese 0.7, Japanese 0.9, Russian 0.5, Arabic
//! and Hindi 0.4. In cl100k_base, an older one, the last five have 1.1, 1.2, 0.9, 1.0 and 1.5, which is why they
//! weigh as much as they do. Inside JSON, where quotes and ends of lines are escaped, indented JSON has 1.3. Weights
//! by character alone had base64 at 2.2 and UUIDs at 1.7: what is no word is cut into pieces of one or two
//! characters.

/// An estimate, rather too high than too low.
pub(super) fn estimate(text: &str) -> usize {
    let mut weights = Weights::default();
    text.chars().for_each(|c| weights.add(c));
    weights.tokens()
}

/// The longest start of a text that has about `most` tokens; at least one character, if there is one.
pub(super) fn prefix(text: &str, most: usize) -> &str {
    let mut weights = Weights::default();
    for (at, c) in text.char_indices() {
        weights.add(c);
        if at > 0 && weights.tokens() > most {
            return &text[..at];
        }
    }
    text
}

/// Letters and digits in a row, from which on they are no word.
const LONGEST_WORD: usize = 24;

/// In twelfths of a token, so that no rounding adds up.
#[derive(Default)]
struct Weights {
    twelfths: usize,
    last: Kind,
    /// Letters and digits in a row so far.
    word: usize,
    /// Does that row mix letters and digits, or is it too long? Then it is a hash, an id or base64.
    is_noise: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    Letter,
    Digit,
    Space,
    #[default]
    Line,
    Other,
}

impl Weights {
    fn add(&mut self, c: char) {
        let kind = match c {
            'a'..='z' | 'A'..='Z' => Kind::Letter,
            '0'..='9' => Kind::Digit,
            ' ' => Kind::Space,
            '\n' | '\r' | '\t' => Kind::Line,
            _ => Kind::Other,
        };
        if c.is_ascii_alphanumeric() {
            self.word += 1;
            let is_mixed = self.word > 1 && kind != self.last;
            self.is_noise |= is_mixed || self.word > LONGEST_WORD;
        } else {
            (self.word, self.is_noise) = (0, false);
        }
        self.twelfths += match (kind, self.last) {
            (Kind::Letter, _) if self.is_noise => 9,
            (Kind::Letter, _) if c.is_ascii_uppercase() => 4,
            (Kind::Letter, _) => 3,
            (Kind::Digit, _) if self.is_noise => 6,
            (Kind::Digit, Kind::Digit) => 4,
            (Kind::Digit, _) => 8,
            // Indentation is one token, however deep.
            (Kind::Space, Kind::Line) => 11,
            (Kind::Space, _) => 1,
            (Kind::Line, _) => 8,
            (Kind::Other, _) => match c {
                '\\' => 8,
                '"' => 7,
                c if c.is_control() => 29, // in JSON, a backslash, a letter and four digits
                '\0'..='\x7f' => 6,
                '\u{80}'..'\u{250}' => 8,     // Latin with accents
                '\u{250}'..'\u{590}' => 6,    // Greek, Cyrillic
                '\u{2000}'..'\u{3000}' => 12, // signs, arrows, lines
                '\u{10000}'.. => 24,          // emoji
                _ => 10,
            },
        };
        self.last = kind;
    }

    fn tokens(&self) -> usize {
        self.twelfths.div_ceil(12)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_as_many_tokens_as_it_may() {
        let text = "Größe: 12 €\n".repeat(100);
        for most in [0, 1, 7, 50, 100_000] {
            let start = prefix(&text, most);
            assert!(!start.is_empty() && text.starts_with(start));
            assert!(estimate(start) <= most.max(1), "{most}: {start:?}");
        }
        assert_eq!((estimate(""), prefix("", 5)), (0, ""));
    }
}
