//! What one key, one client or one disk cannot do to a hub and its other keys.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::Stdio,
    time::Duration,
};

use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

use super::{
    cli::{stderr, stdout},
    hub::{Hub, is_on_postgres, key, trace},
    peer::{Home, Http, PATIENCE, resident_bytes},
};

fn capability(action: &str, code: &str) -> Value {
    json!({"namespace": "fs", "action": action, "code": code, "description": "reads"})
}

fn with(mut body: Value, name: &str, value: Value) -> Value {
    body[name] = value;
    body
}

async fn patch(hub: &Hub, key: &str, id: &str, body: &Value) -> (u16, Value) {
    let path = format!("/api/capabilities/{id}");
    let response = hub.http(key, "PATCH", &path).with_body(body.to_string()).send().await;
    (response.status, response.json().await)
}

#[tokio::test]
async fn a_key_that_only_delivers_hides_nothing_stops_nothing_and_reads_nothing() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let ann = key(&home, "ann", "acme.web", "ingest,read");
    let ingest = key(&home, "ci", "acme.web", "ingest");
    let admin = key(&home, "admin", "acme.web", "admin");
    let made = hub.post(&ann, "/api/capabilities", &capability("read", "return 'secret code'")).await.json().await;
    let id = made["id"].as_str().unwrap();

    // What would hide it from whoever has put it is refused, each time, and traces are stored meanwhile.
    for code in ["return 'secret code'", "return 2"] {
        let body = with(capability("read", code), "visibility", json!("private"));
        for _ in 0..3 {
            let refused = hub.post(&ingest, "/api/capabilities", &body).await;
            assert_eq!(refused.status, 403, "{code}");
            assert_eq!(refused.json().await["code"], "FORBIDDEN");
            let begun = Instant::now();
            assert_eq!(hub.ingest(&ann, &[trace("of somebody else")]).await["stored"], 1);
            assert!(begun.elapsed() < Duration::from_millis(400), "{:?}", begun.elapsed());
        }
    }
    for visibility in ["private", "org"] {
        let (status, body) = patch(&hub, &ingest, id, &json!({"visibility": visibility})).await;
        assert_eq!((status, &body["code"]), (403, &json!("FORBIDDEN")), "{body}");
    }
    let seen = hub.get(&ann, &format!("/api/capabilities/{id}")).await;
    assert_eq!((&seen["visibility"], &seen["version"]), (&json!("project"), &json!(1)), "nothing was changed");
    assert_eq!(patch(&hub, &ingest, id, &json!({"visibility": "project"})).await.0, 200, "this changes nothing");

    // It may write, and what it is told is what it has said itself.
    let (status, told) = patch(&hub, &ingest, id, &json!({"description": "reads a file"})).await;
    assert_eq!((status, &told["id"], told["tag"].is_string()), (200, &json!(id), true), "{told}");
    let put = hub.post(&ingest, "/api/capabilities", &capability("read", "return 3")).await;
    assert_eq!(put.status, 201);
    let put = put.json().await;
    assert_eq!((&put["version"], put["fqdn"].is_string()), (&json!(2), true), "{put}");
    for told in [&told, &put] {
        for field in ["code", "parameters", "description", "stats", "owner", "formerNames"] {
            assert_eq!(told.get(field), None, "{told}");
        }
    }
    assert_eq!(hub.get(&ann, &format!("/api/capabilities/{id}")).await["code"], "return 3");

    // An admin sees what is private in its project, and can give it back.
    let private = with(capability("mine", "return 1"), "visibility", json!("private"));
    let private = hub.post(&ann, "/api/capabilities", &private).await.json().await["id"].as_str().unwrap().to_owned();
    assert_eq!(patch(&hub, &ingest, &private, &json!({"description": "x"})).await.0, 404);
    assert_eq!(hub.get(&admin, &format!("/api/capabilities/{private}")).await["code"], "return 1");
    let (status, body) = patch(&hub, &admin, &private, &json!({"visibility": "project"})).await;
    assert_eq!((status, &body["visibility"]), (200, &json!("project")));
    let (status, body) = patch(&hub, &admin, &private, &json!({"visibility": "private"})).await;
    assert_eq!((status, &body["visibility"]), (200, &json!("private")), "never 404 for what was changed");
    assert_eq!(Http::to(hub.address, "GET", "/readyz").send().await.status, 200);
    hub.end().await;
}

