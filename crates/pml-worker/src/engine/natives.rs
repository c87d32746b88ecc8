//! The functions that the prelude builds on, and what a program's calls become.
//!
//! None of these is reachable from a program: the prelude gets them as an argument and keeps them
//! in its closure. So they trust the types of what they are given, but not the values.

use std::{
    cell::{OnceCell, RefCell},
    rc::Rc,
};

use pml_wire::{
    ErrorCode, Kind,
    id::{MAX_NAME_BYTES, RESERVED_NAMES},
    message::{CallError, Log, LogLevel, Progress, log_cost},
};
use rquickjs::{
    Array, Ctx, Function, JsLifetime, Module, Object, Result, Runtime, Value,
    function::{Args, Opt},
};

use super::{
    Form, Manner, PendingCall, Prelude, State, decisions, explained, handles, hashing,
    inspect::{self, Helpers},
    intl, json_texts, language, misses, orders, pages, questions, raw, slips, sort, sort_typed, temporal,
    to_json::{self, Failure, Intrinsics, Texts},
    truths, watches, web,
};

/// The bytecode of the scripts; see `build.rs`.
const PRELUDE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/prelude.bin"));
const LOCALE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/locale.bin"));
const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bytes.bin"));
const LANGUAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/language.bin"));
const LISTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lists.bin"));
const SLIPS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/slips.bin"));
/// Most rejections that are kept.
const MAX_REJECTIONS: usize = 100;
/// Names under which programs pass the arguments of a call as a whole.
const WRAPPERS: [&str; 4] = ["arguments", "args", "params", "input"];
/// Longest message of one `progress()`.
const PROGRESS_BYTES: usize = 1000;

/// Promises that were rejected while nobody listened, with the reason.
#[derive(Debug, Default)]
struct Rejections<'js>(RefCell<Vec<(Value<'js>, Value<'js>)>>);

// SAFETY: it has exactly the lifetime of the values that it holds.
#[expect(unsafe_code, reason = "the trait is a promise about lifetimes")]
unsafe impl<'js> JsLifetime<'js> for Rejections<'js> {
    type Changed<'to> = Rejections<'to>;
}

/// Keeps a list of rejected promises that nobody listens to. Before the realm is entered.
pub(super) fn track_rejections(runtime: &Runtime) {
    runtime.set_host_promise_rejection_tracker(Some(Box::new(|ctx, promise, reason, is_handled| {
        let Some(rejections) = ctx.userdata::<Rejections<'_>>() else { return };
        let mut list = rejections.0.borrow_mut();
        if is_handled {
            list.retain(|(other, _)| !raw::is_same(other, &promise));
        } else if list.len() < MAX_REJECTIONS {
            list.push((promise, reason));
        }
    })));
}

/// The rejections nobody has listened to until now.
pub(super) fn take_rejections<'js>(ctx: &Ctx<'js>) -> Vec<(Value<'js>, Value<'js>)> {
    let rejections = ctx.userdata::<Rejections<'js>>();
    rejections.map(|rejections| rejections.0.take()).unwrap_or_default()
}

