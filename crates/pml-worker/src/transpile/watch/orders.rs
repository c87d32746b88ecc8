//! Looks at both sides of `<`, `>`, `<=` and `>=`: two texts are in the order of their characters, so `"9.50"` is greater than
//! `"10.00"`.
//!
//! A side that is a number by its looks makes the comparison one of numbers, which is not looked at.

use std::collections::HashSet;

use oxc::{
    ast::ast::*,
    ast_visit::{Visit, VisitMut, walk, walk_mut},
};

use super::{
    looker::Looker,
    names::Names,
    places::{is_read, unwatched},
    watched::Usage,
};
use crate::transpile::{pen::Pen, probe::Branch};

/// How the variables that turn a look off begin.
const FLAG: &str = "$watchOrder";

/// Looks at the comparisons of `program`.
pub(in crate::transpile) fn watch<'a>(
    program: &mut oxc::ast::ast::Program<'a>,
    pen: &Pen<'a>,
    names: &Names<'a>,
    branches: &mut Vec<Branch>,
) {
    let mut changed = Changed::default();
    changed.visit_program(program);
    let mut watcher = Watcher { names, changed, looker: Looker::new(pen, FLAG, branches) };
    watcher.visit_program(program);
    watcher.looker.declare(program);
}

/// Variables that change.
#[derive(Default)]
struct Changed<'a> {
    /// Numbers: `i++`, `n += 1`, `const n = list.length`.
    counting: HashSet<&'a str>,
    /// What is set to a value, as the greatest so far is: `max = x.price`.
    set: HashSet<&'a str>,
}

impl<'a> Visit<'a> for Changed<'a> {
    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if let (BindingPattern::BindingIdentifier(id), Some(value)) = (&it.id, &it.init)
            && is_number(value)
            && !value.get_inner_expression().is_literal()
        {
            self.counting.insert(id.name.as_str());
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_update_expression(&mut self, it: &UpdateExpression<'a>) {
        if let SimpleAssignmentTarget::AssignmentTargetIdentifier(id) = &it.argument {
            self.counting.insert(id.name.as_str());
        }
        walk::walk_update_expression(self, it);
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        if let AssignmentTarget::AssignmentTargetIdentifier(id) = &it.left {
            let value = unwatched(&it.right).get_inner_expression();
            let is_set = it.operator.is_assign() && (value.is_member_expression() || value.is_identifier_reference());
            match is_set {
                true => self.set.insert(id.name.as_str()),
                false => it.operator.is_arithmetic() && self.counting.insert(id.name.as_str()),
            };
        }
        walk::walk_assignment_expression(self, it);
    }
}

/// Is the value a number by its looks?
fn is_number(value: &Expression<'_>) -> bool {
    match value.get_inner_expression() {
        Expression::NumericLiteral(_) | Expression::UpdateExpression(_) | Expression::BigIntLiteral(_) => true,
        Expression::UnaryExpression(it) => it.operator != UnaryOperator::Typeof,
        Expression::BinaryExpression(it) => {
            it.operator != BinaryOperator::Addition || is_number(&it.left) || is_number(&it.right)
        }
        Expression::StaticMemberExpression(it) => {
            matches!(it.property.name.as_str(), "length" | "index" | "lastIndex") || it.object.is_specific_id("Math")
        }
        Expression::ChainExpression(it) => {
            it.expression.as_member_expression().is_some_and(|it| it.static_property_name() == Some("length"))
        }
        Expression::CallExpression(it) => match it.callee.get_inner_expression() {
            Expression::Identifier(name) => {
                matches!(name.name.as_str(), "Number" | "parseFloat" | "parseInt" | "BigInt")
            }
            callee => callee.as_member_expression().is_some_and(|member| {
                let name = member.static_property_name();
                let is_time = name.is_some_and(|name| {
                    name.starts_with("get") && name.len() > 3 || name == "now" || name == "indexOf"
                });
                is_time || ["Math", "Number", "Date"].iter().any(|it| member.object().is_specific_id(it))
            }),
        },
        Expression::NewExpression(_) => true,
        _ => false,
    }
}

struct Watcher<'a, 'b> {
    names: &'b Names<'a>,
    changed: Changed<'a>,
    looker: Looker<'a, 'b>,
}

impl<'a> Watcher<'a, '_> {
    /// What a side is, by its looks.
    fn kind(&self, side: &Expression<'a>) -> Kind {
        let side = unwatched(side).get_inner_expression();
        match side {
            Expression::Identifier(it) if self.changed.counting.contains(it.name.as_str()) => Kind::Number,
            Expression::Identifier(it) if self.changed.set.contains(it.name.as_str()) => Kind::Read,
            Expression::ComputedMemberExpression(it) if it.expression.is_literal() => Kind::Read,
            side if is_number(side) => Kind::Number,
            side if is_read(side, self.names) => Kind::Read,
            _ => Kind::Unknown,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    /// Read of something that the program did not make itself.
    Read,
    Unknown,
}

impl<'a> VisitMut<'a> for Watcher<'a, '_> {
    fn visit_expression(&mut self, value: &mut Expression<'a>) {
        walk_mut::walk_expression(self, value);
        let Expression::BinaryExpression(it) = value else { return };
        let is_order = it.operator.is_compare();
        if is_order {
            let kinds = [self.kind(&it.left), self.kind(&it.right)];
            if kinds.contains(&Kind::Read) && !kinds.contains(&Kind::Number) {
                self.looker.look_at_sides(value, Usage::Ordered);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FLAG;
    use crate::transpile::{Probes, compile};

    #[test]
    fn both_sides_of_a_comparison_are_looked_at() {
        let watched = |left: &str, right: &str| {
            let first = format!("($kept3 = {left}, $probe(0, $kept3), $kept3)");
            format!(
                "$watchOrder0 ? {first} < ($kept3 = {right}, $watchOrder0 = $probe(1, $kept3), $kept3) : {left} < {right}"
            )
        };
        #[rustfmt::skip]
        let table = [
            ("return x.a < y.a", watched("x.a", "y.a")),
            ("return x.a < '10'", watched("x.a", "\"10\"")),
            ("l.map((v) => v < w)", watched("v", "w")),
            ("let max = 0; l.map((v) => { let b = max < v; max = v; })", watched("max", "v")),
            ("return x.a < f(y)", watched("x.a", "f(y)")),
            // Numbers by their looks, or nothing that may be a text of a result.
            ("return x.a < 10", String::new()),
            ("return x.a < y.length", String::new()),
            ("return x.a < Date.now()", String::new()),
            ("return x.a < new Date(s)", String::new()),
            ("let n = l.length; for (let i = 0; i < n; i++) f()", String::new()),
            ("let a = 1, b = 2; return a < b", String::new()),
            ("return l[i] < l[j]", String::new()),
        ];
        for (code, expected) in table {
            let code = format!("mcp; {code}");
            let javascript = compile(&code, "agent.ts", Probes::Insert).unwrap().javascript;
            let javascript = javascript.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(javascript.contains(FLAG), !expected.is_empty(), "{code} became {javascript}");
            assert!(javascript.contains(&expected), "{code} became {javascript}, not {expected}");
        }
    }
}
