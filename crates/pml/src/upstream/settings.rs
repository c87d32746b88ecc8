//! What is configured about one server.

use std::{
    collections::BTreeMap,
    fmt,
    num::NonZeroU32,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

use serde::{Deserialize, Serialize};

/// Tokens of one server that are remembered for blotting out; older ones are no longer valid.
const TOKENS: usize = 8;

/// A text that is never printed: tokens stand in headers, arguments and variables.
///
/// It has no `Display` and no `Serialize`, and its `Debug` shows nothing, so that printing it by
/// accident does not compile or does no harm.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// One server, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub name: String,
    /// How to reach it, or why that cannot be known: a variable that is not set.
    pub target: Result<Target, String>,
    /// From the start to the list of tools.
    pub start_timeout: Duration,
    /// Longest silence during one call; progress ends it.
    pub call_timeout: Duration,
    /// Longest call, whatever progress it makes.
    pub max_call: Duration,
    /// Calls at the same time; more wait.
    pub concurrency: usize,
    pub calls_per_minute: Option<NonZeroU32>,
    pub isolation: Isolation,
    pub limits: ProcessLimits,
    pub backoff: Backoff,
    /// Longest message that is read.
    pub max_message_bytes: usize,
    /// How long a silent connection is believed to live.
    pub keepalive: Duration,
    /// How long a list of tools is believed.
    pub list_ttl: Duration,
    /// How long a stdio server may take to end by itself once its input is closed.
    pub stop_grace: Duration,
    /// Its hints about tools (read-only, idempotent) are believed.
    pub is_trusted: bool,
    /// Results are checked against output schemas.
    pub checks_results: bool,
    /// Programs get the value of a result that is the text of a JSON object or array.
    pub parses_json: bool,
    /// How long results of read-only, idempotent tools are kept, if at all.
    pub cache_ttl: Option<Duration>,
    /// What the server asks of a client is passed on, so it is told that there is one.
    pub relays: bool,
    /// Texts that are blotted out of everything the server says.
    pub masked: Vec<Secret>,
    /// More such texts, which are not configured but come and go.
    pub tokens: Tokens,
    /// How to log in, where the server wants that.
    pub oauth: OAuth,
    /// Tools that differ.
    pub tools: BTreeMap<String, ToolSettings>,
}

/// The tokens of a server's login, as far as this process has seen them. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Arc<RwLock<Vec<Secret>>>);

/// What is known at the moment is no part of what is configured.
impl PartialEq for Tokens {
    fn eq(&self, _: &Tokens) -> bool {
        true
    }
}

impl Eq for Tokens {}

impl Tokens {
    pub(super) fn is_shared_with(&self, other: &Tokens) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Vec<Secret>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, token: &Secret) {
        let mut tokens = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !tokens.contains(token) {
            if tokens.len() >= TOKENS {
                tokens.remove(0);
            }
            tokens.push(token.clone());
        }
    }
}

/// Who logs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// A user, at a browser.
    #[default]
    AuthorizationCode,
    /// pml itself, with its secret.
    ClientCredentials,
}

/// How to log in at a remote server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuth {
    pub grant: Grant,
    /// As whom, if the authorization server knows pml already. Otherwise pml registers itself.
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    /// What to ask for, instead of what the server names.
    pub scopes: Vec<String>,
    /// Where the browser comes back to; any free port otherwise.
    pub callback_port: Option<u16>,
    /// A document that describes pml, for authorization servers that take its address as an id.
    pub client_metadata_url: Option<String>,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Stdio { command: String, args: Vec<Secret>, env: BTreeMap<String, Secret>, cwd: Option<PathBuf> },
    Http { url: Secret, headers: BTreeMap<String, Secret>, wire: HttpWire },
}

/// How a remote server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpWire {
    /// Find out: streamable HTTP first, then HTTP+SSE.
    Auto,
    Streamable,
    Sse,
}

/// How many processes a stdio server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// One for all calls.
    Shared,
    /// A new one for each call.
    PerCall,
}

