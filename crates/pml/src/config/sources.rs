//! Which files make the configuration, and whether they may.
//!
//! A file that is named (`--config`, `$PML_CONFIG`) is the configuration alone. Otherwise it is the user's own file, with
//! the `pml.toml` of the working directory over it if the user has trusted that: a folder is not trusted because pml is
//! started in it. Nothing of a project file that is not trusted is used; pml goes on without it and says so.
//!
//! Each file is read once: the bytes that are checked and hashed are the bytes that are used.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use pml_wire::ErrorCode;

use super::{
    Config, File, clients, config_dir, data_dir,
    difference::{Difference, differences},
    merge::{check_project, merge},
    trust::{self, Record, Store},
    variable,
};
use crate::{
    digest::sha256,
    error::Error,
    files::{self, Kind, Problem},
};

/// The name of a configuration file.
pub const NAME: &str = "pml.toml";
/// Longest configuration file.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Settings that are named where a file has changed.
const SHOWN_SETTINGS: usize = 8;

/// Where settings come from, besides the environment.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `--config`
    pub file: Option<PathBuf>,
    /// `--mcp-config`, each a client's own file.
    pub client_files: Vec<PathBuf>,
    /// `--data-dir`
    pub data_dir: Option<PathBuf>,
}

/// A configuration, and what part the project's file has in it.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    pub project: Project,
}

/// The `pml.toml` of the working directory, and whether it is part of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Project {
    /// There is none, or another file was named.
    #[default]
    Absent,
    Used(Text),
    /// The file is not trusted as it is now. The text that was in use goes on.
    Held(Text, Distrust),
    Unused(PathBuf, Distrust),
}

/// What a file said when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    pub path: PathBuf,
    pub text: String,
}

/// Why a project's file does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// The user has not seen it.
    New,
    /// The user has seen another text. The hash is that of the one that is there.
    Changed { sha256: String, settings: Vec<String> },
    /// It is not safe to use, whatever it says.
    Unsafe { what: String, hint: Option<String> },
    /// What is trusted cannot be known.
    Unknown(String),
}

impl Project {
    /// The text that is part of the configuration.
    fn in_use(&self) -> Option<&Text> {
        match self {
            Project::Used(text) | Project::Held(text, _) => Some(text),
            Project::Absent | Project::Unused(..) => None,
        }
    }

    /// Is there a file that does not count?
    pub fn is_distrusted(&self) -> bool {
        matches!(self, Project::Held(..) | Project::Unused(..))
    }

    /// What is to be said about a file that does not count, and what to do about it.
    pub fn warning(&self) -> Option<(String, String)> {
        let (path, distrust) = match self {
            Project::Absent | Project::Used(_) => return None,
            Project::Held(Text { path, .. }, distrust) | Project::Unused(path, distrust) => (path, distrust),
        };
        let trust = "`pml trust` shows what it would do, and asks whether you trust it";
        let (why, hint) = match distrust {
            Distrust::New => ("is not trusted".to_owned(), trust.to_owned()),
            Distrust::Changed { settings, .. } => {
                (format!("has changed since you trusted it ({})", settings.join(", ")), trust.to_owned())
            }
            Distrust::Unsafe { what, hint } => {
                let remove = "put a file of your own in its place, or remove it";
                (what.clone(), hint.clone().unwrap_or_else(|| remove.to_owned()))
            }
            Distrust::Unknown(why) => {
                (format!("is not known to be trusted: {why}"), "--config uses a file without trust".to_owned())
            }
        };
        let path = path.display();
        let message = match self {
            Project::Held(..) => format!("`{path}` {why}; the text that you trusted stays in use"),
            _ => format!("`{path}` is not used: it {why}"),
        };
        Some((message, hint))
    }
}

impl Config {
    /// The files that say what the configuration is. Those that are not there count as soon as they are.
    pub fn files(sources: &Sources) -> Vec<PathBuf> {
        let mut paths = match named_file(sources.file.as_deref()) {
            Some(path) => vec![path],
            None => {
                let trusted =
                    data_folder(sources.data_dir.as_deref()).map(|folder| Store::new(&folder).path().to_owned());
                user_file().into_iter().chain(project_place()).chain(trusted).collect()
            }
        };
        paths.extend(sources.client_files.iter().cloned());
        paths
    }

    /// Finds and reads the configuration.
    pub fn load(sources: &Sources) -> Result<Loaded, Error> {
        Config::load_again(sources, &Project::Absent)
    }

