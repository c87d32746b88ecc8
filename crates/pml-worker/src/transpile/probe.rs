//! Branch probes: what makes a trace able to say which way a program went.
//!
//! `if (c)` becomes `if ($probe(0, c))`; `c ? a : b` likewise; each `case` begins with
//! `$probe(0, k)`. `throw x` becomes `throw $probe(0, x)`, since a thrown value that is no `Error`
//! does not know where it came from. A probe returns its second argument, so the program cannot
//! tell the difference. A loop that calls nothing gets a bare `NaN;` in its body: the engine
//! notes its place in the code only at calls and reads of globals, and a timeout wants to name the
//! loop (7 ns a turn, measured). What a probe reports is what the program says of itself: good for
//! learning and for messages, never for security.

use oxc::{
    allocator::{Allocator, ArenaVec, TakeIn},
    ast::{ast::*, builder::AstBuilder},
    ast_visit::{Visit, VisitMut, walk_mut},
    span::{GetSpan, SPAN, Span},
    syntax::{number::NumberBase, scope::ScopeFlags},
};

/// Longest condition text that is kept.
const CONDITION_CHARS: usize = 80;

/// A place that reports when the program passes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Branch {
    /// An `if` or `?:`, with its condition as written, shortened.
    Test(String),
    /// A `switch`: what it looks at, and its labels in order.
    Switch(String, Vec<String>),
    /// A `throw`, and where in the text its value begins.
    Throw(u32),
}

/// Puts probes into `program`. Returns the branches and the name that the probes call.
pub(super) fn insert<'a>(
    allocator: &'a Allocator,
    program: &mut oxc::ast::ast::Program<'a>,
    text: &'a str,
) -> (Vec<Branch>, Option<&'a str>) {
    // A name that is nowhere in the text, so that the program neither sees nor hides it.
    let mut name = "$probe".to_owned();
    while text.contains(&name) {
        name.push('$');
    }
    let mut inserter = Inserter {
        builder: AstBuilder::new(allocator),
        allocator,
        text,
        name: allocator.alloc_str(&name),
        branches: Vec::new(),
    };
    inserter.visit_program(program);
    let is_used = !inserter.branches.is_empty();
    (inserter.branches, is_used.then_some(inserter.name))
}

struct Inserter<'a> {
    builder: AstBuilder<'a>,
    allocator: &'a Allocator,
    text: &'a str,
    name: &'a str,
    branches: Vec<Branch>,
}

impl<'a> Inserter<'a> {
    fn excerpt(&self, span: Span) -> String {
        let text = span.source_text(self.text);
        match text.char_indices().nth(CONDITION_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        }
    }

    fn add(&mut self, branch: Branch) -> usize {
        self.branches.push(branch);
        self.branches.len() - 1
    }

    fn number(&self, value: usize) -> Expression<'a> {
        Expression::new_numeric_literal(SPAN, value as f64, None, NumberBase::Decimal, &self.builder)
    }

    fn call(&self, branch: usize, value: Expression<'a>) -> Expression<'a> {
        let mut arguments = ArenaVec::new_in(&self.allocator);
        arguments.push(Argument::from(self.number(branch)));
        arguments.push(Argument::from(value));
        let callee = Expression::new_identifier(SPAN, self.name, &self.builder);
        Expression::new_call_expression(SPAN, callee, None, arguments, false, &self.builder)
    }

    /// Puts a probe around a value.
    fn wrap(&mut self, value: &mut Expression<'a>, branch: Branch) {
        let branch = self.add(branch);
        let inner = value.take_in(&self.allocator);
        *value = self.call(branch, inner);
    }

    fn wrap_test(&mut self, test: &mut Expression<'a>) {
        // What the transformer made up has no place in the source, and is no decision of the agent.
        if !test.span().is_empty() {
            let condition = self.excerpt(test.span());
            self.wrap(test, Branch::Test(condition));
        }
    }
}

impl<'a> Inserter<'a> {
    /// Puts a mark into the body of a loop in which the engine would lose its place.
    fn mark_loop(&mut self, place: Span, body: &mut Statement<'a>, notes_place: bool) {
        if notes_place || notes_its_place(|finder| finder.visit_statement(body)) {
            return;
        }
        let mut statements = ArenaVec::new_in(&self.allocator);
        let read = Expression::new_identifier(place, "NaN", &self.builder);
        statements.push(Statement::new_expression_statement(place, read, &self.builder));
        statements.push(body.take_in(&self.allocator));
        *body = Statement::new_block_statement(SPAN, statements, &self.builder);
    }
}

/// Is there an operation at which the engine notes where it is?
fn notes_its_place(visit: impl FnOnce(&mut PlaceFinder)) -> bool {
    let mut finder = PlaceFinder(false);
    visit(&mut finder);
    finder.0
}

struct PlaceFinder(bool);

impl<'a> Visit<'a> for PlaceFinder {
    fn visit_call_expression(&mut self, _: &CallExpression<'a>) {
        self.0 = true;
    }

