//! What decides between tools that words and meaning hold to be nearly as good.

use std::{collections::HashMap, sync::Arc};

use crate::{
    actions::{Action, takes_away, wanted},
    index::Text,
    lexical::Word,
    names::{as_name, slips},
    query::{QUERY_WORDS, Query},
};

/// What a tool's score is multiplied by that does another kind of work than the query wants, one that takes something away
/// where that is not asked for, and one that says that another is to be used.
const OTHER_ACTION: f32 = 0.93;
const DESTRUCTIVE: f32 = 0.85;
/// The same of a tool that shows nothing where the query is a question, of one that only shows where something is to be done,
/// and of one of another server than the query names.
const NOT_SHOWING: f32 = 0.86;
const SHOWING: f32 = 0.88;
const OTHER_SERVER: f32 = 0.85;
const DEPRECATED: f32 = 0.8;
/// The same if none of the query's words is a word.
const UNKNOWN: f32 = 0.4;
/// The score of a tool whose name was typed, less what each slip takes. What it would have otherwise decides among equals.
const NAMED: f32 = 0.95;
const SLIP: f32 = 0.1;
const OTHERWISE: f32 = 0.05;

/// The rules for one query.
#[derive(Debug)]
pub(crate) struct Rules<'s> {
    texts: &'s [Arc<Text>],
    wanted: Option<Action>,
    takes_away: bool,
    /// What every score is multiplied by: less where the query has words that are none.
    certainty: f32,
    /// Servers that it names, if any.
    servers: Vec<u64>,
    /// The name that was typed, and how many slips lie between it and the nearest one.
    named: Option<(Box<str>, usize)>,
}

impl<'s> Rules<'s> {
    /// `servers` says how many tools each server has.
    pub(crate) fn new(
        texts: &'s [Arc<Text>],
        servers: &HashMap<u64, usize>,
        typed: &str,
        query: &Query<'_>,
    ) -> Rules<'s> {
        let nearest = |name: &str| texts.iter().filter_map(|text| slips(name, &text.standing.name)).min();
        let named = as_name(typed).and_then(|name| nearest(&name).map(|slips| (name, slips)));
        let certainty = UNKNOWN + (1.0 - UNKNOWN) * query.known;
        // A task of several steps wants several things done.
        let wanted = if query.clauses.is_empty() { wanted(typed, query.text) } else { None };
        let servers = named_servers(texts, servers, typed);
        Rules { texts, wanted, takes_away: takes_away(query.text), certainty, servers, named }
    }

    /// The score that a tool has by them.
    pub(crate) fn apply(&self, slot: usize, score: f32) -> f32 {
        let Some(text) = self.texts.get(slot) else { return score };
        let standing = &text.standing;
        if let Some((name, nearest)) = &self.named
            && slips(name, &standing.name) == Some(*nearest)
        {
            return NAMED - SLIP * *nearest as f32 + OTHERWISE * score;
        }
        let mut factor = self.certainty;
        if !self.servers.is_empty() && !self.servers.contains(&text.server) {
            factor *= OTHER_SERVER;
        }
        if let (Some(wanted), Some(action)) = (self.wanted, standing.action)
            && !wanted.is_like(action)
        {
            factor *= match wanted {
                Action::SHOWING => NOT_SHOWING,
                Action::DOING => SHOWING,
                _ => OTHER_ACTION,
            };
        }
        if !self.takes_away && standing.action.is_some_and(Action::is_destructive) {
            factor *= DESTRUCTIVE;
        }
        if standing.is_deprecated {
            factor *= DEPRECATED;
        }
        score * factor
    }
}

/// The servers whose name is a word of the query. A name that more tools of other servers have, such as `time`, is a word like any
/// other.
fn named_servers(texts: &[Arc<Text>], servers: &HashMap<u64, usize>, typed: &str) -> Vec<u64> {
    let words = typed.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').filter(|word| !word.is_empty());
    let is_name = |word: &String| {
        let (server, word) = (Word::number(word), Word::of(word));
        let others = || texts.iter().filter(|text| text.server != server && text.words.contains(word)).count();
        servers.get(&server).is_some_and(|tools| others() <= *tools)
    };
    words.take(QUERY_WORDS).map(str::to_lowercase).filter(is_name).map(|word| Word::number(&word)).collect()
}
