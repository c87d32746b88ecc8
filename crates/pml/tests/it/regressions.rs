//! Programs that once got the better of us.

use std::time::Duration;

use pml_wire::ErrorCode;
use serde_json::json;

use crate::support::{Sandbox, code};

#[tokio::test]
async fn nothing_that_is_not_a_value_reaches_a_program() {
    let sandbox = Sandbox::start();
    let table = [
        (
            "let e; try { mcp.test.echo(new Proxy([], { get: (t, k) => k === 'length' ? '3' : undefined })) } catch (x) { e = x }
             for (const k in e as any); return typeof e",
            json!("undefined"),
        ),
        ("const n: any = Object(1); n.valueOf = 5; const r = await pml.callTool('test:echo', { n }); return r.result", json!({"n": 1})),
        ("const n: any = Object(1); n.valueOf = 5; return n", json!(1)),
        ("return new Proxy([1, 2, 3], { get: (t, k) => k === 'length' ? '2' : Reflect.get(t, k) })", json!([1, 2])),
    ];
    for (program, expected) in table {
        assert_eq!(sandbox.value(program).await, expected, "{program}");
    }
    let error = sandbox
        .run("return new Proxy([], { get: (t, k) => k === 'length' ? Symbol() : undefined })")
        .await
        .result
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::ResultNotJson, "{error:?}");
    sandbox.stop().await;
}

