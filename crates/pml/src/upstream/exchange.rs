//! One request to a server and its answer, in either era, over whichever transport.

use std::{
    borrow::Cow,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use pml_wire::{ErrorCode, Line};
use serde_json::{Map, Value, value::RawValue};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    codec::{BROKEN, RpcError},
    failure::{Failure, Retry},
    payload::Payload,
    pending::{Answer, Followed, Patience},
    progress::ProgressSender,
    questions::{MessageSender, Owner},
    transport::{Departure, Headers, Link, Outgoing, SessionId, SessionSlot},
};
use crate::{
    protocol::{Era, Version, meta, method},
    work::{self, AT_ONCE_BYTES},
};

/// The capabilities of a client that can cope with tasks.
const TASKS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// A request to be made.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    /// Parameters, each as JSON text.
    pub(super) params: Vec<(&'static str, Cow<'a, str>)>,
    /// The arguments of a call, which may be large.
    pub(super) arguments: Option<Arc<Box<RawValue>>>,
    /// The tool, prompt or address that the request is about, for HTTP.
    pub(super) name: Option<&'a str>,
    pub(super) traceparent: Option<String>,
    /// Arguments that also go into headers, where there are any.
    pub(super) headers: Vec<(String, String)>,
    /// Longest silence of the server; progress ends a silence.
    pub(super) idle: Duration,
    pub(super) total: Duration,
    /// Is it answered with a task?
    pub(super) is_task: bool,
    /// The client's part, if the request is passed on for a client.
    pub(super) passing: Option<Arc<Passing>>,
    /// Makes it a subscription, and hears what the server honours of it.
    pub(super) acknowledged: Option<watch::Sender<Option<Box<RawValue>>>>,
    pub(super) following: Option<Following>,
}

/// Who hears the progress of a call, until the request is dropped: a task goes on when its request is answered.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) sender: ProgressSender,
    /// Where the call was last sent.
    followed: Mutex<Option<Followed>>,
}

impl Following {
    pub(super) fn new(sender: ProgressSender) -> Following {
        Following { sender, followed: Mutex::default() }
    }
}

/// A client's part of a request that is passed on. The texts are the fields of JSON objects.
#[derive(Debug)]
pub(super) struct Passing {
    params: String,
    meta: String,
    /// The fields of `_meta` that only a server of the modern era gets.
    modern_meta: String,
    capabilities: Option<String>,
    relay: Option<MessageSender>,
    owner: Option<Owner>,
}

/// How messages to a server are written: the version that was agreed on, and the session that they belong to.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    pub(super) version: Version,
    pub(super) session: Option<SessionId>,
}

impl Manner {
    pub(super) fn new(version: Version) -> Manner {
        Manner { version, session: None }
    }

    /// What HTTP wants to know about a message.
    pub(super) fn headers(&self, method: &str, name: Option<&str>) -> Headers {
        let version = Some(self.version.as_str());
        match self.version.era() {
            // The first message of a session is in no version and no session yet.
            Era::Legacy if method == method::INITIALIZE => Headers::default(),
            Era::Legacy => Headers { version, session: self.session.clone(), ..Headers::default() },
            Era::Modern => Headers {
                version,
                method: Some(method.to_owned()),
                name: name.map(str::to_owned),
                ..Headers::default()
            },
        }
    }
}

impl Passing {
    pub(super) fn new(
        params: &Map<String, Value>,
        fields_of_meta: Map<String, Value>,
        relay: Option<MessageSender>,
        owner: Option<Owner>,
    ) -> Passing {
        let (mut general, mut modern, mut capabilities) = (Map::new(), Map::new(), None);
        for (key, value) in fields_of_meta {
            match key.strip_prefix(meta::PREFIX) {
                // pml speaks for itself.
                Some("protocolVersion" | "clientInfo") => {}
                Some("clientCapabilities") => capabilities = Some(value.to_string()).filter(|_| value.is_object()),
                Some("logLevel") => drop(modern.insert(key, value)),
                _ if key == "progressToken" => {}
                _ => drop(general.insert(key, value)),
            }
        }
        let (params, meta, modern_meta) = (fields(params), fields(&general), fields(&modern));
        Passing { params, meta, modern_meta, capabilities, relay, owner }
    }

    /// Nothing of a client's, but capabilities of pml's own.
    fn declaring(capabilities: &str) -> Passing {
        let (params, meta, modern_meta) = (String::new(), String::new(), String::new());
        Passing { params, meta, modern_meta, capabilities: Some(capabilities.to_owned()), relay: None, owner: None }
    }
}

