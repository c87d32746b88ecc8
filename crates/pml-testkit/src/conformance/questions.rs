//! The dialogues of the tools and of the prompt that ask the client something.
//!
//! Names, keys and texts are those that the scenarios of the suite expect.

use rmcp::model::{ClientCapabilities, JsonObject};
use serde_json::{Value, json};

use super::dialogue::{Answers, Dialogue};

/// The dialogue that this tool leads, if it leads one.
pub(super) fn of_tool(name: &str, arguments: &JsonObject, capabilities: &ClientCapabilities) -> Option<Dialogue> {
    let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    Some(match name {
        "test_sampling" => once(json!({"answer": sampling(argument("prompt"), 100)}), said_by_model),
        "test_missing_capability" => once(json!({"answer": sampling("Can you hear me?", 100)}), said_by_model),
        "test_elicitation" => once(
            json!({"user": elicitation(argument("message"), json!({
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            }), &["username", "email"])}),
            said_by_user,
        ),
        "test_elicitation_sep1034_defaults" => {
            once(json!({"user": elicitation("Check the defaults", defaults(), &[])}), said_by_user)
        }
        "test_elicitation_sep1330_enums" => once(json!({"user": elicitation("Choose", choices(), &[])}), said_by_user),
        "test_streaming_elicitation" => once(json!({"user": confirmation("Go on?")}), said_by_user),
        "test_input_required_result_elicitation" => {
            once(json!({"user_name": name_of_user("What is your name?")}), |answers| {
                format!("Hello, {}!", text(&answers["user_name"]["content"]["name"]))
            })
        }
        "test_input_required_result_sampling" => {
            once(json!({"capital_question": sampling("What is the capital of France?", 100)}), said_by_model)
        }
        "test_input_required_result_list_roots" => {
            once(json!({"client_roots": roots()}), |answers| format!("Roots: {}", answers["client_roots"]["roots"]))
        }
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => Dialogue {
            keeps_state: true,
            ..once(json!({"confirm": confirmation("Please confirm")}), |_| "state-ok".into())
        },
        "test_input_required_result_multiple_inputs" => Dialogue {
            keeps_state: true,
            ..once(
                json!({
                    "user_name": name_of_user("What is your name?"),
                    "greeting": sampling("Generate a greeting", 50),
                    "client_roots": roots(),
                }),
                everything,
            )
        },
        "test_input_required_result_multi_round" => Dialogue {
            rounds: vec![
                requests(json!({"step1": name_of_user("Step 1: What is your name?")})),
                requests(
                    json!({"step2": elicitation("Step 2: What is your favorite color?", json!({"color": {"type": "string"}}), &["color"])}),
                ),
            ],
            keeps_state: true,
            finish: everything,
        },
        "test_input_required_result_capabilities" => once(
            json!({"user_name": name_of_user("What is your name?"), "greeting": sampling("Generate a greeting", 50)}),
            everything,
        )
        .restricted_to(capabilities),
        _ => return None,
    })
}

/// The dialogue of the prompt `test_input_required_result_prompt`.
pub(super) fn of_prompt() -> Dialogue {
    let question =
        elicitation("What context should the prompt use?", json!({"context": {"type": "string"}}), &["context"]);
    once(json!({"user_context": question}), |answers| {
        format!("Use this context: {}", text(&answers["user_context"]["content"]["context"]))
    })
}

/// A dialogue of one round that needs no state.
fn once(round: Value, finish: fn(&Answers) -> String) -> Dialogue {
    Dialogue { rounds: vec![requests(round)], keeps_state: false, finish }
}

fn requests(round: Value) -> rmcp::model::InputRequests {
    serde_json::from_value(round).expect("the requests in this file are well formed")
}

fn sampling(question: &str, max_tokens: u32) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": question}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": max_tokens}})
}

fn elicitation(message: &str, properties: Value, required: &[&str]) -> Value {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}})
}

fn name_of_user(question: &str) -> Value {
    elicitation(question, json!({"name": {"type": "string"}}), &["name"])
}

fn confirmation(question: &str) -> Value {
    elicitation(question, json!({"ok": {"type": "boolean"}}), &["ok"])
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

/// One property of each primitive type, each with a default (SEP-1034).
fn defaults() -> Value {
    json!({
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    })
}

/// The five ways to write a choice (SEP-1330).
fn choices() -> Value {
    let titled = |kind: &str| {
        json!([
            {"const": "value1", "title": format!("First {kind}")},
            {"const": "value2", "title": format!("Second {kind}")},
            {"const": "value3", "title": format!("Third {kind}")},
        ])
    };
    let options = json!(["option1", "option2", "option3"]);
    json!({
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    })
}

fn said_by_model(answers: &Answers) -> String {
    let contents = answers.values().map(|answer| match &answer["content"] {
        Value::Array(blocks) => blocks.iter().map(|block| text(&block["text"])).collect(),
        block => text(&block["text"]),
    });
    format!("LLM response: {}", contents.collect::<Vec<String>>().join(" "))
}

fn said_by_user(answers: &Answers) -> String {
    let user = &answers["user"];
    format!("Elicitation completed: action={}, content={}", text(&user["action"]), user["content"])
}

fn everything(answers: &Answers) -> String {
    json!(answers).to_string()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().into()
}
