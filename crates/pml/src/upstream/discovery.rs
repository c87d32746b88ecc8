//! The lists of a server, of its tools above all, page by page.

use std::{collections::HashSet, sync::Arc, time::Duration};

use pml_wire::ErrorCode;
use serde_json::{Map, Value, value::RawValue};

use super::{
    connection::Connection,
    exchange::Request,
    failure::Failure,
    payload::{Item, Payload},
    settings::Settings,
};
use crate::{
    catalog::{Listing, Source},
    protocol::{code::METHOD_NOT_FOUND, method},
    shown::{is_hidden, visible},
    work::{self, Waiter},
};

/// Most pages and items that are taken from one server.
const MAX_PAGES: usize = 200;
const MAX_ITEMS: usize = 20_000;
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// The keys of an item by whose values it is asked for.
const IDENTIFIERS: [&str; 3] = ["name", "uri", "uriTemplate"];

/// A list, and how long the server says it holds.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) listing: Listing,
    pub(super) ttl: Option<Duration>,
}

pub(super) async fn list_tools(settings: &Arc<Settings>, connection: &Connection) -> Result<Listed, Failure> {
    let server = &settings.name;
    let Pages { items, bytes, ttl, warning, .. } =
        pages(settings, connection, (method::TOOLS_LIST, "tools"), settings.start_timeout).await.map_err(refused)?;
    let (owned, has_headers) = (Arc::clone(settings), connection.sends_arguments_in_headers());
    let parse = move |_: &Waiter| {
        let (items, secret): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| !owned.is_named_like_a_secret(item));
        let mut listing = match has_headers {
            true => Listing::parse_with_headers(&owned.name, items, Source::Live),
            false => Listing::parse(&owned.name, items, Source::Live),
        };
        listing.warnings.splice(0..0, warning);
        if !secret.is_empty() {
            let count = secret.len();
            listing.warnings.push(format!("{count} tools are left out, since their names hold a secret of the server"));
        }
        listing
    };
    let listing = work::sized(bytes, parse).await;
    for warning in listing.warnings.iter().take(10) {
        tracing::warn!(server, "{warning}");
    }
    Ok(Listed { listing, ttl })
}

/// A kind of things that a server lists besides tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Resources,
    ResourceTemplates,
    Prompts,
}

/// All things of a kind, as the server describes them. A server that does not declare the kind has none.
pub(super) async fn list(settings: &Arc<Settings>, connection: &Connection, kind: Kind) -> Result<Vec<Value>, Failure> {
    let (capability, method, key) = match kind {
        Kind::Resources => ("resources", method::RESOURCES_LIST, "resources"),
        Kind::ResourceTemplates => ("resources", method::TEMPLATES_LIST, "resourceTemplates"),
        Kind::Prompts => ("prompts", method::PROMPTS_LIST, "prompts"),
    };
    if !connection.declared.capabilities[capability].is_object() {
        return Ok(Vec::new());
    }
    let pages = pages(settings, connection, (method, key), settings.call_timeout).await;
    let pages = pages.map_err(|failure| failure.within("it does not list them"))?;
    if let Some(warning) = &pages.warning {
        tracing::warn!(server = connection.server, method, "{warning}");
    }
    let (server, items, bytes) = (connection.server.clone(), pages.items, pages.bytes);
    let parse = move |_: &Waiter| {
        let items = items.iter().filter_map(|item| serde_json::from_str::<Map<String, Value>>(item.get()).ok());
        let is_usable = |item: &Map<String, Value>| match unusable(item) {
            None => true,
            Some(text) => {
                tracing::warn!(server, method, "`{}` is left out: it cannot be read", visible(text));
                false
            }
        };
        items.filter(is_usable).map(Value::Object).collect()
    };
    Ok(work::sized(bytes, parse).await)
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
    /// Of all items together.
    bytes: usize,
    ttl: Option<Duration>,
    warning: Option<String>,
    /// How many items were left out, since bytes that are no UTF-8 stand in their names.
    unnamed: usize,
}

/// The items that `method` lists under `key`.
async fn pages(
    settings: &Arc<Settings>,
    connection: &Connection,
    (method, key): (&str, &str),
    bound: Duration,
) -> Result<Pages, Failure> {
    let mut pages = Pages::default();
    let mut seen = HashSet::new();
    let mut cursor: Option<String> = None;
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
        cursor = page.get::<String>("nextCursor").filter(|cursor| !cursor.is_empty());
        let (wanted, settings, is_repaired) = (key.to_owned(), Arc::clone(settings), page.is_repaired);
        let items = work::sized(page.bytes(), move |_| take_items(&mut page, &wanted, &settings)).await;
        let Some(mut items) = items else { return Err(Failure::protocol(format!("its answer has no {key}"))) };
        if is_repaired {
            let count = items.len();
            items.retain(|item| !is_named_wrongly(item));
            pages.unnamed += count - items.len();
            pages.warning = Some("the list has bytes that are no UTF-8; \u{fffd} stands in their place".to_owned());
        }
        pages.bytes += items.iter().map(|item| item.get().len()).sum::<usize>();
        pages.items.extend(items);
        let Some(next) = &cursor else { break };
        let count = pages.items.len();
        if !seen.insert(next.clone()) || seen.len() >= MAX_PAGES || count >= MAX_ITEMS || pages.bytes > MAX_BYTES {
            pages.warning = Some(format!("the list does not end; what came after {count} {key} is left out"));
            break;
        }
    }
    if pages.unnamed > 0 {
        let count = pages.unnamed;
        pages.warning = Some(format!("{count} {key} are left out, since their names have bytes that are no UTF-8"));
    }
    if pages.items.len() > MAX_ITEMS {
        pages.items.truncate(MAX_ITEMS);
        pages.warning = Some(format!("there are more than {MAX_ITEMS} {key}; the others are left out"));
    }
    Ok(pages)
}

/// The items of one page, as JSON texts without secrets. What is asked for by its name keeps it.
fn take_items(page: &mut Payload, key: &str, settings: &Settings) -> Option<Vec<Box<RawValue>>> {
    let items = match page.take_items(key) {
        Some(items) => items.into_iter().map(Item::into_raw).collect(),
        None => page.get::<Vec<Box<RawValue>>>(key)?,
    };
    Some(items.into_iter().map(|item| settings.mask_json(item, &IDENTIFIERS)).collect())
}

/// Has an item a name or an address that the server would not know again, since a byte of it was replaced?
fn is_named_wrongly(item: &RawValue) -> bool {
    let fields: Map<String, Value> = serde_json::from_str(item.get()).unwrap_or_default();
    IDENTIFIERS.iter().filter_map(|key| fields.get(*key)?.as_str()).any(|text| text.contains('\u{fffd}'))
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
