//! `execute_workflow`: a graph of calls run, a plan suggested, or a plan run that was suggested before.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use pml_wire::{ErrorCode, message::ErrorReport, trace::Entry};
use serde_json::{Value, json};

use super::{
    answer::{self, Keeper, success},
    follow::Teller,
    gateway::{Frontend, text_result, tool_failure},
    nested::NestedRuns,
    session::Scope,
    shares::TooMany,
};
use crate::{
    broker::Allowance,
    execution::{Media, millis},
    trace::{Context, Program},
    work,
    workflow::{self, Ask, Asked, Document, Elements, Event, Outcome, Request, Status, TaskRecord},
};

/// Tasks that are told one by one. Of more, those that did not succeed and how many there were.
const MAX_TASKS: usize = 40;
/// Elements of `forEach` that are named, of all tasks together. Of more, only how many there are is told.
const MAX_ELEMENTS: usize = 300;
/// Longest message of one task.
const MAX_MESSAGE: usize = 300;
/// What the results may always have, however many tasks there are.
const LEAST: usize = 200;

impl Frontend {
    pub(super) async fn execute_workflow(&self, ask: Ask, scope: &Scope) -> Value {
        let failure = |report: &ErrorReport| tool_failure(report.code, &report.message, report.hint.as_deref());
        let timeout = match ask.timeout() {
            Ok(timeout) => timeout,
            Err(message) => return tool_failure(ErrorCode::InvalidArguments, &message, None),
        };
        let intent = ask.intent.clone();
        let context = scope.context(Entry::Workflow).with_intent(intent);
        let document = match workflow::resolve(ask, &self.broker, &context, &self.shared.plans).await {
            Err(report) => return failure(&report),
            Ok(Asked::Suggestion(suggestion)) => return text_result(&suggestion.to_text(), suggestion.to_json()),
            Ok(Asked::Run(document)) => document,
        };
        let teller = Teller::new(scope);
        let mut outcome = teller.during(self.run_workflow(document, context, timeout, &teller, scope)).await;
        let called = outcome.calls.iter().filter_map(|call| call.tool.parse().ok());
        outcome.warnings.extend(self.note_changes(&scope.session, called));
        let (results, caller) = (Arc::clone(&self.shared.results), scope.session.caller.clone());
        let keeper = Keeper { results, caller, budget: self.settings().output_tokens };
        work::sized(outcome.bytes(), move |_| tell(outcome, &keeper)).await
    }

    async fn run_workflow(
        &self,
        document: Document,
        context: Context,
        timeout: Option<Duration>,
        teller: &Teller<'_>,
        scope: &Scope,
    ) -> Outcome {
        let id = context.execution;
        let refused = |code: ErrorCode, message: &str| Outcome::refused(id, ErrorReport::new(code, message));
        let Some(_running) = self.shared.runs.begin() else {
            return refused(ErrorCode::ShuttingDown, "pml is shutting down");
        };
        let mut budget = self.settings().limits;
        budget.total = timeout.map_or(budget.total, |timeout| timeout.min(budget.total));
        // Cancelled by the client, or because everything ends.
        let stop = scope.cancel.child_token();
        let text = document.text.clone();
        let context = Arc::new(context);
        // Before it is checked: that may need a sandbox, for the programs in it.
        let client = &scope.session.client;
        let place = tokio::select! {
            place = self.shared.places.take(client) => place,
            () = stop.cancelled() => return refused(ErrorCode::Cancelled, "it was cancelled before it ran"),
        };
        let _place = match place {
            Ok(place) => place,
            Err(TooMany) => {
                return refused(ErrorCode::RateLimited, "too many programs of this client wait for their turn");
            }
        };
        let checked = tokio::select! {
            checked = workflow::check(document, &self.broker, &context, (&budget, &self.shared.pool)) => checked,
            () = stop.cancelled() => return refused(ErrorCode::Cancelled, "it was cancelled before it ran"),
        };
        let checked = match checked {
            Ok(checked) => checked,
            Err(problems) => return Outcome::invalid(id, &problems),
        };
        let context = match (&context.intent, checked.intent()) {
            (None, Some(intent)) => Arc::new(Context::clone(&context).with_intent(Some(intent.to_owned()))),
            _ => context,
        };
        self.shared.recorder.ready().await;
        let record = self.shared.recorder.begin(context, Some(Program { code: &text, args: checked.args() }));
        let recording = record.recording().clone();
        let request = Request {
            recording: recording.clone(),
            checked,
            budget,
            allowance: Allowance::admitted_by(budget, Arc::new(NestedRuns::new(&self.shared, client))),
            media: Media::Apart,
            follows_calls: scope.progress_token().is_some(),
        };
        let listener = |event: Event<'_>| match event {
            Event::TaskStarted { .. } => {}
            Event::TaskEnded { task, ended, of } => {
                teller.progress(|| format!("task {} {} ({ended} of {of})", task.id, task.status.as_str()));
            }
            Event::Call(event) => teller.tell(&event),
        };
        let work = std::pin::pin!(workflow::run(&*self.broker, request, &listener, &stop));
        let mut work = std::pin::pin!(recording.during(work));
        let outcome = tokio::select! {
            outcome = &mut work => outcome,
            () = self.shared.runs.ended() => {
                stop.cancel();
                work.await
            }
        };
        let (summary, receipt) = record.finish(outcome.finish());
        self.shared.metrics.run(&recording.context().caller, summary);
        receipt.wait().await;
        outcome
    }
}

