//! How the trace store is, as `/healthz`, `/metrics` and `pml doctor traces` show it.

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{
    cli::stdout,
    peer::{Era, Home, Server, eventually},
};

async fn health(server: &Server) -> Value {
    // Without the token: whoever watches a process has none.
    let response = server.http("GET", "/healthz").instead("Authorization", None).send().await;
    assert_eq!(response.status, 200, "a store that is not well keeps nobody from being served");
    response.json().await
}

fn doctor(home: &Home) -> Value {
    let report: Value = serde_json::from_str(&stdout(&home.pml(&["doctor", "traces", "--json"]))).unwrap();
    report["traces"].clone()
}

async fn becomes(server: &Server, state: &str) {
    let waiting = async {
        while health(server).await["traces"] != state {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let waited = tokio::time::timeout(super::peer::PATIENCE, waiting).await;
    assert!(waited.is_ok(), "{state}: {}", health(server).await);
}

#[tokio::test]
async fn the_state_of_the_store_is_shown_and_keeps_nobody_out() {
    let home = Home::new("");
    let server = home.http(&[]).await;
    let client = server.client(Era::Modern).await;
    assert_eq!(client.value("return 1").await, 1);
    becomes(&server, "ready").await;
    assert_eq!(health(&server).await, json!({"status": "ok", "traces": "ready"}));
    assert_eq!(doctor(&home)["state"], "ready");
    assert_eq!(server.metric("pml_trace_store_up").await, Some(1.0));
    assert!(server.metric("pml_traces_total{fate=\"stored\"}").await.unwrap() >= 1.0);

    // Somebody else holds the lock.
    let file = home.path().join(".local/share/pml/traces/traces.db");
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(client.value("return 2").await, 2);
    becomes(&server, "locked").await;
    assert_eq!(client.value("return 3").await, 3);
    assert_eq!(server.metric("pml_trace_store_up").await, Some(0.0));
    assert_eq!(doctor(&home)["state"], "locked", "{}", doctor(&home));
    other.execute_batch("ROLLBACK").unwrap();
    becomes(&server, "ready").await;
    server.end().await;

    // A newer pml has been here.
    other.execute_batch("PRAGMA user_version = 1000").unwrap();
    drop(other);
    let server = home.http(&[]).await;
    let client = server.client(Era::Modern).await;
    assert_eq!(client.value("return 4").await, 4);
    becomes(&server, "newer").await;
    assert_eq!(doctor(&home)["state"], "newer", "{}", doctor(&home));
    server.end().await;
}

#[tokio::test]
async fn without_traces_there_is_no_store() {
    let home = Home::new("[trace]\nenabled = false\n");
    let server = home.http(&[]).await;
    assert_eq!(health(&server).await, json!({"status": "ok", "traces": "off"}));
    assert_eq!(server.metric("pml_trace_store_up").await, None);
    server.end().await;
    eventually(|| doctor(&home)["enabled"] == false).await;
}
