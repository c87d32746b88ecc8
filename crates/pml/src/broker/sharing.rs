//! Coalesces identical calls.
//!
//! Only for tools that a trusted server calls read-only: identical calls in flight share one
//! request, and, where configured, idempotent calls share its cached response for a while.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{Shared, WeakShared},
};
use pml_wire::{ToolId, message::CallError};
use tokio::time::Instant;

use super::{handler::Answer, normalise::JsonTexts};

/// Number of cached responses, and the size of the largest.
const MAX_KEPT: usize = 256;
const MAX_KEPT_BYTES: usize = 1024 * 1024;

type SharedResult = Result<Answer, CallError>;
type Work = Pin<Box<dyn Future<Output = SharedResult> + Send>>;

/// The identity of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) tool: ToolId,
    /// [`crate::upstream::Upstream::id`]: a server that was configured anew shares nothing with its predecessor.
    pub(super) server: u64,
    pub(super) args_sha256: String,
    /// How a JSON text is given to the program.
    pub(super) texts: JsonTexts,
}

#[derive(Default)]
pub(super) struct Sharing {
    in_flight: Mutex<HashMap<Key, WeakShared<Work>>>,
    kept: Mutex<HashMap<Key, (Answer, Instant)>>,
}

impl std::fmt::Debug for Sharing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sharing").finish_non_exhaustive()
    }
}

impl Sharing {
    /// The response to a call: cached, of a call in flight, or of `work`. The work continues
    /// while any caller waits for it.
    pub(super) async fn call(&self, key: Key, ttl: Option<Duration>, work: impl FnOnce() -> Work) -> SharedResult {
        if ttl.is_some() {
            let kept = lock(&self.kept);
            if let Some((answer, until)) = kept.get(&key)
                && *until > Instant::now()
            {
                return Ok(answer.clone());
            }
        }
        let shared = self.join(&key, work);
        let outcome = shared.clone().await;
        let mut in_flight = lock(&self.in_flight);
        if in_flight.get(&key).and_then(WeakShared::upgrade).is_none_or(|other| other.ptr_eq(&shared)) {
            in_flight.remove(&key);
        }
        drop(in_flight);
        if let (Some(ttl), Ok(answer)) = (ttl, &outcome) {
            self.keep(key, answer, ttl);
        }
        outcome
    }

    fn join(&self, key: &Key, work: impl FnOnce() -> Work) -> Shared<Work> {
        let mut in_flight = lock(&self.in_flight);
        if let Some(shared) = in_flight.get(key).and_then(WeakShared::upgrade) {
            return shared;
        }
        // Removes work that no caller waits for any more.
        in_flight.retain(|_, weak| weak.upgrade().is_some());
        let shared = work().shared();
        if let Some(weak) = shared.downgrade() {
            in_flight.insert(key.clone(), weak);
        }
        shared
    }

    fn keep(&self, key: Key, answer: &Answer, ttl: Duration) {
        if answer.bytes() > MAX_KEPT_BYTES {
            return;
        }
        let mut kept = lock(&self.kept);
        let now = Instant::now();
        if kept.len() >= MAX_KEPT {
            kept.retain(|_, (_, until)| *until > now);
            let soonest = kept.iter().min_by_key(|(_, (_, until))| *until).map(|(key, _)| key.clone());
            if let Some(soonest) = soonest.filter(|_| kept.len() >= MAX_KEPT) {
                kept.remove(&soonest);
            }
        }
        kept.insert(key, (answer.clone(), now + ttl));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use serde_json::value::RawValue;

    use super::{super::handler::AnswerBody, *};

    /// Work that takes a second and counts how often it is begun.
    fn work(count: &Arc<AtomicU32>) -> Work {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(RawValue::from_string(number.to_string()).unwrap().into())
        })
    }

    fn key(text: &str) -> Key {
        Key { tool: "a:b".parse().unwrap(), server: 0, args_sha256: text.to_owned(), texts: JsonTexts::Read }
    }

    async fn call(sharing: &Sharing, text: &str, ttl: Option<Duration>, count: &Arc<AtomicU32>) -> String {
        match sharing.call(key(text), ttl, || work(count)).await {
            Ok(Answer { body: AnswerBody::Value(value), .. }) => value.get().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn identical_calls_in_flight_are_one() {
        let (sharing, count) = (Sharing::default(), Arc::new(AtomicU32::new(0)));
        let (one, two, three) = tokio::join!(
            call(&sharing, "x", None, &count),
            call(&sharing, "x", None, &count),
            call(&sharing, "y", None, &count)
        );
        assert_eq!((one, two, three), ("1".to_owned(), "1".to_owned(), "2".to_owned()));
        assert_eq!(call(&sharing, "x", None, &count).await, "3");
        assert!(lock(&sharing.in_flight).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_that_gives_up_takes_nothing_from_the_other() {
        let (sharing, count) = (Sharing::default(), Arc::new(AtomicU32::new(0)));
        let hasty = tokio::time::timeout(Duration::from_millis(10), call(&sharing, "x", None, &count));
        let (hasty, patient) = tokio::join!(hasty, call(&sharing, "x", None, &count));
        assert!(hasty.is_err());
        assert_eq!(patient, "1");
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_kept_for_their_time() {
        let (sharing, count) = (Sharing::default(), Arc::new(AtomicU32::new(0)));
        let ttl = Some(Duration::from_secs(10));
        assert_eq!(call(&sharing, "x", ttl, &count).await, "1");
        assert_eq!(call(&sharing, "x", ttl, &count).await, "1");
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(call(&sharing, "x", ttl, &count).await, "2");
        for number in 0..MAX_KEPT + 10 {
            call(&sharing, &number.to_string(), ttl, &count).await;
        }
        assert!(lock(&sharing.kept).len() <= MAX_KEPT);
    }
}
