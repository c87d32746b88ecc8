//! Requests that wait for their answers, on one connection.
//!
//! **Invariant:** every request that is [registered](Requests::register) ends: with its answer, with
//! a failure, or because its caller gave up. When the connection closes, all of them end.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::value::RawValue;
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{
    codec::RpcError,
    failure::Failure,
    payload::{Keep, Payload},
    progress::ProgressSender,
    questions::{Asks, MessageSender, Owner, Questions, Relay},
};

/// What an answer is: the result, the server's error, or what happened instead of an answer.
pub(super) type Answer = Result<Result<Payload, RpcError>, Failure>;

/// The requests that wait for their answers.
#[derive(Debug)]
pub(super) struct Requests {
    pending: Mutex<HashMap<u64, Pending>>,
    closed: CancellationToken,
    why: Mutex<Option<Failure>>,
    /// The server's own requests.
    pub(super) questions: Arc<Questions>,
    /// How many requests are passed on. While there are any, results are kept whole.
    forwarded: AtomicUsize,
    /// Who hears the progress of calls, by the request's token. A task goes on after the request was answered.
    followed: Mutex<HashMap<u64, ProgressSender>>,
}

/// Somebody hears the progress of a call. Dropped, nobody does any more.
#[derive(Debug)]
pub(super) struct Followed {
    token: u64,
    requests: Arc<Requests>,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.requests.followed().remove(&self.token);
    }
}

#[derive(Debug)]
pub(super) struct Pending {
    answer: oneshot::Sender<Answer>,
    pub(super) progress: Arc<Notify>,
    patience: Patience,
    /// Longest silence that the request allows.
    idle: Duration,
    /// Where what belongs to it goes, if it is passed on for a client.
    pub(super) relay: Option<Box<Relay>>,
    /// Hears what the server honours of a subscription.
    pub(super) acknowledged: Option<watch::Sender<Option<Box<RawValue>>>>,
}

/// What a request expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// An answer, soon.
    Call,
    /// An answer at the end of a long stream of notifications.
    Subscription,
}

/// A request that waits for its answer. Dropped, it waits no longer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: u64,
    pub(super) answer: oneshot::Receiver<Answer>,
    pub(super) progress: Arc<Notify>,
    pub(super) asks: Asks,
    requests: Arc<Requests>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.requests.lock().remove(&self.id);
        if self.asks.is_relayed() {
            self.requests.forwarded.fetch_sub(1, Ordering::SeqCst);
            self.requests.questions.end(self.id, self.requests.is_closed());
        }
    }
}

