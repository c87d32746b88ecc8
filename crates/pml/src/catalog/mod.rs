//! What tools there are: an immutable snapshot, swapped whole.

#[cfg(test)]
mod agreement;
mod builder;
mod cache;
mod files;
mod finder;
mod header_arguments;
mod listing;
mod mistakes;
mod model;
mod pins;
mod references;
mod saved_program;
mod schema;
mod schema_cost;
mod schema_form;
mod snapshot;
mod text_arguments;
mod tool;
pub mod typescript;
mod unknown;
mod vectors;

pub use self::{
    builder::{Filter, LoadModel},
    cache::{Cache, Cached, Declared},
    finder::{Finder, Found, Searchable, Wish, tool_now},
    listing::{Difference, Listing, Source},
    model::{built_in_model, load_model},
    pins::{Change, Pins},
    saved_program::{CAPABILITIES, SavedProgram, Standing},
    schema::{Pace, TooSlow, Verdict, nearest},
    snapshot::{Catalog, Snapshot},
    text_arguments::wants_text,
    tool::{Hints, Tool},
};
