//! Servers that are slow, broken, hostile or dead: they harm nobody but themselves.

use std::time::Duration;

use pml::{
    events::Body,
    upstream::{HealthState, HttpWire, Isolation, Target},
};
use pml_testkit::Fixture;
use pml_wire::ErrorCode;

use super::gateway::{Gateway, MATRIX, Server, Way, fixture, remote, stdio};

const ECHO: &str = "return await mcp.fix.echo({ text: 'x' })";

/// A healthy neighbour, called `well`.
fn neighbour() -> Server {
    fixture(Way::Stdio, "both", &[]).with(|settings| settings.name = "well".to_owned())
}

#[tokio::test]
async fn a_server_that_does_not_start_says_why_and_harms_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "text").unwrap();
    let plain = plain.to_str().unwrap().to_owned();
    let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = format!("http://{}/mcp", listening.local_addr().unwrap());
    drop(listening);
    let http = Fixture::start(&["--transport", "http"]);
    let tls = http.url.replace("http://", "https://");
    let missing_variable =
        |server: Server| server.with(|settings| settings.target = Err("the variable `X` is not set".to_owned()));
    let no_folder = |server: Server| {
        server.with(|settings| {
            if let Ok(Target::Stdio { cwd, .. }) = &mut settings.target {
                *cwd = Some("/nowhere/at/all".into());
            }
        })
    };
    #[rustfmt::skip]
    let table: Vec<(Server, ErrorCode, &[&str])> = vec![
        (stdio("fix", "no-such-command-at-all", &[]), ErrorCode::ProviderInitFailed, &["`no-such-command-at-all` is not in PATH"]),
        (stdio("fix", "/no/such/file", &[]), ErrorCode::ProviderInitFailed, &["`/no/such/file` does not exist"]),
        (stdio("fix", plain, &[]), ErrorCode::ProviderInitFailed, &["is not executable"]),
        (stdio("fix", "/tmp", &[]), ErrorCode::ProviderInitFailed, &["is a folder"]),
        (no_folder(stdio("fix", "sh", &[])), ErrorCode::ProviderInitFailed, &["`/nowhere/at/all` does not exist"]),
        (missing_variable(stdio("fix", "sh", &[])), ErrorCode::ProviderInitFailed, &["`X` is not set"]),
        (stdio("fix", "sh", &["-c", "echo last words >&2; exit 3"]), ErrorCode::ProviderInitFailed, &["exited with code 3", "last words"]),
        (stdio("fix", "sh", &["-c", "kill -9 $$"]), ErrorCode::ProviderInitFailed, &["killed by signal 9"]),
        (fixture(Way::Stdio, "both", &["--fault", "exit=7"]), ErrorCode::ProviderInitFailed, &["exited with code 7", "stderr"]),
        (fixture(Way::Stdio, "legacy", &["--fault", "list-error"]), ErrorCode::ProviderInitFailed, &["does not list its tools"]),
        (fixture(Way::Stdio, "legacy", &["--version", "1999-01-01"]), ErrorCode::ProviderInitFailed, &["1999-01-01", "2026-07-28", "2025-11-25"]),
        (fixture(Way::Stdio, "modern", &["--version", "1999-01-01"]), ErrorCode::ProviderInitFailed, &["1999-01-01", "2026-07-28"]),
        (fixture(Way::Http, "legacy", &["--version", "1999-01-01"]), ErrorCode::ProviderInitFailed, &["1999-01-01", "2026-07-28"]),
        (fixture(Way::Http, "modern", &["--version", "1999-01-01"]), ErrorCode::ProviderInitFailed, &["1999-01-01", "2026-07-28"]),
        (fixture(Way::Http, "both", &["--fault", "status-init=401"]), ErrorCode::AuthRequired, &["wants a login", "401"]),
        (fixture(Way::Http, "both", &["--fault", "status-init=500"]), ErrorCode::ProviderInitFailed, &["500"]),
        (fixture(Way::Http, "both", &["--fault", "wrong-content-type"]), ErrorCode::ProviderInitFailed, &["text/html"]),
        (fixture(Way::Sse, "legacy", &["--fault", "foreign-endpoint"]), ErrorCode::ProviderInitFailed, &["another host"]),
        (remote("fix", &refused, HttpWire::Auto), ErrorCode::ProviderInitFailed, &["cannot be reached", "refused"]),
        (remote("fix", &tls, HttpWire::Auto), ErrorCode::ProviderInitFailed, &["cannot be reached"]),
        (remote("fix", "ftp://example.org/", HttpWire::Auto), ErrorCode::ProviderInitFailed, &["http://"]),
        (remote("fix", "not an address", HttpWire::Auto), ErrorCode::ProviderInitFailed, &["url"]),
    ];
    for (server, code, parts) in table {
        let gateway = Gateway::start(vec![server, neighbour()]);
        let program = r#"const well = await mcp.well.echo({ text: "fine" });
            try { await mcp.fix.echo({ text: "x" }) } catch (e) { return { well, code: e.code, message: e.message } }"#;
        let value = gateway.value(program).await;
        let message = value["message"].as_str().unwrap_or_default();
        assert_eq!(value["code"], code.as_str(), "{parts:?}: {message}");
        assert_eq!(value["well"], "fine");
        for part in parts {
            assert!(message.contains(part), "{part}: {message}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_silent_server_is_given_up_in_time() {
    for way in [Way::Stdio, Way::Http] {
        let server = fixture(way, "both", &["--fault", "silent"]).with(|settings| {
            settings.start_timeout = Duration::from_millis(1200);
        });
        let gateway = Gateway::start(vec![server]);
        let (code, message) = gateway.error(ECHO).await;
        assert_eq!(code, ErrorCode::ProviderInitFailed, "{way:?} {message}");
        assert!(message.contains("no answer within"), "{way:?} {message}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_slow_server_is_waited_for_and_not_confused() {
    // It refuses `initialize` once it was asked for the new era, as real ones do.
    for era in ["both", "legacy", "modern"] {
        let server = fixture(Way::Stdio, era, &["--fault", "slow-start=1500", "--fault", "lock-era"]);
        let gateway = Gateway::start(vec![server]);
        assert_eq!(gateway.value(ECHO).await, "x", "{era}");
        gateway.stop().await;
    }
    // Slower than the question is waited for: it is asked on a new process, never on the same.
    let server = fixture(Way::Stdio, "both", &["--fault", "slow-start=1500", "--fault", "lock-era"]).with(|settings| {
        settings.start_timeout = Duration::from_secs(4);
    });
    let gateway = Gateway::start(vec![server]);
    assert_eq!(gateway.value(ECHO).await, "x");
    gateway.stop().await;
}

#[tokio::test]
async fn a_server_that_ignores_the_new_era_is_asked_for_the_old_one() {
    let server = fixture(Way::Stdio, "legacy", &["--fault", "silent-discover"]).with(|settings| {
        settings.start_timeout = Duration::from_secs(3);
    });
    let gateway = Gateway::start(vec![server]);
    assert_eq!(gateway.value(ECHO).await, "x");
    let data_dir = gateway.stop().await;
    // The next process remembers.
    let server = fixture(Way::Stdio, "legacy", &["--fault", "silent-discover"]);
    let gateway = Gateway::with(vec![server], pml::broker::Policy::default(), data_dir);
    let begun = tokio::time::Instant::now();
    assert_eq!(gateway.value(ECHO).await, "x");
    assert!(begun.elapsed() < Duration::from_secs(5));
    gateway.stop().await;
}

#[tokio::test]
async fn an_answer_that_names_no_versions_is_none_of_the_new_era() {
    for way in [Way::Stdio, Way::Http] {
        let gateway = Gateway::start(vec![fixture(way, "legacy", &["--fault", "empty-discover"])]);
        assert_eq!(gateway.value(ECHO).await, "x", "{way:?}");
        assert_eq!(gateway.server("fix").health().protocol_version, Some("2025-11-25"), "{way:?}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_version_that_is_refused_but_supported_is_asked_for_once_more() {
    for way in [Way::Stdio, Way::Http] {
        let gateway = Gateway::start(vec![fixture(way, "modern", &["--fault", "refuse-once"])]);
        assert_eq!(gateway.value(ECHO).await, "x", "{way:?}");
        assert_eq!(gateway.server("fix").health().protocol_version, Some("2026-07-28"), "{way:?}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn of_twenty_servers_one_that_hangs_delays_no_other() {
    let mut servers: Vec<_> = (0..19)
        .map(|number| fixture(Way::Stdio, "both", &[]).with(|settings| settings.name = format!("s{number}")))
        .collect();
    servers
        .push(fixture(Way::Stdio, "both", &["--fault", "silent"]).with(|settings| settings.name = "hung".to_owned()));
    let gateway = Gateway::start(servers);
    let program = r#"const hung = mcp.hung.echo({ text: "x" }).catch((e) => e.code);
        const names = Array.from({ length: 19 }, (_, i) => `s${i}`);
        const all = await Promise.all(names.map((name) => mcp[name].echo({ text: name })));
        return all.join() === names.join();"#;
    assert_eq!(gateway.value(program).await, true);
    gateway.stop().await;
}

#[tokio::test]
async fn a_crash_in_a_call_is_told_and_the_server_comes_back() {
    for era in ["legacy", "modern"] {
        let gateway = Gateway::start(vec![fixture(Way::Stdio, era, &[]), neighbour()]);
        let (code, message) = gateway.error("return await mcp.fix.crash({ code: 9 })").await;
        assert_eq!(code, ErrorCode::ProviderCrashed, "{message}");
        assert!(message.contains("exited with code 9") && message.contains("last words"), "{message}");
        // It is connected again at once, and calls wait for that.
        assert_eq!(gateway.value(ECHO).await, "x", "{era}");
        assert_eq!(gateway.value("return await mcp.well.echo({ text: 'x' })").await, "x");
        let lost = gateway.event(|body| matches!(body, Body::Disconnected { .. })).await;
        gateway.event(|body| matches!(body, Body::ToolsRefreshed { .. })).await;
        let back = gateway.event(|body| matches!(body, Body::Reconnected { .. })).await;
        assert!(!lost.correlation_id.is_empty() && !back.correlation_id.is_empty());
        assert_eq!(gateway.value(ECHO).await, "x", "{era}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_dies_again_and_again_is_given_up() {
    for fault in ["crash-loop", "exit-after-init"] {
        let gateway = Gateway::start(vec![fixture(Way::Stdio, "legacy", &["--fault", fault])]);
        let _ = gateway.run(ECHO).await;
        let given_up = gateway.event(|body| matches!(body, Body::ReconnectExhausted { .. })).await;
        assert!(format!("{given_up:?}").contains("tries: 5"), "{given_up:?}");
        assert_eq!(gateway.server("fix").health().state, HealthState::Unavailable, "{fault}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_remote_server_that_goes_away_is_found_again() {
    let fixture = Fixture::start(&["--transport", "sse", "--era", "legacy"]);
    let gateway = Gateway::start(vec![remote("fix", &fixture.url, HttpWire::Sse)]);
    assert_eq!(gateway.value(ECHO).await, "x");
    drop(fixture);
    gateway.event(|body| matches!(body, Body::Disconnected { .. })).await;
    let (code, message) = gateway.error(ECHO).await;
    assert_eq!(code, ErrorCode::ProviderUnavailable, "{message}");
    let given_up = gateway.event(|body| matches!(body, Body::ReconnectExhausted { .. })).await;
    assert!(format!("{given_up:?}").contains("cannot be reached"), "{given_up:?}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_first_start_that_fails_is_tried_again() {
    let state = tempfile::tempdir().unwrap();
    let server = fixture(Way::Stdio, "both", &["--fault", "fail-first=2", "--state", state.path().to_str().unwrap()]);
    let gateway = Gateway::start(vec![server]);
    let (code, _) = gateway.error(ECHO).await;
    assert_eq!(code, ErrorCode::ProviderInitFailed);
    gateway.event(|body| matches!(body, Body::ToolsDiscovered { .. })).await;
    assert_eq!(gateway.value(ECHO).await, "x");
    gateway.stop().await;
}

#[tokio::test]
async fn a_server_that_hangs_is_replaced() {
    let server = fixture(Way::Stdio, "legacy", &[]).with(|settings| {
        settings.call_timeout = Duration::from_millis(1000);
    });
    let gateway = Gateway::start(vec![server]);
    let pid = gateway.value("return (await mcp.fix.pid({})).pid").await;
    // The whole process stops, so that it does not answer anything.
    let raw = rustix::process::Pid::from_raw(i32::try_from(pid.as_i64().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(raw, rustix::process::Signal::STOP).unwrap();
    let (code, _) = gateway.error(ECHO).await;
    assert_eq!(code, ErrorCode::ProviderTimeout);
    gateway.event(|body| matches!(body, Body::Reconnected { .. })).await;
    assert_ne!(gateway.value("return (await mcp.fix.pid({})).pid").await, pid);
    gateway.stop().await;
}

#[tokio::test]
async fn a_timeout_of_an_isolated_call_ends_its_process() {
    let server = fixture(Way::Stdio, "both", &[]).with(|settings| {
        settings.isolation = Isolation::PerCall;
        settings.call_timeout = Duration::from_millis(1000);
    });
    let gateway = Gateway::start(vec![server]);
    let (code, _) = gateway.error("return await mcp.fix.hang({})").await;
    assert_eq!(code, ErrorCode::ProviderTimeout);
    let (code, message) = gateway.error("return await mcp.fix.crash({ code: 4 })").await;
    assert_eq!(code, ErrorCode::ProviderCrashed, "{message}");
    assert_eq!(gateway.value(ECHO).await, "x");
    gateway.stop().await;
}

#[tokio::test]
async fn a_message_without_end_is_cut_off() {
    for fault in ["endless-line", "huge-line=3000000"] {
        let server = fixture(Way::Stdio, "legacy", &["--fault", fault]).with(|settings| {
            settings.max_message_bytes = 1024 * 1024;
            settings.call_timeout = Duration::from_secs(5);
        });
        let gateway = Gateway::start(vec![server]);
        let (code, message) = gateway.error(ECHO).await;
        assert_eq!(code, ErrorCode::ProviderProtocol, "{fault}: {message}");
        assert!(message.contains("more than 1 MB"), "{message}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_result_over_the_limit_of_messages_is_an_error_everywhere() {
    for (way, era) in MATRIX {
        let server = fixture(way, era, &[]).with(|settings| settings.max_message_bytes = 1024 * 1024);
        let gateway = Gateway::start(vec![server]);
        let (code, message) = gateway.error("return await mcp.fix.big({ bytes: 3000000 })").await;
        assert_eq!(code, ErrorCode::ProviderProtocol, "{way:?} {era}: {message}");
        assert_eq!(gateway.value(ECHO).await, "x", "{way:?} {era}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn noise_and_floods_beside_the_protocol_do_no_harm() {
    for fault in ["noise", "stderr=5000", "stderr-flood", "half-close"] {
        let gateway = Gateway::start(vec![fixture(Way::Stdio, "legacy", &["--fault", fault]), neighbour()]);
        let outcome = gateway.run(ECHO).await;
        match fault {
            "half-close" => assert!(outcome.result.is_err()),
            _ => assert_eq!(outcome.result.unwrap().get(), "\"x\"", "{fault}"),
        }
        assert_eq!(gateway.value("return await mcp.well.echo({ text: 'x' })").await, "x");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn statuses_of_http_have_codes() {
    #[rustfmt::skip]
    let table = [
        ("status=401", ErrorCode::AuthRequired, "wants a login"),
        ("status=429", ErrorCode::RateLimited, "Retry-After: 2"),
        ("status=500", ErrorCode::ProviderUnavailable, "500"),
        ("status=503", ErrorCode::ProviderUnavailable, "Retry-After: 2"),
        ("status=418", ErrorCode::ProviderProtocol, "418"),
        ("drop-stream", ErrorCode::ProviderUnavailable, "server"),
        ("slow-body", ErrorCode::ProviderTimeout, "no answer within"),
    ];
    for era in ["legacy", "modern"] {
        for (fault, code, part) in table {
            let server = fixture(Way::Http, era, &["--fault", fault]).with(|settings| {
                settings.call_timeout = Duration::from_millis(2000);
            });
            let gateway = Gateway::start(vec![server]);
            let (actual, message) = gateway.error(ECHO).await;
            assert_eq!(actual, code, "{era} {fault}: {message}");
            assert!(message.contains(part), "{era} {fault}: {message}");
            gateway.stop().await;
        }
        for fault in ["status-once=500", "redirect", "sse-response"] {
            let gateway = Gateway::start(vec![fixture(Way::Http, era, &["--fault", fault])]);
            let _ = gateway.run(ECHO).await;
            assert_eq!(gateway.value(ECHO).await, "x", "{era} {fault}");
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn an_answer_that_ends_early_is_taken_up_where_it_ended() {
    let gateway = Gateway::start(vec![fixture(Way::Http, "legacy", &["--fault", "end-early=3"])]);
    assert_eq!(gateway.value(ECHO).await, "x");
    let counters = gateway.value("return await mcp.fix.counters({})").await;
    assert_eq!((&counters["calls"], &counters["resumes"]), (&2.into(), &3.into()), "{counters}");
    assert_eq!(counters["early_resumes"], serde_json::Value::Null, "{counters}");
    gateway.stop().await;

    // One that never comes to an end is ended by the call's own time.
    let server = fixture(Way::Http, "legacy", &["--fault", "end-early=1000"]).with(|settings| {
        settings.call_timeout = Duration::from_millis(1500);
    });
    let gateway = Gateway::start(vec![server]);
    let (code, message) = gateway.error(ECHO).await;
    assert_eq!(code, ErrorCode::ProviderTimeout, "{message}");
    gateway.stop().await;
}

#[tokio::test]
async fn headers_with_tokens_are_not_sent_elsewhere() {
    let elsewhere = Fixture::start(&["--transport", "http"]);
    let port = elsewhere.url.split([':', '/']).nth(4).unwrap().to_owned();
    let gateway = Gateway::start(vec![fixture(Way::Http, "legacy", &["--fault", &format!("redirect-away={port}")])]);
    let (code, message) = gateway.error(ECHO).await;
    assert_eq!(code, ErrorCode::ProviderInitFailed, "{message}");
    assert!(message.contains("redirects to another place"), "{message}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_forgotten_session_is_begun_anew() {
    let gateway = Gateway::start(vec![fixture(Way::Http, "legacy", &["--fault", "expire-session=15"])]);
    let program = r#"for (let i = 0; i < 12; i++) if (await mcp.fix.echo({ text: `${i}` }) !== `${i}`) return i;
        const all = await Promise.all(Array.from({ length: 12 }, (_, i) => mcp.fix.echo({ text: `${i}` })));
        return all.join()"#;
    assert_eq!(gateway.value(program).await, "0,1,2,3,4,5,6,7,8,9,10,11");
    gateway.stop().await;
}

#[tokio::test]
async fn memory_is_held_within_its_limit() {
    let server = fixture(Way::Stdio, "both", &[]).with(|settings| settings.limits.memory_bytes = 100 * 1024 * 1024);
    let gateway = Gateway::start(vec![server, neighbour()]);
    assert_eq!(gateway.value("return await mcp.fix.allocate({ mb: 10 })").await, "ok");
    let program = "await mcp.fix.allocate({ mb: 300 }); return await mcp.fix.sleep({ ms: 8000 })";
    let (code, message) = gateway.error(program).await;
    assert_eq!(code, ErrorCode::ProviderCrashed, "{message}");
    assert!(message.contains("more than its limit of 100 MB"), "{message}");
    assert_eq!(gateway.value("return await mcp.well.echo({ text: 'x' })").await, "x");
    gateway.stop().await;
}

#[tokio::test]
async fn a_server_sees_only_the_variables_it_was_given() {
    let server = fixture(Way::Stdio, "both", &[]).with(|settings| {
        if let Ok(Target::Stdio { env, .. }) = &mut settings.target {
            env.insert("TOKEN".to_owned(), pml::upstream::Secret::new("s3cret"));
        }
    });
    let gateway = Gateway::start(vec![server]);
    let program = r#"return [await mcp.fix.env({ name: "TOKEN" }), await mcp.fix.env({ name: "CARGO_MANIFEST_DIR" })]"#;
    assert_eq!(gateway.value(program).await, serde_json::json!(["s3cret", "unset"]));
    gateway.stop().await;
}

#[tokio::test]
async fn a_server_that_cannot_bear_the_question_is_asked_in_the_older_way() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "legacy", &["--fault", "exit-on-discover"])]);
    assert_eq!(gateway.value(ECHO).await, "x");
    gateway.stop().await;
}

#[tokio::test]
async fn an_era_that_is_remembered_wrongly_is_found_out() {
    let data_dir = tempfile::tempdir().unwrap();
    let was = Gateway::with(vec![fixture(Way::Stdio, "legacy", &[])], pml::broker::Policy::default(), data_dir);
    was.server("fix").init().await.unwrap();
    let data_dir = was.stop().await;
    // The same server, as far as its command says, speaks the new era only.
    let mut is = fixture(Way::Stdio, "legacy", &[]);
    if let Ok(Target::Stdio { command, .. }) = &mut is.settings.target {
        let script = data_dir.path().join("server");
        std::fs::write(&script, format!("#!/bin/sh\nexec {command} --era modern\n")).unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let cache = std::fs::read_dir(data_dir.path().join("catalog")).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(&cache).unwrap();
        assert!(text.contains("2025-11-25"), "{text}");
        script.to_str().unwrap().clone_into(command);
    }
    let gateway = Gateway::with(vec![is], pml::broker::Policy::default(), data_dir);
    assert_eq!(gateway.value(ECHO).await, "x");
    gateway.stop().await;
}

#[tokio::test]
async fn a_server_that_does_one_thing_at_a_time_is_left_to_it() {
    let server = fixture(Way::Stdio, "legacy", &["--fault", "one-thread"]).with(|settings| {
        settings.keepalive = Duration::from_millis(100);
    });
    let gateway = Gateway::start(vec![server]);
    let program = "return [await mcp.fix.sleep({ ms: 1500 }) !== undefined, (await mcp.fix.pid({})).pid]";
    let before = gateway.value("return (await mcp.fix.pid({})).pid").await;
    assert_eq!(gateway.value(program).await, serde_json::json!([true, before]));
    gateway.stop().await;
}

#[tokio::test]
async fn logs_with_ids_are_no_answers() {
    for era in ["legacy", "modern"] {
        let gateway = Gateway::start(vec![fixture(Way::Stdio, era, &["--fault", "log-ids"])]);
        assert_eq!(gateway.value(ECHO).await, "x", "{era}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_session_that_cannot_be_renewed_is_a_lost_connection() {
    let arguments = ["--fault", "expire-session=3", "--fault", "one-session"];
    let gateway = Gateway::start(vec![fixture(Way::Http, "legacy", &arguments)]);
    let program = "for (let i = 0; i < 5; i++) await mcp.fix.echo({ text: 'x' })";
    let (code, message) = gateway.error(program).await;
    assert_eq!(code, ErrorCode::ProviderUnavailable, "{message}");
    let lost = gateway.event(|body| matches!(body, Body::Disconnected { .. })).await;
    assert!(format!("{lost:?}").contains("begins no new one"), "{lost:?}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_stream_that_is_never_opened_is_given_up() {
    let server = fixture(Way::Sse, "legacy", &["--fault", "silent-get"]).with(|settings| {
        settings.start_timeout = Duration::from_millis(500);
    });
    let gateway = Gateway::start(vec![server]);
    let (code, message) = gateway.error(ECHO).await;
    assert_eq!(code, ErrorCode::ProviderInitFailed, "{message}");
    assert!(message.contains("no answer within"), "{message}");
    gateway.stop().await;
}

#[tokio::test]
async fn what_was_known_from_earlier_is_not_held_against_a_program() {
    let data_dir = tempfile::tempdir().unwrap();
    let command = data_dir.path().join("server");
    let script = |tools: &str| {
        let text = format!("#!/bin/sh\nexec {} --tools {tools}\n", pml_testkit::fixture_path().display());
        std::fs::write(&command, text).unwrap();
        std::fs::set_permissions(&command, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    let server = || stdio("fix", command.to_str().unwrap(), &[]);
    script("1");
    let gateway = Gateway::with(vec![server()], pml::broker::Policy::default(), data_dir);
    gateway.server("fix").init().await.unwrap();
    let data_dir = gateway.stop().await;
    script("2");
    let gateway = Gateway::with(vec![server()], pml::broker::Policy::default(), data_dir);
    assert_eq!(gateway.value("return await mcp.fix.tool_0002({})").await, "tool_0002");
    gateway.stop().await;
}
