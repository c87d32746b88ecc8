//! The interface of the broker that runs use.

use std::{any::Any, fmt::Debug, future::Future, pin::Pin, sync::Arc};

use pml_wire::{
    CallId, ErrorCode, ToolId,
    message::{Ask, CallError, ErrorReport, MissingRead, PreflightCall, Recall},
};
use serde_json::{Value, value::RawValue};

use super::{
    afterwards::Afterwards,
    allowance::Allowance,
    foresight::{Early, EarlyAnswer, Foresight},
    notices::Notices,
};
use crate::{
    room::{Held, Room},
    shown::visible,
    trace::Context,
    upstream::ProgressListener,
};

/// Handles the calls of a program.
pub trait CallHandler: Send + Sync {
    /// Makes one call. Dropping the future cancels the call.
    fn call(&self, call: ToolCall) -> HandlerFuture<'_, Result<Answer, CallError>>;

    /// Every tool by server, as JSON: `{"server": ["tool", …]}`.
    fn names(&self) -> HandlerFuture<'_, Arc<str>>;

    /// Handles requests for resources and prompts, and searches.
    fn ask(&self, context: Arc<Context>, id: CallId, ask: Ask) -> HandlerFuture<'_, Result<Answer, CallError>>;

    /// A kept result of the client that this handler belongs to.
    fn recall(&self, recall: Recall) -> HandlerFuture<'_, Result<Answer, CallError>> {
        let message = format!("there is no result `{}`; results are kept by `pml serve` only", visible(&recall.id));
        Box::pin(std::future::ready(Err(CallError::new(ErrorCode::InvalidArguments, message))))
    }

    /// The canonical name of a tool, for the alias that a program may have used.
    fn canonical(&self, tool: ToolId) -> ToolId {
        tool
    }

    /// Is it a name that the tool had before?
    fn is_former(&self, _tool: &ToolId) -> bool {
        false
    }

    /// Tools that an invalid target may refer to.
    fn meant(&self, _target: &str) -> Vec<ToolId> {
        Vec::new()
    }

    /// Checks the calls of a program before it runs. Returns warnings, or why it must not run.
    fn preflight(
        &self,
        _context: Arc<Context>,
        _calls: Vec<PreflightCall>,
    ) -> HandlerFuture<'_, Result<Vec<String>, Box<ErrorReport>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// May results of the tool lack the property, since their type has it as one that need not be there?
    fn may_be_absent(&self, _read: &MissingRead) -> bool {
        false
    }

    /// Adds hints to the report of a failed program that only the host can know.
    fn explain(&self, _report: &mut ErrorReport) {}

    /// The memory budget for large values.
    fn room(&self) -> Room {
        Room::unlimited()
    }

    /// What can be known of calls before they are made. `None` if none is ever made ahead, which is the default.
    fn foresight(&self) -> Option<Foresight> {
        None
    }

    /// Makes a call that the program is expected to make. Refused unless the tool only reads. Dropping the future cancels it.
    fn call_ahead(&self, call: ToolCall) -> HandlerFuture<'_, Result<EarlyAnswer, CallError>> {
        let message = format!("`{}` is not called ahead", call.tool);
        Box::pin(std::future::ready(Err(CallError::new(ErrorCode::PolicyDenied, message))))
    }

    /// Records a call that was refused before it reached the handler.
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
    /// The program wants the text of the result, even if it is JSON.
    pub is_raw: bool,
    /// Suggest tools if the tool is unknown. Suggestions take time, so they are not made for every call of a loop.
    pub suggests: bool,
    /// The remaining budget of the run that makes the call.
    pub allowance: Allowance,
    /// Collects warnings about the call.
    pub notices: Notices,
    /// Collects work that can wait until the program has its response.
    pub afterwards: Afterwards,
    /// Receives the progress of the call, if wanted.
    pub progress: Option<ProgressListener>,
    /// The answer of a call that was made ahead for this one.
    pub early: Option<Early>,
}

