//! Which line of the program makes a request, for the trace.
//!
//! The line is that of the innermost frame of the program in the stack that is taken with every request, mapped back to what
//! was sent. Places are remembered and the host is told only when the line is another one, so that a call in a loop costs the
//! reading of one line of text.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
};

use rquickjs::Value;

use super::raw;
use crate::transpile::{Source, innermost};

/// Places that are remembered. A program with more has the others looked up each time.
const MAX_PLACES: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The line of each place of the engine's; 0 if there is none.
    known: RefCell<HashMap<(u32, u32), u32>>,
    /// What the host was told last.
    told: Cell<u32>,
}

impl Lines {
    /// The line of a request that is made where `stack` says, if it is another one than that of the request before; 0 if it
    /// cannot be known. A program can make `stack` what it likes, and so its own trace wrong.
    pub(super) fn news(&self, source: Option<&Source>, stack: &Value<'_>) -> Option<u32> {
        let stack = Some(stack).filter(|stack| stack.is_string()).and_then(raw::text);
        let place = stack.and_then(|(stack, _)| innermost(&stack));
        let line = source.zip(place).map_or(0, |(source, place)| self.line(source, place));
        (self.told.replace(line) != line).then_some(line)
    }

    fn line(&self, source: &Source, place: (u32, u32)) -> u32 {
        if let Some(line) = self.known.borrow().get(&place) {
            return *line;
        }
        let line = source.line(place.0, place.1).unwrap_or(0);
        let mut known = self.known.borrow_mut();
        if known.len() < MAX_PLACES {
            known.insert(place, line);
        }
        line
    }
}
