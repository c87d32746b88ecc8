//! What is seen of the values that a program compares and searches, and what is said of it when the run is over.
//!
//! An object is never equal to a text, `"OPEN"` is not `"open"`, and a list of objects does not hold `"bug"`: the program goes
//! on with a wrong value. Whether a place was ever true is known at the end, so that is when it is told. Nothing is kept of a
//! value but what a warning shows.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ops::Range,
    rc::Rc,
};

use rquickjs::{Ctx, Function, Object, Result, Value};

use super::{
    super::{State, quantities, raw, results, slips::in_quotes, units},
    digest::digest,
    members::both_of,
    plain::{Plain, all_written, either, is_equal, is_not_number, is_variant, number, plain},
    sentences,
};
use crate::transpile::{Branch, Keys, Literal, Number, Shape, Source, Treatment, Usage, Watched, last_name};

/// How it is said where the first Invalid Date was made.
pub(in crate::engine) const INVALID: &str = "the first Invalid Date";
/// Looks at a place that shows nothing of interest.
const MAX_LOOKS: u32 = 500;
/// Looks at a place that seems to be wrong, and may turn out to be right.
const MAX_DOUBTS: u32 = 20_000;
/// Objects of one place that are looked into.
const MAX_DESCRIBED: u32 = 300;
/// Numbers of one side of a comparison that are kept.
const MAX_NUMBERS: usize = 50;
/// Texts that are shown of those that are no literal, and the longest of them.
const MAX_OTHERS: usize = 4;
const MAX_OTHER_BYTES: usize = 30;
/// Elements of a list that are looked at.
const MAX_ELEMENTS: usize = 200;
/// Warnings of one kind in one run.
const MAX_WARNINGS: usize = 10;
/// What was seen at the places of a program, by branch.
#[derive(Debug, Default)]
pub(in crate::engine) struct Watches<'js> {
    seen: RefCell<BTreeMap<usize, Seen>>,
    /// The prototypes of the objects and arrays in the results of each tool.
    prototypes: RefCell<Vec<(String, Vec<Object<'js>>)>>,
    /// The addresses of results. A part that took the place of one is not told of, which is no loss.
    wholes: RefCell<HashSet<usize>>,
    /// The engine's `Date.parse`.
    parse_date: RefCell<Option<Function<'js>>>,
    /// The place where a text, or `undefined`, was first made NaN.
    first_nan: Cell<Option<(usize, bool)>>,
    /// What was compared with texts and never equal, once the run is over: some of its values, by branch.
    compared: RefCell<BTreeMap<usize, Vec<String>>>,
    /// The place where an Invalid Date was first made, and of what.
    first_invalid: RefCell<Option<(usize, String)>>,
    /// The same in words, once the run is over.
    pub(in crate::engine) nan_began: RefCell<Option<String>>,
}

/// What was seen at one place.
#[derive(Debug, Default)]
pub(super) struct Seen {
    looks: u32,
    /// Objects that were looked into.
    described: u32,
    /// Texts, numbers or booleans.
    pub(super) has_plain: bool,
    pub(super) has_null: bool,
    pub(super) has_undefined: bool,
    /// Which of the literals were equal to a value.
    pub(super) equal: HashSet<usize>,
    /// Values that are a literal in another form, by the literal.
    pub(super) variants: BTreeMap<usize, Variant>,
    pub(super) object: Option<Part>,
    /// Some of the texts that were no literal.
    others: BTreeSet<String>,
    /// Of what is compared with another value: its kinds, and what it says as a number.
    pub(super) has_text: bool,
    pub(super) has_number: bool,
    pub(super) numbers: BTreeSet<u64>,
    /// A time in seconds, and whether there was one in milliseconds.
    pub(super) seconds: Option<f64>,
    pub(super) has_milliseconds: bool,
    /// A text that is no number, or no date, and whether it is an amount with a unit or separators.
    pub(super) no_number: Option<String>,
    pub(super) is_amount: bool,
    /// The number that the program makes of it.
    pub(super) made: f64,
    /// Texts with units of different size, and their units.
    pub(super) units: [Option<(String, String)>; 2],
    /// The addresses of objects, by what they hold, and whether two hold the same.
    digests: HashMap<u64, usize>,
    pub(super) has_twin: bool,
    /// The address of the object that was compared last, and what it holds; and whether both sides were the same object once.
    last: Option<(usize, u64)>,
    identities: u32,
    pub(super) has_same: bool,
}

