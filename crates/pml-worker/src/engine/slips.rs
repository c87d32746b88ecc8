//! What `lists.js` and `slips.js` note for warnings: loops whose promises nobody waits for, and sums that became texts.

use std::{borrow::Cow, cell::RefCell, collections::HashSet, rc::Rc};

use rquickjs::{Array, Ctx, Function, Object, Result, Value};

use super::{State, raw, results};
use crate::transpile::{Source, innermost};

/// Loops that are kept.
const MAX_LOOPS: usize = 20;
/// Failures that are kept.
const MAX_FAILURES: usize = 3;
/// How much of a text a warning shows.
const SHOWN_CHARS: usize = 40;
/// How much of the message of a failure a warning shows.
const SHOWN_MESSAGE_CHARS: usize = 120;
/// What a program that looks at failures, shows them, or is told of them already, has in it.
const LOOKS_AT_FAILURES: [&str; 6] = ["success", "error", "result", "console", "log", "stringify"];

/// The loops of a run that call an async function and do not wait for it, its calls that gave a failure, and its sums that became texts.
#[derive(Debug, Default)]
pub(super) struct Slips {
    loops: RefCell<Vec<Loop>>,
    /// The tool and the message of each call whose failure was given to the program as a value.
    failures: RefCell<Vec<(String, String)>>,
    /// Where texts that were added to numbers begin.
    sums: RefCell<HashSet<u32>>,
}

#[derive(Debug)]
struct Loop {
    /// The engine's line and column.
    place: Option<(u32, u32)>,
    /// Calls that have begun and not ended.
    unfinished: usize,
}

impl Slips {
    fn begin(&self, place: Option<(u32, u32)>) -> usize {
        let mut loops = self.loops.borrow_mut();
        if let Some(index) = loops.iter().position(|it| it.place == place) {
            return index;
        }
        if loops.len() < MAX_LOOPS {
            loops.push(Loop { place, unfinished: 0 });
        }
        loops.len() - 1
    }

    fn count(&self, index: usize, change: isize) {
        if let Some(it) = self.loops.borrow_mut().get_mut(index) {
            it.unfinished = it.unfinished.saturating_add_signed(change);
        }
    }

    /// A call of `callTool` or `callToolsBatch` failed.
    pub(super) fn note_failure(&self, tool: &str, message: &str) {
        let mut failures = self.failures.borrow_mut();
        if failures.len() < MAX_FAILURES {
            let message = message.lines().next().unwrap_or_default();
            failures.push((tool.to_owned(), message.chars().take(SHOWN_MESSAGE_CHARS).collect()));
        }
    }

    /// The warnings of a run that succeeded with `result`, and took failures for something else.
    pub(super) fn unread_failures(&self, source: &Source, result: &[u8]) -> Vec<String> {
        let failures = self.failures.take();
        let returned = if failures.is_empty() { Cow::default() } else { String::from_utf8_lossy(result) };
        if returned.contains("\"success\":false") || LOOKS_AT_FAILURES.iter().any(|name| source.mentions(name)) {
            return Vec::new();
        }
        let sentences = failures.iter().map(|(tool, message)| {
            format!(
                "{tool} failed: {message}; `callTool` does not throw, and what it returns of a failure is an object, which is true as a \
                 condition: look at its `success`, or call `mcp`, which throws"
            )
        });
        sentences.collect()
    }

    /// The warnings of a run that is over.
    pub(super) fn told(&self, source: &Source) -> Vec<String> {
        let loops = self.loops.take();
        let unfinished = loops.iter().filter(|it| it.unfinished > 0);
        let sentences = unfinished.map(|it| {
            let line = line_of(source, it.place);
            let count = it.unfinished;
            format!(
                "forEach{line} does not wait for its async function, and {count} of its calls had not ended when the program did: \
                 use `for (const item of list) {{ … }}` with `await`, or `await Promise.all(list.map(async (item) => …))`"
            )
        });
        sentences.collect()
    }
}

/// ` (line 3)`, if it is known.
fn line_of(source: &Source, place: Option<(u32, u32)>) -> String {
    let line = place.and_then(|(line, column)| source.line(line, column));
    line.map(|line| format!(" (line {line})")).unwrap_or_default()
}

