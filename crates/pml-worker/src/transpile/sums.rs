//! Sums that a text or an object slips into: `total += order.amount`, where the amount is a text, makes `total` one.
//!
//! What is added to something that is meant to be a number is looked at on the way: `total += v` becomes
//! `total += typeof v !== "number" ? $probe(0, v) : v`. Longer expressions are kept in a variable, so that they run once.
//! Meant to be a number is a variable that begins as one (`let total = 0`), a property that does (`{ total: 0 }`), and
//! `(totals[key] ?? 0)`. What is a number by its looks (`1`, `a * b`, `Number(x)`, `x.length`) is not looked at, nor is
//! `list[i]`, the element of a tight loop. The value is the same in every case: a warning is all that comes of it.

use std::collections::HashMap;

use oxc::{
    allocator::TakeIn,
    ast::ast::*,
    ast_visit::{Visit, VisitMut, walk, walk_mut},
    span::{GetSpan, SPAN},
};

use super::{
    pen::Pen,
    probe::{Branch, excerpt},
};

/// How the variable begins that keeps what is added.
pub(super) const SUM: &str = "$sum";

/// Looks at what is added to numbers of `program`. What it finds is told by the index of a branch.
pub(super) fn watch<'a>(program: &mut oxc::ast::ast::Program<'a>, pen: &Pen<'a>, branches: &mut Vec<Branch>) {
    let mut numbers = Numbers::default();
    numbers.visit_program(program);
    let mut watcher = Watcher { pen, numbers, is_kept: false, branches };
    watcher.visit_program(program);
    if watcher.is_kept {
        pen.declare(program, std::iter::once((pen.kept, None)));
    }
}

/// Names of variables and properties, and whether each begins as a number wherever it begins.
#[derive(Default)]
struct Numbers<'a> {
    variables: HashMap<&'a str, bool>,
    properties: HashMap<&'a str, bool>,
}

impl<'a> Numbers<'a> {
    fn note(names: &mut HashMap<&'a str, bool>, name: &'a str, value: &Expression<'a>) {
        let is_number = matches!(value.get_inner_expression(), Expression::NumericLiteral(_));
        names.entry(name).and_modify(|all| *all &= is_number).or_insert(is_number);
    }

    /// Is what is assigned to here meant to be a number?
    fn has(&self, target: &AssignmentTarget<'a>) -> bool {
        let found = match target {
            AssignmentTarget::AssignmentTargetIdentifier(it) => self.variables.get(it.name.as_str()),
            target => {
                let name = target.as_member_expression().and_then(|it| it.static_property_name());
                name.and_then(|name| self.properties.get(name))
            }
        };
        found.copied().unwrap_or(false)
    }
}

impl<'a> Visit<'a> for Numbers<'a> {
    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if let (BindingPattern::BindingIdentifier(id), Some(value)) = (&it.id, &it.init) {
            Numbers::note(&mut self.variables, id.name.as_str(), value);
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_object_property(&mut self, it: &ObjectProperty<'a>) {
        if let PropertyKey::StaticIdentifier(key) = &it.key {
            Numbers::note(&mut self.properties, key.name.as_str(), &it.value);
        }
        walk::walk_object_property(self, it);
    }

    fn visit_property_definition(&mut self, it: &PropertyDefinition<'a>) {
        if let (PropertyKey::StaticIdentifier(key), Some(value)) = (&it.key, &it.value) {
            Numbers::note(&mut self.properties, key.name.as_str(), value);
        }
        walk::walk_property_definition(self, it);
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        let begins = it.operator.is_assign() || it.operator.is_logical();
        if begins && let AssignmentTarget::StaticMemberExpression(member) = &it.left {
            Numbers::note(&mut self.properties, member.property.name.as_str(), &it.right);
        }
        walk::walk_assignment_expression(self, it);
    }
}

struct Watcher<'a, 'b> {
    pen: &'b Pen<'a>,
    numbers: Numbers<'a>,
    /// Is the variable needed?
    is_kept: bool,
    branches: &'b mut Vec<Branch>,
}

impl<'a> Watcher<'a, '_> {
    fn look_at(&mut self, value: &mut Expression<'a>) {
        let span = value.span();
        if span.is_empty() || is_plain(value) {
            return;
        }
        let pen = self.pen;
        self.branches.push(Branch::Sum { value: excerpt(pen.text, span), offset: span.start });
        let branch = self.branches.len() - 1;
        let builder = &pen.builder;
        let inner = value.take_in(&pen.allocator);
        let (first, name) = match inner.get_inner_expression() {
            Expression::Identifier(it) => (None, it.name.as_str()),
            _ => (Some(inner), pen.kept),
        };
        let read = || pen.name(span, name);
        let kind = Expression::new_unary_expression(SPAN, UnaryOperator::Typeof, read(), builder);
        let number = Expression::new_string_literal(SPAN, "number", None, builder);
        let is_other = Expression::new_binary_expression(SPAN, kind, BinaryOperator::StrictInequality, number, builder);
        let looked_at = pen.choose(is_other, pen.tell(branch, read()), read());
        *value = match first {
            None => looked_at,
            Some(first) => {
                self.is_kept = true;
                pen.sequence([pen.set(pen.kept, first), looked_at])
            }
        };
    }
}

