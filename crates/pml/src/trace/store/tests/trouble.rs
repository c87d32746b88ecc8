//! Databases that are damaged, newer, locked, full, or not to be written.

use std::{
    fs,
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
};

use pml_wire::ExecutionId;
use rusqlite::Connection;
use serde_json::{json, value::RawValue};

use super::{
    super::{Options, *},
    support::*,
};
use crate::trace::SanitizedTrace;

#[tokio::test]
async fn a_damaged_database_is_set_aside() {
    let garbage = |path: &Path, from: u64| {
        use std::io::{Seek, SeekFrom};
        let mut file = fs::File::options().write(true).open(path).unwrap();
        let length = file.metadata().unwrap().len().max(8192);
        file.seek(SeekFrom::Start(from)).unwrap();
        file.write_all(&vec![0xab; (length - from) as usize]).unwrap();
    };
    // In its first bytes, which shows when it is opened, and behind them, which shows when it is written to.
    for from in [0, 4096] {
        let folder = folder();
        let store = open(&folder);
        put(&store, &[trace(0)]).await;
        // Empties the log too.
        store.delete(Deletion::All).await.unwrap();
        drop(store);
        garbage(&file(&folder), from);
        let store = open(&folder);
        let new = trace(1);
        put(&store, std::slice::from_ref(&new)).await;
        assert_eq!(ids(&store, Filter::default()).await, [new.trace_id]);
        let health = store.health();
        assert_eq!((health.state, health.set_aside.len()), (State::Ready, 1), "{from}");
        let bytes = fs::read(&health.set_aside[0]).unwrap();
        assert!(bytes.ends_with(&[0xab; 100]), "the damaged one is kept as it was");
    }
}

#[tokio::test]
async fn of_damaged_databases_the_newest_are_kept() {
    let folder = folder();
    for _ in 0..5 {
        drop(open(&folder));
        fs::write(file(&folder), [0xab; 9000]).unwrap();
        // With its log the database could be read back.
        let _ = fs::remove_file(folder.path().join("traces/traces.db-wal"));
        let store = open(&folder);
        put(&store, &[trace(0)]).await;
    }
    assert_eq!(open(&folder).health().set_aside.len(), 3);
}

#[tokio::test]
async fn a_database_of_a_newer_pml_is_left_alone() {
    let folder = folder();
    let store = open(&folder);
    put(&store, &[trace(0)]).await;
    let db = Connection::open(file(&folder)).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    // While pml runs, and when it starts.
    assert_eq!(commit(&store, &trace(1)).await, None);
    assert_eq!(store.health().state, State::Newer(99));
    drop(store);
    let store = open(&folder);
    store.opened().await;
    assert_eq!(store.health().state, State::Newer(99));
    let receipt = store.submit(SanitizedTrace::new(trace(2)));
    assert_eq!(tokio::time::timeout(PATIENCE, receipt.outcome()).await.unwrap(), None);
    assert_eq!(store.health().counts.dropped(), 1);
    assert!(matches!(store.stats(Filter::default()).await, Err(StoreError::Unavailable(State::Newer(99)))));
    assert!(matches!(store.delete(Deletion::All).await, Err(StoreError::Unavailable(_))));
    drop(store);
    let db = Connection::open(file(&folder)).unwrap();
    assert_eq!(db.query_row("SELECT count(*) FROM trace", [], |row| row.get::<_, i64>(0)).unwrap(), 1);
}

