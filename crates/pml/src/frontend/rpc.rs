//! Parses the messages of clients, and formats responses for both eras of the protocol.

use std::fmt;

use pml_wire::Line;
use serde::de::{self, Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

pub(super) use crate::protocol::{
    BATCHING as WITH_BATCHES, Era, LEGACY, MODERN,
    code::{
        HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CAPABILITY,
        PARSE_ERROR, UNSUPPORTED_VERSION,
    },
    meta::{
        CAPABILITIES as CAPABILITIES_KEY, CLIENT as CLIENT_KEY, LOG_LEVEL as LOG_LEVEL_KEY, VERSION as VERSION_KEY,
    },
};
use crate::{
    protocol::meta::SERVER as SERVER_KEY,
    room::Held,
    shown::visible,
    upstream::{Fields, RpcError},
    work::{self, AT_ONCE_BYTES},
};

/// Most messages in one batch.
const MAX_BATCH: usize = 100;

/// One message, or a batch.
#[derive(Debug, PartialEq)]
pub(super) enum Sent {
    One(Incoming),
    /// A batch: several messages in one JSON array.
    Batch(Vec<Result<Incoming, Box<Broken>>>),
}

/// A message from a client.
#[derive(Debug, PartialEq)]
pub(super) enum Incoming {
    Request(Request),
    Notification {
        method: String,
        params: Map<String, Value>,
    },
    /// The response to a request of pml.
    Answer {
        id: Value,
        outcome: Result<Value, RpcError>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    /// A text or a number.
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

/// An invalid message: the error to respond with, and the id of the request, if it can be determined.
#[derive(Debug, PartialEq)]
pub(super) struct Broken {
    /// Null if the id cannot be determined; `None` if the message gets no response.
    pub(super) id: Option<Value>,
    pub(super) error: RpcError,
}

/// An error of pml itself. Its message may quote a server or the client.
pub(super) fn error(code: i64, message: impl AsRef<str>) -> RpcError {
    RpcError { code, message: visible(message.as_ref()).into_owned(), data: None }
}

/// Parses what a client sends; a large message on a `work` thread.
pub(super) async fn read(bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Sent, Box<Broken>> {
    work::sized(bytes.as_ref().len(), move |_| parse(bytes.as_ref())).await
}

/// The byte order mark, which some programs put in front of what they write.
const BOM: &[u8] = b"\xef\xbb\xbf";

fn parse(bytes: &[u8]) -> Result<Sent, Box<Broken>> {
    let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(unreadable(bytes, PARSE_ERROR, "the message is not UTF-8"));
    };
    if !text.trim_start().starts_with('[') {
        return parse_one(text).map(Sent::One);
    }
    // Each message is parsed by itself, so that an error concerns that message only.
    match serde_json::from_str::<Vec<&RawValue>>(text) {
        Ok(items) if items.is_empty() => Err(broken(Value::Null, INVALID_REQUEST, "the batch is empty")),
        Ok(items) if items.len() > MAX_BATCH => {
            Err(broken(Value::Null, INVALID_REQUEST, &format!("a batch has at most {MAX_BATCH} messages")))
        }
        Ok(items) => Ok(Sent::Batch(items.into_iter().map(|item| parse_one(item.get())).collect())),
        Err(err) => Err(broken(Value::Null, PARSE_ERROR, &format!("the batch is not JSON: {err}"))),
    }
}

fn broken(id: Value, code: i64, message: &str) -> Box<Broken> {
    Box::new(Broken { id: Some(id), error: error(code, message) })
}

fn parse_one(text: &str) -> Result<Incoming, Box<Broken>> {
    let ignored = |message: &str| Box::new(Broken { id: None, error: error(INVALID_REQUEST, message) });
    // Checked before parsing, since deep nesting needs stack.
    if pml_wire::json::depth(text) > pml_wire::json::MAX_DEPTH {
        let message = format!("the message is nested more than {} levels deep", pml_wire::json::MAX_DEPTH);
        return Err(unreadable(text.as_bytes(), INVALID_REQUEST, &message));
    }
    let mut object = match serde_json::from_str(text) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Err(broken(Value::Null, INVALID_REQUEST, "the message is not an object")),
        Err(err) => {
            let message = format!("the message is not JSON that can be read: {err}");
            return Err(unreadable(text.as_bytes(), PARSE_ERROR, &message));
        }
    };
    let id = match object.remove("id") {
        None => None,
        Some(id @ Value::String(_)) => Some(id),
        Some(id @ Value::Number(_)) if id.is_i64() || id.is_u64() => Some(id),
        Some(_) => return Err(broken(Value::Null, INVALID_REQUEST, "the id is neither a text nor a whole number")),
    };
    // Notifications and responses get no response, even if they are invalid.
    let is_answer = object.contains_key("result") || object.contains_key("error");
    let is_answered = if object.contains_key("method") { id.is_some() } else { !is_answer };
    let wrong = |code, message: &str| match is_answered {
        true => broken(id.clone().unwrap_or_default(), code, message),
        false => ignored(message),
    };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(wrong(INVALID_REQUEST, "`jsonrpc` must be \"2.0\""));
    }
    let method = match object.remove("method") {
        Some(Value::String(method)) => Some(method),
        Some(_) => return Err(wrong(INVALID_REQUEST, "the method is not a text")),
        None => None,
    };
    let Some(method) = method else {
        let Some(id) = &id else { return Err(wrong(INVALID_REQUEST, "there is no method")) };
        let outcome = match (object.remove("result"), object.remove("error")) {
            (Some(result), None) => Ok(result),
            (None, Some(Value::Object(object))) => Err(RpcError {
                code: object.get("code").and_then(Value::as_i64).unwrap_or(INTERNAL_ERROR),
                message: object.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
                data: object.get("data").cloned(),
            }),
            _ => return Err(wrong(INVALID_REQUEST, "there is no method, and no answer either")),
        };
        return Ok(Incoming::Answer { id: id.clone(), outcome });
    };
    let params = match object.remove("params") {
        Some(Value::Object(params)) => params,
        None | Some(Value::Null) => Map::new(),
        Some(_) => return Err(wrong(INVALID_PARAMS, "`params` must be an object")),
    };
    Ok(match id {
        Some(id) => Incoming::Request(Request { id, method, params }),
        None => Incoming::Notification { method, params },
    })
}

/// The error for a message that cannot be parsed. The error carries the id of the request if the id can be determined:
/// otherwise the client would wait forever.
fn unreadable(bytes: &[u8], code: i64, message: &str) -> Box<Broken> {
    let seen = Glimpse::of(bytes);
    // Notifications and responses get no response. A message that may be a request gets one.
    let is_answered = match seen.has_method {
        true => seen.has_id || !seen.is_whole,
        false => !seen.is_answer,
    };
    Box::new(Broken { id: is_answered.then(|| seen.id.unwrap_or_default()), error: error(code, message) })
}

/// The id in the beginning of a message; null if it cannot be determined.
pub(super) fn id_in(beginning: &[u8]) -> Value {
    Glimpse::of(beginning).id.unwrap_or_default()
}

/// The fields that can be determined from an unparsable message: one with a lone surrogate, a number out of
/// range, invalid UTF-8, excessive nesting, or a missing end. Skipped values need no stack.
#[derive(Debug, Default)]
struct Glimpse {
    /// A text or a whole number.
    id: Option<Value>,
    has_id: bool,
    has_method: bool,
    is_answer: bool,
    /// Is the message complete JSON?
    is_whole: bool,
}

impl Glimpse {
    fn of(bytes: &[u8]) -> Glimpse {
        let mut seen = Glimpse::default();
        let text = String::from_utf8_lossy(bytes);
        let mut json = serde_json::Deserializer::from_str(&text);
        let read = json.deserialize_map(Looking(&mut seen));
        seen.is_whole = read.is_ok() && json.end().is_ok();
        // A repaired id would be a different id.
        let is_changed = |id: &Value| id.as_str().is_some_and(|id| id.contains('\u{fffd}'));
        seen.id = seen.id.filter(|id| !is_changed(id));
        seen
    }
}

struct Looking<'a>(&'a mut Glimpse);

