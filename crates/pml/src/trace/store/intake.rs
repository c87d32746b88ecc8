//! The way to the writer: a bounded queue, and an account of what is in it.
//!
//! **Invariant:** nothing here waits. What finds no place in the queue is counted and dropped.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    thread::JoinHandle,
};

use pml_wire::trace::Trace;
use tokio::sync::oneshot;

use super::{
    Answer, Health, Ingested, Options, Receipt, Scope, State, StoreError,
    body::{Encoder, MAX_BYTES},
    change::{Change, Job},
    engine::{Begun, Engine},
    health::Shared,
    journal::{self, Journal},
    place::Place,
    queue::{Queue, Refused},
    row::{self, Origin, Row, millis},
    writer::{Command, Writer},
};
use crate::trace::TraceHead;

/// Memory that traces may take while they wait.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// A queue, and the thread that empties it into a database. Dropping it writes what waits.
#[derive(Debug)]
pub(super) struct Intake {
    shared: Arc<Shared>,
    journal: Arc<Journal>,
    /// Takes nothing if no thread could be started.
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

/// The way to the writer for what is of one scope.
#[derive(Clone, Copy, Debug)]
pub struct WayIn<'a> {
    intake: &'a Intake,
    scope: &'a Scope,
}

impl<'a> WayIn<'a> {
    pub(super) fn begin(self, head: TraceHead) -> Receipt {
        self.intake.begin(self.scope, head)
    }

    pub(super) fn submit(self, trace: Trace) -> Receipt {
        self.intake.submit(self.scope, trace)
    }

    pub(super) fn ingest(
        self,
        traces: Vec<Trace>,
        delivered_by: Option<&str>,
    ) -> impl Future<Output = Result<Vec<Ingested>, StoreError>> + Send + use<> {
        self.intake.ingest(self.scope, traces, delivered_by)
    }

    pub(super) fn change(self, change: Change) -> Answer<'a, u64> {
        Box::pin(self.intake.change(self.scope, change))
    }
}

impl Intake {
    pub(super) fn of<'a>(&'a self, scope: &'a Scope) -> WayIn<'a> {
        WayIn { intake: self, scope }
    }

    /// Starts the thread, which opens the database: whatever is wrong with it is in its [`State`]. What the database does not
    /// have yet is in a journal at `place`, if there is one.
    pub(super) fn start<E: Engine>(
        options: &Options,
        place: Option<Place>,
        engine: impl FnOnce(Arc<Shared>) -> io::Result<E>,
    ) -> Intake {
        let shared = Arc::new(Shared::default());
        let journal = Arc::new(Journal::new(place));
        let queue = Arc::new(Queue::new(options.queue));
        let commands = Arc::clone(&queue);
        let started = engine(Arc::clone(&shared))
            .and_then(|engine| Writer::new(Box::new(engine), Arc::clone(&shared), Arc::clone(&journal)))
            .and_then(|writer| {
                std::thread::Builder::new().name("traces".to_owned()).spawn(move || writer.run(&commands))
            });
        let thread = started.inspect_err(|err| {
            tracing::error!(error = %err, "no traces are stored: there is no thread for it");
            shared.set_state(State::Failing(err.to_string()));
            queue.close();
        });
        Intake { shared, journal, queue, thread: thread.ok() }
    }

    /// Waits until the database is open or cannot be opened, and has what dead processes left, and what living ones have answered.
    pub(super) async fn opened(&self) {
        let (told, opened) = oneshot::channel();
        if self.hand_over(Command::Open(told)) {
            let _ = opened.await;
        }
        self.journal.others_filed().await;
    }

    pub(super) fn begin(&self, scope: &Scope, head: TraceHead) -> Receipt {
        let is_kept = self.journal.append(scope, journal::Entry::Head(&head));
        let (ack, commit) = oneshot::channel();
        let begun = Begun {
            scope: scope.clone(),
            id: head.trace_id,
            ts: millis(head.timestamp),
            json: serde_json::to_string(&head).unwrap_or_default(),
        };
        // The head of an execution is only worth something without its trace: it is not counted if it finds no place.
        let receipt = match self.queue.put(Command::Begin(begun, ack)) {
            Ok(()) => Receipt::queued(commit, Arc::clone(&self.shared), Arc::clone(&self.queue)),
            Err(_) => Receipt::dropped(Arc::clone(&self.shared)),
        };
        receipt.with_journal(is_kept)
    }

    pub(super) fn submit(&self, scope: &Scope, trace: Trace) -> Receipt {
        let id = trace.trace_id;
        let weight = row::weight(&trace);
        let bytes = self.shared.queued_bytes.fetch_add(weight, Ordering::Relaxed);
        self.shared.queued.fetch_add(1, Ordering::Relaxed);
        let (ack, commit) = oneshot::channel();
        let mut is_kept = false;
        let refusal = if weight > MAX_BYTES {
            Some(&self.shared.too_large)
        } else if bytes + weight > MAX_QUEUED_BYTES {
            Some(&self.shared.queue_full)
        } else {
            // First, since the writer may be done with the trace as soon as it is in the queue.
            is_kept = self.journal.append(scope, journal::Entry::Trace(&trace));
            let command = Command::Finish { scope: scope.clone(), trace: Box::new(trace), weight, ack };
            self.queue.put(command).err().map(|refused| match refused {
                Refused::Full => &self.shared.queue_full,
                Refused::Closed => &self.shared.refused,
            })
        };
        let Some(refusal) = refusal else {
            let receipt = Receipt::queued(commit, Arc::clone(&self.shared), Arc::clone(&self.queue));
            return receipt.with_journal(is_kept);
        };
        refusal.fetch_add(1, Ordering::Relaxed);
        self.shared.queued_bytes.fetch_sub(weight, Ordering::Relaxed);
        self.shared.queued.fetch_sub(1, Ordering::Relaxed);
        self.shared.note_dropped(id);
        Receipt::dropped(Arc::clone(&self.shared))
    }

    /// Puts a command into the queue and wakes the thread. False if there is no place for it.
    fn hand_over(&self, command: Command) -> bool {
        let is_taken = self.queue.put(command).is_ok();
        self.queue.ring();
        is_taken
    }

    /// Encodes traces of others, and tells what became of each when all of them are committed.
    pub(super) fn ingest(
        &self,
        scope: &Scope,
        traces: Vec<Trace>,
        delivered_by: Option<&str>,
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
                    let row = Row { delivered_by: delivered_by.map(str::to_owned), ..row };
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
        let is_taken = count == 0 || (bytes + weight <= MAX_QUEUED_BYTES && self.hand_over(Command::Rows(rows)));
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

    pub(super) async fn change(&self, scope: &Scope, change: Change) -> Result<u64, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Job { scope: scope.clone(), change, done: 0, reply: Some(reply) };
        let is_taken = self.hand_over(Command::Change(job));
        let gone = || match self.shared.state() {
            State::Ready => StoreError::Busy,
            state => StoreError::Unavailable(state),
        };
        match is_taken {
            true => answer.await.map_err(|_| gone())?,
            false => Err(gone()),
        }
    }

    pub(super) fn state(&self) -> State {
        self.shared.state()
    }

    /// How the store is that this leads to.
    pub(super) fn health(&self, place: String, set_aside: Vec<std::path::PathBuf>) -> Health {
        Health {
            state: self.shared.state(),
            place,
            queued: self.shared.queued.load(Ordering::Relaxed),
            counts: self.shared.counts(),
            set_aside,
        }
    }
}

impl Drop for Intake {
    /// Writes what waits. If the database cannot be written, that ends after a moment.
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the trace store did not end as it should");
            }
        }
    }
}
