//! The database as a whole.

use std::sync::Arc;

use super::{
    super::{Capabilities, HubStore, Keys, Models, Viewer},
    capabilities::PostgresCapabilities,
    keys::PostgresKeys,
    models::PostgresModels,
};
use crate::trace::store::{
    Answer, Health, Options, Scope, State, Store, Stores, Trouble,
    postgres::{Address, PostgresStores, Session},
};

/// The data of a hub in a PostgreSQL database.
#[derive(Clone, Debug)]
pub struct PostgresHub(PostgresStores);

impl PostgresHub {
    /// Connects in the background. What is committed is on the server's disk.
    pub fn open(address: Address, options: Options) -> PostgresHub {
        PostgresHub(PostgresStores::open(address, options))
    }

    /// The hub in a database that is open already.
    pub fn of(stores: PostgresStores) -> PostgresHub {
        PostgresHub(stores)
    }

    /// Waits until the database is open, or cannot be opened.
    pub async fn opened(&self) {
        self.0.opened().await;
    }
}

impl Stores for PostgresHub {
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

impl HubStore for PostgresHub {
    fn keys(&self) -> Arc<dyn Keys> {
        Arc::new(PostgresKeys(self.0.clone()))
    }

    fn capabilities(&self, viewer: &Viewer) -> Arc<dyn Capabilities> {
        Arc::new(PostgresCapabilities { stores: self.0.clone(), viewer: viewer.clone() })
    }

    fn models(&self, scope: &Scope) -> Arc<dyn Models> {
        Arc::new(PostgresModels { stores: self.0.clone(), scope: scope.clone() })
    }

    fn ready(&self) -> Answer<'_, ()> {
        Box::pin(self.0.read(|session: &Session| {
            Box::pin(async move {
                // A server that waits to take over for another answers, but stores nothing.
                let sql = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool";
                match session.query_opt(sql, &[]).await?.is_some_and(|row| row.get(0)) {
                    true => Err(Trouble::ReadOnly("the database can only be read".to_owned())),
                    false => Ok(()),
                }
            })
        }))
    }
}
