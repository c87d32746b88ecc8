//! What the connections of all clients share.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use pml_wire::ErrorCode;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use super::{
    metrics::Metrics,
    passthrough::{Names, Parked},
    results::{Results, page},
    session::Session,
    shares::Shares,
};
use crate::{
    broker::{Broker, OWN},
    capability::{CapabilityName, Saver},
    catalog::Catalog,
    events::Bus,
    execution::{Budget, Ceilings, Nested},
    sandbox::Pool,
    shown::visible,
    trace::{MAX_DEPTH, Recorder},
    upstream::{Fleet, Upstream},
    workflow::{OwnTools, Plans},
};

/// How many servers are started at the same time when pml starts.
const STARTS: usize = 4;
/// Programs that may have begun for each one that may compute: most programs wait for tools most of the time.
const PLACES_PER_TURN: usize = 4;
/// Programs of one client that may wait for their turns.
const MAX_WAITING: usize = 256;
/// Longest message of a failure.
const MAX_MESSAGE_TOKENS: usize = 1000;
/// What ending a run may take: it is killed, and its calls are given up.
const KILL: Duration = Duration::from_secs(2);

/// What clients see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expose {
    /// pml's own tools.
    Code,
    /// The servers' own tools, resources and prompts.
    Passthrough,
    Both,
}

/// What can be changed while pml runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What one run may use.
    pub limits: Budget,
    /// Most tokens of one answer.
    pub output_tokens: usize,
    /// The folder has a configuration that does not count until the user trusts it.
    pub is_project_distrusted: bool,
    /// What runs of clients with a profile may use at most, by the name of the profile.
    pub ceilings: Arc<BTreeMap<String, Ceilings>>,
}

/// What a frontend is made of.
#[derive(Debug)]
pub struct Parts {
    pub pool: Pool,
    pub broker: Arc<Broker>,
    pub catalog: Catalog,
    pub servers: Fleet,
    pub bus: Bus,
    pub recorder: Recorder,
    pub settings: Settings,
    pub expose: Expose,
    /// Names of tools are those of their servers, where only one has it.
    pub plain_names: bool,
    /// Programs that may compute at the same time; more wait.
    pub concurrent_runs: usize,
    /// What makes capabilities of programs, if they can be kept.
    pub capabilities: Option<Saver>,
    /// Capabilities that clients see as tools of their own.
    pub exposed: Vec<CapabilityName>,
}

/// What clients are served by: all of them, or those of one profile.
#[derive(Debug)]
pub struct Frontend {
    pub(super) shared: Arc<Shared>,
    /// The door that its clients' calls go through, which knows the profile.
    pub(super) broker: Arc<Broker>,
    /// The profile of its clients, if they have one.
    profile: Option<Arc<str>>,
    /// What tools of servers are called for its clients, as far as it was asked for.
    pub(super) names: Mutex<Option<Arc<Names>>>,
}

/// What the clients of all profiles share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) pool: Pool,
    pub(super) catalog: Catalog,
    pub(super) servers: Fleet,
    pub(super) bus: Bus,
    pub(super) recorder: Recorder,
    settings: RwLock<Settings>,
    pub(super) expose: Expose,
    pub(super) plain_names: bool,
    pub(super) results: Arc<Results>,
    pub(super) parked: Parked,
    /// Plans that were suggested.
    pub(super) plans: Arc<Plans>,
    /// What each client that lives wants to hear, at least.
    pub(super) log_levels: Mutex<Vec<(Weak<Session>, usize)>>,
    pub(super) runs: Runs,
    /// Turns for programs that compute.
    pub(super) turns: Arc<Shares>,
    /// Places for programs that have begun, whether they compute or wait.
    pub(super) places: Arc<Shares>,
    /// The same for nested runs, for each depth from 1 on.
    pub(super) nested_places: Vec<Arc<Shares>>,
    pub(super) tasks: TaskTracker,
    pub(super) metrics: Metrics,
    pub(super) capabilities: Option<Saver>,
    pub(super) exposed: Vec<CapabilityName>,
}

impl Frontend {
    pub fn new(parts: Parts) -> Arc<Frontend> {
        let Parts { pool, broker, catalog, servers, bus, recorder, settings, .. } = parts;
        let Parts { expose, plain_names, concurrent_runs, capabilities, exposed, .. } = parts;
        let plans: Arc<Plans> = Arc::default();
        let nested = Nested::new(pool.clone(), recorder.clone());
        broker.provide(OWN, Arc::new(OwnTools::new(nested, recorder.clone(), Arc::clone(&plans))));
        let shared = Shared {
            pool,
            catalog,
            servers,
            bus,
            recorder,
            settings: RwLock::new(settings),
            expose,
            plain_names,
            results: Arc::default(),
            parked: Parked::default(),
            plans,
            log_levels: Mutex::default(),
            runs: Runs::default(),
            turns: Shares::new(concurrent_runs, MAX_WAITING),
            places: Shares::new(PLACES_PER_TURN * concurrent_runs, MAX_WAITING),
            nested_places: (0..MAX_DEPTH)
                .map(|_| Shares::new(PLACES_PER_TURN * concurrent_runs, MAX_WAITING))
                .collect(),
            tasks: TaskTracker::new(),
            metrics: Metrics::default(),
            capabilities,
            exposed,
        };
        Arc::new(Frontend { shared: Arc::new(shared), broker, profile: None, names: Mutex::default() })
    }

