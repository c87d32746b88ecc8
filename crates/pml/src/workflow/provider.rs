//! What programs and workflows ask of pml itself, as tools of the reserved provider `pml` that no list shows:
//! `pml:execute_workflow`, which is `executeWorkflow` in programs, and `pml:run_program`, which is a task with `code`.

use std::sync::{Arc, OnceLock};

use pml_wire::{
    ErrorCode,
    message::{CallError, ErrorReport},
    trace::Entry,
};
use serde::Deserialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tokio_util::sync::CancellationToken;

use super::{
    check::{Document, RUN_PROGRAM, check},
    intent::{Ask, Asked, Plans, resolve},
    outcome::Outcome,
    problem::told,
    run::{Event, Request, run},
};
use crate::{
    broker::{Answer, HandlerFuture, OWN, Provider, ProviderCall},
    catalog::Tool,
    execution::{Media, Nested, NestedProgram},
    trace::{Context, Program, Recorder},
    upstream::{Progress, ProgressListener},
};

/// Answers what programs and workflows ask of pml itself.
#[derive(Debug)]
pub struct OwnTools {
    nested: Nested,
    recorder: Recorder,
    plans: Arc<Plans>,
}

/// The arguments of `pml:run_program`.
#[derive(Deserialize)]
struct RunProgram {
    code: String,
    name: Option<String>,
    args: Option<Box<RawValue>>,
}

impl OwnTools {
    pub fn new(nested: Nested, recorder: Recorder, plans: Arc<Plans>) -> OwnTools {
        OwnTools { nested, recorder, plans }
    }

    async fn run_program(&self, call: ProviderCall<'_>) -> Result<Answer, CallError> {
        let RunProgram { code, name, args } = read(&call)?;
        let program = NestedProgram {
            context: call.context.child(call.id, Entry::Workflow, None),
            code: code.into(),
            name: name.unwrap_or_else(|| "task.ts".to_owned()),
            args: args.unwrap_or_else(|| RawValue::NULL.to_owned()),
        };
        let outcome = self.nested.run(program, call.door, call.allowance, call.progress).await?;
        outcome.warnings.iter().for_each(|warning| call.notices.add(warning.clone()));
        let calls = outcome.calls.iter().filter(|call| call.error.is_none()).count();
        outcome.answer().map_err(|report| {
            let done = match calls {
                0 => String::new(),
                1 => " (1 call of it had succeeded)".to_owned(),
                calls => format!(" ({calls} calls of it had succeeded)"),
            };
            CallError::new(report.code, format!("{}{done}", told(&report)))
        })
    }

    async fn execute_workflow(&self, call: ProviderCall<'_>) -> Result<Answer, CallError> {
        let ask: Ask = read(&call)?;
        let error = |report: &ErrorReport| CallError::new(report.code, told(report));
        let asked = resolve(ask, call.door, call.context, &self.plans).await;
        let document = match asked.map_err(|report| error(&report))? {
            Asked::Suggestion(suggestion) => return answer(&suggestion.to_json()),
            Asked::Run(document) => document,
        };
        let outcome = self.run(document, &call).await?;
        outcome.warnings.iter().for_each(|warning| call.notices.add(warning.clone()));
        match &outcome.verdict {
            // What has run has results that the program may want.
            Err(report) if outcome.tasks.is_empty() => Err(error(report)),
            _ => outcome.answer(),
        }
    }