/// A value that says what a literal says, and is not equal to it.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) value: Plain,
    /// As a warning shows it.
    pub(super) shown: String,
}

/// An object or array of a result.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) tool: String,
    pub(super) shape: Shape,
    /// The property that holds the text which it is compared with.
    pub(super) property: Option<String>,
}

impl Seen {
    /// Keeps the unit of an amount, if it is the first, or counts the same thing as the first in other steps.
    fn note_unit(&mut self, text: &str) {
        if self.units[1].is_some() || text.len() > quantities::MAX_BYTES {
            return;
        }
        let Some(unit) = quantities::amount(text).map(|it| it.unit) else { return };
        match &self.units[0] {
            None => self.units[0] = Some((unit, text.to_owned())),
            Some((first, _)) if units::differ(first, &unit) => self.units[1] = Some((unit, text.to_owned())),
            Some(_) => {}
        }
    }
}

impl<'js> Watches<'js> {
    /// Looks at a value. Is there more to see at this place?
    pub(in crate::engine) fn look(&self, branch: usize, watched: &Watched, value: &Value<'js>) -> bool {
        // A proxy would hear of the look.
        if value.as_object().is_some_and(|it| it.is_proxy()) {
            return true;
        }
        let mut all = self.seen.borrow_mut();
        let seen = all.entry(branch).or_default();
        seen.looks += 1;
        let mut left = None;
        if let Usage::Side { is_left, .. } = watched.usage {
            seen.last = self.identity(seen, value);
            left = branch.checked_sub(1).filter(|_| !is_left && seen.last.is_some());
        }
        let left = left.and_then(|left| all.get(&left)?.last);
        let seen = all.entry(branch).or_default();
        if let Some(((left, left_digest), (right, digest))) = left.zip(seen.last) {
            seen.has_same |= left == right;
            seen.has_twin |= left != right && left_digest == digest;
        }
        match &watched.usage {
            Usage::Compared { with, is_strict } => self.look_at_compared(seen, with, *is_strict, value),
            Usage::Searched(literal) => self.look_at_list(seen, literal, value),
            Usage::Side { .. } => self.look_at_side(seen, value),
            Usage::Time { is_date } => {
                seen.has_null |= value.is_null();
                if *is_date {
                    self.look_at_date(seen, branch, value);
                }
                look_at_time(seen, value)
            }
            Usage::DateText => {
                self.look_at_date(seen, branch, value);
                seen.no_number.is_none() && seen.object.is_none() && seen.looks < MAX_LOOKS
            }
            Usage::Seconds => Self::look_at_seconds(seen, value),
            Usage::Amount => Self::look_at_amount(seen, value),
            Usage::Alternative(_) => {
                match value.as_object() {
                    _ if value.is_string() && seen.no_number.is_none() => {
                        seen.no_number = raw::with_text(value, |text, _| text.chars().take(80).collect());
                    }
                    Some(object) if self.wholes.borrow().contains(&raw::address(object)) && !object.is_array() => {
                        self.note_object(seen, &[], object);
                    }
                    _ => seen.has_plain |= !value.is_string(),
                }
                !seen.has_plain && seen.looks < MAX_LOOKS
            }
            Usage::Nothing { .. } => {
                seen.has_null |= value.is_null();
                seen.has_undefined |= value.is_undefined();
                !(seen.has_null && seen.has_undefined) && seen.looks < MAX_LOOKS
            }
            Usage::Number(made) => self.look_at_number(seen, branch, *made, value),
            Usage::Key => {
                if let Some(object) = value.as_object() {
                    self.note_object(seen, &[], object);
                }
                seen.object.is_none() && seen.looks < MAX_LOOKS
            }
            Usage::Averaged => {
                seen.has_null |= value.is_null();
                seen.has_number |= value.is_number();
                !(seen.has_null && seen.has_number) && seen.looks < MAX_LOOKS
            }
            Usage::Least => {
                look_at_least(seen, value);
                !(seen.has_null && seen.has_number) && seen.looks < MAX_LOOKS
            }
            Usage::Written => {
                if let Some(object) = value.as_object().filter(|it| self.is_part(it) && has_objects(it)) {
                    self.note_object(seen, &[], object);
                }
                seen.object.is_none() && seen.looks < MAX_LOOKS
            }
            Usage::Identity(Keys::One) => self.look_at_identity(seen, value),
            Usage::Identity(keys) => {
                for element in value.as_array().into_iter().flat_map(|it| raw::own_elements(it, MAX_ELEMENTS)) {
                    let pair = element.as_array().filter(|_| *keys == Keys::Pairs);
                    let key = pair.and_then(|pair| raw::own_elements(pair, 1).next()).unwrap_or(element.clone());
                    self.look_at_identity(seen, &key);
                }
                !seen.has_twin && seen.looks < MAX_LOOKS
            }
            // These have places of their own.
            Usage::Condition
            | Usage::Ordered(_)
            | Usage::Added(_)
            | Usage::Copied
            | Usage::Named(_)
            | Usage::Indexed(_)
            | Usage::Split(_)
            | Usage::Begins(_)
            | Usage::Dropped { .. }
            | Usage::Among { .. } => false,
        }
    }