/// The result of `execute_workflow`. Takes time in proportion to the outcome.
fn tell(outcome: Outcome, keeper: &Keeper) -> Value {
    let status = outcome.status();
    let Outcome {
        execution_id,
        verdict,
        results,
        partial_results,
        attached,
        tasks,
        problems,
        mut warnings,
        duration,
        ..
    } = outcome;
    let mut told = json!({ "execution_id": execution_id, "status": status });
    let notes = task_notes(&tasks);
    let left = keeper.budget.saturating_sub(super::tokens::estimate(&notes) * 2).max(LEAST);
    let mut hidden = 0;
    let results = match tasks.is_empty() {
        true => String::new(),
        false => success(results, keeper, left, &mut told, &mut hidden),
    };
    if let Some(result) = told.as_object_mut().and_then(|told| told.remove("result")) {
        told["results"] = result;
    }
    let partial = partial_results.map(|partial| {
        let left = left.saturating_sub(super::tokens::estimate(&results)).max(LEAST);
        let mut own = json!({});
        let text = success(partial, keeper, left, &mut own, &mut hidden);
        for (key, name) in [
            ("result", "partial_results"),
            ("preview", "partial_results_preview"),
            ("result_handle", "partial_results_handle"),
        ] {
            if let Some(value) = own.get_mut(key) {
                told[name] = value.take();
            }
        }
        text
    });
    warnings.extend(answer::say_hidden(hidden));
    let first = match &verdict {
        Ok(()) => results,
        Err(report) => {
            told["error"] = json!({ "code": report.code, "message": report.message, "hint": report.hint });
            let mut text = format!("error[{}]: {}\n", report.code, report.message);
            // Writing to a String cannot fail.
            if let Some(hint) = &report.hint {
                let _ = writeln!(text, "hint: {hint}");
            }
            if !results.is_empty() && results != "{}" {
                let _ = writeln!(text, "results: {results}");
            }
            if let Some(partial) = &partial {
                let _ = writeln!(text, "results of the elements that succeeded, by their numbers: {partial}");
            }
            text
        }
    };
    if !problems.is_empty() {
        told["problems"] = json!(problems);
    }
    let is_short = tasks.len() <= MAX_TASKS;
    let chosen = tasks.iter().filter(|task| is_short || task.status != Status::Success).take(MAX_TASKS);
    let mut elements_left = MAX_ELEMENTS;
    told["tasks"] = chosen.map(|task| task_json(task, &mut elements_left)).collect();
    if !is_short {
        told["tasks_total"] = tasks.len().into();
    }
    told["warnings"] = json!(warnings);
    told["duration_ms"] = millis(duration).into();
    let mut notes = notes;
    for warning in &warnings {
        let _ = writeln!(notes, "warning: {warning}");
    }
    let mut content = vec![json!({ "type": "text", "text": first.trim_end() })];
    if !notes.is_empty() {
        content.push(json!({ "type": "text", "text": notes.trim_end() }));
    }
    // Blocks of MCP already; what a server made up that is none was never kept as one.
    content.extend(attached.iter().filter_map(|block| serde_json::from_str::<Value>(block.get()).ok()));
    json!({ "content": content, "structuredContent": told, "isError": verdict.is_err() })
}

