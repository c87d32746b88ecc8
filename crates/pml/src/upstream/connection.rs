//! A connection that speaks MCP, in either era; [`super::handshake`] makes one.

use std::{
    borrow::Cow,
    fmt::Write as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use pml_wire::{ErrorCode, Line};
use serde_json::{Map, Value, value::RawValue};
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, sleep_until, timeout},
};

use tokio_util::task::TaskTracker;

use super::{
    codec::{BROKEN, Payload, RpcError},
    failure::{Failure, Retry},
    handshake,
    inbox::{Answer, Patience},
    news::News,
    oauth::Remote,
    process::LastWords,
    relay::{Owner, SaidSender},
    settings::Settings,
    transport::{Headers, Link, Outgoing, SessionStep},
};
use crate::{
    catalog::Declared,
    room::Room,
    work::{self, AT_ONCE_BYTES},
};

/// The version of the new era.
pub(super) const MODERN: &str = "2026-07-28";
/// The versions of the earlier era, newest first.
pub(super) const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The first request after the handshake, which may have taken two ids.
const FIRST_ID: u64 = 2;

/// What a request's own timeouts may take to notice.
const SLACK: Duration = Duration::from_millis(500);

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    /// `initialize`, then a session, in one of [`LEGACY`].
    Legacy(&'static str),
    /// Each request stands for itself, in [`MODERN`].
    Modern,
}

impl Era {
    pub(super) fn version(self) -> &'static str {
        match self {
            Era::Legacy(version) => version,
            Era::Modern => MODERN,
        }
    }

    /// The era that a version belongs to.
    pub(super) fn of(version: &str) -> Option<Era> {
        match version {
            MODERN => Some(Era::Modern),
            _ => LEGACY.into_iter().find(|known| *known == version).map(Era::Legacy),
        }
    }
}

/// What is needed to reach servers, whichever they are.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    /// pml itself, which keeps the processes of servers.
    pub(super) pml: Arc<Path>,
    /// For remote servers, if there are any.
    pub(super) remote: Option<Remote>,
    pub(super) news: Arc<News>,
    pub(super) room: Room,
    /// Everything that must have ended before the server has.
    pub(super) lives: TaskTracker,
}

/// A server that has agreed on a version.
#[derive(Debug)]
pub(super) struct Connection {
    link: Link,
    era: Era,
    next_id: AtomicU64,
    /// What the server calls itself.
    pub(super) server: String,
    /// The server says when its tools change.
    pub(super) tells_changes: bool,
    pub(super) declared: Arc<Declared>,
    /// A client can be asked, so the server was told.
    relays: bool,
    /// Held while a forgotten session is replaced; counts the replacements.
    sessions: Mutex<u64>,
    /// The same count, for whoever has to say again what the session was told.
    renewals: watch::Sender<u64>,
}

/// A request to be made.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    /// Parameters, each as JSON text.
    pub(super) params: Vec<(&'static str, Cow<'a, str>)>,
    /// The arguments of a call, which may be large.
    pub(super) arguments: Option<Arc<Box<RawValue>>>,
    /// What the request is about, for HTTP.
    pub(super) name: Option<&'a str>,
    pub(super) traceparent: Option<String>,
    /// Arguments that also go into headers, where there are any.
    pub(super) headers: Vec<(String, String)>,
    /// Longest silence; progress ends it.
    pub(super) idle: Duration,
    pub(super) total: Duration,
    /// Is it answered with a task, see [`tasks`](super::tasks)?
    pub(super) is_task: bool,
    /// What it has besides, if it is passed on for a client.
    pub(super) passing: Option<Arc<Passing>>,
    /// Makes it a subscription, and hears what the server honours of it.
    pub(super) acknowledged: Option<watch::Sender<Option<Box<RawValue>>>>,
}

/// A client's part of a request that is passed on. The texts are the fields of JSON objects.
#[derive(Debug)]
pub(super) struct Passing {
    params: String,
    meta: String,
    /// What only a server of the new era is told with each request.
    modern_meta: String,
    capabilities: Option<String>,
    relay: Option<SaidSender>,
    owner: Option<Owner>,
}

const META: &str = "io.modelcontextprotocol/";
const INITIALIZED: &str = "notifications/initialized";

