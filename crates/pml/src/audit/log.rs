//! The file that is written to, by several processes at once.
//!
//! Whoever appends holds the lock on `audit.head`. A line goes out with one `write(2)`; what a full disk cuts off is taken
//! back before the lock is released, and what a crash has cut off is ended and marked by whoever finds it next.
//!
//! **Invariant:** a line never shares its line of the file with another.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use pml_wire::Line;
use serde::Serialize;

use super::{
    chain::{Head, Link},
    files::{FILE, HEAD, Retention, all_aside, aside, superfluous},
    line::LogLine,
};
use crate::{clock::now_millis, digest::sha256, files, shown::visible_json};

/// How much of the end of a file is read to find its last line, at first.
const WINDOW: u64 = 64 * 1024;

/// One process's way to append.
#[derive(Debug)]
pub(super) struct Log {
    folder: PathBuf,
    path: PathBuf,
    lock: File,
    file: File,
    /// The file as it was after this process last wrote to it: device, inode, length.
    known: Option<(u64, u64, u64)>,
    /// Where the chain ends.
    head: Head,
    /// When the first line of the file was written, in milliseconds since 1970.
    begun: Option<u64>,
    /// Has this process looked for files that are too old?
    has_pruned: bool,
    pub(super) retention: Retention,
}

/// The end of a file.
#[derive(Debug, Default)]
struct Tail {
    head: Head,
    /// What stands behind the last line break.
    torn: Vec<u8>,
}

/// The text of a line without its place in the chain.
pub(super) fn text_of(entry: &impl Serialize) -> String {
    // The name of a tool that was never there is a program's own text.
    let line = Line::of(entry).into_string();
    visible_json(&line).into_owned()
}

impl Log {
    pub(super) fn open(folder: &Path, retention: Retention) -> io::Result<Log> {
        files::make_folder(folder)?;
        let path = folder.join(FILE);
        let file = files::append(&path)?;
        let lock = files::update(&folder.join(HEAD))?;
        let folder = folder.to_owned();
        Ok(Log {
            folder,
            path,
            lock,
            file,
            known: None,
            head: Head::default(),
            begun: None,
            has_pruned: false,
            retention,
        })
    }

