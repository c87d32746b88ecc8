//! Published servers, as their makers ship them. `scripts/test-servers` installs them.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pml::{
    broker::Policy,
    catalog::typescript,
    upstream::{Forward, HttpWire, Kind, ServerMessage},
};
use serde_json::json;
use tokio::sync::mpsc;

use super::gateway::{Gateway, Server, Way, fixture, remote, stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

pub(crate) fn installed(path: &str) -> String {
    let path = root().join(".test-env").join(path);
    assert!(path.exists(), "`{}` is missing; run scripts/test-servers", path.display());
    path.to_str().unwrap().to_owned()
}

/// A server out of the npm registry.
fn node(name: &str, arguments: &[&str]) -> Server {
    let script = installed(&format!("node_modules/@modelcontextprotocol/server-{name}/dist/index.js"));
    let mut all = vec![script.as_str()];
    all.extend(arguments);
    stdio(name, "node", &all)
}

/// A server out of PyPI.
fn python(name: &str, arguments: &[&str]) -> Server {
    stdio(name, installed(&format!("python/bin/mcp-server-{name}")), arguments)
}

fn slowly(server: Server) -> Server {
    server.with(|settings| {
        settings.start_timeout = std::time::Duration::from_secs(60);
        settings.call_timeout = std::time::Duration::from_secs(30);
    })
}

/// A folder with a file and a repository.
fn workplace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("data.json"), r#"{"name":"Ada"}"#).unwrap();
    #[expect(clippy::disallowed_methods, reason = "prepares a repository")]
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "."]);
    git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first words"]);
    folder
}

fn all_servers(folder: &Path) -> Vec<Server> {
    let path = folder.to_str().unwrap();
    let servers = vec![
        node("everything", &[]),
        node("filesystem", &[path]),
        node("memory", &[]),
        python("git", &["--repository", path]),
        python("time", &["--local-timezone", "UTC"]),
    ];
    servers.into_iter().map(slowly).collect()
}

