//! Named clients and profiles: what one client may not see or use, no way leads to.

use pml_testkit::fixture_path;
use serde_json::{Value, json};

use super::{
    cli::stdout,
    peer::{Client, ERAS, Era, Home, PATIENCE, Server},
};

/// Two servers: `open`, for everybody, and `closed`, which the profile `guest` leaves out. Of `open`, `guest` may not use `add`,
/// one prompt and one resource.
fn home() -> Home {
    let command = fixture_path().to_string_lossy().into_owned();
    Home::new(&format!(
        "[sandbox]\nmode = \"subprocess\"\n[servers.open]\ncommand = {command:?}\n[servers.closed]\ncommand = {command:?}\n\
         [profiles.guest]\nservers = [\"open\"]\ndeny = [\"open:add\", \"open:prompt:greet\", \"open:resource:fixture://item/2\"]\n\
         [profiles.guest.limits]\ncalls = 3\ntimeout_ms = 2000\n\
         [profiles.slow]\ncalls_per_minute = 2\n"
    ))
}

fn token(home: &Home, name: &str, profile: Option<&str>) -> String {
    let mut args = vec!["token", "add", name];
    args.extend(profile.into_iter().flat_map(|profile| ["--profile", profile]));
    let output = home.pml(&args);
    assert!(output.status.success(), "{output:?}");
    stdout(&output).trim().to_owned()
}

/// The same pml, as a client with another token sees it.
fn with<'a>(server: &'a mut Server, token: &str) -> &'a Server {
    server.token = Some(token.to_owned());
    server
}

/// Requests about what `guest` may not use.
fn denied() -> Vec<(&'static str, Value)> {
    vec![
        ("resources/read", json!({"uri": "pml:closed:fixture://item/1"})),
        ("resources/read", json!({"uri": "fixture://item/2"})),
        ("resources/read", json!({"uri": "pml:open:fixture://item/2"})),
        ("prompts/get", json!({"name": "open__greet", "arguments": {"name": "x"}})),
        ("prompts/get", json!({"name": "closed__greet", "arguments": {"name": "x"}})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "closed__greet"}, "argument": {"name": "name", "value": "a"}}),
        ),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "open__greet"}, "argument": {"name": "name", "value": "a"}}),
        ),
    ]
}

/// The code of a program that fails, and its message.
async fn failure(client: &Client<'_>, code: &str) -> (String, String) {
    let result = client.call("execute_code", json!({ "code": code })).await;
    assert_eq!(result["isError"], true, "{code}: {result}");
    let error = &result["structuredContent"]["error"];
    (error["code"].as_str().unwrap().to_owned(), result.to_string())
}

