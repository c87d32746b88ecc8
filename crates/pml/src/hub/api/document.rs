//! The OpenAPI document, made of the table of routes.

use axum::{
    http::{Method, StatusCode},
    response::Response,
};
use pml_wire::hub::Code;
use serde_json::{Map, Value, json};

use super::{
    problem,
    routes::{self, Route},
};

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
            |(name, what)| json!({"name": name, "in": "query", "description": what, "schema": query_schema(name)}),
        );
        let in_head = conditions(&route).iter().map(
            |(name, what)| json!({"name": name, "in": "header", "description": what, "schema": {"type": "string"}}),
        );
        let parameters: Vec<_> = in_path.chain(in_query).chain(in_head).collect();
        let failure = |what: &str| {
            let content = json!({"application/json": {"schema": reference("Failure")}});
            let pause = json!({"Retry-After": {"description": "seconds", "schema": {"type": "integer"}}});
            match what {
                "why not" => json!({"description": what, "content": content}),
                _ => json!({"description": what, "headers": pause, "content": content}),
            }
        };
        let mut operation = json!({
            "summary": route.summary,
            "description": format!("Needs a key that permits `{}`.", route.permission.as_str()),
            "parameters": parameters,
            "security": [{"key": []}],
            "responses": {
                "200": {"description": "done", "content": {kind: {"schema": reference(route.answer)}}},
                "429": failure("the key asks too often"),
                "503": failure("the hub cannot answer now"),
                "default": failure("why not"),
            },
        });
        let responses = &mut operation["responses"];
        if (&route.method, route.path) == (&Method::POST, "/api/capabilities") {
            responses["201"] = responses["200"].clone();
            responses["201"]["description"] = json!("made, or a new version of it");
        }
        if has_etag(&route) {
            responses["200"]["headers"] = json!({"ETag": {"schema": {"type": "string"}}});
            responses["304"] = json!({"description": "what `If-None-Match` names is what there is"});
        }
        if let Some(body) = route.body {
            operation["requestBody"] =
                json!({"required": true, "content": {"application/json": {"schema": reference(body)}}});
        }
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    for (path, what) in [("/healthz", "Is the hub alive?"), ("/readyz", "Can it store, and has it its keys?")] {
        let status = |text: &str| {
            let schema =
                json!({"type": "object", "properties": {"status": {"type": "string"}, "reason": {"type": "string"}}});
            json!({"description": text, "content": {"application/json": {"schema": schema}}})
        };
        let mut responses = json!({"200": status("yes")});
        if path == "/readyz" {
            responses["503"] = status("no");
        }
        let about = "Of `pml hub`; a gateway that is a hub too has its own. Needs no key.";
        paths.insert(
            path.to_owned(),
            json!({"get": {"summary": what, "description": about, "security": [], "responses": responses}}),
        );
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

/// Of which type a part of the query is.
fn query_schema(name: &str) -> Value {
    match name {
        "limit" | "offset" | "n" | "seed" => json!({"type": "integer", "minimum": 0}),
        "alpha" => json!({"type": "number", "minimum": 0, "maximum": 10}),
        "failed" => json!({"type": "boolean"}),
        "since" | "before" => json!({"type": "string", "format": "date-time"}),
        "capability" => json!({"type": "string", "format": "uuid"}),
        _ => json!({"type": "string"}),
    }
}

fn has_etag(route: &Route) -> bool {
    route.method == Method::GET && ["/api/registry", "/api/model"].contains(&route.path)
}

/// Headers that say what a request expects.
fn conditions(route: &Route) -> &'static [(&'static str, &'static str)] {
    match route.path {
        _ if has_etag(route) => &[("If-None-Match", "the `ETag` of what is known: 304 if that is what there is")],
        path if path.starts_with("/api/capabilities") && route.method != Method::GET => &[
            ("If-Match", "the `tag` that the capability must have, several of them, or `*`: 412 otherwise"),
            ("If-None-Match", "`*`: no capability may have the name"),
        ],
        _ => &[],
    }
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
