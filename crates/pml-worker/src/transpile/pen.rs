//! Writes JavaScript of ours into a program: what watches values on their way.

use oxc::{
    allocator::{Allocator, ArenaVec},
    ast::{ast::*, builder::AstBuilder},
    span::{SPAN, Span},
    syntax::number::NumberBase,
};

/// Makes the pieces that the passes share.
pub(super) struct Pen<'a> {
    pub(super) allocator: &'a Allocator,
    pub(super) builder: AstBuilder<'a>,
    /// The agent's text.
    pub(super) text: &'a str,
    /// The function that is told, by the index of a branch.
    pub(super) probe: &'a str,
    /// The variable that keeps a longer expression, so that it runs once.
    pub(super) kept: &'a str,
}

impl<'a> Pen<'a> {
    pub(super) fn new(allocator: &'a Allocator, text: &'a str, probe: &'a str, kept: &'a str) -> Pen<'a> {
        Pen { allocator, builder: AstBuilder::new(allocator), text, probe, kept }
    }

    pub(super) fn name(&self, span: Span, name: &'a str) -> Expression<'a> {
        Expression::new_identifier(span, name, &self.builder)
    }

    pub(super) fn number(&self, value: usize) -> Expression<'a> {
        Expression::new_numeric_literal(SPAN, value as f64, None, NumberBase::Decimal, &self.builder)
    }

    /// `$probe(branch, value)`.
    pub(super) fn tell(&self, branch: usize, value: Expression<'a>) -> Expression<'a> {
        let mut arguments = ArenaVec::new_in(&self.allocator);
        arguments.push(Argument::from(self.number(branch)));
        arguments.push(Argument::from(value));
        let probe = self.name(SPAN, self.probe);
        Expression::new_call_expression(SPAN, probe, None, arguments, false, &self.builder)
    }

    /// `name = value`.
    pub(super) fn set(&self, name: &'a str, value: Expression<'a>) -> Expression<'a> {
        let target = AssignmentTarget::new_assignment_target_identifier(SPAN, name, &self.builder);
        Expression::new_assignment_expression(SPAN, AssignmentOperator::Assign, target, value, &self.builder)
    }

    /// `[first, …, last]`.
    pub(super) fn list(&self, elements: impl IntoIterator<Item = Expression<'a>>) -> Expression<'a> {
        let elements = elements.into_iter().map(ArrayExpressionElement::from);
        let elements = ArenaVec::from_iter_in(elements, &self.allocator);
        Expression::new_array_expression(SPAN, elements, &self.builder)
    }

    /// `test ? yes : no`.
    pub(super) fn choose(&self, test: Expression<'a>, yes: Expression<'a>, no: Expression<'a>) -> Expression<'a> {
        Expression::new_conditional_expression(SPAN, test, yes, no, &self.builder)
    }

    /// `(first, …, last)`.
    pub(super) fn sequence<const N: usize>(&self, steps: [Expression<'a>; N]) -> Expression<'a> {
        Expression::new_sequence_expression(SPAN, ArenaVec::from_array_in(steps, &self.allocator), &self.builder)
    }

    /// Declares variables in front of the program: behind the imports, which are no statements in the end.
    pub(super) fn declare(
        &self,
        program: &mut oxc::ast::ast::Program<'a>,
        variables: impl Iterator<Item = (&'a str, Option<Expression<'a>>)>,
    ) {
        let mut declarators = ArenaVec::new_in(&self.allocator);
        for (name, value) in variables {
            let name = BindingPattern::new_binding_identifier(SPAN, name, &self.builder);
            declarators.push(VariableDeclarator::new(SPAN, name, None, value, false, &self.builder));
        }
        if declarators.is_empty() {
            return;
        }
        let kind = VariableDeclarationKind::Var;
        let declaration = Declaration::new_variable_declaration(SPAN, kind, declarators, false, &self.builder).into();
        let first = program.body.iter().position(|it| !matches!(it, Statement::ImportDeclaration(_)));
        let first = first.unwrap_or(program.body.len());
        program.body.insert(first, declaration);
    }
}
