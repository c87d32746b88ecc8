//! How much work it is to check a value against a schema, counted before it is done.
//!
//! Both are somebody else's. A few hundred bytes of schema can ask for more steps than there are atoms, by references that
//! branch on each level, and a pattern can take a minute on one long string. So the parts of the schema that apply are
//! walked over the value first, without checking anything, until a budget is spent.
//!
//! A step takes about 20 ns at worst, measured with patterns whose automata are large.

use std::collections::HashMap;

use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value};

use super::references;

/// Largest schema that is used.
const MAX_SCHEMA_BYTES: usize = 512 * 1024;
/// Heaviest pattern that is used, and heaviest sum of all patterns of a schema.
const MAX_WEIGHT: u64 = 2000;
const MAX_WEIGHTS: u64 = 100_000;
/// Steps for looking at one value with one part of a schema.
const VISIT: u64 = 4;
/// Steps of a pattern that can go back, besides those for each byte: its own limit.
const BACKTRACKING: u64 = 200_000;
/// Deepest that references are followed without getting deeper into the value.
const MAX_DEPTH: usize = 300;

/// What is known of a schema before any value is.
#[derive(Debug)]
pub(super) struct Costs {
    /// How heavy each pattern is, by its text; absent for those that can go back.
    weights: HashMap<String, u64>,
}

/// The work is more than was allowed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

impl Costs {
    /// Looks at a schema. The message says why it cannot be used.
    pub(super) fn of(schema: &Value, bytes: usize) -> Result<Costs, &'static str> {
        if bytes > MAX_SCHEMA_BYTES {
            return Err("it is too large");
        }
        let mut costs = Costs { weights: HashMap::new() };
        costs.collect(schema)?;
        match costs.weights.values().sum::<u64>() > MAX_WEIGHTS {
            true => Err("its patterns are too complex"),
            false => Ok(costs),
        }
    }

    fn collect(&mut self, part: &Value) -> Result<(), &'static str> {
        match part {
            Value::Array(items) => items.iter().try_for_each(|item| self.collect(item)),
            Value::Object(keys) => keys.iter().try_for_each(|(key, value)| {
                match (key.as_str(), value) {
                    ("pattern", Value::String(pattern)) => self.weigh(pattern)?,
                    ("patternProperties", Value::Object(patterns)) => {
                        patterns.keys().try_for_each(|pattern| self.weigh(pattern))?;
                    }
                    _ => {}
                }
                self.collect(value)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn weigh(&mut self, pattern: &str) -> Result<(), &'static str> {
        // What this parser does not know goes back and forth, and has a limit of its own.
        let Ok(hir) = regex_syntax::parse(pattern) else { return Ok(()) };
        match weight(&hir) {
            weight if weight > MAX_WEIGHT => Err("a pattern is too complex"),
            weight => {
                self.weights.insert(pattern.to_owned(), weight);
                Ok(())
            }
        }
    }

    /// Counts the steps of checking `value` against `schema`, from which these costs were taken.
    pub(super) fn steps(&self, schema: &Value, value: &Value, most: u64) -> Result<u64, TooMuch> {
        let mut meter = Meter { costs: self, root: schema, left: most };
        meter.visit(schema, value, 0)?;
        Ok(most - meter.left)
    }
}

/// About how many states the automaton of a pattern has.
fn weight(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        // A range beyond ASCII takes several.
        HirKind::Class(Class::Unicode(class)) => class.ranges().len() as u64 * if class.is_ascii() { 1 } else { 3 },
        HirKind::Class(Class::Bytes(class)) => class.ranges().len() as u64,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.saturating_add(1)).max(1);
            weight(&repetition.sub).saturating_mul(u64::from(times))
        }
        HirKind::Capture(capture) => weight(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().map(weight).fold(1, u64::saturating_add),
    }
}

/// Walks a schema over a value and spends what checking would.
struct Meter<'a> {
    costs: &'a Costs,
    root: &'a Value,
    left: u64,
}

impl<'a> Meter<'a> {
    fn spend(&mut self, steps: u64) -> Result<(), TooMuch> {
        self.left = self.left.checked_sub(steps).ok_or(TooMuch)?;
        Ok(())
    }

