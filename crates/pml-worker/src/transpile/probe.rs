//! Branch probes: what makes a trace able to say which way a program went.
//!
//! `if (c)` becomes `if ($probe(0, c))`; `c ? a : b` likewise; each `case` begins with
//! `$probe(0, k)`. A probe returns its second argument, so the program cannot tell the difference.
//! What a probe reports is what the program says of itself: good for learning, never for security.

use oxc::{
    allocator::{Allocator, ArenaVec, TakeIn},
    ast::{ast::*, builder::AstBuilder},
    ast_visit::{VisitMut, walk_mut},
    span::{GetSpan, SPAN, Span},
    syntax::number::NumberBase,
};

/// Longest condition text that is kept.
const CONDITION_CHARS: usize = 80;

/// A place where the program chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    /// The condition as written, shortened.
    pub(crate) condition: String,
    /// The labels of a `switch`, in order; empty for `if` and `?:`.
    pub(crate) cases: Vec<String>,
}

/// Puts probes into `program`. Returns the branches and the name that the probes call.
pub(super) fn insert<'a>(
    allocator: &'a Allocator,
    program: &mut oxc::ast::ast::Program<'a>,
    text: &'a str,
) -> (Vec<Branch>, Option<String>) {
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
    let branches = inserter.branches;
    let name = (!branches.is_empty()).then_some(name);
    (branches, name)
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

    fn add(&mut self, condition: Span, cases: Vec<String>) -> usize {
        self.branches.push(Branch { condition: self.excerpt(condition), cases });
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

    fn wrap(&mut self, test: &mut Expression<'a>) {
        // What the transformer made up has no place in the source, and is no decision of the agent.
        if test.span().is_empty() {
            return;
        }
        let branch = self.add(test.span(), Vec::new());
        let value = test.take_in(&self.allocator);
        *test = self.call(branch, value);
    }
}

impl<'a> VisitMut<'a> for Inserter<'a> {
    fn visit_if_statement(&mut self, it: &mut IfStatement<'a>) {
        self.wrap(&mut it.test);
        walk_mut::walk_if_statement(self, it);
    }

    fn visit_conditional_expression(&mut self, it: &mut ConditionalExpression<'a>) {
        self.wrap(&mut it.test);
        walk_mut::walk_conditional_expression(self, it);
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
            let branch = self.add(it.discriminant.span(), cases);
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
    use super::super::{Probes, compile};

    #[test]
    fn every_kind_of_branch_gets_a_probe() {
        let table = [
            ("if (a > 1) b()", "if ($probe(0, a > 1)) b();", &["a > 1"][..]),
            ("return a ? 1 : 2", "return $probe(0, a) ? 1 : 2;", &["a"]),
            ("if (a) { b ? 1 : 2 } else if (c) {}", "else if ($probe(2, c))", &["a", "b", "c"]),
            ("switch (a) { case 'x': b(); break; default: c() }", "$probe(0, 1);", &["a"]),
            ("let $probe = 1; if ($probe) b()", "if ($probe$(0, $probe)) b();", &["$probe"]),
        ];
        for (code, expected, conditions) in table {
            let program = compile(code, "agent.ts", Probes::Insert).unwrap();
            assert!(program.javascript.contains(expected), "{code} became {}", program.javascript);
            let actual: Vec<_> = program.branches.iter().map(|branch| branch.condition.as_str()).collect();
            assert_eq!(actual, conditions, "{code}");
        }
    }

    #[test]
    fn a_program_without_branches_has_no_probe() {
        let program = compile("enum E { A } return E.A", "agent.ts", Probes::Insert).unwrap();
        assert_eq!((program.branches, program.probe_name), (Vec::new(), None));
    }

    #[test]
    fn long_conditions_are_shortened_at_a_character() {
        let code = format!("if ('{}') 1", "é".repeat(200));
        let program = compile(&code, "agent.ts", Probes::Insert).unwrap();
        assert_eq!(program.branches[0].condition.chars().count(), 81);
    }
}
