//! Runs a workflow that was checked.
//!
//! Every task is a call, or several, that the broker sees like those of a program: counted and bounded by the same
//! [`Calls`], recorded in the same way. Values that are too large to be looked into stay where programs' large values stay,
//! and a reference to a part of one is a read of it.
//!
//! **Invariant:** [`run`] always returns an [`Outcome`], shortly after [`Budget::total`] at the latest, and every task has ended
//! in it, whatever became of it.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use pml_wire::{
    CallId, ErrorCode, Kind,
    message::{CallError, ErrorReport, Part, Read},
};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{
    check::Checked,
    outcome::{Elements, Outcome, Results, Status, TaskRecord, empty, failed},
    outputs::{Element, Output, Slot, View, Work},
    reference::Source,
    schedule::{End, Schedule},
    template::{Filled, Unfit},
};
use crate::{
    broker::{Allowance, Budget, CallHandler},
    execution::{self, Calls, Expected, FilledResult, IndexRoom, Media, Order, Refused, Report, Reports, Written},
    room::Room,
    trace::Recording,
    work,
};

/// Most memory for knowing where the parts of results are.
const INDEX_BYTES: usize = 16 * 1024 * 1024;
/// Longest pause before a call is made again.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Tasks whose calls may be made ahead, the first ones.
const MAX_EXPECTED: usize = 200;
/// Largest arguments of a workflow that are put into calls before it runs, in bytes.
const MAX_KNOWN_BYTES: usize = 16 * 1024;

/// What to run, and with what.
#[derive(Debug)]
pub struct Request {
    /// Whose workflow it is, and where the run is recorded.
    pub recording: Recording,
    pub checked: Checked,
    pub budget: Budget,
    pub allowance: Allowance,
    pub media: Media,
    /// Tell how far calls are?
    pub follows_calls: bool,
}

/// What can be followed while a workflow runs.
#[derive(Debug)]
pub enum Event<'a> {
    TaskStarted {
        id: &'a str,
    },
    /// So many of so many have ended.
    TaskEnded {
        task: &'a TaskRecord,
        ended: usize,
        of: usize,
    },
    Call(execution::Event<'a>),
}

