//! The handle to one server, through which calls are made.
//!
//! Calls do not go through the actor: they take the connection from a watch channel and send requests to the server
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
    web::is_rejected,
};
use crate::{
    catalog::Declared,
    protocol::{Version, method},
    work::{self, Waiter},
};

/// How long all processes together may take to end: each is killed before that.
pub(super) const END: Duration = Duration::from_secs(10);
/// How often an unsent request is retried over another connection.
const MAX_RESENT: usize = 3;

/// A handle to one server.
#[derive(Clone, Debug)]
pub struct Upstream {
    pub(super) id: u64,
    pub(super) settings: Arc<Settings>,
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) status: watch::Receiver<Status>,
    /// One permit per call that may be in flight.
    pub(super) permits: Arc<Semaphore>,
    pub(super) reach: Reach,
    pub(super) lives: TaskTracker,
    pub(super) stop: CancellationToken,
    /// Another server has taken the name: the lists of this one are obsolete.
    pub(super) is_retired: Arc<AtomicBool>,
    pub(super) wanted: Arc<Wanted>,
    pub(super) urgency: Urgency,
}

/// A tool call.
#[derive(Debug)]
pub struct Invocation<'a> {
    pub tool: &'a str,
    /// A JSON object.
    pub args: Arc<Box<RawValue>>,
    pub traceparent: String,
    /// Arguments that are also sent as HTTP headers.
    pub headers: Vec<(String, String)>,
    /// Must the tool be called as a task?
    pub needs_task: bool,
    /// Receives the progress that the server reports before it responds.
    pub progress: Option<ProgressListener>,
}

/// The health of a server.
#[derive(Clone, Debug, Serialize)]
pub struct Health {
    pub state: HealthState,
    /// Connection attempts since the server was lost.
    pub attempt: u32,
    pub transport: Option<&'static str>,
    pub protocol_version: Option<&'static str>,
    /// The name and version that the server declares.
    pub server: Option<String>,
    pub pid: Option<u32>,
    pub last_error: Option<String>,
    /// Lines on stdout that were not messages.
    pub noise: u64,
    /// Progress and logs that were dropped because a client was too slow.
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
    /// A call timed out: ping the server.
    Check,
    /// The server required a login, and the user has logged in since.
    LoggedIn,
}

/// The part of the actor's state that calls need.
#[derive(Clone, Debug)]
pub(super) struct Status {
    pub(super) state: State,
    /// `None` with a process per call, and while the server is not connected.
    pub(super) connection: Option<Arc<Connection>>,
    /// The protocol version of the current connection, or of the last one.
    pub(super) version: Option<Version>,
    /// The server's declaration, from the current connection or the last one.
    pub(super) declared: Option<Arc<Declared>>,
    /// Why the server is not connected.
    pub(super) failure: Option<Failure>,
    pub(super) was_connected: bool,
    pub(super) editions: Editions,
}

/// Source of list editions, unique within this process.
static EDITION: AtomicU64 = AtomicU64::new(0);