/// `line 3: ` of the call of a method, if it is known. In front of a `return`, the engine's place may be that of another line: then
/// it is the line of the program that has the name, if there is one such.
pub(super) fn called_at(state: &State<'_>, stack: &Value<'_>, name: &str) -> String {
    let stack = Some(stack).filter(|stack| stack.is_string()).and_then(raw::text);
    let place = stack.and_then(|(stack, _)| innermost(&stack));
    let line = state.source.borrow().as_ref().and_then(|source| {
        let found = place.and_then(|(line, column)| source.line(line, column));
        source.line_that_has(name, found)
    });
    line.map(|line| format!("line {line}: ")).unwrap_or_default()
}

/// Gives the scripts what they note with.
pub(super) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>, state: &Rc<State<'js>>) -> Result<()> {
    let place = |stack: &Value<'js>| {
        let stack = Some(stack).filter(|stack| stack.is_string()).and_then(raw::text);
        stack.and_then(|(stack, _)| innermost(&stack))
    };
    let shared = Rc::clone(state);
    let begin = move |stack: Value<'js>| shared.slips.begin(place(&stack));
    native.set("beginLoop", Function::new(ctx.clone(), begin)?)?;
    for (name, change) in [("continueLoop", 1), ("endLoop", -1)] {
        let shared = Rc::clone(state);
        let count = move |index: usize| shared.slips.count(index, change);
        native.set(name, Function::new(ctx.clone(), count)?)?;
    }

    // What a list begins with, without asking the program's own getters or a proxy.
    let first = |list: Array<'js>| raw::own_elements(&list, 1).next();
    native.set("firstOwn", Function::new(ctx.clone(), first)?)?;

    let shared = Rc::clone(state);
    let strung = move |name: String, stack: Value<'js>, sum: Value<'js>| {
        let source = shared.source.borrow().clone();
        let line = source.map(|source| line_of(&source, place(&stack))).unwrap_or_default();
        let reason = match raw::text(&sum).and_then(|(text, _)| object_in(&text)) {
            Some(object) => format!("what is added is {object}: add one of its properties"),
            None => "`+` joins a number and a text: add `Number(…)` of what is added".to_owned(),
        };
        shared.warn(format!("`{name}`{line} began with a number and became the text {}, since {reason}", shown(&sum)));
    };
    native.set("strung", Function::new(ctx.clone(), strung)?)
}

/// What was added to a number, if the text that became of the sum begins with an object behind it: `0{"a":1}{"a":2}`.
fn object_in(sum: &str) -> Option<String> {
    let added = sum.trim_start_matches(|it: char| it.is_ascii_digit() || matches!(it, '.' | '-'));
    if added.starts_with("[object Object]") {
        return Some("an object".to_owned());
    }
    let first = serde_json::Deserializer::from_str(added).into_iter::<serde_json::Value>().next()?.ok()?;
    let names: Vec<String> = first.as_object()?.keys().take(4).map(|name| format!("`{name}`")).collect();
    Some(format!("an object with {}", names.join(", ")))
}

/// Warns of a text, or an object of a result, that is added to what is meant to be a number. `offset` is where the expression
/// begins.
pub(super) fn tell_added<'js>(state: &State<'js>, expression: &str, offset: u32, value: &Value<'js>) {
    let is_part = value.as_object().is_some_and(|it| state.watches.tool_of(it).is_some());
    if !value.is_string() && !is_part || !state.slips.sums.borrow_mut().insert(offset) {
        return;
    }
    let source = state.source.borrow().clone();
    let line = source.map(|source| format!("line {}: ", source.position(offset).line)).unwrap_or_default();
    if is_part {
        let shape = results::shape(value, 0);
        let advice = match shape.keys().next() {
            Some(name) => format!("add one of its properties, such as `{expression}.{name}`"),
            None => "add a number".to_owned(),
        };
        state.warn(format!(
            "{line}`{expression}` is {}, and `+` joins a number and its text: {advice}",
            shape.describe()
        ));
        return;
    }
    state.warn(format!(
        "{line}`{expression}` is the text {}, and `+` joins a number and a text: add `Number({expression})`",
        shown(value)
    ));
}

/// A text in quotes, shortened.
fn shown(value: &Value<'_>) -> String {
    in_quotes(&raw::text(value).map(|(text, _)| text).unwrap_or_default())
}

/// The same of a text that is at hand.
pub(super) fn in_quotes(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
