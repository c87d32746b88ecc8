//! Changes to files, and what is remembered of them.
//!
//! Before anything is written, what the files were is put into a folder of its own, together with a record of what
//! changes, entry by entry. [`super::undo()`] goes by the record; the copies are for files that nobody has touched since.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use pml_wire::ErrorCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{client::Format, document::Document, files, mistake::Mistake, secrets};
use crate::{digest::sha256, error::Error, files as own_files};

/// So many changes keep copies of whole files.
const MAX_COPIES: usize = 20;
/// So many can be taken back.
const MAX_RECORDS: usize = 500;
pub(super) const RECORD: &str = "record.json";

/// What is to become of a file.
#[derive(Debug)]
pub struct Change {
    pub path: PathBuf,
    pub format: Format,
    /// `None` if there was none.
    pub before: Option<String>,
    pub after: String,
    /// Of a new file.
    pub mode: u32,
    /// Nobody else may read it.
    pub is_private: bool,
    /// What changes, entry by entry.
    pub edits: Vec<Edit>,
    /// It is a project's file of pml, and the user trusts what is in it.
    pub trusts: bool,
}

/// What changes of one entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Edit {
    pub keys: Vec<String>,
    pub name: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
    /// The text of `before`.
    raw: Option<String>,
    /// How many of the objects around it were made for it.
    pub(super) made: usize,
    /// Of an entry that goes into pml's file, where the client has it; of one that goes out of a client's, where pml has
    /// it.
    pub(super) partner: Option<Place>,
}

/// An entry of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub file: PathBuf,
    pub is_toml: bool,
    pub keys: Vec<String>,
    pub name: String,
}

impl Place {
    pub fn new(file: &Path, format: Format, keys: &[String], name: &str) -> Place {
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        Place { file, is_toml: format == Format::Toml, keys: keys.to_vec(), name: name.to_owned() }
    }

    pub(super) fn path(&self) -> Vec<String> {
        [self.keys.as_slice(), std::slice::from_ref(&self.name)].concat()
    }
}

impl Edit {
    /// Changes an entry, and says what that was.
    pub fn make(
        document: &mut Document,
        keys: &[String],
        name: &str,
        after: Option<Value>,
        partner: Option<Place>,
    ) -> Result<Edit, Mistake> {
        let path = [keys, &[name.to_owned()]].concat();
        let edit = Edit {
            keys: keys.to_vec(),
            name: name.to_owned(),
            before: document.value(&path),
            raw: document.raw(keys, name),
            made: document.missing(keys),
            after,
            partner,
        };
        match &edit.after {
            Some(value) => document.set(keys, name, value)?,
            None => drop(document.remove(keys, name)?),
        }
        Ok(edit)
    }

    pub(super) fn path(&self) -> Vec<String> {
        [self.keys.as_slice(), std::slice::from_ref(&self.name)].concat()
    }

    /// Makes the entry what it was.
    pub(super) fn take_back(&self, document: &mut Document) -> Result<(), Mistake> {
        match &self.before {
            Some(before) => document.restore(&self.keys, &self.name, before, self.raw.as_deref()),
            None => {
                document.remove(&self.keys, &self.name)?;
                document.remove_empty(&self.keys, self.made)
            }
        }
    }
}

/// What a command changed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) command: String,
    pub(super) client: String,
    pub(super) files: Vec<RecordFile>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RecordFile {
    pub(super) path: PathBuf,
    pub(super) is_toml: bool,
    /// The name of the copy; `None` if there was no file.
    pub(super) copy: Option<String>,
    /// Its permissions, before.
    pub(super) mode: Option<u32>,
    /// Of what was written.
    pub(super) hash: String,
    pub(super) edits: Vec<Edit>,
    /// Folders that were made for it, innermost first.
    pub(super) folders: Vec<PathBuf>,
}

impl RecordFile {
    pub(super) fn format(&self) -> Format {
        if self.is_toml { Format::Toml } else { Format::Json }
    }
}

pub(super) fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::ConfigInvalid, message)
}

/// Makes all changes, or none. Where the copies are.
pub fn apply(changes: &[Change], folder: &Path, command: &str, client: &str) -> Result<PathBuf, Error> {
    let _alone = alone(folder)?;
    for change in changes {
        if files::read(&change.path)? != change.before {
            let message = format!("`{}` has changed in the meantime; nothing is written", change.path.display());
            return Err(failed(message).with_hint("run the same command again"));
        }
    }
    let backup = next(folder)?;
    let mut record = Record { command: command.to_owned(), client: client.to_owned(), files: Vec::new() };
    let done = write_all(changes, &backup, &mut record);
    if done.is_err() {
        // What was written is taken back, last first.
        for (change, file) in changes.iter().zip(&record.files).rev() {
            let _ = write_back(file, change.before.as_deref(), true);
        }
        let _ = fs::remove_dir_all(&backup);
    }
    done?;
    prune(folder);
    Ok(backup)
}

/// One pml at a time looks at files and changes them, until what is returned is dropped.
pub(super) fn alone(folder: &Path) -> Result<fs::File, Error> {
    let lock = || {
        own_files::make_folder(folder.parent().unwrap_or(folder))?;
        let file = own_files::append(&folder.with_extension("lock"))?;
        file.lock()?;
        Ok(file)
    };
    lock().map_err(|err| no_place(folder, err))
}

