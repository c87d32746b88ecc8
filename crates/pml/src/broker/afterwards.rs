//! What is done once a program has its answer.
//!
//! The last line of a call in the audit log and the event about it are of no use to the program that waits for the answer. They
//! are written when the answer is on its way, while the program goes on.
//!
//! **Invariant:** all of it is done: when the run says so, or when nobody can say so any more.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

type Work = Box<dyn FnOnce() + Send>;

/// What is left to do about the calls of one run, in order. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Afterwards(Arc<Left>);

#[derive(Default)]
struct Left(Mutex<Vec<Work>>);

impl Afterwards {
    pub fn add(&self, work: impl FnOnce() + Send + 'static) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(work));
    }

    /// Does what is left.
    pub fn catch_up(&self) {
        self.0.catch_up();
    }
}

impl Left {
    fn catch_up(&self) {
        let left = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        left.into_iter().for_each(|work| work());
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        self.catch_up();
    }
}

impl fmt::Debug for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Left")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_done_once_and_in_order_also_if_nobody_says_so() {
        let done = Arc::new(Mutex::new(Vec::new()));
        let afterwards = Afterwards::default();
        let add = |number: u32| {
            let done = Arc::clone(&done);
            afterwards.clone().add(move || done.lock().unwrap().push(number));
        };
        add(1);
        add(2);
        assert!(done.lock().unwrap().is_empty());
        afterwards.catch_up();
        assert_eq!(*done.lock().unwrap(), [1, 2]);
        add(3);
        drop(afterwards);
        assert_eq!(*done.lock().unwrap(), [1, 2, 3]);
    }
}
