//! What becomes of a trace, or of the head of an execution, that was submitted.
//!
//! **Invariant:** the thread that writes is woken for what was submitted, at the latest when its receipt is dropped.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

use super::{Commit, health::Shared, queue::Queue};

/// How long an execution waits for the commit of what is in no journal. The timer counts whole milliseconds and rounds up, so
/// this is a wait of less than 2 ms.
const WAIT: Duration = Duration::from_millis(1);

/// What becomes of a trace that was submitted. Dropping it leaves the trace where it is.
#[derive(Debug)]
#[must_use = "the answer of an execution waits until its trace survives the process"]
pub struct Receipt {
    commit: Option<oneshot::Receiver<Commit>>,
    shared: Arc<Shared>,
    /// Is it in the journal?
    is_kept: bool,
    /// Where it lies, until the thread has been woken.
    queue: Option<Arc<Queue>>,
}

/// How waiting for a trace went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The trace survives the process: the journal has it, or the database.
    Kept,
    /// The trace is still on its way to the disk. Counted.
    Late,
    /// The trace was dropped. Counted.
    Dropped,
}

impl Receipt {
    /// The trace lies in the queue, and nobody has been told.
    pub(super) fn queued(commit: oneshot::Receiver<Commit>, shared: Arc<Shared>, queue: Arc<Queue>) -> Receipt {
        Receipt { commit: Some(commit), shared, is_kept: false, queue: Some(queue) }
    }

    /// The trace found no place in the queue.
    pub(super) fn dropped(shared: Arc<Shared>) -> Receipt {
        Receipt { commit: None, shared, is_kept: false, queue: None }
    }

    /// The journal has it, or not.
    pub(super) fn with_journal(mut self, is_kept: bool) -> Receipt {
        self.is_kept = is_kept;
        self
    }

    /// Is there nothing to wait for?
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Has the thread write it. It can still be waited for.
    pub fn wake(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.ring();
        }
    }

    /// Waits until what was submitted survives the process: not at all if the journal has it, else for the commit. The wait for a
    /// commit takes less than 2 ms, and is left out while the store is known to be stuck.
    pub async fn kept(mut self) -> Waited {
        self.wake();
        if self.is_kept {
            return Waited::Kept;
        }
        let Some(mut commit) = self.commit.take() else { return Waited::Dropped };
        let waited = match self.shared.is_stalled.load(Ordering::Relaxed) {
            true => commit.try_recv().map_err(|err| err == oneshot::error::TryRecvError::Empty),
            false => match timeout(WAIT, commit).await {
                Ok(outcome) => outcome.map_err(|_| false),
                Err(_) => Err(true),
            },
        };
        match waited {
            Ok(_) => Waited::Kept,
            Err(true) => {
                self.shared.late.fetch_add(1, Ordering::Relaxed);
                tracing::debug!("an execution went on before its trace was stored");
                Waited::Late
            }
            Err(false) => Waited::Dropped,
        }
    }

    /// Waits until it is known what became of the trace; `None` if it was dropped.
    pub async fn outcome(mut self) -> Option<Commit> {
        self.wake();
        self.commit.take()?.await.ok()
    }

    /// The same on a thread that may be blocked.
    pub fn blocking_outcome(mut self) -> Option<Commit> {
        self.wake();
        self.commit.take()?.blocking_recv().ok()
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.wake();
    }
}
