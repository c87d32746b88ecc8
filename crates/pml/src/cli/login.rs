//! `pml server login` and `logout`: the user at the browser, pml at the terminal.

use std::{
    io::{self, BufRead, Write},
    process::{ExitCode, Stdio},
    thread,
    time::Duration,
};

use pml_wire::ErrorCode;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{USAGE, cancel_on_signal, fail, print, tools::choose};
use crate::{
    config::{self, Config},
    error::Error,
    shown::visible,
    upstream::{
        Grant, Secret, Settings,
        oauth::{self, Begun, Callbacks, Login, Logins, Reply},
    },
};

/// How long the user may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long it may take to find out how to log in.
const BEGIN: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The server, as pml.toml calls it
    name: String,
    /// Only print the address, and open no browser
    #[arg(long)]
    no_browser: bool,
    /// The id under which the authorization server knows pml [default: register]
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// The variable that holds the secret that goes with the id
    #[arg(long, value_name = "VARIABLE", requires = "client_id")]
    client_secret_env: Option<String>,
    /// What to ask for [may be repeated; default: what the server names]
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    /// The port on this machine to which the browser comes back [default: any free one]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Print one JSON object when it is done
    #[arg(long)]
    json: bool,
}

pub(super) async fn login(args: Args, mut config: Config) -> ExitCode {
    let is_json = args.json;
    if let Err(err) = choose(&mut config, &args.name) {
        return fail(&err, USAGE);
    }
    let Some(mut settings) = config.servers.pop() else { return ExitCode::from(USAGE) };
    match log_in(args, &mut settings, &config).await {
        Ok(login) => {
            let _ = match is_json {
                true => {
                    let mut value = to_json(&login);
                    value["server"] = login.server().into();
                    print::json(&value)
                }
                false => writeln!(io::stdout(), "{}: {}", login.server(), to_text(&login)),
            };
            ExitCode::SUCCESS
        }
        Err(mut err) => {
            err.message = settings.mask(err.message);
            fail(&err, if err.code == ErrorCode::ConfigInvalid { USAGE } else { 1 })
        }
    }
}

async fn log_in(args: Args, settings: &mut Settings, config: &Config) -> Result<Login, Error> {
    let Some(folder) = &config.data_dir else {
        let err = Error::new(ErrorCode::ConfigInvalid, "there is no data folder in which a login could be kept");
        return Err(err.with_hint("name one with --data-dir"));
    };
    let oauth = &mut settings.oauth;
    if let Some(id) = args.client_id {
        oauth.client_secret = None;
        oauth.client_id = Some(id);
    }
    if let Some(variable) = args.client_secret_env {
        let message = format!("the variable `{variable}` is not set");
        let secret = config::named_variable(&variable).ok_or_else(|| Error::new(ErrorCode::ConfigInvalid, message))?;
        settings.masked.push(Secret::new(&secret));
        oauth.client_secret = Some(Secret::new(secret));
    }
    if !args.scope.is_empty() {
        oauth.scopes = args.scope;
    }
    let port = args.port.or(oauth.callback_port);
    let interrupt = CancellationToken::new();
    drop(cancel_on_signal(interrupt.clone()));
    let client = config.network.client()?;
    let late = |_| failed(format!("how to log in was not found out within {BEGIN:?}"));
    let login = if settings.oauth.grant == Grant::ClientCredentials {
        tokio::select! {
            () = interrupt.cancelled() => return Err(cancelled()),
            login = timeout(BEGIN, oauth::begin_alone(&client, settings)) => login.map_err(late)??,
        }
    } else {
        let callbacks = Callbacks::listen(port).await.map_err(|err| cannot_listen(port, err))?;
        let begun = tokio::select! {
            () = interrupt.cancelled() => return Err(cancelled()),
            begun = timeout(BEGIN, oauth::begin(&client, settings, callbacks)) => begun.map_err(late)??,
        };
        invite(&begun, !args.no_browser && config::has_display());
        wait(begun, &interrupt).await?
    };
    Logins::new(folder)
        .save(login.clone())
        .await
        .map_err(|err| failed(format!("the login cannot be kept in `{}`: {err}", folder.display())).caused_by(err))?;
    Ok(login)
}

fn failed(message: String) -> Error {
    Error::new(ErrorCode::LoginFailed, message)
}

fn cancelled() -> Error {
    Error::new(ErrorCode::Cancelled, "the login was cancelled")
}

fn cannot_listen(port: Option<u16>, err: io::Error) -> Error {
    match (port, err.kind()) {
        (Some(port), io::ErrorKind::AddrInUse) => {
            Error::new(ErrorCode::ConfigInvalid, format!("port {port} is in use by another program"))
                .with_hint("end that program, or take another port: --port")
        }
        (Some(port), _) => Error::new(ErrorCode::ConfigInvalid, format!("port {port} cannot be listened on: {err}")),
        (None, _) => failed(format!("no port of this machine can be listened on: {err}")),
    }
    .caused_by(err)
}

