//! JSON-RPC as servers really write it.
//!
//! Bytes become lines ([`Lines`]), lines become [`Message`]s. What a server gets wrong is repaired
//! where its meaning is clear, and otherwise costs only the message it is in: noise between
//! messages is counted, ids may be numbers in quotes, `"error": null` is no error, and one bad
//! tool in a list hides no other.
//!
//! **Invariant:** a result is scanned once. Its parts stay JSON text, without line breaks; a large text goes to the
//! program as the server wrote it.

use std::{borrow::Cow, fmt, marker::PhantomData};

use pml_wire::line::unbroken;
use serde::{
    Deserialize, Serialize, Serializer,
    de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{room::Held, work::AT_ONCE_BYTES};

/// What a server sent.
#[derive(Debug)]
pub(super) enum Message {
    /// An answer to one of our requests.
    Answer {
        id: u64,
        answer: Result<Payload, RpcError>,
    },
    /// An answer that cannot be told apart: its id is missing, `null` or not one of ours.
    Stray(Result<Payload, RpcError>),
    /// A request to us; the id is given back as it came.
    Request {
        id: Box<RawValue>,
        method: String,
        params: Option<Box<RawValue>>,
    },
    Notification {
        method: String,
        params: Option<Box<RawValue>>,
    },
}

/// The result of a request: its fields, if it is an object. Or it is whole, not taken apart yet.
#[derive(Debug, Default)]
pub(super) struct Payload {
    fields: Vec<(String, Field)>,
    whole: Option<Box<RawValue>>,
    /// The room that it takes, if it is large.
    pub(super) held: Held,
}

/// How results are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Taken apart at once, in the same scan.
    Parts,
    /// As text: somebody wants one as the server wrote it.
    Whole,
}

#[derive(Debug)]
enum Field {
    Raw(Box<RawValue>),
    /// The items of `content` or `tools`.
    Items(Vec<Item>),
    /// The fields of `structuredContent`.
    Object(Fields),
}

/// A value that is taken apart if it is an object: a content block, a tool, a result.
#[derive(Debug)]
pub enum Item {
    Object(Fields),
    Other(Box<RawValue>),
}

/// The fields of an object, as JSON texts, in order.
#[derive(Debug, Default)]
pub struct Fields(pub(super) Vec<(String, Box<RawValue>)>);

/// A JSON-RPC error, as it was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<serde_json::Value>,
}

impl Payload {
    pub(super) fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// The result as the server wrote it, if it was kept so.
    pub(super) fn into_whole(self) -> Option<Box<RawValue>> {
        self.whole
    }

    /// The result taken apart, if it was not yet.
    pub(super) fn into_parts(self) -> Payload {
        match self.whole {
            // It is JSON, and any JSON is a payload.
            Some(whole) => Payload { held: self.held, ..serde_json::from_str(whole.get()).unwrap_or_default() },
            None => self,
        }
    }

    /// About how large it is.
    pub(super) fn bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(key, field)| {
            key.len()
                + match field {
                    Field::Raw(value) => value.get().len(),
                    Field::Items(items) => items.iter().map(Item::bytes).sum(),
                    Field::Object(fields) => fields.bytes(),
                }
        });
        fields.sum::<usize>() + self.whole.as_ref().map_or(0, |whole| whole.get().len())
    }

    pub(super) fn raw(&self, name: &str) -> Option<&RawValue> {
        self.fields.iter().find(|(key, _)| key == name).and_then(|(_, field)| match field {
            Field::Raw(value) => Some(&**value),
            Field::Items(_) | Field::Object(_) => None,
        })
    }

    /// The field as a `T`, if it is there and is one.
    pub(super) fn get<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Option<T> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    pub(super) fn take_raw(&mut self, name: &str) -> Option<Box<RawValue>> {
        match self.take(name)? {
            Field::Raw(value) => Some(value),
            Field::Items(_) | Field::Object(_) => None,
        }
    }

    /// The items of `content` or `tools`, if it is a list.
    pub(super) fn take_items(&mut self, name: &str) -> Option<Vec<Item>> {
        let index = self.fields.iter().position(|(key, field)| key == name && matches!(field, Field::Items(_)))?;
        match self.fields.swap_remove(index).1 {
            Field::Items(items) => Some(items),
            Field::Raw(_) | Field::Object(_) => None,
        }
    }

    /// `structuredContent`, if it is there.
    pub(super) fn take_structured(&mut self) -> Option<Item> {
        match self.take("structuredContent")? {
            Field::Object(fields) => Some(Item::Object(fields)),
            Field::Raw(value) if value.get() != "null" => Some(Item::Other(value)),
            Field::Raw(_) | Field::Items(_) => None,
        }
    }

    fn take(&mut self, name: &str) -> Option<Field> {
        let index = self.fields.iter().position(|(key, _)| key == name)?;
        Some(self.fields.swap_remove(index).1)
    }
}

