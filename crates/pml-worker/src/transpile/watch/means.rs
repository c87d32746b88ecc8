//! Looks at what a mean or a least number is made of: `null` counts as 0 there.
//!
//! `rows.reduce((sum, it) => sum + it.rating, 0) / rows.length`, also through a variable, and `Math.min(...list)`. In a sum alone,
//! nothing is 0 as it should be.

use std::collections::{HashMap, HashSet};

use oxc::{
    ast::ast::*,
    ast_visit::{Visit, VisitMut, walk, walk_mut},
    span::GetSpan,
};

use super::{looker::Looker, names::Names, places::is_read, watched::Usage};
use crate::transpile::{pen::Pen, probe::Branch};

/// How the variables begin that turn a look off.
const FLAG: &str = "$watchMean";

/// Looks at the numbers of `program`.
pub(in crate::transpile) fn watch<'a>(
    program: &mut oxc::ast::ast::Program<'a>,
    pen: &Pen<'a>,
    names: &Names<'a>,
    branches: &mut Vec<Branch>,
) {
    let mut means = Means { text: pen.text, ..Means::default() };
    means.visit_program(program);
    let sums = means.sums();
    let mut watcher = Watcher { names, sums, looker: Looker::new(pen, FLAG, branches) };
    watcher.visit_program(program);
    watcher.looker.declare(program);
}

/// Sums that are divided by the length of their list.
#[derive(Default)]
struct Means<'a> {
    text: &'a str,
    /// Where the sum begins that a variable holds, and the text of its list. None if the name is declared again.
    held: HashMap<&'a str, Option<(u32, &'a str)>>,
    /// What is divided by the length of a list: a sum, or a variable.
    divided: Vec<(u32, &'a str)>,
    divided_names: Vec<(&'a str, &'a str)>,
}

impl<'a> Means<'a> {
    /// Where the sums begin.
    fn sums(&self) -> HashSet<u32> {
        let held = self.divided_names.iter().filter_map(|(name, list)| {
            let (start, summed) = self.held.get(name).copied().flatten()?;
            (summed == *list).then_some(start)
        });
        held.chain(self.divided.iter().map(|(start, _)| *start)).collect()
    }

    /// Where a sum begins, and the text of its list.
    fn sum(&self, value: &Expression<'a>) -> Option<(u32, &'a str)> {
        let Expression::CallExpression(call) = value.get_inner_expression() else { return None };
        let Expression::StaticMemberExpression(member) = &call.callee else { return None };
        (member.property.name == "reduce" && call.arguments.len() == 2)
            .then(|| (call.span.start, member.object.span().source_text(self.text)))
    }

    /// The text of the list whose length this is: `rows.length`, `(rows.length || 1)`.
    fn list(&self, value: &Expression<'a>) -> Option<&'a str> {
        match value.get_inner_expression() {
            Expression::LogicalExpression(it) => self.list(&it.left),
            Expression::StaticMemberExpression(it) if it.property.name == "length" => {
                Some(it.object.span().source_text(self.text))
            }
            _ => None,
        }
    }
}

impl<'a> Visit<'a> for Means<'a> {
    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if let (BindingPattern::BindingIdentifier(id), Some(value)) = (&it.id, &it.init) {
            let sum = self.sum(value);
            self.held.entry(id.name.as_str()).and_modify(|it| *it = None).or_insert(sum);
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_binary_expression(&mut self, it: &BinaryExpression<'a>) {
        if it.operator == BinaryOperator::Division
            && let Some(list) = self.list(&it.right)
        {
            match it.left.get_inner_expression() {
                Expression::Identifier(name) => self.divided_names.push((name.name.as_str(), list)),
                left => self.divided.extend(self.sum(left).filter(|(_, summed)| *summed == list)),
            }
        }
        walk::walk_binary_expression(self, it);
    }
}

struct Watcher<'a, 'b> {
    names: &'b Names<'a>,
    /// Where the sums begin that are divided.
    sums: HashSet<u32>,
    looker: Looker<'a, 'b>,
}

impl<'a> VisitMut<'a> for Watcher<'a, '_> {
    fn visit_call_expression(&mut self, it: &mut CallExpression<'a>) {
        walk_mut::walk_call_expression(self, it);
        if it.callee.is_specific_member_access("Math", "min")
            && let [Argument::SpreadElement(list)] = &mut it.arguments[..]
        {
            self.looker.look_at(&mut list.argument, Usage::Least);
        }
        if self.sums.contains(&it.span.start)
            && let Some(Argument::ArrowFunctionExpression(function)) = it.arguments.first_mut()
            && let Some(Expression::BinaryExpression(sum)) = function.body.as_expression_mut()
            && sum.operator == BinaryOperator::Addition
            && sum.right.is_member_expression()
            && is_read(&sum.right, self.names)
        {
            self.looker.look_at(&mut sum.right, Usage::Averaged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FLAG;
    use crate::transpile::{Probes, compile};

    #[test]
    fn what_a_mean_is_made_of_is_looked_at() {
        #[rustfmt::skip]
        let table = [
            ("return l.reduce((s, x) => s + x.a, 0) / l.length", Some("s + ($watchMean0 ? ($kept8 = x.a, $watchMean0 = $probe(")),
            ("const n = l.reduce((s, x) => s + x.a, 0); return n / (l.length || 1)", Some("s + ($watchMean0 ?")),
            ("return Math.min(...l.map((x) => x.a))", Some("Math.min(...($kept8 = l.map((x) => x.a), $watchMean0 && (")),
            ("return l.reduce((s, x) => s + x.a, 0)", None),
            ("return l.reduce((s, x) => s + x.a, 0) / m.length", None),
            ("return l.reduce((s, x) => s + (x.a ?? 0), 0) / l.length", None),
            ("return Math.min(x.a, 3)", None),
        ];
        for (code, expected) in table {
            let code = format!("mcp; {code}");
            let javascript = compile(&code, "agent.ts", Probes::Insert).unwrap().javascript;
            assert_eq!(javascript.contains(FLAG), expected.is_some(), "{code} became {javascript}");
            assert!(javascript.contains(expected.unwrap_or_default()), "{code} became {javascript}");
        }
    }
}
