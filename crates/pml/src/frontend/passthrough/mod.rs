//! The servers' own tools, resources and prompts, as they are.
//!
//! Requests are passed on and answers given back untouched, but for names: a tool or a prompt is called
//! `server__name`, unless plain names are wanted and only one server has it. Tools go through the broker,
//! as the calls of programs do. What a server asks the client in between is relayed ([`rounds`]) under
//! the server's name ([`questions`]), also where the two are of different eras.

mod lists;
mod names;
mod news;
mod questions;
mod rounds;

use std::sync::{Arc, PoisonError};

use pml_wire::{ErrorCode, ExecutionId, message::CallError};
use serde_json::{Map, Value, json, value::RawValue};
use tokio::sync::mpsc;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::{
    lists::Holders,
    rounds::{About, Conversation, Ended},
};
pub(super) use self::{lists::Lists, rounds::Parked};
use super::{
    gateway::{Frontend, tool_failure},
    rpc::{self, Era, INTERNAL_ERROR, INVALID_PARAMS},
    session::{LEVELS, MAX_WATCHED, Scope, Session},
    surface::unknown_method,
};
use crate::{
    broker::Passthrough,
    shown::visible,
    upstream::{Forward, Kind, Owner, RpcError, Said, Upstream},
};

/// Longest address of a resource that is watched.
pub(super) const MAX_URI_BYTES: usize = 8 * 1024;
/// What servers may say before it is passed on.
const SAID: usize = 256;
/// The keys of `_meta` that are between pml and its client.
const OWN_KEYS: [&str; 3] = ["progressToken", rpc::VERSION_KEY, rpc::CLIENT_KEY];

