//! Traces: one record of each execution, cleaned and kept.
//!
//! An entry (a client's `execute_code`, a client's own call, `pml run`) makes one [`Context`], and from it one
//! [`ExecutionRecord`], which owns what the execution does. Whoever does something for the execution reports it to the record's
//! [`Recording`]; the collector makes one trace of it. The record ends when it is finished or dropped, whatever
//! happens, and hands the trace to the [`Sink`]. [`sanitize`] removes secrets from it, [`store`] keeps it.
//!
//! **Invariants:** An execution that has begun ends with exactly one `execution.ended` event and one trace. What is stored has
//! passed the sanitizer: [`store`] takes a [`SanitizedTrace`] or a [`SanitizedHead`], and only this module can make either.

mod collector;
mod context;
pub mod export;
mod head;
mod keeper;
mod lesson;
mod record;
pub mod sanitize;
mod sanitized;
mod shape;
mod sink;
pub mod store;
mod used;

pub(crate) use self::shape::Shapes;
pub use self::{
    collector::Summary,
    context::{Context, MAX_DEPTH},
    head::TraceHead,
    keeper::{Keeper, Outlet},
    lesson::{CUT_OFF, Lesson},
    record::{Announcement, ExecutionRecord, Finish, Program, Recorder, Recording},
    sanitized::{SanitizedHead, SanitizedTrace},
    shape::{LearnedType, schema_of},
    sink::{Receipt, Sink},
    used::{Used, is_answer},
};
