//! The pool: workers started in advance.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use pml_wire::ErrorCode;
use tokio::{
    sync::{Notify, oneshot},
    time,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{Mode, Options, Worker, os::Spawner, worker::Reaper};
use crate::error::Error;

/// Pause after a worker could not be started, doubled each time.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LAST: Duration = Duration::from_secs(30);
/// Pause before a leased worker is replaced, while other workers are idle: a short program has ended by
/// then, and does not share the processor with the start of the replacement.
const REFILL_DELAY: Duration = Duration::from_millis(10);

/// Leases workers.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    spawner: Spawner,
    idle: Mutex<Vec<Worker>>,
    /// Notified when a worker is leased, and when the pool is full.
    taken: Notify,
    filled: Notify,
    reaper: Reaper,
}

impl Pool {
    /// Builds the pool and the future that keeps it filled, which ends, and leaves no process
    /// behind, some time after `shutdown`.
    pub fn start(options: Options, shutdown: CancellationToken) -> (Pool, impl Future<Output = ()> + Send) {
        let shared = Arc::new(Shared {
            spawner: Spawner::new(options.program.clone(), options.mode, options.time_zone.clone()),
            options,
            idle: Mutex::default(),
            taken: Notify::new(),
            filled: Notify::new(),
            reaper: Reaper { tasks: TaskTracker::new(), hurry: shutdown.clone() },
        });
        let pool = Pool { shared: Arc::clone(&shared) };
        (pool, shared.keep(shutdown))
    }

    /// Leases a worker. Starts one if none is idle.
    pub async fn lease(&self) -> Result<Worker, Error> {
        while let Some(worker) = self.shared.take_idle() {
            if worker.is_waiting() {
                return Ok(worker);
            }
            warn!(pid = worker.id(), "a waiting sandbox process has died");
        }
        self.shared.start_worker().await
    }

    /// The number of idle workers.
    pub fn idle(&self) -> usize {
        self.shared.idle().len()
    }

    /// Waits until the pool is full.
    pub async fn full(&self) {
        loop {
            let filled = self.shared.filled.notified();
            if self.idle() >= self.shared.target() {
                return;
            }
            filled.await;
        }
    }
}

impl Shared {
    /// The wanted number of idle workers.
    fn target(&self) -> usize {
        match self.options.mode {
            Mode::Worker => self.options.warm_workers.get(),
            Mode::Subprocess => 0,
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Worker>> {
        // The list of workers is valid even if a thread panicked while it held the lock.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_idle(&self) -> Option<Worker> {
        let worker = self.idle().pop();
        // Notified last: otherwise the keeper could look before the worker is removed.
        self.taken.notify_one();
        worker
    }

    /// Starts a worker in a task of its own: a half-started process has no owner yet, so the
    /// start continues to its end even if the caller is cancelled.
    async fn start_worker(self: &Arc<Shared>) -> Result<Worker, Error> {
        let unavailable = |message: &str| Error::new(ErrorCode::SandboxUnavailable, message);
        if self.reaper.hurry.is_cancelled() {
            return Err(unavailable("pml is shutting down"));
        }
        let shared = Arc::clone(self);
        let (sender, receiver) = oneshot::channel();
        self.reaper.tasks.spawn(async move {
            let started = Worker::start(&shared.spawner, &shared.options, &shared.reaper).await;
            // If the caller was cancelled, the worker is dropped here, and so killed and reaped.
            drop(sender.send(started));
        });
        receiver.await.unwrap_or_else(|_| Err(unavailable("the start of a sandbox process was given up")))
    }

    async fn keep(self: Arc<Shared>, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.refill() => {}
        }
        debug!("draining the sandbox pool");
        self.idle().clear();
        self.reaper.tasks.close();
        self.reaper.tasks.wait().await;
        self.spawner.close().await;
    }

    /// Starts workers whenever some are missing. Never returns.
    async fn refill(self: &Arc<Shared>) {
        let mut pause = RETRY_FIRST;
        loop {
            if self.idle().len() >= self.target() {
                self.filled.notify_waiters();
                self.taken.notified().await;
                if self.idle().len() > self.target() / 2 {
                    time::sleep(REFILL_DELAY).await;
                }
                continue;
            }
            match self.start_worker().await {
                Ok(worker) => {
                    self.idle().push(worker);
                    pause = RETRY_FIRST;
                }
                Err(err) => {
                    warn!(error = %err, "a sandbox process could not be started in advance");
                    time::sleep(pause).await;
                    pause = (pause * 2).min(RETRY_LAST);
                }
            }
        }
    }
}
