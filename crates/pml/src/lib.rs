//! The host: everything of pml that is not inside the jail.
//!
//! Modules in reading order; each may use only those below it (the test `modules_use_only_what_is_below_them`
//! checks):
//!
//! * [`cli`]: commands, their output and exit codes.
//! * [`clients`]: files of other programs, and how to change them.
//! * [`config`]: `pml.toml`, as written and as checked.
//! * [`serve`]: builds everything, and owns its end.
//! * [`frontend`]: what an agent's client sees.
//! * [`workflow`]: tasks that depend on each other.
//! * [`execution`]: one run, from request to outcome.
//! * [`sandbox`]: the pool of jailed processes.
//! * [`broker`]: the only door from programs to servers.
//! * [`upstream`]: MCP servers, one actor each.
//! * [`learning`]: which tools belong to which request, from stored traces.
//! * [`catalog`]: what tools there are, and how they look in TypeScript.
//! * [`hub`]: what many gateways share: traces, keys, capabilities.
//! * [`web`]: serving HTTP.
//! * [`trace`]: one record of each execution, free of secrets, kept and found again.
//! * [`events`]: what happens, told to whoever listens.
//! * [`audit`]: one line for every call.
//! * [`room`]: memory for large texts of servers, shared by everything that holds one.
//! * [`work`]: work whose cost somebody else controls, done where it holds up nobody.
//! * [`files`]: who may have written what pml reads, and who may read what pml writes.
//! * [`error`]: an error as it crosses a boundary.
//! * [`protocol`]: the words of MCP, for both sides.
//! * [`shown`]: text of others, made fit to be shown.
//! * [`rate`]: limits of so many a minute.
//! * [`digest`]: hashes of texts, by SHA-256.
//! * [`clock`]: the time of day.

pub mod audit;
pub mod broker;
pub mod capability;
pub mod catalog;
pub mod cli;
pub mod clients;
pub mod clock;
pub mod config;
pub mod digest;
pub mod error;
pub mod events;
pub mod execution;
pub mod files;
pub mod frontend;
pub mod hub;
pub mod learning;
pub mod protocol;
pub mod rate;
pub mod room;
pub mod sandbox;
pub mod serve;
pub mod shown;
pub mod trace;
pub mod upstream;
pub mod web;
pub mod work;
pub mod workflow;
