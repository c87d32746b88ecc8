//! The tables, and how a database of an older pml becomes one of this.

use rusqlite::{Connection, TransactionBehavior};

/// The version that this pml reads and writes, in `user_version`.
pub(super) const VERSION: i64 = 1;

/// What leads from each version to the next. A version that was released is never changed.
const MIGRATIONS: [&str; VERSION as usize] = [V1];

/// Why a database is not used.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It has a version of a newer pml.
    Newer(i64),
    Failed(rusqlite::Error),
}

impl From<rusqlite::Error> for Refusal {
    fn from(err: rusqlite::Error) -> Refusal {
        Refusal::Failed(err)
    }
}

pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}

/// Brings the database to [`VERSION`].
pub(super) fn migrate(connection: &mut Connection) -> Result<(), Refusal> {
    match version(connection)? {
        VERSION => return Ok(()),
        newer if newer > VERSION => return Err(Refusal::Newer(newer)),
        0 => {
            // Decided before the first table: pages that are freed can be given back to the system, a few at a time.
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
        }
        _ => {}
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been here meanwhile.
    let from = match version(&transaction)? {
        newer if newer > VERSION => return Err(Refusal::Newer(newer)),
        from => usize::try_from(from).unwrap_or(0),
    };
    for migration in &MIGRATIONS[from.min(MIGRATIONS.len())..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    Ok(())
}

/// `trace` has what is listed and counted, `body` the whole as JSON: a listing need not read past bodies. `seq` is the order
/// in which traces were stored, by the clock of this machine; `ts` is what the trace says, which may be of another.
const V1: &str = "
CREATE TABLE trace (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE,
    parent BLOB,
    ts INTEGER NOT NULL,
    stored_at INTEGER NOT NULL,
    success INTEGER NOT NULL,
    interrupted INTEGER NOT NULL,
    error_code TEXT,
    duration_ms REAL NOT NULL,
    entry TEXT NOT NULL,
    caller TEXT NOT NULL,
    client TEXT,
    capability TEXT,
    intent TEXT,
    code INTEGER,
    code_hash TEXT,
    tasks INTEGER NOT NULL,
    task_bytes INTEGER NOT NULL,
    answer_bytes INTEGER NOT NULL,
    priority REAL NOT NULL DEFAULT 0.5,
    outbox INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    outbox_reason TEXT
);
CREATE INDEX trace_ts ON trace (ts);
CREATE INDEX trace_unsent ON trace (ts) WHERE outbox = 0;

CREATE TABLE body (
    seq INTEGER PRIMARY KEY,
    size INTEGER NOT NULL,
    zstd BLOB NOT NULL
);

CREATE TABLE code (
    id INTEGER PRIMARY KEY,
    sha256 BLOB NOT NULL UNIQUE,
    uses INTEGER NOT NULL,
    size INTEGER NOT NULL,
    zstd BLOB NOT NULL
);

CREATE TABLE tool (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE task (
    trace INTEGER NOT NULL,
    n INTEGER NOT NULL,
    tool INTEGER NOT NULL,
    kind TEXT NOT NULL,
    success INTEGER NOT NULL,
    error_code TEXT,
    ts INTEGER NOT NULL,
    duration_ms REAL NOT NULL,
    result_bytes INTEGER NOT NULL,
    PRIMARY KEY (trace, n)
) WITHOUT ROWID;
CREATE INDEX task_tool ON task (tool);

CREATE TABLE running (
    id BLOB PRIMARY KEY,
    owner INTEGER NOT NULL,
    ts INTEGER NOT NULL,
    head TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE count (
    what TEXT PRIMARY KEY,
    n INTEGER NOT NULL
) WITHOUT ROWID;
";
