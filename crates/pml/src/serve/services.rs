//! Everything between programs and servers: built, and ended.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pml_wire::{ErrorCode, ToolId};
use tokio_util::task::TaskTracker;

use super::{network::Network, traces::Traces};
use crate::{
    audit::{Audit, Retention, ToolLine},
    broker::{Broker, CAPABILITIES, Parts, Policy},
    capability::{Registry, Runner, Saver},
    catalog::{Cache, Catalog, Change, Finder, LoadModel, Pins, built_in_model, load_model},
    clock::now_millis,
    error::Error,
    events::Bus,
    execution::Nested,
    hub::{client::HubClient, store::HubStore},
    learning::{self, Learning},
    room::Room,
    sandbox::Pool,
    trace::{Recorder, sanitize::Rules},
    upstream::{
        self, Context, Fleet, Settings, Starts, Target,
        oauth::{Logins, Remote},
    },
};

/// What to build.
#[derive(Debug)]
pub struct Options {
    /// pml itself, which keeps the processes of servers.
    pub program: PathBuf,
    pub servers: Vec<Settings>,
    pub policy: Policy,
    /// Where lists of tools, logins and the audit log are kept, if anywhere.
    pub data_dir: Option<PathBuf>,
    /// A stronger model for the search, or why it cannot be known where it is.
    pub model_dir: Option<Result<PathBuf, String>>,
    /// Does the built-in encoder read tools, where there is no other model?
    pub encoder: bool,
    /// Most memory for large results, of all servers and runs together.
    pub results_bytes: usize,
    /// How long the lines of the audit log are kept.
    pub retention: Retention,
    /// Most servers on this machine that start at the same time.
    pub max_starting: usize,
    /// How remote servers are reached.
    pub network: Network,
    /// Where traces go.
    pub traces: Traces,
    /// Are traces learned from?
    pub learns: bool,
    /// Are calls made ahead of programs?
    pub speculates: bool,
}

/// Everything between programs and servers.
#[derive(Debug)]
pub struct Services {
    pub broker: Arc<Broker>,
    pub catalog: Catalog,
    pub servers: Fleet,
    pub bus: Bus,
    /// Begins the records of executions.
    pub recorder: Recorder,
    pub(super) logins: Option<Logins>,
    pub(super) network: Network,
    /// What a server that is added needs.
    context: Mutex<Context>,
    pub(super) tasks: TaskTracker,
    traces: Traces,
}

impl Services {
    /// Builds everything. No server is started yet.
    pub fn start(options: Options) -> Result<Services, Error> {
        let Options {
            program,
            servers: settings,
            policy,
            data_dir,
            model_dir,
            encoder,
            results_bytes,
            retention,
            max_starting,
            network,
            traces,
            learns,
            speculates,
        } = options;
        let room = Room::new(results_bytes);
        let bus = Bus::default();
        let logins = data_dir.as_deref().map(Logins::new);
        let catalog = Catalog::new(settings.iter().map(|server| server.name.clone()));
        let audit = match &data_dir {
            Some(folder) => Audit::open(folder, retention).unwrap_or_else(|err| {
                tracing::warn!(error = %err, "there is no audit log");
                Audit::default()
            }),
            None => Audit::default(),
        };
        let audit = Arc::new(audit);
        let pins = Pins::new(data_dir.as_deref());
        let context = Context {
            program,
            catalog: catalog.clone(),
            cache: Cache::new(data_dir.as_deref()),
            pins: pins.clone(),
            bus: bus.clone(),
            audit: Arc::clone(&audit),
            remote: remote_for(&settings, logins.as_ref(), &network)?,
            room: room.clone(),
            starts: Starts::new(max_starting),
        };
        let tasks = TaskTracker::new();
        let servers = Fleet::new(settings.into_iter().map(|settings| {
            let (server, actor) = upstream::start(settings, context.clone());
            tasks.spawn(actor);
            server
        }));
        let finder = Finder::new(catalog.clone(), data_dir.as_deref(), loader(model_dir, encoder));
        let learning = match (&data_dir, traces.store()) {
            (Some(data_dir), Some(store)) if learns => {
                let (data_dir, hub) = (data_dir.clone(), traces.hub.clone());
                Learning::new(learning::Options { data_dir, store, finder: finder.clone(), hub })
            }
            _ => Learning::default(),
        };
        let recorder = Recorder::new(bus.clone(), Arc::clone(&audit), traces.told_to(&learning));
        let broker = Broker::new(Parts {
            catalog: catalog.clone(),
            finder,
            pins,
            servers: servers.clone(),
            policy,
            bus: bus.clone(),
            audit,
            recorder: recorder.clone(),
            room,
            learning,
            speculates,
        });
        let context = Mutex::new(context);
        Ok(Services {
            broker: Arc::new(broker),
            catalog,
            servers,
            bus,
            recorder,
            logins,
            network,
            context,
            tasks,
            traces,
        })
    }

