//! Two gateways and a hub, each a process of its own: what one saves, the other finds and runs; and what one changes, renames,
//! deprecates or removes, the other does too.

use std::{fs, process::Output};

use pml_testkit::{
    fixture_path,
    meddler::{Meddler, Mood},
};
use serde_json::{Value, json};

use super::{
    cli::{stderr, stdout},
    hub::{Hub, key},
    peer::{Era, Home, PATIENCE},
    real_servers::installed,
    reuse::many_tools,
};

/// A gateway of this hub, with the fixture as its server `fix`.
fn gateway(address: impl std::fmt::Display, key: &str) -> Home {
    let home = Home::empty();
    configure(&home, address, key);
    home
}

fn configure(home: &Home, address: impl std::fmt::Display, key: &str) {
    let fixture = fixture_path();
    home.configure(&format!(
        "[sandbox]\nmode = \"subprocess\"\n[servers.fix]\ncommand = {:?}\ntrusted = true\n\
         [hub]\nurl = \"http://{address}\"\nkey = \"{key}\"\ninterval_ms = 50\n",
        fixture.to_str().unwrap()
    ));
}

fn parsed(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_str(&stdout(output)).unwrap()
}

fn done(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

/// Runs a program, and keeps it under a name.
fn save(home: &Home, name: &str, code: &str, visibility: &str) {
    done(&home.pml(&["run", "--intent", "add two numbers up", "-e", code]));
    done(&home.pml(&["capability", "save", "--name", name, "--visibility", visibility]));
}

fn edit(home: &Home, name: &str, code: &str) {
    let file = home.path().join("edited.ts");
    fs::write(&file, code).unwrap();
    done(&home.pml(&["capability", "edit", name, "--code", file.to_str().unwrap()]));
}

/// Syncs once, without anything left alone.
fn sync(home: &Home) -> Value {
    parsed(&home.pml(&["capability", "sync", "--json"]))
}

fn show(home: &Home, name: &str) -> Value {
    parsed(&home.pml(&["capability", "show", name, "--json"]))
}

fn names(home: &Home) -> Vec<String> {
    let list = parsed(&home.pml(&["capability", "list", "--json"]));
    let name = |capability: &Value| capability["name"].as_str().unwrap().to_owned();
    let mut names: Vec<_> = list["capabilities"].as_array().unwrap().iter().map(name).collect();
    names.sort();
    names
}

fn value(home: &Home, name: &str) -> Value {
    parsed(&home.pml(&["capability", "run", name, "--json"]))["result"].clone()
}

fn codes(home: &Home, name: &str) -> Vec<String> {
    let versions = show(home, name)["versions"].clone();
    versions.as_array().unwrap().iter().map(|version| version["code"].as_str().unwrap().to_owned()).collect()
}

const ADD: &str = "return await mcp.fix.add({ a: 2, b: 40 })";

/// A hub with two gateways of one project, each with a key of its own.
async fn team() -> (Home, Hub, Home, Home) {
    let team = Home::new("");
    let hub = Hub::start(&team).await;
    let gateways = ["ann", "bob"].map(|name| gateway(hub.address, &key(&team, name, "acme.web", "ingest,read")));
    let [ann, bob] = gateways;
    (team, hub, ann, bob)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_gateway_saves_another_finds_and_runs() {
    let (team, hub, ann, bob) = team().await;
    save(&ann, "math.sum", ADD, "project");
    save(&ann, "math.secret", "return await mcp.fix.add({ a: 1, b: 1 })", "private");
    save(&ann, "math.shared", "return await mcp.fix.add({ a: 3, b: 3 })", "org");
    let told = sync(&ann);
    assert_eq!(told["sent"], json!(["math.shared", "math.sum"]), "{told}");
    let told = sync(&bob);
    assert_eq!(told["received"].as_array().unwrap().len(), 2, "{told}");
    assert_eq!(names(&bob), ["math.shared", "math.sum"], "what is private stays at home");
    let reader = key(&team, "reader", "acme.web", "read");
    let listed = hub.get(&reader, "/api/capabilities").await;
    assert!(!listed.to_string().contains("secret"), "{listed}");
    // Another project sees what is shared with the organisation, and runs it.
    let app = gateway(hub.address, &key(&team, "app", "acme.app", "ingest,read"));
    sync(&app);
    assert_eq!((names(&app), value(&app, "math.shared")), (vec!["math.shared".to_owned()], json!(6)));

    let mut peer = bob.connected(Era::Modern).await;
    let found = peer.call("search_tools", json!({ "query": "add two numbers up" })).await;
    assert!(found["structuredContent"]["tools"].to_string().contains("capabilities:math_sum"), "{found}");
    assert_eq!(peer.value("return await mcp.capabilities.math_sum({ a: 5 })").await, 45);
    peer.end().await;
    let shown = show(&bob, "math.sum");
    assert!(shown["origin"].as_str().unwrap().starts_with("acme.web.math.sum."), "{shown}");
    assert_eq!((&shown["visibility"], &shown["stats"]["runs"]), (&json!("project"), &json!(1)), "{shown}");

    // A gateway that serves does the same by itself, from its start on.
    save(&ann, "math.later", "return await mcp.fix.add({ a: 4, b: 4 })", "project");
    let serving = ann.connected(Era::Legacy).await;
    let is_there = async || hub.get(&reader, "/api/capabilities?text=later").await.to_string().contains("math");
    for _ in 0..400 {
        if is_there().await {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(is_there().await);
    serving.end().await;
    hub.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_names_deprecations_and_removals_travel_both_ways() {
    let (_team, hub, ann, bob) = team().await;
    save(&ann, "math.sum", ADD, "project");
    sync(&ann);
    sync(&bob);
    // An edit of the copy goes to where it came from.
    edit(&bob, "math.sum", "return 'bob'");
    assert_eq!(sync(&bob)["sent"], json!(["math.sum"]));
    assert_eq!(sync(&ann)["received"], json!(["math.sum"]));
    assert_eq!((value(&ann, "math.sum"), codes(&ann, "math.sum").len()), (json!("bob"), 2));
    // Back to the code that it had before.
    edit(&ann, "math.sum", "return await mcp.fix.add({ a: 2, b: 40 })");
    sync(&ann);
    sync(&bob);
    assert_eq!(
        (value(&bob, "math.sum"), &show(&bob, "math.sum")["origin"]),
        (json!(42), &show(&bob, "math.sum")["origin"])
    );

    done(&ann.pml(&["capability", "deprecate", "math.sum", "--reason", "use math.total"]));
    done(&ann.pml(&["capability", "rename", "math.sum", "math.plus"]));
    assert_eq!(sync(&ann)["sent"], json!(["math.plus"]));
    assert_eq!(sync(&bob)["received"], json!(["math.plus"]));
    let shown = show(&bob, "math.plus");
    assert_eq!(
        (&shown["deprecated"], &shown["former_names"]),
        (&json!("use math.total"), &json!(["math.sum"])),
        "{shown}"
    );
    assert_eq!(names(&bob), ["math.plus"]);

    // Somebody else's is removed here alone, and does not come back by itself.
    done(&bob.pml(&["capability", "remove", "math.plus", "--yes"]));
    for _ in 0..2 {
        let told = sync(&bob);
        assert_eq!((&told["received"], &told["removed_there"]), (&json!([]), &json!([])), "{told}");
    }
    assert_eq!((names(&bob), names(&ann)), (Vec::new(), vec!["math.plus".to_owned()]));
    done(&bob.pml(&["capability", "sync", "--restore"]));
    assert_eq!(names(&bob), ["math.plus"]);

    // One's own is removed everywhere, also where it is not known yet that it is, and does not come back from there.
    done(&ann.pml(&["capability", "remove", "math.plus", "--yes"]));
    assert_eq!(sync(&ann)["removed_there"], json!(["math.plus"]));
    let told = sync(&bob);
    assert_eq!((&told["removed_here"], &told["sent"]), (&json!(["math.plus"]), &json!([])), "{told}");
    for home in [&ann, &bob] {
        sync(home);
        assert_eq!(names(home), [] as [&str; 0]);
    }
    // The name is free again.
    save(&ann, "math.plus", "return await mcp.fix.add({ a: 1, b: 2 })", "project");
    sync(&ann);
    sync(&bob);
    assert_eq!(value(&bob, "math.plus"), 3);
    // What becomes private is withdrawn.
    done(&ann.pml(&["capability", "edit", "math.plus", "--visibility", "private"]));
    sync(&ann);
    sync(&bob);
    assert_eq!((names(&ann), names(&bob)), (vec!["math.plus".to_owned()], Vec::new()));
    hub.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_edits_the_one_with_more_versions_wins_and_the_hub_if_there_are_as_many() {
    let (team, hub, ann, bob) = team().await;
    save(&ann, "math.sum", ADD, "project");
    sync(&ann);
    sync(&bob);
    // One edit each: whoever was at the hub first.
    edit(&ann, "math.sum", "return 'ann 1'");
    edit(&bob, "math.sum", "return 'bob 1'");
    sync(&ann);
    let told = sync(&bob);
    assert!(
        told["settled"][0][1].as_str().unwrap().contains("the hub's version 2 is used; what was here is version 2"),
        "{told}"
    );
    assert_eq!((&told["sent"], &told["received"]), (&json!([]), &json!(["math.sum"])), "{told}");
    assert_eq!(value(&bob, "math.sum"), "ann 1");
    assert!(codes(&bob, "math.sum").contains(&"return 'bob 1'".to_owned()), "nothing is lost");
    // Two against one.
    edit(&ann, "math.sum", "return 'ann 2'");
    edit(&bob, "math.sum", "return 'bob 2'");
    edit(&bob, "math.sum", "return 'bob 3'");
    sync(&ann);
    let told = sync(&bob);
    assert!(told["settled"][0][1].as_str().unwrap().contains("this side has more new versions"), "{told}");
    sync(&ann);
    assert_eq!((value(&ann, "math.sum"), value(&bob, "math.sum")), (json!("bob 3"), json!("bob 3")));
    assert!(codes(&ann, "math.sum").contains(&"return 'ann 2'".to_owned()), "nothing is lost");
    // The same edit on both sides is none.
    edit(&ann, "math.sum", "return 'same'");
    edit(&bob, "math.sum", "return 'same'");
    sync(&ann);
    let told = sync(&bob);
    assert_eq!((&told["settled"], &told["sent"], &told["received"]), (&json!([]), &json!([]), &json!([])), "{told}");
    // Edited here and removed there: it stays here, and is nobody else's.
    edit(&bob, "math.sum", "return 'kept'");
    done(&ann.pml(&["capability", "remove", "math.sum", "--yes"]));
    sync(&ann);
    let told = sync(&bob);
    assert!(told["settled"][0][1].as_str().unwrap().contains("deleted at the hub"), "{told}");
    assert_eq!((value(&bob, "math.sum"), &show(&bob, "math.sum")["visibility"]), (json!("kept"), &json!("private")));
    sync(&bob);
    sync(&ann);
    assert_eq!(names(&ann), [] as [&str; 0]);
    // Two programs that have nothing but the name in common are left alone, and that is said.
    let other = gateway(hub.address, &key(&team, "eve", "acme.web", "ingest,read"));
    save(&ann, "math.same", "return await mcp.fix.add({ a: 1, b: 1 })", "project");
    save(&other, "math.same", "return await mcp.fix.echo({ text: 'x' })", "project");
    sync(&ann);
    let left = other.pml(&["capability", "sync"]);
    assert!(left.status.code() == Some(1) && stderr(&left).contains("another program of this name"), "{left:?}");
    assert_eq!((value(&ann, "math.same"), value(&other, "math.same")), (json!(2), json!("x")));
    hub.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_that_has_not_changed_costs_one_answer_without_a_body() {
    let (team, hub, ann, bob) = team().await;
    assert_eq!(sync(&ann)["unchanged_there"], false);
    assert_eq!(sync(&ann)["unchanged_there"], true, "also if there is nothing");
    save(&ann, "math.sum", ADD, "project");
    sync(&ann);
    sync(&bob);
    // Its own change is news once.
    let told = [&ann, &ann, &bob, &bob].map(|home| sync(home)["unchanged_there"].clone());
    assert_eq!(told, [false, true, true, true]);
    // Runs change the statistics at the hub, and not the registry.
    value(&bob, "math.sum");
    done(&bob.pml(&["trace", "sync"]));
    assert_eq!(sync(&bob)["unchanged_there"], true);

    let reader = key(&team, "reader", "acme.web", "read");
    let ask = async |tag: &str| hub.http(&reader, "GET", "/api/registry").header("If-None-Match", tag).send().await;
    let first = ask("\"0\"").await;
    let tag = first.header("etag").unwrap().to_owned();
    assert_eq!((first.status, first.json().await["capabilities"].as_array().unwrap().len()), (200, 1));
    let again = ask(&tag).await;
    assert_eq!((again.status, again.header("etag").unwrap().to_owned()), (304, tag.clone()));
    assert_eq!(again.bytes().await, b"");
    // A change in another organisation is nobody's business; one in this one is.
    let foreign = gateway(hub.address, &key(&team, "else", "other.web", "ingest,read"));
    save(&foreign, "math.foreign", ADD, "org");
    sync(&foreign);
    assert_eq!(ask(&tag).await.status, 304);
    done(&ann.pml(&["capability", "edit", "math.sum", "--description", "adds"]));
    sync(&ann);
    assert_eq!(ask(&tag).await.status, 200);
    // A writer that has seen something else changes nothing.
    let id = hub.get(&reader, "/api/registry").await["capabilities"][0]["id"].as_str().unwrap().to_owned();
    let admin = key(&team, "admin", "acme.web", "admin");
    let path = format!("/api/capabilities/{id}");
    let stale = hub.http(&admin, "DELETE", &path).header("If-Match", "\"1-1\"").send().await;
    assert_eq!(stale.status, 412);
    assert_eq!(stale.json().await["code"], "CHANGED");
    // Only whoever has put it, or an admin, removes and renames it.
    let writer = key(&team, "writer", "acme.web", "ingest,read");
    assert_eq!(hub.http(&writer, "DELETE", &path).send().await.status, 403);
    let name = json!({"namespace": "math", "action": "mine"});
    assert_eq!(hub.post(&writer, &format!("{path}/name"), &name).await.status, 403);
    assert_eq!(hub.http(&admin, "DELETE", &path).send().await.status, 200);
    // What its author wrote is not taken from the author.
    let told = sync(&ann);
    assert!(told["settled"][0][1].as_str().unwrap().contains("what was written here stays"), "{told}");
    assert_eq!((names(&ann), &show(&ann, "math.sum")["visibility"]), (vec!["math.sum".to_owned()], &json!("private")));
    hub.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_is_away_refuses_or_talks_nonsense_loses_nothing() {
    let (team, hub, ann, bob) = team().await;
    save(&ann, "math.sum", ADD, "project");
    sync(&ann);
    sync(&bob);
    save(&ann, "math.next", "return await mcp.fix.add({ a: 1, b: 1 })", "project");
    let meddler = Meddler::start(hub.address).await.unwrap();
    let good = key(&team, "ann2", "acme.web", "ingest,read");
    let answer = |body: &str| {
        let length = body.len();
        Mood::Answer(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nETag: \"x\"\r\nConnection: close\r\n\r\n{body}"
        ))
    };
    let unchanged = Mood::Answer("HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n".to_owned());
    #[rustfmt::skip]
    let table = [
        // the hub                                     the key          what is said
        (Mood::Refuse,                                 good.as_str(),   "the hub cannot be reached"),
        (Mood::status(500, ""),                        &good,           "the hub refuses: 500"),
        (answer("{\"hub\": 7"),                        &good,           "the hub's answer cannot be read"),
        (answer("<html>welcome</html>"),               &good,           "is this the address of a hub?"),
        (Mood::Answer("no HTTP at all".to_owned()),    &good,           "the hub cannot be reached"),
        (unchanged,                                    &good,           "the hub refuses: 304"),
        (Mood::Pass,                                   "pml_hub_no",    "set PML_HUB_KEY"),
    ];
    for (number, (mood, key, said)) in table.into_iter().enumerate() {
        meddler.usually(mood);
        configure(&ann, meddler.address, key);
        let output = ann.pml(&["capability", "sync"]);
        assert!(output.status.code() == Some(1) && stderr(&output).contains(said), "{number}: {output:?}");
        assert_eq!(names(&ann), ["math.next", "math.sum"], "{number}");
    }
    // Another database, without anything in it, takes nothing away: it gets what was written here.
    let new_team = Home::new("");
    let empty = Hub::start(&new_team).await;
    configure(&ann, empty.address, &key(&new_team, "ann", "acme.web", "ingest,read"));
    assert_eq!(sync(&ann)["sent"], json!(["math.next", "math.sum"]));
    configure(&bob, empty.address, &key(&new_team, "bob", "acme.web", "ingest,read"));
    sync(&bob);
    assert_eq!(names(&bob), ["math.next", "math.sum"], "the copy is that of the new hub");
    // What is hostile is left out, and said.
    let many = json!({ "hub": "f00", "removed": ["no id", "*"], "capabilities": [
        { "id": "../../traces", "org": "a", "project": "b", "namespace": "x", "action": "y", "visibility": "org", "tag": "1",
          "version": 1, "mayChange": true, "mayRemove": true },
    ] });
    meddler.usually(answer(&many.to_string()));
    configure(&bob, meddler.address, &good);
    let told = sync(&bob);
    assert_eq!((&told["received"], &told["removed_here"]), (&json!([]), &json!([])), "{told}");
    assert_eq!(names(&bob), ["math.next", "math.sum"]);
    // The hub of before is there again, with what it had.
    configure(&ann, hub.address, &good);
    sync(&ann);
    assert_eq!(names(&ann), ["math.next", "math.sum"]);
    hub.end().await;
    empty.end().await;
    let away = ann.pml(&["capability", "sync"]);
    assert!(away.status.code() == Some(1) && stderr(&away).contains("check the address"), "{away:?}");
}

/// A gateway with two published servers, and another one with 320 tools that have nothing to do with them.
fn gateway_with_published_servers(hub: &Hub, key: &str) -> Home {
    let home = Home::empty();
    let (fixture, replay) = (fixture_path(), many_tools(home.path()));
    let filesystem = installed("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
    home.configure(&format!(
        "[sandbox]\nmode = \"subprocess\"\n\
         [servers.work]\ncommand = {:?}\nargs = [\"--replay\", {:?}]\n\
         [servers.files]\ncommand = \"node\"\nargs = [{filesystem:?}, {:?}]\nstart_timeout_ms = 60000\n\
         [servers.time]\ncommand = {:?}\nargs = [\"--local-timezone\", \"UTC\"]\nstart_timeout_ms = 60000\n\
         [hub]\nurl = \"http://{}\"\nkey = \"{key}\"\ninterval_ms = 50\n",
        fixture.to_str().unwrap(),
        replay.to_str().unwrap(),
        home.path().to_str().unwrap(),
        installed("python/bin/mcp-server-time"),
        hub.address,
    ));
    home
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_client_solved_another_finds_first_and_calls_with_other_arguments() {
    let team = Home::new("");
    let hub = Hub::start(&team).await;
    let key = key(&team, "ann", "acme.web", "ingest,read");
    let home = gateway_with_published_servers(&hub, &key);
    let (standup, review) = (home.path().join("standup.txt"), home.path().join("review.txt"));
    fs::write(&standup, "09:30").unwrap();
    fs::write(&review, "14:00").unwrap();
    let code = format!(
        "const start = await mcp.files.read_text_file({{ path: {standup:?} }});\n\
         const there = await mcp.time.convert_time({{ source_timezone: 'UTC', time: start.trim(), target_timezone: 'Asia/Tokyo' }});\n\
         return there.target.datetime.slice(11, 16)"
    );
    let intent = "read from its file when the standup begins and tell what time that is in Tokyo";
    let mut first = home.connected(Era::Legacy).await;
    let saved = first.call("execute_code", json!({ "code": code, "intent": intent, "save_as": "meetings.when" })).await;
    assert_eq!(saved["structuredContent"]["result"], "18:30", "{saved}");
    let parameters = &saved["structuredContent"]["saved"]["parameters"]["properties"];
    assert!(parameters["path"].is_object() && parameters["target_timezone"].is_object(), "{saved}");
    first.end().await;

    let mut second = home.connected(Era::Modern).await;
    let query = "tell me from the notes of the review at what hour it begins, by the clock of Kolkata";
    let found = second.call("search_tools", json!({ "query": query })).await["structuredContent"].clone();
    assert!(found["searched"].as_u64() > Some(320), "{found}");
    assert_eq!(found["tools"][0]["name"], "capabilities:meetings_when", "{found}");
    // An intent gives the same, and runs nothing.
    let suggested = second.call("execute_workflow", json!({ "intent": query })).await["structuredContent"].clone();
    assert_eq!(
        (&suggested["status"], &suggested["tasks"][0]["tool"]),
        (&json!("capability"), &found["tools"][0]["name"])
    );
    let program =
        format!("return await mcp.capabilities.meetings_when({{ path: {review:?}, target_timezone: 'Asia/Kolkata' }})");
    let called = second.call("execute_code", json!({ "code": program, "intent": query })).await;
    assert_eq!(called["structuredContent"]["result"], "19:30", "{called}");
    second.end().await;

    // Here and at the hub there is the run that called, and below it the run that was called.
    let exported = home.pml(&["trace", "export"]);
    let all: Vec<Value> = stdout(&exported).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let parent = all.iter().find(|trace| trace["intent"] == query && trace["entry"] == "execute_code");
    let parent = parent.unwrap_or_else(|| panic!("{all:?}"));
    let child =
        all.iter().find(|trace| trace["parentTraceId"] == parent["traceId"]).unwrap_or_else(|| panic!("{all:?}"));
    assert_eq!(
        (&child["entry"], &parent["taskResults"][0]["tool"]),
        (&json!("capability"), &json!("capabilities:meetings_when"))
    );
    let tools: Vec<_> = child["taskResults"].as_array().unwrap().iter().map(|task| task["tool"].clone()).collect();
    assert_eq!(tools, ["files:read_text_file", "time:convert_time"]);
    let of = |trace: &Value| trace["traceId"].as_str().unwrap().to_owned();
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let there = hub.ids(&key).await;
        if [parent, child].iter().all(|trace| there.contains(&of(trace))) {
            break;
        }
        assert!(tokio::time::Instant::now() < until, "{there:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let there = hub.get(&key, &format!("/api/traces/{}", of(child))).await;
    assert_eq!(there["parentTraceId"], parent["traceId"], "{there}");
    assert!(there["capabilityId"].as_str().unwrap().starts_with("local.default.meetings.when."), "{there}");
    hub.end().await;
}
