//! What runs know of the broker.

use std::{future::Future, pin::Pin, sync::Arc};

use pml_wire::{
    CallId, ExecutionId, ToolId,
    message::{CallError, ErrorReport, PreflightCall, Search},
};
use serde_json::value::RawValue;

/// The way from a program's calls to real tools.
pub trait CallHandler: Send + Sync {
    /// Makes one call. Dropping the future cancels it.
    fn call(&self, call: ToolCall) -> HandlerFuture<'_, Result<Answer, CallError>>;

    /// Every tool by server, as JSON: `{"server": ["tool", …]}`.
    fn names(&self) -> HandlerFuture<'_, Arc<str>>;

    /// The tools that do what is asked for, best first: a JSON array.
    fn search(&self, search: Search) -> HandlerFuture<'_, Result<Answer, CallError>>;

    /// The tool's one name, for one that a program may have written differently.
    fn canonical(&self, tool: ToolId) -> ToolId {
        tool
    }

    /// Checks calls before the program that makes them runs. Warnings, or why it must not run.
    fn preflight(
        &self,
        _execution: ExecutionId,
        _calls: Vec<PreflightCall>,
    ) -> HandlerFuture<'_, Result<Vec<String>, Box<ErrorReport>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Hears of a call that was refused before it got here.
    fn refused(&self, _execution: ExecutionId, _id: CallId, _target: &str, _error: &CallError) {}
}

pub type HandlerFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A call as the handler gets it.
#[derive(Clone, Debug)]
pub struct ToolCall {
    pub execution: ExecutionId,
    pub id: CallId,
    pub tool: ToolId,
    /// A JSON object.
    pub args: Box<RawValue>,
}

/// What a call gives to the program.
#[derive(Clone, Debug)]
pub enum Answer {
    Value(Box<RawValue>),
    /// Content blocks, some of which the program gets as handles only.
    Blocks(Vec<Part>),
}

#[derive(Clone, Debug)]
pub enum Part {
    Value(Box<RawValue>),
    Kept(Kept),
}

/// A block of content that stays with the host.
#[derive(Clone, Debug)]
pub struct Kept {
    /// `image`, `audio` or `resource`.
    pub kind: String,
    pub mime_type: Option<String>,
    pub uri: Option<String>,
    /// Its data, a JSON string of base64 digits.
    pub data: Box<RawValue>,
    /// The block, whole, for where it leaves the run.
    pub block: Box<RawValue>,
}

impl From<Box<RawValue>> for Answer {
    fn from(value: Box<RawValue>) -> Answer {
        Answer::Value(value)
    }
}

impl Answer {
    /// How large it is.
    pub fn bytes(&self) -> usize {
        match self {
            Answer::Value(value) => value.get().len(),
            Answer::Blocks(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Value(value) => value.get().len(),
                    Part::Kept(kept) => kept.block.get().len(),
                })
                .sum(),
        }
    }
}
