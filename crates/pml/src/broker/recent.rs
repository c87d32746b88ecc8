//! The tools that were called last, by session, or by execution where there is no session: what a search goes on from.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use pml_wire::ToolId;

use crate::trace::Context;

/// Tools of one session.
const TOOLS: usize = 16;
/// Sessions; the one that called something longest ago goes first.
const SESSIONS: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    of_sessions: HashMap<String, Session>,
    /// Counts calls.
    number: u64,
}

#[derive(Debug, Default)]
struct Session {
    tools: VecDeque<String>,
    last: u64,
}

impl Recent {
    /// A call has succeeded.
    pub(super) fn note(&self, context: &Context, tool: &ToolId) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.number += 1;
        let number = calls.number;
        let key = key(context);
        if !calls.of_sessions.contains_key(&key) && calls.of_sessions.len() >= SESSIONS {
            let oldest = calls.of_sessions.iter().min_by_key(|(_, session)| session.last).map(|(key, _)| key.clone());
            oldest.map(|key| calls.of_sessions.remove(&key));
        }
        let session = calls.of_sessions.entry(key).or_default();
        session.last = number;
        // A loop over one tool says no more than one call of it.
        if session.tools.back().is_none_or(|last| last != tool.as_str()) {
            if session.tools.len() == TOOLS {
                session.tools.pop_front();
            }
            session.tools.push_back(tool.to_string());
        }
    }

    /// What was called so far, the last one last.
    pub(super) fn tools(&self, context: &Context) -> Vec<String> {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.of_sessions.get(&key(context)).map(|session| session.tools.iter().cloned().collect()).unwrap_or_default()
    }
}

fn key(context: &Context) -> String {
    context.session.as_deref().map_or_else(|| context.execution.to_string(), |session| format!("session {session}"))
}

#[cfg(test)]
mod tests {
    use pml_wire::trace::Entry;

    use super::*;

    #[test]
    fn sessions_are_kept_apart_and_bounded() {
        let recent = Recent::default();
        let context = |session: &str| {
            let mut context = Context::new(Entry::ExecuteCode, "me");
            context.session = Some(session.into());
            context
        };
        let tool = |name: &str| name.parse::<ToolId>().unwrap();
        for number in 0..40 {
            recent.note(&context("a"), &tool(&format!("s:t{}", number / 2)));
        }
        let tools = recent.tools(&context("a"));
        assert_eq!((tools.len(), tools.last().map(String::as_str)), (TOOLS, Some("s:t19")));
        assert!(recent.tools(&context("b")).is_empty());
        let run = Context::new(Entry::Run, "cli");
        recent.note(&run, &tool("s:x"));
        assert_eq!(recent.tools(&run), ["s:x"]);
        assert!(recent.tools(&Context::new(Entry::Run, "cli")).is_empty(), "another run");
        for number in 0..2 * SESSIONS {
            recent.note(&context(&number.to_string()), &tool("s:x"));
        }
        assert!(recent.tools(&context("a")).is_empty() && recent.0.lock().unwrap().of_sessions.len() == SESSIONS);
    }
}
