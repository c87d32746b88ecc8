//! `setTimeout` and `setInterval`: callbacks that wait for a moment.

use std::{collections::BTreeMap, time::Duration};

use rquickjs::Function;

use crate::clock::Moment;

/// Most timers at a time, so that a program cannot fill the worker's own memory.
const MAX_TIMERS: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Timers<'js> {
    /// By due time, then by age: the order in which they fire.
    waiting: BTreeMap<(Moment, u32), Timer<'js>>,
    last_id: u32,
}

#[derive(Debug)]
struct Timer<'js> {
    callback: Function<'js>,
    /// How often it repeats, if it does.
    period: Option<Duration>,
}

impl<'js> Timers<'js> {
    /// Adds a timer and gives its id, or `None` if there are too many.
    pub(crate) fn add(&mut self, callback: Function<'js>, delay_ms: f64, repeats: bool) -> Option<u32> {
        if self.waiting.len() >= MAX_TIMERS {
            return None;
        }
        // As in browsers: a negative, huge or odd delay is the shortest one.
        let millis = if (1.0..=2_147_483_647.0).contains(&delay_ms) { delay_ms } else { 1.0 };
        let delay = Duration::from_secs_f64(millis / 1000.0);
        self.last_id += 1;
        let timer = Timer { callback, period: repeats.then_some(delay) };
        self.waiting.insert((Moment::now().after(delay), self.last_id), timer);
        Some(self.last_id)
    }

    pub(crate) fn remove(&mut self, id: u32) {
        self.waiting.retain(|(_, other), _| *other != id);
    }

    /// When the next timer is due, if there is one.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// The callback of a timer that is due. One that repeats waits anew.
    pub(crate) fn take_due(&mut self, now: Moment) -> Option<Function<'js>> {
        let entry = self.waiting.first_entry()?;
        if entry.key().0 > now {
            return None;
        }
        let ((_, id), timer) = entry.remove_entry();
        let callback = timer.callback.clone();
        if let Some(period) = timer.period {
            self.waiting.insert((now.after(period), id), timer);
        }
        Some(callback)
    }
}
