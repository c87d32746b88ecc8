//! `pml learn`: what was learned from traces.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Subcommand;
use pml_learn::{SpeculationStatus, Status};
use pml_wire::ErrorCode;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{USAGE, fail, print, with_servers};
use crate::{
    config::Config,
    error::Error,
    learning::{Order, Orders, Progress, View, take_over},
    serve::Services,
    trace::store::{self, Archive as _, Filter, Reading, SqliteStore},
};

/// How long a command waits for traces to be learned.
const CATCH_UP: Duration = Duration::from_secs(30);
/// Largest file that is imported, in bytes.
const MOST_IMPORTED: u64 = 16 << 20;
const REBUILD: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// Say how much was learned, and whether it is used
    Status {
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Forget everything; traces that are stored by now do not count any more
    Reset,
    /// Learn anew from all stored traces
    Rebuild,
    /// Write what was learned for others, without texts of intents, callers and times, to a file
    Export { file: PathBuf },
    /// Use what others have learned beside what was learned here, in place of an earlier import
    Import { file: PathBuf },
    /// Learn no more, and use nothing of what was learned; it is kept
    Off,
    /// Learn, and use what was learned
    On,
}

pub(super) async fn run(what: What, config: Config) -> ExitCode {
    let Some(data_dir) = config.data_dir.clone() else {
        let message = "there is no folder in which anything could be learned";
        return fail(&Error::new(ErrorCode::ConfigInvalid, message).with_hint("name one with --data-dir"), USAGE);
    };
    let done = match what {
        What::Status { json } => status(&config, &data_dir, json).await,
        What::Reset => match end_of_store(&config, &data_dir).await {
            Ok(end) => give(&data_dir, Order::Reset { end }, "everything that was learned is forgotten"),
            Err(err) => Err(err),
        },
        What::Rebuild => rebuild(&config, &data_dir).await,
        What::Export { file } => export(&config, &file).await,
        What::Import { file } => import(&data_dir, &file),
        What::Off => give(&data_dir, Order::Off, "learning is off; `pml learn on` goes on where it was"),
        What::On => give(&data_dir, Order::On, "learning is on"),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => fail(&err, 1),
    }
}

fn give(data_dir: &Path, order: Order, said: &str) -> Result<(), Error> {
    Orders::give(data_dir, order).map_err(|err| {
        let message = format!("the order cannot be written to `{}`: {err}", data_dir.display());
        Error::new(ErrorCode::ConfigInvalid, message)
    })?;
    say(said);
    Ok(())
}

fn say(text: &str) {
    // If stderr is closed there is nobody to tell.
    let _ = writeln!(io::stderr(), "{text}");
}

/// The place in the store behind everything that is there.
async fn end_of_store(config: &Config, data_dir: &Path) -> Result<String, Error> {
    if !store::is_there(data_dir) {
        return Ok(store::Cursor::default().to_string());
    }
    let store = SqliteStore::open(data_dir, config.traces.options.clone());
    store.opened().await;
    Ok(store.list(Filter::default(), Reading::Newest, 1).await?.end.to_string())
}

async fn rebuild(config: &Config, data_dir: &Path) -> Result<(), Error> {
    give(data_dir, Order::Rebuild, "learning anew from all stored traces")?;
    let (view, progress) = learned(config, REBUILD).await?;
    match progress {
        Progress::Failed(why) => {
            Err(Error::new(ErrorCode::TraceStoreFailed, format!("the stored traces cannot be learned: {why}")))
        }
        Progress::Off => {
            say("learning is off; the traces are learned once it is on");
            Ok(())
        }
        _ => {
            let traces = view.learned().map_or(0, |learned| learned.status().traces);
            say(&format!("learned {traces} traces"));
            Ok(())
        }
    }
}

async fn export(config: &Config, file: &Path) -> Result<(), Error> {
    let (view, _) = learned(config, CATCH_UP).await?;
    let unusable = |why: String| Error::new(ErrorCode::ConfigInvalid, why);
    let bytes = view.to_document().ok_or_else(|| unusable("nothing was learned that others could use".to_owned()))?;
    fs::write(file, bytes).map_err(|err| unusable(format!("`{}` cannot be written: {err}", file.display())))
}

