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

async fn health() -> Response {
    typed(StatusCode::OK, "application/json", r#"{"status":"ok"}"#)
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
    let tools = frontend.catalog.snapshot().tools().count();
    let audit = frontend.broker.audit_counts();
    let text = frontend.metrics.exposition(frontend.runs.count(), &frontend.servers, tools, audit);
    typed(StatusCode::OK, "text/plain; version=0.0.4", text)
}
