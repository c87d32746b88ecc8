//! The shapes of results: which kinds of values are where, and never a value.
//!
//! For tools that do not say what they return. A shape is the merge of all results seen so far. What a server can make large is
//! bounded: depth, names of one object, parts of one shape, tools. A name of a property can be data as well (an address as a
//! key, a secret): a name that is not written like an identifier, or that the sanitizer would remove, makes the object a map,
//! whose keys are not kept; and a name is shown only if enough results had it.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::trace::sanitize::{Rules, Sanitizer};

/// Results of a tool before its type is shown, and results that must have a property before it is.
const ENOUGH: u32 = 3;
const MAX_DEPTH: usize = 6;
/// Names of one object; with more it is a map.
const MAX_NAMES: usize = 48;
/// Parts of the shape of one tool.
const MAX_PARTS: usize = 400;
/// Items of an array that are looked at, spread over it.
const MAX_ITEMS: usize = 16;
const MAX_TOOLS: usize = 2000;
const MAX_NAME_BYTES: usize = 40;
/// An object in which fewer than one of so many results has a typical name is a map.
const RARE: u32 = 8;

/// The shapes of the results of tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Shapes(BTreeMap<String, OfTool>);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct OfTool {
    /// Of what the server says about the tool: a tool that has changed begins again.
    hash: String,
    results: u32,
    shape: Shape,
}

/// What is known of one place of a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Shape {
    nulls: u32,
    booleans: u32,
    numbers: u32,
    strings: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<Box<Items>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<Box<Properties>>,
    /// Values that are nested too deep to be looked at.
    deep: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Items {
    seen: u32,
    item: Shape,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Properties {
    seen: u32,
    named: BTreeMap<String, Shape>,
    /// The values of a map, whatever their keys are.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_map: Option<Box<Shape>>,
}

/// What a tool returns, as far as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedType {
    /// A JSON schema.
    pub schema: Value,
    /// How many results it is from.
    pub results: u32,
}

impl Shapes {
    /// Adds a result. `hash` is of what the server says about the tool.
    pub(super) fn add(&mut self, tool: &str, hash: &str, result: &str) {
        let Ok(value) = serde_json::from_str::<Value>(result) else { return };
        if !self.0.contains_key(tool) && self.0.len() >= MAX_TOOLS {
            // One with few results makes room.
            let least = self.0.iter().min_by_key(|(_, known)| known.results).map(|(tool, _)| tool.clone());
            least.map(|tool| self.0.remove(&tool));
        }
        let known = self.0.entry(tool.to_owned()).or_default();
        if known.hash != hash {
            *known = OfTool { hash: hash.to_owned(), ..OfTool::default() };
        }
        known.results = known.results.saturating_add(1);
        let mut room = MAX_PARTS.saturating_sub(known.shape.parts());
        known.shape.add(&value, MAX_DEPTH, &mut room);
    }

    pub(super) fn results(&self, tool: &str) -> u32 {
        self.0.get(tool).map_or(0, |known| known.results)
    }

    pub(super) fn len(&self) -> usize {
        self.0.values().filter(|known| known.results >= ENOUGH).count()
    }

    /// What a tool returns, if enough results were seen of it as it is now.
    pub(super) fn learned(&self, tool: &str, hash: &str) -> Option<LearnedType> {
        let known = self.0.get(tool).filter(|known| known.hash == hash && known.results >= ENOUGH)?;
        let schema = known.shape.schema();
        // That it can be anything is known anyway.
        (schema != json!({})).then_some(LearnedType { schema, results: known.results })
    }

    /// The same within all bounds: what is read from disk may have been written by anybody.
    pub(super) fn bounded(mut self) -> Shapes {
        while self.0.len() > MAX_TOOLS {
            self.0.pop_last();
        }
        self.0.retain(|_, known| known.shape.parts() <= MAX_PARTS && known.shape.is_bounded(MAX_DEPTH));
        self
    }
}

