//! The part of `pml doctor` about files: which make the configuration, and whether they and pml's own are safe to use.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    audit,
    config::{self, Config, Project, Sources, Text},
    error::Error,
    files::{self, Kind},
    shown::visible,
    trace::store,
    upstream::oauth::Logins,
};

/// What is to be said about one file.
#[derive(Debug)]
struct Row {
    path: PathBuf,
    role: &'static str,
    state: State,
    message: String,
    hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Used,
    /// There, and no part of anything, as it should be.
    Unused,
    Failed,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            State::Used => "used",
            State::Unused => "unused",
            State::Failed => "failed",
        }
    }
}

/// Shows which files count. The same as JSON, and whether all are well.
pub(super) fn check(as_json: bool, config: &Config, project: &Project, sources: &Sources) -> (Vec<Value>, bool) {
    let rows = rows(config, project, sources);
    if !as_json {
        let _ = print(&rows);
    }
    let all_well = rows.iter().all(|row| row.state != State::Failed);
    let to_json = |row: Row| {
        json!({
            "path": row.path, "role": row.role, "state": row.state.as_str(), "message": row.message, "hint": row.hint,
        })
    };
    (rows.into_iter().map(to_json).collect(), all_well)
}

fn rows(config: &Config, project: &Project, sources: &Sources) -> Vec<Row> {
    let mut rows = Vec::new();
    // What could not be used of these has ended pml already.
    let used = |path: &Path, role, message: &str| Row {
        path: path.to_owned(),
        role,
        state: State::Used,
        message: message.to_owned(),
        hint: None,
    };
    let is_named = config::is_file_named(sources.file.as_deref());
    if let Ok(own) = config::own_file(sources.file.as_deref())
        && own.exists()
    {
        rows.push(match is_named {
            true => used(&own, "named", "the configuration, and no other file"),
            false => used(&own, "user", "your own configuration"),
        });
    }
    match project {
        Project::Absent => {}
        Project::Used(Text { path, .. }) => rows.push(used(path, "project", "this folder's, which you trust")),
        Project::Held(Text { path, .. }, _) | Project::Unused(path, _) => {
            let (message, hint) = project.warning().unwrap_or_default();
            rows.push(Row { path: path.clone(), role: "project", state: State::Unused, message, hint: Some(hint) });
        }
    }
    rows.extend(sources.client_files.iter().map(|path| used(path, "client", "a client's servers")));
    if let Some(folder) = &config.data_dir {
        rows.extend(data(folder));
    }
    rows
}

/// The files in the data folder that decide something or hold secrets.
fn data(folder: &Path) -> Vec<Row> {
    let parts = [
        ("trust", config::Store::new(folder).path().to_owned(), "what you trust"),
        ("token", folder.join("token"), "the token of clients over HTTP"),
        ("logins", Logins::new(folder).path(), "logins at servers"),
        ("audit", folder.join(audit::FILE), "the audit log"),
        ("traces", folder.join(store::FOLDER).join("traces.db"), "traces of executions"),
    ];
    // A database must not be opened behind its library's back.
    let is_usable = |role, path: &Path| match role {
        "traces" => files::look(path, Kind::Private),
        _ => files::is_usable(path, Kind::Private),
    };
    let row = |(role, path, what): (&'static str, PathBuf, &str)| match is_usable(role, &path) {
        Ok(false) => None,
        Ok(true) => Some(Row { path, role, state: State::Used, message: what.to_owned(), hint: None }),
        Err(problem) => {
            let Error { message, hint, .. } = problem.of(&path);
            Some(Row { path, role, state: State::Failed, message, hint })
        }
    };
    parts.into_iter().filter_map(row).collect()
}

fn print(rows: &[Row]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "files:")?;
    if rows.is_empty() {
        writeln!(stdout, "  -        none; everything has its default")?;
    }
    for Row { path, state, message, hint, .. } in rows {
        let (path, message) = (path.display().to_string(), visible(message));
        match state {
            State::Used => writeln!(stdout, "  ok       {}: {message}", visible(&path))?,
            State::Unused => writeln!(stdout, "  -        {message}")?,
            State::Failed => writeln!(stdout, "  FAILED   {message}")?,
        }
        if let Some(hint) = hint {
            writeln!(stdout, "           hint: {}", visible(hint))?;
        }
    }
    Ok(())
}
