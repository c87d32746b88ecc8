//! A real hub in a process of its own, and traces to send to it.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, process::Stdio, sync::Mutex};

use pml_testkit::postgres::{Database, Postgres};
use pml_wire::ExecutionId;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Child,
    time::timeout,
};

use super::{
    cli::{stderr, stdout},
    peer::{Home, Http, PATIENCE, Response, send_signal},
};

/// A `pml hub`.
pub(crate) struct Hub {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Hub {
    /// Starts a hub with the data of a home, and waits until it listens.
    pub(crate) async fn start(home: &Home) -> Hub {
        use_engine(home);
        let mut command = home.command(env!("CARGO_BIN_EXE_pml"));
        command
            .args(["hub", "--http", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        // It may have something to say about its database first.
        let address = loop {
            let start = said.len();
            assert_ne!(timeout(PATIENCE, lines.read_line(&mut said)).await.unwrap().unwrap(), 0, "{said}");
            let address = said[start..].trim().strip_prefix("listening on http://");
            if let Some(address) = address.and_then(|address| address.parse().ok()) {
                break address;
            }
        };
        // Somebody has to read it, or pml would wait.
        tokio::spawn(async move { tokio::io::copy(&mut lines, &mut tokio::io::sink()).await });
        Hub { child, address }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub(crate) fn http(&self, key: &str, method: &str, path: &str) -> Http {
        Http::to(self.address, method, path).header("Authorization", &format!("Bearer {key}"))
    }

    pub(crate) async fn get(&self, key: &str, path: &str) -> Value {
        let response = self.http(key, "GET", path).send().await;
        assert_eq!(response.status, 200, "{path}");
        response.json().await
    }

    pub(crate) async fn post(&self, key: &str, path: &str, body: &Value) -> Response {
        self.http(key, "POST", path).with_body(body.to_string()).send().await
    }

    /// Delivers traces. The answer.
    pub(crate) async fn ingest(&self, key: &str, traces: &[Value]) -> Value {
        let response = self.post(key, "/api/traces", &json!({"traces": traces})).await;
        assert_eq!(response.status, 200);
        response.json().await
    }

    /// The ids of all traces that a key can see, in order.
    pub(crate) async fn ids(&self, key: &str) -> Vec<String> {
        let (mut ids, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.get(key, &format!("/api/traces?limit=100{cursor}")).await;
            ids.extend(
                page["traces"].as_array().unwrap().iter().map(|trace| trace["traceId"].as_str().unwrap().to_owned()),
            );
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        ids.sort();
        ids
    }

    pub(crate) async fn kill(mut self) {
        send_signal(self.pid(), Signal::KILL);
        timeout(PATIENCE, self.child.wait()).await.expect("it dies").unwrap();
    }

    /// Ends it, which takes no force.
    pub(crate) async fn end(self) {
        send_signal(self.pid(), Signal::TERM);
        self.ended().await;
    }

    /// Waits for its end, which it was asked for.
    pub(crate) async fn ended(mut self) {
        let status = timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap();
        assert!(status.success(), "{status}");
    }
}

/// With this variable, `postgres`, hubs keep their data in PostgreSQL: `scripts/test` runs the tests of hubs a second time so.
const ENGINE: &str = "PML_TEST_HUB_ENGINE";

pub(crate) fn is_on_postgres() -> bool {
    std::env::vars_os().any(|(name, value)| name == ENGINE && value == "postgres")
}

/// Has the hub of a home use the engine that the tests are run for, if its configuration does not say already.
pub(crate) fn use_engine(home: &Home) {
    static DATABASES: Mutex<BTreeMap<PathBuf, Database<'static>>> = Mutex::new(BTreeMap::new());
    if !is_on_postgres() {
        return;
    }
    let mut databases = DATABASES.lock().unwrap();
    let database = databases.entry(home.path().to_owned()).or_insert_with(|| Postgres::shared().database());
    let config = std::fs::read_to_string(home.config()).unwrap_or_default();
    if !config.contains(&database.url()) {
        home.configure(&format!("trace.database = '{}'\n{config}", database.url()));
    }
}

/// Makes a key of a hub.
pub(crate) fn key(home: &Home, name: &str, scope: &str, permissions: &str) -> String {
    use_engine(home);
    let (org, project) = scope.split_once('.').unwrap();
    let args = ["hub", "key", "add", name, "--org", org, "--project", project, "--scope", permissions, "--json"];
    let made = home.pml(&args);
    assert!(made.status.success(), "{}", stderr(&made));
    let made: Value = serde_json::from_str(&stdout(&made)).unwrap();
    made["key"].as_str().unwrap().to_owned()
}

pub(crate) fn now() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64
}

/// A trace of an execution that has just ended.
pub(crate) fn trace(intent: &str) -> Value {
    json!({
        "traceId": ExecutionId::mint(), "entry": "execute_code", "intent": intent, "caller": "agent", "success": true,
        "durationMs": 12.5, "timestamp": now(), "code": "return 1", "result": {"a": 1},
        "taskResults": [{"taskId": "t1", "callId": 1, "tool": "fs:read", "args": {"path": "a"}, "result": "x", "success": true,
                         "timestamp": now(), "durationMs": 3.0, "layerIndex": 1}],
        "metadata": {"pmlVersion": "0.1.0", "schemaVersion": 1},
    })
}
