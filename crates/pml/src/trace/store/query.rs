//! Questions to the database, each about the rows of one scope.

use pml_wire::{
    CapabilityId, ExecutionId,
    trace::{Timestamp, Trace},
};
use rusqlite::{Connection, OptionalExtension, Row, functions::FunctionFlags, named_params, types::Value};

use super::{
    Cursor, Filter, Found, Outbox, Outgoing, Page, Reading, Record, Scope, Stats, StoreError, Summary, ToolStats, body,
    row::{entry_of, millis, without_nul},
};
use crate::trace::{SanitizedTrace, TraceHead};

/// Most tools that a summary names.
const SUMMARY_TOOLS: i64 = 4;
/// Most ids that are named where one was meant.
pub(super) const SEVERAL: i64 = 5;

const BODY: &str =
    "trace.id, body.size, body.zstd, code.size, code.zstd, trace.capability_id, priority, stored_at, attempts, delivered_by
    FROM trace LEFT JOIN body USING (seq) LEFT JOIN code ON code.id = trace.code";

/// The rows of one scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) db: &'a Connection,
    /// The number of the scope; goes into every statement.
    pub(crate) tenant: i64,
}

impl<'a> View<'a> {
    /// `None` if there is nothing of this scope.
    pub(crate) fn of(db: &'a Connection, scope: &Scope) -> rusqlite::Result<Option<View<'a>>> {
        Ok(tenant(db, scope)?.map(|tenant| View { db, tenant }))
    }
}

/// The number of a scope.
pub(super) fn tenant(db: &Connection, scope: &Scope) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT id FROM tenant WHERE org = ?1 AND project = ?2")?
        .query_row([scope.org(), scope.project()], |row| row.get(0))
        .optional()
}

/// Functions of ours that queries use.
pub(super) fn add_functions(db: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    // SQLite's own `lower` knows only ASCII.
    db.create_scalar_function("has_text", 2, flags, |context| {
        let text = context.get_raw(0).as_str_or_null()?.unwrap_or_default().to_lowercase();
        let part = context.get_raw(1).as_str_or_null()?.unwrap_or_default().to_lowercase();
        Ok(text.contains(&part))
    })
}

pub(super) fn by_id(view: View<'_>, id: ExecutionId) -> Result<Option<Whole>, StoreError> {
    let sql = format!("SELECT {BODY} WHERE tenant = ?1 AND trace.id = ?2");
    let mut statement = view.db.prepare_cached(&sql).map_err(StoreError::reading)?;
    let found = statement.query_row((view.tenant, id.as_bytes()), Stored::read).optional();
    found.map_err(StoreError::reading)?.map(Stored::whole).transpose()
}

/// A trace, and what is known about it besides.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) trace: Trace,
    pub(super) capability: Option<CapabilityId>,
    pub(super) priority: f64,
    pub(super) stored_at: Timestamp,
    pub(super) delivered_by: Option<String>,
    /// How often sending it has failed.
    pub(super) attempts: u32,
}

impl Whole {
    pub(super) fn into_record(self) -> Record {
        Record {
            // Traces were sanitized when they were stored.
            trace: SanitizedTrace::new(self.trace),
            capability: self.capability,
            priority: self.priority,
            stored_at: self.stored_at,
            delivered_by: self.delivered_by,
        }
    }

    pub(super) fn into_outgoing(self) -> Outgoing {
        Outgoing { attempts: self.attempts, trace: SanitizedTrace::new(self.trace) }
    }
}

/// A trace as it lies in a database.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) id: ExecutionId,
    pub(super) body: Option<(i64, Vec<u8>)>,
    pub(super) code: Option<(i64, Vec<u8>)>,
    pub(super) capability: Option<CapabilityId>,
    pub(super) priority: f64,
    pub(super) stored_at: Timestamp,
    pub(super) attempts: u32,
    pub(super) delivered_by: Option<String>,
}

