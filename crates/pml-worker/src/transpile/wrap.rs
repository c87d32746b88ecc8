//! Turns a program's syntax tree into that of a function that runs it.

use oxc::{
    allocator::{Allocator, ArenaBox, ArenaVec, TakeIn},
    ast::{ast::*, builder::AstBuilder},
    ast_visit::{Visit, VisitMut, walk_mut},
    span::{GetSpan, SPAN, Span},
};
use pml_wire::{ErrorCode, message::ErrorReport};

use super::{MODULE_EXPORTS, Source, nearest, probe::unused_name};

/// What `import(…)` becomes: a call of this function, which is among the imports under [`IMPORT_KEY`].
pub(super) const IMPORT_FUNCTION: &str = "$import";
const IMPORT_KEY: &str = "import()";
/// What `require("pml")` calls, which is among the imports under [`REQUIRE_KEY`].
const REQUIRE_FUNCTION: &str = "$require";
const REQUIRE_KEY: &str = "require()";

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

/// Refuses what is valid but what neither the engine knows nor the compiler removes.
pub(super) fn refuse_unsupported(
    program: &oxc::ast::ast::Program<'_>,
    source: &Source,
) -> Result<(), Box<ErrorReport>> {
    /// The first such thing: where it begins, what it is, and what to do.
    struct Finder(Option<(u32, &'static str, &'static str)>);
    impl<'a> Visit<'a> for Finder {
        fn visit_decorator(&mut self, it: &Decorator<'a>) {
            self.0.get_or_insert((it.span.start, "decorators are not supported", "call a wrapping function instead"));
        }
        fn visit_accessor_property(&mut self, it: &AccessorProperty<'a>) {
            let what = "`accessor` fields are not supported";
            self.0.get_or_insert((it.span.start, what, "write a getter and a setter"));
        }
        fn visit_import_meta(&mut self, it: &ImportMeta) {
            let what = "`import.meta` is not supported";
            self.0.get_or_insert((it.span.start, what, "a program has no place it was loaded from"));
        }
    }
    let mut finder = Finder(None);
    finder.visit_program(program);
    match finder.0 {
        None => Ok(()),
        Some((start, what, hint)) => Err(Box::new(ErrorReport {
            hint: Some(hint.to_owned()),
            ..source.report(ErrorCode::UnsupportedSyntax, what, start)
        })),
    }
}

