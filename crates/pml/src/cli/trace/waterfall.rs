//! The tasks of an execution over time, as lines of text.
//!
//! Each task is one line with a bar: where bars are above one another, the tasks ran at the same time. Bars come first, so
//! that they line up whatever the tools are called.

use pml_wire::trace::{TaskResult, Trace};

use super::{
    super::print,
    list::{one_line, room},
};

/// Cells of a bar: of output that is no terminal, or a wide one, and at least.
const CELLS: usize = 40;
const FEWEST_CELLS: usize = 10;
/// Characters of a line besides the bar that are seen before it is made shorter.
const BESIDES: usize = 80;
/// Most characters of what is said of a task: more than there can be.
const MOST_TEXT: usize = 400;
/// Most tasks that are drawn.
const MOST: usize = 200;

/// The lines, without line breaks; none if there are no tasks. On a terminal, which has so many `columns`, the bars are
/// as long as they can be beside what is said, and each ends with a line of it.
pub(super) fn lines(trace: &Trace, columns: Option<usize>) -> Vec<String> {
    let tasks = &trace.task_results;
    if tasks.is_empty() {
        return Vec::new();
    }
    let spans: Vec<_> = tasks.iter().map(|task| Span::of(trace, task)).collect();
    let total = spans.iter().map(|span| span.end).fold(finite(trace.duration_ms), f64::max).max(0.001);
    let id_width = tasks.iter().take(MOST).map(|task| task.task_id.chars().count()).max().unwrap_or(0).min(6);
    let took: Vec<_> = tasks.iter().map(|task| print::millis(task.duration_ms)).collect();
    let end = print::millis(total);
    let cells = columns.map_or(CELLS, |columns| columns.saturating_sub(BESIDES).clamp(FEWEST_CELLS, CELLS));
    let mut lines = vec![format!("{:id_width$}  0 ms{end:>width$}", "", width = cells - 2)];
    for ((task, span), took) in tasks.iter().zip(&spans).zip(&took).take(MOST) {
        let id = one_line(&task.task_id, 6);
        let line = task.line.map(|line| format!("L{line}")).unwrap_or_default();
        let tool = one_line(&task.tool, 60);
        let start = format!("{id:<id_width$}  |{}|  {took:>8}  {line:<5} ", span.bar(total, task.success, cells));
        let mut text = tool;
        let waited = span.start - span.accepted;
        if waited >= 1.0 {
            text.push_str(&format!("  waited {}", print::millis(waited)));
        }
        if task.speculative {
            text.push_str("  answered ahead");
        }
        if let Some(error) = &task.error {
            text.push_str(&format!("  {}: {}", one_line(&error.code, 40), one_line(&error.message, 120)));
        } else if !task.success {
            text.push_str("  failed");
        }
        // Made visible already: what is added to it has no line breaks.
        let text = one_line(&text, room(columns, start.chars().count(), MOST_TEXT));
        lines.push((start + &text).trim_end().to_owned());
    }
    if tasks.len() > MOST {
        lines.push(format!("{:id_width$}  … and {} more; --json has all", "", tasks.len() - MOST));
    }
    let has_waits = spans.iter().any(|span| span.start - span.accepted >= 1.0);
    let has_failures = tasks.iter().any(|task| !task.success);
    let waits = if has_waits { ", . waits for its turn" } else { "" };
    let failures = if has_failures { ", ! fails" } else { "" };
    lines.push(format!("{:id_width$}  # runs{waits}{failures}; L is the line of the program", ""));
    lines
}

/// When a task was taken, started and ended, in milliseconds after the execution began.
struct Span {
    accepted: f64,
    start: f64,
    end: f64,
}

impl Span {
    fn of(trace: &Trace, task: &TaskResult) -> Span {
        let after = |moment: u64| moment.saturating_sub(trace.timestamp.0) as f64;
        let start = after(task.timestamp.0);
        let accepted = task.accepted_at.map_or(start, |moment| after(moment.0)).min(start);
        // Moments are whole milliseconds; a task that is drawn longer than the execution would mislead.
        Span { accepted, start, end: start + finite(task.duration_ms) }
    }