impl<'de> Visitor<'de> for Looking<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Looking(seen) = self;
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Id => {
                    seen.has_id = true;
                    let id = map.next_value::<&RawValue>()?.get();
                    let id = Some(id).filter(|id| !id.starts_with(['{', '[']));
                    let id = id.and_then(|id| serde_json::from_str(id).ok());
                    seen.id = id.filter(|id: &Value| id.is_string() || id.is_i64() || id.is_u64());
                    continue;
                }
                Key::Method => seen.has_method = true,
                Key::Answer => seen.is_answer = true,
                Key::Other => {}
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// A key of a message, which may be invalid UTF-8.
enum Key {
    Id,
    Method,
    Answer,
    Other,
}

impl<'de> de::Deserialize<'de> for Key {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_bytes<E: de::Error>(self, key: &[u8]) -> Result<Key, E> {
                Ok(match key {
                    b"id" => Key::Id,
                    b"method" => Key::Method,
                    b"result" | b"error" => Key::Answer,
                    _ => Key::Other,
                })
            }
        }
        deserializer.deserialize_bytes(KeyVisitor)
    }
}

/// The protocol version that a client requests in `initialize`.
pub(super) fn wanted_version(params: &Map<String, Value>) -> Result<&str, RpcError> {
    let version = params.get("protocolVersion").and_then(Value::as_str);
    version.ok_or_else(|| error(INVALID_PARAMS, "`protocolVersion` must be a text"))
}

