//! Capabilities.

use pml_wire::{CapabilityId, ErrorCode};
use rusqlite::{Connection, OptionalExtension, Row, params};
use sha2::{Digest, Sha256};

use super::{
    super::{
        Altered, Capabilities, Capability, CapabilityStats, CapabilityVersion, Change, Deleted, Expected, Link,
        Listing, NewCapability, Part, Put, RegistryListing, RegistryMark, Renamed, Viewer, Visibility, Which,
    },
    keys::moment,
    registry,
};
use crate::{
    clock::now_millis,
    trace::{
        CUT_OFF,
        store::{Answer, Fqdn, MIN_HASH, Scope, SqliteStores, StoreError, View, adopt, lookup},
    },
};

/// Traces that are linked in one transaction with a capability that arrives; the others follow.
const LINKED_AT_ONCE: usize = 2000;
/// Most words of a search.
const MAX_WORDS: usize = 16;

#[derive(Debug)]
pub(super) struct SqliteCapabilities {
    pub(super) stores: SqliteStores,
    pub(super) viewer: Viewer,
}

/// The capabilities that may be seen, with their names; `:org`, `:tenant` and `:viewer` are whoever looks, the last NULL for an admin.
pub(super) const SEEN: &str = "capability
    JOIN tenant ON tenant.id = capability.tenant
    JOIN capability_name AS name ON name.capability = capability.id AND name.current
    WHERE (capability.tenant = :tenant AND (visibility <> 'private' OR :viewer IS NULL OR owner = :viewer)
           OR tenant.org = :org AND visibility = 'org')";

impl SqliteCapabilities {
    /// Makes a change.
    async fn run<T: Send + 'static>(
        &self,
        mut change: impl FnMut(Seen<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let viewer = self.viewer.clone();
        self.stores.run(&self.viewer.scope, move |view| change(Seen { view, viewer: &viewer })).await
    }

    /// Links traces that were waiting for a capability, some at a time.
    async fn adopt(&self, id: CapabilityId) -> Result<(), StoreError> {
        let link = move |view: View<'_>| adopt(view.db, id, LINKED_AT_ONCE);
        while self.stores.run(&self.viewer.scope, link).await? == LINKED_AT_ONCE {}
        Ok(())
    }

    fn read<T: Default + Send + 'static>(
        &self,
        query: impl FnOnce(Seen<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        let viewer = self.viewer.clone();
        Box::pin(self.stores.read_all(move |db| {
            // Whoever has stored nothing yet sees what others of its organisation share.
            let tenant = View::of(db, &viewer.scope)?.map_or(NOBODY, |view| view.tenant);
            query(Seen { view: View { db, tenant }, viewer: &viewer })
        }))
    }
}

/// The number of no tenant.
const NOBODY: i64 = 0;

