//! Traces and heads of executions, written in one statement.
//!
//! The columns of all traces go to the server as arrays, in binary. The one statement stores programs, heads and traces and
//! is its own transaction: a trace that comes alone costs one round trip and one commit. Traces whose id is there already
//! are left out by it, and looked at one by one afterwards.
//!
//! **Invariant:** every process inserts in the order of ids, so two that store the same traces at the same moment wait for
//! each other once, and never in a circle.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    super::{
        Commit, body,
        connection::Trouble,
        row::{Origin, Row},
    },
    schema,
    session::{Id, Session},
};

/// That an execution has begun.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) tenant: i32,
    pub(super) id: Id,
    pub(super) owner: i64,
    pub(super) ts: i64,
    pub(super) json: String,
}

/// A trace, and the number of its tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbered<'a> {
    pub(super) tenant: i32,
    pub(super) row: &'a Row,
    /// What the capability that it names stands for.
    pub(super) capability: Option<Id>,
}

impl Numbered<'_> {
    fn key(&self) -> (i32, Id) {
        (self.tenant, Id(*self.row.id.as_bytes()))
    }
}

/// Nothing is stored if the tables are not of this version. The locks are those of `keys`: taken before any number is.
const STORE: &str = "
WITH gate AS MATERIALIZED (
    SELECT pg_advisory_xact_lock_shared(8100849829732679682),
        pg_advisory_xact_lock_shared(8101131304709390336 | last_value)
    FROM trace_seq, meta WHERE version = $1
), programs AS (
    INSERT INTO code (tenant, sha256, size, zstd)
    SELECT c.tenant, c.sha256, c.size, c.zstd
    FROM gate, unnest($2::int4[], $3::bytea[], $4::int4[], $5::bytea[]) AS c (tenant, sha256, size, zstd)
    ON CONFLICT (tenant, sha256) DO NOTHING
), begun AS (
    INSERT INTO running (tenant, id, owner, ts, head)
    SELECT h.tenant, h.id, h.owner, h.ts, h.head
    FROM gate, unnest($6::int4[], $7::uuid[], $8::int8[], $9::int8[], $10::text[]) AS h (tenant, id, owner, ts, head)
    ON CONFLICT (tenant, id) DO UPDATE SET owner = excluded.owner, ts = excluded.ts, head = excluded.head
), ended AS (
    DELETE FROM running USING gate, unnest($11::int4[], $12::uuid[]) AS e (tenant, id)
    WHERE running.tenant = e.tenant AND running.id = e.id
), stored AS (
    INSERT INTO trace (tenant, seq, id, parent, ts, stored_at, success, interrupted, error_code, duration_ms, entry, caller,
        client, folded_who, capability, capability_id, intent, folded_intent, code, tasks, task_bytes, answer_bytes, size,
        outbox, tools, tool_calls, task_tool, task_ok, task_ms, task_result_bytes, body_size, body, delivered_by)
    SELECT r.tenant, nextval('trace_seq'), r.id, r.parent, r.ts, (extract(epoch FROM clock_timestamp()) * 1000)::int8,
        r.success, r.interrupted, r.error_code, r.duration_ms, r.entry, r.caller, r.client, r.folded_who, r.capability,
        r.capability_id, r.intent, r.folded_intent, r.code, r.tasks, r.task_bytes, r.answer_bytes, octet_length(r.body),
        r.outbox, ($13::text[])[r.tools_from + 1 : r.tools_to], ($14::int4[])[r.tools_from + 1 : r.tools_to],
        ($15::int4[])[r.tasks_from + 1 : r.tasks_from + r.tasks],
        ($16::bool[])[r.tasks_from + 1 : r.tasks_from + r.tasks],
        ($17::float8[])[r.tasks_from + 1 : r.tasks_from + r.tasks],
        ($18::int8[])[r.tasks_from + 1 : r.tasks_from + r.tasks], r.body_size, r.body, r.delivered_by
    FROM gate, unnest($19::int4[], $20::uuid[], $21::uuid[], $22::int8[], $23::bool[], $24::bool[], $25::text[],
        $26::float8[], $27::text[], $28::text[], $29::text[], $30::text[], $31::text[], $32::uuid[], $33::text[],
        $34::text[], $35::bytea[], $36::int4[], $37::int8[], $38::int8[], $39::int2[], $40::int4[], $41::int4[],
        $42::int4[], $43::int4[], $44::bytea[], $45::text[])
        AS r (tenant, id, parent, ts, success, interrupted, error_code, duration_ms, entry, caller, client, folded_who,
        capability, capability_id, intent, folded_intent, code, tasks, task_bytes, answer_bytes, outbox, tools_from,
        tools_to, tasks_from, body_size, body, delivered_by)
    ON CONFLICT (tenant, id) DO NOTHING
    RETURNING tenant, id
)
SELECT version, stored.tenant, stored.id FROM meta LEFT JOIN stored ON true";

