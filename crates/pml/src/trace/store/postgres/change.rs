//! Changes of what is stored, a slice at a time.
//!
//! A slice is one short transaction, so traces that come meanwhile wait no longer than that.

use super::{
    super::{
        Deletion, Options,
        change::{CHUNK, Change, Progress},
        connection::Trouble,
        row::millis,
    },
    keys, query,
    session::{Id, Session},
};

/// Traces that are deleted in one transaction.
const SLICE: i64 = 500;

/// Makes a slice of a change of one tenant, and says how many rows it has changed. A slice that fails can be tried again.
pub(super) async fn slice(
    session: &Session,
    tenant: i32,
    change: &mut Change,
    options: &Options,
) -> Result<(u64, Progress), Trouble> {
    match change {
        Change::Delete(what) => delete(session, tenant, what).await,
        Change::Retain => retain(session, options).await,
        Change::Acknowledge(ids) => {
            let sql = "UPDATE trace SET outbox = 1, outbox_reason = NULL
                       WHERE tenant = $1 AND id = ANY($2) AND $3::text IS NOT NULL AND outbox <> 1";
            each(session, tenant, sql, ids, "").await
        }
        Change::NoteFailure(ids, reason) => {
            let sql = "UPDATE trace SET attempts = attempts + 1, outbox_reason = $3
                       WHERE tenant = $1 AND id = ANY($2) AND outbox = 0";
            each(session, tenant, sql, ids, reason).await
        }
        Change::Bury(ids, reason) => {
            let sql = "UPDATE trace SET outbox = 2, attempts = attempts + 1, outbox_reason = $3
                       WHERE tenant = $1 AND id = ANY($2) AND outbox <> 1";
            each(session, tenant, sql, ids, reason).await
        }
        Change::Requeue => {
            let sql = "UPDATE trace SET outbox = 0, attempts = 0, outbox_reason = NULL WHERE tenant = $1 AND id IN
                       (SELECT id FROM trace WHERE tenant = $1 AND outbox = 2 AND outbox > 1 LIMIT $2 FOR UPDATE SKIP LOCKED)";
            let changed = session.execute(sql, &[&tenant, &(CHUNK as i64)]).await?;
            Ok((changed, if changed < CHUNK as u64 { Progress::Done } else { Progress::More }))
        }
        Change::Resend { since, after } => {
            let sql = "UPDATE trace SET outbox = 0, attempts = 0, outbox_reason = NULL WHERE tenant = $1 AND id IN
                       (SELECT id FROM trace WHERE tenant = $1 AND outbox = 1 AND ts >= $2 AND seq > $3
                        ORDER BY seq LIMIT $4 FOR UPDATE) RETURNING seq";
            let changed = session.query(sql, &[&tenant, &millis(*since), &*after, &(CHUNK as i64)]).await?;
            *after = changed.iter().map(|row| row.get(0)).max().unwrap_or(*after);
            Ok((changed.len() as u64, if changed.len() < CHUNK { Progress::Done } else { Progress::More }))
        }
        Change::TrimOutbox { max_bytes } => trim(session, tenant, *max_bytes).await,
        Change::SetPriorities(priorities) => {
            let rest = priorities.len().saturating_sub(CHUNK);
            let ids: Vec<_> = priorities[rest..].iter().map(|(id, _)| Id(*id.as_bytes())).collect();
            let finite = |priority: f64| if priority.is_finite() { priority.clamp(0.0, 1.0) } else { 0.5 };
            let values: Vec<_> = priorities[rest..].iter().map(|(_, priority)| finite(*priority)).collect();
            let sql =
                "UPDATE trace SET priority = new.priority FROM unnest($2::uuid[], $3::float8[]) AS new (id, priority)
                       WHERE tenant = $1 AND trace.id = new.id";
            let changed = session.execute(sql, &[&tenant, &ids, &values]).await?;
            priorities.truncate(rest);
            Ok((changed, if rest == 0 { Progress::Done } else { Progress::More }))
        }
        // Of the other engine.
        Change::Run(_) => Ok((0, Progress::Done)),
    }
}

/// Executes a statement for the last ids of a list, and takes them off it.
async fn each(
    session: &Session,
    tenant: i32,
    sql: &'static str,
    ids: &mut Vec<pml_wire::ExecutionId>,
    reason: &str,
) -> Result<(u64, Progress), Trouble> {
    let rest = ids.len().saturating_sub(CHUNK);
    let reason: String = reason.chars().filter(|character| *character != '\0').take(500).collect();
    let mut last: Vec<_> = ids[rest..].iter().map(|id| Id(*id.as_bytes())).collect();
    last.sort_unstable();
    let changed = session.execute(sql, &[&tenant, &last, &reason]).await?;
    // Only what is committed is left out of the next slice.
    ids.truncate(rest);
    Ok((changed, if rest == 0 { Progress::Done } else { Progress::More }))
}

