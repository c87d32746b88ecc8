//! Commands that wait for the thread that writes.
//!
//! A command may be put down without waking the thread: the head of an execution is in the journal, and its trace, which follows most
//! heads within a few milliseconds, makes writing the head superfluous.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::writer::Command;

/// A bounded queue, with a bell for the thread that empties it.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    rung: Condvar,
    capacity: usize,
}

#[derive(Debug, Default)]
struct State {
    commands: VecDeque<Command>,
    is_rung: bool,
    is_closed: bool,
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Full,
    Closed,
}

impl Queue {
    pub(super) fn new(capacity: usize) -> Queue {
        Queue { state: Mutex::default(), rung: Condvar::new(), capacity: capacity.max(1) }
    }

    /// Puts a command down. Nobody is told.
    pub(super) fn put(&self, command: Command) -> Result<(), Refused> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Refused::Closed);
        }
        if state.commands.len() >= self.capacity {
            return Err(Refused::Full);
        }
        state.commands.push_back(command);
        Ok(())
    }

    /// Wakes the thread.
    pub(super) fn ring(&self) {
        let mut state = self.lock();
        if !std::mem::replace(&mut state.is_rung, true) {
            self.rung.notify_one();
        }
    }

    pub(super) fn take(&self) -> Option<Command> {
        self.lock().commands.pop_front()
    }

    /// Takes no more.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.ring();
    }

    /// Waits until the bell rings, for so long. False if nothing is left and nothing will come.
    pub(super) fn wait(&self, limit: Duration) -> bool {
        let state = self.lock();
        let (mut state, _) = self
            .rung
            .wait_timeout_while(state, limit, |state| !state.is_rung && !state.is_closed)
            .unwrap_or_else(PoisonError::into_inner);
        state.is_rung = false;
        !state.is_closed || !state.commands.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