/// The `_meta` of a request.
#[derive(Clone, Debug)]
pub(super) struct Meta {
    pub(super) era: Era,
    /// The client's capabilities; those of the session if the request has none.
    pub(super) capabilities: Option<Value>,
    pub(super) fields: Map<String, Value>,
}

/// Takes `_meta` out of the parameters and checks it.
pub(super) fn take_meta(request: &mut Request) -> Result<Meta, RpcError> {
    let fields = match request.params.remove("_meta") {
        Some(Value::Object(fields)) => fields,
        None => Map::new(),
        Some(_) => return Err(error(INVALID_PARAMS, "`_meta` must be an object")),
    };
    let wants_modern = request.method == "server/discover" || fields.contains_key(VERSION_KEY);
    // `initialize` belongs to the legacy era, whatever its `_meta`. Without a protocol version it is invalid,
    // and the modern era has no such method.
    let is_handshake = request.method == "initialize" && request.params.contains_key("protocolVersion");
    if !wants_modern || is_handshake {
        return Ok(Meta { era: Era::Legacy, capabilities: None, fields });
    }
    match fields.get(VERSION_KEY) {
        Some(Value::String(version)) if version == MODERN => {}
        Some(Value::String(version)) => return Err(unsupported(version)),
        Some(_) | None => return Err(error(INVALID_PARAMS, format!("`_meta` needs `{VERSION_KEY}`, a text"))),
    }
    let capabilities = match fields.get(CAPABILITIES_KEY) {
        Some(value @ Value::Object(_)) => value.clone(),
        _ => return Err(error(INVALID_PARAMS, format!("`_meta` needs `{CAPABILITIES_KEY}`, an object"))),
    };
    if fields.get(CLIENT_KEY).is_some_and(|info| !info.is_object()) {
        return Err(error(INVALID_PARAMS, format!("`{CLIENT_KEY}` in `_meta` must be an object")));
    }
    Ok(Meta { era: Era::Modern, capabilities: Some(capabilities), fields })
}

pub(super) fn unsupported(version: &str) -> RpcError {
    RpcError {
        code: UNSUPPORTED_VERSION,
        message: format!(
            "protocol version `{version}` is not supported here; use {MODERN}, or begin with `initialize`"
        ),
        data: Some(json!({ "supported": [MODERN], "requested": version })),
    }
}

pub(super) fn server_info() -> Value {
    json!({ "name": "pml", "title": "pml", "version": env!("CARGO_PKG_VERSION") })
}

/// The result of a request.
#[derive(Debug)]
pub(super) enum Reply {
    Value(Value),
    /// As a server wrote it, with its charge to the memory budget.
    Passed {
        fields: Fields,
        _held: Held,
    },
}

impl From<Value> for Reply {
    fn from(value: Value) -> Reply {
        Reply::Value(value)
    }
}

impl Reply {
    /// A field of the result, if there is one.
    pub(super) fn get(&self, key: &str) -> Option<Value> {
        match self {
            Reply::Value(value) => value.get(key).cloned(),
            Reply::Passed { fields, .. } => fields.get(key),
        }
    }

    fn is_heavy(&self) -> bool {
        match self {
            Reply::Value(value) => work::is_heavy(value),
            Reply::Passed { fields, .. } => fields.bytes() > AT_ONCE_BYTES,
        }
    }
}

