//! Numbers and dates in texts that are put in the order of the texts: `"9.50" > "10.00"`, `"14/03/2024" < "15/01/2024"`.
//!
//! Both sides of a comparison are looked at (`transpile/watch/orders.rs`), and what `localeCompare` and `sort` compare. A pair
//! is told whose texts are in the opposite order of what they say; as long as both orders are the same, the program is right.

use std::{
    cell::{Cell, RefCell},
    cmp::Ordering,
    collections::BTreeMap,
    rc::Rc,
};

use rquickjs::{Ctx, Function, Object, Result, Value};

use super::{
    State,
    quantities::{self, Form, MAX_BYTES, Reason},
    raw,
    slips::{called_at, in_quotes},
};
use crate::transpile::{Branch, Side, Source};

/// Looks at a place where no text was seen.
const MAX_LOOKS: u32 = 100;
/// Looks at a place where texts were seen.
const MAX_TEXTS: u32 = 3_000;
/// Elements of a sorted list that are looked at.
const MAX_ELEMENTS: usize = 1_000;
/// Warnings of one run.
const MAX_WARNINGS: usize = 10;

/// What was seen of the comparisons of a program, by the branch of the left side.
#[derive(Debug, Default)]
pub(super) struct Orders {
    seen: RefCell<BTreeMap<usize, Seen>>,
    told: Cell<usize>,
}

#[derive(Debug, Default)]
struct Seen {
    looks: u32,
    has_text: bool,
    /// The left side of the comparison that is going on.
    left: Option<String>,
    pair: Option<Pair>,
}

/// Two texts in another order than what they say.
#[derive(Debug)]
struct Pair {
    left: String,
    right: String,
    reason: Reason,
}

impl Pair {
    fn of(left: &str, right: &str, order: Ordering) -> Option<Pair> {
        let reason = quantities::disagreement(left, right, order)?;
        Some(Pair { left: left.to_owned(), right: right.to_owned(), reason })
    }

    /// `compares the texts "9.50" and "10.00" …: …`
    fn sentence(&self, converted: &str) -> String {
        let (left, right) = (in_quotes(&self.left), in_quotes(&self.right));
        let (what, advice) = match self.reason {
            Reason::Numbers { is_plain: true } => ("numbers", format!("compare numbers, {converted}")),
            Reason::Numbers { is_plain: false } => {
                let shown = if quantities::read(&self.left).is_some_and(|it| it.is_plain()) { &right } else { &left };
                ("numbers", format!("compare numbers, and take out first what is no digit, as of {shown}"))
            }
            Reason::Clocks => ("times", "compare minutes, or fill up the hours with `padStart`".to_owned()),
            Reason::Zones => {
                ("times in different zones", "compare times, as in `new Date(a) - new Date(b)`".to_owned())
            }
            Reason::Dates(one, other) => ("dates", of_dates(one, other)),
        };
        format!("orders {left} and {right} as texts, which is not the order of the {what}: {advice}")
    }
}

fn of_dates(one: Form, other: Form) -> String {
    let numeric = [one, other].into_iter().find_map(|form| match form {
        Form::Numeric(separator) => Some(separator),
        _ => None,
    });
    match numeric {
        Some(separator) => format!(
            "bring them into the form \"2024-01-31\" first, by year, month and day from `text.split({})`",
            in_quotes(&separator.to_string())
        ),
        None => "compare times, as in `new Date(a) - new Date(b)`".to_owned(),
    }
}

impl Orders {
    /// Looks at a side of a comparison. Is there more to see at this place?
    pub(super) fn look(&self, branch: usize, side: Side, value: &Value<'_>) -> bool {
        let mut all = self.seen.borrow_mut();
        let text = value.is_string().then(|| short_text(value)).flatten();
        if side == Side::Left {
            let seen = all.entry(branch).or_default();
            seen.looks += 1;
            seen.has_text |= value.is_string();
            seen.left = text;
            return true;
        }
        let Some(seen) = branch.checked_sub(1).and_then(|left| all.get_mut(&left)) else { return false };
        seen.has_text |= value.is_string();
        if let (Some(left), Some(right)) = (seen.left.take(), text) {
            seen.pair = Pair::of(&left, &right, left.encode_utf16().cmp(right.encode_utf16()));
        }
        seen.pair.is_none() && seen.looks < if seen.has_text { MAX_TEXTS } else { MAX_LOOKS }
    }

