//! The servers' own tools, resources and prompts, through pml, between clients and servers of either era.

use pml_testkit::fixture_path;
use serde_json::{Value, json};

use super::peer::{ERAS, Era, Home, LEGACY, Peer, Response, eventually, initialize};

const ITEM: &str = "fixture://item/1";

/// A home with the fixture as server `fix`, which speaks one era.
fn home(era: Era, more: &str) -> Home {
    Home::with_fixture(&format!("args = [\"--era\", \"{}\"]\n{more}", name(era)))
}

fn name(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

/// A client that can be asked.
async fn connect(home: &Home, era: Era, args: &[&str]) -> Peer {
    let mut peer = home.stdio_with(era, args);
    if era == Era::Legacy {
        let mut params = initialize(LEGACY[0]);
        params["capabilities"] = capabilities();
        let answer = peer.request("initialize", params).await;
        assert_eq!(answer["result"]["capabilities"]["prompts"]["listChanged"], true, "{answer}");
        peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }
    // Lists come from what is known; the first time that must be learnt.
    let answer = peer.request("prompts/list", json!({})).await;
    assert!(answer["result"]["prompts"].is_array(), "{answer}");
    peer
}

fn capabilities() -> Value {
    json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {"listChanged": true}})
}

/// Parameters of a client that can be asked, as its era says so.
fn askable(era: Era, mut params: Value) -> Value {
    if era == Era::Modern {
        params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": capabilities()});
    }
    params
}

fn names<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|item| item[key].as_str().unwrap()).collect()
}

const PASS: [&str; 2] = ["--expose", "passthrough"];

#[tokio::test]
async fn everything_is_listed_and_answers_are_untouched() {
    for (client, server) in ERAS.into_iter().flat_map(|client| ERAS.map(|server| (client, server))) {
        let home = home(server, "");
        let mut peer = connect(&home, client, &PASS).await;
        let context = format!("{client:?} client, {server:?} server");

        let list = peer.request("tools/list", json!({})).await["result"]["tools"].clone();
        let listed = names(&list, "name");
        assert!(listed.contains(&"fix__echo") && !listed.contains(&"execute_code"), "{context}: {listed:?}");
        assert!(listed.is_sorted(), "{context}");
        let prompts = peer.request("prompts/list", json!({})).await["result"]["prompts"].clone();
        assert_eq!(names(&prompts, "name"), ["fix__greet", "fix__part", "fix__wait"], "{context}");
        assert_eq!(prompts[0]["vendor"], true, "{context}: what nobody knows is kept");
        let resources = peer.request("resources/list", json!({})).await["result"]["resources"].clone();
        assert_eq!(names(&resources, "uri").len(), 5, "{context}");
        let templates = peer.request("resources/templates/list", json!({})).await;
        assert_eq!(templates["result"]["resourceTemplates"][0]["name"], "item", "{context}: {templates}");

        let result = peer.request("tools/call", json!({"name": "fix__verbatim"})).await["result"].clone();
        let expected = json!([
            {"type": "new", "x": [1.0, null]},
            {"type": "text", "text": "a", "_meta": {"vendor": 1}},
        ]);
        assert_eq!(result["content"], expected, "{context}");
        assert_eq!(result["isError"], "perhaps", "{context}");
        assert_eq!(result["vendor/field"].to_string(), r#"{"b":1,"a":2}"#, "{context}");
        let is_modern = client == Era::Modern;
        assert_eq!(result.get("resultType").is_some(), is_modern, "{context}: {result}");

        let read = peer.request("resources/read", json!({"uri": ITEM})).await["result"].clone();
        assert_eq!(read["contents"][0]["text"], "words", "{context}");
        assert_eq!(read.get("ttlMs").is_some(), is_modern, "{context}");
        let error = peer.request("resources/read", json!({"uri": "fixture://none"})).await["error"].clone();
        // The new era has no code of its own for this.
        let code = if is_modern || server == Era::Modern { -32602 } else { -32002 };
        assert_eq!((&error["code"], &error["data"]["vendor"]), (&json!(code), &json!([1])), "{context}: {error}");

        let greeting = json!({"name": "fix__greet", "arguments": {"name": "Ada"}});
        let prompt = peer.request("prompts/get", greeting).await;
        assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "greet Ada", "{context}: {prompt}");
        let about =
            json!({"ref": {"type": "ref/prompt", "name": "fix__greet"}, "argument": {"name": "name", "value": "A"}});
        let completion = peer.request("completion/complete", about).await;
        assert_eq!(completion["result"]["completion"]["values"], json!(["Ada", "Alan"]), "{context}: {completion}");

        for (method, params) in [
            ("tools/call", json!({"name": "fix__none"})),
            ("tools/call", json!({"name": "echo"})),
            ("prompts/get", json!({"name": "none"})),
            ("tools/list", json!({"cursor": "5"})),
            ("resources/read", json!({})),
        ] {
            let error = peer.request(method, params).await["error"].clone();
            assert_eq!(error["code"], -32602, "{context}: {method} {error}");
        }
        peer.end().await;
        let calls: Vec<_> =
            home.audit().into_iter().map(|line| (line["tool"].clone(), line["success"].clone())).collect();
        let expected = [
            ("fix:verbatim", true),
            ("fix:resource:fixture://item/1", true),
            ("fix:resource:fixture://none", false),
            ("fix:prompt:greet", true),
            ("fix:prompt:greet", true),
        ];
        assert_eq!(calls, expected.map(|(name, success)| (json!(name), json!(success))), "{context}");
    }
}

