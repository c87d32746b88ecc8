//! How a workflow went.

use std::time::Duration;

use pml_wire::{
    ErrorCode, ExecutionId,
    message::{CallError, ErrorReport},
};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};
use serde_json::value::{RawValue, to_raw_value};

use super::problem::{Problem, Problems};
use crate::{
    broker::{Answer, AnswerBody, NestedValue},
    execution::{CallRecord, millis},
    trace::Finish,
};

/// How a workflow went. Serializes to what `pml workflow run --json` prints.
#[derive(Debug)]
pub struct Outcome {
    pub execution_id: ExecutionId,
    pub name: Option<String>,
    /// Whether all of it succeeded, or why not.
    pub verdict: Result<(), Box<ErrorReport>>,
    /// An object with the result of each task that succeeded, by its id.
    pub results: Box<RawValue>,
    /// An object with the results of those elements of `forEach` that succeeded, for each task that failed, by the id of the task
    /// and the number of the element.
    pub partial_results: Option<Box<RawValue>>,
    /// Content blocks that the results refer to by number, from 1.
    pub attached: Vec<Box<RawValue>>,
    /// The results and partial results with their handles, with [`Media::Nested`](crate::execution::Media::Nested), if they have any.
    pub nested: Option<NestedValue>,
    pub tasks: Vec<TaskRecord>,
    /// What is wrong with the workflow, if it was not started.
    pub problems: Vec<Problem>,
    pub calls: Vec<CallRecord>,
    pub warnings: Vec<String>,
    pub duration: Duration,
}

/// How one task went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    pub id: String,
    pub status: Status,
    pub duration: Duration,
    /// Calls that were made for it.
    pub calls: u32,
    pub error: Option<CallError>,
    /// What became of the elements of `forEach`, of a task that failed.
    pub elements: Option<Elements>,
}

/// What became of the elements of a list, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Elements {
    pub succeeded: Vec<usize>,
    pub failed: Vec<usize>,
    /// Those that were not begun, or had not ended when the workflow did.
    pub not_run: Vec<usize>,
}

/// The results of a workflow before anything takes the places of handles in them, and afterwards.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Results {
    pub(super) results: Box<RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) partial_results: Option<Box<RawValue>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Success,
    Error,
    /// Its condition did not hold.
    Skipped,
    /// It never started.
    NotRun,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Success => "success",
            Status::Error => "error",
            Status::Skipped => "skipped",
            Status::NotRun => "not_run",
        }
    }
}

impl Outcome {
    /// How a workflow went that was not started.
    pub fn refused(execution_id: ExecutionId, report: ErrorReport) -> Outcome {
        Outcome {
            execution_id,
            name: None,
            verdict: Err(Box::new(report)),
            results: empty(),
            partial_results: None,
            attached: Vec::new(),
            nested: None,
            tasks: Vec::new(),
            problems: Vec::new(),
            calls: Vec::new(),
            warnings: Vec::new(),
            duration: Duration::ZERO,
        }
    }

    /// The same of one that cannot run as it is written.
    pub fn invalid(execution_id: ExecutionId, problems: &Problems) -> Outcome {
        let report = problems.report();
        Outcome { problems: problems.iter().cloned().collect(), ..Outcome::refused(execution_id, report) }
    }

    pub fn is_success(&self) -> bool {
        self.verdict.is_ok()
    }

    pub fn status(&self) -> &'static str {
        if self.is_success() { "success" } else { "error" }
    }

    /// How much there is to tell, about.
    pub fn bytes(&self) -> usize {
        let attached = self.attached.iter().map(|block| block.get().len()).sum::<usize>();
        let partial = self.partial_results.as_ref().map_or(0, |partial| partial.get().len());
        self.results.get().len() + partial + attached + 200 * self.tasks.len()
    }

    /// The same as the answer to a program that ran the workflow.
    pub fn answer(mut self) -> Result<Answer, CallError> {
        let unwritten = |err| CallError::new(ErrorCode::ResultNotJson, format!("the outcome cannot be written: {err}"));
        let kept = match self.nested.take() {
            None => None,
            Some(NestedValue { json, kept }) => {
                let Results { results, partial_results } = serde_json::from_str(json.get()).map_err(unwritten)?;
                (self.results, self.partial_results) = (results, partial_results);
                Some(kept)
            }
        };
        let json = to_raw_value(&self).map_err(unwritten)?;
        let body = match kept {
            None => AnswerBody::Value(json),
            Some(kept) => AnswerBody::Nested(NestedValue { json, kept }),
        };
        Ok(Answer { body, held: None })
    }

    /// The same for the record of the execution.
    pub fn finish(&self) -> Finish<'_> {
        let outcome = match &self.verdict {
            Ok(()) => Ok(Some(self.results.get())),
            Err(report) => Err((report.code, report.message.as_str())),
        };
        Finish { outcome, warnings: &self.warnings }
    }
}