    /// Appends lines, unless somebody else is appending now.
    pub(super) fn try_append(&mut self, objects: &[String]) -> Option<io::Result<()>> {
        match self.lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return None,
            Err(TryLockError::Error(err)) => return Some(Err(err)),
        }
        let appended = self.append(objects);
        // The lock is also released when the file is closed.
        let _ = self.lock.unlock();
        Some(appended)
    }

    fn append(&mut self, objects: &[String]) -> io::Result<()> {
        self.refresh()?;
        let bytes: u64 = objects.iter().map(|object| object.len() as u64 + 128).sum();
        if self.is_full(bytes) {
            // The file goes on growing if it cannot be put aside.
            if let Err(err) = self.rotate() {
                tracing::warn!(error = %err, "the audit log cannot be put aside");
            }
        }
        self.write(objects)
    }

    /// Finds out what others have done to the log since this process last wrote to it.
    fn refresh(&mut self) -> io::Result<()> {
        let now = fs::symlink_metadata(&self.path).ok().map(|data| (data.dev(), data.ino(), data.len()));
        if now.is_some() && now == self.known {
            return Ok(());
        }
        self.known = None;
        let own = self.file.metadata()?;
        if now.is_none_or(|(device, inode, _)| (device, inode) != (own.dev(), own.ino())) {
            self.file = files::append(&self.path)?;
        }
        let bytes = self.file.metadata()?.len();
        let mut tail = Tail::read(&self.file, bytes)?;
        if tail.head.seq == 0 {
            // An empty file continues the one that was put aside last.
            let newest = all_aside(&self.folder)?.pop().and_then(|aside| File::open(aside.path).ok());
            if let Some(file) = newest {
                tail.head = Tail::read(&file, file.metadata()?.len())?.head;
            }
        }
        // Lines that are missing at the end must not be replaced by others with their numbers.
        let told = self.told_head();
        let is_new = told.is_none() && tail.head.seq == 0 && self.head.seq == 0;
        for head in [std::mem::take(&mut self.head), told.unwrap_or_default(), tail.head] {
            if head.seq >= self.head.seq {
                self.head = head;
            }
        }
        if is_new {
            // A log whose first line is there has a head, also if the disk is full or pml is killed in between.
            self.tell_head(&Head::none());
        }
        self.begun = first_ts(&self.file);
        if !tail.torn.is_empty() {
            self.raw(b"\n")?;
            let (torn_bytes, digest) = (tail.torn.len() as u64, sha256(&tail.torn));
            let repaired = LogLine::Repaired { ts: now_millis(), torn_bytes, torn_sha256: &digest };
            self.write(&[text_of(&repaired)])?;
        } else {
            self.note();
        }
        if !std::mem::replace(&mut self.has_pruned, true) {
            self.prune();
        }
        Ok(())
    }

    /// Where the chain ended when somebody last wrote to the log.
    fn told_head(&self) -> Option<Head> {
        let mut text = [0; 128];
        let read = self.lock.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..read]).ok()?.parse().ok()
    }

    fn tell_head(&self, head: &Head) {
        let _ = self.lock.write_all_at(format!("{:<96}\n", head.to_string()).as_bytes(), 0);
    }

    fn note(&mut self) {
        self.known = self.file.metadata().ok().map(|data| (data.dev(), data.ino(), data.len()));
    }

    fn is_old(&self) -> bool {
        let age = self.begun.map_or(0, |begun| now_millis().saturating_sub(begun));
        Duration::from_millis(age) > self.retention.file_age()
    }

    fn is_full(&self, bytes: u64) -> bool {
        let length = self.known.map_or(0, |(_, _, length)| length);
        length > 0 && (length + bytes > self.retention.file_bytes() || self.is_old())
    }

    /// Writes lines at the end of the file, all or none.
    fn write(&mut self, objects: &[String]) -> io::Result<()> {
        let mut head = self.head.clone();
        let mut text = String::new();
        for object in objects {
            text.push_str(&head.extend(object));
            text.push('\n');
        }
        self.raw(text.as_bytes())?;
        self.begun.get_or_insert_with(now_millis);
        // For readers only: the file itself says the same.
        self.tell_head(&head);
        self.head = head;
        Ok(())
    }

    /// Writes bytes at the end of the file, all or none.
    fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        let before = match self.known {
            Some((_, _, length)) => length,
            None => self.file.metadata()?.len(),
        };
        let written = self.file.write_all(bytes);
        match written {
            Ok(()) => match &mut self.known {
                Some((_, _, length)) => *length += bytes.len() as u64,
                None => self.note(),
            },
            Err(_) => {
                // A part of the bytes may be there. If it cannot be taken back, the next one who appends finds it.
                self.known = None;
                let _ = self.file.set_len(before);
            }
        }
        written
    }

    /// Puts the file aside and begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        let aside = aside(&self.folder, self.head.seq);
        if aside.exists() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("`{}` exists", aside.display())));
        }
        fs::rename(&self.path, &aside)?;
        self.file = files::append(&self.path)?;
        self.begun = None;
        self.note();
        self.prune();
        Ok(())
    }

    /// Removes files that are too old or too many. What goes is told first.
    fn prune(&mut self) {
        let Ok(mut aside) = all_aside(&self.folder) else { return };
        let length = self.known.map_or(0, |(_, _, length)| length);
        aside.truncate(superfluous(&aside, length, &self.retention, SystemTime::now()));
        let Some(newest) = aside.last() else { return };
        let last = File::open(&newest.path).and_then(|file| Tail::read(&file, newest.bytes)).unwrap_or_default().head;
        let (files, bytes) = (aside.len(), aside.iter().map(|file| file.bytes).sum());
        let pruned = LogLine::Pruned { ts: now_millis(), files, bytes, last_seq: last.seq, last_hash: &last.hash };
        // On a full disk nothing can be told before something has gone.
        let told = self.write(&[text_of(&pruned)]);
        for file in &aside {
            if let Err(err) = fs::remove_file(&file.path) {
                tracing::warn!(error = %err, "an old file of the audit log cannot be removed");
            }
        }
        if told.is_err() {
            let _ = self.write(&[text_of(&pruned)]);
        }
    }
}

impl Tail {
    /// Reads the end of a file that has so many bytes.
    fn read(file: &File, bytes: u64) -> io::Result<Tail> {
        let mut window = WINDOW;
        loop {
            let from = bytes.saturating_sub(window);
            let mut text = vec![0; (bytes - from) as usize];
            file.read_exact_at(&mut text, from)?;
            let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let mut lines = text[..whole].split(|byte| *byte == b'\n');
            // The first may have begun before the window.
            if from > 0 {
                lines.next();
            }
            let head = lines.rev().find_map(Link::read).map(|link| link.head());
            if head.is_some() || from == 0 {
                return Ok(Tail { head: head.unwrap_or_default(), torn: text[whole..].to_owned() });
            }
            window *= 8;
        }
    }
}

