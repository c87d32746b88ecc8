//! Connections: who is let in, who is busy, and who makes room.
//!
//! There is room for so many connections. For more, those that were never let in make room first, then those on which
//! nothing happens, each the longest-lasting first. Streams that only follow what happens are counted apart: for a new one,
//! the oldest of whoever has most of them ends.

use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    response::Response,
};
use hyper::body::Frame;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answers::Kept;

/// Connections at the same time.
pub(crate) const MAX_CONNECTIONS: usize = 1024;
/// Streams at the same time that are not the answer to a request.
const MAX_STREAMS: usize = 256;

/// One connection.
#[derive(Debug)]
pub(crate) struct Visitor {
    /// Has it made a request that was let in?
    is_let_in: AtomicBool,
    /// Requests that are being served, until the last byte of their answers.
    requests: AtomicUsize,
    idle_since: Mutex<Instant>,
    /// Cancelled when it has ended, or has to.
    pub(crate) end: CancellationToken,
}

impl Visitor {
    fn new() -> Arc<Visitor> {
        Arc::new(Visitor {
            is_let_in: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
            idle_since: Mutex::new(Instant::now()),
            end: CancellationToken::new(),
        })
    }

    pub(crate) fn let_in(&self) {
        self.is_let_in.store(true, Ordering::Relaxed);
    }

    /// Counts a request for as long as what is returned lives.
    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        self.requests.fetch_add(1, Ordering::SeqCst);
        Busy(Arc::clone(self))
    }

    /// How gladly it makes room, and since when: the least goes first. `None` if it does not.
    fn rank(&self) -> Option<(bool, Instant)> {
        let since = *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner);
        let is_let_in = self.is_let_in.load(Ordering::Relaxed);
        let is_idle = self.requests.load(Ordering::SeqCst) == 0;
        (!is_let_in || is_idle).then_some((is_let_in, since))
    }
}

/// A request that is being served.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Visitor>);

impl Drop for Busy {
    fn drop(&mut self) {
        *self.0.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.requests.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Busy {
    /// The request lasts until its answer has been given, and so does what the response [keeps](Kept).
    pub(crate) fn until_answered(self, mut response: Response) -> Response {
        let kept = response.extensions_mut().remove::<Kept>();
        response.map(|body| Body::new(Answering { body, rest: Bytes::new(), _busy: self, _kept: kept }))
    }
}

/// Bytes of an answer that are handed over at once. Whoever sends them buffers no more than that, so the rest stays here, with
/// what it keeps, until the client has read.
const HANDED_OVER: usize = 32 * 1024;

/// The body of an answer, and what it keeps busy.
struct Answering {
    body: Body,
    /// What was made of it and not handed over.
    rest: Bytes,
    _busy: Busy,
    _kept: Option<Kept>,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end => return Poll::Ready(end),
            }
        }
        let part = self.rest.len().min(HANDED_OVER);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(part)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        let (of_body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = hyper::body::SizeHint::new();
        if let Some(most) = of_body.upper() {
            hint.set_upper(most + rest);
        }
        hint.set_lower(of_body.lower() + rest);
        hint
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Visitors {
    all: Vec<Arc<Visitor>>,
}

impl Visitors {
    /// A place for one more connection, if there is one or can be made.
    pub(crate) fn welcome(&mut self) -> Option<Arc<Visitor>> {
        if self.all.len() >= MAX_CONNECTIONS {
            self.all.retain(|visitor| !visitor.end.is_cancelled());
        }
        if self.all.len() >= MAX_CONNECTIONS {
            let ranks = self.all.iter().enumerate().filter_map(|(index, visitor)| Some((visitor.rank()?, index)));
            let (_, index) = ranks.min()?;
            self.all.swap_remove(index).end.cancel();
        }
        let visitor = Visitor::new();
        self.all.push(Arc::clone(&visitor));
        Some(visitor)
    }
}

/// Streams that only follow what happens.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    open: Mutex<VecDeque<(Arc<str>, CancellationToken)>>,
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Arc<str>, CancellationToken)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more stream of somebody. It must end when the token is cancelled, and cancel it when it ends.
    pub(crate) fn begin(&self, whose: &str) -> CancellationToken {
        let mut open = self.lock();
        open.retain(|(_, end)| !end.is_cancelled());
        if open.len() >= MAX_STREAMS {
            let mut counts: HashMap<Arc<str>, usize> = HashMap::new();
            open.iter().for_each(|(whose, _)| *counts.entry(Arc::clone(whose)).or_default() += 1);
            let most = counts.into_iter().max_by(|one, other| (one.1, &one.0).cmp(&(other.1, &other.0)));
            let oldest = most.and_then(|(whose, _)| open.iter().position(|(other, _)| *other == whose));
            if let Some((_, end)) = oldest.and_then(|index| open.remove(index)) {
                end.cancel();
            }
        }
        let end = CancellationToken::new();
        open.push_back((whose.into(), end.clone()));
        end
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn strangers_make_room_then_those_who_do_nothing_and_nobody_else() {
        let mut visitors = Visitors::default();
        let mut held = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            tokio::time::advance(Duration::from_millis(1)).await;
            held.push(visitors.welcome().unwrap());
        }
        let ended = |held: &[Arc<Visitor>]| -> Vec<usize> {
            (0..held.len()).filter(|index| held[*index].end.is_cancelled()).collect()
        };
        held[1..].iter().for_each(|visitor| visitor.let_in());
        held.push(visitors.welcome().unwrap());
        assert_eq!(ended(&held), [0], "the stranger");
        let busy: Vec<_> = held[1..10].iter().map(Visitor::begin).collect();
        held[MAX_CONNECTIONS].let_in();
        visitors.welcome().unwrap().let_in();
        assert_eq!(ended(&held), [0, 10], "the one that has been idle for longest");
        let all: Vec<_> = visitors.all.iter().map(Visitor::begin).collect();
        assert!(visitors.welcome().is_none());
        drop(busy);
        drop(all);
        held[500].end.cancel(); // it has gone by itself
        assert!(visitors.welcome().is_some());
        assert!(!held[1].end.is_cancelled());
    }

    #[test]
    fn whoever_follows_most_makes_room_for_the_next() {
        let streams = Streams::default();
        let first = streams.begin("ann");
        let greedy: Vec<_> = (0..2 * MAX_STREAMS).map(|_| streams.begin("bob")).collect();
        let second = streams.begin("eve");
        assert!(!first.is_cancelled() && !second.is_cancelled());
        assert!(greedy[0].is_cancelled() && !greedy[2 * MAX_STREAMS - 1].is_cancelled());
        assert_eq!(streams.lock().len(), MAX_STREAMS);
    }
}
