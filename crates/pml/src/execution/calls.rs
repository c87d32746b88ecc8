//! The tool calls of one run: counted, bounded, recorded.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use pml_wire::{
    CallId, ErrorCode, Kind, ToolId,
    id::MAX_NAME_BYTES,
    message::{Ask, CallError, ErrorReport, MAX_QUESTION_BYTES, PreflightCall, Read, Recall},
    trace::TaskKind,
};
use serde_json::value::RawValue;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use super::{
    fill::FilledResult,
    outcome::{self, CallRecord},
    plan::{Expected, Order, Plan},
    reports::Reporting,
    run::{Event, Media, Verdict},
    speculation::Speculation,
    vault::{Limits, ProgramValue, Vault, Weighed, weigh},
};
use crate::{
    broker::{
        Afterwards, Allowance, Answer, Budget, CallHandler, HandlerFuture, Notices, SEARCH, ToolCall, did_you_mean,
    },
    room::Room,
    trace::{Context, Recording},
    work::{self, AT_ONCE_BYTES, Waiter},
};

/// Calls over the budget are refused one by one, so that a program can notice; this many more end
/// the run.
const FLOOD: u32 = 1000;
/// Arguments that may wait for their turn. Above this the worker is not read, and so waits.
const WAITING_BYTES: usize = 32 * 1024 * 1024;
/// Arguments of calls that are going on, with the values that handles stand for. Above this no call is
/// started.
const OPEN_BYTES: usize = 64 * 1024 * 1024;
/// Answers that may wait for the worker to read them. Above this no call is started and no answer is taken: it stays
/// where it is counted.
const UNSENT_BYTES: usize = 8 * 1024 * 1024;
/// Reads of kept results that a run may make for each tool call that it may make.
const READS_PER_CALL: u32 = 50;
/// Unknown tools of a run for which others are suggested.
const SUGGESTIONS: u32 = 10;
/// Large values of one run that are worked on at the same time.
const LARGE_AT_ONCE: usize = 2;

/// Longest name of a tool that is kept: as long as a [`ToolId`] can be, and one more to not be one.
const MAX_TARGET_BYTES: usize = 2 * MAX_NAME_BYTES + 2;

/// A call or a read that is over, and what the program gets for it.
pub(crate) struct Ended {
    pub(crate) id: u32,
    /// Only calls leave one.
    pub(crate) record: Option<CallRecord>,
    kind: Kind,
    body: Box<str>,
}

impl Ended {
    /// The frame that answers it.
    pub(crate) fn answer(&self) -> (Kind, &str) {
        (self.kind, &self.body)
    }

    /// The same, with a body that need not be copied.
    pub(crate) fn into_answer(self) -> (Kind, Box<str>) {
        (self.kind, self.body)
    }
}

/// Why the run cannot go on.
pub(crate) enum Refused {
    OutOfOrder(u32),
    Flood(Box<ErrorReport>),
}

pub(crate) struct Calls<'a> {
    context: Arc<Context>,
    recording: Recording,
    budget: Budget,
    /// What is left to this run and those around it.
    allowance: Allowance,
    handler: &'a dyn CallHandler,
    last_id: u32,
    /// Calls and questions that came after all were spent.
    beyond: u32,
    reads: u32,
    /// Tools that were asked for and do not exist.
    unknown: u32,
    /// Turns for working on large values.
    turns: Arc<Semaphore>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    in_flight: FuturesUnordered<HandlerFuture<'a, Finished>>,
    /// The calls that were started and have not ended, in order.
    open: Vec<Open>,
    /// Arguments of those, together.
    open_bytes: usize,
    records: Vec<CallRecord>,
    /// Warnings about calls.
    pub(crate) notices: Notices,
    /// What is left to do about calls that were answered.
    pub(crate) afterwards: Afterwards,
    pub(super) vault: Vault,
    /// How far calls are, if anybody wants to know.
    reporting: Option<Reporting>,
    /// Calls that are made ahead, if any may be.
    speculation: Option<Box<Speculation<'a>>>,
}

