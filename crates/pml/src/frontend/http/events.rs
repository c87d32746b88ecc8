//! `GET /events`: what happens, as it happens.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{ConnectInfo, Extension, Query, State},
    response::Response,
};
use pml_wire::Line;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::{super::results::Caller, web::Web};
use crate::{
    events::{Event, Listener},
    shown,
    web::event_stream,
};

/// Longest silence on a stream.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What is to be followed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    /// Only events of this execution.
    execution: Option<String>,
    /// Only topics that begin so, such as `execution.` or `provider.mcp.tool`.
    topic: Option<String>,
}

impl Filter {
    fn is_wanted(&self, event: &Event, topic: &str) -> bool {
        self.execution.as_ref().is_none_or(|execution| *execution == event.correlation_id)
            && self.topic.as_ref().is_none_or(|wanted| topic.starts_with(wanted.as_str()))
    }
}

pub(super) async fn follow(
    State(web): State<Arc<Web>>,
    Extension(caller): Extension<Caller>,
    Extension(ConnectInfo(peer)): Extension<ConnectInfo<SocketAddr>>,
    Query(filter): Query<Filter>,
) -> Response {
    let end = web.streams.begin(&format!("{} {}", caller.0, peer.ip()));
    let state = (web.frontend.bus.listen(), filter, web.stop.clone(), end.drop_guard(), 0);
    let stream = futures_util::stream::unfold(state, async |(mut listener, filter, stop, end, told)| {
        let text = tokio::select! {
            text = next(&mut listener, &filter, told) => text?,
            () = stop.cancelled() => return None,
            () = end.token().cancelled() => return None, // for others
        };
        let told = listener.lost();
        Some((Ok::<_, Infallible>(text), (listener, filter, stop, end, told)))
    });
    event_stream(Body::from_stream(stream))
}

/// The next event that is wanted, as text; or a sign of life.
async fn next(listener: &mut Listener, filter: &Filter, told: u64) -> Option<String> {
    // One bound for all, also if only what is not wanted happens.
    let until = Instant::now() + KEEP_ALIVE;
    loop {
        let Ok(event) = timeout_at(until, listener.next()).await else { return Some(": still here\n\n".to_owned()) };
        let event = event?;
        let mut json = serde_json::to_value(&*event).expect("plain data serializes");
        shown::clean(&mut json);
        let topic = json["body"]["topic"].as_str().unwrap_or_default();
        let lost = listener.lost() - told;
        let missed = if lost > 0 { format!("event: lost\ndata: {{\"count\":{lost}}}\n\n") } else { String::new() };
        if filter.is_wanted(&event, topic) {
            return Some(format!("{missed}event: {topic}\ndata: {}\n\n", Line::of(&json).as_str()));
        }
        if lost > 0 {
            return Some(missed);
        }
    }
}
