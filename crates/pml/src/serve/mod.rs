//! Builds everything, and owns its end.

mod network;
mod reload;
mod rules;
mod services;
mod token;
mod traces;

pub use self::{
    network::Network,
    reload::{Changes, Files, keep_within},
    services::{Options, Services},
    token::{named_token, token},
    traces::{TraceSettings, Traces, syncer},
};
