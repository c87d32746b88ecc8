//! Changes to files on the command line: shown, asked about, made, taken back.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use pml_wire::ErrorCode;

use super::{USAGE, fail};
use crate::{
    clients::{self, Change, Format, Restored, UndoneFile},
    config::{self, Store},
    error::Error,
    files::{self, Problem},
    shown::visible,
};

/// What the command line says about asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consent {
    Given,
    /// Only shown.
    DryRun,
    /// To be asked for.
    Ask,
}

impl Consent {
    pub(super) fn new(yes: bool, dry_run: bool) -> Consent {
        match (dry_run, yes) {
            (true, _) => Consent::DryRun,
            (false, true) => Consent::Given,
            (false, false) => Consent::Ask,
        }
    }
}

/// What became of changes.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Made; the copies are here.
    Made(PathBuf),
    /// Only shown, as asked.
    Shown,
    Declined,
    /// There was nobody to ask.
    Nobody,
}

impl Outcome {
    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            Outcome::Made(_) | Outcome::Shown => ExitCode::SUCCESS,
            Outcome::Declined => ExitCode::FAILURE,
            Outcome::Nobody => ExitCode::from(USAGE),
        }
    }
}

/// What changes, without secrets.
pub(super) fn diff(change: &Change) -> String {
    let masked = |text: &str| clients::masked(change.format, text);
    let before = masked(change.before.as_deref().unwrap_or_default());
    let lines = clients::diff(&before, &masked(&change.after), &clients::mask_words);
    let lines = if lines.is_empty() { "  (only in what is not shown)\n".to_owned() } else { lines };
    let path = change.path.display();
    let head = match change.before {
        Some(_) => format!("--- {path}\n+++ {path}\n"),
        None => format!("+++ {path} (new)\n"),
    };
    visible(&format!("{head}{lines}")).into_owned()
}

/// Shows what changes.
pub(super) fn show(changes: &[Change]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let is_coloured = stdout.is_terminal() && config::allows_color();
    for change in changes {
        for line in diff(change).lines() {
            let color = match line.as_bytes().first() {
                Some(b'+') => "\x1b[32m",
                Some(b'-') => "\x1b[31m",
                _ => "",
            };
            match is_coloured && !color.is_empty() {
                true => writeln!(stdout, "{color}{line}\x1b[0m")?,
                false => writeln!(stdout, "{line}")?,
            }
        }
    }
    stdout.flush()
}

/// Asks, where that is wanted and possible. `None` if it is to be done.
pub(super) fn decide(consent: Consent, question: &str) -> Option<Outcome> {
    match consent {
        Consent::DryRun => {
            say("nothing is changed: --dry-run");
            Some(Outcome::Shown)
        }
        Consent::Ask if !(io::stdin().is_terminal() && io::stderr().is_terminal()) => {
            say("nothing is changed: there is no terminal to ask at");
            say("hint: --yes does it without asking");
            Some(Outcome::Nobody)
        }
        Consent::Ask if !ask(question) => {
            say("nothing is changed");
            Some(Outcome::Declined)
        }
        Consent::Ask | Consent::Given => None,
    }
}

/// Makes the changes, if that is wanted.
pub(super) fn make(
    changes: &[Change],
    consent: Consent,
    data_dir: Option<&Path>,
    (command, client): (&str, &str),
) -> Result<Outcome, Error> {
    if let Some(outcome) = decide(consent, "do it? [y/N] ") {
        return Ok(outcome);
    }
    let backup = clients::apply(changes, &backup_dir(data_dir)?, command, client)?;
    for change in changes.iter().filter(|change| change.format == Format::Toml) {
        match (&change.before, config::data_folder(data_dir), config::place(&change.path)) {
            // Whoever has pml make a file trusts what is in it.
            (None, Some(folder), Some(place)) if change.trusts => Store::new(&folder).put(&place, &change.after)?,
            (before, ..) => {
                follow_edit(data_dir, &change.path, before.as_deref().unwrap_or_default(), &change.after)?;
            }
        }
    }
    Ok(Outcome::Made(backup))
}

/// Keeps the trust in a project's file that pml has changed at the user's word.
pub(super) fn follow_edit(data_dir: Option<&Path>, path: &Path, before: &str, after: &str) -> Result<(), Error> {
    match config::data_folder(data_dir) {
        Some(folder) => Store::new(&folder).follow_edit(path, before, after),
        // Where nothing is remembered, nothing is trusted.
        None => Ok(()),
    }
}

/// Trusts nothing at a place where nothing is any more.
fn distrust(data_dir: Option<&Path>, path: &Path) -> Result<(), Error> {
    match (config::data_folder(data_dir), config::place(path)) {
        (Some(folder), Some(place)) if Store::new(&folder).find(&place)?.is_some() => {
            Store::new(&folder).remove(&place).map(drop)
        }
        _ => Ok(()),
    }
}

/// Takes the last ones back.
pub(super) fn undo(data_dir: Option<&Path>, command: &str, client: Option<&str>, is_forced: bool) -> ExitCode {
    let undone = backup_dir(data_dir).and_then(|folder| clients::undo(&folder, command, client, is_forced));
    match undone {
        Ok(undone) => {
            for UndoneFile { path, how, before, after } in undone.files {
                let followed = match how {
                    Restored::Removed => distrust(data_dir, &path),
                    Restored::Whole | Restored::Entries => follow_edit(data_dir, &path, &before, &after),
                };
                if let Err(err) = followed {
                    tracing::warn!("{err}");
                }
                if before == after && how == Restored::Entries {
                    continue;
                }
                let path = path.display();
                say(&match how {
                    Restored::Whole => format!("{path} is as it was"),
                    Restored::Removed => format!("{path} is removed, as it was not there before"),
                    Restored::Entries => format!("{path} has changed since; only the entries are as they were"),
                });
            }
            for note in undone.notes {
                say(&format!("note: {note}"));
            }
            if let Some(kept) = undone.kept {
                say(&format!("what was in the way is kept in {}", kept.display()));
            }
            ExitCode::SUCCESS
        }
        Err(err) => fail(&err, USAGE),
    }
}

fn backup_dir(folder: Option<&Path>) -> Result<PathBuf, Error> {
    data_dir(folder, "keep a backup")?;
    config::backup_dir(folder).ok_or_else(|| no_place("keep a backup"))
}

/// The data folder, which others cannot change. `purpose` is what it is needed for.
pub(super) fn data_dir(folder: Option<&Path>, purpose: &str) -> Result<PathBuf, Error> {
    let folder = config::data_folder(folder).ok_or_else(|| no_place(purpose))?;
    let refused = |problem: Problem| problem.of(&folder).with_hint("name a folder of your own with --data-dir");
    files::secure_folder(&folder).map_err(refused)?;
    Ok(folder)
}

fn no_place(purpose: &str) -> Error {
    let message = format!("there is no place to {purpose}: `HOME` is not set");
    Error::new(ErrorCode::ConfigInvalid, message).with_hint("name one with --data-dir")
}

fn ask(question: &str) -> bool {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "{question}");
    let _ = stderr.flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// A line for whoever is watching.
pub(super) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", visible(line));
}
