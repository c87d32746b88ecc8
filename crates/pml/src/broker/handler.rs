//! What runs know of the broker.

use std::{fmt::Debug, future::Future, pin::Pin, sync::Arc};

use pml_wire::{
    CallId, ExecutionId, ToolId,
    message::{Ask, CallError, ErrorReport, PreflightCall},
};
use serde_json::value::RawValue;

use super::notices::Notices;
use crate::room::{Held, Room};

/// The way from a program's calls to real tools.
pub trait CallHandler: Send + Sync {
    /// Makes one call. Dropping the future cancels it.
    fn call(&self, call: ToolCall) -> HandlerFuture<'_, Result<Answer, CallError>>;

    /// Every tool by server, as JSON: `{"server": ["tool", …]}`.
    fn names(&self) -> HandlerFuture<'_, Arc<str>>;

    /// Answers what no tool does.
    fn ask(&self, execution: ExecutionId, id: CallId, ask: Ask) -> HandlerFuture<'_, Result<Answer, CallError>>;

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

    /// Where large values of runs find room.
    fn room(&self) -> Room {
        Room::unlimited()
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
    pub args: Arguments,
    /// If there is no such tool, say which may have been meant. That takes time, so not for every one of many.
    pub suggests: bool,
    /// Where warnings about the call go.
    pub notices: Notices,
}

/// The arguments of a call, a JSON object. The values that handles in them stand for are put in when they are needed.
#[derive(Clone, Debug)]
pub struct Arguments {
    written: Box<RawValue>,
    handles: Option<Arc<dyn Handles>>,
}

/// Values that the host keeps for a run, and that the arguments of a call refer to.
pub trait Handles: Debug + Send + Sync {
    /// How large the arguments are with the values in them.
    fn bytes(&self) -> usize;

    /// The arguments with the values in place of their handles. Takes time in proportion to their size.
    fn fill(&self, written: &RawValue) -> Result<Box<RawValue>, CallError>;
}

impl Arguments {
    pub fn new(written: Box<RawValue>, handles: Option<Arc<dyn Handles>>) -> Arguments {
        Arguments { written, handles }
    }

    /// As the program wrote them.
    pub fn written(&self) -> &RawValue {
        &self.written
    }

    /// How large they are with all values in them.
    pub fn bytes(&self) -> usize {
        self.handles.as_ref().map_or(self.written.get().len(), |handles| handles.bytes())
    }

    /// With all values in them. Takes time in proportion to their size.
    pub fn fill(self) -> Result<Box<RawValue>, CallError> {
        match self.handles {
            Some(handles) => handles.fill(&self.written),
            None => Ok(self.written),
        }
    }
}

/// What a call gives to the program.
#[derive(Clone, Debug)]
pub struct Answer {
    pub body: AnswerBody,
    /// The room that it takes, if it is large.
    pub held: Held,
}

#[derive(Clone, Debug)]
pub enum AnswerBody {
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
        Answer { body: AnswerBody::Value(value), held: None }
    }
}

impl Answer {
    /// How large it is.
    pub fn bytes(&self) -> usize {
        match &self.body {
            AnswerBody::Value(value) => value.get().len(),
            AnswerBody::Blocks(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Value(value) => value.get().len(),
                    Part::Kept(kept) => kept.block.get().len(),
                })
                .sum(),
        }
    }
}
