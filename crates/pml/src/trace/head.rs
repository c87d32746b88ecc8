//! What is known of an execution when it begins.
//!
//! The head of an execution is stored before the execution calls anything. If the process dies, the head becomes a trace
//! that says so.

use pml_wire::{
    ErrorCode, ExecutionId,
    trace::{Client, Entry, Metadata, SCHEMA_VERSION, Timestamp, Trace},
};
use serde::{Deserialize, Serialize};

/// What is known of an execution when it begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceHead {
    pub trace_id: ExecutionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_trace_id: Option<ExecutionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability_id: Option<String>,
    #[serde(default)]
    pub entry: Entry,
    pub timestamp: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    #[serde(default)]
    pub caller: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_hash: Option<String>,
}

impl TraceHead {
    /// The trace of an execution whose process has died.
    pub fn interrupted(self) -> Trace {
        self.unfinished("pml ended before this execution did; the audit log has the calls it made")
    }

    /// The trace of an execution whose own trace was too large, or one too many, to be stored.
    pub fn without_trace(self) -> Trace {
        self.unfinished("this execution ended, but its trace could not be stored; the audit log has the calls it made")
    }

    fn unfinished(self, why: &str) -> Trace {
        Trace {
            trace_id: self.trace_id,
            parent_trace_id: self.parent_trace_id,
            capability_id: self.capability_id,
            entry: self.entry,
            intent: self.intent,
            caller: self.caller,
            client: self.client,
            success: false,
            error_message: Some(why.to_owned()),
            error_code: Some(ErrorCode::Interrupted.as_str().to_owned()),
            duration_ms: 0.0,
            timestamp: self.timestamp,
            code: None,
            code_hash: self.code_hash,
            args: None,
            result: None,
            logs: Vec::new(),
            warnings: Vec::new(),
            decisions: Vec::new(),
            decisions_cut: 0,
            task_results: Vec::new(),
            forecasts: Vec::new(),
            metadata: Metadata {
                interrupted: true,
                pml_version: env!("CARGO_PKG_VERSION").to_owned(),
                schema_version: SCHEMA_VERSION,
                ..Metadata::default()
            },
        }
    }
}
