//! The realm of one program, and the loop that drives its run.
//!
//! [`State`] is shared between the loop and the functions that a program calls; [`Prelude`] is what the scripts give back.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    rc::Rc,
    time::Duration,
};

use pml_wire::{
    ErrorCode, Frame, Kind,
    message::{CallError, ErrorReport, ExecutionComplete, Init, Limits, Preflight, PreflightCall, WAITING_AFTER_MS},
};
use rquickjs::{
    Context, Ctx, Function, Object, Promise, Runtime, Value, context::EvalOptions, object::Property,
    promise::PromiseState,
};

use super::{
    deadline::Deadline,
    decisions,
    drops::Drops,
    exact::{self, Exact},
    explained::{self, Explained},
    handles,
    inspect::Helpers,
    json_texts, line_ends,
    lines::Lines,
    misses::Misses,
    natives,
    no_modules::NoModules,
    orders::Orders,
    pages::{Asked, Pages},
    raw,
    report::{self, Reporter},
    results::{self, Results},
    slips::Slips,
    timers::Timers,
    to_json::{self, Intrinsics, Texts},
    truths::Truths,
    uses::Uses,
    watches::{INVALID, Members, Watches},
    web,
};
use crate::{
    channel::{self, Channel, Wait},
    clock::Moment,
    heap, last_words, memory,
    transpile::{self, Branch, ENGINE_FILE, Probes, Source},
};

/// Stack of the engine. A JavaScript call takes 0.6 KiB of it or more.
const STACK_BYTES: usize = 4 * 1024 * 1024;
/// Most warnings about the arguments and results of calls.
const MAX_WARNINGS: usize = 20;
/// Longest warning.
const WARNING_BYTES: usize = 1000;
/// Longest `Preflight`, well under the shortest frame that the host takes with any limits.
const PREFLIGHT_BYTES: usize = 48 * 1024;
/// Memory that the compiler gets for each byte of a program, besides the limit of the run. Ordinary programs need less.
const COMPILER_BYTES: usize = 64;
/// How long a program waits before the host is told that it does.
const MOMENT: Duration = Duration::from_millis(WAITING_AFTER_MS);
/// Answers that are settled before the program goes on, about.
const SETTLE_BYTES: usize = 1024 * 1024;
/// How much a program may allocate, at most, before garbage is looked for.
const GARBAGE_BYTES: usize = 4 * 1024 * 1024;
/// How often a program that never pauses is asked whether its host still lives.
const HOST_CHECK: Duration = Duration::from_millis(100);

/// What is shared between the loop that drives a run and the functions a program calls.
#[derive(Debug)]
pub(super) struct State<'js> {
    pub(super) channel: RefCell<Channel>,
    pub(super) deadline: Rc<Deadline>,
    pub(super) limits: Cell<Limits>,
    /// When the run began.
    pub(super) started: Cell<Moment>,
    pub(super) last_call: Cell<u32>,
    /// Answers that the program has got, and how many of them the host knows of.
    pub(super) answers: Cell<u32>,
    pub(super) answers_told: Cell<u32>,
    pub(super) pending: RefCell<HashMap<u32, PendingCall<'js>>>,
    pub(super) timers: RefCell<Timers<'js>>,
    pub(super) log_left: Cell<usize>,
    pub(super) logs_dropped: Cell<usize>,
    pub(super) branches: RefCell<Vec<Branch>>,
    /// Branches that were taken, by index, and which way.
    pub(super) decisions: RefCell<Vec<(usize, usize)>>,
    /// How many of them the host has been told, and how many were not kept.
    pub(super) decisions_told: Cell<usize>,
    pub(super) decisions_cut: Cell<u64>,
    /// Does the host listen? Not while the worker rehearses.
    pub(super) is_told: Cell<bool>,
    /// Sets what the probes of the program call from now on, until they are turned off.
    pub(super) set_probe: RefCell<Option<Function<'js>>>,
    /// What the program threw last, and where.
    pub(super) last_throw: RefCell<Option<(u32, Value<'js>)>>,
    pub(super) warnings: RefCell<Vec<String>>,
    /// How numbers in results are written.
    pub(super) exact: Exact,
    pub(super) results: Results,
    pub(super) misses: Misses,
    pub(super) slips: Slips,
    pub(super) watches: Watches<'js>,
    pub(super) members: Members<'js>,
    pub(super) truths: Truths,
    pub(super) drops: Drops,
    pub(super) orders: Orders,
    pub(super) uses: Uses,
    /// What to say of a result that has JSON, of which the program read none.
    pub(super) unparsed: RefCell<Option<String>>,
    pub(super) pages: Pages,
    /// The prototypes of values that were read from JSON text.
    pub(super) text_prototypes: Rc<RefCell<Vec<Object<'js>>>>,
    pub(super) explained: Explained,
    pub(super) lines: Lines,
    /// The program, once it is compiled.
    pub(super) source: RefCell<Option<Rc<Source>>>,
    /// Was an answer lost for lack of memory?
    pub(super) has_lost_answers: Cell<bool>,
    /// Answers that arrived while the program waited for something else.
    pub(super) early: RefCell<VecDeque<Frame>>,
    pub(super) random: Cell<u64>,
}

