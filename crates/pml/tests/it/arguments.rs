//! Arguments of calls: what is wrong with them is said so that it can be mended, before the call or before the program.

use pml_wire::ErrorCode;
use serde_json::json;

use super::gateway::{Gateway, Way, fixture};

fn gateway() -> Gateway {
    Gateway::start(vec![fixture(Way::Stdio, "both", &["--fault", "dialects"])])
}

#[tokio::test]
async fn a_wrong_argument_is_told_by_path_expectation_and_short_form() {
    let gateway = gateway();
    let long = "'iVBORw0KGgo='.repeat(20_000)";
    #[rustfmt::skip]
    let table = [
        ("dialect_list", "{ limit: '5' }",                  r#"args.limit: expected integer | null, got "5""#),
        ("dialect_list", &*format!("{{ limit: {long} }}"),  "args.limit: expected integer | null, got \"iVBORw0KGgo="),
        ("dialect_list", "{ state: 'close' }",              r#"args.state: expected "open" | "closed" | "all" | null, got "close"; did you mean "closed"?"#),
        ("dialect_list", "{ filter: { author: 1 } }",       "args.filter.author: expected string, got 1"),
        ("dialect_list", "{ filter: '{}' }",                "args.filter: expected { author: string } | null, got \"{}\""),
        ("dialect_method", "{ method: 'checks' }",          r#""get_labels" | "get_check_runs", got "checks""#),
        ("dialect_method", "{ methd: 'get' }",              "got nothing; `methd` is not known, did you mean `method`?"),
        ("dialect_null", "{ name: 5 }",                     "args.name: expected string | null, got 5"),
        ("dialect_encoded", "{ page: { title: 1 } }",       "args.page.title: expected string, got 1"),
        ("dialect_unencoded", "{ page: { title: 1 } }",     "args.page.title: expected string, got 1"),
        ("dialect_anchor", "{ page: { title: 1 } }",        "args.page.title: expected string, got 1"),
    ];
    for (tool, arguments, expected) in table {
        // A name that is computed is checked by the call alone.
        let program = format!("const tool = '{tool}'; await mcp.fix[tool]({arguments})");
        let (code, message) = gateway.error(&program).await;
        assert_eq!(code, ErrorCode::InvalidArguments, "{tool} {arguments}: {message}");
        assert!(message.contains(expected), "{tool} {arguments}: {message}");
        assert!(message.len() < 600, "{message}");
    }
    // What the schemas mean is let through.
    for (tool, arguments) in [
        ("dialect_list", "{ limit: null, state: 'all', filter: { author: 'x' } }"),
        ("dialect_default", "{}"),
        ("dialect_null", "{ name: null }"),
        ("dialect_open", "{ inputs: { anything: 1 } }"),
        ("dialect_encoded", "{ page: { title: 'x' } }"),
    ] {
        let value = gateway.value(&format!("return await mcp.fix.{tool}({arguments})")).await;
        assert_eq!(value, json!(tool), "{arguments}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_argument_that_the_schema_does_not_name_is_a_warning() {
    let gateway = gateway();
    let program = "for (let i = 0; i < 3; i++) await mcp.fix.dialect_list({ limt: 5 }); return 1";
    let outcome = gateway.run(program).await;
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    let expected = "the schema of `fix:dialect_list` does not name `args.limt`; did you mean `limit`?";
    assert_eq!(outcome.warnings, [expected]);
    // It is said of a call that fails too, and not where the schema takes anything.
    let program = "return [await mcp.fix.dialect_open({ inputs: { x: 1 } }), await mcp.fix.dialect_list({ limit: 5 })]";
    assert!(gateway.run(program).await.warnings.is_empty());
    gateway.stop().await;
}

#[tokio::test]
async fn values_that_are_written_out_are_checked_before_the_program_runs() {
    let gateway = gateway();
    #[rustfmt::skip]
    let table = [
        ("mcp.fix.dialect_list({ limit: '5' })",        r#"the arguments of `fix:dialect_list` are wrong: args.limit: expected integer | null, got "5""#),
        ("mcp.fix.dialect_list({ filter: { author: 1 } })", "args.filter.author: expected string, got 1"),
        ("mcp.fix.dialect_method({ method: 'checks', note: x })", r#""get_labels" | "get_check_runs", got "checks""#),
        ("mcp.fix.dialect_method({ methd: 'get' })",    "`fix:dialect_method` needs the argument `method`; `methd` is not known, did you mean `method`?"),
        ("mcp.fix.add({ a: 1, b: '2' })",               r#"args.b: expected number, got "2""#),
    ];
    for (call, expected) in table {
        let program = format!("const x = 'x';\nawait mcp.fix.count({{ key: 'k' }});\nawait {call}");
        let outcome = gateway.run(&program).await;
        let error = outcome.result.unwrap_err();
        assert_eq!(error.code, ErrorCode::PreflightFailed, "{call}: {}", error.message);
        assert!(error.message.contains(expected) && error.message.contains("line 3"), "{call}: {}", error.message);
        // With the signature, and nothing was done.
        assert!(error.message.contains("\n  signature: mcp.fix."), "{}", error.message);
        assert!(outcome.calls.is_empty());
    }
    assert_eq!(gateway.value("return (await mcp.fix.counters({})).calls").await, 1);
    // What can be right when it is sent is not refused; nor is a required argument that has a default.
    for call in [
        "mcp.fix.dialect_default({})",
        "mcp.fix.dialect_list({ limit: Number('5') })",
        "mcp.fix.dialect_list({ limit: '5', ...{ limit: 5 } })",
        "mcp.fix.dialect_null({ name: null })",
    ] {
        let outcome = gateway.run(&format!("return await {call}")).await;
        assert!(outcome.result.is_ok() && outcome.warnings.is_empty(), "{call}: {outcome:?}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn values_of_a_large_schema_are_checked_before_the_program_runs_too() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &["--fault", "hostile-schemas"])]);
    let (code, message) = gateway.error("return await mcp.fix.enumerated({ text: ['x'] })").await;
    assert_eq!(code, ErrorCode::PreflightFailed, "{message}");
    assert!(message.contains("args.text[0]: expected 0 | 1 | 2 | "), "{message}");
    assert!(message.contains("more), got \"x\"\n  signature: ") && message.len() < 4000, "{message}");
    gateway.stop().await;
}

#[tokio::test]
async fn signatures_have_what_a_call_needs() {
    let gateway = gateway();
    let program = r#"import { searchTools } from "pml";
        const found = await searchTools("dialect", 50, 0);
        return Object.fromEntries(found.map((tool) => [tool.name, tool.signature]))"#;
    let signatures = gateway.value(program).await;
    let methods = ["get", "get_diff", "get_status", "get_files", "get_commits", "get_reviews", "get_comments"];
    let methods: Vec<_> =
        methods.iter().chain(&["get_labels", "get_check_runs"]).map(|name| format!("{name:?}")).collect();
    #[rustfmt::skip]
    let table = [
        ("dialect_method",  &*format!("mcp.fix.dialect_method(args: {{ method: {}; note?: string }}): Promise<any>", methods.join(" | "))),
        ("dialect_default", r#"mcp.fix.dialect_default(args?: { scale?: "css" | "device" /* default "css" */ }): Promise<any>"#),
        ("dialect_null",    "mcp.fix.dialect_null(args: { name: string | null }): Promise<any>"),
        ("dialect_open",    "mcp.fix.dialect_open(args?: { inputs?: object }): Promise<any>"),
        ("dialect_anchor",  "mcp.fix.dialect_anchor(args?: { page?: { title?: string }; note?: string }): Promise<any>"),
        ("dialect_pages",   "mcp.fix.dialect_pages(args?: {}): Promise<{ title: string }[]>"),
    ];
    for (tool, expected) in table {
        assert_eq!(signatures[format!("fix:{tool}")], expected);
    }
    assert_eq!(gateway.value("return (await mcp.fix.dialect_pages())[0].title").await, "First");
    gateway.stop().await;
}
