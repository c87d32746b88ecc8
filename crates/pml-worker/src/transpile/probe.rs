//! Branch probes: what makes a trace able to say which way a program went.
//!
//! `if (c)` becomes `if ($on ? $on(0, c) : c)`; `c ? a : b` likewise; each `case` begins with
//! `if ($on) $on(0, k)`. `$on` is a variable of the program's function: the function that keeps or counts decisions, and
//! `false` when enough are counted, so that a loop pays for the reading of one variable. A condition that is long, or has
//! functions or conditions in it, is not written twice: it becomes `$probe(0, c)`. `throw x` becomes `throw $probe(0, x)`,
//! since a thrown value that is no `Error` does not know where it came from; so does what `Promise.reject` and the second
//! parameter of an executor are called with. `catch (e) {` is followed by `$probe(0, e)`, so that a bare `not a function`
//! can be explained before the program reads it; handlers that are written out in `.catch(…)` and `.then(…, …)` begin so,
//! too. A probe returns its second argument, so the program cannot tell the difference. In front of each loop and each
//! destructuring stands a bare `NaN;`: when a loop is interrupted or a destructuring fails, the engine reports the place of
//! whatever it did just before, and only some operations, such as reading a global, carry a place. For the same reason the
//! name of a property that a pattern takes apart further becomes `[(NaN, "name")]`. What a probe reports is
//! what the program says of itself: good for learning and for messages, never for security. Conditions in loops that only
//! compute have no probes; see `tight.rs`.

use std::collections::HashSet;

use oxc::{
    allocator::{Allocator, ArenaVec, CloneIn, TakeIn},
    ast::{AstKind, ast::*, builder::AstBuilder},
    ast_visit::{Visit, VisitMut, walk_mut},
    span::{GetSpan, SPAN, Span},
    syntax::number::NumberBase,
};

use super::{tight, watch::Watched, wrap::parameter};

/// Longest condition text that is kept.
const CONDITION_CHARS: usize = 80;

/// A place that reports when the program passes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Branch {
    /// An `if` or `?:`, with its condition as written, shortened, and where that stands in the text.
    Test { condition: String, span: (u32, u32), guard: Option<Guard> },
    /// A `switch`: what it looks at, and its labels in order.
    Switch(String, Vec<String>),
    /// A `throw`, and where in the text its value begins.
    Throw(u32),
    /// A `catch`, which gets an error that may be in need of words.
    Caught,
    /// Where the program hands over what sets `$on`.
    Switchboard,
    /// A text that is added to what is meant to be a number: the expression, and where in the text it begins.
    Sum { value: String, offset: u32 },
    /// A value that is looked at where it is used.
    Watch(Watched),
}

/// An `if` that lets only some of the elements of a list through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// It goes on with the next one if the condition is true: `if (!x.a) continue;`.
    Skips,
    /// It does something only if the condition is true.
    Admits,
}

/// Longest condition that is written twice.
const TWICE_BYTES: u32 = 200;
/// The parameter of the function that sets `$on`.
const SETTING: &str = "$to";

/// Puts probes into `program`, which call `name`. Returns the branches.
pub(super) fn insert<'a>(
    allocator: &'a Allocator,
    program: &mut oxc::ast::ast::Program<'a>,
    text: &'a str,
    name: &'a str,
    on: &'a str,
) -> Vec<Branch> {
    let builder = AstBuilder::new(allocator);
    let mut inserter = Inserter {
        builder,
        allocator,
        text,
        name,
        on,
        tight: tight::find(program),
        is_tight: false,
        is_guarded: false,
        rejecting: Vec::new(),
        branches: Vec::new(),
    };
    inserter.visit_program(program);
    if inserter.is_guarded {
        let declaration = inserter.switchboard();
        // Behind the imports, which are no statements in the end.
        let first = program.body.iter().position(|it| !matches!(it, Statement::ImportDeclaration(_)));
        let first = first.unwrap_or(program.body.len());
        program.body.insert(first, declaration);
    }
    inserter.branches
}

/// A name that is nowhere in the text, so that the program neither sees nor hides it.
pub(super) fn unused_name(text: &str, name: &str) -> String {
    let mut name = name.to_owned();
    while text.contains(&name) {
        name.push('$');
    }
    name
}

