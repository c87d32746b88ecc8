//! The session with a server: its id, its protocol version and the stream for the server's own messages, as one value.
//!
//! Over HTTP a server of the legacy era may lose its session, after a restart for example. [`Sessions`] opens the next
//! session in a task of its own, so that a cancelled caller cannot leave a session half open.
//!
//! **Invariant:** at most one session of a connection has an open stream, and all callers that replace the same old session
//! get the same new session.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    exchange::{Manner, Request, ask_for_session, client_info, from_rpc, initialized},
    failure::{Failure, stopped},
    payload::Payload,
    transport::{Link, SessionSlot},
};
use crate::protocol::{Era, LEGACY, MODERN, Version, method};

/// How long to wait for the server's own stream. Some servers send its headers only with the first message.
const LISTENING: Duration = Duration::from_secs(1);
/// The client capabilities that pml declares when it can relay them to a client.
const RELAYED: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{"listChanged":true}}"#;

/// One session. In the modern era, and over stdio, a connection has a single session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) manner: Manner,
    /// The number of the session within its connection.
    pub(super) number: u64,
    /// Cancelled when the session ends; closes its stream.
    over: CancellationToken,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.over.cancel();
    }
}

impl Session {
    /// The session with a server of the modern era, where requests are stateless.
    pub(super) fn modern() -> Session {
        Session { manner: Manner::new(Version::MODERN), number: 0, over: CancellationToken::new() }
    }

    /// Opens a session of the legacy era. With `relays`, the server may send requests to a client.
    pub(super) async fn begin(link: &Link, relays: bool, bound: Duration) -> Result<(Session, Payload), Beginning> {
        let slot = SessionSlot::default();
        let request = Request::new(method::INITIALIZE, bound)
            .with("protocolVersion", format!("\"{}\"", Version::NEWEST_LEGACY.as_str()))
            .with("capabilities", if relays { RELAYED } else { "{}" })
            .with("clientInfo", client_info());
        let answer = ask_for_session(link, &request, slot.clone()).await.map_err(Beginning::Failed)?;
        let payload = answer.map_err(Beginning::Refused)?;
        let version = legacy_version(&payload).map_err(Beginning::Failed)?;
        let manner = Manner { version, session: slot.get() };
        let session = Session { manner, number: 0, over: CancellationToken::new() };
        link.reply_with(session.manner.headers("", None));
        initialized(link, &session.manner).await;
        let opened = link.listen(session.manner.headers("", None), session.over.clone());
        // Some servers drop a question if no stream is open yet, and then wait for its answer forever.
        if relays {
            let _ = timeout(LISTENING, opened).await;
        }
        Ok((session, payload))
    }
}

/// Why a session could not be opened.
#[derive(Debug)]
pub(super) enum Beginning {
    /// The server refused, with an error of its own.
    Refused(super::codec::RpcError),
    Failed(Failure),
}

/// The session of a connection, and how it is replaced.
#[derive(Debug)]
pub(super) struct Sessions {
    link: Arc<Link>,
    relays: bool,
    current: watch::Sender<Arc<Session>>,
    /// Held while a session is replaced.
    renewing: Mutex<()>,
}

impl Sessions {
    pub(super) fn new(link: Link, session: Session, relays: bool) -> Arc<Sessions> {
        let current = watch::Sender::new(Arc::new(session));
        Arc::new(Sessions { link: Arc::new(link), relays, current, renewing: Mutex::default() })
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    pub(super) fn current(&self) -> Arc<Session> {
        Arc::clone(&self.current.borrow())
    }

    /// Receives each session that replaces another.
    pub(super) fn watch(&self) -> watch::Receiver<Arc<Session>> {
        self.current.subscribe()
    }

    /// Replaces `old`, which the server has lost. Dropping the future does not stop the replacement.
    pub(super) async fn renewed(
        self: &Arc<Self>,
        old: &Arc<Session>,
        bound: Duration,
    ) -> Result<Arc<Session>, Failure> {
        let (sessions, old) = (Arc::clone(self), Arc::clone(old));
        let renewal = self.link.spawn(async move { sessions.renew(&old, bound).await });
        renewal.await.unwrap_or_else(|_| Err(stopped()))
    }

    async fn renew(&self, old: &Arc<Session>, bound: Duration) -> Result<Arc<Session>, Failure> {
        let _turn = self.renewing.lock().await;
        let current = self.current();
        if !Arc::ptr_eq(&current, old) {
            return Ok(current);
        }
        old.over.cancel();
        match Session::begin(&self.link, self.relays, bound).await {
            Ok((session, _)) => {
                let session = Arc::new(Session::numbered(session, old.number + 1));
                self.current.send_replace(Arc::clone(&session));
                Ok(session)
            }
            Err(beginning) => {
                let failure = match beginning {
                    Beginning::Refused(error) => from_rpc(error),
                    Beginning::Failed(failure) => failure,
                };
                // The request itself was refused for its session.
                let failure = failure.within("the server has forgotten the session and begins no new one").unsent();
                self.link.inbox.requests.close(failure.clone());
                Err(failure)
            }
        }
    }

    /// Tells the server that the session is over, where the server knows of one.
    pub(super) async fn end(&self) {
        let session = self.current();
        session.over.cancel();
        if session.manner.version.era() == Era::Legacy {
            self.link.end_session(&session.manner.headers("", None)).await;
        }
    }
}

impl Session {
    fn numbered(mut session: Session, number: u64) -> Session {
        session.number = number;
        session
    }
}

/// The version that a server of the legacy era has chosen.
fn legacy_version(payload: &Payload) -> Result<Version, Failure> {
    let version: Option<String> = payload.get("protocolVersion");
    match version {
        Some(version) => match Version::of(&version) {
            Some(version) if version.era() == Era::Legacy => Ok(version),
            _ => Err(no_common_version(&version)),
        },
        None => Err(Failure::protocol("the server's answer to `initialize` has no protocol version")),
    }
}

pub(super) fn no_common_version(theirs: &str) -> Failure {
    let message = format!(
        "no common protocol version: the server speaks {}, pml speaks {MODERN}, {}",
        if theirs.is_empty() { "none that it names" } else { theirs },
        LEGACY.join(", ")
    );
    Failure::never(message)
}