/// Evaluates the prelude and keeps what it gives back.
pub(super) fn install<'js>(ctx: &Ctx<'js>, state: &Rc<State<'js>>) -> Result<Prelude<'js>> {
    let native = Object::new(ctx.clone())?;
    let late = Late::default();
    bridge(ctx, &native, state, &late)?;
    console(ctx, &native, state, &late)?;
    handles::install(ctx, &native, state, &late)?;
    json_texts::install(ctx, &native, state, &late)?;
    misses::install(ctx, &native, state)?;
    sort::install(ctx, &native)?;
    sort_typed::install(ctx, &native)?;
    slips::install(ctx, &native, state)?;
    watches::install(ctx, &native, state)?;
    watches::install_members(ctx, state)?;
    truths::install(ctx, &native, state)?;
    orders::install(ctx, &native, state)?;
    questions::install(ctx, &native, state, &late)?;
    web::install(ctx, &native, state)?;
    native.set("reserved", RESERVED_NAMES.to_vec())?;
    language::install(ctx, &native, state, &late)?;
    hashing::install(ctx, &native)?;
    intl::install(ctx, &native)?;
    temporal::install(ctx, &native)?;

    let object: Object<'js> = script(ctx, PRELUDE)?.call((native.clone(),))?;
    script(ctx, LANGUAGE)?.call::<_, ()>((native.clone(), object.clone()))?;
    script(ctx, LISTS)?.call::<_, ()>((native.clone(), object.clone()))?;
    script(ctx, SLIPS)?.call::<_, ()>((native.clone(), object.clone()))?;
    script(ctx, LOCALE)?.call::<_, ()>((native.clone(),))?;
    script(ctx, BYTES)?.call::<_, ()>((native,))?;
    let class_of = |code: &str| -> Result<_> { Ok(raw::class_id(&ctx.eval::<Value<'js>, _>(code)?)) };
    let dom_exception = class_of("new DOMException()")?;
    let intrinsics = Intrinsics {
        object_prototype: ctx.eval("Object.prototype")?,
        array_prototype: ctx.eval("Array.prototype")?,
        is_array: object.get("isArray")?,
        to_number: object.get("toNumber")?,
        unbox: object.get("unbox")?,
        text_prototypes: Rc::clone(&state.text_prototypes),
        is_writing: Rc::clone(&state.misses.is_writing),
        handle_prototype: object.get("handlePrototype")?,
        handle_marker: object.get("handleMarker")?,
        formless: object.get("formless")?,
        original_text: object.get("originalText")?,
        exact: state.exact.clone(),
        numbers_of: object.get("numbersOf")?,
        array: class_of("[]")?,
        ordinary: class_of("({})")?,
        dom_exception,
        boxed: [class_of("Object(1)")?, class_of("Object('')")?, class_of("Object(true)")?, class_of("Object(1n)")?],
    };
    let helpers = Helpers {
        entries: object.get("entries")?,
        describe: object.get("describe")?,
        temporal: object.get("temporal")?,
        dom_exception,
        stack_of: object.get("stackOf")?,
    };
    let prelude = Prelude {
        imports: object.get("imports")?,
        probe: decisions::probe(ctx, state, &late)?,
        count_decision: decisions::counter(ctx, state)?,
        names: object.get("names")?,
        make_tool_error: object.get("makeToolError")?,
        make_success: object.get("makeSuccess")?,
        make_failure: object.get("makeFailure")?,
        make_handle: object.get("makeHandle")?,
        note_links: object.get("noteLinks")?,
        watched: object.get("watched")?,
        mark_result: object.get("markResult")?,
        mark_text: object.get("markText")?,
        note_numbers: object.get("noteNumbers")?,
        genuine: object.get("genuine")?,
        helpers,
        intrinsics,
    };
    ctx.store_userdata(Rejections::default()).map_err(|_| rquickjs::Error::Unknown)?;
    Ok(late.get_or_init(|| prelude).clone())
}

/// The function that a script gives.
pub(super) fn script<'js>(ctx: &Ctx<'js>, bytecode: &[u8]) -> Result<Function<'js>> {
    // SAFETY: the bytes were written by the same engine, when this program was built.
    #[expect(unsafe_code, reason = "compiling the source at each cold start would take 2 ms")]
    let module = unsafe { Module::load(ctx.clone(), bytecode)? };
    let (module, loaded) = module.eval()?;
    loaded.finish::<()>()?;
    module.get("default")
}

/// The prelude, for natives that are made before it.
pub(super) type Late<'js> = Rc<OnceCell<Prelude<'js>>>;

pub(super) fn given<'a, 'js>(late: &'a Late<'js>) -> &'a Prelude<'js> {
    late.get().expect("the prelude is evaluated before any program runs")
}

/// Calls, names and progress: everything that goes to the host.
fn bridge<'js>(ctx: &Ctx<'js>, native: &Object<'js>, state: &Rc<State<'js>>, late: &Late<'js>) -> Result<()> {
    let (shared, prelude) = (Rc::clone(state), Rc::clone(late));
    let call = move |ctx: Ctx<'js>,
                     target: Value<'js>,
                     args: Value<'js>,
                     is_raw: bool,
                     stack: Value<'js>,
                     is_enveloped: bool| {
        let manner = if is_enveloped { Manner::Enveloped } else { Manner::Thrown };
        call(&ctx, &shared, given(&prelude), (&target, &args, is_raw), stack, manner)
    };
    native.set("call", Function::new(ctx.clone(), call)?)?;

    let shared = Rc::clone(state);
    let names = move |ctx: Ctx<'js>| -> Result<Value<'js>> {
        // The report may ask, too.
        if shared.deadline.passed().is_some() {
            return ctx.json_parse("{}");
        }
        let mut channel = shared.channel.borrow_mut();
        channel.send(Kind::NamesRequest, 0, b"");
        channel.flush();
        loop {
            let frame = channel.receive();
            if frame.kind == Kind::Names {
                drop(channel);
                return ctx.json_parse(frame.body);
            }
            shared.early.borrow_mut().push_back(frame);
        }
    };
    native.set("names", Function::new(ctx.clone(), names)?)?;

    let shared = Rc::clone(state);
    let progress = move |value: f64, total: Opt<Option<f64>>, message: Opt<Value<'js>>| {
        if shared.deadline.is_over() {
            return;
        }
        let message = message.0.filter(Value::is_string).and_then(|message| raw::text(&message));
        let message = message.map(|(mut text, _)| {
            text.truncate(text.floor_char_boundary(PROGRESS_BYTES));
            text
        });
        let progress = Progress {
            progress: if value.is_finite() { value } else { 0.0 },
            total: total.0.flatten().filter(|total| total.is_finite()),
            message,
        };
        shared.channel.borrow_mut().send_json(Kind::Progress, &progress);
        // Progress is worth nothing late.
        shared.channel.borrow_mut().flush();
    };
    native.set("progress", Function::new(ctx.clone(), progress)?)
}