    fn look_at_compared(&self, seen: &mut Seen, with: &[Literal], is_strict: bool, value: &Value<'js>) -> bool {
        seen.has_null |= value.is_null();
        seen.has_undefined |= value.is_undefined();
        if let Some(object) = value.as_object() {
            // `["a"] == "a"` is true.
            let is_short = !object.is_proxy() && object.as_array().is_some_and(|list| list.len() <= 1);
            seen.has_plain |= is_short && !is_strict;
            self.note_object(seen, with, object);
        } else if let Some(plain) = plain(value, with) {
            seen.has_plain = true;
            if let Plain::Text(text) = &plain
                && seen.others.len() < MAX_OTHERS
                && (1..=MAX_OTHER_BYTES).contains(&text.len())
            {
                seen.others.insert(text.clone());
            }
            for (index, literal) in with.iter().enumerate() {
                if is_equal(literal, &plain, is_strict) {
                    seen.equal.insert(index);
                } else if !seen.variants.contains_key(&index) && is_variant(literal, &plain) {
                    seen.variants.insert(index, Variant { shown: plain.shown(), value: plain.clone() });
                }
            }
        }
        let is_doubtful =
            seen.object.is_some() && !seen.has_plain || seen.variants.keys().any(|index| !seen.equal.contains(index));
        // Texts may be equal here, and of another case there.
        seen.looks < if is_doubtful { MAX_DOUBTS } else { MAX_LOOKS }
    }

    fn look_at_list(&self, seen: &mut Seen, literal: &Literal, value: &Value<'js>) -> bool {
        let Some(list) = value.as_array() else { return false };
        let with = std::slice::from_ref(literal);
        for element in raw::own_elements(list, MAX_ELEMENTS) {
            self.look_at_compared(seen, with, true, &element);
            if !seen.equal.is_empty() {
                return false;
            }
        }
        seen.looks < MAX_LOOKS
    }

