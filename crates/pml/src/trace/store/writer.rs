//! The thread that writes.
//!
//! Takes what waits in the queue, writes it in one transaction and tells whoever waits: one commit for a trace that comes
//! alone, one for hundreds under load. What cannot be written now stays and is tried again; the queue behind it fills up,
//! and then new traces are dropped and counted.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

use pml_wire::{ExecutionId, trace::Trace};
use rusqlite::TransactionBehavior;
use tokio::{sync::oneshot, time::Instant};

use super::{
    Commit, Counts, Options, State, StoreError,
    body::Encoder,
    change::{self, CARE, Change, Job, Progress},
    connection::{Checkpointer, Db, Trouble},
    health::Shared,
    owner::Owner,
    place::Place,
    row::{Origin, Row, millis},
    schema,
    scope::Scope,
    unfinished,
};
use crate::{clock::now_millis, trace::TraceHead};

/// What is written in one transaction.
const MAX_BATCH: usize = 256;
const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;
/// How long the thread waits before it tries again what has failed, but for a lock.
const RETRY: Duration = Duration::from_millis(500);
/// How long a lock may hold up a change that somebody waits for.
const CHANGE_PATIENCE: Duration = Duration::from_secs(5);
/// How long the end of the process waits for a database that cannot be written.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// Tells whoever waits for a commit.
pub(super) type Ack = oneshot::Sender<Commit>;

/// What the thread is asked to do.
#[derive(Debug)]
pub(super) enum Command {
    Begin(Scope, Box<TraceHead>, Ack),
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

/// Something to write.
#[derive(Debug)]
struct Entry {
    what: What,
    ack: Ack,
}

#[derive(Debug)]
enum What {
    Head { scope: Scope, id: ExecutionId, ts: i64, json: String },
    Trace(Box<Row>),
}

#[derive(Debug)]
pub(super) struct Writer {
    place: Place,
    options: Options,
    shared: Arc<Shared>,
    commands: Receiver<Command>,
    encoder: Encoder,
    db: Option<Db>,
    checkpointer: Checkpointer,
    owner: Option<Owner>,
    batch: Vec<Entry>,
    jobs: VecDeque<Job>,
    waiting: Vec<oneshot::Sender<()>>,
    /// What the database says of these already.
    counted: Counts,
    cared_at: Option<Instant>,
    stopping_since: Option<Instant>,
}

impl Writer {
    pub(super) fn new(
        place: Place,
        options: Options,
        shared: Arc<Shared>,
        commands: Receiver<Command>,
    ) -> std::io::Result<Writer> {
        Ok(Writer {
            checkpointer: Checkpointer::start(place.clone())?,
            place,
            options,
            shared,
            commands,
            encoder: Encoder::new()?,
            db: None,
            owner: None,
            batch: Vec::new(),
            jobs: VecDeque::new(),
            waiting: Vec::new(),
            counted: Counts::default(),
            cared_at: None,
            stopping_since: None,
        })
    }

    /// Works until nobody can ask for anything any more and everything is written.
    pub(super) fn run(mut self) {
        let opened = self.open().map(drop);
        self.note(opened);
        while self.take() {
            self.write();
            self.settle_dropped();
            self.advance();
            self.care();
        }
        self.close();
    }

