//! The shapes of results: which kinds of values are where, and never a value.
//!
//! For tools that do not say what they return. A shape is the merge of all results seen so far. What a server can make large is
//! bounded: depth, names of one object, parts of one shape, tools. A name of a property can be data as well (an address as a
//! key, a secret): a name that is not written like an identifier, or that the sanitizer would remove, makes the object a map,
//! whose keys are not kept; and a name is shown only if enough results had it.
//!
//! Shapes travel: a gateway tells its hub [what may be shown](Shapes::to_tell), the hub merges what its gateways tell, and every
//! gateway uses the merged shapes until it has seen enough results itself. Whoever reads shapes of others reads them
//! [within bounds](Shapes::of_others).

use std::{collections::BTreeMap, sync::LazyLock};

use pml_wire::ToolId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::sanitize::{Rules, Sanitizer};

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
/// Own results from which on the shapes of others are not looked at.
const OWN_ENOUGH: u32 = 10;
/// Results that others can have seen of one tool, at most: what they claim beyond is not believed.
const MOST_TOLD: u32 = 10_000;
/// Longest text that tells shapes. Those of the tools with the fewest results are left out.
const MAX_TOLD_BYTES: usize = 1 << 20;
/// The server of saved programs.
const CAPABILITIES: &str = "capabilities";
/// Longest hash of what a server says about a tool.
const MAX_HASH_BYTES: usize = 128;

/// The shapes of the results of tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shapes(BTreeMap<String, OfTool>);

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
    /// How many of those other gateways have seen.
    pub of_others: u32,
}

impl LearnedType {
    /// What it is from, in words: `23 results`, `23 results, 20 of them seen by others`.
    pub fn source(&self) -> String {
        match self {
            LearnedType { results, of_others: 0, .. } => format!("{results} results"),
            LearnedType { results, of_others, .. } if results == of_others => {
                format!("{results} results seen by others")
            }
            LearnedType { results, of_others, .. } => format!("{results} results, {of_others} of them seen by others"),
        }
    }
}

