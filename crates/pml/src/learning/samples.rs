//! Results on their way to the follower, which takes their shapes.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, TryLockError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Larger results are not looked at.
const MAX_BYTES: usize = 64 * 1024;
/// Results that wait, and their size together.
const MAX_WAITING: usize = 64;
const MAX_WAITING_BYTES: usize = 1 << 20;

/// The result of one call of a tool.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) tool: String,
    /// Of what the server says about the tool.
    pub(super) hash: String,
    /// JSON text, as the program gets it.
    pub(super) result: String,
}

#[derive(Debug, Default)]
pub(super) struct Samples {
    waiting: Mutex<VecDeque<Sample>>,
    offered: AtomicU64,
}

impl Samples {
    /// Is a result of this size wanted, of a tool of which so many were seen? The more there were, the fewer are.
    pub(super) fn wants(&self, bytes: usize, results: u32) -> bool {
        let number = self.offered.fetch_add(1, Ordering::Relaxed);
        bytes <= MAX_BYTES && (results < 100 || number.is_multiple_of(if results < 1000 { 8 } else { 64 }))
    }

    /// Hands a result over, or drops it: nobody waits.
    pub(super) fn offer(&self, sample: Sample) {
        let mut waiting = match self.waiting.try_lock() {
            Ok(waiting) => waiting,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let bytes: usize = waiting.iter().map(|sample| sample.result.len()).sum();
        if waiting.len() < MAX_WAITING && bytes + sample.result.len() <= MAX_WAITING_BYTES {
            waiting.push_back(sample);
        }
    }

    pub(super) fn take(&self) -> VecDeque<Sample> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_and_common_tools_are_sampled() {
        let samples = Samples::default();
        for _ in 0..1000 {
            samples.offer(Sample { tool: "a:b".to_owned(), hash: String::new(), result: "x".repeat(60_000) });
        }
        assert_eq!(samples.take().len(), MAX_WAITING_BYTES / 60_000);
        assert!(samples.take().is_empty());
        assert!(!samples.wants(MAX_BYTES + 1, 0) && samples.wants(10, 0));
        assert_eq!((0..6400).filter(|_| samples.wants(10, 5000)).count(), 100);
    }
}
