//! What branch probes call, and the decisions that they report.
//!
//! A probe asks a variable of the program what to call (see [`transpile`](crate::transpile)). At first that is [`probe`],
//! which keeps each decision. Once as many are kept as the host wants, it is [`counter`], which does nothing but count.
//! Once as many are counted as can be told, it is `false`, and the probes are off.

#![expect(unsafe_code, reason = "a function that a tight loop calls thousands of times, without conversions")]

use std::rc::Rc;

use pml_wire::{
    Kind,
    message::{Decision, Decisions, MAX_DECISIONS_CUT},
};
use rquickjs::{Ctx, Function, Result, Value, qjs};

use super::{
    State, explained,
    natives::{Late, given},
    raw, slips,
};
use crate::transpile::{Branch, Usage};

/// Makes the function that branch probes call.
pub(super) fn probe<'js>(ctx: &Ctx<'js>, state: &Rc<State<'js>>, late: &Late<'js>) -> Result<Function<'js>> {
    let (state, late) = (Rc::clone(state), Rc::clone(late));
    let probe = move |branch: usize, value: Value<'js>| {
        let outcome = match state.branches.borrow().get(branch) {
            Some(Branch::Test { .. }) => usize::from(is_truthy(&value)),
            Some(Branch::Switch(..)) => value.as_int().and_then(|case| usize::try_from(case).ok()).unwrap_or(0),
            Some(Branch::Throw(offset)) => {
                state.last_throw.replace(Some((*offset, value.clone())));
                return value;
            }
            Some(Branch::Caught) => {
                explained::explain(&value, &state, &given(&late).helpers);
                return value;
            }
            Some(Branch::Switchboard) => {
                state.set_probe.replace(value.into_function());
                return given(&late).probe.clone().into_value();
            }
            Some(Branch::Sum { value: name, offset }) => {
                slips::tell_added(&state, name, *offset, &value);
                return value;
            }
            Some(Branch::Watch(watched)) => {
                let wants_more = match watched.usage {
                    Usage::Condition => state.truths.look(branch, &value, &state.watches),
                    Usage::Ordered(side) => state.orders.look(branch, side, &value),
                    // A list that the program made itself may have indexes for names, and of an empty Map an empty copy is right.
                    Usage::Indexed(_) if state.watches.is_own_list(&value) => {
                        state.uses.look(branch, watched, &Value::new_undefined(value.ctx().clone()))
                    }
                    Usage::Copied if !state.members.is_filled(&value) => {
                        state.uses.look(branch, watched, &Value::new_undefined(value.ctx().clone()))
                    }
                    Usage::Indexed(_)
                    | Usage::Added(_)
                    | Usage::Copied
                    | Usage::Named(_)
                    | Usage::Split(_)
                    | Usage::Begins(_) => state.uses.look(branch, watched, &value),
                    Usage::Dropped { .. } => state.drops.look(branch, &value),
                    Usage::Among { .. } => state.members.look(&state.watches, branch, watched, &value),
                    _ => state.watches.look(branch, watched, &value),
                };
                return Value::new_bool(value.ctx().clone(), wants_more);
            }
            None => return value,
        };
        if decide(&state, branch, outcome) {
            set_probe(&state, given(&late).count_decision.clone().into_value());
        }
        value
    };
    Function::new(ctx.clone(), probe)
}

/// Makes the function that probes call when no more decisions are kept. It returns its second argument.
pub(super) fn counter<'js>(ctx: &Ctx<'js>, state: &Rc<State<'js>>) -> Result<Function<'js>> {
    let opaque = Rc::into_raw(Rc::clone(state)).cast_mut().cast();
    // SAFETY: the context is alive, and the name is a C string. `opaque` is a reference to the state that the function
    // owns and `release` gives up; the state's lifetime is that of the context's values, which the function does not
    // outlive. The value is ours, and is taken over.
    let function = unsafe {
        let context = ctx.as_raw().as_ptr();
        let function = qjs::JS_NewCClosure(context, Some(count), c"".as_ptr(), Some(release), 2, 0, opaque);
        if qjs::JS_IsException(function) {
            release(opaque);
            return Err(rquickjs::Error::Exception);
        }
        Value::from_raw(ctx.clone(), function)
    };
    function.try_into_function().map_err(|_| rquickjs::Error::Unknown)
}