impl Capabilities for SqliteCapabilities {
    fn put(&self, new: NewCapability, expected: Expected) -> Answer<'_, Put> {
        let new = new.plain();
        Box::pin(async move {
            let put = self.run(move |seen| seen.put(&new, &expected)).await?;
            if let Put::Created(made) | Put::NewVersion(made) | Put::Known(made) = &put {
                self.adopt(made.id).await?;
            }
            Ok(put)
        })
    }

    fn get(&self, which: Which) -> Answer<'_, Option<Capability>> {
        self.read(move |seen| match &which {
            Which::Id(id) => seen.by_id(*id, None),
            Which::Name(name) => seen.by_name(name),
        })
    }

    fn versions(
        &self,
        id: CapabilityId,
        offset: usize,
        max_bytes: Option<usize>,
    ) -> Answer<'_, Part<CapabilityVersion>> {
        self.read(move |seen| {
            let (mut part, mut bytes) = (Part::default(), 0);
            if seen.by_id(id, None)?.is_none() {
                return Ok(part);
            }
            let sql = format!(
                "SELECT {VERSION} FROM capability_version WHERE capability = ?1 ORDER BY version DESC LIMIT -1 OFFSET ?2"
            );
            let mut statement = seen.view.db.prepare_cached(&sql)?;
            let offset = i64::try_from(offset).unwrap_or(i64::MAX);
            for found in statement.query_map(params![id.as_bytes(), offset], |row| version(row, 0))? {
                let found = found?;
                let size = found.size();
                if !part.add(found, &mut bytes, size, max_bytes) {
                    break;
                }
            }
            Ok(part)
        })
    }

    fn list(&self, listing: Listing) -> Answer<'_, Part<Capability>> {
        let listing = listing.plain();
        self.read(move |seen| seen.list(&listing))
    }

    fn change(&self, id: CapabilityId, change: Change, expected: Expected) -> Answer<'_, Altered> {
        let change = change.plain();
        Box::pin(async move {
            let change = move |seen: Seen<'_>| {
                let Some(own) = seen.own(id)? else { return Ok(Altered::Unknown) };
                if !own.is_as(&expected) {
                    return Ok(Altered::Changed);
                }
                if !seen.viewer.may_show(&own, change.visibility) {
                    return Ok(Altered::Forbidden);
                }
                if own.would_change(&change) {
                    seen.alter(id, own.version.number, &change)?;
                }
                Ok(seen.by_id(id, None)?.map_or(Altered::Unknown, |own| Altered::Altered(Box::new(own))))
            };
            let changed = self.run(change).await?;
            // Traces of other projects may have waited for it to be shared.
            self.adopt(id).await?;
            Ok(changed)
        })
    }

    fn rename(&self, id: CapabilityId, namespace: &str, action: &str, expected: Expected) -> Answer<'_, Renamed> {
        let (namespace, action) = (namespace.to_owned(), action.to_owned());
        Box::pin(async move {
            let renamed = self.run(move |seen| seen.rename(id, (&namespace, &action), &expected)).await?;
            self.adopt(id).await?;
            Ok(renamed)
        })
    }

    fn delete(&self, id: CapabilityId, expected: Expected) -> Answer<'_, Deleted> {
        Box::pin(self.run(move |seen| {
            let Some(own) = seen.own(id)? else { return Ok(Deleted::Unknown) };
            if !own.is_as(&expected) {
                return Ok(Deleted::Changed);
            }
            for sql in [
                "DELETE FROM capability WHERE id = ?1",
                "DELETE FROM capability_name WHERE capability = ?1",
                "DELETE FROM capability_version WHERE capability = ?1",
            ] {
                seen.view.db.execute(sql, [id.as_bytes()])?;
            }
            registry::remove(seen, id)?;
            Ok(Deleted::Deleted)
        }))
    }

    fn mark(&self) -> Answer<'_, RegistryMark> {
        self.read(registry::mark)
    }

    fn registry(&self) -> Answer<'_, RegistryListing> {
        self.read(registry::listing)
    }

    fn links(&self, hub: &str) -> Answer<'_, Vec<Link>> {
        let hub = hub.to_owned();
        self.read(move |seen| registry::links(seen, &hub))
    }

    fn link(&self, link: Link) -> Answer<'_, ()> {
        Box::pin(self.run(move |seen| registry::link(seen, &link)))
    }

    fn unlink(&self, capability: CapabilityId) -> Answer<'_, ()> {
        Box::pin(self.run(move |seen| registry::unlink(seen, capability)))
    }
}

/// The database as somebody sees it.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) view: View<'a>,
    pub(super) viewer: &'a Viewer,
}

const CAPABILITY: &str = "capability.id, org, project, namespace, action, visibility, owner, capability.created_at,
    capability.updated_at, capability.revision";
const VERSION: &str = "version, hash, code, parameters, description, author, created_at";

