//! Turns a program's syntax tree into that of a function that runs it.

use oxc::{
    allocator::{Allocator, ArenaBox, ArenaVec, TakeIn},
    ast::{ast::*, builder::AstBuilder},
    ast_visit::{Visit, walk},
    span::{GetSpan, SPAN, Span},
};
use pml_wire::{ErrorCode, message::ErrorReport};

use super::{MODULE_EXPORTS, Source, nearest};

/// Where the first JSX element begins, if there is one.
pub(super) fn first_jsx(program: &oxc::ast::ast::Program<'_>) -> Option<u32> {
    struct Finder(Option<u32>);
    impl<'a> Visit<'a> for Finder {
        fn visit_jsx_element(&mut self, it: &JSXElement<'a>) {
            self.0.get_or_insert(it.span.start);
        }
        fn visit_jsx_fragment(&mut self, it: &JSXFragment<'a>) {
            self.0.get_or_insert(it.span.start);
        }
    }
    let mut finder = Finder(None);
    finder.visit_program(program);
    finder.0
}

/// The engine has no decorators, and compiling them needs helpers from a package.
pub(super) fn refuse_decorators(program: &oxc::ast::ast::Program<'_>, source: &Source) -> Result<(), Box<ErrorReport>> {
    struct Finder(Option<u32>);
    impl<'a> Visit<'a> for Finder {
        fn visit_decorator(&mut self, it: &Decorator<'a>) {
            self.0.get_or_insert(it.span.start);
            walk::walk_decorator(self, it);
        }
    }
    let mut finder = Finder(None);
    finder.visit_program(program);
    match finder.0 {
        None => Ok(()),
        Some(start) => Err(Box::new(ErrorReport {
            hint: Some("call a wrapping function instead".to_owned()),
            ..source.report(ErrorCode::UnsupportedSyntax, "decorators are not supported", start)
        })),
    }
}

/// Makes the program the body of an async arrow function, an expression by itself.
///
/// Its first parameter is called `probe`, its second takes the imports apart.
pub(super) fn wrap<'a>(
    allocator: &'a Allocator,
    program: &mut oxc::ast::ast::Program<'a>,
    probe: &'a str,
    source: &Source,
) -> Result<(), Box<ErrorReport>> {
    let builder = AstBuilder::new(allocator);
    let mut imports = ArenaVec::new_in(&allocator);
    let mut statements = ArenaVec::new_in(&allocator);
    for statement in program.body.take_in(&allocator) {
        match statement {
            Statement::ImportDeclaration(import) => {
                check_import(&import, source)?;
                imports.extend(import.unbox().specifiers.into_iter().flatten().map(|name| binding(name, &builder)));
            }
            Statement::ExportDefaultDeclaration(export) => {
                let span = export.span;
                statements.push(match export.unbox().declaration {
                    ExportDefaultDeclarationKind::FunctionDeclaration(function) => {
                        Statement::FunctionDeclaration(function)
                    }
                    ExportDefaultDeclarationKind::ClassDeclaration(class) => Statement::ClassDeclaration(class),
                    declaration => match Expression::try_from(declaration) {
                        Ok(result) => Statement::new_return_statement(span, Some(result), &builder),
                        Err(_) => continue, // an interface, which is no more
                    },
                });
            }
            Statement::ExportDeclaration(export) => {
                statements.push(export.unbox().declaration.into());
            }
            Statement::ExportNamedDeclaration(_) => {}
            Statement::ExportAllDeclaration(export) => return Err(no_export(export.span, source)),
            Statement::ExportFromDeclaration(export) => return Err(no_export(export.span, source)),
            Statement::TSExportAssignment(export) => return Err(no_export(export.span, source)),
            statement => statements.push(statement),
        }
    }
    // `"use strict"` is in force anyway, and a function with such parameters may not say it. A text
    // that stands alone is no directive but the result.
    if statements.is_empty()
        && let Some(text) = program.directives.pop().filter(|text| text.directive != "use strict")
    {
        let text = Expression::StringLiteral(ArenaBox::new_in(text.expression, &allocator));
        statements.push(Statement::new_return_statement(SPAN, Some(text), &builder));
    }
    program.directives.clear();
    if let Some(last) = statements.pop() {
        statements.push(match last {
            Statement::ExpressionStatement(last) => {
                let span = last.span;
                Statement::new_return_statement(span, Some(last.unbox().expression), &builder)
            }
            last => last,
        });
    }

    let body = ArrowFunctionBody::new_function_body(SPAN, ArenaVec::new_in(&allocator), statements, &builder);
    let imports = BindingPattern::new_object_pattern(SPAN, imports, None, &builder);
    let probe = BindingPattern::new_binding_identifier(SPAN, probe, &builder);
    let parameters = FormalParameters::boxed(
        SPAN,
        FormalParameterKind::ArrowFormalParameters,
        ArenaVec::from_array_in([probe, imports].map(|pattern| parameter(pattern, &builder)), &allocator),
        None,
        &builder,
    );
    let run = Expression::new_arrow_function_expression(SPAN, true, None, parameters, None, body, &builder);
    program.body = ArenaVec::from_array_in([Statement::new_expression_statement(SPAN, run, &builder)], &allocator);
    Ok(())
}

