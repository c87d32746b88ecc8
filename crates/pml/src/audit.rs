//! The audit log: one line for every call that a program or a client made or tried to make, and one for every tool that
//! changed.
//!
//! JSON lines, appended, rotated by size, readable by their owner only. A thread of its own writes
//! them, so that a slow disk delays no call; what cannot be written is counted, and the count is
//! in the next line that can.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use pml_wire::Line;
use serde::Serialize;

use crate::{files, shown::visible_json};

/// The file that is written to; older ones end in `.1`, `.2`, …
pub const FILE: &str = "audit.jsonl";
/// Lines that may wait to be written.
const QUEUE: usize = 4096;
/// How long lines are gathered before they are written.
const GATHER: Duration = Duration::from_millis(10);
/// A file that has grown to this size is put aside.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Files that are kept besides the current one.
const KEPT: u32 = 4;

/// One call, as it went.
#[derive(Clone, Debug, Serialize)]
pub struct Entry<'a> {
    /// Milliseconds since 1970, when the call was made.
    pub ts: u64,
    /// On whose behalf.
    pub who: &'a str,
    pub execution_id: String,
    /// The trace that the call belongs to, as servers see it in `traceparent`.
    pub trace_id: String,
    pub call: u32,
    /// The method, of a request that is not the call of a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<&'a str>,
    /// `server:tool`, `server:resource:ADDRESS` or `server:prompt:NAME`.
    pub tool: &'a str,
    /// SHA-256 of the arguments. The arguments themselves may hold secrets.
    pub args_sha256: String,
    pub decision: Decision,
    /// What decided.
    pub rule: &'a str,
    pub success: bool,
    pub code: Option<&'a str>,
    pub duration_ms: f64,
}

/// A tool that is not what it was when it was first seen, or that somebody has accepted as it is now.
#[derive(Clone, Debug, Serialize)]
pub struct ToolLine<'a> {
    /// Milliseconds since 1970.
    pub ts: u64,
    /// `tool.changed` or `tool.accepted`. Lines about calls have none.
    pub event: &'static str,
    pub tool: &'a str,
    /// What differs, such as `description`.
    pub parts: &'a [String],
    /// SHA-256 of what the server said about it, and of what it says now.
    pub before_sha256: &'a str,
    pub after_sha256: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    Allow,
    Deny,
}

/// The writing end. Without a folder nothing is written. Dropping it writes what is waiting and closes the file.
#[derive(Debug, Default)]
pub struct Audit {
    queue: Option<SyncSender<Vec<u8>>>,
    lost: Arc<AtomicU64>,
    writer: Option<JoinHandle<()>>,
}

impl Audit {
    /// Opens the log in `folder`.
    pub fn open(folder: &Path) -> io::Result<Audit> {
        Audit::with_limit(folder, MAX_BYTES)
    }

    fn with_limit(folder: &Path, max_bytes: u64) -> io::Result<Audit> {
        files::make_folder(folder)?;
        let mut log = Log::open(folder.join(FILE), max_bytes)?;
        let (queue, lines) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        let writer = std::thread::Builder::new().name("audit".to_owned()).spawn(move || log.run(&lines, &counted))?;
        Ok(Audit { queue: Some(queue), lost, writer: Some(writer) })
    }

