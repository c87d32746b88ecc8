//! Capabilities.

use pml_wire::{CapabilityId, ErrorCode, trace::Timestamp};
use sha2::{Digest, Sha256};
use tokio_postgres::Row;

use super::{
    super::{
        Altered, Capabilities, Capability, CapabilityStats, CapabilityVersion, Change, Deleted, Expected, Link,
        Listing, NewCapability, Part, Put, RegistryListing, RegistryMark, Renamed, Viewer, Visibility, Which,
    },
    keys::{millis, moment},
    registry,
};
use crate::{
    clock::now_millis,
    trace::{
        CUT_OFF,
        store::{
            Answer, Fqdn, MIN_HASH, Scope, StoreError, Trouble,
            postgres::{
                Id, PostgresStores, Session,
                capability::{adopt, lookup},
                keys, tenant,
            },
        },
    },
};

/// Traces that are linked in one transaction with a capability that arrives; the others follow.
const LINKED_AT_ONCE: usize = 2000;
/// Most words of a search.
const MAX_WORDS: usize = 16;

#[derive(Debug)]
pub(super) struct PostgresCapabilities {
    pub(super) stores: PostgresStores,
    pub(super) viewer: Viewer,
}

/// The capabilities that may be seen, with their names; `$1` is the tenant of whoever looks, `$2` its organisation and `$3` its
/// name, NULL for an admin.
macro_rules! seen {
    ($rest:literal) => {
        concat!(
            "SELECT capability.id, org, project, namespace, action, visibility, owner, capability.created_at,
             capability.updated_at, capability.revision FROM capability
             JOIN tenant ON tenant.id = capability.tenant
             JOIN capability_name AS name ON name.capability = capability.id AND name.current
             JOIN LATERAL (SELECT folded_description FROM capability_version AS version WHERE version.capability = capability.id
                           ORDER BY version.version DESC LIMIT 1) AS latest ON true
             WHERE ((capability.tenant = $1 AND (visibility <> 'private' OR $3::text IS NULL OR owner = $3))
                    OR (tenant.org = $2 AND visibility = 'org')) ",
            $rest
        )
    };
}

macro_rules! versions {
    ($rest:literal) => {
        concat!(
            "SELECT version, hash, code, parameters, description, author, created_at FROM capability_version
             WHERE capability = $1 ",
            $rest
        )
    };
}

/// The number of no tenant.
const NOBODY: i32 = 0;

/// Asks for something as the viewer sees it.
macro_rules! read {
    ($own:ident, [$($kept:ident),*], |$seen:ident| $ask:expr) => {{
        let viewer = $own.viewer.clone();
        Box::pin($own.stores.read(move |session: &Session| {
            let viewer = viewer.clone();
            $(let $kept = $kept.clone();)*
            Box::pin(async move {
                // Whoever has stored nothing yet sees what others of its organisation share.
                let tenant = tenant::find(session, &viewer.scope).await?.unwrap_or(NOBODY);
                let $seen = Seen { session, tenant, viewer: &viewer };
                $ask
            })
        }))
    }};
}

/// Makes a change as the viewer, alone.
macro_rules! change {
    ($own:ident, [$($kept:ident),*], |$seen:ident| $change:expr) => {{
        let viewer = $own.viewer.clone();
        $own.stores.run(move |session: &Session| {
            let viewer = viewer.clone();
            $(let $kept = $kept.clone();)*
            Box::pin(async move {
                let tenant = tenant::number(session, &viewer.scope).await?;
                // Traces that are being stored are stored before this, or see what this makes.
                session.execute("SELECT pg_advisory_xact_lock($1)", &[&keys::CONTENTS]).await?;
                let $seen = Seen { session, tenant, viewer: &viewer };
                $change
            })
        })
    }};
}

impl PostgresCapabilities {
    /// Links traces that were waiting for a capability, some at a time.
    async fn adopt(&self, id: CapabilityId) -> Result<(), StoreError> {
        loop {
            let linked = self
                .stores
                .run(move |session: &Session| Box::pin(async move { adopt(session, id, LINKED_AT_ONCE).await }));
            if linked.await? < LINKED_AT_ONCE {
                return Ok(());
            }
        }
    }
}

