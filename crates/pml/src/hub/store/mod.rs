//! What a hub stores besides traces: keys, capabilities and learned models, in the same database.

mod api;
mod capability;
mod key;
mod model;
mod sqlite;
#[cfg(test)]
pub(crate) mod tests;

pub use self::{
    api::{Capabilities, HubStore, Keys, Models},
    capability::{
        Capability, CapabilityStats, CapabilityVersion, Change, Listing, NewCapability, Put, Renamed, Viewer,
        Visibility, Which,
    },
    key::{AddedKey, Key, KeyState, NewKey, Permission, Permissions},
    model::{Model, PutModel},
    sqlite::SqliteHub,
};
