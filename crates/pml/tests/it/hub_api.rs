//! What a hub serves: who may ask, what is stored, what is refused and how, and what is found again.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{
    cli::{stderr, stdout},
    hub::{Hub, is_on_postgres, key, now, trace, use_engine},
    peer::{Home, Http, PATIENCE},
};

#[tokio::test]
async fn only_a_valid_key_opens_and_only_what_it_permits() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let (both, reader) = (key(&home, "both", "acme.web", "ingest,read"), key(&home, "reader", "acme.web", "read"));
    let taken = home.pml(&["hub", "key", "add", "both", "--org", "acme", "--project", "web"]);
    assert!(!taken.status.success() && stderr(&taken).contains("has a key"), "{}", stderr(&taken));
    let bad = home.pml(&["hub", "key", "add", "x", "--org", "Not A Name", "--project", "web"]);
    assert!(!bad.status.success(), "{}", stderr(&bad));

    let status = async |http: Http| http.send().await.status;
    let list = |key: &str| hub.http(key, "GET", "/api/traces");
    assert_eq!(status(Http::to(hub.address, "GET", "/api/traces")).await, 401);
    assert_eq!(status(list("pmlhub_wrong")).await, 401);
    assert_eq!(status(list("hunter2")).await, 401);
    assert_eq!(status(list(&both)).await, 200);
    assert_eq!(status(list(&reader)).await, 200);
    let denied = hub.post(&reader, "/api/traces", &json!({"traces": []})).await;
    assert_eq!(denied.status, 403);
    assert_eq!(denied.json().await["code"], "FORBIDDEN");
    assert_eq!(status(hub.http(&both, "DELETE", &format!("/api/traces/{}", uuid()))).await, 403);

    let listed = home.pml(&["hub", "key", "list", "--json"]);
    assert!(!stdout(&listed).contains(&both) && stdout(&listed).contains("\"reader\""), "{}", stdout(&listed));
    let database = std::fs::read(home.path().join(".local/share/pml/traces/traces.db")).unwrap_or_default();
    assert_eq!(database.is_empty(), is_on_postgres());
    let log = std::fs::read(home.path().join(".local/share/pml/traces/traces.db-wal")).unwrap_or_default();
    for bytes in [database, log] {
        assert!(!bytes.windows(both.len()).any(|part| part == both.as_bytes()), "only the hash is stored");
    }
    assert!(home.pml(&["hub", "key", "revoke", "both"]).status.success());
    let revoked = list(&both).send().await;
    assert_eq!((revoked.status, revoked.header("www-authenticate").is_some()), (401, true));
    // The name can be given again, and the old key stays shut.
    let again = key(&home, "both", "acme.web", "admin");
    assert_eq!((status(list(&again)).await, status(list(&both)).await), (200, 401));
    hub.end().await;
}

fn uuid() -> String {
    pml_wire::ExecutionId::mint().to_string()
}

