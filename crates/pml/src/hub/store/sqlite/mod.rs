//! A hub's data in the database of its traces.

mod capabilities;
mod hub;
mod keys;
mod models;
mod registry;

pub use self::hub::SqliteHub;
