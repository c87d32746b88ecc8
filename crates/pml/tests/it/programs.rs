//! Programs in the shapes and habits of models: each gives the right value, or an error that says what to send.

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
