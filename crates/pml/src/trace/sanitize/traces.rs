//! Traces that may be stored, shown and sent.

use std::borrow::Cow;

use pml_wire::{
    message::Decision,
    trace::{Client, Forecast, LogLine, Metadata, TaskError, TaskResult, Trace, Truncated},
};
use serde_json::value::{RawValue, to_raw_value};

use super::{
    super::{SanitizedHead, SanitizedTrace, TraceHead},
    finding::{Kind, TRUNCATED},
    sanitizer::{Report, Sanitizer},
};

/// Most bytes of a trace as JSON.
pub const MAX_TRACE_BYTES: usize = 1_000_000;
/// Most entries of `metadata.truncated`; the last one then says how many bytes the others had.
const MAX_TRUNCATED: usize = 1000;

impl Sanitizer {
    /// Removes secrets and personal data from every text of a trace, cuts long strings, and then whole values, the largest
    /// first and the program last, until the trace is no larger than [`MAX_TRACE_BYTES`]. What was cut is in
    /// `metadata.truncated`.
    pub fn trace(&self, trace: Trace) -> SanitizedTrace {
        let mut cleaner = Cleaner { sanitizer: self, truncated: Vec::new() };
        let mut trace = cleaner.trace(trace);
        trace.metadata.truncated.append(&mut cleaner.truncated);
        fit(&mut trace);
        SanitizedTrace::new(trace)
    }

    /// Removes secrets and personal data from what is known of an execution that begins.
    pub fn head(&self, head: TraceHead) -> SanitizedHead {
        let mut cleaner = Cleaner { sanitizer: self, truncated: Vec::new() };
        let TraceHead { trace_id, parent_trace_id, capability_id, entry, timestamp, intent, caller, client, code_hash } =
            head;
        SanitizedHead::new(TraceHead {
            trace_id,
            parent_trace_id,
            capability_id: capability_id.map(|name| cleaner.text("/capabilityId", name)),
            entry,
            timestamp,
            intent: intent.map(|intent| cleaner.text("/intent", intent)),
            caller: cleaner.text("/caller", caller),
            client: client.map(|client| cleaner.client(client)),
            code_hash: code_hash.map(|hash| cleaner.text("/codeHash", hash)),
        })
    }
}

struct Cleaner<'a> {
    sanitizer: &'a Sanitizer,
    truncated: Vec<Truncated>,
}

