//! One client, on standard input and output: one message in each line.
//!
//! Pipes and sockets are read and written by tasks. Anything else has a thread for each way, so that neither a client that
//! does not read nor one that says nothing keeps anything else from ending.

use std::{
    io::{self, Write},
    os::unix::net::UnixStream as StdStream,
    sync::Arc,
    time::Duration,
};

use pml_wire::Line as OneLine;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::FileType,
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{UnixStream, unix::pipe},
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

use super::{
    gateway::Frontend,
    results::Caller,
    rpc::{self, Broken, INTERNAL_ERROR, INVALID_REQUEST, Incoming, Sent},
    session::{OUTLET, STDIO, Scope, Session},
    shares::Client,
};

/// Longest message that is read.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Where the id of a message that is too long is looked for.
const BEGINNING_BYTES: usize = 64 * 1024;
/// Messages that were read and wait.
const INLET: usize = 64;
/// Requests that are served at the same time.
const MAX_REQUESTS: usize = 256;
/// When input ends: how long requests that go on may still take if somebody reads the answers.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// As much as is written in one go.
const BATCH_BYTES: usize = 64 * 1024;
/// What the last answers may take to be written.
const FLUSH: Duration = Duration::from_secs(1);

/// A line of input.
enum Line {
    Message(Vec<u8>),
    /// A message that is not read, and its id if that is near its beginning.
    TooLong(Value),
}

