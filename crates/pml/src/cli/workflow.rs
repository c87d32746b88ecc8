//! `pml workflow`: run, check or draw a workflow.

use std::{
    fs,
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use pml_wire::{ErrorCode, ExecutionId, trace::Entry};
use serde_json::{json, value::RawValue};

use super::{
    CLI, USAGE, fail, print, provide_own,
    run::{learn_first, parse_duration},
    with_pool_alone, with_servers, with_services, workflow_graph,
};
use crate::{
    broker::Allowance,
    config::Config,
    error::Error,
    execution::{Event as CallEvent, Media},
    sandbox::Mode,
    shown::visible,
    trace::{Context, Program},
    workflow::{self, Document, Event, Format, Outcome, Problems, Request, Status},
};

/// Longest file that is read at all; a workflow may have less.
const READ_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, clap::Subcommand)]
pub(super) enum What {
    /// Run the tasks of a workflow; exits with 1 if one has failed, and with 2 if the workflow cannot run
    Run(RunArgs),
    /// Check a workflow against the tools that there are, and run nothing
    Validate(ValidateArgs),
    /// Draw the graph of a workflow
    Show(ShowArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// The workflow, JSON or TOML; `-` reads standard input
    file: PathBuf,

    /// The arguments of the workflow, `$ARGS` in it, as a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}", hide_default_value = true, allow_hyphen_values = true)]
    args: String,

    /// What it is for, in its trace
    #[arg(long, value_name = "TEXT")]
    intent: Option<String>,

    /// Time of the whole, such as 30s or 5m [default: limits.total_ms, 10m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ValidateArgs {
    /// The workflow, JSON or TOML; `-` reads standard input
    file: PathBuf,

    /// The arguments of the workflow, as a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}", hide_default_value = true, allow_hyphen_values = true)]
    args: String,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The workflow, JSON or TOML; `-` reads standard input
    file: PathBuf,

    /// How to draw it: text, svg, dot for Graphviz, or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: workflow_graph::Drawing,
}

pub(super) async fn run(what: What, config: Config) -> ExitCode {
    let done = match what {
        What::Run(args) => execute(args, config).await,
        What::Validate(args) => validate(args, config).await,
        What::Show(args) => show(&args),
    };
    done.unwrap_or_else(|err| fail(&err, USAGE))
}

async fn execute(args: RunArgs, mut config: Config) -> Result<ExitCode, Error> {
    let document = read(&args.file, &args.args)?;
    if let Some(timeout) = args.timeout {
        config.limits.total = timeout;
    }
    let (is_json, budget) = (args.json, config.limits);
    let is_watched = !is_json && io::stderr().is_terminal();
    let listener = |event: Event<'_>| match event {
        Event::TaskEnded { task, ended, of } if is_watched => {
            let _ = writeln!(io::stderr(), "{ended}/{of} {} {}", visible(&task.id), task.status.as_str());
        }
        Event::Call(CallEvent::CallProgress { tool, progress, .. }) if is_watched => {
            print::call_progress(tool, progress)
        }
        _ => {}
    };
    with_services(&config, Mode::Subprocess, async |pool, services, interrupt| {
        provide_own(&services, &pool);
        // The whole graph is checked before anything runs, so the names of capabilities must be known.
        if let Some(saver) = services.provide_capabilities(&pool, &config.traces.rules) {
            saver.registry.read().await;
        }
        let context = Context::new(Entry::Workflow, CLI).with_intent(args.intent.clone());
        let (id, text) = (context.execution, document.text.clone());
        let context = Arc::new(context);
        let checked = match workflow::check(document.clone(), &services.broker, &context, (&budget, &pool)).await {
            Ok(checked) => checked,
            Err(problems) => return refuse(id, &problems, is_json),
        };
        let context = match (&context.intent, checked.intent()) {
            (None, Some(intent)) => Arc::new(Context::clone(&context).with_intent(Some(intent.to_owned()))),
            _ => context,
        };
        services.recorder.ready().await;
        learn_first(&config, &services).await;
        let record = services.recorder.begin(context, Some(Program { code: &text, args: checked.args() }));
        let request = Request {
            recording: record.recording().clone(),
            checked,
            budget,
            allowance: Allowance::new(budget),
            media: Media::Inline,
            follows_calls: is_watched,
        };
        let work = workflow::run(&*services.broker, request, &listener, &interrupt);
        let outcome = record.recording().clone().during(std::pin::pin!(work)).await;
        let (_, receipt) = record.finish(outcome.finish());
        receipt.wait().await;
        let printed = if is_json { print::json(&outcome) } else { tell(&outcome) };
        match printed {
            Ok(()) if outcome.is_success() => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        }
    })
    .await
}

