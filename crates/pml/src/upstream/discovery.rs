//! The list of a server's tools, page by page.

use std::{collections::HashSet, time::Duration};

use pml_wire::ErrorCode;
use serde_json::value::RawValue;

use super::{
    codec::Item,
    connection::{Connection, Request},
    failure::Failure,
};
use crate::catalog::{Listing, Source};

/// Most pages and tools that are taken from one server.
const MAX_PAGES: usize = 200;
const MAX_TOOLS: usize = 20_000;
const MAX_BYTES: usize = 64 * 1024 * 1024;
const METHOD_NOT_FOUND: i64 = -32601;

/// A list, and how long the server says it holds.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) listing: Listing,
    pub(super) ttl: Option<Duration>,
}

pub(super) async fn list_tools(server: &str, connection: &Connection, bound: Duration) -> Result<Listed, Failure> {
    let mut tools: Vec<Box<RawValue>> = Vec::new();
    let mut warnings = Vec::new();
    let mut seen = HashSet::new();
    let mut cursor: Option<String> = None;
    let mut ttl = None;
    let mut bytes = 0;
    loop {
        let mut request = Request::new("tools/list", bound);
        if let Some(cursor) = &cursor {
            request = request.with("cursor", serde_json::Value::from(cursor.as_str()).to_string());
        }
        let mut page = match connection.request(&request).await {
            Ok(page) => page,
            // A server without tools need not know what they are.
            Err(failure) if is_unknown_method(&failure) => break,
            Err(failure) => return Err(refused(failure)),
        };
        ttl = page.get::<u64>("ttlMs").filter(|millis| *millis > 0).map(Duration::from_millis);
        match page.take_items("tools") {
            Some(items) => tools.extend(items.into_iter().map(|item| {
                let raw = match item {
                    Item::Object(fields) => fields.to_raw(),
                    Item::Other(raw) => raw,
                };
                bytes += raw.get().len();
                raw
            })),
            None => return Err(refused(Failure::protocol("its answer has no tools"))),
        }
        cursor = page.get::<String>("nextCursor").filter(|cursor| !cursor.is_empty());
        let Some(next) = &cursor else { break };
        if !seen.insert(next.clone()) || seen.len() >= MAX_PAGES || tools.len() >= MAX_TOOLS || bytes > MAX_BYTES {
            let count = tools.len();
            warnings.push(format!("the list does not end; what came after {count} tools is left out"));
            break;
        }
    }
    tools.truncate(MAX_TOOLS);
    let mut listing = Listing::parse(server, tools, Source::Live);
    listing.warnings.splice(0..0, warnings);
    for warning in listing.warnings.iter().take(10) {
        tracing::warn!(server, "{warning}");
    }
    Ok(Listed { listing, ttl })
}

fn is_unknown_method(failure: &Failure) -> bool {
    failure.data.as_ref().is_some_and(|data| data["rpc_code"] == METHOD_NOT_FOUND)
}

/// A server that refuses its list has not started.
fn refused(failure: Failure) -> Failure {
    let failure = failure.within("it does not list its tools");
    match failure.code {
        ErrorCode::ToolError | ErrorCode::ProviderProtocol | ErrorCode::ProviderTimeout => {
            Failure { code: ErrorCode::ProviderInitFailed, ..failure }
        }
        _ => failure,
    }
}
