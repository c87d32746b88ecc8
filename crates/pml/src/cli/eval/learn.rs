//! `pml eval learn`: how much traces improve rankings, on anybody's tools and traces.

use std::{
    collections::HashSet,
    io::{self, Write},
    path::{Path, PathBuf},
};

use pml_learn::Replay;
use pml_search::{Index, ToolText};
use pml_wire::ErrorCode;
use serde_json::{Map, Value, json};

use super::{
    folds::Data,
    judged::Interval,
    lines::{ToolLine, Trace, read_lines, read_traces},
    measure::{BLIND, Checkpoint, Gain, METHODS, NEXT_METRICS, Options, Report, SET_METRICS, Searches, measure},
};
use crate::{
    catalog::{built_in_model, load_model},
    error::Error,
};

const COMMAND: &str = "learn";
/// Orders or splits of the traces, at most: each takes as long as the first.
const MOST_SEEDS: u64 = 1000;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Tools, a JSON object per line: id, name, description, server or group, inputSchema
    #[arg(long, value_name = "FILE")]
    tools: PathBuf,

    /// Traces to learn from, in order, a JSON object per line: intent, steps (each with tool and success), success
    #[arg(long, value_name = "FILE", requires = "test", required_unless_present = "traces")]
    train: Option<PathBuf>,

    /// Traces to be judged on, of the same form
    #[arg(long, value_name = "FILE", requires = "train")]
    test: Option<PathBuf>,

    /// Traces to learn from and to be judged on: each seed shuffles them, holds out the last fifth (at most 400), and leaves out
    /// training traces that share their intent or their `group` with a held-out one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["train", "test"])]
    traces: Option<PathBuf>,

    /// After how many learned traces to judge; after the last one in any case
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', default_value = "0,10,30,100,300,1000")]
    checkpoints: Vec<usize>,

    /// Which past traces are learned again
    #[arg(long, value_name = "WHICH", default_value = "none")]
    replay: ReplayArg,

    /// Orders of the training traces: as they are, then shuffled. With --traces, splits. What is reported is the mean
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MOST_SEEDS))]
    seeds: u64,

    /// A control: give each training trace the intent of another. Then the gain over the same ranker without intents must vanish
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
    let read = |path: &Option<PathBuf>| path.as_ref().map_or(Ok(Vec::new()), |path| read_traces(path, COMMAND));
    let (train, test, traces) = (read(&args.train)?, read(&args.test)?, read(&args.traces)?);
    let data = match &args.traces {
        Some(_) => Data::Split(&traces),
        None => Data::Given { train: &train, test: &test },
    };
    if data.asked().iter().all(|trace| trace.succeeded().next().is_none()) {
        let path = args.traces.as_ref().or(args.test.as_ref()).map_or(Path::new(""), PathBuf::as_path);
        let message = format!("`{}` has no trace with a successful step: nothing to measure", path.display());
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
    warn_about(&tools, data, &whole);
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
    let checkpoints = measure(&searches, data, &options);
    let first = data.fold(0);
    Ok(print(&checkpoints, args, whole.len(), first.train.len(), first.test.len()))
}

/// Mistakes in the data that do not prevent an answer, but explain a bad one.
fn warn_about(tools: &[(usize, ToolLine)], data: Data<'_>, index: &Index) {
    let test = data.asked();
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
    let Data::Given { train, .. } = data else { return };
    let learned: HashSet<&str> = train.iter().map(|trace| trace.intent.as_str()).collect();
    let leaked = test.iter().filter(|trace| learned.contains(trace.intent.as_str())).count();
    if leaked > 0 {
        let _ = writeln!(stderr, "warning: {leaked} test traces have an intent that is also learned from");
    }
}

