//! The database as a whole.

use std::{path::Path, sync::Arc};

use super::{
    super::{Capabilities, HubStore, Keys, Models, Viewer},
    capabilities::SqliteCapabilities,
    keys::SqliteKeys,
    models::SqliteModels,
};
use crate::trace::store::{Answer, Health, Options, Scope, SqliteStores, State, Store, Stores};

/// The data of a hub in the folder `traces/` of a data folder.
#[derive(Clone, Debug)]
pub struct SqliteHub(SqliteStores);

impl SqliteHub {
    /// Opens the database. What is committed is on the disk.
    pub fn open(data_dir: &Path, options: Options) -> SqliteHub {
        SqliteHub(SqliteStores::open(data_dir, Options { survives_power_cuts: true, ..options }))
    }

    /// The hub in a database that is open already; it decides whether commits survive a power cut.
    pub fn of(stores: SqliteStores) -> SqliteHub {
        SqliteHub(stores)
    }

    /// Waits until the database is open, or cannot be opened.
    pub async fn opened(&self) {
        self.0.opened().await;
    }
}

impl Stores for SqliteHub {
    fn of(&self, scope: &Scope) -> Arc<dyn Store> {
        self.0.of(scope)
    }

    fn health(&self) -> Health {
        self.0.health()
    }

    fn state(&self) -> State {
        self.0.state()
    }
}

impl HubStore for SqliteHub {
    fn keys(&self) -> Arc<dyn Keys> {
        Arc::new(SqliteKeys(self.0.clone()))
    }

    fn capabilities(&self, viewer: &Viewer) -> Arc<dyn Capabilities> {
        Arc::new(SqliteCapabilities { stores: self.0.clone(), viewer: viewer.clone() })
    }

    fn models(&self, scope: &Scope) -> Arc<dyn Models> {
        Arc::new(SqliteModels { stores: self.0.clone(), scope: scope.clone() })
    }

    fn ready(&self) -> Answer<'_, ()> {
        // A transaction that changes nothing still needs the lock and a database that can be written.
        Box::pin(async { self.0.run(&Scope::local(), |_| Ok(())).await })
    }
}