impl Fields {
    /// The value of one field, which is taken out.
    pub fn take(&mut self, name: &str) -> Option<Box<RawValue>> {
        let index = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(index).1)
    }

    /// Adds a field, which is not there yet.
    pub fn push(&mut self, name: &str, value: Box<RawValue>) {
        self.0.push((name.to_owned(), value));
    }

    /// Adds the fields of another object, none of which is there yet.
    pub fn extend(&mut self, others: Fields) {
        self.0.extend(others.0);
    }

    pub fn raw(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// The field as a `T`, if it is there and is one.
    pub fn get<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Option<T> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    /// About how large the object is.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(key, value)| key.len() + value.get().len()).sum()
    }

    /// The object, whole: written out, not read again.
    pub fn to_raw(&self) -> Box<RawValue> {
        serde_json::value::to_raw_value(self).expect("texts and JSON texts serialize")
    }
}

impl Item {
    /// The value, whole.
    pub(super) fn into_raw(self) -> Box<RawValue> {
        match self {
            Item::Object(fields) => fields.to_raw(),
            Item::Other(raw) => raw,
        }
    }

    /// About how large it is.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Item::Object(fields) => fields.bytes(),
            Item::Other(value) => value.get().len(),
        }
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// Reads the messages of one line; a list of messages counts as several. `None` if it is noise.
pub(super) fn parse(line: &[u8], keep: Keep) -> Option<Vec<Message>> {
    // What is kept as text goes into messages to others, so it must not bring line breaks along.
    let line = unbroken(line);
    match keep {
        Keep::Parts => parse_as::<Payload>(&line),
        Keep::Whole => parse_as::<Whole>(&line),
    }
}

fn parse_as<R: for<'a> Deserialize<'a> + Into<Payload>>(line: &[u8]) -> Option<Vec<Message>> {
    let first = line.iter().find(|byte| !byte.is_ascii_whitespace())?;
    match first {
        b'{' => serde_json::from_slice::<Envelope<'_, R>>(line).ok()?.into_message().map(|message| vec![message]),
        b'[' => {
            let list: Vec<Envelope<'_, R>> = serde_json::from_slice(line).ok()?;
            let messages: Vec<_> = list.into_iter().filter_map(Envelope::into_message).collect();
            (!messages.is_empty()).then_some(messages)
        }
        _ => None,
    }
}

/// A result that is not taken apart.
#[derive(Deserialize)]
#[serde(transparent)]
struct Whole(Box<RawValue>);

impl From<Whole> for Payload {
    fn from(Whole(whole): Whole) -> Payload {
        Payload { whole: Some(whole), ..Payload::default() }
    }
}

/// The code of an answer that is neither a result nor an error. No server sends it.
pub(super) const BROKEN: i64 = i64::MIN;
/// How much of an error's message is shown.
const MESSAGE_CHARS: usize = 4000;

/// Every key that a message may have. Unknown ones are ignored, and of two the last counts.
struct Envelope<'a, R> {
    has_version: bool,
    id: Option<&'a RawValue>,
    method: Option<Cow<'a, str>>,
    params: Option<&'a RawValue>,
    result: Option<R>,
    error: Option<&'a RawValue>,
}

