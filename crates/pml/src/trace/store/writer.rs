//! What writes.
//!
//! Takes what waits in the queue, writes it in one transaction and tells whoever waits: one commit for a trace that comes
//! alone, one for hundreds under load. What cannot be written now stays and is tried again; the queue behind it fills up,
//! and then new traces are dropped and counted.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use pml_wire::{ExecutionId, trace::Trace};
use tokio::{sync::oneshot, time::Instant};

use super::{
    Commit, Counts, State, StoreError,
    body::Encoder,
    change::{CARE, Change, Job, Progress},
    connection::Trouble,
    engine::{Begun, Coping, Engine, Entry, What},
    health::Shared,
    journal::{Journal, Part},
    queue::Queue,
    row::{Origin, Row},
    scope::Scope,
};
use crate::trace::TraceHead;

/// What is written in one transaction.
const MAX_BATCH: usize = 256;
const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;
/// How often what was counted is written.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// How long a lock may hold up a change that somebody waits for.
const CHANGE_PATIENCE: Duration = Duration::from_secs(5);
/// How long the end of the process waits for a database that cannot be written.
pub(super) const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// Tells whoever waits for a commit.
pub(super) type Ack = oneshot::Sender<Commit>;

/// What the thread is asked to do.
#[derive(Debug)]
pub(super) enum Command {
    Begin(Begun, Ack),
    Finish {
        scope: Scope,
        trace: Box<Trace>,
        weight: usize,
        ack: Ack,
    },
    /// Traces that are encoded already.
    Rows(Vec<(Box<Row>, Ack)>),
    Change(Job),
    /// Tells when the database is open, or cannot be opened.
    Open(oneshot::Sender<()>),
}

impl Command {
    /// About how much memory it takes.
    fn weight(&self) -> usize {
        match self {
            Command::Finish { weight, .. } => *weight,
            Command::Rows(rows) => rows.iter().map(|(row, _)| row.bytes()).sum(),
            Command::Begin(..) => 1024,
            Command::Change(_) | Command::Open(_) => 0,
        }
    }
}

#[derive(Debug)]
pub(super) struct Writer {
    engine: Box<dyn Engine>,
    shared: Arc<Shared>,
    journal: Arc<Journal>,
    encoder: Encoder,
    batch: Vec<Entry>,
    /// Whoever waits for heads that need not be written, since their traces are in the batch.
    superseded: Vec<Ack>,
    jobs: VecDeque<Job>,
    waiting: Vec<oneshot::Sender<()>>,
    /// What the database says of these already, and since when.
    counted: Counts,
    counted_at: Instant,
    cared_at: Option<Instant>,
    stopping_since: Option<Instant>,
}

impl Writer {
    pub(super) fn new(engine: Box<dyn Engine>, shared: Arc<Shared>, journal: Arc<Journal>) -> std::io::Result<Writer> {
        Ok(Writer {
            engine,
            shared,
            journal,
            encoder: Encoder::new()?,
            batch: Vec::new(),
            superseded: Vec::new(),
            jobs: VecDeque::new(),
            waiting: Vec::new(),
            counted: Counts::default(),
            counted_at: Instant::now(),
            cared_at: None,
            stopping_since: None,
        })
    }

    /// Opens the database, and works until nobody can ask for anything any more and everything is written.
    pub(super) fn run(mut self, queue: &Queue) {
        let opened = self.engine.open();
        self.note(opened);
        loop {
            let time = self.idle_for();
            if !time.is_zero() && !queue.wait(time) {
                break;
            }
            self.work(queue);
        }
        self.close();
    }

    /// For how long there is nothing to do but what may come into the queue; zero if there is something.
    fn idle_for(&mut self) -> Duration {
        match self.batch.is_empty() && self.jobs.is_empty() {
            true => self.engine.tick().unwrap_or(CARE),
            false => Duration::ZERO,
        }
    }

