//! `pml eval search`: how good the search is, on anybody's tools and queries.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use pml_search::{Index, Mode, ToolText};
use pml_wire::ErrorCode;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{USAGE, fail};
use crate::{catalog::load_model, error::Error};

/// Ranks that `--run` writes and that MRR looks at; what is found later is as good as not found.
const RANKS: usize = 100;
/// Ranks that an agent looks at, and that latency is measured for.
const SHOWN: usize = 10;
/// How often queries are drawn anew to see how far the means depend on which they are.
const RESAMPLES: usize = 1000;

#[derive(Debug, clap::Subcommand)]
pub(super) enum What {
    /// Measure how well queries find the tools that they should
    Search(SearchArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct SearchArgs {
    /// Tools, a JSON object per line: id, server, name, description, inputSchema
    #[arg(long, value_name = "FILE")]
    tools: PathBuf,

    /// Queries, a JSON object per line: query, relevant (ids of tools)
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,

    /// Which half of the search to use, or both
    #[arg(long, value_name = "MODE", default_value = "hybrid")]
    mode: ModeArg,

    /// A directory with all-MiniLM-L6-v2, to be used in place of the built-in table
    #[arg(long, value_name = "DIR")]
    model_dir: Option<PathBuf>,

    /// Where to write what was found, a JSON object per line: query, ranked (ids, best first)
    #[arg(long, value_name = "FILE")]
    run: Option<PathBuf>,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ModeArg {
    Bm25,
    Embedding,
    Hybrid,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolLine {
    id: String,
    #[serde(default)]
    server: Option<String>,
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    input_schema: Value,
}

#[derive(Debug, Deserialize)]
struct QueryLine {
    query: String,
    relevant: Vec<String>,
}

pub(super) fn run(what: &What) -> ExitCode {
    let What::Search(args) = what;
    match search(args) {
        Ok(report) => match report.print(args.json) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE, // nobody reads
        },
        Err(err) => fail(&err, USAGE),
    }
}

fn search(args: &SearchArgs) -> Result<Report, Error> {
    let tools: Vec<ToolLine> = read_lines(&args.tools)?;
    let queries: Vec<QueryLine> = read_lines(&args.queries)?;
    if tools.is_empty() {
        return Err(Error::new(ErrorCode::ConfigInvalid, format!("`{}` has no tools", args.tools.display())));
    }
    if queries.iter().all(|query| query.relevant.is_empty()) {
        let message = format!("`{}` has no query with a relevant tool: nothing to measure", args.queries.display());
        return Err(Error::new(ErrorCode::ConfigInvalid, message).with_hint("name at least one id in `relevant`"));
    }
    let mut index = match &args.model_dir {
        Some(folder) => Index::with(load_model(folder)?),
        None => Index::new(),
    };
    for tool in &tools {
        let [server, description] = [&tool.server, &tool.description].map(|text| text.as_deref().unwrap_or_default());
        index.insert(&tool.id, &ToolText::new(server, &tool.name, description, &tool.input_schema));
    }
    warn_about(&tools, &queries, &index);
    let snapshot = index.snapshot();
    let mode = match args.mode {
        ModeArg::Bm25 => Mode::Bm25,
        ModeArg::Embedding => Mode::Embedding,
        ModeArg::Hybrid => Mode::Hybrid,
    };
    pml_search::load();

    let mut run = String::new();
    let mut measured: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    let mut latencies_us = Vec::new();
    for QueryLine { query, relevant } in &queries {
        let started = Instant::now();
        std::hint::black_box(snapshot.search(query, SHOWN, mode));
        latencies_us.push(started.elapsed().as_secs_f64() * 1e6);
        let hits = snapshot.search(query, RANKS, mode);
        let ranked: Vec<&str> = hits.iter().map(|hit| &*hit.id).collect();
        if !relevant.is_empty() {
            for (name, value) in judge(&ranked, relevant) {
                measured.entry(name).or_default().push(value);
            }
        }
        run += &json!({ "query": query, "ranked": ranked }).to_string();
        run.push('\n');
    }
    if let Some(path) = &args.run {
        fs::write(path, run).map_err(|err| unusable(path, "written", &err))?;
    }
    latencies_us.sort_by(f64::total_cmp);
    Ok(Report {
        queries: queries.iter().filter(|query| !query.relevant.is_empty()).count(),
        tools: index.len(),
        metrics: METRICS.map(|name| (name, Interval::of(measured.get(name).map_or(&[], Vec::as_slice)))),
        latency_p50_us: percentile(&latencies_us, 0.5),
        latency_p95_us: percentile(&latencies_us, 0.95),
    })
}

/// Mistakes in the data that do not prevent an answer, but explain a bad one.
fn warn_about(tools: &[ToolLine], queries: &[QueryLine], index: &Index) {
    let mut stderr = io::stderr();
    let twice = tools.len() - index.len();
    if twice > 0 {
        let _ = writeln!(stderr, "warning: {twice} ids occur more than once; the last tool of each counts");
    }
    let aimless = queries.iter().filter(|query| query.relevant.is_empty()).count();
    if aimless > 0 {
        let _ = writeln!(stderr, "warning: {aimless} queries have no relevant tool; they are not judged");
    }
    let known: HashSet<_> = index.ids().collect();
    let unknown = queries.iter().flat_map(|query| &query.relevant).filter(|id| !known.contains(id.as_str())).count();
    if unknown > 0 {
        let _ = writeln!(stderr, "warning: {unknown} relevant ids are of no tool; they count as not found");
    }
}

fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Error> {
    let text = fs::read_to_string(path).map_err(|err| unusable(path, "read", &err))?;
    let text = text.trim_start_matches('\u{feff}');
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|err| {
            let message = format!("line {} of `{}` cannot be understood: {err}", number + 1, path.display());
            Error::new(ErrorCode::ConfigInvalid, message).with_hint("`pml eval search --help` says what a line has")
        })
    };
    lines.map(parse).collect()
}

fn unusable(path: &Path, verb: &str, err: &io::Error) -> Error {
    Error::new(ErrorCode::ConfigInvalid, format!("`{}` cannot be {verb}: {err}", path.display()))
}

const METRICS: [&str; 7] = ["hit@1", "recall@1", "recall@5", "recall@10", "complete@10", "ndcg@10", "mrr"];

/// How well one query was answered, by each measure.
fn judge(ranked: &[&str], relevant: &[String]) -> [(&'static str, f64); 7] {
    let relevant: HashSet<&str> = relevant.iter().map(String::as_str).collect();
    let is_good: Vec<bool> = ranked.iter().map(|id| relevant.contains(id)).collect();
    let good_among = |count: usize| is_good.iter().take(count).filter(|good| **good).count();
    let recall = |count: usize| good_among(count) as f64 / relevant.len() as f64;
    let discount = |rank: usize| 1.0 / (rank as f64 + 2.0).log2();
    let gain: f64 = is_good
        .iter()
        .take(SHOWN)
        .enumerate()
        .filter(|(_, good)| **good)
        .map(|(i, _)| discount(i))
        .fold(0.0, |sum, gain| sum + gain);
    let ideal: f64 = (0..relevant.len().min(SHOWN)).map(discount).sum();
    let first = is_good.iter().position(|good| *good);
    [
        ("hit@1", f64::from(first == Some(0))),
        ("recall@1", recall(1)),
        ("recall@5", recall(5)),
        ("recall@10", recall(10)),
        ("complete@10", f64::from(good_among(10) == relevant.len())),
        ("ndcg@10", gain / ideal),
        ("mrr", first.map_or(0.0, |rank| 1.0 / (rank as f64 + 1.0))),
    ]
}

/// A mean, and where it lies in 95 of 100 draws of as many queries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Interval {
    mean: f64,
    low: f64,
    high: f64,
}

impl Interval {
    fn of(values: &[f64]) -> Interval {
        if values.is_empty() {
            return Interval::default();
        }
        let count = values.len();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64; // the same draws each time
        let mut draw = || {
            // xorshift64*: good enough to pick queries.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            ((state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as usize * count) >> 32
        };
        let mut means: Vec<f64> =
            (0..RESAMPLES).map(|_| (0..count).map(|_| values[draw()]).sum::<f64>() / count as f64).collect();
        means.sort_by(f64::total_cmp);
        let mean = values.iter().sum::<f64>() / count as f64;
        Interval { mean, low: percentile(&means, 0.025), high: percentile(&means, 0.975) }
    }
}

fn percentile(sorted: &[f64], part: f64) -> f64 {
    let place = (sorted.len().saturating_sub(1) as f64 * part).round() as usize;
    sorted.get(place).copied().unwrap_or_default()
}

struct Report {
    queries: usize,
    tools: usize,
    metrics: [(&'static str, Interval); 7],
    latency_p50_us: f64,
    latency_p95_us: f64,
}

impl Report {
    fn print(&self, as_json: bool) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        if as_json {
            let mut object = json!({ "queries": self.queries, "tools": self.tools });
            for (name, Interval { mean, low, high }) in self.metrics {
                object[name] = json!({ "mean": mean, "low": low, "high": high });
            }
            object["latency_us"] = json!({ "p50": self.latency_p50_us, "p95": self.latency_p95_us });
            return writeln!(stdout, "{object}");
        }
        writeln!(stdout, "{} queries, {} tools", self.queries, self.tools)?;
        for (name, Interval { mean, low, high }) in self.metrics {
            writeln!(stdout, "{name:<12} {:5.1} %  ({:.1} to {:.1})", mean * 100.0, low * 100.0, high * 100.0)?;
        }
        writeln!(stdout, "{:<12} {:.0} µs p50, {:.0} µs p95", "latency", self.latency_p50_us, self.latency_p95_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rankings_are_judged() {
        let log = |rank: f64| 1.0 / (rank + 1.0).log2();
        #[rustfmt::skip]
        let table = [
            // ranked                relevant          hit@1 r@1  r@5  complete  ndcg                                mrr
            (vec!["a", "b", "c"],    vec!["a"],        1.0,  1.0, 1.0, 1.0,      1.0,                                1.0),
            (vec!["a", "b", "c"],    vec!["b"],        0.0,  0.0, 1.0, 1.0,      log(2.0),                           0.5),
            (vec!["a", "b", "c"],    vec!["a", "c"],   1.0,  0.5, 1.0, 1.0,      (1.0 + log(3.0)) / (1.0 + log(2.0)), 1.0),
            (vec!["a", "b", "c"],    vec!["x"],        0.0,  0.0, 0.0, 0.0,      0.0,                                0.0),
            (vec![],                 vec!["x", "y"],   0.0,  0.0, 0.0, 0.0,      0.0,                                0.0),
            (vec!["a"],              vec!["a", "a"],   1.0,  1.0, 1.0, 1.0,      1.0,                                1.0),
        ];
        for (ranked, relevant, hit, recall_1, recall_5, complete, ndcg, mrr) in table {
            let relevant: Vec<_> = relevant.into_iter().map(str::to_owned).collect();
            let judged: BTreeMap<_, _> = judge(&ranked, &relevant).into_iter().collect();
            let expected = [
                ("hit@1", hit),
                ("recall@1", recall_1),
                ("recall@5", recall_5),
                ("complete@10", complete),
                ("ndcg@10", ndcg),
                ("mrr", mrr),
            ];
            for (name, value) in expected {
                assert!((judged[name] - value).abs() < 1e-9, "{name} of {ranked:?} for {relevant:?}: {}", judged[name]);
            }
        }
    }

    #[test]
    fn an_interval_is_around_its_mean_and_always_the_same() {
        let values: Vec<f64> = (0..200).map(|i| f64::from(i % 4 == 0)).collect();
        let interval = Interval::of(&values);
        assert_eq!(interval, Interval::of(&values));
        assert!((interval.mean - 0.25).abs() < 1e-12);
        assert!(interval.low > 0.15 && interval.low < 0.25 && interval.high > 0.25 && interval.high < 0.35);
        assert_eq!(Interval::of(&[1.0, 1.0]), Interval { mean: 1.0, low: 1.0, high: 1.0 });
    }
}
