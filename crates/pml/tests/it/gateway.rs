//! Everything between a program and real servers, as `pml` itself builds it.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use pml::{
    audit::Retention,
    broker::Policy,
    events::{Body, Event as BusEvent, Listener},
    execution::{self, Budget, Outcome, Request},
    sandbox::{Mode, Options, Pool},
    serve::{self, Services},
    trace::{Context, Program, Receipt, Sink, TraceHead},
    upstream::{Backoff, HttpWire, Secret, Settings, Target, Upstream},
};
use pml_testkit::{Fixture, fixture_path};
use pml_wire::{
    ErrorCode,
    trace::{Entry, Trace},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::support;

/// The traces of executions that are over.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<Trace>>);

impl Sink for Kept {
    fn begin(&self, _: TraceHead) -> Receipt {
        Receipt::none()
    }

    fn submit(&self, trace: Trace) -> Receipt {
        self.0.lock().unwrap().push(trace);
        Receipt::none()
    }
}

/// How the fixture is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Stdio,
    Http,
    Sse,
}

/// Every transport in every era that it has.
pub(crate) const MATRIX: [(Way, &str); 5] = [
    (Way::Stdio, "legacy"),
    (Way::Stdio, "modern"),
    (Way::Http, "legacy"),
    (Way::Http, "modern"),
    (Way::Sse, "legacy"),
];

/// A server for a test: its settings, and its process where it is not pml that starts it.
pub(crate) struct Server {
    pub(crate) settings: Settings,
    pub(crate) fixture: Option<Fixture>,
}

/// Settings that suit a test: nothing is waited for long.
pub(crate) fn settings(name: &str, target: Target) -> Settings {
    let mut settings = Settings::new(name, Ok(target));
    settings.start_timeout = Duration::from_secs(20);
    settings.call_timeout = Duration::from_secs(10);
    settings.stop_grace = Duration::from_millis(300);
    settings.backoff = Backoff { initial: Duration::from_millis(50), max: Duration::from_millis(200), tries: 5 };
    settings
}

/// The variables that a server needs to start at all.
pub(crate) fn environment() -> BTreeMap<String, Secret> {
    let path = std::env::vars().find(|(name, _)| name == "PATH").map(|(_, path)| path).unwrap_or_default();
    BTreeMap::from([("PATH".to_owned(), Secret::new(path))])
}

pub(crate) fn stdio(name: &str, command: impl Into<String>, args: &[&str]) -> Server {
    let target = Target::Stdio {
        command: command.into(),
        args: args.iter().map(|arg| Secret::new(*arg)).collect(),
        env: environment(),
        cwd: None,
    };
    Server { settings: settings(name, target), fixture: None }
}

pub(crate) fn remote(name: &str, url: &str, wire: HttpWire) -> Server {
    let target = Target::Http { url: Secret::new(url), headers: BTreeMap::new(), wire };
    Server { settings: settings(name, target), fixture: None }
}

/// The misbehaving fixture, called `fix`.
pub(crate) fn fixture(way: Way, era: &str, arguments: &[&str]) -> Server {
    let mut all = vec!["--era", era];
    all.extend(arguments);
    let transport = match way {
        Way::Stdio => return stdio("fix", fixture_path().to_string_lossy(), &all),
        Way::Http => "http",
        Way::Sse => "sse",
    };
    all.extend(["--transport", transport]);
    let fixture = Fixture::start(&all);
    Server { fixture: Some(fixture), ..remote("fix", "", HttpWire::Auto) }.at_fixture()
}

impl Server {
    fn at_fixture(mut self) -> Server {
        let url = self.fixture.as_ref().expect("a fixture").url.clone();
        self.settings.target =
            Ok(Target::Http { url: Secret::new(url), headers: BTreeMap::new(), wire: HttpWire::Auto });
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Server {
        change(&mut self.settings);
        self
    }
}

/// Services and a sandbox, as a user would have them.
pub(crate) struct Gateway {
    pub(crate) services: Services,
    servers: Vec<Upstream>,
    pub(crate) budget: Budget,
    pool: Pool,
    shutdown: CancellationToken,
    keeper: tokio::task::JoinHandle<()>,
    fixtures: Vec<Fixture>,
    events: Mutex<Listener>,
    traces: Arc<Kept>,
    pub(crate) data_dir: tempfile::TempDir,
}

impl Gateway {
    pub(crate) fn start(servers: Vec<Server>) -> Gateway {
        Gateway::with(servers, Policy::default(), tempfile::tempdir().unwrap())
    }

    pub(crate) fn with(servers: Vec<Server>, policy: Policy, data_dir: tempfile::TempDir) -> Gateway {
        let path = data_dir.path().to_owned();
        Gateway::with_data(servers, policy, data_dir, &path)
    }

