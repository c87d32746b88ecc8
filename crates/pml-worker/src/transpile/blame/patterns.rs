//! What a pattern could not take apart: `({ user: { login } }) => …` of a user that is null.

use oxc::{
    ast::ast::*,
    span::{GetSpan, Span},
};

use super::{
    failure::{Blame, Failure},
    known::{EACH, Known},
    opened::Opened,
    operations::{Kind, Operation, Pattern, Step, Whole},
    shape::Shape,
    teller::{CAUGHT, Teller},
};

/// Says which of the patterns at one place failed. `caller` is the place of the call of the function that has the patterns,
/// `operation` what else may have failed there.
pub(super) fn explain<'a>(
    opened: &Opened<'_, 'a>,
    teller: &Teller<'_, 'a>,
    failure: &Failure<'_>,
    patterns: &[&Pattern<'a>],
    caller: Option<u32>,
    operation: Option<&Operation<'a>>,
) -> Option<Blame> {
    // What is iterated over rather than its elements, unless it is known to be a list.
    if let Some(iterated) = operation.and_then(|operation| operation.subject) {
        let known = teller.knowledge.of(iterated)?;
        if known.is_promise || !matches!(known.shape, Shape::Array(..)) {
            return None;
        }
    }
    let finder = Finder { opened, teller, caller };
    let taken: Vec<_> = patterns.iter().map(|pattern| finder.taken(pattern)).collect();
    let chosen = taken.iter().find(|taken| taken.is_nothing());
    let chosen = chosen.or_else(|| taken.iter().find(|taken| !taken.is_fine())).or(taken.first())?;
    let mut blame = match (chosen.pattern.whole, &chosen.pattern.path[..]) {
        (Whole::Value(value), []) => {
            let Pattern { kind, place, start, .. } = *chosen.pattern;
            let whole = Operation { kind, place, start, subject: Some(value), property: None, arguments: &[] };
            teller.operation(failure, &whole)?
        }
        _ => chosen.tell(teller),
    };
    blame.position = teller.position(chosen.pattern.start);
    Some(blame)
}

struct Finder<'f, 'o, 'a> {
    opened: &'f Opened<'o, 'a>,
    teller: &'f Teller<'f, 'a>,
    caller: Option<u32>,
}

/// A pattern, and what is known of the value that it takes apart.
struct Taken<'p, 'a> {
    pattern: &'p Pattern<'a>,
    /// The whole, in words, and the way from there.
    whole: String,
    /// Is the whole an expression of the program?
    is_expression: bool,
    /// What has the last property of the way.
    parent: Option<Known>,
    value: Option<Known>,
    /// The value is that of one element among several.
    is_sample: bool,
    /// The function was called with fewer arguments.
    is_left_out: bool,
}

impl<'a> Finder<'_, '_, 'a> {
    fn taken<'p>(&self, pattern: &'p Pattern<'a>) -> Taken<'p, 'a> {
        let mut taken = self.whole(pattern);
        for step in &pattern.path {
            taken.parent = taken.value.take();
            taken.value = taken.parent.clone().and_then(|parent| match step {
                Step::Property(name) => parent.property((*name)?),
                Step::Element(_) => {
                    taken.is_sample = true;
                    parent.element()
                }
            });
        }
        taken
    }

    fn whole<'p>(&self, pattern: &'p Pattern<'a>) -> Taken<'p, 'a> {
        let knowledge = &self.teller.knowledge;
        let taken = |whole: String, value: Option<Known>| Taken {
            pattern,
            whole,
            is_expression: false,
            parent: None,
            value,
            is_sample: false,
            is_left_out: false,
        };
        match pattern.whole {
            Whole::Value(Expression::ObjectExpression(_) | Expression::ArrayExpression(_)) => {
                taken("the value".to_owned(), None)
            }
            Whole::Value(value) => Taken { is_expression: true, ..taken(self.teller.text(value), knowledge.of(value)) },
            Whole::Element(list) => {
                let value = knowledge.of(list).and_then(Known::element);
                Taken { is_sample: true, ..taken(format!("an element of {}", self.teller.text(list)), value) }
            }
            Whole::Caught => taken("the error that was caught".to_owned(), None),
            Whole::Parameter { function, index } => {
                if let Some((whole, value)) = self.callback(function, index) {
                    return Taken { is_sample: true, ..taken(whole, value) };
                }
                let calls = |it: &&Operation<'_>| it.kind == Kind::Call && Some(it.place) == self.caller;
                let call = self.opened.found.operations.iter().find(calls);
                let has_spread = |it: &Operation<'_>| it.arguments.iter().any(Argument::is_spread);
                let Some(call) = call.filter(|call| !has_spread(call)) else {
                    return taken(format!("parameter {} of the function", index + 1), None);
                };
                let callee = call.subject.map(|callee| self.teller.text(callee)).unwrap_or_default();
                let parameter = format!("parameter {} of {callee}", index + 1);
                match call.arguments.get(index).and_then(Argument::as_expression) {
                    Some(Expression::ObjectExpression(_) | Expression::ArrayExpression(_)) => taken(parameter, None),
                    Some(value) => Taken { is_expression: true, ..taken(self.teller.text(value), knowledge.of(value)) },
                    None => {
                        let whole = parameter;
                        Taken { is_left_out: true, ..taken(whole, Some(Known::plain(Shape::Undefined))) }
                    }
                }
            }
        }
    }

    /// What a function that is handed over where it is written gets for a parameter: an element of a list, or what a promise
    /// gives.
    fn callback(&self, function: Span, index: usize) -> Option<(String, Option<Known>)> {
        let hands = |it: &&Operation<'a>| {
            it.kind == Kind::Call && it.arguments.first().is_some_and(|first| first.span() == function)
        };
        let call = self.opened.found.operations.iter().find(hands)?;
        let callee = call.subject?.get_inner_expression().as_member_expression()?;
        let (method, object) = (callee.static_property_name()?, callee.object());
        let known = self.teller.knowledge.of(object);
        let is_element = EACH.contains(&method) && (index == 0 || method == "sort" || method == "toSorted")
            || matches!(method, "reduce" | "reduceRight") && index == 1;
        let text = self.teller.text(object);
        match method {
            "then" if index == 0 => Some((format!("the value of {text}"), known.and_then(Known::awaited))),
            _ if is_element => Some((format!("an element of {text}"), known.and_then(Known::element))),
            _ => None,
        }
    }
}

