//! Traces: everything that is known of each execution.
//!
//! An entry (a client's `execute_code`, a client's own call, `pml run`) makes one [`Context`], and from it one
//! [`ExecutionRecord`], which owns what the execution does. Whoever does something for the execution reports it to the record's
//! [`Recording`]; the [`collector`] makes one trace of it. The record ends when it is finished or dropped, whatever
//! happens, and hands the trace to the [`Sink`].
//!
//! **Invariant:** an execution that has begun ends with exactly one `execution.ended` event and one trace.

mod collector;
mod context;
mod record;
mod sink;

pub use self::{
    collector::Summary,
    context::{Context, trace_id_of},
    record::{ExecutionRecord, Finish, Program, Recorder, Recording},
    sink::{Queue, QueueCounts, Queued, Receipt, Sink, queue},
};
