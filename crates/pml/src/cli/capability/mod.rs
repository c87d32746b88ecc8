//! `pml capability`: programs that worked once, kept as tools with names.

mod command;
mod files;
mod listing;
mod proposals;
mod running;
mod saving;

pub(super) use self::command::{What, run};
