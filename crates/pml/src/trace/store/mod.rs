//! The store of traces.
//!
//! [`Store`] is what callers need; [`SqliteStore`] keeps traces in a database file in the data folder, and
//! [`PostgresStore`](postgres::PostgresStore) in a server that a team shares. Writing never holds
//! up an execution: a trace is appended to a journal, which takes microseconds, and goes through a bounded queue to a thread that commits
//! traces in groups. Where the journal cannot take it, the execution waits for the commit, for less than 2 ms ([`Receipt::kept`]).
//! Readers have connections of their own, which neither wait for the writer nor make it wait. What is dropped is counted, and the
//! counts are in the database.
//!
//! **Invariant:** nothing that goes wrong here fails an execution. A database that is locked, full, read-only, damaged or of
//! a newer pml is a [`State`], not an error of whoever submits.

mod ancestry;
mod api;
mod body;
mod capability;
mod change;
mod connection;
mod database;
mod engine;
mod fqdn;
mod health;
mod intake;
mod journal;
mod owner;
mod place;
pub mod postgres;
mod query;
mod queue;
mod raw;
mod readers;
mod receipt;
mod row;
mod sample;
mod schema;
mod scope;
mod sqlite;
mod sqlite_engine;
#[cfg(test)]
pub(crate) mod tests;
mod unfinished;
mod writer;

pub use self::api::{
    Answer, Archive, Commit, Cursor, Deletion, Filter, Found, Ingested, Outbox, Outgoing, Page, Reading, Record,
    Sample, Sampled, Stats, Store, StoreError, Stores, Summary, ToolStats, Turn,
};
pub use self::database::Options;
pub use self::fqdn::{Fqdn, FqdnError, MIN_HASH};
pub use self::health::{Counts, Health, State};
pub use self::intake::WayIn;
pub use self::place::{FOLDER, is_there, problem, try_room};
pub use self::raw::RawStore;
pub use self::receipt::{Receipt, Waited};
pub use self::scope::{NameError, Scope, check_name};
pub use self::sqlite::{SqliteStore, SqliteStores};
pub(crate) use self::{
    capability::{adopt, lookup},
    connection::Trouble,
    query::View,
    row::without_nul,
};
