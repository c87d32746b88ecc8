//! Keeps the capabilities of this gateway and those of its hub alike.
//!
//! What is private never leaves. What the hub has is added here as private copies that say where they came from, so they do not
//! go back; they are listed as new and run only when somebody calls them, under the policy, like any tool. Where both sides
//! have a name, the side whose code the other one has as an earlier version is behind and follows. If neither has the
//! other's, nothing is changed, and it is said.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    model::{Capability, Notes, read_schema, write_schema},
    name::CapabilityName,
    registry::Registry,
};
use crate::{
    hub::{
        client::{HubClient, HubError, RemoteCapability},
        store::{NewCapability, Visibility},
    },
    trace::store::StoreError,
};

/// Most capabilities that are taken from a hub, and how many are asked for at once.
const MOST: usize = 2000;
const PAGE: usize = 100;
/// Longest code that is taken.
const MAX_CODE_BYTES: usize = 256 * 1024;

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// By name.
    pub sent: Vec<String>,
    pub received: Vec<String>,
    /// Names whose code differs on both sides, and what cannot be taken, each with the reason.
    pub conflicts: Vec<(String, String)>,
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

/// Compares this gateway's capabilities with those of its hub, once.
pub async fn sync(registry: &Registry, hub: &HubClient) -> Result<Synced, SyncError> {
    registry.refresh().await?;
    let mut remote: BTreeMap<String, RemoteCapability> = BTreeMap::new();
    for offset in (0..MOST).step_by(PAGE) {
        let page = hub.capabilities(PAGE, offset).await?;
        let is_last = page.len() < PAGE;
        remote.extend(page.into_iter().map(|it| (format!("{}.{}", it.namespace, it.action), it)));
        if is_last {
            break;
        }
    }
    let mut synced = Synced::default();
    for capability in registry.all() {
        let name = capability.name.to_string();
        match remote.remove(&name) {
            Some(there) => compare(registry, hub, &capability, &there, &mut synced).await?,
            None if may_leave(&capability) => {
                hub.put_capability(&body(&capability)).await?;
                synced.sent.push(name);
            }
            None => {}
        }
    }
    for (name, there) in remote {
        match receive(registry, &name, &there).await? {
            Ok(()) => synced.received.push(name),
            Err(why) => synced.conflicts.push((name, why)),
        }
    }
    Ok(synced)
}

/// What is private stays, and what came from a hub does not go back.
fn may_leave(capability: &Capability) -> bool {
    capability.visibility != Visibility::Private && capability.notes.origin.is_none()
}

/// A name that both sides have.
async fn compare(
    registry: &Registry,
    hub: &HubClient,
    here: &Capability,
    there: &RemoteCapability,
    synced: &mut Synced,
) -> Result<(), SyncError> {
    let name = here.name.to_string();
    if there.code == *here.code {
        return Ok(());
    }
    let is_known_here = registry.versions(here.id).await?.iter().any(|version| version.code == there.code);
    if is_known_here {
        if may_leave(here) {
            hub.put_capability(&body(here)).await?;
            synced.sent.push(name);
        }
        return Ok(());
    }
    let is_known_there = hub.capability_versions(&there.id).await?.iter().any(|code| **code == *here.code);
    match is_known_there {
        true => match receive(registry, &name, there).await? {
            Ok(()) => synced.received.push(name),
            Err(why) => synced.conflicts.push((name, why)),
        },
        false => {
            let why =
                "the code here and the code of the hub have both changed; rename one, or edit this one to be the other";
            synced.conflicts.push((name, why.to_owned()));
        }
    }
    Ok(())
}

/// Takes a capability of the hub, or says why not.
async fn receive(registry: &Registry, name: &str, there: &RemoteCapability) -> Result<Result<(), String>, SyncError> {
    let parsed: CapabilityName = match name.parse() {
        Ok(parsed) => parsed,
        Err(why) => return Ok(Err(why)),
    };
    if there.code.len() > MAX_CODE_BYTES {
        return Ok(Err(format!("its code has more than {MAX_CODE_BYTES} bytes")));
    }
    let in_code = parsed.in_code();
    if registry.all().iter().any(|other| other.name != parsed && other.name.in_code() == in_code) {
        return Ok(Err(format!("another capability is called `{in_code}` in programs")));
    }
    let stored = there.parameters.as_ref().map(Value::to_string);
    let Some((parameters, notes)) = read_schema(stored.as_deref()) else {
        return Ok(Err("its parameters cannot be read".to_owned()));
    };
    let notes = Notes { origin: Some(there.fqdn.clone()), ..notes };
    let known = registry.named(name).is_some_and(|known| known.name == parsed);
    registry
        .put(NewCapability {
            namespace: parsed.namespace,
            action: parsed.action,
            code: there.code.clone(),
            parameters: Some(write_schema(&parameters, &notes)),
            description: there.description.clone(),
            visibility: (!known).then_some(Visibility::Private),
        })
        .await?;
    Ok(Ok(()))
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
