//! What all sessions and requests have in common. In the modern era every request gets its own
//! [`Server`](super::server::Server), so whatever lasts is here.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::sync::broadcast;

use super::dialogue::Answers;

/// A list that is not what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Tools,
    Prompts,
}

/// A dialogue that waits for its next round.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    /// The tool or prompt that asked.
    pub(super) what: String,
    /// The round whose answers are awaited.
    pub(super) round: usize,
    /// What earlier rounds have brought.
    pub(super) answers: Answers,
}

#[derive(Debug)]
pub(super) struct Shared {
    /// Whether the tool that comes and goes is there.
    tool_is_there: AtomicBool,
    prompt_is_there: AtomicBool,
    changes: broadcast::Sender<Change>,
    /// By the `requestState` that the client has to send back. The state is a key and nothing more, so
    /// one that was changed on the way is not found.
    pending: Mutex<HashMap<String, Pending>>,
    next_state: AtomicU64,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            tool_is_there: AtomicBool::default(),
            prompt_is_there: AtomicBool::default(),
            changes: broadcast::Sender::new(16),
            pending: Mutex::default(),
            next_state: AtomicU64::default(),
        }
    }
}

impl Shared {
    /// Adds or removes the tool or the prompt that comes and goes, and tells who listens. The list
    /// really changes: a gateway may look before it passes the word on.
    pub(super) fn change(&self, change: Change) {
        self.is_there(change).fetch_not(Ordering::SeqCst);
        // Nobody may be listening.
        let _ = self.changes.send(change);
    }

    pub(super) fn has_tool(&self) -> bool {
        self.tool_is_there.load(Ordering::SeqCst)
    }

    pub(super) fn has_prompt(&self) -> bool {
        self.prompt_is_there.load(Ordering::SeqCst)
    }

    pub(super) fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Keeps a dialogue, and returns the state by which it is found again.
    pub(super) fn keep(&self, pending: Pending) -> String {
        let state = format!("{}-{}", pending.what, self.next_state.fetch_add(1, Ordering::SeqCst));
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(state.clone(), pending);
        state
    }

    /// The dialogue that `what` was given `state` for.
    pub(super) fn find(&self, what: &str, state: &str) -> Option<Pending> {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.get(state).filter(|pending| pending.what == what).cloned()
    }

    fn is_there(&self, change: Change) -> &AtomicBool {
        match change {
            Change::Tools => &self.tool_is_there,
            Change::Prompts => &self.prompt_is_there,
        }
    }
}
