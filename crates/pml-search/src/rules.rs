//! What decides between tools that words and meaning hold to be nearly as good.

use std::sync::Arc;

use crate::{
    actions::{Action, takes_away, undoes},
    index::Text,
    names::Typed,
    query::Query,
    servers::{Named, Servers},
};

/// What a tool's score is multiplied by that does another kind of work than the query wants, one that takes something away
/// where that is not asked for, and one that says that another is to be used.
const OTHER_ACTION: f32 = 0.84;
const DESTRUCTIVE: f32 = 0.85;
/// The same of a tool that shows nothing where the query is a question, of one that only shows where something is to be done,
/// and of one of another server than the query names.
const NOT_SHOWING: f32 = 0.86;
const SHOWING: f32 = 0.88;
const NOT_UNDOING: f32 = 0.8;
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
    undoes: bool,
    /// What every score is multiplied by: less where the query has words that are none.
    certainty: f32,
    /// Servers that it names, if any.
    servers: Named<'s>,
    /// The name that was typed, and how many slips lie between it and the nearest one.
    named: Option<(Typed, usize)>,
}

impl<'s> Rules<'s> {
    pub(crate) fn new(texts: &'s [Arc<Text>], servers: &'s Servers, typed: &str, query: &Query<'_>) -> Rules<'s> {
        let is_mistyped = query.known < 1.0 || query.text != typed;
        let nearest = |name: &Typed| texts.iter().filter_map(|text| name.slips(&text.name, &text.standing)).min();
        let named = Typed::new(typed, is_mistyped).and_then(|name| nearest(&name).map(|slips| (name, slips)));
        let certainty = UNKNOWN + (1.0 - UNKNOWN) * query.known;
        let wanted = query.wanted;
        let takes_away = takes_away(query.text) || wanted.is_some_and(Action::is_destructive);
        let undoes = takes_away || wanted == Some(Action::UNDOING) || undoes(query.text);
        Rules { texts, wanted, takes_away, undoes, certainty, servers: servers.named(typed), named }
    }

    /// The score that a tool has by them.
    pub(crate) fn apply(&self, slot: usize, score: f32) -> f32 {
        let Some(text) = self.texts.get(slot) else { return score };
        let standing = &text.standing;
        if let Some((name, nearest)) = &self.named
            && name.slips(&text.name, standing) == Some(*nearest)
        {
            return NAMED - SLIP * *nearest as f32 + OTHERWISE * score;
        }
        let mut factor = self.certainty;
        if self.servers.is_other(text) {
            factor *= OTHER_SERVER;
        }
        if let (Some(wanted), Some(action)) = (self.wanted, standing.action)
            && !wanted.is_like(action)
        {
            factor *= match wanted {
                Action::SHOWING => NOT_SHOWING,
                Action::DOING => SHOWING,
                Action::UNDOING => NOT_UNDOING,
                _ => OTHER_ACTION,
            };
        }
        let is_asked_for = match standing.action {
            Some(Action::UNDOING) => self.undoes,
            Some(action) if action.is_destructive() => self.takes_away,
            _ => true,
        };
        if !is_asked_for {
            factor *= DESTRUCTIVE;
        }
        if standing.is_deprecated {
            factor *= DEPRECATED;
        }
        score * factor
    }
}
