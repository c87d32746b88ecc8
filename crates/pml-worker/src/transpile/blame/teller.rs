//! Words for values: what an expression is called, what its value is, where that came from, and what to write instead.

use oxc::{ast::ast::*, span::GetSpan};

use super::{
    habits,
    known::{Knowledge, Known},
    opened::place_of,
    shape::{Shape, Text},
};
use crate::transpile::{
    Source, nearest,
    source::Position,
    watch::{WATCH, unwatched},
};

/// Longest text of an expression in a message.
pub(super) const TEXT_CHARS: usize = 60;

/// What an error has that a `catch` gets.
pub(super) const CAUGHT: &str = "the error of a call has `code`, `message`, `tool`, `retryable`, `outcome`, and `data` if the tool sent any; read others with `?.`";

pub(super) struct Teller<'s, 'a> {
    pub(super) knowledge: Knowledge<'s, 'a>,
    pub(super) source: &'s Source,
    pub(super) javascript: &'s str,
}

impl<'a> Teller<'_, 'a> {
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

    /// The same, and what it begins with, if it is the text that a tool gave.
    pub(super) fn describe_more(&self, known: &Known) -> String {
        self.describe(known) + &self.beginning(known)
    }

    fn beginning(&self, known: &Known) -> String {
        let is_text = matches!(known.shape, Shape::Text(_)) && !known.is_part && !known.is_promise;
        let given = known.origin.as_ref().filter(|_| is_text).and_then(|(tool, span)| {
            let place = (self.knowledge.places)(span.start);
            self.knowledge.results.iter().find(|given| given.tool == *tool && given.place == place)
        });
        given.and_then(|given| given.beginning.as_ref()).map(|it| format!(", which begins {it:?}")).unwrap_or_default()
    }

    /// Where a value that is not there would have come from: the nearest part of the expression that is known.
    pub(super) fn came_from(&self, value: &Expression<'a>) -> String {
        let value = self.knowledge.read_for(unwatched(value));
        let Some(member) = value.get_inner_expression().as_member_expression() else {
            return match self.knowledge.whole_of(value) {
                Some((whole, part)) if part || matches!(whole.shape, Shape::Null | Shape::Undefined) => {
                    let taken = if part { "taken out of what is " } else { "" };
                    format!(
                        ", {taken}{}",
                        self.describe_more(&whole).trim_start_matches("null, ").trim_start_matches("undefined, ")
                    )
                }
                _ => String::new(),
            };
        };
        match self.knowledge.of(member.object()) {
            Some(known) => format!(", and {} is {}", self.text(member.object()), self.describe_more(&known)),
            None => String::new(),
        }
    }

    /// What to write instead of a read of a key that `for … in` gave.
    pub(super) fn taken_for_element(&self, value: &Expression<'a>) -> Option<String> {
        let member = value.get_inner_expression().as_member_expression()?;
        let object = self.text(member.object());
        let advice = || format!("`for … in` gives keys: write `for (const {object} of …)`");
        self.knowledge.is_key(member.object()).then(advice)
    }

    /// What to do about a value that a search did not find.
    pub(super) fn not_found(&self, value: &Expression<'a>) -> Option<String> {
        let value = unwatched(value);
        let text = self.text(value);
        if self.knowledge.is_args(value) {
            return Some(
                "the program was given no `args`: pass them with the request, or write the values into the code"
                    .to_owned(),
            );
        }
        if let Some(call) = self.knowledge.made_by(value) {
            let method = call.callee.as_member_expression()?.static_property_name()?;
            let object = self.text(call.callee.as_member_expression()?.object());
            return Some(match method {
                "find" | "findLast" => {
                    format!("nothing in {object} fits: test what was found first, or read it with `?.`")
                }
                "match" | "exec" => {
                    "the text has no part that fits: test the match first, or read it with `?.[1]`".to_owned()
                }
                "get" => format!("{object} has no such key: set it first, or test with `{object}.has(…)`"),
                "pop" | "shift" | "at" => {
                    format!("{object} is empty or shorter: test its `length` first, or read with `?.`")
                }
                "getElementById" | "querySelector" => return None,
                _ => return None,
            });
        }
        if self.knowledge.is_taken_from_list(value) {
            return Some(format!("the list that {text} was taken from has fewer elements: test its `length` first"));
        }
        let member = value.get_inner_expression().as_member_expression()?;
        if self.knowledge.is_caught(member.object()) {
            return Some(CAUGHT.to_owned());
        }
        let object = self.text(member.object());
        if let Some(instead) = habits::of_global(&object, member.static_property_name()) {
            return Some(instead);
        }
        if let Some(known) = self.knowledge.of(member.object())
            && known.shape.keys().eq(["status", "value", "reason"])
            && !known.is_promise
        {
            return Some(match member.static_property_name() {
                Some("value") => format!("{object} was rejected: test `{object}.status`, and see `{object}.reason`"),
                _ => format!("what was awaited is in `{object}.value` if `{object}.status` is \"fulfilled\""),
            });
        }
        let MemberExpression::ComputedMemberExpression(it) = member else { return None };
        let negative =
            matches!(&it.expression, Expression::UnaryExpression(it) if it.operator == UnaryOperator::UnaryNegation);
        if negative {
            let index = self.excerpt(&it.expression);
            return Some(format!("an index counts from 0: write `{object}.at({index})`"));
        }
        match self.knowledge.of(member.object()).map(|known| known.shape) {
            Some(Shape::Array(Some(0), _)) => Some(format!("{object} is empty: test `{object}.length` first")),
            Some(Shape::Array(Some(length), _)) => {
                Some(format!("the indices of {object} are 0 to {}: test the index, or read it with `?.`", length - 1))
            }
            Some(Shape::Array(None, _)) => {
                Some(format!("{object} has no element there: test `{object}.length`, or read it with `?.`"))
            }
            Some(shape @ Shape::Object(_)) if shape.arrays().next().is_some() => {
                let list = shape.arrays().next().unwrap_or_default();
                Some(format!("did you mean `{object}{list}[{}]`?", self.excerpt(&it.expression)))
            }
            // `groups[key].push(…)`.
            None | Some(Shape::Object(_) | Shape::Other) if !matches!(it.expression, Expression::NumericLiteral(_)) => {
                let set = match self.knowledge.of(member.object()).is_some_and(|known| known.origin.is_some()) {
                    true => String::new(),
                    false => format!(", or set it first: `{text} ??= …`"),
                };
                Some(format!("{object} has no such key: test it, read it with `?.`{set}"))
            }
            _ => None,
        }
    }

    /// What to read instead of a property that is not there.
    pub(super) fn missing(&self, value: &Expression<'a>) -> Option<String> {
        let value = self.knowledge.read_for(unwatched(value));
        let Some(member) = value.get_inner_expression().as_member_expression() else {
            let (whole, is_taken_out) = self.knowledge.whole_of(value)?;
            if !is_taken_out {
                return None;
            }
            if matches!(whole.shape, Shape::Array(..)) && !whole.is_promise {
                return Some("it is an array: take the whole of it, without braces".to_owned());
            }
            let (object, property) = self.knowledge.taken_from(value)?;
            if whole.shape.keys().eq(["success", "result", "error"]) && !whole.is_promise {
                return Some(format!(
                    "what the tool returned is in `result`: `const {{ result }} = …`, and then `result.{property}`"
                ));
            }
            let text = self.text(object);
            return match whole.is_promise {
                true => Some(format!("await it: `const {{ {property} }} = await {text}`")),
                false => self.advice(&whole, &text, Some(property)),
            };
        };
        let object = self.knowledge.of(member.object())?;
        if let Some(list) = member.object().get_inner_expression().as_member_expression()
            && let Some(Known { shape: Shape::Text(_), is_promise: false, .. }) = self.knowledge.of(list.object())
        {
            let list = self.text(list.object());
            return Some(format!(
                "{list} is a text, and an index of it gives a character: take it apart first, `{list}.split(\"\\n\")`"
            ));
        }
        if let MemberExpression::ComputedMemberExpression(it) = member
            && let (Expression::NumericLiteral(index), false) = (&it.expression, object.is_promise)
            && let Some(list) = object.shape.list()
        {
            let object = grouped(&self.text(member.object()));
            return Some(format!("did you mean `{object}{list}[{}]`?", index.value));
        }
        // Of `table[key]`, the key is what it is.
        if matches!(member, MemberExpression::ComputedMemberExpression(_)) && member.static_property_name().is_none() {
            return match (&object.shape, self.text(member.object())) {
                (Shape::Instance("Map"), text) => Some(format!("read it with `{text}.get(…)`")),
                (Shape::Instance("Set"), text) => Some(format!("make it an array first: `[...{text}]`")),
                (_, text) => self.advice(&object, &text, None).filter(|_| object.is_promise),
            };
        }
        self.advice(&object, &self.text(member.object()), member.static_property_name())
    }

    /// What to write instead, if `object` is known and has no such property.
    pub(super) fn advice(&self, object: &Known, text: &str, property: Option<&str>) -> Option<String> {
        // Of a handle, the prelude tells how it is read.
        if object.shape.keys().take(2).eq(["type", "size"]) {
            return None;
        }
        self.own_advice(object, text, property)
    }

    /// What to call instead of a method that `object` does not have.
    pub(super) fn advice_of_method(&self, object: &Known, text: &str, method: Option<&str>) -> Option<String> {
        let has_it = method.is_some_and(|method| object.shape.keys().any(|key| key == method));
        let is_handle = object.shape.keys().take(2).eq(["type", "size"]);
        if matches!(object.shape, Shape::Instance(_))
            && let Some(instead) = method.and_then(|method| habits::instead(Some(&object.shape), text, method))
        {
            return Some(instead);
        }
        let advice = self.advice(object, text, method);
        if object.is_promise || has_it || is_handle {
            return advice;
        }
        advice.or_else(|| habits::instead(Some(&object.shape), text, method?))
    }

    fn own_advice(&self, object: &Known, text: &str, property: Option<&str>) -> Option<String> {
        let text = &*grouped(text);
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
                // An error that is taken for its text.
                let is_of_text =
                    ["includes", "startsWith", "toLowerCase", "split", "match", "indexOf", "slice", "trim", "replace"];
                if is_of_text.contains(&property) && shape.keys().any(|key| key == "message") {
                    return Some(format!("did you mean `{text}.message.{property}`?"));
                }
                let part = ["name", "title", "text", "label", "value", "login", "content"];
                if is_of_text.contains(&property)
                    && let Some(part) = part.iter().find(|part| shape.keys().any(|key| key == **part))
                {
                    return Some(format!("did you mean `{text}.{part}.{property}`?"));
                }
                let is_list = ["items", "rows", "data", "results", "list", "records", "values"].contains(&property);
                if let Some(list) = shape.arrays().next().filter(|_| is_list) {
                    return Some(format!("did you mean `{text}{list}`?"));
                }
                if let Some(list) = shape.arrays().next().filter(|_| is_list_method(property)) {
                    return Some(format!("did you mean `{text}{list}.{property}`?"));
                }
                if let Some(way) = shape.way_to(property) {
                    return Some(format!("did you mean `{text}{way}`?"));
                }
                // What `searchTools` found.
                if matches!(property, "call" | "execute" | "run" | "invoke")
                    && shape.keys().any(|key| key == "inputSchema")
                {
                    return Some(format!("call it by its name: `pml.callTool({text}.name, {{ … }})`"));
                }
                None
            }
            (shape @ Shape::Object(_), None) => {
                let list = shape.arrays().next().or_else(|| shape.list());
                Some(match list {
                    Some(list) => format!("did you mean `{text}{list}`?"),
                    None => format!("use `Object.entries({text})`, `Object.values({text})` or `Object.keys({text})`"),
                })
            }
            (Shape::Function, Some(_)) if text.starts_with("mcp.") => {
                Some(format!("call it first: `await {text}({{ … }})`"))
            }
            (Shape::Function, Some(_)) => {
                Some(format!("call it first: `{text}(…)`, with `await` if it gives a promise"))
            }
            (Shape::Instance("Map"), Some(property)) => Some(format!("read it with `{text}.get(\"{property}\")`")),
            (Shape::Instance("Set"), Some(_)) => Some(format!("make it an array first: `[...{text}]`")),
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
        match unwatched(value).get_inner_expression() {
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
        let mut object = self.text(member.object());
        let is_loose = matches!(
            unwatched(member.object()).get_inner_expression(),
            Expression::LogicalExpression(_) | Expression::ConditionalExpression(_) | Expression::BinaryExpression(_)
        );
        if is_loose {
            object = grouped(&object);
        }
        match (member, member.static_property_name()) {
            (MemberExpression::StaticMemberExpression(_), Some(name)) => format!("{object}.{name}"),
            (MemberExpression::ComputedMemberExpression(it), _) => {
                format!("{object}[{}]", self.excerpt(&it.expression))
            }
            _ => object,
        }
    }

    fn excerpt(&self, value: &Expression<'a>) -> String {
        let text = unwatched(value).span().source_text(self.javascript);
        let is_ours = ["$probe", "$on", WATCH].iter().any(|name| text.contains(name));
        match text.chars().count() > TEXT_CHARS || text.contains('\n') || is_ours {
            true => "the value".to_owned(),
            false => text.to_owned(),
        }
    }
}

/// An expression that a property can be read of: `(a ?? b)`.
fn grouped(text: &str) -> String {
    let is_loose = [" ?? ", " || ", " && ", " ? "].iter().any(|it| text.contains(it));
    if is_loose && !text.starts_with('(') { format!("({text})") } else { text.to_owned() }
}

fn is_list_method(name: &str) -> bool {
    let methods =
        ["map", "filter", "forEach", "find", "reduce", "some", "every", "length", "slice", "join", "sort", "at"];
    methods.contains(&name) || name.parse::<usize>().is_ok()
}
