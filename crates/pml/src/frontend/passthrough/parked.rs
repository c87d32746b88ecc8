//! Requests that go on at a server, and those among them that wait for their client to come back.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pml_wire::{ErrorCode, message::CallError};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::{
    super::{
        results::{Caller, random_id},
        rpc::Reply,
        shares::{Client, Share, Shares},
    },
    questions::present_all,
};
use crate::{
    shown::visible,
    upstream::{Item, RpcError, ServerMessage, Whole},
    work,
};

/// What servers may say before it is passed on.
const SAID: usize = 256;
/// Requests that are kept open for clients that were asked something: at one server, where each takes one of the calls
/// that the server may have at the same time, and in all.
const MAX_PARKED_AT_SERVER: usize = 24;
const MAX_PARKED: usize = 128;
/// How long each is kept open.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(5 * 60);
/// What the names of requests that are kept open begin with.
pub(super) const STATE: &str = "pml-";

/// What a request is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct About<'a> {
    /// The server that it is passed on to.
    pub(super) server: &'a str,
    /// Everything that tells it from other requests.
    pub(super) what: &'a str,
}

/// A request that goes on at a server.
pub(in super::super) struct Conversation {
    pub(super) server: String,
    /// What it is about: only a request for the same goes on with it.
    about: String,
    pub(super) passing: Passing,
    pub(super) said: mpsc::Receiver<ServerMessage>,
    /// What the server waits for, by the names that the client was given.
    pub(super) open: Vec<Question>,
    pub(super) asked: usize,
}

/// What a server asked and waits for.
pub(super) struct Question {
    pub(super) name: String,
    pub(super) method: String,
    pub(super) params: Value,
    pub(super) reply: oneshot::Sender<Result<Value, RpcError>>,
}

impl Conversation {
    fn new(about: About<'_>, passing: Passing, said: mpsc::Receiver<ServerMessage>) -> Conversation {
        let (server, about) = (about.server.to_owned(), about.what.to_owned());
        Conversation { server, about, passing, said, open: Vec::new(), asked: 0 }
    }

    /// What the client is told: that the server needs to know something.
    pub(super) fn needs(&self) -> Value {
        let requests: Map<_, _> = self
            .open
            .iter()
            .map(|question| (question.name.clone(), json!({ "method": question.method, "params": question.params })))
            .collect();
        json!({ "resultType": "input_required", "inputRequests": requests })
    }
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").field("open", &self.open.len()).finish_non_exhaustive()
    }
}

/// Requests that are kept open until their clients come back.
///
/// **Invariant:** each is named by a random text and given to nobody but the caller it is kept for; there are
/// only so many, of which each client has its share, and each only for so long.
#[derive(Debug)]
pub(in super::super) struct Parked {
    waiting: Mutex<HashMap<String, ParkedRequest>>,
    all: Arc<Shares>,
    /// By the names of servers.
    at_servers: Mutex<HashMap<String, Arc<Shares>>>,
}

#[derive(Debug)]
struct ParkedRequest {
    owner: Caller,
    since: Instant,
    conversation: Conversation,
    _shares: [Share; 2],
}

impl Default for Parked {
    fn default() -> Parked {
        Parked { waiting: Mutex::default(), all: Shares::new(MAX_PARKED, 0), at_servers: Mutex::default() }
    }
}

impl Parked {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, ParkedRequest>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a request open. Its name; `None` if the client has its share already.
    pub(super) fn keep(&self, owner: &Caller, client: &Client, conversation: Conversation) -> Option<String> {
        let state = format!("{STATE}{}", random_id()?);
        let at_server = {
            let mut at_servers = self.at_servers.lock().unwrap_or_else(PoisonError::into_inner);
            let shares = at_servers.entry(conversation.server.clone());
            Arc::clone(shares.or_insert_with(|| Shares::new(MAX_PARKED_AT_SERVER, 0)))
        };
        let shares = [self.all.take_now(client)?, at_server.take_now(client)?];
        let parked = ParkedRequest { owner: owner.clone(), since: Instant::now(), conversation, _shares: shares };
        self.lock().insert(state.clone(), parked);
        Some(state)
    }

    pub(super) fn take(&self, caller: &Caller, state: &str, about: &str) -> Option<Conversation> {
        let mut waiting = self.lock();
        waiting.get(state).filter(|parked| parked.owner == *caller && parked.conversation.about == about)?;
        waiting.remove(state).map(|parked| parked.conversation)
    }

