//! Traces, read again.

use std::time::Duration;

use axum::{http::StatusCode, response::Response};
use pml_wire::{
    CapabilityId, ExecutionId,
    hub::{Code, StatsReply, ToolReply, TraceList, TraceSummary},
    trace::Timestamp,
};
use serde_json::json;
use tokio::time::timeout;

use super::{
    call::{AnswerPlace, Call, ONE_BYTES, PAGE_BYTES},
    problem,
    problem::Problem,
};
use crate::{
    trace::store::{Answer, Cursor, Deletion, Filter, Found, Reading, Record, Store, Summary},
    web::typed,
};

/// Traces of a page, if nothing is said, and at most.
const PAGE: usize = 50;
const MAX_PAGE: usize = 1000;
/// Traces that are drawn, if nothing is said, and at most.
const SAMPLE: usize = 32;
const MAX_SAMPLE: usize = 256;
/// How long a query may take, waiting included.
const LONGEST: Duration = Duration::from_secs(20);
/// How much more likely a trace of high priority is drawn, if nothing is said.
const ALPHA: f64 = 0.6;

fn store(call: &Call) -> std::sync::Arc<dyn Store> {
    call.hub.store.of(&call.caller.key.scope)
}

/// Waits for a query that may read every trace of a scope, and for others of the same key before it, until their answers are sent.
/// What takes longer is given up, and ends.
pub(super) async fn in_time<T>(call: &Call, query: Answer<'_, T>) -> Result<(T, AnswerPlace), Problem> {
    let in_turn = async {
        let turn = call.caller.turn_to_scan().await;
        let place = call.room(PAGE_BYTES).await?.with_turn(turn);
        Ok((query.await?, place))
    };
    match timeout(LONGEST, in_turn).await {
        Ok(answer) => answer,
        Err(_) => Err(Problem::unavailable("the query takes too long; ask for less, such as with `since`")),
    }
}

fn unknown(what: &str) -> Problem {
    Problem::new(Code::NotFound, format!("there is no trace `{what}`"))
}

pub(super) async fn get(call: Call) -> Result<Response, Problem> {
    let id: ExecutionId = call.part("id")?;
    let place = call.room(ONE_BYTES).await?;
    let record = call.hub.soon(store(&call).record(id)).await?.ok_or_else(|| unknown(&id.to_string()))?;
    Ok(place.hold(typed(StatusCode::OK, "application/json", with_record(&record)?)))
}

/// A trace as JSON, with what the hub knows about it besides.
fn with_record(record: &Record) -> Result<String, Problem> {
    let broken = |err: serde_json::Error| Problem::new(Code::Internal, err.to_string());
    let mut text = serde_json::to_string(record.trace.trace()).map_err(broken)?;
    let more = json!({
        "capabilityUuid": record.capability,
        "priority": record.priority,
        "storedAt": record.stored_at,
        "deliveredBy": record.delivered_by,
    });
    // A trace has fields, so its last brace is where more of them go.
    text.truncate(text.len().saturating_sub(1));
    text.push(',');
    text.push_str(more.to_string().trim_start_matches('{'));
    Ok(text)
}

pub(super) async fn delete(call: Call) -> Result<Response, Problem> {
    let id: ExecutionId = call.part("id")?;
    match call.hub.soon(store(&call).delete(Deletion::One(id))).await? {
        0 => Err(unknown(&id.to_string())),
        deleted => Ok(problem::json(StatusCode::OK, &json!({"deleted": deleted}))),
    }
}

