//! Namespaces and enums where the compiler alone would give them another meaning than TypeScript does.
//!
//! The compiler makes the variables that a namespace exports into two copies, one inside and one outside,
//! and lets a block of a namespace see only itself. Here each use of an exported variable, and of
//! anything that another block exports, becomes `N.name`. What cannot be made right is refused by name.

use std::collections::{HashMap, HashSet};

use oxc::{
    allocator::{Allocator, ArenaBox, ArenaVec, TakeIn},
    ast::{ast::*, builder::AstBuilder},
    ast_visit::{Visit, VisitMut, walk, walk_mut},
    semantic::{ScopeId, Scoping, SymbolId},
    span::{SPAN, Span},
    syntax::{number::NumberBase, operator::UnaryOperator},
};
use pml_wire::{ErrorCode, message::ErrorReport};

use super::Source;

/// Does the program have what is mended here?
pub(super) fn is_needed(program: &oxc::ast::ast::Program<'_>) -> bool {
    struct Finder(bool);
    impl<'a> Visit<'a> for Finder {
        fn visit_ts_namespace_declaration(&mut self, it: &TSNamespaceDeclaration<'a>) {
            self.0 |= !it.declare;
        }
        fn visit_ts_enum_declaration(&mut self, _: &TSEnumDeclaration<'a>) {
            self.0 = true;
        }
    }
    let mut finder = Finder(false);
    finder.visit_program(program);
    finder.0
}

/// Mends namespaces and enums. The names of `program` were resolved in `scoping`; afterwards they have to be again.
pub(super) fn mend<'a>(
    allocator: &'a Allocator,
    program: &mut oxc::ast::ast::Program<'a>,
    scoping: &Scoping,
    source: &Source,
) -> Result<(), Box<ErrorReport>> {
    let mut collector = Collector::default();
    collector.visit_program(program);
    let mut refused = collector.refused;
    if refused.is_none() {
        let mut mender = Mender {
            builder: AstBuilder::new(allocator),
            allocator,
            scoping,
            exports: collector.exports,
            texts: collector.texts,
            blocks: Vec::new(),
            refused: None,
        };
        mender.visit_program(program);
        refused = mender.refused;
    }
    match refused {
        None => Ok(()),
        Some((span, what)) => Err(Box::new(ErrorReport {
            hint: Some("write it as an object or a class, or with variables of the program".to_owned()),
            ..source.report(ErrorCode::UnsupportedSyntax, what, span.start)
        })),
    }
}

/// What one exported name of a namespace is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A variable that can be assigned to.
    Variable,
    Enum,
    Other,
}

/// The names that each namespace exports, by its path, with the blocks they stand in.
type Exports<'a> = HashMap<String, HashMap<&'a str, Vec<(Span, Kind)>>>;

#[derive(Default)]
struct Collector<'a> {
    path: Vec<&'a str>,
    exports: Exports<'a>,
    /// Members of enums whose value is text.
    texts: HashSet<&'a str>,
    refused: Option<(Span, String)>,
}

impl<'a> Collector<'a> {
    fn export(&mut self, name: &'a str, block: Span, kind: Kind) {
        let path = self.path.join(".");
        let places = self.exports.entry(path.clone()).or_default().entry(name).or_default();
        let is_again = places.iter().any(|(other, kind)| *kind == Kind::Enum && *other != block);
        if kind == Kind::Enum && is_again {
            let what = format!("the enum `{name}` in two blocks of the namespace `{path}` is not supported");
            self.refused.get_or_insert((block, what));
        }
        places.push((block, kind));
    }

    fn block(&mut self, block: &TSModuleBlock<'a>) {
        for statement in &block.body {
            let Statement::ExportDeclaration(export) = statement else { continue };
            if export.declaration.declare() {
                continue;
            }
            match &export.declaration {
                Declaration::VariableDeclaration(it) => {
                    let kind = if it.kind.is_const() { Kind::Other } else { Kind::Variable };
                    for declarator in &it.declarations {
                        if kind == Kind::Variable && declarator.id.is_destructuring_pattern() {
                            let what = format!("a pattern that `{}` exports is not supported", self.path.join("."));
                            self.refused.get_or_insert((declarator.span, what));
                        }
                        for name in declarator.id.get_binding_identifiers() {
                            self.export(name.name.as_str(), block.span, kind);
                        }
                    }
                }
                Declaration::TSEnumDeclaration(it) => self.export(it.id.name.as_str(), block.span, Kind::Enum),
                declaration => {
                    if let Some(id) = declaration.id().filter(|_| !declaration.is_type()) {
                        self.export(id.name.as_str(), block.span, Kind::Other);
                    }
                }
            }
        }
    }
}

