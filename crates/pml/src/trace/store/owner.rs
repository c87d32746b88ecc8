//! Which process runs an execution, and whether it is still alive.
//!
//! A process that runs executions holds the lock of a file of its own. The kernel gives the lock back when the process
//! ends, however it ends, also in another container that shares the folder. A process id would not do: ids are used again,
//! and mean something else in another namespace.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::PathBuf,
};

use crate::files;

/// How often a new owner is tried.
const TRIES: u32 = 5;

/// This process, as the owner of a file that says that it lives.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) id: i64,
    /// Where the file is, unless it is to stay.
    path: Option<PathBuf>,
    /// Locked for as long as this lives.
    file: File,
}

impl Owner {
    /// Makes and locks a file. `path` says where it is, by the id of its owner.
    pub(super) fn new(path: impl Fn(i64) -> PathBuf) -> io::Result<Owner> {
        for _ in 0..TRIES {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes).map_err(io::Error::other)?;
            // Not negative, so that it looks the same everywhere.
            let id = i64::from_le_bytes(bytes) & i64::MAX;
            let path = path(id);
            let file = files::append(&path)?;
            // Whoever looks for the dead may have found the file before it was locked, and have removed it.
            let is_ours =
                || fs::metadata(&path).is_ok_and(|now| file.metadata().is_ok_and(|own| own.ino() == now.ino()));
            if file.try_lock().is_ok() && is_ours() {
                return Ok(Owner { id, path: Some(path), file });
            }
        }
        Err(io::Error::other("no file of this process can be locked"))
    }

    /// Whatever is written to it goes to its end.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Ends as if the process had: the file stays, for whoever looks for the dead.
    pub(super) fn leave(mut self) {
        self.path = None;
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// An owner whose process has ended.
#[derive(Debug)]
pub(super) struct Dead {
    path: PathBuf,
    /// Locked, so that nobody takes the file for a new owner's.
    file: Option<File>,
}

impl Dead {
    /// Has the process whose file this is ended? If that cannot be known, it has not.
    pub(super) fn find(path: PathBuf) -> Option<Dead> {
        match File::open(&path) {
            Ok(file) => file.try_lock().is_ok().then(|| Dead { path, file: Some(file) }),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Some(Dead { path, file: None }),
            Err(_) => None,
        }
    }

    /// The file, if there is one.
    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Removes what is left of it.
    pub(super) fn forget(self) {
        let _ = fs::remove_file(&self.path);
    }
}
