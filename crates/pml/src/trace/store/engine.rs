//! What the writer needs of a database.

use std::{fmt, time::Duration};

use pml_wire::ExecutionId;

use super::{
    Commit, Scope, StoreError,
    change::{Change, Progress},
    connection::Trouble,
    journal::Part,
    row::Row,
    writer::Ack,
};

/// Something to write, and whoever waits for it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) what: What,
    pub(super) ack: Ack,
}

/// Something to write.
#[derive(Debug)]
pub(super) enum What {
    Head(Begun),
    Trace(Box<Row>),
}

/// An execution that has begun.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) scope: Scope,
    pub(super) id: ExecutionId,
    pub(super) ts: i64,
    /// Its head.
    pub(super) json: String,
}

impl Entry {
    pub(super) fn trace(&self) -> Option<&Row> {
        match &self.what {
            What::Trace(row) => Some(row),
            What::Head(_) => None,
        }
    }

    /// The execution that it is about, and what of it this is.
    pub(super) fn part(&self) -> (ExecutionId, Part) {
        match &self.what {
            What::Head(begun) => (begun.id, Part::Head),
            What::Trace(row) => (row.id, Part::Trace),
        }
    }
}

/// What can be done about trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coping {
    /// There is none any more.
    Solved,
    /// Only time helps.
    Wait(Duration),
}

/// A database, as the thread that writes to it uses it. Everything here may block.
pub(super) trait Engine: fmt::Debug + Send + 'static {
    /// Opens the database if it is not open.
    fn open(&mut self) -> Result<(), Trouble>;

    fn is_open(&self) -> bool;

    /// Commits the batch, and says what became of each entry. An error comes with the entry that it is about, if it is about
    /// one. The batch may be written again after an error, without that entry.
    fn write(&mut self, batch: &[Entry]) -> Result<Vec<Commit>, (Trouble, Option<usize>)>;

    /// Adds to numbers that are kept by name.
    fn count(&mut self, more: &[(&'static str, u64)]) -> Result<(), Trouble>;

    /// Makes a slice of a change, and says how many rows it has changed. A slice that fails can be tried again.
    fn slice(&mut self, scope: &Scope, change: &mut Change) -> Result<(u64, Progress), (Trouble, StoreError)>;

    /// Makes interrupted traces of executions whose process has died. How many.
    fn recover(&mut self) -> Result<u64, Trouble>;

    /// Executions whose traces were dropped have ended all the same: what is known of them becomes their trace.
    fn settle(&mut self, dropped: &[ExecutionId]) -> Result<(), Trouble>;

    /// Does what is due now, and says when there will be more to do.
    fn tick(&mut self) -> Option<Duration> {
        None
    }

    fn cope(&mut self, trouble: &Trouble) -> Coping;

    /// Executions of this process that have not ended are interrupted now.
    fn close(&mut self);
}