impl State<'_> {
    /// Warns of something about calls, once, and not without end.
    pub(super) fn warn(&self, warning: String) {
        let mut warnings = self.warnings.borrow_mut();
        if warnings.len() < MAX_WARNINGS && !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

/// A call, or the reading of a handle, that the host has not answered.
#[derive(Debug)]
pub(super) struct PendingCall<'js> {
    /// `server:tool`, or the method of the handle.
    pub(super) target: String,
    pub(super) resolve: Function<'js>,
    pub(super) reject: Function<'js>,
    /// Where the call was made.
    pub(super) stack: Value<'js>,
    pub(super) manner: Manner,
    pub(super) form: Form,
    /// What stood in the arguments where JSON has something else.
    pub(super) lost: Vec<(String, String)>,
    /// What the arguments say of pages.
    pub(super) asked: Asked,
    /// The only argument, if it looks as if it held the arguments.
    pub(super) wrapper: Option<&'static str>,
}

/// How a program hears of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// The promise is rejected.
    Thrown,
    /// `callTool`: both outcomes come in an envelope, and the promise never rejects.
    Enveloped,
}

/// What a program gets of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The result.
    Value,
    /// The text of a [`Slice`](pml_wire::message::Slice).
    Text,
}

/// What the prelude gives back.
#[derive(Clone, Debug)]
pub(super) struct Prelude<'js> {
    /// What `import … from "pml"` takes its names from.
    pub(super) imports: Object<'js>,
    /// What branch probes call.
    pub(super) probe: Function<'js>,
    /// What they call once enough decisions are kept.
    pub(super) count_decision: Function<'js>,
    /// Gives the names of all tools by server, which the host is asked for once.
    pub(super) names: Function<'js>,
    pub(super) make_tool_error: Function<'js>,
    pub(super) make_success: Function<'js>,
    pub(super) make_failure: Function<'js>,
    pub(super) make_handle: Function<'js>,
    pub(super) note_links: Function<'js>,
    /// Gives the prototype of the objects in the results of a tool.
    pub(super) watched: Function<'js>,
    /// Has the reads of a result noted that find nothing.
    pub(super) mark_result: Function<'js>,
    /// Makes a value one that was read from a text.
    pub(super) mark_text: Function<'js>,
    /// Keeps how numbers of an array or object are written.
    pub(super) note_numbers: Function<'js>,
    pub(super) genuine: Function<'js>,
    pub(super) helpers: Helpers<'js>,
    pub(super) intrinsics: Intrinsics<'js>,
}

/// A realm ready for one program.
#[derive(Debug)]
pub(crate) struct Session<'js> {
    pub(super) ctx: Ctx<'js>,
    pub(super) state: Rc<State<'js>>,
    pub(super) prelude: Prelude<'js>,
    pub(super) deadline: Rc<Deadline>,
}