#[tokio::test]
async fn good_traces_are_stored_and_each_bad_one_is_told() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let all = key(&home, "all", "acme.web", "ingest,read");
    let (good, mut conflict, mut late) = (trace("good"), trace("first"), trace("from the future"));
    assert_eq!(hub.ingest(&all, std::slice::from_ref(&conflict)).await["stored"], 1);
    conflict["intent"] = json!("second");
    late["timestamp"] = json!(now() + 10 * 86_400_000);
    let (mut own, mut one, mut two) = (trace("its own parent"), trace("one"), trace("two"));
    own["parentTraceId"] = own["traceId"].clone();
    one["parentTraceId"] = two["traceId"].clone();
    two["parentTraceId"] = one["traceId"].clone();
    let mut orphan = trace("its parent is elsewhere");
    orphan["parentTraceId"] = json!(uuid());
    let with = |name: &str, value: Value| {
        let mut trace = trace("spoilt");
        trace[name] = value;
        trace
    };
    let mut secret = trace("a secret");
    secret["result"] = json!({"token": "ghp_0123456789abcdefghijklmnopqrstuvwxyz"});
    let traces = [
        good.clone(),
        conflict.clone(),
        late,
        own,
        one,
        two,
        orphan.clone(),
        with("capabilityId", json!("no name")),
        with("capabilityId", json!("evil.web.fs.read.a7f3")),
        with("success", json!("yes")),
        with("durationMs", Value::Null),
        json!({"traceId": 5}),
        json!("nonsense"),
        secret.clone(),
        with("unheardOf", json!({"a": [1]})),
        good.clone(),
    ];
    let reply = hub.ingest(&all, &traces).await;
    let errors: Vec<_> = reply["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (error["index"].as_u64().unwrap(), error["code"].as_str().unwrap()))
        .collect();
    #[rustfmt::skip]
    let expected = [
        (1, "CONFLICT"), (2, "INVALID_TRACE"), (3, "INVALID_TRACE"), (4, "INVALID_TRACE"), (5, "INVALID_TRACE"),
        (7, "INVALID_CAPABILITY"), (8, "FOREIGN_CAPABILITY"), (9, "INVALID_TRACE"), (10, "INVALID_TRACE"),
        (11, "INVALID_TRACE"), (12, "INVALID_TRACE"),
    ];
    assert_eq!(errors, expected, "{reply}");
    assert_eq!((&reply["received"], &reply["stored"], &reply["duplicates"]), (&json!(16), &json!(4), &json!(1)));
    assert_eq!(reply["errors"][0]["traceId"], conflict["traceId"]);
    assert_eq!(reply["errors"][7]["traceId"], traces[9]["traceId"], "of one that cannot be read as a whole");
    assert!(reply["acknowledged"].as_array().unwrap().contains(&orphan["traceId"]));
    // Cleaned once more, and the same again is still the same.
    let id = secret["traceId"].as_str().unwrap();
    let stored = hub.get(&all, &format!("/api/traces/{id}")).await;
    assert!(!stored.to_string().contains("ghp_0123"), "{stored}");
    let again = hub.ingest(&all, &[secret.clone(), good]).await;
    assert_eq!(
        (&again["stored"], &again["duplicates"], again["errors"].as_array().unwrap().len()),
        (&json!(0), &json!(2), 0)
    );
    // After the same rules have become stricter, what is sent again is still what is stored.
    hub.end().await;
    home.configure("[[trace.sanitize.rules]]\nname = \"word\"\npattern = \"its parent is elsewhere\"");
    let hub = Hub::start(&home).await;
    let again = hub.ingest(&all, &[orphan]).await;
    assert_eq!((&again["duplicates"], again["errors"].as_array().unwrap().len()), (&json!(1), 0), "{again}");
    hub.end().await;
}

