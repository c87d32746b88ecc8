//! One JavaScript realm, and the run of one program in it.
//!
//! [`Session::new`] builds the realm before the jail closes; [`Session::run`] takes one program
//! through it. In between, [`Session::rehearse`] runs a tiny program, so that the pages a run
//! writes to are the worker's own before anybody waits for it.

mod deadline;
mod decisions;
mod drops;
mod exact;
mod explained;
mod from_json;
mod handles;
mod hashing;
mod hints;
mod inspect;
mod intl;
mod json_texts;
mod language;
mod line_ends;
mod lines;
mod misses;
mod natives;
mod no_modules;
mod orders;
mod pages;
mod quantities;
mod questions;
mod raw;
mod report;
mod results;
mod session;
mod slips;
mod sort;
mod sort_typed;
mod temporal;
mod timers;
mod to_json;
mod truths;
mod units;
mod uses;
mod watches;
mod web;

use self::session::{Form, Manner, PendingCall, Prelude, State};
pub(crate) use self::session::{Session, with_session};
