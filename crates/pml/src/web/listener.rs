//! Connections: accepted, bounded, and ended.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::{ConnectInfo, Request},
    http::{HeaderName, HeaderValue},
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    refusals::{Refusals, Wording},
    visitors::{MAX_CONNECTIONS, Visitor, Visitors},
    writing::Writing,
};

/// Longest head of a request: its first line and its headers.
const HEAD_BYTES: usize = 64 * 1024;
/// What the head of a request may take to arrive.
const HEAD: Duration = Duration::from_secs(10);
/// Headers of a request.
const MAX_HEADERS: usize = 100;
/// How long a client that was refused may go on sending, and how much of it is read.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 1024 * 1024;
/// What connections may take to end when nothing is done any more.
const END: Duration = Duration::from_secs(2);

/// How connections and serving end.
#[derive(Clone, Debug)]
pub(crate) struct Grace {
    pub(crate) half_closed: HalfClosed,
    /// What is said to a request that cannot be read.
    pub(crate) refused: Wording,
    /// How long requests that go on may still take.
    pub(crate) last_answers: Duration,
    /// Cancelled after that: nothing is done any more.
    pub(crate) gone: CancellationToken,
}

/// What becomes of a request whose client closes its end before it is answered: it may have gone, or only have said everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HalfClosed {
    /// It ends: what it started may run for long, and nobody waits for that.
    Ends,
    /// It is answered if that takes a moment only.
    IsAnswered,
}

/// What a request may still take when its client has closed its end.
const HALF_CLOSED: Duration = Duration::from_secs(5);

/// Serves HTTP until `stop` is cancelled and every connection has ended.
pub(crate) async fn serve(listener: TcpListener, router: Router, stop: &CancellationToken, grace: Grace) {
    let connections = TaskTracker::new();
    let mut visitors = Visitors::default();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(visitor) = visitors.welcome() else {
                    tracing::warn!("a connection is closed: there are {MAX_CONNECTIONS} others");
                    continue;
                };
                let (router, stop) = (router.clone(), stop.clone());
                let (half_closed, refused) = (grace.half_closed, grace.refused);
                connections.spawn(async move {
                    let served = connection(stream, peer, router, Arc::clone(&visitor), (&stop, half_closed, refused));
                    tokio::select! {
                        () = served => {}
                        () = visitor.end.cancelled() => {}
                    }
                    visitor.end.cancel();
                });
            }
            // Out of descriptors, or the client has gone already. Not at once again.
            Err(err) => {
                tracing::warn!(error = %err, "a connection is not accepted");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    connections.close();
    let _ = timeout(grace.last_answers, connections.wait()).await;
    grace.gone.cancel();
    let _ = timeout(END, connections.wait()).await;
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    visitor: Arc<Visitor>,
    (stop, half_closed, refused): (&CancellationToken, HalfClosed, Wording),
) {
    let _ = stream.set_nodelay(true);
    let Ok((stream, watched)) = watched(stream) else { return };
    let router = router.layer(Extension(ConnectInfo(peer))).layer(Extension(visitor));
    let service = TowerToHyperService::new(router);
    let mut served = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .max_headers(MAX_HEADERS)
            .max_buf_size(HEAD_BYTES)
            .half_close(half_closed == HalfClosed::IsAnswered)
            .serve_connection(TokioIo::new(Refusals::new(Writing::new(stream), refused)), service)
    );
    let ended = tokio::select! {
        ended = &mut served => ended,
        () = hung_up(&watched) => match half_closed {
            HalfClosed::Ends => return,
            HalfClosed::IsAnswered => timeout(HALF_CLOSED, served).await.unwrap_or(Ok(())),
        },
        () = stop.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(err) = ended {
        tracing::debug!(error = %err, "a connection ended early");
        if err.is_parse() {
            let _ = timeout(LINGER, linger(watched)).await;
        }
    }
}

/// Lets a client read why its request was refused: what it still sends is read and thrown away. If the connection were closed while
/// there is something left to read, the system would tell the client that it was reset, and the response would be lost.
async fn linger(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut rest = [0; 4096];
    let mut left = LINGER_BYTES;
    while left > 0 {
        match stream.read(&mut rest).await? {
            0 => return Ok(()),
            bytes => left = left.saturating_sub(bytes),
        }
    }
    Ok(())
}

/// Is the head of a request larger than it may be? hyper looks at that only while a head is incomplete: what arrives at once may be
/// larger.
pub(crate) fn is_head_too_large(request: &Request) -> bool {
    head_bytes(request) > HEAD_BYTES
}

/// The bytes of a request before its body, as it is usually written. hyper bounds what it buffers, which is twice as much
/// where a head arrives in large pieces.
fn head_bytes(request: &Request) -> usize {
    let uri = request.uri();
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let host = uri.authority().map_or(0, |host| "http://".len() + host.as_str().len());
    let line = request.method().as_str().len() + host + path + "  HTTP/1.1\r\n".len();
    let header = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + ": \r\n".len();
    line + request.headers().iter().map(header).sum::<usize>() + "\r\n".len()
}

/// A stream, and another handle to it.
fn watched(stream: TcpStream) -> io::Result<(TcpStream, TcpStream)> {
    let stream = stream.into_std()?;
    let watched = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, TcpStream::from_std(watched)?))
}

/// Waits until the client has closed its end. Whoever serves the connection may not notice while there is something left
/// to read, and would go on with what nobody waits for.
async fn hung_up(stream: &TcpStream) {
    while let Ok(ready) = stream.ready(Interest::READABLE).await {
        if ready.is_read_closed() {
            return;
        }
        // Not now: until something else happens.
        let _ = stream.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    }
}
