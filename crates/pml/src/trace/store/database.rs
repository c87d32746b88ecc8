//! A database of traces: a queue, the thread that writes, and connections that read.
//!
//! This is the machinery of [`SqliteStore`](super::SqliteStore), which takes sanitized traces alone, and of
//! [`RawStore`](super::RawStore), which says what it is.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    thread::JoinHandle,
    time::Duration,
};

use pml_wire::trace::Trace;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{
    Commit, Health, Receipt, State, StoreError,
    body::MAX_BYTES,
    change::{Change, Job},
    desk::Desk,
    health::Shared,
    place::Place,
    queue::{Queue, Refused},
    readers::Readers,
    row,
    writer::{Command, Writer},
};
use crate::trace::TraceHead;

/// Commands that may wait.
const QUEUE: usize = 4096;
/// Memory that traces may take while they wait.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How a store keeps traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What was stored earlier is deleted.
    pub keep: Duration,
    /// If the database is larger, what was stored first is deleted.
    pub max_bytes: u64,
    /// Is a commit on the disk before it is told? Then it survives a power cut too, not only the end of the process.
    pub survives_power_cuts: bool,
    /// Commands that may wait for the writer.
    pub queue: usize,
    /// Most pages of the database: what is more is a full disk. To try that out.
    pub max_pages: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            keep: 30 * DAY,
            max_bytes: 1024 * 1024 * 1024,
            survives_power_cuts: false,
            queue: QUEUE,
            max_pages: None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Database {
    place: Place,
    shared: Arc<Shared>,
    /// Absent if no thread could be started.
    desk: Option<Arc<Desk>>,
    thread: Option<JoinHandle<()>>,
    readers: Arc<Readers>,
}

impl Database {
    /// Opens `name` in the data folder, in the background: whatever is wrong with it is in its [`State`].
    pub(super) fn open(data_dir: &Path, name: &'static str, options: Options) -> Database {
        let place = Place::new(data_dir, name);
        let shared = Arc::new(Shared::default());
        let queue = Queue::new(options.queue);
        let started =
            Writer::new(place.clone(), options, Arc::clone(&shared)).and_then(|writer| Desk::start(queue, writer));
        let (desk, thread) = match started {
            Ok((desk, thread)) => (Some(desk), Some(thread)),
            Err(err) => {
                tracing::error!(error = %err, "no traces are stored: there is no thread for it");
                shared.set_state(State::Failing(err.to_string()));
                (None, None)
            }
        };
        let readers = Arc::new(Readers::new(place.clone()));
        Database { place, shared, desk, thread, readers }
    }

    /// Waits until the database is open or cannot be opened, and executions of dead processes are found.
    pub(super) async fn opened(&self) {
        let (told, opened) = oneshot::channel();
        if let Some(desk) = &self.desk
            && desk.queue.put(Command::Open(told)).is_ok()
        {
            desk.queue.ring();
            let _ = opened.await;
        }
    }

    pub(super) fn begin(&self, head: TraceHead) -> Receipt {
        let (ack, commit) = oneshot::channel();
        let is_taken = self.push(Command::Begin(Box::new(head), ack));
        self.receipt(is_taken.then_some(commit))
    }

    pub(super) fn submit(&self, trace: Trace) -> Receipt {
        let id = trace.trace_id;
        let dropped = || {
            self.shared.note_dropped(id);
            self.receipt(None)
        };
        let weight = row::weight(&trace);
        if weight > MAX_BYTES {
            self.shared.too_large.fetch_add(1, Ordering::Relaxed);
            return dropped();
        }
        let bytes = self.shared.queued_bytes.fetch_add(weight, Ordering::Relaxed);
        self.shared.queued.fetch_add(1, Ordering::Relaxed);
        let (ack, commit) = oneshot::channel();
        let has_room = bytes + weight <= MAX_QUEUED_BYTES;
        if !has_room {
            self.shared.queue_full.fetch_add(1, Ordering::Relaxed);
        }
        if !has_room || !self.push(Command::Finish { trace: Box::new(trace), weight, ack }) {
            self.shared.queued_bytes.fetch_sub(weight, Ordering::Relaxed);
            self.shared.queued.fetch_sub(1, Ordering::Relaxed);
            return dropped();
        }
        self.receipt(Some(commit))
    }

    fn receipt(&self, commit: Option<oneshot::Receiver<Commit>>) -> Receipt {
        Receipt::new(commit, Arc::clone(&self.shared)).with_desk(self.desk.clone())
    }

    /// Puts a command into the queue, or counts that it is dropped. Its receipt has it written.
    fn push(&self, command: Command) -> bool {
        let is_trace = matches!(command, Command::Finish { .. });
        let count = match self.desk.as_ref().map(|desk| desk.queue.put(command)) {
            Some(Ok(())) => return true,
            Some(Err(Refused::Full)) => &self.shared.queue_full,
            Some(Err(Refused::Closed)) | None => &self.shared.refused,
        };
        // The head of an execution is only worth something without its trace.
        if is_trace {
            count.fetch_add(1, Ordering::Relaxed);
        }
        false
    }

    pub(super) async fn read<T: Default + Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        Arc::clone(&self.readers).read(query).await
    }

    pub(super) async fn change(&self, change: Change) -> Result<u64, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Job { change, done: 0, reply: Some(reply) };
        let is_taken = self.desk.as_ref().is_some_and(|desk| desk.queue.put(Command::Change(job)).is_ok());
        if let Some(desk) = &self.desk {
            desk.queue.ring();
        }
        let gone = || StoreError::Unavailable(self.shared.state());
        match is_taken {
            true => answer.await.map_err(|_| gone())?,
            false => Err(gone()),
        }
    }

    pub(super) fn health(&self) -> Health {
        Health {
            state: self.shared.state(),
            path: self.place.path(),
            queued: self.shared.queued.load(Ordering::Relaxed),
            counts: self.shared.counts(),
            set_aside: self.place.all_aside(),
        }
    }
}

impl Drop for Database {
    /// Writes what waits. If the database cannot be written, that ends after a moment.
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        if let Some(desk) = &self.desk {
            desk.queue.close();
        }
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the trace store did not end as it should");
            }
        }
    }
}