impl<'a> Visit<'a> for Collector<'a> {
    fn visit_ts_namespace_declaration(&mut self, it: &TSNamespaceDeclaration<'a>) {
        if it.declare {
            return;
        }
        self.path.push(it.id.name.as_str());
        match &it.body {
            TSNamespaceDeclarationBody::TSModuleBlock(block) => self.block(block),
            TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => {
                self.export(inner.id.name.as_str(), it.span, Kind::Other);
            }
        }
        walk::walk_ts_namespace_declaration(self, it);
        self.path.pop();
    }

    fn visit_ts_enum_member(&mut self, it: &TSEnumMember<'a>) {
        if let Some(Expression::StringLiteral(_) | Expression::TemplateLiteral(_) | Expression::BinaryExpression(_)) =
            &it.initializer
            && let TSEnumMemberName::Identifier(name) = &it.id
        {
            self.texts.insert(name.name.as_str());
        }
    }
}

/// A block of a namespace around the current place.
struct Block<'a> {
    name: &'a str,
    path: String,
    span: Span,
    symbol: Option<SymbolId>,
    scope: Option<ScopeId>,
}

struct Mender<'a, 's> {
    builder: AstBuilder<'a>,
    allocator: &'a Allocator,
    scoping: &'s Scoping,
    exports: Exports<'a>,
    texts: HashSet<&'a str>,
    blocks: Vec<Block<'a>>,
    refused: Option<(Span, String)>,
}

impl<'a> Mender<'a, '_> {
    /// The namespace that a name is to be read from.
    fn owner(&mut self, name: &IdentifierReference<'a>) -> Option<&'a str> {
        let reference = self.scoping.get_reference(name.reference_id.get()?);
        let declared = reference.symbol_id().map(|symbol| self.scoping.symbol_span(symbol));
        for block in self.blocks.iter().rev() {
            let is_inside = declared.is_some_and(|declared| block.span.contains_inclusive(declared));
            let places = self.exports.get(&block.path).and_then(|names| names.get(name.name.as_str()));
            let is_exported = places.is_some_and(|places| match is_inside {
                // Of this block: variables alone have two copies.
                true => {
                    let scope = reference.symbol_id().map(|symbol| self.scoping.symbol_scope_id(symbol));
                    let is_own = |place: &(Span, Kind)| *place == (block.span, Kind::Variable);
                    scope == block.scope && places.iter().any(is_own)
                }
                false => true,
            });
            if is_exported {
                let found = self.scoping.find_binding(reference.scope_id(), block.name.into());
                if found != block.symbol {
                    let what = format!(
                        "`{}` of the namespace `{}` cannot be reached where another `{}` hides the namespace",
                        name.name, block.path, block.name
                    );
                    self.refused.get_or_insert((name.span, what));
                }
                return Some(block.name);
            }
            if is_inside {
                return None;
            }
        }
        None
    }

    fn member(&self, owner: &'a str, name: &IdentifierReference<'a>) -> StaticMemberExpression<'a> {
        let object = Expression::new_identifier(name.span, owner, &self.builder);
        let property = IdentifierName::new(name.span, name.name, &self.builder);
        StaticMemberExpression::new(name.span, object, property, false, &self.builder)
    }

    /// `N.name = value` for each exported variable that has a value.
    fn assignments(&self, it: &mut VariableDeclaration<'a>, owner: &'a str) -> Vec<Statement<'a>> {
        let mut statements = Vec::new();
        for declarator in &mut it.declarations {
            let (BindingPattern::BindingIdentifier(id), Some(init)) = (&declarator.id, declarator.init.as_mut()) else {
                continue;
            };
            let object = Expression::new_identifier(id.span, owner, &self.builder);
            let property = IdentifierName::new(id.span, id.name, &self.builder);
            let target =
                AssignmentTarget::new_static_member_expression(id.span, object, property, false, &self.builder);
            let value = init.take_in(&self.allocator);
            let operator = AssignmentOperator::Assign;
            let assignment =
                Expression::new_assignment_expression(declarator.span, operator, target, value, &self.builder);
            statements.push(Statement::new_expression_statement(declarator.span, assignment, &self.builder));
        }
        statements
    }
}

impl<'a> VisitMut<'a> for Mender<'a, '_> {
    fn visit_ts_namespace_declaration(&mut self, it: &mut TSNamespaceDeclaration<'a>) {
        if it.declare {
            return;
        }
        let name = it.id.name.as_str();
        let path = self.blocks.last().map_or_else(|| name.to_owned(), |outer| format!("{}.{name}", outer.path));
        let span = match &it.body {
            TSNamespaceDeclarationBody::TSModuleBlock(block) => block.span,
            TSNamespaceDeclarationBody::TSNamespaceDeclaration(_) => it.span,
        };
        self.blocks.push(Block { name, path, span, symbol: it.id.symbol_id.get(), scope: it.scope_id.get() });
        walk_mut::walk_ts_namespace_declaration(self, it);
        if let TSNamespaceDeclarationBody::TSModuleBlock(block) = &mut it.body {
            for statement in block.body.take_in(&self.allocator) {
                match statement {
                    Statement::ExportDeclaration(export) => match export.unbox().declaration {
                        Declaration::VariableDeclaration(mut it) if !it.kind.is_const() && !it.declare => {
                            block.body.extend(self.assignments(&mut it, name));
                        }
                        declaration => {
                            let export = ExportDeclaration::boxed(SPAN, declaration, &self.builder);
                            block.body.push(Statement::ExportDeclaration(export));
                        }
                    },
                    statement => block.body.push(statement),
                }
            }
        }
        self.blocks.pop();
    }

