//! Integration tests: real workers in real jails, and the real binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod blame;
mod bridge;
mod broker;
mod bytes;
mod changed;
mod cli;
mod clients;
mod costly;
mod data_folder;
mod escape;
mod faults;
mod gateway;
mod handles;
mod hostile_worker;
mod language;
mod leaks;
mod limits;
mod lines;
mod locale;
mod oauth;
mod passthrough;
mod peer;
mod pool;
mod programs;
mod real_servers;
mod regressions;
mod relay;
mod repository;
mod resources;
mod room;
mod search;
mod serve;
mod serve_http;
mod servers_cli;
mod shown;
mod standstill;
mod support;
mod tokens;
mod trust;
mod upstream;
