//! Other programs that have MCP servers configured: where their files are, how they write an entry,
//! and how to change one without touching the rest.
//!
//! **Invariant:** a file is written only if it was understood, nobody changed it in the meantime,
//! and a copy of what it was is kept.

mod backup;
mod client;
mod diff;
mod document;
mod entry;
mod env_file;
mod files;
mod jsonc;
mod mistake;
mod secrets;
mod toml;
mod translate;
mod undo;

pub use self::{
    backup::{Change, Edit, Place, apply},
    client::{Client, Format, Scope, Source},
    diff::diff,
    document::Document,
    entry::{How, is_pml, names_token, pml_entry, with_rest},
    files::{read, write},
    mistake::Mistake,
    secrets::{holds_secrets, mask_address, mask_value, mask_words, masked},
    translate::{Base, Translated, entry, translate},
    undo::{Restored, Undone, UndoneFile, undo},
};
