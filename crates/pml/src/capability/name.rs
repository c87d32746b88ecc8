//! What a capability is called.

use std::{fmt, str::FromStr};

use crate::{
    broker::{CAPABILITIES, RESERVED},
    trace::store::{Fqdn, Scope, check_name},
};

/// The name of a capability, `namespace.action`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CapabilityName {
    pub namespace: String,
    pub action: String,
}

impl CapabilityName {
    /// How programs write it: `namespace_action`.
    pub fn in_code(&self) -> String {
        format!("{}_{}", self.namespace, self.action)
    }

    /// How programs call it: `mcp.capabilities.namespace_action`.
    pub fn as_called(&self) -> String {
        let name = self.in_code();
        match is_identifier(&name) {
            true => format!("mcp.{CAPABILITIES}.{name}"),
            // A name has plain signs only: nothing that ends a string.
            false => format!("mcp.{CAPABILITIES}[\"{name}\"]"),
        }
    }

    /// With the scope of what a gateway keeps for itself.
    pub fn qualified(&self) -> Fqdn {
        Fqdn { scope: Scope::local(), namespace: self.namespace.clone(), action: self.action.clone(), hash: None }
    }

    pub(super) fn of(name: &Fqdn) -> CapabilityName {
        CapabilityName { namespace: name.namespace.clone(), action: name.action.clone() }
    }
}

/// Can a name be written without quotes, as a property?
pub(super) fn is_identifier(name: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '$';
    name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit())
}

/// Parameters as an object literal that names them: `{ path, "x-y": … }`.
pub fn shown_parameters<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let shown = |name: &str| match is_identifier(name) {
        true => name.to_owned(),
        false => format!("{}: …", serde_json::Value::from(name)),
    };
    let names: Vec<_> = names.into_iter().map(shown).collect();
    if names.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", names.join(", ")) }
}

impl fmt::Display for CapabilityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace, self.action)
    }
}

impl FromStr for CapabilityName {
    type Err = String;

    fn from_str(text: &str) -> Result<CapabilityName, String> {
        let shown: String = text.chars().take(100).collect();
        let Some((namespace, action)) = text.split_once('.') else {
            return Err(format!("`{shown}` is no name of a capability: write namespace.action, such as github.triage"));
        };
        for part in [namespace, action] {
            check_name(part).map_err(|err| format!("`{shown}` is no name of a capability: {err}"))?;
        }
        if RESERVED.contains(&namespace) || namespace == "mcp" {
            return Err(format!("`{shown}` is no name of a capability: pml itself uses `{namespace}`"));
        }
        Ok(CapabilityName { namespace: namespace.to_owned(), action: action.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_two_plain_parts() {
        let name: CapabilityName = "github.triage".parse().unwrap();
        assert_eq!((name.to_string(), name.in_code()), ("github.triage".to_owned(), "github_triage".to_owned()));
        assert_eq!(name.as_called(), "mcp.capabilities.github_triage");
        let name: CapabilityName = "my-hub.sync-all".parse().unwrap();
        assert_eq!(name.as_called(), "mcp.capabilities[\"my-hub_sync-all\"]");
        assert_eq!(shown_parameters(["path", "x-y"]), "{ path, \"x-y\": … }");
        assert_eq!(shown_parameters([]), "{}");
        for text in ["", "a", "a.", ".a", "a.b.c", "A.b", "a b.c", "pml.x", "capabilities.x", "mcp.x", "a.b'"] {
            assert!(text.parse::<CapabilityName>().is_err(), "{text}");
        }
    }
}
