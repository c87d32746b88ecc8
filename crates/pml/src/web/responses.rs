//! Responses, with the headers that each kind needs.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};

/// What proxies such as nginx go by: with `no`, events are passed on as they come instead of being gathered first.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A short text for people.
pub(crate) fn plain(status: StatusCode, text: &str) -> Response {
    typed(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

pub(crate) fn typed(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // Answers may hold anything; nobody on the way keeps them.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A stream of server-sent events.
pub(crate) fn event_stream(body: impl Into<Body>) -> Response {
    let mut response = typed(StatusCode::OK, "text/event-stream", body);
    response.headers_mut().insert(BUFFERING, HeaderValue::from_static("no"));
    response
}
