//! Heads of executions that the database has not committed in time.
//!
//! The first call of an execution waits for the commit of the execution's head, for less than 2 ms. If the commit takes longer
//! (a slow disk, a lock of another process, a busy machine, a database on another machine), the head is appended to a file of
//! this process instead: one `write(2)`, which waits for no lock and survives the end of the process. The file is
//! emptied once the database has everything in it. The file of a process that has died is read by the next process that opens the
//! store, and its heads become interrupted traces.
//!
//! **Invariant:** an appended head stays in the file until the database has the head or the trace of its execution.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read as _, Write as _},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use pml_wire::ExecutionId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    engine::Begun,
    owner::{Dead, Owner},
    place::Place,
    scope::Scope,
};
use crate::{files, trace::TraceHead};

/// Most bytes of a journal. A head has a few hundred, and only a store that is stuck leaves many.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// The journal of this process, and the way to those of others.
#[derive(Debug)]
pub(super) struct Journal {
    /// Absent if there is no folder for it.
    place: Option<Place>,
    own: Mutex<Option<Own>>,
    has_failed: AtomicBool,
}

/// The file of this process, made with the first head.
#[derive(Debug)]
struct Own {
    owner: Owner,
    bytes: u64,
    /// Heads in the file that the database does not have yet.
    waiting: HashMap<ExecutionId, Begun>,
}

/// The journal of a process that has died. Nobody else reads it meanwhile.
#[derive(Debug)]
pub(super) struct DeadJournal {
    dead: Dead,
    pub(super) heads: Vec<(Scope, TraceHead)>,
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Line<'a> {
    org: &'a str,
    project: &'a str,
    #[serde(borrow)]
    head: &'a RawValue,
}

impl Journal {
    pub(super) fn new(place: Option<Place>) -> Journal {
        Journal { place, own: Mutex::default(), has_failed: AtomicBool::default() }
    }

    /// Appends a head. Says so once if that fails.
    pub(super) fn append(&self, begun: &Begun) {
        if let Err(err) = self.try_append(begun)
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(error = %err, "an execution goes on of which nothing is stored yet");
        }
    }

    fn try_append(&self, begun: &Begun) -> io::Result<()> {
        let place = self.place.as_ref().ok_or_else(|| io::Error::other("there is no folder for it"))?;
        let head: &RawValue = serde_json::from_str(&begun.json)?;
        let mut line = serde_json::to_string(&Line { org: begun.scope.org(), project: begun.scope.project(), head })?;
        line.push('\n');
        let mut own = self.lock();
        let own = match &mut *own {
            Some(own) => own,
            none => none.insert(Own::make(place)?),
        };
        let bytes = own.bytes + line.len() as u64;
        if bytes > MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too many executions wait for the database"));
        }
        if let Err(err) = own.owner.file().write_all(line.as_bytes()) {
            // A line that a full disk has cut off must not share its line with the next.
            let _ = own.owner.file().set_len(own.bytes);
            return Err(err);
        }
        own.bytes = bytes;
        own.waiting.insert(begun.id, begun.clone());
        Ok(())
    }

    /// The database has the heads or the traces of these executions.
    pub(super) fn settle(&self, ids: impl Iterator<Item = ExecutionId>) {
        let mut own = self.lock();
        let Some(own) = own.as_mut().filter(|own| !own.waiting.is_empty()) else { return };
        for id in ids {
            own.waiting.remove(&id);
        }
        // If the file cannot be emptied, what is in it is found to be stored when it is read.
        if own.waiting.is_empty() && own.owner.file().set_len(0).is_ok() {
            own.bytes = 0;
        }
    }

    /// The heads of these executions, as far as the database does not have them yet.
    pub(super) fn waiting(&self, ids: &[ExecutionId]) -> Vec<(Scope, TraceHead)> {
        let own = self.lock();
        let Some(own) = &*own else { return Vec::new() };
        let begun = ids.iter().filter_map(|id| own.waiting.get(id));
        begun.filter_map(|begun| Some((begun.scope.clone(), serde_json::from_str(&begun.json).ok()?))).collect()
    }

    /// The journals of processes that have died.
    pub(super) fn dead(&self) -> Vec<DeadJournal> {
        let Some(place) = &self.place else { return Vec::new() };
        let read = |id: i64| {
            let dead = Dead::find(place.journal_path(id))?;
            let heads = dead.file().map_or_else(Vec::new, read);
            Some(DeadJournal { dead, heads })
        };
        place.journals().into_iter().filter_map(read).collect()
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

/// The heads in a journal. A line that was cut off was never waited for to its end, and so nobody heard of its execution.
fn read(file: &File) -> Vec<(Scope, TraceHead)> {
    let mut bytes = Vec::new();
    if let Err(err) = file.take(MAX_BYTES).read_to_end(&mut bytes) {
        tracing::warn!(error = %err, "heads of executions of a pml that has ended cannot be read");
    }
    let heads = bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let line: Line<'_> = serde_json::from_slice(line).ok()?;
        let head = serde_json::from_str(line.head.get()).ok()?;
        Some((Scope::new(line.org, line.project).ok()?, head))
    });
    heads.collect()
}
