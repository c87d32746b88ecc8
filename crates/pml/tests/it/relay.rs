//! Requests that are passed on for a client, over every transport, in every era.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use pml::{
    broker::{Passthrough, Policy},
    events::Body,
    trace::Context,
    upstream::{Failure, Forward, HealthState, Isolation, Kind, Owner, RpcError, ServerMessage, Upstream},
};
use pml_wire::{ErrorCode, trace::Entry};
use serde_json::{Map, Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use super::gateway::{Gateway, MATRIX, Server, Way, fixture};

const ITEM: &str = "fixture://item/1";

/// The fixture, told that there is a client.
fn relayed(way: Way, era: &str, arguments: &[&str]) -> Server {
    fixture(way, era, arguments).with(|settings| settings.relays = true)
}

fn legacy_ways() -> impl Iterator<Item = Way> {
    MATRIX.into_iter().filter(|(_, era)| *era == "legacy").map(|(way, _)| way)
}

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn request(method: &str, params: Value) -> Forward<'_> {
    Forward { method, params: map(params), meta: Map::new(), name: None, headers: Vec::new(), relay: None, owner: None }
}

fn tool(name: &str, arguments: Value) -> Forward<'_> {
    Forward { name: Some(name), ..request("tools/call", json!({"name": name, "arguments": arguments})) }
}

fn relay_to<'a>(relay: &mpsc::Sender<ServerMessage>, forward: Forward<'a>) -> Forward<'a> {
    Forward { relay: Some(relay.clone()), ..forward }
}

/// The result as it was sent. Fails the test rather than wait for ever.
async fn text(upstream: &Upstream, forward: Forward<'_>) -> Result<String, RpcError> {
    let answer = timeout(Duration::from_secs(30), upstream.forward(forward)).await.expect("an answer in time");
    Ok(answer.unwrap_or_else(|failure| panic!("{failure:?}"))?.text.get().to_owned())
}

async fn value(upstream: &Upstream, forward: Forward<'_>) -> Value {
    serde_json::from_str(&text(upstream, forward).await.unwrap()).unwrap()
}

async fn failure(upstream: &Upstream, forward: Forward<'_>) -> Failure {
    let answer = timeout(Duration::from_secs(30), upstream.forward(forward)).await.expect("an answer in time");
    answer.expect_err("a failure")
}

async fn counters(upstream: &Upstream) -> Value {
    value(upstream, tool("counters", json!({}))).await["structuredContent"].take()
}