impl Seen<'_> {
    /// A capability at one of its versions, or at the newest, if it may be seen.
    fn by_id(&self, id: CapabilityId, number: Option<u32>) -> rusqlite::Result<Option<Capability>> {
        let sql = format!("SELECT {CAPABILITY} FROM {SEEN} AND capability.id = :id");
        let params = rusqlite::named_params! {
            ":tenant": self.view.tenant, ":org": self.viewer.scope.org(), ":viewer": self.viewer.owner(), ":id": id.as_bytes(),
        };
        let found =
            self.view.db.prepare_cached(&sql)?.query_row(params, |row| self.capability(row, number)).optional()?;
        Ok(found.flatten())
    }

    fn by_name(&self, name: &Fqdn) -> rusqlite::Result<Option<Capability>> {
        let Some(home) = self.home(&name.scope)? else { return Ok(None) };
        match lookup(self.view.db, home, name)? {
            Some(found) => self.by_id(found.capability, u32::try_from(found.version).ok()),
            None => Ok(None),
        }
    }

    fn home(&self, scope: &Scope) -> rusqlite::Result<Option<i64>> {
        match *scope == Scope::local() {
            true => Ok(Some(self.view.tenant)),
            false => Ok(View::of(self.view.db, scope)?.map(|view| view.tenant)),
        }
    }

    /// One that whoever looks may change.
    fn own(&self, id: CapabilityId) -> rusqlite::Result<Option<Capability>> {
        Ok(self.by_id(id, None)?.filter(|found| found.name.scope == self.viewer.scope))
    }

    fn list(&self, listing: &Listing) -> rusqlite::Result<Part<Capability>> {
        let words: Vec<_> = listing.text.split_whitespace().take(MAX_WORDS).collect();
        let words = serde_json::to_string(&words).unwrap_or_else(|_| "[]".to_owned());
        // The newest version is what counts.
        let sql = format!(
            "SELECT {CAPABILITY},
               namespace || '.' || action AS name_text,
               (SELECT description FROM capability_version AS latest WHERE latest.capability = capability.id
                ORDER BY version DESC LIMIT 1) AS description_text
             FROM {SEEN}
             AND NOT EXISTS (SELECT 1 FROM json_each(:words)
                 WHERE NOT has_text(name_text, value) AND NOT has_text(description_text, value))
             ORDER BY EXISTS (SELECT 1 FROM json_each(:words) WHERE NOT has_text(name_text, value)),
               capability.updated_at DESC, capability.id DESC
             LIMIT :limit OFFSET :offset"
        );
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let params = rusqlite::named_params! {
            ":tenant": self.view.tenant, ":org": self.viewer.scope.org(), ":viewer": self.viewer.owner(),
            ":words": words, ":limit": number(listing.limit.saturating_add(1)), ":offset": number(listing.offset),
        };
        let mut statement = self.view.db.prepare_cached(&sql)?;
        let (mut part, mut bytes) = (Part::default(), 0);
        for found in statement.query_map(params, |row| self.capability(row, None))? {
            let Some(found) = found? else { continue };
            if part.items.len() == listing.limit {
                part.has_more = true;
                break;
            }
            let size = found.version.size();
            if !part.add(found, &mut bytes, size, listing.max_bytes) {
                break;
            }
        }
        Ok(part)
    }

    fn capability(&self, row: &Row<'_>, number: Option<u32>) -> rusqlite::Result<Option<Capability>> {
        let id = CapabilityId::from_bytes(row.get(0)?);
        let (org, project, visibility): (String, String, String) = (row.get(1)?, row.get(2)?, row.get(5)?);
        let (Ok(scope), Ok(visibility)) = (Scope::new(&org, &project), visibility.parse()) else { return Ok(None) };
        let db = self.view.db;
        let sql = format!(
            "SELECT {VERSION} FROM capability_version WHERE capability = ?1 AND (?2 IS NULL OR version = ?2)
             ORDER BY version DESC LIMIT 1"
        );
        let found = db.prepare_cached(&sql)?.query_row(params![id.as_bytes(), number], |row| version(row, 0));
        let Some(version) = found.optional()? else { return Ok(None) };
        Ok(Some(Capability {
            id,
            name: Fqdn {
                scope: scope.clone(),
                namespace: row.get(3)?,
                action: row.get(4)?,
                hash: Some(version.hash.clone()),
            },
            visibility,
            owner: row.get(6)?,
            created_at: moment(row.get(7)?),
            updated_at: moment(row.get(8)?),
            revision: row.get::<_, i64>(9)?.unsigned_abs(),
            version,
            former_names: former_names(db, id, &scope)?,
            stats: self.stats(id)?,
        }))
    }

    fn stats(&self, id: CapabilityId) -> rusqlite::Result<CapabilityStats> {
        let sql = "SELECT count(*), coalesce(sum(success = 0), 0), coalesce(avg(duration_ms), 0), max(ts)
                   FROM trace WHERE tenant = ?1 AND capability_id = ?2 AND capability_id NOTNULL
                     AND coalesce(error_code, '') NOT IN (?3, ?4)";
        let [one, other] = CUT_OFF.map(ErrorCode::as_str);
        self.view.db.prepare_cached(sql)?.query_row(params![self.view.tenant, id.as_bytes(), one, other], |row| {
            let count = |at: usize| row.get::<_, i64>(at).map(|count| u64::try_from(count).unwrap_or(0));
            Ok(CapabilityStats {
                runs: count(0)?,
                failed: count(1)?,
                mean_ms: row.get(2)?,
                last_run: row.get::<_, Option<i64>>(3)?.map(moment),
            })
        })
    }

    fn put(&self, new: &NewCapability, expected: &Expected) -> rusqlite::Result<Put> {
        let View { db, tenant } = self.view;
        let now = i64::try_from(now_millis()).unwrap_or(i64::MAX);
        let sha256: [u8; 32] = Sha256::digest(new.code.as_bytes()).into();
        let sql =
            "SELECT capability FROM capability_name WHERE tenant = ?1 AND namespace = ?2 AND action = ?3 AND current";
        let there = db.query_row(sql, params![tenant, new.namespace, new.action], |row| row.get(0)).optional()?;
        let (id, made): (CapabilityId, fn(Box<Capability>) -> Put) = match there.map(CapabilityId::from_bytes) {
            Some(id) => {
                let Some(own) = self.own(id)? else { return Ok(Put::Taken) };
                if !own.is_as(expected) {
                    return Ok(Put::Changed);
                }
                if !self.viewer.may_show(&own, new.visibility) {
                    return Ok(Put::Forbidden);
                }
                let sql = "SELECT version FROM capability_version WHERE capability = ?1 AND sha256 = ?2";
                let known = db.query_row(sql, params![id.as_bytes(), sha256], |row| row.get::<_, u32>(0)).optional()?;
                if let Some(number) = known {
                    let newest = own.version.number;
                    if number != newest {
                        let sql = "UPDATE capability_version SET version = ?3 WHERE capability = ?1 AND version = ?2";
                        db.execute(sql, params![id.as_bytes(), number, newest + 1])?;
                    }
                    let change = Change {
                        description: Some(new.description.clone()),
                        parameters: new.parameters.clone(),
                        visibility: new.visibility,
                    };
                    let made = if number == newest { Put::Known } else { Put::NewVersion };
                    if number != newest || own.would_change(&change) {
                        self.alter(id, newest + u32::from(number != newest), &change)?;
                    }
                    return self.found(id, None, made);
                }
                (id, Put::NewVersion)
            }
            None if matches!(expected, Expected::Existing | Expected::Tags(_)) => return Ok(Put::Changed),
            None => {
                let id = CapabilityId::mint();
                let sql = "INSERT INTO capability (id, tenant, visibility, owner, created_at, updated_at)
                           VALUES (?1, ?2, ?3, ?4, ?5, ?5)";
                let visibility = new.visibility.unwrap_or_default();
                db.execute(sql, params![id.as_bytes(), tenant, visibility.as_str(), self.viewer.name, now])?;
                self.call(id, &new.namespace, &new.action, now)?;
                (id, Put::Created)
            }
        };
        let sql =
            "INSERT INTO capability_version (capability, version, hash, sha256, code, parameters, description, author,
                     created_at)
                   VALUES (?1, (SELECT coalesce(max(version), 0) + 1 FROM capability_version WHERE capability = ?1),
                     ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let hash = short_hash(db, id, &sha256)?;
        let author = new.author.as_ref().unwrap_or(&self.viewer.name);
        db.execute(sql, params![id.as_bytes(), hash, sha256, new.code, new.parameters, new.description, author, now])?;
        self.touch(id, new.visibility, now)?;
        self.found(id, None, made)
    }

    fn found(&self, id: CapabilityId, number: Option<u32>, made: fn(Box<Capability>) -> Put) -> rusqlite::Result<Put> {
        self.by_id(id, number)?.map(|capability| made(Box::new(capability))).ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    fn alter(&self, id: CapabilityId, number: u32, change: &Change) -> rusqlite::Result<()> {
        let sql = "UPDATE capability_version SET description = coalesce(?3, description), parameters = coalesce(?4, parameters)
                   WHERE capability = ?1 AND version = ?2";
        self.view.db.execute(sql, params![id.as_bytes(), number, change.description, change.parameters])?;
        self.touch(id, change.visibility, i64::try_from(now_millis()).unwrap_or(i64::MAX))
    }

    fn touch(&self, id: CapabilityId, visibility: Option<Visibility>, now: i64) -> rusqlite::Result<()> {
        let sql =
            "UPDATE capability SET updated_at = ?2, visibility = coalesce(?3, visibility), revision = ?4 WHERE id = ?1";
        let revision = registry::next_revision(*self)?;
        self.view.db.execute(sql, params![id.as_bytes(), now, visibility.map(Visibility::as_str), revision]).map(drop)
    }

    fn rename(
        &self,
        id: CapabilityId,
        (namespace, action): (&str, &str),
        expected: &Expected,
    ) -> rusqlite::Result<Renamed> {
        let View { db, tenant } = self.view;
        let Some(own) = self.own(id)? else { return Ok(Renamed::Unknown) };
        if !own.is_as(expected) {
            return Ok(Renamed::Changed);
        }
        if (own.name.namespace.as_str(), own.name.action.as_str()) != (namespace, action) {
            let sql = "SELECT EXISTS (SELECT 1 FROM capability_name WHERE tenant = ?1 AND namespace = ?2 AND action = ?3 AND current)";
            if db.query_row(sql, params![tenant, namespace, action], |row| row.get(0))? {
                return Ok(Renamed::Taken);
            }
            let now = i64::try_from(now_millis()).unwrap_or(i64::MAX);
            db.execute("UPDATE capability_name SET current = 0 WHERE capability = ?1", [id.as_bytes()])?;
            self.call(id, namespace, action, now)?;
            self.touch(id, None, now)?;
        }
        Ok(self.by_id(id, None)?.map_or(Renamed::Unknown, |renamed| Renamed::Renamed(Box::new(renamed))))
    }

    /// Gives a capability its name, which it may have had before.
    fn call(&self, id: CapabilityId, namespace: &str, action: &str, now: i64) -> rusqlite::Result<()> {
        let sql = "INSERT INTO capability_name (capability, tenant, namespace, action, current, since)
                   VALUES (?1, ?2, ?3, ?4, 1, ?5)
                   ON CONFLICT (capability, namespace, action) DO UPDATE SET current = 1, since = ?5";
        self.view.db.execute(sql, params![id.as_bytes(), self.view.tenant, namespace, action, now]).map(drop)
    }
}

