//! `pml run`: one program, one sandbox.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, IsTerminal, Read},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use pml_wire::{ErrorCode, ExecutionId, ToolId, json, message::ErrorReport, trace::Entry};
use serde_json::value::RawValue;

use super::{CLI, USAGE, fail, print, provide_own, starting, with_services};
use crate::{
    config::Config,
    error::Error,
    execution::{self, Event, Outcome, Request},
    sandbox::Mode,
    serve::Services,
    trace::{Context, Program},
};

/// Longest program that is read at all; `limits.code_bytes` is checked afterwards.
const READ_BYTES: u64 = 64 * 1024 * 1024;
/// How long a program waits for what was learned, if calls are made ahead by it.
const LEARNED: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The program; `-` or nothing reads standard input
    file: Option<PathBuf>,

    /// The program itself, instead of a file
    #[arg(short, long, value_name = "CODE", conflicts_with = "file", allow_hyphen_values = true)]
    eval: Option<String>,

    /// Value of the global `args`, as JSON
    #[arg(long, value_name = "JSON", default_value = "null", hide_default_value = true, allow_hyphen_values = true)]
    args: String,

    /// What the program is for, in its trace
    #[arg(long, value_name = "TEXT")]
    intent: Option<String>,

    /// Time that the program may compute, such as 500ms, 30s or 2m; waiting for tools is not counted [default: limits.timeout_ms, 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,

    /// Time of the run in all [default: limits.total_ms, 10m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    total: Option<Duration>,

    /// Memory limit in MiB [default: limits.memory_mb, 64]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1024))]
    memory: Option<u64>,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, mut config: Config) -> ExitCode {
    if let Some(timeout) = args.timeout {
        config.limits.set_timeout(timeout);
    }
    if let Some(total) = args.total {
        config.limits.total = total;
    }
    if let Some(megabytes) = args.memory {
        config.limits.memory_bytes = megabytes as usize * 1024 * 1024;
    }
    let program_args = match RawValue::from_string(args.args.trim().to_owned()) {
        Ok(value) if json::depth(value.get()) <= json::MAX_DEPTH => value,
        Ok(_) => {
            let message = format!("the value of --args is nested more than {} levels deep", json::MAX_DEPTH);
            return fail(&Error::new(ErrorCode::ConfigInvalid, message), USAGE);
        }
        Err(err) => {
            let message = format!("the value of --args is not JSON: {err}");
            let hint = "quote it for the shell, as in --args '{\"name\": \"value\"}'";
            return fail(&Error::new(ErrorCode::ConfigInvalid, message).with_hint(hint), USAGE);
        }
    };
    let (name, bytes) = match read_program(&args) {
        Ok(program) => program,
        Err(err) => return fail(&err, USAGE),
    };
    let outcome = match String::from_utf8(bytes) {
        Ok(code) => {
            let request = Request { name, args: program_args, follows_calls: true, ..Request::new(code) };
            return match execute(request, args.intent, &config, args.json, Presentation::Program).await {
                Ok(code) => code,
                Err(err) => fail(&err, USAGE),
            };
        }
        Err(err) => not_text(&name, err.utf8_error()),
    };
    report(&outcome, args.json)
}

pub(super) fn report(outcome: &Outcome, as_json: bool) -> ExitCode {
    let printed = match as_json {
        true => print::json(outcome),
        false => print::outcome(outcome),
    };
    match printed {
        Ok(()) if outcome.result.is_ok() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// What the user asked for, which decides how a failure is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presentation {
    /// A program of the user: its lines are shown.
    Program,
    /// One call, in a program that pml wrote: its lines mean nothing to the user.
    Call,
}

/// Runs the program and prints its outcome. Servers are stopped after that: nobody waits for them.
pub(super) async fn execute(
    request: Request,
    intent: Option<String>,
    config: &Config,
    quiet: bool,
    presentation: Presentation,
) -> Result<ExitCode, Error> {
    let context = Context::new(Entry::Run, CLI).with_intent(intent);
    let is_watched = io::stderr().is_terminal();
    let listener = |event: Event<'_>| match event {
        Event::Log(log) if !quiet => print::log(log),
        Event::Progress(progress) if !quiet && is_watched => print::progress(progress),
        Event::CallProgress { tool, progress, .. } if !quiet && is_watched => print::call_progress(tool, progress),
        _ => {}
    };
    // One program needs one worker, and executing it is faster than preparing to fork it.
    with_services(config, Mode::Subprocess, async |pool, services, interrupt| {
        provide_own(&services, &pool);
        let program = Program { code: &request.code, args: &request.args };
        services.provide_capabilities(&pool, &config.traces.rules);
        services.recorder.ready().await;
        learn_first(config, &services).await;
        let record = services.recorder.begin(Arc::new(context), Some(program));
        let request = Request { recording: record.recording().clone(), ..request };
        let run = async {
            starting::unknown(&services, &request.code, &interrupt).await;
            services.anticipate(&request.code);
            execution::run(&pool, request, config.limits, &*services.broker, &listener, &interrupt).await
        };
        let mut outcome = record.recording().during(std::pin::pin!(run)).await;
        let called: BTreeSet<ToolId> = outcome.calls.iter().filter_map(|call| call.tool.parse().ok()).collect();
        outcome.warnings.extend(called.iter().filter_map(|tool| services.broker.changed_line(tool)));
        let (_, receipt) = record.finish(outcome.finish());
        receipt.wait().await;
        if let (Err(report), Presentation::Call) = (&mut outcome.result, presentation) {
            (report.frame, report.stack) = (None, None);
        }
        report(&outcome, quiet)
    })
    .await
}

