//! Text of servers and programs, made fit to be shown to a model or a terminal.
//!
//! Some characters say to a reader what nobody sees: control characters drive a terminal, zero-width and tag characters
//! spell a text that only a model reads, bidirectional overrides turn what is seen around. [`visible`] writes each of them
//! as an escape (`\u{202e}`), which is also how a program would write it. Line breaks and tabs stay, and so does what
//! honest text needs: one joiner within a word or an emoji, one variation selector behind its base.
//!
//! Where JSON text is shown, [`visible_json`] writes JSON escapes instead, so that the value stays the same.
//!
//! **Invariant:** the functions here are idempotent, and what they return holds no character of [`is_hidden`] but those
//! that honest text needs.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Is this a character that cannot be seen, or that changes how others are seen? Line breaks and tabs are among them: who
/// shows text of several lines keeps those by [`visible`].
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{13430}'..='\u{1345f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            // Tags, the other variation selectors, and what is reserved for more of the kind.
            | '\u{e0000}'..='\u{e0fff}')
}

/// A text with every character that cannot be seen written as `\u{…}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |_| true,
        |out, character| {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
        },
    )
}

/// The same of a JSON text, with JSON's own escapes: its value stays what it was. Control characters are escaped in
/// JSON anyway.
pub fn visible_json(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |character| !character.is_ascii_control() || character == '\x7f',
        |out, character| {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        },
    )
}

/// How many characters of a text [`visible`] writes as escapes.
pub fn count_hidden(text: &str) -> usize {
    if is_plain(text) { 0 } else { harmful(text).count() }
}