/// Formats a result for the era of its request.
pub(super) fn finish(era: Era, method: &str, reply: &mut Reply) {
    match reply {
        Reply::Value(Value::Object(result)) => finish_object(era, method, result),
        Reply::Value(_) => {}
        Reply::Passed { fields, .. } => {
            // The fields that pml changes, changed as in any other result and put back.
            let mut changed = Map::new();
            for key in ["resultType", "ttlMs", "cacheScope", "_meta"] {
                if let Some(value) = fields.take(key).and_then(|raw| serde_json::from_str(raw.get()).ok()) {
                    changed.insert(key.to_owned(), value);
                }
            }
            finish_object(era, method, &mut changed);
            for (key, value) in &changed {
                fields.push(key, to_raw_value(value).expect("a JSON value serializes"));
            }
        }
    }
}

fn finish_object(era: Era, method: &str, result: &mut Map<String, Value>) {
    // A client may cache lists and resources; the response always says for how long.
    let is_cacheable = matches!(
        method,
        "server/discover"
            | "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
    );
    match era {
        Era::Legacy => ["resultType", "ttlMs", "cacheScope"].iter().for_each(|key| drop(result.remove(*key))),
        Era::Modern => {
            result.entry("resultType").or_insert_with(|| "complete".into());
            if is_cacheable && result["resultType"] == "complete" {
                result.entry("ttlMs").or_insert_with(|| 0.into());
                result.entry("cacheScope").or_insert_with(|| "private".into());
            }
            let meta = result.entry("_meta").or_insert_with(|| json!({}));
            if let Value::Object(meta) = meta {
                meta.entry(SERVER_KEY).or_insert_with(server_info);
            }
        }
    }
}

/// The response to a request. A large response is serialized on a `work` thread.
pub(super) async fn write_answer(id: &Value, outcome: Result<Reply, RpcError>) -> Line {
    match outcome {
        Ok(reply) => {
            let id = id.clone();
            work::weighed(reply.is_heavy(), move |_| answer(&id, Ok(reply))).await
        }
        Err(error) => answer(id, Err(error)),
    }
}

/// The responses to the requests of a batch; `None` if there are none.
pub(super) fn batch(answers: &[Line]) -> Option<Line> {
    let all: Vec<_> = answers.iter().map(Line::as_str).collect();
    (!all.is_empty()).then(|| Line::new(format!("[{}]", all.join(","))))
}

/// Why a client may not send a batch.
pub(super) fn no_batches() -> RpcError {
    let message = format!("batches exist in protocol version {WITH_BATCHES} only, and not before it is agreed on");
    error(INVALID_REQUEST, message)
}

/// Checks a request in a batch.
pub(super) fn check_in_batch(request: &Request, meta: &Meta) -> Result<(), RpcError> {
    match (request.method.as_str(), meta.era) {
        ("initialize", _) => Err(error(INVALID_REQUEST, "`initialize` cannot be part of a batch")),
        (_, Era::Modern) => Err(no_batches()),
        (_, Era::Legacy) => Ok(()),
    }
}