/// The text of an object without its braces, with a comma behind it.
fn fields(object: &Map<String, Value>) -> String {
    let mut text = String::new();
    for (key, value) in object {
        // Writing to a String cannot fail.
        let _ = write!(text, "{}:{value},", Value::from(key.as_str()));
    }
    text
}

impl<'a> Request<'a> {
    pub(super) fn new(method: &'a str, bound: Duration) -> Request<'a> {
        let (params, headers) = (Vec::new(), Vec::new());
        let (arguments, name, traceparent, passing) = (None, None, None, None);
        let (acknowledged, following) = (None, None);
        let (idle, total) = (bound, bound);
        let is_task = false;
        Request {
            method,
            params,
            arguments,
            name,
            traceparent,
            headers,
            idle,
            total,
            is_task,
            passing,
            acknowledged,
            following,
        }
    }

    /// About how long the message is.
    fn bytes(&self) -> usize {
        let params: usize = self.params.iter().map(|(key, value)| key.len() + value.len() + 4).sum();
        let arguments = self.arguments.as_ref().map_or(0, |arguments| arguments.get().len());
        params + arguments + self.passing.as_ref().map_or(0, |passing| passing.params.len() + passing.meta.len())
    }

    /// The text of the message. A large message is put together on another thread.
    async fn message(&self, version: Version, id: u64) -> Line {
        let bytes = self.bytes();
        if bytes <= AT_ONCE_BYTES {
            return request_body(version, id, self);
        }
        let owned = Request {
            method: "",
            params: self.params.iter().map(|(key, value)| (*key, Cow::Owned(value.clone().into_owned()))).collect(),
            arguments: self.arguments.clone(),
            name: None,
            traceparent: self.traceparent.clone(),
            headers: Vec::new(),
            passing: self.passing.clone(),
            acknowledged: None,
            following: None,
            ..*self
        };
        let method = self.method.to_owned();
        work::elsewhere(move |_| request_body(version, id, &Request { method: &method, ..owned })).await
    }

    #[must_use]
    pub(super) fn with(mut self, key: &'static str, json: impl Into<Cow<'a, str>>) -> Request<'a> {
        self.params.push((key, json.into()));
        self
    }
}

/// Sends `notifications/cancelled` if the request is given up before its answer, unless the request never left.
struct CancelOnDrop<'a> {
    link: &'a Link,
    manner: &'a Manner,
    id: u64,
    departure: &'a Departure,
    is_armed: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        // In the modern era over HTTP, closing the exchange cancels the request.
        let is_told = self.manner.version.era() == Era::Modern && self.link.cancels_by_closing();
        if self.is_armed && !is_told && !self.departure.withdraw() {
            tell(self.link, self.manner, method::CANCELLED, &[("requestId", self.id.to_string().into())]);
        }
    }
}

/// Sends a request over a link and waits, bounded by the request's timeouts. A failure says whether the request may have
/// had an effect.
pub(super) async fn ask(link: &Link, manner: &Manner, request: &Request<'_>) -> Answer {
    ask_in(link, manner, request, None).await
}

/// Sends the request that begins a session, whose id goes to `slot`.
pub(super) async fn ask_for_session(link: &Link, request: &Request<'_>, slot: SessionSlot) -> Answer {
    ask_in(link, &Manner::new(Version::NEWEST_LEGACY), request, Some(slot)).await
}

