//! What the headers of a request must say: the same as its body.

use axum::http::{HeaderMap, header};
use base64::{Engine as _, prelude::BASE64_STANDARD as STANDARD};
use serde_json::Value;

use super::super::{
    gateway::Frontend,
    rpc::{self, Era, HEADER_MISMATCH, INVALID_PARAMS, LEGACY, MODERN, Request},
};
pub(super) use crate::protocol::header::{SESSION, VERSION};
use crate::{
    protocol::header::{METHOD, NAME, PARAMETER},
    upstream::RpcError,
};

/// Does the client take an answer of this kind?
pub(super) fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let (family, _) = kind.split_once('/').unwrap_or((kind, ""));
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|item| {
            let item = item.split(';').next().unwrap_or_default().trim();
            item.eq_ignore_ascii_case(kind) || item == "*/*" || item.eq_ignore_ascii_case(&format!("{family}/*"))
        })
}

/// Is the body JSON? Anything else could be sent by a page of somebody else without asking first.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// What a header says. One that is there twice says nothing that is right: somebody on the way may have
/// gone by the other.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    match values.next() {
        Some(_) => Some("\u{fffd}"),
        None => Some(value.to_str().unwrap_or("\u{fffd}")),
    }
}

fn mismatch(message: String) -> RpcError {
    rpc::error(HEADER_MISMATCH, message)
}

/// The version that a request names in its body must be the one in its header.
pub(super) fn check_version(headers: &HeaderMap, in_body: Option<&Value>, method: &str) -> Result<(), RpcError> {
    let header = text(headers, VERSION);
    match (header, in_body) {
        // A session begins: the version is being agreed on.
        _ if method == "initialize" => Ok(()),
        (header, Some(Value::String(body))) if header == Some(body) => Ok(()),
        (Some(header), Some(body)) => {
            Err(mismatch(format!("the header MCP-Protocol-Version is `{header}`, but `_meta` says {body}")))
        }
        (None, Some(_)) => Err(mismatch("the header MCP-Protocol-Version is missing".to_owned())),
        (Some(MODERN), None) => Err(rpc::error(
            INVALID_PARAMS,
            format!("in version {MODERN} each request says so in `_meta`, with the client's capabilities"),
        )),
        (Some(header), None) if !LEGACY.contains(&header) => Err(rpc::unsupported(header)),
        (_, None) => Ok(()),
    }
}

impl Frontend {
    /// In the new era, the headers name what the body is about.
    pub(super) fn check_headers(&self, headers: &HeaderMap, request: &Request, era: Era) -> Result<(), RpcError> {
        let method = text(headers, METHOD);
        // In the earlier era they need not be there; but if they are, they must be right.
        if era == Era::Modern && method.is_none() {
            return Err(mismatch("the header Mcp-Method is missing".to_owned()));
        }
        if let Some(method) = method.filter(|method| *method != request.method) {
            return Err(mismatch(format!(
                "the header Mcp-Method is `{method}`, but the method is `{}`",
                request.method
            )));
        }
        let key = match request.method.as_str() {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            _ => return Ok(()),
        };
        // What is no name at all is the body's own trouble.
        let Some(name) = request.params.get(key).and_then(Value::as_str) else { return Ok(()) };
        match text(headers, NAME).map(decode) {
            None if era == Era::Modern => return Err(mismatch("the header Mcp-Name is missing".to_owned())),
            Some(header) if header.as_deref() != Some(name) => {
                return Err(mismatch(format!("the header Mcp-Name is not `{name}`, as in the body")));
            }
            _ => {}
        }
        match era == Era::Modern && request.method == "tools/call" {
            true => self.check_parameters(headers, name, request.params.get("arguments").unwrap_or(&Value::Null)),
            false => Ok(()),
        }
    }

    /// Arguments that a tool wants in headers must be there, and be the same.
    fn check_parameters(&self, headers: &HeaderMap, name: &str, arguments: &Value) -> Result<(), RpcError> {
        let Some(tool) = self.passed_tool(name) else { return Ok(()) };
        for (header, value) in tool.header_arguments(arguments) {
            let given = text(headers, &format!("{PARAMETER}{header}").to_ascii_lowercase()).map(decode);
            if given.flatten().as_deref() != Some(value.as_str()) {
                let message = format!("the header Mcp-Param-{header} is missing, or not what the argument says");
                return Err(mismatch(message));
            }
        }
        Ok(())
    }
}

/// The text that a header stands for: itself, or base64 in `=?base64?…?=`. `None` if it is broken.
fn decode(header: &str) -> Option<String> {
    let Some(inside) = header.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Some(header.to_owned());
    };
    STANDARD.decode(inside).ok().and_then(|bytes| String::from_utf8(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn names_are_decoded() {
        let table = [
            ("plain", Some("plain")),
            ("=?base64?aMOpbGxv?=", Some("héllo")),
            ("=?base64?aGk=?=", Some("hi")),
            ("=?base64?YQ==?=", Some("a")),
            ("=?base64??=", Some("")),
            ("=?base64?a?=", None),
            ("=?base64?aGk?=", None),
            ("=?base64?!!?=", None),
            ("=?base64?/w==?=", None),
        ];
        for (header, expected) in table {
            assert_eq!(decode(header).as_deref(), expected, "{header}");
        }
    }

    #[test]
    fn versions_in_header_and_body_agree() {
        let modern = Value::from(MODERN);
        let table = [
            (None, None, "tools/list", Ok(())),
            (Some("2025-06-18"), None, "tools/list", Ok(())),
            (Some(MODERN), Some(&modern), "tools/list", Ok(())),
            (Some("1999-01-01"), None, "tools/list", Err(rpc::UNSUPPORTED_VERSION)),
            (Some("2025-06-18"), Some(&modern), "tools/list", Err(HEADER_MISMATCH)),
            (None, Some(&modern), "tools/list", Err(HEADER_MISMATCH)),
            (Some(MODERN), None, "tools/list", Err(INVALID_PARAMS)),
            (Some(MODERN), None, "initialize", Ok(())),
        ];
        for (header, body, method, expected) in table {
            let headers = header.map(|version| headers(&[(VERSION, version)])).unwrap_or_default();
            let actual = check_version(&headers, body, method).map_err(|error| error.code);
            assert_eq!(actual, expected, "{header:?} {body:?} {method}");
        }
    }

    #[test]
    fn kinds_of_answers_are_read_off_the_header() {
        let both = headers(&[("accept", "application/json, text/event-stream;q=0.9")]);
        assert!(accepts(&both, "application/json") && accepts(&both, "text/event-stream"));
        assert!(accepts(&headers(&[("accept", "*/*")]), "text/event-stream"));
        assert!(!accepts(&headers(&[("accept", "text/html")]), "application/json"));
        assert!(is_json(&headers(&[("content-type", "application/json; charset=utf-8")])));
        assert!(!is_json(&headers(&[("content-type", "text/plain")])) && !is_json(&HeaderMap::new()));
    }
}
