//! Types, host checks and a reference validator agree on generated schemas and values.
//!
//! The reference is written here from the specification of 2020-12, a keyword at a time, for what servers use. What it
//! takes beyond the drafts is what pml says it takes: `nullable`, and a required argument that has a default.

use proptest::{prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::{
    references,
    schema::{Checker, Pace},
    schema_form::Side,
    typescript::{self, Fit},
};

/// Does `value` fit `schema`, by the specification?
fn fits(root: &Value, schema: &Value, value: &Value) -> bool {
    let keywords = match schema {
        Value::Bool(verdict) => return *verdict,
        Value::Object(keywords) => keywords,
        _ => return true,
    };
    if keywords.get("nullable") == Some(&Value::Bool(true)) && value.is_null() {
        return true;
    }
    keywords.iter().all(|(keyword, part)| keyword_fits(root, keywords, keyword, part, value))
}

fn keyword_fits(root: &Value, schema: &Map<String, Value>, keyword: &str, part: &Value, value: &Value) -> bool {
    let all = |parts: &Value, value: &Value| parts.as_array().unwrap().iter().all(|part| fits(root, part, value));
    let count = |parts: &Value| parts.as_array().unwrap().iter().filter(|part| fits(root, part, value)).count();
    let properties = schema.get("properties").and_then(Value::as_object);
    // The patterns here are all of the form `^x`.
    let matches = |key: &str| {
        let patterns = schema.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
        patterns.filter(move |(pattern, _)| key.starts_with(&pattern[1..])).map(|(_, part)| part).collect::<Vec<_>>()
    };
    match (keyword, value) {
        ("type", value) => match part {
            Value::Array(names) => names.iter().any(|name| is_of(value, name)),
            name => is_of(value, name),
        },
        ("enum", value) => part.as_array().unwrap().contains(value),
        ("const", value) => part == value,
        ("$ref", value) => fits(root, find(root, part.as_str().unwrap()), value),
        ("allOf", value) => all(part, value),
        ("anyOf", _) => count(part) > 0,
        ("oneOf", _) => count(part) == 1,
        ("properties", Value::Object(entries)) => {
            let parts = part.as_object().unwrap();
            parts.iter().all(|(key, part)| entries.get(key).is_none_or(|entry| fits(root, part, entry)))
        }
        ("required", Value::Object(entries)) => part.as_array().unwrap().iter().all(|key| {
            let key = key.as_str().unwrap();
            let has_default = || properties?.get(key)?.get("default");
            entries.contains_key(key) || has_default().is_some()
        }),
        ("patternProperties", Value::Object(entries)) => {
            entries.iter().all(|(key, entry)| matches(key).iter().all(|part| fits(root, part, entry)))
        }
        ("additionalProperties", Value::Object(entries)) => entries.iter().all(|(key, entry)| {
            let is_named = properties.is_some_and(|properties| properties.contains_key(key));
            is_named || !matches(key).is_empty() || fits(root, part, entry)
        }),
        ("prefixItems", Value::Array(items)) => {
            part.as_array().unwrap().iter().zip(items).all(|(part, item)| fits(root, part, item))
        }
        ("items", Value::Array(items)) => {
            let first = schema.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
            items.iter().skip(first).all(|item| fits(root, part, item))
        }
        ("minItems", Value::Array(items)) => items.len() as u64 >= part.as_u64().unwrap(),
        _ => true,
    }
}

fn is_of(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    }
}

/// The definition that a reference means, however it is written.
fn find<'a>(root: &'a Value, reference: &str) -> &'a Value {
    let definitions = &root["$defs"];
    match reference {
        "#anchor" => &definitions["a<b>"],
        "#/$defs/a%3Cb%3E" | "#/$defs/a<b>" => &definitions["a<b>"],
        _ => &definitions["plain"],
    }
}

/// Can the type say all that the schema says?
fn is_exact(schema: &Value) -> bool {
    let text = schema.to_string();
    let beyond = [
        "oneOf",
        "allOf",
        "integer",
        "patternProperties",
        "\"additionalProperties\":{",
        "\"minItems\":1",
        "\"minItems\":2",
    ];
    !beyond.iter().any(|beyond| text.contains(beyond))
}

