//! What the hub has learned, for the gateways of a project.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use pml_wire::hub::{Code, Contribution};
use serde_json::json;
use tokio::time::timeout;

use super::{
    super::contributions::Contributions,
    call::Call,
    problem::{self, Problem},
};
use crate::{clock::now_millis, trace::Shapes};

/// How long it may take to learn what is new.
const LONGEST: Duration = Duration::from_secs(20);
/// Longest name of a gateway, and longest list of weights.
const MAX_GATEWAY_BYTES: usize = 64;
const MAX_WEIGHTS: usize = 64;

/// The document, or 304 if the gateway has it.
pub(super) async fn get(call: Call) -> Result<Response, Problem> {
    let scope = &call.caller.key.scope;
    let (store, models) = (call.hub.store.of(scope), call.hub.store.models(scope));
    let document = match timeout(LONGEST, call.hub.learner.document(scope, store, models)).await {
        Ok(document) => document?,
        Err(_) => return Err(call.hub.late()),
    };
    let document = document.ok_or_else(|| Problem::new(Code::NotFound, "nothing was learned yet"))?;
    let etag = format!("\"{}\"", document.etag);
    let known = call.headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let is_known = known.is_some_and(|known| known.split(',').any(|tag| tag.trim() == etag));
    let mut response = Response::new(match is_known {
        true => Body::empty(),
        // Shared by all who are sent it.
        false => Body::from(Bytes::from_owner(document.bytes)),
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

/// Stores what a gateway has learned and its traces do not say.
pub(super) async fn contribute(call: Call) -> Result<Response, Problem> {
    let (call, contribution) = call.json::<Contribution<Shapes>>().await?;
    let Contribution { gateway, weights, .. } = &contribution;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if gateway.is_empty() || gateway.len() > MAX_GATEWAY_BYTES || !gateway.bytes().all(is_name) {
        return Err(Problem::invalid("`gateway` must be 1 to 64 letters, digits and hyphens"));
    }
    if weights.iter().any(|weights| weights.len() > MAX_WEIGHTS) {
        return Err(Problem::new(Code::TooLarge, format!("there may be {MAX_WEIGHTS} weights of a kind")));
    }
    let key = &call.caller.key;
    let models = call.hub.store.models(&key.scope);
    call.hub.soon(Contributions::store(&*models, &key.name, contribution, now_millis())).await?;
    call.hub.learner.renew(&key.scope).await;
    Ok(problem::json(StatusCode::OK, &json!({ "stored": true })))
}

/// Forgets what gateways have contributed. Those that are still there contribute again.
pub(super) async fn forget(call: Call) -> Result<Response, Problem> {
    let scope = &call.caller.key.scope;
    let models = call.hub.store.models(scope);
    call.hub.soon(Contributions::forget(&*models)).await?;
    call.hub.learner.renew(scope).await;
    Ok(problem::json(StatusCode::OK, &json!({ "forgotten": true })))
}