impl Frontend {
    /// Passes a call of a server's tool on.
    pub(super) async fn pass_call(
        self: &Arc<Self>,
        name: &str,
        params: Map<String, Value>,
        scope: &Scope,
    ) -> Result<Value, RpcError> {
        let tool = match self.passed_tool(name) {
            None => self.first_listed(name).await,
            tool => tool,
        };
        let Some(tool) = tool else {
            return Err(self.unknown_tool(name));
        };
        let about = About { server: tool.id.server(), what: tool.id.as_str() };
        let Some(_running) = self.runs.begin() else { return Ok(ending()) };
        let ended = match self.resume(about, &params, scope) {
            Some(conversation) => self.converse(conversation, scope).await,
            None => {
                let server = self.servers.get(tool.id.server());
                self.in_rounds(about, params, scope, server.as_ref(), |params, relay| {
                    let broker = Arc::clone(&self.broker);
                    let call = Passthrough {
                        execution: ExecutionId::mint(),
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
            Ended::Answer(answer) => answer,
            Ended::Refused(CallError { code: ErrorCode::ToolNotFound, message, .. }) => {
                Err(rpc::error(INVALID_PARAMS, message))
            }
            // What a model can read, it can act on.
            Ended::Refused(error) => Ok(readable(error.code, &error.message)),
        }
    }

    /// Passes on what is not a tool's.
    pub(super) async fn pass(
        self: &Arc<Self>,
        method: &str,
        mut params: Map<String, Value>,
        scope: &Scope,
    ) -> Result<Value, RpcError> {
        match (method, scope.era) {
            ("prompts/list", _) => self.list_passed(Kind::Prompts, &params).await,
            ("resources/list", _) => self.list_passed(Kind::Resources, &params).await,
            ("resources/templates/list", _) => self.list_passed(Kind::ResourceTemplates, &params).await,
            ("prompts/get", _) => {
                let name = text(&params, "name")?;
                let Some((server, prompt)) = self.find_prompt(&name).await else {
                    return Err(rpc::error(INVALID_PARAMS, format!("there is no prompt `{name}`")));
                };
                params.insert("name".to_owned(), prompt.clone().into());
                self.pass_to(&server, method, params, Some(prompt), scope).await
            }
            ("resources/read", _) => {
                let uri = text(&params, "uri")?;
                self.read_passed(&uri, params, scope).await
            }
            ("resources/subscribe", Era::Legacy) => self.subscribe(&text(&params, "uri")?, scope).await,
            ("resources/unsubscribe", Era::Legacy) => {
                scope.session.unwatch(&text(&params, "uri")?);
                Ok(json!({}))
            }
            ("completion/complete", _) => self.complete(params, scope).await,
            _ => Err(unknown_method(method)),
        }
    }

    /// Passes a request on to one server, and relays what that asks meanwhile.
    async fn pass_to(
        self: &Arc<Self>,
        server: &Upstream,
        method: &str,
        params: Map<String, Value>,
        name: Option<String>,
        scope: &Scope,
    ) -> Result<Value, RpcError> {
        let Some(_running) = self.runs.begin() else {
            return Err(rpc::error(INTERNAL_ERROR, "pml is shutting down"));
        };
        let own_name = &server.settings().name;
        let about = format!("{own_name} {method} {}", name.as_deref().unwrap_or_default());
        let about = About { server: own_name, what: &about };
        let ended = match self.resume(about, &params, scope) {
            Some(conversation) => self.converse(conversation, scope).await,
            None => {
                self.in_rounds(about, params, scope, Some(server), |params, relay| {
                    let (server, method, name, meta) =
                        (server.clone(), method.to_owned(), name.clone(), meta_for(scope));
                    let owner = Some(Owner::new(scope.session.clone()));
                    async move {
                        let relay = Some(relay);
                        let forward = Forward {
                            method: &method,
                            params,
                            meta,
                            name: name.as_deref(),
                            headers: Vec::new(),
                            relay,
                            owner,
                        };
                        server.forward(forward).await.map_err(CallError::from)
                    }
                })
                .await
            }
        };
        match ended {
            Ended::Answer(answer) => answer,
            Ended::Refused(error) => Err(refused(error)),
        }
    }

    /// Reads a resource from the server that has it.
    async fn read_passed(
        self: &Arc<Self>,
        uri: &str,
        params: Map<String, Value>,
        scope: &Scope,
    ) -> Result<Value, RpcError> {
        let mut first = None;
        for server in self.holders(uri).await.into_vec() {
            let answer = self.pass_to(&server, "resources/read", params.clone(), Some(uri.to_owned()), scope).await;
            match answer {
                // Somebody else may have it; whoever failed otherwise has not said that it does not.
                Err(error) if [RESOURCE_NOT_FOUND, INVALID_PARAMS].contains(&error.code) => {
                    first.get_or_insert(error);
                }
                answer => return answer,
            }
        }
        let code = if scope.era == Era::Legacy { RESOURCE_NOT_FOUND } else { INVALID_PARAMS };
        let unknown = || RpcError {
            data: Some(json!({ "uri": uri })),
            ..rpc::error(code, format!("there is no resource `{uri}`"))
        };
        Err(first.map_or_else(unknown, |error| resource_error(error, code)))
    }

    async fn subscribe(&self, uri: &str, scope: &Scope) -> Result<Value, RpcError> {
        if uri.len() > MAX_URI_BYTES {
            return Err(rpc::error(INVALID_PARAMS, format!("`uri` has more than {MAX_URI_BYTES} bytes")));
        }
        let mut last = rpc::error(INVALID_PARAMS, format!("no server offers to watch `{uri}`"));
        for server in self.holders(uri).await.into_vec() {
            match server.watch(uri).await {
                Ok(watch) => {
                    return match scope.session.watch(watch) {
                        true => Ok(json!({})),
                        false => {
                            let message = format!("more than {MAX_WATCHED} resources are watched");
                            Err(rpc::error(INVALID_PARAMS, message))
                        }
                    };
                }
                Err(failure) => last = refused(failure.into()),
            }
        }
        Err(last)
    }

    async fn complete(self: &Arc<Self>, mut params: Map<String, Value>, scope: &Scope) -> Result<Value, RpcError> {
        let about = params.get("ref").cloned().unwrap_or_default();
        let server = match about["type"].as_str() {
            Some("ref/prompt") => {
                let name = about["name"].as_str().unwrap_or_default();
                let Some((server, prompt)) = self.find_prompt(name).await else {
                    return Err(rpc::error(INVALID_PARAMS, format!("there is no prompt `{name}`")));
                };
                params["ref"]["name"] = prompt.into();
                Some(server)
            }
            Some("ref/resource") => {
                let uri = about["uri"].as_str().unwrap_or_default();
                match self.holders(uri).await {
                    Holders::One(server) => Some(server),
                    Holders::Any(servers) => servers.into_iter().next(),
                }
            }
            _ => return Err(rpc::error(INVALID_PARAMS, "`ref` must be a `ref/prompt` or a `ref/resource`")),
        };
        match server {
            Some(server) => self.pass_to(&server, "completion/complete", params, None, scope).await,
            None => Err(rpc::error(INVALID_PARAMS, "no server has what is to be completed")),
        }
    }

    /// Tells the servers how much to log: as much as any client that lives wants to hear.
    pub(super) fn pass_level(&self, session: &Arc<Session>, level: usize) {
        let mut levels = self.log_levels.lock().unwrap_or_else(PoisonError::into_inner);
        levels.retain(|(client, _)| client.upgrade().is_some_and(|client| !Arc::ptr_eq(&client, session)));
        levels.push((Arc::downgrade(session), level));
        let least = levels.iter().map(|(_, level)| *level).min().unwrap_or(level);
        drop(levels);
        self.servers.all().iter().for_each(|server| server.set_log_level(LEVELS[least]));
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

/// The code of the earlier era for a resource that is not there.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// Both eras have a code of their own for a resource that is not there.
fn resource_error(mut error: RpcError, code: i64) -> RpcError {
    if error.code == RESOURCE_NOT_FOUND {
        error.code = code;
    }
    error
}

/// A parameter that must be a text.
fn text(params: &Map<String, Value>, key: &str) -> Result<String, RpcError> {
    match params.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(rpc::error(INVALID_PARAMS, format!("`{key}` must be a text"))),
    }
}

/// Why a server never answered, as an error of the protocol.
fn refused(error: CallError) -> RpcError {
    RpcError {
        code: INTERNAL_ERROR,
        message: visible(&error.message).into_owned(),
        data: Some(json!({ "code": error.code, "retryable": error.retryable })),
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

/// A request that was passed on, under way.
pub(super) type Passing = AbortOnDropHandle<Result<Result<Box<RawValue>, RpcError>, CallError>>;

/// Begins a request that may outlive the one it was passed on for.
fn begin<F>(about: About<'_>, tasks: &TaskTracker, work: impl FnOnce(mpsc::Sender<Said>) -> F) -> Conversation
where
    F: Future<Output = Result<Result<Box<RawValue>, RpcError>, CallError>> + Send + 'static,
{
    let (relay, said) = mpsc::channel(SAID);
    Conversation::new(about, AbortOnDropHandle::new(tasks.spawn(work(relay))), said)
}