impl Passing {
    pub(super) fn new(
        params: &Map<String, Value>,
        meta: Map<String, Value>,
        relay: Option<SaidSender>,
        owner: Option<Owner>,
    ) -> Passing {
        let (mut general, mut modern, mut capabilities) = (Map::new(), Map::new(), None);
        for (key, value) in meta {
            match key.strip_prefix(META) {
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
        let (arguments, name, traceparent, passing, acknowledged) = (None, None, None, None, None);
        let (idle, total) = (bound, bound);
        let is_task = false;
        Request { method, params, arguments, name, traceparent, headers, idle, total, is_task, passing, acknowledged }
    }

    /// How long its message is, about.
    fn bytes(&self) -> usize {
        let params: usize = self.params.iter().map(|(key, value)| key.len() + value.len() + 4).sum();
        let arguments = self.arguments.as_ref().map_or(0, |arguments| arguments.get().len());
        params + arguments + self.passing.as_ref().map_or(0, |passing| passing.params.len() + passing.meta.len())
    }

    /// The message. A large one is written elsewhere.
    async fn message(&self, era: Era, id: u64) -> Line {
        let bytes = self.bytes();
        if bytes <= AT_ONCE_BYTES {
            return request_body(era, id, self);
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
            ..*self
        };
        let method = self.method.to_owned();
        work::elsewhere(move |_| request_body(era, id, &Request { method: &method, ..owned })).await
    }

    #[must_use]
    pub(super) fn with(mut self, key: &'static str, json: impl Into<Cow<'a, str>>) -> Request<'a> {
        self.params.push((key, json.into()));
        self
    }
}

/// Sends `notifications/cancelled` if the request is given up before its answer.
struct CancelOnDrop<'a> {
    link: &'a Link,
    era: Era,
    id: u64,
    is_armed: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        // Closing the exchange is enough where the new era speaks HTTP.
        if self.is_armed && !(self.era == Era::Modern && self.link.cancels_by_closing()) {
            let id = self.id;
            tell(self.link, self.era, "notifications/cancelled", &[("requestId", id.to_string().into())]);
        }
    }
}

impl Connection {
    /// A connection over a link on which both sides have agreed.
    pub(super) fn new(link: Link, era: Era, declared: Declared, relays: bool) -> Connection {
        let text = |key: &str| declared.info[key].as_str().unwrap_or_default().chars().take(100).collect::<String>();
        Connection {
            link,
            era,
            next_id: AtomicU64::new(FIRST_ID),
            server: format!("{} {}", text("name"), text("version")).trim().to_owned(),
            tells_changes: declared.capabilities["tools"]["listChanged"].as_bool().unwrap_or(false),
            declared: Arc::new(declared),
            relays,
            sessions: Mutex::new(0),
            renewals: watch::Sender::new(0),
        }
    }

    /// The same, without the server's secrets in what it says about itself.
    pub(super) fn masked(mut self, settings: &Settings) -> Connection {
        self.server = settings.mask(self.server);
        self.declared = Arc::new(settings.mask_declared(Arc::unwrap_or_clone(self.declared)));
        self
    }

    pub(super) fn era(&self) -> Era {
        self.era
    }

