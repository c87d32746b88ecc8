//! `pml.toml`: as written ([`File`]) and as checked ([`Config`]).
//!
//! This is the only module that reads the environment. [`sources`] says which files count; without one, everything has
//! its default.

mod clients;
pub(crate) mod command_line;
mod difference;
mod environment;
pub(crate) mod expand;
mod hub;
pub(crate) mod jsonc;
mod merge;
mod network;
mod places;
mod profiles;
mod servers;
mod sources;
mod telemetry;
pub(crate) mod toml_text;
mod traces;
mod trust;

use std::{
    collections::BTreeMap,
    num::{NonZeroU32, NonZeroUsize},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;

pub use self::clients::CLIENTS_OWN_KEYS;
pub use self::difference::{Difference, differences};
pub use self::hub::{HubConfig, HubFile, KEY_VARIABLE, hub_url};
pub use self::places::{Places, System};
pub use self::profiles::{ProfileFile, ProfileLimitsFile};
pub use self::servers::{Kind, OAuthFile, ServerFile, ToolFile};
pub(crate) use self::servers::{check_name, is_secret_name};
pub use self::sources::{
    Distrust, Loaded, NAME, Project, Sources, Text, data_folder, is_file_named, own_file, parse_project, project_place,
    read_project, user_file, written_file,
};
pub use self::telemetry::TelemetryFile;
pub use self::traces::{TraceFile, database};
pub use self::trust::{Record, Store, place};
use crate::{
    audit::Retention,
    broker::{OnChange, Policy},
    catalog::nearest,
    execution::{Budget, Ceilings},
    sandbox::{Mode, TimeZone},
    serve::{Network, TraceSettings},
    upstream::Settings,
};

const MIB: usize = 1024 * 1024;

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

/// `pml.toml`, as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    pub sandbox: SandboxFile,
    pub limits: LimitsFile,
    pub policy: PolicyFile,
    pub gateway: GatewayFile,
    pub search: SearchFile,
    pub audit: AuditFile,
    pub servers_env: ServersEnvFile,
    pub trace: TraceFile,
    pub telemetry: TelemetryFile,
    pub hub: HubFile,
    pub profiles: BTreeMap<String, ProfileFile>,
    pub learning: LearningFile,
    pub servers: BTreeMap<String, ServerFile>,
}

/// The `[servers_env]` table, as written: what servers on this machine get of pml's environment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServersEnvFile {
    /// Names of variables that every server gets if they are set, besides the usual ones; `*` stands for anything.
    pub pass: Vec<String>,
}

/// The `[policy]` table, as written: patterns for `server:tool`, in which `*` stands for anything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyFile {
    /// If there are any, nothing else may be called.
    pub allow: Vec<String>,
    /// Of the user's own file, where `allow` is a project's: what is allowed must be in both.
    #[serde(skip)]
    pub within: Vec<String>,
    /// What may not be called, also if it is allowed.
    pub deny: Vec<String>,
    /// What is done about a tool that has changed since it was first seen: `"tell"` or `"block"`. Default: `"tell"`.
    pub changed: Option<OnChangeFile>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnChangeFile {
    Tell,
    Block,
}

/// The `[gateway]` table, as written: what `pml serve` does.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayFile {
    /// Most tokens of one answer, roughly. Default: 10 000. At most 200 000.
    pub output_tokens: Option<u64>,
    /// Programs that run at the same time; more wait. Default: 32. At most 1000.
    pub concurrent_runs: Option<u64>,
    /// Memory for large results that are on their way or kept, of all servers and runs together. Default: 512. At least 64,
    /// at most 65 536.
    pub results_mb: Option<u64>,
    /// What programs may take to finish when pml is told to end. Default: 5000. At most 600 000.
    pub stop_grace_ms: Option<u64>,
    /// Names under which pml is reached over HTTP, besides those of this machine.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may use pml, such as `https://example.org`. Default: none.
    pub allowed_origins: Vec<String>,
    /// HTTP requests that one address may make. Default: 30 000. At most 10 000 000.
    pub requests_per_minute: Option<u64>,
    /// Servers on this machine that start at the same time; more wait. Default: twice the number of cores, at least 4. At
    /// most 1000.
    pub max_starting: Option<u64>,
}

