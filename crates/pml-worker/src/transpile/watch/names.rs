//! Variables that may hold a part of a result, and lists that are written out.

use std::collections::{HashMap, HashSet};

use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
};

use super::{
    places::{is_time, literal},
    watched::Literal,
};

/// What the variables of a program hold, by name.
#[derive(Default)]
pub(in crate::transpile) struct Names<'a> {
    /// Does each declaration of the name take a value out of another one: a pattern, a parameter, `const a = x.b`?
    taken: HashMap<&'a str, bool>,
    /// The literals in a list or Set that is declared once. None if it is declared again.
    lists: HashMap<&'a str, Option<Vec<Literal>>>,
    /// The literal that a constant holds. None if the name is declared again.
    constants: HashMap<&'a str, Option<Literal>>,
    /// Does the name hold milliseconds or a date: `const now = Date.now()`?
    times: HashMap<&'a str, bool>,
    /// Is this a declaration of constants?
    is_const: bool,
    /// Parameters, which the program may leave out or give as `null` itself.
    parameters: HashSet<&'a str>,
}

impl<'a> Names<'a> {
    pub(in crate::transpile) fn of(program: &oxc::ast::ast::Program<'a>) -> Names<'a> {
        let mut names = Names::default();
        names.visit_program(program);
        names
    }

    pub(super) fn is_taken(&self, name: &str) -> bool {
        self.taken.get(name).copied().unwrap_or(false)
    }

    /// Does the program declare the name?
    pub(super) fn knows(&self, name: &str) -> bool {
        self.taken.contains_key(name)
    }

    pub(super) fn constant(&self, name: &str) -> Option<&Literal> {
        self.constants.get(name)?.as_ref()
    }

    pub(super) fn is_parameter(&self, name: &str) -> bool {
        self.parameters.contains(name)
    }

    pub(super) fn is_time(&self, name: &str) -> bool {
        self.times.get(name).copied().unwrap_or(false)
    }

    pub(super) fn list(&self, name: &str) -> Option<&Vec<Literal>> {
        self.lists.get(name)?.as_ref()
    }

    fn note(&mut self, name: &'a str, is_taken: bool) {
        self.taken.entry(name).and_modify(|all| *all &= is_taken).or_insert(is_taken);
        self.note_constant(name, None);
    }

    fn note_constant(&mut self, name: &'a str, value: Option<Literal>) {
        self.constants.entry(name).and_modify(|it| *it = None).or_insert(value);
    }

    fn note_pattern(&mut self, pattern: &BindingPattern<'a>, is_taken: bool) {
        for id in pattern.get_binding_identifiers() {
            self.note(id.name.as_str(), is_taken);
        }
    }
}

impl<'a> Visit<'a> for Names<'a> {
    fn visit_variable_declaration(&mut self, it: &VariableDeclaration<'a>) {
        for declarator in &it.declarations {
            self.is_const = it.kind.is_const();
            self.visit_variable_declarator(declarator);
        }
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        match (&it.id, &it.init) {
            (BindingPattern::BindingIdentifier(id), Some(value)) => {
                match literal(value).filter(|_| self.is_const) {
                    Some(literal) => {
                        self.note_constant(id.name.as_str(), Some(literal));
                        self.taken.insert(id.name.as_str(), false);
                    }
                    None => self.note(id.name.as_str(), is_read(value)),
                }
                let is_time = is_time(value, self);
                self.times.entry(id.name.as_str()).and_modify(|all| *all &= is_time).or_insert(is_time);
                let literals = list_of(value);
                self.lists.entry(id.name.as_str()).and_modify(|it| *it = None).or_insert(literals);
            }
            (BindingPattern::BindingIdentifier(_), None) => {}
            (pattern, _) => self.note_pattern(pattern, true),
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        if let ForStatementLeft::VariableDeclaration(declaration) = &it.left {
            declaration.declarations.iter().for_each(|it| self.note_pattern(&it.id, true));
        }
        walk::walk_for_of_statement(self, it);
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        self.note_pattern(&it.pattern, true);
        if let BindingPattern::BindingIdentifier(id) = &it.pattern {
            self.parameters.insert(id.name.as_str());
        }
        walk::walk_formal_parameter(self, it);
    }

    fn visit_catch_parameter(&mut self, it: &CatchParameter<'a>) {
        self.note_pattern(&it.pattern, false);
        walk::walk_catch_parameter(self, it);
    }
}

/// Does the value come from somewhere else?
fn is_read(value: &Expression<'_>) -> bool {
    match value.get_inner_expression() {
        Expression::AwaitExpression(_) | Expression::CallExpression(_) | Expression::ChainExpression(_) => true,
        Expression::LogicalExpression(it) => is_read(&it.left),
        value => value.is_member_expression(),
    }
}

/// The literals of `["a", "b"]` and `new Set(["a", "b"])`, if it has nothing else.
pub(super) fn list_of(value: &Expression<'_>) -> Option<Vec<Literal>> {
    match value.get_inner_expression() {
        Expression::ArrayExpression(it) if !it.elements.is_empty() => {
            it.elements.iter().map(|element| literal(element.as_expression()?)).collect()
        }
        Expression::NewExpression(it) if it.callee.is_specific_id("Set") && it.arguments.len() == 1 => {
            list_of(it.arguments.first()?.as_expression()?)
        }
        _ => None,
    }
}