impl Stored {
    fn read(row: &Row<'_>) -> rusqlite::Result<Stored> {
        let pair = |at: usize| -> rusqlite::Result<Option<(i64, Vec<u8>)>> {
            Ok(row.get::<_, Option<i64>>(at)?.zip(row.get::<_, Option<Vec<u8>>>(at + 1)?))
        };
        Ok(Stored {
            id: ExecutionId::from_bytes(row.get(0)?),
            body: pair(1)?,
            code: pair(3)?,
            capability: capability(row, 5)?,
            priority: row.get::<_, Option<f64>>(6)?.unwrap_or_default(),
            stored_at: moment(row.get(7)?),
            attempts: row.get(8)?,
            delivered_by: row.get(9)?,
        })
    }

    /// Bytes of the trace as JSON, nearly.
    pub(super) fn size(&self) -> usize {
        let size =
            |part: &Option<(i64, Vec<u8>)>| part.as_ref().map_or(0, |(size, _)| usize::try_from(*size).unwrap_or(0));
        size(&self.body) + size(&self.code)
    }

    pub(super) fn whole(mut self) -> Result<Whole, StoreError> {
        let delivered_by = self.delivered_by.take();
        let Stored { capability, priority, stored_at, attempts, .. } = self;
        Ok(Whole { trace: self.trace()?, capability, priority, stored_at, delivered_by, attempts })
    }

    pub(super) fn trace(self) -> Result<Trace, StoreError> {
        let id = self.id;
        let damaged = |why: String| StoreError::Damaged { id, why };
        let (size, zstd) = self.body.ok_or_else(|| damaged("it has no body".to_owned()))?;
        let text = body::decode(size, &zstd).map_err(|err| damaged(err.to_string()))?;
        let mut trace: Trace = serde_json::from_str(&text).map_err(|err| damaged(err.to_string()))?;
        if let Some((size, zstd)) = self.code {
            trace.code = Some(body::decode(size, &zstd).map_err(|err| damaged(err.to_string()))?);
        }
        Ok(trace)
    }
}

/// The trace whose id begins with this, with or without hyphens.
pub(super) fn find(view: View<'_>, prefix: &str) -> rusqlite::Result<Found> {
    let Some((first, last)) = id_bounds(prefix) else { return Ok(Found::Nothing) };
    let sql = "SELECT id FROM trace WHERE tenant = ?1 AND id BETWEEN ?2 AND ?3 ORDER BY id LIMIT ?4";
    let mut statement = view.db.prepare_cached(sql)?;
    let range = (view.tenant, first, last, SEVERAL);
    let ids = statement.query_map(range, |row| row.get(0).map(ExecutionId::from_bytes))?;
    ids.collect::<rusqlite::Result<Vec<_>>>().map(Found::of)
}

/// The first and the last id that begin with these digits, with or without hyphens.
pub(super) fn id_bounds(prefix: &str) -> Option<([u8; 16], [u8; 16])> {
    let digits: String = prefix.chars().filter(|c| *c != '-').collect();
    if digits.is_empty() || digits.len() > 32 || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let bound = |filler: &str| -> [u8; 16] {
        let whole = format!("{digits}{}", filler.repeat(32 - digits.len()));
        u128::from_str_radix(&whole, 16).unwrap_or_default().to_be_bytes()
    };
    Some((bound("0"), bound("f")))
}

/// The conditions of a filter, for `trace`.
const CONDITIONS: &str = "
    trace.tenant = :tenant
    AND (:failed = 0 OR trace.success = 0)
    AND (:since IS NULL OR trace.ts >= :since)
    AND (:before IS NULL OR trace.ts < :before)
    AND (:client IS NULL OR has_text(trace.client, :client) OR has_text(trace.caller, :client))
    AND (:intent IS NULL OR has_text(trace.intent, :intent))
    AND (:capability IS NULL OR trace.capability_id = :capability)
    AND (:tool IS NULL OR EXISTS (SELECT 1 FROM task WHERE task.trace = trace.seq
         AND task.tool IN (SELECT id FROM tool WHERE name GLOB :tool)))";

struct Conditions {
    failed: bool,
    since: Option<i64>,
    before: Option<i64>,
    client: Option<String>,
    intent: Option<String>,
    capability: Option<[u8; 16]>,
    tool: Option<String>,
}

