//! The record of one execution, finished by its own drop.

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
    trace::{TaskKind, Trace},
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

/// An execution that takes longer is told to the store before it ends, even if it asks for nothing. Most are over by then, and are
/// stored once.
const MOMENT: Duration = Duration::from_millis(5);
/// Longest that the first executions of a process wait until their traces can be taken.
const MAKING: Duration = Duration::from_millis(100);

/// Begins the records of all executions of this process.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    bus: Bus,
    audit: Arc<Audit>,
    sink: Option<Arc<dyn Sink>>,
}

/// What runs in an execution. A client's own call has none.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    pub code: &'a str,
    /// The value of the global `args`.
    pub args: &'a RawValue,
}

/// The record of one execution. Dropped before it is finished, the execution was cancelled, or has panicked.
#[derive(Debug)]
pub struct ExecutionRecord {
    recorder: Recorder,
    recording: Recording,
    is_finished: bool,
}

/// What the parts of an execution report to. Clones report to the same record.
#[derive(Clone, Debug)]
pub struct Recording {
    context: Arc<Context>,
    /// Absent once the record is finished.
    state: Arc<Mutex<Option<Unfinished>>>,
}

/// The wait until the store has heard of an execution, for everybody who would tell others of it.
pub type Announcement = Shared<BoxFuture<'static, ()>>;

/// What there is of an execution that goes on.
#[derive(Debug)]
struct Unfinished {
    collector: Collector,
    /// Who is to hear that the execution has begun, until that is told.
    unannounced: Option<Arc<dyn Sink>>,
    announcement: Option<Announcement>,
}

/// How an execution ended.
#[derive(Clone, Copy, Debug)]
pub struct Finish<'a> {
    /// The result, as JSON text if it is kept, or what went wrong.
    pub outcome: Result<Option<&'a str>, (ErrorCode, &'a str)>,
    pub warnings: &'a [String],
}

impl Recorder {
    /// A recorder that tells the bus, the audit log and, if there is one, the sink.
    pub fn new(bus: Bus, audit: Arc<Audit>, sink: Option<Arc<dyn Sink>>) -> Recorder {
        Recorder { bus, audit, sink }
    }

    /// How the store of traces is; `None` if traces are not stored.
    pub fn store_health(&self) -> Option<store::Health> {
        self.sink.as_ref()?.health()
    }

    /// Waits until traces can be taken at once: for the first executions of a process, a few milliseconds. Without it, their
    /// traces would be late.
    pub async fn ready(&self) {
        if let Some(making) = self.sink.as_ref().and_then(|sink| sink.making()) {
            // A machine that takes this long has other troubles.
            let _ = timeout(MAKING, making.cancelled()).await;
        }
    }

    /// Begins the record of an execution.
    pub fn begin(&self, context: Arc<Context>, program: Option<Program<'_>>) -> ExecutionRecord {
        let keeps_values = self.sink.is_some() || tracing::enabled!(tracing::Level::DEBUG);
        if let Some(program) = &program {
            let (caller, intent) = (context.caller.to_string(), context.intent.clone());
            let body = Body::ExecutionStarted { caller, intent, code_bytes: program.code.len() };
            self.bus.publish(context.execution.to_string(), body);
        }
        let collector = Collector::new(&context, program.as_ref(), keeps_values);
        let state =
            Arc::new(Mutex::new(Some(Unfinished { collector, unannounced: self.sink.clone(), announcement: None })));
        ExecutionRecord { recorder: self.clone(), recording: Recording { context, state }, is_finished: false }
    }
}

impl ExecutionRecord {
    pub fn context(&self) -> &Arc<Context> {
        &self.recording.context
    }

    /// What the parts of the execution report to.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Ends the record. The answer may wait for the receipt.
    pub fn finish(mut self, finish: Finish<'_>) -> (Summary, Receipt) {
        self.end(finish)
    }

    fn end(&mut self, finish: Finish<'_>) -> (Summary, Receipt) {
        self.is_finished = true;
        let code = finish.outcome.err().map(|(code, _)| code);
        let Some(Unfinished { mut collector, .. }) = self.recording.lock().take() else {
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
        // Nobody gets an answer that could wait.
        drop(receipt);
    }
}

impl Recording {
    /// Of an execution that nobody records.
    pub fn none(context: Arc<Context>) -> Recording {
        Recording { context, state: Arc::default() }
    }

    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The execution asks for something. It may have to wait for its turn. Before anybody else hears of it, the
    /// [announcement](Recording::announcement) of the execution is waited for.
    pub fn issued(&self, call: CallId, kind: TaskKind, tool: &str, args: Option<&str>) {
        self.announce();
        self.with(|collector| collector.issue(call, kind, tool, args));
    }

    /// Does work, and tells the store that the execution has begun if the work takes longer than a moment.
    pub async fn during<T>(&self, mut work: Pin<&mut impl Future<Output = T>>) -> T {
        if let Ok(output) = timeout(MOMENT, &mut work).await {
            return output;
        }
        if self.announce() {
            // Nobody waits for it; dropped, it is left to the store's thread.
            let announcement = self.lock().as_mut().and_then(|state| state.announcement.take());
            drop(announcement);
        }
        work.await
    }

    /// Tells the sink that the execution has begun, once. Was it now?
    fn announce(&self) -> bool {
        let told = self.lock().as_mut().and_then(|state| Some((state.unannounced.take()?, state.collector.head())));
        let Some((sink, head)) = told else { return false };
        let announcement = sink.begin(head).wait().boxed().shared();
        if let Some(state) = self.lock().as_mut() {
            state.announcement = Some(announcement);
        }
        true
    }

    /// Ends when the store has heard that the execution has begun, or is late: less than 2 ms. `None` if that is over.
    pub fn announcement(&self) -> Option<Announcement> {
        self.lock().as_ref()?.announcement.clone().filter(|announcement| announcement.peek().is_none())
    }

    /// What was asked for last is a task of a workflow, with an id and a layer of its own.
    pub fn named(&self, call: CallId, task_id: &str, layer: u32) {
        self.with(|collector| collector.name(call, task_id, layer));
    }

    /// The arguments of something that was asked for, once they are known.
    pub fn arguments(&self, call: CallId, args: &str) {
        self.with(|collector| collector.arguments(call, args));
    }

    /// Something that was asked for is not waiting any more. `tool` is its one name.
    pub fn started(&self, call: CallId, tool: &str) {
        self.with(|collector| collector.start(call, tool));
    }

    /// Something that was asked for is over.
    pub fn ended(&self, call: CallId, kind: TaskKind, outcome: Result<&str, &CallError>) {
        self.with(|collector| collector.end(call, kind, outcome));
    }

    /// A read of a kept result, which is no task, is over.
    pub fn answered_read(&self) {
        self.with(Collector::answered_read);
    }

    /// What is issued from now on was issued when the program had got so many answers.
    pub fn answered(&self, count: u32) {
        self.with(|collector| collector.answered(count));
    }

    /// What is issued from now on was issued by this line of the program.
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

    /// The program has made decisions, and others that are not among them.
    pub fn decided(&self, decisions: impl IntoIterator<Item = Decision>, cut: u64) {
        self.with(|collector| collector.decide(decisions, cut));
    }

    /// What counts of an execution that is not finished yet, if it were cancelled now.
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

/// One line about a trace, without anything that a program or a server said.
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

    /// Keeps what it is given.
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
        // What comes too late changes nothing.
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
