//! Runs capabilities: the provider behind `mcp.capabilities`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pml_wire::{
    ErrorCode,
    message::{CallError, ErrorReport},
    trace::Entry,
};
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    model::{Capability, SavedTool},
    registry::Registry,
};
use crate::{
    broker::{Answer, CAPABILITIES, HandlerFuture, Only, Provider, ProviderCall},
    catalog::Tool,
    execution::{Nested, NestedProgram},
};

/// Runs capabilities.
#[derive(Debug)]
pub struct Runner {
    registry: Arc<Registry>,
    nested: Nested,
}

impl Runner {
    pub fn new(registry: Arc<Registry>, nested: Nested) -> Runner {
        Runner { registry, nested }
    }

    async fn run(&self, call: ProviderCall<'_>) -> Result<Answer, CallError> {
        let ProviderCall { door, tool, args, context, id, allowance, notices, progress, .. } = call;
        let name = tool.id.tool();
        // Taken once: a capability that is edited meanwhile finishes as it began.
        let Some(capability) = self.registry.by_tool(name) else {
            let message = format!("there is no capability `{name}` any more");
            return Err(CallError::new(ErrorCode::CapabilityNotFound, message));
        };
        if context.runs(capability.id) {
            let message =
                format!("`{}` is running already: it calls itself, directly or through others", capability.name);
            return Err(CallError::new(ErrorCode::CapabilityCycle, message));
        }
        // Before anything of it runs: what it did until it came to itself could not be undone.
        if let Some(path) = self.registry.cycle(&capability.name, &capability.notes.tools) {
            let message = format!("`{}` calls itself: {}", capability.name, path.join(" calls "));
            return Err(CallError::new(ErrorCode::CapabilityCycle, message));
        }
        if let Some(reviewed) = door.reviewed(&tool.id)
            && !self.registry.is_same(&capability, reviewed).await
        {
            let message = format!(
                "`{name}` is another program now than the one that the capability calling it was saved with; \
                 save the calling capability again to allow it"
            );
            return Err(CallError::new(ErrorCode::PolicyDenied, message));
        }
        if let Some(why) = &capability.notes.deprecated {
            notices.add(format!("the capability `{}` is deprecated: {why}", capability.name));
        }
        let intent = capability.notes.intents.first().unwrap_or(&capability.description).clone();
        let child = context.child(id, Entry::Capability, Some(intent));
        let program = NestedProgram {
            context: child.with_capability(capability.id, Arc::clone(&capability.fqdn)),
            code: Arc::clone(&capability.code),
            name: format!("{}.ts", capability.name),
            args: with_defaults(&capability, args),
        };
        let door = door.with_only(self.registry.only(&capability));
        let outcome = self.nested.run(program, &door, allowance, progress).await?;
        for warning in &outcome.warnings {
            notices.add(format!("{}: {warning}", capability.name));
        }
        let execution = outcome.execution_id.to_string();
        outcome.answer().map_err(|report| failure(&capability, &execution, &report))
    }
}

impl Provider for Runner {
    fn call<'a>(&'a self, call: ProviderCall<'a>) -> HandlerFuture<'a, Result<Answer, CallError>> {
        Box::pin(self.run(call))
    }

    fn refresh(&self) -> HandlerFuture<'_, ()> {
        Box::pin(async {
            if let Err(err) = self.registry.refresh().await {
                tracing::warn!(error = %err, "capabilities cannot be read");
            }
        })
    }

    fn hidden(&self, name: &str) -> Option<Arc<Tool>> {
        self.registry.former_tool(name)
    }
}

impl Registry {
    /// What a capability may use. Of capabilities that it was saved with, that is what they are called now.
    pub fn only(&self, capability: &Capability) -> Only {
        let (mut tools, mut identities) = (BTreeSet::new(), BTreeMap::new());
        for SavedTool { tool, hash } in &capability.notes.tools {
            let now = tool.strip_prefix(CAPABILITIES).and_then(|name| name.strip_prefix(':')).map(|name| {
                let now = self.by_tool(name).map_or_else(|| name.to_owned(), |known| known.name.in_code());
                format!("{CAPABILITIES}:{now}")
            });
            if let Some(now) = &now {
                identities.insert(now.clone(), hash.clone());
            }
            tools.insert(now.unwrap_or_else(|| tool.clone()));
        }
        let (tools, identities) = (Arc::new(tools), Arc::new(identities));
        Only { capability: capability.name.to_string().into(), tools, identities }
    }
}

/// Arguments with the defaults of parameters that were left out.
pub fn with_defaults(capability: &Capability, args: Box<RawValue>) -> Box<RawValue> {
    let defaults = capability.parameters["properties"].as_object();
    let has_any = defaults.is_some_and(|names| names.values().any(|schema| schema.get("default").is_some()));
    let Some(defaults) = defaults.filter(|_| has_any) else { return args };
    let Ok(mut given) = serde_json::from_str::<Map<String, Value>>(args.get()) else { return args };
    for (name, schema) in defaults {
        if let Some(default) = schema.get("default").filter(|_| !given.contains_key(name)) {
            given.insert(name.clone(), default.clone());
        }
    }
    serde_json::value::to_raw_value(&given).unwrap_or(args)
}

/// Why a capability failed, for whoever called it.
pub fn failure(capability: &Capability, execution: &str, report: &ErrorReport) -> CallError {
    let frame = report.frame.as_deref().map(|frame| format!("\n{frame}")).unwrap_or_default();
    let message = match report.code {
        // What failed in the innermost says enough; each level adds its name.
        ErrorCode::CapabilityFailed => format!("in the capability `{}`: {}", capability.name, report.message),
        code => format!("the capability `{}` failed: {code}: {}{frame}", capability.name, report.message),
    };
    let data = json!({
        "capability": capability.name.to_string(),
        "execution_id": execution,
        "code": report.code,
        "message": report.message,
        "tool": report.tool,
    });
    CallError { data: Some(data), ..CallError::new(ErrorCode::CapabilityFailed, message) }
}
