//! How a store is: for `pml doctor`, `/healthz` and `pml trace stats`.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use pml_wire::ExecutionId;

use super::schema;

/// Can traces be stored?
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The database is not open yet.
    #[default]
    Opening,
    Ready,
    /// Another process has held the database's lock for some time. Traces wait in memory.
    Locked,
    /// The disk is full. Traces wait in memory.
    Full,
    /// The file or the folder cannot be written. Traces wait in memory.
    ReadOnly(String),
    /// Something else. Traces wait in memory.
    Failing(String),
    /// A newer pml has changed the database, to this version. Traces are not stored.
    Newer(i64),
    Closed,
}

impl State {
    /// Are traces written as they come?
    pub fn is_well(&self) -> bool {
        matches!(self, State::Ready)
    }

    /// One word.
    pub fn as_str(&self) -> &'static str {
        match self {
            State::Opening => "opening",
            State::Ready => "ready",
            State::Locked => "locked",
            State::Full => "full",
            State::ReadOnly(_) => "read_only",
            State::Failing(_) => "failing",
            State::Newer(_) => "newer",
            State::Closed => "closed",
        }
    }

    /// What others may be told, who do not run this process: nothing of what the database says.
    pub fn summary(&self) -> &'static str {
        match self {
            State::Opening => "the store is being opened",
            State::Ready => "the store is ready",
            State::Locked => "another process has locked the store",
            State::Full => "the disk of the store is full",
            State::ReadOnly(_) => "the store cannot be written",
            State::Failing(_) => "the store does not answer",
            State::Newer(_) => "the store is of a newer pml",
            State::Closed => "the store is closed",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            State::Opening | State::Ready | State::Closed => return None,
            State::Locked => "another program has the database open for writing, such as a SQLite shell; end it",
            State::Full => "make room on the disk, or set `trace.max_mb` lower",
            State::ReadOnly(_) => "make the folder and the files in it writable for you, or use --data-dir",
            State::Failing(_) => "`pml doctor traces` says more",
            State::Newer(_) => "update pml, or use another folder with --data-dir",
        };
        Some(hint.to_owned())
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Opening => f.write_str("the trace store is being opened"),
            State::Ready => f.write_str("traces are stored"),
            State::Locked => f.write_str("traces wait: another process has locked the trace store"),
            State::Full => f.write_str("traces wait: the disk is full"),
            State::ReadOnly(why) => write!(f, "traces wait: the trace store cannot be written: {why}"),
            State::Failing(why) => write!(f, "traces wait: {why}"),
            State::Newer(found) => write!(
                f,
                "traces are not stored: the trace store has version {found}, of a newer pml; this one knows {}",
                schema::VERSION
            ),
            State::Closed => f.write_str("the trace store is closed"),
        }
    }
}

/// How a store is.
#[derive(Clone, Debug)]
pub struct Health {
    pub state: State,
    /// Where the database is: a file, or an address without its password.
    pub place: String,
    /// Traces that wait to be written.
    pub queued: usize,
    pub counts: Counts,
    /// Damaged databases that were set aside.
    pub set_aside: Vec<PathBuf>,
}

/// What has happened to traces in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub stored: u64,
    pub duplicates: u64,
    pub conflicts: u64,
    /// Executions that went on before their trace was committed.
    pub late: u64,
    /// Dropped since too many waited.
    pub queue_full: u64,
    /// Dropped since one was larger than the store takes.
    pub too_large: u64,
    /// Dropped for another reason: the store was closed, is of a newer pml, or refused the trace.
    pub refused: u64,
}

impl Counts {
    /// What has come since, by the names under which it is stored.
    pub(super) fn since(&self, before: &Counts) -> Vec<(&'static str, u64)> {
        let counts = [
            ("late", self.late - before.late),
            ("dropped_queue_full", self.queue_full - before.queue_full),
            ("dropped_too_large", self.too_large - before.too_large),
            ("dropped_refused", self.refused - before.refused),
            ("conflicts", self.conflicts - before.conflicts),
        ];
        counts.into_iter().filter(|(_, more)| *more > 0).collect()
    }

    pub fn dropped(&self) -> u64 {
        self.queue_full + self.too_large + self.refused
    }
}

/// What the writer, the store and its receipts share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Is it of no use to wait for a commit?
    pub(super) is_stalled: AtomicBool,
    pub(super) is_stopping: AtomicBool,
    pub(super) queued: AtomicUsize,
    pub(super) queued_bytes: AtomicUsize,
    pub(super) stored: AtomicU64,
    pub(super) duplicates: AtomicU64,
    pub(super) conflicts: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) queue_full: AtomicU64,
    pub(super) too_large: AtomicU64,
    pub(super) refused: AtomicU64,
    /// Executions whose traces were dropped. What says that they run must go too.
    dropped: Mutex<Vec<ExecutionId>>,
}

/// Dropped executions that are remembered.
const MAX_DROPPED: usize = 10_000;

impl Shared {
    pub(super) fn note_dropped(&self, id: ExecutionId) {
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        if dropped.len() < MAX_DROPPED {
            dropped.push(id);
        }
    }

    pub(super) fn take_dropped(&self) -> Vec<ExecutionId> {
        std::mem::take(&mut *self.dropped.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the state, and says whether it is another one.
    pub(super) fn set_state(&self, state: State) -> bool {
        self.is_stalled.store(!matches!(state, State::Ready | State::Opening), Ordering::Relaxed);
        let mut current = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = *current != state;
        *current = state;
        is_other
    }

    pub(super) fn counts(&self) -> Counts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            stored: load(&self.stored),
            duplicates: load(&self.duplicates),
            conflicts: load(&self.conflicts),
            late: load(&self.late),
            queue_full: load(&self.queue_full),
            too_large: load(&self.too_large),
            refused: load(&self.refused),
        }
    }
}
