//! The messages between host and worker.
//!
//! One type per [`Kind`](crate::Kind) that has a JSON object as its body. The bodies of
//! `RpcResult`, `RpcJsonText`, `Names` and `Value` are JSON values, passed through unparsed; `NamesRequest`
//! has none.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    error::{Delivery, ErrorCode},
    hardening::HardeningReport,
    id::ToolId,
};

/// Version of the frames. Host and worker are one binary, so a mismatch means a broken install.
pub const PROTOCOL_VERSION: u32 = 1;

/// `Init`: everything a run needs. Its size does not depend on how many tools there are.
#[derive(Debug, Serialize, Deserialize)]
pub struct Init {
    /// The name of the program in messages, such as `agent.ts`.
    pub name: String,
    /// The program, TypeScript, as the agent wrote it.
    pub code: String,
    /// The value of the global `args`.
    pub args: Box<RawValue>,
    pub limits: Limits,
}

/// The limits of one run. The host enforces all of them again, or from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Compute time of the program, from the arrival of `Init`. Waiting for the host is not counted.
    pub timeout_ms: u64,
    /// Total time of the run.
    pub total_ms: u64,
    /// Memory of the engine.
    pub memory_bytes: usize,
    /// Size of the result, and of the arguments of one call, as JSON.
    pub result_bytes: usize,
    /// All console output together.
    pub log_bytes: usize,
    /// Number of recorded branch decisions; 0 compiles the program without probes.
    pub decisions: usize,
}

/// `Analyse`: a program to be read and not run. A worker that got one may get more, each after the answer to the one before.
#[derive(Debug, Serialize, Deserialize)]
pub struct Analyse {
    /// The name of the program in messages.
    pub name: String,
    pub code: String,
}

/// Most parameters that are extracted from one program.
pub const MAX_PARAMETERS: usize = 32;

/// `Analysis`: the result of an `Analyse`.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// The program with parameters in the place of values.
    pub code: String,
    /// The values that became parameters, in the order of the text.
    pub parameters: Vec<AnalysedParameter>,
    /// The properties of `args` that the program already read.
    pub arguments: Vec<String>,
    /// The program uses `args` other than by property name.
    pub uses_args_whole: bool,
    /// Those of `arguments` that the program has another value for, as in `args.limit ?? 10`.
    #[serde(default)]
    pub optional: Vec<String>,
    /// The lines that read a kept result of an earlier run.
    pub recalls: Vec<u32>,
    /// The calls written out in the program, as the check before a run gets them.
    #[serde(default)]
    pub calls: Vec<PreflightCall>,
    /// Why the program cannot be analysed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

/// A value in a program that became a parameter.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct AnalysedParameter {
    pub name: String,
    /// The property that the value filled.
    pub property: String,
    pub value: serde_json::Value,
    /// Where the value first stood.
    pub line: u32,
}

/// `Ready`: the sandbox is set up.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ready {
    pub version: u32,
    pub hardening: HardeningReport,
}

/// `RpcCall`: call a tool. The frame's id is the call's.
#[derive(Debug, Serialize, Deserialize)]
pub struct RpcCall<'a> {
    /// `server:tool` as the program wrote it; not yet a [`ToolId`].
    pub target: String,
    #[serde(borrow)]
    pub args: &'a RawValue,
    /// Where in `args` the JSON strings begin, in ascending order, that are the texts of JSON values. The host sends the
    /// text to the tool where its schema wants a string, and the value elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<u32>,
    /// The program wants the text of the result, even if it is JSON.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raw: bool,
}

/// `RpcError`: why a call failed, as the program's `ToolError` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallError {
    pub code: ErrorCode,
    pub message: String,
    /// May the same call be retried?
    pub retryable: bool,
    /// Whether the call may have had an effect.
    pub outcome: Delivery,
    /// The `data` of the error, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
    /// The code of the server's JSON-RPC error, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpc_code: Option<i64>,
}

