//! A connection that speaks MCP, in either era; `handshake` makes one.

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

/// What a request's own timeouts may take to notice.
const SLACK: Duration = Duration::from_millis(500);
/// Between two looks whether the requests in flight over a connection that was left have ended.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// A server that has agreed on a version.
#[derive(Debug)]
pub(super) struct Connection {
    sessions: Arc<Sessions>,
    version: Version,
    /// What the server calls itself.
    pub(super) server: String,
    /// The server says when its tools change.
    pub(super) tells_changes: bool,
    pub(super) declared: Arc<Declared>,
    /// A call was answered over this connection.
    has_answered: AtomicBool,
    /// Cancelled when no new request shall go over this connection.
    left: CancellationToken,
    why_left: std::sync::OnceLock<Failure>,
}

impl Connection {
    /// A connection over a link on which both sides have agreed. `relays` says whether the server may ask a client.
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

    /// The same connection, without the server's secrets in what the server says about itself.
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

    /// Do arguments that a tool wants in headers go there?
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

    /// Hears of each session that replaces another: the server has forgotten what the one before was told.
    pub(super) fn sessions(&self) -> watch::Receiver<Arc<Session>> {
        self.sessions.watch()
    }

    /// Is the server at work, as far as can be known?
    pub(super) fn is_busy(&self) -> bool {
        self.link().inbox.is_busy()
    }

    /// Notes that a call was answered: the server works.
    pub(super) fn note_answer(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// Was a call answered over this connection?
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// Waits until the connection is gone, or was left. Why.
    pub(super) async fn closed(&self) -> Failure {
        tokio::select! {
            biased;
            failure = self.link().inbox.requests.closed() => failure,
            () = self.left.cancelled() => self.why_left.get().cloned().unwrap_or_else(stopped),
        }
    }

    /// Can no new request go over this connection?
    pub(super) fn is_gone(&self) -> bool {
        self.left.is_cancelled() || self.link().inbox.requests.is_closed()
    }

    /// Gives the connection up for new requests, since the server cannot be reached. Requests in flight may still be
    /// answered: a remote server that takes no new connections may finish what it has begun.
    pub(super) fn leave(&self, failure: Failure) {
        let _ = self.why_left.set(failure);
        self.left.cancel();
    }

    /// Closes the connection for a reason, and returns when nothing of it is left. One that was left is closed when its
    /// requests in flight have ended, each of which has a bound of its own.
    pub(super) async fn close(&self, reason: Failure) {
        while self.left.is_cancelled() && self.link().inbox.requests.has_calls() {
            sleep(DRAIN_LOOK).await;
        }
        self.link().inbox.requests.close(reason);
        self.sessions.end().await;
        self.link().close().await;
    }

    /// Makes a request and waits for its answer. A forgotten session is replaced, once. Dropping
    /// the future cancels the request.
    pub(super) async fn request(&self, request: &Request<'_>) -> Result<Payload, Failure> {
        self.exchange(request).await?.map_err(from_rpc)
    }

    /// The same, with the server's own error as it was sent.
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
        // Also if the replacement of the session takes long.
        match timeout(request.total + SLACK, work).await {
            Ok(answer) => answer,
            Err(_) => Err(timed_out(format!("no answer within {:?} in all", request.total))),
        }
    }

    /// Is anybody there? Only an answer of the server itself is a sign of life: a page of a proxy, or an error about
    /// something else than the question, is none.
    pub(super) async fn ping(&self, bound: Duration) -> Result<(), Failure> {
        let method = match self.version.era() {
            Era::Legacy => method::PING,
            Era::Modern => method::DISCOVER,
        };
        match self.exchange(&Request::new(method, bound)).await {
            Ok(Ok(_)) => Ok(()),
            // Not every server knows the question. A process that answers is there, whatever it says.
            Ok(Err(error)) => match error.code {
                METHOD_NOT_FOUND | INVALID_PARAMS | INVALID_REQUEST => Ok(()),
                _ if self.link().kind() == "stdio" => Ok(()),
                _ => Err(from_rpc(error)),
            },
            // Somebody is there, and connecting again changes nothing.
            Err(failure) if matches!(failure.code, ErrorCode::RateLimited | ErrorCode::AuthRequired) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Says that a client's roots have changed. Servers of the modern era are not told.
    pub(super) fn roots_changed(&self) {
        if self.version.era() == Era::Legacy {
            tell(self.link(), &self.sessions.current().manner, method::ROOTS_CHANGED, &[]);
        }
    }

    /// Asks a server of the modern era to say when something changes that `filter` names. Returns when it
    /// no longer does.
    pub(super) async fn subscribe(
        &self,
        filter: &str,
        acknowledged: watch::Sender<Option<Box<RawValue>>>,
    ) -> Result<(), Failure> {
        // Bounded by the connection's life, not by time: the answer is the end of the subscription.
        let ever = Duration::from_secs(60 * 60 * 24 * 365);
        let request = Request { acknowledged: Some(acknowledged), ..Request::new(method::SUBSCRIPTIONS_LISTEN, ever) };
        let request = request.with("notifications", filter);
        ask(self.link(), &self.sessions.current().manner, &request).await?.map(drop).map_err(from_rpc)
    }
}
