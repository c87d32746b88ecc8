//! Why something is not formatted.

/// The JavaScript error that it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    Range,
    Type,
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn range(message: impl Into<String>) -> Failure {
        Failure { kind: FailureKind::Range, message: message.into() }
    }

    pub(crate) fn type_error(message: impl Into<String>) -> Failure {
        Failure { kind: FailureKind::Type, message: message.into() }
    }
}

/// A program's value in a message.
pub(super) fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(60)]
}
