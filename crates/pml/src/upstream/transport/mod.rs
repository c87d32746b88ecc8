//! Ways to a server: a child's pipes, streamable HTTP, HTTP with a stream of events.
//!
//! Each carries messages out and gives what comes in to the [`Inbox`]; what the messages mean is
//! not known here.

mod events;
mod http;
mod sse;
mod stdio;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::FutureExt;
use pml_wire::Line;
use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(super) use self::http::{is_rejected, parse_headers, parse_url, unreachable};
use self::{http::Http, sse::Sse, stdio::Stdio};
use super::{
    failure::Failure,
    inbox::{Inbox, stopped},
    news::News,
    oauth::Sender,
    process::{LastWords, Start},
    settings::Secret,
};
use crate::room::Room;

/// Messages that may wait to be written.
const OUTBOX: usize = 64;

/// A connection that carries bytes.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) inbox: Arc<Inbox>,
    pub(super) words: Arc<LastWords>,
    pub(super) pid: Option<u32>,
    way: Way,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug)]
enum Way {
    Stdio(Stdio),
    /// Each message is a request of HTTP.
    Posts(Arc<Poster>),
}

#[derive(Debug)]
enum Poster {
    Http(Http),
    Sse(Sse),
}

impl Poster {
    async fn post(&self, message: Outgoing) -> Result<(), Failure> {
        match self {
            Poster::Http(http) => http.post(message).await,
            Poster::Sse(sse) => sse.post(message.body).await,
        }
    }
}

/// For what nobody waits for.
const SHORT: Duration = Duration::from_secs(5);

/// A message on its way out.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) body: Line,
    /// The request it is, if it is one.
    pub(super) id: Option<u64>,
    /// What HTTP wants to know about it, besides.
    pub(super) headers: Headers,
}

/// The parts of a message that HTTP repeats in its headers.
#[derive(Clone, Debug, Default)]
pub(super) struct Headers {
    pub(super) version: Option<&'static str>,
    pub(super) method: Option<String>,
    /// What it does about the session.
    pub(super) step: SessionStep,
    pub(super) name: Option<String>,
    /// Arguments that the tool wants there, by the header's name.
    pub(super) arguments: Vec<(String, String)>,
}

/// What a message does about a session of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SessionStep {
    /// It belongs to the session.
    #[default]
    Within,
    /// It begins one, so it belongs to none.
    Begins,
    /// It confirms the one that was begun.
    Confirms,
}

/// Ends the exchange of one request when dropped, where a request has one of its own.
#[derive(Debug, Default)]
pub(super) struct Exchange(Option<AbortHandle>);

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

/// What every way needs.
#[derive(Clone, Debug)]
pub(super) struct Plumbing {
    pub(super) news: Arc<News>,
    /// Counts the processes that have not ended.
    pub(super) lives: TaskTracker,
    pub(super) max_message_bytes: usize,
    /// Where large messages find room.
    pub(super) room: Room,
    pub(super) stop_grace: Duration,
}

impl Link {
    /// Starts a child and speaks over its pipes.
    pub(super) fn stdio(start: &Start<'_>, plumbing: &Plumbing) -> Result<Link, Failure> {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (way, inbox, words, pid) = stdio::open(start, plumbing, &stop, &tasks)?;
        Ok(Link { inbox, words, pid, way: Way::Stdio(way), stop, tasks })
    }

    /// Speaks streamable HTTP: each request is an exchange of its own.
    pub(super) fn http(
        sender: &Sender,
        url: &Secret,
        headers: &BTreeMap<String, Secret>,
        plumbing: &Plumbing,
    ) -> Result<Link, Failure> {
        let (replies, outgoing) = mpsc::channel(OUTBOX);
        let inbox = Inbox::new(Arc::clone(&plumbing.news), replies, Arc::default());
        let http = Http::new(sender, url, headers, plumbing, &inbox)?;
        Ok(Link::posting(Poster::Http(http), inbox, outgoing))
    }

    /// Speaks HTTP+SSE: one stream in, one request per message out.
    pub(super) async fn sse(
        sender: &Sender,
        url: &Secret,
        headers: &BTreeMap<String, Secret>,
        plumbing: &Plumbing,
    ) -> Result<Link, Failure> {
        let (sse, incoming) = Sse::open(sender, url, headers, plumbing).await?;
        let (replies, outgoing) = mpsc::channel(OUTBOX);
        let inbox = Inbox::new(Arc::clone(&plumbing.news), replies, Arc::default());
        let link = Link::posting(Poster::Sse(sse), Arc::clone(&inbox), outgoing);
        let stop = link.stop.clone();
        link.tasks.spawn(async move {
            let failure = tokio::select! {
                biased;
                () = stop.cancelled() => stopped(),
                failure = incoming.receive(&inbox) => failure,
            };
            inbox.close(failure);
        });
        Ok(link)
    }