#[tokio::test]
async fn what_a_profile_denies_no_way_leads_to() {
    let home = home();
    let guest = token(&home, "ann", Some("guest"));
    let mut server = home.http(&["--expose", "both"]).await;
    let server = &mut server;
    for era in ERAS {
        let server = with(server, &guest);
        let client = server.client(era).await;
        // What may be used works.
        assert_eq!(client.value("return await mcp.open.echo({ text: 'hi' })").await, "hi");
        assert_eq!(client.value("return Object.keys(mcp)").await, json!(["open"]));
        // Programs.
        for code in [
            "return await mcp.closed.echo({ text: 'x' })",
            "return await mcp['clo' + 'sed'].echo({ text: 'x' })",
            "return await mcp.open.add({ a: 1, b: 2 })",
            "const name = 'add'; return await mcp.open[name]({ a: 1, b: 2 })",
        ] {
            let (code, said) = failure(&client, code).await;
            assert!(["POLICY_DENIED", "PREFLIGHT_FAILED", "TOOL_NOT_FOUND"].contains(&code.as_str()), "{said}");
        }
        let envelope = client.value("return await pml.callTool('closed:echo', { text: 'x' })").await;
        assert_eq!((&envelope["success"], &envelope["error"]["code"]), (&json!(false), &json!("POLICY_DENIED")));
        for code in [
            "return await pml.readResource('fixture://item/1', 'closed')",
            "return await pml.readResource('pml:closed:fixture://item/1')",
            "return await pml.readResource('fixture://item/2', 'open')",
            "return await pml.getPrompt('closed', 'greet', { name: 'x' })",
            "return await pml.getPrompt('open', 'greet', { name: 'x' })",
        ] {
            let (found, said) = failure(&client, code).await;
            assert!(["POLICY_DENIED", "RESOURCE_NOT_FOUND"].contains(&found.as_str()), "{code}: {said}");
        }
        let listed = client.value("return await pml.listResources()").await.to_string();
        assert!(
            listed.contains("fixture://item/1") && !listed.contains("closed") && !listed.contains("item/2"),
            "{listed}"
        );
        let found = client.value("return (await pml.searchTools('add two numbers', 50, 0)).map((t) => t.name)").await;
        let found = found.to_string();
        assert!(found.contains("open:echo") && !found.contains("open:add\"") && !found.contains("closed"), "{found}");

        // pml's own tools.
        for (query, only) in [("add two numbers", None), ("", None), ("echo", Some("closed"))] {
            let mut arguments = json!({"query": query, "limit": 50, "threshold": 0});
            if let Some(only) = only {
                arguments["server"] = only.into();
            }
            let said = client.call("search_tools", arguments).await.to_string();
            let is_quoted_back = only.is_some();
            assert!(is_quoted_back || !said.contains("closed"), "{query}: {said}");
            assert!(!said.contains("closed:") && !said.contains("open:add\""), "{query}: {said}");
        }

        // The servers' own.
        let tools = client.request("tools/list", json!({})).await.to_string();
        assert!(tools.contains("open__echo") && !tools.contains("closed") && !tools.contains("open__add\""), "{tools}");
        for name in ["open__add", "closed__echo", "closed__add"] {
            let answer =
                client.request("tools/call", json!({"name": name, "arguments": {"a": 1, "b": 2, "text": "x"}})).await;
            let is_refused = answer["error"].is_object() || answer["result"]["isError"] == true;
            assert!(is_refused && !answer.to_string().contains("\"3\""), "{name}: {answer}");
        }
        for (method, params) in denied() {
            let answer = client.request(method, params.clone()).await;
            assert!(answer["error"].is_object(), "{method} {params}: {answer}");
        }
        for (method, key) in [
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
            ("prompts/list", "prompts"),
        ] {
            let answer = client.request(method, json!({})).await;
            let text = answer.to_string();
            assert!(answer["result"][key].is_array() && !text.contains("closed"), "{method}: {text}");
            assert!(!text.contains("item/2") && !text.contains("greet\""), "{method}: {text}");
        }
        if era == Era::Legacy {
            let answer = client.request("resources/subscribe", json!({"uri": "pml:closed:fixture://item/1"})).await;
            assert!(answer["error"].is_object(), "{answer}");
        }
        // Limits of the profile.
        let (code, said) = failure(&client, "for (;;) await mcp.open.echo({ text: 'x' })").await;
        assert!(code == "CALL_BUDGET_SPENT" || said.contains("budget of 3 tool calls"), "{said}");
        let result = client.call("execute_code", json!({"code": "for (;;);", "timeout_ms": 60000})).await;
        assert!(result.to_string().contains("cut to 2000") || result.to_string().contains("2s"), "{result}");
    }
    // The test asks for what is there: without the profile, all of it can be used.
    let everybody = token(&home, "eve", None);
    let client = with(server, &everybody).client(Era::Modern).await;
    for (method, params) in denied() {
        let answer = client.request(method, params.clone()).await;
        // An address of both servers is answered with the two that name one.
        let is_there = answer["result"].is_object() || answer["error"]["data"]["uris"].is_array();
        assert!(is_there, "{method} {params}: {answer}");
    }
    assert_eq!(
        client.value("return [Object.keys(mcp).sort(), await mcp.closed.add({ a: 1, b: 2 })]").await,
        json!([["closed", "open"], 3])
    );
    let server = with(server, &guest);
    // What everybody does is not for a named client to see.
    for path in ["/events", "/metrics"] {
        assert_eq!(server.http("GET", path).send().await.status, 403, "{path}");
    }
    let instructions = {
        let message =
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": super::peer::initialize("2025-11-25")});
        server.post(&message).send().await.json().await["result"]["instructions"].to_string()
    };
    assert!(instructions.contains("open") && !instructions.contains("closed"), "{instructions}");
}

#[tokio::test]
async fn clients_do_not_reach_each_others_results_and_sessions() {
    let home = home();
    let (ann, bob) = (token(&home, "ann", None), token(&home, "bob", None));
    let mut server = home.http(&[]).await;
    let own = server.token.clone().unwrap();
    let big = "return 'x'.repeat(200_000)";
    let (id, session) = {
        let client = with(&mut server, &ann).client(Era::Legacy).await;
        let result = client.call("execute_code", json!({ "code": big })).await;
        let id = result["structuredContent"]["result_handle"]["id"].as_str().unwrap().to_owned();
        let page = client.call("read_result", json!({ "id": id })).await;
        assert_eq!(page["isError"], false, "{page}");
        (id, client.session.clone().unwrap())
    };
    for other in [&bob, &own] {
        let server = with(&mut server, other);
        let client = server.client(Era::Legacy).await;
        let page = client.call("read_result", json!({ "id": id })).await;
        assert!(page["isError"] == true && page.to_string().contains("there is no result"), "{page}");
        let recalled = client.call("execute_code", json!({"code": format!("return await pml.result('{id}')")})).await;
        assert!(recalled["isError"] == true && recalled.to_string().contains("there is no result"), "{recalled}");
        // Another's session is not there.
        let thief = Client { server, era: Era::Legacy, session: Some(session.clone()) };
        let response = thief.ask(json!(1), "tools/list", json!({})).send().await;
        assert_eq!(response.status, 404);
        let ended = server.http("DELETE", "/mcp").header("Mcp-Session-Id", &session).send().await;
        assert_eq!(ended.status, 404);
    }
    let server = with(&mut server, &ann);
    let client = Client { server, era: Era::Legacy, session: Some(session) };
    assert!(client.is_up().await, "it is still its own client's");
}