impl CallError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> CallError {
        let outcome = code.delivery();
        let retryable = code.is_retryable() && outcome != Delivery::Unknown;
        CallError { code, message: message.into(), retryable, outcome, data: None, rpc_code: None }
    }
}

/// How long a worker waits before it reports it with a `Waiting` frame, in milliseconds.
pub const WAITING_AFTER_MS: u64 = 5;

/// The exit code of a worker that ran out of memory where it could not send a frame.
pub const EXIT_OUT_OF_MEMORY: i32 = 102;

/// Most calls that one [`Preflight`] names.
pub const MAX_PREFLIGHT_CALLS: usize = 200;

/// `Preflight`: the tool calls that are written out in the program. Sent only if there are any, and
/// before every other frame of the run, so that the host can refuse the program before it has any effect.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preflight {
    pub calls: Vec<PreflightCall>,
}

/// A call written out in the program: `mcp.server.tool({ key: … })`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreflightCall {
    /// `server:tool` as the program wrote it; not yet a [`ToolId`].
    pub target: String,
    /// The names of the arguments that are written out and certain to be sent.
    pub keys: Vec<String>,
    /// The names of arguments whose value may be `undefined`, and is then not sent.
    #[serde(default)]
    pub perhaps: Vec<String>,
    /// The arguments with literal values, as they are sent.
    #[serde(default)]
    pub values: serde_json::Map<String, serde_json::Value>,
    /// There may be more arguments than `keys`: a spread, a computed name, or no object literal.
    pub is_open: bool,
    /// The call is made whenever the program reaches it, and its failure fails the program.
    pub is_certain: bool,
    /// Where, counted from 1.
    pub line: u32,
    pub column: u32,
    /// The line of the program and those around it, with a mark under the column.
    pub frame: String,
}

/// `RpcHandles`: a result of which the host keeps a part.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handles {
    /// The whole result, because it is large.
    Whole(Handle),
    /// Content blocks, in order.
    Blocks(Vec<Block>),
    /// The value that a nested run returned, in which `{HANDLE_KEY: token}` stands for each value that the host keeps.
    Within { value: Box<RawValue>, handles: Vec<Handle> },
}

/// One content block of a result.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// The block itself.
    Value(Box<RawValue>),
    /// A block that the host keeps.
    Handle(Handle),
}

/// A value that the host keeps for the run, as the program sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handle {
    /// The id of the value. Unguessable, so that no server can refer to a value that it did not return.
    pub token: String,
    /// `text`, `json`, `image`, `audio` or `resource`.
    pub r#type: String,
    /// Size in bytes: of the text, the JSON text, or the base64 text.
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
}

/// The key of the object that a handle becomes in JSON: `{"$pml:handle": token}`. The host puts the
/// value in its place where it leaves the run: in the result, and in the arguments of a call.
pub const HANDLE_KEY: &str = "$pml:handle";

/// `Read`: requests a part of a value that the host keeps. The frame's id is counted with the calls'. The
/// response is an `RpcResult`, an `RpcError`, or, for `json`, possibly an `RpcHandles`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    pub token: String,
    pub part: Part,
}

/// The part to read.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Bytes `from..to` of the text, aligned to whole characters; the response is a [`Slice`].
    Slice { from: u64, to: u64 },
    /// The value at a path such as `items[3].name`; the whole for an empty one.
    Json { path: String },
}

/// Response to [`Part::Slice`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    pub text: String,
    /// Where the next slice begins; the size of the whole at the end.
    pub next: u64,
}

/// `Recall`: requests a result that was kept for the client of this run. The frame's id is counted with the calls'. The
/// response is an `RpcResult`, an `RpcError`, or an `RpcHandles` if the result is large.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recall {
    /// The id as the program wrote it; not yet checked.
    pub id: String,
}

