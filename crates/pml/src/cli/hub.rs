//! `pml hub`: a hub for the traces of many gateways, and its keys.

use std::{
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use clap::{Args as ClapArgs, Subcommand};
use pml_wire::{ErrorCode, trace::Timestamp};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{USAGE, cancel_on_signal, fail, print, serve};
use crate::{
    clock::now_millis,
    config::{self, Config},
    error::Error,
    hub::{
        Hub, HubSettings,
        keys::{self, NoKey},
        store::{HubStore, Key, KeyState, Permissions, PostgresHub, SqliteHub},
    },
    shown::visible,
    trace::store::{Scope, StoreError, check_name, postgres::Address},
};

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Args {
    #[command(subcommand)]
    what: Option<What>,

    /// Serve here, such as 127.0.0.1:7788 [port 0: any that is free]
    #[arg(long, value_name = "ADDRESS", value_parser = serve::address, required = true)]
    http: Option<SocketAddr>,

    /// Keep everything in this PostgreSQL database, postgres://USER@HOST/NAME, instead of the data folder; '${VAR}' is the
    /// value of a variable, so that no password is on the command line
    #[arg(long, value_name = "URL", global = true)]
    database: Option<String>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make, list and revoke API keys
    Key {
        #[command(subcommand)]
        what: KeyCommand,
    },
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Make a key and print it, once: nobody can find it out again
    Add {
        /// Who uses it: recorded with every trace that it delivers and every capability that it puts
        name: String,

        /// The organisation whose traces it is for; `local` is the gateway's own
        #[arg(long, value_name = "NAME")]
        org: String,

        /// The project whose traces it is for
        #[arg(long, value_name = "NAME")]
        project: String,

        /// What it permits: ingest, read, admin, or several with commas
        #[arg(long, value_name = "S", default_value = "ingest,read")]
        scope: Permissions,

        /// Days until it expires [default: never]
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=36500))]
        expires_days: Option<u64>,

        /// Print JSON: {"key": …}
        #[arg(long)]
        json: bool,
    },
    /// List keys; the keys themselves are not stored
    List {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key: from now on it opens nothing
    Revoke {
        name: String,

        /// Only the key of this organisation
        #[arg(long, value_name = "NAME", requires = "project")]
        org: Option<String>,

        /// Only the key of this project
        #[arg(long, value_name = "NAME", requires = "org")]
        project: Option<String>,
    },
}

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

