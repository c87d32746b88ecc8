//! `pml eval learn`: how much traces improve rankings, on anybody's tools and traces.

use std::{
    collections::HashSet,
    io::{self, Write},
    path::PathBuf,
};

use pml_learn::Replay;
use pml_search::{Index, ToolText};
use pml_wire::ErrorCode;
use serde_json::{Map, Value, json};

use super::{
    judged::Interval,
    lines::{ToolLine, Trace, read_lines, read_traces},
    measure::{Checkpoint, METHODS, NEXT_METRICS, Options, SET_METRICS, Searches, Table, measure},
};
use crate::{
    catalog::{built_in_model, load_model},
    error::Error,
};

const COMMAND: &str = "learn";
/// Orders of the training traces, at most: each takes as long as the first.
const MOST_SEEDS: u64 = 1000;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Tools, a JSON object per line: id, name, description, server or group, inputSchema
    #[arg(long, value_name = "FILE")]
    tools: PathBuf,

    /// Traces to learn from, in order, a JSON object per line: intent, steps (each with tool and success), success
    #[arg(long, value_name = "FILE")]
    train: PathBuf,

    /// Traces to be judged on, of the same form
    #[arg(long, value_name = "FILE")]
    test: PathBuf,

    /// After how many learned traces to judge; after the last one in any case
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', default_value = "0,10,30,100,300,1000")]
    checkpoints: Vec<usize>,

    /// Which past traces are learned again
    #[arg(long, value_name = "WHICH", default_value = "none")]
    replay: ReplayArg,

    /// Orders of the training traces: as they are, then shuffled; what is reported is the mean
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MOST_SEEDS))]
    seeds: u64,

    /// Give each training trace the intent of another: what is gained then is not learned from intents
    #[arg(long)]
    shuffle_intents: bool,

    /// A directory with all-MiniLM-L6-v2, to be used beside the table in place of the built-in encoder
    #[arg(long, value_name = "DIR")]
    model_dir: Option<PathBuf>,

    /// Search with the table alone, as it answers until the encoder has read the tools
    #[arg(long, conflicts_with = "model_dir")]
    table: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ReplayArg {
    None,
    Uniform,
    Per,
}

/// Measures and prints. The inner error is that of printing.
pub(super) fn run(args: &Args) -> Result<io::Result<()>, Error> {
    let tools: Vec<(usize, ToolLine)> = read_lines(&args.tools, COMMAND)?;
    if tools.is_empty() {
        return Err(Error::new(ErrorCode::ConfigInvalid, format!("`{}` has no tools", args.tools.display())));
    }
    let train = read_traces(&args.train, COMMAND)?;
    let test = read_traces(&args.test, COMMAND)?;
    if test.iter().all(|trace| trace.succeeded().next().is_none()) {
        let message = format!("`{}` has no trace with a successful step: nothing to measure", args.test.display());
        return Err(Error::new(ErrorCode::ConfigInvalid, message));
    }
    let (mut table, mut whole) = (
        Index::new(),
        match &args.model_dir {
            Some(folder) => Index::with(load_model(folder)?),
            None if args.table => Index::new(),
            None => Index::with(built_in_model()),
        },
    );
    pml_search::load();
    for (_, tool) in &tools {
        let server = tool.server.as_deref().or(tool.group.as_deref()).unwrap_or_default();
        let description = tool.description.as_deref().unwrap_or_default();
        let text = ToolText::new(server, &tool.name, description, &tool.input_schema);
        table.insert(&tool.id, &text);
        whole.insert_beside(&table, &tool.id, &text, None);
    }
    warn_about(&tools, &train, &test, &whole);
    let options = Options {
        checkpoints: args.checkpoints.clone(),
        replay: match args.replay {
            ReplayArg::None => Replay::None,
            ReplayArg::Uniform => Replay::Uniform,
            ReplayArg::Per => Replay::Prioritized,
        },
        seeds: args.seeds,
        shuffles_intents: args.shuffle_intents,
    };
    let searches = Searches { table: table.snapshot(), whole: whole.snapshot() };
    let checkpoints = measure(&searches, &train, &test, &options);
    Ok(print(&checkpoints, args, whole.len(), train.len(), test.len()))
}

