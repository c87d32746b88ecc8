//! What a trace teaches: the tools that were called for an intent, and how each call ended.

use pml_learn::{Ahead, Forecasted, Prospect, StepOutcome, TraceId};
use pml_wire::{
    ErrorCode, ToolId,
    trace::{Forecast, ForecastOutcome, TaskKind, TaskResult, Trace},
};

/// The server of what pml offers itself, which runs the calls of others.
const OWN: &str = "pml";
/// Longest intent that is read, in bytes. The search reads no more of a query.
const MAX_INTENT: usize = 4096;
/// Steps that are read.
const MAX_STEPS: usize = 64;

/// A trace as the model takes it, before its intent was searched for.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    pub trace: TraceId,
    pub time_ms: i64,
    pub caller: String,
    pub intent: String,
    pub steps: Vec<(String, StepOutcome)>,
    pub forecasts: Vec<Forecasted>,
    pub capability: Option<String>,
    pub success: bool,
}

impl Lesson {
    /// Reads a trace. `None` if no tool was called, or if the execution was [cut off](is_cut_off). A time that is still to come
    /// counts as now.
    pub fn of(trace: &Trace, now_ms: u64) -> Option<Lesson> {
        if trace.error_code.as_deref().is_some_and(is_cut_off) {
            return None;
        }
        let tools = trace.task_results.iter().filter(|task| task.kind == TaskKind::Tool);
        // A name that is no tool id was never a tool.
        let known = tools.filter(|task| task.tool.parse::<ToolId>().is_ok_and(|tool| tool.server() != OWN));
        let steps: Vec<_> = known.take(MAX_STEPS).map(|task| (task.tool.clone(), outcome(task))).collect();
        if steps.is_empty() {
            return None;
        }
        let intent = trace.intent.as_deref().unwrap_or_default();
        Some(Lesson {
            trace: TraceId(u128::from_be_bytes(*trace.trace_id.as_bytes())),
            time_ms: trace.timestamp.0.min(now_ms) as i64,
            caller: trace.caller.clone(),
            intent: intent[..intent.floor_char_boundary(MAX_INTENT)].to_owned(),
            steps,
            forecasts: trace.forecasts.iter().filter_map(forecasted).collect(),
            capability: trace.capability_id.clone(),
            success: trace.success,
        })
    }
}

/// Codes of executions that somebody else ended: nobody knows whether they would have succeeded, so they count neither as a
/// success nor as a failure.
pub const CUT_OFF: [ErrorCode; 2] = [ErrorCode::Cancelled, ErrorCode::Interrupted];

fn is_cut_off(code: &str) -> bool {
    CUT_OFF.iter().any(|cut_off| cut_off.as_str() == code)
}

/// What a forecast teaches. `None` if nobody knows what became of it.
fn forecasted(forecast: &Forecast) -> Option<Forecasted> {
    let Forecast { call_id, certain, follows, probability, outcome, .. } = *forecast;
    let came_true = match outcome {
        ForecastOutcome::Used | ForecastOutcome::Failed | ForecastOutcome::Right => true,
        ForecastOutcome::Late | ForecastOutcome::Overtaken | ForecastOutcome::Wrong => false,
        ForecastOutcome::Open | ForecastOutcome::Other => return None,
    };
    let ahead = match (outcome, call_id) {
        (ForecastOutcome::Used, _) => Ahead::Used,
        (_, Some(_)) => Ahead::Wasted,
        (_, None) => Ahead::NotMade,
    };
    Some(Forecasted { prospect: Prospect { is_certain: certain, follows }, probability, came_true, ahead })
}

