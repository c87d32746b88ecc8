//! A proxy that meddles: what goes wrong between a gateway and its hub.
//!
//! Each connection carries one request. What becomes of it is the next of the [`Mood`]s that were asked for, or the usual one.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mood {
    /// It is passed on, and so is its answer.
    Pass,
    /// It is passed on, and its answer is lost.
    DropReply,
    /// It is never answered.
    Hang,
    /// The connection is closed at once.
    Refuse,
    /// It is answered with these bytes.
    Answer(String),
}

impl Mood {
    /// An answer with this status, and these lines of its head.
    pub fn status(status: u16, head: &str) -> Mood {
        Mood::Answer(format!("HTTP/1.1 {status} x\r\n{head}Content-Length: 0\r\nConnection: close\r\n\r\n"))
    }
}

/// The proxy.
#[derive(Clone, Debug)]
pub struct Meddler {
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    upstream: Mutex<SocketAddr>,
    usual: Mutex<Mood>,
    moods: Mutex<VecDeque<Mood>>,
    requests: AtomicUsize,
    replies: AtomicUsize,
}

impl Meddler {
    /// Listens, for as long as the runtime lives.
    pub async fn start(upstream: SocketAddr) -> io::Result<Meddler> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let state = State {
            upstream: Mutex::new(upstream),
            usual: Mutex::new(Mood::Pass),
            moods: Mutex::default(),
            requests: AtomicUsize::new(0),
            replies: AtomicUsize::new(0),
        };
        let meddler = Meddler { address: listener.local_addr()?, state: Arc::new(state) };
        let state = Arc::clone(&meddler.state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&state);
                // A connection that breaks is what is wanted.
                tokio::spawn(async move { state.serve(stream).await });
            }
        });
        Ok(meddler)
    }

    /// The hub is somewhere else now.
    pub fn lead_to(&self, upstream: SocketAddr) {
        *lock(&self.state.upstream) = upstream;
    }

    /// What becomes of requests from now on, but for those that moods wait for.
    pub fn usually(&self, mood: Mood) {
        *lock(&self.state.usual) = mood;
    }

    /// What becomes of the next requests.
    pub fn next(&self, moods: impl IntoIterator<Item = Mood>) {
        lock(&self.state.moods).extend(moods);
    }

    /// Requests so far.
    pub fn requests(&self) -> usize {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// Replies that the hub has given so far, whether or not they were passed on.
    pub fn replies(&self) -> usize {
        self.state.replies.load(Ordering::SeqCst)
    }

    /// Moods that still wait for a request.
    pub fn waiting(&self) -> usize {
        lock(&self.state.moods).len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    async fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        let Some(request) = read(&mut stream).await? else { return Ok(()) };
        self.requests.fetch_add(1, Ordering::SeqCst);
        let mood = lock(&self.moods).pop_front().unwrap_or_else(|| lock(&self.usual).clone());
        match mood {
            Mood::Refuse => Ok(()),
            Mood::Hang => {
                // Until the client has had enough.
                let _ = stream.read_to_end(&mut Vec::new()).await;
                Ok(())
            }
            Mood::Answer(bytes) => stream.write_all(bytes.as_bytes()).await,
            Mood::Pass | Mood::DropReply => {
                let upstream = *lock(&self.upstream);
                let mut hub = TcpStream::connect(upstream).await?;
                hub.write_all(&request).await?;
                let mut reply = Vec::new();
                hub.read_to_end(&mut reply).await?;
                self.replies.fetch_add(usize::from(!reply.is_empty()), Ordering::SeqCst);
                match mood {
                    Mood::Pass => stream.write_all(&reply).await,
                    _ => Ok(()),
                }
            }
        }
    }
}

/// A whole request, which asks for its connection to be closed; `None` if there is none.
async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Vec<u8>>> {
    let (mut request, mut size) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let lower = line.to_ascii_lowercase();
        if let Some(text) = lower.strip_prefix("content-length:") {
            size = text.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            request.extend_from_slice(b"Connection: close\r\n\r\n");
            break;
        }
        if !lower.starts_with("connection:") {
            request.extend_from_slice(line.as_bytes());
        }
    }
    let head = request.len();
    request.resize(head + size, 0);
    stream.read_exact(&mut request[head..]).await?;
    Ok(Some(request))
}
