//! Servers that behave, over every transport, in every era.

use pml::{
    events::Body,
    upstream::{HealthState, HttpWire, Isolation},
};
use pml_testkit::Fixture;
use pml_wire::ErrorCode;
use serde_json::json;

use super::gateway::{Gateway, MATRIX, Way, fixture, remote};

/// Waits until the server has seen that many calls cancelled.
async fn cancellations(gateway: &Gateway, count: u64) {
    let mut counters = json!(null);
    for _ in 0..100 {
        counters = gateway.value("return await mcp.fix.counters({})").await;
        if counters["cancelled"] == count {
            return;
        }
    }
    panic!("{counters}");
}

#[tokio::test]
async fn tools_are_found_and_called_everywhere() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![fixture(way, era, &[])]);
        let value = gateway
            .value(
                r#"const [echo, sum, object] = await Promise.all([
                     mcp.fix.echo({ text: "hello\n\"you\" 😀" }), mcp.fix.add({ a: 2, b: 3 }), mcp.fix.object({})]);
                   return { echo, sum, keys: Object.keys(object).length };"#,
            )
            .await;
        assert_eq!(value, json!({"echo": "hello\n\"you\" 😀", "sum": 5, "keys": 3}), "{way:?} {era}");
        let health = gateway.server("fix").health();
        assert_eq!(health.state, HealthState::Healthy);
        let version = if era == "modern" { "2026-07-28" } else { "2025-11-25" };
        assert_eq!(health.protocol_version, Some(version), "{way:?}");
        let transport = match way {
            Way::Stdio => "stdio",
            Way::Http => "http",
            Way::Sse => "sse",
        };
        assert_eq!(health.transport, Some(transport), "{era}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn failures_of_tools_have_codes_everywhere() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![fixture(way, era, &[])]);
        let value = gateway
            .value(
                r#"const code = async (call) => { try { await call(); return "none" } catch (e) { return e.code } };
                   return [
                     await code(() => mcp.fix.fail({ message: "no" })),
                     await code(() => mcp.fix.rpc_error({ code: -32050, message: "broken" })),
                     await code(() => mcp.fix["no such tool"]({})),
                     await code(() => mcp.fix.add({ a: "x", b: 1 })),
                     await code(() => mcp.nobody.echo({})),
                   ]"#,
            )
            .await;
        let expected = json!(["TOOL_ERROR", "TOOL_ERROR", "TOOL_NOT_FOUND", "INVALID_ARGUMENTS", "TOOL_NOT_FOUND"]);
        assert_eq!(value, expected, "{way:?} {era}");
        // The server was asked only what was right.
        let counters = gateway.value("return await mcp.fix.counters({})").await;
        assert_eq!(counters["calls"], 3, "{way:?} {era}: {counters}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_hundred_calls_at_once_each_get_their_own_answer() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![fixture(way, era, &[])]);
        let code = r#"const texts = Array.from({ length: 100 }, (_, i) => `text ${i}`);
            const answers = await Promise.all(texts.map((text) => mcp.fix.echo({ text })));
            return answers.every((answer, i) => answer === texts[i]);"#;
        assert_eq!(gateway.value(code).await, true, "{way:?} {era}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn progress_keeps_a_call_alive_and_silence_ends_it() {
    for (way, era) in MATRIX {
        let server = fixture(way, era, &[]).with(|settings| {
            settings.call_timeout = std::time::Duration::from_millis(1000);
        });
        let gateway = Gateway::start(vec![server]);
        // Longer than the silence that is allowed, but not silent.
        gateway.value("return await mcp.fix.sleep({ ms: 2000, progress: 20 })").await;
        let (code, message) = gateway.error("return await mcp.fix.sleep({ ms: 5000 })").await;
        assert_eq!(code, ErrorCode::ProviderTimeout, "{way:?} {era}");
        assert!(message.contains("no answer within 1s"), "{message}");
        // The server was told, and still works.
        cancellations(&gateway, 1).await;
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_call_that_never_ends_is_ended_by_its_total_timeout() {
    let server = fixture(Way::Stdio, "legacy", &[]).with(|settings| {
        settings.call_timeout = std::time::Duration::from_millis(300);
        settings.max_call = std::time::Duration::from_millis(900);
    });
    let gateway = Gateway::start(vec![server]);
    let (code, message) = gateway.error("return await mcp.fix.sleep({ ms: 8000, progress: 80 })").await;
    assert_eq!(code, ErrorCode::ProviderTimeout);
    assert!(message.contains("900ms in all"), "{message}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_cancelled_run_cancels_its_calls() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![fixture(way, era, &[])]);
        gateway.value("return await mcp.fix.echo({ text: 'up' })").await;
        let cancel = tokio_util::sync::CancellationToken::new();
        let run = gateway.run_until("return await mcp.fix.sleep({ ms: 60000 })", &cancel);
        let stop = async {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(run, stop);
        assert_eq!(outcome.result.unwrap_err().code, ErrorCode::Cancelled);
        assert_eq!(outcome.calls[0].error.as_ref().unwrap().code, ErrorCode::Cancelled);
        cancellations(&gateway, 1).await;
        gateway.stop().await;
    }
}

#[tokio::test]
async fn every_request_says_who_asks_and_in_which_trace() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![fixture(way, era, &[])]);
        let outcome = gateway.run("return await mcp.fix.meta({})").await;
        let seen: serde_json::Value = serde_json::from_str(outcome.result.unwrap().get()).unwrap();
        let trace = outcome.execution_id.to_string().replace('-', "");
        let traceparent = seen["meta"]["traceparent"].as_str().unwrap();
        assert!(traceparent.starts_with(&format!("00-{trace}-")) && traceparent.len() == 55, "{traceparent}");
        if era == "modern" {
            assert_eq!(seen["meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        }
        assert_eq!(gateway.value("return await mcp.fix.region({ region: 'Île de France' })").await, "Île de France");
        if way == Way::Http && era == "modern" {
            assert_eq!(seen["headers"]["mcp-method"], "tools/call");
            assert_eq!(seen["headers"]["mcp-name"], "meta");
            assert_eq!(seen["headers"]["mcp-protocol-version"], "2026-07-28");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_list_that_changes_is_read_again_and_told() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![fixture(way, era, &[])]);
        gateway.value("return await mcp.fix.echo({ text: 'up' })").await;
        // The stream for notifications may take a moment to open.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        gateway.value("return await mcp.fix.change_list({})").await;
        let event = gateway.event(|body| matches!(body, Body::ToolsRefreshed { .. })).await;
        let Body::ToolsRefreshed { added, removed, .. } = &event.body else { panic!("{event:?}") };
        assert_eq!((added.len(), removed.len()), (1, 0), "{way:?} {era}: {event:?}");
        let known = format!("return Object.keys(mcp.fix).includes('{}')", added[0]);
        assert_eq!(gateway.value(&known).await, true, "{way:?} {era}");
        gateway.value("return await mcp.fix.change_description({})").await;
        let event = gateway.event(|body| matches!(body, Body::ToolsRefreshed { .. })).await;
        let Body::ToolsRefreshed { changed, .. } = &event.body else { panic!("{event:?}") };
        assert_eq!(changed, &["echo"], "{way:?} {era}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn what_a_server_asks_is_answered_and_harms_nobody() {
    for (way, era) in MATRIX.into_iter().filter(|(_, era)| *era == "legacy") {
        let gateway = Gateway::start(vec![fixture(way, era, &[])]);
        gateway.value("return await mcp.fix.echo({ text: 'up' })").await;
        let asked = gateway.value("return await mcp.fix.ask({})").await;
        for method in ["elicitation/create", "roots/list", "sampling/createMessage", "log"] {
            assert!(asked[method].to_string().contains("-32601"), "{way:?} {method}: {asked}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn pages_are_put_together_and_oddities_left_out() {
    #[rustfmt::skip]
    let table = [
        // fault             tools at least, warning
        ("pages",            20, None),
        ("endless-pages",     1, Some("does not end")),
        ("same-cursor",       1, Some("does not end")),
        ("duplicate-tools",  20, Some("is a second")),
        ("bad-tools",        20, Some("is left out")),
        ("bad-utf8-list",    20, Some("1 tools are left out, since their names have bytes that are no UTF-8")),
        ("no-tools",          0, None),
        ("no-ttl",           20, None),
        ("noise",            20, None),
    ];
    for (fault, least, warning) in table {
        for era in ["legacy", "modern"] {
            let gateway = Gateway::start(vec![fixture(Way::Stdio, era, &["--fault", fault])]);
            gateway.server("fix").init().await.unwrap_or_else(|failure| panic!("{fault} {era}: {failure:?}"));
            let snapshot = gateway.services.catalog.snapshot();
            let listing = snapshot.listing("fix").unwrap();
            assert!(listing.tools.len() >= least, "{fault} {era}: {}", listing.tools.len());
            if least > 1 {
                assert_eq!(gateway.value("return await mcp.fix.echo({ text: 'x' })").await, "x", "{fault}");
            }
            let warned = listing.warnings.iter().any(|text| warning.is_some_and(|part| text.contains(part)));
            assert_eq!(warned, warning.is_some(), "{fault} {era}: {:?}", listing.warnings);
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn a_tool_with_a_header_that_cannot_be_is_left_out_where_headers_are_sent() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![fixture(way, era, &["--fault", "bad-tools"])]);
        gateway.server("fix").init().await.unwrap();
        let snapshot = gateway.services.catalog.snapshot();
        let listing = snapshot.listing("fix").unwrap();
        let is_out = (way, era) == (Way::Http, "modern");
        assert_eq!(listing.tools.contains_key("bad_header"), !is_out, "{way:?} {era}");
        let is_told = listing.warnings.iter().any(|text| text.contains("`bad_header`, is left out"));
        assert_eq!(is_told, is_out, "{way:?} {era}: {:?}", listing.warnings);
        assert_eq!(gateway.value("return await mcp.fix.region({ region: 'x' })").await, "x", "{way:?} {era}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn odd_answers_are_understood_or_named() {
    let table = [
        ("content-string", Ok(json!("plain text"))),
        ("content-null", Ok(json!(null))),
        ("content-missing", Ok(json!(null))),
        ("null-result", Ok(json!(null))),
        ("empty", Ok(json!(null))),
        ("list-result", Err(ErrorCode::ProviderProtocol)),
        ("text-result", Err(ErrorCode::ProviderProtocol)),
        ("no-result", Err(ErrorCode::ProviderProtocol)),
        ("null-id-error", Err(ErrorCode::ToolError)),
        ("input-required", Err(ErrorCode::InputRequired)),
        ("nested", Err(ErrorCode::ProviderProtocol)),
        ("wrong-id", Err(ErrorCode::ProviderTimeout)),
        ("bad-utf8", Err(ErrorCode::ProviderProtocol)),
    ];
    for era in ["legacy", "modern"] {
        let server = fixture(Way::Stdio, era, &[]).with(|settings| {
            settings.call_timeout = std::time::Duration::from_millis(1000);
        });
        let gateway = Gateway::start(vec![server]);
        for (kind, expected) in &table {
            let outcome = gateway.run(&format!("return await mcp.fix.odd({{ kind: '{kind}' }})")).await;
            match (&outcome.result, expected) {
                (Ok(_), Ok(expected)) if *kind == "content-string" => assert_ne!(expected, &json!(null)),
                (Ok(value), Ok(expected)) => assert_eq!(value.get(), expected.to_string(), "{era} {kind}"),
                (Err(error), Err(expected)) => assert_eq!(error.code, *expected, "{era} {kind}: {}", error.message),
                (actual, _) => panic!("{era} {kind}: {actual:?}"),
            }
        }
        for kind in
            ["unknown-block", "extra-tools-key", "structured-only", "error-null", "string-id", "two-answers", "batch"]
        {
            gateway.value(&format!("return await mcp.fix.odd({{ kind: '{kind}' }})")).await;
        }
        assert_eq!(gateway.value("return await mcp.fix.echo({ text: 'still here' })").await, "still here");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn what_is_known_from_earlier_is_there_at_once() {
    let data_dir = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    let server = || fixture(Way::Stdio, "modern", &["--tools", "100", "--state", state.path().to_str().unwrap()]);
    let first = Gateway::with(vec![server()], pml::broker::Policy::default(), data_dir);
    first.server("fix").init().await.unwrap();
    let data_dir = first.stop().await;
    let second = Gateway::with(vec![server()], pml::broker::Policy::default(), data_dir);
    let snapshot = second.services.catalog.snapshot();
    assert!(snapshot.listing("fix").unwrap().tools.len() > 100);
    assert_eq!(second.server("fix").health().state, HealthState::Idle);
    // Names need no server either.
    assert_eq!(second.value("return Object.keys(mcp.fix).length > 100").await, true);
    assert_eq!(second.server("fix").health().state, HealthState::Idle);
    assert_eq!(second.value("return await mcp.fix.echo({ text: 'x' })").await, "x");
    second.stop().await;
}

#[tokio::test]
async fn a_process_per_call_is_a_new_one_each_time() {
    let server = fixture(Way::Stdio, "both", &[]).with(|settings| settings.isolation = Isolation::PerCall);
    let gateway = Gateway::start(vec![server]);
    let value = gateway
        .value(
            r#"const count = () => mcp.fix.count({ key: "k" });
               const shared = [await count(), await count()];
               const [a, b] = await Promise.all([mcp.fix.pid({}), mcp.fix.pid({})]);
               return { shared, different: JSON.stringify(a) !== JSON.stringify(b) }"#,
        )
        .await;
    assert_eq!(value["different"], true);
    assert_eq!(value["shared"][0], value["shared"][1], "{value}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_wire_that_is_configured_is_not_guessed() {
    let http = Fixture::start(&["--transport", "http", "--era", "legacy"]);
    let gateway = Gateway::start(vec![remote("fix", &http.url, HttpWire::Streamable)]);
    assert_eq!(gateway.value("return await mcp.fix.echo({ text: 'x' })").await, "x");
    gateway.stop().await;
    let gateway = Gateway::start(vec![remote("fix", &http.url, HttpWire::Sse)]);
    let (code, message) = gateway.error("return await mcp.fix.echo({ text: 'x' })").await;
    assert_eq!(code, ErrorCode::ProviderInitFailed, "{message}");
    gateway.stop().await;
}
