//! Texts that say no and count as true: `"false"`, and `"no"` beside `"yes"`, in a condition.
//!
//! So does an empty list of a result, which `filter((p) => !p.tags)` takes for one that is there.
//!
//! What is used as a condition is looked at (`transpile/watch/conditions.rs`), and told when the run is over, if all texts at
//! the place were of one pair.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use rquickjs::{Ctx, Function, Object, Result, Value};

use super::{
    State, raw,
    slips::{called_at, in_quotes},
    watches::Watches,
};
use crate::transpile::{Branch, Literal, Source, Treatment, Usage, Watched};

/// Looks at a place that shows nothing of interest.
const MAX_LOOKS: u32 = 500;
/// Looks at a place that seems to be wrong, and may turn out to be right.
const MAX_DOUBTS: u32 = 5_000;
/// Elements of a list that are looked at.
const MAX_ELEMENTS: usize = 500;
/// Warnings of one run.
const MAX_WARNINGS: usize = 10;
/// Texts that say no and yes. The first is meant so even if the other does not occur.
const PAIRS: [(&str, &str); 6] = [("false", "true"), ("no", "yes"), ("f", "t"), ("n", "y"), ("off", "on"), ("0", "1")];

/// What was seen at the conditions of a program, by branch.
#[derive(Debug, Default)]
pub(super) struct Truths {
    seen: RefCell<BTreeMap<usize, Seen>>,
}

/// What was seen at one place.
#[derive(Debug, Default)]
struct Seen {
    looks: u32,
    /// The pair of [`PAIRS`] that all texts are of.
    pair: Option<usize>,
    no: Option<String>,
    yes: Option<String>,
    /// Anything that is false: then the question may be whether there is a value.
    has_false: bool,
    /// Lists of results, and whether one was empty.
    has_list: bool,
    has_empty: bool,
    /// Anything true that is of no pair, or of another one.
    has_other: bool,
}

impl Seen {
    fn look(&mut self, value: &Value<'_>) {
        self.looks += 1;
        if value.is_string() {
            raw::with_text(value, |text, _| self.look_at_text(text));
        } else if value.is_null() || value.is_undefined() {
            self.has_false = true;
        } else if !value.is_bool() {
            self.has_other = true;
        }
    }

    fn look_at_text(&mut self, text: &str) {
        let trimmed = text.trim();
        if text.is_empty() {
            self.has_false = true;
            return;
        }
        let says = |word: &str| trimmed.eq_ignore_ascii_case(word);
        let pair = PAIRS.iter().position(|(no, yes)| says(no) || says(yes));
        match (pair, self.pair) {
            (Some(pair), known) if known.is_none_or(|known| known == pair) => {
                self.pair = Some(pair);
                let of_kind = if says(PAIRS[pair].0) { &mut self.no } else { &mut self.yes };
                if of_kind.is_none() {
                    *of_kind = Some(text.to_owned());
                }
            }
            _ => self.has_other = true,
        }
    }

    fn look_at_list<'js>(&mut self, value: &Value<'js>, watches: &Watches<'js>) {
        let Some(list) = value.as_object().filter(|_| !self.has_empty) else { return };
        if let Some(length) = list.as_array().map(|list| list.len())
            && watches.tool_of(list).is_some()
        {
            self.has_list = true;
            self.has_empty = length == 0;
        }
    }

    fn wants_more(&self) -> bool {
        let wants_lists = self.has_list && !self.has_empty && self.looks < MAX_LOOKS;
        wants_lists || !self.has_other && self.looks < if self.no.is_some() { MAX_DOUBTS } else { MAX_LOOKS }
    }

    /// The text that was taken for true, and what to compare with instead.
    fn mistake(&self) -> Option<(&str, String)> {
        let (no, pair) = (self.no.as_deref()?, self.pair?);
        // Of a text that may be missing, it may be asked whether it is there.
        let is_certain = pair == 0 || self.yes.is_some() && !self.has_false;
        if self.has_other || !is_certain {
            return None;
        }
        let yes = self.yes.clone().unwrap_or_else(|| in_case_of(no, PAIRS[pair].1));
        Some((no, yes))
    }
}

/// A word in the case of another one.
fn in_case_of(other: &str, word: &str) -> String {
    let mut letters = other.chars().filter(|it| it.is_alphabetic());
    match (letters.next().is_some_and(char::is_uppercase), letters.next().is_some_and(char::is_uppercase)) {
        (true, true) => word.to_uppercase(),
        (true, false) => word[..1].to_uppercase() + &word[1..],
        (false, _) => word.to_owned(),
    }
}

