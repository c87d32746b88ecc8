//! `pml trace show`.

use std::{
    io::{self, Write},
    path::Path,
};

use pml_wire::{
    ErrorCode,
    trace::{Entry, ForecastOutcome, Trace},
};
use serde_json::value::RawValue;

use super::{
    super::{audit, print},
    command::{HubArgs, Stop, find, open_archive},
    list::one_line,
    moment, waterfall,
};
use crate::{
    config::Config,
    error::Error,
    shown::{visible, visible_json},
    trace::store::Record,
};

/// Most characters of a value, and most lines of output, that are shown.
const VALUE: usize = 300;
const LOGS: usize = 20;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The id of a trace, the beginning of one, or `last`
    #[arg(value_name = "ID|last")]
    id: String,

    /// Also show the program
    #[arg(long)]
    code: bool,

    /// Print the whole trace as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    hub: HubArgs,
}

pub(super) async fn run(args: &Args, config: &Config, data_dir: &Path) -> Result<(), Stop> {
    let store = open_archive(&args.hub, config, data_dir).await?;
    let id = find(store.as_deref(), &args.id).await?;
    let record = match &store {
        Some(store) => store.record(id).await?,
        None => None,
    };
    let Some(Record { trace, delivered_by, .. }) = record else {
        let message = format!("the trace `{id}` was deleted meanwhile");
        return Err(Stop::Failed(Error::new(ErrorCode::TraceNotFound, message)));
    };
    if args.json {
        return Ok(print::json(trace.trace())?);
    }
    let mut stdout = io::stdout().lock();
    text(&mut stdout, trace.trace(), delivered_by.as_deref(), args.code)?;
    // What an execution had called when its process ended is in the audit log of its machine.
    let is_interrupted = trace.trace().metadata.interrupted && trace.trace().task_results.is_empty();
    if is_interrupted && !args.hub.is_named() {
        let calls = audit::calls_of(data_dir, &id.to_string());
        if !calls.is_empty() {
            writeln!(stdout, "\ncalls, from the audit log (`no end`: the call had not ended):")?;
        }
        for call in calls {
            writeln!(stdout, "  {call}")?;
        }
    }
    Ok(stdout.flush()?)
}

fn text(out: &mut impl Write, trace: &Trace, delivered_by: Option<&str>, has_code: bool) -> io::Result<()> {
    let verdict = match (trace.metadata.interrupted, trace.success) {
        (true, _) => "interrupted".to_owned(),
        (false, true) => format!("ok after {}", print::millis(trace.duration_ms)),
        (false, false) => format!("failed after {}", print::millis(trace.duration_ms)),
    };
    writeln!(out, "trace    {}", trace.trace_id)?;
    writeln!(out, "began    {} ({})", moment::local(trace.timestamp), moment::offset(trace.timestamp))?;
    writeln!(out, "state    {verdict}")?;
    let entry = match trace.entry {
        Entry::ExecuteCode => "a program, by execute_code",
        Entry::Passthrough => "a call of the client's own",
        Entry::Run => "a program, by pml run",
        Entry::Capability => "a capability",
        Entry::Workflow => "a workflow, or a program of one",
        Entry::Other => "by a way that this pml does not know",
    };
    writeln!(out, "what     {entry}")?;
    let client = trace.client.as_ref().map(|client| match &client.version {
        Some(version) => format!("{} {version}", client.name),
        None => client.name.clone(),
    });
    let caller = Some(format!("as {}", trace.caller)).filter(|_| !trace.caller.is_empty());
    let who: Vec<_> = client.into_iter().chain(caller).collect();
    line(out, "client", Some(who.join(", ")).filter(|who| !who.is_empty()))?;
    line(out, "hub", delivered_by.map(|name| format!("delivered by {name}")))?;
    line(out, "intent", trace.intent.clone())?;
    line(out, "parent", trace.parent_trace_id.map(|parent| parent.to_string()))?;
    line(out, "args", value(trace.args.as_deref()))?;
    line(out, "result", value(trace.result.as_deref()))?;
    if !trace.success {
        let code = trace.error_code.as_deref().unwrap_or("error");
        let message = trace.error_message.as_deref().unwrap_or_default();
        writeln!(out, "error    [{}] {}", one_line(code, 60), visible(message).replace('\n', "\n         "))?;
    }
    for warning in &trace.warnings {
        line(out, "warning", Some(warning.clone()))?;
    }
    if trace.metadata.code_redacted {
        line(out, "note", Some("the program held a secret, which was removed".to_owned()))?;
    }
    let ahead: Vec<_> = trace.forecasts.iter().filter(|forecast| forecast.call_id.is_some()).collect();
    let used = ahead.iter().filter(|forecast| forecast.outcome == ForecastOutcome::Used).count();
    if !ahead.is_empty() {
        line(out, "ahead", Some(format!("{} calls made ahead, {used} used", ahead.len())))?;
    }
    let cut = trace.metadata.truncated.len();
    if cut > 0 {
        line(out, "note", Some(format!("{cut} values were cut before they were stored")))?;
    }
    let tasks = waterfall::lines(trace, print::columns());
    if !tasks.is_empty() {
        writeln!(out)?;
    }
    for task in tasks {
        writeln!(out, "{task}")?;
    }
    if !trace.logs.is_empty() {
        writeln!(out, "\noutput:")?;
    }
    for log in trace.logs.iter().take(LOGS) {
        let text = visible(&log.text).replace('\n', "\n         ");
        writeln!(out, "  {:<6} {text}", one_line(&log.level, 6))?;
    }
    if trace.logs.len() > LOGS {
        writeln!(out, "  … and {} more lines; --json has all", trace.logs.len() - LOGS)?;
    }
    if has_code {
        match &trace.code {
            Some(code) => {
                writeln!(out, "\nprogram:")?;
                for (number, text) in code.lines().enumerate() {
                    writeln!(out, "{:>5}  {}", number + 1, visible(text))?;
                }
            }
            None => writeln!(out, "\nprogram: not stored")?,
        }
    }
    out.flush()
}

fn line(out: &mut impl Write, name: &str, text: Option<String>) -> io::Result<()> {
    match text {
        Some(text) => writeln!(out, "{name:<8} {}", visible(&text).replace('\n', "\n         ")),
        None => Ok(()),
    }
}

/// The beginning of a value, on one line.
fn value(value: Option<&RawValue>) -> Option<String> {
    let text = value?.get();
    let start: String = text.chars().take(VALUE).collect();
    let rest = if start.len() < text.len() { format!(" … ({} bytes)", text.len()) } else { String::new() };
    Some(format!("{}{rest}", visible_json(&start).replace('\n', " ")))
}
