//! Programs as models send them, made into one shape: statements that end with `return`.
//!
//! Works on the syntax tree as it was parsed, before names are resolved, so that everything after sees
//! the program as it runs. What is moved keeps its place in the text, and so its lines in errors.

use oxc::{
    allocator::{Allocator, ArenaBox, ArenaVec, CloneIn, TakeIn},
    ast::{ast::*, builder::AstBuilder},
    span::{GetSpan, SPAN, Span},
};
use pml_wire::{ErrorCode, message::ErrorReport};

use super::{
    Source,
    entry::{self, Parameters, is_function},
    names::References,
    unreturned,
};

/// Names of functions that are meant to be called by whoever runs the program.
const MAINS: [&str; 4] = ["main", "run", "execute", "handler"];

/// What becomes the result when everything else has run.
enum Outcome<'a> {
    /// What a function returns.
    Call(Expression<'a>, Parameters),
    /// A value.
    Value(Expression<'a>),
}

/// Where a final expression stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    /// In a block or a branch.
    Inside,
    /// In a `try`, whose `catch` is meant to see its failure.
    Try,
}

impl Place {
    fn inside(self) -> Place {
        if self == Place::Try { Place::Try } else { Place::Inside }
    }
}

/// What was found about the functions of a program.
pub(super) struct Shaped<'a> {
    /// The function that the program now calls: it was defined and never called.
    pub(super) called: Option<&'a str>,
    /// Functions that nothing calls, of a program that does nothing else than to define them.
    pub(super) uncalled: Vec<&'a str>,
}

/// Gives `program` its shape. `unused` is a name that is nowhere in the text.
pub(super) fn normalise<'a>(
    allocator: &'a Allocator,
    program: &mut oxc::ast::ast::Program<'a>,
    unused: &'a str,
    source: &Source,
) -> Result<Shaped<'a>, Box<ErrorReport>> {
    let mut shaper = Shaper {
        builder: AstBuilder::new(allocator),
        allocator,
        source,
        unused,
        result: None,
        called: None,
        uncalled: Vec::new(),
    };
    let exported = program.body.take_in(&allocator);
    let mut statements = ArenaVec::new_in(&allocator);
    let has_own_module = entry::declares(&exported, &["module", "exports"]);
    for statement in exported {
        shaper.take_exports(statement, has_own_module, &mut statements)?;
    }
    shaper.finish(&mut statements)?;
    program.body = statements;
    Ok(Shaped { called: shaper.called, uncalled: shaper.uncalled })
}

