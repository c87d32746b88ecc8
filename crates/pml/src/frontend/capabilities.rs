//! Capabilities, as clients reach them: saved by `save_as`, and listed as tools of their own.

use pml_wire::{ErrorCode, ToolId, trace::Entry};
use serde_json::{Map, Value, json};

use super::{
    gateway::Frontend,
    session::Scope,
    tools::{self, Execute},
};
use crate::{
    broker::CAPABILITIES,
    capability::{CapabilityName, NewProgram, SaveOptions, Saved, Saver, shown_parameters},
    error::Error,
    execution::Outcome,
    shown::visible,
};

/// A program that becomes a capability if its run succeeds.
pub(super) struct Saving {
    name: CapabilityName,
    program: NewProgram,
    /// The client that saves it.
    author: String,
}

/// What became of saving.
pub(super) enum SavedAs {
    Saved(Saved),
    NotRun(CapabilityName),
    Refused(CapabilityName, Error),
}

impl Execute {
    /// A program that calls a capability.
    pub(super) fn of(capability: &CapabilityName, arguments: Map<String, Value>) -> Execute {
        // The name has letters, digits and a few signs only: nothing that ends a string.
        let code = format!("return await mcp.{CAPABILITIES}[\"{}\"](args)", capability.in_code());
        let mut execute = Execute::new(code);
        execute.args = Value::Object(arguments);
        execute
    }
}

impl Frontend {
    /// What is to be saved after a run. Refused before the run if that cannot be done at all.
    pub(super) fn saving(&self, arguments: &Execute, scope: &Scope) -> Result<Option<Saving>, Error> {
        let Some(name) = &arguments.save_as else { return Ok(None) };
        let wrong = |why: String| Error::new(ErrorCode::InvalidArguments, format!("`save_as`: {why}"));
        let name: CapabilityName = name.parse().map_err(wrong)?;
        let Some(saver) = &self.shared.capabilities else {
            return Err(wrong("capabilities are kept beside traces, and traces are not kept".to_owned()));
        };
        saver.check_name(&name)?;
        self.may_save(saver, &name)?;
        let (code, args, intent) = (arguments.code.clone(), arguments.args.clone(), arguments.intent.clone());
        let program = NewProgram { code, args, intent, ..NewProgram::default() };
        let author = scope.context(Entry::ExecuteCode).caller.to_string();
        Ok(Some(Saving { name, program, author }))
    }

    /// A client may save what it may call. It replaces only what it could have written itself: a capability whose tools it may
    /// all use.
    fn may_save(&self, saver: &Saver, name: &CapabilityName) -> Result<(), Error> {
        let denied = |message: String| Error::new(ErrorCode::PolicyDenied, message);
        let id: ToolId = format!("{CAPABILITIES}:{}", name.in_code())
            .parse()
            .map_err(|err| denied(format!("`{name}` cannot be called: {err}")))?;
        if !self.broker.permits(&id) {
            let hint = "choose a name that the policy and the profile of this client allow";
            return Err(denied(format!("the policy does not allow `{id}`, so it cannot be saved")).with_hint(hint));
        }
        let known = saver.registry.named(&name.to_string()).filter(|known| known.name == *name);
        let tools = known.iter().flat_map(|known| &known.notes.tools);
        match tools.map(|saved| &saved.tool).find(|tool| !self.broker.permits_named(tool)) {
            None => Ok(()),
            Some(tool) => {
                let message = format!("`{name}` exists and uses `{tool}`, which the policy does not allow here");
                Err(denied(message).with_hint("choose another name"))
            }
        }
    }

    /// Saves a program whose run has succeeded.
    pub(super) async fn save(&self, saving: Saving, outcome: &Outcome) -> SavedAs {
        let Saving { name, mut program, author } = saving;
        let (Ok(result), Some(saver)) = (&outcome.result, &self.shared.capabilities) else {
            return SavedAs::NotRun(name);
        };
        // Of content blocks the result has notes, and no program gets those.
        let is_whole = outcome.attached.is_empty();
        program.result = serde_json::from_str(result.get()).ok().filter(|_| is_whole);
        program.tools = outcome.used.clone();
        // Somebody else may have saved under the name meanwhile.
        if let Err(err) = saver.registry.refresh().await.map_err(Error::from).and_then(|()| self.may_save(saver, &name))
        {
            return SavedAs::Refused(name, err);
        }
        let options = SaveOptions { author: Some(author), ..SaveOptions::default() };
        match saver.save(program, &name, options).await {
            Ok(saved) => SavedAs::Saved(saved),
            Err(err) => SavedAs::Refused(name, err),
        }
    }

    /// The capability that clients see under this name.
    pub(super) fn exposed(&self, name: &str) -> Option<&CapabilityName> {
        self.shared.exposed.iter().find(|exposed| exposed.in_code() == name && !tools::is_own(name))
    }

    /// The capabilities that clients see as tools, as far as they are there and allowed.
    pub(super) async fn exposed_tools(&self) -> Vec<Value> {
        if self.shared.exposed.is_empty() {
            return Vec::new();
        }
        self.broker.refresh_providers().await;
        let find = |name: &CapabilityName| {
            let id = format!("{CAPABILITIES}:{}", name.in_code()).parse().ok()?;
            // It may have another name by now.
            let tool = self.broker.tool(&id).filter(|tool| self.broker.allows(&tool.id))?;
            Some(json!({
                "name": name.in_code(),
                "description": tool.description.clone().unwrap_or_default(),
                "inputSchema": tool.written_input(),
            }))
        };
        self.shared.exposed.iter().filter(|name| !tools::is_own(&name.in_code())).filter_map(find).collect()
    }
}

impl SavedAs {
    /// Adds what became of saving to the answer of the run.
    pub(super) fn tell(&self, answer: &mut Value) {
        let (text, told) = match self {
            SavedAs::Saved(Saved { capability, is_known, notes, .. }) => {
                let (name, version) = (&capability.name, capability.version);
                let parameters = capability.parameters["properties"].as_object();
                let parameters = shown_parameters(parameters.into_iter().flatten().map(|(name, _)| name.as_str()));
                let known = if *is_known { ", which had this code already" } else { "" };
                let mut text = format!(
                    "saved as capability {name}, version {version}{known}: await {}({parameters})",
                    name.as_called()
                );
                notes.iter().for_each(|note| text.push_str(&format!("\nnote: {note}")));
                let told = json!({
                    "name": name.to_string(), "fqdn": &*capability.fqdn, "version": version, "parameters": capability.parameters,
                });
                (text, told)
            }
            SavedAs::NotRun(name) => (
                format!("not saved as {name}: the run failed"),
                json!({ "error": { "code": ErrorCode::CapabilityRefused, "message": "the run failed" } }),
            ),
            SavedAs::Refused(name, err) => {
                let hint = err.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
                let text = format!("not saved as {name}: {}: {}{hint}", err.code, err.message);
                (text, json!({ "error": { "code": err.code, "message": err.message, "hint": err.hint } }))
            }
        };
        if let Some(content) = answer["content"].as_array_mut() {
            content.push(json!({ "type": "text", "text": visible(&text) }));
        }
        answer["structuredContent"]["saved"] = told;
    }
}
