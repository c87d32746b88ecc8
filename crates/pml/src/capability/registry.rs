//! The capabilities there are now: read from the database, shown in the catalogue.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::Future,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

use pml_wire::CapabilityId;
use serde_json::{Value, value::RawValue};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

use super::{
    model::{Capability, SavedTool, write_schema},
    name::CapabilityName,
};
use crate::{
    broker::CAPABILITIES,
    catalog::{Catalog, Difference, Listing, Snapshot, Source, Tool},
    digest::sha256,
    events::{Body, Bus},
    hub::store::{
        self, Altered, Capabilities, Change, Deleted, Expected, HubStore, Link, Models, NewCapability, Put,
        RegistryMark, Renamed, Viewer, Visibility, Which,
    },
    trace::{
        MAX_DEPTH,
        store::{Scope, StoreError},
    },
};

/// Between two looks for what other processes have changed.
const LOOK: Duration = Duration::from_millis(500);
/// After so long, everything is read again: a look does not see how often capabilities were run.
const AGAIN: Duration = Duration::from_secs(30);
/// How long a change may take. What is not done then is not done later either.
const SOON: Duration = Duration::from_secs(5);
/// Most capabilities that are read; more are left out.
const MOST: usize = 5000;
/// On whose behalf a gateway keeps capabilities.
const OWNER: &str = "local";
/// The name under which the registry of the hub is kept, as it was when it was last read.
const OF_HUB: &str = "registry-of-hub";

/// The capabilities there are now.
#[derive(Debug)]
pub struct Registry {
    store: Arc<dyn Capabilities>,
    models: Arc<dyn Models>,
    catalog: Catalog,
    bus: Bus,
    state: RwLock<State>,
    /// One reads at a time.
    reading: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    all: Vec<Arc<Capability>>,
    by_tool: HashMap<String, Arc<Capability>>,
    /// By names that capabilities had before and that no other has now, with the tool as it is called now.
    former: HashMap<String, (Arc<Capability>, Arc<Tool>)>,
    /// How far the database was when everything was read.
    mark: RegistryMark,
    read_at: Option<Instant>,
    /// Of what the catalogue was told last, and the catalogue after that.
    listed: Option<String>,
    seen: Option<Arc<Snapshot>>,
}

