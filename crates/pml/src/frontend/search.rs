//! `search_tools` and `read_result`.

use std::{fmt::Write as _, time::Duration};

use pml_wire::ErrorCode;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    gateway::{Frontend, text_result, tool_failure},
    results::{Caller, Text},
    tokens,
    tools::{Detail, MAX_QUERY, Read, Search},
};
use crate::{
    catalog::{Found, Snapshot, nearest, search, typescript},
    execution,
};

/// How long after the start of pml a search waits for servers of which nothing is known yet.
const LEARN: Duration = Duration::from_secs(10);
/// Longest description, unless everything is asked for.
const SUMMARY: usize = 240;
/// Servers that are named as not ready.
const MAX_NOT_READY: usize = 20;
/// Tools of a server that an overview names.
const OVERVIEW: usize = 8;

impl Frontend {
    pub(super) async fn search(&self, arguments: Search) -> Value {
        let invalid = |message: String| tool_failure(ErrorCode::InvalidArguments, &message, None);
        let limit = match arguments.limit() {
            Ok(limit) => limit,
            Err(message) => return invalid(message),
        };
        let size = arguments.query.chars().count();
        if size > MAX_QUERY {
            return invalid(format!("the query has {size} characters, more than {MAX_QUERY}"));
        }
        let waiting = self.learn().await;
        let snapshot = self.catalog.snapshot();
        let server = match &arguments.server {
            Some(name) => match snapshot.server_name(name) {
                Some(server) => Some(server),
                None => {
                    let near = nearest(name, snapshot.servers());
                    let hint = match near.first() {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => "an empty query lists the servers".to_owned(),
                    };
                    return tool_failure(
                        ErrorCode::InvalidArguments,
                        &format!("there is no server `{name}`"),
                        Some(&hint),
                    );
                }
            },
            None => None,
        };
        if arguments.query.trim().is_empty() {
            return self.overview(&snapshot, server, &waiting);
        }
        let tools: Vec<_> = snapshot
            .tools()
            .filter(|tool| server.is_none_or(|server| tool.id.server() == server) && self.broker.allows(&tool.id))
            .collect();
        let found = search(tools.iter().copied(), &arguments.query, limit);
        self.tell_found(&found, tools.len(), arguments.detail, &waiting)
    }

    /// The tools that were found, as many as there is room for.
    fn tell_found(&self, found: &[Found], of: usize, detail: Detail, waiting: &[String]) -> Value {
        let room = self.settings().output_tokens;
        let (mut text, mut list, mut used) = (String::new(), Vec::new(), 0);
        for Found { tool, score } in found {
            let signature = typescript::signature(&tool.declared());
            let description = tool.description.as_deref().unwrap_or_default().trim();
            let description = match detail {
                Detail::Full => tokens::prefix(description, room / 4).to_owned(),
                Detail::Names | Detail::Signatures => summary(description),
            };
            let mut entry =
                json!({ "name": tool.id, "server": tool.id.server(), "score": (score * 1e3).round() / 1e3 });
            let mut lines = String::new();
            // Writing to a String cannot fail.
            let _ = match detail {
                Detail::Names => writeln!(lines, "{}", tool.id),
                Detail::Signatures | Detail::Full => {
                    entry["description"] = description.clone().into();
                    entry["signature"] = signature.clone().into();
                    writeln!(lines, "{signature}\n  {}", description.replace('\n', "\n  "))
                }
            };
            if detail == Detail::Full {
                let schema = tool.input_schema.to_string();
                let output = tool.output_schema.clone().unwrap_or_default();
                // Half of the room at most: a schema in parts is of no use.
                if tokens::estimate(&schema) + tokens::estimate(&output.to_string()) <= room / 2 {
                    entry["inputSchema"] = tool.input_schema.clone();
                    entry["outputSchema"] = output;
                    let _ = writeln!(lines, "  input: {schema}");
                } else {
                    let _ = writeln!(lines, "  (its schemas are too long to be shown: the signature has the types)");
                }
            }
            let size = tokens::estimate(&lines).max(tokens::estimate(&entry.to_string()));
            if used + size > room && !list.is_empty() {
                break;
            }
            used += size;
            text.push_str(tokens::prefix(&lines, room));
            list.push(entry);
        }
        if found.is_empty() {
            let _ =
                writeln!(text, "nothing found among {of} tools; try other words, or an empty query for the servers");
        }
        if list.len() < found.len() {
            let left = found.len() - list.len();
            let _ = writeln!(text, "({left} more left out for their length: ask for fewer, or with less detail)");
        }
        let waiting = &waiting[..waiting.len().min(MAX_NOT_READY)];
        not_ready(&mut text, waiting);
        text_result(&text, json!({ "tools": list, "searched": of, "not_ready": waiting }))
    }

