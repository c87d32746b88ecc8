//! Sandboxed worker processes, each for one program.
//!
//! [`Pool`] keeps idle workers, started and verified, so that a program does not wait for a process.
//! [`Worker`] is a leased worker: it is killed and reaped when dropped, whatever happened.
//!
//! **Invariant:** a worker serves one execution. It cannot be returned to the pool.

mod frame_log;
mod options;
mod os;
mod outgoing;
mod pool;
mod worker;

pub use self::{
    options::{Mode, Options, this_program},
    pool::Pool,
    worker::{Worker, WorkerExit},
};
pub use pml_worker::{TimeZone, WorkerLimits};