impl Cleaner<'_> {
    /// Every field by name: a new one must be thought about here.
    fn trace(&mut self, trace: Trace) -> Trace {
        let Trace {
            trace_id,
            parent_trace_id,
            capability_id,
            entry,
            intent,
            caller,
            client,
            success,
            error_message,
            error_code,
            duration_ms,
            timestamp,
            code,
            code_hash,
            args,
            result,
            logs,
            warnings,
            decisions,
            decisions_cut,
            task_results,
            forecasts,
            metadata,
        } = trace;
        let Metadata { truncated, code_redacted, interrupted, pml_version, schema_version, era, traceparent } =
            metadata;
        let mut code_report = Report::default();
        let code = code.map(|code| self.sanitizer.code(&code, "/code", &mut code_report).unwrap_or(code));
        self.truncated.append(&mut code_report.truncated);
        Trace {
            trace_id,
            parent_trace_id,
            capability_id: capability_id.map(|id| self.text("/capabilityId", id)),
            entry,
            intent: intent.map(|intent| self.text("/intent", intent)),
            caller: self.text("/caller", caller),
            client: client.map(|client| self.client(client)),
            success,
            error_message: error_message.map(|message| self.text("/errorMessage", message)),
            error_code: error_code.map(|code| self.text("/errorCode", code)),
            duration_ms,
            timestamp,
            code,
            code_hash: code_hash.map(|hash| self.text("/codeHash", hash)),
            args: args.map(|args| self.json("/args", args)),
            result: result.map(|result| self.json("/result", result)),
            logs: self.logs(logs),
            warnings: self.numbered("/warnings", warnings, |cleaner, path, text| cleaner.text(path, text)),
            decisions: self.numbered("/decisions", decisions, Self::decision),
            decisions_cut,
            task_results: self.numbered("/taskResults", task_results, Self::task),
            forecasts: self.numbered("/forecasts", forecasts, Self::forecast),
            metadata: Metadata {
                truncated: truncated.into_iter().map(|cut| self.cut(cut)).collect(),
                code_redacted: code_redacted || code_report.is_redacted(),
                interrupted,
                pml_version: self.text("/metadata/pmlVersion", pml_version),
                schema_version,
                era: era.map(|era| self.text("/metadata/era", era)),
                traceparent: traceparent.map(|id| self.text("/metadata/traceparent", id)),
            },
        }
    }

    /// What was cut says where, in the names of members, which may be anything in what others send.
    fn cut(&mut self, Truncated { path, original_bytes }: Truncated) -> Truncated {
        Truncated { path: self.text("/metadata/truncated", path), original_bytes }
    }

    fn client(&mut self, Client { name, version }: Client) -> Client {
        let version = version.map(|version| self.text("/client/version", version));
        Client { name: self.text("/client/name", name), version }
    }

    fn numbered<T>(&mut self, path: &str, all: Vec<T>, clean: impl Fn(&mut Self, &str, T) -> T) -> Vec<T> {
        let each = |(index, one)| clean(self, &format!("{path}/{index}"), one);
        all.into_iter().enumerate().map(each).collect()
    }

    /// Lines of output. A private key that is printed line by line is one all the same.
    fn logs(&mut self, logs: Vec<LogLine>) -> Vec<LogLine> {
        let mut in_key = false;
        let mut clean = Vec::with_capacity(logs.len());
        for (index, LogLine { level, text }) in logs.into_iter().enumerate() {
            let (begins, ends) = (text.contains("-----BEGIN ") && text.contains("PRIVATE"), text.contains("-----END "));
            let text = match in_key {
                true => Kind::secret("private-key").marker().into_owned(),
                false => self.text(&format!("/logs/{index}/text"), text),
            };
            in_key = (in_key || begins) && !ends;
            clean.push(LogLine { level: self.text(&format!("/logs/{index}/level"), level), text });
        }
        clean
    }

    fn decision(&mut self, path: &str, Decision { node_id, outcome, condition }: Decision) -> Decision {
        Decision {
            node_id: self.text(&format!("{path}/nodeId"), node_id),
            outcome: self.text(&format!("{path}/outcome"), outcome),
            condition: self.text(&format!("{path}/condition"), condition),
        }
    }

    fn forecast(&mut self, path: &str, forecast: Forecast) -> Forecast {
        let Forecast { tool, call_id, certain, follows, probability, outcome } = forecast;
        Forecast { tool: self.text(&format!("{path}/tool"), tool), call_id, certain, follows, probability, outcome }
    }

    fn task(&mut self, path: &str, task: TaskResult) -> TaskResult {
        let TaskResult {
            task_id,
            call_id,
            kind,
            tool,
            args,
            result,
            success,
            accepted_at,
            timestamp,
            duration_ms,
            layer_index,
            line,
            speculative,
            error,
        } = task;
        TaskResult {
            task_id: self.text(&format!("{path}/taskId"), task_id),
            call_id,
            kind,
            tool: self.text(&format!("{path}/tool"), tool),
            args: args.map(|args| self.json(&format!("{path}/args"), args)),
            result: result.map(|result| self.json(&format!("{path}/result"), result)),
            success,
            accepted_at,
            timestamp,
            duration_ms,
            layer_index,
            line,
            speculative,
            error: error.map(|TaskError { code, message }| TaskError {
                code: self.text(&format!("{path}/error/code"), code),
                message: self.text(&format!("{path}/error/message"), message),
            }),
        }
    }

    fn text(&mut self, path: &str, text: String) -> String {
        let mut report = Report::default();
        let clean = self.sanitizer.string(&text, 0, path, &mut report);
        self.truncated.append(&mut report.truncated);
        clean.unwrap_or(text)
    }

    fn json(&mut self, path: &str, json: Box<RawValue>) -> Box<RawValue> {
        let mut report = Report::default();
        // It is JSON: nothing else becomes a `RawValue`.
        let clean = self.sanitizer.checked_document(json.get(), path, &mut report);
        self.truncated.append(&mut report.truncated);
        match clean {
            Cow::Borrowed(_) => json,
            // What cannot be read cannot be vouched for.
            Cow::Owned(text) => RawValue::from_string(text).unwrap_or_else(|_| truncated()),
        }
    }
}