    /// With data at `path`, which may be somewhere else.
    pub(crate) fn with_data(
        servers: Vec<Server>,
        policy: Policy,
        data_dir: tempfile::TempDir,
        path: &std::path::Path,
    ) -> Gateway {
        let workers = support::options(env!("CARGO_BIN_EXE_pml"), Mode::Subprocess);
        Gateway::with_workers(servers, policy, data_dir, path, workers)
    }

    /// With programs run by these workers.
    pub(crate) fn with_workers(
        servers: Vec<Server>,
        policy: Policy,
        data_dir: tempfile::TempDir,
        path: &std::path::Path,
        workers: Options,
    ) -> Gateway {
        let (settings, fixtures): (Vec<_>, Vec<_>) =
            servers.into_iter().map(|server| (server.settings, server.fixture)).unzip();
        let traces = Arc::new(Kept::default());
        let services = Services::start(serve::Options {
            program: PathBuf::from(env!("CARGO_BIN_EXE_pml")),
            servers: settings,
            policy,
            data_dir: Some(path.to_owned()),
            model_dir: None,
            encoder: true,
            results_bytes: 1 << 30,
            retention: Retention::default(),
            max_starting: 4,
            network: serve::Network::default(),
            traces: serve::Traces::to(Arc::clone(&traces) as Arc<dyn Sink>),
            learns: false,
            speculates: false,
        })
        .unwrap();
        let shutdown = CancellationToken::new();
        let (pool, keeper) = Pool::start(workers, shutdown.clone());
        Gateway {
            events: Mutex::new(services.bus.listen()),
            traces,
            servers: services.servers.all(),
            services,
            budget: support::budget(),
            pool,
            shutdown,
            keeper: tokio::spawn(keeper),
            fixtures: fixtures.into_iter().flatten().collect(),
            data_dir,
        }
    }

    pub(crate) async fn run(&self, code: &str) -> Outcome {
        self.run_until(code, &CancellationToken::new()).await
    }

    pub(crate) async fn run_until(&self, code: &str, cancel: &CancellationToken) -> Outcome {
        let request = Request::new(code);
        let context = Arc::new(Context::new(Entry::Run, "test"));
        let program = Program { code: &request.code, args: &request.args };
        let record = self.services.recorder.begin(context, Some(program));
        let request = Request { recording: record.recording().clone(), ..request };
        let outcome = execution::run(&self.pool, request, self.budget, &*self.services.broker, &|_| {}, cancel).await;
        // The traces are looked at, not stored, so nobody waits for that.
        let _ = record.finish(outcome.finish());
        outcome
    }

    /// The traces of what is over, as JSON, that were not asked for yet.
    pub(crate) fn traces(&self) -> Vec<Value> {
        let traces = std::mem::take(&mut *self.traces.0.lock().unwrap());
        traces.iter().map(|trace| serde_json::to_value(trace).unwrap()).collect()
    }

    /// The result of a program that succeeds.
    pub(crate) async fn value(&self, code: &str) -> Value {
        let outcome = self.run(code).await;
        match &outcome.result {
            Ok(value) => serde_json::from_str(value.get()).unwrap(),
            Err(error) => panic!("{code}: {error:#?}"),
        }
    }

    /// The error of a program that fails.
    pub(crate) async fn error(&self, code: &str) -> (ErrorCode, String) {
        let outcome = self.run(code).await;
        match outcome.result {
            Err(error) => (error.code, error.message),
            Ok(value) => panic!("{code}: {value}"),
        }
    }

    pub(crate) fn server(&self, name: &str) -> &Upstream {
        self.servers.iter().find(|server| server.settings().name == name).expect("a server of that name")
    }

    /// The next event that is wanted; others are passed over.
    pub(crate) async fn event(&self, wanted: impl Fn(&Body) -> bool) -> BusEvent {
        // Only one test task listens, and nothing else holds the lock.
        #[expect(clippy::await_holding_lock, reason = "one listener")]
        let next = async {
            let mut events = self.events.lock().unwrap();
            loop {
                let event = events.next().await.expect("the bus is open");
                if wanted(&event.body) {
                    return BusEvent::clone(&event);
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), next).await.expect("the event comes")
    }

    /// The lines of the audit log about what is over. Ends everything.
    pub(crate) async fn audit(self) -> Vec<Value> {
        let path = self.data_dir.path().join("audit.jsonl");
        let folder = self.stop().await;
        let text = std::fs::read_to_string(path).unwrap_or_default();
        drop(folder);
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|line: &Value| line["event"] != "call.started")
            .collect()
    }

    /// Ends everything; the folder lives on.
    pub(crate) async fn stop(self) -> tempfile::TempDir {
        self.services.stop().await;
        self.shutdown.cancel();
        self.keeper.await.unwrap();
        drop(self.fixtures);
        self.data_dir
    }
}
