//! Capabilities: put, found, changed, renamed and deleted, and the registry that gateways follow.
//!
//! Any key with `ingest` puts new versions of the capabilities of its project. Renaming, deleting and deciding who sees a capability
//! is for the key that has put it first, and for `admin`. A key that may not read is told what it has said itself, and no more.

use std::sync::Arc;

use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};
use pml_wire::{
    CapabilityId,
    hub::{Code, RegistryCapability, RegistryReply},
};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    super::store::{
        Altered, Capabilities, Capability, CapabilityVersion, Change, Deleted, Expected, Listing, NewCapability,
        Permission, Put, RegistryEntry, Renamed, Visibility, Which,
    },
    call::{Call, ONE_BYTES, PAGE_BYTES},
    problem,
    problem::Problem,
    traces::in_time,
};
use crate::{digest::sha256, trace::store::check_name};

/// Longest code, and longest of what is said about it.
const MAX_CODE_BYTES: usize = 1024 * 1024;
const MAX_DESCRIPTION_BYTES: usize = 16 * 1024;
const MAX_PARAMETERS_BYTES: usize = 256 * 1024;
/// Capabilities of a page, if nothing is said, and at most.
const PAGE: usize = 50;
const MAX_PAGE: usize = 500;
const MAX_OFFSET: usize = 1_000_000;

/// The body of `POST /api/capabilities`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PutBody {
    namespace: String,
    action: String,
    code: String,
    #[serde(default)]
    parameters: Option<Map<String, Value>>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    visibility: Option<Visibility>,
}

/// The body of `PATCH /api/capabilities/{id}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeBody {
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Map<String, Value>>,
    #[serde(default)]
    visibility: Option<Visibility>,
}

/// The body of `POST /api/capabilities/{id}/name`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NameBody {
    namespace: String,
    action: String,
}

fn store(call: &Call) -> Arc<dyn Capabilities> {
    call.hub.store.capabilities(&call.caller.viewer())
}

fn unknown() -> Problem {
    Problem::new(Code::NotFound, "there is no such capability, or it is not for this key")
}

fn taken() -> Problem {
    Problem::new(Code::NameTaken, "another capability has this name")
}

fn changed() -> Problem {
    Problem::new(Code::Changed, "the capability is not what this request expects")
}

/// What `If-Match` and `If-None-Match` expect.
fn expected(call: &Call) -> Expected {
    let texts = |name: HeaderName| -> Vec<&str> {
        let values = call.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).map(str::trim).collect()
    };
    match (&texts(header::IF_MATCH)[..], &texts(header::IF_NONE_MATCH)[..]) {
        (["*"], _) => Expected::Existing,
        ([], ["*"]) => Expected::Nothing,
        ([], _) => Expected::Anything,
        // A weak tag is none of a capability.
        (tags, _) => Expected::Tags(tags.iter().map(|tag| tag.trim_matches('"').to_owned()).collect()),
    }
}

fn forbidden() -> Problem {
    let message = "only the key that has put the capability, or one that permits admin, may do this";
    Problem::new(Code::Forbidden, message)
}

fn check_may_remove(call: &Call, capability: &Capability) -> Result<(), Problem> {
    match call.caller.viewer().may_remove(&capability.owner) {
        true => Ok(()),
        false => Err(forbidden()),
    }
}

/// What the caller is told of a capability that it has put or changed.
fn told(call: &Call, capability: &Capability, has_put: bool) -> Value {
    if call.caller.key.permissions.permit(Permission::Read) {
        return whole(capability);
    }
    let Capability { id, name, version, .. } = capability;
    let mut told = json!({
        "id": id,
        "org": name.scope.org(),
        "project": name.scope.project(),
        "namespace": name.namespace,
        "action": name.action,
        "version": version.number,
        "tag": capability.tag(),
    });
    if has_put {
        // The hash is of what it has sent.
        told["fqdn"] = json!(name.to_string());
        told["hash"] = json!(version.hash);
    }
    told
}

