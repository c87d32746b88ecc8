//! Reads of properties that results do not have.
//!
//! Such a read gives `undefined`, and a program that goes on with it gives a wrong value without a word. The prelude notes the
//! reads (`watch` in `prelude.js`), this module keeps what a warning needs, and says it when the run is over: by then it is
//! known whether other objects of the tool's results have the property, and the source tells whether the program reckons
//! with its absence.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, HashSet},
    rc::Rc,
};

use pml_wire::message::MissingRead;
use rquickjs::{Ctx, Function, Object, Result, Value, function::Opt};

use super::{State, from_json::Kind, raw, results};
use crate::transpile::{Given, Read, Shape, Source, Text, innermost, nearest, plain};

/// Different reads that are kept.
const MAX_MISSES: usize = 60;
/// Warnings about them in one run.
const MAX_WARNINGS: usize = 10;
/// Kinds of objects of one tool that are kept.
const MAX_KINDS: usize = 100;
/// Names that programs expect around a result, since MCP or other libraries have them there.
const WRAPPERS: [&str; 17] = [
    "content",
    "structuredContent",
    "data",
    "result",
    "results",
    "response",
    "output",
    "body",
    "value",
    "text",
    "json",
    "payload",
    "items",
    "rows",
    "success",
    "ok",
    "list",
];

/// Methods of arrays that programs look for on Maps and Sets.
const ARRAY_METHODS: [&str; 12] =
    ["map", "filter", "reduce", "find", "some", "every", "sort", "slice", "join", "includes", "flatMap", "at"];
/// Methods of numbers that programs look for on texts.
const NUMBER_METHODS: [&str; 3] = ["toFixed", "toPrecision", "toExponential"];
/// Parts of names of what leads to the next page, and names of what holds it in a result. An item may have a link, too.
const MARKS: [&str; 6] = ["cursor", "next", "more", "token", "truncated", "continu"];
const HOLDERS: [&str; 10] =
    ["paging", "pagination", "pageinfo", "responsemetadata", "metadata", "meta", "links", "link", "page", "offset"];
/// How much of a value is shown.
const SHOWN_CHARS: usize = 40;

/// What a property was read of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// The result of a tool.
    Whole,
    /// Something in a result.
    Part,
    /// What `callTool` returns.
    Envelope,
    Handle,
    /// A text, number or boolean that is not a result as a whole.
    Primitive,
    /// A promise that was not awaited.
    Promise,
    /// A Map, or a Set.
    Collection(Collection, Access),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collection {
    Map,
    Set,
}

/// What a program did with the property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Set,
}

/// A read of a property that was not there.
#[derive(Clone, Debug)]
struct Miss {
    tool: String,
    property: String,
    subject: Subject,
    shape: Shape,
    /// The engine's line and column.
    place: (u32, u32),
    /// What to do about a handle, how the call of an envelope failed, or what a text begins with.
    advice: Option<String>,
}

/// The reads of a run.
#[derive(Debug, Default)]
pub(super) struct Misses {
    noted: RefCell<Vec<Miss>>,
    /// The kinds of objects that a tool returned.
    kinds: RefCell<HashMap<String, Vec<Kind>>>,
    /// The lines and names of what was told of lists, and is compared with `null`.
    pub(super) of_lists: RefCell<Vec<(usize, String)>>,
    /// Is a result or are arguments being written? Then a `toJSON` that is asked for is no call of `JSON.stringify`.
    pub(super) is_writing: Rc<Cell<bool>>,
    /// Tools in whose results the mark of a page was looked for, and not found.
    pub(super) of_pages: RefCell<HashSet<String>>,
}

impl Misses {
    /// Keeps the names of the objects in a result.
    pub(super) fn note_kinds(&self, tool: &str, kinds: Vec<Kind>) {
        let mut known = self.kinds.borrow_mut();
        let known = known.entry(tool.to_owned()).or_default();
        for kind in kinds {
            if known.len() < MAX_KINDS && !known.contains(&kind) {
                known.push(kind);
            }
        }
    }

