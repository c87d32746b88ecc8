//! What decides between tools that words and meaning hold to be nearly as good.

use std::sync::Arc;

use crate::{
    actions::{Action, takes_away, wanted},
    index::Text,
    names::{as_name, slips},
    query::Query,
};

/// What a tool's score is multiplied by that does another kind of work than the query wants, one that takes something away
/// where that is not asked for, and one that says that another is to be used.
const OTHER_ACTION: f32 = 0.93;
const DESTRUCTIVE: f32 = 0.85;
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
    /// The name that was typed, and how many slips lie between it and the nearest one.
    named: Option<(Box<str>, usize)>,
}

impl<'s> Rules<'s> {
    pub(crate) fn new(texts: &'s [Arc<Text>], typed: &str, query: &Query<'_>) -> Rules<'s> {
        let nearest = |name: &str| texts.iter().filter_map(|text| slips(name, &text.standing.name)).min();
        let named = as_name(typed).and_then(|name| nearest(&name).map(|slips| (name, slips)));
        let certainty = UNKNOWN + (1.0 - UNKNOWN) * query.known;
        // A task of several steps wants several things done.
        let wanted = if query.clauses.is_empty() { wanted(query.text) } else { None };
        Rules { texts, wanted, takes_away: takes_away(query.text), certainty, named }
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
        if let (Some(wanted), Some(action)) = (self.wanted, standing.action)
            && !wanted.is_like(action)
        {
            factor *= OTHER_ACTION;
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