/// The same of all texts and keys in a JSON value.
pub fn count_hidden_in(value: &Value) -> usize {
    match value {
        Value::String(text) => count_hidden(text),
        Value::Array(items) => items.iter().map(count_hidden_in).sum(),
        Value::Object(members) => members.iter().map(|(key, member)| count_hidden(key) + count_hidden_in(member)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Makes every text and every key in a JSON value visible. How many characters that were.
pub fn clean(value: &mut Value) -> usize {
    match value {
        Value::String(text) => clean_text(text),
        Value::Array(items) => items.iter_mut().map(clean).sum(),
        Value::Object(members) => {
            let in_keys: usize = members.keys().map(|key| count_hidden(key)).sum();
            if in_keys > 0 {
                let before = std::mem::take(members);
                *members = before.into_iter().map(|(key, member)| (visible(&key).into_owned(), member)).collect();
            }
            in_keys + members.values_mut().map(clean).sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Makes a text visible in its place. How many characters that were.
pub fn clean_text(text: &mut String) -> usize {
    let count = count_hidden(text);
    if count > 0 {
        *text = visible(text).into_owned();
    }
    count
}

/// Keywords of JSON Schema whose values are compared, referred to or sent back, so that they must stay as they are.
const EXACT: [&str; 13] = [
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveRef",
    "$ref",
    "const",
    "default",
    "dependentRequired",
    "enum",
    "pattern",
    "required",
    "x-mcp-header",
];
/// Keywords whose members are named by the schema's author, each a schema.
const NAMED: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// Makes the texts of a JSON schema visible that are written for readers: descriptions, titles, examples and whatever
/// else is no part of what a value must be. The names of properties and the values that a call repeats stay exact.
pub fn clean_schema(schema: &mut Value) {
    match schema {
        Value::String(text) => drop(clean_text(text)),
        Value::Array(items) => items.iter_mut().for_each(clean_schema),
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                match member {
                    _ if EXACT.contains(&key.as_str()) => {}
                    Value::Object(named) if NAMED.contains(&key.as_str()) => named.values_mut().for_each(clean_schema),
                    member => clean_schema(member),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Makes what a server says about a tool, a prompt or a resource visible, but for what clients send back: names,
/// addresses and the exact parts of schemas. `_meta` is between the server and programs.
pub fn clean_listed(item: &mut Map<String, Value>) {
    for (key, value) in item.iter_mut() {
        match (key.as_str(), value) {
            ("uri" | "uriTemplate" | "_meta", _) => {}
            ("inputSchema" | "outputSchema", schema) => clean_schema(schema),
            ("arguments", Value::Array(arguments)) => {
                for (key, value) in arguments.iter_mut().filter_map(Value::as_object_mut).flatten() {
                    if key != "name" {
                        clean(value);
                    }
                }
            }
            (_, value) => drop(clean(value)),
        }
    }
}

/// Checks that a name can be told from others by looking at it. The error says why not.
pub fn check_name(name: &str) -> Result<(), String> {
    if let Some(character) = name.chars().find(|c| is_hidden(*c) || is_blank(*c)) {
        return Err(format!("the name `{}` holds U+{:04X}, which cannot be seen", visible(name), u32::from(character)));
    }
    if name.trim() != name {
        return Err(format!("the name `{name}` begins or ends with a space"));
    }
    let mut words = name.split(|c: char| !c.is_alphanumeric());
    if words.any(|word| word.contains(|c: char| c.is_ascii_alphabetic()) && word.contains(looks_latin)) {
        return Err(format!("the name `{name}` mixes Latin letters with letters that look like them"));
    }
    Ok(())
}

/// Spaces that are not the usual one, and characters that no font has.
fn is_blank(character: char) -> bool {
    (character.is_whitespace() && character != ' ')
        || matches!(character, '\u{2800}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..)
}

/// Letters of other alphabets, and styled ones, that pass for Latin letters. Within one word of Latin letters they have
/// no honest use.
fn looks_latin(character: char) -> bool {
    matches!(character,
        '\u{400}'..='\u{52f}' | '\u{13a0}'..='\u{13ff}' | '\u{a4d0}'..='\u{a4ff}' | '\u{ab70}'..='\u{abbf}'
        | '\u{ff21}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}')
        || "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧανιορυϲϳՕԼՏՍօոսհցզ".contains(character)
}

/// Has a text nothing but printable ASCII, line feeds and tabs? Most have, and are not looked at again.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'))
}

/// A text with each harmful character that is `wanted` written by `escape`.
fn escaped(text: &str, wanted: impl Fn(char) -> bool, escape: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut done = 0;
    for (at, character) in harmful(text).filter(|(_, character)| wanted(*character)) {
        out.push_str(&text[done..at]);
        escape(&mut out, character);
        done = at + character.len_utf8();
    }
    match done {
        0 => Cow::Borrowed(text),
        _ => {
            out.push_str(&text[done..]);
            Cow::Owned(out)
        }
    }
}

/// The characters of a text that cannot be seen and that honest text does not need, with their places.
fn harmful(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut before = None;
    let mut characters = text.char_indices().peekable();
    std::iter::from_fn(move || {
        loop {
            let (at, character) = characters.next()?;
            let next = characters.peek().map(|(_, next)| *next);
            let is_kept = !is_hidden(character) || is_honest(before, character, next);
            before = is_kept.then_some(character);
            if !is_kept {
                return Some((at, character));
            }
        }
    })
}

/// May a hidden character stay between these two?
fn is_honest(before: Option<char>, character: char, next: Option<char>) -> bool {
    let is_seen = |c: Option<char>| c.is_some_and(|c| !c.is_ascii() && !is_hidden(c) && !c.is_whitespace());
    match character {
        '\n' | '\t' => true,
        '\r' => next == Some('\n'),
        // Behind an emoji with its selector as well.
        '\u{200c}' | '\u{200d}' => (is_seen(before) || before == Some('\u{fe0f}')) && is_seen(next),
        '\u{fe0e}' | '\u{fe0f}' => {
            is_seen(before)
                || (next == Some('\u{20e3}') && before.is_some_and(|c| c.is_ascii_digit() || "#*".contains(c)))
        }
        // Mongolian letters have variants of their own.
        '\u{180b}'..='\u{180d}' | '\u{180f}' => before.is_some_and(|c| ('\u{1820}'..='\u{18aa}').contains(&c)),
        _ => false,
    }
}

/// `1 tool`, `2 tools`.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_seen_is_written_as_an_escape() {
        #[rustfmt::skip]
        let table = [
            ("plain\n\ttext ~",             "plain\n\ttext ~"),
            ("größe 漢字 🐙 \u{a0}",        "größe 漢字 🐙 \u{a0}"),
            ("\x1b[2Jx\r",                  "\\u{1b}[2Jx\\u{d}"),
            ("a\r\nb\rc",                   "a\r\nb\\u{d}c"),
            ("\0\x08\x7f\u{85}\u{9b}1m",    "\\u{0}\\u{8}\\u{7f}\\u{85}\\u{9b}1m"),
            ("a\u{202e}b\u{2066}c\u{61c}",  "a\\u{202e}b\\u{2066}c\\u{61c}"),
            ("a\u{200b}b\u{feff}\u{2060}",  "a\\u{200b}b\\u{feff}\\u{2060}"),
            ("a\u{ad}b\u{34f}\u{3164}\u{115f}", "a\\u{ad}b\\u{34f}\\u{3164}\\u{115f}"),
            ("x\u{e0041}\u{e007f}\u{e0100}", "x\\u{e0041}\\u{e007f}\\u{e0100}"),
            ("a\u{2028}b\u{2029}\u{fff9}",  "a\\u{2028}b\\u{2029}\\u{fff9}"),
            // What honest text needs stays, once.
            ("می\u{200c}خواهم क\u{94d}\u{200d}ष", "می\u{200c}خواهم क\u{94d}\u{200d}ष"),
            ("👩\u{200d}👧 👩\u{200d}❤\u{fe0f}\u{200d}👨", "👩\u{200d}👧 👩\u{200d}❤\u{fe0f}\u{200d}👨"),
            ("1\u{fe0f}\u{20e3} ❤\u{fe0f} ☎\u{fe0e}", "1\u{fe0f}\u{20e3} ❤\u{fe0f} ☎\u{fe0e}"),
            ("a\u{200d}b \u{200d}👧",       "a\\u{200d}b \\u{200d}👧"),
            ("é\u{200d}\u{200d}é",          "é\\u{200d}\\u{200d}é"),
            ("❤\u{fe0f}\u{fe0f}a\u{fe0f}1\u{fe0f}", "❤\u{fe0f}\\u{fe0f}a\\u{fe0f}1\\u{fe0f}"),
            ("😀\u{fe00}\u{fe01}",          "😀\\u{fe00}\\u{fe01}"),
            ("a\u{fe0f}\u{200d}é",          "a\\u{fe0f}\\u{200d}é"),
        ];
        for (text, expected) in table {
            let shown = visible(text);
            assert_eq!(shown, expected, "{text:?}");
            assert_eq!(visible(&shown), shown, "twice is once: {text:?}");
            assert_eq!(shown.matches("\\u{").count(), count_hidden(text), "{text:?}");
        }
    }

    #[test]
    fn json_keeps_its_value() {
        for text in ["a\u{202e}b\x1b\x7f", "\u{e0041}\u{9b}", "👩\u{200d}👧", "plain", "a\r\nb"] {
            let json = json!([text, { text: text }]).to_string();
            let shown = visible_json(&json);
            let hidden: Vec<_> = harmful(&shown).collect();
            assert!(hidden.is_empty(), "{hidden:?}");
            assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), json!([text, { text: text }]));
        }
        assert_eq!(visible_json("\"\u{e0041}\""), r#""\udb40\udc41""#);
        assert_eq!(visible_json("{\r \"a\": 1 }"), "{\r \"a\": 1 }", "what is between values is no text");
    }

    #[test]
    fn values_are_cleaned_to_the_last_key() {
        let mut value = json!({ "a\u{200b}": ["\x1b", { "b": "c" }], "n": 1 });
        assert_eq!(count_hidden_in(&value), 2);
        assert_eq!(clean(&mut value), 2);
        assert_eq!(value, json!({ "a\\u{200b}": ["\\u{1b}", { "b": "c" }], "n": 1 }));
        assert_eq!(clean(&mut value), 0);
    }

    #[test]
    fn a_schema_keeps_what_a_call_repeats() {
        let mut schema = json!({
            "description": "\u{e0041}",
            "x-note": ["\u{200b}"],
            "properties": {
                "enum": { "title": "\u{202e}", "enum": ["\u{200b}", { "description": "\u{200b}" }], "pattern": "\u{feff}" },
                "k\u{200b}": { "items": { "$comment": "\u{200b}" }, "default": "\u{200b}", "examples": ["\u{200b}"] },
            },
            "required": ["k\u{200b}"],
        });
        clean_schema(&mut schema);
        let expected = json!({
            "description": "\\u{e0041}",
            "x-note": ["\\u{200b}"],
            "properties": {
                "enum": { "title": "\\u{202e}", "enum": ["\u{200b}", { "description": "\u{200b}" }], "pattern": "\u{feff}" },
                "k\u{200b}": { "items": { "$comment": "\\u{200b}" }, "default": "\u{200b}", "examples": ["\\u{200b}"] },
            },
            "required": ["k\u{200b}"],
        });
        assert_eq!(schema, expected);
    }

    #[test]
    fn what_clients_send_back_is_listed_exactly() {
        let mut item = json!({
            "name": "\u{200b}", "title": "\u{200b}", "uri": "a:\u{200b}", "_meta": { "k": "\u{200b}" },
            "annotations": { "title": "\x1b" }, "inputSchema": { "title": "\u{200b}", "const": "\u{200b}" },
            "arguments": [{ "name": "\u{200b}", "description": "\u{200b}" }],
        });
        clean_listed(item.as_object_mut().unwrap());
        let expected = json!({
            "name": "\\u{200b}", "title": "\\u{200b}", "uri": "a:\u{200b}", "_meta": { "k": "\u{200b}" },
            "annotations": { "title": "\\u{1b}" }, "inputSchema": { "title": "\\u{200b}", "const": "\u{200b}" },
            "arguments": [{ "name": "\u{200b}", "description": "\\u{200b}" }],
        });
        assert_eq!(item, expected);
    }

    #[test]
    fn a_name_is_what_it_looks_like() {
        for name in ["read_file", "a:b", "größe-x", "my files", "get_данные", "データ_get", "🐙", "Δt", "ёлка"]
        {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for (name, part) in [
            ("read\u{200b}", "holds U+200B"),
            ("\u{202e}daer", "`\\u{202e}daer` holds U+202E"),
            ("a\u{e0041}", "U+E0041"),
            ("a\tb", "U+0009"),
            ("a\u{a0}b", "U+00A0"),
            ("a\u{e000}", "U+E000"),
            (" read", "a space"),
            ("r\u{435}ad", "mixes Latin"),
            ("x_\u{ff52}ead", "mixes Latin"),
        ] {
            let why = check_name(name).unwrap_err();
            assert!(why.contains(part), "{name:?}: {why}");
        }
    }
}
