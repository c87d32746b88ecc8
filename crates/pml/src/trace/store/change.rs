//! Changes of what is stored of one scope, a slice at a time.
//!
//! A slice is one transaction of a few milliseconds, so traces that come meanwhile wait no longer than that.

use std::{fmt, path::Path, time::Duration};

use pml_wire::{ExecutionId, trace::Timestamp};
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::{
    Deletion, Options, Scope, StoreError,
    query::{self, View},
    row::{self, millis, tenant_number},
};

/// Traces that are deleted in one transaction.
const SLICE: i64 = 100;
/// Rows that are changed in one transaction.
pub(super) const CHUNK: usize = 500;
/// Pages that are given back to the system in one transaction.
const PAGES: u32 = 256;

/// What to change.
#[derive(Debug)]
pub(super) enum Change {
    Delete(Deletion),
    Retain,
    Acknowledge(Vec<ExecutionId>),
    NoteFailure(Vec<ExecutionId>, String),
    Bury(Vec<ExecutionId>, String),
    Requeue,
    /// From a number on: whatever is acknowledged again meanwhile stays so.
    Resend {
        since: Timestamp,
        after: i64,
    },
    TrimOutbox {
        max_bytes: u64,
    },
    SetPriorities(Vec<(ExecutionId, f64)>),
    Run(Run),
}

/// A change of another module's making. May run several times, each in a transaction of its own, of which the last is
/// committed.
pub(super) struct Run(Box<Running>);

type Running = dyn FnMut(View<'_>) -> rusqlite::Result<()> + Send;

impl Run {
    pub(super) fn new(run: impl FnMut(View<'_>) -> rusqlite::Result<()> + Send + 'static) -> Run {
        Run(Box::new(run))
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Run")
    }
}

/// A change that is being made.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) scope: Scope,
    pub(super) change: Change,
    /// Rows that were changed so far.
    pub(super) done: u64,
    pub(super) reply: Option<oneshot::Sender<Result<u64, StoreError>>>,
}

/// Is a change made?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Done,
    More,
}

