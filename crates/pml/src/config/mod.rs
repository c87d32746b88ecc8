//! `pml.toml`: as written ([`File`]) and as checked ([`Config`]).
//!
//! This is the only module that reads the environment. [`sources`] says which files count; without one, everything has
//! its default.

mod check;
mod clients;
pub(crate) mod command_line;
mod difference;
mod environment;
pub(crate) mod expand;
mod file;
mod hub;
pub(crate) mod jsonc;
mod merge;
mod network;
mod places;
mod profiles;
mod servers;
mod settings;
mod sources;
mod telemetry;
pub(crate) mod toml_text;
mod traces;
mod trust;
mod variables;

pub use self::{
    check::check_text,
    clients::CLIENTS_OWN_KEYS,
    difference::{Difference, differences},
    file::{
        AuditFile, File, GatewayFile, LearningFile, LimitsFile, ModeFile, OnChangeFile, PolicyFile, SandboxFile,
        SearchFile, ServersEnvFile,
    },
    hub::{HubConfig, HubFile, KEY_VARIABLE, hub_url},
    places::{Places, System},
    profiles::{ProfileFile, ProfileLimitsFile},
    servers::{Kind, OAuthFile, ServerFile, ToolFile},
    settings::{Config, Gateway, Sandbox, Search},
    sources::{
        Distrust, Loaded, NAME, Project, Sources, Text, data_folder, is_file_named, own_file, parse_project,
        project_place, read_project, user_file, written_file,
    },
    telemetry::TelemetryFile,
    traces::{TraceFile, database},
    trust::{Record, Store, place},
    variables::{has_display, hub_key, log_filter, missed_variables, named_variable, token},
};
use self::{
    check::{MIB, within},
    variables::{config_dir, data_dir, variable, variable_names},
};
pub(crate) use self::{
    servers::{check_name, is_secret_name},
    variables::{allows_color, backup_dir, expanded, moves_cursor, token_file},
};
