//! Why a server could not do what it was asked.

use pml_wire::{ErrorCode, message::CallError};

use crate::room::Full;

/// What went wrong between pml and a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub code: ErrorCode,
    /// Written for the agent; may end with the server's last words on stderr.
    pub message: String,
    pub retry: Retry,
    /// What else the server said.
    pub data: Option<serde_json::Value>,
}

/// What may be done after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Connecting again may help.
    Later,
    /// Only a change of the configuration, the server or the login helps.
    Never,
    /// The server has forgotten the session: begin a new one and ask again, once.
    NewSession,
}

impl Failure {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>, retry: Retry) -> Failure {
        Failure { code, message: message.into(), retry, data: None }
    }

    /// It did not start, and will not by itself.
    pub(super) fn never(message: impl Into<String>) -> Failure {
        Failure::new(ErrorCode::ProviderInitFailed, message, Retry::Never)
    }

    /// It did not start this time.
    pub(super) fn later(message: impl Into<String>) -> Failure {
        Failure::new(ErrorCode::ProviderInitFailed, message, Retry::Later)
    }

    pub(super) fn protocol(message: impl Into<String>) -> Failure {
        Failure::new(ErrorCode::ProviderProtocol, message, Retry::Later)
    }

    /// The same, told after `context`.
    #[must_use]
    pub(super) fn within(mut self, context: &str) -> Failure {
        self.message = format!("{context}: {}", self.message);
        self
    }
}

impl From<Full> for Failure {
    fn from(full: Full) -> Failure {
        let error = CallError::from(full);
        Failure::new(error.code, error.message, Retry::Later)
    }
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> CallError {
        CallError { data: failure.data, ..CallError::new(failure.code, failure.message) }
    }
}
