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
    listener::{Grace, HalfClosed, is_head_too_large, serve},
    responses::{event_stream, plain, typed},
    visitors::{Streams, Visitor},
};