/// Whoever follows a workflow.
pub type Listener<'a> = &'a (dyn Fn(Event<'_>) + Sync);

/// Runs a workflow and says how it went. Dropping the future cancels what goes on.
pub async fn run(
    handler: &dyn CallHandler,
    request: Request,
    listener: Listener<'_>,
    cancel: &CancellationToken,
) -> Outcome {
    let started = Instant::now();
    let Request { recording, checked, budget, allowance, media, follows_calls } = request;
    let execution_id = recording.context().execution;
    let reports = follows_calls.then(Reports::new);
    let calls = Calls::new(recording.clone(), (budget, allowance), handler, reports.as_ref().map(Reports::reporting));
    let checked = Arc::new(checked);
    let index = IndexRoom::new(INDEX_BYTES);
    let count = checked.steps.len();
    let mut runner = Runner {
        args: Arc::new(Output::value(checked.args.get(), &index)),
        index,
        shared_room: handler.room(),
        bytes: 0,
        most_bytes: budget.memory_bytes,
        schedule: Schedule::new(&checked.dependencies),
        recording,
        places: checked.workflow.tasks.iter().enumerate().map(|(place, task)| (task.id.clone(), place)).collect(),
        checked: Arc::clone(&checked),
        calls,
        reports,
        listener,
        in_flight: budget.calls_in_flight,
        active: (0..count).map(|_| None).collect(),
        outputs: vec![None; count],
        partial: HashMap::new(),
        records: vec![None; count],
        ended: 0,
        parts: HashMap::new(),
        queue: VecDeque::new(),
        open: 0,
        asked: HashMap::new(),
        last_id: 0,
        prepared: FuturesUnordered::new(),
        pauses: FuturesUnordered::new(),
    };
    runner.expect();
    let stopped = runner.drive(started + budget.total, budget.total, cancel).await.err();
    runner.abandon(stopped.as_deref());
    let mut warnings = checked.warnings.clone();
    warnings.extend(runner.calls.notices.take());
    let FilledResult { value, attached, nested } = runner.results(media, budget.result_bytes, &mut warnings).await;
    let Results { results, partial_results } =
        serde_json::from_str(value.get()).unwrap_or_else(|_| Results { results: empty(), partial_results: None });
    let tasks: Vec<TaskRecord> = runner.records.into_iter().flatten().collect();
    let (calls, _) = runner.calls.finish();
    let verdict = match stopped {
        Some(report) => Err(report),
        None => failed(&tasks).map_or(Ok(()), |report| Err(Box::new(report))),
    };
    let name = checked.workflow.name.clone();
    let duration = started.elapsed();
    Outcome {
        execution_id,
        name,
        verdict,
        results,
        partial_results,
        attached,
        nested,
        tasks,
        problems: Vec::new(),
        calls,
        warnings,
        duration,
    }
}

/// One call of a task.
#[derive(Clone, Debug)]
struct Unit {
    task: usize,
    element: Option<Element>,
    /// How often the call was made before.
    repeated: u32,
}

/// A task that goes on.
struct Active {
    started: Instant,
    view: Arc<View>,
    /// Parts of large values that are not read yet.
    unread: usize,
    /// The elements that were not begun, and whether there is a list at all.
    elements: VecDeque<Element>,
    is_list: bool,
    results: Vec<Option<Arc<Output>>>,
    /// The elements that failed.
    failed: Vec<usize>,
    /// Calls that were begun and have not ended.
    open: usize,
    calls: u32,
    error: Option<CallError>,
}

/// What an answer is to.
enum CallPurpose {
    Call(Unit),
    /// A part of a large value, which these tasks wait for.
    Part {
        of: usize,
        path: String,
    },
}

/// What was worked out about a task.
enum Prepared {
    Work(usize, Result<Work, Unfit>),
    Call(Unit, Result<Filled, Unfit>),
}

type PartKey = (usize, String);

struct Runner<'a> {
    checked: Arc<Checked>,
    schedule: Schedule,
    calls: Calls<'a>,
    recording: Recording,
    reports: Option<Reports>,
    listener: Listener<'a>,
    /// Most calls at the same time.
    in_flight: usize,
    places: HashMap<String, usize>,
    args: Arc<Output>,
    /// Memory for knowing where the parts of results are.
    index: IndexRoom,
    /// Memory for the results themselves, which all share, how much they take, and how much they may.
    shared_room: Room,
    bytes: usize,
    most_bytes: usize,
    active: Vec<Option<Active>>,
    outputs: Vec<Option<Arc<Output>>>,
    /// Of tasks with `forEach` that failed: the result of each element that succeeded.
    partial: HashMap<usize, Vec<Option<Arc<Output>>>>,
    records: Vec<Option<TaskRecord>>,
    ended: usize,
    /// Parts of large values: read, or awaited by these tasks.
    parts: HashMap<PartKey, Result<Slot, HashSet<usize>>>,
    /// Calls that may be made.
    queue: VecDeque<Unit>,
    /// Calls that were taken from the queue and have not ended.
    open: usize,
    asked: HashMap<u32, CallPurpose>,
    last_id: u32,
    prepared: FuturesUnordered<BoxFuture<'static, Prepared>>,
    pauses: FuturesUnordered<BoxFuture<'static, Unit>>,
}

type Stopped = Box<ErrorReport>;

impl Runner<'_> {
    /// Runs tasks until all have ended, or it must stop.
    async fn drive(&mut self, end: Instant, total: Duration, cancel: &CancellationToken) -> Result<(), Stopped> {
        let mut timed_out = std::pin::pin!(sleep_until(end));
        loop {
            while let Some(task) = self.schedule.next() {
                self.begin(task)?;
            }
            self.pump();
            let listener = self.listener;
            self.calls.start_waiting(0, &|event: execution::Event<'_>| listener(Event::Call(event)));
            if self.schedule.is_over() {
                return Ok(());
            }
            let (has_prepared, has_pauses) = (!self.prepared.is_empty(), !self.pauses.is_empty());
            let has_calls = self.calls.any_in_flight() || self.calls.any_ahead();
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    return Err(Box::new(ErrorReport::new(ErrorCode::Cancelled, "the workflow was cancelled")));
                }
                () = &mut timed_out => {
                    let message = format!("the workflow took longer than {total:?}");
                    let hint = "give it more time with timeout_ms, or raise limits.total_ms";
                    return Err(Box::new(ErrorReport::new(ErrorCode::Timeout, message).with_hint(hint)));
                }
                Some(prepared) = self.prepared.next(), if has_prepared => self.take_prepared(prepared)?,
                ended = self.calls.next(true), if has_calls => {
                    if let (Some(reports), Some(record)) = (&self.reports, &ended.record) {
                        reports.forget(record.id);
                    }
                    let (kind, body) = ended.answer();
                    let error = ended.record.as_ref().and_then(|record| record.error.clone());
                    self.take_answer(ended.id, kind, body, error);
                    self.calls.afterwards.catch_up();
                }
                Some(unit) = self.pauses.next(), if has_pauses => self.queue.push_back(unit),
                report = Reports::next_of(&mut self.reports) => {
                    let Report { call, progress } = &report;
                    if let Some(tool) = self.calls.tool_of(*call) {
                        (self.listener)(Event::Call(execution::Event::CallProgress { call: *call, tool, progress }));
                    }
                }
            }
        }
    }

    /// Says which calls are to be expected. What a task of the first layer calls is called at once; of a later one, the arguments
    /// are known now if they refer to no result.
    fn expect(&mut self) {
        let (checked, args) = (Arc::clone(&self.checked), Arc::clone(&self.args));
        self.calls.expect(Order::Any, || {
            let layers = &checked.dependencies.layers;
            let mut places: Vec<usize> = (0..checked.steps.len()).collect();
            places.sort_by_key(|place| layers[*place]);
            let expected = |place: usize| {
                let task = &checked.workflow.tasks[place];
                let known =
                    (layers[place] > 1 && task.for_each.is_none()).then(|| known_arguments(&checked, place, &args));
                Some(Expected {
                    tool: checked.steps[place].target.parse().ok()?,
                    args: known.flatten(),
                    is_certain: task.when.is_none() && task.for_each.is_none(),
                })
            };
            places.into_iter().take(MAX_EXPECTED).filter_map(expected).collect()
        });
    }

    /// Finds out what a task refers to, and begins it once all of that is there.
    fn begin(&mut self, place: usize) -> Result<(), Stopped> {
        let checked = Arc::clone(&self.checked);
        let task = &checked.workflow.tasks[place];
        (self.listener)(Event::TaskStarted { id: &task.id });
        let mut active = Active {
            started: Instant::now(),
            view: Arc::default(),
            unread: 0,
            elements: VecDeque::new(),
            is_list: task.for_each.is_some(),
            results: Vec::new(),
            failed: Vec::new(),
            open: 0,
            calls: 0,
            error: None,
        };
        let mut asked = HashSet::new();
        for reference in task.references() {
            if let Source::Output(id) = &reference.source
                && !reference.path.is_empty()
                && let Some(of) = self.places.get(id).copied()
                && let Some(token) = self.outputs[of].as_ref().and_then(|output| output.token())
            {
                let (key, token) = ((of, reference.path.clone()), token.to_owned());
                match self.parts.get_mut(&key) {
                    Some(Ok(_)) => {}
                    Some(Err(waiting)) => active.unread += usize::from(waiting.insert(place)),
                    None if asked.insert(key.clone()) => {
                        self.parts.insert(key, Err([place].into()));
                        self.ask_part((of, &reference.path), token)?;
                        active.unread += 1;
                    }
                    None => {}
                }
            }
        }
        let is_complete = active.unread == 0;
        self.active[place] = Some(active);
        if is_complete {
            self.complete(place);
        }
        Ok(())
    }

    fn next_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    fn ask_part(&mut self, (of, path): (usize, &str), token: String) -> Result<(), Stopped> {
        let id = self.next_id();
        let read = Read { token, part: Part::Json { path: path.to_owned() } };
        self.calls.accept_read(id, read).map_err(stopped)?;
        self.asked.insert(id, CallPurpose::Part { of, path: path.to_owned() });
        Ok(())
    }

    /// Everything that a task refers to is there.
    fn complete(&mut self, place: usize) {
        let checked = Arc::clone(&self.checked);
        let task = &checked.workflow.tasks[place];
        let mut view = View::default();
        for reference in task.references() {
            let slot = match &reference.source {
                Source::Args => Slot::Whole(Arc::clone(&self.args)),
                Source::Item | Source::Index => continue,
                Source::Output(id) => self.slot(id, &reference.path),
            };
            view.insert(reference.clone(), slot);
        }
        let view = Arc::new(view);
        if let Some(active) = &mut self.active[place] {
            active.view = Arc::clone(&view);
        }
        if task.when.is_none() && task.for_each.is_none() {
            return self.queue.push_back(Unit { task: place, element: None, repeated: 0 });
        }
        let checked = Arc::clone(&checked);
        self.prepared.push(Box::pin(async move {
            let bytes = view.bytes();
            let decide = move |_: &work::Waiter| view.decide(&checked.workflow.tasks[place]);
            Prepared::Work(place, work::sized(bytes, decide).await)
        }));
    }

    /// What a reference to the result of a task leads to.
    fn slot(&self, id: &str, path: &str) -> Slot {
        let missing = |code: ErrorCode, message: String| Slot::Missing(Unfit { code, message });
        let Some(place) = self.places.get(id).copied() else {
            return missing(ErrorCode::DependencyFailed, "there is no such task".to_owned());
        };
        match (&self.outputs[place], self.schedule.ended(place)) {
            (Some(output), _) if !path.is_empty() && output.token().is_some() => {
                match self.parts.get(&(place, path.to_owned())) {
                    Some(Ok(slot)) => slot.clone(),
                    _ => missing(ErrorCode::InvalidArguments, "it was not read".to_owned()),
                }
            }
            (Some(output), _) => Slot::Whole(Arc::clone(output)),
            (None, Some(End::Skipped)) => {
                missing(ErrorCode::DependencyFailed, format!("task `{id}` was skipped, and has no result"))
            }
            (None, _) => missing(ErrorCode::DependencyFailed, format!("task `{id}` has no result")),
        }
    }

    /// Prepares calls while there is room for them.
    fn pump(&mut self) {
        while self.open < self.in_flight
            && let Some(unit) = self.queue.pop_front()
        {
            let Some(active) = self.active[unit.task].as_mut() else { continue };
            self.open += 1;
            active.open += 1;
            let (checked, view) = (Arc::clone(&self.checked), Arc::clone(&active.view));
            self.prepared.push(Box::pin(async move {
                let bytes = view.bytes() + unit.element.as_ref().map_or(0, |element| element.json.len());
                let (task, element) = (unit.task, unit.element.clone());
                let fill = move |_: &work::Waiter| view.fill(&checked.steps[task].args, element.as_ref());
                let filled = work::sized(bytes, fill).await;
                Prepared::Call(unit, filled)
            }));
        }
    }

    fn take_prepared(&mut self, prepared: Prepared) -> Result<(), Stopped> {
        match prepared {
            Prepared::Work(place, Ok(Work::Skip)) => self.end(place, Status::Skipped, None),
            Prepared::Work(place, Ok(Work::Once)) => {
                self.queue.push_back(Unit { task: place, element: None, repeated: 0 })
            }
            Prepared::Work(place, Ok(Work::Each(items))) => self.begin_list(place, items),
            Prepared::Work(place, Err(Unfit { code, message })) => {
                self.end(place, Status::Error, Some(CallError::new(code, message)));
            }
            Prepared::Call(unit, Ok(filled)) => self.make_call(unit, filled)?,
            Prepared::Call(unit, Err(Unfit { code, message })) => {
                self.end_unit(unit, Err(CallError::new(code, message)));
            }
        }
        Ok(())
    }

    fn begin_list(&mut self, place: usize, items: Vec<String>) {
        let each = self.checked.workflow.tasks[place].for_each.as_ref();
        let at_once = each.and_then(|each| each.concurrency).unwrap_or(self.in_flight);
        let Some(active) = self.active[place].as_mut() else { return };
        active.results = vec![None; items.len()];
        active.elements = items.into_iter().enumerate().map(|(index, json)| Element { index, json }).collect();
        let first: Vec<_> = (0..at_once).map_while(|_| active.elements.pop_front()).collect();
        if first.is_empty() {
            return self.finish_task(place);
        }
        self.queue.extend(first.into_iter().map(|element| Unit { task: place, element: Some(element), repeated: 0 }));
    }

    fn make_call(&mut self, unit: Unit, filled: Filled) -> Result<(), Stopped> {
        let checked = Arc::clone(&self.checked);
        let (task, step) = (&checked.workflow.tasks[unit.task], &checked.steps[unit.task]);
        let args = match RawValue::from_string(filled.json) {
            Ok(args) => args,
            Err(err) => {
                let message = format!("the arguments are no JSON: {err}");
                self.end_unit(unit, Err(CallError::new(ErrorCode::InvalidArguments, message)));
                return Ok(());
            }
        };
        if let Some(active) = self.active[unit.task].as_mut() {
            active.calls += 1;
        }
        let id = self.next_id();
        let written = Written { args, texts: filled.texts, is_raw: false, longest: task.timeout };
        self.calls.accept(id, step.target.clone(), written).map_err(stopped)?;
        let layer = checked.dependencies.layers[unit.task];
        self.recording.named(CallId(id), &name_of(&task.id, &unit), layer);
        self.asked.insert(id, CallPurpose::Call(unit));
        Ok(())
    }

    fn take_answer(&mut self, id: u32, kind: Kind, body: &str, error: Option<CallError>) {
        match self.asked.remove(&id) {
            None => {}
            Some(CallPurpose::Call(unit)) => {
                let outcome = match error {
                    Some(error) => Err(error),
                    None => self.held(Output::of_frame(kind, body, &self.index)),
                };
                self.end_unit(unit, outcome);
            }
            Some(CallPurpose::Part { of, path }) => {
                let slot = match kind {
                    Kind::RpcError => {
                        let error: Option<CallError> = serde_json::from_str(body).ok();
                        let message = error.map_or_else(|| "it cannot be read".to_owned(), |error| error.message);
                        Slot::Missing(message.into())
                    }
                    kind => match self.held(Output::of_frame(kind, body, &self.index)) {
                        Ok(output) => Slot::Part(output),
                        Err(error) => Slot::Missing(Unfit { code: error.code, message: error.message }),
                    },
                };
                let waiting = self.parts.insert((of, path), Ok(slot));
                for place in waiting.and_then(Result::err).unwrap_or_default() {
                    let Some(active) = self.active[place].as_mut() else { continue };
                    active.unread -= 1;
                    if active.unread == 0 {
                        self.complete(place);
                    }
                }
            }
        }
    }

    /// Keeps a result until the workflow ends, if there is room for it.
    fn held(&mut self, output: Output) -> Result<Arc<Output>, CallError> {
        let bytes = self.bytes + output.json().len();
        if bytes > self.most_bytes {
            let message = format!(
                "with this result, those of the workflow would take more than {} MB; have tasks return less",
                self.most_bytes >> 20
            );
            return Err(CallError::new(ErrorCode::ResultTooLarge, message));
        }
        let output = output.held_in(&self.shared_room)?;
        self.bytes = bytes;
        Ok(Arc::new(output))
    }

    /// A call has ended: the task goes on, ends, or makes it again.
    fn end_unit(&mut self, unit: Unit, outcome: Result<Arc<Output>, CallError>) {
        self.open -= 1;
        let checked = Arc::clone(&self.checked);
        let (task, step) = (&checked.workflow.tasks[unit.task], &checked.steps[unit.task]);
        let Some(active) = self.active[unit.task].as_mut() else { return };
        active.open -= 1;
        match outcome {
            Ok(output) => match &unit.element {
                Some(element) => active.results[element.index] = Some(output),
                None => active.results = vec![Some(output)],
            },
            Err(error) => {
                let is_transient = error.retryable || error.code == ErrorCode::Timeout;
                if step.repeats && is_transient && unit.repeated < task.retry.times && active.error.is_none() {
                    let pause = task.retry.backoff.saturating_mul(1 << unit.repeated).min(MAX_PAUSE);
                    let again = Unit { repeated: unit.repeated + 1, ..unit };
                    self.pauses.push(Box::pin(async move {
                        sleep(pause).await;
                        again
                    }));
                    return;
                }
                active.failed.extend(unit.element.as_ref().map(|element| element.index));
                let message = match &unit.element {
                    Some(element) => format!("element {}: {}", element.index, error.message),
                    None => error.message.clone(),
                };
                active.error.get_or_insert(CallError { message, ..error });
                // What was not begun is not begun any more.
                active.elements.clear();
                self.queue.retain(|other| other.task != unit.task);
            }
        }
        let next = active.elements.pop_front();
        if let Some(element) = next {
            self.queue.push_back(Unit { task: unit.task, element: Some(element), repeated: 0 });
        }
        let is_queued = self.queue.iter().any(|other| other.task == unit.task);
        let is_over = active.open == 0 && !is_queued;
        let is_whole = active.error.is_some() || active.results.iter().all(Option::is_some);
        if is_over && is_whole {
            self.finish_task(unit.task);
        }
    }

    /// All calls of a task have ended.
    fn finish_task(&mut self, place: usize) {
        let Some(active) = self.active[place].as_mut() else { return };
        if let Some(mut error) = active.error.take() {
            if active.is_list {
                let (succeeded, all) = (active.results.iter().flatten().count(), active.results.len());
                error.message = format!("{succeeded} of {all} elements succeeded; {}", error.message);
            }
            return self.end(place, Status::Error, Some(error));
        }
        let results: Vec<_> = std::mem::take(&mut active.results).into_iter().flatten().collect();
        let output = match (active.is_list, results.as_slice()) {
            (false, [one]) => Ok(Arc::clone(one)),
            _ => self.held(Output::list(results.iter().map(|output| &**output), &self.index)),
        };
        match output {
            Ok(output) => {
                self.outputs[place] = Some(output);
                self.end(place, Status::Success, None);
            }
            Err(error) => self.end(place, Status::Error, Some(error)),
        }
    }

    /// A task has ended. Those that it takes with it end too.
    fn end(&mut self, place: usize, status: Status, error: Option<CallError>) {
        let active = self.active[place].take();
        let spent = active.as_ref().map_or((Duration::ZERO, 0), |active| (active.started.elapsed(), active.calls));
        let elements = active.filter(|_| status == Status::Error).and_then(|active| self.keep_partial(place, active));
        self.record(place, status, spent, error, elements);
        let end = match status {
            Status::Success => End::Success,
            Status::Skipped => End::Skipped,
            Status::Error | Status::NotRun => End::Failed,
        };
        for lost in self.schedule.end(place, end) {
            let cause = match self.schedule.ended(lost) {
                Some(End::Unreachable(cause)) => &self.checked.workflow.tasks[cause].id,
                _ => "another",
            };
            let error = CallError::new(
                ErrorCode::DependencyFailed,
                format!("it depends on task `{cause}`, which has no result"),
            );
            self.record(lost, Status::NotRun, (Duration::ZERO, 0), Some(error), None);
        }
    }

    /// Keeps what the elements of a task that failed returned. What became of them, if the task has begun any.
    fn keep_partial(&mut self, place: usize, active: Active) -> Option<Elements> {
        let Active { results, mut failed, is_list: true, .. } = active else { return None };
        failed.sort_unstable();
        let mut elements = Elements { failed, ..Elements::default() };
        for (index, result) in results.iter().enumerate() {
            match result {
                Some(_) => elements.succeeded.push(index),
                None if elements.failed.binary_search(&index).is_ok() => {}
                None => elements.not_run.push(index),
            }
        }
        if !elements.succeeded.is_empty() {
            self.partial.insert(place, results);
        }
        Some(elements)
    }

    fn record(
        &mut self,
        place: usize,
        status: Status,
        (duration, calls): (Duration, u32),
        error: Option<CallError>,
        elements: Option<Elements>,
    ) {
        let id = self.checked.workflow.tasks[place].id.clone();
        let record = TaskRecord { id, status, duration, calls, error, elements };
        self.ended += 1;
        (self.listener)(Event::TaskEnded { task: &record, ended: self.ended, of: self.records.len() });
        self.records[place] = Some(record);
    }

    /// Says of every task that has not ended what became of it.
    fn abandon(&mut self, stopped: Option<&ErrorReport>) {
        let (code, message) = match stopped {
            Some(report) => (report.code, report.message.clone()),
            None => (ErrorCode::Cancelled, "the workflow ended before the task did".to_owned()),
        };
        for place in 0..self.records.len() {
            if self.records[place].is_some() {
                continue;
            }
            let error = CallError::new(code, message.clone());
            match self.active[place].take() {
                Some(active) => {
                    let spent = (active.started.elapsed(), active.calls);
                    let elements = self.keep_partial(place, active);
                    self.record(place, Status::Error, spent, Some(error), elements);
                }
                None => self.record(place, Status::NotRun, (Duration::ZERO, 0), Some(error), None),
            }
        }
    }

    /// The results of all tasks that have one, as far as they fit; those that nobody has used first, and what tasks that failed
    /// have of theirs last.
    async fn results(&mut self, media: Media, limit: usize, warnings: &mut Vec<String>) -> FilledResult {
        let tasks = &self.checked.workflow.tasks;
        let used: HashSet<usize> = self.checked.dependencies.needs.iter().flatten().copied().collect();
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by_key(|place| (self.partial.contains_key(place), used.contains(place)));
        let (mut left, mut kept, mut cut) = (limit.saturating_sub(50), HashSet::new(), Vec::new());
        for place in order {
            let bytes = match (&self.outputs[place], self.partial.get(&place)) {
                (Some(output), _) => output.bytes(),
                (None, Some(results)) => results.iter().flatten().map(|output| output.bytes().saturating_add(8)).sum(),
                (None, None) => continue,
            };
            match left.checked_sub(bytes.saturating_add(tasks[place].id.len() + 6)) {
                Some(rest) => {
                    left = rest;
                    kept.insert(place);
                }
                None => cut.push(format!("`{}` ({bytes} bytes)", tasks[place].id)),
            }
        }
        if !cut.is_empty() {
            let list = cut[..cut.len().min(10)].join(", ");
            warnings.push(format!(
                "{} results are left out, since all together are larger than {limit} bytes: {list}",
                cut.len()
            ));
        }
        let named = |place: usize, json: &str| format!("{}:{json}", serde_json::Value::String(tasks[place].id.clone()));
        let whole = |place: usize| Some(named(place, self.outputs[place].as_ref()?.json()));
        let part = |place: usize| {
            let results = self.partial.get(&place)?.iter().enumerate();
            let results =
                results.filter_map(|(index, output)| Some(format!("\"{index}\":{}", output.as_ref()?.json())));
            Some(named(place, &format!("{{{}}}", results.collect::<Vec<_>>().join(","))))
        };
        let is_kept = |place: &usize| kept.contains(place);
        let results: Vec<_> = (0..tasks.len()).filter(is_kept).filter_map(whole).collect();
        let partial: Vec<_> = (0..tasks.len()).filter(is_kept).filter_map(part).collect();
        let partial = match partial.is_empty() {
            true => String::new(),
            false => format!(",\"partial_results\":{{{}}}", partial.join(",")),
        };
        let nothing = || RawValue::from_string("{\"results\":{}}".to_owned()).expect("an object").into();
        let Ok(all) = RawValue::from_string(format!("{{\"results\":{{{}}}{partial}}}", results.join(","))) else {
            warnings.push("the results are no JSON, and are left out".to_owned());
            return nothing();
        };
        match self.calls.fill_result(all, media, limit).await {
            Ok(filled) => filled,
            Err(report) => {
                warnings.push(format!("the results are left out: {}", report.message));
                nothing()
            }
        }
    }
}

