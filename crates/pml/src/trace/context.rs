//! The call context: caller, session, execution, parent, intent and `traceparent`. Created once at entry and passed down.

use std::sync::Arc;

use pml_wire::{
    CallId, CapabilityId, ExecutionId,
    trace::{Client, Entry, span_id, trace_id},
};

use super::used::Used;

/// Longest recorded client name and intent, in bytes.
const MAX_NAME_BYTES: usize = 100;
const MAX_INTENT_BYTES: usize = 4096;
/// Deepest nesting of executions.
pub const MAX_DEPTH: u32 = 8;

/// The context of one execution.
#[derive(Clone, Debug)]
pub struct Context {
    /// The execution. A call that a client makes itself is an execution of its own.
    pub execution: ExecutionId,
    /// The execution that started this one.
    pub parent: Option<ExecutionId>,
    pub entry: Entry,
    /// The caller in the audit log: the client's name, the caller over HTTP, or `cli`.
    pub caller: Arc<str>,
    /// The client program, from its `clientInfo`.
    pub client: Option<Client>,
    /// The session of the client, if it has one.
    pub session: Option<Arc<str>>,
    /// The protocol version of the client.
    pub era: Option<&'static str>,
    /// The intent that the agent stated.
    pub intent: Option<String>,
    /// The number of executions around this one.
    pub depth: u32,
    /// The capability that runs, by its fully qualified name.
    pub capability: Option<Arc<str>>,
    /// The capabilities that run around this execution, and the one that it runs itself, outermost first.
    pub running: Arc<[CapabilityId]>,
    /// What the execution used. Shared with the executions below it, except for capabilities.
    pub used: Arc<Used>,
    /// The client's validated `traceparent`; for a nested execution, that of the call that started it.
    traceparent: Option<String>,
}

impl Context {
    /// A context with a new execution id.
    pub fn new(entry: Entry, caller: impl Into<Arc<str>>) -> Context {
        Context {
            execution: ExecutionId::mint(),
            parent: None,
            entry,
            caller: caller.into(),
            client: None,
            session: None,
            era: None,
            intent: None,
            depth: 0,
            capability: None,
            running: Arc::default(),
            used: Arc::default(),
            traceparent: None,
        }
    }

    /// The context of an execution that a call of this one starts, with a new id: for the same client, in the
    /// same session, with an intent of its own.
    #[must_use]
    pub fn child(&self, call: CallId, entry: Entry, intent: Option<String>) -> Context {
        let child = Context {
            execution: ExecutionId::mint(),
            parent: Some(self.execution),
            entry,
            capability: None,
            depth: self.depth.saturating_add(1),
            traceparent: Some(self.traceparent_of(call)),
            ..self.clone()
        };
        child.with_intent(intent)
    }

    /// With the capability that the execution runs.
    #[must_use]
    pub fn with_capability(self, id: CapabilityId, name: impl Into<Arc<str>>) -> Context {
        let running = self.running.iter().copied().chain([id]).collect();
        Context { capability: Some(name.into()), running, used: Arc::default(), ..self }
    }

    /// Does this capability run in this execution, or around it?
    pub fn runs(&self, capability: CapabilityId) -> bool {
        self.running.contains(&capability)
    }

    /// Sets the client.
    #[must_use]
    pub fn with_client(self, client: Option<Client>) -> Context {
        let client = client.map(|Client { name, version }| Client {
            name: cut(name, MAX_NAME_BYTES),
            version: version.map(|version| cut(version, MAX_NAME_BYTES)),
        });
        Context { client, ..self }
    }

    #[must_use]
    pub fn with_intent(self, intent: Option<String>) -> Context {
        let intent = intent.map(|intent| cut(intent, MAX_INTENT_BYTES)).filter(|intent| !intent.trim().is_empty());
        Context { intent, ..self }
    }

    /// Sets the client's `traceparent`. An invalid one is ignored, as the standard requires.
    #[must_use]
    pub fn with_traceparent(self, traceparent: Option<&str>) -> Context {
        Context { traceparent: traceparent.filter(|text| is_traceparent(text)).map(str::to_owned), ..self }
    }

    /// Does the execution run a program?
    pub fn is_program(&self) -> bool {
        self.entry != Entry::Passthrough
    }