    /// The same for clients of a profile: they share everything, and see and use what the profile allows.
    #[must_use]
    pub fn for_profile(&self, profile: &str) -> Arc<Frontend> {
        Arc::new(Frontend {
            shared: Arc::clone(&self.shared),
            broker: Arc::new(self.broker.for_profile(profile)),
            profile: Some(profile.into()),
            names: Mutex::default(),
        })
    }

    pub(super) fn settings(&self) -> Settings {
        let mut settings = self.shared.settings.read().unwrap_or_else(PoisonError::into_inner).clone();
        let ceilings = self.profile.as_ref().and_then(|profile| settings.ceilings.get(&**profile));
        if let Some(ceilings) = ceilings.copied() {
            ceilings.lower(&mut settings.limits);
        }
        settings
    }

    /// From now on, new runs are held to these.
    pub fn set_settings(&self, settings: Settings) {
        *self.shared.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// Learns the tools of servers that were never reached, in the background.
    pub fn learn_unknown(&self) {
        let (unknown, end) = (self.broker.unknown(), self.shared.runs.end.clone());
        self.shared.tasks.spawn(async move {
            // Why one did not start is said by whoever needs it.
            let starts =
                stream::iter(unknown).for_each_concurrent(STARTS, |server| async move { drop(server.warm().await) });
            tokio::select! {
                () = starts => {}
                () = end.cancelled() => {}
            }
        });
    }

    /// Starts a server in the background. Nobody waits for it, and why it did not start is said by whoever needs it.
    pub(super) fn start_behind(&self, server: Upstream) {
        let end = self.shared.runs.end.clone();
        self.shared.tasks.spawn(async move {
            tokio::select! {
                _ = server.warm() => {}
                () = end.cancelled() => {}
            }
        });
    }

    /// Takes no more runs, lets those that go on finish within the grace period, and ends the others.
    pub async fn drain(&self, grace: Duration) {
        self.shared.runs.drain(grace).await;
    }

    /// Ends everything, when no client is served any more.
    pub async fn end(&self) {
        self.drain(Duration::ZERO).await;
        self.shared.tasks.close();
        let _ = timeout(KILL, self.shared.tasks.wait()).await;
    }
}

/// The programs that run, and the requests that were passed on.
#[derive(Debug, Default)]
pub(super) struct Runs {
    tracker: TaskTracker,
    is_closing: AtomicBool,
    end: CancellationToken,
}

impl Runs {
    /// Counts a run for as long as the token lives; `None` if no more are taken.
    pub(super) fn begin(&self) -> Option<TaskTrackerToken> {
        let token = self.tracker.token();
        (!self.is_closing.load(Ordering::SeqCst)).then_some(token)
    }

    pub(super) fn count(&self) -> usize {
        self.tracker.len()
    }

    /// Are no more taken?
    pub(super) fn are_over(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
    }

    /// Waits until every run must end.
    pub(super) async fn ended(&self) {
        self.end.cancelled().await;
    }

    async fn drain(&self, grace: Duration) {
        self.is_closing.store(true, Ordering::SeqCst);
        self.tracker.close();
        let _ = timeout(grace, self.tracker.wait()).await;
        self.end.cancel();
        let _ = timeout(KILL, self.tracker.wait()).await;
    }
}

/// The result of a tool of pml's own, for a reader and for a program.
pub(super) fn text_result(text: &str, structured: Value) -> Value {
    json!({
        "content": [{ "type": "text", "text": text.trim_end() }],
        "structuredContent": structured,
        "isError": false,
    })
}

/// What a tool of pml's own answers if it cannot do what was asked.
pub(super) fn tool_failure(code: ErrorCode, message: &str, hint: Option<&str>) -> Value {
    // It may repeat what was asked, and what a server said.
    let message = page(message, MAX_MESSAGE_TOKENS, visible).shown;
    let hint = hint.map(visible);
    let text = match &hint {
        Some(hint) => format!("error[{code}]: {message}\nhint: {hint}"),
        None => format!("error[{code}]: {message}"),
    };
    json!({
        "content": [{ "type": "text", "text": text }],
        "structuredContent": {
            "status": "error",
            "error": { "code": code, "message": message, "hint": hint, "retryable": code.is_retryable() },
        },
        "isError": true,
    })
}
