//! The hub: what many gateways share.
//!
//! Gateways deliver their traces to it, and people and programs read them again. Whoever asks has an API key, which belongs to
//! one project of one organisation, and sees and changes nothing of another.
//!
//! **Invariants:** A trace that was acknowledged is committed, on the disk. Every request but those for health has a key, and
//! everything that is read or written is of the key's [`Scope`](crate::trace::store::Scope).

pub mod store;
