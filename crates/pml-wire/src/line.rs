//! JSON text that is one line to every reader.
//!
//! Line-framed transports (stdio pipes, server-sent events, JSON lines files) take a line break for the end of a
//! message. JSON allows line breaks between tokens, and some readers also end a line at characters that JSON allows inside
//! strings. Text that came from a server or a worker is re-used in messages to others, so without care one message
//! becomes several.
//!
//! **Invariant:** a [`Line`] holds no character that any common reader takes for the end of a line. Whoever writes to a
//! line-framed transport takes a `Line` and nothing else.

use std::{borrow::Cow, iter};

use memchr::{memchr2, memchr2_iter};
use serde::Serialize;

/// JSON text without line breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line(String);

impl Line {
    /// Makes one line of JSON text. The value it stands for stays the same.
    ///
    /// In JSON, `\n` and `\r` occur between tokens only and become spaces. U+0085, U+2028 and U+2029, at which Python's
    /// `splitlines` and Node's `readline` end a line, occur inside strings only and become escapes.
    pub fn new(json: String) -> Line {
        if breaks(json.as_bytes()).next().is_none() {
            return Line(json);
        }
        let mut line = String::with_capacity(json.len() + 16);
        let mut from = 0;
        for at in breaks(json.as_bytes()) {
            line.push_str(&json[from..at]);
            let found = json[at..].chars().next().expect("a break is a character");
            match found {
                '\n' | '\r' => line.push(' '),
                '\u{85}' => line.push_str("\\u0085"),
                '\u{2028}' => line.push_str("\\u2028"),
                _ => line.push_str("\\u2029"),
            }
            from = at + found.len_utf8();
        }
        line.push_str(&json[from..]);
        Line(line)
    }

    /// Serializes a value into one line.
    ///
    /// # Panics
    ///
    /// If the value cannot be serialized, such as a map whose keys are not strings.
    pub fn of(value: &impl Serialize) -> Line {
        Line::new(serde_json::to_string(value).expect("plain data serializes"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

/// JSON text as it comes in from a server or a worker, with spaces in place of the line breaks between tokens. Bytes that
/// are not JSON stay not JSON.
pub fn unbroken(json: &[u8]) -> Cow<'_, [u8]> {
    match memchr2(b'\n', b'\r', json) {
        None => Cow::Borrowed(json),
        Some(_) => {
            Cow::Owned(json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect())
        }
    }
}

/// Where the characters stand that some reader takes for the end of a line, in order.
fn breaks(text: &[u8]) -> impl Iterator<Item = usize> {
    let mut common = memchr2_iter(b'\n', b'\r', text).peekable();
    // The bytes that the others begin with.
    let mut rare = memchr2_iter(0xc2, 0xe2, text)
        .filter(|at| matches!(text[*at..], [0xc2, 0x85, ..] | [0xe2, 0x80, 0xa8 | 0xa9, ..]))
        .peekable();
    iter::from_fn(move || match (common.peek(), rare.peek()) {
        (Some(one), Some(other)) if one > other => rare.next(),
        (Some(_), _) => common.next(),
        (None, _) => rare.next(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Any JSON value, with characters that end lines in its strings and keys.
    fn values() -> impl Strategy<Value = Value> {
        let text = prop::collection::vec(
            prop_oneof![
                Just('\n'),
                Just('\r'),
                Just('\u{85}'),
                Just('\u{2028}'),
                Just('\u{2029}'),
                Just('"'),
                Just('\\'),
                any::<char>()
            ],
            0..12,
        )
        .prop_map(|chars| chars.into_iter().collect::<String>());
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((text.clone(), inner), 0..6)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    /// The value's JSON with white space wherever JSON allows it.
    fn spaced(value: &Value, spaces: &mut impl Iterator<Item = char>) -> String {
        let mut space = || spaces.by_ref().take(2).collect::<String>();
        let (before, after) = (space(), space());
        let inner = match value {
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| spaced(item, spaces)).collect();
                format!("[{}]", items.join(","))
            }
            Value::Object(entries) => {
                let entries: Vec<_> = entries
                    .iter()
                    .map(|(key, value)| format!("{}{}:{}", json!(key), before, spaced(value, spaces)))
                    .collect();
                format!("{{{}}}", entries.join(","))
            }
            other => other.to_string(),
        };
        format!("{before}{inner}{after}")
    }

    fn ends_a_line(c: char) -> bool {
        matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
    }

    proptest! {
        #[test]
        fn whatever_comes_in_one_line_goes_out_and_means_the_same(
            value in values(),
            spaces in prop::collection::vec(prop::sample::select(&[' ', '\t', '\n', '\r'][..]), 1..20),
        ) {
            let text = spaced(&value, &mut spaces.into_iter().cycle());
            let line = Line::new(text.clone());
            prop_assert!(!line.as_str().contains(ends_a_line), "{:?}", line);
            prop_assert_eq!(serde_json::from_str::<Value>(line.as_str()).unwrap(), value.clone());
            let unbroken = unbroken(text.as_bytes());
            prop_assert!(!unbroken.contains(&b'\n') && !unbroken.contains(&b'\r'));
            prop_assert_eq!(serde_json::from_slice::<Value>(&unbroken).unwrap(), value);
        }

        #[test]
        fn any_text_becomes_one_line(text in "\\PC*|[\n\r\u{2028}\u{85}\u{e2}a-c]*") {
            prop_assert!(!Line::new(text).as_str().contains(ends_a_line));
        }
    }

    #[test]
    fn breaks_are_found_wherever_they_stand() {
        for place in [0, 1, 254, 255, 256, 257, 511, 512, 1000] {
            for (found, expected) in
                [("\n", " "), ("\r", " "), ("\u{85}", "\\u0085"), ("\u{2028}", "\\u2028"), ("\u{2029}", "\\u2029")]
            {
                let (before, after) = ("é–".repeat(place / 5) + &"x".repeat(place % 5), "y".repeat(300));
                let line = Line::new(format!("{before}{found}{after}"));
                assert_eq!(line.as_str(), format!("{before}{expected}{after}"), "{place} {found:?}");
            }
        }
        assert_eq!(Line::of(&json!({"a": "\n\u{2028}"})).as_str(), r#"{"a":"\n\u2028"}"#);
    }
}
