//! The sessions of clients of the earlier era.
//!
//! **Invariant:** a session is named by a random id and used by nobody but the caller who began it. There
//! are only so many; the one that was not used for longest goes first.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::{
    results::{Caller, random_id},
    session::Session,
};

const MAX_COUNT: usize = 1000;
/// How long a session that nobody uses is kept.
const MAX_IDLE: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_id: Mutex<HashMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    session: Arc<Session>,
    used: Instant,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session; `None` if this machine has no random numbers.
    pub(super) fn begin(&self, caller: Caller, stop: &CancellationToken) -> Option<(String, Arc<Session>)> {
        let id = random_id()?;
        let session = Session::new(caller, stop.child_token());
        let mut by_id = self.lock();
        by_id.retain(|_, known| {
            let is_kept = known.used.elapsed() < MAX_IDLE || known.session.is_busy();
            if !is_kept {
                known.session.gone.cancel();
            }
            is_kept
        });
        if by_id.len() >= MAX_COUNT {
            let oldest = by_id.iter().filter(|(_, known)| !known.session.is_busy()).min_by_key(|(_, known)| known.used);
            let oldest = oldest.or_else(|| by_id.iter().min_by_key(|(_, known)| known.used)).map(|(id, _)| id.clone());
            if let Some(known) = oldest.and_then(|id| by_id.remove(&id)) {
                known.session.gone.cancel();
            }
        }
        by_id.insert(id.clone(), Known { session: Arc::clone(&session), used: Instant::now() });
        Some((id, session))
    }

    /// The session of that id, if it is the caller's.
    pub(super) fn get(&self, id: &str, caller: &Caller) -> Option<Arc<Session>> {
        let mut by_id = self.lock();
        let known = by_id.get_mut(id).filter(|known| known.session.caller == *caller)?;
        known.used = Instant::now();
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
        let (id, session) = sessions.begin(ann.clone(), &stop).unwrap();
        assert!(sessions.get(&id, &ann).is_some());
        assert!(sessions.get(&id, &bob).is_none() && !sessions.end(&id, &bob));
        for _ in 0..MAX_COUNT {
            tokio::time::advance(Duration::from_millis(1)).await;
            sessions.begin(bob.clone(), &stop).unwrap();
        }
        assert!(sessions.get(&id, &ann).is_none() && session.gone.is_cancelled(), "the oldest goes first");
        let (id, session) = sessions.begin(ann.clone(), &stop).unwrap();
        assert!(sessions.end(&id, &ann) && session.gone.is_cancelled());
        tokio::time::advance(MAX_IDLE).await;
        sessions.begin(ann, &stop).unwrap();
        assert_eq!(sessions.lock().len(), 1);
    }
}
