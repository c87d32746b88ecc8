//! API keys, as they are stored.

use std::{fmt, str::FromStr};

use pml_wire::trace::Timestamp;

use crate::trace::store::Scope;

/// What a key permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// To deliver traces, and to put capabilities.
    Ingest,
    /// To read everything.
    Read,
    /// To do both, and to rename and delete.
    Admin,
}

/// Several of them; never none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions(Vec<Permission>);

/// A key, without the key itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub scope: Scope,
    pub name: String,
    pub permissions: Permissions,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

/// Can a key be used?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    Valid,
    Expired,
    Revoked,
}

/// A key to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    pub key: Key,
    pub sha256: [u8; 32],
}

/// What became of a key that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddedKey {
    Added,
    /// Its project has a key of this name, which is not revoked.
    Taken,
}

impl Key {
    pub fn state(&self, now: u64) -> KeyState {
        match self {
            Key { revoked_at: Some(_), .. } => KeyState::Revoked,
            Key { expires_at: Some(moment), .. } if moment.0 <= now => KeyState::Expired,
            Key { .. } => KeyState::Valid,
        }
    }
}

impl Permissions {
    pub fn new(mut permissions: Vec<Permission>) -> Option<Permissions> {
        permissions.sort_unstable();
        permissions.dedup();
        (!permissions.is_empty()).then_some(Permissions(permissions))
    }

    pub fn permit(&self, what: Permission) -> bool {
        self.0.contains(&what) || self.0.contains(&Permission::Admin)
    }
}

impl Permission {
    pub fn as_str(self) -> &'static str {
        match self {
            Permission::Ingest => "ingest",
            Permission::Read => "read",
            Permission::Admin => "admin",
        }
    }
}

impl FromStr for Permission {
    type Err = String;

    fn from_str(text: &str) -> Result<Permission, String> {
        match text {
            "ingest" => Ok(Permission::Ingest),
            "read" => Ok(Permission::Read),
            "admin" => Ok(Permission::Admin),
            other => Err(format!("`{other}` is no permission: there is ingest, read and admin")),
        }
    }
}

impl fmt::Display for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|permission| permission.as_str()).collect();
        f.write_str(&names.join(","))
    }
}

impl FromStr for Permissions {
    type Err = String;

    fn from_str(text: &str) -> Result<Permissions, String> {
        let permissions = text.split(',').map(str::trim).map(str::parse).collect::<Result<_, _>>()?;
        Permissions::new(permissions).ok_or_else(|| "there is no permission".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admin_may_do_everything_and_others_what_they_are_told() {
        let permissions: Permissions = "read,ingest,read".parse().unwrap();
        assert_eq!(permissions.to_string(), "ingest,read");
        assert!(permissions.permit(Permission::Read) && !permissions.permit(Permission::Admin));
        let admin: Permissions = "admin".parse().unwrap();
        assert!(admin.permit(Permission::Ingest) && admin.permit(Permission::Admin));
        assert!("".parse::<Permissions>().is_err() && "root".parse::<Permissions>().is_err());
    }
}
