//! Types that say that a text has passed the sanitizer.
//!
//! **Invariant:** a value of these types holds nothing that the sanitizer would remove. Their constructors are visible in
//! `crate::trace` only: the sanitizer makes them, and the store makes them of what it has stored.

use pml_wire::trace::Trace;

use super::{TraceHead, keeper::text_bytes};

/// A trace without secrets.
#[derive(Clone, Debug)]
pub struct SanitizedTrace(Trace);

/// What is known of an execution that has only begun, without secrets.
#[derive(Clone, Debug)]
pub struct SanitizedHead(TraceHead);

impl SanitizedTrace {
    /// Only for a trace that has passed the sanitizer.
    pub(in crate::trace) fn new(trace: Trace) -> SanitizedTrace {
        SanitizedTrace(trace)
    }

    /// Of a trace that a hub has given: it was cleaned when the hub stored it.
    pub(crate) fn of_hub(trace: Trace) -> SanitizedTrace {
        SanitizedTrace(trace)
    }

    /// How much text it has, roughly.
    pub fn size_hint(&self) -> usize {
        text_bytes(&self.0)
    }

    pub fn trace(&self) -> &Trace {
        &self.0
    }

    pub fn into_inner(self) -> Trace {
        self.0
    }
}

impl SanitizedHead {
    /// Only for a head whose texts have passed the sanitizer.
    pub(in crate::trace) fn new(head: TraceHead) -> SanitizedHead {
        SanitizedHead(head)
    }

    /// Of a head that has not passed the sanitizer: only what pml itself has written into it.
    pub(in crate::trace) fn without_texts(head: &TraceHead) -> SanitizedHead {
        SanitizedHead(TraceHead {
            trace_id: head.trace_id,
            parent_trace_id: head.parent_trace_id,
            capability_id: None,
            entry: head.entry,
            timestamp: head.timestamp,
            intent: None,
            caller: String::new(),
            client: None,
            code_hash: head.code_hash.clone(),
        })
    }

    pub fn get(&self) -> &TraceHead {
        &self.0
    }

    pub(in crate::trace) fn into_inner(self) -> TraceHead {
        self.0
    }
}