/// What stands in the text, shortened.
pub(super) fn excerpt(text: &str, span: Span) -> String {
    let text = span.source_text(text);
    match text.char_indices().nth(CONDITION_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

struct Inserter<'a> {
    builder: AstBuilder<'a>,
    allocator: &'a Allocator,
    text: &'a str,
    name: &'a str,
    on: &'a str,
    /// The loops that only compute.
    tight: HashSet<Span>,
    /// Are we in one?
    is_tight: bool,
    /// Does any probe ask `$on`?
    is_guarded: bool,
    /// Functions around that reject a promise.
    rejecting: Vec<&'a str>,
    branches: Vec<Branch>,
}

impl<'a> Inserter<'a> {
    fn excerpt(&self, span: Span) -> String {
        excerpt(self.text, span)
    }

    fn add(&mut self, branch: Branch) -> usize {
        self.branches.push(branch);
        self.branches.len() - 1
    }

    fn number(&self, value: usize) -> Expression<'a> {
        Expression::new_numeric_literal(SPAN, value as f64, None, NumberBase::Decimal, &self.builder)
    }

    fn call(&self, branch: usize, value: Expression<'a>) -> Expression<'a> {
        self.call_of(self.name, branch, value)
    }

    fn call_of(&self, callee: &'a str, branch: usize, value: Expression<'a>) -> Expression<'a> {
        let mut arguments = ArenaVec::new_in(&self.allocator);
        arguments.push(Argument::from(self.number(branch)));
        arguments.push(Argument::from(value));
        let callee = Expression::new_identifier(SPAN, callee, &self.builder);
        Expression::new_call_expression(SPAN, callee, None, arguments, false, &self.builder)
    }

    /// Puts a probe around a value.
    fn wrap(&mut self, value: &mut Expression<'a>, branch: Branch) {
        let branch = self.add(branch);
        let inner = value.take_in(&self.allocator);
        *value = self.call(branch, inner);
    }

    fn wrap_test(&mut self, test: &mut Expression<'a>, guard: Option<Guard>) {
        // What the transformer made up has no place in the source, and is no decision of the agent.
        if test.span().is_empty() || self.is_tight {
            return self.visit_expression(test);
        }
        let condition = self.excerpt(test.span());
        let span = (test.span().start, test.span().end);
        let branch = self.add(Branch::Test { condition, span, guard });
        if !is_simple(test) {
            self.visit_expression(test);
            let inner = test.take_in(&self.allocator);
            *test = self.call(branch, inner);
            return;
        }
        let probed = self.call_of(self.on, branch, test.clone_in(self.allocator));
        let plain = test.take_in(&self.allocator);
        let on = self.on();
        *test = Expression::new_conditional_expression(SPAN, on, probed, plain, &self.builder);
    }

    /// Has the first parameter of a function, which gets an error, told before the rest of the function runs.
    fn tell_handler(&mut self, handler: &mut Expression<'a>) {
        let parameters = match handler {
            Expression::ArrowFunctionExpression(it) => &it.params,
            Expression::FunctionExpression(it) => &it.params,
            _ => return,
        };
        let Some(name) = parameters.items.first().and_then(|it| it.pattern.get_identifier_name()) else { return };
        let branch = self.add(Branch::Caught);
        let told = self.call(branch, Expression::new_identifier(SPAN, name, &self.builder));
        let statement = |told| Statement::new_expression_statement(SPAN, told, &self.builder);
        match handler {
            Expression::FunctionExpression(it) => {
                if let Some(body) = &mut it.body {
                    body.statements.insert(0, statement(told));
                }
            }
            Expression::ArrowFunctionExpression(it) => match &mut it.body {
                ArrowFunctionBody::FunctionBody(body) => body.statements.insert(0, statement(told)),
                body => {
                    if let Some(value) = body.as_expression_mut() {
                        let both = [told, value.take_in(&self.allocator)];
                        let both = ArenaVec::from_array_in(both, &self.allocator);
                        *value = Expression::new_sequence_expression(SPAN, both, &self.builder);
                    }
                }
            },
            _ => {}
        }
    }

    fn on(&mut self) -> Expression<'a> {
        self.is_guarded = true;
        Expression::new_identifier(SPAN, self.on, &self.builder)
    }

    /// `var $on = $probe(n, ($to) => $on = $to)`.
    fn switchboard(&mut self) -> Statement<'a> {
        let builder = &self.builder;
        let target = AssignmentTarget::new_assignment_target_identifier(SPAN, self.on, builder);
        let to = Expression::new_identifier(SPAN, SETTING, builder);
        let set = Expression::new_assignment_expression(SPAN, AssignmentOperator::Assign, target, to, builder);
        let to = parameter(BindingPattern::new_binding_identifier(SPAN, SETTING, builder), builder);
        let kind = FormalParameterKind::ArrowFormalParameters;
        let parameters = FormalParameters::boxed(SPAN, kind, [to], None, builder);
        let body = ArrowFunctionBody::from(set);
        let set = Expression::new_arrow_function_expression(SPAN, false, None, parameters, None, body, builder);
        self.branches.push(Branch::Switchboard);
        let on = self.call(self.branches.len() - 1, set);
        let name = BindingPattern::new_binding_identifier(SPAN, self.on, builder);
        let declarator = VariableDeclarator::new(SPAN, name, None, Some(on), false, builder);
        let kind = VariableDeclarationKind::Var;
        Declaration::new_variable_declaration(SPAN, kind, [declarator], false, builder).into()
    }
}