impl<R: Into<Payload>> Envelope<'_, R> {
    fn into_message(self) -> Option<Message> {
        let id = self.id.filter(|id| id.get() != "null");
        if let Some(method) = self.method {
            let (method, params) = (method.into_owned(), self.params.map(ToOwned::to_owned));
            return Some(match id {
                Some(id) => Message::Request { id: id.to_owned(), method, params },
                None => Message::Notification { method, params },
            });
        }
        let error = self.error.filter(|error| error.get() != "null");
        let answer = match (error, self.result) {
            (Some(error), _) => Err(RpcError::parse(error)),
            (None, Some(result)) => Ok(result.into()),
            // Neither: an answer all the same, if it says that it is one. Nobody shall wait for a better.
            (None, None) => {
                id.filter(|_| self.has_version)?;
                Err(RpcError { code: BROKEN, message: "it has neither a result nor an error".to_owned(), data: None })
            }
        };
        // Ours are numbers; some servers give them back in quotes, or with a point.
        let number = id.and_then(|id| id.get().trim_matches('"').trim_end_matches(".0").parse().ok());
        Some(match number {
            Some(id) => Message::Answer { id, answer },
            None => Message::Stray(answer),
        })
    }
}

impl RpcError {
    fn parse(raw: &RawValue) -> RpcError {
        let value: serde_json::Value = serde_json::from_str(raw.get()).unwrap_or_default();
        let message = match (&value["message"], &value) {
            (serde_json::Value::String(message), _) | (_, serde_json::Value::String(message)) => message,
            _ => raw.get(),
        };
        RpcError {
            code: value["code"].as_i64().unwrap_or(0),
            message: message.to_owned(),
            data: value.get("data").cloned(),
        }
    }

    /// As much of its message as is shown.
    pub(super) fn shown(&self) -> String {
        self.message.chars().take(MESSAGE_CHARS).collect()
    }
}

impl<'de, R: Deserialize<'de>> Deserialize<'de> for Envelope<'de, R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ForEnvelope<R>(PhantomData<R>);
        impl<'de, R: Deserialize<'de>> Visitor<'de> for ForEnvelope<R> {
            type Value = Envelope<'de, R>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON-RPC message")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de, R>, A::Error> {
                let mut envelope =
                    Envelope { has_version: false, id: None, method: None, params: None, result: None, error: None };
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    match &*key {
                        "jsonrpc" => {
                            map.next_value::<IgnoredAny>()?;
                            envelope.has_version = true;
                        }
                        "id" => envelope.id = Some(map.next_value()?),
                        "method" => {
                            // A method that is no text makes the message noise, not the line an error.
                            let raw: &RawValue = map.next_value()?;
                            envelope.method = serde_json::from_str::<String>(raw.get()).ok().map(Cow::Owned);
                        }
                        "params" => envelope.params = Some(map.next_value()?),
                        "result" => envelope.result = Some(map.next_value()?),
                        "error" => envelope.error = Some(map.next_value()?),
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(envelope)
            }
        }
        deserializer.deserialize_map(ForEnvelope(PhantomData))
    }
}

/// Implements a visitor that takes an object apart and lets everything else be something simpler.
macro_rules! other_values {
    ($value:ident => $other:expr, null => $null:expr) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("any JSON value")
        }

        fn visit_bool<E: de::Error>(self, $value: bool) -> Result<Self::Value, E> {
            $other
        }

        fn visit_i64<E: de::Error>(self, $value: i64) -> Result<Self::Value, E> {
            $other
        }

        fn visit_u64<E: de::Error>(self, $value: u64) -> Result<Self::Value, E> {
            $other
        }

        fn visit_f64<E: de::Error>(self, $value: f64) -> Result<Self::Value, E> {
            $other
        }

        fn visit_str<E: de::Error>(self, $value: &str) -> Result<Self::Value, E> {
            $other
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            $null
        }
    };
}