    /// The servers, and what they are about.
    fn overview(&self, snapshot: &Snapshot, only: Option<&str>, waiting: &[String]) -> Value {
        let room = self.settings().output_tokens;
        let (mut text, mut list, mut used) = (String::new(), Vec::new(), 0);
        for server in snapshot.servers().filter(|server| only.is_none_or(|only| only == *server)) {
            let tools: Vec<_> = snapshot
                .listing(server)
                .into_iter()
                .flat_map(|listing| listing.tools.values())
                .filter(|tool| self.broker.allows(&tool.id))
                .map(|tool| tool.id.tool())
                .collect();
            let state = self.servers.get(server).map_or("stopped", |server| server.health().state.as_str());
            let some = match only {
                Some(_) => fitting(&tools, room / 2),
                None => OVERVIEW.min(tools.len()),
            };
            let more = if tools.len() > some { ", …" } else { "" };
            let names = &tools[..some];
            let _ = writeln!(text, "{server}: {} tools, {state}. {}{more}", tools.len(), names.join(", "));
            let entry = json!({ "server": server, "tools": tools.len(), "state": state, "names": names });
            used += tokens::estimate(&entry.to_string());
            if used > room {
                let _ = writeln!(text, "(and more servers; `server` asks about one)");
                break;
            }
            list.push(entry);
        }
        if list.is_empty() {
            text.push_str("no server is configured: the user can run `pml server add` or `pml import`\n");
        }
        let waiting = &waiting[..waiting.len().min(MAX_NOT_READY)];
        not_ready(&mut text, waiting);
        text_result(tokens::prefix(&text, room), json!({ "servers": list, "not_ready": waiting }))
    }

    /// Waits for servers of which nothing is known, for a while after pml has started and not again: one that does not
    /// come holds up nobody for ever. Those that have still said nothing.
    pub(super) async fn learn(&self) -> Vec<String> {
        let unknown = self.unknown();
        let until = self.started + LEARN;
        if !unknown.is_empty() && Instant::now() < until {
            let starts = futures_util::future::join_all(unknown.iter().map(|server| server.init()));
            let _ = tokio::time::timeout_at(until, starts).await;
        }
        self.unknown().iter().map(|server| server.settings().name.clone()).collect()
    }

    /// Reads on in a result that was kept.
    pub(super) fn read(&self, arguments: &Read, caller: &Caller) -> Value {
        let invalid = |message: &str, hint: &str| tool_failure(ErrorCode::InvalidArguments, message, Some(hint));
        let offset = match arguments.offset() {
            Ok(offset) => offset,
            Err(message) => return invalid(&message, "go on with the `next_offset` of the last answer"),
        };
        let Some(kept) = self.results.get(caller, &arguments.id) else {
            let message = format!("there is no result `{}`", arguments.id);
            return invalid(&message, "results are kept for an hour, the newest 200 of them; run the program again");
        };
        let decoded: String;
        let text = match (arguments.path.as_deref(), &*kept) {
            (None, kept) => kept.as_str(),
            (Some(_), Text::Plain(_)) => return invalid("the result is a text, not JSON", "read it by offset"),
            (Some(path), Text::Json(text)) => match execution::select(text, path) {
                Ok(value) => match serde_json::from_str(value.get()) {
                    Ok(text) => {
                        decoded = text;
                        &decoded
                    }
                    Err(_) => value.get(),
                },
                Err(message) => return invalid(&message, "write the path as in `items[3].name`"),
            },
        };
        if offset > text.len() {
            return invalid(&format!("the offset is {offset}, but there are {} bytes", text.len()), "start at 0");
        }
        let from = text.floor_char_boundary(offset);
        let page = tokens::prefix(&text[from..], self.settings().output_tokens);
        let end = from + page.len();
        let next = (end < text.len()).then_some(end);
        let note = match next {
            Some(next) => format!("{page}…\n\n[bytes {from} to {end} of {}; go on with \"offset\":{next}]", text.len()),
            None => page.to_owned(),
        };
        text_result(&note, json!({ "text": page, "offset": from, "next_offset": next, "bytes": text.len() }))
    }
}

/// How many of these names there is room for.
fn fitting(names: &[&str], room: usize) -> usize {
    let mut used = 0;
    names
        .iter()
        .take_while(|name| {
            used += tokens::estimate(name) + 2; // quotes and a comma
            used <= room
        })
        .count()
}

fn not_ready(text: &mut String, waiting: &[String]) {
    if !waiting.is_empty() {
        let _ = writeln!(text, "(not ready, so not searched: {}. `pml doctor` says why)", waiting.join(", "));
    }
}

/// The beginning of a description.
fn summary(description: &str) -> String {
    let line = description.split("\n\n").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SUMMARY) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}
