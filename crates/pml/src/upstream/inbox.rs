//! What comes from a server, given to whoever waits for it.
//!
//! **Invariant:** every request that is [registered](Inbox::register) ends: with its answer, with
//! a failure, or because its caller gave up. When the connection closes, all of them end.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::{AbortHandle, Abortable};
use pml_wire::{ErrorCode, Line};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    codec::{self, Keep, Message, Payload, RpcError},
    failure::{Failure, Retry},
    news::News,
    process::LastWords,
    relay::{
        ASKABLE, Asked, Asks, INTERNAL_ERROR, MAX_ASK_BYTES, MAX_ASKS, MAX_ID_BYTES, MAX_SAID_BYTES, Open, Owner,
        Relay, Said, SaidSender,
    },
};

use crate::{
    room::{Charge, Held},
    work::{self, AT_ONCE_BYTES},
};

const METHOD_NOT_FOUND: i64 = -32601;

/// Some put it in front of everything.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// How much of a broken message is looked at and shown.
const SHOWN_BYTES: usize = 200;

/// What an answer is: the result, the server's error, or what happened instead of an answer.
pub(super) type Answer = Result<Result<Payload, RpcError>, Failure>;

/// The receiving end of one connection.
#[derive(Debug)]
pub(super) struct Inbox {
    pending: Mutex<HashMap<u64, Pending>>,
    closed: CancellationToken,
    why: Mutex<Option<Failure>>,
    news: Arc<News>,
    /// Answers to the server's own requests go out here.
    replies: mpsc::Sender<Line>,
    /// The server's own requests that a client is asked, by their ids.
    asks: Mutex<HashMap<String, Open>>,
    /// How many requests are passed on. While there are any, results are kept whole.
    forwarded: AtomicUsize,
    /// Progress and logs that nobody took in time.
    dropped: AtomicU64,
    /// The version that was agreed on.
    version: OnceLock<&'static str>,
    /// Where noise is kept, for errors.
    words: Arc<LastWords>,
    /// Messages that could not be understood or told apart.
    noise: AtomicU64,
    /// When the server last said anything.
    heard: Mutex<Instant>,
}

#[derive(Debug)]
struct Pending {
    answer: oneshot::Sender<Answer>,
    progress: Arc<Notify>,
    patience: Patience,
    /// Longest silence that the request allows.
    idle: Duration,
    /// Where what belongs to it goes, if it is passed on for a client.
    relay: Option<Box<Relay>>,
    /// Hears what the server honours of a subscription.
    acknowledged: Option<watch::Sender<Option<Box<RawValue>>>>,
}

/// What a request expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// An answer, soon.
    Call,
    /// An answer at the end of a long stream of notifications.
    Subscription,
}

/// A request that waits for its answer. Dropped, it waits no longer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: u64,
    pub(super) answer: oneshot::Receiver<Answer>,
    pub(super) progress: Arc<Notify>,
    pub(super) asks: Asks,
    inbox: Arc<Inbox>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.inbox.lock().remove(&self.id);
        if self.asks.is_relayed() {
            self.inbox.forwarded.fetch_sub(1, Ordering::SeqCst);
            self.inbox.drop_asks(self.id);
        }
    }
}

