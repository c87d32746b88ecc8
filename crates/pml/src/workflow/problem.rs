//! What is wrong with a workflow, said all at once.

use std::fmt::Write as _;

use pml_wire::{ErrorCode, message::ErrorReport};
use serde::Serialize;

/// Problems that are told one by one.
const MAX_TOLD: usize = 20;
/// Problems that are kept.
const MAX_KEPT: usize = 100;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The task, if it has an id.
    pub task: Option<String>,
    /// Where in the document, such as `tasks[3].args.path`; empty for the whole.
    pub path: String,
    pub code: ErrorCode,
    pub message: String,
}

impl Problem {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem { task: None, path: path.into(), code: ErrorCode::WorkflowInvalid, message: message.into() }
    }
}

/// Everything that is wrong with a workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    kept: Vec<Problem>,
    count: usize,
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems { kept: vec![problem], count: 1 }
    }
}

impl Problems {
    pub fn push(&mut self, problem: Problem) {
        self.count += 1;
        if self.kept.len() < MAX_KEPT {
            self.kept.push(problem);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many there are, also of those that are not kept.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Those that are kept.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.kept.iter()
    }

    /// The same as one error.
    pub fn report(&self) -> ErrorReport {
        let noun = if self.count == 1 { "problem" } else { "problems" };
        let mut message = format!("the workflow was not started, {} {noun}:", self.count);
        for Problem { task, path, message: why, .. } in self.kept.iter().take(MAX_TOLD) {
            let task = task.as_ref().map(|task| format!("task `{task}`, ")).unwrap_or_default();
            let place = if path.is_empty() { "the workflow" } else { path };
            // Writing to a String cannot fail.
            let _ = write!(message, "\n  {task}{place}: {why}");
        }
        if self.count > MAX_TOLD {
            let _ = write!(message, "\n  and {} more", self.count - MAX_TOLD);
        }
        ErrorReport::new(ErrorCode::WorkflowInvalid, message).with_hint(HINT)
    }
}

/// A report in one text.
pub(super) fn told(report: &ErrorReport) -> String {
    match (&report.frame, &report.hint) {
        (Some(frame), Some(hint)) => format!("{}\n{frame}\nhint: {hint}", report.message),
        (Some(frame), None) => format!("{}\n{frame}", report.message),
        (None, Some(hint)) => format!("{}\nhint: {hint}", report.message),
        (None, None) => report.message.clone(),
    }
}

const HINT: &str = "nothing has run; mend the workflow and send it again";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_told_with_their_places_and_a_flood_is_counted() {
        let mut problems = Problems::default();
        assert!(problems.is_empty());
        problems.push(Problem { task: Some("a".to_owned()), ..Problem::new("tasks[0].args.x", "no") });
        let report = problems.report();
        assert_eq!(report.message, "the workflow was not started, 1 problem:\n  task `a`, tasks[0].args.x: no");
        for _ in 0..10_000 {
            problems.push(Problem::new("", "again"));
        }
        let report = problems.report();
        assert!(report.message.ends_with("\n  and 9981 more") && report.message.len() < 2000, "{}", report.message);
        assert_eq!((problems.len(), problems.iter().count()), (10_001, MAX_KEPT));
    }
}
