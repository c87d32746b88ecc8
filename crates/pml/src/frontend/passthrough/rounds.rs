//! What a server asks the client while it serves a request.
//!
//! In the earlier era a server asks with a request of its own, and goes on when it is answered. In the new one
//! it ends the request with what it needs to know, and is asked again with the answers. Where client and
//! server are of one era, things are passed on as they are. Where they are not, pml plays the other part:
//! it asks the client and repeats the request, or it answers the client that something is needed and keeps
//! the server's request open until the client comes back.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use pml_wire::{ErrorCode, message::CallError};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep},
};

use super::{
    super::{
        gateway::Frontend,
        results::{Caller, random_id},
        rpc::{self, Era, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY, Reply},
        session::{Scope, level},
        shares::{Client, Share, Shares},
    },
    Passing, begin,
    questions::present,
};
use crate::{
    shown,
    upstream::{RpcError, Said, Upstream, Whole},
};

/// How often one request may be repeated with more answers.
const MAX_ROUNDS: usize = 10;
/// Requests that are kept open for clients that were asked something: at one server, where each takes one of the calls
/// that the server may have at the same time, and in all.
const MAX_PARKED_AT_SERVER: usize = 16;
const MAX_PARKED: usize = 128;
/// How long each is kept open.
const MAX_WAIT: Duration = Duration::from_secs(5 * 60);
/// What the names of requests that are kept open begin with.
const STATE: &str = "pml-";

/// How a request that was passed on ended.
pub(super) enum Ended {
    /// The server answered, or the client must be asked.
    Answer(Result<Reply, RpcError>),
    /// The server never heard of it, or said nothing.
    Refused(CallError),
}

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
    server: String,
    /// What it is about: only a request for the same goes on with it.
    about: String,
    passing: Passing,
    said: mpsc::Receiver<Said>,
    /// What the server waits for, by the names that the client was given.
    open: Vec<Question>,
    asked: usize,
}

struct Question {
    name: String,
    method: String,
    params: Value,
    reply: oneshot::Sender<Result<Value, RpcError>>,
}

impl Conversation {
    pub(super) fn new(about: About<'_>, passing: Passing, said: mpsc::Receiver<Said>) -> Conversation {
        let (server, about) = (about.server.to_owned(), about.what.to_owned());
        Conversation { server, about, passing, said, open: Vec::new(), asked: 0 }
    }

