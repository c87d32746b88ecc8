//! `pml server`: the servers in `pml.toml`, and how they are.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Subcommand;
use pml_wire::ErrorCode;
use serde_json::{Map, Value, json};

use super::{
    USAGE, changes, fail,
    import::Common,
    login, print, starting,
    tools::{choose, no_servers},
    trust, with_servers,
};
use crate::{
    catalog::nearest,
    clients::{self, Document, Format},
    config::{self, Config, File},
    error::Error,
    shown::visible,
    upstream::{HealthState, Isolation, Settings, Target},
};

#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// Add a server to pml.toml: a command behind `--`, or an address
    #[command(
        after_help = "Examples:\n  pml server add time -- uvx mcp-server-time\n  pml server add github --env GITHUB_TOKEN='${GITHUB_TOKEN}' -- npx -y @example/github\n  pml server add remote https://example.org/mcp --header 'Authorization: Bearer ${TOKEN}'"
    )]
    Add {
        /// What to call it; programs write mcp.NAME
        name: String,
        /// The address, or a command without options
        #[arg(value_name = "URL", required_unless_present = "command")]
        target: Vec<String>,
        /// The command and its arguments
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<String>,
        /// A variable for the command, NAME=VALUE; the value may be ${NAME} [may be repeated]
        #[arg(long, value_name = "NAME=VALUE")]
        env: Vec<String>,
        /// A header for the address, 'NAME: VALUE' [may be repeated]
        #[arg(long, value_name = "HEADER")]
        header: Vec<String>,
        /// How to speak to the address: http or sse [default: find out]
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// Add it to the pml.toml of this folder instead of your own
        #[arg(long)]
        project: bool,
    },
    /// Remove a server from pml.toml
    Remove {
        name: String,
        /// Remove it from the pml.toml of this folder instead of your own
        #[arg(long)]
        project: bool,
    },
    /// Log in at a remote server that wants it
    Login(login::Args),
    /// Forget the login at a remote server
    Logout { name: String },
    /// List the servers that are configured, without starting them
    List {
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Start the servers and show how they are
    Status {
        /// Only this one
        name: Option<String>,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
}

/// Does what changes the file, which need not be right for that. `None` for what only reads it.
pub(super) fn edit(what: &What, common: Common<'_>) -> Option<ExitCode> {
    let edited = match what {
        What::Add { name, target, command, env, header, kind, project } => {
            let is_command = !command.is_empty();
            let target = &[target.as_slice(), command].concat();
            let new = New { name, target, is_command, env, headers: header, kind: kind.as_deref() };
            let changed = change(*project, common, |document| new.add(document));
            changed.map(|path| format!("server `{name}` is in {path}"))
        }
        What::Remove { name, project } => change(*project, common, |document| remove(document, name))
            .map_err(|err| if *project { err } else { elsewhere(err, name, common) })
            .map(|path| format!("server `{name}` is no longer in {path}")),
        What::List { .. } | What::Status { .. } | What::Login(_) | What::Logout { .. } => return None,
    };
    Some(match edited {
        Ok(message) => {
            let _ = writeln!(io::stderr(), "{message}");
            ExitCode::SUCCESS
        }
        Err(err) => fail(&err, USAGE),
    })
}

pub(super) async fn run(what: What, mut config: Config) -> ExitCode {
    match what {
        What::Login(args) => Box::pin(login::login(args, config)).await,
        What::Logout { name } => login::logout(&name, &config).await,
        What::List { json } => match list(&config, json) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        What::Status { name, json } => {
            if let Some(name) = name
                && let Err(err) = choose(&mut config, &name)
            {
                return fail(&err, USAGE);
            }
            if config.servers.is_empty() {
                return fail(&no_servers(), USAGE);
            }
            match status(&config, json).await {
                Ok(true) => ExitCode::SUCCESS,
                Ok(false) => ExitCode::FAILURE,
                Err(err) => fail(&err, USAGE),
            }
        }
        // Done before the configuration was read.
        What::Add { .. } | What::Remove { .. } => ExitCode::SUCCESS,
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::ConfigInvalid, message)
}

/// Changes the user's own file, the one that is named, or the project's, if the result is a configuration. The file's
/// path, for a message.
fn change(
    is_project: bool,
    common: Common<'_>,
    work: impl FnOnce(&mut Document) -> Result<(), Error>,
) -> Result<String, Error> {
    let path = match is_project {
        true => project_file(common)?,
        false => config::own_file(common.config)?,
    };
    let shown = path.display().to_string();
    let before = clients::read(&path)?;
    let text = before.clone().unwrap_or_default();
    if let (true, Some(text)) = (is_project, &before) {
        check_trust(&path, text, common)?;
    }
    let document = Document::parse(Format::Toml, &text);
    let mut document = document.map_err(|mistake| invalid(format!("in `{shown}`: {mistake}")))?;
    work(&mut document)?;
    let after = document.text().to_owned();
    config::check_text(&after).map_err(|message| invalid(format!("`{shown}` is not changed: {message}")))?;
    // There may be a token in the user's own; the project's is for everybody who has the folder.
    clients::write(&path, &after, if is_project { 0o644 } else { 0o600 }, false)?;
    match (is_project, before) {
        // Whoever has pml make a file trusts what is in it.
        (true, None) => trust::store(common)?.put(&path, &after)?,
        _ => changes::follow_edit(common.data_dir, &path, &text, &after)?,
    }
    Ok(shown)
}

fn project_file(common: Common<'_>) -> Result<PathBuf, Error> {
    if config::is_file_named(common.config) {
        let err = invalid("--project is the pml.toml of this folder, but another file is named");
        return Err(err.with_hint("leave out --config and $PML_CONFIG, or leave out --project"));
    }
    config::project_place().ok_or_else(|| invalid("this folder is gone"))
}

/// A change must not make the rest of a file trusted.
fn check_trust(path: &Path, text: &str, common: Common<'_>) -> Result<(), Error> {
    match trust::store(common)?.find(path)? {
        Some(record) if record.covers(text) => Ok(()),
        _ => {
            let message = format!("`{}` is not trusted, and not changed", path.display());
            Err(invalid(message).with_hint("`pml trust` shows what is in it, and asks whether you trust it"))
        }
    }
}

/// The error about a server that the user's own file does not have, where the project's has it.
fn elsewhere(err: Error, name: &str, common: Common<'_>) -> Error {
    let place = config::project_place().filter(|_| !config::is_file_named(common.config));
    let text = place.as_deref().and_then(|path| config::read_project(path).ok().flatten());
    match text.and_then(|text| File::parse(&text).ok()) {
        Some(file) if file.servers.contains_key(name) => {
            err.with_hint(format!("`pml server remove --project {name}` removes it from this folder's pml.toml"))
        }
        _ => err,
    }
}

/// The key of servers.
fn keys() -> [String; 1] {
    ["servers".to_owned()]
}

/// What could not be written, as users see it.
fn unwritten(mistake: clients::Mistake) -> Error {
    invalid(format!("`servers`: {mistake}"))
}

struct New<'a> {
    name: &'a str,
    target: &'a [String],
    /// It stands behind `--`.
    is_command: bool,
    env: &'a [String],
    headers: &'a [String],
    kind: Option<&'a str>,
}

