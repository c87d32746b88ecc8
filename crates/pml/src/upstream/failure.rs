//! Why a server could not do what it was asked, and whether the request may have had an effect all the same.

use pml_wire::{Delivery, ErrorCode, message::CallError};
use serde_json::Value;

use crate::room::Full;

/// What went wrong between pml and a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub code: ErrorCode,
    /// Written for the agent; may end with the server's last lines on stderr.
    pub message: String,
    pub retry: Retry,
    /// Whether the request may have had an effect.
    pub outcome: Delivery,
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
    /// The server cannot be reached over this connection: connect anew, and send the request again.
    Reconnect,
    /// The server has forgotten the session: begin a new session and send the request again, once.
    NewSession,
}

/// What a second call of the same tool with the same arguments does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// Nothing that the first call did not do: a trusted server calls the tool read-only or idempotent.
    Harmless,
    /// Perhaps the same thing twice.
    Unknown,
}

impl Failure {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>, retry: Retry) -> Failure {
        Failure { code, message: message.into(), retry, outcome: code.delivery(), data: None }
    }

    /// The server did not start, and will not by itself.
    pub(super) fn never(message: impl Into<String>) -> Failure {
        Failure::new(ErrorCode::ProviderInitFailed, message, Retry::Never)
    }

    /// The server did not start this time.
    pub(super) fn later(message: impl Into<String>) -> Failure {
        Failure::new(ErrorCode::ProviderInitFailed, message, Retry::Later)
    }

    pub(super) fn protocol(message: impl Into<String>) -> Failure {
        Failure::new(ErrorCode::ProviderProtocol, message, Retry::Later)
    }

    /// The same failure, told after `context`.
    #[must_use]
    pub(super) fn within(mut self, context: &str) -> Failure {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// The failure of a request that never left pml.
    #[must_use]
    pub(super) fn unsent(self) -> Failure {
        Failure { outcome: Delivery::NotSent, ..self }
    }

    /// The failure of a request that has left pml, unless the server's answer is known.
    #[must_use]
    pub(super) fn uncertain(self) -> Failure {
        match self.outcome {
            Delivery::NotSent => Failure { outcome: Delivery::Unknown, ..self },
            Delivery::Unknown | Delivery::Answered => self,
        }
    }

    /// The failure as a program sees it, of a call whose repetition does what `repetition` says.
    pub fn into_call_error(self, repetition: Repetition) -> CallError {
        let Failure { code, message, outcome, data, .. } = self;
        let may_repeat = outcome != Delivery::Unknown || repetition == Repetition::Harmless;
        let retryable = code.is_retryable() && may_repeat;
        let is_open = matches!(
            code,
            ErrorCode::ProviderUnavailable
                | ErrorCode::ProviderTimeout
                | ErrorCode::ProviderCrashed
                | ErrorCode::ProviderProtocol
        );
        let message = match outcome {
            Delivery::Unknown if is_open && may_repeat => {
                noted(message, "the call was sent and may have happened; the tool may be called again")
            }
            Delivery::Unknown if is_open => {
                noted(message, "the call was sent and may have happened: check before it is repeated")
            }
            Delivery::NotSent if is_open => noted(message, "the call was not sent"),
            _ => message,
        };
        // The data of a JSON-RPC error is kept beside its code.
        let (rpc_code, data) = match data {
            Some(mut data) if data["rpc_code"].is_i64() => {
                (data["rpc_code"].as_i64(), data.get_mut("data").map(Value::take))
            }
            data => (None, data),
        };
        CallError { code, message, retryable, outcome, data, rpc_code }
    }
}

/// A message with a note behind its first line: what follows are the server's own words.
fn noted(message: String, note: &str) -> String {
    match message.split_once('\n') {
        Some((first, rest)) => format!("{first}; {note}\n{rest}"),
        None => format!("{message}; {note}"),
    }
}

/// Why requests over a connection that pml has closed fail.
pub(super) fn stopped() -> Failure {
    Failure::new(ErrorCode::ProviderUnavailable, "the server was stopped", Retry::Later)
}

impl From<Full> for Failure {
    fn from(full: Full) -> Failure {
        let error = CallError::from(full);
        Failure::new(error.code, error.message, Retry::Later)
    }
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> CallError {
        failure.into_call_error(Repetition::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_had_no_effect_or_may_be_repeated_is_retryable() {
        use ErrorCode::{ProviderCrashed, ProviderInitFailed, ProviderProtocol, ProviderTimeout, ProviderUnavailable};
        #[rustfmt::skip]
        let table = [
            // code                outcome             repetition            retryable  note
            (ProviderCrashed,     Delivery::Unknown,  Repetition::Unknown,  false, "gone; the call was sent and may have happened: check"),
            (ProviderCrashed,     Delivery::Unknown,  Repetition::Harmless, true,  "gone; the call was sent and may have happened; the tool"),
            (ProviderCrashed,     Delivery::NotSent,  Repetition::Unknown,  true,  "gone; the call was not sent\n"),
            (ProviderTimeout,     Delivery::Unknown,  Repetition::Unknown,  false, "may have happened"),
            (ProviderUnavailable, Delivery::NotSent,  Repetition::Unknown,  true,  "not sent"),
            (ProviderUnavailable, Delivery::Unknown,  Repetition::Unknown,  false, "may have happened"),
            (ProviderProtocol,    Delivery::Unknown,  Repetition::Harmless, false, "may have happened"),
            (ProviderInitFailed,  Delivery::NotSent,  Repetition::Harmless, false, "gone\n"),
        ];
        for (code, outcome, repetition, retryable, note) in table {
            let failure = Failure { outcome, ..Failure::new(code, "gone\nlast words", Retry::Later) };
            let error = failure.into_call_error(repetition);
            assert_eq!((error.retryable, error.outcome), (retryable, outcome), "{code} {outcome:?} {repetition:?}");
            assert!(error.message.contains(note) && error.message.ends_with("\nlast words"), "{}", error.message);
        }
    }
}
