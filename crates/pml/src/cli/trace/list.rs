//! `pml trace list`.

use std::{
    collections::HashSet,
    io::{self, Write},
    path::Path,
    time::Duration,
};

use pml_wire::{
    ErrorCode, ExecutionId,
    trace::{Entry, Timestamp},
};
use serde_json::{Value, json};

use super::{
    super::print,
    command::{Selection, Stop, open_archive, say_none},
    moment,
};
use crate::{
    config::Config,
    shown::visible,
    trace::{
        TraceHead,
        store::{Cursor, Reading, State, StoreError, Summary},
    },
};

/// How often new traces are looked for.
const POLL: Duration = Duration::from_millis(300);
/// Traces that are read at once.
const PAGE: usize = 500;
/// So much of an id tells apart executions of one pml, also those that began in the same millisecond; those of different ones
/// nearly always.
const SHORT_ID: usize = 28;
/// A whole id.
const WHOLE_ID: usize = 36;
/// Most characters of what an execution did.
const WHAT: usize = 200;
/// Fewest characters of a last column.
const LEAST: usize = 20;
/// How long whoever follows waits for a hub that does not answer, before it asks again.
const AWAY: Duration = Duration::from_secs(1);
/// Callers that are no names: of whoever is let in by a pipe, without a token, or with the one token that has no name.
const NAMELESS: [&str; 5] = ["", "stdio", "anyone", "http", "run"];

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    selection: Selection,

    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,

    /// Go on, and print new traces as they are stored
    #[arg(long)]
    follow: bool,

    /// Print JSON instead of text; with --follow, one object per line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &Args, config: &Config, data_dir: &Path) -> Result<(), Stop> {
    let filter = args.selection.filter()?;
    let mut store = open_archive(&args.selection.hub, config, data_dir).await?;
    let mut end = Cursor::default();
    // Of a database that others write to, the end may be before what was read.
    let mut shown = HashSet::new();
    if let Some(store) = &store {
        let (mut traces, mut reading) = (Vec::new(), Reading::Newest);
        let mut has_more = args.limit == 0;
        if args.limit == 0 && args.follow {
            // Whatever is there is old.
            end = store.list(filter.clone(), reading, 1).await?.end;
        }
        while traces.len() < args.limit {
            let page = store.list(filter.clone(), reading, PAGE.min(args.limit - traces.len())).await?;
            if reading == Reading::Newest {
                end = page.end;
            }
            traces.extend(page.traces);
            has_more = page.next.is_some();
            match page.next {
                Some(next) => reading = Reading::Before(next),
                None => break,
            }
        }
        shown.extend(traces.iter().map(|trace| trace.id));
        // Nothing is known yet of what it will have called, or whether it fails.
        let is_told = !filter.failed && filter.tool.is_none() && filter.client.is_none() && filter.intent.is_none();
        let mut running = store.running().await?;
        running.retain(|head| is_told && filter.since.is_none_or(|since| head.timestamp >= since));
        match (args.json, args.follow) {
            (true, false) => {
                let rows: Vec<_> = traces.iter().map(to_json).collect();
                print::json(&json!({"traces": rows, "running": running, "more": has_more}))?;
            }
            (true, true) => traces.iter().rev().try_for_each(|trace| print::json(&to_json(trace)))?,
            // What comes is printed below.
            (false, true) => table(&running, &traces.iter().rev().collect::<Vec<_>>())?,
            (false, false) => table(&running, &traces.iter().collect::<Vec<_>>())?,
        }
        if traces.is_empty() && running.is_empty() && !args.follow {
            let _ = writeln!(io::stderr(), "no trace is like that");
        } else if has_more && !args.follow {
            let _ = writeln!(io::stderr(), "there are more; --limit shows more of them");
        }
    } else if !args.follow {
        say_none(config);
        if args.json {
            print::json(&json!({"traces": [], "running": [], "more": false}))?;
        }
        return Ok(());
    }
    if !args.follow {
        return Ok(());
    }
    let mut is_away = false;
    loop {
        match &store {
            Some(store) => store.news().await,
            None => {
                tokio::time::sleep(POLL).await;
                store = open_archive(&args.selection.hub, config, data_dir).await?;
            }
        }
        let Some(store) = &store else { continue };
        let mut page = match store.list(filter.clone(), Reading::StoredAfter(end), PAGE).await {
            Ok(page) => page,
            // A server comes back.
            Err(StoreError::Unavailable(State::Failing(_))) => continue,
            Err(StoreError::Remote(err)) if err.code == ErrorCode::HubUnavailable => {
                if !std::mem::replace(&mut is_away, true) {
                    let _ = writeln!(io::stderr(), "{}; it is asked again", visible(&err.message));
                }
                tokio::time::sleep(AWAY).await;
                continue;
            }
            Err(err) => return Err(err.into()),
        };
        is_away = false;
        end = page.end;
        page.traces.retain(|trace| !shown.remove(&trace.id));
        match args.json {
            true => page.traces.iter().try_for_each(|trace| print::json(&to_json(trace)))?,
            false => rows(&mut io::stdout().lock(), &page.traces.iter().collect::<Vec<_>>(), SHORT_ID)?,
        }
    }
}

