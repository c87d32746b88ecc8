//! From the file as written to settings: defaults and limits, each in one place.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use super::{
    Config, File, Gateway, Sandbox, Search, environment, expand,
    file::{AuditFile, ModeFile, OnChangeFile, SandboxFile, SearchFile},
    network, profiles,
    variables::variable,
};
use crate::{
    audit::Retention,
    broker::{OnChange, Policy},
    execution::Budget,
    sandbox::{Mode, TimeZone},
};

pub(super) const MIB: usize = 1024 * 1024;

/// Checks the text of a whole configuration file.
pub fn check_text(text: &str) -> Result<(), String> {
    Config::check(File::parse(text)?, &variable).map(drop)
}

impl Config {
    #[cfg(test)]
    pub(super) fn parse(text: &str) -> Result<Config, String> {
        Config::check(File::parse(text)?, &|name| (name == "PATH").then(|| "/bin".to_owned()))
    }

    pub(super) fn check(file: File, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Config, String> {
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
            speculates: file.learning.speculate.unwrap_or(false),
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
pub(super) fn within(key: &str, value: Option<u64>, default: u64, most: u64) -> Result<u64, String> {
    match value.unwrap_or(default) {
        value if (1..=most).contains(&value) => Ok(value),
        value => Err(format!("`{key}` is {value}, but must be between 1 and {most}")),
    }
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

impl AuditFile {
    fn check(&self) -> Result<Retention, String> {
        Ok(Retention {
            max_bytes: within("audit.max_mb", self.max_mb, 512, 1_048_576)? * MIB as u64,
            keep: Duration::from_secs(within("audit.keep_days", self.keep_days, 90, 36_500)? * 24 * 60 * 60),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{super::Sources, *};
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
            [servers.d]
            command = "docker"
            args = ["--header", "X-Custom: h-12345", "--header=Accept: Bearer i-12345", "-e", "LEVEL=debug-level", "-e",
                "DB_PASSWORD=e-12345", "--env=GITHUB_TOKEN=f-12345", "--user", "1000:1000", "-e", "const key = 5"]
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
        assert_eq!(masked(3), ["Bearer i-12345", "e-12345", "f-12345", "h-12345", "i-12345"]);
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
