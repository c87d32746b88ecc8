//! Looks at what `filter` and `find` leave of a list, to tell where everything was dropped when the result is empty.
//!
//! `l.filter(f)` becomes `($kept = l.filter(f), $watchDrop0 && ($watchDrop0 = $probe(0, [l, $kept])), $kept)`. The list is given if it is
//! a name or a chain of them, else `undefined` stands in its place.

use oxc::{
    allocator::TakeIn,
    ast::ast::*,
    ast_visit::{VisitMut, walk_mut},
    span::SPAN,
};

use super::{
    looker::Looker,
    members::{add_path, is_path},
    places::unwatched,
    watched::Usage,
};
use crate::transpile::{pen::Pen, probe::Branch};

/// How the variables that turn a look off begin.
const FLAG: &str = "$watchDrop";

/// Looks at the lists of `program`.
pub(in crate::transpile) fn watch<'a>(
    program: &mut oxc::ast::ast::Program<'a>,
    pen: &Pen<'a>,
    branches: &mut Vec<Branch>,
) {
    let mut watcher = Watcher { looker: Looker::new(pen, FLAG, branches) };
    watcher.visit_program(program);
    watcher.looker.declare(program);
}

struct Watcher<'a, 'b> {
    looker: Looker<'a, 'b>,
}

impl<'a> VisitMut<'a> for Watcher<'a, '_> {
    fn visit_expression(&mut self, value: &mut Expression<'a>) {
        walk_mut::walk_expression(self, value);
        let Expression::CallExpression(call) = &*value else { return };
        let Expression::StaticMemberExpression(member) = &call.callee else { return };
        let is_meant = matches!(member.property.name.as_str(), "filter" | "find" | "findLast")
            && call.arguments.first().is_some_and(|it| it.is_expression() && it.to_expression().is_function());
        if !is_meant || member.optional || call.optional {
            return;
        }
        let pen = self.looker.pen;
        let mut path = Vec::new();
        match listed(&member.object) {
            list if is_path(list) => add_path(pen, list, &mut path),
            _ => path.push(Expression::new_identifier(SPAN, "undefined", &pen.builder)),
        }
        let (span, is_filter) = (call.span, member.property.name == "filter");
        let usage = Usage::Dropped { end: span.end, is_filter };
        let Some((branch, flag)) = self.looker.place(span, usage) else { return };
        let kept = || pen.name(SPAN, pen.kept);
        let told = pen.set(flag, pen.tell(branch, pen.list(path.into_iter().chain([kept()]))));
        let first = pen.set(pen.kept, value.take_in(&pen.allocator));
        let wants_more = pen.name(SPAN, flag);
        let told = Expression::new_logical_expression(SPAN, wants_more, LogicalOperator::And, told, &pen.builder);
        *value = pen.sequence([first, told, kept()]);
    }
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
            ("return l.filter(Boolean)", None),
            ("return l?.filter((x) => f(x))", None),
            ("return l.map((x) => f(x))", None),
        ];
        for (code, expected) in table {
            let code = format!("mcp; {code}");
            let javascript = compile(&code, "agent.ts", Probes::Insert).unwrap().javascript;
            let javascript = javascript.replace("[\n\t\t", "[").replace(",\n\t\t", ", ").replace("\n\t]", "]");
            assert_eq!(javascript.contains(FLAG), expected.is_some(), "{code} became {javascript}");
            assert!(javascript.contains(expected.unwrap_or_default()), "{code} became {javascript}");
        }
    }
}
