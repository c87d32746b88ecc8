//! The outcome of a run.

use std::{collections::BTreeSet, time::Duration};

use pml_wire::{
    CallId, ExecutionId,
    message::{CallError, Decision, ErrorReport, Log},
};
use serde::{Serialize, Serializer, ser::SerializeStruct};
use serde_json::{Value, value::RawValue};

use crate::{
    broker::{Answer, AnswerBody, NestedValue},
    trace::Finish,
};

/// A longer result has something in it.
const MAX_EMPTY_BYTES: usize = 256;

/// The outcome of a run. Serializes to the object that `pml run --json` prints.
#[derive(Debug)]
pub struct Outcome {
    pub execution_id: ExecutionId,
    pub result: Result<Box<RawValue>, Box<ErrorReport>>,
    /// Content blocks that the result refers to by number, from 1, with [`Media::Apart`](super::Media::Apart).
    pub attached: Vec<Box<RawValue>>,
    /// The result with its handles, with [`Media::Nested`](super::Media::Nested), if it has any.
    pub nested: Option<NestedValue>,
    pub logs: Vec<Log>,
    pub calls: Vec<CallRecord>,
    /// Tools, resources and prompts whose calls were permitted and answered, by the names that the policy has for them.
    pub used: BTreeSet<String>,
    pub warnings: Vec<String>,
    pub decisions: Vec<Decision>,
    pub duration: Duration,
}

impl Outcome {
    /// The approximate size of the outcome.
    pub fn bytes(&self) -> usize {
        let result = self.result.as_ref().map_or(0, |value| value.get().len());
        let attached = self.attached.iter().map(|block| block.get().len()).sum::<usize>();
        result + attached + self.logs.iter().map(|log| log.text.len()).sum::<usize>()
    }

    /// The outcome for the record of the execution.
    pub fn finish(&self) -> Finish<'_> {
        let outcome = match &self.result {
            Ok(value) => Ok(Some(value.get())),
            Err(report) => Err((report.code, report.message.as_str())),
        };
        Finish { outcome, warnings: &self.warnings }
    }

    /// The outcome as the answer to whoever called the run.
    pub fn answer(self) -> Result<Answer, Box<ErrorReport>> {
        self.result.map(|value| match self.nested {
            Some(nested) => Answer { body: AnswerBody::Nested(nested), held: None },
            None => Answer::from(value),
        })
    }

    /// The outcome of a program that was not run.
    pub fn refused(execution_id: ExecutionId, report: ErrorReport) -> Outcome {
        Outcome {
            execution_id,
            result: Err(Box::new(report)),
            attached: Vec::new(),
            nested: None,
            logs: Vec::new(),
            calls: Vec::new(),
            used: BTreeSet::new(),
            warnings: Vec::new(),
            decisions: Vec::new(),
            duration: Duration::ZERO,
        }
    }
}

/// The outcome of one tool call.
#[derive(Clone, Debug)]
pub struct CallRecord {
    pub id: CallId,
    /// `server:tool` as the program wrote it.
    pub tool: String,
    pub duration: Duration,
    pub error: Option<CallError>,
    /// Did the tool find nothing? A list without elements, or an object whose only list has none.
    pub is_empty: bool,
}

/// Is there nothing in a result, which is JSON?
pub(super) fn is_empty(result: &str) -> bool {
    if result.len() > MAX_EMPTY_BYTES {
        return false;
    }
    match serde_json::from_str(result) {
        Ok(Value::Array(list)) => list.is_empty(),
        Ok(Value::String(text)) => text.trim().is_empty(),
        Ok(Value::Object(members)) => {
            let mut lists = members.values().filter_map(Value::as_array);
            matches!((lists.next(), lists.next()), (Some(list), None) if list.is_empty())
        }
        _ => false,
    }
}

/// Milliseconds, with microsecond precision.
pub fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let status = if self.result.is_ok() { "success" } else { "error" };
        let mut object = serializer.serialize_struct("Outcome", 8)?;
        object.serialize_field("execution_id", &self.execution_id)?;
        object.serialize_field("status", status)?;
        object.serialize_field("result", &self.result.as_ref().ok())?;
        object.serialize_field("error", &self.result.as_ref().err().map(|report| ReportJson(report)))?;
        object.serialize_field("logs", &self.logs)?;
        object.serialize_field("calls", &self.calls)?;
        object.serialize_field("warnings", &self.warnings)?;
        object.serialize_field("duration_ms", &millis(self.duration))?;
        object.end()
    }
}

impl Serialize for CallRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("CallRecord", 5)?;
        object.serialize_field("id", &self.id)?;
        object.serialize_field("tool", &self.tool)?;
        object.serialize_field("success", &self.error.is_none())?;
        object.serialize_field("duration_ms", &millis(self.duration))?;
        object.serialize_field("error", &self.error)?;
        object.end()
    }
}

/// An error with every key present, and the hint on a line of its own in the message.
struct ReportJson<'a>(&'a ErrorReport);

impl Serialize for ReportJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ReportJson(report) = self;
        let message = match &report.hint {
            Some(hint) => format!("{}\nhint: {hint}", report.message),
            None => report.message.clone(),
        };
        let mut object = serializer.serialize_struct("Error", 5)?;
        object.serialize_field("code", &report.code)?;
        object.serialize_field("message", &message)?;
        object.serialize_field("stack", &report.stack)?;
        object.serialize_field("frame", &report.frame)?;
        object.serialize_field("tool", &report.tool)?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use pml_wire::ErrorCode;

    use super::*;

    #[test]
    fn what_has_nothing_in_it() {
        let table = [
            ("[]", true),
            ("\" \"", true),
            (r#"{"deals":[],"total":0}"#, true),
            ("[null]", false),
            ("null", false),
            ("0", false),
            ("{}", false),
            (r#"{"deals":[],"errors":[]}"#, false),
            (r#"{"deals":[{}]}"#, false),
            ("[", false),
        ];
        for (result, expected) in table {
            assert_eq!(is_empty(result), expected, "{result}");
        }
    }

    #[test]
    fn the_json_shape_has_every_key() {
        let outcome = Outcome {
            execution_id: ExecutionId::mint(),
            result: Err(Box::new(ErrorReport::new(ErrorCode::Timeout, "too slow").with_hint("hurry"))),
            attached: vec![],
            nested: None,
            logs: vec![],
            calls: vec![CallRecord {
                id: CallId(1),
                tool: "a:b".to_owned(),
                duration: Duration::from_micros(1500),
                error: None,
                is_empty: false,
            }],
            used: BTreeSet::new(),
            warnings: vec![],
            decisions: vec![],
            duration: Duration::from_millis(2),
        };
        let json = serde_json::to_value(&outcome).unwrap();
        let expected = serde_json::json!({
            "execution_id": outcome.execution_id.to_string(),
            "status": "error",
            "result": null,
            "error": {"code": "TIMEOUT", "message": "too slow\nhint: hurry", "stack": null, "frame": null, "tool": null},
            "logs": [],
            "calls": [{"id": 1, "tool": "a:b", "success": true, "duration_ms": 1.5, "error": null}],
            "warnings": [],
            "duration_ms": 2.0,
        });
        assert_eq!(json, expected);
    }
}
