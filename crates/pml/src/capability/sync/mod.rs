//! Keeps the capabilities of this gateway and those of its hub alike.
//!
//! `decide.rs` says what is to be done about one capability, from what became of it on both sides since both were alike;
//! `exchange.rs` does it. The state in which both were alike is a [`Link`](crate::hub::store::Link), kept beside the capabilities.
//!
//! **Invariant:** what is private never leaves; nothing is deleted here unless the hub says that it was deleted there; what was
//! written here is never deleted because of the hub; code that loses against other code stays as an earlier version.

mod decide;
mod exchange;

pub use self::exchange::{Removed, SyncError, Synced, sync};
