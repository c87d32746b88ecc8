//! Checking values against the schemas that servers give.
//!
//! Schemas are somebody else's: they may be broken, huge or hostile. One that cannot be compiled
//! checks nothing; none is ever fetched; and a check that would take long is not made
//! ([`super::schema_cost`]).

use jsonschema::{PatternOptions, ValidationError, Validator, error::ValidationErrorKind};
use pml_wire::ToolId;
use serde_json::Value;

use super::schema_cost::Costs;

/// Mistakes that one message names.
const MAX_MISTAKES: usize = 3;
/// Longest description of one mistake.
const MISTAKE_BYTES: usize = 300;
/// Steps a pattern may take, of those that can go back.
const PATTERN_STEPS: usize = 100_000;

/// Most steps that checking one value may take.
const MAX_STEPS: u64 = 20_000_000;
/// Steps that are over at once, in half a millisecond.
const QUICK_STEPS: u64 = 25_000;
/// Schemas of up to this size are compiled at once.
const QUICK_SCHEMA_BYTES: usize = 16 * 1024;

/// A compiled schema, or none.
#[derive(Debug)]
pub(super) struct Checker {
    compiled: Option<(Validator, Costs)>,
}

/// How long a check may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Not noticeably: on a thread that serves others.
    Quick,
    /// Up to half a second.
    Thorough,
}

/// Why there is no verdict: the check would take longer than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSlow;

/// The verdict of a check: fine, or what is wrong.
pub type Verdict = Result<(), String>;

impl Checker {
    /// Compiles the schema of `tool`: 2020-12 unless it names another draft.
    pub(super) fn new(tool: &ToolId, schema: &Value) -> Checker {
        let unused = |reason: &str| {
            tracing::warn!(%tool, reason, "a schema cannot be used, so nothing is checked against it");
            Checker { compiled: None }
        };
        let costs = match Costs::of(schema, schema.to_string().len()) {
            Ok(costs) => costs,
            Err(reason) => return unused(reason),
        };
        let options = jsonschema::options()
            .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(PATTERN_STEPS))
            .build(schema);
        match options {
            Ok(validator) => Checker { compiled: Some((validator, costs)) },
            Err(err) => unused(&err.to_string().chars().take(MISTAKE_BYTES).collect::<String>()),
        }
    }

    /// Says what is wrong with a value called `name`. `schema` is what this was compiled from.
    pub(super) fn check(&self, schema: &Value, name: &str, value: &Value, pace: Pace) -> Result<Verdict, TooSlow> {
        let Some((validator, costs)) = &self.compiled else { return Ok(Ok(())) };
        let most = match pace {
            Pace::Quick => QUICK_STEPS,
            Pace::Thorough => MAX_STEPS,
        };
        costs.steps(schema, value, most).map_err(|_| TooSlow)?;
        if validator.is_valid(value) {
            return Ok(Ok(()));
        }
        let mut mistakes = Vec::new();
        // A pattern that gave up has found nothing wrong.
        let gave_up =
            |error: &ValidationError<'_>| matches!(error.kind(), ValidationErrorKind::BacktrackLimitExceeded { .. });
        for error in validator.iter_errors(value).filter(|error| !gave_up(error)) {
            if mistakes.len() == MAX_MISTAKES {
                mistakes.push("…".to_owned());
                break;
            }
            let mut what = error.to_string();
            if what.len() > MISTAKE_BYTES {
                what.truncate(what.floor_char_boundary(MISTAKE_BYTES));
                what.push('…');
            }
            mistakes.push(format!("{}: {what}", path(name, &error.instance_path().to_string())));
        }
        Ok(if mistakes.is_empty() { Ok(()) } else { Err(mistakes.join("; ")) })
    }
}

/// Is a schema of this size compiled without holding anybody up?
pub(super) fn compiles_quickly(schema_bytes: usize) -> bool {
    schema_bytes <= QUICK_SCHEMA_BYTES
}

/// `/a/0/b-c` as `args.a[0]["b-c"]`.
fn path(name: &str, pointer: &str) -> String {
    let mut path = name.to_owned();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        let is_identifier = part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$')
            && !part.starts_with(|c: char| c.is_ascii_digit())
            && !part.is_empty();
        match part.parse::<usize>() {
            Ok(index) => path.push_str(&format!("[{index}]")),
            Err(_) if is_identifier => path.push_str(&format!(".{part}")),
            Err(_) => path.push_str(&format!("[{}]", Value::from(part))),
        }
    }
    path
}

/// How much of how many names is looked at for a hint.
const NEAR_CHARS: usize = 64;
const NEAR_NAMES: usize = 1000;