fn to_raw<E: de::Error>(value: impl serde::Serialize) -> Result<Box<RawValue>, E> {
    serde_json::value::to_raw_value(&value).map_err(E::custom)
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ForPayload;
        impl<'de> Visitor<'de> for ForPayload {
            type Value = Payload;

            // `"result": null` and the like: an answer without fields.
            other_values!(_value => Ok(Payload::default()), null => Ok(Payload::default()));

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Payload, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Payload::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Payload, A::Error> {
                let mut fields = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    let field = match key.as_str() {
                        "content" | "tools" => map.next_value()?,
                        "structuredContent" => match map.next_value()? {
                            Item::Object(fields) => Field::Object(fields),
                            Item::Other(value) => Field::Raw(value),
                        },
                        _ => Field::Raw(map.next_value::<&RawValue>()?.to_owned()),
                    };
                    fields.push((key, field));
                }
                Ok(Payload { fields, ..Payload::default() })
            }
        }
        deserializer.deserialize_any(ForPayload)
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ForField;
        impl<'de> Visitor<'de> for ForField {
            type Value = Field;

            other_values!(value => to_raw(value).map(Field::Raw), null => Ok(Field::Raw(RawValue::NULL.to_owned())));

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Field, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Field::Items(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Field, A::Error> {
                read_fields(map).map(|fields| Field::Raw(fields.to_raw()))
            }
        }
        deserializer.deserialize_any(ForField)
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ForItem;
        impl<'de> Visitor<'de> for ForItem {
            type Value = Item;

            other_values!(value => to_raw(value).map(Item::Other), null => Ok(Item::Other(RawValue::NULL.to_owned())));

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Item, A::Error> {
                let mut items: Vec<&RawValue> = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                to_raw(items).map(Item::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Item, A::Error> {
                read_fields(map).map(Item::Object)
            }
        }
        deserializer.deserialize_any(ForItem)
    }
}

fn read_fields<'de, A: MapAccess<'de>>(mut map: A) -> Result<Fields, A::Error> {
    let mut fields = Vec::new();
    while let Some(key) = map.next_key::<String>()? {
        fields.push((key, map.next_value::<&RawValue>()?.to_owned()));
    }
    Ok(Fields(fields))
}

/// Cuts a stream of bytes into lines, none longer than a limit.
#[derive(Debug)]
pub(super) struct Lines {
    buffer: Vec<u8>,
    /// Where the first byte not yet handed out stands in `buffer`.
    start: usize,
    /// Up to where `buffer` holds no line end.
    searched: usize,
    max_bytes: usize,
    /// The line at hand is over the limit; its rest is thrown away.
    is_skipping: bool,
    /// A carriage return ends a line too, alone or together with the line feed behind it.
    has_returns: bool,
    /// The last line ended with one, whose line feed may still come.
    is_after_return: bool,
}

/// What [`Lines`] found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A long one is taken out of the buffer, so that it can be worked on elsewhere without being copied.
    Whole(Cow<'a, [u8]>),
    /// A line over the limit: how it begins.
    TooLong(Vec<u8>),
}

/// How much of a line over the limit is kept.
const BEGINNING: usize = 1024;

impl Lines {
    pub(super) fn new(max_bytes: usize) -> Lines {
        let (is_skipping, has_returns, is_after_return) = (false, false, false);
        Lines { buffer: Vec::new(), start: 0, searched: 0, max_bytes, is_skipping, has_returns, is_after_return }
    }

    /// Lines as server-sent events have them.
    pub(super) fn of_events(max_bytes: usize) -> Lines {
        Lines { has_returns: true, ..Lines::new(max_bytes) }
    }

    /// Where the next bytes of the stream are to be appended.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        &mut self.buffer
    }

    /// The next line, or `None` until more bytes are there.
    pub(super) fn next_line(&mut self) -> Option<Line<'_>> {
        loop {
            if self.is_after_return && self.start < self.buffer.len() {
                self.is_after_return = false;
                self.start += usize::from(self.buffer[self.start] == b'\n');
                self.searched = self.start;
            }
            let rest = &self.buffer[self.searched..];
            let found = match self.has_returns {
                true => memchr::memchr2(b'\r', b'\n', rest),
                false => memchr::memchr(b'\n', rest),
            };
            let Some(offset) = found else {
                self.searched = self.buffer.len();
                if self.searched - self.start <= self.max_bytes {
                    return None;
                }
                let beginning =
                    (!self.is_skipping).then(|| self.buffer[self.start..][..BEGINNING.min(self.max_bytes)].to_vec());
                self.is_skipping = true;
                self.buffer = Vec::new(); // gives the memory back
                (self.start, self.searched) = (0, 0);
                return beginning.map(Line::TooLong);
            };
            let (from, to) = (self.start, self.searched + offset);
            self.start = to + 1;
            self.searched = self.start;
            self.is_after_return = self.buffer[to] == b'\r';
            if std::mem::take(&mut self.is_skipping) {
                continue;
            }
            if to - from > self.max_bytes {
                return Some(Line::TooLong(self.buffer[from..][..BEGINNING.min(self.max_bytes)].to_vec()));
            }
            if to - from > AT_ONCE_BYTES {
                let rest = self.buffer.split_off(self.start);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                (self.start, self.searched) = (0, 0);
                line.truncate(to);
                line.drain(..from);
                return Some(Line::Whole(Cow::Owned(line)));
            }
            return Some(Line::Whole(Cow::Borrowed(&self.buffer[from..to])));
        }
    }

    /// How much there is of the line at hand.
    pub(super) fn pending_bytes(&self) -> usize {
        self.rest().len()
    }

    /// Throws the line at hand away, also what is still to come of it. How it begins.
    pub(super) fn skip_line(&mut self) -> Vec<u8> {
        let rest = self.rest();
        let beginning = rest[..BEGINNING.min(rest.len())].to_vec();
        self.is_skipping = true;
        self.buffer = Vec::new();
        (self.start, self.searched) = (0, 0);
        beginning
    }

    /// What is left when the stream has ended: a last line without its end.
    pub(super) fn rest(&self) -> &[u8] {
        if self.is_skipping { &[] } else { &self.buffer[self.start..] }
    }
}

