//! The operations of a program that can fail, each with the place that the engine gives its failure.
//!
//! The engine notes a place where it reads a name, before the arguments of a call, before the right side
//! of an operator and at the start of a statement, and gives an error the place that it noted last, in the order of
//! the text. The walk does the same.

use oxc::{
    ast::{AstKind, ast::*},
    ast_visit::{Visit, walk},
    span::GetSpan,
    syntax::scope::ScopeFlags,
};

/// What an operation does to its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Set,
    Call,
    New,
    Iterate,
    TakeApart,
}

#[derive(Clone, Copy)]
pub(super) struct Operation<'a> {
    pub(super) kind: Kind,
    /// Where the engine places a failure.
    pub(super) place: u32,
    /// Where it stands.
    pub(super) start: u32,
    /// What has to be of the right kind: the object, the function, the iterated value. Nothing for parameters.
    pub(super) subject: Option<&'a Expression<'a>>,
    /// The property that is read or set, if it is written out.
    pub(super) property: Option<&'a str>,
    pub(super) arguments: &'a [Argument<'a>],
    /// A pattern with patterns in it: what has to be of the right kind may be a part of the subject.
    pub(super) is_nested: bool,
}

pub(super) fn find<'a>(program: &oxc::ast::ast::Program<'a>) -> Vec<Operation<'a>> {
    let mut finder = Finder { place: 0, is_shorthand: false, outer: Vec::new(), operations: Vec::new() };
    finder.visit_program(program);
    finder.operations
}

struct Finder<'a> {
    place: u32,
    /// Is the next name that of `{ name }`?
    is_shorthand: bool,
    /// The places in the functions around.
    outer: Vec<u32>,
    operations: Vec<Operation<'a>>,
}

impl<'a> Finder<'a> {
    fn add(&mut self, kind: Kind, start: u32, subject: Option<&'a Expression<'a>>, property: Option<&'a str>) {
        self.operations.push(Operation {
            kind,
            place: self.place,
            start,
            subject,
            property,
            arguments: &[],
            is_nested: false,
        });
    }

    fn add_pattern(&mut self, pattern: &BindingPattern<'a>, value: Option<&'a Expression<'a>>) {
        match pattern {
            BindingPattern::ObjectPattern(it) => {
                self.add(Kind::TakeApart, it.span.start, value, None);
                let is_nested = it.properties.iter().any(|property| property.value.is_destructuring_pattern());
                if let Some(last) = self.operations.last_mut() {
                    last.is_nested = is_nested;
                }
            }
            BindingPattern::ArrayPattern(it) => self.add(Kind::Iterate, it.span.start, value, None),
            _ => {}
        }
    }

    fn enter_function(&mut self, start: u32) {
        self.outer.push(self.place);
        self.place = start;
    }

    fn leave_function(&mut self) {
        self.place = self.outer.pop().unwrap_or(0);
    }
}

impl<'a> Visit<'a> for Finder<'a> {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        match kind {
            // Of `{ path }` the engine notes no place.
            AstKind::IdentifierReference(_) if self.is_shorthand => self.is_shorthand = false,
            AstKind::IdentifierReference(it) => self.place = it.span.start,
            AstKind::ObjectProperty(it) => self.is_shorthand = it.shorthand,
            AstKind::ExpressionStatement(it) => self.place = it.span.start,
            AstKind::ThrowStatement(it) => self.place = it.argument.span().start,
            AstKind::NewExpression(it) => self.place = it.callee.span().start,
            _ => {}
        }
    }

    fn leave_node(&mut self, kind: AstKind<'a>) {
        match kind {
            AstKind::StaticMemberExpression(it) => {
                self.add(Kind::Read, it.span.start, Some(&it.object), Some(it.property.name.as_str()));
            }
            AstKind::ComputedMemberExpression(it) => {
                let name = match &it.expression {
                    Expression::NumericLiteral(number) => number.raw.as_ref().map(|raw| raw.as_str()),
                    _ => it.static_property_name().map(|name| name.as_str()),
                };
                self.add(Kind::Read, it.span.start, Some(&it.object), name);
            }
            AstKind::NewExpression(it) => {
                self.add(Kind::New, it.span.start, Some(&it.callee), None);
                if let Some(last) = self.operations.last_mut() {
                    last.arguments = &it.arguments;
                }
            }
            AstKind::SpreadElement(it) => self.add(Kind::Iterate, it.span.start, Some(&it.argument), None),
            AstKind::AssignmentExpression(it) => match &it.left {
                AssignmentTarget::StaticMemberExpression(member) => {
                    let name = member.property.name.as_str();
                    self.add(Kind::Set, it.span.start, Some(&member.object), Some(name));
                }
                AssignmentTarget::ComputedMemberExpression(member) => {
                    self.add(Kind::Set, it.span.start, Some(&member.object), None);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        let it = self.alloc(it);
        self.visit_expression(&it.callee);
        if let Some(member) = it.callee.as_member_expression()
            && let Some((span, _)) = member.static_property_info()
        {
            self.place = span.start;
        }
        self.visit_arguments(&it.arguments);
        self.add(Kind::Call, it.span.start, Some(&it.callee), None);
        if let Some(last) = self.operations.last_mut() {
            last.arguments = &it.arguments;
        }
    }

    fn visit_binary_expression(&mut self, it: &BinaryExpression<'a>) {
        self.visit_expression(&it.left);
        self.place = it.right.span().start;
        self.visit_expression(&it.right);
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        let value = self.alloc(&it.right);
        match &it.left {
            AssignmentTarget::ObjectAssignmentTarget(_) => {
                self.add(Kind::TakeApart, it.span.start, Some(value), None);
            }
            AssignmentTarget::ArrayAssignmentTarget(_) => self.add(Kind::Iterate, it.span.start, Some(value), None),
            _ => {}
        }
        walk::walk_assignment_expression(self, it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        let value = it.init.as_ref().map(|value| self.alloc(value));
        self.add_pattern(&it.id, value);
        walk::walk_variable_declarator(self, it);
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        self.add_pattern(&it.pattern, None);
        walk::walk_formal_parameter(self, it);
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        self.visit_for_statement_left(&it.left);
        self.visit_expression(&it.right);
        let value = self.alloc(&it.right);
        self.add(Kind::Iterate, it.right.span().start, Some(value), None);
        self.visit_statement(&it.body);
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        self.enter_function(it.span.start);
        walk::walk_function(self, it, flags);
        self.leave_function();
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        self.enter_function(it.span.start);
        walk::walk_arrow_function_expression(self, it);
        self.leave_function();
    }
}
