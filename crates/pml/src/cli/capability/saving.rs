//! `pml capability save` and `edit`.

use std::{collections::BTreeSet, io::IsTerminal as _, path::PathBuf, process::ExitCode};

use pml_wire::{ErrorCode, ExecutionId, ToolId, trace::Entry};
use serde_json::json;

use super::{
    super::{changes::say, print},
    command::{Desk, Outcome, read_text, visibility},
};
use crate::{
    capability::{CapabilityName, NewProgram, SaveOptions, Saved},
    error::Error,
    hub::store::Visibility,
    trace::store::{Filter, Found, Reading, Scope},
};

/// Traces that are looked through for the last one that ran a program.
const RECENT: usize = 100;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SaveArgs {
    /// The execution: the id of a trace, the beginning of one, or `last`
    #[arg(value_name = "EXECUTION|last", default_value = "last")]
    execution: String,

    /// What to call it: namespace.action
    #[arg(long, value_name = "NAME")]
    name: CapabilityName,

    /// What it does [default: the intent of the execution]
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Who may see it on a hub: private, project or org [default: private]
    #[arg(long, value_name = "WHO", value_parser = visibility)]
    visibility: Option<Visibility>,

    /// Run it once more, if all its calls only read, and check what it returns
    #[arg(long)]
    check: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct EditArgs {
    /// Its name, namespace.action
    name: String,

    /// The new code; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    code: Option<PathBuf>,

    /// What it does
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Who may see it on a hub: private, project or org
    #[arg(long, value_name = "WHO", value_parser = visibility)]
    visibility: Option<Visibility>,

    /// Also let it use this tool, as server:tool [may be repeated]
    #[arg(long, value_name = "TOOL")]
    tool: Vec<ToolId>,
}

impl Desk {
    pub(super) async fn save(&self, args: SaveArgs) -> Outcome {
        let store = self.services.hub_store().map(|store| store.of(&Scope::local()));
        let unknown = || {
            Error::new(ErrorCode::TraceNotFound, "no stored trace has that id")
                .with_hint("`pml trace list` shows the ids")
        };
        let store = store.ok_or_else(unknown)?;
        let id: ExecutionId = match args.execution.as_str() {
            "last" => {
                let page = store.list(Filter::default(), Reading::Newest, RECENT).await?;
                let is_program = |entry: Entry| matches!(entry, Entry::ExecuteCode | Entry::Run);
                let last = page.traces.iter().find(|trace| trace.parent.is_none() && is_program(trace.entry));
                last.map(|trace| trace.id).ok_or_else(unknown)?
            }
            prefix => match store.find(prefix).await? {
                Found::One(id) => id,
                Found::Nothing => return Err(unknown()),
                Found::Several(_) => {
                    let message = format!("several traces have an id that begins with `{prefix}`");
                    return Err(Error::new(ErrorCode::TraceNotFound, message).with_hint("give more of it"));
                }
            },
        };
        let trace = store.by_id(id).await?.ok_or_else(unknown)?;
        let program = NewProgram::of(trace.trace())?;
        self.learn(&program.tools).await;
        let options = SaveOptions { description: args.description, visibility: args.visibility };
        let saved = self.saver.save(program, &args.name, options).await?;
        let code = match args.check {
            true => self.check(&saved.capability, false).await?,
            false => ExitCode::SUCCESS,
        };
        match args.json {
            true => {
                let Saved { capability, is_new, is_known } = &saved;
                let told = json!({
                    "name": capability.name.to_string(), "fqdn": &*capability.fqdn, "version": capability.version,
                    "new": is_new, "known": is_known, "parameters": capability.parameters, "execution_id": id,
                    "tools": capability.notes.tools,
                });
                let _ = print::json(&told);
            }
            false => tell(&saved),
        }
        Ok(code)
    }

    /// Starts the servers of these tools of which nothing is known, so that it can be checked whether the tools are there.
    async fn learn(&self, tools: &BTreeSet<String>) {
        let snapshot = self.services.catalog.snapshot();
        let servers: BTreeSet<_> =
            tools.iter().filter_map(|tool| tool.parse::<ToolId>().ok()).map(|tool| tool.server().to_owned()).collect();
        for server in servers.iter().filter_map(|name| self.services.servers.get(name)) {
            if snapshot.listing(&server.settings().name).is_none() {
                // A server that does not start is not known to lack anything.
                let _ = server.init().await;
            }
        }
    }

    pub(super) async fn edit(&self, args: EditArgs) -> Outcome {
        let mut capability = (*self.find(&args.name)?).clone();
        if args.code.is_none() && args.description.is_none() && args.visibility.is_none() && args.tool.is_empty() {
            let message = "nothing is to be changed";
            return Err(Error::new(ErrorCode::ConfigInvalid, message)
                .with_hint("give --code, --description, --visibility or --tool"));
        }
        let mut tools: BTreeSet<_> = capability.notes.tools.iter().map(|saved| saved.tool.clone()).collect();
        tools.extend(args.tool.iter().map(ToString::to_string));
        self.learn(&tools).await;
        if let Some(path) = &args.code {
            let program = NewProgram { code: read_text(path)?, tools, ..NewProgram::default() };
            let options = SaveOptions { description: args.description, visibility: args.visibility };
            let saved = self.saver.save(program, &capability.name, options).await?;
            tell(&saved);
            return Ok(ExitCode::SUCCESS);
        }
        capability.notes.tools = self.saver.saved_tools(&tools)?;
        self.saver.registry.change(&capability, args.description, args.visibility).await?;
        say(&format!("`{}` is changed", capability.name));
        Ok(ExitCode::SUCCESS)
    }
}

fn tell(saved: &Saved) {
    let Saved { capability, is_new, is_known } = saved;
    let (name, version) = (&capability.name, capability.version);
    match (is_known, is_new) {
        (true, _) => say(&format!("`{name}` has this code already, as version {version}")),
        (_, true) => say(&format!("saved as `{name}`")),
        (_, false) => say(&format!("saved as version {version} of `{name}`")),
    }
    if std::io::stderr().is_terminal() {
        say(&format!(
            "call it with `pml capability run {name}`, or in programs with `mcp.capabilities.{}(…)`",
            name.in_code()
        ));
    }
}
