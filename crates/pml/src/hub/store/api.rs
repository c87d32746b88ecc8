//! What a hub needs of whatever keeps its data.

use std::{fmt, sync::Arc};

use pml_wire::CapabilityId;

use super::{
    AddedKey, Altered, Capability, CapabilityVersion, Change, Deleted, Expected, Key, Link, Listing, Model,
    NewCapability, NewKey, Part, Put, PutModel, RegistryListing, RegistryMark, Renamed, Viewer, Which,
};
use crate::trace::store::{Answer, Scope, Stores};

/// Everything that a hub stores: the traces of every scope, and what belongs to them.
pub trait HubStore: Stores {
    fn keys(&self) -> Arc<dyn Keys>;

    /// The capabilities that somebody may see.
    fn capabilities(&self, viewer: &Viewer) -> Arc<dyn Capabilities>;

    /// The learned models of one scope.
    fn models(&self, scope: &Scope) -> Arc<dyn Models>;

    /// Fails if nothing can be committed at the moment.
    fn ready(&self) -> Answer<'_, ()>;
}

/// API keys, of every scope. A key itself is never stored, only its SHA-256.
pub trait Keys: fmt::Debug + Send + Sync {
    fn add(&self, key: NewKey) -> Answer<'_, AddedKey>;

    /// The key with this SHA-256, also if it is revoked or has expired.
    fn by_hash(&self, sha256: [u8; 32]) -> Answer<'_, Option<Key>>;

    /// All keys, by organisation, project and name; those that are not revoked first.
    fn list(&self) -> Answer<'_, Vec<Key>>;

    /// Revokes the keys of this name, in one scope or, without one, in every scope. How many.
    fn revoke(&self, name: &str, scope: Option<&Scope>, now: u64) -> Answer<'_, u64>;

    /// Were there keys once, and is there none now, not even a revoked one? Then their database is gone. A server looks after its
    /// own files.
    fn are_lost(&self) -> Answer<'_, bool> {
        Box::pin(std::future::ready(Ok(false)))
    }
}

/// Capabilities: programs with a name.
///
/// A [`Viewer`] sees those of its project, but for private ones of others, and those of other projects of its organisation
/// that are shared with the organisation. It changes only those of its own project that it sees, and who sees them only if they
/// are its own or it is an admin: so it always sees what it has changed.
///
/// A trace that names a capability is linked to it when the trace is stored, or when the capability is
/// [put](Capabilities::put) or [renamed](Capabilities::rename) after that, whichever comes later.
pub trait Capabilities: fmt::Debug + Send + Sync {
    /// Stores a capability under a name. If the name is that of a capability, stores a new version of it, unless its newest
    /// version has that code; an earlier version with that code becomes the newest, with a number of its own.
    fn put(&self, capability: NewCapability, expected: Expected) -> Answer<'_, Put>;

    /// A capability by its id, or a version of one by its name.
    fn get(&self, which: Which) -> Answer<'_, Option<Capability>>;

    /// Versions, the newest first, but for the first `offset`; no more than have `max_bytes` together, but for one.
    fn versions(
        &self,
        id: CapabilityId,
        offset: usize,
        max_bytes: Option<usize>,
    ) -> Answer<'_, Part<CapabilityVersion>>;

    /// Capabilities in which every word of a text occurs, those first that have all of them in their names, and then those
    /// that were changed last.
    fn list(&self, listing: Listing) -> Answer<'_, Part<Capability>>;

    /// Changes what is not the code.
    fn change(&self, id: CapabilityId, change: Change, expected: Expected) -> Answer<'_, Altered>;

    /// Gives a capability another name. The old one still leads to it, as long as no other capability is called so.
    fn rename(&self, id: CapabilityId, namespace: &str, action: &str, expected: Expected) -> Answer<'_, Renamed>;

    /// Deletes a capability with all of its versions, and remembers that it was deleted. Traces that are linked to it keep its id.
    fn delete(&self, id: CapabilityId, expected: Expected) -> Answer<'_, Deleted>;

    /// How far the registry is. Costs one lookup.
    fn mark(&self) -> Answer<'_, RegistryMark>;

    /// Everything that another registry needs to find out what it lacks.
    fn registry(&self) -> Answer<'_, RegistryListing>;

    /// How capabilities of the viewer's scope are linked to those of a hub.
    fn links(&self, hub: &str) -> Answer<'_, Vec<Link>>;

    /// Stores the link of a capability, in the place of the one that it has.
    fn link(&self, link: Link) -> Answer<'_, ()>;

    fn unlink(&self, capability: CapabilityId) -> Answer<'_, ()>;
}

/// Learned models of one scope: bytes that mean something to others.
pub trait Models: fmt::Debug + Send + Sync {
    /// Stores a model. With `expected`, only if that is the tag of the one that is there; `Some(None)` means that there must be
    /// none.
    fn put(&self, name: &str, bytes: Vec<u8>, expected: Option<Option<String>>) -> Answer<'_, PutModel>;

    fn get(&self, name: &str) -> Answer<'_, Option<Model>>;

    /// The tag alone, which changes when the model does.
    fn etag(&self, name: &str) -> Answer<'_, Option<String>>;
}
