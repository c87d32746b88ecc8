//! Doc comments from what servers say about their tools.
//!
//! **Invariant:** a comment ends where we end it, and holds no directive for the compiler.

use serde_json::Value;

use crate::shown::visible;

/// More of one text than this helps nobody who hovers over a name.
const MAX_BYTES: usize = 4096;
const MAX_LINES: usize = 100;
/// Longer defaults and patterns are left out.
const MAX_NOTE_BYTES: usize = 80;
/// What a type cannot say, in the order of the notes.
const NOTED: [&str; 11] = [
    "format",
    "pattern",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
];

/// Longer texts are left out of a line.
const MAX_LIMIT_BYTES: usize = 24;
const MAX_REMARK_BYTES: usize = 64;

/// What a call must know of a value besides its type, in a few characters: `≤ 50, default 20`.
pub(super) fn limits(schema: &Value) -> Option<String> {
    // Of `anyOf: [{…}, {"type": "null"}]`, which every optional parameter of a Python server is, the first.
    let members = ["anyOf", "oneOf", "allOf"].iter().filter_map(|name| schema[name].as_array()).flatten();
    let all: Vec<&Value> = std::iter::once(schema).chain(members.take(4)).collect();
    let found = |name: &str| all.iter().map(|schema| &schema[name]).find(|it| !it.is_null());
    let number = |name: &str| found(name).filter(|it| it.is_number());
    let mut limits = Vec::new();
    // That there is none of a thing, or one of it, goes without saying.
    let least = number("minimum").filter(|it| it.as_f64().is_some_and(|it| it.abs() > 1.0));
    limits.extend(least.map(|it| format!("≥ {it}")));
    limits.extend(number("maximum").map(|it| format!("≤ {it}")));
    limits.extend(number("exclusiveMaximum").map(|it| format!("< {it}")));
    limits.extend(number("maxItems").map(|it| format!("≤ {it} items")));
    for name in ["format", "pattern"] {
        let text = found(name).and_then(Value::as_str).filter(|text| text.len() <= MAX_LIMIT_BYTES);
        // Number formats say how many bits there are.
        limits.extend(
            text.filter(|text| !text.starts_with("int") && !matches!(*text, "binary" | "float" | "double")).map(safe),
        );
    }
    let default = found("default").filter(|it| matches!(it, Value::Number(_) | Value::Bool(_) | Value::String(_)));
    let default = default.map(Value::to_string).filter(|text| text.len() <= MAX_LIMIT_BYTES && text != "\"\"");
    limits.extend(default.map(|text| format!("default {}", safe(&text))));
    (!limits.is_empty()).then(|| limits.join(", "))
}

/// A description that is short and says more than the name: `Unix seconds`.
pub(super) fn remark(name: &str, schema: &Value) -> Option<String> {
    let text = schema["description"].as_str()?.trim().trim_end_matches('.');
    let name = name.to_lowercase();
    let says_nothing = |word: &str| {
        let word = word.to_lowercase();
        word.len() < 4 || name.contains(&word) || matches!(word.as_str(), "filter" | "optional")
    };
    let is_told = text.len() <= MAX_REMARK_BYTES
        && !text.contains('\n')
        && !text.split(|it: char| !it.is_alphanumeric()).all(says_nothing);
    is_told.then(|| safe(text))
}

/// The lines of a doc comment, safe to write.
#[derive(Debug, Default)]
pub(super) struct Comment {
    lines: Vec<String>,
}

impl Comment {
    /// A comment of somebody's text.
    pub(super) fn of_text(text: &str) -> Comment {
        let mut comment = Comment::default();
        comment.push_text(text);
        comment
    }

    /// What a property's schema says besides its type.
    pub(super) fn of_schema(schema: &Value) -> Comment {
        let mut comment = Comment::of_text(schema["description"].as_str().unwrap_or_default());
        let note = |&name: &&str| match &schema[name] {
            Value::String(text) if text != "binary" && text.len() <= MAX_NOTE_BYTES => Some(format!("{name}: {text}")),
            Value::Number(number) => Some(format!("{name}: {number}")),
            _ => None,
        };
        let notes: Vec<_> = NOTED.iter().filter_map(note).collect();
        comment.push_text(&notes.join(", "));
        if schema["deprecated"] == true {
            comment.lines.push("@deprecated".to_owned());
        }
        // A default of `null` only says once more that the argument may be left out.
        if let Some(default) = schema.get("default").filter(|default| !default.is_null() && is_small(default)) {
            comment.lines.push(format!("@default {}", safe(&default.to_string())));
        }
        comment
    }

    /// Writes the comment with a line break behind it, each line indented by so many spaces.
    pub(super) fn write(&self, out: &mut String, indent: usize) {
        let margin = &*" ".repeat(indent);
        match &self.lines[..] {
            [] => {}
            [line] => out.extend([margin, "/** ", line, " */\n"]),
            lines => {
                out.extend([margin, "/**\n"]);
                for line in lines {
                    out.extend([margin, if line.is_empty() { " *" } else { " * " }, line, "\n"]);
                }
                out.extend([margin, " */\n"]);
            }
        }
    }

    fn push_text(&mut self, text: &str) {
        let shown = &text[..text.floor_char_boundary(MAX_BYTES)];
        let mut lines: Vec<_> = shown.trim().split(['\n', '\u{2028}', '\u{2029}']).map(safe).collect();
        if shown.len() < text.len() || lines.len() > MAX_LINES {
            lines.truncate(MAX_LINES);
            lines.push("…".to_owned());
        }
        if lines.iter().any(|line| !line.is_empty()) {
            self.lines.extend(lines);
        }
    }
}

