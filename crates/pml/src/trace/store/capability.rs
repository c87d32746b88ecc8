//! Which capability a name stands for.
//!
//! Traces name capabilities, and are linked to what the name stands for when they are stored, or later, when the capability
//! arrives. Names are looked up in one order everywhere: what is called so now, then what was called so last.

use pml_wire::CapabilityId;
use rusqlite::{Connection, OptionalExtension, params};

use super::{Fqdn, Scope};

/// A version of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionId {
    pub(crate) capability: CapabilityId,
    pub(crate) version: i64,
}

/// The capability that a trace of this tenant means by a name or an id, if it is known.
pub(super) fn resolve(db: &Connection, tenant: i64, name: &str) -> rusqlite::Result<Option<CapabilityId>> {
    if let Ok(id) = name.parse::<CapabilityId>() {
        let sql = "SELECT id FROM capability WHERE id = ?1 AND tenant = ?2";
        let found = db.prepare_cached(sql)?.query_row(params![id.as_bytes(), tenant], |_| Ok(id)).optional()?;
        return Ok(found);
    }
    let Ok(name) = name.parse::<Fqdn>() else { return Ok(None) };
    let found = match home(db, tenant, &name.scope)? {
        Some(home) if home == tenant => lookup(db, tenant, &name)?,
        Some(other) => match lookup(db, other, &name)? {
            Some(found) if is_shared(db, found.capability)? => Some(found),
            _ => None,
        },
        None => None,
    };
    Ok(found.map(|found| found.capability))
}

/// The tenant in which a trace's name is looked up: its own, or another project of its organisation. A gateway that was not
/// told its scope calls it `local.default`.
fn home(db: &Connection, tenant: i64, scope: &Scope) -> rusqlite::Result<Option<i64>> {
    if *scope == Scope::local() {
        return Ok(Some(tenant));
    }
    let sql = "SELECT other.id FROM tenant AS other JOIN tenant AS own ON own.id = ?1 AND own.org = other.org
               WHERE other.org = ?2 AND other.project = ?3";
    db.prepare_cached(sql)?.query_row(params![tenant, scope.org(), scope.project()], |row| row.get(0)).optional()
}

fn is_shared(db: &Connection, id: CapabilityId) -> rusqlite::Result<bool> {
    let sql = "SELECT visibility = 'org' FROM capability WHERE id = ?1";
    Ok(db.prepare_cached(sql)?.query_row([id.as_bytes()], |row| row.get(0)).optional()?.unwrap_or(false))
}

/// The version that a name stands for within a tenant: with a hash that one, also if the name has more of it than is needed; without
/// it the last.
pub(crate) fn lookup(db: &Connection, tenant: i64, name: &Fqdn) -> rusqlite::Result<Option<VersionId>> {
    let sql = "SELECT name.capability, version FROM capability_name AS name
               JOIN capability_version AS version ON version.capability = name.capability
               WHERE tenant = ?1 AND namespace = ?2 AND action = ?3 AND (?4 IS NULL OR hash = ?4
                 OR length(?4) > length(hash) AND substr(lower(hex(sha256)), 1, length(?4)) = ?4)
               ORDER BY current DESC, since DESC, version DESC LIMIT 1";
    db.prepare_cached(sql)?
        .query_row(params![tenant, name.namespace, name.action, name.hash], |row| {
            Ok(VersionId { capability: CapabilityId::from_bytes(row.get(0)?), version: row.get(1)? })
        })
        .optional()
}

/// Newest versions whose hashes traces may await. Those of older versions were linked when these were new.
pub(super) const AWAITED_VERSIONS: i64 = 100;

/// Links traces of its organisation that named a capability before it was known, at most `limit`. How many.
pub(crate) fn adopt(db: &Connection, id: CapabilityId, limit: usize) -> rusqlite::Result<usize> {
    let sql = "SELECT other.id, own.id, own.org || '.' || own.project FROM capability
               JOIN tenant AS own ON own.id = capability.tenant JOIN tenant AS other ON other.org = own.org
               WHERE capability.id = ?1";
    let tenants: Vec<(i64, i64, String)> = db
        .prepare_cached(sql)?
        .query_map([id.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let sql = "SELECT namespace || '.' || action FROM capability_name WHERE capability = ?1";
    let names: Vec<String> =
        db.prepare_cached(sql)?.query_map([id.as_bytes()], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let sql =
        "SELECT hash, lower(hex(sha256)) FROM capability_version WHERE capability = ?1 ORDER BY version DESC LIMIT ?2";
    let versions: Vec<(String, String)> = db
        .prepare_cached(sql)?
        .query_map(params![id.as_bytes(), AWAITED_VERSIONS], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut linked = 0;
    for (tenant, own, scope) in &tenants {
        for name in awaited(db, *tenant, &full_names(scope, tenant == own, &names, &versions, id))? {
            // Another capability may be called so by now.
            if linked < limit && resolve(db, *tenant, &name)? == Some(id) {
                let sql = "UPDATE trace SET capability_id = ?3 WHERE seq IN (SELECT seq FROM trace
                           WHERE tenant = ?1 AND capability = ?2 AND capability NOTNULL AND capability_id IS NULL LIMIT ?4)";
                let rest = (limit - linked) as i64;
                linked += db.prepare_cached(sql)?.execute(params![tenant, name, id.as_bytes(), rest])?;
            }
        }
    }
    Ok(linked)
}

/// Everything by which a trace may name a capability: its id, and its names in its scope and, at home, in the scope of a gateway
/// that was not told its own; each without a hash, and with as many digits of the hash of each version as [`lookup`] takes.
/// A version is its hash in names and its whole SHA-256, in hexadecimal digits.
pub(super) fn full_names(
    scope: &str,
    is_home: bool,
    names: &[String],
    versions: &[(String, String)],
    id: CapabilityId,
) -> Vec<String> {
    let local = Scope::local().to_string();
    let mut full = vec![id.to_string()];
    for scope in [Some(scope), Some(local.as_str()).filter(|_| is_home)].into_iter().flatten() {
        for name in names {
            full.push(format!("{scope}.{name}"));
            for (hash, sha256) in versions {
                let digits = (hash.len()..=sha256.len()).filter_map(|digits| sha256.get(..digits));
                full.extend(digits.map(|digits| format!("{scope}.{name}.{digits}")));
            }
        }
    }
    full
}

/// Those of the names that traces name a capability by and that stand for none yet.
fn awaited(db: &Connection, tenant: i64, names: &[String]) -> rusqlite::Result<Vec<String>> {
    let sql =
        "SELECT DISTINCT capability FROM trace WHERE tenant = ?1 AND capability IN (SELECT value FROM json_each(?2))
               AND capability NOTNULL AND capability_id IS NULL";
    let names = serde_json::Value::from(names).to_string();
    db.prepare_cached(sql)?.query_map(params![tenant, names], |row| row.get(0))?.collect()
}
