//! How a connection begins: which version the server speaks.
//!
//! A process that has not answered `server/discover` is never sent `initialize`: a slow server of the modern era takes a
//! late `initialize` for a mistake, and stays unusable.

use std::{path::Path, sync::Arc, time::Duration};

use pml_wire::ErrorCode;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, field, info_span};

use super::{
    codec::{BROKEN, RpcError},
    connection::Connection,
    exchange::{Manner, Request, ask, from_rpc},
    failure::{Failure, stopped},
    news::News,
    oauth::Remote,
    payload::Payload,
    process::Start,
    session::{Beginning, Session, no_common_version},
    settings::{HttpWire, ProcessLimits, Settings, Target},
    transport::{Link, Plumbing},
    web::is_rejected,
};
use crate::{
    catalog::Declared,
    protocol::{
        Era, LEGACY, MODERN, Version,
        code::{METHOD_NOT_FOUND, MODERN_ONLY, UNSUPPORTED_VERSION},
        meta, method,
    },
    room::Room,
};

/// Longest capabilities and instructions that are kept.
const MAX_DECLARED_BYTES: usize = 256 * 1024;
/// How long an answer to `server/discover` is waited for before a second process is sent `initialize`.
const HEAD_START: Duration = Duration::from_secs(10);

/// What is needed to reach servers, whichever they are.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    /// pml itself, which keeps the processes of servers.
    pub(super) pml: Arc<Path>,
    /// For remote servers, if there are any.
    pub(super) remote: Option<Remote>,
    pub(super) news: Arc<News>,
    pub(super) room: Room,
    /// Everything that must have ended before the server has.
    pub(super) lives: TaskTracker,
}

/// Connects. `known` is the version that the server spoke the last time; if the server refuses that version, it is asked
/// which one it speaks now.
pub(super) async fn connect(
    settings: &Settings,
    reach: &Reach,
    limits: ProcessLimits,
    known: Option<Version>,
) -> Result<Connection, Failure> {
    let span = info_span!("connect", server = settings.name, code = field::Empty, duration_ms = field::Empty);
    let started = Instant::now();
    let connecting = async {
        match attempt(settings, reach, limits, known).await {
            Err(failure) if known.is_some() && is_refusal(&failure) => attempt(settings, reach, limits, None).await,
            connected => connected,
        }
    };
    let connected = connecting.instrument(span.clone()).await;
    span.record("duration_ms", u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX));
    if let Err(failure) = &connected {
        span.record("code", failure.code.as_str());
    }
    connected.map(|connection| connection.masked(settings)).map_err(as_init)
}

async fn attempt(
    settings: &Settings,
    reach: &Reach,
    limits: ProcessLimits,
    known: Option<Version>,
) -> Result<Connection, Failure> {
    let target = settings.target.as_ref().map_err(|why| Failure::never(why.clone()))?;
    let plumbing = Plumbing {
        news: Arc::clone(&reach.news),
        lives: reach.lives.clone(),
        max_message_bytes: settings.max_message_bytes,
        room: reach.room.clone(),
        stop_grace: settings.stop_grace,
    };
    let (bound, relays) = (settings.start_timeout, settings.relays);
    match target {
        Target::Stdio { command, args, env, cwd } => {
            let start = Start { pml: &reach.pml, command, args, env, cwd: cwd.as_deref(), limits };
            over_stdio(|| Link::stdio(&start, &plumbing), bound, relays, known).await
        }
        Target::Http { url, headers, wire } => {
            let remote = reach.remote.as_ref().ok_or_else(|| Failure::never("there is no HTTP client"))?;
            let sender = remote.sender(settings);
            let http = || Link::http(&sender, url, headers, &plumbing);
            let sse = async || {
                let link = Link::sse(&sender, url, headers, &plumbing).await?;
                initialize(link, bound, relays).await
            };
            match wire {
                HttpWire::Sse => sse().await,
                HttpWire::Streamable => over_http(http, bound, relays, known).await,
                HttpWire::Auto => match over_http(http, bound, relays, known).await {
                    // The server takes no messages by POST: perhaps it speaks the older transport.
                    Err(failure) if is_rejected(&failure) => sse().await.map_err(|older| {
                        // If it does not, the first refusal says more.
                        if is_rejected(&older) { failure } else { older }
                    }),
                    connected => connected,
                },
            }
        }
    }
}

