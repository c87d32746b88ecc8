//! What an execution used: tools, resources and prompts whose calls were permitted, sent, and answered.
//!
//! The broker notes a name only after the provider has answered, so a call that was denied, malformed or never sent leaves
//! none. A program that becomes a capability may use exactly these names later.
//!
//! Programs and workflows that an execution runs as parts of itself share its notes. A capability has notes of its own, because it
//! has a list of tools of its own.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use pml_wire::{CallId, ErrorCode, ExecutionId};

/// Names that one execution notes at most.
const MAX_NAMES: usize = 1000;

/// What an execution used.
#[derive(Debug, Default)]
pub struct Used {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeSet<String>,
    /// Resources and prompts by the question that asked for them: a program need not name their server.
    subjects: HashMap<(ExecutionId, CallId), String>,
}

impl Used {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call of a tool was answered.
    pub fn tool(&self, name: &str) {
        let mut state = self.state();
        if state.names.len() < MAX_NAMES && !state.names.contains(name) {
            state.names.insert(name.to_owned());
        }
    }

    /// A question for a resource or a prompt was answered. `name` is its name in the policy, with the server that answered.
    pub fn subject(&self, question: (ExecutionId, CallId), name: &str) {
        self.tool(name);
        let mut state = self.state();
        if state.subjects.len() < MAX_NAMES {
            state.subjects.insert(question, name.to_owned());
        }
    }

    /// What a question was answered with, by its name in the policy.
    pub fn subject_of(&self, question: (ExecutionId, CallId)) -> Option<String> {
        self.state().subjects.get(&question).cloned()
    }

    /// Everything that was used, by the names that the policy has.
    pub fn names(&self) -> BTreeSet<String> {
        self.state().names.clone()
    }
}

/// Does an error with this code say that the call was permitted, sent and answered?
pub fn is_answer(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::ToolError | ErrorCode::InvalidResult | ErrorCode::InputRequired | ErrorCode::CapabilityFailed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_noted_once_and_bounded() {
        let used = Used::default();
        let execution = ExecutionId::mint();
        used.tool("fs:read");
        used.tool("fs:read");
        used.subject((execution, CallId(2)), "fs:resource:note:1");
        assert_eq!(used.names().into_iter().collect::<Vec<_>>(), ["fs:read", "fs:resource:note:1"]);
        assert_eq!(used.subject_of((execution, CallId(2))).as_deref(), Some("fs:resource:note:1"));
        assert_eq!(used.subject_of((ExecutionId::mint(), CallId(2))), None);
        (0..5000).for_each(|number| used.tool(&format!("fs:t{number}")));
        assert_eq!(used.names().len(), MAX_NAMES);
    }

    #[test]
    fn refusals_and_failures_on_the_way_are_no_answers() {
        for code in [
            ErrorCode::PolicyDenied,
            ErrorCode::ToolNotFound,
            ErrorCode::InvalidArguments,
            ErrorCode::CallBudgetSpent,
            ErrorCode::Cancelled,
            ErrorCode::RateLimited,
            ErrorCode::ProviderUnavailable,
            ErrorCode::ProviderTimeout,
            ErrorCode::CapabilityCycle,
        ] {
            assert!(!is_answer(code), "{code}");
        }
        assert!(is_answer(ErrorCode::ToolError));
    }
}
