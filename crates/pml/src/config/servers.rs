//! The `[servers.NAME]` tables: as written, and as checked.

use std::{cell::RefCell, collections::BTreeMap, num::NonZeroU32, path::PathBuf, time::Duration};

use pml_wire::id::MAX_NAME_BYTES;
use serde::Deserialize;

use super::{
    command_line::{self, Carried},
    environment::{self, Passed},
    expand::expand,
    within,
};
use crate::{
    broker::RESERVED,
    shown::{self, visible},
    upstream::{
        Backoff, Grant, HttpWire, Isolation, OAuth, ProcessLimits, Secret, Settings, Target, Tokens, ToolSettings,
    },
};

const MIB: u64 = 1024 * 1024;
const HOUR_MS: u64 = 3_600_000;

/// Longest call unless a server says otherwise.
const MAX_CALL_MS: u64 = 600_000;

/// The value of a variable.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A `[servers.NAME]` table, as written. Either `command` or `url` must be there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerFile {
    /// The program of a stdio server.
    pub command: Option<String>,
    pub args: Vec<String>,
    /// Variables besides the usual ones (`PATH`, `HOME`, …).
    pub env: BTreeMap<String, String>,
    /// Names of variables that it gets if they are set where pml is started; `*` stands for anything.
    pub pass_env: Vec<String>,
    pub cwd: Option<String>,
    /// The address of a remote server.
    pub url: Option<String>,
    pub headers: BTreeMap<String, String>,
    /// How to log in there; only needed where pml cannot find it out.
    pub oauth: Option<OAuthFile>,
    /// `"stdio"`, `"http"` or `"sse"`. Default: what fits `command` or `url`.
    #[serde(rename = "type")]
    pub kind: Option<Kind>,
    /// Default: true.
    pub enabled: Option<bool>,
    /// From the start to the list of tools. Default: 60 000.
    pub start_timeout_ms: Option<u64>,
    /// Longest silence during one call. Default: 30 000.
    pub call_timeout_ms: Option<u64>,
    /// Longest call. Default: 300 000.
    pub max_call_ms: Option<u64>,
    /// Calls at the same time. Default: 32. At most 1000.
    pub concurrency: Option<u64>,
    /// Default: no limit.
    pub calls_per_minute: Option<u32>,
    /// `"shared"` or `"per_call"`. Default: `"shared"`.
    pub isolation: Option<IsolationFile>,
    /// Resident memory of all its processes. Default: 1024.
    pub max_memory_mb: Option<u64>,
    /// Of one process. Default: 4096.
    pub max_open_files: Option<u64>,
    /// Processor time of one process. Default: no limit.
    pub max_cpu_seconds: Option<u64>,
    /// Before a lost server is tried again; doubles each time. Default: 1000.
    pub reconnect_ms: Option<u64>,
    /// Default: 30 000.
    pub reconnect_max_ms: Option<u64>,
    /// Default: 10.
    pub reconnect_tries: Option<u64>,
    /// Longest message that is read. Default: 256.
    pub max_message_mb: Option<u64>,
    /// How long a silent connection is believed to live. Default: 30 000.
    pub keepalive_ms: Option<u64>,
    /// How long a list of tools is believed. Default: 3 600 000.
    pub list_ttl_ms: Option<u64>,
    /// How long it may take to end by itself. Default: 500.
    pub stop_grace_ms: Option<u64>,
    /// Its hints about tools are believed. Default: false.
    pub trusted: Option<bool>,
    /// Results are checked against output schemas. Default: false.
    pub check_results: Option<bool>,
    /// Programs get the value of a text that is a JSON object or array. Default: true.
    pub parse_json: Option<bool>,
    /// How long results of read-only, idempotent tools are kept; needs `trusted`. Default: not.
    pub cache_ttl_ms: Option<u64>,
    /// Tools that may not be called.
    pub disabled_tools: Vec<String>,
    /// Tools that differ.
    pub tools: BTreeMap<String, ToolFile>,
}

/// A `[servers.NAME.oauth]` table, as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OAuthFile {
    /// `"authorization_code"`, a user at a browser, or `"client_credentials"`, pml itself. Default: the first.
    pub grant: Option<Grant>,
    /// Default: pml registers itself.
    pub client_id: Option<String>,
    /// Should be a variable. Needs `client_id`.
    pub client_secret: Option<String>,
    /// Default: what the server names.
    pub scopes: Vec<String>,
    /// Default: any free one.
    pub callback_port: Option<u64>,
    /// The https address of a document that describes pml.
    pub client_metadata_url: Option<String>,
}

