//! MCP servers: one actor each.
//!
//! [`Upstream`] is the handle. What it offers is the same over every transport:
//! [`init`](Upstream::init), [`health`](Upstream::health), [`execute`](Upstream::execute),
//! [`terminate`](Upstream::terminate). A server starts when it is first needed, is connected again
//! when it is lost, and is ended with pml.
//!
//! **Invariant:** a server that is slow, broken, hostile or dead affects only the calls to it.

mod actor;
mod cgroup;
mod codec;
mod connection;
mod discovery;
mod failure;
mod handle;
mod handshake;
mod inbox;
pub mod keeper;
mod process;
mod process_tree;
mod result;
mod settings;
mod state;
mod transport;

pub use self::{
    actor::{Context, start},
    codec::{Fields, Item},
    failure::{Failure, Retry},
    handle::{Health, HealthState, Invocation, Upstream},
    result::{CallResult, Content, Media},
    settings::{Backoff, HttpWire, Isolation, ProcessLimits, Secret, Settings, Target, ToolSettings},
};
