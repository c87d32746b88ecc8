//! The tool calls of one run: counted, bounded, recorded.

use std::{collections::VecDeque, future::Future, pin::Pin, sync::Arc};

use futures_util::{StreamExt, stream::FuturesUnordered};
use pml_wire::{
    CallId, ErrorCode, ExecutionId, Kind, ToolId,
    id::MAX_NAME_BYTES,
    message::{CallError, ErrorReport},
};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{Budget, CallRecord, Event};

/// Calls over the budget are refused one by one, so that a program can notice; this many more end
/// the run.
const FLOOD: u32 = 1000;
/// Arguments that may wait for their turn. Above this the worker is not read, and so waits.
const WAITING_BYTES: usize = 32 * 1024 * 1024;
/// Answers that may wait for the worker to read them. Above this no call is started.
const UNSENT_BYTES: usize = 32 * 1024 * 1024;

/// Longest name of a tool that is kept: as long as a [`ToolId`] can be, and one more to not be one.
const MAX_TARGET_BYTES: usize = 2 * MAX_NAME_BYTES + 2;

/// The way from a program's calls to real tools.
pub trait CallHandler: Send + Sync {
    /// Makes one call. Dropping the future cancels it.
    fn call(&self, call: ToolCall) -> HandlerFuture<'_>;

    /// Every tool by server, as JSON: `{"server": ["tool", …]}`.
    fn names(&self) -> Arc<str>;
}

pub type HandlerFuture<'a> = Pin<Box<dyn Future<Output = Result<Box<RawValue>, CallError>> + Send + 'a>>;

/// A call as the handler gets it.
#[derive(Clone, Debug)]
pub struct ToolCall {
    pub execution: ExecutionId,
    pub id: CallId,
    pub tool: ToolId,
    /// A JSON object.
    pub args: Box<RawValue>,
}

/// A call that is over, and what the program gets for it.
pub(super) struct Ended {
    pub(super) record: CallRecord,
    result: Result<Box<RawValue>, String>,
}

impl Ended {
    /// The frame that answers the call.
    pub(super) fn answer(&self) -> (Kind, &str) {
        match &self.result {
            Ok(value) => (Kind::RpcResult, value.get()),
            Err(error) => (Kind::RpcError, error),
        }
    }
}

/// Why the run cannot go on.
pub(super) enum Refused {
    OutOfOrder(u32),
    Flood(Box<ErrorReport>),
}

pub(super) struct Calls<'a> {
    execution: ExecutionId,
    budget: Budget,
    handler: &'a dyn CallHandler,
    last_id: u32,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    in_flight: FuturesUnordered<Pin<Box<dyn Future<Output = Ended> + Send + 'a>>>,
    /// The calls that were started and have not ended, in order.
    open: Vec<(CallId, String, Instant)>,
    records: Vec<CallRecord>,
}

/// A call that waits for its turn, or one that was refused and waits to be answered.
struct Waiting {
    id: CallId,
    target: String,
    args: Box<RawValue>,
    refusal: Option<CallError>,
}

