//! The variables of the environment that pml reads, each under the name of what it decides.
//!
//! **Invariant:** nothing else in pml reads the environment.

use std::path::{Path, PathBuf};

use super::{KEY_VARIABLE, data_folder, environment, expand};

pub(super) fn config_dir() -> Option<PathBuf> {
    user_dir("XDG_CONFIG_HOME", ".config")
}

pub(super) fn data_dir() -> Option<PathBuf> {
    match variable("PML_DATA_DIR").filter(|path| !path.is_empty()) {
        Some(path) => Some(PathBuf::from(path)),
        None => user_dir("XDG_DATA_HOME", ".local/share"),
    }
}

fn user_dir(name: &str, otherwise: &str) -> Option<PathBuf> {
    let folder = variable(name).filter(|path| path.starts_with('/')).map(PathBuf::from);
    let folder = folder.or_else(|| variable("HOME").map(|home| Path::new(&home).join(otherwise)));
    folder.map(|folder| folder.join("pml"))
}

/// What the environment says.
#[expect(clippy::disallowed_methods, reason = "this is config")]
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The names of all variables that can be passed on.
pub(super) fn variable_names() -> Vec<String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()
}

/// The names of variables that are set here and that a server with the variables `given` did not get, those first that
/// servers need most often.
pub fn missed_variables(given: &dyn Fn(&str) -> bool) -> Vec<String> {
    environment::missed(&variable_names(), given)
}

/// A text with the values of variables put in. The error is the name of one that is not set.
pub(crate) fn expanded(text: &str) -> Result<String, String> {
    expand::expand(text, &variable)
}

/// The value of a variable that the user has named.
pub fn named_variable(name: &str) -> Option<String> {
    variable(name).filter(|value| !value.is_empty())
}

/// Is there a screen on which a browser could open?
pub fn has_display() -> bool {
    cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| named_variable(name).is_some())
}

/// The token for HTTP, if the environment has one.
pub fn token() -> Option<String> {
    variable("PML_TOKEN").filter(|token| !token.is_empty())
}

/// The key of a hub, if the environment has one.
pub fn hub_key() -> Option<String> {
    variable(KEY_VARIABLE).filter(|key| !key.is_empty())
}

/// Where the token for HTTP is kept, if there is a place for it.
pub(crate) fn token_file(explicit: Option<&Path>) -> Option<PathBuf> {
    data_folder(explicit).map(|folder| folder.join("token"))
}

/// Where backups are kept, if there is a place for them.
pub(crate) fn backup_dir(explicit: Option<&Path>) -> Option<PathBuf> {
    data_folder(explicit).map(|folder| folder.join("backups"))
}

/// May text be coloured? Not if `$NO_COLOR` says anything, or the terminal is a dumb one.
pub(crate) fn allows_color() -> bool {
    variable("NO_COLOR").is_none_or(|text| text.is_empty()) && variable("TERM").is_none_or(|text| text != "dumb")
}

/// Can the terminal write over a line?
pub(crate) fn moves_cursor() -> bool {
    variable("TERM").is_some_and(|text| text != "dumb")
}

/// What `$PML_LOG` or `$RUST_LOG` says, for the log.
pub fn log_filter() -> Option<String> {
    variable("PML_LOG").or_else(|| variable("RUST_LOG"))
}