#[tokio::test]
async fn bad_requests_get_the_right_status_and_disturb_nobody() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let all = key(&home, "all", "acme.web", "ingest,read");
    let post = || hub.http(&all, "POST", "/api/traces");
    let many: Vec<_> = (0..101).map(|_| trace("x")).collect();
    // 2 GB of spaces, and a trace behind them.
    let bomb = {
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 19).unwrap();
        let spaces = vec![b' '; 1 << 20];
        for _ in 0..2048 {
            std::io::Write::write_all(&mut encoder, &spaces).unwrap();
        }
        encoder.finish().unwrap()
    };
    let spaces = vec![b' '; 1 << 20];
    let gzip_bomb = gzip((0..512).map(|_| &spaces[..]));
    assert!(bomb.len() < 1 << 20 && gzip_bomb.len() < 1 << 20, "{} {}", bomb.len(), gzip_bomb.len());
    let body = |intent: &str| json!({"traces": [trace(intent)]}).to_string();
    let whole = zstd::bulk::compress(body("whole").as_bytes(), 3).unwrap();
    let gzipped = gzip([body("gzipped").as_bytes()].into_iter());
    let table = [
        ("malformed", post().with_body("{"), 400, "INVALID_REQUEST"),
        ("no list", post().with_body("{\"traces\": 5}"), 400, "INVALID_REQUEST"),
        ("nothing", post().with_body("{}"), 400, "INVALID_REQUEST"),
        ("not UTF-8", post().with_body(vec![b'"', 0xff, b'"']), 400, "INVALID_REQUEST"),
        ("too deep", post().with_body("[".repeat(1_000_000)), 400, "INVALID_REQUEST"),
        ("too many", post().with_body(json!({"traces": many}).to_string()), 413, "TOO_MANY_TRACES"),
        ("too large", post().with_body(vec![b' '; 17 << 20]), 413, "TOO_LARGE"),
        ("a bomb", post().header("Content-Encoding", "zstd").with_body(bomb), 413, "TOO_LARGE"),
        ("a bomb of gzip", post().header("Content-Encoding", "gzip").with_body(gzip_bomb), 413, "TOO_LARGE"),
        (
            "half of gzip",
            post().header("Content-Encoding", "gzip").with_body(&gzipped[..gzipped.len() / 2]),
            400,
            "INVALID_REQUEST",
        ),
        (
            "half of it",
            post().header("Content-Encoding", "zstd").with_body(&whole[..whole.len() / 2]),
            400,
            "INVALID_REQUEST",
        ),
        ("not compressed", post().header("Content-Encoding", "zstd").with_body("{}"), 400, "INVALID_REQUEST"),
        ("another compression", post().header("Content-Encoding", "br").with_body("{}"), 415, "UNSUPPORTED_ENCODING"),
        ("no such trace", hub.http(&all, "GET", &format!("/api/traces/{}", uuid())), 404, "NOT_FOUND"),
        ("no id", hub.http(&all, "GET", "/api/traces/nonsense"), 404, "NOT_FOUND"),
        ("a bad cursor", hub.http(&all, "GET", "/api/traces?cursor=x"), 400, "INVALID_REQUEST"),
        ("a bad limit", hub.http(&all, "GET", "/api/traces?limit=1000000"), 400, "INVALID_REQUEST"),
        ("a bad power", hub.http(&all, "GET", "/api/traces/sample?alpha=-1"), 400, "INVALID_REQUEST"),
        ("a bad time", hub.http(&all, "GET", "/api/traces?since=yesterday"), 400, "INVALID_REQUEST"),
    ];
    for (name, http, status, code) in table {
        let response = http.send().await;
        assert_eq!(response.status, status, "{name}");
        assert_eq!(response.json().await["code"], code, "{name}");
        assert_eq!(hub.ingest(&all, &[trace("another")]).await["stored"], 1, "{name}");
    }
    // Somebody who sends slowly, and somebody who goes away half way.
    let mut slow = TcpStream::connect(hub.address).await.unwrap();
    let head = post().header("X-Slow", "1").with_body(vec![b' '; 1000]).head();
    slow.write_all(head.as_bytes()).await.unwrap();
    slow.write_all(b"{").await.unwrap();
    assert_eq!(hub.ingest(&all, &[trace("beside a slow one")]).await["stored"], 1);
    drop(slow);
    for (encoding, compressed) in [("zstd", whole), ("gzip", gzipped)] {
        let stored = post().header("Content-Encoding", encoding).with_body(compressed).send().await;
        assert_eq!(stored.json().await["stored"], 1, "{encoding}");
    }
    let capability = json!({"namespace": "fs", "action": "read", "code": "return 1"}).to_string();
    let put = hub.http(&all, "POST", "/api/capabilities").header("Content-Encoding", "gzip");
    assert_eq!(put.with_body(gzip([capability.as_bytes()].into_iter())).send().await.status, 201);
    let unknown = post().header("Content-Encoding", "br").with_body("{}").send().await;
    assert_eq!(unknown.header("accept-encoding"), Some("zstd, gzip"));
    hub.end().await;
}

fn gzip<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    parts.for_each(|part| std::io::Write::write_all(&mut encoder, part).unwrap());
    encoder.finish().unwrap()
}

