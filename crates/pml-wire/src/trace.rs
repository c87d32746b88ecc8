//! The trace of one execution: what is stored, shown, exported and sent to a hub.
//!
//! Names are those of the JSON that hubs receive. A reader accepts fields that it does not know and lacks none that an
//! older writer left out, so gateways and hubs of different versions understand each other;
//! [`Metadata::schema_version`] says which version wrote a trace.
//!
//! A `Trace` may hold anything that a program or a server said. Whoever stores or sends one takes the sanitized form instead,
//! which only the sanitizer of the host can make.

use std::{fmt, str::FromStr};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use crate::{CallId, ErrorCode, ExecutionId, message::Decision};

/// Version of the format that this pml writes.
pub const SCHEMA_VERSION: u32 = 1;

/// Everything that is known of one execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// The id of the execution.
    pub trace_id: ExecutionId,
    /// The execution that called this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_trace_id: Option<ExecutionId>,
    /// The capability that ran, by its fully qualified name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability_id: Option<String>,
    /// How the execution entered pml.
    #[serde(default)]
    pub entry: Entry,
    /// What the agent said it wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// On whose behalf: the name of a client's token, or `cli`.
    #[serde(default)]
    pub caller: String,
    /// The client program, as it introduced itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    pub success: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// An [`ErrorCode`], kept as text: a newer gateway may know more codes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    pub duration_ms: f64,
    /// When the execution was accepted.
    pub timestamp: Timestamp,
    /// The program. Absent from passthrough calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// SHA-256 of the program as it was sent, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_hash: Option<String>,
    /// The value of the global `args`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    #[serde(default)]
    pub logs: Vec<LogLine>,
    #[serde(default)]
    pub warnings: Vec<String>,
    #[serde(default)]
    pub decisions: Vec<Decision>,
    /// Decisions that were made after the list was full. Of a gateway that counts no further than 10 000, that means so many
    /// or more.
    #[serde(default)]
    pub decisions_cut: u64,
    #[serde(default)]
    pub task_results: Vec<TaskResult>,
    /// Calls that the host expected of the program, in the order of the forecasts, and what became of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forecasts: Vec<Forecast>,
    #[serde(default)]
    pub metadata: Metadata,
}

/// How an execution entered pml.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A client's `execute_code`.
    #[default]
    ExecuteCode,
    /// A client's own call of a server's tool, resource or prompt.
    Passthrough,
    /// `pml run`.
    Run,
    /// A capability: called by a program or a client, or by `pml capability run`.
    Capability,
    /// A workflow, or a program that is one of its tasks.
    Workflow,
    /// An entry that a newer pml has.
    #[serde(other)]
    Other,
}

/// A client program, as it introduced itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A line that the program printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    pub level: String,
    pub text: String,
}

/// One thing that the program asked of the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskResult {
    /// `t1`, `t2`, … in the order in which the tasks were issued; of a workflow, the id that it has there.
    pub task_id: String,
    /// The id of the call within the execution, as in the audit log.
    #[serde(default)]
    pub call_id: u32,
    #[serde(default)]
    pub kind: TaskKind,
    /// `server:tool`, `server:resource:ADDRESS`, `server:prompt:NAME`, or `pml:search`.
    pub tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    pub success: bool,
    /// When the host took the task; it may wait for a place among the calls in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<Timestamp>,
    /// When the task was started.
    pub timestamp: Timestamp,
    pub duration_ms: f64,
    /// 1 + the highest layer among the tasks whose answers the program had when it issued this one.
    #[serde(default)]
    pub layer_index: u32,
    /// The line of the program that issued the task, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The answer is that of a call which the host had made ahead: one of [`Trace::forecasts`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub speculative: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
}

/// A call that the host expected of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// `server:tool`.
    pub tool: String,
    /// The id of the call that was made ahead, as in the audit log. Absent if none was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<u32>,
    /// The program makes the call whenever it gets that far.
    #[serde(default)]
    pub certain: bool,
    /// How often the tool has followed the tools before it, from 0 to 1.
    #[serde(default)]
    pub follows: f64,
    /// The calibrated probability that the program makes the call.
    #[serde(default)]
    pub probability: f64,
    #[serde(default)]
    pub outcome: ForecastOutcome,
}

/// What became of a forecast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForecastOutcome {
    /// The program made the call, and was given the answer of the call that was made ahead.
    Used,
    /// The program made the call, and so did the host for it: the call that was made ahead had failed.
    Failed,
    /// The program made the call. None was made ahead.
    Right,
    /// The program made the call when the answer from ahead was too old.
    Late,
    /// The program did something that may have changed the answer before it made the call.
    Overtaken,
    /// The program did not make the call.
    Wrong,
    /// The execution was cut off before it was known.
    #[default]
    Open,
    /// An outcome that a newer pml has.
    #[serde(other)]
    Other,
}

/// What kind of thing a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    #[default]
    Tool,
    Search,
    Resource,
    Prompt,
    /// A kind that a newer pml has.
    #[serde(other)]
    Other,
}

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskError {
    /// An [`ErrorCode`], kept as text.
    pub code: String,
    pub message: String,
}

