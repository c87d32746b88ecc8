//! Reads JSON schemas (2020-12, draft-07 and what is found in the wild) as types.
//!
//! Nothing is refused: what is no schema, or is a reference that leads nowhere or back to where it
//! stands, is `any`. References are followed as far as [`references`](crate::catalog) made them pointers.
//!
//! **Invariant:** reading ends after [`MAX_STEPS`], at most [`MAX_DEPTH`] deep, whatever the schema
//! says. What was not reached is `any`.

use std::{collections::HashSet, ptr, rc::Rc};

use serde_json::{Map, Value};

use super::types::{Object, Property, Rest, Tuple, Type, kind, union};
use crate::catalog::{
    references,
    schema_form::{Side, has_default},
};

const MAX_DEPTH: usize = 64;
const MAX_STEPS: usize = 20_000;
/// An enum with more members is the type of its members.
const MAX_LITERALS: usize = 1000;
/// A longer string in an enum is `string`.
const MAX_LITERAL_BYTES: usize = 200;
/// A longer name of a property is not listed.
const MAX_KEY_BYTES: usize = 256;
/// A longer tuple is an array.
const MAX_TUPLE: usize = 64;

/// The type that `schema`, a part of `root` or all of it, describes.
pub(super) fn read<'a>(root: &'a Value, schema: &'a Value, side: Side) -> Rc<Type<'a>> {
    let mut reader = Reader { root, side, active: vec![schema], steps: MAX_STEPS };
    reader.read(schema, 0)
}

pub(super) struct Reader<'a> {
    root: &'a Value,
    side: Side,
    /// The targets of the references that are being followed.
    active: Vec<&'a Value>,
    /// Steps left.
    steps: usize,
}

impl<'a> Reader<'a> {
    /// Spends a step. `false` if there is none left.
    pub(super) fn step(&mut self) -> bool {
        self.steps = self.steps.saturating_sub(1);
        self.steps > 0
    }

    /// Spends what it costs to pass over so many entries, which is little, but references may lead
    /// to the same ones again and again.
    pub(super) fn pass_over(&mut self, entries: usize) {
        self.steps = self.steps.saturating_sub(entries / 16);
    }