    /// The warnings of a run that is over.
    pub(super) fn told(&self, source: &Source, branches: &[Branch]) -> Vec<String> {
        let seen = self.seen.take();
        let pairs = seen.iter().filter_map(|(branch, seen)| match branches.get(*branch)? {
            Branch::Watch(watched) => Some((watched, seen.pair.as_ref()?)),
            _ => None,
        });
        let sentences = pairs.map(|(watched, pair)| {
            let line = source.position(watched.offset).line;
            let (value, converted) = (&watched.value, "as in `Number(a) < Number(b)`");
            format!("line {line}: `{value}` {}", pair.sentence(converted))
        });
        sentences.take(MAX_WARNINGS).collect()
    }

    fn may_tell(&self) -> bool {
        self.told.replace(self.told.get() + 1) < MAX_WARNINGS
    }
}

/// Looks at two texts that are put in order. None of a pair that is all right.
fn look_at_pair(left: &Value<'_>, right: &Value<'_>, order: Ordering) -> Option<Pair> {
    Pair::of(&short_text(left)?, &short_text(right)?, order)
}

/// Looks at a list that was sorted by the texts of its elements.
fn look_at_sorted(list: &Object<'_>) -> Option<Pair> {
    let mut before: Option<String> = None;
    let mut found = None;
    for element in raw::own_elements(list.as_array()?, MAX_ELEMENTS) {
        // In a list with other texts, the numbers are hardly meant as such.
        let text = short_text(&element).filter(|text| quantities::read(text).is_some())?;
        if let Some(before) = before.filter(|_| found.is_none()) {
            found = Pair::of(&before, &text, Ordering::Less);
        }
        before = Some(text);
    }
    found
}

/// A text that may be a number or a date.
fn short_text(value: &Value<'_>) -> Option<String> {
    if !value.is_string() {
        return None;
    }
    raw::with_text(value, |text, _| (text.len() <= MAX_BYTES).then(|| text.to_owned()))?
}

/// Gives the scripts what they have texts looked at with that they compare. Both functions tell at once what they find.
pub(super) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>, state: &Rc<State<'js>>) -> Result<()> {
    // Is it worthwhile to say where the two are compared? `order` is what `localeCompare` gave.
    let compared =
        move |left: Value<'js>, right: Value<'js>, order: i32| look_at_pair(&left, &right, order.cmp(&0)).is_some();
    native.set("compared", Function::new(ctx.clone(), compared)?)?;
    let shared = Rc::clone(state);
    let tell_compared = move |left: Value<'js>, right: Value<'js>, order: i32, stack: Value<'js>| {
        if let Some(pair) = look_at_pair(&left, &right, order.cmp(&0)) {
            let what = pair.sentence("as in `Number(a) - Number(b)`");
            shared.warn(format!("{}localeCompare {what}", called_at(&shared, &stack, "localeCompare")));
        }
    };
    native.set("tellCompared", Function::new(ctx.clone(), tell_compared)?)?;
    let shared = Rc::clone(state);
    let sorted = move |name: String, list: Object<'js>, stack: Value<'js>| {
        if let Some(pair) = look_at_sorted(&list).filter(|_| shared.orders.may_tell()) {
            let what = pair.sentence(&format!("as in `{name}((a, b) => a - b)`"));
            shared.warn(format!("{}{name}() without a comparator {what}", called_at(&shared, &stack, &name)));
        }
    };
    native.set("lookAtSorted", Function::new(ctx.clone(), sorted)?)?;
    let shared = Rc::clone(state);
    let unsorted = move |name: String, stack: Value<'js>| {
        if shared.orders.may_tell() {
            shared.warn(format!(
                "{}{name} was given a comparator that gives true or false, which leaves the list as it is: give a number, as in \
                 `(a, b) => a.n - b.n`, or `(a, b) => (a.name > b.name ? 1 : -1)` of texts",
                called_at(&shared, &stack, &name)
            ));
        }
    };
    native.set("tellUnsorted", Function::new(ctx.clone(), unsorted)?)
}
