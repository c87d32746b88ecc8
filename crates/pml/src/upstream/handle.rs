//! The handle to one server: what calls know of it.
//!
//! Calls do not go through the actor: they take the connection from a watch and talk to the server
//! themselves.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use pml_wire::{Delivery, ErrorCode};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::{Instant, timeout, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    connection::Connection,
    discovery::Kind,
    exchange::{Following, Request, from_rpc},
    failure::{Failure, Retry, stopped},
    handshake::{self, Reach},
    pending::Answer,
    progress::{ProgressListener, ProgressSender},
    result::CallResult,
    settings::{ProcessLimits, Settings},
    starts::Urgency,
    state::{self, Course, State},
    subscriber::Wanted,
    tasks::{self, Cancelling, Support},
};
use crate::{
    catalog::Declared,
    protocol::{Version, method},
    work::{self, Waiter},
};

/// How long the ends of all processes together may take: they are killed before.
pub(super) const END: Duration = Duration::from_secs(10);
/// How often a request that never left is sent again over another connection.
const MAX_RESENT: usize = 3;

/// A handle to one server.
#[derive(Clone, Debug)]
pub struct Upstream {
    pub(super) id: u64,
    pub(super) settings: Arc<Settings>,
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) status: watch::Receiver<Status>,
    /// As many as calls may be made at the same time.
    pub(super) permits: Arc<Semaphore>,
    pub(super) reach: Reach,
    pub(super) lives: TaskTracker,
    pub(super) stop: CancellationToken,
    /// Another server has taken its name: what it lists counts no more.
    pub(super) is_retired: Arc<AtomicBool>,
    pub(super) wanted: Arc<Wanted>,
    pub(super) urgency: Urgency,
}

/// A call to be made.
#[derive(Debug)]
pub struct Invocation<'a> {
    pub tool: &'a str,
    /// A JSON object.
    pub args: Arc<Box<RawValue>>,
    pub traceparent: String,
    /// Arguments that also go into headers, where there are any.
    pub headers: Vec<(String, String)>,
    /// Must the tool be called as a task?
    pub needs_task: bool,
    /// Hears what the server reports before it answers.
    pub progress: Option<ProgressListener>,
}

/// How a server is.
#[derive(Clone, Debug, Serialize)]
pub struct Health {
    pub state: HealthState,
    /// Attempts since it was lost.
    pub attempt: u32,
    pub transport: Option<&'static str>,
    pub protocol_version: Option<&'static str>,
    /// What it calls itself.
    pub server: Option<String>,
    pub pid: Option<u32>,
    pub last_error: Option<String>,
    /// Lines on stdout that were no messages.
    pub noise: u64,
    /// Progress and logs that a client was too slow for.
    pub dropped: u64,
    /// Its last lines on stderr.
    pub stderr: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthState {
    Idle,
    Connecting,
    Healthy,
    Degraded,
    Unavailable,
    Stopped,
}

impl HealthState {
    pub fn as_str(self) -> &'static str {
        match self {
            HealthState::Idle => "idle",
            HealthState::Connecting => "connecting",
            HealthState::Healthy => "healthy",
            HealthState::Degraded => "degraded",
            HealthState::Unavailable => "unavailable",
            HealthState::Stopped => "stopped",
        }
    }
}

#[derive(Debug)]
pub(super) enum Command {
    /// A call needs the server.
    Wanted,
    /// A call was not answered: is anybody there?
    Check,
    /// The server wanted a login, and somebody has logged in since.
    LoggedIn,
}

/// What calls need to know of the state.
#[derive(Clone, Debug)]
pub(super) struct Status {
    pub(super) state: State,
    /// Absent with a process per call, and while there is none.
    pub(super) connection: Option<Arc<Connection>>,
    /// The version that it speaks, or spoke the last time.
    pub(super) version: Option<Version>,
    /// What it says about itself, or said the last time.
    pub(super) declared: Option<Arc<Declared>>,
    /// Why it is not connected.
    pub(super) failure: Option<Failure>,
    pub(super) was_connected: bool,
    pub(super) editions: Editions,
}