pub(super) async fn run(args: Args, config: Config) -> ExitCode {
    let place = match args.database.as_deref().map(config::database).transpose() {
        Ok(database) => database.or_else(|| config.traces.database.clone()),
        Err(why) => return fail(&Error::new(ErrorCode::ConfigInvalid, format!("`--database` {why}")), USAGE),
    };
    let done = match (args.what, args.http) {
        (Some(What::Key { what }), _) => key(what, place, &config).await,
        (None, Some(address)) => serve_hub(address, place, &config).await,
        (None, None) => Ok(()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => fail(&err, USAGE),
    }
}

impl Args {
    /// Is this the hub itself, which works for many at once?
    pub(super) fn is_served(&self) -> bool {
        self.what.is_none()
    }
}

/// Opens the database of the hub.
async fn open(database: Option<Address>, config: &Config) -> Result<Arc<dyn HubStore>, Error> {
    if let Some(address) = database {
        let hub = PostgresHub::open(address, config.traces.options.clone());
        hub.opened().await;
        return well(hub);
    }
    let folder: &PathBuf = config.data_dir.as_ref().ok_or_else(|| {
        Error::new(ErrorCode::ConfigInvalid, "there is no folder for the hub").with_hint("name one with --data-dir")
    })?;
    let hub = SqliteHub::open(folder, config.traces.options.clone());
    hub.opened().await;
    well(hub)
}

/// A database that can be used.
fn well(hub: impl HubStore + 'static) -> Result<Arc<dyn HubStore>, Error> {
    let state = hub.health().state;
    match state.is_well() {
        true => Ok(Arc::new(hub)),
        false => Err(StoreError::Unavailable(state).into()),
    }
}

async fn serve_hub(address: SocketAddr, database: Option<Address>, config: &Config) -> Result<(), Error> {
    let store = open(database, config).await?;
    let failed = |err: io::Error| {
        Error::new(ErrorCode::ConfigInvalid, format!("the hub cannot listen on {address}: {err}")).caused_by(err)
    };
    serve::raise_file_limit();
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let local = listener.local_addr().map_err(failed)?;
    if !local.ip().is_loopback() {
        tracing::warn!("the hub can be reached from other machines without encryption; put a proxy with TLS before it");
    }
    let stop = CancellationToken::new();
    // Whoever reads that the hub listens may end it at once. If signals cannot be handled, they have their usual effect.
    let _ = cancel_on_signal(stop.clone()).await;
    let settings =
        HubSettings { requests_per_minute: config.hub.requests_per_minute, rules: config.traces.rules.clone() };
    let hub = Hub::new(store, settings);
    // If stderr is closed there is nobody to tell.
    let _ = writeln!(io::stderr(), "listening on http://{local}");
    hub.serve(listener, &stop, config.gateway.stop_grace).await.map_err(failed)
}

async fn key(what: KeyCommand, database: Option<Address>, config: &Config) -> Result<(), Error> {
    let wrong = |message: String| Error::new(ErrorCode::ConfigInvalid, message);
    let closed = |err: io::Error| Error::new(ErrorCode::ConfigInvalid, "nobody reads the output").caused_by(err);
    match what {
        KeyCommand::Add { name, org, project, scope, expires_days, json } => {
            check_name(&name).map_err(|err| wrong(err.to_string()))?;
            let now = now_millis();
            let key = Key {
                scope: scope_of_key(&org, &project)?,
                name: name.clone(),
                permissions: scope,
                created_at: Timestamp(now),
                expires_at: expires_days.map(|days| Timestamp(now + days * DAY_MS)),
                revoked_at: None,
            };
            let store = open(database, config).await?;
            let text = keys::add(&*store, key).await.map_err(|err| match err {
                NoKey::Taken => {
                    let message = format!("{org}.{project} has a key `{name}`, which is not revoked");
                    wrong(message)
                        .with_hint(format!("`pml hub key revoke {name} --org {org} --project {project}` revokes it"))
                }
                NoKey::Store(err) => err.into(),
                err => wrong(err.to_string()),
            })?;
            match json {
                true => {
                    print::json(&json!({"key": text, "name": name, "org": org, "project": project})).map_err(closed)
                }
                false => writeln!(io::stdout(), "{text}").map_err(closed),
            }
        }
        KeyCommand::List { json } => {
            let keys = open(database, config).await?.keys().list().await?;
            match json {
                true => print::json(&json!({"keys": keys.iter().map(to_json).collect::<Vec<_>>()})).map_err(closed),
                false => table(&keys).map_err(closed),
            }
        }
        KeyCommand::Revoke { name, org, project } => {
            let scope = match org.zip(project) {
                Some((org, project)) => Some(Scope::new(&org, &project).map_err(|err| wrong(err.to_string()))?),
                None => None,
            };
            let keys = open(database, config).await?.keys();
            let is_meant = |key: &Key| {
                key.name == name && key.revoked_at.is_none() && scope.as_ref().is_none_or(|scope| key.scope == *scope)
            };
            let scopes: Vec<_> = keys.list().await?.into_iter().filter(is_meant).map(|key| key.scope).collect();
            let [scope] = &scopes[..] else {
                if scopes.is_empty() {
                    return Err(wrong(format!("there is no key `{name}` that is not revoked already")));
                }
                let all: Vec<_> = scopes.iter().map(ToString::to_string).collect();
                let message = format!("there are {} keys `{name}`: of {}", scopes.len(), all.join(", "));
                return Err(wrong(message).with_hint("say which one with --org and --project"));
            };
            match keys.revoke(&name, Some(scope), now_millis()).await? {
                0 => Err(wrong(format!("there is no key `{name}` that is not revoked already"))),
                _ => writeln!(io::stdout(), "revoked the key `{name}` of {scope}").map_err(closed),
            }
        }
    }
}

/// What a key may be for: not what the gateway of the data folder keeps for itself.
fn scope_of_key(org: &str, project: &str) -> Result<Scope, Error> {
    let wrong = |message: String| Error::new(ErrorCode::ConfigInvalid, message);
    if org == Scope::local().org() {
        let message = "the organisation `local` is what a gateway keeps for itself; no key opens it".to_owned();
        return Err(wrong(message).with_hint("give your organisation a name of its own, such as --org acme"));
    }
    Scope::new(org, project).map_err(|err| wrong(err.to_string()))
}

fn state(key: &Key) -> &'static str {
    match key.state(now_millis()) {
        KeyState::Valid => "valid",
        KeyState::Expired => "expired",
        KeyState::Revoked => "revoked",
    }
}

fn to_json(key: &Key) -> Value {
    json!({
        "name": key.name, "org": key.scope.org(), "project": key.scope.project(), "scopes": key.permissions.to_string(),
        "state": state(key), "createdAt": key.created_at, "expiresAt": key.expires_at, "revokedAt": key.revoked_at,
    })
}

fn table(keys: &[Key]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{:<20}  {:<30}  {:<18}  STATE", "NAME", "ORG.PROJECT", "PERMITS")?;
    for key in keys {
        let expires = key.expires_at.map(|moment| format!(", until {moment}")).unwrap_or_default();
        writeln!(
            out,
            "{:<20}  {:<30}  {:<18}  {}{expires}",
            visible(&key.name),
            key.scope.to_string(),
            key.permissions.to_string(),
            state(key)
        )?;
    }
    Ok(())
}