/// The names nearest to `name`, nearest first; at most three, none that is far off.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    // Names may be long and many, and this is only a hint.
    let short = |text: &str| text.chars().take(NEAR_CHARS).collect::<String>().to_lowercase();
    let wanted = short(name);
    let mut scored: Vec<_> = known
        .into_iter()
        .take(NEAR_NAMES)
        .map(|other| {
            let lower = short(other);
            let contains = !wanted.is_empty() && (lower.contains(&wanted) || wanted.contains(&lower));
            // Two letters changed places, or one is wrong, however short the name is.
            let is_slip = strsim::damerau_levenshtein(&wanted, &lower) <= 1 + wanted.chars().count() / 6;
            let score = strsim::jaro_winkler(&wanted, &lower).max(if is_slip { 0.8 } else { 0.0 });
            let score = score + if contains { 0.1 } else { 0.0 };
            (score, other)
        })
        .filter(|(score, _)| *score > 0.75)
        .collect();
    scored.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(other.1)));
    scored.truncate(3);
    scored.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The verdict; what is not checked is fine.
    fn check(schema: Value, value: Value) -> Verdict {
        let checker = Checker::new(&"s:t".parse().unwrap(), &schema);
        checker.check(&schema, "args", &value, Pace::Thorough).unwrap_or(Ok(()))
    }

    #[test]
    fn mistakes_have_a_path_and_an_expectation() {
        let schema = json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "lines": {"type": "array", "items": {"type": "integer"}}},
            "required": ["path"],
            "additionalProperties": false,
        });
        let table = [
            (json!({"path": "a"}), None),
            (json!({}), Some("args: \"path\" is a required property")),
            (json!({"path": 1}), Some("args.path: 1 is not of type \"string\"")),
            (json!({"path": "a", "lines": [1, "x"]}), Some("args.lines[1]: \"x\" is not of type \"integer\"")),
            (
                json!({"path": "a", "pth": 1}),
                Some("args: Additional properties are not allowed ('pth' was unexpected)"),
            ),
        ];
        for (value, expected) in table {
            assert_eq!(check(schema.clone(), value.clone()).err().as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn drafts_differ_and_nothing_is_fetched() {
        // An array of schemas under `items` is a tuple in draft-07, and no schema at all in 2020-12.
        let tuple = |draft: &str| json!({"$schema": draft, "properties": {"a": {"items": [{"type": "string"}]}}});
        assert!(check(tuple("http://json-schema.org/draft-07/schema#"), json!({"a": [1]})).is_err());
        assert!(check(json!({"properties": {"a": {"prefixItems": [{"type": "string"}]}}}), json!({"a": [1]})).is_err());
        // What cannot be compiled checks nothing.
        for schema in [json!({"$ref": "http://127.0.0.1:1/x.json"}), json!({"type": "strng"}), json!({"pattern": "("})]
        {
            assert_eq!(check(schema, json!({"a": 1})), Ok(()));
        }
    }

    #[test]
    fn a_hostile_pattern_does_not_hang() {
        let schema = json!({"properties": {"a": {"pattern": "^(?=(a+)+$)(a+)+\\1b$"}}});
        assert!(check(schema, json!({"a": "a".repeat(2000)})).is_err());
    }

    #[test]
    fn a_schema_that_explodes_is_not_followed() {
        // Each definition asks for the next one twice.
        let mut definitions = serde_json::Map::new();
        for level in 0..60 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            definitions.insert(format!("d{level}"), json!({"anyOf": [next, next]}));
        }
        definitions.insert("d60".to_owned(), json!({"type": "string"}));
        let schema = json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions});
        assert_eq!(check(schema, json!({"a": 1})), Ok(()));
        // One that comes back to itself twice explodes with the depth of the value.
        let branch = |key: &str| json!({"properties": {"a": {"$ref": "#/$defs/n"}}, "required": [key]});
        let schema = json!({"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [branch("b"), branch("c")]}}});
        let deep = (0..60).fold(json!({}), |inner, _| json!({"a": inner}));
        assert_eq!(check(schema.clone(), deep), Ok(()));
        assert!(check(schema.clone(), json!({"a": {}})).is_err());
        // An argument may be called like a keyword, and a reference may have another name.
        for schema in [
            json!({"properties": {"definitions": {"$ref": "#/$defs/n"}}, "$defs": schema["$defs"]}),
            json!({"$defs": {"n": {"$id": "n", "anyOf": [{"$ref": "n"}, {"$ref": "n"}]}}, "$ref": "n"}),
        ] {
            let deep = (0..60).fold(json!({}), |inner, _| json!({"a": inner}));
            assert_eq!(check(schema, json!({"definitions": deep})), Ok(()));
        }
        // An ordinary tree is checked at any depth that is seen in practice.
        let tree = json!({"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}}});
        let deep = (0..40).fold(json!({"kids": 1}), |inner, _| json!({"kids": [inner]}));
        assert!(check(tree, deep).is_err());
    }

    #[test]
    fn paths_are_written_as_in_a_program() {
        assert_eq!(path("args", "/a/0/b-c/x~1y"), r#"args.a[0]["b-c"]["x/y"]"#);
        assert_eq!(path("args", ""), "args");
    }

    #[test]
    fn near_names_are_found() {
        let known = ["read_file", "read_text_file", "write_file", "list_directory", "move_file"];
        assert_eq!(nearest("readFile", known).first(), Some(&"read_file"));
        assert_eq!(nearest("read_files", known)[0], "read_file");
        assert!(nearest("zzz", known).is_empty());
        assert_eq!(nearest("fxi", ["fix", "xyz"]), ["fix"]);
    }
}
