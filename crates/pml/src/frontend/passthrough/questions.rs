//! Questions of servers as clients are asked them: each says which server asks.
//!
//! A client knows only pml, so without that a person could not tell whose question it is, and would give one server what
//! is meant for another. What a server says in front of its question does not replace the name that pml puts there.

use serde_json::{Map, Value, json, value::to_raw_value};

use crate::{shown, upstream::Fields};

/// The key of `_meta` that names the server.
const SERVER_KEY: &str = "pml/server";
/// The field of a result in which a server asks.
const REQUESTS: &str = "inputRequests";

/// Puts the server's name where a person sees it, and makes what the server says visible.
pub(super) fn present(server: &str, method: &str, params: &mut Value) {
    if !params.is_object() {
        *params = json!({});
    }
    let Value::Object(params) = params else { return };
    match method {
        "elicitation/create" => elicitation(server, params),
        "sampling/createMessage" => sampling(server, params),
        _ => return, // says nothing
    }
    match params.get_mut("_meta") {
        Some(Value::Object(meta)) => drop(meta.insert(SERVER_KEY.to_owned(), server.into())),
        _ => drop(params.insert("_meta".to_owned(), json!({ SERVER_KEY: server }))),
    }
}

/// The same for a result, if it asks for input.
pub(super) fn present_all(server: &str, result: &mut Fields) {
    if result.get::<String>("resultType").as_deref() != Some("input_required") {
        return;
    }
    let Some(mut requests) = result.get::<Value>(REQUESTS) else { return };
    for request in requests.as_object_mut().into_iter().flat_map(Map::values_mut) {
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        if let Some(request) = request.as_object_mut() {
            present(server, &method, request.entry("params").or_insert_with(|| json!({})));
        }
    }
    if let Ok(requests) = to_raw_value(&requests) {
        result.take(REQUESTS);
        result.push(REQUESTS, requests);
    }
}

fn elicitation(server: &str, params: &mut Map<String, Value>) {
    for (key, value) in params.iter_mut() {
        match key.as_str() {
            "requestedSchema" => shown::clean_schema(value),
            // What the client sends back.
            "elicitationId" | "_meta" => {}
            _ => drop(shown::clean(value)),
        }
    }
    let message = params.get("message").and_then(Value::as_str).unwrap_or_default();
    let lead = format!("[server {server}] ");
    if !message.starts_with(&lead) {
        let message = format!("{lead}{message}");
        params.insert("message".to_owned(), message.into());
    }
}

/// In front of the system prompt: there the person who reviews the request and the model that answers it both see it, and
/// the conversation stays as the server wrote it.
fn sampling(server: &str, params: &mut Map<String, Value>) {
    for (key, value) in params.iter_mut() {
        match (key.as_str(), value) {
            ("_meta" | "metadata", _) => {}
            ("tools", Value::Array(tools)) => {
                tools.iter_mut().filter_map(Value::as_object_mut).for_each(shown::clean_listed);
            }
            (_, value) => drop(shown::clean(value)),
        }
    }
    let prompt = params.get("systemPrompt").and_then(Value::as_str).unwrap_or_default();
    let lead = format!("[server {server}] This request comes from the MCP server `{server}`.");
    if !prompt.starts_with(&lead) {
        let gap = if prompt.is_empty() { "" } else { "\n\n" };
        let prompt = format!("{lead}{gap}{prompt}");
        params.insert("systemPrompt".to_owned(), prompt.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Item;

    #[test]
    fn a_question_says_who_asks_once() {
        let lead = "[server fs] This request comes from the MCP server `fs`.";
        let meta = json!({ "pml/server": "fs" });
        #[rustfmt::skip]
        let table = [
            ("elicitation/create", json!({ "message": "Name?\u{202e}" }), json!({ "message": r"[server fs] Name?\u{202e}", "_meta": meta })),
            ("elicitation/create", json!({ "message": "[server git] Name?", "_meta": { "a": 1 } }),
                json!({ "message": "[server fs] [server git] Name?", "_meta": { "a": 1, "pml/server": "fs" } })),
            ("elicitation/create", json!({ "mode": "url", "url": "https://a\u{200b}.b", "elicitationId": "\u{200b}" }),
                json!({ "mode": "url", "url": r"https://a\u{200b}.b", "elicitationId": "\u{200b}", "message": "[server fs] ", "_meta": meta })),
            ("elicitation/create", json!({ "message": "", "requestedSchema": { "title": "\u{200b}", "enum": ["\u{200b}"] } }),
                json!({ "message": "[server fs] ", "requestedSchema": { "title": r"\u{200b}", "enum": ["\u{200b}"] }, "_meta": meta })),
            ("sampling/createMessage", json!({ "messages": [{ "content": { "text": "a\u{e0041}" } }], "systemPrompt": "Be kind." }),
                json!({ "messages": [{ "content": { "text": r"a\u{e0041}" } }], "systemPrompt": format!("{lead}\n\nBe kind."), "_meta": meta })),
            ("sampling/createMessage", json!({ "tools": [{ "name": "t", "inputSchema": { "const": "\u{200b}" } }], "_meta": 5 }),
                json!({ "tools": [{ "name": "t", "inputSchema": { "const": "\u{200b}" } }], "_meta": meta, "systemPrompt": lead })),
            ("sampling/createMessage", json!(null), json!({ "systemPrompt": lead, "_meta": meta })),
            ("roots/list", json!({ "a": "\u{200b}" }), json!({ "a": "\u{200b}" })),
        ];
        for (method, mut params, expected) in table {
            present("fs", method, &mut params);
            assert_eq!(params, expected, "{method}");
            present("fs", method, &mut params);
            assert_eq!(params, expected, "{method}: twice is once");
        }
        let result = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create"},"b":7}}"#;
        let Item::Object(mut result) = serde_json::from_str(result).unwrap() else { panic!("an object") };
        present_all("fs", &mut result);
        let requests: Value = result.get(REQUESTS).unwrap();
        assert_eq!(requests["a"]["params"]["message"], "[server fs] ");
    }
}