    /// The client's `traceparent`.
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    /// The trace that calls of this execution belong to, as servers see it: the client's, or the execution itself.
    pub fn trace_id(&self) -> String {
        match &self.traceparent {
            Some(text) => text[3..35].to_owned(),
            None => trace_id(self.execution),
        }
    }

    /// The W3C header of one call, which is a span of the trace.
    pub fn traceparent_of(&self, call: CallId) -> String {
        let flags = self.traceparent.as_deref().map_or("01", |text| &text[53..55]);
        format!("00-{}-{}-{flags}", self.trace_id(), span_id(self.execution, call))
    }
}

/// Is the text `00-TRACE-SPAN-FLAGS`, with non-zero ids? Later versions start in the same way.
fn is_traceparent(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    let is_hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let is_id = |part: &str, digits: usize| is_hex(part, digits) && part.bytes().any(|byte| byte != b'0');
    match parts[..] {
        ["00", trace, span, flags] => is_id(trace, 32) && is_id(span, 16) && is_hex(flags, 2),
        [version, trace, span, flags, ..] if version != "00" => {
            is_hex(version, 2) && version != "ff" && is_id(trace, 32) && is_id(span, 16) && is_hex(flags, 2)
        }
        _ => false,
    }
}

fn cut(mut text: String, bytes: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_trace_is_continued_and_nonsense_is_not() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let with = |text: &str| Context::new(Entry::ExecuteCode, "me").with_traceparent(Some(text));
        let context = with(&format!("00-{trace}-{span}-00"));
        assert_eq!(context.trace_id(), trace);
        let call = context.traceparent_of(CallId(7));
        assert!(
            is_traceparent(&call) && call.starts_with(&format!("00-{trace}-")) && call.ends_with("00000007-00"),
            "{call}"
        );
        let zero = "0".repeat(32);
        for text in [
            String::new(),
            "00".to_owned(),
            format!("00-{trace}-{span}"),
            format!("00-{zero}-{span}-01"),
            format!("00-{trace}-{}-01", &zero[..16]),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("ff-{trace}-{span}-01"),
            format!("00-{trace}-{span}-01-x"),
            format!("00-{trace}é-{span}-01"),
        ] {
            let context = with(&text);
            assert_eq!(context.traceparent(), None, "{text}");
            assert_eq!(context.trace_id(), context.execution.to_string().replace('-', ""));
            assert!(is_traceparent(&context.traceparent_of(CallId(1))));
        }
        assert!(with(&format!("01-{trace}-{span}-01-more")).traceparent().is_some());
    }

    #[test]
    fn a_child_knows_its_parent_and_what_runs_around_it() {
        let outer = CapabilityId::mint();
        let root = Context::new(Entry::ExecuteCode, "me").with_intent(Some("count".to_owned()));
        let child = root.child(CallId(3), Entry::Capability, None).with_capability(outer, "a.b.c.d.1234");
        assert_eq!((child.parent, child.depth, child.intent.as_deref()), (Some(root.execution), 1, None));
        assert_eq!((child.caller.as_ref(), child.trace_id()), ("me", root.trace_id()));
        assert!(child.execution != root.execution && child.runs(outer) && !root.runs(outer));
        let grandchild = child.child(CallId(1), Entry::Capability, Some("sum".to_owned()));
        assert_eq!((grandchild.depth, grandchild.capability.as_deref()), (2, None));
        assert!(grandchild.runs(outer), "what runs around it counts");
        grandchild.used.tool("fs:read");
        assert_eq!(child.used.names(), grandchild.used.names(), "what a part of an execution uses, the execution uses");
        assert!(root.used.names().is_empty(), "a capability has its own tools");
        assert_eq!((grandchild.intent.as_deref(), grandchild.trace_id()), (Some("sum"), root.trace_id()));
    }

    #[test]
    fn what_a_client_says_about_itself_is_bounded() {
        let client = Client { name: "é".repeat(5000), version: Some("1".repeat(5000)) };
        let context = Context::new(Entry::Run, "cli").with_client(Some(client)).with_intent(Some("x".repeat(100_000)));
        let client = context.client.unwrap();
        assert!(client.name.len() <= 100 && client.version.unwrap().len() <= 100);
        assert_eq!(context.intent.unwrap().len(), 4096);
        assert_eq!(Context::new(Entry::Run, "cli").with_intent(Some("  ".to_owned())).intent, None);
    }
}