    /// Runs a workflow as a part of the execution that calls, recorded as an execution of its own.
    async fn run(&self, document: Document, call: &ProviderCall<'_>) -> Result<Outcome, CallError> {
        let budget = call.allowance.nested_budget();
        let context = Arc::new(call.context.child(call.id, Entry::Workflow, None));
        // Refuses what is nested too deeply, and waits for its place. A workflow computes nothing itself, and its programs need
        // the turn that it would hold.
        let mut place = call.allowance.nest(context.depth).await?;
        place.pause();
        let code = document.text.clone();
        let checked = match check(document, call.door, &context, (&budget, self.nested.pool())).await {
            Ok(checked) => checked,
            Err(problems) => return Ok(Outcome::invalid(context.execution, &problems)),
        };
        let context = match checked.intent() {
            Some(intent) => Arc::new(Context::clone(&context).with_intent(Some(intent.to_owned()))),
            None => context,
        };
        let record = self.recorder.begin(context, Some(Program { code: &code, args: &checked.args }));
        let request = Request {
            recording: record.recording().clone(),
            checked,
            budget,
            allowance: call.allowance.clone(),
            media: Media::Nested,
            follows_calls: false,
        };
        let progress = call.progress.as_ref();
        let listener = |event: Event<'_>| tell(progress, &event);
        // Whoever cancels the call drops this.
        let cancel = CancellationToken::new();
        let outcome = run(call.door, request, &listener, &cancel).await;
        let (_, receipt) = record.finish(outcome.finish());
        drop(receipt);
        Ok(outcome)
    }
}

impl Provider for OwnTools {
    fn call<'a>(&'a self, call: ProviderCall<'a>) -> HandlerFuture<'a, Result<Answer, CallError>> {
        match call.tool.id.as_str() {
            RUN_PROGRAM => Box::pin(self.run_program(call)),
            _ => Box::pin(self.execute_workflow(call)),
        }
    }

    fn hidden(&self, name: &str) -> Option<Arc<Tool>> {
        tools().iter().find(|tool| tool.id.tool() == name).cloned()
    }
}

fn read<'de, T: Deserialize<'de>>(call: &'de ProviderCall<'_>) -> Result<T, CallError> {
    serde_json::from_str(call.args.get()).map_err(|err| {
        CallError::new(ErrorCode::InvalidArguments, format!("the arguments of `{}` are wrong: {err}", call.tool.id))
    })
}

fn answer(suggestion: &Value) -> Result<Answer, CallError> {
    to_raw_value(suggestion)
        .map(Answer::from)
        .map_err(|err| CallError::new(ErrorCode::ResultNotJson, format!("the suggestion cannot be written: {err}")))
}

/// Tells whoever waits for the call how far the workflow is.
fn tell(progress: Option<&ProgressListener>, event: &Event<'_>) {
    if let (Some(progress), Event::TaskEnded { task, ended, of }) = (progress, event) {
        let message = format!("task {} {}", task.id, task.status.as_str());
        progress.tell(Progress::of_program(Some(*ended as f64), Some(*of as f64), Some(message)));
    }
}

/// The tools, described as servers describe theirs.
fn tools() -> &'static [Arc<Tool>] {
    static TOOLS: OnceLock<Vec<Arc<Tool>>> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let program = json!({
            "name": "run_program",
            "inputSchema": {
                "type": "object",
                "properties": { "code": { "type": "string" }, "name": { "type": "string" }, "args": { "type": "object" } },
                "required": ["code"],
                "additionalProperties": false,
            },
        });
        let workflow = json!({ "name": "execute_workflow", "inputSchema": ask_schema() });
        [program, workflow]
            .into_iter()
            .filter_map(|tool| Tool::parse(OWN, RawValue::from_string(tool.to_string()).ok()?).ok().map(Arc::new))
            .collect()
    })
}

/// What `execute_workflow` takes, for programs and for clients.
pub fn ask_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "workflow": {
                "type": "object",
                "description": "{tasks: [{id, tool: \"server:tool\" or capability: \"ns.action\" or code: \"TypeScript\", args, \
                    dependsOn?: [id], when?: {ref, equals|exists|gt|…}, forEach?: \"$OUTPUT[id].items\", timeout_ms?, retry?}]}",
            },
            "intent": { "type": "string", "description": "Without a workflow: suggests a plan, and runs nothing" },
            "accept": { "type": "string", "description": "The plan_id of a plan to run" },
            "args": { "type": "object", "additionalProperties": true, "description": "$ARGS of the workflow; of a plan, its arguments by task" },
            "timeout_ms": { "type": "number", "description": "For the whole, if not the usual" },
        },
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tools_are_there_and_no_others() {
        assert_eq!(
            tools().iter().map(|tool| tool.id.as_str()).collect::<Vec<_>>(),
            [RUN_PROGRAM, "pml:execute_workflow"]
        );
    }
}
