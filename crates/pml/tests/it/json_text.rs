//! JSON text is a value: what programs get of it, and what goes back.

use pml::upstream::{Settings, ToolSettings};
use pml_testkit::fixture::values::{sha256, sha256_of};
use pml_wire::ErrorCode;
use serde_json::{Value, json};

use super::gateway::{Gateway, Way, fixture};

/// As servers write it: spaces, an integer that JavaScript cannot hold, numbers and characters spelled unusually, keys that
/// JavaScript puts in another order.
const TEXT: &str =
    "{ \"items\": [ {\"id\": 9007199254740993, \"n\": 1.0}, {\"id\": 2} ],\n  \"10\": \"\\u00e9\", \"2\": [] }\n";

/// What must hold of a value that `echo` returned as text: an expression of JavaScript, and its result.
#[tokio::test]
async fn a_value_behaves_as_a_value_and_as_its_text() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    let text = json!(TEXT);
    #[rustfmt::skip]
    let table = [
        // A value.
        ("v.items.filter((item) => item.id === 2).length",                  json!(1)),
        ("rows.map((row) => row.name)",                                     json!(["a", "b"])),
        ("rows.length",                                                     json!(2)),
        ("[Array.isArray(rows), Array.isArray(v), typeof v, rows instanceof Array]", json!([true, false, "object", true])),
        ("Object.keys(v)",                                                  json!(["2", "10", "items"])),
        ("Object.entries(rows[0])",                                         json!([["name", "a"]])),
        ("JSON.stringify(rows)",                                            json!(r#"[{"name":"a"},{"name":"b"}]"#)),
        ("JSON.stringify({ rows })",                                        json!(r#"{"rows":[{"name":"a"},{"name":"b"}]}"#)),
        ("[...rows, ...rows].length",                                       json!(4)),
        ("({ ...v, items: 0 })",                                            json!({"2": [], "10": "é", "items": 0})),
        ("{ const { items: [, second], none = 5 } = v; return [second, none] }", json!([{"id": 2}, 5])),
        ("{ const keys = []; for (const key in v) keys.push(key); return keys }", json!(["2", "10", "items"])),
        ("rows.concat([1]).slice(1).includes(1)",                           json!(true)),
        ("rows",                                                            json!([{"name": "a"}, {"name": "b"}])),
        ("({ rows: rows.toSorted((a, b) => a.name < b.name ? 1 : -1) })",   json!({"rows": [{"name": "b"}, {"name": "a"}]})),
        // Its text, as it was.
        ("String(v) === TEXT",                                              json!(true)),
        ("`${v}` === TEXT",                                                 json!(true)),
        ("v + '' === TEXT",                                                 json!(true)),
        ("v.toString() === TEXT",                                           json!(true)),
        ("['', v].join('') === TEXT",                                       json!(true)),
        ("JSON.parse(v).items.length",                                      json!(2)),
        ("Object.keys(JSON.parse(`${rows}`)[0])",                           json!(["name"])),
        ("/u00e9/.test(v)",                                                 json!(true)),
        // And once it has changed, its text of now.
        ("{ rows[1].name = 'c'; return `${rows}` }",                        json!(r#"[{"name":"a"},{"name":"c"}]"#)),
        ("{ rows[1].name = 'c'; rows[1].name = 'b'; return `${rows}` }",    json!("[{\"name\":\"a\"}, {\"name\":\"b\"}]")),
        ("{ rows.push(1); return `${rows}` }",                              json!(r#"[{"name":"a"},{"name":"b"},1]"#)),
        ("{ rows.length = 1; return `${rows}` }",                           json!(r#"[{"name":"a"}]"#)),
        ("{ delete rows[0].name; return `${rows}` }",                       json!(r#"[{},{"name":"b"}]"#)),
        ("{ rows[0].more = undefined; rows[1].x = {}; return `${rows}` }",  json!(r#"[{"name":"a"},{"name":"b","x":{}}]"#)),
        ("{ v.items[0].id = 1; return JSON.parse(v).items[0].id }",         json!(1)),
        ("{ const w = structuredClone(v); return String(w) === TEXT && w.items !== v.items }", json!(true)),
        ("{ const w = structuredClone(rows); w[0] = 1; return `${w} ${rows[0].name}` }", json!(r#"[1,{"name":"b"}] a"#)),
        ("{ const twice = await mcp.fix.echo({ text: '{\"a\":1,\"a\":2}' }); return [twice.a, String(twice)] }", json!([2, "{\"a\":1,\"a\":2}"])),
        ("{ const odd = await mcp.fix.echo({ text: '[{\"x\":{}}]' }); odd[0].x = new Date(0); return `${odd}` }", json!(r#"[{"x":"1970-01-01T00:00:00.000Z"}]"#)),
        // To another tool as a text where it wants one.
        ("mcp.fix.echo({ text: v }).then(String).then((text) => text === TEXT)", json!(true)),
        ("callTool('fix:echo', { text: v }, { raw: true }).then((answer) => answer.result === TEXT)", json!(true)),
        ("{ rows[0].name = 'z'; return String(await mcp.fix.echo({ text: rows })) }", json!(r#"[{"name":"z"},{"name":"b"}]"#)),
        ("{ v.inner = rows; return String(await mcp.fix.echo({ text: v })) }", json!(r#"{"2":[],"10":"é","items":[{"id":9007199254740993,"n":1},{"id":2}],"inner":[{"name":"a"},{"name":"b"}]}"#)),
        // And as a value elsewhere, also as all arguments.
        ("{ v.items[0].more = 1; return (await mcp.fix.any({ value: [v.items[0]] })).value[0] }", json!({"id": 9_007_199_254_740_993_i64, "n": 1.0, "more": 1})),
        ("mcp.fix.any({ value: rows }).then(({ value }) => value)",         json!([{"name": "a"}, {"name": "b"}])),
        ("mcp.fix.any({ value: [[rows]] }).then(({ value }) => value[0][0][1].name)", json!("b")),
        ("{ const args = await mcp.fix.echo({ text: '{\"text\":\"hi\"}' }); return mcp.fix.echo(args) }", json!("hi")),
        // The text itself.
        ("callTool('fix:echo', { text: TEXT }, { raw: true }).then((answer) => answer.result)", text.clone()),
        ("callTool('fix:echo', { text: TEXT }, { raw: false }).then((answer) => answer.result.items.length)", json!(2)),
        ("callToolsBatch([{ name: 'fix:echo', args: { text: '[1]' }, raw: true }, { name: 'fix:echo', args: { text: '[1]' } }]).then((all) => all.map(({ result }) => typeof result))", json!(["string", "object"])),
        // What is not wholly an object or array stays a text.
        ("mcp.fix.echo({ text: 'Found 3 issues:\\n[1,2,3]' })",             json!("Found 3 issues:\n[1,2,3]")),
        ("mcp.fix.echo({ text: '5' })",                                     json!("5")),
        ("mcp.fix.echo({ text: '[1]\\n[2]' })",                             json!("[1]\n[2]")),
        // A key that is called like a method of strings, there or not.
        ("{ const o = await mcp.fix.echo({ text: '{\"match\":1,\"split\":null}' }); return [o.match, o.split, typeof o.search, o.search || 'none', o.includes?.users ?? 0, o.search == null, Object.keys(o)] }",
            json!([1, null, "undefined", "none", 0, true, ["match", "split"]])),
        ("{ const o = await mcp.fix.echo({ text: '{\"toString\":1}' }); return `${o}` }", json!(r#"{"toString":1}"#)),
        ("{ const o = await mcp.fix.echo({ text: '{}' }); o.match = 1; o.length = 2; o.toString = 3; return o }", json!({"match": 1, "length": 2, "toString": 3})),
    ];
    for (code, expected) in table {
        let body = if code.starts_with('{') { code.to_owned() } else { format!("return {code}") };
        let program = format!(
            "import {{ callTool, callToolsBatch }} from 'pml'; const TEXT = {text};
            const v = await mcp.fix.echo({{ text: TEXT }});
            const rows = await mcp.fix.echo({{ text: '[{{\"name\":\"a\"}}, {{\"name\":\"b\"}}]' }});
            {body}"
        );
        assert_eq!(gateway.value(&program).await, expected, "{code}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_unchanged_value_is_returned_as_the_server_wrote_it() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    let line = TEXT.replace('\n', " ");
    for (code, expected) in
        [("return v", line.trim().to_owned()), ("return { v, w: [v] }", format!("{{\"v\":{line},\"w\":[{line}]}}"))]
    {
        let program = format!("const v = await mcp.fix.echo({{ text: {} }}); {code}", json!(TEXT));
        assert_eq!(gateway.run(&program).await.result.unwrap().get(), expected, "{code}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_method_of_strings_names_the_tool_and_the_ways_out() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[])]);
    for (text, method, kind) in [
        ("[1]", "split('\\n')", "an array"),
        ("[1]", "trim()", "an array"),
        ("{}", "match(/a/)", "an object"),
        ("{}", "includes('a')", "an object"),
        ("{}", "slice(0, 10)", "an object"),
        ("{}", "toUpperCase()", "an object"),
    ] {
        let code = format!("const v = await mcp.fix.echo({{ text: '{text}' }});\nreturn v.{method}");
        let (code, message) = gateway.error(&code).await;
        assert_eq!(code, ErrorCode::Exception, "{message}");
        for part in
            ["`fix:echo`", kind, "callTool(\"fix:echo\", args, { raw: true })", "parse_json = false", "String(value)"]
        {
            assert!(message.contains(part), "{method}: {message}");
        }
    }
    let outcome = gateway
        .run("console.log(await mcp.fix.echo({ text: '{\"a\":[1]}' }), await mcp.fix.echo({ text: '[]' }))")
        .await;
    assert_eq!(outcome.logs[0].text, "{ a: [1] } []");
    let outcome = gateway.run("const v = await mcp.fix.echo({ text: '{}' }); return [v.length, v.length]").await;
    assert_eq!(outcome.result.unwrap().get(), "[null,null]");
    assert_eq!(outcome.warnings.len(), 1, "{:?}", outcome.warnings);
    assert!(outcome.warnings[0].contains("`length` was read of the result of `fix:echo`"), "{:?}", outcome.warnings);
    for (options, part) in [("{ rw: true }", "`rw`"), ("{ raw: 1 }", "true or false"), ("true", "{ raw: true }")] {
        let code = format!("import {{ callTool }} from 'pml'; await callTool('fix:echo', {{ text: '' }}, {options})");
        let (code, message) = gateway.error(&code).await;
        assert!(code == ErrorCode::Exception && message.contains(part), "{message}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn what_has_an_output_schema_or_is_configured_otherwise_stays_text() {
    let text = "return [typeof await mcp.fix.echo({ text: '[1]' }), typeof await mcp.fix.region({ region: '[1]' })]";
    #[rustfmt::skip]
    let table = [
        // of the server, of `echo`, what each gives
        (true,  None,        json!(["object", "object"])),
        (false, None,        json!(["string", "string"])),
        (true,  Some(false), json!(["string", "object"])),
        (false, Some(true),  json!(["object", "string"])),
    ];
    for (parses_json, of_echo, expected) in table {
        let change = |settings: &mut Settings| {
            settings.parses_json = parses_json;
            let only = ToolSettings { parses_json: of_echo, ..ToolSettings::default() };
            settings.tools.insert("echo".to_owned(), only);
        };
        let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &[]).with(change)]);
        assert_eq!(gateway.value(text).await, expected);
        gateway.stop().await;
    }
    let folder = tempfile::tempdir().unwrap();
    let schema = json!({ "outputSchema": { "type": "object" } }).to_string();
    std::fs::write(folder.path().join("echo.json"), schema).unwrap();
    let state = folder.path().to_string_lossy().into_owned();
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &["--state", &state])]);
    assert_eq!(gateway.value(text).await, json!(["string", "object"]));
    gateway.stop().await;
}

#[tokio::test]
async fn a_large_one_is_a_handle_with_the_same_two_sides() {
    let mut gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &["--fault", "values"])]);
    gateway.budget.result_bytes = 64 * 1024;
    let item = |id: u32| format!("{{\"id\": {id}, \"n\": 1.0, \"text\": \"{}\"}}", "x".repeat(100));
    let repeat = json!({"text": format!("{},\n", item(7)), "count": 2000, "before": "[", "after": item(8) + "]"});
    let program = format!(
        r#"import {{ callTool }} from "pml";
        const args = {repeat};
        const large = await mcp.fix.repeat(args);
        const raw = await callTool("fix:repeat", args, {{ raw: true }});
        return {{
          type: large.type, raw: raw.result.type, size: large.size,
          first: (await large.json("[0]")).n, last: await large.json("[2000].id"), start: await large.slice(0, 20),
          text: await mcp.fix.sha256({{ text: large }}), rawText: await mcp.fix.sha256({{ text: raw.result }}),
          value: await mcp.fix.sha256({{ value: large }}), inside: await mcp.fix.sha256({{ value: [large] }}),
        }}"#
    );
    let text = format!("[{}{}]", format!("{},\n", item(7)).repeat(2000), item(8));
    let exact: Value = serde_json::from_str(&text).unwrap();
    let expected = json!({
        "type": "json", "raw": "text", "size": text.len(),
        "first": 1, "last": 8, "start": &text[..20],
        "text": sha256(&text), "rawText": sha256(&text),
        "value": sha256_of(&exact), "inside": sha256_of(&json!([exact])),
    });
    assert_eq!(gateway.value(&program).await, expected);
    gateway.stop().await;
}
