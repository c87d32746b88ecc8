//! Fully qualified names of capabilities: `org.project.namespace.action.hash`.

use std::{fmt, str::FromStr};

use super::scope::{NameError, Scope, check_name};

/// Shortest and longest hash in a name: the first digits of the SHA-256 of the code.
pub const MIN_HASH: usize = 4;
const MAX_HASH: usize = 64;

/// The name of a capability; with a hash, of one version of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fqdn {
    pub scope: Scope,
    pub namespace: String,
    pub action: String,
    pub hash: Option<String>,
}

/// Why a text is not the name of a capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FqdnError {
    #[error("a capability is named `org.project.namespace.action`, with or without `.hash`")]
    Parts,
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("a hash is {MIN_HASH} to {MAX_HASH} of 0-9 and a-f")]
    Hash,
}

impl FromStr for Fqdn {
    type Err = FqdnError;

    fn from_str(text: &str) -> Result<Fqdn, FqdnError> {
        let parts: Vec<_> = text.split('.').take(6).collect();
        let (org, project, namespace, action, hash) = match parts[..] {
            [org, project, namespace, action] => (org, project, namespace, action, None),
            [org, project, namespace, action, hash] => (org, project, namespace, action, Some(hash)),
            _ => return Err(FqdnError::Parts),
        };
        check_name(namespace)?;
        check_name(action)?;
        if hash.is_some_and(|hash| !is_hash(hash)) {
            return Err(FqdnError::Hash);
        }
        Ok(Fqdn {
            scope: Scope::new(org, project)?,
            namespace: namespace.to_owned(),
            action: action.to_owned(),
            hash: hash.map(str::to_owned),
        })
    }
}

impl fmt::Display for Fqdn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.scope, self.namespace, self.action)?;
        match &self.hash {
            Some(hash) => write!(f, ".{hash}"),
            None => Ok(()),
        }
    }
}

fn is_hash(text: &str) -> bool {
    (MIN_HASH..=MAX_HASH).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_four_or_five_parts() {
        for text in ["acme.web.fs.read_file.a7f3", "acme.web.fs.read_file", "local.default.a.b.0123456789"] {
            assert_eq!(text.parse::<Fqdn>().unwrap().to_string(), text);
        }
        #[rustfmt::skip]
        let table = [
            ("", FqdnError::Parts),
            ("a.b.c", FqdnError::Parts),
            ("a.b.c.d.abcd.e", FqdnError::Parts),
            ("a.b.c.d.abc", FqdnError::Hash),
            ("a.b.c.d.ABCD", FqdnError::Hash),
            ("a.b.c.d.wxyz", FqdnError::Hash),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse::<Fqdn>(), Err(expected), "{text}");
        }
        for text in ["a..c.d", "a.b.c.D", "-.b.c.d", "a.b.c.d e"] {
            assert!(matches!(text.parse::<Fqdn>(), Err(FqdnError::Name(_))), "{text}");
        }
    }
}