impl New<'_> {
    fn add(&self, document: &mut Document) -> Result<(), Error> {
        config::check_name(self.name).map_err(invalid)?;
        let servers = document.servers(&keys()).map_err(unwritten)?;
        if servers.iter().any(|(name, _)| name == self.name) {
            let hint = format!("remove it first: `pml server remove {}`", self.name);
            return Err(invalid(format!("server `{}` is there already", self.name)).with_hint(hint));
        }
        let pairs = |texts: &[String], separator: char, example: &str| {
            let mut table = Map::new();
            for text in texts {
                let (key, text) = text
                    .split_once(separator)
                    .filter(|(key, _)| !key.trim().is_empty())
                    .ok_or_else(|| invalid(format!("`{text}` must be written as {example}")))?;
                table.insert(key.trim().to_owned(), text.trim_start().into());
            }
            Ok::<_, Error>(Value::Object(table))
        };
        let mut table = Map::new();
        let mut set = |key: &str, value: Value| drop(table.insert(key.to_owned(), value));
        match self.target {
            [url] if url.starts_with("http://") || url.starts_with("https://") => {
                set("url", json!(url));
                if !self.headers.is_empty() {
                    set("headers", pairs(self.headers, ':', "'Name: value'")?);
                }
                if !self.env.is_empty() {
                    return Err(invalid("--env is for commands; an address has --header"));
                }
            }
            [command] if command.contains(char::is_whitespace) => {
                let hint = "write the command and its arguments one by one, without quotes around all of them";
                return Err(invalid(format!("`{command}` is one word with spaces in it")).with_hint(hint));
            }
            [command, ..] if command.starts_with("http") && command.contains("//") => {
                return Err(invalid(format!("`{command}` is no address: it must begin with http:// or https://")));
            }
            [address] if !self.is_command && is_address(address) => {
                let hint = format!("write https://{address}, or http://{address}; a command goes behind `--`");
                return Err(
                    invalid(format!("`{address}` looks like an address without http:// or https://")).with_hint(hint)
                );
            }
            [command, args @ ..] => {
                set("command", json!(command));
                if !args.is_empty() {
                    set("args", json!(args));
                }
                if !self.env.is_empty() {
                    set("env", pairs(self.env, '=', "NAME=VALUE")?);
                }
                if !self.headers.is_empty() {
                    return Err(invalid("--header is for addresses; a command has --env"));
                }
            }
            [] => return Err(invalid("a command or an address is missing")),
        }
        if let Some(kind) = self.kind {
            set("type", json!(kind));
        }
        document.set(&keys(), self.name, &Value::Object(table)).map_err(unwritten)
    }
}