/// Sends a call to the host and gives the promise of its answer.
fn call<'js>(
    ctx: &Ctx<'js>,
    state: &State<'js>,
    prelude: &Prelude<'js>,
    (target, args, is_raw): (&Value<'js>, &Value<'js>, bool),
    stack: Value<'js>,
    manner: Manner,
) -> Result<Value<'js>> {
    let (mut target, _) = raw::text(target).ok_or(rquickjs::Error::Exception)?;
    // Longer than any tool's name: cut here, refused by the host.
    target.truncate(target.floor_char_boundary(2 * MAX_NAME_BYTES + 2));
    let (promise, resolve, reject) = ctx.promise()?;
    let mut call = PendingCall {
        target,
        resolve,
        reject,
        stack,
        manner,
        form: Form::Value,
        lost: Vec::new(),
        asked: pages::Asked::default(),
        wrapper: None,
    };

    let args = if args.is_undefined() {
        Ok(to_json::Json { text: b"{}".to_vec(), ..to_json::Json::default() })
    } else {
        let explain = |error: &Value<'js>| explained::explain(error, state, &prelude.helpers);
        to_json::to_json(args, &prelude.intrinsics, state.limits.get().result_bytes, Texts::Noted, &explain)
    };
    let args = match args {
        Ok(args) => args,
        Err(Failure::Threw { exception, .. }) => return Err(ctx.throw(exception)),
        Err(Failure::Cycle { path }) => return refuse(ctx, prelude, call, promise, format!("{path} contains itself")),
        Err(Failure::TooDeep { path }) => {
            return refuse(ctx, prelude, call, promise, format!("{path} is nested too deeply"));
        }
        Err(Failure::TooLarge { limit }) => {
            return refuse(ctx, prelude, call, promise, format!("they are over the limit of {limit} bytes"));
        }
    };

    call.lost = args.lost;
    call.asked = pages::Asked::of(&args.text);
    state.pages.note_call(&call.target, call.asked);
    state.pages.show(&args.text);
    call.wrapper = WRAPPERS.iter().find(|name| args.text.starts_with(format!("{{\"{name}\":{{").as_bytes())).copied();
    for warning in args.warnings {
        state.warn(format!("arguments of `{}`: {warning}", call.target));
    }

    let mut body = br#"{"target":"#.to_vec();
    // Neither can fail: strings and numbers serialize, and the sink is a Vec.
    let _ = serde_json::to_writer(&mut body, &call.target);
    body.extend_from_slice(br#","args":"#);
    body.extend_from_slice(&args.text);
    body.extend_from_slice(br#","texts":"#);
    let _ = serde_json::to_writer(&mut body, &args.texts);
    body.extend_from_slice(if is_raw { br#","raw":true}"# } else { b"}" });
    send(state, call, Kind::RpcCall, &body);
    Ok(promise.into_value())
}

/// A request that is about to be sent, and the promise of its answer.
pub(super) fn pending<'js>(
    ctx: &Ctx<'js>,
    name: &str,
    form: Form,
    stack: Value<'js>,
) -> Result<(Value<'js>, PendingCall<'js>)> {
    let (promise, resolve, reject) = ctx.promise()?;
    let call = PendingCall {
        target: name.to_owned(),
        resolve,
        reject,
        stack,
        manner: Manner::Thrown,
        form,
        lost: Vec::new(),
        asked: pages::Asked::default(),
        wrapper: None,
    };
    Ok((promise.into_value(), call))
}

/// Sends a request under the next id, and keeps who waits for the answer. Not from a program that is over: its promise is
/// never settled.
pub(super) fn send<'js>(state: &State<'js>, call: PendingCall<'js>, kind: Kind, body: &[u8]) {
    if state.deadline.is_over() {
        return;
    }
    let id = state.last_call.get() + 1;
    state.last_call.set(id);
    let line = state.lines.news(state.source.borrow().as_deref(), &call.stack);
    state.pending.borrow_mut().insert(id, call);
    // What led to the request is known before it.
    decisions::tell(state);
    let mut channel = state.channel.borrow_mut();
    let answers = state.answers.get();
    if state.answers_told.replace(answers) != answers {
        channel.send(Kind::Answered, answers, b"");
    }
    if let Some(line) = line {
        channel.send(Kind::Line, line, b"");
    }
    channel.send(kind, id, body);
}

/// Answers a call that cannot be sent.
fn refuse<'js>(
    ctx: &Ctx<'js>,
    prelude: &Prelude<'js>,
    call: PendingCall<'js>,
    promise: rquickjs::Promise<'js>,
    why: String,
) -> Result<Value<'js>> {
    let error = CallError::new(ErrorCode::InvalidArguments, format!("the arguments have no JSON form: {why}"));
    settle(ctx, prelude, &call, Err(error))?;
    Ok(promise.into_value())
}