/// A call as the worker wrote it.
pub(crate) struct Written {
    pub(crate) args: Box<RawValue>,
    /// Where in the arguments the texts of JSON values begin.
    pub(crate) texts: Vec<u32>,
    /// The program wants the text of the result.
    pub(crate) is_raw: bool,
    /// Longest that the call may take once it is started, if it is limited by itself.
    pub(crate) longest: Option<Duration>,
}

/// A call that was started.
struct Open {
    id: CallId,
    target: String,
    started: Instant,
    bytes: usize,
}

/// What waits for its turn.
enum Waiting {
    /// A call, or one that was refused and waits to be answered.
    Call {
        id: CallId,
        target: String,
        written: Written,
        refusal: Option<CallError>,
    },
    Read {
        id: u32,
        read: Read,
        refusal: Option<CallError>,
    },
    Recall {
        id: u32,
        recall: Recall,
        refusal: Option<CallError>,
    },
    Ask {
        id: u32,
        ask: Ask,
        refusal: Option<CallError>,
    },
}

/// A call that the handler has answered, or a read or a question that has.
enum Finished {
    Call {
        id: CallId,
        target: String,
        duration: Duration,
        outcome: Outcome,
    },
    /// The kind is that of the task, if it is one.
    Other {
        id: u32,
        kind: Option<TaskKind>,
        outcome: Outcome,
    },
}

type Outcome = Result<Weighed, CallError>;