pub(super) fn empty() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// What is said of tasks that failed.
pub(super) fn failed(tasks: &[TaskRecord]) -> Option<ErrorReport> {
    const NAMED: usize = 5;
    let wrong: Vec<_> = tasks.iter().filter(|task| task.status == Status::Error).collect();
    let not_run = tasks.iter().filter(|task| task.status == Status::NotRun).count();
    if wrong.is_empty() {
        return None;
    }
    let named = wrong.iter().take(NAMED).map(|task| match &task.error {
        Some(error) => format!("\n  `{}`: {}: {}", task.id, error.code, super::reference::shown_long(&error.message)),
        None => format!("\n  `{}`", task.id),
    });
    let more = match wrong.len() - wrong.len().min(NAMED) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    let lost = match not_run {
        0 => String::new(),
        1 => ", so 1 that depends on them was not run".to_owned(),
        count => format!(", so {count} that depend on them were not run"),
    };
    let message = format!("{} of {} tasks failed{lost}:{}{more}", wrong.len(), tasks.len(), named.collect::<String>());
    let hint = "the other tasks have run, and `results` has what they returned; send only what is missing";
    Some(ErrorReport::new(ErrorCode::WorkflowFailed, message).with_hint(hint))
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let error =
            self.verdict.as_ref().err().map(
                |report| serde_json::json!({ "code": report.code, "message": report.message, "hint": report.hint }),
            );
        let mut object = serializer.serialize_struct("Outcome", 10)?;
        object.serialize_field("execution_id", &self.execution_id)?;
        object.serialize_field("name", &self.name)?;
        object.serialize_field("status", self.status())?;
        object.serialize_field("results", &self.results)?;
        match &self.partial_results {
            Some(partial) => object.serialize_field("partial_results", partial)?,
            None => object.skip_field("partial_results")?,
        }
        object.serialize_field("tasks", &self.tasks)?;
        object.serialize_field("error", &error)?;
        object.serialize_field("problems", &self.problems)?;
        object.serialize_field("warnings", &self.warnings)?;
        object.serialize_field("duration_ms", &millis(self.duration))?;
        object.end()
    }
}

impl Serialize for TaskRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("TaskRecord", 6)?;
        object.serialize_field("id", &self.id)?;
        object.serialize_field("status", &self.status)?;
        object.serialize_field("duration_ms", &millis(self.duration))?;
        object.serialize_field("calls", &self.calls)?;
        match &self.error {
            Some(error) => object.serialize_field("error", error)?,
            None => object.skip_field("error")?,
        }
        match &self.elements {
            Some(elements) => object.serialize_field("elements", elements)?,
            None => object.skip_field("elements")?,
        }
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, status: Status, error: Option<CallError>) -> TaskRecord {
        TaskRecord { id: id.to_owned(), status, duration: Duration::from_micros(1500), calls: 1, error, elements: None }
    }

    #[test]
    fn failures_are_named_and_counted() {
        let error = || Some(CallError::new(ErrorCode::ToolError, "no ".repeat(1000)));
        let mut tasks = vec![task("a", Status::Success, None), task("b", Status::Error, error())];
        tasks.push(task("c", Status::NotRun, None));
        let report = failed(&tasks).unwrap();
        assert!(
            report
                .message
                .starts_with("1 of 3 tasks failed, so 1 that depends on them was not run:\n  `b`: TOOL_ERROR: no")
        );
        tasks.extend((0..100).map(|number| task(&format!("t{number}"), Status::Error, error())));
        let report = failed(&tasks).unwrap();
        assert!(report.message.ends_with("and 96 more") && report.message.len() < 3000, "{}", report.message);
        assert!(failed(&[task("a", Status::Skipped, None)]).is_none());
    }

    #[test]
    fn the_json_shape_has_every_key() {
        let mut outcome =
            Outcome::refused(ExecutionId::mint(), ErrorReport::new(ErrorCode::WorkflowFailed, "no").with_hint("h"));
        outcome.tasks = vec![task("a", Status::NotRun, None)];
        let json = serde_json::to_value(&outcome).unwrap();
        let expected = serde_json::json!({
            "execution_id": outcome.execution_id.to_string(), "name": null, "status": "error", "results": {},
            "tasks": [{"id": "a", "status": "not_run", "duration_ms": 1.5, "calls": 1}],
            "error": {"code": "WORKFLOW_FAILED", "message": "no", "hint": "h"},
            "problems": [], "warnings": [], "duration_ms": 0.0,
        });
        assert_eq!(json, expected);
    }
}
