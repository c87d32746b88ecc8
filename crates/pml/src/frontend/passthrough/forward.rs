//! Requests that are passed on to a server, each through the broker, and their answers.

use std::sync::{Arc, PoisonError};

use pml_wire::{CallId, ErrorCode, message::CallError, trace::Entry};
use serde_json::{Map, Value, json};

use super::{
    super::{
        gateway::{Frontend, tool_failure},
        rpc::{self, Era, INTERNAL_ERROR, INVALID_PARAMS, Reply},
        session::{LEVELS, Scope, Session},
        surface::unknown_method,
    },
    parked::About,
    rounds::RelayEnd,
};
use crate::{
    broker::{Passthrough, Subject, SubjectRequest},
    shown::visible,
    upstream::{Kind, Owner, RpcError, Upstream},
};

/// The keys of `_meta` that are between pml and its client.
const OWN_KEYS: [&str; 3] = ["progressToken", rpc::VERSION_KEY, rpc::CLIENT_KEY];

impl Frontend {
    /// Passes a call of a server's tool on.
    pub(in super::super) async fn pass_call(
        self: &Arc<Self>,
        name: &str,
        params: Map<String, Value>,
        scope: &Scope,
    ) -> Result<Reply, RpcError> {
        let tool = match self.passed_tool(name) {
            None => self.first_listed(name).await,
            tool => tool,
        };
        let Some(tool) = tool else {
            return Err(self.unknown_tool(name));
        };
        let about = About { server: tool.id.server(), what: tool.id.as_str() };
        let Some(_running) = self.shared.runs.begin() else { return Ok(ending().into()) };
        let ended = match self.resume(about, &params, scope) {
            Some(conversation) => self.converse(conversation, scope).await,
            None => {
                let server = self.shared.servers.get(tool.id.server());
                self.in_rounds(about, params, scope, server.as_ref(), |params, relay| {
                    let broker = Arc::clone(&self.broker);
                    let call = Passthrough {
                        context: Arc::new(scope.context(Entry::Passthrough)),
                        tool: tool.id.clone(),
                        params,
                        meta: meta_for(scope),
                        relay: Some(relay),
                        owner: Some(Owner::new(scope.session.clone())),
                    };
                    async move { broker.forward(call).await }
                })
                .await
            }
        };
        match ended {
            RelayEnd::Answer(answer) => answer,
            RelayEnd::Refused(CallError { code: ErrorCode::ToolNotFound, message, .. }) => {
                Err(rpc::error(INVALID_PARAMS, message))
            }
            // What a model can read, it can act on.
            RelayEnd::Refused(error) => Ok(readable(error.code, &error.message).into()),
        }
    }

    /// Passes on what is not a tool's.
    pub(in super::super) async fn pass(
        self: &Arc<Self>,
        method: &str,
        mut params: Map<String, Value>,
        scope: &Scope,
    ) -> Result<Reply, RpcError> {
        match (method, scope.era) {
            ("prompts/list", _) => self.list_passed(Kind::Prompts, &params).await.map(Reply::from),
            ("resources/list", _) => self.list_passed(Kind::Resources, &params).await.map(Reply::from),
            ("resources/templates/list", _) => {
                self.list_passed(Kind::ResourceTemplates, &params).await.map(Reply::from)
            }
            ("prompts/get", _) => {
                let name = text(&params, "name")?;
                let Some((server, prompt)) = self.find_prompt(&name).await else {
                    return Err(rpc::error(INVALID_PARAMS, format!("there is no prompt `{name}`")));
                };
                params.insert("name".to_owned(), prompt.as_str().into());
                let subject = Subject::prompt(&server.settings().name, prompt);
                self.pass_to(&server, "prompts/get", params, subject, scope).await
            }
            ("resources/read", _) => self.read_passed(params, scope).await,
            ("resources/subscribe", Era::Legacy) => {
                self.watch(&text(&params, "uri")?, &scope.session.watches, scope).await?;
                Ok(json!({}).into())
            }
            ("resources/unsubscribe", Era::Legacy) => {
                scope.session.watches.remove(&text(&params, "uri")?);
                Ok(json!({}).into())
            }
            ("completion/complete", _) => self.complete(params, scope).await,
            _ => Err(unknown_method(method)),
        }
    }

