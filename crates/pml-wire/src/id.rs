//! Names of things. All are parsed once, at the edge, and cannot be wrong afterwards.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Defines an id that is a UUID of version 7: unique everywhere, and sorted by the time at which it was minted.
macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(uuid::Uuid);

        impl $name {
            /// A new id, unique everywhere.
            pub fn mint() -> $name {
                $name(uuid::Uuid::now_v7())
            }

            /// The id as its 16 bytes, in an order that sorts like the id.
            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            pub fn from_bytes(bytes: [u8; 16]) -> $name {
                $name(uuid::Uuid::from_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<$name, uuid::Error> {
                text.parse().map($name)
            }
        }
    };
}

uuid_id! {
    /// One run of one program. Minted by the host, once, at entry; sorts by time.
    ExecutionId
}

uuid_id! {
    /// A capability of a registry, whatever it is called now.
    CapabilityId
}

/// One tool call within an execution, counted from 1 in the order the program made them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub u32);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

/// The one canonical name of a tool, `server:tool`.
///
/// The server ends at the first colon, so a tool's own name may hold one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolId {
    text: String,
    colon: usize,
}

/// Longest server or tool name that is accepted, in bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// Names that JavaScript itself asks for: never servers or tools on `mcp`. What is called so is
/// reached by `callTool`.
pub const RESERVED_NAMES: [&str; 19] = [
    "then",
    "catch",
    "finally",
    "toJSON",
    "toString",
    "valueOf",
    "constructor",
    "prototype",
    "__proto__",
    "hasOwnProperty",
    "inspect",
    "length",
    "name",
    "call",
    "apply",
    "bind",
    "asymmetricMatch",
    "nodeType",
    "$$typeof",
];

/// Why a text is not a tool id.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ToolIdError {
    #[error("tool id {0:?} has no colon; write `server:tool`")]
    NoColon(String),
    #[error("tool id {0:?} lacks a server or a tool name; write `server:tool`")]
    EmptyName(String),
    #[error("a name in a tool id has {0} bytes, more than {MAX_NAME_BYTES}")]
    TooLong(usize),
    #[error("tool id {0:?} holds a control character")]
    ControlCharacter(String),
}

impl ToolId {
    /// The part in front of the first colon.
    pub fn server(&self) -> &str {
        &self.text[..self.colon]
    }

    /// The part behind the first colon.
    pub fn tool(&self) -> &str {
        &self.text[self.colon + 1..]
    }

    /// The whole, `server:tool`.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl TryFrom<String> for ToolId {
    type Error = ToolIdError;

    fn try_from(text: String) -> Result<ToolId, ToolIdError> {
        // Length first: the other errors quote the text.
        if text.len() > 2 * MAX_NAME_BYTES + 1 {
            return Err(ToolIdError::TooLong(text.len()));
        }
        let Some(colon) = text.find(':') else {
            return Err(ToolIdError::NoColon(text));
        };
        let (server, tool) = (&text[..colon], &text[colon + 1..]);
        if server.is_empty() || tool.is_empty() {
            return Err(ToolIdError::EmptyName(text));
        }
        let longest = server.len().max(tool.len());
        if longest > MAX_NAME_BYTES {
            return Err(ToolIdError::TooLong(longest));
        }
        if text.chars().any(char::is_control) {
            return Err(ToolIdError::ControlCharacter(text));
        }
        Ok(ToolId { text, colon })
    }
}

impl FromStr for ToolId {
    type Err = ToolIdError;

    fn from_str(text: &str) -> Result<ToolId, ToolIdError> {
        text.to_owned().try_into()
    }
}

impl From<ToolId> for String {
    fn from(id: ToolId) -> String {
        id.text
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_ids_parse_or_say_why_not() {
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        let table = [
            ("fs:read", Ok(("fs", "read"))),
            ("fs:a:b", Ok(("fs", "a:b"))),
            ("fs:__proto__", Ok(("fs", "__proto__"))),
            ("é:ü", Ok(("é", "ü"))),
            ("fs", Err(ToolIdError::NoColon("fs".into()))),
            ("", Err(ToolIdError::NoColon(String::new()))),
            (":read", Err(ToolIdError::EmptyName(":read".into()))),
            ("fs:", Err(ToolIdError::EmptyName("fs:".into()))),
            ("fs:a\nb", Err(ToolIdError::ControlCharacter("fs:a\nb".into()))),
            (&format!("fs:{long}"), Err(ToolIdError::TooLong(257))),
            (&long.repeat(9), Err(ToolIdError::TooLong(9 * 257))),
        ];
        for (text, expected) in table {
            let actual = text.parse::<ToolId>();
            let parts = actual.as_ref().map(|id| (id.server(), id.tool()));
            assert_eq!(parts, expected.as_ref().map(|parts| *parts), "{text}");
        }
    }

    #[test]
    fn a_tool_id_is_its_text_in_json() {
        let id: ToolId = serde_json::from_str("\"fs:read\"").unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"fs:read\"");
        assert!(serde_json::from_str::<ToolId>("\"fs\"").is_err());
    }
}
