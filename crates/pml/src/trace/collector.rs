//! Builds the trace of one execution from the reports of its parts.
//!
//! Values are truncated before they are copied: each has at most [`VALUE_BYTES`], all together [`VALUES_BYTES`]. Tasks have a budget of their
//! own, [`TASKS_BYTES`], so that large values do not displace later tasks. Truncated values are listed in
//! `metadata.truncated`, with their original sizes. The limits are generous, since the sanitizer must see a text before it is truncated for
//! display.

use std::collections::HashMap;

use pml_wire::{
    CallId, ErrorCode,
    message::{CallError, Decision},
    trace::{
        Forecast, LogLine, Metadata, SCHEMA_VERSION, TaskError, TaskKind, TaskResult, Timestamp, Trace, Truncated,
    },
};
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::{Duration, Instant};

use super::{TraceHead, context::Context, record::Program};
use crate::{clock::now_millis, digest::sha256};

/// Most bytes of one value.
const VALUE_BYTES: usize = 64 * 1024;
/// Most bytes of all values, logs and texts of one trace, and of its tasks without their values.
const VALUES_BYTES: usize = 512 * 1024;
const TASKS_BYTES: usize = 512 * 1024;
/// The size of a task without its values.
const TASK_BYTES: usize = 400;
/// Most truncations that are listed one by one.
const MAX_TRUNCATED: usize = 200;
/// Most forecasts of one trace.
const MAX_FORECASTS: usize = 200;

/// The state of one execution so far.
#[derive(Debug)]
pub(super) struct Collector {
    trace: Trace,
    started: Instant,
    tasks: Vec<Task>,
    by_call: HashMap<u32, usize>,
    /// The highest layer among the first N tasks and reads that have ended, at index N.
    answered_layers: Vec<u32>,
    /// The number of responses that the program had received when it issued the current task.
    answered: usize,
    /// The line of the program that issued the current task.
    pub(super) line: Option<u32>,
    /// The remaining budgets of values and tasks, in bytes.
    left: usize,
    tasks_left: usize,
    /// Tasks that exceeded the budget: their number and bytes.
    cut_tasks: (u64, usize),
    log_bytes_cut: usize,
    /// Are values recorded? Without a sink only the counts are.
    keeps_values: bool,
    calls: usize,
    failed_calls: usize,
}

#[derive(Debug)]
struct Task {
    result: TaskResult,
    started: Option<Instant>,
    is_over: bool,
}

/// The counts of an execution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub code: Option<ErrorCode>,
    /// Tool calls.
    pub calls: usize,
    pub failed_calls: usize,
    pub duration: Duration,
}

impl Collector {
    pub(super) fn new(context: &Context, program: Option<&Program<'_>>, keeps_values: bool) -> Collector {
        let trace = Trace {
            trace_id: context.execution,
            parent_trace_id: context.parent,
            capability_id: context.capability.as_deref().map(str::to_owned),
            entry: context.entry,
            intent: context.intent.clone(),
            caller: context.caller.to_string(),
            client: context.client.clone(),
            success: false,
            error_message: None,
            error_code: None,
            duration_ms: 0.0,
            timestamp: Timestamp(now_millis()),
            code: None,
            code_hash: None,
            args: None,
            result: None,
            logs: Vec::new(),
            warnings: Vec::new(),
            decisions: Vec::new(),
            decisions_cut: 0,
            task_results: Vec::new(),
            forecasts: Vec::new(),
            metadata: Metadata {
                pml_version: env!("CARGO_PKG_VERSION").to_owned(),
                schema_version: SCHEMA_VERSION,
                era: context.era.map(str::to_owned),
                traceparent: context.traceparent().map(str::to_owned),
                ..Metadata::default()
            },
        };
        let mut collector = Collector {
            trace,
            started: Instant::now(),
            tasks: Vec::new(),
            by_call: HashMap::new(),
            answered_layers: vec![0],
            answered: 0,
            line: None,
            left: VALUES_BYTES,
            tasks_left: TASKS_BYTES,
            cut_tasks: (0, 0),
            log_bytes_cut: 0,
            keeps_values,
            calls: 0,
            failed_calls: 0,
        };
        if let Some(program) = program.filter(|_| keeps_values) {
            collector.trace.code_hash = Some(sha256(program.code));
            collector.trace.code = Some(collector.text("/code", program.code, 4 * VALUE_BYTES));
            collector.trace.args = collector.value("/args", program.args.get());
        }
        collector
    }