    fn note(&self, miss: Miss) {
        let mut noted = self.noted.borrow_mut();
        let is_same =
            |other: &Miss| (&other.tool, &other.property, other.place) == (&miss.tool, &miss.property, miss.place);
        if noted.len() < MAX_MISSES && !noted.iter().any(is_same) {
            noted.push(miss);
        }
    }

    /// Do other objects of the kind, in the results of the tool, have the property?
    fn is_optional(&self, miss: &Miss) -> bool {
        let kinds = self.kinds.borrow();
        let Some(kinds) = kinds.get(&miss.tool).filter(|_| matches!(miss.shape, Shape::Object(_))) else {
            return false;
        };
        let own: Vec<&str> = miss.shape.keys().collect();
        let is_alike = |kind: &Kind| {
            let shared = own.iter().filter(|key| kind.names.iter().any(|name| name == *key)).count();
            2 * shared >= own.len()
        };
        // Of `{ date }` and `{ dateTime }`, both are found under `start`.
        let places: Vec<&Option<String>> = kinds.iter().filter(|kind| is_alike(kind)).map(|kind| &kind.under).collect();
        let mut having = kinds.iter().filter(|kind| kind.names.contains(&miss.property));
        having.any(|kind| is_alike(kind) || places.contains(&&kind.under))
    }

    /// What a read found that led to an error at a place, in words. `said` is the message of the error.
    pub(super) fn explanation(&self, place: (u32, u32), said: &str) -> Option<String> {
        let noted = self.noted.borrow();
        let is_meant = |miss: &&Miss| {
            miss.place == place || miss.place.0 == place.0 && said.contains(&format!("{} is not", miss.property))
        };
        // An index that is written out has words of its own.
        let miss = noted.iter().rev().find(is_meant).filter(|miss| !is_negative_index(miss))?;
        // A message that describes the value needs only the advice.
        let is_described = matches!(miss.subject, Subject::Whole | Subject::Part) && said.contains(" result of ");
        if is_described { advise(miss) } else { Some(sentence(miss, None)) }
    }

    /// The warnings of a run that is over. `said` is what its error says already.
    /// `compared` are the lines and names of what is compared with `null`, and is never anything but `undefined`.
    pub(super) fn told(&self, source: &Source, said: Option<&str>, compared: &[(usize, String)]) -> Vec<MissingRead> {
        let noted = self.noted.take();
        let mut noted: Vec<Miss> = noted.into_iter().filter(|miss| !self.is_optional(miss)).collect();
        if let Some(said) = said {
            noted.retain(|miss| !said.contains(&miss.property));
        }
        if noted.is_empty() {
            return Vec::new();
        }
        let reads: Vec<_> = noted.iter().map(|miss| (miss.place, miss.property.as_str())).collect();
        let reads = source.judge_reads(&reads);
        let mut told: Vec<(String, String)> = Vec::new();
        let mut warnings = Vec::new();
        let is_missed = |name: &String| noted.iter().any(|miss| miss.property == *name);
        for (miss, read) in noted.iter().zip(reads) {
            // A list has no such property in any case.
            let place = read.line.map(|line| (line, miss.property.clone()));
            let is_of_list =
                matches!(miss.shape, Shape::Array(..)) && place.as_ref().is_some_and(|it| compared.contains(it));
            // What is read in place of something that is there, or was once, is reckoned with.
            let others = || read.instead_of.iter().filter(|name| **name != miss.property);
            let is_spare = others().next().is_some() && !others().any(is_missed);
            let is_of_page = is_of_page(miss);
            if is_of_page {
                self.of_pages.borrow_mut().insert(miss.tool.clone());
            }
            if (is_handled(miss, &read) || is_spare || is_of_page) && !is_of_list {
                continue;
            }
            self.of_lists.borrow_mut().extend(place.filter(|_| is_of_list));
            // Once for each tool and property is enough for a person; the place is that of the first. Of a Map that is read by
            // keys, one of them is enough, and none if they are set, too.
            let is_of_map = miss.subject == Subject::Collection(Collection::Map, Access::Read) && read.is_computed;
            let is_set = |other: &Miss| {
                other.subject == Subject::Collection(Collection::Map, Access::Set) && other.property == miss.property
            };
            if is_of_map && noted.iter().any(is_set) {
                continue;
            }
            let key = match is_of_map {
                true => (String::new(), format!("{:?}", miss.place)),
                false => (miss.tool.clone(), miss.property.clone()),
            };
            if !told.contains(&key) && warnings.len() < MAX_WARNINGS {
                // Only of objects may the host know more.
                let tool = match (miss.subject, &miss.shape) {
                    (Subject::Whole | Subject::Part, Shape::Object(_)) => miss.tool.clone(),
                    _ => String::new(),
                };
                let keys = miss.shape.keys().map(str::to_owned).collect();
                let warning = sentence(miss, read.line);
                warnings.push(MissingRead { tool, property: miss.property.clone(), keys, warning });
                told.push(key);
            }
        }
        warnings
    }
}

