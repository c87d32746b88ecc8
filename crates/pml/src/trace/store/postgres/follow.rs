//! Waits for traces that any process stores.
//!
//! One connection listens for all that follow in this process. It is made when somebody follows, and made again when it is
//! gone; until then, and if a notification is lost, followers look from time to time.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;

use super::{super::connection::Trouble, address::Address, session::Session};

/// How often a follower looks without being told to.
const LOOK: Duration = Duration::from_secs(2);
/// The same while nothing can be heard.
const LOOK_DEAF: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(super) struct Follower {
    address: Address,
    listening: Mutex<Option<Session>>,
    /// How often something was heard.
    heard: watch::Sender<u64>,
}

impl Follower {
    pub(super) fn new(address: Address) -> Follower {
        Follower { address, listening: Mutex::new(None), heard: watch::Sender::new(0) }
    }

    /// Waits until something may have been stored since `seen`, which is how often something had been heard then.
    pub(super) async fn news(&self, seen: &AtomicU64) {
        let mut heard = self.heard.subscribe();
        let listening = || self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        let is_listening = || listening().as_ref().is_some_and(|session| !session.is_closed());
        if !is_listening() {
            match self.listen().await {
                // What was stored before it listened may not have been seen.
                Ok(session) => {
                    *listening() = Some(session);
                    return;
                }
                Err(trouble) => {
                    tracing::debug!(?trouble, "new traces are looked for, since nothing can be heard of them");
                }
            }
        }
        let wait = if is_listening() { LOOK } else { LOOK_DEAF };
        let before = seen.load(Ordering::Relaxed);
        let _ = tokio::time::timeout(wait, heard.wait_for(|count| *count != before)).await;
        seen.store(*self.heard.borrow(), Ordering::Relaxed);
    }

    async fn listen(&self) -> Result<Session, Trouble> {
        let told = self.heard.clone();
        let session = Session::listening(&self.address, move |_| told.send_modify(|count| *count += 1)).await?;
        session.batch("LISTEN pml_trace").await?;
        Ok(session)
    }
}