/// The id in the beginning of a message that is too long to be read.
pub(super) fn id_in(beginning: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(beginning);
    let (before, rest) = text.split_once("\"id\"")?;
    // Else it is a log, or an id inside of the data.
    let opened = before.trim_start().strip_prefix('{')?;
    if opened.contains(['{', '[']) || !text.contains("\"jsonrpc\"") {
        return None;
    }
    let digits = rest.trim_start_matches([' ', ':', '"']);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Option<Message> {
        let mut messages = parse(text.as_bytes(), Keep::Parts)?;
        assert_eq!(messages.len(), 1, "{text}");
        messages.pop()
    }

    /// A message in one word, for tables.
    fn describe(text: &str) -> String {
        match one(text) {
            None => "noise".to_owned(),
            Some(Message::Answer { id, answer: Ok(payload) }) => {
                format!("answer {id}, {} fields", payload.fields.len())
            }
            Some(Message::Answer { id, answer: Err(error) }) => format!("error {id}: {} {}", error.code, error.message),
            Some(Message::Stray(Ok(_))) => "stray answer".to_owned(),
            Some(Message::Stray(Err(error))) => format!("stray error: {}", error.message),
            Some(Message::Request { id, method, .. }) => format!("request {id} {method}"),
            Some(Message::Notification { method, .. }) => format!("notification {method}"),
        }
    }

    #[test]
    fn messages_are_read_leniently() {
        let table = [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"a":1,"b":[2]}}"#, "answer 1, 2 fields"),
            (r#"{"id":"7","result":{}}"#, "answer 7, 0 fields"),
            (r#"{"id":7.0,"result":{}}"#, "answer 7, 0 fields"),
            (r#"{"id":1,"result":null}"#, "answer 1, 0 fields"),
            (r#"{"id":1,"result":"text"}"#, "answer 1, 0 fields"),
            (r#"{"id":1,"result":[1,{"a":2}]}"#, "answer 1, 0 fields"),
            (r#"{"id":1,"result":{"a":1},"error":null}"#, "answer 1, 1 fields"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "error 1: -9223372036854775808 it has neither a result nor an error"),
            (r#"{"id":1,"level":"info"}"#, "noise"),
            (r#"{"id":1,"error":{"code":-32601,"message":"no"}}"#, "error 1: -32601 no"),
            (r#"{"id":1,"error":"broken"}"#, "error 1: 0 broken"),
            (r#"{"id":1,"error":{"code":"x"}}"#, r#"error 1: 0 {"code":"x"}"#),
            (r#"{"id":null,"error":{"code":1,"message":"lost"}}"#, "stray error: lost"),
            (r#"{"result":{}}"#, "stray answer"),
            (r#"{"id":"abc","result":{}}"#, "stray answer"),
            (r#"{"id":-1,"result":{}}"#, "stray answer"),
            (r#"{"id":"q1","method":"roots/list"}"#, r#"request "q1" roots/list"#),
            (r#"{"method":"notifications/progress","params":{}}"#, "notification notifications/progress"),
            (r#"{"method":12}"#, "noise"),
            (r#"{"level":"info"}"#, "noise"),
            ("Starting server…", "noise"),
            ("", "noise"),
            ("   ", "noise"),
            ("[]", "noise"),
            ("[1,2]", "noise"),
            ("{", "noise"),
            ("null", "noise"),
        ];
        for (text, expected) in table {
            assert_eq!(describe(text), expected, "{text}");
        }
        assert!(parse(b"{\"id\":1,\"result\":{\"a\":\"\xff\"}}", Keep::Parts).is_none());
        assert_eq!(parse(br#"[{"id":1,"result":{}},{"id":2,"result":{}}]"#, Keep::Parts).unwrap().len(), 2);
    }

    #[test]
    fn a_result_can_be_kept_as_it_was_written() {
        let text = r#"{"id":1,"result":{ "x" : 1.0,"content":[{"type":"new"}, null],"_meta":{"a":[ ]} }}"#;
        let message = parse(text.as_bytes(), Keep::Whole).unwrap().pop();
        let Some(Message::Answer { answer: Ok(payload), .. }) = message else { panic!("no answer") };
        assert_eq!(payload.raw("x").map(RawValue::get), None);
        let whole = payload.into_whole().unwrap();
        assert_eq!(whole.get(), &text[r#"{"id":1,"result":"#.len()..text.len() - 1]);
        let parts = Payload::from(Whole(whole)).into_parts();
        assert_eq!(parts.get::<f64>("x"), Some(1.0));
        assert!(parts.into_whole().is_none());
    }

    #[test]
    fn lists_are_taken_apart_item_by_item() {
        let text = r#"{"id":1,"result":{"tools":[{"name":"a","x":[1]},null,"b",[2],{"name":1}],"content":"text"}}"#;
        let Some(Message::Answer { answer: Ok(mut payload), .. }) = one(text) else { panic!("no answer") };
        assert_eq!(payload.raw("content").unwrap().get(), "\"text\"");
        assert_eq!(payload.get::<String>("content").as_deref(), Some("text"));
        let items = payload.take_items("tools").unwrap();
        let described: Vec<_> = items
            .iter()
            .map(|item| match item {
                Item::Object(fields) => fields.to_raw().get().to_owned(),
                Item::Other(other) => other.get().to_owned(),
            })
            .collect();
        assert_eq!(described, [r#"{"name":"a","x":[1]}"#, "null", "\"b\"", "[2]", r#"{"name":1}"#]);
        let Item::Object(fields) = &items[0] else { panic!("no object") };
        assert_eq!(fields.get::<String>("name").as_deref(), Some("a"));
        assert_eq!(fields.get::<u32>("name"), None);
    }

    /// Feeds `parts` one by one; each line, or `!` and the beginning of one that is too long.
    fn lines(max_bytes: usize, parts: &[&str]) -> Vec<String> {
        let mut lines = Lines::new(max_bytes);
        let mut found = Vec::new();
        for part in parts {
            lines.buffer().extend_from_slice(part.as_bytes());
            while let Some(line) = lines.next_line() {
                found.push(match line {
                    Line::Whole(line) => String::from_utf8_lossy(&line).into_owned(),
                    Line::TooLong(beginning) => format!("!{}", String::from_utf8_lossy(&beginning)),
                });
            }
        }
        found
    }

    #[test]
    fn bytes_are_cut_into_lines() {
        let table: [(&[&str], &[&str]); 7] = [
            (&["ab\ncd\n"], &["ab", "cd"]),
            (&["a", "b", "\n"], &["ab"]),
            (&["ab\ncd", "\nef"], &["ab", "cd"]),
            (&["\n\n"], &["", ""]),
            (&["1234567890\nok\n"], &["!12345", "ok"]),
            (&["123", "456", "7890", "12345", "\nok\n"], &["!12345", "ok"]),
            (&["123456", "78\n12345\n"], &["!12345", "12345"]),
        ];
        for (parts, expected) in table {
            assert_eq!(lines(5, parts), expected, "{parts:?}");
        }
    }

    #[test]
    fn the_id_is_found_in_a_message_that_is_cut() {
        let table = [
            (r#"{"jsonrpc":"2.0","id":42,"result":{"content":[{"#, Some(42)),
            (r#"{"id" : "7","jsonrpc":"2.0","res"#, Some(7)),
            (r#"{"jsonrpc":"2.0","result":"#, None),
            (r#"{"jsonrpc":"2.0","result":{"id":7,"#, None),
            (r#"{"level":30,"id":7,"#, None),
            (r#"{"jsonrpc":"2.0","id":nu"#, None),
        ];
        for (text, expected) in table {
            assert_eq!(id_in(text.as_bytes()), expected, "{text}");
        }
    }
}
