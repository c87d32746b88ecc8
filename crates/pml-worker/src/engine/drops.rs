//! Why a result is empty: filters that kept nothing, searches that found nothing, and conditions that let nothing pass.
//!
//! An empty result may be right, so this says no more than what happened, and with what the values were that were compared.

use std::{cell::RefCell, collections::BTreeMap};

use rquickjs::Value;
use serde_json::Value as Json;

use super::{State, watches::both_of};
use crate::transpile::{Branch, Guard, Source, Usage};

/// Looks at a place that drops everything.
const MAX_LOOKS: u32 = 2_000;
/// Reasons that are told.
const MAX_REASONS: usize = 3;
/// Longest result that is looked at, and how deep.
const MAX_BYTES: usize = 10_000;
const MAX_DEPTH: usize = 3;
/// Characters of a condition or call that are shown.
const SHOWN_CHARS: usize = 60;

/// What filters and searches left, by branch.
#[derive(Debug, Default)]
pub(super) struct Drops {
    seen: RefCell<BTreeMap<usize, Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    looks: u32,
    /// Was anything left?
    has_kept: bool,
    /// Elements of the lists, if they are known.
    elements: Option<usize>,
}

impl Drops {
    /// Looks at a list and what is left of it, as [`both_of`] takes them apart. Is there more to see at this place?
    pub(super) fn look(&self, branch: usize, both: &Value<'_>) -> bool {
        let Some((list, left)) = both_of(both) else { return false };
        let mut all = self.seen.borrow_mut();
        let seen = all.entry(branch).or_default();
        seen.looks += 1;
        seen.has_kept |= left.as_array().map_or(!left.is_undefined() && !left.is_null(), |list| !list.is_empty());
        let length = list.and_then(|list| Some(list.as_array()?.len()));
        if let Some(length) = length {
            *seen.elements.get_or_insert(0) += length;
        }
        !seen.has_kept && seen.looks < MAX_LOOKS
    }

    /// The warning of a run that ended with `result`.
    pub(super) fn told(
        &self,
        state: &State<'_>,
        source: &Source,
        branches: &[Branch],
        result: &[u8],
    ) -> Option<String> {
        if result.len() > MAX_BYTES {
            return None;
        }
        let what = emptiness(&serde_json::from_slice(result).ok()?)?;
        let reasons =
            self.reasons(state, source, branches).or_else(|| state.watches.never_equal(branches, 0..u32::MAX));
        reasons.map(|reasons| format!("{what}; {reasons}"))
    }

    /// Where everything was dropped, in words. Once.
    pub(super) fn reasons(&self, state: &State<'_>, source: &Source, branches: &[Branch]) -> Option<String> {
        let seen = self.seen.take();
        let decisions = state.decisions.borrow();
        let has_all = state.decisions_cut.get() == 0;
        // Where something was dropped, to where that reaches in the text, and what is said of it.
        let mut reasons: Vec<(u32, u32, String)> = Vec::new();
        for (branch, it) in branches.iter().enumerate() {
            match it {
                Branch::Watch(watched) => {
                    let (Usage::Dropped { end, is_filter }, Some(seen)) = (&watched.usage, seen.get(&branch)) else {
                        continue;
                    };
                    if seen.has_kept || seen.elements == Some(0) {
                        continue;
                    }
                    let of = seen.elements.map(|elements| format!(" none of {elements}"));
                    let of = of.unwrap_or_else(|| " nothing".to_owned());
                    let verb = if *is_filter { "kept" } else { "found" };
                    reasons.push((watched.offset, *end, format!("`{}` {verb}{of}", shortened(&watched.value))));
                }
                Branch::Test { condition, span, guard: Some(guard) } if has_all => {
                    let outcomes = decisions.iter().filter(|(decided, _)| *decided == branch);
                    let dropped = usize::from(*guard == Guard::Skips);
                    let (all, passed) = outcomes.fold((0, 0), |(all, passed), (_, outcome)| {
                        (all + 1, passed + usize::from(usize::from(*outcome != 0) != dropped))
                    });
                    // A condition that is asked once is no filter.
                    if passed == 0 && (all > 1 || all == 1 && *guard == Guard::Skips) {
                        let was = *guard == Guard::Skips;
                        let times = if all == 1 { String::new() } else { format!(" all {all} times") };
                        reasons.push((span.0, span.1, format!("`{}` was {was}{times}", shortened(condition))));
                    }
                }
                _ => {}
            }
        }
        reasons.sort();
        // What stands in another one that dropped everything is a part of it.
        let mut told: Vec<(u32, u32, String)> = Vec::new();
        for (from, to, sentence) in reasons {
            if told.last().is_none_or(|(_, end, _)| from >= *end) {
                told.push((from, to, sentence));
            }
        }
        let sentences = told.iter().take(MAX_REASONS).map(|(from, to, sentence)| {
            let line = source.position(*from).line;
            let values = state.watches.never_equal(branches, *from..*to).map(|it| format!(", since {it}"));
            format!("line {line}: {sentence}{}", values.unwrap_or_default())
        });
        let sentences: Vec<String> = sentences.collect();
        (!sentences.is_empty()).then(|| sentences.join("; "))
    }
}

/// What is empty of a result: all of it, or a member that is nothing in each object of a list.
fn emptiness(result: &Json) -> Option<String> {
    if is_empty(result, 0) {
        return Some("the result is empty".to_owned());
    }
    let list = result.as_array().filter(|list| list.len() > 1)?;
    let first = list.first()?.as_object()?;
    let is_nothing =
        |name: &&String| list.iter().all(|it| it.get(name.as_str()).is_some_and(|it| is_empty(it, MAX_DEPTH - 1)));
    first.keys().find(is_nothing).map(|name| format!("`{name}` is {} in all of the result", first[name]))
}

/// Is a result nothing: `null`, 0, an empty text or list, or an object or list of such?
fn is_empty(value: &Json, depth: usize) -> bool {
    match value {
        Json::Null => true,
        Json::Bool(_) => false,
        Json::Number(number) => number.as_f64() == Some(0.0),
        Json::String(text) => text.is_empty(),
        Json::Array(list) => depth < MAX_DEPTH && list.iter().all(|it| is_empty(it, depth + 1)),
        Json::Object(members) => depth < MAX_DEPTH && members.values().all(|it| is_empty(it, depth + 1)),
    }
}

/// A condition or call in one short line.
fn shortened(code: &str) -> String {
    let line = code.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_that_are_nothing() {
        let members = [
            ("[]", Some("the result is empty")),
            (r#"[{"a": "x", "n": 0}, {"a": "y", "n": 0}]"#, Some("`n` is 0 in all of the result")),
            (r#"[{"a": "x", "n": 0}, {"a": "y", "n": 1}]"#, None),
            (r#"[{"a": "x", "n": 0}]"#, None),
            (r#"[{"a": "x"}, 5]"#, None),
            ("[1, 0]", None),
        ];
        for (json, expected) in members {
            assert_eq!(emptiness(&serde_json::from_str(json).unwrap()).as_deref(), expected, "{json}");
        }
        let table = [
            ("null", true),
            ("0", true),
            ("[]", true),
            ("{}", true),
            (r#""""#, true),
            (r#"{"count": 0, "names": []}"#, true),
            ("[0, null]", true),
            ("false", false),
            ("1", false),
            (r#"{"count": 0, "ok": true}"#, false),
            (r#"["a"]"#, false),
            ("[[[[]]]]", false),
        ];
        for (json, expected) in table {
            assert_eq!(is_empty(&serde_json::from_str(json).unwrap(), 0), expected, "{json}");
        }
    }
}