    fn note_object(&self, seen: &mut Seen, with: &[Literal], object: &Object<'js>) {
        if seen.described >= MAX_DESCRIBED || seen.object.as_ref().is_some_and(|part| part.property.is_some()) {
            return;
        }
        seen.described += 1;
        let Some(tool) = self.tool_of(object) else { return };
        let shape = results::shape(object.as_value(), 0);
        let property = match &shape {
            Shape::Array(..) => {
                let first = object.as_array().into_iter().flat_map(|list| raw::own_elements(list, 20));
                first.filter_map(Value::into_object).find_map(|element| holder_of(&element, with))
            }
            _ => holder_of(object, with),
        };
        if seen.object.is_none() || property.is_some() {
            seen.object = Some(Part { tool, shape, property });
        }
    }

    /// The address of an object of a result, and what it holds.
    fn identity(&self, seen: &mut Seen, value: &Value<'js>) -> Option<(usize, u64)> {
        let object = value.as_object().filter(|it| seen.identities < MAX_DESCRIBED && self.tool_of(it).is_some())?;
        seen.identities += 1;
        Some((raw::address(object), digest(object)?))
    }

    /// Looks at a value that is compared with another one.
    fn look_at_side(&self, seen: &mut Seen, value: &Value<'js>) -> bool {
        if let Some(object) = value.as_object() {
            self.note_object(seen, &[], object);
        } else if let Some(value) = plain(value, &[]) {
            seen.has_plain = true;
            seen.has_text |= matches!(value, Plain::Text(_));
            seen.has_number |= matches!(value, Plain::Number(_));
            if let Some(number) = number(&value).filter(|_| seen.numbers.len() < MAX_NUMBERS) {
                seen.numbers.insert(number.to_bits());
            }
        }
        seen.has_null |= value.is_null();
        seen.has_undefined |= value.is_undefined();
        seen.looks < MAX_LOOKS
    }

    /// Looks at a value that is made a number.
    fn look_at_number(&self, seen: &mut Seen, branch: usize, made: Number, value: &Value<'js>) -> bool {
        seen.has_null |= value.is_null();
        if made == Number::Checked {
            return false;
        }
        if value.is_undefined()
            && self.first_nan.get().is_none()
            && !matches!(made, Number::Defaulted | Number::ParsedOr | Number::WholeOr)
        {
            self.first_nan.set(Some((branch, true)));
        }
        if let Some(object) = value.as_object().filter(|_| !raw::is_date(value)) {
            self.note_object(seen, &[], object);
        }
        let cuts = matches!(made, Number::Parsed | Number::Whole | Number::ParsedOr | Number::WholeOr);
        let is_silent = matches!(made, Number::Other | Number::Computed);
        let judge = |text: &str, _| {
            let is_wrong = match made {
                Number::Parsed | Number::Whole => {
                    quantities::is_cut(text, made == Number::Whole)
                        || quantities::is_passed_over(text) && quantities::is_amount(text)
                }
                Number::ParsedOr | Number::WholeOr => {
                    quantities::is_cut(text, made == Number::WholeOr) || quantities::is_passed_over(text)
                }
                // A word in place of a number is compared on purpose: it stands for none.
                Number::Ordered | Number::Defaulted => {
                    is_not_number(text) && text.bytes().any(|it| it.is_ascii_digit())
                }
                _ => is_not_number(text),
            };
            if cuts {
                seen.note_unit(text);
            }
            is_wrong.then(|| (text.chars().take(80).collect::<String>(), quantities::is_amount(text)))
        };
        let found = value.is_string().then(|| raw::with_text(value, judge)).flatten();
        if let Some((text, is_amount)) = found.flatten()
            && (seen.no_number.is_none() || is_amount && !seen.is_amount)
        {
            seen.is_amount = is_amount;
            seen.no_number = Some(text);
            if !cuts && made != Number::Defaulted && self.first_nan.get().is_none() {
                self.first_nan.set(Some((branch, false)));
            }
        }
        let is_done = seen.no_number.is_some() && (seen.is_amount || !is_silent) && (!cuts || seen.units[1].is_some());
        !is_done && seen.looks < MAX_LOOKS
    }