/// A call that the tool never heard of, or that nobody waited for, says nothing about the tool.
fn outcome(task: &TaskResult) -> StepOutcome {
    if task.success {
        return StepOutcome::Succeeded;
    }
    let is_tools_own = [
        ErrorCode::ToolError,
        ErrorCode::ProviderTimeout,
        ErrorCode::ProviderCrashed,
        ErrorCode::ProviderProtocol,
        ErrorCode::InvalidResult,
    ]
    .iter()
    .any(|code| task.error.as_ref().is_some_and(|error| error.code == code.as_str()));
    if is_tools_own { StepOutcome::Failed } else { StepOutcome::Skipped }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn trace(tasks: &[(&str, &str, Option<&str>)]) -> Trace {
        let task = |(kind, tool, error): &(&str, &str, Option<&str>)| {
            let mut task = json!({
                "taskId": "t1", "kind": kind, "tool": tool, "success": error.is_none(), "timestamp": 2, "durationMs": 1,
            });
            if let Some(code) = error {
                task["error"] = json!({ "code": code, "message": "no" });
            }
            task
        };
        let tasks: Vec<_> = tasks.iter().map(task).collect();
        let value = json!({
            "traceId": "0199d5f0-0000-7000-8000-000000000001", "success": false, "durationMs": 1.5, "timestamp": 5000,
            "intent": "do it", "caller": "me", "taskResults": tasks,
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_no_tool_has_done_is_no_evidence() {
        use StepOutcome::{Failed, Skipped, Succeeded};
        let trace = trace(&[
            ("search", "pml:search", None),
            ("tool", "a:done", None),
            ("tool", "a:failed", Some("TOOL_ERROR")),
            ("tool", "a:cancelled", Some("CANCELLED")),
            ("tool", "a:denied", Some("POLICY_DENIED")),
            ("tool", "a:wrong", Some("INVALID_ARGUMENTS")),
            ("tool", "a:newer", Some("OF_A_NEWER_PML")),
            ("tool", "no tool", None),
            ("resource", "a:resource:x", None),
        ]);
        let lesson = Lesson::of(&trace, 10_000).unwrap();
        let told: Vec<_> = lesson.steps.iter().map(|(tool, outcome)| (tool.as_str(), *outcome)).collect();
        let expected = [
            ("a:done", Succeeded),
            ("a:failed", Failed),
            ("a:cancelled", Skipped),
            ("a:denied", Skipped),
            ("a:wrong", Skipped),
            ("a:newer", Skipped),
        ];
        assert_eq!(told, expected);
        assert_eq!((lesson.time_ms, Lesson::of(&trace, 70).unwrap().time_ms), (5000, 70), "the future is now");
    }

    #[test]
    fn forecasts_teach_whether_they_came_true_and_what_was_made_ahead() {
        let mut trace = trace(&[("tool", "a:done", None)]);
        #[rustfmt::skip]
        let table = [
            // outcome                    call made   came true, ahead
            (ForecastOutcome::Used,       Some(1),    Some((true,  Ahead::Used))),
            (ForecastOutcome::Failed,     Some(1),    Some((true,  Ahead::Wasted))),
            (ForecastOutcome::Right,      None,       Some((true,  Ahead::NotMade))),
            (ForecastOutcome::Late,       Some(1),    Some((false, Ahead::Wasted))),
            (ForecastOutcome::Overtaken,  Some(1),    Some((false, Ahead::Wasted))),
            (ForecastOutcome::Overtaken,  None,       Some((false, Ahead::NotMade))),
            (ForecastOutcome::Wrong,      Some(1),    Some((false, Ahead::Wasted))),
            (ForecastOutcome::Wrong,      None,       Some((false, Ahead::NotMade))),
            (ForecastOutcome::Open,       Some(1),    None),
            (ForecastOutcome::Other,      Some(1),    None),
        ];
        for (outcome, call_id, expected) in table {
            let tool = "a:done".to_owned();
            trace.forecasts = vec![Forecast { tool, call_id, certain: true, follows: 0.5, probability: 0.9, outcome }];
            let lesson = Lesson::of(&trace, 10_000).unwrap();
            let taught = lesson.forecasts.first().map(|taught| (taught.came_true, taught.ahead));
            assert_eq!(taught, expected, "{outcome:?} {call_id:?}");
        }
    }

    #[test]
    fn a_trace_without_tools_or_without_an_end_of_its_own_teaches_nothing() {
        assert_eq!(Lesson::of(&trace(&[("search", "pml:search", None)]), 10_000), None);
        for (code, teaches) in [("EXCEPTION", true), ("TIMEOUT", true), ("CANCELLED", false), ("INTERRUPTED", false)] {
            let mut trace = trace(&[("tool", "a:done", None)]);
            trace.error_code = Some(code.to_owned());
            assert_eq!(Lesson::of(&trace, 10_000).is_some(), teaches, "{code}");
        }
    }
}