    /// Takes what is in the queue and does it.
    fn work(&mut self, queue: &Queue) {
        self.take(queue);
        self.write();
        self.settle_dropped();
        self.advance();
        self.care();
        self.count(COUNT_EVERY);
    }

    fn take(&mut self, queue: &Queue) {
        let mut bytes = 0;
        while self.batch.len() < MAX_BATCH && bytes < MAX_BATCH_BYTES {
            let Some(command) = queue.take() else { return };
            bytes += command.weight();
            self.accept(command);
        }
        // The rest is taken when this is written.
        queue.ring();
    }

    fn accept(&mut self, command: Command) {
        match command {
            Command::Begin(begun, ack) => self.batch.push(Entry { what: What::Head(begun), ack }),
            Command::Finish { scope, trace, weight, ack } => {
                self.shared.queued.fetch_sub(1, Ordering::Relaxed);
                self.shared.queued_bytes.fetch_sub(weight, Ordering::Relaxed);
                let id = trace.trace_id;
                match Row::new(&scope, Origin::Own, *trace, &mut self.encoder) {
                    Ok(Some(row)) => {
                        self.supersede_head(id);
                        self.batch.push(Entry { what: What::Trace(Box::new(row)), ack });
                    }
                    Ok(None) => {
                        self.shared.too_large.fetch_add(1, Ordering::Relaxed);
                        self.shared.note_dropped(id);
                    }
                    Err(err) => {
                        self.shared.refused.fetch_add(1, Ordering::Relaxed);
                        self.shared.note_dropped(id);
                        tracing::warn!(error = %err, "a trace has no form to be stored in, and is dropped");
                    }
                }
            }
            Command::Rows(rows) => {
                self.shared.queued.fetch_sub(rows.len(), Ordering::Relaxed);
                let bytes = rows.iter().map(|(row, _)| row.bytes()).sum();
                self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
                self.batch.extend(rows.into_iter().map(|(row, ack)| Entry { what: What::Trace(row), ack }));
            }
            Command::Change(job) => self.jobs.push_back(job),
            Command::Open(told) => {
                self.waiting.push(told);
                let opened = self.engine.open();
                self.note(opened);
            }
        }
    }

    /// Takes the head of an execution out of the batch: its trace says it all.
    fn supersede_head(&mut self, id: ExecutionId) {
        if let Some(index) = self.batch.iter().position(|entry| entry.part() == (id, Part::Head)) {
            self.superseded.push(self.batch.remove(index).ack);
        }
    }

    /// Writes the batch. Comes back when it is written or given up.
    fn write(&mut self) {
        while !self.batch.is_empty() {
            match self.engine.write(&self.batch) {
                Ok(commits) => self.written(&commits),
                Err((Trouble::Refused(why), Some(index))) => {
                    // The others of the batch are written without it.
                    if let What::Trace(row) = self.batch.remove(index).what {
                        self.shared.note_dropped(row.id);
                    }
                    self.shared.refused.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(error = why, "a trace is refused by the trace store, and dropped");
                }
                Err((trouble, _)) => self.cope(trouble),
            }
            if self.is_hopeless() {
                self.give_up();
            }
        }
    }

    /// Tells everybody whose entry of the batch is written.
    fn written(&mut self, commits: &[Commit]) {
        let mut parts = Vec::with_capacity(self.batch.len());
        for ack in self.superseded.drain(..) {
            let _ = ack.send(Commit::Stored);
        }
        for (entry, commit) in self.batch.drain(..).zip(commits) {
            parts.push(entry.part());
            if let What::Trace(_) = entry.what {
                let count = match commit {
                    Commit::Stored => &self.shared.stored,
                    Commit::Duplicate => &self.shared.duplicates,
                    Commit::Conflict => &self.shared.conflicts,
                    Commit::Endless => &self.shared.refused,
                };
                count.fetch_add(1, Ordering::Relaxed);
            }
            let _ = entry.ack.send(*commit);
        }
        self.journal.settle(parts.into_iter());
        self.note(Ok(()));
    }

