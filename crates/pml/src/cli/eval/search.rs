//! `pml eval search`: how good the search is, on anybody's tools and queries.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    io::{self, Write},
    path::PathBuf,
};

use pml_search::{Index, Mode, ToolText};
use pml_wire::ErrorCode;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::{
    judged::{Interval, SHOWN, percentile, quality},
    lines::{ToolLine, read_lines, unusable},
};
use crate::{
    catalog::{built_in_model, load_model},
    error::Error,
};

/// Ranks that `--run` writes and that MRR looks at; what is found later is as good as not found.
const RANKS: usize = 100;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Tools, a JSON object per line: id, server, name, description, inputSchema
    #[arg(long, value_name = "FILE")]
    tools: PathBuf,

    /// Queries, a JSON object per line: query, relevant (ids of tools)
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,

    /// Which half of the search to use, or both
    #[arg(long, value_name = "MODE", default_value = "hybrid")]
    mode: ModeArg,

    /// A directory with all-MiniLM-L6-v2, to be used beside the table in place of the built-in encoder
    #[arg(long, value_name = "DIR")]
    model_dir: Option<PathBuf>,

    /// Only the table, as it answers until the encoder has read the tools
    #[arg(long, conflicts_with = "model_dir")]
    table: bool,

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
struct QueryLine {
    query: String,
    relevant: Vec<String>,
}

/// Measures and prints. The inner error is that of printing.
pub(super) fn run(args: &Args) -> Result<io::Result<()>, Error> {
    search(args).map(|report| report.print(args.json))
}

fn search(args: &Args) -> Result<Report, Error> {
    let tools: Vec<(usize, ToolLine)> = read_lines(&args.tools, "search")?;
    let tools: Vec<ToolLine> = tools.into_iter().map(|(_, tool)| tool).collect();
    let queries: Vec<(usize, QueryLine)> = read_lines(&args.queries, "search")?;
    let queries: Vec<QueryLine> = queries.into_iter().map(|(_, query)| query).collect();
    if tools.is_empty() {
        return Err(Error::new(ErrorCode::ConfigInvalid, format!("`{}` has no tools", args.tools.display())));
    }
    if queries.iter().all(|query| query.relevant.is_empty()) {
        let message = format!("`{}` has no query with a relevant tool: nothing to measure", args.queries.display());
        return Err(Error::new(ErrorCode::ConfigInvalid, message).with_hint("name at least one id in `relevant`"));
    }
    let mut index = match &args.model_dir {
        Some(folder) => Index::with(load_model(folder)?),
        None if args.table => Index::new(),
        None => Index::with(built_in_model()),
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

const METRICS: [&str; 7] = ["hit@1", "recall@1", "recall@5", "recall@10", "complete@10", "ndcg@10", "mrr"];

/// How well one query was answered, by each measure.
fn judge(ranked: &[&str], relevant: &[String]) -> [(&'static str, f64); 7] {
    let relevant: HashSet<&str> = relevant.iter().map(String::as_str).collect();
    let is_good: Vec<bool> = ranked.iter().map(|id| relevant.contains(id)).collect();
    let quality = quality(&is_good, relevant.len());
    [
        ("hit@1", quality.hit_1),
        ("recall@1", quality.recall_1),
        ("recall@5", quality.recall_5),
        ("recall@10", quality.recall_10),
        ("complete@10", quality.complete_10),
        ("ndcg@10", quality.ndcg_10),
        ("mrr", quality.mrr),
    ]
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
}
