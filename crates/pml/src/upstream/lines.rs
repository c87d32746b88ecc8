//! A stream of bytes, cut into lines.
//!
//! **Invariant:** no line is longer than a limit. What is over the limit is thrown away as it comes in.

use std::borrow::Cow;

use crate::work::AT_ONCE_BYTES;

/// Cuts a stream of bytes into lines, none longer than a limit.
#[derive(Debug)]
pub(super) struct Lines {
    buffer: Vec<u8>,
    /// Where the first byte not yet handed out stands in `buffer`.
    start: usize,
    /// Up to where `buffer` holds no line end.
    searched: usize,
    max_bytes: usize,
    /// The line at hand is over the limit; its rest is thrown away.
    is_skipping: bool,
    /// A carriage return ends a line too, alone or together with the line feed behind it.
    has_returns: bool,
    /// The last line ended with one, whose line feed may still come.
    is_after_return: bool,
}

/// What [`Lines`] found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A long one is taken out of the buffer, so that it can be worked on elsewhere without being copied.
    Whole(Cow<'a, [u8]>),
    /// A line over the limit: how it begins.
    TooLong(Vec<u8>),
}

/// How much of a line over the limit is kept.
const BEGINNING: usize = 1024;

impl Lines {
    pub(super) fn new(max_bytes: usize) -> Lines {
        let (is_skipping, has_returns, is_after_return) = (false, false, false);
        Lines { buffer: Vec::new(), start: 0, searched: 0, max_bytes, is_skipping, has_returns, is_after_return }
    }

    /// Lines as server-sent events have them.
    pub(super) fn of_events(max_bytes: usize) -> Lines {
        Lines { has_returns: true, ..Lines::new(max_bytes) }
    }

    /// Where the next bytes of the stream are to be appended.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        &mut self.buffer
    }

    /// The next line, or `None` until more bytes are there.
    pub(super) fn next_line(&mut self) -> Option<Line<'_>> {
        loop {
            if self.is_after_return && self.start < self.buffer.len() {
                self.is_after_return = false;
                self.start += usize::from(self.buffer[self.start] == b'\n');
                self.searched = self.start;
            }
            let rest = &self.buffer[self.searched..];
            let found = match self.has_returns {
                true => memchr::memchr2(b'\r', b'\n', rest),
                false => memchr::memchr(b'\n', rest),
            };
            let Some(offset) = found else {
                self.searched = self.buffer.len();
                if self.searched - self.start <= self.max_bytes {
                    return None;
                }
                let beginning =
                    (!self.is_skipping).then(|| self.buffer[self.start..][..BEGINNING.min(self.max_bytes)].to_vec());
                self.is_skipping = true;
                self.buffer = Vec::new(); // gives the memory back
                (self.start, self.searched) = (0, 0);
                return beginning.map(Line::TooLong);
            };
            let (from, to) = (self.start, self.searched + offset);
            self.start = to + 1;
            self.searched = self.start;
            self.is_after_return = self.buffer[to] == b'\r';
            if std::mem::take(&mut self.is_skipping) {
                continue;
            }
            if to - from > self.max_bytes {
                return Some(Line::TooLong(self.buffer[from..][..BEGINNING.min(self.max_bytes)].to_vec()));
            }
            if to - from > AT_ONCE_BYTES {
                let rest = self.buffer.split_off(self.start);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                (self.start, self.searched) = (0, 0);
                line.truncate(to);
                line.drain(..from);
                return Some(Line::Whole(Cow::Owned(line)));
            }
            return Some(Line::Whole(Cow::Borrowed(&self.buffer[from..to])));
        }
    }

    /// How much there is of the line at hand.
    pub(super) fn pending_bytes(&self) -> usize {
        self.rest().len()
    }

    /// Throws the line at hand away, also what is still to come of it. How it begins.
    pub(super) fn skip_line(&mut self) -> Vec<u8> {
        let rest = self.rest();
        let beginning = rest[..BEGINNING.min(rest.len())].to_vec();
        self.is_skipping = true;
        self.buffer = Vec::new();
        (self.start, self.searched) = (0, 0);
        beginning
    }

    /// What is left when the stream has ended: a last line without its end.
    pub(super) fn rest(&self) -> &[u8] {
        if self.is_skipping { &[] } else { &self.buffer[self.start..] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `parts` one by one; each line, or `!` and the beginning of one that is too long.
    fn lines(max_bytes: usize, parts: &[&str]) -> Vec<String> {
        let mut lines = Lines::new(max_bytes);
        let mut found = Vec::new();
        for part in parts {
            lines.buffer().extend_from_slice(part.as_bytes());
            while let Some(line) = lines.next_line() {
                found.push(match line {
                    Line::Whole(line) => String::from_utf8_lossy(&line).into_owned(),
                    Line::TooLong(beginning) => format!("!{}", String::from_utf8_lossy(&beginning)),
                });
            }
        }
        found
    }

    #[test]
    fn bytes_are_cut_into_lines() {
        let table: [(&[&str], &[&str]); 7] = [
            (&["ab\ncd\n"], &["ab", "cd"]),
            (&["a", "b", "\n"], &["ab"]),
            (&["ab\ncd", "\nef"], &["ab", "cd"]),
            (&["\n\n"], &["", ""]),
            (&["1234567890\nok\n"], &["!12345", "ok"]),
            (&["123", "456", "7890", "12345", "\nok\n"], &["!12345", "ok"]),
            (&["123456", "78\n12345\n"], &["!12345", "12345"]),
        ];
        for (parts, expected) in table {
            assert_eq!(lines(5, parts), expected, "{parts:?}");
        }
    }
}
