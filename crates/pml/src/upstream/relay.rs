//! Requests that are passed on for a client, and what the server says while they go on.
//!
//! The answer to such a request goes back as the server wrote it. What the server says meanwhile goes
//! to the request's [`Said`] channel: progress by its token; logs and the server's own requests by
//! the stream that they come on. What comes on none goes to the request that was sent last, if all that
//! go on are of one client.
//!
//! **Invariant:** a channel that is slow or gone never holds up the connection. Progress and logs are
//! dropped then, and counted; a question that nobody takes is answered with an error. A question that came of
//! one client's request is never asked of another.

use std::{any::Any, fmt, future::pending, pin::Pin, sync::Arc};

use futures_util::{
    StreamExt,
    future::{AbortHandle, Abortable},
    stream::FuturesUnordered,
};
use pml_wire::ErrorCode;
use serde_json::{Map, Value, value::RawValue};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};

use super::{
    codec::{BROKEN, RpcError},
    connection::{Era, Passing, Request, from_rpc},
    discovery::{self, Kind},
    failure::{Failure, Retry},
    handle::Upstream,
    inbox::Inbox,
    settings::Settings,
    subscriber::Watch,
};
use crate::{catalog::Declared, room::Held, work};

/// What servers may ask a client.
pub(super) const ASKABLE: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];
/// Questions of one server that may be open.
pub(super) const MAX_ASKS: usize = 64;
/// Longest progress or log, and longest question, that is passed on.
pub(super) const MAX_SAID_BYTES: usize = 1024 * 1024;
pub(super) const MAX_ASK_BYTES: usize = 16 * 1024 * 1024;
/// Longest id of a question.
pub(super) const MAX_ID_BYTES: usize = 1024;
pub(super) const INTERNAL_ERROR: i64 = -32603;

/// What a server says while a request goes on.
#[derive(Debug)]
pub enum Said {
    /// The parameters of `notifications/progress`. The token in them is pml's own.
    Progress(Box<RawValue>),
    /// The parameters of `notifications/message`.
    Log(Box<RawValue>),
    /// A request of the server. Dropping `reply` refuses it; `reply.is_closed()` says that nobody
    /// waits for it any more.
    Ask { method: String, params: Box<RawValue>, reply: oneshot::Sender<Result<Value, RpcError>> },
}

/// A result as the server wrote it, an object.
#[derive(Debug)]
pub struct Whole {
    pub text: Box<RawValue>,
    /// The room that it takes, if it is large.
    pub held: Held,
}

/// A request to be passed on.
#[derive(Debug)]
pub struct Forward<'a> {
    pub method: &'a str,
    /// Without `_meta`.
    pub params: Map<String, Value>,
    /// What goes into `_meta` besides what pml puts there: `traceparent`, the client's capabilities
    /// and log level, keys of vendors. The client's progress token, version and name are left out.
    pub meta: Map<String, Value>,
    /// What the request is about (a tool, a prompt, an address), for HTTP.
    pub name: Option<&'a str>,
    /// Arguments that also go into headers, where there are any.
    pub headers: Vec<(String, String)>,
    /// Where to say what the server says meanwhile.
    pub relay: Option<mpsc::Sender<Said>>,
    /// The client that listens there. Requests without one are all of the same.
    pub owner: Option<Owner>,
}

/// A client, told apart from others by something that only it has. That lives as long as the request, so
/// that no later client is taken for it.
#[derive(Clone)]
pub struct Owner(Arc<dyn Any + Send + Sync>);

impl Owner {
    pub fn new(own: Arc<dyn Any + Send + Sync>) -> Owner {
        Owner(own)
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Owner) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owner").field(&Arc::as_ptr(&self.0)).finish()
    }
}