    /// Looks at the number that methods of texts cut out of a text: `[…names, text, number]`.
    fn look_at_amount(seen: &mut Seen, both: &Value<'js>) -> bool {
        let Some((text, made)) = both_of(both) else { return false };
        if let Some((text, made)) = text.filter(Value::is_string).zip(made.as_number()) {
            raw::with_text(&text, |text, _| {
                let number = (text.len() <= quantities::MAX_BYTES).then(|| quantities::number_of(text)).flatten();
                // Parts of a text that is no amount are meant.
                // A sign may be left out on purpose.
                let is_other =
                    number.is_some_and(|it| (it.abs() - made.abs()).abs() > 1e-9 * it.abs() || made.is_nan());
                if is_other && seen.no_number.is_none() {
                    seen.no_number = Some(text.to_owned());
                    seen.made = made;
                }
                seen.note_unit(text);
            });
        }
        seen.no_number.is_none() && seen.units[1].is_none() && seen.looks < MAX_LOOKS
    }

    /// Looks at what is taken for seconds since 1970, and is milliseconds by its size, or the text of a date.
    fn look_at_seconds(seen: &mut Seen, value: &Value<'js>) -> bool {
        /// Milliseconds since 1973; as seconds, they are all after the year 5000.
        const MILLISECONDS: f64 = 1e11;
        let number = match value.as_number() {
            Some(number) => Some(number),
            None if value.is_string() => raw::with_text(value, |text, _| {
                let is_date = is_not_number(text) && text.bytes().any(|it| it.is_ascii_digit());
                if is_date && seen.no_number.is_none() {
                    seen.no_number = Some(text.chars().take(80).collect());
                }
                text.trim().parse().ok()
            })
            .flatten(),
            None => None,
        };
        seen.seconds = seen.seconds.or(number.filter(|it| *it >= MILLISECONDS));
        seen.seconds.is_none() && seen.no_number.is_none() && seen.looks < MAX_LOOKS
    }

    /// Looks at what a date is made of.
    fn look_at_date(&self, seen: &mut Seen, branch: usize, value: &Value<'js>) {
        let invalid = match value {
            value if value.is_undefined() => Some("undefined".to_owned()),
            value if value.is_string() && self.is_no_date(value) => {
                raw::with_text(value, |text, _| format!("the text {}", in_quotes(text)))
            }
            _ => None,
        };
        if let Some(invalid) = invalid {
            self.first_invalid.borrow_mut().get_or_insert((branch, invalid));
        }
        if value.is_string() && seen.no_number.is_none() {
            let text =
                raw::with_text(value, |text, _| text.bytes().any(|it| it.is_ascii_digit()).then(|| text.to_owned()));
            seen.no_number = text.flatten().filter(|_| self.is_no_date(value));
        }
        if let Some(object) = value.as_object().filter(|_| !raw::is_date(value)) {
            self.note_object(seen, &[], object);
        }
    }

    /// Is an Invalid Date all that the engine makes of a text?
    fn is_no_date(&self, text: &Value<'js>) -> bool {
        let parse = self.parse_date.borrow();
        let parsed = parse.as_ref().and_then(|parse| parse.call::<_, f64>((text.clone(),)).ok());
        parsed.is_some_and(f64::is_nan)
    }

    /// Looks at an object that a Set or Map tells from others.
    fn look_at_identity(&self, seen: &mut Seen, value: &Value<'js>) -> bool {
        let Some(object) = value.as_object().filter(|it| self.tool_of(it).is_some()) else {
            return seen.looks < MAX_LOOKS;
        };
        if seen.described >= MAX_DESCRIBED {
            return false;
        }
        seen.described += 1;
        if let Some(digest) = digest(object) {
            let address = raw::address(object);
            if *seen.digests.entry(digest).or_insert(address) != address {
                seen.has_twin = true;
                seen.described = 0;
                self.note_object(seen, &[], object);
            }
        }
        !seen.has_twin && seen.looks < MAX_LOOKS
    }

