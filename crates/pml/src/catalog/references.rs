//! References inside a schema, in the one form that all readers of the schema follow.
//!
//! A `$ref` may name its target by a pointer, percent-encoded or not, by an anchor, by an `$id` or by the address of the
//! whole schema, and which of those count differs between drafts. [`localise`] rewrites all of them to encoded pointers
//! from the root, so that the type, the host check and its cost follow the same reference to the same place.
//!
//! References that leave the schema stay as they are. None is ever fetched.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// A longer reference is not followed.
const MAX_REFERENCE_BYTES: usize = 1024;
/// Keywords that hold values, not schemas.
const VALUES: [&str; 4] = ["const", "default", "enum", "examples"];
/// Keywords that refer to another schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Keywords that name a schema.
const NAMES: [&str; 3] = ["$id", "$anchor", "$dynamicAnchor"];

/// Rewrites every reference within `schema` to a pointer from its root, and drops the names that are not needed any more.
pub(super) fn localise(schema: &mut Value) {
    let mut names = Names::default();
    names.collect(schema, &mut String::new(), "");
    // Most schemas have nothing to rewrite.
    if names.is_needed {
        rewrite(schema, &names, &schema.clone(), "", &mut String::new());
    }
}

/// Where a pointer reference leads. `None` if it leaves the schema or leads nowhere.
pub(super) fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#').filter(|pointer| pointer.len() <= MAX_REFERENCE_BYTES)?;
    root.pointer(&percent_decoded(pointer)?)
}