impl Requests {
    pub(super) fn new(questions: Arc<Questions>) -> Arc<Requests> {
        Arc::new(Requests {
            pending: Mutex::default(),
            closed: CancellationToken::new(),
            why: Mutex::default(),
            questions,
            forwarded: AtomicUsize::new(0),
            followed: Mutex::default(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<u64, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn followed(&self) -> MutexGuard<'_, HashMap<u64, ProgressSender>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells progress of the call with this token, as long as the guard lives.
    pub(super) fn follow(self: &Arc<Self>, token: u64, sender: ProgressSender) -> Followed {
        self.followed().insert(token, sender);
        Followed { token, requests: Arc::clone(self) }
    }

    /// Who hears the progress of the call with this token.
    pub(super) fn follower(&self, token: u64) -> Option<ProgressSender> {
        self.followed().get(&token).cloned()
    }

    /// Makes room for the answer to request `id`.
    pub(super) fn register(self: &Arc<Self>, id: u64, patience: Patience, idle: Duration) -> Result<Waiting, Failure> {
        let (answer, progress) = (oneshot::channel(), Arc::new(Notify::new()));
        let pending = Pending { answer: answer.0, progress, patience, idle, relay: None, acknowledged: None };
        self.insert(id, pending, answer.1, Asks::default())
    }

    /// Makes room for the answer to request `id`, which is passed on: its result is kept whole, and
    /// what belongs to it is said to whoever wants to know.
    pub(super) fn register_forwarded(
        self: &Arc<Self>,
        id: u64,
        idle: Duration,
        said: Option<MessageSender>,
        owner: Option<Owner>,
    ) -> Result<Waiting, Failure> {
        let (answer, progress) = (oneshot::channel(), Arc::new(Notify::new()));
        let (relay, asks) = Asks::new(&self.questions, said, owner);
        let (patience, relay) = (Patience::Call, Some(Box::new(relay)));
        // Before the request is sent, so that its answer is read as it should be.
        self.forwarded.fetch_add(1, Ordering::SeqCst);
        self.insert(
            id,
            Pending { answer: answer.0, progress, patience, idle, relay, acknowledged: None },
            answer.1,
            asks,
        )
    }

    /// Makes room for the end of subscription `id`, and for what the server says to its beginning.
    pub(super) fn register_subscription(
        self: &Arc<Self>,
        id: u64,
        idle: Duration,
        acknowledged: watch::Sender<Option<Box<RawValue>>>,
    ) -> Result<Waiting, Failure> {
        let (answer, progress) = (oneshot::channel(), Arc::new(Notify::new()));
        let (patience, acknowledged) = (Patience::Subscription, Some(acknowledged));
        let pending = Pending { answer: answer.0, progress, patience, idle, relay: None, acknowledged };
        self.insert(id, pending, answer.1, Asks::default())
    }

    fn insert(
        self: &Arc<Self>,
        id: u64,
        pending: Pending,
        answer: oneshot::Receiver<Answer>,
        asks: Asks,
    ) -> Result<Waiting, Failure> {
        let progress = Arc::clone(&pending.progress);
        self.lock().insert(id, pending);
        let waiting = Waiting { id, answer, progress, asks, requests: Arc::clone(self) };
        // Only now: a close that came before the insertion has not seen it.
        match self.closed.is_cancelled() {
            // Whatever closed the connection, this request was never sent.
            true => Err(self.why().unsent()),
            false => Ok(waiting),
        }
    }

    /// Ends every request, now and later, with `failure`. The first close counts. Those in flight may have had an effect.
    pub(super) fn close(&self, failure: Failure) {
        {
            let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
            why.get_or_insert_with(|| failure.clone());
        }
        self.closed.cancel();
        self.fail_all(&failure);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Waits until the connection is closed. Why.
    pub(super) async fn closed(&self) -> Failure {
        self.closed.cancelled().await;
        self.why()
    }

    fn why(&self) -> Failure {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone().unwrap_or_else(|| Failure::later("the connection is closed"))
    }

    /// Ends one request.
    pub(super) fn fail(&self, id: u64, failure: Failure) {
        self.answer(id, Err(failure));
    }

    pub(super) fn answer(&self, id: u64, answer: Answer) -> bool {
        let waiter = self.lock().remove(&id);
        match waiter {
            Some(waiter) => waiter.answer.send(answer).is_ok(),
            None => false,
        }
    }

    pub(super) fn is_pending(&self, id: u64) -> bool {
        self.lock().contains_key(&id)
    }

    /// Does anybody wait for an answer, other than for the end of a subscription?
    pub(super) fn has_calls(&self) -> bool {
        self.lock().values().any(|waiter| waiter.patience == Patience::Call)
    }

    /// Is a call in flight that may be silent for longer than `silence`?
    pub(super) fn has_patient_call(&self, silence: Duration) -> bool {
        self.lock().values().any(|waiter| waiter.patience == Patience::Call && waiter.idle > silence)
    }

    /// Are requests in flight that are passed on for a client?
    pub(super) fn are_forwarded(&self) -> bool {
        self.forwarded.load(Ordering::SeqCst) > 0
    }

    /// How results are to be read now.
    pub(super) fn keep(&self) -> Keep {
        if self.are_forwarded() { Keep::Whole } else { Keep::Parts }
    }

    /// Ends all requests in flight, but not the connection.
    pub(super) fn fail_all(&self, failure: &Failure) {
        let pending = std::mem::take(&mut *self.lock());
        for (_, waiter) in pending {
            let _ = waiter.answer.send(Err(failure.clone().uncertain()));
        }
    }

    /// The only request that is waited for, if there is only one.
    pub(super) fn only_pending(&self) -> Option<u64> {
        let pending = self.lock();
        let mut ids = pending.iter().filter(|(_, waiter)| waiter.patience == Patience::Call).map(|(id, _)| *id);
        ids.next().filter(|_| ids.next().is_none())
    }
}

/// Who hears a message that names no request.
pub(super) enum Listener<'a> {
    /// No client listens.
    Nobody,
    /// The request that the message is attributed to.
    One(u64, &'a Relay, &'a MessageSender),
    /// The message may belong to the requests of more than one client.
    Several,
}

/// The request that a message belongs to which arrived on the stream of request `stream`, if a client listens. A message
/// that arrived outside any stream is attributed to the most recent request. That may be a wrong guess, so it is made only
/// if all requests in flight belong to one client.
pub(super) fn listener(pending: &HashMap<u64, Pending>, stream: Option<u64>) -> Listener<'_> {
    let listened = |id: u64| {
        let relay = pending.get(&id)?.relay.as_deref()?;
        Some((id, relay, relay.said.as_ref()?))
    };
    let found = match stream {
        Some(id) => listened(id),
        None => {
            let last = pending.keys().filter_map(|id| listened(*id)).max_by_key(|(id, ..)| *id);
            let is_other = |owner: &Option<Owner>| last.is_some_and(|(_, relay, _)| relay.owner != *owner);
            if pending.keys().filter_map(|id| listened(*id)).any(|(_, relay, _)| is_other(&relay.owner)) {
                return Listener::Several;
            }
            last
        }
    };
    found.map_or(Listener::Nobody, |(id, relay, said)| Listener::One(id, relay, said))
}