impl Registry {
    pub fn new(store: &dyn HubStore, catalog: Catalog, bus: Bus) -> Arc<Registry> {
        let viewer = Viewer { scope: Scope::local(), name: OWNER.to_owned(), is_admin: true };
        let (state, reading) = (RwLock::default(), Mutex::default());
        let models = store.models(&viewer.scope);
        Arc::new(Registry { store: store.capabilities(&viewer), models, catalog, bus, state, reading })
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<Arc<Capability>> {
        self.state().all.clone()
    }

    /// The capability that programs call so.
    pub fn by_tool(&self, name: &str) -> Option<Arc<Capability>> {
        let state = self.state();
        state.by_tool.get(name).or_else(|| state.former.get(name).map(|(capability, _)| capability)).cloned()
    }

    /// The tool of the capability that had this name before.
    pub(super) fn former_tool(&self, name: &str) -> Option<Arc<Tool>> {
        self.state().former.get(name).map(|(_, tool)| Arc::clone(tool))
    }

    /// The capability of that name, as `namespace.action` or as programs write it.
    pub fn named(&self, name: &str) -> Option<Arc<Capability>> {
        let state = self.state();
        let is_meant = |capability: &&Arc<Capability>| {
            capability.name.to_string() == name || *capability.fqdn == *name || capability.id.to_string() == name
        };
        let found = state.all.iter().find(is_meant).or_else(|| state.by_tool.get(name));
        let formerly = |capability: &&Arc<Capability>| capability.former.iter().any(|it| it.to_string() == name);
        found.or_else(|| state.all.iter().find(formerly)).cloned()
    }

    /// How a capability of this name with these tools would call itself: the names on the way, from it to it.
    pub fn cycle(&self, name: &CapabilityName, tools: &[SavedTool]) -> Option<Vec<String>> {
        let start = name.in_code();
        let callees = |tools: &[SavedTool]| -> Vec<String> {
            let called = tools.iter().filter_map(|saved| saved.tool.strip_prefix(CAPABILITIES)?.strip_prefix(':'));
            called.map(|name| self.by_tool(name).map_or_else(|| name.to_owned(), |it| it.name.in_code())).collect()
        };
        let mut seen: Vec<String> = Vec::new();
        let mut paths: Vec<Vec<String>> = vec![vec![start.clone()]];
        while let Some(path) = paths.pop() {
            let last = path.last().cloned().unwrap_or_default();
            let called = match last == start {
                true => callees(tools),
                false => self.by_tool(&last).map(|known| callees(&known.notes.tools)).unwrap_or_default(),
            };
            for callee in called {
                let path: Vec<String> = path.iter().cloned().chain([callee.clone()]).collect();
                if callee == start {
                    return Some(path);
                }
                if !seen.contains(&callee) {
                    seen.push(callee);
                    paths.push(path);
                }
            }
        }
        None
    }

    /// Is a capability what another one was saved with, by the identity that was written down then, or a later version of it?
    pub async fn is_same(&self, capability: &Capability, identity: &str) -> bool {
        let (id, sha) = identity.split_once(' ').unwrap_or((identity, ""));
        if id.is_empty() || capability.id.to_string() == id || sha256(&*capability.code) == sha {
            return true;
        }
        // On another gateway it has another id; its history tells.
        let versions = self.versions(capability.id).await.unwrap_or_default();
        versions.iter().any(|version| sha256(&version.code) == sha)
    }

    /// Reads everything again, and tells the catalogue.
    pub async fn reload(&self) -> Result<(), StoreError> {
        let _reading = self.reading.lock().await;
        // Before the list: what changes in between is seen by the next look.
        let mark = self.store.mark().await?;
        let listing = store::Listing { limit: MOST, ..store::Listing::default() };
        let stored = self.store.list(listing).await?.items;
        let mut all: Vec<_> = stored.iter().filter_map(Capability::of).map(Arc::new).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            state.by_tool.clear();
            for capability in &all {
                // Two that programs call alike: the first one in order has the name.
                state.by_tool.entry(capability.name.in_code()).or_insert_with(|| Arc::clone(capability));
            }
            (state.all, state.mark, state.read_at) = (all, mark, Some(Instant::now()));
        }
        // What a capability calls tells how it stands itself, so a change may take a round for each level.
        for _ in 0..=MAX_DEPTH {
            if !self.publish() {
                break;
            }
        }
        Ok(())
    }

    /// Reads everything, for a command that goes on without capabilities if that fails. Where none was ever kept, that is one
    /// lookup.
    pub async fn read(&self) {
        let read = async {
            match self.store.mark().await? {
                RegistryMark { revision: 0, .. } => Ok(()),
                _ => self.reload().await,
            }
        };
        if let Err(err) = read.await {
            let err: StoreError = err;
            tracing::warn!(error = %err, "capabilities cannot be read");
        }
    }

