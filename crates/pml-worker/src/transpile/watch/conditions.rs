//! Looks at what is used as a condition: the text `"false"` counts as true.
//!
//! A condition is the test of an `if`, `?:` or loop, what `!`, `&&` and `Boolean(…)` are used on, and what the function gives
//! that `filter` and its like are called with.

use oxc::{
    ast::ast::*,
    ast_visit::{VisitMut, walk_mut},
    span::{GetSpan, Span},
};

use super::{
    looker::Looker,
    names::Names,
    places::{is_foreign, is_read},
    watched::Usage,
};
use crate::transpile::{pen::Pen, probe::Branch};

/// How the variables that turn a look off begin.
const FLAG: &str = "$watchIf";
/// Methods of arrays that take a condition.
const METHODS: [&str; 7] = ["filter", "find", "findIndex", "findLast", "findLastIndex", "some", "every"];
/// Methods that read something out of what they are called on.
const READING: [&str; 7] = ["at", "get", "pop", "shift", "toLowerCase", "toUpperCase", "trim"];

/// Looks at the conditions of `program`. `probe` and `on` are the names of what branch probes call.
pub(in crate::transpile) fn watch<'a>(
    program: &mut oxc::ast::ast::Program<'a>,
    pen: &Pen<'a>,
    names: &Names<'a>,
    on: &'a str,
    branches: &mut Vec<Branch>,
) {
    let mut watcher = Watcher { names, on, looker: Looker::new(pen, FLAG, branches) };
    watcher.visit_program(program);
    watcher.looker.declare(program);
}

struct Watcher<'a, 'b> {
    names: &'b Names<'a>,
    on: &'a str,
    looker: Looker<'a, 'b>,
}

/// Where a condition stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the function that a method of an array is called with.
    Callback,
    Elsewhere,
}

impl<'a> Watcher<'a, '_> {
    fn look_at(&mut self, value: &mut Expression<'a>, place: Place) {
        match value {
            Expression::ParenthesizedExpression(it) => self.look_at(&mut it.expression, place),
            // What a branch probe was put around: `$on ? $on(0, c) : c`, `$probe(0, c)`.
            Expression::ConditionalExpression(it) if it.test.is_specific_id(self.on) => {
                self.look_at(&mut it.consequent, place);
                self.look_at(&mut it.alternate, place);
            }
            Expression::CallExpression(it) if self.is_probe(it) => {
                if let Some(inner) = it.arguments.get_mut(1).and_then(Argument::as_expression_mut) {
                    self.look_at(inner, place);
                }
            }
            Expression::LogicalExpression(it) => {
                // Whether the left side of an `&&` is true is asked for wherever it stands.
                if it.operator != LogicalOperator::And {
                    self.look_at(&mut it.left, place);
                }
                self.look_at(&mut it.right, place);
            }
            value if self.is_watched(value, place) => self.looker.look_at(value, Usage::Condition),
            _ => {}
        }
    }

    fn is_probe(&self, call: &CallExpression<'a>) -> bool {
        call.callee.is_specific_id(self.on) || call.callee.is_specific_id(self.looker.pen.probe)
    }

    /// May the value be a text of a result, by its looks?
    fn is_watched(&self, value: &Expression<'a>, place: Place) -> bool {
        match value.get_inner_expression() {
            Expression::ComputedMemberExpression(it) => {
                // `list[i]` is the element of a tight loop.
                let is_key = it.expression.is_literal() || place == Place::Callback;
                is_key && is_foreign(&it.object)
            }
            Expression::CallExpression(it) => {
                let name = it.callee.as_member_expression().and_then(|member| member.static_property_name());
                name.is_some_and(|name| READING.contains(&name))
            }
            value => is_read(value, self.names),
        }
    }

    /// Looks at a condition, unless what depends on it says the same: `x.note ? x.note : ""`.
    fn look_at_test(&mut self, test: &mut Expression<'a>, then: Span) {
        let text = self.looker.pen.text;
        let tested = self.unprobed(test).span();
        let is_passed_on = !tested.is_empty() && then.source_text(text).contains(tested.source_text(text));
        if !is_passed_on {
            self.look_at(test, Place::Elsewhere);
        }
    }

    /// The condition as the program has it.
    fn unprobed<'e>(&self, test: &'e Expression<'a>) -> &'e Expression<'a> {
        match test {
            Expression::ConditionalExpression(it) if it.test.is_specific_id(self.on) => self.unprobed(&it.alternate),
            Expression::CallExpression(it) if self.is_probe(it) => {
                it.arguments.get(1).and_then(Argument::as_expression).unwrap_or(test)
            }
            test => test,
        }
    }

    /// Looks at what a function gives.
    fn look_at_returned(&mut self, callback: &mut Expression<'a>) {
        let statements = match callback {
            Expression::ArrowFunctionExpression(it) => match &mut it.body {
                ArrowFunctionBody::FunctionBody(body) => &mut body.statements,
                body => {
                    if let Some(value) = body.as_expression_mut() {
                        self.look_at(value, Place::Callback);
                    }
                    return;
                }
            },
            Expression::FunctionExpression(it) => match &mut it.body {
                Some(body) => &mut body.statements,
                None => return,
            },
            _ => return,
        };
        for statement in statements {
            if let Statement::ReturnStatement(it) = statement
                && let Some(value) = &mut it.argument
            {
                self.look_at(value, Place::Callback);
            }
        }
    }
}