#[tokio::test]
async fn no_trace_becomes_its_own_ancestor_over_several_requests() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let all = key(&home, "all", "acme.web", "ingest,read");
    let mut traces: Vec<_> = (0..4).map(|number| trace(&format!("number {number}"))).collect();
    for at in 0..4 {
        traces[at]["parentTraceId"] = traces[(at + 1) % 4]["traceId"].clone();
    }
    for child in &traces[..3] {
        assert_eq!(hub.ingest(&all, std::slice::from_ref(child)).await["stored"], 1);
    }
    let reply = hub.ingest(&all, &[trace("before"), traces[3].clone(), trace("after")]).await;
    assert_eq!(reply["stored"], 2, "{reply}");
    let error = &reply["errors"][0];
    assert_eq!((&error["index"], &error["code"]), (&json!(1), &json!("INVALID_TRACE")), "{reply}");
    assert_eq!(error["traceId"], traces[3]["traceId"]);
    assert!(!reply["acknowledged"].as_array().unwrap().contains(&traces[3]["traceId"]), "{reply}");
    // What is stored already is no part of the problem, and the same trace of somebody else is another.
    assert_eq!(hub.ingest(&all, &traces[..3]).await["duplicates"], 3);
    let other = key(&home, "other", "acme.app", "ingest,read");
    assert_eq!(hub.ingest(&other, &traces[3..]).await["stored"], 1);
    hub.end().await;
}

#[tokio::test]
async fn traces_are_listed_counted_drawn_and_found_and_never_by_others() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let mine = key(&home, "mine", "acme.web", "ingest,read");
    let others = [key(&home, "app", "acme.app", "admin"), key(&home, "evil", "evil.web", "admin")];
    let mut traces: Vec<_> = (0..30).map(|number| trace(&format!("number {number}"))).collect();
    for (number, trace) in traces.iter_mut().enumerate() {
        trace["timestamp"] = json!(now() - 1000 * number as u64);
        trace["success"] = json!(number % 10 != 0);
    }
    assert_eq!(hub.ingest(&mine, &traces).await["stored"], 30);
    let page = hub.get(&mine, "/api/traces?limit=7").await;
    let intents: Vec<_> = page["traces"].as_array().unwrap().iter().map(|trace| trace["intent"].clone()).collect();
    assert_eq!(intents, (0..7).map(|number| json!(format!("number {number}"))).collect::<Vec<_>>(), "the newest first");
    assert_eq!(hub.ids(&mine).await.len(), 30);
    let failed = hub.get(&mine, "/api/traces?failed=true&tool=fs:*&intent=number").await;
    assert_eq!(failed["traces"].as_array().unwrap().len(), 3);
    let stats = hub.get(&mine, "/api/stats").await;
    assert_eq!((&stats["traces"], &stats["failed"], &stats["tools"][0]["calls"]), (&json!(30), &json!(3), &json!(30)));
    let drawn = hub.get(&mine, "/api/traces/sample?n=5&alpha=1&seed=7").await;
    let drawn = drawn["traces"].as_array().unwrap();
    assert_eq!(drawn.len(), 5);
    assert!(drawn.iter().all(|one| one["priority"] == 0.5 && one["trace"]["traceId"].is_string()), "{drawn:?}");
    let id = traces[0]["traceId"].as_str().unwrap();
    assert_eq!(hub.get(&mine, &format!("/api/traces/find?prefix={id}")).await["ids"], json!([id]));
    let whole = hub.get(&mine, &format!("/api/traces/{id}")).await;
    assert_eq!(
        (&whole["intent"], &whole["capabilityUuid"], &whole["priority"]),
        (&json!("number 0"), &Value::Null, &json!(0.5))
    );
    for other in &others {
        assert_eq!(hub.ids(other).await, [] as [&str; 0]);
        assert_eq!(hub.get(other, "/api/stats").await["traces"], 0);
        assert_eq!(hub.get(other, "/api/traces/sample").await["traces"], json!([]));
        assert_eq!(hub.get(other, &format!("/api/traces/find?prefix={id}")).await["ids"], json!([]));
        for method in ["GET", "DELETE"] {
            assert_eq!(hub.http(other, method, &format!("/api/traces/{id}")).send().await.status, 404);
        }
        // The same id of somebody else is another trace, and tells nothing about this one.
        let mut theirs = traces[0].clone();
        theirs["intent"] = json!("theirs");
        assert_eq!(hub.ingest(other, &[theirs]).await["stored"], 1);
    }
    assert_eq!(hub.get(&mine, &format!("/api/traces/{id}")).await["intent"], "number 0");

    // The command line reads a hub as it reads this machine.
    let url = format!("http://{}", hub.address);
    let run = |args: &[&str]| {
        let mut command = home.command(env!("CARGO_BIN_EXE_pml")).into_std();
        let done = command.args(args).args(["--hub", &url]).env("PML_HUB_KEY", &mine).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", stderr(&done));
        stdout(&done)
    };
    let listed: Value = serde_json::from_str(&run(&["trace", "list", "--json", "--limit", "5"])).unwrap();
    assert_eq!((listed["traces"].as_array().unwrap().len(), &listed["traces"][0]["traceId"]), (5, &json!(id)));
    assert!(run(&["trace", "list", "--failed"]).contains("number 10"));
    let shown: Value = serde_json::from_str(&run(&["trace", "show", &id[..30], "--json"])).unwrap();
    assert_eq!(shown["intent"], "number 0");
    assert_eq!(run(&["trace", "export"]).lines().count(), 30);
    assert!(run(&["trace", "stats"]).contains("30 traces, 3 failed"));
    let calls = run(&["audit", "--json", "--tool", "fs:*"]);
    assert_eq!(calls.lines().count(), 30, "{calls}");
    let mut command = home.command(env!("CARGO_BIN_EXE_pml")).into_std();
    let refused = command.args(["trace", "list", "--hub", &url]).env("PML_HUB_KEY", "pmlhub_x").output().unwrap();
    assert!(stderr(&refused).contains("HUB_REFUSED"), "{}", stderr(&refused));
    hub.end().await;
}

