//! Progress, logs and questions that a server sends while a relayed request is in flight.
//!
//! A relayed request has a [`Relay`]: its channel to the client. Progress, logs and the server's own requests
//! ("questions") are sent there as [`ServerMessage`]. [`Questions`] is the table of the open questions of one
//! connection; [`Asks`] is the part of the table that belongs to one request, held by the task that awaits its response.
//!
//! **Invariant:** a slow or closed channel never blocks the connection. Progress and logs are dropped then; a
//! question that cannot be delivered is answered with an error.

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

/// The methods that servers may call on a client.
pub(super) const ASKABLE: [&str; 3] = [method::ELICITATION, method::SAMPLING, method::ROOTS_LIST];
/// Most open questions of one server.
const MAX_ASKS: usize = 64;
/// Longest progress or log notification that is relayed.
pub(super) const MAX_NOTIFICATION_BYTES: usize = 1024 * 1024;
/// Longest question that is relayed.
pub(super) const MAX_ASK_BYTES: usize = 16 * 1024 * 1024;
/// Longest id of a question.
const MAX_ID_BYTES: usize = 1024;

/// A message of the server that belongs to a request in flight.
#[derive(Debug)]
pub enum ServerMessage {
    /// The parameters of `notifications/progress`. The token in them is pml's own.
    Progress(Box<RawValue>),
    /// The parameters of `notifications/message`.
    Log(Box<RawValue>),
    /// A request of the server. Dropping `reply` refuses it; `reply.is_closed()` is true once the server has cancelled
    /// the request or its own request has ended.
    Ask { method: String, params: Box<RawValue>, reply: oneshot::Sender<Result<Value, RpcError>> },
}

/// The identity of a client: a value that only this client holds. The value lives as long as the request, so that its
/// address is not reused for a later client.
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

/// Sends messages to the client of a request, with the server's secrets masked.
#[derive(Clone, Debug)]
pub(super) struct MessageSender {
    sender: mpsc::Sender<ServerMessage>,
    settings: Arc<Settings>,
}

impl MessageSender {
    pub(super) fn new(sender: mpsc::Sender<ServerMessage>, settings: &Arc<Settings>) -> MessageSender {
        MessageSender { sender, settings: Arc::clone(settings) }
    }

    /// Sends the message, unless the channel is full or closed.
    pub(super) fn try_send(&self, said: ServerMessage) -> Result<(), mpsc::error::TrySendError<ServerMessage>> {
        let mask = |params| self.settings.mask_json(params, &[]);
        self.sender.try_send(match said {
            ServerMessage::Progress(params) => ServerMessage::Progress(mask(params)),
            ServerMessage::Log(params) => ServerMessage::Log(mask(params)),
            ServerMessage::Ask { method, params, reply } => ServerMessage::Ask { method, params: mask(params), reply },
        })
    }
}

/// The channel to the client of a server without secrets.
#[cfg(test)]
impl From<mpsc::Sender<ServerMessage>> for MessageSender {
    fn from(sender: mpsc::Sender<ServerMessage>) -> MessageSender {
        MessageSender { sender, settings: Arc::new(Settings::new("", Err(String::new()))) }
    }
}

/// The inbox's end of a relayed request.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) said: Option<MessageSender>,
    asked: mpsc::Sender<PendingAnswer>,
    pub(super) owner: Option<Owner>,
}

/// A question that the client has received and not yet answered.
#[derive(Debug)]
struct PendingAnswer {
    id: Box<RawValue>,
    answer: Abortable<oneshot::Receiver<Result<Value, RpcError>>>,
}

/// An entry of the table of open questions.
#[derive(Debug)]
struct OpenQuestion {
    /// The request of pml that the question belongs to.
    request: u64,
    abort: AbortHandle,
}

/// The open questions of one server, and the channel for the replies to it.
#[derive(Debug)]
pub(super) struct Questions {
    open: Mutex<HashMap<String, OpenQuestion>>,
    replies: mpsc::Sender<Line>,
}