/// Calls `each` for the schemas that are parts of a schema, with the pointer to each. Unknown keywords count as schemas,
/// since references may lead into them.
pub(super) fn for_each_part(keywords: &mut Map<String, Value>, mut each: impl FnMut(&str, &mut Value)) {
    for (keyword, part) in keywords.iter_mut().filter(|(keyword, _)| !VALUES.contains(&keyword.as_str())) {
        let place = escaped(keyword);
        match part {
            Value::Object(entries) if holds_named_parts(keyword) => {
                entries.iter_mut().for_each(|(name, part)| each(&format!("/{place}/{}", escaped(name)), part));
            }
            Value::Array(parts) => {
                let parts = parts.iter_mut().enumerate();
                parts.for_each(|(index, part)| each(&format!("/{place}/{index}"), part));
            }
            Value::Object(_) => each(&format!("/{place}"), part),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// Does the keyword hold schemas by names of their own, which are no keywords?
fn holds_named_parts(keyword: &str) -> bool {
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"].contains(&keyword)
}

/// The schemas that have names.
#[derive(Default)]
struct Names {
    /// Pointers, by the place of the schema resource and the anchor in it.
    places: HashMap<(String, String), String>,
    /// The same by the anchor alone, for servers that mix resources up.
    anywhere: HashMap<String, String>,
    /// Places of schema resources, by their addresses and by the last parts of those.
    resources: HashMap<String, String>,
    /// Is there a name, or a reference that is not a plain pointer?
    is_needed: bool,
}

impl Names {
    fn collect(&mut self, schema: &mut Value, place: &mut String, resource: &str) {
        let Value::Object(keywords) = schema else { return };
        let mut resource = resource.to_owned();
        let text = |keyword: &str| keywords.get(keyword).and_then(Value::as_str);
        if let Some(id) = text("$id") {
            self.is_needed = true;
            match id.strip_prefix('#') {
                // An anchor in draft-07.
                Some(anchor) => self.anchor(&resource, anchor, place),
                None => {
                    resource.clone_from(place);
                    let address = id.trim_end_matches('#');
                    self.resources.entry(last_part(address).to_owned()).or_insert_with(|| resource.clone());
                    self.resources.insert(address.to_owned(), resource.clone());
                }
            }
        }
        for anchor in ["$anchor", "$dynamicAnchor"].into_iter().filter_map(text) {
            self.is_needed = true;
            self.anchor(&resource, anchor, place);
        }
        for keyword in REFERENCES {
            let reference = keywords.get(keyword).and_then(Value::as_str);
            self.is_needed |= reference.is_some_and(|to| keyword != "$ref" || !is_plain(to));
        }
        let length = place.len();
        for_each_part(keywords, |step, part| {
            place.push_str(step);
            self.collect(part, place, &resource);
            place.truncate(length);
        });
    }

    fn anchor(&mut self, resource: &str, anchor: &str, place: &str) {
        self.places.insert((resource.to_owned(), anchor.to_owned()), place.to_owned());
        self.anywhere.insert(anchor.to_owned(), place.to_owned());
    }

    /// The pointer from the root to what `reference` means in the resource at `resource`.
    fn pointer(&self, root: &Value, resource: &str, reference: &str) -> Option<String> {
        if reference.len() > MAX_REFERENCE_BYTES {
            return None;
        }
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let resource = match address {
            "" => resource,
            // One of two addresses may be relative to the other.
            address => self.resources.get(address).or_else(|| self.resources.get(last_part(address)))?,
        };
        let fragment = percent_decoded(fragment)?;
        let pointer = match fragment.is_empty() || fragment.starts_with('/') {
            true => format!("{resource}{fragment}"),
            false => self
                .places
                .get(&(resource.to_owned(), fragment.clone()))
                .or_else(|| self.anywhere.get(&fragment))?
                .clone(),
        };
        root.pointer(&pointer).map(|_| pointer)
    }
}

/// Rewrites the references of the schema at `place`, which is part of the resource at `resource`.
fn rewrite(schema: &mut Value, names: &Names, root: &Value, resource: &str, place: &mut String) {
    let Value::Object(keywords) = schema else { return };
    let is_resource = |id: &Value| id.as_str().is_some_and(|id| !id.starts_with('#'));
    let own = keywords.get("$id").filter(|id| is_resource(id)).map(|_| place.clone());
    let resource = own.as_deref().unwrap_or(resource);
    for keyword in REFERENCES {
        let Some(Value::String(reference)) = keywords.get(keyword) else { continue };
        if let Some(pointer) = names.pointer(root, resource, reference) {
            keywords.remove(keyword);
            keywords.insert("$ref".to_owned(), format!("#{}", percent_encoded(&pointer)).into());
        }
    }
    for name in NAMES {
        if keywords.get(name).is_some_and(Value::is_string) {
            keywords.remove(name);
        }
    }
    let length = place.len();
    for_each_part(keywords, |step, part| {
        place.push_str(step);
        rewrite(part, names, root, resource, place);
        place.truncate(length);
    });
}

/// Is the reference a pointer that needs no decoding, or one that is encoded right?
fn is_plain(reference: &str) -> bool {
    let pointer = reference.strip_prefix('#').filter(|pointer| pointer.is_empty() || pointer.starts_with('/'));
    pointer.is_some_and(|pointer| percent_decoded(pointer).is_some_and(|decoded| percent_encoded(&decoded) == pointer))
}

/// What an address ends with.
fn last_part(address: &str) -> &str {
    address.rsplit('/').next().unwrap_or_default()
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// The text that a fragment of an address stands for. A `%` without digits stands for itself. `None` if it is no text.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        match byte {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// Text as a fragment of an address.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => encoded.push(char::from(byte)),
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'='
            | b':' | b'@' | b'/' | b'?' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_way_to_refer_becomes_a_pointer() {
        let string = json!({"type": "string"});
        #[rustfmt::skip]
        let table = [
            // reference                        definitions                                             pointer
            ("#/$defs/List<S>",                 json!({"List<S>": string}),                             "#/$defs/List%3CS%3E"),
            ("#/$defs/List%3CS%3E",             json!({"List<S>": string}),                             "#/$defs/List%3CS%3E"),
            ("#/$defs/größe",                   json!({"größe": string}),                               "#/$defs/gr%C3%B6%C3%9Fe"),
            ("#/$defs/a~1b",                    json!({"a/b": string}),                                 "#/$defs/a~1b"),
            ("#/$defs/100%",                    json!({"100%": string}),                                "#/$defs/100%25"),
            ("#name",                           json!({"a": {"$anchor": "name"}}),                      "#/$defs/a"),
            ("#name",                           json!({"a": {"$id": "#name"}}),                         "#/$defs/a"),
            ("other",                           json!({"a": {"$id": "other"}}),                         "#/$defs/a"),
            ("https://x.org/s/other.json",      json!({"a": {"$id": "other.json"}}),                    "#/$defs/a"),
            ("other#/x",                        json!({"a": {"$id": "other", "x": string}}),            "#/$defs/a/x"),
            ("other#name",                      json!({"a": {"$id": "other", "x": {"$anchor": "name"}}}), "#/$defs/a/x"),
            ("#",                               json!({}),                                              "#"),
            // What leads nowhere, or out, stays.
            ("#/$defs/none",                    json!({}),                                              "#/$defs/none"),
            ("#none",                           json!({}),                                              "#none"),
            ("https://example.org/x",           json!({}),                                              "https://example.org/x"),
        ];
        for (reference, definitions, expected) in table {
            let mut schema = json!({"properties": {"p": {"$ref": reference}}, "$defs": definitions});
            localise(&mut schema);
            assert_eq!(schema["properties"]["p"]["$ref"], expected, "{reference}");
        }
    }

    #[test]
    fn a_pointer_in_a_resource_starts_at_the_resource() {
        let inner = json!({"$id": "https://x.org/inner", "$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}});
        let mut schema = json!({"$id": "https://x.org/outer", "properties": {"p": inner, "q": {"$ref": "inner"}}});
        localise(&mut schema);
        let string = json!({"type": "string"});
        let expected = json!({"properties": {
            "p": {"$ref": "#/properties/p/$defs/a", "$defs": {"a": string}},
            "q": {"$ref": "#/properties/p"},
        }});
        assert_eq!(schema, expected);
    }

    #[test]
    fn values_and_names_of_properties_are_not_touched() {
        let mut schema = json!({
            "$anchor": "top",
            "properties": {"$ref": {"type": "string"}, "$id": {"const": {"$ref": "#top"}}, "id": {"default": {"$id": "x"}}},
            "enum": [{"$anchor": "x"}],
        });
        let mut expected = schema.clone();
        expected.as_object_mut().unwrap().remove("$anchor");
        localise(&mut schema);
        assert_eq!(schema, expected);
    }
}