#[tokio::test]
async fn a_name_is_in_records_and_a_token_counts_until_it_is_revoked() {
    let home = home();
    let (ann, slow) = (token(&home, "ann", None), token(&home, "turtle", Some("slow")));
    let mut server = home.http(&[]).await;
    let own = server.token.clone().unwrap();
    {
        let server = with(&mut server, &ann);
        let client = server.client(Era::Modern).await;
        assert_eq!(client.value("return await mcp.open.echo({ text: 'hi' })").await, "hi");
    }
    // A client's own pace, over all of its programs.
    {
        let client = with(&mut server, &slow).client(Era::Modern).await;
        let code = "return await mcp.open.echo({ text: 'hi' })";
        assert_eq!((client.value(code).await, client.value(code).await), (json!("hi"), json!("hi")));
        let (found, said) = failure(&client, code).await;
        assert_eq!(found, "RATE_LIMITED", "{said}");
    }
    let metrics = with(&mut server, &own).metric("pml_runs_by_caller_total{caller=\"ann\",status=\"success\"}").await;
    assert_eq!(metrics, Some(1.0));
    let whos: Vec<_> = home.audit_lines().iter().map(|line| line["who"].clone()).collect();
    assert!(whos.contains(&json!("ann")) && whos.contains(&json!("turtle")), "{whos:?}");
    let traces = stdout(&home.pml(&["trace", "list", "--client", "ann", "--json"]));
    let traces: Value = serde_json::from_str(&traces).unwrap();
    assert_eq!(traces["traces"][0]["caller"], "ann", "{traces}");

    let listed = stdout(&home.pml(&["token", "list"]));
    assert!(listed.contains("ann") && listed.contains("turtle") && listed.contains("slow"), "{listed}");
    let file = std::fs::read_to_string(home.path().join(".local/share/pml/tokens.json")).unwrap();
    assert!(!file.contains(&ann) && !file.contains(&ann[4..]), "{file}");
    assert!(home.pml(&["token", "revoke", "ann"]).status.success());
    for (token, expected) in [(&ann, 401), (&slow, 200), (&own, 200)] {
        let message =
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": super::peer::initialize("2025-11-25")});
        assert_eq!(with(&mut server, token).post(&message).send().await.status, expected);
    }
    for args in [
        &["token", "revoke", "ann"][..],
        &["token", "add", "turtle"],
        &["token", "add", "bob", "--profile", "gest"],
        &["serve", "--profile", "nobody"],
    ] {
        let output = home.pml(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("hint: "), "{args:?}: {said}");
    }
    // A profile that is gone from the configuration allows nothing any more.
    let text = std::fs::read_to_string(home.config()).unwrap();
    home.configure(text.split("[profiles.slow]").next().unwrap());
    let client = with(&mut server, &slow).client(Era::Modern).await;
    let gone = async {
        while client.value("return Object.keys(mcp)").await != json!([]) {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the profile allows nothing");
    with(&mut server, &own);
    server.end().await;
}

#[tokio::test]
async fn a_client_on_standard_input_can_have_a_profile_too() {
    let home = home();
    let mut peer = home.stdio_with(Era::Modern, &["--profile", "guest"]);
    assert_eq!(peer.value("return await mcp.open.echo({ text: 'hi' })").await, "hi");
    assert_eq!(peer.value("return Object.keys(mcp)").await, json!(["open"]));
    let result = peer.call("execute_code", json!({"code": "return await mcp.closed.echo({ text: 'x' })"})).await;
    assert_eq!(result["isError"], true, "{result}");
    peer.end().await;
    let project = home.path().join("pml.toml");
    super::peer::write_config(&project, "[profiles.guest]\n");
    let said = String::from_utf8(home.pml(&["trust", "--yes"]).stderr).unwrap();
    assert!(said.contains("profiles"), "a project's file has no say in it: {said}");
}
