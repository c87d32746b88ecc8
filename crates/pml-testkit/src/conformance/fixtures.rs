//! What the server lists, and what does not change: tools, prompts, resources and their contents.
//!
//! Names and texts are those that the scenarios of the suite expect.

use rmcp::model::{Prompt, Resource, ResourceContents, ResourceTemplate, Tool};
use serde_json::{Value, json};

/// A picture of one red pixel.
pub(super) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A sound of no length.
pub(super) const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

pub(super) const TEXT_RESOURCE: &str = "test://static-text";
pub(super) const BINARY_RESOURCE: &str = "test://static-binary";
pub(super) const WATCHED_RESOURCE: &str = "test://watched-resource";

/// The tools, in the order in which they are always listed. `with_extra` adds the one that comes and
/// goes.
pub(super) fn tools(with_extra: bool) -> Vec<Tool> {
    #[rustfmt::skip]
    let plain = [
        ("test_simple_text", "Returns a text"),
        ("test_image_content", "Returns a picture"),
        ("test_audio_content", "Returns a sound"),
        ("test_embedded_resource", "Returns a resource"),
        ("test_multiple_content_types", "Returns a text, a picture and a resource"),
        ("test_error_handling", "Fails"),
        ("test_tool_with_logging", "Logs while it runs"),
        ("test_logging_tool", "Logs while it runs"),
        ("test_tool_with_progress", "Reports progress while it runs"),
        ("test_missing_capability", "Needs a client that lets servers use its model"),
        ("test_streaming_elicitation", "Asks the user while it runs"),
        ("test_elicitation_sep1034_defaults", "Asks the user, with defaults"),
        ("test_elicitation_sep1330_enums", "Asks the user to choose"),
        ("test_trigger_tool_change", "Adds or removes a tool"),
        ("test_trigger_prompt_change", "Adds or removes a prompt"),
        ("test_input_required_result_elicitation", "Asks the user"),
        ("test_input_required_result_sampling", "Asks the model"),
        ("test_input_required_result_list_roots", "Asks for the roots"),
        ("test_input_required_result_request_state", "Asks the user, and recognises the answer"),
        ("test_input_required_result_tampered_state", "Asks the user, and takes no forged answer"),
        ("test_input_required_result_multiple_inputs", "Asks the user and the model, and for the roots"),
        ("test_input_required_result_multi_round", "Asks the user twice"),
        ("test_input_required_result_capabilities", "Asks whoever this client lets it ask"),
    ];
    let mut tools: Vec<Tool> =
        plain.into_iter().map(|(name, description)| tool(name, description, json!({"type": "object"}))).collect();
    tools.extend([
        tool("test_sampling", "Asks the model", one_string("prompt", json!({}))),
        tool("test_elicitation", "Asks the user", one_string("message", json!({}))),
        tool(
            "test_x_mcp_header",
            "Takes an argument that is also a header",
            one_string("region", json!({"x-mcp-header": "Region"})),
        ),
        tool("json_schema_2020_12_tool", "Has a schema of many keywords", many_keywords()),
    ]);
    if with_extra {
        tools.push(tool("test_extra_tool", "Comes and goes", json!({"type": "object"})));
    }
    tools
}

fn tool(name: &'static str, description: &'static str, schema: Value) -> Tool {
    let Value::Object(schema) = schema else { unreachable!("`{name}` has a schema that is an object") };
    Tool::new(name, description, schema)
}

/// A schema with one required string.
fn one_string(name: &str, mut property: Value) -> Value {
    property["type"] = json!("string");
    json!({"type": "object", "properties": {name: property}, "required": [name]})
}

/// Keywords of JSON Schema 2020-12 that a careless gateway would lose (SEP-1613, SEP-2106).
fn many_keywords() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

pub(super) fn prompts(with_extra: bool) -> Vec<Prompt> {
    let argument = |name: &str| json!({"name": name, "description": "A string", "required": true});
    let mut prompts = json!([
        {"name": "test_simple_prompt", "description": "A text"},
        {
            "name": "test_prompt_with_arguments",
            "description": "A text with two arguments in it",
            "arguments": [argument("arg1"), argument("arg2")],
        },
        {
            "name": "test_prompt_with_embedded_resource",
            "description": "A resource and a text",
            "arguments": [argument("resourceUri")],
        },
        {"name": "test_prompt_with_image", "description": "A picture and a text"},
        {"name": "test_input_required_result_prompt", "description": "Asks the user what it is about"},
    ]);
    if let (true, Value::Array(prompts)) = (with_extra, &mut prompts) {
        prompts.push(json!({"name": "test_extra_prompt", "description": "Comes and goes"}));
    }
    serde_json::from_value(prompts).expect("the prompts above are well formed")
}

pub(super) fn resources() -> Vec<Resource> {
    #[rustfmt::skip]
    let table = [
        (TEXT_RESOURCE, "static-text", "A text", "text/plain"),
        (BINARY_RESOURCE, "static-binary", "A picture", "image/png"),
        (WATCHED_RESOURCE, "watched-resource", "A text that can be subscribed to", "text/plain"),
    ];
    let resource = |(uri, name, description, mime_type): (&str, &str, &str, &str)| {
        Resource::new(uri, name).with_description(description).with_mime_type(mime_type)
    };
    table.map(resource).into()
}

pub(super) fn resource_templates() -> Vec<ResourceTemplate> {
    let template = ResourceTemplate::new("test://template/{id}/data", "template-data");
    vec![template.with_description("Data for an id").with_mime_type("application/json")]
}

/// What a resource holds, if there is one of this name.
pub(super) fn read(uri: &str) -> Option<ResourceContents> {
    let of_template = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    Some(match (uri, of_template) {
        (TEXT_RESOURCE, _) => {
            ResourceContents::text("This is the content of the static text resource.", uri).with_mime_type("text/plain")
        }
        (BINARY_RESOURCE, _) => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
        (WATCHED_RESOURCE, _) => ResourceContents::text("Nothing has happened yet.", uri).with_mime_type("text/plain"),
        (_, Some(id)) => {
            let text = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            ResourceContents::text(text.to_string(), uri).with_mime_type("application/json")
        }
        _ => return None,
    })
}
