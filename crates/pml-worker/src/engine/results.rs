//! What tools gave a program, for messages about what the program did with it.

use std::{cell::RefCell, collections::VecDeque};

use rquickjs::{Atom, Object, Value, object::Filter};

use super::raw;
use crate::transpile::{ARGS, Given, Shape, Text, innermost};

/// Results that are remembered.
const MAX_RESULTS: usize = 100;
/// How deep, and how many members of an object.
const MAX_DEPTH: usize = 4;
const MAX_MEMBERS: usize = 40;
/// Elements of an array that are looked at.
const MAX_ELEMENTS: usize = 20;
/// Longest text that is looked at to know whether it is JSON.
const MAX_LOOK_BYTES: usize = 64 * 1024;

/// Characters of a text that a message shows.
const MAX_BEGINNING: usize = 60;

/// How a list or dictionary begins that Python shows. JSON has no such quotes and parentheses.
const PYTHON: [&str; 4] = ["[{'", "{'", "['", "[("];

/// The last results, oldest first.
#[derive(Debug, Default)]
pub(super) struct Results(RefCell<VecDeque<Given>>);

impl Results {
    /// Remembers a result of a call that was made where `stack` says; `text` is what is in it if it is a text. Nothing of
    /// the program runs for it.
    pub(super) fn note(&self, tool: &str, stack: Option<&Value<'_>>, value: &Value<'_>, text: Text) {
        let stack = stack.filter(|stack| stack.is_string()).and_then(raw::text);
        let place = stack.and_then(|(stack, _)| innermost(&stack));
        let shape = if value.is_string() { Shape::Text(text) } else { shape(value, 0) };
        let beginning = if value.is_string() { beginning_of(value) } else { None };
        let mut results = self.0.borrow_mut();
        if let Some(given) = results.iter_mut().find(|given| given.tool == tool && given.place == place) {
            given.shape = given.shape.take().and_then(|before| before.common(shape));
            return;
        }
        if results.len() == MAX_RESULTS {
            results.pop_front();
        }
        results.push_back(Given { tool: tool.to_owned(), place, shape: Some(shape), beginning });
    }

    /// Is any of them a text?
    pub(super) fn has_text(&self) -> bool {
        self.0.borrow().iter().any(|given| matches!(given.shape, Some(Shape::Text(_))))
    }

    /// Remembers what the program was given.
    pub(super) fn note_args(&self, args: &Value<'_>) {
        let mut results = self.0.borrow_mut();
        results.retain(|given| given.tool != ARGS);
        results.push_front(Given { tool: ARGS.to_owned(), place: None, shape: Some(shape(args, 0)), beginning: None });
    }

    pub(super) fn list(&self) -> Vec<Given> {
        self.0.borrow().iter().cloned().collect()
    }
}

/// What a text begins with, for a message.
pub(super) fn beginning_of(text: &Value<'_>) -> Option<String> {
    raw::with_text(text, |text, _| text.chars().take(MAX_BEGINNING).collect::<String>()).filter(|it| !it.is_empty())
}

/// What is in the text that this is the JSON of, if it is one. Texts that are JSON are what a tool with an output schema
/// returned, or a call with `raw`; others of the kind are values. Longer texts are not looked at.
pub(super) fn text_of(json: &[u8]) -> Text {
    if json.len() > MAX_LOOK_BYTES || json.trim_ascii_start().first() != Some(&b'"') {
        return Text::Plain;
    }
    let text = serde_json::from_slice::<String>(json).unwrap_or_default();
    let is_json = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    let Some((start, bracket)) = text.char_indices().find(|(_, it)| matches!(it, '{' | '[')) else {
        return Text::Plain;
    };
    let is_python = |text: &str| PYTHON.iter().any(|it| text.starts_with(it)) && text.trim_end().ends_with([']', '}']);
    match text[..start].trim().is_empty() {
        true if is_python(&text[start..]) => Text::Python,
        _ if !is_json(&text[start..]) => Text::Plain,
        true => Text::Json,
        false => Text::Prefixed(bracket),
    }
}

pub(super) fn shape<'js>(value: &Value<'js>, depth: usize) -> Shape {
    if value.is_string() {
        return Shape::Text(Text::Plain);
    }
    if value.is_number() || value.is_big_int() {
        return Shape::Number;
    }
    if value.is_bool() {
        return Shape::Boolean;
    }
    if value.is_null() {
        return Shape::Null;
    }
    match value.as_object() {
        None => Shape::Undefined,
        Some(object) if object.is_proxy() || object.is_function() || depth > MAX_DEPTH => Shape::Other,
        Some(object) => members(object, depth),
    }
}

/// Can what is said of one be said of the other?
fn is_alike(one: &Shape, other: &Shape) -> bool {
    match (one, other) {
        (Shape::Object(left), Shape::Object(right)) => {
            let shared = left.iter().filter(|(key, _)| right.iter().any(|(name, _)| name == key)).count();
            2 * shared >= left.len().max(right.len())
        }
        (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

fn members<'js>(object: &Object<'js>, depth: usize) -> Shape {
    let data = |name: &Value<'js>| raw::own_data(object, name).map_or(Shape::Other, |value| shape(&value, depth + 1));
    if let Some(array) = object.as_array() {
        let mut elements = raw::own_elements(array, MAX_ELEMENTS).map(|it| shape(&it, depth + 1));
        let first = elements.next();
        // Of a text and an image, neither says anything of the other.
        let is_mixed = first.as_ref().is_some_and(|first| depth == 0 && elements.any(|other| !is_alike(first, &other)));
        return Shape::Array(Some(array.len()), first.filter(|_| !is_mixed).map(Box::new));
    }
    let keys = object.own_keys::<Atom<'js>>(Filter::new().string().enum_only()).flatten().take(MAX_MEMBERS);
    let named = keys.filter_map(|key| {
        let name = key.to_value().ok()?;
        Some((raw::text(&name)?.0, data(&name)))
    });
    Shape::Object(named.collect())
}