#[tokio::test]
async fn five_published_servers_work_together_in_both_eras() {
    let folder = workplace();
    let mut gateway = Gateway::start(all_servers(folder.path()));
    gateway.budget.timeout = std::time::Duration::from_secs(60);
    let path = folder.path().to_str().unwrap();
    let program = format!(
        r#"const folder = {path:?};
        const text = await mcp.filesystem.read_text_file({{ path: `${{folder}}/data.json` }});
        const {{ name }} = JSON.parse(text);
        const [made, time, log, sum] = await Promise.all([
          mcp.memory.create_entities({{ entities: [{{ name, entityType: "person", observations: ["reads"] }}] }}),
          mcp.time.convert_time({{ source_timezone: "UTC", time: "12:00", target_timezone: "Asia/Tokyo" }}),
          mcp.git.git_log({{ repo_path: folder, max_count: 1 }}),
          mcp.everything.getSum({{ a: 2, b: 3 }}),
        ]);
        await mcp.filesystem.write_file({{ path: `${{folder}}/out.txt`, content: `${{name}} was here` }});
        const found = await mcp.memory.search_nodes({{ query: name }});
        return {{ text, made, tokyo: time.target.datetime.includes("T21:00"), log, sum, found }}"#
    );
    let outcome = gateway.run(&program).await;
    let value: serde_json::Value =
        serde_json::from_str(outcome.result.unwrap_or_else(|error| panic!("{error:#?}")).get()).unwrap();
    assert_eq!(value["text"], r#"{"name":"Ada"}"#);
    assert_eq!(value["tokyo"], true);
    assert!(value["log"].to_string().contains("first words"), "{value}");
    assert!(value["sum"].as_str().unwrap().contains('5'), "{value}");
    assert_eq!(value["found"]["entities"][0]["name"], "Ada", "{value}");
    assert_eq!(fs::read_to_string(folder.path().join("out.txt")).unwrap(), "Ada was here");
    // Both eras are among them.
    let version = |name: &str| gateway.server(name).health().protocol_version.unwrap();
    assert_eq!((version("filesystem"), version("time")), ("2025-11-25", "2026-07-28"));
    // Each call is traced: tool, trace id, time, duration, success.
    let trace = outcome.execution_id.to_string().replace('-', "");
    assert!(outcome.calls.iter().all(|call| call.error.is_none()));
    let audit = gateway.audit().await;
    assert_eq!(audit.len(), 7);
    for line in &audit {
        assert_eq!((&line["trace_id"], &line["success"]), (&json!(trace), &json!(true)));
        assert!(line["tool"].is_string() && line["ts"].is_u64() && line["duration_ms"].is_f64(), "{line}");
    }
    assert!(audit.iter().any(|line| line["tool"] == "everything:get-sum"));
}

#[tokio::test]
async fn a_published_server_talks_to_a_client() {
    let everything = || slowly(node("everything", &[]));
    // It has more tools for a client that can be asked.
    let alone = Gateway::start(vec![everything()]);
    alone.server("everything").init().await.unwrap();
    let count = |gateway: &Gateway| gateway.services.catalog.snapshot().tools().count();
    let few = count(&alone);
    let folder = alone.stop().await;
    let servers = vec![everything().with(|settings| settings.relays = true)];
    let gateway = Gateway::with(servers, Policy::default(), folder);
    assert_eq!(count(&gateway), 0, "what it lists without a client is not what it lists with one");
    let server = gateway.server("everything");
    server.init().await.unwrap();
    assert!(count(&gateway) > few, "{few}");
    let declared = server.declared().unwrap();
    assert!(declared.capabilities["prompts"].is_object() && declared.instructions.is_some());
    assert!(server.list(Kind::Prompts).await.unwrap().len() > 2);
    let resources = server.list(Kind::Resources).await.unwrap();
    let uri = resources[0]["uri"].as_str().unwrap();
    let forward = |method, params: serde_json::Value| Forward {
        method,
        params: params.as_object().cloned().unwrap(),
        meta: serde_json::Map::new(),
        name: None,
        headers: Vec::new(),
        relay: None,
        owner: None,
    };
    let read = server.forward(forward("resources/read", json!({"uri": uri}))).await.unwrap().unwrap().text;
    assert!(read.get().starts_with(r#"{"contents":["#), "{read}");
    let unknown = server.forward(forward("prompts/get", json!({"name": "none"}))).await.unwrap().unwrap_err();
    assert_eq!(unknown.code, -32602, "{unknown:?}");
    drop(server.watch(uri).await.unwrap());
    // What it asks and says during a call.
    let (relay, mut heard) = mpsc::channel(64);
    let call = move |name: &str, arguments: serde_json::Value| Forward {
        relay: Some(relay.clone()),
        ..forward("tools/call", json!({"name": name, "arguments": arguments}))
    };
    let client = async {
        let mut seen = Vec::new();
        while let Some(said) = heard.recv().await {
            let (method, reply) = match said {
                ServerMessage::Ask { method, reply, .. } => (method, reply),
                ServerMessage::Progress(_) => {
                    seen.push("progress".to_owned());
                    continue;
                }
                ServerMessage::Log(_) => continue,
            };
            let answer = match method.as_str() {
                "sampling/createMessage" => {
                    json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "from the client"}})
                }
                "roots/list" => json!({"roots": [{"uri": "file:///work", "name": "work"}]}),
                _ => json!({"action": "decline"}),
            };
            seen.push(method);
            let _ = reply.send(Ok(answer));
        }
        seen
    };
    let calls = async move {
        let sampled =
            server.forward(call("trigger-sampling-request", json!({"prompt": "hello", "maxTokens": 10}))).await;
        let sampled = sampled.unwrap().unwrap().text;
        assert!(sampled.get().contains("from the client"), "{sampled}");
        let elicited = server.forward(call("trigger-elicitation-request", json!({}))).await.unwrap().unwrap().text;
        assert!(elicited.get().contains("declined"), "{elicited}");
        let long = call("trigger-long-running-operation", json!({"duration": 1, "steps": 4}));
        assert!(server.forward(long).await.unwrap().unwrap().text.get().contains("completed"));
        // Ends the client.
        drop(call);
    };
    let (seen, ()) = tokio::join!(client, calls);
    assert!(["sampling/createMessage", "elicitation/create"].iter().all(|method| seen.contains(&(*method).to_owned())));
    assert_eq!(seen.iter().filter(|seen| *seen == "progress").count(), 4, "{seen:?}");
    gateway.stop().await;
}