    pub(super) fn transport(&self) -> &'static str {
        self.link.kind()
    }

    /// Do arguments that a tool wants in headers go there?
    pub(super) fn sends_arguments_in_headers(&self) -> bool {
        self.era == Era::Modern && self.link.kind() == "http"
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.link.pid
    }

    pub(super) fn last_words(&self) -> Arc<LastWords> {
        Arc::clone(&self.link.words)
    }

    pub(super) fn noise(&self) -> u64 {
        self.link.inbox.noise()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.link.inbox.dropped()
    }

    /// How often the session was replaced.
    pub(super) fn renewals(&self) -> watch::Receiver<u64> {
        self.renewals.subscribe()
    }

    /// Is the server at work, as far as can be known?
    pub(super) fn is_busy(&self) -> bool {
        self.link.inbox.is_busy()
    }

    /// Waits until the connection is gone. Why.
    pub(super) async fn closed(&self) -> Failure {
        self.link.inbox.closed().await
    }

    /// Closes it for a reason, and returns when nothing of it is left.
    pub(super) async fn close(&self, reason: Failure) {
        self.link.inbox.close(reason);
        if matches!(self.era, Era::Legacy(_)) {
            self.link.end_session().await;
        }
        self.link.close().await;
    }

    /// Makes a request and waits for its answer. A forgotten session is replaced, once. Dropping
    /// the future cancels the request.
    pub(super) async fn request(&self, request: &Request<'_>) -> Result<Payload, Failure> {
        self.exchange(request).await?.map_err(from_rpc)
    }

    /// The same, with the server's own error as it was sent.
    pub(super) async fn exchange(&self, request: &Request<'_>) -> Answer {
        let work = async {
            let session = *self.sessions.lock().await;
            match self.request_once(request).await {
                Err(failure) if failure.retry == Retry::NewSession => {
                    self.renew_session(session, request.idle).await?;
                    self.request_once(request).await
                }
                answer => answer,
            }
        };
        // Also if somebody else is at the session.
        match timeout(request.total + SLACK, work).await {
            Ok(answer) => answer,
            Err(_) => Err(timed_out(format!("no answer within {:?} in all", request.total))),
        }
    }

    async fn request_once(&self, request: &Request<'_>) -> Answer {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        ask(&self.link, self.era, id, request).await
    }

    /// Begins a new session, unless somebody has done so since `seen`. If that fails, the connection
    /// is of no use any more, and closed.
    async fn renew_session(&self, seen: u64, bound: Duration) -> Result<(), Failure> {
        let mut sessions = self.sessions.lock().await;
        if *sessions != seen {
            return Ok(());
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let answer = ask(&self.link, self.era, id, &handshake::initialize_request(bound, self.relays)).await;
        let agreed = answer.and_then(|answer| answer.map_err(from_rpc)).and_then(|p| handshake::legacy_era(&p));
        match agreed {
            Ok(era) => {
                initialized(&self.link, era).await;
                handshake::begin_listening(&self.link, era, self.relays).await;
                *sessions += 1;
                self.renewals.send_replace(*sessions);
                Ok(())
            }
            Err(failure) => {
                let failure = failure.within("the server has forgotten the session and begins no new one");
                self.link.inbox.close(failure.clone());
                Err(failure)
            }
        }
    }

    /// Is anybody there?
    pub(super) async fn ping(&self, bound: Duration) -> Result<(), Failure> {
        let method = match self.era {
            Era::Legacy(_) => "ping",
            Era::Modern => "server/discover",
        };
        match self.request(&Request::new(method, bound)).await {
            Ok(_) => Ok(()),
            // Any answer is a sign of life.
            Err(failure)
                if matches!(
                    failure.code,
                    ErrorCode::ToolError
                        | ErrorCode::ProviderProtocol
                        | ErrorCode::RateLimited
                        | ErrorCode::AuthRequired
                ) =>
            {
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }

    /// Says that a client's roots have changed. In the new era nobody is told.
    pub(super) fn roots_changed(&self) {
        if let Era::Legacy(_) = self.era {
            tell(&self.link, self.era, "notifications/roots/list_changed", &[]);
        }
    }

    /// Asks a server of the new era to say when something changes that `filter` names. Returns when it
    /// no longer does.
    pub(super) async fn subscribe(
        &self,
        filter: &str,
        acknowledged: watch::Sender<Option<Box<RawValue>>>,
    ) -> Result<(), Failure> {
        // Bounded by the connection's life, not by time: the answer is the end of the subscription.
        let ever = Duration::from_secs(60 * 60 * 24 * 365);
        let request = Request { acknowledged: Some(acknowledged), ..Request::new("subscriptions/listen", ever) };
        self.request_once(&request.with("notifications", filter)).await?.map(drop).map_err(from_rpc)
    }
}

/// Sends a request over a link and waits, bounded by its timeouts.
pub(super) async fn ask(link: &Link, era: Era, id: u64, request: &Request<'_>) -> Answer {
    let mut waiting = match (&request.passing, &request.acknowledged) {
        (None, None) => link.inbox.register(id, Patience::Call, request.idle)?,
        (Some(passing), _) => {
            let (relay, owner) = (passing.relay.clone(), passing.owner.clone());
            link.inbox.register_forwarded(id, request.idle, relay, owner)?
        }
        (None, Some(acknowledged)) => link.inbox.register_subscription(id, request.idle, acknowledged.clone())?,
    };
    let begun = Instant::now();
    let last = begun + request.total;
    let mut until = (begun + request.idle).min(last);
    let message = Outgoing {
        body: request.message(era, id).await,
        id: Some(id),
        headers: Headers { arguments: request.headers.clone(), ..headers(era, request.method, request.name) },
    };
    // The beginning of a session is not cancelled, says the protocol.
    let mut cancel = CancelOnDrop { link, era, id, is_armed: request.method != "initialize" };
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
                let answer = answer.unwrap_or_else(|_| Err(Failure::later("the connection is closed")))?;
                return match answer {
                    // It was kept whole for the sake of another request.
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
                return Err(timed_out(message));
            }
        }
    }
}

/// A result that is whole, in parts.
async fn take_apart(payload: Payload) -> Payload {
    work::sized(payload.bytes(), |_| payload.into_parts()).await
}

fn timed_out(message: String) -> Failure {
    Failure::new(ErrorCode::ProviderTimeout, message, Retry::Later)
}

