//! A mistake in a client's file, with its position.

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct Mistake {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

impl Mistake {
    pub(super) fn at(text: &str, offset: usize, message: &str) -> Mistake {
        let before = &text[..text.floor_char_boundary(offset)];
        let column = before.rsplit('\n').next().unwrap_or_default().trim_start_matches('\u{feff}').chars().count() + 1;
        Mistake { line: before.matches('\n').count() + 1, column, message: message.to_owned() }
    }
}
