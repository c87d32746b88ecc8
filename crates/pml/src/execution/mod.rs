//! One run of one program, from request to outcome.
//!
//! [`run()`] leases a worker, gives it the program and acts on its frames; [`calls`] counts, bounds and records the tool
//! calls; [`speculation`] makes some ahead, by a [`plan`] of what comes; [`reports`] tells how far they are; [`vault`] keeps what is too large for the sandbox, [`json_text`] reads parts of it, and [`fill`] puts it in where JSON
//! leaves the run.

mod analyse;
mod calls;
mod ceilings;
mod clock;
mod fill;
mod from_worker;
mod json_text;
mod nested;
mod outcome;
mod plan;
mod reports;
mod run;
mod speculation;
mod vault;

pub use self::{
    analyse::{CallsOf, analyse, calls_of},
    ceilings::Ceilings,
    json_text::{IndexRoom, JsonText},
    nested::{Nested, NestedProgram},
    outcome::{CallRecord, Outcome, millis},
    run::{Event, Media, Request, run},
};
pub(crate) use self::{
    calls::{Calls, Refused, Written},
    fill::FilledResult,
    plan::{Expected, Order},
    reports::{Report, Reports},
};
pub use crate::broker::Budget;
