//! From the engine's message to one that names the thing.

use oxc::{ast::ast::*, span::GetSpan};
use pml_wire::message::MissingProperty;

use super::{
    habits,
    known::Known,
    opened::{Opened, offset_of, open},
    operations::{Kind, Operation},
    patterns,
    shape::{Given, Shape},
    teller::{TEXT_CHARS, Teller},
};
use crate::transpile::{Probes, Source, source::Position};

/// What failed.
#[derive(Debug)]
pub(crate) struct Blame {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// What to do if nothing else hints at more.
    pub(crate) fallback: Option<String>,
    /// A property that a result does not have, where nothing can be hinted at here.
    pub(crate) missing: Option<Box<MissingProperty>>,
    /// Where it stands, if that is not where the engine places it.
    pub(crate) position: Option<Position>,
}

/// What an engine's message says of the failure.
pub(super) enum Failure<'m> {
    NotAFunction,
    NotAConstructor,
    NotIterable,
    /// The right side of `in`.
    NotSearchable,
    /// `undefined` or `null`, and the property.
    Read(&'m str, &'m str),
    Set(&'m str, &'m str),
    /// What was to be taken apart, or is no object.
    Nothing,
    /// `reduce` of an empty array, without an initial value.
    Empty,
}

impl Failure<'_> {
    fn read(message: &str) -> Option<Failure<'_>> {
        let property = |rest: &'_ str| -> Option<(usize, usize)> {
            let end = rest.rfind("' of ")?;
            Some((end, end + "' of ".len()))
        };
        Some(match message {
            "not a function" => Failure::NotAFunction,
            "not a constructor" => Failure::NotAConstructor,
            "value is not iterable" => Failure::NotIterable,
            "invalid 'in' operand" => Failure::NotSearchable,
            "Cannot convert undefined or null to object" => Failure::Nothing,
            "empty array" => Failure::Empty,
            _ => {
                let (rest, is_read) = match message.strip_prefix("cannot read property '") {
                    Some(rest) => (rest, true),
                    None => (message.strip_prefix("cannot set property '")?, false),
                };
                let (end, value) = property(rest)?;
                // Not one that was explained already.
                if !matches!(&rest[value..], "undefined" | "null") {
                    return None;
                }
                match (&rest[value..], &rest[..end], is_read) {
                    (value, name, true) => Failure::Read(value, name),
                    (value, name, false) => Failure::Set(value, name),
                }
            }
        })
    }

    /// The kind of pattern that may have failed.
    fn pattern(&self) -> Option<Kind> {
        match self {
            Failure::Nothing => Some(Kind::TakeApart),
            Failure::NotIterable | Failure::Read(_, "Symbol.iterator") => Some(Kind::Iterate),
            _ => None,
        }
    }

    fn fits(&self, operation: &Operation<'_>) -> bool {
        match self {
            Failure::NotAFunction => matches!(operation.kind, Kind::Call | Kind::New | Kind::Iterate),
            Failure::NotAConstructor => operation.kind == Kind::New,
            Failure::NotIterable => operation.kind == Kind::Iterate,
            Failure::NotSearchable => operation.kind == Kind::In,
            Failure::Nothing => operation.kind == Kind::TakeApart,
            Failure::Empty => false, // always a function of the engine's
            Failure::Read(_, "Symbol.iterator") => operation.kind == Kind::Iterate,
            Failure::Read(_, name) => {
                operation.kind == Kind::Read && operation.property.is_none_or(|property| property == *name)
            }
            Failure::Set(_, name) => {
                operation.kind == Kind::Set && operation.property.is_none_or(|property| property == *name)
            }
        }
    }
}

/// Is this a message of the engine's that can be explained?
pub(crate) fn is_explained(message: &str) -> bool {
    Failure::read(message).is_some()
}

/// A failure, and where the engine places it.
#[derive(Debug)]
pub(in crate::transpile) struct Failed<'f> {
    pub(in crate::transpile) message: &'f str,
    /// The innermost line and column in the program.
    pub(in crate::transpile) place: (u32, u32),
    /// The function of the engine that failed on the program's behalf, if one did.
    pub(in crate::transpile) native: Option<&'f str>,
    /// Where the program called the function that has the place.
    pub(in crate::transpile) caller: Option<(u32, u32)>,
}

