//! Traces of real gateways arrive at a real hub once, whatever fails between them.

use std::{collections::BTreeSet, time::Duration};

use pml_testkit::meddler::{Meddler, Mood};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    cli::{stderr, stdout},
    hub::{Hub, key, trace},
    peer::{Era, Home, PATIENCE, Peer},
};

/// A gateway that delivers to this address soon and often.
pub(super) fn gateway(address: impl std::fmt::Display, key: &str, more: &str) -> Home {
    let home = Home::empty();
    configure(&home, address, key, more);
    home
}

fn configure(home: &Home, address: impl std::fmt::Display, key: &str, more: &str) {
    home.configure(&format!(
        "[hub]\nurl = \"http://{address}\"\nkey = \"{key}\"\nbatch = 3\ninterval_ms = 50\nmax_pause_ms = 100\n{more}"
    ));
}

/// The ids of what a gateway has stored, in order.
pub(super) fn stored(home: &Home) -> Vec<String> {
    let exported = home.pml(&["trace", "export"]);
    assert!(exported.status.success(), "{}", stderr(&exported));
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["traceId"].as_str().unwrap().to_owned();
    let mut ids: Vec<_> = stdout(&exported).lines().map(id).collect();
    ids.sort();
    ids
}

pub(super) fn status(home: &Home) -> Value {
    let status = home.pml(&["trace", "sync", "--status", "--json"]);
    assert!(status.status.success(), "{}", stderr(&status));
    serde_json::from_str(&stdout(&status)).unwrap()
}

pub(super) async fn run(peer: &mut Peer, count: usize) {
    for number in 0..count {
        assert_eq!(peer.value(&format!("return {number}")).await, number);
    }
}