impl<'a> Calls<'a> {
    pub(super) fn new(execution: ExecutionId, budget: Budget, handler: &'a dyn CallHandler) -> Calls<'a> {
        Calls {
            execution,
            budget,
            handler,
            last_id: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            in_flight: FuturesUnordered::new(),
            open: Vec::new(),
            records: Vec::new(),
        }
    }

    pub(super) fn names(&self) -> Arc<str> {
        self.handler.names()
    }

    /// Takes a call from the worker.
    pub(super) fn accept(&mut self, id: u32, mut target: String, args: Box<RawValue>) -> Result<(), Refused> {
        if self.last_id.checked_add(1) != Some(id) {
            return Err(Refused::OutOfOrder(id));
        }
        self.last_id = id;
        let Budget { calls, .. } = self.budget;
        if id > calls.saturating_add(FLOOD) {
            let message = format!("the program kept calling tools after its budget of {calls} calls was spent");
            let report = ErrorReport::new(ErrorCode::CallBudgetSpent, message).with_hint(BUDGET_HINT);
            return Err(Refused::Flood(Box::new(report)));
        }
        let refusal = (id > calls).then(|| {
            let message = format!("this run has spent its budget of {calls} tool calls");
            CallError::new(ErrorCode::CallBudgetSpent, message)
        });
        if target.len() > MAX_TARGET_BYTES {
            // No tool is called so. Cut, since every record keeps its target.
            target.truncate(target.floor_char_boundary(MAX_TARGET_BYTES));
            target.push('…');
        }
        self.waiting_bytes += args.get().len();
        self.waiting.push_back(Waiting { id: CallId(id), target, args, refusal });
        Ok(())
    }

    /// May more be read from the worker?
    pub(super) fn may_read(&self) -> bool {
        self.waiting_bytes < WAITING_BYTES
    }

    pub(super) fn any_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Some tools whose calls have not ended.
    pub(super) fn open_tools(&self) -> Vec<&str> {
        let mut tools: Vec<_> = self.open.iter().map(|(_, target, _)| target.as_str()).collect();
        tools.sort_unstable();
        tools.dedup();
        tools.truncate(5);
        tools
    }

    /// Starts calls while there is room.
    pub(super) fn start_waiting(&mut self, unsent: usize, listener: &(dyn Fn(Event<'_>) + Sync)) {
        while self.in_flight.len() < self.budget.calls_in_flight
            && unsent < UNSENT_BYTES
            && let Some(waiting) = self.waiting.pop_front()
        {
            self.waiting_bytes -= waiting.args.get().len();
            self.start(waiting, listener);
        }
    }

    fn start(&mut self, waiting: Waiting, listener: &(dyn Fn(Event<'_>) + Sync)) {
        let Waiting { id, target, args, refusal } = waiting;
        let started = Instant::now();
        let checked = match refusal {
            Some(refusal) => Err(refusal),
            None => check(&target, &args),
        };
        let work: HandlerFuture<'a> = match checked {
            Ok(tool) => {
                let call = ToolCall { execution: self.execution, id, tool, args };
                listener(Event::CallStarted(&call));
                self.handler.call(call)
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        };
        self.open.push((id, target.clone(), started));
        self.in_flight.push(Box::pin(async move {
            let outcome = work.await;
            let duration = started.elapsed();
            let (result, error) = match outcome {
                Ok(value) => (Ok(value), None),
                Err(error) => {
                    let body = serde_json::to_string(&error).expect("plain data serializes");
                    (Err(body), Some(error))
                }
            };
            Ended { record: CallRecord { id, tool: target, duration, error }, result }
        }));
    }

    /// The next call that ends. Only to be awaited while some are in flight.
    pub(super) async fn next(&mut self) -> Ended {
        match self.in_flight.next().await {
            Some(ended) => {
                self.open.retain(|(id, ..)| *id != ended.record.id);
                self.records.push(ended.record.clone());
                ended
            }
            None => std::future::pending().await,
        }
    }

    /// Cancels what is still going on. Gives all records in order, and the tools of calls that
    /// had not ended.
    pub(super) fn finish(mut self) -> (Vec<CallRecord>, Vec<String>) {
        self.in_flight.clear();
        let never_started = self.waiting.drain(..).map(|waiting| (waiting.id, waiting.target, Instant::now()));
        self.open.extend(never_started);
        let unfinished = self.open.iter().map(|(_, target, _)| target.clone()).collect();
        for (id, tool, started) in self.open {
            self.records.push(CallRecord {
                id,
                tool,
                duration: started.elapsed(),
                error: Some(CallError::new(ErrorCode::Cancelled, "the run ended before the call did")),
            });
        }
        self.records.sort_by_key(|record| record.id);
        (self.records, unfinished)
    }
}

const BUDGET_HINT: &str = "make one call that returns more, or raise limits.calls";

/// What can be said of a call without knowing any tool.
fn check(target: &str, args: &RawValue) -> Result<ToolId, CallError> {
    let tool: ToolId = target.parse().map_err(|err| {
        let message = format!("{err}");
        CallError::new(ErrorCode::ToolNotFound, message)
    })?;
    if !args.get().starts_with('{') {
        let start: String = args.get().chars().take(40).collect();
        let message = format!("the arguments must be an object, not {start}");
        return Err(CallError::new(ErrorCode::InvalidArguments, message));
    }
    Ok(tool)
}
