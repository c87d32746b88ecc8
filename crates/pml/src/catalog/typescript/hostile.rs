//! Schemas that nobody writes by mistake: they cost bounded time and space, and stay in their place.

use std::iter;

use serde_json::{Map, Value, json};

use super::{Declared, Returned, declarations, signature};

fn tool(schema: &Value) -> Declared<'_> {
    Declared {
        server: "s",
        name: "t",
        description: Some("*/\n@ts-nocheck"),
        input: schema,
        result: Returned::Schema(schema),
    }
}

/// Brackets outside of strings and comments close what was opened, and comments end.
fn is_balanced(text: &str) -> bool {
    let mut open = Vec::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '"' => {
                while let Some(inner) = rest.next() {
                    match inner {
                        '\\' => drop(rest.next()),
                        '"' => break,
                        '\n' => return false,
                        _ => {}
                    }
                }
            }
            '/' if rest.as_str().starts_with('/') => drop(rest.find(|&c| c == '\n')),
            '/' if rest.as_str().starts_with('*') => match rest.as_str().split_once("*/") {
                Some((_, behind)) => rest = behind.chars(),
                None => return false,
            },
            '(' | '[' | '{' => open.push(character),
            ')' | ']' | '}' => {
                let opening = match character {
                    ')' => '(',
                    ']' => '[',
                    _ => '{',
                };
                if open.pop() != Some(opening) {
                    return false;
                }
            }
            _ => {}
        }
    }
    open.is_empty()
}

fn check(name: &str, schema: &Value) {
    let line = signature(&tool(schema));
    assert!(line.len() < 2500, "{name}: {} bytes", line.len());
    assert!(!line.contains(char::is_control), "{name}: {line}");
    assert!(is_balanced(&line), "{name}: {line}");
    let text = declarations([tool(schema)]);
    assert!(text.len() < 72 * 1024, "{name}: {} bytes", text.len());
    assert!(is_balanced(&text), "{name}: {text}");
}

fn nested(levels: usize, wrap: impl Fn(Value) -> Value) -> Value {
    iter::successors(Some(json!({"type": "string"})), |inner| Some(wrap(inner.clone()))).nth(levels).unwrap()
}

fn members<T: Into<Value>>(count: usize, member: impl Fn(usize) -> (String, T)) -> Value {
    (0..count).map(member).map(|(name, value)| (name, value.into())).collect::<Map<_, _>>().into()
}

#[test]
fn hostile_schemas_are_bounded() {
    let definition = |index: usize| {
        let next = json!({"$ref": format!("#/$defs/{}", index + 1)});
        (
            index.to_string(),
            json!({"properties": {"a": next, "b": next}, "allOf": [next], "anyOf": [next, {"type": "null"}]}),
        )
    };
    let choice =
        |count| -> Vec<_> { (0..count).map(|index| json!({"properties": {format!("p{index}"): {}}})).collect() };
    let long = "\"*/\u{2028}".repeat(100_000);
    #[rustfmt::skip]
    let table = [
        ("deep objects",    nested(100, |inner| json!({"properties": {"a": inner}, "required": ["a"]}))),
        ("deep arrays",     nested(100, |inner| json!({"items": inner}))),
        ("deep maps",       nested(100, |inner| json!({"additionalProperties": inner}))),
        ("deep choices",    nested(100, |inner| json!({"anyOf": [inner, {"type": "null"}]}))),
        ("wide",            json!({"properties": members(50_000, |index| (format!("property_{index}"), json!({"type": "string"})))})),
        ("wide required",   json!({"required": (0..50_000).map(|index| format!("r{index}")).collect::<Vec<_>>()})),
        ("long enum",       json!({"properties": {"a": {"enum": (0..100_000).collect::<Vec<_>>()}}})),
        ("enum of objects", json!({"properties": {"a": {"enum": vec![json!({"a": [1, 2]}); 100_000]}}})),
        ("wide choice",     json!({"properties": {"a": {"anyOf": choice(50_000)}}})),
        ("choices at once", json!({"allOf": vec![json!({"anyOf": choice(60)}); 60]})),
        ("fan of references", json!({"$ref": "#/$defs/0", "$defs": members(60, definition)})),
        ("long texts",      json!({"properties": {(long.clone()): {}, "a": {"const": long, "description": long, "default": long, "pattern": long}}})),
        ("many long texts", json!({"properties": members(500, |index| (index.to_string(), json!({"description": long})))})),
        // Each reference passes over all of it again.
        ("references to long lists", json!({
            "items": vec![json!({"$ref": "#/$defs/long"}); 10_000],
            "prefixItems": vec![json!({"$ref": "#/$defs/long"}); 10_000],
            "properties": members(10_000, |index| (index.to_string(), json!({"$ref": "#/$defs/long"}))),
            "$defs": {"long": {"required": vec!["a"; 100_000], "properties": {"a": {"enum": vec!["a"; 100_000]}},
                "type": vec![1; 100_000], "anyOf": vec![json!({"required": []}); 100_000]}},
        })),
        ("wide at once",    json!({"properties": members(5000, |index| (index.to_string(), json!({}))), "allOf": vec![json!({"properties": {"a": {}}}); 10_000]})),
        ("wrong kinds",     json!({"type": {}, "properties": 1, "required": {}, "enum": "a", "items": 3, "$ref": [], "allOf": {}, "nullable": 0})),
    ];
    for (name, schema) in table {
        check(name, &schema);
    }
}

/// Schemas of keywords thrown together, some of which point at each other.
#[test]
fn random_schemas_stay_in_their_place() {
    fn schema(random: &mut impl FnMut(usize) -> usize, depth: usize) -> Value {
        if depth > 4 || random(8) == 0 {
            return [json!(true), json!(false), json!({}), json!(null), json!({"$ref": "#"}), json!([1])][random(6)]
                .clone();
        }
        let names = ["a", "a b", "*/", "__proto__", "\n", "\"", "new", "constructor"];
        let types = ["object", "array", "string", "number", "null", "boolean", "odd"];
        let mut made = Map::new();
        for _ in 0..=random(4) {
            let list: Vec<_> = (0..random(4)).map(|_| schema(random, depth + 1)).collect();
            let map: Map<_, _> = list.iter().map(|inner| (names[random(8)].to_owned(), inner.clone())).collect();
            let (keyword, value) = match random(14) {
                0 | 1 => ("properties", map.into()),
                2 => ("patternProperties", map.into()),
                3 => ("additionalProperties", schema(random, depth + 1)),
                4 => ("required", json!([names[random(8)], names[random(8)], 5])),
                5 => ("items", if random(2) == 0 { list.into() } else { schema(random, depth + 1) }),
                6 => ("prefixItems", list.into()),
                7 => ("anyOf", list.into()),
                8 => ("oneOf", list.into()),
                9 => ("allOf", list.into()),
                10 => ("enum", json!([names[random(8)], random(9), null, {"a": [names[random(8)]]}])),
                11 => ("$ref", json!(["#/properties/a", "#/anyOf/0", "#/items", "#/allOf/1"][random(4)])),
                12 => ("description", json!(names[random(8)])),
                _ => (
                    "type",
                    if random(2) == 0 { json!(types[random(7)]) } else { json!([types[random(7)], types[random(7)]]) },
                ),
            };
            made.insert(keyword.to_owned(), value);
        }
        made.into()
    }
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for round in 0..500 {
        check(&format!("round {round}"), &schema(&mut random, 0));
    }
}
