//! The calls that a run is expected to make, and how far it has got with them.
//!
//! A plan is what can be read off a program or a workflow before it runs. It says nothing about probability: only which calls may
//! be thought about now. A call may be, if its arguments are known, the run has not read the same thing before, and nothing that
//! comes before it in the plan, or goes on now, may change what it would read.

use std::collections::{BTreeMap, HashSet};

use pml_wire::{CallId, ToolId, message::PreflightCall};
use serde_json::value::{RawValue, to_raw_value};

/// Calls ahead of the run that are thought about at the same time.
const CANDIDATES: usize = 2;
/// Calls of the plan that are looked at for that.
const LOOKED_AT: usize = 16;
/// Longest arguments that are compared, in bytes, and their deepest level.
const MAX_ARGUMENT_BYTES: usize = 16 * 1024;
const MAX_DEPTH: usize = 32;

/// A call that a run is expected to make.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) tool: ToolId,
    /// Known only if all of them are.
    pub(crate) args: Option<Box<RawValue>>,
    /// The run makes the call whenever it gets that far.
    pub(crate) is_certain: bool,
}

/// Whether calls are made in the order of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As a program has them: a call that the program went past is not expected any more.
    Written,
    /// As a workflow has them: whatever is ready is called.
    Any,
}

/// What a run is expected to call.
#[derive(Debug)]
pub(super) struct Plan {
    calls: Vec<Planned>,
    order: Order,
    /// The first call that the run has not gone past.
    next: usize,
    /// The tools that were called last, the latest one last.
    last: Vec<ToolId>,
    /// What was called with which arguments, of the tools of the plan.
    made: HashSet<(ToolId, String)>,
    /// Calls in flight that may change something.
    writing: HashSet<CallId>,
    /// A call may still change something though it has ended.
    is_unsure: bool,
}

#[derive(Debug)]
struct Planned {
    tool: ToolId,
    args: Option<KnownArguments>,
    is_certain: bool,
    is_made: bool,
}

#[derive(Debug)]
struct KnownArguments {
    raw: Box<RawValue>,
    canonical: String,
}

/// What a call was, seen from the plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// The call of the plan that was made.
    pub(super) made: Option<usize>,
    /// Calls of the plan that the run went past.
    pub(super) passed: Vec<usize>,
}

/// A call that may be thought about now.
#[derive(Debug)]
pub(super) struct Candidate<'p> {
    /// Its place in the plan.
    pub(super) place: usize,
    pub(super) tool: &'p ToolId,
    pub(super) args: &'p RawValue,
    pub(super) is_certain: bool,
    /// The two tools before it, as far as there are any: called, or expected to be.
    pub(super) before: Vec<&'p str>,
}

impl Expected {
    /// A call that is written out in a program. `None` if no tool is called so.
    pub(super) fn of_program(call: &PreflightCall) -> Option<Expected> {
        let PreflightCall { target, keys, perhaps, values, is_open, is_certain, .. } = call;
        let is_known = !is_open && perhaps.is_empty() && keys.iter().all(|key| values.contains_key(key));
        let args = if is_known { to_raw_value(values).ok() } else { None };
        Some(Expected { tool: target.parse().ok()?, args, is_certain: *is_certain })
    }
}

impl Plan {
    /// `None` if nothing is known well enough to be called ahead.
    pub(super) fn new(expected: impl IntoIterator<Item = Expected>, order: Order) -> Option<Plan> {
        let mut known = HashSet::new();
        let mut plan = |Expected { tool, args, is_certain }: Expected| {
            let args = args.and_then(|raw| {
                let canonical = canonical(raw.get())?;
                // Whoever reads the same thing twice wants to know whether it has changed.
                let is_first = known.insert((tool.clone(), canonical.clone()));
                is_first.then_some(KnownArguments { raw, canonical })
            });
            Planned { tool, args, is_certain, is_made: false }
        };
        let calls: Vec<_> = expected.into_iter().map(&mut plan).collect();
        calls.iter().any(|call| call.args.is_some()).then(|| Plan {
            calls,
            order,
            next: 0,
            last: Vec::new(),
            made: HashSet::new(),
            writing: HashSet::new(),
            is_unsure: false,
        })
    }

