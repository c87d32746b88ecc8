//! Values that a program adds, copies or takes apart as if they were something else: what was seen of them, and what is said.
//!
//! They are looked at in `transpile/watch/uses.rs`, and told when the run is over.

use std::{cell::RefCell, collections::BTreeMap};

use rquickjs::Value;

use super::{
    quantities::{self, Form},
    raw, results,
    slips::in_quotes,
};
use crate::transpile::{Branch, Shape, Side, Source, Usage, Watched};

/// Looks at a place that shows nothing of interest.
const MAX_LOOKS: u32 = 100;
/// Looks at a place where texts were seen.
const MAX_TEXTS: u32 = 1_000;
/// How much of a text is looked at for separators.
const MAX_LINE_BYTES: usize = 2_000;
/// Warnings of one run.
const MAX_WARNINGS: usize = 10;
/// Separators of fields, the aligned columns of a table among them.
const SEPARATORS: [&str; 5] = [",", ";", "\t", "|", "  "];
/// Separators of a name and its value.
const ASSIGNMENTS: [&str; 2] = ["=", ":"];
/// Words in the names of what is added up.
const QUANTITIES: [&str; 46] = [
    "amount", "balance", "bonus", "budget", "bytes", "charge", "comments", "cost", "count", "credit", "days", "debit",
    "discount", "fee", "gross", "hours", "likes", "max", "min", "minutes", "net", "points", "price", "profit", "qty",
    "quantity", "quota", "revenue", "salary", "sales", "score", "shipping", "size", "stock", "subtotal", "sum", "tax",
    "tip", "total", "units", "users", "vat", "views", "wage", "weight", "spend",
];

/// What was seen, by branch.
#[derive(Debug, Default)]
pub(super) struct Uses {
    seen: RefCell<BTreeMap<usize, Seen>>,
}

/// What was seen at one place.
#[derive(Debug, Default)]
struct Seen {
    looks: u32,
    /// The left side of a sum that is going on.
    left: Option<Addend>,
    /// Both sides of a sum, where they show what is wrong.
    sum: Option<[Addend; 2]>,
    /// What the program takes it for was there, too.
    is_right: bool,
    shape: Option<Shape>,
    /// The first text that is not what the program takes it for, and how often the separator is there that it has instead.
    text: Option<String>,
    separator: Option<(&'static str, usize)>,
}

/// A side of a sum.
#[derive(Clone, Debug)]
enum Addend {
    Text(String),
    Number(f64),
}

impl Uses {
    /// Looks at a value. Is there more to see at this place?
    pub(super) fn look(&self, branch: usize, watched: &Watched, value: &Value<'_>) -> bool {
        let mut all = self.seen.borrow_mut();
        if watched.usage == Usage::Added(Side::Right) {
            let left = branch.checked_sub(1).and_then(|left| all.get_mut(&left));
            return left.is_some_and(|seen| seen.look_at_right(value));
        }
        let seen = all.entry(branch).or_default();
        seen.looks += 1;
        match &watched.usage {
            Usage::Added(_) => {
                seen.left = addend(value);
                true
            }
            Usage::Copied => seen.look_at_copied(value),
            Usage::Named(_) | Usage::Indexed(_) => seen.look_at_named(value),
            Usage::Split(separator) => seen.look_at_split(separator, value),
            Usage::Begins(beginning) => seen.look_at_beginning(beginning, value),
            _ => false,
        }
    }

    /// The warnings of a run that is over. `known` are those that are there already.
    pub(super) fn told(&self, source: &Source, branches: &[Branch], known: &[String]) -> Vec<String> {
        let seen = self.seen.take();
        let sentences = seen.iter().filter_map(|(branch, seen)| {
            let Branch::Watch(watched) = branches.get(*branch)? else { return None };
            let sentence = seen.sentence(watched, source)?;
            let line = source.position(watched.offset).line;
            // `reduce` tells of a sum as a whole.
            let is_told = |it: &String| it.contains(&format!("(line {line})")) && it.contains("`+` joins");
            let is_known = matches!(watched.usage, Usage::Added(_)) && known.iter().any(is_told);
            (!is_known).then(|| format!("line {line}: {sentence}"))
        });
        sentences.take(MAX_WARNINGS).collect()
    }
}

impl Seen {
    fn look_at_right(&mut self, value: &Value<'_>) -> bool {
        match (self.left.take(), addend(value)) {
            (Some(left @ Addend::Text(_)), Some(right)) | (Some(left), Some(right @ Addend::Text(_))) => {
                self.sum = Some([left, right]);
            }
            _ => {}
        }
        self.sum.is_none() && self.looks < MAX_LOOKS
    }

