//! Words that the names of a server's tools begin with, all of them.
//!
//! `jira_create_issue`, `jira_get_issue`: the first word says which server it is and not which tool. It counts as the name of the
//! server does, and the rest as if it were the whole name. Which words those are depends on the other tools of the server, so it
//! is found out when tools are packed.

use std::collections::{BTreeMap, HashMap};

use crate::lexical::{NAME, NameWord, SERVER, Word};

/// Tools that a server must have before its names can have something in common, and of ten how many must have it.
const TOOLS: usize = 4;
const OF_TEN: usize = 8;
/// Most words that are looked at.
const WORDS: usize = 3;

/// What a word of a name counts more, or less, than it did by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Correction {
    pub(crate) word: Word,
    pub(crate) is_plural: bool,
    pub(crate) weight: f32,
}

/// The words that names of a server share, by server.
pub(crate) fn shared<'a>(names: impl Iterator<Item = (u64, &'a [NameWord])> + Clone) -> HashMap<u64, Vec<Word>> {
    let mut servers: BTreeMap<u64, Vec<&[NameWord]>> = BTreeMap::new();
    for (server, name) in names {
        servers.entry(server).or_default().push(name);
    }
    let common = |names: &[&[NameWord]]| {
        let mut prefix = Vec::new();
        for place in 0..WORDS {
            let mut counts: BTreeMap<Word, usize> = BTreeMap::new();
            for name in names.iter().filter(|name| begins(name, &prefix) && parts(name).count() > place + 1) {
                if let Some(part) = parts(name).nth(place) {
                    *counts.entry(part.word).or_default() += 1;
                }
            }
            let most = counts.into_iter().max_by_key(|(_, count)| *count);
            match most {
                Some((word, count)) if count * 10 >= names.len() * OF_TEN => prefix.push(word),
                _ => break,
            }
        }
        prefix
    };
    let found = servers.into_iter().filter(|(_, names)| names.len() >= TOOLS);
    found.map(|(server, names)| (server, common(&names))).filter(|(_, prefix)| !prefix.is_empty()).collect()
}

/// What the words of a name count instead, if it begins with these.
pub(crate) fn corrections(name: &[NameWord], prefix: &[Word]) -> Vec<Correction> {
    if prefix.is_empty() || !begins(name, prefix) || parts(name).count() <= prefix.len() {
        return Vec::new();
    }
    let mut left = prefix.len();
    let usual = NAME.weight_among(name.len());
    let rest = NAME.weight_among(name.len() - prefix.len());
    let of_server = SERVER.weight_among(prefix.len());
    let correct = |word: &NameWord| {
        let is_prefix = !word.is_whole && left > 0;
        left -= usize::from(is_prefix);
        let weight = if is_prefix { of_server - usual } else { rest - usual };
        Correction { word: word.word, is_plural: word.is_plural, weight }
    };
    name.iter().map(correct).collect()
}

fn parts(name: &[NameWord]) -> impl Iterator<Item = &NameWord> {
    name.iter().filter(|word| !word.is_whole)
}

fn begins(name: &[NameWord], prefix: &[Word]) -> bool {
    let mut parts = parts(name);
    prefix.iter().all(|word| parts.next().is_some_and(|part| part.word == *word))
}
