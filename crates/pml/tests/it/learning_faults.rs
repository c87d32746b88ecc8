//! Learning when the store is locked, when the hub hangs, and when a process is killed while it learns.

use std::{
    fs,
    process::Stdio,
    time::{Duration, SystemTime},
};

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
};

use super::{
    learning::{BUDGET, model_file, parsed, succeeded, trace},
    peer::{Era, Home, PATIENCE, send_signal},
    trace_cli::put,
};

fn many_traces() -> Vec<Value> {
    let intent = |number: usize| format!("{BUDGET} {} of region {}", number % 37, number % 11);
    let tools = [["fix:big", "fix:object"], ["fix:echo", "fix:add"], ["fix:object", "fix:echo"]];
    (0..2500).map(|number| trace(&intent(number), &tools[number % 3])).collect()
}

fn traces(home: &Home) -> Value {
    parsed(&home.pml(&["learn", "status", "--json"]))["traces"].clone()
}

#[test]
fn a_rebuild_that_is_killed_is_done_again_and_gives_the_same_model() {
    let home = Home::with_fixture("");
    put(&home, &many_traces());
    succeeded(&home.pml(&["learn", "rebuild"]));
    assert_eq!(traces(&home), 2500);
    // Behind a hash, and a line that counts rebuilds.
    let model = || {
        let bytes = fs::read(model_file(&home)).unwrap();
        bytes.splitn(3, |byte| *byte == b'\n').nth(2).unwrap().to_vec()
    };
    let whole = model();
    let mut cut_off = 0;
    for pause_ms in [0, 150, 300, 450, 600, 900] {
        let mut command = home.command(env!("CARGO_BIN_EXE_pml")).into_std();
        command.args(["learn", "rebuild"]).stdout(Stdio::null()).stderr(Stdio::null());
        let orders = home.path().join(".local/share/pml/learning/orders.json");
        let before = fs::read(&orders).unwrap();
        let mut child = command.spawn().unwrap();
        let started = SystemTime::now();
        while fs::read(&orders).unwrap() == before && child.try_wait().unwrap().is_none() {
            assert!(started.elapsed().unwrap() < PATIENCE);
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(pause_ms));
        send_signal(child.id(), Signal::KILL);
        cut_off += u32::from(!child.wait().unwrap().success());
        assert_eq!(traces(&home), 2500, "killed after {pause_ms} ms");
        assert!(model() == whole, "killed after {pause_ms} ms: another model");
    }
    assert!(cut_off >= 3, "{cut_off} of 6 rebuilds were killed before they ended");
}

/// Somebody else holds the lock of the store: executions and searches go on, and what was stored is learned later.
#[tokio::test]
async fn a_locked_store_holds_up_learning_and_nobody_else() {
    let home = Home::with_fixture("");
    // On a thread of its own: it waits for the store.
    std::thread::scope(|scope| scope.spawn(|| put(&home, &many_traces()[..300])).join()).unwrap();
    let mut peer = home.connected(Era::Legacy).await;
    assert_eq!(peer.value("return 1").await, 1);
    let file = home.path().join(".local/share/pml/traces/traces.db");
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // No trace can be stored, and no priority be written. Each of these would wait for longer than all of them may take.
    let work = async {
        for round in 0..20 {
            let code = "await mcp.fix.echo({ text: 'a' }); await mcp.fix.object({}); return 2";
            let result = peer.call("execute_code", json!({ "code": code, "intent": BUDGET })).await;
            assert_eq!(result["structuredContent"]["result"], 2, "{round}: {result}");
            let found = peer.call("search_tools", json!({ "query": BUDGET })).await;
            assert!(found["structuredContent"]["tools"].is_array(), "{round}: {found}");
        }
    };
    tokio::time::timeout(PATIENCE, work).await.expect("nobody waits for the store");
    assert!(other.execute_batch("SELECT 1").is_ok(), "the lock was held all the time");
    other.execute_batch("ROLLBACK").unwrap();
    drop(other);
    peer.end().await;
    // Everything that was stored before and after is learned, once.
    let learned = traces(&home).as_u64().unwrap();
    assert!(learned >= 300 + 20, "{learned}");
    assert_eq!(traces(&home), learned);
}

/// The connection on which a hub that answers nothing is asked about learning.
async fn asked(hub: TcpListener) -> TcpStream {
    let mut others = Vec::new();
    loop {
        let (mut stream, _) = hub.accept().await.unwrap();
        let mut head = [0; 32];
        let read = stream.read(&mut head).await.unwrap();
        match String::from_utf8_lossy(&head[..read]).contains(" /api/model") {
            true => return stream,
            false => others.push(stream),
        }
    }
}

#[tokio::test]
async fn a_hub_that_hangs_does_not_hold_up_learning() {
    let hub = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = hub.local_addr().unwrap();
    let home = Home::with_fixture(&format!("[hub]\nurl = \"http://{address}\"\nkey = \"pmlhub_x\"\n"));
    std::thread::scope(|scope| scope.spawn(|| put(&home, &many_traces()[..300])).join()).unwrap();
    let mut peer = home.connected(Era::Legacy).await;
    peer.call("search_tools", json!({ "query": BUDGET })).await;
    let mut asked = tokio::time::timeout(PATIENCE, asked(hub)).await.expect("the hub is asked");
    let started = SystemTime::now();
    loop {
        let found = peer.call("search_tools", json!({ "query": BUDGET })).await;
        if found.to_string().contains("for requests like this") {
            break;
        }
        assert!(started.elapsed().unwrap() < PATIENCE, "{found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_millis(1), asked.read_to_end(&mut rest)).await;
    assert!(ended.is_err(), "what was learned waited for the hub: {ended:?}");
    peer.end().await;
}
