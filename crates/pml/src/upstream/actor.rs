//! The actor of one server: owns the state machine, the connection and the chores of the connection (lists,
//! pings, subscriptions).
//!
//! **Invariant:** the loop does no disk I/O; files are read and written by chores on other threads.

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use pml_wire::ExecutionId;
use tokio::{
    sync::{Mutex, Semaphore, mpsc, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    connection::Connection,
    failure::{Failure, Retry, stopped},
    handle::{Closing, Command, END, Editions, Status, Upstream, with_words},
    handshake::{self, Reach},
    news::{Digest, News},
    oauth::Remote,
    refresh::{Pace, ToolRefresh, identity, list_tools, target_identity, tell_changes},
    settings::{Isolation, Settings, Target},
    starts::{Starts, Urgency},
    state::{self, Effect, Input, State, Topic},
    subscriber::{self, Wanted},
};
use crate::{
    audit::Audit,
    catalog::{Cache, Cached, Catalog, Declared, Listing, Pins},
    events::{Body, Bus},
    protocol::Version,
    room::Room,
    work,
};

/// Timeout of a ping.
const PING: Duration = Duration::from_secs(10);
/// Pause between two publications of a server's notifications, so that a server cannot flood listeners.
const NEWS_PAUSE: Duration = Duration::from_millis(50);

/// Services that all servers share.
#[derive(Clone, Debug)]
pub struct Context {
    /// The pml binary.
    pub program: PathBuf,
    pub catalog: Catalog,
    pub cache: Cache,
    /// The first seen form of each tool.
    pub pins: Pins,
    pub bus: Bus,
    pub audit: Arc<Audit>,
    /// The HTTP client for remote servers, if there are any.
    pub remote: Option<Remote>,
    /// The memory budget for large messages of servers.
    pub room: Room,
    /// Orders the starts of servers.
    pub starts: Starts,
}

/// Builds the handle and the actor's future. The cached tools of the server are in the
/// catalogue when this returns.
pub fn start(settings: Settings, context: Context) -> (Upstream, impl Future<Output = ()> + Send) {
    let settings = Arc::new(settings);
    let identity = identity(&settings);
    let cached = context.cache.load(&settings.name, &identity);
    context.pins.open(&settings.name, &target_identity(&settings));
    let version = cached.as_ref().and_then(|cached| Version::of(&cached.version));
    let mut declared = None;
    let correlation = ExecutionId::mint().to_string();
    if let Some(Cached { listing, declared: known, .. }) = cached {
        tell_changes(&context.audit, &context.bus, &correlation, &context.pins.look(&listing));
        context.catalog.update(listing);
        declared = known.map(Arc::new);
    }
    let (commands, orders) = mpsc::channel(16);
    let (status, watched) = watch::channel(Status {
        state: State::Idle,
        connection: None,
        version,
        declared,
        failure: None,
        was_connected: false,
        editions: Editions::new(),
    });
    let stop = CancellationToken::new();
    let lives = TaskTracker::new();
    let pml: Arc<Path> = context.program.as_path().into();
    let (news, wanted) = (Arc::new(News::default()), Arc::new(Wanted::default()));
    let room = context.room.clone();
    let reach = Reach { pml, remote: context.remote.clone(), news, room, lives: lives.clone() };
    let is_retired = Arc::new(AtomicBool::new(false));
    let urgency = Urgency::default();
    let upstream = Upstream {
        urgency: urgency.clone(),
        id: Editions::next(),
        permits: Arc::new(Semaphore::new(settings.concurrency)),
        settings: Arc::clone(&settings),
        commands,
        status: watched,
        reach: reach.clone(),
        lives: lives.clone(),
        stop: stop.clone(),
        is_retired: Arc::clone(&is_retired),
        wanted: Arc::clone(&wanted),
    };
    let actor = Actor {
        urgency,
        is_retired,
        settings,
        identity,
        context,
        reach,
        state: State::Idle,
        status,
        orders,
        wanted,
        lives,
        correlation,
        is_listing: false,
        lists_again: false,
        pace: Pace::default(),
        saving: Arc::default(),
    };
    (upstream, actor.run(stop))
}

struct Actor {
    urgency: Urgency,
    settings: Arc<Settings>,
    identity: String,
    context: Context,
    reach: Reach,
    state: State,
    status: watch::Sender<Status>,
    orders: mpsc::Receiver<Command>,
    wanted: Arc<Wanted>,
    lives: TaskTracker,
    is_retired: Arc<AtomicBool>,
    /// The correlation id of this server's events.
    correlation: String,
    is_listing: bool,
    /// The list changed while pml was reading it.
    lists_again: bool,
    pace: Pace,
    /// Held while a list is written to disk.
    saving: Arc<Mutex<()>>,
}

type Chore = Pin<Box<dyn Future<Output = Done> + Send>>;

/// The result of a chore.
enum Done {
    Connected(Box<Result<(Arc<Connection>, ToolRefresh), Failure>>),
    Listed(Result<ToolRefresh, Failure>),
    Pinged(Result<(), Failure>),
    /// The server lost the session, and a new one was opened.
    Renewed,
    Lost(Failure),
}

impl Actor {
    async fn run(mut self, stop: CancellationToken) {
        // The chores of the current connection. Cleared when the connection is lost.
        let mut chores: FuturesUnordered<Chore> = FuturesUnordered::new();
        let mut wait: Option<Instant> = None;
        let mut keepalive = Instant::now() + self.settings.keepalive;
        let mut refresh = Instant::now() + self.settings.list_ttl;
        let mut told = Instant::now();
        let news = Arc::clone(&self.reach.news);
        loop {
            let is_healthy = matches!(self.state, State::Healthy { .. });
            let is_held = self.status.borrow().connection.is_some();
            let input = tokio::select! {
                biased;
                () = stop.cancelled() => Some(Input::Terminate),
                Some(done) = chores.next() => self.done(done, &mut chores, &mut refresh),
                Some(order) = self.orders.recv() => match order {
                    Command::Wanted => Some(Input::Wanted),
                    Command::Check => {
                        self.ping(&chores);
                        None
                    }
                    Command::LoggedIn => {
                        let is_given_up = matches!(self.state, State::Unavailable { .. });
                        is_given_up.then(|| {
                            wait = None;
                            Input::TimeUp
                        })
                    }
                },
                digest = next_news(&news, told), if is_healthy => {
                    told = Instant::now() + NEWS_PAUSE;
                    self.tell(digest, &chores);
                    None
                }
                () = sleep_until(wait.unwrap_or_else(Instant::now)), if wait.is_some() => {
                    wait = None;
                    Some(Input::TimeUp)
                }
                () = sleep_until(keepalive), if is_held => {
                    keepalive = Instant::now() + self.settings.keepalive;
                    self.ping(&chores);
                    None
                }
                () = sleep_until(refresh), if is_held => {
                    refresh = Instant::now() + self.settings.list_ttl;
                    self.list(&chores);
                    None
                }
            };
            let Some(input) = input else { continue };
            let (next, effects) = state::next(self.state, input, &self.settings.backoff, jitter());
            if next != self.state {
                tracing::debug!(server = self.settings.name, from = ?self.state, to = ?next, "state");
            }
            self.state = next;
            for effect in effects {
                match effect {
                    Effect::Connect => {
                        chores.clear();
                        chores.push(self.connect());
                        keepalive = Instant::now() + self.settings.keepalive;
                    }
                    Effect::Wait(delay) => wait = Some(Instant::now() + delay),
                    Effect::Close => {
                        chores.clear();
                        self.close();
                    }
                    Effect::Publish(topic) => self.publish(topic),
                }
            }
            self.status.send_modify(|status| status.state = next);
            if next == State::Terminated {
                break;
            }
        }
        drop(chores);
        self.lives.close();
        let _ = timeout(END, self.lives.wait()).await;
    }

    /// Handles the result of a chore, and returns the input for the state machine.
    fn done(&mut self, done: Done, chores: &mut FuturesUnordered<Chore>, refresh: &mut Instant) -> Option<Input> {
        match done {
            Done::Connected(result) => match *result {
                Ok((connection, seen)) => {
                    if let Some(ttl) = seen.listed.ttl {
                        *refresh = Instant::now() + ttl.min(self.settings.list_ttl);
                    }
                    self.connected(connection, seen, chores);
                    Some(Input::Connected)
                }
                Err(failure) => {
                    let failure = self.settings.mask_failure(failure);
                    tracing::info!(server = self.settings.name, code = %failure.code, "not connected: {}", failure.message);
                    let input = if failure.retry == Retry::Never { Input::Refused } else { Input::Failed };
                    self.status.send_modify(|status| {
                        status.failure = Some(failure);
                        // The remembered protocol version may be the reason.
                        status.version = None;
                    });
                    Some(input)
                }
            },
            Done::Listed(seen) => {
                self.is_listing = false;
                match seen {
                    Ok(seen) => self.take_list(seen),
                    Err(failure) => {
                        let Failure { message, .. } = self.settings.mask_failure(failure);
                        tracing::warn!(server = self.settings.name, "the list is not refreshed: {message}");
                    }
                }
                if std::mem::take(&mut self.lists_again) {
                    self.list(chores);
                }
                None
            }
            Done::Pinged(Ok(())) => None,
            Done::Renewed => {
                // A server that loses its session has most likely restarted, perhaps with other tools.
                if let Some(connection) = self.held() {
                    chores.push(renewal(connection));
                    self.list(chores);
                }
                None
            }
            Done::Pinged(Err(failure)) => {
                let message = format!("the server gives no sign of life: {}", failure.message);
                Some(self.lost(Failure { message, ..failure }))
            }
            Done::Lost(failure) => Some(self.lost(failure)),
        }
    }

    fn lost(&self, failure: Failure) -> Input {
        let failure = self.settings.mask_failure(failure);
        tracing::info!(server = self.settings.name, "lost: {}", failure.message);
        let has_worked = self.held().is_some_and(|connection| connection.has_answered());
        self.status.send_modify(|status| status.failure = Some(failure));
        Input::Lost { has_worked }
    }

    fn connect(&self) -> Chore {
        let (settings, reach) = (Arc::clone(&self.settings), self.reach.clone());
        let known = self.status.borrow().version;
        let (lives, pins) = (self.lives.clone(), self.context.pins.clone());
        let (starts, urgency) = (self.context.starts.clone(), self.urgency.clone());
        Box::pin(async move {
            let opened = async {
                let connection = Arc::new(handshake::connect(&settings, &reach, settings.limits, known).await?);
                let closing = Closing::new(Arc::clone(&connection), stopped(), &lives);
                let seen = list_tools(&settings, &connection, &pins).await;
                let seen = seen.map_err(|failure| with_words(&connection, failure))?;
                closing.keep();
                Ok((connection, seen))
            };
            // Each step has its own timeout; this one bounds all steps together, and those without a timeout.
            let opened = Box::pin(timeout(settings.start_timeout * 2, opened));
            let opened = match settings.target {
                // Starts on this machine are limited; waiting for a turn does not count against the start timeout.
                Ok(Target::Stdio { .. }) => starts.run(&urgency, opened).await,
                Ok(Target::Http { .. }) | Err(_) => opened.await,
            };
            Done::Connected(Box::new(opened.unwrap_or_else(|_| {
                Err(Failure::later(format!("no answer within {:?} in all", settings.start_timeout * 2)))
            })))
        })
    }

    fn connected(&mut self, connection: Arc<Connection>, seen: ToolRefresh, chores: &FuturesUnordered<Chore>) {
        let version = connection.version();
        self.correlation = ExecutionId::mint().to_string();
        let is_first = !self.status.borrow().was_connected;
        let names: Vec<_> = seen.listed.listing.tools.keys().cloned().collect();
        let declared = Arc::clone(&connection.declared);
        self.wanted.reset();
        let held = match self.settings.isolation {
            Isolation::Shared => Some(connection),
            Isolation::PerCall => {
                drop(Closing::new(connection, stopped(), &self.lives));
                None
            }
        };
        self.status.send_modify(|status| {
            status.connection.clone_from(&held);
            status.version = Some(version);
            status.declared = Some(declared);
            status.failure = None;
            status.was_connected = true;
            status.editions = Editions::new();
        });
        self.take_list(seen);
        if is_first {
            let body = Body::ToolsDiscovered { server: self.settings.name.clone(), count: names.len(), names };
            self.context.bus.publish(&*self.correlation, body);
        }
        if let Some(connection) = held {
            let closed = Arc::clone(&connection);
            chores.push(Box::pin(async move { Done::Lost(closed.closed().await) }));
            chores.push(renewal(Arc::clone(&connection)));
            let (wanted, relays, bound) = (Arc::clone(&self.wanted), self.settings.relays, self.settings.call_timeout);
            chores.push(Box::pin(async move { match subscriber::run(connection, wanted, relays, bound).await {} }));
        }
    }

    /// Puts a list into the catalogue and the cache, and publishes the changes, also those since an earlier
    /// process.
    fn take_list(&self, seen: ToolRefresh) {
        let ToolRefresh { listed, changes } = seen;
        let is_retired = || self.is_retired.load(Ordering::SeqCst);
        if is_retired() {
            return;
        }
        let name = &self.settings.name;
        let (version, declared) = {
            let status = self.status.borrow();
            (status.version.map_or("", Version::as_str), status.declared.clone())
        };
        // Before the list becomes visible.
        tell_changes(&self.context.audit, &self.context.bus, &self.correlation, &changes);
        // The server may have been retired in the meantime.
        let before = self.context.catalog.update_if(listed.listing, || !is_retired());
        let snapshot = self.context.catalog.snapshot();
        if let Some(listing) = snapshot.listing(name).filter(|_| !is_retired()) {
            self.save(Arc::clone(listing), version, declared);
        }
        if let (Some(before), Some(now)) = (before, snapshot.listing(name)) {
            let difference = now.difference(&before);
            let body = Body::ToolsRefreshed {
                server: name.clone(),
                added: difference.added,
                removed: difference.removed,
                changed: difference.changed,
                unchanged: difference.unchanged,
            };
            self.context.bus.publish(&*self.correlation, body);
        }
    }

    /// Writes a list to disk, after the writes in progress.
    fn save(&self, listing: Arc<Listing>, version: &'static str, declared: Option<Arc<Declared>>) {
        let (cache, identity, saving) = (self.context.cache.clone(), self.identity.clone(), Arc::clone(&self.saving));
        self.lives.spawn(async move {
            let _turn = saving.lock().await;
            let server = listing.server.clone();
            let saved = work::elsewhere(move |_| cache.save(&listing, &identity, version, declared.as_deref())).await;
            if let Err(err) = saved {
                tracing::warn!(server, error = %err, "the list of tools cannot be kept");
            }
        });
    }

    fn held(&self) -> Option<Arc<Connection>> {
        self.status.borrow().connection.clone()
    }

    fn list(&mut self, chores: &FuturesUnordered<Chore>) {
        let Some(connection) = self.held() else { return };
        if std::mem::replace(&mut self.is_listing, true) {
            self.lists_again = true;
            return;
        }
        let (settings, pins) = (Arc::clone(&self.settings), self.context.pins.clone());
        let pause = self.pace.pause(Instant::now());
        chores.push(Box::pin(async move {
            sleep(pause).await;
            Done::Listed(list_tools(&settings, &connection, &pins).await)
        }));
    }

    /// Pings the server, unless a call is in flight: many servers handle one request at a time, and a call
    /// has its own timeout.
    fn ping(&self, chores: &FuturesUnordered<Chore>) {
        if let Some(connection) = self.held().filter(|connection| !connection.is_busy()) {
            chores.push(Box::pin(async move { Done::Pinged(connection.ping(PING).await) }));
        }
    }

    /// Publishes the server's own notifications.
    fn tell(&mut self, digest: Digest, chores: &FuturesUnordered<Chore>) {
        if digest.tools_changed {
            self.list(chores);
        }
        let server = || self.settings.name.clone();
        let publish = |body| self.context.bus.publish(&*self.correlation, body);
        if digest.resources_changed {
            self.status.send_modify(|status| status.editions.resources = Editions::next());
            publish(Body::ResourcesChanged { server: server() });
        }
        if digest.prompts_changed {
            self.status.send_modify(|status| status.editions.prompts = Editions::next());
            publish(Body::PromptsChanged { server: server() });
        }
        for uri in digest.updated {
            publish(Body::ResourceUpdated { server: server(), uri });
        }
        for log in digest.logs {
            let log = self.settings.mask_json(log, &[]);
            let mut log: serde_json::Value = serde_json::from_str(log.get()).unwrap_or_default();
            let text = |key: &str| log[key].as_str().map(str::to_owned);
            let (level, logger) = (text("level").unwrap_or_else(|| "info".to_owned()), text("logger"));
            publish(Body::Log { server: server(), level, logger, data: log["data"].take() });
        }
        if digest.lost > 0 {
            tracing::debug!(server = self.settings.name, count = digest.lost, "a server says more than is kept");
        }
    }

    /// Closes the connection in the background. The actor awaits the close when it ends.
    fn close(&mut self) {
        (self.is_listing, self.lists_again) = (false, false);
        let mut held = None;
        self.status.send_modify(|status| {
            let reason = status.failure.clone().filter(|_| self.state != State::Terminated).unwrap_or_else(stopped);
            held = status.connection.take().map(|connection| (connection, reason));
            status.editions = Editions::new();
        });
        if let Some((connection, reason)) = held {
            drop(Closing::new(connection, reason, &self.lives));
        }
    }

    fn publish(&self, topic: Topic) {
        let server = self.settings.name.clone();
        let reason = || {
            let status = self.status.borrow();
            status.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default()
        };
        let body = match (topic, self.state) {
            (Topic::Disconnected, _) => Body::Disconnected { server, reason: reason() },
            (Topic::Reconnected, State::Healthy { failures }) => Body::Reconnected { server, attempt: failures },
            (Topic::Reconnected, _) => Body::Reconnected { server, attempt: 0 },
            (Topic::Exhausted, _) => {
                Body::ReconnectExhausted { server, tries: self.settings.backoff.tries, reason: reason() }
            }
        };
        self.context.bus.publish(&*self.correlation, body);
    }
}

/// Waits until the session of a connection is replaced.
fn renewal(connection: Arc<Connection>) -> Chore {
    Box::pin(async move {
        let mut sessions = connection.sessions();
        sessions.mark_unchanged();
        match sessions.changed().await {
            Ok(()) => Done::Renewed,
            Err(_) => std::future::pending().await,
        }
    })
}

/// The next digest of notifications, not before `earliest`.
async fn next_news(news: &News, earliest: Instant) -> Digest {
    sleep_until(earliest).await;
    news.next().await
}

/// A random number between 0 and 1.
fn jitter() -> f64 {
    let random = getrandom::u32().unwrap_or(0);
    f64::from(random) / f64::from(u32::MAX)
}
