//! The tools of one server.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::value::RawValue;

use super::{tool::Tool, typescript::alias};
use crate::digest::sha256;

/// The tools of one server, sorted by name.
#[derive(Debug)]
pub struct Listing {
    pub server: String,
    pub tools: BTreeMap<String, Arc<Tool>>,
    /// Names made up for those that are no identifiers, where nothing else is called so.
    aliases: HashMap<String, String>,
    /// Of all tools together.
    pub hash: String,
    pub source: Source,
    /// Tools that could not be read, and the like.
    pub warnings: Vec<String>,
}

/// Where a listing comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The server itself, in this process.
    Live,
    /// An earlier process.
    Cached,
}

/// What changed from one listing to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    /// Tools that are described differently.
    pub changed: Vec<String>,
    pub unchanged: usize,
}

impl Listing {
    /// Reads the tools of a server one by one: a bad one hides no other.
    pub fn parse(server: &str, raw_tools: Vec<Box<RawValue>>, source: Source) -> Listing {
        Listing::parse_checked(server, raw_tools, source, |_| Ok(()))
    }

    /// The same, of a server whose tools are called with headers. One that wants headers which there cannot
    /// be is left out, as the protocol wants. Elsewhere nobody sends them, and such a tool does no harm.
    pub fn parse_with_headers(server: &str, raw_tools: Vec<Box<RawValue>>, source: Source) -> Listing {
        Listing::parse_checked(server, raw_tools, source, Tool::check_headers)
    }

    fn parse_checked(
        server: &str,
        raw_tools: Vec<Box<RawValue>>,
        source: Source,
        check: fn(&Tool) -> Result<(), String>,
    ) -> Listing {
        let mut tools: BTreeMap<String, Arc<Tool>> = BTreeMap::new();
        let mut warnings = Vec::new();
        for (index, raw) in raw_tools.into_iter().enumerate() {
            match Tool::parse(server, raw) {
                Ok(tool) if tools.contains_key(tool.id.tool()) => {
                    warnings.push(format!("tool {} is a second `{}`, and left out", index + 1, tool.id.tool()));
                }
                Ok(tool) => match check(&tool) {
                    Ok(()) => drop(tools.insert(tool.id.tool().to_owned(), Arc::new(tool))),
                    Err(why) => warnings.push(format!("tool {}, `{}`, is left out: {why}", index + 1, tool.id.tool())),
                },
                Err(why) => warnings.push(format!("tool {} is left out: {why}", index + 1)),
            }
        }
        let all: String = tools.values().map(|tool| tool.hash.as_str()).collect();
        let aliases = unique_aliases(tools.keys());
        Listing { server: server.to_owned(), tools, aliases, hash: sha256(&all), source, warnings }
    }

    /// The tool of that name, or of that alias.
    pub fn get(&self, name: &str) -> Option<&Arc<Tool>> {
        self.tools.get(name).or_else(|| self.tools.get(self.aliases.get(name)?))
    }

    /// What changed since `before`.
    pub fn difference(&self, before: &Listing) -> Difference {
        let mut difference = Difference::default();
        for (name, tool) in &self.tools {
            match before.tools.get(name) {
                None => difference.added.push(name.clone()),
                Some(old) if old.hash != tool.hash => difference.changed.push(name.clone()),
                Some(_) => difference.unchanged += 1,
            }
        }
        difference.removed = before.tools.keys().filter(|name| !self.tools.contains_key(*name)).cloned().collect();
        difference
    }
}

/// An alias for each name that needs one, unless it is a name already or the alias of another.
pub(super) fn unique_aliases<'a>(names: impl Iterator<Item = &'a String> + Clone) -> HashMap<String, String> {
    let mut owners: HashMap<String, Vec<&String>> = HashMap::new();
    for name in names.clone() {
        if let Some(alias) = alias(name) {
            owners.entry(alias).or_default().push(name);
        }
    }
    let names: std::collections::HashSet<_> = names.collect();
    owners
        .into_iter()
        .filter(|(alias, owners)| owners.len() == 1 && !names.contains(alias))
        .map(|(alias, owners)| (alias, owners[0].clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(tools: &[&str]) -> Listing {
        let raw = tools.iter().map(|text| RawValue::from_string((*text).to_owned()).unwrap()).collect();
        Listing::parse("s", raw, Source::Live)
    }

    #[test]
    fn a_bad_tool_hides_no_other_and_of_two_the_first_counts() {
        let listing = listing(&[
            r#"{"name":"b","description":"first"}"#,
            "null",
            r#"{"name":7}"#,
            r#"{"name":"a"}"#,
            r#"{"name":"b","description":"second"}"#,
        ]);
        assert_eq!(listing.tools.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(listing.tools["b"].description.as_deref(), Some("first"));
        assert_eq!(listing.warnings.len(), 3);
    }

    #[test]
    fn aliases_are_found_unless_they_collide() {
        let listing = listing(&[
            r#"{"name":"get-sum"}"#,
            r#"{"name":"list-all"}"#,
            r#"{"name":"list.all"}"#,
            r#"{"name":"make-it"}"#,
            r#"{"name":"makeIt"}"#,
        ]);
        assert_eq!(listing.get("getSum").unwrap().id.as_str(), "s:get-sum");
        assert_eq!(listing.get("get-sum").unwrap().id.as_str(), "s:get-sum");
        assert!(listing.get("listAll").is_none());
        assert_eq!(listing.get("makeIt").unwrap().id.as_str(), "s:makeIt");
    }

    #[test]
    fn differences_are_named() {
        let before = listing(&[r#"{"name":"a"}"#, r#"{"name":"b"}"#, r#"{"name":"c"}"#]);
        let after = listing(&[r#"{"name":"a"}"#, r#"{"name":"b","description":"new"}"#, r#"{"name":"d"}"#]);
        let expected = Difference {
            added: vec!["d".to_owned()],
            removed: vec!["c".to_owned()],
            changed: vec!["b".to_owned()],
            unchanged: 1,
        };
        assert_eq!(after.difference(&before), expected);
        assert_ne!(before.hash, after.hash);
    }
}