/// The arguments of a call, a JSON object. Handles are replaced by their values when needed, and
/// so are JSON texts.
#[derive(Clone, Debug)]
pub struct Arguments {
    written: Box<RawValue>,
    stand_ins: Option<Arc<dyn StandIns>>,
}

/// Placeholders in the arguments of a call: handles of values that the host keeps for a run, and texts of
/// JSON values.
pub trait StandIns: Debug + Send + Sync {
    /// The size of the arguments with their values.
    fn bytes(&self) -> usize;

    /// The arguments with placeholders replaced, in the form that the tool's schema expects, in time
    /// linear in their size.
    fn fill(&self, written: &RawValue, schema: &Value) -> Result<Box<RawValue>, CallError>;
}

impl Arguments {
    pub fn new(written: Box<RawValue>, stand_ins: Option<Arc<dyn StandIns>>) -> Arguments {
        Arguments { written, stand_ins }
    }

    /// Do the arguments contain placeholders, so that the server gets another text?
    pub fn have_stand_ins(&self) -> bool {
        self.stand_ins.is_some()
    }

    /// The arguments as the program wrote them.
    pub fn written(&self) -> &RawValue {
        &self.written
    }

    /// The size of the arguments with all values.
    pub fn bytes(&self) -> usize {
        self.stand_ins.as_ref().map_or(self.written.get().len(), |stand_ins| stand_ins.bytes())
    }

    /// The arguments with all values, for a tool with this schema, in time linear in their size.
    pub fn fill(self, schema: &Value) -> Result<Box<RawValue>, CallError> {
        match self.stand_ins {
            Some(stand_ins) => stand_ins.fill(&self.written, schema),
            None => Ok(self.written),
        }
    }
}

/// The result of a call, for the program.
#[derive(Clone, Debug)]
pub struct Answer {
    pub body: AnswerBody,
    /// Its charge to the memory budget, if it is large.
    pub held: Held,
}

#[derive(Clone, Debug)]
pub enum AnswerBody {
    Value(Box<RawValue>),
    /// A text that is a JSON object or array. The program gets the value, which still acts as its text where a string is expected.
    JsonText(Box<str>),
    /// Content blocks, some of which the program gets as handles.
    Blocks(Vec<Part>),
    /// What a nested run returned, with handles in it.
    Nested(NestedValue),
}

/// A value that a nested run returned, in which the JSON form of a handle stands for each value that the host kept for that
/// run. The run around it gets handles of the same values.
#[derive(Clone, Debug)]
pub struct NestedValue {
    pub json: Box<RawValue>,
    /// Created and read by the module that runs programs.
    pub kept: Arc<dyn KeptValues>,
}

/// Values that the host keeps for a run.
pub trait KeptValues: Any + Debug + Send + Sync {
    /// The size of all of them.
    fn bytes(&self) -> usize;
}

#[derive(Clone, Debug)]
pub enum Part {
    Value(Box<RawValue>),
    Kept(KeptBlock),
}

/// A content block that the host keeps.
#[derive(Clone, Debug)]
pub struct KeptBlock {
    /// `image`, `audio` or `resource`.
    pub kind: String,
    pub mime_type: Option<String>,
    pub uri: Option<String>,
    /// Its data, a JSON string of base64 digits.
    pub data: Box<RawValue>,
    /// The whole block, for the result and arguments.
    pub block: Box<RawValue>,
}

impl From<Box<RawValue>> for Answer {
    fn from(value: Box<RawValue>) -> Answer {
        Answer { body: AnswerBody::Value(value), held: None }
    }
}

impl Answer {
    /// The value as JSON text; `None` if the host keeps a part of it.
    pub fn shown_as_json(&self) -> Option<String> {
        match &self.body {
            AnswerBody::Value(value) => Some(value.get().to_owned()),
            AnswerBody::JsonText(text) => Some(text.to_string()),
            AnswerBody::Blocks(_) | AnswerBody::Nested(_) => None,
        }
    }

    /// The size of the result.
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
            // What it keeps has its room already.
            AnswerBody::Nested(nested) => nested.json.get().len(),
        }
    }
}