/// Builds an engine and hands it to `run`, within which everything happens.
pub(crate) fn with_session<T>(run: impl FnOnce(Session<'_>) -> T) -> rquickjs::Result<T> {
    let runtime = Runtime::new_with_alloc(memory::Limited)?;
    runtime.set_max_stack_size(STACK_BYTES);
    // Not while the realm is built, all of which stays.
    runtime.set_gc_threshold(usize::MAX);
    runtime.set_loader(NoModules, NoModules);
    let deadline = Rc::new(Deadline::default());
    runtime.set_interrupt_handler(Some(interrupt_handler(Rc::clone(&deadline))));
    let context = Context::full(&runtime)?;
    natives::track_rejections(&runtime);
    context.with(|ctx| Session::new(ctx, deadline).map(run))
}

/// Says `true` when the engine shall stop.
fn interrupt_handler(deadline: Rc<Deadline>) -> Box<dyn FnMut() -> bool> {
    let mut asked = Moment::now();
    Box::new(move || {
        let now = Moment::now();
        if now.since(asked) > HOST_CHECK {
            asked = now;
            if channel::host_is_gone() {
                last_words::leave();
            }
        }
        deadline.stops(now)
    })
}

impl<'js> Session<'js> {
    fn new(ctx: Ctx<'js>, deadline: Rc<Deadline>) -> rquickjs::Result<Session<'js>> {
        let state = Rc::new(State {
            channel: RefCell::new(Channel::new()),
            deadline: Rc::clone(&deadline),
            limits: Cell::new(REHEARSAL_LIMITS),
            started: Cell::new(Moment::now()),
            last_call: Cell::new(0),
            answers: Cell::new(0),
            answers_told: Cell::new(0),
            pending: RefCell::default(),
            timers: RefCell::default(),
            log_left: Cell::new(0),
            logs_dropped: Cell::new(0),
            branches: RefCell::default(),
            decisions: RefCell::default(),
            decisions_told: Cell::new(0),
            decisions_cut: Cell::new(0),
            is_told: Cell::new(false),
            set_probe: RefCell::default(),
            last_throw: RefCell::default(),
            warnings: RefCell::default(),
            exact: Exact::default(),
            results: Results::default(),
            misses: Misses::default(),
            slips: Slips::default(),
            watches: Watches::default(),
            members: Members::default(),
            truths: Truths::default(),
            drops: Drops::default(),
            orders: Orders::default(),
            uses: Uses::default(),
            unparsed: RefCell::default(),
            pages: Pages::default(),
            text_prototypes: Rc::default(),
            explained: Explained::default(),
            lines: Lines::default(),
            source: RefCell::default(),
            has_lost_answers: Cell::new(false),
            early: RefCell::default(),
            random: Cell::new(1),
        });
        let prelude = natives::install(&ctx, &state)?;
        Ok(Session { ctx, state, prelude, deadline })
    }

    /// Runs a small program through every stage, without telling anybody.
    pub(crate) fn rehearse(&self) {
        self.try_out("if (args) { await 0 } return { ok: [1, \"a\"] }");
    }

    /// Uses what programs use, in the process that workers are forked from: what is made at its first use is then there, and
    /// so are the pages of the binary. What is garbage afterwards is freed.
    pub(crate) fn warm_up(&self) {
        self.reseed();
        self.try_out(WARM_UP);
        self.rehearse();
        raw::collect_garbage(&self.ctx);
    }

    fn try_out(&self, code: &str) {
        let outcome = self.execute(code, "rehearsal.ts", "null");
        debug_assert!(outcome.is_ok(), "{outcome:?}");
        self.state.decisions.borrow_mut().clear();
        self.state.decisions_told.set(0);
        self.state.decisions_cut.set(0);
        self.state.branches.borrow_mut().clear();
        self.state.warnings.borrow_mut().clear();
        self.state.set_probe.take();
        self.state.last_throw.take();
    }

    /// The socket, for the words before and around a run.
    pub(crate) fn channel(&self) -> std::cell::RefMut<'_, Channel> {
        self.state.channel.borrow_mut()
    }

    /// Draws a new seed. Workers forked from one process would all draw the same numbers.
    pub(crate) fn reseed(&self) {
        self.state.random.set(u64::from_le_bytes(web::random_bytes()) | 1);
    }

    /// Runs the program of `init` and tells the host how it ended.
    pub(crate) fn run(&self, init: &Init) {
        let Limits { memory_bytes, log_bytes, .. } = init.limits;
        let started = Moment::now();
        self.state.started.set(started);
        self.state.is_told.set(true);
        self.state.limits.set(init.limits);
        self.state.log_left.set(log_bytes);
        self.deadline.start(started, init.limits);
        memory::set_limit(memory_bytes);
        // Short programs end before that. To look for garbage is to touch every object of the realm, which all workers share.
        raw::collect_garbage_after(&self.ctx, memory::used() + (memory_bytes / 8).min(GARBAGE_BYTES));
        let mut channel = self.state.channel.borrow_mut();
        channel.set_room(memory_bytes);
        channel.count_waiting(self.deadline.waited());
        drop(channel);

        let mut outcome = self.execute(&init.code, &init.name, init.args.get());
        // Also if the engine was stopped in something that we asked of it, and coped with.
        if let Some(limit) = self.deadline.passed()
            && outcome.as_ref().err().is_none_or(|report| report.code != ErrorCode::Timeout)
        {
            outcome = Err(report::out_of_time(limit, init.limits));
        }

        // What is said about the end must not be cut short by what ended the run.
        self.deadline.end();
        let source = self.state.source.borrow().clone();
        let mut missing = Vec::new();
        if let Some(source) = source {
            let said = outcome.as_ref().err().map(|report| {
                // Where a date became invalid does not say what there is instead.
                let hint = report.hint.as_deref().filter(|hint| !hint.starts_with(INVALID));
                format!("{} {}", report.message, hint.unwrap_or_default())
            });
            let branches = self.state.branches.borrow();
            let undefined = self.state.watches.undefined(&source, &branches);
            missing = self.state.misses.told(&source, said.as_deref(), &undefined);
            self.state.warnings.borrow_mut().extend(self.state.slips.told(&source));
            let of_lists = self.state.misses.of_lists.take();
            self.state.warnings.borrow_mut().extend(self.state.watches.told(&source, &branches, &of_lists));
            self.state.warnings.borrow_mut().extend(self.state.truths.told(&source, &branches));
            self.state.warnings.borrow_mut().extend(self.state.orders.told(&source, &branches));
            let used = self.state.uses.told(&source, &branches, &self.state.warnings.borrow());
            self.state.warnings.borrow_mut().extend(used);
            let members = self.state.members.told(&source, &branches, &self.state.warnings.borrow());
            self.state.warnings.borrow_mut().extend(members);
            drop(branches);
            if let Ok(success) = &outcome {
                // A program that gives the message has not swallowed it.
                let unparsed = self
                    .state
                    .unparsed
                    .take()
                    .filter(|_| !String::from_utf8_lossy(&success.json.text).contains("JSON"));
                self.state.warnings.borrow_mut().extend(unparsed);
                self.state.warnings.borrow_mut().extend(line_ends::told(&source, &success.json.text));
                let told = self.state.pages.told(&source, &success.json.text, &self.state.misses.of_pages.take());
                self.state.warnings.borrow_mut().extend(told);
                let unread = self.state.slips.unread_failures(&source, &success.json.text);
                self.state.warnings.borrow_mut().extend(unread);
            }
            if said.is_none() && self.state.results.has_text() {
                self.state.warnings.borrow_mut().extend(source.text_uses(&self.state.results.list()));
            }
            if let Err(report) = &mut outcome
                && report.hint.is_none()
                && report.message.contains(" of undefined")
            {
                // The element of a list of which nothing was left.
                let branches = self.state.branches.borrow();
                report.hint = self.state.drops.reasons(&self.state, &source, &branches);
            }
            // Anything else that is said explains it.
            if let Ok(success) = &outcome
                && missing.is_empty()
                && success.json.warnings.is_empty()
                && self.state.warnings.borrow().is_empty()
            {
                let branches = self.state.branches.borrow();
                let dropped = self.state.drops.told(&self.state, &source, &branches, &success.json.text);
                self.state.warnings.borrow_mut().extend(dropped);
            }
        }
        let mut complete = ExecutionComplete {
            error: None,
            warnings: self.state.warnings.take(),
            missing,
            decisions: decisions::untold(&self.state),
            decisions_cut: self.state.decisions_cut.get(),
        };
        let mut channel = self.state.channel.borrow_mut();
        match outcome {
            Ok(success) => {
                channel.send_result(&success.json.text);
                let began = self.state.watches.nan_began.take();
                complete.warnings.extend(success.json.warnings.into_iter().map(|warning| match &began {
                    Some(began) if warning.contains("NaN") => format!("{warning}; {began}"),
                    _ => warning,
                }));
                complete.warnings.extend(success.rejections);
            }
            Err(failure) => complete.error = Some(*failure),
        }
        if self.state.logs_dropped.get() > 0 {
            let dropped = self.state.logs_dropped.get();
            complete.warnings.push(format!("{dropped} console lines over the limit of {log_bytes} bytes were dropped"));
        }
        let missing = complete.missing.iter_mut().map(|read| &mut read.warning);
        for warning in complete.warnings.iter_mut().chain(missing) {
            warning.truncate(warning.floor_char_boundary(WARNING_BYTES));
        }
        channel.send_json(Kind::ExecutionComplete, &complete);
        channel.finish();
    }

    fn execute(&self, code: &str, name: &str, args: &str) -> Result<Success, Box<ErrorReport>> {
        let probes = match self.state.limits.get().decisions {
            0 => Probes::Omit,
            _ => Probes::Insert,
        };
        last_words::compiling(true);
        let memory_bytes = self.state.limits.get().memory_bytes + COMPILER_BYTES * code.len();
        let compiled = heap::limited(memory_bytes, || transpile::compile(code, name, probes));
        last_words::compiling(false);
        let program = compiled?;
        let source = Rc::new(program.source);
        self.state.source.replace(Some(Rc::clone(&source)));
        self.state.branches.replace(program.branches);
        self.state.warnings.borrow_mut().extend(program.warnings);
        let reporter = Reporter::new(self, &source);

        let function = self
            .load(&program.javascript, args)
            .map_err(|_| reporter.not_loaded(raw::take_exception(&self.ctx), &program.javascript))?;
        self.announce(program.calls);
        let main = self.call(&function).map_err(|_| reporter.exception(raw::take_exception(&self.ctx)))?;
        self.drive(&main, &reporter)?;

        match main.result::<Value<'js>>() {
            Some(Ok(value)) => {
                if value.is_undefined() {
                    self.state.warnings.borrow_mut().extend(program.unreturned);
                }
                let limit = self.state.limits.get().result_bytes;
                let explain = |error: &Value<'js>| explained::explain(error, &self.state, &self.prelude.helpers);
                let json = to_json::to_json(&value, &self.prelude.intrinsics, limit, Texts::AsValues, &explain)
                    .map_err(|failure| reporter.result_failure(failure))?;
                Ok(Success {
                    json,
                    rejections: reporter.unhandled(&natives::take_rejections(&self.ctx), main.as_value()),
                })
            }
            Some(Err(_)) => Err(reporter.exception(raw::take_exception(&self.ctx))),
            // The result promise is what the loop waits for.
            None => Err(reporter.deadlock()),
        }
    }

    /// Names the calls of the program before anything of it runs, if there are any; a rehearsal has
    /// none. Nothing is answered: the host reads frames in order, and ends a run that it refuses.
    fn announce(&self, calls: Vec<PreflightCall>) {
        let mut preflight = Preflight { calls };
        while !preflight.calls.is_empty() {
            let body = serde_json::to_vec(&preflight).expect("plain data serializes");
            if body.len() <= PREFLIGHT_BYTES {
                self.state.channel.borrow_mut().send(Kind::Preflight, 0, &body);
                return;
            }
            // First without the values: the host checks those again when the calls are made.
            match preflight.calls.iter().all(|call| call.values.is_empty()) {
                true => preflight.calls.truncate(preflight.calls.len() / 2),
                false => preflight.calls.iter_mut().for_each(|call| call.values.clear()),
            }
        }
    }

    /// Makes the program's function. Nothing of the program runs yet.
    fn load(&self, javascript: &str, args: &str) -> rquickjs::Result<Function<'js>> {
        let args = exact::parse(&self.ctx, &self.state, &self.prelude, args.into(), "args", None)?;
        self.state.results.note_args(&args);
        let args = Property::from(args).writable().configurable();
        self.ctx.globals().prop("args", args)?;
        let mut options = EvalOptions::default();
        options.filename = Some(ENGINE_FILE.to_owned());
        self.ctx.eval_with_options(javascript, options)
    }

    /// Starts the program: its function gives the promise of the result.
    fn call(&self, function: &Function<'js>) -> rquickjs::Result<Promise<'js>> {
        function.call((self.prelude.probe.clone(), self.prelude.imports.clone()))
    }

    /// Turns the event loop until `main` is settled.
    fn drive(&self, main: &Promise<'js>, reporter: &Reporter<'_, 'js>) -> Result<(), Box<ErrorReport>> {
        loop {
            self.run_jobs(reporter)?;
            if main.state() != PromiseState::Pending {
                return Ok(());
            }
            let callback = self.state.timers.borrow_mut().take_due(Moment::now());
            if let Some(callback) = callback {
                if callback.call::<_, ()>(()).is_err() {
                    return Err(reporter.exception(raw::take_exception(&self.ctx)));
                }
                continue;
            }
            let next_timer = self.state.timers.borrow().next_due();
            let waiting_for_host = !self.state.pending.borrow().is_empty();
            if next_timer.is_none() && !waiting_for_host {
                return Err(match self.state.has_lost_answers.get() {
                    true => Box::new(ErrorReport::out_of_memory()),
                    false => reporter.deadlock(),
                });
            }
            let waited = self.exchange(next_timer);
            if self.deadline_has_passed() {
                return Err(match waited {
                    Wait::TimedOut => reporter.timeout_waiting(),
                    Wait::Data => reporter.timeout(None),
                });
            }
        }
    }

    fn run_jobs(&self, reporter: &Reporter<'_, 'js>) -> Result<(), Box<ErrorReport>> {
        let mut count = 0_u32;
        while let Some(job) = raw::run_job(&self.ctx) {
            job.map_err(|exception| reporter.exception(exception))?;
            count = count.wrapping_add(1);
            // Short jobs may each end before the engine looks at the clock.
            if count.is_multiple_of(256) && self.deadline_has_passed() {
                return Err(reporter.timeout(None));
            }
        }
        Ok(())
    }

    fn deadline_has_passed(&self) -> bool {
        self.deadline.passes(Moment::now())
    }

    /// Sends what is waiting, and settles what the host has answered. If that is nothing, waits until bytes arrive, a
    /// timer is due or the deadline is.
    fn exchange(&self, next_timer: Option<Moment>) -> Wait {
        self.state.channel.borrow_mut().flush();
        if self.settle_arrived() {
            return Wait::Data;
        }
        let waits_for_host = !self.state.pending.borrow().is_empty();
        let until = [next_timer, self.deadline.until(waits_for_host)].into_iter().flatten().min();
        let started = Moment::now();
        let waited = self.wait(until.map(|until| until.since(started)));
        if waits_for_host {
            self.deadline.wait(Moment::now().since(started));
        }
        if waited == Wait::Data {
            self.settle_arrived();
        }
        waited
    }

    /// Waits for bytes. If that takes longer than a moment, the host is told: a program that waits needs no processor.
    fn wait(&self, limit: Option<Duration>) -> Wait {
        let mut channel = self.state.channel.borrow_mut();
        let moment = limit.map_or(MOMENT, |limit| limit.min(MOMENT));
        if channel.wait(Some(moment)) == Wait::Data {
            return Wait::Data;
        }
        let rest = limit.map(|limit| limit - moment);
        if rest.is_some_and(|rest| rest.is_zero()) {
            return Wait::TimedOut;
        }
        channel.send(Kind::Waiting, 0, b"");
        let waited = channel.wait(rest);
        if waited == Wait::TimedOut {
            // The host has sent nothing that would tell it.
            channel.send(Kind::Awake, 0, b"");
            channel.flush();
        }
        waited
    }

    /// Settles calls whose answers have arrived. Not all of many large ones at once: what the program makes of the first
    /// may need less memory than they do. Was there any?
    fn settle_arrived(&self) -> bool {
        let mut bytes = 0;
        while bytes < SETTLE_BYTES
            && let Some(frame) = self.next_answer()
        {
            bytes += frame.body.len().max(1);
            self.answer(frame);
        }
        bytes > 0
    }

    fn next_answer(&self) -> Option<Frame> {
        let early = self.state.early.borrow_mut().pop_front();
        early.or_else(|| self.state.channel.borrow_mut().next_frame())
    }

    /// Settles the promise of a call.
    fn answer(&self, frame: Frame) {
        let Some(call) = self.state.pending.borrow_mut().remove(&frame.id) else {
            last_words::fail("the host answered a call that was not made");
        };
        self.state.answers.set(self.state.answers.get() + 1);
        let is_json_text = frame.kind == Kind::RpcJsonText;
        let text = results::text_of(&frame.body);
        let value = match frame.kind {
            Kind::RpcResult if call.form == Form::Text => handles::text(&self.ctx, parse(&frame)),
            Kind::RpcResult => {
                let prototype = self.watched(&call.target);
                exact::parse(&self.ctx, &self.state, &self.prelude, frame.body, &call.target, prototype.as_ref())
            }
            Kind::RpcJsonText => json_texts::value(&self.ctx, &self.state, &self.prelude, frame.body, &call.target),
            Kind::RpcHandles => handles::value(&self.ctx, &self.state, &self.prelude, parse(&frame), &call.target),
            Kind::RpcError => return self.settle(&call, Err(parse(&frame))),
            kind => last_words::fail(&format!("the host sent {kind:?} out of turn")),
        };
        let outcome = value.map_err(|_| {
            self.ctx.catch();
            let mut message = "the call succeeded, but its result does not fit into the sandbox's memory".to_owned();
            if is_json_text {
                message.push_str("; its text alone may: callTool(name, args, { raw: true })");
            }
            CallError::new(ErrorCode::MemoryLimit, message)
        });
        if let Ok(value) = &outcome {
            // What stands at the place of `callTool` is the envelope, not the result.
            let stack = Some(&call.stack).filter(|_| call.manner == Manner::Thrown);
            self.state.results.note(&call.target, stack, value, text);
            if call.target.contains(':') {
                self.state.pages.note(&call.target, call.asked, &call.stack, value);
            }
            if call.target.contains(':')
                && self.prelude.mark_result.call::<_, ()>((value.clone(), &call.target)).is_err()
            {
                self.ctx.catch();
            }
        }
        self.settle(&call, outcome);
    }

    /// The prototype of the objects in the results of a tool, if it is one.
    fn watched(&self, target: &str) -> Option<Object<'js>> {
        let prototype = target.contains(':').then(|| self.prelude.watched.call((target,)))?;
        if prototype.is_err() {
            self.ctx.catch();
        }
        prototype.ok()
    }

    /// Resolves or rejects. What cannot be done for lack of memory shows as a run that stops.
    fn settle(&self, call: &PendingCall<'js>, outcome: Result<Value<'js>, CallError>) {
        if let (Err(error), Manner::Enveloped) = (&outcome, call.manner) {
            self.state.slips.note_failure(&call.target, &error.message);
        }
        if natives::settle(&self.ctx, &self.prelude, call, outcome).is_err() {
            self.ctx.catch();
            self.state.has_lost_answers.set(true);
        }
    }
}