unsafe extern "C" fn count(
    ctx: *mut qjs::JSContext,
    _this: qjs::JSValue,
    argc: std::ffi::c_int,
    argv: *mut qjs::JSValue,
    _magic: std::ffi::c_int,
    opaque: *mut std::ffi::c_void,
) -> qjs::JSValue {
    // SAFETY: `opaque` is the state that `counter` put there. It is shared, as the `Rc` of it says.
    let state = unsafe { &*opaque.cast::<State<'_>>() };
    cut(state);
    match argc {
        // SAFETY: there are two arguments at least, and each is alive. The caller owns what is returned.
        2.. => unsafe { qjs::JS_DupValue(ctx, *argv.add(1)) },
        _ => qjs::JS_UNDEFINED,
    }
}

unsafe extern "C" fn release(opaque: *mut std::ffi::c_void) {
    // SAFETY: `counter` made it of an `Rc`, and the engine calls this once.
    drop(unsafe { Rc::from_raw(opaque.cast::<State<'_>>()) });
}

/// Keeps a decision, unless there are enough. Are there now? The host is told whenever their number has doubled, so that a
/// program that is killed takes at most half of them with it, and one that lives costs a few frames.
fn decide(state: &State<'_>, branch: usize, outcome: usize) -> bool {
    let mut decisions = state.decisions.borrow_mut();
    let limit = state.limits.get().decisions;
    if decisions.len() >= limit {
        drop(decisions);
        cut(state);
        return false;
    }
    decisions.push((branch, outcome));
    let count = decisions.len();
    drop(decisions);
    if count.is_power_of_two() || count == limit {
        tell(state);
        // Somebody may be using the channel, who will flush it.
        let _ = state.channel.try_borrow_mut().map(|mut channel| channel.flush());
    }
    count == limit
}

/// Counts a decision that is not kept. After the last that can be told, the probes are off.
fn cut(state: &State<'_>) {
    let cut = state.decisions_cut.get() + 1;
    if cut <= MAX_DECISIONS_CUT {
        state.decisions_cut.set(cut);
    }
    if cut >= MAX_DECISIONS_CUT
        && let Some(set) = state.set_probe.take()
    {
        // It assigns to a variable; if even that fails, the probes stay on.
        let _ = set.call::<_, ()>((false,));
    }
}

/// Has the probes of the program call a function from now on.
fn set_probe<'js>(state: &State<'js>, function: Value<'js>) {
    let set = state.set_probe.borrow().clone();
    if let Some(set) = set {
        let _ = set.call::<_, ()>((function,));
    }
}

/// Tells the host the decisions that it does not know yet.
pub(super) fn tell(state: &State<'_>) {
    if !state.is_told.get() || state.decisions.borrow().len() == state.decisions_told.get() {
        return;
    }
    if let Ok(mut channel) = state.channel.try_borrow_mut() {
        channel.send_json(Kind::Decisions, &Decisions { decisions: untold(state) });
    }
}

/// What the probes noted and the host does not know yet, in words.
pub(super) fn untold(state: &State<'_>) -> Vec<Decision> {
    let branches = state.branches.borrow();
    let describe = |(branch, outcome): (usize, usize)| {
        let (condition, outcome) = match branches.get(branch)? {
            Branch::Test { condition, .. } => (condition, (outcome != 0).to_string()),
            Branch::Switch(condition, cases) => (condition, cases.get(outcome)?.clone()),
            Branch::Throw(_) | Branch::Caught | Branch::Switchboard | Branch::Sum { .. } | Branch::Watch(_) => {
                return None;
            }
        };
        Some(Decision { node_id: format!("d{}", branch + 1), outcome, condition: condition.clone() })
    };
    let decisions = state.decisions.borrow();
    let told = state.decisions_told.replace(decisions.len());
    decisions[told.min(decisions.len())..].iter().copied().filter_map(describe).collect()
}

fn is_truthy(value: &Value<'_>) -> bool {
    match value.as_bool() {
        Some(flag) => flag,
        None if value.is_undefined() || value.is_null() => false,
        None if value.is_number() => value.as_number().is_some_and(|number| number != 0.0 && !number.is_nan()),
        None if value.is_string() => raw::text(value).is_some_and(|(text, _)| !text.is_empty()),
        None if value.is_big_int() => raw::text(value).is_some_and(|(text, _)| text != "0"),
        None => true,
    }
}
