//! The shape of a token: character classes, parts of fixed or bounded length, and how random a text looks.
//!
//! **Invariant:** nothing here backtracks. A part takes as many bytes as its class and its length allow, and is not given
//! a second chance.

/// A set of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(u16);

const LOWER_HEX: u16 = 1;
const UPPER_HEX: u16 = 2;
const DIGIT_BIT: u16 = 4;
const LOWER_BIT: u16 = 8;
const UPPER_BIT: u16 = 16;
const UNDERSCORE: u16 = 32;
const HYPHEN: u16 = 64;
const DOT_BIT: u16 = 128;
const BASE64_BIT: u16 = 256;
const PAD: u16 = 512;
const TILDE: u16 = 1024;
const COLON: u16 = 2048;
const PERCENT: u16 = 4096;
const AT: u16 = 8192;

pub(super) const DIGIT: Class = Class(DIGIT_BIT);
pub(super) const HEX: Class = Class(DIGIT_BIT | LOWER_HEX);
pub(super) const ANY_HEX: Class = Class(DIGIT_BIT | LOWER_HEX | UPPER_HEX);
pub(super) const LOWER: Class = Class(DIGIT_BIT | LOWER_BIT);
pub(super) const UPPER: Class = Class(DIGIT_BIT | UPPER_BIT);
pub(super) const ALNUM: Class = Class(DIGIT_BIT | LOWER_BIT | UPPER_BIT);
pub(super) const WORD: Class = Class(ALNUM.0 | UNDERSCORE);
/// base64url without padding.
pub(super) const DASH: Class = Class(WORD.0 | HYPHEN);
pub(super) const DOTTED: Class = Class(DASH.0 | DOT_BIT);
/// base64url with padding.
pub(super) const DASH_PAD: Class = Class(DASH.0 | PAD);
pub(super) const DOTTED_PAD: Class = Class(DOTTED.0 | PAD);
pub(super) const HEX_DASH: Class = Class(HEX.0 | HYPHEN);
pub(super) const BASE64: Class = Class(ALNUM.0 | BASE64_BIT | PAD);
/// base64 without padding.
pub(super) const UNPADDED: Class = Class(ALNUM.0 | BASE64_BIT);
/// base64 in either alphabet.
pub(super) const ANY_BASE64: Class = Class(BASE64.0 | UNDERSCORE | HYPHEN);
/// What may stand in a bearer token (RFC 6750).
pub(super) const TOKEN68: Class = Class(DOTTED.0 | BASE64_BIT | PAD | TILDE | COLON);
/// base64 in either alphabet, without padding.
pub(super) const RUN: Class = Class(DASH.0 | BASE64_BIT);
/// base64 with percent escapes.
pub(super) const PERCENTED: Class = Class(BASE64.0 | PERCENT);
/// The rest of an address.
pub(super) const PATH: Class = Class(DASH.0 | BASE64_BIT | DOT_BIT);
pub(super) const TEAMS: Class = Class(PATH.0 | AT);
pub(super) const DASH_COLON: Class = Class(DASH.0 | COLON);
pub(super) const AZURE: Class = Class(DOTTED.0 | TILDE);

const TABLE: [u16; 256] = {
    let mut table = [0_u16; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT_BIT,
            b'a'..=b'f' => LOWER_BIT | LOWER_HEX,
            b'g'..=b'z' => LOWER_BIT,
            b'A'..=b'F' => UPPER_BIT | UPPER_HEX,
            b'G'..=b'Z' => UPPER_BIT,
            b'_' => UNDERSCORE,
            b'-' => HYPHEN,
            b'.' => DOT_BIT,
            b'+' | b'/' => BASE64_BIT,
            b'=' => PAD,
            b'~' => TILDE,
            b':' => COLON,
            b'%' => PERCENT,
            b'@' => AT,
            _ => 0,
        };
        byte += 1;
    }
    table
};

impl Class {
    pub(super) fn has(self, byte: u8) -> bool {
        TABLE[byte as usize] & self.0 != 0
    }

    /// The end of the longest run of this class that begins at `start`, at most `most` bytes long.
    pub(super) fn run(self, bytes: &[u8], start: usize, most: usize) -> usize {
        let end = bytes.len().min(start.saturating_add(most));
        let rest = bytes.get(start..end).unwrap_or_default();
        start + rest.iter().position(|byte| !self.has(*byte)).unwrap_or(rest.len())
    }
}

/// A part of a token behind its prefix.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// A run of a class, with least and most length.
    Run(Class, usize, usize),
    Literal(&'static str),
}

/// Longest run of a part without an upper bound. What is longer is no token but data.
pub(super) const LONG: usize = 16 * 1024;

/// Where the parts end that begin at `start`, if all are there and what follows does not belong to the last of them.
pub(super) fn end_of_parts(bytes: &[u8], start: usize, parts: &[Part]) -> Option<usize> {
    let mut at = start;
    for part in parts {
        match *part {
            Part::Literal(text) => {
                bytes.get(at..)?.starts_with(text.as_bytes()).then_some(())?;
                at += text.len();
            }
            Part::Run(class, least, most) => {
                let end = class.run(bytes, at, most);
                (end - at >= least).then_some(())?;
                at = end;
            }
        }
    }
    match (parts.last(), bytes.get(at)) {
        // Longer than any token, and not worth to be read again from every prefix in it.
        (Some(Part::Run(.., LONG)), _) => Some(at),
        (Some(Part::Run(class, ..)), Some(next)) if class.has(*next) && !matches!(next, b'=' | b'-' | b'.' | b'_') => {
            None
        }
        _ => Some(at),
    }
}