    fn bar(&self, total: f64, success: bool, cells: usize) -> String {
        let cell = |moment: f64| ((moment / total * cells as f64) as usize).min(cells - 1);
        let (accepted, start) = (cell(self.accepted), cell(self.start));
        let end = cell(self.end).max(start);
        let mark = |at: usize| match () {
            () if at < accepted || at > end => ' ',
            () if at < start => '.',
            () if at == end && !success => '!',
            () => '#',
        };
        (0..cells).map(mark).collect()
    }
}

fn finite(duration_ms: f64) -> f64 {
    if duration_ms.is_finite() { duration_ms.max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn trace(tasks: serde_json::Value, duration_ms: f64) -> Trace {
        let trace = json!({
            "traceId": "0199d5f0-0000-7000-8000-000000000001", "success": true, "timestamp": 1000,
            "durationMs": duration_ms, "taskResults": tasks,
        });
        serde_json::from_value(trace).unwrap()
    }

    #[test]
    fn parallel_calls_are_above_one_another_and_waits_and_failures_are_seen() {
        let tasks = json!([
            {"taskId": "t1", "tool": "a:b", "success": true, "timestamp": 1000, "durationMs": 100, "line": 3},
            {"taskId": "t2", "tool": "a:c", "success": true, "acceptedAt": 1000, "timestamp": 1100, "durationMs": 100},
            {"taskId": "t10", "tool": "d:e\u{202e}\nx", "success": false, "timestamp": 1300, "durationMs": 100, "line": 12,
             "error": {"code": "TOOL_ERROR", "message": "no\nsuch"}},
        ]);
        let expected = [
            "     0 ms                              400.0 ms",
            "t1   |###########                             |  100.0 ms  L3    a:b",
            "t2   |..........###########                   |  100.0 ms        a:c  waited 100.0 ms",
            "t10  |                              #########!|  100.0 ms  L12   d:e\\u{202e} x  TOOL_ERROR: no such",
            "     # runs, . waits for its turn, ! fails; L is the line of the program",
        ];
        assert_eq!(lines(&trace(tasks, 400.0), None), expected);
    }

    #[test]
    fn times_that_cannot_be_are_drawn_all_the_same() {
        let tasks = json!([
            {"taskId": "t1", "tool": "a:b", "success": true, "timestamp": 0, "durationMs": -5},
            {"taskId": "t2", "tool": "a:b", "success": true, "timestamp": u64::MAX, "durationMs": 1e308},
            {"taskId": "t3", "tool": "a:b", "success": true, "acceptedAt": u64::MAX, "timestamp": 1000, "durationMs": 0},
        ]);
        for duration in [0.0, 1e308, -1.0] {
            let lines = lines(&trace(tasks.clone(), duration), None);
            assert_eq!(lines.len(), 5);
            let at = |line: &str| (line.find('|'), line.rfind('|'));
            assert!(lines[1..4].iter().all(|line| at(line) == (Some(4), Some(45))), "{lines:#?}");
        }
        assert!(lines(&trace(json!([]), 1.0), None).is_empty());
    }

    #[test]
    fn many_tasks_are_cut_with_a_count() {
        let task = json!({"taskId": "t1", "tool": "a:b", "success": true, "timestamp": 1000, "durationMs": 1});
        let lines = lines(&trace(json!(vec![task; 1000]), 5.0), None);
        assert_eq!(lines.len(), MOST + 3);
        assert!(lines[MOST + 1].contains("and 800 more"), "{}", lines[MOST + 1]);
    }

    #[test]
    fn a_narrow_terminal_has_short_bars_and_whole_lines() {
        let tasks = json!([
            {"taskId": "t1", "tool": "github:list_issues", "success": false, "timestamp": 1000, "durationMs": 5,
             "error": {"code": "TOOL_ERROR", "message": "no such address ".repeat(9)}},
        ]);
        for (columns, cells, lines_taken) in [(200, 40, 1), (100, 20, 1), (80, 10, 1), (40, 10, 2)] {
            let lines = lines(&trace(tasks.clone(), 5.0), Some(columns));
            let task = &lines[1];
            assert_eq!(task.split('|').nth(1).map(str::len), Some(cells), "{task}");
            assert!(task.chars().count() <= lines_taken * columns, "{columns}: {task}");
            assert!(task.contains("TOOL_ERROR") || columns < 80, "{columns}: {task}");
        }
    }
}