/// Did the server answer, but not agree?
fn is_refusal(failure: &Failure) -> bool {
    failure.data.as_ref().is_some_and(|data| data.get("code").is_some()) || is_rejected(failure)
}

/// Connects over a child's pipes.
async fn over_stdio(
    start: impl Fn() -> Result<Link, Failure>,
    bound: Duration,
    relays: bool,
    known: Option<Version>,
) -> Result<Connection, Failure> {
    match known.map(Version::era) {
        Some(Era::Legacy) => {
            return match initialize(start()?, bound, relays).await {
                Err(failure) if is_modern(&failure) => discover(start()?, bound).await.map_err(NotModern::into_failure),
                connected => connected,
            };
        }
        Some(Era::Modern) => {
            return match discover(start()?, bound).await {
                Err(NotModern::Answered(link, _)) => initialize(*link, bound, relays).await,
                connected => connected.map_err(NotModern::into_failure),
            };
        }
        None => {}
    }
    let mut asked = Box::pin(discover(start()?, bound));
    let answered = tokio::select! {
        answered = &mut asked => answered,
        // Some servers of the legacy era do not answer a method that they do not know. The first process goes on; the
        // process that is ready first is taken, and the other is ended.
        () = sleep(HEAD_START.min(bound / 2)) => {
            let older = initialize(start()?, bound, relays);
            tokio::select! {
                answered = &mut asked => answered,
                Ok(connection) = older => return Ok(connection),
            }
        }
    };
    match answered {
        Ok(connection) => Ok(connection),
        Err(NotModern::Answered(link, _)) => match initialize(*link, bound, relays).await {
            // The process took `server/discover` for the beginning of a modern connection; a new process has not seen it.
            Err(failure) if is_modern(&failure) => initialize(start()?, bound, relays).await,
            connected => connected,
        },
        // Perhaps `server/discover` ended the process. If `initialize` fails too, the first failure says more.
        Err(NotModern::Failed(failure)) if failure.code == ErrorCode::ProviderCrashed => {
            initialize(start()?, bound, relays).await.map_err(|_| failure)
        }
        Err(NotModern::Failed(failure)) => Err(failure),
    }
}

/// Connects over streamable HTTP, where there is no process that could be confused.
async fn over_http(
    open: impl Fn() -> Result<Link, Failure>,
    bound: Duration,
    relays: bool,
    known: Option<Version>,
) -> Result<Connection, Failure> {
    if known.map(Version::era) != Some(Era::Legacy) {
        match discover(open()?, bound / 4).await {
            Ok(connection) => return Ok(connection),
            Err(NotModern::Failed(failure)) if is_final(&failure) => return Err(failure),
            Err(_) => {}
        }
    }
    match initialize(open()?, bound, relays).await {
        Err(failure) if is_modern(&failure) => discover(open()?, bound).await.map_err(NotModern::into_failure),
        connected => connected,
    }
}

/// Would `initialize` fail in the same way? It would if the server cannot be reached, or wants a login.
fn is_final(failure: &Failure) -> bool {
    !is_rejected(failure) && failure.code != ErrorCode::ProviderTimeout
}

/// Why a server was not found to be modern.
enum NotModern {
    /// The server answered, but not as a modern server would; `initialize` may be sent over the same link.
    Answered(Box<Link>, RpcError),
    Failed(Failure),
}

impl NotModern {
    fn into_failure(self) -> Failure {
        match self {
            NotModern::Answered(_, error) => from_rpc(error),
            NotModern::Failed(failure) => failure,
        }
    }
}

