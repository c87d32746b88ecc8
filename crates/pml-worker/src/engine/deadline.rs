//! When a program has to stop.
//!
//! A program may compute for so long, and take so long in all. Time that it spends waiting for the host, which waits for
//! tools and servers, is not computing; waiting for its own timers is its own affair, and counts.
//!
//! The host enforces both from outside. This is only where it can be said which line the program was at.
//!
//! **Invariant:** once a limit has passed, or the report about the end is being made, nothing of the program leaves the worker.
//! Code of the program can still run then: `Error.prepareStackTrace` for the error that stops it, which swallows that error,
//! and getters of what it threw.

use std::{cell::Cell, rc::Rc, time::Duration};

use pml_wire::message::Limits;

use crate::clock::Moment;

/// How long code of the program may run while the end is reported. The host waits longer.
const REPORT: Duration = Duration::from_millis(20);

/// Which of the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Computing,
    Total,
}

/// The moments after which the engine stops, shared with its interrupt handler.
#[derive(Debug, Default)]
pub(super) struct Deadline {
    /// When the program has computed for as long as it may, had it never waited.
    computing: Cell<Option<Moment>>,
    total: Cell<Option<Moment>>,
    /// How long the program has waited for the host. The channel counts along.
    waited: Rc<Cell<Duration>>,
    passed: Cell<Option<Limit>>,
    /// When the report about the end has to be made, once it has begun.
    reported: Cell<Option<Moment>>,
}

impl Deadline {
    pub(super) fn start(&self, started: Moment, limits: Limits) {
        self.waited.set(Duration::ZERO);
        self.reported.set(None);
        self.computing.set(Some(started.after(Duration::from_millis(limits.timeout_ms))));
        self.total.set(Some(started.after(Duration::from_millis(limits.total_ms))));
    }

    /// From now on, nothing is stopped.
    pub(super) fn end(&self) {
        self.computing.set(None);
        self.total.set(None);
        self.reported.set(None);
    }

    /// The end is reported from now on. What the program still computes is no longer its own time, but bounded.
    pub(super) fn report(&self) {
        if self.reported.get().is_none() {
            self.reported.set(Some(Moment::now().after(REPORT)));
        }
    }

    /// Has the program no more say?
    pub(super) fn is_over(&self) -> bool {
        self.passed.get().is_some() || self.reported.get().is_some()
    }

    /// Shall the engine stop what it does? Says so as often as it is asked: a stop can be swallowed.
    pub(super) fn stops(&self, now: Moment) -> bool {
        match self.reported.get() {
            Some(until) => now > until,
            None => self.passes(now),
        }
    }

    /// What time that is spent waiting for the host is added to.
    pub(super) fn waited(&self) -> Rc<Cell<Duration>> {
        Rc::clone(&self.waited)
    }

    /// Adds time that was spent waiting for the host.
    pub(super) fn wait(&self, time: Duration) {
        self.waited.set(self.waited.get() + time);
    }

    /// When the program has to stop; if it waits for the host, that is not its own time.
    pub(super) fn until(&self, waits_for_host: bool) -> Option<Moment> {
        let computing = self.computing.get().filter(|_| !waits_for_host).map(|at| at.after(self.waited.get()));
        [computing, self.total.get()].into_iter().flatten().min()
    }

    /// Notes and says whether a limit has passed.
    pub(super) fn passes(&self, now: Moment) -> bool {
        if self.passed.get().is_none() && self.until(false).is_some_and(|until| now > until) {
            let is_total = self.total.get().is_some_and(|total| now > total);
            self.passed.set(Some(if is_total { Limit::Total } else { Limit::Computing }));
        }
        self.passed.get().is_some()
    }

    /// The limit that has passed.
    pub(super) fn passed(&self) -> Option<Limit> {
        self.passed.get()
    }
}