    /// Reads the configuration while one is in use. A project's file that has changed since does not count until it is
    /// trusted, and the text that was in use stays as long as that is trusted.
    pub fn load_again(sources: &Sources, before: &Project) -> Result<Loaded, Error> {
        let (mut file, project, model_base) = written(sources, before)?;
        for path in &sources.client_files {
            let text = read(path)?;
            let servers = clients::parse(&text).map_err(|message| invalid(path, message))?;
            check_alone(path, File { servers: servers.clone(), ..File::default() })?;
            for (name, server) in servers {
                if file.servers.insert(name.clone(), server).is_some() {
                    return Err(invalid(path, format!("server `{name}` is configured already")));
                }
            }
        }
        let mut config = Config::check(file, &variable).map_err(|message| {
            // Each of them is fine by itself.
            let files = Config::files(sources).into_iter().filter(|path| path.exists());
            let files: Vec<_> = files.map(|path| format!("`{}`", path.display())).collect();
            Error::new(ErrorCode::ConfigInvalid, format!("in {} together: {message}", files.join(" and ")))
        })?;
        config.data_dir = data_folder(sources.data_dir.as_deref());
        if let (Some(Ok(model_dir)), Some(base)) = (&mut config.search.model_dir, model_base) {
            *model_dir = base.join(&*model_dir);
        }
        Ok(Loaded { config, project })
    }
}

/// The user's file and the project's together, as far as they count, as they are written.
pub fn written_file(sources: &Sources) -> Result<File, Error> {
    written(sources, &Project::Absent).map(|(file, ..)| file)
}

/// The same, with what became of the project's file, and the folder that `search.model_dir` starts from.
fn written(sources: &Sources, before: &Project) -> Result<(File, Project, Option<PathBuf>), Error> {
    if let Some(folder) = data_folder(sources.data_dir.as_deref()) {
        files::secure_folder(&folder).map_err(|problem| {
            let err = problem.of(&folder);
            err.with_hint("name a folder of your own with --data-dir")
        })?;
    }
    let folder_of = |path: &Path| path.parent().map(Path::to_owned);
    if let Some(path) = named_file(sources.file.as_deref()) {
        let file = parse_checked(&path, &read(&path)?)?;
        return Ok((file, Project::Absent, folder_of(&path)));
    }
    let own_path = user_file();
    let own = match &own_path {
        // A home that is closed to this user has no file for them.
        Some(path) if !matches!(path.try_exists(), Err(err) if err.kind() == io::ErrorKind::PermissionDenied) => {
            match read_if_there(path)? {
                Some(text) => parse_checked(path, &text)?,
                None => File::default(),
            }
        }
        _ => File::default(),
    };
    let project = find_project(sources, own_path.as_deref(), before);
    let Some(Text { path, text }) = project.in_use() else {
        return Ok((own, project, own_path.as_deref().and_then(folder_of)));
    };
    let theirs = parse_project(path, text)?;
    let model_base = match (&theirs.search.model_dir, &own_path) {
        (None, Some(own_path)) => folder_of(own_path),
        _ => folder_of(path),
    };
    Ok((merge(theirs, own), project, model_base))
}

/// Parses and checks the text of a project's file.
pub fn parse_project(path: &Path, text: &str) -> Result<File, Error> {
    let file = parse_checked(path, text)?;
    check_project(&file).map_err(|message| {
        let hint = match user_file() {
            Some(own) => format!("remove it there; your own file is {}", own.display()),
            None => "remove it there".to_owned(),
        };
        invalid(path, message).with_hint(hint)
    })?;
    Ok(file)
}

/// The project's file, and whether it counts.
fn find_project(sources: &Sources, own: Option<&Path>, before: &Project) -> Project {
    let Some(path) = project_place().filter(|path| !is_same_file(path, own)) else { return Project::Absent };
    let text = match read_project(&path) {
        Ok(Some(text)) => text,
        Ok(None) => return Project::Absent,
        Err(problem) => {
            let distrust = Distrust::Unsafe { what: problem.to_string(), hint: problem.hint(&path) };
            return held(before, sources, path, distrust);
        }
    };
    let record = match find_record(sources, &path) {
        Ok(record) => record,
        // Whatever was trusted, nobody can tell.
        Err(why) => return Project::Unused(path, Distrust::Unknown(why)),
    };
    match record {
        None => Project::Unused(path, Distrust::New),
        Some(record) if record.covers(&text) => Project::Used(Text { path, text }),
        Some(record) => {
            let settings = differences(Some(&record.text), &text);
            let mut settings: Vec<_> = settings.iter().map(Difference::name).collect();
            if settings.len() > SHOWN_SETTINGS {
                settings.truncate(SHOWN_SETTINGS);
                settings.push("…".to_owned());
            }
            if settings.is_empty() {
                settings.push("in comments or notation only".to_owned());
            }
            let distrust = Distrust::Changed { sha256: sha256(&text), settings };
            held(before, sources, path, distrust)
        }
    }
}

