//! Commands, their output and exit codes.
//!
//! Data goes to stdout, everything else to stderr. Exit code 0 is success, 1 means that the
//! program (or what was asked about) failed, 2 a mistake in the command line or configuration.

mod audit;
mod call;
mod capability;
mod changed;
mod changes;
mod clients;
mod command_line;
mod demo;
mod demo_server;
mod destination;
mod doctor;
mod entry;
mod eval;
mod exit;
mod graph;
mod hub;
mod import;
mod install;
mod learn;
mod licenses;
mod log;
mod login;
mod manual;
mod own_files;
mod print;
mod run;
mod sanitize;
mod search;
mod serve;
mod server;
mod services;
mod signals;
mod starting;
mod suggest;
mod suspicions;
mod token;
mod tools;
mod trace;
mod trust;
mod workflow;
mod workflow_graph;

pub use self::{
    demo_server::{DEMO_SERVER, main as demo_server},
    entry::main,
};
use self::{
    exit::{USAGE, fail},
    services::{CLI, provide_own, with_pool, with_pool_alone, with_servers, with_services},
    signals::{cancel_on_signal, survive_file_limit},
};
