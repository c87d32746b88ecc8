//! Room for messages that are being read.
//!
//! A message takes room as it arrives, not before. When there is none left, the message that holds most for the little that
//! arrives of it is given up: so whoever sends slowly, or stops half way, keeps nobody out.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::body::Body;
use futures_util::StreamExt as _;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

/// Longest message.
pub(crate) const MAX_BYTES: usize = 16 * 1024 * 1024;
/// What all messages may take together.
const TOTAL_BYTES: usize = 128 * 1024 * 1024;
/// What a message may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(30);
/// How long the speed of a message is measured, and how long it is left alone at first.
const WINDOW: Duration = Duration::from_secs(1);
/// A message that is faster than this, in bytes a window, is not given up.
const FAST: usize = 1024 * 1024;
/// How often whoever waits looks for a message to be given up.
const LOOK: Duration = Duration::from_millis(100);

/// The messages that are being read.
#[derive(Debug)]
pub(crate) struct Bodies {
    state: Mutex<State>,
    /// Told when room was given back.
    freed: Notify,
}

#[derive(Debug)]
struct State {
    free: usize,
    arriving: BTreeMap<u64, Arriving>,
    next: u64,
}

/// A message that is being read.
#[derive(Debug)]
struct Arriving {
    held: usize,
    begun: Instant,
    /// What has arrived in the window before this one, and in this one.
    last_window: usize,
    window: usize,
    window_begun: Instant,
    progress: Progress,
    /// Cancelled when it is given up.
    end: CancellationToken,
}

/// How far a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Arriving,
    /// It waits for room, so it is not its own fault that nothing arrives.
    Waiting,
    /// All of it is here.
    Whole,
}

/// Why there is no message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoBody {
    TooLarge,
    /// It took too long, in all or while others waited.
    TooSlow,
    /// The connection broke.
    Broken,
}

/// A message that was read, and the room that it takes.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    pub(crate) room: Room,
}

/// What one message takes, given back when dropped.
#[derive(Debug)]
pub(crate) struct Room {
    bodies: Arc<Bodies>,
    id: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut state = self.bodies.lock();
        if let Some(arriving) = state.arriving.remove(&self.id) {
            state.free += arriving.held;
        }
        drop(state);
        self.bodies.freed.notify_waiters();
    }
}

impl Default for Bodies {
    fn default() -> Bodies {
        let state = State { free: TOTAL_BYTES, arriving: BTreeMap::new(), next: 0 };
        Bodies { state: Mutex::new(state), freed: Notify::new() }
    }
}

impl Bodies {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a message.
    pub(crate) async fn read(self: &Arc<Self>, body: Body) -> Result<Received, NoBody> {
        let (room, end) = self.begin();
        let read = async {
            let (mut bytes, mut parts) = (Vec::new(), body.into_data_stream());
            while let Some(part) = parts.next().await {
                let part = part.map_err(|_| NoBody::Broken)?;
                if bytes.len() + part.len() > MAX_BYTES {
                    return Err(NoBody::TooLarge);
                }
                self.grow(room.id, part.len()).await;
                bytes.extend_from_slice(&part);
            }
            Ok(bytes)
        };
        let bytes = tokio::select! {
            read = timeout(ARRIVAL, read) => read.map_err(|_| NoBody::TooSlow)??,
            () = end.cancelled() => return Err(NoBody::TooSlow),
        };
        if let Some(own) = self.lock().arriving.get_mut(&room.id) {
            own.progress = Progress::Whole;
        }
        Ok(Received { bytes, room })
    }

    fn begin(self: &Arc<Self>) -> (Room, CancellationToken) {
        let (now, end) = (Instant::now(), CancellationToken::new());
        let mut state = self.lock();
        state.next += 1;
        let id = state.next;
        let arriving = Arriving {
            held: 0,
            begun: now,
            last_window: 0,
            window: 0,
            window_begun: now,
            progress: Progress::Arriving,
            end: end.clone(),
        };
        state.arriving.insert(id, arriving);
        drop(state);
        (Room { bodies: Arc::clone(self), id }, end)
    }

    /// Makes room for more of a message.
    async fn grow(&self, id: u64, bytes: usize) {
        loop {
            // Before it is looked: what is freed meanwhile is heard.
            let freed = self.freed.notified();
            if self.lock().take(id, bytes) {
                return;
            }
            let _ = timeout(LOOK, freed).await;
        }
    }
}

