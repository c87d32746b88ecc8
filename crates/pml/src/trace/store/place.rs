//! Where the database is, and who may read it.
//!
//! `traces/` in the data folder, for its owner alone. Beside a database `NAME.db` lie SQLite's own `-wal` and `-shm`, the
//! lock `NAME.lock` that is held while a database is made or set aside, one `NAME.owner-ID` for each process that runs
//! executions, and one `NAME.journal-ID` for each, with what the database does not have yet (`journal.rs`). `NAME.had-keys` is
//! there if the database ever had keys of a hub.

use std::{
    fs::{self, File, Permissions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{
    clock::now_millis,
    files::{self, Kind, Problem},
};

/// The folder in the data folder.
pub const FOLDER: &str = "traces";
/// The databases in it: of sanitized traces, and of those as they were.
pub(super) const TRACES: &str = "traces";
pub(super) const RAW: &str = "raw";
/// How many damaged databases are kept.
const KEPT_ASIDE: usize = 3;
/// How long another process may take to make or set aside a database.
const LOCK_TRIES: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// Room for a trace or two.
const ROOM_BYTES: usize = 256 * 1024;

/// A database file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    folder: PathBuf,
    name: Arc<str>,
}

/// The file that a path led to when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Place {
    pub(super) fn new(data_dir: &Path, name: &str) -> Place {
        Place { folder: data_dir.join(FOLDER), name: name.into() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.db", self.name))
    }

    pub(super) fn owner_path(&self, id: i64) -> PathBuf {
        self.folder.join(format!("{}.owner-{id:016x}", self.name))
    }

    /// The owners that have a file here.
    pub(super) fn owners(&self) -> Vec<i64> {
        self.ids_of("owner")
    }

    pub(super) fn journal_path(&self, id: i64) -> PathBuf {
        self.folder.join(format!("{}.journal-{id:016x}", self.name))
    }

    /// The journals here, by the ids of their processes.
    pub(super) fn journals(&self) -> Vec<i64> {
        self.ids_of("journal")
    }

    /// The ids of the processes that have a file of this kind here.
    fn ids_of(&self, kind: &str) -> Vec<i64> {
        let start = format!("{}.{kind}-", self.name);
        let id = |name: &str| i64::from_str_radix(name.strip_prefix(&start)?, 16).ok();
        let entries = fs::read_dir(&self.folder).into_iter().flatten();
        entries.filter_map(|entry| id(entry.ok()?.file_name().to_str()?)).collect()
    }

    /// The path without links on the way, for SQLite, which refuses them all.
    pub(super) fn real_path(&self) -> io::Result<PathBuf> {
        Ok(fs::canonicalize(&self.folder)?.join(format!("{}.db", self.name)))
    }

    /// Makes the folder and the file if there are none; refuses a link and what belongs to somebody else. A file of the
    /// user's own that others can read is taken away from them.
    ///
    /// A file that is there is not opened: SQLite's locks belong to the process, and closing any descriptor of the file
    /// would give them all back. Another process would then take itself for the last one and remove the log.
    pub(super) fn prepare(&self) -> io::Result<()> {
        files::make_folder(&self.folder)?;
        files::secure_folder(&self.folder).map_err(|problem| problem.into_io(&self.folder))?;
        let path = self.path();
        match files::look(&path, Kind::Private) {
            Ok(true) => Ok(()),
            Ok(false) => match files::create(&path) {
                Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                created => created.map(drop),
            },
            Err(Problem::Readable(_) | Problem::Writable(_)) => {
                tracing::warn!("`{}` could be read by others; now only you can read and write it", path.display());
                fs::set_permissions(&path, Permissions::from_mode(0o600))
            }
            Err(problem) => Err(problem.into_io(&path)),
        }
    }

    pub(super) fn identity(&self) -> Option<Identity> {
        let data = fs::symlink_metadata(self.path()).ok()?;
        Some(Identity(data.dev(), data.ino()))
    }

    /// Holds off other processes that make or set aside this database.
    pub(super) fn lock(&self) -> io::Result<File> {
        let file = files::append(&self.folder.join(format!("{}.lock", self.name)))?;
        for _ in 0..LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(err)) => return Err(err),
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "another pml is busy making the database"))
    }

    /// The turn to send what is unsent, if no other process has it.
    pub(super) fn take_turn(&self) -> io::Result<Option<File>> {
        files::make_folder(&self.folder)?;
        let file = files::append(&self.folder.join(format!("{}.sending", self.name)))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(err)) => Err(err),
        }
    }

    /// Notes that there are keys of a hub in the database. The file stays when the database is set aside or lost.
    pub(super) fn note_keys(&self) -> io::Result<()> {
        match files::create(&self.keys_path()) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            created => created.map(drop),
        }
    }

    pub(super) fn has_noted_keys(&self) -> bool {
        self.keys_path().exists()
    }

    fn keys_path(&self) -> PathBuf {
        self.folder.join(format!("{}.had-keys", self.name))
    }

    /// Gives a damaged database another name, with what belongs to it. Does nothing if `damaged` is no longer there.
    pub(super) fn set_aside(&self, damaged: Option<Identity>) -> io::Result<Option<PathBuf>> {
        let _lock = self.lock()?;
        if self.identity() != damaged || damaged.is_none() {
            return Ok(None);
        }
        let path = self.path();
        let aside = self.folder.join(format!("{}.db.damaged-{}", self.name, now_millis()));
        // The log first: without its database it is worth nothing, and a new database must not find it.
        for end in ["-wal", "-shm", ""] {
            let with_end = |path: &Path| {
                let mut name = path.as_os_str().to_owned();
                name.push(end);
                PathBuf::from(name)
            };
            match fs::rename(with_end(&path), with_end(&aside)) {
                Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
                _ => {}
            }
        }
        let all = self.all_aside();
        for oldest in all.iter().take(all.len().saturating_sub(KEPT_ASIDE)) {
            for end in ["-wal", "-shm", ""] {
                let _ = fs::remove_file(format!("{}{end}", oldest.display()));
            }
        }
        Ok(Some(aside))
    }

    /// Databases that were set aside, oldest first.
    pub(super) fn all_aside(&self) -> Vec<PathBuf> {
        let start = format!("{}.db.damaged-", self.name);
        let is_aside = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(&start));
            name.is_some_and(|end| end.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let entries = fs::read_dir(&self.folder).into_iter().flatten();
        let mut found: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_aside).collect();
        found.sort();
        found
    }
}

/// Are there traces in this data folder?
pub fn is_there(data_dir: &Path) -> bool {
    Place::new(data_dir, TRACES).path().exists()
}

/// Writes as much as a trace or two have beside the database, to a file without a name.
pub fn try_room(data_dir: &Path) -> io::Result<()> {
    let path = Place::new(data_dir, TRACES).path().with_extension(format!("room-{}", std::process::id()));
    let mut file = files::create(&path)?;
    fs::remove_file(&path)?;
    file.write_all(&vec![0; ROOM_BYTES])
}

/// What is wrong with the files of a data folder, if anything is, with the file.
pub fn problem(data_dir: &Path) -> Option<(PathBuf, Problem)> {
    [TRACES, RAW].into_iter().find_map(|name| {
        let path = Place::new(data_dir, name).path();
        files::look(&path, Kind::Private).err().map(|problem| (path, problem))
    })
}