/// Whether a question was delivered to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandOver {
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

    fn open(&self) -> MutexGuard<'_, HashMap<String, OpenQuestion>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn are_open(&self) -> bool {
        !self.open().is_empty()
    }

    /// Delivers a question to the client of request `request`, through the channel `said`.
    pub(super) fn hand_over(
        &self,
        (id, method, params): (&RawValue, &str, Option<Box<RawValue>>),
        request: u64,
        (relay, said): (&Relay, &MessageSender),
    ) -> HandOver {
        let mut open = self.open();
        if open.contains_key(id.get()) {
            return HandOver::Twice;
        }
        let params = params.unwrap_or_else(no_params);
        let Ok(permit) = relay.asked.try_reserve() else { return HandOver::TooMuch };
        if open.len() >= MAX_ASKS || params.get().len() > MAX_ASK_BYTES || id.get().len() > MAX_ID_BYTES {
            return HandOver::TooMuch;
        }
        let (reply, answer) = oneshot::channel();
        if said.try_send(ServerMessage::Ask { method: method.to_owned(), params, reply }).is_err() {
            return HandOver::TooMuch;
        }
        let (abort, registration) = AbortHandle::new_pair();
        open.insert(id.get().to_owned(), OpenQuestion { request, abort });
        permit.send(PendingAnswer { id: id.to_owned(), answer: Abortable::new(answer, registration) });
        HandOver::Over
    }

    /// Responds to a request of the server that belongs to no client: pml itself supports `ping` only.
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

    /// Queues a client's answer for the server, and returns once it is queued.
    async fn answer(&self, id: &RawValue, answer: Result<Value, RpcError>) {
        let was_open = self.open().remove(id.get()).is_some();
        if was_open {
            let _ = self.replies.send(reply_line(id, answer)).await;
        }
    }

    /// Drops a question that the server has cancelled.
    pub(super) fn withdraw(&self, id: &RawValue) {
        if let Some(open) = self.open().remove(id.get()) {
            open.abort.abort();
        }
    }

    /// Closes the questions of a request that has ended. The server gets an error for each, unless the connection is closed.
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

/// The questions that belong to one request, held by the task that awaits the response.
#[derive(Default)]
pub(super) struct Asks(Option<Box<AnswerQueue>>);

struct AnswerQueue {
    questions: Arc<Questions>,
    asked: mpsc::Receiver<PendingAnswer>,
    open: FuturesUnordered<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl fmt::Debug for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Asks").field(&self.0.as_ref().map(|desk| desk.open.len())).finish()
    }
}

impl Asks {
    /// A relay, and the queue that receives its questions.
    pub(super) fn new(questions: &Arc<Questions>, said: Option<MessageSender>, owner: Option<Owner>) -> (Relay, Asks) {
        let (sender, asked) = mpsc::channel(MAX_ASKS);
        let desk = AnswerQueue { questions: Arc::clone(questions), asked, open: FuturesUnordered::new() };
        (Relay { said, asked: sender, owner }, Asks(Some(Box::new(desk))))
    }

    /// Is the request relayed for a client, so that the server may ask questions?
    pub(super) fn is_relayed(&self) -> bool {
        self.0.is_some()
    }

    /// Is a question open?
    pub(super) fn are_open(&self) -> bool {
        self.0.as_ref().is_some_and(|desk| !desk.open.is_empty())
    }

    /// Waits until a question arrives or is answered. Answers are sent to the server only while this future is polled.
    pub(super) async fn turn(&mut self) {
        let Some(desk) = &mut self.0 else { return pending().await };
        let AnswerQueue { questions, asked, open } = &mut **desk;
        tokio::select! {
            Some(asked) = asked.recv() => open.push(Box::pin(settle(Arc::clone(questions), asked))),
            Some(()) = open.next(), if !open.is_empty() => {}
            else => pending().await,
        }
    }
}

/// Waits for the client's answer and sends it, unless the server has cancelled the question.
async fn settle(questions: Arc<Questions>, asked: PendingAnswer) {
    let Ok(answer) = asked.answer.await else { return };
    let unanswered = || RpcError { code: INTERNAL_ERROR, message: "the client did not answer".to_owned(), data: None };
    let answer = answer.unwrap_or_else(|_| Err(unanswered()));
    questions.answer(&asked.id, answer).await;
}

pub(super) fn no_params() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The JSON-RPC response to a request of the server.
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
