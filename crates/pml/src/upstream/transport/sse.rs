//! HTTP+SSE, the transport of 2024: a stream of events in, a POST for each message out.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt};
use pml_wire::ErrorCode;
use reqwest::{
    Client, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap},
};
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    super::{
        failure::{Failure, Retry},
        inbox::{Inbox, stopped},
        settings::Secret,
    },
    Exchange, Outgoing, Plumbing,
    http::{Event, Events, content_type, parse_headers, parse_url, refusal, rejected, shown, unreachable},
    replies,
};

/// How long the server may take to name its address for messages.
const ENDPOINT: Duration = Duration::from_secs(30);
/// For what nobody waits for.
const SHORT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Sse {
    client: Client,
    endpoint: Url,
    headers: HeaderMap,
    inbox: Arc<Inbox>,
    stop: CancellationToken,
}

pub(super) async fn open(
    client: &Client,
    url: &Secret,
    headers: &BTreeMap<String, Secret>,
    plumbing: &Plumbing,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Result<(Arc<Sse>, Arc<Inbox>), Failure> {
    let (url, headers) = (parse_url(url)?, parse_headers(headers)?);
    let request = client.get(url.clone()).headers(headers.clone()).header(ACCEPT, "text/event-stream");
    let silent = |_| Failure::later("no answer within 30s after its stream of events was asked for");
    let response = timeout(ENDPOINT, request.send()).await.map_err(silent)?.map_err(|err| unreachable(&err))?;
    let status = response.status();
    if !status.is_success() {
        return Err(refusal(response).await);
    }
    if content_type(&response) != "text/event-stream" {
        let message = format!("the server has no stream of events (HTTP {status}): {}", shown(response).await);
        return Err(rejected(status, message));
    }
    let max_bytes = plumbing.max_message_bytes;
    let mut events = Events::new(max_bytes);
    let mut stream = response.bytes_stream();
    let endpoint = timeout(ENDPOINT, endpoint(&mut stream, &mut events, &url))
        .await
        .map_err(|_| Failure::later("the server did not name its address for messages"))??;

    let (sender, mut outgoing) = replies();
    let inbox = Inbox::new(plumbing.notices.clone(), sender, Arc::default());
    let sse =
        Arc::new(Sse { client: client.clone(), endpoint, headers, inbox: Arc::clone(&inbox), stop: stop.clone() });
    let receiving = Arc::clone(&inbox);
    let stopping = stop.clone();
    tasks.spawn(async move {
        let failure = tokio::select! {
            biased;
            () = stopping.cancelled() => stopped(),
            failure = receive(stream, events, &receiving, max_bytes) => failure,
        };
        receiving.close(failure);
    });
    let (replying, stop) = (Arc::clone(&sse), stop.clone());
    tasks.spawn(async move {
        let reply = async {
            while let Some(body) = outgoing.recv().await {
                let _ = timeout(SHORT, replying.post(body)).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = reply => {}
        }
    });
    Ok((sse, inbox))
}

/// Waits for the event that says where messages go.
async fn endpoint(
    stream: &mut (impl Stream<Item = reqwest::Result<impl AsRef<[u8]>>> + Unpin),
    events: &mut Events,
    url: &Url,
) -> Result<Url, Failure> {
    loop {
        while let Some(event) = events.next_event() {
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
        match stream.next().await {
            Some(Ok(part)) => events.push(part.as_ref()),
            Some(Err(err)) => return Err(unreachable(&err)),
            None => return Err(Failure::later("the server's stream ended before it named its address for messages")),
        }
    }
}

async fn receive(
    mut stream: impl Stream<Item = reqwest::Result<impl AsRef<[u8]>>> + Unpin,
    mut events: Events,
    inbox: &Inbox,
    max_bytes: usize,
) -> Failure {
    loop {
        while let Some(event) = events.next_event() {
            match event {
                Event::Message { data, .. } => inbox.receive(&data, None),
                Event::TooLong(beginning) => inbox.too_long(&beginning, max_bytes, None),
            }
        }
        match stream.next().await {
            Some(Ok(part)) => events.push(part.as_ref()),
            Some(Err(err)) => return unreachable(&err),
            None => {
                let message = "the server's stream of events ended";
                return Failure::new(ErrorCode::ProviderUnavailable, message, Retry::Later);
            }
        }
    }
}

impl Sse {
    pub(super) fn send(self: &Arc<Self>, message: Outgoing, tasks: &TaskTracker) -> Exchange {
        let sse = Arc::clone(self);
        let task = tasks.spawn(async move {
            tokio::select! {
                biased;
                () = sse.stop.cancelled() => {}
                posted = sse.post(message.body) => if let (Err(failure), Some(id)) = (posted, message.id) {
                    sse.inbox.fail(id, failure);
                }
            }
        });
        Exchange(Some(task.abort_handle()))
    }

    pub(super) fn tell(self: &Arc<Self>, message: Outgoing, tasks: &TaskTracker) {
        let sse = Arc::clone(self);
        tasks.spawn(async move { sse.deliver(message).await });
    }

    pub(super) async fn deliver(&self, message: Outgoing) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            _ = timeout(SHORT, self.post(message.body)) => {}
        }
    }

    async fn post(&self, body: Vec<u8>) -> Result<(), Failure> {
        let request = self.client.post(self.endpoint.clone()).headers(self.headers.clone());
        let response = request.header(CONTENT_TYPE, "application/json").body(body).send().await;
        let response = response.map_err(|err| unreachable(&err))?;
        match response.status().is_success() {
            true => Ok(()),
            false => Err(refusal(response).await),
        }
    }
}
