//! What tools there are: an immutable snapshot, swapped whole.

mod cache;
mod listing;
mod schema;
mod snapshot;
mod tool;
pub mod typescript;

pub use self::{
    cache::{Cache, Cached, Declared},
    listing::{Difference, Listing, Source},
    schema::nearest,
    snapshot::{Catalog, Snapshot},
    tool::{Hints, Tool, hash},
};