/// Says which expression a failure is about.
pub(in crate::transpile) fn explain(
    source: &Source,
    probes: Probes,
    failed: &Failed<'_>,
    results: &[Given],
) -> Option<Blame> {
    let failure = Failure::read(failed.message)?;
    open(source, probes, |opened| opened.tell(results, |teller| blamed(opened, teller, &failure, failed)))?
}

fn blamed<'a>(
    opened: &Opened<'_, 'a>,
    teller: &Teller<'_, 'a>,
    failure: &Failure<'_>,
    failed: &Failed<'_>,
) -> Option<Blame> {
    let offset = offset_of(opened.javascript, failed.place)?;
    let operations = &opened.found.operations;
    let at_place = || operations.iter().filter(|operation| operation.place == offset);
    if let Some(native) = failed.native {
        let call = at_place().find(|it| matches!(it.kind, Kind::Call | Kind::New) && names(it, native))?;
        if let Failure::Empty = failure {
            return teller.empty(call);
        }
        let argument = call.arguments.first().and_then(Argument::as_expression);
        return Some(teller.argument(failure, call, argument));
    }
    // Of `list[i].name`, both reads have the same place: one whose property is written out and is the failure's goes first.
    let fitting = || at_place().filter(|operation| failure.fits(operation));
    // `for await (… of mcp.a.b())`: a tool is a function, and so it is not the call that failed.
    let is_tool_call = |it: &&Operation<'_>| {
        it.kind == Kind::Call && it.subject.is_some_and(|callee| teller.text(callee).starts_with("mcp."))
    };
    let iterated = || fitting().find(|it| it.kind == Kind::Iterate).filter(|_| fitting().any(|it| is_tool_call(&it)));
    let operation =
        iterated().or_else(|| fitting().find(|operation| operation.property.is_some())).or_else(|| fitting().next());
    if let Some(kind) = failure.pattern() {
        let caller = failed.caller.and_then(|place| offset_of(opened.javascript, place));
        let patterns = opened.found.patterns.iter().filter(|it| it.place == offset && it.kind == kind);
        let patterns: Vec<_> = patterns.collect();
        let blame = patterns::explain(opened, teller, failure, &patterns, caller, operation);
        if blame.is_some() {
            return blame;
        }
    }
    // Nothing is noted for `this`.
    let operation = operation.or_else(|| {
        let of_this = |it: &&Operation<'_>| {
            failure.fits(it) && it.subject.is_some_and(|it| matches!(it, Expression::ThisExpression(_)))
        };
        operations.iter().find(of_this).filter(|_| at_place().next().is_none())
    })?;
    let mut blame = teller.operation(failure, operation)?;
    blame.position = teller.position(operation.start);
    // What a function was called with says more than the name of its parameter.
    let caller = failed.caller.and_then(|place| offset_of(opened.javascript, place));
    let call = operations.iter().find(|it| it.kind == Kind::Call && Some(it.place) == caller);
    if let Some((call, subject)) = call.zip(operation.subject) {
        teller.add_argument(&mut blame, call, subject);
    }
    Some(blame)
}

fn is_object(value: &Expression<'_>) -> bool {
    matches!(value.get_inner_expression(), Expression::ObjectExpression(_))
}

/// Does the call call a function of this name?
fn names(operation: &Operation<'_>, name: &str) -> bool {
    let callee = operation.subject.map(Expression::get_inner_expression);
    callee.is_some_and(|callee| match callee {
        Expression::Identifier(it) => it.name == name,
        callee => callee.as_member_expression().and_then(|it| it.static_property_name()) == Some(name),
    })
}