    /// Gives up those whose clients have not come back.
    pub(super) fn drop_old(&self) {
        self.lock().retain(|_, parked| parked.since.elapsed() < MAX_WAIT);
    }
}

/// A request that was passed on, under way.
type Passing = AbortOnDropHandle<Result<Result<Reply, RpcError>, CallError>>;

/// Begins a request that may outlive the one it was passed on for.
pub(super) fn begin<F>(
    about: About<'_>,
    tasks: &TaskTracker,
    work: impl FnOnce(mpsc::Sender<ServerMessage>) -> F,
) -> Conversation
where
    F: Future<Output = Result<Result<Whole, RpcError>, CallError>> + Send + 'static,
{
    let (relay, said) = mpsc::channel(SAID);
    let (work, server) = (work(relay), about.server.to_owned());
    let passing = tasks.spawn(async move {
        match work.await? {
            Ok(whole) => reply(whole, server).await.map(Ok),
            // A result is the client's, as it is; the message of an error is only ever shown.
            Err(error) => Ok(Err(RpcError { message: visible(&error.message).into_owned(), ..error })),
        }
    });
    Conversation::new(about, AbortOnDropHandle::new(passing), said)
}

/// A server's result as a reply: as it is, but for questions in it. A large one is taken apart elsewhere.
async fn reply(whole: Whole, server: String) -> Result<Reply, CallError> {
    let Whole { text, held } = whole;
    let bytes = text.get().len();
    let fields = work::sized(bytes, move |_| {
        // A client could not read what nests deeply.
        if pml_wire::json::depth(text.get()) > pml_wire::json::MAX_DEPTH {
            return Err(format!("it is nested more than {} levels deep", pml_wire::json::MAX_DEPTH));
        }
        match serde_json::from_str(text.get()) {
            Ok(Item::Object(mut fields)) => {
                present_all(&server, &mut fields);
                Ok(fields)
            }
            Ok(Item::Other(_)) => Err("it is no object".to_owned()),
            Err(err) => Err(err.to_string()),
        }
    });
    let broken =
        |why: String| CallError::new(ErrorCode::ProviderProtocol, format!("the server's answer is broken: {why}"));
    Ok(Reply::Passed { fields: fields.await.map_err(broken)?, _held: held })
}

#[cfg(test)]
mod tests {
    use tokio_util::task::AbortOnDropHandle;

    use super::*;

    fn conversation(server: &str) -> Conversation {
        let passing = AbortOnDropHandle::new(tokio::spawn(std::future::pending()));
        Conversation::new(About { server, what: "a:b" }, passing, mpsc::channel(1).1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_kept_for_its_caller_and_not_for_ever() {
        let parked = Parked::default();
        let (ann, bob) = (Caller::new("ann"), Caller::new("bob"));
        let keep = |server: &str| parked.keep(&ann, &Client::only(), conversation(server));
        let state = keep("a").unwrap();
        assert!(parked.take(&bob, &state, "a:b").is_none());
        assert!(parked.take(&ann, &state, "a:other").is_none(), "for what it was asked for");
        assert!(parked.take(&ann, &state, "a:b").is_some());
        assert!(parked.take(&ann, &state, "a:b").is_none(), "once");
        for _ in 0..MAX_PARKED_AT_SERVER {
            keep("a").unwrap();
        }
        assert!(keep("a").is_none() && keep("b").is_some(), "a server has calls left for others");
        tokio::time::advance(MAX_WAIT).await;
        parked.drop_old();
        let kept = (0..1000).filter_map(|server| keep(&server.to_string())).count();
        assert_eq!(kept, MAX_PARKED, "what was given up is free again, and there are so many in all");
    }

    #[tokio::test]
    async fn clients_with_the_same_token_have_each_their_share() {
        let parked = Parked::default();
        let caller = Caller::new("http:token");
        let client = |port: usize| Client::new(&caller, [127, 0, 0, 1].into(), &port.to_string());
        let grab = |client: &Client| {
            let kept = || parked.keep(&caller, client, conversation("a"));
            std::iter::from_fn(kept).take(1000).count()
        };
        assert_eq!((grab(&client(1)), grab(&client(2))), (MAX_PARKED_AT_SERVER / 2, MAX_PARKED_AT_SERVER / 4));
        let others: usize = (3..1000).map(|port| grab(&client(port))).sum();
        assert!(others > 0 && others < MAX_PARKED_AT_SERVER / 4, "{others}");
        let elsewhere = Client::new(&caller, [192, 168, 0, 1].into(), "1");
        assert!(grab(&elsewhere) > 0, "some are left for others");
    }
}