fn parameter<'a>(pattern: BindingPattern<'a>, builder: &AstBuilder<'a>) -> FormalParameter<'a> {
    FormalParameter::new(SPAN, ArenaVec::new_in(builder), pattern, None, None, false, None, false, false, builder)
}

/// The part of an object pattern that does what an import does. The prelude's object has a member
/// `*` for the namespace.
fn binding<'a>(specifier: ImportDeclarationSpecifier<'a>, builder: &AstBuilder<'a>) -> BindingProperty<'a> {
    let (imported, local) = match specifier {
        ImportDeclarationSpecifier::ImportSpecifier(named) => {
            let named = named.unbox();
            (named.imported.name(), named.local)
        }
        ImportDeclarationSpecifier::ImportDefaultSpecifier(default) => ("default".into(), default.unbox().local),
        ImportDeclarationSpecifier::ImportNamespaceSpecifier(namespace) => ("*".into(), namespace.unbox().local),
    };
    let key = PropertyKey::from(Expression::new_string_literal(SPAN, imported, None, builder));
    let local = BindingPattern::new_binding_identifier(local.span, local.name, builder);
    BindingProperty::new(SPAN, key, local, false, false, builder)
}

fn check_import(import: &ImportDeclaration<'_>, source: &Source) -> Result<(), Box<ErrorReport>> {
    let refuse = |message: String, hint: String, span: Span| {
        Err(Box::new(ErrorReport {
            hint: Some(hint),
            ..source.report(ErrorCode::UnsupportedSyntax, message, span.start)
        }))
    };
    if import.source.value != "pml" {
        return refuse(
            format!("`{}` cannot be imported; only \"pml\" can", import.source.value),
            "there are no packages here; call an MCP tool for files, network and other services".to_owned(),
            import.span,
        );
    }
    for specifier in import.specifiers.iter().flatten() {
        let ImportDeclarationSpecifier::ImportSpecifier(specifier) = specifier else {
            continue; // the default export and the namespace are always there
        };
        let name = specifier.imported.name();
        if name != "default" && !MODULE_EXPORTS.contains(&name.as_str()) {
            let hint = match nearest(&name, MODULE_EXPORTS.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it has {}", MODULE_EXPORTS.join(", ")),
            };
            return refuse(format!("\"pml\" has no export `{name}`"), hint, specifier.span());
        }
    }
    Ok(())
}

fn no_export(span: Span, source: &Source) -> Box<ErrorReport> {
    Box::new(ErrorReport {
        hint: Some("end the program with `return value`".to_owned()),
        ..source.report(
            ErrorCode::UnsupportedSyntax,
            "`export … from` and `export =` mean nothing in a program",
            span.start,
        )
    })
}
