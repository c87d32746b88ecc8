//! Something that has tools and answers calls.
//!
//! A server is one provider. Others are parts of pml, registered with [`Broker::provide`] under a name that no server can
//! have ([`RESERVED`]). The broker does for each of them what it does for servers: known tool, policy, rate, arguments,
//! audit lines, events. A provider only answers calls that have passed all of that.
//!
//! Tools of a provider are found in the catalogue like those of servers; a provider may have more that are
//! [hidden](Provider::hidden), which can be called but are not in any list, type or search.

use std::{fmt, sync::Arc};

use pml_wire::{CallId, message::CallError};
use serde_json::value::RawValue;

use super::{
    allowance::Allowance,
    door::{Broker, execute},
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

/// The provider of what programs ask of pml itself.
pub const OWN: &str = "pml";
/// Names that no server can have.
pub const RESERVED: [&str; 2] = [CAPABILITIES, OWN];

/// Something that has tools and answers calls.
pub trait Provider: fmt::Debug + Send + Sync {
    /// Answers a call that was checked. Dropping the future cancels the call.
    fn call<'a>(&'a self, call: ProviderCall<'a>) -> HandlerFuture<'a, Result<Answer, CallError>>;

    /// Looks for tools that the catalogue does not have yet, before a call of an unknown one is refused.
    fn refresh(&self) -> HandlerFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// A tool that is in no list.
    fn hidden(&self, _name: &str) -> Option<Arc<Tool>> {
        None
    }
}

/// A call that was checked, as a provider gets it.
#[derive(Debug)]
pub struct ProviderCall<'a> {
    /// The door that the call came through. What the provider calls on behalf of the program goes through it too, and so is
    /// held to the same policy.
    pub door: &'a Broker,
    pub tool: &'a Arc<Tool>,
    /// A JSON object that fits the tool's schema.
    pub args: Box<RawValue>,
    /// The execution that makes the call.
    pub context: &'a Arc<Context>,
    pub id: CallId,
    /// The program wants the text of the result, also if it is JSON.
    pub is_raw: bool,
    /// What is left to the execution, and to what is run as a part of it.
    pub allowance: &'a Allowance,
    /// Where warnings about the call go.
    pub notices: &'a Notices,
    /// Hears how far the call is, if anybody wants to know.
    pub progress: Option<ProgressListener>,
    /// Of the arguments, for servers that are reached over HTTP.
    pub(super) headers: Vec<(String, String)>,
    pub(super) args_sha256: &'a str,
    /// The room that the arguments take.
    pub(super) held: Charge,
}

impl Provider for Upstream {
    fn call<'a>(&'a self, call: ProviderCall<'a>) -> HandlerFuture<'a, Result<Answer, CallError>> {
        Box::pin(async move {
            let ProviderCall { door, tool, args, context, id, is_raw, progress, headers, args_sha256, held, .. } = call;
            let settings = self.settings();
            let texts = match settings.parses_json(tool.id.tool()) && !is_raw {
                true => JsonTexts::Read,
                false => JsonTexts::Keep,
            };
            let is_shared = settings.is_trusted && tool.hints.is_read_only;
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

/// Whoever answers the calls of an admitted tool.
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
