//! `pml.toml`, as written, and what is said about text that cannot be read.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{HubFile, ProfileFile, ServerFile, TelemetryFile, TraceFile, toml_text};
use crate::catalog::nearest;

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

/// The `[learning]` table, as written: what pml uses earlier executions for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LearningFile {
    /// Default: true.
    pub enabled: Option<bool>,
    /// Make read-only calls of trusted servers ahead of the programs that are expected to make them. Default: false.
    pub speculate: Option<bool>,
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
