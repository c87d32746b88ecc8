//! Traces that were learned already, so that one that is delivered twice counts once.

use std::collections::{HashSet, VecDeque};

use crate::observation::TraceId;

/// Traces that are told apart from new ones. A trace that is delivered again after so many others counts again.
const CAPACITY: usize = 131_072;

#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    ids: HashSet<TraceId>,
    order: VecDeque<TraceId>,
}

impl Seen {
    /// Notes a trace; whether it is new.
    pub(crate) fn insert(&mut self, id: TraceId) -> bool {
        if !self.ids.insert(id) {
            return false;
        }
        if self.order.len() == CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        self.order.push_back(id);
        true
    }

    pub(crate) fn contains(&self, id: TraceId) -> bool {
        self.ids.contains(&id)
    }

    /// Oldest first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = TraceId> {
        self.order.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut seen = Seen::default();
        for id in 0..CAPACITY as u128 {
            assert!(seen.insert(TraceId(id)));
        }
        assert!(!seen.insert(TraceId(0)));
        assert!(seen.insert(TraceId(u128::MAX)));
        assert!(!seen.insert(TraceId(1)));
        assert!(seen.insert(TraceId(0)), "it was the oldest");
        assert_eq!((seen.ids.len(), seen.order.len()), (CAPACITY, CAPACITY));
    }
}