impl TaskError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> TaskError {
        TaskError { code: code.as_str().to_owned(), message: message.into() }
    }
}

/// What is known about the trace itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Texts that were cut, with their size before.
    #[serde(default)]
    pub truncated: Vec<Truncated>,
    /// The program holds a redacted secret, so it cannot be run again as it stands.
    #[serde(default)]
    pub code_redacted: bool,
    /// The execution was cut off with the process; what is here is what was known by then.
    #[serde(default)]
    pub interrupted: bool,
    #[serde(default)]
    pub pml_version: String,
    /// [`SCHEMA_VERSION`] of the writer.
    #[serde(default)]
    pub schema_version: u32,
    /// The revision of MCP that the client spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub era: Option<String>,
    /// The client's own `traceparent`, as the W3C defines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// A text that was cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Truncated {
    /// Where it is in the trace, as a JSON Pointer.
    pub path: String,
    pub original_bytes: u64,
}

/// The id of an execution as the id of a trace in a `traceparent`.
pub fn trace_id(execution: ExecutionId) -> String {
    execution.to_string().replace('-', "")
}

/// The id of a call as the id of a span in a `traceparent`; of the execution itself, which is call 0.
pub fn span_id(execution: ExecutionId, call: CallId) -> String {
    format!("{}{:08x}", &trace_id(execution)[24..], call.0)
}

/// A moment, in milliseconds since 1970. Written as RFC 3339 text in UTC; read from that or from a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    fn date_time(self) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp_millis(i64::try_from(self.0).ok()?)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.date_time() {
            Some(moment) => f.write_str(&moment.to_rfc3339_opts(SecondsFormat::Millis, true)),
            None => self.0.fmt(f), // beyond the year 262 000
        }
    }
}

/// Why a text is not a moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no time after 1970 in RFC 3339, such as 2026-01-31T12:00:00Z")]
pub struct TimestampError(String);

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Timestamp, TimestampError> {
        let wrong = || TimestampError(text.chars().take(64).collect());
        let moment = DateTime::parse_from_rfc3339(text).map_err(|_| wrong())?;
        u64::try_from(moment.timestamp_millis()).map(Timestamp).map_err(|_| wrong())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.date_time() {
            Some(_) => serializer.collect_str(self),
            None => serializer.serialize_u64(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time in RFC 3339, or milliseconds since 1970")
            }

            fn visit_u64<E: de::Error>(self, millis: u64) -> Result<Timestamp, E> {
                Ok(Timestamp(millis))
            }

            fn visit_i64<E: de::Error>(self, millis: i64) -> Result<Timestamp, E> {
                u64::try_from(millis).map(Timestamp).map_err(|_| E::custom("a time before 1970"))
            }

            fn visit_f64<E: de::Error>(self, millis: f64) -> Result<Timestamp, E> {
                // As `performance.timeOrigin + performance.now()` gives it.
                match millis {
                    0.0..9.0e15 => Ok(Timestamp(millis as u64)),
                    _ => Err(E::custom("a time that is no number of milliseconds since 1970")),
                }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn moments_are_written_as_text_and_read_from_text_or_number() {
        let moment = Timestamp(1_794_885_600_123);
        let text = "\"2026-11-17T03:20:00.123Z\"";
        assert_eq!(serde_json::to_string(&moment).unwrap(), text);
        let table = [
            (text, Some(moment.0)),
            ("1794885600123", Some(moment.0)),
            ("1794885600123.7", Some(moment.0)),
            ("\"2026-11-17T04:20:00.123+01:00\"", Some(moment.0)),
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("\"1969-12-31T23:59:59Z\"", None),
            ("-1", None),
            ("1e300", None),
            ("\"yesterday\"", None),
            ("null", None),
        ];
        for (json, expected) in table {
            assert_eq!(serde_json::from_str(json).ok(), expected.map(Timestamp), "{json}");
        }
        let far = serde_json::to_string(&Timestamp(u64::MAX)).unwrap();
        assert_eq!(serde_json::from_str::<Timestamp>(&far).unwrap(), Timestamp(u64::MAX));
    }

    #[test]
    fn a_trace_of_an_older_or_a_newer_writer_is_read() {
        let least = json!({
            "traceId": "0199d5f0-0000-7000-8000-000000000001",
            "success": true,
            "durationMs": 1.5,
            "timestamp": 1,
            "taskResults": [{"taskId": "t1", "tool": "a:b", "success": true, "timestamp": 2, "durationMs": 1, "kind": "dream"}],
            "entry": "telepathy",
            "unheardOf": {"a": 1},
        });
        let trace: Trace = serde_json::from_str(&least.to_string()).unwrap();
        assert_eq!((trace.entry, trace.task_results[0].kind), (Entry::Other, TaskKind::Other));
        assert_eq!(trace.metadata, Metadata::default());
        let again: Trace = serde_json::from_str(&serde_json::to_string(&trace).unwrap()).unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&trace).unwrap());
    }
}
