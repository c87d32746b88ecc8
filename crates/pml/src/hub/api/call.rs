//! One request that was let in, and how its parts are read.

use std::{
    collections::HashMap,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody as _},
    http::{HeaderMap, header},
    response::Response,
};
use pml_wire::hub::Code;
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

use super::{super::service::Hub, access::Caller, encoding::Encoding, problem::Problem};
use crate::{
    trace::store::StoreError,
    web::{AnswerHold, Kept, MAX_BYTES, Received},
};

/// How long the store may take for what reads or changes a few rows. What is not done then is not done later either.
const SOON: Duration = Duration::from_secs(5);
/// Most bytes of an answer with many traces or capabilities: what is more is on the next page.
pub(super) const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// Room for an answer about one trace or capability. Few are as large.
pub(super) const ONE_BYTES: usize = 2 * 1024 * 1024;

/// A request that was let in.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) hub: Arc<Hub>,
    pub(super) caller: Caller,
    /// The parts of the path that the route leaves open.
    pub(super) path: HashMap<String, String>,
    pub(super) query: HashMap<String, String>,
    pub(super) headers: HeaderMap,
    /// Behind a lock that nobody waits for: a body alone cannot be shared between threads.
    pub(super) body: Mutex<Body>,
}

impl Call {
    /// A part of the path.
    pub(super) fn part<T: FromStr>(&self, name: &str) -> Result<T, Problem> {
        let text = self.path.get(name).map(String::as_str).unwrap_or_default();
        text.parse().map_err(|_| Problem::new(Code::NotFound, format!("there is no `{text}`")))
    }

    /// A part of the query, if it is there.
    pub(super) fn query<T: FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.query.get(name) else { return Ok(None) };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(err) => Err(Problem::invalid(format!("`{name}` is `{text}`: {err}"))),
        }
    }

    /// A number in the query, within bounds.
    pub(super) fn number(&self, name: &str, default: usize, most: usize) -> Result<usize, Problem> {
        match self.query(name)?.unwrap_or(default) {
            number if number <= most => Ok(number),
            number => Err(Problem::invalid(format!("`{name}` is {number}, but may be {most} at most"))),
        }
    }

    /// Room for an answer that is not made yet.
    pub(super) async fn room(&self, bytes: usize) -> Result<AnswerPlace, Problem> {
        let none = || Problem::unavailable("too many answers wait to be read");
        let of_key = self.caller.answer_room(bytes).await.ok_or_else(none)?;
        let of_hub = self.hub.answers.take(bytes).await.ok_or_else(none)?;
        Ok(AnswerPlace { holds: [of_key, of_hub], _turn: None })
    }

    /// Reads the body. What remains of the call is returned with it.
    pub(super) async fn read(mut self) -> Result<(Call, Received), Problem> {
        check_type(&self.headers)?;
        let length = self.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > MAX_BYTES as u64) {
            return Err(crate::web::NoBody::TooLarge.into());
        }
        let body = std::mem::take(self.body.get_mut().unwrap_or_else(PoisonError::into_inner));
        let received = self.hub.bodies.read(body).await?;
        Ok((self, received))
    }

    /// Reads the body as JSON.
    pub(super) async fn json<T: serde::de::DeserializeOwned>(self) -> Result<(Call, T), Problem> {
        let encoding = Encoding::of(&self.headers)?;
        let (call, received) = self.read().await?;
        let plain = match encoding {
            Encoding::Identity => received.bytes,
            compressed => blocking(move || compressed.decode(received.bytes)).await??,
        };
        match serde_json::from_slice(&plain) {
            Ok(value) => Ok((call, value)),
            Err(err) => Err(Problem::invalid(format!("the body is not as it should be: {err}"))),
        }
    }
}

impl Hub {
    /// Waits a moment for the store.
    pub(super) async fn soon<T>(&self, answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, Problem> {
        match timeout(SOON, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(self.late()),
        }
    }

    /// Why the store has not answered in time.
    pub(super) fn late(&self) -> Problem {
        let state = self.store.state();
        Problem::unavailable(if state.is_well() { "the store takes too long" } else { state.summary() })
    }
}

/// The room of an answer, from before it is made until it is sent.
#[derive(Debug)]
pub(super) struct AnswerPlace {
    holds: [AnswerHold; 2],
    _turn: Option<OwnedSemaphorePermit>,
}

impl AnswerPlace {
    /// The key's next long query begins when this answer is sent.
    pub(super) fn with_turn(self, turn: Option<OwnedSemaphorePermit>) -> AnswerPlace {
        AnswerPlace { _turn: turn, ..self }
    }

    /// Keeps what the response needs until it is sent.
    pub(super) fn hold(mut self, mut response: Response) -> Response {
        let bytes =
            response.body().size_hint().upper().and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        self.holds.iter_mut().for_each(|hold| hold.shrink_to(bytes));
        response.extensions_mut().insert(Kept::new(self));
        response
    }
}

/// A body is JSON, if anything says what it is.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match kind.eq_ignore_ascii_case("application/json") || kind.is_empty() {
        true => Ok(()),
        false => Err(Problem::new(
            Code::UnsupportedType,
            format!("`Content-Type` is `{kind}`, but must be `application/json`"),
        )),
    }
}

/// Does what takes a while on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|err| {
        tracing::error!(error = %err, "a request was not served as it should be");
        Problem::new(Code::Internal, "the hub made a mistake")
    })
}