pub(super) async fn list(call: Call) -> Result<Response, Problem> {
    let limit = call.number("limit", PAGE, MAX_PAGE)?;
    let reading = match (call.query::<Cursor>("cursor")?, call.query::<Cursor>("after")?) {
        (Some(_), Some(_)) => return Err(Problem::invalid("there is either `cursor` or `after`")),
        (Some(cursor), None) => Reading::Before(cursor),
        (None, Some(cursor)) => Reading::StoredAfter(cursor),
        (None, None) => Reading::Newest,
    };
    let (page, place) = in_time(&call, store(&call).list(filter(&call)?, reading, limit)).await?;
    let list = TraceList {
        traces: page.traces.into_iter().map(summary).collect(),
        next: page.next.map(|cursor| cursor.to_string()),
        end: page.end.to_string(),
    };
    Ok(place.hold(problem::json(StatusCode::OK, &list)))
}

fn filter(call: &Call) -> Result<Filter, Problem> {
    Ok(Filter {
        failed: call.query("failed")?.unwrap_or(false),
        tool: call.query("tool")?,
        since: call.query::<Timestamp>("since")?,
        before: call.query::<Timestamp>("before")?,
        client: call.query("client")?,
        intent: call.query("intent")?,
        capability: call.query::<CapabilityId>("capability")?,
    })
}

fn summary(summary: Summary) -> TraceSummary {
    TraceSummary {
        trace_id: summary.id.to_string(),
        parent_trace_id: summary.parent.map(|id| id.to_string()),
        timestamp: summary.timestamp,
        duration_ms: summary.duration_ms,
        success: summary.success,
        interrupted: summary.is_interrupted,
        error_code: summary.error_code,
        entry: summary.entry,
        caller: summary.caller,
        client: summary.client,
        intent: summary.intent,
        capability_uuid: summary.capability.map(|id| id.to_string()),
        tasks: summary.tasks,
        tools: summary.tools,
    }
}

pub(super) async fn find(call: Call) -> Result<Response, Problem> {
    let prefix: String = call.query("prefix")?.unwrap_or_default();
    let ids: Vec<String> = match call.hub.soon(store(&call).find(&prefix)).await? {
        Found::Nothing => Vec::new(),
        Found::One(id) => vec![id.to_string()],
        Found::Several(ids) => ids.iter().map(ToString::to_string).collect(),
    };
    Ok(problem::json(StatusCode::OK, &json!({"ids": ids})))
}

pub(super) async fn sample(call: Call) -> Result<Response, Problem> {
    let count = call.number("n", SAMPLE, MAX_SAMPLE)?;
    let alpha = call.query("alpha")?.unwrap_or(ALPHA);
    if !(0.0..=10.0).contains(&alpha) {
        return Err(Problem::invalid(format!("`alpha` is {alpha}, but must be between 0 and 10")));
    }
    let seed = match call.query("seed")? {
        Some(seed) => seed,
        None => getrandom::u64().unwrap_or_default(),
    };
    let (drawn, place) = in_time(&call, store(&call).sample(count, alpha, seed, PAGE_BYTES)).await?;
    let traces: Vec<_> = drawn
        .traces
        .iter()
        .map(
            |drawn| json!({"priority": drawn.priority, "probability": drawn.probability, "trace": drawn.trace.trace()}),
        )
        .collect();
    Ok(place.hold(problem::json(StatusCode::OK, &json!({"traces": traces, "left": drawn.left}))))
}

pub(super) async fn stats(call: Call) -> Result<Response, Problem> {
    let (stats, place) = in_time(&call, store(&call).stats(filter(&call)?)).await?;
    let tool = |tool: crate::trace::store::ToolStats| ToolReply {
        tool: tool.tool,
        calls: tool.calls,
        failed: tool.failed,
        p50_ms: tool.p50_ms,
        p95_ms: tool.p95_ms,
        result_bytes: tool.result_bytes,
    };
    // Not what is about the database, which others share.
    let reply = StatsReply {
        traces: stats.traces,
        failed: stats.failed,
        interrupted: stats.interrupted,
        first: stats.first,
        last: stats.last,
        intermediate_bytes: stats.intermediate_bytes,
        answer_bytes: stats.answer_bytes,
        tools: stats.tools.into_iter().map(tool).collect(),
    };
    Ok(place.hold(problem::json(StatusCode::OK, &reply)))
}