    fn look_at_copied(&mut self, value: &Value<'_>) -> bool {
        let class = match value {
            value if raw::is_map(value) => "Map",
            value if raw::is_set(value) => "Set",
            _ => return self.looks < MAX_LOOKS,
        };
        self.shape = Some(Shape::Instance(class));
        false
    }

    fn look_at_named(&mut self, value: &Value<'_>) -> bool {
        match value.as_object() {
            Some(object) if !object.is_proxy() => match object.as_array() {
                Some(list) if !list.is_empty() => {
                    if self.shape.is_none() {
                        self.shape = Some(results::shape(value, 0));
                    }
                }
                Some(_) => {}
                // `x.reactions ?? {}`
                None => self.is_right |= object.keys::<String>().next().is_some(),
            },
            _ => {}
        }
        !self.is_right && self.looks < MAX_LOOKS
    }

    fn look_at_split(&mut self, separator: &str, value: &Value<'_>) -> bool {
        if value.is_string() {
            raw::with_text(value, |text, _| {
                let end = text.len().min(MAX_LINE_BYTES);
                let line = text.get(..end).unwrap_or_default();
                if line.is_empty() {
                    return;
                }
                let count = |separator: &str| line.matches(separator).count();
                let alike: &[&'static str] = if ASSIGNMENTS.contains(&separator) { &ASSIGNMENTS } else { &SEPARATORS };
                let counts = alike.iter().map(|it| (*it, count(it))).filter(|(_, count)| *count > 0);
                // Of equals the first.
                let other = counts.rev().max_by_key(|(_, count)| *count);
                let first = self.separator.map(|(it, _)| it);
                let is_alike = first.is_none() || other.map(|(it, _)| it) == first;
                if text.contains(separator) || other.is_none() || !is_alike {
                    self.is_right = true;
                } else if self.text.is_none() {
                    self.text = Some(line.chars().take(80).collect());
                    self.separator = other;
                }
            });
        }
        !self.is_right && self.looks < MAX_TEXTS
    }

    fn look_at_beginning(&mut self, beginning: &str, value: &Value<'_>) -> bool {
        if value.is_string() {
            raw::with_text(value, |text, _| {
                let other = quantities::read(text).and_then(|it| it.form()).filter(|form| *form != Form::Iso);
                let is_there = !beginning.is_empty() && text.starts_with(beginning);
                if is_there || other.is_none_or(|form| form == Form::Clock) {
                    self.is_right = true;
                } else if self.text.is_none() {
                    self.text = Some(text.to_owned());
                }
            });
        }
        !self.is_right && self.looks < MAX_TEXTS
    }

    fn sentence(&self, watched: &Watched, source: &Source) -> Option<String> {
        let value = &watched.value;
        match &watched.usage {
            Usage::Added(_) => of_sum(value, self.sum.as_ref()?),
            Usage::Copied => match self.shape.as_ref()? {
                Shape::Instance("Map") => Some(format!(
                    "`{value}` is a Map, of which a copy as an object is empty: write `Object.fromEntries({value})`"
                )),
                _ => Some(format!("`{value}` is a Set, of which a copy as an object is empty: write `[...{value}]`")),
            },
            Usage::Indexed(_) if source.treatment(value).is_tested => None,
            Usage::Named(name) | Usage::Indexed(name) if !self.is_right => {
                let shape = self.shape.as_ref()?;
                let element = match shape {
                    Shape::Array(_, Some(element)) => format!(", each {}", element.describe()),
                    _ => String::new(),
                };
                if name.is_empty() {
                    let advice = match shape {
                        Shape::Array(_, Some(it)) if matches!(**it, Shape::Object(_)) => {
                            format!(": for the names of an element, write `Object.keys({value}[0])`")
                        }
                        _ => String::new(),
                    };
                    return Some(format!(
                        "`{value}` is {}{element}, and its keys are indexes, \"0\" and so on{advice}",
                        shape.describe()
                    ));
                }
                Some(format!(
                    "`{value}` is {}{element}, and `{name}` is an index of it, \"0\" and so on: write `for (const item of {value})`",
                    shape.describe()
                ))
            }
            Usage::Split(separator) if !self.is_right => {
                let (text, (other, count)) = (self.text.as_ref()?, self.separator?);
                let is_tried = |quote: char| source.has_text(&format!("{quote}{}{quote}", other.escape_default()));
                // One line with one of them may be prose, and so may two spaces.
                if self.looks < 2 && (count < 2 || other == "  ") || is_tried('"') || is_tried('\'') || is_tried('`') {
                    return None;
                }
                let shown = if other == "  " { "/ {2,}/".to_owned() } else { in_quotes(other) };
                Some(format!(
                    "`{value}` is {}, in which there is no {}: write `split({shown})`",
                    in_quotes(text),
                    in_quotes(separator)
                ))
            }
            Usage::Begins(beginning) if !self.is_right && beginning.is_empty() => Some(format!(
                "`{value}` is the date {}, which does not begin with the year and month: bring it into the form \"2024-01-31\" first",
                in_quotes(self.text.as_ref()?)
            )),
            Usage::Begins(beginning) if !self.is_right => Some(format!(
                "`{value}` is the date {}, which never begins with {}: bring it into the form \"2024-01-31\" first",
                in_quotes(self.text.as_ref()?),
                in_quotes(beginning)
            )),
            _ => None,
        }
    }
}

/// A side of a sum that is a number, or a text with one.
fn addend(value: &Value<'_>) -> Option<Addend> {
    if let Some(number) = value.as_number() {
        return Some(Addend::Number(number));
    }
    if !value.is_string() {
        return None;
    }
    let text = raw::with_text(value, |text, _| {
        let is_number = text.len() <= quantities::MAX_BYTES && quantities::amount(text).is_some_and(|it| it.is_plain);
        is_number.then(|| text.to_owned())
    })?;
    text.map(Addend::Text)
}

/// A sum of texts, if it is plain that it is meant to be one: it has fractions, names of quantities, or a number that is written out.
fn of_sum(value: &str, [left, right]: &[Addend; 2]) -> Option<String> {
    let has_fraction = |it: &Addend| matches!(it, Addend::Text(text) if text.contains('.'));
    let has_number = value.rsplit('+').next().is_some_and(|it| it.trim().parse::<f64>().is_ok())
        || value.split('+').next().is_some_and(|it| it.trim().parse::<f64>().is_ok());
    if !has_fraction(left) && !has_fraction(right) && !has_number && !has_quantity(value) {
        return None;
    }
    let shown = |it: &Addend| match it {
        Addend::Text(text) => in_quotes(text),
        Addend::Number(number) => number.to_string(),
    };
    Some(format!(
        "`{value}` joins {} and {}, since one of them is a text: add numbers, as in `Number(a) + Number(b)`",
        shown(left),
        shown(right)
    ))
}

/// Is a word of the expression one of [`QUANTITIES`]?
fn has_quantity(value: &str) -> bool {
    let mut word = String::new();
    let mut is_found = false;
    for character in value.chars().chain([' ']) {
        if !character.is_alphabetic() || character.is_uppercase() {
            is_found |= QUANTITIES.contains(&word.as_str());
            word.clear();
        }
        word.extend(character.to_lowercase().filter(|it| it.is_alphabetic()));
    }
    is_found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_told_from_texts_that_are_joined() {
        let text = |text: &str| Addend::Text(text.to_owned());
        #[rustfmt::skip]
        let table = [
            ("a.price + b.shipping", text("9"), text("4"), true),
            ("a.x + b.y", text("9.50"), text("4"), true),
            ("x.maxUsers + y", text("250"), Addend::Number(50.0), true),
            ("x.limit + 50", text("250"), Addend::Number(50.0), true),
            ("x.year + x.month", text("2024"), text("11"), false),
            ("x.area + x.line", text("555"), text("1234"), false),
        ];
        for (value, left, right, expected) in table {
            assert_eq!(of_sum(value, &[left, right]).is_some(), expected, "{value}");
        }
    }
}