async fn ask_in(link: &Link, manner: &Manner, request: &Request<'_>, begins: Option<SessionSlot>) -> Answer {
    let id = link.next_id();
    let mut waiting = match (&request.passing, &request.acknowledged) {
        (None, None) => link.inbox.requests.register(id, Patience::Call, request.idle)?,
        (Some(passing), _) => {
            let (relay, owner) = (passing.relay.clone(), passing.owner.clone());
            link.inbox.requests.register_forwarded(id, request.idle, relay, owner)?
        }
        (None, Some(acknowledged)) => {
            link.inbox.requests.register_subscription(id, request.idle, acknowledged.clone())?
        }
    };
    if let Some(Following { sender, followed }) = &request.following {
        let guard = link.inbox.requests.follow(id, sender.clone());
        *followed.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
    }
    let begun = Instant::now();
    let last = begun + request.total;
    let mut until = (begun + request.idle).min(last);
    let departure = Departure::default();
    let message = Outgoing {
        body: request.message(manner.version, id).await,
        id: Some(id),
        headers: Headers { arguments: request.headers.clone(), ..manner.headers(request.method, request.name) },
        departure: departure.clone(),
        begins,
    };
    // A request that was given up before it left had no effect, and has none later.
    let judged = |failure: Failure| if departure.withdraw() { failure.unsent() } else { failure };
    // The beginning of a session is not cancelled, says the protocol.
    let is_armed = request.method != method::INITIALIZE;
    let mut cancel = CancelOnDrop { link, manner, id, departure: &departure, is_armed };
    // A server that reads nothing must not stop the clock. Kept until the answer is there.
    let mut exchange = None;
    let mut send = std::pin::pin!(link.send(message));
    let is_relayed = request.passing.is_some();
    loop {
        // Whoever waits for a person is not idle.
        let until_now = if is_relayed && waiting.asks.are_open() { last } else { until };
        tokio::select! {
            biased;
            answer = &mut waiting.answer => {
                cancel.is_armed = false;
                let answer = answer.unwrap_or_else(|_| Err(Failure::later("the connection is closed").uncertain()));
                return match answer.map_err(judged)? {
                    // The result was kept whole for the sake of another request.
                    Ok(payload) if payload.is_whole() && !is_relayed => Ok(Ok(take_apart(payload).await)),
                    answer => Ok(answer),
                };
            }
            sent = &mut send, if exchange.is_none() => exchange = Some(sent),
            () = waiting.progress.notified() => until = (Instant::now() + request.idle).min(last),
            () = waiting.asks.turn(), if is_relayed => until = (Instant::now() + request.idle).min(last),
            () = sleep_until(until_now) => {
                let message = match until_now == last && request.total != request.idle {
                    true => format!("no answer within {:?} in all", request.total),
                    false => format!("no answer within {:?}", request.idle),
                };
                return Err(judged(timed_out(message)));
            }
        }
    }
}

/// Takes a whole result apart.
async fn take_apart(payload: Payload) -> Payload {
    work::sized(payload.bytes(), |_| payload.into_parts()).await
}

pub(super) fn timed_out(message: String) -> Failure {
    Failure::new(ErrorCode::ProviderTimeout, message, Retry::Later)
}

/// Says that the session has begun, and waits until that is said: what comes next must not overtake it.
pub(super) async fn initialized(link: &Link, manner: &Manner) {
    let body = body(manner.version, None, method::INITIALIZED, &[], None, None);
    link.deliver(Outgoing::telling(body, manner.headers(method::INITIALIZED, None))).await;
}

/// Sends a notification, if there is room for it.
pub(super) fn tell(link: &Link, manner: &Manner, method: &'static str, params: &[(&str, Cow<'_, str>)]) {
    link.tell(body(manner.version, None, method, params, None, None), manner.headers(method, None));
}

