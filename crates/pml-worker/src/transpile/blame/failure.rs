//! From the engine's message to one that names the thing.

use oxc::{
    allocator::Allocator,
    ast::ast::*,
    codegen::CodegenOptions,
    semantic::SemanticBuilder,
    span::{GetSpan, SourceType},
};
use pml_wire::message::MissingProperty;

use super::{
    known::{Knowledge, Known},
    operations::{self, Kind, Operation},
    shape::{Given, Shape, Text},
};
use crate::transpile::{Probes, Source, nearest, parse, source::Position, translate};

/// Longest text of an expression in a message.
const TEXT_CHARS: usize = 60;

/// What failed.
#[derive(Debug)]
pub(crate) struct Blame {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// A property that a result does not have, where nothing can be hinted at here.
    pub(crate) missing: Option<Box<MissingProperty>>,
    /// Where it stands, if that is not where the engine places it.
    pub(crate) position: Option<Position>,
}

/// What an engine's message says of the failure.
enum Failure<'m> {
    NotAFunction,
    NotAConstructor,
    NotIterable,
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

    fn fits(&self, operation: &Operation<'_>) -> bool {
        match self {
            Failure::NotAFunction => matches!(operation.kind, Kind::Call | Kind::New | Kind::Iterate),
            Failure::NotAConstructor => operation.kind == Kind::New,
            Failure::NotIterable => operation.kind == Kind::Iterate,
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

/// Says which expression a failure is about. `frames` is the engine's stack, `place` its innermost line and column in the
/// program, and `native` the function of the engine that failed on the program's behalf, if one did.
pub(in crate::transpile) fn explain(
    source: &Source,
    probes: Probes,
    message: &str,
    place: (u32, u32),
    native: Option<&str>,
    results: &[Given],
) -> Option<Blame> {
    let failure = Failure::read(message)?;
    let javascript = translate(source, probes, CodegenOptions::default()).ok()?.javascript;
    let allocator = Allocator::default();
    let parsed = parse(&allocator, &javascript, SourceType::mjs());
    let program = allocator.alloc(parsed.program);
    let semantic = SemanticBuilder::new().with_build_nodes(true).build(program).semantic;
    let operations = operations::find(program);
    let offset = offset_of(&javascript, place)?;
    let at_place = || operations.iter().filter(|operation| operation.place == offset);

    let places = |start: u32| {
        let call = operations.iter().find(|it| it.kind == Kind::Call && it.start == start)?;
        Some(place_of(&javascript, call.place))
    };
    let knowledge = Knowledge { semantic: &semantic, results, places: &places };
    let teller = Teller { knowledge, source, javascript: &javascript };
    if let Some(native) = native {
        let call = at_place().find(|it| matches!(it.kind, Kind::Call | Kind::New) && names(it, native))?;
        if let Failure::Empty = failure {
            return teller.empty(call);
        }
        let argument = call.arguments.first().and_then(Argument::as_expression);
        return Some(teller.argument(&failure, call, argument));
    }
    // Of `list[i].name`, both reads have the same place: one whose property is written out and is the failure's goes first.
    let fitting = || at_place().filter(|operation| failure.fits(operation));
    // `for await (… of mcp.a.b())`: a tool is a function, and so it is not the call that failed.
    let is_tool_call = |it: &&Operation<'_>| {
        it.kind == Kind::Call && it.subject.is_some_and(|callee| teller.text(callee).starts_with("mcp."))
    };
    let iterated = || fitting().find(|it| it.kind == Kind::Iterate).filter(|_| fitting().any(|it| is_tool_call(&it)));
    let operation =
        iterated().or_else(|| fitting().find(|operation| operation.property.is_some())).or_else(|| fitting().next())?;
    let mut blame = teller.operation(&failure, operation)?;
    blame.position = teller.position(operation.start);
    Some(blame)
}

/// Does the call call a function of this name?
fn names(operation: &Operation<'_>, name: &str) -> bool {
    let callee = operation.subject.map(Expression::get_inner_expression);
    callee.is_some_and(|callee| match callee {
        Expression::Identifier(it) => it.name == name,
        callee => callee.as_member_expression().and_then(|it| it.static_property_name()) == Some(name),
    })
}

/// The byte that a line and column of the engine, counted from 1 and in bytes, stand for.
pub(super) fn offset_of(text: &str, (line, column): (u32, u32)) -> Option<u32> {
    let mut start = 0;
    for _ in 1..line {
        start += text[start..].find('\n')? + 1;
    }
    u32::try_from(start + column.checked_sub(1)? as usize).ok()
}

/// The engine's line and column of a byte.
pub(super) fn place_of(text: &str, offset: u32) -> (u32, u32) {
    let before = &text[..text.floor_char_boundary(offset as usize)];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() as u32 + 1, (before.len() - start) as u32 + 1)
}

