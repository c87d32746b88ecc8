//! The contract on SQLite.

use std::sync::Arc;

use super::{
    super::{HubStore, SqliteHub},
    contract::hub_contract_tests,
};
use crate::trace::store::Options;

async fn with_sqlite(test: impl AsyncFnOnce(Arc<dyn HubStore>)) {
    let folder = tempfile::tempdir().unwrap();
    test(Arc::new(SqliteHub::open(folder.path(), Options::default()))).await;
}

hub_contract_tests! { with_sqlite }
