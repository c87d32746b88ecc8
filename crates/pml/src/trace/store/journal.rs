//! What the database does not have yet, in a file of this process.
//!
//! An execution must not wait for a database: it may be locked, slow, or on another machine. So the head of an execution, before
//! its first call, and its trace, before its answer, are appended to a file of this process: one `write(2)`, which waits for no
//! lock and survives the end of the process. The writer commits the same to the database right after, and the file is emptied once
//! the database has everything in it. The file of a process that has died is read by the next process that opens the
//! store: its traces are stored, and its heads become interrupted traces.
//!
//! **Invariant:** what was appended stays in the file until the database has it; of a head, until the database has the head or the trace of
//! its execution.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use pml_wire::{ExecutionId, line::Line, trace::Trace};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::{
    owner::{Dead, Owner},
    place::Place,
    scope::Scope,
};
use crate::{files, trace::TraceHead};

/// Most bytes of a journal. Only a store that is stuck leaves many.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Most bytes of one entry. Writing more takes as long as a commit, for which its execution waits instead.
const MAX_ENTRY_BYTES: usize = 64 * 1024;
/// How long a reader waits for the databases of living processes to have what is in their journals, and how often it looks.
const PATIENCE: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_millis(2);

/// The journal of this process, and the way to those of others.
#[derive(Debug)]
pub(super) struct Journal {
    /// Absent if there is no folder for it.
    place: Option<Place>,
    own: Mutex<Option<Own>>,
    has_failed: AtomicBool,
}

/// The file of this process, made with the first entry.
#[derive(Debug)]
struct Own {
    owner: Owner,
    bytes: u64,
    /// The executions of which the file has something that the database does not have yet.
    waiting: HashMap<ExecutionId, Waiting>,
}

/// What the file has of an execution and the database does not.
#[derive(Debug, Default)]
struct Waiting {
    head: Option<(Scope, TraceHead)>,
    has_trace: bool,
}

/// A part of what is known of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Head,
    /// The trace, which says all that the head says.
    Trace,
}

/// Something for the journal.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry<'a> {
    Head(&'a TraceHead),
    Trace(&'a Trace),
}

/// The journal of a process that has died. Nobody else reads it meanwhile.
#[derive(Debug)]
pub(super) struct DeadJournal {
    dead: Dead,
    pub(super) heads: Vec<(Scope, TraceHead)>,
    pub(super) traces: Vec<(Scope, Trace)>,
}

/// A line of the file, as it is written.
#[derive(Debug, Serialize)]
struct Written<'a> {
    org: &'a str,
    project: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<&'a TraceHead>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a Trace>,
}

/// The same, as it is read.
#[derive(Debug, Deserialize)]
struct Read {
    org: String,
    project: String,
    head: Option<TraceHead>,
    trace: Option<Box<Trace>>,
}

impl Entry<'_> {
    fn id(self) -> ExecutionId {
        match self {
            Entry::Head(head) => head.trace_id,
            Entry::Trace(trace) => trace.trace_id,
        }
    }
}

impl Journal {
    pub(super) fn new(place: Option<Place>) -> Journal {
        Journal { place, own: Mutex::default(), has_failed: AtomicBool::default() }
    }

