//! The value that a program computed and did not return, for a warning.
//!
//! A guess by names: the last variable that is never read, only made or added to. It is told only if
//! the run ends without a value.

use std::collections::HashMap;

use oxc::{
    ast::{AstKind, ast::*},
    ast_visit::{Visit, walk},
    span::Span,
};

use super::Source;

/// Methods that change the object they are called on.
const CHANGES: [&str; 7] = ["push", "unshift", "set", "add", "append", "fill", "splice"];

/// What to say of a program that ends without a value. `main` is the function that was called for it, if one was.
pub(super) fn warning(program: &oxc::ast::ast::Program<'_>, main: Option<&str>, source: &Source) -> Option<String> {
    let mut finder = Finder { main, depth: 0, variables: Vec::new(), uses: HashMap::new() };
    finder.visit_program(program);
    let (name, span) = finder.variables.iter().rev().find(|(name, _)| {
        let uses = finder.uses.get(name).copied().unwrap_or_default();
        uses.all == uses.changes
    })?;
    let line = source.position(span.start).line;
    let subject = main.map_or_else(|| "the program".to_owned(), |main| format!("`{main}`"));
    Some(format!(
        "{subject} ended without a value although it computed `{name}` (line {line}): end it with `return {name}`"
    ))
}

/// What to say of a program that defines functions and calls none.
pub(super) fn uncalled_warning(functions: &[&str]) -> Option<String> {
    let [first, _, ..] = functions else { return None };
    let names: Vec<_> = functions.iter().take(5).map(|name| format!("`{name}`")).collect();
    let names = names.join(", ");
    Some(format!(
        "nothing was run: the program defines {names} and calls none of them; end it with `return await {first}(…)`"
    ))
}

/// What to say of a program whose result is what `list.push()` gives.
pub(super) fn length_warning(value: &Expression<'_>) -> Option<String> {
    let Expression::CallExpression(call) = value.get_inner_expression() else { return None };
    let method = call.callee.as_member_expression()?;
    let name = method.static_property_name().filter(|name| matches!(*name, "push" | "unshift"))?;
    let list = method.object().get_identifier_reference()?.name;
    Some(format!("the result is the length that `{list}.{name}()` gives: end the program with `return {list}`"))
}

#[derive(Clone, Copy, Default)]
struct Uses {
    all: usize,
    changes: usize,
}

struct Finder<'m, 'a> {
    main: Option<&'m str>,
    /// Functions around the current place, without the one that is the program.
    depth: isize,
    variables: Vec<(&'a str, Span)>,
    uses: HashMap<&'a str, Uses>,
}

impl<'a> Finder<'_, 'a> {
    fn is_main(&self, kind: AstKind<'a>) -> bool {
        match kind {
            AstKind::Function(it) => it.id.as_ref().is_some_and(|id| self.main == Some(id.name.as_str())),
            _ => false,
        }
    }

    fn enters_function(&self, kind: AstKind<'a>) -> bool {
        matches!(kind, AstKind::Function(_) | AstKind::ArrowFunctionExpression(_) | AstKind::Class(_))
            && !self.is_main(kind)
    }

    fn change(&mut self, value: &Expression<'a>) {
        let mut root = value.get_inner_expression();
        while let Some(member) = root.as_member_expression() {
            root = member.object().get_inner_expression();
        }
        if let Expression::Identifier(name) = root {
            self.uses.entry(name.name.as_str()).or_default().changes += 1;
        }
    }
}

impl<'a> Visit<'a> for Finder<'_, 'a> {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        self.depth += isize::from(self.enters_function(kind));
    }

    fn leave_node(&mut self, kind: AstKind<'a>) {
        self.depth -= isize::from(self.enters_function(kind));
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        self.uses.entry(it.name.as_str()).or_default().all += 1;
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        let is_main = matches!(&it.id, BindingPattern::BindingIdentifier(id) if self.main == Some(id.name.as_str()));
        let is_value = it.init.as_ref().is_none_or(|init| !super::entry::is_function(init));
        if self.depth == 0
            && is_value
            && let BindingPattern::BindingIdentifier(id) = &it.id
        {
            self.variables.push((id.name.as_str(), id.span));
        }
        // The function that is the program is not counted as one.
        if is_main {
            self.depth -= 1;
        }
        walk::walk_variable_declarator(self, it);
        if is_main {
            self.depth += 1;
        }
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        // The variable of a loop is no result.
        let before = self.variables.len();
        self.visit_for_statement_left(&it.left);
        self.variables.truncate(before);
        self.visit_expression(&it.right);
        self.visit_statement(&it.body);
    }

    fn visit_for_in_statement(&mut self, it: &ForInStatement<'a>) {
        let before = self.variables.len();
        self.visit_for_statement_left(&it.left);
        self.variables.truncate(before);
        self.visit_expression(&it.right);
        self.visit_statement(&it.body);
    }

    fn visit_expression_statement(&mut self, it: &ExpressionStatement<'a>) {
        match it.expression.get_inner_expression() {
            Expression::CallExpression(call) => {
                let method = call.callee.as_member_expression();
                if let Some(method) =
                    method.filter(|it| it.static_property_name().is_some_and(|it| CHANGES.contains(&it)))
                {
                    self.change(method.object());
                }
            }
            Expression::UpdateExpression(update) => match &update.argument {
                SimpleAssignmentTarget::AssignmentTargetIdentifier(name) => {
                    self.uses.entry(name.name.as_str()).or_default().changes += 1;
                }
                target => target.as_member_expression().iter().for_each(|member| self.change(member.object())),
            },
            Expression::AssignmentExpression(assignment) => match &assignment.left {
                AssignmentTarget::AssignmentTargetIdentifier(name) => {
                    self.uses.entry(name.name.as_str()).or_default().changes += 1;
                }
                target => target.as_member_expression().iter().for_each(|member| self.change(member.object())),
            },
            _ => {}
        }
        walk::walk_expression_statement(self, it);
    }
}
