//! Who reads, and who has to wait for whom.

use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::{
    super::{
        StoreError,
        place::{Place, TRACES},
        readers::{MAX_LOOKUPS, MAX_SCANS, Readers},
    },
    support::{PATIENCE, folder, open, put, trace},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lookups_do_not_wait_for_scans_and_scans_end_with_whoever_waits() {
    let folder = folder();
    put(&open(&folder), &[trace(0)]).await;
    let readers = Arc::new(Readers::new(Place::new(folder.path(), TRACES)));
    let (told, mut begun) = mpsc::unbounded_channel();
    let endless = |db: &Connection| {
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n WHERE i < 0";
        db.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(StoreError::reading)
    };
    let scans: Vec<_> = (0..2 * MAX_LOOKUPS)
        .map(|_| {
            let told = told.clone();
            let scan = move |db: &Connection| {
                told.send(()).unwrap();
                endless(db)
            };
            tokio::spawn(Arc::clone(&readers).scan(scan))
        })
        .collect();
    for _ in 0..MAX_SCANS {
        begun.recv().await.unwrap();
    }
    let count = |db: &Connection| {
        db.query_row("SELECT count(*) FROM trace", [], |row| row.get::<_, i64>(0)).map_err(StoreError::reading)
    };
    let found = tokio::time::timeout(PATIENCE, Arc::clone(&readers).look_up(count)).await;
    assert_eq!(found.expect("a lookup waits for no scan").unwrap(), 1);
    assert!(begun.try_recv().is_err(), "no more scans run than may");
    for scan in scans {
        scan.abort();
    }
    let found = tokio::time::timeout(PATIENCE, Arc::clone(&readers).scan(count)).await;
    assert_eq!(found.expect("the scans that nobody waits for have ended").unwrap(), 1);
}
