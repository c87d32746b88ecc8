//! What comes from a server: read, sorted, and given to whoever waits for it.

use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use pml_wire::Line;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::{sync::mpsc, time::Instant};

use super::{
    codec::{self, Message, RpcError},
    failure::Failure,
    news::News,
    payload::Payload,
    pending::{Listener, Requests, listener},
    process::LastWords,
    questions::{ASKABLE, HandOver, MAX_NOTIFICATION_BYTES, MessageSender, Questions, ServerMessage, no_params},
};
use crate::{
    protocol::{
        code::{INTERNAL_ERROR, METHOD_NOT_FOUND},
        method,
    },
    room::{Charge, Held},
    work::{self, AT_ONCE_BYTES},
};

/// The byte order mark, which some servers put in front of everything.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// How much of a broken message is looked at and shown.
const SHOWN_BYTES: usize = 200;

/// The receiving end of one connection.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) requests: Arc<Requests>,
    news: Arc<News>,
    /// Progress and logs that nobody took in time.
    dropped: AtomicU64,
    /// Where noise is kept, for errors.
    words: Arc<LastWords>,
    /// Messages that could not be understood or told apart.
    noise: AtomicU64,
    /// When the server last said anything.
    heard: Mutex<Instant>,
}

impl Inbox {
    pub(super) fn new(news: Arc<News>, replies: mpsc::Sender<Line>, words: Arc<LastWords>) -> Arc<Inbox> {
        Arc::new(Inbox {
            requests: Requests::new(Questions::new(replies)),
            news,
            dropped: AtomicU64::new(0),
            words,
            noise: AtomicU64::new(0),
            heard: Mutex::new(Instant::now()),
        })
    }

    /// Is the server at work, as far as can be known? It is not if it has been silent for longer than
    /// any of the answers may take that are waited for.
    pub(super) fn is_busy(&self) -> bool {
        // The server waits for a person's answer, and may have nothing else to say.
        if self.requests.questions.are_open() {
            return true;
        }
        let silence = self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        self.requests.has_patient_call(silence)
    }

    /// The request that an error without an id is about. Not one about a method: servers also refuse
    /// notifications that they do not know.
    fn meant_by(&self, answer: &Result<Payload, RpcError>) -> Option<u64> {
        self.requests.only_pending().filter(|_| answer.as_ref().is_err_and(|error| error.code != METHOD_NOT_FOUND))
    }

