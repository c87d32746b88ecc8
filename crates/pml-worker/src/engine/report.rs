//! From what the engine throws to what the agent reads.

use std::time::Duration;

use pml_wire::{
    ErrorCode, ToolId,
    message::{ErrorReport, Limits},
};
use rquickjs::{Object, Value};

use super::{Session, deadline::Limit, hints, inspect, raw, to_json::Failure};
use crate::{
    last_words, memory,
    transpile::{
        Blame, Source, assigned, assigned_constant, declared_elsewhere, function_of, innermost, is_explained,
        undefined_name,
    },
};

/// Longest message that is passed on.
const MESSAGE_BYTES: usize = 8 * 1024;

/// Brackets within brackets that the engine reads in every place. Deeper ones make it complain of what is no mistake.
const MAX_NESTING: usize = 200;
/// Longest name of an error.
const NAME_BYTES: usize = 100;
/// Classes above that of an error that are looked at.
const MAX_CLASSES: usize = 5;
/// Arguments of a call that are looked up.
const MAX_ARGUMENTS: usize = 5;
/// Causes of an error that are followed.
const MAX_CAUSES: usize = 3;

/// Makes reports about one program.
pub(super) struct Reporter<'a, 'js> {
    session: &'a Session<'js>,
    source: &'a Source,
}

impl<'a, 'js> Reporter<'a, 'js> {
    pub(super) fn new(session: &'a Session<'js>, source: &'a Source) -> Reporter<'a, 'js> {
        Reporter { session, source }
    }

    /// The program threw, was stopped, or ran out of something.
    pub(super) fn exception(&self, exception: Value<'js>) -> Box<ErrorReport> {
        self.session.deadline.report();
        if self.session.deadline.passed().is_some() && exception.is_uncatchable_error() {
            return self.timeout(Some(&exception));
        }
        let message = self.message(&exception);
        if memory::is_exhausted() && (exception.is_null() || is_out_of_memory(&message)) {
            return Box::new(self.locate(ErrorReport::out_of_memory(), &exception));
        }
        if let Some(report) = self.tool_error(&exception, &message) {
            return Box::new(report);
        }
        let error = exception.as_object().filter(|object| self.is_error(object));
        let name = error.and_then(|error| self.text_of(error, "name")).map(|name| shorten(name, NAME_BYTES));
        if name.as_deref() == Some("RangeError") && message.contains("call stack size exceeded") {
            let report = ErrorReport::new(ErrorCode::StackOverflow, "the program recursed too deeply")
                .with_hint("end the recursion earlier, or use a loop");
            return Box::new(self.locate(report, &exception));
        }
        let blame = error.filter(|_| name.as_deref() == Some("TypeError") && is_explained(&message)).and_then(|_| {
            let results = self.session.state.results.list();
            self.source.blame(&message, &self.stack(&exception), &results)
        });
        let said = blame.as_ref().map_or(&message, |blame| &blame.message);
        let full = match (error, name) {
            (Some(_), Some(name)) => format!("{name}: {said}"),
            (Some(_), None) => said.clone(),
            (None, _) => format!("thrown: {said}"),
        };
        let full = full + &error.map(|error| self.causes(error)).unwrap_or_default();
        let mut report = self.locate(ErrorReport::new(ErrorCode::Exception, full), &exception);
        report.hint = self.misspelt(&message).or_else(|| self.misused(&message));
        if blame.is_none() && report.hint.is_none() && error.is_some() {
            let is_of_date = message == "Date value is NaN";
            let branches = self.session.state.branches.borrow();
            let began = is_of_date.then(|| self.session.state.watches.invalid_date(self.source, &branches)).flatten();
            report.hint = began.or_else(|| hints::for_message(&message));
        }
        let mut fallback = None;
        if let Some(Blame { hint, missing, position, fallback: other, .. }) = blame {
            fallback = other;
            report.hint = report.hint.or(hint);
            report.missing = missing.filter(|_| report.hint.is_none());
            // What failed is shown, not what the engine did just before.
            report.frame = position.map(|position| self.source.frame(position)).or(report.frame);
        }
        // A value that was reached through other functions is not known from the source; the read that found nothing is.
        if report.hint.is_none() && error.is_some() {
            let place = innermost(&self.stack(&exception));
            report.hint = place.and_then(|place| self.session.state.misses.explanation(place, &report.message));
            report.missing = report.missing.filter(|_| report.hint.is_none());
        }
        report.hint = report.hint.or(fallback);
        Box::new(report)
    }