#[tokio::test]
async fn a_locked_database_makes_nobody_wait_and_loses_nothing_until_the_queue_is_full() {
    let folder = folder();
    let store = SqliteStore::open(folder.path(), Options { queue: 8, ..Options::default() });
    let first = trace(0);
    put(&store, std::slice::from_ref(&first)).await;
    let other = Connection::open(file(&folder)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let kept = trace(1);
    assert_eq!(store.submit(SanitizedTrace::new(kept.clone())).kept().await, Waited::Kept);
    until(&store, |health| health.state == State::Locked).await;
    // Who reads does not notice.
    assert_eq!(ids(&store, Filter::default()).await, [first.trace_id]);
    let mut dropped = 0;
    for number in 2..40 {
        match store.submit(SanitizedTrace::new(trace(number))).kept().await {
            Waited::Dropped => dropped += 1,
            waited => assert_eq!(waited, Waited::Kept),
        }
    }
    let health = store.health();
    assert!(dropped >= 38 - 8 - 1, "{dropped}");
    assert_eq!((health.counts.queue_full, health.counts.late), (dropped, 0));
    other.execute_batch("COMMIT").unwrap();
    until(&store, |health| health.queued == 0 && health.counts.stored == 40 - dropped).await;
    assert!(store.by_id(kept.trace_id).await.unwrap().is_some());
    assert_eq!(store.health().state, State::Ready);
    // What was lost is told to other processes too.
    put(&store, &[trace(50)]).await;
    drop(store);
    let counts = open(&folder).stats(Filter::default()).await.unwrap().counts;
    assert_eq!(counts, [("dropped_queue_full".to_owned(), dropped)]);
}

#[tokio::test]
async fn a_trace_that_is_too_large_for_the_journal_is_waited_for_a_moment_and_counted() {
    let folder = folder();
    let store = open(&folder);
    let mut large = trace(0);
    large.result = Some(RawValue::from_string(json!("z".repeat(100_000)).to_string()).unwrap());
    assert_eq!(store.submit(SanitizedTrace::new(large.clone())).outcome().await, Some(Commit::Stored));
    let other = Connection::open(file(&folder)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    large.trace_id = ExecutionId::mint();
    assert_eq!(store.submit(SanitizedTrace::new(large.clone())).kept().await, Waited::Late);
    assert_eq!(store.health().counts.late, 1);
    other.execute_batch("COMMIT").unwrap();
    until(&store, |health| health.counts.stored == 2).await;
}

#[tokio::test]
async fn a_full_disk_is_told_and_what_was_stored_stays() {
    let folder = folder();
    let first = trace(0);
    let store = open(&folder);
    put(&store, std::slice::from_ref(&first)).await;
    drop(store);
    let store = SqliteStore::open(folder.path(), Options { max_pages: Some(30), ..Options::default() });
    let mut big = trace(1);
    let text: String = (0..20_000u64).map(|at| format!("{:x}", at.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    big.args = Some(RawValue::from_string(json!(text).to_string()).unwrap());
    // Waited for from now on: only then is the thread woken.
    let outcome = tokio::spawn(store.submit(SanitizedTrace::new(big.clone())).outcome());
    until(&store, |health| health.state == State::Full).await;
    assert!(store.by_id(first.trace_id).await.unwrap().is_some());
    // It is given up when pml ends, and counted.
    drop(store);
    assert_eq!(outcome.await.unwrap(), None);
    let store = open(&folder);
    put(&store, std::slice::from_ref(&big)).await;
    assert_eq!(ids(&store, Filter::default()).await.len(), 2);
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_told() {
    let folder = folder();
    fs::write(folder.path().join("traces"), "in the way").unwrap();
    let store = open(&folder);
    store.opened().await;
    let health = store.health();
    assert!(matches!(health.state, State::Failing(_)), "{health:?}");
    assert!(ids(&store, Filter::default()).await.is_empty());
    // It is tried again.
    let late = trace(0);
    let receipt = store.submit(SanitizedTrace::new(late.clone()));
    fs::remove_file(folder.path().join("traces")).unwrap();
    assert_eq!(tokio::time::timeout(PATIENCE, receipt.outcome()).await.unwrap(), Some(Commit::Stored));
    drop(store);
    // Root writes where nobody may.
    fs::set_permissions(file(&folder), fs::Permissions::from_mode(0o400)).unwrap();
    if fs::File::options().append(true).open(file(&folder)).is_err() {
        let store = open(&folder);
        store.opened().await;
        assert!(matches!(store.health().state, State::ReadOnly(_)), "{:?}", store.health());
        assert_eq!(ids(&store, Filter::default()).await, [late.trace_id]);
    }
}

#[tokio::test]
async fn files_are_for_their_owner_alone_and_links_are_refused() {
    let folder = folder();
    let store = open(&folder);
    put(&store, &[trace(0)]).await;
    let _running = store.begin(head(&trace(1))).outcome().await;
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!(mode(&folder.path().join("traces")), 0o700);
    let files: Vec<_> =
        fs::read_dir(folder.path().join("traces")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 5, "{files:?}");
    for path in &files {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
    drop(store);
    let elsewhere = folder.path().join("elsewhere");
    fs::write(&elsewhere, "precious").unwrap();
    fs::remove_file(file(&folder)).unwrap();
    symlink(&elsewhere, file(&folder)).unwrap();
    let store = open(&folder);
    store.opened().await;
    let state = store.health().state;
    assert!(matches!(&state, State::Failing(why) if why.contains("symbolic link")), "{state:?}");
    assert!(store.by_id(ExecutionId::mint()).await.is_err());
    drop(store);
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "precious");
}