    /// Appends an entry. False if there is no journal, the entry is too large, or the file cannot be written, which is logged once.
    pub(super) fn append(&self, scope: &Scope, entry: Entry<'_>) -> bool {
        let Some(place) = &self.place else { return false };
        let appended = self.try_append(place, scope, entry);
        if let Err(err) = &appended
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(error = %err, "the journal of traces cannot be written; executions wait for the database");
        }
        appended.unwrap_or(false)
    }

    fn try_append(&self, place: &Place, scope: &Scope, entry: Entry<'_>) -> io::Result<bool> {
        let (head, trace) = match entry {
            Entry::Head(head) => (Some(head), None),
            Entry::Trace(trace) => (None, Some(trace)),
        };
        let mut line = Line::of(&Written { org: scope.org(), project: scope.project(), head, trace }).into_string();
        line.push('\n');
        if line.len() > MAX_ENTRY_BYTES {
            return Ok(false);
        }
        let mut own = self.lock();
        let own = match &mut *own {
            Some(own) => own,
            none => none.insert(Own::make(place)?),
        };
        let bytes = own.bytes + line.len() as u64;
        if bytes > MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too much waits for the database"));
        }
        if let Err(err) = own.owner.file().write_all(line.as_bytes()) {
            // A line that a full disk has cut off must not share its line with the next.
            let _ = own.owner.file().set_len(own.bytes);
            return Err(err);
        }
        own.bytes = bytes;
        let waiting = own.waiting.entry(entry.id()).or_default();
        match entry {
            Entry::Head(head) => waiting.head = Some((scope.clone(), head.clone())),
            Entry::Trace(_) => waiting.has_trace = true,
        }
        Ok(true)
    }

    /// The database has these, or they are given up.
    pub(super) fn settle(&self, parts: impl Iterator<Item = (ExecutionId, Part)>) {
        let mut own = self.lock();
        let Some(own) = own.as_mut().filter(|own| !own.waiting.is_empty()) else { return };
        for (id, part) in parts {
            match (part, own.waiting.get_mut(&id)) {
                (Part::Head, Some(waiting)) if waiting.has_trace => waiting.head = None,
                _ => drop(own.waiting.remove(&id)),
            }
        }
        // If the file cannot be emptied, what is in it is found to be stored when it is read.
        if own.waiting.is_empty() && own.owner.file().set_len(0).is_ok() {
            own.bytes = 0;
        }
    }

    /// Has the file the trace of this execution, and the database not?
    pub(super) fn has_trace(&self, id: ExecutionId) -> bool {
        self.lock().as_ref().and_then(|own| own.waiting.get(&id)).is_some_and(|waiting| waiting.has_trace)
    }

    /// The heads of these executions, as far as the database does not have them yet.
    pub(super) fn heads(&self, ids: &[ExecutionId]) -> Vec<(Scope, TraceHead)> {
        let own = self.lock();
        let Some(own) = &*own else { return Vec::new() };
        ids.iter().filter_map(|id| own.waiting.get(id)?.head.clone()).collect()
    }

    /// The journals of processes that have died.
    pub(super) fn dead(&self) -> Vec<DeadJournal> {
        let Some(place) = &self.place else { return Vec::new() };
        let open = |id: i64| {
            let dead = Dead::find(place.journal_path(id))?;
            let (heads, traces) = dead.file().map_or_else(Default::default, read);
            Some(DeadJournal { dead, heads, traces })
        };
        place.journals().into_iter().filter_map(open).collect()
    }

    /// Waits until the database has what other processes have in their journals: whoever asks after an answer finds its trace. The wait ends
    /// after [`PATIENCE`], since the journal of a busy process may never be empty.
    pub(super) async fn others_filed(&self) {
        let Some(place) = &self.place else { return };
        let own = self.lock().as_ref().map(|own| own.owner.id);
        let others: Vec<_> = place.journals().into_iter().filter(|id| Some(*id) != own).collect();
        let until = Instant::now() + PATIENCE;
        for path in others.into_iter().map(|id| place.journal_path(id)) {
            while fs::metadata(&path).is_ok_and(|file| file.len() > 0) && Instant::now() < until {
                sleep(PAUSE).await;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Own>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Journal {
    /// What the database does not have is left to the next process.
    fn drop(&mut self) {
        let own = self.lock().take();
        if let Some(own) = own.filter(|own| !own.waiting.is_empty()) {
            own.owner.leave();
        }
    }
}

impl Own {
    fn make(place: &Place) -> io::Result<Own> {
        files::make_folder(place.folder())?;
        let owner = Owner::new(|id| place.journal_path(id))?;
        Ok(Own { owner, bytes: 0, waiting: HashMap::new() })
    }
}

impl DeadJournal {
    /// The database has everything that is in it.
    pub(super) fn forget(self) {
        self.dead.forget();
    }
}

type Scoped<T> = (Scope, T);

/// The entries of a journal. A line that was cut off was never waited for to its end, and so nobody heard of what it says.
fn read(file: &File) -> (Vec<Scoped<TraceHead>>, Vec<Scoped<Trace>>) {
    let mut bytes = Vec::new();
    if let Err(err) = file.take(MAX_BYTES).read_to_end(&mut bytes) {
        tracing::warn!(error = %err, "the journal of a pml that has ended cannot be read");
    }
    let (mut heads, mut traces) = (Vec::new(), Vec::new());
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(Read { org, project, head, trace }) = serde_json::from_slice(line) else { continue };
        let Ok(scope) = Scope::new(&org, &project) else { continue };
        traces.extend(trace.map(|trace| (scope.clone(), *trace)));
        heads.extend(head.map(|head| (scope, head)));
    }
    (heads, traces)
}
