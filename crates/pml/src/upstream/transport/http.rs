//! Streamable HTTP: each message is a POST, answered at once, by JSON or by a stream of events.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::StreamExt;
use pml_wire::ErrorCode;
use reqwest::{
    RequestBuilder, Response, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{
    super::{
        failure::{Failure, Retry},
        inbox::Inbox,
        oauth::Sender,
        reading::Reading,
        settings::Secret,
    },
    Outgoing, Plumbing, SHORT, SessionStep,
    events::{Event, Events},
};
use crate::room::Room;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// How much of a body that is no message is read and shown.
const SHOWN_BYTES: usize = 300;
/// For what only frees the server's memory earlier.
const GOODBYE: Duration = Duration::from_secs(1);
/// Between two attempts to open the server's own stream.
const REOPEN: Duration = Duration::from_secs(5);
/// How long a stream that ended too early is left alone, unless the server says how long.
const RESUME: Duration = Duration::from_secs(1);
/// The same, if the server says that it need not be.
const RESUME_LEAST: Duration = Duration::from_millis(50);
/// How often one is taken up again that brings nothing new.
const MAX_FUTILE: usize = 5;

#[derive(Debug)]
pub(super) struct Http {
    sender: Sender,
    url: Url,
    headers: HeaderMap,
    sessions: Mutex<Sessions>,
    inbox: Arc<Inbox>,
    max_bytes: usize,
    room: Room,
}

/// The sessions with the server.
#[derive(Debug, Default)]
struct Sessions {
    /// The one that messages belong to.
    current: Option<HeaderValue>,
    /// One that was begun and not confirmed: until the server knows that it is used, nothing else may belong to it. Inside
    /// is what the server called it, if anything.
    begun: Option<Option<HeaderValue>>,
}

impl Sessions {
    /// The session that a message belongs to.
    fn of(&self, step: SessionStep) -> Option<HeaderValue> {
        match (&self.begun, step) {
            (_, SessionStep::Begins) => None,
            (Some(begun), SessionStep::Confirms) => begun.clone(),
            _ => self.current.clone(),
        }
    }

    fn confirm(&mut self) {
        if let Some(begun) = self.begun.take() {
            self.current = begun;
        }
    }
}

/// Was a message refused by its status? Then somebody is there, but not for this.
pub(in super::super) fn is_rejected(failure: &Failure) -> bool {
    failure.data.as_ref().is_some_and(|data| data.get("status").is_some())
}

pub(in super::super) fn parse_url(url: &Secret) -> Result<Url, Failure> {
    // The text may hold a token, so it is not shown.
    let url: Url = url.reveal().parse().map_err(|err| Failure::never(format!("its url is none: {err}")))?;
    match url.scheme() {
        "http" | "https" if url.host().is_some() => Ok(url),
        scheme => Err(Failure::never(format!("its url must begin with http:// or https://, not {scheme}:"))),
    }
}

pub(in super::super) fn parse_headers(headers: &BTreeMap<String, Secret>) -> Result<HeaderMap, Failure> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let parsed: HeaderName =
            name.parse().map_err(|_| Failure::never(format!("`{name}` cannot be the name of a header")))?;
        let mut value = HeaderValue::from_str(value.reveal())
            .map_err(|_| Failure::never(format!("the value of its header `{name}` cannot be sent")))?;
        value.set_sensitive(true);
        map.insert(parsed, value);
    }
    Ok(map)
}

