//! Integration tests: real workers in real jails, and the real binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bridge;
mod cli;
mod escape;
mod hostile_worker;
mod language;
mod limits;
mod pool;
mod regressions;
mod repository;
mod support;