impl Change {
    /// Makes a slice of the change, and says how many rows it has changed. A slice that fails can be tried again.
    pub(super) fn slice(
        &mut self,
        scope: &Scope,
        db: &mut Connection,
        options: &Options,
        now: u64,
    ) -> rusqlite::Result<(u64, Progress)> {
        let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let view = View { db: &transaction, tenant: tenant_number(&transaction, scope)? };
        let mut reached = None;
        let answer = match self {
            Change::Delete(what) => delete(view, what)?,
            Change::Retain => retain(&transaction, options, now)?,
            Change::Acknowledge(ids) => {
                let sql = "UPDATE trace SET outbox = 1, outbox_reason = NULL
                     WHERE tenant = ?3 AND id = ?1 AND ?2 NOTNULL AND outbox <> 1";
                each(view, sql, ids, "")?
            }
            Change::NoteFailure(ids, reason) => {
                let sql = "UPDATE trace SET attempts = attempts + 1, outbox_reason = ?2
                           WHERE tenant = ?3 AND id = ?1 AND outbox = 0";
                each(view, sql, ids, reason)?
            }
            Change::Bury(ids, reason) => {
                let sql = "UPDATE trace SET outbox = 2, attempts = attempts + 1, outbox_reason = ?2
                           WHERE tenant = ?3 AND id = ?1 AND outbox <> 1";
                each(view, sql, ids, reason)?
            }
            Change::Requeue => {
                let sql = "UPDATE trace SET outbox = 0, attempts = 0, outbox_reason = NULL WHERE seq IN
                           (SELECT seq FROM trace WHERE tenant = ?1 AND outbox = 2 LIMIT ?2)";
                let changed = transaction.execute(sql, (view.tenant, CHUNK as i64))?;
                (changed as u64, if changed < CHUNK { Progress::Done } else { Progress::More })
            }
            Change::TrimOutbox { max_bytes } => trim(view, *max_bytes)?,
            Change::Resend { since, after } => {
                let sql = "UPDATE trace SET outbox = 0, attempts = 0, outbox_reason = NULL WHERE seq IN
                           (SELECT seq FROM trace WHERE tenant = ?1 AND outbox = 1 AND ts >= ?2 AND seq > ?3
                            ORDER BY seq LIMIT ?4) RETURNING seq";
                let mut statement = transaction.prepare_cached(sql)?;
                let since = (view.tenant, millis(*since), *after, CHUNK as i64);
                let seqs = statement.query_map(since, |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
                reached = seqs.iter().copied().max();
                (seqs.len() as u64, if seqs.len() < CHUNK { Progress::Done } else { Progress::More })
            }
            Change::Run(run) => {
                (run.0)(view)?;
                (1, Progress::Done)
            }
            Change::SetPriorities(priorities) => {
                let rest = priorities.len().saturating_sub(CHUNK);
                let mut changed = 0;
                for (id, priority) in &priorities[rest..] {
                    let priority = if priority.is_finite() { priority.clamp(0.0, 1.0) } else { 0.5 };
                    let sql = "UPDATE trace SET priority = ?2 WHERE tenant = ?3 AND id = ?1";
                    changed +=
                        transaction.prepare_cached(sql)?.execute(params![id.as_bytes(), priority, view.tenant])?;
                }
                (changed as u64, if rest == 0 { Progress::Done } else { Progress::More })
            }
        };
        transaction.commit()?;
        // Only what is committed is left out of the next slice.
        match self {
            Change::Acknowledge(ids) | Change::NoteFailure(ids, _) | Change::Bury(ids, _) => {
                ids.truncate(ids.len().saturating_sub(CHUNK));
            }
            Change::SetPriorities(priorities) => priorities.truncate(priorities.len().saturating_sub(CHUNK)),
            Change::Resend { after, .. } => *after = reached.unwrap_or(*after),
            Change::Delete(_) | Change::Retain | Change::Requeue | Change::TrimOutbox { .. } | Change::Run(_) => {}
        }
        Ok(answer)
    }

    /// Must it be on the disk when it is told?
    pub(super) fn is_durable(&self) -> bool {
        matches!(self, Change::Run(_))
    }

    /// Must what was deleted be gone from the files as well when the change is made?
    pub(super) fn leaves_nothing(&self) -> bool {
        matches!(self, Change::Delete(_))
    }
}

/// Executes a statement for the last ids of a list.
fn each(view: View<'_>, sql: &str, ids: &[ExecutionId], reason: &str) -> rusqlite::Result<(u64, Progress)> {
    let rest = ids.len().saturating_sub(CHUNK);
    let reason: String = reason.chars().take(500).collect();
    let mut changed = 0;
    for id in &ids[rest..] {
        changed += view.db.prepare_cached(sql)?.execute(params![id.as_bytes(), reason, view.tenant])?;
    }
    Ok((changed as u64, if rest == 0 { Progress::Done } else { Progress::More }))
}

/// Gives up a slice of what waits to be sent, while that is too large.
fn trim(view: View<'_>, max_bytes: u64) -> rusqlite::Result<(u64, Progress)> {
    let View { db, tenant } = view;
    let sql = "SELECT coalesce(sum(size), 0) FROM trace WHERE tenant = ?1 AND outbox = 0";
    let bytes: i64 = db.prepare_cached(sql)?.query_row([tenant], |row| row.get(0))?;
    let mut excess = bytes - i64::try_from(max_bytes).unwrap_or(i64::MAX);
    if excess <= 0 {
        return Ok((0, Progress::Done));
    }
    // What went wrong is worth most.
    let sql = "SELECT seq, size FROM trace WHERE tenant = ?1 AND outbox = 0 ORDER BY success DESC, ts, seq LIMIT ?2";
    let oldest: Vec<(i64, i64)> = db
        .prepare_cached(sql)?
        .query_map((tenant, CHUNK as i64), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut given_up = 0;
    for (seq, size) in oldest {
        if excess <= 0 {
            break;
        }
        let sql = "UPDATE trace SET outbox = ?2, outbox_reason = 'too much waited to be sent' WHERE seq = ?1";
        db.prepare_cached(sql)?.execute((seq, query::GIVEN_UP))?;
        excess -= size;
        given_up += 1;
    }
    Ok((given_up, if excess > 0 && given_up > 0 { Progress::More } else { Progress::Done }))
}

fn delete(view: View<'_>, what: &Deletion) -> rusqlite::Result<(u64, Progress)> {
    let View { db, tenant } = view;
    let select = |sql: &str, params: &[&dyn rusqlite::ToSql]| -> rusqlite::Result<Vec<i64>> {
        db.prepare_cached(sql)?.query_map(params, |row| row.get(0))?.collect()
    };
    let seqs = match what {
        Deletion::One(id) => select("SELECT seq FROM trace WHERE tenant = ?1 AND id = ?2", &[&tenant, id.as_bytes()])?,
        Deletion::Before(moment) => {
            let sql = "SELECT seq FROM trace WHERE tenant = ?1 AND ts < ?2 ORDER BY ts LIMIT ?3";
            select(sql, &[&tenant, &millis(*moment), &SLICE])?
        }
        Deletion::All => select("SELECT seq FROM trace WHERE tenant = ?1 ORDER BY ts LIMIT ?2", &[&tenant, &SLICE])?,
    };
    row::delete(db, &seqs)?;
    let is_over = matches!(what, Deletion::One(_)) || (seqs.len() as i64) < SLICE;
    if is_over {
        forget_tools(db)?;
        give_back(db)?;
    }
    Ok((seqs.len() as u64, if is_over { Progress::Done } else { Progress::More }))
}

/// Deletes a slice of what was stored first, of every scope, while that is too old or the database too large.
fn retain(db: &Connection, options: &Options, now: u64) -> rusqlite::Result<(u64, Progress)> {
    let oldest = now.saturating_sub(u64::try_from(options.keep.as_millis()).unwrap_or(u64::MAX));
    let is_too_large = query::used_bytes(db)? > options.max_bytes;
    let rows: Vec<(i64, i64)> = db
        .prepare_cached("SELECT seq, stored_at FROM trace ORDER BY seq LIMIT ?1")?
        .query_map([SLICE], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let oldest = i64::try_from(oldest).unwrap_or(i64::MAX);
    let seqs: Vec<i64> =
        rows.iter().take_while(|(_, stored_at)| is_too_large || *stored_at < oldest).map(|(seq, _)| *seq).collect();
    row::delete(db, &seqs)?;
    if (seqs.len() as i64) == SLICE {
        return Ok((seqs.len() as u64, Progress::More));
    }
    if !seqs.is_empty() {
        forget_tools(db)?;
    }
    // What is free goes back to the system, a little at a time.
    let has_more = give_back(db)?;
    Ok((seqs.len() as u64, if has_more { Progress::More } else { Progress::Done }))
}

/// Forgets names of tools that no task has any more.
fn forget_tools(db: &Connection) -> rusqlite::Result<()> {
    db.execute("DELETE FROM tool WHERE NOT EXISTS (SELECT 1 FROM task WHERE task.tool = tool.id)", []).map(drop)
}

/// Gives free pages back to the system. Are there more?
fn give_back(db: &Connection) -> rusqlite::Result<bool> {
    let free = || db.query_row("PRAGMA freelist_count", [], |row| row.get::<_, u32>(0));
    let before = free()?;
    if before < PAGES {
        return Ok(false);
    }
    db.execute_batch(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    let after = free()?;
    // A database that was made without `auto_vacuum` keeps its free pages and uses them again.
    Ok(after >= PAGES && after < before)
}

/// Writes everything that is in the log into the database and empties the log.
pub(super) fn empty_log(db: &Connection) -> rusqlite::Result<()> {
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// How large the log is.
pub(super) fn log_bytes(path: &Path) -> u64 {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    std::fs::metadata(name).map_or(0, |data| data.len())
}

/// How often the store looks for what is too old or too much, and for executions of processes that have died.
pub(super) const CARE: Duration = Duration::from_secs(60);
