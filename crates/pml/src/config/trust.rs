//! Which project files the user has trusted: `trust.json` in the data folder.
//!
//! A `pml.toml` in the working directory starts programs with the rights of the user, and whoever wrote the folder
//! wrote it. So it counts only if the user has seen this text at this place and said so. A record has the place, the
//! hash of the text, and the text itself, so that a later change can be shown as a difference.
//!
//! **Invariant:** a text is trusted only through [`Store::put`], with the very bytes that were shown or that pml itself
//! wrote.

use std::{
    fs,
    path::{Path, PathBuf},
};

use pml_wire::ErrorCode;
use serde::{Deserialize, Serialize};

use crate::{
    clock::now_millis,
    digest::sha256,
    error::Error,
    files::{self, Kind, Sync},
};

/// Format of the file. Others are not read.
const FORMAT: u32 = 1;
const FILE: &str = "trust.json";
/// The texts of many files.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// A file that the user has trusted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Record {
    /// Its folder without links, and its name.
    pub path: PathBuf,
    pub sha256: String,
    /// Milliseconds since 1970.
    pub trusted_at: u64,
    /// What was trusted.
    pub text: String,
}

impl Record {
    /// Is this the text that was trusted?
    pub fn covers(&self, text: &str) -> bool {
        self.sha256 == sha256(text)
    }
}

#[derive(Debug, Deserialize, Serialize)]
struct Contents {
    format: u32,
    files: Vec<Record>,
}

/// The file of records.
#[derive(Clone, Debug)]
pub struct Store {
    path: PathBuf,
}

