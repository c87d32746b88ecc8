//! A trace as spans.
//!
//! The execution is one span, each task a span below it. The span of an execution is below the client's, if the client sent a
//! `traceparent`, and the span of a call is the one that its server was told of, so spans of clients and servers join. A trace that
//! is exported twice has the same ids.

use pml_wire::{
    CallId, ErrorCode, ExecutionId,
    trace::{Entry, TaskKind, TaskResult, Timestamp, Trace, span_id, trace_id},
};
use serde_json::{Value, json};

use super::{
    super::SanitizedTrace,
    semconv,
    value::{Attributes, nanoseconds, resource, scope},
};

/// Kinds of spans.
const INTERNAL: u32 = 1;
const SERVER: u32 = 2;
const CLIENT: u32 = 3;
/// The status of a span that failed.
const FAILED: u32 = 2;

/// Are arguments and results in the spans?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payloads {
    Omit,
    Include,
}

/// The request that would export this trace: an `ExportTraceServiceRequest`, as the collector's file receiver reads it.
pub fn request(trace: &SanitizedTrace, payloads: Payloads) -> Value {
    json!({"resourceSpans": [resource_spans(trace, payloads)]})
}

/// The spans of a trace, as one element of a request.
pub(super) fn resource_spans(trace: &SanitizedTrace, payloads: Payloads) -> Value {
    let trace = trace.trace();
    let ids = Ids::of(trace);
    let mut spans = vec![execution(trace, &ids, payloads)];
    let tasks = trace.task_results.iter().zip(0..);
    spans.extend(tasks.map(|(task, index)| {
        // Not every writer numbers its calls.
        let call = if task.call_id == 0 { u32::MAX - index } else { task.call_id };
        self::task(task, CallId(call), &ids, payloads)
    }));
    json!({
        "resource": resource(&trace.metadata.pml_version),
        "schemaUrl": semconv::SCHEMA_URL,
        "scopeSpans": [{"scope": scope(), "schemaUrl": semconv::SCHEMA_URL, "spans": spans}],
    })
}

/// The method and the tool that the client asked for.
pub(super) fn served(trace: &Trace) -> (&'static str, Option<String>) {
    match (trace.entry, trace.task_results.first()) {
        (Entry::Passthrough, Some(task)) => (method(task.kind), target(task)),
        (Entry::Passthrough, None) => ("tools/call", None),
        _ => ("tools/call", Some("execute_code".to_owned())),
    }
}

fn execution(trace: &Trace, ids: &Ids, payloads: Payloads) -> Value {
    let (method, target) = served(trace);
    let attributes = Attributes::default()
        .text(semconv::MCP_METHOD_NAME, Some(method))
        .text(semconv::GEN_AI_OPERATION_NAME, (method == "tools/call").then_some(semconv::EXECUTE_TOOL))
        .text(semconv::GEN_AI_TOOL_NAME, target.as_deref().filter(|_| method == "tools/call"))
        .text(semconv::MCP_PROTOCOL_VERSION, trace.metadata.era.as_deref())
        .text(semconv::PML_ENTRY, Some(entry(trace.entry)))
        .text(semconv::PML_INTENT, trace.intent.as_deref())
        .text(semconv::PML_CALLER, Some(trace.caller.as_str()).filter(|caller| !caller.is_empty()))
        .text(semconv::PML_CLIENT_NAME, trace.client.as_ref().map(|client| client.name.as_str()))
        .text(semconv::PML_CLIENT_VERSION, trace.client.as_ref().and_then(|client| client.version.as_deref()))
        .text(semconv::PML_CODE_SHA256, trace.code_hash.as_deref())
        .text(semconv::ERROR_TYPE, error_type(trace.success, trace.error_code.as_deref()))
        .flag(semconv::PML_INTERRUPTED, trace.metadata.interrupted)
        .payload(semconv::GEN_AI_TOOL_CALL_ARGUMENTS, trace.args.as_deref(), payloads)
        .payload(semconv::GEN_AI_TOOL_CALL_RESULT, trace.result.as_deref(), payloads);
    let span = Span {
        id: ids.span(CallId(0)),
        parent: ids.parent.clone(),
        name: name(method, target.as_deref()),
        kind: if trace.entry == Entry::Run { INTERNAL } else { SERVER },
        start: trace.timestamp,
        duration_ms: trace.duration_ms,
        failure: (!trace.success).then(|| trace.error_message.clone().unwrap_or_default()),
        attributes,
    };
    let mut value = span.into_json(ids);
    // The execution that called this one is a trace of its own.
    if let Some(parent) = trace.parent_trace_id {
        value["links"] = json!([{"traceId": trace_id(parent), "spanId": span_id(parent, CallId(0))}]);
    }
    value
}

