//! Conversions whose NaN another number takes the place of: `Number(x.a) || 0`, `isNaN(n) ? 0 : n`.
//!
//! A text that is no number then counts as that one, and nothing of the NaN is left to be seen. So does a program know of NaN that
//! asks whether it has one: `if (isNaN(n)) continue`.

use std::collections::{HashMap, HashSet};

use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
    span::{GetSpan, Span},
    syntax::scope::ScopeFlags,
};

use super::places::unprobed;

/// The conversions of a program that have another number behind them.
#[derive(Default)]
pub(super) struct Fallbacks<'a> {
    /// Where they begin.
    conversions: HashSet<u32>,
    /// Where the one conversion begins that a variable holds, by its name. None if the name is declared again.
    variables: HashMap<&'a str, Option<u32>>,
    /// Variables that have another number behind them.
    named: HashSet<&'a str>,
    /// What variables begin with, and the functions in it.
    values: HashMap<&'a str, Vec<(Span, Vec<Span>)>>,
    /// Variables that are asked whether they are NaN, and what else is.
    checked_names: HashSet<&'a str>,
    checked: Vec<Span>,
}

impl<'a> Fallbacks<'a> {
    pub(super) fn of(program: &oxc::ast::ast::Program<'a>) -> Fallbacks<'a> {
        let mut fallbacks = Fallbacks::default();
        fallbacks.visit_program(program);
        let held = fallbacks.named.iter().filter_map(|name| fallbacks.variables.get(name).copied().flatten());
        fallbacks.conversions.extend(held.collect::<Vec<_>>());
        fallbacks
    }

    /// Has the conversion that begins here another number behind it?
    pub(super) fn has(&self, start: u32) -> bool {
        self.conversions.contains(&start)
    }

    /// Does the program ask whether NaN is made of what begins here? In a function of its own, it would not know.
    pub(super) fn is_checked(&self, start: u32) -> bool {
        let is_in = |span: &Span| span.start <= start && start < span.end;
        let held = self.checked_names.iter().filter_map(|name| self.values.get(name)).flatten();
        self.checked.iter().any(is_in)
            || held.into_iter().any(|(value, functions)| is_in(value) && !functions.iter().any(is_in))
    }

    fn note(&mut self, value: &Expression<'a>) {
        match value.get_inner_expression() {
            Expression::Identifier(it) => {
                self.named.insert(it.name.as_str());
            }
            value => self.conversions.extend(conversion(value)),
        }
    }
}

/// The functions in a value.
#[derive(Default)]
struct Functions(Vec<Span>);

impl<'a> Visit<'a> for Functions {
    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        self.0.push(it.span);
    }

    fn visit_function(&mut self, it: &Function<'a>, _: ScopeFlags) {
        self.0.push(it.span);
    }
}

/// Where a conversion begins, also one that is rounded: `Math.round(Number(x.a))`.
fn conversion(value: &Expression<'_>) -> Option<u32> {
    match value.get_inner_expression() {
        Expression::UnaryExpression(it) if it.operator == UnaryOperator::UnaryPlus => Some(it.span.start),
        Expression::CallExpression(it) => match it.callee.get_inner_expression() {
            Expression::Identifier(name) => {
                matches!(name.name.as_str(), "Number" | "parseFloat" | "parseInt").then_some(it.span.start)
            }
            Expression::StaticMemberExpression(member) if member.object.is_specific_id("Math") => {
                conversion(it.arguments.first()?.as_expression()?)
            }
            Expression::StaticMemberExpression(member) if member.object.is_specific_id("Number") => {
                matches!(member.property.name.as_str(), "parseFloat" | "parseInt").then_some(it.span.start)
            }
            _ => None,
        },
        _ => None,
    }
}

