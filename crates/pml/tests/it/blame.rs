//! Errors name the expression that failed, what its value is, and which tool it came from.

use serde_json::json;

use crate::support::Sandbox;

/// Runs programs that throw: with this message, at this line, and with a hint that contains this.
async fn check(table: &[(&str, &str, usize, &str)]) {
    let sandbox = Sandbox::start();
    for (program, message, line, hint) in table {
        let error = sandbox.run(program).await.result.unwrap_err();
        assert_eq!(error.message, *message, "{program}: {error:#?}");
        let place = format!("agent.ts:{line}:");
        assert!(error.frame.as_deref().unwrap_or_default().starts_with(&place), "{program}: {error:#?}");
        match *hint {
            "" => assert_eq!(error.hint, None, "{program}"),
            hint => assert!(error.hint.as_deref().unwrap_or_default().contains(hint), "{program}: {error:#?}"),
        }
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn what_is_done_to_a_result_is_explained_by_the_result() {
    check(&[
        (
            "// rows\nconst rows =\n  await mcp.test.text({ text: '\"a\\\\nb\"' });\nreturn rows.map((row) => row.id);",
            "TypeError: rows.map is not a function: rows is a string, the result of test:text (line 3), which begins \"a\\nb\"",
            4,
            "rows.split(",
        ),
        // It begins like JSON, and is none.
        (
            "const list = await mcp.test.text({ text: '\"[FILE] a\\\\n[DIR] b\"' });\nreturn list.map((it) => it);",
            "TypeError: list.map is not a function: list is a string, the result of test:text (line 1), which begins \"[FILE] a\\n[DIR] b\"",
            2,
            "list.split(",
        ),
        (
            "const page = await mcp.test.echo({ items: [{ title: 'x' }], total: 1 });\nreturn page.map((it) => it.title);",
            "TypeError: page.map is not a function: page is an object with `items`, `total`, the result of test:echo (line 1)",
            2,
            "did you mean `page.items.map`?",
        ),
        (
            "const page = await mcp.test.echo({ items: [{ title: 'x' }] });\nreturn page.itens.map((it) => it.title);",
            "TypeError: cannot read property 'map' of undefined: page.itens is undefined, and page is an object with `items`, the result of test:echo (line 1)",
            2,
            "did you mean `page.items`?",
        ),
        (
            "const { items } = await mcp.test.echo({ items: [{ title: 'x', user: { login: 'l' } }] });\nreturn items.map((it) =>\n  it.usr.login);",
            "TypeError: cannot read property 'login' of undefined: it.usr is undefined, and it is an object with `title`, `user`, from the result of test:echo (line 1)",
            3,
            "did you mean `it.user`?",
        ),
        (
            "const page = await mcp.test.echo({ items: [{ alpha: 1 }] });\nfor (const it of page.items) {\n  it.body.c;\n}",
            "TypeError: cannot read property 'c' of undefined: it.body is undefined, and it is an object with `alpha`, from the result of test:echo (line 1)",
            3,
            "",
        ),
        (
            "const page = await mcp.test.echo({ items: [1] });\nfor (const it of page) {}",
            "TypeError: page is not iterable: page is an object with `items`, the result of test:echo (line 1)",
            2,
            "did you mean `page.items`?",
        ),
        (
            "const rows = mcp.test.echo({ a: 1 });\nawait 0; await rows;\nrows.map((it) => it);",
            "TypeError: rows.map is not a function: rows is a promise of an object with `a`, the result of test:echo (line 1)",
            3,
            "await it: `(await rows).map`",
        ),
        (
            "const [a, b] = await Promise.all([mcp.test.echo({ x: 1 }), mcp.test.text({ text: '5' })]);\nreturn b.map(a);",
            "TypeError: b.map is not a function: b is a number, the result of test:text (line 1)",
            2,
            "",
        ),
        // Of two calls of a tool, each is told from the other; of one that gave different things, what was read last is told.
        (
            "const a = await mcp.test.text({ text: '\"a\"' });\nconst b = await mcp.test.text({ text: '{\"x\":1}' });\nreturn a.map(b);",
            "TypeError: a.map is not a function: a is a string, the result of test:text (line 1), which begins \"a\"",
            3,
            "split",
        ),
        (
            "for (const text of ['[]', '5']) {\n  const a = await mcp.test.text({ text });\n  a.map((x) => x);\n}",
            "TypeError: a.map is not a function",
            3,
            "`map` was read of the result of test:text, which has no such property: it is a number",
        ),
        (
            "import { callTool } from 'pml';\nconst r = await callTool('test:echo', { list: [1] });\nreturn r.list.length;",
            "TypeError: cannot read property 'length' of undefined: r.list is undefined, and r is an object with `success`, `result`, `error`, from the result of test:echo (line 2)",
            3,
            "did you mean `r.result.list`?",
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_failed_is_named() {
    check(&[
        ("const s = 'text';\nreturn s.map((x) => x)", "TypeError: s.map is not a function: s is a string", 2, "split"),
        (
            "const o = { a: {} };\nconst z = o.a.b.c.d + 1",
            "TypeError: cannot read property 'c' of undefined: o.a.b is undefined",
            2,
            "",
        ),
        ("const o = {};\nconst z = o.x(1, o)", "TypeError: o.x is not a function", 2, ""),
        ("let u;\nconst z = u()", "TypeError: u is not a function", 2, ""),
        ("const n = 5;\nconst z = new n()", "TypeError: n is not a constructor: n is a number", 2, ""),
        ("const n = 5;\nfor (const x of n) {}", "TypeError: n is not iterable: n is a number", 2, ""),
        ("const n = 5;\nconst z = [...n]", "TypeError: n is not iterable: n is a number", 2, ""),
        ("const n = 5;\nconst [z] = n", "TypeError: n is not iterable: n is a number", 2, ""),
        ("let u;\nconst [z] = u", "TypeError: u is not iterable: u is undefined", 2, ""),
        (
            "const o = {};\nconst { q } = o.nope",
            "TypeError: cannot take o.nope apart: o.nope is undefined or null",
            2,
            "",
        ),
        (
            "const f = ({ q }) => q;\nf()",
            "TypeError: cannot take parameter 1 of f apart: it is undefined",
            1,
            "call it with an argument",
        ),
        ("const a = [1];\nconst z = a.map(5)", "TypeError: a.map(5): 5 is not a function: 5 is a number", 2, ""),
        (
            "const a = [1];\nconst z = a.map(x => x.y.z)",
            "TypeError: cannot read property 'z' of undefined: x.y is undefined",
            2,
            "",
        ),
        ("let u;\nconst z = Object.keys(u)", "TypeError: Object.keys(u): u is undefined or null", 2, ""),
        ("let u;\nu.x = 1", "TypeError: cannot set property 'x' of undefined: u is undefined", 2, ""),
        ("const a = [1];\nconst z = null.x", "TypeError: cannot read property 'x' of null", 2, ""),
        (
            "const o = { a: {} };\nif (o.a.nope.x) {}",
            "TypeError: cannot read property 'x' of undefined: o.a.nope is undefined",
            2,
            "",
        ),
        (
            "const o = { a: {} };\nreturn o.a.nope.x ? 1 : 2",
            "TypeError: cannot read property 'x' of undefined: o.a.nope is undefined",
            2,
            "",
        ),
        (
            "const issues = [1];\nreturn isues.length",
            "ReferenceError: isues is not defined",
            2,
            "did you mean `issues`?",
        ),
        (
            "const é = '€', o = {};\nconst z = '\u{1f600}' + o.a.b",
            "TypeError: cannot read property 'b' of undefined: o.a is undefined",
            2,
            "",
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_error_that_is_caught_or_returned_says_as_much() {
    let sandbox = Sandbox::start();
    let table = [
        (
            "const rows = await mcp.test.text({ text: '5' });\ntry { rows.map() } catch (e) { return e.message }",
            json!("rows.map is not a function: rows is a number, the result of test:text (line 1)"),
        ),
        (
            "const [a, b] = await Promise.allSettled([mcp.test.fail({ x: 1 }), (async () => { let u; u.x })()]); [a, b]",
            json!([
                {"status": "rejected", "reason": {"name": "ToolError", "message": "it did not work", "code": "TOOL_ERROR", "tool": "test:fail", "retryable": false, "outcome": "answered", "data": {"x": 1}}},
                {"status": "rejected", "reason": {"name": "TypeError", "message": "cannot read property 'x' of undefined: u is undefined"}},
            ]),
        ),
        (
            "return new Error('outer', { cause: new RangeError('inner') })",
            json!({"name": "Error", "message": "outer", "cause": {"name": "RangeError", "message": "inner"}}),
        ),
        (
            "class MyError extends Error { code = 'E1'; get name() { return 'MyError' } } return { failed: [new MyError('m')] }",
            json!({"failed": [{"name": "MyError", "message": "m", "code": "E1"}]}),
        ),
        (
            "return new AggregateError([new Error('a')], 'all')",
            json!({"name": "AggregateError", "message": "all", "errors": [{"name": "Error", "message": "a"}]}),
        ),
        (
            "try { atob('*') } catch (e) { return e.name && e }",
            json!({"name": "InvalidCharacterError", "message": "The string to be decoded is not correctly encoded"}),
        ),
        ("const e = new Error('x'); e.toJSON = () => 'mine'; return e", json!("mine")),
        (
            "const r = await mcp.test.echo({ e: new TypeError('t') }); return r.e",
            json!({"name": "TypeError", "message": "t"}),
        ),
        (
            "try { throw Object.freeze(new TypeError('not a function')) } catch (e) { return e.message }",
            json!("not a function"),
        ),
    ];
    for (program, expected) in table {
        let outcome = sandbox.run(program).await;
        let value: serde_json::Value = serde_json::from_str(outcome.result.as_ref().unwrap().get()).unwrap();
        assert_eq!(value, expected, "{program}");
        assert_eq!(outcome.warnings, [""; 0], "{program}");
    }
    sandbox.stop().await;
}

/// Explaining costs a parse: a program that fails in a loop pays for it once.
#[tokio::test]
async fn a_loop_of_caught_errors_stays_fast() {
    let sandbox = Sandbox::start();
    let program =
        "let n = 0; for (let i = 0; i < 20000; i++) { try { null.x } catch (e) { n += e.message.length > 0 } } n";
    assert_eq!(sandbox.value(program).await, json!(20000));
    sandbox.stop().await;
}
