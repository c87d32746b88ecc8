//! What a run is told about calls that were made all the same.

use std::sync::{Arc, Mutex, PoisonError};

/// Most notices of one run.
const MAX_NOTICES: usize = 20;

/// Warnings about the calls of one run, each once.
#[derive(Clone, Debug, Default)]
pub struct Notices(Arc<Mutex<Vec<String>>>);

impl Notices {
    pub fn add(&self, notice: String) {
        let mut notices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notices.len() < MAX_NOTICES && !notices.contains(&notice) {
            notices.push(notice);
        }
    }

    /// All of them, in order. None is left.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_said_once_and_many_are_bounded() {
        let notices = Notices::default();
        (0..1000).for_each(|number| notices.add(format!("{}", number / 10)));
        let taken = notices.take();
        assert_eq!((taken.len(), taken[0].as_str(), taken[1].as_str()), (MAX_NOTICES, "0", "1"));
        assert!(notices.take().is_empty());
    }
}
