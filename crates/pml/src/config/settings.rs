//! Settings, checked: what the rest of pml reads.

use std::{
    collections::BTreeMap,
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use super::HubConfig;
use crate::{
    audit::Retention,
    broker::Policy,
    execution::{Budget, Ceilings},
    sandbox::{Mode, TimeZone},
    serve::{Network, TraceSettings},
    upstream::Settings,
};

/// Settings, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub sandbox: Sandbox,
    pub limits: Budget,
    pub policy: Policy,
    pub gateway: Gateway,
    pub search: Search,
    /// The `[audit]` table, checked.
    pub audit: Retention,
    /// Most servers on this machine that start at the same time.
    pub max_starting: usize,
    /// How remote servers are reached.
    pub network: Network,
    /// The `[trace]` and `[telemetry]` tables, checked, and where `[hub]` wants traces to be delivered.
    pub traces: TraceSettings,
    /// The `[hub]` table, checked.
    pub hub: HubConfig,
    /// What runs of clients with a profile may use at most, by the name of the profile. The rest of a profile is in the policy.
    pub ceilings: BTreeMap<String, Ceilings>,
    /// Do searches use what is learned from traces?
    pub learns: bool,
    /// Are calls made ahead of programs that are expected to make them?
    pub speculates: bool,
    /// Servers that are switched on, by name.
    pub servers: Vec<Settings>,
    /// Where lists of tools, logins, traces and the audit log are kept; `None` if there is no place for them.
    pub data_dir: Option<PathBuf>,
}

/// The `[sandbox]` table, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    pub mode: Mode,
    pub warm_workers: NonZeroUsize,
    pub allow_weak: bool,
    /// The zone that programs' `Date` is in.
    pub time_zone: TimeZone,
}

/// The `[gateway]` table, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    pub output_tokens: usize,
    pub concurrent_runs: usize,
    /// Most memory for large results, of all servers and runs together.
    pub results_bytes: usize,
    pub stop_grace: Duration,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    pub requests_per_minute: NonZeroU32,
}

/// The `[search]` table, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// Where a model is that reads tools beside the table, in place of the built-in encoder. The error is why that cannot be
    /// known, as with servers: it is the model's trouble alone.
    pub model_dir: Option<Result<PathBuf, String>>,
    /// Does the built-in encoder read tools and queries? Without it the table alone says what they mean.
    pub encoder: bool,
}

impl Default for Search {
    fn default() -> Search {
        Search { model_dir: None, encoder: true }
    }
}
