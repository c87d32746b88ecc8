//! API keys.

use pml_wire::trace::Timestamp;
use tokio_postgres::Row;

use super::super::{AddedKey, Key, Keys, NewKey};
use crate::trace::store::{
    Answer, Scope,
    postgres::{PostgresStores, Session, tenant},
};

#[derive(Debug)]
pub(super) struct PostgresKeys(pub(super) PostgresStores);

macro_rules! keys {
    ($rest:literal) => {
        concat!(
            "SELECT org, project, name, scopes, created_at, expires_at, revoked_at
             FROM api_key JOIN tenant ON tenant.id = api_key.tenant ",
            $rest
        )
    };
}

impl Keys for PostgresKeys {
    fn add(&self, new: NewKey) -> Answer<'_, AddedKey> {
        Box::pin(self.0.run(move |session: &Session| {
            let NewKey { key, sha256 } = new.clone();
            Box::pin(async move {
                let tenant = tenant::number(session, &key.scope).await?;
                let sql = "INSERT INTO api_key (tenant, name, sha256, scopes, created_at, expires_at, revoked_at)
                           VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
                let permissions = key.permissions.to_string();
                let (created, expires) = (millis(key.created_at), key.expires_at.map(millis));
                let revoked = key.revoked_at.map(millis);
                let added = session
                    .execute(sql, &[&tenant, &key.name, &&sha256[..], &permissions, &created, &expires, &revoked])
                    .await?;
                Ok(if added == 1 { AddedKey::Added } else { AddedKey::Taken })
            })
        }))
    }

    fn by_hash(&self, sha256: [u8; 32]) -> Answer<'_, Option<Key>> {
        Box::pin(self.0.look_up(move |session: &Session| {
            Box::pin(async move {
                let found = session.query_opt(keys!("WHERE sha256 = $1"), &[&&sha256[..]]).await?;
                Ok(found.as_ref().and_then(key))
            })
        }))
    }

    fn list(&self) -> Answer<'_, Vec<Key>> {
        Box::pin(self.0.read(|session: &Session| {
            Box::pin(async move {
                let sql = keys!("ORDER BY org, project, revoked_at IS NOT NULL, name, created_at");
                Ok(session.query(sql, &[]).await?.iter().filter_map(key).collect())
            })
        }))
    }

    fn revoke(&self, name: &str, scope: Option<&Scope>, now: u64) -> Answer<'_, u64> {
        let (name, scope) = (name.replace('\0', ""), scope.cloned());
        Box::pin(self.0.run(move |session: &Session| {
            let (name, scope) = (name.clone(), scope.clone());
            Box::pin(async move {
                let sql = "UPDATE api_key SET revoked_at = $3 FROM tenant
                           WHERE tenant.id = api_key.tenant AND name = $1 AND revoked_at IS NULL
                           AND ($2::text IS NULL OR (org = $2 AND project = $4))";
                let (org, project) = (scope.as_ref().map(Scope::org), scope.as_ref().map(Scope::project));
                session.execute(sql, &[&name, &org, &millis(Timestamp(now)), &project]).await
            })
        }))
    }
}

/// `None` for a key whose permissions only a newer pml understands: it permits nothing here.
fn key(row: &Row) -> Option<Key> {
    Some(Key {
        scope: Scope::new(row.get(0), row.get(1)).ok()?,
        name: row.get(2),
        permissions: row.get::<_, &str>(3).parse().ok()?,
        created_at: moment(row.get(4)),
        expires_at: row.get::<_, Option<i64>>(5).map(moment),
        revoked_at: row.get::<_, Option<i64>>(6).map(moment),
    })
}

pub(super) fn millis(moment: Timestamp) -> i64 {
    i64::try_from(moment.0).unwrap_or(i64::MAX)
}

pub(super) fn moment(millis: i64) -> Timestamp {
    Timestamp(u64::try_from(millis).unwrap_or(0))
}
