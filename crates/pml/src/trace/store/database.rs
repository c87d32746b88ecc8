//! A database of traces: a queue, the thread that writes, and connections that read.
//!
//! This is the machinery of [`SqliteStore`](super::SqliteStore), which takes sanitized traces alone, and of
//! [`RawStore`](super::RawStore), which says what it is.

use std::{
    fs::File,
    io,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::Ordering,
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use pml_wire::trace::Trace;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{
    Health, Ingested, Receipt, Scope, State, StoreError,
    body::{Encoder, MAX_BYTES},
    change::{Change, Job, Run},
    health::Shared,
    place::Place,
    query::View,
    readers::Readers,
    row::{self, Origin, Row},
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
    queue: Option<SyncSender<Command>>,
    writer: Option<JoinHandle<()>>,
    readers: Arc<Readers>,
}

impl Database {
    /// Opens `name` in the data folder, in the background: whatever is wrong with it is in its [`State`].
    pub(super) fn open(data_dir: &Path, name: &'static str, options: Options) -> Database {
        let place = Place::new(data_dir, name);
        let shared = Arc::new(Shared::default());
        let (queue, commands) = sync_channel(options.queue.max(1));
        let writer = Writer::new(place.clone(), options, Arc::clone(&shared), commands)
            .and_then(|writer| std::thread::Builder::new().name("traces".to_owned()).spawn(move || writer.run()));
        let (queue, writer) = match writer {
            Ok(writer) => (Some(queue), Some(writer)),
            Err(err) => {
                tracing::error!(error = %err, "no traces are stored: there is no thread for it");
                shared.set_state(State::Failing(err.to_string()));
                (None, None)
            }
        };
        let readers = Arc::new(Readers::new(place.clone()));
        Database { place, shared, queue, writer, readers }
    }

    /// Waits until the database is open or cannot be opened, and executions of dead processes are found.
    pub(super) async fn opened(&self) {
        let (told, opened) = oneshot::channel();
        if let Some(queue) = &self.queue
            && queue.try_send(Command::Open(told)).is_ok()
        {
            let _ = opened.await;
        }
    }

    pub(super) fn begin(&self, scope: &Scope, head: TraceHead) -> Receipt {
        let (ack, commit) = oneshot::channel();
        let is_taken = self.push(Command::Begin(scope.clone(), Box::new(head), ack));
        Receipt::new(is_taken.then_some(commit), Arc::clone(&self.shared))
    }

    pub(super) fn submit(&self, scope: &Scope, trace: Trace) -> Receipt {
        let id = trace.trace_id;
        let dropped = || {
            self.shared.note_dropped(id);
            Receipt::new(None, Arc::clone(&self.shared))
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
        if !has_room || !self.push(Command::Finish { scope: scope.clone(), trace: Box::new(trace), weight, ack }) {
            self.shared.queued_bytes.fetch_sub(weight, Ordering::Relaxed);
            self.shared.queued.fetch_sub(1, Ordering::Relaxed);
            return dropped();
        }
        Receipt::new(Some(commit), Arc::clone(&self.shared))
    }

    /// Puts a command into the queue, or counts that it is dropped.
    fn push(&self, command: Command) -> bool {
        let is_trace = matches!(command, Command::Finish { .. });
        let count = match self.queue.as_ref().map(|queue| queue.try_send(command)) {
            Some(Ok(())) => return true,
            Some(Err(TrySendError::Full(_))) => &self.shared.queue_full,
            Some(Err(TrySendError::Disconnected(_))) | None => &self.shared.refused,
        };
        // The head of an execution is only worth something without its trace.
        if is_trace {
            count.fetch_add(1, Ordering::Relaxed);
        }
        false
    }

    /// Encodes traces of others, and tells what became of each when all of them are committed.
    pub(super) fn ingest(
        &self,
        scope: &Scope,
        traces: Vec<Trace>,
    ) -> impl Future<Output = Result<Vec<Ingested>, StoreError>> + Send + use<> {
        let (mut rows, mut waiting) = (Vec::new(), Vec::new());
        let mut encoder = Encoder::new();
        for trace in traces {
            let row = match &mut encoder {
                Ok(encoder) => Row::new(scope, Origin::Elsewhere, trace, encoder).map_err(|err| err.to_string()),
                Err(err) => Err(err.to_string()),
            };
            waiting.push(match row {
                Ok(Some(row)) => {
                    let (ack, commit) = oneshot::channel();
                    rows.push((Box::new(row), ack));
                    Ok(commit)
                }
                Ok(None) => Err("it is too large".to_owned()),
                Err(why) => Err(why),
            });
        }
        let count = rows.len();
        let weight = rows.iter().map(|(row, _)| row.bytes()).sum::<usize>();
        let bytes = self.shared.queued_bytes.fetch_add(weight, Ordering::Relaxed);
        self.shared.queued.fetch_add(count, Ordering::Relaxed);
        let is_taken = count == 0
            || (bytes + weight <= MAX_QUEUED_BYTES
                && self.queue.as_ref().is_some_and(|queue| queue.try_send(Command::Rows(rows)).is_ok()));
        if !is_taken {
            self.shared.queued_bytes.fetch_sub(weight, Ordering::Relaxed);
            self.shared.queued.fetch_sub(count, Ordering::Relaxed);
        }
        let shared = Arc::clone(&self.shared);
        async move {
            if !is_taken {
                return Err(StoreError::Busy);
            }
            let mut outcomes = Vec::with_capacity(waiting.len());
            for commit in waiting {
                outcomes.push(match commit {
                    Ok(commit) => match commit.await {
                        Ok(commit) => Ingested::Committed(commit),
                        Err(_) if shared.state().is_well() => {
                            Ingested::Refused("the store does not take it".to_owned())
                        }
                        Err(_) => return Err(StoreError::Unavailable(shared.state())),
                    },
                    Err(why) => Ingested::Refused(why),
                });
            }
            Ok(outcomes)
        }
    }

    /// Asks for something of one scope. If there is nothing of it, nothing is found.
    pub(super) async fn read<T: Default + Send + 'static>(
        &self,
        scope: &Scope,
        query: impl FnOnce(View<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let scope = scope.clone();
        self.read_all(move |db| match View::of(db, &scope).map_err(StoreError::reading)? {
            Some(view) => query(view),
            None => Ok(T::default()),
        })
        .await
    }

    /// Asks for something of every scope.
    pub(super) async fn read_all<T: Default + Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        Arc::clone(&self.readers).read(query).await
    }

    /// Runs something in a transaction, perhaps several times: what the last run returns counts.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        scope: &Scope,
        mut change: impl FnMut(View<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let made = Arc::new(Mutex::new(None));
        let result = Arc::clone(&made);
        let run = Run::new(move |view| {
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(change(view)?);
            Ok(())
        });
        self.change(scope, Change::Run(run)).await?;
        let made = made.lock().unwrap_or_else(PoisonError::into_inner).take();
        made.ok_or_else(|| StoreError::Unavailable(self.shared.state()))
    }

    pub(super) async fn change(&self, scope: &Scope, change: Change) -> Result<u64, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Job { scope: scope.clone(), change, done: 0, reply: Some(reply) };
        let is_taken = self.queue.as_ref().is_some_and(|queue| queue.try_send(Command::Change(job)).is_ok());
        let gone = || StoreError::Unavailable(self.shared.state());
        match is_taken {
            true => answer.await.map_err(|_| gone())?,
            false => Err(gone()),
        }
    }

    /// The turn to send what is unsent, if no other process has it.
    pub(super) fn take_turn(&self) -> io::Result<Option<File>> {
        self.place.take_turn()
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
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            writer.thread().unpark();
            if writer.join().is_err() {
                tracing::error!("the trace store did not end as it should");
            }
        }
    }
}
