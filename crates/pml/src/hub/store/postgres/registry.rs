//! How far the registry of capabilities is, and how it is linked to that of a hub.

use pml_wire::CapabilityId;

use super::{
    super::{Link, MAX_REMEMBERED, RegistryEntry, RegistryListing, RegistryMark, tag},
    capabilities::{Seen, uuid},
    keys::moment,
};
use crate::trace::store::{Fqdn, Scope, Trouble, postgres::Id};

/// The next number of a change in the viewer's organisation.
pub(super) async fn next_revision(seen: Seen<'_>) -> Result<i64, Trouble> {
    let sql = "INSERT INTO capability_clock (org, revision) VALUES ('', (random() * 4611686018427387904)::int8 + 1)
               ON CONFLICT (org) DO NOTHING";
    seen.session.execute(sql, &[]).await?;
    let sql = "INSERT INTO capability_clock (org, revision) VALUES ($1, 1)
               ON CONFLICT (org) DO UPDATE SET revision = capability_clock.revision + 1 RETURNING revision";
    let next = seen.session.query_opt(sql, &[&seen.viewer.scope.org()]).await?;
    next.map(|row| row.get(0)).ok_or_else(|| Trouble::Other("a change of a capability has no number".to_owned()))
}

/// Remembers that a capability was deleted, for as many as a registry remembers.
pub(super) async fn remove(seen: Seen<'_>, id: CapabilityId) -> Result<(), Trouble> {
    let revision = next_revision(seen).await?;
    let sql = "INSERT INTO capability_removed (id, tenant, revision) VALUES ($1, $2, $3)";
    seen.session.execute(sql, &[&uuid(id), &seen.tenant, &revision]).await?;
    let sql = "DELETE FROM capability_removed WHERE tenant = $1 AND revision <=
               (SELECT revision FROM capability_removed WHERE tenant = $1 ORDER BY revision DESC LIMIT 1 OFFSET $2)";
    seen.session.execute(sql, &[&seen.tenant, &(MAX_REMEMBERED as i64)]).await.map(drop)
}

pub(super) async fn mark(seen: Seen<'_>) -> Result<RegistryMark, Trouble> {
    let org = seen.viewer.scope.org();
    let sql = "SELECT org, revision FROM capability_clock WHERE org IN ('', $1)";
    let mut mark = RegistryMark::default();
    for row in seen.session.query(sql, &[&org]).await? {
        let number = row.get::<_, i64>(1).unsigned_abs();
        match row.get::<_, &str>(0) {
            "" => mark.database = number,
            _ => mark.revision = number,
        }
    }
    Ok(mark)
}

pub(super) async fn listing(seen: Seen<'_>) -> Result<RegistryListing, Trouble> {
    let (org, limit) = (seen.viewer.scope.org(), MAX_REMEMBERED as i64);
    let sql = "SELECT capability.id, org, project, namespace, action, visibility, owner, revision, updated_at,
                 (SELECT max(version) FROM capability_version AS newest WHERE newest.capability = capability.id)
               FROM capability
               JOIN tenant ON tenant.id = capability.tenant
               JOIN capability_name AS name ON name.capability = capability.id AND name.current
               WHERE (capability.tenant = $1 AND visibility <> 'private') OR (tenant.org = $2 AND visibility = 'org')
               ORDER BY capability.id LIMIT $3";
    let rows = seen.session.query(sql, &[&seen.tenant, &org, &limit]).await?;
    let entries = rows.iter().filter_map(|row| {
        let Id(id) = row.get(0);
        Some(RegistryEntry {
            id: CapabilityId::from_bytes(id),
            name: Fqdn {
                scope: Scope::new(row.get(1), row.get(2)).ok()?,
                namespace: row.get(3),
                action: row.get(4),
                hash: None,
            },
            visibility: row.get::<_, &str>(5).parse().ok()?,
            owner: row.get(6),
            tag: tag(row.get::<_, i64>(7).unsigned_abs(), moment(row.get(8))),
            version: row.get::<_, Option<i64>>(9).and_then(|number| u32::try_from(number).ok()).unwrap_or(0),
        })
    });
    let sql =
        "SELECT capability_removed.id FROM capability_removed JOIN tenant ON tenant.id = capability_removed.tenant
               WHERE tenant.org = $1 ORDER BY revision DESC LIMIT $2";
    let removed = seen.session.query(sql, &[&org, &limit]).await?;
    let removed = removed.iter().map(|row| {
        let Id(id) = row.get(0);
        CapabilityId::from_bytes(id)
    });
    Ok(RegistryListing { entries: entries.collect(), removed: removed.collect() })
}

pub(super) async fn links(seen: Seen<'_>, hub: &str) -> Result<Vec<Link>, Trouble> {
    let sql = "SELECT capability, hub, remote, remote_tag, remote_version, local_revision, local_version
               FROM capability_link WHERE tenant = $1 AND hub = $2";
    let rows = seen.session.query(sql, &[&seen.tenant, &hub]).await?;
    let number = |number: i64| u32::try_from(number).unwrap_or(0);
    let links = rows.iter().map(|row| {
        let (Id(capability), Id(remote)) = (row.get(0), row.get(2));
        Link {
            capability: CapabilityId::from_bytes(capability),
            hub: row.get(1),
            remote: CapabilityId::from_bytes(remote),
            remote_tag: row.get(3),
            remote_version: number(row.get(4)),
            local_revision: row.get::<_, i64>(5).unsigned_abs(),
            local_version: number(row.get(6)),
        }
    });
    Ok(links.collect())
}

pub(super) async fn link(seen: Seen<'_>, link: &Link) -> Result<(), Trouble> {
    let Link { capability, hub, remote, remote_tag, remote_version, local_revision, local_version } = link;
    let sql = "INSERT INTO capability_link
                 (capability, tenant, hub, remote, remote_tag, remote_version, local_revision, local_version)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
               ON CONFLICT (capability) DO UPDATE SET hub = $3, remote = $4, remote_tag = $5, remote_version = $6,
                 local_revision = $7, local_version = $8";
    let (capability, remote) = (uuid(*capability), uuid(*remote));
    let (remote_version, local_version) = (i64::from(*remote_version), i64::from(*local_version));
    let local_revision = i64::try_from(*local_revision).unwrap_or(i64::MAX);
    seen.session
        .execute(
            sql,
            &[&capability, &seen.tenant, hub, &remote, remote_tag, &remote_version, &local_revision, &local_version],
        )
        .await
        .map(drop)
}

pub(super) async fn unlink(seen: Seen<'_>, capability: CapabilityId) -> Result<(), Trouble> {
    let sql = "DELETE FROM capability_link WHERE tenant = $1 AND capability = $2";
    seen.session.execute(sql, &[&seen.tenant, &uuid(capability)]).await.map(drop)
}
