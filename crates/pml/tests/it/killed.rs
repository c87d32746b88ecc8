//! pml is killed at any moment while clients run programs: what servers saw of an execution can be found afterwards.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use pml_testkit::fixture_path;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    cli::stdout,
    peer::{Era, Home, LEGACY, Peer, initialize},
};

const ROUNDS: u64 = 8;
/// pml processes at the same time, all on one data folder.
const CLIENTS: u64 = 3;

/// Runs programs until it is killed, several at a time.
async fn work(mut peer: Peer, number: u64, until: Duration) {
    peer.request("initialize", initialize(LEGACY[0])).await;
    let code = |n: u64| {
        let calls = "await Promise.all([mcp.fix.echo({ text: 'a' }), mcp.fix.sleep({ ms: 3 })]);";
        json!({"code": format!("{calls} return await mcp.fix.echo({{ text: '{number}-{n}' }})")})
    };
    let asking = async {
        for n in 0.. {
            peer.ask("tools/call", json!({"name": "execute_code", "arguments": code(n)})).await;
            // A few run at the same time.
            if n >= 4 {
                while peer.next().await.is_some_and(|message| message.get("result").is_none()) {}
            }
        }
    };
    tokio::select! {
        () = asking => {}
        () = tokio::time::sleep(until) => {}
    }
    peer.signal(Signal::KILL);
    peer.wait_unread().await;
}

/// The executions that the server has seen a call of, each without dashes.
fn seen(file: &std::path::Path) -> BTreeSet<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|line| Some(line["traceparent"].as_str()?.split('-').nth(1)?.to_owned())).collect()
}

#[tokio::test]
async fn every_execution_that_a_server_saw_is_there_after_kill_9_under_load() {
    let home = Home::empty();
    let calls = home.path().join("calls");
    home.configure(&format!("[servers.fix]\ncommand = {:?}\nargs = [\"--calls\", {calls:?}]\n", fixture_path()));
    // Moments that are not chosen, and the same in each run of the test.
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..10 * ROUNDS {
        // On a busy machine a pml may be killed before a server hears of anything; then there are more rounds.
        if round >= ROUNDS && seen(&calls).len() as u64 > ROUNDS * CLIENTS {
            break;
        }
        let working: Vec<_> = (0..CLIENTS)
            .map(|number| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let until = Duration::from_millis(150 + (random >> 33) % 350);
                work(home.stdio(Era::Legacy), number, until)
            })
            .collect();
        futures_util::future::join_all(working).await;
    }
    // What the servers had read they write down, and end with their pml.
    let mut count = 0;
    while seen(&calls).len() != std::mem::replace(&mut count, seen(&calls).len()) {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }

    let seen = seen(&calls);
    assert!(seen.len() as u64 > ROUNDS * CLIENTS, "{}", seen.len());
    let listed = stdout(&home.pml(&["trace", "list", "--limit", "100000", "--json"]));
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let traces: BTreeMap<String, &Value> = listed["traces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trace| (trace["traceId"].as_str().unwrap().replace('-', ""), trace))
        .collect();
    assert_eq!(listed["running"], json!([]), "whoever is dead runs nothing");
    let missing: Vec<_> = seen.iter().filter(|id| !traces.contains_key(*id)).collect();
    assert!(missing.is_empty(), "{} of {} are missing: {missing:?}", missing.len(), seen.len());
    let is_settled = |trace: &&&Value| trace["success"] == true || trace["interrupted"] == true;
    let odd: Vec<_> = seen.iter().map(|id| &traces[id]).filter(|trace| !is_settled(trace)).collect();
    assert!(odd.is_empty(), "neither finished nor interrupted: {odd:?}");
    assert!(seen.iter().any(|id| traces[id]["interrupted"] == true), "none was cut off: the test kills too late");

    // Joined with the audit log: a server hears of no call that has no line, and an execution whose calls have all ended in the
    // log either has its trace, or was cut off before its answer.
    let lines = home.audit_lines();
    let ids = |event: &str| -> BTreeSet<String> {
        let lines = lines.iter().filter(|line| line["event"] == event);
        lines.map(|line| line["execution_id"].as_str().unwrap().replace('-', "")).collect()
    };
    let started = ids("call.started");
    assert!(seen.is_subset(&started), "a call reached the server before its line was written");
    let unknown: Vec<_> = started.iter().filter(|id| !traces.contains_key(*id)).collect();
    assert!(unknown.is_empty(), "calls were written down of executions without a trace: {unknown:?}");
    for (id, trace) in &traces {
        if trace["success"] == true {
            assert!(ids("call.ended").contains(id), "finished without the end of a call: {trace}");
        }
    }
}