    /// The name that an unknown one was probably meant to be.
    fn misspelt(&self, message: &str) -> Option<String> {
        // A program that has no variable `result` seldom means the function of that name.
        let name = message.strip_suffix(" is not defined")?.trim_matches('\'');
        let name = Some(name).filter(|name| *name != "result")?;
        if let Some(elsewhere) = declared_elsewhere(self.source, name) {
            return Some(elsewhere);
        }
        if let Some(absent) = hints::absent(message) {
            return Some(absent);
        }
        if let Some(assigned) = assigned(self.source, name) {
            return Some(assigned);
        }
        let near = undefined_name(self.source, name).or_else(|| self.tool_called(name))?;
        Some(format!("did you mean `{near}`?"))
    }

    /// A name that was used too early, or changed although it is constant.
    fn misused(&self, message: &str) -> Option<String> {
        if let Some(name) = message.strip_suffix(" is not initialized").filter(|name| *name != "this") {
            return declared_elsewhere(self.source, name.trim_matches('\''));
        }
        let name = message.strip_suffix(" is read-only")?.trim_matches('\'');
        Some(match assigned_constant(self.source, name) {
            Some(line) => format!("`{name}` is declared with `const` (line {line}): declare it with `let`"),
            None => {
                "the object is frozen, or the property is fixed: change a copy, `{ ...object, name: value }`".to_owned()
            }
        })
    }

