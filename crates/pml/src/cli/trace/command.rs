//! The commands, and what they have in common.

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use clap::Subcommand;
use pml_wire::{ErrorCode, ExecutionId};

use super::{super::USAGE, super::fail, delete, export, list, moment, show, stats, sync};
use crate::{
    config::{self, Config},
    error::Error,
    files::Problem,
    hub::{archive::HubArchive, client::HubClient},
    trace::store::{self, Archive, Filter, Found, Options, Reading, SqliteStore, Store, postgres::PostgresStore},
};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum What {
    /// List executions, the newest first: `pml trace list --since today`
    List(list::Args),
    /// Show one execution: what it called, when, for how long, and what went wrong
    Show(show::Args),
    /// Count: calls, failures and times of each tool, and tokens that stayed out of the model's context
    Stats(stats::Args),
    /// Write traces to stdout, one JSON object per line, in the order in which they were stored
    Export(export::Args),
    /// Delete traces from this machine
    Delete(delete::Args),
    /// Deliver traces to the configured hub now, or see what waits to be delivered
    Sync(sync::Args),
}

/// Which traces a command is about.
#[derive(Debug, clap::Args)]
pub(super) struct Selection {
    /// Only executions that failed
    #[arg(long)]
    failed: bool,

    /// Only executions that called a tool like this, such as `github:*`
    #[arg(long, value_name = "GLOB")]
    tool: Option<String>,

    /// Only executions that began then or later: 30m, 1h, 2d, today, 2026-01-31, or RFC 3339
    #[arg(long, value_name = "T")]
    since: Option<String>,

    /// Only executions of clients or callers whose name contains this
    #[arg(long, value_name = "N")]
    client: Option<String>,

    /// Only executions whose intent contains this
    #[arg(long, value_name = "TEXT")]
    intent: Option<String>,

    #[command(flatten)]
    pub(super) hub: HubArgs,
}

/// Whose traces a command is about: those of this machine, or those of a hub.
#[derive(Debug, Default, clap::Args)]
pub(in crate::cli) struct HubArgs {
    /// Read the traces of a hub, with PML_HUB_KEY or the configured key
    #[arg(long, value_name = "URL")]
    hub: Option<String>,
}

impl HubArgs {
    pub(in crate::cli) fn is_named(&self) -> bool {
        self.hub.is_some()
    }

    /// The traces of the hub that was named; `None` if none was.
    pub(in crate::cli) fn archive(&self, config: &Config) -> Result<Option<HubArchive>, Error> {
        let Some(text) = &self.hub else { return Ok(None) };
        let wrong = |message: String| Error::new(ErrorCode::ConfigInvalid, message);
        let url = config::hub_url("--hub", text).map_err(wrong)?;
        // A key that was given for one hub is not shown to another.
        let configured = config.hub.sync.as_ref().filter(|hub| hub.url.origin() == url.origin());
        let key = config::hub_key().or_else(|| configured.map(|hub| hub.key.clone())).ok_or_else(|| {
            let hint = "set PML_HUB_KEY, or `hub.url` and `hub.key` in pml.toml";
            wrong(format!("there is no key for the hub `{url}`")).with_hint(hint)
        })?;
        let client = HubClient::new(config.network.strict_client(&url)?, url, &key);
        let client = client.ok_or_else(|| wrong("the key of the hub is no text of a header".to_owned()))?;
        Ok(Some(HubArchive::new(client)))
    }
}

impl Selection {
    pub(super) fn filter(&self) -> Result<Filter, Error> {
        Ok(Filter {
            failed: self.failed,
            tool: self.tool.clone(),
            since: self.since.as_deref().map(|text| moment::parse("--since", text)).transpose()?,
            before: None,
            client: self.client.clone(),
            intent: self.intent.clone(),
            capability: None,
        })
    }
}

/// Why a command ends early.
pub(super) enum Stop {
    /// Exit code 1.
    Failed(Error),
    /// Exit code 2.
    Usage(Error),
    /// Nobody reads the output any more.
    Closed,
}

impl From<store::StoreError> for Stop {
    fn from(err: store::StoreError) -> Stop {
        Stop::Failed(err.into())
    }
}

