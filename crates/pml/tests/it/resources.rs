//! Whose a resource is when several servers have some, and what the policy and the audit log have to do with it.

use pml_testkit::fixture_path;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::peer::{ERAS, Era, Home, LEGACY, PATIENCE, Peer, initialize};

/// A home with a server for each name, all the fixture with arguments of its own. `more` follows.
fn home(servers: &[(&str, &[&str])], more: &str) -> Home {
    let fixture = fixture_path();
    let tables =
        servers.iter().map(|(name, args)| format!("[servers.{name}]\ncommand = {fixture:?}\nargs = {args:?}\n"));
    Home::new(&(tables.collect::<String>() + more))
}

/// A client, once every server is known.
async fn connect(home: &Home, era: Era) -> Peer {
    let mut peer = home.stdio_with(era, &["--expose", "passthrough"]);
    if era == Era::Legacy {
        peer.request("initialize", initialize(LEGACY[0])).await;
        peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }
    peer.request("resources/list", json!({})).await;
    peer
}

async fn uris(peer: &mut Peer) -> Vec<String> {
    let listed = peer.request("resources/list", json!({})).await["result"]["resources"].clone();
    listed.as_array().unwrap().iter().map(|item| item["uri"].as_str().unwrap().to_owned()).collect()
}

/// What a resource holds, or the error.
async fn read(peer: &mut Peer, uri: &str) -> Result<Value, Value> {
    let answer = peer.request("resources/read", json!({"uri": uri})).await;
    match answer.get("error") {
        Some(error) => Err(error.clone()),
        None => Ok(answer["result"]["contents"][0]["text"].clone()),
    }
}

/// How often a server was asked for a resource.
async fn reads(peer: &mut Peer, server: &str) -> u64 {
    let answer = peer.request("tools/call", json!({"name": format!("{server}__counters"), "arguments": {}})).await;
    answer["result"]["structuredContent"]["reads"].as_u64().unwrap_or(0)
}

#[tokio::test]
async fn no_template_takes_what_another_server_lists() {
    for template in ["{+any}", "note://{+any}", "note://{id}", "note:{+any}"] {
        let home = home(
            &[
                ("a_evil", &["--template", template, "--says", "evil"]),
                ("honest", &["--resource", "note://1", "--says", "honest"]),
            ],
            "",
        );
        for era in ERAS {
            let mut peer = connect(&home, era).await;
            assert_eq!(read(&mut peer, "note://1").await, Ok(json!("honest")), "{template}");
            // Nobody lists this one, and it may well be of the one that lists its neighbours.
            let error = read(&mut peer, "note://2").await.unwrap_err();
            assert!(error["message"].as_str().unwrap().contains("note://2"), "{template}: {error}");
            assert_eq!((reads(&mut peer, "a_evil").await, reads(&mut peer, "honest").await), (0, 1), "{template}");
            // Who is meant can be said.
            assert_eq!(read(&mut peer, "pml:a_evil:note://2").await, Ok(json!("evil")), "{template}");
            let templates = peer.request("resources/templates/list", json!({})).await;
            let listed = &templates["result"]["resourceTemplates"][0];
            assert_eq!(listed["uriTemplate"], format!("pml:a_evil:{template}"), "{templates}");
            assert_eq!(listed["title"], "own (server a_evil)");
            peer.end().await;
        }
    }
}

#[tokio::test]
async fn a_template_of_its_own_is_used_and_what_nobody_has_is_asked_of_nobody() {
    let one = ["--resource", "one://listed", "--template", "one://{id}/text", "--says", "one"];
    let home = home(&[("one", &one), ("two", &["--resource", "two://listed", "--says", "two"])], "");
    for era in ERAS {
        let mut peer = connect(&home, era).await;
        assert_eq!(uris(&mut peer).await, ["one://listed", "two://listed"]);
        assert_eq!(read(&mut peer, "one://x/text").await, Ok(json!("one")));
        assert_eq!(read(&mut peer, "two://listed").await, Ok(json!("two")));
        for uri in
            ["one://x/other", "two://other", "secret://token", "pml:three:two://listed", "PML:two:two://listed", "{+x}"]
        {
            let error = read(&mut peer, uri).await.unwrap_err();
            let code = if era == Era::Legacy { -32002 } else { -32602 };
            assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(code), &json!(uri)), "{error}");
        }
        assert_eq!((reads(&mut peer, "one").await, reads(&mut peer, "two").await), (1, 1));
        let about =
            |uri: &str| json!({"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "id", "value": "A"}});
        for (uri, is_known) in [("one://{id}/text", true), ("pml:one:one://{id}/text", true), ("three://{id}", false)] {
            let completed = peer.request("completion/complete", about(uri)).await;
            assert_eq!(completed.get("result").is_some(), is_known, "{uri}: {completed}");
        }
        peer.end().await;
    }
}

