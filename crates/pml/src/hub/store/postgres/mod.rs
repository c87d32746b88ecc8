//! A hub's data in PostgreSQL, in the database of its traces. Several hubs may share it.

mod capabilities;
mod hub;
mod keys;
mod models;
mod registry;

pub use self::hub::PostgresHub;