impl Http {
    pub(super) fn new(
        sender: &Sender,
        url: &Secret,
        headers: &BTreeMap<String, Secret>,
        plumbing: &Plumbing,
        inbox: &Arc<Inbox>,
    ) -> Result<Http, Failure> {
        Ok(Http {
            sender: sender.clone(),
            url: parse_url(url)?,
            headers: parse_headers(headers)?,
            sessions: Mutex::default(),
            inbox: Arc::clone(inbox),
            max_bytes: plumbing.max_message_bytes,
            room: plumbing.room.clone(),
        })
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn end_session(&self) {
        let Sessions { current, begun } = std::mem::take(&mut *self.sessions());
        for session in current.into_iter().chain(begun.flatten()) {
            let delete = self.sender.client.delete(self.url.clone()).headers(self.headers.clone());
            let _ = timeout(GOODBYE, self.sender.send(delete.header(SESSION, session))).await;
        }
    }

    pub(super) async fn post(&self, message: Outgoing) -> Result<(), Failure> {
        let Outgoing { body, id, headers } = message;
        let request = self.sender.client.post(self.url.clone());
        let mut request = request.header(ACCEPT, format!("{JSON}, {EVENTS}")).header(CONTENT_TYPE, JSON);
        if let Some(version) = headers.version {
            request = request.header(VERSION, version);
        }
        if let Some(method) = &headers.method {
            request = request.header(METHOD, method);
        }
        if let Some(name) = headers.name {
            request = request.header(NAME, header_text(&name));
        }
        let is_modern = headers.method.is_some();
        for (name, value) in headers.arguments.iter().filter(|_| is_modern) {
            // A name that cannot be one is the tool's mistake; the server will say so.
            if let Ok(name) = format!("mcp-param-{name}").parse::<HeaderName>() {
                request = request.header(name, header_text(value));
            }
        }
        let session = self.sessions().of(headers.step);
        let has_session = session.is_some();
        if let Some(session) = session {
            request = request.header(SESSION, session);
        }
        // Last: what is configured takes the place of ours.
        let request = request.headers(self.headers.clone()).body(body.into_string());
        let response = self.sender.send(request).await;
        if headers.step == SessionStep::Confirms {
            self.sessions().confirm();
        }
        let response = response?;
        let status = response.status();
        if !status.is_success() {
            return self.refused(response, id, has_session).await;
        }
        if headers.step == SessionStep::Begins {
            self.sessions().begun = Some(response.headers().get(SESSION).cloned());
        }
        let Some(id) = id else { return Ok(()) };
        match content_type(&response) {
            JSON => {
                let text = self.take_body(response, id).await?;
                if self.inbox.is_pending(id) {
                    return Err(Failure::protocol(format!("the server's answer is not one to the request: {text}")));
                }
            }
            EVENTS if is_modern => self.events(response, Some(id), &mut Events::new(self.max_bytes)).await?,
            EVENTS => self.resumed_events(response, id, headers.version).await?,
            "" if status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT => {}
            _ => {
                let header = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
                let kind = header.unwrap_or("no content type").to_owned();
                let message = format!("the server answers with {kind} instead of JSON: {}", shown(response).await);
                return Err(rejected(status, message));
            }
        }
        if self.inbox.is_pending(id) {
            let message = "the server ended its answer before the result came";
            return Err(Failure::new(ErrorCode::ProviderUnavailable, message, Retry::Later));
        }
        Ok(())
    }

    /// Takes an answer whose status is no success: perhaps an error of the protocol is inside.
    async fn refused(&self, response: Response, id: Option<u64>, has_session: bool) -> Result<(), Failure> {
        let status = response.status();
        if status == StatusCode::NOT_FOUND && has_session {
            let message = "the server has forgotten the session";
            return Err(Failure::new(ErrorCode::ProviderUnavailable, message, Retry::NewSession));
        }
        let (Some(id), JSON, true) = (id, content_type(&response), is_refusal(status)) else {
            return Err(refusal(response).await);
        };
        let text = self.take_body(response, id).await?;
        if !self.inbox.is_pending(id) {
            return Ok(());
        }
        Err(rejected(status, format!("the server answers with HTTP {status}: {text}")))
    }

    /// Takes the body of an answer to request `id`, which is one message. How it begins.
    async fn take_body(&self, response: Response, id: u64) -> Result<String, Failure> {
        let mut reading = Reading::new(&self.room);
        let bytes = self.body(response, &mut reading).await?;
        let beginning = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]).into_owned();
        self.inbox.take(bytes.into(), reading.take(), Some(id)).await;
        Ok(beginning)
    }

    async fn body(&self, response: Response, reading: &mut Reading) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let mut stream = response.bytes_stream();
        while let Some(part) = stream.next().await {
            bytes.extend_from_slice(&part.map_err(|err| unreachable(&err))?);
            reading.grown(bytes.len()).await?;
            if bytes.len() > self.max_bytes {
                let message = format!("the server sent a message of more than {} MB", self.max_bytes / (1024 * 1024));
                return Err(Failure::protocol(message));
            }
        }
        Ok(bytes)
    }

    /// Takes events until the stream ends, or until the one that is waited for has come.
    async fn events(&self, response: Response, id: Option<u64>, events: &mut Events) -> Result<(), Failure> {
        let mut stream = response.bytes_stream();
        let mut reading = Reading::new(&self.room);
        while let Some(part) = stream.next().await {
            events.push(&part.map_err(|err| unreachable(&err))?);
            while let Some(event) = events.next_event() {
                let charge = reading.take();
                match event {
                    Event::Message { data, .. } => self.inbox.take(data.into(), charge, id).await,
                    Event::TooLong(beginning) => self.inbox.too_long(&beginning, self.max_bytes, id),
                }
            }
            if let Err(full) = reading.grown(events.pending_bytes()).await {
                reading.take();
                self.inbox.give_up(&events.skip_event(), full.into(), id);
            }
            if id.is_some_and(|id| !self.inbox.is_pending(id)) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes the events of an answer of the earlier era, whose stream may end before the answer is there:
    /// it is taken up where it ended, if the server has named the place. How long that may go on is for
    /// whoever waits for the answer to say.
    async fn resumed_events(&self, response: Response, id: u64, version: Option<&'static str>) -> Result<(), Failure> {
        let mut events = Events::new(self.max_bytes);
        let mut ended = self.events(response, Some(id), &mut events).await;
        let mut futile = 0;
        while self.inbox.is_pending(id) && futile < MAX_FUTILE {
            let Some(place) = events.last_id().cloned() else { break };
            sleep(events.retry().unwrap_or(RESUME).max(RESUME_LEAST)).await;
            ended = match self.sender.send(self.get(version).header(LAST_EVENT_ID, &place)).await {
                Ok(response) if response.status().is_success() && content_type(&response) == EVENTS => {
                    events.begin_again();
                    self.events(response, Some(id), &mut events).await
                }
                Ok(response) if is_passing(response.status()) => Err(refusal(response).await),
                // It has no such stream, or has forgotten the place.
                Ok(_) => break,
                Err(failure) => Err(failure),
            };
            futile = if events.last_id() == Some(&place) { futile + 1 } else { 0 };
        }
        ended
    }

    /// A request for a stream of events.
    fn get(&self, version: Option<&'static str>) -> RequestBuilder {
        let mut request = self.sender.client.get(self.url.clone()).headers(self.headers.clone()).header(ACCEPT, EVENTS);
        if let Some(version) = version {
            request = request.header(VERSION, version);
        }
        match self.sessions().current.clone() {
            Some(session) => request.header(SESSION, session),
            None => request,
        }
    }

    /// Keeps the server's own stream open, unless it has none. Says when it is known which.
    pub(super) async fn listening(&self, version: &'static str, opened: oneshot::Sender<()>) {
        let mut opened = Some(opened);
        loop {
            let response = self.sender.send(self.get(Some(version))).await;
            drop(opened.take());
            match response {
                Ok(response) if response.status().is_success() && content_type(&response) == EVENTS => {
                    let _ = self.events(response, None, &mut Events::new(self.max_bytes)).await;
                }
                // There is no such stream.
                Ok(response) if !response.status().is_server_error() => return,
                Err(failure) if failure.code == ErrorCode::AuthRequired => return,
                _ => {}
            }
            sleep(REOPEN).await;
        }
    }
}

/// A name as a header may carry it.
fn header_text(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && name.trim() == name;
    match is_plain && !name.starts_with("=?base64?") {
        true => name.to_owned(),
        false => format!("=?base64?{}?=", base64(name.as_bytes())),
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            match digit <= group.len() {
                true => text.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63])),
                false => text.push('='),
            }
        }
    }
    text
}

