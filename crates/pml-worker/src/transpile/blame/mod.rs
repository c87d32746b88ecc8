//! Errors that name the thing: which expression failed, what its value is, and where that came from.
//!
//! The engine says `not a function` and a place. The compiled program is parsed again, the operation at that place is
//! found, and what is known of its subject is put into words. It is done only when there is an error to explain.

mod argument;
mod failure;
mod habits;
mod known;
mod opened;
mod operations;
mod patterns;
mod reads;
mod shape;
mod teller;
mod text_uses;
mod undeclared;

pub(super) use self::{
    argument::argument,
    failure::{Failed, explain},
    reads::reads,
    text_uses::text_uses,
};
pub(crate) use self::{
    failure::{Blame, is_explained},
    known::ARGS,
    reads::Read,
    shape::{Given, Shape, Text, plain},
    undeclared::{assigned, assigned_constant, declared_elsewhere, undefined_name},
};