/// Makes the program the body of an async arrow function, an expression by itself.
///
/// Its first parameter is called `probe`; a second, if there are imports, takes them apart.
pub(super) fn wrap<'a>(
    allocator: &'a Allocator,
    program: &mut oxc::ast::ast::Program<'a>,
    probe: &'a str,
    source: &Source,
) -> Result<(), Box<ErrorReport>> {
    let builder = AstBuilder::new(allocator);
    let mut imports = ArenaVec::new_in(&allocator);
    let import_name = allocator.alloc_str(&unused_name(source.code(), IMPORT_FUNCTION));
    let require = allocator.alloc_str(&unused_name(source.code(), REQUIRE_FUNCTION));
    let mut importer = Importer {
        builder: AstBuilder::new(allocator),
        allocator,
        name: import_name,
        has_found: false,
        require,
        has_required: false,
    };
    importer.visit_program(program);
    if importer.has_required {
        let key = Expression::new_string_literal(SPAN, REQUIRE_KEY, None, &builder);
        let local = BindingPattern::new_binding_identifier(SPAN, require, &builder);
        imports.push(BindingProperty::new(SPAN, PropertyKey::from(key), local, false, false, &builder));
    }
    if importer.has_found {
        let key = Expression::new_string_literal(SPAN, IMPORT_KEY, None, &builder);
        let local = BindingPattern::new_binding_identifier(SPAN, import_name, &builder);
        imports.push(BindingProperty::new(SPAN, PropertyKey::from(key), local, false, false, &builder));
    }
    let mut statements = ArenaVec::new_in(&allocator);
    for statement in program.body.take_in(&allocator) {
        match statement {
            Statement::ImportDeclaration(import) => {
                check_import(&import, source)?;
                imports.extend(import.unbox().specifiers.into_iter().flatten().map(|name| binding(name, &builder)));
            }
            // The compiler marks a program that has lost all its imports as a module.
            Statement::ExportNamedDeclaration(_) => {}
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
    let body = ArrowFunctionBody::new_function_body(SPAN, ArenaVec::new_in(&allocator), statements, &builder);
    let probe = BindingPattern::new_binding_identifier(SPAN, probe, &builder);
    let mut parameters = ArenaVec::from_array_in([parameter(probe, &builder)], &allocator);
    if !imports.is_empty() {
        let imports = BindingPattern::new_object_pattern(SPAN, imports, None, &builder);
        parameters.push(parameter(imports, &builder));
    }
    let kind = FormalParameterKind::ArrowFormalParameters;
    let parameters = FormalParameters::boxed(SPAN, kind, parameters, None, &builder);
    let run = Expression::new_arrow_function_expression(SPAN, true, None, parameters, None, body, &builder);
    program.body = ArenaVec::from_array_in([Statement::new_expression_statement(SPAN, run, &builder)], &allocator);
    Ok(())
}

pub(super) fn parameter<'a>(pattern: BindingPattern<'a>, builder: &AstBuilder<'a>) -> FormalParameter<'a> {
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

/// Turns `import(…)` into a call. The engine ends a name at its first NUL, and gives its errors no place.
struct Importer<'a> {
    builder: AstBuilder<'a>,
    allocator: &'a Allocator,
    name: &'a str,
    has_found: bool,
    /// What `require("pml")` calls.
    require: &'a str,
    has_required: bool,
}

impl<'a> VisitMut<'a> for Importer<'a> {
    fn visit_expression(&mut self, it: &mut Expression<'a>) {
        walk_mut::walk_expression(self, it);
        if let Expression::ImportExpression(import) = it {
            let span = import.span;
            let specifier = Argument::from(import.source.take_in(&self.allocator));
            let callee = Expression::new_identifier(span, self.name, &self.builder);
            let arguments = ArenaVec::from_array_in([specifier], &self.allocator);
            *it = Expression::new_call_expression(span, callee, None, arguments, false, &self.builder);
            self.has_found = true;
        }
    }

    /// `const { callTool } = require("pml")` is `await import("pml")`, where nothing has to be awaited.
    fn visit_call_expression(&mut self, it: &mut CallExpression<'a>) {
        walk_mut::walk_call_expression(self, it);
        let is_pml = matches!(it.arguments.first(), Some(Argument::StringLiteral(name)) if name.value == "pml");
        if is_pml && it.arguments.len() == 1 && it.callee.is_specific_id("require") {
            it.callee = Expression::new_identifier(it.callee.span(), self.require, &self.builder);
            self.has_required = true;
        }
    }
}

fn check_import(import: &ImportDeclaration<'_>, source: &Source) -> Result<(), Box<ErrorReport>> {
    let refuse = |message: String, hint: String, span: Span| {
        Err(Box::new(ErrorReport {
            hint: Some(hint),
            ..source.report(ErrorCode::UnsupportedSyntax, message, span.start)
        }))
    };
    if import.source.value != "pml" {
        return refuse(not_imported(&import.source.value), instead(&import.source.value).to_owned(), import.span);
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

/// The one wording of a package that is not there.
fn not_imported(package: &str) -> String {
    let name: String = package.chars().take(100).collect();
    format!("`{}` cannot be imported; only \"pml\" can", name.escape_debug())
}

/// What `import(…)` of a package is rejected with.
pub(crate) fn import_refusal(package: &str) -> String {
    format!("{}; {}", not_imported(package), instead(package))
}

/// What to do instead of importing a package.
fn instead(package: &str) -> &'static str {
    match package.strip_prefix("node:").unwrap_or(package) {
        "buffer" => "`Buffer` is a global: leave out the import",
        "crypto" => {
            "`crypto` is a global: `crypto.randomUUID()`, `await crypto.subtle.digest(\"SHA-256\", bytes)`, and HMAC with `importKey` and `sign`"
        }
        "url" => "`URL` and `URLSearchParams` are globals: leave out the import",
        "util" => "`TextEncoder`, `TextDecoder` and `structuredClone` are globals: leave out the import",
        "timers/promises" => "wait with `await new Promise((done) => setTimeout(done, 100))`",
        "uuid" => "use `crypto.randomUUID()`",
        package
            if package.contains("modelcontextprotocol") || package.contains("servers/") || package.contains("mcp") =>
        {
            "tools need no import: call them with `await mcp.server.tool({ … })`"
        }
        _ => "there are no packages here; call an MCP tool for files, network and other services",
    }
}
