//! Which path leads to which handler, and the handlers of a few lines.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    middleware,
    response::Response,
    routing::{any, get},
};
use serde_json::json;

use super::{endpoint, entrance, events, web::Web};
use crate::web::{plain, typed};

/// The page runs its own script and talks to this pml, and nothing else.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; \
     frame-ancestors 'none'; base-uri 'none'";

pub(super) fn routes(web: Arc<Web>) -> Router {
    Router::new()
        .route("/mcp", any(endpoint::serve))
        .route("/events", get(events::follow))
        .route("/healthz", get(health))
        .route("/", get(async || page("text/html; charset=utf-8", include_str!("live.html"))))
        .route("/live.css", get(async || page("text/css", include_str!("live.css"))))
        .route("/live.js", get(async || page("text/javascript", include_str!("live.js"))))
        .route("/metrics", get(metrics))
        .fallback(async || {
            plain(StatusCode::NOT_FOUND, "there is /mcp, /events, /metrics, /healthz and, for browsers, /")
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&web), entrance::check))
        .with_state(web)
}

/// Whether the gateway serves, and how the trace store is. A store that is not well keeps nobody from being served, so the
/// status stays what it is. Whoever has no token is told one word, without paths and numbers.
async fn health(State(web): State<Arc<Web>>) -> Response {
    let health = web.frontend.shared.recorder.store_health();
    let traces = health.as_ref().map_or("off", |health| health.state.as_str());
    typed(StatusCode::OK, "application/json", json!({ "status": "ok", "traces": traces }).to_string())
}

/// A part of the page that shows what happens. It holds nothing of anybody; whoever opens it types the token in.
fn page(kind: &'static str, text: &'static str) -> Response {
    let mut response = typed(StatusCode::OK, kind, text);
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        response.headers_mut().insert(name, header::HeaderValue::from_static(value));
    }
    response
}

async fn metrics(State(web): State<Arc<Web>>) -> Response {
    let frontend = &web.frontend;
    let tools = frontend.shared.catalog.snapshot().tools().count();
    let audit = frontend.broker.audit_counts();
    let traces = frontend.shared.recorder.store_health();
    let text = frontend.shared.metrics.exposition(
        frontend.shared.runs.count(),
        &frontend.shared.servers,
        tools,
        audit,
        traces.as_ref(),
        frontend.broker.speculation(),
    );
    typed(StatusCode::OK, "text/plain; version=0.0.4", text)
}
