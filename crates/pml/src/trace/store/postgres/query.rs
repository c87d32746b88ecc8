//! Questions to the database. Every one of them takes the number of a tenant.

use pml_wire::{CapabilityId, ExecutionId};
use tokio_postgres::Row;

use super::{
    super::{
        Cursor, Filter, Found, Outbox, Page, Reading, Stats, Summary, ToolStats,
        connection::Trouble,
        query::{REASONS, SEVERAL, Stored, id_bounds, moment},
        row::{entry_of, millis, without_nul},
    },
    batch::{DEAD, GIVEN_UP, UNSENT},
    session::{Id, Parameter, Session},
};
use crate::trace::TraceHead;

/// What a trace takes besides its body, in the table and its indexes.
const ROW_BYTES: i64 = 900;

macro_rules! whole {
    ($rest:literal) => {
        concat!(
            "SELECT t.id, t.body_size, t.body, c.size, c.zstd, t.priority, t.stored_at, t.capability_id, t.attempts,
             t.seq, t.delivered_by FROM trace AS t LEFT JOIN code AS c ON c.tenant = t.tenant AND c.sha256 = t.code WHERE t.tenant = $1 ",
            $rest
        )
    };
}

pub(super) async fn by_id(session: &Session, tenant: i32, id: ExecutionId) -> Result<Option<Stored>, Trouble> {
    let found = session.query_opt(whole!("AND t.id = $2"), &[&tenant, &Id(*id.as_bytes())]).await?;
    Ok(found.as_ref().map(stored))
}

/// Unsent traces, the oldest first.
pub(super) async fn unsent(session: &Session, tenant: i32, limit: usize) -> Result<Vec<Stored>, Trouble> {
    let sql = whole!("AND t.outbox = 0 ORDER BY t.ts, t.seq LIMIT $2");
    let rows = session.query(sql, &[&tenant, &number(limit)]).await?;
    Ok(rows.iter().map(stored).collect())
}

fn stored(row: &Row) -> Stored {
    let pair = |at: usize| row.get::<_, Option<i32>>(at).map(i64::from).zip(row.get::<_, Option<Vec<u8>>>(at + 1));
    Stored {
        id: execution(row.get(0)),
        body: pair(1),
        code: pair(3),
        priority: row.get(5),
        stored_at: moment(row.get(6)),
        capability: row.get::<_, Option<Id>>(7).map(|Id(bytes)| CapabilityId::from_bytes(bytes)),
        attempts: u32::try_from(row.get::<_, i32>(8)).unwrap_or_default(),
        delivered_by: row.get(10),
    }
}

/// The trace whose id begins with this, with or without hyphens.
pub(super) async fn find(session: &Session, tenant: i32, prefix: &str) -> Result<Found, Trouble> {
    let Some((first, last)) = id_bounds(prefix) else { return Ok(Found::Nothing) };
    let sql = "SELECT id FROM trace WHERE tenant = $1 AND id BETWEEN $2 AND $3 ORDER BY id LIMIT $4";
    let rows = session.query(sql, &[&tenant, &Id(first), &Id(last), &SEVERAL]).await?;
    let ids: Vec<_> = rows.iter().map(|row| execution(row.get(0))).collect();
    Ok(Found::of(ids))
}

/// The conditions of a filter, in the parameters 1 to 8.
struct Conditions {
    failed: bool,
    since: Option<i64>,
    before: Option<i64>,
    client: Option<String>,
    intent: Option<String>,
    capability: Option<Id>,
    tool: Option<String>,
}

macro_rules! conditions {
    () => {
        "tenant = $1 AND (NOT $2 OR NOT success) AND ($3::int8 IS NULL OR ts >= $3) AND ($4::int8 IS NULL OR ts < $4)
         AND ($5::text IS NULL OR strpos(folded_who, $5) > 0) AND ($6::text IS NULL OR strpos(folded_intent, $6) > 0)
         AND ($7::uuid IS NULL OR capability_id = $7)
         AND ($8::text IS NULL OR EXISTS (SELECT 1 FROM unnest(tools) AS used WHERE used LIKE $8))"
    };
}