impl<'a> Calls<'a> {
    pub(crate) fn new(
        recording: Recording,
        (budget, allowance): (Budget, Allowance),
        handler: &'a dyn CallHandler,
        reporting: Option<Reporting>,
    ) -> Calls<'a> {
        Calls {
            context: Arc::clone(recording.context()),
            recording,
            budget,
            allowance,
            handler,
            last_id: 0,
            beyond: 0,
            reads: 0,
            unknown: 0,
            turns: Arc::new(Semaphore::new(LARGE_AT_ONCE)),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            in_flight: FuturesUnordered::new(),
            open: Vec::new(),
            open_bytes: 0,
            records: Vec::new(),
            notices: Notices::default(),
            afterwards: Afterwards::default(),
            vault: Vault::new(budget.result_bytes, handler.room().total_bytes()),
            reporting,
            speculation: None,
        }
    }

    pub(super) fn handler(&self) -> &'a dyn CallHandler {
        self.handler
    }

    /// Checks calls before the program that makes them runs.
    pub(super) fn preflight(&mut self, calls: Vec<PreflightCall>) -> HandlerFuture<'a, Verdict> {
        self.expect(Order::Written, || calls.iter().filter_map(Expected::of_program).collect());
        self.handler.preflight(Arc::clone(&self.context), calls)
    }

    /// Calls that the run is expected to make: some may be made ahead. A run within another has none made, because it does not
    /// see what the runs beside it change.
    pub(crate) fn expect(&mut self, order: Order, expected: impl FnOnce() -> Vec<Expected>) {
        let Some(foresight) = self.handler.foresight().filter(|_| self.context.depth == 0) else { return };
        let canonical = |call: Expected| Expected { tool: self.handler.canonical(call.tool), ..call };
        if let Some(plan) = Plan::new(expected().into_iter().map(canonical), order) {
            let own = (self.recording.clone(), self.allowance.clone());
            self.speculation = Some(Box::new(Speculation::new(self.handler, foresight, own, plan)));
        }
    }

    fn next_id(&mut self, id: u32) -> Result<(), Refused> {
        if self.last_id.checked_add(1) != Some(id) {
            return Err(Refused::OutOfOrder(id));
        }
        self.last_id = id;
        Ok(())
    }

    /// Takes a request to read what the host keeps.
    pub(crate) fn accept_read(&mut self, id: u32, read: Read) -> Result<(), Refused> {
        self.next_id(id)?;
        let refusal = self.count_read()?;
        self.waiting_bytes += MAX_QUESTION_BYTES;
        self.waiting.push_back(Waiting::Read { id, read, refusal });
        Ok(())
    }

    /// Takes a request for a result that was kept for the client.
    pub(super) fn accept_recall(&mut self, id: u32, recall: Recall) -> Result<(), Refused> {
        self.next_id(id)?;
        let refusal = self.count_read()?;
        self.waiting_bytes += MAX_QUESTION_BYTES;
        self.waiting.push_back(Waiting::Recall { id, recall, refusal });
        Ok(())
    }

    /// Counts a read. Why it cannot be made, if there were too many.
    fn count_read(&mut self) -> Result<Option<CallError>, Refused> {
        self.reads += 1;
        let most = self.budget.calls.saturating_mul(READS_PER_CALL);
        if self.reads > most.saturating_add(FLOOD) {
            let message = format!("the program kept reading results after its {most} reads were spent");
            let report = ErrorReport::new(ErrorCode::CallBudgetSpent, message).with_hint(BUDGET_HINT);
            return Err(Refused::Flood(Box::new(report)));
        }
        Ok((self.reads > most).then(|| {
            let message = format!("this run has spent its {most} reads of large results");
            CallError::new(ErrorCode::CallBudgetSpent, message)
        }))
    }

    /// Takes a question from the worker.
    pub(super) fn accept_ask(&mut self, id: u32, ask: Ask) -> Result<(), Refused> {
        self.next_id(id)?;
        let refusal = self.count()?;
        self.waiting_bytes += MAX_QUESTION_BYTES;
        let (kind, subject, args) = asked_for(&ask);
        self.recording.issued(CallId(id), kind, &subject, Some(&args));
        if let Some(speculation) = &mut self.speculation {
            speculation.asked(CallId(id), &ask);
        }
        self.waiting.push_back(Waiting::Ask { id, ask, refusal });
        Ok(())
    }

    /// Counts a call. Why it cannot be made, if the budget is spent or calls come too fast.
    fn count(&mut self) -> Result<Option<CallError>, Refused> {
        let Err(refusal) = self.allowance.spend_call() else { return Ok(None) };
        self.beyond += u32::from(refusal.code == ErrorCode::CallBudgetSpent);
        if self.beyond > FLOOD {
            let calls = self.budget.calls;
            let message = format!("the program kept calling tools after its budget of {calls} calls was spent");
            let report = ErrorReport::new(ErrorCode::CallBudgetSpent, message).with_hint(BUDGET_HINT);
            return Err(Refused::Flood(Box::new(report)));
        }
        Ok(Some(refusal))
    }

    /// Takes a call from the worker.
    pub(crate) fn accept(&mut self, id: u32, mut target: String, written: Written) -> Result<(), Refused> {
        self.next_id(id)?;
        let refusal = self.count()?;
        if target.len() > MAX_TARGET_BYTES {
            // No tool is called so. Cut, since every record keeps its target.
            target.truncate(target.floor_char_boundary(MAX_TARGET_BYTES));
            target.push('…');
        }
        self.waiting_bytes += written.args.get().len();
        self.recording.issued(CallId(id), TaskKind::Tool, &target, Some(written.args.get()));
        if let Some(speculation) = &mut self.speculation {
            speculation.issued(CallId(id), &target);
        }
        self.waiting.push_back(Waiting::Call { id: CallId(id), target, written, refusal });
        Ok(())
    }

    /// Has nothing been asked for yet?
    pub(super) fn is_untouched(&self) -> bool {
        self.last_id == 0
    }

    /// May more be read from the worker?
    pub(super) fn may_read(&self) -> bool {
        self.waiting_bytes < WAITING_BYTES
    }

    pub(crate) fn any_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Must [`next`](Self::next) be awaited although no answer may be taken?
    pub(crate) fn any_ahead(&self) -> bool {
        self.speculation.as_ref().is_some_and(|speculation| speculation.is_in_flight())
    }

    /// Is anything asked for that is not answered?
    pub(super) fn any_unanswered(&self) -> bool {
        !self.in_flight.is_empty() || !self.waiting.is_empty()
    }

    /// The tool of a call that has not ended.
    pub(crate) fn tool_of(&self, call: CallId) -> Option<&str> {
        self.open.iter().find(|open| open.id == call).map(|open| open.target.as_str())
    }

    /// Some tools whose calls have not ended.
    pub(super) fn open_tools(&self) -> Vec<&str> {
        let mut tools: Vec<_> = self.open.iter().map(|open| open.target.as_str()).collect();
        tools.sort_unstable();
        tools.dedup();
        tools.truncate(5);
        tools
    }

    /// Starts calls while there is room. Has any been started?
    pub(crate) fn start_waiting(&mut self, unsent: usize, listener: &(dyn Fn(Event<'_>) + Sync)) -> bool {
        let mut has_started = false;
        while self.in_flight.len() < self.budget.calls_in_flight
            && unsent < UNSENT_BYTES
            && self.open_bytes < OPEN_BYTES
            && let Some(waiting) = self.waiting.pop_front()
        {
            has_started = true;
            match waiting {
                Waiting::Call { id, target, written, refusal } => {
                    self.waiting_bytes -= written.args.get().len();
                    self.start(id, target, written, refusal, listener);
                }
                Waiting::Read { id, read, refusal } => {
                    self.waiting_bytes -= MAX_QUESTION_BYTES;
                    self.start_read(id, read, refusal);
                }
                Waiting::Recall { id, recall, refusal } => {
                    let handler = self.handler;
                    self.start_question((id, None), refusal, || handler.recall(recall));
                }
                Waiting::Ask { id, ask, refusal } => {
                    let (handler, context) = (self.handler, Arc::clone(&self.context));
                    let (kind, subject, _) = asked_for(&ask);
                    self.recording.started(CallId(id), &subject);
                    self.afterwards.catch_up();
                    self.start_question((id, Some(kind)), refusal, || handler.ask(context, CallId(id), ask));
                }
            }
        }
        if let Some(speculation) = &mut self.speculation {
            speculation.look_ahead();
        }
        has_started
    }

    /// The work, once the store has heard of the execution, so that nothing that a server saw is missing after a crash.
    fn announced<T: Send + 'a>(&self, work: HandlerFuture<'a, T>) -> HandlerFuture<'a, T> {
        match self.recording.announcement() {
            None => work,
            Some(announcement) => Box::pin(async move {
                announcement.await;
                work.await
            }),
        }
    }

    /// Has the handler answer something that is no call.
    fn start_question(
        &mut self,
        (id, kind): (u32, Option<TaskKind>),
        refusal: Option<CallError>,
        ask: impl FnOnce() -> HandlerFuture<'a, Result<Answer, CallError>>,
    ) {
        self.waiting_bytes -= MAX_QUESTION_BYTES;
        let work = match refusal {
            None => self.announced(ask()),
            Some(refusal) => Box::pin(std::future::ready(Err(refusal))),
        };
        let weigh = self.weigher();
        self.in_flight.push(Box::pin(async move {
            let outcome = match work.await {
                Ok(answer) => weigh.weigh(answer).await,
                Err(error) => Err(error),
            };
            Finished::Other { id, kind, outcome }
        }));
    }

    fn start(
        &mut self,
        id: CallId,
        mut target: String,
        written: Written,
        refusal: Option<CallError>,
        listener: &(dyn Fn(Event<'_>) + Sync),
    ) {
        let started = Instant::now();
        let Written { args, texts, is_raw, longest } = written;
        let checked = match refusal {
            Some(refusal) => Err(refusal),
            None => self.check(&target, &args).and_then(|tool| Ok((tool, self.vault.arguments(args, texts)?))),
        };
        let bytes = checked.as_ref().map_or(0, |(_, args)| args.bytes());
        let work: HandlerFuture<'a, Result<Answer, CallError>> = match checked {
            Ok((tool, args)) => {
                let asked = tool;
                let tool = self.handler.canonical(asked.clone());
                if tool != asked && self.handler.is_former(&asked) {
                    self.notices.add(format!("`{asked}` is now called `{tool}`"));
                }
                tool.as_str().clone_into(&mut target);
                let suggests = self.unknown < SUGGESTIONS;
                let notices = self.notices.clone();
                let context = Arc::clone(&self.context);
                let afterwards = self.afterwards.clone();
                let progress = self.reporting.as_ref().map(|reporting| reporting.listener(id));
                let allowance = self.allowance.clone();
                let early = self.speculation.as_mut().and_then(|speculation| {
                    let as_they_stand = !is_raw && !args.have_stand_ins();
                    speculation.started(id, &tool, as_they_stand.then(|| args.written()))
                });
                let call = ToolCall {
                    context,
                    id,
                    tool,
                    args,
                    is_raw,
                    suggests,
                    allowance,
                    notices,
                    afterwards,
                    progress,
                    early,
                };
                listener(Event::CallStarted(&call));
                self.announced(self.handler.call(call))
            }
            Err(error) => {
                self.afterwards.catch_up();
                self.handler.refused(&self.context, id, &target, &error);
                Box::pin(std::future::ready(Err(error)))
            }
        };
        self.recording.started(id, &target);
        self.open_bytes += bytes;
        self.open.push(Open { id, target: target.clone(), started, bytes });
        let weigh = self.weigher();
        self.in_flight.push(Box::pin(async move {
            let answer = match longest {
                None => work.await,
                // Dropped, the call is cancelled.
                Some(longest) => timeout(longest, work).await.unwrap_or_else(|_| Err(took_too_long(longest))),
            };
            let outcome = match answer {
                Ok(answer) => weigh.weigh(answer).await,
                Err(error) => Err(error),
            };
            Finished::Call { id, target, duration: started.elapsed(), outcome }
        }));
    }

    /// Checks what needs no catalogue: the name of the tool, and that the arguments are an object.
    fn check(&self, target: &str, args: &RawValue) -> Result<ToolId, CallError> {
        let tool: ToolId = target.parse().map_err(|err| {
            let meant = if self.unknown < SUGGESTIONS { self.handler.meant(target) } else { Vec::new() };
            CallError::new(ErrorCode::ToolNotFound, format!("{err}{}", did_you_mean(&meant)))
        })?;
        if !args.get().starts_with('{') {
            let start: String = args.get().chars().take(40).collect();
            let hint = if start.starts_with("\"{") { ": pass the value itself, not its JSON text" } else { "" };
            let message = format!("the arguments must be one object, such as {{ name: value }}, not {start}{hint}");
            return Err(CallError::new(ErrorCode::InvalidArguments, message));
        }
        Ok(tool)
    }

    fn start_read(&mut self, id: u32, read: Read, refusal: Option<CallError>) {
        let kept = refusal.map_or_else(|| self.vault.get(&read.token), Err);
        let (weigh, limits) = (self.weigher(), self.vault.limits());
        self.in_flight.push(Box::pin(async move {
            let outcome = match kept {
                Ok(kept) => {
                    let cost = kept.cost(&read.part, &limits);
                    let part = weigh.in_turn(cost, move |wanted| kept.read(&read.part, &limits, wanted)).await;
                    match part {
                        Ok(answer) => weigh.charged(answer).await,
                        Err(error) => Err(error),
                    }
                }
                Err(error) => Err(error),
            };
            Finished::Other { id, kind: None, outcome }
        }));
    }

    fn weigher(&self) -> Weigher {
        Weigher { turns: Arc::clone(&self.turns), limits: self.vault.limits(), room: self.handler.room() }
    }

    /// May an answer be taken, with so many bytes of others unsent?
    pub(super) fn may_answer(&self, unsent: usize) -> bool {
        !self.in_flight.is_empty() && unsent < UNSENT_BYTES
    }

    /// The next call or read that ends. Calls that are made ahead go on meanwhile. Only to be awaited while calls are in flight,
    /// or made ahead. `may_answer`: may an answer be taken?
    pub(crate) async fn next(&mut self, may_answer: bool) -> Ended {
        let finished = match &mut self.speculation {
            None => self.in_flight.next().await,
            Some(speculation) => loop {
                tokio::select! {
                    biased;
                    finished = self.in_flight.next(), if may_answer && !self.in_flight.is_empty() => break finished,
                    () = speculation.next_landing() => {}
                }
            },
        };
        match finished {
            Some(Finished::Other { id, kind: task, outcome }) => {
                let told = outcome.and_then(|weighed| self.vault.keep(weighed));
                let error = told.as_ref().err().cloned();
                let (kind, body) = frame(told);
                if let Some(speculation) = &mut self.speculation {
                    speculation.ended(CallId(id), error.as_ref());
                }
                if let Some(subject) = self.context.used.subject_of((self.context.execution, CallId(id))) {
                    self.recording.resolved(CallId(id), &subject);
                }
                match task {
                    Some(task) => self.recording.ended(CallId(id), task, error.as_ref().map_or(Ok(&body), Err)),
                    None => self.recording.answered_read(),
                }
                Ended { id, record: None, kind, body }
            }
            Some(Finished::Call { id, target, duration, outcome }) => {
                if let Some(index) = self.open.iter().position(|open| open.id == id) {
                    self.open_bytes -= self.open.remove(index).bytes;
                }
                let outcome = outcome.and_then(|weighed| self.vault.keep(weighed));
                let error = outcome.as_ref().err().cloned();
                self.unknown += u32::from(error.as_ref().is_some_and(|error| error.code == ErrorCode::ToolNotFound));
                let (kind, body) = frame(outcome);
                if let Some(speculation) = &mut self.speculation {
                    speculation.ended(id, error.as_ref());
                }
                self.recording.ended(id, TaskKind::Tool, error.as_ref().map_or(Ok(&body), Err));
                let is_empty = error.is_none() && kind != Kind::RpcHandles && outcome::is_empty(&body);
                let record = CallRecord { id, tool: target, duration, error, is_empty };
                self.records.push(record.clone());
                Ended { id: id.0, record: Some(record), kind, body }
            }
            None => std::future::pending().await,
        }
    }

    /// Values take the places of handles in a result, elsewhere if they are large. What goes beside it.
    pub(crate) async fn fill_result(
        &mut self,
        value: Box<RawValue>,
        media: Media,
        limit: usize,
    ) -> Result<FilledResult, Box<ErrorReport>> {
        let Some(filler) = self.vault.filler(&value) else { return Ok(value.into()) };
        work::sized(filler.bytes(), move |_| filler.fill_result(&value, media, limit)).await
    }

    /// Cancels what is still going on. Gives all records in order, and the tools of calls that
    /// had not ended.
    pub(crate) fn finish(mut self) -> (Vec<CallRecord>, Vec<String>) {
        self.afterwards.catch_up();
        self.in_flight.clear();
        if let Some(speculation) = self.speculation.take() {
            speculation.finish();
        }
        let never_started = self.waiting.drain(..).filter_map(|waiting| match waiting {
            Waiting::Call { id, target, .. } => {
                self.handler.refused(&self.context, id, &target, &unfinished_error());
                Some(Open { id, target, started: Instant::now(), bytes: 0 })
            }
            Waiting::Read { .. } | Waiting::Recall { .. } | Waiting::Ask { .. } => None,
        });
        self.open.extend(never_started);
        let unfinished = self.open.iter().map(|open| open.target.clone()).collect();
        for Open { id, target, started, .. } in self.open {
            self.recording.ended(id, TaskKind::Tool, Err(&unfinished_error()));
            self.records.push(CallRecord {
                id,
                tool: target,
                duration: started.elapsed(),
                error: Some(unfinished_error()),
                is_empty: false,
            });
        }
        self.records.sort_by_key(|record| record.id);
        (self.records, unfinished)
    }
}