impl<'a> VisitMut<'a> for Watcher<'a, '_> {
    fn visit_if_statement(&mut self, it: &mut IfStatement<'a>) {
        walk_mut::walk_if_statement(self, it);
        self.look_at(&mut it.test, Place::Elsewhere);
    }

    fn visit_while_statement(&mut self, it: &mut WhileStatement<'a>) {
        walk_mut::walk_while_statement(self, it);
        self.look_at(&mut it.test, Place::Elsewhere);
    }

    fn visit_do_while_statement(&mut self, it: &mut DoWhileStatement<'a>) {
        walk_mut::walk_do_while_statement(self, it);
        self.look_at(&mut it.test, Place::Elsewhere);
    }

    fn visit_conditional_expression(&mut self, it: &mut ConditionalExpression<'a>) {
        walk_mut::walk_conditional_expression(self, it);
        if !it.test.is_specific_id(self.on) {
            self.look_at_test(&mut it.test, it.consequent.span());
        }
    }

    fn visit_logical_expression(&mut self, it: &mut LogicalExpression<'a>) {
        walk_mut::walk_logical_expression(self, it);
        if it.operator == LogicalOperator::And {
            self.look_at_test(&mut it.left, it.right.span());
        }
    }

    fn visit_unary_expression(&mut self, it: &mut UnaryExpression<'a>) {
        walk_mut::walk_unary_expression(self, it);
        if it.operator == UnaryOperator::LogicalNot {
            self.look_at(&mut it.argument, Place::Elsewhere);
        }
    }

    fn visit_call_expression(&mut self, it: &mut CallExpression<'a>) {
        walk_mut::walk_call_expression(self, it);
        let is_condition = it.callee.is_specific_id("Boolean");
        let method = it.callee.as_member_expression().and_then(|member| member.static_property_name());
        let takes_condition = method.is_some_and(|method| METHODS.contains(&method));
        let Some(argument) = it.arguments.first_mut().and_then(Argument::as_expression_mut) else { return };
        if is_condition {
            self.look_at(argument, Place::Elsewhere);
        } else if takes_condition {
            self.look_at_returned(argument);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::transpile::{Probes, compile};

    #[test]
    fn what_is_used_as_a_condition_is_looked_at() {
        let watched = |value: &str| {
            let told = format!("$kept2 = {value}, $watchIf0 = $probe(B, $kept2), $kept2");
            format!("($watchIf0 ? ({told}) : {value})")
        };
        #[rustfmt::skip]
        let table = [
            ("const b = !x.a; return b", format!("!{}", watched("x.a"))),
            ("while (x.a) f()", "while ($watchIf0 ?".to_owned()),
            ("return Boolean(x.a)", "Boolean($watchIf0 ?".to_owned()),
            ("return x.a && f()", format!("return {} && f()", watched("x.a"))),
            ("return l.filter((x) => !x.a)", format!("(x) => !{}", watched("x.a"))),
            ("return l.filter(function (x) { return x.a })", "return $watchIf0 ?".to_owned()),
            ("return l.filter((k) => flags[k])", "(k) => $watchIf0 ?".to_owned()),
            ("for (const { a } of l) if (!a) f()", format!("!{}", watched("a"))),
            ("return Boolean(r.pop())", "Boolean($watchIf0 ?".to_owned()),
            ("return Boolean(r[3] || r[4] > 1)", "Boolean(($watchIf0 ?".to_owned()),
            // Not a condition, or nothing that may be a text of a result.
            ("return x.a || 'none'", "return x.a || \"none\";".to_owned()),
            ("return x.a && x.a.b", "return x.a && x.a.b;".to_owned()),
            ("let a = 1; return !a", "return !a;".to_owned()),
            ("return !x.length", "return !x.length;".to_owned()),
            ("return !l[i]", "return !l[i];".to_owned()),
            ("return !f(x)", "return !f(x);".to_owned()),
        ];
        for (code, expected) in table {
            let code = format!("mcp; {code}");
            let javascript = compile(&code, "agent.ts", Probes::Insert).unwrap().javascript;
            let branch = javascript.split("$watchIf0 = $probe(").nth(1).and_then(|rest| rest.split(',').next());
            let expected = expected.replace("(B,", &format!("({},", branch.unwrap_or_default()));
            assert!(javascript.contains(&expected), "{code} became {javascript}, not {expected}");
        }
    }

    #[test]
    fn a_test_with_a_probe_is_one_place() {
        let program = compile("mcp; if (x.a) f(); return x.b ? x.b : 1", "agent.ts", Probes::Insert).unwrap();
        assert!(program.javascript.contains("$watchIf0 ?"), "{}", program.javascript);
        assert!(!program.javascript.contains("$watchIf1"), "{}", program.javascript);
    }
}
