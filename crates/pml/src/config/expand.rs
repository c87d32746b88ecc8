//! Variables in settings: `${NAME}`, `${NAME:-default}` and `$${` for `${` itself.

use std::ops::Range;

/// How deep a default may have variables with defaults in it.
const MAX_DEPTH: usize = 16;

/// Part of a text with variables in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// As it is. Where it stands for `$${`, it is `${`.
    Text(&'a str),
    /// What is between `${` and the `}` that belongs to it.
    Variable(&'a str),
}

/// The parts of a text. A `${` without its `}` is text.
pub(crate) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        if let Some(before) = rest[..start].strip_suffix('$') {
            pieces.extend([Piece::Text(before), Piece::Text("${")]);
            rest = &rest[start + 2..];
            continue;
        }
        let Some(Range { start: inner, end }) = inside(rest, start) else { break };
        pieces.extend([Piece::Text(&rest[..start]), Piece::Variable(&rest[inner..end])]);
        rest = &rest[end + 1..];
    }
    pieces.push(Piece::Text(rest));
    pieces.retain(|piece| *piece != Piece::Text(""));
    pieces
}

/// What is between the `${` at some place and its `}`. A default may have variables in it.
pub(crate) fn inside(text: &str, start: usize) -> Option<Range<usize>> {
    let mut depth = 0_usize;
    let bytes = text.as_bytes();
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'$' if bytes[at + 1..].starts_with(b"${") => {
                depth += 1;
                at += 2;
            }
            b'$' if bytes.get(at + 1) == Some(&b'{') => {
                depth += 1;
                at += 1;
            }
            b'}' if depth == 1 => return Some(start + 2..at),
            b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The name and the default of a variable. `${env:NAME}`, as some clients write it, means the same as `${NAME}`.
pub(crate) fn name_and_default(variable: &str) -> (&str, Option<&str>) {
    let variable = variable.strip_prefix("env:").unwrap_or(variable);
    variable.split_once(":-").map_or((variable, None), |(name, default)| (name, Some(default)))
}

/// A text in which nothing is a variable.
pub(crate) fn escape(text: &str) -> String {
    text.replace("${", "$${")
}

/// Puts the values of variables into a text. The error is the name of one that is not set.
pub(super) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    expand_within(text, lookup, 0)
}

fn expand_within(text: &str, lookup: &dyn Fn(&str) -> Option<String>, depth: usize) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    for piece in pieces(text) {
        let variable = match piece {
            Piece::Text(text) => {
                expanded.push_str(text);
                continue;
            }
            Piece::Variable(variable) => variable,
        };
        let (name, default) = name_and_default(variable);
        let value = if name.is_empty() { None } else { lookup(name) };
        match (value, default) {
            // An empty variable counts as none where there is a default, as in shells.
            (Some(value), None) => expanded.push_str(&value),
            (Some(value), Some(_)) if !value.is_empty() => expanded.push_str(&value),
            (_, Some(default)) if depth < MAX_DEPTH => {
                expanded.push_str(&expand_within(default, lookup, depth + 1)?);
            }
            (_, Some(default)) => expanded.push_str(default),
            (None, None) => return Err(name.to_owned()),
        }
    }
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_put_in_or_missed() {
        let lookup = |name: &str| match name {
            "HOME" => Some("/home/me".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let table = [
            ("plain $HOME", Ok("plain $HOME")),
            ("${HOME}/x", Ok("/home/me/x")),
            ("${env:HOME}", Ok("/home/me")),
            ("${env:HOME:-x}", Ok("/home/me")),
            ("a${NONE:-b}c", Ok("abc")),
            ("a${NONE:-}c", Ok("ac")),
            ("${EMPTY}", Ok("")),
            ("${EMPTY:-x}", Ok("x")),
            ("${HOME}${HOME:-x}", Ok("/home/me/home/me")),
            ("${NONE}", Err("NONE")),
            ("${HOME", Ok("${HOME")),
            ("${NONE:-${HOME}}/x", Ok("/home/me/x")),
            ("${NONE:-${ALSO_NONE:-a}b}c", Ok("abc")),
            ("${NONE:-${env:HOME}${EMPTY:-}}", Ok("/home/me")),
            ("${NONE:-${ALSO_NONE}}", Err("ALSO_NONE")),
            ("${HOME:-${NONE}}", Ok("/home/me")),
            ("$${HOME}", Ok("${HOME}")),
            ("a$${HOME}${HOME}", Ok("a${HOME}/home/me")),
            ("$$${HOME}", Ok("$${HOME}")),
            ("${NONE:-$${HOME}}", Ok("${HOME}")),
            ("${:-$}${HOME}", Ok("$/home/me")),
            ("$$ $HOME $", Ok("$$ $HOME $")),
            ("${NONE:-${HOME}", Ok("${NONE:-${HOME}")),
            ("$ {HOME}", Ok("$ {HOME}")),
        ];
        for (text, expected) in table {
            let actual = expand(text, &lookup);
            assert_eq!(actual.as_deref().map_err(String::as_str), expected, "{text}");
            assert_eq!(expand(&escape(text), &lookup).as_deref(), Ok(text), "escaped");
        }
        let deep = format!("{}x{}", "${NONE:-".repeat(100_000), "}".repeat(100_000));
        assert!(expand(&deep, &lookup).is_ok());
    }
}
