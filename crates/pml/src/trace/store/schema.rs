//! The tables, and how a database of an older pml becomes one of this.

use rusqlite::{Connection, TransactionBehavior};

/// The version that this pml reads and writes, in `user_version`.
pub(super) const VERSION: i64 = 4;

/// What leads from each version to the next. A version that was released is never changed.
const MIGRATIONS: [&str; VERSION as usize] = [V1, V2, V3, V4];

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

/// Every row belongs to a tenant, which is a scope: 1 is that of the gateway itself. `outbox` is 0 of what is unsent, 1 of what
/// a hub has or has sent, 2 of what a hub refuses, 3 of what was given up. `size` is what a trace takes in the outbox.
///
/// `capability` is the name that a trace gives, `capability_id` what it stands for, once that is known. A name in
/// `capability_name` that is not `current` is one that the capability had before.
const V2: &str = "
CREATE TABLE tenant (
    id INTEGER PRIMARY KEY,
    org TEXT NOT NULL,
    project TEXT NOT NULL,
    UNIQUE (org, project)
);
INSERT INTO tenant (id, org, project) VALUES (1, 'local', 'default');

CREATE TABLE trace_of_tenant (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
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
    capability_id BLOB,
    intent TEXT,
    code INTEGER,
    code_hash TEXT,
    tasks INTEGER NOT NULL,
    task_bytes INTEGER NOT NULL,
    answer_bytes INTEGER NOT NULL,
    size INTEGER NOT NULL,
    priority REAL NOT NULL DEFAULT 0.5,
    outbox INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    outbox_reason TEXT
);
INSERT INTO trace_of_tenant (seq, tenant, id, parent, ts, stored_at, success, interrupted, error_code, duration_ms, entry,
    caller, client, capability, intent, code, code_hash, tasks, task_bytes, answer_bytes, size, priority, outbox, attempts,
    outbox_reason)
SELECT seq, 1, id, parent, ts, stored_at, success, interrupted, error_code, duration_ms, entry,
    caller, client, capability, intent, code, code_hash, tasks, task_bytes, answer_bytes,
    coalesce((SELECT length(zstd) FROM body WHERE body.seq = trace.seq), 0), priority, outbox, attempts, outbox_reason
FROM trace;
-- Numbers are not used again, also those of rows that are gone.
DELETE FROM sqlite_sequence WHERE name = 'trace_of_tenant';
INSERT INTO sqlite_sequence (name, seq) SELECT 'trace_of_tenant', seq FROM sqlite_sequence WHERE name = 'trace';
DROP TABLE trace;
ALTER TABLE trace_of_tenant RENAME TO trace;
CREATE UNIQUE INDEX trace_id ON trace (tenant, id);
CREATE INDEX trace_ts ON trace (tenant, ts);
CREATE INDEX trace_unsent ON trace (tenant, ts, success, size) WHERE outbox = 0;
CREATE INDEX trace_unsendable ON trace (tenant, outbox) WHERE outbox > 1;
CREATE INDEX trace_capability ON trace (tenant, capability_id) WHERE capability_id NOTNULL;
CREATE INDEX trace_unresolved ON trace (tenant, capability) WHERE capability NOTNULL AND capability_id IS NULL;

ALTER TABLE running ADD COLUMN tenant INTEGER NOT NULL DEFAULT 1;

CREATE TABLE api_key (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    name TEXT NOT NULL,
    sha256 BLOB NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
);
-- A name can be given again when its key is revoked.
CREATE UNIQUE INDEX api_key_name ON api_key (tenant, name) WHERE revoked_at IS NULL;

CREATE TABLE capability (
    id BLOB PRIMARY KEY,
    tenant INTEGER NOT NULL,
    visibility TEXT NOT NULL,
    owner TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX capability_tenant ON capability (tenant, updated_at);

CREATE TABLE capability_name (
    capability BLOB NOT NULL,
    tenant INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    action TEXT NOT NULL,
    current INTEGER NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (capability, namespace, action)
) WITHOUT ROWID;
CREATE UNIQUE INDEX capability_current ON capability_name (tenant, namespace, action) WHERE current;
CREATE INDEX capability_named ON capability_name (tenant, namespace, action);

CREATE TABLE capability_version (
    capability BLOB NOT NULL,
    version INTEGER NOT NULL,
    hash TEXT NOT NULL,
    sha256 BLOB NOT NULL,
    code TEXT NOT NULL,
    parameters TEXT,
    description TEXT NOT NULL,
    author TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (capability, version),
    UNIQUE (capability, hash),
    UNIQUE (capability, sha256)
);

CREATE TABLE model (
    tenant INTEGER NOT NULL,
    name TEXT NOT NULL,
    etag TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (tenant, name)
);
";

/// How registries of capabilities follow each other.
///
/// `capability_clock` counts the changes of all capabilities of an organisation; a capability has the count of its own last
/// change. The row of the organisation `''`, which no organisation is called, has a random number that tells this database from
/// others. `capability_removed` has the ids of capabilities that were deleted. `capability_link` says which capability of a hub
/// one of this database is, and what both were like when they were last alike; a link whose capability is gone is one that
/// was removed here.
const V3: &str = "
ALTER TABLE capability ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;

CREATE TABLE capability_clock (
    org TEXT PRIMARY KEY,
    revision INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO capability_clock (org, revision)
SELECT DISTINCT org, 1 FROM capability JOIN tenant ON tenant.id = capability.tenant;
INSERT INTO capability_clock (org, revision)
SELECT '', abs(random() % 4611686018427387904) + 1 WHERE EXISTS (SELECT 1 FROM capability);

CREATE TABLE capability_removed (
    id BLOB PRIMARY KEY,
    tenant INTEGER NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX capability_removed_tenant ON capability_removed (tenant, revision);

CREATE TABLE capability_link (
    capability BLOB PRIMARY KEY,
    tenant INTEGER NOT NULL,
    hub TEXT NOT NULL,
    remote BLOB NOT NULL,
    remote_tag TEXT NOT NULL,
    remote_version INTEGER NOT NULL,
    local_revision INTEGER NOT NULL,
    local_version INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX capability_link_hub ON capability_link (tenant, hub);
";

/// `delivered_by` is the name of the key that a trace came with; NULL of those of this pml, and of those that were stored before.
const V4: &str = "
ALTER TABLE trace ADD COLUMN delivered_by TEXT;
";
