//! The user's own rules: what else is a secret, and what is none.
//!
//! Patterns are regular expressions of the `regex` crate, which matches in linear time; their size is bounded when they
//! are read.

use std::{fmt, ops::Range};

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::finding::{Finding, Kind, MAX_NAME_BYTES, is_name_byte};

/// Most rules and most allowed patterns.
const MAX_PATTERNS: usize = 100;
const MAX_PATTERN_BYTES: usize = 1000;
/// Most memory of one compiled pattern.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// The `[trace.sanitize]` table, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SanitizeFile {
    /// Texts that are removed besides the built-in ones.
    pub rules: Vec<RuleFile>,
    /// Patterns of texts that stay although a rule would remove them. A pattern must match the whole of what was found.
    pub allow: Vec<String>,
}

/// One `[[trace.sanitize.rules]]` table, as written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleFile {
    /// The name in the marker: lower-case letters, digits and hyphens.
    pub name: String,
    /// What is removed; only its first group, if it has one.
    pub pattern: String,
}

/// Rules of the user, checked.
#[derive(Clone, Default)]
pub struct Rules {
    file: SanitizeFile,
    custom: Vec<(Kind, Regex)>,
    allow: Vec<Regex>,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl PartialEq for Rules {
    fn eq(&self, other: &Rules) -> bool {
        self.file == other.file
    }
}

impl Eq for Rules {}

impl Rules {
    /// Checks the table and compiles its patterns. The error says what is wrong with which key.
    pub fn new(file: SanitizeFile) -> Result<Rules, String> {
        for (key, count) in [("rules", file.rules.len()), ("allow", file.allow.len())] {
            if count > MAX_PATTERNS {
                return Err(format!(
                    "`trace.sanitize.{key}` has {count} patterns, but may have at most {MAX_PATTERNS}"
                ));
            }
        }
        let mut custom = Vec::new();
        for RuleFile { name, pattern } in &file.rules {
            if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_name_byte) {
                return Err(format!(
                    "`trace.sanitize.rules` has the name {name:?}, but names are up to {MAX_NAME_BYTES} lower-case letters, digits and hyphens"
                ));
            }
            let regex =
                compile(pattern).map_err(|why| format!("the pattern of `{name}` in `trace.sanitize.rules` {why}"))?;
            if regex.is_match("") {
                return Err(format!("the pattern of `{name}` in `trace.sanitize.rules` matches the empty text"));
            }
            custom.push((Kind::Secret(name.clone().into()), regex));
        }
        let allow = file.allow.iter().map(|pattern| {
            compile(&format!("^(?:{pattern})$"))
                .map_err(|why| format!("the pattern {pattern:?} in `trace.sanitize.allow` {why}"))
        });
        let allow = allow.collect::<Result<_, _>>()?;
        Ok(Rules { file, custom, allow })
    }

    /// Tells what the user's own rules find.
    pub(super) fn find(&self, text: &str, mut found: impl FnMut(Range<usize>, Kind)) {
        for (kind, regex) in &self.custom {
            for captures in regex.captures_iter(text) {
                if let Some(part) = captures.get(1).or_else(|| captures.get(0)) {
                    found(part.range(), kind.clone());
                }
            }
        }
    }

    /// Has the user said that this may stay?
    pub(super) fn allows(&self, text: &str, finding: &Finding) -> bool {
        !self.allow.is_empty() && text.get(finding.span.clone()).is_some_and(|found| self.allows_text(found))
    }

    pub(super) fn allows_text(&self, found: &str) -> bool {
        self.allow.iter().any(|pattern| pattern.is_match(found))
    }
}

fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(format!("has {} bytes, but may have at most {MAX_PATTERN_BYTES}", pattern.len()));
    }
    RegexBuilder::new(pattern).size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES).build().map_err(
        |err| match err {
            regex::Error::CompiledTooBig(_) => "is too large when it is compiled".to_owned(),
            err => format!("is no regular expression: {err}"),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(name: &str, pattern: &str) -> Result<Rules, String> {
        let rule = RuleFile { name: name.to_owned(), pattern: pattern.to_owned() };
        Rules::new(SanitizeFile { rules: vec![rule], allow: Vec::new() })
    }

    #[test]
    fn rules_are_checked() {
        let table = [
            ("employee", "EMP-[0-9]{6}", None),
            ("Employee", "x", Some("lower-case")),
            ("", "x", Some("lower-case")),
            ("a", "x*", Some("empty text")),
            ("a", "(", Some("no regular expression")),
            ("a", "(?:a{1000}){1000}", Some("too large")),
        ];
        for (name, pattern, expected) in table {
            match (rules(name, pattern), expected) {
                (Ok(_), None) => {}
                (Err(message), Some(part)) => assert!(message.contains(part), "{message}"),
                (result, _) => panic!("{name} {pattern}: {result:?}"),
            }
        }
        assert!(rules("a", &"x".repeat(2000)).unwrap_err().contains("at most 1000"));
        let many = SanitizeFile { allow: vec!["x".to_owned(); 101], ..SanitizeFile::default() };
        assert!(Rules::new(many).unwrap_err().contains("at most 100"));
    }

    #[test]
    fn only_the_first_group_is_found() {
        let rules = rules("id", "employee ([0-9]+)").unwrap();
        let mut found = Vec::new();
        rules.find("employee 123 and employee 45", |span, _| found.push(span));
        assert_eq!(found, [9..12, 26..28]);
    }
}
