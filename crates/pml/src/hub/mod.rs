//! The hub: what many gateways share.
//!
//! Gateways deliver their traces to it ([`syncer`]), and people and programs read them again ([`archive`]). Whoever asks has an
//! API key, which belongs to one project of one organisation, and sees and changes nothing of another. [`api`] is what a hub
//! serves over HTTP, [`store`] what it keeps.
//!
//! **Invariants:** A trace that was acknowledged is committed, on the disk. Every request but those about the hub itself has a
//! key, and everything that is read or written is of the key's [`Scope`](crate::trace::store::Scope).

mod api;
pub mod archive;
pub mod client;
mod contributions;
pub mod document;
pub mod keys;
mod learner;
mod service;
pub mod store;
pub mod syncer;

pub use self::service::{Hub, HubSettings};
