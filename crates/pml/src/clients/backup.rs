//! Changes to files, and the way back.
//!
//! Before anything is written, what the files were is put into a folder of its own. The last one
//! can be taken back: whole, if the files are as they were left. A client writes its own file all the
//! time, so there a file that has changed since has only its entries put back, if those are as they
//! were left.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use pml_wire::ErrorCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Document, Format, files};
use crate::{digest::sha256, error::Error, files as own_files};

/// So many ways back are kept.
const MAX_BACKUPS: usize = 20;
const RECORD: &str = "record.json";

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
    /// What changes, entry by entry; empty for a file that is only taken back whole.
    pub edits: Vec<Edit>,
}

/// What changes of one entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Edit {
    pub keys: Vec<String>,
    pub name: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    command: String,
    client: String,
    files: Vec<RecordFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct RecordFile {
    path: PathBuf,
    is_toml: bool,
    /// The name of the copy; `None` if there was no file.
    copy: Option<String>,
    /// Its permissions, before.
    mode: Option<u32>,
    /// Of what was written.
    hash: String,
    edits: Vec<Edit>,
    /// Folders that were made for it, innermost first.
    folders: Vec<PathBuf>,
}

/// What was taken back.
#[derive(Debug)]
pub struct Undone {
    pub client: String,
    pub files: Vec<UndoneFile>,
    /// Where what was in the way is kept, if something was.
    pub kept: Option<PathBuf>,
}

/// What happened to a file. A text that is empty stands for no file.
#[derive(Debug)]
pub struct UndoneFile {
    pub path: PathBuf,
    pub how: Restored,
    pub before: String,
    pub after: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    Whole,
    Removed,
    /// The rest of the file had changed since, and is as it was.
    Entries,
}

fn failed(message: impl Into<String>) -> Error {
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
            let _ = restore(file, change.before.as_deref());
        }
        let _ = fs::remove_dir_all(&backup);
    }
    done?;
    prune(folder);
    Ok(backup)
}

/// One pml at a time looks at files and changes them, until what is returned is dropped.
fn alone(folder: &Path) -> Result<fs::File, Error> {
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

/// Takes the last change of a kind back.
pub fn undo(folder: &Path, command: &str, client: Option<&str>, is_forced: bool) -> Result<Undone, Error> {
    let _alone = alone(folder).ok(); // where nothing can be kept there is nothing to take back
    let fits = |record: &Record| record.command == command && client.is_none_or(|client| record.client == client);
    let found = backups(folder).into_iter().rev().find_map(|backup| {
        let text = files::read(&backup.join(RECORD)).ok()??;
        let record: Record = serde_json::from_str(&text).ok()?;
        fits(&record).then_some((backup, record))
    });
    let Some((backup, record)) = found else {
        let of = client.map(|client| format!(" of {client}")).unwrap_or_default();
        return Err(failed(format!("there is no `pml {command}`{of} to take back")));
    };
    // All of it is thought through before anything is written.
    let (mut plans, mut found) = (Vec::new(), Vec::new());
    for file in &record.files {
        let before = match &file.copy {
            Some(copy) => Some(files::read(&backup.join(copy))?.ok_or_else(|| {
                failed(format!("the copy of `{}` is gone from `{}`", file.path.display(), backup.display()))
            })?),
            None => None,
        };
        let current = files::read(&file.path)?;
        let is_untouched = current.as_deref().is_some_and(|text| sha256(text) == file.hash);
        found.push(current.clone().unwrap_or_default());
        plans.push(match (is_untouched, entries_back(file, current.as_deref()), is_forced) {
            (false, Some(text), _) => (file, Some(text), Restored::Entries, None),
            (false, None, false) => {
                let shown = file.path.display();
                let hint = format!(
                    "--force puts the old one back all the same and keeps a copy; the old one is in {}",
                    backup.display()
                );
                let message = format!("`{shown}` has changed since; nothing is taken back");
                return Err(failed(message).with_hint(hint));
            }
            (is_untouched, _, _) => {
                let how = if before.is_some() { Restored::Whole } else { Restored::Removed };
                (file, before, how, current.filter(|_| !is_untouched))
            }
        });
    }
    let mut kept = None;
    for (index, (.., lost)) in plans.iter().enumerate() {
        if let Some(lost) = lost {
            keep(&backup.join(format!("{index}-replaced")), lost)?;
            kept = Some(backup.clone());
        }
    }
    let mut undone = Undone { client: record.client.clone(), files: Vec::new(), kept };
    for ((file, text, how, _), before) in plans.into_iter().zip(found) {
        restore(file, text.as_deref())?;
        undone.files.push(UndoneFile { path: file.path.clone(), how, before, after: text.unwrap_or_default() });
    }
    // Without its record it is no way back any more.
    match &undone.kept {
        Some(backup) => drop(fs::remove_file(backup.join(RECORD))),
        None => drop(fs::remove_dir_all(&backup)),
    }
    Ok(undone)
}

/// The text with only the entries put back; `None` if they are not as they were left.
fn entries_back(file: &RecordFile, current: Option<&str>) -> Option<String> {
    let format = if file.is_toml { Format::Toml } else { Format::Json };
    let mut document = Document::parse(format, current.filter(|_| !file.edits.is_empty())?).ok()?;
    for edit in &file.edits {
        let keys: Vec<_> = edit.keys.iter().cloned().chain([edit.name.clone()]).collect();
        if document.value(&keys) != edit.after {
            return None;
        }
        match &edit.before {
            Some(before) => document.set(&edit.keys, &edit.name, before).ok()?,
            None => drop(document.remove(&edit.keys, &edit.name).ok()?),
        }
    }
    Some(document.text().to_owned())
}

fn restore(file: &RecordFile, text: Option<&str>) -> Result<(), Error> {
    let path = &file.path;
    if let Some(text) = text {
        files::write(path, text, 0o600, false)?;
        if let Some(mode) = file.mode {
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
fn backups(folder: &Path) -> Vec<PathBuf> {
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
    for old in &backups[..backups.len().saturating_sub(MAX_BACKUPS)] {
        let _ = fs::remove_dir_all(old);
    }
}

/// Writes what may hold secrets.
fn keep(path: &Path, text: &str) -> Result<(), Error> {
    let written = own_files::create(path).and_then(|mut file| {
        io::Write::write_all(&mut file, text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|err| failed(format!("the backup `{}` cannot be written: {err}", path.display())).caused_by(err))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        };
        fs::write(folder.path().join("a"), "old").unwrap();
        // The second is below a file, where nothing can be.
        let changes = [change("a", Some("old")), change("a/b", None)];
        apply(&changes, &folder.path().join("backups"), "install", "x").unwrap_err();
        assert_eq!(fs::read_to_string(folder.path().join("a")).unwrap(), "old");
        assert!(undo(&folder.path().join("backups"), "install", None, false).is_err());
    }
}
