//! `pml capability run` and `test`.

use std::{process::ExitCode, sync::Arc};

use pml_wire::{ErrorCode, ToolId, json as wire_json, trace::Entry};
use serde_json::{Map, Value, value::RawValue};

use super::{
    super::{CLI, changes::say, run::report},
    command::{Desk, Outcome},
};
use crate::{
    broker::{CAPABILITIES, OWN},
    capability::{Capability, refused, with_defaults},
    catalog::{Pace, Tool},
    error::Error,
    execution::{self, Outcome as RunOutcome, Request},
    trace::{Context, Program},
};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct RunArgs {
    /// Its name, namespace.action
    name: String,

    /// Its arguments, a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}", hide_default_value = true, allow_hyphen_values = true)]
    args: String,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct TestArgs {
    /// Its name, namespace.action
    name: String,

    /// Run it even if its calls may change something
    #[arg(long)]
    yes: bool,
}

/// Why a capability is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Use,
    /// To see whether it works. It is not stored yet, so no trace can name it.
    Draft,
}

impl Desk {
    pub(super) async fn run(&self, args: RunArgs) -> Outcome {
        let capability = self.find(&args.name)?;
        let wrong = |message: String| Error::new(ErrorCode::ConfigInvalid, message);
        let value = match RawValue::from_string(args.args.trim().to_owned()) {
            Ok(value) if wire_json::depth(value.get()) <= wire_json::MAX_DEPTH => value,
            Ok(_) => return Err(wrong("the value of --args is nested too deep".to_owned())),
            Err(err) => {
                let hint = "quote it for the shell, as in --args '{\"name\": \"value\"}'";
                return Err(wrong(format!("the value of --args is not JSON: {err}")).with_hint(hint));
            }
        };
        check_arguments(&capability, &value)?;
        if let Some(why) = &capability.notes.deprecated {
            say(&format!("warning: `{}` is deprecated: {why}", capability.name));
        }
        if let Some(path) = self.saver.registry.cycle(&capability.name, &capability.notes.tools) {
            let message = format!("`{}` calls itself: {}", capability.name, path.join(" calls "));
            return Err(Error::new(ErrorCode::CapabilityCycle, message));
        }
        let outcome = self.run_once(&capability, Purpose::Use, value).await;
        Ok(report(&outcome, args.json))
    }

    /// Runs a capability as an execution of its own.
    async fn run_once(&self, capability: &Capability, purpose: Purpose, args: Box<RawValue>) -> RunOutcome {
        let intent = capability.notes.intents.first().unwrap_or(&capability.description).clone();
        let context = Arc::new(match purpose {
            Purpose::Use => Context::new(Entry::Capability, CLI)
                .with_intent(Some(intent))
                .with_capability(capability.id, Arc::clone(&capability.fqdn)),
            Purpose::Draft => Context::new(Entry::Run, CLI).with_intent(Some(intent)),
        });
        let args = with_defaults(capability, args);
        self.services.recorder.ready().await;
        let record = self.services.recorder.begin(context, Some(Program { code: &capability.code, args: &args }));
        let request = Request {
            recording: record.recording().clone(),
            name: format!("{}.ts", capability.name),
            args,
            ..Request::new(&*capability.code)
        };
        let door = self.services.broker.with_only(self.saver.registry.only(capability));
        self.services.anticipate(&capability.code);
        let work = execution::run(&self.pool, request, self.config.limits, &door, &|_| (), &self.interrupt);
        let outcome = record.recording().clone().during(std::pin::pin!(work)).await;
        let (_, receipt) = record.finish(outcome.finish());
        receipt.wait().await;
        outcome
    }

    pub(super) async fn test(&self, args: TestArgs) -> Outcome {
        let capability = self.find(&args.name)?;
        self.check(&capability, Purpose::Use, args.yes).await
    }

    /// Runs a capability with the arguments that it was saved with, if it only reads, and checks what it returns.
    pub(super) async fn check(&self, capability: &Capability, purpose: Purpose, may_write: bool) -> Outcome {
        let only_reads = |tool: &String| {
            let id = tool.parse::<ToolId>().ok()?;
            if id.server() == OWN {
                // What a workflow calls is in the list, too.
                return Some(true);
            }
            let known = self.services.broker.tool(&id)?;
            let server = self.services.servers.get(known.id.server())?;
            Some(server.settings().is_trusted && known.hints.is_read_only)
        };
        let unsafe_tool =
            capability.notes.tools.iter().map(|saved| &saved.tool).find(|tool| only_reads(tool) != Some(true));
        if let Some(tool) = unsafe_tool.filter(|_| !may_write) {
            let message = format!("`{}` is not run: `{tool}` is not known to only read", capability.name);
            let hint =
                "only hints of servers with `trusted = true` count; `pml capability test --yes` runs it all the same";
            return Err(refused(message).with_hint(hint));
        }
        let args = examples(capability);
        check_arguments(capability, &args)?;
        let outcome = self.run_once(capability, purpose, args).await;
        let value = match &outcome.result {
            Ok(value) => serde_json::from_str::<Value>(value.get()).unwrap_or(Value::Null),
            Err(_) => return Ok(report(&outcome, false)),
        };
        if let Some(schema) = &capability.notes.result {
            let tool = tool_of(capability, Some(schema))?;
            if let Ok(Err(why)) = tool.check_result(&value, Pace::Thorough) {
                say(&format!("`{}` returned something of another shape than before: {why}", capability.name));
                return Ok(ExitCode::FAILURE);
            }
        }
        say(&format!(
            "`{}` works: {} {} in {:.1} ms",
            capability.name,
            outcome.calls.len(),
            if outcome.calls.len() == 1 { "call" } else { "calls" },
            execution::millis(outcome.duration)
        ));
        Ok(ExitCode::SUCCESS)
    }
}

/// The arguments of the run that was saved, as far as they are known.
fn examples(capability: &Capability) -> Box<RawValue> {
    let properties = capability.parameters["properties"].as_object();
    let known = properties.into_iter().flatten().filter_map(|(name, schema)| {
        let value = schema.get("default").or_else(|| schema["examples"].get(0))?;
        Some((name.clone(), value.clone()))
    });
    let known: Map<String, Value> = known.collect();
    serde_json::value::to_raw_value(&known).expect("a JSON value serializes")
}

/// Checks arguments as a call of the capability would.
fn check_arguments(capability: &Capability, args: &RawValue) -> Result<(), Error> {
    let invalid = |why: String| {
        Error::new(ErrorCode::ConfigInvalid, format!("the arguments of `{}` are wrong: {why}", capability.name))
    };
    let value: Value = serde_json::from_str(args.get()).map_err(|err| invalid(err.to_string()))?;
    if !value.is_object() {
        return Err(invalid("they must be one object".to_owned()));
    }
    let tool = tool_of(capability, None)?;
    match tool.check_arguments(&value, Pace::Thorough) {
        Ok(Err(why)) => Err(invalid(why).with_hint(format!("it is called as {}", tool.signature()))),
        Ok(Ok(())) | Err(_) => Ok(()),
    }
}

fn tool_of(capability: &Capability, result: Option<&Value>) -> Result<Tool, Error> {
    let mut described = capability.as_tool(&Default::default());
    if let Some(schema) = result {
        described["outputSchema"] = schema.clone();
    }
    let raw = RawValue::from_string(described.to_string()).expect("a value is JSON");
    Tool::parse(CAPABILITIES, raw).map_err(refused)
}
