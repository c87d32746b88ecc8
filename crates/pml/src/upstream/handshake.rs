//! How a connection begins: which era the server speaks, and in which version.
//!
//! A server that has not answered the question is never asked another one on the same process: a slow
//! server of the new era takes a late `initialize` for a mistake, and stays unusable.

use std::{sync::Arc, time::Duration};

use pml_wire::ErrorCode;
use tokio::time::{sleep, timeout};

use super::{
    codec::{Payload, RpcError},
    connection::{Connection, Era, LEGACY, MODERN, Reach, Request, ask, client_info, from_rpc, initialized},
    failure::Failure,
    inbox::stopped,
    process::Start,
    settings::{HttpWire, ProcessLimits, Settings, Target},
    transport::{Link, Plumbing, is_rejected},
};
use crate::catalog::Declared;

const METHOD_NOT_FOUND: i64 = -32601;
const UNSUPPORTED_VERSION: i64 = -32022;
/// Codes that only servers of the new era have.
const MODERN_CODES: std::ops::RangeInclusive<i64> = -32022..=-32020;
/// Longest capabilities and instructions that are kept.
const MAX_DECLARED_BYTES: usize = 256 * 1024;
/// How long a server is waited for before it is also asked in the older way, on a second process.
const HEAD_START: Duration = Duration::from_secs(10);
/// How long the stream is waited for on which a server asks. Some begin it only when they have to say something.
const LISTENING: Duration = Duration::from_secs(1);

/// Connects. `known` is the era that the server spoke the last time; if that is why it refuses, it is
/// asked anew.
pub(super) async fn connect(
    settings: &Settings,
    reach: &Reach,
    limits: ProcessLimits,
    known: Option<Era>,
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
    known: Option<Era>,
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
    known: Option<Era>,
) -> Result<Connection, Failure> {
    match known {
        Some(Era::Legacy(_)) => {
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
    known: Option<Era>,
) -> Result<Connection, Failure> {
    if !matches!(known, Some(Era::Legacy(_))) {
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
    let request = Request::new("server/discover", bound);
    let mut answer = ask(&link, Era::Modern, 0, &request).await;
    // One that refuses a version which it says it speaks is asked once more, as the protocol wants.
    if let Ok(Err(error)) = &answer
        && error.code == UNSUPPORTED_VERSION
        && supported(error).any(|version| version == MODERN)
    {
        answer = ask(&link, Era::Modern, 1, &request).await;
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
    let mut meta: serde_json::Value = payload.get("_meta").unwrap_or_default();
    link.inbox.agreed(MODERN);
    // What a client can do, such a server is told with each request.
    Ok(Connection::new(link, Era::Modern, declared(meta["io.modelcontextprotocol/serverInfo"].take(), &payload), false))
}

/// The versions that a server names when it refuses one.
fn supported(error: &RpcError) -> impl Iterator<Item = &str> {
    let versions = error.data.as_ref().and_then(|data| data["supported"].as_array());
    versions.into_iter().flatten().filter_map(|version| version.as_str())
}

/// What pml can pass on, where it passes on anything.
const RELAYED: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{"listChanged":true}}"#;

pub(super) fn initialize_request(bound: Duration, relays: bool) -> Request<'static> {
    Request::new("initialize", bound)
        .with("protocolVersion", format!("\"{}\"", LEGACY[0]))
        .with("capabilities", if relays { RELAYED } else { "{}" })
        .with("clientInfo", client_info())
}

/// Begins a session of the earlier era.
async fn initialize(link: Link, bound: Duration, relays: bool) -> Result<Connection, Failure> {
    let answer = ask(&link, Era::Legacy(LEGACY[0]), 0, &initialize_request(bound, relays)).await;
    let answer = answer.and_then(|answer| answer.map_err(|error| refused(&error)));
    match answer.and_then(|payload| legacy_era(&payload).map(|era| (era, payload))) {
        Ok((era, payload)) => {
            link.inbox.agreed(era.version());
            initialized(&link, era).await;
            begin_listening(&link, era, relays).await;
            let info = payload.get("serverInfo").unwrap_or_default();
            Ok(Connection::new(link, era, declared(info, &payload), relays))
        }
        Err(failure) => {
            let failure = at_phase(&link, failure, "it was asked to begin (initialize)");
            Err(give_up(link, failure).await)
        }
    }
}

/// Hears what the server says by itself. Where it may ask a client something, it is waited for: some
/// servers drop a question for which no stream is open yet, and wait for the answer for ever.
pub(super) async fn begin_listening(link: &Link, era: Era, relays: bool) {
    let opened = link.listen(era.version());
    if relays {
        let _ = timeout(LISTENING, opened).await;
    }
}

/// The version that a server of the earlier era has chosen.
pub(super) fn legacy_era(payload: &Payload) -> Result<Era, Failure> {
    let version: Option<String> = payload.get("protocolVersion");
    match version {
        Some(version) => match Era::of(&version) {
            Some(era @ Era::Legacy(_)) => Ok(era),
            _ => Err(no_common_version(&version)),
        },
        None => Err(Failure::protocol("the server's answer to `initialize` has no protocol version")),
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
    link.inbox.close(stopped());
    link.close().await;
    failure
}

fn no_common_version(theirs: &str) -> Failure {
    let message = format!(
        "no common protocol version: the server speaks {}, pml speaks {MODERN}, {}",
        if theirs.is_empty() { "none that it names" } else { theirs },
        LEGACY.join(", ")
    );
    Failure::never(message)
}

/// A server of the new era refuses `initialize` so.
fn is_modern(failure: &Failure) -> bool {
    failure.data.as_ref().and_then(|data| data["code"].as_i64()).is_some_and(|code| MODERN_CODES.contains(&code))
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
