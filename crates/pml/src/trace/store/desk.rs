//! Where traces are written: by the thread, or by who waits for a commit if nobody else is writing.
//!
//! Waking the thread and being woken by it takes several times as long as a commit. So who waits for a trace writes what is
//! in the queue, if that is little and is expected to be quick; the thread is for everything else.
//!
//! **Invariant:** [`Desk::write_at_once`] never waits for a lock, of this process or of another.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
    thread::JoinHandle,
};

use super::{queue::Queue, writer::Writer};

/// What the thread, the store and its receipts share.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) queue: Queue,
    writer: Mutex<Writer>,
}

impl Desk {
    /// Starts the thread, which opens the database first.
    pub(super) fn start(queue: Queue, writer: Writer) -> std::io::Result<(Arc<Desk>, JoinHandle<()>)> {
        let desk = Arc::new(Desk { queue, writer: Mutex::new(writer) });
        let working = Arc::clone(&desk);
        let thread = std::thread::Builder::new().name("traces".to_owned()).spawn(move || working.run())?;
        Ok((desk, thread))
    }

    /// Works until nobody can ask for anything any more and everything is written.
    fn run(&self) {
        self.lock().open_first();
        loop {
            let time = self.lock().idle_for();
            if !time.is_zero() && !self.queue.wait(time) {
                break;
            }
            self.lock().work(&self.queue);
        }
        self.lock().close();
    }

    /// Writes what is in the queue, unless that may take long or somebody else writes; then the thread is woken.
    pub(super) fn write_at_once(&self) {
        let is_done = match self.writer.try_lock() {
            Ok(mut writer) => writer.write_at_once(&self.queue),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().write_at_once(&self.queue),
            Err(TryLockError::WouldBlock) => false,
        };
        if !is_done {
            self.queue.ring();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
