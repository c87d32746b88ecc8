//! What a hub stores besides traces: keys, capabilities and learned models, in the same database.

mod api;
mod capability;
mod key;
mod model;
mod postgres;
mod sqlite;
#[cfg(test)]
pub(crate) mod tests;

use self::capability::{MAX_REMEMBERED, tag};
pub use self::{
    api::{Capabilities, HubStore, Keys, Models},
    capability::{
        Altered, Capability, CapabilityStats, CapabilityVersion, Change, Deleted, Expected, Link, Listing,
        NewCapability, Part, Put, RegistryEntry, RegistryListing, RegistryMark, Renamed, Viewer, Visibility, Which,
    },
    key::{AddedKey, Key, KeyState, NewKey, Permission, Permissions},
    model::{Model, PutModel},
    postgres::PostgresHub,
    sqlite::SqliteHub,
};
