//! A project's file over the user's own.
//!
//! Settings of the project count where it has them, servers by name and everything else by key. The policy is not
//! replaced but added up: what either file denies is denied, and what is allowed must be allowed by each file that has
//! a list. So a project can narrow what the user allows, and never widen it.

use super::{
    File, GatewayFile, LearningFile, LimitsFile, OnChangeFile, PolicyFile, SandboxFile, SearchFile, TraceFile,
};
use crate::trace::sanitize::SanitizeFile;

/// Checks what only the user's own file may say: who reaches pml, how strong the jail is, what is kept of executions and calls, and
/// which secrets stay in it.
pub(super) fn check_project(file: &File) -> Result<(), String> {
    let reserved = [
        ("sandbox.allow_weak", file.sandbox.allow_weak == Some(true)),
        ("gateway.allowed_hosts", !file.gateway.allowed_hosts.is_empty()),
        ("gateway.allowed_origins", !file.gateway.allowed_origins.is_empty()),
        ("audit.max_mb", file.audit.max_mb.is_some()),
        ("audit.keep_days", file.audit.keep_days.is_some()),
        // It would give the user's other servers what the project names.
        ("servers_env.pass", !file.servers_env.pass.is_empty()),
        ("trace.sanitize.allow", !file.trace.sanitize.allow.is_empty()),
        ("trace.enabled", file.trace.enabled.is_some()),
        ("trace.keep_days", file.trace.keep_days.is_some()),
        ("trace.max_mb", file.trace.max_mb.is_some()),
        ("trace.raw", file.trace.raw.is_some()),
        ("trace.database", file.trace.database.is_some()),
        ("telemetry.otlp", file.telemetry.otlp.is_some()),
        ("hub", file.hub.is_set()),
        ("profiles", !file.profiles.is_empty()),
    ];
    match reserved.iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => Err(format!("`{key}` cannot be set by a project's file, only by your own")),
        None => Ok(()),
    }
}

/// The configuration that a project's file and the user's own make together.
pub(super) fn merge(project: File, own: File) -> File {
    let mut deny = own.policy.deny;
    // A project that brings a server of its own under the name of one of the user's does not get the tools back that
    // the user has disabled there.
    for (name, server) in own.servers.iter().filter(|(name, _)| project.servers.contains_key(*name)) {
        deny.extend(server.disabled_tools.iter().map(|tool| format!("{name}:{tool}")));
    }
    deny.extend(project.policy.deny);
    let (allow, within) = match project.policy.allow.is_empty() {
        true => (own.policy.allow, Vec::new()),
        false => (project.policy.allow, own.policy.allow),
    };
    let changed = match own.policy.changed {
        Some(OnChangeFile::Block) => Some(OnChangeFile::Block),
        own => project.policy.changed.or(own),
    };
    let mut servers = own.servers;
    servers.extend(project.servers);
    File {
        sandbox: sandbox(project.sandbox, own.sandbox),
        limits: limits(project.limits, own.limits),
        policy: PolicyFile { allow, within, deny, changed },
        gateway: gateway(project.gateway, own.gateway),
        servers_env: own.servers_env,
        search: SearchFile {
            model_dir: project.search.model_dir.or(own.search.model_dir),
            encoder: project.search.encoder.or(own.search.encoder),
        },
        audit: own.audit,
        trace: trace(project.trace, own.trace),
        telemetry: own.telemetry,
        hub: own.hub,
        profiles: own.profiles,
        learning: LearningFile {
            enabled: learning(project.learning.enabled, own.learning.enabled),
            speculate: speculate(project.learning.speculate, own.learning.speculate),
        },
        servers,
    }
}

/// A project can switch it off, and cannot switch it on for a user who has it off.
fn learning(project: Option<bool>, own: Option<bool>) -> Option<bool> {
    if own == Some(false) { own } else { project.or(own) }
}

/// A project can switch it off. Only the user can have calls made that nobody has asked for.
fn speculate(project: Option<bool>, own: Option<bool>) -> Option<bool> {
    if project == Some(false) { project } else { own }
}

/// A project adds rules, and cannot take any away.
fn trace(project: TraceFile, own: TraceFile) -> TraceFile {
    let SanitizeFile { mut rules, allow } = own.sanitize;
    rules.extend(project.sanitize.rules);
    TraceFile { sanitize: SanitizeFile { rules, allow }, ..own }
}

fn sandbox(project: SandboxFile, own: SandboxFile) -> SandboxFile {
    SandboxFile {
        mode: project.mode.or(own.mode),
        warm_workers: project.warm_workers.or(own.warm_workers),
        allow_weak: project.allow_weak.or(own.allow_weak),
        time_zone: project.time_zone.or(own.time_zone),
    }
}

fn limits(project: LimitsFile, own: LimitsFile) -> LimitsFile {
    LimitsFile {
        timeout_ms: project.timeout_ms.or(own.timeout_ms),
        max_timeout_ms: project.max_timeout_ms.or(own.max_timeout_ms),
        total_ms: project.total_ms.or(own.total_ms),
        memory_mb: project.memory_mb.or(own.memory_mb),
        code_bytes: project.code_bytes.or(own.code_bytes),
        result_bytes: project.result_bytes.or(own.result_bytes),
        log_bytes: project.log_bytes.or(own.log_bytes),
        calls: project.calls.or(own.calls),
        calls_in_flight: project.calls_in_flight.or(own.calls_in_flight),
        calls_per_minute: project.calls_per_minute.or(own.calls_per_minute),
        decisions: project.decisions.or(own.decisions),
    }
}

