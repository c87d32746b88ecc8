//! Which capability a name stands for. As in the other engine: what is called so now, then what was called so last.

use pml_wire::CapabilityId;

use super::{
    super::{Fqdn, Scope, capability::VersionId, connection::Trouble},
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
               WHERE tenant = $1 AND namespace = $2 AND action = $3 AND ($4::text IS NULL OR hash = $4)
               ORDER BY current DESC, since DESC, version.version DESC LIMIT 1";
    let found = session.query_opt(sql, &[&tenant, &name.namespace, &name.action, &name.hash]).await?;
    Ok(found.map(|row| {
        let Id(bytes) = row.get(0);
        VersionId { capability: CapabilityId::from_bytes(bytes), version: row.get(1) }
    }))
}

/// Links traces that named a capability before it was known, at most `limit`. How many.
pub(crate) async fn adopt(session: &Session, tenant: i32, limit: usize) -> Result<usize, Trouble> {
    let sql =
        "SELECT DISTINCT capability FROM trace WHERE tenant = $1 AND capability IS NOT NULL AND capability_id IS NULL";
    let mut linked = 0;
    for row in session.query(sql, &[&tenant]).await? {
        if linked >= limit {
            break;
        }
        let name: &str = row.get(0);
        if let Some(id) = resolve(session, tenant, name).await? {
            let sql = "UPDATE trace SET capability_id = $3 WHERE tenant = $1 AND id IN (SELECT id FROM trace
                       WHERE tenant = $1 AND capability = $2 AND capability IS NOT NULL AND capability_id IS NULL LIMIT $4)";
            let rest = i64::try_from(limit - linked).unwrap_or(i64::MAX);
            linked += session.execute(sql, &[&tenant, &name, &id, &rest]).await? as usize;
        }
    }
    Ok(linked)
}