fn task(task: &TaskResult, call: CallId, ids: &Ids, payloads: Payloads) -> Value {
    let method = method(task.kind);
    let target = target(task);
    let is_tool = task.kind == TaskKind::Tool;
    let queued = task.accepted_at.map(|accepted| task.timestamp.0.saturating_sub(accepted.0)).filter(|wait| *wait > 0);
    let attributes = Attributes::default()
        .text(semconv::MCP_METHOD_NAME, (task.kind != TaskKind::Search).then_some(method))
        .text(semconv::GEN_AI_OPERATION_NAME, is_tool.then_some(semconv::EXECUTE_TOOL))
        .text(semconv::GEN_AI_TOOL_NAME, Some(task.tool.as_str()).filter(|_| is_tool))
        .text(semconv::GEN_AI_PROMPT_NAME, Some(task.tool.as_str()).filter(|_| task.kind == TaskKind::Prompt))
        .text(semconv::MCP_RESOURCE_URI, address(task))
        .text(semconv::ERROR_TYPE, error_type(task.success, task.error.as_ref().map(|error| error.code.as_str())))
        .number(semconv::PML_LAYER, Some(u64::from(task.layer_index)).filter(|layer| *layer > 0))
        .number(semconv::PML_LINE, task.line.map(u64::from))
        .number(semconv::PML_QUEUED_MS, queued)
        .payload(semconv::GEN_AI_TOOL_CALL_ARGUMENTS, task.args.as_deref(), payloads)
        .payload(semconv::GEN_AI_TOOL_CALL_RESULT, task.result.as_deref(), payloads);
    let span = Span {
        id: ids.span(call),
        parent: Some(ids.span(CallId(0))),
        name: name(method, target.as_deref()),
        kind: if task.kind == TaskKind::Search { INTERNAL } else { CLIENT },
        start: task.timestamp,
        duration_ms: task.duration_ms,
        failure: (!task.success).then(|| task.error.as_ref().map(|error| error.message.clone()).unwrap_or_default()),
        attributes,
    };
    span.into_json(ids)
}

struct Span {
    id: String,
    parent: Option<String>,
    name: String,
    kind: u32,
    start: Timestamp,
    duration_ms: f64,
    failure: Option<String>,
    attributes: Attributes,
}

impl Span {
    fn into_json(self, ids: &Ids) -> Value {
        // Whatever a trace of others says, a span ends where it can end.
        let start = self.start.0.min(u64::MAX / 1_000_000) * 1_000_000;
        let end = start.saturating_add((self.duration_ms.max(0.0) * 1e6) as u64);
        let mut span = json!({
            "traceId": ids.trace, "spanId": self.id, "name": self.name, "kind": self.kind,
            "startTimeUnixNano": nanoseconds(self.start.0), "endTimeUnixNano": end.to_string(),
            "attributes": self.attributes.into_json(),
            "status": match &self.failure {
                Some(message) => json!({"code": FAILED, "message": message}),
                None => json!({}),
            },
        });
        if let Some(parent) = &self.parent {
            span["parentSpanId"] = json!(parent);
        }
        span
    }
}

/// The ids of a trace's spans.
struct Ids {
    execution: ExecutionId,
    /// The client's trace, or one that the execution is.
    trace: String,
    /// The client's span.
    parent: Option<String>,
}

impl Ids {
    fn of(trace: &Trace) -> Ids {
        let execution = trace.trace_id;
        // What a gateway wrote was checked; what another sent may be anything.
        let client = trace.metadata.traceparent.as_deref().filter(|text| text.is_ascii() && text.len() >= 55);
        match client {
            Some(text) => Ids { execution, trace: text[3..35].to_owned(), parent: Some(text[36..52].to_owned()) },
            None => Ids { execution, trace: trace_id(execution), parent: None },
        }
    }

    fn span(&self, call: CallId) -> String {
        span_id(self.execution, call)
    }
}

fn name(method: &str, target: Option<&str>) -> String {
    match target {
        Some(target) => format!("{method} {target}"),
        None => method.to_owned(),
    }
}

pub(super) fn method(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Tool | TaskKind::Other => "tools/call",
        TaskKind::Resource => "resources/read",
        TaskKind::Prompt => "prompts/get",
        TaskKind::Search => "search",
    }
}

/// What a span's name may say besides the method: not the address of a resource, of which there is no end.
fn target(task: &TaskResult) -> Option<String> {
    match task.kind {
        TaskKind::Tool | TaskKind::Prompt | TaskKind::Other => Some(task.tool.clone()),
        TaskKind::Resource | TaskKind::Search => None,
    }
}

/// The address of the resource that a task read.
fn address(task: &TaskResult) -> Option<&str> {
    let (_, rest) = task.tool.split_once(':').filter(|_| task.kind == TaskKind::Resource)?;
    rest.strip_prefix("resource:")
}