struct Shaper<'a, 's> {
    builder: AstBuilder<'a>,
    allocator: &'a Allocator,
    source: &'s Source,
    unused: &'a str,
    result: Option<(Span, Outcome<'a>)>,
    called: Option<&'a str>,
    uncalled: Vec<&'a str>,
}

impl<'a> Shaper<'a, '_> {
    /// Turns what an export declares into a plain statement, and what it gives as the default into the result.
    fn take_exports(
        &mut self,
        statement: Statement<'a>,
        has_own_module: bool,
        statements: &mut ArenaVec<'a, Statement<'a>>,
    ) -> Result<(), Box<ErrorReport>> {
        match statement {
            Statement::ExportDefaultDeclaration(export) => {
                let span = export.span;
                let value = match export.unbox().declaration {
                    // With a name it can be used elsewhere, so it stays a declaration.
                    ExportDefaultDeclarationKind::FunctionDeclaration(function) if function.id.is_some() => {
                        let name = function.id.as_ref().map(|id| id.name);
                        statements.push(Statement::FunctionDeclaration(function));
                        name.map(|name| Expression::new_identifier(span, name, &self.builder))
                    }
                    ExportDefaultDeclarationKind::ClassDeclaration(class) if class.id.is_some() => {
                        let name = class.id.as_ref().map(|id| id.name);
                        statements.push(Statement::ClassDeclaration(class));
                        name.map(|name| Expression::new_identifier(span, name, &self.builder))
                    }
                    ExportDefaultDeclarationKind::FunctionDeclaration(mut function) => {
                        function.r#type = FunctionType::FunctionExpression;
                        Some(Expression::FunctionExpression(function))
                    }
                    ExportDefaultDeclarationKind::ClassDeclaration(mut class) => {
                        class.r#type = ClassType::ClassExpression;
                        Some(Expression::ClassExpression(class))
                    }
                    // An interface is a type alone.
                    declaration => Expression::try_from(declaration).ok(),
                };
                value.map_or(Ok(()), |value| self.take_default(span, value, statements))
            }
            Statement::ExportDeclaration(export) => {
                statements.push(export.unbox().declaration.into());
                Ok(())
            }
            Statement::ExportNamedDeclaration(export) => {
                let default = export.specifiers.iter().find(|it| it.exported.name() == "default");
                if let Some(default) = default {
                    let name = Expression::new_identifier(default.span, default.local.name(), &self.builder);
                    self.result = Some((default.span, Outcome::Value(name)));
                }
                Ok(())
            }
            Statement::ExportAllDeclaration(export) => Err(self.no_export(export.span)),
            Statement::ExportFromDeclaration(export) => Err(self.no_export(export.span)),
            Statement::TSExportAssignment(export) => {
                self.take_default(export.span, export.unbox().expression, statements)
            }
            Statement::ExpressionStatement(it)
                if !has_own_module && entry::is_module_exports(&it.expression, &MAINS) =>
            {
                let span = it.span;
                match it.unbox().expression {
                    Expression::AssignmentExpression(it) => self.take_default(span, it.unbox().right, statements),
                    _ => Ok(()),
                }
            }
            Statement::IfStatement(it) if entry::is_main_test(&it.test) => {
                statements.push(it.unbox().consequent);
                Ok(())
            }
            // A line break ends a `return`: what was meant to be returned stands behind it.
            Statement::BlockStatement(it) if is_ended(statements) && entry::block_members(&it).is_some() => {
                statements.pop();
                statements.push(Statement::BlockStatement(it));
                Ok(())
            }
            Statement::ExpressionStatement(it) if is_ended(statements) => {
                statements.pop();
                statements.push(Statement::ExpressionStatement(it));
                Ok(())
            }
            statement => {
                statements.push(statement);
                Ok(())
            }
        }
    }

    /// Notes the value of `export default`, which is taken where it stands unless it is a function.
    fn take_default(
        &mut self,
        span: Span,
        value: Expression<'a>,
        statements: &mut ArenaVec<'a, Statement<'a>>,
    ) -> Result<(), Box<ErrorReport>> {
        let is_later = is_function(&value) || matches!(value.get_inner_expression(), Expression::ClassExpression(_));
        let value = if is_later || entry::names_a_function(&value, statements) {
            value
        } else {
            let name = BindingPattern::new_binding_identifier(SPAN, self.unused, &self.builder);
            let declarator = VariableDeclarator::new(span, name, None, Some(value), false, &self.builder);
            let kind = VariableDeclarationKind::Const;
            let declaration = Declaration::new_variable_declaration(span, kind, [declarator], false, &self.builder);
            statements.push(declaration.into());
            Expression::new_identifier(span, self.unused, &self.builder)
        };
        self.result = Some((span, Outcome::Value(value)));
        Ok(())
    }

    /// Finds the result and makes the program return it.
    fn finish(&mut self, statements: &mut ArenaVec<'a, Statement<'a>>) -> Result<(), Box<ErrorReport>> {
        let (span, result) = match self.result.take() {
            Some(default) => default,
            None => match self.take_last(statements) {
                Some(last) => last,
                None => return Ok(()),
            },
        };
        let result = match result {
            Outcome::Value(value) => {
                let value = self.take_back(statements).unwrap_or(value);
                self.callable(value, statements)
            }
            call => call,
        };
        match result {
            Outcome::Call(function, parameters) => {
                let body = match entry::is_alone(statements) && parameters.is_empty() {
                    true => entry::into_body(function, &self.builder),
                    false => Err(function),
                };
                statements.push(match body {
                    Ok(mut body) => {
                        self.end_statement(&mut body, Place::Inside);
                        body
                    }
                    Err(function) => self.call(span, function, parameters)?,
                });
            }
            Outcome::Value(value) => statements.push(self.returned(span, value, false)),
        }
        Ok(())
    }