/// Says that the session has begun, and waits until that is said: what comes next must not overtake it.
pub(super) async fn initialized(link: &Link, era: Era) {
    let method = INITIALIZED;
    let message =
        Outgoing { body: body(era, None, method, &[], None, None), id: None, headers: headers(era, method, None) };
    link.deliver(message).await;
}

/// Sends a notification, if there is room for it.
fn tell(link: &Link, era: Era, method: &'static str, params: &[(&str, Cow<'_, str>)]) {
    link.tell(body(era, None, method, params, None, None), headers(era, method, None));
}

fn headers(era: Era, method: &str, name: Option<&str>) -> Headers {
    match era {
        // The first message of a session is not in any version yet.
        Era::Legacy(_) if method == "initialize" => Headers { step: SessionStep::Begins, ..Headers::default() },
        Era::Legacy(version) => {
            let step = if method == INITIALIZED { SessionStep::Confirms } else { SessionStep::Within };
            Headers { version: Some(version), step, ..Headers::default() }
        }
        Era::Modern => Headers {
            version: Some(MODERN),
            method: Some(method.to_owned()),
            name: name.map(str::to_owned),
            ..Headers::default()
        },
    }
}

pub(super) fn client_info() -> String {
    format!(r#"{{"name":"pml","version":"{}"}}"#, env!("CARGO_PKG_VERSION"))
}

fn request_body(era: Era, id: u64, request: &Request<'_>) -> Line {
    let Request { method, params, arguments, traceparent, passing, .. } = request;
    let arguments = arguments.as_ref().map(|arguments| ("arguments", Cow::Borrowed(arguments.get())));
    let borrowed = params.iter().map(|(key, value)| (*key, Cow::Borrowed(&**value)));
    let params: Vec<_> = borrowed.chain(arguments).collect();
    body(era, Some(id), method, &params, traceparent.as_deref(), passing.as_deref())
}

/// The text of a message. Parameters are not parsed, since they may be large, and may be text of another server.
fn body(
    era: Era,
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
    if era == Era::Modern {
        text.push_str(passing.map_or("", |passing| &passing.modern_meta));
        let _ = write!(
            text,
            r#""{META}protocolVersion":"{MODERN}","{META}clientCapabilities":{},"{META}clientInfo":{},"#,
            passing.and_then(|passing| passing.capabilities.as_deref()).unwrap_or("{}"),
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

    #[test]
    fn messages_are_written_for_their_era() {
        let params = [("name", Cow::Borrowed("\"echo\"")), ("arguments", Cow::Borrowed("{\"a\":1}"))];
        let legacy = body(Era::Legacy(LEGACY[0]), Some(7), "tools/call", &params, Some("00-a-b-01"), None);
        let value: serde_json::Value = serde_json::from_str(legacy.as_str()).unwrap();
        assert_eq!(value["params"]["arguments"]["a"], 1);
        assert_eq!(value["params"]["_meta"], serde_json::json!({"progressToken": 7, "traceparent": "00-a-b-01"}));
        let modern: serde_json::Value =
            serde_json::from_str(body(Era::Modern, None, "x", &[], None, None).as_str()).unwrap();
        assert_eq!(modern.get("id"), None);
        assert_eq!(modern["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], MODERN);
        let empty: serde_json::Value =
            serde_json::from_str(body(Era::Legacy(""), None, "x", &[], None, None).as_str()).unwrap();
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
        let legacy: Value = serde_json::from_str(request_body(Era::Legacy(LEGACY[0]), 7, &request).as_str()).unwrap();
        let expected = serde_json::json!({
            "a\"b": [1],
            "name": "x",
            "_meta": {"progressToken": 7, "traceparent": "00-a-b-01", "vendor/key": {"x": null}},
        });
        assert_eq!((&legacy["method"], &legacy["params"]), (&"x/y".into(), &expected));
        let modern: Value = serde_json::from_str(request_body(Era::Modern, 7, &request).as_str()).unwrap();
        let meta = &modern["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], serde_json::json!({"roots": {}}));
        assert_eq!(meta["io.modelcontextprotocol/logLevel"], "debug");
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], MODERN);
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "pml");
        assert_eq!((&meta["progressToken"], &meta["vendor/key"]["x"]), (&7.into(), &Value::Null));
    }

    #[test]
    fn versions_belong_to_eras() {
        assert_eq!(Era::of("2026-07-28"), Some(Era::Modern));
        assert_eq!(Era::of("2024-11-05"), Some(Era::Legacy("2024-11-05")));
        assert_eq!(Era::of("1999-01-01"), None);
    }
}