impl<'a> Taken<'_, 'a> {
    fn is_nothing(&self) -> bool {
        self.value.as_ref().is_some_and(|it| !it.is_promise && matches!(it.shape, Shape::Null | Shape::Undefined))
    }

    /// Can this pattern not have failed?
    fn is_fine(&self) -> bool {
        let Some(value) = self.value.as_ref().filter(|_| !self.is_sample) else { return false };
        match self.pattern.kind {
            Kind::Iterate => matches!(value.shape, Shape::Array(..) | Shape::Text(_)) && !value.is_promise,
            _ => !self.is_nothing() && !matches!(value.shape, Shape::Unknown | Shape::Other),
        }
    }

    /// What is reached by the first `steps` steps of the way.
    fn name(&self, steps: usize) -> String {
        let mut way = String::new();
        for step in &self.pattern.path[..steps] {
            way.push_str(&match step {
                Step::Property(Some(name)) => format!(".{name}"),
                Step::Property(None) => "[…]".to_owned(),
                Step::Element(index) => format!("[{index}]"),
            });
        }
        match (self.is_expression, way.is_empty()) {
            (true, _) => format!("{}{way}", self.whole),
            (false, true) => self.whole.clone(),
            (false, false) => format!("`{}` of {}", way.trim_start_matches('.'), self.whole),
        }
    }

    fn tell(&self, teller: &Teller<'_, 'a>) -> Blame {
        let steps = self.pattern.path.len();
        let name = self.name(steps);
        let value = self.value.as_ref().filter(|_| self.is_nothing() || self.pattern.kind == Kind::Iterate);
        let value = match (value, self.pattern.kind) {
            (Some(value), _) if self.is_nothing() => value.shape.describe(),
            (Some(value), _) => teller.describe_more(value),
            (None, Kind::Iterate) => String::new(),
            (None, _) => "undefined or null".to_owned(),
        };
        let mut message = match self.pattern.kind {
            Kind::Iterate => format!("{name} is not iterable"),
            _ => format!("cannot take {name} apart"),
        };
        if !value.is_empty() {
            message = format!("{message}: it is {value}");
        }
        let mut hint = None;
        if steps > 0
            && let Some(parent) = &self.parent
        {
            let whose = self.name(steps - 1);
            message = format!("{message}, and {whose} is {}", teller.describe_more(parent));
            if let Some(Step::Property(property @ Some(_))) = self.pattern.path.last() {
                let text = if self.is_expression { whose } else { "it".to_owned() };
                hint = teller.advice(parent, &text, *property);
            }
        }
        if let Some(value) = self.value.as_ref().filter(|_| !self.is_nothing() && self.pattern.kind == Kind::Iterate) {
            let text = if self.is_expression { name.clone() } else { "it".to_owned() };
            hint = hint.or_else(|| teller.advice(value, &text, None));
        }
        let missing = match (&self.parent, self.pattern.path.last()) {
            (Some(parent), Some(Step::Property(Some(name)))) if hint.is_none() => {
                teller.lacking_of(parent, name, "it".to_owned())
            }
            _ => None,
        };
        Blame { message, hint, fallback: self.default_hint(), missing, position: None }
    }

    fn default_hint(&self) -> Option<String> {
        if self.is_left_out {
            return Some("call it with an argument, or give the parameter a default: `({ … } = {}) => …`".to_owned());
        }
        let is_undefined = self.value.as_ref().is_some_and(|value| value.shape == Shape::Undefined);
        match (self.pattern.path.last(), self.pattern.kind) {
            (Some(Step::Property(_)), _) if matches!(self.pattern.whole, Whole::Caught) => Some(CAUGHT.to_owned()),
            (Some(Step::Property(Some("result"))), _) if self.whole.contains("callTool") => {
                Some("the call may have failed: test `success` first, and see `error`".to_owned())
            }
            (Some(Step::Property(Some(name))), _) if is_undefined => {
                Some(format!("there is no `{name}`: take one of the properties that are there"))
            }
            (Some(Step::Property(Some(name))), Kind::TakeApart) => Some(format!(
                "take `{name}` as a whole, and read it with `{name}?.…`; a default in the pattern helps only where it is undefined"
            )),
            (None | Some(_), Kind::TakeApart) => {
                Some("leave out what is null or undefined first, as in `list.filter((it) => it != null)`".to_owned())
            }
            _ => None,
        }
    }
}
