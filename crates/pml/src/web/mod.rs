//! Serving HTTP: connections, messages and responses, for the gateway and for the hub.

mod answers;
mod bodies;
mod listener;
mod refusals;
mod responses;
mod visitors;
mod writing;

pub(crate) use self::{
    answers::{AnswerHold, AnswerRoom, Kept},
    bodies::{Bodies, MAX_BYTES, NoBody, Received},
    listener::{Grace, HEAD_BYTES, HalfClosed, serve},
    responses::{event_stream, plain, typed},
    visitors::{Streams, Visitor},
};