impl<'a> Teller<'_, 'a> {
    pub(super) fn operation(&self, failure: &Failure<'_>, operation: &Operation<'a>) -> Option<Blame> {
        let subject = operation.subject?;
        let text = self.text(subject);
        let mut hint = None;
        let message = match failure {
            Failure::NotAFunction | Failure::NotAConstructor if operation.kind != Kind::Iterate => {
                let what = match operation.kind {
                    Kind::New => "a constructor",
                    _ => "a function",
                };
                let mut message = format!("{text} is not {what}");
                match subject.get_inner_expression().as_member_expression() {
                    Some(member) => {
                        let object = self.knowledge.of(member.object());
                        if let Some(object) = &object {
                            let name = self.text(member.object());
                            message = format!("{message}: {name} is {}", self.describe_more(object));
                            hint = match member.static_property_name() {
                                Some(method) => self.advice_of_method(object, &name, Some(method)),
                                None => self.advice(object, &name, None).filter(|_| object.is_promise),
                            };
                        } else if member.object().is_specific_id("mcp") {
                            hint = Some("`mcp` has servers, and these have tools: `await mcp.server.tool({ … })`, or `await pml.callTool(\"server:tool\", { … })`".to_owned());
                        } else if let Some(hint_of) =
                            habits::of_global(&self.text(member.object()), member.static_property_name())
                        {
                            hint = Some(hint_of);
                        } else if let Some(property) = member.static_property_name() {
                            hint = habits::instead(None, &self.text(member.object()), property);
                        }
                    }
                    None => {
                        if let Some(known) = self.knowledge.of(subject) {
                            message = format!("{message}: {text} is {}", self.describe_more(&known));
                        }
                    }
                }
                message
            }
            Failure::NotSearchable => {
                let known = self.knowledge.of(subject);
                let is = known.map(|known| format!(": {text} is {}", self.describe_more(&known))).unwrap_or_default();
                hint = Some(format!("`in` needs an object on its right; a text is searched with `{text}.includes(…)`"));
                format!("the right side of `in` is no object{is}")
            }
            Failure::Nothing => {
                hint = self.missing(subject);
                format!("cannot take {text} apart: {text} is undefined or null{}", self.came_from(subject))
            }
            Failure::Read(value, "Symbol.iterator") => {
                hint = self.missing(subject);
                format!("{text} is not iterable: {text} is {value}{}", self.came_from(subject))
            }
            Failure::Read(value, name) | Failure::Set(value, name) => {
                hint = self.missing(subject);
                let verb = if matches!(failure, Failure::Read(..)) { "read" } else { "set" };
                if matches!(subject.get_inner_expression(), Expression::ThisExpression(_)) {
                    hint = Some("a method that is taken out of its object has no `this`: call it as `object.method()`, or pass on `(…) => object.method(…)`".to_owned());
                }
                let is = if text == *value { String::new() } else { format!(": {text} is {value}") };
                format!("cannot {verb} property '{name}' of {value}{is}{}", self.came_from(subject))
            }
            _ => {
                let known = self.knowledge.of(subject);
                hint = known.as_ref().and_then(|known| self.advice(known, &text, None));
                match known {
                    Some(known) => format!("{text} is not iterable: {text} is {}", self.describe_more(&known)),
                    None => format!("{text} is not iterable"),
                }
            }
        };
        let hint = hint.or_else(|| self.taken_for_element(subject));
        let missing = match failure {
            Failure::Read("undefined", _) if hint.is_none() => self.lacking(subject),
            _ => None,
        };
        let fallback = match failure {
            Failure::Read(value, name) => self.not_found(subject).or_else(|| {
                let is_member = subject.get_inner_expression().as_member_expression().is_some();
                let is_null = *value == "null" && is_member && *name != "Symbol.iterator";
                is_null.then(|| {
                    format!("it can be null: read it with `{text}?.{name}`, and say what takes its place: `?? …`")
                })
            }),
            Failure::Set(..) if subject.get_inner_expression().as_member_expression().is_some() => {
                Some(format!("set it first: `{text} = {{}}`"))
            }
            Failure::Set(..) | Failure::Nothing => self.not_found(subject),
            _ => None,
        };
        Some(Blame { message, hint, fallback, missing, position: None })
    }

    /// Adds what `call` passed as the parameter that a failure is about.
    fn add_argument(&self, blame: &mut Blame, call: &Operation<'a>, subject: &Expression<'a>) {
        let subject = subject.get_inner_expression();
        let member = subject.as_member_expression();
        let parameter = member.map_or(subject, |member| member.object());
        let Some(index) = self.knowledge.parameter_of(parameter) else { return };
        let has_spread = call.arguments.iter().any(Argument::is_spread);
        let argument = call.arguments.get(index).and_then(Argument::as_expression).filter(|_| !has_spread);
        let Some(argument) = argument.filter(|it| !it.is_literal() && !it.is_function()) else { return };
        // `tracks.map(line)` passes a function, and no parameter of it.
        if self.knowledge.of(argument).is_some_and(|known| known.shape == Shape::Function) {
            return;
        }
        let (name, text) = (self.text(parameter), self.text(argument));
        if parameter.span() != subject.span() {
            let Some(known) = self.knowledge.of(argument) else { return };
            let passed = if name == text { String::new() } else { format!("{text}, ") };
            blame.message = format!("{}; {name} is {passed}{}", blame.message, self.describe(&known));
            let property = member.and_then(|member| member.static_property_name());
            let advice = self.advice(&known, &text, property);
            blame.hint = blame.hint.take().or(advice);
            return;
        }
        blame.message = format!("{}; {name} is {text}{}", blame.message, self.came_from(argument));
        blame.hint = blame.hint.take().or_else(|| self.missing(argument));
        blame.fallback = blame.fallback.take().or_else(|| self.not_found(argument));
    }

    /// The property of a tool's result that `value` would be, and is not there.
    fn lacking(&self, value: &Expression<'a>) -> Option<Box<MissingProperty>> {
        let member = value.get_inner_expression().as_member_expression()?;
        let known = self.knowledge.of(member.object())?;
        self.lacking_of(&known, member.static_property_name()?, self.text(member.object()))
    }

    /// The property of a part of a tool's result, if that does not have it. `object` is what the part is called.
    pub(super) fn lacking_of(&self, known: &Known, property: &str, object: String) -> Option<Box<MissingProperty>> {
        let is_lacking = !known.is_promise
            && matches!(known.shape, Shape::Object(_))
            && known.shape.keys().all(|key| key != property)
            && property.len() <= TEXT_CHARS;
        let (tool, _) = known.origin.as_ref().filter(|_| is_lacking)?;
        let path = known.path.clone()?;
        Some(Box::new(MissingProperty { tool: tool.parse().ok()?, path, property: property.to_owned(), object }))
    }

    /// The argument of a function of the engine's.
    fn argument(&self, failure: &Failure<'_>, call: &Operation<'a>, argument: Option<&'a Expression<'a>>) -> Blame {
        let callee = call.subject.map(|callee| self.text(callee)).unwrap_or_default();
        let Some(argument) = argument else {
            let message = match failure {
                Failure::NotAFunction => format!("{callee}() needs a function, and got no argument"),
                _ => format!("{callee}() needs a value, and got no argument"),
            };
            return Blame { message, hint: None, fallback: None, missing: None, position: None };
        };
        let text = self.text(argument);
        let what = match failure {
            Failure::NotAFunction => "not a function",
            Failure::NotIterable => "not iterable",
            _ => "undefined or null",
        };
        let known = self.knowledge.of(argument);
        let is = known.as_ref().map(|known| format!(": {text} is {}", self.describe(known))).unwrap_or_default();
        let promises = ["Promise.all", "Promise.allSettled", "Promise.any", "Promise.race"];
        let hint = match failure {
            Failure::NotIterable if promises.contains(&callee.as_str()) && call.arguments.len() > 1 => {
                Some(format!("put the promises into an array: `{callee}([…, …])`"))
            }
            Failure::NotIterable if promises.contains(&callee.as_str()) && is_object(argument) => {
                Some(format!("it takes an array: `{callee}([…])`, or `{callee}(Object.values(…))`"))
            }
            Failure::NotIterable if is_object(argument) && ["Map", "Object.fromEntries"].contains(&callee.as_str()) => {
                Some(format!("it takes pairs: `{callee}(Object.entries(…))`"))
            }
            Failure::Nothing => self.missing(argument),
            _ => known.as_ref().and_then(|known| self.advice(known, &text, None)),
        };
        Blame {
            message: format!("{callee}({text}): {text} is {what}{is}"),
            hint,
            fallback: None,
            missing: None,
            position: None,
        }
    }

    /// `list.reduce(…)` of a list that is empty.
    fn empty(&self, call: &Operation<'a>) -> Option<Blame> {
        let callee = call.subject?.get_inner_expression().as_member_expression()?;
        let (method, list) = (callee.static_property_name()?, self.text(callee.object()));
        let known = self.knowledge.of(callee.object());
        let is = known.map_or_else(|| "an empty array".to_owned(), |known| self.describe(&known));
        let message = format!("{method} of empty array with no initial value: {list} is {is}");
        let hint = format!("give `{list}.{method}` an initial value as its second argument");
        Some(Blame { message, hint: Some(hint), fallback: None, missing: None, position: None })
    }
}
