//! Resources and prompts that servers offer, and whose they are.
//!
//! [`lists`] remembers what servers have listed, [`addresses`] decides whose an address is, and [`resources`] finds the server
//! that is asked for one.

mod addresses;
mod lists;
mod resources;

pub(super) use self::lists::Lists;
pub use self::{
    lists::Items,
    resources::{Listed, NoHolder, Resource},
};
