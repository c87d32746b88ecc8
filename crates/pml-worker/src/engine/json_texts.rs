//! Values that were read from JSON text.
//!
//! A tool without an output schema often returns JSON as text. The program gets the value, and the prelude keeps the text
//! beside it, so that the value still is its text where a text is meant. Whether the program has changed the value is found
//! out when the text is needed, by comparing the two: nothing has to be watched, and no text is ever stale.

use std::rc::Rc;

use pml_wire::walk::{Place, Walk};
use rquickjs::{Ctx, Function, IntoJs, Object, Result, Value, object::Filter};

use super::{
    Prelude, State,
    exact::{self, child},
    natives::{Late, given},
    raw,
    slips::called_at,
};

/// Gives the prelude what it needs for such values.
pub(super) fn install<'js>(
    ctx: &Ctx<'js>,
    native: &Object<'js>,
    state: &Rc<State<'js>>,
    late: &Late<'js>,
) -> Result<()> {
    let (shared, prelude) = (Rc::clone(state), Rc::clone(late));
    let parse = move |ctx: Ctx<'js>, text: Value<'js>, tool: String, prototype: Object<'js>| {
        let (text, _) = raw::text(&text).filter(|(_, has_replaced)| !has_replaced)?;
        let parsed = exact::parse(&ctx, &shared, given(&prelude), text.into_bytes(), &tool, Some(&prototype));
        // The engine says what is wrong with it.
        parsed.inspect_err(|_| drop(ctx.catch())).ok()
    };
    native.set("parsePart", Function::new(ctx.clone(), parse)?)?;
    let is_unchanged = |value: Value<'js>, text: Value<'js>| {
        raw::text(&text).is_some_and(|(text, replaced)| !replaced && is_unchanged(&value, &text))
    };
    native.set("isUnchanged", Function::new(ctx.clone(), is_unchanged)?)?;
    native.set("undetectable", Function::new(ctx.clone(), |value: Value<'js>| raw::make_undetectable(value))?)?;
    let shared = Rc::clone(state);
    let warn = move |text: Value<'js>| {
        let Some((text, _)) = raw::text(&text) else { return };
        shared.warn(text);
    };
    native.set("warn", Function::new(ctx.clone(), warn)?)?;
    let shared = Rc::clone(state);
    let note = move |what: String, stack: Value<'js>| {
        let sentence = (!what.is_empty()).then(|| {
            let at = called_at(&shared, &stack, "parse");
            format!("{at}JSON.parse failed, and the program went on without the result of {what}")
        });
        shared.unparsed.replace(sentence);
    };
    native.set("noteUnparsed", Function::new(ctx.clone(), note)?)
}

/// The value of a text that is JSON, which `tool` returned.
pub(super) fn value<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    prelude: &Prelude<'js>,
    text: Vec<u8>,
    tool: &str,
) -> Result<Value<'js>> {
    let Ok(text) = String::from_utf8(text) else { return Err(rquickjs::Error::Unknown) };
    let source = text.as_str().into_js(ctx)?;
    let prototype: Object<'js> = prelude.watched.call((tool,))?;
    let value = exact::parse(ctx, state, prelude, text.into_bytes(), tool, Some(&prototype))?;
    prelude.mark_text.call((value, source, tool))
}

/// Is a value what its text says? A text that has a key twice is said to be different.
fn is_unchanged<'js>(root: &Value<'js>, text: &str) -> bool {
    let Ok(plain) = Object::new(root.ctx().clone()).map(|plain| raw::class_id(&plain)) else { return false };
    let mut walk = Walk::new(text);
    // The arrays and objects around the place, each with the number of its children so far.
    let mut open: Vec<(Object<'js>, usize)> = Vec::new();
    while let Some(Place { span, depth }) = walk.next() {
        if !close(&mut open, depth) {
            return false;
        }
        let value = match open.last_mut() {
            None => Some(root.clone()),
            Some((parent, children)) => {
                *children += 1;
                walk.step(depth - 1).and_then(|step| child(parent, step))
            }
        };
        let Some(value) = value else { return false };
        match (text.as_bytes()[span.start], value.as_object()) {
            (b'[', Some(object)) if object.is_array() => open.push((object.clone(), 0)),
            (b'{', Some(object)) if raw::class_id(object) == plain => open.push((object.clone(), 0)),
            (b'[' | b'{', _) => return false,
            _ if is_scalar(&value, &text[span]) => {}
            _ => return false,
        }
    }
    close(&mut open, 0)
}

/// Closes arrays and objects until so many are open. False if one of them has other children than the text.
fn close(open: &mut Vec<(Object<'_>, usize)>, depth: usize) -> bool {
    open.drain(depth.min(open.len())..).all(|(object, children)| match object.as_array() {
        Some(array) => array.len() == children,
        None => object.own_keys::<rquickjs::Atom<'_>>(Filter::new().string().enum_only()).count() == children,
    })
}

/// Is this what the JSON text of a scalar says?
fn is_scalar(value: &Value<'_>, text: &str) -> bool {
    match text.as_bytes() {
        [b'"', ..] => {
            let (Ok(expected), true) = (serde_json::from_str::<String>(text), value.is_string()) else { return false };
            raw::text(value).is_some_and(|(actual, replaced)| !replaced && actual == expected)
        }
        b"true" | b"false" => value.as_bool() == Some(text == "true"),
        b"null" => value.is_null(),
        _ => text.parse::<f64>().is_ok_and(|expected| value.as_number() == Some(expected)),
    }
}
