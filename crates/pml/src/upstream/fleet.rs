//! The servers there are now, and how one set of them follows another.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::watch;

use super::handle::Upstream;
use crate::catalog::typescript;

/// The servers there are now. Everybody who holds a clone sees the same.
#[derive(Clone, Debug)]
pub struct Fleet {
    current: watch::Sender<Arc<BTreeMap<String, Upstream>>>,
}

impl Fleet {
    pub fn new(servers: impl IntoIterator<Item = Upstream>) -> Fleet {
        let fleet = Fleet { current: watch::Sender::new(Arc::default()) };
        servers.into_iter().for_each(|server| drop(fleet.put(server)));
        fleet
    }

    pub fn get(&self, name: &str) -> Option<Upstream> {
        self.current.borrow().get(name).cloned()
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<Upstream> {
        self.current.borrow().values().cloned().collect()
    }

    /// Adds a server. The one that was called so before, if there was one.
    pub fn put(&self, server: Upstream) -> Option<Upstream> {
        self.change(|servers| servers.insert(server.settings().name.clone(), server))
    }

    pub fn remove(&self, name: &str) -> Option<Upstream> {
        self.change(|servers| servers.remove(name))
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Upstream>) -> Option<Upstream>) -> Option<Upstream> {
        let mut before = None;
        self.current.send_modify(|servers| before = change(Arc::make_mut(servers)));
        before
    }

    /// The servers that a program seems to call, by its text: a guess, on which nothing depends.
    pub fn named_in(&self, code: &str) -> Vec<Upstream> {
        let mut servers = self.all();
        servers.retain(|server| {
            let name = &server.settings().name;
            mentions(code, name) || typescript::alias(name).is_some_and(|alias| mentions(code, &alias))
        });
        servers
    }
}

/// Does `mcp.name`, `mcp["name"]` or `"name:tool"` stand in a program?
fn mentions(code: &str, name: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$');
    let before = ["mcp.", "mcp?.", "mcp[\"", "mcp['", "mcp[`"];
    let as_member = before.iter().any(|before| {
        code.match_indices(&format!("{before}{name}")).any(|(at, found)| is_end(&code[at + found.len()..]))
    });
    as_member || ["\"", "'", "`"].iter().any(|quote| code.contains(&format!("{quote}{name}:")))
}

#[cfg(test)]
mod tests {
    use super::mentions;

    #[test]
    fn a_server_is_mentioned_where_it_is_called() {
        let table = [
            ("await mcp.git.log({})", true),
            ("await mcp['git'].log({})", true),
            ("callTool(\"git:log\", {})", true),
            ("return 'digits of pi'", false),
            ("mcp.github.x()", false),
            ("// git", false),
        ];
        for (code, expected) in table {
            assert_eq!(mentions(code, "git"), expected, "{code}");
        }
    }
}
