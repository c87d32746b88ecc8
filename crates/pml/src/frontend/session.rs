//! The state of one client between its requests, and the channel for messages to it.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use pml_wire::{Line, ToolId, trace};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{
    bulletin::Bulletin,
    results::Caller,
    rpc::{self, Era},
    shares::Client,
    watches::Watches,
};
use crate::{trace::Context, upstream::RpcError};

/// Capacity of the queue of messages to a client. When it is full, notifications are dropped and responses wait.
pub(super) const OUTLET: usize = 256;
/// Longest notification; longer ones are dropped. Each request may queue up to [`OUTLET`] of them.
const MAX_NOTE_BYTES: usize = 64 * 1024;
/// Longest progress token, since every progress notification repeats it.
const MAX_TOKEN_BYTES: usize = 1024;
/// Largest `capabilities` of a client.
const MAX_CAPABILITIES_BYTES: usize = 16 * 1024;
/// Most open requests of pml to one client.
const MAX_ASKS: usize = 64;
/// Most names that are remembered of what one client has been told.
const MAX_TOLD: usize = 10_000;
/// The caller on standard input.
pub(super) const STDIO: &str = "stdio";
/// The client wants no logs.
const SILENT: usize = usize::MAX;

/// The severities of the protocol, from the least to the worst.
pub(super) const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// One client: on stdin, of a session over HTTP, or, in the modern era over HTTP, of a single
/// request.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) caller: Caller,
    /// The identity under which shared resources are divided.
    pub(super) client: Client,
    /// The negotiated protocol version and the client's name.
    introduction: Mutex<(Option<&'static str>, Option<trace::Client>)>,
    /// The capabilities that the client declared when the session began.
    capabilities: Mutex<Value>,
    /// The lowest log level that the client wants, as an index into [`LEVELS`].
    log_level: AtomicUsize,
    /// Requests in flight, by the text of their ids.
    in_flight: Mutex<HashMap<String, CancellationToken>>,
    /// Open requests of pml to the client.
    asked: Mutex<HashMap<String, oneshot::Sender<Result<Value, RpcError>>>>,
    next_ask: AtomicU64,
    /// Changed tools that the client has been told of.
    told_changes: Mutex<HashSet<ToolId>>,
    /// Servers whose instructions the client has received.
    told_introductions: Mutex<HashSet<String>>,
    /// Sets of tools for which the client has received a proposal to save a capability.
    told_proposals: Mutex<HashSet<String>>,
    /// Resources that the client has subscribed to.
    pub(super) watches: Arc<Watches>,
    /// Pending notifications about changed lists and resources, from the beginning of the session on, whether or not the client has
    /// opened a stream for them.
    pub(super) bulletin: OnceLock<Arc<Bulletin>>,
    /// Cancelled when the client has sent `notifications/initialized`: before, it gets no unsolicited message.
    pub(super) initialized: CancellationToken,
    /// Ends the latest stream for messages that belong to no request; cancelled when that stream has ended.
    last_stream: Mutex<Option<CancellationToken>>,
    /// Cancelled when the client disconnects; stops all work for the client.
    pub(super) gone: CancellationToken,
}

/// A request in flight. Dropping it removes the request from the session.
#[derive(Debug)]
pub(super) struct InFlight {
    session: Arc<Session>,
    id: String,
    pub(super) cancel: CancellationToken,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        lock(&self.session.in_flight).remove(&self.id);
        self.cancel.cancel();
    }
}

/// The context of one request.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// The id of the request.
    pub(super) id: Value,
    pub(super) session: Arc<Session>,
    pub(super) era: Era,
    /// The capabilities of the client.
    pub(super) capabilities: Value,
    pub(super) meta: Map<String, Value>,
    /// The queue for messages about this request.
    pub(super) outlet: mpsc::Sender<Line>,
    /// Does the client accept notifications before the response?
    pub(super) streams: bool,
    /// Cancelled when the client no longer waits for the response.
    pub(super) cancel: CancellationToken,
}

