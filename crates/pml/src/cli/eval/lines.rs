//! Files with a JSON object per line.

use std::{fs, io, path::Path};

use pml_wire::ErrorCode;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::error::Error;

/// A tool, as `pml eval` reads it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolLine {
    pub(super) id: String,
    #[serde(default)]
    pub(super) server: Option<String>,
    /// The server, in files that were not made for pml.
    #[serde(default)]
    pub(super) group: Option<String>,
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: Option<String>,
    #[serde(default)]
    pub(super) input_schema: Value,
}

/// Reads all lines but empty ones, each with its number. `command` is whose help says what a line has.
pub(super) fn read_lines<T: DeserializeOwned>(path: &Path, command: &str) -> Result<Vec<(usize, T)>, Error> {
    let text = fs::read_to_string(path).map_err(|err| unusable(path, "read", &err))?;
    let text = text.trim_start_matches('\u{feff}');
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parse = |(number, line): (usize, &str)| match serde_json::from_str(line) {
        Ok(parsed) => Ok((number + 1, parsed)),
        Err(err) => Err(wrong_line(path, number + 1, &err.to_string(), command)),
    };
    lines.map(parse).collect()
}

pub(super) fn wrong_line(path: &Path, number: usize, why: &str, command: &str) -> Error {
    let message = format!("line {number} of `{}` cannot be understood: {why}", path.display());
    Error::new(ErrorCode::ConfigInvalid, message).with_hint(format!("`pml eval {command} --help` says what a line has"))
}

pub(super) fn unusable(path: &Path, verb: &str, err: &io::Error) -> Error {
    Error::new(ErrorCode::ConfigInvalid, format!("`{}` cannot be {verb}: {err}", path.display()))
}
