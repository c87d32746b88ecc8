//! What `temporal.js` builds on.
//!
//! As with `Intl`, a worker starts with one function that evaluates the script when a program first uses `Temporal`. What the
//! script is given is one function that only computes.

use std::time::{SystemTime, UNIX_EPOCH};

use rquickjs::{Ctx, Function, Object, Result, Value};

use super::{intl::thrown, natives, raw};
use crate::{temporal, time_zone};

/// The bytecode of the script; see `build.rs`.
const TEMPORAL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/temporal.bin"));

/// Adds the function to `native`.
pub(super) fn install<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    let load = |ctx: Ctx<'js>, shared: Value<'js>| -> Result<Value<'js>> {
        let compute = Function::new(ctx.clone(), call)?;
        let now = Function::new(ctx.clone(), now)?;
        natives::script(&ctx, TEMPORAL)?.call((compute, now, time_zone::name(), shared))
    };
    native.set("temporal", Function::new(ctx.clone(), load)?)
}

/// One operation of [`temporal::call`].
fn call<'js>(ctx: Ctx<'js>, operation: String, input: Value<'js>) -> Result<Value<'js>> {
    let input = raw::text(&input).unwrap_or_default().0;
    let answer = temporal::call(&operation, &input).map_err(|failure| thrown(&ctx, &failure))?;
    ctx.json_parse(answer)
}

/// Nanoseconds since 1970, as digits.
fn now() -> String {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}
