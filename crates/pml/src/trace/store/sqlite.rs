//! Traces in a SQLite database.

use std::{path::Path, sync::Arc};

use pml_wire::ExecutionId;
use rusqlite::Connection;

use super::{
    Answer, Archive, Filter, Found, Health, Options, Outbox, Outgoing, Page, Reading, Record, Sample, Scope, State,
    Stats, Store, StoreError, Stores, Turn, WayIn,
    database::Database,
    place::TRACES,
    query::{self, View, Whole},
    sample,
};
use crate::trace::TraceHead;

/// The database `traces/traces.db` of a data folder, with the traces of every scope. Several processes may share it.
#[derive(Clone, Debug)]
pub struct SqliteStores(Arc<Database>);

/// The traces of one scope in such a database.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    database: Arc<Database>,
    scope: Scope,
}

impl SqliteStores {
    /// Opens the database in the background. Nothing fails here: whatever is wrong is in [`Stores::health`].
    pub fn open(data_dir: &Path, options: Options) -> SqliteStores {
        SqliteStores(Arc::new(Database::open(data_dir, TRACES, options)))
    }

    pub fn scoped(&self, scope: Scope) -> SqliteStore {
        SqliteStore { database: Arc::clone(&self.0), scope }
    }

    /// Waits until the database is open, or cannot be opened.
    pub async fn opened(&self) {
        self.0.intake.opened().await;
    }

    /// Notes beside the database that there are keys in it.
    pub(crate) fn note_keys(&self) -> std::io::Result<()> {
        self.0.note_keys()
    }

    /// Was that ever noted, of this database or of one that was in its place?
    pub(crate) fn has_noted_keys(&self) -> bool {
        self.0.has_noted_keys()
    }

    /// Looks a few rows up, of any scope.
    pub(crate) async fn look_up_all<T: Default + Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.0.look_up_all(|db| query(db).map_err(StoreError::reading)).await
    }

    /// Asks for something of every scope.
    pub(crate) async fn read_all<T: Default + Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.0.read_all(|db| query(db).map_err(StoreError::reading)).await
    }

    /// Asks for something of one scope. If there is nothing of it, nothing is found.
    pub(crate) async fn read<T: Default + Send + 'static>(
        &self,
        scope: &Scope,
        query: impl FnOnce(View<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.0.read(scope, |view| query(view).map_err(StoreError::reading)).await
    }

    /// Changes something of one scope, in a transaction. May run several times: what the last run returns counts.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        scope: &Scope,
        change: impl FnMut(View<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.0.run(scope, change).await
    }
}

impl Stores for SqliteStores {
    fn of(&self, scope: &Scope) -> Arc<dyn Store> {
        Arc::new(self.scoped(scope.clone()))
    }

    fn health(&self) -> Health {
        self.0.health()
    }

    fn state(&self) -> State {
        self.0.intake.state()
    }
}

impl SqliteStore {
    /// Opens the store of what a gateway keeps for itself, in the background. Nothing fails here: whatever is wrong is in
    /// [`Store::health`].
    pub fn open(data_dir: &Path, options: Options) -> SqliteStore {
        SqliteStores::open(data_dir, options).scoped(Scope::local())
    }

    /// Waits until the database is open, or cannot be opened.
    pub async fn opened(&self) {
        self.database.intake.opened().await;
    }
}

impl Archive for SqliteStore {
    fn record(&self, id: ExecutionId) -> Answer<'_, Option<Record>> {
        Box::pin(async move {
            let found = self.database.look_up(&self.scope, move |view| query::by_id(view, id)).await?;
            Ok(found.map(Whole::into_record))
        })
    }

    fn find(&self, prefix: &str) -> Answer<'_, Found> {
        let prefix = prefix.to_owned();
        let find = move |view: View<'_>| query::find(view, &prefix).map_err(StoreError::reading);
        Box::pin(self.database.look_up(&self.scope, find))
    }

    fn list(&self, filter: Filter, reading: Reading, limit: usize) -> Answer<'_, Page> {
        let list = move |view: View<'_>| query::list(view, &filter, reading, limit).map_err(StoreError::reading);
        Box::pin(self.database.read(&self.scope, list))
    }

    fn running(&self) -> Answer<'_, Vec<TraceHead>> {
        Box::pin(self.database.read(&self.scope, |view| query::running(view).map_err(StoreError::reading)))
    }

    fn stats(&self, filter: Filter) -> Answer<'_, Stats> {
        let stats = move |view: View<'_>| query::stats(view, &filter).map_err(StoreError::reading);
        Box::pin(self.database.read(&self.scope, stats))
    }
}

impl Store for SqliteStore {
    fn way_in(&self) -> WayIn<'_> {
        self.database.intake.of(&self.scope)
    }

    fn unsent(&self, limit: usize) -> Answer<'_, Vec<Outgoing>> {
        Box::pin(async move {
            let found = self.database.read(&self.scope, move |view| query::unsent(view, limit)).await?;
            Ok(found.into_iter().map(Whole::into_outgoing).collect())
        })
    }

    fn outbox(&self) -> Answer<'_, Outbox> {
        Box::pin(self.database.read(&self.scope, |view| query::outbox(view).map_err(StoreError::reading)))
    }

    fn take_turn(&self) -> Answer<'_, Option<Turn>> {
        let turn = self.database.take_turn().map(|turn| turn.map(Turn::holding)).map_err(StoreError::writing);
        Box::pin(async move { turn })
    }

    fn sample(&self, count: usize, exponent: f64, seed: u64, max_bytes: usize) -> Answer<'_, Sample> {
        let draw = move |view: View<'_>| sample::draw(view, count, exponent, seed, max_bytes);
        Box::pin(self.database.read(&self.scope, draw))
    }

    fn damage(&self) -> Answer<'_, Option<String>> {
        Box::pin(self.database.read_all(|db| query::damage(db).map_err(StoreError::reading)))
    }

    fn health(&self) -> Health {
        self.database.health()
    }
}
