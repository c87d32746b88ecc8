//! Whose traces: every row belongs to one project of one organisation.
//!
//! A store is opened for a [`Scope`], and every statement takes its number, so no query can forget it. A gateway's own store
//! has the one scope [`Scope::local`].

use std::{fmt, str::FromStr, sync::Arc};

/// Longest name of an organisation or a project.
const MAX_NAME: usize = 64;

/// A project of an organisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    org: Arc<str>,
    project: Arc<str>,
}

/// Why a text names no organisation, project, namespace or action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name: 1 to 64 of a-z, 0-9, `_` and `-`, and a letter or a digit first")]
pub struct NameError(String);

impl Scope {
    pub fn new(org: &str, project: &str) -> Result<Scope, NameError> {
        check_name(org)?;
        check_name(project)?;
        Ok(Scope { org: org.into(), project: project.into() })
    }

    /// The scope of what a gateway keeps for itself.
    pub fn local() -> Scope {
        Scope { org: "local".into(), project: "default".into() }
    }

    pub fn org(&self) -> &str {
        &self.org
    }

    pub fn project(&self) -> &str {
        &self.project
    }
}

impl Default for Scope {
    fn default() -> Scope {
        Scope::local()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.org, self.project)
    }
}

impl FromStr for Scope {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Scope, NameError> {
        let (org, project) = text.split_once('.').ok_or_else(|| wrong(text))?;
        Scope::new(org, project)
    }
}

/// Checks a part of a fully qualified name: of an organisation, a project, a namespace or an action.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    let starts_well = name.bytes().next().is_some_and(|first| first.is_ascii_lowercase() || first.is_ascii_digit());
    match starts_well && name.len() <= MAX_NAME && name.bytes().all(is_part) {
        true => Ok(()),
        false => Err(wrong(name)),
    }
}

fn wrong(name: &str) -> NameError {
    NameError(name.chars().take(MAX_NAME).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        let long = "a".repeat(MAX_NAME);
        for name in ["a", "acme", "web-2", "0_0", &long] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let too_long = "a".repeat(MAX_NAME + 1);
        for name in ["", "-a", "_a", "A", "a b", "a.b", "é", "a'", "a/b", &too_long] {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert_eq!("acme.web".parse::<Scope>().unwrap().to_string(), "acme.web");
        assert!("acme".parse::<Scope>().is_err());
        assert!("acme.web.more".parse::<Scope>().is_err());
        assert_eq!(Scope::local().to_string(), "local.default");
    }
}
