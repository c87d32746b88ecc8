//! Where traces are written: by the thread, or by who waits for a commit if nobody else is writing.
//!
//! Waking the thread and being woken by it takes several times as long as a commit. So who waits for a trace writes what is
//! in the queue, if that is little and is expected to be quick; the thread is for everything else.
//!
//! **Invariant:** [`SharedWriter::write_at_once`] never waits for a lock, of this process or of another.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
    thread::JoinHandle,
};

use super::{queue::Queue, writer::Writer};

/// What the thread, the store and its receipts share.
#[derive(Debug)]
pub(super) struct SharedWriter {
    pub(super) queue: Queue,
    /// Absent when the thread has ended, which drops it: an engine may have a runtime of its own, which must not be dropped by
    /// whoever has the last receipt.
    writer: Mutex<Option<Writer>>,
}

impl SharedWriter {
    /// Starts the thread, which opens the database first.
    pub(super) fn start(queue: Queue, writer: Writer) -> std::io::Result<(Arc<SharedWriter>, JoinHandle<()>)> {
        let writer = Arc::new(SharedWriter { queue, writer: Mutex::new(Some(writer)) });
        let working = Arc::clone(&writer);
        let thread = std::thread::Builder::new().name("traces".to_owned()).spawn(move || working.run())?;
        Ok((writer, thread))
    }

    /// Works until nobody can ask for anything any more and everything is written.
    fn run(&self) {
        self.with(Writer::open_first);
        while let Some(time) = self.with(Writer::idle_for) {
            if !time.is_zero() && !self.queue.wait(time) {
                break;
            }
            self.with(|writer| writer.work(&self.queue));
        }
        self.with(Writer::close);
        drop(self.lock().take());
    }

    /// Writes what is in the queue, unless that may take long or somebody else writes; then the thread is woken.
    pub(super) fn write_at_once(&self) {
        let writer = match self.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        let is_done =
            writer.is_some_and(|mut writer| writer.as_mut().is_some_and(|writer| writer.write_at_once(&self.queue)));
        if !is_done {
            self.queue.ring();
        }
    }

    /// Has the writer do something, if it is still there.
    fn with<T>(&self, work: impl FnOnce(&mut Writer) -> T) -> Option<T> {
        self.lock().as_mut().map(work)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
