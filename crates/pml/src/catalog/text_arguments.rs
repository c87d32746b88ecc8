//! Where a schema wants a text.
//!
//! A value that was read from JSON text is a text and a value at once; which of them a tool gets is decided here, by what
//! the schema says about the place. This is no check: what is sent is checked afterwards, like any arguments.

use pml_wire::walk::Step;
use serde_json::{Map, Value};

/// Schemas that are looked at inside of each other. One that needs more than that says nothing.
const MAX_NESTED: usize = 200;

/// What a JSON value can be. Only what matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Types {
    text: bool,
    object: bool,
    array: bool,
}

const ANY: Types = Types { text: true, object: true, array: true };
const NONE: Types = Types { text: false, object: false, array: false };

impl Types {
    fn and(self, other: Types) -> Types {
        Types { text: self.text && other.text, object: self.object && other.object, array: self.array && other.array }
    }

    fn or(self, other: Types) -> Types {
        Types { text: self.text || other.text, object: self.object || other.object, array: self.array || other.array }
    }

    /// The type with this name in schemas.
    fn named(name: &str) -> Types {
        Types { text: name == "string", object: name == "object", array: name == "array" }
    }

    fn of(value: &Value) -> Types {
        Types { text: value.is_string(), object: value.is_object(), array: value.is_array() }
    }
}

/// Does the schema want a text at the path, and not the object or array that `json`, a JSON text, stands for?
///
/// Each schema that is looked at takes one of the steps that are left. When there are none, nothing is said to be wanted.
pub fn wants_text(schema: &Value, path: &[Step], json: &str, left: &mut usize) -> bool {
    let mut reader = Reader { root: schema, left: *left, nested: 0 };
    let types = reader.types(schema, path);
    *left = reader.left;
    let takes_value = if json.trim_start().starts_with('[') { types.array } else { types.object };
    types.text && !takes_value
}

struct Reader<'a> {
    root: &'a Value,
    left: usize,
    nested: usize,
}

impl<'a> Reader<'a> {
    /// What the value at the path may be.
    fn types(&mut self, schema: &'a Value, path: &[Step]) -> Types {
        if self.left == 0 || self.nested == MAX_NESTED {
            return ANY;
        }
        self.left -= 1;
        self.nested += 1;
        let types = self.read(schema, path);
        self.nested -= 1;
        types
    }

    fn read(&mut self, schema: &'a Value, path: &[Step]) -> Types {
        let schema = match schema {
            Value::Object(schema) => schema,
            Value::Bool(false) => return NONE,
            _ => return ANY,
        };
        let mut types = match path {
            [] => own_types(schema),
            [step, rest @ ..] => child(schema, step).map_or(ANY, |child| self.types(child, rest)),
        };
        if let Some(target) = schema.get("$ref").and_then(Value::as_str).and_then(|target| self.target(target)) {
            types = types.and(self.types(target, path));
        }
        for part in array(schema, "allOf") {
            types = types.and(self.types(part, path));
        }
        for keyword in ["anyOf", "oneOf"] {
            let choices = array(schema, keyword);
            if !choices.is_empty() {
                let any = choices.iter().fold(NONE, |types, choice| types.or(self.types(choice, path)));
                types = types.and(any);
            }
        }
        types
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }
}

/// What the schema itself says a value may be.
fn own_types(schema: &Map<String, Value>) -> Types {
    let mut types = match schema.get("type") {
        Some(Value::String(name)) => Types::named(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(Types::named).fold(NONE, Types::or),
        _ => ANY,
    };
    if let Some(constant) = schema.get("const") {
        types = types.and(Types::of(constant));
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        types = types.and(values.iter().map(Types::of).fold(NONE, Types::or));
    }
    types
}

/// The schema of what is one step further; `None` if nothing is said about it.
fn child<'a>(schema: &'a Map<String, Value>, step: &Step) -> Option<&'a Value> {
    match step {
        Step::Key(key) => {
            let property = schema.get("properties").and_then(|properties| properties.get(key));
            // Which patterns fit is left to the check.
            let is_open = schema.contains_key("patternProperties");
            property.or_else(|| schema.get("additionalProperties").filter(|_| !is_open))
        }
        Step::Index(index) => {
            let (first, others) = match schema.get("items") {
                Some(Value::Array(first)) => (first.as_slice(), schema.get("additionalItems")),
                others => (array(schema, "prefixItems"), others),
            };
            first.get(*index).or(others)
        }
    }
}

