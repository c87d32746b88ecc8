//! A trace as rows of the database.

use std::{collections::HashMap, io};

use pml_wire::{
    ExecutionId,
    trace::{Entry, TaskKind, Timestamp, Trace},
};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{
    Commit, Scope, ancestry,
    body::{self, Compressed, Encoder, MAX_BYTES},
    capability, query,
};

/// Longest name of a tool, and longest text of another column; the whole is in the body.
const MAX_COLUMN: usize = 1024;
/// No size is taken for more, so that sums of them have room.
const MAX_SIZE: i64 = 1 << 40;
/// Names of tools, and scopes, that are remembered with their number.
const MAX_KNOWN: usize = 10_000;

/// Where a trace comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// An execution of this pml: a hub may want it.
    Own,
    /// Another pml has sent it.
    Elsewhere,
}

/// A trace, encoded.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) scope: Scope,
    pub(super) origin: Origin,
    pub(super) id: ExecutionId,
    pub(super) parent: Option<ExecutionId>,
    pub(super) ts: i64,
    pub(super) success: bool,
    pub(super) interrupted: bool,
    pub(super) error_code: Option<String>,
    pub(super) duration_ms: f64,
    pub(super) entry: &'static str,
    pub(super) caller: String,
    pub(super) client: Option<String>,
    pub(super) capability: Option<String>,
    pub(super) intent: Option<String>,
    pub(super) code: Option<Code>,
    pub(super) code_hash: Option<String>,
    pub(super) task_bytes: i64,
    pub(super) answer_bytes: i64,
    pub(super) tasks: Vec<TaskRow>,
    pub(super) body: Compressed,
    /// The name of the key that it came with, if it is from elsewhere.
    pub(super) delivered_by: Option<String>,
}

#[derive(Debug)]
pub(super) struct Code {
    pub(super) sha256: [u8; 32],
    pub(super) text: Compressed,
}

#[derive(Debug)]
pub(super) struct TaskRow {
    pub(super) tool: String,
    pub(super) kind: &'static str,
    pub(super) success: bool,
    pub(super) error_code: Option<String>,
    pub(super) ts: i64,
    pub(super) duration_ms: f64,
    pub(super) result_bytes: i64,
}

/// Numbers of tools, by name, and of scopes.
#[derive(Debug, Default)]
pub(super) struct Known {
    tools: HashMap<String, i64>,
    tenants: HashMap<Scope, i64>,
}

impl Known {
    pub(super) fn clear(&mut self) {
        self.tools.clear();
        self.tenants.clear();
    }

    /// The number of a scope, which is given one if it has none.
    pub(super) fn tenant(&mut self, db: &Connection, scope: &Scope) -> rusqlite::Result<i64> {
        if let Some(number) = self.tenants.get(scope) {
            return Ok(*number);
        }
        let number = tenant_number(db, scope)?;
        if self.tenants.len() >= MAX_KNOWN {
            self.tenants.clear();
        }
        self.tenants.insert(scope.clone(), number);
        Ok(number)
    }
}

/// The number of a scope, which is given one if it has none.
pub(super) fn tenant_number(db: &Connection, scope: &Scope) -> rusqlite::Result<i64> {
    if let Some(number) = query::tenant(db, scope)? {
        return Ok(number);
    }
    db.prepare_cached("INSERT INTO tenant (org, project) VALUES (?1, ?2)")?.execute([scope.org(), scope.project()])?;
    Ok(db.last_insert_rowid())
}

