//! What the writer does to a SQLite database.

use std::time::Duration;

use pml_wire::ExecutionId;
use rusqlite::TransactionBehavior;

use super::{
    Commit, Options, Scope, StoreError,
    body::Encoder,
    change::{self, Change, Progress},
    connection::{Checkpointer, Db, Trouble},
    engine::{Begun, Coping, Engine, Entry, What},
    owner::Owner,
    place::Place,
    row::Origin,
    schema, unfinished,
};
use crate::clock::now_millis;

/// How long the thread waits before it tries again what has failed, but for a lock.
const RETRY: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct SqliteEngine {
    place: Place,
    options: Options,
    encoder: Encoder,
    db: Option<Db>,
    checkpointer: Checkpointer,
    owner: Option<Owner>,
}

impl SqliteEngine {
    pub(super) fn new(place: Place, options: Options) -> std::io::Result<SqliteEngine> {
        Ok(SqliteEngine {
            checkpointer: Checkpointer::start(place.clone())?,
            place,
            options,
            encoder: Encoder::new()?,
            db: None,
            owner: None,
        })
    }

    /// Writes the batch in one transaction.
    fn try_write(&mut self, batch: &[Entry]) -> Result<Vec<Commit>, (Trouble, Option<usize>)> {
        let own = self.owner_id(batch);
        let db = open(&mut self.db, &self.place, &self.options).map_err(|trouble| (trouble, None))?;
        // Whoever has sent a trace deletes it when it is acknowledged.
        let is_from_elsewhere = |entry: &Entry| entry.trace().is_some_and(|row| row.origin == Origin::Elsewhere);
        let is_durable = self.options.survives_power_cuts || batch.iter().any(is_from_elsewhere);
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
        let mut commits = Vec::with_capacity(batch.len());
        for (index, entry) in batch.iter().enumerate() {
            let commit = match &entry.what {
                What::Trace(row) => row.insert(&transaction, &mut known, now),
                What::Head(Begun { scope, id, ts, json }) => known
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
        transaction.commit().map_err(|err| (Trouble::of(&err), None))?;
        // Numbers of tools are known only if they are committed.
        db.known = known;
        Ok(commits)
    }

    /// This process as an owner; 0, which is nobody and so dead, if it cannot be one.
    fn owner_id(&mut self, batch: &[Entry]) -> i64 {
        let has_heads = batch.iter().any(|entry| matches!(entry.what, What::Head(_)));
        if self.owner.is_none() && has_heads {
            match self.place.prepare().and_then(|()| Owner::new(|id| self.place.owner_path(id))) {
                Ok(owner) => self.owner = Some(owner),
                Err(err) => tracing::warn!(error = %err, "executions of this process may be shown as interrupted"),
            }
        }
        self.owner.as_ref().map_or(0, |owner| owner.id)
    }

    fn recover(&mut self, is_over: bool) -> rusqlite::Result<u64> {
        let own = self.owner.as_ref().map(|owner| owner.id);
        match &mut self.db {
            Some(db) => unfinished::recover(&mut db.connection, &self.place, &mut self.encoder, own, is_over),
            None => Ok(0),
        }
    }
}

impl Engine for SqliteEngine {
    fn open(&mut self) -> Result<(), Trouble> {
        open(&mut self.db, &self.place, &self.options).map(drop)
    }

    fn is_open(&self) -> bool {
        self.db.is_some()
    }

    fn write(&mut self, batch: &[Entry]) -> Result<Vec<Commit>, (Trouble, Option<usize>)> {
        let commits = self.try_write(batch)?;
        let bytes = |entry: &Entry| match &entry.what {
            What::Head(begun) => begun.json.len(),
            What::Trace(row) => row.bytes(),
        };
        self.checkpointer.written(batch.iter().map(bytes).sum());
        Ok(commits)
    }

    fn count(&mut self, more: &[(&'static str, u64)]) -> Result<(), Trouble> {
        let db = open(&mut self.db, &self.place, &self.options)?;
        let add = |(what, n): &(&str, u64)| {
            let sql = "INSERT INTO count (what, n) VALUES (?1, ?2) ON CONFLICT (what) DO UPDATE SET n = n + ?2";
            let n = i64::try_from(*n).unwrap_or(i64::MAX);
            db.connection.prepare_cached(sql)?.execute(rusqlite::params![what, n])
        };
        more.iter().try_for_each(|more| add(more).map(drop)).map_err(|err| Trouble::of(&err))
    }

    fn slice(&mut self, scope: &Scope, change: &mut Change) -> Result<(u64, Progress), (Trouble, StoreError)> {
        let db = open(&mut self.db, &self.place, &self.options)
            .map_err(|trouble| (trouble.clone(), StoreError::Unavailable(trouble.state())))?;
        let is_durable = self.options.survives_power_cuts || change.is_durable();
        let sliced = db
            .set_durable(is_durable)
            .and_then(|()| change.slice(scope, &mut db.connection, &self.options, now_millis()));
        db.known.clear();
        if let Ok((_, Progress::Done)) = sliced
            && change.leaves_nothing()
        {
            // Readers may be in the way; then the log is emptied by and by.
            let _ = change::empty_log(&db.connection);
        }
        self.checkpointer.log_grew_to(change::log_bytes(&self.place.path()));
        sliced.map_err(|err| match Trouble::of(&err) {
            Trouble::Refused(why) => (Trouble::Refused(why.clone()), StoreError::Refused(why)),
            trouble => (trouble, StoreError::writing(err)),
        })
    }

    fn recover(&mut self) -> Result<u64, Trouble> {
        self.recover(false).map_err(|err| Trouble::of(&err))
    }

    fn settle(&mut self, dropped: &[ExecutionId]) -> Result<(), Trouble> {
        let db = open(&mut self.db, &self.place, &self.options)?;
        unfinished::settle(&mut db.connection, &mut self.encoder, dropped).map_err(|err| Trouble::of(&err))
    }

    fn cope(&mut self, trouble: &Trouble) -> Coping {
        if let Trouble::Damaged(why) = trouble {
            let damaged = self.db.take().map_or_else(|| self.place.identity(), |db| db.identity);
            match self.place.set_aside(damaged) {
                Ok(Some(aside)) => {
                    tracing::error!(error = why, "the trace store is damaged; it is kept as `{}`", aside.display());
                    return Coping::Solved;
                }
                // Another process was faster.
                Ok(None) => return Coping::Solved,
                Err(err) => tracing::error!(error = %err, "the trace store is damaged and cannot be set aside"),
            }
        }
        // Whoever waits for a lock has waited already.
        if *trouble == Trouble::Busy {
            return Coping::Wait(Duration::ZERO);
        }
        self.db = None;
        Coping::Wait(RETRY)
    }

    fn close(&mut self) {
        if self.owner.is_some() && self.recover(true).is_err() {
            tracing::debug!("executions that have not ended are left to the next pml");
        }
        if let Some(db) = self.db.take() {
            db.close(&self.place);
        }
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
