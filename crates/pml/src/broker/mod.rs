//! The only door from programs to servers.
//!
//! Every call that a program makes passes through [`Broker::call`], in this order: known tool,
//! policy, rate, arguments, server, result. A check that fails ends the call; the server never
//! hears of it. Whatever the outcome, also if the call is cancelled, there is one line in the audit
//! log and one event.
//!
//! **Invariant:** nothing else in pml calls a server on behalf of a program.

mod door;
mod handler;
mod normalise;
mod policy;
mod preflight;
mod rate;
mod record;
mod sharing;

pub use self::{
    door::{Broker, Parts},
    handler::{Answer, CallHandler, HandlerFuture, Kept, Part, ToolCall},
    policy::Policy,
    rate::Bucket,
};
