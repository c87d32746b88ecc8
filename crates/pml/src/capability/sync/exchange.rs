//! Compares the capabilities of this gateway with those of its hub, and makes both alike.

use std::collections::{BTreeMap, BTreeSet};

use pml_wire::{
    CapabilityId,
    hub::{RegistryCapability, RegistryReply},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    super::{
        model::{Capability, Notes, read_schema, write_schema},
        name::CapabilityName,
        registry::Registry,
    },
    decide::{Here, Step, There, decide},
};
use crate::{
    hub::{
        client::{Document, HubClient, HubError, IfItIs, RemoteCapability, answer},
        store::{self, Deleted, Expected, Link, NewCapability, Put, Renamed, Visibility},
    },
    trace::store::StoreError,
};

/// Most capabilities that are taken from a hub.
const MOST: usize = 2000;
/// Longest code that is taken.
const MAX_CODE_BYTES: usize = 256 * 1024;

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// By name.
    pub sent: Vec<String>,
    pub received: Vec<String>,
    /// Deleted here, since they were deleted at the hub.
    pub removed_here: Vec<String>,
    /// Deleted at the hub, by id, since they were removed or made private here.
    pub removed_there: Vec<String>,
    /// What both sides have changed, each with what became of it.
    pub settled: Vec<(String, String)>,
    /// What is not the same on both sides after this, each with the reason.
    pub conflicts: Vec<(String, String)>,
    /// The hub answered that its registry is what it was.
    pub is_unchanged_there: bool,
}

/// What becomes of capabilities that were removed here and are still at the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    StayRemoved,
    ComeBack,
}

#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<SyncError> for crate::error::Error {
    fn from(err: SyncError) -> crate::error::Error {
        match err {
            SyncError::Hub(err) => err.into(),
            SyncError::Store(err) => err.into(),
        }
    }
}

/// Makes the capabilities of this gateway and those of its hub alike, once. What was done before a failure stays done, and the
/// next sync goes on from there.
pub async fn sync(registry: &Registry, hub: &HubClient, removed: Removed) -> Result<Synced, SyncError> {
    registry.refresh().await?;
    let (reply, is_unchanged_there) = there(registry, hub).await?;
    let links = registry.links(&reply.hub).await?;
    let synced = Synced { is_unchanged_there, ..Synced::default() };
    let mut exchange = Exchange { registry, hub, hub_name: reply.hub.clone(), synced };
    let deleted: BTreeSet<_> = reply.removed.iter().filter_map(|id| id.parse::<CapabilityId>().ok()).collect();
    let mut remote: BTreeMap<CapabilityId, RegistryCapability> = BTreeMap::new();
    for entry in reply.capabilities.into_iter().take(MOST) {
        if let Ok(id) = entry.id.parse() {
            remote.insert(id, entry);
        }
    }
    let mut linked = BTreeSet::new();
    for link in &links {
        let here = registry.all().into_iter().find(|it| it.id == link.capability);
        if here.is_none() && removed == Removed::ComeBack && remote.contains_key(&link.remote) {
            registry.unlink(link.capability).await?;
            continue;
        }
        linked.insert(link.capability);
        let entry = remote.remove(&link.remote);
        let is_deleted = deleted.contains(&link.remote);
        let done = exchange.linked(link, here.as_deref(), entry.as_ref(), is_deleted).await;
        exchange.note(here.map_or_else(|| link.remote.to_string(), |here| here.name.to_string()), done)?;
    }
    for here in registry.all().iter().filter(|it| !linked.contains(&it.id)) {
        // A private one with a name that the hub has too stays what it is.
        let is_own = here.visibility == Visibility::Private && here.notes.origin.is_none();
        let there = remote.values().find(|it| is_named(it, &here.name) && it.may_change);
        let there = there.or_else(|| remote.values().find(|it| is_named(it, &here.name))).cloned();
        if let Some(there) = &there {
            remote.retain(|_, it| it.id != there.id);
        }
        let done = match there {
            _ if is_own => Ok(()),
            Some(there) => exchange.meet(here, &there).await,
            // A copy of another hub's goes to no other hub.
            None if here.visibility != Visibility::Private && here.notes.origin.is_none() => {
                exchange.create(here).await
            }
            None => Ok(()),
        };
        exchange.note(here.name.to_string(), done)?;
    }
    for (id, entry) in remote {
        let done = match hub.capability(id).await {
            Ok(there) => exchange.take(None, &there).await,
            Err(err) => Err(err.into()),
        };
        exchange.note(format!("{}.{}", entry.namespace, entry.action), done)?;
    }
    Ok(exchange.synced)
}

