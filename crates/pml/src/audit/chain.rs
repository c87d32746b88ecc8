//! The chain that the lines of the log form.
//!
//! A line ends with its number and a hash: `…,"seq":7,"hash":"…"}`. The hash is the SHA-256 of the hash of the line before, as
//! hexadecimal digits, followed by the line's own bytes up to `,"hash":`. The first line has nothing before it.

use std::{fmt, str::FromStr};

use crate::digest::sha256_of;

const SEQ: &str = ",\"seq\":";
const HASH: &str = ",\"hash\":\"";
const DIGITS: usize = 64;

/// The end of a chain: the number of its last line, and that line's hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// 0 if there is no line.
    pub seq: u64,
    /// Empty if there is no line.
    pub hash: String,
}

/// A line that belongs to a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link<'a> {
    pub(super) seq: u64,
    pub(super) hash: &'a str,
    /// What the hash is taken over, besides the hash before.
    body: &'a [u8],
}

impl Head {
    /// The end of a chain without lines, as a text can be read back.
    pub(super) fn none() -> Head {
        Head { seq: 0, hash: "0".repeat(DIGITS) }
    }

    /// Adds a line, a JSON object, to the chain. The text of the line, without a line break.
    pub(super) fn extend(&mut self, object: &str) -> String {
        let open = object.strip_suffix('}').unwrap_or(object);
        let seq = self.seq + 1;
        let body = format!("{open}{SEQ}{seq}");
        let hash = sha256_of(&[self.hash.as_bytes(), body.as_bytes()]);
        let line = format!("{body}{HASH}{hash}\"}}");
        *self = Head { seq, hash };
        line
    }
}

impl<'a> Link<'a> {
    /// Reads a line, without its line break.
    pub(super) fn read(line: &'a [u8]) -> Option<Link<'a>> {
        let rest = line.strip_suffix(b"\"}")?;
        let (body, hash) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
        let body = body.strip_suffix(HASH.as_bytes())?;
        let hash = std::str::from_utf8(hash).ok().filter(|hash| hash.bytes().all(|c| c.is_ascii_hexdigit()))?;
        let digits = body.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (before, seq) = body.split_at(body.len() - digits);
        let seq = std::str::from_utf8(seq).ok()?.parse().ok()?;
        before.ends_with(SEQ.as_bytes()).then_some(Link { seq, hash, body })
    }

    /// Is this the line that was written behind a line with this hash?
    pub(super) fn follows(&self, before: &str) -> bool {
        sha256_of(&[before.as_bytes(), self.body]) == self.hash
    }

    pub(super) fn head(&self) -> Head {
        Head { seq: self.seq, hash: self.hash.to_owned() }
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

/// Why a text is no [`Head`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a number and 64 hexadecimal digits, as `pml audit verify` prints them: 1234:9f86…")]
pub struct HeadError;

impl FromStr for Head {
    type Err = HeadError;

    fn from_str(text: &str) -> Result<Head, HeadError> {
        let (seq, hash) = text.trim().split_once(':').ok_or(HeadError)?;
        let is_hash = hash.len() == DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        match seq.parse() {
            Ok(seq) if is_hash => Ok(Head { seq, hash: hash.to_ascii_lowercase() }),
            _ => Err(HeadError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_follows_the_one_before_it_and_no_other() {
        let mut head = Head::default();
        let lines: Vec<_> = [r#"{"a":1}"#, r#"{"b":"x\",\"seq\":9,\"hash\":\""}"#, r#"{"a":1}"#]
            .iter()
            .map(|object| head.extend(object))
            .collect();
        let mut before = String::new();
        for (index, line) in lines.iter().enumerate() {
            assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
            let link = Link::read(line.as_bytes()).unwrap();
            assert_eq!(link.seq, index as u64 + 1);
            assert!(link.follows(&before) && !link.follows("other"));
            let edited = line.replace("{\"a\":1", "{\"a\":2");
            assert_eq!(Link::read(edited.as_bytes()).unwrap().follows(&before), edited == *line, "{edited}");
            before = link.hash.to_owned();
        }
        assert_eq!(head.to_string().parse(), Ok(head.clone()));
        assert_eq!(head.seq, 3);
    }

    #[test]
    fn lines_of_no_chain_are_told_apart() {
        let hash = "a".repeat(64);
        for line in [
            "{}".to_owned(),
            String::new(),
            format!("{{\"hash\":\"{hash}\"}}"),
            format!("{{\"a\":1,\"seq\":x,\"hash\":\"{hash}\"}}"),
            format!("{{\"a\":1,\"seq\":,\"hash\":\"{hash}\"}}"),
            format!("{{\"a\":1,\"seq\":99999999999999999999,\"hash\":\"{hash}\"}}"),
            format!("{{\"a\":1,\"seq\":1,\"hash\":\"{}\"}}", "z".repeat(64)),
        ] {
            assert_eq!(Link::read(line.as_bytes()), None, "{line}");
        }
        for text in ["", "1", "1:ab", ":", &format!("x:{hash}"), &format!("1:{hash}0")] {
            assert_eq!(text.parse::<Head>(), Err(HeadError), "{text}");
        }
    }
}