/// A `[servers.NAME.tools.TOOL]` table, as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolFile {
    pub call_timeout_ms: Option<u64>,
    pub max_call_ms: Option<u64>,
    /// Default: the server's.
    pub parse_json: Option<bool>,
    /// Needs `isolation = "per_call"`.
    pub max_memory_mb: Option<u64>,
    /// Needs `isolation = "per_call"`.
    pub max_cpu_seconds: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Stdio,
    #[serde(alias = "streamable-http", alias = "streamable_http", alias = "streamableHttp")]
    Http,
    Sse,
}

impl Kind {
    pub(super) fn parse(text: &str) -> Option<Kind> {
        serde_json::from_value(text.into()).ok()
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Stdio => "stdio",
            Kind::Http => "http",
            Kind::Sse => "sse",
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationFile {
    Shared,
    PerCall,
}

impl ServerFile {
    /// How long a call may take, as clients say it: in all, and without a word.
    pub(crate) fn set_call_timeout(&mut self, millis: u64) {
        self.call_timeout_ms = Some(millis);
        self.max_call_ms = (millis > MAX_CALL_MS).then_some(millis);
    }

    /// Do two entries reach the same server in the same way, and allow the same of it?
    pub(crate) fn is_same(&self, other: &ServerFile) -> bool {
        let rest = |one: &ServerFile| {
            let client_id = one.oauth.as_ref().and_then(|oauth| oauth.client_id.clone());
            (one.enabled.unwrap_or(true), one.disabled_tools.clone(), client_id)
        };
        self.reaches_same(other) && rest(self) == rest(other)
    }

    /// Do two entries reach the same server in the same way?
    pub(crate) fn reaches_same(&self, other: &ServerFile) -> bool {
        // With an empty default a variable means the same where it is set.
        let plain = |text: &String| text.replace(":-}", "}");
        let map = |map: &BTreeMap<String, String>| -> BTreeMap<String, String> {
            map.iter().map(|(name, text)| (name.clone(), plain(text))).collect()
        };
        let key = |one: &ServerFile| {
            (
                (one.command.as_ref().map(plain), one.args.iter().map(plain).collect::<Vec<_>>(), map(&one.env)),
                (one.pass_env.clone(), one.cwd.clone(), one.url.as_ref().map(plain), map(&one.headers)),
            )
        };
        key(self) == key(other)
    }

    /// Checks a server. `None` if it is switched off. A variable that is not set is the server's own
    /// trouble: the others work.
    pub(super) fn check(self, name: &str, passed: &Passed, lookup: Lookup<'_>) -> Result<Option<Settings>, String> {
        check_name(name)?;
        environment::check(&format!("servers.{name}.pass_env"), &self.pass_env)?;
        if !self.pass_env.is_empty() && self.url.is_some() {
            return Err(format!("`servers.{name}.pass_env` is for commands; a `url` has `headers`"));
        }
        let passed = &passed.with(&self.pass_env, lookup);
        if self.enabled == Some(false) {
            return Ok(None);
        }
        let within = |key: &str, value, default, most| within(&format!("servers.{name}.{key}"), value, default, most);
        let millis = |key: &str, value, default| within(key, value, default, 24 * HOUR_MS).map(Duration::from_millis);
        let isolation = match self.isolation {
            Some(IsolationFile::PerCall) => Isolation::PerCall,
            Some(IsolationFile::Shared) | None => Isolation::Shared,
        };
        let is_trusted = self.trusted.unwrap_or(false);
        if self.cache_ttl_ms.is_some() && !is_trusted {
            return Err(format!(
                "`servers.{name}.cache_ttl_ms` needs `trusted = true`: what may be kept is the server's claim"
            ));
        }
        let settings = Settings {
            name: name.to_owned(),
            start_timeout: millis("start_timeout_ms", self.start_timeout_ms, 60_000)?,
            call_timeout: millis("call_timeout_ms", self.call_timeout_ms, 120_000)?,
            max_call: millis("max_call_ms", self.max_call_ms, MAX_CALL_MS)?,
            concurrency: within("concurrency", self.concurrency, 32, 1000)? as usize,
            calls_per_minute: match self.calls_per_minute {
                Some(0) => return Err(format!("`servers.{name}.calls_per_minute` is 0, but must be at least 1")),
                count => count.and_then(NonZeroU32::new),
            },
            isolation,
            limits: ProcessLimits {
                memory_bytes: within("max_memory_mb", self.max_memory_mb, 1024, 1 << 20)? * MIB,
                open_files: within("max_open_files", self.max_open_files, 4096, 1 << 20)?,
                cpu_seconds: match self.max_cpu_seconds {
                    Some(seconds) => Some(within("max_cpu_seconds", Some(seconds), 1, 1 << 20)?),
                    None => None,
                },
            },
            backoff: Backoff {
                initial: millis("reconnect_ms", self.reconnect_ms, 1000)?,
                max: millis("reconnect_max_ms", self.reconnect_max_ms, 30_000)?,
                tries: within("reconnect_tries", self.reconnect_tries, 10, 1000)? as u32,
            },
            max_message_bytes: (within("max_message_mb", self.max_message_mb, 256, 2048)? * MIB) as usize,
            keepalive: millis("keepalive_ms", self.keepalive_ms, 30_000)?,
            list_ttl: millis("list_ttl_ms", self.list_ttl_ms, HOUR_MS)?,
            stop_grace: millis("stop_grace_ms", self.stop_grace_ms, 500)?,
            is_trusted,
            checks_results: self.check_results.unwrap_or(false),
            parses_json: self.parse_json.unwrap_or(true),
            cache_ttl: match self.cache_ttl_ms {
                Some(ttl) => Some(millis("cache_ttl_ms", Some(ttl), 1)?),
                None => None,
            },
            relays: false,
            masked: self.masked(passed, lookup),
            tokens: Tokens::default(),
            oauth: self.checked_oauth(name, lookup)?,
            tools: self.checked_tools(name, isolation)?,
            target: self.target(name, passed, lookup)?,
        };
        if isolation == Isolation::PerCall && matches!(settings.target, Ok(Target::Http { .. })) {
            return Err(format!("`servers.{name}.isolation` is \"per_call\", but a remote server has no process here"));
        }
        Ok(Some(settings))
    }

    fn checked_tools(&self, name: &str, isolation: Isolation) -> Result<BTreeMap<String, ToolSettings>, String> {
        let check = |(tool, file): (&String, &ToolFile)| {
            let table = format!("servers.{name}.tools.{tool}");
            let optional = |key: &str, value: Option<u64>, most: u64| {
                value.map(|value| within(&format!("{table}.{key}"), Some(value), 1, most)).transpose()
            };
            let millis = |key, value| optional(key, value, 24 * HOUR_MS).map(|value| value.map(Duration::from_millis));
            if isolation == Isolation::Shared && (file.max_memory_mb.is_some() || file.max_cpu_seconds.is_some()) {
                return Err(format!(
                    "`{table}` limits the process of one tool, which needs `isolation = \"per_call\"`"
                ));
            }
            let settings = ToolSettings {
                call_timeout: millis("call_timeout_ms", file.call_timeout_ms)?,
                max_call: millis("max_call_ms", file.max_call_ms)?,
                parses_json: file.parse_json,
                memory_bytes: optional("max_memory_mb", file.max_memory_mb, 1 << 20)?.map(|megabytes| megabytes * MIB),
                cpu_seconds: optional("max_cpu_seconds", file.max_cpu_seconds, 1 << 20)?,
            };
            Ok((tool.clone(), settings))
        };
        self.tools.iter().map(check).collect()
    }

    fn checked_oauth(&self, name: &str, lookup: Lookup<'_>) -> Result<OAuth, String> {
        let Some(file) = &self.oauth else { return Ok(OAuth::default()) };
        let table = format!("[servers.{name}.oauth]");
        if self.url.is_none() {
            return Err(format!("{table} is for a server with a `url`"));
        }
        if self.headers.keys().any(|header| header.eq_ignore_ascii_case("authorization")) {
            return Err(format!("{table} is of no use besides the header `Authorization`; remove one of them"));
        }
        if file.client_secret.is_some() && file.client_id.is_none() {
            return Err(format!("{table} has a `client_secret` without a `client_id`"));
        }
        let grant = file.grant.unwrap_or_default();
        if grant == Grant::ClientCredentials && file.client_secret.is_none() {
            return Err(format!("{table}: `grant = \"client_credentials\"` needs a `client_id` and a `client_secret`"));
        }
        // The authorization server reads it, and takes nothing else for a client.
        let is_document = |url: &String| {
            let path = url.strip_prefix("https://").and_then(|rest| rest.split_once('/'));
            path.is_some_and(|(host, path)| !host.is_empty() && !path.is_empty())
        };
        if file.client_metadata_url.as_ref().is_some_and(|url| !is_document(url)) {
            return Err(format!("{table}: `client_metadata_url` must be an https:// address with a path"));
        }
        let port = |port| within(&format!("servers.{name}.oauth.callback_port"), Some(port), 1, 65_535);
        let callback_port = file.callback_port.map(port).transpose()?;
        Ok(OAuth {
            grant,
            client_id: file.client_id.clone(),
            // One that is missing is told by `target`.
            client_secret: file.client_secret.as_deref().and_then(|text| expand(text, lookup).ok()).map(Secret::new),
            scopes: file.scopes.clone(),
            callback_port: callback_port.and_then(|port| u16::try_from(port).ok()),
            client_metadata_url: file.client_metadata_url.clone(),
        })
    }

    fn target(self, name: &str, passed: &Passed, lookup: Lookup<'_>) -> Result<Result<Target, String>, String> {
        let table = format!("[servers.{name}]");
        let missing = |variable: String| {
            format!("the variable `{variable}` is not set; set it, or write `${{{variable}:-default}}`")
        };
        match (&self.command, &self.url, self.kind) {
            (Some(_), Some(_), _) => Err(format!("{table} has both `command` and `url`; it must have one")),
            (None, None, _) => Err(format!("{table} has neither `command` nor `url`")),
            (Some(_), None, Some(Kind::Http | Kind::Sse)) => {
                Err(format!("{table} has a `command`, so its `type` must be \"stdio\""))
            }
            (None, Some(_), Some(Kind::Stdio)) => {
                Err(format!("{table} has a `url`, so its `type` cannot be \"stdio\""))
            }
            (Some(command), None, _) if command.trim().is_empty() => Err(format!("{table} has an empty `command`")),
            (Some(command), None, _) => Ok(self.stdio(command, passed, lookup).map_err(missing)),
            (None, Some(url), _) => Ok(self.http(url, lookup).map_err(missing)),
        }
    }

    /// What must not be shown, wherever it turns up: variables that were put in, but for those that
    /// every server gets; `env` and `headers`; and arguments that are called a key or the like.
    fn masked(&self, passed: &Passed, lookup: Lookup<'_>) -> Vec<Secret> {
        let found = RefCell::new(Vec::new());
        let noting = |name: &str| {
            let value = lookup(name)?;
            if !environment::is_for_all(name) {
                found.borrow_mut().push(value.clone());
            }
            Some(value)
        };
        let mut texts = Vec::new();
        let (mut follows_name, mut before) = (false, String::new());
        for arg in self.args.iter().filter_map(|arg| expand(arg, &noting).ok()) {
            let (name, value) = arg.split_once('=').map_or((arg.as_str(), None), |(name, value)| (name, Some(value)));
            let is_named = name.starts_with('-') && is_secret_name(name);
            texts.extend(value.filter(|_| is_named).map(str::to_owned));
            texts.extend(secrets_in_address(&arg));
            // Of an address alone, only what is secret in it.
            if arg.contains(char::is_whitespace) || !arg.contains("://") {
                texts.extend(command_line::secrets(&arg).into_iter().map(|range| arg[range].to_owned()));
            }
            texts.extend(follows_name.then(|| arg.clone()));
            texts.extend(carried_secrets(&before, &arg).map(str::to_owned));
            follows_name = is_named && value.is_none();
            before = arg;
        }
        for text in [&self.command, &self.cwd].into_iter().flatten() {
            let _ = expand(text, &noting);
        }
        let url = self.url.as_deref().and_then(|url| expand(url, &noting).ok());
        texts.extend(url.iter().flat_map(|url| secrets_in_address(url)));
        let secret = self.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_deref());
        texts.extend(secret.and_then(|text| expand(text, &noting).ok()));
        for (name, value) in self.env.iter().chain(&self.headers) {
            let Ok(value) = expand(value, &noting) else { continue };
            if is_secret_name(name) || self.headers.contains_key(name) {
                texts.extend(value.split_once(' ').map(|(_, token)| token.to_owned()));
                texts.push(value);
            }
        }
        texts.extend(found.into_inner());
        if self.command.is_some() {
            texts.extend(passed.secrets());
        }
        // Servers print line by line, and what is inside an address by itself.
        let parts: Vec<_> =
            texts.iter().flat_map(|text| text.lines().map(str::to_owned).chain(secrets_in_address(text))).collect();
        texts.extend(parts);
        // Longer ones first: one may be part of another.
        texts.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        texts.dedup();
        texts.into_iter().map(Secret::new).collect()
    }

    /// The error is the name of a variable that is not set.
    fn stdio(&self, command: &str, passed: &Passed, lookup: Lookup<'_>) -> Result<Target, String> {
        let mut env: BTreeMap<_, _> = passed.iter().map(|(name, value)| (name.clone(), Secret::new(value))).collect();
        for (name, value) in &self.env {
            env.insert(name.clone(), Secret::new(expand(value, lookup)?));
        }
        Ok(Target::Stdio {
            command: expand(command, lookup)?,
            args: self.args.iter().map(|arg| expand(arg, lookup).map(Secret::new)).collect::<Result<_, _>>()?,
            env,
            cwd: self.cwd.as_deref().map(|cwd| expand(cwd, lookup)).transpose()?.map(PathBuf::from),
        })
    }

    /// The error is the name of a variable that is not set.
    fn http(&self, url: &str, lookup: Lookup<'_>) -> Result<Target, String> {
        let header = |(name, value): (&String, &String)| Ok((name.clone(), Secret::new(expand(value, lookup)?)));
        if let Some(secret) = self.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_deref()) {
            expand(secret, lookup)?;
        }
        Ok(Target::Http {
            url: Secret::new(expand(url, lookup)?),
            // An empty one says nothing: it comes from a variable that is not set.
            headers: {
                let headers: BTreeMap<_, _> = self.headers.iter().map(header).collect::<Result<_, String>>()?;
                headers.into_iter().filter(|(_, value)| !value.reveal().is_empty()).collect()
            },
            wire: match self.kind {
                Some(Kind::Sse) => HttpWire::Sse,
                Some(Kind::Http) => HttpWire::Streamable,
                Some(Kind::Stdio) | None => HttpWire::Auto,
            },
        })
    }
}

