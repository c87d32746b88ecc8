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
    /// Who wrote this version. Without one, whoever puts it.
    pub author: Option<String>,
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
    /// The number of its last change among all changes of its organisation.
    pub revision: u64,
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

/// What a capability must be like for a change to be made: two writers that read the same state cannot both change it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    #[default]
    Anything,
    /// No capability has the name.
    Nothing,
    /// Its [tag](Capability::tag) is this.
    Tag(String),
}

/// What became of a capability that was put.
#[derive(Clone, Debug, PartialEq)]
pub enum Put {
    Created(Box<Capability>),
    /// Its code is new, or is that of an earlier version, which is now the newest.
    NewVersion(Box<Capability>),
    /// Its newest version has this code already. Its description, parameters and visibility are now as they were put.
    Known(Box<Capability>),
    /// Somebody else has a private capability of this name.
    Taken,
    /// It is not as [`Expected`]. Nothing was changed.
    Changed,
}

/// What became of a capability that was renamed.
#[derive(Clone, Debug, PartialEq)]
pub enum Renamed {
    Renamed(Box<Capability>),
    /// Another capability has that name.
    Taken,
    Unknown,
    /// It is not as [`Expected`]. Nothing was changed.
    Changed,
}

/// What became of a capability that was to be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deleted {
    Deleted,
    #[default]
    Unknown,
    /// It is not as [`Expected`]. Nothing was changed.
    Changed,
}

/// How far a registry of capabilities is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegistryMark {
    /// Tells this database from others; 0 if it never had a capability.
    pub database: u64,
    /// Changes of capabilities of the viewer's organisation so far; 0 if there was none.
    pub revision: u64,
}

/// All capabilities that a viewer may see and that are not private, without their code; and those that were deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryListing {
    pub entries: Vec<RegistryEntry>,
    /// Capabilities of the viewer's organisation that were deleted, the latest first, as far as that is remembered.
    pub removed: Vec<CapabilityId>,
}

/// A capability of a [`RegistryListing`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryEntry {
    pub id: CapabilityId,
    /// Without the hash of a version.
    pub name: Fqdn,
    pub visibility: Visibility,
    pub owner: String,
    /// As [`Capability::tag`].
    pub tag: String,
    /// The number of its newest version.
    pub version: u32,
}

/// Which capability of a hub a capability of this database is, and what both were like when they were last alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The capability here. If it is gone, it was removed here.
    pub capability: CapabilityId,
    /// The database of the hub.
    pub hub: String,
    /// The capability at the hub.
    pub remote: CapabilityId,
    pub remote_tag: String,
    pub remote_version: u32,
    pub local_revision: u64,
    pub local_version: u32,
}

impl Capability {
    /// Changes with every change of the capability.
    pub fn tag(&self) -> String {
        tag(self.revision, self.updated_at)
    }

    /// Would it be something else after this?
    pub(super) fn would_change(&self, change: &Change) -> bool {
        let Change { description, parameters, visibility } = change;
        description.as_ref().is_some_and(|description| *description != self.version.description)
            || parameters.is_some() && *parameters != self.version.parameters
            || visibility.is_some_and(|visibility| visibility != self.visibility)
    }

    pub(super) fn is_as(&self, expected: &Expected) -> bool {
        match expected {
            Expected::Anything => true,
            Expected::Nothing => false,
            Expected::Tag(tag) => self.tag() == *tag,
        }
    }
}

/// Most capabilities of one [`RegistryListing`], and most deleted ones that are remembered.
pub(super) const MAX_REMEMBERED: usize = 5000;

/// The tag of a capability. The time is in it for a database that was brought back from a copy: its numbers are given again.
pub(super) fn tag(revision: u64, updated_at: Timestamp) -> String {
    format!("{revision}-{}", updated_at.0)
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
