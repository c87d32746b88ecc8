//! The lists of a server, of its tools above all, page by page.

use std::{collections::HashSet, time::Duration};

use pml_wire::ErrorCode;
use serde_json::{Map, Value, value::RawValue};

use super::{
    codec::Item,
    connection::{Connection, Request},
    failure::Failure,
};
use crate::{
    catalog::{Listing, Source},
    shown::{is_hidden, visible},
};

/// Most pages and items that are taken from one server.
const MAX_PAGES: usize = 200;
const MAX_ITEMS: usize = 20_000;
const MAX_BYTES: usize = 64 * 1024 * 1024;
const METHOD_NOT_FOUND: i64 = -32601;

/// A list, and how long the server says it holds.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) listing: Listing,
    pub(super) ttl: Option<Duration>,
}

pub(super) async fn list_tools(server: &str, connection: &Connection, bound: Duration) -> Result<Listed, Failure> {
    let pages = pages(connection, "tools/list", "tools", bound).await.map_err(refused)?;
    let mut listing = match connection.sends_arguments_in_headers() {
        true => Listing::parse_with_headers(server, pages.items, Source::Live),
        false => Listing::parse(server, pages.items, Source::Live),
    };
    listing.warnings.splice(0..0, pages.warning);
    for warning in listing.warnings.iter().take(10) {
        tracing::warn!(server, "{warning}");
    }
    Ok(Listed { listing, ttl: pages.ttl })
}

/// A kind of things that a server lists besides tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Resources,
    ResourceTemplates,
    Prompts,
}

/// All things of a kind, as the server describes them. A server that does not declare the kind has none.
pub(super) async fn list(connection: &Connection, kind: Kind, bound: Duration) -> Result<Vec<Value>, Failure> {
    let (capability, method, key) = match kind {
        Kind::Resources => ("resources", "resources/list", "resources"),
        Kind::ResourceTemplates => ("resources", "resources/templates/list", "resourceTemplates"),
        Kind::Prompts => ("prompts", "prompts/list", "prompts"),
    };
    if !connection.declared.capabilities[capability].is_object() {
        return Ok(Vec::new());
    }
    let pages =
        pages(connection, method, key, bound).await.map_err(|failure| failure.within("it does not list them"))?;
    if let Some(warning) = pages.warning {
        tracing::warn!(server = connection.server, method, "{warning}");
    }
    let items = pages.items.iter().filter_map(|item| serde_json::from_str::<Map<String, Value>>(item.get()).ok());
    let items: Vec<_> = items.collect();
    let usable = items.iter().filter(|item| match unusable(item) {
        None => true,
        Some(text) => {
            tracing::warn!(server = connection.server, method, "`{}` is left out: it cannot be read", visible(text));
            false
        }
    });
    Ok(usable.cloned().map(Value::Object).collect())
}

/// A name or an address in an item that clients would have to send back, but that cannot be read.
fn unusable(item: &Map<String, Value>) -> Option<&str> {
    let arguments = item.get("arguments").and_then(Value::as_array).into_iter().flatten();
    let names = arguments.map(|argument| &argument["name"]);
    let own = ["uri", "uriTemplate"].iter().filter_map(|key| item.get(*key));
    // A resource is not called by its name.
    let name = item.get("name").filter(|_| !item.contains_key("uri") && !item.contains_key("uriTemplate"));
    own.chain(name).chain(names).filter_map(Value::as_str).find(|text| text.contains(is_hidden))
}

/// The items of all pages of a list.
#[derive(Debug, Default)]
struct Pages {
    items: Vec<Box<RawValue>>,
    ttl: Option<Duration>,
    warning: Option<String>,
}

async fn pages(connection: &Connection, method: &str, key: &str, bound: Duration) -> Result<Pages, Failure> {
    let mut pages = Pages::default();
    let mut seen = HashSet::new();
    let mut cursor: Option<String> = None;
    let mut bytes = 0;
    loop {
        let mut request = Request::new(method, bound);
        if let Some(cursor) = &cursor {
            request = request.with("cursor", Value::from(cursor.as_str()).to_string());
        }
        let mut page = match connection.request(&request).await {
            Ok(page) => page,
            // A server without such things need not know what they are.
            Err(failure) if is_unknown_method(&failure) => break,
            Err(failure) => return Err(failure),
        };
        pages.ttl = page.get::<u64>("ttlMs").filter(|millis| *millis > 0).map(Duration::from_millis);
        let items = match page.take_items(key) {
            Some(items) => items
                .into_iter()
                .map(|item| match item {
                    Item::Object(fields) => fields.to_raw(),
                    Item::Other(raw) => raw,
                })
                .collect::<Vec<_>>()
                .into(),
            None => page.get::<Vec<Box<RawValue>>>(key),
        };
        let Some(items) = items else { return Err(Failure::protocol(format!("its answer has no {key}"))) };
        bytes += items.iter().map(|item| item.get().len()).sum::<usize>();
        pages.items.extend(items);
        cursor = page.get::<String>("nextCursor").filter(|cursor| !cursor.is_empty());
        let Some(next) = &cursor else { break };
        let count = pages.items.len();
        if !seen.insert(next.clone()) || seen.len() >= MAX_PAGES || count >= MAX_ITEMS || bytes > MAX_BYTES {
            pages.warning = Some(format!("the list does not end; what came after {count} {key} is left out"));
            break;
        }
    }
    if pages.items.len() > MAX_ITEMS {
        pages.items.truncate(MAX_ITEMS);
        pages.warning = Some(format!("there are more than {MAX_ITEMS} {key}; the others are left out"));
    }
    Ok(pages)
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