impl Capabilities for PostgresCapabilities {
    fn put(&self, new: NewCapability, expected: Expected) -> Answer<'_, Put> {
        let new = new.plain();
        Box::pin(async move {
            let put = change!(self, [new, expected], |seen| seen.put(&new, &expected).await).await?;
            if let Put::Created(made) | Put::NewVersion(made) | Put::Known(made) = &put {
                self.adopt(made.id).await?;
            }
            Ok(put)
        })
    }

    fn get(&self, which: Which) -> Answer<'_, Option<Capability>> {
        read!(self, [which], |seen| match &which {
            Which::Id(id) => seen.by_id(*id, None).await,
            Which::Name(name) => seen.by_name(name).await,
        })
    }

    fn versions(
        &self,
        id: CapabilityId,
        offset: usize,
        max_bytes: Option<usize>,
    ) -> Answer<'_, Part<CapabilityVersion>> {
        read!(self, [], |seen| {
            let (mut part, mut bytes) = (Part::default(), 0);
            if seen.by_id(id, None).await?.is_none() {
                return Ok(part);
            }
            let sql = versions!("ORDER BY version DESC LIMIT 1 OFFSET $2");
            // One at a time, so that what would be too much is not read.
            let mut at = i64::try_from(offset).unwrap_or(i64::MAX);
            while let Some(row) = seen.session.query_opt(sql, &[&uuid(id), &at]).await? {
                let found = version(&row);
                let size = found.size();
                if !part.add(found, &mut bytes, size, max_bytes) {
                    break;
                }
                at += 1;
            }
            Ok(part)
        })
    }

    fn list(&self, listing: Listing) -> Answer<'_, Part<Capability>> {
        let listing = listing.plain();
        read!(self, [listing], |seen| seen.list(&listing).await)
    }

    fn change(&self, id: CapabilityId, change: Change, expected: Expected) -> Answer<'_, Altered> {
        let change = change.plain();
        Box::pin(async move {
            let changed = change!(self, [change, expected], |seen| {
                let Some(own) = seen.own(id).await? else { return Ok(Altered::Unknown) };
                if !own.is_as(&expected) {
                    return Ok(Altered::Changed);
                }
                if !seen.viewer.may_show(&own, change.visibility) {
                    return Ok(Altered::Forbidden);
                }
                if own.would_change(&change) {
                    seen.alter(id, own.version.number, &change).await?;
                }
                Ok(seen.by_id(id, None).await?.map_or(Altered::Unknown, |own| Altered::Altered(Box::new(own))))
            });
            let changed = changed.await?;
            // Traces of other projects may have waited for it to be shared.
            self.adopt(id).await?;
            Ok(changed)
        })
    }

    fn rename(&self, id: CapabilityId, namespace: &str, action: &str, expected: Expected) -> Answer<'_, Renamed> {
        let (namespace, action) = (namespace.to_owned(), action.to_owned());
        Box::pin(async move {
            let renamed = change!(self, [namespace, action, expected], |seen| {
                seen.rename(id, (&namespace, &action), &expected).await
            });
            let renamed = renamed.await?;
            self.adopt(id).await?;
            Ok(renamed)
        })
    }

    fn delete(&self, id: CapabilityId, expected: Expected) -> Answer<'_, Deleted> {
        Box::pin(change!(self, [expected], |seen| {
            let Some(own) = seen.own(id).await? else { return Ok(Deleted::Unknown) };
            if !own.is_as(&expected) {
                return Ok(Deleted::Changed);
            }
            for sql in [
                "DELETE FROM capability WHERE id = $1",
                "DELETE FROM capability_name WHERE capability = $1",
                "DELETE FROM capability_version WHERE capability = $1",
            ] {
                seen.session.execute(sql, &[&uuid(id)]).await?;
            }
            registry::remove(seen, id).await?;
            Ok(Deleted::Deleted)
        }))
    }

    fn mark(&self) -> Answer<'_, RegistryMark> {
        read!(self, [], |seen| registry::mark(seen).await)
    }

    fn registry(&self) -> Answer<'_, RegistryListing> {
        read!(self, [], |seen| registry::listing(seen).await)
    }

    fn links(&self, hub: &str) -> Answer<'_, Vec<Link>> {
        let hub = hub.to_owned();
        read!(self, [hub], |seen| registry::links(seen, &hub).await)
    }

    fn link(&self, link: Link) -> Answer<'_, ()> {
        Box::pin(change!(self, [link], |seen| registry::link(seen, &link).await))
    }

    fn unlink(&self, capability: CapabilityId) -> Answer<'_, ()> {
        Box::pin(change!(self, [], |seen| registry::unlink(seen, capability).await))
    }
}

