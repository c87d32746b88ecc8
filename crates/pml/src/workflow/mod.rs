//! Workflows: tasks that depend on each other, run through the broker.
//!
//! [`graph`] is a workflow as it is written, with [`mod@reference`] and [`template`] for values that are known only while it runs
//! and [`condition`] for when a task runs. [`structure`] finds out what each task depends on, [`mod@check`] whether all of it can
//! run; [`problem`] is what is wrong, all of it at once. [`schedule`] decides what may start, [`outputs`] has the values that
//! references stand for, [`mod@run`] makes the calls, and [`outcome`] is how it went. [`intent`] suggests a plan, and [`provider`]
//! is how programs get to all of this.
//!
//! **Invariants:** nothing runs before the whole workflow was checked. A task that fails takes those with it that depend on it,
//! and no others. The host evaluates no code: conditions are data, and `code` runs in a jailed worker. An intent runs nothing.

mod check;
mod condition;
mod graph;
mod intent;
mod outcome;
mod outputs;
mod problem;
mod provider;
mod reference;
mod run;
mod schedule;
mod structure;
mod template;

pub use self::{
    check::{Checked, Document, check, read_graph},
    graph::{Action, Format, MAX_TASKS, Task, Workflow},
    intent::{Ask, Asked, Plans, Suggestion, resolve},
    outcome::{Elements, Outcome, Status, TaskRecord},
    problem::{Problem, Problems},
    provider::{OwnTools, ask_schema},
    run::{Event, Listener, Request, run},
    schedule::Dependencies,
};