    /// A snapshot, for a record that may never be completed.
    pub(super) fn head(&self) -> TraceHead {
        let Trace {
            trace_id, parent_trace_id, capability_id, entry, timestamp, intent, caller, client, code_hash, ..
        } = &self.trace;
        TraceHead {
            trace_id: *trace_id,
            parent_trace_id: *parent_trace_id,
            capability_id: capability_id.clone(),
            entry: *entry,
            timestamp: *timestamp,
            intent: intent.clone(),
            caller: caller.clone(),
            client: client.clone(),
            code_hash: code_hash.clone(),
        }
    }

    /// The program issues a task, which may be queued.
    pub(super) fn issue(&mut self, call: CallId, kind: TaskKind, tool: &str, args: Option<&str>) {
        self.calls += usize::from(kind == TaskKind::Tool);
        if !self.keeps_values {
            return;
        }
        let bytes = TASK_BYTES + tool.len();
        let Some(left) = self.tasks_left.checked_sub(bytes) else {
            self.cut_tasks = (self.cut_tasks.0 + 1, self.cut_tasks.1 + bytes + args.map_or(0, str::len));
            return;
        };
        self.tasks_left = left;
        let index = self.tasks.len();
        let args = args.and_then(|args| self.value(&format!("/taskResults/{index}/args"), args));
        let now = Timestamp(now_millis());
        self.by_call.insert(call.0, index);
        self.tasks.push(Task {
            result: TaskResult {
                task_id: format!("t{}", index + 1),
                call_id: call.0,
                kind,
                tool: tool.to_owned(),
                args,
                result: None,
                success: false,
                accepted_at: Some(now),
                timestamp: now,
                duration_ms: 0.0,
                layer_index: self.answered_layers[self.answered] + 1,
                line: self.line,
                speculative: false,
                error: None,
            },
            started: None,
            is_over: false,
        });
    }

    /// Sets the id and the layer that the workflow has for a task.
    pub(super) fn name(&mut self, call: CallId, task_id: &str, layer: u32) {
        if let Some(task) = self.task(call) {
            task_id.clone_into(&mut task.result.task_id);
            task.result.layer_index = layer;
        }
    }

    /// The arguments of a task.
    pub(super) fn arguments(&mut self, call: CallId, args: &str) {
        if let Some(index) = self.by_call.get(&call.0).copied() {
            let args = self.value(&format!("/taskResults/{index}/args"), args);
            self.tasks[index].result.args = args;
        }
    }

    /// The task has left the queue. `tool` is its canonical name.
    pub(super) fn start(&mut self, call: CallId, tool: &str) {
        if let Some(task) = self.task(call) {
            task.started = Some(Instant::now());
            task.result.timestamp = Timestamp(now_millis());
            tool.clone_into(&mut task.result.tool);
        }
    }

    pub(super) fn resolve(&mut self, call: CallId, tool: &str) {
        if let Some(task) = self.task(call) {
            tool.clone_into(&mut task.result.tool);
        }
    }

    pub(super) fn end(&mut self, call: CallId, kind: TaskKind, outcome: Result<&str, &CallError>) {
        self.failed_calls += usize::from(kind == TaskKind::Tool && outcome.is_err());
        let Some(index) = self.by_call.get(&call.0).copied() else { return self.answered_read() };
        let (value, error) = match outcome {
            Ok(text) => (self.value(&format!("/taskResults/{index}/result"), text), None),
            Err(error) => {
                let message = self.text(&format!("/taskResults/{index}/error/message"), &error.message, VALUE_BYTES);
                (None, Some(TaskError::new(error.code, message)))
            }
        };
        let task = &mut self.tasks[index];
        if task.is_over {
            return;
        }
        task.result.result = value;
        task.finish(error);
        let layer = task.result.layer_index;
        self.answer(layer);
    }