#[tokio::test]
async fn mistakes_with_published_servers_are_understood() {
    let folder = workplace();
    let gateway = Gateway::start(all_servers(folder.path()));
    let program = r#"const tell = async (call) => { try { await call(); return null } catch (e) { return [e.code, e.message] } };
        return [
          await tell(() => mcp.filesystem.read_text_file({ path: "/nonexistent/at/all" })),
          await tell(() => mcp.filesystem.read_text_file({ pth: "x" })),
          await tell(() => mcp.filesystem.read_file_text({ path: "x" })),
          await tell(() => mcp.time.get_current_time({ timezone: "Mars/Olympus" })),
        ]"#;
    let value = gateway.value(program).await;
    let table = [
        ("TOOL_ERROR", "Access denied"),
        ("INVALID_ARGUMENTS", "args.path: expected string, got nothing; `pth` is not known, did you mean `path`?"),
        ("TOOL_NOT_FOUND", "`filesystem:read_text_file`"),
        ("TOOL_ERROR", "Mars/Olympus"),
    ];
    for (index, (code, part)) in table.into_iter().enumerate() {
        assert_eq!(value[index][0], code, "{value}");
        assert!(value[index][1].as_str().unwrap().contains(part), "{value}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn their_declarations_satisfy_the_compiler() {
    let folder = workplace();
    let mut servers = all_servers(folder.path());
    let dialects = fixture(Way::Stdio, "both", &["--fault", "dialects"]);
    servers.push(dialects.with(|settings| settings.name = "my-fixture".to_owned()));
    let gateway = Gateway::start(servers);
    for server in &gateway.services.servers.all() {
        server.init().await.unwrap();
    }
    let snapshot = gateway.services.catalog.snapshot();
    assert!(snapshot.listings().all(|listing| listing.warnings.is_empty()));
    let declarations = typescript::declarations(snapshot.tools().map(|tool| tool.declared()));
    fs::write(folder.path().join("pml.d.ts"), declarations).unwrap();
    let right = r#"
        import { callTool, ToolError } from "pml";
        const text: string = await mcp.filesystem.read_text_file({ path: "a", head: 3 });
        const now = await mcp.time.get_current_time({ timezone: "UTC" });
        const sum = await mcp.everything.getSum({ a: 1, b: 2 });
        const answer = await callTool("git:git_status", { repo_path: "." });
        const title: string = (await mcp.myFixture.dialect_pages())[0].title;
        await mcp["my-fixture"].dialect_open({ inputs: { anything: 1 } });
        await mcp.myFixture.dialect_null({ name: null });
        await mcp.myFixture.dialect_default();
        await mcp.myFixture.getSum({ a: 1, b: 2 });
        export const all = [text, now, sum, answer.success, ToolError, title];"#;
    fs::write(folder.path().join("right.ts"), right).unwrap();
    let wrong = "await mcp.filesystem.read_text_file({ path: 1 });\nexport {};";
    fs::write(folder.path().join("wrong.ts"), wrong).unwrap();
    let compiler = installed("node_modules/typescript/bin/tsc");
    #[expect(clippy::disallowed_methods, reason = "asks the TypeScript compiler")]
    let compile = |file: &str| {
        let options =
            ["--strict", "--noEmit", "--target", "es2022", "--module", "es2022", "--moduleResolution", "bundler"];
        let mut command = Command::new("node");
        command.arg(&compiler).args(options).args(["pml.d.ts", file]).current_dir(folder.path());
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (is_fine, said) = compile("right.ts");
    assert!(is_fine, "{said}");
    let (is_fine, said) = compile("wrong.ts");
    assert!(!is_fine && said.contains("wrong.ts(1,39)"), "{said}");
    gateway.stop().await;
}

/// A published tool that must be called as a task.
#[tokio::test]
async fn a_published_task_is_awaited() {
    let gateway = Gateway::start(vec![slowly(node("everything", &[]))]);
    let value = gateway.value("return await mcp.everything.simulateResearchQuery({ topic: 'bees' })").await;
    assert!(value.as_str().is_some_and(|report| report.contains("Topic**: bees")), "{value}");
    gateway.stop().await;
}

/// The published server over streamable HTTP. Killed when dropped.
struct Everything(std::process::Child);

impl Everything {
    /// Starts it on a port, and waits until it listens.
    #[expect(clippy::disallowed_methods, reason = "starts a remote server as somebody else would")]
    fn start(port: u16) -> Everything {
        let script = installed("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
        let mut command = Command::new("node");
        command.arg(script).arg("streamableHttp").env("PORT", port.to_string());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening") {
            line.clear();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended before it listened");
        }
        Everything(child)
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_published_remote_server_may_be_restarted() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let first = Everything::start(port);
    let url = format!("http://127.0.0.1:{port}/mcp");
    let gateway = Gateway::start(vec![slowly(remote("everything", &url, HttpWire::Auto))]);
    let echo = "return await mcp.everything.echo({ message: 'x' })";
    assert_eq!(gateway.value(echo).await, "Echo: x");
    drop(first);
    // It answers 400 for the session that it does not know.
    let _second = Everything::start(port);
    assert_eq!(gateway.value(echo).await, "Echo: x");
    gateway.stop().await;
}
