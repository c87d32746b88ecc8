//! The form of a schema that values are checked against.
//!
//! Servers write more dialects than the drafts know. What they mean is put into words of the drafts here, so that the
//! check means what the type says: `nullable` of OpenAPI, a required argument that the server fills in by its `default`.
//! What would keep the whole schema from being compiled, such as a reference that leads nowhere, checks nothing instead.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::references;

/// The types that schemas know.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
/// The drafts that can be checked, as parts of their addresses.
const DRAFTS: [&str; 5] = ["/draft-04/", "/draft-06/", "/draft-07/", "/draft/2019-09/", "/draft/2020-12/"];

/// Who writes the values of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Programs do; the server fills in what has a default.
    Arguments,
    /// The server does.
    Result,
}

/// The form of a schema, whose references are pointers, that values are checked against.
pub(super) fn checked_form(schema: &Value, side: Side) -> Value {
    let mut form = schema.clone();
    if let Value::Object(keywords) = &mut form {
        let is_known = |draft: &Value| {
            draft.as_str().is_some_and(|draft| {
                draft.contains("json-schema.org/") && DRAFTS.iter().any(|known| draft.contains(known))
            })
        };
        // An unknown dialect is read as the newest one.
        if keywords.get("$schema").is_some_and(|draft| !is_known(draft)) {
            keywords.remove("$schema");
        }
    }
    mend(&mut form, schema, side);
    form
}

/// Is `name` an argument that the server fills in if it is missing?
pub(super) fn has_default(schema: &Map<String, Value>, name: &str) -> bool {
    let property = schema.get("properties").and_then(|properties| properties.get(name));
    property.is_some_and(|property| property.get("default").is_some())
}

fn mend(part: &mut Value, root: &Value, side: Side) {
    let Value::Object(keywords) = part else { return };
    let leads_nowhere = |keywords: &Map<String, Value>, keyword: &str| {
        keywords.get(keyword).is_some_and(|reference| match reference.as_str() {
            Some(reference) => references::target(root, reference).is_none(),
            None => true,
        })
    };
    for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
        if leads_nowhere(keywords, keyword) {
            keywords.remove(keyword);
        }
    }
    if keywords.get("type").is_some_and(|types| !are_types(types)) {
        keywords.remove("type");
    }
    // The drafts want these without repetition.
    for keyword in ["type", "required", "enum"] {
        if let Some(Value::Array(values)) = keywords.get_mut(keyword) {
            let mut seen = HashSet::new();
            values.retain(|value| seen.insert(value.to_string()));
        }
    }
    if side == Side::Arguments
        && let Some(Value::Array(required)) = keywords.get("required")
    {
        let is_needed = |name: &&Value| name.as_str().is_none_or(|name| !has_default(keywords, name));
        let needed: Vec<_> = required.iter().filter(is_needed).cloned().collect();
        keywords.insert("required".to_owned(), needed.into());
    }
    references::for_each_part(keywords, |_, part| mend(part, root, side));
    if keywords.get("nullable") == Some(&Value::Bool(true)) {
        allow_null(keywords);
    }
}

fn are_types(types: &Value) -> bool {
    let is_type = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    match types {
        Value::Array(names) => !names.is_empty() && names.iter().all(is_type),
        name => is_type(name),
    }
}

/// Lets a schema take `null` besides. Its parts stay where they are as far as possible, since references lead there.
fn allow_null(keywords: &mut Map<String, Value>) {
    let of_null = || json!({"type": "null"});
    match keywords.get_mut("type") {
        Some(Value::Array(names)) if !names.contains(&"null".into()) => names.push("null".into()),
        Some(name @ Value::String(_)) if name != "null" => *name = json!([name, "null"]),
        _ => {}
    }
    if let Some(value) = keywords.remove("const") {
        keywords.insert("enum".to_owned(), json!([value]));
    }
    if let Some(Value::Array(values)) = keywords.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    let mut all = Vec::new();
    for keyword in ["$ref", "allOf"] {
        if let Some(part) = keywords.remove(keyword) {
            all.push(json!({"anyOf": [{keyword: part}, of_null()]}));
        }
    }
    if !all.is_empty() {
        keywords.insert("allOf".to_owned(), all.into());
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(Value::Array(branches)) = keywords.get_mut(choice) {
            // Of `oneOf`, exactly one may take it.
            match choice {
                "anyOf" => branches.push(of_null()),
                _ => {
                    let branches = json!({"anyOf": [{"oneOf": branches.clone()}, of_null()]});
                    keywords.remove(choice);
                    let all = keywords.entry("allOf").or_insert_with(|| json!([]));
                    all.as_array_mut().expect("it was written here").push(branches);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_are_put_into_words_of_the_drafts() {
        let with_default = json!({"properties": {"a": {"default": 1}, "b": {}}, "required": ["a", "b"]});
        #[rustfmt::skip]
        let table = [
            (json!({"type": "string", "nullable": true}),           "type",     json!(["string", "null"])),
            (json!({"enum": ["a"], "nullable": true}),              "enum",     json!(["a", null])),
            (json!({"const": "a", "nullable": true}),               "enum",     json!(["a", null])),
            (json!({"anyOf": [{}], "nullable": true}),              "anyOf",    json!([{}, {"type": "null"}])),
            (json!({"oneOf": [{}], "nullable": true}),              "allOf",    json!([{"anyOf": [{"oneOf": [{}]}, {"type": "null"}]}])),
            (json!({"$ref": "#", "nullable": true}),                "allOf",    json!([{"anyOf": [{"$ref": "#"}, {"type": "null"}]}])),
            (json!({"type": "string", "nullable": false}),          "type",     json!("string")),
            (json!({"type": "strng"}),                              "type",     json!(null)),
            (json!({"$ref": "#/$defs/none"}),                       "$ref",     json!(null)),
            (json!({"$schema": "https://example.org/mine"}),        "$schema",  json!(null)),
            (json!({"$schema": "http://json-schema.org/draft-07/schema#"}), "$schema", json!("http://json-schema.org/draft-07/schema#")),
            (json!({"type": ["string", "string"]}),                 "type",     json!(["string"])),
            (json!({"required": ["a", "a"]}),                       "required", json!(["a"])),
            (with_default.clone(),                                  "required", json!(["b"])),
        ];
        for (schema, keyword, expected) in table {
            let form = checked_form(&schema, Side::Arguments);
            assert_eq!(form.get(keyword).unwrap_or(&Value::Null), &expected, "{schema}");
        }
        assert_eq!(checked_form(&with_default, Side::Result), with_default);
    }
}
