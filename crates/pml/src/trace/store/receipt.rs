//! What becomes of a trace that was submitted.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

use super::{Commit, health::Shared};

/// How long an execution waits for the commit of its trace. The timer counts whole milliseconds and rounds up, so this is
/// a wait of less than 2 ms.
const WAIT: Duration = Duration::from_millis(1);

/// What becomes of a trace that was submitted. Dropping it leaves the trace where it is.
#[derive(Debug)]
#[must_use = "the answer of an execution waits for its commit, if only a moment"]
pub struct Receipt {
    commit: Option<oneshot::Receiver<Commit>>,
    shared: Arc<Shared>,
}

/// How waiting for a commit went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The trace survives the process.
    Committed(Commit),
    /// The trace is still on its way to the disk. Counted.
    Late,
    /// The trace was dropped. Counted.
    Dropped,
}

impl Receipt {
    pub(super) fn new(commit: Option<oneshot::Receiver<Commit>>, shared: Arc<Shared>) -> Receipt {
        Receipt { commit, shared }
    }

    /// Waits for the commit for less than 2 ms; not at all while the store is known to be stuck.
    pub async fn committed(self) -> Waited {
        let Some(mut commit) = self.commit else { return Waited::Dropped };
        let waited = match self.shared.is_stalled.load(Ordering::Relaxed) {
            true => commit.try_recv().map_err(|err| err == oneshot::error::TryRecvError::Empty),
            false => match timeout(WAIT, commit).await {
                Ok(outcome) => outcome.map_err(|_| false),
                Err(_) => Err(true),
            },
        };
        match waited {
            Ok(commit) => Waited::Committed(commit),
            Err(true) => {
                self.shared.late.fetch_add(1, Ordering::Relaxed);
                tracing::debug!("an execution went on before its trace was stored");
                Waited::Late
            }
            Err(false) => Waited::Dropped,
        }
    }

    /// Waits until it is known what became of the trace; `None` if it was dropped.
    pub async fn outcome(self) -> Option<Commit> {
        self.commit?.await.ok()
    }

    /// The same on a thread that may be blocked.
    pub fn blocking_outcome(self) -> Option<Commit> {
        self.commit?.blocking_recv().ok()
    }
}
