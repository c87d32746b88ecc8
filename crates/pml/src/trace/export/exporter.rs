//! Sends spans and metrics to an OpenTelemetry collector, over HTTP.
//!
//! Spans go through a queue that is bounded by number and by size; what finds no place is dropped and counted. A batch that the
//! collector cannot take now is sent again, a batch that it refuses is dropped and counted.
//!
//! **Invariant:** nothing waits for the collector: neither executions nor the store, and shutting down only for a moment.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use pml_wire::trace::Trace;
use reqwest::{
    Client, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER},
};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    super::SanitizedTrace,
    metrics::Metrics,
    spans::{Payloads, resource_spans},
};
use crate::clock::now_millis;

/// Traces that may wait to be sent, and their spans in bytes.
const QUEUE: usize = 2048;
const QUEUE_BYTES: usize = 16 * 1024 * 1024;
/// A batch has no more than this many bytes, but for the last trace in it.
const BATCH_BYTES: usize = 1024 * 1024;
/// How long traces are gathered.
const GATHER: Duration = Duration::from_secs(2);
/// How often metrics are sent.
const METRICS: Duration = Duration::from_secs(30);
/// How long the collector may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// How long the next try waits: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long the last batch may take when pml ends.
const LAST: Duration = Duration::from_secs(2);

/// Where spans and metrics go, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub traces: Url,
    pub metrics: Url,
    pub headers: HeaderMap,
    pub payloads: Payloads,
}

/// The sending end. Clones send to the same collector.
#[derive(Clone, Debug)]
pub struct Exporter {
    queue: mpsc::Sender<Queued>,
    shared: Arc<Shared>,
    payloads: Payloads,
}

#[derive(Debug, Default)]
struct Shared {
    waiting_bytes: AtomicUsize,
    /// Traces whose spans were not sent: too many waited, or the collector refused them.
    dropped: AtomicU64,
}

/// One trace on its way to the collector.
#[derive(Debug)]
struct Queued {
    /// Its spans, as an element of a request.
    spans: String,
    trace: Trace,
}

/// Builds the handle and the task's future. The caller spawns it, and so owns its end.
pub fn start(
    settings: Settings,
    client: Client,
    stop: CancellationToken,
) -> (Exporter, impl Future<Output = ()> + Send) {
    let (queue, traces) = mpsc::channel(QUEUE);
    let shared = Arc::new(Shared::default());
    let exporter = Exporter { queue, shared: Arc::clone(&shared), payloads: settings.payloads };
    let sender = Sender { settings, client, shared, has_warned: false };
    (exporter, sender.run(traces, stop))
}

impl Exporter {
    /// Hands a trace over, or drops and counts it. Never waits.
    pub fn submit(&self, trace: &SanitizedTrace) {
        let spans = resource_spans(trace, self.payloads).to_string();
        let bytes = spans.len();
        let waiting = self.shared.waiting_bytes.fetch_add(bytes, Ordering::AcqRel);
        let queued = Queued { spans, trace: outline(trace.trace()) };
        if waiting + bytes > QUEUE_BYTES || self.queue.try_send(queued).is_err() {
            self.shared.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
            if self.shared.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::warn!("the collector takes spans more slowly than they come; some are dropped");
            }
        }
    }
}

/// The trace without what metrics do not need.
fn outline(trace: &Trace) -> Trace {
    let mut trace = trace.clone();
    (trace.code, trace.args, trace.result) = (None, None, None);
    (trace.logs, trace.warnings, trace.decisions) = (Vec::new(), Vec::new(), Vec::new());
    for task in &mut trace.task_results {
        (task.args, task.result) = (None, None);
    }
    trace
}

/// What a collector said to a batch.
enum Reply {
    Taken,
    /// It cannot take the batch now. It may say when it can.
    Later(Option<Duration>, String),
    /// It will never take the batch.
    Refused(String),
}

struct Sender {
    settings: Settings,
    client: Client,
    shared: Arc<Shared>,
    has_warned: bool,
}

