//! What `language.js` builds on: stacks, messages of errors and the text of functions, in terms of what the agent wrote.

use std::rc::Rc;

use rquickjs::{Ctx, Function, Object, Result, Value};

use super::{
    State, explained,
    natives::{Late, given},
    raw,
};
use crate::transpile::import_refusal;

/// Adds the functions to `native`.
pub(super) fn install<'js>(
    ctx: &Ctx<'js>,
    native: &Object<'js>,
    state: &Rc<State<'js>>,
    late: &Late<'js>,
) -> Result<()> {
    let (shared, prelude) = (Rc::clone(state), Rc::clone(late));
    let explain = move |error: Value<'js>| explained::explain(&error, &shared, &given(&prelude).helpers);
    native.set("explain", Function::new(ctx.clone(), explain)?)?;

    let shared = Rc::clone(state);
    let remap = move |frames: Value<'js>| {
        let (frames, _) = raw::text(&frames).unwrap_or_default();
        let source = shared.source.borrow().clone();
        let stack = source.and_then(|source| source.remap_stack(&frames).0).unwrap_or_default();
        stack.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
    };
    native.set("remapStack", Function::new(ctx.clone(), remap)?)?;

    let shared = Rc::clone(state);
    let text = move |text: Value<'js>| -> Result<Value<'js>> {
        let source = shared.source.borrow().clone();
        let plain = source.and_then(|source| source.function_text(&raw::text(&text)?.0));
        match plain {
            Some(plain) => Ok(rquickjs::String::from_str(text.ctx().clone(), &plain)?.into_value()),
            None => Ok(text),
        }
    };
    native.set("functionText", Function::new(ctx.clone(), text)?)?;

    let refusal = |name: Value<'js>| import_refusal(&raw::text(&name).unwrap_or_default().0);
    native.set("importRefusal", Function::new(ctx.clone(), refusal)?)
}