    /// Starts, in the background, the servers that a program names: by the time of its first call
    /// they may be there. Nothing depends on it.
    pub fn anticipate(&self, code: &str) {
        for server in self.servers.named_in(code) {
            self.tasks.spawn(async move {
                // Why it did not start is said by the call that needs it.
                let _ = server.init().await;
            });
        }
    }

    /// Makes capabilities callable, now that there is a pool to run them in; `None` if traces are not stored, beside which they
    /// are kept. They are read when they are first needed.
    pub fn provide_capabilities(&self, pool: &Pool, rules: &Arc<Rules>) -> Option<Saver> {
        let registry = self.capabilities()?;
        let nested = Nested::new(pool.clone(), self.recorder.clone());
        self.broker.provide(CAPABILITIES, Arc::new(Runner::new(Arc::clone(&registry), nested)));
        Some(Saver { registry, catalog: self.catalog.clone(), pool: pool.clone(), rules: Arc::clone(rules) })
    }

    /// The capabilities that are kept beside the traces, if those are stored.
    pub fn capabilities(&self) -> Option<Arc<Registry>> {
        Some(Registry::new(&*self.hub_store()?, self.catalog.clone(), self.bus.clone()))
    }

    /// The hub that traces are delivered to, if there is one.
    pub fn hub(&self) -> Option<&HubClient> {
        self.traces.hub.as_ref()
    }

    /// The data of a hub beside the traces of this process, if those are stored.
    pub fn hub_store(&self) -> Option<Arc<dyn HubStore>> {
        self.traces.hub_store()
    }

    /// The tools that differ from what they were when they were first seen.
    pub fn changes(&self) -> Vec<Change> {
        self.context().pins.changes()
    }

    /// Accepts a tool as it is now, and writes that down. What had changed; `None` if nothing had.
    pub fn accept(&self, tool: &ToolId) -> io::Result<Option<Change>> {
        let context = self.context();
        let accepted = context.pins.accept(tool)?;
        if let Some(Change { parts, before_sha256, after_sha256, .. }) = &accepted {
            let (ts, event) = (now_millis(), "tool.accepted");
            context.audit.record_tool(&ToolLine { ts, event, tool: tool.as_str(), parts, before_sha256, after_sha256 });
        }
        Ok(accepted)
    }

    pub(super) fn context(&self) -> MutexGuard<'_, Context> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every server and returns when nothing of them is left, and all is written.
    pub async fn stop(self) {
        futures_util::future::join_all(self.servers.all().iter().map(|server| async { server.terminate().await }))
            .await;
        self.tasks.close();
        self.tasks.wait().await;
        self.broker.stop_learning().await;
        self.broker.stop_search().await;
        let remote = self.context().remote.clone();
        if let Some(remote) = remote {
            remote.finish().await;
        }
        // Whoever has the audit log last writes what is waiting, and so does whoever has the traces.
        self.traces.stop().await;
    }
}

/// How what gives tools their meaning beside the table is loaded: a stronger model, if there is to be one, or the encoder.
fn loader(model_dir: Option<Result<PathBuf, String>>, encoder: bool) -> Option<LoadModel> {
    match model_dir {
        Some(model_dir) => {
            Some(Box::new(|| load_model(&model_dir.map_err(|why| Error::new(ErrorCode::ConfigInvalid, why))?)))
        }
        None if encoder => Some(Box::new(|| Ok(built_in_model()))),
        None => None,
    }
}

/// The way to remote servers, if any of these is one: making it reads all certificates of the system, so not for
/// nothing.
pub(super) fn remote_for(
    servers: &[Settings],
    logins: Option<&Logins>,
    network: &Network,
) -> Result<Option<Remote>, Error> {
    match servers.iter().any(|server| matches!(server.target, Ok(Target::Http { .. }))) {
        true => Ok(Some(Remote::new(network.client()?, logins.cloned()))),
        false => Ok(None),
    }
}