/// Shows the user where to log in.
fn invite(begun: &Begun, with_browser: bool) {
    let mut stderr = io::stderr().lock();
    let opening = if with_browser && open_browser(begun.address()) { " (a browser should open)" } else { "" };
    // If stderr is closed there is nobody to tell; the browser may be enough.
    let _ = writeln!(stderr, "log in on this page{opening}:\n\n  {}\n", visible(begun.address()));
    let _ = writeln!(stderr, "if the browser is on another machine, paste the address here that it ends at");
}

/// Waits for the user, at most for [`PATIENCE`].
async fn wait(mut begun: Begun, interrupt: &CancellationToken) -> Result<Login, Error> {
    let mut lines = stdin_lines();
    let answered = async {
        loop {
            tokio::select! {
                reply = begun.reply() => return reply,
                Some(line) = lines.recv() => match begun.pasted(&line) {
                    Some(reply) => return reply,
                    None if line.trim().is_empty() => {}
                    None => {
                        let _ = writeln!(io::stderr(), "this is not the answer to this login; paste the whole address");
                    }
                },
            }
        }
    };
    let reply: Result<Reply, Error> = tokio::select! {
        () = interrupt.cancelled() => Err(cancelled()),
        reply = timeout(PATIENCE, answered) => {
            reply.map_err(|_| failed(format!("nobody logged in within {} minutes", PATIENCE.as_secs() / 60)))
        }
    };
    match reply {
        Ok(reply) => begun.finish(reply).await,
        Err(err) => {
            begun.close().await;
            Err(err)
        }
    }
}

/// What is typed or pasted. The thread lives until pml ends: a read of a terminal cannot be ended.
fn stdin_lines() -> mpsc::Receiver<String> {
    let (lines, received) = mpsc::channel(1);
    let read = move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if lines.blocking_send(line).is_err() {
                break;
            }
        }
    };
    if let Err(err) = thread::Builder::new().spawn(read) {
        tracing::warn!(error = %err, "nothing can be typed");
    }
    received
}

/// Opens a page, if that is possible. Nothing depends on it.
fn open_browser(address: &str) -> bool {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    #[expect(clippy::disallowed_methods, reason = "the user's browser, with all that it needs of the environment")]
    let mut command = std::process::Command::new(program);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C is meant for pml.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    match command.spawn() {
        Ok(mut child) => {
            // Without a thread it is reaped when pml has ended.
            let _ = thread::Builder::new().spawn(move || child.wait());
            true
        }
        Err(err) => {
            tracing::debug!(error = %err, "no browser opens");
            false
        }
    }
}

pub(super) async fn logout(name: &str, config: &Config) -> ExitCode {
    let is_known = config.servers.iter().any(|server| server.name == name);
    let removed = match &config.data_dir {
        Some(folder) => Logins::new(folder).remove(name).await,
        None => Ok(false),
    };
    let message = match removed {
        Ok(true) => format!("the login at `{name}` is forgotten here; the server may honour its token until it ends"),
        Ok(false) if is_known => format!("nobody is logged in at `{name}`"),
        // The error says which servers there are.
        Ok(false) => match choose(&mut config.clone(), name) {
            Err(err) => return fail(&err, USAGE),
            Ok(()) => String::new(),
        },
        Err(err) => return fail(&failed(format!("the logins cannot be changed: {err}")).caused_by(err), 1),
    };
    let _ = writeln!(io::stderr(), "{message}");
    ExitCode::SUCCESS
}

/// The login at a server, if there is one that can be read.
pub(super) fn shown(config: &Config, settings: &Settings) -> Option<Login> {
    match Logins::new(config.data_dir.as_deref()?).find(settings) {
        Ok(login) => login,
        Err(err) => {
            tracing::warn!(error = %err, "the logins cannot be read");
            None
        }
    }
}

pub(super) fn to_json(login: &Login) -> Value {
    json!({
        "issuer": login.issuer(), "scopes": login.scopes, "expires_at": login.expires_at(),
        "renewable": login.is_renewable(),
    })
}

pub(super) fn to_text(login: &Login) -> String {
    let issuer = login.issuer().map(|issuer| format!(" by {}", visible(issuer))).unwrap_or_default();
    let end = match (login.remaining(), login.is_renewable()) {
        (None, _) => String::new(),
        (Some(Duration::ZERO), true) => ", to be renewed with the next call".to_owned(),
        (Some(Duration::ZERO), false) => ", but that is over: log in again".to_owned(),
        (Some(left), true) => format!(", for {} more, then renewed", print::rough(left)),
        (Some(left), false) => format!(", for {} more", print::rough(left)),
    };
    format!("logged in{issuer}{end}")
}