    fn read(&mut self, schema: &'a Value, depth: usize) -> Rc<Type<'a>> {
        if depth > MAX_DEPTH || !self.step() {
            return Rc::new(Type::Any);
        }
        let schema = match schema {
            Value::Bool(false) => return Rc::new(Type::Never),
            Value::Object(schema) => schema,
            _ => return Rc::new(Type::Any),
        };
        let mut whole = self.own(schema, depth);
        if let Some(target) = self.target(schema) {
            let part = self.follow(target, depth);
            whole = self.both(&whole, &part);
        }
        for branch in array(schema, "allOf") {
            let part = self.read(branch, depth + 1);
            whole = self.both(&whole, &part);
        }
        for choice in ["anyOf", "oneOf"] {
            let branches = array(schema, choice);
            self.pass_over(branches.len());
            // "a or b must be there" would double the type to say what the description says.
            if branches.is_empty() || schema.contains_key("properties") && branches.iter().any(only_requires) {
                continue;
            }
            let part = union(branches.iter().map(|branch| self.read(branch, depth + 1)));
            whole = self.both(&whole, &part);
        }
        if schema.get("nullable") == Some(&Value::Bool(true)) {
            whole = union([whole, Rc::new(Type::Null)]);
        }
        whole
    }

    /// What the schema says by itself, without the schemas it is made of.
    fn own(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Rc<Type<'a>> {
        let types: Vec<_> = match schema.get("type") {
            Some(Value::String(name)) => vec![name.as_str()],
            Some(Value::Array(names)) => names.iter().take(8).filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if let Some(value) = schema.get("const") {
            return self.literal(value, depth);
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            self.pass_over(values.len());
            let fits = |value: &&Value| types.is_empty() || types.iter().any(|name| is_of(value, name));
            let values: Vec<_> = values.iter().filter(fits).collect();
            if values.len() > MAX_LITERALS {
                let mut kinds = Vec::new();
                for kind in values.into_iter().map(kind) {
                    if !kinds.contains(&kind) {
                        kinds.push(kind);
                    }
                }
                return union(kinds.into_iter().map(Rc::new));
            }
            return union(values.into_iter().map(|value| self.literal(value, depth)));
        }
        if !types.is_empty() {
            return union(types.into_iter().map(|name| self.named(name, schema, depth)));
        }
        let says = |keywords: &[&str]| keywords.iter().any(|keyword| schema.contains_key(*keyword));
        if says(&["properties", "required", "additionalProperties", "patternProperties"]) {
            self.named("object", schema, depth)
        } else if says(&["items", "prefixItems"]) {
            self.named("array", schema, depth)
        } else {
            Rc::new(Type::Any)
        }
    }

    fn named(&mut self, name: &str, schema: &'a Map<String, Value>, depth: usize) -> Rc<Type<'a>> {
        Rc::new(match name {
            "string" => Type::String,
            "number" | "integer" => Type::Number,
            "boolean" => Type::Boolean,
            "null" => Type::Null,
            "object" => Type::Object(self.object(schema, depth)),
            "array" => self.array(schema, depth),
            _ => Type::Any,
        })
    }

    fn object(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Object<'a> {
        let required: HashSet<_> = array(schema, "required").iter().filter_map(Value::as_str).collect();
        self.pass_over(array(schema, "required").len());
        let (whole, declared) = (schema, schema.get("properties").and_then(Value::as_object));
        let mut object = Object::default();
        let mut is_whole = true;
        for (name, schema) in declared.into_iter().flatten() {
            if self.steps == 0 || name.len() > MAX_KEY_BYTES {
                is_whole = false;
                continue;
            }
            let of = self.read(schema, depth + 1);
            let required = required.contains(name.as_str()) && !self.is_filled_in(whole, name);
            object.properties.push(Property { name, of, required, described: Some(self.described(schema)) });
        }
        let is_declared = |name: &str| declared.is_some_and(|declared| declared.contains_key(name));
        for name in array(schema, "required").iter().filter_map(Value::as_str).filter(|name| !is_declared(name)) {
            if !self.step() || name.len() > MAX_KEY_BYTES {
                is_whole = false;
                continue;
            }
            object.properties.push(Property { name, of: Rc::new(Type::Any), required: true, described: None });
        }

        let mut further = Vec::new();
        for pattern in schema.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::values) {
            if self.steps > 0 {
                further.push(self.read(pattern, depth + 1));
            }
        }
        object.rest = match schema.get("additionalProperties") {
            _ if !is_whole => Rest::Open(Rc::new(Type::Any)),
            Some(Value::Bool(false)) if further.is_empty() => Rest::Closed,
            Some(Value::Bool(false)) => Rest::Open(union(further)),
            None if !further.is_empty() => Rest::Matching(union(further)),
            None => Rest::Silent,
            Some(others) => {
                further.push(self.read(others, depth + 1));
                Rest::Open(union(further))
            }
        };
        match &object.rest {
            Rest::Open(of) if **of == Type::Never => object.rest = Rest::Closed,
            Rest::Matching(of) if **of == Type::Never => object.rest = Rest::Silent,
            _ => {}
        }
        object
    }

    /// Does the server fill in the property if it is missing?
    fn is_filled_in(&self, schema: &Map<String, Value>, name: &str) -> bool {
        self.side == Side::Arguments && has_default(schema, name)
    }

    fn array(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Type<'a> {
        let (prefix, rest) = match schema.get("items") {
            Some(Value::Array(items)) => (&items[..], schema.get("additionalItems")), // draft-07
            items => (array(schema, "prefixItems"), items),
        };
        if prefix.is_empty() {
            return match rest {
                Some(items) => Type::Array(self.read(items, depth + 1)),
                None => Type::Array(Rc::new(Type::Any)),
            };
        }
        let items: Vec<_> = prefix.iter().take(MAX_TUPLE).map(|item| self.read(item, depth + 1)).collect();
        let rest = match rest {
            Some(Value::Bool(false)) => None,
            Some(further @ Value::Object(_)) => Some(self.read(further, depth + 1)),
            _ => Some(Rc::new(Type::Any)),
        };
        if prefix.len() > MAX_TUPLE {
            return Type::Array(Rc::new(Type::Any));
        }
        let required = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        let required = usize::try_from(required).unwrap_or(usize::MAX).min(items.len());
        Type::Tuple(Tuple { items, required, rest })
    }

    /// The type of one value.
    fn literal(&mut self, value: &'a Value, depth: usize) -> Rc<Type<'a>> {
        if depth > MAX_DEPTH || !self.step() {
            return Rc::new(Type::Any);
        }
        Rc::new(match value {
            Value::String(text) if text.len() > MAX_LITERAL_BYTES => Type::String,
            Value::String(_) | Value::Number(_) | Value::Bool(_) => Type::Literal(value),
            Value::Array(items) if items.len() <= MAX_TUPLE => {
                let items: Vec<_> = items.iter().map(|item| self.literal(item, depth + 1)).collect();
                Type::Tuple(Tuple { required: items.len(), items, rest: None })
            }
            Value::Object(members)
                if members.len() <= MAX_TUPLE && members.keys().all(|key| key.len() <= MAX_KEY_BYTES) =>
            {
                let property = |(name, member): (&'a String, &'a Value)| {
                    let of = self.literal(member, depth + 1);
                    Property { name, of, required: true, described: None }
                };
                Type::Object(Object { properties: members.iter().map(property).collect(), rest: Rest::Closed })
            }
            Value::Null | Value::Array(_) | Value::Object(_) => kind(value),
        })
    }

    /// What `$ref` points at, if that is in this schema.
    fn target(&self, schema: &'a Map<String, Value>) -> Option<&'a Value> {
        references::target(self.root, schema.get("$ref")?.as_str()?)
    }

    fn follow(&mut self, target: &'a Value, depth: usize) -> Rc<Type<'a>> {
        if self.active.iter().any(|active| ptr::eq(*active, target)) {
            return Rc::new(Type::Any);
        }
        self.active.push(target);
        let of = self.read(target, depth + 1);
        self.active.pop();
        of
    }

    /// The schema itself or, if it only points to another and has no description, that one.
    fn described(&self, schema: &'a Value) -> &'a Value {
        match schema {
            Value::Object(own) if !own.contains_key("description") => self.target(own).unwrap_or(schema),
            _ => schema,
        }
    }
}

/// Is the value of the type with this name in schemas?
fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "number" | "integer" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

/// Does the schema say only which properties must be there?
fn only_requires(schema: &Value) -> bool {
    let is_silent = |(keyword, value): (&String, &Value)| match keyword.as_str() {
        "required" | "title" | "description" | "not" => true,
        "type" => value == "object",
        _ => false,
    };
    schema.as_object().is_some_and(|schema| schema.contains_key("required") && schema.iter().all(is_silent))
}

fn array<'a>(schema: &'a Map<String, Value>, keyword: &str) -> &'a [Value] {
    schema.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::typescript::text::{Detail, line};

    fn written(schema: &Value) -> String {
        let mut schema = schema.clone();
        references::localise(&mut schema);
        line(&read(&schema, &schema, Side::Arguments), Detail::ALL, usize::MAX).text
    }

    #[test]
    fn schemas_become_types() {
        #[rustfmt::skip]
        let table = [
            // Plain types, and what is none.
            (json!({}),                                             "any"),
            (json!(true),                                           "any"),
            (json!(false),                                          "never"),
            (json!(null),                                           "any"),
            (json!({"type": "integer"}),                            "number"),
            (json!({"type": "string", "format": "binary"}),         "string"),
            (json!({"type": ["string", "null"]}),                   "string | null"),
            (json!({"type": ["integer", "number"]}),                "number"),
            (json!({"type": "string", "nullable": true}),           "string | null"),
            (json!({"type": "file"}),                               "any"),
            (json!({"type": 5}),                                    "any"),
            // Literals.
            (json!({"enum": ["a", 1, -0.5, true, null, "a"]}),      r#""a" | 1 | -0.5 | true | null"#),
            (json!({"enum": []}),                                   "never"),
            (json!({"type": "string", "enum": ["a", null]}),        r#""a""#),
            (json!({"const": "\"\n"}),                              r#""\"\n""#),
            (json!({"const": {"a": [1, {}]}}),                      "{ a: [1, {}] }"),
            (json!({"enum": vec![0; 2000]}),                        "number"),
            // Objects.
            (json!({"type": "object"}),                             "object"),
            (json!({"type": "object", "properties": {}}),           "object"),
            (json!({"properties": {}, "additionalProperties": true}), "object"),
            (json!({"type": "object", "additionalProperties": false}), "{}"),
            (json!({"additionalProperties": {"type": "number"}}),   "{ [key: string]: number }"),
            (json!({"patternProperties": {"^a": {"type": "number"}, "^b": {"type": "null"}}}), "{ [key: string]: number | null }"),
            (json!({"properties": {"b": {}, "a": {"type": "null"}}, "required": ["a"]}), "{ a: null; b?: any }"),
            (json!({"properties": {"a": {}}}),                      "{ a?: any }"),
            (json!({"properties": {"a": {}}, "additionalProperties": {}}), "{ a?: any; [key: string]: any }"),
            (json!({"properties": {"a": {}}, "additionalProperties": true}), "{ a?: any; [key: string]: any }"),
            (json!({"properties": {"a": {}}, "patternProperties": {"^x-": {}}}), "{ a?: any; [key: string]: any }"),
            (json!({"properties": {"a": {"default": 1}}, "required": ["a"]}), "{ a?: any /* default 1 */ }"),
            (json!({"patternProperties": {"^a": {"type": "number"}}, "additionalProperties": {"type": "null"}}), "{ [key: string]: number | null }"),
            (json!({"patternProperties": {"^a": {"type": "number"}}, "additionalProperties": false}), "{ [key: string]: number }"),
            (json!({"properties": {"a": {}}, "additionalProperties": {"type": "null"}}), "{ a?: any; [key: string]: any }"),
            (json!({"required": ["a"]}),                            "{ a: any; [key: string]: any }"),
            (json!({"properties": {"a-b": {}, "__proto__": {}, "1": {}, "": {}}}), r#"{ "a-b"?: any; __proto__?: any; "1"?: any; ""?: any }"#),
            (json!({"properties": [], "required": "a"}),            "object"),
            // Arrays and tuples.
            (json!({"type": "array"}),                              "any[]"),
            (json!({"items": {"type": ["string", "null"]}}),        "(string | null)[]"),
            (json!({"items": {"items": {"type": "number"}}}),       "number[][]"),
            (json!({"prefixItems": [{"type": "null"}, {"type": ["null", "string"]}], "minItems": 1}), "[null, (null | string)?, ...any[]]"),
            (json!({"prefixItems": [{"type": "null"}], "items": false, "minItems": 1}), "[null]"),
            (json!({"items": [{"type": "null"}], "additionalItems": false}), "[null?]"),
            (json!({"items": [{"type": "null"}], "additionalItems": {"type": "string"}, "minItems": 9}), "[null, ...string[]]"),
            (json!({"prefixItems": vec![json!({}); 100]}),          "any[]"),
            // Choices.
            (json!({"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "string"}]}), "string | null"),
            (json!({"oneOf": [{"type": "string"}, {"anyOf": [{"type": "null"}, false]}]}), "string | null"),
            (json!({"anyOf": [{"type": "string"}, {}]}),            "any"),
            (json!({"anyOf": []}),                                  "any"),
            (json!({"anyOf": {}, "allOf": 1}),                      "any"),
            (json!({"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}), "{ a?: any; b?: any }"),
        ];
        for (schema, expected) in table {
            assert_eq!(written(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn references_are_followed_once() {
        let with = |schema: Value, definitions: Value| {
            let mut whole = schema;
            whole["$defs"] = definitions;
            whole
        };
        let to = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
        let tree = json!({"properties": {"name": {"type": "string"}, "children": {"items": to("T")}}});
        #[rustfmt::skip]
        let table = [
            (with(to("S"), json!({"S": {"type": "string"}})),                   "string"),
            (with(to("List%3CS~1T%3E"), json!({"List<S/T>": {"type": "string"}})), "string"),
            (json!({"$ref": "#/definitions/S", "definitions": {"S": {"const": 1}}}), "1"),
            (with(json!({"properties": {"a": to("S"), "b": to("S")}}), json!({"S": {"type": "null"}})), "{ a?: null; b?: null }"),
            (with(to("T"), json!({"T": tree})),                                 "{ name?: string; children?: any[] }"),
            (with(to("A"), json!({"A": {"items": to("B")}, "B": {"items": to("A")}})), "any[][]"),
            (with(to("A"), json!({"A": to("B"), "B": to("A")})),                "any"),
            (json!({"properties": {"self": {"$ref": "#"}}}),                    "{ self?: any }"),
            (json!({"properties": {"a": {"items": {"$ref": "#/properties/a"}}}}), "{ a?: any[][] }"),
            (json!({"$ref": "https://example.com/schema.json"}),                "any"),
            (json!({"$ref": "#/$defs/missing", "type": "string"}),              "string"),
            (json!({"$ref": "#%ff"}),                                           "any"),
            (with(json!({"$ref": "#s"}), json!({"S": {"$anchor": "s", "type": "string"}})), "string"),
            (with(json!({"$ref": "s.json"}), json!({"S": {"$id": "s.json", "type": "string"}})), "string"),
            (json!({"$ref": 7}),                                                "any"),
        ];
        for (schema, expected) in table {
            assert_eq!(written(&schema), expected, "{schema}");
        }
    }
}
