//! A connection that speaks MCP, in either era; created by `handshake`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use pml_wire::ErrorCode;
use serde_json::value::RawValue;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    exchange::{Request, ask, from_rpc, tell, timed_out},
    failure::{Failure, Retry, stopped},
    payload::Payload,
    pending::Answer,
    process::LastWords,
    session::{Session, Sessions},
    settings::Settings,
    transport::Link,
};
use crate::{
    catalog::Declared,
    protocol::{
        Era, Version,
        code::{INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND},
        method,
    },
};

/// Grace beyond a request's own timeouts.
const SLACK: Duration = Duration::from_millis(500);
/// Interval at which an abandoned connection checks whether its requests in flight have ended.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// A connection to a server, with a negotiated protocol version.
#[derive(Debug)]
pub(super) struct Connection {
    sessions: Arc<Sessions>,
    version: Version,
    /// The name and version that the server declares.
    pub(super) server: String,
    /// The server declares that it sends `tools/list_changed`.
    pub(super) tells_changes: bool,
    pub(super) declared: Arc<Declared>,
    /// Whether a call has succeeded over this connection.
    has_answered: AtomicBool,
    /// Cancelled when no new request may use this connection.
    left: CancellationToken,
    why_left: std::sync::OnceLock<Failure>,
}

impl Connection {
    /// A connection over a negotiated link. With `relays`, the server may send requests to a client.
    pub(super) fn new(link: Link, session: Session, declared: Declared, relays: bool) -> Connection {
        let text = |key: &str| declared.info[key].as_str().unwrap_or_default().chars().take(100).collect::<String>();
        Connection {
            version: session.manner.version,
            sessions: Sessions::new(link, session, relays),
            server: format!("{} {}", text("name"), text("version")).trim().to_owned(),
            tells_changes: declared.capabilities["tools"]["listChanged"].as_bool().unwrap_or(false),
            declared: Arc::new(declared),
            has_answered: AtomicBool::new(false),
            left: CancellationToken::new(),
            why_left: std::sync::OnceLock::new(),
        }
    }

    /// The same connection, with the server's secrets masked in its declaration.
    pub(super) fn masked(mut self, settings: &Settings) -> Connection {
        self.server = settings.mask(self.server);
        self.declared = Arc::new(settings.mask_declared(Arc::unwrap_or_clone(self.declared)));
        self
    }

    fn link(&self) -> &Link {
        self.sessions.link()
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    pub(super) fn transport(&self) -> &'static str {
        self.link().kind()
    }

    /// Does the transport send arguments in headers, for tools that ask for it?
    pub(super) fn sends_arguments_in_headers(&self) -> bool {
        self.version.era() == Era::Modern && self.link().kind() == "http"
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.link().pid
    }

    pub(super) fn last_words(&self) -> Arc<LastWords> {
        Arc::clone(&self.link().words)
    }

    pub(super) fn noise(&self) -> u64 {
        self.link().inbox.noise()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.link().inbox.dropped()
    }

    /// Receives each session that replaces another: the server has lost the state of the previous session.
    pub(super) fn sessions(&self) -> watch::Receiver<Arc<Session>> {
        self.sessions.watch()
    }

    /// Does the server respond, as far as is known?
    pub(super) fn is_busy(&self) -> bool {
        self.link().inbox.is_busy()
    }

    /// Records that a call succeeded: the server works.
    pub(super) fn note_answer(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// Has a call succeeded over this connection?
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// Waits until the connection is closed or abandoned, and returns the reason.
    pub(super) async fn closed(&self) -> Failure {
        tokio::select! {
            biased;
            failure = self.link().inbox.requests.closed() => failure,
            () = self.left.cancelled() => self.why_left.get().cloned().unwrap_or_else(stopped),
        }
    }

    /// Is the connection closed or abandoned, so that no new request may use it?
    pub(super) fn is_gone(&self) -> bool {
        self.left.is_cancelled() || self.link().inbox.requests.is_closed()
    }

    /// Abandons the connection: no new requests, since the server cannot be reached. Requests in flight may still get a
    /// response: a remote server that accepts no new connections may finish them.
    pub(super) fn leave(&self, failure: Failure) {
        let _ = self.why_left.set(failure);
        self.left.cancel();
    }

    /// Closes the connection for a reason, and returns when it is fully closed. An abandoned connection is closed when its
    /// requests in flight have ended, each of which has a timeout.
    pub(super) async fn close(&self, reason: Failure) {
        while self.left.is_cancelled() && self.link().inbox.requests.has_calls() {
            sleep(DRAIN_LOOK).await;
        }
        self.link().inbox.requests.close(reason);
        self.sessions.end().await;
        self.link().close().await;
    }

    /// Sends a request and waits for its response. A lost session is replaced, once. Dropping
    /// the future cancels the request.
    pub(super) async fn request(&self, request: &Request<'_>) -> Result<Payload, Failure> {
        self.exchange(request).await?.map_err(from_rpc)
    }

    /// Like `request`, but returns the server's JSON-RPC error unchanged.
    pub(super) async fn exchange(&self, request: &Request<'_>) -> Answer {
        let work = async {
            let session = self.sessions.current();
            match ask(self.link(), &session.manner, request).await {
                Err(failure) if failure.retry == Retry::NewSession => {
                    let session = self.sessions.renewed(&session, request.idle).await?;
                    ask(self.link(), &session.manner, request).await
                }
                answer => answer,
            }
        };
        // The bound includes the replacement of the session.
        match timeout(request.total + SLACK, work).await {
            Ok(answer) => answer,
            Err(_) => Err(timed_out(format!("no answer within {:?} in all", request.total))),
        }
    }

    /// Pings the server. Only a response of the server itself counts: an error page of a proxy, or an error about
    /// anything but the ping, does not.
    pub(super) async fn ping(&self, bound: Duration) -> Result<(), Failure> {
        let method = match self.version.era() {
            Era::Legacy => method::PING,
            Era::Modern => method::DISCOVER,
        };
        match self.exchange(&Request::new(method, bound)).await {
            Ok(Ok(_)) => Ok(()),
            // Not every server implements `ping`. A process that responds at all is alive.
            Ok(Err(error)) => match error.code {
                METHOD_NOT_FOUND | INVALID_PARAMS | INVALID_REQUEST => Ok(()),
                _ if self.link().kind() == "stdio" => Ok(()),
                _ => Err(from_rpc(error)),
            },
            // The server is reachable, and a reconnect would change nothing.
            Err(failure) if matches!(failure.code, ErrorCode::RateLimited | ErrorCode::AuthRequired) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Notifies the server that a client's roots have changed. Servers of the modern era get no such notification.
    pub(super) fn roots_changed(&self) {
        if self.version.era() == Era::Legacy {
            tell(self.link(), &self.sessions.current().manner, method::ROOTS_CHANGED, &[]);
        }
    }

    /// Subscribes at a server of the modern era to the changes that `filter` names. Returns when the
    /// subscription ends.
    pub(super) async fn subscribe(
        &self,
        filter: &str,
        acknowledged: watch::Sender<Option<Box<RawValue>>>,
    ) -> Result<(), Failure> {
        // Bounded by the lifetime of the connection, without a timeout: the response ends the subscription.
        let ever = Duration::from_secs(60 * 60 * 24 * 365);
        let request = Request { acknowledged: Some(acknowledged), ..Request::new(method::SUBSCRIPTIONS_LISTEN, ever) };
        let request = request.with("notifications", filter);
        ask(self.link(), &self.sessions.current().manner, &request).await?.map(drop).map_err(from_rpc)
    }
}