#[tokio::test]
async fn capabilities_have_names_versions_and_readers() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let ann = key(&home, "ann", "acme.web", "admin");
    let bob = key(&home, "bob", "acme.web", "ingest,read");
    let app = key(&home, "app", "acme.app", "admin");
    let evil = key(&home, "evil", "evil.web", "admin");
    // A trace that names a capability before it is there.
    let code = "return await mcp.fs.read({ path: args.path })";
    let hash = &sha256(code)[..4];
    let mut early = trace("early");
    early["capabilityId"] = json!(format!("acme.web.fs.read_file.{hash}"));
    let mut unsure = trace("of a gateway that knows no org");
    unsure["capabilityId"] = json!(format!("local.default.fs.read_file.{hash}"));
    hub.ingest(&ann, &[early.clone(), unsure.clone()]).await;
    let uuid_of = async |trace: &Value| {
        hub.get(&ann, &format!("/api/traces/{}", trace["traceId"].as_str().unwrap())).await["capabilityUuid"].clone()
    };
    assert_eq!(uuid_of(&early).await, Value::Null);
    let new = json!({"namespace": "fs", "action": "read_file", "code": code, "description": "Reads a file", "parameters": {"type": "object"}});
    let made = hub.post(&ann, "/api/capabilities", &new).await;
    assert_eq!(made.status, 201);
    let made = made.json().await;
    assert_eq!(made["fqdn"], format!("acme.web.fs.read_file.{hash}"));
    assert_eq!((&made["version"], &made["visibility"], &made["owner"]), (&json!(1), &json!("project"), &json!("ann")));
    let id = made["id"].as_str().unwrap();
    assert_eq!((uuid_of(&early).await, uuid_of(&unsure).await), (json!(id), json!(id)), "resolved when it arrived");
    let stats = hub.get(&ann, &format!("/api/capabilities/{id}")).await["stats"].clone();
    assert_eq!((&stats["runs"], &stats["failed"]), (&json!(2), &json!(0)));

    assert_eq!(hub.post(&bob, "/api/capabilities", &new).await.status, 200, "the same again is the same");
    let mut second = new.clone();
    second["code"] = json!("return 2");
    let second = hub.post(&bob, "/api/capabilities", &second).await.json().await;
    assert_eq!((&second["id"], &second["version"]), (&json!(id), &json!(2)));
    let get = async |key: &str, which: &str| {
        let response = hub.http(key, "GET", &format!("/api/capabilities/{which}")).send().await;
        (response.status, response.json().await)
    };
    assert_eq!(get(&ann, "acme.web.fs.read_file").await.1["version"], 2, "four parts are the newest");
    assert_eq!(get(&ann, &format!("acme.web.fs.read_file.{hash}")).await.1["version"], 1);
    let versions = hub.get(&ann, &format!("/api/capabilities/{id}/versions")).await;
    assert_eq!(versions["versions"].as_array().unwrap().len(), 2);

    // A new name; the old one still leads there, until another takes it.
    let name = json!({"namespace": "files", "action": "read"});
    assert_eq!(hub.post(&bob, &format!("/api/capabilities/{id}/name"), &name).await.status, 403);
    let renamed = hub.post(&ann, &format!("/api/capabilities/{id}/name"), &name).await.json().await;
    assert_eq!((&renamed["id"], &renamed["namespace"]), (&json!(id), &json!("files")));
    assert_eq!(renamed["formerNames"], json!(["acme.web.fs.read_file"]));
    assert_eq!(get(&ann, "acme.web.fs.read_file").await.1["id"], id);
    assert_eq!(uuid_of(&early).await, json!(id), "its traces stay");
    let mut afterwards = trace("by its old name");
    afterwards["capabilityId"] = json!(format!("acme.web.fs.read_file.{hash}"));
    hub.ingest(&ann, std::slice::from_ref(&afterwards)).await;
    assert_eq!(uuid_of(&afterwards).await, json!(id));
    let taker = hub
        .post(&ann, "/api/capabilities", &json!({"namespace": "fs", "action": "read_file", "code": "return 3"}))
        .await;
    assert_ne!(taker.json().await["id"], json!(id));
    assert_ne!(get(&ann, "acme.web.fs.read_file").await.1["id"], id);
    assert_eq!(get(&ann, &format!("acme.web.fs.read_file.{hash}")).await.1["id"], id, "its old code is still its own");
    assert_eq!(
        hub.post(&ann, &format!("/api/capabilities/{id}/name"), &json!({"namespace": "fs", "action": "read_file"}))
            .await
            .status,
        409
    );

    // Found by words, in the name before the description.
    for (action, text) in [("zip", "packs files"), ("files", "a list"), ("other", "nothing")] {
        let new =
            json!({"namespace": "tool", "action": action, "code": format!("return '{action}'"), "description": text});
        assert_eq!(hub.post(&ann, "/api/capabilities", &new).await.status, 201);
    }
    let found = hub.get(&ann, "/api/capabilities?text=FILES").await;
    let actions: Vec<_> =
        found["capabilities"].as_array().unwrap().iter().map(|one| one["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["files", "read", "zip"]);
    assert_eq!(hub.get(&ann, "/api/capabilities?text=packs+zip").await["capabilities"].as_array().unwrap().len(), 1);

    // Who sees what.
    let secret = json!({"namespace": "mine", "action": "secret", "code": "return 5", "visibility": "private"});
    let secret = hub.post(&ann, "/api/capabilities", &secret).await.json().await["id"].as_str().unwrap().to_owned();
    let set = async |visibility: &str| {
        let body = json!({"visibility": visibility}).to_string();
        hub.http(&ann, "PATCH", &format!("/api/capabilities/{secret}")).with_body(body).send().await.status
    };
    let seen = async || {
        let mut seen = Vec::new();
        for key in [&ann, &bob, &app, &evil] {
            let (by_id, by_name) = (get(key, &secret).await.0, get(key, "acme.web.mine.secret").await.0);
            assert_eq!(by_id, by_name);
            let listed = hub.get(key, "/api/capabilities?text=secret").await["capabilities"].as_array().unwrap().len();
            assert_eq!(listed == 1, by_id == 200);
            seen.push(by_id);
        }
        seen
    };
    assert_eq!(seen().await, [200, 404, 404, 404]);
    assert_eq!(
        hub.post(&bob, "/api/capabilities", &json!({"namespace": "mine", "action": "secret", "code": "return 6"}))
            .await
            .status,
        409
    );
    assert_eq!(set("project").await, 200);
    assert_eq!(seen().await, [200, 200, 404, 404]);
    assert_eq!(set("org").await, 200);
    assert_eq!(seen().await, [200, 200, 200, 404]);
    for method in ["PATCH", "DELETE"] {
        let http =
            hub.http(&app, method, &format!("/api/capabilities/{secret}")).with_body("{\"visibility\":\"private\"}");
        assert_eq!(http.send().await.status, 404, "others of the organisation read, and change nothing");
    }
    assert_eq!(hub.http(&ann, "DELETE", &format!("/api/capabilities/{secret}")).send().await.status, 200);
    assert_eq!(seen().await, [404; 4]);
    for bad in [
        json!({"namespace": "A", "action": "b", "code": "1"}),
        json!({"namespace": "a", "action": "b.c", "code": "1"}),
        json!({"namespace": "a", "action": "b", "code": " "}),
        json!({"namespace": "a", "action": "b", "code": "1", "visibility": "world"}),
        json!({"namespace": "a", "action": "b", "code": "1", "parameters": "no"}),
        json!({"namespace": "a", "action": "b", "code": "1", "unheardOf": 1}),
        json!({"namespace": "a", "action": "b"}),
    ] {
        assert_eq!(hub.post(&ann, "/api/capabilities", &bad).await.status, 400, "{bad}");
    }
    hub.end().await;
}

fn sha256(text: &str) -> String {
    pml::digest::sha256(text)
}

#[tokio::test]
async fn the_document_names_every_route_and_no_other() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let document = Http::to(hub.address, "GET", "/api/openapi.json").send().await.json().await;
    assert_eq!(document["openapi"], "3.1.0");
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];
    let mut served = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        if operations["get"]["security"] == json!([]) {
            assert_eq!(Http::to(hub.address, "GET", path).send().await.status, 200, "{path}");
            continue;
        }
        let path = path.replace("{id}", &uuid()).replace("{which}", "a.b.c.d");
        for method in methods {
            let status = Http::to(hub.address, method, &path).send().await.status;
            let is_named = operations.get(method.to_lowercase()).is_some();
            assert_eq!(status, if is_named { 401 } else { 405 }, "{method} {path}");
            served += usize::from(is_named);
        }
    }
    assert_eq!(served, 19);
    let of = |path: &str, method: &str| document["paths"][path][method].clone();
    let types = |path: &str| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let parameters = of(path, "get")["parameters"].as_array().unwrap().clone();
        parameters.iter().map(|one| (text(&one["name"]), text(&one["schema"]["type"]))).collect()
    };
    assert!(types("/api/traces").contains(&("limit".to_owned(), "integer".to_owned())));
    assert!(types("/api/stats").iter().all(|(name, _)| name != "limit" && name != "cursor" && name != "after"));
    assert!(of("/api/registry", "get")["responses"]["304"].is_object());
    assert!(of("/api/capabilities", "post")["responses"]["201"].is_object());
    assert!(of("/api/capabilities/{which}", "patch")["parameters"].to_string().contains("If-Match"));
    let paths: BTreeSet<_> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    assert!(
        ["/api/traces", "/api/traces/{id}", "/api/traces/sample", "/api/stats", "/api/capabilities"]
            .iter()
            .all(|path| paths.contains(path))
    );
    assert_eq!(Http::to(hub.address, "GET", "/api/nothing").send().await.status, 404);
    assert_eq!(Http::to(hub.address, "GET", "/healthz").send().await.status, 200);
    assert_eq!(Http::to(hub.address, "GET", "/readyz").send().await.status, 200);
    let admin = key(&home, "admin", "acme.web", "admin");
    let text = String::from_utf8(hub.http(&admin, "GET", "/api/metrics").send().await.bytes().await).unwrap();
    assert!(text.contains("pml_hub_store_ready 1"), "{text}");
    hub.end().await;
}