/// Waits until the fixture has counted that.
async fn counted(upstream: &Upstream, counter: &str, expected: u64) {
    let mut last = json!(null);
    for _ in 0..200 {
        last = counters(upstream).await;
        if last[counter].as_u64().unwrap_or(0) == expected {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("{counter} is not {expected}: {last}");
}

/// The next thing that is said.
async fn said(heard: &mut mpsc::Receiver<ServerMessage>) -> ServerMessage {
    timeout(Duration::from_secs(10), heard.recv()).await.expect("something is said").expect("somebody can say it")
}

fn parse(raw: &serde_json::value::RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap()
}

#[tokio::test]
async fn results_and_errors_pass_as_they_were_written() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![relayed(way, era, &[])]);
        let server = gateway.server("fix");
        let whole = text(server, tool("verbatim", json!({}))).await.unwrap();
        let expected = concat!(
            r#"{"content":[{"type":"new","x":[1.0,null]},{"type":"text","text":"a","_meta":{"vendor":1}}],"#,
            r#""structuredContent":[1,{"deep":{"z":1,"a":2}}],"isError":"perhaps","vendor/field":{"b":1,"a":2},"#,
            r#""_meta":{"vendor/key":true}"#
        );
        assert!(whole.starts_with(expected), "{way:?} {era}: {whole}");
        let read = text(server, request("resources/read", json!({"uri": ITEM}))).await.unwrap();
        assert!(read.contains(r#""vendor":null}],"vendor/field":{"b":1,"a":2.5}"#), "{way:?} {era}: {read}");
        let error = text(server, request("resources/read", json!({"uri": "no:such"}))).await.unwrap_err();
        let code = if era == "modern" { -32602 } else { -32002 };
        let data = Some(json!({"uri": "no:such", "vendor": [1]}));
        assert_eq!(error, RpcError { code, message: "Resource not found".to_owned(), data }, "{way:?} {era}");
        let error = text(server, request("no/such/method", json!({}))).await.unwrap_err();
        assert_eq!(error.code, -32601, "{way:?} {era}");
        let prompt =
            value(server, request("prompts/get", json!({"name": "greet", "arguments": {"name": "Ada"}}))).await;
        assert_eq!(prompt["messages"][0]["content"]["text"], "greet Ada");
        let argument = json!({"name": "name", "value": "A"});
        let completion = json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": argument});
        let completed = value(server, request("completion/complete", completion)).await;
        assert_eq!(completed["completion"]["values"], json!(["Ada", "Alan"]));
        // A text that could leave the message is no method.
        let failure = failure(server, request("a\",\"b", json!({}))).await;
        assert_eq!(failure.code, ErrorCode::ProviderProtocol);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn odd_answers_pass_or_fail_but_never_hang() {
    let table = [
        ("content-string", Some(r#"{"content":"odd","isError":false}"#)),
        ("content-null", Some(r#"{"content":null,"isError":false}"#)),
        ("empty", Some("{}")),
        ("error-null", Some(r#"{"content":[{"type":"text","text":"odd"}],"isError":false}"#)),
        ("string-id", Some(r#"{"content":[{"type":"text","text":"odd"}],"isError":false}"#)),
        ("null-result", None),
        ("no-result", None),
    ];
    let gateway = Gateway::start(vec![relayed(Way::Stdio, "legacy", &[])]);
    for (kind, whole) in table {
        let answer = gateway.server("fix").forward(tool("odd", json!({"kind": kind}))).await;
        match whole {
            Some(whole) => assert_eq!(answer.unwrap().unwrap().text.get(), whole, "{kind}"),
            None => assert_eq!(answer.unwrap_err().code, ErrorCode::ProviderProtocol, "{kind}"),
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_client_speaks_for_itself_where_pml_does_not() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![relayed(way, era, &[])]);
        let meta = map(json!({
            "progressToken": "theirs",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "vendor/key": [1],
            "io.modelcontextprotocol/protocolVersion": "1999-01-01",
            "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        }));
        let seen = value(gateway.server("fix"), Forward { meta, ..tool("meta", json!({})) }).await;
        let seen = &seen["structuredContent"]["meta"];
        assert!(seen["progressToken"].is_u64(), "{way:?} {era}: {seen}");
        assert!(seen["traceparent"].as_str().unwrap().contains("b7ad6b7169203331"));
        assert_eq!(seen["vendor/key"], json!([1]));
        match era {
            "modern" => {
                assert_eq!(seen["io.modelcontextprotocol/clientCapabilities"], json!({"elicitation": {}}));
                assert_eq!(seen["io.modelcontextprotocol/clientInfo"]["name"], "pml");
                assert_eq!(seen["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
            }
            _ => assert_eq!(seen.as_object().unwrap().len(), 3, "{seen}"),
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn lists_are_whole_and_bounded_and_empty_where_there_is_nothing() {
    let all = [(Kind::Resources, 5), (Kind::ResourceTemplates, 1), (Kind::Prompts, 3)];
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![relayed(way, era, &["--fault", "pages"])]);
        for (kind, count) in all {
            let list = gateway.server("fix").list(kind).await.unwrap();
            assert_eq!(list.len(), count, "{way:?} {era} {kind:?}");
        }
        assert_eq!(gateway.server("fix").list(Kind::Resources).await.unwrap()[4]["vendor"]["number"], 5);
        gateway.stop().await;
    }
    for (fault, factor) in [("tools-only", 0), ("same-cursor", 2)] {
        let gateway = Gateway::start(vec![relayed(Way::Stdio, "both", &["--fault", fault])]);
        for (kind, count) in all {
            assert_eq!(gateway.server("fix").list(kind).await.unwrap().len(), count * factor, "{fault} {kind:?}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn what_a_server_declares_is_known_also_before_it_runs_again() {
    for era in ["legacy", "modern"] {
        let gateway = Gateway::start(vec![relayed(Way::Stdio, era, &[])]);
        assert!(gateway.server("fix").declared().is_none() && gateway.server("fix").version().is_none());
        gateway.server("fix").init().await.unwrap();
        let declared = gateway.server("fix").declared().unwrap();
        assert_eq!(declared.instructions.as_deref(), Some("A server for tests."));
        assert_eq!(declared.capabilities["resources"]["subscribe"], true);
        assert_eq!(declared.info["name"], "fixture");
        assert_eq!(gateway.server("fix").is_modern(), era == "modern");
        let folder = gateway.stop().await;
        let again = Gateway::with(vec![relayed(Way::Stdio, era, &[])], Policy::default(), folder);
        assert_eq!(again.server("fix").declared(), Some(declared));
        assert_eq!(again.server("fix").is_modern(), era == "modern");
        assert_eq!(again.server("fix").health().state, HealthState::Idle);
        // Without a client it may be another server.
        let folder = again.stop().await;
        let other = Gateway::with(vec![fixture(Way::Stdio, era, &[])], Policy::default(), folder);
        assert!(other.server("fix").declared().is_none());
        other.stop().await;
    }
}

#[tokio::test]
async fn progress_and_logs_reach_the_one_who_asked() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![relayed(way, era, &[])]);
        let (server, (relay, mut heard)) = (gateway.server("fix"), mpsc::channel(100));
        value(server, relay_to(&relay, tool("sleep", json!({"ms": 100, "progress": 5})))).await;
        for step in 1..=5 {
            let ServerMessage::Progress(params) = said(&mut heard).await else { panic!("no progress") };
            assert_eq!(
                (&parse(&params)["progress"], &parse(&params)["total"]),
                (&json!(step), &json!(5)),
                "{way:?} {era}"
            );
        }
        let meta = map(json!({"io.modelcontextprotocol/logLevel": "info"}));
        value(server, Forward { meta, ..relay_to(&relay, tool("log", json!({"count": 3}))) }).await;
        for number in 0..3 {
            let ServerMessage::Log(params) = said(&mut heard).await else { panic!("no log") };
            assert_eq!(parse(&params)["data"]["number"], number, "{way:?} {era}");
        }
        // Nobody listens: the bus hears of it.
        if era == "legacy" {
            value(server, tool("log", json!({"count": 1}))).await;
            let event = gateway.event(|body| matches!(body, Body::Log { .. })).await;
            let Body::Log { level, logger, data, .. } = event.body else { panic!("no log") };
            assert_eq!((level.as_str(), logger.as_deref(), &data["number"]), ("info", Some("fixture"), &json!(0)));
        }
        assert!(heard.try_recv().is_err());
        assert_eq!(server.health().dropped, 0);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn what_a_server_asks_is_asked_of_the_client() {
    for way in legacy_ways() {
        let gateway = Gateway::start(vec![relayed(way, "legacy", &[])]);
        let (server, (relay, mut heard)) = (gateway.server("fix"), mpsc::channel(8));
        for asked in ["elicitation/create", "sampling/createMessage", "roots/list"] {
            let call = value(server, relay_to(&relay, tool("ask_one", json!({"method": asked}))));
            let client = async {
                let ServerMessage::Ask { method, params, reply } = said(&mut heard).await else {
                    panic!("no question")
                };
                assert_eq!(method, asked);
                assert!(parse(&params).is_object());
                reply.send(Ok(json!({"echo": method, "vendor": {"x": [1]}}))).unwrap();
            };
            let (answer, ()) = tokio::join!(call, client);
            let expected = json!({"echo": asked, "vendor": {"x": [1]}});
            assert_eq!(answer["structuredContent"]["result"], expected, "{way:?}");
        }
        // An error of the client is the server's, and so is silence.
        for is_refused in [true, false] {
            let call = value(server, relay_to(&relay, tool("ask_one", json!({"method": "roots/list"}))));
            let client = async {
                let ServerMessage::Ask { reply, .. } = said(&mut heard).await else { panic!("no question") };
                if is_refused {
                    let error = RpcError { code: -1, message: "no \"way\"".to_owned(), data: Some(json!({"a": 1})) };
                    reply.send(Err(error)).unwrap();
                }
            };
            let (answer, ()) = tokio::join!(call, client);
            let error = &answer["structuredContent"]["error"];
            match is_refused {
                true => assert_eq!(error, &json!({"code": -1, "message": "no \"way\"", "data": {"a": 1}}), "{way:?}"),
                false => assert_eq!(error["code"], -32603, "{way:?}"),
            }
        }
        // Nobody is there to be asked: it is as with programs.
        let answer = value(server, tool("ask_one", json!({"method": "roots/list"}))).await;
        assert_eq!(answer["structuredContent"]["error"]["code"], -32601, "{way:?}");
        if way == Way::Http {
            assert_eq!(counters(server).await["versioned_responses"], 6);
        }
        server.roots_changed();
        counted(server, "roots_changes", 1).await;
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_question_of_the_new_era_passes_with_its_answer() {
    for way in [Way::Stdio, Way::Http] {
        let gateway = Gateway::start(vec![relayed(way, "modern", &[])]);
        let server = gateway.server("fix");
        let first = text(server, tool("ask_one", json!({"method": "elicitation/create"}))).await.unwrap();
        assert!(first.contains(r#""vendor":{"b":1,"a":2}"#), "{first}");
        let first: Value = serde_json::from_str(&first).unwrap();
        assert_eq!(first["resultType"], "input_required");
        let mut second = tool("ask_one", json!({"method": "elicitation/create"}));
        let responses = json!({"one": {"action": "accept", "content": {"name": "Ada"}}});
        second.params.insert("inputResponses".to_owned(), responses.clone());
        second.params.insert("requestState".to_owned(), first["requestState"].clone());
        let answer = value(server, second).await;
        assert_eq!(answer["structuredContent"], json!({"answer": responses, "state": "opaque state"}), "{way:?}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn no_request_is_passed_on_before_the_server_can_ask() {
    let gateway = Gateway::start(vec![relayed(Way::Http, "legacy", &["--fault", "slow-get=400"])]);
    let counters = counters(gateway.server("fix")).await;
    assert_eq!(counters["streams"], 1, "{counters}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_question_belongs_to_the_stream_it_comes_on_or_to_the_last_request_of_the_only_client() {
    for (way, is_alone) in legacy_ways().flat_map(|way| [(way, true), (way, false)]) {
        let gateway = Gateway::start(vec![relayed(way, "legacy", &[])]);
        let server = gateway.server("fix");
        server.init().await.unwrap();
        let ((first, mut first_heard), (last, mut last_heard)) = (mpsc::channel(8), mpsc::channel(8));
        let one_client = Owner::new(Arc::new(1));
        let other_client = if is_alone { one_client.clone() } else { Owner::new(Arc::new(1)) };
        let of = |owner: Owner, forward| Forward { owner: Some(owner), ..forward };
        // The first asks when the last is there.
        let question = json!({"method": "roots/list", "ms": 1500});
        let one = value(server, of(one_client, relay_to(&first, tool("ask_one", question))));
        let two = async {
            sleep(Duration::from_millis(300)).await;
            let long = relay_to(&last, tool("sleep", json!({"ms": 3000, "progress": 1})));
            value(server, of(other_client, long)).await
        };
        // Only HTTP has a stream for each request. On the others it is not known whose question it is, so that
        // nobody is asked what may be another's.
        let asked = match (way, is_alone) {
            (Way::Http, _) => Some(&mut first_heard),
            (Way::Stdio | Way::Sse, true) => Some(&mut last_heard),
            (Way::Stdio | Way::Sse, false) => None,
        };
        let is_asked = asked.is_some();
        let client = async {
            if let Some(heard) = asked {
                let ServerMessage::Ask { reply, .. } = said(heard).await else { panic!("no question") };
                reply.send(Ok(json!({"roots": []}))).unwrap();
            }
        };
        let (answer, slept, ()) = tokio::join!(one, two, client);
        let answer = &answer["structuredContent"];
        match is_asked {
            true => assert_eq!(answer["result"], json!({"roots": []}), "{way:?} {is_alone}"),
            false => assert_eq!(answer["error"]["code"], -32603, "{way:?} {is_alone}: {answer}"),
        }
        assert!(slept["content"].is_array());
        // Progress has a token, whoever was last.
        assert!(matches!(said(&mut last_heard).await, ServerMessage::Progress(_)), "{way:?} {is_alone}");
        assert!(first_heard.try_recv().is_err() && last_heard.try_recv().is_err(), "{way:?} {is_alone}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_person_may_take_longer_than_a_server() {
    // At the same time, since it takes long.
    futures_util::future::join_all(legacy_ways().map(async |way| {
        let server = relayed(way, "legacy", &[]).with(|settings| {
            settings.call_timeout = Duration::from_secs(2);
            settings.max_call = Duration::from_secs(8);
        });
        let gateway = Gateway::start(vec![server]);
        let (server, (relay, mut heard)) = (gateway.server("fix"), mpsc::channel(8));
        server.init().await.unwrap();
        let call = value(server, relay_to(&relay, tool("ask_one", json!({"method": "elicitation/create"}))));
        let person = async {
            let ServerMessage::Ask { reply, .. } = said(&mut heard).await else { panic!("no question") };
            sleep(Duration::from_millis(3500)).await;
            reply.send(Ok(json!({"action": "accept"}))).unwrap();
        };
        let (answer, ()) = tokio::join!(call, person);
        assert_eq!(answer["structuredContent"]["result"]["action"], "accept", "{way:?}");
        // But not for ever, and silence is still silence.
        let call = failure(server, relay_to(&relay, tool("ask_one", json!({"method": "elicitation/create"}))));
        let person = async {
            let ServerMessage::Ask { mut reply, .. } = said(&mut heard).await else { panic!("no question") };
            timeout(Duration::from_secs(20), reply.closed()).await.expect("nobody waits any more");
        };
        let (ended, ()) = tokio::join!(call, person);
        assert!(ended.message.contains("8s in all"), "{way:?}: {ended:?}");
        let ended = failure(server, relay_to(&relay, tool("sleep", json!({"ms": 6000})))).await;
        assert!(ended.message.contains("within 2s"), "{way:?}: {ended:?}");
        gateway.stop().await;
    }))
    .await;
}

#[tokio::test]
async fn who_gives_up_takes_its_questions_along() {
    for way in legacy_ways() {
        let gateway = Gateway::start(vec![relayed(way, "legacy", &[])]);
        let (server, (relay, mut heard)) = (gateway.server("fix"), mpsc::channel(8));
        // The client gives up its request.
        let question = {
            let call = server.forward(relay_to(&relay, tool("ask_one", json!({"method": "roots/list"}))));
            tokio::select! {
                answer = call => panic!("{answer:?}"),
                asked = said(&mut heard) => asked,
            }
        };
        let ServerMessage::Ask { reply, .. } = question else { panic!("no question") };
        assert!(reply.is_closed(), "{way:?}");
        counted(server, "responses", 1).await;
        // The server gives up its question.
        let call = value(server, relay_to(&relay, tool("misask", json!({"kind": "cancel"}))));
        let client = async {
            let ServerMessage::Ask { mut reply, .. } = said(&mut heard).await else { panic!("no question") };
            timeout(Duration::from_secs(5), reply.closed()).await.expect("the server does not wait");
            Instant::now()
        };
        let call = async { (call.await, Instant::now()) };
        let ((answer, ended), closed) = tokio::join!(call, client);
        assert!(closed + Duration::from_millis(200) < ended, "{way:?}");
        assert_eq!(answer["structuredContent"]["answer"], json!(null), "{way:?}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_request_that_is_given_up_is_cancelled() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![relayed(way, era, &[])]);
        let server = gateway.server("fix");
        server.init().await.unwrap();
        let call = server.forward(tool("sleep", json!({"ms": 60_000})));
        assert!(timeout(Duration::from_millis(300), call).await.is_err());
        counted(server, "cancelled", 1).await;
        gateway.stop().await;
    }
}

#[tokio::test]
async fn ten_thousand_questions_harm_nobody() {
    for way in legacy_ways() {
        let gateway = Gateway::start(vec![relayed(way, "legacy", &[])]);
        let (server, (relay, mut heard)) = (gateway.server("fix"), mpsc::channel(1000));
        let flood = relay_to(&relay, tool("misask", json!({"kind": "flood", "count": 10_000})));
        let answer = value(server, flood).await;
        let mut open = 0;
        while let Ok(ServerMessage::Ask { reply, .. }) = heard.try_recv() {
            open += 1;
            assert!(reply.is_closed(), "{way:?}");
        }
        assert_eq!((open, &answer["structuredContent"]["answered"]), (64, &json!(0)), "{way:?}: {answer}");
        // The connection lives on, and so do questions.
        let call = value(server, relay_to(&relay, tool("ask_one", json!({"method": "roots/list"}))));
        let client = async {
            let ServerMessage::Ask { reply, .. } = said(&mut heard).await else { panic!("no question") };
            reply.send(Ok(json!({}))).unwrap();
        };
        let (answer, ()) = tokio::join!(call, client);
        assert_eq!(answer["structuredContent"]["result"], json!({}), "{way:?}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_question_asked_twice_is_answered_once() {
    for way in legacy_ways() {
        let gateway = Gateway::start(vec![relayed(way, "legacy", &[])]);
        let (server, (relay, mut heard)) = (gateway.server("fix"), mpsc::channel(8));
        let call = value(server, relay_to(&relay, tool("misask", json!({"kind": "duplicate"}))));
        let client = async {
            let ServerMessage::Ask { method, reply, .. } = said(&mut heard).await else { panic!("no question") };
            assert_eq!(method, "elicitation/create");
            sleep(Duration::from_millis(200)).await;
            reply.send(Ok(json!({"n": 1}))).unwrap();
        };
        let (answer, ()) = tokio::join!(call, client);
        assert_eq!(answer["structuredContent"]["result"], json!({"n": 1}), "{way:?}");
        assert!(heard.try_recv().is_err(), "{way:?}");
        assert_eq!(server.health().noise, 1, "{way:?}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn what_comes_late_is_nobodys() {
    for way in [Way::Stdio, Way::Sse] {
        let gateway = Gateway::start(vec![relayed(way, "legacy", &[])]);
        let (server, (relay, mut heard)) = (gateway.server("fix"), mpsc::channel(8));
        let round = value(server, relay_to(&relay, tool("misask", json!({"kind": "late"})))).await;
        let round: u64 = round["structuredContent"]["id"].as_str().unwrap().split('-').nth(1).unwrap().parse().unwrap();
        sleep(Duration::from_millis(500)).await;
        // It was answered as if there were no client.
        let answer = value(server, tool("misask", json!({"kind": "answer", "count": round}))).await;
        assert_eq!(answer["structuredContent"]["error"]["code"], -32601, "{way:?}: {answer}");
        assert!(heard.try_recv().is_err(), "{way:?}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_client_that_is_slow_or_gone_holds_up_nobody() {
    for way in legacy_ways() {
        for is_gone in [false, true] {
            let gateway = Gateway::start(vec![relayed(way, "legacy", &[])]);
            let (server, (relay, mut heard)) = (gateway.server("fix"), mpsc::channel(1));
            if is_gone {
                heard.close();
            }
            value(server, relay_to(&relay, tool("log", json!({"count": 5000, "bytes": 1000})))).await;
            value(server, relay_to(&relay, tool("sleep", json!({"ms": 100, "progress": 10})))).await;
            let answer = value(server, relay_to(&relay, tool("ask_one", json!({"method": "roots/list"})))).await;
            assert_eq!(answer["structuredContent"]["error"]["code"], -32603, "{way:?} {is_gone}");
            let dropped = if is_gone { 5010 } else { 5009 };
            assert_eq!(server.health().dropped, dropped, "{way:?} {is_gone}");
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn programs_and_clients_share_a_server() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![relayed(way, era, &[])]);
        let server = gateway.server("fix");
        server.init().await.unwrap();
        let slow = value(server, tool("sleep", json!({"ms": 2000})));
        let program = async {
            sleep(Duration::from_millis(200)).await;
            let code = r#"const [echo, sum] = await Promise.all([mcp.fix.echo({ text: "x" }), mcp.fix.add({ a: 2, b: 3 })]);
                return { echo, sum };"#;
            gateway.value(code).await
        };
        let (_, value) = tokio::join!(slow, program);
        assert_eq!(value, json!({"echo": "x", "sum": 5}), "{way:?} {era}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_watched_resource_is_told_of_until_it_is_not() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![relayed(way, era, &[])]);
        let server = gateway.server("fix");
        server.init().await.unwrap();
        // The stream for notifications may take a moment to open.
        sleep(Duration::from_millis(300)).await;
        let (one, same, other) = tokio::join!(server.watch(ITEM), server.watch(ITEM), server.watch("fixture://item/2"));
        let (one, same, other) = (one.unwrap(), same.unwrap(), other.unwrap());
        assert_eq!(one.uri(), ITEM);
        let told = |uri: &str| {
            let uri = uri.to_owned();
            move |body: &Body| *body == Body::ResourceUpdated { server: "fix".to_owned(), uri: uri.clone() }
        };
        for uri in [ITEM, "fixture://item/2", "fixture://item/3"] {
            value(server, tool("touch", json!({"uri": uri}))).await;
        }
        gateway.event(told(ITEM)).await;
        gateway.event(told("fixture://item/2")).await;
        drop(one);
        value(server, tool("touch", json!({"uri": ITEM}))).await;
        gateway.event(told(ITEM)).await;
        // The last one ends it.
        drop((same, other));
        match era {
            "legacy" => {
                counted(server, "watched", 0).await;
                let counters = counters(server).await;
                assert_eq!((&counters["subscribes"], &counters["unsubscribes"]), (&json!(2), &json!(2)), "{way:?}");
            }
            _ => counted(server, "subscriptions", 1).await,
        }
        for _ in 0..3 {
            let refused = timeout(Duration::from_secs(10), server.watch("no:such")).await.expect("an answer each time");
            assert!(refused.is_err(), "{way:?} {era}");
        }
        let again = server.watch(ITEM).await.unwrap();
        value(server, tool("touch", json!({"uri": ITEM}))).await;
        gateway.event(told(ITEM)).await;
        drop(again);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_comes_back_is_told_again_what_is_wanted() {
    for (way, era) in [(Way::Stdio, "legacy"), (Way::Stdio, "modern")] {
        let gateway = Gateway::start(vec![relayed(way, era, &[])]);
        let server = gateway.server("fix");
        let _watch = server.watch(ITEM).await.unwrap();
        server.set_log_level("debug");
        if era == "legacy" {
            counted(server, "level_debug", 1).await;
        }
        let crash = failure(server, tool("crash", json!({}))).await;
        assert_eq!(crash.code, ErrorCode::ProviderCrashed, "{crash:?}");
        gateway.event(|body| matches!(body, Body::Reconnected { .. })).await;
        match era {
            "legacy" => {
                counted(server, "watched", 1).await;
                counted(server, "level_debug", 1).await;
            }
            _ => counted(server, "listens", 1).await,
        }
        value(server, tool("touch", json!({"uri": ITEM}))).await;
        gateway.event(|body| matches!(body, Body::ResourceUpdated { .. })).await;
        gateway.stop().await;
    }
    // So is one that has only forgotten the session.
    let gateway = Gateway::start(vec![relayed(Way::Http, "legacy", &["--fault", "expire-session=3"])]);
    let server = gateway.server("fix");
    let _watch = server.watch(ITEM).await.unwrap();
    for _ in 0..5 {
        value(server, tool("echo", json!({"text": "x"}))).await;
    }
    let mut subscribes = json!(null);
    for _ in 0..100 {
        // Not more calls than a session bears.
        sleep(Duration::from_millis(50)).await;
        subscribes = counters(server).await["subscribes"].take();
        if subscribes.as_u64() >= Some(2) {
            break;
        }
    }
    assert!(subscribes.as_u64() >= Some(2), "{subscribes}");
    gateway.stop().await;
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused() {
    let per_call = |server: Server| server.with(|settings| settings.isolation = Isolation::PerCall);
    let table = [
        relayed(Way::Stdio, "both", &["--fault", "tools-only"]),
        relayed(Way::Stdio, "modern", &["--fault", "no-listen"]),
        per_call(relayed(Way::Stdio, "both", &[])),
    ];
    for server in table {
        let gateway = Gateway::start(vec![server]);
        let failure = gateway.server("fix").watch(ITEM).await.unwrap_err();
        assert_eq!(failure.code, ErrorCode::ProviderProtocol, "{failure:?}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn other_lists_that_change_are_told() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![relayed(way, era, &[])]);
        let server = gateway.server("fix");
        server.init().await.unwrap();
        sleep(Duration::from_millis(300)).await;
        value(server, tool("change", json!({"what": "resources"}))).await;
        gateway.event(|body| *body == Body::ResourcesChanged { server: "fix".to_owned() }).await;
        value(server, tool("change", json!({"what": "prompts"}))).await;
        gateway.event(|body| *body == Body::PromptsChanged { server: "fix".to_owned() }).await;
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_process_per_call_serves_clients_too() {
    let server = relayed(Way::Stdio, "legacy", &[]).with(|settings| settings.isolation = Isolation::PerCall);
    let gateway = Gateway::start(vec![server]);
    let (server, (relay, mut heard)) = (gateway.server("fix"), mpsc::channel(8));
    let first = value(server, tool("pid", json!({}))).await;
    let second = value(server, tool("pid", json!({}))).await;
    assert_ne!(first["structuredContent"]["pid"], second["structuredContent"]["pid"]);
    assert_eq!(server.list(Kind::Prompts).await.unwrap().len(), 3);
    assert!(value(server, request("resources/read", json!({"uri": ITEM}))).await["contents"].is_array());
    let call = value(server, relay_to(&relay, tool("ask_one", json!({"method": "roots/list"}))));
    let client = async {
        let ServerMessage::Ask { reply, .. } = said(&mut heard).await else { panic!("no question") };
        reply.send(Ok(json!({"roots": []}))).unwrap();
    };
    let (answer, ()) = tokio::join!(call, client);
    assert_eq!(answer["structuredContent"]["result"], json!({"roots": []}));
    gateway.stop().await;
}

fn passthrough(name: &str, arguments: Value) -> Passthrough {
    Passthrough {
        context: Arc::new(Context::new(Entry::Passthrough, "test")),
        tool: name.parse().unwrap(),
        params: map(json!({"name": name, "arguments": arguments})),
        meta: Map::new(),
        relay: None,
        owner: None,
    }
}

#[tokio::test]
async fn a_call_that_is_passed_on_goes_through_the_door() {
    let few = NonZeroU32::new(5);
    let server = relayed(Way::Http, "modern", &[]).with(|settings| settings.calls_per_minute = few);
    let policy = Policy { deny: vec!["fix:crash".to_owned()], ..Policy::default() };
    let gateway = Gateway::with(vec![server], policy, tempfile::tempdir().unwrap());
    let broker = &gateway.services.broker;
    assert!(broker.allows(&"fix:echo".parse().unwrap()) && !broker.allows(&"fix:crash".parse().unwrap()));
    #[rustfmt::skip]
    let table = [
        // tool            arguments                          outcome
        ("fix:echo",       json!({"text": "secret words"}),   "ok"),
        // The server itself judges the arguments.
        ("fix:echo",       json!({"txt": 1}),                 "ok"),
        ("fix:rpc_error",  json!({"code": -32050, "message": "broken"}), "-32050"),
        // An argument that goes into a header, which the server checks; the name is the tool's own.
        ("fix:region",     json!({"region": "Île de France"}), "ok"),
        ("fix:getSum",     json!({"a": 1, "b": 2}),           "ok"),
        ("fix:nothing",    json!({}),                         "TOOL_NOT_FOUND"),
        ("nobody:echo",    json!({}),                         "TOOL_NOT_FOUND"),
        ("fix:crash",      json!({}),                         "POLICY_DENIED"),
        ("fix:echo",       json!({"text": "one too many"}),   "RATE_LIMITED"),
    ];
    let codes = [None, Some("TOOL_ERROR"), Some("TOOL_ERROR"), None, None];
    let mut executions = Vec::new();
    for (name, arguments, expected) in table.clone() {
        let call = passthrough(name, arguments);
        executions.push(call.context.execution.to_string());
        let outcome = match broker.forward(call).await {
            Ok(Ok(_)) => "ok".to_owned(),
            Ok(Err(error)) => error.code.to_string(),
            Err(error) => error.code.as_str().to_owned(),
        };
        assert_eq!(outcome, expected, "{name}");
    }
    for execution in &executions {
        let event = gateway
            .event(|body| {
                matches!(body, Body::ToolCompleted { .. } | Body::ToolFailed { .. } | Body::PolicyDenied { .. })
            })
            .await;
        assert_eq!(&event.correlation_id, execution);
    }
    let audit = gateway.audit().await;
    assert_eq!(audit.len(), table.len());
    for (index, line) in audit.iter().enumerate() {
        let code = codes.get(index).copied().unwrap_or(Some(table[index].2));
        assert_eq!((&line["code"], &line["success"]), (&json!(code), &json!(code.is_none())), "{line}");
        assert_eq!((&line["execution_id"], &line["call"]), (&json!(executions[index]), &json!(1)));
    }
    assert_eq!(audit[4]["tool"], "fix:get-sum");
    assert_eq!(audit[7]["rule"], "deny fix:crash");
    assert!(!format!("{audit:?}").contains("secret words"));
}

#[tokio::test]
async fn a_call_that_is_passed_on_and_dropped_leaves_its_line() {
    let gateway = Gateway::start(vec![relayed(Way::Stdio, "both", &[])]);
    gateway.server("fix").init().await.unwrap();
    let call = gateway.services.broker.forward(passthrough("fix:hang", json!({})));
    assert!(timeout(Duration::from_millis(200), call).await.is_err());
    let audit = gateway.audit().await;
    assert_eq!((audit.len(), &audit[0]["code"]), (1, &json!("CANCELLED")));
}
