//! How a connection begins: which era the server speaks, and in which version.
//!
//! A server that has not answered the question is never asked another one on the same process: a slow
//! server of the new era takes a late `initialize` for a mistake, and stays unusable.

use std::{path::Path, sync::Arc, time::Duration};

use pml_wire::ErrorCode;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use super::{
    codec::RpcError,
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
/// How long a server is waited for before it is also asked in the older way, on a second process.
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

/// Connects. `known` is the era that the server spoke the last time; if that is why it refuses, it is
/// asked anew.
pub(super) async fn connect(
    settings: &Settings,
    reach: &Reach,
    limits: ProcessLimits,
    known: Option<Version>,
) -> Result<Connection, Failure> {
    let connected = match attempt(settings, reach, limits, known).await {
        Err(failure) if known.is_some() && is_refusal(&failure) => attempt(settings, reach, limits, None).await,
        connected => connected,
    };
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
                    // No message may be posted there: perhaps it is the older transport.
                    Err(failure) if is_rejected(&failure) => sse().await.map_err(|older| {
                        // Unless it is that, what was said first says more.
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
                Err(failure) if is_modern(&failure) => discover(start()?, bound).await.map_err(Asked::into_failure),
                connected => connected,
            };
        }
        Some(Era::Modern) => {
            return match discover(start()?, bound).await {
                Err(Asked::Answered(link, _)) => initialize(*link, bound, relays).await,
                connected => connected.map_err(Asked::into_failure),
            };
        }
        None => {}
    }
    let mut asked = Box::pin(discover(start()?, bound));
    let answered = tokio::select! {
        answered = &mut asked => answered,
        // Some servers of the earlier era do not answer what they do not know. The one that was asked
        // goes on; whoever is ready first is taken, and the other is ended.
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
        Err(Asked::Answered(link, _)) => match initialize(*link, bound, relays).await {
            // It took the question for a beginning; a new process was not asked.
            Err(failure) if is_modern(&failure) => initialize(start()?, bound, relays).await,
            connected => connected,
        },
        // Perhaps it cannot bear the question. If it is not that, what was said first says more.
        Err(Asked::Failed(failure)) if failure.code == ErrorCode::ProviderCrashed => {
            initialize(start()?, bound, relays).await.map_err(|_| failure)
        }
        Err(Asked::Failed(failure)) => Err(failure),
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
            Err(Asked::Failed(failure)) if is_final(&failure) => return Err(failure),
            Err(_) => {}
        }
    }
    match initialize(open()?, bound, relays).await {
        Err(failure) if is_modern(&failure) => discover(open()?, bound).await.map_err(Asked::into_failure),
        connected => connected,
    }
}

/// Would another question get the same answer? It would if nobody is there, or nobody may ask.
fn is_final(failure: &Failure) -> bool {
    !is_rejected(failure) && failure.code != ErrorCode::ProviderTimeout
}

/// Why a server was not found to be modern.
enum Asked {
    /// It answered, but not as a modern server would; it can be asked something else.
    Answered(Box<Link>, RpcError),
    Failed(Failure),
}

impl Asked {
    fn into_failure(self) -> Failure {
        match self {
            Asked::Answered(_, error) => from_rpc(error),
            Asked::Failed(failure) => failure,
        }
    }
}

/// Asks for the new era.
async fn discover(link: Link, bound: Duration) -> Result<Connection, Asked> {
    let (request, manner) = (Request::new(method::DISCOVER, bound), Manner::new(Version::MODERN));
    let mut answer = ask(&link, &manner, &request).await;
    // One that refuses a version which it says it speaks is asked once more, as the protocol wants.
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
                return Err(Asked::Answered(Box::new(link), error));
            }
            let failure = no_common_version(&supported(&error).collect::<Vec<_>>().join(", "));
            return Err(Asked::Failed(give_up(link, failure).await));
        }
        Err(failure) => {
            let failure = at_phase(&link, failure, "it was asked what it speaks (server/discover)");
            return Err(Asked::Failed(give_up(link, failure).await));
        }
    };
    let Some(supported) = payload.get::<Vec<String>>("supportedVersions") else {
        // A server of the new era says what it speaks; one of the earlier era may answer anything.
        let message = "the server's answer to `server/discover` names no versions".to_owned();
        return Err(Asked::Answered(Box::new(link), RpcError { code: METHOD_NOT_FOUND, message, data: None }));
    };
    if !supported.iter().any(|version| version == MODERN) {
        if supported.iter().any(|version| LEGACY.contains(&version.as_str())) {
            let error = RpcError { code: UNSUPPORTED_VERSION, message: String::new(), data: None };
            return Err(Asked::Answered(Box::new(link), error));
        }
        let failure = no_common_version(&supported.join(", "));
        return Err(Asked::Failed(give_up(link, failure).await));
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

/// Lets go of a server that will not do.
async fn give_up(link: Link, failure: Failure) -> Failure {
    link.inbox.requests.close(stopped());
    link.close().await;
    failure
}

/// A server of the new era refuses `initialize` so.
fn is_modern(failure: &Failure) -> bool {
    failure.data.as_ref().and_then(|data| data["code"].as_i64()).is_some_and(|code| MODERN_ONLY.contains(&code))
}

fn refused(error: &RpcError) -> Failure {
    Failure {
        data: Some(serde_json::json!({ "code": error.code })),
        ..Failure::later(format!("the server refuses to begin ({}): {}", error.code, error.shown()))
    }
}

/// Adds how far the server came, and its last words.
fn at_phase(link: &Link, mut failure: Failure, phase: &str) -> Failure {
    failure.message = match failure.code {
        ErrorCode::ProviderTimeout => link.words.behind(format!("{} after {phase}", failure.message)),
        // One that has ended has told its last words already.
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
