//! The record of one execution, completed by its own drop.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use pml_wire::{
    CallId, ErrorCode,
    message::{CallError, Decision, Log, LogLevel},
    trace::{Forecast, TaskKind, Trace},
};
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::{
    collector::{Collector, Summary},
    context::Context,
    sink::{Receipt, Sink},
    store,
};
use crate::{
    audit::Audit,
    events::{Body, Bus},
};

/// An execution that takes longer is announced to the store before it ends, even if it makes no call. Most executions end before and are
/// stored once.
const MOMENT: Duration = Duration::from_millis(5);
/// Longest wait of the first executions of a process for the trace sink to be ready.
const MAKING: Duration = Duration::from_millis(100);

/// Creates the records of all executions of this process.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    bus: Bus,
    audit: Arc<Audit>,
    sink: Option<Arc<dyn Sink>>,
}

/// The program of an execution. A client's own call has none.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    pub code: &'a str,
    /// The value of the global `args`.
    pub args: &'a RawValue,
}

/// The record of one execution. A record dropped before [`ExecutionRecord::finish`] means that the execution was cancelled or panicked.
#[derive(Debug)]
pub struct ExecutionRecord {
    recorder: Recorder,
    recording: Recording,
    is_finished: bool,
}

/// The handle through which the parts of an execution report. Clones report to the same record.
#[derive(Clone, Debug)]
pub struct Recording {
    context: Arc<Context>,
    /// `None` once the record is complete.
    state: Arc<Mutex<Option<Unfinished>>>,
}

/// The wait until an execution is announced to the store, shared by all parts that must not act before.
pub type Announcement = Shared<BoxFuture<'static, ()>>;

/// The state of a record that is not complete.
#[derive(Debug)]
struct Unfinished {
    collector: Collector,
    /// The sink to announce the execution to, until that is done.
    unannounced: Option<Arc<dyn Sink>>,
    /// The wait for the head to be stored, if it is not kept yet.
    announcement: Option<Announcement>,
    /// The head, if it is kept. It is written with the trace, or when the execution has lasted for a moment.
    head: Option<Receipt>,
}

/// How an execution ended.
#[derive(Clone, Copy, Debug)]
pub struct Finish<'a> {
    /// The result, as JSON text if it is recorded, or the error.
    pub outcome: Result<Option<&'a str>, (ErrorCode, &'a str)>,
    pub warnings: &'a [String],
}

impl Recorder {
    /// A recorder that reports to the bus, the audit log and, if there is one, the sink.
    pub fn new(bus: Bus, audit: Arc<Audit>, sink: Option<Arc<dyn Sink>>) -> Recorder {
        Recorder { bus, audit, sink }
    }

    /// The health of the trace store; `None` if traces are not stored.
    pub fn store_health(&self) -> Option<store::Health> {
        self.sink.as_ref()?.health()
    }

    /// Waits until the sink accepts traces without delay: a few milliseconds for the first executions of a process. Otherwise their
    /// traces would be late.
    pub async fn ready(&self) {
        if let Some(making) = self.sink.as_ref().and_then(|sink| sink.making()) {
            // Goes on without the sanitizer if it takes this long; the traces are then late.
            let _ = timeout(MAKING, making.cancelled()).await;
        }
    }

    /// Creates the record of an execution.
    pub fn begin(&self, context: Arc<Context>, program: Option<Program<'_>>) -> ExecutionRecord {
        let keeps_values = self.sink.is_some() || tracing::enabled!(tracing::Level::DEBUG);
        if let Some(program) = &program {
            let (caller, intent) = (context.caller.to_string(), context.intent.clone());
            let body = Body::ExecutionStarted { caller, intent, code_bytes: program.code.len() };
            self.bus.publish(context.execution.to_string(), body);
        }
        let collector = Collector::new(&context, program.as_ref(), keeps_values);
        let state = Arc::new(Mutex::new(Some(Unfinished {
            collector,
            unannounced: self.sink.clone(),
            announcement: None,
            head: None,
        })));
        ExecutionRecord { recorder: self.clone(), recording: Recording { context, state }, is_finished: false }
    }
}

impl ExecutionRecord {
    pub fn context(&self) -> &Arc<Context> {
        &self.recording.context
    }

