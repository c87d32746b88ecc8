//! What the lines of the log say.

use serde::Serialize;

/// A call of a tool, a request about a resource or a prompt, or a search, at one moment of its life.
#[derive(Clone, Debug, Serialize)]
pub struct CallLine<'a> {
    /// Milliseconds since 1970.
    pub ts: u64,
    pub event: CallEvent,
    /// On whose behalf.
    pub who: &'a str,
    pub execution_id: &'a str,
    /// The trace that the call belongs to, as servers see it in `traceparent`.
    pub trace_id: &'a str,
    pub call: u32,
    /// The method, of a request that is not the call of a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<&'a str>,
    /// `server:tool`, `server:resource:ADDRESS`, `server:prompt:NAME` or `pml:search`.
    pub tool: &'a str,
    /// SHA-256 of the arguments. The arguments themselves may hold secrets.
    pub args_sha256: &'a str,
    pub decision: Decision,
    /// What decided.
    pub rule: &'a str,
    /// What the call has to do with calls that pml makes ahead of programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speculation: Option<Speculation>,
    /// Absent while the call goes on, as everything below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
}

/// What a call has to do with calls that pml makes ahead of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Speculation {
    /// pml made the call because it expected it of the program.
    Made,
    /// The program made the call, and was given the answer of one that pml had made.
    Used,
}

/// What a [`CallLine`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum CallEvent {
    /// The server is about to hear of the call.
    #[serde(rename = "call.started")]
    Started,
    /// A call that was started is over.
    #[serde(rename = "call.ended")]
    Ended,
    /// The call is over, and no server has heard of it.
    #[serde(rename = "call.refused")]
    Refused,
    /// Tools were searched. No server hears of that.
    #[serde(rename = "search")]
    Search,
}

/// A tool that is not what it was when it was first seen, or that somebody has accepted as it is now.
#[derive(Clone, Debug, Serialize)]
pub struct ToolLine<'a> {
    /// Milliseconds since 1970.
    pub ts: u64,
    /// `tool.changed` or `tool.accepted`.
    pub event: &'static str,
    pub tool: &'a str,
    /// What differs, such as `description`.
    pub parts: &'a [String],
    /// SHA-256 of what the server said about it, and of what it says now.
    pub before_sha256: &'a str,
    pub after_sha256: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    Allow,
    Deny,
}

/// Lines that were collapsed into this one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CollapsedLine {
    pub(super) ts: u64,
    pub(super) event: &'static str,
    /// The event that the collapsed lines would have had.
    pub(super) of: CallEvent,
    /// The execution, if all were of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) execution_id: Option<String>,
    pub(super) rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<String>,
    /// How many lines this one stands for.
    pub(super) count: u64,
    /// When the first of them would have been written.
    pub(super) since: u64,
    /// What the last of them was about.
    pub(super) last_tool: String,
}

/// What the log says about itself.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event")]
pub(super) enum LogLine<'a> {
    /// Lines could not be written before this one.
    #[serde(rename = "log.lost")]
    Lost { ts: u64, lost: u64 },
    /// The line before this one was cut off in the middle, by a crash or a full disk.
    #[serde(rename = "log.repaired")]
    Repaired { ts: u64, torn_bytes: u64, torn_sha256: &'a str },
    /// Old files are removed. `last_seq` and `last_hash` are those of the newest line that goes.
    #[serde(rename = "log.pruned")]
    Pruned { ts: u64, files: usize, bytes: u64, last_seq: u64, last_hash: &'a str },
}
