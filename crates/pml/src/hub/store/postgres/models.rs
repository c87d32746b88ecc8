//! Learned models.

use pml_wire::trace::Timestamp;

use super::{
    super::{Model, Models, PutModel},
    keys::{millis, moment},
};
use crate::{
    clock::now_millis,
    digest::sha256,
    trace::store::{
        Answer, Scope, Trouble,
        postgres::{PostgresStores, Session, tenant},
    },
};

#[derive(Debug)]
pub(super) struct PostgresModels {
    pub(super) stores: PostgresStores,
    pub(super) scope: Scope,
}

impl Models for PostgresModels {
    fn put(&self, name: &str, bytes: Vec<u8>, expected: Option<Option<String>>) -> Answer<'_, PutModel> {
        let (name, scope) = (name.to_owned(), self.scope.clone());
        let bytes = std::sync::Arc::<[u8]>::from(bytes);
        Box::pin(self.stores.run(move |session: &Session| {
            let (name, scope, bytes, expected) = (name.clone(), scope.clone(), bytes.clone(), expected.clone());
            Box::pin(async move {
                let tenant = tenant::number(session, &scope).await?;
                // Whoever puts the same model at the same moment waits, and then sees this one.
                let sql = "INSERT INTO model (tenant, name, etag, updated_at, bytes) VALUES ($1, $2, '', 0, '')
                           ON CONFLICT (tenant, name) DO UPDATE SET name = excluded.name RETURNING etag";
                let there = session.query_opt(sql, &[&tenant, &name]).await?.map(|row| row.get::<_, String>(0));
                let there = there.filter(|etag| !etag.is_empty());
                if expected.as_ref().is_some_and(|expected| *expected != there) {
                    if there.is_none() {
                        session.execute("DELETE FROM model WHERE tenant = $1 AND name = $2", &[&tenant, &name]).await?;
                    }
                    return Ok(PutModel::Changed { etag: there });
                }
                let etag = sha256(&bytes);
                let sql = "UPDATE model SET etag = $3, updated_at = $4, bytes = $5 WHERE tenant = $1 AND name = $2";
                let now = millis(Timestamp(now_millis()));
                session.execute(sql, &[&tenant, &name, &etag, &now, &&bytes[..]]).await?;
                Ok(PutModel::Stored { etag })
            })
        }))
    }

    fn get(&self, name: &str) -> Answer<'_, Option<Model>> {
        let (name, scope) = (name.to_owned(), self.scope.clone());
        Box::pin(self.stores.read(move |session: &Session| {
            let (name, scope) = (name.clone(), scope.clone());
            Box::pin(async move {
                let Some(tenant) = tenant::find(session, &scope).await? else { return Ok(None) };
                let sql = "SELECT etag, updated_at, bytes FROM model WHERE tenant = $1 AND name = $2";
                let found = session.query_opt(sql, &[&tenant, &name]).await?;
                Ok(found.map(|row| Model { etag: row.get(0), updated_at: moment(row.get(1)), bytes: row.get(2) }))
            })
        }))
    }

    fn etag(&self, name: &str) -> Answer<'_, Option<String>> {
        let (name, scope) = (name.to_owned(), self.scope.clone());
        Box::pin(self.stores.read(move |session: &Session| {
            let (name, scope) = (name.clone(), scope.clone());
            Box::pin(async move { etag(session, &scope, &name).await })
        }))
    }
}

async fn etag(session: &Session, scope: &Scope, name: &str) -> Result<Option<String>, Trouble> {
    let Some(tenant) = tenant::find(session, scope).await? else { return Ok(None) };
    let sql = "SELECT etag FROM model WHERE tenant = $1 AND name = $2";
    Ok(session.query_opt(sql, &[&tenant, &name]).await?.map(|row| row.get(0)))
}