    /// The handle through which the parts of the execution report.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Completes the record. The response may wait for the receipt.
    pub fn finish(mut self, finish: Finish<'_>) -> (Summary, Receipt) {
        self.end(finish)
    }

    fn end(&mut self, finish: Finish<'_>) -> (Summary, Receipt) {
        self.is_finished = true;
        let code = finish.outcome.err().map(|(code, _)| code);
        let Some(Unfinished { mut collector, head, .. }) = self.recording.lock().take() else {
            let summary = Summary { code, calls: 0, failed_calls: 0, duration: Duration::ZERO };
            return (summary, Receipt::none());
        };
        collector.finish(finish.outcome, finish.warnings);
        let summary = collector.summary(code);
        let Recorder { bus, audit, sink } = &self.recorder;
        let execution = self.recording.context.execution.to_string();
        audit.end_run(&execution);
        if self.recording.context.is_program() {
            let (calls, duration_ms) = (summary.calls, summary.duration.as_secs_f64() * 1e3);
            bus.publish(execution, Body::ExecutionEnded { success: code.is_none(), code, calls, duration_ms });
        }
        let trace = collector.into_trace();
        log(&trace);
        let receipt = sink.as_ref().map_or_else(Receipt::none, |sink| sink.submit(trace));
        // Not earlier: it wakes the store, which now finds the trace as well.
        drop(head);
        (summary, receipt)
    }
}

impl Drop for ExecutionRecord {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        let message = match std::thread::panicking() {
            true => "pml has failed at this; its log says why",
            false => "the execution was cancelled",
        };
        let (_, receipt) = self.end(Finish { outcome: Err((ErrorCode::Cancelled, message)), warnings: &[] });
        // There is no response that could wait for the receipt.
        drop(receipt);
    }
}

impl Recording {
    /// The handle of an execution without a record.
    pub fn none(context: Arc<Context>) -> Recording {
        Recording { context, state: Arc::default() }
    }

    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The execution issues a task, which may be queued. Before the task reaches anybody else, await the
    /// [announcement](Recording::announcement) of the execution.
    pub fn issued(&self, call: CallId, kind: TaskKind, tool: &str, args: Option<&str>) {
        self.announce(|_| {});
        self.with(|collector| collector.issue(call, kind, tool, args));
    }

    /// Runs `work`, and announces the execution to the store if the work takes longer than a moment.
    pub async fn during<T>(&self, mut work: Pin<&mut impl Future<Output = T>>) -> T {
        if let Ok(output) = timeout(MOMENT, &mut work).await {
            return output;
        }
        self.show();
        work.await
    }

    /// Tells the sink that the execution has begun, once, and does something with the receipt while there is one.
    fn announce(&self, then: impl FnOnce(&mut Receipt)) {
        let mut state = self.lock();
        let Some(state) = state.as_mut() else { return };
        if let Some(sink) = state.unannounced.take() {
            let mut receipt = sink.begin(state.collector.head());
            then(&mut receipt);
            match receipt.is_kept() {
                true => state.head = Some(receipt),
                false => state.announcement = Some(receipt.wait().boxed().shared()),
            }
        } else if let Some(head) = &mut state.head {
            then(head);
        }
    }

    /// Has the store write that the execution has begun, for whoever lists what runs.
    pub fn show(&self) {
        self.announce(Receipt::wake);
    }

    /// Completes when the store has the announcement, or after 2 ms at most. `None` if there is nothing to wait for.
    pub fn announcement(&self) -> Option<Announcement> {
        self.lock().as_ref()?.announcement.clone().filter(|announcement| announcement.peek().is_none())
    }

    /// The last issued task is a task of a workflow, with its own id and layer.
    pub fn named(&self, call: CallId, task_id: &str, layer: u32) {
        self.with(|collector| collector.name(call, task_id, layer));
    }

    /// The arguments of an issued task, once they are known.
    pub fn arguments(&self, call: CallId, args: &str) {
        self.with(|collector| collector.arguments(call, args));
    }

    /// An issued task has left the queue. `tool` is its canonical name.
    pub fn started(&self, call: CallId, tool: &str) {
        self.with(|collector| collector.start(call, tool));
    }