fn took_too_long(longest: Duration) -> CallError {
    CallError::new(ErrorCode::Timeout, format!("the call took longer than the {} ms that it may", longest.as_millis()))
}

fn unfinished_error() -> CallError {
    CallError::new(ErrorCode::Cancelled, "the run ended before the call did")
}

/// What a question is as a task: its kind, what it is about, and its arguments.
fn asked_for(ask: &Ask) -> (TaskKind, String, String) {
    let args = to_json(ask).into();
    match ask {
        Ask::Search(_) => (TaskKind::Search, SEARCH.to_owned(), args),
        Ask::ListResources { server } => {
            (TaskKind::Resource, format!("{}:resource:*", server.as_deref().unwrap_or("*")), args)
        }
        Ask::ReadResource { uri, server } => {
            (TaskKind::Resource, format!("{}:resource:{uri}", server.as_deref().unwrap_or("*")), args)
        }
        Ask::GetPrompt { server, name, .. } => (TaskKind::Prompt, format!("{server}:prompt:{name}"), args),
    }
}

/// Makes answers fit for the program; large ones elsewhere, a few of a run at a time.
struct Weigher {
    turns: Arc<Semaphore>,
    limits: Limits,
    room: Room,
}

impl Weigher {
    async fn weigh(&self, answer: Answer) -> Outcome {
        let bytes = answer.bytes();
        // What is kept of a large one is a copy, for a moment.
        let mut copy = self.room.charge();
        if bytes > self.limits.whole_bytes {
            copy.set(bytes).await?;
        }
        let limits = self.limits.clone();
        Ok(self.in_turn(bytes, move |_| weigh(answer, &limits)).await)
    }