/// Gives up a slice of what waits to be sent, while that is too large.
async fn trim(session: &Session, tenant: i32, max_bytes: u64) -> Result<(u64, Progress), Trouble> {
    // What went wrong is worth most. Of the first so many, those are given up that make up the excess.
    let sql = "
        WITH waiting AS (SELECT coalesce(sum(size), 0)::int8 AS bytes FROM trace WHERE tenant = $1 AND outbox = 0),
        oldest AS (
            SELECT id, sum(size) OVER (ORDER BY success DESC, ts, seq) - size AS before FROM (
                SELECT id, size, success, ts, seq FROM trace WHERE tenant = $1 AND outbox = 0
                ORDER BY success DESC, ts, seq LIMIT $3) AS first)
        UPDATE trace SET outbox = 3, outbox_reason = 'too much waited to be sent'
        FROM oldest, waiting WHERE trace.tenant = $1 AND trace.id = oldest.id AND trace.outbox = 0
        AND oldest.before < waiting.bytes - $2";
    let most = i64::try_from(max_bytes).unwrap_or(i64::MAX);
    let given_up = session.execute(sql, &[&tenant, &most, &(CHUNK as i64)]).await?;
    Ok((given_up, if given_up == CHUNK as u64 { Progress::More } else { Progress::Done }))
}

async fn delete(session: &Session, tenant: i32, what: &Deletion) -> Result<(u64, Progress), Trouble> {
    let deleted = match what {
        Deletion::One(id) => {
            let sql = "DELETE FROM trace WHERE tenant = $1 AND id = $2 RETURNING tenant, code";
            session.query(sql, &[&tenant, &Id(*id.as_bytes())]).await?
        }
        Deletion::Before(moment) => {
            let sql =
                "DELETE FROM trace WHERE tenant = $1 AND id IN (SELECT id FROM trace WHERE tenant = $1 AND ts < $2
                       ORDER BY ts, seq LIMIT $3) RETURNING tenant, code";
            session.query(sql, &[&tenant, &millis(*moment), &SLICE]).await?
        }
        Deletion::All => {
            let sql = "DELETE FROM trace WHERE tenant = $1 AND id IN (SELECT id FROM trace WHERE tenant = $1
                       ORDER BY ts, seq LIMIT $2) RETURNING tenant, code";
            session.query(sql, &[&tenant, &SLICE]).await?
        }
    };
    forget_programs(session, &deleted).await?;
    let is_over = matches!(what, Deletion::One(_)) || (deleted.len() as i64) < SLICE;
    Ok((deleted.len() as u64, if is_over { Progress::Done } else { Progress::More }))
}

/// Deletes a slice of what was stored first, of every scope, while that is too old or all of it too large. One process does
/// it for all.
async fn retain(session: &Session, options: &Options) -> Result<(u64, Progress), Trouble> {
    let keep = i64::try_from(options.keep.as_millis()).unwrap_or(i64::MAX);
    // To look at the files is cheap; only if they are too large it matters what is in them.
    let is_too_large =
        query::file_bytes(session).await? > options.max_bytes && query::used_bytes(session).await? > options.max_bytes;
    // The first of each scope, of which the first of all.
    let sql = "
        WITH turn AS MATERIALIZED (SELECT pg_try_advisory_xact_lock($1) AS is_ours),
        first AS (
            SELECT oldest.tenant, oldest.id, oldest.stored_at, oldest.seq
            FROM turn, tenant CROSS JOIN LATERAL (
                SELECT tenant, id, stored_at, seq FROM trace WHERE trace.tenant = tenant.id ORDER BY seq LIMIT $2
            ) AS oldest
            WHERE turn.is_ours AND ($3 OR oldest.stored_at < (extract(epoch FROM clock_timestamp()) * 1000)::int8 - $4)
            ORDER BY oldest.seq LIMIT $2)
        DELETE FROM trace USING first WHERE trace.tenant = first.tenant AND trace.id = first.id
        RETURNING trace.tenant, trace.code";
    // Of what is too large a little at a time, so that not too much goes.
    let slice = if is_too_large { SLICE / 5 } else { SLICE };
    let deleted = session.query(sql, &[&keys::RETENTION, &slice, &is_too_large, &keep]).await?;
    forget_programs(session, &deleted).await?;
    Ok((deleted.len() as u64, if deleted.is_empty() { Progress::Done } else { Progress::More }))
}

/// Deletes those programs of deleted traces that no other trace has.
async fn forget_programs(session: &Session, deleted: &[tokio_postgres::Row]) -> Result<(), Trouble> {
    let mut programs: Vec<(i32, &[u8])> =
        deleted.iter().filter_map(|row| Some((row.get(0), row.get::<_, Option<&[u8]>>(1)?))).collect();
    programs.sort_unstable();
    programs.dedup();
    if programs.is_empty() {
        return Ok(());
    }
    let (tenants, hashes): (Vec<_>, Vec<_>) = programs.into_iter().unzip();
    session
        .transaction(async |session| {
            // Whoever stores a trace with one of them is done, or begins after this.
            session.execute("SELECT pg_advisory_xact_lock($1)", &[&keys::CONTENTS]).await?;
            let sql = "DELETE FROM code USING unnest($1::int4[], $2::bytea[]) AS gone (tenant, sha256)
                       WHERE code.tenant = gone.tenant AND code.sha256 = gone.sha256
                       AND NOT EXISTS (SELECT 1 FROM trace WHERE trace.tenant = code.tenant AND trace.code = code.sha256)";
            session.execute(sql, &[&tenants, &hashes]).await.map(drop)
        })
        .await
}