/// The database as somebody sees it.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) session: &'a Session,
    pub(super) tenant: i32,
    pub(super) viewer: &'a Viewer,
}

impl Seen<'_> {
    /// A capability at one of its versions, or at the newest, if it may be seen.
    async fn by_id(&self, id: CapabilityId, number: Option<u32>) -> Result<Option<Capability>, Trouble> {
        let sql = seen!("AND capability.id = $4");
        let org = self.viewer.scope.org();
        match self.session.query_opt(sql, &[&self.tenant, &org, &self.viewer.owner(), &uuid(id)]).await? {
            Some(row) => self.capability(&row, number).await,
            None => Ok(None),
        }
    }

    async fn by_name(&self, name: &Fqdn) -> Result<Option<Capability>, Trouble> {
        let home = match name.scope == Scope::local() {
            true => Some(self.tenant),
            false => tenant::find(self.session, &name.scope).await?,
        };
        let Some(home) = home else { return Ok(None) };
        match lookup(self.session, home, name).await? {
            Some(found) => self.by_id(found.capability, u32::try_from(found.version).ok()).await,
            None => Ok(None),
        }
    }

    /// One that whoever looks may change.
    async fn own(&self, id: CapabilityId) -> Result<Option<Capability>, Trouble> {
        Ok(self.by_id(id, None).await?.filter(|found| found.name.scope == self.viewer.scope))
    }

    async fn list(&self, listing: &Listing) -> Result<Part<Capability>, Trouble> {
        let text = listing.text.to_lowercase();
        let words: Vec<_> = text.split_whitespace().take(MAX_WORDS).collect();
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let sql = seen!(
            "AND NOT EXISTS (SELECT 1 FROM unnest($4::text[]) AS word
                 WHERE strpos(namespace || '.' || action, word) = 0 AND strpos(folded_description, word) = 0)
             ORDER BY EXISTS (SELECT 1 FROM unnest($4::text[]) AS word WHERE strpos(namespace || '.' || action, word) = 0),
               capability.updated_at DESC, capability.id DESC
             LIMIT $5 OFFSET $6"
        );
        let org = self.viewer.scope.org();
        let (limit, offset) = (number(listing.limit.saturating_add(1)), number(listing.offset));
        let rows =
            self.session.query(sql, &[&self.tenant, &org, &self.viewer.owner(), &words, &limit, &offset]).await?;
        let (mut part, mut bytes) = (Part::default(), 0);
        for row in &rows {
            if part.items.len() == listing.limit {
                part.has_more = true;
                break;
            }
            let Some(found) = self.capability(row, None).await? else { continue };
            let size = found.version.size();
            if !part.add(found, &mut bytes, size, listing.max_bytes) {
                break;
            }
        }
        Ok(part)
    }

    async fn capability(&self, row: &Row, number: Option<u32>) -> Result<Option<Capability>, Trouble> {
        let Id(id) = row.get(0);
        let (Ok(scope), Ok(visibility)) = (Scope::new(row.get(1), row.get(2)), row.get::<_, &str>(5).parse()) else {
            return Ok(None);
        };
        let sql = versions!("AND ($2::int8 IS NULL OR version = $2) ORDER BY version DESC LIMIT 1");
        let found = self.session.query_opt(sql, &[&Id(id), &number.map(i64::from)]).await?;
        let Some(version) = found.as_ref().map(version) else { return Ok(None) };
        let sql =
            "SELECT namespace, action FROM capability_name WHERE capability = $1 AND NOT current ORDER BY since DESC";
        let former = self.session.query(sql, &[&Id(id)]).await?;
        let name = |row: &Row, at: usize, hash: Option<String>| Fqdn {
            scope: scope.clone(),
            namespace: row.get(at),
            action: row.get(at + 1),
            hash,
        };
        Ok(Some(Capability {
            id: CapabilityId::from_bytes(id),
            name: name(row, 3, Some(version.hash.clone())),
            visibility,
            owner: row.get(6),
            created_at: moment(row.get(7)),
            updated_at: moment(row.get(8)),
            revision: row.get::<_, i64>(9).unsigned_abs(),
            former_names: former.iter().map(|row| name(row, 0, None)).collect(),
            stats: self.stats(Id(id)).await?,
            version,
        }))
    }

    async fn stats(&self, id: Id) -> Result<CapabilityStats, Trouble> {
        let sql = "SELECT count(*), count(*) FILTER (WHERE NOT success), coalesce(avg(duration_ms), 0)::float8, max(ts)
                   FROM trace WHERE tenant = $1 AND capability_id = $2 AND capability_id IS NOT NULL
                     AND coalesce(error_code, '') NOT IN ($3, $4)";
        let [one, other] = CUT_OFF.map(ErrorCode::as_str);
        let Some(row) = self.session.query_opt(sql, &[&self.tenant, &id, &one, &other]).await? else {
            return Ok(CapabilityStats::default());
        };
        let count = |at: usize| u64::try_from(row.get::<_, i64>(at)).unwrap_or(0);
        Ok(CapabilityStats {
            runs: count(0),
            failed: count(1),
            mean_ms: row.get(2),
            last_run: row.get::<_, Option<i64>>(3).map(moment),
        })
    }

    async fn put(&self, new: &NewCapability, expected: &Expected) -> Result<Put, Trouble> {
        let Seen { session, tenant, viewer } = *self;
        let now = millis(Timestamp(now_millis()));
        let sha256: [u8; 32] = Sha256::digest(new.code.as_bytes()).into();
        let sql =
            "SELECT capability FROM capability_name WHERE tenant = $1 AND namespace = $2 AND action = $3 AND current";
        let there = session.query_opt(sql, &[&tenant, &new.namespace, &new.action]).await?;
        let there = there.map(|row| row.get(0)).map(|Id(bytes)| CapabilityId::from_bytes(bytes));
        let (id, made): (CapabilityId, fn(Box<Capability>) -> Put) = match there {
            Some(id) => {
                let Some(own) = self.own(id).await? else { return Ok(Put::Taken) };
                if !own.is_as(expected) {
                    return Ok(Put::Changed);
                }
                if !viewer.may_show(&own, new.visibility) {
                    return Ok(Put::Forbidden);
                }
                let sql = "SELECT version FROM capability_version WHERE capability = $1 AND sha256 = $2";
                let known = session.query_opt(sql, &[&uuid(id), &&sha256[..]]).await?;
                if let Some(number) = known.and_then(|row| u32::try_from(row.get::<_, i64>(0)).ok()) {
                    let newest = own.version.number;
                    if number != newest {
                        let sql = "UPDATE capability_version SET version = $3 WHERE capability = $1 AND version = $2";
                        session.execute(sql, &[&uuid(id), &i64::from(number), &i64::from(newest + 1)]).await?;
                    }
                    let change = Change {
                        description: Some(new.description.clone()),
                        parameters: new.parameters.clone(),
                        visibility: new.visibility,
                    };
                    let made = if number == newest { Put::Known } else { Put::NewVersion };
                    if number != newest || own.would_change(&change) {
                        self.alter(id, newest + u32::from(number != newest), &change).await?;
                    }
                    return self.found(id, None, made).await;
                }
                (id, Put::NewVersion)
            }
            None if matches!(expected, Expected::Existing | Expected::Tags(_)) => return Ok(Put::Changed),
            None => {
                let id = CapabilityId::mint();
                let sql = "INSERT INTO capability (id, tenant, visibility, owner, created_at, updated_at)
                           VALUES ($1, $2, $3, $4, $5, $5)";
                let visibility = new.visibility.unwrap_or_default().as_str();
                session.execute(sql, &[&uuid(id), &tenant, &visibility, &viewer.name, &now]).await?;
                self.call(id, &new.namespace, &new.action, now).await?;
                (id, Put::Created)
            }
        };
        let sql = "INSERT INTO capability_version (capability, version, hash, sha256, code, parameters, description,
                     folded_description, author, created_at)
                   VALUES ($1, (SELECT coalesce(max(version), 0) + 1 FROM capability_version WHERE capability = $1),
                     $2, $3, $4, $5, $6, $7, $8, $9)";
        let hash = self.short_hash(id, &sha256).await?;
        let NewCapability { parameters, description, author, .. } = new;
        let folded = description.to_lowercase();
        let author = author.as_ref().unwrap_or(&viewer.name);
        let (id_value, code) = (uuid(id), new.code.as_bytes());
        session
            .execute(sql, &[&id_value, &hash, &&sha256[..], &code, parameters, description, &folded, author, &now])
            .await?;
        self.touch(id, new.visibility, now).await?;
        self.found(id, None, made).await
    }

    async fn found(
        &self,
        id: CapabilityId,
        number: Option<u32>,
        made: fn(Box<Capability>) -> Put,
    ) -> Result<Put, Trouble> {
        let found = self.by_id(id, number).await?.map(|capability| made(Box::new(capability)));
        found.ok_or_else(|| Trouble::Refused("a capability that was stored cannot be read".to_owned()))
    }

    async fn alter(&self, id: CapabilityId, number: u32, change: &Change) -> Result<(), Trouble> {
        let sql = "UPDATE capability_version SET description = coalesce($3, description),
                     folded_description = coalesce($5, folded_description), parameters = coalesce($4, parameters)
                   WHERE capability = $1 AND version = $2";
        let Change { description, parameters, .. } = change;
        let folded = description.as_deref().map(str::to_lowercase);
        self.session.execute(sql, &[&uuid(id), &i64::from(number), description, parameters, &folded]).await?;
        self.touch(id, change.visibility, millis(Timestamp(now_millis()))).await
    }

    async fn touch(&self, id: CapabilityId, visibility: Option<Visibility>, now: i64) -> Result<(), Trouble> {
        let sql =
            "UPDATE capability SET updated_at = $2, visibility = coalesce($3, visibility), revision = $4 WHERE id = $1";
        let revision = registry::next_revision(*self).await?;
        let visibility = visibility.map(Visibility::as_str);
        self.session.execute(sql, &[&uuid(id), &now, &visibility, &revision]).await.map(drop)
    }

    async fn rename(
        &self,
        id: CapabilityId,
        (namespace, action): (&str, &str),
        expected: &Expected,
    ) -> Result<Renamed, Trouble> {
        let Some(own) = self.own(id).await? else { return Ok(Renamed::Unknown) };
        if !own.is_as(expected) {
            return Ok(Renamed::Changed);
        }
        if (own.name.namespace.as_str(), own.name.action.as_str()) != (namespace, action) {
            let sql = "SELECT 1 FROM capability_name WHERE tenant = $1 AND namespace = $2 AND action = $3 AND current";
            if self.session.query_opt(sql, &[&self.tenant, &namespace, &action]).await?.is_some() {
                return Ok(Renamed::Taken);
            }
            let now = millis(Timestamp(now_millis()));
            let sql = "UPDATE capability_name SET current = false WHERE capability = $1";
            self.session.execute(sql, &[&uuid(id)]).await?;
            self.call(id, namespace, action, now).await?;
            self.touch(id, None, now).await?;
        }
        let renamed = self.by_id(id, None).await?;
        Ok(renamed.map_or(Renamed::Unknown, |renamed| Renamed::Renamed(Box::new(renamed))))
    }

    /// Gives a capability its name, which it may have had before.
    async fn call(&self, id: CapabilityId, namespace: &str, action: &str, now: i64) -> Result<(), Trouble> {
        let sql = "INSERT INTO capability_name (capability, tenant, namespace, action, current, since)
                   VALUES ($1, $2, $3, $4, true, $5)
                   ON CONFLICT (capability, namespace, action) DO UPDATE SET current = true, since = excluded.since";
        self.session.execute(sql, &[&uuid(id), &self.tenant, &namespace, &action, &now]).await.map(drop)
    }

    /// The first digits of a hash that no other version of this capability has.
    async fn short_hash(&self, id: CapabilityId, sha256: &[u8; 32]) -> Result<String, Trouble> {
        let digits: String = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        for length in MIN_HASH..digits.len() {
            let sql = "SELECT 1 FROM capability_version WHERE capability = $1 AND hash = $2";
            if self.session.query_opt(sql, &[&uuid(id), &&digits[..length]]).await?.is_none() {
                return Ok(digits[..length].to_owned());
            }
        }
        Ok(digits)
    }
}

fn version(row: &Row) -> CapabilityVersion {
    CapabilityVersion {
        number: u32::try_from(row.get::<_, i64>(0)).unwrap_or(u32::MAX),
        hash: row.get(1),
        code: String::from_utf8_lossy(row.get(2)).into_owned(),
        parameters: row.get(3),
        description: row.get(4),
        author: row.get(5),
        created_at: moment(row.get(6)),
    }
}

pub(super) fn uuid(id: CapabilityId) -> Id {
    Id(*id.as_bytes())
}
