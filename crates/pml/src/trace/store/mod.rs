//! The store of traces.
//!
//! [`Store`] is what callers need; [`SqliteStore`] keeps traces in a database file in the data folder. Writing never holds
//! up an execution: traces go through a bounded queue, are committed in groups, by a thread or, if that is quick, by whoever
//! waits, and an execution waits for its commit at most 2 ms ([`Receipt::committed`]). Readers have connections of their own, which neither wait
//! for the writer nor make it wait. What is dropped is counted, and the counts are in the database.
//!
//! **Invariant:** nothing that goes wrong here fails an execution. A database that is locked, full, read-only, damaged or of
//! a newer pml is a [`State`], not an error of whoever submits.

mod api;
mod body;
mod change;
mod connection;
mod database;
mod desk;
mod health;
mod owner;
mod place;
mod query;
mod queue;
mod raw;
mod readers;
mod receipt;
mod row;
mod sample;
mod schema;
mod sqlite;
#[cfg(test)]
mod tests;
mod unfinished;
mod writer;

pub use self::api::{
    Answer, Commit, Cursor, Deletion, Filter, Found, Outgoing, Page, Reading, Sampled, Stats, Store, StoreError,
    Summary, ToolStats,
};
pub use self::database::Options;
pub use self::health::{Counts, Health, State};
pub use self::place::{FOLDER, is_there, problem};
pub use self::raw::RawStore;
pub use self::receipt::{Receipt, Waited};
pub use self::sqlite::SqliteStore;