/// Longest body of a `Read`, a `Recall` or an `Ask`, well above what an honest worker sends.
pub const MAX_QUESTION_BYTES: usize = 32 * 1024;

/// Most arguments of a prompt, as JSON.
pub const MAX_PROMPT_BYTES: usize = 16 * 1024;

/// `Ask`: a request other than a tool call. The frame's id is counted with the calls'. The response is an `RpcResult`, an
/// `RpcError`, or an `RpcHandles` if the result is large. The fields are as the program wrote them, not yet checked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    Search(Search),
    /// Read a resource; of the named server, if any.
    ReadResource {
        uri: String,
        server: Option<String>,
    },
    /// The resources and templates of all servers, or of one.
    ListResources {
        server: Option<String>,
    },
    /// A server's prompt, with its arguments filled in: a JSON object.
    GetPrompt {
        server: String,
        name: String,
        args: Box<RawValue>,
    },
}

/// Search for tools.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Search {
    pub query: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
}

/// The level of a line of console output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Debug,
    Info,
    Log,
    Warn,
    Error,
}

impl LogLevel {
    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Log => "log",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        }
    }
}

/// `Log`: one console call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    pub level: LogLevel,
    pub text: String,
}

/// The charge of a line of console output to `log_bytes`: its text and a constant per line,
/// so that a flood of empty lines is bounded too.
pub fn log_cost(text: &str) -> usize {
    text.len() + 16
}

/// `Progress`: a call of `progress()` in the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub progress: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// `ExecutionComplete`: the outcome of the run. On success a `Value` frame precedes it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ExecutionComplete {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Reads of properties that results of tools do not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingRead>,
    /// The decisions that no [`Decisions`] frame has reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
    /// Decisions beyond [`Limits::decisions`], counted up to
    /// [`MAX_DECISIONS_CUT`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub decisions_cut: u64,
}

/// A read of a property that a result of a tool does not have, and the warning about it. It is told unless the host knows that
/// the property may be absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingRead {
    /// `server:tool`.
    pub tool: String,
    pub property: String,
    /// The properties that the object has.
    pub keys: Vec<String>,
    pub warning: String,
}

/// `Decisions`: reported while the program runs, so that they are known even if it is killed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Decisions {
    pub decisions: Vec<Decision>,
}

/// Decisions beyond the limit are counted up to this, after which the probes are turned off.
pub const MAX_DECISIONS_CUT: u64 = 10_000;

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Why a run failed, with lines of the agent's own program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorReport {
    pub code: ErrorCode,
    pub message: String,
    /// What the reader can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Calls that led there, one per line, with lines and columns of the agent's TypeScript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// The line of the program and those around it, with a mark under the column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
    /// The tool whose failure was not caught.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolId>,
    /// The missing property that the program read, if that caused the failure and the value itself gives no hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Box<MissingProperty>>,
}

/// A property that is not in the result of a tool. The host may know other results of the tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingProperty {
    pub tool: ToolId,
    /// The way from the result to the object without the property: names of properties, and nothing for an element of an array.
    pub path: Vec<Option<String>>,
    pub property: String,
    /// The object, as the program names it.
    pub object: String,
}

impl ErrorReport {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> ErrorReport {
        ErrorReport { code, message: message.into(), hint: None, stack: None, frame: None, tool: None, missing: None }
    }

    /// The report of a run that exceeded its memory limit.
    pub fn out_of_memory() -> ErrorReport {
        ErrorReport::new(ErrorCode::MemoryLimit, "the program ran out of memory")
            .with_hint("process the data in smaller pieces, or raise the limit with --memory or limits.memory_mb")
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> ErrorReport {
        self.hint = Some(hint.into());
        self
    }
}

/// One branch that the program took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The branch, `d1`, `d2`, … in source order.
    pub node_id: String,
    /// `true` or `false`, or the case that was entered.
    pub outcome: String,
    /// The condition as written, shortened.
    pub condition: String,
}
