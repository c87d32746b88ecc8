//! The names under which clients see what servers have.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::{Map, Value};

use super::super::{gateway::Frontend, tools};
use crate::{
    catalog::{Tool, hash},
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
    format!("{start}_{}", &hash(&format!("{server}\0{name}"))[..HASH])
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

impl Frontend {
    /// The tools of all servers that may be called, by the names that clients see.
    fn named_tools(&self) -> Vec<(String, Arc<Tool>)> {
        let snapshot = self.catalog.snapshot();
        let allowed: Vec<_> = snapshot.tools().filter(|tool| self.broker.allows(&tool.id)).collect();
        let ids: Vec<_> = allowed.iter().map(|tool| (tool.id.server(), tool.id.tool())).collect();
        let names = distinct(&ids, self.plain_names);
        let mut named: Vec<_> = names.into_iter().zip(allowed.into_iter().cloned()).collect();
        named.sort_by(|(a, _), (b, _)| a.cmp(b));
        named
    }

    /// The names of tools that clients see, of servers.
    pub(in super::super) fn passed_names(&self) -> Vec<String> {
        match self.passes_through() {
            true => self.named_tools().into_iter().map(|(name, _)| name).collect(),
            false => Vec::new(),
        }
    }

    /// The tools of all servers as they describe them, under the names that clients see.
    pub(in super::super) fn passed_tools(&self) -> Vec<Value> {
        let describe = |(name, tool): (String, Arc<Tool>)| {
            let mut described: Map<String, Value> = serde_json::from_str(tool.raw().get()).ok()?;
            clean_listed(&mut described);
            described.insert("name".to_owned(), name.into());
            if let Some(line) = self.broker.changed_line(&tool.id) {
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
        self.named_tools().into_iter().filter_map(describe).collect()
    }

    /// The tool that clients see under a name.
    pub(in super::super) fn passed_tool(&self, name: &str) -> Option<Arc<Tool>> {
        if !self.passes_through() {
            return None;
        }
        let named = self.named_tools();
        let index = named.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok();
        if let Some(index) = index {
            return Some(Arc::clone(&named[index].1));
        }
        // The long form is understood as well, also of a tool that may not be called: the broker says so, and writes
        // it down.
        let snapshot = self.catalog.snapshot();
        let mut same = snapshot.tools().filter(|tool| prefixed(tool.id.server(), tool.id.tool()) == name);
        match (same.next(), same.next()) {
            (Some(tool), None) => Some(Arc::clone(tool)),
            _ => None,
        }
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