impl Truths {
    /// Looks at a condition. Is there more to see at this place?
    pub(super) fn look<'js>(&self, branch: usize, value: &Value<'js>, watches: &Watches<'js>) -> bool {
        let mut all = self.seen.borrow_mut();
        let seen = all.entry(branch).or_default();
        seen.look(value);
        seen.look_at_list(value, watches);
        seen.wants_more()
    }

    /// The warnings of a run that is over.
    pub(super) fn told(&self, source: &Source, branches: &[Branch]) -> Vec<String> {
        let seen = self.seen.take();
        let sentence = |(branch, seen): (&usize, &Seen)| {
            let Branch::Watch(watched) = branches.get(*branch)? else { return None };
            let value = &watched.value;
            let treatment = source.treatment(value);
            if seen.has_empty && !treatment.is_tested && !source.uses_list(watched) {
                let line = source.position(watched.offset).line;
                let optional = if seen.has_false { "?" } else { "" };
                return Some(format!(
                    "line {line}: `{value}` is an empty list, which counts as true in a condition: write `{value}{optional}.length`"
                ));
            }
            let (no, yes) = seen.mistake()?;
            let Treatment { is_tested_as_text, is_folded, is_entered, is_converted, .. } = treatment;
            let is_text = is_tested_as_text || is_folded || is_entered || is_converted;
            if is_text || is_compared(value, branches) {
                return None;
            }
            let line = source.position(watched.offset).line;
            let trimmed = if yes.trim() == yes { "" } else { ".trim()" };
            Some(format!(
                "line {line}: `{value}` is the text {}, which counts as true in a condition: write `{value}{trimmed} === {}`",
                in_quotes(no),
                in_quotes(yes.trim())
            ))
        };
        let mut warnings: Vec<String> = seen.iter().filter_map(sentence).collect();
        warnings.dedup();
        warnings.truncate(MAX_WARNINGS);
        warnings
    }
}

/// Does the program compare the value with a text anywhere?
fn is_compared(value: &str, branches: &[Branch]) -> bool {
    branches.iter().any(|branch| match branch {
        Branch::Watch(Watched { value: other, usage: Usage::Compared { with, .. }, .. }) => {
            other == value && with.iter().any(|literal| matches!(literal, Literal::Text(text) if !text.is_empty()))
        }
        _ => false,
    })
}

/// Gives the scripts what they have lists looked at with, of which only what is true is kept.
pub(super) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>, state: &Rc<State<'js>>) -> Result<()> {
    let shared = Rc::clone(state);
    let look = move |name: String, list: Object<'js>, stack: Value<'js>| {
        let mut seen = Seen::default();
        let elements = list.as_array().into_iter().flat_map(|list| raw::own_elements(list, MAX_ELEMENTS));
        elements.for_each(|element| seen.look(&element));
        let Some((no, yes)) = seen.mistake() else { return };
        shared.warn(format!(
            "{}{name}(Boolean) takes the text {} for true: write `{name}((it) => it === {})`",
            called_at(&shared, &stack, &name),
            in_quotes(no),
            in_quotes(&yes)
        ));
    };
    native.set("lookAtTruths", Function::new(ctx.clone(), look)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_one_pair_are_told() {
        type Row = (&'static [&'static str], Option<(&'static str, &'static str)>);
        let table: [Row; 10] = [
            (&["true", "false"], Some(("false", "true"))),
            (&["False"], Some(("False", "True"))),
            (&["FALSE", ""], Some(("FALSE", "TRUE"))),
            (&["yes", "no"], Some(("no", "yes"))),
            (&["0", "1"], Some(("0", "1"))),
            (&["no"], None),
            (&["0", "1", ""], None),
            (&["0", "1", "2"], None),
            (&["true", "false", "auto"], None),
            (&["true", "yes"], None),
        ];
        for (texts, expected) in table {
            let mut seen = Seen::default();
            texts.iter().for_each(|text| seen.look_at_text(text));
            let mistake = seen.mistake();
            let mistake = mistake.as_ref().map(|(no, yes)| (*no, yes.as_str()));
            assert_eq!(mistake, expected, "{texts:?}");
        }
    }
}