impl Inbox {
    pub(super) fn new(news: Arc<News>, replies: mpsc::Sender<Line>, words: Arc<LastWords>) -> Arc<Inbox> {
        Arc::new(Inbox {
            pending: Mutex::default(),
            closed: CancellationToken::new(),
            why: Mutex::default(),
            news,
            replies,
            asks: Mutex::default(),
            forwarded: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            version: OnceLock::new(),
            words,
            noise: AtomicU64::new(0),
            heard: Mutex::new(Instant::now()),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asks(&self) -> MutexGuard<'_, HashMap<String, Open>> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for the answer to request `id`.
    pub(super) fn register(self: &Arc<Self>, id: u64, patience: Patience, idle: Duration) -> Result<Waiting, Failure> {
        let (answer, progress) = (oneshot::channel(), Arc::new(Notify::new()));
        let pending = Pending { answer: answer.0, progress, patience, idle, relay: None, acknowledged: None };
        self.insert(id, pending, answer.1, Asks::default())
    }

    /// Makes room for the answer to request `id`, which is passed on: its result is kept whole, and
    /// what belongs to it is said to whoever wants to know.
    pub(super) fn register_forwarded(
        self: &Arc<Self>,
        id: u64,
        idle: Duration,
        said: Option<SaidSender>,
        owner: Option<Owner>,
    ) -> Result<Waiting, Failure> {
        let (answer, progress) = (oneshot::channel(), Arc::new(Notify::new()));
        let (relay, asks) = Asks::new(self, said, owner);
        let (patience, relay) = (Patience::Call, Some(Box::new(relay)));
        // Before the request is sent, so that its answer is read as it should be.
        self.forwarded.fetch_add(1, Ordering::SeqCst);
        self.insert(
            id,
            Pending { answer: answer.0, progress, patience, idle, relay, acknowledged: None },
            answer.1,
            asks,
        )
    }

    /// Makes room for the end of subscription `id`, and for what the server says to its beginning.
    pub(super) fn register_subscription(
        self: &Arc<Self>,
        id: u64,
        idle: Duration,
        acknowledged: watch::Sender<Option<Box<RawValue>>>,
    ) -> Result<Waiting, Failure> {
        let (answer, progress) = (oneshot::channel(), Arc::new(Notify::new()));
        let (patience, acknowledged) = (Patience::Subscription, Some(acknowledged));
        let pending = Pending { answer: answer.0, progress, patience, idle, relay: None, acknowledged };
        self.insert(id, pending, answer.1, Asks::default())
    }

    fn insert(
        self: &Arc<Self>,
        id: u64,
        pending: Pending,
        answer: oneshot::Receiver<Answer>,
        asks: Asks,
    ) -> Result<Waiting, Failure> {
        let progress = Arc::clone(&pending.progress);
        self.lock().insert(id, pending);
        let waiting = Waiting { id, answer, progress, asks, inbox: Arc::clone(self) };
        // Only now: a close that came before the insertion has not seen it.
        match self.closed.is_cancelled() {
            true => Err(self.why()),
            false => Ok(waiting),
        }
    }

    /// Ends every request, now and later, with `failure`. The first close counts.
    pub(super) fn close(&self, failure: Failure) {
        {
            let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
            why.get_or_insert_with(|| failure.clone());
        }
        self.closed.cancel();
        let pending = std::mem::take(&mut *self.lock());
        for (_, waiter) in pending {
            let _ = waiter.answer.send(Err(failure.clone()));
        }
    }

    /// Waits until the connection is closed. Why.
    pub(super) async fn closed(&self) -> Failure {
        self.closed.cancelled().await;
        self.why()
    }

    fn why(&self) -> Failure {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone().unwrap_or_else(|| Failure::later("the connection is closed"))
    }

    /// Ends one request.
    pub(super) fn fail(&self, id: u64, failure: Failure) {
        self.answer(id, Err(failure));
    }

    fn answer(&self, id: u64, answer: Answer) -> bool {
        let waiter = self.lock().remove(&id);
        match waiter {
            Some(waiter) => waiter.answer.send(answer).is_ok(),
            None => false,
        }
    }

    pub(super) fn is_pending(&self, id: u64) -> bool {
        self.lock().contains_key(&id)
    }

    /// Is the server at work, as far as can be known? It is not if it has been silent for longer than
    /// any of the answers may take that are waited for.
    pub(super) fn is_busy(&self) -> bool {
        // It waits for a person, and may have nothing else to say.
        if !self.asks().is_empty() {
            return true;
        }
        let silence = self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        self.lock().values().any(|waiter| waiter.patience == Patience::Call && waiter.idle > silence)
    }

    /// The request that an error without an id is about. Not one about a method: servers also refuse
    /// notifications that they do not know.
    fn meant_by(&self, answer: &Result<Payload, RpcError>) -> Option<u64> {
        self.only_pending().filter(|_| answer.as_ref().is_err_and(|error| error.code != METHOD_NOT_FOUND))
    }

    /// The only request that is waited for, if there is only one.
    fn only_pending(&self) -> Option<u64> {
        let pending = self.lock();
        let mut ids = pending.iter().filter(|(_, waiter)| waiter.patience == Patience::Call).map(|(id, _)| *id);
        ids.next().filter(|_| ids.next().is_none())
    }

    /// Takes a message, or a line of noise, and the room that it takes. `asked` is the request whose own answer this is,
    /// on transports where that is known. The next one is not read before this one was understood.
    pub(super) async fn take(&self, line: Cow<'_, [u8]>, charge: Charge, asked: Option<u64>) {
        match line {
            Cow::Owned(line) if line.len() > AT_ONCE_BYTES => self.take_large(line, charge, asked).await,
            line => self.receive(&line, asked),
        }
    }

    async fn take_large(&self, line: Vec<u8>, mut charge: Charge, asked: Option<u64>) {
        self.hear();
        // What is kept of it is a copy.
        let bytes = line.len();
        if let Err(full) = charge.set(2 * bytes).await {
            return self.give_up(&line[..SHOWN_BYTES], full.into(), asked);
        }
        let keep = self.keep();
        let read = work::elsewhere(move |_| {
            let text = line.strip_prefix(BOM).unwrap_or(&line);
            codec::parse(text, keep).ok_or_else(|| text[..SHOWN_BYTES].to_vec())
        });
        match read.await {
            Ok(messages) => {
                charge.shrink(bytes);
                self.deliver(messages, Some(Arc::new(charge)), asked);
            }
            Err(beginning) => self.unreadable(&beginning),
        }
    }

    /// Takes a message that is short enough to be read at once.
    pub(super) fn receive(&self, line: &[u8], asked: Option<u64>) {
        self.hear();
        let line = line.strip_prefix(BOM).unwrap_or(line);
        match codec::parse(line, self.keep()) {
            Some(messages) => self.deliver(messages, None, asked),
            None => self.unreadable(line),
        }
    }

    /// Notes that the server said something.
    fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// How results are to be read now.
    fn keep(&self) -> Keep {
        if self.forwarded.load(Ordering::SeqCst) == 0 { Keep::Parts } else { Keep::Whole }
    }

    /// Gives messages, which take this room, to whoever waits for them.
    fn deliver(&self, messages: Vec<Message>, held: Held, asked: Option<u64>) {
        for message in messages {
            match message {
                Message::Answer { id, mut answer } => {
                    if let Ok(payload) = &mut answer {
                        payload.held.clone_from(&held);
                    }
                    if !self.answer(id, Ok(answer)) {
                        self.count_noise(b"(an answer to no request)");
                    }
                }
                Message::Stray(answer) => match asked.or_else(|| self.meant_by(&answer)) {
                    Some(id) => drop(self.answer(id, Ok(answer))),
                    None => self.count_noise(b"(an answer without an id)"),
                },
                Message::Request { id, method, params } => self.requested(id, method, params, asked),
                Message::Notification { method, params } => self.notified(&method, params, asked),
            }
        }
    }

    /// Takes a line that is no message. If it looks like a broken answer, nobody waits for a better one.
    fn unreadable(&self, line: &[u8]) {
        let beginning = &line[..line.len().min(SHOWN_BYTES)];
        match codec::id_in(beginning).filter(|id| self.is_pending(*id)) {
            Some(id) => {
                let text = String::from_utf8_lossy(beginning).into_owned();
                self.fail(id, Failure::protocol(format!("the server's answer cannot be read: {text}")));
            }
            None => self.count_noise(line),
        }
    }

    /// Says that a message was longer than is read.
    pub(super) fn too_long(&self, beginning: &[u8], max_bytes: usize, asked: Option<u64>) {
        let message = format!("the server sent a message of more than {} MB", max_bytes / (1024 * 1024));
        self.give_up(beginning, Failure::protocol(message), asked);
    }

    /// Says why a message was not read to its end.
    pub(super) fn give_up(&self, beginning: &[u8], failure: Failure, asked: Option<u64>) {
        match asked.or_else(|| codec::id_in(beginning)) {
            Some(id) if self.is_pending(id) => self.fail(id, failure),
            // It may have been anybody's answer, so nobody is left to wait for it.
            _ => {
                let pending = std::mem::take(&mut *self.lock());
                for (_, waiter) in pending {
                    let _ = waiter.answer.send(Err(failure.clone()));
                }
            }
        }
    }

    fn count_noise(&self, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let count = self.noise.fetch_add(1, Ordering::Relaxed) + 1;
        if count <= 10 {
            let text = String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]).into_owned();
            self.words.push(&format!("(on stdout) {text}"));
        }
        tracing::debug!(count, "a server wrote something that is no message");
    }

    /// Takes a request of the server: asks a client, if one is there for it.
    fn requested(&self, id: Box<RawValue>, method: String, params: Option<Box<RawValue>>, stream: Option<u64>) {
        if !ASKABLE.contains(&method.as_str()) || self.forwarded.load(Ordering::SeqCst) == 0 {
            return self.offer_nothing(&id, &method);
        }
        match self.hand_over(&id, &method, params, stream) {
            Handed::Over => {}
            Handed::ToNobody => self.offer_nothing(&id, &method),
            // One answer goes to both.
            Handed::Twice => self.count_noise(b"(a second request with the same id)"),
            Handed::TooMuch => self.refuse(&id, INTERNAL_ERROR, "the client cannot be asked at the moment"),
            Handed::ToEither => {
                self.refuse(&id, INTERNAL_ERROR, "several clients have requests here, and this may be of any of them");
            }
        }
    }

    fn hand_over(&self, id: &RawValue, method: &str, params: Option<Box<RawValue>>, stream: Option<u64>) -> Handed {
        // Held until the question is written down: who gives up its request takes its questions along.
        let pending = self.lock();
        let (request, relay, said) = match listener(&pending, stream) {
            Listener::One(request, relay, said) => (request, relay, said),
            Listener::Nobody => return Handed::ToNobody,
            Listener::Several => return Handed::ToEither,
        };
        let mut asks = self.asks();
        if asks.contains_key(id.get()) {
            return Handed::Twice;
        }
        let params = params.unwrap_or_else(no_params);
        let Ok(permit) = relay.asked.try_reserve() else { return Handed::TooMuch };
        if asks.len() >= MAX_ASKS || params.get().len() > MAX_ASK_BYTES || id.get().len() > MAX_ID_BYTES {
            return Handed::TooMuch;
        }
        let (reply, answer) = oneshot::channel();
        if said.try_send(Said::Ask { method: method.to_owned(), params, reply }).is_err() {
            return Handed::TooMuch;
        }
        let (abort, registration) = AbortHandle::new_pair();
        asks.insert(id.get().to_owned(), Open { request, abort });
        permit.send(Asked { id: id.to_owned(), answer: Abortable::new(answer, registration) });
        Handed::Over
    }

    /// pml itself offers servers nothing but a sign of life.
    fn offer_nothing(&self, id: &RawValue, method: &str) {
        match method {
            "ping" => self.reply(reply_line(id, Ok(serde_json::json!({})))),
            _ => self.refuse(id, METHOD_NOT_FOUND, &format!("pml does not offer `{method}`")),
        }
    }

    fn refuse(&self, id: &RawValue, code: i64, message: &str) {
        let error = RpcError { code, message: message.to_owned(), data: None };
        self.reply(reply_line(id, Err(error)));
    }

    fn reply(&self, line: Line) {
        if self.replies.try_send(line).is_err() {
            tracing::debug!("a server asks faster than it reads; a request stays unanswered");
        }
    }

    /// Sends a client's answer, and returns when it is on its way.
    pub(super) async fn answer_ask(&self, id: &RawValue, answer: Result<serde_json::Value, RpcError>) {
        if self.asks().remove(id.get()).is_some() {
            let _ = self.replies.send(reply_line(id, answer)).await;
        }
    }

    /// Refuses what belongs to a request that is over.
    fn drop_asks(&self, request: u64) {
        let mut over = Vec::new();
        self.asks().retain(|id, open| {
            let is_over = open.request == request;
            if is_over {
                open.abort.abort();
                over.extend(RawValue::from_string(id.clone()));
            }
            !is_over
        });
        for id in over.into_iter().filter(|_| !self.closed.is_cancelled()) {
            self.refuse(&id, INTERNAL_ERROR, "the request that this belongs to is over");
        }
    }

    fn notified(&self, method: &str, params: Option<Box<RawValue>>, stream: Option<u64>) {
        let params = || params.as_deref();
        match method {
            "notifications/progress" => self.progressed(params()),
            "notifications/message" => self.logged(params(), stream),
            "notifications/tools/list_changed" => self.news.tools_changed(),
            "notifications/resources/list_changed" => self.news.resources_changed(),
            "notifications/prompts/list_changed" => self.news.prompts_changed(),
            "notifications/resources/updated" => {
                if let Some(Updated { uri }) = read(params()) {
                    self.news.updated(uri);
                }
            }
            "notifications/subscriptions/acknowledged" => self.acknowledged(params()),
            // The server does not want an answer any more.
            "notifications/cancelled" => {
                if let Some(Cancelled { request_id }) = read(params())
                    && let Some(open) = self.asks().remove(request_id.get())
                {
                    open.abort.abort();
                }
            }
            _ => tracing::trace!(method, "notification"),
        }
    }

    fn progressed(&self, params: Option<&RawValue>) {
        let Some(Progress { progress_token }) = read(params) else { return };
        let pending = self.lock();
        let Some(waiter) = pending.get(&progress_token) else { return };
        waiter.progress.notify_one();
        if let (Some(said), Some(params)) = (waiter.relay.as_ref().and_then(|relay| relay.said.as_ref()), params) {
            self.say(said, params, Said::Progress);
        }
    }

    fn logged(&self, params: Option<&RawValue>, stream: Option<u64>) {
        let Some(params) = params else { return };
        if self.forwarded.load(Ordering::SeqCst) > 0
            && let Listener::One(_, _, said) = listener(&self.lock(), stream)
        {
            return self.say(said, params, Said::Log);
        }
        self.news.logged(params.to_owned());
    }

    /// Says something that may be lost.
    fn say(&self, to: &SaidSender, params: &RawValue, what: impl FnOnce(Box<RawValue>) -> Said) {
        if params.get().len() > MAX_SAID_BYTES || to.try_send(what(params.to_owned())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn acknowledged(&self, params: Option<&RawValue>) {
        let Some(Acknowledged { meta: Subscription { id }, notifications }) = read(params) else { return };
        let id = id.get().trim_matches('"').parse();
        if let Ok(id) = id
            && let Some(acknowledged) = self.lock().get(&id).and_then(|waiter| waiter.acknowledged.as_ref())
        {
            let _ = acknowledged.send_replace(Some(notifications.unwrap_or_else(no_params)));
        }
    }

    /// Notes the version that was agreed on.
    pub(super) fn agreed(&self, version: &'static str) {
        let _ = self.version.set(version);
    }

    pub(super) fn version(&self) -> Option<&'static str> {
        self.version.get().copied()
    }

    /// How much of what the server said nobody took in time.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// How many messages were noise.
    pub(super) fn noise(&self) -> u64 {
        self.noise.load(Ordering::Relaxed)
    }
}

/// What became of a question for a client.
enum Handed {
    Over,
    /// No client listens.
    ToNobody,
    /// It is asked already.
    Twice,
    /// The client has too many, or is too slow, or gone.
    TooMuch,
    /// It may be of one client's request or of another's.
    ToEither,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Progress {
    progress_token: u64,
}

#[derive(Deserialize)]
struct Updated {
    uri: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cancelled<'a> {
    #[serde(borrow)]
    request_id: &'a RawValue,
}

#[derive(Deserialize)]
struct Acknowledged<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Subscription<'a>,
    notifications: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Subscription<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/subscriptionId")]
    id: &'a RawValue,
}

fn read<'a, T: Deserialize<'a>>(params: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(params?.get()).ok()
}

/// Who hears what belongs to no request by itself.
enum Listener<'a> {
    /// No client listens.
    Nobody,
    /// The request that it is taken to belong to.
    One(u64, &'a Relay, &'a SaidSender),
    /// It may belong to the requests of more than one client.
    Several,
}

/// The request that something belongs to which came on the stream of request `stream`, or on none, if
/// a client listens: on none, it is the one that was sent last. That may be a wrong guess, so it is made
/// among the requests of one client only.
fn listener(pending: &HashMap<u64, Pending>, stream: Option<u64>) -> Listener<'_> {
    let listened = |id: u64| {
        let relay = pending.get(&id)?.relay.as_deref()?;
        Some((id, relay, relay.said.as_ref()?))
    };
    let found = match stream {
        Some(id) => listened(id),
        None => {
            let last = pending.keys().filter_map(|id| listened(*id)).max_by_key(|(id, ..)| *id);
            let is_other = |owner: &Option<Owner>| last.is_some_and(|(_, relay, _)| relay.owner != *owner);
            if pending.keys().filter_map(|id| listened(*id)).any(|(_, relay, _)| is_other(&relay.owner)) {
                return Listener::Several;
            }
            last
        }
    };
    found.map_or(Listener::Nobody, |(id, relay, said)| Listener::One(id, relay, said))
}

