//! What clients of one profile may use of what the configuration allows.
//!
//! **Invariant:** a profile only narrows. Its denials are added to those of the policy, and what it allows must be allowed by
//! the policy too.

use std::num::NonZeroU32;

/// The rules of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The only servers there are for its clients; all of them if there is no list.
    pub servers: Option<Vec<String>>,
    /// Patterns as in the policy. With any, nothing else may be called.
    pub allow: Vec<String>,
    pub deny: Vec<String>,
    /// Tool calls, requests for resources and prompts that each of its clients may make in a minute.
    pub calls_per_minute: Option<NonZeroU32>,
}

impl Profile {
    /// The lists of permissions, each of which must cover what is called.
    pub(super) fn lists(&self) -> Vec<Vec<String>> {
        let servers = self.servers.as_ref().map(|servers| servers.iter().map(|server| format!("{server}:*")).collect());
        let allow = (!self.allow.is_empty()).then(|| self.allow.clone());
        servers.into_iter().chain(allow).collect()
    }

    /// A profile that nobody has defined: its clients may use nothing.
    pub(super) fn undefined() -> Profile {
        Profile { servers: Some(Vec::new()), ..Profile::default() }
    }
}
