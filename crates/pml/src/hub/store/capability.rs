//! Capabilities, as they are stored.

use std::str::FromStr;

use pml_wire::{CapabilityId, trace::Timestamp};

use crate::trace::store::{Fqdn, Scope};

/// Who looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    pub scope: Scope,
    /// The name of its key. What is private belongs to a name, so it outlives a key that is replaced.
    pub name: String,
}

/// Who may see a capability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Whoever has put it.
    Private,
    /// All keys of its project.
    #[default]
    Project,
    /// All keys of its organisation.
    Org,
}

/// A capability to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCapability {
    pub namespace: String,
    pub action: String,
    pub code: String,
    /// The JSON Schema of its parameters, as JSON.
    pub parameters: Option<String>,
    pub description: String,
    /// `None` leaves it as it is, or makes it [`Visibility::Project`].
    pub visibility: Option<Visibility>,
}

/// A capability, at one of its versions.
#[derive(Clone, Debug, PartialEq)]
pub struct Capability {
    pub id: CapabilityId,
    /// Its name now, with the hash of this version.
    pub name: Fqdn,
    pub visibility: Visibility,
    pub owner: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub version: CapabilityVersion,
    /// Names that it had before, without hash, the latest first.
    pub former_names: Vec<Fqdn>,
    /// About all versions.
    pub stats: CapabilityStats,
}

/// A version of a capability. A version never changes, but for its description and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityVersion {
    /// From 1.
    pub number: u32,
    /// The first digits of the SHA-256 of the code: 4, or as many as no other version of this capability begins with.
    pub hash: String,
    pub code: String,
    pub parameters: Option<String>,
    pub description: String,
    pub author: String,
    pub created_at: Timestamp,
}

/// Numbers about the traces of a capability, in the project of whoever looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CapabilityStats {
    pub runs: u64,
    pub failed: u64,
    pub mean_ms: f64,
    pub last_run: Option<Timestamp>,
}

/// Which capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// At its newest version.
    Id(CapabilityId),
    /// At the version with the hash, or at its newest.
    Name(Fqdn),
}

/// Which capabilities to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Words; none lets all through.
    pub text: String,
    pub limit: usize,
    /// How many to leave out.
    pub offset: usize,
}

/// What to change; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub description: Option<String>,
    pub parameters: Option<String>,
    pub visibility: Option<Visibility>,
}

/// What became of a capability that was put.
#[derive(Clone, Debug, PartialEq)]
pub enum Put {
    Created(Box<Capability>),
    NewVersion(Box<Capability>),
    /// It had this code already. Its description, parameters and visibility are now as they were put.
    Known(Box<Capability>),
    /// Somebody else has a private capability of this name.
    Taken,
}

/// What became of a capability that was renamed.
#[derive(Clone, Debug, PartialEq)]
pub enum Renamed {
    Renamed(Box<Capability>),
    /// Another one is called so.
    Taken,
    Unknown,
}

impl Visibility {
    pub fn as_str(self) -> &'static str {
        match self {
            Visibility::Private => "private",
            Visibility::Project => "project",
            Visibility::Org => "org",
        }
    }
}

impl FromStr for Visibility {
    type Err = String;

    fn from_str(text: &str) -> Result<Visibility, String> {
        match text {
            "private" => Ok(Visibility::Private),
            "project" => Ok(Visibility::Project),
            "org" => Ok(Visibility::Org),
            other => Err(format!("`{other}` is no visibility: there is private, project and org")),
        }
    }
}