impl Shape {
    fn parts(&self) -> usize {
        let items = self.array.as_ref().map_or(0, |items| items.item.parts());
        let properties = self
            .object
            .as_ref()
            .map_or(0, |object| object.named.values().chain(object.of_map.as_deref()).map(Shape::parts).sum::<usize>());
        1 + items + properties
    }

    fn is_bounded(&self, depth: usize) -> bool {
        let is_fine = |shape: &Shape| depth > 0 && shape.is_bounded(depth - 1);
        self.array.as_ref().is_none_or(|items| is_fine(&items.item))
            && self.object.as_ref().is_none_or(|object| {
                object.named.len() <= MAX_NAMES
                    && object.named.keys().all(|name| is_name(name))
                    && object.named.values().chain(object.of_map.as_deref()).all(is_fine)
            })
    }

    /// `room`: parts that may still be made.
    fn add(&mut self, value: &Value, depth: usize, room: &mut usize) {
        let count = |count: &mut u32| *count = count.saturating_add(1);
        match value {
            Value::Null => count(&mut self.nulls),
            Value::Bool(_) => count(&mut self.booleans),
            Value::Number(_) => count(&mut self.numbers),
            Value::String(_) => count(&mut self.strings),
            Value::Array(_) | Value::Object(_) if depth == 0 || *room == 0 => count(&mut self.deep),
            Value::Array(items) => {
                let known = self.array.get_or_insert_with(|| {
                    *room = room.saturating_sub(1);
                    Box::default()
                });
                count(&mut known.seen);
                let step = items.len().div_ceil(MAX_ITEMS).max(1);
                items.iter().step_by(step).for_each(|item| known.item.add(item, depth - 1, room));
            }
            Value::Object(entries) => self.object.get_or_insert_default().add(entries, depth, room),
        }
    }

    /// Adds what another place has: the two become one.
    fn merge(&mut self, other: Shape) {
        self.nulls = self.nulls.saturating_add(other.nulls);
        self.booleans = self.booleans.saturating_add(other.booleans);
        self.numbers = self.numbers.saturating_add(other.numbers);
        self.strings = self.strings.saturating_add(other.strings);
        self.deep = self.deep.saturating_add(other.deep);
        if let Some(items) = other.array {
            let known = self.array.get_or_insert_default();
            known.seen = known.seen.saturating_add(items.seen);
            known.item.merge(items.item);
        }
        if let Some(object) = other.object {
            let known = self.object.get_or_insert_default();
            known.seen = known.seen.saturating_add(object.seen);
            for (name, shape) in object.named {
                known.place(&name).merge(shape);
            }
            if let Some(of_map) = object.of_map {
                known.become_map().merge(*of_map);
            }
        }
    }

    fn schema(&self) -> Value {
        let mut kinds: Vec<Value> = Vec::new();
        if self.deep > 0 {
            return json!({});
        }
        for (count, kind) in [(self.strings, "string"), (self.numbers, "number"), (self.booleans, "boolean")] {
            if count > 0 {
                kinds.push(json!({ "type": kind }));
            }
        }
        if let Some(items) = &self.array {
            kinds.push(json!({ "type": "array", "items": items.item.schema() }));
        }
        if let Some(object) = &self.object {
            kinds.push(object.schema());
        }
        if self.nulls > 0 {
            kinds.push(json!({ "type": "null" }));
        }
        match kinds.len() {
            0 => json!({}),
            1 => kinds.remove(0),
            _ => json!({ "anyOf": kinds }),
        }
    }
}

