//! Whose turn it is to start: so many servers at the same time that the machine can bear it.
//!
//! A server that a call needs goes before those that are only started so that their tools are known. A turn ends with the
//! start, and after a while anyway: a server that hangs keeps no other from starting.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::oneshot, time::sleep};

/// The longest that a start takes its turn. What takes longer waits more than it computes.
const LONGEST_TURN: Duration = Duration::from_secs(5);

/// Turns to start. Clones share them.
#[derive(Clone, Debug)]
pub struct Starts(Arc<Mutex<Turns>>);

#[derive(Debug)]
struct Turns {
    /// Most turns at the same time.
    most: usize,
    /// Turns that are taken.
    taken: usize,
    waiting: Vec<(Urgency, oneshot::Sender<Turn>)>,
}

/// Does a call need the server? Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Urgency(Arc<AtomicBool>);

impl Urgency {
    pub(super) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A turn. It ends when it is dropped.
#[derive(Debug)]
struct Turn(Starts);

impl Starts {
    pub fn new(at_once: usize) -> Starts {
        Starts(Arc::new(Mutex::new(Turns { most: at_once.max(1), taken: 0, waiting: Vec::new() })))
    }

    /// From now on, so many servers start at the same time. Those that are starting go on.
    pub fn set_most(&self, at_once: usize) {
        self.turns().most = at_once.max(1);
        while self.hand_on() {}
    }

    /// Gives a free turn to whoever has waited longest, or is needed. Was there one?
    fn hand_on(&self) -> bool {
        let mut turns = self.turns();
        if turns.taken >= turns.most || turns.waiting.is_empty() {
            return false;
        }
        let is_urgent = |(urgency, _): &(Urgency, _)| urgency.0.load(Ordering::Relaxed);
        let next = turns.waiting.iter().position(is_urgent).unwrap_or(0);
        let (_, sender) = turns.waiting.remove(next);
        turns.taken += 1;
        drop(turns);
        // If nobody waits for it any more, it is dropped and goes to the next.
        let _ = sender.send(Turn(self.clone()));
        true
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what starts a server when it is its turn.
    pub(super) async fn run<T>(&self, urgency: &Urgency, start: impl Future<Output = T>) -> T {
        let turn = self.turn(urgency).await;
        let mut start = pin!(start);
        tokio::select! {
            biased;
            started = &mut start => return started,
            () = sleep(LONGEST_TURN) => drop(turn),
        }
        start.await
    }

    /// Waits for a turn. What is urgent meanwhile counts when the next one is free.
    async fn turn(&self, urgency: &Urgency) -> Turn {
        let receiver = {
            let mut turns = self.turns();
            if turns.taken < turns.most {
                turns.taken += 1;
                return Turn(self.clone());
            }
            let (sender, receiver) = oneshot::channel();
            turns.waiting.push((urgency.clone(), sender));
            receiver
        };
        match receiver.await {
            Ok(turn) => turn,
            // Nobody drops a sender that waits.
            Err(_) => {
                self.turns().taken += 1;
                Turn(self.clone())
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.turns().taken -= 1;
        self.0.hand_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_start_that_hangs_keeps_nobody_waiting_for_ever() {
        let starts = Starts::new(1);
        let (one, two) = (Urgency::default(), Urgency::default());
        tokio::select! {
            () = starts.run(&one, std::future::pending()) => {}
            () = starts.run(&two, std::future::ready(())) => {}
        }
        assert_eq!(starts.turns().taken, 0);
    }

    #[tokio::test]
    async fn so_many_at_once_and_what_a_call_needs_first() {
        let starts = Starts::new(2);
        let calm = Urgency::default();
        let (one, two) = (starts.turn(&calm).await, starts.turn(&calm).await);
        let order = Arc::new(Mutex::new(Vec::new()));
        let urgency = Urgency::default();
        let waiting: Vec<_> = [("a", calm.clone()), ("b", calm.clone()), ("needed", urgency.clone())]
            .into_iter()
            .map(|(name, urgency)| {
                let (starts, order) = (starts.clone(), Arc::clone(&order));
                tokio::spawn(async move {
                    let turn = starts.turn(&urgency).await;
                    order.lock().unwrap().push(name);
                    drop(turn);
                })
            })
            .collect();
        while starts.turns().waiting.len() < 3 {
            tokio::task::yield_now().await;
        }
        // It is needed only while it waits.
        urgency.raise();
        // One that gives up does not keep its turn.
        waiting[0].abort();
        drop(one);
        for task in waiting {
            let _ = task.await;
        }
        assert_eq!(*order.lock().unwrap(), ["needed", "b"]);
        drop(two);
        assert_eq!(starts.turns().taken, 0);
    }

    #[tokio::test]
    async fn more_may_start_when_the_limit_is_raised_and_fewer_when_it_is_lowered() {
        let starts = Starts::new(1);
        let calm = Urgency::default();
        let one = starts.turn(&calm).await;
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let (starts, calm) = (starts.clone(), calm.clone());
                tokio::spawn(async move { starts.turn(&calm).await })
            })
            .collect();
        while starts.turns().waiting.len() < 2 {
            tokio::task::yield_now().await;
        }
        starts.set_most(3);
        for task in waiting {
            drop(task.await.unwrap());
        }
        let two = starts.turn(&calm).await;
        starts.set_most(1);
        drop(one);
        assert!(tokio::time::timeout(Duration::from_millis(20), starts.turn(&calm)).await.is_err());
        drop(two);
        starts.turn(&calm).await;
    }
}