    /// The value of an `export default` that nothing comes after: it needs no variable.
    fn take_back(&self, statements: &mut ArenaVec<'a, Statement<'a>>) -> Option<Expression<'a>> {
        let last = statements.iter().rposition(|it| !entry::is_passed_over(it))?;
        let Statement::VariableDeclaration(it) = &mut statements[last] else { return None };
        let declarator = it.declarations.first_mut()?;
        if declarator.id.get_identifier_name().is_none_or(|name| name != self.unused) {
            return None;
        }
        let value = declarator.init.take();
        statements.remove(last);
        value
    }

    /// Takes the last statement as the result, if it is an expression or returns one, or a function that was defined and
    /// never called. Where the result is given inside of the last statement, it is returned there.
    fn take_last(&mut self, statements: &mut ArenaVec<'a, Statement<'a>>) -> Option<(Span, Outcome<'a>)> {
        let last = statements.iter().rposition(|it| !entry::is_passed_over(it));
        let value = last.and_then(|last| match &statements[last] {
            Statement::ExpressionStatement(it) => Some(&it.expression),
            Statement::ReturnStatement(it) => it.argument.as_ref(),
            _ => None,
        });
        let gives_value = value.is_some_and(|value| !entry::is_console_call(value));
        if !gives_value && let Some(main) = self.main(statements) {
            return Some(main);
        }
        let last = last?;
        if value.is_some_and(|value| entry::is_program(value) || entry::names_a_function(value, statements)) {
            let span = statements[last].span();
            let value = match statements.remove(last) {
                Statement::ExpressionStatement(it) => it.unbox().expression,
                Statement::ReturnStatement(it) => it.unbox().argument?,
                _ => return None,
            };
            return Some((span, self.called_in_place(value)));
        }
        self.end_statement(&mut statements[last], Place::Top);
        None
    }

    /// `(async () => { … })()`, awaited or not, is a function that is called.
    fn called_in_place(&self, value: Expression<'a>) -> Outcome<'a> {
        if is_function(&value) || !entry::is_program(&value) {
            return Outcome::Value(value);
        }
        let mut value = value.into_inner_expression();
        loop {
            value = match value {
                Expression::AwaitExpression(it) => it.unbox().argument.into_inner_expression(),
                Expression::UnaryExpression(it) => it.unbox().argument.into_inner_expression(),
                Expression::CallExpression(it) => return self.with_parameters(it.unbox().callee),
                value => return Outcome::Value(value),
            };
        }
    }

    fn with_parameters(&self, function: Expression<'a>) -> Outcome<'a> {
        let parameters = entry::parameters(&function).unwrap_or_default();
        Outcome::Call(function, parameters)
    }

    /// A value that is a function, names one, or holds one to be called, is called.
    fn callable(&mut self, value: Expression<'a>, statements: &ArenaVec<'a, Statement<'a>>) -> Outcome<'a> {
        if let Some(parameters) = entry::parameters(&value) {
            return Outcome::Call(value, parameters);
        }
        if let Expression::Identifier(name) = value.get_inner_expression()
            && let Some(function) = entry::functions(statements).find(|function| function.name == name.name)
        {
            return Outcome::Call(value, function.parameters);
        }
        if let Some((name, parameters)) = entry::member_to_call(&value, &MAINS, statements) {
            let span = value.span();
            let name = IdentifierName::new(span, name, &self.builder);
            let method = Expression::new_static_member_expression(span, value, name, false, &self.builder);
            return Outcome::Call(method, parameters);
        }
        Outcome::Value(value)
    }

    /// The function that was defined and never called.
    fn main(&mut self, statements: &ArenaVec<'a, Statement<'a>>) -> Option<(Span, Outcome<'a>)> {
        let references = References::of(statements);
        let unused = || entry::functions(statements).filter(|it| !references.has_outside(it.name, it.span));
        let main = MAINS.iter().find_map(|main| unused().find(|function| function.name == *main));
        let only = || {
            let mut unused = unused();
            let only = unused.next().filter(|_| unused.next().is_none());
            only.filter(|_| entry::is_all_definitions(statements))
        };
        let Some(function) = main.or_else(only) else {
            if entry::is_all_definitions(statements) {
                self.uncalled = unused().map(|function| function.name).collect();
            }
            return None;
        };
        self.called = Some(function.name);
        let name = Expression::new_identifier(function.span, function.name, &self.builder);
        Some((function.span, Outcome::Call(name, function.parameters)))
    }

    /// `return await function(…)`.
    fn call(
        &self,
        span: Span,
        function: Expression<'a>,
        parameters: Parameters,
    ) -> Result<Statement<'a>, Box<ErrorReport>> {
        let arguments = parameters.arguments(self.allocator, &self.builder).map_err(|(what, place)| {
            let (what, hint) = match self.called {
                Some(name) => (
                    format!("`{name}` is never called, and {what}"),
                    format!("end the program with `return await {name}(…)`"),
                ),
                None => (
                    format!("the program is a function, and {what}"),
                    "a program sees `mcp`, `pml` and `args` without being passed them: send statements, or `async () => { … }`"
                        .to_owned(),
                ),
            };
            let report = self.source.report(ErrorCode::UnsupportedSyntax, what, place);
            Box::new(ErrorReport { hint: Some(hint), ..report })
        })?;
        let call = Expression::new_call_expression(span, function, None, arguments, false, &self.builder);
        Ok(self.returned(span, call, true))
    }

    fn returned(&self, span: Span, value: Expression<'a>, is_awaited: bool) -> Statement<'a> {
        let is_awaited = is_awaited && !matches!(value, Expression::AwaitExpression(_));
        let value = if is_awaited { Expression::new_await_expression(span, value, &self.builder) } else { value };
        Statement::new_return_statement(span, Some(value), &self.builder)
    }

    /// Makes a final expression the result, also at the end of a block, a condition or a `try`.
    fn end_statement(&self, statement: &mut Statement<'a>, place: Place) {
        match statement {
            // A length is hardly what a branch is there for.
            Statement::ExpressionStatement(it)
                if place != Place::Top && unreturned::length_warning(&it.expression).is_some() => {}
            Statement::ExpressionStatement(it) => {
                let span = it.span;
                let mut value = it.expression.take_in(&self.allocator);
                // `void f()` would drop the result, and not wait for it.
                if let Expression::UnaryExpression(it) = &mut value
                    && matches!(it.operator, UnaryOperator::Void)
                    && it.argument.get_inner_expression().is_call_expression()
                {
                    value = it.argument.take_in(&self.allocator);
                }
                // Returned without being awaited, a rejection would pass the `catch` by.
                *statement = self.returned(span, value, place == Place::Try);
            }
            Statement::BlockStatement(it) if place == Place::Top && entry::block_members(it).is_some() => {
                let span = it.span;
                let Some(members) = entry::block_members(it) else { return };
                let members = members.into_iter().map(|(name, value)| {
                    let key =
                        PropertyKey::from(Expression::new_string_literal(value.span(), name, None, &self.builder));
                    let value = value.clone_in(self.allocator);
                    let kind = PropertyKind::Init;
                    let member =
                        ObjectProperty::new(value.span(), kind, key, value, false, false, false, &self.builder);
                    ObjectPropertyKind::ObjectProperty(ArenaBox::new_in(member, &self.allocator))
                });
                let members = ArenaVec::from_iter_in(members, &self.allocator);
                let object = Expression::new_object_expression(span, members, &self.builder);
                *statement = self.returned(span, object, false);
            }
            Statement::BlockStatement(it) => self.end_statements(&mut it.body, place.inside()),
            Statement::IfStatement(it) => {
                self.end_statement(&mut it.consequent, place.inside());
                it.alternate.iter_mut().for_each(|it| self.end_statement(it, place.inside()));
            }
            Statement::SwitchStatement(it) => {
                let last = it.cases.len().saturating_sub(1);
                for (index, case) in it.cases.iter_mut().enumerate() {
                    let is_ended =
                        matches!(case.consequent.last(), Some(Statement::BreakStatement(it)) if it.label.is_none());
                    let value = match is_ended {
                        true => case.consequent.len().checked_sub(2),
                        // Others go on with the next case.
                        false => case.consequent.len().checked_sub(1).filter(|_| index == last),
                    };
                    if let Some(value) = value {
                        self.end_statement(&mut case.consequent[value], place.inside());
                    }
                }
            }
            // What a `finally` does comes after the value.
            Statement::TryStatement(it) if it.finalizer.is_none() => {
                self.end_statements(&mut it.block.body, Place::Try);
                it.handler.iter_mut().for_each(|it| self.end_statements(&mut it.body.body, place.inside()));
            }
            _ => {}
        }
    }

    fn end_statements(&self, statements: &mut ArenaVec<'a, Statement<'a>>, place: Place) {
        if let Some(last) = statements.iter().rposition(|it| !entry::is_passed_over(it)) {
            self.end_statement(&mut statements[last], place);
        }
    }

    fn no_export(&self, span: Span) -> Box<ErrorReport> {
        Box::new(ErrorReport {
            hint: Some("end the program with `return value`".to_owned()),
            ..self.source.report(ErrorCode::UnsupportedSyntax, "`export … from` means nothing in a program", span.start)
        })
    }
}

/// Is the last statement a `return` without a value?
fn is_ended(statements: &ArenaVec<'_, Statement<'_>>) -> bool {
    matches!(statements.last(), Some(Statement::ReturnStatement(it)) if it.argument.is_none())
}

/// A text that is no program but one expression, such as `function () { … }`, as a statement.
pub(super) fn expression_statement<'a>(value: Expression<'a>, allocator: &'a Allocator) -> Statement<'a> {
    let builder = AstBuilder::new(allocator);
    let span = value.span();
    let value = Expression::ParenthesizedExpression(ArenaBox::new_in(
        ParenthesizedExpression::new(span, value, &builder),
        &allocator,
    ));
    Statement::new_expression_statement(span, value, &builder)
}

#[cfg(test)]
mod tests {
    use super::super::{Probes, compile};

    #[test]
    fn what_models_send_becomes_statements_that_return() {
        #[rustfmt::skip]
        let table = [
            // A function is called; alone, its body is the program.
            ("async () => { return 1 }", "{ return 1; }"),
            ("() => 5", "return 5;"),
            ("async function () { return 1 }", "{ return 1; }"),
            ("(async function () { return this })", "return await (async function() { return this; })();"),
            ("async function main() { return 1 }", "async function main() { return 1; } return await main();"),
            ("const run = async () => 1", "const run = async () => 1; return await run();"),
            ("const x = 1; async () => { return x }", "const x = 1; return await (async () => { return x; })();"),
            ("return async () => 1", "return 1;"),
            ("(async () => { const a = 1; a })()", "{ const a = 1; return a; }"),
            ("await (async () => { return 1 })();", "{ return 1; }"),
            ("void (async () => { return 1 })()", "{ return 1; }"),
            ("(async () => { return 1 })().catch(console.error)", "return (async () => { return 1; })().catch(console.error);"),
            // Parameters that stand for what a program sees anyway.
            ("async (mcp, args) => 1", "return await (async (mcp, args) => 1)(mcp, args);"),
            ("async ({ city }) => city", "return await (async ({ city }) => city)(args ?? {});"),
            ("async ({ mcp }) => 1", "return await (async ({ mcp }) => 1)({ \"mcp\": mcp, \"pml\": pml, \"args\": args, \"console\": console, ...pml });"),
            ("async (x = 1) => x", "return await (async (x = 1) => x)(undefined);"),
            // Exports.
            ("export default async () => { return 1 }", "{ return 1; }"),
            ("export default async function f() { return 1 }", "async function f() { return 1; } return await f();"),
            ("export default { async run() { return 1 } }", "return await { async run() { return 1; } }.run();"),
            ("let x = 1; export default x; x = 2", "let x = 1; const $result = x; x = 2; return $result;"),
            ("const x = 1; export { x as default }", "const x = 1; return x;"),
            ("async function main() { return 1 } export { main }", "async function main() { return 1; } return await main();"),
            ("module.exports = async () => { return 1 }", "{ return 1; }"),
            ("const f = () => 1; module.exports = f", "const f = () => 1; return await f();"),
            ("exports.default = 5", "return 5;"),
            ("export = 5", "return 5;"),
            ("const module = {}; module.exports = 5", "const module = {}; return module.exports = 5;"),
            // The last expression, wherever it stands.
            ("5;;", "return 5; ;"),
            ("f(); function f() {}", "return f(); function f() {}"),
            ("main(); async function main() {}", "return main(); async function main() {}"),
            ("void main(); async function main() {}", "return main(); async function main() {}"),
            ("if (a) { b } else c", "if (a) { return b; } else return c;"),
            ("try { f() } catch (e) { e.message }", "try { return await f(); } catch (e) { return e.message; }"),
            ("const a = []; if (b) a.push(1)", "const a = []; if (b) a.push(1);"),
            ("{ a: 1, b: 2 }", "return { a: 1, b: 2 };"),
            ("const a = 1, b = 2; { a, b }", "const a = 1, b = 2; return { \"a\": a, \"b\": b };"),
            ("const a = 1, b = 2; { sum: a + b, b }", "const a = 1, b = 2; return { \"sum\": a + b, \"b\": b };"),
            ("const a = 1; { f(); a }", "const a = 1; { f(); return a; }"),
            ("const a = 1; return\n{ a }", "const a = 1; return { \"a\": a };"),
            ("const a = 1; return\na", "const a = 1; return a;"),
            ("switch (a) { case 1: 'x'; break; default: 'y' }", "switch (a) { case 1: return \"x\"; break; default: return \"y\"; }"),
            ("!async function () { return 1 }()", "{ return 1; }"),
            ("exports.main = async () => { return 1 }", "{ return 1; }"),
            ("const run = () => 1; exports.handler = run", "const run = () => 1; return await run();"),
            ("function f() {} if (require.main === module) f()", "function f() {} return f();"),
            ("function f() {} if (import.meta.main) { await f() }", "function f() {} { return await f(); }"),
            // What is used is not called, nor what is one of several.
            ("function run() {} run", "function run() {} return await run();"),
            ("function f() {} function g() {}", "function f() {} function g() {}"),
            ("const a = f(); function g() {}", "const a = f(); function g() {}"),
            ("async function main() { await main() }", "async function main() { await main(); } return await main();"),
            ("console.log(1); function main() {}", "console.log(1); function main() {} return await main();"),
            ("class A { run() {} }", "class A { run() {} }"),
        ];
        for (code, expected) in table {
            let program = compile(code, "agent.ts", Probes::Omit).unwrap_or_else(|report| panic!("{code}: {report:?}"));
            let body = program.javascript.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(body, format!("async ($probe) => {{ {expected} }};"), "{code}");
        }
    }

    #[test]
    fn what_cannot_be_called_says_what_to_send() {
        let table = [
            ("async (ctx) => 1", "a function, and it takes `ctx`", "mcp"),
            ("async ({ mcp, x }) => 1", "takes a parameter", "mcp"),
            ("function* main() {}", "`main` is never called, and it is a generator", "await main(…)"),
            ("function f(x) { return x }", "`f` is never called, and it takes `x`", "return await f(…)"),
            ("```ts\n1\n```\n```ts\n2\n```", "several code blocks", "one program"),
            ("Here is the code you asked for", "", "the code alone"),
            ("const a = 1;\\nreturn a", "", "real ones"),
            ("return “a”", "", "typographic"),
            ("[1].map((x) =&gt; x)", "", "escaped as HTML"),
        ];
        for (code, message, hint) in table {
            let report = compile(code, "agent.ts", Probes::Omit).unwrap_err();
            assert!(report.message.contains(message), "{code}: {report:?}");
            assert!(report.hint.as_deref().unwrap_or_default().contains(hint), "{code}: {report:?}");
        }
    }

    #[test]
    fn a_value_that_is_not_returned_is_named() {
        let table = [
            ("const a = await f();\nconst b = a.length", Some("`b` (line 2)")),
            ("const all = [];\nfor (const x of y) all.push(x)", Some("`all` (line 1)")),
            ("let sum = 0; for (const x of y) { sum += x }", Some("`sum`")),
            ("const o = {}; for (const k in y) o[k] = 1", Some("`o`")),
            (
                "async function main() { const found = await f() }",
                Some("`main` ended without a value although it computed `found`"),
            ),
            ("const main = async () => { const found = await f() }", Some("`found`")),
            ("async () => { const found = await f() }", Some("`found`")),
            ("const a = f(); g(a)", None),
            ("for (const x of y) g(x)", None),
            ("const f = () => 1; [1].map(f)", None),
        ];
        for (code, expected) in table {
            let warning = compile(code, "agent.ts", Probes::Omit).unwrap().unreturned;
            match expected {
                Some(expected) => {
                    assert!(warning.as_deref().unwrap_or_default().contains(expected), "{code}: {warning:?}")
                }
                None => assert_eq!(warning, None, "{code}"),
            }
        }
        let program = compile("const a = []; a.push(1)", "agent.ts", Probes::Omit).unwrap();
        assert!(program.warnings[0].contains("return a"), "{:?}", program.warnings);
    }
}