    /// Says how the store is, and once to the log if that has changed.
    fn note(&self, opened: Result<(), Trouble>) {
        let state = opened.map_or_else(|trouble| trouble.state(), |()| State::Ready);
        let was_opening = self.shared.state() == State::Opening;
        if self.shared.set_state(state.clone()) {
            match state {
                State::Ready if was_opening => {}
                State::Ready => tracing::info!("traces are stored again"),
                state => tracing::warn!(hint = state.hint(), "{state}"),
            }
        }
    }

    /// Does what can be done about trouble, and waits where only time helps.
    fn cope(&mut self, trouble: Trouble) {
        let Coping::Wait(time) = self.engine.cope(&trouble) else { return };
        self.note(Err(trouble.clone()));
        match trouble {
            Trouble::Newer(_) => {
                self.journal.settle(self.batch.iter().map(Entry::part));
                self.give_up();
            }
            // Ended early when the store is closed.
            _ if !time.is_zero() => std::thread::park_timeout(time),
            _ => {}
        }
    }

    /// Drops the batch. What is in the journal is left to the next process.
    fn give_up(&mut self) {
        let is_lost = |entry: &&Entry| entry.trace().is_some_and(|row| !self.journal.has_trace(row.id));
        let lost = self.batch.iter().filter(is_lost).count() as u64;
        self.shared.refused.fetch_add(lost, Ordering::Relaxed);
        self.batch.clear();
        self.superseded.clear();
    }

    /// Is the process ending while the database cannot be written?
    fn is_hopeless(&mut self) -> bool {
        if !self.shared.is_stopping.load(Ordering::Relaxed) || self.shared.state().is_well() {
            return false;
        }
        let since = *self.stopping_since.get_or_insert_with(Instant::now);
        since.elapsed() > STOP_PATIENCE
    }

    /// Makes a slice of the first change that waits.
    fn advance(&mut self) {
        let Some(mut job) = self.jobs.pop_front() else { return };
        if job.reply.is_none() && self.shared.is_stopping.load(Ordering::Relaxed) {
            return; // nobody waits for it, and the next process does it
        }
        if job.done == 0 && job.reply.as_ref().is_some_and(oneshot::Sender::is_closed) {
            return; // whoever wanted it was told that it is not done
        }
        let begun = Instant::now();
        loop {
            let sliced = self.engine.slice(&job.scope, &mut job.change);
            let error = match sliced {
                Ok((changed, progress)) => {
                    job.done += changed;
                    self.note(Ok(()));
                    match (progress, job.reply.take()) {
                        (Progress::More, reply) => {
                            job.reply = reply;
                            self.jobs.push_front(job);
                        }
                        (Progress::Done, Some(reply)) => drop(reply.send(Ok(job.done))),
                        (Progress::Done, None) => {}
                    }
                    return;
                }
                Err((Trouble::Busy, _)) if begun.elapsed() < CHANGE_PATIENCE && !self.is_hopeless() => {
                    self.note(Err(Trouble::Busy));
                    continue;
                }
                // The database is well: this concerns nobody but whoever wants the change.
                Err((Trouble::Refused(why), error)) => {
                    tracing::warn!(error = why, "a change is refused by the trace store");
                    self.note(Ok(()));
                    error
                }
                Err((trouble, error)) => {
                    self.cope(trouble);
                    error
                }
            };
            if let Some(reply) = job.reply.take() {
                let _ = reply.send(Err(error));
            }
            return;
        }
    }