/// The `[search]` table, as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SearchFile {
    /// A directory with all-MiniLM-L6-v2, relative to the configuration file. Default: none, the built-in encoder is used.
    pub model_dir: Option<String>,
    /// Default: true. `false` finds tools by their words and the table alone, in microseconds and less well.
    pub encoder: Option<bool>,
}

impl SearchFile {
    fn check(self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Search, String> {
        let encoder = self.encoder.unwrap_or(true);
        let Some(text) = self.model_dir else { return Ok(Search { model_dir: None, encoder }) };
        if text.is_empty() {
            return Err("`search.model_dir` is empty; leave it out to use the built-in encoder".to_owned());
        }
        let unset = |name: String| format!("`search.model_dir` needs the variable `{name}`, which is not set");
        Ok(Search { model_dir: Some(expand::expand(&text, lookup).map(PathBuf::from).map_err(unset)), encoder })
    }
}

/// The `[learning]` table, as written: whether searches use what earlier executions used.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LearningFile {
    /// Default: true.
    pub enabled: Option<bool>,
}

/// The `[audit]` table, as written: how long the lines of the audit log are kept.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditFile {
    /// Size of all files together; the oldest go first. Default: 512. At most 1 048 576.
    pub max_mb: Option<u64>,
    /// Age at which lines go. Default: 90. At most 36 500.
    pub keep_days: Option<u64>,
}

impl AuditFile {
    fn check(&self) -> Result<Retention, String> {
        Ok(Retention {
            max_bytes: within("audit.max_mb", self.max_mb, 512, 1_048_576)? * MIB as u64,
            keep: Duration::from_secs(within("audit.keep_days", self.keep_days, 90, 36_500)? * 24 * 60 * 60),
        })
    }
}

/// The `[sandbox]` table, as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxFile {
    /// `"worker"` or `"subprocess"`. Default: `"worker"`.
    pub mode: Option<ModeFile>,
    /// Default: twice the number of cores, at least 4. At most 1000.
    pub warm_workers: Option<usize>,
    /// Default: false.
    pub allow_weak: Option<bool>,
    /// A name of the IANA database. Default: `"UTC"`.
    pub time_zone: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModeFile {
    Worker,
    Subprocess,
}

/// The `[limits]` table, as written. Each is the limit of one run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsFile {
    /// Time that a program computes; waiting for tools and servers is not counted. Default: 30 000. At most 3 600 000.
    pub timeout_ms: Option<u64>,
    /// Most that a request may ask for as its `timeout_ms`. Default: 300 000, or `timeout_ms` if that is more. At most
    /// 3 600 000.
    pub max_timeout_ms: Option<u64>,
    /// Time of a run in all. Default: 600 000, or `timeout_ms` if that is more. At most 86 400 000.
    pub total_ms: Option<u64>,
    /// Memory of the engine. Default: 64. At most 1024.
    pub memory_mb: Option<u64>,
    /// Size of the program. Default: 262 144. At most 16 MiB.
    pub code_bytes: Option<u64>,
    /// Size of the result, and of the arguments of one call, as JSON. Default: 8 MiB. At most 1 GiB.
    pub result_bytes: Option<u64>,
    /// All console output together. Default: 1 MiB. At most 64 MiB.
    pub log_bytes: Option<u64>,
    /// Tool calls. Default: 1000. At most 1 000 000.
    pub calls: Option<u64>,
    /// Tool calls at the same time. Default: 32. At most 1000.
    pub calls_in_flight: Option<u64>,
    /// Tool calls per minute. Default: no limit.
    pub calls_per_minute: Option<u32>,
    /// Branch decisions that are recorded; 0 leaves the probes out. Default: 200. At most 10 000.
    pub decisions: Option<u64>,
}

impl Config {
    #[cfg(test)]
    fn parse(text: &str) -> Result<Config, String> {
        Config::check(File::parse(text)?, &|name| (name == "PATH").then(|| "/bin".to_owned()))
    }
}