fn is_negative_index(miss: &Miss) -> bool {
    matches!(miss.shape, Shape::Array(..)) && miss.property.starts_with('-')
}

/// Is it the mark of a page, or what holds it? The last page may have none, but not in another spelling.
fn is_of_page(miss: &Miss) -> bool {
    let name = plain(&miss.property);
    matches!(miss.subject, Subject::Whole | Subject::Part)
        && (MARKS.iter().any(|part| name.contains(part))
            || miss.subject == Subject::Whole && HOLDERS.contains(&name.as_str()))
        && miss.shape.keys().all(|key| plain(key) != name)
}

/// Does the program reckon with the absence of what it reads?
fn is_handled(miss: &Miss, read: &Read) -> bool {
    // An error says it.
    if read.throws {
        return true;
    }
    // No list has such an index: `indexOf` and `findIndex` found nothing.
    if is_negative_index(miss) {
        return false;
    }
    // A number may be the key of a thing.
    if miss.subject == Subject::Part && miss.property.parse::<usize>().is_ok() && miss.shape.list().is_none() {
        return true;
    }
    // An empty object in a result has members at other times.
    if miss.subject == Subject::Part && matches!(&miss.shape, Shape::Object(members) if members.is_empty()) {
        return true;
    }
    let name = miss.property.to_ascii_lowercase();
    let is_error = name == "error" || name == "errors" || name == "iserror" || name == "err";
    match miss.subject {
        Subject::Envelope => is_error || read.is_test || name == "result" && read.mentions_failure,
        Subject::Handle | Subject::Promise => read.is_test || read.has_alternative,
        // Unlike of a table, it is never there.
        Subject::Collection(Collection::Map, Access::Read) if read.is_computed => false,
        Subject::Collection(_, access) => access == Access::Read && (read.is_test || read.has_alternative),
        Subject::Primitive => is_error || read.is_test || read.has_alternative,
        // To stop at an empty list is not to reckon with an object that has no length.
        Subject::Whole | Subject::Part if name == "length" && matches!(miss.shape, Shape::Object(_)) => {
            read.has_alternative
        }
        Subject::Whole | Subject::Part => is_error || read.is_test || read.has_alternative,
    }
}

