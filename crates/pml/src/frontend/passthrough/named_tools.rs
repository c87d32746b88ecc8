//! The tools of servers, found and listed by the names that clients see.

use std::sync::{Arc, PoisonError};

use serde_json::Value;

use super::{super::gateway::Frontend, names::Names};
use crate::{catalog::Tool, work};

impl Frontend {
    /// The names of now. Each call needs them, so they are found once for each catalogue and set of rules.
    fn names(&self) -> Arc<Names> {
        let (snapshot, revision) = (self.shared.catalog.snapshot(), self.broker.revision());
        let mut known = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = |names: &&Arc<Names>| names.revision == revision && Arc::ptr_eq(&names.snapshot, &snapshot);
        match known.as_ref().filter(is_current) {
            Some(names) => Arc::clone(names),
            None => {
                let names = Arc::new(Names::new(snapshot, revision, &self.broker, self.shared.plain_names));
                Arc::clone(known.insert(names))
            }
        }
    }

    /// The names of tools that clients see, of servers.
    pub(in super::super) fn passed_names(&self) -> Vec<String> {
        match self.passes_through() {
            true => self.names().visible.keys().cloned().collect(),
            false => Vec::new(),
        }
    }

    /// The tools of all servers as they describe them, under the names that clients see.
    pub(in super::super) async fn passed_tools(&self) -> Vec<Value> {
        let (names, broker) = (self.names(), Arc::clone(&self.broker));
        work::elsewhere(move |_| names.describe(&broker)).await
    }

    /// The tool that clients see under a name. The long form is understood as well, also of a tool that may not be
    /// called: the broker says so, and writes it down.
    pub(in super::super) fn passed_tool(&self, name: &str) -> Option<Arc<Tool>> {
        if !self.passes_through() {
            return None;
        }
        let names = self.names();
        names.visible.get(name).or_else(|| names.long.get(name)?.as_ref()).cloned()
    }
}
