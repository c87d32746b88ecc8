//! The way back: what one command changed becomes what it was, whatever else has changed since.
//!
//! A file that nobody has touched since gets its old bytes. In any other, each entry is taken back by itself, if it is as
//! it was left. An entry that somebody has changed stays, unless the user insists, and so does the rest of the file.
//!
//! **Invariant:** a server leaves pml's file only if the client that it came from has it then, and no other client's entry
//! was given up for it. Otherwise the server stays, and the duty to remove it passes to the record of that other client.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    backup::{Edit, Place, RECORD, Record, RecordFile, alone, backups, failed, keep, write_back},
    client::Format,
    document::Document,
    files,
};
use crate::{digest::sha256, error::Error, files as own_files};

/// What was taken back.
#[derive(Debug)]
pub struct Undone {
    pub client: String,
    pub files: Vec<UndoneFile>,
    /// What stays, and why.
    pub notes: Vec<String>,
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

/// What is to become of one file.
struct FilePlan {
    how: Restored,
    /// What it is now; `None` if it is not there.
    current: Option<String>,
    /// What it is to be; `None` for no file.
    text: Option<String>,
    /// Something is overwritten that the record knows nothing of.
    overwrites: bool,
    taken: usize,
    /// What stays the duty of this record.
    left: Vec<Edit>,
    /// What becomes the duty of another, by its index.
    passed: Vec<(usize, Edit)>,
    notes: Vec<String>,
}

/// What is to become of one entry.
enum Verdict {
    /// It is as it was already.
    Done,
    TakeBack {
        overwrites: bool,
    },
    Stays(String),
    /// Another record's client needs it.
    Passes(usize, String),
}

/// A record, and the folder of its copies.
type BackupRecord = (PathBuf, Record);

/// Takes the last change of a kind back of which something can be taken back. `is_forced` also takes back entries that
/// somebody has changed since.
pub fn undo(folder: &Path, command: &str, client: Option<&str>, is_forced: bool) -> Result<Undone, Error> {
    let _alone = alone(folder).ok(); // where nothing can be kept there is nothing to take back
    let mut records: Vec<BackupRecord> = backups(folder).into_iter().rev().filter_map(load).collect();
    let mut refused = None;
    let mut blocked = BTreeSet::new();
    for index in 0..records.len() {
        let (backup, record) = &records[index];
        let is_meant = record.command == command && client.is_none_or(|client| record.client == client);
        if !is_meant || blocked.contains(&record.client) {
            continue;
        }
        let plans = plan(&records, index, is_forced)?;
        let is_stuck = plans.iter().all(|plan| plan.taken == 0 && plan.passed.is_empty());
        // What the client has given up it has through pml, which an older record may take away from it.
        let gives_up = plans.iter().flat_map(|plan| &plan.left).any(|edit| edit.after.is_none());
        if is_stuck && plans.iter().any(|plan| !plan.left.is_empty()) {
            let notes: Vec<_> = plans.into_iter().flat_map(|plan| plan.notes).collect();
            let message = format!("nothing is taken back: {}", notes.join("; "));
            let hint = format!(
                "--force takes back what has changed, and keeps a copy; what was there before is in {}",
                backup.display()
            );
            refused.get_or_insert(failed(message).with_hint(hint));
            if gives_up {
                blocked.insert(record.client.clone());
            }
            continue;
        }
        return carry_out(&mut records, index, plans);
    }
    let of = client.map(|client| format!(" of {client}")).unwrap_or_default();
    Err(refused.unwrap_or_else(|| failed(format!("there is no `pml {command}`{of} to take back"))))
}

fn load(backup: PathBuf) -> Option<BackupRecord> {
    let text = files::read(&backup.join(RECORD)).ok()??;
    Some((backup, serde_json::from_str(&text).ok()?))
}

/// Thinks all of a record through, before anything is written.
fn plan(records: &[BackupRecord], index: usize, is_forced: bool) -> Result<Vec<FilePlan>, Error> {
    let (backup, record) = &records[index];
    let mut planned: BTreeMap<&Path, Option<String>> = BTreeMap::new();
    let mut plans = Vec::new();
    for file in &record.files {
        let current = files::read(&file.path)?;
        let document = Document::parse(file.format(), current.as_deref().unwrap_or_default());
        let mut document = document.map_err(|mistake| {
            let message = format!("in `{}`: {mistake}; nothing is taken back", file.path.display());
            failed(message).with_hint(format!("what was there before is in {}", backup.display()))
        })?;
        let mut plan = FilePlan {
            how: Restored::Entries,
            overwrites: false,
            taken: 0,
            left: Vec::new(),
            passed: Vec::new(),
            notes: Vec::new(),
            text: None,
            current: None,
        };
        for edit in file.edits.iter().rev() {
            let now = document.value(&edit.path());
            match verdict(records, index, file, edit, now.as_ref(), &planned, is_forced) {
                Verdict::Done => {}
                Verdict::TakeBack { overwrites } => {
                    plan.overwrites |= overwrites;
                    plan.taken += 1;
                    edit.take_back(&mut document)
                        .map_err(|mistake| failed(format!("in `{}`: {mistake}", file.path.display())))?;
                }
                Verdict::Stays(note) => {
                    plan.left.push(edit.clone());
                    plan.notes.push(note);
                }
                Verdict::Passes(other, note) => {
                    plan.passed.push((other, edit.clone()));
                    plan.notes.push(note);
                }
            }
        }
        let is_untouched = current.as_deref().is_some_and(|text| sha256(text) == file.hash);
        let is_whole = is_untouched && plan.left.is_empty() && plan.passed.is_empty();
        let copy = file.copy.as_ref().and_then(|copy| files::read(&backup.join(copy)).ok().flatten());
        (plan.how, plan.text) = match (is_whole, &file.copy, copy) {
            (true, None, _) => (Restored::Removed, None),
            (true, Some(_), Some(text)) => (Restored::Whole, Some(text)),
            _ if document.is_bare() && (file.copy.is_none() || current.is_none()) => (Restored::Removed, None),
            _ => (Restored::Entries, Some(document.text().to_owned())),
        };
        plan.current = current;
        planned.insert(&file.path, plan.text.clone());
        plans.push(plan);
    }
    Ok(plans)
}

fn verdict(
    records: &[BackupRecord],
    index: usize,
    file: &RecordFile,
    edit: &Edit,
    now: Option<&serde_json::Value>,
    planned: &BTreeMap<&Path, Option<String>>,
    is_forced: bool,
) -> Verdict {
    let (shown, name) = (file.path.display(), edit.name.escape_debug());
    if now == edit.before.as_ref() {
        return Verdict::Done;
    }
    if let (None, Some(origin)) = (&edit.before, &edit.partner) {
        let place = Place::new(&file.path, file.format(), &edit.keys, &edit.name);
        let gives_up = |other: &Edit| other.after.is_none() && other.partner.as_ref() == Some(&place);
        let needed = records.iter().enumerate().find(|(other, (_, record))| {
            *other != index && record.files.iter().flat_map(|file| &file.edits).any(gives_up)
        });
        if let Some((other, (_, record))) = needed {
            let note = format!("`{name}` stays in {shown}: it took the place of that of {} too", record.client);
            return Verdict::Passes(other, note);
        }
        if !has_again(&records[index].1, origin, planned) {
            let from = origin.file.display();
            let hint = format!("`pml server remove {name}` removes it");
            return Verdict::Stays(format!("`{name}` stays in {shown}, since {from} has it no longer ({hint})"));
        }
    }
    let is_as_left = now == edit.after.as_ref();
    match is_as_left || is_forced {
        true => Verdict::TakeBack { overwrites: !is_as_left },
        false if edit.after.is_none() => Verdict::Stays(format!("`{name}` is in {shown} again, and stays as it is")),
        false => Verdict::Stays(format!("`{name}` in {shown} has changed since, and stays")),
    }
}

/// Will a client's file have the server that pml got from it?
fn has_again(record: &Record, origin: &Place, planned: &BTreeMap<&Path, Option<String>>) -> bool {
    let text = match planned.get(origin.file.as_path()) {
        Some(text) => text.clone(),
        None => files::read(&origin.file).ok().flatten(),
    };
    let format = if origin.is_toml { Format::Toml } else { Format::Json };
    let document = text.and_then(|text| Document::parse(format, &text).ok());
    let Some(value) = document.and_then(|document| document.value(&origin.path())) else { return false };
    // What this record took out must be back as it was; another of the name is not the same server.
    let edits = record.files.iter().filter(|file| file.path == origin.file).flat_map(|file| &file.edits);
    let mut taken_out = edits.filter(|edit| edit.after.is_none() && edit.path() == origin.path());
    taken_out.all(|edit| edit.before.as_ref() == Some(&value))
}

fn carry_out(records: &mut [BackupRecord], index: usize, plans: Vec<FilePlan>) -> Result<Undone, Error> {
    let (backup, client) = (records[index].0.clone(), records[index].1.client.clone());
    let mut undone = Undone { client, files: Vec::new(), notes: Vec::new(), kept: None };
    for (number, plan) in plans.iter().enumerate().filter(|(_, plan)| plan.overwrites) {
        keep(&backup.join(format!("{number}-replaced")), plan.current.as_deref().unwrap_or_default())?;
        undone.kept = Some(backup.clone());
    }
    let written: Vec<_> = records[index].1.files.clone();
    let (mut left, mut changed) = (Vec::new(), BTreeSet::new());
    for (file, plan) in written.into_iter().zip(plans) {
        if plan.text != plan.current {
            write_back(&file, plan.text.as_deref(), plan.how == Restored::Whole)?;
        }
        if plan.how == Restored::Entries && file.copy.is_none() {
            changed.extend(pass_creation(records, index, &file));
        }
        for (other, edit) in plan.passed {
            pass(&mut records[other].1, &file, edit);
            changed.insert(other);
        }
        undone.notes.extend(plan.notes);
        undone.files.push(UndoneFile {
            path: file.path.clone(),
            how: plan.how,
            before: plan.current.unwrap_or_default(),
            after: plan.text.unwrap_or_default(),
        });
        if !plan.left.is_empty() {
            left.push(RecordFile { edits: plan.left, hash: String::new(), ..file });
        }
    }
    let is_spent = left.is_empty();
    records[index].1.files = left;
    changed.extend((!is_spent).then_some(index));
    for number in changed {
        let (backup, record) = &records[number];
        save(backup, record)?;
    }
    // Without its record it is no way back any more.
    match (is_spent, &undone.kept) {
        (false, _) => {}
        (true, Some(backup)) => drop(fs::remove_file(backup.join(RECORD))),
        (true, None) => drop(fs::remove_dir_all(&backup)),
    }
    Ok(undone)
}

/// Gives another record the duty to take an edit back.
fn pass(record: &mut Record, file: &RecordFile, edit: Edit) {
    match record.files.iter_mut().find(|other| other.path == file.path) {
        Some(other) => other.edits.push(edit),
        None => record.files.push(RecordFile {
            // It was there, and no copy of it is.
            copy: Some("none".to_owned()),
            hash: String::new(),
            edits: vec![edit],
            folders: Vec::new(),
            ..file.clone()
        }),
    }
}

/// The file stays, because of others: the oldest of their records removes it when it is empty. Which one that is.
fn pass_creation(records: &mut [BackupRecord], index: usize, file: &RecordFile) -> Option<usize> {
    let has_it = |(_, record): &BackupRecord| record.files.iter().any(|other| other.path == file.path);
    let other = (0..records.len()).rev().find(|other| *other != index && has_it(&records[*other]))?;
    for same in records[other].1.files.iter_mut().filter(|other| other.path == file.path) {
        same.copy = None;
        same.folders.extend(file.folders.iter().cloned());
    }
    Some(other)
}

fn save(backup: &Path, record: &Record) -> Result<(), Error> {
    let path = backup.join(RECORD);
    let unwritable = |err: io::Error| failed(format!("`{}` cannot be written: {err}", path.display())).caused_by(err);
    let text = serde_json::to_string_pretty(record).map_err(|err| unwritable(err.into()))?;
    own_files::write(&path, text.as_bytes(), own_files::Sync::Now).map_err(unwritable)
}