fn gateway(project: GatewayFile, own: GatewayFile) -> GatewayFile {
    GatewayFile {
        output_tokens: project.output_tokens.or(own.output_tokens),
        concurrent_runs: project.concurrent_runs.or(own.concurrent_runs),
        results_mb: project.results_mb.or(own.results_mb),
        stop_grace_ms: project.stop_grace_ms.or(own.stop_grace_ms),
        // Only the user's own file has these.
        allowed_hosts: own.allowed_hosts,
        allowed_origins: own.allowed_origins,
        requests_per_minute: project.requests_per_minute.or(own.requests_per_minute),
        max_starting: project.max_starting.or(own.max_starting),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        broker::Policy,
        config::{Config, MIB},
        upstream::Target,
    };

    fn merged(project: &str, own: &str) -> Config {
        let parse = |text: &str| File::parse(text).unwrap();
        check_project(&parse(project)).unwrap();
        Config::check(merge(parse(project), parse(own)), &|_| None).unwrap()
    }

    #[test]
    fn a_project_counts_by_server_and_by_key() {
        let own = "[servers.a]\ncommand = \"own\"\n[servers.b]\ncommand = \"own\"\n\
            [limits]\ncalls = 5\nmemory_mb = 16\n[gateway]\noutput_tokens = 7\nallowed_hosts = [\"h\"]\n[sandbox]\nallow_weak = true";
        let project = "[servers.b]\ncommand = \"theirs\"\n[servers.c]\ncommand = \"theirs\"\n[limits]\ncalls = 6";
        let config = merged(project, own);
        let command = |index: usize| match &config.servers[index].target {
            Ok(Target::Stdio { command, .. }) => (config.servers[index].name.as_str(), command.as_str()),
            other => panic!("{other:?}"),
        };
        assert_eq!([command(0), command(1), command(2)], [("a", "own"), ("b", "theirs"), ("c", "theirs")]);
        assert_eq!((config.limits.calls, config.limits.memory_bytes), (6, 16 * MIB));
        assert_eq!((config.gateway.output_tokens, config.gateway.allowed_hosts.len()), (7, 1));
        assert!(config.sandbox.allow_weak);
        assert!(!merged("[sandbox]\nallow_weak = false", own).sandbox.allow_weak, "a project may be stricter");
    }

    #[test]
    fn a_project_never_gives_back_what_the_user_denies() {
        let own = "[servers.git]\ncommand = \"x\"\ndisabled_tools = [\"push\"]\n\
            [policy]\ndeny = [\"*:delete\"]\nallow = [\"git:*\", \"files:*\"]";
        let both = "[servers.git]\ncommand = \"other\"\n[policy]\nallow = [\"*\"]\ndeny = [\"git:log\"]";
        let narrow = "[servers.git]\ncommand = \"other\"\n[policy]\nallow = [\"git:*\", \"mail:*\"]";
        let plain = "[servers.git]\ncommand = \"other\"";
        #[rustfmt::skip]
        let table = [
            // project  tool          allowed
            (both,      "git:status",  true),
            (both,      "git:push",    false), // disabled by the user at their own server of the name
            (both,      "git:delete",  false),
            (both,      "git:log",     false),
            (both,      "mail:send",   false), // not in the user's list
            (narrow,    "git:status",  true),
            (narrow,    "mail:send",   false),
            (narrow,    "files:read",  false), // not in the project's list
            (plain,     "files:read",  true),
            (plain,     "mail:send",   false),
            (plain,     "git:push",    false),
        ];
        for (project, tool, is_allowed) in table {
            let policy: Policy = merged(project, own).policy;
            assert_eq!(policy.allows(&tool.parse().unwrap()), is_allowed, "{project}: {tool}");
        }
    }

    #[test]
    fn who_reaches_pml_and_how_strong_the_jail_is_are_not_a_projects_business() {
        let table = [
            ("[sandbox]\nallow_weak = true", "`sandbox.allow_weak`"),
            ("[gateway]\nallowed_hosts = [\"x\"]", "`gateway.allowed_hosts`"),
            ("[gateway]\nallowed_origins = [\"https://x\"]", "`gateway.allowed_origins`"),
            ("[servers_env]\npass = [\"SSH_AUTH_SOCK\"]", "`servers_env.pass`"),
            ("[telemetry]\notlp = \"http://x\"", "`telemetry.otlp`"),
            ("[hub]\nurl = \"https://x\"", "`hub`"),
            ("[trace]\nraw = true", "`trace.raw`"),
            ("[trace]\ndatabase = 'postgres://elsewhere/x'", "`trace.database`"),
            ("[trace]\nenabled = false", "`trace.enabled`"),
            ("[trace]\nkeep_days = 1", "`trace.keep_days`"),
        ];
        for (text, key) in table {
            let message = check_project(&File::parse(text).unwrap()).unwrap_err();
            assert!(message.starts_with(key), "{message}");
        }
    }
}
