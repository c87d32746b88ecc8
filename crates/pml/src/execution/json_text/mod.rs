//! JSON text of which parts are read by paths such as `items[3].name`, again and again.
//!
//! [`JsonText`] finds out once where the children of a large array or object are; [`scan`] passes over values; [`path`] reads
//! paths.

mod path;
mod scan;
mod text;

pub use self::text::{IndexRoom, JsonText};
