//! How long requests of clients and calls of servers took, added up since pml was started.

use std::collections::BTreeMap;

use pml_wire::trace::{Entry, TaskKind, Trace};
use serde_json::{Value, json};

use super::{
    semconv,
    spans::{error_type, method, served},
    value::{Attributes, nanoseconds, resource, scope},
};

/// Upper bounds of the buckets, in seconds, as the conventions advise.
const BOUNDS: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// Series that are kept apart. Names of tools come from servers, and there may be no end of them.
const MAX_SERIES: usize = 2000;
/// The name of all tools beyond [`MAX_SERIES`].
const OTHERS: &str = "_OTHER";
/// Each export has all that was added up since the start.
const CUMULATIVE: u32 = 2;

/// What a series is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    metric: &'static str,
    method: &'static str,
    tool: Option<String>,
    error: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct Histogram {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    buckets: [u64; BOUNDS.len() + 1],
}

#[derive(Debug)]
pub(super) struct Metrics {
    /// Milliseconds since 1970.
    started: u64,
    series: BTreeMap<Series, Histogram>,
}

impl Metrics {
    pub(super) fn new(started: u64) -> Metrics {
        Metrics { started, series: BTreeMap::new() }
    }

    /// Adds an execution and its tasks.
    pub(super) fn add(&mut self, trace: &Trace) {
        if trace.entry != Entry::Run {
            let (method, tool) = served(trace);
            let error = error_type(trace.success, trace.error_code.as_deref());
            self.record(semconv::MCP_SERVER_OPERATION_DURATION, method, tool.as_deref(), error, trace.duration_ms);
        }
        for task in trace.task_results.iter().filter(|task| task.kind != TaskKind::Search) {
            let error = error_type(task.success, task.error.as_ref().map(|error| error.code.as_str()));
            // The addresses of resources have no end.
            let tool = (task.kind == TaskKind::Tool).then_some(task.tool.as_str());
            self.record(semconv::MCP_CLIENT_OPERATION_DURATION, method(task.kind), tool, error, task.duration_ms);
        }
    }

    fn record(
        &mut self,
        metric: &'static str,
        method: &'static str,
        tool: Option<&str>,
        error: Option<&str>,
        millis: f64,
    ) {
        let (tool, error) = (tool.map(str::to_owned), error.map(str::to_owned));
        let mut series = Series { metric, method, tool, error };
        if self.series.len() >= MAX_SERIES && !self.series.contains_key(&series) {
            series.tool = Some(OTHERS.to_owned());
        }
        self.series.entry(series).or_default().add((millis / 1e3).max(0.0));
    }

    /// The request that exports everything at this moment; `None` if there is nothing yet.
    pub(super) fn request(&self, now: u64) -> Option<Value> {
        if self.series.is_empty() {
            return None;
        }
        let mut metrics: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for (series, histogram) in &self.series {
            metrics.entry(series.metric).or_default().push(histogram.point(series, self.started, now));
        }
        let metric = |(name, points)| json!({"name": name, "unit": "s", "histogram": {"aggregationTemporality": CUMULATIVE, "dataPoints": points}});
        let metrics: Vec<_> = metrics.into_iter().map(metric).collect();
        Some(json!({"resourceMetrics": [{
            "resource": resource(env!("CARGO_PKG_VERSION")),
            "schemaUrl": semconv::SCHEMA_URL,
            "scopeMetrics": [{"scope": scope(), "schemaUrl": semconv::SCHEMA_URL, "metrics": metrics}],
        }]}))
    }
}

impl Histogram {
    fn add(&mut self, seconds: f64) {
        self.min = if self.count == 0 { seconds } else { self.min.min(seconds) };
        self.max = self.max.max(seconds);
        self.count += 1;
        self.sum += seconds;
        self.buckets[BOUNDS.partition_point(|bound| *bound < seconds)] += 1;
    }

    fn point(&self, series: &Series, started: u64, now: u64) -> Value {
        let attributes = Attributes::default()
            .text(semconv::MCP_METHOD_NAME, Some(series.method))
            .text(semconv::GEN_AI_OPERATION_NAME, (series.method == "tools/call").then_some(semconv::EXECUTE_TOOL))
            .text(semconv::GEN_AI_TOOL_NAME, series.tool.as_deref())
            .text(semconv::ERROR_TYPE, series.error.as_deref());
        json!({
            "attributes": attributes.into_json(),
            "startTimeUnixNano": nanoseconds(started),
            "timeUnixNano": nanoseconds(now),
            "count": self.count.to_string(),
            "sum": self.sum,
            "min": self.min,
            "max": self.max,
            "bucketCounts": self.buckets.map(|count| count.to_string()),
            "explicitBounds": BOUNDS,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(tool: &str, duration_ms: f64, success: bool) -> Trace {
        let error = if success { Value::Null } else { json!({"code": "TOOL_ERROR", "message": "no"}) };
        let trace = json!({
            "traceId": "0199d5f0-0000-7000-8000-000000000001", "success": true, "durationMs": 40, "timestamp": 1,
            "taskResults": [{
                "taskId": "t1", "tool": tool, "success": success, "timestamp": 1, "durationMs": 1, "error": error,
            }],
        });
        let mut trace: Trace = serde_json::from_str(&trace.to_string()).unwrap();
        trace.task_results[0].duration_ms = duration_ms;
        trace
    }

    #[test]
    fn durations_are_added_up_by_tool_and_outcome() {
        let mut metrics = Metrics::new(1000);
        assert_eq!(metrics.request(2000), None);
        for (duration, success) in [(5.0, true), (10.0, true), (1e9, true), (15.0, false), (f64::NAN, true)] {
            metrics.add(&trace("a:b", duration, success));
        }
        let request = metrics.request(2000).unwrap();
        let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        assert_eq!(metrics.len(), 2);
        let points = metrics[0]["histogram"]["dataPoints"].as_array().unwrap();
        assert_eq!((metrics[0]["name"].as_str().unwrap(), points.len()), ("mcp.client.operation.duration", 2));
        let (good, bad) = (&points[0], &points[1]);
        assert_eq!(
            (&good["count"], &good["bucketCounts"][0], &good["bucketCounts"][14]),
            (&json!("4"), &json!("3"), &json!("1"))
        );
        assert_eq!(good["startTimeUnixNano"], "1000000000");
        assert_eq!(bad["attributes"].as_array().unwrap().last().unwrap()["value"]["stringValue"], "tool_error");
        let served = &metrics[1]["histogram"]["dataPoints"][0];
        assert_eq!((&served["count"], &served["bucketCounts"][2]), (&json!("5"), &json!("5")));
    }

    #[test]
    fn tools_without_end_are_added_up_together() {
        let mut metrics = Metrics::new(0);
        for number in 0..3 * MAX_SERIES {
            metrics.add(&trace(&format!("a:t{number}"), 1.0, true));
        }
        assert!(metrics.series.len() <= MAX_SERIES + 1);
        let all: u64 = metrics.series.values().map(|histogram| histogram.count).sum();
        assert_eq!(all, 6 * MAX_SERIES as u64);
    }
}