/// `` `data` was read of the result of hr:list (line 3), which has no such property: it is an array of 7; … ``
fn sentence(miss: &Miss, line: Option<usize>) -> String {
    let Miss { tool, property, subject, shape, advice, .. } = miss;
    let line = line.map(|line| format!(" (line {line})")).unwrap_or_default();
    let what = shape.describe();
    match subject {
        Subject::Handle => {
            format!(
                "`{property}` was read of a handle{line}, which has no such property; it is {}",
                advice.as_deref().unwrap_or_default()
            )
        }
        Subject::Envelope => match (advice, property.as_str()) {
            (Some(failure), "result") => {
                format!(
                    "`result` was read of what callTool returned for {tool}{line}, but the call failed: {failure}; check `success` first"
                )
            }
            _ => format!(
                "`{property}` was read of what callTool returned for {tool}{line}, which is {{ success, result, error }}: read it of `result`"
            ),
        },
        Subject::Primitive => {
            let value = advice.as_deref().unwrap_or_default();
            if value.len() == 3 && value.as_bytes()[1].is_ascii_digit() {
                return format!(
                    "`{property}` was read of {value}{line}, which is a text: `for … in` gives keys and indices, and `for … of` elements"
                );
            }
            if value.chars().count() == 3 && value.starts_with('"') {
                return format!(
                    "`{property}` was read of {value}{line}, a character of a text: take the text apart first, with JSON.parse or \
                     `.split(\"\\n\")`"
                );
            }
            let advice = match shape {
                Shape::Text(Text::Json) => "; it is a JSON text: `JSON.parse` it first",
                Shape::Text(_) if NUMBER_METHODS.contains(&property.as_str()) => {
                    "; make it a number first: `Number(…)`"
                }
                _ => "",
            };
            format!("`{property}` was read of {what}{line}, which has no such property: it is {value}{advice}")
        }
        Subject::Promise => {
            format!("`{property}` was read of a promise{line}, which has no such property: `await` it first")
        }
        Subject::Collection(collection, access) => {
            let (kind, variable) = match collection {
                Collection::Map => ("Map", "map"),
                Collection::Set => ("Set", "set"),
            };
            match (access, property.as_str(), collection) {
                (Access::Read, "length" | "count", _) => {
                    format!(
                        "`{property}` was read of a {kind}{line}, which has no such property: use `{variable}.size`"
                    )
                }
                (Access::Read, name, _) if ARRAY_METHODS.contains(&name) => {
                    format!(
                        "`{property}` was read of a {kind}{line}, which has no such property: use `[...{variable}].{property}`"
                    )
                }
                (Access::Read, index, Collection::Map) if index.bytes().all(|byte| byte.is_ascii_digit()) => format!(
                    "`{property}` was read of a Map{line}, which has no such property: its entries are read with `map.get({property})`"
                ),
                (Access::Read, _, Collection::Map) => format!(
                    "`{property}` was read of a Map{line}, which has no such property: its entries are read with `map.get({property:?})`"
                ),
                (Access::Read, _, Collection::Set) => format!(
                    "`{property}` was read of a Set{line}, which has no such property: its elements are asked for with `set.has(…)`, or taken from `[...set]`"
                ),
                (Access::Set, _, Collection::Map) => {
                    format!(
                        "`{property}` was set as a property of a Map{line}, and is no entry of it: use `map.set({property:?}, …)`"
                    )
                }
                (Access::Set, _, Collection::Set) => {
                    format!(
                        "`{property}` was set as a property of a Set{line}, and is no element of it: use `set.add(…)`"
                    )
                }
            }
        }
        Subject::Whole | Subject::Part => {
            let whose = if *subject == Subject::Whole { "the result" } else { "a part of the result" };
            let beginning = advice.as_ref().map(|it| format!(", which begins {it:?}")).unwrap_or_default();
            let advice = beginning + &advise(miss).map(|advice| format!("; {advice}")).unwrap_or_default();
            format!(
                "`{property}` was read of {whose} of {tool}{line}, which has no such property: it is {what}{advice}"
            )
        }
    }
}

