//! Room for responses until they are sent.
//!
//! A response takes room before it is made, and keeps it until its last bytes are with the system. So clients that ask and never
//! read hold a bounded amount of memory, and a [write timeout](super::writing) ends their connections.

use std::{any::Any, sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// How long a response waits for room.
const PATIENCE: Duration = Duration::from_secs(5);
/// Room is counted in pieces of this many bytes.
const PIECE: usize = 1024;

/// Room for responses.
#[derive(Debug)]
pub(crate) struct AnswerRoom {
    free: Arc<Semaphore>,
    pieces: u32,
}

/// What one response takes, given back when dropped.
#[derive(Debug)]
pub(crate) struct AnswerHold(OwnedSemaphorePermit);

/// Something that lives in the extensions of a response until that is sent.
#[derive(Clone)]
pub(crate) struct Kept(#[expect(dead_code, reason = "held, not used")] Arc<dyn Any + Send + Sync>);

impl Kept {
    pub(crate) fn new(what: impl Any + Send + Sync) -> Kept {
        Kept(Arc::new(what))
    }
}

impl AnswerRoom {
    pub(crate) fn new(bytes: usize) -> AnswerRoom {
        let pieces = pieces(bytes);
        AnswerRoom { free: Arc::new(Semaphore::new(pieces as usize)), pieces }
    }

    /// Takes room for a response, all of it at most. `None` if there is none for some time.
    pub(crate) async fn take(&self, bytes: usize) -> Option<AnswerHold> {
        let taking = Arc::clone(&self.free).acquire_many_owned(pieces(bytes).min(self.pieces));
        timeout(PATIENCE, taking).await.ok()?.ok().map(AnswerHold)
    }
}

impl AnswerHold {
    /// Gives back what the response does not need.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let spare = self.0.num_permits().saturating_sub(pieces(bytes) as usize);
        drop(self.0.split(spare));
    }
}

fn pieces(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_response_waits_for_room_and_gives_back_what_it_does_not_need() {
        let room = AnswerRoom::new(10 * PIECE);
        let mut first = room.take(8 * PIECE).await.unwrap();
        assert!(room.take(3 * PIECE).await.is_none(), "nobody reads the first");
        first.shrink_to(2 * PIECE);
        let second = room.take(8 * PIECE).await.unwrap();
        assert!(room.take(1).await.is_none());
        drop(first);
        assert!(room.take(1).await.is_some());
        drop(second);
        assert!(room.take(usize::MAX).await.is_some(), "more than there is takes all of it");
    }
}
