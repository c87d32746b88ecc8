//! Checking values against the schemas that servers give.
//!
//! Schemas are somebody else's: they may be broken, huge or hostile. One that cannot be compiled
//! checks nothing; none is ever fetched; and a check that would take long is not made
//! ([`super::schema_cost`]). [`super::schema_form`] has what they mean where the drafts do not say it,
//! [`super::mistakes`] the words for what is wrong.

use jsonschema::{PatternOptions, ValidationError, Validator, error::ValidationErrorKind};
use pml_wire::ToolId;
use serde_json::Value;

use super::{
    mistakes,
    schema_cost::Costs,
    schema_form::{Side, checked_form},
};

/// Longest reason why a schema cannot be used.
const REASON_BYTES: usize = 300;
/// Steps a pattern may take, of those that can go back.
const PATTERN_STEPS: usize = 100_000;

/// Most steps that checking one value may take.
const MAX_STEPS: u64 = 20_000_000;
/// Steps that are over at once, in half a millisecond.
const QUICK_STEPS: u64 = 25_000;
/// Schemas of up to this size are compiled at once.
const QUICK_SCHEMA_BYTES: usize = 16 * 1024;
/// Mistakes in values of schemas of up to this size are worded at once: the nearest of many names takes a while to find.
const QUICK_WORDS_BYTES: usize = 4 * 1024;

/// A compiled schema, or none.
#[derive(Debug)]
pub(super) struct Checker {
    compiled: Option<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    /// What was compiled.
    form: Value,
    validator: Validator,
    costs: Costs,
    is_worded_quickly: bool,
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
    /// Compiles the schema of `tool`: 2020-12 unless it names another draft. Its references are pointers.
    pub(super) fn new(tool: &ToolId, schema: &Value, side: Side) -> Checker {
        let unused = |reason: &str| {
            tracing::warn!(%tool, reason, "a schema cannot be used, so nothing is checked against it");
            Checker { compiled: None }
        };
        let form = checked_form(schema, side);
        let bytes = form.to_string().len();
        let costs = match Costs::of(&form, bytes) {
            Ok(costs) => costs,
            Err(reason) => return unused(reason),
        };
        let validator = jsonschema::options()
            .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(PATTERN_STEPS))
            // Drafts differ in whether a format is a claim or a check, and servers write claims.
            .should_validate_formats(false)
            .build(&form);
        match validator {
            Ok(validator) => {
                let is_worded_quickly = bytes <= QUICK_WORDS_BYTES;
                Checker { compiled: Some(Compiled { form, validator, costs, is_worded_quickly }) }
            }
            Err(err) => unused(&err.to_string().chars().take(REASON_BYTES).collect::<String>()),
        }
    }

    /// Says what is wrong with a value called `name`.
    pub(super) fn check(&self, name: &str, value: &Value, pace: Pace) -> Result<Verdict, TooSlow> {
        self.check_where(name, value, pace, |_| true)
    }

    /// Says what is wrong with the properties of an object called `name`, each by itself: more of them may come.
    pub(super) fn check_properties(&self, name: &str, value: &Value, pace: Pace) -> Result<Verdict, TooSlow> {
        let is_of_one = |error: &ValidationError<'_>| error.evaluation_path().as_str().starts_with("/properties/");
        self.check_where(name, value, pace, is_of_one)
    }

    /// Says what is wrong with a value called `name` of which some places are not known yet: whatever may stand at `holes`,
    /// JSON Pointers, is right.
    pub(super) fn check_but(
        &self,
        name: &str,
        value: &Value,
        holes: &[String],
        pace: Pace,
    ) -> Result<Verdict, TooSlow> {
        self.check_where(name, value, pace, |error| !holes.iter().any(|hole| depends_on(error, hole)))
    }

    fn check_where(
        &self,
        name: &str,
        value: &Value,
        pace: Pace,
        counts: impl Fn(&ValidationError<'_>) -> bool,
    ) -> Result<Verdict, TooSlow> {
        let Some(Compiled { form, validator, costs, is_worded_quickly }) = &self.compiled else { return Ok(Ok(())) };
        let most = match pace {
            Pace::Quick => QUICK_STEPS,
            Pace::Thorough => MAX_STEPS,
        };
        costs.steps(form, value, most).map_err(|_| TooSlow)?;
        if validator.is_valid(value) {
            return Ok(Ok(()));
        }
        if pace == Pace::Quick && !is_worded_quickly {
            return Err(TooSlow);
        }
        let errors = validator.iter_errors(value).filter(counts);
        Ok(mistakes::describe(form, name, errors).map_or(Ok(()), Err))
    }
}