fn import(data_dir: &Path, file: &Path) -> Result<(), Error> {
    let unusable = |err: io::Error| {
        Error::new(ErrorCode::ConfigInvalid, format!("`{}` cannot be used: {err}", file.display()))
            .with_hint("`pml learn export` writes such a file")
    };
    let size = fs::metadata(file).map_err(unusable)?.len();
    if size > MOST_IMPORTED {
        return Err(unusable(io::Error::other(format!("it has {size} bytes, more than {MOST_IMPORTED}"))));
    }
    let evidence = take_over(data_dir, &fs::read(file).map_err(unusable)?).map_err(unusable)?;
    say(&format!("what others have learned counts for {evidence:.0} traces at most"));
    Ok(())
}

/// What was learned, once what is stored is.
async fn learned(config: &Config, at_most: Duration) -> Result<(Arc<View>, Progress), Error> {
    with_servers(config, async |services: Arc<Services>, interrupt: CancellationToken| {
        let progress = tokio::select! {
            progress = services.broker.settled_learning(at_most) => progress,
            () = interrupt.cancelled() => return Err(Error::new(ErrorCode::Cancelled, "interrupted")),
        };
        Ok((services.broker.learned().unwrap_or_else(|| Arc::new(View::nothing())), progress))
    })
    .await?
}

async fn status(config: &Config, data_dir: &Path, is_json: bool) -> Result<(), Error> {
    let orders = Orders::read(data_dir);
    let state = match (config.learns, config.traces.enabled, orders.is_off) {
        (false, ..) => "off: `learning.enabled` is false",
        (_, false, _) => "off: `trace.enabled` is false",
        (.., true) => "off: `pml learn on` switches it on",
        _ => "on",
    };
    let (view, progress) = learned(config, CATCH_UP).await?;
    let nothing = pml_learn::Learned::new(pml_learn::Settings::default());
    let learned = view.learned().unwrap_or(&nothing);
    let (status, speculation) = (learned.status(), learned.speculation());
    let speculates = match (config.speculates, state, speculation.is_on) {
        (false, ..) => "off: `learning.speculate` is not true",
        (true, "on", true) => "on",
        (true, "on", false) => "off by itself: too few answers were used",
        (true, ..) => "off: nothing is learned",
    };
    let SpeculationStatus { made, used, judged, good, lower_bound, forecasts, .. } = speculation;
    let Status { traces, evidence, remembered, names, edges, is_open, gain, .. } = &status;
    let error = match &progress {
        Progress::Failed(why) => Some(why.as_str()),
        _ => None,
    };
    let is_behind = progress == Progress::Behind;
    if is_json {
        let report = json!({
            "state": state, "traces": traces, "evidence": evidence, "remembered": remembered, "tools": names, "edges": edges,
            "types": view.types(), "others": view.others(), "used": { "set": is_open[0], "next": is_open[1] },
            "gain": { "set": gain[0], "next": gain[1] }, "behind": is_behind, "error": error,
            "speculation": {
                "state": speculates, "made": made, "used": used, "judged": judged, "good": good,
                "lower_bound": lower_bound, "forecasts": forecasts,
            },
        });
        return print::json(&report).map_err(closed);
    }
    let gained = |is_open: bool, gain: f64| match is_open {
        true => format!("used (mean gain in reciprocal rank over the search {gain:+.3})"),
        false => format!("not used: the search is better ({gain:+.3})"),
    };
    let mut out = io::stdout().lock();
    let lines = [
        format!("learning      {state}"),
        format!(
            "traces        {traces} learned, {remembered} intents remembered{}",
            if is_behind { ", more to come" } else { "" }
        ),
        format!("tools         {names}, with {edges} edges between them"),
        format!("result types  {}", view.types()),
        format!("for searches  {}", gained(is_open[0], gain[0])),
        format!("for the next  {}", gained(is_open[1], gain[1])),
        format!("speculation   {speculates}"),
        format!("  calls ahead {made} made, {used} used; {good} of the last {judged} good (at least {lower_bound:.2})"),
    ];
    for line in lines.iter().map(String::as_str).chain(error) {
        writeln!(out, "{line}").map_err(closed)?;
    }
    Ok(())
}

fn closed(err: io::Error) -> Error {
    Error::new(ErrorCode::Cancelled, "nobody reads the output").caused_by(err)
}
