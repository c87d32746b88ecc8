//! Tools and traces, as files with a JSON object per line.

use std::{fs, io, path::Path};

use pml_wire::ErrorCode;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::error::Error;

/// A tool, as `pml eval` reads it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolLine {
    pub(super) id: String,
    #[serde(default)]
    pub(super) server: Option<String>,
    /// The server, in files that were not made for pml.
    #[serde(default)]
    pub(super) group: Option<String>,
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: Option<String>,
    #[serde(default)]
    pub(super) input_schema: Value,
}

/// An execution, as a line of a file tells it.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub(super) intent: String,
    /// Tools and whether their calls succeeded.
    pub(super) steps: Vec<(String, bool)>,
    pub(super) success: bool,
    pub(super) caller: String,
    /// The conversation that it is of.
    pub(super) group: Option<String>,
    pub(super) time_ms: i64,
}

#[derive(Debug, Deserialize)]
struct TraceLine {
    intent: String,
    steps: Vec<StepLine>,
    #[serde(default = "succeeded")]
    success: bool,
    #[serde(default)]
    caller: String,
    #[serde(default)]
    group: Option<String>,
    /// Milliseconds since 1970. Traces without one are of the same moment.
    #[serde(default)]
    timestamp_ms: i64,
}

#[derive(Debug, Deserialize)]
struct StepLine {
    tool: String,
    #[serde(default = "succeeded")]
    success: bool,
}

fn succeeded() -> bool {
    true
}

/// Reads all lines but empty ones, each with its number. `command` is whose help says what a line has.
pub(super) fn read_lines<T: DeserializeOwned>(path: &Path, command: &str) -> Result<Vec<(usize, T)>, Error> {
    let text = fs::read_to_string(path).map_err(|err| unusable(path, "read", &err))?;
    let text = text.trim_start_matches('\u{feff}');
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parse = |(number, line): (usize, &str)| match serde_json::from_str(line) {
        Ok(parsed) => Ok((number + 1, parsed)),
        Err(err) => Err(wrong_line(path, number + 1, &err.to_string(), command)),
    };
    lines.map(parse).collect()
}

pub(super) fn wrong_line(path: &Path, number: usize, why: &str, command: &str) -> Error {
    let message = format!("line {number} of `{}` cannot be understood: {why}", path.display());
    Error::new(ErrorCode::ConfigInvalid, message).with_hint(format!("`pml eval {command} --help` says what a line has"))
}

pub(super) fn unusable(path: &Path, verb: &str, err: &io::Error) -> Error {
    Error::new(ErrorCode::ConfigInvalid, format!("`{}` cannot be {verb}: {err}", path.display()))
}

/// Reads a file of traces.
pub(super) fn read_traces(path: &Path, command: &str) -> Result<Vec<Trace>, Error> {
    let lines: Vec<(usize, TraceLine)> = read_lines(path, command)?;
    let read = |(number, line): (usize, TraceLine)| {
        if let Some(step) = line.steps.iter().find(|step| step.tool.is_empty()) {
            return Err(wrong_line(path, number, &format!("`tool` is `{}`", step.tool), command));
        }
        Ok(Trace {
            intent: line.intent,
            steps: line.steps.into_iter().map(|step| (step.tool, step.success)).collect(),
            success: line.success,
            caller: line.caller,
            group: line.group,
            time_ms: line.timestamp_ms,
        })
    };
    lines.into_iter().map(read).collect()
}

impl Trace {
    /// Tools whose calls succeeded, in order.
    pub(super) fn succeeded(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter(|(_, succeeded)| *succeeded).map(|(tool, _)| tool.as_str())
    }
}

/// Fisher and Yates, with SplitMix64.
pub(super) fn shuffle(items: &mut [usize], seed: u64) {
    let mut state = seed;
    for left in (2..=items.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        items.swap(left - 1, (mixed % left as u64) as usize);
    }
}
