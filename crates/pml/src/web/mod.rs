//! Serving HTTP: connections, messages and responses, for the gateway and for the hub.

mod bodies;
mod listener;
mod responses;
mod visitors;

pub(crate) use self::{
    bodies::{Bodies, MAX_BYTES, NoBody, Received},
    listener::{Grace, HEAD_BYTES, serve},
    responses::{event_stream, plain, typed},
    visitors::{Streams, Visitor},
};
