//! Keeps traces: sanitizes, stores and exports them.
//!
//! A small trace is sanitized by the submitting thread, which is faster than waking another. Large traces, and the first
//! traces while the sanitizer is being built, go through a bounded queue to a thread.
//!
//! **Invariant:** [`Keeper::submit`] and [`Keeper::begin`] never block. A trace that does not fit into the queue is dropped and counted.

use std::{
    fmt::Debug,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use pml_wire::trace::Trace;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    SanitizedHead, TraceHead,
    export::exporter::Exporter,
    sanitize::{Rules, Sanitizer},
    sink::{Receipt, Sink},
    store::{self, RawStore, Store},
};

/// Traces with at most this much text are sanitized by the submitting thread, in about 0.2 ms.
const AT_ONCE_BYTES: usize = 16 * 1024;
/// Capacity of the queue of traces to sanitize.
const QUEUE: usize = 256;

/// The sink of all executions. Dropping it waits until the submitted traces are in the store's queue.
#[derive(Debug)]
pub struct Keeper {
    pipeline: Arc<Pipeline>,
    queue: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Traces dropped because the queue was full.
    dropped: AtomicU64,
    /// Executions that responded before the store had their trace.
    late: Arc<AtomicU64>,
    /// Cancelled when the sanitizer is ready.
    made: CancellationToken,
}

/// The steps that a trace goes through.
#[derive(Debug)]
struct Pipeline {
    sanitizer: OnceLock<Sanitizer>,
    store: Option<Arc<dyn Store>>,
    raw: Option<RawStore>,
    exporter: Option<Exporter>,
    outlet: Option<Arc<dyn Outlet>>,
}

/// Wakes the delivery to a hub, which reads from the store.
pub trait Outlet: Debug + Send + Sync {
    /// Signals a new trace. Returns at once.
    fn stored(&self);
}

/// A trace to be sanitized, and whoever waits for it to be with the store.
#[derive(Debug)]
struct Job(Box<Trace>, oneshot::Sender<store::Receipt>);

impl Keeper {
    /// Starts the thread, which builds the sanitizer first.
    pub fn start(
        rules: Arc<Rules>,
        store: Option<Arc<dyn Store>>,
        raw: Option<RawStore>,
        exporter: Option<Exporter>,
        outlet: Option<Arc<dyn Outlet>>,
    ) -> std::io::Result<Keeper> {
        let (queue, jobs) = sync_channel(QUEUE);
        let pipeline = Arc::new(Pipeline { sanitizer: OnceLock::new(), store, raw, exporter, outlet });
        let made = CancellationToken::new();
        let (working, is_made) = (Arc::clone(&pipeline), made.clone());
        let work = move || working.run(rules, &is_made, &jobs);
        let thread = std::thread::Builder::new().name("traces".to_owned()).spawn(work)?;
        Ok(Keeper {
            pipeline,
            queue: Some(queue),
            thread: Some(thread),
            dropped: AtomicU64::new(0),
            late: Arc::default(),
            made,
        })
    }

    fn queue(&self, job: Job) {
        let is_queued = self.queue.as_ref().is_some_and(|queue| queue.try_send(job).is_ok());
        if !is_queued && self.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!("large traces come faster than they are sanitized; some are dropped");
        }
    }
}

impl Sink for Keeper {
    fn begin(&self, head: TraceHead) -> Receipt {
        match self.pipeline.sanitizer.get() {
            Some(sanitizer) => self.pipeline.begin(sanitizer, head).map_or_else(Receipt::none, Receipt::of),
            // Texts must not be stored before they are sanitized.
            None => self
                .pipeline
                .store
                .as_ref()
                .map_or_else(Receipt::none, |store| Receipt::of(store.begin(SanitizedHead::without_texts(&head)))),
        }
    }

    fn submit(&self, trace: Trace) -> Receipt {
        match self.pipeline.sanitizer.get().filter(|_| text_bytes(&trace) <= AT_ONCE_BYTES) {
            Some(sanitizer) => self.pipeline.keep(sanitizer, trace).map_or_else(Receipt::none, Receipt::of),
            None => {
                let (stored, receipt) = oneshot::channel();
                self.queue(Job(Box::new(trace), stored));
                Receipt::later(receipt, Arc::clone(&self.late))
            }
        }
    }

    fn health(&self) -> Option<store::Health> {
        let mut health = self.pipeline.store.as_ref()?.health();
        health.counts.queue_full += self.dropped.load(Ordering::Relaxed);
        health.counts.late += self.late.load(Ordering::Relaxed);
        Some(health)
    }

    fn making(&self) -> Option<CancellationToken> {
        (!self.made.is_cancelled()).then(|| self.made.clone())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.queue = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that keeps traces did not end as it should");
        }
        let dropped = self.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(dropped, "traces were dropped before they were sanitized");
        }
    }
}

impl Pipeline {
    fn run(&self, rules: Arc<Rules>, made: &CancellationToken, jobs: &Receiver<Job>) {
        let sanitizer = self.sanitizer.get_or_init(|| {
            let sanitizer = Sanitizer::new(rules);
            // The sanitizer builds its tables with the first text.
            sanitizer.text("ready");
            sanitizer
        });
        made.cancel();
        for Job(trace, stored) in jobs {
            if let Some(receipt) = self.keep(sanitizer, *trace) {
                // Nobody may have waited so long.
                let _ = stored.send(receipt);
            }
        }
    }

    fn begin(&self, sanitizer: &Sanitizer, head: TraceHead) -> Option<store::Receipt> {
        self.store.as_ref().map(|store| store.begin(sanitizer.head(head)))
    }

    fn keep(&self, sanitizer: &Sanitizer, trace: Trace) -> Option<store::Receipt> {
        if let Some(raw) = &self.raw {
            drop(raw.submit(trace.clone()));
        }
        let trace = sanitizer.trace(trace);
        if let Some(exporter) = &self.exporter {
            exporter.submit(&trace);
        }
        match &self.outlet {
            Some(outlet) => outlet.stored(),
            None => {
                let Trace { trace_id, success, duration_ms, .. } = trace.trace();
                tracing::debug!(%trace_id, success, duration_ms, "a trace; no hub is configured, so it stays here");
            }
        }
        self.store.as_ref().map(|store| store.submit(trace))
    }
}

/// The approximate amount of text in a trace.
pub(super) fn text_bytes(trace: &Trace) -> usize {
    let raw = |value: &Option<Box<serde_json::value::RawValue>>| value.as_ref().map_or(0, |value| value.get().len());
    let own = trace.code.as_ref().map_or(0, String::len) + raw(&trace.args) + raw(&trace.result);
    let logs: usize = trace.logs.iter().map(|line| line.text.len()).sum();
    let tasks = trace.task_results.iter().map(|task| raw(&task.args) + raw(&task.result) + 100).sum::<usize>();
    let decisions: usize = trace.decisions.iter().map(|decision| decision.condition.len() + 40).sum();
    own + logs + tasks + decisions
}