/// What to read instead.
fn advise(miss: &Miss) -> Option<String> {
    let Miss { property, subject, shape, .. } = miss;
    match shape {
        Shape::Array(..) if is_negative_index(miss) => {
            return Some("`indexOf` and `findIndex` give -1 if nothing fits".to_owned());
        }
        Shape::Array(_, Some(element)) if element.keys().any(|key| key == property) => {
            return Some(format!("its elements have it, as in `[0].{property}` or `.map((it) => it.{property})`"));
        }
        Shape::Array(_, Some(element))
            if *subject == Subject::Whole && property.ends_with('s') && nearest(property, element.keys()).is_none() =>
        {
            return Some("it is the list itself".to_owned());
        }
        Shape::Array(_, Some(element)) if *subject == Subject::Part || !WRAPPERS.contains(&property.as_str()) => {
            if let Some(near) = nearest(property, element.keys()) {
                return Some(format!("its elements have `{near}`"));
            }
        }
        Shape::Object(_) => {
            if property.parse::<usize>().is_ok()
                && let Some(list) = shape.list()
            {
                return Some(format!("did you mean `{}[{property}]`?", list.trim_start_matches('.')));
            }
            if let Some(near) = nearest(property, shape.keys()).or_else(|| alike(property, shape.keys())) {
                return Some(format!("did you mean `{near}`?"));
            }
            if matches!(
                property.as_str(),
                "length" | "map" | "filter" | "forEach" | "items" | "rows" | "data" | "results" | "list"
            ) && let Some(list) = shape.arrays().next()
            {
                let rest = if property == "length" { ".length" } else { "" };
                return Some(format!("did you mean `{}{rest}`?", list.trim_start_matches('.')));
            }
            if let Some(way) = shape.way_to(property) {
                return Some(format!("did you mean `{}`?", way.trim_start_matches('.')));
            }
            if property == "text" && shape.keys().any(|key| key == "type") {
                return None;
            }
        }
        Shape::Text(Text::Prefixed(bracket)) => {
            return Some(format!(
                "the JSON in it begins after some text: `JSON.parse(r.slice(r.indexOf(\"{bracket}\")))`"
            ));
        }
        Shape::Text(Text::Python) => {
            return Some("it is written as Python writes it, not as JSON: take it apart as a text".to_owned());
        }
        Shape::Text(Text::Json) => return Some("it is a JSON text: `JSON.parse` it first".to_owned()),
        _ => {}
    }
    let is_wrapper = *subject == Subject::Whole && WRAPPERS.contains(&property.as_str());
    is_wrapper
        .then(|| "the value of a call is the result itself, not wrapped in anything, and a failure throws".to_owned())
}

/// A name that begins or ends as the other does: `dept` for `department`.
fn alike<'a>(name: &str, keys: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let own = words(name);
    let name = plain(name);
    let mut keys = keys.filter(|key| {
        let key = plain(key);
        let (short, long) = if key.len() < name.len() { (&key, &name) } else { (&name, &key) };
        short.len() >= 3 && (long.contains(short.as_str()) || long.starts_with(&short[..short.floor_char_boundary(3)]))
    });
    let first = keys.next()?;
    // Of `total_count`, `total` is nearer than `total_pages`.
    let is_word = |key: &&str| own.starts_with(&words(key)) || own.ends_with(&words(key));
    Some(std::iter::once(first).chain(keys).find(is_word).unwrap_or(first))
}

/// The words of a name: `total` and `count` of `total_count` and `totalCount`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for character in name.chars() {
        if (character.is_uppercase() || !character.is_alphanumeric()) && words.last().is_some_and(|it| !it.is_empty()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character.is_alphanumeric()) {
            word.extend(character.to_lowercase());
        }
    }
    words
}

