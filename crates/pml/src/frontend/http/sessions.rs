//! The sessions of clients of the earlier era.
//!
//! **Invariant:** a session is named by a random id and used by nobody but the caller who began it. There
//! are only so many; those that were begun and never used go first, then the one that was not used for longest.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::{
    results::{Caller, random_id},
    session::Session,
    shares::Client,
};

const MAX_COUNT: usize = 1000;
/// How long a session that nobody uses is kept.
const MAX_IDLE: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_id: Mutex<HashMap<String, SessionEntry>>,
}

#[derive(Debug)]
struct SessionEntry {
    session: Arc<Session>,
    used: Instant,
    /// Has anything been asked in it, or was it only begun?
    is_in_use: bool,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, SessionEntry>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session; `None` if this machine has no random numbers.
    pub(super) fn begin(
        &self,
        caller: Caller,
        address: IpAddr,
        stop: &CancellationToken,
    ) -> Option<(String, Arc<Session>)> {
        let id = random_id()?;
        let client = Client::new(&caller, address, &id);
        let session = Session::new(caller, client, stop.child_token());
        let mut by_id = self.lock();
        by_id.retain(|_, known| {
            let is_kept = known.used.elapsed() < MAX_IDLE || known.session.is_busy();
            if !is_kept {
                known.session.gone.cancel();
            }
            is_kept
        });
        if by_id.len() >= MAX_COUNT {
            let rank = |known: &SessionEntry| (known.session.is_busy(), known.is_in_use, known.used);
            let oldest = by_id.iter().min_by_key(|(_, known)| rank(known)).map(|(id, _)| id.clone());
            if let Some(known) = oldest.and_then(|id| by_id.remove(&id)) {
                known.session.gone.cancel();
            }
        }
        by_id
            .insert(id.clone(), SessionEntry { session: Arc::clone(&session), used: Instant::now(), is_in_use: false });
        Some((id, session))
    }

    /// The session of that id, if it is the caller's.
    pub(super) fn get(&self, id: &str, caller: &Caller) -> Option<Arc<Session>> {
        let mut by_id = self.lock();
        let known = by_id.get_mut(id).filter(|known| known.session.caller == *caller)?;
        known.used = Instant::now();
        known.is_in_use = true;
        Some(Arc::clone(&known.session))
    }

    /// Ends a session, and everything that is done for it.
    pub(super) fn end(&self, id: &str, caller: &Caller) -> bool {
        let mut by_id = self.lock();
        let is_own = by_id.get(id).is_some_and(|known| known.session.caller == *caller);
        let known = is_own.then(|| by_id.remove(id)).flatten();
        if let Some(known) = &known {
            known.session.gone.cancel();
        }
        known.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_session_belongs_to_who_began_it_and_does_not_last_for_ever() {
        let sessions = Sessions::default();
        let stop = CancellationToken::new();
        let (ann, bob) = (Caller::new("ann"), Caller::new("bob"));
        let begin = |caller: &Caller| sessions.begin(caller.clone(), [127, 0, 0, 1].into(), &stop).unwrap();
        let (id, session) = begin(&ann);
        assert!(sessions.get(&id, &ann).is_some());
        assert!(sessions.get(&id, &bob).is_none() && !sessions.end(&id, &bob));
        let mut used = Vec::new();
        for _ in 0..2 * MAX_COUNT {
            tokio::time::advance(Duration::from_millis(1)).await;
            used.push(begin(&bob).0);
        }
        assert!(sessions.get(&id, &ann).is_some(), "whoever only begins sessions ends none that are used");
        tokio::time::advance(Duration::from_millis(1)).await;
        used.iter().for_each(|id| drop(sessions.get(id, &bob)));
        for _ in 0..2 {
            tokio::time::advance(Duration::from_millis(1)).await;
            let (id, _) = begin(&bob);
            sessions.get(&id, &bob).unwrap();
        }
        assert!(sessions.get(&id, &ann).is_none() && session.gone.is_cancelled(), "the oldest goes first");
        let (id, session) = begin(&ann);
        assert!(sessions.end(&id, &ann) && session.gone.is_cancelled());
        tokio::time::advance(MAX_IDLE).await;
        begin(&ann);
        assert_eq!(sessions.lock().len(), 1);
    }
}
