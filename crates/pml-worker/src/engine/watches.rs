//! What is seen of the values that a program compares and searches, and what is said of it when the run is over.
//!
//! An object is never equal to a text, `"OPEN"` is not `"open"`, and a list of objects does not hold `"bug"`: the program goes
//! on with a wrong value. Whether a place was ever true is known at the end, so that is when it is told. Nothing is kept of a
//! value but what a warning shows.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    rc::Rc,
};

use rquickjs::{Ctx, Function, Object, Result, Value};

use super::{State, raw, results, slips::in_quotes};
use crate::transpile::{Branch, Literal, Shape, Source, Treatment, Usage, Watched};

/// Looks at a place that shows nothing of interest.
const MAX_LOOKS: u32 = 500;
/// Looks at a place that seems to be wrong, and may turn out to be right.
const MAX_DOUBTS: u32 = 20_000;
/// Elements of a list that are looked at.
const MAX_ELEMENTS: u32 = 200;
/// Warnings of one kind in one run.
const MAX_WARNINGS: usize = 10;
/// Properties that stand for an object, the likeliest first.
const NAMES: [&str; 8] = ["name", "login", "id", "value", "title", "label", "key", "username"];

/// What was seen at the places of a program, by branch.
#[derive(Debug, Default)]
pub(super) struct Watches<'js> {
    seen: RefCell<BTreeMap<usize, Seen>>,
    /// The prototypes of the objects and arrays in the results of each tool.
    prototypes: RefCell<Vec<(String, Vec<Object<'js>>)>>,
}

/// What was seen at one place.
#[derive(Debug, Default)]
struct Seen {
    looks: u32,
    /// Texts, numbers or booleans.
    has_plain: bool,
    has_nothing: bool,
    /// Which of the literals were equal to a value.
    equal: HashSet<usize>,
    /// Values that are a literal in another form, by the literal.
    variants: BTreeMap<usize, Variant>,
    object: Option<Part>,
}

/// A value that says what a literal says, and is not equal to it.
#[derive(Debug)]
struct Variant {
    value: Plain,
    /// As a warning shows it.
    shown: String,
}

/// A text, number or boolean.
#[derive(Clone, Debug, PartialEq)]
enum Plain {
    Text(String),
    Number(f64),
    Boolean(bool),
}

/// An object or array of a result.
#[derive(Debug)]
struct Part {
    tool: String,
    shape: Shape,
    /// The property that holds the text which it is compared with.
    property: Option<String>,
}

impl<'js> Watches<'js> {
    /// Looks at a value. Is there more to see at this place?
    pub(super) fn look(&self, branch: usize, watched: &Watched, value: &Value<'js>) -> bool {
        let mut all = self.seen.borrow_mut();
        let seen = all.entry(branch).or_default();
        seen.looks += 1;
        match &watched.usage {
            Usage::Compared { with, is_strict } => self.look_at_compared(seen, with, *is_strict, value),
            Usage::Searched(literal) => self.look_at_list(seen, literal, value),
            Usage::Condition | Usage::Ordered(_) => false,
        }
    }

    fn look_at_compared(&self, seen: &mut Seen, with: &[Literal], is_strict: bool, value: &Value<'js>) -> bool {
        if value.is_null() || value.is_undefined() {
            seen.has_nothing = true;
        } else if let Some(object) = value.as_object() {
            self.note_object(seen, with, object);
        } else if let Some(plain) = plain(value, with) {
            seen.has_plain = true;
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
        seen.equal.len() < with.len() && seen.looks < if is_doubtful { MAX_DOUBTS } else { MAX_LOOKS }
    }

    fn look_at_list(&self, seen: &mut Seen, literal: &Literal, value: &Value<'js>) -> bool {
        let Some(list) = value.as_array() else { return false };
        let with = std::slice::from_ref(literal);
        for element in list.iter::<Value<'js>>().take(MAX_ELEMENTS as usize).flatten() {
            self.look_at_compared(seen, with, true, &element);
            if !seen.equal.is_empty() {
                return false;
            }
        }
        seen.looks < MAX_LOOKS
    }

