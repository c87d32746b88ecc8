//! Upper and lower case by the rules of a language, by ICU4X.

use icu_casemap::CaseMapper;

use super::{Failure, locale};

/// The text in upper case.
pub(crate) fn upper(text: &str, tag: &str) -> Result<String, Failure> {
    let id = locale::canonical(tag)?.id;
    Ok(CaseMapper::new().uppercase_to_string(text, &id).into_owned())
}

/// The text in lower case.
pub(crate) fn lower(text: &str, tag: &str) -> Result<String, Failure> {
    let id = locale::canonical(tag)?.id;
    Ok(CaseMapper::new().lowercase_to_string(text, &id).into_owned())
}