    /// The answer of the task is that of a call which was made ahead.
    pub(super) fn answered_ahead(&mut self, call: CallId) {
        if let Some(task) = self.task(call) {
            task.result.speculative = true;
        }
    }

    /// What is known of a forecast by now. `place` counts the forecasts of the execution from 0.
    pub(super) fn forecast(&mut self, place: usize, forecast: Forecast) {
        if !self.keeps_values {
            return;
        }
        let forecasts = &mut self.trace.forecasts;
        if place == forecasts.len() && place < MAX_FORECASTS {
            forecasts.push(forecast);
        } else if let Some(known) = forecasts.get_mut(place) {
            *known = forecast;
        }
    }

    /// A read, or a task that exceeded the budget, has ended.
    pub(super) fn answered_read(&mut self) {
        self.answer(0);
    }

    fn answer(&mut self, layer: u32) {
        let highest = self.answered_layers.last().copied().unwrap_or(0).max(layer);
        self.answered_layers.push(highest);
    }

    /// The program had received this many responses when it issued the next task. The time at which the host reads a request does not tell
    /// this: a program may issue forty calls at once, and the first may have ended before the host reads the last.
    pub(super) fn answered(&mut self, count: u32) {
        self.answered = usize::try_from(count).unwrap_or(usize::MAX).min(self.answered_layers.len() - 1);
    }

    pub(super) fn log(&mut self, level: &str, text: &str) {
        if !self.keeps_values {
            return;
        }
        match self.left.checked_sub(text.len() + 32) {
            Some(left) => {
                self.left = left;
                self.trace.logs.push(LogLine { level: level.to_owned(), text: text.to_owned() });
            }
            None => self.log_bytes_cut += text.len(),
        }
    }

    /// Branch decisions of the program, and the number of decisions that were left out.
    pub(super) fn decide(&mut self, decisions: impl IntoIterator<Item = Decision>, cut: u64) {
        if self.keeps_values {
            self.trace.decisions.extend(decisions);
            self.trace.decisions_cut = self.trace.decisions_cut.saturating_add(cut);
        }
    }

    pub(super) fn finish(&mut self, outcome: Result<Option<&str>, (ErrorCode, &str)>, warnings: &[String]) {
        self.trace.success = outcome.is_ok();
        match outcome {
            Ok(result) => self.trace.result = result.and_then(|result| self.value("/result", result)),
            Err((code, message)) => {
                self.trace.error_code = Some(code.as_str().to_owned());
                self.trace.error_message = Some(self.text("/errorMessage", message, VALUE_BYTES));
            }
        }
        if self.keeps_values {
            for (index, warning) in warnings.iter().enumerate() {
                let warning = self.text(&format!("/warnings/{index}"), warning, VALUE_BYTES);
                self.trace.warnings.push(warning);
            }
        }
    }

    /// The trace. Tasks that have not ended were cancelled.
    pub(super) fn into_trace(mut self) -> Trace {
        for task in &mut self.tasks {
            if !task.is_over {
                let message = "the execution ended before the call did";
                task.finish(Some(TaskError::new(ErrorCode::Cancelled, message)));
            }
        }
        for (path, bytes) in [("/taskResults", self.cut_tasks.1), ("/logs", self.log_bytes_cut)] {
            if bytes > 0 {
                let cut = Truncated { path: path.to_owned(), original_bytes: bytes as u64 };
                self.trace.metadata.truncated.push(cut);
            }
        }
        self.trace.task_results = self.tasks.into_iter().map(|task| task.result).collect();
        self.trace.duration_ms = millis(self.started.elapsed());
        self.trace
    }

