//! Several processes on one folder, and processes that die.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pml_wire::trace::Trace;
use rusqlite::Connection;
use serde_json::{json, value::RawValue};

use super::{
    super::{Options, *},
    support::*,
};
use crate::trace::SanitizedTrace;

#[tokio::test]
async fn two_stores_share_a_folder() {
    let folder = folder();
    let (one, two) = (open(&folder), open(&folder));
    let traces: Vec<_> = (0..300).map(trace).collect();
    let (left, right) = traces.split_at(150);
    let write = async |store: &SqliteStore, traces: &[Trace]| {
        for trace in traces {
            let _ = store.begin(head(trace));
            assert_eq!(commit(store, trace).await, Some(Commit::Stored));
        }
    };
    tokio::join!(write(&one, left), write(&two, right));
    assert_eq!(ids(&one, Filter::default()).await.len(), 300);
    assert!(one.running().await.unwrap().is_empty());
    // A tool that one of them has forgotten is known by another number when it comes back.
    two.delete(Deletion::All).await.unwrap();
    let mut other = trace(1);
    other.task_results[0].tool = "new:tool".to_owned();
    put(&two, &[other]).await;
    put(&one, &[trace(2)]).await;
    let stats = one.stats(Filter::default()).await.unwrap();
    let tools: Vec<_> = stats.tools.iter().map(|tool| (tool.tool.as_str(), tool.calls)).collect();
    assert_eq!(tools, [("mail:send", 2), ("fs:read", 1), ("new:tool", 1)]);
}

#[tokio::test]
async fn an_execution_that_has_not_ended_is_running_or_interrupted() {
    let folder = folder();
    let (one, two) = (open(&folder), open(&folder));
    let (ended, lost) = (trace(0), trace(1));
    for trace in [&ended, &lost] {
        assert_eq!(one.begin(head(trace)).outcome().await, Some(Commit::Stored));
    }
    put(&one, std::slice::from_ref(&ended)).await;
    two.opened().await;
    let running: Vec<_> = two.running().await.unwrap().iter().map(|head| head.trace_id).collect();
    assert_eq!(running, [lost.trace_id], "a living process runs it");
    assert_eq!(ids(&two, Filter::default()).await, [ended.trace_id]);
    drop(one);
    let found = two.by_id(lost.trace_id).await.unwrap().unwrap().into_inner();
    assert!(found.metadata.interrupted && !found.success);
    assert_eq!((found.error_code.as_deref(), &found.intent), (Some("INTERRUPTED"), &lost.intent));
    assert_eq!(found.timestamp, lost.timestamp);
    assert!(two.running().await.unwrap().is_empty());
    // If its end becomes known after all, that counts.
    put(&two, std::slice::from_ref(&lost)).await;
    assert_eq!(value(two.by_id(lost.trace_id).await.unwrap().unwrap().trace()), value(&lost));
    assert_eq!(ids(&two, Filter::default()).await.len(), 2);
}

#[tokio::test]
async fn an_execution_whose_trace_is_dropped_does_not_run_for_ever() {
    let folder = folder();
    let store = open(&folder);
    let mut huge = trace(0);
    assert_eq!(store.begin(head(&huge)).outcome().await, Some(Commit::Stored));
    huge.result = Some(RawValue::from_string(json!("z".repeat(20_000_000)).to_string()).unwrap());
    assert_eq!(commit(&store, &huge).await, None);
    put(&store, &[trace(1)]).await;
    store.opened().await;
    assert!(store.running().await.unwrap().is_empty());
    let found = store.by_id(huge.trace_id).await.unwrap().unwrap().into_inner();
    assert!(found.metadata.interrupted && found.error_message.unwrap().contains("could not be stored"));
}

/// This test program again, in the role of one of the children here.
#[expect(clippy::disallowed_methods, reason = "starts this test program again, as another process")]
fn child(role: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("trace::store::tests::processes::{role}"), "--nocapture"]);
    command.env(FOLDER_OF_CHILD, folder).stdout(Stdio::piped());
    command
}

const FOLDER_OF_CHILD: &str = "PML_TEST_TRACES";

/// The folder that a child is to use; `None` where the child's role is run as a test.
fn folder_of_child() -> Option<PathBuf> {
    std::env::vars_os().find(|(name, _)| name == FOLDER_OF_CHILD).map(|(_, folder)| folder.into())
}

