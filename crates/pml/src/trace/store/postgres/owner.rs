//! Which process runs an execution, and whether it is still alive, across machines.
//!
//! A process that runs executions holds an advisory lock in the session that it writes with. The server gives the lock back
//! when the session ends: at once if the process ends, by its keepalives if the machine does. After the server itself was
//! started, the living need a moment to come back; until then nobody is taken for dead who was there before. If one is all
//! the same, its trace counts when it comes.

use pml_wire::{ExecutionId, trace::Trace};

use super::{
    super::{
        Scope,
        body::Encoder,
        connection::Trouble,
        row::{Origin, Row},
    },
    batch::{self, Numbered},
    keys,
    session::{Id, Session},
};
use crate::trace::TraceHead;

/// The part of a lock's number that says whose it is.
const MASK: i64 = (1 << 48) - 1;

/// Owners without a session. `$1` is this process.
const DEAD: &str = "
SELECT all_owners.id FROM (SELECT owner AS id FROM running UNION SELECT id FROM owner) AS all_owners
LEFT JOIN owner ON owner.id = all_owners.id
WHERE all_owners.id <> $1
AND (owner.since > pg_postmaster_start_time() OR pg_postmaster_start_time() < clock_timestamp() - interval '60 seconds')
AND NOT EXISTS (
    SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND classid::int8 >> 16 = 28782
    AND ((classid::int8 & 65535) << 32) | objid::int8 = all_owners.id
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
) LIMIT 1000";

/// A number for this process.
pub(super) fn mint() -> Result<i64, Trouble> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|err| Trouble::Other(err.to_string()))?;
    Ok(i64::from_le_bytes(bytes) & MASK)
}

/// Says that this process is alive for as long as the session is.
pub(super) async fn register(session: &Session, id: i64) -> Result<(), Trouble> {
    // The server may not know yet that an earlier session of this process is gone; then that one keeps the lock for now, and
    // this one gets it when it registers the next time.
    session.query("SELECT pg_try_advisory_lock($1)", &[&(keys::OWNER | id)]).await?;
    let sql = "INSERT INTO owner (id, since) VALUES ($1, clock_timestamp())
               ON CONFLICT (id) DO UPDATE SET since = excluded.since";
    session.execute(sql, &[&id]).await.map(drop)
}

/// Makes interrupted traces of executions whose process has died. How many.
pub(super) async fn recover(session: &Session, encoder: &mut Encoder, own: Option<i64>) -> Result<u64, Trouble> {
    let mut found = 0;
    for row in session.query(DEAD, &[&own.unwrap_or(-1)]).await? {
        found += conclude(session, encoder, row.get(0)).await?;
    }
    Ok(found)
}

/// Makes interrupted traces of all executions of one process.
pub(super) async fn conclude(session: &Session, encoder: &mut Encoder, owner: i64) -> Result<u64, Trouble> {
    session
        .transaction(async |session| {
            // Of several processes that find it dead, one gets each head.
            let sql = "DELETE FROM running WHERE owner = $1 RETURNING tenant, head";
            let heads = session.query(sql, &[&owner]).await?;
            session.execute("DELETE FROM owner WHERE id = $1", &[&owner]).await?;
            store(session, encoder, &heads, TraceHead::interrupted).await
        })
        .await
}

/// Executions whose traces were dropped have ended all the same: what is known of them becomes their trace.
pub(super) async fn settle(
    session: &Session,
    encoder: &mut Encoder,
    own: Option<i64>,
    dropped: &[ExecutionId],
) -> Result<(), Trouble> {
    // Who has stored no head has none to settle.
    let Some(own) = own else { return Ok(()) };
    let ids: Vec<_> = dropped.iter().map(|id| Id(*id.as_bytes())).collect();
    let sql = "SELECT tenant, head FROM running WHERE id = ANY($1) AND owner = $2";
    let heads = session.query(sql, &[&ids, &own]).await?;
    store(session, encoder, &heads, TraceHead::without_trace).await.map(drop)
}

/// Stores a trace for each head. How many.
async fn store(
    session: &Session,
    encoder: &mut Encoder,
    heads: &[tokio_postgres::Row],
    to_trace: fn(TraceHead) -> Trace,
) -> Result<u64, Trouble> {
    let rows = heads.iter().filter_map(|head| {
        let tenant: i32 = head.get(0);
        let head = serde_json::from_str::<TraceHead>(head.get(1)).ok()?;
        // The number of the tenant is known; the name is not needed.
        let row = Row::new(&Scope::local(), Origin::Own, to_trace(head), encoder).ok().flatten()?;
        Some((tenant, row))
    });
    let rows: Vec<(i32, Row)> = rows.collect();
    let traces: Vec<_> = rows.iter().map(|(tenant, row)| Numbered { tenant: *tenant, row, capability: None }).collect();
    if !traces.is_empty() {
        batch::insert(session, &[], &traces).await?;
    }
    Ok(traces.len() as u64)
}