    /// Writes an [`Entry`] or a [`ToolLine`].
    pub fn record(&self, entry: &impl Serialize) {
        let Some(queue) = &self.queue else { return };
        // The name of a tool that was never there is a program's own text.
        let line = Line::of(entry).into_string();
        let mut line = visible_json(&line).into_owned().into_bytes();
        line.push(b'\n');
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = queue.try_send(line) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lines that could not be written until now.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn finish(&mut self) {
        self.queue = None;
        let Some(writer) = self.writer.take() else { return };
        writer.thread().unpark();
        if writer.join().is_err() {
            tracing::error!("the audit log did not end as it should");
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The file, on the writing thread.
struct Log {
    path: PathBuf,
    file: File,
    max_bytes: u64,
    has_warned: bool,
}

impl Log {
    fn open(path: PathBuf, max_bytes: u64) -> io::Result<Log> {
        let file = files::append(&path)?;
        Ok(Log { path, file, max_bytes, has_warned: false })
    }

    fn run(&mut self, lines: &Receiver<Vec<u8>>, lost: &AtomicU64) {
        while let Ok(first) = lines.recv() {
            // Not at once: waking this thread for each line would take a processor from the calls.
            std::thread::park_timeout(GATHER);
            for line in [first].into_iter().chain(lines.try_iter()) {
                self.write_counted(&line, lost);
            }
        }
    }

    /// Writes a line, and before it how many were lost.
    fn write_counted(&mut self, line: &[u8], lost: &AtomicU64) {
        let missing = lost.load(Ordering::Relaxed);
        if missing > 0 && self.write(format!("{{\"lost\":{missing}}}\n").as_bytes()).is_ok() {
            lost.fetch_sub(missing, Ordering::Relaxed);
        }
        if let Err(err) = self.write(line) {
            lost.fetch_add(1, Ordering::Relaxed);
            if !std::mem::replace(&mut self.has_warned, true) {
                tracing::warn!(error = %err, "the audit log cannot be written");
            }
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.file.metadata()?.len() + line.len() as u64 > self.max_bytes {
            self.rotate()?;
        }
        self.file.write_all(line)
    }

    /// Puts the full file aside. Others may write to the same log, so one at a time does this, and
    /// only if it still is the full one.
    fn rotate(&mut self) -> io::Result<()> {
        let lock = files::append(&self.path.with_extension("lock"))?;
        lock.lock()?;
        let is_ours =
            fs::metadata(&self.path).is_ok_and(|now| self.file.metadata().is_ok_and(|own| own.ino() == now.ino()));
        if is_ours {
            let aside = |number: u32| self.path.with_extension(format!("jsonl.{number}"));
            for number in (1..KEPT).rev() {
                let _ = fs::rename(aside(number), aside(number + 1));
            }
            fs::rename(&self.path, aside(1))?;
        }
        self.file = files::append(&self.path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(call: u32) -> Entry<'static> {
        Entry {
            ts: 1,
            who: "cli",
            execution_id: "e".to_owned(),
            trace_id: "t".to_owned(),
            call,
            method: None,
            tool: "a:b",
            args_sha256: String::new(),
            decision: Decision::Allow,
            rule: "default",
            success: true,
            code: None,
            duration_ms: 1.0,
        }
    }

    #[test]
    fn lines_are_appended_rotated_and_none_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..2 {
            let audit = Audit::with_limit(folder.path(), 2000).unwrap();
            for call in 0..10 {
                audit.record(&entry(round * 10 + call));
            }
            assert_eq!(audit.lost(), 0);
            drop(audit);
        }
        let mut calls = Vec::new();
        for name in ["audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"] {
            let path = folder.path().join(name);
            let text = fs::read_to_string(&path).unwrap_or_default();
            assert!(text.len() <= 2000, "{name}");
            calls.extend(
                text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["call"].clone()),
            );
        }
        assert_eq!(calls, (0..20).map(serde_json::Value::from).collect::<Vec<_>>());
        assert_eq!(fs::metadata(folder.path().join(FILE)).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_full_disk_is_counted_and_told_later() {
        let folder = tempfile::tempdir().unwrap();
        let lost = AtomicU64::new(0);
        let mut log = Log::open(folder.path().join(FILE), 1 << 20).unwrap();
        log.file = File::options().write(true).open("/dev/full").unwrap();
        let (queue, lines) = sync_channel(4);
        queue.send(b"one\n".to_vec()).unwrap();
        drop(queue);
        log.run(&lines, &lost);
        assert_eq!(lost.load(Ordering::Relaxed), 1);
        log.file = files::append(&log.path).unwrap();
        let (queue, lines) = sync_channel(4);
        queue.send(b"two\n".to_vec()).unwrap();
        drop(queue);
        log.run(&lines, &lost);
        assert_eq!(fs::read_to_string(&log.path).unwrap(), "{\"lost\":1}\ntwo\n");
        assert_eq!(lost.load(Ordering::Relaxed), 0);
    }
}
