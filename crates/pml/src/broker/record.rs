//! The record of each call, whatever becomes of it: a line when a server is about to hear of it, a line and an event when it
//! is over.

use std::sync::Arc;

use pml_wire::{CallId, ErrorCode, message::CallError};
use tokio::time::{Duration, Instant};
use tracing::{Span, field, info_span};

use super::{afterwards::Afterwards, handler::Answer};
use crate::{
    audit::{Audit, CallEvent, CallLine, Decision, Speculation},
    clock::now_millis,
    events::{Body, Bus},
    trace::{Context, Recorder},
};

/// Where records go.
#[derive(Clone, Debug)]
pub(super) struct Sinks {
    pub(super) bus: Bus,
    pub(super) audit: Arc<Audit>,
    pub(super) recorder: Recorder,
}

/// A call that is going on. Dropped without an outcome, it was cancelled.
#[derive(Debug)]
pub(super) struct Record {
    sinks: Arc<Sinks>,
    context: Arc<Context>,
    id: CallId,
    pub(super) tool: String,
    /// The method, if it is not the call of a tool.
    pub(super) method: Option<&'static str>,
    pub(super) args_sha256: String,
    pub(super) decision: Decision,
    pub(super) rule: String,
    /// What the call has to do with calls that are made ahead.
    pub(super) speculation: Option<Speculation>,
    started: Instant,
    span: Span,
    /// What its last line is, if no server hears of it.
    unheard: CallEvent,
    /// Has a server been about to hear of it?
    is_started: bool,
    is_over: bool,
}

/// What a search is called where calls have a tool.
pub const SEARCH: &str = "pml:search";

/// The ids of a run, as lines have them.
struct Ids {
    execution: String,
    trace: String,
}

impl Ids {
    fn of(context: &Context) -> Ids {
        Ids { execution: context.execution.to_string(), trace: context.trace_id() }
    }
}

impl Record {
    pub(super) fn new(sinks: &Arc<Sinks>, context: &Arc<Context>, id: CallId, tool: &str) -> Record {
        Record {
            sinks: Arc::clone(sinks),
            context: Arc::clone(context),
            id,
            tool: tool.to_owned(),
            method: None,
            args_sha256: String::new(),
            decision: Decision::Allow,
            rule: "default".to_owned(),
            speculation: None,
            started: Instant::now(),
            span: info_span!(
                "call",
                execution = %context.execution,
                call = id.0,
                tool,
                code = field::Empty,
                duration_ms = field::Empty
            ),
            unheard: CallEvent::Refused,
            is_started: false,
            is_over: false,
        }
    }

    /// On whose behalf the call is made.
    pub(super) fn caller(&self) -> &Arc<str> {
        &self.context.caller
    }

    /// The span of the call. Its outcome is recorded when the call is over.
    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// The record of a search, which no server hears of.
    pub(super) fn of_search(sinks: &Arc<Sinks>, context: &Arc<Context>, id: CallId) -> Record {
        let mut record = Record::new(sinks, context, id, SEARCH);
        record.unheard = CallEvent::Search;
        record
    }

    /// Writes the start line of the call, in one append with the end lines that earlier calls of the run left. The server may
    /// hear of the call only after this.
    pub(super) async fn start(&mut self, afterwards: Option<&Afterwards>) {
        self.is_started = true;
        let before = afterwards.map(Afterwards::lines).unwrap_or_default();
        let ids = Ids::of(&self.context);
        self.sinks.audit.record_start(before, &self.line(CallEvent::Started, &ids)).await;
    }

    fn line<'b>(&'b self, event: CallEvent, ids: &'b Ids) -> CallLine<'b> {
        CallLine {
            ts: now_millis(),
            event,
            who: &self.context.caller,
            execution_id: &ids.execution,
            trace_id: &ids.trace,
            call: self.id.0,
            method: self.method,
            tool: &self.tool,
            args_sha256: &self.args_sha256,
            decision: self.decision,
            rule: &self.rule,
            speculation: self.speculation,
            success: None,
            code: None,
            duration_ms: None,
        }
    }

    pub(super) fn end(self, outcome: &Result<Answer, CallError>) {
        self.end_with(outcome.as_ref().map(Answer::bytes));
    }

    /// Ends it with the size of the result, or with what went wrong.
    pub(super) fn end_with(mut self, outcome: Result<usize, &CallError>) {
        self.write(outcome, self.started.elapsed(), None);
    }

    /// Ends it: at once if it failed, else when the program has its answer.
    pub(super) fn end_later(mut self, outcome: &Result<Answer, CallError>, afterwards: &Afterwards) {
        let (took, bytes) = match outcome {
            Ok(answer) => (self.started.elapsed(), answer.bytes()),
            Err(error) => {
                afterwards.catch_up();
                return self.end_with(Err(error));
            }
        };
        afterwards.add(move |lines| self.write(Ok(bytes), took, lines));
    }

    /// Writes the last line, to `lines` or to the log, and publishes the event.
    fn write(&mut self, outcome: Result<usize, &CallError>, took: Duration, lines: Option<&mut Vec<String>>) {
        self.is_over = true;
        let duration_ms = (took.as_secs_f64() * 1e6).round() / 1e3;
        let error = outcome.err();
        self.span.record("duration_ms", duration_ms);
        if let Some(error) = error {
            self.span.record("code", error.code.as_str());
        }
        let ids = Ids::of(&self.context);
        let event = if self.is_started { CallEvent::Ended } else { self.unheard };
        let line = CallLine {
            success: Some(error.is_none()),
            code: error.map(|error| error.code.as_str()),
            duration_ms: Some(duration_ms),
            ..self.line(event, &ids)
        };
        match lines {
            Some(lines) => lines.extend(self.sinks.audit.admit(&line)),
            None => self.sinks.audit.record(&line),
        }
        let call = self.id.0;
        let execution = ids.execution;
        let audited = || Body::Audited {
            who: self.context.caller.to_string(),
            tool: self.tool.clone(),
            call,
            decision: self.decision,
            rule: self.rule.clone(),
            success: error.is_none(),
        };
        if self.sinks.bus.is_heard() {
            self.sinks.bus.publish(&*execution, audited());
        }
        if event == CallEvent::Search {
            return; // no server has answered
        }
        let (method, subject) = (self.method, self.tool.clone());
        let body = match (outcome, subject.parse()) {
            (Err(error), _) if error.code == ErrorCode::PolicyDenied => {
                Body::PolicyDenied { tool: subject, call, rule: self.rule.clone() }
            }
            (Ok(result_bytes), _) if let Some(method) = method => {
                Body::RequestCompleted { method, subject, duration_ms, result_bytes }
            }
            (Err(error), _) if let Some(method) = method => {
                let (code, message) = (error.code, error.message.clone());
                Body::RequestFailed { method, subject, duration_ms, code, retryable: error.retryable, message }
            }
            (Ok(result_bytes), Ok(tool)) => Body::ToolCompleted { tool, call, duration_ms, result_bytes },
            (outcome, _) => {
                let (code, retryable, message) = match outcome {
                    Ok(_) => (ErrorCode::ToolNotFound, false, String::new()),
                    Err(error) => (error.code, error.retryable, error.message.clone()),
                };
                Body::ToolFailed { tool: self.tool.clone(), call, duration_ms, code, retryable, message }
            }
        };
        self.sinks.bus.publish(execution, body);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.is_over {
            let error = CallError::new(ErrorCode::Cancelled, "the call was cancelled");
            self.write(Err(&error), self.started.elapsed(), None);
        }
    }
}
