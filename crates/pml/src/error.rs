//! An error as it crosses a boundary.

use std::{error, fmt};

use pml_wire::{ErrorCode, message::ErrorReport};

/// Code to branch on, message to show, source to log.
///
/// `message` and `hint` are written for the agent and may be shown to anyone. `source` is written
/// for us, goes to the log only, and is never serialized.
#[derive(Debug)]
pub struct Error {
    pub code: ErrorCode,
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

impl Error {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), hint: None, source: None }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Error {
        self.source = Some(source.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<Error> for ErrorReport {
    fn from(err: Error) -> ErrorReport {
        ErrorReport { hint: err.hint, ..ErrorReport::new(err.code, err.message) }
    }
}
