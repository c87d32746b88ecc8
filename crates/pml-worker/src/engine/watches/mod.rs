//! What is seen of the values that a program compares, searches and converts, and what is said of it when the run is over.

mod digest;
mod looks;
mod members;
mod plain;
mod sentences;

pub(super) use self::{
    looks::{INVALID, Watches, install},
    members::{Members, both_of, install as install_members},
};
