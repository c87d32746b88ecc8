//! A connection that carries messages, over whichever transport.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use pml_wire::Line;
use tokio::{
    sync::{mpsc, oneshot},
    task::{AbortHandle, JoinHandle},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    super::{
        failure::{Failure, stopped},
        inbox::Inbox,
        oauth::Sender,
        process::{LastWords, Start},
        settings::Secret,
    },
    http::Http,
    outgoing::{Headers, Outgoing},
    plumbing::{OUTBOX, Plumbing},
    sse::Sse,
    stdio::{self, Stdio},
};

/// What a message that nobody waits for may take.
const SHORT: Duration = Duration::from_secs(5);

/// A connection that carries messages. What comes in goes to its inbox.
#[derive(Debug)]
pub(in super::super) struct Link {
    pub(in super::super) inbox: Arc<Inbox>,
    pub(in super::super) words: Arc<LastWords>,
    pub(in super::super) pid: Option<u32>,
    way: Way,
    /// The id of the next request. No two requests over a link have the same.
    next_id: AtomicU64,
    /// The headers of answers to the server's own requests.
    replying: Arc<Mutex<Headers>>,
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
            Poster::Sse(sse) => sse.post(message).await,
        }
    }
}

/// Ends the exchange of one request when dropped, where a request has an exchange of its own.
#[derive(Debug, Default)]
pub(in super::super) struct Exchange(Option<AbortHandle>);

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

impl Link {
    /// Starts a child process and speaks over its pipes.
    pub(in super::super) fn stdio(start: &Start<'_>, plumbing: &Plumbing) -> Result<Link, Failure> {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (way, inbox, words, pid) = stdio::open(start, plumbing, &stop, &tasks)?;
        let (next_id, replying) = (first_id(), Arc::default());
        Ok(Link { inbox, words, pid, way: Way::Stdio(way), next_id, replying, stop, tasks })
    }

    /// Speaks streamable HTTP: each request is an exchange of its own.
    pub(in super::super) fn http(
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
    pub(in super::super) async fn sse(
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
            inbox.requests.close(failure);
        });
        Ok(link)
    }

    /// A link whose messages are posted one by one, also the answers to what the server asks.
    fn posting(poster: Poster, inbox: Arc<Inbox>, mut outgoing: mpsc::Receiver<Line>) -> Link {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (poster, replying) = (Arc::new(poster), Arc::new(Mutex::new(Headers::default())));
        let (posting, answering, stopping, headers) =
            (Arc::clone(&poster), Arc::clone(&inbox), stop.clone(), Arc::clone(&replying));
        tasks.spawn(async move {
            let reply = async {
                while let Some(body) = outgoing.recv().await {
                    let headers = headers.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let _ = timeout(SHORT, posting.post(Outgoing::telling(body, headers))).await;
                }
            };
            tokio::select! {
                () = stopping.cancelled() => answering.requests.close(stopped()),
                () = reply => {}
            }
        });
        let (words, pid, next_id) = (Arc::default(), None, first_id());
        Link { inbox, words, pid, way: Way::Posts(poster), next_id, replying, stop, tasks }
    }

    /// An id for a request.
    pub(in super::super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// From now on, answers to the server's own requests have these headers.
    pub(in super::super) fn reply_with(&self, headers: Headers) {
        *self.replying.lock().unwrap_or_else(PoisonError::into_inner) = headers;
    }

    /// Sends a request. What is returned must be kept until its answer is there.
    pub(in super::super) async fn send(&self, message: Outgoing) -> Exchange {
        match &self.way {
            Way::Stdio(stdio) => {
                stdio.send(message).await;
                Exchange::default()
            }
            Way::Posts(poster) => {
                let (poster, inbox, stop, id) =
                    (Arc::clone(poster), Arc::clone(&self.inbox), self.stop.clone(), message.id);
                let task = self.tasks.spawn(async move {
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => {}
                        posted = poster.post(message) => if let (Err(failure), Some(id)) = (posted, id) {
                            inbox.requests.fail(id, failure);
                        }
                    }
                });
                Exchange(Some(task.abort_handle()))
            }
        }
    }

    /// Sends a message that nothing answers, and returns when it is sent.
    pub(in super::super) async fn deliver(&self, message: Outgoing) {
        match &self.way {
            Way::Stdio(stdio) => stdio.send(message).await,
            Way::Posts(poster) => post_briefly(poster, message, &self.stop).await,
        }
    }

    /// Sends a message that nothing answers, if there is room for it.
    pub(in super::super) fn tell(&self, body: Line, headers: Headers) {
        let message = Outgoing::telling(body, headers);
        match &self.way {
            Way::Stdio(stdio) => stdio.tell(message),
            Way::Posts(poster) => {
                let (poster, stop) = (Arc::clone(poster), self.stop.clone());
                self.tasks.spawn(async move { post_briefly(&poster, message, &stop).await });
            }
        }
    }

    /// Is closing an exchange how a request is cancelled?
    pub(in super::super) fn cancels_by_closing(&self) -> bool {
        self.kind() == "http"
    }

    pub(in super::super) fn kind(&self) -> &'static str {
        match &self.way {
            Way::Stdio(_) => "stdio",
            Way::Posts(poster) => match **poster {
                Poster::Http(_) => "http",
                Poster::Sse(_) => "sse",
            },
        }
    }

    /// Opens the stream on which a server of the legacy era speaks by itself, where there is one, and keeps it open until
    /// the session is `over`. The future that is returned ends when the stream is open, or will not be.
    pub(in super::super) fn listen(
        &self,
        headers: Headers,
        over: CancellationToken,
    ) -> impl Future<Output = ()> + use<> {
        let (opened, is_open) = oneshot::channel();
        if let Way::Posts(poster) = &self.way {
            let (poster, stop) = (Arc::clone(poster), self.stop.clone());
            self.tasks.spawn(async move {
                let Poster::Http(http) = &*poster else { return };
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = over.cancelled() => {}
                    () = http.listening(&headers, opened) => {}
                }
            });
        }
        is_open.map(drop)
    }

    /// Tells the server that the session is over, where the server knows of one.
    pub(in super::super) async fn end_session(&self, headers: &Headers) {
        if let Way::Posts(poster) = &self.way
            && let Poster::Http(http) = &**poster
        {
            http.end_session(headers).await;
        }
    }

    /// Does work for the link that goes on if nobody waits for it any more. Closing the link waits for it.
    pub(in super::super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.tasks.spawn(work)
    }

    /// Begins to close: no message goes out any more, and every request ends.
    fn begin_close(&self) {
        self.stop.cancel();
        self.tasks.close();
    }

    /// Closes, and returns when no task and no process is left.
    pub(in super::super) async fn close(&self) {
        self.begin_close();
        self.tasks.wait().await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.begin_close();
    }
}

/// Some servers take a request with the id 0 for one without an id.
fn first_id() -> AtomicU64 {
    AtomicU64::new(1)
}

/// Posts what nobody waits for.
async fn post_briefly(poster: &Poster, message: Outgoing, stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        _ = timeout(SHORT, poster.post(message)) => {}
    }
}
