//! The files of the log: their names, their order, and which of them go.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::chain::Head;
use crate::files::{self, Kind, Problem};

/// The file that is written to. A full one is put aside as `audit-NUMBER.jsonl`, by the number of its last line.
pub const FILE: &str = "audit.jsonl";
/// The lock that whoever appends holds, and the end of the chain.
pub(super) const HEAD: &str = "audit.head";
const MIB: u64 = 1024 * 1024;
/// A file that has grown to this size is put aside.
const MAX_FILE_BYTES: u64 = 16 * MIB;
/// Files that a log is at least divided into, so that one of them can go.
const MIN_FILES: u64 = 8;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest line that is read. What is longer was not written by pml.
const MAX_LINE_BYTES: u64 = 1024 * 1024;

/// How long lines are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Most bytes of all files together. The oldest file goes first.
    pub max_bytes: u64,
    /// A file whose newest line is older goes.
    pub keep: Duration,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { max_bytes: 512 * MIB, keep: 90 * DAY }
    }
}

impl Retention {
    /// The size at which a file is put aside.
    pub(super) fn file_bytes(&self) -> u64 {
        MAX_FILE_BYTES.min(self.max_bytes / MIN_FILES)
    }

    /// The age at which a file is put aside, so that a log that hardly grows loses its old lines too.
    pub(super) fn file_age(&self) -> Duration {
        (self.keep / 10).max(DAY)
    }
}

/// A file that was put aside.
#[derive(Debug)]
pub(super) struct Aside {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    modified: SystemTime,
}

/// Where a file whose last line has this number is put aside.
pub(super) fn aside(folder: &Path, last_seq: u64) -> PathBuf {
    folder.join(format!("audit-{last_seq:012}.jsonl"))
}

/// The files that were put aside, oldest first.
pub(super) fn all_aside(folder: &Path) -> io::Result<Vec<Aside>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(age) = name.to_str().and_then(age) else { continue };
        // It may have gone meanwhile.
        let Ok(data) = entry.metadata() else { continue };
        if data.is_file() {
            let modified = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.push((age, Aside { path: entry.path(), bytes: data.len(), modified }));
        }
    }
    found.sort_by_key(|(age, _)| *age);
    Ok(found.into_iter().map(|(_, aside)| aside).collect())
}

/// What files are ordered by, oldest first. `audit.jsonl.4` to `.1` are of pml 0.1, before there was a chain.
fn age(name: &str) -> Option<(bool, u64)> {
    let number = |text: &str| text.parse::<u64>().ok();
    match name.strip_prefix("audit-").and_then(|rest| rest.strip_suffix(".jsonl")) {
        Some(seq) => number(seq).map(|seq| (true, seq)),
        None => name.strip_prefix("audit.jsonl.").and_then(number).map(|number| (false, u64::MAX - number)),
    }
}

/// Of files that were put aside, oldest first, how many must go.
pub(super) fn superfluous(aside: &[Aside], current_bytes: u64, retention: &Retention, now: SystemTime) -> usize {
    let mut total = current_bytes + aside.iter().map(|file| file.bytes).sum::<u64>();
    let goes = |file: &&Aside| {
        let is_old = now.duration_since(file.modified).is_ok_and(|age| age > retention.keep);
        let goes = is_old || total > retention.max_bytes;
        total -= file.bytes;
        goes
    };
    aside.iter().take_while(goes).count()
}

/// Reads a log while others may write to it: all files as they were at one moment.
#[derive(Debug)]
pub struct Reader {
    files: Vec<(PathBuf, File, u64)>,
    /// Where the chain ends, according to `audit.head`.
    pub(super) head: Option<Head>,
}

impl Reader {
    /// Opens the log of a folder. Without one there is nothing to read.
    pub fn open(folder: &Path) -> Result<Reader, Problem> {
        // The lock keeps others from putting files aside meanwhile. A reader must not wait for ever for one that has stopped.
        let mut lock = None;
        if folder.join(HEAD).exists() {
            let file = files::update(&folder.join(HEAD))?;
            for _ in 0..2000 {
                match file.try_lock_shared() {
                    Ok(()) => break,
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
            lock = Some(file);
        }
        let aside = match all_aside(folder) {
            Ok(aside) => aside,
            Err(err) if err.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(err) => return Err(err.into()),
        };
        let paths = aside.into_iter().map(|aside| aside.path).chain([folder.join(FILE)]);
        let mut found = Vec::new();
        for path in paths {
            if let Some(file) = files::open(&path, Kind::Private)? {
                let bytes = file.metadata()?.len();
                found.push((path, file, bytes));
            }
        }
        let head = match &mut lock {
            Some(file) => {
                let mut text = String::new();
                file.take(1024).read_to_string(&mut text)?;
                text.parse().ok()
            }
            None => None,
        };
        Ok(Reader { files: found, head })
    }

    pub(super) fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Gives every line, oldest first, with its line break: the file, the number of the line in it, from 1, and the bytes.
    pub fn lines(self, mut each: impl FnMut(&Path, usize, &[u8])) -> io::Result<()> {
        for (path, file, bytes) in self.files {
            let mut rest = BufReader::with_capacity(256 * 1024, file.take(bytes));
            let mut line = Vec::new();
            for number in 1.. {
                line.clear();
                if (&mut rest).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
                    break;
                }
                each(&path, number, &line);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_by_age_and_by_size_and_the_oldest_first() {
        let now = SystemTime::UNIX_EPOCH + 1000 * DAY;
        let file = |bytes, days| Aside { path: PathBuf::new(), bytes, modified: now - days * DAY };
        let retention = Retention { max_bytes: 100, keep: 30 * DAY };
        #[rustfmt::skip]
        let table = [
            (vec![],                                         0, 0),
            (vec![file(10, 1)],                              0, 0),
            (vec![file(10, 31), file(10, 29)],               0, 1),
            (vec![file(60, 3), file(30, 2), file(10, 1)],    0, 0),
            (vec![file(60, 3), file(30, 2), file(10, 1)],    1, 1),
            (vec![file(60, 3), file(30, 2), file(10, 1)],   95, 3),
        ];
        for (aside, current, expected) in table {
            assert_eq!(superfluous(&aside, current, &retention, now), expected, "{aside:?} {current}");
        }
    }

    #[test]
    fn files_are_in_the_order_in_which_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let names =
            ["audit-000000000007.jsonl", "audit.jsonl.1", "audit-1000000000000.jsonl", "audit.jsonl.3", "audit.head"];
        for name in names.iter().chain(&["audit-x.jsonl", "audit.jsonl"]) {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = all_aside(folder.path()).unwrap();
        let found: Vec<_> = found.iter().map(|aside| aside.path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(found, ["audit.jsonl.3", "audit.jsonl.1", "audit-000000000007.jsonl", "audit-1000000000000.jsonl"]);
    }
}
