//! Counters, in the text form that Prometheus reads.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use pml_learn::SpeculationStatus;
use pml_wire::ErrorCode;

use crate::{
    audit::Counts,
    trace::{Summary, store},
    upstream::{Fleet, HealthState},
};

/// Upper bounds of the durations that are counted, in seconds.
const BOUNDS: [f64; 9] = [0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0];

/// Callers that are counted one by one.
const MAX_CALLERS: usize = 1000;

/// What is counted from the start.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    succeeded: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    calls: AtomicU64,
    calls_failed: AtomicU64,
    /// Runs by duration, each counted in the first bound that holds it.
    durations: [AtomicU64; BOUNDS.len()],
    duration_micros: AtomicU64,
    requests: AtomicU64,
    refused: AtomicU64,
    /// Runs by caller: all, and those that failed.
    by_caller: Mutex<BTreeMap<Arc<str>, (u64, u64)>>,
}

impl Metrics {
    pub(super) fn run(&self, caller: &Arc<str>, summary: Summary) {
        let Summary { code, calls, failed_calls, duration } = summary;
        let counter = match code {
            None => &self.succeeded,
            Some(ErrorCode::Cancelled) => &self.cancelled,
            Some(_) => &self.failed,
        };
        add(counter, 1);
        add(&self.calls, calls);
        add(&self.calls_failed, failed_calls);
        self.duration(duration);
        let mut by_caller = self.by_caller.lock().unwrap_or_else(PoisonError::into_inner);
        if by_caller.len() < MAX_CALLERS || by_caller.contains_key(caller) {
            let (all, failed) = by_caller.entry(Arc::clone(caller)).or_default();
            *all += 1;
            *failed += u64::from(code.is_some());
        }
    }

    fn duration(&self, duration: Duration) {
        self.duration_micros.fetch_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if let Some(index) = BOUNDS.iter().position(|bound| duration.as_secs_f64() <= *bound) {
            add(&self.durations[index], 1);
        }
    }

    /// A request over HTTP that was let in, or not.
    pub(super) fn request(&self, is_let_in: bool) {
        add(if is_let_in { &self.requests } else { &self.refused }, 1);
    }

    /// Everything that is counted, as text, and what there is now: runs, servers and tools.
    pub(super) fn exposition(
        &self,
        runs_in_flight: usize,
        servers: &Fleet,
        tools: usize,
        audit: Counts,
        traces: Option<&store::Health>,
        speculation: Option<SpeculationStatus>,
    ) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, String)]| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let one = |value: u64| vec![(String::new(), value.to_string())];
        let by = |label: &str, values: &[(&str, u64)]| -> Vec<_> {
            values.iter().map(|(name, value)| (format!("{{{label}=\"{name}\"}}"), value.to_string())).collect()
        };
        family(
            "pml_build_info",
            "gauge",
            "The version that runs.",
            &[(format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), "1".to_owned())],
        );
        let (succeeded, failed, cancelled) = (read(&self.succeeded), read(&self.failed), read(&self.cancelled));
        let runs = by("status", &[("success", succeeded), ("error", failed), ("cancelled", cancelled)]);
        family("pml_runs_total", "counter", "Programs that were run.", &runs);
        let by_caller: Vec<_> = {
            let by_caller = self.by_caller.lock().unwrap_or_else(PoisonError::into_inner);
            let counts = |(caller, (all, failed)): (&Arc<str>, &(u64, u64))| {
                let caller = escape(caller);
                [("success", all - failed), ("error", *failed)]
                    .map(|(status, count)| (format!("{{caller=\"{caller}\",status=\"{status}\"}}"), count.to_string()))
            };
            by_caller.iter().flat_map(counts).collect()
        };
        family("pml_runs_by_caller_total", "counter", "Programs that were run, by who ran them.", &by_caller);
        family(
            "pml_runs_in_flight",
            "gauge",
            "Programs that run now, or wait for their turn.",
            &one(runs_in_flight as u64),
        );
        let calls = read(&self.calls);
        let calls_failed = read(&self.calls_failed);
        let calls = by("status", &[("success", calls.saturating_sub(calls_failed)), ("error", calls_failed)]);
        family("pml_tool_calls_total", "counter", "Tool calls that programs made.", &calls);
        let requests = by("verdict", &[("accepted", read(&self.requests)), ("refused", read(&self.refused))]);
        family("pml_http_requests_total", "counter", "HTTP requests, let in or not.", &requests);
        let Counts { lost, late } = audit;
        let lines = by("fate", &[("lost", lost), ("late", late)]);
        family(
            "pml_audit_lines_total",
            "counter",
            "Audit lines that were not written, or after their call went on.",
            &lines,
        );
        if let Some(store::Health { state, queued, counts, .. }) = traces {
            let fates = [("stored", counts.stored), ("late", counts.late), ("dropped", counts.dropped())];
            family("pml_traces_total", "counter", "Traces, by what became of them.", &by("fate", &fates));
            family("pml_traces_waiting", "gauge", "Traces that wait to be written.", &one(*queued as u64));
            let is_well = u64::from(state.is_well());
            family("pml_trace_store_up", "gauge", "Are traces written as they come?", &one(is_well));
        }
        if let Some(SpeculationStatus { made, used, is_on, .. }) = speculation {
            let fates = by("fate", &[("used", used), ("wasted", made.saturating_sub(used))]);
            family("pml_speculative_calls_total", "counter", "Calls made ahead, as of the stored traces.", &fates);
            family("pml_speculation_on", "gauge", "Are calls made ahead of programs?", &one(u64::from(is_on)));
        }
        let servers: Vec<_> = servers
            .all()
            .iter()
            .map(|server| {
                let is_up = server.health().state == HealthState::Healthy;
                (format!("{{server=\"{}\"}}", escape(&server.settings().name)), u8::from(is_up).to_string())
            })
            .collect();
        family("pml_server_up", "gauge", "Is the MCP server connected?", &servers);
        family("pml_tools", "gauge", "Tools in the catalogue.", &one(tools as u64));

        let name = "pml_run_duration_seconds";
        let _ = writeln!(text, "# HELP {name} How long programs ran.\n# TYPE {name} histogram");
        let mut sum = 0;
        for (bound, count) in BOUNDS.iter().zip(&self.durations) {
            sum += read(count);
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {sum}");
        }
        let all = succeeded + failed + cancelled;
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {all}");
        let _ = writeln!(text, "{name}_sum {}", read(&self.duration_micros) as f64 / 1e6);
        let _ = writeln!(text, "{name}_count {all}");
        text
    }
}

/// A text inside a label.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
