//! Streamable HTTP: each message is a POST, answered at once, by JSON or by a stream of events.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures_util::StreamExt;
use pml_wire::ErrorCode;
use reqwest::{
    RequestBuilder, Response, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName},
};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{
    super::{
        failure::{Failure, Retry, stopped},
        inbox::Inbox,
        oauth::Sender,
        reading::Reading,
        settings::Secret,
        web::{
            EVENTS, JSON, beginning, content_type, is_passing, is_refusal, parse_headers, parse_url, refusal, rejected,
            shown, unreachable,
        },
    },
    events::{Event, Events},
    forgotten::{forgets_session, lost_session},
    outgoing::{Headers, Outgoing},
    plumbing::Plumbing,
};
use crate::{protocol::header, room::Room};

/// For what only frees the server's memory earlier.
const GOODBYE: Duration = Duration::from_secs(1);
/// Between two attempts to open the server's own stream.
const REOPEN: Duration = Duration::from_secs(5);
/// How long a stream that ended too early is left alone, unless the server says how long.
const RESUME: Duration = Duration::from_secs(1);
/// The shortest time that a server may ask for before its stream is resumed.
const RESUME_LEAST: Duration = Duration::from_millis(50);
/// How often a stream is resumed that brings nothing new.
const MAX_FUTILE: usize = 5;