impl Frontend {
    /// Serves the client on standard input until it is gone or `stop` is cancelled, and everything that was
    /// done for it has ended.
    pub async fn serve_stdio(self: &Arc<Self>, stop: &CancellationToken) -> io::Result<()> {
        let (lines, mut inlet) = mpsc::channel(INLET);
        let _reader = AbortOnDropHandle::new(tokio::spawn(read_from(input()?, lines)));
        let (outlet, messages) = mpsc::channel(OUTLET);
        let (done, written) = oneshot::channel();
        let gone = CancellationToken::new();
        let reader_gone = gone.clone();
        let end = move |written: io::Result<()>| {
            if written.is_err() {
                reader_gone.cancel(); // nobody reads the answers any more
            }
            let _ = done.send(());
        };
        let _writer = match output()? {
            Some(output) => {
                Some(AbortOnDropHandle::new(tokio::spawn(async move { end(write_to(output, messages).await) })))
            }
            None => {
                std::thread::Builder::new().name("stdout".to_owned()).spawn(move || end(write_lines(messages)))?;
                None
            }
        };

        let session = Session::new(Caller::new(STDIO), Client::only(), gone.clone());
        let _news = self.follow_news(&session, outlet.clone());
        let requests = TaskTracker::new();
        loop {
            let line = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = gone.cancelled() => break,
                line = inlet.recv() => line,
            };
            let Some(line) = line else { break };
            let taken = async {
                match line {
                    Line::Message(bytes) => self.take_line(bytes, &session, &outlet, &requests).await,
                    Line::TooLong(id) => {
                        let error = rpc::error(INVALID_REQUEST, format!("the message has more than {MAX_BYTES} bytes"));
                        let _ = outlet.send(rpc::answer(&id, Err(error))).await;
                    }
                }
            };
            // What is refused is answered here, and a client that does not read makes that wait.
            tokio::select! {
                biased;
                () = taken => {}
                () = stop.cancelled() => break,
                () = gone.cancelled() => break,
            }
        }
        requests.close();
        // A client that closes its end may still read; one that has gone does not.
        if !reader_is_gone() {
            tokio::select! {
                _ = timeout(LAST_ANSWERS, requests.wait()) => {}
                () = gone.cancelled() => {}
            }
        }
        gone.cancel();
        requests.wait().await;
        drop(outlet);
        let _ = timeout(FLUSH, written).await;
        Ok(())
    }

    async fn take_line(
        self: &Arc<Self>,
        bytes: Vec<u8>,
        session: &Arc<Session>,
        outlet: &mpsc::Sender<OneLine>,
        requests: &TaskTracker,
    ) {
        let way = |answers| Way { session, outlet, answers, requests };
        match rpc::read(bytes).await {
            Ok(Sent::One(message)) => self.take(Ok(message), &way(outlet), false).await,
            Err(broken) => self.take(Err(broken), &way(outlet), false).await,
            Ok(Sent::Batch(_)) if !session.has_batches() => {
                let _ = outlet.send(rpc::answer(&Value::Null, Err(rpc::no_batches()))).await;
            }
            Ok(Sent::Batch(messages)) => {
                // There is room for all answers, so that nobody waits for the others of the batch.
                let (answers, mut collected) = mpsc::channel(messages.len());
                for message in messages {
                    self.take(message, &way(&answers), true).await;
                }
                drop(answers);
                let (session, outlet) = (Arc::clone(session), outlet.clone());
                requests.spawn(async move {
                    let mut answers = Vec::new();
                    while let Some(answer) = collected.recv().await {
                        answers.push(answer);
                    }
                    if let Some(answer) = rpc::batch(&answers) {
                        deliver(answer, &outlet, &session).await;
                    }
                });
            }
        }
    }

    /// Takes one message. Its answer, if it gets one, is sent to `way.answers`.
    async fn take(self: &Arc<Self>, message: Result<Incoming, Box<Broken>>, way: &Way<'_>, is_in_batch: bool) {
        let session = way.session;
        let mut request = match message {
            Ok(Incoming::Request(request)) => request,
            Ok(Incoming::Notification { method, params }) => return self.notified(&method, &params, session),
            Ok(Incoming::Answer { id, outcome }) => return session.answered(&id, outcome),
            Err(broken) => {
                // Only what may be a request is answered.
                match broken.id {
                    Some(id) => drop(way.answers.send(rpc::answer(&id, Err(broken.error))).await),
                    None => tracing::debug!("a message that is none: {}", broken.error.message),
                }
                return;
            }
        };
        let refuse = async |id: &Value, error| drop(way.answers.send(rpc::answer(id, Err(error))).await);
        let meta = rpc::take_meta(&mut request).and_then(|meta| match is_in_batch {
            true => rpc::check_in_batch(&request, &meta).map(|()| meta),
            false => Ok(meta),
        });
        let meta = match meta {
            Ok(meta) => meta,
            Err(error) => return refuse(&request.id, error).await,
        };
        if way.requests.len() >= MAX_REQUESTS {
            let error =
                rpc::error(INTERNAL_ERROR, format!("{MAX_REQUESTS} requests are being served; try again later"));
            return refuse(&request.id, error).await;
        }
        let Some(in_flight) = session.begin(&request.id) else {
            let error = rpc::error(INVALID_REQUEST, "a request with this id is being served");
            return refuse(&request.id, error).await;
        };
        let scope = Scope {
            id: request.id.clone(),
            session: Arc::clone(session),
            era: meta.era,
            capabilities: meta.capabilities.unwrap_or_else(|| session.capabilities()),
            meta: meta.fields,
            outlet: way.outlet.clone(),
            streams: true,
            cancel: in_flight.cancel.clone(),
        };
        let (frontend, answers) = (Arc::clone(self), way.answers.clone());
        way.requests.spawn(async move {
            let outcome = frontend.serve_until_cancelled(request, &scope).await;
            // Before the answer: once it is there, the id may be used again.
            drop(in_flight);
            // Who has cancelled does not want an answer.
            let Some(outcome) = outcome else { return };
            let answer = rpc::write_answer(&scope.id, outcome).await;
            deliver(answer, &answers, &scope.session).await;
        });
    }
}

/// Where a message comes from, and where what is said about it goes.
struct Way<'a> {
    session: &'a Arc<Session>,
    /// To the client.
    outlet: &'a mpsc::Sender<OneLine>,
    /// To the client, or to the others of a batch.
    answers: &'a mpsc::Sender<OneLine>,
    /// The requests that are being served.
    requests: &'a TaskTracker,
}

async fn deliver(answer: OneLine, to: &mpsc::Sender<OneLine>, session: &Session) {
    tokio::select! {
        biased;
        _ = to.send(answer) => {}
        () = session.gone.cancelled() => {} // nobody reads, and everything ends
    }
}

/// Has whoever read standard output gone?
fn reader_is_gone() -> bool {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok()
        && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL)
}

