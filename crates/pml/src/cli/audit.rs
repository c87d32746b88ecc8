//! `pml audit`: what the audit log says, and whether it is whole.

use std::{
    collections::HashMap,
    io::{self, IsTerminal as _, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Subcommand;
use pml_wire::{
    ErrorCode,
    trace::{TaskKind, TaskResult, Timestamp, Trace},
};
use serde::{Deserialize, Serialize};

use super::{USAGE, fail, print, trace::HubArgs};
use crate::{
    audit::{self, FILE, Head, Problem, Reader, Report},
    broker,
    clock::now_millis,
    config::{self, Config},
    error::Error,
    files,
    shown::visible,
    trace::store::{Archive as _, Filter, Reading},
};

/// Calls that are shown if nothing says how many.
const SHOWN: usize = 50;
/// Traces of a hub that are looked up at once.
const HUB_PAGE: usize = 200;

#[derive(Debug, Default, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    what: Option<What>,

    /// Only calls of this execution; the beginning of its id is enough
    #[arg(long, value_name = "ID")]
    execution: Option<String>,

    /// Only calls of tools that match, such as 'github:*' or '*:delete*'
    #[arg(long, value_name = "GLOB")]
    tool: Option<String>,

    /// Only calls that the policy or a rate limit denied
    #[arg(long)]
    denied: bool,

    /// Only calls that started and never ended, as after a crash of pml
    #[arg(long)]
    unfinished: bool,

    /// Only what happened since then: 30m, 2h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    since: Option<u64>,

    /// At most so many, the newest [default: 50 on a terminal, else all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// Print one JSON object per line instead of text
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    hub: HubArgs,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Check that no line was removed, edited or moved
    Verify {
        /// The end of the log as an earlier `verify` printed it: must still be in it
        #[arg(long, value_name = "SEQ:HASH")]
        expect: Option<Head>,

        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
}

/// A line of the log, as far as it is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LogEntry {
    ts: u64,
    event: Option<String>,
    who: String,
    execution_id: Option<String>,
    call: u32,
    method: Option<String>,
    tool: String,
    decision: Option<String>,
    rule: Option<String>,
    success: Option<bool>,
    code: Option<String>,
    duration_ms: Option<f64>,
    count: Option<u64>,
    of: Option<String>,
    last_tool: Option<String>,
    lost: Option<u64>,
    parts: Option<Vec<String>>,
    speculation: Option<String>,
}

/// One call, put together from its lines, or something else that happened.
#[derive(Debug, Serialize)]
struct Row {
    time: Timestamp,
    outcome: &'static str,
    tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    who: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<String>,
    call: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<f64>,
    /// `made` if pml made the call ahead of a program, `used` if the program was given the answer of such a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    speculation: Option<String>,
    /// How many calls this stands for, if not one.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

const UNFINISHED: &str = "no end";

pub(super) fn run(args: &Args, data_dir: Option<&Path>) -> ExitCode {
    let done = folder(data_dir).and_then(|folder| match &args.what {
        Some(What::Verify { expect, json }) => verify(&folder, expect.as_ref(), *json),
        None => list(&folder, args),
    });
    done.unwrap_or_else(|err| fail(&err, USAGE))
}

fn folder(data_dir: Option<&Path>) -> Result<PathBuf, Error> {
    config::data_folder(data_dir).ok_or_else(|| {
        let message = "there is no data folder, and so no audit log";
        Error::new(ErrorCode::ConfigInvalid, message).with_hint("name one with --data-dir")
    })
}

fn unreadable(folder: &Path) -> impl Fn(files::Problem) -> Error {
    let path = folder.join(FILE);
    move |problem| problem.of(&path)
}

impl Args {
    /// Is this about a hub, which is asked over the network?
    pub(super) fn is_about_hub(&self) -> bool {
        self.hub.is_named()
    }

    fn limit(&self) -> usize {
        match (self.limit, self.json || !io::stdout().is_terminal()) {
            (Some(limit), _) => usize::try_from(limit).unwrap_or(usize::MAX),
            (None, true) => usize::MAX,
            (None, false) => SHOWN,
        }
    }

    fn print(&self, rows: &[Row], older: Option<String>) -> ExitCode {
        let printed = match self.json {
            true => rows.iter().try_for_each(print::json),
            false => show(rows, older),
        };
        if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// The calls that the traces of a hub know of. The log itself, with its chain, stays on the machine where it was written.
pub(super) async fn run_hub(args: &Args, config: &Config) -> ExitCode {
    match list_hub(args, config).await {
        Ok(code) => code,
        Err(err) => fail(&err, USAGE),
    }
}

async fn list_hub(args: &Args, config: &Config) -> Result<ExitCode, Error> {
    let wrong = |message: &str| Error::new(ErrorCode::ConfigInvalid, message);
    if args.unfinished {
        return Err(wrong("a hub knows of calls when their executions have ended"));
    }
    let archive = args.hub.archive(config)?.ok_or_else(|| wrong("--hub names no hub"))?;
    let filter = Filter { tool: args.tool.clone(), since: args.since.map(Timestamp), ..Filter::default() };
    let (mut rows, mut reading, limit) = (Rows::new(args), Reading::Newest, args.limit());
    let has_more;
    loop {
        let page = archive.list(filter.clone(), reading, HUB_PAGE).await?;
        for summary in &page.traces {
            if let Some(trace) = archive.by_id(summary.id).await? {
                // The newest first, as the traces are.
                rows.rows.extend(calls(trace.trace()).into_iter().rev().filter(|row| Rows::new(args).wants(row)));
            }
        }
        match page.next {
            Some(next) if rows.rows.len() < limit => reading = Reading::Before(next),
            next => {
                has_more = next.is_some();
                break;
            }
        }
    }
    rows.rows.reverse();
    let (rows, left) = rows.newest(limit);
    // How many there are in all only the hub knows.
    Ok(args.print(&rows, (left > 0 || has_more).then(|| "there are older ones, which are not shown".to_owned())))
}

fn calls(trace: &Trace) -> Vec<Row> {
    let call = |task: &TaskResult| {
        let code = task.error.as_ref().map(|error| error.code.clone());
        Row {
            time: task.timestamp,
            outcome: match code.as_deref() {
                Some("POLICY_DENIED" | "RATE_LIMITED") => "denied",
                _ if task.kind == TaskKind::Search => "search",
                _ if task.success => "ok",
                _ => "failed",
            },
            tool: task.tool.clone(),
            method: None,
            who: trace.caller.clone(),
            execution_id: Some(trace.trace_id.to_string()),
            call: task.call_id,
            rule: None,
            code,
            duration_ms: Some(task.duration_ms),
            speculation: task.speculative.then(|| "used".to_owned()),
            count: None,
        }
    };
    trace.task_results.iter().map(call).collect()
}

fn list(folder: &Path, args: &Args) -> Result<ExitCode, Error> {
    let limit = args.limit();
    let mut rows = Rows::new(args);
    let reader = Reader::open(folder).map_err(unreadable(folder))?;
    let read = reader.lines(|_, _, line| {
        // What is no line of the log is the business of `verify`.
        if let Ok(entry) = serde_json::from_slice(line) {
            rows.take(entry);
        }
    });
    read.map_err(|err| unreadable(folder)(err.into()))?;
    let (rows, left) = rows.newest(limit);
    Ok(args.print(&rows, (left > 0).then(|| format!("{left} older ones are not shown"))))
}

/// The calls that are wanted, as they are read.
struct Rows<'a> {
    args: &'a Args,
    rows: Vec<Row>,
    /// Where the calls are that have not ended.
    open: HashMap<(String, u32, Option<String>), usize>,
}

impl<'a> Rows<'a> {
    fn new(args: &'a Args) -> Rows<'a> {
        Rows { args, rows: Vec::new(), open: HashMap::new() }
    }

    fn take(&mut self, mut entry: LogEntry) {
        let event = entry.event.take();
        let event = event.as_deref().unwrap_or("call.ended");
        let key = (entry.execution_id.clone().unwrap_or_default(), entry.call, entry.method.clone());
        if event == "call.ended"
            && let Some(at) = self.open.remove(&key)
            && let Some(row) = self.rows.get_mut(at)
        {
            row.outcome = if entry.success == Some(true) { "ok" } else { "failed" };
            row.code = entry.code;
            row.duration_ms = entry.duration_ms;
            row.speculation = entry.speculation;
            return;
        }
        let Some(row) = row(event, entry).filter(|row| self.wants(row)) else { return };
        if row.outcome == UNFINISHED {
            self.open.insert(key, self.rows.len());
        }
        self.rows.push(row);
    }

    fn wants(&self, row: &Row) -> bool {
        let Args { execution, tool, denied, since, .. } = self.args;
        let is_of = |id: &String| row.execution_id.as_ref().is_some_and(|own| own.starts_with(id.as_str()));
        execution.as_ref().is_none_or(is_of)
            && tool.as_ref().is_none_or(|glob| broker::matches(glob, &row.tool))
            && (!denied || row.outcome == "denied")
            && since.is_none_or(|since| row.time.0 >= since)
    }

    /// The newest, and how many others there are.
    fn newest(mut self, limit: usize) -> (Vec<Row>, usize) {
        if self.args.unfinished {
            self.rows.retain(|row| row.outcome == UNFINISHED);
        }
        let left = self.rows.len().saturating_sub(limit);
        (self.rows.split_off(left), left)
    }
}

fn row(event: &str, entry: LogEntry) -> Option<Row> {
    let is_denied = entry.decision.as_deref() == Some("deny");
    let (outcome, tool, count) = match event {
        "call.started" => (UNFINISHED, entry.tool, None),
        "call.ended" | "call.refused" if is_denied => ("denied", entry.tool, None),
        "call.refused" => ("refused", entry.tool, None),
        "call.ended" if entry.success == Some(true) => ("ok", entry.tool, None),
        "call.ended" if entry.success.is_some() => ("failed", entry.tool, None),
        "search" => ("search", entry.tool, None),
        "calls.collapsed" => {
            let is_denied = entry.code.as_deref().is_some_and(|code| matches!(code, "POLICY_DENIED" | "RATE_LIMITED"));
            let outcome = match entry.of.as_deref() {
                Some("search") => "search",
                _ if is_denied => "denied",
                _ => "refused",
            };
            (outcome, entry.last_tool.unwrap_or_default(), entry.count)
        }
        "tool.changed" => ("changed", entry.tool, None),
        "tool.accepted" => ("accepted", entry.tool, None),
        "log.lost" => ("lost", "lines of this log".to_owned(), entry.lost),
        _ => return None,
    };
    Some(Row {
        time: Timestamp(entry.ts),
        outcome,
        tool,
        method: entry.method,
        who: entry.who,
        execution_id: entry.execution_id,
        call: entry.call,
        rule: entry.rule.or_else(|| entry.parts.map(|parts| parts.join(", "))),
        code: entry.code,
        duration_ms: entry.duration_ms,
        speculation: entry.speculation,
        count,
    })
}

fn show(rows: &[Row], older: Option<String>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if rows.is_empty() {
        return writeln!(io::stderr(), "nothing in the audit log fits");
    }
    for row in rows {
        writeln!(stdout, "{}", row.text())?;
    }
    if let Some(older) = older {
        writeln!(io::stderr(), "{older}; --limit says how many are")?;
    }
    stdout.flush()
}

/// The calls of an execution, as text. None if there is no log that can be read.
pub(super) fn calls_of(folder: &Path, execution: &str) -> Vec<String> {
    let args = Args { execution: Some(execution.to_owned()), ..Args::default() };
    let mut rows = Rows::new(&args);
    let Ok(reader) = Reader::open(folder) else { return Vec::new() };
    let read = reader.lines(|_, _, line| {
        if let Ok(entry) = serde_json::from_slice(line) {
            rows.take(entry);
        }
    });
    match read {
        Ok(()) => rows.rows.iter().map(Row::text).collect(),
        Err(_) => Vec::new(),
    }
}

impl Row {
    fn text(&self) -> String {
        let row = self;
        let time = row.time.to_string();
        let time = time.get(..19).unwrap_or(&time).replace('T', " ");
        let duration = row.duration_ms.filter(|_| row.outcome != "denied" && row.outcome != "refused");
        let duration = duration.map(print::millis);
        let mut tool = visible(&row.tool).into_owned();
        if let Some(count) = row.count {
            tool = format!("{count} × {tool}");
        }
        let mut notes: Vec<_> = row.code.iter().map(|code| visible(code).into_owned()).collect();
        // That nothing was said against it needs no words.
        if let Some(rule) = row.rule.as_ref().filter(|rule| *rule != "default" && row.code.as_ref() != Some(*rule)) {
            notes.push(format!("({})", visible(rule)));
        }
        notes.extend(match row.speculation.as_deref() {
            Some("made") => Some("made ahead".to_owned()),
            Some("used") => Some("answered ahead".to_owned()),
            _ => None,
        });
        let execution = row.execution_id.as_deref().map(|id| format!("{}#{}", visible(id), row.call));
        notes.extend(Some(visible(&row.who).into_owned()).filter(|who| !who.is_empty()));
        notes.extend(execution);
        let (duration, notes) = (duration.unwrap_or_default(), notes.join("  "));
        format!("{time}  {:<8} {duration:>10}  {tool:<32}  {notes}", row.outcome)
    }
}

fn verify(folder: &Path, expect: Option<&Head>, json: bool) -> Result<ExitCode, Error> {
    let report = audit::verify(folder, expect).map_err(unreadable(folder))?;
    let printed = if json { print::json(&report) } else { tell(&report) };
    Ok(if printed.is_ok() && report.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell(report: &Report) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let Report { files, lines, unchained, torn, lost, first_seq, head, problems, more_problems } = report;
    for problem in problems {
        writeln!(stdout, "FAILED   {}", visible(&describe(problem)))?;
    }
    if *more_problems > 0 {
        writeln!(stdout, "FAILED   {more_problems} more")?;
    }
    if problems.is_empty() {
        writeln!(stdout, "ok       {lines} lines in {files} files, none removed, edited or moved")?;
    }
    if let Some(first) = first_seq.filter(|first| *first > 1) {
        writeln!(stdout, "         older lines than number {first} were removed for their age or size")?;
    }
    if *unchained > 0 {
        writeln!(stdout, "         {unchained} lines are of an earlier pml and cannot be checked")?;
    }
    if *torn > 0 {
        writeln!(stdout, "         {torn} lines were cut off by a crash or a full disk, and marked")?;
    }
    if *lost > 0 {
        writeln!(stdout, "         {lost} lines could not be written, as later ones say")?;
    }
    if let Some(head) = head {
        writeln!(stdout, "end      {head}")?;
        writeln!(
            stdout,
            "         keep it elsewhere: `pml audit verify --expect SEQ:HASH` then also finds a log that was rewritten"
        )?;
    }
    stdout.flush()
}

fn describe(problem: &Problem) -> String {
    match problem {
        Problem::Edited { file, line, seq } => {
            format!("line {seq} ({file}:{line}) is not the one that was written, or the one before it is not")
        }
        Problem::Missing { file, line, from, to } if from == to => {
            format!("line {from} is missing before {file}:{line}")
        }
        Problem::Missing { file, line, from, to } => format!("lines {from} to {to} are missing before {file}:{line}"),
        Problem::Moved { file, line, seq } => format!("line {seq} ({file}:{line}) is not where it was written"),
        Problem::Foreign { file, line } => format!("{file}:{line} was not written by pml"),
        Problem::Beginning { before } => format!("all lines before {before} are missing, and pml did not remove them"),
        Problem::End { last, expected } => {
            format!("the log ends with line {last}, but line {expected} was written: cut off, or lost in a power cut")
        }
        Problem::EndUnknown => "`audit.head` is missing or unreadable, so the newest lines may be missing".to_owned(),
        Problem::Replaced { seq } => format!("line {seq} is another than the one that was there"),
    }
}

/// Reads `30m`, `2h`, `7d`, a date, or a time in RFC 3339: milliseconds since 1970.
fn parse_since(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "s" => Some(1),
        "m" | "min" => Some(60),
        "h" => Some(60 * 60),
        "d" => Some(24 * 60 * 60),
        _ => None,
    };
    if let (Some(unit), Ok(number)) = (seconds, digits.parse::<u64>()) {
        return Ok(now_millis().saturating_sub(number.saturating_mul(unit * 1000)));
    }
    let is_date = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let moment = if is_date { format!("{text}T00:00:00Z") } else { text.to_owned() };
    let moment: Result<Timestamp, _> = moment.parse();
    moment.map(|moment| moment.0).map_err(|_| "write 30m, 2h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ages_dates_or_moments() {
        let now = now_millis();
        let near = |text: &str, age: u64| {
            let found = parse_since(text).unwrap();
            assert!((now - age..=now_millis() - age).contains(&found), "{text}");
        };
        near("90s", 90_000);
        near("2h", 7_200_000);
        near("7d", 604_800_000);
        assert_eq!(parse_since("2026-01-31"), parse_since("2026-01-31T00:00:00Z"));
        assert_eq!(parse_since("1970-01-02"), Ok(86_400_000));
        for text in ["", "h", "2w", "99999999999999999999d", "yesterday", "2026-13-01", "-5m"] {
            assert!(parse_since(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_call_is_one_row_and_one_without_an_end_shows() {
        let args = Args {
            what: None,
            execution: None,
            tool: Some("a:*".to_owned()),
            denied: false,
            unfinished: false,
            since: None,
            limit: None,
            hub: HubArgs::default(),
            json: false,
        };
        let mut rows = Rows::new(&args);
        for line in [
            r#"{"ts":1,"event":"call.started","execution_id":"e","call":1,"tool":"a:b"}"#,
            r#"{"ts":1,"event":"call.started","execution_id":"e","call":2,"tool":"a:c"}"#,
            r#"{"ts":2,"event":"call.ended","execution_id":"e","call":1,"tool":"a:b","success":true,"duration_ms":1.5}"#,
            r#"{"ts":2,"event":"call.refused","execution_id":"e","call":3,"tool":"a:d","decision":"deny","success":false}"#,
            r#"{"ts":2,"event":"calls.collapsed","of":"call.refused","code":"POLICY_DENIED","count":7,"last_tool":"a:d"}"#,
            r#"{"ts":2,"call":3,"tool":"a:old","decision":"allow","success":false,"code":"TOOL_ERROR"}"#,
            r#"{"ts":2,"event":"call.ended","execution_id":"e","call":9,"tool":"b:c","success":true}"#,
        ] {
            rows.take(serde_json::from_str(line).unwrap());
        }
        let (rows, left) = rows.newest(10);
        let shown: Vec<_> = rows.iter().map(|row| (row.outcome, row.tool.as_str(), row.count)).collect();
        let expected = [
            ("ok", "a:b", None),
            ("no end", "a:c", None),
            ("denied", "a:d", None),
            ("denied", "a:d", Some(7)),
            ("failed", "a:old", None),
        ];
        assert_eq!((&shown[..], left), (&expected[..], 0));
    }
}
