//! Errors of the engine that a program gets hold of, with messages that name the thing.
//!
//! An error that nobody catches is explained in the report. One that is caught, or that is part of a result, has
//! its message replaced here, since the program or the agent reads that.

use std::{cell::RefCell, collections::HashMap};

use rquickjs::{Object, Value, object::Property};

use super::{State, inspect::Helpers, raw};
use crate::transpile::is_explained;

/// Different failures that are explained in one run: a loop must not spend its time on it.
const MAX_EXPLAINED: usize = 50;

/// Explanations by message and place.
#[derive(Debug, Default)]
pub(super) struct Explained(RefCell<HashMap<String, Option<String>>>);

/// Gives an error of the engine a message that says what failed. Leaves all others as they are.
pub(super) fn explain<'js>(error: &Value<'js>, state: &State<'js>, helpers: &Helpers<'js>) {
    let Some(object) = error.as_object() else { return };
    if !object.is_error() {
        return show_stack(object, state, helpers);
    }
    let Some(message) = own_text(object, "message").filter(|message| is_explained(message)) else { return };
    let Some(explanation) = explanation(object, &message, state, helpers) else { return };
    let Ok(text) = rquickjs::String::from_str(object.ctx().clone(), &explanation) else {
        object.ctx().catch();
        return;
    };
    // A frozen error keeps its message.
    if object.prop("message", Property::from(text.into_value()).writable().configurable()).is_err() {
        object.ctx().catch();
    }
}

fn explanation<'js>(error: &Object<'js>, message: &str, state: &State<'js>, helpers: &Helpers<'js>) -> Option<String> {
    let source = state.source.borrow().clone()?;
    let Ok(stack) = helpers.stack_of.call::<_, Value<'js>>((error.clone(),)) else {
        error.ctx().catch();
        return None;
    };
    let (stack, _) = Some(stack).filter(Value::is_string).and_then(|stack| raw::text(&stack))?;
    let place: String = stack.lines().take(2).collect();
    let mut known = state.explained.0.borrow_mut();
    let key = format!("{message}\n{place}");
    if !known.contains_key(&key) && known.len() < MAX_EXPLAINED {
        let blame = source.blame(message, &stack, &state.results.list());
        let text = blame.map(|blame| match blame.hint {
            Some(hint) => format!("{}; {hint}", blame.message),
            None => blame.message,
        });
        known.insert(key.clone(), text);
    }
    known.get(&key).cloned().flatten()
}

/// The exceptions of the web's interfaces have the engine's stack as a property: gives it the form of other errors' stacks.
fn show_stack<'js>(object: &Object<'js>, state: &State<'js>, helpers: &Helpers<'js>) {
    if raw::class_id(object) != helpers.dom_exception {
        return;
    }
    let Some(stack) = own_text(object, "stack").filter(|stack| stack.trim_start().starts_with("at ")) else { return };
    let Some(source) = state.source.borrow().clone() else { return };
    let (Ok(name), Ok(message)) = (object.get::<_, String>("name"), object.get::<_, String>("message")) else {
        object.ctx().catch();
        return;
    };
    let places = source.remap_stack(&stack).0.unwrap_or_default();
    let places: String = places.lines().map(|line| format!("\n    {line}")).collect();
    if object.prop("stack", Property::from(format!("{name}: {message}{places}")).writable().configurable()).is_err() {
        object.ctx().catch();
    }
}

fn own_text<'js>(object: &Object<'js>, name: &str) -> Option<String> {
    let name = rquickjs::String::from_str(object.ctx().clone(), name).ok()?;
    let value = raw::own_data(object, name.as_value()).filter(Value::is_string)?;
    raw::text(&value).map(|(text, _)| text)
}
