//! The life of one run.
//!
//! The worker is treated as hostile: every frame is checked, sizes and ids are bounded, and the
//! limits of time are enforced by killing the process from here. Tool calls go to a [`CallHandler`]; this
//! module counts them, limits how many run at once, and records how each ended.
//!
//! **Invariant:** [`run`] always returns an [`Outcome`], shortly after [`Budget::total`] at the latest,
//! and the worker process is on its way out by then.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use pml_wire::{
    CallId, ErrorCode, Frame, Kind,
    message::{
        Decision, ErrorReport, ExecutionComplete, Init, Limits, Log, MAX_DECISIONS_CUT, MissingRead, Progress,
        WAITING_AFTER_MS, log_cost,
    },
    trace::Entry,
};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, field, info_span};

use super::{
    calls::{Calls, Refused, Written},
    clock::{Clock, Limit},
    fill::FilledResult,
    from_worker::{FromWorker, Violation},
    outcome::{CallRecord, Outcome},
    reports::{Report, Reports},
};
use crate::{
    broker::{Allowance, Budget, CallHandler, HandlerFuture, NestedValue, ToolCall},
    sandbox::{Pool, Worker, WorkerExit},
    trace::{Context, Recording},
    upstream,
    work::{self, AT_ONCE_BYTES},
};

/// After a limit of time has passed, how long the worker may take to report where it was.
const GRACE: Duration = Duration::from_millis(40);
/// A worker has waited for so long when it says so.
const MOMENT: Duration = Duration::from_millis(WAITING_AFTER_MS);

/// How long the answer to a program is watched for before waiting for it. Measured: 149 µs for a
/// trivial program without, 76 µs with.
const CLOSE_WATCH: Duration = Duration::from_micros(150);

/// A worker that is gone this soon, without a word, was gone before it got the program.
const DIED_WAITING: Duration = Duration::from_millis(20);
/// How often a program is given to a worker, if each is gone at once.
const MAX_ATTEMPTS: usize = 5;
/// Tools that are named in a warning about calls that were not awaited.
const MAX_NAMES: usize = 20;
/// How often a run that is busy moving frames lets others have their turn.
const TURNS: u32 = 8;
/// Longest text of a branch decision.
const MAX_DECISION_BYTES: usize = 1024;
/// Most warnings of one run.
const MAX_WARNINGS: usize = 100;

/// Processor pauses between two looks: a microsecond or two.
const PAUSES: usize = 20;

/// What to run.
#[derive(Clone, Debug)]
pub struct Request {
    /// Whose program it is, and where the run is recorded.
    pub recording: Recording,
    /// TypeScript.
    pub code: String,
    /// What to call the program in messages.
    pub name: String,
    /// The value of the global `args`.
    pub args: Box<RawValue>,
    pub media: Media,
    /// Tell how far calls are, with [`Event::CallProgress`]?
    pub follows_calls: bool,
    /// What is left to the run, if others spend it too; without it, the run has its whole budget to itself.
    pub allowance: Option<Allowance>,
}

/// Where images, audio and binary resources in a result go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// Into the result, whole.
    Inline,
    /// Beside it, as [`Outcome::attached`]; the result says which.
    Apart,
    /// They stay with the host, like all large values, and the run around this one gets handles of them
    /// ([`Outcome::answer`]).
    Nested,
}

impl Request {
    /// A program of a new execution that nobody records, with nothing in `args`.
    pub fn new(code: impl Into<String>) -> Request {
        Request {
            recording: Recording::none(Arc::new(Context::new(Entry::Run, "cli"))),
            code: code.into(),
            name: "agent.ts".to_owned(),
            args: RawValue::NULL.to_owned(),
            media: Media::Inline,
            follows_calls: false,
            allowance: None,
        }
    }
}