pub(super) fn client_info() -> String {
    format!(r#"{{"name":"pml","version":"{}"}}"#, env!("CARGO_PKG_VERSION"))
}

fn request_body(version: Version, id: u64, request: &Request<'_>) -> Line {
    let Request { method, params, arguments, traceparent, passing, is_task, .. } = request;
    let arguments = arguments.as_ref().map(|arguments| ("arguments", Cow::Borrowed(arguments.get())));
    let borrowed = params.iter().map(|(key, value)| (*key, Cow::Borrowed(&**value)));
    let params: Vec<_> = borrowed.chain(arguments).collect();
    let declaring = is_task.then(|| Passing::declaring(TASKS));
    body(version, Some(id), method, &params, traceparent.as_deref(), passing.as_deref().or(declaring.as_ref()))
}

/// The text of a message. Parameters are not parsed, since they may be large, and may be text of another server.
fn body(
    version: Version,
    id: Option<u64>,
    method: &str,
    params: &[(&str, Cow<'_, str>)],
    traceparent: Option<&str>,
    passing: Option<&Passing>,
) -> Line {
    let size: usize = params.iter().map(|(key, value)| key.len() + value.len() + 4).sum();
    let size = size + passing.map_or(0, |passing| passing.params.len() + passing.meta.len());
    let mut text = String::with_capacity(size + 400);
    text.push_str(r#"{"jsonrpc":"2.0""#);
    // Writing to a String cannot fail.
    if let Some(id) = id {
        let _ = write!(text, r#","id":{id}"#);
    }
    let _ = write!(text, r#","method":"{method}","params":{{"#);
    for (key, value) in params {
        let _ = write!(text, r#""{key}":{value},"#);
    }
    text.push_str(passing.map_or("", |passing| &passing.params));
    text.push_str(r#""_meta":{"#);
    if let Some(id) = id {
        let _ = write!(text, r#""progressToken":{id},"#);
    }
    if let Some(traceparent) = traceparent {
        let _ = write!(text, r#""traceparent":"{traceparent}","#);
    }
    text.push_str(passing.map_or("", |passing| &passing.meta));
    if version.era() == Era::Modern {
        text.push_str(passing.map_or("", |passing| &passing.modern_meta));
        let _ = write!(
            text,
            r#""{}":"{}","{}":{},"{}":{},"#,
            meta::VERSION,
            version.as_str(),
            meta::CAPABILITIES,
            passing.and_then(|passing| passing.capabilities.as_deref()).unwrap_or("{}"),
            meta::CLIENT,
            client_info()
        );
    }
    if text.ends_with(',') {
        text.pop();
    }
    text.push_str("}}}");
    Line::new(text)
}

/// What a JSON-RPC error means for a call.
pub(super) fn from_rpc(error: RpcError) -> Failure {
    let (message, RpcError { code, data, .. }) = (error.shown(), error);
    if code == BROKEN {
        return Failure::protocol(format!("the server's answer is broken: {message}"));
    }
    let data = match data {
        Some(data) => serde_json::json!({ "rpc_code": code, "data": data }),
        None => serde_json::json!({ "rpc_code": code }),
    };
    Failure { data: Some(data), ..Failure::new(ErrorCode::ToolError, message, Retry::Later) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::MODERN;

    #[test]
    fn messages_are_written_for_their_era() {
        let params = [("name", Cow::Borrowed("\"echo\"")), ("arguments", Cow::Borrowed("{\"a\":1}"))];
        let legacy = body(Version::NEWEST_LEGACY, Some(7), "tools/call", &params, Some("00-a-b-01"), None);
        let value: serde_json::Value = serde_json::from_str(legacy.as_str()).unwrap();
        assert_eq!(value["params"]["arguments"]["a"], 1);
        assert_eq!(value["params"]["_meta"], serde_json::json!({"progressToken": 7, "traceparent": "00-a-b-01"}));
        let modern: serde_json::Value =
            serde_json::from_str(body(Version::MODERN, None, "x", &[], None, None).as_str()).unwrap();
        assert_eq!(modern.get("id"), None);
        assert_eq!(modern["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], MODERN);
        let empty: serde_json::Value =
            serde_json::from_str(body(Version::NEWEST_LEGACY, None, "x", &[], None, None).as_str()).unwrap();
        assert_eq!(empty["params"]["_meta"], serde_json::json!({}));
    }

    #[test]
    fn what_is_passed_on_keeps_its_fields_and_pml_speaks_for_itself() {
        let object = |value: Value| value.as_object().cloned().unwrap();
        let params = object(serde_json::json!({"a\"b": [1], "name": "x"}));
        let meta = object(serde_json::json!({
            "progressToken": "theirs",
            "traceparent": "00-a-b-01",
            "vendor/key": {"x": null},
            "io.modelcontextprotocol/protocolVersion": "1999-01-01",
            "io.modelcontextprotocol/clientInfo": {"name": "client"},
            "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
            "io.modelcontextprotocol/logLevel": "debug",
        }));
        let request = Request {
            passing: Some(Arc::new(Passing::new(&params, meta, None, None))),
            ..Request::new("x/y", Duration::ZERO)
        };
        let legacy: Value = serde_json::from_str(request_body(Version::NEWEST_LEGACY, 7, &request).as_str()).unwrap();
        let expected = serde_json::json!({
            "a\"b": [1],
            "name": "x",
            "_meta": {"progressToken": 7, "traceparent": "00-a-b-01", "vendor/key": {"x": null}},
        });
        assert_eq!((&legacy["method"], &legacy["params"]), (&"x/y".into(), &expected));
        let modern: Value = serde_json::from_str(request_body(Version::MODERN, 7, &request).as_str()).unwrap();
        let meta = &modern["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], serde_json::json!({"roots": {}}));
        assert_eq!(meta["io.modelcontextprotocol/logLevel"], "debug");
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], MODERN);
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "pml");
        assert_eq!((&meta["progressToken"], &meta["vendor/key"]["x"]), (&7.into(), &Value::Null));
    }
}