    /// A server or a tool of that name.
    fn tool_called(&self, name: &str) -> Option<String> {
        let Ok(servers) = self.session.prelude.names.call::<_, Object<'js>>(()) else {
            self.session.ctx.catch();
            return None;
        };
        let has_tool = |tools: &Value<'js>| {
            let tools = tools.as_array();
            tools.is_some_and(|tools| tools.iter::<String>().flatten().any(|tool| tool == name))
        };
        let servers: Vec<(String, Value<'js>)> = servers.props().flatten().collect();
        if servers.iter().any(|(server, _)| server == name) {
            return Some(format!("mcp.{name}"));
        }
        let (server, _) = servers.iter().find(|(_, tools)| has_tool(tools))?;
        Some(format!("mcp.{server}.{name}"))
    }

    /// The engine refused what the compiler accepted: a bad regular expression, or more brackets than it can count.
    pub(super) fn not_loaded(&self, exception: Value<'js>, javascript: &str) -> Box<ErrorReport> {
        let mut report = self.exception(exception);
        match report.code {
            ErrorCode::Exception if nesting(javascript) > MAX_NESTING => report = Box::new(last_words::too_deep()),
            ErrorCode::Exception => report.code = ErrorCode::SyntaxError,
            ErrorCode::StackOverflow => report = Box::new(last_words::too_deep()),
            _ => {}
        }
        report
    }

    /// A limit has passed while the program was at work; `interrupted` is the engine's error, if it was stopped by one.
    pub(super) fn timeout(&self, interrupted: Option<&Value<'js>>) -> Box<ErrorReport> {
        let report = self.out_of_time();
        match interrupted {
            Some(exception) => Box::new(self.locate(*report, exception)),
            None => report,
        }
    }

    /// A limit has passed while the program waited, for calls or for its own timers.
    pub(super) fn timeout_waiting(&self) -> Box<ErrorReport> {
        let report = self.out_of_time();
        let pending = self.session.state.pending.borrow();
        let mut targets: Vec<_> = pending.values().map(|call| call.target.as_str()).collect();
        targets.sort_unstable();
        targets.dedup();
        targets.truncate(5);
        match (self.session.deadline.passed(), targets.is_empty()) {
            (Some(Limit::Total), false) => {
                let message = format!("{}, waiting for `{}`", report.message, targets.join("`, `"));
                Box::new(ErrorReport { message, ..*report })
            }
            (Some(Limit::Computing), true) => {
                let message = format!("{}; it was waiting for its own timers", report.message);
                let hint = "sleep less, or raise the limit with timeout_ms, --timeout or limits.timeout_ms";
                Box::new(ErrorReport { message, ..*report }.with_hint(hint))
            }
            _ => report,
        }
    }

    fn out_of_time(&self) -> Box<ErrorReport> {
        self.session.deadline.report();
        let limit = self.session.deadline.passed().unwrap_or(Limit::Computing);
        out_of_time(limit, self.session.state.limits.get())
    }

    /// Nothing is left that could settle the result.
    pub(super) fn deadlock(&self) -> Box<ErrorReport> {
        let report =
            ErrorReport::new(ErrorCode::Deadlock, "the program waits for a promise that nothing is left to settle");
        Box::new(report.with_hint("every promise that is awaited needs a timer, a tool call or code that resolves it"))
    }

    /// The result has no JSON form.
    pub(super) fn result_failure(&self, failure: Failure<'js>) -> Box<ErrorReport> {
        Box::new(match failure {
            Failure::Threw { exception, path } => {
                let report = self.exception(exception);
                if report.code != ErrorCode::Exception {
                    return report; // out of time or memory, which says more
                }
                ErrorReport {
                    code: ErrorCode::ResultNotJson,
                    message: format!("reading the result at {path} threw: {}", report.message),
                    ..*report
                }
            }
            Failure::Cycle { path } => {
                ErrorReport::new(ErrorCode::ResultNotJson, format!("the result contains itself at {path}"))
                    .with_hint("return only the parts that are needed")
            }
            Failure::TooDeep { path } => ErrorReport::new(
                ErrorCode::ResultTooDeep,
                format!("the result is nested more than {} levels deep at {path}", pml_wire::json::MAX_DEPTH),
            )
            .with_hint("return a flatter value"),
            Failure::TooLarge { limit } => ErrorReport::new(
                ErrorCode::ResultTooLarge,
                format!("the result is over the limit of {limit} bytes as JSON"),
            )
            .with_hint("filter or summarise in the program and return less, or raise limits.result_bytes"),
        })
    }

    /// Warnings about promises that were rejected while nobody listened.
    pub(super) fn unhandled(&self, rejections: &[(Value<'js>, Value<'js>)], main: &Value<'js>) -> Vec<String> {
        let others = rejections.iter().filter(|(promise, _)| !raw::is_same(promise, main));
        others
            .take(10)
            .map(|(_, reason)| {
                let report = self.exception(reason.clone());
                let place = report.stack.as_deref().and_then(|stack| stack.lines().next());
                let place = place.map(|place| format!(" {place}")).unwrap_or_default();
                format!("unhandled rejection: {}{place}", report.message)
            })
            .collect()
    }

    /// A failed call that the program let through keeps the call's own code.
    fn tool_error(&self, exception: &Value<'js>, message: &str) -> Option<ErrorReport> {
        let genuine = self.genuine(exception)?;
        let code = self.text_of(&genuine, "code")?;
        let code = ErrorCode::ALL.iter().find(|other| other.as_str() == code)?;
        let tool = self.text_of(&genuine, "tool")?;
        let report = ErrorReport {
            tool: tool.parse::<ToolId>().ok(),
            ..ErrorReport::new(*code, format!("`{tool}`: {message}"))
        };
        let mut report = self.locate(report, exception);
        if *code == ErrorCode::InvalidArguments {
            let (stack, results) = (self.stack(exception), self.session.state.results.list());
            let names = missing_arguments(message).take(MAX_ARGUMENTS);
            report.hint = names.filter_map(|name| self.source.blame_argument(&stack, name, &results)).next();
        }
        Some(report)
    }

    /// Adds stack and code frame.
    fn locate(&self, mut report: ErrorReport, exception: &Value<'js>) -> ErrorReport {
        let stack = self.stack(exception);
        let made = self.source.remap_stack(&self.without_constructors(&stack, exception)).1;
        let (stack, position) = self.source.remap_stack(&stack);
        let mut position = made.or(position);
        if position.is_none()
            && let Some((offset, thrown)) = &*self.session.state.last_throw.borrow()
            && raw::is_same(thrown, exception)
        {
            position = Some(self.source.position(*offset));
        }
        report.stack = stack;
        report.frame = position.map(|position| self.source.frame(position));
        report
    }

    /// The stack from where an error of a class of the program's was made: without the constructors of its classes.
    fn without_constructors(&self, stack: &str, exception: &Value<'js>) -> String {
        let mut names = Vec::new();
        let mut class =
            exception.as_object().filter(|it| it.is_error()).and_then(|it| self.object_of(it, "constructor"));
        while let Some(function) = class.filter(|_| names.len() < MAX_CLASSES) {
            names.extend(self.text_of(&function, "name"));
            class = function.get_prototype();
        }
        let is_constructor =
            |line: &&str| function_of(line).is_some_and(|name| names.iter().any(|class| class == name));
        stack.lines().skip_while(is_constructor).collect::<Vec<_>>().join("\n")
    }

    /// Where an error was made, as the engine noted it, not as the program may have set it.
    fn stack(&self, exception: &Value<'js>) -> String {
        let stack: rquickjs::Result<Value<'js>> = match self.genuine(exception) {
            Some(genuine) => genuine.get("stack"),
            None => self.session.prelude.helpers.stack_of.call((exception.clone(),)),
        };
        match stack {
            Ok(stack) if stack.is_undefined() => self.own_stack(exception).unwrap_or_default(),
            Ok(stack) => Some(stack).filter(Value::is_string).and_then(|stack| raw::text(&stack)).unwrap_or_default().0,
            Err(_) => {
                self.session.ctx.catch();
                String::new()
            }
        }
    }

    /// The exceptions of the web's interfaces have their stack as a property.
    fn own_stack(&self, exception: &Value<'js>) -> Option<String> {
        let object = exception.as_object().filter(|object| self.is_error(object))?;
        let name = rquickjs::String::from_str(self.session.ctx.clone(), "stack").ok()?;
        let stack = raw::own_data(object, name.as_value()).filter(Value::is_string)?;
        // One that was caught has the program's own lines by now.
        raw::text(&stack).map(|(stack, _)| stack).filter(|stack| stack.trim_start().starts_with("at "))
    }

    /// What the host said, if this is an error that it sent.
    fn genuine(&self, exception: &Value<'js>) -> Option<Object<'js>> {
        let genuine = exception.as_object().map(|object| self.session.prelude.genuine.call((object.clone(),)));
        genuine?.ok().flatten()
    }

    fn message(&self, exception: &Value<'js>) -> String {
        let message = match exception.as_object() {
            Some(object) if self.is_error(object) => match self.text_of(object, "message").unwrap_or_default() {
                // What `Promise.any` rejects with has none.
                empty if empty.is_empty() && self.object_of(object, "errors").is_some() => {
                    "all promises were rejected".to_owned()
                }
                message => message,
            },
            _ => {
                let helpers = &self.session.prelude.helpers;
                inspect::format_args(std::slice::from_ref(exception), helpers, Some(self.source))
            }
        };
        shorten(message, MESSAGE_BYTES)
    }

    /// Errors, and the exceptions of the web's interfaces, which the engine does not count as such.
    fn is_error(&self, object: &Object<'js>) -> bool {
        object.is_error() || raw::class_id(object) == self.session.prelude.helpers.dom_exception
    }

    /// The errors that led to this one, or that it stands for, each on a line.
    fn causes(&self, error: &Object<'js>) -> String {
        let mut lines = String::new();
        let mut add = |label: &str, cause: &Object<'js>| {
            let name = self.text_of(cause, "name").map(|name| shorten(name, NAME_BYTES));
            let message = self.message(cause);
            lines.push_str(&format!(
                "
{label}: {}: {message}",
                name.unwrap_or_else(|| "Error".to_owned())
            ));
        };
        if let Some(errors) = self.object_of(error, "errors").and_then(Object::into_array) {
            for cause in errors.iter::<Object<'js>>().take(MAX_CAUSES).flatten() {
                add("one of", &cause);
            }
        }
        let mut cause = self.object_of(error, "cause");
        for _ in 0..MAX_CAUSES {
            let Some(object) = cause.filter(|cause| self.is_error(cause)) else { break };
            add("caused by", &object);
            cause = self.object_of(&object, "cause");
        }
        lines
    }

    fn object_of(&self, object: &Object<'js>, name: &str) -> Option<Object<'js>> {
        match object.get::<_, Value<'js>>(name) {
            Ok(value) => value.into_object(),
            Err(_) => {
                self.session.ctx.catch();
                None
            }
        }
    }

    /// A text property. A getter may run and fail; then there is no text.
    fn text_of(&self, object: &Object<'js>, name: &str) -> Option<String> {
        match object.get::<_, Value<'js>>(name) {
            Ok(value) if value.is_string() => raw::text(&value).map(|(text, _)| text),
            Ok(_) => None,
            Err(_) => {
                self.session.ctx.catch();
                None
            }
        }
    }
}

