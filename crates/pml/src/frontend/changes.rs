//! What clients are told about tools that are not what they were when they were first seen.

use std::{collections::BTreeSet, fmt::Write as _};

use pml_wire::ToolId;

use super::{gateway::Frontend, session::Session};

/// Tools that one answer names; of more it says how many.
const MAX_NAMED: usize = 5;

impl Frontend {
    /// A line for each of these tools that has changed and that the client has not been told of. A server whose tools
    /// change with every start would otherwise be in every answer.
    pub(super) fn note_changes(&self, session: &Session, tools: impl IntoIterator<Item = ToolId>) -> Vec<String> {
        let tools: BTreeSet<_> = tools.into_iter().collect();
        let mut lines = Vec::new();
        let mut more = 0;
        for tool in tools {
            let Some(line) = self.broker.changed_line(&tool).filter(|_| session.tells_change(&tool)) else { continue };
            match lines.len() < MAX_NAMED {
                true => lines.push(line),
                false => more += 1,
            }
        }
        if more > 0 {
            let (noun, verb) = if more == 1 { ("tool", "has") } else { ("tools", "have") };
            lines.push(format!("{more} more {noun} {verb} changed since first seen; `pml tools --changed` shows how"));
        }
        lines
    }

    /// The same, behind a text.
    pub(super) fn tell_changes(&self, text: &mut String, session: &Session, tools: impl IntoIterator<Item = ToolId>) {
        for line in self.note_changes(session, tools) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "warning: {line}");
        }
    }
}