impl Row {
    /// `None` if the trace is larger than the store takes.
    pub(super) fn new(
        scope: &Scope,
        origin: Origin,
        mut trace: Trace,
        encoder: &mut Encoder,
    ) -> io::Result<Option<Row>> {
        let code = trace.code.take();
        let json = serde_json::to_vec(&trace)?;
        if json.len() > MAX_BYTES || code.as_ref().is_some_and(|code| code.len() > MAX_BYTES) {
            return Ok(None);
        }
        let body = encoder.encode(&json)?;
        let code = match code {
            Some(text) => {
                Some(Code { sha256: Sha256::digest(text.as_bytes()).into(), text: encoder.encode(text.as_bytes())? })
            }
            None => None,
        };
        let sizes = result_sizes(&trace);
        // Of a passthrough call the one result is the answer, and of `pml run` no model reads any.
        let (task_bytes, answer_bytes) = match trace.entry {
            Entry::ExecuteCode => (sizes.iter().sum::<i64>().min(MAX_SIZE), raw_size(trace.result.as_deref())),
            Entry::Passthrough | Entry::Run | Entry::Capability | Entry::Workflow | Entry::Other => (0, 0),
        };
        let tasks = trace.task_results.into_iter().zip(sizes).map(|(task, result_bytes)| TaskRow {
            tool: cut(task.tool),
            kind: kind(task.kind),
            success: task.success,
            error_code: task.error.map(|error| cut(error.code)),
            ts: millis(task.timestamp),
            duration_ms: finite(task.duration_ms),
            result_bytes,
        });
        Ok(Some(Row {
            scope: scope.clone(),
            origin,
            id: trace.trace_id,
            parent: trace.parent_trace_id,
            ts: millis(trace.timestamp),
            success: trace.success,
            interrupted: trace.metadata.interrupted,
            error_code: trace.error_code.map(cut),
            duration_ms: finite(trace.duration_ms),
            entry: entry(trace.entry),
            caller: cut(trace.caller),
            client: trace.client.map(|client| cut(client.name)),
            capability: trace.capability_id.map(cut),
            intent: trace.intent.map(cut),
            code,
            code_hash: trace.code_hash.map(cut),
            task_bytes,
            answer_bytes,
            tasks: tasks.collect(),
            body,
            delivered_by: None,
        }))
    }

    /// About how much is written.
    pub(super) fn bytes(&self) -> usize {
        256 + self.body.zstd.len() + 64 * self.tasks.len()
    }

