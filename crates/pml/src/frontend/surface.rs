//! The MCP methods: dispatches each request and returns its response.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use pml_wire::ErrorCode;
use serde_json::{Map, Value, json};

use super::{
    gateway::{Expose, Frontend, tool_failure},
    rpc::{self, Era, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MODERN, Reply, Request},
    session::{LEVELS, Scope, Session, client_of, level},
    tools::{self, EXECUTE, Execute, READ, SEARCH, WORKFLOW},
};
use crate::{
    catalog::nearest,
    shown,
    upstream::{RpcError, Upstream},
    work,
};

/// How long a cancelled request may take to end by itself.
const CANCEL: Duration = Duration::from_millis(500);

impl Frontend {
    /// Serves one request. Dropping the future cancels its work.
    pub(super) async fn serve(self: &Arc<Self>, request: Request, scope: &Scope) -> Result<Reply, RpcError> {
        let Request { method, params, .. } = request;
        let mut result = self.dispatch(&method, params, scope).await?;
        rpc::finish(scope.era, &method, &mut result);
        Ok(result)
    }

    /// Serves one request; `None` if it was cancelled. A cancelled request has a moment to end
    /// in order.
    pub(super) async fn serve_until_cancelled(
        self: &Arc<Self>,
        request: Request,
        scope: &Scope,
    ) -> Option<Result<Reply, RpcError>> {
        // A panic in pml must not leave a client without a response.
        let serving = AssertUnwindSafe(self.serve(request, scope)).catch_unwind();
        let serving = serving.map(|served| {
            served.unwrap_or_else(|_| Err(rpc::error(INTERNAL_ERROR, "pml has failed at this; its log says why")))
        });
        let mut serving = std::pin::pin!(serving);
        tokio::select! {
            outcome = &mut serving => return Some(outcome).filter(|_| !scope.cancel.is_cancelled()),
            () = scope.cancel.cancelled() => {}
        }
        let _ = tokio::time::timeout(CANCEL, serving).await;
        None
    }

    async fn dispatch(
        self: &Arc<Self>,
        method: &str,
        params: Map<String, Value>,
        scope: &Scope,
    ) -> Result<Reply, RpcError> {
        let own = match (method, scope.era) {
            ("initialize", Era::Legacy) => self.initialize(&params, &scope.session),
            ("server/discover", Era::Modern) => Ok(json!({
                "supportedVersions": [MODERN],
                "capabilities": self.capabilities(),
                "instructions": self.instructions(),
                "serverInfo": rpc::server_info(),
            })),
            ("ping", Era::Legacy) => Ok(json!({})),
            ("tools/list", _) => self.list_tools(&params).await,
            ("tools/call", _) => return self.call_tool(params, scope).await,
            ("logging/setLevel", Era::Legacy) => self.set_level(&params, scope),
            ("subscriptions/listen", Era::Modern) => self.listen(&params, scope).await,
            _ if self.passes_through() => return self.pass(method, params, scope).await,
            _ => Err(unknown_method(method)),
        };
        own.map(Reply::from)
    }

    pub(super) fn passes_through(&self) -> bool {
        self.shared.expose != Expose::Code
    }

    /// Can the lists of tools, resources and prompts change?
    pub(super) fn announces(&self) -> bool {
        self.passes_through() || !self.shared.exposed.is_empty()
    }

    /// Are pml's own tools offered?
    pub(super) fn has_own_tools(&self) -> bool {
        self.shared.expose != Expose::Passthrough
    }

    fn capabilities(&self) -> Value {
        match self.passes_through() {
            false if self.shared.exposed.is_empty() => json!({ "tools": {}, "logging": {} }),
            false => json!({ "tools": { "listChanged": true }, "logging": {} }),
            true => json!({
                "tools": { "listChanged": true },
                "resources": { "subscribe": true, "listChanged": true },
                "prompts": { "listChanged": true },
                "completions": {},
                "logging": {},
            }),
        }
    }

    /// Opens a session in the newest version that both sides support.
    fn initialize(&self, params: &Map<String, Value>, session: &Session) -> Result<Value, RpcError> {
        let wanted = rpc::wanted_version(params)?;
        let version = rpc::LEGACY.into_iter().find(|known| *known == wanted).unwrap_or(rpc::LEGACY[0]);
        session.set_capabilities(params.get("capabilities").cloned().unwrap_or_else(|| json!({})));
        if self.announces() {
            self.bulletin(session); // the client hears of every change from here on
        }
        session.introduce(version, params.get("clientInfo").and_then(client_of));
        if let Some(client) = params.get("clientInfo") {
            tracing::info!(client = %client["name"], version = %client["version"], protocol = version, "a client began");
        }
        Ok(json!({
            "protocolVersion": version,
            "capabilities": self.capabilities(),
            "serverInfo": rpc::server_info(),
            "instructions": self.instructions(),
        }))
    }