    /// The canonical name of an issued task, known only now: the program did not name the server.
    pub fn resolved(&self, call: CallId, tool: &str) {
        self.with(|collector| collector.resolve(call, tool));
    }

    /// An issued task has ended.
    pub fn ended(&self, call: CallId, kind: TaskKind, outcome: Result<&str, &CallError>) {
        self.with(|collector| collector.end(call, kind, outcome));
    }

    /// What was asked for gets the answer of a call that was made ahead.
    pub fn answered_ahead(&self, call: CallId) {
        self.with(|collector| collector.answered_ahead(call));
    }

    /// What is known by now of a forecast, counted from 0.
    pub fn forecast(&self, place: usize, forecast: Forecast) {
        self.announce(|_| {});
        self.with(|collector| collector.forecast(place, forecast));
    }

    /// A read of a kept result, which is not a task, has ended.
    pub fn answered_read(&self) {
        self.with(Collector::answered_read);
    }

    /// Tasks issued from now on were issued after the program had received this many responses.
    pub fn answered(&self, count: u32) {
        self.with(|collector| collector.answered(count));
    }

    /// Tasks issued from now on were issued by this line of the program.
    pub fn at_line(&self, line: Option<u32>) {
        self.with(|collector| collector.line = line);
    }

    pub fn logged(&self, log: &Log) {
        let level = match log.level {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Log => "log",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        };
        self.with(|collector| collector.log(level, &log.text));
    }

    /// Adds branch decisions of the program, and the number of decisions that were left out.
    pub fn decided(&self, decisions: impl IntoIterator<Item = Decision>, cut: u64) {
        self.with(|collector| collector.decide(decisions, cut));
    }

    /// The summary of an execution in progress, as if it were cancelled now.
    pub fn summary(&self) -> Option<Summary> {
        self.lock().as_ref().map(|state| state.collector.summary(Some(ErrorCode::Cancelled)))
    }