    fn visit(&mut self, schema: &Value, value: &Value, depth: usize) -> Result<(), TooMuch> {
        self.spend(VISIT)?;
        if depth > MAX_DEPTH {
            return Err(TooMuch);
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        for (keyword, part) in keywords {
            self.keyword(keywords, keyword, part, value, depth + 1)?;
        }
        Ok(())
    }

    fn keyword(
        &mut self,
        schema: &Map<String, Value>,
        keyword: &str,
        part: &Value,
        value: &Value,
        depth: usize,
    ) -> Result<(), TooMuch> {
        match (keyword, part, value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target), _) => {
                match references::target(self.root, target) {
                    Some(found) => self.visit(found, value, depth),
                    // Nothing is fetched, so it leads nowhere.
                    None => Ok(()),
                }
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts), _) => {
                parts.iter().try_for_each(|part| self.visit(part, value, depth))
            }
            ("not" | "if" | "then" | "else", part, _) => self.visit(part, value, depth),
            ("dependentSchemas" | "dependencies", Value::Object(parts), _) => {
                parts.values().try_for_each(|part| self.visit(part, value, depth))
            }
            ("properties", Value::Object(parts), Value::Object(entries)) => {
                self.spend(parts.len().min(entries.len()) as u64)?;
                parts.iter().try_for_each(|(key, part)| match entries.get(key) {
                    Some(entry) => self.visit(part, entry, depth),
                    None => Ok(()),
                })
            }
            ("patternProperties", Value::Object(parts), Value::Object(entries)) => {
                for (pattern, part) in parts {
                    for (key, entry) in entries {
                        self.pattern(pattern, key)?;
                        self.visit(part, entry, depth)?;
                    }
                }
                Ok(())
            }
            ("propertyNames", part, Value::Object(entries)) => {
                entries.keys().try_for_each(|key| self.visit(part, &Value::from(key.as_str()), depth))
            }
            ("additionalProperties" | "unevaluatedProperties", part, Value::Object(entries)) => {
                let known = schema.get("properties").and_then(Value::as_object);
                let is_other = |key: &str| known.is_none_or(|known| !known.contains_key(key));
                self.spend(entries.len() as u64)?;
                entries
                    .iter()
                    .filter(|(key, _)| keyword != "additionalProperties" || is_other(key))
                    .try_for_each(|(_, entry)| self.visit(part, entry, depth))
            }
            ("items" | "prefixItems", Value::Array(parts), Value::Array(items)) => {
                parts.iter().zip(items).try_for_each(|(part, item)| self.visit(part, item, depth))
            }
            ("items" | "additionalItems" | "contains" | "unevaluatedItems", part, Value::Array(items)) => {
                items.iter().try_for_each(|item| self.visit(part, item, depth))
            }
            ("uniqueItems", _, items @ Value::Array(_)) => self.spend(VISIT * values(items)),
            ("const", _, value) => self.spend(values(value)),
            ("enum", Value::Array(allowed), value) => self.spend((allowed.len() as u64).saturating_mul(values(value))),
            ("pattern", Value::String(pattern), Value::String(text)) => self.pattern(pattern, text),
            ("format" | "minLength" | "maxLength", _, Value::String(text)) => self.spend(text.len() as u64),
            _ => Ok(()),
        }
    }

    fn pattern(&mut self, pattern: &str, text: &str) -> Result<(), TooMuch> {
        let bytes = text.len() as u64 + 1;
        match self.costs.weights.get(pattern) {
            Some(weight) => self.spend(bytes.saturating_mul(weight / 16 + 1)),
            None => self.spend(BACKTRACKING + bytes.saturating_mul(4)),
        }
    }
}