    fn visit_new_expression(&mut self, _: &NewExpression<'a>) {
        self.0 = true;
    }

    fn visit_await_expression(&mut self, _: &AwaitExpression<'a>) {
        self.0 = true;
    }

    // What a nested function does is not done by the loop.
    fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}

    fn visit_arrow_function_expression(&mut self, _: &ArrowFunctionExpression<'a>) {}
}

impl<'a> VisitMut<'a> for Inserter<'a> {
    fn visit_while_statement(&mut self, it: &mut WhileStatement<'a>) {
        let notes_place = notes_its_place(|finder| finder.visit_expression(&it.test));
        self.mark_loop(it.span, &mut it.body, notes_place);
        walk_mut::walk_while_statement(self, it);
    }

    fn visit_do_while_statement(&mut self, it: &mut DoWhileStatement<'a>) {
        let notes_place = notes_its_place(|finder| finder.visit_expression(&it.test));
        self.mark_loop(it.span, &mut it.body, notes_place);
        walk_mut::walk_do_while_statement(self, it);
    }

    fn visit_for_statement(&mut self, it: &mut ForStatement<'a>) {
        let repeated = [&it.test, &it.update];
        let notes_place =
            repeated.into_iter().flatten().any(|part| notes_its_place(|finder| finder.visit_expression(part)));
        self.mark_loop(it.span, &mut it.body, notes_place);
        walk_mut::walk_for_statement(self, it);
    }

    fn visit_if_statement(&mut self, it: &mut IfStatement<'a>) {
        self.wrap_test(&mut it.test);
        walk_mut::walk_if_statement(self, it);
    }

    fn visit_conditional_expression(&mut self, it: &mut ConditionalExpression<'a>) {
        self.wrap_test(&mut it.test);
        walk_mut::walk_conditional_expression(self, it);
    }

    fn visit_throw_statement(&mut self, it: &mut ThrowStatement<'a>) {
        let span = it.argument.span();
        if !span.is_empty() && !matches!(it.argument, Expression::NewExpression(_)) {
            self.wrap(&mut it.argument, Branch::Throw(span.start));
        }
        walk_mut::walk_throw_statement(self, it);
    }

    fn visit_switch_statement(&mut self, it: &mut SwitchStatement<'a>) {
        if !it.discriminant.span().is_empty() {
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
                let entered = self.call(branch, self.number(index));
                let entered = Statement::new_expression_statement(SPAN, entered, &self.builder);
                case.consequent.insert(0, entered);
            }
        }
        walk_mut::walk_switch_statement(self, it);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Probes, compile},
        Branch::{self, Switch, Test, Throw},
    };

    #[test]
    fn every_kind_of_branch_gets_a_probe() {
        let test = |condition: &str| Test(condition.to_owned());
        let switch = Switch("a".to_owned(), vec!["'x'".to_owned(), "default".to_owned()]);
        let table: [(&str, &str, Vec<Branch>); 10] = [
            ("if (a > 1) b()", "if ($probe(0, a > 1)) b();", vec![test("a > 1")]),
            ("return a ? 1 : 2", "return $probe(0, a) ? 1 : 2;", vec![test("a")]),
            ("if (a) { b ? 1 : 2 } else if (c) {}", "else if ($probe(2, c))", vec![test("a"), test("b"), test("c")]),
            ("switch (a) { case 'x': b(); break; default: c() }", "$probe(0, 1);", vec![switch]),
            ("let $probe = 1; if ($probe) b()", "if ($probe$(0, $probe)) b();", vec![test("$probe")]),
            ("while (true) i++", "while (true) {\n\t\tNaN;\n\t\ti++;", vec![]),
            ("for (;;) { let a = 1 }", "NaN;", vec![]),
            ("while (f()) {}", "while (f()) {}", vec![]),
            ("throw 'x'", "throw $probe(0, \"x\");", vec![Throw(6)]),
            ("throw new Error('x')", "throw new Error(\"x\");", vec![]),
        ];
        for (code, expected, branches) in table {
            let program = compile(code, "agent.ts", Probes::Insert).unwrap();
            assert!(program.javascript.contains(expected), "{code} became {}", program.javascript);
            assert_eq!(program.branches, branches, "{code}");
        }
    }

    #[test]
    fn a_program_without_branches_has_no_probe() {
        let program = compile("enum E { A } return E.A", "agent.ts", Probes::Insert).unwrap();
        assert_eq!(program.branches, []);
        assert!(program.javascript.contains("async () =>"));
    }

    #[test]
    fn long_conditions_are_shortened_at_a_character() {
        let code = format!("if ('{}') 1", "é".repeat(200));
        let program = compile(&code, "agent.ts", Probes::Insert).unwrap();
        let [Test(condition)] = &program.branches[..] else { panic!("{:?}", program.branches) };
        assert_eq!(condition.chars().count(), 81);
    }
}
