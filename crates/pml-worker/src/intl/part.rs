//! Pieces of a formatted text, as `formatToParts` shows them.

use std::borrow::Cow;

/// A piece of text and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// As ECMA-402 calls it, such as `integer`.
    pub(crate) kind: &'static str,
    pub(crate) text: Cow<'static, str>,
    /// What else is known: the unit in a relative time, or the side of a range.
    pub(crate) note: Option<&'static str>,
}

impl Part {
    pub(crate) fn new(kind: &'static str, text: impl Into<Cow<'static, str>>) -> Part {
        Part { kind, text: text.into(), note: None }
    }

    pub(crate) fn literal(text: impl Into<Cow<'static, str>>) -> Part {
        Part::new("literal", text)
    }
}

/// Adds a part, unless it is empty. Literals that meet become one.
pub(super) fn push(parts: &mut Vec<Part>, part: Part) {
    if part.text.is_empty() {
        return;
    }
    if let Some(last) = parts.last_mut()
        && last.kind == "literal"
        && part.kind == "literal"
        && last.note == part.note
    {
        last.text.to_mut().push_str(&part.text);
        return;
    }
    parts.push(part);
}

/// The text of all parts.
pub(super) fn joined(parts: &[Part]) -> String {
    parts.iter().map(|part| &*part.text).collect()
}

/// Puts parts in the places of a pattern's `{0}`, `{1}`, ….
pub(super) fn fill(pattern: &str, mut places: Vec<Vec<Part>>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some(open) = rest.find('{') {
        let index = rest[open + 1..].chars().next().and_then(|digit| digit.to_digit(10));
        let (Some(index), Some("}")) = (index, rest.get(open + 2..open + 3)) else { break };
        push(&mut parts, Part::literal(rest[..open].to_owned()));
        for part in places.get_mut(index as usize).map(std::mem::take).unwrap_or_default() {
            push(&mut parts, part);
        }
        rest = &rest[open + 3..];
    }
    push(&mut parts, Part::literal(rest.to_owned()));
    parts
}
