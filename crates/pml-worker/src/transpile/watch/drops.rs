//! Looks at what `filter` and `find` leave of a list, and patterns of a text, to tell where everything was dropped when the result is
//! empty.
//!
//! `l.filter(f)` becomes `($kept = l.filter(f), $watchDrop0 && ($watchDrop0 = $probe(0, [l, $kept])), $kept)`. The list is given if it is
//! a name or a chain of them, else `undefined` stands in its place.

use oxc::{
    ast::ast::*,
    ast_visit::{VisitMut, walk_mut},
    span::{GetSpan, SPAN},
};

use super::{
    looker::Looker,
    members::{add_path, is_path},
    names::Names,
    places::{is_optional, unwatched},
    watched::Usage,
};
use crate::transpile::{pen::Pen, probe::Branch};

/// How the variables that turn a look off begin.
const FLAG: &str = "$watchDrop";

/// Looks at the lists of `program`.
pub(in crate::transpile) fn watch<'a>(
    program: &mut oxc::ast::ast::Program<'a>,
    pen: &Pen<'a>,
    names: &Names<'a>,
    branches: &mut Vec<Branch>,
) {
    let mut watcher = Watcher { names, looker: Looker::new(pen, FLAG, branches) };
    watcher.visit_program(program);
    watcher.looker.declare(program);
}

struct Watcher<'a, 'b> {
    names: &'b Names<'a>,
    looker: Looker<'a, 'b>,
}

impl<'a> VisitMut<'a> for Watcher<'a, '_> {
    fn visit_expression(&mut self, value: &mut Expression<'a>) {
        walk_mut::walk_expression(self, value);
        let Some((left, is_filter)) = left_of(value) else { return };
        let pen = self.looker.pen;
        let mut path = Vec::new();
        match left {
            // A global may have a getter.
            Some(list) if is_path(list) && self.names.knows(root_of(list)) => add_path(pen, list, &mut path),
            _ => path.push(Expression::new_identifier(SPAN, "undefined", &pen.builder)),
        }
        let usage = Usage::Dropped { end: value.span().end, is_filter };
        self.looker.look_at_call_beside(value, path, usage);
    }
}

/// The list that a filter or search goes through, if it has as many elements as one that is known, and whether it is a filter. A pattern
/// of a text, too, may find nothing: `text.match(…)`, `[...text.matchAll(…)]`, `Array.from(text.matchAll(…))`.
fn left_of<'e, 'a>(value: &'e Expression<'a>) -> Option<(Option<&'e Expression<'a>>, bool)> {
    match value {
        Expression::CallExpression(call) if call.callee.is_specific_member_access("Array", "from") => {
            let matches = call.arguments.first().and_then(Argument::as_expression)?;
            method_of(matches).filter(|(_, method)| *method == "matchAll").map(|_| (None, false))
        }
        Expression::CallExpression(call) => {
            let (object, method) = method_of(value)?;
            match method {
                "filter" | "find" | "findLast" => {
                    let callback = call.arguments.first().and_then(Argument::as_expression)?;
                    callback.is_function().then(|| (Some(listed(object)), method == "filter"))
                }
                "match" => Some((None, false)),
                _ => None,
            }
        }
        Expression::ArrayExpression(it) => match &it.elements[..] {
            [ArrayExpressionElement::SpreadElement(matches)] => {
                method_of(&matches.argument).filter(|(_, method)| *method == "matchAll").map(|_| (None, false))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The name that a chain of names begins with.
fn root_of<'e>(path: &'e Expression<'_>) -> &'e str {
    match unwatched(path).get_inner_expression() {
        Expression::Identifier(it) => it.name.as_str(),
        path => path.as_member_expression().map_or("", |member| root_of(member.object())),
    }
}

/// The object and the method of `x.f(…)`.
fn method_of<'e, 'a>(value: &'e Expression<'a>) -> Option<(&'e Expression<'a>, &'e str)> {
    let Expression::CallExpression(call) = value else { return None };
    let Expression::StaticMemberExpression(member) = &call.callee else { return None };
    // Of `a?.b.filter(f).c`, nothing can be taken out.
    (!is_optional(value)).then(|| (&member.object, member.property.name.as_str()))
}

/// The list that has as many elements: of `l.map(f)` it is `l`.
fn listed<'e, 'a>(value: &'e Expression<'a>) -> &'e Expression<'a> {
    let value = unwatched(value);
    match value.get_inner_expression() {
        Expression::CallExpression(call) => match &call.callee {
            Expression::StaticMemberExpression(member)
                if matches!(member.property.name.as_str(), "map" | "sort" | "toSorted" | "reverse" | "toReversed") =>
            {
                listed(&member.object)
            }
            _ => value,
        },
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::FLAG;
    use crate::transpile::{Probes, compile};

    #[test]
    fn what_is_left_of_a_list_is_looked_at() {
        #[rustfmt::skip]
        let table = [
            ("return l.filter((x) => f(x))", Some("$kept10 = l.filter((x) => f(x)), $watchDrop0 && ($watchDrop0 = $probe(0, [l, $kept10])), $kept10;")),
            ("return x.l.find((x) => f(x)).id", Some("[x, \"l\", $kept10]")),
            ("return x.l.map((x) => f(x)).filter((x) => g(x))", Some("[x, \"l\", $kept10]")),
            ("return f().filter((x) => g(x))", Some("[undefined, $kept10]")),
            ("return t.match(/a/)", Some("[undefined, $kept10]")),
            ("return [...t.matchAll(/a/g)]", Some("[undefined, $kept10]")),
            ("return Array.from(t.matchAll(/a/g), (m) => m[1])", Some("[undefined, $kept10]")),
            ("return [...t]", None),
            ("return l.filter(Boolean)", None),
            ("return l?.filter((x) => f(x))", None),
            ("return x.a?.l.filter((x) => f(x)).length", None),
            ("return x.a?.t.match(/a/).index", None),
            ("return x?.l.find((x) => f(x)).id ?? 1", None),
            ("return g.filter((x) => f(x))", Some("[undefined, $kept10]")),
            ("return l.map((x) => f(x))", None),
        ];
        for (code, expected) in table {
            let code = format!("mcp; const {{ l, x }} = y; {code}");
            let javascript = compile(&code, "agent.ts", Probes::Insert).unwrap().javascript;
            let javascript = javascript.replace("[\n\t\t", "[").replace(",\n\t\t", ", ").replace("\n\t]", "]");
            assert_eq!(javascript.contains(FLAG), expected.is_some(), "{code} became {javascript}");
            assert!(javascript.contains(expected.unwrap_or_default()), "{code} became {javascript}");
        }
    }
}