    /// Reads everything again if another process may have changed something.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let (mark, read_at) = {
            let state = self.state();
            (state.mark, state.read_at)
        };
        let is_old = read_at.is_none_or(|read_at| read_at.elapsed() >= AGAIN);
        if is_old || self.store.mark().await? != mark {
            return self.reload().await;
        }
        // What is said of tools may have changed.
        if self.state().seen.as_ref().is_none_or(|seen| !Arc::ptr_eq(seen, &self.catalog.snapshot())) {
            self.publish();
        }
        Ok(())
    }

    /// Follows what other processes change, and what becomes of tools, for as long as it is polled.
    pub async fn follow(&self) -> Infallible {
        let mut is_failing = false;
        loop {
            let outcome = self.refresh().await;
            if let Err(err) = &outcome
                && !is_failing
            {
                tracing::warn!(error = %err, "capabilities cannot be read");
            }
            is_failing = outcome.is_err();
            sleep(LOOK).await;
        }
    }

    /// Tells the catalogue what there is, if that is something else than before. Was it?
    fn publish(&self) -> bool {
        let snapshot = self.catalog.snapshot();
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let tool = |capability: &Capability| capability.as_tool(&capability.standing(&snapshot));
        let mut listed: Vec<_> = state.by_tool.values().map(|capability| tool(capability)).collect();
        listed.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
        let hash = sha256(Value::from(listed.clone()).to_string());
        state.seen = Some(Arc::clone(&snapshot));
        if state.listed.as_ref() == Some(&hash) {
            return false;
        }
        let mut former = HashMap::new();
        for capability in &state.all {
            for name in capability.former.iter().map(CapabilityName::in_code) {
                if !state.by_tool.contains_key(&name) && !former.contains_key(&name) {
                    let raw = RawValue::from_string(tool(capability).to_string()).expect("a value is JSON");
                    if let Ok(tool) = Tool::parse(CAPABILITIES, raw) {
                        former.insert(name, (Arc::clone(capability), Arc::new(tool)));
                    }
                }
            }
        }
        (state.former, state.listed) = (former, Some(hash));
        drop(state);
        let before = snapshot.listing(CAPABILITIES).cloned();
        if listed.is_empty() {
            if before.is_some() {
                self.catalog.remove(CAPABILITIES);
            }
            return true;
        }
        let raw = listed.iter().filter_map(|tool| RawValue::from_string(tool.to_string()).ok()).collect();
        if before.is_none() {
            self.catalog.add(CAPABILITIES);
        }
        let now = Listing::parse(CAPABILITIES, raw, Source::Live);
        let body = match &before {
            Some(before) => {
                let Difference { added, removed, changed, unchanged } = now.difference(before);
                Body::ToolsRefreshed { server: CAPABILITIES.to_owned(), added, removed, changed, unchanged }
            }
            None => {
                let names = now.tools.keys().cloned().collect::<Vec<_>>();
                Body::ToolsDiscovered { server: CAPABILITIES.to_owned(), count: names.len(), names }
            }
        };
        self.catalog.update(now);
        self.bus.publish("", body);
        true
    }

    /// Stores a capability, or a new version of one.
    pub async fn put(&self, new: NewCapability, expected: Expected) -> Result<Put, StoreError> {
        let put = soon(self.store.put(new, expected)).await?;
        self.reload().await?;
        Ok(put)
    }

    /// Changes what is not the code.
    pub async fn change(
        &self,
        capability: &Capability,
        description: Option<String>,
        visibility: Option<Visibility>,
    ) -> Result<bool, StoreError> {
        let parameters = Some(write_schema(&capability.parameters, &capability.notes));
        let change = Change { description, parameters, visibility };
        let changed = soon(self.store.change(capability.id, change, Expected::Anything)).await?;
        self.reload().await?;
        Ok(matches!(changed, Altered::Altered(_)))
    }

    pub async fn rename(&self, id: CapabilityId, name: &CapabilityName) -> Result<Renamed, StoreError> {
        let renamed = soon(self.store.rename(id, &name.namespace, &name.action, Expected::Anything)).await?;
        self.reload().await?;
        Ok(renamed)
    }

    pub async fn delete(&self, id: CapabilityId, expected: Expected) -> Result<Deleted, StoreError> {
        let deleted = soon(self.store.delete(id, expected)).await?;
        self.reload().await?;
        Ok(deleted)
    }

    /// How capabilities are linked to those of a hub.
    pub(super) async fn links(&self, hub: &str) -> Result<Vec<Link>, StoreError> {
        self.store.links(hub).await
    }

    pub(super) async fn link(&self, link: Link) -> Result<(), StoreError> {
        self.store.link(link).await
    }

    pub(super) async fn unlink(&self, capability: CapabilityId) -> Result<(), StoreError> {
        self.store.unlink(capability).await
    }

    /// The registry of the hub as it was last remembered.
    pub(super) async fn remembered(&self) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.models.get(OF_HUB).await?.map(|document| document.bytes))
    }

    pub(super) async fn remember(&self, document: Vec<u8>) -> Result<(), StoreError> {
        self.models.put(OF_HUB, document, None).await.map(drop)
    }

    /// All versions of a capability, the newest first.
    pub async fn versions(&self, id: CapabilityId) -> Result<Vec<store::CapabilityVersion>, StoreError> {
        Ok(self.store.versions(id, 0, None).await?.items)
    }

    /// A capability as it is stored, by its id.
    pub async fn stored(&self, id: CapabilityId) -> Result<Option<store::Capability>, StoreError> {
        self.store.get(Which::Id(id)).await
    }
}

/// Waits a while for a change of the database, which waits for room on the disk and for other programs as long as it is asked to.
async fn soon<T>(change: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = || {
        let why = format!("it took longer than {SOON:?}; the disk is full, or another program has locked the database");
        StoreError::Failed { doing: "changed", source: why.into() }
    };
    timeout(SOON, change).await.unwrap_or_else(|_| Err(late()))
}