impl Conditions {
    fn of(filter: &Filter) -> Conditions {
        // As in the columns.
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty()).map(without_nul);
        Conditions {
            failed: filter.failed,
            since: filter.since.map(millis),
            before: filter.before.map(millis),
            client: given(&filter.client),
            intent: given(&filter.intent),
            capability: filter.capability.map(|id| *id.as_bytes()),
            // A bracket is a bracket, not a class of characters.
            tool: given(&filter.tool).map(|pattern| pattern.replace('[', "[[]")),
        }
    }
}

pub(super) fn list(view: View<'_>, filter: &Filter, reading: Reading, limit: usize) -> rusqlite::Result<Page> {
    // A transaction, so that the end that is returned is that of what was read.
    let View { db, tenant } = view;
    let transaction = db.unchecked_transaction()?;
    // Of all scopes: what is stored later is behind it.
    let last = transaction.query_row("SELECT coalesce(max(seq), 0) FROM trace", [], |row| row.get(0))?;
    let (place, order, cursor) = match reading {
        Reading::Newest => {
            ("seq <= :number AND ts <= :began", "ts DESC, seq DESC", Cursor { began: i64::MAX, number: i64::MAX })
        }
        Reading::Before(cursor) => ("(ts, seq) < (:began, :number)", "ts DESC, seq DESC", cursor),
        Reading::StoredAfter(cursor) => ("seq > :number AND :began NOTNULL", "seq", cursor),
    };
    let sql = format!(
        "SELECT seq, id, parent, ts, duration_ms, success, interrupted, error_code, entry, caller, client, intent, tasks,
         capability_id FROM trace WHERE {place} AND {CONDITIONS} ORDER BY {order} LIMIT :limit"
    );
    let Conditions { failed, since, before, client, intent, capability, tool } = Conditions::of(filter);
    let mut statement = transaction.prepare_cached(&sql)?;
    let one_more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let rows = statement.query_map(
        named_params! {
            ":tenant": tenant, ":failed": failed, ":since": since, ":before": before, ":client": client,
            ":intent": intent, ":capability": capability, ":tool": tool,
            ":began": cursor.began, ":number": cursor.number, ":limit": one_more,
        },
        |row| Ok((row.get::<_, i64>(0)?, summary(row)?)),
    )?;
    let mut rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    for (seq, summary) in &mut rows {
        summary.tools = tools(&transaction, *seq)?;
    }
    let place = |(seq, summary): &(i64, Summary)| Cursor { began: millis(summary.timestamp), number: *seq };
    let next = rows.last().filter(|_| has_more).map(place);
    let end = match reading {
        // What was not read yet must not be passed over.
        Reading::StoredAfter(_) if has_more => next.unwrap_or(cursor),
        Reading::StoredAfter(_) => Cursor { began: 0, number: i64::max(last, cursor.number) },
        _ => Cursor { began: 0, number: last },
    };
    Ok(Page { traces: rows.into_iter().map(|(_, summary)| summary).collect(), next, end })
}

fn summary(row: &Row<'_>) -> rusqlite::Result<Summary> {
    Ok(Summary {
        id: ExecutionId::from_bytes(row.get(1)?),
        parent: row.get::<_, Option<[u8; 16]>>(2)?.map(ExecutionId::from_bytes),
        timestamp: moment(row.get(3)?),
        duration_ms: row.get(4)?,
        success: row.get(5)?,
        is_interrupted: row.get(6)?,
        error_code: row.get(7)?,
        entry: entry_of(&row.get::<_, String>(8)?),
        caller: row.get(9)?,
        client: row.get(10)?,
        intent: row.get(11)?,
        capability: capability(row, 13)?,
        tasks: count(row, 12)?,
        tools: Vec::new(),
    })
}

fn tools(db: &Connection, seq: i64) -> rusqlite::Result<Vec<(String, u64)>> {
    let mut statement = db.prepare_cached(
        "SELECT name, count(*) FROM task JOIN tool ON tool.id = task.tool WHERE trace = ?1
         GROUP BY task.tool ORDER BY min(n) LIMIT ?2",
    )?;
    let rows = statement.query_map((seq, SUMMARY_TOOLS), |row| Ok((row.get(0)?, count(row, 1)?)))?;
    rows.collect()
}

