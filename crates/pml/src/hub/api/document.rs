//! The OpenAPI document, made of the table of routes.

use axum::{http::StatusCode, response::Response};
use pml_wire::hub::Code;
use serde_json::{Map, Value, json};

use super::{problem, routes};

pub(super) fn serve() -> Response {
    problem::json(StatusCode::OK, &document())
}

fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes::table() {
        let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
        let kind = match route.answer {
            "Text" => "text/plain",
            "Model" => "application/octet-stream",
            _ => "application/json",
        };
        let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path =
            in_path.map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
        let in_query = route.query.iter().map(
            |(name, what)| json!({"name": name, "in": "query", "description": what, "schema": {"type": "string"}}),
        );
        let parameters: Vec<_> = in_path.chain(in_query).collect();
        let mut operation = json!({
            "summary": route.summary,
            "description": format!("Needs a key that permits `{}`.", route.permission.as_str()),
            "parameters": parameters,
            "security": [{"key": []}],
            "responses": {
                "2XX": {"description": "done", "content": {kind: {"schema": reference(route.answer)}}},
                "default": {"description": "why not", "content": {"application/json": {"schema": reference("Failure")}}},
            },
        });
        if let Some(body) = route.body {
            operation["requestBody"] =
                json!({"required": true, "content": {"application/json": {"schema": reference(body)}}});
        }
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "pml hub",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Bodies may be compressed: `Content-Encoding: zstd` or `gzip`. What a key sees and changes is of its own project.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas(),
        },
    })
}

/// What bodies and answers look like.
fn schemas() -> Value {
    let mut schemas: Value = serde_json::from_str(include_str!("schemas.json")).unwrap_or_default();
    let codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    schemas["Failure"]["properties"]["code"]["enum"] = json!(codes);
    schemas
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reference_leads_somewhere_and_no_schema_is_left_over() {
        let document = document();
        let text = document.to_string();
        let defined: BTreeSet<_> = document["components"]["schemas"].as_object().unwrap().keys().cloned().collect();
        let used: BTreeSet<_> = text
            .split("#/components/schemas/")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().to_owned())
            .collect();
        assert_eq!(used, defined);
        let most = &document["components"]["schemas"]["IngestRequest"]["properties"]["traces"]["maxItems"];
        assert_eq!(*most, pml_wire::hub::MAX_TRACES);
    }
}