impl File {
    pub(crate) fn parse(text: &str) -> Result<File, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        toml::from_str(text).map_err(|err| {
            // Not the line itself, as the parser would show it: there may be a token in it.
            let before = err.span().map_or("", |span| &text[..text.floor_char_boundary(span.start)]);
            let line = before.lines().count().max(1) + usize::from(before.ends_with('\n'));
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            let mut reason = without_value(err.message());
            if reason.starts_with("invalid ")
                && let Some(key) = err.span().and_then(|span| toml_text::key_at(text, span.start))
            {
                reason = format!("`{key}`: {reason}");
            }
            for number in ["u64", "u32", "usize"] {
                reason = reason.replace(&format!("expected {number}"), "expected a whole number");
            }
            let message = format!("line {line}, column {column}: {reason}");
            match suggestion(&message) {
                Some(near) => format!("{message}\ndid you mean `{near}`?"),
                None => message,
            }
        })
    }
}

/// A message of the parser without the text that it found.
fn without_value(message: &str) -> String {
    match (message.find("string \""), message.rfind("\", expected")) {
        (Some(start), Some(end)) if start < end => format!("{}string{}", &message[..start], &message[end + 1..]),
        _ => message.to_owned(),
    }
}

/// The known key nearest to an unknown one, out of the parser's message about it.
fn suggestion(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("unknown field `")?;
    let (unknown, rest) = rest.split_once('`')?;
    let known: Vec<_> = rest.split('`').skip(1).step_by(2).collect();
    nearest(unknown, known).first().map(|near| (*near).to_owned())
}

/// Checks the text of a whole configuration file.
pub fn check_text(text: &str) -> Result<(), String> {
    Config::check(File::parse(text)?, &variable).map(drop)
}