    fn note_object(&self, seen: &mut Seen, with: &[Literal], object: &Object<'js>) {
        if seen.object.as_ref().is_some_and(|part| part.property.is_some()) {
            return;
        }
        let Some(tool) = self.tool_of(object) else { return };
        let shape = results::shape(object.as_value(), 0);
        let property = match &shape {
            Shape::Array(..) => {
                let first = object.as_array().into_iter().flat_map(|list| list.iter::<Value<'js>>().take(20).flatten());
                first.filter_map(Value::into_object).find_map(|element| holder_of(&element, with))
            }
            _ => holder_of(object, with),
        };
        if seen.object.is_none() || property.is_some() {
            seen.object = Some(Part { tool, shape, property });
        }
    }

    /// The tool that returned the object.
    fn tool_of(&self, object: &Object<'js>) -> Option<String> {
        if object.is_proxy() {
            return None;
        }
        let prototypes = self.prototypes.borrow();
        let found = prototypes.iter().find(|(_, prototypes)| raw::has_prototype(object, prototypes))?;
        Some(found.0.clone())
    }

    /// The warnings of a run that is over.
    pub(super) fn told(&self, source: &Source, branches: &[Branch]) -> Vec<String> {
        let seen = self.seen.take();
        let places: Vec<(&Watched, &Seen)> = seen
            .iter()
            .filter_map(|(branch, seen)| match branches.get(*branch)? {
                Branch::Watch(watched) => Some((watched, seen)),
                _ => None,
            })
            .collect();
        // What an expression is compared with anywhere.
        let known = |value: &str| -> Vec<&Literal> {
            let literals = branches.iter().filter_map(|branch| match branch {
                Branch::Watch(Watched { value: other, usage: Usage::Compared { with, .. }, .. }) if other == value => {
                    Some(with)
                }
                _ => None,
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
        let line = |watched: &Watched| format!("line {}: ", source.position(watched.offset).line);
        let with_treatment = |it: &(&Watched, &Seen)| source.treatment(&it.0.value);
        let objects = places.iter().filter_map(|it| Some(line(it.0) + &of_object(it.0, it.1, with_treatment(it))?));
        add(objects.collect());
        let variants = places
            .iter()
            .filter_map(|it| Some(line(it.0) + &of_variant(it.0, it.1, with_treatment(it), &known(&it.0.value))?));
        add(variants.collect());
        warnings
    }
}

/// A property of an object whose value is one of the literals.
fn holder_of(object: &Object<'_>, with: &[Literal]) -> Option<String> {
    let mut names = object.keys::<String>().flatten().take(40);
    names.find(|name| {
        let name = rquickjs::String::from_str(object.ctx().clone(), name).ok();
        let value = name.and_then(|name| raw::own_data(object, name.as_value()));
        let plain = value.and_then(|value| plain(&value, with));
        plain.is_some_and(|plain| with.iter().any(|literal| is_equal(literal, &plain, true)))
    })
}

/// The value, if it is a text, number or boolean that a literal may be meant by.
fn plain(value: &Value<'_>, with: &[Literal]) -> Option<Plain> {
    if let Some(number) = value.as_number() {
        return Some(Plain::Number(number));
    }
    if let Some(flag) = value.as_bool() {
        return Some(Plain::Boolean(flag));
    }
    if !value.is_string() {
        return None;
    }
    let longest = with.iter().map(|it| match it {
        Literal::Text(text) => text.len(),
        _ => 0,
    });
    let limit = 2 * longest.max().unwrap_or_default() + 40;
    // Of a long text it is enough that it is one.
    raw::with_text(value, |text, _| Plain::Text(if text.len() > limit { String::new() } else { text.to_owned() }))
}

impl Plain {
    fn shown(&self) -> String {
        match self {
            Plain::Text(text) => format!("the text {}", in_quotes(text)),
            Plain::Number(number) => format!("the number {number}"),
            Plain::Boolean(flag) => format!("`{flag}`"),
        }
    }
}

fn is_equal(literal: &Literal, value: &Plain, is_strict: bool) -> bool {
    match (literal, value) {
        (Literal::Text(literal), Plain::Text(text)) => literal == text,
        (Literal::Number(literal), Plain::Number(number)) => literal == number,
        (Literal::Boolean(literal), Plain::Boolean(flag)) => literal == flag,
        _ if is_strict => false,
        (Literal::Text(_) | Literal::Number(_) | Literal::Boolean(_), _) => {
            number_of_literal(literal).zip(number(value)).is_some_and(|(literal, number)| literal == number)
        }
        (Literal::Null | Literal::Undefined, _) => false,
    }
}

/// Does the value say what the literal says, in another form?
fn is_variant(literal: &Literal, value: &Plain) -> bool {
    match (literal, value) {
        (Literal::Text(literal), Plain::Text(text)) => {
            let folded = fold(literal);
            !folded.is_empty() && folded == fold(text)
        }
        (Literal::Text(literal), Plain::Boolean(flag)) => fold(literal) == flag.to_string(),
        (Literal::Boolean(literal), Plain::Text(text)) => fold(text) == literal.to_string(),
        (Literal::Text(text), Plain::Number(_)) if text.trim().is_empty() => false,
        (Literal::Number(_), Plain::Text(text)) if text.trim().is_empty() => false,
        (Literal::Number(_), Plain::Boolean(_)) => false,
        (Literal::Text(_) | Literal::Number(_) | Literal::Boolean(_), _) => {
            number_of_literal(literal).zip(number(value)).is_some_and(|(literal, number)| literal == number)
        }
        (Literal::Null | Literal::Undefined, _) => false,
    }
}

/// A text without case, space and separators.
fn fold(text: &str) -> String {
    let kept = text.chars().filter(|it| !it.is_whitespace() && !matches!(it, '-' | '_'));
    kept.flat_map(char::to_lowercase).collect()
}

fn number_of_literal(literal: &Literal) -> Option<f64> {
    match literal {
        Literal::Text(text) => text.trim().parse().ok(),
        Literal::Number(number) => Some(*number),
        Literal::Boolean(flag) => Some(f64::from(u8::from(*flag))),
        Literal::Null | Literal::Undefined => None,
    }
}

fn number(value: &Plain) -> Option<f64> {
    match value {
        Plain::Text(text) => text.trim().parse().ok(),
        Plain::Number(number) => Some(*number),
        Plain::Boolean(flag) => Some(f64::from(u8::from(*flag))),
    }
}

/// A literal as the program writes it.
fn written(literal: &Literal) -> String {
    match literal {
        Literal::Text(text) => in_quotes(text),
        Literal::Number(number) => number.to_string(),
        Literal::Boolean(flag) => flag.to_string(),
        Literal::Null => "null".to_owned(),
        Literal::Undefined => "undefined".to_owned(),
    }
}

/// `"open" or "new"`.
fn all_written(with: &[Literal]) -> String {
    let mut text = String::new();
    for (index, literal) in with.iter().take(3).enumerate() {
        let _ = write!(text, "{}{}", if index > 0 { " or " } else { "" }, written(literal));
    }
    text
}

/// An object that is compared with texts or numbers, or a list of objects that is searched for one.
fn of_object(watched: &Watched, seen: &Seen, treatment: Treatment) -> Option<String> {
    let Watched { value, usage, .. } = watched;
    let Part { tool, shape, property } = seen.object.as_ref()?;
    if seen.has_plain || treatment.is_tested || treatment.is_entered && property.is_none() {
        return None;
    }
    let what = shape.describe();
    let name = |shape: &Shape| {
        let obvious = NAMES.iter().find(|name| shape.keys().any(|key| key == **name));
        property.clone().or_else(|| obvious.map(|name| (*name).to_owned()))
    };
    match usage {
        Usage::Searched(literal) => {
            let literal = written(literal);
            let advice = name(shape).map(|name| format!(": write `{value}.some((it) => it.{name} === {literal})`"));
            Some(format!(
                "the elements of `{value}` are objects of the result of {tool}, and {literal} is never among them: the first is \
                 {what}{}",
                advice.unwrap_or_default()
            ))
        }
        Usage::Compared { with, .. } => {
            let literals = all_written(with);
            let first = with.first().map(written).unwrap_or_default();
            let advice = match shape {
                Shape::Array(_, Some(element)) if matches!(**element, Shape::Object(_)) => {
                    name(element).map(|name| format!(": did you mean `{value}.some((it) => it.{name} === {first})`?"))
                }
                Shape::Array(..) => match with.first() {
                    Some(Literal::Number(_)) => Some(format!(": did you mean `{value}.length`?")),
                    _ => Some(format!(": did you mean `{value}.includes({first})`?")),
                },
                shape => name(shape).map(|name| {
                    let optional = if seen.has_nothing { "?" } else { "" };
                    format!(": did you mean `{value}{optional}.{name}`?")
                }),
            };
            Some(format!(
                "`{value}` is {what}, a part of the result of {tool}, and never equals {literals}{}",
                advice.unwrap_or_default()
            ))
        }
        _ => None,
    }
}

/// A text in another case, or a number in place of a text.
fn of_variant(watched: &Watched, seen: &Seen, treatment: Treatment, known: &[&Literal]) -> Option<String> {
    let Watched { value, usage, .. } = watched;
    if treatment.is_tested || treatment.is_folded {
        return None;
    }
    let with = match usage {
        Usage::Compared { with, .. } => &with[..],
        Usage::Searched(literal) => std::slice::from_ref(literal),
        _ => return None,
    };
    // A value that the program compares as it is, too, is meant.
    let is_known = |variant: &Variant| known.iter().any(|literal| is_equal(literal, &variant.value, true));
    let mut wrong = seen.variants.iter().filter(|(index, variant)| !seen.equal.contains(index) && !is_known(variant));
    let (index, variant) = wrong.next()?;
    let literal = with.get(*index)?;
    let written_literal = written(literal);
    let subject = match usage {
        Usage::Compared { .. } => format!("`{value}` is {}", variant.shown),
        _ => format!("`{value}` has {}", variant.shown),
    };
    let advice = match (&variant.value, literal) {
        (Plain::Text(text), Literal::Text(_)) => format!("compare with {}", in_quotes(text)),
        (Plain::Text(text), _) => format!("compare with the text {}", in_quotes(text)),
        (Plain::Number(number), _) => format!("compare with the number {number}"),
        (Plain::Boolean(flag), _) => format!("compare with `{flag}`"),
    };
    Some(format!("{subject}, which is never equal to {written_literal}: {advice}"))
}

/// Gives the prelude what it notes the prototypes of results with.
pub(super) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>, state: &Rc<State<'js>>) -> Result<()> {
    let shared = Rc::clone(state);
    let note = move |tool: String, object: Object<'js>, array: Object<'js>, text: Object<'js>, list: Object<'js>| {
        shared.watches.prototypes.borrow_mut().push((tool, vec![object, array, text, list]));
    };
    native.set("notePrototypes", Function::new(ctx.clone(), note)?)
}