fn array<'a>(schema: &'a Map<String, Value>, keyword: &str) -> &'a [Value] {
    schema.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> Vec<Step> {
        let step = |part: &str| part.parse().map_or_else(|_| Step::Key(part.to_owned()), Step::Index);
        text.split_whitespace().map(step).collect()
    }

    #[test]
    fn a_text_is_wanted_where_nothing_else_fits() {
        let object = |of: Value| json!({"type": "object", "properties": {"a": of}});
        let text = || json!({"type": "string"});
        #[rustfmt::skip]
        let table = [
            // schema                                                       path      text?
            (object(text()),                                                "a",      true),
            (object(json!({"type": "object"})),                             "a",      false),
            (object(json!({"type": "array"})),                              "a",      false),
            (object(json!({})),                                             "a",      false),
            (object(json!(true)),                                           "a",      false),
            (object(json!({"type": ["string", "null"]})),                   "a",      true),
            (object(json!({"type": ["string", "object"]})),                 "a",      false),
            (object(json!({"anyOf": [text(), {"type": "null"}]})),          "a",      true),
            (object(json!({"anyOf": [text(), {"type": "object"}]})),        "a",      false),
            (object(json!({"oneOf": [text(), {"type": "array"}]})),         "a",      true),
            (object(json!({"allOf": [{}, text()]})),                        "a",      true),
            (object(json!({"enum": ["{}", "x"]})),                          "a",      true),
            (object(json!({"const": "x"})),                                 "a",      true),
            (object(json!({"type": "array", "items": text()})),             "a 3",    true),
            (object(json!({"prefixItems": [{}, text()], "items": {}})),     "a 1",    true),
            (object(json!({"prefixItems": [{}, text()], "items": {}})),     "a 2",    false),
            (object(json!({"items": [text()], "additionalItems": {}})),     "a 0",    true),
            (object(object(text())),                                        "a a",    true),
            (object(text()),                                                "b",      false),
            (json!({"additionalProperties": text()}),                       "b",      true),
            (json!({"additionalProperties": text(), "patternProperties": {}}), "b",   false),
            (json!({"properties": {"a": {"$ref": "#/$defs/t"}}, "$defs": {"t": text()}}), "a", true),
            (json!({"$ref": "#/$defs/o", "$defs": {"o": object(text())}}),  "a",      true),
            (json!({"$ref": "#"}),                                          "a",      false),
            (json!({"anyOf": [object(text()), object(json!({"type": "number"}))]}), "a", true),
            (json!(null),                                                   "a",      false),
        ];
        for (schema, place, expected) in table {
            assert_eq!(wants_text(&schema, &path(place), "{}", &mut 1000), expected, "{schema} {place}");
        }
        assert!(wants_text(&object(json!({"type": ["string", "object"]})), &path("a"), " []", &mut 10));
        assert!(!wants_text(&object(text()), &path("a"), "{}", &mut 1), "not enough steps");
    }

    #[test]
    fn a_schema_that_branches_without_end_ends() {
        let branch = |key: &str| json!({"properties": {"a": {"$ref": "#/$defs/n"}}, "required": [key]});
        let schema = json!({"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [branch("b"), branch("c")]}}});
        let mut left = 5000;
        assert!(!wants_text(&schema, &vec![Step::Key("a".to_owned()); 100], "{}", &mut left));
        assert_eq!(left, 0);
    }
}