/// How many values there are in a value; of a long text, one for every few bytes.
fn values(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(values).sum::<u64>(),
        Value::Object(entries) => 1 + entries.values().map(values).sum::<u64>(),
        Value::String(text) => 1 + text.len() as u64 / 64,
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MOST: u64 = 20_000_000;

    fn steps(schema: &Value, value: &Value) -> Result<u64, TooMuch> {
        let mut schema = schema.clone();
        references::localise(&mut schema);
        Costs::of(&schema, schema.to_string().len()).unwrap().steps(&schema, value, MOST)
    }

    #[test]
    fn ordinary_values_cost_little_and_more_of_them_more() {
        let item = json!({"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}});
        let schema =
            json!({"properties": {"items": {"type": "array", "items": item}, "text": {"pattern": "^[a-z ]*$"}}});
        let value = |count: usize| json!({"items": vec![json!({"id": 1, "name": "x"}); count], "text": "some words"});
        let (one, many) = (steps(&schema, &value(1)).unwrap(), steps(&schema, &value(1000)).unwrap());
        assert!(one < 200 && many > 500 * one / 10 && many < 50_000, "{one} {many}");
        // Content that no pattern applies to costs nothing but its visit.
        let file = json!({"properties": {"path": {"pattern": "^/"}, "content": {"type": "string"}}});
        assert!(steps(&file, &json!({"path": "/a", "content": "x".repeat(10_000_000)})).unwrap() < 100);
    }

    #[test]
    fn what_explodes_is_too_much() {
        let mut definitions = Map::new();
        for level in 0..60 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            definitions.insert(format!("d{level}"), json!({"anyOf": [next, next]}));
        }
        definitions.insert("d60".to_owned(), json!({"type": "string"}));
        let branch = |key: &str| json!({"properties": {"a": {"$ref": "#/$defs/n"}}, "required": [key]});
        let deep = (0..60).fold(json!({}), |inner, _| json!({"a": inner}));
        let table = [
            (json!({"$ref": "#/$defs/d0", "$defs": definitions}), json!(1)),
            (json!({"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [branch("b"), branch("c")]}}}), deep),
            (json!({"$ref": "#"}), json!(1)),
            (json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}), json!(1)),
            (
                json!({"$ref": "#n", "$defs": {"n": {"$anchor": "n", "anyOf": [{"$ref": "#n"}, {"$ref": "#n"}]}}}),
                json!(1),
            ),
            (json!({"$defs": {"n": {"$id": "n", "anyOf": [{"$ref": "n"}, {"$ref": "n"}]}}, "$ref": "n"}), json!(1)),
            (json!({"pattern": format!("(?:{}){}b", "a?".repeat(500), "a".repeat(500))}), json!("a".repeat(1_000_000))),
            (json!({"patternProperties": {"(?:a?){500}b": {}}}), json!({"a".repeat(1_000_000): 1})),
            (json!({"propertyNames": {"pattern": "(?:a?){500}b"}}), json!({"a".repeat(1_000_000): 1})),
            (json!({"items": {"enum": (0..50_000).collect::<Vec<_>>()}}), json!(vec![1; 1000])),
            (json!({"items": {"pattern": "^(?=(a+)+$)"}}), json!(vec!["a"; 1000])),
        ];
        for (schema, value) in table {
            assert_eq!(
                steps(&schema, &value),
                Err(TooMuch),
                "{}",
                &schema.to_string()[..60.min(schema.to_string().len())]
            );
        }
    }

    #[test]
    fn names_and_encoded_places_are_followed() {
        let text = json!("x".repeat(1000));
        for target in ["#/$defs/a%20b", "#name", "other"] {
            let defined = json!({"$anchor": "name", "$id": "other", "pattern": "^x*$"});
            let schema = json!({"$ref": target, "$defs": {"a b": defined}});
            assert!(steps(&schema, &text).unwrap() > 1000, "{target}");
        }
        assert!(steps(&json!({"$ref": "https://example.org/x"}), &text).unwrap() < 100);
    }

    #[test]
    fn schemas_that_cannot_be_used_are_refused_before_they_are_compiled() {
        let refused = |schema: Value| Costs::of(&schema, schema.to_string().len()).unwrap_err();
        assert_eq!(
            refused(json!({"pattern": format!("(?:{}){}b", "a?".repeat(20_000), "a".repeat(20_000))})),
            "a pattern is too complex"
        );
        assert_eq!(refused(json!({"pattern": "(?:(?:a{1,100}){1,100}){1,100}"})), "a pattern is too complex");
        let many: Map<_, _> =
            (0..2000).map(|n| (format!("p{n}"), json!({"pattern": format!("[a-z]{{1,90}}{n}")}))).collect();
        assert_eq!(refused(json!({"properties": many})), "its patterns are too complex");
        assert_eq!(refused(json!({"description": "x".repeat(1 << 20)})), "it is too large");
    }
}
