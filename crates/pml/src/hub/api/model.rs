//! What the hub has learned, for the gateways of a project.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use pml_wire::hub::Code;

use super::{call::Call, problem::Problem};

/// The document, or 304 if the gateway has it.
pub(super) async fn get(call: Call) -> Result<Response, Problem> {
    let scope = &call.caller.key.scope;
    let (store, models) = (call.hub.store.of(scope), call.hub.store.models(scope));
    let document = call.hub.learner.document(scope, store, models).await?;
    let document = document.ok_or_else(|| Problem::new(Code::NotFound, "nothing was learned yet"))?;
    let etag = format!("\"{}\"", document.etag);
    let known = call.headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let is_known = known.is_some_and(|known| known.split(',').any(|tag| tag.trim() == etag));
    let mut response = Response::new(match is_known {
        true => Body::empty(),
        false => Body::from(document.bytes.to_vec()),
    });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&etag) {
        headers.insert(header::ETAG, value);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}