    /// Passes a request on to one server, and relays what that asks meanwhile.
    pub(super) async fn pass_to(
        self: &Arc<Self>,
        server: &Upstream,
        method: &'static str,
        params: Map<String, Value>,
        subject: Subject,
        scope: &Scope,
    ) -> Result<Reply, RpcError> {
        let Some(_running) = self.shared.runs.begin() else {
            return Err(rpc::error(INTERNAL_ERROR, "pml is shutting down"));
        };
        let about = format!("{method} {subject}");
        let about = About { server: &subject.server, what: &about };
        let ended = match self.resume(about, &params, scope) {
            Some(conversation) => self.converse(conversation, scope).await,
            None => {
                self.in_rounds(about, params, scope, Some(server), |params, relay| {
                    let broker = Arc::clone(&self.broker);
                    let request = SubjectRequest {
                        context: Arc::new(scope.context(Entry::Passthrough)),
                        id: CallId(1),
                        subject: subject.clone(),
                        method,
                        params,
                        meta: meta_for(scope),
                        relay: Some(relay),
                        owner: Some(Owner::new(scope.session.clone())),
                    };
                    async move { broker.forward_about(request).await }
                })
                .await
            }
        };
        match ended {
            RelayEnd::Answer(answer) => answer,
            RelayEnd::Refused(error) => Err(refused(error)),
        }
    }

    /// Tells the servers how much to log: as much as any client that lives wants to hear.
    pub(in super::super) fn pass_level(&self, session: &Arc<Session>, level: usize) {
        let mut levels = self.shared.log_levels.lock().unwrap_or_else(PoisonError::into_inner);
        levels.retain(|(client, _)| client.upgrade().is_some_and(|client| !Arc::ptr_eq(&client, session)));
        levels.push((Arc::downgrade(session), level));
        let least = levels.iter().map(|(_, level)| *level).min().unwrap_or(level);
        drop(levels);
        self.shared.servers.all().iter().for_each(|server| server.set_log_level(LEVELS[least]));
    }
}

/// A refusal as a model reads it. Without a structured form, which some clients would hold against the tool's own
/// schema.
fn readable(code: ErrorCode, message: &str) -> Value {
    let mut failure = tool_failure(code, message, None);
    if let Value::Object(failure) = &mut failure {
        failure.remove("structuredContent");
    }
    failure
}

/// What a call is answered when no more are taken.
fn ending() -> Value {
    readable(ErrorCode::ShuttingDown, "pml is shutting down")
}

/// A parameter that must be a text.
pub(super) fn text(params: &Map<String, Value>, key: &str) -> Result<String, RpcError> {
    match params.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(rpc::error(INVALID_PARAMS, format!("`{key}` must be a text"))),
    }
}

/// Why a server never answered, as an error of the protocol.
pub(super) fn refused(error: CallError) -> RpcError {
    RpcError {
        code: INTERNAL_ERROR,
        message: visible(&error.message).into_owned(),
        data: Some(json!({ "code": error.code, "retryable": error.retryable, "outcome": error.outcome })),
    }
}

/// What the server hears of what the client says about its request.
fn meta_for(scope: &Scope) -> Map<String, Value> {
    let mut meta = scope.meta.clone();
    OWN_KEYS.iter().for_each(|key| drop(meta.remove(*key)));
    meta.insert(rpc::CAPABILITIES_KEY.to_owned(), scope.capabilities.clone());
    if let Some(level) = scope.log_level() {
        meta.insert(rpc::LOG_LEVEL_KEY.to_owned(), LEVELS[level].into());
    }
    meta
}