pub(super) struct Teller<'s, 'a> {
    pub(super) knowledge: Knowledge<'s, 'a>,
    pub(super) source: &'s Source,
    pub(super) javascript: &'s str,
}

impl<'a> Teller<'_, 'a> {
    fn operation(&self, failure: &Failure<'_>, operation: &Operation<'a>) -> Option<Blame> {
        let Some(subject) = operation.subject else {
            let message = match failure {
                Failure::Nothing => "a parameter that is taken apart got undefined or null",
                _ => "a parameter that is taken apart got something that is not iterable",
            };
            return Some(Blame { message: message.to_owned(), hint: None, missing: None, position: None });
        };
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
                            message = format!("{message}: {name} is {}", self.describe(object));
                            hint = self.advice(object, &name, member.static_property_name());
                        }
                    }
                    None => {
                        if let Some(known) = self.knowledge.of(subject) {
                            message = format!("{message}: {text} is {}", self.describe(&known));
                        }
                    }
                }
                message
            }
            Failure::Nothing if operation.is_nested => {
                let parts = "a part of it that the pattern takes apart too is undefined or null";
                match self.knowledge.of(subject) {
                    Some(known) => format!("cannot take {text} apart: {parts}; {text} is {}", self.describe(&known)),
                    None => format!("cannot take {text} apart: {parts}"),
                }
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
                let is = if text == *value { String::new() } else { format!(": {text} is {value}") };
                format!("cannot {verb} property '{name}' of {value}{is}{}", self.came_from(subject))
            }
            _ => {
                let known = self.knowledge.of(subject);
                hint = known.as_ref().and_then(|known| self.advice(known, &text, None));
                match known {
                    Some(known) => format!("{text} is not iterable: {text} is {}", self.describe(&known)),
                    None => format!("{text} is not iterable"),
                }
            }
        };
        let missing = match failure {
            Failure::Read("undefined", _) if hint.is_none() => self.lacking(subject),
            _ => None,
        };
        Some(Blame { message, hint, missing, position: None })
    }

    /// The property of a tool's result that `value` would be, and is not there.
    fn lacking(&self, value: &Expression<'a>) -> Option<Box<MissingProperty>> {
        let member = value.get_inner_expression().as_member_expression()?;
        let (known, property) = (self.knowledge.of(member.object())?, member.static_property_name()?);
        let is_lacking = !known.is_promise
            && matches!(known.shape, Shape::Object(_))
            && known.shape.keys().all(|key| key != property)
            && property.len() <= TEXT_CHARS;
        let (tool, _) = known.origin.filter(|_| is_lacking)?;
        let (path, object) = (known.path?, self.text(member.object()));
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
            return Blame { message, hint: None, missing: None, position: None };
        };
        let text = self.text(argument);
        let what = match failure {
            Failure::NotAFunction => "not a function",
            Failure::NotIterable => "not iterable",
            _ => "undefined or null",
        };
        let known = self.knowledge.of(argument);
        let is = known.as_ref().map(|known| format!(": {text} is {}", self.describe(known))).unwrap_or_default();
        let hint = match failure {
            Failure::Nothing => self.missing(argument),
            _ => known.as_ref().and_then(|known| self.advice(known, &text, None)),
        };
        Blame { message: format!("{callee}({text}): {text} is {what}{is}"), hint, missing: None, position: None }
    }

    /// `list.reduce(…)` of a list that is empty.
    fn empty(&self, call: &Operation<'a>) -> Option<Blame> {
        let callee = call.subject?.get_inner_expression().as_member_expression()?;
        let (method, list) = (callee.static_property_name()?, self.text(callee.object()));
        let known = self.knowledge.of(callee.object());
        let is = known.map_or_else(|| "an empty array".to_owned(), |known| self.describe(&known));
        let message = format!("{method} of empty array with no initial value: {list} is {is}");
        let hint = format!("give `{list}.{method}` an initial value as its second argument");
        Some(Blame { message, hint: Some(hint), missing: None, position: None })
    }

    /// What a value is, and where it came from.
    pub(super) fn describe(&self, known: &Known) -> String {
        let what = match known.is_promise {
            true if known.shape == Shape::Unknown => "a promise".to_owned(),
            true => format!("a promise of {}", known.shape.describe()),
            false => known.shape.describe(),
        };
        let origin = known.origin.as_ref().map(|(tool, span)| {
            let line = self.position(span.start).map(|position| format!(" (line {})", position.line));
            let relation = if known.is_part { "from the result" } else { "the result" };
            format!(", {relation} of {tool}{}", line.unwrap_or_default())
        });
        what + &origin.unwrap_or_default()
    }

    /// Where a value that is not there would have come from: the nearest part of the expression that is known.
    fn came_from(&self, value: &Expression<'a>) -> String {
        let Some(member) = value.get_inner_expression().as_member_expression() else {
            return match self.knowledge.whole_of(value) {
                Some((whole, part)) if part || matches!(whole.shape, Shape::Null | Shape::Undefined) => {
                    let taken = if part { "taken out of what is " } else { "" };
                    format!(
                        ", {taken}{}",
                        self.describe(&whole).trim_start_matches("null, ").trim_start_matches("undefined, ")
                    )
                }
                _ => String::new(),
            };
        };
        match self.knowledge.of(member.object()) {
            Some(known) => format!(", and {} is {}", self.text(member.object()), self.describe(&known)),
            None => String::new(),
        }
    }

    /// What to read instead of a property that is not there.
    fn missing(&self, value: &Expression<'a>) -> Option<String> {
        let Some(member) = value.get_inner_expression().as_member_expression() else {
            return match self.knowledge.whole_of(value)? {
                (Known { shape: Shape::Array(..), is_promise: false, .. }, true) => {
                    Some("it is an array: take the whole of it, without braces".to_owned())
                }
                _ => None,
            };
        };
        let object = self.knowledge.of(member.object())?;
        self.advice(&object, &self.text(member.object()), member.static_property_name())
    }

    /// What to write instead, if `object` is known and has no such property.
    fn advice(&self, object: &Known, text: &str, property: Option<&str>) -> Option<String> {
        if object.is_promise {
            return Some(format!(
                "await it: `(await {text}){}`",
                property.map(|it| format!(".{it}")).unwrap_or_default()
            ));
        }
        match (&object.shape, property) {
            (Shape::Text(Text::Json), _) => Some(format!("parse it first: `JSON.parse({text})`")),
            (Shape::Text(Text::Prefixed(bracket)), Some(property)) if is_list_method(property) => Some(format!(
                "the JSON in it begins after some text: `JSON.parse({text}.slice({text}.indexOf(\"{bracket}\"))).{property}`"
            )),
            (Shape::Text(_), Some("map" | "filter" | "forEach" | "find" | "reduce" | "some" | "every")) => {
                Some(format!("take it apart first: `{text}.split(\"\\n\")`"))
            }
            (shape @ Shape::Object(_), Some(property)) => {
                if shape.keys().any(|key| key == property) {
                    // It is there, and null or of another type.
                    return None;
                }
                if let Some(near) = nearest(property, shape.keys()) {
                    return Some(format!("did you mean `{text}.{near}`?"));
                }
                let list = shape.arrays().next().filter(|_| is_list_method(property))?;
                Some(format!("did you mean `{text}.{list}.{property}`?"))
            }
            (shape @ Shape::Object(_), None) => {
                let list = shape.arrays().next();
                Some(match list {
                    Some(list) => format!("did you mean `{text}.{list}`?"),
                    None => format!("use `Object.entries({text})`, `Object.values({text})` or `Object.keys({text})`"),
                })
            }
            (Shape::Array(_, Some(element)), Some(property)) => {
                let has = element.keys().any(|key| key == property);
                has.then(|| format!("did you mean `{text}[0].{property}`, or `{text}.map((it) => it.{property})`?"))
            }
            _ => None,
        }
    }

    pub(super) fn position(&self, offset: u32) -> Option<Position> {
        let (line, column) = place_of(self.javascript, offset);
        self.source.original(line, column)
    }

    /// An expression as a person would name it.
    pub(super) fn text(&self, value: &Expression<'a>) -> String {
        match value.get_inner_expression() {
            Expression::Identifier(it) => it.name.to_string(),
            Expression::ThisExpression(_) => "this".to_owned(),
            Expression::AwaitExpression(it) => format!("(await {})", self.text(&it.argument)),
            Expression::CallExpression(it) => {
                let arguments = if it.arguments.is_empty() { "" } else { "…" };
                format!("{}({arguments})", self.text(&it.callee))
            }
            Expression::ChainExpression(it) => match &it.expression {
                ChainElement::CallExpression(call) => format!("{}(…)", self.text(&call.callee)),
                element => match element.as_member_expression() {
                    Some(member) => self.member(member),
                    None => "the value".to_owned(),
                },
            },
            value => match value.as_member_expression() {
                Some(member) => self.member(member),
                None => self.excerpt(value),
            },
        }
    }

    fn member(&self, member: &MemberExpression<'a>) -> String {
        let object = self.text(member.object());
        match (member, member.static_property_name()) {
            (MemberExpression::StaticMemberExpression(_), Some(name)) => format!("{object}.{name}"),
            (MemberExpression::ComputedMemberExpression(it), _) => {
                format!("{object}[{}]", self.excerpt(&it.expression))
            }
            _ => object,
        }
    }

    fn excerpt(&self, value: &Expression<'a>) -> String {
        let text = value.span().source_text(self.javascript);
        let is_ours = text.contains("$probe") || text.contains("$on");
        match text.chars().count() > TEXT_CHARS || text.contains('\n') || is_ours {
            true => "the value".to_owned(),
            false => text.to_owned(),
        }
    }
}