    async fn list_tools(&self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        one_page(params)?;
        let mut list = if self.has_own_tools() { tools::all() } else { Vec::new() };
        list.extend(self.exposed_tools().await);
        if self.passes_through() {
            // Some clients read the list only once.
            self.broker.learn(None).await;
            list.extend(self.passed_tools().await);
        }
        Ok(json!({ "tools": list }))
    }

    /// The error for a call to an unknown tool.
    pub(super) fn unknown_tool(&self, name: &str) -> RpcError {
        let own = self.has_own_tools().then_some(tools::NAMES).into_iter().flatten();
        let passed = self.passed_names();
        let near = nearest(name, own.chain(passed.iter().map(String::as_str)));
        let hint = match near.as_slice() {
            [] if !self.passes_through() => format!("; tools of servers are called in {EXECUTE}"),
            [] => String::new(),
            near => format!("; did you mean `{}`?", near.join("`, `")),
        };
        rpc::error(INVALID_PARAMS, format!("there is no tool `{name}`{hint}"))
    }

    async fn call_tool(self: &Arc<Self>, mut params: Map<String, Value>, scope: &Scope) -> Result<Reply, RpcError> {
        let name = match params.get("name") {
            Some(Value::String(name)) => name.clone(),
            _ => return Err(rpc::error(INVALID_PARAMS, "`name` must be the name of a tool")),
        };
        let is_own = self.has_own_tools() && tools::is_own(&name);
        let exposed = self.exposed(&name).filter(|_| !is_own);
        if !is_own && exposed.is_none() && self.passes_through() {
            return self.pass_call(&name, params, scope).await;
        }
        if !is_own && exposed.is_none() {
            return Err(self.unknown_tool(&name));
        }
        let arguments = match params.remove("arguments") {
            Some(Value::Object(arguments)) => arguments,
            None | Some(Value::Null) => Map::new(),
            Some(_) => return Err(rpc::error(INVALID_PARAMS, "`arguments` must be an object")),
        };
        let wrong = |message: String| tool_failure(ErrorCode::InvalidArguments, &message, None);
        // A model can correct its arguments, so invalid arguments are a tool result with `isError`, not a JSON-RPC error.
        let mut answer = match name.as_str() {
            _ if let Some(capability) = exposed => {
                Box::pin(self.execute(Execute::of(capability, arguments), scope)).await
            }
            EXECUTE => match tools::parse(EXECUTE, arguments) {
                Ok(arguments) => Box::pin(self.execute(arguments, scope)).await,
                Err(message) => wrong(message),
            },
            WORKFLOW => match tools::parse(WORKFLOW, arguments) {
                Ok(arguments) => Box::pin(self.execute_workflow(arguments, scope)).await,
                Err(message) => wrong(message),
            },
            READ => match tools::parse(READ, arguments) {
                Ok(arguments) => self.read(arguments, &scope.session.caller).await,
                Err(message) => wrong(message),
            },
            _ => match tools::parse(SEARCH, arguments) {
                Ok(arguments) => self.search(arguments, scope).await,
                Err(message) => wrong(message),
            },
        };
        // Each tool escapes its own texts; this catches any invisible character that is left.
        let answer = work::weighed(work::is_heavy(&answer), move |_| {
            shown::clean(&mut answer);
            answer
        });
        Ok(answer.await.into())
    }

    fn set_level(&self, params: &Map<String, Value>, scope: &Scope) -> Result<Value, RpcError> {
        let name = params.get("level").and_then(Value::as_str).unwrap_or_default();
        let Some(number) = level(name) else {
            return Err(rpc::error(INVALID_PARAMS, format!("`level` must be one of {}", LEVELS.join(", "))));
        };
        scope.session.set_log_level(number);
        if self.passes_through() {
            self.pass_level(&scope.session, number);
        }
        Ok(json!({}))
    }

    /// Handles a notification.
    pub(super) fn notified(&self, method: &str, params: &Map<String, Value>, session: &Session) {
        match method {
            "notifications/cancelled" => {
                if let Some(id) = params.get("requestId") {
                    session.cancel(id);
                }
            }
            "notifications/initialized" => session.initialized.cancel(),
            "notifications/roots/list_changed" if self.passes_through() => {
                let servers = self.shared.servers.all();
                let shown = servers.iter().filter(|server| self.broker.shows_server(&server.settings().name));
                shown.for_each(Upstream::roots_changed);
            }
            _ => tracing::debug!(method, "a notification that changes nothing"),
        }
    }
}

/// All lists have a single page.
pub(super) fn one_page(params: &Map<String, Value>) -> Result<(), RpcError> {
    match params.get("cursor") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(rpc::error(INVALID_PARAMS, "there is no such page: the list has only one")),
    }
}

pub(super) fn unknown_method(method: &str) -> RpcError {
    let mut method = method.to_owned();
    method.truncate(method.floor_char_boundary(100));
    rpc::error(METHOD_NOT_FOUND, format!("there is no method `{method}`"))
}