/// May an error go away once the value at `hole` is known?
fn depends_on(error: &ValidationError<'_>, hole: &str) -> bool {
    use ValidationErrorKind::{
        AdditionalItems, AdditionalProperties, MaxItems, MaxProperties, MinItems, MinProperties, Required, Type,
    };
    let place = error.instance_path().as_str();
    let is_within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if is_within(place, hole) {
        return true;
    }
    // Of what is around the hole, its kind, its keys and how many elements it has are known.
    let is_known = matches!(
        error.kind(),
        Type { .. }
            | Required { .. }
            | AdditionalProperties { .. }
            | AdditionalItems { .. }
            | MinItems { .. }
            | MaxItems { .. }
            | MinProperties { .. }
            | MaxProperties { .. }
    );
    is_within(hole, place) && !is_known
}

/// Is a schema of this size compiled without holding anybody up?
pub(super) fn compiles_quickly(schema_bytes: usize) -> bool {
    schema_bytes <= QUICK_SCHEMA_BYTES
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
    use crate::catalog::references;

    /// The verdict; what is not checked is fine.
    fn check(mut schema: Value, value: Value) -> Verdict {
        references::localise(&mut schema);
        let checker = Checker::new(&"s:t".parse().unwrap(), &schema, Side::Arguments);
        checker.check("args", &value, Pace::Thorough).unwrap_or(Ok(()))
    }

    /// What is said of values of the argument `a`.
    fn check_argument(schema: Value, table: &[(Value, &str)]) {
        for (value, expected) in table {
            let verdict = check(json!({"properties": {"a": schema}}), json!({"a": value}));
            assert_eq!(verdict.err().unwrap_or_default(), *expected, "{schema} {value}");
        }
    }

    #[test]
    fn mistakes_have_a_path_and_an_expectation() {
        let schema = json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "lines": {"type": "array", "items": {"type": "integer"}}},
            "required": ["path"],
            "additionalProperties": false,
        });
        #[rustfmt::skip]
        let table = [
            (json!({"path": "a"}),                      ""),
            (json!({}),                                 "args.path: expected string, got nothing"),
            (json!({"path": 1}),                        "args.path: expected string, got 1"),
            (json!({"path": "a", "lines": [1, "x"]}),   "args.lines[1]: expected integer, got \"x\""),
            (json!({"path": "a", "lines": "[1]"}),      "args.lines: expected number[], got \"[1]\"; pass the value itself, not its JSON text"),
            (json!({"path": "a", "pth": 1}),            "args.pth: expected no such key, got 1; did you mean `path`?"),
            (json!({"path": "a", "zzz": {"b": 1}}),     "args.zzz: expected no such key, got an object with `b`; known are `lines`, `path`"),
        ];
        for (value, expected) in table {
            assert_eq!(check(schema.clone(), value.clone()).err().unwrap_or_default(), expected, "{value}");
        }
        // Where others may come, the name that was meant is said all the same.
        let schema = json!({"properties": {"path": {"type": "string"}}, "required": ["path"]});
        let said = check(schema, json!({"pth": "a"})).unwrap_err();
        assert_eq!(said, "args.path: expected string, got nothing; `pth` is not known, did you mean `path`?");
    }

    #[test]
    fn what_is_not_known_yet_is_right_and_the_rest_is_checked() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "edits": {"type": "array", "minItems": 2, "items": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
                "mode": {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, {"enum": ["x"]}]},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        let checker = Checker::new(&"s:t".parse().unwrap(), &schema, Side::Arguments);
        #[rustfmt::skip]
        let table = [
            (json!({"path": null}),                                vec!["/path"],              ""),
            (json!({"edits": null}),                               vec!["/edits"],             "args.path: expected string, got nothing"),
            (json!({"path": null, "pth": null}),                   vec!["/path", "/pth"],      "args.pth: expected no such key"),
            (json!({"path": "a", "edits": [{"n": null}, {"n": 1}]}), vec!["/edits/0/n"],       ""),
            (json!({"path": "a", "edits": [{"n": null}, {"n": "x"}]}), vec!["/edits/0/n"],     "args.edits[1].n: expected integer, got \"x\""),
            (json!({"path": "a", "edits": [{"n": null}]}),         vec!["/edits/0/n"],         "args.edits: expected at least 2 items"),
            (json!({"path": "a", "edits": [{"m": null}, {"n": 1}]}), vec!["/edits/0/m"],       "args.edits[0].n: expected number, got nothing"),
            (json!({"path": "a", "mode": {"a": null}}),            vec!["/mode/a"],            ""),
            (json!({"path": "a", "mode": {"b": 1}}),               vec![],                     "args.mode"),
            (json!({"path": 1, "mode": {"a": null}}),              vec!["/mode/a"],            "args.path: expected string, got 1"),
        ];
        for (value, holes, part) in table {
            let holes: Vec<_> = holes.into_iter().map(str::to_owned).collect();
            let said = checker.check_but("args", &value, &holes, Pace::Thorough).unwrap().err().unwrap_or_default();
            assert!(said.starts_with(part) && said.is_empty() == part.is_empty(), "{value}: {said}");
        }
    }

    #[test]
    fn what_came_does_not_hide_what_was_expected() {
        let schema = json!({"properties": {"a": {"type": "integer"}, "b": {"enum": ["on", "off"]}}});
        let long = "iVBORw0KGgo".repeat(10_000);
        let many: serde_json::Map<_, _> = (0..20).map(|n| (format!("key{n}"), json!(long))).collect();
        for value in [json!(long), json!([long]), json!(many)] {
            let said = check(schema.clone(), json!({"a": value, "b": value})).unwrap_err();
            assert!(said.contains("args.a: expected integer, got "), "{said}");
            assert!(said.contains("args.b: expected \"on\" | \"off\", got "), "{said}");
            assert!(said.len() < 500, "{said}");
        }
        let key = "k".repeat(100_000);
        let said =
            check(json!({"additionalProperties": {"type": "integer"}}), json!({(key.clone()): key})).unwrap_err();
        assert!(said.contains(": expected integer, got \"kkk") && said.len() < 1000, "{said}");
    }

    #[test]
    fn all_values_of_an_enum_are_named_and_the_nearest() {
        let methods = ["get", "get_diff", "get_status", "get_files", "get_check_runs", "get_reviews"];
        let listed = methods.map(|method| format!("\"{method}\"")).join(" | ");
        let near = format!("args.a: expected {listed}, got \"getCheckRuns\"; did you mean \"get_check_runs\"?");
        let far = format!("args.a: expected {listed}, got 7");
        check_argument(json!({"enum": methods}), &[(json!("getCheckRuns"), &near), (json!(7), &far)]);
        // Within a budget, and the nearest in any case.
        let many: Vec<_> = (0..10_000).map(|n| format!("value-{n}")).collect();
        let said = check(json!({"enum": many}), json!("valu-9999")).unwrap_err();
        assert!(said.contains("more), got \"valu-9999\"; did you mean \"value-999\"?"), "{said}");
        assert!(said.len() < 1500, "{}", said.len());
        // Not on a thread that serves others.
        let schema = json!({"enum": many});
        let checker = Checker::new(&"s:t".parse().unwrap(), &schema, Side::Arguments);
        assert_eq!(checker.check("args", &json!("valu-9999"), Pace::Quick), Err(TooSlow));
    }

    #[test]
    fn choices_say_what_was_expected() {
        let optional = |of: Value| json!({"anyOf": [of, {"type": "null"}]});
        check_argument(
            optional(json!({"type": "integer"})),
            &[(json!("5"), "args.a: expected integer | null, got \"5\""), (json!(null), "")],
        );
        check_argument(
            optional(json!({"enum": ["open", "closed"]})),
            &[(
                json!("close"),
                "args.a: expected \"open\" | \"closed\" | null, got \"close\"; did you mean \"closed\"?",
            )],
        );
        // The one form that the value can be of says what is wrong in it.
        check_argument(
            optional(json!({"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]})),
            &[
                (json!({"b": 1}), "args.a.b: expected string, got 1"),
                (json!({}), "args.a.b: expected string, got nothing"),
                (json!(true), "args.a: expected { b: string } | null, got true"),
            ],
        );
        check_argument(
            optional(json!({"type": "array", "items": optional(json!({"type": "integer", "minimum": 1}))})),
            &[
                (json!([1, null, 0]), "args.a[2]: expected a number of at least 1, got 0"),
                (json!(["x"]), "args.a[0]: expected integer | null, got \"x\""),
            ],
        );
        let form = |kind: &str, key: &str| json!({"type": "object", "properties": {"kind": {"const": kind}, key: {"type": "string"}}, "required": ["kind", key]});
        check_argument(
            json!({"oneOf": [form("file", "path"), form("web", "url")]}),
            &[
                (json!({"kind": "web"}), "args.a.url: expected string, got nothing"),
                (
                    json!({"kind": "db"}),
                    "args.a: expected { kind: \"file\"; path: string } | { kind: \"web\"; url: string }, got an object with `kind`",
                ),
            ],
        );
        check_argument(
            json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}),
            &[(json!(1), "args.a: expected exactly one of number to fit, got 1")],
        );
    }

    #[test]
    fn every_bound_says_what_was_expected() {
        #[rustfmt::skip]
        let table = [
            (json!({"minimum": 3}),             json!(1),           "a number of at least 3, got 1"),
            (json!({"exclusiveMaximum": 3}),    json!(3),           "a number under 3, got 3"),
            (json!({"multipleOf": 3}),          json!(4),           "a multiple of 3, got 4"),
            (json!({"minLength": 2}),           json!("a"),         "at least 2 characters, got \"a\""),
            (json!({"maxLength": 1}),           json!("ab"),        "at most 1 character, got \"ab\""),
            (json!({"pattern": "^a+$"}),        json!("b"),         "text that matches /^a+$/, got \"b\""),
            (json!({"minItems": 2}),            json!([1]),         "at least 2 items, got an array of 1"),
            (json!({"uniqueItems": true}),      json!([1, 1]),      "items that are all different, got an array of 2"),
            (json!({"contains": {"const": 1}}), json!([2]),         "an item that is 1, got an array of 1"),
            (json!({"maxProperties": 1}),       json!({"a": 1, "b": 2}), "an object with at most 1 key, got an object with `a`, `b`"),
            (json!({"propertyNames": {"maxLength": 1}}), json!({"ab": 1}), "names that are at most 1 character, got `ab`"),
            (json!({"not": {"type": "null"}}),  json!(null),        "something other than null, got null"),
            (json!(false),                      json!(1),           "nothing here, got 1"),
            (json!({"const": "x"}),             json!(1),           "\"x\", got 1"),
            (json!({"type": ["integer", "string"]}), json!(1.5),    "integer | string, got 1.5"),
        ];
        for (schema, value, expected) in table {
            let said = check(json!({"properties": {"a": schema}}), json!({"a": value})).unwrap_err();
            assert_eq!(said, format!("args.a: expected {expected}"), "{schema}");
        }
    }

    #[test]
    fn what_servers_mean_beyond_the_drafts_holds() {
        let is_fine = |schema: Value, value: Value| check(schema, value).is_ok();
        let draft7 = "http://json-schema.org/draft-07/schema#";
        // The server fills in what has a default.
        let scale =
            json!({"properties": {"scale": {"enum": ["css", "device"], "default": "css"}}, "required": ["scale"]});
        assert!(is_fine(scale.clone(), json!({})) && !is_fine(scale, json!({"scale": 1})));
        // OpenAPI's null.
        let null = json!({"properties": {"a": {"type": "string", "nullable": true}}});
        assert!(is_fine(null.clone(), json!({"a": null})) && !is_fine(null, json!({"a": 1})));
        // A format is a claim in every draft.
        assert!(is_fine(json!({"$schema": draft7, "properties": {"u": {"format": "uri"}}}), json!({"u": "x y"})));
        // However a reference is written, the rest is checked too, and so is what it leads to.
        for (reference, definition) in [
            ("#/$defs/List<S>", json!({"type": "string"})),
            ("#/$defs/List%3CS%3E", json!({"type": "string"})),
            ("#name", json!({"$anchor": "name", "type": "string"})),
            ("name.json", json!({"$id": "name.json", "type": "string"})),
        ] {
            for draft in [draft7, "https://json-schema.org/draft/2020-12/schema", "https://example.org/dialect"] {
                let schema = json!({"$schema": draft, "properties": {"a": {"$ref": reference}, "b": {"type": "null"}}, "$defs": {"List<S>": definition}});
                assert!(is_fine(schema.clone(), json!({"a": "x"})), "{schema}");
                assert!(!is_fine(schema.clone(), json!({"a": 1})), "{schema}");
                assert!(!is_fine(schema.clone(), json!({"b": 1})), "{schema}");
            }
        }
        let nowhere = json!({"properties": {"a": {"$ref": "https://example.org/x"}, "b": {"type": "null"}}});
        assert!(is_fine(nowhere.clone(), json!({"a": 1})) && !is_fine(nowhere, json!({"b": 1})));
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
    fn near_names_are_found() {
        let known = ["read_file", "read_text_file", "write_file", "list_directory", "move_file"];
        assert_eq!(nearest("readFile", known).first(), Some(&"read_file"));
        assert_eq!(nearest("read_files", known)[0], "read_file");
        assert!(nearest("zzz", known).is_empty());
        assert_eq!(nearest("fxi", ["fix", "xyz"]), ["fix"]);
    }
}
