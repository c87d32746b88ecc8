//! `pml capability proposals`: what was done several times with success and could be kept.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use serde_json::json;

use super::{
    super::print,
    command::{Desk, Outcome},
};
use crate::{
    learning::{ENOUGH, Proposal, Reusables, proposals},
    shown::visible,
    trace::store::Scope,
};

/// How long traces that were stored since the last time are learned: what is learned tells which capabilities are for an intent.
const LEARNED: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,

    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

impl Desk {
    pub(super) async fn proposals(&self, args: &Args) -> Outcome {
        let Some(store) = self.services.hub_store().map(|store| store.of(&Scope::local())) else {
            return Ok(ExitCode::SUCCESS);
        };
        self.services.broker.settled_learning(LEARNED).await;
        let (view, reusables) = (self.services.broker.learned(), Reusables::of(&self.services.catalog.snapshot()));
        let mut proposed = proposals(&*store, view.as_deref(), reusables.as_ref()).await?;
        proposed.truncate(args.limit);
        if args.json {
            let told: Vec<_> = proposed
                .iter()
                .map(|Proposal { intent, tools, times, execution, name }| {
                    json!({
                        "intent": intent, "succeeded": times, "tools": tools, "execution_id": execution, "name": name,
                    })
                })
                .collect();
            let _ = print::json(&json!({ "proposals": told }));
            return Ok(ExitCode::SUCCESS);
        }
        let mut out = io::stdout().lock();
        for Proposal { intent, tools, times, execution, name } in &proposed {
            let _ = writeln!(out, "{}", visible(intent));
            let _ = writeln!(out, "    succeeded {times} times: {}", visible(&tools.join(", ")));
            let _ = writeln!(out, "    pml capability save {execution} --name {name}");
        }
        if proposed.is_empty() {
            let _ = writeln!(io::stderr(), "nothing was done {ENOUGH} times with success that is not kept yet");
        }
        Ok(ExitCode::SUCCESS)
    }
}
