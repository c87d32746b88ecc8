//! What is known of calls before a program makes them, and the way of an early answer to the call that it is for.
//!
//! A call that is made ahead is a call like any other: it passes through the door, by the same checks, and leaves its lines and its
//! event, marked as speculative. In addition it must be the call of a tool that [only reads](only_reads), by the list that the
//! server gave to this process. The program's own call passes through the door as well, and is given the early answer only at the
//! point where the server would be called, if the tool and the server are still the same.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::{FutureExt as _, future::Shared};
use pml_learn::Prospect;
use pml_wire::{ToolId, message::CallError};
use tokio::sync::oneshot;

use super::{door::Broker, handler::Answer, provider::Backend};
use crate::{
    catalog::{Source, Tool},
    learning::View,
    upstream::Settings,
};

/// Does a trusted server say that the tool changes nothing, and does no more than answer?
pub(super) fn only_reads(tool: &Tool, settings: &Settings) -> bool {
    settings.is_trusted && tool.hints.is_read_only
}

/// What can be known of calls before they are made.
#[derive(Clone, Debug)]
pub struct Foresight {
    /// The door that calls go through.
    pub(super) door: Broker,
    pub(super) view: Arc<View>,
    pub(super) is_on: bool,
}

impl Foresight {
    /// May a call of this tool be made ahead, or beside one that was? Only if a trusted server has said in this process that
    /// the tool reads and does nothing else.
    pub fn only_reads(&self, tool: &ToolId) -> bool {
        let snapshot = self.door.snapshot();
        let listing = snapshot.server_name(tool.server()).and_then(|server| snapshot.listing(server));
        let is_live = listing.is_some_and(|listing| listing.source == Source::Live);
        let found = snapshot.tool(tool).filter(|_| is_live);
        found.zip(self.door.servers.get(tool.server())).is_some_and(|(tool, server)| {
            // A task is something that the server keeps.
            only_reads(tool, server.settings()) && !tool.hints.needs_task
        })
    }

    /// Does the policy allow calls of the tool?
    pub fn allows(&self, tool: &ToolId) -> bool {
        self.door.allows(tool)
    }

    /// What is known of a call of `tool` after calls of these tools, and the calibrated probability of the call.
    pub fn forecast(&self, before: &[&str], tool: &ToolId, is_certain: bool) -> (Prospect, f64) {
        match self.view.learned() {
            None => (Prospect { is_certain, follows: 0.0 }, 0.0),
            Some(learned) => {
                let prospect = learned.prospect(before, tool.as_str(), is_certain);
                (prospect, learned.probability(prospect))
            }
        }
    }

    /// May calls be made ahead? If not, forecasts still tell whether they could be.
    pub fn is_on(&self) -> bool {
        self.is_on
    }
}

/// The answer to a call that was made ahead.
#[derive(Clone, Debug)]
pub struct EarlyAnswer {
    pub(super) answer: Answer,
    /// [`Tool::hash`] of the tool, and [`crate::upstream::Upstream::id`] of the server, that answered.
    pub(super) tool_hash: String,
    pub(super) server: u64,
}

type Outcome = Result<EarlyAnswer, CallError>;

/// An early answer that is there or on its way. Clones lead to the same.
#[derive(Clone, Debug)]
pub struct Early {
    outcome: Shared<oneshot::Receiver<Outcome>>,
    is_used: Arc<AtomicBool>,
}

impl Early {
    /// An answer that is on its way, and what is told of it.
    pub fn new() -> (oneshot::Sender<Outcome>, Early) {
        let (sender, receiver) = oneshot::channel();
        (sender, Early { outcome: receiver.shared(), is_used: Arc::default() })
    }

    /// Waits for the answer. `None` if it failed, or is of another tool or another server than the call is for now.
    pub(super) async fn answer_for(&self, tool: &Tool, backend: &Backend) -> Option<Answer> {
        let Backend::Server(upstream) = backend else { return None };
        let EarlyAnswer { answer, tool_hash, server } = self.outcome.clone().await.ok()?.ok()?;
        let is_same = tool_hash == tool.hash && server == upstream.id() && only_reads(tool, upstream.settings());
        if !is_same {
            return None;
        }
        self.is_used.store(true, Ordering::Relaxed);
        Some(answer)
    }

    /// Was the answer given to the program?
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }
}
