//! What a program sees, passed on or returned unchanged, is what the server sent.

use pml_testkit::fixture::values::{self, JSON_TEXT, KINDS, TEXT, sha256, sha256_of};
use serde_json::{Value, json};

use super::gateway::{Gateway, MATRIX, Way, fixture};

/// What a call of `exhibit` gives to a program, once it has left the program again.
fn expected(kind: &str) -> Value {
    let mut result = values::result(kind);
    match kind {
        "text" => TEXT.into(),
        "json-text" => serde_json::from_str(JSON_TEXT).unwrap(),
        "structured" => result["structuredContent"].take(),
        _ => result["content"].take(),
    }
}

#[tokio::test]
async fn every_kind_of_value_goes_on_as_it_came() {
    for (way, era) in MATRIX {
        let gateway = Gateway::start(vec![fixture(way, era, &["--fault", "values"])]);
        for kind in KINDS {
            let whole = expected(kind);
            let program = format!(
                "const value = await mcp.fix.exhibit({{ kind: {kind:?} }});
                const parts = Array.isArray(value) || typeof value !== 'object' ? {{}} : value;
                const hashes = {{}};
                for (const key of Object.keys(parts)) hashes[key] = await mcp.fix.sha256({{ value: parts[key] }});
                return {{
                  value, list: [value], clone: structuredClone(value), hashes,
                  sent: await mcp.fix.sha256({{ value }}), inside: await mcp.fix.sha256({{ value: [{{ value }}] }}),
                  copied: await mcp.fix.sha256({{ value: Array.isArray(value) ? [...value] : value }}),
                }}"
            );
            let outcome = gateway.run(&program).await;
            let result = outcome.result.unwrap_or_else(|error| panic!("{kind}: {error:?}"));
            let value: Value = serde_json::from_str(result.get()).unwrap();
            let (hash, inside) = (sha256_of(&whole), sha256_of(&json!([{ "value": whole }])));
            for (place, found) in [("value", &value["value"]), ("list", &value["list"][0]), ("clone", &value["clone"])]
            {
                assert_eq!(sha256_of(found), hash, "{way:?} {era} {kind}, returned as {place}: {found}");
            }
            assert_eq!(value["sent"], hash, "{way:?} {era} {kind}: passed on");
            assert_eq!(value["copied"], hash, "{way:?} {era} {kind}: copied and passed on");
            assert_eq!(value["inside"], inside, "{way:?} {era} {kind}: passed on inside of something");
            for (key, found) in value["hashes"].as_object().unwrap() {
                assert_eq!(*found, sha256_of(&whole[key]), "{way:?} {era} {kind}: `{key}` passed on");
            }
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn texts_go_on_byte_for_byte() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &["--fault", "values"])]);
    for (kind, text) in [("text", TEXT), ("json-text", JSON_TEXT)] {
        let program = format!(
            "import {{ callTool }} from 'pml';
            const value = await mcp.fix.exhibit({{ kind: {kind:?} }});
            const raw = await callTool('fix:exhibit', {{ kind: {kind:?} }}, {{ raw: true }});
            const all = [value, raw.result, `${{value}}`, structuredClone(value)];
            return [raw.result, ...await Promise.all(all.map((text) => mcp.fix.sha256({{ text }})))]"
        );
        let hash = sha256(text);
        assert_eq!(gateway.value(&program).await, json!([text, hash, hash, hash, hash]), "{kind}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn integers_beyond_2_to_the_53_are_named_and_stay_exact() {
    let gateway = Gateway::start(vec![fixture(Way::Stdio, "both", &["--fault", "values"])]);
    // Of two that JavaScript takes for the same, in a structured result.
    let source = "const text = await mcp.fix.echo({ text: '{\"a\": {\"id\": 9007199254740993, \"n\": 1}, ' +
        '\"twins\": [9007199254740995, 9007199254740996, 1.0], \"big\": 123456789012345678901234567890}' });
        const { value: v } = await mcp.fix.any({ value: text });";
    #[rustfmt::skip]
    let table = [
        // Where it stands, taken out, and copied.
        ("return v.a",                                                  r#"{"id":9007199254740993,"n":1}"#),
        ("return [v.a.id, { x: v.a.id }]",                              r#"[9007199254740993,{"x":9007199254740993}]"#),
        ("const { id } = v.a; return id",                               "9007199254740993"),
        ("return { ...v.a, n: 2 }",                                     r#"{"id":9007199254740993,"n":2}"#),
        ("return [v.a].map((a) => ({ key: a.id }))",                    r#"[{"key":9007199254740993}]"#),
        ("return structuredClone(v.a)",                                 r#"{"id":9007199254740993,"n":1}"#),
        ("return v.twins",                                              "[9007199254740995,9007199254740996,1.0]"),
        ("v.a.n = 5; return v.a",                                       r#"{"id":9007199254740993,"n":5}"#),
        ("return text.big",                                             "123456789012345678901234567890"),
        ("return (await mcp.fix.any({ value: v.twins })).value",        "[9007199254740995,9007199254740996,1.0]"),
        ("return (await mcp.fix.any({ value: v.a.id })).value",         "9007199254740993"),
        // Changed.
        ("v.a.id = 7; return v.a",                                      r#"{"id":7,"n":1}"#),
        ("v.twins.reverse(); return v.twins",                           "[1,9007199254740996,9007199254740996]"),
        ("return v.a.id / 2",                                           "4503599627370496"),
    ];
    for (code, expected) in table {
        let outcome = gateway.run(&format!("{source} {code}")).await;
        assert_eq!(outcome.result.unwrap().get(), expected, "{code}");
        let about_result: Vec<_> = outcome.warnings.iter().filter(|warning| warning.contains("beyond 2^53")).collect();
        assert_eq!(about_result.len(), 2, "one of each tool: {:?}", outcome.warnings);
        assert!(
            about_result[1].starts_with("`fix:any` returned an integer beyond 2^53 at $.value.a.id and 2 more: "),
            "{about_result:?}"
        );
        let is_unsure = outcome.warnings.iter().any(|warning| warning.contains("may be rounded"));
        assert_eq!(is_unsure, code.contains("reverse"), "{code}: {:?}", outcome.warnings);
    }
    let outcome = gateway.run("return await mcp.fix.echo({ text: '[9007199254740991, 1.5]' })").await;
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
    gateway.stop().await;
}