pub(super) fn running(view: View<'_>) -> rusqlite::Result<Vec<TraceHead>> {
    let sql = "SELECT head FROM running WHERE tenant = ?1 ORDER BY ts DESC LIMIT 1000";
    let mut statement = view.db.prepare_cached(sql)?;
    let heads = statement.query_map([view.tenant], |row| row.get::<_, String>(0))?;
    let heads = heads.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(heads.iter().filter_map(|head| serde_json::from_str(head).ok()).collect())
}

pub(super) fn stats(view: View<'_>, filter: &Filter) -> rusqlite::Result<Stats> {
    let View { db, tenant } = view;
    let transaction = db.unchecked_transaction()?;
    let Conditions { failed, since, before, client, intent, capability, tool } = Conditions::of(filter);
    let params = named_params! {
        ":tenant": tenant, ":failed": failed, ":since": since, ":before": before, ":client": client, ":intent": intent,
        ":capability": capability, ":tool": tool,
    };
    let sql = format!(
        "SELECT count(*), coalesce(sum(success = 0), 0), coalesce(sum(interrupted), 0), min(ts), max(ts),
         coalesce(sum(task_bytes), 0), coalesce(sum(min(answer_bytes, task_bytes)), 0) FROM trace WHERE {CONDITIONS}"
    );
    let mut stats = transaction.prepare_cached(&sql)?.query_row(params, |row| {
        Ok(Stats {
            traces: count(row, 0)?,
            failed: count(row, 1)?,
            interrupted: count(row, 2)?,
            first: row.get::<_, Option<i64>>(3)?.map(moment),
            last: row.get::<_, Option<i64>>(4)?.map(moment),
            intermediate_bytes: count(row, 5)?,
            answer_bytes: count(row, 6)?,
            ..Stats::default()
        })
    })?;
    // Of a filter by tool, the tools that match, not the others of the same traces.
    let sql = format!(
        "WITH used AS (
           SELECT task.tool AS number, task.success AS good, task.duration_ms AS took, result_bytes,
             row_number() OVER (PARTITION BY task.tool ORDER BY task.duration_ms) AS place,
             count(*) OVER (PARTITION BY task.tool) AS total
           FROM task JOIN trace ON trace.seq = task.trace
           WHERE (:tool IS NULL OR task.tool IN (SELECT id FROM tool WHERE name GLOB :tool)) AND {CONDITIONS}
         )
         SELECT name, total, sum(good = 0),
           max(CASE WHEN place = (total + 1) / 2 THEN took END), max(CASE WHEN place = (total * 95 + 99) / 100 THEN took END),
           sum(result_bytes)
         FROM used JOIN tool ON tool.id = used.number GROUP BY number ORDER BY total DESC, name"
    );
    let mut statement = transaction.prepare_cached(&sql)?;
    let rows = statement.query_map(params, |row| {
        Ok(ToolStats {
            tool: row.get(0)?,
            calls: count(row, 1)?,
            failed: count(row, 2)?,
            p50_ms: row.get::<_, Option<f64>>(3)?.unwrap_or_default(),
            p95_ms: row.get::<_, Option<f64>>(4)?.unwrap_or_default(),
            result_bytes: count(row, 5)?,
        })
    })?;
    stats.tools = rows.collect::<rusqlite::Result<_>>()?;
    let mut statement = transaction.prepare_cached("SELECT what, n FROM count ORDER BY what")?;
    stats.counts =
        statement.query_map([], |row| Ok((row.get(0)?, count(row, 1)?)))?.collect::<rusqlite::Result<_>>()?;
    stats.stored_bytes = used_bytes(&transaction)?;
    let in_view = View { db: &transaction, tenant };
    (stats.unsent, stats.dead) = (unsent_count(in_view)?.0, unsendable_count(in_view, DEAD)?);
    Ok(stats)
}

/// Numbers in `outbox`.
pub(super) const UNSENT: i64 = 0;
pub(super) const SENT: i64 = 1;
pub(super) const DEAD: i64 = 2;
pub(super) const GIVEN_UP: i64 = 3;
/// Most reasons that are told.
pub(super) const REASONS: i64 = 20;

/// How many are unsent, and how large they are.
fn unsent_count(view: View<'_>) -> rusqlite::Result<(u64, u64)> {
    let sql = "SELECT count(*), coalesce(sum(size), 0) FROM trace WHERE tenant = ?1 AND outbox = 0";
    view.db.prepare_cached(sql)?.query_row([view.tenant], |row| Ok((count(row, 0)?, count(row, 1)?)))
}

