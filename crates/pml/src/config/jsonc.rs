//! JSON as people write it: with comments, and commas before a bracket.

use std::ops::Range;

/// A text without what JSON does not allow. Spaces stand in its place, so that every byte keeps its
/// offset, line and column.
#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) text: String,
    /// Where a comma before a bracket was, in order.
    pub(crate) last_commas: Vec<usize>,
    /// Where comments were, in order. The end of a line is not part of its comment.
    pub(crate) comments: Vec<Range<usize>>,
}

/// Takes comments, commas before a bracket and a byte order mark out of a text.
pub(crate) fn plain(text: &str) -> Plain {
    let mut out = text.as_bytes().to_vec();
    let mut last_commas = Vec::new();
    let mut comments = Vec::new();
    let mut index = 0;
    if text.starts_with('\u{feff}') {
        index = '\u{feff}'.len_utf8();
        out[..index].fill(b' ');
    }
    // A comma that may turn out to be the last one.
    let mut comma = None;
    while index < out.len() {
        match out[index] {
            b'"' => {
                comma = None;
                index += 1;
                while index < out.len() && out[index] != b'"' {
                    index += if out[index] == b'\\' { 2 } else { 1 };
                }
            }
            b'/' if matches!(out.get(index + 1), Some(b'/' | b'*')) => {
                let length = match out[index + 1] {
                    b'/' => text[index..].find('\n'),
                    _ => text[index + 2..].find("*/").map(|length| length + 4),
                };
                let end = length.map_or(out.len(), |length| index + length);
                for byte in out[index..end].iter_mut().filter(|byte| **byte != b'\n') {
                    *byte = b' ';
                }
                comments.push(index..end);
                index = end;
                continue;
            }
            b',' => comma = Some(index),
            b']' | b'}' => {
                if let Some(at) = comma.take() {
                    out[at] = b' ';
                    last_commas.push(at);
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        index += 1;
    }
    // Only whole characters were replaced, so nothing is lost here.
    let text = String::from_utf8_lossy(&out).into_owned();
    Plain { text, last_commas, comments }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn comments_and_last_commas_are_passed_over() {
        let table = [
            (
                "{\"a\": 1, // one\n \"b\": [1, 2,], /* two, } */ \"c\": \"// no /* comment, ]\",}",
                r#"{"a":1,"b":[1,2],"c":"// no /* comment, ]"}"#,
            ),
            (r#"{"a":"\\",}"#, r#"{"a":"\\"}"#),
            (r#"{"a":"\"//",/**/}"#, r#"{"a":"\"//"}"#),
            ("{}//", "{}"),
            ("/* a */ {} /* b", "{}"),
            ("/*/ not over */ {}", "{}"),
            ("\u{feff}{\"ä\": 1 /* ö */}", "{\"ä\":1}"),
        ];
        for (text, expected) in table {
            let plain = plain(text);
            assert_eq!(plain.text.len(), text.len(), "{text}");
            let value: Value = serde_json::from_str(&plain.text).unwrap_or_else(|err| panic!("{text}: {err}"));
            assert_eq!(value.to_string(), expected, "{text}");
        }
    }

    #[test]
    fn no_text_is_too_strange() {
        for text in ["", "/", "\"", "\"\\", "\"\\ä", "/*", "/*/", ",]", "/* ä", "\u{feff}"] {
            assert_eq!(plain(text).text.len(), text.len(), "{text}");
        }
    }
}
