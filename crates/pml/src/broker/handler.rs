//! What runs know of the broker.

use std::{fmt::Debug, future::Future, pin::Pin, sync::Arc};

use pml_wire::{
    CallId, ErrorCode, ToolId,
    message::{Ask, CallError, ErrorReport, PreflightCall, Recall},
};
use serde_json::{Value, value::RawValue};

use super::{afterwards::Afterwards, allowance::Allowance, notices::Notices};
use crate::{
    room::{Held, Room},
    shown::visible,
    trace::Context,
    upstream::ProgressListener,
};

/// The way from a program's calls to real tools.
pub trait CallHandler: Send + Sync {
    /// Makes one call. Dropping the future cancels it.
    fn call(&self, call: ToolCall) -> HandlerFuture<'_, Result<Answer, CallError>>;

    /// Every tool by server, as JSON: `{"server": ["tool", …]}`.
    fn names(&self) -> HandlerFuture<'_, Arc<str>>;

    /// Answers what no tool does.
    fn ask(&self, context: Arc<Context>, id: CallId, ask: Ask) -> HandlerFuture<'_, Result<Answer, CallError>>;

    /// The value of a result that was kept for whoever this is the handler of.
    fn recall(&self, recall: Recall) -> HandlerFuture<'_, Result<Answer, CallError>> {
        let message = format!("there is no result `{}`; results are kept by `pml serve` only", visible(&recall.id));
        Box::pin(std::future::ready(Err(CallError::new(ErrorCode::InvalidArguments, message))))
    }

    /// The tool's one name, for one that a program may have written differently.
    fn canonical(&self, tool: ToolId) -> ToolId {
        tool
    }

    /// Tools that a target which is no tool id may have been meant for.
    fn meant(&self, _target: &str) -> Vec<ToolId> {
        Vec::new()
    }

    /// Checks calls before the program that makes them runs. Warnings, or why it must not run.
    fn preflight(
        &self,
        _context: Arc<Context>,
        _calls: Vec<PreflightCall>,
    ) -> HandlerFuture<'_, Result<Vec<String>, Box<ErrorReport>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Adds to the report of a failed program what the program could not know.
    fn explain(&self, _report: &mut ErrorReport) {}

    /// Where large values of runs find room.
    fn room(&self) -> Room {
        Room::unlimited()
    }

    /// Hears of a call that was refused before it got here.
    fn refused(&self, _context: &Arc<Context>, _id: CallId, _target: &str, _error: &CallError) {}
}

pub type HandlerFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A call as the handler gets it.
#[derive(Clone, Debug)]
pub struct ToolCall {
    pub context: Arc<Context>,
    pub id: CallId,
    pub tool: ToolId,
    pub args: Arguments,
    /// The program wants the text of the result, also if it is JSON.
    pub is_raw: bool,
    /// If there is no such tool, say which may have been meant. That takes time, so not for every one of many.
    pub suggests: bool,
    /// What is left to the run that makes the call.
    pub allowance: Allowance,
    /// Where warnings about the call go.
    pub notices: Notices,
    /// Where goes what can wait until the program has its answer.
    pub afterwards: Afterwards,
    /// Hears how far the call is, if anybody wants to know.
    pub progress: Option<ProgressListener>,
}

/// The arguments of a call, a JSON object. The values that handles in them stand for are put in when they are needed, and
/// so is the form of values that are JSON and text at once.
#[derive(Clone, Debug)]
pub struct Arguments {
    written: Box<RawValue>,
    stand_ins: Option<Arc<dyn StandIns>>,
}

/// What stands for something else in the arguments of a call: handles of values that the host keeps for a run, and texts of
/// JSON values.
pub trait StandIns: Debug + Send + Sync {
    /// How large the arguments are with the values in them.
    fn bytes(&self) -> usize;

    /// The arguments with the values in place of what stands for them, in the form that the tool's schema wants. Takes time
    /// in proportion to their size.
    fn fill(&self, written: &RawValue, schema: &Value) -> Result<Box<RawValue>, CallError>;
}

impl Arguments {
    pub fn new(written: Box<RawValue>, stand_ins: Option<Arc<dyn StandIns>>) -> Arguments {
        Arguments { written, stand_ins }
    }

    /// Is what the server gets something else than what was written?
    pub fn have_stand_ins(&self) -> bool {
        self.stand_ins.is_some()
    }

    /// As the program wrote them.
    pub fn written(&self) -> &RawValue {
        &self.written
    }

    /// How large they are with all values in them.
    pub fn bytes(&self) -> usize {
        self.stand_ins.as_ref().map_or(self.written.get().len(), |stand_ins| stand_ins.bytes())
    }

    /// With all values in them, for a tool with this schema. Takes time in proportion to their size.
    pub fn fill(self, schema: &Value) -> Result<Box<RawValue>, CallError> {
        match self.stand_ins {
            Some(stand_ins) => stand_ins.fill(&self.written, schema),
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
    /// A text that is a JSON object or array. The program gets the value, which still is its text where text is meant.
    JsonText(Box<str>),
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
    /// What the program gets, as JSON text. `None` of content blocks.
    pub fn shown_as_json(&self) -> Option<String> {
        match &self.body {
            AnswerBody::Value(value) => Some(value.get().to_owned()),
            AnswerBody::JsonText(text) => Some(text.to_string()),
            AnswerBody::Blocks(_) => None,
        }
    }

    /// How large it is.
    pub fn bytes(&self) -> usize {
        match &self.body {
            AnswerBody::Value(value) => value.get().len(),
            AnswerBody::JsonText(text) => text.len(),
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
