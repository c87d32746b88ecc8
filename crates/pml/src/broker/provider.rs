//! A provider: has tools and serves calls.
//!
//! A server is one provider. Others are parts of pml, registered with [`Broker::provide`] under a name that no server can
//! have ([`RESERVED`]). The broker performs the same steps for each provider: known tool, policy, rate, arguments,
//! audit lines, events. A provider only serves calls that have passed all checks.
//!
//! Tools of a provider are found in the catalogue like those of servers; a provider may have more that are
//! [hidden](Provider::hidden), which can be called but are not in any list, type or search.

use std::{fmt, sync::Arc};

use pml_wire::{CallId, message::CallError};
use serde_json::value::RawValue;

use super::{
    allowance::Allowance,
    door::{Broker, execute},
    foresight::only_reads,
    handler::{Answer, HandlerFuture},
    normalise::JsonTexts,
    notices::Notices,
    sharing::Key,
};
use crate::{
    catalog::{CAPABILITIES, Tool},
    room::Charge,
    trace::Context,
    upstream::{ProgressListener, Upstream},
};

/// The name of the provider of pml's own functions.
pub const OWN: &str = "pml";
/// Names that no server can have.
pub const RESERVED: [&str; 2] = [CAPABILITIES, OWN];

/// A provider: has tools and serves calls.
pub trait Provider: fmt::Debug + Send + Sync {
    /// Serves a checked call. Dropping the future cancels the call.
    fn call<'a>(&'a self, call: ProviderCall<'a>) -> HandlerFuture<'a, Result<Answer, CallError>>;

    /// Looks for tools that the catalogue does not have yet, before a call to an unknown tool is refused.
    fn refresh(&self) -> HandlerFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// A tool that is not listed under this name: one that is in no list, or one that is listed under another name now.
    fn hidden(&self, _name: &str) -> Option<Arc<Tool>> {
        None
    }
}

/// A checked call, as a provider gets it.
#[derive(Debug)]
pub struct ProviderCall<'a> {
    /// The broker that the call came through. Calls that the provider makes for the program pass it too, and so are
    /// subject to the same policy.
    pub door: &'a Broker,
    pub tool: &'a Arc<Tool>,
    /// A JSON object that fits the tool's schema.
    pub args: Box<RawValue>,
    /// The execution that makes the call.
    pub context: &'a Arc<Context>,
    pub id: CallId,
    /// The program wants the text of the result, even if it is JSON.
    pub is_raw: bool,
    /// The remaining budget of the execution and its nested runs.
    pub allowance: &'a Allowance,
    /// Collects warnings about the call.
    pub notices: &'a Notices,
    /// Receives the progress of the call, if wanted.
    pub progress: Option<ProgressListener>,
    /// The call is made ahead of a program: it has nothing to do with calls of others.
    pub(super) is_ahead: bool,
    /// Arguments that are also sent as HTTP headers.
    pub(super) headers: Vec<(String, String)>,
    pub(super) args_sha256: &'a str,
    /// The charge of the arguments to the memory budget.
    pub(super) held: Charge,
}

impl Provider for Upstream {
    fn call<'a>(&'a self, call: ProviderCall<'a>) -> HandlerFuture<'a, Result<Answer, CallError>> {
        Box::pin(async move {
            let ProviderCall {
                door,
                tool,
                args,
                context,
                id,
                is_raw,
                progress,
                is_ahead,
                headers,
                args_sha256,
                held,
                ..
            } = call;
            let settings = self.settings();
            let texts = match settings.parses_json(tool.id.tool()) && !is_raw {
                true => JsonTexts::Read,
                false => JsonTexts::Keep,
            };
            let is_shared = only_reads(tool, settings) && !is_ahead;
            let ttl = settings.cache_ttl.filter(|_| tool.hints.is_idempotent);
            let key = || Key { tool: tool.id.clone(), server: self.id(), args_sha256: args_sha256.to_owned(), texts };
            let traceparent = context.traceparent_of(id);
            let sent = (args, headers, held);
            let room = door.room_of_results();
            let work = execute(self.clone(), Arc::clone(tool), sent, texts, (traceparent, progress), room);
            match is_shared {
                false => work.await,
                true => door.sharing().call(key(), ttl, || Box::pin(work)).await,
            }
        })
    }
}

/// The provider of an admitted tool.
#[derive(Debug)]
pub(super) enum Backend {
    Server(Upstream),
    Own(Arc<dyn Provider>),
}

impl Backend {
    pub(super) fn provider(&self) -> &dyn Provider {
        match self {
            Backend::Server(upstream) => upstream,
            Backend::Own(provider) => &**provider,
        }
    }
}