#[tokio::test]
async fn what_a_server_asks_reaches_the_client_across_eras() {
    for (client, server) in ERAS.into_iter().flat_map(|client| ERAS.map(|server| (client, server))) {
        let home = home(server, "");
        let mut peer = connect(&home, client, &PASS).await;
        let context = format!("{client:?} client, {server:?} server");
        let call = json!({"name": "fix__ask_one", "arguments": {"method": "elicitation/create"}});
        let accepted = json!({"action": "accept", "content": {"name": "Ada"}});

        let id = peer.ask("tools/call", askable(client, call.clone())).await;
        let result = if client == Era::Legacy {
            let asked = peer.next().await.unwrap();
            assert_eq!(asked["method"], "elicitation/create", "{context}: {asked}");
            assert_eq!(asked["params"]["message"], "[server fix] What is your name?", "{context}");
            peer.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": accepted})).await;
            peer.answer(&id).await
        } else {
            let needs = peer.answer(&id).await["result"].clone();
            assert_eq!(needs["resultType"], "input_required", "{context}: {needs}");
            let (name, question) = needs["inputRequests"].as_object().unwrap().iter().next().unwrap();
            assert_eq!(question["method"], "elicitation/create", "{context}");
            assert_eq!(question["params"]["message"], "[server fix] What is your name?", "{context}");
            let mut again = call.clone();
            again["requestState"] = needs["requestState"].clone();
            again["inputResponses"] = json!({ name: accepted });
            peer.request("tools/call", askable(client, again.clone())).await
        };
        // Each server of ours tells what it was answered in a way of its own.
        let told = result["result"]["structuredContent"].to_string();
        assert!(told.contains("Ada"), "{context}: {result}");
        peer.end().await;
    }
}

