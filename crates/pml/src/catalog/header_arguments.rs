//! Arguments that a tool wants in headers as well, so that whoever routes requests need not read them.

use serde_json::{Map, Value};

/// The key of a schema that asks for it.
const KEY: &str = "x-mcp-header";
/// Types that can be written as the text of a header. A number may be written in many ways.
const TYPES: [&str; 3] = ["string", "integer", "boolean"];

/// One argument that also goes into a header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HeaderArgument {
    /// The names of the properties that lead to it.
    path: Vec<String>,
    /// The header's name, without what all of them begin with.
    pub(super) header: String,
}

impl HeaderArgument {
    /// What the header says, if the argument is given.
    pub(super) fn value(&self, args: &Value) -> Option<String> {
        match self.path.iter().try_fold(args, |value, key| value.get(key))? {
            Value::String(text) => Some(text.clone()),
            value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

/// The arguments of a schema that go into headers, or what is wrong with one of them.
pub(super) fn header_arguments(schema: &Value) -> Result<Vec<HeaderArgument>, String> {
    let mut found = Vec::new();
    if let Value::Object(schema) = schema {
        if schema.contains_key(KEY) {
            return Err(format!("its `{KEY}` is not at a property"));
        }
        walk(schema, &mut Vec::new(), &mut found)?;
    }
    Ok(found)
}

/// Goes from properties to properties: what is below anything else may be there or not, or several times.
fn walk(schema: &Map<String, Value>, path: &mut Vec<String>, found: &mut Vec<HeaderArgument>) -> Result<(), String> {
    for (key, part) in schema {
        let properties = match (key.as_str(), part) {
            ("properties", Value::Object(properties)) => properties,
            // These hold values, which may look like anything.
            ("default" | "const" | "enum" | "examples", _) => continue,
            _ => {
                forbid(part)?;
                continue;
            }
        };
        for (name, property) in properties {
            let Value::Object(property) = property else { continue };
            path.push(name.clone());
            if let Some(header) = property.get(KEY) {
                let header = check(property, header, found).map_err(|why| format!("`{}` {why}", path.join(".")))?;
                found.push(HeaderArgument { path: path.clone(), header });
            }
            walk(property, path, found)?;
            path.pop();
        }
    }
    Ok(())
}

/// Checks what one property wants.
fn check(property: &Map<String, Value>, header: &Value, found: &[HeaderArgument]) -> Result<String, String> {
    let Value::String(header) = header else { return Err(format!("has a `{KEY}` that is no text")) };
    if !is_token(header) {
        return Err(format!("has the `{KEY}` {header:?}, which cannot be the name of a header"));
    }
    if found.iter().any(|other| other.header.eq_ignore_ascii_case(header)) {
        return Err(format!("has the `{KEY}` {header:?}, and so has another"));
    }
    match property.get("type").and_then(Value::as_str) {
        Some(kind) if TYPES.contains(&kind) => Ok(header.clone()),
        kind => Err(format!("has a `{KEY}`, but is of type `{}`", kind.unwrap_or("any"))),
    }
}

/// There must be none here.
fn forbid(part: &Value) -> Result<(), String> {
    match part {
        Value::Object(object) if object.contains_key(KEY) => Err(format!("a `{KEY}` is not at a property")),
        Value::Object(object) => object.values().try_for_each(forbid),
        Value::Array(items) => items.iter().try_for_each(forbid),
        _ => Ok(()),
    }
}

/// What RFC 9110 allows as the name of a header.
fn is_token(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(kind: &str, header: Value) -> Value {
        json!({"type": "object", "properties": {"a": {"type": kind, "x-mcp-header": header}}})
    }

    #[test]
    fn what_can_be_no_header_is_refused() {
        let text = json!({"type": "string", "x-mcp-header": "Region"});
        let other = |header: &str| json!({"type": "string", "x-mcp-header": header});
        #[rustfmt::skip]
        let table = [
            (json!({}),                                                          Ok(0)),
            (one("string", json!("Region")),                                     Ok(1)),
            (one("integer", json!("Region")),                                    Ok(1)),
            (one("boolean", json!("x-1_~!")),                                    Ok(1)),
            (json!({"properties": {"a": text, "b": other("Zone")}}),             Ok(2)),
            (json!({"properties": {"a": {"properties": {"b": text}}}}),          Ok(1)),
            (json!({"properties": {"x-mcp-header": {"type": "string"}}}),        Ok(0)),
            (one("number", json!("Region")),                                     Err("`a` has a `x-mcp-header`, but is of type `number`")),
            (one("object", json!("Region")),                                     Err("of type `object`")),
            (one("array", json!("Region")),                                      Err("of type `array`")),
            (one("null", json!("Region")),                                       Err("of type `null`")),
            (json!({"properties": {"a": {"x-mcp-header": "Region"}}}),           Err("of type `any`")),
            (one("string", json!("")),                                           Err("cannot be the name")),
            (one("string", json!("A B")),                                        Err("cannot be the name")),
            (one("string", json!("A:B")),                                        Err("cannot be the name")),
            (one("string", json!("Région")),                                     Err("cannot be the name")),
            (one("string", json!("A\t1")),                                       Err("cannot be the name")),
            (one("string", json!(7)),                                            Err("is no text")),
            (json!({"properties": {"a": text, "b": text}}),                      Err("so has another")),
            (json!({"properties": {"a": text, "b": other("REGION")}}),           Err("so has another")),
            (json!({"properties": {"a": {"properties": {"b": text}}, "c": text}}), Err("so has another")),
            (text.clone(),                                                       Err("not at a property")),
            (json!({"properties": {"a": {"items": text}}}),                      Err("not at a property")),
            (json!({"anyOf": [{"properties": {"a": text}}]}),                    Err("not at a property")),
            (json!({"$defs": {"a": text}}),                                      Err("not at a property")),
        ];
        for (schema, expected) in table {
            match (header_arguments(&schema), expected) {
                (Ok(found), Ok(count)) => assert_eq!(found.len(), count, "{schema}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{schema}: {why}"),
                (found, _) => panic!("{schema}: {found:?}"),
            }
        }
    }

    #[test]
    fn arguments_are_found_however_deep_and_only_where_given() {
        let text = |header: &str| json!({"type": "string", "x-mcp-header": header});
        let schema = json!({"properties": {
            "a": text("A"), "b": {"properties": {"c": text("C")}}, "d": text("D"), "e": text("E"),
        }});
        let args = json!({"a": "x", "b": {"c": 7}, "d": null});
        let found = header_arguments(&schema).unwrap();
        let values: Vec<_> = found.iter().filter_map(|it| Some((it.header.as_str(), it.value(&args)?))).collect();
        assert_eq!(values, [("A", "x".to_owned()), ("C", "7".to_owned())]);
    }
}
