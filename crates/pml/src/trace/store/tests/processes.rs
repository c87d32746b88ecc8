//! Several processes on one folder, and processes that die.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
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

/// Begins and ends executions while the database is locked, until it is killed, if it is started by the test below; nothing otherwise.
#[test]
fn child_of_a_locked_database() {
    let Some(folder) = folder_of_child() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = SqliteStore::open(&folder, Options::default());
    for number in 0.. {
        let trace = trace(number);
        // What a server is told from here on.
        let waited = runtime.block_on(store.begin(head(&trace)).kept());
        writeln!(std::io::stdout(), "begun {waited:?} {}", trace.trace_id).unwrap();
        if number % 2 == 0 {
            // What a client is told from here on.
            let waited = runtime.block_on(store.submit(SanitizedTrace::new(trace.clone())).kept());
            writeln!(std::io::stdout(), "ended {waited:?} {}", trace.trace_id).unwrap();
        }
    }
}

#[tokio::test]
async fn what_the_database_has_not_taken_survives_kill_9() {
    let folder = folder();
    let store = open(&folder);
    put(&store, &[trace(0)]).await;
    drop(store);
    let locked = Connection::open(file(&folder)).unwrap();
    locked.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut child = child("child_of_a_locked_database", folder.path()).spawn().unwrap();
    let (mut begun, mut ended) = (Vec::new(), Vec::new());
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let Ok(line) = line else { break };
        let words: Vec<_> = line.split(' ').collect();
        let [what, waited, id] = words[..] else { continue };
        let Ok(id) = id.parse() else { continue };
        match what {
            "begun" => begun.push(id),
            "ended" => ended.push(id),
            _ => continue,
        }
        assert_eq!(waited, "Kept");
        if begun.len() == 100 {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    locked.execute_batch("COMMIT").unwrap();

    let store = open(&folder);
    store.opened().await;
    assert!(begun.len() >= 100 && ended.len() >= 49, "{} {}", begun.len(), ended.len());
    let mut interrupted = 0;
    for id in &begun {
        let found = store.by_id(*id).await.unwrap().unwrap_or_else(|| panic!("{id} is missing")).into_inner();
        assert!(found.intent.is_some());
        match found.metadata.interrupted {
            true => {
                assert!(!ended.contains(id), "{id} had ended");
                interrupted += 1;
            }
            false => assert_eq!((found.task_results.len(), found.code.is_some()), (2, true)),
        }
    }
    assert!(interrupted >= 49, "{interrupted}");
    assert!(journals(folder.path()).is_empty());
}

/// The journals in a data folder, with their contents.
fn journals(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("traces")).unwrap().map(|entry| entry.unwrap().path());
    let journals = entries.filter(|path| path.to_string_lossy().contains(".journal-"));
    journals.map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[tokio::test]
async fn a_journal_holds_what_the_database_has_not_taken_and_nothing_else() {
    let folder = folder();
    let store = SqliteStore::open(folder.path(), Options { queue: 3, ..Options::default() });
    put(&store, &[trace(0)]).await;
    let locked = Connection::open(file(&folder)).unwrap();
    locked.execute_batch("BEGIN IMMEDIATE").unwrap();
    let traces: Vec<_> = (1..10).map(trace).collect();
    for trace in &traces {
        // Also those that find no place in the queue.
        assert_eq!(store.begin(head(trace)).kept().await, Waited::Kept);
    }
    let [journal] = &journals(folder.path())[..] else { panic!("one journal") };
    assert!(traces.iter().all(|trace| journal.contains(&trace.trace_id.to_string())), "{journal}");
    // The trace of this one is dropped, since it is too large.
    let mut huge = traces[8].clone();
    huge.result = Some(RawValue::from_string(json!("z".repeat(20_000_000)).to_string()).unwrap());
    assert_eq!(store.submit(SanitizedTrace::new(huge)).kept().await, Waited::Dropped);
    locked.execute_batch("COMMIT").unwrap();
    // The heads that fill the queue are behind this one's place. The state may not have changed at all.
    while store.begin(head(&traces[0])).outcome().await.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Those that ran on get their traces, and then nothing is left.
    for trace in &traces[..8] {
        put(&store, std::slice::from_ref(trace)).await; // one by one: the queue is short
    }
    store.opened().await;
    assert_eq!(journals(folder.path()), [""]);
    assert!(store.running().await.unwrap().is_empty());
    let dropped = store.by_id(traces[8].trace_id).await.unwrap().unwrap().into_inner();
    assert!(dropped.error_message.unwrap().contains("could not be stored"));
    drop(store);
    assert!(journals(folder.path()).is_empty(), "the file goes with its process");
    let stats = open(&folder).stats(Filter::default()).await.unwrap();
    assert_eq!((stats.traces, stats.interrupted), (10, 1));
}

#[tokio::test]
async fn a_line_that_was_cut_off_harms_no_other_and_a_trace_counts_more_than_its_head() {
    let folder = folder();
    let store = open(&folder);
    let (ended, lost, unfiled) = (trace(0), trace(1), trace(2));
    put(&store, std::slice::from_ref(&ended)).await;
    let line = |trace: &Trace| json!({"org": "local", "project": "default", "head": head(trace).get()}).to_string();
    let whole = json!({"org": "local", "project": "default", "trace": unfiled});
    let lines = [line(&ended), "nonsense".to_owned(), line(&lost), whole.to_string(), line(&unfiled)].join("\n");
    let text = format!("{lines}\n{}", &line(&trace(3))[..60]);
    let journal = folder.path().join("traces/traces.journal-0000000000000007");
    crate::files::write(&journal, text.as_bytes(), crate::files::Sync::Later).unwrap();
    let other = open(&folder);
    other.opened().await;
    for trace in [&ended, &unfiled] {
        assert_eq!(value(other.by_id(trace.trace_id).await.unwrap().unwrap().trace()), value(trace));
    }
    assert!(other.by_id(lost.trace_id).await.unwrap().unwrap().trace().metadata.interrupted);
    assert_eq!(ids(&other, Filter::default()).await.len(), 3);
    assert!(!journal.exists());
}

#[tokio::test]
async fn whoever_opens_a_store_waits_for_what_other_processes_have_answered() {
    let folder = folder();
    let store = open(&folder);
    put(&store, &[trace(0)]).await;
    let locked = Connection::open(file(&folder)).unwrap();
    locked.execute_batch("BEGIN IMMEDIATE").unwrap();
    let answered = trace(1);
    assert_eq!(store.submit(SanitizedTrace::new(answered.clone())).kept().await, Waited::Kept);
    let other = open(&folder);
    let unlock = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        locked.execute_batch("COMMIT").unwrap();
    };
    tokio::join!(other.opened(), unlock);
    assert!(other.by_id(answered.trace_id).await.unwrap().is_some());
}