    /// Where the first Invalid Date of the run began.
    pub(in crate::engine) fn invalid_date(&self, source: &Source, branches: &[Branch]) -> Option<String> {
        let (branch, what) = self.first_invalid.take()?;
        let Branch::Watch(watched) = branches.get(branch)? else { return None };
        let line = source.position(watched.offset).line;
        Some(format!("{INVALID} is made in line {line}, where `{}` is {what}", watched.value))
    }

    /// Where the first NaN of the run began, if it began with a text or `undefined`.
    fn origin_of_nan(&self, seen: &BTreeMap<usize, Seen>, source: &Source, branches: &[Branch]) -> Option<String> {
        let (branch, is_undefined) = self.first_nan.take()?;
        let Branch::Watch(watched) = branches.get(branch)? else { return None };
        let line = source.position(watched.offset).line;
        if is_undefined {
            return Some(format!("the first NaN is that of line {line}, where `{}` is undefined", watched.value));
        }
        let seen = seen.get(&branch)?;
        // It is told there.
        let is_told = seen.is_amount && matches!(watched.usage, Usage::Number(Number::Other | Number::Computed));
        let text = in_quotes(seen.no_number.as_ref().filter(|_| !is_told)?);
        Some(format!("the first NaN is that of line {line}, where `{}` is the text {text}", watched.value))
    }

    /// Is this a list that is no part of a result, nor has one?
    pub(in crate::engine) fn is_own_list(&self, value: &Value<'js>) -> bool {
        let Some(list) = value.as_array() else { return false };
        let first = raw::own_elements(list, 1).next().and_then(Value::into_object);
        self.tool_of(list.as_object()).is_none() && first.is_none_or(|first| self.tool_of(&first).is_none())
    }

    /// The tool that returned the object.
    pub(in crate::engine) fn tool_of(&self, object: &Object<'js>) -> Option<String> {
        if object.is_proxy() {
            return None;
        }
        let prototypes = self.prototypes.borrow();
        let found = prototypes.iter().find(|(_, prototypes)| raw::has_prototype(object, prototypes))?;
        Some(found.0.clone())
    }

    /// Is the object in a result, and not the result itself, whose text is meant?
    fn is_part(&self, object: &Object<'js>) -> bool {
        self.tool_of(object).is_some() && !self.wholes.borrow().contains(&raw::address(object))
    }

    /// Of what is compared with a text in a part of the program, and was never equal: what it was. Before the places are told.
    pub(in crate::engine) fn never_equal(&self, branches: &[Branch], part: Range<u32>) -> Option<String> {
        let seen = self.compared.borrow();
        let sentence = |(branch, values): (&usize, &Vec<String>)| {
            let Branch::Watch(Watched { value, offset, usage: Usage::Compared { with, .. } }) =
                branches.get(*branch)?
            else {
                return None;
            };
            let is_meant = part.contains(offset) && with.iter().any(|it| matches!(it, Literal::Text(_)));
            is_meant.then(|| format!("`{value}` was never {}, but {}", all_written(with), either(values)))
        };
        seen.iter().find_map(sentence)
    }

    /// The lines and names of what is compared with `null`, and is never anything but `undefined`.
    pub(in crate::engine) fn undefined(&self, source: &Source, branches: &[Branch]) -> Vec<(usize, String)> {
        let seen = self.seen.borrow();
        let places = seen.iter().filter_map(|(branch, seen)| match branches.get(*branch)? {
            Branch::Watch(watched) => {
                let is_undefined =
                    watched.usage == Usage::Nothing { is_null: true } && seen.has_undefined && !seen.has_null;
                is_undefined.then(|| place_of(watched, source))
            }
            _ => None,
        });
        places.collect()
    }

