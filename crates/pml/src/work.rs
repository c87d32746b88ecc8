//! Work whose cost somebody else controls, done where it holds up nobody.
//!
//! A server chooses how large its results and schemas are, a program how much of a kept result it reads. The threads that
//! serve clients do such work themselves only if it is over at once; the rest is done by a few threads of lower
//! priority, in the order in which it was asked for.
//!
//! **Invariant:** work is bounded before it begins: by the size of its input, or by steps that it counts itself. Work that
//! nobody waits for any more is not begun, and long work ends early when it asks [`Waiter::is_gone`].

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use serde_json::Value;
use tokio::sync::oneshot;

/// Input of up to this size is worked on at once: reading so much JSON takes less than a millisecond.
pub const AT_ONCE_BYTES: usize = 128 * 1024;
/// Most threads.
const MAX_THREADS: usize = 4;
/// How much less than others these threads are served, from 0 to 19.
const NICENESS: i32 = 5;

/// Whoever waits for the result of a piece of work. The default never goes.
#[derive(Debug, Default)]
pub struct Waiter(Arc<AtomicBool>);

impl Waiter {
    /// Has whoever waited for the result gone?
    pub fn is_gone(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sets the flag when the future that waits is dropped.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Job = Box<dyn FnOnce() + Send>;

struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    arrived: Condvar,
}

/// Is this value so large that it must be worked on elsewhere? Looks at no more of it than is needed to know.
pub fn is_heavy(value: &Value) -> bool {
    fn weigh(value: &Value, left: usize) -> Option<usize> {
        let left = left.checked_sub(8)?;
        match value {
            Value::String(text) => left.checked_sub(text.len()),
            Value::Array(items) => items.iter().try_fold(left, |left, item| weigh(item, left)),
            Value::Object(entries) => {
                entries.iter().try_fold(left, |left, (key, item)| weigh(item, left.checked_sub(key.len())?))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Some(left),
        }
    }
    weigh(value, AT_ONCE_BYTES).is_none()
}

/// Does `work` at once if its input is small, else on another thread.
pub async fn sized<T: Send + 'static>(bytes: usize, work: impl FnOnce(&Waiter) -> T + Send + 'static) -> T {
    weighed(bytes > AT_ONCE_BYTES, work).await
}

/// Does `work` on another thread if it is heavy, else at once.
pub async fn weighed<T: Send + 'static>(is_heavy: bool, work: impl FnOnce(&Waiter) -> T + Send + 'static) -> T {
    match is_heavy {
        true => elsewhere(work).await,
        false => work(&Waiter::default()),
    }
}

/// Does `work` on another thread. A panic in it is the caller's.
pub async fn elsewhere<T: Send + 'static>(work: impl FnOnce(&Waiter) -> T + Send + 'static) -> T {
    let is_gone = Arc::new(AtomicBool::new(false));
    let _waiting = Waiting(Arc::clone(&is_gone));
    let Some(queue) = queue() else { return work(&Waiter(is_gone)) };
    let (sender, done) = oneshot::channel();
    queue.push(Box::new(move || {
        let waiter = Waiter(is_gone);
        if !waiter.is_gone() {
            // Whoever waited may have gone meanwhile.
            let _ = sender.send(catch_unwind(AssertUnwindSafe(|| work(&waiter))));
        }
    }));
    match done.await.expect("the job ends, and is wanted as long as this waits") {
        Ok(output) => output,
        Err(panic) => resume_unwind(panic),
    }
}

/// Lets other threads go before this one. Best effort: without it, it has its share like any other.
pub fn lower_priority() {
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
}

impl Queue {
    fn push(&self, job: Job) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
        self.arrived.notify_one();
    }

    fn serve(&self) -> ! {
        lower_priority();
        loop {
            let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let job = loop {
                match jobs.pop_front() {
                    Some(job) => break job,
                    None => jobs = self.arrived.wait(jobs).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(jobs);
            job();
        }
    }
}

/// The queue of this process, with its threads; `None` if this machine gives it none.
fn queue() -> Option<&'static Queue> {
    static QUEUE: Queue = Queue { jobs: Mutex::new(VecDeque::new()), arrived: Condvar::new() };
    static THREADS: OnceLock<usize> = OnceLock::new();
    let threads = THREADS.get_or_init(|| {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let start = |_: &usize| thread::Builder::new().name("work".to_owned()).spawn(|| QUEUE.serve()).is_ok();
        let started = (0..cores.clamp(2, MAX_THREADS)).filter(start).count();
        if started == 0 {
            tracing::warn!("no thread can be started: large results will hold up everything else");
        }
        started
    });
    (*threads > 0).then_some(&QUEUE)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn work_is_done_elsewhere_and_its_result_comes_back() {
        let here = thread::current().id();
        let small = sized(1, move |_| thread::current().id()).await;
        let large = sized(AT_ONCE_BYTES + 1, move |_| thread::current().id()).await;
        assert_eq!(small, here);
        assert_ne!(large, here);
        let numbers = futures_util::future::join_all((0..100).map(|number| elsewhere(move |_| number * 2))).await;
        assert_eq!(numbers, (0..100).map(|number| number * 2).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_heavy_is_known() {
        let (small, long) = (serde_json::json!({"a": [1, "x"]}), serde_json::json!(["x".repeat(AT_ONCE_BYTES)]));
        assert!(!is_heavy(&small) && is_heavy(&long));
        assert!(is_heavy(&vec![0; AT_ONCE_BYTES / 8].into()));
    }

    #[tokio::test]
    async fn a_panic_is_the_callers_and_the_threads_go_on() {
        for _ in 0..10 {
            let failed = tokio::spawn(elsewhere(|_| panic!("no"))).await;
            assert!(failed.is_err_and(|err| err.is_panic()));
        }
        assert_eq!(elsewhere(|_| 1).await, 1);
    }

    #[tokio::test]
    async fn what_nobody_waits_for_ends_or_is_never_begun() {
        let (ended, is_over) = std::sync::mpsc::channel();
        // As many as there are threads, and one more that waits behind them.
        for number in 0..=MAX_THREADS {
            let ended = ended.clone();
            let endless = elsewhere(move |wanted| {
                while !wanted.is_gone() {
                    thread::yield_now();
                }
                ended.send(number).unwrap();
            });
            assert!(tokio::time::timeout(Duration::from_millis(20), endless).await.is_err());
        }
        drop(ended);
        assert!(is_over.iter().count() <= MAX_THREADS + 1);
        assert_eq!(elsewhere(|_| 1).await, 1);
    }
}