/// Standard input. Clients give a pipe or a socket of which we have the only end, so that nobody else is surprised by
/// what is set on it; then no thread has to be woken for each message. Anything else gets one.
fn input() -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    let input = rustix::io::dup(io::stdin())?;
    let socket = match FileType::from_raw_mode(rustix::fs::fstat(&input)?.st_mode) {
        FileType::Fifo => return Ok(Box::new(pipe::Receiver::from_owned_fd(input)?)),
        FileType::Socket => StdStream::from(input),
        _ => {
            let (mut near, far) = StdStream::pair()?;
            let copy = move || drop(io::copy(&mut io::stdin().lock(), &mut near));
            std::thread::Builder::new().name("stdin".to_owned()).spawn(copy)?;
            far
        }
    };
    socket.set_nonblocking(true)?;
    Ok(Box::new(UnixStream::from_std(socket)?))
}

/// Reads lines for as long as there are any and somebody takes them.
async fn read_from(input: Box<dyn AsyncRead + Send + Unpin>, lines: mpsc::Sender<Line>) {
    let mut input = tokio::io::BufReader::with_capacity(64 * 1024, input);
    loop {
        let mut bytes = Vec::new();
        match (&mut input).take(MAX_BYTES as u64 + 1).read_until(b'\n', &mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let is_long = bytes.len() > MAX_BYTES;
        let id = if is_long { rpc::id_in(&bytes[..BEGINNING_BYTES]) } else { Value::Null };
        // The rest of it is passed over, a piece at a time.
        while bytes.len() > MAX_BYTES && !bytes.ends_with(b"\n") {
            bytes.clear();
            let read = (&mut input).take(MAX_BYTES as u64 + 1).read_until(b'\n', &mut bytes).await;
            if !matches!(read, Ok(1..)) {
                return;
            }
        }
        if !is_long && bytes.trim_ascii().is_empty() {
            continue;
        }
        let line = if is_long { Line::TooLong(id) } else { Line::Message(bytes) };
        if lines.send(line).await.is_err() {
            return;
        }
    }
}

/// Standard output as something that a task can write to, as [`input`] is read; `None` if it is neither pipe nor socket, or is
/// standard error as well, which is written to by others, who do not expect to be told to try again.
fn output() -> io::Result<Option<Box<dyn AsyncWrite + Send + Unpin>>> {
    let output = rustix::io::dup(io::stdout())?;
    let (own, errors) = (rustix::fs::fstat(&output)?, rustix::fs::fstat(io::stderr())?);
    if (own.st_dev, own.st_ino) == (errors.st_dev, errors.st_ino) {
        return Ok(None);
    }
    Ok(match FileType::from_raw_mode(own.st_mode) {
        FileType::Fifo => Some(Box::new(pipe::Sender::from_owned_fd(output)?)),
        FileType::Socket => {
            let socket = StdStream::from(output);
            socket.set_nonblocking(true)?;
            Some(Box::new(UnixStream::from_std(socket)?))
        }
        _ => None,
    })
}

/// Writes messages until there will be no more. Those that wait are written together.
async fn write_to(
    mut output: Box<dyn AsyncWrite + Send + Unpin>,
    mut messages: mpsc::Receiver<OneLine>,
) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        output.write_all(&together(message, &mut messages)).await?;
    }
    Ok(())
}

/// The same from a thread.
fn write_lines(mut messages: mpsc::Receiver<OneLine>) -> io::Result<()> {
    let mut output = io::stdout().lock();
    while let Some(message) = messages.blocking_recv() {
        output.write_all(&together(message, &mut messages))?;
        output.flush()?;
    }
    Ok(())
}

/// A message and those that wait behind it, each on its line.
fn together(message: OneLine, messages: &mut mpsc::Receiver<OneLine>) -> Vec<u8> {
    let mut bytes = message.into_string().into_bytes();
    bytes.push(b'\n');
    while bytes.len() < BATCH_BYTES
        && let Ok(message) = messages.try_recv()
    {
        bytes.extend_from_slice(message.as_str().as_bytes());
        bytes.push(b'\n');
    }
    bytes
}