fn unsendable_count(view: View<'_>, state: i64) -> rusqlite::Result<u64> {
    let sql = "SELECT count(*) FROM trace WHERE tenant = ?1 AND outbox = ?2 AND outbox > 1";
    view.db.prepare_cached(sql)?.query_row((view.tenant, state), |row| count(row, 0))
}

/// What waits to be sent to a hub.
pub(super) fn outbox(view: View<'_>) -> rusqlite::Result<Outbox> {
    let (unsent, unsent_bytes) = unsent_count(view)?;
    let sql = "SELECT min(ts) FROM trace WHERE tenant = ?1 AND outbox = 0";
    let oldest = view.db.query_row(sql, [view.tenant], |row| row.get::<_, Option<i64>>(0))?;
    let reasons = |state: i64| -> rusqlite::Result<Vec<(String, u64)>> {
        let sql =
            "SELECT outbox_reason, count(*) FROM trace WHERE tenant = ?1 AND outbox = ?2 AND outbox_reason NOTNULL
                   GROUP BY 1 ORDER BY 2 DESC LIMIT ?3";
        let mut statement = view.db.prepare_cached(sql)?;
        let rows = statement.query_map((view.tenant, state, REASONS), |row| Ok((row.get(0)?, count(row, 1)?)))?;
        rows.collect()
    };
    Ok(Outbox {
        unsent,
        unsent_bytes,
        oldest: oldest.map(moment),
        dead: unsendable_count(view, DEAD)?,
        dropped: unsendable_count(view, GIVEN_UP)?,
        failures: reasons(UNSENT)?,
        graves: reasons(DEAD)?,
    })
}

/// The size of the database without pages that are free.
pub(super) fn used_bytes(db: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name: &str| db.query_row(&format!("PRAGMA {name}"), [], |row| count(row, 0));
    Ok(pragma("page_count")?.saturating_sub(pragma("freelist_count")?) * pragma("page_size")?)
}

/// Unsent traces, the oldest first.
pub(super) fn unsent(view: View<'_>, limit: usize) -> Result<Vec<Whole>, StoreError> {
    let sql = format!("SELECT {BODY} WHERE tenant = ?1 AND outbox = 0 ORDER BY ts, trace.seq LIMIT ?2");
    let mut statement = view.db.prepare_cached(&sql).map_err(StoreError::reading)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map((view.tenant, limit), Stored::read).map_err(StoreError::reading)?;
    rows.map(|row| row.map_err(StoreError::reading)?.whole()).collect()
}

/// Numbers and priorities of all traces.
pub(super) fn priorities(view: View<'_>, mut visit: impl FnMut(i64, f64)) -> rusqlite::Result<()> {
    let mut statement = view.db.prepare_cached("SELECT seq, priority FROM trace WHERE tenant = ?1")?;
    let mut rows = statement.query([view.tenant])?;
    while let Some(row) = rows.next()? {
        let priority = match row.get::<_, Value>(1)? {
            Value::Real(priority) => priority,
            Value::Integer(priority) => priority as f64,
            _ => 0.0,
        };
        visit(row.get(0)?, priority);
    }
    Ok(())
}

pub(super) fn by_number(view: View<'_>, seq: i64) -> Result<Option<Stored>, StoreError> {
    let sql = format!("SELECT {BODY} WHERE tenant = ?1 AND trace.seq = ?2");
    let mut statement = view.db.prepare_cached(&sql).map_err(StoreError::reading)?;
    statement.query_row((view.tenant, seq), Stored::read).optional().map_err(StoreError::reading)
}

/// What is wrong with the database, if anything is.
pub(super) fn damage(db: &Connection) -> rusqlite::Result<Option<String>> {
    let found: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok(Some(found).filter(|found| found != "ok"))
}

fn capability(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<CapabilityId>> {
    Ok(row.get::<_, Option<[u8; 16]>>(at)?.map(CapabilityId::from_bytes))
}

pub(super) fn moment(millis: i64) -> Timestamp {
    Timestamp(u64::try_from(millis).unwrap_or(0))
}

fn count(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(at).map(|count| u64::try_from(count).unwrap_or(0))
}