    /// The same of an answer that was made here, and so has no room yet.
    async fn charged(&self, answer: Answer) -> Outcome {
        let bytes = answer.bytes();
        let mut charge = self.room.charge();
        charge.set(bytes).await?;
        let held = (bytes > self.limits.whole_bytes).then(|| Arc::new(charge));
        self.weigh(Answer { held, ..answer }).await
    }

    /// Does work on so many bytes: at once, or when it is its turn.
    async fn in_turn<T: Send + 'static>(&self, bytes: usize, work: impl FnOnce(&Waiter) -> T + Send + 'static) -> T {
        if bytes <= AT_ONCE_BYTES {
            return work(&Waiter::default());
        }
        let _turn = self.turns.acquire().await.expect("the turns are never closed");
        work::elsewhere(work).await
    }
}

/// The frame that tells the program.
fn frame(outcome: Result<ProgramValue, CallError>) -> (Kind, Box<str>) {
    match outcome {
        Ok(ProgramValue::Value(value)) => (Kind::RpcResult, value),
        Ok(ProgramValue::JsonText(text)) => (Kind::RpcJsonText, text),
        Ok(ProgramValue::Handles(handles)) => (Kind::RpcHandles, to_json(&handles)),
        Err(error) => (Kind::RpcError, to_json(&error)),
    }
}

fn to_json(value: &impl serde::Serialize) -> Box<str> {
    serde_json::to_string(value).expect("plain data serializes").into()
}

const BUDGET_HINT: &str = "make one call that returns more, or raise limits.calls";
