//! What `intl.js` and `locale.js` build on.
//!
//! `Intl` is large, and most programs never touch it. So a worker starts with one function that evaluates its script when
//! something is first formatted. A program may have changed the realm by then and get hold of what the script is given: that
//! is one function that only formats.

use rquickjs::{Array, Ctx, Exception, Function, Object, Result, Value};

use super::{natives, raw};
use crate::{
    intl::{self, Answer, Argument, Failure, FailureKind, Part},
    time_zone,
};

/// The bytecode of the script; see `build.rs`.
const INTL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/intl.bin"));
/// Most items of a list that is formatted.
const MAX_ITEMS: usize = 1_000_000;

/// Adds the function to `native`.
pub(super) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    let load = |ctx: Ctx<'js>, shared: Value<'js>| -> Result<Value<'js>> {
        let format = Function::new(ctx.clone(), call)?;
        natives::script(&ctx, INTL)?.call((format, time_zone::name(), shared))
    };
    native.set("intl", Function::new(ctx.clone(), load)?)?;
    native.set("isUtc", time_zone::name() == "UTC")
}

/// One operation of [`intl::call`].
fn call<'js>(
    ctx: Ctx<'js>,
    operation: String,
    options: Value<'js>,
    first: Value<'js>,
    second: Value<'js>,
) -> Result<Value<'js>> {
    let options = options.is_string().then(|| raw::text(&options)).flatten().unwrap_or_default().0;
    let (first, second) = (argument(&ctx, first)?, argument(&ctx, second)?);
    match intl::call(&operation, &options, first, second) {
        Ok(Answer::Number(value)) => Ok(Value::new_number(ctx, value)),
        Ok(Answer::Text(text)) => Ok(rquickjs::String::from_str(ctx, &text)?.into_value()),
        Ok(Answer::Json(json)) => ctx.json_parse(json),
        Ok(Answer::Parts(parts)) => flat(&ctx, parts),
        Err(failure) => Err(thrown(&ctx, &failure)),
    }
}

/// The JavaScript error of a failure.
pub(super) fn thrown(ctx: &Ctx<'_>, failure: &Failure) -> rquickjs::Error {
    match failure.kind {
        FailureKind::Range => Exception::throw_range(ctx, &failure.message),
        FailureKind::Type => Exception::throw_type(ctx, &failure.message),
    }
}

fn argument<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> Result<Argument> {
    let text = |value: &Value<'js>| raw::text(value).map(|(text, _)| text).ok_or(rquickjs::Error::Exception);
    if let Some(number) = value.as_number() {
        return Ok(Argument::Number(number));
    }
    if value.is_string() || value.is_big_int() {
        return Ok(Argument::Text(text(&value)?));
    }
    let Some(list) = value.into_array() else { return Ok(Argument::Nothing) };
    if list.len() > MAX_ITEMS {
        return Err(Exception::throw_range(ctx, "the list has too many items to be formatted"));
    }
    let texts = list.iter::<Value<'js>>().map(|item| {
        item.and_then(|item| match item.is_string() {
            true => text(&item),
            false => Err(Exception::throw_type(ctx, "the list has an item that is no text")),
        })
    });
    Ok(Argument::Texts(texts.collect::<Result<_>>()?))
}

/// Kind, text and note of each part, one after the other.
fn flat<'js>(ctx: &Ctx<'js>, parts: Vec<Part>) -> Result<Value<'js>> {
    let list = Array::new(ctx.clone())?;
    for (index, part) in parts.into_iter().enumerate() {
        list.set(3 * index, part.kind)?;
        list.set(3 * index + 1, &*part.text)?;
        list.set(3 * index + 2, part.note)?;
    }
    Ok(list.into_value())
}