/// Asks whether the server speaks the modern era.
async fn discover(link: Link, bound: Duration) -> Result<Connection, NotModern> {
    let (request, manner) = (Request::new(method::DISCOVER, bound), Manner::new(Version::MODERN));
    let mut answer = ask(&link, &manner, &request).await;
    // A server that refuses a version which it says it speaks is asked once more, as the protocol wants.
    if let Ok(Err(error)) = &answer
        && error.code == UNSUPPORTED_VERSION
        && supported(error).any(|version| version == MODERN)
    {
        answer = ask(&link, &manner, &request).await;
    }
    let payload = match answer {
        Ok(Ok(payload)) => payload,
        Ok(Err(error)) => {
            if error.code != UNSUPPORTED_VERSION || supported(&error).any(|version| LEGACY.contains(&version)) {
                return Err(NotModern::Answered(Box::new(link), error));
            }
            let failure = no_common_version(&supported(&error).collect::<Vec<_>>().join(", "));
            return Err(NotModern::Failed(give_up(link, failure).await));
        }
        Err(failure) => {
            let failure = at_phase(&link, failure, "it was asked what it speaks (server/discover)");
            return Err(NotModern::Failed(give_up(link, failure).await));
        }
    };
    let Some(supported) = payload.get::<Vec<String>>("supportedVersions") else {
        // A server of the modern era names its versions; a server of the legacy era may answer anything.
        let message = "the server's answer to `server/discover` names no versions".to_owned();
        return Err(NotModern::Answered(Box::new(link), RpcError { code: METHOD_NOT_FOUND, message, data: None }));
    };
    if !supported.iter().any(|version| version == MODERN) {
        if supported.iter().any(|version| LEGACY.contains(&version.as_str())) {
            let error = RpcError { code: UNSUPPORTED_VERSION, message: String::new(), data: None };
            return Err(NotModern::Answered(Box::new(link), error));
        }
        let failure = no_common_version(&supported.join(", "));
        return Err(NotModern::Failed(give_up(link, failure).await));
    }
    let mut fields: serde_json::Value = payload.get("_meta").unwrap_or_default();
    // A server of the modern era is told with each request what a client can do.
    Ok(Connection::new(link, Session::modern(), declared(fields[meta::SERVER].take(), &payload), false))
}

/// The versions that a server names when it refuses one.
fn supported(error: &RpcError) -> impl Iterator<Item = &str> {
    let versions = error.data.as_ref().and_then(|data| data["supported"].as_array());
    versions.into_iter().flatten().filter_map(|version| version.as_str())
}

/// Begins a session of the legacy era.
async fn initialize(link: Link, bound: Duration, relays: bool) -> Result<Connection, Failure> {
    match Session::begin(&link, relays, bound).await {
        Ok((session, payload)) => {
            let info = payload.get("serverInfo").unwrap_or_default();
            Ok(Connection::new(link, session, declared(info, &payload), relays))
        }
        Err(beginning) => {
            let failure = match beginning {
                Beginning::Refused(error) => refused(&error),
                Beginning::Failed(failure) => failure,
            };
            let failure = at_phase(&link, failure, "it was asked to begin (initialize)");
            Err(give_up(link, failure).await)
        }
    }
}

/// What the server says about itself, as far as it is reasonable.
fn declared(info: serde_json::Value, payload: &Payload) -> Declared {
    let is_short = |text: &str| text.len() <= MAX_DECLARED_BYTES;
    Declared {
        info: Some(info).filter(|info| is_short(&info.to_string())).unwrap_or_default(),
        capabilities: payload
            .raw("capabilities")
            .filter(|raw| is_short(raw.get()))
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default(),
        instructions: payload.get("instructions").filter(|text: &String| is_short(text)),
    }
}

/// Closes the link to a server with which there is no agreement.
async fn give_up(link: Link, failure: Failure) -> Failure {
    link.inbox.requests.close(stopped());
    link.close().await;
    failure
}

/// Did a server of the modern era refuse `initialize`?
fn is_modern(failure: &Failure) -> bool {
    failure.data.as_ref().and_then(|data| data["code"].as_i64()).is_some_and(|code| MODERN_ONLY.contains(&code))
}

fn refused(error: &RpcError) -> Failure {
    if error.code == BROKEN {
        return Failure::later(format!("the server's answer to `initialize` is broken: {}", error.shown()));
    }
    Failure {
        data: Some(serde_json::json!({ "code": error.code })),
        ..Failure::later(format!("the server refuses to begin ({}): {}", error.code, error.shown()))
    }
}

/// Adds how far the server came, and its last lines on stderr.
fn at_phase(link: &Link, mut failure: Failure, phase: &str) -> Failure {
    failure.message = match failure.code {
        ErrorCode::ProviderTimeout => link.words.behind(format!("{} after {phase}", failure.message)),
        // The failure of a process that has ended has its last lines already.
        _ => match failure.message.split_once('\n') {
            Some((first, rest)) => format!("{first} (when {phase})\n{rest}"),
            None => format!("{} (when {phase})", failure.message),
        },
    };
    failure
}

/// A failure while connecting, under the code that says so. A login stays one.
fn as_init(failure: Failure) -> Failure {
    match failure.code {
        ErrorCode::AuthRequired | ErrorCode::ProviderInitFailed => failure,
        _ => Failure { code: ErrorCode::ProviderInitFailed, ..failure },
    }
}