    /// Takes a message, or a line of noise, and the room that the message takes. `asked` is the request on whose own stream
    /// the message arrived, on transports that have such streams. The next message is not read before this one was
    /// understood.
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
        let keep = self.requests.keep();
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
        match codec::parse(line, self.requests.keep()) {
            Some(messages) => self.deliver(messages, None, asked),
            None => self.unreadable(line),
        }
    }

    /// Notes that the server said something.
    fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Gives messages, which take this room, to whoever waits for them.
    fn deliver(&self, messages: Vec<Message>, held: Held, asked: Option<u64>) {
        for message in messages {
            match message {
                Message::Answer { id, mut answer } => {
                    if let Ok(payload) = &mut answer {
                        payload.held.clone_from(&held);
                    }
                    if !self.requests.answer(id, Ok(answer)) {
                        self.count_noise(b"(an answer to no request)");
                    }
                }
                Message::Stray(answer) => match asked.or_else(|| self.meant_by(&answer)) {
                    Some(id) => drop(self.requests.answer(id, Ok(answer))),
                    None => self.count_noise(b"(an answer without an id)"),
                },
                Message::Request { id, method, params } => self.requested(id, method, params, asked),
                Message::Notification { method, params } => self.notified(&method, params, asked),
            }
        }
    }

    /// Takes a line that is no message. A line that looks like a broken answer ends its request: no better one will come.
    fn unreadable(&self, line: &[u8]) {
        let beginning = &line[..line.len().min(SHOWN_BYTES)];
        match codec::id_in(beginning).filter(|id| self.requests.is_pending(*id)) {
            Some(id) => {
                let text = String::from_utf8_lossy(beginning).into_owned();
                self.requests.fail(id, Failure::protocol(format!("the server's answer cannot be read: {text}")));
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
            Some(id) if self.requests.is_pending(id) => self.requests.fail(id, failure),
            // The message may have been the answer to any request, so all of them end.
            _ => self.requests.fail_all(&failure),
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

    /// Takes a request of the server: hands it to the client whose request it belongs to, if there is such a client.
    fn requested(&self, id: Box<RawValue>, method: String, params: Option<Box<RawValue>>, stream: Option<u64>) {
        if !ASKABLE.contains(&method.as_str()) || !self.requests.are_forwarded() {
            return self.requests.questions.offer_nothing(&id, &method);
        }
        // Held until the question is in the table: whoever gives a request up takes its questions along.
        let pending = self.requests.lock();
        let handed = match listener(&pending, stream) {
            Listener::One(request, relay, said) => {
                self.requests.questions.hand_over((&id, &method, params), request, (relay, said))
            }
            Listener::Nobody => return self.requests.questions.offer_nothing(&id, &method),
            Listener::Several => {
                let message = "several clients have requests here, and this may be of any of them";
                return self.requests.questions.refuse(&id, INTERNAL_ERROR, message);
            }
        };
        match handed {
            HandOver::Over => {}
            // One answer goes to both.
            HandOver::Twice => self.count_noise(b"(a second request with the same id)"),
            HandOver::TooMuch => {
                self.requests.questions.refuse(&id, INTERNAL_ERROR, "the client cannot be asked at the moment");
            }
        }
    }

    fn notified(&self, method: &str, params: Option<Box<RawValue>>, stream: Option<u64>) {
        let params = || params.as_deref();
        match method {
            method::PROGRESS => self.progressed(params()),
            method::MESSAGE => self.logged(params(), stream),
            method::TOOLS_CHANGED => self.news.tools_changed(),
            method::RESOURCES_CHANGED => self.news.resources_changed(),
            method::PROMPTS_CHANGED => self.news.prompts_changed(),
            method::RESOURCE_UPDATED => {
                if let Some(Updated { uri }) = read(params()) {
                    self.news.updated(uri);
                }
            }
            method::ACKNOWLEDGED => self.acknowledged(params()),
            // The server does not want an answer any more.
            method::CANCELLED => {
                if let Some(Cancelled { request_id }) = read(params()) {
                    self.requests.questions.withdraw(request_id);
                }
            }
            _ => tracing::trace!(method, "notification"),
        }
    }

    fn progressed(&self, params: Option<&RawValue>) {
        let Some(Progress { progress_token }) = read(params) else { return };
        if let Some(follower) = self.requests.follower(progress_token)
            && let Some(Report { progress, total, message }) = read(params)
        {
            follower.tell(progress, total, message);
        }
        let pending = self.requests.lock();
        let Some(waiter) = pending.get(&progress_token) else { return };
        waiter.progress.notify_one();
        if let (Some(said), Some(params)) = (waiter.relay.as_ref().and_then(|relay| relay.said.as_ref()), params) {
            self.say(said, params, ServerMessage::Progress);
        }
    }

    fn logged(&self, params: Option<&RawValue>, stream: Option<u64>) {
        let Some(params) = params else { return };
        if self.requests.are_forwarded()
            && let Listener::One(_, _, said) = listener(&self.requests.lock(), stream)
        {
            return self.say(said, params, ServerMessage::Log);
        }
        self.news.logged(params.to_owned());
    }

    /// Passes on progress or a log, which are dropped if the client is too slow.
    fn say(&self, to: &MessageSender, params: &RawValue, what: impl FnOnce(Box<RawValue>) -> ServerMessage) {
        if params.get().len() > MAX_NOTIFICATION_BYTES || to.try_send(what(params.to_owned())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn acknowledged(&self, params: Option<&RawValue>) {
        let Some(Acknowledged { meta: Subscription { id }, notifications }) = read(params) else { return };
        let id = id.get().trim_matches('"').parse();
        if let Ok(id) = id
            && let Some(acknowledged) = self.requests.lock().get(&id).and_then(|waiter| waiter.acknowledged.as_ref())
        {
            let _ = acknowledged.send_replace(Some(notifications.unwrap_or_else(no_params)));
        }
    }

    /// How many notifications were dropped since a client was too slow.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// How many messages were noise.
    pub(super) fn noise(&self) -> u64 {
        self.noise.load(Ordering::Relaxed)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Progress {
    progress_token: u64,
}

/// What progress says. Lenient: a server that writes one field badly still lives.
#[derive(Deserialize)]
struct Report {
    #[serde(default, deserialize_with = "lenient")]
    progress: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    total: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    message: Option<String>,
}

/// A field that counts only if it has its type.
fn lenient<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pml_wire::{Delivery, ErrorCode};

    use super::{
        super::{
            failure::{Retry, stopped},
            pending::Patience,
            questions::{MAX_ASK_BYTES, Owner},
        },
        *,
    };

    fn inbox() -> (Arc<Inbox>, Arc<News>, mpsc::Receiver<Line>) {
        let news = Arc::new(News::default());
        let (replies, replied) = mpsc::channel(4);
        (Inbox::new(Arc::clone(&news), replies, Arc::default()), news, replied)
    }

    #[tokio::test]
    async fn answers_find_their_requests() {
        let (inbox, _heard, _replied) = inbox();
        let (one, two) = (
            inbox.requests.register(1, Patience::Call, Duration::from_secs(1)).unwrap(),
            inbox.requests.register(2, Patience::Call, Duration::from_secs(1)).unwrap(),
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
        let mut only = inbox.requests.register(1, Patience::Call, Duration::from_secs(1)).unwrap();
        inbox.receive(br#"{"id":null,"error":{"code":-32700,"message":"what?"}}"#, None);
        assert_eq!((&mut only.answer).await.unwrap().unwrap().unwrap_err().message, "what?");
        let (_one, _two) = (
            inbox.requests.register(2, Patience::Call, Duration::from_secs(1)).unwrap(),
            inbox.requests.register(3, Patience::Call, Duration::from_secs(1)).unwrap(),
        );
        inbox.receive(br#"{"id":null,"error":{"code":-32700,"message":"what?"}}"#, None);
        assert!(inbox.requests.is_pending(2));
    }

    #[tokio::test]
    async fn what_is_no_answer_is_nobodys() {
        let (inbox, _heard, _replied) = inbox();
        let _waiting = inbox.requests.register(3, Patience::Call, Duration::from_secs(1)).unwrap();
        // A log line, a refused notification, a broken log line.
        inbox.receive(br#"{"level":30,"id":3}"#, None);
        inbox.receive(br#"{"id":null,"error":{"code":-32601,"message":"notifications/initialized"}}"#, None);
        inbox.receive(br#"{"level":30,"id":3,"msg":NaN}"#, None);
        assert!(inbox.requests.is_pending(3));
        inbox.receive(br#"{"jsonrpc":"2.0","id":3,"result":{"a":NaN}}"#, None);
        assert!(!inbox.requests.is_pending(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_silent_for_too_long_is_not_at_work() {
        let (inbox, _heard, _replied) = inbox();
        assert!(!inbox.is_busy());
        let _waiting = inbox.requests.register(1, Patience::Call, Duration::from_secs(30)).unwrap();
        assert!(inbox.is_busy());
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(!inbox.is_busy());
        inbox.receive(b"still here", None);
        assert!(inbox.is_busy());
    }

    #[tokio::test]
    async fn closing_ends_every_request_now_and_later() {
        let (inbox, _heard, _replied) = self::inbox();
        let mut waiting = inbox.requests.register(1, Patience::Call, Duration::from_secs(1)).unwrap();
        inbox.requests.close(stopped());
        let in_flight = (&mut waiting.answer).await.unwrap().unwrap_err();
        assert_eq!((&in_flight.message, in_flight.outcome), (&stopped().message, Delivery::Unknown));
        let later = inbox.requests.register(2, Patience::Call, Duration::from_secs(1)).unwrap_err();
        assert_eq!(later.outcome, Delivery::NotSent, "it was never sent");
        let (inbox, _heard, _replied) = self::inbox();
        inbox.requests.close(Failure::new(ErrorCode::ProviderCrashed, "gone", Retry::Later));
        let later = inbox.requests.register(2, Patience::Call, Duration::from_secs(1)).unwrap_err();
        assert_eq!((later.code, later.outcome), (ErrorCode::ProviderCrashed, Delivery::NotSent));
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
        let _waiting = inbox.requests.register_forwarded(1, Duration::from_secs(1), Some(said.into()), None).unwrap();
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
        assert!(matches!(client.try_recv(), Ok(ServerMessage::Ask { .. })));
    }

    #[tokio::test]
    async fn what_may_be_of_two_clients_is_said_to_neither() {
        let (inbox, heard, mut replied) = inbox();
        let (ann, bob) = (Owner::new(Arc::new(1)), Owner::new(Arc::new(1)));
        let (said, mut client) = mpsc::channel(4);
        let register = |id, owner: &Owner| {
            inbox
                .requests
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
        assert!(matches!(client.try_recv(), Ok(ServerMessage::Log(_))), "a stream of its own says whose it is");
        drop(three);
        inbox.receive(question, None);
        assert!(matches!(client.try_recv(), Ok(ServerMessage::Ask { .. })), "only one client is left");
    }

    #[tokio::test]
    async fn a_message_that_is_too_long_ends_its_request_or_all() {
        let (inbox, _heard, _replied) = inbox();
        let (mut one, mut two) = (
            inbox.requests.register(1, Patience::Call, Duration::from_secs(1)).unwrap(),
            inbox.requests.register(2, Patience::Call, Duration::from_secs(1)).unwrap(),
        );
        inbox.too_long(br#"{"jsonrpc":"2.0","id":1,"result":{"#, 1024 * 1024, None);
        assert_eq!((&mut one.answer).await.unwrap().unwrap_err().code, ErrorCode::ProviderProtocol);
        assert!(inbox.requests.is_pending(2));
        inbox.too_long(br#"{"jsonrpc":"2.0","result":{"#, 1024 * 1024, None);
        assert!((&mut two.answer).await.unwrap().unwrap_err().message.contains("1 MB"));
    }
}