    /// From time to time: finds executions of processes that have died, and begins to delete what is too old or too much.
    fn care(&mut self) {
        let is_due = self.cared_at.is_none_or(|at| at.elapsed() >= CARE);
        if is_due && self.engine.is_open() {
            self.cared_at = Some(Instant::now());
            match self.engine.recover().and_then(|found| Ok(found + self.adopt()?)) {
                Ok(0) => {}
                Ok(count) => tracing::warn!(count, "executions of a pml that ended early are stored as interrupted"),
                // Tried again next time.
                Err(trouble) => tracing::debug!(?trouble, "interrupted executions are not looked for"),
            }
            let has_one = self.jobs.iter().any(|job| matches!(job.change, Change::Retain));
            // Whoever only reads deletes nothing.
            if !has_one && self.shared.stored.load(Ordering::Relaxed) > 0 {
                self.jobs.push_back(Job { scope: Scope::local(), change: Change::Retain, done: 0, reply: None });
            }
        }
        for told in self.waiting.drain(..) {
            let _ = told.send(());
        }
    }

    fn settle_dropped(&mut self) {
        let dropped = self.shared.take_dropped();
        if dropped.is_empty() {
            return;
        }
        let unstored = self.journal.heads(&dropped);
        let is_settled = self.engine.is_open()
            && self.engine.settle(&dropped).is_ok()
            && self.conclude(unstored, TraceHead::without_trace).is_ok();
        match is_settled {
            true => self.journal.settle(dropped.into_iter().map(|id| (id, Part::Trace))),
            // The next time; until then they are shown as running.
            false => dropped.into_iter().for_each(|id| self.shared.note_dropped(id)),
        }
    }

    /// Stores what processes that have died left in their journals: their traces, and interrupted ones of executions that had not
    /// ended. How many of these.
    fn adopt(&mut self) -> Result<u64, Trouble> {
        let mut found = 0;
        for mut journal in self.journal.dead() {
            self.store_all(std::mem::take(&mut journal.traces))?;
            found += self.conclude(std::mem::take(&mut journal.heads), TraceHead::interrupted)?;
            journal.forget();
        }
        Ok(found)
    }

    /// Makes a trace of what is known of each of these executions, unless it has one. How many were made.
    fn conclude(&mut self, heads: Vec<(Scope, TraceHead)>, to_trace: fn(TraceHead) -> Trace) -> Result<u64, Trouble> {
        self.store_all(heads.into_iter().map(|(scope, head)| (scope, to_trace(head))))
    }

    /// Stores traces that nobody waits for. How many were new.
    fn store_all(&mut self, traces: impl IntoIterator<Item = (Scope, Trace)>) -> Result<u64, Trouble> {
        let mut rows = traces.into_iter().filter_map(|(scope, trace)| {
            let (ack, _) = oneshot::channel();
            let row = Row::new(&scope, Origin::Own, trace, &mut self.encoder).ok().flatten()?;
            Some(Entry { what: What::Trace(Box::new(row)), ack })
        });
        let mut made = 0;
        loop {
            let mut batch: Vec<_> = rows.by_ref().take(MAX_BATCH).collect();
            if batch.is_empty() {
                return Ok(made);
            }
            made += loop {
                match self.engine.write(&batch) {
                    Ok(commits) => break commits.iter().filter(|commit| **commit == Commit::Stored).count() as u64,
                    Err((Trouble::Refused(why), Some(index))) => {
                        tracing::warn!(error = why, "a trace of a pml that ended early is refused by the trace store");
                        batch.remove(index);
                    }
                    Err((trouble, _)) => return Err(trouble),
                }
            };
        }
    }

    /// Adds to the database what was counted since it last was, unless that was a moment ago.
    fn count(&mut self, every: Duration) {
        let counts = self.shared.counts();
        if counts == self.counted || !self.engine.is_open() || self.counted_at.elapsed() < every {
            return;
        }
        self.counted_at = Instant::now();
        match self.engine.count(&counts.since(&self.counted)) {
            Ok(()) => self.counted = counts,
            Err(trouble) => tracing::debug!(?trouble, "what was counted is not stored"),
        }
    }

    pub(super) fn close(&mut self) {
        for job in self.jobs.drain(..) {
            if let Some(reply) = job.reply {
                let _ = reply.send(Err(StoreError::Unavailable(State::Closed)));
            }
        }
        self.count(Duration::ZERO);
        self.engine.close();
        self.shared.set_state(State::Closed);
    }
}
