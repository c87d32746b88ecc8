//! What tools there are: an immutable snapshot, swapped whole.

mod cache;
mod header_arguments;
mod listing;
mod schema;
mod search;
mod snapshot;
mod tool;
pub mod typescript;

pub use self::{
    cache::{Cache, Cached, Declared},
    listing::{Difference, Listing, Source},
    schema::nearest,
    search::{Found, search},
    snapshot::{Catalog, Snapshot},
    tool::{Hints, Tool, hash},
};