pub(super) fn content_type(response: &Response) -> &'static str {
    let header = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = header.split(';').next().unwrap_or_default().trim();
    match kind {
        "" => "",
        _ if kind.eq_ignore_ascii_case(JSON) => JSON,
        _ if kind.eq_ignore_ascii_case(EVENTS) => EVENTS,
        _ => "other",
    }
}

/// The beginning of a body that is no message.
pub(super) async fn shown(response: Response) -> String {
    let read = async {
        let mut bytes = Vec::new();
        let mut stream = response.bytes_stream();
        while let Some(Ok(part)) = stream.next().await {
            bytes.extend_from_slice(&part);
            if bytes.len() >= SHOWN_BYTES {
                break;
            }
        }
        bytes.truncate(SHOWN_BYTES);
        bytes
    };
    let bytes = timeout(SHORT, read).await.unwrap_or_default();
    match bytes.is_empty() {
        true => "(no text)".to_owned(),
        false => String::from_utf8_lossy(&bytes).into_owned(),
    }
}

/// Is this about the message, rather than about who sends it and when?
fn is_refusal(status: StatusCode) -> bool {
    let is_other = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
    status.is_client_error() && !is_other
}

/// May the same be answered better in a moment?
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// What an answer means whose status is no success.
pub(super) async fn refusal(response: Response) -> Failure {
    let status = response.status();
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let after = header(RETRY_AFTER).map(|after| format!("; Retry-After: {after}")).unwrap_or_default();
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let wants = header(WWW_AUTHENTICATE).map(|wants| format!("; it wants {wants}")).unwrap_or_default();
            let message = format!("the server wants a login (HTTP {status}){wants}");
            Failure::new(ErrorCode::AuthRequired, message, Retry::Never)
        }
        StatusCode::TOO_MANY_REQUESTS => {
            let message = format!("the server takes no more calls at the moment (HTTP {status}){after}");
            Failure::new(ErrorCode::RateLimited, message, Retry::Later)
        }
        _ if status.is_server_error() => {
            let message = format!("the server answers with HTTP {status}{after}: {}", shown(response).await);
            Failure { code: ErrorCode::ProviderUnavailable, ..rejected(status, message) }
        }
        _ if status.is_redirection() => {
            let message = format!("the server redirects to another place (HTTP {status}), which is not followed");
            rejected(status, message)
        }
        _ => rejected(status, format!("the server answers with HTTP {status}: {}", shown(response).await)),
    }
}

