//! What programs may be written in, what they find, and what becomes of their results.

use pml_wire::ErrorCode;
use serde_json::json;

use crate::support::Sandbox;

/// Runs programs that fail: with this code, and a message that contains this.
async fn check_errors(sandbox: &Sandbox, table: &[(&str, ErrorCode, &str)]) {
    for (program, expected, message) in table {
        let error = sandbox.run(program).await.result.unwrap_err();
        assert_eq!(error.code, *expected, "{program}: {error:?}");
        assert!(error.message.contains(message), "{program}: {error:?}");
    }
}

#[tokio::test]
async fn modern_typescript_runs() {
    let table = [
        ("return 1 + 1", json!(2)),
        ("1 + 1", json!(2)),
        ("const x: number = 1; const y = <number>x; y as unknown", json!(1)),
        ("function id<T extends object>(x: T): T { return x } id({ a: 1 })", json!({"a": 1})),
        ("enum E { A, B = 5, C } return [E.A, E.C, E[5]]", json!([0, 6, "B"])),
        ("const enum E { A = 'x' } return E.A", json!("x")),
        ("namespace N { export const x = 1; export namespace M { export const y = 2 } } N.M.y", json!(2)),
        ("class P { constructor(private readonly x: number) {} get() { return this.x } } new P(3).get()", json!(3)),
        ("const x = { a: 1 } satisfies Record<string, number>; x", json!({"a": 1})),
        ("let s = ''; { using r = { [Symbol.dispose]() { s = 'disposed' } } } return s", json!("disposed")),
        ("let s = ''; { await using r = { async [Symbol.asyncDispose]() { s = 'a' } } } return s", json!("a")),
        ("import type { X } from 'anywhere'; const x: X = 1; return x", json!(1)),
        ("import { X } from 'anywhere'; const x: X = 1; return x", json!(1)),
        (
            "import { callTool } from 'pml'; const r = await callTool('test:echo', { a: 1 }); return r.result.a",
            json!(1),
        ),
        (
            "import pml, * as all from 'pml'; return [typeof pml.progress, typeof all.default, typeof all.callTool]",
            json!(["function", "object", "function"]),
        ),
        ("const p = await import('pml'); return typeof p.callTool", json!("function")),
        (
            "const f = async () => (await import('pml')).callTool; return f.toString().includes(`import(\"pml\")`)",
            json!(true),
        ),
        (
            "abstract class A<T> { abstract f(): T } class B extends A<number> { override f() { return 4 } } new B().f()",
            json!(4),
        ),
        (
            "function f(this: void, a?: number, ...rest: string[]): asserts a is number {} f(); typeof f",
            json!("function"),
        ),
        (
            "type A = keyof typeof import('x'); interface I { a: A } declare const z: I; declare function q(): void; 1",
            json!(1),
        ),
        ("const o = { a: { b: null as null | { c: number } } }; return o.a?.b?.c ?? 'none'", json!("none")),
        ("label: for (const a of [1, 2]) { for (;;) { continue label } } return 'ok'", json!("ok")),
        (
            "async function* g() { yield 1; yield 2 } const r = []; for await (const x of g()) r.push(x); r",
            json!([1, 2]),
        ),
        ("class A { static #n = 1; static { A.#n++ } static get n() { return A.#n } } A.n", json!(2)),
        ("export const a = 1; export function f() { return a } export default f()", json!(1)),
        ("// only a comment", json!(null)),
        ("\u{feff}return 'bom'", json!("bom")),
        ("#!/usr/bin/env ts\nreturn 'shebang'", json!("shebang")),
        ("switch (args.name) { case 'x': return 1; case 'value': return 2; default: return 3 }", json!(2)),
        ("return args", json!({"name": "value"})),
        ("return typeof this", json!("object")),
        ("'use strict'; return (function () { return this === undefined })()", json!(true)),
    ];
    let sandbox = Sandbox::start();
    for (program, expected) in table {
        assert_eq!(sandbox.value(program).await, expected, "{program}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn what_is_not_supported_is_refused_with_a_reason() {
    let table = [
        ("@d class A {}", ErrorCode::UnsupportedSyntax, "decorators"),
        ("class A { @d m() {} }", ErrorCode::UnsupportedSyntax, "decorators"),
        ("return <div>hi</div>", ErrorCode::UnsupportedSyntax, "JSX"),
        ("import fs from 'node:fs'; fs.readFileSync('x')", ErrorCode::UnsupportedSyntax, "only \"pml\""),
        ("import { nope } from 'pml'; nope()", ErrorCode::UnsupportedSyntax, "has no export `nope`"),
        ("await import('fs')", ErrorCode::Exception, "only \"pml\""),
        ("await import('pml\\0x')", ErrorCode::Exception, "`pml\\0x` cannot be imported"),
        ("await eval('import(\"pml\\\\0x\")')", ErrorCode::Exception, "evaluated cannot import"),
        ("const x = ;", ErrorCode::SyntaxError, "Unexpected token"),
        ("let a = 1; let a = 2", ErrorCode::SyntaxError, "already"),
        ("/(/", ErrorCode::SyntaxError, ""),
        ("return [..._]; var _ = [1]; function _f() {}", ErrorCode::Exception, ""),
        ("a\0b", ErrorCode::SyntaxError, ""),
        ("", ErrorCode::CodeEmpty, "no code"),
        (" \n ", ErrorCode::CodeEmpty, "no code"),
    ];
    let sandbox = Sandbox::start();
    check_errors(&sandbox, &table).await;
    sandbox.stop().await;
}

#[tokio::test]
async fn every_listed_global_is_there_and_works() {
    let table = [
        ("new TextDecoder().decode(new TextEncoder().encode('h€llo \u{1f600}'))", json!("h€llo \u{1f600}")),
        ("new TextDecoder('latin1').decode(new Uint8Array([0xe9, 0x80]))", json!("é€")),
        ("new TextDecoder('utf-16le').decode(new Uint8Array([0x61, 0, 0xac, 0x20]))", json!("a€")),
        (
            "const d = new TextDecoder(); d.decode(new Uint8Array([0xe2, 0x82]), { stream: true }) + d.decode(new Uint8Array([0xac]))",
            json!("€"),
        ),
        ("new TextDecoder().decode(new Uint8Array([0x61, 0xff]))", json!("a\u{fffd}")),
        ("new TextEncoder().encodeInto('a€b', new Uint8Array(4))", json!({"read": 2, "written": 4})),
        (
            "const u = new URL('../c?d=1#e', 'https://u:p@example.com:8080/a/b'); [u.href, u.port, u.searchParams.get('d')]",
            json!(["https://u:p@example.com:8080/c?d=1#e", "8080", "1"]),
        ),
        (
            "const u = new URL('http://a/'); u.searchParams.append('k', 'a b'); u.hash = 'x'; `${u}`",
            json!("http://a/?k=a+b#x"),
        ),
        ("[...new URLSearchParams('?a=1&a=2&b=%20')]", json!([["a", "1"], ["a", "2"], ["b", " "]])),
        ("[URL.canParse('nope'), URL.parse('nope')]", json!([false, null])),
        (
            "structuredClone({ d: new Date(0), m: [...new Map([[1, new Set([2])]])], n: new Uint8Array([1]) }).d.toISOString()",
            json!("1970-01-01T00:00:00.000Z"),
        ),
        ("const a: any = { b: 1 }; a.a = a; const c = structuredClone(a); c.a === c && c !== a", json!(true)),
        ("try { structuredClone(() => 1) } catch (e) { e.name }; 1", json!(1)),
        ("atob(btoa('hi'))", json!("hi")),
        (
            "/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID())",
            json!(true),
        ),
        ("crypto.getRandomValues(new Uint32Array(8)).some((x) => x > 0)", json!(true)),
        (
            "const c = new AbortController(); let r; c.signal.addEventListener('abort', () => r = c.signal.reason.name); c.abort(); r",
            json!("AbortError"),
        ),
        ("AbortSignal.any([AbortSignal.abort('why')]).reason", json!("why")),
        (
            "const s = AbortSignal.timeout(1); await new Promise((r) => s.onabort = r); s.reason.name",
            json!("TimeoutError"),
        ),
        (
            "const t = performance.now(); await new Promise((r) => setTimeout(r, 20)); performance.now() - t >= 19",
            json!(true),
        ),
        (
            "let n = 0; const i = setInterval(() => n++, 1); await new Promise((r) => setTimeout(r, 50)); clearInterval(i); n > 5",
            json!(true),
        ),
        ("await new Promise((r) => setTimeout(r, 1, 'arg'))", json!("arg")),
        (
            "const t = setTimeout(() => { throw 1 }, 1); clearTimeout(t); await new Promise((r) => setTimeout(r, 5)); 'ok'",
            json!("ok"),
        ),
        (
            "const order = []; setTimeout(() => order.push(3), 2); setTimeout(() => order.push(2), 1); queueMicrotask(() => order.push(1)); await new Promise((r) => setTimeout(r, 10)); order",
            json!([1, 2, 3]),
        ),
        ("new Date(2024, 0, 1).getTimezoneOffset()", json!(0)),
        ("Object.keys(globalThis)", json!([])),
        (
            "await new Promise(setImmediate); clearImmediate(setImmediate(() => { throw 1 })); console.clear(); 5",
            json!(5),
        ),
        (
            "const target = new EventTarget(); let seen; target.addEventListener('done', (event) => { seen = [event.detail, event.currentTarget === target] }); target.dispatchEvent(new CustomEvent('done', { detail: 5 })); seen",
            json!([5, true]),
        ),
        (
            "['fetch', 'process', 'require', 'Deno', 'Temporal', 'Intl'].map((n) => typeof globalThis[n])",
            json!(["undefined", "undefined", "undefined", "undefined", "object", "object"]),
        ),
    ];
    let sandbox = Sandbox::start();
    for (program, expected) in table {
        assert_eq!(sandbox.value(program).await, expected, "{program}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn two_runs_do_not_draw_the_same_numbers() {
    let sandbox = Sandbox::with(crate::support::options(env!("CARGO_BIN_EXE_pml"), pml::sandbox::Mode::Worker));
    let draw = "[Math.random(), crypto.randomUUID()]";
    let (first, second) = (sandbox.value(draw).await, sandbox.value(draw).await);
    assert_ne!(first[0], second[0]);
    assert_ne!(first[1], second[1]);
    sandbox.stop().await;
}

/// Values are looked at for warnings where a program has `mcp`. Its getters, of which each counts, run as often as in any engine.
#[tokio::test]
async fn nothing_of_a_program_runs_for_a_look() {
    let sandbox = Sandbox::start();
    let table = [
        // A list with a getter in it.
        ("const l = [1, 2]; count(l, 0); const a = l.includes('bug'); return [a, runs]", json!([false, 1])),
        ("const o = { l: [1] }; count(o.l, 0); const a = o.l.indexOf('bug'); return [a, runs]", json!([-1, 1])),
        (
            "const l = [1, 2]; count(l, 0); const p = { id: 'a' }; const a = l.includes(p.id); return [a, runs]",
            json!([false, 1]),
        ),
        ("const l = [1, 2]; count(l, 0); const a = Math.min(...l); return [a, runs]", json!([2, 1])),
        (
            "const l = [[1, 2]]; count(l[0], 0); const a = new Map(l.map((x) => x)); return [a.size, runs]",
            json!([1, 1]),
        ),
        (
            "const l = [9, 8]; count(l, 0); const p = { l }; const a = `is ${p.l}`; return [a, runs]",
            json!(["is 7,8", 1]),
        ),
        ("const l = ['t', 'f']; count(l, 0); const a = l.filter(Boolean); return [a.length, runs]", json!([2, 1])),
        // What stands in front of the method.
        (
            "const o = {}; count(o, 'l', ['1']); const p = { id: 1 }; const a = o.l.includes(p.id); return [a, runs]",
            json!([false, 1]),
        ),
        (
            "class C { get ids() { runs++; return new Set(['1']) } } const c = new C(), p = { id: 1 };
          const a = c.ids.has(p.id); return [a, runs]",
            json!([false, 1]),
        ),
        // The size of a Map, whose getter has a place of its own.
        (
            "class M extends Map { get size() { runs++; const c = { ...q.n }; return super.size } }
          const q = { n: 1, m: new M([[1, 2]]) }; const c = { ...q.m }; return [Object.keys(c).length, runs]",
            json!([0, 0]),
        ),
        // The text of an object, which is asked for as a number, and for one that is looked for.
        (
            "const p = { a: { valueOf: () => 5, toString() { runs++; return '5' } } }; return [p.a * 2 > 3, runs]",
            json!([true, 0]),
        ),
        (
            "const s = new Set(['5']), w = { o: { toString() { runs++; return '5' } } }; return [s.has(w.o), runs]",
            json!([false, 0]),
        ),
        // A look inside of what a look might have called.
        (
            "const q = { b: 'x' }, p = { a: { valueOf: () => 5, toString: () => (Number(q.b) > 3 ? '5' : '6') } };
          return p.a * 2 > 3",
            json!(true),
        ),
        // A global that a filter goes through, and that is gone then.
        ("count(globalThis, 'gl', [1, 2, 3]); return [gl.filter((y) => y > 2), runs]", json!([[3], 1])),
    ];
    for (program, expected) in table {
        let start = "mcp; let runs = 0;
            const count = (o, name, value = 7) => Object.defineProperty(o, name, { get() { runs++; return value } });";
        assert_eq!(sandbox.value(&format!("{start} {program}")).await, expected, "{program}");
    }
    sandbox.stop().await;
}

/// A look takes nothing out of a chain that may end early.
#[tokio::test]
async fn optional_chains_end_early_where_values_are_looked_at() {
    let sandbox = Sandbox::start();
    let table = [
        ("o.log?.lines.filter((l) => l.a).length ?? 0", json!(0)),
        ("x?.t.match(/a/).index ?? 1", json!(1)),
        ("o.l?.rows.find((y) => y).id ?? 'none'", json!("none")),
        ("o.l?.rows.filter((y) => y)[0] ?? 2", json!(2)),
        ("o.l?.x.map((q) => q).filter((y) => y).length ?? 3", json!(3)),
        ("[...(x?.l.filter((y) => y).concat([1]) ?? [7])]", json!([7])),
        ("x?.d.filter((y) => new Date(y[0]) > 1).at(0) ?? 4", json!(4)),
        ("o.l?.[0].match(/q/)[1] ?? 5", json!(5)),
    ];
    for (program, expected) in table {
        let program = format!("mcp; const o = {{ l: null, log: undefined }}; const x = undefined; return {program}");
        assert_eq!(sandbox.value(&program).await, expected, "{program}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn results_are_json_or_say_why_not() {
    let sandbox = Sandbox::start();
    let table = [
        ("undefined", json!(null), None),
        ("Math.max", json!(null), Some("$: a function has no JSON form")),
        ("({ f() {}, s: Symbol('x'), u: undefined, k: 1 })", json!({"k": 1}), Some("$.f: a function was dropped")),
        ("[undefined, () => 1, Symbol()]", json!([null, null, null]), Some("$[1]: a function was dropped")),
        ("[NaN, Infinity, -0, 1e21, 0.1]", json!([null, null, 0, 1e21, 0.1]), Some("$[0]: NaN became null")),
        ("({ b: 123456789012345678901234567890n })", json!({"b": "123456789012345678901234567890"}), None),
        ("new Date(0)", json!("1970-01-01T00:00:00.000Z"), None),
        ("new Date(NaN)", json!(null), None),
        ("new Map([[1, 2]])", json!({}), Some("Object.fromEntries")),
        ("new Set([1])", json!({}), Some("[...set]")),
        ("({ p: Promise.resolve(1) })", json!({"p": {}}), Some("await it")),
        ("new Error('x')", json!({"name": "Error", "message": "x"}), None),
        ("'a\\ud800b'", json!("a\u{fffd}b"), Some("lone surrogate")),
        ("({ toJSON() { return { t: 1 } } })", json!({"t": 1}), None),
        ("[new Number(1), new String('s'), new Boolean(false), Object(2n)]", json!([1, "s", false, "2"]), None),
        ("new Proxy([1, 2], {})", json!([1, 2]), None),
        ("({ ['__proto__']: 1, 'a\"b': 2 })", json!({"__proto__": 1, "a\"b": 2}), None),
        ("Object.create({ inherited: 1 }, { hidden: { value: 2 } })", json!({}), None),
        ("new Uint8Array([7])", json!({"0": 7}), None),
        ("Object.prototype.toJSON = () => 'planted'; ({ a: [1] })", json!({"a": [1]}), Some("was ignored")),
    ];
    for (program, expected, warning) in table {
        let outcome = sandbox.run(program).await;
        let value: serde_json::Value = serde_json::from_str(outcome.result.as_ref().unwrap().get()).unwrap();
        assert_eq!(value, expected, "{program}");
        match warning {
            Some(warning) => assert!(outcome.warnings.iter().any(|w| w.contains(warning)), "{program}: {outcome:?}"),
            None => assert_eq!(outcome.warnings, [""; 0], "{program}"),
        }
    }
    let table = [
        ("const a: any = { b: {} }; a.b.c = a; a", ErrorCode::ResultNotJson, "$.b.c"),
        ("({ x: { get y() { throw new Error('no') } } })", ErrorCode::ResultNotJson, "$.x.y"),
        ("({ toJSON() { throw new Error('no') } })", ErrorCode::ResultNotJson, "no"),
        ("new Proxy({}, { ownKeys() { throw new Error('no') } })", ErrorCode::ResultNotJson, "no"),
        ("let o = {}; for (let i = 0; i < 200; i++) o = { o }; o", ErrorCode::ResultTooDeep, "100 levels"),
        ("'x'.repeat(20 * 1024 * 1024)", ErrorCode::ResultTooLarge, "8388608"),
        ("Array.from({ length: 2e6 }, (_, i) => i * 1000)", ErrorCode::ResultTooLarge, "8388608"),
    ];
    check_errors(&sandbox, &table).await;
    sandbox.stop().await;
}

#[tokio::test]
async fn errors_name_the_agents_own_line() {
    let sandbox = Sandbox::start();
    let table = [
        ("interface A {}\nenum E { X }\nthrow new Error('boom')", "agent.ts:3:11", "boom"),
        (
            "type T = { a: number };\n\nfunction f(x: T): number {\n  return x.a.b.c;\n}\nf({ a: 1 })",
            "agent.ts:4:",
            "undefined",
        ),
        ("const x: string = 'a';\nnope()", "agent.ts:2:1", "nope is not defined"),
        ("await Promise.all([1, 2].map(async (x) => {\n  throw new TypeError('t' + x);\n}))", "agent.ts:2:", "t1"),
        ("let x = 1;\nthrow 'text'", "agent.ts:2:7", "thrown: text"),
        ("\n  await mcp.test.fail({ a: 1 })", "agent.ts:2:18", "it did not work"),
        ("const é = '€'; const s = '\u{1f600}'; nope()", "agent.ts:1:31", "nope"),
    ];
    for (program, place, message) in table {
        let error = sandbox.run(program).await.result.unwrap_err();
        let frame = error.frame.as_deref().unwrap_or_default();
        assert!(frame.starts_with(place), "{program}: {error:#?}");
        assert!(frame.contains("\n> "), "{program}: {error:#?}");
        assert!(error.message.contains(message), "{program}: {error:#?}");
    }
    let error = sandbox
        .run("function inner() { throw new Error('x') }\nfunction outer() { inner() }\nouter()")
        .await
        .result
        .unwrap_err();
    assert_eq!(error.stack.unwrap(), "at inner (agent.ts:1:30)\nat outer (agent.ts:2:20)\nat agent.ts:3:1");
    sandbox.stop().await;
}

#[tokio::test]
async fn absent_globals_are_explained() {
    let sandbox = Sandbox::start();
    for name in ["fetch", "process", "require", "Deno", "FormData", "XMLHttpRequest"] {
        let error = sandbox.run(&format!("{name}('x')")).await.result.unwrap_err();
        assert_eq!(error.code, ErrorCode::Exception);
        assert!(error.hint.as_deref().unwrap().starts_with(&format!("{name} is not available here")), "{error:?}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn the_console_shows_values_and_runs_nothing() {
    let sandbox = Sandbox::start();
    let program = r#"
        console.log("a %s b %d", "x", 5, { n: { m: [1, "two", null] } });
        console.warn(new Map([["k", new Set([1])]]), new Date(0), /x/g, 10n, Symbol("s"), () => 1, class C {}, undefined);
        console.error({ get trap() { throw new Error("ran") }, ok: true });
        const loop: any = {}; loop.self = loop;
        console.info(loop, new Proxy({}, { get() { throw new Error("ran") }, ownKeys() { throw new Error("ran") } }));
        console.debug(new Error("here"));
        console.group("g"); console.log("in\nside"); console.groupEnd();
        console.assert(1 === 1, "not shown"); console.assert(false, "shown");
        console.count(); console.count();
    "#;
    let outcome = sandbox.run(program).await;
    assert!(outcome.result.is_ok(), "{outcome:?}");
    let lines: Vec<_> = outcome.logs.iter().map(|log| format!("{}|{}", log.level.as_str(), log.text)).collect();
    let expected = [
        r#"log|a x b 5 { n: { m: [1, "two", null] } }"#,
        "warn|Map(1) { \"k\" => Set(1) { 1 } } 1970-01-01T00:00:00.000Z /x/g 10n Symbol(s) [Function] [Function C] undefined",
        "error|{ trap: [Getter], ok: true }",
        "info|{ self: [Circular] } [Proxy]",
        "debug|Error: here\n    at agent.ts:7:27",
        "log|g",
        "log|  in\n  side",
        "error|Assertion failed: shown",
        "log|default: 1",
        "log|default: 2",
    ];
    assert_eq!(lines, expected);
    sandbox.stop().await;
}

#[tokio::test]
async fn branch_decisions_are_recorded_and_capped() {
    let mut sandbox = Sandbox::start();
    let program = "if (args.name === 'value') {} const x = args.none ? 1 : 2;
        switch (x) { case 1: break; case 2: break; default: } for (let i = 0; i < 1000; i++) { if (i) Math.max(i) }
        for (let i = 0; i < 9; i++) if (i) {}";
    let outcome = sandbox.run(program).await;
    let taken: Vec<_> = outcome
        .decisions
        .iter()
        .take(3)
        .map(|d| (d.node_id.as_str(), d.condition.as_str(), d.outcome.as_str()))
        .collect();
    assert_eq!(taken, [("d1", "args.name === 'value'", "true"), ("d2", "args.none", "false"), ("d3", "x", "2")]);
    assert_eq!(outcome.decisions.len(), 200);
    sandbox.budget.decisions = 0;
    assert_eq!(sandbox.run(program).await.decisions, []);
    sandbox.stop().await;
}

#[tokio::test]
async fn unhandled_rejections_are_reported() {
    let sandbox = Sandbox::start();
    let outcome = sandbox.run("Promise.reject(new Error('lost'));\nPromise.reject(1).catch(() => {}); return 1").await;
    assert!(outcome.result.is_ok());
    assert_eq!(outcome.warnings, ["unhandled rejection: Error: lost at agent.ts:1:20"]);
    sandbox.stop().await;
}
