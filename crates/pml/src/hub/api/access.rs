//! Who may do what: the key, its permissions, its rate, in this order.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
};

use axum::http::{HeaderMap, header};
use pml_wire::hub::Code;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    super::{
        keys::{self, PREFIX},
        service::Hub,
        store::{Key, KeyState, Permission, Viewer},
    },
    problem::Problem,
};
use crate::{
    clock::now_millis,
    rate::Bucket,
    trace::store::Scope,
    web::{AnswerHold, AnswerRoom},
};

/// Requests without a valid key that one address may make in a minute.
const FAILURES: NonZeroU32 = NonZeroU32::new(60).expect("not zero");
/// What the answers to one key may take together until they are read.
const KEY_ANSWERS_BYTES: usize = 16 * 1024 * 1024;
/// Keys, and addresses, that are remembered.
const MAX_REMEMBERED: usize = 10_000;

/// What keys, and addresses without a key, have left.
#[derive(Debug)]
pub(in super::super) struct Rates {
    per_minute: NonZeroU32,
    keys: Mutex<HashMap<(Scope, String), Arc<Share>>>,
    failures: Mutex<HashMap<IpAddr, Arc<Bucket>>>,
}

/// What one key may take of the hub.
#[derive(Debug)]
struct Share {
    requests: Bucket,
    /// One query that reads many traces at a time, so that no key has all places of such queries or a queue before them.
    scan: Arc<Semaphore>,
    /// Room for answers, so that no key has all of the hub's.
    answers: AnswerRoom,
}

impl Rates {
    pub(in super::super) fn new(per_minute: NonZeroU32) -> Rates {
        Rates { per_minute, keys: Mutex::default(), failures: Mutex::default() }
    }

    fn of_key(&self, key: &Key) -> Arc<Share> {
        let share = || Share {
            requests: Bucket::new(self.per_minute),
            scan: Arc::new(Semaphore::new(1)),
            answers: AnswerRoom::new(KEY_ANSWERS_BYTES),
        };
        remembered(&self.keys, (key.scope.clone(), key.name.clone()), share)
    }

    fn of_stranger(&self, peer: IpAddr) -> Arc<Bucket> {
        remembered(&self.failures, peer, || Bucket::new(FAILURES))
    }
}

fn remembered<K: Eq + Hash, T>(known: &Mutex<HashMap<K, Arc<T>>>, whose: K, new: impl FnOnce() -> T) -> Arc<T> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= MAX_REMEMBERED && !known.contains_key(&whose) {
        known.clear(); // a flood; each begins anew
    }
    Arc::clone(known.entry(whose).or_insert_with(|| Arc::new(new())))
}

/// Whoever asks, let in.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) key: Key,
    share: Arc<Share>,
}

impl Caller {
    /// Waits until no other query that reads many traces is made with the same key.
    pub(super) async fn turn_to_scan(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.share.scan).acquire_owned().await.ok()
    }

    /// Room for an answer among all of this key.
    pub(super) async fn answer_room(&self, bytes: usize) -> Option<AnswerHold> {
        self.share.answers.take(bytes).await
    }

    pub(super) fn viewer(&self) -> Viewer {
        let Key { scope, name, permissions, .. } = &self.key;
        Viewer { scope: scope.clone(), name: name.clone(), is_admin: permissions.permit(Permission::Admin) }
    }
}

impl Hub {
    /// Lets a request in, or says why not.
    pub(super) async fn admit(
        &self,
        headers: &HeaderMap,
        peer: IpAddr,
        permission: Permission,
    ) -> Result<Caller, Problem> {
        let key = match self.key(headers).await? {
            Ok(key) => key,
            Err(why) => {
                let rate = self.rates.of_stranger(peer).take();
                rate.map_err(|wait| Problem::later(Code::RateLimited, "too many requests without a valid key", wait))?;
                return Err(Problem::new(Code::Unauthorized, why));
            }
        };
        let limited = |wait| {
            let message = format!("the key `{}` has made {} requests in a minute", key.name, self.rates.per_minute);
            Problem::later(Code::RateLimited, message, wait)
        };
        let share = self.rates.of_key(&key);
        share.requests.take().map_err(limited)?;
        if !key.permissions.permit(permission) {
            let message = format!("the key `{}` permits {}, not {}", key.name, key.permissions, permission.as_str());
            return Err(Problem::new(Code::Forbidden, message));
        }
        Ok(Caller { key, share })
    }

    /// Why nobody is let in by a hub whose keys are gone. Not that the key is not valid: it may be again, and gateways stop for
    /// good when they are told that it is not.
    pub(super) fn lost_keys(&self) -> Problem {
        if !self.has_told_loss.swap(true, Ordering::Relaxed) {
            let hint = "restore the database from a backup, or make new keys with `pml hub key add`";
            tracing::error!(hint, "this hub has lost its keys, and lets nobody in");
        }
        Problem::unavailable("this hub has lost its keys; whoever runs it has to restore its database or make new ones")
    }

    /// The key that a request carries, if it is valid. Looked up each time, so that a key that is revoked ends at once, in every
    /// process of the hub.
    async fn key(&self, headers: &HeaderMap) -> Result<Result<Key, &'static str>, Problem> {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
            let (scheme, key) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
        });
        let Some(given) = given else { return Ok(Err("send `Authorization: Bearer …` with a key of this hub")) };
        if !given.starts_with(PREFIX) {
            return Ok(Err("this is no key of a hub"));
        }
        let keys = self.store.keys();
        let found = self.soon(keys.by_hash(keys::hash(given))).await?;
        if found.is_none() && self.soon(keys.are_lost()).await? {
            return Err(self.lost_keys());
        }
        Ok(match found.as_ref().map(|key| key.state(now_millis())) {
            None => Err("this key is not known here"),
            Some(KeyState::Revoked) => Err("this key was revoked"),
            Some(KeyState::Expired) => Err("this key has expired"),
            Some(KeyState::Valid) => found.ok_or("this key is not known here"),
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use pml_wire::trace::Timestamp;

    use super::*;

    #[tokio::test]
    async fn one_long_query_of_a_key_at_a_time_and_other_keys_do_not_wait() {
        let rates = Rates::new(FAILURES);
        let caller = |name: &str| {
            let key = Key {
                scope: "acme.web".parse().unwrap(),
                name: name.to_owned(),
                permissions: "read".parse().unwrap(),
                created_at: Timestamp(0),
                expires_at: None,
                revoked_at: None,
            };
            Caller { share: rates.of_key(&key), key }
        };
        let (one, again, other) = (caller("one"), caller("one"), caller("other"));
        let turn = one.turn_to_scan().now_or_never().expect("nobody else asks");
        assert!(again.turn_to_scan().now_or_never().is_none());
        assert!(other.turn_to_scan().now_or_never().is_some());
        drop(turn);
        assert!(again.turn_to_scan().now_or_never().is_some());
    }
}
