//! The gateway over HTTP, from the first connection to the last.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::http::StatusCode;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    super::gateway::Frontend,
    guard::{Access, Guard},
    routes::routes,
    sessions::Sessions,
    web::Web,
};
use crate::{
    hub::Hub,
    web::{Grace, HalfClosed, Streams, serve},
};

/// When everything ends: how long requests that go on may still take. A run that has just ended has an answer that is on its
/// way.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

impl Frontend {
    /// Serves HTTP until `stop` is cancelled and every connection has ended. With a hub, its routes are served too.
    pub async fn serve_http(
        self: &Arc<Self>,
        listener: TcpListener,
        access: Access,
        hub: Option<Arc<Hub>>,
        stop: &CancellationToken,
    ) -> io::Result<()> {
        let gone = CancellationToken::new();
        let web = Arc::new(Web {
            frontend: Arc::clone(self),
            of_profiles: Mutex::default(),
            sessions: Sessions::default(),
            guard: Guard::new(access, listener.local_addr()?),
            bodies: Arc::default(),
            streams: Streams::default(),
            stop: stop.child_token(),
            gone: gone.clone(),
        });
        let router = routes(Arc::clone(&web));
        let router = match &hub {
            Some(hub) => router.merge(hub.routes()),
            None => router,
        };
        let half_closed = HalfClosed::Ends;
        serve(listener, router, stop, Grace { half_closed, refused, last_answers: LAST_ANSWERS, gone }).await;
        Ok(())
    }
}

/// What is said to a request that cannot be read, in the form of the other errors below `/mcp`.
fn refused(status: StatusCode) -> (&'static str, String) {
    let text = match status {
        StatusCode::URI_TOO_LONG => "the address of the request is too long",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "the head of the request is too large",
        _ => "this is no request of HTTP/1.1",
    };
    ("text/plain; charset=utf-8", format!("{text}\n"))
}