#[tokio::test]
async fn a_model_is_asked_in_the_name_of_the_server() {
    for server in ERAS {
        let home = home(server, "");
        let mut peer = connect(&home, Era::Legacy, &PASS).await;
        let call = json!({"name": "fix__ask_one", "arguments": {"method": "sampling/createMessage"}});
        let id = peer.ask("tools/call", call).await;
        let asked = peer.next().await.unwrap();
        assert_eq!(asked["method"], "sampling/createMessage", "{asked}");
        let prompt = asked["params"]["systemPrompt"].as_str().unwrap();
        assert!(prompt.starts_with("[server fix] "), "{prompt}");
        assert_eq!(asked["params"]["_meta"]["pml/server"], "fix", "{asked}");
        assert_eq!(asked["params"]["messages"][0]["content"]["text"], "Hello?", "the conversation stays: {asked}");
        let reply = json!({"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"});
        peer.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": reply})).await;
        let result = peer.answer(&id).await;
        assert!(result["result"]["structuredContent"].to_string().contains("assistant"), "{result}");
        peer.end().await;
    }
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_not() {
    for server in ERAS {
        let home = home(server, "");
        let mut modern = home.stdio_with(Era::Modern, &PASS);
        let call = json!({"name": "fix__ask_one", "arguments": {"method": "sampling/createMessage"}});
        modern.request("prompts/list", json!({})).await;
        let answer = modern.request("tools/call", call).await;
        if server == Era::Modern {
            // It is the server that decides; ours asks whoever comes.
            assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
        }
        if server == Era::Legacy {
            assert_eq!(answer["error"]["code"], -32021, "{answer}");
            assert!(answer["error"]["data"]["requiredCapabilities"]["sampling"].is_object(), "{answer}");
        }
        // And it can come back only to what is its own.
        let stranger = json!({"name": "fix__ask_one", "arguments": {"method": "x"}, "requestState": "pml-0000"});
        if server == Era::Legacy {
            let answer = modern.request("tools/call", stranger).await;
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
        modern.end().await;
    }
}

#[tokio::test]
async fn progress_logs_and_cancellation_are_passed_on() {
    for (client, server) in ERAS.into_iter().flat_map(|client| ERAS.map(|server| (client, server))) {
        let home = home(server, "");
        let mut peer = connect(&home, client, &PASS).await;
        let context = format!("{client:?} client, {server:?} server");
        let mut slow = json!({"name": "fix__sleep", "arguments": {"ms": 200, "progress": 20}});
        slow["_meta"] = json!({"progressToken": "mine"});
        let answer = peer.request("tools/call", slow).await;
        assert_eq!(answer["result"]["content"][0]["text"], "slept 200 ms", "{context}: {answer}");
        let progress: Vec<_> =
            peer.heard.drain(..).filter(|message| message["method"] == "notifications/progress").collect();
        assert!(!progress.is_empty(), "{context}");
        assert!(progress.iter().all(|message| message["params"]["progressToken"] == "mine"), "{context}: {progress:?}");

        let mut log = json!({"name": "fix__log", "arguments": {"count": 2}});
        match client {
            Era::Legacy => drop(peer.request("logging/setLevel", json!({"level": "info"})).await),
            Era::Modern => log["_meta"] = json!({"io.modelcontextprotocol/logLevel": "info"}),
        }
        peer.request("tools/call", log).await;
        let logs = peer.heard.drain(..).filter(|message| message["method"] == "notifications/message").count();
        assert_eq!(logs, 2, "{context}");

        let mut long = json!({"name": "fix__sleep", "arguments": {"ms": 20_000, "progress": 20}});
        long["_meta"] = json!({"progressToken": "begun"});
        let id = peer.ask("tools/call", long).await;
        // The server has begun when its first line about it is there.
        while !peer.heard.iter().any(|message| message["params"]["progressToken"] == "begun") {
            let message = peer.next().await.unwrap();
            peer.heard.push(message);
        }
        peer.cancel(&id).await;
        assert!(peer.is_up().await, "{context}");
        peer.end().await;
        let last = home.audit().pop().unwrap();
        assert_eq!((&last["tool"], &last["code"]), (&json!("fix:sleep"), &json!("CANCELLED")), "{context}: {last}");
    }
}

#[tokio::test]
async fn changes_reach_those_who_want_to_hear_of_them() {
    for server in ERAS {
        let home = home(server, "");
        let mut peer = connect(&home, Era::Legacy, &PASS).await;
        let answer = peer.request("resources/subscribe", json!({"uri": ITEM})).await;
        assert!(answer["result"].is_object(), "{server:?}: {answer}");
        for (tool, arguments, method) in [
            ("fix__touch", json!({"uri": ITEM}), "notifications/resources/updated"),
            ("fix__change", json!({"what": "prompts"}), "notifications/prompts/list_changed"),
            ("fix__change", json!({"what": "resources"}), "notifications/resources/list_changed"),
        ] {
            peer.request("tools/call", json!({"name": tool, "arguments": arguments})).await;
            while !peer.heard.iter().any(|message| message["method"] == method) {
                let message = peer.next().await.unwrap();
                peer.heard.push(message);
            }
        }
        peer.end().await;

        let mut peer = connect(&home, Era::Modern, &PASS).await;
        let wanted = json!({"promptsListChanged": true, "resourceSubscriptions": [ITEM, "fixture://none"]});
        let id = peer.ask("subscriptions/listen", json!({"notifications": wanted})).await;
        let agreed = peer.next().await.unwrap();
        assert_eq!(agreed["method"], "notifications/subscriptions/acknowledged", "{server:?}: {agreed}");
        assert_eq!(agreed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
        assert_eq!(agreed["params"]["notifications"]["promptsListChanged"], true);
        assert_eq!(agreed["params"]["notifications"]["resourceSubscriptions"], json!([ITEM]), "{server:?}");
        peer.request("tools/call", json!({"name": "fix__touch", "arguments": {"uri": ITEM}})).await;
        while !peer.heard.iter().any(|message| message["params"]["uri"] == ITEM) {
            let message = peer.next().await.unwrap();
            peer.heard.push(message);
        }
        peer.cancel(&id).await;
        peer.end().await;
    }
}

/// The next notification about a change, on a stream of a session.
async fn next_change(stream: &mut Response) -> String {
    loop {
        let (_, message) = stream.event().await.expect("the stream goes on");
        let method = message["method"].as_str().unwrap_or_default();
        if method.ends_with("changed") || method.ends_with("updated") {
            return method.to_owned();
        }
    }
}

#[tokio::test]
async fn what_one_client_prints_is_no_change_for_another() {
    let home = home(Era::Legacy, "");
    let server = home.http(&["--expose", "both"]).await;
    let loud = server.client(Era::Legacy).await;
    assert_eq!(loud.value("return await mcp.fix.echo({ text: 'its tools are known' })").await, "its tools are known");
    let quiet = server.client(Era::Legacy).await;
    let change = |what: &str| json!({"name": "fix__change", "arguments": {"what": what}});
    // What happened before the stream was opened is not lost either.
    quiet.request("tools/call", change("resources")).await;
    let session = quiet.session.as_deref().unwrap();
    let open = server.http("GET", "/mcp").header("Accept", "text/event-stream").header("Mcp-Session-Id", session);
    let mut stream = open.send().await;
    assert_eq!(stream.header("x-accel-buffering"), Some("no"));
    assert_eq!(next_change(&mut stream).await, "notifications/resources/list_changed");
    for _ in 0..3 {
        let printed = loud.value("for (let i = 0; i < 900; i++) console.log('line', i); return 1").await;
        assert_eq!(printed, 1);
    }
    let code = "for (let i = 0; i < 3000; i++) console.log(i); return await mcp.fix.change({ what: 'prompts' })";
    loud.call("execute_code", json!({"code": code})).await;
    assert_eq!(next_change(&mut stream).await, "notifications/prompts/list_changed");
    drop(stream);
    server.end().await;
}

#[tokio::test]
async fn names_are_plain_where_only_one_server_has_them() {
    let fixture = fixture_path();
    let config = format!(
        "[servers.one]\ncommand = {fixture:?}\nargs = [\"--fault\", \"tools-only\"]\n\
         [servers.two]\ncommand = {fixture:?}\nargs = [\"--era\", \"modern\"]\n\
         [servers.three]\ncommand = \"node\"\nargs = [{:?}]\n[policy]\ndeny = [\"*:sleep\", \"three:get-env\"]\n",
        super::real_servers::installed("node_modules/@modelcontextprotocol/server-everything/dist/index.js"),
    );
    let home = Home::new(&config);
    let mut peer = connect(&home, Era::Legacy, &["--expose", "both", "--plain-names"]).await;
    // The first list waits for servers that were never reached, but not for ever on a busy machine.
    let mut list = Value::Null;
    for _ in 0..600 {
        list = peer.request("tools/list", json!({})).await["result"]["tools"].clone();
        let listed = names(&list, "name");
        if ["one__echo", "two__echo", "three__echo"].iter().all(|name| listed.contains(name)) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let listed = names(&list, "name");
    for wanted in [
        "execute_code",
        "execute_workflow",
        "read_result",
        "search_tools",
        "one__echo",
        "two__echo",
        "three__echo",
        "get-tiny-image",
    ] {
        assert!(listed.contains(&wanted), "{wanted}: {listed:?}");
    }
    assert!(!listed.iter().any(|name| name.contains("sleep") || name.contains("get-env")), "the policy counts");
    let image = peer.call("get-tiny-image", json!({})).await;
    assert_eq!(image["content"][1]["mimeType"], "image/png", "{image}");
    let same = peer.call("three__get-tiny-image", json!({})).await;
    assert_eq!(same["content"], image["content"], "the long name is understood too");
    let echo = peer.call("two__echo", json!({"text": "hi"})).await;
    assert_eq!(echo["content"][0]["text"], "hi");
    let denied = peer.call("one__sleep", json!({"ms": 1})).await;
    assert!(denied["content"][0]["text"].as_str().unwrap().starts_with("error[POLICY_DENIED]"), "{denied}");
    assert!(denied.get("structuredContent").is_none(), "some clients would hold it against the tool's schema");
    assert_eq!(peer.value("return await mcp.two.echo({ text: 'code too' })").await, "code too");
    peer.end().await;
    let refused = home.audit().into_iter().find(|line| line["tool"] == "one:sleep").unwrap();
    assert_eq!((&refused["decision"], &refused["code"]), (&json!("deny"), &json!("POLICY_DENIED")), "{refused}");
}

#[tokio::test]
async fn a_changed_configuration_counts_and_disturbs_no_run() {
    let fixture = fixture_path();
    let server = |name: &str| format!("[servers.{name}]\ncommand = {fixture:?}\n");
    let home = Home::new(&format!("[sandbox]\nmode = \"subprocess\"\n{}", server("old")));
    let mut peer = home.connected(Era::Legacy).await;
    assert_eq!(peer.value("return await mcp.old.echo({ text: 'a' })").await, "a");
    let code = "const slept = await mcp.old.sleep({ ms: 4000 }); return slept";
    let run = peer.ask("tools/call", json!({"name": "execute_code", "arguments": {"code": code}})).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;

    home.configure(&server("new"));
    loop {
        let overview = peer.call("search_tools", json!({"query": ""})).await;
        let servers: Vec<_> = names(&overview["structuredContent"]["servers"], "server");
        if servers == ["new"] {
            break;
        }
        assert_eq!(servers, ["old"]);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(peer.value("return await mcp.new.echo({ text: 'b' })").await, "b");
    let gone = peer.call("execute_code", json!({"code": "return await mcp.old.echo({ text: 'c' })"})).await;
    assert_eq!(gone["structuredContent"]["error"]["code"], "PREFLIGHT_FAILED", "{gone}");
    let answer = match peer.heard.iter().position(|message| message["id"] == run) {
        Some(at) => peer.heard.remove(at),
        None => peer.answer(&run).await,
    };
    assert_eq!(answer["result"]["structuredContent"]["result"], "slept 4000 ms", "{answer}");

    // What is no file at all, and what has a mistake, changes nothing; and what is mended counts again.
    std::fs::remove_file(home.config()).unwrap();
    std::os::unix::fs::symlink("/dev/zero", home.config()).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert_eq!(peer.value("return await mcp.new.echo({ text: 'still' })").await, "still");
    std::fs::remove_file(home.config()).unwrap();
    home.configure("[servers.new]\ncomand = 1\n");
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert_eq!(peer.value("return await mcp.new.echo({ text: 'd' })").await, "d");
    home.configure(&format!("{}[policy]\ndeny = [\"new:echo\"]\n", server("new")));
    super::peer::send_signal(peer.pid(), rustix::process::Signal::HUP);
    loop {
        let denied = peer.call("execute_code", json!({"code": "return await mcp.new.echo({ text: 'e' })"})).await;
        if denied["isError"] == true {
            assert!(denied["content"][0]["text"].as_str().unwrap().contains("policy"), "{denied}");
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let old = home.config();
    assert!(old.exists());
    eventually(|| super::peer::descendants(peer.pid()).len() <= 3).await;
    peer.end().await;
}

#[tokio::test]
async fn nobody_hears_what_was_not_asked_for() {
    let home = home(Era::Legacy, "");
    let mut modern = connect(&home, Era::Modern, &PASS).await;
    for what in ["prompts", "resources"] {
        let arguments = json!({"what": what});
        modern.request("tools/call", json!({"name": "fix__change", "arguments": arguments})).await;
    }
    modern.request("tools/call", json!({"name": "fix__sleep", "arguments": {"ms": 200}})).await;
    assert!(modern.heard.is_empty(), "{:?}", modern.heard);
    let discovered = modern.request("server/discover", json!({})).await;
    let instructions = discovered["result"]["instructions"].as_str().unwrap();
    assert!(!instructions.contains("execute_code") && instructions.contains("fix"), "{instructions}");
    modern.end().await;
}

#[tokio::test]
async fn a_server_that_hangs_does_not_stand_before_another_ones_resources() {
    let fixture = fixture_path();
    let config =
        format!("[servers.good]\ncommand = {fixture:?}\n[servers.hangs]\ncommand = \"sleep\"\nargs = [\"600\"]\n",);
    let home = Home::new(&config);
    let mut peer = home.stdio_with(Era::Modern, &PASS);
    let begun = tokio::time::Instant::now();
    let read = peer.request("resources/read", json!({"uri": ITEM})).await;
    assert_eq!(read["result"]["contents"][0]["text"], "words", "{read}");
    // Lists wait 20 s for a server that hangs.
    assert!(begun.elapsed() < std::time::Duration::from_secs(15), "{:?}", begun.elapsed());
    peer.end().await;
}
