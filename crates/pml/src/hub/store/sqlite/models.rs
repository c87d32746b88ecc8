//! Learned models.

use rusqlite::{OptionalExtension, params};

use super::{
    super::{Model, Models, PutModel},
    keys::moment,
};
use crate::{
    clock::now_millis,
    digest::sha256,
    trace::store::{Answer, Scope, SqliteStores, View},
};

#[derive(Debug)]
pub(super) struct SqliteModels {
    pub(super) stores: SqliteStores,
    pub(super) scope: Scope,
}

impl Models for SqliteModels {
    fn put(&self, name: &str, bytes: Vec<u8>, expected: Option<Option<String>>) -> Answer<'_, PutModel> {
        let name = name.to_owned();
        let put = move |view: View<'_>| {
            let there = etag(view, &name)?;
            if expected.as_ref().is_some_and(|expected| *expected != there) {
                return Ok(PutModel::Changed { etag: there });
            }
            let etag = sha256(&bytes);
            let sql = "INSERT INTO model (tenant, name, etag, updated_at, bytes) VALUES (?1, ?2, ?3, ?4, ?5)
                       ON CONFLICT (tenant, name) DO UPDATE SET etag = ?3, updated_at = ?4, bytes = ?5";
            let now = i64::try_from(now_millis()).unwrap_or(i64::MAX);
            view.db.execute(sql, params![view.tenant, name, etag, now, bytes])?;
            Ok(PutModel::Stored { etag })
        };
        Box::pin(self.stores.run(&self.scope, put))
    }

    fn get(&self, name: &str) -> Answer<'_, Option<Model>> {
        let name = name.to_owned();
        Box::pin(self.stores.read(&self.scope, move |view| {
            let sql = "SELECT etag, updated_at, bytes FROM model WHERE tenant = ?1 AND name = ?2";
            let read = |row: &rusqlite::Row<'_>| {
                Ok(Model { etag: row.get(0)?, updated_at: moment(row.get(1)?), bytes: row.get(2)? })
            };
            view.db.prepare_cached(sql)?.query_row(params![view.tenant, name], read).optional()
        }))
    }

    fn etag(&self, name: &str) -> Answer<'_, Option<String>> {
        let name = name.to_owned();
        Box::pin(self.stores.read(&self.scope, move |view| etag(view, &name)))
    }
}

fn etag(view: View<'_>, name: &str) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT etag FROM model WHERE tenant = ?1 AND name = ?2";
    view.db.prepare_cached(sql)?.query_row(params![view.tenant, name], |row| row.get(0)).optional()
}
