//! What a server says while a request that is passed on for a client is in flight, and what it asks that client.
//!
//! A request that is passed on has a [`Relay`]: its channel to the client. Progress, logs and the server's own requests
//! ("questions") go there as [`Said`]. [`Questions`] is the table of questions that a client has not answered yet, of one
//! connection; [`Asks`] is the part of it that belongs to one request, held by whoever waits for that request.
//!
//! **Invariant:** a channel that is slow or gone never holds up the connection. Progress and logs are dropped then; a
//! question that nobody takes is answered with an error.

use std::{
    any::Any,
    collections::HashMap,
    fmt,
    future::pending,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{
    StreamExt,
    future::{AbortHandle, Abortable},
    stream::FuturesUnordered,
};
use pml_wire::Line;
use serde_json::{Value, value::RawValue};
use tokio::sync::{mpsc, oneshot};

use super::{codec::RpcError, settings::Settings};
use crate::protocol::{
    code::{INTERNAL_ERROR, METHOD_NOT_FOUND},
    method,
};

/// What servers may ask a client.
pub(super) const ASKABLE: [&str; 3] = [method::ELICITATION, method::SAMPLING, method::ROOTS_LIST];
/// Questions of one server that may be open.
const MAX_ASKS: usize = 64;
/// Longest progress or log that is passed on.
pub(super) const MAX_SAID_BYTES: usize = 1024 * 1024;
/// Longest question that is passed on.
pub(super) const MAX_ASK_BYTES: usize = 16 * 1024 * 1024;
/// Longest id of a question.
const MAX_ID_BYTES: usize = 1024;

/// What a server says while a request is in flight.
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

/// A client, told apart from others by a value that only this client has. The value lives as long as the request, so
/// that no later client is taken for this one.
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

/// The channel to the client of a request. The server's secrets are masked on the way.
#[derive(Clone, Debug)]
pub(super) struct SaidSender {
    sender: mpsc::Sender<Said>,
    settings: Arc<Settings>,
}

impl SaidSender {
    pub(super) fn new(sender: mpsc::Sender<Said>, settings: &Arc<Settings>) -> SaidSender {
        SaidSender { sender, settings: Arc::clone(settings) }
    }

    /// Sends, if the channel has room.
    pub(super) fn try_send(&self, said: Said) -> Result<(), mpsc::error::TrySendError<Said>> {
        let mask = |params| self.settings.mask_json(params, &[]);
        self.sender.try_send(match said {
            Said::Progress(params) => Said::Progress(mask(params)),
            Said::Log(params) => Said::Log(mask(params)),
            Said::Ask { method, params, reply } => Said::Ask { method, params: mask(params), reply },
        })
    }
}

/// The channel to the client of a server without secrets.
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
    asked: mpsc::Sender<Asked>,
    pub(super) owner: Option<Owner>,
}

/// A question that was handed over and waits for its answer.
#[derive(Debug)]
struct Asked {
    id: Box<RawValue>,
    answer: Abortable<oneshot::Receiver<Result<Value, RpcError>>>,
}

/// An open question, in the table.
#[derive(Debug)]
struct Open {
    /// The request of pml that the question belongs to.
    request: u64,
    abort: AbortHandle,
}

/// The questions of one server that a client has not answered yet, and the way back to the server.
#[derive(Debug)]
pub(super) struct Questions {
    open: Mutex<HashMap<String, Open>>,
    replies: mpsc::Sender<Line>,
}

/// What became of a question for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handed {
    Over,
    /// A question with the same id is open.
    Twice,
    /// The client has too many questions, is too slow, or has gone.
    TooMuch,
}

