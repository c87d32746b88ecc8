//! Removes secrets and personal data from what pml keeps and sends.
//!
//! [`Sanitizer`] takes texts, JSON and traces. A text passes through an automaton over everything that begins, marks or
//! names a secret (`automaton.rs`); checks written by hand decide at each hit (`services.rs`, `tokens.rs`, `assignment.rs` with the files
//! that it uses, `headers.rs`, `statements.rs`, `tables.rs`, `url.rs`, `pem.rs`), and further passes find what has no fixed beginning (`encoded.rs`, `email.rs`,
//! `numbers.rs`). JSON is walked over with its names (`document.rs`, `keys.rs`, `value.rs`).
//!
//! **Invariant:** linear in the length of its input, never a panic, s(s(x)) = s(x), and what comes out of JSON is JSON.
//! Nothing else makes a [`SanitizedTrace`](super::SanitizedTrace).

mod assignment;
mod automaton;
mod bounds;
mod document;
mod email;
mod encoded;
mod finding;
mod headers;
mod joint;
mod keys;
mod literal;
mod names;
mod numbers;
mod pem;
mod sanitizer;
mod scan;
mod sentences;
mod services;
mod settings;
mod shape;
mod statements;
mod tables;
mod tokens;
mod traces;
mod url;
mod value;

pub use self::finding::Counts;
pub use self::sanitizer::{MAX_STRING_BYTES, Report, Sanitizer};
pub use self::settings::{RuleFile, Rules, SanitizeFile};
pub use self::traces::MAX_TRACE_BYTES;