/// The text that was in use before, if it is of this file and the user still trusts it.
fn held(before: &Project, sources: &Sources, path: PathBuf, distrust: Distrust) -> Project {
    match (before.in_use(), find_record(sources, &path)) {
        (Some(old), Ok(Some(record))) if old.path == path && record.covers(&old.text) => {
            Project::Held(old.clone(), distrust)
        }
        _ => Project::Unused(path, distrust),
    }
}

fn find_record(sources: &Sources, path: &Path) -> Result<Option<Record>, String> {
    let Some(folder) = data_folder(sources.data_dir.as_deref()) else {
        return Err("there is no folder that says what you trust: `HOME` is not set".to_owned());
    };
    Store::new(&folder).find(path).map_err(|err| err.message)
}

/// The text of a project's file, if it is safe to look at.
pub fn read_project(path: &Path) -> Result<Option<String>, Problem> {
    match files::read(path, Kind::Settings, MAX_BYTES)? {
        None => Ok(None),
        Some(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Problem::Unreadable(io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))),
        },
    }
}

/// Where the project's file is, or would be: the working directory without links.
pub fn project_place() -> Option<PathBuf> {
    trust::place(Path::new(NAME))
}

fn is_same_file(path: &Path, other: Option<&Path>) -> bool {
    match (fs::canonicalize(path), other.map(fs::canonicalize)) {
        (Ok(path), Some(Ok(other))) => path == other,
        _ => false,
    }
}

/// The file that is named, and then is the only one. It must be there; reading it says so otherwise.
fn named_file(explicit: Option<&Path>) -> Option<PathBuf> {
    explicit.map(Path::to_owned).or_else(|| variable("PML_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from))
}

/// The user's own file, if there is a place for one.
pub fn user_file() -> Option<PathBuf> {
    config_dir().map(|folder| folder.join(NAME))
}

/// The file that commands change: the one that is named, or else the user's own. Never a project's, unless it is named.
pub fn own_file(explicit: Option<&Path>) -> Result<PathBuf, Error> {
    named_file(explicit).or_else(user_file).ok_or_else(|| {
        let err = Error::new(ErrorCode::ConfigInvalid, "there is no place for your pml.toml: `HOME` is not set");
        err.with_hint("name a file with --config")
    })
}

/// Is a file named, so that no other counts?
pub fn is_file_named(explicit: Option<&Path>) -> bool {
    named_file(explicit).is_some()
}

/// The data folder, if there is a place for one.
pub fn data_folder(explicit: Option<&Path>) -> Option<PathBuf> {
    explicit.map(Path::to_owned).or_else(data_dir)
}

fn parse_checked(path: &Path, text: &str) -> Result<File, Error> {
    let file = File::parse(text).map_err(|message| invalid(path, message))?;
    check_alone(path, file.clone())?;
    Ok(file)
}

/// Checks one file by itself, so that a mistake is reported with the name of its file.
fn check_alone(path: &Path, file: File) -> Result<(), Error> {
    Config::check(file, &variable).map(drop).map_err(|message| invalid(path, message))
}

fn invalid(path: &Path, message: String) -> Error {
    Error::new(ErrorCode::ConfigInvalid, format!("in `{}`: {message}", path.display()))
}

/// A file that must be there.
fn read(path: &Path) -> Result<String, Error> {
    read_if_there(path)?.ok_or_else(|| {
        let err = io::Error::from(rustix::io::Errno::NOENT);
        let message = format!("`{}` cannot be read: {err}", path.display());
        Error::new(ErrorCode::ConfigInvalid, message).caused_by(err)
    })
}

fn read_if_there(path: &Path) -> Result<Option<String>, Error> {
    read_project(path).map_err(|problem| problem.of(path))
}