    /// A link whose messages are posted one by one, also the replies to what the server asks.
    fn posting(poster: Poster, inbox: Arc<Inbox>, mut outgoing: mpsc::Receiver<Line>) -> Link {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let poster = Arc::new(poster);
        let (replying, answering, stopping) = (Arc::clone(&poster), Arc::clone(&inbox), stop.clone());
        tasks.spawn(async move {
            let reply = async {
                while let Some(body) = outgoing.recv().await {
                    let headers = Headers { version: answering.version(), ..Headers::default() };
                    let _ = timeout(SHORT, replying.post(Outgoing { body, id: None, headers })).await;
                }
            };
            tokio::select! {
                () = stopping.cancelled() => answering.close(stopped()),
                () = reply => {}
            }
        });
        Link { inbox, words: Arc::default(), pid: None, way: Way::Posts(poster), stop, tasks }
    }

    /// Hands a message over. The exchange of a request lasts as long as what is returned.
    pub(super) async fn send(&self, message: Outgoing) -> Exchange {
        match &self.way {
            Way::Stdio(stdio) => {
                stdio.send(message.body).await;
                Exchange::default()
            }
            Way::Posts(poster) => {
                let (poster, inbox, stop) = (Arc::clone(poster), Arc::clone(&self.inbox), self.stop.clone());
                let task = self.tasks.spawn(async move {
                    let id = message.id;
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => {}
                        posted = poster.post(message) => if let (Err(failure), Some(id)) = (posted, id) {
                            inbox.fail(id, failure);
                        }
                    }
                });
                Exchange(Some(task.abort_handle()))
            }
        }
    }

    /// Sends a message that nothing answers, and returns when it is sent.
    pub(super) async fn deliver(&self, message: Outgoing) {
        match &self.way {
            Way::Stdio(stdio) => stdio.send(message.body).await,
            Way::Posts(poster) => post_briefly(poster, message, &self.stop).await,
        }
    }

    /// Sends a message that nothing answers, if there is room for it.
    pub(super) fn tell(&self, body: Line, headers: Headers) {
        let message = Outgoing { body, id: None, headers };
        match &self.way {
            Way::Stdio(stdio) => stdio.tell(message.body),
            Way::Posts(poster) => {
                let (poster, stop) = (Arc::clone(poster), self.stop.clone());
                self.tasks.spawn(async move { post_briefly(&poster, message, &stop).await });
            }
        }
    }

    /// Is closing an exchange how a request is cancelled?
    pub(super) fn cancels_by_closing(&self) -> bool {
        self.kind() == "http"
    }

    pub(super) fn kind(&self) -> &'static str {
        match &self.way {
            Way::Stdio(_) => "stdio",
            Way::Posts(poster) => match **poster {
                Poster::Http(_) => "http",
                Poster::Sse(_) => "sse",
            },
        }
    }

    /// Opens the stream on which a server of the earlier era speaks by itself, where there is one. What is
    /// returned ends when that is open, or will not be.
    pub(super) fn listen(&self, version: &'static str) -> impl Future<Output = ()> + use<> {
        let (opened, is_open) = oneshot::channel();
        if let Way::Posts(poster) = &self.way {
            let (poster, stop) = (Arc::clone(poster), self.stop.clone());
            self.tasks.spawn(async move {
                let Poster::Http(http) = &*poster else { return };
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = http.listening(version, opened) => {}
                }
            });
        }
        is_open.map(drop)
    }

    /// Tells the server that the session is over, where there is one.
    pub(super) async fn end_session(&self) {
        if let Way::Posts(poster) = &self.way
            && let Poster::Http(http) = &**poster
        {
            http.end_session().await;
        }
    }

    /// Begins to close: no message goes out any more, and every request ends.
    pub(super) fn begin_close(&self) {
        self.stop.cancel();
        self.tasks.close();
    }

    /// Closes, and returns when no task and no process is left.
    pub(super) async fn close(&self) {
        self.begin_close();
        self.tasks.wait().await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.begin_close();
    }
}

/// Posts what nobody waits for.
async fn post_briefly(poster: &Poster, message: Outgoing, stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        _ = timeout(SHORT, poster.post(message)) => {}
    }
}
