//! `search_tools` and `read_result`.

use std::{collections::HashSet, fmt::Write as _, sync::Arc};

use pml_wire::{ErrorCode, ToolId, trace::Entry};
use serde_json::{Value, json};

use super::{
    answer::say_hidden,
    gateway::{Frontend, text_result, tool_failure},
    results::{Caller, NO_RESULT_HINT, Page, Show, Text, page},
    session::{Scope, Session},
    tokens,
    tools::{Detail, Read, Search},
};
use crate::{
    broker::{Findings, Question, rounded},
    catalog::{Found, nearest},
    learning::{Related, View},
    shown::{clean, count_hidden, counted, visible, visible_json},
    work::{self, Waiter},
};

/// Longest description, unless everything is asked for.
const SUMMARY: usize = 240;
/// Servers that are named as not ready.
const MAX_NOT_READY: usize = 20;
/// Tools of a server that an overview names.
const OVERVIEW: usize = 8;

impl Frontend {
    pub(super) async fn search(&self, arguments: Search, scope: &Scope) -> Value {
        let session = &*scope.session;
        let Search { query, limit, threshold, detail, server } = arguments;
        let question = match Question::new(query, limit, threshold) {
            Ok(question) => question,
            Err(message) => return tool_failure(ErrorCode::InvalidArguments, &message, None),
        };
        let server = match server {
            None => None,
            Some(name) => match self.server_named(&name) {
                Ok(server) => Some(server),
                Err(failure) => return failure,
            },
        };
        if question.query().trim().is_empty() {
            return self.overview(server.as_deref(), session).await;
        }
        let note = question.note();
        let context = Arc::new(scope.context(Entry::Passthrough));
        let findings = self.broker.search_for_client(&context, question.among(server)).await;
        let room = self.settings().output_tokens;
        let is_changed = |found: &Found| self.broker.changed_line(&found.tool.id).is_some();
        let changed: HashSet<_> =
            findings.found.iter().filter(|found| is_changed(found)).map(|found| found.tool.id.clone()).collect();
        let bytes = findings.bytes();
        let learned = self.broker.learned();
        let (findings, mut text, list) = work::sized(bytes, move |_| {
            let (text, list) = tell_tools(&findings.found, &changed, learned.as_deref(), detail, room);
            (findings, text, list)
        })
        .await;
        let Findings { found, searched, not_ready: waiting, related } = findings;
        self.tell_changes(&mut text, session, found.iter().take(list.len()).map(|found| found.tool.id.clone()));
        if found.is_empty() {
            // Writing to a String cannot fail.
            let _ = match searched {
                0 => writeln!(text, "there is no tool that may be called"),
                _ => writeln!(
                    text,
                    "nothing found among {searched} tools; try other words, or an empty query for the servers"
                ),
            };
        }
        if list.iter().any(|tool| tool["signature"].as_str().is_some_and(|text| text.ends_with("Promise<any>"))) {
            text.push_str("(Promise<any>: no output schema. A text that is a JSON object or array arrives parsed)\n");
        }
        if list.len() < found.len() {
            let left = found.len() - list.len();
            let _ = writeln!(text, "({left} more left out for their length: ask for fewer, or with less detail)");
        }
        let related = tell_related(&mut text, &related);
        if let Some(note) = &note {
            let _ = writeln!(text, "({note})");
        }
        let waiting = &waiting[..waiting.len().min(MAX_NOT_READY)];
        not_ready(&mut text, waiting);
        let shown = found.iter().take(list.len()).map(|found| found.tool.id.server());
        let introductions = self.introduce(&mut text, session, shown);
        let mut told = json!({ "tools": list, "searched": searched, "not_ready": waiting });
        if !related.is_empty() {
            told["related"] = related.into();
        }
        if !introductions.is_empty() {
            told["instructions"] = introductions.into();
        }
        if let Some(note) = note {
            told["note"] = note.into();
        }
        text_result(&text, told)
    }