impl Questions {
    pub(super) fn new(replies: mpsc::Sender<Line>) -> Arc<Questions> {
        Arc::new(Questions { open: Mutex::default(), replies })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn are_open(&self) -> bool {
        !self.open().is_empty()
    }

    /// Hands a question to the client of request `request`, whose end of the channel is `said`.
    pub(super) fn hand_over(
        &self,
        (id, method, params): (&RawValue, &str, Option<Box<RawValue>>),
        request: u64,
        (relay, said): (&Relay, &SaidSender),
    ) -> Handed {
        let mut open = self.open();
        if open.contains_key(id.get()) {
            return Handed::Twice;
        }
        let params = params.unwrap_or_else(no_params);
        let Ok(permit) = relay.asked.try_reserve() else { return Handed::TooMuch };
        if open.len() >= MAX_ASKS || params.get().len() > MAX_ASK_BYTES || id.get().len() > MAX_ID_BYTES {
            return Handed::TooMuch;
        }
        let (reply, answer) = oneshot::channel();
        if said.try_send(Said::Ask { method: method.to_owned(), params, reply }).is_err() {
            return Handed::TooMuch;
        }
        let (abort, registration) = AbortHandle::new_pair();
        open.insert(id.get().to_owned(), Open { request, abort });
        permit.send(Asked { id: id.to_owned(), answer: Abortable::new(answer, registration) });
        Handed::Over
    }

    /// Answers a request of the server that no client is asked: pml itself offers nothing but a sign of life.
    pub(super) fn offer_nothing(&self, id: &RawValue, method: &str) {
        match method {
            method::PING => self.reply(reply_line(id, Ok(serde_json::json!({})))),
            _ => self.refuse(id, METHOD_NOT_FOUND, &format!("pml does not offer `{method}`")),
        }
    }

    pub(super) fn refuse(&self, id: &RawValue, code: i64, message: &str) {
        let error = RpcError { code, message: message.to_owned(), data: None };
        self.reply(reply_line(id, Err(error)));
    }

    fn reply(&self, line: Line) {
        if self.replies.try_send(line).is_err() {
            tracing::debug!("a server asks faster than it reads; a request stays unanswered");
        }
    }

    /// Sends a client's answer, and returns when it is queued for the server.
    async fn answer(&self, id: &RawValue, answer: Result<Value, RpcError>) {
        let was_open = self.open().remove(id.get()).is_some();
        if was_open {
            let _ = self.replies.send(reply_line(id, answer)).await;
        }
    }

    /// The server does not want the answer any more.
    pub(super) fn withdraw(&self, id: &RawValue) {
        if let Some(open) = self.open().remove(id.get()) {
            open.abort.abort();
        }
    }

    /// Closes the questions of a request that is over. The server is told, unless the connection is closed.
    pub(super) fn end(&self, request: u64, is_closed: bool) {
        let mut over = Vec::new();
        self.open().retain(|id, open| {
            let is_over = open.request == request;
            if is_over {
                open.abort.abort();
                over.extend(RawValue::from_string(id.clone()));
            }
            !is_over
        });
        for id in over.into_iter().filter(|_| !is_closed) {
            self.refuse(&id, INTERNAL_ERROR, "the request that this belongs to is over");
        }
    }
}

/// The questions that belong to one request, at the end of whoever waits for its answer.
#[derive(Default)]
pub(super) struct Asks(Option<Box<Desk>>);

struct Desk {
    questions: Arc<Questions>,
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
    pub(super) fn new(questions: &Arc<Questions>, said: Option<SaidSender>, owner: Option<Owner>) -> (Relay, Asks) {
        let (sender, asked) = mpsc::channel(MAX_ASKS);
        let desk = Desk { questions: Arc::clone(questions), asked, open: FuturesUnordered::new() };
        (Relay { said, asked: sender, owner }, Asks(Some(Box::new(desk))))
    }

    /// Can there be questions?
    pub(super) fn is_relayed(&self) -> bool {
        self.0.is_some()
    }

    /// Is the client asked something at the moment?
    pub(super) fn are_open(&self) -> bool {
        self.0.as_ref().is_some_and(|desk| !desk.open.is_empty())
    }

    /// Waits until a question came or was answered. Answers are sent only while somebody waits here.
    pub(super) async fn turn(&mut self) {
        let Some(desk) = &mut self.0 else { return pending().await };
        let Desk { questions, asked, open } = &mut **desk;
        tokio::select! {
            Some(asked) = asked.recv() => open.push(Box::pin(settle(Arc::clone(questions), asked))),
            Some(()) = open.next(), if !open.is_empty() => {}
            else => pending().await,
        }
    }
}

/// Waits for the client's answer and sends it, unless the server does not want it any more.
async fn settle(questions: Arc<Questions>, asked: Asked) {
    let Ok(answer) = asked.answer.await else { return };
    let unanswered = || RpcError { code: INTERNAL_ERROR, message: "the client did not answer".to_owned(), data: None };
    let answer = answer.unwrap_or_else(|_| Err(unanswered()));
    questions.answer(&asked.id, answer).await;
}

pub(super) fn no_params() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The answer to a request of the server.
fn reply_line(id: &RawValue, answer: Result<Value, RpcError>) -> Line {
    Line::new(match answer {
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        Err(RpcError { code, message, data }) => {
            let message = Value::from(message);
            let data = data.map(|data| format!(r#","data":{data}"#)).unwrap_or_default();
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{data}}}}}"#)
        }
    })
}