fn names() -> impl Strategy<Value = &'static str> {
    select(&["a", "b", "x-1", "x-2"][..])
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = select(vec![json!(null), json!(true), json!(1), json!(1.5), json!("a"), json!("b"), json!("")]);
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// Schemas of what a type can say, but for `integer` and `oneOf`.
fn schemas() -> impl Strategy<Value = Value> {
    let kinds = select(&["string", "number", "integer", "boolean", "null", "object", "array"][..]);
    let references = select(&["#/$defs/plain", "#/$defs/a%3Cb%3E", "#/$defs/a<b>", "#anchor"][..]);
    let leaf = prop_oneof![
        3 => (kinds.clone(), any::<bool>()).prop_map(|(kind, nullable)| json!({"type": kind, "nullable": nullable})),
        1 => (kinds.clone(), kinds).prop_map(|(one, other)| json!({"type": [one, other]})),
        1 => prop::collection::vec(select(vec![json!("a"), json!("b"), json!(1), json!(null)]), 1..3).prop_map(|values| json!({"enum": values})),
        1 => (select(vec![json!("a"), json!(1)]), any::<bool>()).prop_map(|(value, nullable)| json!({"const": value, "nullable": nullable})),
        1 => (references, any::<bool>()).prop_map(|(to, nullable)| json!({"$ref": to, "nullable": nullable})),
        1 => Just(json!({})),
        1 => Just(json!({"type": "object", "properties": {}})),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let parts = || prop::collection::vec(inner.clone(), 1..3);
        let rest =
            prop_oneof![Just(None), Just(Some(json!(true))), Just(Some(json!(false))), inner.clone().prop_map(Some)];
        let properties =
            prop::collection::btree_map(names().prop_map(str::to_owned), (inner.clone(), any::<(bool, bool)>()), 0..4);
        let object =
            (properties, prop::option::of(inner.clone()), rest.clone()).prop_map(|(properties, pattern, rest)| {
                let mut schema = json!({"type": "object", "properties": {}, "required": []});
                for (name, (mut part, (is_required, has_default))) in properties {
                    if has_default && part.is_object() {
                        part["default"] = json!(null);
                    }
                    schema["properties"][&name] = part;
                    if is_required {
                        schema["required"].as_array_mut().unwrap().push(name.into());
                    }
                }
                pattern.into_iter().for_each(|pattern| schema["patternProperties"] = json!({"^x": pattern}));
                rest.into_iter().for_each(|rest| schema["additionalProperties"] = rest);
                schema
            });
        let array = (prop::collection::vec(inner.clone(), 0..3), rest, 0..3_u64).prop_map(|(prefix, rest, least)| {
            let mut schema = json!({"type": "array", "minItems": least});
            if !prefix.is_empty() {
                schema["prefixItems"] = prefix.into();
            }
            rest.into_iter().for_each(|rest| schema["items"] = rest);
            schema
        });
        prop_oneof![
            4 => object,
            2 => array,
            1 => (parts(), any::<bool>()).prop_map(|(parts, nullable)| json!({"anyOf": parts, "nullable": nullable})),
            1 => (parts(), any::<bool>()).prop_map(|(parts, nullable)| json!({"oneOf": parts, "nullable": nullable})),
            1 => (parts(), any::<bool>()).prop_map(|(parts, nullable)| json!({"allOf": parts, "nullable": nullable})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn type_check_and_reference_agree(
        argument in schemas(),
        definition in schemas(),
        plain in select(vec![json!({"type": "string"}), json!({"type": "object", "properties": {"a": {"type": "integer"}}})]),
        samples in prop::collection::vec(values(), 12),
    ) {
        let mut named = definition;
        // A definition that refers to itself has no end.
        if named.to_string().contains("$ref") {
            named = json!({"type": ["number", "null"]});
        }
        named["$anchor"] = json!("anchor");
        let mut schema = json!({"type": "object", "properties": {"v": argument}, "$defs": {"a<b>": named, "plain": plain}});
        let original = schema.clone();
        references::localise(&mut schema);
        let checker = Checker::new(&"s:t".parse().unwrap(), &schema, Side::Arguments);
        for sample in samples {
            let value = json!({"v": sample});
            let expected = fits(&original, &original, &value);
            let verdict = checker.check("args", &value, Pace::Thorough).expect("small values are quick to check");
            prop_assert_eq!(verdict.is_ok(), expected, "host check of {} against {}: {:?}", value, original, verdict);
            match typescript::fits(&schema, &value) {
                Fit::Yes => prop_assert!(expected || !is_exact(&original), "type of {} against {}", value, original),
                // A name that the schema is silent about.
                Fit::Unnamed => {}
                Fit::No => prop_assert!(!expected, "type of {} against {}", value, original),
            }
        }
    }
}
