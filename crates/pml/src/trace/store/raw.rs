//! Traces as they were, with every secret in them.
//!
//! For debugging, if `trace.raw` asks for it: in a file of its own, which nothing reads but its owner, so that no path leads
//! from here to a hub.

use std::path::Path;

use pml_wire::{ExecutionId, trace::Trace};

use super::{
    Deletion, Health, Options, Receipt, StoreError,
    change::Change,
    database::Database,
    place::{Place, RAW},
    query,
    scope::Scope,
};

/// Unsanitized traces in the database `traces/raw.db` of a data folder. Its tables are those of the other.
#[derive(Debug)]
pub struct RawStore(Database);

impl RawStore {
    /// Opens the store in the background, and warns.
    pub fn open(data_dir: &Path, options: Options) -> RawStore {
        tracing::warn!("`trace.raw` is on: everything that programs and servers say is kept, with all secrets");
        RawStore(Database::open(data_dir, RAW, options))
    }

    /// The store of a data folder that has one, to look into it or to delete from it.
    pub fn of(data_dir: &Path, options: Options) -> Option<RawStore> {
        let is_there = Place::new(data_dir, RAW).path().exists();
        is_there.then(|| RawStore(Database::open(data_dir, RAW, options)))
    }

    pub fn submit(&self, trace: Trace) -> Receipt {
        self.0.intake.submit(&Scope::local(), trace)
    }

    pub async fn by_id(&self, id: ExecutionId) -> Result<Option<Trace>, StoreError> {
        let found = self.0.look_up(&Scope::local(), move |view| query::by_id(view, id)).await?;
        Ok(found.map(|found| found.trace))
    }

    pub async fn delete(&self, what: Deletion) -> Result<u64, StoreError> {
        self.0.change(&Scope::local(), Change::Delete(what)).await
    }

    pub fn health(&self) -> Health {
        self.0.health()
    }
}
