//! Resources and prompts in programs.

use pml::broker::Policy;
use pml_testkit::fixture_path;
use pml_wire::ErrorCode;
use serde_json::json;

use super::{
    gateway::{Gateway, MATRIX, Way, fixture, stdio},
    peer::{Era, Home},
};

#[tokio::test]
async fn programs_read_what_servers_have() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![fixture(way, era, &[])]);
        let program = r#"import { getPrompt, listResources, readResource } from "pml";
            const all = await listResources();
            const first = all[0];
            const blob = await readResource("fixture://blob");
            const [one, two] = await readResource("fixture://two");
            return {
                listed: all.filter((resource) => resource.uri).length,
                templates: all.filter((resource) => resource.uriTemplate).length,
                server: first.server,
                text: await readResource(first),
                same: await readResource(first.uri, "fix"),
                blob: [blob.type, blob.mimeType, blob.uri, await blob.slice()],
                two: [one.text, two.type],
                prompt: (await getPrompt("fix", "greet", { name: "Ada" })).messages[0].content.text,
                json: (await readResource("fixture://json")).a,
            }"#;
        let expected = json!({
            "listed": 5, "templates": 1, "server": "fix", "text": "words", "same": "words",
            "blob": ["resource", "x/y", "fixture://blob", "AAEC/w=="], "two": ["one", "resource"], "prompt": "greet Ada", "json": [1, 2],
        });
        assert_eq!(gateway.value(program).await, expected, "{way:?} {era}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_link_is_read_from_the_server_that_returned_it() {
    let path = fixture_path();
    let server = |name: &str, args: &[&str]| stdio(name, path.to_string_lossy(), args);
    // Two servers that would both answer for what nobody lists.
    let gateway = Gateway::start(vec![server("one", &[]), server("two", &["--says", "somebody else"])]);
    let program = r#"import { readResource } from "pml";
        const blocks = await mcp.one.image({});
        const link = blocks.find((block) => block.type === "resource_link");
        const enveloped = await pml.callTool("one:image", {});
        const refused = await readResource(link.uri).catch((error) => error.code);
        return [await readResource(link), await readResource(enveloped.result.at(-1)), await readResource(link.uri, "two"), refused]"#;
    let expected = json!(["behind the link", "behind the link", "somebody else", "RESOURCE_NOT_FOUND"]);
    assert_eq!(gateway.value(program).await, expected);
    gateway.stop().await;
}

#[tokio::test]
async fn mistakes_have_codes_and_hints() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    let table = [
        ("readResource('fixture://none')", ErrorCode::ResourceNotFound, "Resource not found"),
        (
            "readResource('fixture://item/1', 'fx')",
            ErrorCode::ResourceNotFound,
            "there is no server `fx`; did you mean `fix`?",
        ),
        ("listResources('fx')", ErrorCode::ResourceNotFound, "did you mean `fix`?"),
        ("readResource('x:' + 'y'.repeat(9000))", ErrorCode::InvalidArguments, "at most 8192 bytes"),
        (
            "getPrompt('fix', 'greeet', { name: 'x' })",
            ErrorCode::ResourceNotFound,
            "has no prompt `greeet`; did you mean `greet`?",
        ),
        (
            "getPrompt('fix', 'greet', { name: { a: 1 } })",
            ErrorCode::InvalidArguments,
            "the argument `name` of a prompt must be a text",
        ),
        ("getPrompt('fix', 'greet', { name: 'x'.repeat(20_000) })", ErrorCode::InvalidArguments, "16384 bytes"),
        ("readResource(7 as any)", ErrorCode::Exception, "readResource takes an address or a link"),
        (
            "getPrompt('greet' as any, undefined as any)",
            ErrorCode::Exception,
            "getPrompt takes a server, the name of a prompt",
        ),
    ];
    for (call, code, part) in table {
        let names = "import { getPrompt, listResources, readResource } from 'pml'; ";
        let (found, message) = gateway.error(&format!("{names}return await {call}")).await;
        assert_eq!(found, code, "{call}: {message}");
        assert!(message.contains(part), "{call}: {message}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn reads_pass_the_policy_and_leave_a_line() {
    let deny = ["fix:resource:fixture://item/2", "fix:prompt:part"].map(str::to_owned).to_vec();
    let policy = Policy { deny, ..Policy::default() };
    let gateway = Gateway::with(vec![fixture(Way::Stdio, "both", &[])], policy, tempfile::tempdir().unwrap());
    let program = r#"import { getPrompt, listResources, readResource } from "pml";
        const code = (promise) => promise.then(() => "read", (error) => error.code);
        return [
            (await listResources("fix")).filter((it) => it.uri).length,
            await code(readResource("fixture://item/1")),
            await code(readResource("fixture://item/2")),
            await code(readResource("pml:fix:fixture://item/2")),
            await code(getPrompt("fix", "part", { name: "x" })),
        ]"#;
    assert_eq!(gateway.value(program).await, json!([4, "read", "POLICY_DENIED", "POLICY_DENIED", "POLICY_DENIED"]));
    let lines = gateway.audit().await;
    let told: Vec<_> =
        lines.iter().map(|line| (line["tool"].as_str().unwrap(), line["decision"].as_str().unwrap())).collect();
    assert_eq!(
        told,
        [
            ("fix:resource:fixture://item/1", "allow"),
            ("fix:resource:fixture://item/2", "deny"),
            ("fix:resource:fixture://item/2", "deny"),
            ("fix:prompt:part", "deny"),
        ]
    );
    assert!(lines.iter().all(|line| line["execution_id"] == lines[0]["execution_id"]), "one run: {lines:?}");
    assert_eq!(lines.iter().map(|line| line["call"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 3, 4, 5]);
}

/// What a server says about itself comes with the first of its tools that is shown, once in a session.
#[tokio::test]
async fn servers_introduce_themselves_once() {
    let fixture = fixture_path();
    let home = Home::new(&format!("[servers.fix]\ncommand = {:?}\n", fixture.to_str().unwrap()));
    let mut peer = home.stdio_with(Era::Legacy, &[]);
    peer.request("initialize", super::peer::initialize(super::peer::LEGACY[0])).await;
    peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    let search = json!({"name": "search_tools", "arguments": {"query": "echo a text back"}});
    let first = peer.request("tools/call", search.clone()).await["result"].clone();
    let text = first["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("server `fix` says about itself:\n  A server for tests."), "{text}");
    assert_eq!(first["structuredContent"]["instructions"], json!({ "fix": "A server for tests." }));
    let second = peer.request("tools/call", search).await["result"].clone();
    assert!(second["structuredContent"]["instructions"].is_null(), "{second}");
}