/// The registry of the hub as it was last read, with its tag.
#[derive(Serialize, Deserialize)]
struct Remembered {
    /// Of which hub, by [`HubClient::identity`].
    of: String,
    etag: String,
    reply: RegistryReply,
}

/// The registry of the hub; and whether it is what it was when it was last read.
async fn there(registry: &Registry, hub: &HubClient) -> Result<(RegistryReply, bool), SyncError> {
    let of = hub.identity();
    let remembered = registry.remembered().await?.and_then(|bytes| serde_json::from_slice::<Remembered>(&bytes).ok());
    let remembered = remembered.filter(|it| it.of == of);
    let document = hub.registry(remembered.as_ref().map(|it| it.etag.as_str())).await?;
    match (document, remembered) {
        (Document::New { etag, bytes }, _) => {
            let reply: RegistryReply = answer(&bytes)?;
            if let Some(etag) = etag {
                let remembered = Remembered { of, etag, reply: reply.clone() };
                let bytes = serde_json::to_vec(&remembered).expect("plain data serializes");
                registry.remember(bytes).await?;
            }
            Ok((reply, false))
        }
        (Document::Unchanged, Some(remembered)) => Ok((remembered.reply, true)),
        (Document::Unchanged, None) => {
            let why = "it says that nothing has changed, but was not asked that".to_owned();
            Err(HubError::Unreadable(why).into())
        }
    }
}

fn is_named(entry: &RegistryCapability, name: &CapabilityName) -> bool {
    (&entry.namespace, &entry.action) == (&name.namespace, &name.action)
}

struct Exchange<'a> {
    registry: &'a Registry,
    hub: &'a HubClient,
    /// The database of the hub.
    hub_name: String,
    synced: Synced,
}