#[tokio::test]
async fn printing_runs_nothing_and_breaks_nothing() {
    let sandbox = Sandbox::start();
    let table = [
        "const e = new Error('a'); Object.setPrototypeOf(e, new Proxy({}, { getPrototypeOf() { console.log('ran'); throw 1 } })); console.log(e)",
        "Object.defineProperty(Symbol.prototype, 'description', { get() { console.log('ran'); return 'evil' } }); console.log(Symbol('x'))",
        "class A { get x() { console.log('ran'); return 1 } } console.log(new A(), Object.create(new Proxy({}, { get() { console.log('ran') } })))",
    ];
    for program in table {
        let outcome = sandbox.run(program).await;
        assert!(outcome.result.is_ok(), "{program}: {outcome:?}");
        assert!(outcome.logs.iter().all(|log| log.text != "ran"), "{program}: {outcome:?}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn every_buffer_counts_as_memory() {
    let sandbox = Sandbox::start();
    let program = "const keep = []; const s = 'x'.repeat(8e6); for (let i = 0; i < 60; i++) keep.push(new TextEncoder().encode(s))";
    assert_eq!(code(&sandbox.run(program).await), Some(ErrorCode::MemoryLimit));
    sandbox.stop().await;
}

#[tokio::test]
async fn oversized_names_are_cut_not_violations() {
    let sandbox = Sandbox::start();
    let table = [
        ("(await pml.callTool('x'.repeat(20e6) + ':b', {})).error.code", json!("TOOL_NOT_FOUND")),
        ("for (let i = 0; i < 4; i++) pml.callTool('x'.repeat(3e6) + ':b', { a: () => 1 }); 1", json!(1)),
        (
            "const e = new Error('x'); e.name = 'n'.repeat(1e6); for (let i = 0; i < 10; i++) Promise.reject(e); 1",
            json!(1),
        ),
        (
            "const k = 'x'.repeat(1e6); const o: any = {}; for (const c of 'abcdefghij') o[c] = () => 1; Object.keys({ [k]: o }).length",
            json!(1),
        ),
    ];
    for (program, expected) in table {
        assert_eq!(sandbox.value(program).await, expected, "{program:.60}");
    }
    for program in [
        "const e = new Error('x'); e.name = 'n'.repeat(9e6); throw e",
        "const f = () => { throw new Error('x') }; Object.defineProperty(f, 'name', { value: 'n'.repeat(9e6) }); f()",
        "throw new Error('m'.repeat(9e6))",
    ] {
        let outcome = sandbox.run(program).await;
        assert_eq!(code(&outcome), Some(ErrorCode::Exception), "{program}");
        assert!(format!("{outcome:?}").len() < 50_000, "{program}");
    }
    let outcome =
        sandbox.run("const s = 'x'.repeat(4e6); for (let i = 0; i < 5; i++) await pml.callTool(s + ':b', {})").await;
    assert!(outcome.calls.iter().all(|call| call.tool.len() < 600));
    sandbox.stop().await;
}

#[tokio::test]
async fn functions_of_ours_cannot_be_taken_from_a_stack() {
    let sandbox = Sandbox::start();
    let program = r#"
        let forge: any; const P = Error as any;
        Object.defineProperty(Object.prototype, "code", { configurable: true, set(v) {
          P.prepareStackTrace = (_: any, sites: any[]) => { for (const s of sites) if (s.getFunctionName() === "makeToolError") forge = s.getFunction?.(); return "" };
          new Error("x").stack; P.prepareStackTrace = undefined; Object.defineProperty(this, "code", { value: v });
        } });
        try { await mcp.test.fail({}) } catch {}
        return typeof forge
    "#;
    assert_eq!(sandbox.value(program).await, json!("undefined"));
    let program = "Object.setPrototypeOf(pml.ToolError, function () { throw 1 })";
    assert_eq!(code(&sandbox.run(program).await), Some(ErrorCode::Exception));
    sandbox.stop().await;
}

/// The program has failed, and that is said. What it throws may not use up the rest of its time.
#[tokio::test]
async fn what_is_thrown_cannot_hold_up_the_report_about_it() {
    let mut sandbox = Sandbox::start();
    sandbox.budget.timeout = Duration::from_secs(60);
    for program in [
        "const e = new Error('x'); Object.defineProperty(e, 'message', { get() { for (;;) {} } }); throw e",
        "throw { get message() { for (;;) {} }, toString() { for (;;) {} }, then: 1, get name() { for (;;) {} } }",
    ] {
        let outcome = sandbox.run(program).await;
        assert_eq!(code(&outcome), Some(ErrorCode::Exception), "{program}: {outcome:?}");
        assert!(outcome.duration < Duration::from_secs(30), "{program}: {:?}", outcome.duration);
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn large_integers_stay_integers() {
    let sandbox = Sandbox::start();
    let outcome = sandbox.run("return [1700000000000000, Number.MAX_SAFE_INTEGER, -1e20, 1e21, 0.5]").await;
    assert_eq!(outcome.result.unwrap().get(), "[1700000000000000,9007199254740991,-100000000000000000000,1e+21,0.5]");
    let outcome = sandbox.run("return 12345678901234567890").await;
    assert_eq!(outcome.result.unwrap().get(), "12345678901234567000");
    sandbox.stop().await;
}

#[tokio::test]
async fn globals_agree_with_other_engines() {
    let sandbox = Sandbox::start();
    let table = [
        ("new URL('http://a/\\ud800').href", json!("http://a/%EF%BF%BD")),
        (
            "const u = new URL('http://a.b/c?x=1'); const s = u.searchParams; u.search = '?y=2'; [s.get('y'), s === u.searchParams]",
            json!(["2", true]),
        ),
        ("new TextDecoder('utf-16le').decode(new Uint8Array([65, 0, 66]))", json!("A\u{fffd}")),
        (
            "const d = new TextDecoder('utf-8', { fatal: true }); d.decode(new Uint8Array([0xe2]), { stream: true });
          try { d.decode(new Uint8Array([0xff])) } catch {} d.decode(new Uint8Array([65]))",
            json!("A"),
        ),
        ("structuredClone(new Number(3)) instanceof Number", json!(true)),
        ("try { new URLSearchParams([['a']] as any) } catch (e) { return e.name }", json!("TypeError")),
        (
            "const t = new EventTarget(); const c = new AbortController(); let n = 0;
          t.addEventListener('x', () => n++, { signal: c.signal }); c.abort(); t.dispatchEvent(new Event('x')); n",
            json!(0),
        ),
    ];
    for (program, expected) in table {
        assert_eq!(sandbox.value(program).await, expected, "{program}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn common_mistakes_are_told_well() {
    let sandbox = Sandbox::start();
    let table = [
        ("const data: any = {};\nconst [first] = data.items;", "agent.ts:2:", ""),
        ("const r: any = await 0 || null;\nconst q = 1;\nconst { a } = r;", "agent.ts:3:", ""),
        ("const f = (o: any) => {\n  const { a } = o;\n  return a;\n};\nreturn f(undefined)", "agent.ts:2:", ""),
        ("const re = 1;\nconst r = /(/;", "agent.ts:2:", ""),
        ("class E2 { constructor(public m: string) {} }\nthrow new E2('x')", "agent.ts:2:7", "thrown: E2 { m: \"x\" }"),
        ("1;\nstructuredClone(() => 1)", "", "DataCloneError: a function cannot be cloned"),
        (
            "throw new Error('outer', { cause: new Error('inner detail') })",
            "agent.ts:1:",
            "caused by: Error: inner detail",
        ),
        ("await Promise.any([Promise.reject(new Error('one'))])", "", "one of: Error: one"),
    ];
    for (program, place, message) in table {
        let error = sandbox.run(program).await.result.unwrap_err();
        assert!(error.frame.as_deref().unwrap_or_default().starts_with(place), "{program}: {error:#?}");
        assert!(error.message.contains(message), "{program}: {error:#?}");
    }
    let error = sandbox.run("await callTool('a:b')").await.result.unwrap_err();
    assert!(error.hint.as_deref().unwrap().contains("import it"), "{error:?}");
    sandbox.stop().await;
}