impl Store {
    /// The records in a data folder.
    pub fn new(data_dir: &Path) -> Store {
        Store { path: data_dir.join(FILE) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Everything that is trusted, by path.
    pub fn records(&self) -> Result<Vec<Record>, Error> {
        let bytes = files::read(&self.path, Kind::Private, MAX_BYTES).map_err(|problem| problem.of(&self.path))?;
        let Some(bytes) = bytes else { return Ok(Vec::new()) };
        let contents: Option<Contents> = serde_json::from_slice(&bytes).ok();
        match contents {
            Some(Contents { format: FORMAT, files }) => Ok(files),
            Some(_) => Err(self.unusable("is of another version of pml")),
            None => Err(self.unusable("is damaged")),
        }
    }

    fn unusable(&self, what: &str) -> Error {
        let message = format!("`{}` {what}", self.path.display());
        let hint = "remove it, and trust your projects again: nothing is trusted until then";
        Error::new(ErrorCode::ConfigInvalid, message).with_hint(hint)
    }

    /// What is trusted at a place.
    pub fn find(&self, path: &Path) -> Result<Option<Record>, Error> {
        Ok(self.records()?.into_iter().find(|record| record.path == path))
    }

    /// Trusts a text at a place, in place of an earlier one.
    pub fn put(&self, path: &Path, text: &str) -> Result<(), Error> {
        if path.to_str().is_none() {
            let message = format!("`{}` cannot be trusted: its path is not UTF-8", path.display());
            return Err(Error::new(ErrorCode::ConfigInvalid, message));
        }
        let record =
            Record { path: path.to_owned(), sha256: sha256(text), trusted_at: now_millis(), text: text.to_owned() };
        self.change(|records| {
            records.retain(|other| other.path != record.path);
            records.push(record);
            records.sort_by(|one, other| one.path.cmp(&other.path));
            true
        })
        .map(drop)
    }

    /// Trusts nothing at a place any more. Was anything trusted there?
    pub fn remove(&self, path: &Path) -> Result<bool, Error> {
        self.change(|records| {
            let before = records.len();
            records.retain(|record| record.path != path);
            records.len() < before
        })
    }

    /// pml itself has changed a file at the user's word: if it was trusted as it was, it is trusted as it is.
    pub fn follow_edit(&self, path: &Path, before: &str, after: &str) -> Result<(), Error> {
        let Some(path) = place(path) else { return Ok(()) };
        match self.find(&path)? {
            Some(record) if record.covers(before) => self.put(&path, after),
            _ => Ok(()),
        }
    }

    /// Changes the records while no other pml does. Did anything change?
    fn change(&self, change: impl FnOnce(&mut Vec<Record>) -> bool) -> Result<bool, Error> {
        let unwritable = |err: std::io::Error| {
            let message = format!("`{}` cannot be written: {err}", self.path.display());
            Error::new(ErrorCode::ConfigInvalid, message).caused_by(err)
        };
        let folder = self.path.parent().unwrap_or(Path::new(""));
        files::make_folder(folder).map_err(unwritable)?;
        let lock = files::append(&self.path.with_extension("lock")).map_err(unwritable)?;
        lock.lock().map_err(unwritable)?;
        let mut records = self.records()?;
        if !change(&mut records) {
            return Ok(false);
        }
        let contents = Contents { format: FORMAT, files: records };
        let bytes = serde_json::to_vec_pretty(&contents).map_err(|err| unwritable(err.into()))?;
        files::write(&self.path, &bytes, Sync::Now).map_err(unwritable)?;
        Ok(true)
    }
}

/// The place of a file: its folder without links, and its name. Not what the file itself links to: a link in another
/// folder to a file that is trusted would mean other programs by the same relative paths.
pub fn place(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(fs::canonicalize(folder).ok()?.join(path.file_name()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_text_is_trusted_at_its_place_until_it_changes_or_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(&folder.path().join("data"));
        let (one, two) = (Path::new("/a/pml.toml"), Path::new("/b/pml.toml"));
        assert_eq!(store.find(one).unwrap(), None);
        store.put(one, "text").unwrap();
        store.put(two, "other").unwrap();
        assert!(store.find(one).unwrap().unwrap().covers("text"));
        assert!(!store.find(one).unwrap().unwrap().covers("other"));
        assert!(store.find(Path::new("/c/pml.toml")).unwrap().is_none());
        store.put(one, "new").unwrap();
        assert!(!store.find(one).unwrap().unwrap().covers("text"));
        assert_eq!(store.records().unwrap().len(), 2);
        assert!(store.remove(one).unwrap() && !store.remove(one).unwrap());
        assert_eq!(store.find(one).unwrap(), None);
        assert_eq!(fs::metadata(store.path()).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_pml_edits_stays_trusted_only_if_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(&folder.path().join("data"));
        let path = folder.path().join("pml.toml");
        let key = place(&path).unwrap();
        store.follow_edit(&path, "old", "new").unwrap();
        assert_eq!(store.find(&key).unwrap(), None);
        store.put(&key, "old").unwrap();
        store.follow_edit(&path, "changed by somebody", "new").unwrap();
        assert!(store.find(&key).unwrap().unwrap().covers("old"));
        store.follow_edit(&path, "old", "new").unwrap();
        assert!(store.find(&key).unwrap().unwrap().covers("new"));
    }

    #[test]
    fn a_store_that_is_damaged_or_planted_trusts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let path = Path::new("/a/pml.toml");
        store.put(path, "text").unwrap();
        let whole = fs::read(store.path()).unwrap();
        for damage in [&b"{"[..], b"", br#"{"format":2,"files":[]}"#] {
            fs::write(store.path(), damage).unwrap();
            let err = store.find(path).unwrap_err();
            assert!(err.hint.as_deref().unwrap().contains("trust your projects again"), "{err}");
            assert!(store.put(path, "other").is_err(), "what may be of use is not overwritten");
        }
        fs::write(store.path(), &whole).unwrap();
        assert!(store.find(path).unwrap().is_some());
        fs::set_permissions(store.path(), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(store.find(path).unwrap_err().message.contains("can be read by others"));
        fs::set_permissions(store.path(), fs::Permissions::from_mode(0o600)).unwrap();
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(store.path(), &elsewhere).unwrap();
        symlink(&elsewhere, store.path()).unwrap();
        assert!(store.find(path).unwrap_err().message.contains("is a symbolic link"));
    }

    #[test]
    fn a_link_in_another_folder_is_another_place() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir(root.join("real")).unwrap();
        fs::write(root.join("real/pml.toml"), "").unwrap();
        symlink(root.join("real"), root.join("folder")).unwrap();
        fs::create_dir(root.join("other")).unwrap();
        symlink(root.join("real/pml.toml"), root.join("other/pml.toml")).unwrap();
        assert_eq!(place(&root.join("folder/pml.toml")), Some(root.join("real/pml.toml")));
        assert_eq!(place(&root.join("other/pml.toml")), Some(root.join("other/pml.toml")));
        assert_eq!(place(&root.join("gone/pml.toml")), None);
    }
}