pub(super) fn rejected(status: StatusCode, message: String) -> Failure {
    Failure { data: Some(serde_json::json!({ "status": status.as_u16() })), ..Failure::protocol(message) }
}

/// Why there was no answer at all. The causes are told, the address is not: it may hold a token.
pub(in super::super) fn unreachable(err: &reqwest::Error) -> Failure {
    let mut causes = Vec::new();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(err);
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !causes.contains(&text) {
            causes.push(text);
        }
        cause = inner.source();
    }
    let what = match () {
        () if err.is_connect() => "the server cannot be reached",
        () if err.is_timeout() => "the server does not answer",
        () if err.is_redirect() => "the server redirects to another place, which is not followed",
        () => "the connection to the server broke",
    };
    let message = if causes.is_empty() { what.to_owned() } else { format!("{what}: {}", causes.join(": ")) };
    Failure::new(ErrorCode::ProviderUnavailable, message, Retry::Later)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_into_headers() {
        let table = [
            ("echo", "echo"),
            ("a b", "a b"),
            (" a", "=?base64?IGE=?="),
            ("é", "=?base64?w6k=?="),
            ("äöü", "=?base64?w6TDtsO8?="),
        ];
        for (name, expected) in table {
            assert_eq!(header_text(name), expected);
        }
    }
}