#[tokio::test]
async fn a_change_expects_what_if_match_says() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let ann = key(&home, "ann", "acme.web", "ingest,read");
    let send = async |method: &str, path: &str, tags: &str, body: &Value| {
        let http = hub.http(&ann, method, path).header("If-Match", tags).with_body(body.to_string());
        let response = http.send().await;
        (response.status, response.json().await)
    };
    let new = capability("read", "return 1");
    let (status, body) = send("POST", "/api/capabilities", "*", &new).await;
    assert_eq!((status, &body["code"]), (412, &json!("CHANGED")), "there is none: {body}");
    let made = hub.post(&ann, "/api/capabilities", &new).await.json().await;
    let path = format!("/api/capabilities/{}", made["id"].as_str().unwrap());
    let tag = made["tag"].as_str().unwrap();
    let change = |text: &str| json!({"description": text});
    assert_eq!(send("PATCH", &path, "\"1-1\"", &change("stale")).await.0, 412);
    assert_eq!(hub.get(&ann, &path).await["description"], "reads");
    let (status, changed) = send("PATCH", &path, &format!("\"1-1\", \"{tag}\""), &change("one of two")).await;
    assert_eq!((status, &changed["description"]), (200, &json!("one of two")));
    assert_eq!(send("PATCH", &path, &format!("\"{tag}\""), &change("stale")).await.0, 412);
    assert_eq!(send("PATCH", &path, "*", &change("whatever it is")).await.0, 200);
    assert_eq!(send("POST", "/api/capabilities", "*", &capability("read", "return 2")).await.0, 201);
    assert_eq!(send("DELETE", &path, "*", &json!({})).await.0, 200);
    hub.end().await;
}

