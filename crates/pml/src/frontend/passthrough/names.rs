//! The names under which clients see what servers have.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use serde_json::{Map, Value};

use super::super::tools;
use crate::{
    broker::Broker,
    broker::CAPABILITIES,
    catalog::{Snapshot, Tool},
    digest::sha256,
    shown::clean_listed,
};

/// Between the name of a server and that of its tool.
pub(super) const BETWEEN: &str = "__";
/// Longest name: some clients take no longer one.
const MAX_NAME: usize = 64;
/// Of a hash, enough to tell names apart.
const HASH: usize = 8;

/// `server__name`, or a shorter one that stands for it.
pub(super) fn prefixed(server: &str, name: &str) -> String {
    let whole = format!("{server}{BETWEEN}{name}");
    if is_fit(&whole) { whole } else { hashed(server, name) }
}

/// Does every client take this name?
pub(super) fn is_fit(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(is_plain)
}

/// The form that is never another's: the start of the name, and a hash of the whole.
fn hashed(server: &str, name: &str) -> String {
    let whole = format!("{server}{BETWEEN}{name}");
    let start: String = whole
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .take(MAX_NAME - HASH - 1)
        .collect();
    format!("{start}_{}", &sha256(format!("{server}\0{name}"))[..HASH])
}

/// A name for each of these tools or prompts, which are `(server, name)`, no two the same. `wants_plain` leaves the server
/// out where only one has the name.
pub(super) fn distinct(ids: &[(&str, &str)], wants_plain: bool) -> Vec<String> {
    let long: Vec<_> = ids.iter().map(|(server, name)| prefixed(server, name)).collect();
    let taken: HashSet<_> = long.iter().map(String::as_str).collect();
    let count = |names: &mut dyn Iterator<Item = &str>| {
        let mut counts: HashMap<String, usize> = HashMap::new();
        names.for_each(|name| *counts.entry(name.to_owned()).or_default() += 1);
        counts
    };
    let plain = count(&mut ids.iter().map(|(_, name)| *name));
    let mut names: Vec<_> = ids
        .iter()
        .zip(&long)
        .map(|(&(_, name), long)| {
            // A tool must not pass for another server's by being called like its long form, or for one of ours.
            let is_free = plain[name] == 1 && !taken.contains(name) && !tools::is_own(name);
            let is_plain = wants_plain && is_free && is_fit(name);
            if is_plain { name.to_owned() } else { long.clone() }
        })
        .collect();
    let counts = count(&mut names.iter().map(String::as_str));
    for (name, (server, own)) in names.iter_mut().zip(ids) {
        if counts[name.as_str()] > 1 || tools::is_own(name) {
            *name = hashed(server, own);
        }
    }
    names
}

/// The tools of all servers by the names that clients see, as of one catalogue and one set of rules.
#[derive(Debug)]
pub(in super::super) struct Names {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) revision: u64,
    /// Those that the policy allows by their names.
    pub(super) visible: BTreeMap<String, Arc<Tool>>,
    /// All, by their long forms; `None` if several have the same.
    pub(super) long: HashMap<String, Option<Arc<Tool>>>,
}

impl Names {
    pub(super) fn new(snapshot: Arc<Snapshot>, revision: u64, broker: &Broker, wants_plain: bool) -> Names {
        // Capabilities are programs, which only pml itself can run.
        let of_servers = || snapshot.tools().filter(|tool| tool.id.server() != CAPABILITIES);
        let permitted: Vec<_> = of_servers().filter(|tool| broker.permits(&tool.id)).collect();
        let ids: Vec<_> = permitted.iter().map(|tool| (tool.id.server(), tool.id.tool())).collect();
        let visible = distinct(&ids, wants_plain).into_iter().zip(permitted.into_iter().cloned()).collect();
        let mut long = HashMap::new();
        for tool in of_servers() {
            let several = |known: &mut Option<Arc<Tool>>| *known = None;
            let name = prefixed(tool.id.server(), tool.id.tool());
            long.entry(name).and_modify(several).or_insert_with(|| Some(Arc::clone(tool)));
        }
        Names { snapshot, revision, visible, long }
    }

    /// The tools that may be called, as their servers describe them. Takes time in proportion to the catalogue.
    pub(super) fn describe(&self, broker: &Broker) -> Vec<Value> {
        let describe = |(name, tool): (&String, &Arc<Tool>)| {
            let mut described: Map<String, Value> = serde_json::from_str(tool.raw().get()).ok()?;
            clean_listed(&mut described);
            described.insert("name".to_owned(), name.as_str().into());
            if let Some(line) = broker.changed_line(&tool.id) {
                let description = described.get("description").and_then(Value::as_str).unwrap_or_default();
                let description = format!("{description}\n\n[pml: {line}]");
                described.insert("description".to_owned(), description.trim_start().into());
            }
            // A client drops a tool whose schema is no object.
            if !described.get("inputSchema").is_some_and(Value::is_object) {
                described.insert("inputSchema".to_owned(), serde_json::json!({ "type": "object" }));
            }
            Some(described.into())
        };
        self.visible.iter().filter(|(_, tool)| broker.allows(&tool.id)).filter_map(describe).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_every_client() {
        assert_eq!(prefixed("fs", "read_file"), "fs__read_file");
        let long = prefixed("server", &"x".repeat(100));
        assert_eq!(long.len(), MAX_NAME);
        assert_ne!(long, prefixed("server", &"x".repeat(101)), "what is left out still counts");
        let odd = prefixed("my server", "größe/ändern");
        assert!(odd.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')), "{odd}");
    }

    #[test]
    fn no_tool_passes_for_another() {
        type Row<'a> = (&'a [&'a str], bool, &'a [Option<&'a str>]);
        let table: [Row<'_>; 7] = [
            (&["fs:read", "git:log"], false, &[Some("fs__read"), Some("git__log")]),
            (&["fs:read", "git:log"], true, &[Some("read"), Some("log")]),
            (&["fs:read", "git:read"], true, &[Some("fs__read"), Some("git__read")]),
            // `None` is a name with a hash.
            (&["a:b__c", "a__b:c"], false, &[None, None]),
            (&["fs:read", "evil:fs__read"], true, &[Some("read"), Some("evil__fs__read")]),
            (&["evil:execute_code"], true, &[Some("evil__execute_code")]),
            (&["odd:a b"], true, &[None]),
        ];
        for (ids, plain, expected) in table {
            let ids: Vec<_> = ids.iter().map(|id| id.split_once(':').unwrap()).collect();
            let names = distinct(&ids, plain);
            assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "{names:?}");
            for (name, expected) in names.iter().zip(expected) {
                assert!(expected.is_none_or(|expected| name == expected), "{names:?}");
            }
        }
    }
}