impl Config {
    fn check(file: File, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Config, String> {
        let SandboxFile { mode, warm_workers, allow_weak, time_zone } = file.sandbox;
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let warm_workers = warm_workers.unwrap_or((2 * cores).max(4));
        let limits = file.limits;
        let within = |key: &str, value, default, most| within(&format!("limits.{key}"), value, default, most);
        environment::check("servers_env.pass", &file.servers_env.pass)?;
        let passed = environment::Passed::new(&file.servers_env.pass, lookup);
        let gateway = file.gateway;
        let of_gateway =
            |key: &str, value, default, most| self::within(&format!("gateway.{key}"), value, default, most);
        let starts = (2 * cores as u64).max(4);
        let max_starting = of_gateway("max_starting", gateway.max_starting, starts, 1000)? as usize;
        let gateway = Gateway {
            output_tokens: of_gateway("output_tokens", gateway.output_tokens, 10_000, 200_000)? as usize,
            concurrent_runs: of_gateway("concurrent_runs", gateway.concurrent_runs, 32, 1000)? as usize,
            results_bytes: match of_gateway("results_mb", gateway.results_mb, 512, 65_536)? {
                few @ ..64 => return Err(format!("`gateway.results_mb` is {few}, but must be between 64 and 65536")),
                megabytes => megabytes as usize * MIB,
            },
            stop_grace: Duration::from_millis(of_gateway("stop_grace_ms", gateway.stop_grace_ms, 5000, 600_000)?),
            allowed_hosts: gateway.allowed_hosts,
            allowed_origins: gateway.allowed_origins,
            requests_per_minute: of_gateway("requests_per_minute", gateway.requests_per_minute, 30_000, 10_000_000)
                .map(|count| NonZeroU32::new(count as u32).unwrap_or(NonZeroU32::MAX))?,
        };
        let mut servers = Vec::new();
        let mut deny = file.policy.deny.clone();
        for (name, server) in file.servers {
            let disabled: Vec<_> = server.disabled_tools.iter().map(|tool| format!("{name}:{tool}")).collect();
            if let Some(checked) = server.check(&name, &passed, lookup)? {
                deny.extend(disabled);
                servers.push(checked);
            }
        }
        for pattern in file.policy.allow.iter().chain(&file.policy.deny) {
            if !pattern.contains(':') && pattern != "*" {
                return Err(format!(
                    "`{pattern}` in [policy] matches nothing; write `server:tool`, such as `{pattern}:*`"
                ));
            }
        }
        let timeout_ms = within("timeout_ms", limits.timeout_ms, 30_000, 3_600_000)?;
        let max_timeout_ms = within("max_timeout_ms", limits.max_timeout_ms, timeout_ms.max(300_000), 3_600_000)?;
        if max_timeout_ms < timeout_ms {
            return Err(format!(
                "`limits.max_timeout_ms` is {max_timeout_ms}, less than `limits.timeout_ms`, {timeout_ms}"
            ));
        }
        let hub = file.hub.check(lookup)?;
        let profiles = profiles::check(file.profiles)?;
        Ok(Config {
            ceilings: profiles.ceilings,
            policy: Policy {
                profiles: profiles.rules,
                narrower: Vec::new(),
                only: None,
                allow: file.policy.allow,
                within: file.policy.within,
                deny,
                changed: match file.policy.changed {
                    Some(OnChangeFile::Block) => OnChange::Block,
                    Some(OnChangeFile::Tell) | None => OnChange::Tell,
                },
            },
            gateway,
            max_starting,
            network: network::read(lookup),
            search: file.search.check(lookup)?,
            audit: file.audit.check()?,
            traces: file.trace.check(file.telemetry.check(lookup)?, hub.sync.clone(), lookup)?,
            hub,
            learns: file.learning.enabled.unwrap_or(true),
            servers,
            data_dir: None,
            sandbox: Sandbox {
                mode: match mode {
                    Some(ModeFile::Subprocess) => Mode::Subprocess,
                    Some(ModeFile::Worker) | None => Mode::Worker,
                },
                warm_workers: NonZeroUsize::new(warm_workers)
                    .filter(|count| count.get() <= 1000)
                    .ok_or(format!("`sandbox.warm_workers` is {warm_workers}, but must be between 1 and 1000"))?,
                allow_weak: allow_weak.unwrap_or(false),
                time_zone: match time_zone {
                    None => TimeZone::default(),
                    Some(name) => TimeZone::parse(&name).ok_or(format!(
                        "`sandbox.time_zone` is `{name}`, but must be a zone of the IANA database, such as `Europe/Berlin`"
                    ))?,
                },
            },
            limits: Budget {
                timeout: Duration::from_millis(timeout_ms),
                max_timeout: Duration::from_millis(max_timeout_ms),
                total: Duration::from_millis(within("total_ms", limits.total_ms, timeout_ms.max(600_000), 86_400_000)?),
                memory_bytes: within("memory_mb", limits.memory_mb, 64, 1024)? as usize * MIB,
                code_bytes: within("code_bytes", limits.code_bytes, 256 * 1024, 16 * MIB as u64)? as usize,
                result_bytes: within("result_bytes", limits.result_bytes, 8 * MIB as u64, 1024 * MIB as u64)? as usize,
                log_bytes: within("log_bytes", limits.log_bytes, MIB as u64, 64 * MIB as u64)? as usize,
                calls: within("calls", limits.calls, 1000, 1_000_000)? as u32,
                calls_in_flight: within("calls_in_flight", limits.calls_in_flight, 32, 1000)? as usize,
                calls_per_minute: match limits.calls_per_minute {
                    Some(0) => return Err("`limits.calls_per_minute` is 0, but must be at least 1".to_owned()),
                    count => count.and_then(NonZeroU32::new),
                },
                decisions: match limits.decisions {
                    Some(0) => 0,
                    decisions => within("decisions", decisions, 200, 10_000)? as usize,
                },
            },
        })
    }
}

/// A setting, or its default; at least 1 and at most `most`.
fn within(key: &str, value: Option<u64>, default: u64, most: u64) -> Result<u64, String> {
    match value.unwrap_or(default) {
        value if (1..=most).contains(&value) => Ok(value),
        value => Err(format!("`{key}` is {value}, but must be between 1 and {most}")),
    }
}

fn config_dir() -> Option<PathBuf> {
    user_dir("XDG_CONFIG_HOME", ".config")
}

fn data_dir() -> Option<PathBuf> {
    match variable("PML_DATA_DIR").filter(|path| !path.is_empty()) {
        Some(path) => Some(PathBuf::from(path)),
        None => user_dir("XDG_DATA_HOME", ".local/share"),
    }
}

fn user_dir(name: &str, otherwise: &str) -> Option<PathBuf> {
    let folder = variable(name).filter(|path| path.starts_with('/')).map(PathBuf::from);
    let folder = folder.or_else(|| variable("HOME").map(|home| Path::new(&home).join(otherwise)));
    folder.map(|folder| folder.join("pml"))
}

/// What the environment says.
#[expect(clippy::disallowed_methods, reason = "this is config")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The names of all variables that can be passed on.
fn variable_names() -> Vec<String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()
}