impl Conditions {
    fn of(filter: &Filter) -> Conditions {
        // As in the columns.
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty()).map(without_nul);
        Conditions {
            failed: filter.failed,
            since: filter.since.map(millis),
            before: filter.before.map(millis),
            client: given(&filter.client).map(|text| text.to_lowercase()),
            intent: given(&filter.intent).map(|text| text.to_lowercase()),
            capability: filter.capability.map(|id| Id(*id.as_bytes())),
            tool: given(&filter.tool).map(|glob| like(&glob)),
        }
    }

    fn parameters<'a>(&'a self, tenant: &'a i32) -> [Parameter<'a>; 8] {
        let Conditions { failed, since, before, client, intent, capability, tool } = self;
        [tenant, failed, since, before, client, intent, capability, tool]
    }
}

/// A pattern with `*` and `?` as one with `%` and `_`.
fn like(glob: &str) -> String {
    let mut pattern = String::with_capacity(glob.len());
    for character in glob.chars() {
        match character {
            '*' => pattern.push('%'),
            '?' => pattern.push('_'),
            '%' | '_' | '\\' => pattern.extend(['\\', character]),
            other => pattern.push(other),
        }
    }
    pattern
}

macro_rules! summaries {
    ($place:literal, $order:literal) => {
        concat!(
            "SELECT seq, id, parent, ts, duration_ms, success, interrupted, error_code, entry, caller, client, intent, tasks,
             capability_id, tools[1:4], tool_calls[1:4] FROM trace WHERE ",
            conditions!(),
            " AND ", $place, " ORDER BY ", $order, " LIMIT $11"
        )
    };
}

/// The last number such that no trace with this or a lower one will ever be seen that is not seen now.
///
/// Numbers are taken before they are committed, so a lower one may be committed after a higher one. Whoever takes numbers
/// holds a lock, from before the first is taken until after all are committed, that says from where on. Of all numbers up to
/// the last that was taken, those below all such locks are therefore committed: if a number was taken before this looks at
/// the sequence, its lock was held before this looks at the locks, which is later.
const END: &str = "
SELECT last_value, (
    SELECT min(((classid::int8 & 65535) << 32) | objid::int8) FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND classid::int8 >> 16 = 28781 AND last_value > 0
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
) FROM trace_seq";

async fn end(session: &Session) -> Result<i64, Trouble> {
    let row = session.query_opt(END, &[]).await?;
    let Some(row) = row else { return Ok(0) };
    let last: i64 = row.get(0);
    Ok(row.get::<_, Option<i64>>(1).map_or(last, |on_the_way| on_the_way.min(last)))
}

