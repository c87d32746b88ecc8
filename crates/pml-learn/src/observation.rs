//! What the host tells the model, and asks it.

use crate::{foresight::Forecasted, tools::Tools};

/// The id of a trace. The same trace has the same id however often it is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub u128);

/// One finished execution.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    pub trace: TraceId,
    /// When the execution was accepted, in milliseconds since 1970. The host puts what lies in the future of its own clock at now.
    pub time_ms: i64,
    /// On whose behalf. What one caller can say for one tool is bounded.
    pub caller: &'a str,
    /// The direction of the intent. Empty or zero if there was no intent; then the trace teaches transitions only.
    pub intent: &'a [f32],
    /// Hashes of the words of the intent.
    pub words: &'a [u32],
    /// All tools that the search knows.
    pub tools: &'a Tools,
    /// The score of each for the intent, 0 if it does not fit. May be empty if they are [not needed](crate::needs_scores).
    pub scores: &'a [f32],
    /// In the order in which they were called.
    pub steps: &'a [Step<'a>],
    /// Calls that were expected of the execution, and what became of each forecast.
    pub forecasts: &'a [Forecasted],
    /// The capability that ran, if the execution was one of a capability.
    pub capability: Option<&'a str>,
    /// Whether the execution succeeded as a whole.
    pub success: bool,
}

/// A call of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The canonical id, `server:tool`.
    pub tool: &'a str,
    pub outcome: StepOutcome,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    Succeeded,
    /// Counts against the tool's success rate and is no evidence that the tool fits.
    Failed,
    /// Cancelled, refused or never started: says nothing about the tool.
    Skipped,
}

/// A question for a ranking.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    pub purpose: Purpose,
    /// The direction of the intent. Empty or zero if there is none.
    pub intent: &'a [f32],
    /// Hashes of the words of the intent.
    pub words: &'a [u32],
    /// Tools that were called so far, the last one last. Empty asks for all tools of a task, otherwise for the next one.
    pub prefix: &'a [&'a str],
    /// What is to be ranked.
    pub tools: &'a Tools,
    /// The score that the search gave to each.
    pub scores: &'a [f32],
}

/// What a ranking is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To suggest tools: the intent is that of a whole task.
    Suggestion,
    /// To answer a search: the intent is what is looked for now. The tools so far decide only among tools that fit it.
    Search,
}

impl Query<'_> {
    pub fn task(&self) -> Task {
        if self.prefix.is_empty() || self.purpose == Purpose::Search { Task::Set } else { Task::Next }
    }
}

/// What is learned. Each has weights and a gate of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// All tools of a task, given its intent.
    Set,
    /// The next tool, given the intent and the tools so far.
    Next,
}

impl Task {
    pub(crate) const ALL: [Task; 2] = [Task::Set, Task::Next];

    pub(crate) fn index(self) -> usize {
        match self {
            Task::Set => 0,
            Task::Next => 1,
        }
    }
}
