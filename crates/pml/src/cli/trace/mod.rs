//! `pml trace`: what agents did.

mod command;
mod delete;
mod export;
mod health;
mod list;
mod moment;
mod show;
mod stats;
mod sync;
mod waterfall;

pub(super) use self::command::{HubArgs, What, run};
pub(super) use self::health::check;
