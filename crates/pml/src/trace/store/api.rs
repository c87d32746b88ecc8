//! What callers need of a store of traces, whatever keeps them.

use std::{error, fmt, str::FromStr, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use pml_wire::{
    CapabilityId, ErrorCode, ExecutionId,
    trace::{Entry, Timestamp},
};

use super::{Health, Receipt, Scope, State, WayIn, change::Change};
use crate::{
    error::Error,
    trace::{SanitizedHead, SanitizedTrace, TraceHead},
};

/// The result of asking a store.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Traces that can be read: those of a store, or those of a hub.
pub trait Archive: fmt::Debug + Send + Sync {
    /// A trace, and what is known about it besides.
    fn record(&self, id: ExecutionId) -> Answer<'_, Option<Record>>;

    fn by_id(&self, id: ExecutionId) -> Answer<'_, Option<SanitizedTrace>> {
        Box::pin(async move { Ok(self.record(id).await?.map(|record| record.trace)) })
    }

    /// Finds the trace whose id begins with `prefix`.
    fn find(&self, prefix: &str) -> Answer<'_, Found>;

    /// Summaries of the traces that `filter` lets through, at most `limit`.
    fn list(&self, filter: Filter, reading: Reading, limit: usize) -> Answer<'_, Page>;

    /// Executions that have begun and not ended, newest first.
    fn running(&self) -> Answer<'_, Vec<TraceHead>>;

    /// Numbers about the traces that `filter` lets through.
    fn stats(&self, filter: Filter) -> Answer<'_, Stats>;

    /// Waits until a trace may have been stored, by whatever process, or for a while.
    fn news(&self) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(LOOK))
    }
}

/// How often new traces are looked for where nobody tells of them.
const LOOK: Duration = Duration::from_millis(300);

/// A store of the traces of one [`Scope`]. No method reads or changes anything of another scope, but for
/// [`retain`](Store::retain), which keeps the whole database small.
///
/// [`begin`](Store::begin) and [`submit`](Store::submit) return at once. Everything else may take as long as the disk or
/// the network does.
pub trait Store: Archive {
    /// The way to what writes.
    fn way_in(&self) -> WayIn<'_>;

    /// Stores that an execution has begun. If its process dies before [`submit`](Store::submit), the head becomes an
    /// interrupted trace.
    fn begin(&self, head: SanitizedHead) -> Receipt {
        self.way_in().begin(head.into_inner())
    }

    /// Stores the trace of an execution that has ended. The same trace twice is stored once.
    fn submit(&self, trace: SanitizedTrace) -> Receipt {
        self.way_in().submit(trace.into_inner())
    }

    /// Stores traces that came from elsewhere, and answers for each, in their order, when all of them are committed: on the
    /// disk if the store [survives power cuts](super::Options::survives_power_cuts). They are not [unsent](Store::unsent).
    /// `delivered_by` is the name of the key that they came with: an interrupted trace is completed only by the same.
    ///
    /// Encodes the traces before it returns the future, so it is called on a thread that may be busy for a while. Dropping
    /// the future takes nothing back.
    fn ingest(&self, traces: Vec<SanitizedTrace>, delivered_by: Option<&str>) -> Answer<'static, Vec<Ingested>> {
        Box::pin(self.way_in().ingest(traces.into_iter().map(SanitizedTrace::into_inner).collect(), delivered_by))
    }

    /// Deletes traces, and says how many.
    fn delete(&self, what: Deletion) -> Answer<'_, u64> {
        self.way_in().change(Change::Delete(what))
    }

    /// Deletes what is older, or more, than is to be kept; says how many. The store also does this by itself.
    fn retain(&self) -> Answer<'_, u64> {
        self.way_in().change(Change::Retain)
    }

    /// Traces that no hub has acknowledged, those of earlier executions first, so that a parent comes before its children.
    fn unsent(&self, limit: usize) -> Answer<'_, Vec<Outgoing>>;

    /// A hub has these.
    fn acknowledge(&self, ids: Vec<ExecutionId>) -> Answer<'_, u64> {
        self.way_in().change(Change::Acknowledge(ids))
    }

    /// Sending these has failed for now.
    fn note_failure(&self, ids: Vec<ExecutionId>, reason: &str) -> Answer<'_, u64> {
        self.way_in().change(Change::NoteFailure(ids, reason.to_owned()))
    }

    /// No hub will ever take these.
    fn bury(&self, ids: Vec<ExecutionId>, reason: &str) -> Answer<'_, u64> {
        self.way_in().change(Change::Bury(ids, reason.to_owned()))
    }

    /// What was buried is unsent again.
    fn requeue(&self) -> Answer<'_, u64> {
        self.way_in().change(Change::Requeue)
    }

    /// What a hub has of executions that began then or later is unsent again: it may have lost it.
    fn resend(&self, since: Timestamp) -> Answer<'_, u64> {
        self.way_in().change(Change::Resend { since, after: 0 })
    }

    /// What waits to be sent to a hub.
    fn outbox(&self) -> Answer<'_, Outbox>;

    /// If what waits to be sent is larger, the oldest traces of executions that succeeded are given up, then the oldest of
    /// the others, and counted. They stay in the store. Says how many.
    fn trim_outbox(&self, max_bytes: u64) -> Answer<'_, u64> {
        self.way_in().change(Change::TrimOutbox { max_bytes })
    }

    /// The turn to send what is unsent, if no other process has it. It lasts until it is dropped or the process ends.
    fn take_turn(&self) -> Answer<'_, Option<Turn>>;

    /// How much there is to learn from each, from 0 to 1.
    fn set_priorities(&self, priorities: Vec<(ExecutionId, f64)>) -> Answer<'_, u64> {
        self.way_in().change(Change::SetPriorities(priorities))
    }

    /// Draws up to `count` different traces, each with a chance in proportion to its priority to the power of `exponent`.
    /// The same `seed` draws the same of the same traces. No more are returned than have `max_bytes` together, but for the first.
    fn sample(&self, count: usize, exponent: f64, seed: u64, max_bytes: usize) -> Answer<'_, Sample>;

    /// Reads the whole database, and says what is wrong with it, if anything is. A server looks after its own files.
    fn damage(&self) -> Answer<'_, Option<String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn health(&self) -> Health;
}