    /// What the client is told: that the server needs to know something.
    fn needs(&self) -> Value {
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
    fn keep(&self, owner: &Caller, client: &Client, conversation: Conversation) -> Option<String> {
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

    fn take(&self, caller: &Caller, state: &str, about: &str) -> Option<Conversation> {
        let mut waiting = self.lock();
        waiting.get(state).filter(|parked| parked.owner == *caller && parked.conversation.about == about)?;
        waiting.remove(state).map(|parked| parked.conversation)
    }

    /// Gives up those whose clients have not come back.
    fn drop_old(&self) {
        self.lock().retain(|_, parked| parked.since.elapsed() < MAX_WAIT);
    }
}

impl Frontend {
    /// The request that a client comes back to, with the answers it brings put in their places.
    pub(super) fn resume(&self, about: About<'_>, params: &Map<String, Value>, scope: &Scope) -> Option<Conversation> {
        let state = params.get("requestState")?.as_str().filter(|state| state.starts_with(STATE))?;
        let mut conversation = self.parked.take(&scope.session.caller, state, about.what)?;
        let empty = Value::Null;
        let answers = params.get("inputResponses").unwrap_or(&empty);
        let (answered, open): (Vec<_>, Vec<_>) =
            conversation.open.drain(..).partition(|question| answers.get(&question.name).is_some());
        for question in answered {
            let answer = answers[&question.name].clone();
            // The server may have given up by now.
            let _ = question.reply.send(Ok(answer));
        }
        conversation.open = open;
        Some(conversation)
    }

    /// Passes a request on. If the server needs to know something, the client is asked in its own way.
    pub(super) async fn in_rounds<F>(
        self: &Arc<Self>,
        about: About<'_>,
        mut params: Map<String, Value>,
        scope: &Scope,
        server: Option<&Upstream>,
        work: impl Fn(Map<String, Value>, mpsc::Sender<Said>) -> F,
    ) -> Ended
    where
        F: Future<Output = Result<Result<Whole, RpcError>, CallError>> + Send + 'static,
    {
        let state = params.get("requestState").and_then(Value::as_str);
        if state.is_some_and(|state| state.starts_with(STATE)) && server.is_none_or(|server| !server.is_modern()) {
            let error = rpc::error(INVALID_PARAMS, "this request is not waited for any more; make it anew");
            return Ended::Answer(Err(error));
        }
        for _ in 0..MAX_ROUNDS {
            let conversation = begin(about, &self.tasks, |relay| work(params.clone(), relay));
            let result = match self.converse(conversation, scope).await {
                Ended::Answer(Ok(result)) => result,
                ended => return ended,
            };
            if scope.era == Era::Modern || result.get("resultType").is_none_or(|kind| kind != "input_required") {
                return Ended::Answer(Ok(result));
            }
            match ask_all(&result.get("inputRequests").unwrap_or_default(), scope).await {
                Ok(answers) => params.insert("inputResponses".to_owned(), answers),
                Err(error) => return Ended::Answer(Err(error)),
            };
            match result.get("requestState") {
                Some(state) => params.insert("requestState".to_owned(), state),
                None => params.remove("requestState"),
            };
        }
        let message = format!("the server asked more than {MAX_ROUNDS} times for more");
        Ended::Refused(CallError::new(ErrorCode::ProviderProtocol, message))
    }

    /// Relays what the server says until it answers, or until a client of the new era must come back.
    pub(super) async fn converse(self: &Arc<Self>, mut conversation: Conversation, scope: &Scope) -> Ended {
        let mut asks = FuturesUnordered::new();
        if scope.era == Era::Modern && !conversation.open.is_empty() {
            return self.park(conversation, scope); // not all that was asked was answered
        }
        loop {
            tokio::select! {
                biased;
                () = scope.cancel.cancelled() => return cancelled(),
                () = self.runs.ended() => return cancelled(),
                said = conversation.said.recv() => match said {
                    Some(Said::Ask { method, params, reply }) => {
                        let mut params: Value = serde_json::from_str(params.get()).unwrap_or_default();
                        present(&conversation.server, &method, &mut params);
                        if let Err(error) = can_be_asked(&method, scope) {
                            // In the new era it is the client's mistake, which it is told.
                            if scope.era == Era::Modern && error.code == MISSING_CAPABILITY {
                                return Ended::Answer(Err(error));
                            }
                            let _ = reply.send(Err(RpcError { code: METHOD_NOT_FOUND, ..error }));
                            continue;
                        }
                        if scope.era == Era::Legacy {
                            asks.push(async move {
                                let answer = scope.ask(&method, params).await;
                                let _ = reply.send(answer);
                            });
                            continue;
                        }
                        conversation.asked += 1;
                        let name = format!("question-{}", conversation.asked);
                        conversation.open.push(Question { name, method, params, reply });
                        drop(asks);
                        return self.park(conversation, scope);
                    }
                    Some(said) => relay(&said, scope),
                    // Nothing more can be said; the answer is there, or will be.
                    None => return ended((&mut conversation.passing).await),
                },
                Some(()) = asks.next(), if !asks.is_empty() => {}
                outcome = &mut conversation.passing => {
                    // What was said before the answer comes before it.
                    while let Ok(said) = conversation.said.try_recv() {
                        relay(&said, scope);
                    }
                    return ended(outcome);
                }
            }
        }
    }

    /// Keeps the server's request open, and tells the client what it needs.
    fn park(self: &Arc<Self>, conversation: Conversation, scope: &Scope) -> Ended {
        let mut told = conversation.needs();
        match self.parked.keep(&scope.session.caller, &scope.session.client, conversation) {
            Some(state) => {
                told["requestState"] = state.into();
                let frontend = Arc::clone(self);
                self.tasks.spawn(async move {
                    tokio::select! {
                        () = sleep(MAX_WAIT) => frontend.parked.drop_old(),
                        () = frontend.runs.ended() => {}
                    }
                });
                Ended::Answer(Ok(told.into()))
            }
            None => {
                let message = "too many requests wait for their clients to come back";
                Ended::Refused(CallError::new(ErrorCode::RateLimited, message))
            }
        }
    }
}

fn cancelled() -> Ended {
    Ended::Refused(CallError::new(ErrorCode::Cancelled, "the request was cancelled"))
}

type Outcome = Result<Result<Result<Reply, RpcError>, CallError>, tokio::task::JoinError>;

fn ended(outcome: Outcome) -> Ended {
    match outcome {
        Ok(Ok(answer)) => Ended::Answer(answer),
        Ok(Err(error)) => Ended::Refused(error),
        Err(_) => cancelled(),
    }
}

/// Tells the client what the server says, if it wants to hear it.
fn relay(said: &Said, scope: &Scope) {
    let (Said::Progress(params) | Said::Log(params)) = said else { return };
    // What is no object is none of these.
    let Ok(params) = serde_json::from_str::<Map<String, Value>>(params.get()) else { return };
    let mut params = Value::Object(params);
    shown::clean(&mut params);
    match said {
        Said::Progress(_) => {
            if let Some(token) = scope.progress_token() {
                params["progressToken"] = token.clone();
                scope.notify("notifications/progress", params);
            }
        }
        _ => {
            let severity = params["level"].as_str().and_then(level);
            // A client of the earlier era that has not said how much it wants gets what the server sends.
            let least = scope.log_level().or((scope.era == Era::Legacy).then_some(0));
            if least.is_some_and(|least| severity.is_none_or(|severity| severity >= least)) {
                scope.notify("notifications/message", params);
            }
        }
    }
}

/// Can the client be asked this?
fn can_be_asked(method: &str, scope: &Scope) -> Result<(), RpcError> {
    let capability = match method {
        "elicitation/create" => "elicitation",
        "sampling/createMessage" => "sampling",
        "roots/list" => "roots",
        _ => return Err(rpc::error(METHOD_NOT_FOUND, format!("there is no method `{method}`"))),
    };
    match scope.capabilities.get(capability).is_some_and(|it| !it.is_null()) {
        true => Ok(()),
        false => Err(RpcError {
            code: MISSING_CAPABILITY,
            message: format!("the client does not offer {capability}"),
            data: Some(json!({ "requiredCapabilities": { capability: {} } })),
        }),
    }
}

/// Asks a client of the earlier era everything that a server of the new one needs to know.
async fn ask_all(requests: &Value, scope: &Scope) -> Result<Value, RpcError> {
    let requests = requests.as_object().into_iter().flatten();
    let asks = requests.map(|(name, request)| async move {
        let method = request["method"].as_str().unwrap_or_default();
        can_be_asked(method, scope)?;
        let answer = scope.ask(method, request.get("params").cloned().unwrap_or_else(|| json!({}))).await?;
        Ok((name.clone(), answer))
    });
    let answers = futures_util::future::try_join_all(asks).await?;
    Ok(Value::Object(answers.into_iter().collect()))
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
