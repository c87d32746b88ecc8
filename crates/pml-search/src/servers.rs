//! Which servers a query names, and by what.
//!
//! "… in github" means the tools of `github-official`, and "a jira ticket" those of `atlassian` that are called `jira_…`. So a server
//! is named by its whole name, by a part of it, or by a word that several of its tools begin with. A word that more tools of others
//! have, such as `time`, is a word like any other.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{
    actions::{Action, undone},
    index::Text,
    lexical::Word,
    query::QUERY_WORDS,
    tokenize::{Run, runs},
};

/// Parts of names that tell nothing of what a server is for. In order.
#[rustfmt::skip]
const GENERAL: [&str; 36] = [
    "agent", "api", "app", "beta", "cli", "client", "cloud", "community", "connector", "custom", "default", "demo", "dev", "exec",
    "gateway", "http", "integration", "local", "main", "mcp", "new", "official", "old", "plugin", "prod", "proxy", "public", "ref",
    "reference", "remote", "server", "service", "staging", "test", "tool", "tools",
];
/// A shorter part is no name.
const SHORTEST: usize = 3;
/// Tools of a server that must begin with a word for it to be a name of theirs.
const FAMILY: usize = 5;

/// What the servers of a snapshot may be called.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    /// Numbers of whole names.
    whole: HashSet<u64>,
    aliases: HashMap<Word, Alias>,
}

/// Tools that have a name in common: all of a server, or those that begin with the word.
#[derive(Clone, Debug, Default)]
struct Alias {
    servers: Vec<u64>,
    families: Vec<u64>,
}

/// The servers that a query names.
#[derive(Debug, Default)]
pub(crate) struct Named<'s> {
    servers: Vec<u64>,
    aliases: Vec<(Word, &'s Alias)>,
}

/// Words by which a server may be named: the whole name, then its parts.
pub(crate) fn server_words(name: &str) -> Box<[Word]> {
    let name = name.to_lowercase();
    let parts: Vec<String> = runs(&name).into_iter().filter_map(joined).collect();
    let is_name = |part: &&String| {
        parts.len() > 1
            && part.len() >= SHORTEST
            && part.chars().all(char::is_alphabetic)
            && GENERAL.binary_search(&part.as_str()).is_err()
    };
    [Word::of(&name)].into_iter().chain(parts.iter().filter(is_name).map(|part| Word::of(part))).collect()
}

/// The first word of a tool's name, if it may be that of several: no verb, and not all of the name.
pub(crate) fn family(name: &str) -> Option<Word> {
    let mut words = runs(name).into_iter().flat_map(|run| match run {
        Run::Word { parts, .. } => parts,
        Run::Unspaced(_) => Vec::new(),
    });
    let first = words.next()?;
    words.next()?;
    let is_verb = Action::of(&first).is_some() || undone(&first).is_some();
    let is_name = first.len() >= SHORTEST && !is_verb && GENERAL.binary_search(&first.as_str()).is_err();
    is_name.then(|| Word::of(&first))
}

fn joined(run: Run) -> Option<String> {
    match run {
        Run::Word { joined, .. } => Some(joined),
        Run::Unspaced(_) => None,
    }
}

