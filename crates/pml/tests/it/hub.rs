//! A real hub in a process of its own, and traces to send to it.

use std::{net::SocketAddr, process::Stdio};

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
        let mut command = home.command(env!("CARGO_BIN_EXE_pml"));
        command
            .args(["hub", "--http", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        timeout(PATIENCE, lines.read_line(&mut line)).await.unwrap().unwrap();
        let address = line.trim().strip_prefix("listening on http://").and_then(|address| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("{line}"));
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

/// Makes a key of a hub.
pub(crate) fn key(home: &Home, name: &str, scope: &str, permissions: &str) -> String {
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