impl Exchange<'_> {
    fn conflict(&mut self, name: impl ToString, why: impl Into<String>) {
        self.synced.conflicts.push((name.to_string(), why.into()));
    }

    fn settled(&mut self, name: impl ToString, how: impl Into<String>) {
        self.synced.settled.push((name.to_string(), how.into()));
    }

    /// Goes on with the next capability if what failed concerns this one alone.
    fn note(&mut self, name: String, done: Result<(), SyncError>) -> Result<(), SyncError> {
        match done {
            // Somebody else was faster; the next sync sees what they did.
            Err(SyncError::Hub(HubError::Refused { status: 412, .. })) => Ok(()),
            Err(SyncError::Hub(err)) if err.is_of_one_capability() => {
                self.conflict(name, err.to_string());
                Ok(())
            }
            done => done,
        }
    }

    /// Remembers that both sides are alike.
    async fn link(&self, here: &store::Capability, there: &RemoteCapability) -> Result<(), SyncError> {
        let Ok(remote) = there.id.parse() else { return Ok(()) };
        let link = Link {
            capability: here.id,
            hub: self.hub_name.clone(),
            remote,
            remote_tag: there.tag.clone(),
            remote_version: there.version,
            local_revision: here.revision,
            local_version: here.version.number,
        };
        Ok(self.registry.link(link).await?)
    }

    /// The same of a capability as it was read.
    async fn link_as_read(&self, here: &Capability, there: &RemoteCapability) -> Result<(), SyncError> {
        match self.registry.stored(here.id).await? {
            // Changed meanwhile: the next sync looks at it.
            Some(stored) if stored.tag() != here.tag => Ok(()),
            Some(stored) => self.link(&stored, there).await,
            None => Ok(()),
        }
    }

    /// A capability that both sides have had.
    async fn linked(
        &mut self,
        link: &Link,
        here: Option<&Capability>,
        there: Option<&RegistryCapability>,
        is_deleted: bool,
    ) -> Result<(), SyncError> {
        let ours = match here {
            None => Here::Removed,
            Some(here) if here.visibility == Visibility::Private => Here::Private,
            Some(here) if here.revision == link.local_revision => Here::Same,
            Some(here) => Here::Changed(here.version.saturating_sub(link.local_version)),
        };
        let theirs = match there {
            _ if is_deleted => There::Removed,
            None => There::Hidden,
            Some(there) if there.tag == link.remote_tag => There::Same,
            Some(there) => There::Changed(there.version.saturating_sub(link.remote_version)),
        };
        let name = here.map(|here| here.name.to_string()).unwrap_or_default();
        match (decide(ours, theirs), here, there) {
            (Step::Send { is_conflict }, Some(here), Some(entry)) => {
                let there = match is_conflict {
                    true => Some(self.hub.capability(link.remote).await?),
                    false => None,
                };
                if there.as_ref().is_some_and(|there| is_alike(here, there)) {
                    return self.take(Some(here), &there.expect("it was just read")).await;
                }
                if !entry.may_change {
                    let why =
                        format!("it belongs to {}.{}, so what was changed here stays here", entry.org, entry.project);
                    self.conflict(&name, why);
                    return Ok(());
                }
                self.send(here, entry).await?;
                if is_conflict {
                    let how =
                        "it was changed here and at the hub: this side has more new versions, so the hub has them now";
                    self.settled(&name, how);
                }
                Ok(())
            }
            (Step::Take { is_conflict }, Some(here), Some(_)) => {
                let there = self.hub.capability(link.remote).await?;
                let is_told = is_conflict && !is_alike(here, &there);
                self.take(Some(here), &there).await?;
                if is_told {
                    let how = format!(
                        "it was changed here and at the hub: the hub's version {} is used; what was here is version {}",
                        there.version, here.version
                    );
                    self.settled(&name, how);
                }
                Ok(())
            }
            (Step::RemoveHere, Some(here), _) if here.notes.origin.is_some() => {
                let deleted = self.registry.delete(here.id, Expected::tag(&here.tag)).await?;
                if deleted == Deleted::Deleted {
                    self.registry.unlink(here.id).await?;
                    self.synced.removed_here.push(name);
                }
                Ok(())
            }
            (Step::RemoveHere | Step::Keep, Some(here), _) => {
                let kept = Capability { notes: Notes { origin: None, ..here.notes.clone() }, ..here.clone() };
                self.registry.change(&kept, None, Some(Visibility::Private)).await?;
                self.registry.unlink(here.id).await?;
                self.settled(&name, "it was deleted at the hub; what was written here stays, and is private now");
                Ok(())
            }
            (Step::RemoveThere, _, Some(entry)) => {
                if entry.may_remove {
                    self.hub.delete_capability(link.remote, IfItIs::Tagged(&entry.tag)).await?;
                    self.synced.removed_there.push(format!("{}.{}", entry.namespace, entry.action));
                }
                // Without a link, what stays at the hub would be taken again; a private one keeps its name from that.
                if entry.may_remove || here.is_some() {
                    self.registry.unlink(link.capability).await?;
                }
                Ok(())
            }
            (Step::Leave, _, Some(entry)) if entry.may_remove => {
                let why = "it was removed here and changed at the hub since, so it stays there; `pml capability sync --restore` \
                           takes it back";
                self.conflict(format!("{}.{}", entry.namespace, entry.action), why);
                Ok(())
            }
            (Step::Unlink, ..) => Ok(self.registry.unlink(link.capability).await?),
            _ => Ok(()),
        }
    }

    /// A name that both sides have, and nothing says that it is the same capability.
    async fn meet(&mut self, here: &Capability, entry: &RegistryCapability) -> Result<(), SyncError> {
        let Ok(id) = entry.id.parse::<CapabilityId>() else { return Ok(()) };
        let there = self.hub.capability(id).await?;
        if there.code == *here.code {
            return self.take(Some(here), &there).await;
        }
        if entry.may_change && self.registry.versions(here.id).await?.iter().any(|version| version.code == there.code) {
            return self.send(here, entry).await;
        }
        if self.hub.capability_versions(id).await?.iter().any(|code| **code == *here.code) {
            return self.take(Some(here), &there).await;
        }
        let why = "the hub has another program of this name; rename one of them";
        self.conflict(&here.name, why);
        Ok(())
    }

    /// Puts a capability at the hub that it does not have.
    async fn create(&mut self, here: &Capability) -> Result<(), SyncError> {
        let there = self.hub.put_capability(&body(here), IfItIs::Absent).await?;
        if self.hub_name.is_empty() {
            // The database has a name since it has a capability.
            self.hub_name = answer_name(self.hub).await?;
        }
        self.link_as_read(here, &there).await?;
        self.synced.sent.push(here.name.to_string());
        Ok(())
    }

    /// Makes a capability of the hub what it is here.
    async fn send(&mut self, here: &Capability, entry: &RegistryCapability) -> Result<(), SyncError> {
        let Ok(id) = entry.id.parse::<CapabilityId>() else { return Ok(()) };
        let mut tag = entry.tag.clone();
        if !is_named(entry, &here.name) {
            let name = (here.name.namespace.as_str(), here.name.action.as_str());
            tag = self.hub.rename_capability(id, name, IfItIs::Tagged(&tag)).await?.tag;
        }
        let there = self.hub.put_capability(&body(here), IfItIs::Tagged(&tag)).await?;
        self.link_as_read(here, &there).await?;
        self.synced.sent.push(here.name.to_string());
        Ok(())
    }

    /// Makes a capability here what it is at the hub.
    async fn take(&mut self, here: Option<&Capability>, there: &RemoteCapability) -> Result<(), SyncError> {
        let name = format!("{}.{}", there.namespace, there.action);
        let new = match self.readable(here, there) {
            Ok(new) => new,
            Err(why) => {
                self.conflict(name, why);
                return Ok(());
            }
        };
        let mut expected = here.map_or(Expected::Nothing, |here| Expected::tag(&here.tag));
        if let Some(here) = here.filter(|here| here.name.to_string() != name) {
            let new_name = CapabilityName { namespace: new.namespace.clone(), action: new.action.clone() };
            match self.registry.rename(here.id, &new_name).await? {
                Renamed::Renamed(renamed) => expected = Expected::tag(renamed.tag()),
                Renamed::Taken => {
                    self.conflict(
                        &here.name,
                        format!("the hub calls it `{name}`, and another capability here has that name"),
                    );
                    return Ok(());
                }
                Renamed::Unknown | Renamed::Changed => return Ok(()),
            }
        }
        let is_known = here.is_some_and(|here| is_alike(here, there));
        match self.registry.put(new, expected).await? {
            Put::Created(stored) | Put::NewVersion(stored) | Put::Known(stored) => {
                self.link(&stored, there).await?;
                if !is_known {
                    self.synced.received.push(name);
                }
            }
            // Somebody has changed it here meanwhile: the next sync looks at it.
            Put::Changed => {}
            Put::Taken | Put::Forbidden => self.conflict(name, "another capability here has that name"),
        }
        Ok(())
    }

    /// A capability of the hub as it is stored here; or why it cannot be.
    fn readable(&self, here: Option<&Capability>, there: &RemoteCapability) -> Result<NewCapability, String> {
        let name: CapabilityName = format!("{}.{}", there.namespace, there.action).parse()?;
        if there.code.len() > MAX_CODE_BYTES {
            return Err(format!("its code has more than {MAX_CODE_BYTES} bytes"));
        }
        let in_code = name.in_code();
        let is_other = |other: &Capability| here.is_none_or(|here| here.id != other.id);
        if self.registry.all().iter().any(|other| is_other(other) && other.name.in_code() == in_code) {
            return Err(format!("another capability is called `{in_code}` in programs"));
        }
        let stored = there.parameters.as_ref().map(Value::to_string);
        let (parameters, notes) = read_schema(stored.as_deref()).ok_or("its parameters cannot be read")?;
        // What was written here stays that.
        let is_copy = here.is_none_or(|here| here.notes.origin.is_some());
        let notes = Notes { origin: is_copy.then(|| there.fqdn.clone()), ..notes };
        Ok(NewCapability {
            namespace: name.namespace,
            action: name.action,
            code: there.code.clone(),
            parameters: Some(write_schema(&parameters, &notes)),
            description: there.description.clone(),
            visibility: Some(there.visibility.parse()?),
            author: None,
        })
    }
}

async fn answer_name(hub: &HubClient) -> Result<String, SyncError> {
    match hub.registry(None).await? {
        Document::New { bytes, .. } => Ok(answer::<RegistryReply>(&bytes)?.hub),
        Document::Unchanged => Ok(String::new()),
    }
}

/// What the hub is sent.
fn body(capability: &Capability) -> Value {
    let notes = Notes { origin: None, ..capability.notes.clone() };
    let parameters: Value =
        serde_json::from_str(&write_schema(&capability.parameters, &notes)).expect("what was written is JSON");
    serde_json::json!({
        "namespace": capability.name.namespace,
        "action": capability.name.action,
        "code": &*capability.code,
        "parameters": parameters,
        "description": capability.description,
        "visibility": capability.visibility,
    })
}

/// Are both the same, whatever they have been before?
fn is_alike(here: &Capability, there: &RemoteCapability) -> bool {
    let body = body(here);
    let parameters = there.parameters.clone().unwrap_or(Value::Null);
    (&body["namespace"], &body["action"]) == (&there.namespace.as_str().into(), &there.action.as_str().into())
        && *here.code == *there.code
        && here.description == there.description
        && here.visibility.as_str() == there.visibility
        && body["parameters"] == parameters
}
