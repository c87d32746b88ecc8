//! API keys.

use pml_wire::trace::Timestamp;
use rusqlite::{OptionalExtension, Row, params};

use super::super::{AddedKey, Key, Keys, NewKey};
use crate::trace::store::{Answer, Scope, SqliteStores, View};

#[derive(Debug)]
pub(super) struct SqliteKeys(pub(super) SqliteStores);

impl SqliteKeys {
    /// Notes beside the database that it has keys, so that a database that is lost is not taken for one that never had any.
    fn note(&self) {
        if let Err(err) = self.0.note_keys() {
            tracing::warn!(error = %err, "that this hub has keys cannot be noted beside its database");
        }
    }
}

const KEY: &str = "SELECT org, project, name, scopes, created_at, expires_at, revoked_at
    FROM api_key JOIN tenant ON tenant.id = api_key.tenant";

impl Keys for SqliteKeys {
    fn add(&self, NewKey { key, sha256 }: NewKey) -> Answer<'_, AddedKey> {
        Box::pin(async move {
            let scope = key.scope.clone();
            let add = move |view: View<'_>| {
                let sql = "INSERT INTO api_key (tenant, name, sha256, scopes, created_at, expires_at, revoked_at)
                           VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";
                let added = view.db.prepare_cached(sql)?.execute(params![
                    view.tenant,
                    key.name,
                    sha256,
                    key.permissions.to_string(),
                    millis(key.created_at),
                    key.expires_at.map(millis),
                    key.revoked_at.map(millis),
                ])?;
                Ok(if added == 1 { AddedKey::Added } else { AddedKey::Taken })
            };
            let added = self.0.run(&scope, add).await?;
            self.note();
            Ok(added)
        })
    }

    fn by_hash(&self, sha256: [u8; 32]) -> Answer<'_, Option<Key>> {
        Box::pin(async move {
            let found = self.0.look_up_all(move |db| {
                let found =
                    db.prepare_cached(&format!("{KEY} WHERE sha256 = ?1"))?.query_row([sha256], key).optional()?;
                Ok(found.flatten())
            });
            let found = found.await?;
            if found.is_some() {
                self.note();
            }
            Ok(found)
        })
    }

    fn list(&self) -> Answer<'_, Vec<Key>> {
        Box::pin(self.0.read_all(|db| {
            let sql = format!("{KEY} ORDER BY org, project, revoked_at NOTNULL, name, created_at");
            let keys = db.prepare(&sql)?.query_map([], key)?.collect::<rusqlite::Result<Vec<_>>>()?;
            Ok(keys.into_iter().flatten().collect())
        }))
    }

    fn are_lost(&self) -> Answer<'_, bool> {
        Box::pin(async {
            let has_any = |db: &rusqlite::Connection| {
                db.prepare_cached("SELECT EXISTS (SELECT 1 FROM api_key)")?.query_row([], |row| row.get::<_, bool>(0))
            };
            Ok(self.0.has_noted_keys() && !self.0.look_up_all(has_any).await?)
        })
    }

    fn revoke(&self, name: &str, scope: Option<&Scope>, now: u64) -> Answer<'_, u64> {
        let (name, scope) = (name.to_owned(), scope.cloned());
        Box::pin(async move {
            let everywhere = scope.is_none();
            let revoke = move |view: View<'_>| {
                let sql = "UPDATE api_key SET revoked_at = ?3
                           WHERE name = ?1 AND revoked_at IS NULL AND (tenant = ?2 OR ?4)";
                let revoked = view.db.execute(sql, params![name, view.tenant, millis(Timestamp(now)), everywhere])?;
                Ok(revoked as u64)
            };
            self.0.run(&scope.unwrap_or_default(), revoke).await
        })
    }
}

/// `None` for a key whose permissions only a newer pml understands: it permits nothing here.
fn key(row: &Row<'_>) -> rusqlite::Result<Option<Key>> {
    let (org, project, permissions): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(3)?);
    let (Ok(scope), Ok(permissions)) = (Scope::new(&org, &project), permissions.parse()) else { return Ok(None) };
    Ok(Some(Key {
        scope,
        name: row.get(2)?,
        permissions,
        created_at: moment(row.get(4)?),
        expires_at: row.get::<_, Option<i64>>(5)?.map(moment),
        revoked_at: row.get::<_, Option<i64>>(6)?.map(moment),
    }))
}

pub(super) fn millis(moment: Timestamp) -> i64 {
    i64::try_from(moment.0).unwrap_or(i64::MAX)
}

pub(super) fn moment(millis: i64) -> Timestamp {
    Timestamp(u64::try_from(millis).unwrap_or(0))
}