fn truncated() -> Box<RawValue> {
    to_raw_value(TRUNCATED).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A value of a trace that can be cut.
#[derive(Clone, Copy, Debug)]
enum Slot {
    Intent,
    ErrorMessage,
    Code,
    Args,
    Result,
    Log(usize),
    Warning(usize),
    TaskArgs(usize),
    TaskResult(usize),
    TaskError(usize),
}

/// Values below this size are not worth the line that says that they were cut.
const MIN_CUT_BYTES: usize = 200;

/// Cuts values, the largest first, and then the ends of lists, until the trace is no larger than it may be.
fn fit(trace: &mut Trace) {
    shorten_metadata(trace);
    // Most traces are small, and need not be written to know that.
    if most_bytes(trace) <= MAX_TRACE_BYTES {
        return;
    }
    let mut bytes = size(trace);
    if bytes <= MAX_TRACE_BYTES {
        return;
    }
    let mut slots = slots(trace);
    // The program goes last: with it, an execution can be repeated.
    slots.sort_by_key(|(size, slot)| (matches!(slot, Slot::Code), std::cmp::Reverse(*size)));
    for (value_bytes, slot) in slots {
        if bytes <= MAX_TRACE_BYTES || value_bytes < MIN_CUT_BYTES {
            break;
        }
        let path = cut(trace, slot);
        trace.metadata.truncated.retain(|entry| entry.path != path && !entry.path.starts_with(&format!("{path}/")));
        bytes = (bytes + 64 + path.len() + TRUNCATED.len()).saturating_sub(value_bytes);
        trace.metadata.truncated.push(Truncated { path, original_bytes: value_bytes as u64 });
    }
    shorten_metadata(trace);
    // The sum above is an estimate; here the lists lose their ends until it is true.
    for list in ["/forecasts", "/decisions", "/logs", "/warnings", "/taskResults"] {
        let bytes = size(trace);
        if bytes > MAX_TRACE_BYTES {
            shorten(trace, list, bytes - MAX_TRACE_BYTES + 256);
        }
    }
}

/// A bound on the size of a trace as JSON, which takes no writing to know.
fn most_bytes(trace: &Trace) -> usize {
    /// What a field takes besides its texts: its name, and a number of any length.
    const FIELD: usize = 64;
    // A byte is written as `\u001f` at worst, which is six.
    let text = |text: &str| 6 * text.len() + FIELD;
    let option = |option: &Option<String>| option.as_deref().map_or(0, text);
    let raw = |json: &Option<Box<RawValue>>| json.as_ref().map_or(0, |json| json.get().len() + FIELD);
    let client = |Client { name, version }: &Client| text(name) + option(version) + FIELD;
    let log = |LogLine { level, text: line }: &LogLine| text(level) + text(line) + FIELD;
    let decision =
        |Decision { node_id, outcome, condition }: &Decision| text(node_id) + text(outcome) + text(condition) + FIELD;
    let error = |TaskError { code, message }: &TaskError| text(code) + text(message) + FIELD;
    let task = |task: &TaskResult| {
        let texts = text(&task.task_id) + text(&task.tool) + task.error.as_ref().map_or(0, error);
        texts + raw(&task.args) + raw(&task.result) + 11 * FIELD
    };
    let forecast = |forecast: &Forecast| text(&forecast.tool) + 6 * FIELD;
    let metadata = &trace.metadata;
    let truncated = metadata.truncated.iter().map(|cut| text(&cut.path) + FIELD).sum::<usize>();
    let parts = [
        option(&trace.capability_id) + option(&trace.intent) + text(&trace.caller) + option(&trace.code),
        option(&trace.error_message) + option(&trace.error_code) + option(&trace.code_hash),
        trace.client.as_ref().map_or(0, client) + raw(&trace.args) + raw(&trace.result),
        trace.logs.iter().map(log).sum(),
        trace.warnings.iter().map(|warning| text(warning)).sum(),
        trace.decisions.iter().map(decision).sum(),
        trace.task_results.iter().map(task).sum(),
        trace.forecasts.iter().map(forecast).sum(),
        truncated + text(&metadata.pml_version) + option(&metadata.era) + option(&metadata.traceparent),
        20 * FIELD,
    ];
    parts.iter().sum()
}

fn size(trace: &Trace) -> usize {
    serde_json::to_vec(trace).map_or(usize::MAX, |json| json.len())
}

fn slots(trace: &Trace) -> Vec<(usize, Slot)> {
    let text = |text: &String| serde_json::to_string(text).map_or(0, |json| json.len());
    let mut slots = Vec::new();
    let mut add = |bytes: Option<usize>, slot| slots.extend(bytes.map(|bytes| (bytes, slot)));
    add(trace.intent.as_ref().map(text), Slot::Intent);
    add(trace.error_message.as_ref().map(text), Slot::ErrorMessage);
    add(trace.code.as_ref().map(text), Slot::Code);
    add(trace.args.as_ref().map(|json| json.get().len()), Slot::Args);
    add(trace.result.as_ref().map(|json| json.get().len()), Slot::Result);
    for (index, line) in trace.logs.iter().enumerate() {
        add(Some(text(&line.text)), Slot::Log(index));
    }
    for (index, warning) in trace.warnings.iter().enumerate() {
        add(Some(text(warning)), Slot::Warning(index));
    }
    for (index, task) in trace.task_results.iter().enumerate() {
        add(task.args.as_ref().map(|json| json.get().len()), Slot::TaskArgs(index));
        add(task.result.as_ref().map(|json| json.get().len()), Slot::TaskResult(index));
        add(task.error.as_ref().map(|error| text(&error.message)), Slot::TaskError(index));
    }
    slots
}

/// Puts the marker in the place of a value, and returns where that is.
fn cut(trace: &mut Trace, slot: Slot) -> String {
    let marker = TRUNCATED.to_owned();
    match slot {
        Slot::Intent => {
            trace.intent = Some(marker);
            "/intent".to_owned()
        }
        Slot::ErrorMessage => {
            trace.error_message = Some(marker);
            "/errorMessage".to_owned()
        }
        Slot::Code => {
            trace.code = Some(marker);
            "/code".to_owned()
        }
        Slot::Args => {
            trace.args = Some(truncated());
            "/args".to_owned()
        }
        Slot::Result => {
            trace.result = Some(truncated());
            "/result".to_owned()
        }
        Slot::Log(index) => {
            trace.logs[index].text = marker;
            format!("/logs/{index}/text")
        }
        Slot::Warning(index) => {
            trace.warnings[index] = marker;
            format!("/warnings/{index}")
        }
        Slot::TaskArgs(index) => {
            trace.task_results[index].args = Some(truncated());
            format!("/taskResults/{index}/args")
        }
        Slot::TaskResult(index) => {
            trace.task_results[index].result = Some(truncated());
            format!("/taskResults/{index}/result")
        }
        Slot::TaskError(index) => {
            if let Some(error) = &mut trace.task_results[index].error {
                error.message = marker;
            }
            format!("/taskResults/{index}/error/message")
        }
    }
}

/// Removes the end of a list, at least `excess` bytes of it if it has as many.
fn shorten(trace: &mut Trace, list: &'static str, excess: usize) {
    fn kept<T: serde::Serialize>(items: &mut Vec<T>, excess: usize) -> (usize, usize) {
        let (mut removed_bytes, mut count) = (0, 0);
        while removed_bytes < excess
            && let Some(item) = items.pop()
        {
            removed_bytes += serde_json::to_vec(&item).map_or(0, |json| json.len() + 1);
            count += 1;
        }
        (removed_bytes, count)
    }
    let (removed_bytes, count) = match list {
        "/forecasts" => kept(&mut trace.forecasts, excess),
        "/decisions" => kept(&mut trace.decisions, excess),
        "/logs" => kept(&mut trace.logs, excess),
        "/warnings" => kept(&mut trace.warnings, excess),
        _ => kept(&mut trace.task_results, excess),
    };
    if list == "/decisions" {
        trace.decisions_cut = trace.decisions_cut.saturating_add(count as u64);
    }
    if count > 0 {
        trace.metadata.truncated.push(Truncated { path: list.to_owned(), original_bytes: removed_bytes as u64 });
    }
}

/// Joins entries of the list of what was cut when there are too many of them.
fn shorten_metadata(trace: &mut Trace) {
    let all = &mut trace.metadata.truncated;
    if all.len() > MAX_TRUNCATED {
        // Whoever delivered the trace may have said anything.
        let rest = all.drain(MAX_TRUNCATED - 1..).fold(0, |rest: u64, entry| rest.saturating_add(entry.original_bytes));
        all.push(Truncated { path: String::new(), original_bytes: rest });
    }
}

#[cfg(test)]
mod tests {
    use pml_wire::ExecutionId;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_bound_on_the_size_of_a_trace_is_one() {
        let worst = "\u{1f}\u{7f}\"\\é\u{10ffff}".repeat(50);
        let long = u64::MAX;
        let task = json!({
            "taskId": worst, "callId": u32::MAX, "kind": "resource", "tool": worst, "args": {"a": worst}, "result": [worst],
            "success": false, "acceptedAt": long, "timestamp": long, "durationMs": -1.797_693_134_862_315_7e308,
            "layerIndex": u32::MAX, "line": u32::MAX, "speculative": true, "error": {"code": worst, "message": worst},
        });
        let full = json!({
            "traceId": ExecutionId::mint(), "parentTraceId": ExecutionId::mint(), "capabilityId": worst, "entry": "execute_code",
            "intent": worst, "caller": worst, "client": {"name": worst, "version": worst}, "success": false,
            "errorMessage": worst, "errorCode": worst, "durationMs": -2.225_073_858_507_201_4e-308, "timestamp": long,
            "code": worst, "codeHash": worst, "args": [worst], "result": {"b": worst},
            "logs": [{"level": worst, "text": worst}], "warnings": [worst, ""],
            "decisions": [{"nodeId": worst, "outcome": worst, "condition": worst}], "decisionsCut": long,
            "taskResults": [task, task],
            "forecasts": [{"tool": worst, "callId": u32::MAX, "certain": false, "follows": -1.797_693_134_862_315_7e308,
                "probability": -2.225_073_858_507_201_4e-308, "outcome": "overtaken"}],
            "metadata": {
                "truncated": [{"path": worst, "originalBytes": long}], "codeRedacted": true, "interrupted": true,
                "pmlVersion": worst, "schemaVersion": u32::MAX, "era": worst, "traceparent": worst,
            },
        });
        let bare = json!({"traceId": ExecutionId::mint(), "success": true, "durationMs": 1.5, "timestamp": 0});
        for trace in [full, bare] {
            let trace: Trace = serde_json::from_value(trace).unwrap();
            assert!(most_bytes(&trace) >= size(&trace), "{} {}", most_bytes(&trace), size(&trace));
        }
    }

    #[test]
    fn numbers_of_others_are_added_up_to_the_largest() {
        let cut = json!({"path": "/a", "originalBytes": u64::MAX});
        let decision = json!({"nodeId": "n", "outcome": "true", "condition": "x".repeat(500)});
        let trace = json!({
            "traceId": ExecutionId::mint(), "success": true, "durationMs": 1.5, "timestamp": 0, "decisionsCut": u64::MAX,
            "decisions": vec![decision; 3000], "metadata": {"truncated": vec![cut; MAX_TRUNCATED + 2]},
        });
        let clean = Sanitizer::default().trace(serde_json::from_value(trace).unwrap()).into_inner();
        assert!(clean.decisions.len() < 3000, "{}", clean.decisions.len());
        assert_eq!(clean.decisions_cut, u64::MAX);
        assert!(clean.metadata.truncated.iter().any(|cut| cut.path.is_empty() && cut.original_bytes == u64::MAX));
    }

    #[test]
    fn a_secret_in_what_says_where_something_was_cut_is_removed() {
        let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
        let trace = json!({
            "traceId": ExecutionId::mint(), "success": true, "durationMs": 1.5, "timestamp": 0,
            "metadata": {"truncated": [{"path": format!("/args/{secret}"), "originalBytes": 20_000}]},
        });
        let clean = Sanitizer::default().trace(serde_json::from_value(trace).unwrap());
        let clean = serde_json::to_string(clean.trace()).unwrap();
        assert!(!clean.contains(secret) && clean.contains("\"originalBytes\":20000"), "{clean}");
    }
}
