//! Traces in PostgreSQL, for teams: several gateways or hubs share one database.
//!
//! The same [`Store`](super::Store) as in SQLite, with the same queue and writer in front of it; [`engine`] is what the writer
//! does to the database. Whoever reads has connections of their own ([`pool`]).
//!
//! **Invariants:** every statement about what belongs to a scope takes the number of its tenant, and every value is a
//! parameter. What is told to be committed is on the server's disk. The password of the database is in no message.

mod address;
mod ancestry;
mod batch;
pub(crate) mod capability;
mod change;
mod engine;
mod follow;
pub(crate) mod keys;
mod notices;
mod owner;
mod pool;
mod query;
mod schema;
mod session;
mod store;
pub(crate) mod tenant;
mod tls;

pub(crate) use self::session::{Id, Session};
pub use self::{
    address::Address,
    store::{PostgresStore, PostgresStores},
};