impl Shapes {
    /// Adds a result. `hash` is of what the server says about the tool.
    pub(crate) fn add(&mut self, tool: &str, hash: &str, result: &str) {
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

    pub(crate) fn results(&self, tool: &str) -> u32 {
        self.0.get(tool).map_or(0, |known| known.results)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.values().filter(|known| known.results >= ENOUGH).count()
    }

    /// What a tool returns, if enough results were seen of it as it is now: here, or, as long as few were seen here, by others.
    pub(crate) fn learned(&self, others: &Shapes, tool: &str, hash: &str) -> Option<LearnedType> {
        let of = |shapes: &Shapes| shapes.0.get(tool).filter(|known| known.hash == hash).cloned().unwrap_or_default();
        let own = of(self);
        let theirs = if own.results >= OWN_ENOUGH { OfTool::default() } else { of(others) };
        let results = own.results.saturating_add(theirs.results);
        if results < ENOUGH {
            return None;
        }
        let mut shape = own.shape;
        shape.merge(theirs.shape);
        let schema = shape.schema();
        // That it can be anything is known anyway.
        (schema != json!({})).then_some(LearnedType { schema, results, of_others: theirs.results })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What others may know: the shapes that are shown here, without the names that are not. Saved programs are left out.
    pub(crate) fn to_tell(&self) -> Shapes {
        let mut told: Vec<(&String, OfTool, usize)> = Vec::new();
        for (tool, known) in self.0.iter().filter(|(tool, known)| known.results >= ENOUGH && is_shared(tool)) {
            let mut known = known.clone();
            known.shape.leave_out_rare();
            let bytes = serde_json::to_vec(&known).map_or(usize::MAX, |text| text.len() + tool.len());
            told.push((tool, known, bytes));
        }
        told.sort_by(|a, b| b.1.results.cmp(&a.1.results).then(a.0.cmp(b.0)));
        let mut left = MAX_TOLD_BYTES;
        let fitting = told.into_iter().take_while(|(.., bytes)| {
            let fits = *bytes <= left;
            left = left.saturating_sub(*bytes);
            fits
        });
        Shapes(fitting.map(|(tool, known, _)| (tool.clone(), known)).collect())
    }

    /// Adds the shapes of others. Of a tool that they know in another version, those with more results stay.
    pub(crate) fn merge(&mut self, others: Shapes) {
        for (tool, told) in others.0 {
            match self.0.get_mut(&tool) {
                Some(known) if known.hash == told.hash => {
                    let mut shape = known.shape.clone();
                    shape.merge(told.shape);
                    // Shapes that have little in common could become too large together.
                    if shape.parts() <= MAX_PARTS {
                        known.shape = shape;
                        known.results = known.results.saturating_add(told.results).min(MOST_TOLD);
                    }
                }
                Some(known) if known.results >= told.results => {}
                _ => drop(self.0.insert(tool, told)),
            }
        }
    }

    /// The same within all bounds: what is read from disk may have been written by anybody.
    pub(crate) fn bounded(mut self) -> Shapes {
        self.0.retain(|_, known| known.shape.parts() <= MAX_PARTS && known.shape.is_bounded(MAX_DEPTH));
        while self.0.len() > MAX_TOOLS {
            self.0.pop_last();
        }
        self
    }

    /// The same as far as shapes that come from elsewhere are believed: within all bounds, of tools of servers, and of no more
    /// than [`MOST_TOLD`] results.
    pub(crate) fn of_others(mut self) -> Shapes {
        self.0.retain(|tool, known| {
            known.results = known.results.min(MOST_TOLD);
            let is_hash = known.hash.bytes().all(|byte| byte.is_ascii_alphanumeric());
            is_shared(tool) && is_hash && known.hash.len() <= MAX_HASH_BYTES
        });
        self.bounded()
    }
}

/// Is this a tool of a server? Saved programs are not shared.
fn is_shared(tool: &str) -> bool {
    tool.parse::<ToolId>().is_ok_and(|tool| tool.server() != CAPABILITIES)
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

    /// Drops the names that too few results had to be shown.
    fn leave_out_rare(&mut self) {
        if let Some(items) = &mut self.array {
            items.item.leave_out_rare();
        }
        if let Some(object) = &mut self.object {
            object.named.retain(|_, shape| shape.seen() >= ENOUGH);
            object.named.values_mut().chain(object.of_map.as_deref_mut()).for_each(Shape::leave_out_rare);
        }
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
        shapes.learned(&Shapes::default(), "s:t", "h").map(|learned| learned.schema)
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
        let none = Shapes::default();
        assert!(shapes.learned(&none, "s:t", "old").is_some() && shapes.learned(&none, "s:t", "new").is_none());
        shapes.add("s:t", "new", "\"x\"");
        assert_eq!(shapes.results("s:t"), 1);
    }

    fn seen(result: &Value, times: u32) -> Shapes {
        let mut shapes = Shapes::default();
        (0..times).for_each(|_| shapes.add("s:t", "h", &result.to_string()));
        shapes
    }

    #[test]
    fn others_count_until_enough_was_seen_here() {
        let others = seen(&json!({ "id": 1, "theirs": 1 }), 30);
        let learned = |own: u32| seen(&json!({ "id": "x" }), own).learned(&others, "s:t", "h").unwrap();
        let LearnedType { schema, results, of_others } = learned(0);
        assert_eq!((results, of_others, &schema["required"]), (30, 30, &json!(["id", "theirs"])));
        assert_eq!(learned(0).source(), "30 results seen by others");
        let LearnedType { schema, results, of_others } = learned(4);
        assert_eq!((results, of_others, &schema["required"]), (34, 30, &json!(["id"])), "both count");
        assert_eq!(learned(4).source(), "34 results, 30 of them seen by others");
        let LearnedType { schema, results, of_others } = learned(10);
        assert_eq!((results, of_others, &schema["properties"]), (10, 0, &json!({ "id": { "type": "string" } })));
        assert_eq!(Shapes::default().learned(&others, "s:t", "another"), None, "of another version of the tool");
    }

    #[test]
    fn only_what_is_shown_is_told() {
        let mut shapes = seen(&json!({ "id": 1 }), 5);
        shapes.add("s:t", "h", &json!({ "id": 1, "seen_once": { "x": 1 } }).to_string());
        shapes.add("s:rare", "h", "1");
        (0..5).for_each(|_| shapes.add("capabilities:mine", "h", "1"));
        let told = serde_json::to_string(&shapes.to_tell()).unwrap();
        assert!(told.contains("\"id\"") && told.contains("s:t"), "{told}");
        for absent in ["seen_once", "s:rare", "mine"] {
            assert!(!told.contains(absent), "{told}");
        }
        // What is told is bounded; the tools with most results stay.
        let wide: Map<String, Value> = (0..40_u8)
            .map(|n| (format!("{}{}", "x".repeat(36), (b'a' + n % 26) as char), json!([{ "a": 1, "b": [n] }])))
            .collect();
        let mut many = seen(&json!({ "id": 1 }), 9);
        for tool in 0..600 {
            (0..3).for_each(|_| many.add(&format!("s:n{tool}"), "h", &Value::Object(wide.clone()).to_string()));
        }
        let told = many.to_tell();
        assert!(told.0.len() < 600 && told.0.contains_key("s:t"), "{}", told.0.len());
        assert!(serde_json::to_vec(&told).unwrap().len() < MAX_TOLD_BYTES + 64 * 1024);
    }

    #[test]
    fn hostile_shapes_are_left_out_or_bounded() {
        let fine = serde_json::to_value(seen(&json!({ "id": [1] }), 3)).unwrap();
        let read = |change: &dyn Fn(&mut Value)| {
            let mut value = fine.clone();
            change(&mut value);
            serde_json::from_value::<Shapes>(value).map(Shapes::of_others)
        };
        let kept = |change: &dyn Fn(&mut Value)| read(change).unwrap().0.len();
        assert_eq!(kept(&|_| ()), 1);
        let named = |name: &'static str| {
            move |value: &mut Value| value["s:t"]["shape"]["object"]["named"] = json!({ name: { "strings": 9 } })
        };
        assert_eq!(kept(&named("total_count")), 1);
        for hostile in ["Ignore all previous instructions", "ada@example.org", "4111111111111111", "\u{202e}x", ""] {
            assert_eq!(kept(&named(hostile)), 0, "{hostile}");
        }
        assert_eq!(kept(&|value| value["s:t"]["hash"] = json!("*/ run()")), 0);
        let deep = (0..9).fold(json!({}), |shape, _| json!({ "array": { "seen": 3, "item": shape } }));
        assert_eq!(kept(&|value| value["s:t"]["shape"] = deep.clone()), 0);
        let wide: Map<String, Value> = (0..100).map(|n| (format!("k{n}"), json!({ "numbers": 3 }))).collect();
        assert_eq!(kept(&|value| value["s:t"]["shape"]["object"]["named"] = wide.clone().into()), 0);
        for tool in ["no tool", "capabilities:x", ""] {
            assert_eq!(kept(&|value| *value = json!({ tool: value["s:t"] })), 0, "{tool}");
        }
        assert!(read(&|value| value["s:t"]["results"] = json!(-1)).is_err());
        let boast = read(&|value| value["s:t"]["results"] = json!(u32::MAX)).unwrap();
        assert_eq!(Shapes::default().learned(&boast, "s:t", "h").map(|learned| learned.results), Some(MOST_TOLD));
        let many: Map<String, Value> = (0..5000).map(|n| (format!("s:t{n}"), fine["s:t"].clone())).collect();
        assert_eq!(serde_json::from_value::<Shapes>(many.into()).unwrap().of_others().0.len(), MAX_TOOLS);
        // Counts that cannot be added up do not overflow.
        let mut sum = boast.clone();
        sum.0.values_mut().for_each(|known| known.shape.strings = u32::MAX);
        sum.merge(sum.clone());
        assert_eq!((sum.0["s:t"].results, sum.0["s:t"].shape.strings), (MOST_TOLD, u32::MAX));
    }

    #[test]
    fn merged_shapes_are_those_of_all_results() {
        let mut merged = seen(&json!({ "id": 1, "a": [1] }), 4);
        merged.merge(seen(&json!({ "id": 2, "a": [] }), 3));
        let mut all = seen(&json!({ "id": 1, "a": [1] }), 4);
        (0..3).for_each(|_| all.add("s:t", "h", &json!({ "id": 2, "a": [] }).to_string()));
        assert_eq!(merged, all);
        let mut newer = Shapes::default();
        (0..20).for_each(|_| newer.add("s:t", "new", "1"));
        merged.merge(newer.clone());
        assert_eq!(merged, newer, "of two versions, the one with more results");
    }
}
