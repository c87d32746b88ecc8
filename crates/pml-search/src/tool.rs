//! What a tool says about itself.

use serde_json::Value;

/// Of longer texts only the beginning is read: a description of a megabyte is no better described for it.
const DESCRIPTION_BYTES: usize = 8 * 1024;
const PARAMETER_BYTES: usize = 512;
const NAME_BYTES: usize = 512;
const PARAMETERS: usize = 64;
const VALUES: usize = 20;
/// Arguments inside arguments are read this deep.
const DEPTH: usize = 3;

/// The text of a tool that is searched. What is too long or too much was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolText {
    pub(crate) server: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) parameters: Vec<Parameter>,
}

/// An argument of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) description: String,
    /// The texts that it may have, if they are listed.
    pub(crate) values: Vec<String>,
}

impl ToolText {
    /// The text of a tool as a server lists it. A schema that is none gives no parameters.
    pub fn new(server: &str, name: &str, description: &str, input_schema: &Value) -> ToolText {
        let mut parameters = Vec::new();
        read_properties(input_schema, 0, &mut parameters);
        ToolText {
            server: beginning(server, NAME_BYTES).to_owned(),
            name: beginning(name, NAME_BYTES).to_owned(),
            description: beginning(description, DESCRIPTION_BYTES).to_owned(),
            parameters,
        }
    }
}

fn read_properties(schema: &Value, depth: usize, parameters: &mut Vec<Parameter>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, property) in properties {
        if parameters.len() >= PARAMETERS {
            return;
        }
        let text = |value: &Value| beginning(value.as_str().unwrap_or_default(), PARAMETER_BYTES).to_owned();
        let values = property.get("enum").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        parameters.push(Parameter {
            name: beginning(name, NAME_BYTES).to_owned(),
            description: property.get("description").map(text).unwrap_or_default(),
            values: values.iter().filter(|value| value.is_string()).take(VALUES).map(text).collect(),
        });
        if depth + 1 < DEPTH {
            read_properties(property, depth + 1, parameters);
            if let Some(items) = property.get("items") {
                read_properties(items, depth + 1, parameters);
            }
        }
    }
}

/// At most `bytes` of a text, ending between two characters.
pub(crate) fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_read_from_schemas_of_any_kind() {
        let inner = json!({ "type": "object", "properties": { "city": { "description": "Where" } } });
        let table = [
            (json!(null), ""),
            (json!({ "properties": 5 }), ""),
            (json!({ "properties": { "a": true, "b": { "description": 7, "enum": ["x", 1] } } }), "a b"),
            (json!({ "properties": { "to": inner } }), "to city"),
            (json!({ "properties": { "all": { "type": "array", "items": inner } } }), "all city"),
        ];
        for (schema, expected) in table {
            let names: Vec<_> = ToolText::new("", "", "", &schema).parameters.into_iter().map(|p| p.name).collect();
            assert_eq!(names.join(" "), expected, "{schema}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut_between_characters() {
        let text = ToolText::new("s", "n", &"é".repeat(1 << 20), &json!({}));
        assert_eq!(text.description.len(), DESCRIPTION_BYTES);
        let many: serde_json::Map<_, _> = (0..1000).map(|i| (format!("p{i}"), json!({}))).collect();
        assert_eq!(ToolText::new("s", "n", "", &json!({ "properties": many })).parameters.len(), PARAMETERS);
    }
}