    /// The real name of a server.
    fn server_named(&self, name: &str) -> Result<String, Value> {
        let snapshot = self.shared.catalog.snapshot();
        let is_shown = |server: &&str| self.broker.shows_server(server);
        snapshot.server_name(name).filter(is_shown).map(str::to_owned).ok_or_else(|| {
            let hint = match nearest(name, snapshot.servers().filter(is_shown)).first() {
                Some(near) => format!("did you mean `{near}`?"),
                None => "an empty query lists the servers".to_owned(),
            };
            tool_failure(ErrorCode::InvalidArguments, &format!("there is no server `{name}`"), Some(&hint))
        })
    }

    /// The servers, and what they are about.
    async fn overview(&self, only: Option<&str>, session: &Session) -> Value {
        self.broker.learn(only).await;
        let waiting = self.broker.not_ready();
        let snapshot = self.shared.catalog.snapshot();
        let room = self.settings().output_tokens;
        let (mut text, mut list, mut used) = (String::new(), Vec::new(), 0);
        let mut named = Vec::new();
        let is_shown = |server: &&str| only.is_none_or(|only| only == *server) && self.broker.shows_server(server);
        for server in snapshot.servers().filter(is_shown) {
            let tools: Vec<_> = snapshot
                .listing(server)
                .into_iter()
                .flat_map(|listing| listing.tools.values())
                .filter(|tool| self.broker.allows(&tool.id))
                .collect();
            let ids: Vec<_> = tools.iter().map(|tool| &tool.id).collect();
            let tools: Vec<_> = ids.iter().map(|id| id.tool()).collect();
            let state = self.shared.servers.get(server).map_or("stopped", |server| server.health().state.as_str());
            let some = match only {
                Some(_) => fitting(&tools, room / 2),
                None => OVERVIEW.min(tools.len()),
            };
            let more = if tools.len() > some { ", …" } else { "" };
            let names = &tools[..some];
            let _ = writeln!(
                text,
                "{server}: {}, {state}. {}{more}",
                counted(tools.len(), "tool", "tools"),
                names.join(", ")
            );
            let entry = json!({ "server": server, "tools": tools.len(), "state": state, "names": names });
            used += tokens::estimate(&entry.to_string());
            if used > room {
                let _ = writeln!(text, "(and more servers; `server` asks about one)");
                break;
            }
            list.push(entry);
            named.extend(ids[..some].iter().copied().cloned());
        }
        self.tell_changes(&mut text, session, named);
        if list.is_empty() {
            text.push_str("no server is configured: the user can run `pml server add` or `pml import`\n");
        }
        let waiting = &waiting[..waiting.len().min(MAX_NOT_READY)];
        not_ready(&mut text, waiting);
        text_result(tokens::prefix(&text, room), json!({ "servers": list, "not_ready": waiting }))
    }

    /// Reads on in a result that was kept. A part of a large one is looked for elsewhere.
    pub(super) async fn read(&self, arguments: Read, caller: &Caller) -> Value {
        let Some(kept) = self.shared.results.get(caller, &arguments.id) else {
            let message = format!("there is no result `{}`", arguments.id);
            return tool_failure(ErrorCode::InvalidArguments, &message, Some(NO_RESULT_HINT));
        };
        let budget = self.settings().output_tokens;
        let bytes = if arguments.path.is_some() { kept.as_str().len() } else { 0 };
        work::sized(bytes, move |wanted| read_page(&kept, &arguments, budget, wanted)).await
    }
}