/// Waits until the hub has exactly these traces.
async fn arrived(hub: &Hub, key: &str, ids: &[String]) {
    let mut found = Vec::new();
    for _ in 0..PATIENCE.as_millis() / 50 {
        found = hub.ids(key).await;
        if found == ids {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{} of {}", found.len(), ids.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_hub_does_every_trace_arrives_once() {
    let team = Home::new("");
    let hub = Hub::start(&team).await;
    let all = key(&team, "all", "acme.web", "ingest,read");
    let meddler = Meddler::start(hub.address).await.unwrap();
    let garbage = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\n{\"a\": 1";
    let nothing = "HTTP/1.1 200 OK\r\nContent-Length: 62\r\nConnection: close\r\n\r\n{\"received\":0,\"stored\":0,\"duplicates\":0,\"acknowledged\":[]    }  ";
    let elsewhere = format!("Location: http://{}/api/traces\r\n", hub.address);
    meddler.next([
        Mood::status(429, "Retry-After: 0\r\n"),
        Mood::DropReply,
        Mood::status(500, ""),
        Mood::Refuse,
        Mood::Answer(garbage.to_owned()),
        Mood::Answer(nothing.to_owned()),
        Mood::Answer("no HTTP at all".to_owned()),
        Mood::status(307, &elsewhere),
        Mood::status(404, ""),
        Mood::DropReply,
        Mood::Pass,
        Mood::DropReply,
    ]);
    let home = gateway(meddler.address, &all, "");
    let mut peer = home.connected(Era::Modern).await;
    run(&mut peer, 10).await;
    let ids = stored(&home);
    assert_eq!(ids.len(), 10);
    arrived(&hub, &all, &ids).await;
    for _ in 0..PATIENCE.as_millis() / 50 {
        if status(&home)["unsent"] == 0 && meddler.waiting() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let status = status(&home);
    assert_eq!((&status["unsent"], &status["dead"], &status["dropped"]), (&json!(0), &json!(0), &json!(0)), "{status}");
    peer.end().await;
    assert_eq!(hub.ids(&all).await, ids);
    hub.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_and_the_hub_are_killed_and_nothing_is_lost_or_doubled() {
    let team = Home::new("");
    let mut hub = Hub::start(&team).await;
    let all = key(&team, "all", "acme.web", "ingest,read");
    let meddler = Meddler::start(hub.address).await.unwrap();
    let home = gateway(meddler.address, &all, "");
    for round in 0..4 {
        let mut peer = home.connected(Era::Modern).await;
        let before = stored(&home).len();
        run(&mut peer, 1).await;
        // What keeps traces is made with the first of them, which its answer does not wait for.
        while stored(&home).len() == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        run(&mut peer, 3).await;
        match round {
            0 => {}
            1 => {
                // The hub commits, its answer never arrives, and it dies.
                meddler.usually(Mood::DropReply);
                let before = meddler.replies();
                run(&mut peer, 2).await;
                while meddler.replies() == before {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                hub.kill().await;
                run(&mut peer, 2).await;
                hub = Hub::start(&team).await;
                meddler.lead_to(hub.address);
                meddler.usually(Mood::Pass);
            }
            2 => {
                hub.kill().await;
                run(&mut peer, 2).await;
                hub = Hub::start(&team).await;
                meddler.lead_to(hub.address);
            }
            _ => meddler.usually(Mood::Hang),
        }
        peer.signal(Signal::KILL);
        let _ = peer.wait_unread().await;
    }
    meddler.usually(Mood::Pass);
    let ids = stored(&home);
    assert_eq!(ids.len(), 22, "an answered execution has its trace");
    let peer = home.connected(Era::Modern).await;
    arrived(&hub, &all, &ids).await;
    peer.end().await;
    assert_eq!(status(&home)["unsent"], 0);
    hub.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_gateways_at_once() {
    let team = Home::new("");
    let hub = Hub::start(&team).await;
    let all = key(&team, "all", "acme.web", "ingest,read");
    let gateways: Vec<_> = (0..10).map(|_| gateway(hub.address, &all, "")).collect();
    let work = gateways.iter().map(async |home| {
        let mut peer = home.connected(Era::Modern).await;
        run(&mut peer, 5).await;
        peer.end().await;
        stored(home)
    });
    let ids = futures_util::future::join_all(work).await;
    let mut ids: Vec<_> = ids.into_iter().flatten().collect();
    ids.sort();
    assert_eq!(ids.len(), 50);
    // What did not arrive before a gateway had to end is delivered by the next command.
    for home in &gateways {
        let sync = home.pml(&["trace", "sync", "--now"]);
        assert!(sync.status.success(), "{}", stderr(&sync));
        assert_eq!(status(home)["unsent"], 0);
    }
    assert_eq!(hub.ids(&all).await, ids);
    hub.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_is_sent_at_the_end_and_several_processes_send_it_once() {
    let team = Home::new("");
    let hub = Hub::start(&team).await;
    let all = key(&team, "all", "acme.web", "ingest,read");
    let meddler = Meddler::start(hub.address).await.unwrap();
    let home = Home::new(&format!(
        "[learning]\nenabled = false\n[hub]\nurl = \"http://{}\"\nkey = \"{all}\"\nbatch = 50\ninterval_ms = 3600000",
        meddler.address
    ));
    let (mut one, mut two) = (home.connected(Era::Modern).await, home.connected(Era::Legacy).await);
    // What an earlier process has left is looked for soon after the start; here there is nothing.
    tokio::join!(run(&mut one, 3), run(&mut two, 3));
    one.end().await;
    two.end().await;
    let ids = stored(&home);
    assert_eq!((ids.len(), hub.ids(&all).await), (6, ids.clone()));
    assert!(meddler.requests() <= 6, "{}", meddler.requests());
    hub.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_refused_stops_the_delivery_and_loses_nothing() {
    let team = Home::new("");
    let hub = Hub::start(&team).await;
    let all = key(&team, "all", "acme.web", "ingest,read");
    let meddler = Meddler::start(hub.address).await.unwrap();
    let home = gateway(meddler.address, "pmlhub_wrong", "");
    let log = std::fs::File::create(home.path().join("log")).unwrap();
    let mut peer = home.stdio_logged(Era::Modern, &[], log);
    run(&mut peer, 2).await;
    while status(&home)["failures"] == json!([]) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let requests = meddler.requests();
    run(&mut peer, 4).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(meddler.requests(), requests, "it has stopped");
    peer.end().await;
    let said = std::fs::read_to_string(home.path().join("log")).unwrap();
    assert!(said.contains("does not let this pml in") && said.contains("401"), "{said}");
    let sync = home.pml(&["trace", "sync"]);
    assert!(!sync.status.success() && stderr(&sync).contains("HUB_REFUSED"), "{}", stderr(&sync));
    let waiting = status(&home);
    assert_eq!(waiting["unsent"], 6);
    assert!(waiting["failures"][0]["reason"].as_str().unwrap().contains("401"), "{waiting}");
    configure(&home, meddler.address, &all, "");
    let sync = home.pml(&["trace", "sync", "--now", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&stdout(&sync)).unwrap()["sent"], 6, "{}", stderr(&sync));
    assert_eq!(hub.ids(&all).await, stored(&home));
    hub.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_hub_refuses_is_set_aside_with_its_reason_and_can_be_tried_again() {
    let team = Home::new("");
    let hub = Hub::start(&team).await;
    let all = key(&team, "all", "acme.web", "admin");
    let home = Home::new("");
    let mut peer = home.connected(Era::Modern).await;
    run(&mut peer, 3).await;
    peer.end().await;
    let ids = stored(&home);
    // The hub has another trace of one of the ids.
    let mut other = trace("another");
    other["traceId"] = json!(ids[1]);
    hub.ingest(&all, &[other]).await;
    configure(&home, hub.address, &all, "");
    let sync = |args: &[&str]| {
        let done = home.pml(&[&["trace", "sync", "--json"], args].concat());
        assert!(done.status.success(), "{}", stderr(&done));
        serde_json::from_str::<Value>(&stdout(&done)).unwrap()
    };
    assert_eq!(sync(&["--now"]), json!({"sent": 2, "refused": 1, "retried": 0}));
    let left = status(&home);
    assert_eq!((&left["dead"], &left["unsent"]), (&json!(1), &json!(0)));
    assert!(left["refusals"][0]["reason"].as_str().unwrap().contains("CONFLICT"), "{left}");
    assert_eq!(sync(&["--now"])["sent"], 0, "it is not tried again by itself");
    assert_eq!(hub.http(&all, "DELETE", &format!("/api/traces/{}", ids[1])).send().await.status, 200);
    assert_eq!(sync(&["--retry-dead"]), json!({"sent": 1, "refused": 0, "retried": 1}));
    assert_eq!(hub.ids(&all).await, ids);
    hub.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_hub_has_lost_is_delivered_again() {
    let team = Home::new("");
    let hub = Hub::start(&team).await;
    let all = key(&team, "all", "acme.web", "ingest,read,admin");
    let home = gateway(hub.address, &all, "");
    let mut peer = home.connected(Era::Modern).await;
    run(&mut peer, 4).await;
    peer.end().await;
    let ids = stored(&home);
    assert_eq!(hub.ids(&all).await, ids);
    // As after a backup of an earlier moment was restored.
    for id in &ids[2..] {
        assert_eq!(hub.http(&all, "DELETE", &format!("/api/traces/{id}")).send().await.status, 200);
    }
    let sync = |args: &[&str]| {
        let done = home.pml(&[&["trace", "sync", "--json"], args].concat());
        assert!(done.status.success(), "{}", stderr(&done));
        serde_json::from_str::<Value>(&stdout(&done)).unwrap()
    };
    assert_eq!(sync(&[])["sent"], 0, "it was acknowledged");
    assert_eq!(sync(&["--again-since", "1d"]), json!({"sent": 4, "refused": 0, "retried": 4}));
    assert_eq!(hub.ids(&all).await, ids);
    assert_eq!(sync(&["--again-since", "now"])["sent"], 0);
    hub.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_much_at_once_is_sent_in_parts() {
    let team = Home::new("");
    let hub = Hub::start(&team).await;
    let all = key(&team, "all", "acme.web", "ingest,read");
    let meddler = Meddler::start(hub.address).await.unwrap();
    let home = Home::new("");
    let mut peer = home.connected(Era::Modern).await;
    run(&mut peer, 4).await;
    peer.end().await;
    home.configure(&format!("[hub]\nurl = \"http://{}\"\nkey = \"{all}\"\nbatch = 10", meddler.address));
    // Four are too many, and so are two.
    meddler.next([Mood::status(413, ""), Mood::status(413, "")]);
    let sync = home.pml(&["trace", "sync"]);
    assert!(stdout(&sync).contains("4 traces delivered"), "{}{}", stdout(&sync), stderr(&sync));
    assert_eq!((hub.ids(&all).await, meddler.requests()), (stored(&home), 5));
    hub.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_hub_nothing_is_sent_and_each_trace_is_logged() {
    let home = Home::new("");
    let log = std::fs::File::create(home.path().join("log")).unwrap();
    let mut peer = home.stdio_logged(Era::Modern, &["--log", "debug"], log);
    run(&mut peer, 2).await;
    let pid = peer.pid();
    let sockets = open_sockets(pid);
    peer.end().await;
    assert_eq!(sockets, BTreeSet::new(), "a connection of a pml that has nobody to talk to");
    let said = std::fs::read_to_string(home.path().join("log")).unwrap();
    let lines: Vec<_> = said.lines().filter(|line| line.contains("no hub is configured")).collect();
    assert_eq!(lines.len(), 2, "{said}");
    for id in stored(&home) {
        assert!(lines.iter().any(|line| line.contains(&id)), "{id}: {lines:?}");
    }
    assert_eq!(status(&home)["hub"], Value::Null);
    let sync = home.pml(&["trace", "sync"]);
    assert!(!sync.status.success() && stderr(&sync).contains("no hub is configured"), "{}", stderr(&sync));
}

/// The TCP connections of a process.
fn open_sockets(pid: u32) -> BTreeSet<String> {
    let own: BTreeSet<_> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()?.to_str().map(str::to_owned))
        .filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let tables =
        ["tcp", "tcp6"].map(|name| std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default());
    let inode = |line: &str| line.split_whitespace().nth(9).map(str::to_owned);
    tables
        .iter()
        .flat_map(|table| table.lines().skip(1).filter_map(inode))
        .filter(|inode| own.contains(inode))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_go_on_while_the_hub_hangs_and_pml_ends_in_time() {
    let team = Home::new("");
    let hub = Hub::start(&team).await;
    let all = key(&team, "all", "acme.web", "ingest,read");
    let meddler = Meddler::start(hub.address).await.unwrap();
    meddler.usually(Mood::Hang);
    let home = gateway(meddler.address, &all, "");
    let mut peer = home.connected(Era::Modern).await;
    run(&mut peer, 5).await;
    while meddler.requests() == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    run(&mut peer, 1).await;
    // Ends, although the hub never answers.
    peer.end().await;
    assert_eq!(status(&home)["unsent"], 6);
    meddler.usually(Mood::Pass);
    assert!(home.pml(&["trace", "sync"]).status.success());
    assert_eq!(hub.ids(&all).await, stored(&home));
    hub.end().await;
}
