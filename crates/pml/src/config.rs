//! `pml.toml`: as written ([`File`]) and as checked ([`Config`]).
//!
//! Looked for in `--config`, `$PML_CONFIG`, `./pml.toml` and `~/.config/pml/pml.toml`, in this
//! order; the first that is there counts. Without one, everything has its default.

use std::{
    fs, io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use pml_wire::ErrorCode;
use serde::Deserialize;

use crate::{error::Error, execution::Budget, sandbox::Mode};

const MIB: usize = 1024 * 1024;

/// Settings, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub sandbox: Sandbox,
    pub limits: Budget,
}

/// The `[sandbox]` table, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    pub mode: Mode,
    pub warm_workers: NonZeroUsize,
    pub allow_weak: bool,
}

/// `pml.toml`, as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    pub sandbox: SandboxFile,
    pub limits: LimitsFile,
}

/// The `[sandbox]` table, as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxFile {
    /// `"worker"` or `"subprocess"`. Default: `"worker"`.
    pub mode: Option<ModeFile>,
    /// Default: twice the number of cores, at least 4. At most 1000.
    pub warm_workers: Option<usize>,
    /// Default: false.
    pub allow_weak: Option<bool>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModeFile {
    Worker,
    Subprocess,
}

/// The `[limits]` table, as written. Each is the limit of one run.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsFile {
    /// Wall-clock time. Default: 30 000. At most 3 600 000.
    pub timeout_ms: Option<u64>,
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
    /// Branch decisions that are recorded; 0 leaves the probes out. Default: 200. At most 10 000.
    pub decisions: Option<u64>,
}

impl Config {
    /// Finds and reads the configuration.
    pub fn load(explicit: Option<&Path>) -> Result<Config, Error> {
        match find(explicit)? {
            Some(path) => {
                let text = fs::read_to_string(&path).map_err(|err| {
                    let message = format!("`{}` cannot be read: {err}", path.display());
                    Error::new(ErrorCode::ConfigInvalid, message).caused_by(err)
                })?;
                Config::parse(&text).map_err(|message| {
                    Error::new(ErrorCode::ConfigInvalid, format!("in `{}`: {message}", path.display()))
                })
            }
            None => Config::parse("").map_err(|message| Error::new(ErrorCode::ConfigInvalid, message)),
        }
    }

    fn parse(text: &str) -> Result<Config, String> {
        let file: File = toml::from_str(text).map_err(|err| err.to_string().trim_end().to_owned())?;
        file.try_into()
    }
}

impl TryFrom<File> for Config {
    type Error = String;

    fn try_from(file: File) -> Result<Config, String> {
        let SandboxFile { mode, warm_workers, allow_weak } = file.sandbox;
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let warm_workers = warm_workers.unwrap_or((2 * cores).max(4));
        let limits = file.limits;
        Ok(Config {
            sandbox: Sandbox {
                mode: match mode {
                    Some(ModeFile::Subprocess) => Mode::Subprocess,
                    Some(ModeFile::Worker) | None => Mode::Worker,
                },
                warm_workers: NonZeroUsize::new(warm_workers)
                    .filter(|count| count.get() <= 1000)
                    .ok_or(format!("`sandbox.warm_workers` is {warm_workers}, but must be between 1 and 1000"))?,
                allow_weak: allow_weak.unwrap_or(false),
            },
            limits: Budget {
                timeout: Duration::from_millis(within("timeout_ms", limits.timeout_ms, 30_000, 3_600_000)?),
                memory_bytes: within("memory_mb", limits.memory_mb, 64, 1024)? as usize * MIB,
                code_bytes: within("code_bytes", limits.code_bytes, 256 * 1024, 16 * MIB as u64)? as usize,
                result_bytes: within("result_bytes", limits.result_bytes, 8 * MIB as u64, 1024 * MIB as u64)? as usize,
                log_bytes: within("log_bytes", limits.log_bytes, MIB as u64, 64 * MIB as u64)? as usize,
                calls: within("calls", limits.calls, 1000, 1_000_000)? as u32,
                calls_in_flight: within("calls_in_flight", limits.calls_in_flight, 32, 1000)? as usize,
                decisions: match limits.decisions {
                    Some(0) => 0,
                    decisions => within("decisions", decisions, 200, 10_000)? as usize,
                },
            },
        })
    }
}

/// A setting of `[limits]`, or its default; at least 1 and at most `most`.
fn within(key: &str, value: Option<u64>, default: u64, most: u64) -> Result<u64, String> {
    match value.unwrap_or(default) {
        value if (1..=most).contains(&value) => Ok(value),
        value => Err(format!("`limits.{key}` is {value}, but must be between 1 and {most}")),
    }
}

#[expect(clippy::disallowed_methods, reason = "this is config")]
fn find(explicit: Option<&Path>) -> Result<Option<PathBuf>, Error> {
    let named = explicit
        .map(Path::to_owned)
        .or_else(|| std::env::var("PML_CONFIG").ok().filter(|path| !path.is_empty()).map(PathBuf::from));
    if named.is_some() {
        return Ok(named); // must be there; reading it says so otherwise
    }
    let home = std::env::var("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|_| std::env::var("HOME").map(|home| Path::new(&home).join(".config")));
    let candidates = [Some(PathBuf::from("pml.toml")), home.ok().map(|home| home.join("pml").join("pml.toml"))];
    for path in candidates.into_iter().flatten() {
        match path.try_exists() {
            Ok(true) => return Ok(Some(path)),
            Ok(false) => {}
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {}
            Err(err) => {
                let message = format!("`{}` cannot be looked at: {err}", path.display());
                return Err(Error::new(ErrorCode::ConfigInvalid, message).caused_by(err));
            }
        }
    }
    Ok(None)
}

/// What `$RUST_LOG` says, for the log.
#[expect(clippy::disallowed_methods, reason = "this is config")]
pub fn log_filter() -> Option<String> {
    std::env::var("PML_LOG").or_else(|_| std::env::var("RUST_LOG")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_gives_the_defaults() {
        let config = Config::parse("").unwrap();
        assert_eq!(config.limits.timeout, Duration::from_secs(30));
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
    fn mistakes_are_named() {
        let table = [
            ("[limits]\ntimeout = 1", &["line 2", "timeout", "timeout_ms"][..]),
            ("[sandbx]", &["sandbx", "sandbox"]),
            ("[limits]\ntimeout_ms = 0", &["`limits.timeout_ms` is 0", "between 1 and 3600000"]),
            ("[limits]\nmemory_mb = 9999", &["`limits.memory_mb` is 9999"]),
            ("[limits]\nmemory_mb = \"64\"", &["line 2", "expected u64"]),
            ("[sandbox]\nmode = \"vm\"", &["vm", "worker", "subprocess"]),
            ("[sandbox]\nwarm_workers = 0", &["`sandbox.warm_workers` is 0"]),
            ("[", &["line 1"]),
        ];
        for (text, expected) in table {
            let message = Config::parse(text).unwrap_err();
            for part in expected {
                assert!(message.contains(part), "{text}: {message}");
            }
        }
    }
}
