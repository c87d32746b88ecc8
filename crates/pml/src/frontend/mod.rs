//! What an agent's client sees: MCP over standard input and output, and over HTTP.
//!
//! Each request is served by itself ([`surface`]): it says, or its session has said, which era of the
//! protocol it is in, what the client can do and what it wants to hear. pml offers a handful of tools of
//! its own, of which [`execute`] is the one that matters; the servers' own tools, resources and prompts
//! are passed through if that is asked for.
//!
//! **Invariant:** a request that is cancelled, and everything that is done for a client that is gone, ends.

mod answer;
mod bulletin;
mod capabilities;
mod changes;
mod execute;
mod follow;
mod gateway;
mod http;
mod instructions;
mod introductions;
mod metrics;
mod nested;
mod passthrough;
mod proposals;
mod recall;
mod results;
mod rpc;
mod search;
mod session;
mod shares;
mod stdio;
mod surface;
mod tokens;
mod tools;
mod watches;
mod workflow;

pub use self::{
    gateway::{Expose, Frontend, Parts, Settings},
    http::{Access, NamedToken, TokenBook},
};
