//! Two types at once: what `allOf` and neighbouring keywords ask for.
//!
//! TypeScript's `&` would say the same, but the compiler multiplies unions out and gives up on large
//! ones, and readers do too. So types are merged here, and where that would take too much the
//! second one is passed over: the result is wider than the schema, never narrower.

use std::{collections::HashMap, rc::Rc};

use super::{
    schema::Reader,
    types::{Object, Property, Rest, Type, members, union},
};

/// Two unions are multiplied out up to this many members.
const MAX_PRODUCT: usize = 64;

impl<'a> Reader<'a> {
    /// The type of values that are of both types.
    pub(super) fn both(&mut self, first: &Rc<Type<'a>>, second: &Rc<Type<'a>>) -> Rc<Type<'a>> {
        match (&**first, &**second) {
            (Type::Any, _) => return second.clone(),
            (_, Type::Any) => return first.clone(),
            _ if !self.step() => return first.clone(),
            _ => {}
        }
        match (&**first, &**second) {
            (Type::Union(_), _) | (_, Type::Union(_)) => {
                let (left, right) = (members(first), members(second));
                if left.len() > 1 && right.len() > 1 && left.len() * right.len() > MAX_PRODUCT {
                    return first.clone();
                }
                let pairs = left.iter().flat_map(|left| right.iter().map(move |right| (left, right)));
                union(pairs.map(|(left, right)| self.both(left, right)))
            }
            (Type::Object(left), Type::Object(right)) => Rc::new(Type::Object(self.merged(left, right))),
            (Type::Array(left), Type::Array(right)) => Rc::new(Type::Array(self.both(left, right))),
            (Type::Literal(left), Type::Literal(right)) if left != right => Rc::new(Type::Never),
            (left, right) if kind(left) != kind(right) => Rc::new(Type::Never),
            (_, Type::Literal(_) | Type::Tuple(_)) => second.clone(),
            _ => first.clone(),
        }
    }

    fn merged(&mut self, left: &Object<'a>, right: &Object<'a>) -> Object<'a> {
        self.pass_over(left.properties.len() + right.properties.len());
        let mut properties = left.properties.clone();
        let places: HashMap<_, _> =
            left.properties.iter().enumerate().map(|(place, property)| (property.name, place)).collect();
        for property in &right.properties {
            match places.get(property.name) {
                None => properties.push(property.clone()),
                Some(&place) => {
                    let known = &properties[place];
                    properties[place] = Property {
                        name: known.name,
                        of: self.both(&known.of, &property.of),
                        required: known.required || property.required,
                        described: known.described.or(property.described),
                    };
                }
            }
        }
        let rest = match (&left.rest, &right.rest) {
            (Rest::Open(left), Rest::Open(right)) => Rest::Open(self.both(left, right)),
            (Rest::Closed, _) | (_, Rest::Closed) => Rest::Closed,
            (Rest::Open(of), _) | (_, Rest::Open(of)) => Rest::Open(of.clone()),
            (Rest::Matching(left), Rest::Matching(right)) => Rest::Matching(union([left.clone(), right.clone()])),
            (Rest::Matching(of), Rest::Silent) | (Rest::Silent, Rest::Matching(of)) => Rest::Matching(of.clone()),
            (Rest::Silent, Rest::Silent) => Rest::Silent,
        };
        Object { properties, rest }
    }
}

/// A name of the kind of value. Only values of one kind can be of both types.
fn kind(of: &Type<'_>) -> &'static str {
    match of {
        Type::Any => "any",
        Type::Never => "never",
        Type::Null => "null",
        Type::Boolean => "boolean",
        Type::Number => "number",
        Type::String => "string",
        Type::Literal(value) if value.is_string() => "string",
        Type::Literal(value) if value.is_number() => "number",
        Type::Literal(_) => "boolean",
        Type::Array(_) | Type::Tuple(_) => "array",
        Type::Object(_) => "object",
        // Multiplied out before anybody asks.
        Type::Union(_) => "union",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::catalog::{
        schema_form::Side,
        typescript::{
            schema::read,
            text::{Detail, line},
        },
    };

    #[test]
    fn what_must_all_hold_is_merged() {
        let (a, b) = (json!({"properties": {"a": {"type": "string"}}}), json!({"properties": {"b": {"type": "null"}}}));
        let letters = |count| json!({"enum": ('a'..='z').take(count).map(String::from).collect::<Vec<_>>()});
        #[rustfmt::skip]
        let table = [
            (json!({"allOf": [a, b]}),                                          "{ a?: string; b?: null }"),
            (json!({"allOf": [a, {"required": ["a"]}]}),                        "{ a: string }"),
            (json!({"allOf": [a, {"properties": {"a": {"enum": ["x", 1]}}}]}),  r#"{ a?: "x" }"#),
            (json!({"type": "object", "anyOf": [a, b]}),                        "{ a?: string } | { b?: null }"),
            (json!({"properties": {"c": {}}, "oneOf": [a, b]}),                 "{ c?: any; a?: string } | { c?: any; b?: null }"),
            (json!({"allOf": [{"type": ["string", "null"]}, {"type": ["null", "number"]}]}), "null"),
            (json!({"allOf": [{"items": {}}, {"items": {"type": "null"}}]}),    "null[]"),
            (json!({"allOf": [{"type": "array"}, {"prefixItems": [{}]}]}),      "[any?, ...any[]]"),
            (json!({"allOf": [{"const": 1}, {"const": 2}]}),                    "never"),
            (json!({"allOf": [letters(3), letters(2)]}),                        r#""a" | "b""#),
            (json!({"allOf": [letters(3), letters(24)]}),                       r#""a" | "b" | "c""#),
            (json!({"allOf": [{"type": "string"}, letters(2)]}),                r#""a" | "b""#),
            (json!({"allOf": [{"type": "string"}, false]}),                     "never"),
            (json!({"type": "string", "allOf": [{}, {"minLength": 1}]}),        "string"),
            (json!({"allOf": [{"additionalProperties": {"type": "null"}}, {"type": "object"}]}), "{ [key: string]: null }"),
        ];
        for (schema, expected) in table {
            let of = read(&schema, &schema, Side::Arguments);
            assert_eq!(line(&of, Detail::ALL, usize::MAX).text, expected, "{schema}");
        }
    }
}
