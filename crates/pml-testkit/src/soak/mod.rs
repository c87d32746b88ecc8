//! The program `soak`: the real pml between many clients and servers that are killed and stopped.
//!
//! ```text
//! soak [--minutes N | --seconds N] [--seed N] [--json] [--check]
//! ```
//!
//! Clients over stdio and HTTP, of both eras, run programs that call three servers: over stdio, streamable HTTP and
//! HTTP+SSE. Every few seconds one of the servers is killed or stopped for a moment. Each answer is determined by the
//! arguments, so that a wrong one shows. At the end a pml is killed in the middle of its calls, and the audit log is joined
//! with what the servers have seen.
//!
//! Everything is real: the program `pml` beside this one, processes, signals, sockets. [`run`] is the order of events,
//! [`clients`] what clients do, [`servers`] the servers and what is done to them, [`process`] what is known of processes,
//! [`account`] joins the records.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "measures real time and starts programs")]

mod account;
mod clients;
mod pml;
mod process;
mod run;
mod servers;

pub use run::main;