/// Resolves or rejects a call's promise.
pub(super) fn settle<'js>(
    ctx: &Ctx<'js>,
    prelude: &Prelude<'js>,
    call: &PendingCall<'js>,
    outcome: std::result::Result<Value<'js>, CallError>,
) -> Result<()> {
    match settlement(ctx, prelude, call, outcome)? {
        Ok(value) => call.resolve.call((value,)),
        Err(error) => call.reject.call((error,)),
    }
}

/// What to resolve (`Ok`) or reject (`Err`) a call's promise with.
fn settlement<'js>(
    ctx: &Ctx<'js>,
    prelude: &Prelude<'js>,
    call: &PendingCall<'js>,
    outcome: std::result::Result<Value<'js>, CallError>,
) -> Result<std::result::Result<Value<'js>, Value<'js>>> {
    // Links are of the server that returned them.
    if let (Ok(value), Some((server, _))) = (&outcome, call.target.split_once(':'))
        && value.is_array()
    {
        prelude.note_links.call::<_, ()>((value.clone(), server))?;
    }
    let error = match outcome {
        Ok(value) => {
            return Ok(Ok(match call.manner {
                Manner::Enveloped => prelude.make_success.call((value, call.target.as_str()))?,
                Manner::Thrown => value,
            }));
        }
        Err(error) => error,
    };
    let data = match error.data {
        Some(data) => ctx.json_parse(data.to_string())?,
        None => Value::new_undefined(ctx.clone()),
    };
    let (code, tool, outcome) = (error.code.as_str(), call.target.as_str(), error.outcome.as_str());
    let CallError { mut message, retryable, rpc_code, .. } = error;
    if error.code == ErrorCode::InvalidArguments {
        message =
            name_lost(message, &call.lost).replace(", got null", ", got null (leave it out if there is no value)");
        if let Some(wrapper) = call.wrapper.filter(|wrapper| !message.contains(&format!("args.{wrapper}"))) {
            message.push_str(&format!("; pass the arguments themselves, not an object with `{wrapper}`"));
        }
    }
    Ok(match call.manner {
        Manner::Enveloped => {
            Ok(prelude.make_failure.call((code, message, tool, retryable, outcome, data, rpc_code))?)
        }
        Manner::Thrown => {
            // More than fit a tuple.
            let mut args = Args::new(ctx.clone(), 8);
            args.push_args([code, &message, tool])?;
            args.push_arg(retryable)?;
            args.push_arg(outcome)?;
            args.push_arg(data)?;
            args.push_arg(rpc_code)?;
            args.push_arg(call.stack.clone())?;
            Err(prelude.make_tool_error.call_arg(args)?)
        }
    })
}