fn is_destructuring(value: &Expression<'_>) -> bool {
    matches!(value, Expression::AssignmentExpression(it) if it.left.is_assignment_target_pattern())
}

/// Which elements an `if` lets through.
fn guard_of(it: &IfStatement<'_>) -> Option<Guard> {
    if it.alternate.is_some() {
        return None;
    }
    let only = match &it.consequent {
        Statement::BlockStatement(block) => match &block.body[..] {
            [only] => Some(only),
            _ => None,
        },
        only => Some(only),
    };
    match only {
        Some(Statement::ContinueStatement(_)) => Some(Guard::Skips),
        Some(Statement::ReturnStatement(it)) if it.argument.is_none() => Some(Guard::Skips),
        Some(Statement::ReturnStatement(_) | Statement::BreakStatement(_) | Statement::ThrowStatement(_)) => None,
        _ => Some(Guard::Admits),
    }
}

/// Would the engine place an error in this statement somewhere else?
fn needs_mark(statement: &Statement<'_>) -> bool {
    match statement {
        Statement::LabeledStatement(labeled) => needs_mark(&labeled.body),
        Statement::VariableDeclaration(it) => it.declarations.iter().any(|it| it.id.is_destructuring_pattern()),
        Statement::ExpressionStatement(it) => is_destructuring(&it.expression),
        Statement::ReturnStatement(it) => it.argument.as_ref().is_some_and(is_destructuring),
        Statement::WhileStatement(_) | Statement::DoWhileStatement(_) | Statement::ForStatement(_) => true,
        Statement::ForInStatement(_) | Statement::ForOfStatement(_) => true,
        _ => false,
    }
}

impl<'a> Inserter<'a> {
    /// Turns the name of a property, which a pattern takes apart further, into a computed one that carries a place.
    fn mark_key(&self, key: &mut PropertyKey<'a>, is_computed: &mut bool) {
        let Some(name) = key.static_name().filter(|_| !*is_computed) else { return };
        let place = key.span();
        let name = self.allocator.alloc_str(&name);
        let read = Expression::new_identifier(place, "NaN", &self.builder);
        let name = Expression::new_string_literal(place, name, None, &self.builder);
        let both = ArenaVec::from_array_in([read, name], &self.allocator);
        *key = PropertyKey::from(Expression::new_sequence_expression(place, both, &self.builder));
        *is_computed = true;
    }
}