    /// The warnings of a run that is over.
    /// `missing` are the lines and names of what is compared with `null` and was told of as a property that is not there.
    pub(in crate::engine) fn told(
        &self,
        source: &Source,
        branches: &[Branch],
        missing: &[(usize, String)],
    ) -> Vec<String> {
        let seen = self.seen.take();
        let compared = seen.iter().filter(|(_, seen)| seen.equal.is_empty() && !seen.others.is_empty());
        let compared = compared.map(|(branch, seen)| (*branch, seen.others.iter().cloned().collect()));
        self.compared.replace(compared.collect());
        self.nan_began.replace(self.origin_of_nan(&seen, source, branches));
        let places: Vec<(&Watched, &Seen)> = seen
            .iter()
            .filter_map(|(branch, seen)| match branches.get(*branch)? {
                Branch::Watch(watched) => Some((watched, seen)),
                _ => None,
            })
            .collect();
        // What an expression, or a property of that name, is compared with anywhere.
        let known = |value: &str| -> Vec<&Literal> {
            let usages = branches.iter().filter_map(|branch| match branch {
                Branch::Watch(watched) if last_name(&watched.value) == last_name(value) => Some(&watched.usage),
                _ => None,
            });
            let literals = usages.map(|usage| match usage {
                Usage::Compared { with, .. } => &with[..],
                Usage::Nothing { is_null: true } => &[Literal::Null],
                Usage::Nothing { is_null: false } => &[Literal::Undefined],
                _ => &[],
            });
            literals.flatten().collect()
        };
        let mut warnings: Vec<String> = Vec::new();
        let mut add = |sentences: Vec<String>| {
            for sentence in sentences.into_iter().take(MAX_WARNINGS) {
                if !warnings.contains(&sentence) {
                    warnings.push(sentence);
                }
            }
        };
        let line = |watched: &Watched| -> String { format!("line {}: ", source.position(watched.offset).line) };
        let mut tell = |sentence: &dyn Fn(&Watched, &Seen) -> Option<String>| {
            add(places.iter().filter_map(|(it, seen)| Some(line(it) + &sentence(it, seen)?)).collect());
        };
        // An expression may stand in many places, and each is judged several times.
        let treatments: RefCell<HashMap<String, Treatment>> = RefCell::default();
        let treatment = |it: &Watched| {
            let mut treatments = treatments.borrow_mut();
            *treatments.entry(it.value.clone()).or_insert_with(|| source.treatment(&it.value))
        };
        tell(&|it, seen| sentences::of_object(it, seen, treatment(it)));
        // The other side of a comparison.
        let other = |it: &Watched| {
            let Usage::Side { comparison, is_left } = it.usage else { return None };
            let usage = Usage::Side { comparison, is_left: !is_left };
            places.iter().find(|(other, _)| other.usage == usage).copied()
        };
        tell(&|it, seen| sentences::of_side(it, seen, treatment(it), other(it)?));
        tell(&|it, seen| sentences::of_twin(it, seen, source, other(it)?));
        tell(&|it, seen| sentences::of_variant(it, seen, treatment(it), &known(&it.value)));
        tell(&|it, seen| sentences::of_mixed(it, seen, treatment(it), &known(&it.value)));
        tell(&|it, seen| sentences::of_seconds(it, seen));
        tell(&|it, seen| sentences::of_milliseconds(it, seen));
        tell(&|it, seen| sentences::of_amount(it, seen));
        tell(&|it, seen| sentences::of_units(it, seen, source));
        tell(&|it, seen| sentences::of_object_as_number(it, seen, treatment(it)));
        tell(&|it, seen| sentences::of_alternative(it, seen, source));
        tell(&|it, seen| sentences::of_null(it, seen, source));
        tell(&|it, seen| sentences::of_nulls(it, seen));
        tell(&|it, seen| sentences::of_date(it, seen, treatment(it), source));
        let is_missing = |it: &Watched| missing.contains(&place_of(it, source));
        tell(&|it, seen| sentences::of_nothing(it, seen, &known(&it.value)).filter(|_| !is_missing(it)));
        // Both sides of a comparator are texts, and what is looked for in a Set is added to it in another place.
        let (mut lines, mut keys, mut texts) = (HashSet::new(), HashSet::new(), HashSet::new());
        let numbers = places.iter().filter_map(|(it, seen)| {
            let sentence = sentences::of_no_number(it, seen)?;
            let is_first = it.usage != Usage::Number(Number::Sorted) || lines.insert(line(it));
            is_first.then(|| line(it) + &sentence)
        });
        add(numbers.collect());
        let identities = places.iter().filter_map(|(it, seen)| {
            let sentence = sentences::of_key(it, seen, treatment(it))?;
            keys.insert(&it.value).then(|| line(it) + &sentence)
        });
        add(identities.collect());
        let texts = places.iter().filter_map(|(it, seen)| {
            let sentence = sentences::of_text(it, seen, treatment(it))?;
            texts.insert((line(it), &it.value)).then(|| line(it) + &sentence)
        });
        add(texts.collect());
        warnings
    }
}

