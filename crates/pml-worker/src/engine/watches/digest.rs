//! What an object holds, as a number: two objects with the same content have the same one.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use rquickjs::{Object, Value};

use super::super::raw;

/// How deep, and how many members of an object or array.
const MAX_DEPTH: usize = 4;
const MAX_MEMBERS: usize = 40;

/// The digest of an object. Nothing of the program runs for it; none if it has getters, or too much to look at.
pub(super) fn digest(object: &Object<'_>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    add_object(object, 0, &mut hasher)?;
    Some(hasher.finish())
}

fn add(value: &Value<'_>, depth: usize, hasher: &mut DefaultHasher) -> Option<()> {
    (value.type_of() as u32).hash(hasher);
    if let Some(object) = value.as_object() {
        return add_object(object, depth, hasher);
    }
    match value.as_bool() {
        Some(flag) => flag.hash(hasher),
        None if value.is_null() || value.is_undefined() => {}
        None => raw::with_text(value, |text, _| text.hash(hasher))?,
    }
    Some(())
}

fn add_object(object: &Object<'_>, depth: usize, hasher: &mut DefaultHasher) -> Option<()> {
    if depth > MAX_DEPTH || object.is_proxy() || object.is_function() {
        return None;
    }
    let names = raw::OwnNames::of(object)?;
    if names.len() > MAX_MEMBERS {
        return None;
    }
    names.len().hash(hasher);
    for index in 0..names.len() {
        let name = names.name(index)?;
        raw::with_text(&name, |text, _| text.hash(hasher))?;
        add(&raw::own_data(object, &name)?, depth + 1, hasher)?;
    }
    Some(())
}
