//! What becomes of a trace, or of the head of an execution, that was submitted.
//!
//! **Invariant:** what was submitted is written: by whoever waits for it, or by the thread, which is woken when nobody does. A
//! head that was waited for survives the process: it is committed, or in the journal.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

use super::{Commit, engine::Begun, health::Shared, journal::Journal, shared_writer::SharedWriter};

/// How long an execution waits for the commit of its trace. The timer counts whole milliseconds and rounds up, so this is
/// a wait of less than 2 ms.
const WAIT: Duration = Duration::from_millis(1);

/// What becomes of a trace that was submitted. Dropping it leaves the trace where it is.
#[derive(Debug)]
#[must_use = "the answer of an execution waits for its commit, if only a moment"]
pub struct Receipt {
    commit: Option<oneshot::Receiver<Commit>>,
    shared: Arc<Shared>,
    /// Where it is written, until somebody has been told to.
    writer: Option<Arc<SharedWriter>>,
    /// The head, and where it goes if its commit takes too long.
    begun: Option<(Begun, Arc<Journal>)>,
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
        Receipt { commit, shared, writer: None, begun: None }
    }

    /// The trace lies in the queue of this writer, and nobody has been told.
    pub(super) fn with_writer(mut self, writer: Option<Arc<SharedWriter>>) -> Receipt {
        self.writer = writer.filter(|_| self.commit.is_some());
        self
    }

    /// The receipt is that of a head.
    pub(super) fn with_journal(mut self, begun: Begun, journal: Arc<Journal>) -> Receipt {
        self.begun = Some((begun, journal));
        self
    }

    fn write_at_once(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.write_at_once();
        }
    }

    /// Has the thread write it. It can still be waited for.
    pub fn wake(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.queue.ring();
        }
    }

    /// Waits for the commit for less than 2 ms; not at all while the store is known to be stuck. A head that is not committed
    /// by then is in the journal when this returns.
    pub async fn committed(mut self) -> Waited {
        self.write_at_once();
        let mut commit = self.commit.take();
        let waited = self.wait(commit.as_mut()).await;
        if let Some((begun, journal)) = self.begun.take().filter(|_| !matches!(waited, Waited::Committed(_))) {
            journal.append(&begun);
            // Committed meanwhile, it is not settled by the writer.
            if commit.is_some_and(|mut commit| commit.try_recv().is_ok()) {
                journal.settle(std::iter::once(begun.id));
            }
        }
        waited
    }

    async fn wait(&self, commit: Option<&mut oneshot::Receiver<Commit>>) -> Waited {
        let Some(commit) = commit else { return Waited::Dropped };
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
