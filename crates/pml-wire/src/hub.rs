//! What gateways and hubs say to each other over HTTP, as JSON.
//!
//! A reader accepts fields that it does not know. Codes are text, since a newer hub may know more of them.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::trace::{Entry, Timestamp};

/// Most traces of one request.
pub const MAX_TRACES: usize = 100;

/// The body of `POST /api/traces`, each trace as it was written.
#[derive(Debug, Deserialize)]
pub struct IngestRequest<'a> {
    #[serde(borrow)]
    pub traces: Vec<&'a RawValue>,
}

/// The answer to `POST /api/traces`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestReply {
    pub received: u64,
    pub stored: u64,
    /// There already, with the same content.
    pub duplicates: u64,
    /// Ids of what was stored or was there already: committed, on the disk.
    pub acknowledged: Vec<String>,
    /// What will never be stored as it is.
    #[serde(default)]
    pub errors: Vec<IngestError>,
}

/// Why a trace was not stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngestError {
    /// `None` if it has none that can be read.
    pub trace_id: Option<String>,
    /// Which of the request, from 0.
    pub index: u64,
    pub code: String,
    pub message: String,
}

/// The body of `PUT /api/model/contribution`: what a gateway has learned and its traces do not say. Each takes the place of the
/// last one of the same gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contribution<T> {
    /// Tells gateways with the same key apart. Random, and the same for as long as their data is kept.
    pub gateway: String,
    /// Traces that the weights are from, with old ones fading.
    #[serde(default)]
    pub evidence: f64,
    /// Of all tools of a task, and of the next tool, in the order of the features. Empty if the gateway has learned none.
    #[serde(default)]
    pub weights: [Vec<f32>; 2],
    /// The shapes of results, by tool: kinds of values and names of properties, never a value.
    #[serde(default)]
    pub types: T,
}

/// The body of every response that is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub code: String,
    pub message: String,
}

/// Why a hub did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No key, or one that is unknown, revoked or expired.
    Unauthorized,
    /// The key does not permit it.
    Forbidden,
    NotFound,
    /// The request cannot be read.
    InvalidRequest,
    /// The body is larger than a hub takes, as sent or decompressed.
    TooLarge,
    /// More than [`MAX_TRACES`].
    TooManyTraces,
    /// The body is compressed in a way that the hub does not know.
    UnsupportedEncoding,
    /// The body is not JSON.
    UnsupportedType,
    /// There is something at this path, but not for this method.
    MethodNotAllowed,
    /// The body took too long to arrive.
    TooSlow,
    RateLimited,
    /// Nothing can be stored at the moment.
    Unavailable,
    /// A trace that cannot be read, or that cannot be true.
    InvalidTrace,
    /// Another trace of the same id is there.
    Conflict,
    /// The name of a capability is none.
    InvalidCapability,
    /// The name of a capability of another organisation.
    ForeignCapability,
    /// Somebody else has that name.
    NameTaken,
    /// A capability is not what `If-Match` or `If-None-Match` expects; nothing was changed.
    Changed,
    Internal,
}

impl Code {
    pub const ALL: [Code; 19] = [
        Code::Unauthorized,
        Code::Forbidden,
        Code::NotFound,
        Code::InvalidRequest,
        Code::TooLarge,
        Code::TooManyTraces,
        Code::UnsupportedEncoding,
        Code::UnsupportedType,
        Code::MethodNotAllowed,
        Code::TooSlow,
        Code::RateLimited,
        Code::Unavailable,
        Code::InvalidTrace,
        Code::Conflict,
        Code::InvalidCapability,
        Code::ForeignCapability,
        Code::NameTaken,
        Code::Changed,
        Code::Internal,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Code::Unauthorized => "UNAUTHORIZED",
            Code::Forbidden => "FORBIDDEN",
            Code::NotFound => "NOT_FOUND",
            Code::InvalidRequest => "INVALID_REQUEST",
            Code::TooLarge => "TOO_LARGE",
            Code::TooManyTraces => "TOO_MANY_TRACES",
            Code::UnsupportedEncoding => "UNSUPPORTED_ENCODING",
            Code::UnsupportedType => "UNSUPPORTED_TYPE",
            Code::MethodNotAllowed => "METHOD_NOT_ALLOWED",
            Code::TooSlow => "TOO_SLOW",
            Code::RateLimited => "RATE_LIMITED",
            Code::Unavailable => "UNAVAILABLE",
            Code::InvalidTrace => "INVALID_TRACE",
            Code::Conflict => "CONFLICT",
            Code::InvalidCapability => "INVALID_CAPABILITY",
            Code::ForeignCapability => "FOREIGN_CAPABILITY",
            Code::NameTaken => "NAME_TAKEN",
            Code::Changed => "CHANGED",
            Code::Internal => "INTERNAL",
        }
    }

    /// The status of a response with this code.
    pub fn status(self) -> u16 {
        match self {
            Code::Unauthorized => 401,
            Code::Forbidden => 403,
            Code::NotFound => 404,
            Code::InvalidRequest | Code::InvalidTrace | Code::InvalidCapability | Code::ForeignCapability => 400,
            Code::TooLarge | Code::TooManyTraces => 413,
            Code::UnsupportedEncoding | Code::UnsupportedType => 415,
            Code::MethodNotAllowed => 405,
            Code::TooSlow => 408,
            Code::RateLimited => 429,
            Code::Unavailable => 503,
            Code::Conflict | Code::NameTaken => 409,
            Code::Changed => 412,
            Code::Internal => 500,
        }
    }
}

/// The answer to `GET /api/registry`: every capability that the key may see, but for private ones, without its code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegistryReply {
    /// Tells the database of this hub from others; empty if it never had a capability.
    pub hub: String,
    pub capabilities: Vec<RegistryCapability>,
    /// Ids of capabilities that were deleted. One that is in neither list was not: the key may not see it any more, or this is
    /// another database.
    pub removed: Vec<String>,
}

/// A capability in a [`RegistryReply`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryCapability {
    pub id: String,
    pub org: String,
    pub project: String,
    pub namespace: String,
    pub action: String,
    pub visibility: String,
    /// Changes with every change of the capability; goes into `If-Match`.
    pub tag: String,
    /// The number of its newest version.
    pub version: u32,
    /// May this key put new versions of it?
    pub may_change: bool,
    /// May this key rename and delete it?
    pub may_remove: bool,
}

/// The answer to `GET /api/traces`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TraceList {
    pub traces: Vec<TraceSummary>,
    /// Where the next page begins; absent from the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Behind everything that was stored by now: for `after`.
    #[serde(default)]
    pub end: String,
}

/// A trace in a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceSummary {
    pub trace_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_trace_id: Option<String>,
    pub timestamp: Timestamp,
    pub duration_ms: f64,
    pub success: bool,
    #[serde(default)]
    pub interrupted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    #[serde(default)]
    pub entry: Entry,
    #[serde(default)]
    pub caller: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// The capability that the trace names, if the hub knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability_uuid: Option<String>,
    #[serde(default)]
    pub tasks: u64,
    /// The tools of its first tasks, each once, with how often it was used.
    #[serde(default)]
    pub tools: Vec<(String, u64)>,
}

/// The answer to `GET /api/stats`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatsReply {
    pub traces: u64,
    pub failed: u64,
    pub interrupted: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    #[serde(default)]
    pub intermediate_bytes: u64,
    #[serde(default)]
    pub answer_bytes: u64,
    #[serde(default)]
    pub tools: Vec<ToolReply>,
}

/// Numbers about one tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReply {
    pub tool: String,
    pub calls: u64,
    pub failed: u64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub result_bytes: u64,
}