#[tokio::test]
async fn two_servers_with_the_same_address_are_told_apart() {
    let args = |says| ["--resource", "note://1", "--says", says];
    let home = home(&[("one", &args("first")), ("\"my two\"", &args("second"))], "");
    let mut peer = connect(&home, Era::Legacy).await;
    let mut listed = uris(&mut peer).await;
    listed.sort();
    assert_eq!(listed, ["pml:my%20two:note://1", "pml:one:note://1"]);
    assert_eq!(read(&mut peer, "pml:one:note://1").await, Ok(json!("first")));
    assert_eq!(read(&mut peer, "pml:my%20two:note://1").await, Ok(json!("second")));
    for (method, params) in
        [("resources/read", json!({"uri": "note://1"})), ("resources/subscribe", json!({"uri": "note://1"}))]
    {
        let error = peer.request(method, params).await["error"].clone();
        assert_eq!(error["code"], -32602, "{method}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("`my two`") && message.contains("`pml:one:note://1`"), "{message}");
        assert_eq!(error["data"]["uris"], json!(["pml:my%20two:note://1", "pml:one:note://1"]));
    }
    // Only the server that has it says that it has changed, and under the name that the client knows.
    let subscribed = peer.request("resources/subscribe", json!({"uri": "pml:one:note://1"})).await;
    assert!(subscribed["result"].is_object(), "{subscribed}");
    let tools = peer.request("tools/list", json!({})).await["result"]["tools"].clone();
    let names = tools.as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str());
    let touching: Vec<_> = names.filter(|name| name.contains("__touch")).collect();
    assert_eq!(touching.len(), 2, "{touching:?}");
    for name in touching {
        let touched = peer.request("tools/call", json!({"name": name, "arguments": {"uri": "note://1"}})).await;
        assert!(touched["result"].is_object(), "{touched}");
    }
    let is_update = |message: &Value| message["method"] == "notifications/resources/updated";
    while !peer.heard.iter().any(is_update) {
        let message = peer.next().await.unwrap();
        peer.heard.push(message);
    }
    let updates: Vec<_> = peer.heard.iter().filter(|message| is_update(message)).collect();
    assert_eq!(updates.len(), 1, "{updates:?}");
    assert_eq!(updates[0]["params"]["uri"], "pml:one:note://1");
    peer.end().await;

    let mut peer = connect(&home, Era::Modern).await;
    let wanted = json!({"resourceSubscriptions": ["note://1", "pml:one:note://1"]});
    let id = peer.ask("subscriptions/listen", json!({"notifications": wanted})).await;
    let agreed = peer.next().await.unwrap();
    assert_eq!(agreed["params"]["notifications"]["resourceSubscriptions"], json!(["pml:one:note://1"]), "{agreed}");
    peer.request("tools/call", json!({"name": "one__touch", "arguments": {"uri": "note://1"}})).await;
    while !peer.heard.iter().any(|message| message["params"]["uri"] == "pml:one:note://1") {
        let message = peer.next().await.unwrap();
        peer.heard.push(message);
    }
    peer.cancel(&id).await;
    peer.end().await;
}