/// A database that has a store for each scope.
pub trait Stores: fmt::Debug + Send + Sync {
    /// The store of one scope. Cheap: all of them share the database.
    fn of(&self, scope: &Scope) -> Arc<dyn Store>;

    fn health(&self) -> Health;

    /// The state alone, which costs nothing.
    fn state(&self) -> State;
}

/// A stored trace.
#[derive(Clone, Debug)]
pub struct Record {
    pub trace: SanitizedTrace,
    /// The capability that the trace names, if it is known here.
    pub capability: Option<CapabilityId>,
    pub priority: f64,
    /// When it was stored, by the clock of the machine that did it.
    pub stored_at: Timestamp,
    /// The name of the key that it was delivered with, if it came from elsewhere.
    pub delivered_by: Option<String>,
}

/// What became of a trace that came from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ingested {
    Committed(Commit),
    /// The store will never take it.
    Refused(String),
}

/// What waits to be sent to a hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outbox {
    pub unsent: u64,
    /// Size of those, as they are stored.
    pub unsent_bytes: u64,
    /// When the first of those began.
    pub oldest: Option<Timestamp>,
    /// Refused by a hub for good.
    pub dead: u64,
    /// Given up before they were sent, since too many waited.
    pub dropped: u64,
    /// Why sending failed, by reason, with how many traces: of those that are unsent, and of those that are dead.
    pub failures: Vec<(String, u64)>,
    pub graves: Vec<(String, u64)>,
}

/// The turn to send what is unsent. Ends when it is dropped.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "held, not used")] Box<dyn TurnHeld>);

/// What a [`Turn`] holds.
pub trait TurnHeld: fmt::Debug + Send + Sync {}

impl<T: fmt::Debug + Send + Sync> TurnHeld for T {}

impl Turn {
    pub fn holding(what: impl TurnHeld + 'static) -> Turn {
        Turn(Box::new(what))
    }
}

/// What became of a trace that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    Stored,
    /// It was there already.
    Duplicate,
    /// Another trace of the same id was there already, and stays.
    Conflict,
    /// It is from elsewhere and would be its own ancestor, or has more ancestors than are followed. It is not stored.
    Endless,
}

/// Which traces. The default lets all through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only executions that did not succeed.
    pub failed: bool,
    /// Only executions with a task of a tool whose id matches; `*` stands for anything, `?` for one character.
    pub tool: Option<String>,
    /// Only executions that began then or later.
    pub since: Option<Timestamp>,
    /// Only executions that began earlier.
    pub before: Option<Timestamp>,
    /// Only executions of a client or a caller whose name contains this, in upper or lower case.
    pub client: Option<String>,
    /// Only executions whose intent contains this, in upper or lower case.
    pub intent: Option<String>,
    /// Only executions of this capability.
    pub capability: Option<CapabilityId>,
}

/// In which order traces are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// From the execution that began last.
    #[default]
    Newest,
    /// Executions that began before those of an earlier page.
    Before(Cursor),
    /// Executions that were stored after those of an earlier page, in the order in which they were stored.
    StoredAfter(Cursor),
}

/// A place in a list of traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub(super) began: i64,
    pub(super) number: i64,
}

/// A part of a list of traces.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub traces: Vec<Summary>,
    /// Where the next part begins; `None` if there is none.
    pub next: Option<Cursor>,
    /// Behind every trace that was stored when this page was read: for [`Reading::StoredAfter`].
    pub end: Cursor,
}

