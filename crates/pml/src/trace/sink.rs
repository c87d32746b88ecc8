//! Where finished traces go.
//!
//! A record submits its trace to a [`Sink`], which keeps it in a journal, or starts to store it. In the second case the entry waits for the
//! [`Receipt`], less than 2 ms, so that an execution with a response has its trace even after `kill -9`.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use pml_wire::trace::Trace;
use tokio::{sync::oneshot, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{TraceHead, store};

/// Longest wait of a response for a trace that is still being sanitized. The timer counts whole milliseconds and rounds up.
const WAIT: Duration = Duration::from_millis(1);

/// Accepts the traces of executions. No method blocks.
pub trait Sink: Debug + Send + Sync {
    /// An execution has begun. The receipt resolves when the announcement is stored.
    fn begin(&self, head: TraceHead) -> Receipt;

    /// An execution has ended. The receipt resolves when the trace is stored.
    fn submit(&self, trace: Trace) -> Receipt;

    /// The health of the store; `None` if traces are not stored.
    fn health(&self) -> Option<store::Health> {
        None
    }

    /// A token that is cancelled when the sink can accept traces without delay; `None` if it already
    /// can.
    fn making(&self) -> Option<CancellationToken> {
        None
    }
}

/// Resolves when a trace is stored.
#[derive(Debug)]
#[must_use = "an answer or the first call of an execution waits for it"]
pub struct Receipt(Stage);

#[derive(Debug)]
enum Stage {
    /// The trace is not stored.
    Nowhere,
    WithStore(store::Receipt),
    /// The trace is on its way to the store.
    Before(oneshot::Receiver<store::Receipt>, Arc<AtomicU64>),
}

impl Receipt {
    /// The receipt of a trace that is not stored.
    pub fn none() -> Receipt {
        Receipt(Stage::Nowhere)
    }

    pub(super) fn of(receipt: store::Receipt) -> Receipt {
        Receipt(Stage::WithStore(receipt))
    }

    /// The receipt of a trace that is still to be sanitized. `late` counts traces that reach the store too late.
    pub(super) fn later(receipt: oneshot::Receiver<store::Receipt>, late: Arc<AtomicU64>) -> Receipt {
        Receipt(Stage::Before(receipt, late))
    }

    /// Is there nothing to wait for?
    pub(super) fn is_kept(&self) -> bool {
        match &self.0 {
            Stage::Nowhere => true,
            Stage::WithStore(receipt) => receipt.is_kept(),
            Stage::Before(..) => false,
        }
    }

    /// Has it stored, whether or not anybody waits.
    pub fn wake(&mut self) {
        if let Stage::WithStore(receipt) = &mut self.0 {
            receipt.wake();
        }
    }

    /// Waits until the trace is stored, lost, or late, which is counted.
    pub async fn wait(self) {
        match self.0 {
            Stage::Nowhere => {}
            Stage::WithStore(receipt) => drop(receipt.kept().await),
            Stage::Before(receipt, late) => {
                let stored = async {
                    if let Ok(receipt) = receipt.await {
                        let _ = receipt.kept().await;
                    }
                };
                if timeout(WAIT, stored).await.is_err() {
                    late.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!("an execution went on before its trace was stored");
                }
            }
        }
    }
}