async fn validate(args: ValidateArgs, config: Config) -> Result<ExitCode, Error> {
    let document = read(&args.file, &args.args)?;
    let budget = config.limits;
    with_servers(&config, async |services, _| {
        let context = Arc::new(Context::new(Entry::Workflow, CLI));
        // Programs are read and not run, in a worker that is started when there is one to read.
        let checking = with_pool_alone(&config, Mode::Subprocess, async |pool| {
            workflow::check(document.clone(), &services.broker, &context, (&budget, &pool)).await
        });
        let checked = match checking.await {
            Ok(checked) => checked,
            Err(problems) => return refuse(context.execution, &problems, args.json),
        };
        let (tasks, layers) = checked.size();
        let printed = match args.json {
            true => print::json(&json!({
                "valid": true, "tasks": tasks, "layers": layers, "warnings": checked.warnings(), "problems": [],
            })),
            false => {
                let warnings = checked.warnings().iter();
                warnings.for_each(|warning| drop(writeln!(io::stderr(), "warning: {}", visible(warning))));
                writeln!(io::stdout(), "valid: {tasks} tasks in {layers} layers")
            }
        };
        if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    })
    .await
}

fn show(args: &ShowArgs) -> Result<ExitCode, Error> {
    let document = read(&args.file, "{}")?;
    let drawn = workflow_graph::read(&document)
        .map(|(workflow, dependencies)| workflow_graph::draw(&workflow, &dependencies, args.format));
    match drawn {
        Ok(text) => match io::stdout().write_all(text.as_bytes()) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(_) => Ok(ExitCode::FAILURE),
        },
        Err(problems) => Ok(refuse(ExecutionId::mint(), &problems, false)),
    }
}

/// Says what is wrong with a workflow.
fn refuse(id: ExecutionId, problems: &Problems, is_json: bool) -> ExitCode {
    if is_json {
        // A closed pipe changes nothing about the code.
        let _ = print::json(&Outcome::invalid(id, problems));
        return ExitCode::from(USAGE);
    }
    let report = problems.report();
    let err = Error::new(report.code, report.message);
    fail(&report.hint.into_iter().fold(err, Error::with_hint), USAGE)
}

/// The results to stdout, how tasks went to stderr.
fn tell(outcome: &Outcome) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    for warning in &outcome.warnings {
        let _ = writeln!(stderr, "warning: {}", visible(warning));
    }
    for task in outcome.tasks.iter().filter(|task| task.status != Status::Success) {
        let why = task.error.as_ref().map(|error| format!(" {}: {}", error.code, error.message)).unwrap_or_default();
        let _ = writeln!(stderr, "{} {}{}", task.status.as_str(), visible(&task.id), visible(&why));
    }
    if let Some(partial) = &outcome.partial_results {
        let _ =
            writeln!(stderr, "results of the elements that succeeded, by their numbers: {}", visible(partial.get()));
    }
    if let Err(report) = &outcome.verdict {
        let _ = writeln!(stderr, "error[{}]: {}", report.code, visible(&report.message));
    }
    drop(stderr);
    print::json(&outcome.results)
}

/// The workflow in a file, or on standard input.
fn read(file: &Path, args: &str) -> Result<Document, Error> {
    let usage = |message: String| Error::new(ErrorCode::ConfigInvalid, message);
    let mut bytes = Vec::new();
    let read = match file == Path::new("-") {
        true => io::stdin().lock().take(READ_BYTES).read_to_end(&mut bytes),
        false => fs::File::open(file).and_then(|file| file.take(READ_BYTES).read_to_end(&mut bytes)),
    };
    read.map_err(|err| usage(format!("`{}` cannot be read: {err}", file.display())).caused_by(err))?;
    let text = String::from_utf8(bytes).map_err(|err| {
        let at = err.utf8_error().valid_up_to();
        usage(format!("`{}` is not UTF-8 text: byte {at} is wrong", file.display()))
    })?;
    let args = RawValue::from_string(args.trim().to_owned()).ok().filter(|args| args.get().starts_with('{'));
    let args = args.ok_or_else(|| {
        let hint = "quote it for the shell, as in --args '{\"name\": \"value\"}'";
        usage("the value of --args is no JSON object".to_owned()).with_hint(hint)
    })?;
    let format = Format::of(&file.to_string_lossy(), &text);
    Ok(Document { text, format, args })
}