impl Servers {
    /// `holders` says how many tools have a word.
    pub(crate) fn new<'a>(texts: impl Iterator<Item = &'a Text> + Clone, holders: impl Fn(Word) -> u32) -> Servers {
        let mut sizes: BTreeMap<u64, (Word, u32)> = BTreeMap::new();
        let mut families: BTreeMap<(Word, u64), usize> = BTreeMap::new();
        let mut aliases: HashMap<Word, Alias> = HashMap::new();
        for text in texts.clone() {
            let Some((whole, parts)) = text.server_words.split_first() else { continue };
            let size = sizes.entry(text.server).or_insert((*whole, 0));
            size.1 += 1;
            if size.1 == 1 {
                parts.iter().for_each(|part| aliases.entry(*part).or_default().servers.push(text.server));
            }
            if let Some(family) = text.family {
                *families.entry((family, text.server)).or_default() += 1;
            }
        }
        for ((family, server), _) in families.into_iter().filter(|(_, count)| *count >= FAMILY) {
            aliases.entry(family).or_default().families.push(server);
        }
        aliases.retain(|word, alias| {
            let inside = texts.clone().filter(|text| alias.contains(*word, text)).count() as u32;
            holders(*word).saturating_sub(inside) <= inside
        });
        let is_name = |(_, (word, tools)): &(u64, (Word, u32))| holders(*word).saturating_sub(*tools) <= *tools;
        let whole = sizes.into_iter().filter(is_name).map(|(server, _)| server).collect();
        Servers { whole, aliases }
    }

    /// Those that are named by a word of the query.
    pub(crate) fn named(&self, typed: &str) -> Named<'_> {
        let words = typed.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').filter(|word| !word.is_empty());
        let mut named = Named::default();
        for word in words.take(QUERY_WORDS).map(str::to_lowercase) {
            let (server, word) = (Word::number(&word), Word::of(&word));
            if self.whole.contains(&server) {
                named.servers.push(server);
            } else if let Some(alias) = self.aliases.get(&word) {
                named.aliases.push((word, alias));
            }
        }
        named
    }
}

impl Alias {
    fn contains(&self, word: Word, text: &Text) -> bool {
        self.servers.contains(&text.server) || (text.family == Some(word) && self.families.contains(&text.server))
    }
}

impl Named<'_> {
    /// Is another server named than that of the tool?
    pub(crate) fn is_other(&self, text: &Text) -> bool {
        let is_any = !self.servers.is_empty() || !self.aliases.is_empty();
        let is_named = || {
            self.servers.contains(&text.server) || self.aliases.iter().any(|(word, alias)| alias.contains(*word, text))
        };
        is_any && !is_named()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ToolText;

    #[test]
    fn a_server_is_named_by_its_name_a_part_of_it_or_its_family() {
        let mut texts = Vec::new();
        let mut add = |server: &str, name: &str| {
            texts.push(Text::of(&ToolText::new(server, name, "Uses the time", &serde_json::json!({}))));
        };
        add("github-official", "create_issue");
        add("time", "now");
        for name in ["create_issue", "get_issue", "list_issues", "find_issue", "link_issue"] {
            add("office", &format!("jira_{name}"));
        }
        add("office", "wiki_page");
        let holders =
            |word: Word| texts.iter().filter(|text| text.words.iter().any(|entry| entry.word == word)).count() as u32;
        let servers = Servers::new(texts.iter(), holders);
        let others = |query: &str| {
            let named = servers.named(query);
            texts.iter().map(|text| if named.is_other(text) { '-' } else { '+' }).collect::<String>()
        };
        #[rustfmt::skip]
        let table = [
            ("an issue",                        "++++++++"),
            ("in GitHub, an issue",             "+-------"),
            ("an issue of github-official",     "+-------"),
            ("a jira issue",                    "--+++++-"),
            ("everything in the office",        "--++++++"),
            ("github and jira",                 "+-+++++-"),
            // What is said of most tools, a general part, and a family of one tool name nobody.
            ("what time is it, officially",     "++++++++"),
            ("the official wiki",               "++++++++"),
        ];
        for (query, expected) in table {
            assert_eq!(others(query), expected, "{query}");
        }
    }

    #[test]
    fn general_parts_name_no_server() {
        assert!(GENERAL.is_sorted());
        let words = |name: &str| server_words(name).into_vec();
        assert_eq!(words("GitHub-official"), [Word::of("github-official"), Word::of("github")]);
        assert_eq!(words("time"), [Word::of("time")]);
        assert_eq!(words("v2-s3-mcp"), [Word::of("v2-s3-mcp")]);
        assert_eq!(family("jira_get_issue"), Some(Word::of("jira")));
        for name in ["get_issue", "jira", "unpin_message", "d1_query", ""] {
            assert_eq!(family(name), None, "{name}");
        }
    }
}
