//! Traces in a SQLite database.

use std::path::Path;

use pml_wire::ExecutionId;

use super::{
    Answer, Deletion, Filter, Found, Health, Options, Outgoing, Page, Reading, Receipt, Sampled, Stats, Store,
    StoreError, change::Change, database::Database, place::TRACES, query, sample,
};
use crate::trace::{SanitizedHead, SanitizedTrace, TraceHead};

/// Traces in the database `traces/traces.db` of a data folder. Several processes may share it.
#[derive(Debug)]
pub struct SqliteStore(Database);

impl SqliteStore {
    /// Opens the store in the background. Nothing fails here: whatever is wrong is in [`Store::health`].
    pub fn open(data_dir: &Path, options: Options) -> SqliteStore {
        SqliteStore(Database::open(data_dir, TRACES, options))
    }

    /// Reads the whole database, and says what is wrong with it, if anything is.
    pub async fn damage(&self) -> Result<Option<String>, StoreError> {
        self.0.read(|db| query::damage(db).map_err(StoreError::reading)).await
    }

    /// Waits until the database is open, or cannot be opened.
    pub async fn opened(&self) {
        self.0.opened().await;
    }
}

impl Store for SqliteStore {
    fn begin(&self, head: SanitizedHead) -> Receipt {
        self.0.begin(head.into_inner())
    }

    fn submit(&self, trace: SanitizedTrace) -> Receipt {
        self.0.submit(trace.into_inner())
    }

    fn by_id(&self, id: ExecutionId) -> Answer<'_, Option<SanitizedTrace>> {
        Box::pin(async move {
            let found = self.0.read(move |db| query::by_id(db, id)).await?;
            // This and what follows was sanitized when it was stored.
            Ok(found.map(SanitizedTrace::new))
        })
    }

    fn find(&self, prefix: &str) -> Answer<'_, Found> {
        let prefix = prefix.to_owned();
        Box::pin(self.0.read(move |db| query::find(db, &prefix).map_err(StoreError::reading)))
    }

    fn list(&self, filter: Filter, reading: Reading, limit: usize) -> Answer<'_, Page> {
        Box::pin(self.0.read(move |db| query::list(db, &filter, reading, limit).map_err(StoreError::reading)))
    }

    fn running(&self) -> Answer<'_, Vec<TraceHead>> {
        Box::pin(self.0.read(|db| query::running(db).map_err(StoreError::reading)))
    }

    fn stats(&self, filter: Filter) -> Answer<'_, Stats> {
        Box::pin(self.0.read(move |db| query::stats(db, &filter).map_err(StoreError::reading)))
    }

    fn delete(&self, what: Deletion) -> Answer<'_, u64> {
        Box::pin(self.0.change(Change::Delete(what)))
    }

    fn retain(&self) -> Answer<'_, u64> {
        Box::pin(self.0.change(Change::Retain))
    }

    fn unsent(&self, limit: usize) -> Answer<'_, Vec<Outgoing>> {
        Box::pin(async move {
            let found = self.0.read(move |db| query::unsent(db, limit)).await?;
            let outgoing = |(trace, attempts)| Outgoing { trace: SanitizedTrace::new(trace), attempts };
            Ok(found.into_iter().map(outgoing).collect())
        })
    }

    fn acknowledge(&self, ids: Vec<ExecutionId>) -> Answer<'_, u64> {
        Box::pin(self.0.change(Change::Acknowledge(ids)))
    }

    fn note_failure(&self, ids: Vec<ExecutionId>, reason: &str) -> Answer<'_, u64> {
        Box::pin(self.0.change(Change::NoteFailure(ids, reason.to_owned())))
    }

    fn bury(&self, ids: Vec<ExecutionId>, reason: &str) -> Answer<'_, u64> {
        Box::pin(self.0.change(Change::Bury(ids, reason.to_owned())))
    }

    fn requeue(&self) -> Answer<'_, u64> {
        Box::pin(self.0.change(Change::Requeue))
    }

    fn set_priorities(&self, priorities: Vec<(ExecutionId, f64)>) -> Answer<'_, u64> {
        Box::pin(self.0.change(Change::SetPriorities(priorities)))
    }

    fn sample(&self, count: usize, exponent: f64, seed: u64) -> Answer<'_, Vec<Sampled>> {
        Box::pin(async move {
            let drawn = self.0.read(move |db| sample::draw(db, count, exponent, seed)).await?;
            let sampled = |(trace, priority, probability)| {
                let trace = SanitizedTrace::new(trace);
                Sampled { trace, priority, probability }
            };
            Ok(drawn.into_iter().map(sampled).collect())
        })
    }

    fn health(&self) -> Health {
        self.0.health()
    }
}
