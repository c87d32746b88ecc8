//! The handle that lines are written through.
//!
//! A line is written at once by whoever has it: that takes a few microseconds, where waking a thread would take tens. If the
//! lock is taken or the disk is slow, lines go through a bounded queue to a thread, and the start of a call waits for its line,
//! but not for long. What cannot be written is counted, and the count is in the next line that can.

use std::{
    io,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use serde::Serialize;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

use super::{
    files::Retention,
    flood::{Fate, Floods},
    line::{CallLine, LogLine, ToolLine},
    log::{Log, text_of},
};
use crate::clock::now_millis;

/// Lines that may wait to be written.
const QUEUE: usize = 4096;
/// Lines that the thread writes at once.
const BATCH: usize = 256;
/// How often the lock is tried before a line goes to the thread.
const TRIES: usize = 50;
/// How long the start of a call waits for its line.
const WAIT: Duration = Duration::from_millis(250);
/// A write that takes longer is slow, and the lines of a while after it go to the thread.
const SLOW: Duration = Duration::from_millis(50);
const SLOW_FOR: Duration = Duration::from_secs(5);
/// How often the thread tries the lock.
const RETRY: Duration = Duration::from_millis(1);
/// How long closing the log waits for the lock.
const CLOSE: Duration = Duration::from_secs(2);

/// The writing end. Without a folder nothing is written. Dropping it writes what is waiting and closes the file.
#[derive(Debug, Default)]
pub struct Audit {
    shared: Option<Arc<Shared>>,
    queue: Option<SyncSender<Job>>,
    writer: Option<JoinHandle<()>>,
}

/// What could not be done in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines that were not written.
    pub lost: u64,
    /// Calls that went on before their line was written.
    pub late: u64,
}

#[derive(Debug)]
struct Shared {
    log: Mutex<Log>,
    floods: Mutex<Floods>,
    /// Lines that the thread has not written yet.
    queued: AtomicUsize,
    /// Lost lines that no line tells of yet, and all of them.
    untold: AtomicU64,
    lost: AtomicU64,
    late: AtomicU64,
    slow_until: Mutex<Option<Instant>>,
    has_warned: AtomicBool,
    is_closing: AtomicBool,
}

#[derive(Debug)]
struct Job {
    object: String,
    written: Option<oneshot::Sender<()>>,
}

impl Audit {
    /// Opens the log in `folder`.
    pub fn open(folder: &Path, retention: Retention) -> io::Result<Audit> {
        let shared = Arc::new(Shared {
            log: Mutex::new(Log::open(folder, retention)?),
            floods: Mutex::default(),
            queued: AtomicUsize::new(0),
            untold: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            late: AtomicU64::new(0),
            slow_until: Mutex::default(),
            has_warned: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
        });
        let (queue, jobs) = sync_channel(QUEUE);
        let writing = Arc::clone(&shared);
        let writer = std::thread::Builder::new().name("audit".to_owned()).spawn(move || writing.run(&jobs))?;
        Ok(Audit { shared: Some(shared), queue: Some(queue), writer: Some(writer) })
    }

    /// From now on, lines are kept for so long.
    pub fn set_retention(&self, retention: Retention) {
        if let Some(shared) = &self.shared {
            lock(&shared.log).retention = retention;
        }
    }

