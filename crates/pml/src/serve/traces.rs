//! Keeping traces: the store, the sanitizer in front of it, and the way to a collector.

use std::{path::Path, sync::Arc};

use pml_wire::trace::Trace;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::network::Network;
use crate::{
    error::Error,
    learning::{self, Learning},
    trace::{
        Keeper, Receipt, Sink, TraceHead,
        export::exporter,
        sanitize::Rules,
        store::{self, RawStore, SqliteStore, Store},
    },
};

/// What is kept of executions, and where it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    pub enabled: bool,
    /// Are unsanitized traces kept too, in a file of their own?
    pub raw: bool,
    pub options: store::Options,
    /// What is removed besides the built-in kinds of secrets, and what stays.
    pub rules: Arc<Rules>,
    /// Where spans and metrics are sent, if anywhere.
    pub telemetry: Option<exporter::Settings>,
}

/// Where the traces of this process go.
#[derive(Debug, Default)]
pub struct Traces {
    pub(super) sink: Option<Arc<dyn Sink>>,
    /// Where they are kept.
    pub(super) store: Option<Arc<dyn Store>>,
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
        let store =
            folder.map(|folder| Arc::new(SqliteStore::open(folder, settings.options.clone())) as Arc<dyn Store>);
        if store.is_none() && exporter.is_none() {
            return Ok(Traces::default());
        }
        let raw = folder.filter(|_| settings.raw).map(|folder| RawStore::open(folder, settings.options.clone()));
        // Programs run without it, too.
        let kept = store.clone();
        let keeper = Keeper::start(settings.rules.clone(), store, raw, exporter)
            .inspect_err(|err| tracing::warn!(error = %err, "traces are not kept"));
        let sink = keeper.ok().map(|keeper| Arc::new(keeper) as Arc<dyn Sink>);
        Ok(Traces { sink, store: kept, stop, exporter: task })
    }

    /// Only reads what others have kept, if they have.
    pub fn reading(settings: &TraceSettings, data_dir: Option<&Path>) -> Traces {
        let is_there = |folder: &Path| store::is_there(folder) || learning::is_there(folder);
        let folder = data_dir.filter(|folder| settings.enabled && is_there(folder));
        let store =
            folder.map(|folder| Arc::new(SqliteStore::open(folder, settings.options.clone())) as Arc<dyn Store>);
        Traces { store, ..Traces::default() }
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
        if let Some(exporter) = self.exporter
            && let Err(err) = exporter.await
        {
            tracing::error!(error = %err, "the way to the collector did not end as it should");
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
    fn begin(&self, head: TraceHead) {
        self.sink.begin(head);
    }

    fn submit(&self, trace: Trace) -> Receipt {
        let receipt = self.sink.submit(trace);
        self.learning.nudge();
        receipt
    }
}