#[tokio::test]
async fn the_policy_is_about_resources_and_prompts_too_and_each_request_leaves_a_line() {
    let policy = "[policy]\ndeny = [\"fix:resource:fixture://item/2\", \"*:prompt:p*\"]\n";
    let home = home(&[("fix", &[])], policy);
    for era in ERAS {
        let mut peer = connect(&home, era).await;
        assert!(!uris(&mut peer).await.contains(&"fixture://item/2".to_owned()));
        let prompts = peer.request("prompts/list", json!({})).await["result"]["prompts"].to_string();
        assert!(prompts.contains("fix__greet") && !prompts.contains("part"), "{prompts}");
        assert_eq!(read(&mut peer, "fixture://item/1").await, Ok(json!("words")));
        assert_eq!(read(&mut peer, "fixture://none").await.unwrap_err()["data"]["vendor"], json!([1]));
        let about =
            json!({"ref": {"type": "ref/prompt", "name": "fix__greet"}, "argument": {"name": "name", "value": "A"}});
        for (method, params) in [
            ("prompts/get", json!({"name": "fix__greet", "arguments": {"name": "Ada"}})),
            ("completion/complete", about),
        ] {
            let answer = peer.request(method, params).await;
            assert!(answer["result"].is_object(), "{answer}");
        }
        for (method, params) in [
            ("resources/read", json!({"uri": "fixture://item/2"})),
            ("resources/read", json!({"uri": "pml:fix:fixture://item/2"})),
            ("prompts/get", json!({"name": "fix__part"})),
        ] {
            let error = peer.request(method, params).await["error"].clone();
            assert_eq!(error["data"]["code"], "POLICY_DENIED", "{error}");
        }
        if era == Era::Legacy {
            for (uri, is_fine) in [("fixture://item/1", true), ("fixture://item/2", false)] {
                let answer = peer.request("resources/subscribe", json!({"uri": uri})).await;
                assert_eq!(answer.get("result").is_some(), is_fine, "{answer}");
            }
        }
        peer.end().await;
    }
    let line = |line: &Value| {
        let text = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
        format!("{} {} {} {}", text("method"), text("tool"), text("decision"), text("code"))
    };
    let lines: Vec<_> = home.audit().iter().map(line).collect();
    let both = [
        "resources/read fix:resource:fixture://item/1 allow -",
        "resources/read fix:resource:fixture://none allow TOOL_ERROR",
        "prompts/get fix:prompt:greet allow -",
        "completion/complete fix:prompt:greet allow -",
        "resources/read fix:resource:fixture://item/2 deny POLICY_DENIED",
        "resources/read fix:resource:fixture://item/2 deny POLICY_DENIED",
        "prompts/get fix:prompt:part deny POLICY_DENIED",
    ];
    let legacy = [
        "resources/subscribe fix:resource:fixture://item/1 allow -",
        "resources/subscribe fix:resource:fixture://item/2 deny POLICY_DENIED",
    ];
    assert_eq!(lines, [&both[..], &legacy, &both].concat());
}

#[tokio::test]
async fn with_a_list_of_what_is_allowed_resources_must_be_in_it() {
    for (allow, is_seen) in [("fix:echo", false), ("fix:*", true), ("*:resource:*", true), ("*:item*", false)] {
        let home = home(&[("fix", &[])], &format!("[policy]\nallow = [\"fix:echo\", {allow:?}]\n"));
        let mut peer = connect(&home, Era::Modern).await;
        assert_eq!(!uris(&mut peer).await.is_empty(), is_seen, "{allow}");
        assert_eq!(read(&mut peer, "fixture://item/1").await.is_ok(), is_seen, "{allow}");
        peer.end().await;
    }
}

#[tokio::test]
async fn requests_about_resources_are_events() {
    let home = home(&[("fix", &[])], "[policy]\ndeny = [\"fix:prompt:*\"]\n");
    let server = home.http(&["--expose", "passthrough"]).await;
    let mut events = server.http("GET", "/events?topic=provider.mcp.request").send().await;
    let mut denied = server.http("GET", "/events?topic=policy.").send().await;
    let client = server.client(Era::Legacy).await;
    client.request("resources/read", json!({"uri": "fixture://item/1"})).await;
    client.request("resources/read", json!({"uri": "fixture://none"})).await;
    client.request("prompts/get", json!({"name": "fix__greet"})).await;
    let mut next = async || timeout(PATIENCE, events.event()).await.expect("an event").unwrap();
    let (topic, event) = next().await;
    assert_eq!(topic, "provider.mcp.request.completed");
    assert_eq!(event["body"]["subject"], "fix:resource:fixture://item/1", "{event}");
    let (topic, event) = next().await;
    assert_eq!((topic.as_str(), &event["body"]["code"]), ("provider.mcp.request.failed", &json!("TOOL_ERROR")));
    let (_, event) = timeout(PATIENCE, denied.event()).await.expect("an event").unwrap();
    assert_eq!(
        (&event["body"]["tool"], &event["body"]["rule"]),
        (&json!("fix:prompt:greet"), &json!("deny fix:prompt:*"))
    );
    server.end().await;
}