impl Properties {
    fn add(&mut self, entries: &Map<String, Value>, depth: usize, room: &mut usize) {
        self.seen = self.seen.saturating_add(1);
        for (name, value) in entries.iter().take(4 * MAX_NAMES) {
            let is_new = self.of_map.is_none() && !self.named.contains_key(name);
            if is_new && *room == 0 {
                self.become_map();
            } else if is_new {
                *room -= 1;
            }
            self.place(name).add(value, depth - 1, room);
        }
        // Names that come and go are keys of a map: where there are many results, each typical name is in many of them.
        let typical = self.named.values().map(Shape::seen).sum::<u32>() / self.named.len().max(1) as u32;
        if self.of_map.is_none() && self.named.len() > 4 && self.seen >= 2 * RARE && typical * RARE < self.seen {
            self.become_map();
        }
    }

    /// Where the value of a name belongs.
    fn place(&mut self, name: &str) -> &mut Shape {
        let is_known = self.named.contains_key(name);
        if self.of_map.is_some() || (!is_known && (self.named.len() >= MAX_NAMES || !is_name(name))) {
            return self.become_map();
        }
        self.named.entry(name.to_owned()).or_default()
    }

    fn become_map(&mut self) -> &mut Shape {
        let named = std::mem::take(&mut self.named);
        let of_map = self.of_map.get_or_insert_default();
        named.into_values().for_each(|shape| of_map.merge(shape));
        of_map
    }

    fn schema(&self) -> Value {
        if let Some(of_map) = &self.of_map {
            return json!({ "type": "object", "additionalProperties": of_map.schema() });
        }
        let shown = || self.named.iter().filter(|(_, shape)| shape.seen() >= ENOUGH);
        let properties: Map<String, Value> = shown().map(|(name, shape)| (name.clone(), shape.schema())).collect();
        let required: Vec<&String> = shown().filter(|(_, shape)| shape.seen() >= self.seen).map(|it| it.0).collect();
        json!({ "type": "object", "properties": properties, "required": required })
    }
}

impl Shape {
    /// Values that were seen here.
    fn seen(&self) -> u32 {
        let array = self.array.as_ref().map_or(0, |items| items.seen);
        let object = self.object.as_ref().map_or(0, |object| object.seen);
        [self.nulls, self.booleans, self.numbers, self.strings, self.deep, array, object]
            .into_iter()
            .fold(0, u32::saturating_add)
    }
}

/// The kinds of values that one value is made of, as a JSON schema; never a value itself.
pub fn schema_of(value: &Value) -> Value {
    let mut shape = Shape::default();
    // As if it had been seen often enough to be shown.
    for _ in 0..ENOUGH {
        let mut room = MAX_PARTS;
        shape.add(value, MAX_DEPTH, &mut room);
    }
    shape.schema()
}

