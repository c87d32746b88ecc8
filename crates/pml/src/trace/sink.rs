//! Where finished traces go.
//!
//! A record hands its trace to a [`Sink`] and goes on. The entry may wait for the [`Receipt`], less than 2 ms, so that an answered
//! execution has its trace also after `kill -9`.

use std::{fmt::Debug, time::Duration};

use pml_wire::trace::Trace;
use tokio::{sync::oneshot, time::timeout};

use super::{TraceHead, store};

/// Longest that an answer waits for a trace that is still being sanitized. The timer counts whole milliseconds and rounds up.
const WAIT: Duration = Duration::from_millis(1);

/// Takes what becomes of executions. Nothing here blocks.
pub trait Sink: Debug + Send + Sync {
    /// An execution begins.
    fn begin(&self, head: TraceHead);

    /// An execution has ended. The receipt tells when the trace is stored.
    fn submit(&self, trace: Trace) -> Receipt;
}

/// Tells when a trace is stored.
#[derive(Debug)]
#[must_use = "the answer of an execution waits for it"]
pub struct Receipt(Stage);

#[derive(Debug)]
enum Stage {
    /// Nobody stores the trace.
    Nowhere,
    WithStore(store::Receipt),
    /// The trace is on its way to the store.
    Before(oneshot::Receiver<store::Receipt>),
}

impl Receipt {
    /// Of a trace that nobody stores.
    pub fn none() -> Receipt {
        Receipt(Stage::Nowhere)
    }

    pub(super) fn of(receipt: store::Receipt) -> Receipt {
        Receipt(Stage::WithStore(receipt))
    }

    pub(super) fn later(receipt: oneshot::Receiver<store::Receipt>) -> Receipt {
        Receipt(Stage::Before(receipt))
    }

    /// Waits until the trace is stored, lost, or late. The store counts which.
    pub async fn wait(self) {
        match self.0 {
            Stage::Nowhere => {}
            Stage::WithStore(receipt) => drop(receipt.committed().await),
            Stage::Before(receipt) => {
                let stored = async {
                    if let Ok(receipt) = receipt.await {
                        let _ = receipt.committed().await;
                    }
                };
                let _ = timeout(WAIT, stored).await;
            }
        }
    }
}
