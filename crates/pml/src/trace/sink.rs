//! Where finished traces go.
//!
//! A record hands its trace to a [`Sink`] and goes on. The way to whoever stores traces is a bounded queue of its own:
//! [`queue()`] makes both ends. The entry may wait for the [`Receipt`], at most 2 ms, so that an answered execution has its trace
//! also after `kill -9`.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    time::Duration,
};

use pml_wire::trace::Trace;
use tokio::{sync::oneshot, time::timeout};

/// Longest that an answer waits for its trace.
const WAIT: Duration = Duration::from_millis(2);

/// Takes finished traces.
pub trait Sink: Debug + Send + Sync {
    /// Takes a trace. Must not block. The receipt tells when the trace is stored.
    fn submit(&self, trace: Trace) -> Receipt;
}

/// Tells when a trace is stored.
#[derive(Debug, Default)]
#[must_use = "the answer of an execution waits for it"]
pub struct Receipt {
    stored: Option<(oneshot::Receiver<()>, Arc<Counts>)>,
}

impl Receipt {
    /// Of a trace that nobody stores.
    pub fn none() -> Receipt {
        Receipt::default()
    }

    /// Waits until the trace is stored, lost, or late.
    pub async fn wait(self) {
        let Some((stored, counts)) = self.stored else { return };
        if timeout(WAIT, stored).await.is_err() {
            counts.late.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The writing end of a queue of traces.
#[derive(Clone, Debug)]
pub struct Queue {
    sender: SyncSender<Queued>,
    counts: Arc<Counts>,
}

/// A trace in a queue. Dropping it without [`Queued::stored`] tells that it was not stored.
#[derive(Debug)]
pub struct Queued {
    pub trace: Trace,
    stored: oneshot::Sender<()>,
}

impl Queued {
    /// Takes the trace out. Call the function once the trace is stored.
    pub fn into_parts(self) -> (Trace, impl FnOnce() + Send) {
        let stored = self.stored;
        // The answer may not have waited so long.
        (self.trace, move || {
            let _ = stored.send(());
        })
    }
}

#[derive(Debug, Default)]
struct Counts {
    lost: AtomicU64,
    late: AtomicU64,
}

/// What a queue could not do in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Traces for which the queue had no place.
    pub lost: u64,
    /// Answers that did not wait for their trace.
    pub late: u64,
}

/// A queue of so many traces, and its reading end, which a thread may block on.
pub fn queue(capacity: usize) -> (Queue, Receiver<Queued>) {
    let (sender, receiver) = sync_channel(capacity);
    (Queue { sender, counts: Arc::default() }, receiver)
}

impl Queue {
    pub fn counts(&self) -> QueueCounts {
        let Counts { lost, late } = &*self.counts;
        QueueCounts { lost: lost.load(Ordering::Relaxed), late: late.load(Ordering::Relaxed) }
    }
}

impl Sink for Queue {
    fn submit(&self, trace: Trace) -> Receipt {
        let (stored, receiver) = oneshot::channel();
        match self.sender.try_send(Queued { trace, stored }) {
            Ok(()) => Receipt { stored: Some((receiver, Arc::clone(&self.counts))) },
            Err(TrySendError::Full(queued) | TrySendError::Disconnected(queued)) => {
                if self.counts.lost.fetch_add(1, Ordering::Relaxed) == 0 {
                    tracing::warn!(execution = %queued.trace.trace_id, "traces come faster than they are stored; some are lost");
                }
                Receipt::none()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pml_wire::ExecutionId;

    use super::*;

    fn trace() -> Trace {
        let json = format!(r#"{{"traceId":"{}","success":true,"durationMs":1,"timestamp":1}}"#, ExecutionId::mint());
        serde_json::from_str(&json).unwrap()
    }

    #[tokio::test]
    async fn an_answer_waits_for_its_trace_but_not_for_long() {
        let (queue, traces) = queue(1);
        let (first, second) = (queue.submit(trace()), queue.submit(trace()));
        second.wait().await;
        assert_eq!(queue.counts(), QueueCounts { lost: 1, late: 0 }, "there is no place for a second");
        let (_, stored) = traces.recv().unwrap().into_parts();
        stored();
        first.wait().await;
        assert_eq!(queue.counts(), QueueCounts { lost: 1, late: 0 });
        let third = queue.submit(trace());
        third.wait().await;
        assert_eq!(queue.counts(), QueueCounts { lost: 1, late: 1 });
        // The store gives up: nobody waits for it.
        let fourth = {
            drop(traces.recv());
            queue.submit(trace())
        };
        drop(traces);
        fourth.wait().await;
        assert_eq!(queue.counts(), QueueCounts { lost: 1, late: 1 });
        queue.submit(trace()).wait().await;
        assert_eq!(queue.counts().lost, 2);
    }
}