/// The tools that were found, as many as there is room for: as text, and one by one.
fn tell_tools(
    found: &[Found],
    changed: &HashSet<ToolId>,
    learned: Option<&View>,
    detail: Detail,
    room: usize,
) -> (String, Vec<Value>) {
    let (mut text, mut list, mut used) = (String::new(), Vec::new(), 0);
    for Found { tool, score, reasons } in found {
        let signature = View::signature(learned, tool);
        let description = tool.description.as_deref().unwrap_or_default().trim();
        let description = match detail {
            Detail::Full => tokens::prefix(description, room / 4).to_owned(),
            Detail::Names | Detail::Signatures => summary(description),
        };
        let mut entry = json!({ "name": tool.id, "server": tool.id.server(), "score": rounded(*score) });
        if changed.contains(&tool.id) {
            entry["changed"] = true.into();
        }
        let mut lines = String::new();
        // Writing to a String cannot fail.
        let _ = match detail {
            Detail::Names => writeln!(lines, "{}", tool.id),
            Detail::Signatures | Detail::Full => {
                entry["description"] = description.clone().into();
                entry["signature"] = (*signature).into();
                writeln!(lines, "{signature}\n  {}", description.replace('\n', "\n  "))
            }
        };
        if !reasons.is_empty() {
            let why = reasons.join("; ");
            let _ = writeln!(lines, "  ({why})");
            entry["why"] = why.into();
        }
        if detail == Detail::Full {
            // What a call must repeat has escapes too: they are what a program writes.
            let mut input = tool.written_input();
            let schema = input.to_string();
            let schema = visible_json(&schema);
            let mut output = tool.written_output().unwrap_or_default();
            clean(&mut input);
            clean(&mut output);
            // Half of the room at most: a schema in parts is of no use.
            if tokens::estimate(&schema) + tokens::estimate(&output.to_string()) <= room / 2 {
                entry["inputSchema"] = input;
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
    (text, list)
}

/// Tools that are used with those that were found.
fn tell_related(text: &mut String, related: &[(Related, ToolId)]) -> Vec<Value> {
    let told = |(Related { tool, how, .. }, of): &(Related, ToolId)| {
        let tool = visible(tool);
        let _ = writeln!(text, "related: {tool} ({how} with {of})");
        json!({ "name": tool, "to": of, "why": how })
    };
    related.iter().map(told).collect()
}

/// A page of a result, or of the part at a path.
fn read_page(kept: &Text, arguments: &Read, budget: usize, wanted: &Waiter) -> Value {
    let invalid = |message: &str, hint: &str| tool_failure(ErrorCode::InvalidArguments, message, Some(hint));
    let offset = match arguments.offset() {
        Ok(offset) => offset,
        Err(message) => return invalid(&message, "go on with the `next_offset` of the last answer"),
    };
    let decoded: String;
    let (text, show): (_, Show) = match (arguments.path.as_deref(), kept) {
        (None, kept) => (kept.as_str(), kept.show()),
        (Some(_), Text::Plain(_)) => return invalid("the result is a text, not JSON", "read it by offset"),
        (Some(path), Text::Json(text)) => match text.select(path, wanted) {
            Ok(value) => match serde_json::from_str(value) {
                Ok(text) => {
                    decoded = text;
                    (&decoded, visible)
                }
                Err(_) => (value, visible_json),
            },
            Err(message) => return invalid(&message, "write the path as in `items[3].name`"),
        },
    };
    let bytes = text.len();
    if offset > bytes {
        return invalid(&format!("the offset is {offset}, but there are {bytes} bytes"), "start at 0");
    }
    let from = text.floor_char_boundary(offset);
    let Page { bytes: size, shown } = page(&text[from..], budget, show);
    let end = from + size;
    let next = (end < bytes).then_some(end);
    let mut note = match next {
        Some(next) => format!("{shown}…\n\n[bytes {from} to {end} of {bytes}; go on with \"offset\":{next}]"),
        None => shown.clone().into_owned(),
    };
    let mut told = json!({ "text": shown, "offset": from, "next_offset": next, "bytes": bytes });
    if let Some(warning) = say_hidden(count_hidden(&text[from..end])) {
        let _ = write!(note, "\n[warning: {warning}]");
        told["warning"] = warning.into();
    }
    text_result(&note, told)
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