    fn with(&self, report: impl FnOnce(&mut Collector)) {
        if let Some(state) = self.lock().as_mut() {
            report(&mut state.collector);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Unfinished>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One log line about a trace, without text of programs or servers.
fn log(trace: &Trace) {
    let layers = trace.task_results.iter().map(|task| task.layer_index).max().unwrap_or(0);
    tracing::debug!(
        execution = %trace.trace_id,
        entry = ?trace.entry,
        caller = trace.caller,
        client = trace.client.as_ref().map(|client| client.name.as_str()),
        success = trace.success,
        code = trace.error_code,
        tasks = trace.task_results.len(),
        layers,
        decisions = trace.decisions.len(),
        decisions_cut = trace.decisions_cut,
        duration_ms = trace.duration_ms,
        "trace"
    );
}

#[cfg(test)]
mod tests {
    use pml_wire::trace::Entry;

    use super::*;
    use crate::trace::TraceHead;

    /// A sink that keeps the traces.
    #[derive(Debug, Default)]
    struct Kept {
        begun: Mutex<usize>,
        traces: Mutex<Vec<Trace>>,
    }

    impl Sink for Kept {
        fn begin(&self, _: TraceHead) -> Receipt {
            *self.begun.lock().unwrap() += 1;
            Receipt::none()
        }

        fn submit(&self, trace: Trace) -> Receipt {
            self.traces.lock().unwrap().push(trace);
            Receipt::none()
        }
    }

    fn begin(recorder: &Recorder) -> ExecutionRecord {
        let context = Arc::new(Context::new(Entry::ExecuteCode, "me"));
        recorder.begin(context, Some(Program { code: "return 1", args: RawValue::NULL }))
    }

    #[tokio::test(start_paused = true)]
    async fn an_execution_is_announced_once_when_it_asks_or_lasts() {
        let kept = Arc::new(Kept::default());
        let recorder = Recorder::new(Bus::default(), Arc::default(), Some(Arc::clone(&kept) as Arc<dyn Sink>));
        let begun = || *kept.begun.lock().unwrap();

        let brief = begin(&recorder);
        brief.recording().during(std::pin::pin!(std::future::ready(()))).await;
        assert_eq!(begun(), 0);
        drop(brief);

        let asking = begin(&recorder);
        asking.recording().issued(CallId(1), TaskKind::Tool, "a:b", None);
        asking.recording().issued(CallId(2), TaskKind::Tool, "a:b", None);
        asking.recording().during(std::pin::pin!(tokio::time::sleep(2 * MOMENT))).await;
        assert_eq!(begun(), 1);

        let lasting = begin(&recorder);
        let recording = lasting.recording().clone();
        let work = std::pin::pin!(async {
            tokio::time::sleep(MOMENT / 2).await;
            assert_eq!(begun(), 1);
            tokio::time::sleep(MOMENT).await;
            assert_eq!(begun(), 2);
        });
        recording.during(work).await;
        assert_eq!(kept.traces.lock().unwrap().len(), 1);
    }

    /// A store that commits heads when it is told to.
    #[derive(Debug)]
    struct Slow(Arc<dyn store::Store>);

    impl Sink for Slow {
        fn begin(&self, head: TraceHead) -> Receipt {
            let sanitizer = crate::trace::sanitize::Sanitizer::new(Arc::default());
            Receipt::of(self.0.begin(sanitizer.head(head)))
        }

        fn submit(&self, _: Trace) -> Receipt {
            Receipt::none()
        }
    }

    #[tokio::test]
    async fn a_head_is_kept_before_the_first_call_although_the_database_is_locked() {
        let folder = tempfile::tempdir().unwrap();
        let store = store::SqliteStore::open(folder.path(), store::Options::default());
        store.opened().await;
        let locked = rusqlite::Connection::open(folder.path().join("traces/traces.db")).unwrap();
        locked.execute_batch("BEGIN IMMEDIATE").unwrap();
        let sink = Arc::new(Slow(Arc::new(store)));
        let recorder = Recorder::new(Bus::default(), Arc::default(), Some(sink));
        let record = begin(&recorder);
        record.recording().during(std::pin::pin!(tokio::time::sleep(4 * MOMENT))).await;
        record.recording().issued(CallId(1), TaskKind::Tool, "a:b", None);
        assert!(record.recording().announcement().is_none(), "there is nothing to wait for");
        // What a server is told from here on survives the process.
        let mut names = std::fs::read_dir(folder.path().join("traces")).unwrap().map(|entry| entry.unwrap().path());
        let journal = names.find(|path| path.to_string_lossy().contains(".journal-")).expect("a journal");
        assert!(std::fs::read_to_string(journal).unwrap().contains(&record.context().execution.to_string()));
        locked.execute_batch("COMMIT").unwrap();
    }

    #[tokio::test]
    async fn a_record_is_finished_once_whatever_happens() {
        let kept = Arc::new(Kept::default());
        let bus = Bus::default();
        let mut events = bus.listen();
        let recorder = Recorder::new(bus, Arc::default(), Some(Arc::clone(&kept) as Arc<dyn Sink>));

        let record = begin(&recorder);
        let recording = record.recording().clone();
        recording.issued(CallId(1), TaskKind::Tool, "a:b", None);
        let (summary, _receipt) = record.finish(Finish { outcome: Ok(Some("7")), warnings: &[] });
        assert_eq!((summary.code, summary.calls), (None, 1));
        // Reports after completion change nothing.
        recording.ended(CallId(1), TaskKind::Tool, Ok("1"));
        assert_eq!(recording.summary(), None);

        drop(begin(&recorder));
        let panicking = begin(&recorder);
        let panicked = std::thread::spawn(move || {
            let _record = panicking;
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());

        let found = std::mem::take(&mut *kept.traces.lock().unwrap());
        assert_eq!(*kept.begun.lock().unwrap(), 1, "only of the one that asked for something");
        let codes: Vec<_> = found.iter().map(|trace| (trace.success, trace.error_code.as_deref())).collect();
        assert_eq!(codes, [(true, None), (false, Some("CANCELLED")), (false, Some("CANCELLED"))]);
        assert_eq!(found[0].result.as_ref().unwrap().get(), "7");
        assert_eq!(found[0].task_results[0].error.as_ref().unwrap().code, "CANCELLED");
        assert!(found[2].error_message.as_ref().unwrap().contains("failed at this"));
        let mut ended = 0;
        for _ in 0..6 {
            ended += usize::from(matches!(events.next().await.unwrap().body, Body::ExecutionEnded { .. }));
        }
        assert_eq!(ended, 3);
    }
}