#[tokio::test]
async fn a_key_that_asks_too_often_is_told_when_to_come_back_and_others_are_not() {
    let home = Home::new("[hub]\nrequests_per_minute = 10");
    let hub = Hub::start(&home).await;
    let (busy, calm) = (key(&home, "busy", "acme.web", "read"), key(&home, "calm", "acme.web", "read"));
    let mut refused = 0;
    for _ in 0..20 {
        let response = hub.http(&busy, "GET", "/api/traces").send().await;
        if response.status == 429 {
            assert!(response.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
            refused += 1;
        }
    }
    assert!(refused >= 5, "{refused}");
    assert_eq!(hub.http(&calm, "GET", "/api/traces").send().await.status, 200);
    // Whoever guesses keys is slowed down, and takes nothing from those who have one.
    let mut statuses = BTreeSet::new();
    for _ in 0..80 {
        statuses.insert(hub.http("pmlhub_guess", "GET", "/api/traces").send().await.status);
    }
    assert_eq!(statuses, BTreeSet::from([401, 429]));
    assert_eq!(hub.http(&calm, "GET", "/api/traces").send().await.status, 200);
    hub.end().await;
}

#[tokio::test]
async fn a_hub_that_ends_answers_what_it_has_begun() {
    let home = Home::new("");
    let hub = Hub::start(&home).await;
    let all = key(&home, "all", "acme.web", "ingest,read");
    let body = json!({"traces": [trace("the last one")]}).to_string();
    let http = hub.http(&all, "POST", "/api/traces").with_body(body.clone());
    let mut stream = TcpStream::connect(hub.address).await.unwrap();
    stream.write_all(http.head().as_bytes()).await.unwrap();
    stream.write_all(&body.as_bytes()[..20]).await.unwrap();
    // The request is being served when the hub is asked to end.
    tokio::time::sleep(Duration::from_millis(300)).await;
    super::peer::send_signal(hub.pid(), rustix::process::Signal::TERM);
    tokio::time::sleep(Duration::from_millis(200)).await;
    stream.write_all(&body.as_bytes()[20..]).await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("\"stored\":1"), "{}", String::from_utf8_lossy(&answer));
    hub.ended().await;
}

#[tokio::test]
async fn a_gateway_over_http_is_a_hub_too() {
    let home = Home::new("");
    use_engine(&home);
    let server = home.http(&[]).await;
    let all = key(&home, "all", "acme.web", "ingest,read");
    let bearer = format!("Bearer {all}");
    let http = |method: &str, path: &str| Http::to(server.address, method, path).header("Authorization", &bearer);
    let body = json!({"traces": [trace("from elsewhere")]}).to_string();
    let reply = http("POST", "/api/traces").with_body(body).send().await;
    assert_eq!(reply.json().await["stored"], 1);
    assert_eq!(http("GET", "/api/traces").send().await.json().await["traces"][0]["intent"], "from elsewhere");
    // Neither key opens the other's door, and what the gateway keeps for itself is not the hub's.
    assert_eq!(http("GET", "/metrics").send().await.status, 401);
    assert_eq!(server.http("GET", "/api/traces").send().await.status, 401);
    let own = home.pml(&["trace", "list", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&stdout(&own)).unwrap()["traces"], json!([]));
    server.end().await;
}