fn print(checkpoints: &[Checkpoint], args: &Args, tools: usize, train: usize, test: usize) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if args.json {
        let checkpoints: Vec<Value> = checkpoints.iter().map(as_json).collect();
        let report = json!({
            "tools": tools, "train": train, "test": test, "seeds": args.seeds, "checkpoints": checkpoints,
        });
        return writeln!(stdout, "{report}");
    }
    let splits = match &args.traces {
        Some(_) => format!(" in the first of {} splits", args.seeds),
        None => String::new(),
    };
    writeln!(stdout, "{tools} tools, {train} traces to learn from, {test} to be judged on{splits}")?;
    for checkpoint in checkpoints {
        writeln!(stdout, "\nafter {} traces", checkpoint.traces)?;
        write_report(&mut stdout, "tools of a task", &SET_METRICS, &checkpoint.set)?;
        write_report(&mut stdout, "next tool", &NEXT_METRICS, &checkpoint.next)?;
    }
    if args.shuffle_intents {
        let last = "\nThe intents are shuffled: `from intents` must not be above 0. A `gain over search` that is left comes from \
                    how often tools are used and follow each other.";
        writeln!(stdout, "{last}")?;
    }
    Ok(())
}

fn write_report<const M: usize>(
    out: &mut impl Write,
    title: &str,
    metrics: &[&str; M],
    report: &Report<M>,
) -> io::Result<()> {
    write!(out, "  {title:<16}")?;
    metrics.iter().try_for_each(|metric| write!(out, "{metric:>9}"))?;
    writeln!(out)?;
    for (method, row) in METHODS.iter().zip(&report.table) {
        write!(out, "  {method:<16}")?;
        row.iter().try_for_each(|interval| write!(out, "{:>8.1}%", interval.mean * 100.0))?;
        writeln!(out)?;
    }
    for (name, gains) in [("gain over search", &report.gain), ("from intents", &report.of_intents)] {
        write!(out, "  {name:<16}")?;
        for Gain { of_questions, of_seeds } in gains {
            let Interval { mean, low, high } = of_seeds.unwrap_or(*of_questions);
            write!(out, "  {:+.1} ({:+.1} to {:+.1})", mean * 100.0, low * 100.0, high * 100.0)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn as_json(checkpoint: &Checkpoint) -> Value {
    let Checkpoint { traces, seeds, set, next, open } = checkpoint;
    let share = open.map(|open| open as f64 / *seeds as f64);
    let of_questions = |gain: &Gain| Some(gain.of_questions);
    let of_seeds = |gain: &Gain| gain.of_seeds;
    json!({
        "n": traces,
        "seeds": seeds,
        "set": table_json(&SET_METRICS, set),
        "next": table_json(&NEXT_METRICS, next),
        "gain": gains_json(&set.gain, &next.gain, of_questions),
        "blind": {
            "set": row_json(&SET_METRICS, &set.table[BLIND].map(Some)),
            "next": row_json(&NEXT_METRICS, &next.table[BLIND].map(Some)),
        },
        "intents": gains_json(&set.of_intents, &next.of_intents, of_questions),
        "over_seeds": {
            "gain": gains_json(&set.gain, &next.gain, of_seeds),
            "intents": gains_json(&set.of_intents, &next.of_intents, of_seeds),
        },
        "open": { "set": share[0], "next": share[1] },
    })
}

fn table_json<const M: usize>(metrics: &[&str; M], report: &Report<M>) -> Value {
    METHODS[..BLIND]
        .iter()
        .zip(&report.table)
        .map(|(method, row)| ((*method).to_owned(), row_json(metrics, &row.map(Some))))
        .collect::<Map<_, _>>()
        .into()
}

fn gains_json(set: &[Gain; 5], next: &[Gain; 3], interval: impl Fn(&Gain) -> Option<Interval>) -> Value {
    json!({
        "set": row_json(&SET_METRICS, &set.each_ref().map(&interval)),
        "next": row_json(&NEXT_METRICS, &next.each_ref().map(&interval)),
    })
}

/// An interval that there is none of is null.
fn row_json<const M: usize>(metrics: &[&str; M], row: &[Option<Interval>; M]) -> Value {
    let cell = |Interval { mean, low, high }: Interval| json!({ "mean": mean, "low": low, "high": high });
    metrics
        .iter()
        .zip(row)
        .map(|(metric, interval)| ((*metric).to_owned(), interval.map_or(Value::Null, cell)))
        .collect::<Map<_, _>>()
        .into()
}
