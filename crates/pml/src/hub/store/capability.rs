//! Capabilities, as they are stored.

use std::str::FromStr;

use pml_wire::{CapabilityId, trace::Timestamp};

use crate::trace::store::{Fqdn, Scope, without_nul};

/// Who looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    pub scope: Scope,
    /// The name of its key. What is private belongs to a name, so it outlives a key that is replaced.
    pub name: String,
    /// Does its key permit `admin`? Then it sees the private capabilities of its project, and may hide and remove all of them.
    pub is_admin: bool,
}

impl Viewer {
    /// May it rename, hide and remove the capabilities of this owner?
    pub fn may_remove(&self, owner: &str) -> bool {
        self.is_admin || self.name == owner
    }

    /// May it give a capability this visibility? What nobody else can see any more is as good as removed for them.
    pub(super) fn may_show(&self, capability: &Capability, visibility: Option<Visibility>) -> bool {
        visibility.is_none_or(|visibility| visibility == capability.visibility) || self.may_remove(&capability.owner)
    }

    /// The owner whose private capabilities it sees; `None` if it sees those of everybody.
    pub(super) fn owner(&self) -> Option<&str> {
        (!self.is_admin).then_some(self.name.as_str())
    }
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

/// Numbers about the traces of a capability, in the project of whoever looks. Runs that were [cut off](crate::trace::CUT_OFF) are
/// not among them.
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
    /// Most bytes of what is listed, but for the first.
    pub max_bytes: Option<usize>,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Part<T> {
    pub items: Vec<T>,
    /// Is there more of it?
    pub has_more: bool,
}

impl<T> Default for Part<T> {
    fn default() -> Part<T> {
        Part { items: Vec::new(), has_more: false }
    }
}

impl<T> Part<T> {
    /// Takes one more, or says that there is more. Is there room for another?
    pub(super) fn add(&mut self, item: T, bytes: &mut usize, size: usize, max_bytes: Option<usize>) -> bool {
        *bytes = bytes.saturating_add(size);
        self.has_more = max_bytes.is_some_and(|most| *bytes > most) && !self.items.is_empty();
        if !self.has_more {
            self.items.push(item);
        }
        !self.has_more
    }
}

impl NewCapability {
    /// As it is stored: texts have no NUL. The code is kept byte for byte.
    pub(super) fn plain(self) -> NewCapability {
        NewCapability {
            description: without_nul(self.description),
            parameters: self.parameters.map(without_nul),
            author: self.author.map(without_nul),
            ..self
        }
    }
}

impl Change {
    /// As it is stored.
    pub(super) fn plain(self) -> Change {
        Change { description: self.description.map(without_nul), parameters: self.parameters.map(without_nul), ..self }
    }
}

impl Listing {
    /// With the text as it is looked for.
    pub(super) fn plain(self) -> Listing {
        Listing { text: without_nul(self.text), ..self }
    }
}

impl CapabilityVersion {
    /// Bytes of what is said about it, nearly.
    pub(super) fn size(&self) -> usize {
        self.code.len() + self.parameters.as_ref().map_or(0, String::len) + self.description.len() + 512
    }
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
    /// There is one, whatever it is like.
    Existing,
    /// Its [tag](Capability::tag) is one of these.
    Tags(Vec<String>),
}

impl Expected {
    /// Its [tag](Capability::tag) is this.
    pub fn tag(tag: impl Into<String>) -> Expected {
        Expected::Tags(vec![tag.into()])
    }
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
    /// It is somebody else's, and this would change who sees it. Nothing was changed.
    Forbidden,
}

/// What became of a capability that was to be changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Altered {
    Altered(Box<Capability>),
    Unknown,
    /// It is not as [`Expected`]. Nothing was changed.
    Changed,
    /// It is somebody else's, and this would change who sees it. Nothing was changed.
    Forbidden,
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
            Expected::Existing => true,
            Expected::Tags(tags) => tags.contains(&self.tag()),
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