/// Remembers that the client was told about a name. When the set is full it is cleared: a repeated message is better than
/// unbounded memory.
fn is_first<T: Eq + std::hash::Hash>(told: &Mutex<HashSet<T>>, what: T) -> bool {
    let mut told = lock(told);
    if told.len() >= MAX_TOLD {
        told.clear();
    }
    told.insert(what)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    pub(super) fn new(caller: Caller, client: Client, gone: CancellationToken) -> Arc<Session> {
        Arc::new(Session {
            caller,
            client,
            introduction: Mutex::default(),
            capabilities: Mutex::new(json!({})),
            log_level: AtomicUsize::new(SILENT),
            in_flight: Mutex::default(),
            asked: Mutex::default(),
            next_ask: AtomicU64::new(1),
            told_changes: Mutex::default(),
            told_introductions: Mutex::default(),
            told_proposals: Mutex::default(),
            watches: Arc::default(),
            bulletin: OnceLock::new(),
            initialized: CancellationToken::new(),
            last_stream: Mutex::default(),
            gone,
        })
    }

    /// Stores the negotiated protocol version and the client's name.
    pub(super) fn introduce(&self, version: &'static str, client: Option<trace::Client>) {
        *lock(&self.introduction) = (Some(version), client);
    }

    /// May the client send batches?
    pub(super) fn has_batches(&self) -> bool {
        lock(&self.introduction).0 == Some(rpc::WITH_BATCHES)
    }

    /// Stores the client's capabilities, unless they are too large.
    pub(super) fn set_capabilities(&self, capabilities: Value) {
        let is_sensible = capabilities.to_string().len() <= MAX_CAPABILITIES_BYTES;
        *lock(&self.capabilities) = if is_sensible { capabilities } else { json!({}) };
    }

    pub(super) fn capabilities(&self) -> Value {
        lock(&self.capabilities).clone()
    }

    pub(super) fn set_log_level(&self, level: usize) {
        self.log_level.store(level, Ordering::Relaxed);
    }

    pub(super) fn log_level(&self) -> Option<usize> {
        Some(self.log_level.load(Ordering::Relaxed)).filter(|level| *level != SILENT)
    }

    /// Is this the first time that the client is told of a changed tool?
    pub(super) fn tells_change(&self, tool: &ToolId) -> bool {
        is_first(&self.told_changes, tool.clone())
    }

    /// Should the client get a proposal to save programs with these tools? Only once per set of tools.
    pub(super) fn tells_proposal(&self, tools: &str) -> bool {
        is_first(&self.told_proposals, tools.to_owned())
    }

    /// Is this the first time that the client gets the instructions of a server?
    pub(super) fn tells_introduction(&self, server: &str) -> bool {
        is_first(&self.told_introductions, server.to_owned())
    }

    /// Registers a request; `None` if a request with that id is in flight.
    pub(super) fn begin(self: &Arc<Self>, id: &Value) -> Option<InFlight> {
        let id = id.to_string();
        let cancel = self.gone.child_token();
        let mut in_flight = lock(&self.in_flight);
        if in_flight.contains_key(&id) {
            return None;
        }
        in_flight.insert(id.clone(), cancel.clone());
        drop(in_flight);
        Some(InFlight { session: Arc::clone(self), id, cancel })
    }

    /// Cancels a request. An unknown request has already ended.
    pub(super) fn cancel(&self, id: &Value) {
        if let Some(cancel) = lock(&self.in_flight).get(&id.to_string()) {
            cancel.cancel();
        }
    }

    /// Is a request of the client in flight?
    pub(super) fn is_busy(&self) -> bool {
        !lock(&self.in_flight).is_empty()
            || lock(&self.last_stream).as_ref().is_some_and(|stream| !stream.is_cancelled())
    }

    /// The token of a new stream, which replaces the previous one: each message goes to one stream only.
    pub(super) fn replace_stream(&self) -> CancellationToken {
        let end = self.gone.child_token();
        if let Some(before) = lock(&self.last_stream).replace(end.clone()) {
            before.cancel();
        }
        end
    }

    /// Delivers the client's response to a request of pml.
    pub(super) fn answered(&self, id: &Value, outcome: Result<Value, RpcError>) {
        let asked = id.as_str().and_then(|id| lock(&self.asked).remove(id));
        match asked {
            // The request may have been cancelled.
            Some(waiting) => drop(waiting.send(outcome)),
            None => tracing::debug!("a client answered what it was not asked"),
        }
    }
}

impl Scope {
    /// The context of an execution that this request asks for.
    pub(super) fn context(&self, entry: trace::Entry) -> Context {
        let (version, client) = match self.era {
            Era::Legacy => lock(&self.session.introduction).clone(),
            Era::Modern => (Some(rpc::MODERN), self.meta.get(rpc::CLIENT_KEY).and_then(client_of)),
        };
        // There is only one client on stdin, and its name is more useful than `stdio`.
        let caller = match (&*self.session.caller.0, &client) {
            (STDIO, Some(client)) => client.name.as_str().into(),
            _ => Arc::clone(&self.session.caller.0),
        };
        let traceparent = self.meta.get("traceparent").and_then(Value::as_str);
        let mut context = Context::new(entry, caller).with_client(client).with_traceparent(traceparent);
        (context.era, context.session) = (version, Some(Arc::clone(&self.session.caller.0)));
        context
    }

