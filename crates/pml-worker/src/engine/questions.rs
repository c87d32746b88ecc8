//! Questions that no tool answers: searches, resources, prompts.

use std::rc::Rc;

use pml_wire::{
    ErrorCode, Kind,
    id::MAX_NAME_BYTES,
    message::{Ask, CallError, MAX_PROMPT_BYTES, Search},
};
use rquickjs::{Ctx, Function, Object, Result, Value};
use serde_json::value::RawValue;

use super::{
    Form, PendingCall, State,
    natives::{self, Late, given},
    raw,
    to_json::{self, Failure, Texts},
};

/// Longer than any query or address that the host takes: cut here, refused there.
const QUERY_BYTES: usize = 4096;
const URI_BYTES: usize = 9 * 1024;

/// Gives the prelude what it needs to ask.
pub(super) fn install<'js>(
    ctx: &Ctx<'js>,
    native: &Object<'js>,
    state: &Rc<State<'js>>,
    late: &Late<'js>,
) -> Result<()> {
    let (shared, prelude) = (Rc::clone(state), Rc::clone(late));
    let search =
        move |ctx: Ctx<'js>, query: Value<'js>, limit: Option<f64>, threshold: Option<f64>, stack: Value<'js>| {
            let (mut query, _) = raw::text(&query).ok_or(rquickjs::Error::Exception)?;
            query.truncate(query.floor_char_boundary(QUERY_BYTES));
            let (promise, call) = natives::pending(&ctx, "searchTools", Form::Value, stack)?;
            // JSON has no such numbers, and the host none that it would take.
            let odd = [("limit", limit), ("threshold", threshold)].into_iter().find_map(|(name, number)| {
                let number = number.filter(|number| !number.is_finite())?;
                Some((name, if number.is_nan() { "NaN" } else { "infinite" }))
            });
            match odd {
                Some((name, number)) => {
                    let error = CallError::new(
                        ErrorCode::InvalidArguments,
                        format!("`{name}` is {number}, but must be a number"),
                    );
                    natives::settle(&ctx, given(&prelude), &call, Err(error))?;
                }
                None => {
                    ask(&shared, call, &Ask::Search(Search { query, limit, threshold }));
                }
            }
            Ok::<_, rquickjs::Error>(promise)
        };
    native.set("search", Function::new(ctx.clone(), search)?)?;

    let shared = Rc::clone(state);
    let read = move |ctx: Ctx<'js>, uri: Value<'js>, server: Value<'js>, stack: Value<'js>| {
        let (promise, call) = natives::pending(&ctx, "readResource", Form::Value, stack)?;
        let (uri, server) = (text(&uri, URI_BYTES)?, optional(&server)?);
        ask(&shared, call, &Ask::ReadResource { uri, server });
        Ok::<_, rquickjs::Error>(promise)
    };
    native.set("readResource", Function::new(ctx.clone(), read)?)?;

    let shared = Rc::clone(state);
    let list = move |ctx: Ctx<'js>, server: Value<'js>, stack: Value<'js>| {
        let (promise, call) = natives::pending(&ctx, "listResources", Form::Value, stack)?;
        ask(&shared, call, &Ask::ListResources { server: optional(&server)? });
        Ok::<_, rquickjs::Error>(promise)
    };
    native.set("listResources", Function::new(ctx.clone(), list)?)?;

    let (shared, prelude) = (Rc::clone(state), Rc::clone(late));
    let prompt = move |ctx: Ctx<'js>, server: Value<'js>, name: Value<'js>, args: Value<'js>, stack: Value<'js>| {
        let (promise, call) = natives::pending(&ctx, "getPrompt", Form::Value, stack)?;
        let (server, name) = (text(&server, 2 * MAX_NAME_BYTES)?, text(&name, URI_BYTES)?);
        let args = match to_json::to_json(&args, &given(&prelude).intrinsics, MAX_PROMPT_BYTES, Texts::Noted, &|_| ()) {
            Ok(json) => String::from_utf8(json.text).ok().and_then(|text| RawValue::from_string(text).ok()),
            Err(Failure::Threw { exception, .. }) => return Err(ctx.throw(exception)),
            Err(Failure::Cycle { .. } | Failure::TooDeep { .. } | Failure::TooLarge { .. }) => None,
        };
        match args {
            Some(args) => ask(&shared, call, &Ask::GetPrompt { server, name, args }),
            None => {
                let message =
                    format!("the arguments of a prompt are texts, of {MAX_PROMPT_BYTES} bytes in all at most");
                let error = CallError::new(ErrorCode::InvalidArguments, message);
                natives::settle(&ctx, given(&prelude), &call, Err(error))?;
            }
        }
        Ok::<_, rquickjs::Error>(promise)
    };
    native.set("getPrompt", Function::new(ctx.clone(), prompt)?)
}

/// A text of the program, cut.
fn text(value: &Value<'_>, most: usize) -> Result<String> {
    let (mut text, _) = raw::text(value).ok_or(rquickjs::Error::Exception)?;
    text.truncate(text.floor_char_boundary(most));
    Ok(text)
}

/// The name of a server, or none.
fn optional(value: &Value<'_>) -> Result<Option<String>> {
    match value.is_undefined() {
        true => Ok(None),
        false => text(value, 2 * MAX_NAME_BYTES).map(Some),
    }
}

fn ask<'js>(state: &State<'js>, call: PendingCall<'js>, ask: &Ask) {
    let body = serde_json::to_vec(ask).expect("plain data serializes");
    natives::send(state, call, Kind::Ask, &body);
}