/// The secrets in an argument such as `X-Key: abc` behind `--header`, or `--env=API_KEY=abc`: the value, and the token in it.
/// A login, such as `--user 1000:1000`, need not hold a secret.
fn carried_secrets<'a>(before: &str, arg: &'a str) -> impl Iterator<Item = &'a str> {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let found = command_line::carried(before, arg).filter(|(kind, name, _)| match kind {
        Carried::Header => true,
        Carried::Variable => is_name(name) && is_secret_name(name),
        Carried::Login => false,
    });
    let value = found.map(|(.., value)| arg[value].trim());
    let token = value.and_then(|value| value.split_once(' ')).map(|(_, token)| token);
    value.into_iter().chain(token).filter(|text| !text.is_empty())
}

/// The secrets in an address such as `postgres://user:password@host` or `https://host/mcp?api_key=secret`.
pub(super) fn secrets_in_address(text: &str) -> Vec<String> {
    let Some((_, rest)) = text.split_once("://") else { return Vec::new() };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let password = rest.rsplit_once('@').and_then(|(user, _)| user.split_once(':')).map(|(_, password)| password);
    let pairs = query.split(['&', '#']).filter_map(|pair| pair.split_once('='));
    let named = pairs.filter(|(name, _)| is_secret_name(name)).map(|(_, value)| value);
    password.into_iter().chain(named).map(str::to_owned).collect()
}

/// Is what is called so a secret?
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "secret", "pass", "auth", "cred", "dsn", "url"].iter().any(|part| name.contains(part))
}

/// A server's name is part of every tool's.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains(':') || name.chars().any(char::is_control) {
        return Err(format!(
            "`{}` cannot be the name of a server: it must have 1 to {MAX_NAME_BYTES} bytes, no colon and no control character",
            name.escape_debug()
        ));
    }
    shown::check_name(name).map_err(|why| format!("`{}` cannot be the name of a server: {why}", visible(name)))?;
    if RESERVED.contains(&name) {
        return Err(format!(
            "`{name}` cannot be the name of a server: pml itself uses it; choose another, such as `{name}-2`"
        ));
    }
    Ok(())
}