impl<'a> VisitMut<'a> for Watcher<'a, '_> {
    fn visit_assignment_expression(&mut self, it: &mut AssignmentExpression<'a>) {
        walk_mut::walk_assignment_expression(self, it);
        if it.operator == AssignmentOperator::Addition && self.numbers.has(&it.left) {
            self.look_at(&mut it.right);
        }
    }

    fn visit_binary_expression(&mut self, it: &mut BinaryExpression<'a>) {
        walk_mut::walk_binary_expression(self, it);
        if it.operator == BinaryOperator::Addition {
            if or_zero(&it.left) {
                self.look_at(&mut it.right);
            } else if or_zero(&it.right) {
                self.look_at(&mut it.left);
            }
        }
    }
}

/// `(totals[key] ?? 0)` and `(totals[key] || 0)`.
fn or_zero(value: &Expression<'_>) -> bool {
    match value.get_inner_expression() {
        Expression::LogicalExpression(it) => {
            it.operator != LogicalOperator::And
                && matches!(it.right.get_inner_expression(), Expression::NumericLiteral(zero) if zero.value == 0.0)
        }
        _ => false,
    }
}

/// Is the value a number, or meant to be a text, by its looks? So is an element of a list, for its cost.
fn is_plain(value: &Expression<'_>) -> bool {
    match value.get_inner_expression() {
        Expression::UnaryExpression(_) | Expression::UpdateExpression(_) | Expression::TemplateLiteral(_) => true,
        Expression::BinaryExpression(it) if it.operator == BinaryOperator::Addition => {
            is_plain(&it.left) && is_plain(&it.right)
        }
        Expression::BinaryExpression(_) => true,
        Expression::ComputedMemberExpression(it) => !it.expression.is_literal(),
        Expression::StaticMemberExpression(it) => matches!(it.property.name.as_str(), "length" | "size"),
        Expression::ConditionalExpression(it) => is_plain(&it.consequent) && is_plain(&it.alternate),
        Expression::CallExpression(it) => match it.callee.get_inner_expression() {
            Expression::Identifier(name) => {
                matches!(name.name.as_str(), "Number" | "parseFloat" | "parseInt" | "BigInt")
            }
            callee => callee.as_member_expression().is_some_and(|it| it.object().is_specific_id("Math")),
        },
        value => value.is_literal(),
    }
}

#[cfg(test)]
mod tests {
    use crate::transpile::{Probes, compile};

    #[test]
    fn what_is_added_to_numbers_is_looked_at() {
        let table = [
            ("let t = 0; t += a", "t += typeof a !== \"number\" ? $probe(0, a) : a"),
            ("let t = 0; t += o.amount", "t += ($sum = o.amount, typeof $sum !== \"number\" ? $probe(0, $sum) : $sum)"),
            (
                "const t = { sum: 0 }; t.sum += o.n",
                "t.sum += ($sum = o.n, typeof $sum !== \"number\" ? $probe(0, $sum) : $sum)",
            ),
            ("class A { n = 0; f(v) { this.n += v } }", "this.n += typeof v !== \"number\" ? $probe(0, v) : v"),
            ("m[k] = (m[k] ?? 0) + v", "m[k] = (m[k] ?? 0) + (typeof v !== \"number\" ? $probe(0, v) : v)"),
            ("m[k] = v + (m[k] || 0)", "m[k] = (typeof v !== \"number\" ? $probe(0, v) : v) + (m[k] || 0)"),
            // A number or a text by its looks.
            ("let t = 0; t += 1", "t += 1"),
            ("let t = 0; t += a * b", "t += a * b"),
            ("let t = 0; t += Number(a) + 1", "t += Number(a) + 1"),
            ("let t = 0; t += 'px'", "t += \"px\""),
            ("let t = 0; t += list[i]", "t += list[i]"),
            ("m[k] = (m[k] || 0) + 1", "m[k] = (m[k] || 0) + 1"),
            // Not meant to be a number.
            ("let t = ''; t += a", "t += a"),
            ("let t = 0; { let t = ''; t += a }", "t += a"),
            ("t.sum += o.n", "t.sum += o.n"),
        ];
        for (code, expected) in table {
            let javascript = compile(code, "agent.ts", Probes::Insert).unwrap().javascript;
            assert!(javascript.contains(expected), "{code} became {javascript}");
        }
    }
}