fn task_json(task: &TaskRecord, elements_left: &mut usize) -> Value {
    let mut told = json!({ "id": task.id, "status": task.status, "duration_ms": millis(task.duration) });
    if let Some(elements) = &task.elements {
        let Elements { succeeded, failed, not_run } = elements;
        let (succeeded_count, failed_count, not_run_count) = (succeeded.len(), failed.len(), not_run.len());
        told["elements"] = match elements_left.checked_sub(succeeded_count + failed_count + not_run_count) {
            Some(left) => {
                *elements_left = left;
                json!(elements)
            }
            None => {
                json!({ "counts": { "succeeded": succeeded_count, "failed": failed_count, "not_run": not_run_count } })
            }
        };
    }
    if let Some(error) = &task.error {
        told["error"] = json!({ "code": error.code, "message": short(&error.message), "retryable": error.retryable, "outcome": error.outcome });
    }
    told
}

/// How the tasks went, in lines.
fn task_notes(tasks: &[TaskRecord]) -> String {
    if tasks.is_empty() {
        return String::new();
    }
    let count = |status: Status| tasks.iter().filter(|task| task.status == status).count();
    let mut text = format!("tasks: {} succeeded", count(Status::Success));
    for (status, word) in [(Status::Error, "failed"), (Status::Skipped, "skipped"), (Status::NotRun, "not run")] {
        if count(status) > 0 {
            let _ = write!(text, ", {} {word}", count(status));
        }
    }
    text.push('\n');
    let is_short = tasks.len() <= MAX_TASKS;
    for task in tasks.iter().filter(|task| is_short || task.status != Status::Success).take(MAX_TASKS) {
        let _ = match &task.error {
            None => writeln!(text, "  {} {} {} ms", task.status.as_str(), task.id, millis(task.duration)),
            Some(error) => {
                writeln!(text, "  {} {} {}: {}", task.status.as_str(), task.id, error.code, short(&error.message))
            }
        };
    }
    text
}

fn short(message: &str) -> &str {
    &message[..message.floor_char_boundary(MAX_MESSAGE)]
}

#[cfg(test)]
mod tests {
    use pml_wire::{ExecutionId, message::CallError};
    use serde_json::value::RawValue;

    use super::{
        super::{results::Caller, tokens},
        *,
    };

    #[test]
    fn no_workflow_can_make_an_answer_too_long() {
        let keeper = Keeper { results: Arc::default(), caller: Caller::new("me"), budget: 5000 };
        let task = |number: usize| TaskRecord {
            id: format!("task-{number}"),
            status: if number.is_multiple_of(2) { Status::Success } else { Status::Error },
            duration: Duration::from_millis(1),
            calls: 1,
            error: (!number.is_multiple_of(2)).then(|| CallError::new(ErrorCode::ToolError, "no ".repeat(5000))),
            elements: (number == 1).then(|| Elements { succeeded: (0..1000).collect(), ..Elements::default() }),
        };
        let results = format!("{{\"a\":\"{}\"}}", "x y ".repeat(50_000));
        let outcome = Outcome {
            results: RawValue::from_string(results.clone()).unwrap(),
            tasks: (0..1000).map(task).collect(),
            ..Outcome::refused(ExecutionId::mint(), ErrorReport::new(ErrorCode::WorkflowFailed, "no"))
        };
        let told = tell(outcome, &keeper);
        for form in ["content", "structuredContent"] {
            let size = tokens::estimate(&told[form].to_string());
            assert!(size < 10_000, "{form}: {size}");
        }
        let told = &told["structuredContent"];
        assert_eq!((&told["tasks_total"], told["tasks"].as_array().unwrap().len()), (&json!(1000), MAX_TASKS));
        let id = told["result_handle"]["id"].as_str().unwrap();
        assert_eq!(keeper.results.get(&Caller::new("me"), id).unwrap().as_str(), results);
    }
}