impl State {
    /// Takes room for more of a message. If there is none, another one may be given up for it.
    fn take(&mut self, id: u64, bytes: usize) -> bool {
        let now = Instant::now();
        let has_room = self.free >= bytes;
        if let Some(own) = self.arriving.get_mut(&id) {
            own.progress = if has_room { Progress::Arriving } else { Progress::Waiting };
        }
        if !has_room {
            self.arriving.values_mut().for_each(|arriving| arriving.turn(now));
            let slow = self.arriving.values().filter(|arriving| arriving.is_slow(now));
            let worst = slow.max_by_key(|arriving| arriving.held / (arriving.recent() + 1));
            if let Some(worst) = worst.or_else(|| self.last_of_those_who_wait()) {
                worst.end.cancel();
            }
            return false;
        }
        if let Some(arriving) = self.arriving.get_mut(&id) {
            arriving.turn(now);
            arriving.window += bytes;
            arriving.held += bytes;
            self.free -= bytes;
        }
        true
    }
}

impl State {
    /// The message that began last, if all of them wait for each other.
    fn last_of_those_who_wait(&self) -> Option<&Arriving> {
        let mut holding = self.arriving.values().filter(|arriving| arriving.held > 0 && !arriving.end.is_cancelled());
        let all_wait = holding.clone().all(|arriving| arriving.progress == Progress::Waiting);
        // One is enough for now.
        let is_any_ending = self.arriving.values().any(|arriving| arriving.end.is_cancelled());
        (all_wait && !is_any_ending).then(|| holding.by_ref().max_by_key(|arriving| arriving.begun)).flatten()
    }
}

impl Arriving {
    /// Begins a new window if it is time for one.
    fn turn(&mut self, now: Instant) {
        let age = now.duration_since(self.window_begun);
        if age >= WINDOW {
            // Nothing at all has arrived in a window that is long over.
            self.last_window = if age < 2 * WINDOW { self.window } else { 0 };
            self.window = 0;
            self.window_begun = now;
        }
    }

    /// What has arrived lately.
    fn recent(&self) -> usize {
        self.last_window + self.window
    }

    fn is_slow(&self, now: Instant) -> bool {
        let is_at_fault = self.progress == Progress::Arriving && !self.end.is_cancelled();
        is_at_fault && now.duration_since(self.begun) >= WINDOW && self.recent() < FAST
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Bytes;
    use futures_util::stream;
    use tokio::time::sleep;

    use super::*;

    /// A body that sends so many bytes at once, then pauses, again and again.
    fn body(bytes: usize, pause: Duration, times: usize) -> Body {
        let part = Bytes::from(vec![b'x'; bytes]);
        Body::from_stream(stream::unfold(0, move |sent| {
            let part = part.clone();
            async move {
                if sent == times {
                    return None;
                }
                sleep(if sent == 0 { Duration::ZERO } else { pause }).await;
                Some((Ok::<_, Infallible>(part), sent + 1))
            }
        }))
    }

    const MB: usize = 1024 * 1024;

    #[tokio::test(start_paused = true)]
    async fn a_message_is_read_whole_or_refused() {
        let bodies = Arc::new(Bodies::default());
        let read = async |body| bodies.read(body).await.map(|received| received.bytes.len());
        assert_eq!(read(body(MB, Duration::ZERO, 16)).await, Ok(16 * MB));
        assert_eq!(read(body(MB, Duration::ZERO, 17)).await, Err(NoBody::TooLarge));
        assert_eq!(read(body(1, Duration::from_secs(7), 5)).await, Ok(5), "alone, one may be slow");
        assert_eq!(read(body(1, Duration::from_secs(31), 2)).await, Err(NoBody::TooSlow));
        assert_eq!(bodies.lock().free, TOTAL_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_stop_half_way_make_room_for_others() {
        let bodies = Arc::new(Bodies::default());
        // They send nearly all of the largest message that there is, and then drip.
        let stalled: Vec<_> = (0..8)
            .map(|_| {
                let bodies = Arc::clone(&bodies);
                tokio::spawn(async move { bodies.read(body(16 * MB - 30, Duration::from_secs(29), 2)).await.map(drop) })
            })
            .collect();
        sleep(Duration::from_secs(2)).await;
        assert!(bodies.lock().free < MB);
        let started = Instant::now();
        let honest = bodies.read(body(MB, Duration::ZERO, 10)).await.unwrap();
        assert_eq!(honest.bytes.len(), 10 * MB);
        assert!(started.elapsed() <= 2 * LOOK, "{:?}", started.elapsed());
        let ended = stalled.iter().filter(|task| task.is_finished()).count();
        assert_eq!(ended, 1, "one was enough");
        // Many at once, each of which holds a part of what it needs, do not wait for each other for ever.
        drop(honest);
        stalled.iter().for_each(tokio::task::JoinHandle::abort);
        sleep(Duration::from_secs(1)).await;
        let many = (0..24).map(async |_| bodies.read(body(MB, Duration::from_millis(1300), 12)).await.is_ok());
        let read = futures_util::future::join_all(many).await;
        assert!(read.iter().filter(|is_read| **is_read).count() >= 8, "{read:?}");
        assert_eq!(bodies.lock().free, TOTAL_BYTES);
    }
}
