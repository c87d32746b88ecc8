//! Whether a hub lives, can store, and what it has done.

use std::{sync::Arc, sync::atomic::Ordering, time::Duration};

use axum::{http::StatusCode, response::Response};
use serde_json::json;
use tokio::time::timeout;

use super::{super::service::Hub, call::Call, problem, problem::Problem};
use crate::web::typed;

/// How long the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn live() -> Response {
    typed(StatusCode::OK, "application/json", r#"{"status":"ok"}"#)
}

/// Ready if a transaction can be committed, and the hub is not ending.
pub(super) async fn ready(hub: Arc<Hub>) -> Response {
    let why = match hub.is_stopping() {
        true => Some("the hub is ending".to_owned()),
        false => match timeout(PATIENCE, hub.store.ready()).await {
            Ok(Ok(())) => match hub.soon(hub.store.keys().are_lost()).await {
                Ok(false) => None,
                Ok(true) => Some(hub.lost_keys().message),
                Err(problem) => Some(problem.message),
            },
            Ok(Err(err)) => Some(Problem::from(err).message),
            Err(_) => Some(hub.late().message),
        },
    };
    match why {
        None => problem::json(StatusCode::OK, &json!({"status": "ready"})),
        Some(why) => problem::json(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "not ready", "reason": why})),
    }
}

/// What was done for the organisation of the key: others are not its business.
pub(super) async fn metrics(call: Call) -> Result<Response, Problem> {
    let (counts, health) = (call.hub.counts(call.caller.key.scope.org()), call.hub.store.health());
    let load = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    let mut text = String::new();
    let mut add = |name: &str, kind: &str, help: &str, value: u64| {
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"));
    };
    add("pml_hub_requests_total", "counter", "Requests to the API.", load(&counts.requests));
    add("pml_hub_refused_total", "counter", "Requests that were refused.", load(&counts.refused));
    add("pml_hub_failed_total", "counter", "Requests that the hub failed.", load(&counts.failed));
    add("pml_hub_traces_received_total", "counter", "Traces in requests.", load(&counts.received));
    add("pml_hub_traces_stored_total", "counter", "Traces that were stored.", load(&counts.stored));
    add("pml_hub_traces_duplicate_total", "counter", "Traces that were there.", load(&counts.duplicates));
    add("pml_hub_traces_rejected_total", "counter", "Traces that were rejected.", load(&counts.rejected));
    add("pml_hub_traces_queued", "gauge", "Traces that wait to be written.", health.queued as u64);
    add("pml_hub_store_ready", "gauge", "Can traces be stored?", u64::from(health.state.is_well()));
    Ok(typed(StatusCode::OK, "text/plain; version=0.0.4", text))
}
