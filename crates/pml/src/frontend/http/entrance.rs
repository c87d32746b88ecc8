//! Where every request comes in: it is judged by the [`guard`](super::guard), counted, and served or refused.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Extension,
    extract::{ConnectInfo, Request, State},
    http::{HeaderName, StatusCode, header},
    middleware::Next,
    response::Response,
};

use super::{
    guard::{OPEN, Refusal},
    web::Web,
};
use crate::web::{Visitor, is_head_too_large, plain};

pub(super) async fn check(
    State(web): State<Arc<Web>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Extension(visitor): Extension<Arc<Visitor>>,
    mut request: Request,
    next: Next,
) -> Response {
    // A whole address in the place of a path names a host too.
    let is_elsewhere = request.uri().host().is_some_and(|host| !web.guard.is_own_host(host));
    let verdict = match () {
        () if is_head_too_large(&request) => Err(Refusal::Head),
        () if is_elsewhere => Err(Refusal::Host),
        () => web.guard.judge(request.headers(), request.uri().path(), peer.ip()),
    };
    web.frontend.shared.metrics.request(verdict.is_ok());
    match verdict {
        Ok((caller, grant)) => {
            if !OPEN.contains(&request.uri().path()) {
                visitor.let_in();
            }
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(grant);
            let busy = visitor.begin();
            busy.until_answered(next.run(request).await)
        }
        Err(refusal) => refuse(&refusal),
    }
}

fn refuse(refusal: &Refusal) -> Response {
    let (status, text) = match refusal {
        Refusal::Head => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of a request may have 64 KiB"),
        Refusal::NotOneHost => (StatusCode::BAD_REQUEST, "a request must have one header Host"),
        Refusal::Host => (StatusCode::FORBIDDEN, "this Host is not served here; name it in gateway.allowed_hosts"),
        Refusal::Origin => (StatusCode::FORBIDDEN, "this Origin may not use pml; name it in gateway.allowed_origins"),
        Refusal::Token => (StatusCode::UNAUTHORIZED, "send `Authorization: Bearer …` with the token of this pml"),
        Refusal::Rate(_) => (StatusCode::TOO_MANY_REQUESTS, "too many requests"),
        Refusal::Owner => (
            StatusCode::FORBIDDEN,
            "a named client may use /mcp; this shows what others do, and needs the token of this pml",
        ),
    };
    let mut response = plain(status, text);
    let extra: Option<(HeaderName, String)> = match refusal {
        Refusal::Token => Some((header::WWW_AUTHENTICATE, "Bearer realm=\"pml\"".to_owned())),
        Refusal::Rate(wait) => Some((header::RETRY_AFTER, wait.as_secs().max(1).to_string())),
        Refusal::Head | Refusal::NotOneHost | Refusal::Host | Refusal::Origin | Refusal::Owner => None,
    };
    if let Some((name, value)) = extra
        && let Ok(value) = value.parse()
    {
        response.headers_mut().insert(name, value);
    }
    response
}
