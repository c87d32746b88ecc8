//! What comes from a server, given to whoever waits for it.
//!
//! **Invariant:** every request that is [registered](Inbox::register) ends: with its answer, with
//! a failure, or because its caller gave up. When the connection closes, all of them end.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use pml_wire::ErrorCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    codec::{self, Message, Payload, RpcError},
    failure::{Failure, Retry},
    process::LastWords,
};

const METHOD_NOT_FOUND: i64 = -32601;

/// Some put it in front of everything.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// How much of a broken message is looked at and shown.
const SHOWN_BYTES: usize = 200;

/// What an answer is: the result, the server's error, or what happened instead of an answer.
pub(super) type Answer = Result<Result<Payload, RpcError>, Failure>;

/// What a server says without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    ToolsChanged,
}

/// The receiving end of one connection.
#[derive(Debug)]
pub(super) struct Inbox {
    pending: Mutex<HashMap<u64, Pending>>,
    closed: CancellationToken,
    why: Mutex<Option<Failure>>,
    notices: mpsc::Sender<Notice>,
    /// Answers to the server's own requests go out here.
    replies: mpsc::Sender<Vec<u8>>,
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
    inbox: Arc<Inbox>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.inbox.lock().remove(&self.id);
    }
}

impl Inbox {
    pub(super) fn new(
        notices: mpsc::Sender<Notice>,
        replies: mpsc::Sender<Vec<u8>>,
        words: Arc<LastWords>,
    ) -> Arc<Inbox> {
        Arc::new(Inbox {
            pending: Mutex::default(),
            closed: CancellationToken::new(),
            why: Mutex::default(),
            notices,
            replies,
            words,
            noise: AtomicU64::new(0),
            heard: Mutex::new(Instant::now()),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for the answer to request `id`.
    pub(super) fn register(self: &Arc<Self>, id: u64, patience: Patience, idle: Duration) -> Result<Waiting, Failure> {
        let (sender, answer) = oneshot::channel();
        let progress = Arc::new(Notify::new());
        self.lock().insert(id, Pending { answer: sender, progress: Arc::clone(&progress), patience, idle });
        let waiting = Waiting { id, answer, progress, inbox: Arc::clone(self) };
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

    /// Takes a message, or a line of noise. `asked` is the request whose own answer this is, on
    /// transports where that is known.
    pub(super) fn receive(&self, line: &[u8], asked: Option<u64>) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let line = line.strip_prefix(BOM).unwrap_or(line);
        let Some(messages) = codec::parse(line) else {
            self.unreadable(line);
            return;
        };
        for message in messages {
            match message {
                Message::Answer { id, answer } => {
                    if !self.answer(id, Ok(answer)) {
                        self.count_noise(b"(an answer to no request)");
                    }
                }
                Message::Stray(answer) => match asked.or_else(|| self.meant_by(&answer)) {
                    Some(id) => drop(self.answer(id, Ok(answer))),
                    None => self.count_noise(b"(an answer without an id)"),
                },
                Message::Request { id, method } => self.reply(&id, &method),
                Message::Notification { method, params } => self.notified(&method, params.as_deref()),
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
        let failure = Failure::protocol(message);
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

    /// pml offers servers nothing but a sign of life.
    fn reply(&self, id: &RawValue, method: &str) {
        let body = match method {
            "ping" => r#""result":{}"#.to_owned(),
            _ => {
                let message = serde_json::Value::from(format!("pml does not offer `{method}`"));
                format!(r#""error":{{"code":-32601,"message":{message}}}"#)
            }
        };
        let reply = format!(r#"{{"jsonrpc":"2.0","id":{id},{body}}}"#);
        if self.replies.try_send(reply.into_bytes()).is_err() {
            tracing::debug!(method, "a server asks faster than it reads; a request stays unanswered");
        }
    }

    fn notified(&self, method: &str, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Progress {
            progress_token: u64,
        }
        match method {
            "notifications/progress" => {
                let token = params.and_then(|params| serde_json::from_str::<Progress>(params.get()).ok());
                if let Some(Progress { progress_token }) = token
                    && let Some(waiter) = self.lock().get(&progress_token)
                {
                    waiter.progress.notify_one();
                }
            }
            // Full means that it will be looked at anyway.
            "notifications/tools/list_changed" => drop(self.notices.try_send(Notice::ToolsChanged)),
            _ => tracing::trace!(method, "notification"),
        }
    }

    /// How many messages were noise.
    pub(super) fn noise(&self) -> u64 {
        self.noise.load(Ordering::Relaxed)
    }
}

/// What a closed connection means for the calls on it.
pub(super) fn stopped() -> Failure {
    Failure::new(ErrorCode::ProviderUnavailable, "the server was stopped", Retry::Later)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox() -> (Arc<Inbox>, mpsc::Receiver<Notice>, mpsc::Receiver<Vec<u8>>) {
        let (notices, heard) = mpsc::channel(4);
        let (replies, replied) = mpsc::channel(4);
        (Inbox::new(notices, replies, Arc::default()), heard, replied)
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
        let (inbox, mut heard, mut replied) = inbox();
        inbox.receive(br#"{"id":"a\"b","method":"ping"}"#, None);
        inbox.receive(br#"{"id":7,"method":"roots/list"}"#, None);
        inbox.receive(br#"{"method":"notifications/tools/list_changed"}"#, None);
        assert_eq!(replied.recv().await.unwrap(), br#"{"jsonrpc":"2.0","id":"a\"b","result":{}}"#);
        let refusal: serde_json::Value = serde_json::from_slice(&replied.recv().await.unwrap()).unwrap();
        assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&7.into(), &(-32601).into()));
        assert_eq!(heard.recv().await, Some(Notice::ToolsChanged));
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
