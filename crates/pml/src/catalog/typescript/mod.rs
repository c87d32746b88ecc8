//! Tools as TypeScript: signatures for search results and messages, and declarations for editors.
//!
//! A schema is read as a type (`schema`), which is written in one line or in many (`text`).
//! Where a schema says more than a type can, the type is wider: what a tool accepts is never
//! refused here. The one exception is arguments that a schema neither names nor forbids; they are
//! refused, since they are mostly misspelt.
//!
//! Schemas and descriptions come from servers, so all of them may be hostile.
//!
//! **Invariant:** any schema gives valid TypeScript, in bounded time and of bounded size.

mod comment;
mod declare;
#[cfg(test)]
mod fit;
#[cfg(test)]
mod hostile;
mod merge;
mod names;
mod schema;
mod text;
mod types;

pub use declare::{Declared, Returned, declarations, signature, type_line};
#[cfg(test)]
pub(super) use fit::{Fit, fits};
pub use names::alias;
pub(super) use names::quoted;
