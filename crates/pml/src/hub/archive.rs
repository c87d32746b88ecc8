//! The traces of a hub, read as if they were here.

use pml_wire::{
    CapabilityId, ExecutionId,
    hub::{StatsReply, TraceList, TraceSummary},
    trace::{Timestamp, Trace},
};
use serde::Deserialize;

use super::client::{HubClient, HubError};
use crate::trace::{
    SanitizedTrace, TraceHead,
    store::{Answer, Archive, Cursor, Filter, Found, Page, Reading, Record, Stats, StoreError, Summary, ToolStats},
};

/// The traces that a key may read at a hub.
#[derive(Clone, Debug)]
pub struct HubArchive(HubClient);

impl HubArchive {
    pub fn new(client: HubClient) -> HubArchive {
        HubArchive(client)
    }
}

/// What a hub says about a trace besides the trace.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Besides {
    #[serde(default)]
    capability_uuid: Option<CapabilityId>,
    #[serde(default)]
    priority: f64,
    #[serde(default)]
    stored_at: Option<Timestamp>,
    #[serde(default)]
    delivered_by: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Ids {
    ids: Vec<ExecutionId>,
}

impl Archive for HubArchive {
    fn record(&self, id: ExecutionId) -> Answer<'_, Option<Record>> {
        Box::pin(async move {
            let text = match self.0.get::<Box<serde_json::value::RawValue>>(&format!("/api/traces/{id}"), &[]).await {
                Ok(text) => text,
                Err(err) if err.is_not_found() => return Ok(None),
                Err(err) => return Err(failed(err)),
            };
            let wrong = |err: serde_json::Error| StoreError::Damaged { id, why: err.to_string() };
            let trace: Trace = serde_json::from_str(text.get()).map_err(wrong)?;
            let besides: Besides = serde_json::from_str(text.get()).map_err(wrong)?;
            Ok(Some(Record {
                trace: SanitizedTrace::of_hub(trace),
                capability: besides.capability_uuid,
                priority: besides.priority,
                stored_at: besides.stored_at.unwrap_or(Timestamp(0)),
                delivered_by: besides.delivered_by,
            }))
        })
    }

    fn find(&self, prefix: &str) -> Answer<'_, Found> {
        let query = [("prefix", prefix.to_owned())];
        Box::pin(async move {
            let Ids { ids } = self.0.get("/api/traces/find", &query).await.map_err(failed)?;
            Ok(match ids[..] {
                [] => Found::Nothing,
                [id] => Found::One(id),
                _ => Found::Several(ids),
            })
        })
    }

    fn list(&self, filter: Filter, reading: Reading, limit: usize) -> Answer<'_, Page> {
        let mut query = conditions(&filter);
        query.push(("limit", limit.to_string()));
        match reading {
            Reading::Newest => {}
            Reading::Before(cursor) => query.push(("cursor", cursor.to_string())),
            Reading::StoredAfter(cursor) => query.push(("after", cursor.to_string())),
        }
        Box::pin(async move {
            let TraceList { traces, next, end } = self.0.get("/api/traces", &query).await.map_err(failed)?;
            let cursor = |text: String| {
                text.parse::<Cursor>().map_err(|err| StoreError::Failed { doing: "read", source: err.into() })
            };
            Ok(Page {
                traces: traces.into_iter().filter_map(summary).collect(),
                next: next.map(cursor).transpose()?,
                end: cursor(end)?,
            })
        })
    }

    /// A hub knows of executions when they have ended.
    fn running(&self) -> Answer<'_, Vec<TraceHead>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn stats(&self, filter: Filter) -> Answer<'_, Stats> {
        let query = conditions(&filter);
        Box::pin(async move {
            let stats: StatsReply = self.0.get("/api/stats", &query).await.map_err(failed)?;
            let tools = stats.tools.into_iter().map(|tool| ToolStats {
                tool: tool.tool,
                calls: tool.calls,
                failed: tool.failed,
                p50_ms: tool.p50_ms,
                p95_ms: tool.p95_ms,
                result_bytes: tool.result_bytes,
            });
            Ok(Stats {
                traces: stats.traces,
                failed: stats.failed,
                interrupted: stats.interrupted,
                first: stats.first,
                last: stats.last,
                intermediate_bytes: stats.intermediate_bytes,
                answer_bytes: stats.answer_bytes,
                tools: tools.collect(),
                ..Stats::default()
            })
        })
    }
}

fn failed(err: HubError) -> StoreError {
    StoreError::Remote(Box::new(err.into()))
}

fn conditions(filter: &Filter) -> Vec<(&'static str, String)> {
    let Filter { failed, tool, since, before, client, intent, capability } = filter;
    let moment = |moment: &Timestamp| moment.to_string();
    [
        ("failed", failed.then(|| "true".to_owned())),
        ("tool", tool.clone()),
        ("since", since.as_ref().map(moment)),
        ("before", before.as_ref().map(moment)),
        ("client", client.clone()),
        ("intent", intent.clone()),
        ("capability", capability.map(|id| id.to_string())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
}

fn summary(summary: TraceSummary) -> Option<Summary> {
    Some(Summary {
        id: summary.trace_id.parse().ok()?,
        parent: summary.parent_trace_id.and_then(|id| id.parse().ok()),
        timestamp: summary.timestamp,
        duration_ms: summary.duration_ms,
        success: summary.success,
        is_interrupted: summary.interrupted,
        error_code: summary.error_code,
        entry: summary.entry,
        caller: summary.caller,
        client: summary.client,
        intent: summary.intent,
        capability: summary.capability_uuid.and_then(|id| id.parse().ok()),
        tasks: summary.tasks,
        tools: summary.tools,
    })
}