impl<'a> VisitMut<'a> for Inserter<'a> {
    fn visit_binding_property(&mut self, it: &mut BindingProperty<'a>) {
        walk_mut::walk_binding_property(self, it);
        let inner = match &it.value {
            BindingPattern::AssignmentPattern(it) => &it.left,
            value => value,
        };
        if inner.is_destructuring_pattern() {
            self.mark_key(&mut it.key, &mut it.computed);
        }
    }

    fn visit_assignment_target_property_property(&mut self, it: &mut AssignmentTargetPropertyProperty<'a>) {
        walk_mut::walk_assignment_target_property_property(self, it);
        let is_pattern = match &it.binding {
            AssignmentTargetMaybeDefault::AssignmentTargetWithDefault(it) => it.binding.is_assignment_target_pattern(),
            AssignmentTargetMaybeDefault::ObjectAssignmentTarget(_)
            | AssignmentTargetMaybeDefault::ArrayAssignmentTarget(_) => true,
            _ => false,
        };
        if is_pattern {
            self.mark_key(&mut it.name, &mut it.computed);
        }
    }

    fn visit_statement(&mut self, it: &mut Statement<'a>) {
        let around = self.is_tight;
        self.is_tight |= self.tight.contains(&it.span());
        walk_mut::walk_statement(self, it);
        self.is_tight = around;
    }

    fn visit_statements(&mut self, it: &mut ArenaVec<'a, Statement<'a>>) {
        if it.iter().any(needs_mark) {
            for statement in it.take_in(&self.allocator) {
                if needs_mark(&statement) {
                    let place = statement.span();
                    let read = Expression::new_identifier(place, "NaN", &self.builder);
                    it.push(Statement::new_expression_statement(place, read, &self.builder));
                }
                it.push(statement);
            }
        }
        walk_mut::walk_statements(self, it);
    }

    fn visit_if_statement(&mut self, it: &mut IfStatement<'a>) {
        let guard = guard_of(it);
        self.wrap_test(&mut it.test, guard);
        self.visit_statement(&mut it.consequent);
        it.alternate.iter_mut().for_each(|it| self.visit_statement(it));
    }

    fn visit_conditional_expression(&mut self, it: &mut ConditionalExpression<'a>) {
        self.wrap_test(&mut it.test, None);
        self.visit_expression(&mut it.consequent);
        self.visit_expression(&mut it.alternate);
    }

    fn visit_throw_statement(&mut self, it: &mut ThrowStatement<'a>) {
        let span = it.argument.span();
        if !span.is_empty() {
            self.wrap(&mut it.argument, Branch::Throw(span.start));
        }
        walk_mut::walk_throw_statement(self, it);
    }

    fn visit_call_expression(&mut self, it: &mut CallExpression<'a>) {
        let method = it.callee.as_member_expression().and_then(|member| member.static_property_name());
        let is_rejection = match it.callee.get_inner_expression() {
            Expression::Identifier(name) => self.rejecting.contains(&name.name.as_str()),
            callee => callee.is_specific_member_access("Promise", "reject"),
        };
        let handler = match method {
            Some("catch") => Some(0),
            Some("then") => Some(1),
            _ => None,
        };
        walk_mut::walk_call_expression(self, it);
        if let Some(reason) = it.arguments.first_mut().filter(|_| is_rejection).and_then(Argument::as_expression_mut)
            && !reason.span().is_empty()
        {
            let place = reason.span().start;
            self.wrap(reason, Branch::Throw(place));
        }
        if let Some(handler) =
            handler.and_then(|index| it.arguments.get_mut(index)).and_then(Argument::as_expression_mut)
        {
            self.tell_handler(handler);
        }
    }

    /// `new Promise((resolve, reject) => …)`: within it, `reject` is a way to throw.
    fn visit_new_expression(&mut self, it: &mut NewExpression<'a>) {
        let parameters = match it.arguments.first().and_then(Argument::as_expression) {
            Some(Expression::ArrowFunctionExpression(executor)) => Some(&executor.params),
            Some(Expression::FunctionExpression(executor)) => Some(&executor.params),
            _ => None,
        };
        let reject = parameters.filter(|_| it.callee.is_specific_id("Promise")).and_then(|it| it.items.get(1));
        let reject = reject.and_then(|it| it.pattern.get_identifier_name()).map(|name| name.as_str());
        self.rejecting.extend(reject);
        walk_mut::walk_new_expression(self, it);
        if reject.is_some() {
            self.rejecting.pop();
        }
    }

    fn visit_catch_clause(&mut self, it: &mut CatchClause<'a>) {
        walk_mut::walk_catch_clause(self, it);
        let name = it.param.as_ref().and_then(|it| it.pattern.get_identifier_name());
        if let Some(name) = name.filter(|_| !it.span.is_empty()) {
            let branch = self.add(Branch::Caught);
            let error = Expression::new_identifier(SPAN, name, &self.builder);
            let told = self.call(branch, error);
            it.body.body.insert(0, Statement::new_expression_statement(SPAN, told, &self.builder));
        }
    }

    fn visit_switch_statement(&mut self, it: &mut SwitchStatement<'a>) {
        if !it.discriminant.span().is_empty() && !self.is_tight {
            let cases = it
                .cases
                .iter()
                .map(|case| match &case.test {
                    Some(test) => self.excerpt(test.span()),
                    None => "default".to_owned(),
                })
                .collect();
            let condition = self.excerpt(it.discriminant.span());
            let branch = self.add(Branch::Switch(condition, cases));
            for (index, case) in it.cases.iter_mut().enumerate() {
                let entered = self.call_of(self.on, branch, self.number(index));
                let entered = Statement::new_expression_statement(SPAN, entered, &self.builder);
                let on = self.on();
                let entered = Statement::new_if_statement(SPAN, on, entered, None, &self.builder);
                case.consequent.insert(0, entered);
            }
        }
        self.visit_expression(&mut it.discriminant);
        for case in &mut it.cases {
            case.test.iter_mut().for_each(|test| self.visit_expression(test));
            self.visit_statements(&mut case.consequent);
        }
    }
}