    /// The run calls a tool. `args` are those that the server gets; absent if they are not known as they stand.
    pub(super) fn called(&mut self, tool: &ToolId, args: Option<&RawValue>) -> Progress {
        if self.last.len() == 2 {
            self.last.remove(0);
        }
        self.last.push(tool.clone());
        if !self.calls.iter().any(|call| call.tool == *tool) {
            return Progress::default();
        }
        let args = args.and_then(|args| canonical(args.get()));
        let is_same = |call: &Planned| {
            let known = call.args.as_ref().map(|known| &known.canonical);
            !call.is_made && call.tool == *tool && known.is_some() && known == args.as_ref()
        };
        let is_alike = |call: &Planned| !call.is_made && call.tool == *tool && call.args.is_none();
        let find = |from: usize, fits: &dyn Fn(&Planned) -> bool| {
            self.calls[from..].iter().position(fits).map(|place| from + place)
        };
        let made = find(self.next, &is_same).or_else(|| find(self.next, &is_alike)).or_else(|| find(0, &is_same));
        let mut passed = Vec::new();
        if let Some(place) = made {
            self.calls[place].is_made = true;
            if self.order == Order::Written && place >= self.next {
                passed.extend((self.next..place).filter(|place| !self.calls[*place].is_made));
                self.next = place + 1;
            }
        }
        if let Some(args) = args {
            self.made.insert((tool.clone(), args));
        }
        Progress { made, passed }
    }

    /// The run does something that may change what others read.
    pub(super) fn writes(&mut self, call: CallId) {
        self.writing.insert(call);
    }

    /// A call has ended. `is_known`: is it known whether it happened?
    pub(super) fn ended(&mut self, call: CallId, is_known: bool) {
        if self.writing.remove(&call) && !is_known {
            self.is_unsure = true;
        }
    }

    /// The calls that may be thought about now, the next one first.
    pub(super) fn candidates(&self, only_reads: impl Fn(&ToolId) -> bool) -> Vec<Candidate<'_>> {
        let mut candidates = Vec::new();
        if !self.writing.is_empty() || self.is_unsure {
            return candidates;
        }
        let mut before: Vec<&str> = self.last.iter().map(ToolId::as_str).collect();
        let ahead = self.calls.iter().enumerate().skip(self.next).filter(|(_, call)| !call.is_made);
        for (place, call) in ahead.take(LOOKED_AT) {
            if candidates.len() == CANDIDATES || !only_reads(&call.tool) {
                break;
            }
            let Planned { tool, args, is_certain, .. } = call;
            if let Some(KnownArguments { raw, canonical }) = args
                && !self.made.contains(&(tool.clone(), canonical.clone()))
            {
                let before = before[before.len().saturating_sub(2)..].to_vec();
                candidates.push(Candidate { place, tool, args: raw, is_certain: *is_certain, before });
            }
            before.push(tool.as_str());
        }
        candidates
    }
}

/// JSON text in the one form that equal values have: no spaces, names in order, numbers as they are written. `None` if it is
/// too large to be compared.
fn canonical(json: &str) -> Option<String> {
    let mut text = String::with_capacity(json.len());
    (json.len() <= MAX_ARGUMENT_BYTES).then_some(())?;
    write_canonical(json.trim(), &mut text, 0)?;
    Some(text)
}