/// Is a word an address rather than a command: a host with a dot or a port, and maybe a path behind it?
fn is_address(word: &str) -> bool {
    let host = word.split(['/', '?']).next().unwrap_or_default();
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let is_port = port.is_some_and(|port| !port.is_empty() && port.chars().all(|c| c.is_ascii_digit()));
    let is_host = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
    let has_domain = name.trim_matches('.').contains('.') && word.contains('/');
    is_host && !name.starts_with('.') && (is_port || has_domain) && !Path::new(word).exists()
}

fn remove(document: &mut Document, name: &str) -> Result<(), Error> {
    if document.remove(&keys(), name).map_err(unwritten)? {
        return Ok(());
    }
    let known = document.servers(&keys()).map_err(unwritten)?;
    let err = invalid(format!("there is no server `{name}`"));
    Err(match nearest(name, known.iter().map(|(name, _)| name.as_str())).first() {
        Some(near) => err.with_hint(format!("did you mean `{near}`?")),
        None => err,
    })
}

/// What a server is, without secrets.
fn describe(settings: &Settings) -> (&'static str, String) {
    match &settings.target {
        Ok(Target::Stdio { command, args, .. }) => {
            let args = args.iter().map(|arg| format!(" {}", arg.reveal()));
            let line: String = std::iter::once(command.clone()).chain(args).collect();
            ("stdio", visible(&settings.mask(line)).into_owned())
        }
        Ok(Target::Http { url, .. }) => {
            // The rest of an address may hold a token.
            let address = reqwest::Url::parse(url.reveal());
            let shown = address.map_or_else(|_| "(no address)".to_owned(), |url| url.origin().ascii_serialization());
            ("http", shown)
        }
        Err(why) => ("-", visible(why).into_owned()),
    }
}

fn list(config: &Config, as_json: bool) -> io::Result<()> {
    let servers = &config.servers;
    let mut stdout = io::stdout().lock();
    if as_json {
        let servers: Vec<_> = servers
            .iter()
            .map(|server| {
                let (transport, target) = describe(server);
                let login = login::shown(config, server).map(|login| login::to_json(&login));
                json!({ "name": server.name, "transport": transport, "target": target, "login": login })
            })
            .collect();
        return print::json(&json!({ "servers": servers }));
    }
    if servers.is_empty() {
        let mut stderr = io::stderr();
        return writeln!(stderr, "no MCP server is configured; `pml server add --help` shows how");
    }
    let width = servers.iter().map(|server| server.name.chars().count()).max().unwrap_or(0);
    for server in servers {
        let (transport, target) = describe(server);
        let isolation = if server.isolation == Isolation::PerCall { ", a process per call" } else { "" };
        let login = login::shown(config, server).map(|login| format!(", {}", login::to_text(&login)));
        let login = login.unwrap_or_default();
        writeln!(stdout, "{:<width$}  {transport:<5}  {target}{isolation}{login}", server.name)?;
    }
    Ok(())
}

/// Starts all and prints a table. Are all well?
async fn status(config: &Config, as_json: bool) -> Result<bool, Error> {
    with_servers(config, async |services, interrupt| {
        let mut started = starting::all(services.servers.all(), &interrupt).await;
        started.sort_by(|one, other| one.server.settings().name.cmp(&other.server.settings().name));
        let snapshot = services.catalog.snapshot();
        let mut rows = Vec::new();
        for start in &started {
            let name = start.server.settings().name.clone();
            let tools = snapshot.listing(&name).map_or(0, |listing| listing.tools.len());
            rows.push((name, start.server.health(), tools, start, login::shown(config, start.server.settings())));
        }
        let all_well =
            rows.iter().all(|(_, health, ..)| health.state == HealthState::Healthy) && !interrupt.is_cancelled();
        let mut stdout = io::stdout().lock();
        if as_json {
            let servers: Vec<_> = rows
                .iter()
                .map(|(name, health, tools, start, login)| {
                    let code = start.result.as_ref().err().map(|failure| failure.code);
                    json!({
                        "name": name, "health": health, "tools": tools, "code": code,
                        "login": login.as_ref().map(login::to_json),
                        "start_ms": (start.duration.as_secs_f64() * 1e3).round(),
                    })
                })
                .collect();
            let _ = print::json(&json!({ "servers": servers }));
            return all_well;
        }
        let width = rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0).max(6);
        let _ = writeln!(
            stdout,
            "{:<width$}  {:<11}  {:<9}  {:<10}  {:>5}  START",
            "SERVER", "STATE", "TRANSPORT", "PROTOCOL", "TOOLS"
        );
        for (name, health, tools, start, login) in &rows {
            let _ = writeln!(
                stdout,
                "{name:<width$}  {:<11}  {:<9}  {:<10}  {tools:>5}  {}",
                health.state.as_str(),
                health.transport.unwrap_or("-"),
                health.protocol_version.unwrap_or("-"),
                print::duration(start.duration),
            );
            if let Some(login) = login {
                let _ = writeln!(stdout, "  {}", login::to_text(login));
            }
            if let Err(failure) = &start.result {
                let _ = writeln!(stdout, "  {}", visible(&failure.message).replace('\n', "\n  "));
            }
        }
        all_well
    })
    .await
}
