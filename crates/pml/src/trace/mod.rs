//! The trace of each execution.

pub mod sanitize;
