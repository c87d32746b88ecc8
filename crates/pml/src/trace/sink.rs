//! Where finished traces go.
//!
//! A record hands its trace to a [`Sink`] and goes on. The entry may wait for the [`Receipt`], less than 2 ms, so that an answered
//! execution has its trace also after `kill -9`.

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

/// Longest that an answer waits for a trace that is still being sanitized. The timer counts whole milliseconds and rounds up.
const WAIT: Duration = Duration::from_millis(1);

/// Takes what becomes of executions. Nothing here blocks.
pub trait Sink: Debug + Send + Sync {
    /// An execution begins. The receipt tells when that is stored.
    fn begin(&self, head: TraceHead) -> Receipt;

    /// An execution has ended. The receipt tells when the trace is stored.
    fn submit(&self, trace: Trace) -> Receipt;

    /// How the store is; `None` if traces are not stored.
    fn health(&self) -> Option<store::Health> {
        None
    }

    /// What must be made before traces can be taken at once, as a token that is cancelled when it is made; `None` if nothing
    /// is missing.
    fn making(&self) -> Option<CancellationToken> {
        None
    }
}

/// Tells when a trace is stored.
#[derive(Debug)]
#[must_use = "an answer or the first call of an execution waits for it"]
pub struct Receipt(Stage);

#[derive(Debug)]
enum Stage {
    /// Nobody stores the trace.
    Nowhere,
    WithStore(store::Receipt),
    /// The trace is on its way to the store.
    Before(oneshot::Receiver<store::Receipt>, Arc<AtomicU64>),
}

impl Receipt {
    /// Of a trace that nobody stores.
    pub fn none() -> Receipt {
        Receipt(Stage::Nowhere)
    }

    pub(super) fn of(receipt: store::Receipt) -> Receipt {
        Receipt(Stage::WithStore(receipt))
    }

    /// Of a trace that is still to be sanitized. `late` counts those that are not with the store in time.
    pub(super) fn later(receipt: oneshot::Receiver<store::Receipt>, late: Arc<AtomicU64>) -> Receipt {
        Receipt(Stage::Before(receipt, late))
    }

    /// Waits until the trace is stored, lost, or late, which is counted.
    pub async fn wait(self) {
        match self.0 {
            Stage::Nowhere => {}
            Stage::WithStore(receipt) => drop(receipt.committed().await),
            Stage::Before(receipt, late) => {
                let stored = async {
                    if let Ok(receipt) = receipt.await {
                        let _ = receipt.committed().await;
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