/// Looked at before it is printed: a default may be large.
fn is_small(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::String(text) => text.len() <= MAX_NOTE_BYTES,
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// One line of a comment. A tag in front would be read by editors, and `@ts-expect-error` by the
/// compiler.
fn safe(line: &str) -> String {
    let line = visible(line.trim_end()).replace('\t', "  ").replace("*/", "*\\/");
    let line = line.trim_end();
    match line.trim_start().strip_prefix('@') {
        Some(tag) => format!("\\@{tag}"),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(comment: &Comment) -> String {
        let mut out = String::new();
        comment.write(&mut out, 0);
        out
    }

    #[test]
    fn limits_are_told_in_a_few_characters() {
        #[rustfmt::skip]
        let table = [
            (json!({"type": "integer", "minimum": 1, "maximum": 50, "default": 20}), Some("≤ 50, default 20")),
            (json!({"anyOf": [{"type": "integer", "maximum": 50}, {"type": "null"}], "default": null}), Some("≤ 50")),
            (json!({"type": "number", "minimum": 1900, "exclusiveMaximum": 2100}), Some("≥ 1900, < 2100")),
            (json!({"type": "string", "format": "date-time"}), Some("date-time")),
            (json!({"type": "string", "pattern": "^\\d{4}-\\d{2}$"}), Some("^\\d{4}-\\d{2}$")),
            (json!({"type": "string", "pattern": "*/ alert() /*"}), Some("*\\/ alert() /*")),
            (json!({"type": "array", "maxItems": 5}), Some("≤ 5 items")),
            (json!({"type": "string", "enum": ["a", "b"], "default": "a"}), Some("default \"a\"")),
            (json!({"type": "boolean", "default": false}), Some("default false")),
            (json!({"type": "integer", "minimum": 0, "format": "int32"}), None),
            (json!({"type": "string", "default": "x".repeat(60)}), None),
            (json!({"type": "string", "default": ""}), None),
            (json!({"maximum": "50", "format": 5, "anyOf": 3}), None),
            (json!(true), None),
        ];
        for (schema, expected) in table {
            assert_eq!(limits(&schema).as_deref(), expected, "{schema}");
        }
    }

    #[test]
    fn descriptions_that_say_more_than_the_name_are_short_remarks() {
        #[rustfmt::skip]
        let table = [
            ("created_gte", "Unix seconds.", Some("Unix seconds")),
            ("issueKey", "The issue key", None),
            ("limit", "Limit", None),
            ("ids", "*/ comma separated", Some("*\\/ comma separated")),
            ("path", "One\ntwo lines", None),
            ("query", &"x".repeat(65), None),
        ];
        for (name, text, expected) in table {
            assert_eq!(remark(name, &json!({"description": text})).as_deref(), expected, "{text}");
        }
        assert_eq!(remark("a", &json!({"description": 5})), None);
    }

    #[test]
    fn foreign_text_stays_in_its_comment() {
        #[rustfmt::skip]
        let table = [
            ("",                            ""),
            (" \n\t\r\n ",                  ""),
            ("Reads.",                      "/** Reads. */\n"),
            ("  One.\r\n\n    two\t2  ",    "/**\n * One.\n *\n *     two  2\n */\n"),
            ("a */ b **// *",               "/** a *\\/ b **\\// * */\n"),
            ("a *\u{202e}/ b\0",            "/** a *\\u{202e}/ b\\u{0} */\n"),
            ("a\u{2028}b",                  "/**\n * a\n * b\n */\n"),
            ("@ts-expect-error",            "/** \\@ts-expect-error */\n"),
            ("a\n \u{feff}@ts-ignore",      "/**\n * a\n *  \\u{feff}@ts-ignore\n */\n"),
            ("x\u{e0041}\u{200b}",          "/** x\\u{e0041}\\u{200b} */\n"),
        ];
        for (text, expected) in table {
            assert_eq!(written(&Comment::of_text(text)), expected, "{text:?}");
        }
    }

    #[test]
    fn a_schema_tells_what_its_type_cannot() {
        #[rustfmt::skip]
        let table = [
            (json!({}),                                                 ""),
            (json!({"description": 5, "format": "binary"}),             ""),
            (json!({"description": "Which.", "default": null}),         "/** Which. */\n"),
            (json!({"minimum": 1, "maximum": 9, "format": "int32"}),    "/** format: int32, minimum: 1, maximum: 9 */\n"),
            (json!({"description": "Which.", "default": "*/"}),         "/**\n * Which.\n * @default \"*\\/\"\n */\n"),
            (json!({"default": false, "deprecated": true}),             "/**\n * @deprecated\n * @default false\n */\n"),
            (json!({"default": [1], "pattern": "x".repeat(81)}),        ""),
            (json!({"pattern": "^*/$"}),                                "/** pattern: ^*\\/$ */\n"),
            (json!(true),                                               ""),
        ];
        for (schema, expected) in table {
            assert_eq!(written(&Comment::of_schema(&schema)), expected, "{schema}");
        }
    }

    #[test]
    fn a_long_text_is_cut() {
        let comment = Comment::of_text(&"€".repeat(1_000_000));
        assert_eq!(comment.lines, ["€".repeat(MAX_BYTES / 3), "…".to_owned()]);
        let comment = Comment::of_text(&format!("a{}b", "\n".repeat(1000)));
        assert_eq!(comment.lines.len(), MAX_LINES + 1);
    }
}