/// What a stdio server's processes may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Resident memory of all its processes together.
    pub memory_bytes: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Processor time of one process, if limited.
    pub cpu_seconds: Option<u64>,
}

/// How a lost server is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub initial: Duration,
    pub max: Duration,
    pub tries: u32,
}

/// What differs for one tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolSettings {
    pub call_timeout: Option<Duration>,
    pub max_call: Option<Duration>,
    pub parses_json: Option<bool>,
    /// Only with [`Isolation::PerCall`]: the process serves this call alone.
    pub memory_bytes: Option<u64>,
    pub cpu_seconds: Option<u64>,
}

impl Settings {
    /// A server with every setting at its default.
    pub fn new(name: impl Into<String>, target: Result<Target, String>) -> Settings {
        Settings {
            name: name.into(),
            target,
            start_timeout: Duration::from_secs(60),
            call_timeout: Duration::from_secs(30),
            max_call: Duration::from_secs(300),
            concurrency: 32,
            calls_per_minute: None,
            isolation: Isolation::Shared,
            limits: ProcessLimits { memory_bytes: 1024 * 1024 * 1024, open_files: 4096, cpu_seconds: None },
            backoff: Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(30), tries: 10 },
            max_message_bytes: 256 * 1024 * 1024,
            keepalive: Duration::from_secs(30),
            list_ttl: Duration::from_secs(3600),
            stop_grace: Duration::from_millis(500),
            is_trusted: false,
            checks_results: false,
            parses_json: true,
            cache_ttl: None,
            relays: false,
            masked: Vec::new(),
            tokens: Tokens::default(),
            oauth: OAuth::default(),
            tools: BTreeMap::new(),
        }
    }

    /// The limits of a process that serves a call of `tool`.
    pub(super) fn limits_for(&self, tool: &str) -> ProcessLimits {
        let tool = self.tools.get(tool).copied().unwrap_or_default();
        ProcessLimits {
            memory_bytes: tool.memory_bytes.unwrap_or(self.limits.memory_bytes),
            cpu_seconds: tool.cpu_seconds.or(self.limits.cpu_seconds),
            ..self.limits
        }
    }

    /// Do programs get the value of a result of `tool` that is the text of a JSON object or array?
    pub fn parses_json(&self, tool: &str) -> bool {
        self.tools.get(tool).and_then(|tool| tool.parses_json).unwrap_or(self.parses_json)
    }

    /// Idle and total timeout of a call of `tool`.
    pub(super) fn timeouts_for(&self, tool: &str) -> (Duration, Duration) {
        let tool = self.tools.get(tool).copied().unwrap_or_default();
        let idle = tool.call_timeout.unwrap_or(self.call_timeout);
        (idle, tool.max_call.unwrap_or(self.max_call).max(idle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show() {
        let target = Target::Stdio {
            command: "server".to_owned(),
            args: vec![Secret::new("--token=hunter2")],
            env: BTreeMap::from([("TOKEN".to_owned(), Secret::new("hunter2"))]),
            cwd: None,
        };
        let shown = format!("{:?}", Settings::new("a", Ok(target)));
        assert!(!shown.contains("hunter2") && shown.contains("***"), "{shown}");
    }

    #[test]
    fn a_tool_may_differ_from_its_server() {
        let mut settings = Settings::new("a", Err(String::new()));
        let slow = ToolSettings { call_timeout: Some(Duration::from_secs(900)), ..ToolSettings::default() };
        settings.tools.insert("slow".to_owned(), slow);
        assert_eq!(settings.timeouts_for("fast"), (Duration::from_secs(30), Duration::from_secs(300)));
        assert_eq!(settings.timeouts_for("slow"), (Duration::from_secs(900), Duration::from_secs(900)));
        let text = ToolSettings { parses_json: Some(false), ..ToolSettings::default() };
        settings.tools.insert("text".to_owned(), text);
        assert!(settings.parses_json("slow") && !settings.parses_json("text"));
        settings.parses_json = false;
        assert!(!settings.parses_json("slow"));
    }
}
