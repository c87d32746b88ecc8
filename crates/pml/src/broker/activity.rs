//! Tracks which servers were called since a call last waited in vain for one of their new tools.
//!
//! A server may add a tool during a call, and send `list_changed` a moment after its response. A call to an unknown tool
//! waits for that, but a program that calls a thousand unknown tools waits once, not a thousand times.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

#[derive(Debug, Default)]
pub(super) struct Activity {
    servers: Mutex<HashMap<String, Calls>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    ended: u64,
    /// The number of ended calls when the last vain wait began.
    at_last_wait: Option<u64>,
}

/// A wait that has begun.
#[derive(Debug)]
pub(super) struct Waiting {
    server: String,
    ended: u64,
}

impl Activity {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Calls>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a call to a server has ended.
    pub(super) fn called(&self, server: &str) {
        let mut servers = self.lock();
        match servers.get_mut(server) {
            Some(calls) => calls.ended += 1,
            None => drop(servers.insert(server.to_owned(), Calls { ended: 1, at_last_wait: None })),
        }
    }

    /// Begins a wait for a new tool of a server, unless nothing has happened since the last one was in vain.
    pub(super) fn since_last_wait(&self, server: &str) -> Option<Waiting> {
        let calls = self.lock().get(server).copied().unwrap_or_default();
        (calls.at_last_wait != Some(calls.ended)).then(|| Waiting { server: server.to_owned(), ended: calls.ended })
    }

    /// Records that a wait was in vain.
    pub(super) fn waited(&self, waiting: Waiting) {
        self.lock().entry(waiting.server).or_default().at_last_wait = Some(waiting.ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wait_in_vain_is_enough_until_the_server_is_called_again() {
        let activity = Activity::default();
        let waiting = activity.since_last_wait("a").unwrap();
        assert!(activity.since_last_wait("a").is_some(), "others may wait at the same time");
        activity.waited(waiting);
        assert!(activity.since_last_wait("a").is_none());
        assert!(activity.since_last_wait("b").is_some());
        activity.called("a");
        assert!(activity.since_last_wait("a").is_some());
    }
}
