//! Relays the tool calls that a client makes itself.
//!
//! They pass the same checks as the calls of programs: known tool, policy, rate; and leave one last line and one
//! event. Arguments are not checked and results not changed, except that the server's secrets are masked in errors: the server's
//! response goes to the client as it is.

use std::sync::Arc;

use pml_wire::{CallId, ErrorCode, ToolId, message::CallError, trace::TaskKind};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::{
    door::{Broker, repetition},
    provider::Backend,
    record::Record,
};
use crate::{
    digest::sha256,
    trace::{Context, ExecutionRecord, Finish},
    upstream::{Forward, Owner, RpcError, ServerMessage, Whole},
    work::{self, Waiter},
};

/// A relayed call.
#[derive(Debug)]
pub struct Passthrough {
    /// Each call is an execution of its own.
    pub context: Arc<Context>,
    pub tool: ToolId,
    /// The parameters of `tools/call` without `_meta`. The name in them is replaced by the tool's own.
    pub params: Map<String, Value>,
    /// What goes into `_meta`, see [`Forward::meta`]. Without a `traceparent`, pml puts in its own.
    pub meta: Map<String, Value>,
    /// Receives the messages that the server sends before it responds.
    pub relay: Option<mpsc::Sender<ServerMessage>>,
    /// The client that receives them, see [`Forward::owner`].
    pub owner: Option<Owner>,
}

impl Broker {
    /// Relays a call and returns the server's result or error unchanged; or why the call was not
    /// sent, or got no response. An unknown tool is [`ErrorCode::ToolNotFound`]. Dropping
    /// the future cancels the call.
    pub async fn forward(&self, call: Passthrough) -> Result<Result<Whole, RpcError>, CallError> {
        let mut record = Record::new(self.sinks(), &call.context, CallId(1), call.tool.as_str());
        let span = record.span();
        let own = OwnTask::begin(self, &call.context, TaskKind::Tool, call.tool.as_str()).await;
        let outcome = self.pass(call, &mut record, own.as_ref()).instrument(span).await;
        recorded(record, own, outcome).await
    }

    async fn pass(
        &self,
        call: Passthrough,
        record: &mut Record,
        own: Option<&OwnTask>,
    ) -> Result<Result<Whole, RpcError>, CallError> {
        let Passthrough { context, tool, mut params, mut meta, relay, owner } = call;
        let (tool, backend) = self.admit(&tool, true, record).await?;
        let Backend::Server(upstream) = backend else {
            let message = format!("`{}` is no tool of a server", tool.id);
            return Err(CallError::new(ErrorCode::ToolNotFound, message));
        };
        let is_heavy = params.get("arguments").is_some_and(work::is_heavy);
        let recording = own.map(|own| own.record.recording().clone());
        (params, record.args_sha256) = work::weighed(is_heavy, move |_| {
            let text = params.get("arguments").map(Value::to_string).unwrap_or_default();
            if let Some(recording) = recording.filter(|_| !text.is_empty()) {
                recording.arguments(CallId(1), &text);
            }
            (params, sha256(text))
        })
        .await;
        let name = tool.id.tool();
        let headers = tool.header_arguments(params.get("arguments").unwrap_or(&Value::Null));
        params.insert("name".to_owned(), name.into());
        meta.entry("traceparent").or_insert_with(|| context.traceparent_of(CallId(1)).into());
        let forward = Forward { method: "tools/call", params, meta, name: Some(name), headers, relay, owner };
        record.start(None).await;
        if let Some(own) = own {
            own.record.recording().started(CallId(1), tool.id.as_str());
        }
        let repetition = repetition(&tool, upstream.settings());
        let answer = upstream.forward(forward).await.map_err(|failure| failure.into_call_error(repetition))?;
        if answer.is_ok() {
            self.recent.note(&context, &tool.id);
        }
        Ok(answer)
    }
}

/// The record of an execution with one task: a request of a client outside a program.
pub(super) struct OwnTask {
    pub(super) record: ExecutionRecord,
    kind: TaskKind,
}