impl Sender {
    /// Sends until `stop` is cancelled, and then what is left, for no longer than [`LAST`].
    async fn run(mut self, mut traces: mpsc::Receiver<Queued>, stop: CancellationToken) {
        let shared = Arc::clone(&self.shared);
        let is_late = async {
            stop.cancelled().await;
            sleep(LAST).await;
        };
        tokio::select! {
            () = self.send_all(&mut traces, &stop) => {}
            () = is_late => tracing::warn!("the collector did not take the last spans in time"),
        }
        let dropped = shared.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(dropped, "spans of executions were not sent");
        }
    }

    async fn send_all(&mut self, traces: &mut mpsc::Receiver<Queued>, stop: &CancellationToken) {
        let mut metrics = Metrics::new(now_millis());
        let mut tick = interval_at(Instant::now() + METRICS, METRICS);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = tick.tick() => self.send_metrics(&metrics).await,
                first = traces.recv() => {
                    let Some(first) = first else { break };
                    // More of them in one request.
                    let _ = timeout(GATHER, stop.cancelled()).await;
                    let batch = self.batch(Some(first), traces, &mut metrics);
                    self.deliver(&batch).await;
                }
            }
        }
        traces.close();
        loop {
            let batch = self.batch(None, traces, &mut metrics);
            if batch.traces == 0 {
                break;
            }
            self.deliver(&batch).await;
        }
        self.send_metrics(&metrics).await;
    }

    /// Takes what waits, up to the size of a batch.
    fn batch(&self, first: Option<Queued>, traces: &mut mpsc::Receiver<Queued>, metrics: &mut Metrics) -> Batch {
        let mut batch = Batch::default();
        let mut next = first.or_else(|| traces.try_recv().ok());
        while let Some(Queued { spans, trace }) = next {
            self.shared.waiting_bytes.fetch_sub(spans.len(), Ordering::AcqRel);
            metrics.add(&trace);
            batch.add(&spans);
            next = if batch.spans.len() < BATCH_BYTES { traces.try_recv().ok() } else { None };
        }
        batch
    }

    /// Sends a batch until the collector has taken or refused it.
    async fn deliver(&mut self, batch: &Batch) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.post(&self.settings.traces, batch.body()).await {
                Reply::Taken => {
                    self.has_warned = false;
                    return;
                }
                Reply::Later(wait, why) => {
                    self.warn(&why, "the collector cannot take spans now; they are sent again");
                    sleep(wait.unwrap_or(pause).min(LONGEST_PAUSE)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Reply::Refused(why) => {
                    self.warn(&why, "the collector refuses spans; they are dropped");
                    self.shared.dropped.fetch_add(batch.traces, Ordering::Relaxed);
                    return;
                }
            }
        }
    }

    async fn send_metrics(&mut self, metrics: &Metrics) {
        let Some(request) = metrics.request(now_millis()) else { return };
        // The next ones have everything that these have.
        if let Reply::Later(_, why) | Reply::Refused(why) = self.post(&self.settings.metrics, request.to_string()).await
        {
            self.warn(&why, "the collector does not take metrics");
        }
    }

    async fn post(&self, url: &Url, body: String) -> Reply {
        let request = self.client.post(url.clone()).headers(self.settings.headers.clone());
        let request = request.header(CONTENT_TYPE, "application/json").timeout(ANSWER).body(body);
        let response = match request.send().await {
            Ok(response) => response,
            // Without the address: it may hold a key.
            Err(err) => return Reply::Later(None, err.without_url().to_string()),
        };
        let status = response.status();
        let wait = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        match status {
            _ if status.is_success() => Reply::Taken,
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Reply::Later(wait.map(Duration::from_secs), status.to_string()),
            _ => Reply::Refused(status.to_string()),
        }
    }

    /// Says once what is wrong, until something has gone well again.
    fn warn(&mut self, why: &str, what: &str) {
        if !std::mem::replace(&mut self.has_warned, true) {
            tracing::warn!(error = why, "{what}");
        }
    }
}

/// Spans of several traces.
#[derive(Debug, Default)]
struct Batch {
    /// Elements of a request, with commas between them.
    spans: String,
    traces: u64,
}

impl Batch {
    fn add(&mut self, spans: &str) {
        if self.traces > 0 {
            self.spans.push(',');
        }
        self.spans.push_str(spans);
        self.traces += 1;
    }

    fn body(&self) -> String {
        format!(r#"{{"resourceSpans":[{}]}}"#, self.spans)
    }
}
