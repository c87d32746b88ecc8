//! Traces for observability systems: OpenTelemetry's protocol in its JSON form.
//!
//! [`spans`] makes spans of a trace, [`metrics`] adds up how long things took, and [`exporter`] sends both to a collector.
//! [`semconv`] has every name that they use.

pub mod exporter;
mod metrics;
pub mod semconv;
pub mod spans;
mod value;

pub use self::spans::{Payloads, request};
