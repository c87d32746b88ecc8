//! `pml capability proposals`: what was done several times with success and could be kept.

use std::{
    collections::{BTreeMap, HashSet},
    io::{self, Write},
    process::ExitCode,
};

use pml_wire::{ExecutionId, trace::Entry};
use serde_json::json;

use super::{
    super::print,
    command::{Desk, Outcome},
};
use crate::{
    shown::visible,
    trace::store::{Filter, Reading, Scope},
};

/// Traces that are looked at, the newest first.
const TRACES: usize = 5000;
/// How often an intent must have succeeded.
const ENOUGH: usize = 3;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,

    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Executions with the same intent and the same tools.
#[derive(Default)]
struct Group {
    succeeded: usize,
    failed: usize,
    intent: String,
    tools: Vec<String>,
    newest: Option<ExecutionId>,
}

impl Desk {
    pub(super) async fn proposals(&self, args: &Args) -> Outcome {
        let Some(store) = self.services.hub_store().map(|store| store.of(&Scope::local())) else {
            return Ok(ExitCode::SUCCESS);
        };
        let page = store.list(Filter::default(), Reading::Newest, TRACES).await?;
        let mut groups: BTreeMap<(String, Vec<String>), Group> = BTreeMap::new();
        for trace in &page.traces {
            let is_program = matches!(trace.entry, Entry::ExecuteCode | Entry::Run) && trace.parent.is_none();
            let Some(intent) = trace.intent.as_ref().filter(|_| is_program && trace.tasks > 0) else { continue };
            let mut tools: Vec<_> = trace.tools.iter().map(|(tool, _)| tool.clone()).collect();
            tools.sort();
            let words: Vec<_> = intent.to_lowercase().split_whitespace().map(str::to_owned).collect();
            let group = groups.entry((words.join(" "), tools.clone())).or_default();
            match trace.success {
                true => group.succeeded += 1,
                false => group.failed += 1,
            }
            if trace.success && group.newest.is_none() {
                (group.newest, group.intent, group.tools) = (Some(trace.id), intent.clone(), tools);
            }
        }
        let saved: HashSet<String> = self
            .saver
            .registry
            .all()
            .iter()
            .flat_map(|known| known.notes.intents.iter().map(|intent| intent.to_lowercase()).collect::<Vec<_>>())
            .collect();
        let is_proposed = |group: &Group| {
            group.succeeded >= ENOUGH
                && group.succeeded > 3 * group.failed
                && !saved.contains(&group.intent.to_lowercase())
        };
        let mut proposed: Vec<_> = groups.into_values().filter(is_proposed).collect();
        proposed.sort_by_key(|group| std::cmp::Reverse(group.succeeded));
        proposed.truncate(args.limit);
        if args.json {
            let told: Vec<_> = proposed
                .iter()
                .map(|group| {
                    json!({
                        "intent": group.intent, "succeeded": group.succeeded, "failed": group.failed, "tools": group.tools,
                        "execution_id": group.newest,
                    })
                })
                .collect();
            let _ = print::json(&json!({ "proposals": told }));
            return Ok(ExitCode::SUCCESS);
        }
        let mut out = io::stdout().lock();
        for Group { succeeded, failed, intent, tools, newest } in &proposed {
            let _ = writeln!(out, "{}", visible(intent));
            let _ = writeln!(out, "    succeeded {succeeded} times, failed {failed}: {}", visible(&tools.join(", ")));
            if let Some(id) = newest {
                let _ = writeln!(out, "    pml capability save {id} --name namespace.action");
            }
        }
        if proposed.is_empty() {
            let _ = writeln!(io::stderr(), "nothing was done {ENOUGH} times with success that is not kept yet");
        }
        Ok(ExitCode::SUCCESS)
    }
}