/// The names of variables that are set here and that a server with the variables `given` did not get, those first that
/// servers need most often.
pub fn missed_variables(given: &dyn Fn(&str) -> bool) -> Vec<String> {
    environment::missed(&variable_names(), given)
}

/// A text with the values of variables put in. The error is the name of one that is not set.
pub(crate) fn expanded(text: &str) -> Result<String, String> {
    expand::expand(text, &variable)
}

/// The value of a variable that the user has named.
pub fn named_variable(name: &str) -> Option<String> {
    variable(name).filter(|value| !value.is_empty())
}

/// Is there a screen on which a browser could open?
pub fn has_display() -> bool {
    cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| named_variable(name).is_some())
}

/// The token for HTTP, if the environment has one.
pub fn token() -> Option<String> {
    variable("PML_TOKEN").filter(|token| !token.is_empty())
}

/// The key of a hub, if the environment has one.
pub fn hub_key() -> Option<String> {
    variable(KEY_VARIABLE).filter(|key| !key.is_empty())
}

/// Where the token for HTTP is kept, if there is a place for it.
pub(crate) fn token_file(explicit: Option<&Path>) -> Option<PathBuf> {
    data_folder(explicit).map(|folder| folder.join("token"))
}

/// Where backups are kept, if there is a place for them.
pub(crate) fn backup_dir(explicit: Option<&Path>) -> Option<PathBuf> {
    data_folder(explicit).map(|folder| folder.join("backups"))
}

/// May text be coloured? Not if `$NO_COLOR` says anything, or the terminal is a dumb one.
pub(crate) fn allows_color() -> bool {
    variable("NO_COLOR").is_none_or(|text| text.is_empty()) && variable("TERM").is_none_or(|text| text != "dumb")
}

/// Can the terminal write over a line?
pub(crate) fn moves_cursor() -> bool {
    variable("TERM").is_some_and(|text| text != "dumb")
}