/// Everything that a gateway needs to find out what it lacks, or 304 if nothing has changed since it asked.
pub(super) async fn registry(call: Call) -> Result<Response, Problem> {
    let store = store(&call);
    let mark = call.hub.soon(store.mark()).await?;
    let key = &call.caller.key;
    let seen_by = format!("{} {} {} {}", mark.revision, key.scope, key.name, key.permissions);
    let etag = format!("\"{}\"", &sha256(format!("{} {seen_by}", mark.database))[..32]);
    let known = call.headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut response = match known.is_some_and(|known| known.split(',').any(|tag| tag.trim() == etag)) {
        true => {
            let mut response = Response::default();
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
        false => {
            // Read after the mark: a change in between is in the listing, and the next request sees the new mark.
            let listing = call.hub.soon(store.registry()).await?;
            let reply = RegistryReply {
                hub: if mark.database == 0 { String::new() } else { format!("{:x}", mark.database) },
                capabilities: listing.entries.iter().map(|entry| registry_entry(&call, entry)).collect(),
                removed: listing.removed.iter().map(ToString::to_string).collect(),
            };
            problem::json(StatusCode::OK, &reply)
        }
    };
    if let Ok(value) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(header::ETAG, value);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}

fn registry_entry(call: &Call, entry: &RegistryEntry) -> RegistryCapability {
    let RegistryEntry { id, name, visibility, owner, tag, version } = entry;
    let is_own = name.scope == call.caller.key.scope;
    RegistryCapability {
        id: id.to_string(),
        org: name.scope.org().to_owned(),
        project: name.scope.project().to_owned(),
        namespace: name.namespace.clone(),
        action: name.action.clone(),
        visibility: visibility.as_str().to_owned(),
        tag: tag.clone(),
        version: *version,
        may_change: is_own && call.caller.key.permissions.permit(Permission::Ingest),
        may_remove: is_own && call.caller.viewer().may_remove(owner),
    }
}

pub(super) async fn put(call: Call) -> Result<Response, Problem> {
    let (call, body) = call.json::<PutBody>().await?;
    let PutBody { namespace, action, code, parameters, description, visibility } = body;
    check_names(&namespace, &action)?;
    at_most("code", code.len(), MAX_CODE_BYTES)?;
    at_most("description", description.len(), MAX_DESCRIPTION_BYTES)?;
    if code.trim().is_empty() {
        return Err(Problem::invalid("`code` is empty"));
    }
    let parameters = parameters.map(schema).transpose()?;
    let new = NewCapability { namespace, action, code, parameters, description, visibility, author: None };
    let place = call.room(ONE_BYTES).await?;
    let (status, capability) = match call.hub.soon(store(&call).put(new, expected(&call))).await? {
        Put::Created(capability) | Put::NewVersion(capability) => (StatusCode::CREATED, capability),
        Put::Known(capability) => (StatusCode::OK, capability),
        Put::Taken => return Err(taken()),
        Put::Changed => return Err(changed()),
        Put::Forbidden => return Err(forbidden()),
    };
    Ok(place.hold(problem::json(status, &told(&call, &capability, true))))
}

pub(super) async fn list(call: Call) -> Result<Response, Problem> {
    let listing = Listing {
        text: call.query("text")?.unwrap_or_default(),
        limit: call.number("limit", PAGE, MAX_PAGE)?,
        offset: call.number("offset", 0, MAX_OFFSET)?,
        max_bytes: Some(PAGE_BYTES),
    };
    let (offset, store) = (listing.offset, store(&call));
    let (found, place) = in_time(&call, store.list(listing)).await?;
    let next = found.has_more.then_some(offset + found.items.len());
    let found: Vec<_> = found.items.iter().map(whole).collect();
    Ok(place.hold(problem::json(StatusCode::OK, &json!({"capabilities": found, "next": next}))))
}

/// What a part of a path stands for: an id, or a name of 4 or 5 parts.
fn which(call: &Call) -> Result<Which, Problem> {
    match call.part::<CapabilityId>("which") {
        Ok(id) => Ok(Which::Id(id)),
        Err(_) => Ok(Which::Name(call.part("which").map_err(|_| unknown())?)),
    }
}

async fn found(call: &Call, store: &dyn Capabilities) -> Result<Capability, Problem> {
    call.hub.soon(store.get(which(call)?)).await?.ok_or_else(unknown)
}

pub(super) async fn get(call: Call) -> Result<Response, Problem> {
    let place = call.room(ONE_BYTES).await?;
    let found = found(&call, &*store(&call)).await?;
    Ok(place.hold(problem::json(StatusCode::OK, &whole(&found))))
}

pub(super) async fn versions(call: Call) -> Result<Response, Problem> {
    let offset = call.number("offset", 0, MAX_OFFSET)?;
    let store = store(&call);
    let id = found(&call, &*store).await?.id;
    let (found, place) = in_time(&call, store.versions(id, offset, Some(PAGE_BYTES))).await?;
    let next = found.has_more.then_some(offset + found.items.len());
    let versions: Vec<_> = found.items.iter().map(version).collect();
    Ok(place.hold(problem::json(StatusCode::OK, &json!({"id": id, "versions": versions, "next": next}))))
}

pub(super) async fn change(call: Call) -> Result<Response, Problem> {
    let (call, body) = call.json::<ChangeBody>().await?;
    let ChangeBody { description, parameters, visibility } = body;
    at_most("description", description.as_ref().map_or(0, String::len), MAX_DESCRIPTION_BYTES)?;
    let change = Change { description, parameters: parameters.map(schema).transpose()?, visibility };
    let (store, place) = (store(&call), call.room(ONE_BYTES).await?);
    let id = found(&call, &*store).await?.id;
    match call.hub.soon(store.change(id, change, expected(&call))).await? {
        Altered::Altered(capability) => Ok(place.hold(problem::json(StatusCode::OK, &told(&call, &capability, false)))),
        Altered::Unknown => Err(unknown()),
        Altered::Changed => Err(changed()),
        Altered::Forbidden => Err(forbidden()),
    }
}

pub(super) async fn rename(call: Call) -> Result<Response, Problem> {
    let (call, NameBody { namespace, action }) = call.json::<NameBody>().await?;
    check_names(&namespace, &action)?;
    let (store, place) = (store(&call), call.room(ONE_BYTES).await?);
    let there = found(&call, &*store).await?;
    check_may_remove(&call, &there)?;
    match call.hub.soon(store.rename(there.id, &namespace, &action, expected(&call))).await? {
        Renamed::Renamed(capability) => Ok(place.hold(problem::json(StatusCode::OK, &told(&call, &capability, false)))),
        Renamed::Taken => Err(taken()),
        Renamed::Unknown => Err(unknown()),
        Renamed::Changed => Err(changed()),
    }
}

pub(super) async fn delete(call: Call) -> Result<Response, Problem> {
    let store = store(&call);
    let there = found(&call, &*store).await?;
    check_may_remove(&call, &there)?;
    match call.hub.soon(store.delete(there.id, expected(&call))).await? {
        Deleted::Deleted => Ok(problem::json(StatusCode::OK, &json!({"deleted": 1}))),
        Deleted::Unknown => Err(unknown()),
        Deleted::Changed => Err(changed()),
    }
}

fn check_names(namespace: &str, action: &str) -> Result<(), Problem> {
    for name in [namespace, action] {
        check_name(name).map_err(|err| Problem::new(Code::InvalidCapability, err.to_string()))?;
    }
    Ok(())
}

fn at_most(what: &str, bytes: usize, most: usize) -> Result<(), Problem> {
    match bytes <= most {
        true => Ok(()),
        false => Err(Problem::new(Code::TooLarge, format!("`{what}` has {bytes} bytes, but may have {most}"))),
    }
}

fn schema(schema: Map<String, Value>) -> Result<String, Problem> {
    let text = Value::Object(schema).to_string();
    at_most("parameters", text.len(), MAX_PARAMETERS_BYTES)?;
    Ok(text)
}

fn whole(capability: &Capability) -> Value {
    let Capability { id, name, visibility, owner, created_at, updated_at, revision: _, version, former_names, stats } =
        capability;
    let former: Vec<_> = former_names.iter().map(ToString::to_string).collect();
    json!({
        "id": id,
        "fqdn": name.to_string(),
        "org": name.scope.org(),
        "project": name.scope.project(),
        "namespace": name.namespace,
        "action": name.action,
        "hash": version.hash,
        "version": version.number,
        "code": version.code,
        "parameters": raw(version),
        "description": version.description,
        "visibility": visibility,
        "owner": owner,
        "formerNames": former,
        "createdAt": created_at,
        "updatedAt": updated_at,
        "tag": capability.tag(),
        "stats": {
            "runs": stats.runs,
            "failed": stats.failed,
            "meanMs": stats.mean_ms,
            "lastRun": stats.last_run,
        },
    })
}

fn version(version: &CapabilityVersion) -> Value {
    json!({
        "version": version.number,
        "hash": version.hash,
        "code": version.code,
        "parameters": raw(version),
        "description": version.description,
        "author": version.author,
        "createdAt": version.created_at,
    })
}

fn raw(version: &CapabilityVersion) -> Option<Box<RawValue>> {
    version.parameters.clone().and_then(|text| RawValue::from_string(text).ok())
}
