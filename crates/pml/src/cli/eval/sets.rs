//! Tools and traces that something is measured on: what `pml eval learn` and `pml eval capabilities` have in common.

use std::{
    collections::HashSet,
    io::{self, Write},
    path::PathBuf,
};

use pml_wire::ErrorCode;

use super::lines::{ToolLine, Trace, read_lines, read_traces};
use crate::error::Error;

/// Orders of the training traces, at most: each takes as long as the first.
const MOST_SEEDS: u64 = 1000;

#[derive(Debug, clap::Args)]
pub(super) struct SetArgs {
    /// Tools, a JSON object per line: id, name, description, server or group, inputSchema
    #[arg(long, value_name = "FILE")]
    pub(super) tools: PathBuf,

    /// Traces to learn from, in order, a JSON object per line: intent, steps (each with tool and success), success
    #[arg(long, value_name = "FILE")]
    train: PathBuf,

    /// Traces to be judged on, of the same form
    #[arg(long, value_name = "FILE")]
    test: PathBuf,

    /// Orders of the training traces: as they are, then shuffled; what is reported is about all of them together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MOST_SEEDS))]
    pub(super) seeds: u64,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(super) json: bool,
}

/// What is in the files.
pub(super) struct Sets {
    pub(super) tools: Vec<(usize, ToolLine)>,
    pub(super) train: Vec<Trace>,
    pub(super) test: Vec<Trace>,
}

impl SetArgs {
    /// Reads the files for a command of `pml eval`.
    pub(super) fn read(&self, command: &'static str) -> Result<Sets, Error> {
        let tools = read_lines(&self.tools, command)?;
        let (train, test) = (read_traces(&self.train, command)?, read_traces(&self.test, command)?);
        if test.iter().all(|trace| trace.succeeded().next().is_none()) {
            let message = format!("`{}` has no trace with a successful step: nothing to measure", self.test.display());
            return Err(Error::new(ErrorCode::ConfigInvalid, message));
        }
        Ok(Sets { tools, train, test })
    }
}

impl Sets {
    /// Warns of test traces that explain a bad or a too good result.
    pub(super) fn warn_about_tests(&self) {
        let mut stderr = io::stderr();
        let aimless = self.test.iter().filter(|trace| trace.succeeded().next().is_none()).count();
        if aimless > 0 {
            let _ = writeln!(stderr, "warning: {aimless} test traces have no successful step; they are not judged");
        }
        let learned: HashSet<&str> = self.train.iter().map(|trace| trace.intent.as_str()).collect();
        let leaked = self.test.iter().filter(|trace| learned.contains(trace.intent.as_str())).count();
        if leaked > 0 {
            let _ = writeln!(stderr, "warning: {leaked} test traces have an intent that is also learned from");
        }
    }
}