/// What the host says.
fn parse<'a, T: serde::Deserialize<'a>>(frame: &'a Frame) -> T {
    match serde_json::from_slice(&frame.body) {
        Ok(body) => body,
        Err(err) => last_words::fail(&format!("the host sent a bad {:?} frame: {err}", frame.kind)),
    }
}

#[derive(Debug)]
struct Success {
    json: to_json::Json,
    rejections: Vec<String>,
}

/// A program with a little of what programs have. It calls nothing and prints nothing, since nobody listens.
const WARM_UP: &str = r#"
    type Row = { id: number; name: string };
    const rows: Row[] = JSON.parse('[{"id":2,"name":"b"},{"id":1,"name":"a"}]');
    const known = new Map(rows.map((row) => [row.id, row]));
    let total = 0;
    for (const { id, name } of rows.filter((row) => row.id > 0).sort((left, right) => left.id - right.id)) {
        total += id * 1.5 + name.length;
    }
    const names = Object.entries({ a: 1, b: null }).map(([key, value]) => `${key}=${value ?? "none"}`).join(", ");
    const [first, words] = await Promise.all([known.get(1), Promise.resolve(names.replace(/=/g, " ").split(" "))]);
    try {
        if (total > 0) throw new Error("expected");
    } catch (error) {
        total += error instanceof Error ? error.message.length : 0;
    }
    return { first, words, total, when: new Date(0).toISOString(), text: JSON.stringify([...new Set(words)], null, 2) };
"#;

const REHEARSAL_LIMITS: Limits =
    Limits { timeout_ms: 0, total_ms: 0, memory_bytes: 0, result_bytes: 1024, log_bytes: 0, decisions: 1 };