/// Has a message about arguments name what the program passed, where JSON has something else.
fn name_lost(mut message: String, lost: &[(String, String)]) -> String {
    for (path, what) in lost {
        let place = format!("args{}: ", path.trim_start_matches('$'));
        let Some(start) = message.find(&place) else { continue };
        let Some(got) = message[start..].find(", got ").map(|got| start + got + ", got ".len()) else { continue };
        let end = message[got..].find([';', '\n']).map_or(message.len(), |end| got + end);
        message.replace_range(got..end, what);
    }
    message
}

fn console<'js>(ctx: &Ctx<'js>, native: &Object<'js>, state: &Rc<State<'js>>, late: &Late<'js>) -> Result<()> {
    let (state, late) = (Rc::clone(state), Rc::clone(late));
    let log = move |level: u8, args: Array<'js>, indent: usize| {
        if state.deadline.is_over() {
            return;
        }
        if state.log_left.get() == 0 {
            state.logs_dropped.set(state.logs_dropped.get() + 1);
            return;
        }
        let args: Vec<Value<'js>> = args.iter().filter_map(std::result::Result::ok).collect();
        let source = state.source.borrow().clone();
        args.iter().for_each(|value| explained::explain(value, &state, &given(&late).helpers));
        let mut text = inspect::format_args(&args, &given(&late).helpers, source.as_deref());
        if indent > 0 {
            let margin = "  ".repeat(indent.min(20));
            text = format!("{margin}{}", text.replace('\n', &format!("\n{margin}")));
        }
        state.pages.show(text.as_bytes());
        let Some(left) = state.log_left.get().checked_sub(log_cost(&text)) else {
            state.log_left.set(0);
            state.logs_dropped.set(state.logs_dropped.get() + 1);
            return;
        };
        state.log_left.set(left);
        let level = match level {
            0 => LogLevel::Debug,
            1 => LogLevel::Info,
            2 => LogLevel::Log,
            3 => LogLevel::Warn,
            _ => LogLevel::Error,
        };
        state.channel.borrow_mut().send_json(Kind::Log, &Log { level, text });
    };
    native.set("log", Function::new(ctx.clone(), log)?)
}
