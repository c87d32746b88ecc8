//! Keeping traces: the store, the sanitizer in front of it, and the way to a collector.

use std::{path::Path, sync::Arc};

use pml_wire::{ErrorCode, trace::Trace};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::network::Network;
use crate::{
    error::Error,
    hub::{
        client::HubClient,
        store::{HubStore, PostgresHub, SqliteHub},
        syncer::{SyncSettings, Syncer},
    },
    learning::{self, Learning},
    trace::{
        Keeper, Outlet, Receipt, Sink, TraceHead,
        export::exporter,
        sanitize::Rules,
        store::{self, RawStore, Scope, SqliteStores, Store, postgres::Address},
    },
};

/// What is kept of executions, and where it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    pub enabled: bool,
    /// Are unsanitized traces kept too, in a file of their own?
    pub raw: bool,
    /// The database that keeps them; without one, a file in the data folder.
    pub database: Option<Address>,
    pub options: store::Options,
    /// What is removed besides the built-in kinds of secrets, and what stays.
    pub rules: Arc<Rules>,
    /// Where spans and metrics are sent, if anywhere.
    pub telemetry: Option<exporter::Settings>,
    /// The hub that traces are delivered to, if any.
    pub hub: Option<SyncSettings>,
}

impl TraceSettings {
    /// Opens the database, in the background; `None` if none is wanted or there is no place for one.
    fn open(&self, data_dir: Option<&Path>) -> Option<Arc<dyn HubStore>> {
        let options = self.options.clone();
        match (self.enabled, &self.database, data_dir) {
            (false, ..) | (true, None, None) => None,
            (true, Some(address), folder) => {
                let options = store::Options { journal: folder.map(Path::to_owned), ..options };
                Some(Arc::new(PostgresHub::open(address.clone(), options)))
            }
            (true, None, Some(folder)) => Some(Arc::new(SqliteHub::of(SqliteStores::open(folder, options)))),
        }
    }
}

/// Where the traces of this process go.
#[derive(Debug, Default)]
pub struct Traces {
    pub(super) sink: Option<Arc<dyn Sink>>,
    /// Where traces are stored, if anywhere.
    stores: Option<Arc<dyn HubStore>>,
    stop: CancellationToken,
    exporter: Option<JoinHandle<()>>,
    syncer: Option<JoinHandle<()>>,
    /// The hub that traces are delivered to.
    pub(super) hub: Option<HubClient>,
}

impl Traces {
    /// Begins to keep and send traces, as far as that is wanted and there is a place for them.
    pub fn start(settings: &TraceSettings, data_dir: Option<&Path>, network: &Network) -> Result<Traces, Error> {
        let stop = CancellationToken::new();
        let (exporter, task) = match &settings.telemetry {
            None => (None, None),
            Some(settings) => {
                let (exporter, task) = exporter::start(settings.clone(), network.client()?, stop.clone());
                (Some(exporter), Some(tokio::spawn(task)))
            }
        };
        let folder = data_dir.filter(|_| settings.enabled);
        let stores = settings.open(data_dir);
        let store = stores.as_ref().map(|stores| stores.of(&Scope::local()));
        // One client for all that is asked of the hub.
        let hub = settings.hub.as_ref().map(|hub| client(hub, network)).transpose()?;
        let (nudge, syncer) = match settings.hub.clone().zip(hub.clone()).zip(store.clone()) {
            None => (None, None),
            Some(((settings, client), store)) => {
                let (nudge, task) = Syncer::new(settings, store, client).start(stop.clone());
                (Some(Arc::new(nudge) as Arc<dyn Outlet>), Some(tokio::spawn(task)))
            }
        };
        if store.is_none() && exporter.is_none() {
            return Ok(Traces::default());
        }
        let raw = folder.filter(|_| settings.raw).map(|folder| RawStore::open(folder, settings.options.clone()));
        // Programs run without it, too.
        let keeper = Keeper::start(settings.rules.clone(), store, raw, exporter, nudge)
            .inspect_err(|err| tracing::warn!(error = %err, "traces are not kept"));
        let sink = keeper.ok().map(|keeper| Arc::new(keeper) as Arc<dyn Sink>);
        Ok(Traces { sink, stores, stop, exporter: task, syncer, hub })
    }

    /// Only reads what others have kept, if they have.
    pub fn reading(settings: &TraceSettings, data_dir: Option<&Path>) -> Traces {
        let is_there = |folder: &Path| store::is_there(folder) || learning::is_there(folder);
        let has_any = settings.database.is_some() || data_dir.is_some_and(is_there);
        Traces { stores: settings.open(data_dir.filter(|_| has_any)), ..Traces::default() }
    }

    /// The traces of this process, if they are stored.
    pub(super) fn store(&self) -> Option<Arc<dyn Store>> {
        self.stores.as_ref().map(|stores| stores.of(&Scope::local()))
    }

    /// The data of a hub beside the traces of this process, if those are stored.
    pub fn hub_store(&self) -> Option<Arc<dyn HubStore>> {
        self.stores.clone()
    }

    /// Hands all traces to somebody else.
    pub fn to(sink: Arc<dyn Sink>) -> Traces {
        Traces { sink: Some(sink), ..Traces::default() }
    }

    /// Where traces go, with learning told of each.
    pub(super) fn told_to(&self, learning: &Learning) -> Option<Arc<dyn Sink>> {
        let sink = self.sink.clone()?;
        Some(Arc::new(Telling { sink, learning: learning.clone() }))
    }

    /// Sends what waits to be sent, once.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        for (task, what) in [(self.exporter, "the way to the collector"), (self.syncer, "the way to the hub")] {
            if let Some(task) = task
                && let Err(err) = task.await
            {
                tracing::error!(error = %err, "{what} did not end as it should");
            }
        }
    }
}

/// Tells learning that there is a trace to be read, and passes it on.
#[derive(Debug)]
struct Telling {
    sink: Arc<dyn Sink>,
    learning: Learning,
}

impl Sink for Telling {
    fn begin(&self, head: TraceHead) -> Receipt {
        self.sink.begin(head)
    }

    fn submit(&self, trace: Trace) -> Receipt {
        let receipt = self.sink.submit(trace);
        self.learning.nudge();
        receipt
    }

    fn health(&self) -> Option<store::Health> {
        self.sink.health()
    }

    fn making(&self) -> Option<CancellationToken> {
        self.sink.making()
    }
}

fn client(settings: &SyncSettings, network: &Network) -> Result<HubClient, Error> {
    HubClient::new(network.strict_client(&settings.url)?, settings.url.clone(), &settings.key)
        .ok_or_else(|| Error::new(ErrorCode::ConfigInvalid, "`hub.key` is no key of a hub"))
}

/// What delivers the traces of a store to a hub.
pub fn syncer(settings: SyncSettings, store: Arc<dyn Store>, network: &Network) -> Result<Syncer, Error> {
    let client = client(&settings, network)?;
    Ok(Syncer::new(settings, store, client))
}