/// The line of a place, and the name of what is looked at there.
fn place_of(watched: &Watched, source: &Source) -> (usize, String) {
    (source.position(watched.offset).line, last_name(&watched.value).to_owned())
}

/// Looks at a number that is taken for milliseconds since 1970.
fn look_at_time(seen: &mut Seen, value: &Value<'_>) -> bool {
    /// Seconds from 1973 to 2096; as milliseconds, they are all in the first weeks of 1970.
    const SECONDS: std::ops::Range<f64> = 1e8..4e9;
    if let Some(number) = value.as_number() {
        seen.has_milliseconds |= number >= SECONDS.end;
        if SECONDS.contains(&number) && seen.seconds.is_none() {
            seen.seconds = Some(number);
        }
    }
    !seen.has_milliseconds && seen.looks < MAX_LOOKS
}

/// Looks at a list of which the least number is taken. As 0, `null` is that if all others are greater.
fn look_at_least(seen: &mut Seen, value: &Value<'_>) {
    let (mut has_null, mut has_number) = (false, false);
    for element in value.as_array().into_iter().flat_map(|it| raw::own_elements(it, MAX_ELEMENTS)) {
        has_null |= element.is_null();
        match element.as_number() {
            Some(number) if number <= 0.0 => return,
            number => has_number |= number.is_some(),
        }
    }
    if has_null && has_number {
        (seen.has_null, seen.has_number) = (true, true);
    }
}

/// Is it an object, or a list that has objects in it? The text of any other list is that of its elements.
fn has_objects(object: &Object<'_>) -> bool {
    let Some(list) = object.as_array() else { return true };
    raw::own_elements(list, MAX_ELEMENTS).any(|it| it.is_object() && !it.is_null())
}

/// A property of an object whose value is one of the literals.
pub(super) fn holder_of(object: &Object<'_>, with: &[Literal]) -> Option<String> {
    if object.is_proxy() {
        return None;
    }
    let mut names = object.keys::<String>().flatten().take(40);
    names.find(|name| {
        let name = rquickjs::String::from_str(object.ctx().clone(), name).ok();
        let value = name.and_then(|name| raw::own_data(object, name.as_value()));
        let plain = value.and_then(|value| plain(&value, with));
        plain.is_some_and(|plain| with.iter().any(|literal| is_equal(literal, &plain, true)))
    })
}

/// Gives the prelude what it notes the prototypes of results with.
pub(in crate::engine) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>, state: &Rc<State<'js>>) -> Result<()> {
    let shared = Rc::clone(state);
    let note = move |tool: String, object: Object<'js>, array: Object<'js>, text: Object<'js>, list: Object<'js>| {
        shared.watches.prototypes.borrow_mut().push((tool, vec![object, array, text, list]));
    };
    native.set("notePrototypes", Function::new(ctx.clone(), note)?)?;
    let shared = Rc::clone(state);
    let note = move |result: Object<'js>| {
        shared.watches.wholes.borrow_mut().insert(raw::address(&result));
    };
    let parse = ctx.globals().get::<_, Object<'js>>("Date")?.get("parse")?;
    state.watches.parse_date.replace(Some(parse));
    native.set("noteWhole", Function::new(ctx.clone(), note)?)
}