fn former_names(db: &Connection, id: CapabilityId, scope: &Scope) -> rusqlite::Result<Vec<Fqdn>> {
    let sql = "SELECT namespace, action FROM capability_name WHERE capability = ?1 AND NOT current ORDER BY since DESC";
    db.prepare_cached(sql)?
        .query_map([id.as_bytes()], |row| {
            Ok(Fqdn { scope: scope.clone(), namespace: row.get(0)?, action: row.get(1)?, hash: None })
        })?
        .collect()
}

fn version(row: &Row<'_>, at: usize) -> rusqlite::Result<CapabilityVersion> {
    Ok(CapabilityVersion {
        number: row.get(at)?,
        hash: row.get(at + 1)?,
        code: row.get(at + 2)?,
        parameters: row.get(at + 3)?,
        description: row.get(at + 4)?,
        author: row.get(at + 5)?,
        created_at: moment(row.get(at + 6)?),
    })
}

/// The first digits of a hash that no other version of this capability has.
fn short_hash(db: &Connection, id: CapabilityId, sha256: &[u8; 32]) -> rusqlite::Result<String> {
    let digits: String = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
    for length in MIN_HASH..digits.len() {
        let sql = "SELECT EXISTS (SELECT 1 FROM capability_version WHERE capability = ?1 AND hash = ?2)";
        if !db.query_row(sql, params![id.as_bytes(), &digits[..length]], |row| row.get::<_, bool>(0))? {
            return Ok(digits[..length].to_owned());
        }
    }
    Ok(digits)
}
