//! The audit log: what was called, by whom, whether it was allowed, and how it ended.
//!
//! JSON lines in `audit.jsonl` of the data folder, readable by their owner only. A call that a server hears of has two
//! lines: `call.started` before the request is sent, `call.ended` when it is over. A call that no server hears of has one,
//! `call.refused`, and a search has one, `search`; floods of these two are collapsed ([`flood`]).
//!
//! Every line has a number and a hash over itself and the line before ([`chain`]), so a line that is removed, edited or moved
//! shows ([`verify()`]). Processes that share a folder share one chain: whoever appends holds a lock on `audit.head`, which
//! also remembers where the chain ends ([`log`]). Old files are removed by age and by size ([`files`]).
//!
//! **Invariant:** when [`Audit::record_start`] returns, the line is with the kernel, so it outlives the process; or it was counted as
//! late or lost.

mod chain;
mod files;
mod flood;
mod line;
mod log;
mod verify;
mod writer;

pub use self::{
    chain::{Head, HeadError},
    files::{FILE, Reader, Retention},
    line::{CallEvent, CallLine, Decision, Speculation, ToolLine},
    verify::{Problem, Report, verify},
    writer::{Audit, Counts},
};