    /// The counts, if the execution ended now with this outcome.
    pub(super) fn summary(&self, code: Option<ErrorCode>) -> Summary {
        let Collector { calls, failed_calls, started, .. } = self;
        Summary { code, calls: *calls, failed_calls: *failed_calls, duration: started.elapsed() }
    }

    fn task(&mut self, call: CallId) -> Option<&mut Task> {
        let index = *self.by_call.get(&call.0)?;
        self.tasks.get_mut(index)
    }

    /// A copy of a JSON text; of a long one, the beginning as a string.
    fn value(&mut self, path: &str, json: &str) -> Option<Box<RawValue>> {
        if !self.keeps_values {
            return None;
        }
        let most = VALUE_BYTES.min(self.left);
        if json.len() <= most {
            self.left -= json.len();
            return RawValue::from_string(json.to_owned()).ok();
        }
        self.cut(path, json.len());
        let start = &json[..json.floor_char_boundary(most)];
        self.left -= start.len();
        if start.is_empty() { None } else { to_raw_value(start).ok() }
    }

    /// A copy of a text, truncated to the limit.
    fn text(&mut self, path: &str, text: &str, most: usize) -> String {
        let most = most.min(self.left);
        let start = &text[..text.floor_char_boundary(most)];
        if start.len() < text.len() {
            self.cut(path, text.len());
        }
        self.left -= start.len();
        start.to_owned()
    }

    fn cut(&mut self, path: &str, bytes: usize) {
        let truncated = &mut self.trace.metadata.truncated;
        if truncated.len() < MAX_TRUNCATED {
            truncated.push(Truncated { path: path.to_owned(), original_bytes: bytes as u64 });
        }
    }
}

impl Task {
    fn finish(&mut self, error: Option<TaskError>) {
        self.is_over = true;
        self.result.success = error.is_none();
        self.result.error = error;
        self.result.duration_ms = self.started.map_or(0.0, |started| millis(started.elapsed()));
    }
}

