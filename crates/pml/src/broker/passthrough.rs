//! Calls of tools that a client makes itself, passed on as they are.
//!
//! They go through the same door as the calls of programs: known tool, policy, rate, one line and one
//! event. Arguments are not checked and results not touched, but for the server's own secrets in errors: the server's
//! answer, whatever it is, is the client's.

use pml_wire::{CallId, ErrorCode, ExecutionId, ToolId, message::CallError};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use tokio::sync::mpsc;

use super::{
    door::{Broker, repetition},
    record::{Record, traceparent},
};
use crate::{
    digest::sha256,
    upstream::{Forward, Owner, RpcError, Said, Whole},
    work::{self, Waiter},
};

/// A call that is passed on.
#[derive(Debug)]
pub struct Passthrough {
    /// What the call is in records: each is a run of its own.
    pub execution: ExecutionId,
    pub tool: ToolId,
    /// The parameters of `tools/call` without `_meta`. The name in them is replaced by the tool's own.
    pub params: Map<String, Value>,
    /// What goes into `_meta`, see [`Forward::meta`]. Without a `traceparent`, pml puts in its own.
    pub meta: Map<String, Value>,
    /// Where to say what the server says meanwhile.
    pub relay: Option<mpsc::Sender<Said>>,
    /// The client that listens there, see [`Forward::owner`].
    pub owner: Option<Owner>,
}

impl Broker {
    /// Passes a call on and gives back the server's result or error as they were sent; or why the server
    /// never heard of it, or did not answer. An unknown tool is [`ErrorCode::ToolNotFound`]. Dropping
    /// the future cancels the call.
    pub async fn forward(&self, call: Passthrough) -> Result<Result<Whole, RpcError>, CallError> {
        let mut record = Record::new(self.sinks(), call.execution, CallId(1), call.tool.as_str());
        let outcome = self.pass(call, &mut record).await;
        recorded(record, outcome).await
    }

    async fn pass(&self, call: Passthrough, record: &mut Record<'_>) -> Result<Result<Whole, RpcError>, CallError> {
        let Passthrough { execution, tool, mut params, mut meta, relay, owner } = call;
        let (tool, upstream) = self.admit(&tool, true, record).await?;
        let is_heavy = params.get("arguments").is_some_and(work::is_heavy);
        (params, record.args_sha256) = work::weighed(is_heavy, move |_| {
            let digest = sha256(params.get("arguments").map(Value::to_string).unwrap_or_default());
            (params, digest)
        })
        .await;
        let name = tool.id.tool();
        let headers = tool.header_arguments(params.get("arguments").unwrap_or(&Value::Null));
        params.insert("name".to_owned(), name.into());
        meta.entry("traceparent").or_insert_with(|| traceparent(execution, CallId(1)).into());
        let forward = Forward { method: "tools/call", params, meta, name: Some(name), headers, relay, owner };
        record.start().await;
        let repetition = repetition(&tool, upstream.settings());
        upstream.forward(forward).await.map_err(|failure| failure.into_call_error(repetition))
    }
}

/// Ends the record of a request that was passed on. A large answer is looked at elsewhere.
pub(super) async fn recorded(
    record: Record<'_>,
    outcome: Result<Result<Whole, RpcError>, CallError>,
) -> Result<Result<Whole, RpcError>, CallError> {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(error) => {
            record.end_with(Err(&error));
            return Err(error);
        }
    };
    let bytes = answer.as_ref().map_or(0, |whole| whole.text.get().len());
    let look = move |_: &Waiter| (failure(answer.as_ref().map(|whole| &*whole.text)), answer);
    let (failure, answer) = work::sized(bytes, look).await;
    match failure {
        Some(message) => record.end_with(Err(&CallError::new(ErrorCode::ToolError, message))),
        None => record.end_with(Ok(bytes)),
    }
    Ok(answer)
}

/// How much of what a failed tool says is told on the bus.
const MESSAGE_CHARS: usize = 4000;

/// What a tool says that failed, or that was not there to fail.
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