/// What can be followed while a run goes on.
#[derive(Debug)]
pub enum Event<'a> {
    Log(&'a Log),
    Progress(&'a Progress),
    CallStarted(&'a ToolCall),
    /// The server of a call that goes on says how far it is. Told at a bounded rate.
    CallProgress {
        call: CallId,
        tool: &'a str,
        progress: &'a upstream::Progress,
    },
    CallEnded(&'a CallRecord),
    /// The program waits, for calls or timers, and needs no processor.
    Waiting,
    /// It goes on.
    Awake,
}

/// Runs a program and says how it went. Dropping the future kills the run.
pub async fn run(
    pool: &Pool,
    request: Request,
    budget: Budget,
    handler: &dyn CallHandler,
    listener: &(dyn Fn(Event<'_>) + Sync),
    cancel: &CancellationToken,
) -> Outcome {
    let recording = request.recording.clone();
    let id = recording.context().execution;
    let span = info_span!("execute", execution = %id, code = field::Empty, duration_ms = field::Empty);
    let started = Instant::now();
    let reports = request.follows_calls.then(Reports::new);
    let allowance = request.allowance.clone().unwrap_or_else(|| Allowance::new(budget));
    let mut run = Run {
        budget,
        listener,
        calls: Calls::new(recording.clone(), (budget, allowance), handler, reports.as_ref().map(Reports::reporting)),
        reports,
        recording,
        lines: count_lines(&request.code),
        clock: Clock::start(budget.timeout, budget.total),
        media: request.media,
        is_waiting: false,
        has_heard: false,
        names: Asked::Not,
        preflight: Asked::Not,
        large: Slot(None),
        value: None,
        attached: Vec::new(),
        nested: None,
        logs: Vec::new(),
        log_left: budget.log_bytes,
        warnings: Vec::new(),
        missing: Vec::new(),
        decisions: Vec::new(),
    };
    let mut result = run.execute(pool, request, cancel).instrument(span.clone()).await;
    if let Err(report) = &mut result {
        handler.explain(report);
    }

    let duration = started.elapsed();
    span.record("duration_ms", u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    if let Err(error) = &result {
        span.record("code", error.code.as_str());
    }
    // A result that is not what the program takes it for says more than what became of it.
    let missing = std::mem::take(&mut run.missing);
    let missing = missing.into_iter().filter(|read| !handler.may_be_absent(read)).map(|read| read.warning);
    run.warnings.splice(0..0, missing.take(MAX_WARNINGS).collect::<Vec<_>>());
    run.warnings.truncate(MAX_WARNINGS);
    run.warnings.extend(run.calls.notices.take());
    let used = run.recording.context().used.names();
    let (calls, unfinished) = run.calls.finish();
    if !unfinished.is_empty() && result.is_ok() {
        // The count is exact; a flood of names would help nobody.
        let (count, list) = (unfinished.len(), unfinished[..unfinished.len().min(MAX_NAMES)].join("`, `"));
        let (noun, verb) = if count == 1 { ("call", "was") } else { ("calls", "were") };
        let whose = if count == 1 { "its result is" } else { "their results are" };
        run.warnings.push(format!(
            "{count} tool {noun} {verb} not awaited: `{list}`; {whose} lost: write `await` in front, or `await Promise.all([…])` around several"
        ));
    }
    span.in_scope(|| debug!(calls = calls.len(), "execution ended"));
    Outcome {
        execution_id: id,
        result,
        attached: run.attached,
        nested: run.nested,
        logs: run.logs,
        calls,
        used,
        warnings: run.warnings,
        decisions: run.decisions,
        duration,
    }
}

/// The state of one run.
struct Run<'a> {
    budget: Budget,
    listener: &'a (dyn Fn(Event<'_>) + Sync),
    calls: Calls<'a>,
    /// How far calls are, if anybody wants to know.
    reports: Option<Reports>,
    recording: Recording,
    /// Lines of the program.
    lines: u32,
    clock: Clock,
    media: Media,
    /// Does the program wait, as far as is known?
    is_waiting: bool,
    /// Has the worker said anything? Until then, the program has done nothing that can be seen.
    has_heard: bool,
    /// The names of all tools.
    names: Asked<HandlerFuture<'a, Arc<str>>>,
    /// The check of the calls that can be read off the program.
    preflight: Asked<HandlerFuture<'a, Verdict>>,
    /// A large frame that is being read elsewhere. Those behind it wait.
    large: Slot<HandlerFuture<'a, Result<FromWorker, Violation>>>,
    value: Option<Box<RawValue>>,
    attached: Vec<Box<RawValue>>,
    nested: Option<NestedValue>,
    logs: Vec<Log>,
    log_left: usize,
    warnings: Vec<String>,
    /// Reads of what results do not have, each with a warning.
    missing: Vec<MissingRead>,
    decisions: Vec<Decision>,
}

type RunResult = Result<Box<RawValue>, Box<ErrorReport>>;
/// Warnings about a program, or why it must not run.
pub(super) type Verdict = Result<Vec<String>, Box<ErrorReport>>;

/// What a worker asks for at most once: ours does so and remembers. Asked without end, the answers
/// would fill memory.
enum Asked<F> {
    Not,
    Pending(F),
    Answered,
}

impl<F: Future + Unpin> Asked<F> {
    fn is_pending(&self) -> bool {
        matches!(self, Asked::Pending(_))
    }

    /// The answer, once. Only to be awaited while it is pending.
    async fn answer(&mut self) -> F::Output {
        match self {
            Asked::Pending(future) => {
                let answer = future.await;
                *self = Asked::Answered;
                answer
            }
            Asked::Not | Asked::Answered => std::future::pending().await,
        }
    }
}

/// A place for one piece of work at a time.
struct Slot<F>(Option<F>);

impl<F: Future + Unpin> Slot<F> {
    fn is_taken(&self) -> bool {
        self.0.is_some()
    }

    /// What comes of the work, after which the place is free. Only to be awaited while it is taken.
    async fn emptied(&mut self) -> F::Output {
        match &mut self.0 {
            Some(work) => {
                let output = work.await;
                self.0 = None;
                output
            }
            None => std::future::pending().await,
        }
    }
}

impl Run<'_> {
    async fn execute(&mut self, pool: &Pool, request: Request, cancel: &CancellationToken) -> RunResult {
        let (size, limit) = (request.code.len(), self.budget.code_bytes);
        if size > limit {
            let message = format!("the code has {size} bytes, more than the limit of {limit}");
            let report = ErrorReport::new(ErrorCode::CodeTooLarge, message);
            return Err(Box::new(report.with_hint("pass data through `args` or a tool, not in the code")));
        }
        let init = Init {
            name: request.name,
            code: request.code,
            args: request.args,
            limits: Limits {
                timeout_ms: millis(self.budget.timeout),
                total_ms: millis(self.budget.total),
                memory_bytes: self.budget.memory_bytes,
                result_bytes: self.budget.result_bytes,
                log_bytes: self.budget.log_bytes,
                decisions: self.budget.decisions,
            },
        };
        let init = serde_json::to_vec(&init).expect("plain data serializes");
        // A worker that is gone at once had died waiting, in the pool. And if it had not, the program has done nothing that
        // can be seen, so it may begin again. If what workers are forked from has died, those that wait die one after another.
        for _ in 1..MAX_ATTEMPTS {
            let started = Instant::now();
            match self.attempt(pool, &init, cancel).await? {
                Attempt::Over(result) => return result,
                Attempt::Lost(_) if !self.has_heard && started.elapsed() < DIED_WAITING => {}
                Attempt::Lost(report) => return Err(report),
            }
        }
        match self.attempt(pool, &init, cancel).await? {
            Attempt::Over(result) => result,
            Attempt::Lost(report) => Err(report),
        }
    }

    /// Gives the program to a worker and sees it through.
    async fn attempt(
        &mut self,
        pool: &Pool,
        init: &[u8],
        cancel: &CancellationToken,
    ) -> Result<Attempt, Box<ErrorReport>> {
        let mut worker = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(cancelled()),
            worker = pool.lease() => worker.map_err(|err| Box::new(err.into()))?,
        };
        self.clock = Clock::start(self.budget.timeout, self.budget.total);
        worker.send(Kind::Init, 0, init);
        match self.drive(&mut worker, cancel).await {
            Ok(result) => {
                worker.retire();
                Ok(Attempt::Over(result))
            }
            Err(Stop::Closed) => {
                let ended = worker.end().await;
                Ok(match () {
                    () if ended.is_out_of_memory() => Attempt::Over(Err(Box::new(ErrorReport::out_of_memory()))),
                    () if ended.is_violation() => Attempt::Lost(violation("a forbidden system call")),
                    () => Attempt::Lost(crashed(&ended)),
                })
            }
            Err(Stop::Violation(what)) => Err(violation(&what)),
            Err(Stop::Report(report)) => Err(report),
        }
    }

    /// Moves frames both ways until the run is over.
    async fn drive(&mut self, worker: &mut Worker, cancel: &CancellationToken) -> Result<RunResult, Stop> {
        let mut killed = pin!(sleep_until(self.clock.deadline().0 + GRACE));
        watch_closely(worker).await?;
        let mut turns = 0_u32;
        loop {
            let mut taken = 0;
            while !self.is_held_up()
                && taken < AT_ONCE_BYTES
                && let Some(frame) = worker.next_frame()?
            {
                self.has_heard = true;
                taken += frame.body.len();
                match self.read(frame)? {
                    None => {}
                    Some(message) => {
                        if let Some(ending) = self.take(message)? {
                            return Ok(self.finish(ending).await);
                        }
                    }
                }
            }
            let has_started = self.calls.start_waiting(worker.unsent(), self.listener);
            // A worker that sends without end would keep this loop busy, and timers, signals and
            // other runs waiting.
            turns = (turns + 1) % TURNS;
            if turns == 0 {
                tokio::task::yield_now().await;
            }
            self.clock.set_waiting(self.waits_for_host());
            let kill_at = self.clock.deadline().0 + GRACE;
            if killed.deadline() != kill_at {
                killed.as_mut().reset(kill_at);
            }
            // While there is always something to do, the runtime seldom looks at its timers.
            if Instant::now() >= kill_at {
                return Err(Stop::Report(self.timed_out()));
            }
            // There may be more frames where these came from.
            if taken >= AT_ONCE_BYTES && !self.is_held_up() {
                tokio::task::yield_now().await;
                continue;
            }
            let (checks, lists, reads) = (self.preflight.is_pending(), self.names.is_pending(), self.large.is_taken());
            let may_read = self.calls.may_read() && !self.is_held_up();
            let may_answer = self.calls.may_answer(worker.unsent());
            let has_calls = may_answer || self.calls.any_ahead();
            if !has_started {
                self.calls.afterwards.catch_up();
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(Stop::Report(cancelled())),
                () = &mut killed => return Err(Stop::Report(self.timed_out())),
                verdict = self.preflight.answer(), if checks => {
                    self.warnings = verdict.map_err(Stop::Report)?;
                }
                message = self.large.emptied(), if reads => {
                    if let Some(ending) = self.take(message?)? {
                        return Ok(self.finish(ending).await);
                    }
                }
                names = self.names.answer(), if lists => {
                    self.wake();
                    worker.send(Kind::Names, 0, names.as_bytes());
                }
                ended = self.calls.next(may_answer), if has_calls => {
                    if let Some(record) = &ended.record {
                        if let Some(reports) = &self.reports {
                            reports.forget(record.id);
                        }
                        (self.listener)(Event::CallEnded(record));
                    }
                    // It may have waited for this, and not long enough to say so.
                    if !self.is_waiting {
                        self.clock.credit(MOMENT);
                    }
                    self.wake();
                    let id = ended.id;
                    let (kind, body) = ended.into_answer();
                    worker.send_owned(kind, id, body);
                    // Most programs make the next call right after the last answer. That call then writes what is left about
                    // this one.
                    if !self.calls.any_in_flight() {
                        watch_closely(worker).await?;
                    }
                }
                report = Reports::next_of(&mut self.reports) => {
                    if let Some(tool) = self.calls.tool_of(report.call) {
                        let Report { call, progress } = &report;
                        (self.listener)(Event::CallProgress { call: *call, tool, progress });
                    }
                }
                moved = worker.exchange(may_read) => moved?,
            }
        }
    }

    /// Must what comes next wait? Until the program is known to be allowed to, it does nothing that can be seen; and
    /// frames are acted on in order.
    fn is_held_up(&self) -> bool {
        self.preflight.is_pending() || self.large.is_taken()
    }

    /// Does the program stand still for what the host does, or has others do, as far as is known?
    fn waits_for_host(&self) -> bool {
        let is_unread = self.is_held_up() || !self.calls.may_read();
        is_unread || self.names.is_pending() || (self.is_waiting && self.calls.any_unanswered())
    }

    /// Reads a frame: at once, or elsewhere if it is large.
    fn read(&mut self, frame: Frame) -> Result<Option<FromWorker>, Stop> {
        let limit = self.budget.result_bytes;
        if frame.body.len() <= AT_ONCE_BYTES {
            return Ok(Some(FromWorker::read(frame, limit)?));
        }
        self.large = Slot(Some(Box::pin(work::elsewhere(move |_| FromWorker::read(frame, limit)))));
        Ok(None)
    }

    /// Acts on one message. How the run ends, once it does.
    fn take(&mut self, message: FromWorker) -> Result<Option<ExecutionComplete>, Stop> {
        match message {
            FromWorker::Call { id, target, args, texts, is_raw } => {
                self.calls.accept(id, target, Written { args, texts, is_raw, longest: None })?;
            }
            FromWorker::Log(log) => {
                // The worker keeps to the limit by itself; one that does not is not believed.
                if let Some(left) = self.log_left.checked_sub(log_cost(&log.text)) {
                    self.log_left = left;
                    self.recording.logged(&log);
                    (self.listener)(Event::Log(&log));
                    self.logs.push(log);
                }
            }
            FromWorker::Progress(progress) => (self.listener)(Event::Progress(&progress)),
            FromWorker::NamesRequest => match self.names {
                Asked::Not => self.names = Asked::Pending(self.calls.handler().names()),
                _ => return Err(Stop::Violation("a second request for names".to_owned())),
            },
            FromWorker::Preflight(calls) => {
                if !matches!(self.preflight, Asked::Not) || !self.calls.is_untouched() {
                    return Err(Stop::Violation("a list of calls that comes too late".to_owned()));
                }
                self.preflight = Asked::Pending(self.calls.preflight(calls));
            }
            FromWorker::Read { id, read } => self.calls.accept_read(id, read)?,
            FromWorker::Recall { id, recall } => self.calls.accept_recall(id, recall)?,
            FromWorker::Ask { id, ask } => self.calls.accept_ask(id, ask)?,
            FromWorker::Value(value) => self.value = Some(value),
            FromWorker::Complete(complete) if complete.error.is_none() && self.value.is_none() => {
                return Err(Stop::Violation("an end without a result".to_owned()));
            }
            FromWorker::Complete(complete) => return Ok(Some(complete)),
            FromWorker::Waiting if !self.is_waiting => {
                self.is_waiting = true;
                if self.calls.any_unanswered() {
                    self.clock.credit(MOMENT);
                }
                (self.listener)(Event::Waiting);
            }
            FromWorker::Awake => self.wake(),
            FromWorker::Decisions(decisions) => self.decide(decisions, 0),
            FromWorker::Answered(count) => self.recording.answered(count),
            // A line that the program does not have is of no use to anybody.
            FromWorker::Line(line) => self.recording.at_line((1..=self.lines).contains(&line).then_some(line)),
            FromWorker::Waiting => {}
        }
        Ok(None)
    }

    /// Keeps decisions of the program, as many as are wanted. Ours sends no more and none that is long.
    fn decide(&mut self, mut decisions: Vec<Decision>, cut: u64) {
        decisions.truncate(self.budget.decisions - self.decisions.len());
        for Decision { node_id, outcome, condition } in &mut decisions {
            for text in [node_id, outcome, condition] {
                text.truncate(text.floor_char_boundary(MAX_DECISION_BYTES));
            }
        }
        self.recording.decided(decisions.iter().cloned(), cut.min(MAX_DECISIONS_CUT));
        self.decisions.extend(decisions);
    }

    /// Notes that the program goes on.
    fn wake(&mut self) {
        if std::mem::replace(&mut self.is_waiting, false) {
            (self.listener)(Event::Awake);
        }
    }

    /// Takes what the worker says at its end. Values take the places of handles in the result, elsewhere if they are large.
    async fn finish(&mut self, complete: ExecutionComplete) -> RunResult {
        let ExecutionComplete { error, warnings, missing, decisions, decisions_cut } = complete;
        self.missing = missing;
        self.warnings.extend(warnings);
        self.warnings.truncate(MAX_WARNINGS);
        self.decide(decisions, decisions_cut);
        let value = match (error, self.value.take()) {
            (Some(error), _) => return Err(Box::new(error)),
            (None, value) => value.unwrap_or_else(|| RawValue::NULL.to_owned()),
        };
        let filled = self.calls.fill_result(value, self.media, self.budget.result_bytes).await;
        filled.map(|FilledResult { value, attached, nested }| {
            (self.attached, self.nested) = (attached, nested);
            value
        })
    }

    /// The worker did not stop by itself, so there is no line to point at.
    fn timed_out(&self) -> Box<ErrorReport> {
        let waiting_for = self.calls.open_tools();
        let for_tools = match waiting_for.is_empty() {
            true => String::new(),
            false => format!(", waiting for `{}`", waiting_for.join("`, `")),
        };
        let (_, limit) = self.clock.deadline();
        let (message, hint) = match limit {
            Limit::Total => (
                format!("the run took longer than {:?} in all{for_tools}", self.budget.total),
                "make fewer or faster calls, or raise the limit with --total or limits.total_ms",
            ),
            Limit::Computing if waiting_for.is_empty() => (
                format!("the program ran for longer than {:?} and did not stop when told to", self.budget.timeout),
                "look for one long operation, such as arithmetic on huge numbers",
            ),
            Limit::Computing => (
                format!(
                    "the program ran for longer than {:?} and did not stop when told to, while `{}` was under way",
                    self.budget.timeout,
                    waiting_for.join("`, `")
                ),
                "look for what the program computes beside its calls, or raise the limit with timeout_ms, --timeout or limits.timeout_ms",
            ),
        };
        Box::new(ErrorReport::new(ErrorCode::Timeout, message).with_hint(hint))
    }
}

/// How many lines a program has at most, whatever counts as the end of one.
fn count_lines(code: &str) -> u32 {
    let ends = code.chars().filter(|c| matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}')).count();
    u32::try_from(ends).unwrap_or(u32::MAX - 1) + 1
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Looks for what a program says next without going to sleep, for a moment.
///
/// A trivial program takes less time than two sleeping processors take to wake, so waiting for it
/// in the usual way costs more than running it. Others are let through between looks.
async fn watch_closely(worker: &mut Worker) -> Result<(), Stop> {
    let started = Instant::now();
    while started.elapsed() < CLOSE_WATCH && !worker.try_receive()? {
        // First whoever shares this processor, then whoever shares its core, then other tasks.
        std::thread::yield_now();
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// What came of giving a program to a worker.
enum Attempt {
    Over(RunResult),
    /// The worker is gone without an answer, for this reason.
    Lost(Box<ErrorReport>),
}

/// Why a run stopped before the worker said so.
enum Stop {
    /// The worker closed its end.
    Closed,
    /// The worker sent what ours never sends.
    Violation(String),
    Report(Box<ErrorReport>),
}

impl From<std::io::Error> for Stop {
    fn from(_: std::io::Error) -> Stop {
        Stop::Closed // a socket that cannot be read has nobody at its other end
    }
}

impl From<pml_wire::FrameError> for Stop {
    fn from(err: pml_wire::FrameError) -> Stop {
        Stop::Violation(err.to_string())
    }
}

impl From<Violation> for Stop {
    fn from(Violation(what): Violation) -> Stop {
        Stop::Violation(what)
    }
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Stop {
        match refused {
            Refused::OutOfOrder(id) => Stop::Violation(format!("call id {id} out of order")),
            Refused::Flood(report) => Stop::Report(report),
        }
    }
}

fn cancelled() -> Box<ErrorReport> {
    Box::new(ErrorReport::new(ErrorCode::Cancelled, "the run was cancelled"))
}

fn violation(what: &str) -> Box<ErrorReport> {
    tracing::error!(what, "sandbox violation");
    let message = format!("the sandbox process was stopped for breaking the rules: {what}");
    Box::new(ErrorReport::new(ErrorCode::SandboxViolation, message))
}

fn crashed(ended: &WorkerExit) -> Box<ErrorReport> {
    let message = format!("the sandbox process ended without an answer: {}", ended.describe());
    let hint = "run the program again; if it happens every time, it has found a bug in the engine";
    Box::new(ErrorReport::new(ErrorCode::WorkerCrashed, message).with_hint(hint))
}