    /// Waits for something to do, and takes what there is. `false` at the end.
    fn take(&mut self) -> bool {
        if self.batch.is_empty() && self.jobs.is_empty() {
            match self.commands.recv_timeout(CARE) {
                Ok(command) => self.accept(command),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        let mut bytes = 0;
        while self.batch.len() < MAX_BATCH && bytes < MAX_BATCH_BYTES {
            let Ok(command) = self.commands.try_recv() else { break };
            bytes += match &command {
                Command::Finish { weight, .. } => *weight,
                Command::Rows(rows) => rows.iter().map(|(row, _)| row.bytes()).sum(),
                Command::Begin(..) | Command::Change(_) | Command::Open(_) => 0,
            };
            self.accept(command);
        }
        true
    }

    fn accept(&mut self, command: Command) {
        match command {
            Command::Begin(scope, head, ack) => {
                let what = What::Head {
                    scope,
                    id: head.trace_id,
                    ts: millis(head.timestamp),
                    json: serde_json::to_string(&head).unwrap_or_default(),
                };
                self.batch.push(Entry { what, ack });
            }
            Command::Finish { scope, trace, weight, ack } => {
                self.shared.queued.fetch_sub(1, Ordering::Relaxed);
                self.shared.queued_bytes.fetch_sub(weight, Ordering::Relaxed);
                let id = trace.trace_id;
                match Row::new(&scope, Origin::Own, *trace, &mut self.encoder) {
                    Ok(Some(row)) => self.batch.push(Entry { what: What::Trace(Box::new(row)), ack }),
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
                let opened = self.open().map(drop);
                self.note(opened);
            }
        }
    }

    /// Writes the batch. Comes back when it is written or given up.
    fn write(&mut self) {
        while !self.batch.is_empty() {
            match self.try_write() {
                Ok(commits) => {
                    let bytes = self.batch.iter().map(|entry| entry.what.bytes()).sum();
                    for (entry, commit) in self.batch.drain(..).zip(commits) {
                        if let What::Trace(_) = entry.what {
                            let count = match commit {
                                Commit::Stored => &self.shared.stored,
                                Commit::Duplicate => &self.shared.duplicates,
                                Commit::Conflict => &self.shared.conflicts,
                            };
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        let _ = entry.ack.send(commit);
                    }
                    self.note(Ok(()));
                    self.checkpointer.written(bytes);
                }
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

    /// Writes the batch in one transaction. An error comes with the entry that it is about, if it is about one.
    fn try_write(&mut self) -> Result<Vec<Commit>, (Trouble, Option<usize>)> {
        let own = self.owner_id();
        let db = open(&mut self.db, &self.place, &self.options).map_err(|trouble| (trouble, None))?;
        // Whoever has sent a trace deletes it when it is acknowledged.
        let is_durable =
            self.options.survives_power_cuts || self.batch.iter().any(|entry| entry.what.is_from_elsewhere());
        db.set_durable(is_durable).map_err(|err| (Trouble::of(&err), None))?;
        let mut known = std::mem::take(&mut db.known);
        let transaction = db
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|err| (Trouble::of(&err), None))?;
        let version = Db::version(&transaction).map_err(|err| (Trouble::of(&err), None))?;
        if version.1 > schema::VERSION {
            return Err((Trouble::Newer(version.1), None));
        }
        if db.version != Some(version) {
            // Another process may have forgotten a tool, and given its number to another.
            known.clear();
            db.version = Some(version);
        }
        let now = now_millis();
        let mut commits = Vec::with_capacity(self.batch.len());
        for (index, entry) in self.batch.iter().enumerate() {
            let commit = match &entry.what {
                What::Trace(row) => row.insert(&transaction, &mut known, now),
                What::Head { scope, id, ts, json } => known
                    .tenant(&transaction, scope)
                    .and_then(|tenant| {
                        let sql =
                            "INSERT OR REPLACE INTO running (id, owner, ts, head, tenant) VALUES (?1, ?2, ?3, ?4, ?5)";
                        let mut statement = transaction.prepare_cached(sql)?;
                        statement.execute(rusqlite::params![id.as_bytes(), own, ts, json, tenant])
                    })
                    .map(|_| Commit::Stored),
            };
            commits.push(commit.map_err(|err| (Trouble::of(&err), Some(index)))?);
        }
        let counts = self.shared.counts();
        write_counts(&transaction, &self.counted, &counts).map_err(|err| (Trouble::of(&err), None))?;
        transaction.commit().map_err(|err| (Trouble::of(&err), None))?;
        // Numbers of tools are known only if they are committed.
        db.known = known;
        self.counted = counts;
        Ok(commits)
    }

    /// This process as an owner; 0, which is nobody and so dead, if it cannot be one.
    fn owner_id(&mut self) -> i64 {
        let has_heads = self.batch.iter().any(|entry| matches!(entry.what, What::Head { .. }));
        if self.owner.is_none() && has_heads {
            match self.place.prepare().and_then(|()| Owner::new(&self.place)) {
                Ok(owner) => self.owner = Some(owner),
                Err(err) => tracing::warn!(error = %err, "executions of this process may be shown as interrupted"),
            }
        }
        self.owner.as_ref().map_or(0, |owner| owner.id)
    }

    fn open(&mut self) -> Result<&mut Db, Trouble> {
        open(&mut self.db, &self.place, &self.options)
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
        if let Trouble::Damaged(why) = &trouble {
            let damaged = self.db.take().map_or_else(|| self.place.identity(), |db| db.identity);
            match self.place.set_aside(damaged) {
                Ok(Some(aside)) => {
                    tracing::error!(error = why, "the trace store is damaged; it is kept as `{}`", aside.display());
                    return;
                }
                // Another process was faster.
                Ok(None) => return,
                Err(err) => tracing::error!(error = %err, "the trace store is damaged and cannot be set aside"),
            }
        }
        self.note(Err(trouble.clone()));
        match trouble {
            Trouble::Busy => {}
            Trouble::Newer(_) => {
                self.db = None;
                self.give_up();
            }
            _ => {
                self.db = None;
                // Ended early when the store is closed.
                std::thread::park_timeout(RETRY);
            }
        }
    }

    /// Drops the batch.
    fn give_up(&mut self) {
        self.shared.refused.fetch_add(self.batch.len() as u64, Ordering::Relaxed);
        self.batch.clear();
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
        let begun = Instant::now();
        loop {
            let options = self.options.clone();
            let path = self.place.path();
            let sliced = match self.open() {
                Ok(db) => {
                    let is_durable = options.survives_power_cuts || job.change.is_durable();
                    let sliced = db
                        .set_durable(is_durable)
                        .and_then(|()| job.change.slice(&job.scope, &mut db.connection, &options, now_millis()));
                    db.known.clear();
                    if let Ok((_, Progress::Done)) = sliced
                        && job.change.leaves_nothing()
                    {
                        // Readers may be in the way; then the log is emptied by and by.
                        let _ = change::empty_log(&db.connection);
                    }
                    sliced.map_err(|err| (Trouble::of(&err), StoreError::writing(err)))
                }
                Err(trouble) => Err((trouble.clone(), StoreError::Unavailable(trouble.state()))),
            };
            let error = match sliced {
                Ok((changed, progress)) => {
                    job.done += changed;
                    self.note(Ok(()));
                    self.checkpointer.log_grew_to(change::log_bytes(&path));
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
        if is_due && self.db.is_some() {
            self.cared_at = Some(Instant::now());
            match self.recover(false) {
                Ok(0) => {}
                Ok(count) => tracing::warn!(count, "executions of a pml that ended early are stored as interrupted"),
                // Tried again next time.
                Err(err) => tracing::debug!(error = %err, "interrupted executions are not looked for"),
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

    fn recover(&mut self, is_over: bool) -> rusqlite::Result<u64> {
        let own = self.owner.as_ref().map(|owner| owner.id);
        match &mut self.db {
            Some(db) => unfinished::recover(&mut db.connection, &self.place, &mut self.encoder, own, is_over),
            None => Ok(0),
        }
    }

    fn settle_dropped(&mut self) {
        let dropped = self.shared.take_dropped();
        let (Some(db), false) = (&mut self.db, dropped.is_empty()) else { return };
        if unfinished::settle(&mut db.connection, &mut self.encoder, &dropped).is_err() {
            // The next time; until then they are shown as running.
            dropped.into_iter().for_each(|id| self.shared.note_dropped(id));
        }
    }

    fn close(mut self) {
        for job in self.jobs.drain(..) {
            if let Some(reply) = job.reply {
                let _ = reply.send(Err(StoreError::Unavailable(State::Closed)));
            }
        }
        if self.owner.is_some() && self.recover(true).is_err() {
            tracing::debug!("executions that have not ended are left to the next pml");
        }
        let counts = self.shared.counts();
        if let Some(db) = &self.db
            && write_counts(&db.connection, &self.counted, &counts).is_err()
        {
            tracing::debug!("what was counted is not stored");
        }
        if let Some(db) = self.db.take() {
            db.close(&self.place);
        }
        self.shared.set_state(State::Closed);
    }
}

/// The database, opened if it is not, or if another has come in its place.
fn open<'a>(db: &'a mut Option<Db>, place: &Place, options: &Options) -> Result<&'a mut Db, Trouble> {
    if db.as_ref().is_some_and(|db| db.identity != place.identity()) {
        *db = None;
    }
    let open = match db.take() {
        Some(open) => open,
        None => Db::open(place, options)?,
    };
    Ok(db.insert(open))
}

impl What {
    fn is_from_elsewhere(&self) -> bool {
        matches!(self, What::Trace(row) if row.origin == Origin::Elsewhere)
    }

    fn bytes(&self) -> usize {
        match self {
            What::Head { json, .. } => json.len(),
            What::Trace(row) => row.bytes(),
        }
    }
}

/// Adds to the database what was counted since it last was.
fn write_counts(db: &rusqlite::Connection, before: &Counts, now: &Counts) -> rusqlite::Result<()> {
    let counts = [
        ("late", now.late - before.late),
        ("dropped_queue_full", now.queue_full - before.queue_full),
        ("dropped_too_large", now.too_large - before.too_large),
        ("dropped_refused", now.refused - before.refused),
        ("conflicts", now.conflicts - before.conflicts),
    ];
    for (what, more) in counts.into_iter().filter(|(_, more)| *more > 0) {
        db.prepare_cached("INSERT INTO count (what, n) VALUES (?1, ?2) ON CONFLICT (what) DO UPDATE SET n = n + ?2")?
            .execute(rusqlite::params![what, i64::try_from(more).unwrap_or(i64::MAX)])?;
    }
    Ok(())
}
