//! Builds everything, and owns its end.

mod reload;
mod rules;
mod services;
mod token;

pub(crate) use self::services::client;
pub use self::{
    reload::{Changes, Files},
    services::{Options, Services},
    token::{named_token, token},
};
