//! Many clients, over HTTP: the MCP endpoint, a stream of events, health and metrics.
//!
//! Nothing is served before the [`guard`] has let the request in.

mod batch;
mod endpoint;
mod entrance;
mod events;
mod guard;
mod headers;
mod listener;
mod routes;
mod sessions;
mod web;

pub use self::guard::Access;
