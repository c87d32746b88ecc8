//! Programs in the shapes and habits of models: each gives the right value, or an error that says what to send.

use pml_wire::ErrorCode;
use serde_json::json;

use crate::support::Sandbox;

#[tokio::test]
async fn programs_run_in_every_shape_that_models_send() {
    let table = [
        ("```ts\nconst x: number = 1;\nreturn x + 1\n```", json!(2)),
        ("```\nasync () => { return 3 }\n```\n", json!(3)),
        ("~~~javascript\n4\n~~~", json!(4)),
        ("Here is the program:\n\n```typescript\nreturn `a${1}`\n```\nIt returns a text.", json!("a1")),
        ("Code:\n```ts\nreturn 5\n```", json!(5)),
        ("async () => {\n  const r = await mcp.test.echo({ a: 1 });\n  return r.a;\n}", json!(1)),
        ("(async () => { return (await mcp.test.echo({ a: 2 })).a })()", json!(2)),
        ("(async () => { return 1 })().then((x) => x + 1).catch(console.error)", json!(2)),
        ("async function main() {\n  return await mcp.test.echo({ a: 3 });\n}", json!({"a": 3})),
        ("const run = async () => { return 4 };", json!(4)),
        (
            "async function execute({ mcp, args }) { return [typeof mcp.test.echo, args.name] }",
            json!(["function", "value"]),
        ),
        ("async (args) => args.name", json!("value")),
        ("async ({ name }) => name", json!("value")),
        ("main();\nasync function main() { return (await mcp.test.wait({ ms: 5, a: 6 })).a }", json!(6)),
        ("export default async function () { return 7 }", json!(7)),
        ("export default async () => 8", json!(8)),
        ("export default { async run() { return this.x() }, x() { return 9 } }", json!(9)),
        ("const value = 9;\nexport { value as default }", json!(9)),
        ("let x = 1; export default x; x = 2", json!(1)),
        ("module.exports = async () => { return 10 }", json!(10)),
        ("function helper() { return 11 }\nmodule.exports = { run: async () => helper() }", json!(11)),
        ("11;;", json!(11)),
        ("const o = await mcp.test.echo({ ok: true });\nif (o.ok) { 'yes' } else { 'no' }", json!("yes")),
        ("try { await mcp.test.fail({}); 'no' } catch (e) { e.code }", json!("TOOL_ERROR")),
        ("try { mcp.test.fail({}) } catch (e) { e.code }", json!("TOOL_ERROR")),
        ("/*\n```ts\nreturn 1\n```\n*/\nreturn 12", json!(12)),
        ("const md = ['```ts', 'x', '```'].join('\\n'); return md", json!("```ts\nx\n```")),
        ("{ \"a\": 1, \"b\": [2] }", json!({"a": 1, "b": [2]})),
    ];
    let sandbox = Sandbox::start();
    for (program, expected) in table {
        assert_eq!(sandbox.value(program).await, expected, "{program}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn lines_are_those_of_what_was_sent() {
    let sandbox = Sandbox::start();
    let table = [
        ("Sure!\n\n```ts\nconst a = 1;\nthrow new Error('x')\n```", "agent.ts:5:11", "> 5 | throw new Error('x')"),
        ("```ts\nconst = 1\n```", "agent.ts:2:7", "> 2 | const = 1"),
        ("async () => {\n  const a = null;\n  return nope;\n}", "agent.ts:3:10", "> 3 |   return nope;"),
        ("async function main() {\n  nope()\n}", "agent.ts:2:3", "> 2 |   nope()"),
        ("export default\n  nope", "agent.ts:2:3", "> 2 |   nope"),
        ("module.exports =\n  nope", "agent.ts:2:3", "> 2 |   nope"),
    ];
    for (program, place, line) in table {
        let error = sandbox.run(program).await.result.unwrap_err();
        let frame = error.frame.as_deref().unwrap_or_default();
        assert!(frame.starts_with(place), "{program}: {error:#?}");
        assert!(frame.contains(line), "{program}: {error:#?}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn a_program_that_ends_without_its_value_is_told_which() {
    let sandbox = Sandbox::start();
    let table = [
        (
            "const r = await mcp.test.echo({ a: 1 });\nconst open = [r];",
            Some("`open` (line 2): end it with `return open`"),
        ),
        ("const all = [];\nfor (const a of [1, 2]) all.push(await mcp.test.echo({ a }));", Some("`all` (line 1)")),
        ("async function main() { const r = await mcp.test.echo({ a: 1 }) }", Some("`main` ended without a value")),
        ("Only this:\n```ts\nreturn 1\n```", Some("not the text around it")),
        ("const all = []; all.push(1)", Some("`return all`")),
        ("const a = 1; console.log(a)", None),
        ("for (const a of [1]) await mcp.test.echo({ a })", None),
        ("const r = await mcp.test.echo({}); return null", None),
    ];
    for (program, expected) in table {
        let outcome = sandbox.run(program).await;
        assert!(outcome.result.is_ok(), "{program}: {outcome:?}");
        match expected {
            Some(expected) => {
                assert!(outcome.warnings.iter().any(|it| it.contains(expected)), "{program}: {outcome:?}")
            }
            None => assert_eq!(outcome.warnings, [""; 0], "{program}"),
        }
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn what_typescript_means_is_what_runs() {
    let table = [
        (
            "namespace S { export let items: string[] = []; export function add(s: string) { items = [...items, s] } }
             S.add('a'); return S.items",
            json!(["a"]),
        ),
        ("namespace N { export const x = 1; export function f() { return 5 } } namespace N { export const y = x + f() } N.y", json!(6)),
        ("namespace A.B { export let x = 1 } namespace A.B { export function f() { return x++ } } A.B.f(); A.B.x", json!(2)),
        (
            "namespace A { export let x = 1; export namespace B { export let y = x + 1; export function g() { x = 10; y += x; return { x, y } } } }
             return [A.B.g(), A.x, A.B.y]",
            json!([{"x": 10, "y": 12}, 10, 12]),
        ),
        ("namespace N { export var n: number; export function inc() { n = (n ?? 0) + 1 } } N.inc(); N.inc(); N.n", json!(2)),
        ("namespace N { export let x = 1; export function f(x: number) { return x } export function g() { let x = 3; return x } } [N.f(2), N.g(), N.x]", json!([2, 3, 1])),
        ("const x = 100; namespace N { export const x = 1 } namespace N { export function f() { return x } } N.f()", json!(1)),
        ("namespace N { export enum E { A } export enum E { B = 1 } } [N.E.A, N.E.B, N.E[1]]", json!([0, 1, "B"])),
        ("enum E { A = +'5', B = -'3', C = ~'4', D = 'x', F = +`7` } [E.A, E.B, E.C, E.D, E.F, E[5]]", json!([5, -3, -5, "x", 7, "A"])),
        ("[String.raw`</script>`, String.raw`<\\/SCRIPT>\\n`, `</script>`, /<\\/script>/.source]", json!(["</script>", "<\\/SCRIPT>\\n", "</script>", "<\\/script>"])),
        (
            "const f = (a) => { if (a) { for (const x of a) {} } const { b } = a; switch (b) { case 1: return 2 } return b ? 1 : 3 };
             const text = f.toString(); [/probe|NaN|[$]on/.test(text), new Function('return ' + text)()({ b: 1, [Symbol.iterator]: [][Symbol.iterator], length: 0 })]",
            json!([false, 2]),
        ),
        // What a pattern takes apart further carries a place that the program does not see.
        (
            "const f = ({ a: { b }, 'c-d': [e] = [], ...rest }) => [b, e, rest]; let g; ({ a: { b: g } } = { a: { b: 3 } });
             [/NaN/.test(f + ''), f.length, f({ a: { b: 1 }, 'c-d': [2], x: 4 }), new Function('return ' + f)()({ a: { b: 5 } }), g]",
            json!([false, 1, [1, 2, {"x": 4}], [5, null, {}], 3]),
        ),
        (
            "class A { static s(a) { return a ? 1 : 2 } get g() { if (this) {} return 1 } m = (x) => x ? 1 : 2 }
             [A.s + '', Object.getOwnPropertyDescriptor(A.prototype, 'g').get + '', new A().m + '', /probe/.test(A + '')]",
            json!(["s(a) {\n\t\t\treturn a ? 1 : 2;\n\t\t}", "get g() {\n\t\t\tif (this) {}\n\t\t\treturn 1;\n\t\t}", "(x) => x ? 1 : 2", false]),
        ),
        ("[Math.max + '', Function.prototype.toString + '']", json!(["function max() {\n    [native code]\n}", "function toString() {\n    [native code]\n}"])),
    ];
    let sandbox = Sandbox::start();
    for (program, expected) in table {
        assert_eq!(sandbox.value(program).await, expected, "{program}");
    }
    let refused = [
        (
            "namespace N { export enum E { A } } namespace N { export enum E { B = 1 } } N.E",
            "the enum `E` in two blocks",
        ),
        ("namespace N { export let x = 1; export function f(N: any) { return x } } N.f(2)", "`x` of the namespace `N`"),
        ("namespace N { export let { x } = f() }", "a pattern that `N` exports"),
    ];
    for (program, expected) in refused {
        let error = sandbox.run(program).await.result.unwrap_err();
        assert_eq!(error.code, ErrorCode::UnsupportedSyntax, "{program}: {error:?}");
        assert!(error.message.contains(expected), "{program}: {error:?}");
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn a_stack_has_the_message_and_the_programs_own_lines() {
    let sandbox = Sandbox::start();
    let table = [
        (
            "interface A {}\nfunction f() {\n  throw new RangeError('m')\n}\ntry { f() } catch (e) { return e.stack }",
            json!("RangeError: m\n    at f (agent.ts:3:13)\n    at agent.ts:5:7"),
        ),
        (
            "try {\n  await mcp.test.fail({})\n} catch (e) { return e.stack }",
            json!("ToolError: it did not work\n    at agent.ts:2:18"),
        ),
        (
            "class E extends Error { constructor(m) { super(m); this.name = 'E'; Error.captureStackTrace(this, E) } }
             function g() {\n throw new E('hi') }\ntry { g() } catch (e) { return e.stack }",
            json!("E: hi\n    at g (agent.ts:3:12)\n    at agent.ts:4:7"),
        ),
        ("const e = new Error('x'); e.stack = 'mine'; return [e.stack, Object.keys(e)]", json!(["mine", []])),
        ("Error.prepareStackTrace = (e, sites) => sites.length; return new Error('x').stack > 0", json!(true)),
        ("return [Object.getOwnPropertyNames(new Error('x')), 'stack' in Error.prototype]", json!([["message"], true])),
    ];
    for (program, expected) in table {
        assert_eq!(sandbox.value(program).await, expected, "{program}");
    }
    for program in ["const a = 1;\nstructuredClone(() => a)", "const a = 1;\natob('*')"] {
        let error = sandbox.run(program).await.result.unwrap_err();
        assert!(error.frame.as_deref().unwrap_or_default().starts_with("agent.ts:2:"), "{program}: {error:?}");
    }
    sandbox.stop().await;
}
