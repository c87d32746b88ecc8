//! Errors that name the thing: which expression failed, what its value is, and where that came from.
//!
//! The engine says `not a function` and a place. The compiled program is parsed again, the operation at that place is
//! found, and what is known of its subject is put into words. It is done only when there is an error to explain.

mod failure;
mod known;
mod operations;
mod reads;
mod shape;
mod text_uses;

pub(super) use self::{failure::explain, reads::reads, text_uses::text_uses};
pub(crate) use self::{
    failure::{Blame, is_assigned, is_explained, undefined_name},
    reads::Read,
    shape::{Given, Shape, Text},
};