fn no_place(folder: &Path, err: io::Error) -> Error {
    let message = format!("there is no place for a backup, `{}`: {err}", folder.display());
    failed(message).with_hint("nothing is changed without one; --data-dir names another place").caused_by(err)
}

fn write_all(changes: &[Change], backup: &Path, record: &mut Record) -> Result<(), Error> {
    let mut copies = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        let name = change.path.file_name().unwrap_or_default().to_string_lossy();
        let copy = format!("{index}-{}", name.trim_start_matches('.'));
        if let Some(before) = &change.before {
            keep(&backup.join(&copy), before)?;
        }
        copies.push(change.before.as_ref().map(|_| copy));
    }
    for (change, copy) in changes.iter().zip(copies) {
        let mode = fs::metadata(&change.path).ok().map(|data| data.permissions().mode() & 0o7777);
        let folders = files::write(&change.path, &change.after, change.mode, change.is_private)?;
        record.files.push(RecordFile {
            path: std::path::absolute(&change.path).unwrap_or_else(|_| change.path.clone()),
            is_toml: change.format == Format::Toml,
            copy,
            mode,
            hash: sha256(&change.after),
            edits: change.edits.clone(),
            folders,
        });
    }
    let text = serde_json::to_string_pretty(record).map_err(|err| failed(format!("no backup: {err}")))?;
    keep(&backup.join(RECORD), &text)
}

/// A new folder for copies, behind all others.
fn next(folder: &Path) -> Result<PathBuf, Error> {
    let unwritable = |err: io::Error| no_place(folder, err);
    own_files::make_folder(folder).map_err(unwritable)?;
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u64>().ok();
    let last = backups(folder).iter().filter_map(number).max().unwrap_or(0);
    // Another pml may be at it.
    for number in last + 1..last + 100 {
        let backup = folder.join(format!("{number:06}"));
        match own_files::create_folder(&backup) {
            Ok(()) => return Ok(backup),
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
            Err(err) => return Err(unwritable(err)),
        }
    }
    Err(unwritable(io::ErrorKind::AlreadyExists.into()))
}

/// Oldest first.
pub(super) fn backups(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let is_number = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.chars().all(|c| c.is_ascii_digit()))
    };
    let mut backups: Vec<_> = entries.filter(is_number).collect();
    backups.sort();
    backups
}

fn prune(folder: &Path) {
    let backups = backups(folder);
    for old in &backups[..backups.len().saturating_sub(MAX_RECORDS)] {
        let _ = fs::remove_dir_all(old);
    }
    for old in &backups[..backups.len().saturating_sub(MAX_COPIES)] {
        let copies = fs::read_dir(old).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        for copy in copies.filter(|path| !path.ends_with(RECORD)) {
            let _ = fs::remove_file(copy);
        }
    }
}

/// Writes what may hold secrets.
pub(super) fn keep(path: &Path, text: &str) -> Result<(), Error> {
    let written = own_files::create(path).and_then(|mut file| {
        io::Write::write_all(&mut file, text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|err| failed(format!("the backup `{}` cannot be written: {err}", path.display())).caused_by(err))
}

/// Gives a file another text, or removes it. `is_whole` if it becomes what it was.
pub(super) fn write_back(file: &RecordFile, text: Option<&str>, is_whole: bool) -> Result<(), Error> {
    let path = &file.path;
    if let Some(text) = text {
        files::write(path, text, 0o600, false)?;
        // It was taken away from others because of its secrets.
        if let Some(mode) = file.mode.filter(|_| is_whole || !secrets::holds_secrets(file.format(), text)) {
            // It has its text; who may read it is the lesser part.
            let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode));
        }
        return Ok(());
    }
    // Not the link that leads to it, if there is one.
    match files::real_path(path).and_then(fs::remove_file) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => {
            return Err(failed(format!("`{}` cannot be removed: {err}", path.display())).caused_by(err));
        }
        _ => {}
    }
    for folder in &file.folders {
        // Not if somebody else has put something into it.
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::undo, *};

    #[test]
    fn a_file_that_changes_while_one_thinks_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "{\"other\": 1}").unwrap();
        let change = Change {
            path: path.clone(),
            format: Format::Json,
            before: Some("{}".to_owned()),
            after: "{\"pml\": 1}".to_owned(),
            mode: 0o600,
            is_private: false,
            edits: Vec::new(),
            trusts: false,
        };
        let err = apply(&[change], &folder.path().join("backups"), "install", "x").unwrap_err();
        assert!(err.message.contains("changed in the meantime"), "{err}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"other\": 1}");
        assert!(backups(&folder.path().join("backups")).is_empty());
    }

    #[test]
    fn of_two_files_both_are_written_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let change = |path: &str, before: Option<&str>| Change {
            path: folder.path().join(path),
            format: Format::Json,
            before: before.map(str::to_owned),
            after: "new".to_owned(),
            mode: 0o600,
            is_private: false,
            edits: Vec::new(),
            trusts: false,
        };
        fs::write(folder.path().join("a"), "old").unwrap();
        // The second is below a file, where nothing can be.
        let changes = [change("a", Some("old")), change("a/b", None)];
        apply(&changes, &folder.path().join("backups"), "install", "x").unwrap_err();
        assert_eq!(fs::read_to_string(folder.path().join("a")).unwrap(), "old");
        assert!(undo::undo(&folder.path().join("backups"), "install", None, false).is_err());
    }
}
