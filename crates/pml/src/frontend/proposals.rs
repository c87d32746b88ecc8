//! A line for a client whose program has worked again and again: it could have a name.

use std::collections::BTreeSet;

use super::{gateway::Frontend, session::Session};
use crate::{
    execution::Outcome,
    learning::{ENOUGH, name_for, proposal_line},
};

impl Frontend {
    /// The line, once per session and set of tools, if this success is at least the third of its kind and no capability is for
    /// it. Traces of executions that ended a moment ago may not be counted yet.
    pub(super) fn propose(&self, intent: Option<&str>, outcome: &Outcome, session: &Session) -> Option<String> {
        let intent = intent.filter(|intent| !intent.trim().is_empty() && outcome.result.is_ok())?;
        let succeeded = outcome.calls.iter().filter(|call| call.error.is_none());
        let tools: BTreeSet<String> = succeeded.map(|call| call.tool.clone()).collect();
        if tools.is_empty() {
            return None;
        }
        let times = self.broker.repetitions(intent, &tools) + 1;
        let tools: Vec<String> = tools.into_iter().collect();
        (times >= ENOUGH && session.tells_proposal(&tools.join(" ")))
            .then(|| proposal_line(times, &name_for(intent, &tools)))
    }
}