/// What is sent for traces, column by column.
#[derive(Debug, Default)]
struct Columns<'a> {
    code_tenant: Vec<i32>,
    code_sha256: Vec<&'a [u8]>,
    code_size: Vec<i32>,
    code_zstd: Vec<&'a [u8]>,
    ended_tenant: Vec<i32>,
    ended_id: Vec<Id>,
    tools: Vec<String>,
    tool_calls: Vec<i32>,
    task_tool: Vec<i32>,
    task_ok: Vec<bool>,
    task_ms: Vec<f64>,
    task_result_bytes: Vec<i64>,
    tenant: Vec<i32>,
    id: Vec<Id>,
    parent: Vec<Option<Id>>,
    ts: Vec<i64>,
    success: Vec<bool>,
    interrupted: Vec<bool>,
    error_code: Vec<Option<String>>,
    duration_ms: Vec<f64>,
    entry: Vec<&'static str>,
    caller: Vec<String>,
    client: Vec<Option<String>>,
    folded_who: Vec<String>,
    capability: Vec<Option<String>>,
    capability_id: Vec<Option<Id>>,
    intent: Vec<Option<String>>,
    folded_intent: Vec<Option<String>>,
    code: Vec<Option<&'a [u8]>>,
    tasks: Vec<i32>,
    task_bytes: Vec<i64>,
    answer_bytes: Vec<i64>,
    outbox: Vec<i16>,
    tools_from: Vec<i32>,
    tools_to: Vec<i32>,
    tasks_from: Vec<i32>,
    body_size: Vec<i32>,
    body: Vec<&'a [u8]>,
    delivered_by: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn of(traces: &[Numbered<'a>]) -> Columns<'a> {
        let mut columns = Columns::default();
        let mut programs = BTreeMap::new();
        for trace in traces {
            if let Some(code) = &trace.row.code {
                programs.insert((trace.tenant, &code.sha256[..]), &code.text);
            }
            columns.add(trace);
        }
        for ((tenant, sha256), text) in programs {
            columns.code_tenant.push(tenant);
            columns.code_sha256.push(sha256);
            columns.code_size.push(small(text.size));
            columns.code_zstd.push(&text.zstd);
        }
        columns
    }

    fn add(&mut self, trace: &Numbered<'a>) {
        let Numbered { tenant, row, capability } = *trace;
        let id = Id(*row.id.as_bytes());
        if row.origin == Origin::Own {
            self.ended_tenant.push(tenant);
            self.ended_id.push(id);
        }
        self.tenant.push(tenant);
        self.id.push(id);
        self.parent.push(row.parent.map(|parent| Id(*parent.as_bytes())));
        self.ts.push(row.ts);
        self.success.push(row.success);
        self.interrupted.push(row.interrupted);
        self.error_code.push(row.error_code.clone());
        self.duration_ms.push(row.duration_ms);
        self.entry.push(row.entry);
        self.caller.push(row.caller.clone());
        self.client.push(row.client.clone());
        let client = row.client.as_deref().unwrap_or_default();
        self.folded_who.push(format!("{client}\n{}", row.caller).to_lowercase());
        self.capability.push(row.capability.clone());
        self.capability_id.push(capability);
        self.intent.push(row.intent.clone());
        self.folded_intent.push(row.intent.as_deref().map(str::to_lowercase));
        self.code.push(row.code.as_ref().map(|code| &code.sha256[..]));
        self.task_bytes.push(row.task_bytes);
        self.answer_bytes.push(row.answer_bytes);
        self.outbox.push(match row.origin {
            Origin::Own => UNSENT,
            Origin::Elsewhere => SENT,
        });
        self.tools_from.push(small(self.tools.len()));
        self.tasks_from.push(small(self.task_tool.len()));
        self.tasks.push(small(row.tasks.len()));
        let first = self.tools.len();
        let mut places = HashMap::new();
        for task in &row.tasks {
            let place = *places.entry(task.tool.as_str()).or_insert_with(|| {
                self.tools.push(task.tool.clone());
                self.tool_calls.push(0);
                self.tools.len() - 1
            });
            self.tool_calls[place] += 1;
            self.task_tool.push(small(place - first + 1));
            self.task_ok.push(task.success);
            self.task_ms.push(task.duration_ms);
            self.task_result_bytes.push(task.result_bytes);
        }
        self.tools_to.push(small(self.tools.len()));
        self.body_size.push(small(row.body.size));
        self.body.push(&row.body.zstd);
        self.delivered_by.push(row.delivered_by.as_deref());
    }
}

/// Numbers in `outbox`.
pub(super) const UNSENT: i16 = 0;
pub(super) const SENT: i16 = 1;
pub(super) const DEAD: i16 = 2;
pub(super) const GIVEN_UP: i16 = 3;

/// Stores heads and traces, and says what became of each trace.
pub(super) async fn store(session: &Session, heads: &[Head], traces: &[Numbered<'_>]) -> Result<Vec<Commit>, Trouble> {
    let settle = async |trace| session.transaction(async |session| settle(session, trace).await).await;
    store_with(session, heads, traces, settle).await
}

/// The same within a transaction.
pub(super) async fn store_within(
    session: &Session,
    heads: &[Head],
    traces: &[Numbered<'_>],
) -> Result<Vec<Commit>, Trouble> {
    store_with(session, heads, traces, async |trace| settle(session, trace).await).await
}

async fn store_with<'a>(
    session: &Session,
    heads: &[Head],
    traces: &[Numbered<'a>],
    settle: impl AsyncFn(Numbered<'a>) -> Result<Commit, Trouble>,
) -> Result<Vec<Commit>, Trouble> {
    let mut order: Vec<usize> = (0..traces.len()).collect();
    order.sort_by_key(|at| traces[*at].key());
    let mut stored = insert(session, heads, &order.iter().map(|at| traces[*at]).collect::<Vec<_>>()).await?;
    let mut commits = vec![Commit::Stored; traces.len()];
    for at in order {
        // Of two of the same id the first was stored.
        if !stored.remove(&traces[at].key()) {
            commits[at] = settle(traces[at]).await?;
        }
    }
    Ok(commits)
}

/// Inserts what is not there yet, and says which traces were not.
pub(super) async fn insert(
    session: &Session,
    heads: &[Head],
    traces: &[Numbered<'_>],
) -> Result<HashSet<(i32, Id)>, Trouble> {
    let column = |column: fn(&Head) -> i64| heads.iter().map(column).collect::<Vec<_>>();
    let (owners, moments) = (column(|head| head.owner), column(|head| head.ts));
    let tenants: Vec<_> = heads.iter().map(|head| head.tenant).collect();
    let ids: Vec<_> = heads.iter().map(|head| head.id).collect();
    let jsons: Vec<_> = heads.iter().map(|head| head.json.as_str()).collect();
    let c = Columns::of(traces);
    let rows = session
        .query(
            STORE,
            &[
                &schema::VERSION,
                &c.code_tenant,
                &c.code_sha256,
                &c.code_size,
                &c.code_zstd,
                &tenants,
                &ids,
                &owners,
                &moments,
                &jsons,
                &c.ended_tenant,
                &c.ended_id,
                &c.tools,
                &c.tool_calls,
                &c.task_tool,
                &c.task_ok,
                &c.task_ms,
                &c.task_result_bytes,
                &c.tenant,
                &c.id,
                &c.parent,
                &c.ts,
                &c.success,
                &c.interrupted,
                &c.error_code,
                &c.duration_ms,
                &c.entry,
                &c.caller,
                &c.client,
                &c.folded_who,
                &c.capability,
                &c.capability_id,
                &c.intent,
                &c.folded_intent,
                &c.code,
                &c.tasks,
                &c.task_bytes,
                &c.answer_bytes,
                &c.outbox,
                &c.tools_from,
                &c.tools_to,
                &c.tasks_from,
                &c.body_size,
                &c.body,
                &c.delivered_by,
            ],
        )
        .await?;
    match rows.first().map(|row| row.get::<_, i64>(0)) {
        Some(schema::VERSION) => {}
        Some(other) => return Err(Trouble::Newer(other)),
        None => return Err(Trouble::Other("the tables of pml are not complete".to_owned())),
    }
    Ok(rows.iter().filter_map(|row| Some((row.get::<_, Option<i32>>(1)?, row.get::<_, Option<Id>>(2)?))).collect())
}

/// What becomes of a trace if there was one of its id. Within a transaction.
async fn settle(session: &Session, trace: Numbered<'_>) -> Result<Commit, Trouble> {
    let row = trace.row;
    let id = Id(*row.id.as_bytes());
    let sql =
        "SELECT interrupted, code, body_size, body, delivered_by FROM trace WHERE tenant = $1 AND id = $2 FOR UPDATE";
    let Some(found) = session.query_opt(sql, &[&trace.tenant, &id]).await? else {
        // Deleted meanwhile.
        return insert(session, &[], &[trace]).await.map(|_| Commit::Stored);
    };
    let (interrupted, code, size, zstd): (bool, Option<&[u8]>, i32, &[u8]) =
        (found.get(0), found.get(1), found.get(2), found.get(3));
    if interrupted && !row.interrupted && row.may_complete(found.get(4)) {
        // Its process was taken for dead.
        session.execute("DELETE FROM trace WHERE tenant = $1 AND id = $2", &[&trace.tenant, &id]).await?;
        return insert(session, &[], &[trace]).await.map(|_| Commit::Stored);
    }
    if row.interrupted && !interrupted {
        return Ok(Commit::Duplicate);
    }
    let is_same_code = code == row.code.as_ref().map(|code| &code.sha256[..]);
    // Another version of the compressor may give other bytes for the same text.
    let is_same_body = zstd == row.body.zstd
        || body::decode(size.into(), zstd).ok() == body::decode(row.body.size as i64, &row.body.zstd).ok();
    Ok(if is_same_code && is_same_body { Commit::Duplicate } else { Commit::Conflict })
}

/// A number that is bounded by the size of what is stored.
fn small(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