fn is_list_method(name: &str) -> bool {
    let methods =
        ["map", "filter", "forEach", "find", "reduce", "some", "every", "length", "slice", "join", "sort", "at"];
    methods.contains(&name) || name.parse::<usize>().is_ok()
}

/// A name of the program that an undefined one is most likely a slip of.
pub(crate) fn undefined_name(source: &Source, name: &str) -> Option<String> {
    let allocator = Allocator::default();
    let javascript = translate(source, Probes::Omit, CodegenOptions::default()).ok()?.javascript;
    let parsed = parse(&allocator, &javascript, SourceType::mjs());
    let semantic = SemanticBuilder::new().build(&parsed.program).semantic;
    let names = semantic.scoping().symbol_names().filter(|other| !other.starts_with('$') && *other != name);
    nearest(name, names).map(str::to_owned)
}

/// Does the program assign to a name that it does not declare?
pub(crate) fn is_assigned(source: &Source, name: &str) -> bool {
    let allocator = Allocator::default();
    let Ok(output) = translate(source, Probes::Omit, CodegenOptions::default()) else { return false };
    let parsed = parse(&allocator, &output.javascript, SourceType::mjs());
    let semantic = SemanticBuilder::new().build(&parsed.program).semantic;
    let scoping = semantic.scoping();
    let uses = scoping.root_unresolved_references().iter().find(|(other, _)| other.as_str() == name);
    uses.is_some_and(|(_, uses)| uses.iter().any(|id| scoping.get_reference(*id).is_write()))
}