    /// Inserts the rows, in place of what says that the execution runs or was interrupted.
    pub(super) fn insert(&self, db: &Connection, known: &mut Known, now: u64) -> rusqlite::Result<Commit> {
        let tenant = known.tenant(db, &self.scope)?;
        if self.origin == Origin::Own {
            let sql = "DELETE FROM running WHERE id = ?1 AND tenant = ?2";
            db.prepare_cached(sql)?.execute(params![self.id.as_bytes(), tenant])?;
        }
        if let Some(commit) = self.settle(db, tenant)? {
            return Ok(commit);
        }
        if self.is_endless(db, tenant)? {
            return Ok(Commit::Endless);
        }
        let code = self.code.as_ref().map(|code| code.insert(db)).transpose()?;
        db.prepare_cached(
            "INSERT INTO trace (tenant, id, parent, ts, stored_at, success, interrupted, error_code, duration_ms, entry,
             caller, client, capability, intent, code, code_hash, tasks, task_bytes, answer_bytes, size, outbox, capability_id,
             delivered_by)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)",
        )?
        .execute(params![
            tenant,
            self.id.as_bytes(),
            self.parent.as_ref().map(ExecutionId::as_bytes),
            self.ts,
            millis(Timestamp(now)),
            self.success,
            self.interrupted,
            self.error_code,
            self.duration_ms,
            self.entry,
            self.caller,
            self.client,
            self.capability,
            self.intent,
            code,
            self.code_hash,
            self.tasks.len() as i64,
            self.task_bytes,
            self.answer_bytes,
            self.body.zstd.len() as i64,
            match self.origin {
                Origin::Own => query::UNSENT,
                Origin::Elsewhere => query::SENT,
            },
            self.capability.as_deref().map(|name| capability::resolve(db, tenant, name)).transpose()?.flatten()
                .map(|id| *id.as_bytes()),
            self.delivered_by,
        ])?;
        let seq = db.last_insert_rowid();
        db.prepare_cached("INSERT INTO body (seq, size, zstd) VALUES (?1, ?2, ?3)")?.execute(params![
            seq,
            self.body.size as i64,
            self.body.zstd
        ])?;
        for (n, task) in self.tasks.iter().enumerate() {
            let tool = tool_number(db, known, &task.tool)?;
            db.prepare_cached(
                "INSERT INTO task (trace, n, tool, kind, success, error_code, ts, duration_ms, result_bytes)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                seq,
                n as i64,
                tool,
                task.kind,
                task.success,
                task.error_code,
                task.ts,
                task.duration_ms,
                task.result_bytes
            ])?;
        }
        Ok(Commit::Stored)
    }

    /// Would this trace be its own ancestor? Executions of this pml are not: their ids are new.
    fn is_endless(&self, db: &Connection, tenant: i64) -> rusqlite::Result<bool> {
        let Some(parent) = self.parent.filter(|_| self.origin == Origin::Elsewhere) else { return Ok(false) };
        let mut statement = db.prepare_cached("SELECT parent FROM trace WHERE tenant = ?1 AND id = ?2")?;
        ancestry::is_endless(self.id, parent, |id| {
            let parent = statement.query_row(params![tenant, id.as_bytes()], |row| row.get::<_, Option<[u8; 16]>>(0));
            Ok(parent.optional()?.flatten().map(ExecutionId::from_bytes))
        })
    }

    /// May this trace take the place of an interrupted one? A key cannot rewrite what another has delivered. Of what was stored
    /// before keys were, nobody knows.
    pub(super) fn may_complete(&self, delivered_by: Option<&str>) -> bool {
        delivered_by.is_none() || delivered_by == self.delivered_by.as_deref()
    }

    /// What becomes of this trace if there is one of its id; `None` if there is none now.
    fn settle(&self, db: &Connection, tenant: i64) -> rusqlite::Result<Option<Commit>> {
        let mut statement = db.prepare_cached(
            "SELECT trace.seq, interrupted, body.size, body.zstd, code.sha256, delivered_by
             FROM trace LEFT JOIN body USING (seq) LEFT JOIN code ON code.id = trace.code
             WHERE tenant = ?1 AND trace.id = ?2",
        )?;
        type Before = (i64, bool, Option<i64>, Option<Vec<u8>>, Option<[u8; 32]>, Option<String>);
        let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Before> {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        };
        let Some((seq, interrupted, size, zstd, code, delivered_by)) =
            statement.query_row(params![tenant, self.id.as_bytes()], read).optional()?
        else {
            return Ok(None);
        };
        if interrupted && !self.interrupted && self.may_complete(delivered_by.as_deref()) {
            // Its process was taken for dead.
            delete(db, &[seq])?;
            return Ok(None);
        }
        if self.interrupted && !interrupted {
            return Ok(Some(Commit::Duplicate));
        }
        let is_same_code = code == self.code.as_ref().map(|code| code.sha256);
        let is_same_body = zstd.is_some_and(|zstd| {
            // Another version of the compressor may give other bytes for the same text.
            zstd == self.body.zstd
                || body::decode(size.unwrap_or_default(), &zstd).ok()
                    == body::decode(self.body.size as i64, &self.body.zstd).ok()
        });
        Ok(Some(if is_same_code && is_same_body { Commit::Duplicate } else { Commit::Conflict }))
    }
}

impl Code {
    fn insert(&self, db: &Connection) -> rusqlite::Result<i64> {
        let known = db
            .prepare_cached("UPDATE code SET uses = uses + 1 WHERE sha256 = ?1 RETURNING id")?
            .query_row([self.sha256], |row| row.get(0))
            .optional()?;
        if let Some(id) = known {
            return Ok(id);
        }
        db.prepare_cached("INSERT INTO code (sha256, uses, size, zstd) VALUES (?1, 1, ?2, ?3)")?.execute(params![
            self.sha256,
            self.text.size as i64,
            self.text.zstd
        ])?;
        Ok(db.last_insert_rowid())
    }
}

fn tool_number(db: &Connection, known: &mut Known, name: &str) -> rusqlite::Result<i64> {
    let known = &mut known.tools;
    if let Some(number) = known.get(name) {
        return Ok(*number);
    }
    let found =
        db.prepare_cached("SELECT id FROM tool WHERE name = ?1")?.query_row([name], |row| row.get(0)).optional()?;
    let number = match found {
        Some(number) => number,
        None => {
            db.prepare_cached("INSERT INTO tool (name) VALUES (?1)")?.execute([name])?;
            db.last_insert_rowid()
        }
    };
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    known.insert(name.to_owned(), number);
    Ok(number)
}

