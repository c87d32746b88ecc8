//! Keeping traces: the store, the sanitizer in front of it, and the way to a collector.

use std::{path::Path, sync::Arc};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::network::Network;
use crate::{
    error::Error,
    trace::{
        Keeper, Sink,
        export::exporter,
        sanitize::Rules,
        store::{
            self, RawStore, SqliteStore, Store,
            postgres::{Address, PostgresStore},
        },
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
}

impl TraceSettings {
    /// Opens the store, in the background; `None` if none is wanted or there is no place for one.
    fn open(&self, data_dir: Option<&Path>) -> Option<Arc<dyn Store>> {
        let options = self.options.clone();
        match (self.enabled, &self.database, data_dir) {
            (false, ..) | (true, None, None) => None,
            (true, Some(address), _) => Some(Arc::new(PostgresStore::open(address.clone(), options))),
            (true, None, Some(folder)) => Some(Arc::new(SqliteStore::open(folder, options))),
        }
    }
}

/// Where the traces of this process go.
#[derive(Debug, Default)]
pub struct Traces {
    pub(super) sink: Option<Arc<dyn Sink>>,
    stop: CancellationToken,
    exporter: Option<JoinHandle<()>>,
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
        let store = settings.open(data_dir);
        if store.is_none() && exporter.is_none() {
            return Ok(Traces::default());
        }
        let raw = folder.filter(|_| settings.raw).map(|folder| RawStore::open(folder, settings.options.clone()));
        // Programs run without it, too.
        let keeper = Keeper::start(settings.rules.clone(), store, raw, exporter)
            .inspect_err(|err| tracing::warn!(error = %err, "traces are not kept"));
        Ok(Traces { sink: keeper.ok().map(|keeper| Arc::new(keeper) as Arc<dyn Sink>), stop, exporter: task })
    }

    /// Hands all traces to somebody else.
    pub fn to(sink: Arc<dyn Sink>) -> Traces {
        Traces { sink: Some(sink), ..Traces::default() }
    }

    /// Sends what waits to be sent, once.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        if let Some(exporter) = self.exporter
            && let Err(err) = exporter.await
        {
            tracing::error!(error = %err, "the way to the collector did not end as it should");
        }
    }
}