/// A trace in a list.
#[derive(Clone, Debug)]
pub struct Summary {
    pub id: ExecutionId,
    pub parent: Option<ExecutionId>,
    pub timestamp: Timestamp,
    pub duration_ms: f64,
    pub success: bool,
    pub is_interrupted: bool,
    pub error_code: Option<String>,
    pub entry: Entry,
    pub caller: String,
    pub client: Option<String>,
    pub intent: Option<String>,
    /// The capability that the trace names, if it is known here.
    pub capability: Option<CapabilityId>,
    pub tasks: u64,
    /// The tools of its first tasks, each once, with how often it was used.
    pub tools: Vec<(String, u64)>,
}

/// What was found by the beginning of an id.
#[derive(Clone, Debug, Default)]
pub enum Found {
    #[default]
    Nothing,
    One(ExecutionId),
    /// Some of those that begin so.
    Several(Vec<ExecutionId>),
}

/// Which traces to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    One(ExecutionId),
    /// Executions that began before.
    Before(Timestamp),
    All,
}

/// A trace on its way to a hub.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub trace: SanitizedTrace,
    /// How often sending it has failed.
    pub attempts: u32,
}

/// Traces that were drawn.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub traces: Vec<Sampled>,
    /// How many more were drawn, but would have been too much.
    pub left: u64,
}

/// A trace that was drawn.
#[derive(Clone, Debug)]
pub struct Sampled {
    pub trace: SanitizedTrace,
    pub priority: f64,
    /// The chance of this trace in one draw among all.
    pub probability: f64,
}

/// Numbers about traces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    pub traces: u64,
    pub failed: u64,
    pub interrupted: u64,
    /// When the first and the last of them began.
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    /// Size of the results of calls within programs of clients.
    pub intermediate_bytes: u64,
    /// Size of what those programs returned; of each at most the size of its results, since it may compute more.
    pub answer_bytes: u64,
    /// By tool, the most used first.
    pub tools: Vec<ToolStats>,
    /// By reason, what was lost or late, of all processes and times.
    pub counts: Vec<(String, u64)>,
    /// Size of the database.
    pub stored_bytes: u64,
    /// Not acknowledged by a hub, and refused by it for good.
    pub unsent: u64,
    pub dead: u64,
}

/// Bytes of JSON that make a token, roughly.
const TOKEN_BYTES: u64 = 4;

impl Stats {
    /// An estimate of how many tokens of results stayed out of the context of models.
    pub fn tokens_kept_out(&self) -> u64 {
        self.intermediate_bytes.saturating_sub(self.answer_bytes) / TOKEN_BYTES
    }
}

/// Numbers about one tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolStats {
    pub tool: String,
    pub calls: u64,
    pub failed: u64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    /// Size of its results.
    pub result_bytes: u64,
}

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Traces cannot be stored at the moment.
    #[error("{0}")]
    Unavailable(State),
    /// Too much waits to be stored.
    #[error("too many traces wait to be stored")]
    Busy,
    /// The store is well, but never takes this.
    #[error("the trace store does not take this: {0}")]
    Refused(String),
    #[error("the stored traces cannot be {doing}: {source}")]
    Failed { doing: &'static str, source: Box<dyn error::Error + Send + Sync> },
    /// A hub did not answer.
    #[error("{}", .0.message)]
    Remote(Box<Error>),
    /// A stored trace is not what was stored.
    #[error("the stored trace {id} is damaged: {why}")]
    Damaged { id: ExecutionId, why: String },
}

impl StoreError {
    pub(super) fn reading(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> StoreError {
        StoreError::Failed { doing: "read", source: source.into() }
    }

    pub(super) fn writing(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> StoreError {
        StoreError::Failed { doing: "changed", source: source.into() }
    }
}

impl Found {
    /// Of ids that begin so.
    pub(super) fn of(ids: Vec<ExecutionId>) -> Found {
        match ids[..] {
            [] => Found::Nothing,
            [id] => Found::One(id),
            _ => Found::Several(ids),
        }
    }
}

impl From<StoreError> for Error {
    fn from(err: StoreError) -> Error {
        if let StoreError::Remote(err) = err {
            return *err;
        }
        let error = Error::new(ErrorCode::TraceStoreFailed, err.to_string());
        let error = match &err {
            StoreError::Unavailable(state) => match state.hint() {
                Some(hint) => error.with_hint(hint),
                None => error,
            },
            StoreError::Busy | StoreError::Remote(_) | StoreError::Refused(_) => error,
            StoreError::Failed { .. } | StoreError::Damaged { .. } => error.with_hint("`pml doctor traces` says more"),
        };
        error.caused_by(err)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.began, self.number)
    }
}

impl FromStr for Cursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Cursor, String> {
        let wrong = || format!("`{text}` is no place in a list of traces");
        // Moments are counted from 1970, so the first minus is the one between.
        let (began, number) = text.split_once('-').ok_or_else(wrong)?;
        match (began.parse(), number.parse()) {
            (Ok(began), Ok(number)) => Ok(Cursor { began, number }),
            _ => Err(wrong()),
        }
    }
}