pub(super) fn error_type(success: bool, code: Option<&str>) -> Option<&str> {
    match (success, code) {
        (true, _) => None,
        (false, Some(code)) if code == ErrorCode::ToolError.as_str() => Some(semconv::TOOL_ERROR),
        (false, code) => Some(code.unwrap_or("_OTHER")),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn trace() -> SanitizedTrace {
        let trace = json!({
            "traceId": "0199d5f0-0000-7000-8000-000000000001",
            "parentTraceId": "0199d5f0-0000-7000-8000-000000000002",
            "intent": "look", "caller": "agent", "success": false, "errorCode": "EXCEPTION", "errorMessage": "boom",
            "durationMs": 10.5, "timestamp": 1_790_000_000_000_u64, "args": {"a": 1},
            "taskResults": [
                {"taskId": "t1", "callId": 7, "tool": "fs:read", "success": false, "acceptedAt": 1_790_000_000_001_u64,
                 "timestamp": 1_790_000_000_004_u64, "durationMs": 2.5, "layerIndex": 1, "line": 3, "args": {"p": 1},
                 "error": {"code": "TOOL_ERROR", "message": "no"}},
                {"taskId": "t2", "kind": "resource", "tool": "fs:resource:file:///a", "success": true,
                 "timestamp": 18_446_744_073_709_551_615_u64, "durationMs": 1e300},
                {"taskId": "t3", "kind": "search", "tool": "pml:search", "success": true, "timestamp": 0, "durationMs": -1},
            ],
            "metadata": {"era": "2026-07-28"},
        });
        SanitizedTrace::new(serde_json::from_value(trace).unwrap())
    }

    fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a Value> {
        let found = span["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == key);
        found.and_then(|attribute| attribute["value"].as_object()?.values().next())
    }

    #[test]
    fn an_execution_is_a_span_with_a_span_for_each_task() {
        let request = request(&trace(), Payloads::Omit);
        let scope = &request["resourceSpans"][0]["scopeSpans"][0];
        let spans = scope["spans"].as_array().unwrap();
        let names: Vec<_> =
            spans.iter().map(|span| (span["name"].as_str().unwrap(), span["kind"].as_u64().unwrap())).collect();
        let expected =
            [("tools/call execute_code", 2), ("tools/call fs:read", 3), ("resources/read", 3), ("search", 1)];
        assert_eq!(names, expected);
        let mut ids = std::collections::BTreeSet::from([spans[0]["spanId"].as_str().unwrap()]);
        for span in &spans[1..] {
            assert_eq!(span["traceId"], "0199d5f0000070008000000000000001");
            assert_eq!(span["parentSpanId"], spans[0]["spanId"]);
            assert!(span["spanId"].as_str().unwrap().len() == 16 && ids.insert(span["spanId"].as_str().unwrap()));
        }
        assert_eq!(spans[1]["spanId"], "0000000100000007", "as the server was told");
        assert_eq!(spans[0]["status"], json!({"code": 2, "message": "boom"}));
        assert_eq!(spans[0]["links"][0]["traceId"], "0199d5f0000070008000000000000002");
        assert_eq!(attribute(&spans[0], "error.type").unwrap(), "EXCEPTION");
        assert_eq!(attribute(&spans[0], "mcp.protocol.version").unwrap(), "2026-07-28");
        assert_eq!(attribute(&spans[1], "error.type").unwrap(), "tool_error");
        assert_eq!(attribute(&spans[1], "pml.queued_ms").unwrap(), "3");
        assert_eq!(attribute(&spans[2], "mcp.resource.uri").unwrap(), "file:///a");
        assert_eq!(spans[1]["startTimeUnixNano"], "1790000000004000000");
        assert_eq!(spans[1]["endTimeUnixNano"], "1790000000006500000");
        assert_eq!(spans[3]["endTimeUnixNano"], spans[3]["startTimeUnixNano"]);
    }

    #[test]
    fn an_execution_belongs_to_the_trace_of_its_client() {
        let mut trace = trace().into_inner();
        let (client, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        trace.metadata.traceparent = Some(format!("00-{client}-{span}-01"));
        let ids = |trace: &Trace| {
            let request = request(&SanitizedTrace::new(trace.clone()), Payloads::Omit);
            let spans = &request["resourceSpans"][0]["scopeSpans"][0]["spans"];
            (spans[0]["traceId"].clone(), spans[0]["parentSpanId"].clone(), spans[1]["traceId"].clone())
        };
        assert_eq!(ids(&trace), (json!(client), json!(span), json!(client)));
        let own = json!("0199d5f0000070008000000000000001");
        for nonsense in ["", "00-12", &"é".repeat(60)] {
            trace.metadata.traceparent = Some(nonsense.to_owned());
            assert_eq!(ids(&trace), (own.clone(), Value::Null, own.clone()), "{nonsense}");
        }
    }

    #[test]
    fn arguments_are_exported_on_request_only() {
        let text = request(&trace(), Payloads::Omit).to_string();
        assert!(!text.contains("gen_ai.tool.call.arguments"), "{text}");
        let request = request(&trace(), Payloads::Include);
        let spans = &request["resourceSpans"][0]["scopeSpans"][0]["spans"];
        assert_eq!(attribute(&spans[1], "gen_ai.tool.call.arguments").unwrap(), r#"{"p":1}"#);
    }
}