#[tokio::test]
async fn while_the_database_is_locked_every_request_is_answered_soon() {
    if is_on_postgres() {
        return; // a server has locks of its own, and ends statements
    }
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let admin = key(&home, "admin", "acme.web", "admin");
    let stored = trace("stored");
    hub.ingest(&admin, std::slice::from_ref(&stored)).await;
    let made = hub.post(&admin, "/api/capabilities", &capability("read", "return 1")).await.json().await;
    let (id, which) = (stored["traceId"].as_str().unwrap(), made["id"].as_str().unwrap());
    let other = Connection::open(home.path().join(".local/share/pml/traces/traces.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let contribution = json!({"gateway": "g", "types": {}, "weights": [[], []]});
    let table = [
        ("POST", "/api/traces".to_owned(), json!({"traces": [trace("waits")]})),
        ("POST", "/api/capabilities".to_owned(), capability("other", "return 1")),
        ("PATCH", format!("/api/capabilities/{which}"), json!({"description": "x"})),
        ("POST", format!("/api/capabilities/{which}/name"), json!({"namespace": "a", "action": "b"})),
        ("DELETE", format!("/api/capabilities/{which}"), json!({})),
        ("DELETE", format!("/api/traces/{id}"), json!({})),
        ("PUT", "/api/model/contribution".to_owned(), contribution),
        ("DELETE", "/api/model/contribution".to_owned(), json!({})),
    ];
    // All at once and twice, so that they wait for one another too.
    let asked = table.iter().chain(&table).map(async |(method, path, body)| {
        let begun = Instant::now();
        let response = hub.http(&admin, method, path).with_body(body.to_string()).send().await;
        let has_pause = response.header("retry-after").is_some();
        let (status, body) = (response.status, response.json().await);
        assert!(begun.elapsed() < Duration::from_secs(9), "{method} {path}: {:?}", begun.elapsed());
        assert_eq!((status, has_pause), (503, true), "{method} {path}: {body}");
        assert_eq!(body["code"], "UNAVAILABLE", "{body}");
    });
    futures_util::future::join_all(asked).await;
    let ready = Http::to(hub.address, "GET", "/readyz").send().await;
    assert_eq!(ready.status, 503);
    let ready = ready.json().await;
    assert!(ready["reason"].as_str().unwrap().contains("locked"), "{ready}");
    other.execute_batch("ROLLBACK").unwrap();
    let is_ready = async || Http::to(hub.address, "GET", "/readyz").send().await.status == 200;
    let ready = timeout(PATIENCE, async {
        while !is_ready().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    ready.await.expect("it is ready again");
    assert_eq!(hub.ingest(&admin, &[trace("after")]).await["stored"], 1);
    hub.end().await;
}

/// A trace of about 900 KB.
fn large_trace() -> Value {
    let texts: Vec<_> = (0..90).map(|number| format!("{number} {}", "some words ".repeat(900))).collect();
    with(trace("large"), "args", json!(texts))
}

#[tokio::test]
async fn lists_and_samples_are_cut_where_they_are_too_long_and_say_so() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let all = key(&home, "all", "acme.web", "ingest,read");
    for _ in 0..2 {
        let traces: Vec<_> = (0..8).map(|_| large_trace()).collect();
        assert_eq!(hub.ingest(&all, &traces).await["stored"], 8);
    }
    const MOST: usize = 9 << 20;
    let read = async |path: String| {
        let response = hub.http(&all, "GET", &path).send().await;
        assert_eq!(response.status, 200);
        let bytes = response.bytes().await;
        assert!(bytes.len() < MOST, "{path}: {}", bytes.len());
        serde_json::from_slice::<Value>(&bytes).unwrap()
    };
    let sample = read("/api/traces/sample?n=256".to_owned()).await;
    let drawn = sample["traces"].as_array().unwrap().len();
    assert!((2..16).contains(&drawn), "{drawn}");
    assert_eq!(sample["left"], 16 - drawn as u64);

    for number in 0..12 {
        let code = format!("return {number} // {}", "x".repeat(1_000_000));
        assert_eq!(hub.post(&all, "/api/capabilities", &capability(&format!("a{number}"), &code)).await.status, 201);
        assert!(hub.post(&all, "/api/capabilities", &capability("many", &code)).await.status == 201);
    }
    for (path, list) in
        [("/api/capabilities?limit=500", "capabilities"), ("/api/capabilities/acme.web.fs.many/versions?", "versions")]
    {
        let (mut seen, mut offset, mut pages) = (0, 0, 0);
        loop {
            let page = read(format!("{path}&offset={offset}")).await;
            seen += page[list].as_array().unwrap().len();
            pages += 1;
            match page["next"].as_u64() {
                Some(next) => offset = next,
                None => break,
            }
        }
        assert!((seen, pages) == (if list == "versions" { 12 } else { 13 }, 2), "{list}: {seen} on {pages} pages");
    }
    hub.end().await;
}

#[tokio::test]
async fn answers_that_nobody_reads_take_a_bounded_memory_and_end() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    // Each of these may have one long query at a time, and asks on connections of its own.
    let keys: Vec<_> =
        (0..40).map(|number| key(&home, &format!("reader{number}"), "acme.web", "ingest,read")).collect();
    let traces: Vec<_> = (0..8).map(|_| large_trace()).collect();
    assert_eq!(hub.ingest(&keys[0], &traces).await["stored"], 8);
    let mut unread = Vec::new();
    for key in &keys {
        let head = hub.http(key, "GET", "/api/traces/sample?n=256").head();
        let mut stream = TcpStream::connect(hub.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        unread.push(stream);
    }
    let mut most = 0;
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        most = most.max(resident_bytes(hub.pid()));
    }
    assert!(most < 320 << 20, "{} MB", most >> 20);
    // Others are served all the same.
    assert_eq!(hub.ingest(&keys[0], &[trace("another")]).await["stored"], 1);
    drop(unread);
    let is_served = async || hub.http(&keys[0], "GET", "/api/traces/sample?n=256").send().await.status == 200;
    let served = timeout(PATIENCE, async {
        while !is_served().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    served.await.expect("what nobody waits for any more takes no room");
    hub.end().await;
}

#[tokio::test]
async fn a_hub_that_has_lost_its_keys_is_not_ready_and_turns_nobody_away_for_good() {
    if is_on_postgres() {
        return; // a server looks after its own files
    }
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let ann = key(&home, "ann", "acme.web", "ingest,read");
    assert_eq!(hub.ingest(&ann, &[trace("first")]).await["stored"], 1);
    hub.end().await;
    let file = home.path().join(".local/share/pml/traces/traces.db");
    fs::remove_file(file.with_extension("db-wal")).unwrap_or_default();
    fs::write(&file, vec![b'x'; 100_000]).unwrap();
    let hub = Hub::start(&home).await;
    let asked = hub.http(&ann, "GET", "/api/traces").send().await;
    assert_eq!((asked.status, asked.header("retry-after").is_some()), (503, true));
    let body = asked.json().await;
    assert!(body["message"].as_str().unwrap().contains("keys"), "{body}");
    let ready = Http::to(hub.address, "GET", "/readyz").send().await;
    assert_eq!(ready.status, 503);
    assert!(ready.json().await.to_string().contains("keys"));
    hub.end().await;
    // Whoever runs it decides: with a new key it is a hub again, and says what it knows of others.
    let again = key(&home, "ann", "acme.web", "ingest,read");
    let hub = Hub::start(&home).await;
    assert_eq!(hub.ingest(&again, &[trace("anew")]).await["stored"], 1);
    assert_eq!(hub.http(&ann, "GET", "/api/traces").send().await.status, 401);
    assert_eq!(Http::to(hub.address, "GET", "/readyz").send().await.status, 200);
    hub.end().await;
}

#[tokio::test]
async fn a_hub_that_never_had_a_key_is_ready_and_lets_nobody_in() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    assert_eq!(hub.http("pmlhub_x", "GET", "/api/traces").send().await.status, 401);
    assert_eq!(Http::to(hub.address, "GET", "/readyz").send().await.status, 200);
    hub.end().await;
}

#[tokio::test]
async fn durations_that_cannot_be_are_refused_and_who_delivered_is_known() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let ci = key(&home, "ci", "acme.web", "ingest,read");
    let task = |duration: Value| {
        let mut trace = trace("spoilt");
        trace["taskResults"][0]["durationMs"] = duration;
        trace
    };
    let good = trace("good");
    let bad =
        [with(trace("x"), "durationMs", json!(1.7e308)), with(trace("x"), "durationMs", json!(-1)), task(json!(1e300))];
    let reply = hub.ingest(&ci, &[&bad[..], &[good.clone(), task(json!(5.0))]].concat()).await;
    let errors: Vec<_> = reply["errors"].as_array().unwrap().iter().map(|error| &error["code"]).collect();
    assert_eq!(errors, ["INVALID_TRACE"; 3], "{reply}");
    assert_eq!((&reply["stored"], &reply["errors"][0]["traceId"]), (&json!(2), &bad[0]["traceId"]));
    // An id that is none is said as it was sent, so that its sender knows which one is meant.
    let reply = hub.ingest(&ci, &[with(trace("x"), "traceId", json!("not-an-id"))]).await;
    assert_eq!(reply["errors"][0]["traceId"], "not-an-id", "{reply}");

    let id = good["traceId"].as_str().unwrap();
    assert_eq!(hub.get(&ci, &format!("/api/traces/{id}")).await["deliveredBy"], "ci");
    let url = format!("http://{}", hub.address);
    let run = |args: &[&str]| {
        let mut command = home.command(env!("CARGO_BIN_EXE_pml")).into_std();
        let done = command.args(args).args(["--hub", &url]).env("PML_HUB_KEY", &ci).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", stderr(&done));
        stdout(&done)
    };
    let shown = run(&["trace", "show", id]);
    assert!(shown.contains("delivered by ci"), "{shown}");
    assert!(run(&["audit"]).contains("fs:read"));
    hub.end().await;
}

#[tokio::test]
async fn an_interrupted_trace_is_completed_only_by_the_key_that_delivered_it() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let (ci, other) = (key(&home, "ci", "acme.web", "ingest,read"), key(&home, "other", "acme.web", "ingest,read"));
    let whole = trace("whole");
    let mut interrupted = with(whole.clone(), "success", json!(false));
    interrupted["metadata"]["interrupted"] = json!(true);
    interrupted["taskResults"] = json!([]);
    assert_eq!(hub.ingest(&ci, &[interrupted]).await["stored"], 1);
    let reply = hub.ingest(&other, std::slice::from_ref(&whole)).await;
    assert_eq!(reply["errors"][0]["code"], "CONFLICT", "{reply}");
    assert_eq!(hub.ingest(&ci, std::slice::from_ref(&whole)).await["errors"], json!([]));
    let id = whole["traceId"].as_str().unwrap();
    assert_eq!(hub.get(&ci, &format!("/api/traces/{id}")).await["success"], true);
    hub.end().await;
}

#[test]
fn a_key_is_revoked_where_it_is_meant_and_local_is_nobodys_organisation() {
    let home = Home::new("");
    for scope in ["acme.web", "acme.app"] {
        key(&home, "ci", scope, "ingest");
    }
    let key_command = |args: &[&str]| home.pml(&[&["hub", "key"], args].concat());
    let ambiguous = key_command(&["revoke", "ci"]);
    assert_eq!(ambiguous.status.code(), Some(2), "{ambiguous:?}");
    let said = stderr(&ambiguous);
    assert!(said.contains("acme.app") && said.contains("acme.web") && said.contains("--org"), "{said}");
    let listed = stdout(&key_command(&["list", "--json"]));
    assert!(!listed.contains("\"revoked\""), "nothing was revoked: {listed}");
    let taken = key_command(&["add", "ci", "--org", "acme", "--project", "web"]);
    assert!(stderr(&taken).contains("pml hub key revoke ci --org acme --project web"), "{}", stderr(&taken));
    assert!(key_command(&["revoke", "ci", "--org", "acme", "--project", "web"]).status.success());
    assert!(key_command(&["revoke", "ci"]).status.success(), "there is only one left");
    let listed: Value = serde_json::from_str(&stdout(&key_command(&["list", "--json"]))).unwrap();
    assert!(listed["keys"].as_array().unwrap().iter().all(|key| key["state"] == "revoked"), "{listed}");
    let local = key_command(&["add", "x", "--org", "local", "--project", "default"]);
    assert_eq!(local.status.code(), Some(2), "{local:?}");
    assert!(stderr(&local).contains("`local`"), "{}", stderr(&local));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_a_hub_outlives_it() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let ann = key(&home, "ann", "acme.web", "ingest,read");
    assert_eq!(hub.ingest(&ann, &[trace("before anybody follows")]).await["stored"], 1);
    let meddler = pml_testkit::meddler::Meddler::start(hub.address).await.unwrap();
    let url = format!("http://{}", meddler.address);
    let mut command = home.command(env!("CARGO_BIN_EXE_pml")).into_std();
    command.args(["trace", "list", "--follow", "--limit", "0", "--json", "--hub", &url]).env("PML_HUB_KEY", &ann);
    let mut follower = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (told, mut lines) = tokio::sync::mpsc::unbounded_channel();
    let stdout = BufReader::new(follower.stdout.take().unwrap());
    std::thread::spawn(move || stdout.lines().map_while(Result::ok).for_each(|line| drop(told.send(line))));
    // It begins at the end, wherever that is when it looks: so until one of these is seen.
    let mut first = None;
    while first.is_none() {
        hub.ingest(&ann, &[trace("seen")]).await;
        first = timeout(Duration::from_millis(300), lines.recv()).await.ok();
    }
    assert!(!first.flatten().unwrap().contains("before anybody"), "it begins at the end");
    meddler.usually(pml_testkit::meddler::Mood::Refuse);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(follower.try_wait().unwrap().is_none(), "it waits for the hub");
    hub.ingest(&ann, &[trace("while it was away")]).await;
    meddler.usually(pml_testkit::meddler::Mood::Pass);
    let seen = timeout(PATIENCE, async {
        loop {
            let line = lines.recv().await.expect("it goes on");
            assert!(!line.contains("before anybody"));
            if line.contains("while it was away") {
                return;
            }
        }
    });
    seen.await.expect("what came meanwhile is shown");
    follower.kill().unwrap();
    follower.wait().unwrap();
    hub.end().await;
}

#[tokio::test]
async fn requests_that_are_no_requests_are_told_so() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let ann = key(&home, "ann", "acme.web", "ingest,read");
    let list = || hub.http(&ann, "GET", "/api/traces");
    let post = || hub.http(&ann, "POST", "/api/traces").with_body("{\"traces\": []}");
    let host = hub.address.to_string();
    #[rustfmt::skip]
    let table = [
        ("no host",         list().instead("Host", None),                                400, "INVALID_REQUEST"),
        ("two hosts",       list().header("Host", &host),                                400, "INVALID_REQUEST"),
        ("no such route",   hub.http(&ann, "GET", "/api/nothing"),                       404, "NOT_FOUND"),
        ("no such method",  hub.http(&ann, "PATCH", "/api/traces"),                      405, "METHOD_NOT_ALLOWED"),
        ("a path of bytes", hub.http(&ann, "GET", "/api/traces/%ff"),                    400, "INVALID_REQUEST"),
        ("a name of bytes", hub.http(&ann, "GET", "/api/capabilities/%ff/versions"),     400, "INVALID_REQUEST"),
        ("which of them?",  hub.http(&ann, "GET", "/api/traces?tool=a&limit=1&tool=b"),  400, "INVALID_REQUEST"),
        ("no JSON",         post().header("Content-Type", "text/plain"),                 415, "UNSUPPORTED_TYPE"),
        ("a form",          post().header("Content-Type", "application/x-www-form-urlencoded"), 415, "UNSUPPORTED_TYPE"),
    ];
    for (name, http, status, code) in table {
        let response = http.send().await;
        assert_eq!(response.status, status, "{name}");
        assert_eq!(response.json().await["code"], code, "{name}");
    }
    for kind in ["application/json", "application/json; charset=utf-8"] {
        assert_eq!(post().header("Content-Type", kind).send().await.status, 200, "{kind}");
    }
    // What reaches no route is told in the same form.
    let long = "x".repeat(80_000);
    let table = [
        (format!("GET /api/traces?intent={long} HTTP/1.1\r\nHost: {host}\r\n\r\n"), 414, "TOO_LARGE"),
        (format!("GET /api/traces HTTP/1.1\r\nHost: {host}\r\nX: {long}\r\n\r\n"), 431, "TOO_LARGE"),
        ("what is this\r\n\r\n".to_owned(), 400, "INVALID_REQUEST"),
    ];
    for (head, status, code) in table {
        let mut stream = TcpStream::connect(hub.address).await.unwrap();
        // It may be answered before all of it is sent.
        let _ = stream.write_all(head.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        assert!(head.contains("content-type: application/json"), "{head}");
        assert_eq!(serde_json::from_str::<Value>(body).unwrap()["code"], code, "{body}");
    }
    // A body that is said to be too large is refused before it is sent.
    let mut stream = TcpStream::connect(hub.address).await.unwrap();
    let head = format!(
        "POST /api/traces HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {ann}\r\nContent-Length: {}\r\n\r\n",
        17 << 20
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    timeout(Duration::from_secs(5), stream.read_exact(&mut answer)).await.expect("at once").unwrap();
    assert_eq!(&answer[..], b"HTTP/1.1 413");
    // Whoever has said everything and closes its end still hears the answer.
    let mut stream = TcpStream::connect(hub.address).await.unwrap();
    stream.write_all(post().head().as_bytes()).await.unwrap();
    stream.write_all(b"{\"traces\": []}").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    hub.end().await;
}
