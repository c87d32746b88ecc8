//! `pml trace export`.

use std::{
    io::{self, Write},
    path::Path,
};

use clap::ValueEnum;

use super::command::{Selection, Stop, open_archive, say_none};
use crate::{
    config::Config,
    shown::visible_json,
    trace::{
        SanitizedTrace,
        export::{self, Payloads},
        store::{Cursor, Reading},
    },
};

/// Traces that are looked up at once.
const PAGE: usize = 200;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    selection: Selection,

    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,

    /// With otlp-json: also arguments and results
    #[arg(long)]
    payloads: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Each trace as `pml trace show --json` prints it
    Jsonl,
    /// Each trace as a request of the OpenTelemetry protocol, as the collector's file receiver reads it
    OtlpJson,
}

pub(super) async fn run(args: &Args, config: &Config, data_dir: &Path) -> Result<(), Stop> {
    let filter = args.selection.filter()?;
    let Some(store) = open_archive(&args.selection.hub, config, data_dir).await? else {
        say_none(config);
        return Ok(());
    };
    let mut end = Cursor::default();
    let mut out = io::BufWriter::new(io::stdout().lock());
    loop {
        let page = store.list(filter.clone(), Reading::StoredAfter(end), PAGE).await?;
        for summary in &page.traces {
            // Deleted meanwhile, otherwise.
            if let Some(trace) = store.by_id(summary.id).await? {
                writeln!(out, "{}", visible_json(&line(args, &trace)?))?;
            }
        }
        // Traces that are stored while this runs are left out once the end was reached.
        if page.next.is_none() {
            break;
        }
        end = page.end;
    }
    out.flush()?;
    Ok(())
}

fn line(args: &Args, trace: &SanitizedTrace) -> io::Result<String> {
    let payloads = if args.payloads { Payloads::Include } else { Payloads::Omit };
    Ok(match args.format {
        Format::Jsonl => serde_json::to_string(trace.trace())?,
        Format::OtlpJson => export::request(trace, payloads).to_string(),
    })
}
