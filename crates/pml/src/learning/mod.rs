//! Learns from stored traces which tools belong to which request, and ranks by it.
//!
//! A thread of low priority, the follower, reads traces from the store after they were committed, has `pml-learn` learn from
//! them, and publishes what was learned as an immutable [`View`]. Searches read the last view; none waits for learning. Each
//! process has a model of its own in memory, made from the store that all share; the one that holds the lock in the data folder
//! writes the snapshot from which the next process starts.
//!
//! **Invariants:** learning is never in the path of an execution. Only sanitized traces are learned from. A failed, cancelled or
//! refused call is no evidence for a tool. Without a trace, or switched off, a search is the plain search, bit for bit.

mod follower;
mod handle;
mod missing;
mod orders;
mod others;
mod proposals;
mod ranking;
mod reusable;
mod samples;
mod saved;
mod teacher;
mod told;

pub use crate::trace::{LearnedType, schema_of};

pub use self::{
    handle::{Learning, Options, Progress},
    orders::{Order, Orders, is_there},
    others::take_over,
    proposals::{ENOUGH, Proposal, name_for, proposal_line, proposals},
    ranking::{Related, View},
    reusable::{Reusables, SUGGESTED},
    told::reason,
};
