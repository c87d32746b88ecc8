//! JSON-RPC as servers really write it.
//!
//! A line becomes [`Message`]s. What a server gets wrong is repaired where its meaning is clear, and otherwise costs only
//! the message it is in: noise between messages is counted, ids may be numbers in quotes, `"error": null` is no error,
//! bytes that are no UTF-8 are marked, and one bad tool in a list hides no other. A result that is no object is an error:
//! whatever was made of it would be a guess.

use std::{borrow::Cow, fmt, marker::PhantomData};

use pml_wire::line::unbroken;
use serde::{
    Deserialize,
    de::{Deserializer, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::payload::{Keep, Payload, WholeText};

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

/// A JSON-RPC error, as it was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<serde_json::Value>,
}

/// Reads the messages of one line; a list of messages counts as several. `None` if the line is noise.
pub(super) fn parse(line: &[u8], keep: Keep) -> Option<Vec<Message>> {
    // What is kept as text goes into messages to others, so it must not bring line breaks along.
    let line = unbroken(line);
    let read = |line: &[u8]| match keep {
        Keep::Parts => parse_as::<Payload>(line),
        Keep::Whole => parse_as::<WholeText>(line),
    };
    if let Some(messages) = read(&line) {
        return Some(messages);
    }
    // A single bad byte in a description must not cost a whole list.
    let Cow::Owned(repaired) = String::from_utf8_lossy(&line) else { return None };
    let mut messages = read(repaired.as_bytes())?;
    for message in &mut messages {
        if let Message::Answer { answer: Ok(payload), .. } | Message::Stray(Ok(payload)) = message {
            payload.is_repaired = true;
        }
    }
    Some(messages)
}

fn parse_as<R: for<'a> Deserialize<'a> + Into<Payload>>(line: &[u8]) -> Option<Vec<Message>> {
    let first = line.iter().find(|byte| !byte.is_ascii_whitespace())?;
    match first {
        b'{' => serde_json::from_slice::<Envelope<'_, R>>(line).ok()?.into_message().map(|message| vec![message]),
        b'[' => {
            // One by one: an item that is no message hides no other.
            let list: Vec<&RawValue> = serde_json::from_slice(line).ok()?;
            let read = |item: &RawValue| serde_json::from_str::<Envelope<'_, R>>(item.get()).ok()?.into_message();
            let messages: Vec<_> = list.into_iter().filter_map(read).collect();
            (!messages.is_empty()).then_some(messages)
        }
        _ => None,
    }
}

/// The code of an answer that is neither a usable result nor an error. No server sends it.
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
            (None, Some(result)) => match result.into() {
                Payload { not_an_object: Some(kind), .. } => {
                    Err(broken(format!("its result is {kind}, not an object")))
                }
                payload => Ok(payload),
            },
            // Neither: an answer all the same, if it says that it is one. Nobody shall wait for a better.
            (None, None) => {
                id.filter(|_| self.has_version)?;
                Err(broken("it has neither a result nor an error".to_owned()))
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

fn broken(message: String) -> RpcError {
    RpcError { code: BROKEN, message, data: None }
}

impl RpcError {
    pub(super) fn parse(raw: &RawValue) -> RpcError {
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
    use super::{super::payload::Item, *};

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
                format!("answer {id}, {} fields", payload.field_count())
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
            (r#"{"id":1,"result":"text"}"#, "error 1: -9223372036854775808 its result is a text, not an object"),
            (r#"{"id":1,"result":[1,{"a":2}]}"#, "error 1: -9223372036854775808 its result is a list, not an object"),
            (r#"{"id":1,"result":-1.5}"#, "error 1: -9223372036854775808 its result is a number, not an object"),
            (r#"{"id":1,"result":true}"#, "error 1: -9223372036854775808 its result is a truth value, not an object"),
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
            // Kept as text, a result is judged in the same way.
            let kept = parse(text.as_bytes(), Keep::Whole).and_then(|mut messages| messages.pop());
            let is_error = |message: &Message| matches!(message, Message::Answer { answer: Err(_), .. });
            assert_eq!(kept.as_ref().is_some_and(is_error), expected.starts_with("error"), "{text}");
        }
    }

    #[test]
    fn one_bad_item_of_a_batch_hides_no_other() {
        let count = |text: &str| parse(text.as_bytes(), Keep::Parts).map_or(0, |messages| messages.len());
        assert_eq!(count(r#"[{"id":1,"result":{}},{"id":2,"result":{}}]"#), 2);
        assert_eq!(count(r#"[{"id":1,"result":{}},7,{"id":2,"result":{}}]"#), 2);
    }

    #[test]
    fn a_bad_byte_costs_no_more_than_itself() {
        let read = |bytes: &[u8]| match parse(bytes, Keep::Parts).and_then(|mut messages| messages.pop()) {
            Some(Message::Answer { answer: Ok(payload), .. }) => (payload.get::<String>("a"), payload.is_repaired),
            other => panic!("{other:?}"),
        };
        assert_eq!(read(b"{\"id\":1,\"result\":{\"a\":\"x\"}}"), (Some("x".to_owned()), false));
        assert_eq!(read(b"{\"id\":1,\"result\":{\"a\":\"x\xff\"}}"), (Some("x\u{fffd}".to_owned()), true));
        assert!(parse(b"\xff\xfe", Keep::Parts).is_none());
    }

    #[test]
    fn a_result_can_be_kept_as_it_was_written() {
        let text = r#"{"id":1,"result":{ "x" : 1.0,"content":[{"type":"new"}, null],"_meta":{"a":[ ]} }}"#;
        let message = parse(text.as_bytes(), Keep::Whole).unwrap().pop();
        let Some(Message::Answer { answer: Ok(payload), .. }) = message else { panic!("no answer") };
        assert_eq!(payload.raw("x").map(RawValue::get), None);
        let whole = payload.into_whole().unwrap();
        assert_eq!(whole.get(), &text[r#"{"id":1,"result":"#.len()..text.len() - 1]);
        let parts = Payload::from(WholeText(whole)).into_parts();
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
