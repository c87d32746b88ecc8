//! Work that is left over from calls that a program already has its answers to.
//!
//! The end line of a call in the audit log and the event about the call are of no use to the program that waits for the
//! answer. They are written when the answer is on its way, while the program goes on: together with the start line of the next
//! call if the program makes it right away, which halves the appends of a program that makes one call after the other.
//!
//! **Invariant:** all left-over work is done: when the run asks for it, with the next call, while that call waits for anything, or
//! when the last clone is dropped. It is done before any later line of the run is written, so that the log has the lines of calls
//! that were made one after the other in their order.

use std::{
    fmt,
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
};

/// Does what is left about one call. Its audit lines go to the buffer, or, without one, to the log at once.
type Work = Box<dyn FnOnce(Option<&mut Vec<String>>) + Send>;

/// The left-over work of one run, in order. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Afterwards(Arc<Left>);

#[derive(Default)]
struct Left(Mutex<Vec<Work>>);

impl Afterwards {
    pub(super) fn add(&self, work: impl FnOnce(Option<&mut Vec<String>>) + Send + 'static) {
        self.0.lock().push(Box::new(work));
    }

    /// Does what is left.
    pub fn catch_up(&self) {
        self.0.catch_up();
    }

    /// Waits for a call. What is left is done as soon as the call has to wait, such as for a server that starts: the lines of
    /// earlier calls do not wait with it.
    pub(super) async fn beside<T>(&self, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        poll_fn(|context| {
            let answer = call.as_mut().poll(context);
            if answer.is_pending() {
                self.catch_up();
            }
            answer
        })
        .await
    }

    /// Does what is left, except for writing the audit lines: the caller writes them, before any other line of the run.
    pub(super) fn lines(&self) -> Vec<String> {
        let left = std::mem::take(&mut *self.0.lock());
        let mut lines = Vec::new();
        left.into_iter().for_each(|work| work(Some(&mut lines)));
        lines
    }
}

impl Left {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Work>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn catch_up(&self) {
        let left = std::mem::take(&mut *self.lock());
        left.into_iter().for_each(|work| work(None));
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
    fn everything_is_done_once_and_in_order_also_if_nobody_asks_for_it() {
        let done = Arc::new(Mutex::new(Vec::new()));
        let afterwards = Afterwards::default();
        let add = |number: u32| {
            let done = Arc::clone(&done);
            afterwards.clone().add(move |lines| match lines {
                Some(lines) => lines.push(number.to_string()),
                None => done.lock().unwrap().push(number),
            });
        };
        add(1);
        add(2);
        assert!(done.lock().unwrap().is_empty());
        afterwards.catch_up();
        assert_eq!(*done.lock().unwrap(), [1, 2]);
        add(3);
        add(4);
        assert_eq!(afterwards.lines(), ["3", "4"]);
        add(5);
        drop(afterwards);
        assert_eq!(*done.lock().unwrap(), [1, 2, 5]);
    }

    #[tokio::test]
    async fn lines_of_earlier_calls_do_not_wait_for_what_a_call_waits_for() {
        let done = Arc::new(Mutex::new(false));
        let afterwards = Afterwards::default();
        let add = || {
            let done = Arc::clone(&done);
            afterwards.add(move |lines| match lines {
                Some(lines) => lines.push("end".to_owned()),
                None => *done.lock().unwrap() = true,
            });
        };
        add();
        assert_eq!(afterwards.beside(async { afterwards.lines() }).await, ["end"], "nothing was waited for");
        add();
        let waits = async {
            while !*done.lock().unwrap() {
                tokio::task::yield_now().await;
            }
        };
        afterwards.beside(waits).await;
    }
}