impl OwnTask {
    /// Creates the record; `None` if the request is part of a program's execution, which already has a record.
    pub(super) async fn begin(broker: &Broker, context: &Arc<Context>, kind: TaskKind, tool: &str) -> Option<OwnTask> {
        if context.is_program() {
            return None;
        }
        let recorder = &broker.sinks().recorder;
        recorder.ready().await;
        let record = recorder.begin(Arc::clone(context), None);
        record.recording().issued(CallId(1), kind, tool, None);
        record.recording().show();
        if let Some(announcement) = record.recording().announcement() {
            announcement.await;
        }
        Some(OwnTask { record, kind })
    }

    /// Completes the record, and waits a moment until the trace is stored.
    pub(super) async fn finish(self, outcome: Result<&str, &CallError>) {
        let OwnTask { record, kind } = self;
        record.recording().ended(CallId(1), kind, outcome);
        let outcome = match outcome {
            // The result is that of the task.
            Ok(_) => Ok(None),
            Err(error) => Err((error.code, error.message.as_str())),
        };
        let (_, receipt) = record.finish(Finish { outcome, warnings: &[] });
        receipt.wait().await;
    }
}

/// Completes the records of a relayed request. A large response is processed on a `work` thread.
pub(super) async fn recorded(
    record: Record,
    own: Option<OwnTask>,
    outcome: Result<Result<Whole, RpcError>, CallError>,
) -> Result<Result<Whole, RpcError>, CallError> {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(error) => {
            record.end_with(Err(&error));
            if let Some(own) = own {
                own.finish(Err(&error)).await;
            }
            return Err(error);
        }
    };
    let bytes = answer.as_ref().map_or(0, |whole| whole.text.get().len());
    let look = move |_: &Waiter| (failure(answer.as_ref().map(|whole| &*whole.text)), answer);
    let (failure, answer) = work::sized(bytes, look).await;
    let failure = failure.map(|message| CallError::new(ErrorCode::ToolError, message));
    record.end_with(failure.as_ref().map_or(Ok(bytes), Err));
    if let Some(own) = own {
        let result = answer.as_ref().map_or("null", |whole| whole.text.get());
        own.finish(failure.as_ref().map_or(Ok(result), Err)).await;
    }
    Ok(answer)
}

/// Longest message of a failed tool on the bus.
const MESSAGE_CHARS: usize = 4000;

/// The message of a failed or unknown tool.
fn failure(answer: Result<&RawValue, &RpcError>) -> Option<String> {
    #[derive(Deserialize)]
    struct Outcome<'a> {
        #[serde(default, rename = "isError")]
        is_error: Value,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    let message = match answer {
        Ok(result) => {
            let outcome: Outcome<'_> = serde_json::from_str(result.get()).ok()?;
            if outcome.is_error != true {
                return None;
            }
            let blocks: Vec<Value> =
                outcome.content.and_then(|content| serde_json::from_str(content.get()).ok()).unwrap_or_default();
            let texts: Vec<_> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            if texts.is_empty() { "the tool failed".to_owned() } else { texts.join("\n") }
        }
        Err(error) => error.message.clone(),
    };
    Some(message.chars().take(MESSAGE_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_tool_says_so() {
        let table = [
            (r#"{"isError":true,"content":[{"type":"text","text":"a"},{"type":"x"},{"text":"b"}]}"#, Some("a\nb")),
            (r#"{"isError":true,"content":"odd"}"#, Some("the tool failed")),
            (r#"{"isError":true}"#, Some("the tool failed")),
            (r#"{"isError":false}"#, None),
            (r#"{"isError":"yes"}"#, None),
            (r#"{"content":[{"isError":true}]}"#, None),
            ("{}", None),
        ];
        for (result, expected) in table {
            let result = RawValue::from_string(result.to_owned()).unwrap();
            assert_eq!(failure(Ok(&result)).as_deref(), expected, "{result}");
        }
        let error = RpcError { code: 1, message: "no".to_owned(), data: None };
        assert_eq!(failure(Err(&error)).as_deref(), Some("no"));
    }
}