/// Reads what was learned, if calls are made ahead by it. A program that begins before has none made.
pub(super) async fn learn_first(config: &Config, services: &Services) {
    if config.speculates {
        services.broker.settled_learning(LEARNED).await;
    }
}

/// The program's name for messages, and its bytes.
fn read_program(args: &Args) -> Result<(String, Vec<u8>), Error> {
    if let Some(code) = &args.eval {
        return Ok(("agent.ts".to_owned(), code.clone().into_bytes()));
    }
    let file = args.file.as_deref().filter(|file| *file != Path::new("-"));
    let usage = |message: String| Error::new(ErrorCode::ConfigInvalid, message);
    let Some(file) = file else {
        if args.file.is_none() && io::stdin().is_terminal() {
            let hint = "name a file, pass the code with -e, or pipe it in";
            return Err(usage("there is no program to run".to_owned()).with_hint(hint));
        }
        let mut bytes = Vec::new();
        let read = io::stdin().lock().take(READ_BYTES).read_to_end(&mut bytes);
        read.map_err(|err| usage(format!("standard input cannot be read: {err}")).caused_by(err))?;
        return Ok(("stdin.ts".to_owned(), bytes));
    };
    let unreadable = |err: io::Error| usage(format!("`{}` cannot be read: {err}", file.display())).caused_by(err);
    let mut bytes = Vec::new();
    fs::File::open(file).and_then(|file| file.take(READ_BYTES).read_to_end(&mut bytes)).map_err(unreadable)?;
    let name = file.file_name().map_or_else(|| "agent.ts".into(), |name| name.to_string_lossy().into_owned());
    Ok((name, bytes))
}

/// The answer to a program that is not UTF-8.
fn not_text(name: &str, err: std::str::Utf8Error) -> Outcome {
    let message = format!("`{name}` is not UTF-8 text: byte {} is wrong", err.valid_up_to());
    let report = ErrorReport::new(ErrorCode::CodeNotUtf8, message).with_hint("save the file as UTF-8");
    Outcome::refused(ExecutionId::mint(), report)
}

/// Reads `500ms`, `30s`, `2m` or `1h`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().map_err(|_| "write a number and a unit, such as 500ms, 30s or 2m".to_owned())?;
    let seconds = match &text[digits.len()..] {
        "ms" => number / 1e3,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        "" => return Err(format!("add a unit, such as {text}s")),
        unit => return Err(format!("`{unit}` is no unit of time; use ms, s, m or h")),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if (Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&duration) => Ok(duration),
        _ => Err("it must be between 1ms and 1h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_a_bound() {
        let table = [
            ("500ms", Ok(Duration::from_millis(500))),
            ("30s", Ok(Duration::from_secs(30))),
            ("1.5s", Ok(Duration::from_millis(1500))),
            ("2m", Ok(Duration::from_secs(120))),
            ("1h", Ok(Duration::from_secs(3600))),
            ("30", Err("add a unit")),
            ("2d", Err("`d` is no unit")),
            ("0s", Err("between")),
            ("2h", Err("between")),
            ("-1s", Err("between")),
            ("s", Err("number")),
            ("", Err("number")),
        ];
        for (text, expected) in table {
            match (parse_duration(text), expected) {
                (Ok(actual), Ok(expected)) => assert_eq!(actual, expected, "{text}"),
                (Err(actual), Err(expected)) => assert!(actual.contains(expected), "{text}: {actual}"),
                (actual, _) => panic!("{text}: {actual:?}"),
            }
        }
    }
}
