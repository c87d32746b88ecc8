//! `pml capability save` and `edit`.

use std::{
    collections::{BTreeSet, HashSet},
    io::IsTerminal as _,
    path::PathBuf,
    process::ExitCode,
};

use pml_wire::{
    ErrorCode, ExecutionId, ToolId,
    trace::{Entry, Timestamp, Trace},
};
use serde_json::json;

use super::{
    super::{CLI, changes::say, print},
    command::{Desk, Outcome, read_text, visibility},
    running::Purpose,
};
use crate::{
    capability::{CapabilityName, NewProgram, SaveOptions, Saved, Written},
    error::Error,
    hub::store::Visibility,
    shown::visible,
    trace::store::{Filter, Found, Reading, Scope, Store},
};

/// Traces that are looked through for the last one that ran a program.
const RECENT: usize = 100;
/// What a program calls to run a workflow.
const EXECUTE_WORKFLOW: &str = "pml:execute_workflow";
/// Traces that are looked through for the parts of an execution.
const PARTS: usize = 10_000;

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
                last.map(|trace| trace.id).ok_or_else(|| {
                    let message = "no program has run yet that could be saved";
                    let hint = "run one with `pml run`, or by a client; `pml trace list` shows what has run";
                    Error::new(ErrorCode::TraceNotFound, message).with_hint(hint)
                })?
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
        let mut program = NewProgram::of(trace.trace())?;
        program.tools.extend(tools_of_parts(&*store, trace.trace()).await?);
        self.learn(&program.tools).await;
        let intent = program.intent.clone().unwrap_or_default();
        let options = SaveOptions {
            description: args.description,
            visibility: args.visibility,
            author: Some(CLI.to_owned()),
            written: Written::Run,
        };
        let draft = self.saver.draft(program, &args.name, options).await?;
        if args.check {
            let code = self.check(&draft.capability, Purpose::Draft, false).await?;
            if code != ExitCode::SUCCESS {
                say(&format!("`{}` is not saved", args.name));
                return Ok(code);
            }
        }
        let saved = self.saver.keep(draft).await?;
        match args.json {
            true => {
                let Saved { capability, is_new, is_known, notes } = &saved;
                let told = json!({
                    "name": capability.name.to_string(), "fqdn": &*capability.fqdn, "version": capability.version,
                    "new": is_new, "known": is_known, "parameters": capability.parameters, "execution_id": id,
                    "tools": capability.notes.tools, "notes": notes,
                });
                let _ = print::json(&told);
            }
            false => {
                tell(&saved);
                let what = if intent.is_empty() { String::new() } else { format!(", \"{}\"", visible(&intent)) };
                say(&format!("it is the program of execution {id}{what}"));
            }
        }
        Ok(ExitCode::SUCCESS)
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
            let options = SaveOptions {
                description: args.description,
                visibility: args.visibility,
                author: Some(CLI.to_owned()),
                written: Written::ByHand,
            };
            let saved = self.saver.save(program, &capability.name, options).await?;
            tell(&saved);
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(text) = &args.description {
            self.saver.check_description(text)?;
        }
        capability.notes.tools = self.saver.saved_tools(&tools)?;
        self.saver.check_cycles(&capability.name, &capability.notes.tools)?;
        self.saver.registry.change(&capability, args.description, args.visibility).await?;
        say(&format!("`{}` is changed", capability.name));
        Ok(ExitCode::SUCCESS)
    }
}

/// What the workflows used that an execution ran, and the programs in them. What capabilities used is their own.
async fn tools_of_parts(store: &dyn Store, trace: &Trace) -> Result<BTreeSet<String>, Error> {
    let mut tools = BTreeSet::new();
    if !trace.task_results.iter().any(|task| task.tool == EXECUTE_WORKFLOW) {
        return Ok(tools);
    }
    let end = trace.timestamp.0.saturating_add(trace.duration_ms.ceil() as u64).saturating_add(1);
    let filter = Filter { since: Some(trace.timestamp), before: Some(Timestamp(end)), ..Filter::default() };
    let mut listed = store.list(filter, Reading::Newest, PARTS).await?.traces;
    listed.sort_by_key(|part| part.timestamp);
    let mut parts = HashSet::from([trace.trace_id]);
    // A part may have begun in the same millisecond as what is around it.
    while let Some(at) = listed
        .iter()
        .position(|it| it.entry == Entry::Workflow && it.parent.is_some_and(|parent| parts.contains(&parent)))
    {
        let part = listed.remove(at);
        parts.insert(part.id);
        if let Some(stored) = store.by_id(part.id).await? {
            tools.extend(NewProgram::tools_of(stored.trace()));
        }
    }
    // What pml runs them with is no tool of anybody.
    tools.retain(|tool| !tool.starts_with("pml:"));
    Ok(tools)
}

fn tell(saved: &Saved) {
    let Saved { capability, is_new, is_known, notes } = saved;
    let (name, version) = (&capability.name, capability.version);
    match (is_known, is_new) {
        (true, _) => say(&format!(
            "`{name}` has this code already, as version {version}; what is told of it and its defaults are as they were saved now"
        )),
        (_, true) => say(&format!("saved as `{name}`")),
        (_, false) => say(&format!("saved as version {version} of `{name}`")),
    }
    notes.iter().for_each(|note| say(&format!("note: {note}")));
    if std::io::stderr().is_terminal() {
        say(&format!("call it with `pml capability run {name}`, or in programs with `{}(…)`", name.as_called()));
    }
}