impl<'a> Visit<'a> for Fallbacks<'a> {
    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if let (BindingPattern::BindingIdentifier(id), Some(value)) = (&it.id, &it.init) {
            let start = conversion(value);
            self.variables.entry(id.name.as_str()).and_modify(|it| *it = None).or_insert(start);
            let mut functions = Functions::default();
            functions.visit_expression(value);
            self.values.entry(id.name.as_str()).or_default().push((value.span(), functions.0));
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_logical_expression(&mut self, it: &LogicalExpression<'a>) {
        if it.operator == LogicalOperator::Or
            && matches!(it.right.get_inner_expression(), Expression::NumericLiteral(_))
        {
            self.note(unprobed(&it.left));
        }
        // Nothing in place of NaN can be seen.
        if it.operator == LogicalOperator::Or && it.right.is_null_or_undefined() {
            self.checked.push(it.left.span());
        }
        walk::walk_logical_expression(self, it);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        let name = match it.callee.get_inner_expression() {
            Expression::Identifier(name) => name.name.as_str(),
            callee => callee.as_member_expression().and_then(|it| it.static_property_name()).unwrap_or_default(),
        };
        if matches!(name, "isNaN" | "isFinite" | "isInteger" | "isSafeInteger")
            && let Some(value) = it.arguments.first().and_then(Argument::as_expression)
        {
            match value.get_inner_expression() {
                Expression::Identifier(it) => drop(self.checked_names.insert(it.name.as_str())),
                value => self.checked.push(value.span()),
            }
        }
        walk::walk_call_expression(self, it);
    }

    fn visit_conditional_expression(&mut self, it: &ConditionalExpression<'a>) {
        let (test, is_negated) = match unprobed(&it.test) {
            Expression::UnaryExpression(not) if not.operator == UnaryOperator::LogicalNot => {
                (not.argument.get_inner_expression(), true)
            }
            test => (test, false),
        };
        if let Expression::CallExpression(call) = test {
            let name = match call.callee.get_inner_expression() {
                Expression::Identifier(name) => name.name.as_str(),
                Expression::StaticMemberExpression(member) if member.object.is_specific_id("Number") => {
                    member.property.name.as_str()
                }
                _ => "",
            };
            let without_number = match name {
                "isNaN" if is_negated => Some(&it.alternate),
                "isNaN" => Some(&it.consequent),
                "isFinite" if is_negated => Some(&it.consequent),
                "isFinite" => Some(&it.alternate),
                _ => None,
            };
            let is_number = |value: &&Expression<'a>| matches!(value, Expression::NumericLiteral(_));
            let is_replaced = without_number.map(|it| it.get_inner_expression()).filter(is_number).is_some();
            if let Some(value) = call.arguments.first().and_then(Argument::as_expression).filter(|_| is_replaced) {
                self.note(value);
                // `isNaN(Number(x.a)) ? 0 : Number(x.a)` converts it twice.
                let other = if is_negated == (name == "isNaN") { &it.consequent } else { &it.alternate };
                self.note(other);
            }
        }
        walk::walk_conditional_expression(self, it);
    }
}

#[cfg(test)]
mod tests {
    use crate::transpile::{Branch, Number, Probes, Usage, compile};

    #[test]
    fn conversions_with_another_number_behind_them_are_known() {
        #[rustfmt::skip]
        let table = [
            ("return Number(x.a) || 0", Some(Number::Defaulted)),
            ("return +x.a || 0", Some(Number::Defaulted)),
            ("return (Number(x.a ?? '') || 1) * 2", Some(Number::Defaulted)),
            ("return Math.round(Number(x.a)) || 0", Some(Number::Defaulted)),
            ("return parseFloat(x.a) || 0", Some(Number::ParsedOr)),
            ("return parseInt(x.a, 10) || 0", Some(Number::WholeOr)),
            ("const n = Number(x.a); return isNaN(n) ? 0 : n", Some(Number::Defaulted)),
            ("const n = parseFloat(x.a); return Number.isFinite(n) ? n : 0", Some(Number::ParsedOr)),
            ("return !isNaN(Number(x.a)) ? Number(x.a) : 0", Some(Number::Defaulted)),
            ("return Number(x.a) || null", Some(Number::Checked)),
            ("return isNaN(Number(x.a)) ? x.a : Number(x.a)", Some(Number::Checked)),
            ("return Number(x.a) ?? 0", Some(Number::Other)),
            ("const n = Number(x.a); if (isNaN(n)) return 1", Some(Number::Checked)),
            ("const n = x.a * 2; return Number.isFinite(n) ? n : x", Some(Number::Checked)),
            ("if (!isNaN(Number(x.a))) return 1", Some(Number::Checked)),
            ("const n = l.map((x) => Number(x.a)); return isNaN(n)", Some(Number::Other)),
            ("let n = 0; n += Number(x.a); return isNaN(n) ? 0 : n", Some(Number::Other)),
            ("const n = x.a * 2; return n", Some(Number::Computed)),
            ("return Number(x.a || 0)", Some(Number::Other)),
        ];
        for (code, expected) in table {
            let program = compile(&format!("mcp; {code}"), "agent.ts", Probes::Insert).unwrap();
            let made = program.branches.iter().find_map(|branch| match branch {
                Branch::Watch(watched) => match watched.usage {
                    Usage::Number(made) => Some(made),
                    _ => None,
                },
                _ => None,
            });
            assert_eq!(made, expected, "{code}");
        }
    }
}