/// May this be written twice?
fn is_simple(test: &Expression<'_>) -> bool {
    struct Finder(bool);
    impl<'a> Visit<'a> for Finder {
        fn enter_node(&mut self, kind: AstKind<'a>) {
            use AstKind::{ArrowFunctionExpression, Class, ConditionalExpression, Function, ObjectExpression};
            let is_large =
                matches!(kind, ArrowFunctionExpression(_) | Class(_) | ConditionalExpression(_) | Function(_));
            self.0 |= is_large || matches!(kind, ObjectExpression(_) | AstKind::TaggedTemplateExpression(_));
        }
    }
    let mut finder = Finder(test.span().size() > TWICE_BYTES);
    finder.visit_expression(test);
    !finder.0
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Probes, compile},
        Branch::{self, Switch, Switchboard, Test, Throw},
        Guard,
    };

    #[test]
    fn every_kind_of_branch_gets_a_probe() {
        let test = |condition: &str| Test { condition: condition.to_owned(), span: (0, 0), guard: None };
        let switch = Switch("a".to_owned(), vec!["'x'".to_owned(), "default".to_owned()]);
        let table: [(&str, &str, Vec<Branch>); 14] = [
            (
                "if ([].some((x) => x)) b()",
                "if ($probe(0, [].some((x) => x))) return b();",
                vec![test("[].some((x) => x)")],
            ),
            (
                "if (a ? b : c) d()",
                "if ($probe(0, ($on ? $on(1, a) : a) ? b : c))",
                vec![test("a ? b : c"), test("a"), Switchboard],
            ),
            ("if (a > 1) b()", "if ($on ? $on(0, a > 1) : a > 1) return b();", vec![test("a > 1"), Switchboard]),
            ("return a ? 1 : 2", "return ($on ? $on(0, a) : a) ? 1 : 2;", vec![test("a"), Switchboard]),
            (
                "if (a) { b ? 1 : 2 } else if (c) {}",
                "else if ($on ? $on(2, c) : c)",
                vec![test("a"), test("b"), test("c"), Switchboard],
            ),
            (
                "switch (a) { case 'x': b(); break; default: c() }",
                "default:\n\t\t\tif ($on) $on(0, 1);",
                vec![switch, Switchboard],
            ),
            (
                "let $probe = 1; if ($probe) b()",
                "if ($on ? $on(0, $probe) : $probe) return b();",
                vec![test("$probe"), Switchboard],
            ),
            ("while (true) i++", "\tNaN;\n\twhile (true) i++;", vec![]),
            ("a: for (;;) continue a", "\tNaN;\n\ta: for", vec![]),
            ("{ for (const x of y) {} }", "\t\tNaN;\n\t\tfor (const x of y)", vec![]),
            ("throw 'x'", "throw $probe(0, \"x\");", vec![Throw(6)]),
            (
                "const { a: { b }, c: [d] = [], e } = f",
                "const { [(NaN, \"a\")]: { b }, [(NaN, \"c\")]: [d] = [], e } = f;",
                vec![],
            ),
            ("({ a: { b } } = c)", "{[(NaN, \"a\")]: {b}} = c", vec![]),
            ("const { a } = b; [c] = d", "NaN;\n\tconst { a } = b;\n\tNaN;\n\treturn [c] = d;", vec![]),
        ];
        for (code, expected, branches) in table {
            let program = compile(code, "agent.ts", Probes::Insert).unwrap();
            assert!(program.javascript.contains(expected), "{code} became {}", program.javascript);
            let found = program.branches.into_iter().map(|it| match it {
                Test { condition, .. } => test(&condition),
                it => it,
            });
            assert_eq!(found.collect::<Vec<_>>(), branches, "{code}");
        }
    }

    #[test]
    fn conditions_that_let_elements_through_are_known() {
        let table = [
            ("for (const x of y) { if (x.a) continue; await f(x) }", Some(Guard::Skips)),
            ("y.forEach((x) => { if (!x.a) return; f(x) })", Some(Guard::Skips)),
            ("for (const x of y) { if (x.a) { continue } await f(x) }", Some(Guard::Skips)),
            ("for (const x of y) { if (x.a) await f(x) }", Some(Guard::Admits)),
            ("for (const x of y) { if (x.a) { f(x); g(x) } }", Some(Guard::Admits)),
            ("for (const x of y) { if (x.a) await f(x); else g(x) }", None),
            ("for (const x of y) { if (f(x)) break }", None),
            ("if (x.a) return 1; f()", None),
            ("return x.a ? f() : g()", None),
        ];
        for (code, expected) in table {
            let program = compile(code, "agent.ts", Probes::Insert).unwrap();
            let found = program.branches.iter().find_map(|it| match it {
                Test { guard, .. } => Some(*guard),
                _ => None,
            });
            assert_eq!(found.flatten(), expected, "{code}");
        }
    }

    #[test]
    fn conditions_in_loops_that_only_compute_get_no_probe() {
        let table = [
            ("for (let i = 0; i < 9; i++) { if (i % 2) n++; }", 0),
            ("for (const r of rows) { if (r.a) { for (const k in r) n += r[k] ? 1 : 0 } }", 0),
            ("a: while (b) { switch (b) { case 1: continue a; default: b-- } }", 0),
            ("for (const r of rows) do { if (r.a) break } while (r.b)", 0),
            // What the program does depends on it.
            ("for (const r of rows) { if (r.a) await mcp.a.b({}) }", 1),
            ("for (const r of rows) { if (r.a) seen.add(r) }", 1),
            ("for (const r of rows) { while (r.b) { if (r.a) f() } }", 1),
            ("for (const r of rows) { if (r.a) return r }", 1),
            ("for (const r of rows) { if (r.a) throw r }", 1),
            ("for (const r of rows) { if (r.a) f`b` }", 1),
            ("for await (const r of rows) { if (r.a) n++ }", 1),
            // Only the inner loop computes.
            ("for (const r of rows) { if (r.a) f(); for (const k of r.b) { if (k) n++ } }", 1),
            ("for (const r of rows) n++; if (n) m++", 1),
        ];
        for (code, expected) in table {
            let program = compile(code, "agent.ts", Probes::Insert).unwrap();
            let decisions = program.branches.iter().filter(|it| matches!(it, Test { .. } | Switch(..))).count();
            assert_eq!(decisions, expected, "{code} became {}", program.javascript);
        }
    }

    #[test]
    fn a_program_without_branches_has_no_probe() {
        let program = compile("enum E { A } return E.A", "agent.ts", Probes::Insert).unwrap();
        assert_eq!(program.branches, []);
    }

    #[test]
    fn long_conditions_are_shortened_at_a_character() {
        let code = format!("if ('{}') 1", "é".repeat(200));
        let program = compile(&code, "agent.ts", Probes::Insert).unwrap();
        let [Test { condition, .. }, ..] = &program.branches[..] else { panic!("{:?}", program.branches) };
        assert_eq!(condition.chars().count(), 81);
    }
}