/// The response to a request.
pub(super) fn answer(id: &Value, outcome: Result<Reply, RpcError>) -> Line {
    match outcome {
        Ok(Reply::Value(result)) => Line::of(&json!({ "jsonrpc": "2.0", "id": id, "result": result })),
        Ok(Reply::Passed { fields, .. }) => {
            let result = fields.to_raw();
            drop(fields);
            Line::new(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
        }
        Err(RpcError { code, message, data }) => {
            let mut error = json!({ "code": code, "message": message });
            if let Some(data) = data {
                error["data"] = data;
            }
            Line::of(&json!({ "jsonrpc": "2.0", "id": id, "error": error }))
        }
    }
}

pub(super) fn notification(method: &str, params: Value) -> Line {
    Line::of(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Item;

    #[test]
    fn messages_are_read_or_refused_with_the_right_code() {
        let table = [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, Ok("request")),
            (r#"{"jsonrpc":"2.0","id":"a","method":"x","params":{"a":1}}"#, Ok("request")),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, Ok("notification")),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Ok("answer")),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#, Ok("answer")),
            ("{", Err(PARSE_ERROR)),
            ("\u{0}", Err(PARSE_ERROR)),
            ("[]", Err(INVALID_REQUEST)),
            ("[1", Err(PARSE_ERROR)),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, Ok("batch")),
            ("5", Err(INVALID_REQUEST)),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, Err(INVALID_REQUEST)),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Err(INVALID_REQUEST)),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, Err(INVALID_REQUEST)),
            (r#"{"jsonrpc":"2.0","id":1}"#, Err(INVALID_REQUEST)),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, Err(INVALID_REQUEST)),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#, Err(INVALID_PARAMS)),
        ];
        for (text, expected) in table {
            let actual = match parse(text.as_bytes()) {
                Ok(Sent::One(Incoming::Request(_))) => Ok("request"),
                Ok(Sent::One(Incoming::Notification { .. })) => Ok("notification"),
                Ok(Sent::One(Incoming::Answer { .. })) => Ok("answer"),
                Ok(Sent::Batch(_)) => Ok("batch"),
                Err(broken) => Err(broken.error.code),
            };
            assert_eq!(actual, expected, "{text}");
        }
        assert_eq!(parse(b"\xff\xfe").unwrap_err().error.code, PARSE_ERROR);
        let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}"#, "[".repeat(100_000));
        assert_eq!(parse(deep.as_bytes()).unwrap_err().error.code, INVALID_REQUEST);
        for (id, expected) in [("7", json!(7)), ("\"a\"", json!("a")), ("[7]", json!(null)), ("1.5", json!(null))] {
            let nest = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
            let deep = format!(r#"{{"method":"x","params":{nest},"id":{id}}}"#);
            assert_eq!(parse(deep.as_bytes()).unwrap_err().id, Some(expected), "{id}");
        }
        let known = parse(br#"{"jsonrpc":"2.0","id":9,"method":"x","params":[1]}"#).unwrap_err();
        assert_eq!(known.id, Some(json!(9)), "the client is told which request was wrong");
        for unanswered in [
            r#"{"jsonrpc":"2.0","method":"x","params":[1]}"#,
            r#"{"jsonrpc":"1.0","method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#,
        ] {
            assert_eq!(parse(unanswered.as_bytes()).unwrap_err().id, None, "{unanswered}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_answered_under_its_id() {
        let deep = format!(r#"{{"id":7,"method":"x","params":{}"#, "[".repeat(100_000));
        let table: [(&[u8], Option<Value>); 22] = [
            (br#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"\ud800"}}"#, Some(json!(7))),
            (br#"{"jsonrpc":"2.0","params":{"a":"\udc00"},"method":"x","id":"b"}"#, Some(json!("b"))),
            (br#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":1e400}}"#, Some(json!(7))),
            (br#"{"jsonrpc":"2.0","method":"x","params":{"a":-1e400},"id":7}"#, Some(json!(7))),
            (br#"{"\ud800":1,"jsonrpc":"2.0","method":"x","id":7}"#, Some(json!(7))),
            (br#"{"jsonrpc":"2.0","id":7,"method":"\udfff"}"#, Some(json!(7))),
            (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"x\",\"params\":{\"a\":\"\xff\"}}", Some(json!(7))),
            (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"x\",\"params\":{\"a\":\"\n\"}}", Some(json!(7))),
            (deep.as_bytes(), Some(json!(7))),
            // Not JSON, but the id can be determined.
            (br#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"#, Some(json!(7))),
            (br#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":NaN}}"#, Some(json!(7))),
            (br#"{"jsonrpc":"2.0","id":7,"method":"x",}"#, Some(json!(7))),
            (br#"{"jsonrpc":"2.0","id":7,"method":"x"}}"#, Some(json!(7))),
            // The id is the invalid part.
            (br#"{"jsonrpc":"2.0","method":"x","params":{"a":,"id":7}"#, Some(json!(null))),
            (br#"{"jsonrpc":"2.0","id":1e400,"method":"x"}"#, Some(json!(null))),
            (br#"{"jsonrpc":"2.0","id":"\ud800","method":"x"}"#, Some(json!(null))),
            (b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"x\"}", Some(json!(null))),
            (br#"{"jsonrpc":"2.0","id":7"#, Some(json!(7))),
            (br#"hello"#, Some(json!(null))),
            // Notifications and responses get no response.
            (br#"{"jsonrpc":"2.0","method":"x","params":{"a":1e400}}"#, None),
            (br#"{"jsonrpc":"2.0","id":"pml-1","result":{"a":"\ud800"}}"#, None),
            (br#"{"jsonrpc":"2.0","id":"pml-1","error":{"a":1e400}}"#, None),
        ];
        for (bytes, id) in table {
            let broken = parse(bytes).unwrap_err();
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(100)]);
            assert_eq!(broken.id, id, "{shown}");
            assert!([PARSE_ERROR, INVALID_REQUEST].contains(&broken.error.code), "{shown}");
        }
        let Ok(Sent::Batch(items)) = parse(
            br#" [{"jsonrpc":"2.0","id":1,"method":"x"},{"jsonrpc":"2.0","id":2,"method":"x","params":{"a":1e400}},[],3]"#,
        ) else {
            panic!("no batch")
        };
        let Ok(Sent::One(Incoming::Request(request))) =
            parse(b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"x\"}")
        else {
            panic!("a byte order mark is no part of a message")
        };
        assert_eq!(request.id, json!(7));
        let ids: Vec<_> =
            items.iter().map(|item| item.as_ref().map(|_| ()).map_err(|broken| broken.id.clone())).collect();
        assert_eq!(ids, [Ok(()), Err(Some(json!(2))), Err(Some(json!(null))), Err(Some(json!(null)))]);
        let many = format!("[{}]", vec!["1"; MAX_BATCH + 1].join(","));
        assert_eq!(parse(many.as_bytes()).unwrap_err().error.code, INVALID_REQUEST);
    }

    #[test]
    fn the_era_is_read_off_each_request() {
        let read = |method: &str, meta: Value| {
            let mut params = Map::new();
            params.insert("_meta".to_owned(), meta);
            let mut request = Request { id: 1.into(), method: method.to_owned(), params };
            take_meta(&mut request).map(|meta| meta.era).map_err(|error| error.code)
        };
        let modern = json!({ VERSION_KEY: MODERN, CAPABILITIES_KEY: {} });
        let table = [
            ("tools/list", json!({}), Ok(Era::Legacy)),
            ("tools/list", modern.clone(), Ok(Era::Modern)),
            ("server/discover", modern, Ok(Era::Modern)),
            ("server/discover", json!({}), Err(INVALID_PARAMS)),
            ("tools/list", json!({ VERSION_KEY: MODERN }), Err(INVALID_PARAMS)),
            ("tools/list", json!({ VERSION_KEY: 5 }), Err(INVALID_PARAMS)),
            ("tools/list", json!({ VERSION_KEY: "2099-01-01", CAPABILITIES_KEY: {} }), Err(UNSUPPORTED_VERSION)),
            ("tools/list", json!([]), Err(INVALID_PARAMS)),
            ("initialize", json!({}), Ok(Era::Legacy)),
            ("initialize", json!({ VERSION_KEY: MODERN, CAPABILITIES_KEY: {} }), Ok(Era::Modern)),
        ];
        for (method, meta, expected) in table {
            assert_eq!(read(method, meta.clone()), expected, "{method} {meta}");
        }
        let params = json!({ "protocolVersion": "2025-11-25", "_meta": { VERSION_KEY: MODERN } });
        let Value::Object(params) = params else { unreachable!() };
        let mut handshake = Request { id: 1.into(), method: "initialize".to_owned(), params };
        assert_eq!(take_meta(&mut handshake).unwrap().era, Era::Legacy);
    }

    #[test]
    fn answers_have_the_form_of_their_era() {
        let passed = |value: &Value| {
            let Ok(Item::Object(fields)) = serde_json::from_str(&value.to_string()) else { panic!("no object") };
            Reply::Passed { fields, _held: None }
        };
        // pml's own results and relayed results get the same form.
        for of in [|value: &Value| Reply::Value(value.clone()), passed] {
            let mut result = of(&json!({ "tools": [], "_meta": { "theirs": 1 } }));
            let key = |result: &Reply, key: &str| result.get(key);
            finish(Era::Modern, "tools/list", &mut result);
            assert_eq!((key(&result, "resultType"), key(&result, "ttlMs")), (Some(json!("complete")), Some(json!(0))));
            let meta = key(&result, "_meta").unwrap();
            assert_eq!((&meta[SERVER_KEY]["name"], &meta["theirs"]), (&json!("pml"), &json!(1)));
            finish(Era::Legacy, "tools/list", &mut result);
            assert!(key(&result, "resultType").is_none() && key(&result, "ttlMs").is_none());
            let mut asks = of(&json!({ "resultType": "input_required", "inputRequests": {} }));
            finish(Era::Modern, "resources/read", &mut asks);
            assert!(key(&asks, "ttlMs").is_none() && key(&asks, "resultType") == Some(json!("input_required")));
            let line = answer(&json!(7), Ok(of(&json!({ "a": [1, null], "b": "x" }))));
            let written: Value = serde_json::from_str(line.as_str()).unwrap();
            assert_eq!(written, json!({ "jsonrpc": "2.0", "id": 7, "result": { "a": [1, null], "b": "x" } }));
        }
    }
}
