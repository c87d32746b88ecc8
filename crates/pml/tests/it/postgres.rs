//! Real hubs and gateways on a real PostgreSQL server, which is killed meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use pml_testkit::{
    meddler::Meddler,
    postgres::{Database, Durability, Postgres},
};
use pml_wire::ExecutionId;
use serde_json::{Value, json};

use super::{
    cli::{stderr, stdout},
    hub_delivery,
    peer::{Era, Home},
};

/// Only separates "it comes" from "it never does".
const PATIENCE: Duration = Duration::from_secs(60);

/// `pml hub` on a database. Killed when dropped.
struct Hub {
    child: Child,
    address: String,
}

impl Hub {
    fn start(home: &Home, url: &str) -> Hub {
        let mut command = home.command(env!("CARGO_BIN_EXE_pml")).into_std();
        command.args(["hub", "--http", "127.0.0.1:0", "--database", "${PML_DATABASE}"]).env("PML_DATABASE", url);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let listening = |line: &str| line.split("http://").nth(1).map(str::to_owned);
        let address = lines.find_map(|line| listening(&line.unwrap())).expect("the hub listens");
        // What it says later is read, so that it can say it.
        thread::spawn(move || lines.for_each(drop));
        Hub { child, address }
    }

    /// A request and its response; `None` if there is none.
    fn ask(&self, method: &str, path: &str, key: &str, body: &str) -> Option<(u16, Value)> {
        ask(&self.address, method, path, key, body)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(address: &str, method: &str, path: &str, key: &str, body: &str) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        true => body.lines().filter(|line| line.starts_with('{')).collect::<String>(),
        false => body.to_owned(),
    };
    Some((status, serde_json::from_str(&body).unwrap_or(Value::Null)))
}

fn key(home: &Home, url: &str, org: &str, project: &str) -> String {
    let add = [
        "hub",
        "key",
        "add",
        "ci",
        "--org",
        org,
        "--project",
        project,
        "--scope",
        "admin",
        "--database",
        url,
        "--json",
    ];
    let output = home.pml(&add);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_str::<Value>(&stdout(&output)).unwrap()["key"].as_str().unwrap().to_owned()
}

fn trace(number: usize) -> Value {
    json!({
        "traceId": ExecutionId::mint(), "entry": "execute_code", "intent": format!("number {number}"), "caller": "agent",
        "success": true, "durationMs": 1.5, "timestamp": 1_790_000_000_000_u64 + number as u64, "code": "return 1",
        "taskResults": [{"taskId": "t1", "callId": 1, "tool": "fs:read", "success": true, "durationMs": 1.0,
                         "timestamp": 1_790_000_000_000_u64, "layerIndex": 1}],
        "metadata": {"pmlVersion": "0.1.0", "schemaVersion": 1},
    })
}

fn count(database: &Database<'_>, sql: &str) -> usize {
    database.execute(sql)[0][0].as_ref().unwrap().parse().unwrap()
}