impl Upstream {
    /// Passes a request on and gives back the server's result, an object, or its error, both as they
    /// were sent, but for the server's secrets in errors. Dropping the future cancels the request.
    ///
    /// Otherwise it is as with [`execute`](Upstream::execute): the server is started, the request waits
    /// for its turn and has its timeouts, of which the one for silence stands still while the client is
    /// asked something. The future must be polled for answers to the server's questions to be sent, and
    /// what was said last may still be in the channel when it ends.
    pub async fn forward(&self, forward: Forward<'_>) -> Result<Result<Whole, RpcError>, Failure> {
        let settings = Arc::clone(&self.settings);
        match self.pass(forward).await.map_err(|failure| settings.mask_failure(failure))? {
            Ok(Whole { text, held }) => {
                let masked = work::sized(text.get().len(), move |_| settings.mask_passed(text)).await;
                Ok(Ok(Whole { text: masked, held }))
            }
            Err(error) => Ok(Err(settings.mask_error(error))),
        }
    }

    async fn pass(&self, forward: Forward<'_>) -> Result<Result<Whole, RpcError>, Failure> {
        let Forward { method, params, meta, name, headers, relay, owner } = forward;
        // It goes into the message and into a header as it is.
        if method.is_empty() || method.bytes().any(|byte| !byte.is_ascii_graphic() || matches!(byte, b'"' | b'\\')) {
            return Err(Failure::protocol(format!("`{}` is no method", method.escape_debug())));
        }
        let tool = name.filter(|_| method == "tools/call");
        let (idle, total) = self.settings.timeouts_for(tool.unwrap_or_default());
        let is_heavy = params.values().any(work::is_heavy);
        let relay = relay.map(|sender| SaidSender { sender, settings: Arc::clone(&self.settings) });
        let passing = work::weighed(is_heavy, move |_| Passing::new(&params, meta, relay, owner)).await;
        let passing = Some(Arc::new(passing));
        let request = Request { name, headers, idle, total, passing, ..Request::new(method, total) };
        match self.perform(&request, tool).await? {
            Ok(mut payload) => {
                let held = payload.held.take();
                match payload.into_whole().filter(|whole| whole.get().starts_with('{')) {
                    Some(text) => Ok(Ok(Whole { text, held })),
                    None => Err(Failure::protocol("the server's answer is no object")),
                }
            }
            Err(error) if error.code == BROKEN => Err(from_rpc(error)),
            Err(error) => Ok(Err(error)),
        }
    }

    /// All resources, templates or prompts, as the server describes them. None if it has no such thing.
    pub async fn list(&self, kind: Kind) -> Result<Vec<Value>, Failure> {
        let settings = &self.settings;
        let list = async {
            let status = self.ready().await?;
            match &status.connection {
                Some(connection) => discovery::list(settings, connection, kind).await,
                None => {
                    let work = async |connection: &_| discovery::list(settings, connection, kind).await;
                    self.alone(settings.limits, status.era, work).await
                }
            }
        };
        list.await.map_err(|failure| self.settings.mask_failure(failure))
    }

    /// Watches a resource: while what is returned lives, the bus tells when it changes. The server has
    /// agreed when this returns, and is asked again when it is connected again.
    pub async fn watch(&self, uri: &str) -> Result<Watch, Failure> {
        let watch = async {
            let status = self.ready().await?;
            let Some(connection) = &status.connection else {
                return Err(Failure::protocol("a server with a process per call has no resources that can be watched"));
            };
            if connection.declared.capabilities["resources"]["subscribe"] != true {
                return Err(Failure::protocol("the server does not offer to watch resources"));
            }
            let watch = Watch::begin(&self.wanted, uri);
            let bound = self.settings.max_call;
            tokio::select! {
                settled = watch.settled() => settled?,
                failure = connection.closed() => return Err(failure),
                () = sleep(bound) => {
                    let message = format!("the server does not agree to the subscription within {bound:?}");
                    return Err(Failure::new(ErrorCode::ProviderTimeout, message, Retry::Later));
                }
            }
            Ok(watch)
        };
        watch.await.map_err(|failure| self.settings.mask_failure(failure))
    }

    /// Says how much the server is to log, now or when it runs. Servers of the new era are told with
    /// each request instead.
    pub fn set_log_level(&self, level: &str) {
        self.wanted.set_level(level);
    }

    /// Says that the client's roots are others than before, if the server runs and can hear it.
    pub fn roots_changed(&self) {
        let connection = self.status.borrow().connection.clone();
        if let Some(connection) = connection.filter(|_| self.settings.relays) {
            connection.roots_changed();
        }
    }