/// The arguments that a message says were not there: `args.owner: expected string, got nothing`.
fn missing_arguments(message: &str) -> impl Iterator<Item = &str> {
    message.split("args.").skip(1).filter_map(|part| {
        let end = part.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
        let mistake = part.split(';').next()?;
        mistake.ends_with(", got nothing").then_some(&part[..end])
    })
}

/// The one wording of a limit that has passed.
pub(super) fn out_of_time(limit: Limit, limits: Limits) -> Box<ErrorReport> {
    let (message, hint) = match limit {
        Limit::Computing => (
            format!(
                "the program ran for longer than {:?} (waiting for tools is not counted)",
                Duration::from_millis(limits.timeout_ms)
            ),
            "look for a loop that never ends, or raise the limit with timeout_ms, --timeout or limits.timeout_ms",
        ),
        Limit::Total => (
            format!("the run took longer than {:?} in all", Duration::from_millis(limits.total_ms)),
            "make fewer or faster calls, or raise the limit with --total or limits.total_ms",
        ),
    };
    Box::new(ErrorReport::new(ErrorCode::Timeout, message).with_hint(hint))
}

/// The engine's words when it runs out, in general and in a regular expression.
fn is_out_of_memory(message: &str) -> bool {
    matches!(message, "out of memory" | "out of memory in regexp execution")
}

/// How deep brackets are nested, about: those in texts count too.
fn nesting(javascript: &str) -> usize {
    let (mut depth, mut most) = (0_usize, 0);
    for byte in javascript.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        most = most.max(depth);
    }
    most
}

fn shorten(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
        text.push('…');
    }
    text
}
