//! Where the value behind a name begins and ends.

use std::ops::Range;

use super::{
    joint::Joint,
    names::{MAX_NAME, is_upper_name},
    shape::DOTTED,
};

/// Longest value that is looked for the end of.
const MAX_VALUE: usize = 4 * 1024;

/// A value and what surrounds it.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) span: Range<usize>,
    pub(super) is_quoted: bool,
}

pub(super) fn value(bytes: &[u8], at: usize, joint: Joint, name: &Range<usize>) -> Option<Value> {
    let rest = bytes.get(at..)?;
    if joint == Joint::Element {
        let length = rest.iter().take(MAX_VALUE).position(|byte| *byte == b'<')?;
        let text = &rest[..length];
        let text = text.strip_prefix(b"![CDATA[").unwrap_or(text);
        return (!text.is_empty()).then_some(Value { span: at..at + length, is_quoted: true });
    }
    if joint == Joint::Cell {
        return cell(bytes, at, name);
    }
    // `\"…\"`: text that was escaped as a whole; and `"""…"""`.
    let slashes = rest.iter().take(8).take_while(|byte| **byte == b'\\').count();
    if let Some(quote @ (b'"' | b'\'' | b'`')) = rest.get(slashes).copied() {
        let is_triple = slashes == 0 && rest.len() > 6 && rest[1] == quote && rest[2] == quote;
        let open = slashes + if is_triple { 3 } else { 1 };
        let end = quoted_end(&rest[open..], quote, slashes)?;
        return (end > 0).then_some(Value { span: at + open..at + open + end, is_quoted: true });
    }
    let is_query = matches!(name.start.checked_sub(1).map(|before| bytes[before]), Some(b'?' | b'&' | b';'));
    let is_environment = joint == Joint::Tight && is_upper_name(&bytes[name.clone()]) && !is_query;
    let get = |at: usize| rest.get(at).copied().unwrap_or(b' ');
    let ends = |(index, byte): (usize, &u8)| match byte {
        byte if byte.is_ascii_whitespace() => true,
        b'"' | b'\'' | b'`' | b'<' | b'\\' => true,
        b'>' => joint != Joint::Flag,
        b'#' => joint == Joint::Tight && is_query,
        // `a&user=bob` in a form whose first field this is.
        b'&' => joint == Joint::Tight && !is_environment && (is_query || is_field(&rest[index + 1..])),
        b'|' => !is_environment && matches!(get(index + 1), b' ' | b'|' | b'\n'),
        b',' | b';' | b')' | b']' | b'}' => !is_environment || bytes[..name.start].ends_with(b"${"),
        // What follows in a script without spaces.
        0xe2..=0xef => index > 0 && (name.end > 0 && bytes[name.end - 1] >= 0x80 || joint == Joint::Is),
        _ => false,
    };
    let length = rest.iter().enumerate().take(MAX_VALUE).position(ends).unwrap_or(rest.len().min(MAX_VALUE));
    (length > 0).then_some(Value { span: at..at + length, is_quoted: false })
}

pub(super) fn line_length(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take(MAX_VALUE)
        .position(|byte| matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'`'))
        .unwrap_or(bytes.len().min(MAX_VALUE))
}

/// Does the next field of a form begin here?
fn is_field(rest: &[u8]) -> bool {
    let name = DOTTED.run(rest, 0, MAX_NAME);
    name > 0 && rest.get(name) == Some(&b'=')
}

/// The cell behind the one with the name.
fn cell(bytes: &[u8], at: usize, name: &Range<usize>) -> Option<Value> {
    let rest = &bytes[at..bytes.len().min(at + 512)];
    let length = rest.iter().position(|byte| matches!(byte, b'|' | b'\n')).unwrap_or(rest.len());
    // A pipe of a shell is no table.
    let head = &bytes[name.start.saturating_sub(32)..name.start];
    let line = head.iter().rposition(|byte| *byte == b'\n').map_or(head, |at| &head[at + 1..]);
    (rest.get(length) == Some(&b'|') || line.contains(&b'|')).then_some(())?;
    let text = &rest[..length];
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'`' | b'*' | b'"' | b'\'');
    let left = text.iter().take_while(|byte| is_blank(byte)).count();
    let right = text[left..].iter().rev().take_while(|byte| is_blank(byte)).count();
    (left + right < length).then_some(Value { span: at + left..at + length - right, is_quoted: true })
}

/// Where the quoted text ends. Without its closing quote it ends with the line.
fn quoted_end(rest: &[u8], quote: u8, slashes: usize) -> Option<usize> {
    let mut at = 0;
    let mut seen = 0;
    while let Some(byte) = rest.get(at).filter(|_| at < MAX_VALUE) {
        match *byte {
            b'\\' => seen += 1,
            found if found == quote && (seen == slashes || slashes == 0 && seen % 2 == 0) => {
                return Some(at - seen.min(slashes));
            }
            b'\n' if quote != b'`' => return Some(at),
            _ => seen = 0,
        }
        if *byte == quote {
            seen = 0;
        }
        at += 1;
    }
    Some(at)
}