/// What `$PML_LOG` or `$RUST_LOG` says, for the log.
pub fn log_filter() -> Option<String> {
    variable("PML_LOG").or_else(|| variable("RUST_LOG"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::upstream::Target;

    #[test]
    fn an_empty_file_gives_the_defaults() {
        let config = Config::parse("").unwrap();
        assert_eq!(config.limits.timeout, Duration::from_secs(30));
        assert_eq!(config.limits.max_timeout, Duration::from_secs(300));
        assert_eq!(config.limits.total, Duration::from_secs(600));
        assert_eq!(config.limits.memory_bytes, 64 * MIB);
        assert_eq!(config.limits.calls, 1000);
        assert_eq!(config.sandbox.mode, Mode::Worker);
        assert!(config.sandbox.warm_workers.get() >= 4);
        assert!(!config.sandbox.allow_weak);
    }

    #[test]
    fn what_is_written_counts() {
        let config =
            Config::parse("[sandbox]\nmode = \"subprocess\"\nallow_weak = true\n[limits]\nmemory_mb = 16").unwrap();
        assert_eq!(config.sandbox.mode, Mode::Subprocess);
        assert!(config.sandbox.allow_weak);
        assert_eq!(config.limits.memory_bytes, 16 * MIB);
    }

    #[test]
    fn servers_are_read_and_a_missing_variable_is_their_own_trouble() {
        let config = Config::parse(
            r#"
            [servers.local]
            command = "server"
            args = ["--root", "${ROOT:-/tmp}"]
            env = { TOKEN = "${PATH}" }
            isolation = "per_call"
            [servers.local.tools.slow]
            call_timeout_ms = 90000
            [servers.remote]
            url = "https://example.org/mcp"
            headers = { Authorization = "Bearer ${TOKEN}" }
            disabled_tools = ["drop_table"]
            [servers.off]
            command = "x"
            enabled = false
            [servers.__proto__]
            command = "x"
            [policy]
            deny = ["*:delete_*"]
            "#,
        )
        .unwrap();
        let names: Vec<_> = config.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["__proto__", "local", "remote"]);
        let Ok(Target::Stdio { args, env, .. }) = &config.servers[1].target else { panic!("no stdio") };
        assert_eq!(args[1].reveal(), "/tmp");
        assert_eq!((env["TOKEN"].reveal(), env["PATH"].reveal()), ("/bin", "/bin"));
        assert_eq!(config.servers[1].tools["slow"].call_timeout, Some(Duration::from_secs(90)));
        assert!(config.servers[2].target.as_ref().unwrap_err().contains("`TOKEN` is not set"));
        assert_eq!(config.policy.deny, ["*:delete_*", "remote:drop_table"]);
    }

    #[test]
    fn a_model_is_looked_for_beside_the_file_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pml.toml");
        let check = |written: &str| {
            fs::write(&path, format!("[search]\nmodel_dir = \"{written}\"")).unwrap();
            let sources = Sources { file: Some(path.clone()), ..Sources::default() };
            Config::load(&sources).unwrap().config.search.model_dir.unwrap()
        };
        assert_eq!(check("models/minilm"), Ok(folder.path().join("models/minilm")));
        assert_eq!(check("/models"), Ok(PathBuf::from("/models")));
        assert_eq!(check("${PML_NO_SUCH_VARIABLE:-x}/y"), Ok(folder.path().join("x/y")));
        assert!(check("${PML_NO_SUCH_VARIABLE}").unwrap_err().contains("`PML_NO_SUCH_VARIABLE`, which is not set"));
        assert_eq!(Config::parse("[search]").unwrap().search, Search::default());
    }

    #[test]
    fn what_is_secret_is_known() {
        let config = Config::parse(
            r#"
            [servers.a]
            command = "x"
            args = ["--root", "/some/folder", "--api-key=k-12345", "--token", "t-12345", "${PATH}", "postgres://me:p-12345@host"]
            env = { API_SECRET = "s-12345", LEVEL = "debug-level" }
            [servers.b]
            url = "https://example.org"
            headers = { Authorization = "Bearer b-12345" }
            [servers.c]
            url = "https://me:u-12345@example.org/mcp?api_key=q-12345&page=second"
            oauth = { client_id = "pml", client_secret = "c-12345" }
            "#,
        )
        .unwrap();
        let masked = |index: usize| {
            let mut all: Vec<_> =
                config.servers[index].masked.iter().map(|secret| secret.reveal().to_owned()).collect();
            all.sort();
            all
        };
        assert_eq!(masked(0), ["k-12345", "p-12345", "s-12345", "t-12345"]);
        assert_eq!(masked(1), ["Bearer b-12345", "b-12345"]);
        assert_eq!(masked(2), ["c-12345", "q-12345", "u-12345"]);
    }

    #[test]
    fn mistakes_are_named() {
        let table = [
            ("[limits]\ntimeout = 1", &["line 2", "timeout", "timeout_ms"][..]),
            ("[sandbx]", &["sandbx", "sandbox"]),
            (
                "[limits]\nmax_timeout_ms = 1000",
                &["`limits.max_timeout_ms` is 1000, less than `limits.timeout_ms`, 30000"],
            ),
            ("[limits]\ntotal_ms = 0", &["`limits.total_ms` is 0", "between 1 and 86400000"]),
            ("[limits]\ntimeout_ms = 0", &["`limits.timeout_ms` is 0", "between 1 and 3600000"]),
            ("[limits]\nmemory_mb = 9999", &["`limits.memory_mb` is 9999"]),
            (
                "[limits]\nmemory_mb = \"64\"",
                &["line 2, column 13: `limits.memory_mb`: invalid type: string, expected a whole number"],
            ),
            ("\u{feff}limits.memory_mb = \"64\"", &["line 1, column 20: `limits.memory_mb`: "]),
            ("servers = { a = { command = \"x\", concurrency = -1 } }", &["`servers.a.concurrency`: invalid value"]),
            ("[servers_env]\npass = [\"A=B\"]", &["`A=B` in `servers_env.pass` is no name"]),
            ("[servers_env]\nallow = []", &["line 2", "unknown field `allow`"]),
            ("[servers.a]\nurl = \"https://x\"\npass_env = [\"A\"]", &["`servers.a.pass_env` is for commands"]),
            ("[gateway]\nmax_starting = 0", &["`gateway.max_starting` is 0"]),
            ("[sandbox]\nmode = \"vm\"", &["vm", "worker", "subprocess"]),
            ("[sandbox]\nwarm_workers = 0", &["`sandbox.warm_workers` is 0"]),
            ("[sandbox]\ntime_zone = \"Mars\"", &["`sandbox.time_zone` is `Mars`", "Europe/Berlin"]),
            ("[sandbox]\ntime_zone = \"+01:00\"", &["`sandbox.time_zone`"]),
            ("[sandbox]\ntime_zone = \"/etc/passwd\"", &["`sandbox.time_zone`"]),
            ("[", &["line 1"]),
            (
                "[servers.a]\nargs = \"--token=x\"",
                &["line 2, column 8: `servers.a.args`: invalid type: string, expected a sequence"],
            ),
            ("[servers.a]\ncommand = \"x\"\ncal_timeout_ms = 1", &["line 3", "did you mean `call_timeout_ms`?"]),
            ("[servers.a]\ncommand = \"x\"\n[servers.a]", &["line 3", "duplicate"]),
            ("[servers.a]", &["[servers.a] has neither `command` nor `url`"]),
            ("[servers.a]\ncommand = \"x\"\nurl = \"y\"", &["both `command` and `url`"]),
            ("[servers.a]\ncommand = \"x\"\ntype = \"sse\"", &["its `type` must be \"stdio\""]),
            ("[servers.a]\nurl = \"x\"\nisolation = \"per_call\"", &["remote server"]),
            ("[servers.a]\ncommand = \"x\"\nconcurrency = 0", &["`servers.a.concurrency` is 0"]),
            ("[servers.\"a:b\"]\ncommand = \"x\"", &["`a:b` cannot be the name of a server"]),
            ("[servers.pml]\ncommand = \"x\"", &["pml itself uses it"]),
            ("[servers.a]\ncommand = \"x\"\ncache_ttl_ms = 5", &["needs `trusted = true`"]),
            ("[servers.a]\ncommand = \"x\"\n[servers.a.tools.t]\nmax_memory_mb = 5", &["per_call"]),
            (
                "[servers.a]\nurl = \"https://x\"\n[servers.a.oauth]\nclientid = \"x\"",
                &["line 4", "did you mean `client_id`?"],
            ),
            ("[servers.a]\ncommand = \"x\"\n[servers.a.oauth]", &["[servers.a.oauth] is for a server with a `url`"]),
            ("[servers.a]\nurl = \"https://x\"\noauth = { client_secret = \"x\" }", &["without a `client_id`"]),
            ("[servers.a]\nurl = \"https://x\"\noauth = { grant = \"client_credentials\" }", &["needs a `client_id`"]),
            ("[servers.a]\nurl = \"https://x\"\noauth = { callback_port = 70000 }", &["between 1 and 65535"]),
            ("[servers.a]\nurl = \"https://x\"\noauth = { client_metadata_url = \"http://x/y\" }", &["https://"]),
            ("[servers.a]\nurl = \"https://x\"\noauth = {}\nheaders = { authorization = \"x\" }", &["remove one"]),
            ("[search]\nmodel = \"x\"", &["line 2", "did you mean `model_dir`?"]),
            ("[search]\nmodel_dir = \"\"", &["`search.model_dir` is empty"]),
            ("[search]\nencoder = \"off\"", &["line 2"]),
            ("[policy]\ndeny = [\"github\"]", &["`github:*`"]),
            ("[policy]\nask = []", &["unknown field `ask`"]),
        ];
        for (text, expected) in table {
            let message = Config::parse(text).unwrap_err();
            for part in expected {
                assert!(message.contains(part), "{text}: {message}");
            }
        }
    }
}