/// When the first line of a file was written.
fn first_ts(file: &File) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Any {
        ts: u64,
    }
    let mut text = vec![0; WINDOW as usize];
    let read = file.read_at(&mut text, 0).ok().filter(|read| *read > 0)?;
    let line = text[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
    Some(serde_json::from_slice::<Any>(line).map_or_else(|_| now_millis(), |any| any.ts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(log: &mut Log, number: u32) -> io::Result<()> {
        log.try_append(&[format!("{{\"n\":{number}}}")]).expect("nobody else appends")
    }

    fn lines(folder: &Path) -> Vec<String> {
        fs::read_to_string(folder.join(FILE)).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_a_full_disk_cuts_off_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::open(folder.path(), Retention::default()).unwrap();
        append(&mut log, 1).unwrap();
        // The device takes nothing, and is not the file that is checked afterwards.
        let real = std::mem::replace(&mut log.file, File::options().write(true).open("/dev/full").unwrap());
        log.raw(b"{\"half").unwrap_err();
        log.file = real;
        // A part that could not be taken back.
        fs::OpenOptions::new().append(true).open(&log.path).unwrap().write_all(b"{\"half").unwrap();
        append(&mut log, 2).unwrap();
        let lines = lines(folder.path());
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!(lines[1], "{\"half");
        assert!(lines[2].contains(r#""event":"log.repaired""#) && lines[2].contains(r#""torn_bytes":6"#), "{lines:?}");
        assert!(lines[3].starts_with(r#"{"n":2,"seq":3,"#), "{lines:?}");
    }

    #[test]
    fn a_chain_goes_on_after_a_restart_a_removed_file_and_beside_another_process() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Log::open(folder.path(), Retention::default()).unwrap();
        let (mut one, mut two) = (open(), open());
        for number in 0..3 {
            append(&mut one, number).unwrap();
            append(&mut two, number).unwrap();
        }
        let seqs = |lines: &[String]| -> Vec<u64> {
            lines.iter().map(|line| Link::read(line.as_bytes()).unwrap().seq).collect()
        };
        assert_eq!(seqs(&lines(folder.path())), [1, 2, 3, 4, 5, 6]);
        fs::remove_file(folder.path().join(FILE)).unwrap();
        append(&mut one, 0).unwrap();
        drop((one, two));
        append(&mut open(), 0).unwrap();
        assert_eq!(seqs(&lines(folder.path())), [7, 8]);
        fs::remove_file(folder.path().join(FILE)).unwrap();
        append(&mut open(), 0).unwrap();
        assert_eq!(seqs(&lines(folder.path())), [9], "the head remembers");
    }

    #[test]
    fn nobody_appends_while_another_process_does() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::open(folder.path(), Retention::default()).unwrap();
        let other = files::update(&folder.path().join(HEAD)).unwrap();
        other.lock().unwrap();
        assert!(log.try_append(&["{\"n\":1}".to_owned()]).is_none());
        other.unlock().unwrap();
        append(&mut log, 1).unwrap();
    }

    #[test]
    fn a_full_file_is_put_aside_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let retention = Retention { max_bytes: 16 * 1024, ..Retention::default() };
        let mut log = Log::open(folder.path(), retention).unwrap();
        for number in 0..500 {
            append(&mut log, number).unwrap();
        }
        let aside = all_aside(folder.path()).unwrap();
        let total: u64 = aside.iter().map(|file| file.bytes).sum::<u64>() + log.known.unwrap().2;
        assert!((8 * 1024..=16 * 1024 + 512).contains(&total), "{total}");
        assert!(aside.iter().all(|file| file.bytes <= 2048), "{aside:?}");
        let all: String = lines(folder.path()).concat()
            + &aside.iter().map(|file| fs::read_to_string(&file.path).unwrap()).collect::<String>();
        assert!(all.contains("log.pruned"));
    }

    #[test]
    fn a_log_of_an_earlier_pml_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        fs::write(&path, "{\"ts\":1,\"call\":1}\n".repeat(10_000) + "{\"ts\":1,\"ca").unwrap();
        let mut log =
            Log::open(folder.path(), Retention { keep: Duration::from_secs(1 << 40), ..Retention::default() }).unwrap();
        append(&mut log, 1).unwrap();
        let lines = lines(folder.path());
        assert_eq!(lines.len(), 10_003);
        assert!(lines[10_001].ends_with("\"}") && lines[10_001].contains("\"seq\":1,"), "{}", lines[10_001]);
    }
}
