//! What a server asks the client while it serves a request.
//!
//! In the earlier era a server asks with a request of its own, and goes on when it is answered. In the new one
//! it ends the request with what it needs to know, and is asked again with the answers. Where client and
//! server are of one era, things are passed on as they are. Where they are not, pml plays the other part:
//! it asks the client and repeats the request, or it answers the client that something is needed and keeps
//! the server's request open until the client comes back.

use std::{future::Future, sync::Arc};

use futures_util::{StreamExt, stream::FuturesUnordered};
use pml_wire::{ErrorCode, message::CallError};
use serde_json::{Map, Value, json};
use tokio::{sync::mpsc, time::sleep};

use super::{
    super::{
        gateway::Frontend,
        rpc::{self, Era, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY, Reply},
        session::{Scope, level},
    },
    parked::{About, Conversation, MAX_WAIT, Question, STATE, begin},
    questions::present,
};
use crate::{
    shown,
    upstream::{RpcError, ServerMessage, Upstream, Whole},
};

/// How often one request may be repeated with more answers.
const MAX_ROUNDS: usize = 10;

/// How a request that was passed on ended.
pub(super) enum RelayEnd {
    /// The server answered, or the client must be asked.
    Answer(Result<Reply, RpcError>),
    /// The server never heard of it, or said nothing.
    Refused(CallError),
}

impl Frontend {
    /// The request that a client comes back to, with the answers it brings put in their places.
    pub(super) fn resume(&self, about: About<'_>, params: &Map<String, Value>, scope: &Scope) -> Option<Conversation> {
        let state = params.get("requestState")?.as_str().filter(|state| state.starts_with(STATE))?;
        let mut conversation = self.shared.parked.take(&scope.session.caller, state, about.what)?;
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
        work: impl Fn(Map<String, Value>, mpsc::Sender<ServerMessage>) -> F,
    ) -> RelayEnd
    where
        F: Future<Output = Result<Result<Whole, RpcError>, CallError>> + Send + 'static,
    {
        let state = params.get("requestState").and_then(Value::as_str);
        if state.is_some_and(|state| state.starts_with(STATE)) && server.is_none_or(|server| !server.is_modern()) {
            let error = rpc::error(INVALID_PARAMS, "this request is not waited for any more; make it anew");
            return RelayEnd::Answer(Err(error));
        }
        for _ in 0..MAX_ROUNDS {
            let conversation = begin(about, &self.shared.tasks, |relay| work(params.clone(), relay));
            let result = match self.converse(conversation, scope).await {
                RelayEnd::Answer(Ok(result)) => result,
                ended => return ended,
            };
            if scope.era == Era::Modern || result.get("resultType").is_none_or(|kind| kind != "input_required") {
                return RelayEnd::Answer(Ok(result));
            }
            match ask_all(&result.get("inputRequests").unwrap_or_default(), scope).await {
                Ok(answers) => params.insert("inputResponses".to_owned(), answers),
                Err(error) => return RelayEnd::Answer(Err(error)),
            };
            match result.get("requestState") {
                Some(state) => params.insert("requestState".to_owned(), state),
                None => params.remove("requestState"),
            };
        }
        let message = format!("the server asked more than {MAX_ROUNDS} times for more");
        RelayEnd::Refused(CallError::new(ErrorCode::ProviderProtocol, message))
    }

    /// Relays what the server says until it answers, or until a client of the new era must come back.
    pub(super) async fn converse(self: &Arc<Self>, mut conversation: Conversation, scope: &Scope) -> RelayEnd {
        let mut asks = FuturesUnordered::new();
        if scope.era == Era::Modern && !conversation.open.is_empty() {
            return self.park(conversation, scope); // not all that was asked was answered
        }
        loop {
            tokio::select! {
                biased;
                () = scope.cancel.cancelled() => return cancelled(),
                () = self.shared.runs.ended() => return cancelled(),
                said = conversation.said.recv() => match said {
                    Some(ServerMessage::Ask { method, params, reply }) => {
                        let mut params: Value = serde_json::from_str(params.get()).unwrap_or_default();
                        present(&conversation.server, &method, &mut params);
                        if let Err(error) = can_be_asked(&method, scope) {
                            // In the new era it is the client's mistake, which it is told.
                            if scope.era == Era::Modern && error.code == MISSING_CAPABILITY {
                                return RelayEnd::Answer(Err(error));
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
    fn park(self: &Arc<Self>, conversation: Conversation, scope: &Scope) -> RelayEnd {
        let mut told = conversation.needs();
        match self.shared.parked.keep(&scope.session.caller, &scope.session.client, conversation) {
            Some(state) => {
                told["requestState"] = state.into();
                let frontend = Arc::clone(self);
                self.shared.tasks.spawn(async move {
                    tokio::select! {
                        () = sleep(MAX_WAIT) => frontend.shared.parked.drop_old(),
                        () = frontend.shared.runs.ended() => {}
                    }
                });
                RelayEnd::Answer(Ok(told.into()))
            }
            None => {
                let message = "too many requests wait for their clients to come back";
                RelayEnd::Refused(CallError::new(ErrorCode::RateLimited, message))
            }
        }
    }
}

fn cancelled() -> RelayEnd {
    RelayEnd::Refused(CallError::new(ErrorCode::Cancelled, "the request was cancelled"))
}

type Outcome = Result<Result<Result<Reply, RpcError>, CallError>, tokio::task::JoinError>;

fn ended(outcome: Outcome) -> RelayEnd {
    match outcome {
        Ok(Ok(answer)) => RelayEnd::Answer(answer),
        Ok(Err(error)) => RelayEnd::Refused(error),
        Err(_) => cancelled(),
    }
}

/// Tells the client what the server says, if it wants to hear it.
fn relay(said: &ServerMessage, scope: &Scope) {
    let (ServerMessage::Progress(params) | ServerMessage::Log(params)) = said else { return };
    // What is no object is none of these.
    let Ok(params) = serde_json::from_str::<Map<String, Value>>(params.get()) else { return };
    let mut params = Value::Object(params);
    shown::clean(&mut params);
    match said {
        ServerMessage::Progress(_) => {
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
