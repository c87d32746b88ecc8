//! Whether a value is of a type, as the compiler would see it.

use std::rc::Rc;

use serde_json::Value;

use super::{
    schema::read,
    types::{Object, Rest, Tuple, Type},
};
use crate::catalog::schema_form::Side;

/// Is a value of a type?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::catalog) enum Fit {
    No,
    /// But for properties that the schema neither names nor refuses.
    Unnamed,
    Yes,
}

/// Is a value of the type that a schema of arguments describes?
pub(in crate::catalog) fn fits(schema: &Value, value: &Value) -> Fit {
    fit(&read(schema, schema, Side::Arguments), value)
}

fn fit(of: &Type<'_>, value: &Value) -> Fit {
    let is = |verdict: bool| if verdict { Fit::Yes } else { Fit::No };
    match (of, value) {
        (Type::Any, _) => Fit::Yes,
        (Type::Null, value) => is(value.is_null()),
        (Type::Boolean, value) => is(value.is_boolean()),
        (Type::Number, value) => is(value.is_number()),
        (Type::String, value) => is(value.is_string()),
        (Type::Literal(literal), value) => is(*literal == value),
        (Type::Union(members), value) => members.iter().map(|member| fit(member, value)).max().unwrap_or(Fit::No),
        (Type::Array(item), Value::Array(items)) => all(items.iter().map(|value| fit(item, value))),
        (Type::Tuple(tuple), Value::Array(items)) => fit_tuple(tuple, items),
        (Type::Object(object), Value::Object(entries)) => fit_object(object, entries),
        (Type::Never | Type::Array(_) | Type::Tuple(_) | Type::Object(_), _) => Fit::No,
    }
}

fn all(fits: impl Iterator<Item = Fit>) -> Fit {
    fits.min().unwrap_or(Fit::Yes)
}

fn fit_tuple(tuple: &Tuple<'_>, items: &[Value]) -> Fit {
    if items.len() < tuple.required || (items.len() > tuple.items.len() && tuple.rest.is_none()) {
        return Fit::No;
    }
    let types = tuple.items.iter().chain(tuple.rest.iter().cycle());
    all(types.zip(items).map(|(of, item)| fit(of, item)))
}

fn fit_object(object: &Object<'_>, entries: &serde_json::Map<String, Value>) -> Fit {
    let named = object.properties.iter().map(|property| match entries.get(property.name) {
        Some(entry) => fit(&property.of, entry),
        None if property.required => Fit::No,
        None => Fit::Yes,
    });
    let is_named = |key: &str| object.properties.iter().any(|property| property.name == key);
    let rest: Option<Rc<Type<'_>>> = object.further();
    let others = entries.iter().filter(|(key, _)| !is_named(key)).map(|(_, entry)| match (&rest, &object.rest) {
        // Beside properties, the type of an index is written as `any`.
        (Some(_), _) if !object.properties.is_empty() => Fit::Yes,
        (Some(of), Rest::Matching(_)) => fit(of, entry).max(Fit::Unnamed),
        (Some(of), _) => fit(of, entry),
        (None, Rest::Silent) => Fit::Unnamed,
        (None, _) => Fit::No,
    });
    all(named.chain(others))
}
