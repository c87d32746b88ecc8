//! A message on its way out, what HTTP wants to know about it, and whether it has left.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU8, Ordering},
};

use pml_wire::Line;
use reqwest::header::HeaderValue;

/// What a server calls a session over HTTP.
pub(in super::super) type SessionId = HeaderValue;

/// A message on its way out.
#[derive(Debug)]
pub(in super::super) struct Outgoing {
    pub(in super::super) body: Line,
    /// The id of the request that the message is, if it is a request.
    pub(in super::super) id: Option<u64>,
    pub(in super::super) headers: Headers,
    pub(in super::super) departure: Departure,
    /// Where the id of the session goes that the message begins, if it begins one.
    pub(in super::super) begins: Option<SessionSlot>,
}

impl Outgoing {
    /// A message that nothing answers.
    pub(in super::super) fn telling(body: Line, headers: Headers) -> Outgoing {
        Outgoing { body, id: None, headers, departure: Departure::default(), begins: None }
    }
}

/// The parts of a message that HTTP repeats in its headers.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Headers {
    pub(in super::super) version: Option<&'static str>,
    /// The session that the message belongs to.
    pub(in super::super) session: Option<SessionId>,
    /// Modern era: the method.
    pub(in super::super) method: Option<String>,
    pub(in super::super) name: Option<String>,
    /// Arguments that the tool wants in headers, by the header's name.
    pub(in super::super) arguments: Vec<(String, String)>,
}

/// The id that a server gives to a session it begins; empty if the server gives none.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct SessionSlot(Arc<OnceLock<SessionId>>);

impl SessionSlot {
    pub(super) fn fill(&self, id: SessionId) {
        let _ = self.0.set(id);
    }

    pub(in super::super) fn get(&self) -> Option<SessionId> {
        self.0.get().cloned()
    }
}

const QUEUED: u8 = 0;
const LEFT: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Whether a message has left pml. Whoever writes the message and whoever gives it up agree here, so that a message of
/// which it is said that it was not sent is not sent later either.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Departure(Arc<AtomicU8>);

impl Departure {
    /// Marks the message as leaving, just before the first byte of it is written. False if it must not leave any more.
    pub(super) fn leave(&self) -> bool {
        self.0.compare_exchange(QUEUED, LEFT, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Takes the mark back: no byte of the message was taken by the other side.
    pub(super) fn take_back(&self) {
        self.0.store(WITHDRAWN, Ordering::SeqCst);
    }

    /// Gives the message up. True if it has not left, and never will.
    pub(in super::super) fn withdraw(&self) -> bool {
        match self.0.compare_exchange(QUEUED, WITHDRAWN, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => true,
            Err(state) => state == WITHDRAWN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_given_up_does_not_leave_later() {
        let given_up = Departure::default();
        assert!(given_up.withdraw() && !given_up.leave() && given_up.withdraw());
        let left = Departure::default();
        assert!(left.leave() && !left.withdraw());
        left.take_back();
        assert!(left.withdraw() && !left.leave());
    }
}
