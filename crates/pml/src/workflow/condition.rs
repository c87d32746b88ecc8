//! When a task runs: a small condition over values, never code.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::reference::{Reference, has_name};
use crate::catalog::nearest;

/// How deep conditions nest.
const MAX_DEPTH: usize = 16;
const KEYS: [&str; 12] = ["ref", "exists", "equals", "in", "contains", "gt", "gte", "lt", "lte", "not", "all", "any"];

/// What must hold for a task to run.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Every one of the tests of the value holds.
    Value {
        reference: Reference,
        tests: Vec<Test>,
    },
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// Is there a value that is not null?
    Exists(bool),
    Equals(Value),
    /// Is it one of these?
    In(Vec<Value>),
    /// A part of a text, or an element of an array.
    Contains(Value),
    /// Numbers, or texts by their characters.
    Order(Order, Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// What is wrong with a condition as it is written: the path within it, and why.
pub(super) type Mistake = (String, String);

impl Condition {
    /// Reads a condition, and notes what is wrong with it.
    pub fn parse(value: &Value) -> Result<Condition, Mistake> {
        read(value, "", 0)
    }

    /// The references in it.
    pub fn references(&self) -> Vec<&Reference> {
        match self {
            Condition::Value { reference, .. } => vec![reference],
            Condition::Not(inner) => inner.references(),
            Condition::All(all) | Condition::Any(all) => all.iter().flat_map(Condition::references).collect(),
        }
    }

    /// Does it hold? `find` gives a value, or `None` if there is none; all but `exists` need one.
    pub fn holds(&self, find: &mut impl FnMut(&Reference) -> Result<Option<Value>, String>) -> Result<bool, String> {
        match self {
            Condition::Not(inner) => Ok(!inner.holds(find)?),
            Condition::All(all) => {
                for one in all {
                    if !one.holds(find)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Condition::Any(any) => {
                for one in any {
                    if one.holds(find)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Condition::Value { reference, tests } => {
                let value = find(reference)?;
                for test in tests {
                    if !test.holds(reference, value.as_ref())? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

impl Test {
    fn holds(&self, reference: &Reference, value: Option<&Value>) -> Result<bool, String> {
        if let Test::Exists(wanted) = self {
            return Ok(value.is_some_and(|value| !value.is_null()) == *wanted);
        }
        let value = value
            .ok_or_else(|| format!("there is nothing at `{reference}`; test it with \"exists\" if that may be so"))?;
        let unfit = |what: &str| Err(format!("`{reference}` is {}, which {what}", kind(value)));
        match self {
            Test::Exists(_) => Ok(true),
            Test::Equals(other) => Ok(is_equal(value, other)),
            Test::In(others) => Ok(others.iter().any(|other| is_equal(value, other))),
            Test::Contains(part) => match (value, part) {
                (Value::String(text), Value::String(part)) => Ok(text.contains(part)),
                (Value::Array(items), part) => Ok(items.iter().any(|item| is_equal(item, part))),
                (_, part) => unfit(&format!("cannot contain {}", kind(part))),
            },
            Test::Order(order, other) => {
                let compared = match (value, other) {
                    (Value::Number(one), Value::Number(other)) => compare(one, other),
                    (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
                    _ => return unfit(&format!("cannot be compared with {}", kind(other))),
                };
                Ok(compared.is_some_and(|compared| match order {
                    Order::Greater => compared == Ordering::Greater,
                    Order::GreaterOrEqual => compared != Ordering::Less,
                    Order::Less => compared == Ordering::Less,
                    Order::LessOrEqual => compared != Ordering::Greater,
                }))
            }
        }
    }
}

fn read(value: &Value, path: &str, depth: usize) -> Result<Condition, Mistake> {
    let wrong = |message: String| (path.to_owned(), message);
    if depth > MAX_DEPTH {
        return Err(wrong(format!("conditions nest at most {MAX_DEPTH} deep")));
    }
    let Value::Object(entries) = value else {
        let example = r#"{"ref": "$OUTPUT[task].count", "gt": 3}"#;
        return Err(wrong(format!("a condition is an object such as {example}, not {}", kind(value))));
    };
    if let Some(unknown) = entries.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(wrong(unknown_key(unknown, KEYS)));
    }
    let list = |key: &str, value: &Value| {
        let items = value.as_array().filter(|items| !items.is_empty());
        let items = items.ok_or_else(|| (format!("{path}.{key}"), "it must be a list of conditions".to_owned()))?;
        let read = |(index, item): (usize, &Value)| read(item, &format!("{path}.{key}[{index}]"), depth + 1);
        items.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()
    };
    let combined = ["not", "all", "any"].into_iter().find_map(|key| Some((key, entries.get(key)?)));
    match combined {
        Some(_) if entries.len() > 1 => Err(wrong("`not`, `all` and `any` stand alone in a condition".to_owned())),
        Some(("not", inner)) => Ok(Condition::Not(Box::new(read(inner, &format!("{path}.not"), depth + 1)?))),
        Some(("all", value)) => Ok(Condition::All(list("all", value)?)),
        Some((_, value)) => Ok(Condition::Any(list("any", value)?)),
        None => read_tests(entries, path),
    }
}

fn read_tests(entries: &Map<String, Value>, path: &str) -> Result<Condition, Mistake> {
    let at = |key: &str| format!("{path}.{key}");
    let reference = entries.get("ref").ok_or_else(|| (path.to_owned(), "it needs a `ref` to look at".to_owned()))?;
    let text = reference.as_str().ok_or_else(|| (at("ref"), "it must be a reference".to_owned()))?;
    let reference = Reference::parse(text).map_err(|message| (at("ref"), message))?;
    let mut tests = Vec::new();
    for (key, value) in entries.iter().filter(|(key, _)| *key != "ref") {
        if value.as_str().is_some_and(has_name) {
            return Err((at(key), "a value is compared with a literal, not with a reference".to_owned()));
        }
        tests.push(match (key.as_str(), value) {
            ("exists", Value::Bool(wanted)) => Test::Exists(*wanted),
            ("exists", _) => return Err((at(key), "it must be true or false".to_owned())),
            ("equals", value) => Test::Equals(value.clone()),
            ("in", Value::Array(values)) => Test::In(values.clone()),
            ("in", _) => return Err((at(key), "it must be a list of values".to_owned())),
            ("contains", value) => Test::Contains(value.clone()),
            (key, value @ (Value::Number(_) | Value::String(_))) => {
                let order = match key {
                    "gt" => Order::Greater,
                    "gte" => Order::GreaterOrEqual,
                    "lt" => Order::Less,
                    _ => Order::LessOrEqual,
                };
                Test::Order(order, value.clone())
            }
            (key, value) => return Err((at(key), format!("it must be a number or a text, not {}", kind(value)))),
        });
    }
    match tests.is_empty() {
        true => Err((path.to_owned(), "it needs a test, such as \"equals\", \"exists\" or \"gt\"".to_owned())),
        false => Ok(Condition::Value { reference, tests }),
    }
}

/// What is said of a key that is not known.
pub(super) fn unknown_key<const N: usize>(key: &str, known: [&str; N]) -> String {
    let key = super::reference::shown(key);
    match nearest(&key, known).first() {
        Some(near) => format!("`{key}` is no known key; did you mean `{near}`?"),
        None => format!("`{key}` is no known key; known are `{}`", known.join("`, `")),
    }
}

/// Are two values the same? Numbers are compared by what they are, not by how they are written.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other) == Some(Ordering::Equal),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has_same = |(key, value): (&String, &Value)| other.get(key).is_some_and(|other| is_equal(value, other));
            one.len() == other.len() && one.iter().all(has_same)
        }
        (one, other) => one == other,
    }
}

fn compare(one: &serde_json::Number, other: &serde_json::Number) -> Option<Ordering> {
    let whole =
        |number: &serde_json::Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

/// What a value is, in a word.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(condition: Value, value: Option<Value>) -> Result<bool, String> {
        Condition::parse(&condition).unwrap().holds(&mut |_| Ok(value.clone()))
    }

    #[test]
    fn conditions_hold_or_do_not() {
        let on = |test: Value| {
            let mut condition = json!({ "ref": "$OUTPUT[a].x" });
            condition.as_object_mut().unwrap().extend(test.as_object().unwrap().clone());
            condition
        };
        #[rustfmt::skip]
        let table = [
            (json!({"equals": 1.0}),             json!(1),            true),
            (json!({"equals": [1, {"a": 2}]}),   json!([1.0, {"a": 2.0}]), true),
            (json!({"equals": "1"}),             json!(1),            false),
            (json!({"equals": null}),            json!(null),         true),
            (json!({"in": ["a", 2]}),            json!(2),            true),
            (json!({"contains": "b"}),           json!("abc"),        true),
            (json!({"contains": 2}),             json!([1, 2]),       true),
            (json!({"contains": 3}),             json!([1, 2]),       false),
            (json!({"gt": 9007199254740992_u64}), json!(9007199254740993_u64), true),
            (json!({"gte": 3, "lt": 5}),         json!(3),            true),
            (json!({"gte": 3, "lt": 5}),         json!(5),            false),
            (json!({"lte": "b"}),                json!("a"),          true),
            (json!({"exists": true}),            json!(0),            true),
            (json!({"exists": true}),            json!(null),         false),
        ];
        for (test, value, expected) in table {
            assert_eq!(holds(on(test.clone()), Some(value.clone())), Ok(expected), "{test} {value}");
            let not = json!({ "not": on(test.clone()) });
            assert_eq!(holds(not, Some(value.clone())), Ok(!expected), "not {test} {value}");
        }
        assert_eq!(holds(on(json!({"exists": false})), None), Ok(true));
        let (yes, no) = (on(json!({"equals": 1})), on(json!({"equals": 2})));
        assert_eq!(holds(json!({"all": [yes, no]}), Some(json!(1))), Ok(false));
        assert_eq!(holds(json!({"any": [no, yes]}), Some(json!(1))), Ok(true));
    }

    #[test]
    fn what_cannot_be_tested_is_an_error_not_a_guess() {
        let order = json!({"ref": "$OUTPUT[a].x", "gt": 3});
        assert!(holds(order.clone(), None).unwrap_err().contains("nothing at `$OUTPUT[a].x`"));
        assert!(holds(order.clone(), Some(json!("4"))).unwrap_err().contains("a text, which cannot be compared"));
        assert!(holds(order, Some(json!(null))).is_err());
        assert!(
            holds(json!({"ref": "$ARGS", "contains": 1}), Some(json!("x1"))).unwrap_err().contains("cannot contain")
        );
    }

    #[test]
    fn mistakes_say_where_and_what() {
        let mut deep = json!({"ref": "$ARGS", "exists": true});
        for _ in 0..20 {
            deep = json!({ "not": deep });
        }
        #[rustfmt::skip]
        let table = [
            (json!("x > 3"),                                   "",            "a condition is an object such as"),
            (json!({"ref": "$OUTPUT[a]", "equal": 1}),          "",            "did you mean `equals`?"),
            (json!({"ref": "$OUTPUT[a]"}),                      "",            "it needs a test"),
            (json!({"equals": 1}),                              "",            "it needs a `ref`"),
            (json!({"ref": "a.b", "equals": 1}),                ".ref",        "is no reference"),
            (json!({"ref": "$OUTPUT[a] ", "equals": 1}),        ".ref",        "cannot be read behind"),
            (json!({"ref": "$ARGS", "equals": "$OUTPUT[b]"}),   ".equals",     "with a literal"),
            (json!({"ref": "$ARGS", "exists": 1}),              ".exists",     "true or false"),
            (json!({"ref": "$ARGS", "gt": [1]}),                ".gt",         "a number or a text, not a list"),
            (json!({"all": []}),                                ".all",        "a list of conditions"),
            (json!({"all": [{"not": {"ref": 1}}]}),             ".all[0].not.ref", "it must be a reference"),
            (json!({"not": {}, "ref": "$ARGS"}),                "",            "stand alone"),
            (deep,                                              &".not".repeat(17), "at most 16 deep"),
        ];
        for (condition, path, part) in table {
            let (at, message) = Condition::parse(&condition).unwrap_err();
            assert!(at == path && message.contains(part), "{condition}: {at} {message}");
        }
    }
}