/// Gives the prelude what it needs to note reads.
pub(super) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>, state: &Rc<State<'js>>) -> Result<()> {
    let shared = Rc::clone(state);
    let missed = move |tool: String,
                       name: Value<'js>,
                       value: Value<'js>,
                       subject: String,
                       stack: Value<'js>,
                       advice: Opt<String>| {
        note(&shared, tool, &name, &value, &subject, &stack, advice.0);
    };
    native.set("missed", Function::new(ctx.clone(), missed)?)?;

    let shared = Rc::clone(state);
    let prototypes =
        move |object: Object<'js>, array: Object<'js>| shared.text_prototypes.borrow_mut().extend([object, array]);
    native.set("noteTextPrototypes", Function::new(ctx.clone(), prototypes)?)?;

    let shared = Rc::clone(state);
    let warn = move |text: String| {
        if !shared.misses.is_writing.get() {
            shared.warn(text);
        }
    };
    native.set("warnStringify", Function::new(ctx.clone(), warn)?)?;
    native.set("isPromise", Function::new(ctx.clone(), |value: Value<'js>| value.is_promise())?)
}

fn note<'js>(
    state: &State<'js>,
    tool: String,
    name: &Value<'js>,
    value: &Value<'js>,
    subject: &str,
    stack: &Value<'js>,
    advice: Option<String>,
) {
    // Reads of our own have no place in the program.
    let place =
        Some(stack).filter(|stack| stack.is_string()).and_then(raw::text).and_then(|(stack, _)| innermost(&stack));
    let (Some(place), Some((property, _))) = (place, raw::text(name)) else { return };
    let subject = match subject {
        "whole" => Subject::Whole,
        "part" => Subject::Part,
        "envelope" => Subject::Envelope,
        "primitive" => Subject::Primitive,
        "promise" => Subject::Promise,
        "map" => Subject::Collection(Collection::Map, Access::Read),
        "map set" => Subject::Collection(Collection::Map, Access::Set),
        "set" => Subject::Collection(Collection::Set, Access::Read),
        "set set" => Subject::Collection(Collection::Set, Access::Set),
        _ => Subject::Handle,
    };
    let given = |given: &Given| given.tool == tool && matches!(given.shape, Some(Shape::Text(_)));
    let shape = match value.is_string() {
        true => state
            .results
            .list()
            .into_iter()
            .rev()
            .find(given)
            .and_then(|given| given.shape)
            .unwrap_or(Shape::Text(Text::Plain)),
        false => results::shape(value, 0),
    };
    let advice = match subject {
        Subject::Envelope => failure(value),
        Subject::Primitive => Some(shown(value)),
        Subject::Whole if value.is_string() => results::beginning_of(value),
        _ => advice,
    };
    let shape = match subject {
        Subject::Primitive if is_json(value) => Shape::Text(Text::Json),
        Subject::Primitive => results::shape(value, 0),
        _ => shape,
    };
    state.misses.note(Miss { tool, property, subject, shape, place, advice });
}

/// A text, number or boolean, for a warning.
fn shown(value: &Value<'_>) -> String {
    let Some((text, _)) = raw::text(value) else {
        return value.as_bool().map_or_else(|| "a value".to_owned(), |flag| format!("`{flag}`"));
    };
    let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    if value.is_string() { format!("{shown:?}") } else { format!("`{shown}`") }
}

/// Is this a text that holds a JSON object or array?
fn is_json(value: &Value<'_>) -> bool {
    let text = Some(value).filter(|value| value.is_string()).and_then(raw::text);
    text.is_some_and(|(text, _)| {
        text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok()
    })
}

/// How the call of an envelope failed.
fn failure(envelope: &Value<'_>) -> Option<String> {
    let own = |object: &Object<'_>, name: &str| -> Option<String> {
        let name = rquickjs::String::from_str(object.ctx().clone(), name).ok()?;
        let value = raw::own_data(object, name.as_value()).filter(Value::is_string)?;
        raw::text(&value).map(|(text, _)| text)
    };
    let object = envelope.as_object()?;
    let name = rquickjs::String::from_str(object.ctx().clone(), "error").ok()?;
    let error = raw::own_data(object, name.as_value())?.into_object()?;
    Some(format!("{}: {}", own(&error, "code")?, own(&error, "message")?))
}
