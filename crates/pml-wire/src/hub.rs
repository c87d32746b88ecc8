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
    Internal,
}

impl Code {
    pub const ALL: [Code; 16] = [
        Code::Unauthorized,
        Code::Forbidden,
        Code::NotFound,
        Code::InvalidRequest,
        Code::TooLarge,
        Code::TooManyTraces,
        Code::UnsupportedEncoding,
        Code::TooSlow,
        Code::RateLimited,
        Code::Unavailable,
        Code::InvalidTrace,
        Code::Conflict,
        Code::InvalidCapability,
        Code::ForeignCapability,
        Code::NameTaken,
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
            Code::TooSlow => "TOO_SLOW",
            Code::RateLimited => "RATE_LIMITED",
            Code::Unavailable => "UNAVAILABLE",
            Code::InvalidTrace => "INVALID_TRACE",
            Code::Conflict => "CONFLICT",
            Code::InvalidCapability => "INVALID_CAPABILITY",
            Code::ForeignCapability => "FOREIGN_CAPABILITY",
            Code::NameTaken => "NAME_TAKEN",
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
            Code::UnsupportedEncoding => 415,
            Code::TooSlow => 408,
            Code::RateLimited => 429,
            Code::Unavailable => 503,
            Code::Conflict | Code::NameTaken => 409,
            Code::Internal => 500,
        }
    }
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
