//! Which capability a name stands for. As in the other engine: what is called so now, then what was called so last.

use pml_wire::CapabilityId;

use super::{
    super::{
        Fqdn, Scope,
        capability::{AWAITED_VERSIONS, VersionId, full_names},
        connection::Trouble,
    },
    session::{Id, Session},
};

/// The capability that a trace of this tenant means by a name or an id, if it is known.
pub(super) async fn resolve(session: &Session, tenant: i32, name: &str) -> Result<Option<Id>, Trouble> {
    if let Ok(id) = name.parse::<CapabilityId>() {
        let id = Id(*id.as_bytes());
        let sql = "SELECT id FROM capability WHERE id = $1 AND tenant = $2";
        return Ok(session.query_opt(sql, &[&id, &tenant]).await?.map(|_| id));
    }
    let Ok(name) = name.parse::<Fqdn>() else { return Ok(None) };
    let found = match home(session, tenant, &name.scope).await? {
        Some(home) if home == tenant => lookup(session, tenant, &name).await?,
        Some(other) => match lookup(session, other, &name).await? {
            Some(found) if is_shared(session, found.capability).await? => Some(found),
            _ => None,
        },
        None => None,
    };
    Ok(found.map(|found| Id(*found.capability.as_bytes())))
}

/// The tenant in which a trace's name is looked up: its own, or another project of its organisation. A gateway that was not
/// told its scope calls it `local.default`.
async fn home(session: &Session, tenant: i32, scope: &Scope) -> Result<Option<i32>, Trouble> {
    if *scope == Scope::local() {
        return Ok(Some(tenant));
    }
    let sql = "SELECT other.id FROM tenant AS other JOIN tenant AS own ON own.id = $1 AND own.org = other.org
               WHERE other.org = $2 AND other.project = $3";
    Ok(session.query_opt(sql, &[&tenant, &scope.org(), &scope.project()]).await?.map(|row| row.get(0)))
}

async fn is_shared(session: &Session, id: CapabilityId) -> Result<bool, Trouble> {
    let sql = "SELECT visibility = 'org' FROM capability WHERE id = $1";
    Ok(session.query_opt(sql, &[&Id(*id.as_bytes())]).await?.is_some_and(|row| row.get(0)))
}

/// The version that a name stands for within a tenant: with a hash that one, without it the last.
pub(crate) async fn lookup(session: &Session, tenant: i32, name: &Fqdn) -> Result<Option<VersionId>, Trouble> {
    let sql = "SELECT name.capability, version.version FROM capability_name AS name
               JOIN capability_version AS version ON version.capability = name.capability
               WHERE tenant = $1 AND namespace = $2 AND action = $3 AND ($4::text IS NULL OR hash = $4
                 OR (length($4) > length(hash) AND left(encode(sha256, 'hex'), length($4)) = $4))
               ORDER BY current DESC, since DESC, version.version DESC LIMIT 1";
    let found = session.query_opt(sql, &[&tenant, &name.namespace, &name.action, &name.hash]).await?;
    Ok(found.map(|row| {
        let Id(bytes) = row.get(0);
        VersionId { capability: CapabilityId::from_bytes(bytes), version: row.get(1) }
    }))
}

/// Links traces of its organisation that named a capability before it was known, at most `limit`. How many.
pub(crate) async fn adopt(session: &Session, id: CapabilityId, limit: usize) -> Result<usize, Trouble> {
    let uuid = Id(*id.as_bytes());
    let sql = "SELECT other.id, own.id, own.org || '.' || own.project FROM capability
               JOIN tenant AS own ON own.id = capability.tenant JOIN tenant AS other ON other.org = own.org
               WHERE capability.id = $1";
    let tenants = session.query(sql, &[&uuid]).await?;
    let sql = "SELECT namespace || '.' || action FROM capability_name WHERE capability = $1";
    let names: Vec<String> = session.query(sql, &[&uuid]).await?.iter().map(|row| row.get(0)).collect();
    let sql = "SELECT hash, encode(sha256, 'hex') FROM capability_version WHERE capability = $1 ORDER BY version DESC LIMIT $2";
    let versions = session.query(sql, &[&uuid, &AWAITED_VERSIONS]).await?;
    let versions: Vec<(String, String)> = versions.iter().map(|row| (row.get(0), row.get(1))).collect();
    let mut linked = 0;
    for row in &tenants {
        let (tenant, own, scope): (i32, i32, &str) = (row.get(0), row.get(1), row.get(2));
        for name in awaited(session, tenant, &full_names(scope, tenant == own, &names, &versions, id)).await? {
            // Another capability may be called so by now.
            if linked < limit && resolve(session, tenant, &name).await? == Some(uuid) {
                let sql = "UPDATE trace SET capability_id = $3 WHERE tenant = $1 AND id IN (SELECT id FROM trace
                           WHERE tenant = $1 AND capability = $2 AND capability IS NOT NULL AND capability_id IS NULL LIMIT $4)";
                let rest = i64::try_from(limit - linked).unwrap_or(i64::MAX);
                linked += session.execute(sql, &[&tenant, &name, &uuid, &rest]).await? as usize;
            }
        }
    }
    Ok(linked)
}

/// Those of the names that traces name a capability by and that stand for none yet.
async fn awaited(session: &Session, tenant: i32, names: &[String]) -> Result<Vec<String>, Trouble> {
    let sql =
        "SELECT DISTINCT capability FROM trace WHERE tenant = $1 AND capability = ANY($2) AND capability IS NOT NULL
               AND capability_id IS NULL";
    Ok(session.query(sql, &[&tenant, &names]).await?.iter().map(|row| row.get(0)).collect())
}