/// Is there a boundary in front of `at`, so that a token may begin there? Escapes, as `%3D`, `\n` and `\u003d` end with a
/// letter or digit and are boundaries all the same.
pub(super) fn starts_token(bytes: &[u8], at: usize) -> bool {
    let Some(previous) = at.checked_sub(1).map(|index| bytes[index]) else { return true };
    if !ALNUM.has(previous) {
        return true;
    }
    let before = |count: usize| at.checked_sub(count).map(|index| bytes[index]);
    let is_percent = before(3) == Some(b'%') && bytes[at - 2..at].iter().all(u8::is_ascii_hexdigit);
    let is_escape = matches!(previous, b'n' | b't' | b'r') && before(2) == Some(b'\\');
    let is_unicode = before(6) == Some(b'\\') && before(5) == Some(b'u');
    is_percent || is_escape || is_unicode || ends_colour(bytes, at)
}

/// Is a sequence that sets a colour, as terminals take it, right in front of `at`? Its letter is a boundary too.
fn ends_colour(bytes: &[u8], at: usize) -> bool {
    let Some((b'm' | b'K', head)) = bytes[at.saturating_sub(16)..at].split_last() else { return false };
    let Some(open) = head.iter().rposition(|byte| !byte.is_ascii_digit() && *byte != b';') else { return false };
    head[open] == b'[' && (open + 1 < head.len() || open > 0 && head[open - 1] == 0x1b)
}

/// How much of a text is looked at to judge it.
const JUDGED_BYTES: usize = 256;

/// Bits per byte, over the first bytes of the text.
pub(super) fn entropy(text: &[u8]) -> f64 {
    let text = &text[..text.len().min(JUDGED_BYTES)];
    let mut counts = [0_u16; 256];
    for byte in text {
        counts[*byte as usize] += 1;
    }
    let total = text.len() as f64;
    let part = |count: &u16| {
        let share = f64::from(*count) / total;
        -share * share.log2()
    };
    counts.iter().filter(|count| **count > 0).map(part).sum()
}

/// Which kinds of bytes a text has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mix {
    pub(super) digits: usize,
    pub(super) lower: usize,
    pub(super) upper: usize,
    pub(super) other: usize,
}

impl Mix {
    pub(super) fn of(text: &[u8]) -> Mix {
        let mut mix = Mix::default();
        for byte in &text[..text.len().min(JUDGED_BYTES)] {
            match byte {
                b'0'..=b'9' => mix.digits += 1,
                b'a'..=b'z' => mix.lower += 1,
                b'A'..=b'Z' => mix.upper += 1,
                _ => mix.other += 1,
            }
        }
        mix
    }
}

/// Does the text look as if it was drawn at random, rather than written by somebody?
pub(super) fn is_random(text: &[u8]) -> bool {
    let mix = Mix::of(text);
    if text.len() < 16 || mix.lower + mix.upper == 0 || !text.iter().take(JUDGED_BYTES).all(|byte| TOKEN68.has(*byte)) {
        return false;
    }
    // Words in one case with separators between them are names, whatever their entropy.
    let kinds = usize::from(mix.digits > 1) + usize::from(mix.lower > 1) + usize::from(mix.upper > 1);
    kinds >= 2 && mix.other * 5 <= text.len() && entropy(text) >= 3.2
}

/// `8-4-4-4-12` hexadecimal digits.
pub(super) fn is_uuid(text: &[u8]) -> bool {
    text.len() == 36
        && text.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The hexadecimal digits of a digest: MD5, SHA-1, SHA-224, SHA-256, SHA-384 or SHA-512.
pub(super) fn is_digest(text: &[u8]) -> bool {
    matches!(text.len(), 32 | 40 | 56 | 64 | 96 | 128) && text.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_take_what_they_may_and_must_end() {
        let parts = [Part::Run(ALNUM, 2, 4), Part::Literal("."), Part::Run(HEX, 3, 3)];
        let table =
            [("ab.123", Some(6)), ("abcd.123 x", Some(8)), ("a.123", None), ("abcde.123", None), ("ab.1234", None)];
        for (text, expected) in table {
            assert_eq!(end_of_parts(text.as_bytes(), 0, &parts), expected, "{text}");
        }
    }

    #[test]
    fn escapes_are_boundaries() {
        for (text, expected) in [
            ("xT", false),
            (" T", true),
            ("%3DT", true),
            (r"\nT", true),
            (r"\u003dT", true),
            ("%3T", false),
            ("\u{1b}[0;32mT", true),
            ("[32mT", true),
            ("itemT", false),
        ] {
            assert_eq!(starts_token(text.as_bytes(), text.len() - 1), expected, "{text}");
        }
    }

    #[test]
    fn random_is_not_written() {
        for text in ["f3Kd9xQ2mZpL7vBn4Ty8", "9f86d081884c7d659a2feaa0c55ad015"] {
            assert!(is_random(text.as_bytes()), "{text}");
        }
        for text in ["the-name-of-a-thing-here", "aaaaaaaaaaaaaaaaaaaa", "AUTHENTICATION_FAILED_TWICE", "short1A"] {
            assert!(!is_random(text.as_bytes()), "{text}");
        }
    }
}
