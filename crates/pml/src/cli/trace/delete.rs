//! `pml trace delete`.

use std::{
    io::{self, Write},
    path::Path,
};

use super::{
    command::{Stop, find, open},
    moment,
};
use crate::{
    config::Config,
    trace::store::{Archive, Deletion, RawStore, Store},
};

#[derive(Debug, clap::Args)]
#[group(id = "which", required = true, multiple = false)]
pub(in crate::cli) struct Args {
    /// The id of a trace, or the beginning of one
    #[arg(value_name = "ID", group = "which")]
    id: Option<String>,

    /// Every trace of an execution that began before: 30d, yesterday, 2026-01-31, or RFC 3339
    #[arg(long, value_name = "T", group = "which")]
    before: Option<String>,

    /// Every trace
    #[arg(long, group = "which")]
    all: bool,
}

pub(super) async fn run(args: &Args, config: &Config, data_dir: &Path) -> Result<(), Stop> {
    let store = open(config, data_dir).await;
    let what = match (&args.id, &args.before) {
        (Some(id), _) => Deletion::One(find(store.as_ref().map(|store| store as &dyn Archive), id).await?),
        (None, Some(before)) => Deletion::Before(moment::parse("--before", before)?),
        (None, None) => Deletion::All,
    };
    let deleted = match &store {
        Some(store) => store.delete(what.clone()).await?,
        None => 0,
    };
    // What `trace.raw` has kept of them goes with them.
    let raw = match RawStore::of(data_dir, config.traces.options.clone()) {
        Some(raw) => raw.delete(what).await?,
        None => 0,
    };
    let traces = if deleted == 1 { "trace" } else { "traces" };
    let with = if raw > 0 { format!(", and {raw} kept as they were") } else { String::new() };
    writeln!(io::stdout(), "{deleted} {traces} deleted{with}")?;
    Ok(())
}