/// The arguments of a task, if they refer to the arguments of the workflow at most.
fn known_arguments(checked: &Checked, place: usize, args: &Arc<Output>) -> Option<Box<RawValue>> {
    let template = &checked.steps[place].args;
    let mut view = View::default();
    for (_, reference) in template.references() {
        if !matches!(reference.source, Source::Args) || args.bytes() > MAX_KNOWN_BYTES {
            return None;
        }
        view.insert(reference.clone(), Slot::Whole(Arc::clone(args)));
    }
    let Filled { json, texts } = view.fill(template, None).ok()?;
    if texts.is_empty() { RawValue::from_string(json).ok() } else { None }
}

/// What a call is called in the trace: the id of its task, the number of the element, and which attempt it is.
fn name_of(id: &str, unit: &Unit) -> String {
    let element = unit.element.as_ref().map(|element| format!("[{}]", element.index)).unwrap_or_default();
    let attempt = if unit.repeated > 0 { format!("#{}", unit.repeated + 1) } else { String::new() };
    format!("{id}{element}{attempt}")
}

fn stopped(refused: Refused) -> Stopped {
    match refused {
        Refused::Flood(report) => report,
        Refused::OutOfOrder(id) => {
            Box::new(ErrorReport::new(ErrorCode::WorkflowFailed, format!("call {id} was counted wrongly")))
        }
    }
}
