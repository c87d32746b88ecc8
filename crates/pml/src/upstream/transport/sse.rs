//! HTTP+SSE, the transport of 2024: a stream of events in, a POST for each message out.

use std::{collections::BTreeMap, time::Duration};

use pml_wire::ErrorCode;
use reqwest::{
    Response, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap},
};
use tokio::time::timeout;

use super::{
    super::{
        failure::{Failure, Retry, stopped},
        inbox::Inbox,
        oauth::Sender,
        reading::Reading,
        settings::Secret,
        web::{EVENTS, JSON, content_type, parse_headers, parse_url, refusal, rejected, shown, unreachable},
    },
    events::{Event, Events},
    outgoing::Outgoing,
    plumbing::Plumbing,
};

/// How long the server may take to name its address for messages.
const ENDPOINT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Sse {
    sender: Sender,
    endpoint: Url,
    headers: HeaderMap,
}

/// The stream on which everything comes in.
#[derive(Debug)]
pub(super) struct Incoming {
    response: Response,
    events: Events,
    max_bytes: usize,
    reading: Reading,
}

impl Sse {
    pub(super) async fn open(
        sender: &Sender,
        url: &Secret,
        headers: &BTreeMap<String, Secret>,
        plumbing: &Plumbing,
    ) -> Result<(Sse, Incoming), Failure> {
        let (url, headers) = (parse_url(url)?, parse_headers(headers)?);
        let request = sender.client.get(url.clone()).headers(headers.clone()).header(ACCEPT, EVENTS);
        let silent = |_| Failure::later("no answer within 30s after its stream of events was asked for");
        let response = timeout(ENDPOINT, sender.send(request)).await.map_err(silent)??;
        let status = response.status();
        if !status.is_success() {
            return Err(refusal(response).await);
        }
        if content_type(&response) != EVENTS {
            let message = format!("the server has no stream of events (HTTP {status}): {}", shown(response).await);
            return Err(rejected(status, message));
        }
        let max_bytes = plumbing.max_message_bytes;
        let mut incoming =
            Incoming { response, events: Events::new(max_bytes), max_bytes, reading: Reading::new(&plumbing.room) };
        let endpoint = timeout(ENDPOINT, incoming.endpoint(&url))
            .await
            .map_err(|_| Failure::later("the server did not name its address for messages"))??;
        Ok((Sse { sender: sender.clone(), endpoint, headers }, incoming))
    }

    pub(super) async fn post(&self, message: Outgoing) -> Result<(), Failure> {
        let Outgoing { body, departure, .. } = message;
        let request = self.sender.client.post(self.endpoint.clone()).headers(self.headers.clone());
        if !departure.leave() {
            return Err(stopped());
        }
        let response = self.sender.send(request.header(CONTENT_TYPE, JSON).body(body.into_string())).await?;
        match response.status().is_success() {
            true => Ok(()),
            false => Err(refusal(response).await),
        }
    }
}

impl Incoming {
    /// Waits for the event that says where messages go.
    async fn endpoint(&mut self, url: &Url) -> Result<Url, Failure> {
        loop {
            while let Some(event) = self.events.next_event() {
                let Event::Message { name, data } = event else { continue };
                if name != "endpoint" {
                    continue;
                }
                let text = String::from_utf8_lossy(&data).into_owned();
                let endpoint = url
                    .join(text.trim())
                    .map_err(|err| Failure::protocol(format!("its address for messages is none: {err}")))?;
                // Headers with tokens go there.
                if endpoint.origin() != url.origin() {
                    return Err(Failure::never("the server wants messages to be sent to another host"));
                }
                return Ok(endpoint);
            }
            if !self.more().await? {
                return Err(Failure::later("the server's stream ended before it named its address for messages"));
            }
        }
    }

    /// Gives messages to the inbox until there are no more. Why.
    pub(super) async fn receive(mut self, inbox: &Inbox) -> Failure {
        loop {
            while let Some(event) = self.events.next_event() {
                let charge = self.reading.take();
                match event {
                    Event::Message { data, .. } => inbox.take(data.into(), charge, None).await,
                    Event::TooLong(beginning) => inbox.too_long(&beginning, self.max_bytes, None),
                }
            }
            if let Err(full) = self.reading.grown(self.events.pending_bytes()).await {
                self.reading.take();
                inbox.give_up(&self.events.skip_event(), full.into(), None);
            }
            match self.more().await {
                Ok(true) => {}
                Ok(false) => {
                    let message = "the server's stream of events ended";
                    return Failure::new(ErrorCode::ProviderUnavailable, message, Retry::Later);
                }
                Err(failure) => return failure,
            }
        }
    }

    /// Reads on. Was there more?
    async fn more(&mut self) -> Result<bool, Failure> {
        let part = self.response.chunk().await.map_err(|err| unreachable(&err))?;
        Ok(part.map(|part| self.events.push(&part)).is_some())
    }
}
