//! Traces: one record of each execution, cleaned and kept.
//!
//! **Invariant:** what is stored has passed the sanitizer. [`store`] takes a [`SanitizedTrace`] or a [`SanitizedHead`],
//! and only this module can make either.

mod head;
pub mod otlp_json;
pub mod sanitize;
mod sanitized;
pub mod semconv;
pub mod store;

pub use self::head::TraceHead;
pub use self::sanitized::{SanitizedHead, SanitizedTrace};