    /// Writes the line of a call that is about to start, behind lines that were [admitted](Audit::admit) before, and waits
    /// until it is written, for a moment.
    pub async fn record_start(&self, mut lines: Vec<String>, line: &CallLine<'_>) {
        let Some(shared) = &self.shared else { return };
        lines.push(text_of(line));
        let mut unwritten = shared.write_now(lines);
        let Some(start) = unwritten.pop() else { return };
        self.queue_all(unwritten);
        let (written, is_written) = oneshot::channel();
        self.queue(Job { object: start, written: Some(written) });
        // An error says that it was counted as lost.
        if timeout(WAIT, is_written).await.is_err() {
            shared.late.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the line of a call that is over, or counts it if there are too many like it.
    pub fn record(&self, line: &CallLine<'_>) {
        let Some(shared) = &self.shared else { return };
        self.queue_all(shared.write_now(self.admit(line)));
    }

    /// What is to be written for the line of a call that is over: the line, or none if there are too many like it, and what is
    /// due about earlier floods.
    pub fn admit(&self, line: &CallLine<'_>) -> Vec<String> {
        let Some(shared) = &self.shared else { return Vec::new() };
        let (fate, before) = lock(&shared.floods).admit(line);
        let mut lines: Vec<_> = before.iter().map(text_of).collect();
        match fate {
            Fate::Written => lines.push(text_of(line)),
            Fate::Counted(told) => lines.extend(told.iter().map(text_of)),
        }
        lines
    }

    pub fn record_tool(&self, line: &ToolLine<'_>) {
        self.write(line);
    }

    /// Writes what is still to be told about a run that is over.
    pub fn end_run(&self, execution_id: &str) {
        let Some(shared) = &self.shared else { return };
        let mut floods = lock(&shared.floods);
        if floods.is_empty() {
            return;
        }
        let told = floods.end_run(execution_id, now_millis());
        drop(floods);
        told.iter().for_each(|line| self.write(line));
    }

    /// What could not be done until now.
    pub fn counts(&self) -> Counts {
        let count = |number: fn(&Shared) -> &AtomicU64| {
            self.shared.as_deref().map_or(0, |shared| number(shared).load(Ordering::Relaxed))
        };
        Counts { lost: count(|shared| &shared.lost), late: count(|shared| &shared.late) }
    }

    fn write(&self, line: &impl Serialize) {
        let Some(shared) = &self.shared else { return };
        self.queue_all(shared.write_now(vec![text_of(line)]));
    }

    fn queue_all(&self, lines: Vec<String>) {
        lines.into_iter().for_each(|object| self.queue(Job { object, written: None }));
    }

    fn queue(&self, job: Job) {
        let (Some(shared), Some(queue)) = (&self.shared, &self.queue) else { return };
        shared.queued.fetch_add(1, Ordering::SeqCst);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = queue.try_send(job) {
            shared.queued.fetch_sub(1, Ordering::SeqCst);
            shared.lose(1, "too many lines wait to be written");
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else { return };
        let told = lock(&shared.floods).take_all(now_millis());
        for line in &told {
            for object in shared.write_now(vec![text_of(line)]) {
                let _ = self.queue.as_ref().map(|queue| queue.try_send(Job { object, written: None }));
            }
        }
        shared.is_closing.store(true, Ordering::SeqCst);
        self.queue = None;
        if self.writer.take().is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the audit log did not end as it should");
        }
        let lost = shared.lost.load(Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(lost, "lines of the audit log were lost");
        }
    }
}

impl Shared {
    /// Writes lines at once, in one append. Gives them back if that would mean waiting for others.
    fn write_now(&self, mut objects: Vec<String>) -> Vec<String> {
        if objects.is_empty() {
            return objects;
        }
        let must_wait = self.queued.load(Ordering::SeqCst) > 0
            || lock(&self.slow_until).is_some_and(|until| Instant::now() < until);
        for _ in 0..if must_wait { 0 } else { TRIES } {
            match self.try_write(&mut objects) {
                true => return Vec::new(),
                false => std::thread::yield_now(),
            }
        }
        objects
    }

    /// Writes lines, and before them how many were lost. False if somebody else has the lock.
    fn try_write(&self, objects: &mut Vec<String>) -> bool {
        let mut log = match self.log.try_lock() {
            Ok(log) => log,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let untold = self.untold.load(Ordering::Relaxed);
        if untold > 0 {
            objects.insert(0, text_of(&LogLine::Lost { ts: now_millis(), lost: untold }));
        }
        let started = Instant::now();
        let written = log.try_append(objects);
        if untold > 0 {
            objects.remove(0);
        }
        match written {
            None => return false,
            Some(Ok(())) => {
                self.untold.fetch_sub(untold, Ordering::Relaxed);
                self.has_warned.store(false, Ordering::Relaxed);
            }
            Some(Err(err)) => self.lose(objects.len() as u64, &err),
        }
        if started.elapsed() > SLOW {
            *lock(&self.slow_until) = Some(Instant::now() + SLOW_FOR);
        }
        true
    }

    fn lose(&self, count: u64, why: impl std::fmt::Display) {
        self.untold.fetch_add(count, Ordering::Relaxed);
        self.lost.fetch_add(count, Ordering::Relaxed);
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(error = %why, "the audit log cannot be written");
        }
    }

    /// The thread's work.
    fn run(&self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let (mut objects, written): (Vec<_>, Vec<_>) =
                [first].into_iter().chain(jobs.try_iter().take(BATCH)).map(|job| (job.object, job.written)).unzip();
            let mut closing_since = None;
            while !self.try_write(&mut objects) {
                std::thread::sleep(RETRY);
                let is_closing = self.is_closing.load(Ordering::SeqCst);
                if is_closing && closing_since.get_or_insert_with(Instant::now).elapsed() > CLOSE {
                    self.lose(objects.len() as u64, "another process holds its lock");
                    break;
                }
            }
            self.queued.fetch_sub(written.len(), Ordering::SeqCst);
            // Whoever waits for one may have given up.
            for written in written.into_iter().flatten() {
                let _ = written.send(());
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt as _};

    use super::*;
    use crate::{
        audit::{CallEvent, Decision, FILE, verify},
        files,
    };

    fn line(event: CallEvent, call: u32) -> CallLine<'static> {
        CallLine {
            ts: now_millis(),
            event,
            who: "cli",
            execution_id: "e",
            trace_id: "t",
            call,
            method: None,
            tool: "a:b",
            args_sha256: "",
            decision: Decision::Allow,
            rule: "default",
            success: None,
            code: None,
            duration_ms: None,
            speculation: None,
        }
    }

    fn lines(folder: &Path) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(folder.join(FILE)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[tokio::test]
    async fn a_line_is_in_the_file_when_the_call_may_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(folder.path(), Retention::default()).unwrap();
        for call in 1..=10 {
            audit.record_start(Vec::new(), &line(CallEvent::Started, call)).await;
            // Nothing was closed or waited for.
            let is_there = |line: &serde_json::Value| line["event"] == "call.started" && line["call"] == call;
            assert!(lines(folder.path()).iter().any(is_there), "{call}");
            audit.record(&line(CallEvent::Ended, call));
        }
        assert_eq!(audit.counts(), Counts::default());
        drop(audit);
        assert_eq!(lines(folder.path()).len(), 20);
        assert_eq!(fs::metadata(folder.path().join(FILE)).unwrap().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn threads_and_processes_make_one_chain() {
        let folder = tempfile::tempdir().unwrap();
        let retention = Retention { max_bytes: 1 << 20, ..Retention::default() };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                // Each with descriptors of its own, as another process has them.
                let audit = Arc::new(Audit::open(folder.path(), retention).unwrap());
                for _ in 0..2 {
                    let audit = Arc::clone(&audit);
                    scope.spawn(move || (0..200).for_each(|call| audit.record(&line(CallEvent::Ended, call))));
                }
            }
        });
        let report = verify(folder.path(), None).unwrap();
        assert_eq!((report.lines, &report.problems[..]), (1200, &[][..]));
        assert!(report.files > 1, "{report:?}");
    }

    #[tokio::test]
    async fn a_call_waits_for_a_taken_lock_but_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(folder.path(), Retention::default()).unwrap();
        // As a process that was stopped in the middle of a write.
        let stopped = files::update(&folder.path().join("audit.head")).unwrap();
        stopped.lock().unwrap();
        audit.record_start(Vec::new(), &line(CallEvent::Started, 1)).await;
        assert_eq!(audit.counts(), Counts { lost: 0, late: 1 });
        for call in 0..QUEUE as u32 * 2 {
            audit.record(&line(CallEvent::Ended, call));
        }
        let lost = audit.counts().lost;
        assert!(lost > 0);
        stopped.unlock().unwrap();
        while audit.shared.as_ref().unwrap().queued.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(RETRY).await;
        }
        audit.record_start(Vec::new(), &line(CallEvent::Started, 2)).await;
        drop(audit);
        let lines = lines(folder.path());
        let told: u64 = lines.iter().filter_map(|line| line["lost"].as_u64()).sum();
        assert_eq!(told, lost);
        let first = lines.iter().find(|line| line["lost"].is_null()).unwrap();
        assert_eq!(first["event"], "call.started", "the order is kept");
        assert_eq!(lines.iter().filter(|line| line["event"] == "call.ended").count() as u64 + lost, QUEUE as u64 * 2);
    }

    #[tokio::test]
    async fn lines_that_the_disk_has_no_room_for_are_counted_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(folder.path(), Retention::default()).unwrap();
        audit.record(&line(CallEvent::Ended, 1));
        {
            // Nothing can be opened in place of the file any more, nor written.
            let path = folder.path().join(FILE);
            fs::rename(&path, folder.path().join("away")).unwrap();
            fs::create_dir(&path).unwrap();
            audit.record(&line(CallEvent::Ended, 2));
            audit.record_start(Vec::new(), &line(CallEvent::Started, 3)).await;
            assert_eq!(audit.counts(), Counts { lost: 2, late: 0 });
            fs::remove_dir(&path).unwrap();
            fs::rename(folder.path().join("away"), &path).unwrap();
        }
        audit.record(&line(CallEvent::Ended, 4));
        drop(audit);
        let lines = lines(folder.path());
        assert_eq!((lines.len(), &lines[1]["lost"], &lines[2]["call"]), (3, &2.into(), &4.into()));
        assert_eq!(verify(folder.path(), None).unwrap().problems, []);
    }
}