    /// Queues a notification about this request, or drops it if the queue is full.
    pub(super) fn notify(&self, method: &str, params: Value) -> bool {
        let message = rpc::notification(method, params);
        message.as_str().len() <= MAX_NOTE_BYTES && self.outlet.try_send(message).is_ok()
    }

    /// The progress token of this request, if the client wants progress.
    pub(super) fn progress_token(&self) -> Option<&Value> {
        self.meta.get("progressToken").filter(|token| match token {
            Value::String(text) => text.len() <= MAX_TOKEN_BYTES,
            token => token.is_number(),
        })
    }

    /// The lowest log level that the client wants, as an index into [`LEVELS`].
    pub(super) fn log_level(&self) -> Option<usize> {
        match self.era {
            Era::Legacy => self.session.log_level(),
            Era::Modern => level(self.meta.get(rpc::LOG_LEVEL_KEY)?.as_str()?),
        }
    }

    /// Sends a request to the client, which must be of the legacy era, and waits for its response.
    pub(super) async fn ask(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        if !self.streams {
            return Err(rpc::error(rpc::METHOD_NOT_FOUND, "the client takes nothing but answers"));
        }
        let session = &self.session;
        let id = format!("pml-{}", session.next_ask.fetch_add(1, Ordering::Relaxed));
        let (sender, answer) = oneshot::channel();
        {
            let mut asked = lock(&session.asked);
            asked.retain(|_, waiting| !waiting.is_closed());
            if asked.len() >= MAX_ASKS {
                return Err(rpc::error(rpc::INTERNAL_ERROR, "the client is asked too much at the same time"));
            }
            asked.insert(id.clone(), sender);
        }
        let message = Line::of(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let outcome = async {
            self.outlet.send(message).await.ok()?;
            answer.await.ok()
        };
        let outcome = tokio::select! {
            outcome = outcome => outcome,
            () = self.cancel.cancelled() => None,
        };
        lock(&session.asked).remove(&id);
        outcome.unwrap_or_else(|| Err(rpc::error(rpc::INTERNAL_ERROR, "the client is gone")))
    }
}

/// The `clientInfo` of a client.
pub(super) fn client_of(info: &Value) -> Option<trace::Client> {
    let text = |key: &str| info.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(trace::Client { name: text("name").filter(|name| !name.is_empty())?, version: text("version") })
}

/// The index of a log level.
pub(super) fn level(name: &str) -> Option<usize> {
    LEVELS.iter().position(|level| *level == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_served_once_at_a_time_and_can_be_cancelled() {
        let session = Session::new(Caller::new("me"), Client::only(), CancellationToken::new());
        let first = session.begin(&json!(1)).unwrap();
        assert!(session.begin(&json!(1)).is_none(), "an id is used once at a time");
        let text = session.begin(&json!("1")).expect("a text is another id than a number");
        session.cancel(&json!(1));
        assert!(first.cancel.is_cancelled() && !text.cancel.is_cancelled());
        session.cancel(&json!(99));
        drop(first);
        assert!(session.begin(&json!(1)).is_some());
        session.gone.cancel();
        assert!(text.cancel.is_cancelled());
    }

    #[tokio::test]
    async fn what_is_asked_is_answered_once() {
        let session = Session::new(Caller::new("me"), Client::only(), CancellationToken::new());
        let (outlet, mut sent) = mpsc::channel(4);
        let scope = Scope {
            id: json!(1),
            session: Arc::clone(&session),
            era: Era::Legacy,
            capabilities: json!({}),
            meta: Map::new(),
            outlet,
            streams: true,
            cancel: session.gone.child_token(),
        };
        let client = async {
            let asked: Value = serde_json::from_str(sent.recv().await.unwrap().as_str()).unwrap();
            assert_eq!(asked["method"], "roots/list");
            session.answered(&json!("other"), Ok(json!(0)));
            session.answered(&asked["id"], Ok(json!({ "roots": [] })));
            session.answered(&asked["id"], Ok(json!("twice")));
        };
        let (answer, ()) = tokio::join!(scope.ask("roots/list", json!({})), client);
        assert_eq!(answer.unwrap(), json!({ "roots": [] }));
        session.gone.cancel();
        assert_eq!(scope.ask("roots/list", json!({})).await.unwrap_err().code, rpc::INTERNAL_ERROR);
        assert!(lock(&session.asked).is_empty());
    }
}