    fn visit_expression(&mut self, it: &mut Expression<'a>) {
        if let Expression::Identifier(name) = it
            && !self.blocks.is_empty()
            && let Some(owner) = self.owner(name)
        {
            let member = self.member(owner, name);
            *it = Expression::StaticMemberExpression(ArenaBox::new_in(member, &self.allocator));
            return;
        }
        walk_mut::walk_expression(self, it);
    }

    fn visit_call_expression(&mut self, it: &mut CallExpression<'a>) {
        let was_name = matches!(it.callee, Expression::Identifier(_));
        walk_mut::walk_call_expression(self, it);
        // Called by its name, a function has no `this`.
        if was_name && matches!(it.callee, Expression::StaticMemberExpression(_)) {
            let callee = it.callee.take_in(&self.allocator);
            let zero = Expression::new_numeric_literal(SPAN, 0.0, None, NumberBase::Decimal, &self.builder);
            let both = ArenaVec::from_array_in([zero, callee], &self.allocator);
            it.callee = Expression::new_sequence_expression(SPAN, both, &self.builder);
        }
    }

    fn visit_object_property(&mut self, it: &mut ObjectProperty<'a>) {
        walk_mut::walk_object_property(self, it);
        it.shorthand &= matches!(it.value, Expression::Identifier(_));
    }

    fn visit_simple_assignment_target(&mut self, it: &mut SimpleAssignmentTarget<'a>) {
        if let SimpleAssignmentTarget::AssignmentTargetIdentifier(name) = it
            && !self.blocks.is_empty()
            && let Some(owner) = self.owner(name)
        {
            let member = self.member(owner, name);
            let member = ArenaBox::new_in(member, &self.allocator);
            *it = SimpleAssignmentTarget::StaticMemberExpression(member);
            return;
        }
        walk_mut::walk_simple_assignment_target(self, it);
    }

    fn visit_assignment_target_property_identifier(&mut self, it: &mut AssignmentTargetPropertyIdentifier<'a>) {
        if !self.blocks.is_empty() && self.owner(&it.binding).is_some() {
            let what = format!("the exported variable `{}` in a pattern is not supported", it.binding.name);
            self.refused.get_or_insert((it.span, what));
        }
        walk_mut::walk_assignment_target_property_identifier(self, it);
    }

    fn visit_ts_enum_member(&mut self, it: &mut TSEnumMember<'a>) {
        walk_mut::walk_ts_enum_member(self, it);
        if let Some(initializer) = &mut it.initializer {
            HideTexts { builder: &self.builder, allocator: self.allocator, texts: &self.texts }
                .visit_expression(initializer);
        }
    }
}

/// Keeps the compiler from computing `+"5"` and the like, of which it makes a text: a cast is not looked through.
struct HideTexts<'a, 'm> {
    builder: &'m AstBuilder<'a>,
    allocator: &'a Allocator,
    texts: &'m HashSet<&'a str>,
}

impl<'a> VisitMut<'a> for HideTexts<'a, '_> {
    fn visit_unary_expression(&mut self, it: &mut UnaryExpression<'a>) {
        /// Finds texts, and members of enums that are.
        struct Finder<'t>(&'t HashSet<&'t str>, bool);
        impl<'a> Visit<'a> for Finder<'_> {
            fn visit_string_literal(&mut self, _: &StringLiteral<'a>) {
                self.1 = true;
            }
            fn visit_template_literal(&mut self, _: &TemplateLiteral<'a>) {
                self.1 = true;
            }
            fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
                self.1 |= self.0.contains(it.name.as_str());
            }
            fn visit_identifier_name(&mut self, it: &IdentifierName<'a>) {
                self.1 |= self.0.contains(it.name.as_str());
            }
        }
        walk_mut::walk_unary_expression(self, it);
        let mut finder = Finder(self.texts, false);
        finder.visit_expression(&it.argument);
        let is_counting =
            matches!(it.operator, UnaryOperator::UnaryPlus | UnaryOperator::UnaryNegation | UnaryOperator::BitwiseNot);
        if finder.1 && is_counting {
            let argument = it.argument.take_in(&self.allocator);
            let any = TSType::new_ts_any_keyword(SPAN, self.builder);
            it.argument = Expression::new_ts_as_expression(SPAN, argument, any, self.builder);
        }
    }
}
