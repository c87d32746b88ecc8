//! `pml trace stats`.

use std::{
    io::{self, Write},
    path::Path,
};

use serde_json::json;

use super::{
    super::print,
    command::{Selection, Stop, open, say_none},
    list::one_line,
    moment,
};
use crate::{
    config::Config,
    shown::visible,
    trace::store::{Archive, Health, Stats},
};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    selection: Selection,

    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &Args, config: &Config, data_dir: &Path) -> Result<(), Stop> {
    let filter = args.selection.filter()?;
    if let Some(archive) = args.selection.hub.archive(config).map_err(Stop::Usage)? {
        let stats = archive.stats(filter).await?;
        match args.json {
            true => to_json(&stats, None)?,
            false => numbers(&mut io::stdout().lock(), &stats)?,
        }
        return Ok(());
    }
    let Some(store) = open(config, data_dir).await else {
        say_none(config);
        if args.json {
            to_json(&Stats::default(), None)?;
        }
        return Ok(());
    };
    let stats = store.stats(filter).await?;
    match args.json {
        true => to_json(&stats, Some(&store.health()))?,
        false => text(&mut io::stdout().lock(), &stats, &store.health())?,
    }
    Ok(())
}

fn to_json(stats: &Stats, health: Option<&Health>) -> io::Result<()> {
    let tool = |tool: &crate::trace::store::ToolStats| {
        json!({
            "tool": tool.tool, "calls": tool.calls, "failed": tool.failed, "p50Ms": tool.p50_ms, "p95Ms": tool.p95_ms,
            "resultBytes": tool.result_bytes,
        })
    };
    let counts: serde_json::Map<_, _> = stats.counts.iter().map(|(what, n)| (what.clone(), json!(n))).collect();
    print::json(&json!({
        "traces": stats.traces, "failed": stats.failed, "interrupted": stats.interrupted, "first": stats.first,
        "last": stats.last, "intermediateBytes": stats.intermediate_bytes, "answerBytes": stats.answer_bytes,
        "tokensKeptOut": stats.tokens_kept_out(), "tools": stats.tools.iter().map(tool).collect::<Vec<_>>(),
        "counts": counts, "storedBytes": stats.stored_bytes, "unsent": stats.unsent, "dead": stats.dead,
        "store": health.map(|health| json!({
            "state": health.state.as_str(), "message": health.state.to_string(), "path": health.place,
            "setAside": health.set_aside,
        })),
    }))
}

fn text(out: &mut impl Write, stats: &Stats, health: &Health) -> io::Result<()> {
    numbers(out, stats)?;
    let path = health.place.clone();
    writeln!(
        out,
        "\nstore: {} in {}; {}",
        size(stats.stored_bytes),
        visible(&path),
        visible(&health.state.to_string())
    )?;
    if let Some(hint) = health.state.hint() {
        writeln!(out, "  hint: {}", visible(&hint))?;
    }
    for (what, count) in &stats.counts {
        let meaning = match what.as_str() {
            "late" => "answers did not wait for their trace, which was stored later",
            "dropped_queue_full" => "traces were dropped: too many waited for the disk",
            "dropped_too_large" => "traces were dropped: too large",
            "dropped_refused" => "traces were dropped: the store could not take them",
            "conflicts" => "traces had the id of another",
            other => other,
        };
        writeln!(out, "  {count} {}", visible(meaning))?;
    }
    for aside in &health.set_aside {
        writeln!(out, "  a damaged store is kept as {}", visible(&aside.display().to_string()))?;
    }
    out.flush()
}

/// What is known of traces wherever they are.
fn numbers(out: &mut impl Write, stats: &Stats) -> io::Result<()> {
    let span = stats.first.zip(stats.last).map(|(first, last)| {
        format!(", from {} to {} ({})", moment::local(first), moment::local(last), moment::offset(last))
    });
    let (traces, failed, interrupted) = (stats.traces, stats.failed, stats.interrupted);
    writeln!(out, "{traces} traces, {failed} failed ({interrupted} interrupted){}", span.unwrap_or_default())?;
    writeln!(
        out,
        "kept out of the model's context: about {} tokens (results of calls {}, answers {})",
        stats.tokens_kept_out(),
        size(stats.intermediate_bytes),
        size(stats.answer_bytes)
    )?;
    if !stats.tools.is_empty() {
        let width = stats.tools.iter().map(|tool| tool.tool.chars().count()).max().unwrap_or(0).clamp(4, 50);
        writeln!(
            out,
            "\n{:<width$}  {:>7}  {:>7}  {:>9}  {:>9}  {:>9}",
            "TOOL", "CALLS", "FAILED", "P50", "P95", "RESULTS"
        )?;
        for tool in &stats.tools {
            let name = one_line(&tool.tool, 50);
            let [p50, p95] = [tool.p50_ms, tool.p95_ms].map(print::millis);
            let (calls, failed, results) = (tool.calls, tool.failed, size(tool.result_bytes));
            writeln!(out, "{name:<width$}  {calls:>7}  {failed:>7}  {p50:>9}  {p95:>9}  {results:>9}")?;
        }
    }
    Ok(())
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} KB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}