fn write_canonical(json: &str, out: &mut String, depth: usize) -> Option<()> {
    (depth <= MAX_DEPTH).then_some(())?;
    match json.as_bytes().first()? {
        b'{' => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(json).ok()?;
            out.push('{');
            for (name, value) in &members {
                out.push_str(&serde_json::to_string(name).ok()?);
                out.push(':');
                write_canonical(value.get(), out, depth + 1)?;
                out.push(',');
            }
            out.push('}');
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
            out.push('[');
            for item in items {
                write_canonical(item.get(), out, depth + 1)?;
                out.push(',');
            }
            out.push(']');
        }
        b'"' => {
            let text: String = serde_json::from_str(json).ok()?;
            out.push_str(&serde_json::to_string(&text).ok()?);
        }
        // Two texts of a number may be one number to a reader and two to another.
        _ => out.push_str(json),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        to_raw_value(value).unwrap()
    }

    fn expected(tool: &str, args: Option<Value>) -> Expected {
        Expected { tool: tool.parse().unwrap(), args: args.as_ref().map(raw), is_certain: true }
    }

    fn plan(calls: &[(&str, Option<Value>)], order: Order) -> Plan {
        Plan::new(calls.iter().map(|(tool, args)| expected(tool, args.clone())), order).unwrap()
    }

    /// A tool whose name begins with `w` writes.
    fn reads(tool: &ToolId) -> bool {
        !tool.tool().starts_with('w')
    }

    fn places(plan: &Plan) -> Vec<usize> {
        plan.candidates(reads).iter().map(|candidate| candidate.place).collect()
    }

    fn call(plan: &mut Plan, tool: &str, args: &Value) -> Progress {
        plan.called(&tool.parse().unwrap(), Some(&raw(args)))
    }

    #[test]
    fn arguments_are_compared_as_values_and_numbers_as_texts() {
        #[rustfmt::skip]
        let table = [
            // one                       other                        same
            (r#"{"a":1,"b":[true]}"#,    r#"{ "b": [true], "a": 1 }"#, true),
            (r#"{"a":"\u0061"}"#,        r#"{"a":"a"}"#,               true),
            (r#"{"a":1}"#,               r#"{"a":1.0}"#,               false),
            (r#"{"a":1}"#,               r#"{"a":"1"}"#,               false),
            (r#"{"a":[1,2]}"#,           r#"{"a":[2,1]}"#,             false),
            (r#"{"a":[12]}"#,            r#"{"a":[1,2]}"#,             false),
            (r#"{"a":null}"#,            r#"{}"#,                      false),
            (r#"{"a":10000000000000000000001}"#, r#"{"a":1e22}"#,      false),
            (r#"{"a":{"b":{}}}"#,        r#"{"a":{"b":[]}}"#,          false),
        ];
        for (one, other, same) in table {
            let (one_form, other_form) = (canonical(one).unwrap(), canonical(other).unwrap());
            assert_eq!(one_form == other_form, same, "{one} {other}: {one_form} {other_form}");
        }
        assert_eq!(canonical(&format!("[{}]", "1,".repeat(MAX_ARGUMENT_BYTES))), None);
        assert_eq!(canonical(&format!("{}{}", "[".repeat(40), "]".repeat(40))), None);
    }

    #[test]
    fn arguments_are_known_if_all_of_them_are_written_out() {
        let call = |keys: &[&str], perhaps: &[&str], values: Value, is_open: bool| PreflightCall {
            target: "a:read".to_owned(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            perhaps: perhaps.iter().map(|key| (*key).to_owned()).collect(),
            values: values.as_object().unwrap().clone(),
            is_open,
            is_certain: true,
            line: 1,
            column: 1,
            frame: String::new(),
        };
        #[rustfmt::skip]
        let table = [
            (call(&[], &[], json!({}), false),                   Some("{}")),
            (call(&["p"], &[], json!({"p": "x"}), false),        Some(r#"{"p":"x"}"#)),
            (call(&["p", "q"], &[], json!({"p": "x"}), false),   None),
            (call(&["p"], &["q"], json!({"p": "x"}), false),     None),
            (call(&["p"], &[], json!({"p": "x"}), true),         None),
        ];
        for (call, args) in table {
            let known = Expected::of_program(&call).unwrap().args;
            assert_eq!(known.as_ref().map(|args| args.get()), args, "{call:?}");
        }
        let nothing_known = vec![expected("a:read", None)];
        assert!(Plan::new(nothing_known, Order::Written).is_none(), "there is nothing to plan");
    }

    #[test]
    fn the_next_two_known_reads_are_thought_about_up_to_the_first_write() {
        let read = |key: &str| ("a:read", Some(json!({"key": key})));
        let mut plan = plan(
            &[read("1"), read("2"), ("a:other", None), read("3"), read("4"), ("a:write", Some(json!({}))), read("5")],
            Order::Written,
        );
        assert_eq!(call(&mut plan, "a:read", &json!({"key": "1"})), Progress { made: Some(0), passed: vec![] });
        assert_eq!(places(&plan), [1, 3]);
        let before: Vec<_> = plan.candidates(reads).into_iter().map(|candidate| candidate.before).collect();
        assert_eq!(before, [vec!["a:read"], vec!["a:read", "a:other"]]);
        assert_eq!(call(&mut plan, "a:read", &json!({"key": "3"})).passed, [1, 2], "two calls were left out");
        assert_eq!(places(&plan), [4], "what is behind a write waits for it");
        call(&mut plan, "a:read", &json!({"key": "4"}));
        assert_eq!(places(&plan), [] as [usize; 0]);
        call(&mut plan, "a:write", &json!({}));
        assert_eq!(places(&plan), [6]);
        // A call that nobody expected moves nothing.
        assert_eq!(call(&mut plan, "b:else", &json!({})), Progress::default());
        assert_eq!(places(&plan), [6]);
    }

    #[test]
    fn what_is_read_twice_is_read_twice() {
        let read = |key: &str| ("a:read", Some(json!({"key": key})));
        let mut again = plan(&[read("1"), read("2"), read("2"), read("1")], Order::Written);
        call(&mut again, "a:read", &json!({"key": "1"}));
        assert_eq!(places(&again), [1], "neither the second `2` nor the second `1`");
        // Also if the first was no call of the plan.
        let mut dynamic = plan(&[("a:other", None), read("1")], Order::Written);
        call(&mut dynamic, "a:other", &json!({}));
        assert_eq!(places(&dynamic), [1]);
        dynamic.made.insert(("a:read".parse().unwrap(), canonical(r#"{"key":"1"}"#).unwrap()));
        assert_eq!(places(&dynamic), [] as [usize; 0]);
    }

    #[test]
    fn nothing_is_thought_about_while_something_may_change() {
        let read = |key: &str| ("a:read", Some(json!({"key": key})));
        let mut plan = plan(&[read("1"), read("2"), read("3")], Order::Written);
        call(&mut plan, "a:read", &json!({"key": "1"}));
        plan.writes(CallId(7));
        assert_eq!(places(&plan), [] as [usize; 0]);
        plan.ended(CallId(1), false);
        assert_eq!(places(&plan), [] as [usize; 0], "the end of another call");
        plan.ended(CallId(7), true);
        assert_eq!(places(&plan), [1, 2]);
        plan.writes(CallId(8));
        plan.ended(CallId(8), false);
        assert_eq!(places(&plan), [] as [usize; 0], "it may still happen");
    }

    #[test]
    fn tasks_of_a_workflow_are_made_in_any_order() {
        let read = |key: &str| ("a:read", Some(json!({"key": key})));
        let mut plan = plan(&[("a:read", None), read("1"), read("2"), read("3")], Order::Any);
        call(&mut plan, "a:read", &json!({"key": "0"}));
        assert_eq!(places(&plan), [1, 2]);
        assert_eq!(call(&mut plan, "a:read", &json!({"key": "2"})), Progress { made: Some(2), passed: vec![] });
        assert_eq!(places(&plan), [1, 3]);
    }
}
