//! The operations of a program that can fail, each with the place that the engine gives its failure.
//!
//! The engine notes a place where it reads a name, before the arguments of a call, before the right side
//! of an operator and at the start of a statement, and gives an error the place that it noted last, in the order of
//! the text. The walk does the same.

use oxc::{
    ast::{AstKind, ast::*},
    ast_visit::{Visit, walk},
    span::{GetSpan, Span},
    syntax::scope::ScopeFlags,
};

use crate::transpile::watch::unwatched;

/// What an operation does to its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Set,
    Call,
    New,
    Iterate,
    TakeApart,
    /// The right side of `in`.
    In,
}

#[derive(Clone, Copy)]
pub(super) struct Operation<'a> {
    pub(super) kind: Kind,
    /// Where the engine places a failure.
    pub(super) place: u32,
    /// Where it stands.
    pub(super) start: u32,
    /// What has to be of the right kind: the object, the function, the iterated value.
    pub(super) subject: Option<&'a Expression<'a>>,
    /// The property that is read or set, if it is written out.
    pub(super) property: Option<&'a str>,
    pub(super) arguments: &'a [Argument<'a>],
}

/// What a pattern as a whole takes apart.
#[derive(Clone, Copy)]
pub(super) enum Whole<'a> {
    /// The value of a declaration or an assignment.
    Value(&'a Expression<'a>),
    /// Each of what is iterated over.
    Element(&'a Expression<'a>),
    /// A parameter of the function that stands there.
    Parameter { function: Span, index: usize },
    /// What was caught.
    Caught,
}

/// A step from a value into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// A property, with its name if that is written out.
    Property(Option<&'a str>),
    Element(usize),
}

/// A pattern, or a pattern in one.
pub(super) struct Pattern<'a> {
    /// `TakeApart` or `Iterate`.
    pub(super) kind: Kind,
    /// Where the engine places a failure.
    pub(super) place: u32,
    pub(super) start: u32,
    pub(super) whole: Whole<'a>,
    /// The way from the whole to what this pattern takes apart.
    pub(super) path: Vec<Step<'a>>,
}

/// What is in a program.
#[derive(Default)]
pub(super) struct Found<'a> {
    pub(super) operations: Vec<Operation<'a>>,
    pub(super) patterns: Vec<Pattern<'a>>,
}

pub(super) fn find<'a>(program: &oxc::ast::ast::Program<'a>) -> Found<'a> {
    let mut finder = Finder { place: 0, is_shorthand: false, outer: Vec::new(), found: Found::default() };
    finder.visit_program(program);
    finder.found
}

/// The name of a property, also of one that carries a mark: `[(NaN, "name")]`.
pub(super) fn name_of<'a>(key: &PropertyKey<'a>) -> Option<&'a str> {
    if let Some(Expression::SequenceExpression(it)) = key.as_expression().map(Expression::get_inner_expression)
        && let [Expression::Identifier(mark), Expression::StringLiteral(name)] = &it.expressions[..]
        && mark.name == "NaN"
    {
        return Some(name.value.as_str());
    }
    match key {
        PropertyKey::StaticIdentifier(it) => Some(it.name.as_str()),
        PropertyKey::StringLiteral(it) => Some(it.value.as_str()),
        _ => None,
    }
}

struct Finder<'a> {
    place: u32,
    /// Is the next name that of `{ name }`?
    is_shorthand: bool,
    /// The places in the functions around.
    outer: Vec<u32>,
    found: Found<'a>,
}

impl<'a> Finder<'a> {
    fn add(&mut self, kind: Kind, start: u32, subject: Option<&'a Expression<'a>>, property: Option<&'a str>) {
        let subject = subject.map(unwatched);
        self.found.operations.push(Operation { kind, place: self.place, start, subject, property, arguments: &[] });
    }

    fn leave_assignment(&mut self, it: &'a AssignmentExpression<'a>) {
        match &it.left {
            AssignmentTarget::StaticMemberExpression(member) => {
                let name = member.property.name.as_str();
                self.add(Kind::Set, it.span.start, Some(&member.object), Some(name));
            }
            AssignmentTarget::ComputedMemberExpression(member) => {
                self.add(Kind::Set, it.span.start, Some(&member.object), None);
            }
            _ => {}
        }
    }

