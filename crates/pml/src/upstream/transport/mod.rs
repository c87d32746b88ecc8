//! Ways to a server: a child's pipes, streamable HTTP, HTTP with a stream of events.
//!
//! Each carries messages out and gives what comes in to the inbox; what the messages mean is not known here.

mod events;
mod forgotten;
mod http;
mod link;
mod outgoing;
mod plumbing;
mod sse;
mod stdio;

pub(super) use self::{
    link::Link,
    outgoing::{Departure, Headers, Outgoing, SessionId, SessionSlot},
    plumbing::Plumbing,
};