/// Opens the database and closes it again, if it is started by the test below; nothing otherwise.
#[test]
fn child_that_looks() {
    let Some(folder) = folder_of_child() else { return };
    let db = Connection::open(folder.join("traces/traces.db")).unwrap();
    let count: i64 = db.query_row("SELECT count(*) FROM trace", [], |row| row.get(0)).unwrap();
    writeln!(std::io::stdout(), "count {count}").unwrap();
}

/// SQLite removes the log with the last connection. It knows that it has the last one if it gets the exclusive lock of the
/// database, which every open connection keeps it from with a shared one. These are POSIX locks, which belong to the process:
/// closing any descriptor of the file gives all of them back (<https://sqlite.org/howtocorrupt.html>, 2.2), so the store opens its
/// database through SQLite alone (`Place::prepare`). SQLite 3.51 and later, as it is compiled in, notice the loss all the same: before
/// they take the exclusive lock they look for a lock of others on the `-shm` file (`unixIsSharingShmNode`). An older one in another
/// program removes the log.
#[tokio::test]
async fn a_process_that_comes_and_goes_does_not_take_the_log_along() {
    let folder = folder();
    let store = open(&folder);
    let log = folder.path().join("traces/traces.db-wal");
    for count in 1..4 {
        put(&store, &[trace(count)]).await;
        assert_eq!(ids(&store, Filter::default()).await.len() as u64, count);
        store.opened().await;
        let before = fs::metadata(&log).unwrap().ino();
        let output = child("child_that_looks", folder.path()).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains(&format!("count {count}")), "{said}");
        assert_eq!(fs::metadata(&log).map(|data| data.ino()).ok(), Some(before), "after {count}");
    }
    // The locks are lost, and this SQLite is not misled by it.
    let before = fs::metadata(&log).unwrap().ino();
    drop(fs::File::open(folder.path().join("traces/traces.db")).unwrap());
    child("child_that_looks", folder.path()).output().unwrap();
    assert_eq!(fs::metadata(&log).map(|data| data.ino()).ok(), Some(before));
    put(&store, &[trace(4)]).await;
    assert_eq!(ids(&store, Filter::default()).await.len(), 4);
}

/// Writes until it is killed, if it is started by the test below; nothing otherwise.
#[test]
fn child_that_is_killed() {
    let Some(folder) = folder_of_child() else { return };
    let store = SqliteStore::open(&folder, Options::default());
    let mut stdout = std::io::stdout();
    for number in 0.. {
        let trace = trace(number);
        let mut say = |what: &str| writeln!(stdout, "{what} {}", trace.trace_id).unwrap();
        assert_eq!(store.begin(head(&trace)).blocking_outcome(), Some(Commit::Stored));
        say("begun");
        if number % 3 > 0 {
            assert_eq!(store.submit(SanitizedTrace::new(trace.clone())).blocking_outcome(), Some(Commit::Stored));
            say("ended");
        }
    }
}

#[tokio::test]
async fn what_is_committed_survives_kill_9() {
    let folder = folder();
    let (mut begun, mut ended) = (Vec::new(), Vec::new());
    for round in 0..8 {
        let mut child = child("child_that_is_killed", folder.path()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Killed at another moment each time, and what it had said by then is read to the end.
        let mut heard = 0;
        for line in lines {
            let Ok(line) = line else { break };
            let mut words = line.split(' ');
            let (what, id) = (words.next().unwrap_or_default(), words.next().and_then(|id| id.parse().ok()));
            match (what, id) {
                ("begun", Some(id)) => begun.push(id),
                ("ended", Some(id)) => ended.push(id),
                _ => continue,
            }
            heard += 1;
            if heard == 20 + round * 17 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
    }
    assert!(begun.len() > 300, "{}", begun.len());
    let store = open(&folder);
    store.opened().await;
    for id in &begun {
        let found = store.by_id(*id).await.unwrap().unwrap_or_else(|| panic!("{id} is missing"));
        // The last word may not have been heard; what was heard must be so.
        if ended.contains(id) {
            assert!(!found.trace().metadata.interrupted, "{id} had ended");
        }
    }
    let interrupted = store.stats(Filter::default()).await.unwrap().interrupted;
    assert!(interrupted >= begun.len() as u64 / 3 - 8, "{interrupted} of {}", begun.len());
    assert!(store.running().await.unwrap().is_empty());
    drop(store);
    let left = fs::read_dir(folder.path().join("traces")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("owner")).collect();
    assert!(left.is_empty(), "{left:?}");
}