    fn add_call(&mut self, kind: Kind, start: u32, callee: &'a Expression<'a>, arguments: &'a [Argument<'a>]) {
        let place = self.place;
        self.found.operations.push(Operation { kind, place, start, subject: Some(callee), property: None, arguments });
    }

    fn add_pattern(&mut self, kind: Kind, span: Span, whole: Whole<'a>, path: &[Step<'a>]) {
        let (place, path) = (self.place, path.to_vec());
        self.found.patterns.push(Pattern { kind, place, start: span.start, whole, path });
    }

    /// A pattern that declares names, and those in it.
    fn binding(&mut self, pattern: &BindingPattern<'a>, whole: Whole<'a>, path: &mut Vec<Step<'a>>) {
        match pattern {
            BindingPattern::ObjectPattern(it) => {
                self.add_pattern(Kind::TakeApart, it.span, whole, path);
                for property in &it.properties {
                    self.visit_property_key(&property.key);
                    path.push(Step::Property(name_of(&property.key)));
                    self.binding(&property.value, whole, path);
                    path.pop();
                }
            }
            BindingPattern::ArrayPattern(it) => {
                self.add_pattern(Kind::Iterate, it.span, whole, path);
                for (index, element) in it.elements.iter().enumerate() {
                    path.push(Step::Element(index));
                    element.iter().for_each(|element| self.binding(element, whole, path));
                    path.pop();
                }
            }
            BindingPattern::AssignmentPattern(it) => {
                self.visit_expression(&it.right);
                self.binding(&it.left, whole, path);
            }
            BindingPattern::BindingIdentifier(_) => {}
        }
    }

    /// A pattern that assigns, and those in it.
    fn target(&mut self, target: &AssignmentTarget<'a>, whole: Whole<'a>, path: &mut Vec<Step<'a>>) {
        match target {
            AssignmentTarget::ObjectAssignmentTarget(it) => {
                self.add_pattern(Kind::TakeApart, it.span, whole, path);
                for property in &it.properties {
                    let AssignmentTargetProperty::AssignmentTargetPropertyProperty(property) = property else {
                        continue;
                    };
                    self.visit_property_key(&property.name);
                    path.push(Step::Property(name_of(&property.name)));
                    self.maybe_default(&property.binding, whole, path);
                    path.pop();
                }
            }
            AssignmentTarget::ArrayAssignmentTarget(it) => {
                self.add_pattern(Kind::Iterate, it.span, whole, path);
                for (index, element) in it.elements.iter().enumerate() {
                    path.push(Step::Element(index));
                    element.iter().for_each(|element| self.maybe_default(element, whole, path));
                    path.pop();
                }
            }
            target => self.visit_assignment_target(target),
        }
    }

    fn maybe_default(&mut self, target: &AssignmentTargetMaybeDefault<'a>, whole: Whole<'a>, path: &mut Vec<Step<'a>>) {
        match target {
            AssignmentTargetMaybeDefault::AssignmentTargetWithDefault(it) => {
                self.visit_expression(&it.init);
                self.target(&it.binding, whole, path);
            }
            target => target.as_assignment_target().into_iter().for_each(|target| self.target(target, whole, path)),
        }
    }

    /// The engine places the failure of a parameter where the function begins, or at what it noted before that.
    fn parameters(&mut self, parameters: &FormalParameters<'a>, function: Span) {
        for (index, parameter) in parameters.items.iter().enumerate() {
            let whole = Whole::Parameter { function, index };
            if let Some(default) = &parameter.initializer {
                self.visit_expression(default);
            }
            self.binding(&parameter.pattern, whole, &mut Vec::new());
            let outer = self.outer.last().copied();
            let kind = match &parameter.pattern {
                BindingPattern::ObjectPattern(_) => Kind::TakeApart,
                BindingPattern::ArrayPattern(_) => Kind::Iterate,
                _ => continue,
            };
            if let Some(place) = outer {
                let start = parameter.pattern.span().start;
                self.found.patterns.push(Pattern { kind, place, start, whole, path: Vec::new() });
            }
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
                self.add_call(Kind::New, it.span.start, &it.callee, &it.arguments);
            }
            AstKind::YieldExpression(it) if it.delegate => {
                self.add(Kind::Iterate, it.span.start, it.argument.as_ref(), None);
            }
            AstKind::SpreadElement(it) => self.add(Kind::Iterate, it.span.start, Some(&it.argument), None),
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
        self.add_call(Kind::Call, it.span.start, &it.callee, &it.arguments);
    }

    fn visit_binary_expression(&mut self, it: &BinaryExpression<'a>) {
        let it = self.alloc(it);
        self.visit_expression(&it.left);
        self.place = it.right.span().start;
        self.visit_expression(&it.right);
        if it.operator == BinaryOperator::In {
            self.add(Kind::In, it.span.start, Some(&it.right), None);
        }
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        let it = self.alloc(it);
        match &it.left {
            AssignmentTarget::ObjectAssignmentTarget(_) | AssignmentTarget::ArrayAssignmentTarget(_) => {
                self.target(&it.left, Whole::Value(&it.right), &mut Vec::new());
                self.visit_expression(&it.right);
            }
            _ => walk::walk_assignment_expression(self, it),
        }
        self.leave_assignment(it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        let it = self.alloc(it);
        let Some(init) = &it.init else { return };
        self.binding(&it.id, Whole::Value(init), &mut Vec::new());
        self.visit_expression(init);
    }

    fn visit_catch_parameter(&mut self, it: &CatchParameter<'a>) {
        self.binding(&it.pattern, Whole::Caught, &mut Vec::new());
    }

    /// The engine moves the pattern of the loop behind what is iterated over.
    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        let it = self.alloc(it);
        self.visit_expression(&it.right);
        self.add(Kind::Iterate, it.right.span().start, Some(&it.right), None);
        let before = self.place;
        let whole = Whole::Element(&it.right);
        match &it.left {
            ForStatementLeft::VariableDeclaration(declaration) => {
                for declarator in &declaration.declarations {
                    self.binding(&declarator.id, whole, &mut Vec::new());
                }
            }
            left => {
                left.as_assignment_target().into_iter().for_each(|it| self.target(it, whole, &mut Vec::new()));
            }
        }
        self.place = before;
        self.visit_statement(&it.body);
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        self.enter_function(it.span.start);
        self.parameters(&it.params, it.span);
        it.body.iter().for_each(|body| self.visit_function_body(body));
        let _ = flags;
        self.leave_function();
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        self.enter_function(it.span.start);
        self.parameters(&it.params, it.span);
        self.visit_arrow_function_body(&it.body);
        self.leave_function();
    }
}
