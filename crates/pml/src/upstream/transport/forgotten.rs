//! Recognizes that a server of streamable HTTP has lost a session, as after a restart.
//!
//! The specification has HTTP 404 for this. Published servers answer with 400 and an error of their own, and servers behind a
//! web framework with whatever that framework makes of an error.
//!
//! **Invariant:** what a tool says about a session of its own is no lost session: a tool's error has a code of JSON-RPC, or
//! comes with a result.

use pml_wire::ErrorCode;
use reqwest::StatusCode;
use serde_json::Value;

use super::super::{
    failure::{Failure, Retry},
    web::SHOWN_BYTES,
};
use crate::protocol::code::INVALID_REQUEST;

/// The codes of errors that servers define themselves.
const SERVER_DEFINED: std::ops::RangeInclusive<i64> = -32099..=-32000;
/// A longer body is no refusal of a session.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// The server knows nothing of the session, so it has not looked at the request.
pub(super) fn lost_session() -> Failure {
    let message = "the server has forgotten the session";
    Failure::new(ErrorCode::ProviderUnavailable, message, Retry::NewSession)
}

/// Does a refusal (4xx) of a request with a session say that the server does not know the session? A 404 does, unless its
/// body is an error of the request `id` about something else; another status does if its body says so.
pub(super) fn forgets_session(status: StatusCode, body: &[u8], id: Option<u64>) -> bool {
    let message = (body.len() <= MAX_BODY_BYTES).then(|| serde_json::from_slice(body).ok()).flatten();
    let message = match &message {
        Some(Value::Array(list)) if list.len() == 1 => list.first(),
        message => message.as_ref(),
    };
    let says_so = match message {
        Some(Value::Object(message)) => is_about_session(message),
        Some(_) => false,
        None if body.trim_ascii_start().starts_with(b"{") => false,
        None => names_session(&String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)])),
    };
    let is_answer =
        message.is_some_and(|message| id.is_some() && message["error"].is_object() && message["id"].as_u64() == id);
    says_so || (status == StatusCode::NOT_FOUND && !is_answer)
}

fn is_about_session(message: &serde_json::Map<String, Value>) -> bool {
    if message.contains_key("result") {
        return false;
    }
    let Some(Value::Object(error)) = message.get("error") else {
        // An error of the web framework, such as `{"detail": "Session not found"}`.
        return message.values().filter_map(Value::as_str).any(names_session);
    };
    let code = error.get("code").and_then(Value::as_i64).unwrap_or(0);
    let text = error.get("message").and_then(Value::as_str).unwrap_or_default();
    (code == 0 || code == INVALID_REQUEST || SERVER_DEFINED.contains(&code)) && names_session(text)
}

fn names_session(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("session") || text.contains("not initialized")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_may_mean_that_the_session_is_lost() {
        #[rustfmt::skip]
        let table = [
            (400, r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":3}"#, true),
            (400, r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}"#, true),
            (400, r#"{"error":{"code":-32600,"message":"Invalid or expired Session"}}"#, true),
            (400, r#"[{"jsonrpc":"2.0","error":{"code":-32000,"message":"Session not found"},"id":null}]"#, true),
            (400, r#"{"detail":"Session not found"}"#, true),
            (400, r#"{"error":"Session expired"}"#, true),
            (400, r#"{"statusCode":400,"message":"unknown session"}"#, true),
            (400, "Invalid session ID", true),
            (410, "the session is gone", true),
            (422, r#"{"error":"bad session"}"#, true),
            (400, r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Unsupported protocol version"},"id":3}"#, false),
            (400, r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"`session` must be a string"},"id":3}"#, false),
            (400, r#"{"jsonrpc":"2.0","result":{"session":1},"id":3}"#, false),
            (400, r#"{"jsonrpc":"2.0","result":"session","id":3}"#, false),
            (400, r#"{"error":"no such page"}"#, false),
            (400, "{ session", false),
            (400, "no such page", false),
            (400, "", false),
            (404, "", true),
            (404, "<html>no such page", true),
            (404, r#"{"error":"no such page"}"#, true),
            (404, r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":3}"#, true),
            (404, r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"no such issue"},"id":null}"#, true),
            (404, r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"no such issue"},"id":3}"#, false),
        ];
        for (status, body, expected) in table {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(forgets_session(status, body.as_bytes(), Some(3)), expected, "{status} {body}");
        }
    }
}