#[derive(Debug)]
pub(super) struct Http {
    sender: Sender,
    url: Url,
    headers: HeaderMap,
    inbox: Arc<Inbox>,
    max_bytes: usize,
    room: Room,
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
            inbox: Arc::clone(inbox),
            max_bytes: plumbing.max_message_bytes,
            room: plumbing.room.clone(),
        })
    }

    /// Tells the server that a session is over.
    pub(super) async fn end_session(&self, headers: &Headers) {
        let Some(session) = headers.session.clone() else { return };
        let delete = self.sender.client.delete(self.url.clone()).headers(self.headers.clone());
        let _ = timeout(GOODBYE, self.sender.send(delete.header(header::SESSION, session))).await;
    }

    pub(super) async fn post(&self, message: Outgoing) -> Result<(), Failure> {
        let Outgoing { body, id, headers, departure, begins } = message;
        let request = self.sender.client.post(self.url.clone());
        let request = request.header(ACCEPT, format!("{JSON}, {EVENTS}")).header(CONTENT_TYPE, JSON);
        let mut request = within(request, &headers);
        if let Some(method) = &headers.method {
            request = request.header(header::METHOD, method);
        }
        if let Some(name) = &headers.name {
            request = request.header(header::NAME, header_text(name));
        }
        let is_modern = headers.method.is_some();
        for (name, value) in headers.arguments.iter().filter(|_| is_modern) {
            // A name that cannot be one is the tool's mistake; the server will say so.
            if let Ok(name) = format!("{}{name}", header::PARAMETER).parse::<HeaderName>() {
                request = request.header(name, header_text(value));
            }
        }
        // Last: what is configured takes the place of ours.
        let request = request.headers(self.headers.clone()).body(body.into_string());
        if !departure.leave() {
            return Err(stopped());
        }
        let response = self.sender.send(request).await?;
        if !response.status().is_success() {
            return self.refused(response, id, headers.session.is_some()).await;
        }
        if let (Some(slot), Some(session)) = (begins, response.headers().get(header::SESSION)) {
            slot.fill(session.clone());
        }
        let Some(id) = id else { return Ok(()) };
        // Whatever goes wrong from here on, the server has taken the request.
        self.answered(response, id, &headers).await.map_err(Failure::uncertain)
    }

    /// Takes the answer to request `id`, whose status is a success.
    async fn answered(&self, response: Response, id: u64, headers: &Headers) -> Result<(), Failure> {
        let (status, is_modern) = (response.status(), headers.method.is_some());
        match content_type(&response) {
            JSON => {
                let text = self.take_body(response, id).await?;
                if self.inbox.requests.is_pending(id) {
                    return Err(Failure::protocol(format!("the server's answer is not one to the request: {text}")));
                }
            }
            EVENTS if is_modern => self.events(response, Some(id), &mut Events::new(self.max_bytes)).await?,
            EVENTS => self.resumed_events(response, id, headers).await?,
            "" if status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT => {}
            _ => {
                let header = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
                let kind = header.unwrap_or("no content type").to_owned();
                let message = format!("the server answers with {kind} instead of JSON: {}", shown(response).await);
                return Err(rejected(status, message));
            }
        }
        if self.inbox.requests.is_pending(id) {
            let message = "the server ended its answer before the result came";
            return Err(Failure::new(ErrorCode::ProviderUnavailable, message, Retry::Later));
        }
        Ok(())
    }

    /// Takes an answer whose status is no success: a lost session, an error of the protocol, or another refusal.
    async fn refused(&self, response: Response, id: Option<u64>, has_session: bool) -> Result<(), Failure> {
        let status = response.status();
        let may_be_lost = has_session && is_refusal(status);
        let (Some(id), JSON, true) = (id, content_type(&response), is_refusal(status)) else {
            if !may_be_lost {
                return Err(refusal(response).await);
            }
            let text = shown(response).await;
            return Err(match forgets_session(status, text.as_bytes(), id) {
                true => lost_session(),
                false => rejected(status, format!("the server answers with HTTP {status}: {text}")),
            });
        };
        let mut reading = Reading::new(&self.room);
        let bytes = self.body(response, &mut reading).await?;
        if may_be_lost && forgets_session(status, &bytes, Some(id)) {
            return Err(lost_session());
        }
        let text = beginning(&bytes);
        self.inbox.take(bytes.into(), reading.take(), Some(id)).await;
        if !self.inbox.requests.is_pending(id) {
            return Ok(());
        }
        Err(rejected(status, format!("the server answers with HTTP {status}: {text}")))
    }

    /// Takes the body of an answer to request `id`, which is one message. How it begins.
    async fn take_body(&self, response: Response, id: u64) -> Result<String, Failure> {
        let mut reading = Reading::new(&self.room);
        let bytes = self.body(response, &mut reading).await?;
        let text = beginning(&bytes);
        self.inbox.take(bytes.into(), reading.take(), Some(id)).await;
        Ok(text)
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
            if id.is_some_and(|id| !self.inbox.requests.is_pending(id)) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes the events of an answer of the legacy era, whose stream may end before the answer is there: the stream is
    /// resumed where it ended, if the server has named the place. Whoever waits for the answer bounds how long that goes
    /// on.
    async fn resumed_events(&self, response: Response, id: u64, headers: &Headers) -> Result<(), Failure> {
        let mut events = Events::new(self.max_bytes);
        let mut ended = self.events(response, Some(id), &mut events).await;
        let mut futile = 0;
        while self.inbox.requests.is_pending(id) && futile < MAX_FUTILE {
            let Some(place) = events.last_id().cloned() else { break };
            sleep(events.retry().unwrap_or(RESUME).max(RESUME_LEAST)).await;
            ended = match self.sender.send(self.get(headers).header(header::LAST_EVENT_ID, &place)).await {
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
    fn get(&self, headers: &Headers) -> RequestBuilder {
        let request = self.sender.client.get(self.url.clone()).headers(self.headers.clone()).header(ACCEPT, EVENTS);
        within(request, headers)
    }

    /// Keeps the server's own stream of one session open, unless the server has none. Says when it is known which.
    pub(super) async fn listening(&self, headers: &Headers, opened: oneshot::Sender<()>) {
        let mut opened = Some(opened);
        loop {
            let response = self.sender.send(self.get(headers)).await;
            drop(opened.take());
            match response {
                Ok(response) if response.status().is_success() && content_type(&response) == EVENTS => {
                    let _ = self.events(response, None, &mut Events::new(self.max_bytes)).await;
                }
                // There is no such stream, or no such session; the next request will find out.
                Ok(response) if !response.status().is_server_error() => return,
                Err(failure) if failure.code == ErrorCode::AuthRequired => return,
                _ => {}
            }
            sleep(REOPEN).await;
        }
    }
}

/// A request that belongs to a session, in a version.
fn within(mut request: RequestBuilder, headers: &Headers) -> RequestBuilder {
    if let Some(version) = headers.version {
        request = request.header(header::VERSION, version);
    }
    match &headers.session {
        Some(session) => request.header(header::SESSION, session),
        None => request,
    }
}

/// A name as a header may carry it.
fn header_text(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && name.trim() == name;
    match is_plain && !name.starts_with("=?base64?") {
        true => name.to_owned(),
        false => format!("=?base64?{}?=", BASE64_STANDARD.encode(name)),
    }
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