/// What numbers of lists are taken from: no two lists of this process have the same.
static EDITION: AtomicU64 = AtomicU64::new(0);

/// Numbers that change whenever what a server lists may have changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Editions {
    pub(super) resources: u64,
    pub(super) prompts: u64,
}

impl Editions {
    pub(super) fn new() -> Editions {
        Editions { resources: Editions::next(), prompts: Editions::next() }
    }

    pub(super) fn next() -> u64 {
        EDITION.fetch_add(1, Ordering::Relaxed)
    }
}

impl Upstream {
    /// Tells this server from others that had, or will have, its name.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// A number that changes whenever what the server lists of a kind may have changed.
    pub fn edition(&self, kind: Kind) -> u64 {
        let editions = self.status.borrow().editions;
        match kind {
            Kind::Resources | Kind::ResourceTemplates => editions.resources,
            Kind::Prompts => editions.prompts,
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Starts the server if it does not run, and waits until it can be called.
    pub async fn init(&self) -> Result<(), Failure> {
        self.ready(self.settings.max_call).await.map(drop)
    }

    /// The same for a server that no call needs yet: those that a call needs start first.
    pub async fn warm(&self) -> Result<(), Failure> {
        self.reached(self.settings.max_call).await.map(drop)
    }

    /// How the server is, now.
    pub fn health(&self) -> Health {
        let status = self.status.borrow();
        let connection = status.connection.as_deref();
        let (state, attempt) = match status.state {
            State::Idle => (HealthState::Idle, 0),
            State::Connecting { failures } => (HealthState::Connecting, failures),
            State::Healthy { .. } => (HealthState::Healthy, 0),
            State::Degraded { failures } => (HealthState::Degraded, failures),
            State::Unavailable { .. } => (HealthState::Unavailable, 0),
            State::Terminated => (HealthState::Stopped, 0),
        };
        Health {
            state,
            attempt,
            transport: connection.map(Connection::transport),
            protocol_version: status.version.filter(|_| state == HealthState::Healthy).map(Version::as_str),
            server: connection.map(|connection| connection.server.clone()),
            pid: connection.and_then(Connection::pid),
            last_error: status.failure.as_ref().map(|failure| failure.message.clone()),
            noise: connection.map_or(0, Connection::noise),
            dropped: connection.map_or(0, Connection::dropped),
            stderr: connection
                .map(|connection| connection.last_words().lines())
                .unwrap_or_default()
                .into_iter()
                .map(|line| self.settings.mask(line))
                .collect(),
        }
    }

    /// May its tools change while it is connected? So it says, or it has not said yet.
    pub fn may_change(&self) -> bool {
        self.status.borrow().connection.as_ref().is_none_or(|connection| connection.tells_changes)
    }

    /// Makes one call. Dropping the future cancels it.
    pub async fn execute(&self, invocation: &Invocation<'_>) -> Result<CallResult, Failure> {
        self.call(invocation).await.map_err(|failure| self.settings.mask_failure(failure))
    }

    async fn call(&self, invocation: &Invocation<'_>) -> Result<CallResult, Failure> {
        let (idle, total) = self.settings.timeouts_for(invocation.tool);
        let listener = invocation.progress.clone();
        let request = Request {
            following: listener.map(|listener| Following::new(ProgressSender::new(listener, &self.settings))),
            name: Some(invocation.tool),
            traceparent: Some(invocation.traceparent.clone()),
            headers: invocation.headers.clone(),
            idle,
            total,
            ..Request::new(method::TOOLS_CALL, total)
        };
        let arguments = Some(Arc::clone(&invocation.args));
        let request =
            Request { arguments, ..request.with("name", serde_json::Value::from(invocation.tool).to_string()) };
        // The server must have been reached to know how it does tasks.
        let declared = self.ready(total).await?.declared;
        let request = match declared.as_deref().and_then(|declared| tasks::support(declared, invocation.needs_task)) {
            None => request,
            Some(Support::AsAsked) => {
                Request { is_task: true, ..request.with("task", format!(r#"{{"ttl":{}}}"#, total.as_millis())) }
            }
            Some(Support::AsItLikes) => Request { is_task: true, ..request },
        };
        let payload = self.perform(&request, Some(invocation.tool)).await?.map_err(from_rpc)?;
        let bytes = payload.bytes();
        let settings = Arc::clone(&self.settings);
        let read = move |_: &Waiter| CallResult::from_payload(payload).map(|result| settings.mask_result(result));
        work::sized(bytes, read).await
    }

    /// Makes a request when it is its turn, on a server that is started if need be. A request that never left because the
    /// connection was lost is sent over the next one. `tool` is the tool that the request calls, if it calls one.
    pub(super) async fn perform(&self, request: &Request<'_>, tool: Option<&str>) -> Answer {
        let total = request.total;
        let Ok(Ok(_permit)) = timeout(total, self.permits.acquire()).await else {
            let others = self.settings.concurrency;
            let message = format!("no turn within {total:?}: {others} other calls to the server are going on");
            return Err(Failure::new(ErrorCode::ProviderTimeout, message, Retry::Later).unsent());
        };
        for resent in 0.. {
            let status = self.ready(total).await?;
            let Some(connection) = &status.connection else {
                let limits = tool.map_or(self.settings.limits, |tool| self.settings.limits_for(tool));
                let work = async |connection: &Connection| match request.is_task {
                    false => connection.exchange(request).await,
                    true => tasks::run(connection, request, None).await,
                };
                // Large, and not needed for most servers.
                return Box::pin(self.alone(limits, status.version, work)).await;
            };
            let failure = match self.perform_over(connection, request).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let is_lost = connection.is_gone() || failure.retry == Retry::Reconnect;
            if failure.outcome != Delivery::NotSent || !is_lost || resent == MAX_RESENT {
                return Err(with_words(connection, failure));
            }
            connection.leave(failure);
            // Until the actor has noticed.
            let is_another = |later: &Status| {
                later.connection.as_ref().is_none_or(|held| !Arc::ptr_eq(held, connection))
                    || later.state == State::Terminated
            };
            let _ = timeout(total, self.status.clone().wait_for(is_another)).await;
        }
        Err(stopped())
    }

    /// Makes a request over a connection, and tells the actor what that says about the server.
    async fn perform_over(&self, connection: &Arc<Connection>, request: &Request<'_>) -> Answer {
        let answer = match request.is_task {
            false => connection.exchange(request).await,
            true => {
                let cancelling = Cancelling { connection: Arc::clone(connection), lives: self.lives.clone() };
                tasks::run(connection, request, Some(cancelling)).await
            }
        };
        match &answer {
            Ok(_) => connection.note_answer(),
            Err(failure) if matches!(failure.code, ErrorCode::ProviderTimeout | ErrorCode::ProviderUnavailable) => {
                // A full queue means that the actor looks anyway.
                let _ = self.commands.try_send(Command::Check);
            }
            Err(_) => {}
        }
        answer
    }

    /// Works with a process that is started for it, and ended with it.
    pub(super) async fn alone<T>(
        &self,
        limits: ProcessLimits,
        version: Option<Version>,
        work: impl AsyncFnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let work = async {
            let connection = handshake::connect(&self.settings, &self.reach, limits, version).await?;
            let connection = Arc::new(connection);
            // However the work ends.
            let _closing = Closing::new(Arc::clone(&connection), stopped(), &self.lives);
            work(&connection).await.map_err(|failure| with_words(&connection, failure))
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(stopped()),
            done = work => done,
        }
    }

    /// What it lists counts no more as soon as this returns. The future ends the server when the calls that go on
    /// have ended.
    pub fn retire(self) -> impl Future<Output = ()> + Send + 'static {
        self.is_retired.store(true, Ordering::SeqCst);
        async move {
            let all = u32::try_from(self.settings.concurrency).unwrap_or(u32::MAX);
            tokio::select! {
                _ = timeout(self.settings.max_call, self.permits.acquire_many(all)) => {}
                () = self.stop.cancelled() => {}
            }
            self.terminate().await;
        }
    }

    /// Ends the server for good and returns when nothing of it is left.
    pub async fn terminate(&self) {
        self.stop.cancel();
        let mut status = self.status.clone();
        let _ = status.wait_for(|status| status.state == State::Terminated).await;
        let _ = timeout(END, self.lives.wait()).await;
    }

    /// Waits until the server can be called, or says at once why it cannot. A reconnection is waited for as long as
    /// `bound`; the first start has a bound of its own.
    pub(super) async fn ready(&self, bound: Duration) -> Result<Status, Failure> {
        self.urgency.raise();
        // Whatever the server was told until then, it was not told of the call.
        self.reached(bound).await.map_err(Failure::unsent)
    }

    async fn reached(&self, bound: Duration) -> Result<Status, Failure> {
        let mut status = self.status.clone();
        let mut has_asked = false;
        let until = Instant::now() + bound;
        loop {
            let now = status.borrow_and_update().clone();
            let course = state::course(now.state, now.was_connected);
            match course {
                Course::Go => return Ok(now),
                Course::Start if !has_asked => {
                    has_asked = true;
                    let _ = self.commands.send(Command::Wanted).await;
                    // Until the actor has acted on it.
                    let _ = status.wait_for(|later| later.state != now.state).await;
                    continue;
                }
                Course::Fail if !has_asked && self.has_new_login(&now) => {
                    let _ = self.commands.send(Command::LoggedIn).await;
                    let _ = status.wait_for(|later| later.state != now.state).await;
                    continue;
                }
                // Given up again since this call had it tried.
                Course::Start if now.state != State::Idle => return Err(self.down(&now, has_asked)),
                Course::Fail => return Err(self.down(&now, has_asked)),
                Course::Stop => return Err(stopped()),
                Course::Start | Course::WaitForStart | Course::WaitForReconnection => {}
            }
            let changed = match course {
                Course::WaitForReconnection => timeout_at(until, status.changed()).await,
                _ => Ok(status.changed().await),
            };
            match changed {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(stopped()),
                Err(_) => return Err(self.down(&now, has_asked)),
            }
        }
    }

    /// Is the server down for want of a login that has been given since?
    fn has_new_login(&self, status: &Status) -> bool {
        let wants_login = status.failure.as_ref().is_some_and(|failure| failure.code == ErrorCode::AuthRequired);
        wants_login && self.reach.remote.as_ref().is_some_and(|remote| remote.has_news(&self.settings.name))
    }

    /// What to say while the server is down.
    fn down(&self, status: &Status, has_waited: bool) -> Failure {
        let name = &self.settings.name;
        let failure = status.failure.clone().unwrap_or_else(|| Failure::later("it is not connected"));
        // What never started, and what will not start by itself, is told as such.
        if !status.was_connected || has_waited || failure.retry == Retry::Never {
            return failure.within(&format!("server `{name}` did not start"));
        }
        let what = match status.state {
            State::Degraded { failures } | State::Connecting { failures } => {
                format!("is being reconnected, attempt {failures} of {}", self.settings.backoff.tries)
            }
            _ => "is given up for now".to_owned(),
        };
        let message = format!("server `{name}` {what}: {}", failure.message);
        Failure::new(ErrorCode::ProviderUnavailable, message, Retry::Later)
    }
}

/// Closes a connection when dropped, unless it is kept.
pub(super) struct Closing<'a> {
    connection: Option<(Arc<Connection>, Failure)>,
    lives: &'a TaskTracker,
}

impl Closing<'_> {
    pub(super) fn new(connection: Arc<Connection>, reason: Failure, lives: &TaskTracker) -> Closing<'_> {
        Closing { connection: Some((connection, reason)), lives }
    }

    pub(super) fn keep(mut self) {
        self.connection = None;
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if let Some((connection, reason)) = self.connection.take() {
            self.lives.spawn(async move { connection.close(reason).await });
        }
    }
}

/// A failure of a server that did not answer, with what it said last. Others have told why.
pub(super) fn with_words(connection: &Connection, mut failure: Failure) -> Failure {
    if matches!(failure.code, ErrorCode::ProviderTimeout | ErrorCode::ProviderInitFailed) {
        failure.message = connection.last_words().behind(failure.message);
    }
    failure
}