/// Mistakes in the data that do not prevent an answer, but explain a bad one.
fn warn_about(tools: &[(usize, ToolLine)], train: &[Trace], test: &[Trace], index: &Index) {
    let mut stderr = io::stderr();
    let twice = tools.len() - index.len();
    if twice > 0 {
        let _ = writeln!(stderr, "warning: {twice} ids occur more than once; the last tool of each counts");
    }
    let known: HashSet<&str> = index.ids().collect();
    let unknown = test.iter().flat_map(Trace::succeeded).filter(|tool| !known.contains(tool)).count();
    if unknown > 0 {
        let _ = writeln!(stderr, "warning: {unknown} steps to be found are of no tool; they count as not found");
    }
    let aimless = test.iter().filter(|trace| trace.succeeded().next().is_none()).count();
    if aimless > 0 {
        let _ = writeln!(stderr, "warning: {aimless} test traces have no successful step; they are not judged");
    }
    let learned: HashSet<&str> = train.iter().map(|trace| trace.intent.as_str()).collect();
    let leaked = test.iter().filter(|trace| learned.contains(trace.intent.as_str())).count();
    if leaked > 0 {
        let _ = writeln!(stderr, "warning: {leaked} test traces have an intent that is also learned from");
    }
}

fn print(checkpoints: &[Checkpoint], args: &Args, tools: usize, train: usize, test: usize) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if args.json {
        let checkpoints: Vec<Value> = checkpoints.iter().map(|checkpoint| as_json(checkpoint, args.seeds)).collect();
        let report = json!({ "tools": tools, "train": train, "test": test, "checkpoints": checkpoints });
        return writeln!(stdout, "{report}");
    }
    writeln!(stdout, "{tools} tools, {train} traces to learn from, {test} to be judged on")?;
    for checkpoint in checkpoints {
        writeln!(stdout, "\nafter {} traces", checkpoint.traces)?;
        write_table(&mut stdout, "tools of a task", &SET_METRICS, &checkpoint.set, &checkpoint.set_gain)?;
        write_table(&mut stdout, "next tool", &NEXT_METRICS, &checkpoint.next, &checkpoint.next_gain)?;
    }
    Ok(())
}

fn write_table<const M: usize>(
    out: &mut impl Write,
    title: &str,
    metrics: &[&str; M],
    table: &Table<M>,
    gain: &[Interval; M],
) -> io::Result<()> {
    write!(out, "  {title:<16}")?;
    metrics.iter().try_for_each(|metric| write!(out, "{metric:>9}"))?;
    writeln!(out)?;
    for (method, row) in METHODS.iter().zip(table) {
        write!(out, "  {method:<16}")?;
        row.iter().try_for_each(|interval| write!(out, "{:>8.1}%", interval.mean * 100.0))?;
        writeln!(out)?;
    }
    write!(out, "  {:<16}", "gain over search")?;
    for Interval { mean, low, high } in gain {
        write!(out, "  {:+.1} ({:+.1} to {:+.1})", mean * 100.0, low * 100.0, high * 100.0)?;
    }
    writeln!(out)
}

fn as_json(checkpoint: &Checkpoint, seeds: u64) -> Value {
    let share = checkpoint.open.map(|open| open as f64 / seeds as f64);
    json!({
        "n": checkpoint.traces,
        "set": table_json(&SET_METRICS, &checkpoint.set),
        "next": table_json(&NEXT_METRICS, &checkpoint.next),
        "gain": {
            "set": row_json(&SET_METRICS, &checkpoint.set_gain),
            "next": row_json(&NEXT_METRICS, &checkpoint.next_gain),
        },
        "open": { "set": share[0], "next": share[1] },
    })
}

fn table_json<const M: usize>(metrics: &[&str; M], table: &Table<M>) -> Value {
    METHODS
        .iter()
        .zip(table)
        .map(|(method, row)| ((*method).to_owned(), row_json(metrics, row)))
        .collect::<Map<_, _>>()
        .into()
}

fn row_json<const M: usize>(metrics: &[&str; M], row: &[Interval; M]) -> Value {
    let cell = |Interval { mean, low, high }: &Interval| json!({ "mean": mean, "low": low, "high": high });
    metrics
        .iter()
        .zip(row)
        .map(|(metric, interval)| ((*metric).to_owned(), cell(interval)))
        .collect::<Map<_, _>>()
        .into()
}
