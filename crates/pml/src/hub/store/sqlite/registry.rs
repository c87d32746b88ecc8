//! How far the registry of capabilities is, and how it is linked to that of a hub.

use pml_wire::CapabilityId;
use rusqlite::{OptionalExtension, named_params, params};

use super::{
    super::{Link, MAX_REMEMBERED, RegistryEntry, RegistryListing, RegistryMark, tag},
    capabilities::{SEEN, Seen},
    keys::moment,
};
use crate::trace::store::{Fqdn, Scope};

/// The next number of a change in the viewer's organisation.
pub(super) fn next_revision(seen: Seen<'_>) -> rusqlite::Result<i64> {
    let db = seen.view.db;
    db.execute(
        "INSERT INTO capability_clock (org, revision) VALUES ('', abs(random() % 4611686018427387904) + 1)
         ON CONFLICT (org) DO NOTHING",
        [],
    )?;
    let sql = "INSERT INTO capability_clock (org, revision) VALUES (?1, 1)
               ON CONFLICT (org) DO UPDATE SET revision = revision + 1 RETURNING revision";
    db.prepare_cached(sql)?.query_row([seen.viewer.scope.org()], |row| row.get(0))
}

/// Remembers that a capability was deleted, for as many as a registry remembers.
pub(super) fn remove(seen: Seen<'_>, id: CapabilityId) -> rusqlite::Result<()> {
    let (db, tenant) = (seen.view.db, seen.view.tenant);
    let sql = "INSERT INTO capability_removed (id, tenant, revision) VALUES (?1, ?2, ?3)";
    db.execute(sql, params![id.as_bytes(), tenant, next_revision(seen)?])?;
    let sql = "DELETE FROM capability_removed WHERE tenant = ?1 AND revision <=
               (SELECT revision FROM capability_removed WHERE tenant = ?1 ORDER BY revision DESC LIMIT 1 OFFSET ?2)";
    db.execute(sql, params![tenant, MAX_REMEMBERED as i64]).map(drop)
}

pub(super) fn mark(seen: Seen<'_>) -> rusqlite::Result<RegistryMark> {
    let mut statement = seen.view.db.prepare_cached("SELECT revision FROM capability_clock WHERE org = ?1")?;
    let mut of = |org: &str| {
        let found = statement.query_row([org], |row| row.get::<_, i64>(0)).optional();
        found.map(|found| found.map_or(0, i64::unsigned_abs))
    };
    Ok(RegistryMark { database: of("")?, revision: of(seen.viewer.scope.org())? })
}

pub(super) fn listing(seen: Seen<'_>) -> rusqlite::Result<RegistryListing> {
    let (db, org) = (seen.view.db, seen.viewer.scope.org());
    let sql = format!(
        "SELECT capability.id, org, project, namespace, action, visibility, owner, capability.revision, capability.updated_at,
           (SELECT max(version) FROM capability_version AS newest WHERE newest.capability = capability.id)
         FROM {SEEN} AND visibility <> 'private' ORDER BY capability.id LIMIT :limit"
    );
    let limit = MAX_REMEMBERED as i64;
    let params = named_params! {
        ":tenant": seen.view.tenant, ":org": org, ":viewer": seen.viewer.owner(), ":limit": limit,
    };
    let mut statement = db.prepare_cached(&sql)?;
    let entries = statement.query_map(params, |row| {
        let (org, project, visibility): (String, String, String) = (row.get(1)?, row.get(2)?, row.get(5)?);
        let (Ok(scope), Ok(visibility)) = (Scope::new(&org, &project), visibility.parse()) else { return Ok(None) };
        Ok(Some(RegistryEntry {
            id: CapabilityId::from_bytes(row.get(0)?),
            name: Fqdn { scope, namespace: row.get(3)?, action: row.get(4)?, hash: None },
            visibility,
            owner: row.get(6)?,
            tag: tag(row.get::<_, i64>(7)?.unsigned_abs(), moment(row.get(8)?)),
            version: row.get::<_, Option<u32>>(9)?.unwrap_or(0),
        }))
    })?;
    let entries = entries.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect();
    let sql =
        "SELECT capability_removed.id FROM capability_removed JOIN tenant ON tenant.id = capability_removed.tenant
               WHERE tenant.org = ?1 ORDER BY revision DESC LIMIT ?2";
    let mut statement = db.prepare_cached(sql)?;
    let removed = statement.query_map(params![org, limit], |row| Ok(CapabilityId::from_bytes(row.get(0)?)))?;
    Ok(RegistryListing { entries, removed: removed.collect::<Result<_, _>>()? })
}

pub(super) fn links(seen: Seen<'_>, hub: &str) -> rusqlite::Result<Vec<Link>> {
    let sql = "SELECT capability, hub, remote, remote_tag, remote_version, local_revision, local_version
               FROM capability_link WHERE tenant = ?1 AND hub = ?2";
    let mut statement = seen.view.db.prepare_cached(sql)?;
    let links = statement.query_map(params![seen.view.tenant, hub], |row| {
        Ok(Link {
            capability: CapabilityId::from_bytes(row.get(0)?),
            hub: row.get(1)?,
            remote: CapabilityId::from_bytes(row.get(2)?),
            remote_tag: row.get(3)?,
            remote_version: row.get(4)?,
            local_revision: row.get::<_, i64>(5)?.unsigned_abs(),
            local_version: row.get(6)?,
        })
    })?;
    links.collect()
}

pub(super) fn link(seen: Seen<'_>, link: &Link) -> rusqlite::Result<()> {
    let Link { capability, hub, remote, remote_tag, remote_version, local_revision, local_version } = link;
    let sql = "INSERT OR REPLACE INTO capability_link
                 (capability, tenant, hub, remote, remote_tag, remote_version, local_revision, local_version)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let local_revision = i64::try_from(*local_revision).unwrap_or(i64::MAX);
    let params = params![
        capability.as_bytes(),
        seen.view.tenant,
        hub,
        remote.as_bytes(),
        remote_tag,
        remote_version,
        local_revision,
        local_version
    ];
    seen.view.db.execute(sql, params).map(drop)
}

pub(super) fn unlink(seen: Seen<'_>, capability: CapabilityId) -> rusqlite::Result<()> {
    let sql = "DELETE FROM capability_link WHERE tenant = ?1 AND capability = ?2";
    seen.view.db.execute(sql, params![seen.view.tenant, capability.as_bytes()]).map(drop)
}