#[test]
fn two_hubs_take_the_same_traces_while_one_and_the_database_are_killed() {
    const BATCHES: usize = 40;
    let home = Home::new("");
    let server = Postgres::start(Durability::Unsynced);
    let database = server.database();
    let url = database.url();
    let key = key(&home, &url, "acme", "web");
    let hubs = Mutex::new([Hub::start(&home, &url), Hub::start(&home, &url)]);
    let batches: Vec<Vec<Value>> =
        (0..BATCHES).map(|batch| (0..20).map(|number| trace(batch * 20 + number)).collect()).collect();
    let delivered = AtomicUsize::new(0);
    let deliver = |which: usize, backwards: bool| {
        for at in 0..BATCHES {
            let batch = &batches[if backwards { BATCHES - 1 - at } else { at }];
            let body = json!({"traces": batch}).to_string();
            let ids: BTreeSet<_> = batch.iter().map(|trace| trace["traceId"].as_str().unwrap()).collect();
            // As a gateway does: again, until every trace is acknowledged.
            loop {
                let address = hubs.lock().unwrap()[which].address.clone();
                match ask(&address, "POST", "/api/traces", &key, &body) {
                    Some((200, reply)) => {
                        let acknowledged: BTreeSet<_> =
                            reply["acknowledged"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
                        assert_eq!(acknowledged, ids, "{reply}");
                        break;
                    }
                    Some((500..600, _)) | None => thread::sleep(Duration::from_millis(30)),
                    other => panic!("{other:?}"),
                }
            }
            delivered.fetch_add(1, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        let workers = [scope.spawn(|| deliver(0, false)), scope.spawn(|| deliver(1, true))];
        for round in 0..4 {
            while delivered.load(Ordering::Relaxed) < (round + 1) * 12 && workers.iter().any(|it| !it.is_finished()) {
                thread::sleep(Duration::from_millis(5));
            }
            match round {
                1 => hubs.lock().unwrap()[0] = Hub::start(&home, &url),
                _ => server.restart(),
            }
        }
        for worker in workers {
            worker.join().unwrap();
        }
    });
    assert_eq!(count(&database, "SELECT count(*) FROM pml.trace"), BATCHES * 20);
    assert_eq!(count(&database, "SELECT count(*) FROM pml.code"), 1);
    let hubs = hubs.lock().unwrap();
    let wanted = &batches[7][3];
    let path = format!("/api/traces/{}", wanted["traceId"].as_str().unwrap());
    let (status, found) = hubs[1].ask("GET", &path, &key, "").unwrap();
    assert_eq!((status, found.to_string().contains("number 143")), (200, true), "{found}");
    let (status, listed) = hubs[0].ask("GET", "/api/traces?limit=5", &key, "").unwrap();
    assert_eq!((status, listed["traces"].as_array().unwrap().len()), (200, 5), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_gateways_deliver_once_while_the_database_restarts_and_the_hub_is_killed() {
    let team = Home::new("");
    let server = Postgres::start(Durability::Unsynced);
    let database = server.database();
    let url = database.url();
    let key = key(&team, &url, "acme", "web");
    let mut hub = Hub::start(&team, &url);
    let meddler = Meddler::start(hub.address.parse().unwrap()).await.unwrap();
    let gateways: Vec<_> = (0..10).map(|_| hub_delivery::gateway(meddler.address, &key, "")).collect();
    let troubles = AtomicUsize::new(0);
    let work = futures_util::future::join_all(gateways.iter().map(async |home| {
        let mut peer = home.connected(Era::Modern).await;
        // Executions go on until everything has gone wrong once.
        let mut runs = 0;
        while runs < 12 || troubles.load(Ordering::SeqCst) < 4 {
            hub_delivery::run(&mut peer, 3).await;
            runs += 3;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        peer.end().await;
        runs
    }));
    let trouble = async {
        for round in 0..4 {
            let before = meddler.requests();
            while meddler.requests() < before + 5 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            match round % 2 {
                0 => tokio::task::block_in_place(|| server.restart()),
                _ => {
                    hub = tokio::task::block_in_place(|| Hub::start(&team, &url));
                    meddler.lead_to(hub.address.parse().unwrap());
                }
            }
            troubles.fetch_add(1, Ordering::SeqCst);
        }
    };
    let (runs, ()) = tokio::join!(work, trouble);
    let total: usize = runs.into_iter().sum();
    let mut ids = BTreeSet::new();
    for home in &gateways {
        // What did not arrive before a gateway had to end is delivered by the next command.
        let sync = home.pml(&["trace", "sync", "--now"]);
        assert!(sync.status.success(), "{}", stderr(&sync));
        let left = hub_delivery::status(home);
        assert_eq!((&left["unsent"], &left["dead"], &left["dropped"]), (&json!(0), &json!(0), &json!(0)), "{left}");
        ids.extend(hub_delivery::stored(home));
    }
    assert_eq!(ids.len(), total);
    let found = database.execute("SELECT id::text FROM pml.trace");
    assert_eq!(found.len(), total, "none is there twice");
    let found: BTreeSet<_> = found.into_iter().map(|row| row[0].clone().unwrap()).collect();
    assert_eq!(found, ids);
}

#[test]
fn a_key_of_one_project_opens_nothing_of_another() {
    let home = Home::new("");
    let database = Postgres::shared().database();
    let url = database.url();
    let keys: BTreeMap<_, _> = [("acme", "web"), ("acme", "app"), ("evil", "web")]
        .map(|(org, project)| (format!("{org}.{project}"), key(&home, &url, org, project)))
        .into();
    let hub = Hub::start(&home, &url);
    let mine = trace(0);
    let body = json!({"traces": [mine]}).to_string();
    assert_eq!(hub.ask("POST", "/api/traces", &keys["acme.web"], &body).unwrap().0, 200);
    let path = format!("/api/traces/{}", mine["traceId"].as_str().unwrap());
    for (scope, key) in &keys {
        let expected = if scope == "acme.web" { 200 } else { 404 };
        assert_eq!(hub.ask("GET", &path, key, "").unwrap().0, expected, "{scope}");
        let (_, listed) = hub.ask("GET", "/api/traces", key, "").unwrap();
        assert_eq!(listed["traces"].as_array().unwrap().len(), usize::from(scope == "acme.web"), "{scope}");
        // The same id in another project is another trace.
        let reply = hub.ask("POST", "/api/traces", key, &body).unwrap().1;
        let stored = u64::from(scope != "acme.web");
        assert_eq!((&reply["stored"], &reply["duplicates"]), (&json!(stored), &json!(1 - stored)), "{scope}: {reply}");
        database.execute(
            "DELETE FROM pml.trace WHERE tenant <> (SELECT id FROM pml.tenant WHERE org = 'acme' AND project = 'web')",
        );
    }
    assert_eq!(hub.ask("GET", &path, "wrong", "").unwrap().0, 401);
    // A key that is revoked by another process opens nothing.
    let revoked = home.pml(&["hub", "key", "revoke", "ci", "--org", "acme", "--project", "web", "--database", &url]);
    assert!(revoked.status.success(), "{}", stderr(&revoked));
    let is_closed = || hub.ask("GET", &path, &keys["acme.web"], "").unwrap().0 == 401;
    assert!((0..600).any(|_| is_closed() || (thread::sleep(Duration::from_millis(100)), false).1));
}

#[test]
fn a_gateway_keeps_its_traces_in_the_database_and_nobody_sees_the_password() {
    let database = Postgres::shared().database();
    database.execute(&format!(
        "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'gateway') THEN CREATE ROLE gateway LOGIN; END IF; END $$;
         ALTER ROLE gateway PASSWORD 'hunter2hunter2'; GRANT CREATE ON DATABASE {} TO gateway",
        database.name
    ));
    // `SECRET_TOKEN` is set for every command of these tests.
    let url = database.url_with_password("127.0.0.1", "gateway", "PASSWORD").replace("PASSWORD", "${SECRET_TOKEN}");
    let home = Home::new(&format!("[trace]\ndatabase = '{url}'\n"));
    for number in 0..3 {
        let output = home.pml(&["run", "-e", &format!("return {number}"), "--intent", &format!("run {number}")]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let listed: Value = serde_json::from_str(&stdout(&home.pml(&["trace", "list", "--json"]))).unwrap();
    let intents: Vec<_> = listed["traces"].as_array().unwrap().iter().map(|trace| trace["intent"].clone()).collect();
    assert_eq!(intents, ["run 2", "run 1", "run 0"]);
    assert_eq!(count(&database, "SELECT count(*) FROM pml.trace WHERE NOT interrupted"), 3);
    assert!(!home.path().join(".local/share/pml/traces/traces.db").exists());
    let shown = home.pml(&["trace", "show", "last"]);
    assert!(stdout(&shown).contains("run 2"), "{}", stdout(&shown));
    let (stats, doctor) = (home.pml(&["trace", "stats"]), home.pml(&["doctor", "--json"]));
    assert!(stdout(&stats).contains("3 traces") && stdout(&stats).contains("postgres://gateway@127.0.0.1"));
    database.execute("ALTER ROLE gateway PASSWORD 'another'");
    let refused = home.pml(&["trace", "list"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("password authentication failed"), "{}", stderr(&refused));
    let ran = home.pml(&["run", "-e", "return 5"]);
    assert_eq!((ran.status.success(), stdout(&ran).trim()), (true, "5"), "programs run without a database, too");
    for output in [&stats, &doctor, &refused, &ran] {
        assert!(!format!("{}{}", stdout(output), stderr(output)).contains("hunter2"), "{}", stderr(output));
    }
}

#[test]
fn who_follows_sees_what_another_process_stores() {
    let database = Postgres::shared().database();
    let home = Home::new(&format!("[trace]\ndatabase = '{}'\n", database.url()));
    assert!(home.pml(&["run", "-e", "return 1", "--intent", "first"]).status.success());
    let mut command = home.command(env!("CARGO_BIN_EXE_pml")).into_std();
    let mut follower = command.args(["trace", "list", "--follow", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap()["intent"].clone();
    assert_eq!(next(), "first");
    for intent in ["second", "third"] {
        assert!(home.pml(&["run", "-e", "return 1", "--intent", intent]).status.success());
        assert_eq!(next(), intent);
    }
    follower.kill().unwrap();
    follower.wait().unwrap();
}