/// Deletes traces by their numbers, with everything that is theirs alone.
pub(super) fn delete(db: &Connection, seqs: &[i64]) -> rusqlite::Result<()> {
    for seq in seqs {
        let code: Option<Option<i64>> = db
            .prepare_cached("DELETE FROM trace WHERE seq = ?1 RETURNING code")?
            .query_row([seq], |row| row.get(0))
            .optional()?;
        if let Some(Some(code)) = code {
            db.prepare_cached("UPDATE code SET uses = uses - 1 WHERE id = ?1")?.execute([code])?;
            db.prepare_cached("DELETE FROM code WHERE id = ?1 AND uses <= 0")?.execute([code])?;
        }
        db.prepare_cached("DELETE FROM body WHERE seq = ?1")?.execute([seq])?;
        db.prepare_cached("DELETE FROM task WHERE trace = ?1")?.execute([seq])?;
    }
    Ok(())
}

/// The size of each task's result before anything was cut.
fn result_sizes(trace: &Trace) -> Vec<i64> {
    let mut sizes: Vec<_> = trace.task_results.iter().map(|task| raw_size(task.result.as_deref())).collect();
    for cut in &trace.metadata.truncated {
        let mut parts = cut.path.trim_start_matches('/').splitn(3, '/');
        let (Some("taskResults"), Some(index), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        if let Some(size) = index.parse().ok().and_then(|index: usize| sizes.get_mut(index))
            && (rest == "result" || rest.starts_with("result/"))
        {
            *size = size.saturating_add(i64::try_from(cut.original_bytes).unwrap_or(MAX_SIZE)).min(MAX_SIZE);
        }
    }
    sizes
}

fn raw_size(value: Option<&RawValue>) -> i64 {
    value.map_or(0, |value| value.get().len() as i64)
}

/// The start of a text, no longer than a column and without NUL; the body has it all.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_COLUMN));
    without_nul(text)
}

/// A text with U+FFFD for NUL, which PostgreSQL has no place for in a text and which ends a pattern of SQLite. Columns and
/// what is looked for in them are the same in both databases.
pub(crate) fn without_nul(text: String) -> String {
    match text.contains('\0') {
        true => text.replace('\0', "\u{fffd}"),
        false => text,
    }
}

/// SQLite has no NaN, which would be NULL and which the columns refuse, and no -0.
fn finite(number: f64) -> f64 {
    if number.is_finite() { number + 0.0 } else { 0.0 }
}

pub(super) fn millis(moment: Timestamp) -> i64 {
    i64::try_from(moment.0).unwrap_or(i64::MAX)
}

fn entry(entry: Entry) -> &'static str {
    match entry {
        Entry::ExecuteCode => "execute_code",
        Entry::Passthrough => "passthrough",
        Entry::Run => "run",
        Entry::Capability => "capability",
        Entry::Workflow => "workflow",
        Entry::Other => "other",
    }
}

pub(super) fn entry_of(text: &str) -> Entry {
    match text {
        "execute_code" => Entry::ExecuteCode,
        "passthrough" => Entry::Passthrough,
        "run" => Entry::Run,
        "capability" => Entry::Capability,
        "workflow" => Entry::Workflow,
        _ => Entry::Other,
    }
}

fn kind(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Tool => "tool",
        TaskKind::Search => "search",
        TaskKind::Resource => "resource",
        TaskKind::Prompt => "prompt",
        TaskKind::Other => "other",
    }
}

/// About how much memory a trace takes.
pub(super) fn weight(trace: &Trace) -> usize {
    let raw = |value: &Option<Box<RawValue>>| value.as_ref().map_or(0, |value| value.get().len());
    let text = |value: &Option<String>| value.as_ref().map_or(0, String::len);
    let tasks = trace.task_results.iter().map(|task| raw(&task.args) + raw(&task.result) + task.tool.len() + 256);
    let logs = trace.logs.iter().map(|line| line.text.len() + 64);
    let decisions = trace.decisions.iter().map(|decision| decision.condition.len() + decision.outcome.len() + 96);
    let warnings = trace.warnings.iter().map(|warning| warning.len() + 32);
    let forecasts = trace.forecasts.iter().map(|forecast| forecast.tool.len() + 96);
    let lists = tasks.chain(forecasts).chain(logs).chain(decisions).chain(warnings).sum::<usize>();
    let texts = text(&trace.code) + text(&trace.intent) + text(&trace.error_message) + trace.caller.len();
    1024 + lists + texts + raw(&trace.args) + raw(&trace.result)
}
