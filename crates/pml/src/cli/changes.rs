//! Changes to files on the command line: shown, asked about, made, taken back.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use pml_wire::ErrorCode;

use super::{USAGE, fail};
use crate::{
    clients::{self, Change, Restored},
    config,
    error::Error,
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

/// Makes the changes, if that is wanted.
pub(super) fn make(
    changes: &[Change],
    consent: Consent,
    data_dir: Option<&Path>,
    (command, client): (&str, &str),
) -> Result<Outcome, Error> {
    match consent {
        Consent::DryRun => {
            say("nothing is changed: --dry-run");
            return Ok(Outcome::Shown);
        }
        Consent::Ask if !(io::stdin().is_terminal() && io::stderr().is_terminal()) => {
            say("nothing is changed: there is no terminal to ask at");
            say("hint: --yes does it without asking");
            return Ok(Outcome::Nobody);
        }
        Consent::Ask if !ask("do it? [y/N] ") => {
            say("nothing is changed");
            return Ok(Outcome::Declined);
        }
        Consent::Ask | Consent::Given => {}
    }
    clients::apply(changes, &backup_dir(data_dir)?, command, client).map(Outcome::Made)
}

/// Takes the last ones back.
pub(super) fn undo(data_dir: Option<&Path>, command: &str, client: Option<&str>, is_forced: bool) -> ExitCode {
    let undone = backup_dir(data_dir).and_then(|folder| clients::undo(&folder, command, client, is_forced));
    match undone {
        Ok(undone) => {
            for (path, how) in undone.files {
                let path = path.display();
                say(&match how {
                    Restored::Whole => format!("{path} is as it was"),
                    Restored::Removed => format!("{path} is removed, as it was not there before"),
                    Restored::Entries => format!("{path} has changed since; only the entries are as they were"),
                });
            }
            if let Some(kept) = undone.kept {
                say(&format!("what was in the way is kept in {}", kept.display()));
            }
            ExitCode::SUCCESS
        }
        Err(err) => fail(&err, USAGE),
    }
}

fn backup_dir(data_dir: Option<&Path>) -> Result<PathBuf, Error> {
    config::backup_dir(data_dir).ok_or_else(|| {
        let err = Error::new(ErrorCode::ConfigInvalid, "there is no place for a backup: `HOME` is not set");
        err.with_hint("name one with --data-dir")
    })
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