    /// What the server says about itself, or said the last time that it ran.
    pub fn declared(&self) -> Option<Arc<Declared>> {
        self.status.borrow().declared.clone()
    }

    /// The version that the server speaks, or spoke the last time.
    pub fn version(&self) -> Option<&'static str> {
        self.status.borrow().era.map(Era::version)
    }

    /// Does the server speak, or did it, in the new era?
    pub fn is_modern(&self) -> bool {
        self.status.borrow().era == Some(Era::Modern)
    }
}

/// The channel to the client of a request, for what the server says meanwhile, without the server's secrets.
#[derive(Clone, Debug)]
pub(super) struct SaidSender {
    sender: mpsc::Sender<Said>,
    settings: Arc<Settings>,
}

impl SaidSender {
    /// Says something, if there is room for it.
    pub(super) fn try_send(&self, said: Said) -> Result<(), mpsc::error::TrySendError<Said>> {
        let mask = |params| self.settings.mask_json(params, &[]);
        self.sender.try_send(match said {
            Said::Progress(params) => Said::Progress(mask(params)),
            Said::Log(params) => Said::Log(mask(params)),
            Said::Ask { method, params, reply } => Said::Ask { method, params: mask(params), reply },
        })
    }
}

/// Of a server without secrets.
#[cfg(test)]
impl From<mpsc::Sender<Said>> for SaidSender {
    fn from(sender: mpsc::Sender<Said>) -> SaidSender {
        SaidSender { sender, settings: Arc::new(Settings::new("", Err(String::new()))) }
    }
}

/// The inbox's end of a request that is passed on.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) said: Option<SaidSender>,
    pub(super) asked: mpsc::Sender<Asked>,
    pub(super) owner: Option<Owner>,
}

/// A question that was handed over and waits for its answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) id: Box<RawValue>,
    pub(super) answer: Abortable<oneshot::Receiver<Result<Value, RpcError>>>,
}

/// What the inbox knows of a question.
#[derive(Debug)]
pub(super) struct Open {
    /// The request of ours that it belongs to.
    pub(super) request: u64,
    pub(super) abort: AbortHandle,
}

/// The questions that belong to one request, at the end of whoever waits for its answer.
#[derive(Default)]
pub(super) struct Asks(Option<Box<Desk>>);

struct Desk {
    inbox: Arc<Inbox>,
    asked: mpsc::Receiver<Asked>,
    open: FuturesUnordered<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl fmt::Debug for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Asks").field(&self.0.as_ref().map(|desk| desk.open.len())).finish()
    }
}

impl Asks {
    /// A relay, and where its questions arrive.
    pub(super) fn new(inbox: &Arc<Inbox>, said: Option<SaidSender>, owner: Option<Owner>) -> (Relay, Asks) {
        let (sender, asked) = mpsc::channel(MAX_ASKS);
        let desk = Desk { inbox: Arc::clone(inbox), asked, open: FuturesUnordered::new() };
        (Relay { said, asked: sender, owner }, Asks(Some(Box::new(desk))))
    }

    /// Can there be any?
    pub(super) fn is_relayed(&self) -> bool {
        self.0.is_some()
    }

    /// Is the client asked something at the moment?
    pub(super) fn are_open(&self) -> bool {
        self.0.as_ref().is_some_and(|desk| !desk.open.is_empty())
    }

    /// Waits until a question came or was answered. Must be waited for: this is what sends answers.
    pub(super) async fn turn(&mut self) {
        let Some(desk) = &mut self.0 else { return pending().await };
        let Desk { inbox, asked, open } = &mut **desk;
        tokio::select! {
            Some(asked) = asked.recv() => open.push(Box::pin(settle(Arc::clone(inbox), asked))),
            Some(()) = open.next(), if !open.is_empty() => {}
            else => pending().await,
        }
    }
}

/// Waits for the client's answer and sends it, unless the server does not want it any more.
async fn settle(inbox: Arc<Inbox>, asked: Asked) {
    let Ok(answer) = asked.answer.await else { return };
    let unanswered = || RpcError { code: INTERNAL_ERROR, message: "the client did not answer".to_owned(), data: None };
    let answer = answer.unwrap_or_else(|_| Err(unanswered()));
    inbox.answer_ask(&asked.id, answer).await;
}