fn table(running: &[TraceHead], traces: &[&Summary]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if running.is_empty() && traces.is_empty() {
        return Ok(());
    }
    let ids = running.iter().map(|head| head.trace_id).chain(traces.iter().map(|trace| trace.id));
    let width = id_width(ids);
    let began = format!("BEGAN ({})", moment::offset(Timestamp(crate::clock::now_millis())));
    let client = "CLIENT";
    writeln!(stdout, "{:<width$}  {began:<19}  {:>8}  {:<11}  {client:<14}  CALLS  WHAT", "ID", "TOOK", "STATE")?;
    for head in running {
        let client = who(&head.caller, head.client.as_ref().map(|client| client.name.as_str()));
        let what = head.intent.as_deref().unwrap_or_default();
        row(&mut stdout, (head.trace_id, width), head.timestamp, "", "running", client, "", what)?;
    }
    rows(&mut stdout, traces, width)
}

/// How much of the ids is shown: enough to tell them apart.
fn id_width(ids: impl Iterator<Item = ExecutionId>) -> usize {
    let mut seen = HashSet::new();
    let mut ids = ids.map(|id| id.to_string());
    if ids.all(|id| seen.insert(id[..SHORT_ID].to_owned())) { SHORT_ID } else { WHOLE_ID }
}

/// Who an execution was for: the name of a token if it has one, else what the client calls itself.
fn who<'a>(caller: &'a str, client: Option<&'a str>) -> &'a str {
    match client {
        Some(client) if NAMELESS.contains(&caller) || caller.starts_with("http:") => client,
        _ => caller,
    }
}

fn rows(out: &mut impl Write, traces: &[&Summary], width: usize) -> io::Result<()> {
    for trace in traces {
        let took = if trace.is_interrupted { String::new() } else { print::millis(trace.duration_ms) };
        let client = who(&trace.caller, trace.client.as_deref());
        row(
            out,
            (trace.id, width),
            trace.timestamp,
            &took,
            state(trace),
            client,
            &trace.tasks.to_string(),
            &what(trace),
        )?;
    }
    out.flush()
}

#[expect(clippy::too_many_arguments, reason = "the columns of a table")]
fn row(
    out: &mut impl Write,
    (id, width): (ExecutionId, usize),
    began: Timestamp,
    took: &str,
    state: &str,
    client: &str,
    calls: &str,
    what: &str,
) -> io::Result<()> {
    let id = id.to_string();
    let (began, client) = (moment::local(began), one_line(client, 14));
    let line = format!("{:<width$}  {began:<19}  {took:>8}  {state:<11}  {client:<14}  {calls:>5}  ", &id[..width]);
    let what = one_line(what, room(print::columns(), line.chars().count(), WHAT));
    writeln!(out, "{}", (line + &what).trim_end())
}

fn state(trace: &Summary) -> &'static str {
    match (trace.success, trace.is_interrupted) {
        (_, true) => "interrupted",
        (true, _) => "ok",
        (false, _) => "failed",
    }
}

/// The intent, the tools, and the code of the error.
fn what(trace: &Summary) -> String {
    let tool = |(tool, times): &(String, u64)| match times {
        1 => tool.clone(),
        times => format!("{tool} ×{times}"),
    };
    let mut tools: Vec<_> = trace.tools.iter().map(tool).collect();
    let named: u64 = trace.tools.iter().map(|(_, times)| times).sum();
    if named < trace.tasks {
        tools.push("…".to_owned());
    }
    let mut parts = Vec::new();
    if let Some(code) = trace.error_code.as_deref().filter(|_| !trace.is_interrupted) {
        parts.push(format!("[{code}]"));
    }
    if trace.entry == Entry::Passthrough {
        parts.push("direct:".to_owned());
    }
    parts.extend(trace.intent.clone());
    if !tools.is_empty() {
        let tools = tools.join(", ");
        parts.push(if trace.intent.is_some() { format!("({tools})") } else { tools });
    }
    parts.join(" ")
}

/// The characters that the last column may have, at most `most`: up to the end of the terminal's line, or of the next one if too few
/// are left to say anything.
pub(super) fn room(columns: Option<usize>, taken: usize, most: usize) -> usize {
    let up_to_end = |columns: usize| (taken + LEAST).div_ceil(columns) * columns - taken;
    columns.filter(|columns| *columns > 0).map_or(most, |columns| up_to_end(columns).min(most))
}

/// A text of others in a table: one line, no longer than `most` characters, nothing hidden.
pub(super) fn one_line(text: &str, most: usize) -> String {
    let line = visible(text).replace(['\n', '\t'], " ");
    match line.char_indices().nth(most) {
        Some(_) => line.chars().take(most - 1).chain(['…']).collect(),
        None => line,
    }
}

fn to_json(trace: &Summary) -> Value {
    let tools: Vec<_> = trace.tools.iter().map(|(tool, calls)| json!({"tool": tool, "calls": calls})).collect();
    json!({
        "traceId": trace.id, "parentTraceId": trace.parent, "timestamp": trace.timestamp, "durationMs": trace.duration_ms,
        "success": trace.success, "interrupted": trace.is_interrupted, "errorCode": trace.error_code, "entry": trace.entry,
        "caller": trace.caller, "client": trace.client, "intent": trace.intent, "tasks": trace.tasks, "tools": tools,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_a_line_of_the_terminal() {
        #[rustfmt::skip]
        let table = [
            (None, 200), (Some(400), 200), (Some(140), 40), (Some(120), 20), (Some(119), 138), (Some(80), 60), (Some(40), 20),
            (Some(1), 20), (Some(0), 200),
        ];
        for (columns, expected) in table {
            assert_eq!(room(columns, 100, 200), expected, "{columns:?}");
        }
    }
}