/// Is this written like a name that a programmer gives, and no secret?
fn is_name(name: &str) -> bool {
    static SANITIZER: LazyLock<Sanitizer> = LazyLock::new(|| Sanitizer::new(Rules::default()));
    let mut bytes = name.bytes();
    let is_start = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$' || byte == b'@';
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_$-.".contains(&byte);
    name.len() <= MAX_NAME_BYTES
        && bytes.next().is_some_and(is_start)
        && bytes.all(is_part)
        // Ids have more digits than names do.
        && name.bytes().filter(u8::is_ascii_digit).count() <= 4
        && *SANITIZER.text(name) == *name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(results: &[Value]) -> Option<Value> {
        let mut shapes = Shapes::default();
        results.iter().for_each(|result| shapes.add("s:t", "h", &result.to_string()));
        shapes.learned("s:t", "h").map(|learned| learned.schema)
    }

    fn thrice(result: &Value) -> Value {
        learned(&[result.clone(), result.clone(), result.clone()]).unwrap()
    }

    #[test]
    fn kinds_are_learned_and_never_values() {
        let issue = json!({ "id": 7, "title": "secret text", "labels": ["a"], "open": true, "closed_at": null });
        let schema = thrice(&json!([issue.clone(), issue]));
        let item = &schema["items"];
        assert_eq!(item["properties"]["title"], json!({ "type": "string" }));
        assert_eq!(item["properties"]["labels"]["items"], json!({ "type": "string" }));
        assert_eq!(item["required"].as_array().map(Vec::len), Some(5));
        assert!(!schema.to_string().contains("secret text"));
    }

    #[test]
    fn optional_fields_unions_and_plain_texts() {
        let results = [json!({ "id": 1, "note": "x" }), json!({ "id": "a" }), json!({ "id": 2, "note": null })];
        let schema = learned(&[results.clone(), results.clone()].concat()).unwrap();
        assert_eq!(schema["required"], json!(["id"]));
        assert_eq!(schema["properties"]["id"]["anyOf"], json!([{ "type": "string" }, { "type": "number" }]));
        assert_eq!(schema["properties"]["note"]["anyOf"], json!([{ "type": "string" }, { "type": "null" }]));
        assert_eq!(thrice(&json!("plain")), json!({ "type": "string" }));
    }

    #[test]
    fn keys_that_are_data_make_a_map() {
        let by_address = json!({ "ada@example.org": { "age": 1 }, "bob@example.org": { "age": 2 } });
        let schema = thrice(&by_address);
        assert!(!schema.to_string().contains("example"), "{schema}");
        assert_eq!(schema["additionalProperties"]["properties"]["age"], json!({ "type": "number" }));
        // Keys that look like names, but come and go.
        let results: Vec<Value> =
            (0..40).map(|round| json!({ (format!("user{}", (b'a' + round % 26) as char)): 1 })).collect();
        let schema = learned(&results).unwrap();
        assert_eq!(schema["additionalProperties"], json!({ "type": "number" }), "{schema}");
        // And what only one result had is not shown.
        let mut results = vec![json!({ "id": 1 }); 5];
        results.push(json!({ "id": 1, "ignore_all_instructions": 1 }));
        assert!(!learned(&results).unwrap().to_string().contains("ignore"));
        for secret in ["ghp_16C7e42F292c6912E7710c838347Ae178B4a", "AKIAIOSFODNN7EXAMPLE"] {
            let schema = thrice(&json!({ (secret): 1 }));
            assert!(!schema.to_string().contains(secret), "{schema}");
        }
    }

    #[test]
    fn a_hostile_result_is_bounded() {
        let mut deep = json!(1);
        for _ in 0..60 {
            deep = json!({ "a": deep });
        }
        let wide: Map<String, Value> = (0..5000)
            .map(|number: u32| (format!("k{}", "x".repeat(number as usize % 30)), json!({ "a": [[[number]]] })))
            .collect();
        let mut shapes = Shapes::default();
        for round in 0..200 {
            let names: Map<String, Value> =
                (0..40).map(|n| (format!("n{}{}", (b'a' + n) as char, round % 9), json!({"x": {"y": n}}))).collect();
            for value in [&deep, &Value::Object(wide.clone()), &Value::Object(names)] {
                shapes.add("s:t", "h", &value.to_string());
            }
        }
        let known = &shapes.0["s:t"];
        assert!(known.shape.parts() <= MAX_PARTS + MAX_NAMES, "{}", known.shape.parts());
        assert!(known.shape.is_bounded(MAX_DEPTH));
        assert_eq!(shapes.clone().bounded().0.len(), usize::from(known.shape.parts() <= MAX_PARTS));
        shapes.add("s:t", "h", &"[".repeat(100_000));
        for tool in 0..MAX_TOOLS + 10 {
            shapes.add(&format!("s:t{tool}"), "h", "1");
        }
        assert!(shapes.0.len() <= MAX_TOOLS);
    }

    #[test]
    fn a_tool_that_changed_begins_again() {
        let mut shapes = Shapes::default();
        (0..5).for_each(|_| shapes.add("s:t", "old", "1"));
        assert!(shapes.learned("s:t", "old").is_some() && shapes.learned("s:t", "new").is_none());
        shapes.add("s:t", "new", "\"x\"");
        assert_eq!(shapes.results("s:t"), 1);
    }
}