impl From<io::Error> for Stop {
    fn from(err: io::Error) -> Stop {
        match err.kind() {
            io::ErrorKind::BrokenPipe => Stop::Closed,
            _ => {
                let message = format!("the output cannot be written: {err}");
                Stop::Failed(Error::new(ErrorCode::TraceStoreFailed, message).caused_by(err))
            }
        }
    }
}

pub(in crate::cli) async fn run(what: What, config: &Config) -> ExitCode {
    let Some(data_dir) = &config.data_dir else {
        let message = "there is no folder in which traces could be";
        return fail(&Error::new(ErrorCode::ConfigInvalid, message).with_hint("name one with --data-dir"), USAGE);
    };
    let done = match what {
        What::List(args) => list::run(&args, config, data_dir).await,
        What::Show(args) => show::run(&args, config, data_dir).await,
        What::Stats(args) => stats::run(&args, config, data_dir).await,
        What::Export(args) => export::run(&args, config, data_dir).await,
        What::Delete(args) => delete::run(&args, config, data_dir).await,
        What::Sync(args) => sync::run(&args, config, data_dir).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Failed(err)) => fail(&err, 1),
        Err(Stop::Usage(err)) => fail(&err, USAGE),
        Err(Stop::Closed) => ExitCode::FAILURE,
    }
}

/// The traces that a command is about; `None` if nothing was ever stored on this machine.
pub(super) async fn open_archive(
    hub: &HubArgs,
    config: &Config,
    data_dir: &Path,
) -> Result<Option<Arc<dyn Archive>>, Stop> {
    if let Some(archive) = hub.archive(config).map_err(Stop::Usage)? {
        return Ok(Some(Arc::new(archive)));
    }
    if config.traces.database.is_none()
        && let Some((path, problem)) = store::problem(data_dir)
        && !matches!(problem, Problem::Readable(_) | Problem::Writable(_))
    {
        return Err(Stop::Failed(problem.of(&path)));
    }
    Ok(open(config, data_dir).await.map(|store| store as Arc<dyn Archive>))
}

/// The store that is configured; `None` if nothing was ever stored in the data folder. Executions of processes that have died
/// are found first, so that they are seen.
pub(super) async fn open(config: &Config, data_dir: &Path) -> Option<Arc<dyn Store>> {
    if let Some(address) = &config.traces.database {
        let options = config.traces.options.clone();
        let store = PostgresStore::open(address.clone(), Options { journal: Some(data_dir.to_owned()), ..options });
        store.opened().await;
        return Some(Arc::new(store));
    }
    if !store::is_there(data_dir) && store::problem(data_dir).is_none() {
        return None;
    }
    let store = SqliteStore::open(data_dir, config.traces.options.clone());
    store.opened().await;
    Some(Arc::new(store))
}

/// Says why there is nothing to see.
pub(super) fn say_none(config: &Config) {
    let why = match config.traces.enabled {
        true => "no traces yet; every `execute_code`, tool call and `pml run` leaves one",
        false => "no traces: `trace.enabled` is false",
    };
    let _ = writeln!(io::stderr(), "{why}");
}

/// The trace that a user means: an id, the beginning of one, or `last`.
pub(super) async fn find(store: Option<&dyn Archive>, text: &str) -> Result<ExecutionId, Stop> {
    let unknown = || {
        let message = format!("no stored trace has an id that begins with `{text}`");
        let hint = "`pml trace list` shows the ids; older traces may have been deleted";
        Stop::Failed(Error::new(ErrorCode::TraceNotFound, message).with_hint(hint))
    };
    if text == "last" {
        let none = || Stop::Failed(Error::new(ErrorCode::TraceNotFound, "there are no traces yet"));
        let newest = store.ok_or_else(none)?.list(Filter::default(), Reading::Newest, 1).await?;
        return newest.traces.first().map(|trace| trace.id).ok_or_else(none);
    }
    let Some(store) = store else { return Err(unknown()) };
    match store.find(text).await? {
        Found::One(id) => Ok(id),
        Found::Nothing => Err(unknown()),
        Found::Several(ids) => {
            let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
            let message = format!("several traces have an id that begins with `{text}`");
            let hint = format!("give more of it: {}", ids.join(", "));
            Err(Stop::Usage(Error::new(ErrorCode::TraceNotFound, message).with_hint(hint)))
        }
    }
}