/// Milliseconds, with microsecond precision.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use pml_wire::trace::Entry;

    use super::*;

    fn collector() -> Collector {
        let args = RawValue::from_string("{\"n\":1}".to_owned()).unwrap();
        let context = Context::new(Entry::ExecuteCode, "me");
        Collector::new(&context, Some(&Program { code: "return 1", args: &args }), true)
    }

    fn issue(collector: &mut Collector, call: u32) {
        collector.issue(CallId(call), TaskKind::Tool, "a:b", Some("{}"));
    }

    /// Ends a call and delivers the response to the program.
    fn end(collector: &mut Collector, call: u32) {
        end_unnoticed(collector, call);
        collector.answered(u32::MAX);
    }

    fn end_unnoticed(collector: &mut Collector, call: u32) {
        collector.start(CallId(call), "a:b");
        collector.end(CallId(call), TaskKind::Tool, Ok("1"));
    }

    fn layers(collector: Collector) -> Vec<u32> {
        collector.into_trace().task_results.iter().map(|task| task.layer_index).collect()
    }

    #[test]
    fn a_layer_is_what_was_issued_before_anything_of_it_had_ended() {
        // Forty calls at once, four of which may run at the same time.
        let mut parallel = collector();
        (1..=40).for_each(|call| issue(&mut parallel, call));
        (1..=40).for_each(|call| end(&mut parallel, call));
        assert_eq!(layers(parallel), [1; 40]);

        // The same if the first calls have ended before the host has read the last.
        let mut raced = collector();
        for call in 1..=40 {
            issue(&mut raced, call);
            end_unnoticed(&mut raced, call);
        }
        raced.answered_read();
        raced.answered(7);
        issue(&mut raced, 41);
        raced.answered(99);
        issue(&mut raced, 42);
        assert_eq!(layers(raced), [vec![1; 40], vec![2; 2]].concat());

        let mut sequential = collector();
        for call in 1..=3 {
            issue(&mut sequential, call);
            end(&mut sequential, call);
        }
        assert_eq!(layers(sequential), [1, 2, 3]);

        // A call that stays in flight while others follow each other.
        let mut mixed = collector();
        issue(&mut mixed, 1);
        issue(&mut mixed, 2);
        end(&mut mixed, 2);
        issue(&mut mixed, 3);
        end(&mut mixed, 3);
        end(&mut mixed, 1);
        issue(&mut mixed, 4);
        assert_eq!(layers(mixed), [1, 1, 2, 3]);
    }

    #[test]
    fn what_has_not_ended_was_cancelled_and_names_are_the_real_ones() {
        let mut collector = collector();
        issue(&mut collector, 1);
        collector.start(CallId(1), "a:real-name");
        collector.issue(CallId(3), TaskKind::Search, "pml:search", Some("{\"query\":\"x\"}"));
        let error = CallError::new(ErrorCode::InvalidArguments, "no");
        collector.end(CallId(3), TaskKind::Search, Err(&error));
        collector.finish(Err((ErrorCode::Timeout, "too slow")), &["careful".to_owned()]);
        let summary = collector.summary(Some(ErrorCode::Timeout));
        assert_eq!((summary.calls, summary.failed_calls), (1, 0));
        let trace = collector.into_trace();
        let tasks: Vec<_> = trace
            .task_results
            .iter()
            .map(|task| {
                let code = task.error.as_ref().map(|error| error.code.as_str());
                (task.task_id.as_str(), task.call_id, task.tool.as_str(), task.success, code)
            })
            .collect();
        let expected = [
            ("t1", 1, "a:real-name", false, Some("CANCELLED")),
            ("t2", 3, "pml:search", false, Some("INVALID_ARGUMENTS")),
        ];
        assert_eq!(tasks, expected);
        assert_eq!((trace.error_code.as_deref(), trace.success), (Some("TIMEOUT"), false));
        assert_eq!((trace.code.as_deref(), trace.args.unwrap().get()), (Some("return 1"), "{\"n\":1}"));
        assert_eq!(
            (&trace.code_hash.unwrap()[..], &trace.warnings[..]),
            (&sha256("return 1")[..], &["careful".to_owned()][..])
        );
    }

    #[test]
    fn values_are_cut_before_they_are_copied_and_a_trace_stays_small() {
        let mut collector = collector();
        let large = format!("[{}1]", "1,".repeat(500_000));
        let small = format!("[{}1]", "1,".repeat(10_000));
        for call in 1..=5000 {
            let args = if call == 1 { &large } else { &small };
            collector.issue(CallId(call), TaskKind::Tool, "a:b", Some(args));
            collector.end(CallId(call), TaskKind::Tool, Ok(&small));
            collector.log("log", &small);
        }
        collector.finish(Ok(Some(&large)), &[]);
        let trace = collector.into_trace();
        let text = serde_json::to_string(&trace).unwrap();
        assert!(text.len() < 1_300_000, "{}", text.len());
        let cut = &trace.metadata.truncated;
        assert_eq!((cut[0].path.as_str(), cut[0].original_bytes), ("/taskResults/0/args", large.len() as u64));
        assert!(cut.iter().any(|cut| cut.path == "/taskResults") && cut.iter().any(|cut| cut.path == "/logs"));
        let first: String = serde_json::from_str(trace.task_results[0].args.as_ref().unwrap().get()).unwrap();
        assert!(first.len() == VALUE_BYTES && large.starts_with(&first));
        assert_eq!(trace.task_results[1].args.as_ref().unwrap().get(), small);
    }

    #[test]
    fn without_anybody_who_takes_it_nothing_is_copied() {
        let mut collector = Collector::new(&Context::new(Entry::Run, "cli"), None, false);
        issue(&mut collector, 1);
        let error = CallError::new(ErrorCode::ToolError, "no");
        collector.end(CallId(1), TaskKind::Tool, Err(&error));
        collector.log("log", "x");
        let summary = collector.summary(None);
        assert_eq!((summary.calls, summary.failed_calls), (1, 1));
        let trace = collector.into_trace();
        assert!(trace.task_results.is_empty() && trace.logs.is_empty());
    }
}
