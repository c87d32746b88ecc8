//! What a program of a client reaches: all that the broker offers, and the results that were kept for the client.

use std::sync::Arc;

use pml_wire::{
    CallId, ErrorCode, ToolId,
    message::{Ask, CallError, ErrorReport, MissingRead, PreflightCall, Recall},
};
use serde_json::value::{RawValue, to_raw_value};

use super::results::{Caller, NO_RESULT_HINT, Results, Text};
use crate::{
    broker::{Answer, AnswerBody, Broker, CallHandler, EarlyAnswer, Foresight, HandlerFuture, ToolCall},
    room::Room,
    shown::visible,
    trace::Context,
    work,
};

/// The handler of one client's calls.
#[derive(Debug)]
pub(super) struct ClientHandler<'a> {
    pub(super) broker: &'a Broker,
    pub(super) results: &'a Results,
    pub(super) caller: &'a Caller,
}

impl ClientHandler<'_> {
    async fn recalled(&self, recall: Recall) -> Result<Answer, CallError> {
        let invalid = |message: String| CallError::new(ErrorCode::InvalidArguments, message);
        let Some(kept) = self.results.get(self.caller, &recall.id) else {
            return Err(invalid(format!("there is no result `{}`; {NO_RESULT_HINT}", visible(&recall.id))));
        };
        let bytes = kept.as_str().len();
        // The program works on a copy, since what is kept may be dropped at any time.
        let mut charge = self.broker.room().charge();
        charge.set(bytes).await?;
        let value = work::sized(bytes, move |_| match &*kept {
            Text::Plain(text) => to_raw_value(&**text),
            Text::Json(text) => RawValue::from_string(text.as_str().to_owned()),
        });
        let value = value.await.map_err(|err| invalid(format!("the result cannot be read: {err}")))?;
        Ok(Answer { body: AnswerBody::Value(value), held: Some(Arc::new(charge)) })
    }
}

impl CallHandler for ClientHandler<'_> {
    fn recall(&self, recall: Recall) -> HandlerFuture<'_, Result<Answer, CallError>> {
        Box::pin(self.recalled(recall))
    }

    fn call(&self, call: ToolCall) -> HandlerFuture<'_, Result<Answer, CallError>> {
        self.broker.call(call)
    }

    fn foresight(&self) -> Option<Foresight> {
        self.broker.foresight()
    }

    fn call_ahead(&self, call: ToolCall) -> HandlerFuture<'_, Result<EarlyAnswer, CallError>> {
        self.broker.call_ahead(call)
    }

    fn names(&self) -> HandlerFuture<'_, Arc<str>> {
        self.broker.names()
    }

    fn ask(&self, context: Arc<Context>, id: CallId, ask: Ask) -> HandlerFuture<'_, Result<Answer, CallError>> {
        self.broker.ask(context, id, ask)
    }

    fn meant(&self, target: &str) -> Vec<ToolId> {
        self.broker.meant(target)
    }

    fn is_former(&self, tool: &ToolId) -> bool {
        self.broker.is_former(tool)
    }

    fn canonical(&self, tool: ToolId) -> ToolId {
        self.broker.canonical(tool)
    }

    fn preflight(
        &self,
        context: Arc<Context>,
        calls: Vec<PreflightCall>,
    ) -> HandlerFuture<'_, Result<Vec<String>, Box<ErrorReport>>> {
        self.broker.preflight(context, calls)
    }

    fn may_be_absent(&self, read: &MissingRead) -> bool {
        self.broker.may_be_absent(read)
    }

    fn explain(&self, report: &mut ErrorReport) {
        self.broker.explain(report);
    }

    fn room(&self) -> Room {
        self.broker.room()
    }

    fn refused(&self, context: &Arc<Context>, id: CallId, target: &str, error: &CallError) {
        self.broker.refused(context, id, target, error);
    }
}
