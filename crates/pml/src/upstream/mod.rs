//! MCP servers: one actor each.
//!
//! [`Upstream`] is the handle. What it offers is the same over every transport:
//! [`init`](Upstream::init), [`health`](Upstream::health), [`execute`](Upstream::execute),
//! [`terminate`](Upstream::terminate). A server starts when it is first needed, is connected again
//! when it is lost, and is ended with pml.
//!
//! For clients that see a server's own tools, resources and prompts there is
//! [`forward`](Upstream::forward), which passes a request on as it is, [`list`](Upstream::list),
//! [`watch`](Upstream::watch) and [`declared`](Upstream::declared).
//!
//! **Invariant:** a server that is slow, broken, hostile or dead affects only the calls to it.

mod actor;
mod cgroup;
mod codec;
mod connection;
mod discovery;
mod exchange;
mod failure;
mod fleet;
mod handle;
mod handshake;
mod inbox;
pub mod keeper;
mod launch;
mod lines;
mod masking;
mod news;
pub mod oauth;
mod payload;
mod pending;
mod process;
mod process_tree;
mod progress;
mod questions;
mod reading;
mod refresh;
mod relay;
mod result;
mod session;
mod settings;
mod starts;
mod state;
mod subscriber;
mod tasks;
mod transport;
mod web;

pub use self::{
    actor::{Context, start},
    codec::RpcError,
    discovery::Kind,
    failure::{Failure, Repetition, Retry},
    fleet::Fleet,
    handle::{Health, HealthState, Invocation, Upstream},
    payload::{Fields, Item},
    progress::{Progress, ProgressListener},
    questions::{Owner, ServerMessage},
    relay::{Forward, Whole},
    result::{CallResult, Content, Media, TextBlock},
    settings::{
        Backoff, Grant, HttpWire, Isolation, OAuth, ProcessLimits, Secret, Settings, Target, Tokens, ToolSettings,
    },
    starts::Starts,
    subscriber::Watch,
};
pub use crate::catalog::Declared;