/// Editions: numbers that change whenever a list of the server may have changed.
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
    /// Distinguishes this server from earlier and later servers of the same name.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The edition of a list: a number that changes whenever the list may have changed.
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

    /// Starts the server if necessary, and waits until it is ready for calls.
    pub async fn init(&self) -> Result<(), Failure> {
        self.ready(self.settings.max_call).await.map(drop)
    }

    /// Like `warm`, with lower priority: servers that a call needs start first.
    pub async fn warm(&self) -> Result<(), Failure> {
        self.reached(self.settings.max_call).await.map(drop)
    }

    /// The current health of the server.
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

    /// May the list of tools change while the server is connected? True also while the server has not declared it.
    pub fn may_change(&self) -> bool {
        self.status.borrow().connection.as_ref().is_none_or(|connection| connection.tells_changes)
    }

    /// Makes one call. Dropping the future cancels the call.
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
        // Only a connected server has declared how it handles tasks.
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

    /// Queues a request, starts the server if necessary, and sends the request. A request that was not sent because the
    /// connection was lost is retried over the next one. `tool` is the tool that the request calls, if any.
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
                // Boxed: the future is large, and most servers do not need it.
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
            // Waits until the actor has noticed the loss.
            let is_another = |later: &Status| {
                later.connection.as_ref().is_none_or(|held| !Arc::ptr_eq(held, connection))
                    || later.state == State::Terminated
            };
            let _ = timeout(total, self.status.clone().wait_for(is_another)).await;
        }
        Err(stopped())
    }

    /// Sends a request over a connection, and reports to the actor what the outcome says about the server.
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
            // A refusal over HTTP without a reason may mean that the server has lost the session; a ping finds out.
            Err(failure)
                if matches!(failure.code, ErrorCode::ProviderTimeout | ErrorCode::ProviderUnavailable)
                    || is_rejected(failure) =>
            {
                // A full queue means that the actor will check anyway.
                let _ = self.commands.try_send(Command::Check);
            }
            Err(_) => {}
        }
        answer
    }

    /// Runs `work` with a process of its own, which is started before and ended after it.
    pub(super) async fn alone<T>(
        &self,
        limits: ProcessLimits,
        version: Option<Version>,
        work: impl AsyncFnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let work = async {
            let connection = handshake::connect(&self.settings, &self.reach, limits, version).await?;
            let connection = Arc::new(connection);
            // Ends the process however the work ends, also by cancellation.
            let _closing = Closing::new(Arc::clone(&connection), stopped(), &self.lives);
            work(&connection).await.map_err(|failure| with_words(&connection, failure))
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(stopped()),
            done = work => done,
        }
    }

    /// Invalidates the lists of the server at once. The returned future stops the server when the calls in flight
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

    /// Stops the server for good, and returns when all of its processes have ended.
    pub async fn terminate(&self) {
        self.stop.cancel();
        let mut status = self.status.clone();
        let _ = status.wait_for(|status| status.state == State::Terminated).await;
        let _ = timeout(END, self.lives.wait()).await;
    }

    /// Waits until the server is ready for calls, or returns at once why it is not. Waits for a reconnect up to
    /// `bound`; the first start has its own timeout.
    pub(super) async fn ready(&self, bound: Duration) -> Result<Status, Failure> {
        self.urgency.raise();
        // The call itself has not been sent to the server at this point.
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
                    // Waits until the actor has handled the request.
                    let _ = status.wait_for(|later| later.state != now.state).await;
                    continue;
                }
                Course::Fail if !has_asked && self.has_new_login(&now) => {
                    let _ = self.commands.send(Command::LoggedIn).await;
                    let _ = status.wait_for(|later| later.state != now.state).await;
                    continue;
                }
                // The actor has given up again since this call asked for a start.
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

    /// Is the server down because of a missing login that exists by now?
    fn has_new_login(&self, status: &Status) -> bool {
        let wants_login = status.failure.as_ref().is_some_and(|failure| failure.code == ErrorCode::AuthRequired);
        wants_login && self.reach.remote.as_ref().is_some_and(|remote| remote.has_news(&self.settings.name))
    }

    /// The failure of calls while the server is down.
    fn down(&self, status: &Status, has_waited: bool) -> Failure {
        let name = &self.settings.name;
        let failure = status.failure.clone().unwrap_or_else(|| Failure::later("it is not connected"));
        // A server that never started, or cannot start by itself, has a more specific failure.
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

/// Closes a connection when dropped, unless it is released before.
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

/// Adds the last stderr lines to the failure of a server that did not respond. Other failures have their reason.
pub(super) fn with_words(connection: &Connection, mut failure: Failure) -> Failure {
    if matches!(failure.code, ErrorCode::ProviderTimeout | ErrorCode::ProviderInitFailed) {
        failure.message = connection.last_words().behind(failure.message);
    }
    failure
}