fn no_params() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The answer to a request of the server.
fn reply_line(id: &RawValue, answer: Result<serde_json::Value, RpcError>) -> Line {
    Line::new(match answer {
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        Err(RpcError { code, message, data }) => {
            let message = serde_json::Value::from(message);
            let data = data.map(|data| format!(r#","data":{data}"#)).unwrap_or_default();
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{data}}}}}"#)
        }
    })
}

/// What a closed connection means for the calls on it.
pub(super) fn stopped() -> Failure {
    Failure::new(ErrorCode::ProviderUnavailable, "the server was stopped", Retry::Later)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox() -> (Arc<Inbox>, Arc<News>, mpsc::Receiver<Line>) {
        let news = Arc::new(News::default());
        let (replies, replied) = mpsc::channel(4);
        (Inbox::new(Arc::clone(&news), replies, Arc::default()), news, replied)
    }

    #[tokio::test]
    async fn answers_find_their_requests() {
        let (inbox, _heard, _replied) = inbox();
        let (one, two) = (
            inbox.register(1, Patience::Call, Duration::from_secs(1)).unwrap(),
            inbox.register(2, Patience::Call, Duration::from_secs(1)).unwrap(),
        );
        inbox.receive(br#"{"id":2,"result":{"n":2}}"#, None);
        inbox.receive(br#"{"id":"1","result":{"n":1}}"#, None);
        inbox.receive(br#"{"id":9,"result":{}}"#, None);
        let mut answers = [0; 2];
        for (index, mut waiting) in [one, two].into_iter().enumerate() {
            let payload = (&mut waiting.answer).await.unwrap().unwrap().unwrap();
            answers[index] = payload.get("n").unwrap();
        }
        assert_eq!(answers, [1, 2]);
        assert_eq!(inbox.noise(), 1);
    }

    #[tokio::test]
    async fn an_error_without_an_id_ends_the_only_request() {
        let (inbox, _heard, _replied) = inbox();
        let mut only = inbox.register(1, Patience::Call, Duration::from_secs(1)).unwrap();
        inbox.receive(br#"{"id":null,"error":{"code":-32700,"message":"what?"}}"#, None);
        assert_eq!((&mut only.answer).await.unwrap().unwrap().unwrap_err().message, "what?");
        let (_one, _two) = (
            inbox.register(2, Patience::Call, Duration::from_secs(1)).unwrap(),
            inbox.register(3, Patience::Call, Duration::from_secs(1)).unwrap(),
        );
        inbox.receive(br#"{"id":null,"error":{"code":-32700,"message":"what?"}}"#, None);
        assert!(inbox.is_pending(2));
    }

    #[tokio::test]
    async fn what_is_no_answer_is_nobodys() {
        let (inbox, _heard, _replied) = inbox();
        let _waiting = inbox.register(3, Patience::Call, Duration::from_secs(1)).unwrap();
        // A log line, a refused notification, a broken log line.
        inbox.receive(br#"{"level":30,"id":3}"#, None);
        inbox.receive(br#"{"id":null,"error":{"code":-32601,"message":"notifications/initialized"}}"#, None);
        inbox.receive(br#"{"level":30,"id":3,"msg":NaN}"#, None);
        assert!(inbox.is_pending(3));
        inbox.receive(br#"{"jsonrpc":"2.0","id":3,"result":{"a":NaN}}"#, None);
        assert!(!inbox.is_pending(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_silent_for_too_long_is_not_at_work() {
        let (inbox, _heard, _replied) = inbox();
        assert!(!inbox.is_busy());
        let _waiting = inbox.register(1, Patience::Call, Duration::from_secs(30)).unwrap();
        assert!(inbox.is_busy());
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(!inbox.is_busy());
        inbox.receive(b"still here", None);
        assert!(inbox.is_busy());
    }

    #[tokio::test]
    async fn closing_ends_every_request_now_and_later() {
        let (inbox, _heard, _replied) = inbox();
        let mut waiting = inbox.register(1, Patience::Call, Duration::from_secs(1)).unwrap();
        inbox.close(stopped());
        assert_eq!((&mut waiting.answer).await.unwrap().unwrap_err(), stopped());
        assert_eq!(inbox.register(2, Patience::Call, Duration::from_secs(1)).unwrap_err(), stopped());
        assert_eq!(inbox.closed().await, stopped());
    }

    #[tokio::test]
    async fn a_servers_own_requests_are_answered() {
        let (inbox, heard, mut replied) = inbox();
        inbox.receive(br#"{"id":"a\"b","method":"ping"}"#, None);
        inbox.receive(br#"{"id":7,"method":"roots/list"}"#, None);
        inbox.receive(br#"{"method":"notifications/tools/list_changed"}"#, None);
        assert_eq!(replied.recv().await.unwrap().as_str(), r#"{"jsonrpc":"2.0","id":"a\"b","result":{}}"#);
        let refusal: serde_json::Value = serde_json::from_str(replied.recv().await.unwrap().as_str()).unwrap();
        assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&7.into(), &(-32601).into()));
        assert!(heard.next().await.tools_changed);
    }

    #[tokio::test]
    async fn what_is_too_large_for_a_client_is_refused_or_counted() {
        let (inbox, heard, mut replied) = inbox();
        let (said, mut client) = mpsc::channel(4);
        let _waiting = inbox.register_forwarded(1, Duration::from_secs(1), Some(said.into()), None).unwrap();
        let long = "x".repeat(MAX_ASK_BYTES);
        inbox.receive(format!(r#"{{"id":"{long}","method":"roots/list"}}"#).as_bytes(), None);
        inbox.receive(format!(r#"{{"id":8,"method":"roots/list","params":{{"a":"{long}"}}}}"#).as_bytes(), None);
        for _ in 0..2 {
            assert!(replied.recv().await.unwrap().as_str().ends_with("at the moment\"}}"));
        }
        inbox.receive(format!(r#"{{"method":"notifications/message","params":{{"data":"{long}"}}}}"#).as_bytes(), None);
        assert_eq!((inbox.dropped(), client.try_recv().is_err()), (1, true));
        // Of what comes on the stream of another request, this one hears nothing.
        inbox.receive(br#"{"method":"notifications/message","params":{"level":"info"}}"#, Some(7));
        assert_eq!(heard.next().await.logs.len(), 1);
        inbox.receive(br#"{"id":9,"method":"roots/list"}"#, Some(7));
        assert!(replied.recv().await.unwrap().as_str().ends_with("does not offer `roots/list`\"}}"));
        inbox.receive(br#"{"id":10,"method":"roots/list"}"#, Some(1));
        assert!(matches!(client.try_recv(), Ok(Said::Ask { .. })));
    }

    #[tokio::test]
    async fn what_may_be_of_two_clients_is_said_to_neither() {
        let (inbox, heard, mut replied) = inbox();
        let (ann, bob) = (Owner::new(Arc::new(1)), Owner::new(Arc::new(1)));
        let (said, mut client) = mpsc::channel(4);
        let register = |id, owner: &Owner| {
            inbox
                .register_forwarded(id, Duration::from_secs(1), Some(said.clone().into()), Some(owner.clone()))
                .unwrap()
        };
        let (_one, _two, three) = (register(1, &ann), register(2, &ann), register(3, &bob));
        let log = br#"{"method":"notifications/message","params":{"level":"info"}}"#;
        let question = br#"{"id":9,"method":"roots/list"}"#;
        inbox.receive(log, None);
        assert_eq!((heard.next().await.logs.len(), client.try_recv().is_err()), (1, true));
        inbox.receive(question, None);
        let refusal: serde_json::Value = serde_json::from_str(replied.recv().await.unwrap().as_str()).unwrap();
        assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&9.into(), &INTERNAL_ERROR.into()));
        inbox.receive(log, Some(1));
        assert!(matches!(client.try_recv(), Ok(Said::Log(_))), "a stream of its own says whose it is");
        drop(three);
        inbox.receive(question, None);
        assert!(matches!(client.try_recv(), Ok(Said::Ask { .. })), "only one client is left");
    }

    #[tokio::test]
    async fn a_message_that_is_too_long_ends_its_request_or_all() {
        let (inbox, _heard, _replied) = inbox();
        let (mut one, mut two) = (
            inbox.register(1, Patience::Call, Duration::from_secs(1)).unwrap(),
            inbox.register(2, Patience::Call, Duration::from_secs(1)).unwrap(),
        );
        inbox.too_long(br#"{"jsonrpc":"2.0","id":1,"result":{"#, 1024 * 1024, None);
        assert_eq!((&mut one.answer).await.unwrap().unwrap_err().code, ErrorCode::ProviderProtocol);
        assert!(inbox.is_pending(2));
        inbox.too_long(br#"{"jsonrpc":"2.0","result":{"#, 1024 * 1024, None);
        assert!((&mut two.answer).await.unwrap().unwrap_err().message.contains("1 MB"));
    }
}
