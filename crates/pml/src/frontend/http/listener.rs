//! Connections: accepted, bounded, and ended.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{Extension, Router, extract::ConnectInfo};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::Interest,
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    super::gateway::Frontend,
    Access, HEAD_BYTES, Web,
    endpoint::BODY_UNITS,
    guard::{Guard, LetIn},
    routes,
    sessions::Sessions,
};

/// Connections at the same time. For more, those that were not let in yet make room, the oldest first: whoever has no
/// token cannot lock out those who have.
const MAX_CONNECTIONS: usize = 1024;
/// What the head of a request may take to arrive.
const HEAD: Duration = Duration::from_secs(10);
/// Headers of a request.
const MAX_HEADERS: usize = 100;
/// When everything ends: how long requests that go on may still take.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// What connections may take to end after that.
const END: Duration = Duration::from_secs(2);

impl Frontend {
    /// Serves HTTP until `stop` is cancelled and every connection has ended.
    pub async fn serve_http(
        self: &Arc<Self>,
        listener: TcpListener,
        access: Access,
        stop: &CancellationToken,
    ) -> io::Result<()> {
        let gone = CancellationToken::new();
        let web = Arc::new(Web {
            frontend: Arc::clone(self),
            sessions: Sessions::default(),
            guard: Guard::new(access, listener.local_addr()?),
            bodies: Semaphore::new(BODY_UNITS),
            stop: stop.child_token(),
            gone: gone.clone(),
        });
        let router = routes(Arc::clone(&web));
        let connections = TaskTracker::new();
        let mut places: VecDeque<Place> = VecDeque::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let Some(place) = take_place(&mut places) else {
                        tracing::warn!("a connection is closed: there are {MAX_CONNECTIONS} others");
                        continue;
                    };
                    let (router, stop) = (router.clone(), stop.clone());
                    connections.spawn(async move {
                        let served = connection(stream, peer, router, Arc::clone(&place.is_let_in), &stop);
                        tokio::select! {
                            () = served => {}
                            () = place.end.cancelled() => {}
                        }
                        place.end.cancel();
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
        // A run that has just ended has an answer that is on its way.
        let _ = timeout(LAST_ANSWERS, connections.wait()).await;
        gone.cancel();
        let _ = timeout(END, connections.wait()).await;
        Ok(())
    }
}

/// The place of one connection.
#[derive(Clone, Debug, Default)]
struct Place {
    is_let_in: LetIn,
    /// Cancelled when it has ended, or has to.
    end: CancellationToken,
}

/// A place for one more connection, if there is one or can be made.
fn take_place(places: &mut VecDeque<Place>) -> Option<Place> {
    if places.len() >= MAX_CONNECTIONS {
        places.retain(|place| !place.end.is_cancelled());
    }
    if places.len() >= MAX_CONNECTIONS {
        let stranger = places.iter().position(|place| !place.is_let_in.load(Ordering::Relaxed))?;
        places.remove(stranger)?.end.cancel();
    }
    let place = Place::default();
    places.push_back(place.clone());
    Some(place)
}

async fn connection(stream: TcpStream, peer: SocketAddr, router: Router, is_let_in: LetIn, stop: &CancellationToken) {
    let _ = stream.set_nodelay(true);
    let Ok((stream, watched)) = watched(stream) else { return };
    let router = router.layer(Extension(ConnectInfo(peer))).layer(Extension(is_let_in));
    let service = TowerToHyperService::new(router);
    let mut served = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .max_headers(MAX_HEADERS)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service)
    );
    let ended = tokio::select! {
        ended = &mut served => ended,
        () = hung_up(&watched) => return,
        () = stop.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(err) = ended {
        tracing::debug!(error = %err, "a connection ended early");
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_make_room_and_others_do_not() {
        let mut places = VecDeque::new();
        let held: Vec<_> = (0..MAX_CONNECTIONS).map(|_| take_place(&mut places).unwrap()).collect();
        held[0].is_let_in.store(true, Ordering::Relaxed);
        let new = take_place(&mut places).unwrap();
        assert!(!held[0].end.is_cancelled() && held[1].end.is_cancelled() && !held[2].end.is_cancelled());
        held.iter().chain([&new]).for_each(|place| place.is_let_in.store(true, Ordering::Relaxed));
        assert!(take_place(&mut places).is_none());
        held[5].end.cancel(); // it has gone by itself
        assert!(take_place(&mut places).is_some());
    }
}
