//! Why a request was not served, as the client sees it.

use std::time::Duration;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use pml_wire::hub::{Code, Failure};

use crate::{
    trace::store::StoreError,
    web::{NoBody, typed},
};

/// How a body may be compressed, for `Accept-Encoding`.
const ACCEPTED: &str = "zstd, gzip";
/// How long a client is asked to wait when the store does not answer.
const STORE_PAUSE: Duration = Duration::from_secs(5);

/// What is said to a request that reaches no route, since it cannot be read.
pub(in super::super) fn refused(status: StatusCode) -> (&'static str, String) {
    let (code, message) = match status {
        StatusCode::URI_TOO_LONG => (Code::TooLarge, "the address of the request is too long"),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => (Code::TooLarge, "the head of the request is too large"),
        _ => (Code::InvalidRequest, "this is no request of HTTP/1.1"),
    };
    let failure = Failure { code: code.as_str().to_owned(), message: message.to_owned() };
    ("application/json", serde_json::to_string(&failure).unwrap_or_default())
}

/// Why a request was not served.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) code: Code,
    pub(super) message: String,
    /// When it may be tried again.
    pub(super) retry_after: Option<Duration>,
}

impl Problem {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Problem {
        Problem { code, message: message.into(), retry_after: None }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Problem {
        Problem::new(Code::InvalidRequest, message)
    }

    pub(super) fn later(code: Code, message: impl Into<String>, pause: Duration) -> Problem {
        Problem { retry_after: Some(pause), ..Problem::new(code, message) }
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Problem {
        Problem::later(Code::Unavailable, message, STORE_PAUSE)
    }

    pub(super) fn into_response(self) -> Response {
        let failure = Failure { code: self.code.as_str().to_owned(), message: self.message };
        let mut response = json(StatusCode::from_u16(self.code.status()).unwrap_or_default(), &failure);
        if let Some(pause) = self.retry_after
            && let Ok(value) = HeaderValue::from_str(&pause.as_secs_f64().ceil().max(1.0).to_string())
        {
            response.headers_mut().insert(header::RETRY_AFTER, value);
        }
        if self.code == Code::UnsupportedEncoding {
            response.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED));
        }
        if self.code == Code::Unauthorized {
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"pml hub\""));
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(err: StoreError) -> Problem {
        match &err {
            StoreError::Busy => Problem::unavailable(err.to_string()),
            StoreError::Unavailable(state) => {
                tracing::debug!(error = %err, "a request finds no store");
                Problem::unavailable(state.summary())
            }
            StoreError::Refused(_) => {
                tracing::warn!(error = %err, "a request is refused by the store");
                Problem::new(Code::Conflict, "the hub cannot store this beside what it has")
            }
            StoreError::Failed { .. } | StoreError::Damaged { .. } | StoreError::Remote(_) => {
                // What the database says is for whoever runs the hub.
                tracing::warn!(error = %err, "a request failed");
                Problem::later(Code::Internal, "the hub cannot read or write what it stores", STORE_PAUSE)
            }
        }
    }
}

impl From<NoBody> for Problem {
    fn from(err: NoBody) -> Problem {
        match err {
            NoBody::TooLarge => Problem::new(Code::TooLarge, "a body may have 16 MiB as it is sent"),
            NoBody::TooSlow => Problem::new(Code::TooSlow, "the body took too long to arrive"),
            NoBody::Broken => Problem::invalid("the body ended early"),
        }
    }
}

pub(super) fn json(status: StatusCode, value: &impl serde::Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => typed(status, "application/json", text),
        Err(_) => typed(StatusCode::INTERNAL_SERVER_ERROR, "application/json", r#"{"code":"INTERNAL","message":""}"#),
    }
}