pub(super) async fn list(
    session: &Session,
    tenant: i32,
    filter: &Filter,
    reading: Reading,
    limit: usize,
) -> Result<Page, Trouble> {
    let safe = end(session).await?;
    let (sql, cursor, number_to) = match reading {
        Reading::Newest => (
            summaries!("ts <= $9 AND seq <= $10", "ts DESC, seq DESC"),
            Cursor { began: i64::MAX, number: i64::MAX },
            i64::MAX,
        ),
        Reading::Before(cursor) => (summaries!("(ts, seq) < ($9, $10)", "ts DESC, seq DESC"), cursor, cursor.number),
        Reading::StoredAfter(cursor) => {
            (summaries!("seq > $9 AND seq <= $10", "seq"), Cursor { began: cursor.number, number: safe }, safe)
        }
    };
    let conditions = Conditions::of(filter);
    let limit_and_one = number(limit).saturating_add(1);
    let mut parameters = conditions.parameters(&tenant).to_vec();
    parameters.extend([&cursor.began as Parameter<'_>, &number_to, &limit_and_one]);
    let rows = session.query(sql, &parameters).await?;
    let has_more = rows.len() > limit;
    let place = |row: &Row| Cursor { began: row.get(3), number: row.get(0) };
    let next = rows.iter().take(limit).last().filter(|_| has_more).map(place);
    let end = match reading {
        // What was not read yet must not be passed over.
        Reading::StoredAfter(from) if has_more => next.unwrap_or(from),
        Reading::StoredAfter(from) => Cursor { began: 0, number: i64::max(safe, from.number) },
        _ => Cursor { began: 0, number: safe },
    };
    Ok(Page { traces: rows.iter().take(limit).map(summary).collect(), next, end })
}

fn summary(row: &Row) -> Summary {
    let tools: Vec<String> = row.get(14);
    let calls: Vec<i32> = row.get(15);
    Summary {
        id: execution(row.get(1)),
        parent: row.get::<_, Option<Id>>(2).map(execution),
        timestamp: moment(row.get(3)),
        duration_ms: row.get(4),
        success: row.get(5),
        is_interrupted: row.get(6),
        error_code: row.get(7),
        entry: entry_of(row.get(8)),
        caller: row.get(9),
        client: row.get(10),
        intent: row.get(11),
        capability: row.get::<_, Option<Id>>(13).map(|Id(bytes)| CapabilityId::from_bytes(bytes)),
        tasks: u64::try_from(row.get::<_, i32>(12)).unwrap_or_default(),
        tools: tools.into_iter().zip(calls.into_iter().map(|calls| u64::try_from(calls).unwrap_or_default())).collect(),
    }
}

pub(super) async fn running(session: &Session, tenant: i32) -> Result<Vec<TraceHead>, Trouble> {
    let sql = "SELECT head FROM running WHERE tenant = $1 ORDER BY ts DESC LIMIT 1000";
    let rows = session.query(sql, &[&tenant]).await?;
    Ok(rows.iter().filter_map(|row| serde_json::from_str(row.get(0)).ok()).collect())
}

const TOTALS: &str = concat!(
    "SELECT count(*), count(*) FILTER (WHERE NOT success), count(*) FILTER (WHERE interrupted), min(ts), max(ts),
     coalesce(sum(task_bytes), 0)::int8, coalesce(sum(least(answer_bytes, task_bytes)), 0)::int8 FROM trace WHERE ",
    conditions!()
);

/// Of a filter by tool, the tools that match, not the others of the same traces.
const BY_TOOL: &str = concat!(
    "SELECT name, count(*), count(*) FILTER (WHERE NOT ok), percentile_disc(0.5) WITHIN GROUP (ORDER BY ms),
     percentile_disc(0.95) WITHIN GROUP (ORDER BY ms), sum(bytes)::int8
     FROM (SELECT tools[task.tool] AS name, task.ok, task.ms, task.bytes
           FROM trace, unnest(task_tool, task_ok, task_ms, task_result_bytes) AS task (tool, ok, ms, bytes) WHERE ",
    conditions!(),
    ") AS used WHERE $8::text IS NULL OR name LIKE $8 GROUP BY name ORDER BY 2 DESC, 1"
);

pub(super) async fn stats(session: &Session, tenant: i32, filter: &Filter) -> Result<Stats, Trouble> {
    let conditions = Conditions::of(filter);
    let parameters = conditions.parameters(&tenant);
    let Some(row) = session.query_opt(TOTALS, &parameters).await? else { return Ok(Stats::default()) };
    let tools = session.query(BY_TOOL, &parameters).await?;
    let counts = session.query("SELECT what, n FROM count ORDER BY what", &[]).await?;
    let outbox = outbox(session, tenant).await?;
    Ok(Stats {
        traces: count(&row, 0),
        failed: count(&row, 1),
        interrupted: count(&row, 2),
        first: row.get::<_, Option<i64>>(3).map(moment),
        last: row.get::<_, Option<i64>>(4).map(moment),
        intermediate_bytes: count(&row, 5),
        answer_bytes: count(&row, 6),
        tools: tools
            .iter()
            .map(|row| ToolStats {
                tool: row.get(0),
                calls: count(row, 1),
                failed: count(row, 2),
                p50_ms: row.get(3),
                p95_ms: row.get(4),
                result_bytes: count(row, 5),
            })
            .collect(),
        counts: counts.iter().map(|row| (row.get(0), count(row, 1))).collect(),
        stored_bytes: used_bytes(session).await?,
        unsent: outbox.unsent,
        dead: outbox.dead,
    })
}

/// What the files of all traces take, with what was deleted.
pub(super) async fn file_bytes(session: &Session) -> Result<u64, Trouble> {
    let sql = "SELECT pg_total_relation_size('trace') + pg_total_relation_size('code')";
    Ok(session.query_opt(sql, &[]).await?.map_or(0, |row| count(&row, 0)))
}

/// About how much all traces take, without what was deleted and is not vacuumed yet.
pub(super) async fn used_bytes(session: &Session) -> Result<u64, Trouble> {
    let sql = "SELECT (SELECT coalesce(sum(size), 0) + count(*) * $1 FROM trace)::int8
               + (SELECT coalesce(sum(octet_length(zstd)), 0) FROM code)::int8";
    Ok(session.query_opt(sql, &[&ROW_BYTES]).await?.map_or(0, |row| count(&row, 0)))
}

/// What waits to be sent to a hub.
pub(super) async fn outbox(session: &Session, tenant: i32) -> Result<Outbox, Trouble> {
    let sql = "SELECT count(*), coalesce(sum(size), 0)::int8, min(ts) FROM trace WHERE tenant = $1 AND outbox = 0";
    let Some(unsent) = session.query_opt(sql, &[&tenant]).await? else { return Ok(Outbox::default()) };
    let sql = "SELECT count(*) FROM trace WHERE tenant = $1 AND outbox = $2 AND outbox > 1";
    let of = async |state: i16| -> Result<u64, Trouble> {
        Ok(session.query_opt(sql, &[&tenant, &state]).await?.map_or(0, |row| count(&row, 0)))
    };
    let sql =
        "SELECT outbox_reason, count(*) FROM trace WHERE tenant = $1 AND outbox = $2 AND outbox_reason IS NOT NULL
               GROUP BY 1 ORDER BY 2 DESC LIMIT $3";
    let reasons = async |state: i16| -> Result<Vec<(String, u64)>, Trouble> {
        let rows = session.query(sql, &[&tenant, &state, &REASONS]).await?;
        Ok(rows.iter().map(|row| (row.get(0), count(row, 1))).collect())
    };
    Ok(Outbox {
        unsent: count(&unsent, 0),
        unsent_bytes: count(&unsent, 1),
        oldest: unsent.get::<_, Option<i64>>(2).map(moment),
        dead: of(DEAD).await?,
        dropped: of(GIVEN_UP).await?,
        failures: reasons(UNSENT).await?,
        graves: reasons(DEAD).await?,
    })
}

/// Of keys `ln(u) / weight`, with `u` uniform in (0, 1), the largest are a sample in which each has a chance in proportion to
/// its weight (Efraimidis and Spirakis, 2006). What is uniform is a hash of the trace's number and the seed.
const DRAW: &str = "
SELECT seq, priority, weight / sum(weight) OVER () AS probability FROM (
    SELECT seq, priority, power(greatest(least(priority, 1), 0), $2) AS weight FROM trace WHERE tenant = $1
) AS weighted WHERE weight > 0
ORDER BY ln(((hashint8extended(seq, $3) & 9007199254740991)::float8 + 0.5) / 9007199254740992) / weight DESC, seq LIMIT $4";

const SIZES: &str = "
SELECT t.seq, t.body_size::int8 + coalesce(c.size, 0) FROM trace AS t
LEFT JOIN code AS c ON c.tenant = t.tenant AND c.sha256 = t.code WHERE t.tenant = $1 AND t.seq = ANY($2)";

/// Traces, each with its priority and its chance in one draw among all; and how many were drawn that would be too much.
pub(super) async fn sample(
    session: &Session,
    tenant: i32,
    count: usize,
    exponent: f64,
    seed: u64,
    max_bytes: usize,
) -> Result<(Vec<(Stored, f64, f64)>, u64), Trouble> {
    let drawn = session.query(DRAW, &[&tenant, &exponent, &seed.cast_signed(), &number(count)]).await?;
    let seqs: Vec<i64> = drawn.iter().map(|row| row.get(0)).collect();
    // How long they are first: what would be too much is not read.
    let sizes = session.query(SIZES, &[&tenant, &seqs]).await?;
    let sizes: std::collections::HashMap<i64, i64> = sizes.iter().map(|row| (row.get(0), row.get(1))).collect();
    let mut bytes = 0;
    let fits = |seq: &&i64| {
        let is_first = bytes == 0;
        bytes += sizes.get(*seq).map_or(0, |size| usize::try_from(*size).unwrap_or(0));
        is_first || bytes <= max_bytes
    };
    let read = seqs.iter().take_while(fits).count();
    let (seqs, left) = (&seqs[..read], (seqs.len() - read) as u64);
    let drawn = &drawn[..read];
    let found = session.query(whole!("AND t.seq = ANY($2)"), &[&tenant, &seqs]).await?;
    let mut found: std::collections::HashMap<i64, Stored> = found.iter().map(|row| (row.get(9), stored(row))).collect();
    // One that is not found was deleted meanwhile.
    let whole = |row: &Row| Some((found.remove(&row.get(0))?, row.get(1), row.get(2)));
    Ok((drawn.iter().filter_map(whole).collect(), left))
}

fn execution(Id(bytes): Id) -> ExecutionId {
    ExecutionId::from_bytes(bytes)
}

fn number(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(super) fn count(row: &Row, at: usize) -> u64 {
    u64::try_from(row.get::<_, i64>(at)).unwrap_or(0)
}
